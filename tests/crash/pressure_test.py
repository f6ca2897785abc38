"""pressure_test.py: a resource is used up for a while and then available again: the disk (F-4), descriptors (F-12). Meanwhile
tarryd refuses requests that can wait, continues with those that cannot, and loses nothing. Afterwards it serves as before,
without a restart.
"""
import json
import os
import resource
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from fault import FOR_EVER, Fault  # noqa: E402
from harness import Case  # noqa: E402

FAT_SIZE = 100_000
FATS_MAX = 400
REFUSED_WAIT_S = 8     # a refused tool repeats its request: after 8 s without a reply it counts as refused
RECOVERY_WAIT_S = 30
PEERS = 400
RESERVE = (24 << 20) // 8  # reserve in bytes of a disk of 24 MiB, as broker/shell/process/log_disk.c computes it


class Pressure(Case):
    autostart = False
    arguments = ("--segment-size", "1MiB")

    def begin(self, what, how):
        self.fault = Fault(self.directory, self.broker.data, what, how)
        self.addCleanup(self.fault.close)
        self.broker.env.update(self.fault.env())
        self.broker.start()

    def try_schedule(self, key, wait_s=REFUSED_WAIT_S):
        """Returns whether the broker accepted a large task. False: it replied BUSY repeatedly."""
        body = self.path("body", "x" * FAT_SIZE)
        tool = self.broker.stream("schedule", "far", "--key", key, "--in", "1h", "--body-file", body)
        try:
            status = tool.wait(wait_s)
        except subprocess.TimeoutExpired:
            if self.is_low():
                tool.kill()
                return False
            status = tool.wait()  # the tool did not fail; the broker was only slow
        self.assertEqual(status, 0, tool.errors)
        return True

    def is_low(self):
        return any("event=disk_low" in line for line in self.broker.log)

    def wait_taken(self, key):
        """The broker that refused new tasks accepts them again soon, without a restart."""
        self.assertTrue(self.try_schedule(key, RECOVERY_WAIT_S), f"still refused:\n{self.broker.log_text()}")


class FullDisk(Pressure):
    def begin(self, what, how):
        """The disk has room at the start: a commit was confirmed, so the first segment exists."""
        super().begin(what, how)
        self.broker.one("schedule", "first", "--in", "1h")

    def fill(self):
        """Schedules large tasks until they are refused. Returns the keys of those that were accepted."""
        taken = []
        for number in range(FATS_MAX):
            if not self.try_schedule(f"fat{number}"):
                return taken
            taken.append(f"fat{number}")
        self.fail("everything was taken")

    def judge(self, make_room):
        """F-4: new tasks are refused first, while acks and cancels work. Nothing is lost. New tasks are accepted again when
        there is space.
        """
        for number in range(6):
            self.broker.one("schedule", "q", "--key", f"early{number}", "--in", "0s")
        taken = self.fill()
        self.assertTrue(self.broker.is_running(), self.broker.log_text())
        self.assertTrue(self.is_low(), self.broker.log_text())
        held = self.broker.ok("consume", "q", "--count", 6, "--ack", "none", "--lease", "5m")
        for delivery in held:
            self.assertEqual(self.broker.one("ack", delivery["id"], delivery["token"])["result"], "acked")
        self.assertEqual(self.broker.one("cancel", "far", taken[0])["result"], "cancelled")
        self.assertEqual(self.broker.one("move", "far", taken[1], "--in", "2h")["result"], "moved")
        make_room()
        self.wait_taken("after")
        self.wait_indexed()
        self.broker.env.pop("LD_PRELOAD", None)
        self.broker.restart()
        keys = {task["key"] for task in self.broker.ok("list", "far")}
        self.assertEqual(keys - {"after"}, {key for key in taken[1:]} | (keys & {f"fat{len(taken)}"}))
        self.assertIn("after", keys)
        self.assertEqual(self.broker.ok("list", "q"), [])

    def wait_indexed(self):
        """Waits until the index has everything in the log."""
        def is_level():
            stats = self.broker.queue_stats(None)
            return stats["indexed"] == stats["appended"]
        harness.wait_until("the index catches up with the log", is_level, RECOVERY_WAIT_S)

    def test_f4_no_room_for_another_segment(self):
        self.begin("log.posix_fallocate", "ENOSPC")
        self.fault.arm(1, FOR_EVER)
        self.judge(self.fault.disarm)

    def test_f4_no_room_for_the_log_nor_the_index(self):
        self.begin("log.posix_fallocate+index.pwrite+index.writev+index.ftruncate", "ENOSPC")
        self.fault.arm(self.fault.matched + 1, FOR_EVER)
        self.judge(self.fault.disarm)

    @unittest.skipUnless(os.geteuid() == 0, "F-4 on a real disk: needs root to mount a tmpfs of 24 MiB")
    def test_f4_a_small_tmpfs(self):
        mount = self.path("mount")
        os.mkdir(mount)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", mount], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("F-4 on a real disk: this machine does not let us mount a tmpfs; the shim's tests stand in for it")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", mount], check=False))
        filler = os.path.join(mount, "filler")
        with open(filler, "wb") as file:
            file.write(bytes(12 << 20))
        self.broker.data = os.path.join(mount, "data")
        self.broker.start()

        def make_room():
            status = os.statvfs(mount)
            self.assertGreater(status.f_bavail * status.f_frsize, RESERVE // 2, "the log took the reserve for its segments")
            os.unlink(filler)
        self.judge(make_room)


class NoDescriptors(Pressure):
    """F-12: for a while no connection can be accepted. Connected clients continue, and other clients are accepted later."""

    def answer(self, stream, key):
        stream.send({"queue": "far", "key": key, "delay_ms": 3_600_000})
        return stream.take(1)[0]["result"]

    def judge(self, what, how):
        self.begin(what, how)
        stream = self.broker.stream("schedule", "--from", "-", stdin=True)
        self.assertEqual(self.answer(stream, "before"), "scheduled")
        self.fault.arm(1, FOR_EVER)
        self.fault.arm(self.fault.matched + 1, FOR_EVER)
        late = self.broker.stream("schedule", "--from", "-", stdin=True)
        late.send(json.dumps({"queue": "far", "key": "late", "delay_ms": 3_600_000}))
        end = time.monotonic() + RECOVERY_WAIT_S
        while self.fault.fired == 0 and time.monotonic() < end:
            time.sleep(0.02)
        self.assertGreater(self.fault.fired, 0)
        self.assertTrue(late.quiet_for(0.5))
        self.assertEqual(self.answer(stream, "during"), "scheduled")
        self.fault.disarm()
        self.assertEqual(late.take(1, RECOVERY_WAIT_S)[0]["result"], "scheduled")
        self.assertEqual(self.broker.queue_stats("far")["pending"], 3)

    @unittest.skipIf(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2 * PEERS, "the hard limit is low here")
    def test_f12_the_soft_limit_counts_for_nothing(self):
        """tarryd raises its soft limit to the hard limit, because a process that is started in a shell has a soft limit of 1,024
        or less."""
        self.broker.prefix = ["sh", "-c", f'ulimit -Sn {PEERS // 2} && exec "$0" "$@"']
        self.broker.start()
        peers = [socket.create_connection(("127.0.0.1", self.broker.port), 30) for _ in range(PEERS)]
        try:
            for peer in peers:
                peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            for peer in peers:
                self.assertIn(b" 200 ", peer.recv(1000))
        finally:
            for peer in peers:
                peer.close()

    def test_f12_emfile_at_every_accept(self):
        self.judge("net.accept4", "EMFILE")

    def test_f12_enfile_at_every_accept(self):
        self.judge("net.accept4", "ENFILE")

    def test_f12_enobufs_at_every_accept(self):
        self.judge("net.accept4", "ENOBUFS")


if __name__ == "__main__":
    harness.main()
