"""mutate.py: would a test notice? Makes small changes of the product on purpose (changes.py), one at a time, and runs the tests that can
see them, the quickest first (table.py), until one fails. Those that no test notices are told, as a diff.

It works on a copy of the tree in build-mutate/, with a build directory of its own. A change whose object file is the same, byte by byte, is
none; one that does not compile is none either; neither counts. Before its first use a test is run on the unchanged copy: one that fails
there is left out and told of. A program is ended at its first check that fails. Of a program of Python that check is run once more before it
counts, for a busy machine is no discovery. What has found changes of the same folder before goes first.
"""
import argparse
import difflib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import changes
import table

PRODUCT = ("common", "proto", "storage", "broker", "client/lib", "client/tool")
START_S = 1200  # for a test on the unchanged tree
SLOWER = 8  # a test may take so many times as long as on the unchanged tree
PATIENCE_S = 30
AT_ONCE = max(2, len(os.sched_getaffinity(0)))
ENV = {**os.environ, "CCACHE_NOHASHDIR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
# What programs of Python run: of these folders everything that is a program or is preloaded.
HELPERS = ("tests/e2e/", "tests/coordinator/", "tests/crash/", "tests/unit/cut_tail", "broker/shell/tarryd", "client/tool/tarry")
SAID_MAX = 1 << 20
NOT_OK = re.compile(r"^not ok \d+ - (.*)$", re.MULTILINE)
FOUND, SURVIVED, SAME, NO_C = "found", "SURVIVED", "same object", "does not compile"


def run(command, cwd):
    return subprocess.run(command, cwd=cwd, env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)


class Copy:
    """The tree beside the tree: `root` is where it lies, `build` its build directory."""

    def __init__(self, source, directory):
        self.source, self.root = source, os.path.join(directory, "tree")
        self.build = os.path.join(self.root, "build")

    def update(self):
        """Every file as it is now, but for what is built and git's."""
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
            # As ./dev build says it: what ccache has of that need not be compiled again.
            done = run(["meson", "setup", self.build, self.root, "-Dtests=true", "--buildtype=debugoptimized", "-Dc_args=-g1"], self.root)
            if done.returncode != 0:
                sys.exit(f"mutate: {self.build} cannot be configured:\n{done.stdout}")
        if said := self.ninja(["build.ninja"]):  # what meson.build has said since
            sys.exit(f"mutate: {self.build} cannot be configured:\n{said}")

    def introspect(self, what):
        return json.loads(subprocess.run(["meson", "introspect", self.build, what], stdout=subprocess.PIPE, check=True).stdout)

    def ninja(self, targets):
        """None, or what the compiler said."""
        done = run(["ninja", "-C", self.build, *targets], self.root)
        return None if done.returncode == 0 else done.stdout


class Program:
    """A test of the copy."""

    def __init__(self, copy, entry, targets):
        self.copy, self.name = copy, entry["name"]
        self.command, self.env = entry["cmd"], {**ENV, **entry["env"]}
        self.is_python = self.command[-1].endswith(".py")
        self.targets = [target for name in entry["depends"] for target in targets.get(name, [])]
        self.took_s = None  # on the unchanged tree; None: not run yet
        self.found = {}  # folder: how many changes there it has noticed
        self.process = self.started = self.said = self.complaint = None

    def limit_s(self):
        return PATIENCE_S + SLOWER * self.took_s

    def rank(self, folder):
        """The lowest goes first: what is quick, and what has noticed changes of the folder."""
        return self.took_s / (1 + 2 * self.found.get(folder, 0))

    def start(self, checks=()):
        """All of it, or the checks that are named."""
        self.started, self.complaint, self.said = time.monotonic(), None, tempfile.TemporaryFile()
        self.process = subprocess.Popen([*self.command, *checks], cwd=self.copy.build, env=self.env, stdin=subprocess.DEVNULL,
                                        stdout=self.said, stderr=subprocess.DEVNULL, start_new_session=True)

    def complains(self):
        """Whether a check of it has failed; its complaint is the name, then."""
        said = os.pread(self.said.fileno(), SAID_MAX, 0).decode("utf-8", "replace")
        found = NOT_OK.search(said)
        if found:
            self.complaint = found.group(1)
        return self.complaint is not None

    def outcome(self, limit_s):
        """True: it passed; False: it failed, or took too long; None: it runs."""
        status = self.process.poll()
        if self.complains() or (status is None and time.monotonic() - self.started > limit_s):
            self.stop()
            return False
        return None if status is None else status in (0, 77)

    def stop(self):
        """It, and what it has started: a session of their own."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.said.close()

    def fails_again(self):
        """Of a program of Python: the check that has failed, once more; all of it, if that is not known."""
        check = re.match(r"[A-Z]\w+\.test( \w+)+(?= [(\[]|$)", self.complaint or "")
        return not self.run(self.limit_s(), [check.group(0).replace(" ", "_")] if check else [])

    def run(self, limit_s, checks=()):
        self.start(checks)
        while (passed := self.outcome(limit_s)) is None:
            time.sleep(0.02)
        self.stop()
        return passed


class Judge:
    """Knows the tests, and how long each takes on the unchanged copy."""

    def __init__(self, copy, say, quick=False):
        self.copy, self.say, self.quick = copy, say, quick
        built = {target["id"]: [os.path.relpath(name, copy.build) for name in target["filename"]] for target in copy.introspect("--targets")}
        self.helpers = [name for names in built.values() for name in names if name.startswith(HELPERS)]
        self.programs = {entry["name"]: Program(copy, entry, built) for entry in copy.introspect("--tests")}
        self.left_out = set()
        if wrong := table.unknown_patterns(list(self.programs)):
            sys.exit(f"mutate: tests/mutate/table.py names tests that there are not: {', '.join(wrong)}")

    def stages(self, path):
        """Programs that may see a change of `path`, stage by stage."""
        asked = set()
        for patterns in table.stages_of(path):
            names = table.chosen(list(self.programs), patterns, asked)
            asked.update(names)
            chosen = [self.programs[name] for name in names if name not in self.left_out]
            if chosen := [program for program in chosen if not (self.quick and program.is_python)]:
                yield chosen

    def targets(self, programs):
        return sorted({target for program in programs for target in program.targets} | set(self.helpers if any(p.is_python for p in programs) else []))

    def knows(self, programs):
        return all(program.took_s is not None for program in programs)

    def know(self, programs):
        """Builds and runs on the unchanged copy what has not been run yet."""
        new = [program for program in programs if program.took_s is None]
        if said := self.copy.ninja(self.targets(new)):
            sys.exit(f"mutate: the unchanged tree does not build:\n{said}")
        for program, passed in ended(new, lambda program: START_S):
            if not passed and not program.run(START_S):
                self.say(f"{program.name} fails on the unchanged tree, and is left out")
                self.left_out.add(program.name)
            program.took_s = time.monotonic() - program.started

    def find(self, path, original, text):
        """What becomes of the copy when `path` is `text`: FOUND, SURVIVED or NO_C; and the name of the test that noticed it."""
        for programs in self.stages(path):
            if not self.knows(programs):
                self.copy.write(path, original)
                self.know(programs)
                programs = [program for program in programs if program.name not in self.left_out]
            self.copy.write(path, text)
            if self.copy.ninja(self.targets(programs)) is not None:
                return NO_C, None
            if found := first_to_fail(programs, os.path.dirname(path)):
                return FOUND, found
        return SURVIVED, None


def ended(programs, limit_of):
    """Runs them, some at a time: (program, whether it passed) of each as it ends. What runs when nobody asks any more is stopped."""
    waiting, running = list(programs), []
    try:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                running.append(waiting.pop(0))
                running[-1].start()
            for program in running[:]:
                passed = program.outcome(limit_of(program))
                if passed is not None:
                    running.remove(program)
                    program.stop()
                    yield program, passed
            time.sleep(0.02)
    finally:
        for program in running:
            program.stop()


def first_to_fail(programs, folder):
    """The name of one; None: all pass."""
    left = sorted(programs, key=lambda program: program.rank(folder))
    while failed := next((program for program, passed in ended(left, Program.limit_s) if not passed), None):
        if not failed.is_python or failed.fails_again():
            failed.found[folder] = failed.found.get(folder, 0) + 1
            return failed.name
        left.remove(failed)
    return None


class Compiler:
    """Whether the object file of a source differs."""

    def __init__(self, copy):
        with open(os.path.join(copy.build, "compile_commands.json"), encoding="utf-8") as file:
            entries = json.load(file)
        self.commands = {os.path.normpath(os.path.join(entry["directory"], entry["file"])): entry for entry in reversed(entries)}
        self.copy = copy

    def knows(self, path):
        return os.path.join(self.copy.root, path) in self.commands

    def prepare(self, path):
        """What is generated that it includes is there."""
        if said := self.copy.ninja([self.commands[os.path.join(self.copy.root, path)]["output"]]):
            sys.exit(f"mutate: the unchanged {path} does not compile:\n{said}")

    def object_of(self, path):
        """Its bytes; None: it does not compile."""
        entry = self.commands[os.path.join(self.copy.root, path)]
        words, out = shlex.split(entry["command"]), os.path.join(self.copy.build, "mutant.o")
        words[words.index("-o") + 1] = out
        if run([*words, "-w", "-g0"], entry["directory"]).returncode != 0:
            return None
        with open(out, "rb") as file:
            return file.read()


def candidates(copy, compiler, folders):
    """(path, lines, change) of all files of these folders."""
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
    """What becomes of one change, and which test found it."""
    original, before = "\n".join(lines), compiler.object_of(path)
    if before is None:
        compiler.prepare(path)
        before = compiler.object_of(path)
    text = "\n".join([*lines[:change.line], change.text, *lines[change.line + 1:]])
    try:
        judge.copy.write(path, text)
        after = compiler.object_of(path)
        if after is None or after == before:
            return (NO_C if after is None else SAME), None
        return judge.find(path, original, text)
    finally:
        judge.copy.write(path, original)  # the tree that was copied may be another one by now


def parse_options():
    parser = argparse.ArgumentParser(prog="./dev mutate", description="Makes small changes of the product on purpose, one at a time, and runs the "
                                     "tests that can see them, the quickest first. Lists those that no test notices. Exits 1 if there are any.")
    parser.add_argument("--folder", action="append", metavar="DIR", help="only files below it, such as broker/core; may be given again")
    parser.add_argument("--count", type=int, default=30, metavar="N", help="so many changes that count (default 30)")
    parser.add_argument("--quick", action="store_true", help="leave out the tests that are programs of Python: what survives may be found by those")
    parser.add_argument("--at", action="append", metavar="FILE:LINE KIND", help="only that change, as it is told; may be given again")
    parser.add_argument("--minutes", type=float, metavar="N", help="begin nothing new after so long")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 24), metavar="N", help="which changes (default: other ones each time)")
    parser.add_argument("--root", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder = [folder.rstrip("/") for folder in options.folder or PRODUCT]
    for folder in options.folder:
        if not os.path.isdir(os.path.join(options.root, folder)):
            parser.error(f"--folder: there is no folder {folder}; name one below {options.root}, such as broker/core")
    if options.count < 1 or (options.minutes is not None and options.minutes <= 0):
        parser.error("--count and --minutes take a number above 0")
    return options


def spread(found, seed):
    """In a random order in which every folder of the table has its turn, as often as the others."""
    draw, folders = random.Random(seed), {}
    for item in found:
        folders.setdefault(os.path.dirname(item[0]), []).append(item)
    for items in folders.values():
        draw.shuffle(items)
    names = sorted(folders)
    while any(folders.values()):
        draw.shuffle(names)
        for name in names:
            if folders[name]:
                yield folders[name].pop()


def report(counts, survivors, seed):
    print(f"\n{'folder':28} {'tried':>6} {FOUND:>6} {'survived':>9}")
    for folder, outcomes in sorted(counts.items()):
        tried = outcomes.get(FOUND, 0) + outcomes.get(SURVIVED, 0)
        print(f"{folder:28} {tried:6} {outcomes.get(FOUND, 0):6} {outcomes.get(SURVIVED, 0):9}")
    total = {kind: sum(outcomes.get(kind, 0) for outcomes in counts.values()) for kind in (FOUND, SURVIVED, SAME, NO_C)}
    print("\n".join(survivors))
    print(f"seed {seed}: {total[FOUND] + total[SURVIVED]} changes, {total[FOUND]} found, {total[SURVIVED]} survived; "
          f"{total[SAME]} changed no object file, {total[NO_C]} were no C")
    return 1 if survivors else 0


def main():
    options = parse_options()
    started, counts, survivors, tried = time.monotonic(), {}, [], 0
    copy = Copy(options.root, options.directory or os.path.join(options.root, "build-mutate"))
    copy.update()
    copy.configure()
    compiler, judge = Compiler(copy), Judge(copy, lambda text: print(text, flush=True), options.quick)
    for path, lines, change in spread(only_at(candidates(copy, compiler, options.folder), options.at), options.seed):
        if tried == options.count or (options.minutes and time.monotonic() - started > options.minutes * 60):
            break
        outcome, finder = play(judge, compiler, path, lines, change)
        folder = os.path.dirname(path)
        counts.setdefault(folder, {}).setdefault(outcome, 0)
        counts[folder][outcome] += 1
        tried += outcome in (FOUND, SURVIVED)
        print(f"{outcome:16} {path}:{change.line + 1} {change.kind}{f' ({finder})' if finder else ''}", flush=True)
        if outcome == SURVIVED:
            survivors.append(difference(path, lines, change))
            print(survivors[-1], flush=True)
    sys.exit(report(counts, survivors, options.seed))


if __name__ == "__main__":
    main()
