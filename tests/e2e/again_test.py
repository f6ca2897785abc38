"""again_test.py: what tests/again.py tries again, and what never; and that tests/verdict.py fails where the second try does."""
import sys
import unittest

import harness
import again
import verdict

LATE = """ok 1 - Some.test a panic: that was survived
not ok 2 - Other.test it waits
# AssertionError: 3 tasks at /tmp/a: not within 20 s
# tarryd: event=ready url=ws://127.0.0.1:1
1..2
"""
WORSE = ("==7==ERROR: AddressSanitizer: heap-use-after-free", "a.c:1: runtime error: signed integer overflow", "panic: nng is wrong",
         "tarryd: a.c:7: f: Assertion `x' failed.", "# harness.Broken: TIME-1: {}", "# AssertionError: tarry stats: status -6",
         "# AssertionError: -11 != 0",
         "# subprocess.CalledProcessError: died with <Signals.SIGSEGV: 11>")


def entry(suites="e2e", said=LATE, result="ERROR", returncode=1, command=("true",)):
    return {"name": f"tarry:{suites} / e2e_x", "stdout": said, "stderr": "", "result": result, "returncode": returncode,
            "command": list(command), "env": {}}


def count(first, script):
    """What a tally makes of a program that failed and says so much the second time."""
    tally = verdict.Tally()
    tally.count_program("e2e", first, lambda one: again.run({**one, "command": [sys.executable, "-c", script]}, "/"))
    return tally.passed, tally.failed, len(tally.unsteady), len(tally.failures)


class Again(unittest.TestCase):
    def test_what_came_too_late(self):
        self.assertTrue(again.may_help("e2e", entry()))
        self.assertTrue(again.may_help("unit", entry(suites="unit", result="FAIL")))
        self.assertTrue(again.may_help("e2e", entry(suites="e2e+long")))

    def test_what_no_busy_machine_excuses(self):
        for word in WORSE:
            self.assertFalse(again.may_help("e2e", entry(said=LATE + word)), word)
        self.assertFalse(again.may_help("e2e", entry(suites="e2e+long+once")))
        self.assertFalse(again.may_help("e2e", entry(result="TIMEOUT")))
        self.assertFalse(again.may_help("e2e", entry(returncode=-11)))
        self.assertFalse(again.may_help("e2e", entry(said="ok 1 - fine\n")), "it did not say what failed")
        for suite in ("crash", "sim", "property", "fuzz", "lint"):
            self.assertFalse(again.may_help(suite, entry(suites=suite)), suite)

    def test_the_second_try_decides(self):
        self.assertEqual(count(entry(), "print('ok 1 - a\\nok 2 - b\\n1..2')"), (2, 0, 1, 0))
        self.assertEqual(count(entry(), "print('ok 1 - a\\nnot ok 2 - b\\n1..2')"), (1, 1, 0, 1))
        self.assertEqual(count(entry(), "print('ok 1 - a'); raise SystemExit(3)"), (1, 1, 0, 1))

    def test_many_are_no_chance(self):
        tally = verdict.Tally()
        for _ in range(again.TRIES_MAX + 1):
            tally.count_program("e2e", entry(), lambda one: {**one, "result": "OK", "returncode": 0, "stdout": "ok 1 - a\n1..1\n"})
        self.assertEqual((len(tally.unsteady), len(tally.failures)), (again.TRIES_MAX, 1))


if __name__ == "__main__":
    harness.main()
