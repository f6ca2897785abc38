"""herds_test.py: rate, burst and max_in_flight of a queue hold over all consumers, after kill -9, and for all protocols
(HERD-1).
"""
import json

import harness
from harness import Case


class Herds(Case):
    def fill(self, count):
        lines = [{"queue": "mail", "key": f"k{i}", "in": "0s"} for i in range(count)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(map(json.dumps, lines)))

    def leases(self):
        """Returns the times in ms of all leases, from the log."""
        return sorted(entry["at_ms"] for entry in self.broker.ok("audit", "--kind", "leased"))

    def test_no_window_has_more_than_the_rate_across_a_crash(self):
        self.broker.ok("queue", "set", "mail", "rate=20/s", "burst=4")
        self.fill(60)
        first, second = self.broker.consume("mail"), self.broker.consume("mail")
        first.take(10)
        second.take(10)
        self.broker.restart()
        self.broker.wait_stats("mail", acked=60)
        times = self.leases()
        self.assertGreaterEqual(len(times), 60)
        for i, since in enumerate(times):
            for k in range(i, len(times)):  # one more than 4 + 20/s: the log's times are whole milliseconds
                self.assertLessEqual(k - i + 1, 5 + (times[k] - since) * 20 / 1000, (i, k))

    def test_max_in_flight_counts_all_consumers_and_leases_over_http(self):
        self.broker.ok("queue", "set", "mail", "max_in_flight=3")
        self.fill(10)
        one, two = self.broker.consume("mail", "--ack", "none"), self.broker.consume("mail", "--ack", "none")
        self.broker.wait_stats("mail", in_flight=3)
        self.assertTrue(one.quiet_for(0.5) or two.quiet_for(0.5))
        self.assertEqual(self.broker.queue_stats("mail")["in_flight"], 3)
        self.broker.ok("queue", "set", "mail", "max_in_flight=5")
        self.broker.wait_stats("mail", in_flight=5)
        self.assertEqual(self.broker.one("queues")["policy"]["max_in_flight"], 5)

    def test_what_cannot_be_is_refused_and_nothing_is_stored(self):
        for setting, word in (("rate=fast", "rate: 'fast' is not"), ("rate=5/fortnight", "such as 1000/s"), ("rate=10000/s burst=1", "burst is too small"), ("rate=2000000/s", "0 to 1000000"), ("rate=1/10ms", "1 second to 24 hours"),
                              ("max_in_flight=-1", "whole number"), ("fast=1", "push, filter, and no others"), ("max_in_flight=300000", "0 to 262144"), ("rate=1/s rate_period=2s", "rate_period")):
            answer = self.broker.tarry("queue", "set", "mail", *setting.split())
            self.assertIn(answer.status, (1, 2), setting)
            self.assertIn(word, answer.err, setting)
        self.assertEqual([queue["policy"]["rate"] for queue in self.broker.ok("queues")], [0] * len(self.broker.ok("queues")))

    def test_people_see_the_limits(self):
        self.broker.ok("queue", "set", "mail", "rate=600/min", "burst=20", "max_in_flight=7")
        self.assertIn("600/min (burst 20), 7 in flight", self.broker.words("queues"))
        self.assertRegex(self.broker.words("queue", "show", "mail"), r"(?m)^limits +600/min \(burst 20\), 7 in flight$")
        self.assertIn("rate 600/min, burst 20, at most 7 in flight", self.broker.words("audit", "--kind", "queue"))


if __name__ == "__main__":
    harness.main()
