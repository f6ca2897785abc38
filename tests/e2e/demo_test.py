"""demo_test.py: the demonstration succeeds, also with real orders, and would report a failure."""
import os
import re
import subprocess
import sys
import unittest

import harness

PLAY_MAX_S = 200
HERE = os.path.dirname(os.path.abspath(__file__))
ORDERS = os.environ.get("TARRY_ORDERS", os.path.join(HERE, "..", "..", "..", "shared", "data", "orders.csv"))
SUMMARY = re.compile(r"^orders=(\d+) paid=(\d+) closed=(\d+) early=(\d+) lost=(\d+) duplicates=(\d+) "
                     r"lateness_p50_ms=\S+ lateness_p99_ms=\S+ lateness_max_ms=\S+$", re.MULTILINE)


TOLD_OF_A_PAIR = ("a leads on", "the primary a (pid", "a is back, and follows b", "a consumer (pid", "b has handed over to a",
                  "both were stopped and started",                  "their logs are the same")
PAIR = re.compile(r"^pair: failover_ms=(\d+) switch_over_ms=(\d+) upgrade_call_ms=(\d+) quarantined_bytes=(\d+)$", re.MULTILINE)


class Demo(unittest.TestCase):
    def play(self, *arguments, told=("the broker (pid", "a consumer (pid"), speeds=("7200",)):
        """Runs the demonstration at each speed until one gives its story enough time, because machines may be slow. Returns
        (orders, paid, closed) and the output.
        """
        for speed in speeds:
            done = subprocess.run([sys.executable, os.path.join(HERE, "demo.py"), *arguments, "--speed", speed],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PLAY_MAX_S, check=False)
            if "could not be shown" not in done.stderr:
                break
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for remark in told:
            self.assertIn(remark, done.stderr)
        found = SUMMARY.search(done.stdout)
        self.assertTrue(found, done.stdout)
        orders, paid, closed, early, lost, _ = map(int, found.groups())
        self.assertEqual((early, lost), (0, 0))
        self.assertEqual(paid + closed, orders)
        return (orders, paid, closed), done.stdout

    def test_made_up_orders(self):
        (orders, paid, closed), _ = self.play("--count", "1500")
        self.assertEqual(orders, 1500)
        self.assertGreater(paid, 0)
        self.assertGreater(closed, 0)

    def test_a_pair(self):
        (orders, _, closed), said = self.play("--pair", "--count", "1500", told=TOLD_OF_A_PAIR, speeds=("7200", "1800"))
        self.assertEqual(orders, 1500)
        self.assertGreater(closed, 0)
        failover_ms = int(PAIR.search(said).group(1))
        self.assertGreater(failover_ms, 0)  # the death of a process is detected at once

    def test_a_day_that_is_too_short_for_its_story_is_no_success(self):
        """The day may be too short for the story, which must fail with a message. If the day is long enough, the demonstration
        must succeed.
        """
        done = subprocess.run([sys.executable, os.path.join(HERE, "demo.py"), "--pair", "--count", "100", "--speed", "86400"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PLAY_MAX_S, check=False)
        if done.returncode == 0:
            for remark in TOLD_OF_A_PAIR:
                self.assertIn(remark, done.stderr)
            return
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("could not be shown", done.stderr)

    @unittest.skipUnless(os.path.exists(ORDERS), "no ../shared/data/orders.csv here")
    def test_real_orders(self):
        with open(ORDERS, encoding="ascii") as file:
            rows = [line.rstrip("\n").split(",") for line in file][1:]
        in_time = sum(1 for row in rows if row[2] and int(row[2]) - int(row[1]) < 1700)
        for speed in ("3600", "900"):  # 30 minutes become 500 ms, and delays of a slow machine make payments late
            (orders, paid, closed), _ = self.play("--orders", ORDERS, "--limit", "30m", speeds=(speed,))
            if paid >= in_time * 0.95:
                break
        self.assertEqual(orders, len(rows))
        self.assertGreaterEqual(paid, in_time * 0.95, "payments that came well in time must count")
        self.assertGreater(closed, 0)


if __name__ == "__main__":
    harness.main()
