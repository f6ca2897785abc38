"""life.py: runs one broker with one fault, and then checks its data directory. The workload is fixed: tasks due at once, tasks
due far ahead, large tasks that fill a segment and cause its retirement, deliveries, an ack, cancels, moves, an orderly
stop. It runs as long as the broker runs. Replies go to the ledger; requests without a reply are remembered as open.
Afterwards, a broker without a fault on the same directory must have every confirmed fact.
"""
import copy
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import harness
from fault import Fault
from harness import now_ms
from ledger import Ledger

HOUR_MS = 3_600_000
FAT_SIZE = 300_000
FIRST_SEGMENT = "0000000000001000.seg"
POLL_S = 0.02
RETIRED_WAIT_S = 60
ANSWER_WAIT = "60s"         # timeout of the tool: a start may come in between
STOP_WAIT_S = 60
REFUSED, USAGE, STORAGE = 1, 2, 4  # exit statuses of tarryd
KILLS = ("kill", "half", "done", "cut", "done-cut")
ARGUMENTS = ("--segment-size", "1MiB", "--retain-log-size", "0", "--memory", "64MiB")


class Life:
    """`deadline_s`: time limit of the whole workload, because with a permanent fault it may wait for ever."""

    def __init__(self, what=None, how=None, first=0, last=None, spare=None, deadline_s=120, snapshot=None, arguments=ARGUMENTS):
        self.directory = tempfile.mkdtemp(prefix="tarry-crash-")
        self.data = os.path.join(self.directory, "data")
        self.ledger = Ledger()
        if snapshot is not None:
            shutil.copytree(snapshot.data, self.data)
            self.ledger = copy.deepcopy(snapshot.ledger)
        self.arguments = arguments
        self.fault = Fault(self.directory, self.data, what, how, first, last, spare)
        self.broker = harness.Broker(self.data, *arguments, env=self.fault.env())
        self.deadline_s = deadline_s
        self.end = 0
        self.given_up = []       # steps that were abandoned
        self.was_ready = False
        self.status = None       # exit status of the broker with the fault
        self.complaints = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.broker.is_running():
            self.broker.kill()
        self.fault.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def complain(self, text):
        self.complaints.append(text)

    # ---- the workload

    def run(self, work, end=None):
        """Starts the broker, does the work, and stops the broker (or ends it with `end`). `work` is a list of functions of this
        life."""
        self.end = time.monotonic() + self.deadline_s
        self.broker.launch()
        while not self.broker.is_ready.wait(POLL_S) and time.monotonic() < self.end:
            pass
        if self.broker.ready:
            self.was_ready = True
            self.broker.wait_ready()
            for step in work:
                if not step(self):
                    self.given_up.append(step.__name__)
                if not self.broker.is_running():
                    break
        if end is None:
            end = self.stop
        end()

    def stop(self):
        process = self.broker.process
        try:
            if self.broker.is_running():
                process.terminate()
            self.status = process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self.complain("does not stop at SIGTERM")
            process.kill()
            self.status = process.wait()
        self.broker.reader.join(5)
        process.stderr.close()

    def ask(self, *arguments, stdin=None):
        """Runs the tool. Returns its replies, and whether it ended by itself. Each reply has the times of the request and of
        the reply's arrival.
        """
        asked_ms = now_ms()
        with tempfile.TemporaryFile() as file:
            file.write((stdin or "").encode())
            file.seek(0)
            tool = subprocess.Popen(self.broker.command(*arguments, "--timeout", ANSWER_WAIT), stdin=file, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL)
        while True:
            try:
                out, _ = tool.communicate(timeout=POLL_S)
                is_over = True
                break
            except subprocess.TimeoutExpired:
                if self.broker.is_running() and time.monotonic() < self.end:
                    continue
                tool.kill()
                out, _ = tool.communicate()
                is_over = False
                break
        lines = out.decode().splitlines(keepends=True)
        answers = [json.loads(line) for line in lines if line.endswith("\n")]
        return [{**answer, "_asked_ms": asked_ms, "_arrived_ms": now_ms()} for answer in answers], is_over

    def each(self, command, note, requests):
        """Sends many requests on one stream; `note` gets each reply."""
        for request in requests:
            self.ledger.ask(command, request["key"])
        answers, is_over = self.ask(command, "--from", "-", stdin="".join(json.dumps(request) + "\n" for request in requests))
        for answer in answers:
            self.ledger.answered(command, answer["key"])
            note(answer)
        return is_over and len(answers) == len(requests)

    def schedule(self, queue, keys, delay_ms, body="x"):
        requests = [{"queue": queue, "key": key, "delay_ms": delay_ms, "body": body} for key in keys]
        return self.each("schedule", self.ledger.scheduled, requests)

    def cancel(self, queue, keys):
        return self.each("cancel", self.ledger.cancelled, [{"queue": queue, "key": key} for key in keys])

    def move(self, queue, keys, delay_ms):
        return self.each("move", self.ledger.moved, [{"queue": queue, "key": key, "delay_ms": delay_ms} for key in keys])

    def consume(self, count):
        deliveries, is_over = self.ask("consume", "now", "--ack", "none", "--count", count)
        for delivery in deliveries:
            self.ledger.delivered(delivery)
        return is_over and len(deliveries) == count

    def ack(self, delivery):
        self.ledger.ask("ack", delivery["key"])
        answers, is_over = self.ask("ack", delivery["id"], delivery["token"])
        if answers and answers[0]["result"] == "acked":
            self.ledger.answered("ack", delivery["key"])
            self.ledger.acked(delivery["id"], answers[0]["_arrived_ms"])
        return is_over and len(answers) == 1

    def has_retired(self):
        """Returns whether the log's first segment was retired, which happens only after the index has absorbed it."""
        end = min(self.end, time.monotonic() + RETIRED_WAIT_S)
        while os.path.exists(os.path.join(self.data, "log", FIRST_SEGMENT)):
            if not self.broker.is_running() or time.monotonic() > end:
                return False
            time.sleep(POLL_S)
        return True

    # ---- the check

    def judge(self):
        """Checks how the broker ended. Then starts a broker without a fault on the same directory, and checks it. Returns all complaints."""
        is_killed = self.fault.how in KILLS and self.fault.fired > 0
        if self.status not in (0, REFUSED, STORAGE) and not (is_killed and self.status == -signal.SIGKILL):
            self.complain(f"ended with {self.status}")
        if self.status in (REFUSED, STORAGE) and not any(re.search(r"reason=|tarryd: ", line) for line in self.broker.log[-8:]):
            self.complain(f"ended with {self.status} and no sentence")
        for line in self.broker.log:
            if "Sanitizer" in line or "runtime error:" in line or "Assertion" in line:
                self.complain(line)
        clean = harness.Broker(self.data, *self.arguments)
        try:
            clean.start()
            self.judge_facts(clean)
            if clean.stop() != 0:
                self.complain(f"the clean broker did not stop: {clean.log_text(5)}")
            verified = clean.tarry("verify", self.data)
            if verified.status != 0:
                self.complain(f"does not verify: {verified}")
            self.judge_history(clean)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            self.complain(f"the clean broker: {error}")
        finally:
            if clean.is_running():
                clean.kill()
        return self.complaints

    def judge_history(self, clean):
        """Checks that log and archive together are complete from the first position on."""
        told = clean.tarry("audit", "--data", self.data, "--kind", "scheduled")
        if told.status != 0 or told.err:
            self.complain(f"history is not whole: {told}")
        starts = [name[:16] for part in ("log", "archive") if os.path.isdir(os.path.join(self.data, part))
                  for name in os.listdir(os.path.join(self.data, part)) if name.endswith((".seg", ".seg.zst"))]
        if min(starts) != FIRST_SEGMENT[:16]:
            self.complain(f"history starts at {min(starts)}")
        known = {fact["id"] for fact in told.objects}
        for task in self.ledger.schedules.values():
            if task["id"] not in known:
                self.complain(f"history does not tell of {task}")

    def judge_facts(self, clean):
        live = {task["key"]: task for queue in self.ledger.queues() for task in clean.ok("list", queue)}
        for delivery in clean.tarry("consume", "now", "--ack", "none", "--for", "100ms").objects:
            self.ledger.delivered({**delivery, "_arrived_ms": now_ms()})
        for name, complaints in (("lost", self.ledger.missing(live)), ("came back", self.ledger.risen(live)),
                                 ("has another due time", self.ledger.displaced(live)), ("early", self.ledger.early()),
                                 ("after its ack", self.ledger.after_ack()),
                                 ("after its cancel", self.ledger.after_cancel()),
                                 ("an untrue answer", self.ledger.untrue()), ("twice", self.ledger.twice())):
            for complaint in complaints:
                self.complain(f"{name}: {complaint}")

    def story(self):
        """Returns a description of what happened, for a complaint."""
        return (f"hit {self.fault.hit or 'nothing'} (of {self.fault.matched} matching), ready={self.was_ready}, "
                f"gave up={self.given_up}, status={self.status}, log:\n" + "\n".join(self.broker.log[-6:]))


class Snapshot:
    """The data directory of a broker that was killed after most of the workload, with a torn tail; and its ledger."""

    def __init__(self):
        self.life = Life()
        self.life.run(WHOLE[:-2], end=self.life.broker.kill)
        self.data, self.ledger = self.life.data, self.life.ledger
        log = os.path.join(self.data, "log")
        newest = max(name for name in os.listdir(log) if name.endswith(".seg"))
        with open(os.path.join(log, newest), "r+b") as file:
            content = file.read()
            file.seek(len(content.rstrip(b"\0")) + 8 & ~7)
            file.write(b"TRY1" + b"torn" * 50)

    def delete(self):
        shutil.rmtree(self.life.directory)


# ---- the steps of the fixed workload, in order

def schedule_due(life):
    return life.schedule("now", [f"n{number}" for number in range(4)], 0)


def schedule_far(life):
    return life.schedule("far", [f"f{number}" for number in range(6)], HOUR_MS, "far " * 50)


def consume_due(life):
    return life.consume(4)


def ack_one(life):
    return life.ack(life.ledger.deliveries[0]) if life.ledger.deliveries else False


def cancel_some(life):
    return life.cancel("far", ["f0", "f1"]) and life.cancel("now", ["n3"])


def move_some(life):
    return life.move("far", ["f2", "f3"], 2 * HOUR_MS)


def schedule_fat(life):
    return all([life.schedule("far", [f"fat{number}"], HOUR_MS, "x" * FAT_SIZE) for number in range(4)])


def cancel_fat(life):
    return life.cancel("far", ["fat0", "f4"])


def wait_retired(life):
    return life.has_retired()


def schedule_last(life):
    return life.schedule("far", ["last"], HOUR_MS) and life.cancel("far", ["fat1"])


WHOLE = [schedule_due, schedule_far, consume_due, ack_one, cancel_some, move_some, schedule_fat, cancel_fat, wait_retired,
         schedule_last]
AGAIN = [schedule_last]  # the workload after a recovery
