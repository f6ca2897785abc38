"""pair_alone_test.py: a primary that continues without its follower reports this in every place that an operator may check."""
import harness
import pair
from pair_stats_test import metrics


class Alone(pair.Case):
    """F-27"""

    arguments = ("--failover-after", "500ms", "--solo-after", "2s")

    def said(self, event):
        return [line for line in self.a.log if f"event={event} " in line]

    def test_a_primary_that_serves_alone_says_since_when_and_what_that_means(self):
        self.start_pair()
        self.wait_for("not alone", lambda: metrics(self.a)["alone_seconds"] == 0)
        before = len(self.said("serves_alone"))
        self.b.kill()
        self.a.one("schedule", "orders", "--in", "1h")
        self.wait_for("the log says so", lambda: len(self.said("serves_alone")) > before)
        line = self.said("serves_alone")[-1]
        self.assertIn("level=warning", line)
        self.assertIn("are only on its disk", line)
        self.assertEqual(self.said("follower_confirms"), [])  # the leader reports that it continues without the follower
        status = self.wait_for("a problem", lambda: (item := self.a.tarry("status").one)["problem"] and item)
        self.assertIn("serves alone", status["problem"])
        self.assertLessEqual(status["since_ms"], status["alone_since_ms"])
        self.assertGreater(metrics(self.a)["alone_seconds"], 0)
        self.b.start()
        self.wait_in_sync()
        self.wait_for("alone no more", lambda: "alone_since_ms" not in self.a.tarry("status").one)
        self.wait_log(self.a, "event=serves_alone_no_more")
        self.assertEqual(metrics(self.a)["alone_seconds"], 0)

    def records(self):
        return self.a.ok("audit", "--kind", "alone,alone_over")

    def test_an_auditor_sees_from_when_to_when_there_was_one_disk_only(self):
        """KEEP-1"""
        self.start_pair()
        self.a.one("schedule", "orders", "--in", "1h")
        before = len(self.records())
        self.b.stop()
        self.a.one("schedule", "orders", "--in", "1h")
        begin = self.wait_for("a record", lambda: self.records()[before:])[0]
        self.assertEqual((begin["kind"], begin["why"], begin["member"]), ("alone", "left", self.b.ready["member"]))
        self.assertLessEqual(begin["since_ms"], begin["at_ms"])
        self.assertLess(begin["at_ms"] - begin["since_ms"], 1000)
        self.assertLessEqual(begin["alone_from"], int(begin["position"]))
        self.b.start()
        self.wait_in_sync()
        end = self.wait_for("its end", lambda: self.records()[before + 1:])[0]
        self.assertEqual((end["kind"], end["why"], end["since_ms"]), ("alone_over", "left", begin["since_ms"]))
        words = self.a.words("audit", "--kind", "alone,alone_over")
        self.assertIn("on are only on this disk", words)
        self.assertIn("the follower is in sync again", words)
        told = self.records()
        self.b.stop()
        self.assertEqual(self.b.ok("audit", "--data", self.b.data, "--kind", "alone,alone_over"), told)

    def test_an_auditor_sees_whose_word_it_was(self):
        """KEEP-1"""
        for broker in (self.a, self.b):
            broker.arguments += ["--solo-after", "never"]
        self.start_pair()
        before = len(self.records())
        self.b.kill()
        self.a.ok("promote", "--peer-is-stopped")
        begin = self.wait_for("a record", lambda: self.records()[before:])[0]
        self.assertEqual((begin["kind"], begin["why"]), ("alone", "told"))
        self.assertIn(" tarry/", begin["client"])
        self.assertTrue(begin["peer"].startswith("127.0.0.1:"), begin)


if __name__ == "__main__":
    harness.main()
