"""clock.py: lets a test change the wall clock and the boot clock of one tarryd while it runs, through clock_shim.c. The test's
own clocks are correct: `time.monotonic()` shows whether a delivery was early. A jump changes REALTIME only, a suspend
REALTIME and BOOTTIME; a smear makes REALTIME run faster or slower. Changes persist across restarts of the broker."""
import mmap
import struct
import time

import harness

SIZE = 40  # size of struct shim


class Clock:
    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(bytes(SIZE))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), SIZE)
        self.version = self.real_ns = self.boot_ns = self.rate_ppm = self.anchor_ns = 0

    def env(self):
        """Returns the environment for tarryd."""
        return {**harness.preloaded("libclock_shim.so"), "TARRY_CLOCK_SHIM": self.path}

    def _write(self):
        """Writes all values. `version` is odd during the write, so that a reader in another process can detect an incomplete
        write.
        """
        self.map[:8] = struct.pack("<Q", self.version + 1)
        self.map[8:] = struct.pack("<qqqq", self.real_ns, self.boot_ns, self.rate_ppm, self.anchor_ns)
        self.version += 2
        self.map[:8] = struct.pack("<Q", self.version)

    def _smeared_ns(self):
        return (time.monotonic_ns() - self.anchor_ns) // 1000 * self.rate_ppm // 1000 if self.rate_ppm else 0

    def jump(self, seconds):
        """Sets the wall clock."""
        self.real_ns += round(seconds * 1e9)
        self._write()

    def suspend(self, seconds):
        """Simulates a suspended machine: both clocks advance, no thread runs."""
        self.real_ns += round(seconds * 1e9)
        self.boot_ns += round(seconds * 1e9)
        self._write()

    def smear(self, rate_ppm):
        """Makes the wall clock run faster by this rate."""
        self.real_ns += self._smeared_ns()
        self.rate_ppm, self.anchor_ns = rate_ppm, time.monotonic_ns()
        self._write()

    def set(self, unix_s):
        """Sets the wall clock to this time."""
        self.jump(unix_s - self.now_ms() / 1000)

    def now_ms(self):
        """Returns the wall clock as tarryd sees it."""
        return (time.time_ns() + self.real_ns + self._smeared_ns()) // 1_000_000
