"""sigkill_test.py: kill -9 of the broker at random, again and again, under load; the ledger outside must agree.

Load: streams that schedule, cancel and move, consumers that ack by themselves, one whose deliveries are acked by hand
with `tarry ack`, and now and then a consumer that is killed too. Nothing is told to any client: each finds its own way
back. TARRY_CRASH_ROUNDS says how many kills (default 50), TARRY_CRASH_SEED which history.
"""
import json
import os
import random
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from harness import Case, now_ms  # noqa: E402
from ledger import Ledger  # noqa: E402

ROUNDS = int(os.environ.get("TARRY_CRASH_ROUNDS", "50"))
SEED = int(os.environ.get("TARRY_CRASH_SEED", str(random.SystemRandom().randrange(1 << 32))))
UP_MS = (60, 1100)      # how long a broker lives
KILL_CONSUMER_EVERY = 7  # rounds
FINISH_S = 120


class Load:
    """Every client of the story. Each thread here reads one stream's answers into the ledger."""

    def __init__(self, broker, seed):
        self.broker, self.ledger = broker, Ledger()
        self.random = random.Random(seed)
        self.running = self.acking = True
        self.cancel_asked_ms = []  # by line
        self.count = self.moves_sent = self.cancels_sent = 0
        self.answered = {"schedule": 0, "cancel": 0, "move": 0}
        self.schedules = broker.stream("schedule", "--from", "-", stdin=True)
        self.cancels = broker.stream("cancel", "--from", "-", stdin=True)
        self.moves = broker.stream("move", "--from", "-", stdin=True)
        self.threads = []
        self.by_hand = []
        self.consumers = []
        for stream, name, note in ((self.schedules, "schedule", self.ledger.scheduled),
                                   (self.cancels, "cancel", self.ledger.cancelled), (self.moves, "move", self.ledger.moved)):
            self.start(self.read_answers, stream, name, note)
        self.hand = self.start_consumer("hand", "--ack", "none", "--lease", "3s", "--prefetch", 20)
        for _ in range(3):
            self.start(self.ack_by_hand)
        for _ in range(2):
            self.start_consumer("auto")
        self.driver = self.start(self.drive)

    def start(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        thread.start()
        self.threads.append(thread)
        return thread

    def start_consumer(self, queue, *arguments):
        consumer = self.broker.consume(queue, *arguments)
        self.consumers.append(consumer)
        self.start(self.read_deliveries, consumer)
        return consumer

    def replace_consumer(self):
        victim = next(c for c in self.consumers if c is not self.hand)
        victim.process.kill()
        self.consumers.remove(victim)
        self.start_consumer("auto")

    def read_answers(self, stream, name, note):
        while (answer := stream.lines.get()) is not None:
            if name == "cancel":
                answer["_asked_ms"] = self.cancel_asked_ms[answer["line"] - 1]
            note(answer)
            self.answered[name] += 1

    def read_deliveries(self, stream):
        while (delivery := stream.lines.get()) is not None:
            self.ledger.delivered(delivery)
            if delivery["queue"] == "hand":
                self.by_hand.append(delivery)

    def ack_by_hand(self):
        while self.acking:
            try:
                delivery = self.by_hand.pop(0)
            except IndexError:
                time.sleep(0.02)
                continue
            done = subprocess.run(self.broker.command("ack", delivery["id"], delivery["token"], "--timeout", "20s"),
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
            arrived_ms = now_ms()
            if done.returncode == 0 and json.loads(done.stdout)["result"] == "acked":
                self.ledger.acked(delivery["id"], arrived_ms)

    def drive(self):
        """About 300 schedules a second, and cancels and moves of tasks that may or may not have fired."""
        recent = []
        while self.running:
            for _ in range(self.random.randrange(1, 25)):
                self.count += 1
                key = f"t{self.count}"
                queue = "hand" if self.count % 12 == 0 else "auto"
                delay_ms = self.random.choice((0, 1, 50, 200, 700, 1500, 4000))
                self.schedules.send({"queue": queue, "key": key, "delay_ms": delay_ms + self.random.randrange(50), "body": key})
                recent.append((queue, key))
            del recent[:-400]
            for _ in range(self.random.randrange(0, 8)):
                queue, key = self.random.choice(recent)
                self.cancels_sent += 1
                self.cancel_asked_ms.append(now_ms())
                self.cancels.send({"queue": queue, "key": key})
            for _ in range(self.random.randrange(0, 6)):
                queue, key = self.random.choice(recent)
                self.moves_sent += 1
                self.moves.send({"queue": queue, "key": key, "delay_ms": self.random.randrange(0, 3000)})
            time.sleep(0.04)

    def finish(self):
        """No more work; every answer awaited; everything that falls due consumed."""
        self.running = False
        self.driver.join()
        for stream in (self.schedules, self.cancels, self.moves):
            stream.end_input()
        statuses = [stream.wait(FINISH_S) for stream in (self.schedules, self.cancels, self.moves)]
        end = time.monotonic() + FINISH_S
        while time.monotonic() < end:
            stats = [s for s in self.broker.ok("stats") if s["queue"] is not None]
            if stats and all(s["pending"] == s["ready"] == s["in_flight"] == 0 for s in stats):
                break
            time.sleep(0.2)
        self.acking = False
        return statuses, stats


class SigKill(Case):
    """One history, judged from several sides: each `test_` is one promise."""

    ledger = None
    problems = {}

    def setUp(self):
        if SigKill.ledger is not None:
            return
        super().setUp()
        print(f"# seed {SEED}, {ROUNDS} rounds", flush=True)
        rng = random.Random(SEED)
        load = Load(self.broker, SEED)
        for number in range(1, ROUNDS + 1):
            time.sleep(rng.randrange(*UP_MS) / 1000)
            self.broker.restart()
            if number % KILL_CONSUMER_EVERY == 0:
                load.replace_consumer()
        statuses, stats = load.finish()
        SigKill.ledger = load.ledger
        SigKill.problems = {
            "unanswered": [f"{name}: {load.answered[name]} of {sent}" for name, sent in
                           (("schedule", load.count), ("cancel", load.cancels_sent), ("move", load.moves_sent))
                           if load.answered[name] != sent],
            "unsettled": [s for s in stats if s["pending"] or s["ready"] or s["in_flight"] or s["dead"]],
            "status": [] if statuses[0] == 0 else [f"the schedule stream ended with {statuses[0]}"],
        }
        print(f"# scheduled={len(load.ledger.schedules)} cancels={load.cancels_sent} moves={load.moves_sent} "
              f"deliveries={len(load.ledger.deliveries)} acked_by_hand={len(load.ledger.acks)}", flush=True)
        SigKill.stopped = self.broker.stop()
        SigKill.verified = self.broker.tarry("verify", self.broker.data, wait_s=120)

    def tearDown(self):
        if hasattr(self, "brokers"):
            super().tearDown()

    def assert_none(self, complaints):
        self.assertEqual(len(complaints), 0, f"seed {SEED}: {len(complaints)}, such as\n" + "\n".join(map(str, complaints[:8])))

    def test_a_every_line_was_answered_once(self):
        self.assert_none(self.problems["unanswered"] + self.problems["status"])

    def test_no_acknowledged_task_was_lost(self):  # F-10, LOG-1, KEEP-1
        self.assert_none(self.ledger.lost())

    def test_nothing_came_early(self):  # F-10, TIME-1
        self.assert_none(self.ledger.early())

    def test_nothing_came_after_an_acknowledged_ack(self):  # F-10, KEEP-1
        self.assert_none(self.ledger.after_ack())

    def test_nothing_came_after_an_acknowledged_cancel(self):  # F-10, TRUE-1
        self.assert_none(self.ledger.after_cancel())

    def test_every_cancel_answer_was_true(self):  # F-10, TRUE-1
        self.assert_none(self.ledger.untrue())

    def test_nothing_took_effect_twice(self):  # F-10, ONCE-1
        self.assert_none(self.ledger.twice())

    def test_everything_was_settled_in_the_end(self):
        self.assert_none(self.problems["unsettled"])

    def test_the_directory_verifies(self):
        self.assertEqual(self.stopped, 0)
        self.assertEqual(self.verified.status, 0, self.verified)

    @unittest.skipIf(ROUNDS < 10, "too short a history")
    def test_the_history_was_worth_it(self):
        self.assertGreater(len(self.ledger.schedules), ROUNDS * 20)
        self.assertGreater(len(self.ledger.acks), ROUNDS)


if __name__ == "__main__":
    harness.main()
