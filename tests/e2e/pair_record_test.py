"""pair_record_test.py: what the nodes do if the coordinator's record contradicts their directories."""
import os
import shutil

import harness
import pair

REFUSED = 1


class Twice(pair.Case):
    """F-31d"""

    arguments = ("--failover-after", "2s", "--solo-after", "1s")

    def lead_epoch_twice(self, frames):
        """Lets node a lead epoch 2. Then restores node a and the record to their earlier state, and lets a different epoch 2
        begin.
        """
        self.start_pair()
        self.assertEqual((self.b.stop(), self.a.stop()), (0, 0))
        shutil.copytree(self.a.data, self.path("a-before"))
        shutil.copy(self.path("coordinator"), self.path("record-before"))
        self.start_pair()
        self.a.one("schedule", "orders", "--key", "x", "--in", "1h")
        self.wait_pending(self.b, 1)
        self.b.kill()
        self.a.kill()
        shutil.rmtree(self.a.data)
        shutil.move(self.path("a-before"), self.a.data)
        os.replace(self.path("record-before"), self.path("coordinator"))
        self.a.start()
        self.wait_role(self.a, "leading")
        for number in range(frames):
            self.a.one("schedule", "orders", "--key", f"y{number}", "--in", "1h")
        self.assertEqual(self.record()["epoch"], "2")

    def assert_b_refuses(self):
        self.b.launch()
        self.assertEqual(self.b.process.wait(pair.WAIT_S), REFUSED)
        self.b.wait_logged("differ within one epoch")
        self.assertFalse(any("event=tail_quarantined" in line for line in self.b.log), self.b.log_text())

    def test_a_follower_whose_epoch_was_led_again_refuses_once(self):
        """In a former defect, the follower asked thousands of times a second where to cut its log, and cut nothing."""
        self.lead_epoch_twice(frames=6)
        self.assert_b_refuses()

    def test_nothing_is_cut_off_where_the_other_is_longer(self):
        """Both nodes had acknowledged the frames of epoch 2 that node b still has, so b must not cut them off."""
        self.lead_epoch_twice(frames=0)
        self.assert_b_refuses()


class Lost(pair.Case):
    """F-31b: the coordinator's record is older than the nodes' state."""

    arguments = ("--failover-after", "500ms", "--solo-after", "1s")

    def record_text(self):
        with open(self.path("coordinator"), encoding="ascii") as file:
            return file.read()

    def says(self, broker, words):
        self.wait_for(words, lambda: words in (broker.tarry("status").one["problem"] or ""))
        self.assertEqual(broker.tarry("status").one["role"], "looking")

    def stop_pair(self):
        """Stops both nodes after node a has led epoch 2 alone."""
        self.start_pair()
        shutil.copy(self.path("coordinator"), self.path("record-before"))
        self.assertEqual((self.b.stop(), self.a.stop()), (0, 0))
        self.a.start()
        self.wait_for("a leads again", lambda: self.record()["epoch"] == "2")
        self.a.one("schedule", "orders", "--in", "1h")
        self.a.kill()

    def test_a_record_that_was_lost_is_not_made_anew_and_may_be_put_back(self):
        self.stop_pair()
        os.rename(self.path("coordinator"), self.path("aside"))
        self.a.start()
        self.b.start()
        self.says(self.a, "no longer has this pair's record")
        self.says(self.b, "no longer has this pair's record")
        self.assertFalse(os.path.exists(self.path("coordinator")))
        os.rename(self.path("aside"), self.path("coordinator"))
        self.wait_in_sync()
        self.wait_pending(self.b, 1)

    def test_nobody_claims_by_a_record_older_than_one_that_it_has_seen(self):
        """In a former defect, a node with an old record claimed the next epoch before it noticed that the record was old. So
        it refused to lead only at its first start.
        """
        self.stop_pair()
        os.replace(self.path("record-before"), self.path("coordinator"))
        before = self.record_text()
        for _ in range(2):
            self.a.start()
            self.says(self.a, "older than the one that this node has seen")
            self.assertEqual(self.a.stop(), 0)
        self.assertEqual(self.record_text(), before)


    def test_the_node_that_leads_writes_a_lost_record_again(self):
        self.start_pair()
        self.a.one("schedule", "orders", "--in", "1h")
        shown = self.a.one("pair", "record")
        self.assertEqual((shown["result"], shown["record"]), ("record", self.record_only()))
        self.assertIn("nothing was written, because the coordinator's record is not older", self.a.refused("pair", "record", "--write").err)
        os.remove(self.path("coordinator"))
        self.assertEqual(self.a.one("pair", "record")["result"], "no_record")
        self.assertIn("does not lead", self.b.refused("pair", "record", "--write").err)
        written = self.a.one("pair", "record", "--write")
        self.assertEqual(written["result"], "written")
        self.assertIn("epoch 1\nleader 0\nin-sync 0 1\n", written["record"])
        self.wait_log(self.a, "event=ready", 2)
        self.wait_for("a leads again", lambda: self.record().get("epoch") == "2")
        self.wait_for("b says that it does not believe it", lambda: "since this node first read it" in (self.b.tarry("status").one["problem"] or ""))
        self.b.restart()
        self.wait_in_sync()
        self.a.kill()
        self.wait_role(self.b, "leading")
        self.assertEqual(self.pending(self.b), 1)

    def test_whoever_led_last_writes_it_again_by_an_operators_word(self):
        self.stop_pair()
        os.replace(self.path("record-before"), self.path("coordinator"))
        self.a.start()
        self.says(self.a, "older than the one that this node has seen")
        self.assertIn("--peer-is-stopped", self.a.refused("pair", "record", "--write").err)
        self.a.one("pair", "record", "--write", "--peer-is-stopped")
        self.wait_for("a leads, above all that it has led", lambda: self.record().get("epoch") == "3")
        self.b.start()
        self.wait_in_sync()
        self.wait_pending(self.b, 1)

    def test_who_is_stopped_before_it_starts_again_stops(self):
        """After the reply to this command node a restarts itself. A SIGTERM that arrives then must still end the process."""
        self.start_pair()
        os.remove(self.path("coordinator"))
        self.a.one("pair", "record", "--write")
        self.assertEqual(self.a.stop(20), 0)

    def record_only(self):
        text = self.record_text()
        at = text.index("tarry-pair 1")
        return text[at:text.index("\nsum ", at)]


if __name__ == "__main__":
    harness.main()
