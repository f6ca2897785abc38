"""unit_files_test.py: the shipped systemd unit: how few permissions it has, and that the broker works with them. (guide_test.py
tests it on hosts, with drop-ins and credentials.)"""
import contextlib
import ctypes
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import harness
from harness import Case

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGING = os.path.join(HERE, "..", "..", "packaging")
UNITS = ("tarry.service",)
EXPOSURE_MAX = 2.0
PTRACE_ATTACH, PTRACE_DETACH, WALL = 16, 17, 0x40000000


@contextlib.contextmanager
def stopped(thread):
    """Stops only this thread of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    if libc.ptrace(PTRACE_ATTACH, thread, 0, 0) != 0:
        raise unittest.SkipTest(f"ptrace: {os.strerror(ctypes.get_errno())}")
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        libc.ptrace(PTRACE_DETACH, thread, 0, 0)


def values(unit, name):
    with open(os.path.join(PACKAGING, unit), encoding="utf-8") as file:
        return re.findall(rf"^{name}=(.*)$", file.read(), re.M)


@unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze")
class Units(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="tarry-units-")
        self.addCleanup(shutil.rmtree, self.directory)

    def test_each_exposes_little(self):
        """Checks the exposure level that systemd computes for each unit, from 0 to 10."""
        for unit in UNITS:
            with open(os.path.join(PACKAGING, unit), encoding="utf-8") as source:
                path = os.path.join(self.directory, unit)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(source.read().replace("@bindir@", "/usr/bin"))
            done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", path],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
            self.assertTrue(found, done.stdout)
            self.assertLessEqual(float(found.group(1)), EXPOSURE_MAX, done.stdout)

    def test_who_listens_on_loopback_reaches_nothing_else(self):
        self.assertEqual(values("single.conf", "listen ")[0].strip(), "ws://127.0.0.1:7272")
        self.assertEqual(values("tarry.service", "IPAddressDeny"), ["any"])
        self.assertEqual(values("tarry.service", "IPAddressAllow"), ["localhost"])

    def test_each_is_limited_and_watched(self):
        for unit in UNITS:
            for name in ("MemoryMax", "TasksMax", "WatchdogSec"):
                self.assertEqual(len(values(unit, name)), 1, f"{unit}: {name}")
            self.assertEqual(len(values(unit, "StartLimitIntervalSec")), 1, unit)


@unittest.skipIf(harness.SANITIZED, "sanitizers need more than the broker does")
@unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze")
class Confined(Case):
    autostart = False

    def test_the_broker_works_with_the_calls_that_a_unit_leaves_it(self):
        """Does all kinds of the broker's work, and checks that no call was denied. No memory is both writable and executable."""
        for unit in UNITS:
            with self.subTest(unit):
                broker = self.make_broker("--archive", self.path("archive-" + unit), data=self.path("data-" + unit))
                broker.prefix = [sys.executable, os.path.join(HERE, "filtered.py"), os.path.join(PACKAGING, unit)]
                broker.start()
                broker.one("schedule", "q", "--key", "k", "--in", "0s", "--body", "x" * 100_000)
                self.assertEqual(broker.one("consume", "q", "--count", 1)["key"], "k")
                broker.ok("audit")
                broker.ok("stats")
                broker.tarry("backup", self.path("backup-" + unit))
                with open(f"/proc/{broker.process.pid}/maps", encoding="ascii") as file:
                    self.assertEqual([line for line in file if "wx" in line.split()[1]], [])
                self.assertEqual(broker.stop(), 0)
                for line in broker.log:
                    self.assertNotRegex(line, "not permitted|limit_unchanged|event=refused|_failed")


class Watched(Case):
    autostart = False

    def setUp(self):
        super().setUp()
        self.heard, self.beat = [], threading.Event()
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(self.path("notify"))
        threading.Thread(target=self.hear, daemon=True).start()
        self.broker.env = {**self.broker.env, "NOTIFY_SOCKET": self.path("notify"), "WATCHDOG_USEC": "600000"}

    def tearDown(self):
        super().tearDown()
        self.notify.shutdown(socket.SHUT_RDWR)
        self.notify.close()

    def hear(self):
        try:
            while said := self.notify.recv(4096).decode():
                self.heard.append(said)
                if "WATCHDOG=1" in said:
                    self.beat.set()
        except OSError:
            pass

    def beats(self, count):
        for _ in range(count):
            self.beat.clear()
            if not self.beat.wait(10):
                return False
        return True

    def test_the_core_feeds_the_watchdog_and_nobody_else_does(self):
        """The core sends keep-alives also when idle. When only the core thread is stopped, systemd's watchdog gets no keep-
        alive, although all other threads run.
        """
        self.broker.start()
        self.assertTrue(self.beats(5), self.heard)
        core = self.thread("tarry-core")
        with stopped(core):
            self.beat.clear()
            self.assertFalse(self.beat.wait(2), "somebody feeds it in the core's place")
        self.assertTrue(self.beats(1), "the core goes on, and does not say so")

    def thread(self, name):
        tasks = f"/proc/{self.broker.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/comm", encoding="ascii") as file:
                if file.read().strip() == name:
                    return int(task)
        return None

    def test_without_a_watchdog_nothing_is_fed(self):
        self.broker.env.pop("WATCHDOG_USEC")
        self.broker.start()
        self.broker.one("schedule", "q", "--in", "1h")
        self.assertFalse(any("WATCHDOG" in said for said in self.heard))

    def test_another_process_s_watchdog_is_not_fed(self):
        self.broker.env["WATCHDOG_PID"] = "1"
        self.broker.start()
        self.broker.one("schedule", "q", "--in", "1h")
        self.assertFalse(any("WATCHDOG" in said for said in self.heard))


if __name__ == "__main__":
    harness.main()
