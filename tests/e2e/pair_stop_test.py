"""pair_stop_test.py: a node of a pair is stopped cleanly, and the other one learns it at once."""
import signal
import time

import harness
import pair


class Stop(pair.Case):
    # This timeout is longer than the tests wait, so no event in them comes from a node's silence.
    arguments = ("--failover-after", "5m", "--solo-after", "5m")

    def test_a_leader_that_is_stopped_hands_over_first(self):
        self.start_pair()
        self.a.one("schedule", "orders", "--key", "order-1", "--in", "1h")
        self.a.process.send_signal(signal.SIGTERM)
        self.wait_role(self.b, "leading")
        self.assertEqual(self.a.process.wait(30), 0)
        self.assertEqual(self.b.one("cancel", "orders", "order-1")["result"], "cancelled")

    def test_a_call_that_meets_a_stop_is_answered_by_the_other_node(self):
        self.start_pair()
        both = f"{self.a.url},{self.b.url}"
        stream = harness.Stream([harness.find_program("tarry"), "schedule", "--from", "-", "--timeout", "60s", "--broker", both, "--json"],
                                dict(self.a.env), stdin=True)
        self.addCleanup(stream.kill)
        for number in range(200):
            stream.send({"queue": "orders", "key": f"order-{number}", "delay_ms": 3_600_000})
            self.assertEqual(stream.next()["result"], "scheduled")
            if number == 100:
                self.a.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.a.process.wait(30), 0)
        self.wait_role(self.b, "leading")

    def test_an_idle_leader_does_not_wait_for_its_followers_next_question(self):
        """A follow request always waits at the leader for new frames. The leader must stop at once nevertheless."""
        self.start_pair()
        self.a.one("schedule", "orders", "--in", "1h")
        self.wait_in_sync()
        self.assertEqual(self.a.stop(), 0)
        self.assertFalse(any("event=follower_awaited" in line for line in self.a.log), self.a.log_text())
        self.wait_role(self.b, "leading")

    def test_a_follower_that_is_stopped_says_goodbye_and_nobody_waits_for_it(self):
        """F-27: a stopped follower says goodbye, so the leader continues at once; it would give up a silent node only after
        five minutes.
        """
        self.start_pair()
        self.assertEqual(self.b.stop(), 0)
        self.wait_log(self.a, "event=follower_left")
        self.assertEqual(self.a.one("schedule", "orders", "--in", "1h")["result"], "scheduled")
        self.assertEqual(self.record()["in-sync"], "0")
        self.b.start()
        self.wait_in_sync()

    def test_a_goodbye_does_not_wait_for_a_leader_that_stands_still(self):
        self.start_pair()
        self.freeze(self.a)
        before = time.monotonic()
        self.assertEqual(self.b.stop(), 0)
        self.assertLess(time.monotonic() - before, 5)
        self.thaw(self.a)

    def test_a_leader_without_a_follower_in_sync_stops_as_it_would_alone(self):
        self.a.start()
        self.wait_role(self.a, "leading")
        self.assertEqual(self.a.stop(), 0)


class Operator(pair.Case):
    coordinated = False
    arguments = ("--failover-after", "5m")

    def test_a_leader_that_is_stopped_hands_over_first(self):
        self.start_pair()
        self.a.process.send_signal(signal.SIGTERM)
        self.wait_role(self.b, "leading")
        self.assertEqual(self.a.process.wait(30), 0)

    def start_pair(self):
        self.a.start()
        self.b.start()
        self.wait_role(self.a, "leading")
        self.a.one("schedule", "orders", "--key", "order-1", "--in", "1h")
        self.wait_pending(self.b, 1)


if __name__ == "__main__":
    harness.main()
