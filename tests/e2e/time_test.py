"""time_test.py: deliveries are never early (TIME-1), in the right order, and not unnecessarily late."""
import json
import random

import harness
from harness import Case, now_ms


class OnTime(Case):
    def test_a_thousand_tasks_none_early(self):  # TIME-1
        random.seed(7)
        consumer = self.broker.consume("q", "--count", 1000)
        lines = [{"queue": "q", "key": f"k{i}", "delay_ms": random.randrange(0, 3000)} for i in range(1000)]
        answers = self.broker.ok("schedule", "--from", "-", stdin="\n".join(map(json.dumps, lines)))
        due = {a["id"]: a["due_ms"] for a in answers}
        got = consumer.take(1000)
        self.assertEqual(len({d["id"] for d in got}), 1000)
        for delivery in got:
            self.assertEqual(delivery["due_ms"], due[delivery["id"]])
            self.assert_not_early(delivery)
        self.assert_none_overtaken(got)

    def assert_none_overtaken(self, deliveries):
        """Checks that no delivery comes after one that was due later: it would be unnecessarily late. bench/ measures
        lateness.
        """
        due = [delivery["due_ms"] for delivery in deliveries]
        self.assertEqual(due, sorted(due))

    def test_across_the_levels_of_the_wheel(self):  # F-36, TIME-1
        delays = [1, 2, 63, 64, 65, 255, 256, 257, 511, 1023, 1024, 1025, 4095, 4096, 4097]
        consumer = self.broker.consume("q", "--count", len(delays))
        for delay in delays:
            self.broker.one("schedule", "q", "--in", f"{delay}ms")
        got = consumer.take(len(delays))
        for delivery in got:
            self.assert_not_early(delivery)
        self.assert_none_overtaken(got)

    def test_equal_priority_comes_in_order_of_due_time_then_id(self):
        random.seed(11)
        base = now_ms() - 10_000
        lines = [{"queue": "q", "due_ms": base + random.randrange(0, 50)} for _ in range(500)]
        answers = self.broker.ok("schedule", "--from", "-", stdin="\n".join(map(json.dumps, lines)))
        expected = [a["id"] for a in sorted(answers, key=lambda a: (a["due_ms"], int(a["id"])))]
        got = self.broker.ok("consume", "q", "--count", 500)
        self.assertEqual([d["id"] for d in got], expected)

    def test_higher_priority_goes_first_among_what_is_ready(self):
        self.broker.ok("queue", "pause", "q")
        lines = [{"queue": "q", "delay_ms": 0, "priority": i % 10} for i in range(300)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(map(json.dumps, lines)))
        consumer = self.broker.consume("q", "--prefetch", 1, "--count", 300)
        self.assertTrue(consumer.quiet_for(0.5))
        self.broker.ok("queue", "resume", "q")
        priorities = [d["priority"] for d in consumer.take(300, 120)]
        self.assertEqual(priorities, sorted(priorities, reverse=True))

    def test_a_task_due_while_the_broker_was_down_fires_when_it_is_back(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "200ms")
        self.broker.kill()
        import time
        time.sleep(0.5)
        self.broker.start()
        delivery = self.broker.one("consume", "q", "--count", 1)
        self.assertEqual((delivery["key"], delivery["attempt"]), ("k", 1))

    def test_a_delay_is_not_shortened_by_a_restart(self):  # TIME-2
        answer = self.broker.one("schedule", "q", "--key", "k", "--in", "2s")
        for _ in range(3):
            self.broker.restart()
        delivery = self.broker.one("consume", "q", "--count", 1)
        self.assertEqual(delivery["due_ms"], answer["due_ms"])
        self.assert_not_early(delivery)


if __name__ == "__main__":
    harness.main()
