"""passing.py: hours that pass at once for one tarryd, while it runs (pass_shim.c does it inside): all its clocks go on together, and each thread
that waits for a deadline sees it. For deadlines that no test can wait for; clock.py moves clocks apart."""
import mmap
import os
import struct
import time

import harness


class Passing:
    def __init__(self, path, asan_options=None):
        """`path`: of the file that the shim maps. `asan_options`: of tarryd, if they are not ours."""
        self.path = path
        self.asan_options = os.environ.get("ASAN_OPTIONS", "") if asan_options is None else asan_options
        with open(path, "wb") as file:
            file.write(bytes(8))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 8)

    @property
    def ns(self):
        """How far tarryd's clocks are ahead of ours; another process may move them, too."""
        return struct.unpack("<q", self.map[:8])[0]

    @ns.setter
    def ns(self, ns):
        self.map[:8] = struct.pack("<q", ns)

    def env(self):
        """What tarryd's environment needs. (ASan wants to be the first library; with this it is content to be second.)"""
        return {"LD_PRELOAD": harness.find_program("libpass_shim.so"), "TARRY_PASS_SHIM": self.path,
                "ASAN_OPTIONS": ":".join(filter(None, (self.asan_options, "verify_asan_link_order=0")))}

    def now_ms(self):
        """What tarryd takes for the wall clock."""
        return (time.time_ns() + self.ns) // 1_000_000

    def ahead_ms(self):
        """How far tarryd's clocks are ahead of those of processes without the shim."""
        return self.ns // 1_000_000

    def monotonic(self):
        """What tarryd takes for time.monotonic()."""
        return time.monotonic() + self.ns / 1e9

    def go_on(self, seconds):
        self.ns += round(seconds * 1e9)
