"""demo_play.py: code shared by the demonstrations: the example `order_timeout`, its consumers, and comments on the output. A
story subclasses Demo: it starts its brokers, disturbs the day, and at the end returns whether every step succeeded.
order_timeout prints the summary and judges the orders; it does not know the disturbances.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import harness

DAY_S = 86_400
SPEED_DEFAULT = 3600


class Demo:
    def __init__(self, arguments):
        self.arguments = arguments
        self.on_terminal = sys.stdout.isatty()
        self.remarks = []
        self.consumers = []
        self.playing = threading.Event()
        self.directory = tempfile.mkdtemp(prefix="tarry-demo-")
        self.brokers = []
        self.play = None
        self.began = None

    # ---- functions of a story

    def start(self):
        """Starts the brokers. Returns the URLs for the clients."""
        raise NotImplementedError

    def disturb(self):
        """Runs while the day is simulated."""
        raise NotImplementedError

    def judge(self):
        """Called after the day, while the brokers run. Returns 0 if every step of the story succeeded."""
        return 0

    # ---- running the day

    def say(self, remark):
        """Prints the remark. If standard error is not a terminal, prints it at once; otherwise together with the next drawing."""
        self.remarks.append(remark)
        if not self.on_terminal:
            print(f"demo: {remark}", file=sys.stderr, flush=True)

    def speed(self):
        for at, argument in enumerate(self.arguments):
            if argument == "--speed" and at + 1 < len(self.arguments):
                return float(self.arguments[at + 1])
            if argument.startswith("--speed="):
                return float(argument.partition("=")[2])
        return SPEED_DEFAULT

    def read_errors(self):
        for raw in self.play.stderr:
            line = raw.decode(errors="replace").rstrip("\n")
            pid = re.match(r"event=consumer pid=(\d+)", line)
            if pid:
                self.consumers.append(int(pid.group(1)))
            elif line.startswith("event=playing"):
                self.playing.set()
            else:
                self.say(line)
        self.playing.set()

    def wait_day(self, part):
        """Sleeps until this part (0 to 1) of the day has passed; returns False if the day ended before."""
        self.playing.wait()
        if self.began is None:
            self.began = time.monotonic()
        moment = self.began + part * DAY_S / self.speed()
        while time.monotonic() < moment:
            if self.play.poll() is not None:
                return False
            time.sleep(0.02)
        return self.play.poll() is None

    def kill_consumer(self):
        """Returns False if the day and the consumers have already ended."""
        try:
            os.kill(self.consumers[0], signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.say(f"a consumer (pid {self.consumers[0]}) was killed with SIGKILL")
        return True

    def run(self):
        urls = self.start()
        self.play = subprocess.Popen([harness.find_program("order_timeout"), "--broker", urls, *self.arguments],
                                     stderr=subprocess.PIPE)
        reader = threading.Thread(target=self.read_errors)
        reader.start()
        try:
            self.disturb()
            status = self.play.wait()
        except KeyboardInterrupt:
            status = self.play.wait()
        reader.join()
        if self.playing.is_set() and status == 0:
            status = self.judge()
        if self.on_terminal:
            for remark in self.remarks:
                print(f"demo: {remark}")
        return status

    def end(self):
        if self.play is not None and self.play.poll() is None:
            self.play.kill()
        for broker in self.brokers:
            if broker.is_running():
                broker.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
