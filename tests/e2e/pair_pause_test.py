"""pair_pause_test.py: a node of a pair is stopped for longer than the other node's timeout, and then continued (F-13)."""
import time

import harness
import pair
import wire

PAUSE_S = 5  # twice the other node's timeout
STALLED_S = 3  # the limit of broker/replication/leader_half.c for a late confirmation is 1 s


class Pause(pair.Case):
    """F-13"""

    arguments = ("--failover-after", "2500ms", "--solo-after", "60s")

    def setUp(self):
        super().setUp()
        self.start_pair()
        self.epoch = self.record()["epoch"]

    def pause(self, *brokers):
        for broker in brokers:
            self.freeze(broker)
        time.sleep(PAUSE_S)
        for broker in brokers:
            self.thaw(broker)

    def assert_goes_on(self):
        """Checks that no node took over, and that acknowledged commits are durable on both nodes."""
        self.wait_for("the follower says that it stood still", lambda: any("event=overslept" in line for line in self.b.log))
        self.assertEqual(self.a.one("schedule", "orders", "--in", "1h")["result"], "scheduled")
        self.wait_in_sync()
        self.wait_role(self.a, "leading")
        self.assertEqual(self.record()["epoch"], self.epoch)
        self.assertFalse(any("event=deposed" in line for line in self.a.log), self.a.log_text())

    def test_a_follower_that_stood_still_does_not_depose_a_healthy_leader(self):
        self.pause(self.b)
        self.assert_goes_on()

    def test_a_pair_whose_hosts_stood_still_goes_on_as_it_was(self):
        self.pause(self.b, self.a)
        self.assert_goes_on()


class Awaited(pair.Case):
    """F-27: while the follower is stopped and still counts, nothing is acknowledged. New clients get an error that says so."""

    arguments = ("--failover-after", "60s", "--solo-after", "60s")

    def test_who_asks_while_the_follower_stands_still_is_told_to_try_again(self):
        self.start_pair()
        with wire.Rpc(self.a.port) as first, wire.Rpc(self.a.port) as second:
            producers = [peer.hello() for peer in (first, second)]
            commits = [wire.commit(producer, 1, [wire.schedule("orders", "", 3_600_000)]) for producer in producers]
            self.freeze(self.b)
            first.tell(wire.COMMIT, commits[0])  # the leader accepts the commit, but does not acknowledge it
            time.sleep(STALLED_S)
            self.assertEqual(second.ask(wire.COMMIT, commits[1], wait_s=harness.ANSWER_WAIT_S)[0], wire.BUSY)
            self.assertIn("the follower does not confirm", second.sentence)
            self.thaw(self.b)
            self.assertEqual(first.hear(harness.ANSWER_WAIT_S)[1], wire.OK)
            self.wait_for("it is taken again", lambda: second.ask(wire.COMMIT, commits[1])[0] == wire.OK)
        self.wait_pending(self.b, 2)


if __name__ == "__main__":
    harness.main()
