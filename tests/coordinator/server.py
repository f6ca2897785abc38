"""server.py: a coordinator's server as a process: its directory, its log, and the faults that tests give it. Its kind (etcd.py,
zookeeper.py) defines its command line and how it shows that it serves."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from frozen import freeze, thaw  # noqa: E402  (the path above)


class Server:
    """A kind of server defines `named`, `ready_wait_s`, `command()` and `serves()`."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix=f"tarry-{self.named.lower()}-")
        self.data = os.path.join(self.directory, "data")
        self.process = None

    def start(self):
        """Starts the server. Its log goes to `log` in the directory."""
        leash = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []  # the server dies together with the thread that starts it
        with open(self.log_path(), "ab") as log:
            self.process = subprocess.Popen([*leash, *self.command()], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def log_path(self):
        return os.path.join(self.directory, "log")

    def said(self):
        """Returns the end of its log."""
        with open(self.log_path(), encoding="utf-8", errors="replace") as log:
            return log.read()[-6000:]

    def wait_ready(self):
        end = time.monotonic() + self.ready_wait_s
        while not self.serves():
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{self.named} does not serve: status {self.process.poll()}; its log:\n{self.said()}")
            time.sleep(0.1)
        return self

    def pause(self):
        freeze(self.process)

    def resume(self):
        thaw(self.process)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
