"""honest_web.py: correct clients over HTTP and JSON, and over beanstalkd's protocol, that work while strangers speak to the
same ports, and that report errors. Each of their tasks must be scheduled once, delivered once it is due and not earlier,
and gone after its ack.
"""
import http.client
import json
import random
import secrets
import threading
import time

from beanstalk import Client
from honest import MARK

PAUSE_S = 0.05
DRAIN_S = 60         # until everything is delivered, on a busy machine
DUE_MS = (0, 50, 400)
KEY_REMEMBERED_S = 23 * 3600  # seconds; a little less than the time for which the broker remembers an Idempotency-Key
AGAIN_ONE_IN = 4     # one request in four is sent again under its key
LATER = (421, 429, 500, 503)  # with these statuses the client tries again: this node does not lead, is busy, or is stopping
JOBS_LATER = (b"OUT_OF_MEMORY", b"INTERNAL_ERROR", b"DRAINING")
TROUBLES = (OSError, http.client.HTTPException, ValueError, AssertionError)


class Web(threading.Thread):
    """A client that schedules and consumes in turn. Any of `ports` may be the primary's; the others answer that they are not
    the primary.
    """

    def __init__(self, ports, seed, passing):
        """`passing`: time by which the brokers' clocks have been moved forward."""
        super().__init__(daemon=True)
        self.ports, self.random, self.passing = list(ports), random.Random(seed), passing
        self.queue = MARK + secrets.token_hex(8) + "-" + self.name_of_door
        self.running, self.wrong, self.trouble = True, [], ""
        self.made, self.acked, self.again = {}, set(), {}  # id → due time by the brokers' clock; acked ids; id whose ack had no answer → token
        self.count, self.connection = 0, None
        self.start()

    def run(self):
        while self.running:
            self.turn(self.make, self.work)
            time.sleep(PAUSE_S)
        end = time.monotonic() + DRAIN_S
        while set(self.made) - self.acked and time.monotonic() < end:
            self.turn(self.work)
        self.close()

    def turn(self, *steps):
        try:
            if self.connection is None:
                self.connection = self.connect(self.ports[0])
            for step in steps:
                step()
        except TROUBLES as error:
            self.trouble = repr(error)
            self.close()
            self.ports.append(self.ports.pop(0))
            time.sleep(PAUSE_S)

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def expect(self, is_right, is_for_later, *what):
        """Records any answer that is neither right nor a reason to try again."""
        if not is_right and not is_for_later:
            self.wrong.append(f"{self.queue}: {what}")
        assert is_right, what

    def has_come(self, task):
        """Takes a delivery: it must be of a known task, not early, and not acked before."""
        if task not in self.made:
            self.wrong.append(f"{self.queue}: {task} came and was never made")
        elif self.passing.monotonic() < self.made[task]:
            self.wrong.append(f"{self.queue}: {task} came {self.made[task] - self.passing.monotonic():.3f} s early")
        elif task in self.acked and task not in self.again:
            self.wrong.append(f"{self.queue}: {task} came again after it was acked")

    def finish(self):
        """Returns complaints; the last task has been acked."""
        self.running = False
        self.join(DRAIN_S + 30)
        lost = {task for task in set(self.made) - self.acked if task not in self.again or not self.is_settled(task)}
        if lost:
            self.wrong.append(f"{self.queue}: {len(lost)} of {len(self.made)} never came: {self.trouble}")
        if not self.made:
            self.wrong.append(f"{self.queue}: nothing was made: {self.trouble}")
        return self.wrong

    def is_settled(self, task):
        """Returns whether the last ack, whose answer was lost, took effect."""
        for port in self.ports:
            try:
                self.connection = self.connect(port)
                return self.has_ended(task)
            except TROUBLES as error:
                self.trouble = repr(error)
            finally:
                self.close()
        return False

    def end(self):
        self.running = False


class Api(Web):
    """Uses /v1. Repeats every request without an answer, and some with an answer, under the same Idempotency-Key. All requests
    with one key must make one task.
    """

    name_of_door = "api"

    def __init__(self, ports, seed, passing):
        self.due = {}       # number → earliest time at which the task may be delivered
        self.first = {}     # number → time of its first request
        self.twice = set()  # numbers of schedules that may have made two tasks, because the broker may have forgotten the idempotency key before the repetition
        super().__init__(ports, seed, passing)

    def connect(self, port):
        return http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def ask(self, path, body, wanted, key=None):
        """Returns the answer, which has one of the wanted statuses; None for 410: the key's outcome is no longer known."""
        headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
        self.connection.request("POST", path, json.dumps(body), headers)
        answer = self.connection.getresponse()
        text = answer.read()
        self.expect(answer.status in wanted, answer.status in LATER, path, body, key, text)
        return None if answer.status == 410 else json.loads(text)

    def make(self):
        """Schedules a task: repeats the request until it is answered."""
        key, delay_ms = f"{self.queue}-{self.count}", DUE_MS[self.count % len(DUE_MS)]
        body = {"key": str(self.count), "delay_ms": delay_ms, "json": {"n": self.count}}
        now_s = self.passing.monotonic()
        self.first.setdefault(self.count, now_s)
        self.due.setdefault(self.count, now_s + delay_ms / 1000)
        path = f"/v1/queues/{self.queue}/tasks"
        first = self.ask_once(path, body, key)
        if self.random.randrange(AGAIN_ONE_IN) == 0:
            second = self.ask_once(path, body, key)
            if second != first and not self.is_old():
                self.wrong.append(f"{key}: {second} instead of {first}")
        self.count += 1

    def is_old(self):
        """Returns whether the broker may have forgotten the idempotency key of the current schedule, because the key is too
        old.
        """
        return self.passing.monotonic() - self.first[self.count] > KEY_REMEMBERED_S

    def ask_once(self, path, body, key):
        """Returns the answer to the request, which has the same key each time."""
        answer = self.ask(path, body, (201, 409, 410) if self.is_old() else (201, 410), key)
        if self.is_old():
            self.twice.add(self.count)
        elif answer is None:
            self.wrong.append(f"{key}: forgotten after {self.passing.monotonic() - self.first[self.count]:.0f} s")
        if answer is not None and "id" in answer:  # a 409 has no id: the broker forgot the idempotency key, and the first task with the same task key is still live
            self.made.setdefault(answer["id"], self.due[self.count])
        return answer

    def work(self):
        leased = self.ask(f"/v1/queues/{self.queue}/lease", {"max": 10, "wait": "100ms", "lease": "5s"}, (200,))
        for task in leased["tasks"]:
            number = task["json"]["n"]
            if number == self.count or number in self.twice:  # the reply to this schedule was lost with its connection, so the task's id was unknown until now
                self.made.setdefault(task["id"], self.due[number])
            self.has_come(task["id"])
            if task["due_ms"] > leased["delivered_ms"]:
                self.wrong.append(f"{self.queue}: {task['id']} was delivered before it was due: {task}")
        for task in leased["tasks"]:
            self.again[task["id"]] = task["token"]
            settled = self.ask("/v1/ack", {"id": task["id"], "token": task["token"]}, (200, 409))
            if settled.get("result") == "acked":
                self.acked.add(task["id"])
                del self.again[task["id"]]

    def has_ended(self, task):
        settled = self.ask("/v1/ack", {"id": task, "token": self.again[task]}, (200, 409))
        result = settled["result"]
        return (result if isinstance(result, str) else result["result"]) in ("acked", "unknown")


class Jobs(Web):
    """Uses beanstalkd's protocol, in which a put without an answer may have been executed."""

    name_of_door = "jobs"

    def __init__(self, ports, seed, passing):
        self.unanswered = {}  # body → due time of each put whose reply INSERTED was lost with a connection
        super().__init__(ports, seed, passing)

    def connect(self, port):
        client = Client(port)
        client.socket.settimeout(20)
        self.said(client, f"use {self.queue}", b"USING ")
        self.said(client, f"watch {self.queue}", b"WATCHING ")
        self.said(client, "ignore default", b"WATCHING ")
        return client

    def said(self, client, line, *wanted, body=None):
        reply = client.ask(line, body)
        self.expect(reply.startswith(wanted), not reply or reply.startswith(JOBS_LATER), line, reply)
        return reply

    def make(self):
        delay_s, body = self.random.choice((0, 0, 1)), str(self.count).encode()
        began = self.passing.monotonic()
        self.count += 1
        self.unanswered[body] = began + delay_s
        reply = self.said(self.connection, f"put {self.random.randrange(3)} {delay_s} 5 {len(body)}", b"INSERTED ", body=body)
        self.made[int(reply.split()[1])] = self.unanswered.pop(body)

    def work(self):
        reply = self.said(self.connection, "reserve-with-timeout 0", b"RESERVED ", b"TIMED_OUT", b"DEADLINE_SOON")
        if not reply.startswith(b"RESERVED "):
            return
        job, body = int(reply.split()[1]), reply.split(b"\r\n")[1]
        if job not in self.made and body in self.unanswered:
            self.made[job] = self.unanswered.pop(body)
        self.has_come(job)
        self.again[job] = None
        if self.said(self.connection, f"delete {job}", b"DELETED", b"NOT_FOUND") == b"DELETED\r\n":
            self.acked.add(job)
            del self.again[job]

    def has_ended(self, task):
        return self.said(self.connection, f"stats-job {task}", b"OK ", b"NOT_FOUND") == b"NOT_FOUND\r\n"
