"""ledger_test.py: the ledger detects each kind of broken promise. A check that never fails proves nothing."""
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from ledger import Ledger  # noqa: E402


def delivery(key="k", due_ms=100, delivered_ms=100, token="1-1", **more):
    return {"id": "7", "key": key, "due_ms": due_ms, "delivered_ms": delivered_ms, "received_ms": delivered_ms,
            "_arrived_ms": delivered_ms + 1, "token": token, **more}


class Judge(unittest.TestCase):
    def setUp(self):
        self.ledger = Ledger()
        self.ledger.scheduled({"result": "scheduled", "key": "k", "id": "7", "due_ms": 100, "_arrived_ms": 20})

    def assert_found(self, *names):
        checks = ("lost", "early", "after_ack", "after_cancel", "untrue", "twice", "shrunk")
        self.assertEqual({name for name in checks if getattr(self.ledger, name)()}, set(names))

    def test_an_honest_life(self):
        self.ledger.delivered(delivery())
        self.ledger.acked("7", 105)
        self.assert_found()

    def test_a_lost_task(self):
        self.assert_found("lost")

    def test_a_cancel_whose_producer_was_forgotten(self):
        """A cancel was answered `forgotten`. It may have taken effect, so the task may be gone. A broker may forget a producer
        in use only after a jump of its clock.
        """
        forgotten = {"result": "failed", "code": "forgotten", "key": "k", "_asked_ms": 80, "_arrived_ms": 90}
        self.ledger.cancelled(forgotten)
        self.assert_found("lost", "twice")
        self.ledger.odd.clear()
        self.ledger.jumped = True
        self.ledger.cancelled({**forgotten, "key": "another"})
        self.assert_found("lost")
        self.ledger.cancelled(forgotten)
        self.assert_found()
        self.ledger.delivered(delivery(delivered_ms=120))  # the task may also be delivered, because the reply does not promise that it is gone
        self.assert_found()

    def test_a_move_whose_producer_was_forgotten(self):
        forgotten = {"result": "failed", "code": "forgotten", "key": "k", "_arrived_ms": 90}
        self.ledger.delivered(delivery(due_ms=70))
        self.ledger.moved(forgotten)
        self.assert_found("early", "twice")
        self.ledger.odd.clear()
        self.ledger.jumped = True
        self.ledger.moved(forgotten)
        self.assert_found()

    def test_an_early_task(self):
        self.ledger.delivered(delivery(delivered_ms=99))
        self.assert_found("early")

    def test_a_move_that_was_forgotten(self):
        self.ledger.moved({"result": "moved", "key": "k", "due_ms": 500, "_arrived_ms": 50})
        self.ledger.delivered(delivery())
        self.assert_found("early")

    def test_a_move_that_was_kept(self):
        self.ledger.moved({"result": "moved", "key": "k", "due_ms": 500, "_arrived_ms": 50})
        self.ledger.delivered(delivery(due_ms=500, delivered_ms=501))
        self.assert_found()

    def test_a_move_that_nobody_asked_for(self):
        self.ledger.delivered(delivery(due_ms=90))
        self.assert_found("early")

    def test_a_move_whose_answer_is_overtaken(self):
        self.ledger.moving["k"] += 1
        self.ledger.delivered(delivery(due_ms=90))
        self.assert_found()

    def test_a_delivery_after_its_ack(self):
        self.ledger.acked("7", 105)
        self.ledger.delivered(delivery())
        self.ledger.delivered(delivery(delivered_ms=110, token="1-2"))
        self.assert_found("after_ack")

    def test_a_delivery_after_its_cancel(self):
        self.ledger.cancelled({"result": "cancelled", "key": "k", "deliveries": 1, "_arrived_ms": 90})
        self.ledger.delivered(delivery())
        self.assert_found("after_cancel")

    def test_a_token_that_shrank(self):
        self.ledger.delivered(delivery(token="2-30"))
        self.ledger.delivered(delivery(delivered_ms=200, token="10-9"))  # epochs and positions are compared as numbers
        self.assert_found()
        self.ledger.delivered(delivery(delivered_ms=300, token="9-50"))
        self.assert_found("shrunk")

    def test_what_a_log_says_of_what_was_acknowledged(self):
        self.ledger.acked("7", 105)
        records = [{"kind": kind, "id": "7", "key": key} for kind in ("scheduled", "leased", "acked") for key in ("k", "another")]
        self.assertEqual(self.ledger.claims(records), {("scheduled", "k", "7"), ("acked", "k", "7")})
        self.assertEqual(self.ledger.claims([{"kind": "scheduled", "id": "8", "key": "k"}, {"kind": "started"}]), set())

    def test_a_cancel_that_lied_about_the_past(self):
        self.ledger.delivered(delivery())
        self.ledger.cancelled({"result": "cancelled", "key": "k", "deliveries": 0, "_arrived_ms": 120})
        self.assert_found("untrue")

    def test_a_cancel_that_forgot_the_task(self):
        self.ledger.delivered(delivery())
        self.ledger.cancelled({"result": "unknown", "key": "k", "deliveries": 0, "_asked_ms": 110, "_arrived_ms": 120})
        self.assert_found("untrue")

    def test_a_cancel_after_the_outcome_was_forgotten(self):
        """A cancel of a known task was answered `unknown`. The ledger accepts this reply only after a jump of the broker's
        clock, and only if the task has ended.
        """
        unknown = {"result": "unknown", "key": "k", "deliveries": 0, "_asked_ms": 110, "_arrived_ms": 120}
        self.ledger.jumped = True
        self.ledger.cancelled(unknown)
        self.assert_found("lost", "untrue")
        self.ledger.delivered(delivery())
        self.assert_found()
        self.ledger.jumped = False
        self.assert_found("untrue")

    def test_a_retry_that_was_executed_again(self):
        self.ledger.delivered(delivery())
        self.ledger.scheduled({"result": "exists", "key": "k", "id": "7", "due_ms": 100})
        self.assert_found("twice")


class JudgeOfALife(unittest.TestCase):
    """Starts the broker without a fault, and lists its tasks. Compares this list with the replies, and with the requests that got no reply."""

    def setUp(self):
        self.ledger = Ledger()
        self.ledger.ask("schedule", "k")
        self.ledger.answered("schedule", "k")
        self.ledger.scheduled({"result": "scheduled", "key": "k", "queue": "q", "id": "7", "due_ms": 100, "_arrived_ms": 20})

    def assert_found(self, live, *names):
        checks = ("missing", "risen", "displaced")
        self.assertEqual({name for name in checks if getattr(self.ledger, name)(live)}, set(names))

    def test_a_task_that_is_there(self):
        self.assert_found({"k": {"due_ms": 100}})

    def test_a_task_that_is_gone(self):
        self.assert_found({}, "missing")

    def test_an_end_that_was_only_asked_for(self):
        self.ledger.ask("cancel", "k")
        self.assert_found({})
        self.assert_found({"k": {"due_ms": 100}})

    def test_a_task_that_came_back_after_its_ack(self):
        self.ledger.acked("7", 105)
        self.assert_found({})
        self.assert_found({"k": {"due_ms": 100}}, "risen")

    def test_a_task_that_came_back_after_its_cancel(self):
        self.ledger.cancelled({"result": "cancelled", "key": "k", "deliveries": 0, "_arrived_ms": 90})
        self.assert_found({"k": {"due_ms": 100}}, "risen")

    def test_a_move_that_was_forgotten_and_one_that_was_never_answered(self):
        self.ledger.ask("move", "k")
        self.assert_found({"k": {"due_ms": 500}})
        self.ledger.answered("move", "k")
        self.ledger.moved({"result": "moved", "key": "k", "due_ms": 500, "_arrived_ms": 50})
        self.assert_found({"k": {"due_ms": 500}})
        self.assert_found({"k": {"due_ms": 100}}, "displaced")


if __name__ == "__main__":
    harness.main()
