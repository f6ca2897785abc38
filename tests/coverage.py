"""coverage.py: runs the tests in a build with clang's source-based coverage and counts branches, per part of the code.

It counts both directions of every condition, of each operand of && and ||, and of every case. A condition in a macro or an inline
function counts once, where it is written. A branch is covered if any test took it in any program, killed programs included,
because the counters are in a mapped file (`%c`). Not counted: asserts (a macro of a system header, whose other direction only a
bug takes), constant conditions, generated code, and tests.
"""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys

import verdict

PARTS = [  # part of the product, and its files; a file belongs to the first part that matches
    ("log", r"storage/(log/log|files/disk)\w*\.[ch]"),
    ("index", r"storage/index/(index|db)\w*\.[ch]"),
    ("wheel", r"broker/core/wheel\.[ch]"),
    ("core", r"broker/core/\w+\.[ch]"),
    ("wire", r"(proto|common)/\w+\.[ch]"),
    ("shell", r"broker/shell/(?!pair/)[\w/]+\.[ch]"),
    ("client", r"client/(lib|include)/\w+\.[ch]"),
    ("tool", r"client/tool/\w+\.[ch]"),
]
PROMISED = {"log", "index", "wheel", "core", "wire"}  # parts of which FAULTS.md promises at least 90 % branch coverage
PROMISED_PERCENT = 90
SUITES = ["unit", "property", "sim", "fuzz", "e2e"]
# fields of llvm-cov's branches: line, column, end line, end column, times true, times false, file, …
LINE, COLUMN, END_LINE, END_COLUMN, TRUE, FALSE, FILE = range(7)


def call(command, **options):
    return subprocess.run(command, check=True, **options)


def run_tests(build, profiles, suites):
    """Runs the tests. Returns True if all passed. Every process adds to the profile of its program."""
    shutil.rmtree(profiles, ignore_errors=True)
    os.makedirs(profiles)
    env = {**os.environ, "LLVM_PROFILE_FILE": os.path.join(profiles, "%m%c.profraw")}
    arguments = [word for suite in suites for word in ("--suite", suite)]
    log = os.path.join(build, "meson-logs", "coverage.json")
    if os.path.exists(log):
        os.unlink(log)
    subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--num-processes", "2", "--timeout-multiplier", "5",
                    "--logbase", "coverage", *arguments], env=env, stdout=sys.stderr, check=False)
    tally = verdict.Tally()
    with open(log, encoding="utf-8") as file:
        for line in filter(str.strip, file):
            tally.count_program("coverage", json.loads(line))
    for title, *_ in tally.failures:
        print(f"failed: {title}", file=sys.stderr)
    return tally.failed == 0 and tally.passed > 0


def find_programs(build):
    """Returns all files that meson linked: the programs and the library."""
    listed = call(["meson", "introspect", "--targets", build], stdout=subprocess.PIPE).stdout
    return sorted(path for target in json.loads(listed) if target["type"] in ("executable", "shared library")
                  for path in target["filename"] if os.path.exists(path))


def export(build, profiles):
    """Returns llvm-cov's data about every function of every program."""
    raw = [os.path.join(profiles, name) for name in sorted(os.listdir(profiles)) if name.endswith(".profraw")]
    merged = os.path.join(build, "coverage.profdata")
    call(["llvm-profdata", "merge", "-sparse", "-o", merged, *raw])
    programs = find_programs(build)
    objects = [word for path in programs[1:] for word in ("-object", path)]
    out = call(["llvm-cov", "export", "-instr-profile", merged, programs[0], *objects], stdout=subprocess.PIPE,
              stderr=subprocess.DEVNULL).stdout
    return json.loads(out)["data"][0]["functions"]


def part_of(path):
    return next((name for name, pattern in PARTS if re.fullmatch(pattern, path)), None)


def collect_branches(functions, root):
    """Returns {(path, line, column, end line, end column): [times true, times false]} for our own sources."""
    branches = collections.defaultdict(lambda: [0, 0])
    for function in functions:
        for branch in function["branches"]:
            path = os.path.relpath(function["filenames"][branch[FILE]], root)
            if part_of(path) is None:
                continue
            counts = branches[(path, *branch[LINE:END_COLUMN + 1])]
            counts[0] += branch[TRUE]
            counts[1] += branch[FALSE]
    return branches


class Sources:
    def __init__(self, root):
        self.root, self.files = root, {}

    def text(self, branch):
        """Returns the condition as it is written."""
        path, line, column, end_line, end_column = branch
        if path not in self.files:
            with open(os.path.join(self.root, path), encoding="utf-8") as file:
                self.files[path] = file.read().splitlines()
        lines = self.files[path][line - 1:end_line]
        if len(lines) == 1:
            return lines[0][column - 1:end_column - 1]
        return " ".join([lines[0][column - 1:], *(text.strip() for text in lines[1:-1]), lines[-1][:end_column - 1].strip()])


def is_constant(text):
    return re.fullmatch(r"[\d\s]*|true|false", text) is not None


def report(branches, sources):
    """Prints the table and the branches that were not taken. Returns the parts below their promised share."""
    total, taken, missing = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    for branch, counts in sorted(branches.items()):
        part, text = part_of(branch[0]), sources.text(branch)
        if is_constant(text):
            continue
        is_case = re.match(r"(case|default)\b", text) is not None
        ways = [("never chosen", counts[0])] if is_case else [("never true", counts[0]), ("never false", counts[1])]
        total[part] += len(ways)
        taken[part] += sum(count > 0 for _, count in ways)
        words = [word for word, count in ways if count == 0]
        if words:
            how = "never reached" if len(words) == 2 else words[0]
            missing[part].append(f"{branch[0]}:{branch[1]}:{branch[2]}: {how}: {text}")
    short = []
    print(f"{'part':8} {'branches':>9} {'taken':>7} {'not':>5} {'percent':>8}")
    for part, _ in PARTS:
        percent = 100 * taken[part] / max(1, total[part])
        print(f"{part:8} {total[part]:9} {taken[part]:7} {total[part] - taken[part]:5} {percent:8.1f}")
        if part in PROMISED and percent < PROMISED_PERCENT:
            short.append(part)
    for part, _ in PARTS:
        if missing[part]:
            print(f"\n{part}: not taken")
            print("\n".join(missing[part]))
    return short


def unseen_files(branches, root):
    """Returns the sources that are in no program. Such a file must not look as if it were covered."""
    seen = {branch[0] for branch in branches}
    listed = call(["git", "-C", root, "ls-files", "*.c"], stdout=subprocess.PIPE, text=True).stdout.split()
    return [path for path in listed if part_of(path) and path not in seen]


def main():
    parser = argparse.ArgumentParser(description="Branch coverage; see ./dev coverage --help.")
    parser.add_argument("--root", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--no-run", action="store_true", help="only report what the last run found")
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    options = parser.parse_args()
    options.build, options.root = os.path.abspath(options.build), os.path.abspath(options.root)
    profiles = os.path.join(options.build, "profiles")
    passed = options.no_run or run_tests(options.build, profiles, options.suites or SUITES)
    branches = collect_branches(export(options.build, profiles), options.root)
    short = report(branches, Sources(options.root))
    for path in unseen_files(branches, options.root):
        print(f"{path}: no branch, or in no program")
    if not passed:
        print("\nsome tests failed: what they leave out is missing above", file=sys.stderr)
    if short:
        print(f"\nbelow {PROMISED_PERCENT} %: {', '.join(short)}", file=sys.stderr)
    sys.exit(0 if passed and not short else 1)


if __name__ == "__main__":
    main()
