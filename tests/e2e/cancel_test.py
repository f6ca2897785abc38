"""cancel_test.py: cancel and move report exactly what happened to the task (TRUE-1)."""
import json
import time

import harness
from harness import Case, now_ms


class CancelOne(Case):
    def test_a_pending_task_is_cancelled_and_was_never_delivered(self):  # TRUE-1
        task = self.broker.one("schedule", "orders", "--key", "o-1", "--in", "300ms")
        answer = self.broker.one("cancel", "orders", "o-1")
        self.assertEqual((answer["result"], answer["deliveries"], answer["id"]), ("cancelled", 0, task["id"]))
        self.assertEqual(self.broker.ok("consume", "orders", "--for", "800ms"), [])

    def test_by_id(self):
        task = self.broker.one("schedule", "orders", "--in", "1h")
        self.assertEqual(self.broker.one("cancel", "--id", task["id"])["result"], "cancelled")

    def test_twice_is_harmless_and_says_so(self):
        self.broker.one("schedule", "orders", "--key", "o-1", "--in", "1h")
        self.broker.one("cancel", "orders", "o-1")
        self.assertEqual(self.broker.one("cancel", "orders", "o-1")["result"], "already_cancelled")

    def test_an_unknown_task_is_unknown_since_a_time(self):
        self.broker.one("schedule", "orders", "--key", "o-1", "--in", "1h")
        answer = self.broker.refused("cancel", "orders", "never-heard").one
        self.assertEqual(answer["result"], "unknown")
        self.assertLessEqual(answer.get("known_since_ms", 0), now_ms())
        self.assertEqual(self.broker.refused("cancel", "nowhere", "o-1").one["result"], "unknown")
        self.assertEqual(self.broker.refused("cancel", "--id", "987654321").one["result"], "unknown")

    def test_what_is_in_flight_is_named_with_its_holder(self):  # TRUE-1
        self.broker.one("schedule", "orders", "--key", "o-1", "--in", "0s")
        holder = self.broker.consume("orders", "--ack", "none")
        delivery = holder.next()
        answer = self.broker.refused("cancel", "orders", "o-1").one
        self.assertEqual(answer["result"], "in_flight")
        self.assertEqual((answer["id"], answer["token"]), (delivery["id"], delivery["token"]))
        self.assertEqual(answer["deliveries"], 1)

    def test_withdraw_ends_what_is_in_flight_and_the_ack_hears_the_truth(self):
        self.broker.one("schedule", "orders", "--key", "o-1", "--in", "0s")
        holder = self.broker.consume("orders", "--ack", "none", "--lease", "8s")
        delivery = holder.next()
        answer = self.broker.one("cancel", "orders", "o-1", "--withdraw")
        self.assertEqual((answer["result"], answer["deliveries"]), ("cancelled", 1))
        ack = self.broker.refused("ack", delivery["id"], delivery["token"])
        self.assertIn("cancelled", ack.out)
        self.assertTrue(holder.quiet_for(8.6), "delivered again after it was withdrawn")

    def test_acked_and_when(self):
        self.broker.one("schedule", "orders", "--key", "o-1", "--in", "0s")
        delivery = self.broker.one("consume", "orders", "--count", 1)
        answer = self.broker.refused("cancel", "orders", "o-1").one
        self.assertEqual(answer["result"], "acked")
        self.assertGreaterEqual(answer["ended_ms"], delivery["delivered_ms"])
        self.assertLessEqual(answer["ended_ms"], now_ms() + 5)

    def test_delivered_before_but_not_leased_now_is_cancelled_with_its_deliveries(self):
        self.broker.one("schedule", "orders", "--key", "o-1", "--in", "0s")
        delivery = self.broker.one("consume", "orders", "--count", 1, "--ack", "none")
        self.broker.one("nack", delivery["id"], delivery["token"], "--delay", "1h")
        answer = self.broker.one("cancel", "orders", "o-1")
        self.assertEqual((answer["result"], answer["deliveries"]), ("cancelled", 1))

    def test_dead_is_said(self):
        self.broker.one("schedule", "orders", "--key", "o-1", "--in", "0s")
        delivery = self.broker.one("consume", "orders", "--count", 1, "--ack", "none")
        self.broker.one("nack", delivery["id"], delivery["token"], "--dead", "bad address")
        self.assertEqual(self.broker.refused("cancel", "orders", "o-1").one["result"], "dead")

    def test_expired_is_said(self):
        self.broker.one("schedule", "orders", "--key", "o-1", "--in", "0s", "--expires", "50ms")
        time.sleep(0.4)
        self.assertEqual(self.broker.refused("cancel", "orders", "o-1").one["result"], "expired")

    def test_outcomes_are_known_across_a_crash(self):
        self.broker.one("schedule", "orders", "--key", "paid", "--in", "1h")
        self.broker.one("cancel", "orders", "paid")
        self.broker.one("schedule", "orders", "--key", "closed", "--in", "0s")
        self.broker.one("consume", "orders", "--count", 1)
        self.broker.restart()
        self.assertEqual(self.broker.one("cancel", "orders", "paid")["result"], "already_cancelled")
        self.assertEqual(self.broker.refused("cancel", "orders", "closed").one["result"], "acked")


class CancelStream(Case):
    def test_lines_are_answered_in_order(self):
        for key in ("a", "b"):
            self.broker.one("schedule", "orders", "--key", key, "--in", "1h")
        by_id = self.broker.one("schedule", "orders", "--in", "1h")["id"]
        lines = [{"queue": "orders", "key": "a"}, {"queue": "orders", "key": "a"}, {"id": by_id},
                 {"queue": "orders", "key": "nobody"}, {"queue": "orders", "key": "b"}, {"queue": "orders"}]
        answer = self.broker.tarry("cancel", "--from", "-", stdin="\n".join(map(json.dumps, lines)))
        self.assertEqual(answer.status, 1)
        self.assertEqual([o["result"] for o in answer.objects],
                         ["cancelled", "already_cancelled", "cancelled", "unknown", "cancelled", "error"])
        self.assertEqual([o["line"] for o in answer.objects], [1, 2, 3, 4, 5, 6])


class Move(Case):
    def test_later_and_earlier(self):
        self.broker.one("schedule", "orders", "--key", "o-1", "--in", "300ms")
        answer = self.broker.one("move", "orders", "o-1", "--in", "1h")
        self.assertEqual(answer["result"], "moved")
        self.assertEqual(self.broker.one("get", "orders", "o-1")["due_ms"], answer["due_ms"])
        self.assertEqual(self.broker.ok("consume", "orders", "--for", "700ms"), [])
        due_ms = self.broker.one("move", "orders", "o-1", "--in", "200ms")["due_ms"]
        delivery = self.broker.one("consume", "orders", "--count", 1)
        self.assertEqual(delivery["due_ms"], due_ms)
        self.assert_not_early(delivery)

    def test_by_id_to_an_absolute_time(self):
        task = self.broker.one("schedule", "orders", "--in", "1h")
        due_ms = now_ms() + 7_200_000
        self.assertEqual(self.broker.one("move", "--id", task["id"], "--due-ms", due_ms)["due_ms"], due_ms)
        self.assertEqual(self.broker.one("get", "--id", task["id"])["due_ms"], due_ms)

    def test_what_cannot_be_moved_says_why(self):
        self.broker.one("schedule", "orders", "--key", "held", "--in", "0s")
        holder = self.broker.consume("orders", "--ack", "none")
        holder.next()
        self.assertEqual(self.broker.refused("move", "orders", "held", "--in", "1h").one["result"], "in_flight")
        self.assertEqual(self.broker.refused("move", "orders", "nobody", "--in", "1h").one["result"], "unknown")
        self.broker.one("schedule", "orders", "--key", "gone", "--in", "1h")
        self.broker.one("cancel", "orders", "gone")
        answer = self.broker.tarry("move", "orders", "gone", "--in", "1h").one
        self.assertIn(answer["result"], ("already_cancelled", "cancelled"))

    def test_a_stream_of_moves(self):
        for key in ("a", "b"):
            self.broker.one("schedule", "orders", "--key", key, "--in", "1h")
        lines = [{"queue": "orders", "key": "a", "delay_ms": 1000}, {"queue": "orders", "key": "x", "delay_ms": 1000},
                 {"queue": "orders", "key": "b", "due_ms": 2_000_000_000_000}]
        answer = self.broker.tarry("move", "--from", "-", stdin="\n".join(map(json.dumps, lines)))
        self.assertEqual([(o["line"], o["result"]) for o in answer.objects], [(1, "moved"), (2, "unknown"), (3, "moved")])
        self.assertEqual(answer.status, 1)

    def test_a_move_survives_a_crash(self):
        self.broker.one("schedule", "orders", "--key", "o-1", "--in", "1h")
        due_ms = self.broker.one("move", "orders", "o-1", "--in", "1s")["due_ms"]
        self.broker.restart()
        delivery = self.broker.one("consume", "orders", "--count", 1)
        self.assertEqual(delivery["due_ms"], due_ms)
        self.assert_not_early(delivery)


if __name__ == "__main__":
    harness.main()
