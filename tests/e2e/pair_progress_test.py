"""pair_progress_test.py: the reported progress of a follower (bytes, remaining time) while it fetches a snapshot or catches
up; and a backup of a pair.
"""
import copy
import json
import re
import subprocess
import urllib.request

import harness
import pair
import pair_snapshot_test
from proxy import Proxy

MIB = 1 << 20


def metrics(broker):
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.port}/metrics", timeout=10) as page:
        return {name: float(value) for name, value in re.findall(r"^(tarry_pair_\w+) (\S+)$", page.read().decode(), re.M)}


class Slow:
    """A mixin for pair.Case: the follower reaches its primary through a slow proxy."""

    def setUp(self):
        super().setUp()
        at = self.b.arguments.index("--follow") + 1
        self.net = Proxy(int(self.b.arguments[at].rsplit(":", 1)[1]))
        self.addCleanup(self.net.close)
        self.b.arguments[at] = self.net.url


class Snapshot(Slow, pair_snapshot_test.Case):
    coordinated = False
    start_pair = pair_snapshot_test.ByHand.start_pair
    leave_behind = pair_snapshot_test.ByHand.leave_behind

    def test_how_far_a_snapshot_is(self):
        self.leave_behind()
        self.net.delay_s = 0.06
        self.b.launch()

        def progress():
            peer = self.a.tarry("status").one["peer"]
            return peer if peer["copied"] and peer["left_ms"] else None

        peer = self.wait_for("the primary tells", progress)
        self.assertTrue(0 < peer["copied"] < peer["copy_bytes"], peer)
        self.assertGreater(peer["copy_bytes"], 5 * MIB)
        self.assertLess(peer["left_ms"], 120_000)
        counted = metrics(self.a)
        self.assertEqual(counted["tarry_pair_copy_bytes"], peer["copy_bytes"])
        self.assertGreaterEqual(counted["tarry_pair_copied_bytes"], peer["copied"])
        command = self.a.command("status")[:-1]  # without --json
        said = subprocess.run(command, stdout=subprocess.PIPE, timeout=30, check=False).stdout.decode()
        self.assertRegex(said, r"the follower has \d+ of \d+ bytes, about \S+ left")
        self.wait_log(self.b, "event=snapshot_copying", wait_s=60)
        [line] = [line for line in self.b.log if "event=snapshot_copying" in line][:1]
        copied, total, left_ms = map(int, re.search(r"copied=(\d+) bytes=(\d+) left_ms=(\d+)", line).groups())
        self.assertTrue(0 < copied < total and left_ms > 0, line)
        self.net.delay_s = 0
        self.b.wait_ready()
        self.wait_for("it is over", lambda: self.a.tarry("status").one["peer"]["copy_bytes"] == 0)
        self.assertEqual(metrics(self.a)["tarry_pair_copy_bytes"], 0)


class CatchingUp(Slow, pair.Case):
    def fill(self, mebibytes):
        lines = "\n".join(json.dumps({"queue": "bulk", "delay_ms": 3600000, "body": "x" * 500_000}) for _ in range(2 * mebibytes))
        self.a.ok("schedule", "--from", self.path("bulk.ndjson", lines + "\n"))

    def test_how_far_a_follower_is_that_catches_up(self):
        self.start_pair()
        self.b.kill()
        self.wait_for("a goes on alone", lambda: self.record().get("in-sync") == "0")
        self.fill(48)
        self.net.delay_s = 0.012  # with this delay, the 4 MiB of frames in one reply arrive just before the timeout
        self.b.start()
        for broker in (self.b, self.a):
            peer = self.wait_for("it tells", lambda asked=broker: (found := asked.tarry("status").one["peer"])["left_ms"] and found)
            self.assertGreater(peer["lag_bytes"], MIB)
            self.assertLess(peer["left_ms"], 300_000)
        self.assertIn("tarry_pair_left_seconds", metrics(self.b))
        self.wait_log(self.b, "event=catching_up", wait_s=60)
        [line] = [line for line in self.b.log if "event=catching_up" in line][:1]
        self.assertGreater(int(re.search(r"lag_bytes=(\d+)", line)[1]), MIB)
        self.net.delay_s = 0
        self.wait_in_sync()
        self.assertNotIn("left_ms", self.a.tarry("status").one)


class Backup(pair.Case):
    def backup(self, name):
        """Makes a backup as an operator does: the command has both nodes' addresses."""
        both = copy.copy(self.a)
        both.url = f"{self.a.url},{self.b.url}"
        return both.one("backup", self.path(name))

    def test_a_pair_is_backed_up_from_its_follower(self):
        self.start_pair()
        position = int(self.a.one("schedule", "orders", "--key", "one", "--in", "1h")["position"])
        self.wait_pending(self.b, 1)
        made = self.backup("first")
        self.assertEqual((made["broker"], made["verified"], made["live"]), (self.b.url, True, 1))
        self.assertGreaterEqual(made["position"], position)
        self.b.ok("promote")
        self.wait_role(self.b, "leading")
        self.wait_for("a follows", lambda: (found := self.a.tarry("status").one).get("role") == "follower" and found["in_sync"])
        made = self.backup("second")
        self.assertEqual((made["broker"], made["live"]), (self.a.url, 1))  # b may have become the primary
        self.a.kill()
        self.wait_for("b goes on alone", lambda: self.record().get("in-sync") == "1")
        made = self.backup("third")
        self.assertEqual((made["broker"], made["live"]), (self.b.url, 1))


if __name__ == "__main__":
    harness.main()
