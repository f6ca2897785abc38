"""run.py: runs the suites in both builds, shows the output of what failed, and counts every sub-test.

Meson runs the tests; this reads what they said (TAP) from meson's log, because meson counts programs and we count tests.
A program that ends badly without saying which test failed counts as one failure. The last line is `N passed, N failed`.

The lints look at text and want nothing but processor time: they run beside all the others at the lowest priority, in the
time that tests spend waiting, and are waited for last. Which failures are tried again, and why: again.py.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import again
import leaks

# (suite, build, meson's arguments). What waits more than it works runs several at a time.
BESIDE = ("lint", "plain", ["--num-processes", "1"])
STAGES = [
    ("unit", "plain", ["--num-processes", "2"]),
    ("unit", "sanitized", ["--num-processes", "2"]),
    ("property", "plain", ["--num-processes", "2"]),
    ("property", "sanitized", ["--num-processes", "2"]),
    ("sim", "plain", ["--num-processes", "2"]),
    ("sim", "sanitized", ["--num-processes", "2"]),
    ("fuzz", "plain", ["--num-processes", "2"]),
    ("fuzz", "sanitized", ["--num-processes", "2"]),
    ("e2e", "plain", ["--num-processes", "4"]),
    ("e2e", "sanitized", ["--num-processes", "3", "--no-suite", "long"]),
    ("crash", "plain", ["--num-processes", "2"]),
]
LOWEST_PRIORITY = 19
SLOW = ("slow_sync", "slow_threads")  # what is preloaded for --slow-sync, --slow-threads
OUTPUT_LINES_MAX = 150
TAP_LINE = re.compile(r"^(not ok|ok)\b(?:\s+\d+)?(.*)$")
RAISED = re.compile(r"# [\w.]+(Error|Exception|Exit|Interrupt|Expired|Empty)\b")
SANITIZER_ENV = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:strict_string_checks=1:verify_asan_link_order=0",  # for SLOW
                 "LSAN_OPTIONS": "suppressions=" + os.path.join(os.path.dirname(os.path.abspath(__file__)), "lsan.supp")
                                 + ":print_suppressions=0",
                 "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


class Verdict(NamedTuple):
    """What one program of meson's log said, in sub-tests."""

    passed: int
    failed: int
    skipped: int
    is_nngs_leak: bool


def judge(entry):
    output = entry.get("stdout") or ""
    verdict = entry.get("result", "ERROR")
    good = bad = skipped = 0
    for line in output.splitlines():
        match = TAP_LINE.match(line)
        if not match:
            continue
        if re.search(r"#\s*skip", match.group(2), re.IGNORECASE):
            skipped += 1
        elif match.group(1) == "ok":
            good += 1
        else:
            bad += 1
    if skipped and bad == 0 and entry.get("returncode") == 0:
        verdict = "OK"  # cmocka 1.1.5 says "not ok # SKIP", which meson takes for a failure
    is_nngs = verdict == "ERROR" and bad == 0 and leaks.are_nngs(output + "\n" + (entry.get("stderr") or ""))
    if is_nngs or verdict in ("OK", "EXPECTEDFAIL"):
        if good + bad == 0 and "skip" not in output.lower():
            good = 1
    elif verdict == "SKIP":
        skipped += 1
    elif bad == 0:
        bad = 1
    return Verdict(good, bad, skipped, is_nngs)


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = self.nngs_leaks = self.tries = 0
        self.failures = []  # title, standard output, standard error
        self.unsteady = []  # likewise: they passed when they were run again, alone

    def count_program(self, label, entry, run_again=lambda entry: None):
        """Adds the sub-tests of one program of meson's log. `run_again`: gives a second entry, or None: not for this one."""
        verdict = judge(entry)
        if verdict.failed:
            told = (f"{label}: {entry.get('name')} ({entry.get('result')}, {entry.get('duration', 0):.1f} s)",
                    entry.get("stdout") or "", entry.get("stderr") or "")
            second = run_again(entry) if self.tries < again.TRIES_MAX else None
            self.tries += second is not None
            second_verdict = judge(second) if second is not None else verdict
            if second_verdict.failed == 0:
                verdict = second_verdict
                self.unsteady.append(told)
            else:
                self.failures.append(told)
        self.passed += verdict.passed
        self.failed += verdict.failed
        self.skipped += verdict.skipped
        self.nngs_leaks += verdict.is_nngs_leak


def slow_environment(options):
    """What makes the options for SLOW true; empty without them."""
    preload, environment = [], {}
    for name in SLOW:
        if wait_ms := getattr(options, name):
            preload.append(os.path.join(options.build, "tests", "e2e", f"lib{name}.so"))
            environment[name.upper() + "_MS"] = str(wait_ms)
    return {**environment, "LD_PRELOAD": ":".join(preload)} if preload else {}


class Stage:
    """A suite in a build, from its start to the line that says what came of it."""

    def __init__(self, builds, suite, kind, arguments, priority=0, environment=None):
        build = builds[kind]
        self.suite, self.build = suite, build
        self.label = suite if kind == "plain" else f"{suite} (ASan+UBSan)"
        self.log = os.path.join(build, "meson-logs", f"dev-{suite}.json")
        if os.path.exists(self.log):
            os.unlink(self.log)
        env = {**os.environ, **(SANITIZER_ENV if kind == "sanitized" else {}), **(environment or {}), "PYTHONDONTWRITEBYTECODE": "1"}
        self.started = time.monotonic()
        self.said = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(["nice", "-n", str(priority), "meson", "test", "-C", build, "--no-rebuild", "--suite", suite,
                                         "--logbase", f"dev-{suite}", *arguments], env=env, stdout=self.said, stderr=subprocess.STDOUT)

    def finish(self, tally):
        """Waits, counts, and prints its line."""
        status = self.process.wait()
        before = (tally.passed, tally.failed)
        entries = []
        if os.path.exists(self.log):
            with open(self.log, encoding="utf-8") as file:
                entries = [json.loads(line) for line in file if line.strip()]
        for entry in entries:
            tally.count_program(self.label, entry, self.run_again)
        self.said.seek(0)
        said = self.said.read()
        if not entries and "No suitable tests defined" not in said:
            tally.failed += 1
            tally.failures.append((f"{self.label}: meson ended with {status}", said, ""))
        print(f"{self.label:24} {tally.passed - before[0]:6} passed {tally.failed - before[1]:4} failed "
              f"{time.monotonic() - self.started:7.1f} s", flush=True)

    def run_again(self, entry):
        if not again.may_help(self.suite, entry):
            return None
        print(f"{self.label}: {entry['name']} failed, and is run once more, alone", flush=True)
        return again.run(entry, self.build)

    def stop(self):
        """For one that nobody will wait for."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


def reasons(stdout):
    """Of each test that failed: its name and the first line of what it raised."""
    found, is_bad = [], False
    for line in stdout.splitlines():
        if line.startswith(("ok", "not ok")):
            is_bad = line.startswith("not ok")
            if is_bad:
                found.append([line[len("not ok"):].lstrip(" 0123456789-"), ""])
        elif is_bad and not found[-1][1] and RAISED.match(line):
            found[-1][1] = ": " + line.lstrip("# ")
    return ["".join(parts) for parts in found]


def show(told, heading=None):
    """The programs and what failed of each, then what each said."""
    if told and heading:
        print(f"\n{heading}")
    for title, stdout, _ in told:
        print(f"\n{title}", *reasons(stdout), sep="\n  ")
    for title, stdout, stderr in told:
        print(f"\n---- {title} " + "-" * max(1, 90 - len(title)))
        bad = [line for line in stdout.splitlines() if line.startswith("not ok")]
        tail = stdout.splitlines()[-OUTPUT_LINES_MAX:]
        for line in [b for b in bad if b not in tail] + tail + stderr.splitlines()[-OUTPUT_LINES_MAX:]:
            print(line)


def main():
    parser = argparse.ArgumentParser(description="Runs the suites; see ./dev test --help.")
    parser.add_argument("--build", required=True)
    parser.add_argument("--sanitized", required=True)
    for name in SLOW:
        parser.add_argument("--" + name.replace("_", "-"), metavar="MS", type=int, help="see ./dev test --help")
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    options = parser.parse_args()
    known = {stage[0] for stage in [BESIDE, *STAGES]}
    for suite in options.suites:
        if suite not in known:
            sys.exit(f"dev: no suite called '{suite}'; there are: {' '.join(sorted(known))}")
    tally = Tally()
    started = time.monotonic()
    builds = {"plain": options.build, "sanitized": options.sanitized}
    beside = None
    if not options.suites or BESIDE[0] in options.suites:
        beside = Stage(builds, *BESIDE, priority=LOWEST_PRIORITY)
    slow = slow_environment(options)
    try:
        for stage in STAGES:
            if not options.suites or stage[0] in options.suites:
                Stage(builds, *stage, environment=slow).finish(tally)
        if beside is not None:
            beside.finish(tally)
    finally:
        if beside is not None:
            beside.stop()
    show(tally.unsteady, "UNSTEADY: these failed and passed when they were run again, alone. Look into it: some were defects.")
    show(tally.failures)
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    lost = f", nng lost a message in {tally.nngs_leaks} (leaks.py)" if tally.nngs_leaks else ""
    unsteady = f", {len(tally.unsteady)} unsteady" if tally.unsteady else ""
    print(f"\nall suites: {time.monotonic() - started:.0f} s{skipped}{lost}{unsteady}")
    if tally.passed + tally.failed == 0:
        tally.failed = 1
        print("no test ran")
    print(f"{tally.passed} passed, {tally.failed} failed", flush=True)
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main()
