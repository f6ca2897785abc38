"""honest_web.py: correct clients over HTTP and JSON, and over beanstalkd's protocol, that work while strangers speak to the same
ports, and that report what went wrong. Each of their tasks is scheduled once, delivered once it is due and not earlier, and gone
after its ack."""
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
AGAIN_ONE_IN = 4     # one request in four is sent again under its key
LATER = (421, 429, 500, 503)  # not this node leads, or it is busy, or stopping: try again
JOBS_LATER = (b"OUT_OF_MEMORY", b"INTERNAL_ERROR", b"DRAINING")
TROUBLES = (OSError, http.client.HTTPException, ValueError, AssertionError)


class Web(threading.Thread):
    """A client that schedules and one that works, in turns. Any of `ports` may be the one that serves; the others say that they
    do not."""

    def __init__(self, ports, seed):
        super().__init__(daemon=True)
        self.ports, self.random = list(ports), random.Random(seed)
        self.queue = MARK + secrets.token_hex(8) + "-" + self.name_of_door
        self.running, self.wrong, self.trouble = True, [], ""
        self.made, self.acked, self.again = {}, set(), set()  # id → due time by its own clock; acked ids; ids whose ack had no answer
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
        elif time.monotonic() < self.made[task]:
            self.wrong.append(f"{self.queue}: {task} came {self.made[task] - time.monotonic():.3f} s early")
        elif task in self.acked and task not in self.again:
            self.wrong.append(f"{self.queue}: {task} came again after it was acked")

    def finish(self):
        """Returns complaints; the last task has been acked."""
        self.running = False
        self.join(DRAIN_S + 30)
        lost = set(self.made) - self.acked
        if lost:
            self.wrong.append(f"{self.queue}: {len(lost)} of {len(self.made)} never came: {self.trouble}")
        if not self.made:
            self.wrong.append(f"{self.queue}: nothing was made: {self.trouble}")
        return self.wrong

    def end(self):
        self.running = False


class Api(Web):
    """Uses /v1. A request without an answer is sent again under its Idempotency-Key, and so are some others: that makes one task.
    """

    name_of_door = "api"

    def __init__(self, ports, seed):
        self.due = {}  # number → earliest time at which the task may be delivered
        super().__init__(ports, seed)

    def connect(self, port):
        return http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def ask(self, path, body, wanted, key=None):
        headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
        self.connection.request("POST", path, json.dumps(body), headers)
        answer = self.connection.getresponse()
        text = answer.read()
        self.expect(answer.status in wanted, answer.status in LATER, path, body, key, text)
        return json.loads(text)

    def make(self):
        """Repeats the request until it is answered."""
        key, delay_ms = f"{self.queue}-{self.count}", DUE_MS[self.count % len(DUE_MS)]
        body = {"key": str(self.count), "delay_ms": delay_ms, "json": {"n": self.count}}
        self.due.setdefault(self.count, time.monotonic() + delay_ms / 1000)
        path = f"/v1/queues/{self.queue}/tasks"
        first = self.ask(path, body, (201,), key)
        self.made.setdefault(first["id"], self.due[self.count])
        if self.random.randrange(AGAIN_ONE_IN) == 0:
            second = self.ask(path, body, (201,), key)
            if second != first:
                self.wrong.append(f"{key}: {second} instead of {first}")
        self.count += 1

    def work(self):
        leased = self.ask(f"/v1/queues/{self.queue}/lease", {"max": 10, "wait": "100ms", "lease": "5s"}, (200,))
        for task in leased["tasks"]:
            if task["json"] == {"n": self.count}:  # its answer was lost with a connection
                self.made.setdefault(task["id"], self.due[self.count])
            self.has_come(task["id"])
            if task["due_ms"] > leased["delivered_ms"]:
                self.wrong.append(f"{self.queue}: {task['id']} was delivered before it was due: {task}")
        for task in leased["tasks"]:
            self.again.add(task["id"])
            settled = self.ask("/v1/ack", {"id": task["id"], "token": task["token"]}, (200, 409))
            if settled.get("result") == "acked":
                self.acked.add(task["id"])
                self.again.discard(task["id"])


class Jobs(Web):
    """Uses beanstalkd's protocol, in which a put without an answer may have been carried out."""

    name_of_door = "jobs"

    def __init__(self, ports, seed):
        self.unanswered = {}  # body → due time: its INSERTED was lost with a connection
        super().__init__(ports, seed)

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
        began = time.monotonic()
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
        self.again.add(job)
        if self.said(self.connection, f"delete {job}", b"DELETED", b"NOT_FOUND") == b"DELETED\r\n":
            self.acked.add(job)
            self.again.discard(job)
