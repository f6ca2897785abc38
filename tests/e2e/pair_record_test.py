"""pair_record_test.py: what the coordinator keeps, and what the nodes' directories are, no longer go together."""
import os
import shutil

import harness
import pair

REFUSED = 1


class Twice(pair.Case):
    """F-31d"""

    arguments = ("--failover-after", "2s", "--solo-after", "1s")

    def lead_epoch_twice(self, frames):
        """Node a and the record are put back to where they were before epoch 2, which both nodes then know in another way."""
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
        self.assertIn("differ within one epoch", self.b.log_text())
        self.assertFalse(any("event=tail_quarantined" in line for line in self.b.log), self.b.log_text())

    def test_a_follower_whose_epoch_was_led_again_refuses_once(self):
        """It asked thousands of times a second where to cut, and cut nothing."""
        self.lead_epoch_twice(frames=6)
        self.assert_b_refuses()

    def test_nothing_is_cut_off_where_the_other_is_longer(self):
        """What node b has of epoch 2, both had acknowledged."""
        self.lead_epoch_twice(frames=0)
        self.assert_b_refuses()


if __name__ == "__main__":
    harness.main()
