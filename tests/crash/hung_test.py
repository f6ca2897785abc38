"""hung_test.py: the disk of a pair's leader hangs but does not fail (F-31a). The leader's status shows it, and the follower,
which has everything, takes over."""
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
import pair  # noqa: E402
from fault import FOR_EVER, Fault  # noqa: E402

PAUSE_S = 3  # twice LEADER_DISK_HUNG_MS of broker/replication/leader_half.h
HANGS = "the disk of the data directory does not respond"


class Hung(pair.Case):
    """F-31a"""

    # With --failover-after 60s a node takes over within the test only if an operator orders it. While the disk of the
    # former leader hangs, the new leader waits 2 s for it (--solo-after).
    arguments = ("--failover-after", "60s", "--solo-after", "2s")

    def setUp(self):
        super().setUp()
        self.fault = Fault(self.directory, self.a.data, "log.fdatasync", "hold")
        self.addCleanup(self.fault.close)
        self.addCleanup(self.fault.disarm)  # lets waiting calls continue; cleanups run in reverse order, so this one runs before fault.close
        self.a.env = {**self.a.env, **self.fault.env()}

    def hang(self, urls):
        """From now on every sync of node a's log hangs, and a write waits for it."""
        self.fault.arm(self.fault.matched + 1, FOR_EVER)
        stream = harness.Stream([harness.find_program("tarry"), "schedule", "--from", "-", "--timeout", "120s", "--json", "--broker", urls],
                                dict(self.b.env), stdin=True)
        self.addCleanup(stream.kill)
        stream.send({"queue": "orders", "key": "order-2", "delay_ms": 3_600_000})
        self.fault.wait_fired()
        return stream

    def says(self, broker):
        return HANGS in (broker.tarry("status").one["problem"] or "")

    def test_the_follower_leads_when_its_leaders_disk_hangs(self):
        self.start_pair()
        self.a.one("schedule", "orders", "--key", "order-1", "--in", "1h")
        stream = self.hang(f"{self.a.url},{self.b.url}")
        self.wait_role(self.b, "leading")
        self.wait_log(self.a, "event=disk_hangs")
        self.assertEqual(stream.next()["result"], "scheduled")
        self.assertEqual(self.b.one("cancel", "orders", "order-1")["result"], "cancelled")
        self.wait_log(self.a, "event=deposed")
        self.fault.disarm()
        self.wait_in_sync()

    def test_f13_a_leader_that_stood_still_in_a_sync_does_not_take_its_disk_for_hung(self):
        self.start_pair()
        stream = self.hang(self.a.url)
        for broker in (self.b, self.a):
            self.freeze(broker)
        time.sleep(PAUSE_S)
        for broker in (self.b, self.a):
            self.thaw(broker)
        self.wait_log(self.a, "event=overslept")  # the node notices the pause and checks its disk in the same round of its loop, while the sync still hangs
        self.fault.disarm()
        self.assertEqual(stream.next()["result"], "scheduled")
        self.assertEqual(self.a.tarry("status").one["role"], "primary")
        self.wait_in_sync()
        self.assertFalse(any("event=deposed" in line for line in self.a.log), self.a.log_text())

    def test_a_leader_without_a_follower_in_sync_waits_for_its_disk(self):
        self.a.start()
        self.wait_role(self.a, "leading")
        stream = self.hang(self.a.url)
        self.wait_for("it says so", lambda: self.says(self.a))
        self.fault.disarm()
        self.assertEqual(stream.next()["result"], "scheduled")
        self.wait_for("it says so no more", lambda: not self.says(self.a))
        self.assertFalse(any("event=deposed" in line for line in self.a.log), self.a.log_text())


if __name__ == "__main__":
    harness.main()
