"""again.py: decides whether a failed test is run a second time.

Tests of real processes and threads wait for other processes, with a time limit. On a shared machine, one in about two
thousand waits is longer than any reasonable limit. *So* a program of `unit` or `e2e` that failed is run once more, alone.
If the program passes the second time, it is *unsteady*: it does not count as failed, but the report ends with its name and
its output. Somebody must still examine an unsteady test, because some were defects.

These failures are not repeated, because a busy machine does not explain them. First, a crash, a failed assertion, a
sanitizer's report, or a hang up to the time limit. Second, a broken promise: an early delivery, or any failure in the suite
`once`, which may be a lost task. Third, a failure in any other suite, where a seed that passes the second time is a defect.
"""
import re
import subprocess

SUITES = ("unit", "e2e")
ONCE = "once"
TRIES_MAX = 3  # limit per run, because more failures are hardly coincidence
TIME_LIMIT_S = 1200
WORSE = re.compile(r"Sanitizer|runtime error:|Assertion [`']|panic: |Segmentation|core dumped|died with <Signals|AssertionError: -\d+ != |"
                   r"status -\d|harness\.Broken")


def may_help(suite, entry):
    """Returns whether the program may be run again. `entry`: its entry in meson's log; the name begins with all of its suites."""
    said = (entry.get("stdout") or "") + "\n" + (entry.get("stderr") or "")
    bad = [line for line in said.splitlines() if not line.startswith("ok ")]
    suites = entry["name"].split(" / ")[0].split(":")[-1].split("+")
    return (suite in SUITES and ONCE not in suites and entry["result"] in ("FAIL", "ERROR") and entry.get("returncode", 0) >= 0
            and any(line.startswith("not ok") for line in bad) and not any(WORSE.search(line) for line in bad))


def run(entry, directory):
    """Runs the test program again with the command and environment that meson used. Returns its result as an entry of meson's test log."""
    try:
        done = subprocess.run(entry["command"], env=entry["env"], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=TIME_LIMIT_S, check=False, encoding="utf-8", errors="replace")
    except subprocess.TimeoutExpired:
        return {**entry, "result": "TIMEOUT", "stdout": "", "stderr": "it did not end when it was run again, alone"}
    return {**entry, "result": "OK" if done.returncode == 0 else "ERROR", "returncode": done.returncode, "stdout": done.stdout,
            "stderr": done.stderr}
