"""load.py: clients under load whose replies and deliveries all go into a ledger: streams that schedule, cancel and move,
consumers that ack automatically, and one consumer whose deliveries are acked by hand with `tarry ack`. A test injects
faults meanwhile. `finish` then waits until every request has its reply and every task is settled. Needs tests/e2e on
sys.path.
"""
import json
import os
import random
import subprocess
import threading
import time

from harness import now_ms
from ledger import Ledger

BY_HAND_MAX = 60  # each ack by hand is a process: the limit keeps a busy machine from falling behind
FINISH_S = int(os.environ.get("TARRY_CRASH_FINISH_S", "400"))
TIMEOUT = "60s"  # long, because the broker may be restarted during a call


class Load:
    """All clients of the test. Each thread reads one stream's replies into the ledger.

    `hand_every`: one task in this number is acked by a separate process; 0: no task. `prefix`: beginning of every key.
    `queue_prefix`: beginning of both queues' names. `pause_s`: time between two groups of requests. `timeout`: how long a
    client retries. `ahead_ms`: returns how far the broker's clock is ahead of the clients' clock; all times in the ledger
    are on the broker's clock.
    """

    def __init__(self, broker, seed, hand_every=12, prefix="t", queue_prefix="", pause_s=0.04, timeout=TIMEOUT, ahead_ms=lambda: 0):
        self.hand_every, self.prefix, self.pause_s = hand_every, prefix, pause_s
        self.patience = ("--timeout", timeout)
        self.ahead_ms = ahead_ms
        self.hand_queue, self.auto_queue = queue_prefix + "hand", queue_prefix + "auto"
        self.broker, self.ledger = broker, Ledger()
        self.random = random.Random(seed)
        self.running = self.acking = True
        self.cancel_asked_ms, self.move_keys = [], []  # `cancel_asked_ms`: times of cancels; `move_keys`: keys of moves; both by the line number of the request
        self.count = self.moves_sent = self.cancels_sent = 0
        self.answered = {"schedule": 0, "cancel": 0, "move": 0}
        self.schedules = broker.stream("schedule", "--from", "-", *self.patience, stdin=True)
        self.cancels = broker.stream("cancel", "--from", "-", *self.patience, stdin=True)
        self.moves = broker.stream("move", "--from", "-", *self.patience, stdin=True)
        self.deaths = []  # streams that ended without an order to end
        self.threads = []
        self.by_hand = []
        self.consumers = []
        for stream, name, note in ((self.schedules, "schedule", self.ledger.scheduled),
                                   (self.cancels, "cancel", self.ledger.cancelled), (self.moves, "move", self.ledger.moved)):
            self.start(self.read_answers, stream, name, note)
        self.hand = self.start_consumer(self.hand_queue, "--ack", "none", "--lease", "3s", "--prefetch", 20)
        for _ in range(3):
            self.start(self.ack_by_hand)
        for _ in range(2):
            self.start_consumer(self.auto_queue)
        self.driver = self.start(self.drive)

    def start(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        thread.start()
        self.threads.append(thread)
        return thread

    def start_consumer(self, queue, *arguments):
        consumer = self.broker.consume(queue, *arguments, *self.patience)
        self.consumers.append(consumer)
        self.start(self.read_deliveries, consumer)
        return consumer

    def replace_consumer(self):
        victim = next(c for c in self.consumers if c is not self.hand)
        victim.process.kill()
        self.consumers.remove(victim)
        self.start_consumer(self.auto_queue)

    def now_ms(self):
        return now_ms() + self.ahead_ms()

    def read_answers(self, stream, name, note):
        while (answer := stream.lines.get()) is not None:
            answer["_arrived_ms"] += self.ahead_ms()
            if name == "cancel":
                answer["_asked_ms"] = self.cancel_asked_ms[answer["line"] - 1]
            note(answer)
            if name == "move":
                self.ledger.moving[self.move_keys[answer["line"] - 1]] -= 1
            self.answered[name] += 1
        if self.running:
            status = stream.wait()
            self.deaths.append(f"the {name} stream ended with {status}: {''.join(stream.errors[-12:])}")

    def read_deliveries(self, stream):
        while (delivery := stream.lines.get()) is not None:
            ahead_ms = self.ahead_ms()
            delivery["_arrived_ms"] += ahead_ms
            delivery["received_ms"] += ahead_ms
            self.ledger.delivered(delivery)
            if delivery["queue"] == self.hand_queue:
                self.by_hand.append(delivery)

    def ack_by_hand(self):
        while self.acking:
            try:
                delivery = self.by_hand.pop()  # takes the newest delivery, because on a busy machine the leases of older deliveries may have ended
            except IndexError:
                time.sleep(0.02)
                continue
            done = subprocess.run(self.broker.command("ack", delivery["id"], delivery["token"], "--timeout", "20s"),
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
            arrived_ms = self.now_ms()
            if done.returncode == 0 and json.loads(done.stdout)["result"] == "acked":
                self.ledger.acked(delivery["id"], arrived_ms)

    def drive(self):
        """Sends about 300 schedules a second. Also cancels and moves tasks, some of which may have been delivered already."""
        recent = []
        while self.running:
            for _ in range(self.random.randrange(1, 25)):
                self.count += 1
                key = f"{self.prefix}{self.count}"
                is_by_hand = self.hand_every and self.count % self.hand_every == 0 and len(self.by_hand) < BY_HAND_MAX
                queue = self.hand_queue if is_by_hand else self.auto_queue
                delay_ms = self.random.choice((0, 1, 50, 200, 700, 1500, 4000))
                self.schedules.send({"queue": queue, "key": key, "delay_ms": delay_ms + self.random.randrange(50), "body": key})
                recent.append((queue, key))
            del recent[:-400]
            for _ in range(self.random.randrange(0, 8)):
                queue, key = self.random.choice(recent)
                self.cancels_sent += 1
                self.cancel_asked_ms.append(self.now_ms())
                self.cancels.send({"queue": queue, "key": key})
            for _ in range(self.random.randrange(0, 6)):
                queue, key = self.random.choice(recent)
                self.moves_sent += 1
                self.move_keys.append(key)
                self.ledger.moving[key] += 1
                self.moves.send({"queue": queue, "key": key, "delay_ms": self.random.randrange(0, 3000)})
            time.sleep(self.pause_s)

    def finish(self):
        """Stops the work, waits for every reply, and consumes everything that becomes due."""
        self.running = False
        self.driver.join()
        for stream in (self.schedules, self.cancels, self.moves):
            stream.end_input()
        statuses = [stream.wait(FINISH_S) for stream in (self.schedules, self.cancels, self.moves)]
        end = time.monotonic() + FINISH_S
        while time.monotonic() < end:
            stats = [s for s in self.broker.one("stats")["queues"] if s["name"] in (self.hand_queue, self.auto_queue)]
            if stats and all(s["pending"] == s["ready"] == s["in_flight"] == 0 for s in stats):
                break
            time.sleep(0.2)
        self.acking = False
        return statuses, stats
