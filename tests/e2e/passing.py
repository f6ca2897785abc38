"""passing.py: hours that pass at once for one tarryd, while it runs (pass_shim.c does it inside): all its clocks go on together, and each thread
that waits for a deadline sees it. For deadlines that no test can wait for; clock.py moves clocks apart."""
import mmap
import os
import struct
import time

import harness


class Passing:
    def __init__(self, path):
        self.path, self.ns = path, 0
        with open(path, "wb") as file:
            file.write(bytes(8))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 8)

    def env(self):
        """What tarryd's environment needs. (ASan wants to be the first library; with this it is content to be second.)"""
        asan = os.environ.get("ASAN_OPTIONS", "")
        return {"LD_PRELOAD": harness.find_program("libpass_shim.so"), "TARRY_PASS_SHIM": self.path,
                "ASAN_OPTIONS": ":".join(filter(None, (asan, "verify_asan_link_order=0")))}

    def now_ms(self):
        """What tarryd takes for the wall clock."""
        return (time.time_ns() + self.ns) // 1_000_000

    def go_on(self, seconds):
        self.ns += round(seconds * 1e9)
        self.map[:8] = struct.pack("<q", self.ns)
