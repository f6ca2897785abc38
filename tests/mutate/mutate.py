"""mutate.py: mutation testing: shows whether a test would notice a mistake. Makes small changes of the product (changes.py),
one at a time. Runs the tests that can see the change, the quickest first (table.py), until one fails. Prints the changes
that no test notices, as a diff.

The changes are made in a copy of the tree in build-mutate/, with its own build directory. A change does not count if it
does not compile or gives the same object file. A program is linked when it is run, and is not run if the change leaves it
identical. Each program ends at its first failed check. A failed Python program is run once more, because a busy machine may
make it fail. A test that fails for the first time is also run on the unchanged copy; if it fails there too, it is left out
and reported. Tests that noticed changes of the same folder, and tests named like the changed file, run first.

build-mutate/known.json keeps how long each test takes. --journal keeps the results, a line of JSON per change (journal.py).
"""
import argparse
import difflib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import changes
import journal as journals
import table

PRODUCT = ("common", "proto", "storage", "broker", "client/lib", "client/tool")
PYTHON_S, C_S = 10, 0.5  # assumed time in s of a test that has not run yet and does not state its time
SLOWER = 4  # a test may take at most this multiple of its usual time
PATIENCE_S = 15
RULES = "mutate.ninja"  # a copy of build.ninja that does not regenerate itself
EACH = 18  # number of changes of a folder that are tried before other folders follow
AT_ONCE = max(2, len(os.sched_getaffinity(0)))  # number of programs at the same time; twice as many for Python programs, which mostly wait
ENV = {**os.environ, "CCACHE_NOHASHDIR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
# Built files that Python programs run: all programs and libraries whose path begins with one of these prefixes.
HELPERS = ("tests/e2e/", "tests/hostile/", "tests/coordinator/", "tests/crash/", "tests/unit/cut_tail", "client/examples/", "broker/shell/tarryd", "client/tool/tarry",
           "client/libtarry")
SAID_MAX = 1 << 20
PLAIN = ("--buildtype=debugoptimized", "-Dc_args=-g1")  # the options of ./dev build, so that ccache has the objects
SANITIZED = ("--buildtype=debugoptimized", "-Doptimization=0", "-Dc_args=-g1 -Wno-format-truncation", "-Db_sanitize=address,undefined",
             "-Db_lundef=false")  # the options of ./dev build --asan
SANITIZER_ENV = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:strict_string_checks=1:verify_asan_link_order=0",
                 "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}  # the sanitizer options of tests/run.py
NOT_OK = re.compile(r"^not ok \d+ - (.*)$", re.MULTILINE)
FOUND, SURVIVED, SAME, NO_C, EQUIVALENT = "found", "SURVIVED", "same object", "does not compile", "equivalent"


def run(command, cwd):
    return subprocess.run(command, cwd=cwd, env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)


class Copy:
    """The copy of the tree. `root` is its directory, `build` its build directory."""

    def __init__(self, source, directory, sanitized=False):
        self.source, self.root = source, os.path.join(directory, "tree")
        self.sanitized, self.build = sanitized, os.path.join(self.root, "build-asan" if sanitized else "build")

    def update(self):
        """Copies every current file, except built files and git's."""
        names = set(self.files_of(self.source))
        for name in names:
            self.restore(name)
        for name in set(self.files_of(self.root)) - names:
            os.unlink(os.path.join(self.root, name))

    @staticmethod
    def files_of(root):
        for directory, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name not in (".git", ".cache", "__pycache__")
                          and not (directory == root and name.startswith("build"))]
            yield from (os.path.relpath(os.path.join(directory, name), root) for name in files if name != ".git")

    def restore(self, name):
        source, path = os.path.join(self.source, name), os.path.join(self.root, name)
        with open(source, "rb") as file:
            content = file.read()
        if os.path.exists(path):
            with open(path, "rb") as file:
                if file.read() == content:
                    return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        shutil.copymode(source, path)

    def write(self, name, text):
        with open(os.path.join(self.root, name), "w", encoding="utf-8") as file:
            file.write(text)

    def configure(self):
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            done = run(["meson", "setup", self.build, self.root, "-Dtests=true", *(SANITIZED if self.sanitized else PLAIN),
                        *(["-Dc_link_args=-fuse-ld=lld"] if shutil.which("ld.lld") else [])], self.root)
            if done.returncode != 0:
                sys.exit(f"mutate: {self.build} cannot be configured:\n{done.stdout}")
        if said := self.ninja(["build.ninja"], "build.ninja"):  # these are targets that meson.build has added since the last run
            sys.exit(f"mutate: {self.build} cannot be configured:\n{said}")
        # A change of a file that meson.build reads would make ninja run meson again.
        with open(os.path.join(self.build, "build.ninja"), encoding="utf-8") as file:
            rules = re.sub(r"^build build\.ninja:.*\n( .*\n)*", "", file.read(), flags=re.MULTILINE)
        with open(os.path.join(self.build, RULES), "w", encoding="utf-8") as file:
            file.write(rules)

    def introspect(self, what):
        return json.loads(subprocess.run(["meson", "introspect", self.build, what], stdout=subprocess.PIPE, check=True).stdout)

    def ninja(self, targets, rules=None):
        """Returns None, or the compiler's output."""
        done = run(["ninja", "-C", self.build, "-f", rules or RULES, *targets], self.root)
        return None if done.returncode == 0 else done.stdout


class Program:
    """A test of the copy."""

    def __init__(self, copy, entry, targets):
        self.copy, self.name = copy, entry["name"]
        self.command, self.env = entry["cmd"], {**ENV, **(SANITIZER_ENV if copy.sanitized else {}), **entry["env"]}
        self.is_python = self.command[-1].endswith(".py")
        self.targets = [target for name in entry["depends"] for target in targets.get(name, [])]
        self.guess_s, self.timeout_s = entry["priority"] or (PYTHON_S if self.is_python else C_S), entry["timeout"]
        self.took_s = None  # duration of the last passed run in seconds; None: not known
        self.has_passed = False  # True: the test has passed in this run
        self.found = {}  # folder → number of changes there that this test has noticed
        self.process = self.started = self.said = self.complaint = None

    def limit_s(self):
        return PATIENCE_S + SLOWER * self.took_s if self.took_s is not None else self.timeout_s

    def rank(self, path):
        """The lowest rank runs first: quick tests, tests that noticed changes of the folder, and tests whose name has a word of
        the file's name."""
        words = [word for word in os.path.basename(path)[:-2].split("_") if len(word) > 2]
        is_namesake = any(word.rstrip("s") in self.name for word in words)
        return (self.took_s or self.guess_s) / (1 + 2 * self.found.get(os.path.dirname(path), 0)) / (4 if is_namesake else 1)

    def start(self, checks=()):
        """Starts the whole program, or only the named checks."""
        self.started, self.complaint, self.said = time.monotonic(), None, tempfile.TemporaryFile()
        self.process = subprocess.Popen([*self.command, *checks], cwd=self.copy.build, env=self.env, stdin=subprocess.DEVNULL,
                                        stdout=self.said, stderr=subprocess.DEVNULL, start_new_session=True)

    def complains(self):
        """Returns whether a check has failed. `complaint` is then the name of that check."""
        said = os.pread(self.said.fileno(), SAID_MAX, 0).decode("utf-8", "replace")
        found = NOT_OK.search(said)
        if found:
            self.complaint = found.group(1)
        return self.complaint is not None

    def outcome(self, limit_s):
        """Returns True if the program passed; False if it failed or took too long; None if it still runs."""
        status = self.process.poll()
        if self.complains() or (status is None and time.monotonic() - self.started > limit_s):
            self.stop()
            return False
        return None if status is None else status in (0, 77)

    def stop(self):
        """Stops the program and its child processes, which have a session of their own."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.said.close()

    def fails_again(self):
        """For a Python program: runs the failed check once more, or everything if the check is not known."""
        check = re.match(r"[A-Z]\w+\.test( \w+)+(?= [(\[]|$)", self.complaint or "")
        return not self.run(self.limit_s(), [check.group(0).replace(" ", "_")] if check else [])

    def run(self, limit_s, checks=()):
        self.start(checks)
        while (passed := self.outcome(limit_s)) is None:
            time.sleep(0.02)
        self.stop()
        return passed

    def note(self, passed):
        """Notes the result of the last run."""
        if passed:
            self.has_passed, self.took_s = True, time.monotonic() - self.started


class Judge:
    """The list of tests, and how long each takes."""

    def __init__(self, copy, say, quick=False):
        self.copy, self.say, self.quick = copy, say, quick
        built = {target["id"]: [os.path.relpath(name, copy.build) for name in target["filename"]] for target in copy.introspect("--targets")}
        self.helpers = [name for names in built.values() for name in names if name.startswith(HELPERS)]
        self.programs = {entry["name"]: Program(copy, entry, built) for entry in copy.introspect("--tests")}
        # The sanitized build runs only what is not long, as in ./dev test.
        self.left_out = {entry["name"] for entry in copy.introspect("--tests") if copy.sanitized and any("long" in suite for suite in entry["suite"])}
        self.unchanged = {}
        self.is_python_only = False  # all other tests have passed with the change
        if not copy.sanitized and (wrong := table.unknown_patterns(list(self.programs))):  # some tests exist only in the plain build
            sys.exit(f"mutate: tests/mutate/table.py names tests that there are not: {', '.join(wrong)}")

    def prepare(self):
        """Builds everything needed, and remembers the unchanged objects."""
        targets = self.targets([program for program in self.programs.values() if program.name not in self.left_out])
        if said := self.copy.ninja(targets):
            sys.exit(f"mutate: the unchanged tree does not build:\n{said}")
        self.unchanged = {target: self.digest(target) for target in targets}

    def digest(self, target):
        """Returns the hash of the target's file; None: the file does not exist any more."""
        try:
            with open(os.path.join(self.copy.build, target), "rb") as file:
                return hashlib.sha256(file.read()).digest()
        except FileNotFoundError:
            return None

    def load(self, path):
        """Loads the results of an earlier run."""
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                for name, known in json.load(file).items():
                    if name in self.programs:
                        self.programs[name].took_s, self.programs[name].found = known["took_s"], known["found"]

    def save(self, path):
        with open(path + ".new", "w", encoding="ascii") as file:
            json.dump({program.name: {"took_s": program.took_s, "found": program.found} for program in self.programs.values()}, file, indent=1)
        os.rename(path + ".new", path)

    def stages(self, path):
        """Returns the programs that may notice a change of `path`, stage by stage."""
        asked = set()
        for patterns in table.stages_of(path):
            names = table.chosen(list(self.programs), patterns, asked)
            asked.update(names)
            chosen = [self.programs[name] for name in names if name not in self.left_out]
            if chosen := [program for program in chosen if not (self.quick if program.is_python else self.is_python_only)]:
                yield chosen

    def targets(self, programs):
        found = [target for program in programs for target in program.targets]
        return list(dict.fromkeys(found + (self.helpers if any(program.is_python for program in programs) else [])))

    def differs(self, program):
        """Returns whether the change is contained in the files that the test runs."""
        return any(self.digest(target) != self.unchanged.get(target) for target in self.targets([program]))

    def is_to_be_believed(self, program, path, original, text):
        """Returns whether a failed program passes without the change. A program that does not is left out."""
        if not program.has_passed:
            self.copy.write(path, original)
            if said := self.copy.ninja(self.targets([program])):
                sys.exit(f"mutate: the unchanged tree does not build:\n{said}")
            program.note(program.run(program.timeout_s) or program.run(program.timeout_s))
            if not program.has_passed:
                self.say(f"{program.name} fails on the unchanged tree, and is left out")
                self.left_out.add(program.name)
            self.copy.write(path, text)
        return program.has_passed

    def find(self, path, original, text):
        """Returns the result for the copy when `path` has the contents `text`: FOUND, SURVIVED or NO_C; and the name of the test
        that noticed it."""
        for programs in self.stages(path):
            left, some = sorted(programs, key=lambda program: program.rank(path)), 2 * AT_ONCE if programs[0].is_python else AT_ONCE
            while left:
                # Each group has twice as many programs as the one before, because the first programs notice nearly all
                # changes.
                group, left, some = left[:some], left[some:], 2 * some
                if self.copy.ninja(self.targets(group)) is not None:
                    return NO_C, None
                if found := self.first_to_fail([program for program in group if self.differs(program)], path, original, text):
                    return FOUND, found
        return SURVIVED, None

    def first_to_fail(self, programs, path, original, text):
        """Returns the name of a failing program; None: all pass."""
        left, folder = list(programs), os.path.dirname(path)
        while left:
            for program, passed in ended(list(left)):
                left.remove(program)
                if not passed:
                    break
            else:
                return None
            if (not program.is_python or program.fails_again()) and self.is_to_be_believed(program, path, original, text):
                program.found[folder] = program.found.get(folder, 0) + 1
                return program.name
            self.copy.ninja(self.targets(left))
        return None


def ended(programs):
    """Runs the programs, some at a time; yields (program, whether it passed) as each ends. Stops the others when the caller needs
    no more."""
    waiting, running = list(programs), []
    try:
        while waiting or running:
            while waiting and len(running) < (2 * AT_ONCE if waiting[0].is_python else AT_ONCE):
                running.append(waiting.pop(0))
                running[-1].start()
            for program in running[:]:
                passed = program.outcome(program.limit_s())
                if passed is not None:
                    running.remove(program)
                    program.stop()
                    program.note(passed)
                    yield program, passed
            time.sleep(0.01)
    finally:
        for program in running:
            program.stop()


class Compiler:
    """Compares the object file of a source with the unchanged one."""

    def __init__(self, copy):
        with open(os.path.join(copy.build, "compile_commands.json"), encoding="utf-8") as file:
            entries = json.load(file)
        self.commands = {os.path.normpath(os.path.join(entry["directory"], entry["file"])): entry for entry in reversed(entries)}
        self.copy = copy

    def knows(self, path):
        return os.path.join(self.copy.root, path) in self.commands

    def object_of(self, path):
        """Returns the object's bytes without debug information; None: it does not compile."""
        name, out = self.commands[os.path.join(self.copy.root, path)]["output"], os.path.join(self.copy.build, "mutant.o")
        if self.copy.ninja([name]) is not None or run(["strip", "-g", "-o", out, name], self.copy.build).returncode != 0:
            return None
        with open(out, "rb") as file:
            return file.read()


def candidates(copy, compiler, folders):
    """Returns (path, lines, change) for all files of these folders."""
    for folder in folders:
        for directory, _, files in os.walk(os.path.join(copy.root, folder)):
            for name in sorted(files):
                path = os.path.relpath(os.path.join(directory, name), copy.root)
                if name.endswith(".c") and compiler.knows(path) and table.stages_of(path):
                    with open(os.path.join(copy.root, path), encoding="utf-8") as file:
                        lines = file.read().split("\n")
                    for change in changes.changes_of(lines):
                        yield path, lines, change


def only_at(found, places):
    return (item for item in found if not places or f"{item[0]}:{item[2].line + 1} {item[2].kind}" in places)


def difference(path, lines, change):
    changed = [*lines[:change.line], change.text, *lines[change.line + 1:]]
    return "\n".join(difflib.unified_diff(lines, changed, f"a/{path}", f"b/{path}", n=3, lineterm=""))


def play(judge, compiler, path, lines, change):
    """Tries one change. Returns its result and the test that noticed it."""
    original, before = "\n".join(lines), compiler.object_of(path)
    if before is None:
        sys.exit(f"mutate: the unchanged {path} does not compile")
    text = "\n".join([*lines[:change.line], change.text, *lines[change.line + 1:]])
    try:
        judge.copy.write(path, text)
        after = compiler.object_of(path)
        if after is None or after == before:
            return (NO_C if after is None else SAME), None
        return judge.find(path, original, text)
    finally:
        judge.copy.write(path, original)  # restores the file, because the copy may still have the change


def parse_options():
    parser = argparse.ArgumentParser(prog="./dev mutate", description="Makes small changes of the product on purpose, one at a time, and runs the "
                                     "tests that can see them, the quickest first. Lists those that no test notices. Exits 1 if there are any.")
    parser.add_argument("--folder", action="append", metavar="DIR", help="only files below it, such as broker/core; may be given again")
    parser.add_argument("--count", type=int, default=30, metavar="N", help="so many changes that count (default 30)")
    parser.add_argument("--quick", action="store_true", help="leave out the tests that are programs of Python: what survives may be found by those")
    parser.add_argument("--at", action="append", metavar="FILE:LINE KIND", help="only that change, as it is told; may be given again")
    parser.add_argument("--minutes", type=float, metavar="N", help="begin nothing new after so long")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 24), metavar="N", help="which changes (default: other ones each time)")
    parser.add_argument("--journal", metavar="FILE", help="keep there what was judged; what it knows is not judged again, but what survived --quick")
    parser.add_argument("--again", action="store_true", help="of --journal: only what survived, once more, after tests were written")
    parser.add_argument("--sanitized", action="store_true", help="judge by the build with AddressSanitizer and UndefinedBehaviorSanitizer: they "
                        "see what is read or written too far, and what is never given back; best with --again")
    parser.add_argument("--root", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder = [folder.rstrip("/") for folder in options.folder or PRODUCT]
    for folder in options.folder:
        if not os.path.isdir(os.path.join(options.root, folder)):
            parser.error(f"--folder: there is no folder {folder}; name one below {options.root}, such as broker/core")
    if options.again and not options.journal:
        parser.error("--again is of a journal: name it with --journal")
    if options.count < 1 or (options.minutes is not None and options.minutes <= 0):
        parser.error("--count and --minutes take a number above 0")
    return options


def spread(found, seed):
    """Returns the changes in a random order. First come up to EACH changes of each folder in turn, then all others, so that
    large folders get more. The order depends only on the seed and on each change, so two similar trees have similar orders.
    """
    folders = {}
    for item in found:
        place = hashlib.sha256(f"{seed} {journals.identity(*item)}".encode()).hexdigest()
        folders.setdefault(os.path.dirname(item[0]), []).append((place, item))
    turns = [(min(turn, EACH), place, item) for items in folders.values()
             for turn, (place, item) in enumerate(sorted(items, key=lambda entry: entry[0]))]
    return [item for _, _, item in sorted(turns, key=lambda entry: entry[:2])]


def report(counts, survivors, seed):
    print(f"\n{'folder':28} {'tried':>6} {FOUND:>6} {'survived':>9} {EQUIVALENT:>11}")
    for folder, outcomes in sorted(counts.items()):
        found, survived = outcomes.get(FOUND, 0), outcomes.get(SURVIVED, 0)
        print(f"{folder:28} {found + survived:6} {found:6} {survived:9} {outcomes.get(EQUIVALENT, 0):11}")
    total = {kind: sum(outcomes.get(kind, 0) for outcomes in counts.values()) for kind in (FOUND, SURVIVED, SAME, NO_C, EQUIVALENT)}
    print("\n".join(survivors))
    print(f"seed {seed}: {total[FOUND] + total[SURVIVED]} changes, {total[FOUND]} found, {total[SURVIVED]} survived; "
          f"{total[SAME]} changed no object file, {total[NO_C]} were no C, {total[EQUIVALENT]} are equivalent")
    return 1 if survivors else 0


class Run:
    """Tries changes one after the other, and keeps the results."""

    def __init__(self, options, judge, compiler):
        self.options, self.judge, self.compiler = options, judge, compiler
        self.journal = journals.Journal(options.journal)
        self.counts, self.survivors, self.tried = {}, [], 0

    def is_judged(self, known):
        if "equivalent" in known:
            return True
        if known.get("outcome") == SURVIVED:
            return not self.options.again and (self.options.quick or not known.get("quick"))
        return "outcome" in known

    def one(self, path, lines, change):
        known = self.journal.of(key := journals.identity(path, lines, change))
        if self.options.again and known.get("outcome") != SURVIVED:
            return
        place, begun = f"{path}:{change.line + 1} {change.kind}", time.monotonic()
        if self.is_judged(known):
            outcome, finder = EQUIVALENT if "equivalent" in known else known["outcome"], known.get("finder")
        else:
            self.judge.is_python_only = known.get("quick", False) and not self.options.again
            outcome, finder = play(self.judge, self.compiler, path, lines, change)
            self.journal.add({"id": key, "outcome": outcome, "finder": finder, "place": place, "text": change.text.strip(), "quick": self.options.quick,
                              **({"sanitized": True} if self.options.sanitized else {}),
                              "seconds": round(time.monotonic() - begun, 1)})
        self.count(outcome, finder, place, path, lines, change)

    def count(self, outcome, finder, place, path, lines, change):
        outcomes = self.counts.setdefault(os.path.dirname(path), {})
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        self.tried += outcome in (FOUND, SURVIVED)
        print(f"{outcome:16} {place}{f' ({finder})' if finder else ''}", flush=True)
        if outcome == SURVIVED:
            self.survivors.append(difference(path, lines, change))
            print(self.survivors[-1], flush=True)


def main():
    options = parse_options()
    started, directory = time.monotonic(), options.directory or os.path.join(options.root, "build-mutate")
    copy = Copy(options.root, directory, options.sanitized)
    copy.update()
    copy.configure()
    compiler, judge = Compiler(copy), Judge(copy, lambda text: print(text, flush=True), options.quick)
    known = os.path.join(directory, "known-asan.json" if options.sanitized else "known.json")
    judge.load(known)
    judge.prepare()
    run_of_all = Run(options, judge, compiler)
    for path, lines, change in spread(only_at(candidates(copy, compiler, options.folder), options.at), options.seed):
        if run_of_all.tried == options.count or (options.minutes and time.monotonic() - started > options.minutes * 60):
            break
        run_of_all.one(path, lines, change)
        judge.save(known)
    sys.exit(report(run_of_all.counts, run_of_all.survivors, options.seed))


if __name__ == "__main__":
    main()
