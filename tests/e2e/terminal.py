"""terminal.py: runs a program on its own terminal until it ends."""
import fcntl
import os
import pty
import struct
import subprocess
import termios


def run(command, columns=None, stdin=None, wait_s=30):
    """Returns the program's exit status and its output on a terminal of this width. None: the width is unknown."""
    master, slave = pty.openpty()
    if columns is not None:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(command, stdin=stdin or subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    try:
        while data := os.read(master, 65536):
            seen += data
    except OSError:  # EIO: no process has the other end open
        pass
    os.close(master)
    return process.wait(wait_s), seen.decode()
