"""inject_test.py: every system call of tarryd fails once, and nothing that was confirmed is lost (F-3, F-4, F-5, F-12). This
test makes a sample of the calls fail, and every fdatasync; `./dev crash --all` makes all of them fail. LMDB treats a short
write as an error, and tarryd then stops. That is allowed, because Linux writes files short only when the disk is full.
"""
import sys

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from campaign import Campaign, must_exit, must_go_on  # noqa: E402

EVERY = 1000
FILE_CALLS = "log.pwrite+log.pread+log.open+log.posix_fallocate+index.pwrite+index.writev+data.read+data.pread" \
             "+data.pwrite"
INDEX_WRITES = "index.pwrite+index.writev"
DESCRIPTORS = "any.open+any.opendir"
SOCKETS = "net.socket+net.accept4+net.eventfd"


def never_syncs_again(life):
    """F-5: after a failed sync of the log there is no second one, even if other writes were in progress."""
    yield from must_exit(life)
    if life.fault.matched != life.fault.first:
        yield f"{life.fault.matched - life.fault.first} more syncs of the log after the one that failed"


def exits_or_prepares_again(life):
    """The next segment is prepared early. If its sync failed, it is discarded, and new tasks wait until another one is
    prepared.
    """
    yield from must_go_on(life) if "in tarry-prepare by" in life.fault.hit else must_exit(life)


def exits_unless_it_was_a_summary(life):
    """Summaries only make queries faster, so the broker continues without one."""
    if not any("event=summary_failed" in line for line in life.broker.log):
        yield from exits_or_prepares_again(life)


def goes_on(life):
    """The broker continues, and archives the segment later."""
    if life.status != 0:
        yield f"ended with {life.status}"


class Sync(Campaign):
    """F-5, LOG-4: EIO from fdatasync is final. The broker exits without a reply and without a second sync. The next start has
    everything that was confirmed.
    """

    def test_f5_every_fdatasync_of_the_log(self):
        self.every_call("log.fdatasync", "EIO", EVERY, check=never_syncs_again)

    def test_f5_every_sync_of_a_directory_or_a_new_segment(self):
        self.every_call("log.fsync", "EIO", 6, check=exits_or_prepares_again)

    def test_f5_syncs_of_the_index(self):
        self.every_call("index.fdatasync+index.fsync", "EIO", 4, check=must_exit)

    def test_f5_syncs_of_the_data_directory(self):
        self.every_call("data.fsync", "EIO", 2, check=must_exit)

    def test_f5_syncs_of_the_archive(self):
        self.every_call("archive.fsync", "EIO", 4, check=goes_on)


class BrokenDisk(Campaign):
    """F-3: after a failed write or read, the file is not used any more, and the call is not repeated."""

    def test_f3_writes_of_the_log(self):
        self.every_call("log.pwrite", "EIO", 6, check=exits_unless_it_was_a_summary)

    def test_f3_writes_of_the_index(self):
        self.every_call(INDEX_WRITES, "EIO", 4, check=must_exit)

    def test_f3_reads(self):
        self.every_call("log.pread+index.pread+data.pread", "EIO", 4)

    def test_f3_names_and_sizes(self):
        self.every_call("any.rename+any.unlink+any.mkdir+any.ftruncate+any.opendir+log.open+index.open+data.open", "EIO", 4)

    def test_f3_mapping_and_locking(self):
        self.every_call("index.mmap+index.fcntl+data.fcntl+data.statvfs", "ENOLCK", 3)


class Interrupted(Campaign):
    """F-3: short transfers and EINTR are repeated in a loop, without harm."""

    def test_f3_eintr_of_file_calls(self):
        self.every_call(FILE_CALLS, "EINTR", 6, check=must_go_on)

    def test_f3_eintr_of_sockets(self):
        self.every_call("net.recv+net.sendmsg+net.accept4+net.epoll_wait", "EINTR", 5, check=must_go_on)

    def test_f3_short_transfers_of_the_log(self):
        self.every_call("log.pwrite+log.pread+data.pwrite+data.pread", "short", 6, check=must_go_on)

    def test_f3_short_writes_of_the_index(self):
        self.every_call(INDEX_WRITES, "short", 3, check=must_exit)

    def test_f3_short_transfers_of_sockets(self):
        self.every_call("net.recv+net.sendmsg", "short", 4, check=must_go_on)


class FullDisk(Campaign):
    """F-4: from the n-th call on, the disk is full. full_disk_test.py tests which requests are refused and which still work."""

    def test_f4_from_any_call_on_the_log(self):
        self.every_call("log.pwrite+log.posix_fallocate+log.open+log.rename", "ENOSPC", 6, for_ever=True, deadline_s=5)

    def test_f4_from_any_call_on_the_index(self):
        self.every_call(INDEX_WRITES + "+index.ftruncate", "ENOSPC", 5, for_ever=True, deadline_s=5)

    def test_f4_at_one_call(self):
        self.every_call("log.pwrite+log.posix_fallocate+log.open+data.pwrite+" + INDEX_WRITES, "ENOSPC", 5)


class NoDescriptors(Campaign):
    """F-12: after EMFILE or ENFILE a call is refused, a connection is accepted later, or the broker ends with an error
    message.
    """

    def test_f12_files(self):
        self.every_call(DESCRIPTORS, "EMFILE", 6)

    def test_f12_sockets_once_it_is_up(self):
        self.every_call("net.accept4", "EMFILE", 5, check=must_go_on)

    def test_f12_sockets(self):
        self.every_call(SOCKETS, "ENFILE", 5)


if __name__ == "__main__":
    harness.main()
