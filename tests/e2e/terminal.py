"""terminal.py: a program on a terminal of its own, until it ends."""
import fcntl
import os
import pty
import struct
import subprocess
import termios


def run(command, columns=None, stdin=None, wait_s=30):
    """Its exit status, and all that it writes to a terminal that is so wide (None: that does not say how wide it is)."""
    master, slave = pty.openpty()
    if columns is not None:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(command, stdin=stdin or subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    try:
        while data := os.read(master, 65536):
            seen += data
    except OSError:  # EIO: nobody has the other end any more
        pass
    os.close(master)
    return process.wait(wait_s), seen.decode()
