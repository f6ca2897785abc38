"""powercut_test.py: the power fails at some call of the real broker (F-1, F-5, F-6, F-10): some or all unsynced sectors of the
log and the index are lost. No reply or delivery may depend on them (LOG-1, LOG-3).

The model disk of tests/sim has more kinds of loss; this test has the real LMDB and kernel.
"""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from campaign import Campaign, RecoveryCampaign, must_be_killed  # noqa: E402
from life import AGAIN  # noqa: E402

OTHER_SYNCS = "log.fsync+index.fdatasync+index.fsync+archive.fsync+data.fsync"


class PowerCut(Campaign):
    """F-1, F-10: the power fails during the workload. No reply or delivery may have left too early."""

    def test_f10_before_an_answer_or_a_delivery_leaves(self):
        self.every_call("net.sendmsg", "cut", 5, check=must_be_killed, but_last=True)

    def test_f10_after_an_answer_or_a_delivery_has_left(self):
        """LOG-1: a client relies on a message that was sent, so everything that it depends on must already have been synced."""
        self.every_call("net.sendmsg", "done-cut", 25, check=must_be_killed, but_last=True)

    def test_f1_before_a_sync_of_the_log(self):
        self.every_call("log.fdatasync", "cut", 12, check=must_be_killed)

    def test_f1_before_another_sync(self):
        self.every_call(OTHER_SYNCS, "cut", 5, check=must_be_killed)

    def test_f1_between_the_writes_of_the_index(self):
        self.every_call("index.pwrite+index.writev", "cut", 6, check=must_be_killed)

    def test_f6_data_around_names(self):
        """Checks the contents of files. property/log_crash_test.c tests that a power cut may also lose renames and unlinks."""
        self.every_call("any.rename+any.unlink", "cut", 5, check=must_be_killed)


class Recovery(RecoveryCampaign):
    """F-10: power failures during a start after SIGKILL. Everything that recovery reported as kept is durable (R6)."""

    def test_f10_in_a_recovery(self):
        self.every_call("log.fdatasync+net.sendmsg+index.pwrite+" + OTHER_SYNCS, "cut", 8, check=must_be_killed,
                        work=AGAIN, snapshot=self.snapshot)


if __name__ == "__main__":
    harness.main()
