"""amqp_celery_test.py: Debian's Celery uses Tarry as its broker and as its result backend: a worker, groups, chords, retries,
countdowns, revoke, remote control (docs/AMQP.md).
"""
import os
import signal
import subprocess
import unittest

import harness
from harness import Case

PYTHON = "/usr/bin/python3"
TASKS = """
from celery import Celery
app = Celery("tasks", broker="amqp://guest:guest@127.0.0.1:{port}//", backend="{backend}")

@app.task
def add(x, y):
    return x + y

@app.task
def total(numbers):
    return sum(numbers)

@app.task(bind=True, max_retries=3)
def flaky(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return self.request.retries
"""
DRIVE = """
import time
from celery import chord, group
from tasks import add, app, flaky, total
print("add", add.delay(2, 3).get(timeout=50))
print("group", group(add.s(i, i) for i in range(20))().get(timeout=50))
print("retry", flaky.delay().get(timeout=50))
if {has_chords}:
    print("chord", chord([add.s(i, i) for i in range(5)])(total.s()).get(timeout=50))
began = time.monotonic()
print("countdown", add.apply_async((1, 1), countdown=1).get(timeout=50), time.monotonic() - began >= 1)
later = add.apply_async((1, 1), countdown=2)
later.revoke()
print("ping", [list(answer.values()) for answer in app.control.ping(timeout=5, limit=1)])
try:
    later.get(timeout=50)
except Exception as error:
    print(type(error).__name__)
"""


def has_celery():
    return subprocess.run([PYTHON, "-c", "import celery"], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(has_celery(), "needs Debian's python3-celery")
class Celery(Case):
    arguments = ("--listen", "amqp://127.0.0.1:0")

    def work(self, backend, has_chords):
        """Starts a worker, and returns what the client prints."""
        port = next(int(url.rsplit(":", 1)[1]) for url in self.broker.ready["urls"].split() if url.startswith("amqp://"))
        room = self.path("celery")
        os.mkdir(room)
        with open(os.path.join(room, "tasks.py"), "w") as file:
            file.write(TASKS.format(port=port, backend=backend))
        environment = {**os.environ, "PYTHONPATH": room, "PYTHONDONTWRITEBYTECODE": "1"}
        with open(os.path.join(room, "log"), "w") as log:
            worker = subprocess.Popen([PYTHON, "-m", "celery", "-A", "tasks", "worker", "-c", "2"], cwd=room, env=environment, stdout=log,
                                      stderr=log)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.send_signal, signal.SIGQUIT)
        done = subprocess.run([PYTHON, "-c", DRIVE.format(has_chords=has_chords)], cwd=room, env=environment, capture_output=True, text=True,
                              timeout=120, check=False)
        with open(os.path.join(room, "log")) as log:
            self.assertEqual(done.returncode, 0, done.stderr + log.read())
        return done.stdout.splitlines()

    def test_results_come_by_messages(self):
        self.assertEqual(self.work("rpc://", False), ["add 5", f"group {[2 * number for number in range(20)]}", "retry 2", "countdown 2 True",
                                                      "ping [[{'ok': 'pong'}]]", "TaskRevokedError"])
        self.broker.wait_stats("celery", in_flight=0)

    def test_results_are_in_files(self):
        os.mkdir(self.path("results"))
        self.assertEqual(self.work("file://" + self.path("results"), True)[3], "chord 20")


harness.main()
