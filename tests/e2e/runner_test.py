"""runner_test.py: the test runner reports correctly: the counts (tests/verdict.py), the output and exit status of `./dev test`
(tests/run.py, with a tiny meson project), and the progress line (tests/progress.py)."""
import io
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import harness
import progress
import run
import verdict

WAIT_S = 60
TIME_LIMIT_S = 2


def judged(output, returncode=0, result="OK"):
    return tuple(verdict.judge({"name": "x", "stdout": output, "returncode": returncode, "result": result})[:3])


class Verdicts(unittest.TestCase):
    """Checks how verdict.py counts (passed, failed, skipped) from a program's output."""

    def test_what_is_counted(self):
        self.assertEqual(judged("ok 1 - a\nok 2 - b\n1..2\n"), (2, 0, 0))
        self.assertEqual(judged("1..3\nok 1 - a\nnot ok 2 # SKIP b\nok 3 - c # skip why\n", result="FAIL"), (1, 0, 2))
        self.assertEqual(judged("ok 1 - a\nnot ok 2 - b\n1..2\n", 1, "FAIL"), (1, 1, 0))
        self.assertEqual(judged("25 inputs replayed\n"), (1, 0, 0))
        self.assertEqual(judged("1..1\nok 1 - a # SKIP no net\n", result="SKIP"), (0, 0, 1))
        self.assertEqual(judged("1..0 # SKIP no net\n", result="SKIP"), (0, 0, 1))

    def test_what_ends_without_having_told_everything_failed(self):
        self.assertEqual(judged("ok 1 - a\n1..1\n", 3, "ERROR"), (1, 1, 0))
        self.assertEqual(judged("ok 1 - a\n1..1\n", -11, "ERROR"), (1, 1, 0))
        self.assertEqual(judged("ok 1 - a\n1..1\n", result="TIMEOUT"), (1, 1, 0))
        self.assertEqual(judged("1..3\nok 1 - a\nok 2 - b\n", result="ERROR"), (2, 1, 0), "a third was planned")
        self.assertEqual(judged("1..3\nok 1 - a\nnot ok 2 # SKIP b\n", result="ERROR"), (1, 1, 1), "and a skipped one excuses nothing")
        self.assertEqual(judged("1..3\nok 1 - a\nnot ok 2 # SKIP b\n", result="FAIL"), (1, 1, 1))
        self.assertEqual(judged("1..2\nok 1 - a\nnot ok 2 # SKIP b\n", 3, "FAIL"), (1, 1, 1))
        self.assertEqual(judged("ok 1 - a\n"), (1, 1, 0), "there is no plan")
        self.assertEqual(judged("1..0\n"), (0, 1, 0), "no test is no pass")
        self.assertEqual(judged("", result="SKIP"), (0, 1, 0), "so meson calls a TAP program that says nothing")
        self.assertEqual(judged("", 1, "FAIL"), (0, 1, 0))


LEAK = "==7==ERROR: LeakSanitizer: detected memory leaks"
TRACEBACK = "# Traceback (most recent call last):\n#   File \"x.py\", line 1, in y\n#     yield\n# tarryd: event=ready\n"


class Briefly(unittest.TestCase):
    """Checks the summary at the end of a run, which names each failed test."""

    def brief(self, stdout, returncode=1, result="ERROR", stderr=""):
        tally = verdict.Tally()
        tally.count_program("unit", {"name": "tarry:unit / client", "stdout": stdout, "stderr": stderr, "returncode": returncode, "result": result,
                                     "duration": 300.2})
        return [line.removeprefix("FAILED   unit client: ") for line in verdict.brief(tally.failures, tally.unsteady)]

    def test_a_line_a_test_with_the_first_line_of_its_reason(self):
        self.assertEqual(self.brief(f"ok 1 - a\nnot ok 2 - b\n{TRACEBACK}# AssertionError: 1 != 2\n# again\nnot ok 3 - c\n"
                                    f"# 0x1 != 0x2\n# x.c:7: error: Failure!\nnot ok 4 # SKIP d\n1..4\n"),
                         ["b: AssertionError: 1 != 2", "c: 0x1 != 0x2"])

    def test_programs_that_fail_without_a_test_that_does(self):
        self.assertEqual(self.brief("ok 1 - a\n1..2\n", -15, "TIMEOUT"), ["TIMEOUT after 300 s; its last words: 1..2"])
        self.assertEqual(self.brief("ok 1 - a\n1..1\n", 23, stderr=f"\n{LEAK}\n\nDirect leak\n(test program exited with status code 23)\n"), [LEAK])
        self.assertEqual(self.brief("1..2\nok 1 - a\n", -11), ["signal 11 (Segmentation fault): ok 1 - a"])
        self.assertEqual(self.brief("1..2\nok 1 - a\n", -6, stderr="x: x.c:7: f: Assertion `y' failed."),
                         ["signal 6 (Aborted): x: x.c:7: f: Assertion `y' failed."])
        self.assertEqual(self.brief("1..3\nok 1 - a\n", 0), ["status 0 after 1 of 3 tests: ok 1 - a"])
        self.assertEqual(self.brief("", 4, stderr="no such directory\n"), ["status 4: no such directory"])

    def test_a_report_is_told_of_beside_a_test_that_failed(self):
        self.assertEqual(self.brief(f"not ok 1 - a\n# AssertionError: no answer\n# tarryd: {LEAK}\n1..1\n"),
                         ["a: AssertionError: no answer", f"tarryd: {LEAK}"])

    def test_there_are_few_lines_and_none_is_long(self):
        lines = self.brief("".join(f"not ok {n} - {'x' * 999}\n" for n in range(40)))
        self.assertEqual((len(lines), lines[-1]), (verdict.BRIEF_LINES_MAX + 1, "and 10 more: see above"))
        self.assertLessEqual(max(map(len, lines)), verdict.BRIEF_WIDTH_MAX)


class Runs(unittest.TestCase):
    """Complete runs of run.py. `plain` and `sanitized`: the tests of a small meson project, as name → (suite, Python code,
    meson options).
    """

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="tarry-runner-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.dev = os.path.join(self.directory, "dev")
        self.write("dev", "#!/bin/sh\nexit 0\n")
        os.chmod(self.dev, 0o755)

    def write(self, name, text):
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as file:
            file.write(text)

    def build(self, name, tests):
        source, build = os.path.join(self.directory, name), os.path.join(self.directory, f"build-{name}")
        os.mkdir(source)
        lines = ["project('tarry')", "test('other', find_program('true'), suite: 'other')"]  # a second suite, because with one suite meson does not name suites in its log
        for test, (suite, script, *options) in tests.items():
            self.write(f"{name}/{test}.py", textwrap.dedent(script))
            lines.append(f"test('{test}', import('python').find_installation(), args: files('{test}.py'), suite: '{suite}', protocol: 'tap', "
                         f"{', '.join(options)})")
        self.write(f"{name}/meson.build", "\n".join(lines) + "\n")
        subprocess.run(["meson", "setup", build, source], stdout=subprocess.PIPE, check=True)
        return build

    def start(self, plain, sanitized, *suites):
        builds = [self.build("plain", plain), self.build("asan", sanitized)]
        return subprocess.Popen([sys.executable, run.__file__, "--dev", self.dev, "--build", builds[0], "--sanitized", builds[1], *suites],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def said(self, plain, sanitized, *suites):
        process = self.start(plain, sanitized, *suites)
        output, _ = process.communicate(timeout=WAIT_S)
        return process.returncode, output

    def test_all_pass(self):
        passes = "print('ok 1 - a', 'ok 2 - b', '1..2', sep='\\n')"
        status, output = self.said({"one": ("unit", passes), "two": ("property", passes), "three": ("lint", passes)},
                                   {"one": ("unit", passes), "three": ("lint", passes)})
        self.assertEqual((status, output.splitlines()[-1]), (0, "8 passed, 0 failed"), output)
        self.assertRegex(output, r"(?m)^unit \(ASan\+UBSan\) +1 programs +2 passed +0 failed")

    def test_what_fails_is_told_of_with_all_it_said(self):
        status, output = self.said({"bad": ("sim", "print('not ok 1 - a', '# the reason', '1..1', sep='\\n'); raise SystemExit(1)"),
                                    "mute": ("sim", ""), "slow": ("sim", "import time; time.sleep(100)", f"timeout: {TIME_LIMIT_S}")},
                                   {"good": ("sim", "print('ok 1 - a\\n1..1')")})
        self.assertEqual((status, output.splitlines()[-1]), (1, "1 passed, 3 failed"), output)
        for line in ("FAILED, says meson: bad (ERROR)", "FAILED, says meson: slow (TIMEOUT)", "# the reason", "---- sim: tarry:sim / mute"):
            self.assertIn(line, output)
        brief = sorted(output.splitlines()[-4:-1])
        for line, expected in zip(brief, ("bad: a: the reason", "mute: status 0: it said nothing", f"slow: TIMEOUT after {TIME_LIMIT_S} s; its last words: it said nothing")):
            self.assertEqual(line, "FAILED   sim " + expected, output)

    def test_a_second_try_is_told_of(self):
        script = f"""
            import os
            mark = {os.path.join(self.directory, "mark")!r}
            if os.path.exists(mark):
                print("ok 1 - a", "1..1", sep="\\n")
            else:
                open(mark, "w").close()
                print("not ok 1 - a", "# AssertionError: not within 20 s", "1..1", sep="\\n")
                raise SystemExit(1)
            """
        status, output = self.said({"late": ("e2e", script)}, {})
        self.assertEqual((status, output.splitlines()[-1]), (0, "1 passed, 0 failed"), output)
        self.assertIn("UNSTEADY: ", output)
        self.assertEqual(output.splitlines()[-2], "UNSTEADY e2e late: a: AssertionError: not within 20 s", output)

    def test_a_sanitized_build_that_fails_is_a_failure(self):
        passes = {"good": ("unit", "print('ok 1 - a\\n1..1')")}
        self.write("dev", "#!/bin/sh\necho a.c:7: error: no such thing\nexit 1\n")
        status, output = self.said(passes, passes)
        self.assertEqual((status, output.splitlines()[-1]), (1, "1 passed, 1 failed"), output)
        self.assertIn("a.c:7: error: no such thing", output)

    def test_what_meson_never_ran_is_a_failure(self):
        """The runner's process ends half-way."""
        killer = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
        status, output = self.said({"killer": ("unit", killer), "never": ("unit", "print('ok 1 - a\\n1..1')")}, {}, "unit")
        self.assertEqual((status, output.splitlines()[-1]), (1, "0 passed, 1 failed"), output)
        self.assertIn("meson ended with -9", output)

    def test_nothing_is_no_pass(self):
        status, output = self.said({}, {}, "unit")
        self.assertEqual((status, output.splitlines()[-2:]), (1, ["no test ran", "0 passed, 1 failed"]), output)

    def test_whoever_gives_up_ends_what_runs(self):
        script = f"import os, time; print(os.getpid(), file=open({os.path.join(self.directory, 'pid')!r}, 'w'), flush=True); time.sleep({10 * WAIT_S})"
        process = self.start({"slow": ("unit", script, f"timeout: {10 * WAIT_S}")}, {}, "unit")
        path = os.path.join(self.directory, "pid")
        harness.wait_until("it runs", lambda: os.path.exists(path) and os.path.getsize(path), WAIT_S)
        with open(path, encoding="utf-8") as file:
            pid = int(file.read())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 143)
        harness.wait_until("its test has ended", lambda: not is_running(pid), WAIT_S)

    def test_an_unknown_suite(self):
        status, output = self.said({}, {}, "unity")
        self.assertEqual(status, 1)
        self.assertIn("no suite called 'unity'; there are: unit e2e", output)


def is_running(pid):
    """Returns whether the process runs. A zombie does not count as running."""
    try:
        return bool(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False


class LowPriority(unittest.TestCase):
    def test_it_is_lowered_for_the_session_too(self):
        told = subprocess.run(["setsid", "--wait", run.LOW_PRIORITY, sys.executable, "-c",
                               "import os; print(os.nice(0)); os.path.exists('/proc/self/autogroup') and print(open('/proc/self/autogroup').read())"],
                              stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        self.assertEqual(int(told[0]), min(os.nice(0) + 5, 19))
        if len(told) > 1:
            self.assertEqual(told[2:], ["nice", "5"])


class ProgressLine(unittest.TestCase):
    def test_a_terminal_has_one_line_that_is_rewritten(self):
        out = io.StringIO()
        shown = progress.Progress(out, is_terminal=True)
        shown.show("one")
        shown.show("two")
        shown.say("a line that stays")
        self.assertEqual(out.getvalue(), "\r\033[K[0:00] one\r\033[K[0:00] two\r\033[Ka line that stays\n")

    def test_a_file_has_a_line_every_15_s(self):
        out = io.StringIO()
        shown = progress.Progress(out, is_terminal=False)
        shown.show("one")
        shown.told_at = time.monotonic() - progress.EVERY_S
        shown.show("two")
        shown.show("three")
        self.assertEqual(out.getvalue(), "[0:00] two\n")


if __name__ == "__main__":
    harness.main()
