"""ports.py: TCP ports for the servers that tests start.

A port that is only looked up and let go again may be given to the next who asks, or to an outgoing connection, before its
server listens, or while it is down between two lives. Those from here are claimed until the calling process ends.
"""
import fcntl
import functools
import os
import random
import socket
import tempfile
import threading

# Below what Linux gives to outgoing connections and to port 0 (net.ipv4.ip_local_port_range).
FIRST, END = 10_000, 32_000
_random = random.Random()  # not the module's: tests seed that one
_ours = set()  # a process is not stopped by its own locks
_lock = threading.Lock()


@functools.cache
def _claims():
    """Byte N of this file is locked by the process that has port N; the locks end with it, however it ends. Never closed:
    that would give all of them up."""
    path = os.path.join(tempfile.gettempdir(), f"tarry-test-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _claim(port):
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    _ours.add(port)
    return True


def _is_in_use(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def free_port():
    """One on which nobody listens and which nobody else gets from here, in this process or another. Any thread."""
    with _lock:
        for port in _random.sample(range(FIRST, END), END - FIRST):
            if port not in _ours and _claim(port) and not _is_in_use(port):
                return port
    raise AssertionError(f"no port between {FIRST} and {END} is free")
