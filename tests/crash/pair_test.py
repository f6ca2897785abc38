"""pair_test.py: the follower's disk is full (F-28) or fails (F-5), or its memory is full (F-11). The follower ends with an
error message, and is started again and again, as systemd does. It follows again once the fault is gone. Its leader
continues according to its options.

A follower that sends requests but stores no frames still counts as missing: a leader that may serve alone continues without
it.
"""
import os
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
import pair  # noqa: E402
from fault import FOR_EVER, Fault  # noqa: E402

FAT = "x" * 100_000
FATS = 15               # more than a segment of large tasks
STARTED_AGAIN_S = 0.3
STRICT_WAIT_S = 4       # longer than two runs of a follower, and than solo-after elsewhere
STORAGE_FAILED = 4


class Nurse(threading.Thread):
    """Restarts a broker whenever it ends; its exit statuses are in `statuses`."""

    def __init__(self, broker):
        super().__init__(daemon=True)
        self.broker, self.statuses, self.running = broker, [], True
        self.start()

    def run(self):
        while self.running:
            if not self.broker.is_running():
                self.statuses.append(self.broker.process.returncode)
                self.broker.reader.join(5)
                time.sleep(STARTED_AGAIN_S)
                if self.running:
                    self.broker.launch()
            time.sleep(0.02)

    def end(self):
        self.running = False
        self.join()


class Follower(pair.Case):
    arguments = ("--failover-after", "30s", "--solo-after", "2s", "--segment-size", "1MiB")

    nurse = None

    def tearDown(self):
        if self.nurse:
            self.nurse.end()  # `nurse` restarts the follower; end it first, because otherwise it would start another broker that nobody stops
        super().tearDown()

    def begin(self, what, how, spare=None):
        """Starts a pair in sync, with an unarmed fault in the follower."""
        self.fault = Fault(self.directory, self.b.data, what, how, spare=spare)
        self.addCleanup(self.fault.close)
        self.b.env.update(self.fault.env())
        self.nurse_it()

    def nurse_it(self):
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_pending(self.b, 1)
        self.nurse = Nurse(self.b)
        self.acknowledged = 1

    def fat(self, wait_s=30):
        """Schedules one large task."""
        self.a.ok("schedule", "orders", "--in", "1h", "--body", FAT, wait_s=wait_s)
        self.acknowledged += 1

    def check_patience(self, said_before):
        """Checks that the leader waited for the follower at most twice after its log had `said_before` lines."""
        since = self.a.log[said_before:]
        self.assertLess(sum("event=follower_awaited" in line for line in since), 3, self.a.log_text())

    def judge(self):
        """Both nodes have everything that was confirmed."""
        self.wait_pending(self.b, self.pending(self.a))
        self.wait_in_sync()
        self.nurse.end()
        self.assertGreaterEqual(self.pending(self.a), self.acknowledged)
        self.assertTrue(self.a.is_running())

    def judge_solo(self, reason, make_room):
        """The leader waits for the follower once, and then serves alone."""
        said_before = 0
        for _ in range(FATS):
            if not any(reason in line for line in self.b.log):
                said_before = len(self.a.log)  # ignores log lines of the time when the disk was slow but not full
            self.fat()
        self.check_patience(said_before)
        self.assertEqual(self.record()["in-sync"], "0")
        self.wait_for("it says why", lambda: any(reason in line for line in self.b.log))
        self.assertGreater(len(self.nurse.statuses), 0)
        self.assertEqual(set(self.nurse.statuses), {STORAGE_FAILED})
        # The leader reports one of two events: the follower's connection broke (follower_gone), or the follower stored
        # nothing (follower_stuck).
        self.assertTrue(any("event=follower_gone" in line or "event=follower_stuck" in line for line in self.a.log), self.a.log_text())
        make_room()
        self.judge()


class FullDisk(Follower):
    REASON = 'reason="No space left on device"'

    def test_f28_the_leader_goes_on_alone(self):
        self.begin("log.posix_fallocate", "ENOSPC")
        self.fault.arm(1, FOR_EVER)
        self.judge_solo(self.REASON, self.fault.disarm)

    @unittest.skipUnless(os.geteuid() == 0, "F-28 on a real disk: needs root to mount a tmpfs of 24 MiB")
    def test_f28_a_small_tmpfs(self):
        mount = self.path("mount")
        os.mkdir(mount)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", mount], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("F-28 on a real disk: this machine does not let us mount a tmpfs; the shim's tests stand in for it")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", mount], check=False))
        self.b.data = os.path.join(mount, "data")
        self.nurse_it()
        filler, room = os.path.join(mount, "filler"), os.statvfs(mount)
        with open(filler, "wb") as file:
            file.write(bytes(room.f_bavail * room.f_frsize - (200 << 10)))
        self.judge_solo(self.REASON, lambda: os.unlink(filler))

    def fat_until_it_waits(self):
        for _ in range(FATS):
            try:
                self.fat(wait_s=STRICT_WAIT_S)
            except subprocess.TimeoutExpired:
                if any(self.REASON in line for line in self.b.log):  # the follower reported the full disk, so the timeout is expected; otherwise the disk was only slow
                    return
        self.fail("everything was acknowledged")

    def test_f28_a_strict_leader_waits(self):
        """A commit that is on one disk only is never confirmed, however long the test waits."""
        for broker in self.brokers:
            broker.arguments += ["--solo-after", "never"]
        self.begin("log.posix_fallocate", "ENOSPC")
        self.fault.arm(1, FOR_EVER)
        self.fat_until_it_waits()
        self.assertEqual(self.record()["in-sync"], "0 1")
        told = self.a.tarry("status").one  # the leader may already report that its follower stores nothing
        self.assertLess(told["committed"], told["appended"])
        self.fault.disarm()
        self.fat()
        self.judge()


class FailingDisk(Follower):
    def test_f5_one_sync_fails(self):
        self.begin("log.fdatasync", "EIO")
        self.fault.arm(self.fault.matched + 1, self.fault.matched + 1)
        for _ in range(3):
            self.fat()
        self.assertEqual(self.nurse.statuses, [STORAGE_FAILED])
        self.assertTrue(any('reason="Input/output error"' in line for line in self.b.log), self.b.log_text())
        self.judge()

    def test_f5_every_sync_fails_for_a_while(self):
        self.begin("log.fdatasync+log.fsync", "EIO")
        said_before = len(self.a.log)
        self.fault.arm(1, FOR_EVER)
        for _ in range(5):
            self.fat()
        self.assertGreater(self.fault.fired, 0)
        self.check_patience(said_before)
        self.fault.disarm()
        self.judge()


class NoMemory(Follower):
    def test_f11_allocations_fail_now_and_then(self):
        """The follower may end, but with an error message. Nothing that was confirmed is lost."""
        self.begin("heap.any+other.mmap", "ENOMEM")
        for skip in range(0, 40, 4):
            self.fault.arm(self.fault.matched + 1 + skip, self.fault.matched + 3 + skip)
            self.fat()
        self.fault.disarm()
        self.assertGreater(self.fault.fired, 0)
        self.assertTrue(all(status in (1, STORAGE_FAILED) for status in self.nurse.statuses), (self.nurse.statuses, self.b.log_text()))
        self.judge()


if __name__ == "__main__":
    harness.main()
