#!/usr/bin/env python3
"""zookeeper_entry.py: reads, writes or deletes a node of ZooKeeper's tree, whatever its version, as an operator may do without
the pair's knowledge.

zookeeper_entry.py HOST:PORT get PATH           prints its text; nothing if there is no such node
zookeeper_entry.py HOST:PORT put PATH < TEXT    makes it, or writes it again
zookeeper_entry.py HOST:PORT delete PATH

Uses the same C client as tarryd (libzookeeper_mt).
"""
import ctypes
import sys
import time

OK, NO_NODE, CONNECTED = 0, -101, 3
CONNECT_WAIT_S = 20
VALUE_MAX = 1 << 16
ANY_VERSION = -1


class Rights(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("data", ctypes.c_void_p)]


class Tree:
    def __init__(self, hosts):
        self.library = ctypes.CDLL("libzookeeper_mt.so.2")
        self.library.zookeeper_init.restype = ctypes.c_void_p
        self.library.zoo_set_debug_level(1)
        self.watcher = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(lambda *_: None)
        self.handle = ctypes.c_void_p(self.library.zookeeper_init(hosts.encode(), self.watcher, 10000, None, None, 0))
        end = time.monotonic() + CONNECT_WAIT_S
        while self.library.zoo_state(self.handle) != CONNECTED:
            if time.monotonic() > end:
                sys.exit(f"zookeeper_entry.py: {hosts} does not answer")
            time.sleep(0.005)

    def call(self, name, *arguments, allowed=()):
        status = getattr(self.library, name)(self.handle, *arguments)
        if status != OK and status not in allowed:
            sys.exit(f"zookeeper_entry.py: {name}: status {status}")
        return status

    def get(self, path):
        value, size = ctypes.create_string_buffer(VALUE_MAX), ctypes.c_int(VALUE_MAX)
        if self.call("zoo_get", path.encode(), 0, value, ctypes.byref(size), None, allowed=(NO_NODE,)) == OK:
            sys.stdout.write(value.raw[:max(size.value, 0)].decode())

    def put(self, path):
        text = sys.stdin.read().encode()
        written = self.call("zoo_set", path.encode(), text, len(text), ANY_VERSION, allowed=(NO_NODE,))
        if written == NO_NODE:
            rights = Rights.in_dll(self.library, "ZOO_OPEN_ACL_UNSAFE")
            self.call("zoo_create", path.encode(), text, len(text), ctypes.byref(rights), 0, None, 0)

    def delete(self, path):
        self.call("zoo_delete", path.encode(), ANY_VERSION, allowed=(NO_NODE,))

    def close(self):
        self.library.zookeeper_close(self.handle)


def main():
    if len(sys.argv) != 4 or sys.argv[2] not in ("get", "put", "delete"):
        sys.exit("usage: zookeeper_entry.py HOST:PORT get|put|delete PATH")
    tree = Tree(sys.argv[1])
    getattr(tree, sys.argv[2])(sys.argv[3])
    tree.close()


if __name__ == "__main__":
    main()
