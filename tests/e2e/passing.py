"""passing.py: lets hours pass at once for one running tarryd (with pass_shim.c). All its clocks advance together, and every
thread that waits for a deadline notices it. For deadlines that are too long to wait for. clock.py, in contrast, moves the
clocks apart.
"""
import mmap
import struct
import time

import harness


class Passing:
    def __init__(self, path, asan_options=None):
        """`path`: the file that the shim maps. `asan_options`: options of AddressSanitizer for tarryd, if they differ from the
        test's.
        """
        self.path = path
        self.asan_options = asan_options
        with open(path, "wb") as file:
            file.write(bytes(8))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 8)

    @property
    def ns(self):
        """Returns by how many nanoseconds tarryd's clocks are ahead of the real ones. Another process may change this value,
        too.
        """
        return struct.unpack("<q", self.map[:8])[0]

    @ns.setter
    def ns(self, ns):
        self.map[:8] = struct.pack("<q", ns)

    def env(self):
        """Returns the environment for tarryd."""
        return {**harness.preloaded("libpass_shim.so", self.asan_options), "TARRY_PASS_SHIM": self.path}

    def now_ms(self):
        """Returns the wall clock as tarryd sees it."""
        return (time.time_ns() + self.ns) // 1_000_000

    def ahead_ms(self):
        """Returns by how many milliseconds tarryd's clocks are ahead of those of processes without the shim."""
        return self.ns // 1_000_000

    def monotonic(self):
        """Returns time.monotonic() as tarryd sees it."""
        return time.monotonic() + self.ns / 1e9

    def go_on(self, seconds):
        self.ns += round(seconds * 1e9)
