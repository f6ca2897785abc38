"""verdict.py: what the programs said that meson ran, counted in sub-tests; and what is told of those that failed.

An *entry* is a line of meson's log, a dictionary: name, command, env, stdout, stderr, returncode, duration, and meson's own result. A name
begins with all suites of the program: `tarry:e2e+long / e2e_disk`. Programs print TAP: a line `ok` or `not ok` a test, and the plan `1..N`.
A program that prints none of it (the corpora of `fuzz`) is one test.
"""
import re
from typing import NamedTuple

import again
import leaks

TAP_LINE = re.compile(r"^(not ok|ok)\b(?:\s+\d+)?(.*)$")
TAP_PLAN = re.compile(r"^1\.\.(\d+)(.*)$")
TAP_SKIP = re.compile(r"#\s*skip", re.IGNORECASE)
RAISED = re.compile(r"# [\w.]+(Error|Exception|Exit|Interrupt|Expired|Empty)\b")
OUTPUT_LINES_MAX = 150


class Said(NamedTuple):
    """The TAP lines of a program."""

    good: int
    bad: int
    skipped: int
    planned: int  # -1: no plan
    is_skipped_whole: bool  # `1..0 # SKIP why`

    def is_whole(self):
        return self.is_skipped_whole or (self.planned > 0 and self.planned == self.good + self.bad + self.skipped)


class Verdict(NamedTuple):
    """What one program said, in sub-tests."""

    passed: int
    failed: int
    skipped: int
    is_nngs_leak: bool


def read_tap(output):
    """A Said; None if there is not a line of TAP. cmocka 1.1.5 says `not ok # SKIP`: that is skipped."""
    good = bad = skipped = 0
    planned, is_skipped_whole = -1, False
    for line in output.splitlines():
        if match := TAP_PLAN.match(line):
            planned = int(match.group(1))
            is_skipped_whole = planned == 0 and bool(TAP_SKIP.search(match.group(2)))
        elif match := TAP_LINE.match(line):
            if TAP_SKIP.search(match.group(2)):
                skipped += 1
            elif match.group(1) == "ok":
                good += 1
            else:
                bad += 1
    if planned < 0 and good + bad + skipped == 0:
        return None
    return Said(good, bad, skipped, planned, is_skipped_whole)


def ended_well(entry, said):
    """It exits with 0, no test failed, and as many were told of as were planned: what ends early has not passed. Meson's own opinion
    counts too, but for two: it takes cmocka's `not ok # SKIP` for a failure, and says SKIP of a program that says nothing."""
    result = entry.get("result")
    if entry.get("returncode") != 0:
        return False
    if said is None:
        return result == "OK"
    return said.bad == 0 and said.is_whole() and (result in ("OK", "SKIP") or (result == "FAIL" and said.skipped > 0))


def judge(entry):
    """A program that ended badly without saying which test failed counts as one failure."""
    output = entry.get("stdout") or ""
    said = read_tap(output)
    good, bad, skipped = (said.good, said.bad, said.skipped) if said else (0, 0, 0)
    is_nngs = entry.get("result") == "ERROR" and bad == 0 and leaks.are_nngs(output + "\n" + (entry.get("stderr") or ""))
    if is_nngs or ended_well(entry, said):
        good += said is None
        skipped += said is not None and said.is_skipped_whole
    else:
        bad = max(bad, 1)
    return Verdict(good, bad, skipped, is_nngs)


class Tally:
    """The sum over all programs, and what is told of those that failed."""

    def __init__(self):
        self.passed = self.failed = self.skipped = self.nngs_leaks = self.tries = 0
        self.failures = []  # title, standard output, standard error
        self.unsteady = []  # likewise: they passed when they were run again, alone

    def count_program(self, label, entry, run_again=lambda entry: None):
        """Adds the sub-tests of one program, and returns its verdict. `run_again`: gives a second entry, or None: not for this one."""
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
        return verdict

    def fail(self, title, output):
        """Something that is no test failed."""
        self.failed += 1
        self.failures.append((title, output, ""))


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
