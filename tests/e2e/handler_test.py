"""handler_test.py: the verdict of a consumer's handler takes effect, with its delay and reason, and the handler learns the
result.
"""
import re
import subprocess

import harness


class Handler(harness.Case):
    HOW = ()

    def schedule(self, key, payload):
        self.broker.one("schedule", "q", "--key", key, "--in", "0s", "--body", payload)

    def handle(self, count, queue="q"):
        """Runs the program; returns its lines once `count` verdicts are settled."""
        done = subprocess.run([harness.find_program("handler"), self.broker.url, queue, str(count), *self.HOW], stdout=subprocess.PIPE,
                              text=True, timeout=120, check=False)
        self.assertNotIn("wrong thread", done.stdout)
        return done.stdout.splitlines()

    def said(self, lines, what, key):
        return [line for line in lines if line.startswith(f"{what} {key} ")]

    def at(self, line):
        return int(re.search(r"at_ms=(\d+)", line)[1])

    def test_a_nack_has_the_handlers_delay_and_reason(self):
        self.broker.one("queue", "set", "q", "backoff_min=1h", "backoff_max=1h")  # differs from the handler's delay
        self.schedule("slow", "nack 700 the bank is closed")
        lines = self.handle(2)
        first, second = self.said(lines, "handled", "slow")
        self.assertIn("fresh=1", second, "the details of one nack must not be another's")
        self.assertGreaterEqual(self.at(second) - self.at(first), 700)
        self.assertEqual(self.said(lines, "settled", "slow"), ["settled slow ok nacked closed=0", "settled slow ok acked closed=0"])
        self.assertIn("delivery=1", first)
        nacked = [fact for fact in self.broker.ok("history", "q", "slow") if fact.get("reason")]
        self.assertEqual([fact["reason"] for fact in nacked], ["the bank is closed"])

    def test_a_nack_without_a_delay_leaves_it_to_the_queue(self):
        self.broker.one("queue", "set", "q", "backoff_min=1500ms")
        self.schedule("slow", "nack")
        lines = self.handle(2)
        first, second = self.said(lines, "handled", "slow")
        self.assertGreaterEqual(self.at(second) - self.at(first), 1500)

    def test_a_dead_letter_has_the_handlers_reason(self):
        self.schedule("gone", "dead the card has expired")
        self.assertEqual(self.said(self.handle(1), "settled", "gone"), ["settled gone ok buried closed=0"])
        self.assertEqual([dead["reason"] for dead in self.broker.ok("dead", "list", "q")], ["the card has expired"])

    def test_a_reason_that_does_not_fit_ends_between_two_characters(self):
        for key, character in (("two", "ä"), ("three", "€"), ("four", "🙂")):
            for shift in range(4):
                reason = "x" * shift + character * 200
                self.schedule(f"{key}{shift}", "dead " + reason)
        self.handle(12)
        dead = {letter["key"]: letter["reason"] for letter in self.broker.ok("dead", "list", "q")}
        self.assertEqual(len(dead), 12)
        for key, character in (("two", "ä"), ("three", "€"), ("four", "🙂")):
            for shift in range(4):
                fits = (255 - shift) // len(character.encode())
                self.assertEqual(dead[f"{key}{shift}"], "x" * shift + character * fits)

    def test_a_handler_learns_that_its_verdict_came_too_late(self):
        self.schedule("late", "withdraw")
        self.assertEqual(self.said(self.handle(1), "settled", "late"), ["settled late stale_token already_cancelled closed=0"])

    def test_everything_is_told_before_the_consumer_is_closed(self):
        self.broker.schedule_all([{"queue": "q", "key": f"t{number}", "delay_ms": 0, "body": "ack"} for number in range(500)])
        lines = self.handle(1)
        handled = {line.split()[1] for line in lines if line.startswith("handled ")}
        settled = [line.split()[1] for line in lines if line.startswith("settled ")]
        self.assertEqual(sorted(settled), sorted(handled))
        self.assertEqual([line for line in lines if line.endswith("closed=1")], [])

    def test_what_is_given_back_has_cost_no_attempt(self):
        self.schedule("back", "release")
        lines = self.handle(2)
        self.assertEqual(self.said(lines, "settled", "back"), ["settled back ok released closed=0", "settled back ok acked closed=0"])

    def test_a_refused_subscription_says_why(self):
        self.assertEqual(self.handle(1, queue=" q"), ["refused queue name begins or ends with a space"])


class HandlerInALoop(Handler):
    """Runs the same tests, with the handler and its callbacks called by the program's own event loop."""
    HOW = ("loop",)


if __name__ == "__main__":
    harness.main()
