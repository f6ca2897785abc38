"""disk_test.py: with a full disk, new tasks are refused with a clear message, nothing is lost, and new tasks are accepted
again when there is space (F-4).
"""
import contextlib
import json
import os
import subprocess
import time
import unittest

import harness
from harness import Case


@unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small disk")
class FullDisk(Case):
    autostart = False
    arguments = ("--segment-size", "1MiB")

    def setUp(self):
        super().setUp()
        self.mount = self.path("mount")
        os.mkdir(self.mount)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", self.mount], check=False,
                              stderr=subprocess.DEVNULL)
        if done.returncode:
            self.skipTest("cannot mount here")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", self.mount], check=False))
        self.broker.data = os.path.join(self.mount, "data")

    def test_acks_and_cancels_still_work_when_new_tasks_are_refused(self):  # F-4, CAP-1
        self.broker.start()
        for number in range(20):
            self.broker.one("schedule", "q", "--key", f"early{number}", "--in", "0s")
        body = "x" * 100_000
        scheduled, refused, unknown = [], 0, 0
        for number in range(3000):
            try:
                status = self.broker.tarry("schedule", "far", "--key", f"k{number}", "--in", "1h", "--body", body, wait_s=4).status
            except subprocess.TimeoutExpired:
                status = None  # new tasks are refused as busy, so the tool waits for space
            if status == 0:
                scheduled.append(f"k{number}")
            else:
                refused += 1
                unknown += status is None
                self.assertIn(status, (1, None))
                if refused >= 2:
                    break
        self.assertGreater(refused, 0, "a disk of 24 MiB took everything")
        self.assert_told_why_it_waits("schedule", "far", "--in", "1h", "--body", body)
        self.assertTrue(self.broker.is_running(), self.broker.log_text())
        self.assertEqual(len(self.broker.ok("consume", "q", "--count", 20)), 20)
        self.assertEqual(self.broker.one("cancel", "far", scheduled[0])["result"], "cancelled")
        self.broker.kill()
        self.broker.start()
        pending = self.broker.queue_stats("far")["pending"]
        self.assertIn(pending, range(len(scheduled) - 1, len(scheduled) + unknown))  # a request with an unknown outcome may have taken effect
        self.assertEqual(self.broker.ok("consume", "q", "--for", "2500ms"), [])

    def test_a_client_that_schedules_and_acks_loses_no_lease(self):  # CAP-1
        """One client schedules and acks. Its acks overtake the schedules that wait for disk space."""
        self.broker.start()
        self.broker.ok("queue", "set", "work", "lease=8s")
        for number in range(40):
            self.broker.one("schedule", "work", "--key", f"k{number}", "--in", "0s")
        done = subprocess.run([harness.find_program("full_disk"), self.broker.url, "40"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^acked=40 busy_ms=[1-9]\d* slowest_ack_ms=\d+ waiting=[1-9]\d*$")
        stats = self.broker.queue_stats("work")
        self.assertEqual((stats["acked"], stats["retried"], stats["in_flight"], stats["dead"]), (40, 0, 0, 0))
        self.assertEqual(self.broker.ok("audit", "--kind", "lease_lost"), [])

    def assert_told_why_it_waits(self, *arguments):
        stream = self.broker.stream(*arguments)
        harness.wait_until("the tool to say why it waits", lambda: "disk is nearly full" in "".join(stream.errors), 30)
        self.assertIn("busy for ", "".join(stream.errors))
        stream.kill()


class Retirement(Case):
    """Disk use is limited to live tasks plus the configured retention."""

    arguments = ("--segment-size", "1MiB", "--retain-log-size", "2MiB", "--retain-log-age", "1s")

    def log_size(self):
        """Returns the size of the log's files; a listed file may be retired before its size is read."""
        total = 0
        for directory, _, files in os.walk(self.broker.data):
            for name in files:
                with contextlib.suppress(FileNotFoundError):
                    total += 0 if name.endswith("mdb") else os.path.getsize(os.path.join(directory, name))
        return total

    def test_old_segments_go_and_payloads_that_live_in_them_stay(self):
        self.broker.one("schedule", "keep", "--key", "year", "--in", "365d", "--body", "remember me " * 100)
        body = "x" * 10_000
        for _ in range(6):
            lines = [json.dumps({"queue": "q", "delay_ms": 0, "body": body}) for _ in range(400)]
            self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines))
            self.broker.ok("consume", "q", "--count", 400)
        end = time.monotonic() + 30
        while self.log_size() > 8 << 20 and time.monotonic() < end:
            time.sleep(0.2)
        self.assertLess(self.log_size(), 8 << 20, "24 MB were written and nothing was retired")
        self.assertEqual(self.broker.one("get", "keep", "year")["body"], "remember me " * 100)
        self.broker.restart()
        self.assertEqual(self.broker.one("get", "keep", "year")["body"], "remember me " * 100)
        self.assertEqual(self.broker.ready["recovered_tasks"], "1")
        self.broker.one("move", "keep", "year", "--in", "0s")
        self.assertEqual(self.broker.one("consume", "keep", "--count", 1)["body"], "remember me " * 100)


if __name__ == "__main__":
    harness.main()
