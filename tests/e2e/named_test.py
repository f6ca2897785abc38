"""named_test.py: a commit that got a name before it was sent takes effect once, across crashes of the program and of the broker;
and its outcome can be asked (ONCE-1)."""
import subprocess

import harness


class Named(harness.Case):
    def say(self, *arguments):
        return subprocess.run([harness.find_program("named"), self.broker.url, *arguments], stdout=subprocess.PIPE, text=True,
                              timeout=60, check=True).stdout.strip()

    def crash(self):
        self.broker.kill()
        self.broker.restart()

    def live(self):
        return [task["key"] for task in self.broker.ok("list", "q")]

    def test_it_takes_effect_once_across_crashes(self):
        name = self.say("name")
        first = self.say("run", name, "order-1")
        self.assertRegex(first, r"^ok scheduled \d+$")
        for _ in range(2):
            self.assertEqual(self.say("ask", name), first)
            self.assertEqual(self.say("run", name, "order-1"), first, "the same answer, and no second task")
            self.crash()
        self.assertEqual(self.live(), ["order-1"])

    def test_the_name_outlives_a_crash_before_the_commit_was_sent(self):
        name = self.say("name")
        self.crash()
        self.assertRegex(self.say("run", name, "order-2"), r"^ok scheduled \d+$")

    def test_what_never_arrived_never_will(self):
        name = self.say("name")
        self.assertEqual(self.say("ask", name), "abandoned")
        self.assertEqual(self.say("run", name, "late"), "abandoned")
        self.crash()
        self.assertEqual(self.say("run", name, "late"), "abandoned", "the question was recorded")
        self.assertEqual(self.say("ask", name), "abandoned")
        self.assertEqual(self.broker.ok("list", "q") if self.broker.tarry("list", "q").status == 0 else [], [])

    def test_what_the_broker_does_not_remember_is_forgotten(self):
        cluster, producer, _ = self.say("name").split("-")
        self.assertEqual(self.say("ask", f"{cluster}-{int(producer) + 8}-1"), "forgotten")
        self.assertEqual(self.say("run", f"{cluster}-{int(producer) + 8}-1", "order-3"), "forgotten")

    def test_a_refusal_is_remembered_too(self):
        self.broker.one("schedule", "q", "--key", "order-4", "--in", "1h")
        name = self.say("name")
        self.assertEqual(self.say("run", name, "order-4"), "aborted")
        self.broker.one("cancel", "q", "order-4")
        self.crash()
        self.assertRegex(self.say("ask", name), r"^aborted exists \d+$")
        self.assertEqual(self.live(), [])


if __name__ == "__main__":
    harness.main()
