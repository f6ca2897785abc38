"""asof_test.py: kills `tarry audit --as-of T --into NEWDIR`, or cuts the power, at some call (F-1, F-6, F-10). The new directory
is then either refused by tool and broker, or complete; the source is unchanged."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from fault import Fault  # noqa: E402


def calls(*names):
    return "+".join(f"any.{name}" for name in names)


WRITES = calls("pwrite", "writev", "fsync", "fdatasync", "rename", "unlink")
EVERYTHING = WRITES + "+" + calls("open", "mkdir", "posix_fallocate")
TASKS = 30
# With TARRY_SLOW, each call is interrupted in turn. Otherwise every ninth call is, and the last calls, which complete
# the directory.
STEP = 1 if os.environ.get("TARRY_SLOW") else 9
LAST = 6


class Into(harness.Case):
    """A source with a few tasks, and commands that are killed before their end."""

    arguments = ("--segment-size", "1MiB")

    def setUp(self):
        super().setUp()
        for number in range(TASKS):
            self.broker.one("schedule", "q", "--key", f"k{number}", "--in", "1h", "--body", "b" * 100)
        self.assertEqual(self.broker.stop(), 0)
        self.now = harness.now_ms()
        self.then = self.path("then")

    def make(self, what, first, how):
        """Runs the command; returns its status and the call that was hit."""
        shutil.rmtree(self.then, ignore_errors=True)
        fault = Fault(self.directory, self.then, what, how, first=first)
        command = [harness.find_program("tarry"), "audit", "--data", self.broker.data, "--as-of", str(self.now), "--into",
                   self.then]
        done = subprocess.run(command, env={**os.environ, **fault.env()}, check=False, capture_output=True, timeout=60)
        matched, hit = fault.matched, fault.hit
        fault.close()
        return done.returncode, matched, hit

    def judge(self, what):
        """Returns True if the directory is complete."""
        if not os.path.isdir(self.then) or not os.listdir(self.then):
            return False
        done = subprocess.run([harness.find_program("tarry"), "verify", self.then], check=False, capture_output=True, text=True)
        if done.returncode != 0:
            self.assertIn("unfinished copy", done.stderr, what)
            broker = self.make_broker(data=self.then).launch()
            self.assertEqual(broker.process.wait(harness.READY_WAIT_S), 1, what)
            broker.reader.join(5)
            self.assertIn("unfinished copy", broker.log_text(), what)
            self.brokers.remove(broker)
            return False
        self.assertIn(f"{TASKS} live tasks", done.stdout, what)
        return True

    def every_call(self, what, how):
        status, count, _ = self.make(what, 0, how)
        self.assertEqual(status, 0)
        self.assertTrue(self.judge("unhurt"))
        self.assertGreater(count, 30)
        whole = 0
        for first in sorted({*range(1, count + 1, STEP), *range(count + 1 - LAST, count + 1)}):
            status, _, hit = self.make(what, first, how)
            self.assertEqual(status, -9, f"call {first} of {count}: {hit}")
            whole += self.judge(f"call {first} of {count}, {how}: {hit}")
        self.assertGreater(whole, 0)  # if the kill comes at one of the last calls, the directory is complete
        self.assertLess(whole, 4)
        done = subprocess.run([harness.find_program("tarry"), "verify", self.broker.data], check=False, capture_output=True)
        self.assertEqual(done.returncode, 0)

    def test_f6_killed_before_any_call(self):
        self.every_call(EVERYTHING, "kill")

    def test_f1_the_power_fails_before_any_call(self):
        self.every_call(WRITES, "cut")


if __name__ == "__main__":
    harness.main()
