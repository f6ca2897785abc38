"""fault.py: injects one fault into one run of tarryd. Names the calls that fail and the kind of fault, and returns how many
calls there were. The preloaded library fault_shim.c executes the fault. Shared memory tells the library at which call; the
library writes its results to this memory, so they are also available after SIGKILL.
"""
import mmap
import os
import struct

import harness

HEAD = struct.Struct("<4Q512sQQ")
NAME_SIZE = 24
PAGE_SIZE = 1 << 16
FOR_EVER = (1 << 64) - 1


class Fault:
    """`what`: names of the calls (scope.call, joined by +). `how`: the fault for the calls from number `first` to number
    `last`.
    """

    def __init__(self, directory, data, what=None, how=None, first=0, last=None, spare=None):
        self.path = os.path.join(directory, "fault-page")
        with open(self.path, "wb") as file:
            file.truncate(PAGE_SIZE)
        with open(self.path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), PAGE_SIZE)
        self.data, self.what, self.how, self.spare = data, what, how, spare
        self.first = first
        self.arm(first, first if last is None else last)

    def env(self):
        preload = [harness.find_program("fault_shim.so")]
        if harness.SANITIZED:
            preload.insert(0, os.path.realpath("/usr/lib/gcc/x86_64-linux-gnu/12/libasan.so"))
        env = {"LD_PRELOAD": ":".join(preload), "TARRY_FAULT_PAGE": self.path, "TARRY_FAULT_DATA": self.data}
        if self.what:
            env["TARRY_FAULT"] = f"{self.what}:{self.how}"
        if self.spare:
            env["TARRY_FAULT_SPARE"] = self.spare
        return env

    def arm(self, first, last):
        """From now on the matching calls from number `first` to `last` are hit; 0: none. May be called while the broker runs."""
        self.page[0:16] = struct.pack("<2Q", first, last)

    def disarm(self):
        self.arm(0, 0)

    def _head(self):
        return HEAD.unpack(self.page[:HEAD.size])

    @property
    def matched(self):
        return self._head()[2]

    def wait_fired(self, count=1, wait_s=60):
        """Waits until `count` calls were hit."""
        harness.wait_until(f"{count} calls of {self.what} hit", lambda: self.fired >= count, wait_s)

    @property
    def fired(self):
        return self._head()[3]

    @property
    def hit(self):
        return self._head()[4].split(b"\0")[0].decode()

    def counts(self):
        """Returns the number of calls of each scope.call."""
        scopes, calls = self._head()[5:7]
        names = [self.page[at:at + NAME_SIZE].split(b"\0")[0].decode()
                 for at in range(HEAD.size, HEAD.size + (scopes + calls) * NAME_SIZE, NAME_SIZE)]
        start = HEAD.size + (scopes + calls) * NAME_SIZE
        numbers = struct.unpack(f"<{scopes * calls}Q", self.page[start:start + scopes * calls * 8])
        return {f"{scope}.{call}": numbers[i * calls + k]
                for i, scope in enumerate(names[:scopes]) for k, call in enumerate(names[scopes:]) if numbers[i * calls + k]}

    def close(self):
        self.page.close()
