"""frozen.py: a child of the test's that stands still (SIGSTOP) and goes on (SIGCONT)."""
import os
import signal


def freeze(process):
    """Returns when all of its threads have stopped: kill() is back sooner, and one of them may still answer a call."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def thaw(process):
    process.send_signal(signal.SIGCONT)
