"""again.py: does a test that failed deserve a second try?

Tests of real processes and of threads wait for what others do. Each supposes something of time, however little, and now and
then a machine that is shared holds up one of two thousand for longer than that. *So* a program of `unit` or `e2e` that
failed is run once more, alone. If it passes then, it is *unsteady*: not counted as failed, but told of last, with all it
said when it failed. That is a debt, not a pass: some of them turned out to be defects.

What is never repeated, for no busy machine excuses it:
  - a crash, a failed assertion, a sanitizer's report, a hang up to the time limit
  - a promise: something early, or whatever a program of suite `once` misses, which may be a task that was lost
  - every other suite: a seed that passes the second time is a defect by itself, and so is a complaint of the ledger
"""
import re
import subprocess

SUITES = ("unit", "e2e")
ONCE = "once"
TRIES_MAX = 3  # of a run; more failures than that are no chance
TIME_LIMIT_S = 1200
WORSE = re.compile(r"Sanitizer|runtime error:|Assertion [`']|panic: |Segmentation|core dumped|died with <Signals|AssertionError: -\d+ != |"
                   r"status -\d|harness\.Broken")


def may_help(suite, entry):
    """Whether to run it again. `entry`: of meson's log; its name begins with all suites that it belongs to."""
    said = (entry.get("stdout") or "") + "\n" + (entry.get("stderr") or "")
    bad = [line for line in said.splitlines() if not line.startswith("ok ")]
    suites = entry["name"].split(" / ")[0].split(":")[-1].split("+")
    return (suite in SUITES and ONCE not in suites and entry["result"] in ("FAIL", "ERROR") and entry.get("returncode", 0) >= 0
            and any(line.startswith("not ok") for line in bad) and not any(WORSE.search(line) for line in bad))


def run(entry, directory):
    """Once more, as meson ran it; an entry of the same kind."""
    try:
        done = subprocess.run(entry["command"], env=entry["env"], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=TIME_LIMIT_S, check=False, encoding="utf-8", errors="replace")
    except subprocess.TimeoutExpired:
        return {**entry, "result": "TIMEOUT", "stdout": "", "stderr": "it did not end when it was run again, alone"}
    return {**entry, "result": "OK" if done.returncode == 0 else "ERROR", "returncode": done.returncode, "stdout": done.stdout,
            "stderr": done.stderr}
