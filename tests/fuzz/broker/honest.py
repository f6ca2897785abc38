"""honest.py: correct clients that work while strangers speak to their broker, and that report errors. `Honest` schedules,
cancels, moves, consumes and acks through the tool, and records into tests/crash/ledger.py. `Caller` opens new connections
again and again, and measures how long it must wait.
"""
import secrets
import threading
import time
import urllib.request

import harness
import wire
from load import Load

CHECKS = ("lost", "early", "after_ack", "after_cancel", "untrue", "twice", "shrunk")
MARK = "honest-"         # know.h: strangers never send it
PAUSE_S = 0.25           # between two groups of requests: some 50 requests a second
BEGIN_S = 60
HOUR_MS = 3_600_000
FAR_TASKS = 20
KEY_FAR = "far-0"
CALL_EVERY_S = 0.2


class Honest:
    """Creates the client. The queues' names cannot be guessed; otherwise strangers could legitimately purge them."""

    def __init__(self, clients, seed, passing):
        """`passing`: gives the offset of the brokers' clocks, which the test moves. The clients' own clocks do not jump."""
        prefix = MARK + secrets.token_hex(8) + "-"
        self.clients, self.far_queue = clients, prefix + "far"
        self.far = self.schedule_far()
        self.load = Load(clients, seed, hand_every=24, queue_prefix=prefix, pause_s=PAUSE_S, ahead_ms=passing.ahead_ms)
        self.load.ledger.jumped = True
        harness.wait_until("an honest client is served", lambda: self.load.answered["schedule"] > 0 or self.load.deaths, BEGIN_S)

    def schedule_far(self):
        """Schedules tasks that are due much later and are never touched."""
        lines = "\n".join(f'{{"queue": "{self.far_queue}", "key": "far-{n}", "delay_ms": {HOUR_MS}}}' for n in range(FAR_TASKS))
        return {task["key"]: task for task in self.clients.ok("schedule", "--from", "-", "--timeout", "60s", stdin=lines + "\n",
                                                              wait_s=90)}

    def finish(self):
        """Waits until every request has its reply and every task is settled. Returns complaints."""
        statuses, stats = self.load.finish()
        wrong = list(self.load.deaths)
        wrong += [f"{name}: {self.load.answered[name]} answers to {sent} requests" for name, sent in
                  (("schedule", self.load.count), ("cancel", self.load.cancels_sent), ("move", self.load.moves_sent))
                  if self.load.answered[name] != sent]
        wrong += [f"not settled: {queue}" for queue in stats if queue["pending"] or queue["ready"] or queue["in_flight"]
                  or (queue["dead"] and queue["name"] != self.load.hand_queue)]
        wrong += [] if statuses[0] == 0 or (statuses[0] == 1 and self.load.ledger.forgotten) else [f"the schedule stream ended with {statuses[0]}"]
        wrong += self.judge()
        self.end()
        return wrong

    def judge(self):
        return [f"{name}: {what}" for name in CHECKS for what in getattr(self.load.ledger, name)()]

    def end(self):
        self.load.running = self.load.acking = False
        for stream in self.clients.streams:
            stream.kill()
        self.clients.streams.clear()

    def still_there(self, broker):
        """Returns complaints about the untouched tasks, after a restart."""
        there = {task["key"]: task for task in broker.ok("list", self.far_queue, "--timeout", "60s", wait_s=90)}
        return [f"{key}: {there.get(key)} instead of {task}" for key, task in self.far.items()
                if key not in there or any(there[key][field] != task[field] for field in ("id", "due_ms"))]


class Caller(threading.Thread):
    """Connects to each port over new connections; `worst_s` is the longest wait for a right answer."""

    def __init__(self, ports, queue, key):
        super().__init__(daemon=True)
        self.ports, self.queue, self.key = ports, queue, key
        self.running, self.worst_s, self.calls = True, 0.0, 0
        self.since, self.trouble = time.monotonic(), ""
        self.start()

    def run(self):
        while self.running:
            for port in self.ports:
                self.call(port)
            time.sleep(CALL_EVERY_S)

    def call(self, port):
        self.since = time.monotonic()
        while self.running:
            try:
                with wire.Rpc(port) as rpc:
                    code, reply = rpc.ask(wire.GET, [(1, [(2, self.queue), (3, self.key)])], wait_s=5)
                    if code == wire.OK and 2 in wire.decode(reply):
                        break
                    self.trouble = f"answered with code {code}: {rpc.sentence}"
            except (OSError, AssertionError) as error:
                self.trouble = repr(error)
            time.sleep(0.05)
        self.look(port)
        self.calls += 1
        self.worst_s = max(self.worst_s, self.waits())

    def look(self, port):
        """Requests the page that a supervisor would check."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10):
                pass
        except OSError as error:
            self.trouble = repr(error)

    def waits(self):
        """Returns how long the client has been waiting for the current answer."""
        return time.monotonic() - self.since

    def end(self):
        self.running = False
        self.join(20)
