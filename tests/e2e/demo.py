"""demo.py: `./dev demo`: a day of orders, with the broker and one consumer killed in the middle.

Starts tarryd on a temporary directory and the example `order_timeout` against it. At 40 % of the day the broker is killed
with SIGKILL and started again half a second later on the same port and directory; at 65 % one consumer process is killed.
Neither is told to anybody. The summary and the exit status are order_timeout's, which checks every order.
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
KILL_BROKER_AT, KILL_CONSUMER_AT = 0.40, 0.65
DOWN_S = 0.5


class Demo:
    def __init__(self, arguments):
        self.arguments = arguments
        self.on_terminal = sys.stdout.isatty()
        self.remarks = []
        self.consumers = []
        self.playing = threading.Event()
        self.directory = tempfile.mkdtemp(prefix="tarry-demo-")
        self.broker = harness.Broker(os.path.join(self.directory, "data"))
        self.play = None

    def say(self, remark):
        """At once in a pipe; after the picture on a terminal."""
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

    def wait_until(self, moment):
        """Sleeps until then; False when the play has ended before."""
        while time.monotonic() < moment:
            if self.play.poll() is not None:
                return False
            time.sleep(0.02)
        return self.play.poll() is None

    def disturb(self):
        self.playing.wait()
        begin, day_s = time.monotonic(), DAY_S / self.speed()
        if not self.wait_until(begin + KILL_BROKER_AT * day_s):
            return
        pid = self.broker.process.pid
        self.broker.kill()
        time.sleep(DOWN_S)
        self.broker.start()
        self.say(f"the broker (pid {pid}) was killed with SIGKILL; it is back on {self.broker.url} with "
                 f"{self.broker.ready['recovered_tasks']} tasks after {self.broker.ready['took_ms']} ms")
        if not self.wait_until(begin + KILL_CONSUMER_AT * day_s) or not self.consumers:
            return
        os.kill(self.consumers[0], signal.SIGKILL)
        self.say(f"a consumer (pid {self.consumers[0]}) was killed with SIGKILL")

    def run(self):
        self.broker.start()
        self.play = subprocess.Popen([harness.find_program("order_timeout"), "--broker", self.broker.url, *self.arguments],
                                     stderr=subprocess.PIPE)
        reader = threading.Thread(target=self.read_errors)
        reader.start()
        try:
            self.disturb()
            status = self.play.wait()
        except KeyboardInterrupt:
            status = self.play.wait()
        reader.join()
        if self.on_terminal:
            for remark in self.remarks:
                print(f"demo: {remark}")
        return status

    def end(self):
        if self.play is not None and self.play.poll() is None:
            self.play.kill()
        if self.broker.is_running():
            self.broker.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def main():
    demo = Demo(sys.argv[1:])
    try:
        return demo.run()
    finally:
        demo.end()


if __name__ == "__main__":
    sys.exit(main())
