"""killpoint_test.py: SIGKILL at named points of tarryd's code (F-10), in the fixed workload and in a recovery.

A point is before, within or after a call; `./dev crash --all` kills at every such call.
"""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from campaign import Campaign, RecoveryCampaign, must_be_killed  # noqa: E402
from life import AGAIN  # noqa: E402


class Work(Campaign):
    """F-10: kills during the workload."""

    def kill(self, what, how, samples):
        self.every_call(what, how, samples, check=must_be_killed)

    def test_f10_before_a_write_of_the_log(self):
        self.kill("log.pwrite", "kill", 3)

    def test_f10_in_the_middle_of_a_write_of_the_log(self):
        self.kill("log.pwrite", "half", 5)

    def test_f10_between_write_and_fdatasync(self):
        self.kill("log.fdatasync", "kill", 4)

    def test_f10_after_fdatasync_before_the_answer(self):
        self.kill("log.fdatasync", "done", 4)

    def test_f10_while_a_segment_is_made(self):
        self.kill("log.open+log.posix_fallocate", "done", 3)

    def test_f10_before_a_rename(self):
        self.kill("any.rename", "kill", 3)

    def test_f10_after_a_rename_before_its_directory_is_synced(self):
        self.kill("any.rename", "done", 4)

    def test_f10_after_a_directory_was_synced(self):
        self.kill("any.fsync", "done", 4)

    def test_f10_in_the_middle_of_the_pages_of_the_index(self):
        self.kill("index.pwrite+index.writev", "half", 5)

    def test_f10_after_pages_of_the_index_its_meta_page_included(self):
        self.kill("index.pwrite+index.writev", "done", 4)

    def test_f10_before_a_sync_of_the_index(self):
        self.kill("index.fdatasync", "kill", 3)

    def test_f10_around_the_unlink_of_a_retired_segment(self):
        self.kill("log.unlink", "kill", 1)
        self.kill("log.unlink", "done", 1)

    def test_f10_in_the_middle_of_a_write_of_the_archive(self):
        self.kill("archive.pwrite", "half", 3)

    def test_f10_around_the_syncs_of_the_archive(self):
        self.kill("archive.fsync", "kill", 3)
        self.kill("archive.fsync", "done", 3)

    def test_f10_around_a_rename_of_the_archive(self):
        self.kill("archive.rename", "kill", 2)
        self.kill("archive.rename", "done", 2)


class Recovery(RecoveryCampaign):
    """F-10: kills during a start on the directory of a killed broker, with a torn tail."""

    def kill(self, what, how, samples):
        self.every_call(what, how, samples, check=must_be_killed, work=AGAIN, snapshot=self.snapshot)

    def test_f10_while_what_is_kept_is_written_again(self):
        self.kill("log.pwrite", "half", 4)

    def test_f10_around_the_syncs_of_a_recovery(self):
        self.kill("log.fsync+log.fdatasync", "kill", 3)
        self.kill("log.fsync+log.fdatasync", "done", 3)

    def test_f10_while_the_index_catches_up(self):
        self.kill("index.pwrite+index.writev+index.fdatasync", "half", 4)


if __name__ == "__main__":
    harness.main()
