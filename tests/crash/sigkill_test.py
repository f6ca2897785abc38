"""sigkill_test.py: kills the broker (SIGKILL) at random, again and again, under load (load.py); the ledger outside must agree.

Some rounds also kill a consumer. No client is told: each reconnects by itself. TARRY_CRASH_ROUNDS sets the number of kills
(default 50), TARRY_CRASH_SEED the history.
"""
import os
import random
import sys
import time
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from harness import Case  # noqa: E402  (the path above)
from load import Load  # noqa: E402

ROUNDS = int(os.environ.get("TARRY_CRASH_ROUNDS", "50"))
SEED = int(os.environ.get("TARRY_CRASH_SEED", str(random.SystemRandom().randrange(1 << 32))))
UP_MS = (60, 1100)      # lifetime of a broker, from … to
KILL_CONSUMER_EVERY = 7  # in rounds
PROGRESS_EVERY = 100


class SigKill(Case):
    """One history, checked from several sides: each `test_` is one promise."""

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
            if number % PROGRESS_EVERY == 0 or load.deaths:
                print(f"# round {number}, {len(load.ledger.schedules)} scheduled {load.deaths}", flush=True)
            if load.deaths:
                break
        statuses, stats = load.finish()
        SigKill.ledger = load.ledger
        SigKill.problems = {
            "unanswered": [f"{name}: {load.answered[name]} of {sent}" for name, sent in
                           (("schedule", load.count), ("cancel", load.cancels_sent), ("move", load.moves_sent))
                           if load.answered[name] != sent],
            "unsettled": [s for s in stats if s["pending"] or s["ready"] or s["in_flight"] or s["dead"]],
            "status": load.deaths + ([] if statuses[0] == 0 else [f"the schedule stream ended with {statuses[0]}"]),
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

    def test_no_acknowledged_task_was_lost(self):  # F-10, KEEP-1
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
