"""again_test.py: which failed programs tests/again.py repeats and which it never repeats; that tests/verdict.py fails if the
repetition fails; and which attempts of a timing test count (in_time.py).
"""
import sys
import time
import unittest

import harness
import again
import in_time
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
    """Returns the tally of a program that failed first and prints `script`'s result the second time."""
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


class InTime(unittest.TestCase):
    LIMIT_S = 0.2

    def play(self, *tries, patience_s=60):
        """Runs attempts. Each of `tries` is a pair: whether the attempt is late, and an exception or None. Returns the numbers
        of the attempts that ran.
        """
        ran = []

        def attempt(number):
            ran.append(number)
            is_late, error = tries[number - 1]
            with in_time.in_time(60 if not is_late else self.LIMIT_S, "a try"):
                time.sleep(self.LIMIT_S if is_late else 0)
                if error:
                    raise error
        try:
            in_time.judged(attempt, patience_s)
        finally:
            self.ran = ran

    def test_what_comes_late_is_tried_again_whatever_came_of_it(self):
        self.play((True, None), (True, AssertionError("it was lost")), (False, None))
        self.assertEqual(self.ran, [1, 2, 3])

    def test_what_fails_in_time_has_failed(self):
        with self.assertRaisesRegex(AssertionError, "it was lost"):
            self.play((True, None), (False, AssertionError("it was lost")), (False, None))
        self.assertEqual(self.ran, [1, 2])

    def test_no_delay_excuses_a_crash(self):
        for error in (harness.Broken("TIME-1"), ConnectionResetError()):
            with self.assertRaises(type(error)):
                self.play((True, error), (False, None))

    def test_a_machine_that_is_never_quick_enough_has_not_passed(self):
        with self.assertRaisesRegex(AssertionError, "in none of 1 tries .* a try: 0.2 s, and 0.2 s are the limit"):
            self.play((True, None), patience_s=0)


if __name__ == "__main__":
    harness.main()
