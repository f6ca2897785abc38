"""schedule_test.py: `tarry schedule`, for one task and for streams."""
import base64
import datetime
import json
import os
import time

import harness
from harness import Case, now_ms


class ScheduleOne(Case):
    def test_answers_with_id_and_due_time_counted_from_receipt(self):
        before = now_ms()
        answer = self.broker.one("schedule", "orders", "--key", "o-1", "--in", "30m", "--body", "close it")
        after = now_ms()
        self.assertEqual(answer["result"], "scheduled")
        self.assertEqual((answer["queue"], answer["key"]), ("orders", "o-1"))
        self.assertIsInstance(answer["id"], str)
        self.assertGreaterEqual(answer["due_ms"], before + 30 * 60_000)
        self.assertLessEqual(answer["due_ms"], after + 1 + 30 * 60_000)
        task = self.broker.one("get", "orders", "o-1")
        self.assertEqual((task["id"], task["due_ms"], task["body"]), (answer["id"], answer["due_ms"], "close it"))

    def test_due_is_the_same_in_answer_get_and_delivery(self):
        answer = self.broker.one("schedule", "orders", "--key", "o-1", "--in", "300ms")
        task = self.broker.one("get", "orders", "o-1")
        delivery = self.broker.one("consume", "orders", "--count", 1)
        self.assertEqual(answer["due_ms"], task["due_ms"])
        self.assertEqual(answer["due_ms"], delivery["due_ms"])
        self.assert_not_early(delivery)

    def test_takes_rfc3339_and_unix_milliseconds(self):
        answer = self.broker.one("schedule", "orders", "--at", "2031-02-03T04:05:06Z")
        self.assertEqual(answer["due_ms"], 1_927_857_906_000)
        answer = self.broker.one("schedule", "orders", "--at", "2031-02-03T06:05:06.250+02:00")
        self.assertEqual(answer["due_ms"], 1_927_857_906_250)
        due_ms = now_ms() + 86_400_000
        self.assertEqual(self.broker.one("schedule", "orders", "--due-ms", due_ms)["due_ms"], due_ms)

    def test_takes_days_in_this_time_zone(self):
        midnight = datetime.datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
        tomorrow = midnight + datetime.timedelta(days=1)
        for text, when in (("tomorrow 09:00", tomorrow.replace(hour=9)), ("tomorrow", tomorrow), ("today 00:00:07", midnight.replace(second=7)),
                           ("2035-12-01", datetime.datetime(2035, 12, 1)), ("2036-02-29T23:59", datetime.datetime(2036, 2, 29, 23, 59))):
            with self.subTest(text):
                self.assertEqual(self.broker.one("schedule", "days", "--at", text)["due_ms"], round(when.timestamp() * 1000))
        for text in ("2035-02-29", "tomorrow 24:00", "tomorrow 9", "tomorrow9:00", "yesterday", "2035-1-1", "2035-12-01x"):
            with self.subTest(text):
                self.assertIn("'tomorrow 09:00' or 2026-12-01", self.broker.tarry("schedule", "days", "--at", text).err)
        self.assertEqual(len(self.broker.ok("list", "days", "--due-from", "2035-12-01", "--due-to", "2035-12-02")), 1)

    def test_what_is_due_in_the_past_fires_at_once(self):
        self.broker.one("schedule", "orders", "--key", "late", "--due-ms", 1)
        delivery = self.broker.one("consume", "orders", "--count", 1)
        self.assertEqual((delivery["key"], delivery["due_ms"]), ("late", 1))

    def test_no_key_is_null_and_no_body_is_an_empty_body(self):
        self.assertIsNone(self.broker.one("schedule", "orders", "--in", "0s")["key"])
        delivery = self.broker.one("consume", "orders", "--count", 1)
        self.assertIsNone(delivery["key"])
        self.assertEqual(delivery["body"], "")

    def test_body_from_a_file_comes_back_byte_for_byte(self):
        data = bytes(range(256)) * 4
        self.broker.one("schedule", "orders", "--in", "0s", "--body-file", self.path("body", data))
        delivery = self.broker.one("consume", "orders", "--count", 1)
        self.assertNotIn("body", {k for k, v in delivery.items() if v is not None})
        self.assertEqual(base64.b64decode(delivery["body_base64"]), data)

    def test_attributes_and_priority_travel(self):
        self.broker.one("schedule", "orders", "--in", "0s", "--attr", "shop=berlin", "--attr", "note=a=b", "--priority", 7)
        delivery = self.broker.one("consume", "orders", "--count", 1)
        self.assertEqual(delivery["attributes"], {"shop": "berlin", "note": "a=b"})
        self.assertEqual(delivery["priority"], 7)

    def test_ten_years_are_fine_and_eleven_are_not(self):
        self.broker.one("schedule", "orders", "--in", "3650d")
        self.assertEqual(self.broker.refused("schedule", "orders", "--in", "4015d").one["result"], "error")

    def test_durations_may_be_composed(self):
        for text, milliseconds in (("250ms", 250), ("1h30m", 5_400_000), ("2d", 172_800_000), ("1m1s1ms", 61_001)):
            before = now_ms()
            due_ms = self.broker.one("schedule", "orders", "--in", text)["due_ms"]
            self.assertGreaterEqual(due_ms - milliseconds, before)
            self.assertLessEqual(due_ms - milliseconds, now_ms() + 1)

    def test_a_megabyte_is_fine_and_a_byte_more_is_not(self):
        self.broker.one("schedule", "orders", "--in", "0s", "--body-file", self.path("fits", b"x" * 1_048_576))
        answer = self.broker.refused("schedule", "orders", "--in", "0s", "--body-file", self.path("big", b"x" * 1_048_577))
        self.assertIn("too_large", answer.out)
        self.assertEqual(len(self.broker.one("consume", "orders", "--count", 1)["body"]), 1_048_576)


class Conflict(Case):
    def schedule(self, mode, due, status=0):
        answer = self.broker.refused("schedule", "orders", "--key", "o-1", "--due-ms", due, "--on-conflict", mode,
                                     "--body", f"{mode}-{due}", status=status)
        return answer.one

    def setUp(self):
        super().setUp()
        self.due = now_ms() + 3_600_000
        self.first = self.schedule("reject", self.due)

    def test_reject_names_the_live_task(self):
        again = self.schedule("reject", self.due + 5, status=1)
        self.assertEqual((again["result"], again["id"], again["due_ms"]), ("exists", self.first["id"], self.due))

    def test_replace_ends_the_old_task_and_starts_a_new_one(self):
        again = self.schedule("replace", self.due + 5)
        self.assertEqual((again["result"], again["due_ms"]), ("replaced", self.due + 5))
        self.assertNotEqual(again["id"], self.first["id"])
        self.assertEqual(self.broker.one("get", "--id", self.first["id"])["state"], "cancelled")
        self.assertEqual(self.broker.one("get", "orders", "o-1")["body"], f"replace-{self.due + 5}")

    def test_earlier_keeps_the_earlier_one(self):
        self.assertEqual(self.schedule("earlier", self.due + 5)["result"], "kept")
        self.assertEqual(self.broker.one("get", "orders", "o-1")["due_ms"], self.due)
        self.assertEqual(self.schedule("earlier", self.due - 5)["result"], "replaced")
        self.assertEqual(self.broker.one("get", "orders", "o-1")["due_ms"], self.due - 5)

    def test_later_keeps_the_later_one(self):
        self.assertEqual(self.schedule("later", self.due - 5)["result"], "kept")
        self.assertEqual(self.schedule("later", self.due + 5)["result"], "replaced")
        self.assertEqual(self.broker.one("get", "orders", "o-1")["due_ms"], self.due + 5)

    def test_the_key_is_free_again_once_its_task_has_ended(self):
        self.broker.one("cancel", "orders", "o-1")
        self.assertEqual(self.schedule("reject", self.due)["result"], "scheduled")

    def test_the_same_key_in_another_queue_is_another_task(self):
        self.assertEqual(self.broker.one("schedule", "returns", "--key", "o-1", "--in", "1h")["result"], "scheduled")


class ScheduleStream(Case):
    def test_every_line_is_answered_once_in_order_and_bad_ones_do_not_stop_the_others(self):
        lines = [
            {"queue": "orders", "key": "a", "delay_ms": 3_600_000},
            {"queue": "orders", "key": "a", "delay_ms": 3_600_000},
            "{broken",
            {"queue": "orders", "delay_ms": 3_600_000, "unheard_of": 1},
            {"queue": "orders", "key": "b", "due_ms": 2_000_000_000_000, "priority": 9, "body_base64": "AAH/",
             "attributes": {"x": "y"}, "expires_ms": 5000},
            {"queue": "", "key": "c", "delay_ms": 1},
            {"queue": "orders", "key": "d"},
            {"queue": "orders", "key": "e", "delay_ms": -1},
            {"queue": "orders", "key": "f", "delay_ms": 0, "body": "last"},
        ]
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n"
        answer = self.broker.tarry("schedule", "--from", "-", stdin=text)
        self.assertEqual(answer.status, 1)
        self.assertEqual([o["line"] for o in answer.objects], list(range(1, 10)))
        self.assertEqual([answer.objects[at].get("key") for at in (0, 1, 4, 8)], ["a", "a", "b", "f"])
        results = [o["result"] for o in answer.objects]
        self.assertEqual(results[:3], ["scheduled", "exists", "error"])
        self.assertEqual([results[4], results[5], results[6], results[7], results[8]],
                         ["scheduled", "error", "error", "error", "scheduled"])
        for item in answer.objects:
            if item["result"] == "error":
                self.assertTrue(item["code"] and item["message"], item)

    def test_exit_is_zero_when_every_line_did_well_and_a_file_works_like_a_pipe(self):
        path = self.path("in.ndjson", "".join(json.dumps({"queue": "q", "key": f"k{i}", "delay_ms": 60000}) + "\n"
                                              for i in range(5000)))
        objects = self.broker.ok("schedule", "--from", path)
        self.assertEqual([o["line"] for o in objects], list(range(1, 5001)))
        self.assertEqual(len({o["id"] for o in objects}), 5000)
        self.assertEqual(self.broker.queue_stats("q")["pending"], 5000)

    def test_a_line_is_answered_at_once_without_waiting_for_more(self):
        stream = self.broker.stream("schedule", "--from", "-", stdin=True)
        for number in range(1, 6):
            stream.send({"queue": "q", "delay_ms": 60000})
            self.assertEqual(stream.next(10)["line"], number)
        stream.end_input()
        self.assertEqual(stream.wait(), 0)

    def test_a_stream_survives_the_loss_of_the_broker(self):
        stream = self.broker.stream("schedule", "--from", "-", stdin=True)
        for number in range(200):
            stream.send({"queue": "q", "key": f"a{number}", "delay_ms": 3_600_000})
        stream.take(1)
        self.broker.kill()
        for number in range(200):
            stream.send({"queue": "q", "key": f"b{number}", "delay_ms": 3_600_000})
        time.sleep(0.5)
        self.broker.start()
        stream.end_input()
        stream.rest()
        answers = stream.seen
        self.assertEqual(stream.wait(), 0)
        self.assertEqual([a["line"] for a in answers], list(range(1, 401)))
        self.assertEqual({a["result"] for a in answers}, {"scheduled"}, "a repeat took effect twice")
        self.assertEqual(self.broker.queue_stats("q")["pending"], 400)

    def test_an_unreadable_file_is_a_usage_error_with_a_sentence(self):
        answer = self.broker.tarry("schedule", "--from", os.path.join(self.directory, "nowhere"))
        self.assertIn(answer.status, (1, 2))
        self.assertIn("nowhere", answer.err)

    def test_the_last_line_needs_no_newline(self):
        answer = self.broker.ok("schedule", "--from", "-", stdin='{"queue":"q","delay_ms":60000}')
        self.assertEqual(answer[0]["result"], "scheduled")


class ManyKeys(Case):
    """More live keys than fit into memory are scheduled in one run. Keys that only the index has are still found."""

    COUNT = 200_000
    arguments = ("--memory", "64MiB")

    def test_a_key_stays_unique_when_its_task_has_left_memory(self):
        lines = "".join('{"queue":"q","key":"k%d","delay_ms":%d}\n' % (i, 3_600_000 + i) for i in range(self.COUNT))
        self.broker.ok("schedule", "--from", "-", stdin=lines, wait_s=300)

        def has_moved_out():
            stats = self.broker.queue_stats(None)
            return stats["indexed"] == stats["appended"] and stats["near_tasks"] < self.COUNT // 2
        harness.wait_until("most tasks are in the index alone", has_moved_out, 120)
        far = [f"k{self.COUNT - 1 - i * 499}" for i in range(100)]
        for key in far[:3]:
            self.assertEqual(self.broker.one("get", "q", key)["state"], "pending")
        lines = "".join('{"queue":"q","key":"%s","delay_ms":3600000}\n' % key for key in far)
        answers = self.broker.tarry("schedule", "--from", "-", stdin=lines).objects
        self.assertEqual({answer["result"] for answer in answers}, {"exists"})
        self.assertEqual(self.broker.queue_stats("q")["scheduled"], self.COUNT)


if __name__ == "__main__":
    harness.main()
