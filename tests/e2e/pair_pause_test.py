"""pair_pause_test.py: a node of a pair stands still for longer than the other one is given, and goes on (F-13)."""
import time

import harness
import pair

PAUSE_S = 5  # twice what the other node is given


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
        """As it was: nobody took over, and what is acknowledged is durable on both."""
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


if __name__ == "__main__":
    harness.main()
