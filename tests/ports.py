"""ports.py: TCP ports for the servers that tests start.

A port that a test only looks up and releases may be given to another process, or to an outgoing connection, before the server
listens on it, or between two of the server's lives. The ports from here are reserved until the calling process ends.
"""
import fcntl
import functools
import os
import random
import socket
import tempfile
import threading

# Below the range that Linux uses for outgoing connections and for port 0 (net.ipv4.ip_local_port_range).
FIRST, END = 10_000, 32_000
_random = random.Random()  # not the module's generator: tests seed that one
_ours = set()  # a process's own locks do not stop it
_lock = threading.Lock()


@functools.cache
def _claims():
    """Opens the file of port locks. The process that uses port N locks byte N of this file, and the lock ends with the
    process. The file is never closed, because closing it would release all locks.
    """
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
    """Returns a port on which no process listens, and which no other caller gets from here, in any process. Any thread."""
    with _lock:
        for port in _random.sample(range(FIRST, END), END - FIRST):
            if port not in _ours and _claim(port) and not _is_in_use(port):
                return port
    raise AssertionError(f"no port between {FIRST} and {END} is free")
