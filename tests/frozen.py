"""frozen.py: stops a child process of the test (SIGSTOP) and lets it continue (SIGCONT)."""
import os
import signal


def freeze(process):
    """Waits until all threads of the process have stopped. kill() returns earlier, and a thread may still answer a call then."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def thaw(process):
    process.send_signal(signal.SIGCONT)
