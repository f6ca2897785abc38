"""verdict.py: counts the sub-tests in the output of the programs that meson ran, and reports the failed ones.

An *entry* is a line of meson's log, a dictionary: name, command, env, stdout, stderr, returncode, duration, and meson's own
result. A name begins with all suites of the program: `tarry:e2e+long / e2e_disk`. Programs print TAP: a line `ok` or `not ok` per
test, and the plan `1..N`. A program without TAP output (the corpora of `fuzz`) counts as one test.
"""
import re
import signal
from typing import NamedTuple

import again

TAP_LINE = re.compile(r"^(not ok|ok)\b(?:\s+\d+)?(.*)$")
TAP_PLAN = re.compile(r"^1\.\.(\d+)(.*)$")
TAP_SKIP = re.compile(r"#\s*skip", re.IGNORECASE)
RAISED = re.compile(r"# [\w.]+(Error|Exception|Exit|Interrupt|Expired|Empty)\b")
TRACED = re.compile(r"# (Traceback|  |tarryd?: )|#\s*$")  # lines that are no reason: where an exception was raised, and a broker's messages
REPORT = re.compile(r"ERROR: \w+Sanitizer|runtime error:|Assertion [`']|panic: ")
OUTPUT_LINES_MAX = 150
BRIEF_LINES_MAX, BRIEF_WIDTH_MAX = 30, 240


class Said(NamedTuple):
    """The TAP lines of a program."""

    good: int
    bad: int
    skipped: int
    planned: int  # -1: the program printed no plan
    is_skipped_whole: bool  # `1..0 # SKIP reason`

    def is_whole(self):
        return self.is_skipped_whole or (self.planned > 0 and self.planned == self.good + self.bad + self.skipped)


class Verdict(NamedTuple):
    """The result of one program, in sub-tests."""

    passed: int
    failed: int
    skipped: int


def read_tap(output):
    """Parses TAP output. Returns the counts of its results, or None if there is no TAP line. cmocka 1.1.5 prints `not ok #
    SKIP` for a skipped test.
    """
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
    """Returns whether the program passed: it exited with 0, no test failed, and as many tests reported as planned, because a
    program that ends early has not passed. Meson's own result counts too, except in two cases. Meson takes cmocka's `not ok
    # SKIP` for a failure, and reports SKIP for a program without output.
    """
    result = entry.get("result")
    if entry.get("returncode") != 0:
        return False
    if said is None:
        return result == "OK"
    return said.bad == 0 and said.is_whole() and (result in ("OK", "SKIP") or (result == "FAIL" and said.skipped > 0))


def judge(entry):
    """Counts a program that ended badly without a failed test as one failure."""
    output = entry.get("stdout") or ""
    said = read_tap(output)
    good, bad, skipped = (said.good, said.bad, said.skipped) if said else (0, 0, 0)
    if ended_well(entry, said):
        good += said is None
        skipped += said is not None and said.is_skipped_whole
    else:
        bad = max(bad, 1)
    return Verdict(good, bad, skipped)


class Told(NamedTuple):
    """The report about a program that failed, or about another failure."""

    title: str
    stdout: str
    stderr: str
    program: str  # suite and name of the program
    cause: str  # why the program ended badly, if its tests do not show it; may be empty


class Tally:
    """The sum over all programs, and the reports about failed ones."""

    def __init__(self):
        self.passed = self.failed = self.skipped = self.tries = 0
        self.failures = []  # one Told (program and cause) for each program that failed
        self.unsteady = []  # one Told for each program that failed, and then passed when it ran again, alone

    def count_program(self, label, entry, run_again=lambda entry: None):
        """Adds the sub-tests of one program, and returns its verdict. `run_again` returns a second entry, or None if the program
        may not be repeated."""
        verdict = judge(entry)
        if verdict.failed:
            told = Told(f"{label}: {entry.get('name')} ({entry.get('result')}, {entry.get('duration', 0):.1f} s)",
                        entry.get("stdout") or "", entry.get("stderr") or "", f"{label} {entry.get('name', '').split(' / ')[-1]}", cause(entry))
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
        return verdict

    def fail(self, title, output):
        """Adds a failure outside of any test."""
        self.failed += 1
        self.failures.append(Told(title, output, "", title, last_words(output)))


def last_words(output):
    """Returns the output's last line that comes from the program, not from meson."""
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip() and not line.startswith("(test program exited")),
                "it said nothing")


def cause(entry):
    """Returns in one line why a program ended badly: the first report of a sanitizer or an assertion, a time limit, or a
    signal. If one of its tests failed, any other cause is left out. Empty: the failed tests show the reason.
    """
    stdout, stderr = entry.get("stdout") or "", entry.get("stderr") or ""
    words = last_words(f"{stdout}\n{stderr}")
    report = next((line.lstrip("# ") for line in [*stderr.splitlines(), *stdout.splitlines()]
                   if REPORT.search(line) and not line.startswith(("ok ", "not ok "))), "")
    status = entry.get("returncode") or 0
    if entry.get("result") == "TIMEOUT":
        return f"TIMEOUT after {entry.get('duration', 0):.0f} s; its last words: {report or words}"
    if status < 0:
        return f"signal {-status} ({signal.strsignal(-status)}): {report or words}"
    if report or reasons(stdout):
        return report
    said = read_tap(stdout)
    if said and not said.is_whole():
        return f"status {status} after {said.good + said.skipped} of {max(said.planned, 0) or '?'} tests: {words}"
    return f"status {status}: {words}"


def reasons(stdout):
    """Returns for each failed test its name and the first line of its exception; without an exception, the first line of its
    output."""
    found, is_bad = [], False
    for line in stdout.splitlines():
        if line.startswith(("ok", "not ok")):
            is_bad = line.startswith("not ok") and not TAP_SKIP.search(line)
            if is_bad:
                found.append([line[len("not ok"):].lstrip(" 0123456789-"), "", ""])
        elif is_bad and not found[-1][1] and RAISED.match(line):
            found[-1][1] = ": " + line.lstrip("# ")
        elif is_bad and not found[-1][2] and line.startswith("#") and not TRACED.match(line):
            found[-1][2] = ": " + line.lstrip("# ")
    return [name + (raised or said) for name, raised, said in found]


def brief(failures, unsteady):
    """Prints one line per failed test, for readers who see only the end of the output."""
    lines = [f"{word:8} {told.program}: {reason}" for word, some in (("FAILED", failures), ("UNSTEADY", unsteady)) for told in some
             for reason in [*reasons(told.stdout), *([told.cause] if told.cause else [])]]
    more = len(lines) - BRIEF_LINES_MAX
    return [line[:BRIEF_WIDTH_MAX] for line in lines[:BRIEF_LINES_MAX]] + ([f"and {more} more: see above"] if more > 0 else [])


def show(told, heading=None):
    """Prints the programs with their failures, then the output of each."""
    if told and heading:
        print(f"\n{heading}")
    for one in told:
        print(f"\n{one.title}", *reasons(one.stdout), *([one.cause] if one.cause else []), sep="\n  ")
    for title, stdout, stderr, *_ in told:
        print(f"\n---- {title} " + "-" * max(1, 90 - len(title)))
        bad = [line for line in stdout.splitlines() if line.startswith("not ok")]
        tail = stdout.splitlines()[-OUTPUT_LINES_MAX:]
        for line in [b for b in bad if b not in tail] + tail + stderr.splitlines()[-OUTPUT_LINES_MAX:]:
            print(line)
