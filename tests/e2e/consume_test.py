"""consume_test.py: `tarry consume` in all its modes, and what happens to a consumer's tasks when it ends."""
import json
import signal
import time

import harness
from frozen import freeze, thaw
from harness import Case


class Consume(Case):
    def fill(self, count, queue="orders", delay_ms=0):
        lines = [{"queue": queue, "key": f"k{i}", "delay_ms": delay_ms, "body": f"b{i}"} for i in range(count)]
        return self.broker.ok("schedule", "--from", "-", stdin="\n".join(map(json.dumps, lines)))

    def test_a_delivery_has_every_field(self):
        task = self.broker.one("schedule", "orders", "--key", "o-1", "--in", "100ms", "--body", "héllo", "--attr", "a=b")
        delivery = self.broker.one("consume", "orders", "--count", 1)
        self.assert_not_early(delivery)
        expected = {"id": task["id"], "queue": "orders", "key": "o-1", "due_ms": task["due_ms"], "attempt": 1,
                    "deliveries": 1, "priority": 0, "attributes": {"a": "b"}, "body": "héllo"}
        self.assertEqual({name: delivery[name] for name in expected}, expected)
        self.assertIsInstance(delivery["token"], str)

    def test_auto_acks_while_the_consumer_waits_for_more(self):
        self.fill(1)
        consumer = self.broker.consume("orders")
        consumer.next()
        self.broker.wait_stats("orders", acked=1, in_flight=0)

    def test_count_ends_after_so_many_and_gives_the_rest_back_without_an_attempt(self):
        self.fill(50)
        first = self.broker.ok("consume", "orders", "--count", 20)
        self.assertEqual(len(first), 20)
        second = self.broker.ok("consume", "orders", "--count", 30)
        self.assertEqual({d["key"] for d in first} | {d["key"] for d in second}, {f"k{i}" for i in range(50)})
        self.assertEqual({d["attempt"] for d in first + second}, {1}, "a release cost an attempt")

    def test_for_ends_after_so_long_with_status_zero(self):
        started = time.monotonic()
        self.assertEqual(self.broker.ok("consume", "orders", "--for", "500ms"), [])
        self.assertGreaterEqual(time.monotonic() - started, 0.5)

    def test_several_queues(self):
        self.fill(2, "a")
        self.fill(3, "b")
        got = self.broker.ok("consume", "a", "b", "--count", 5)
        self.assertEqual(sorted(d["queue"] for d in got), ["a", "a", "b", "b", "b"])

    def test_prefetch_bounds_what_is_in_flight(self):
        self.fill(20)
        consumer = self.broker.consume("orders", "--ack", "none", "--prefetch", 3)
        consumer.take(3)
        self.assertTrue(consumer.quiet_for(0.5))
        self.assertEqual(self.broker.queue_stats("orders")["in_flight"], 3)

    def test_nack_mode_brings_the_task_again(self):
        self.broker.ok("queue", "set", "orders", "backoff=fixed", "backoff_min=100ms", "backoff_jitter=0")
        self.fill(1)
        got = self.broker.ok("consume", "orders", "--ack", "nack", "--count", 3)
        self.assertEqual([d["attempt"] for d in got], [1, 2, 3])
        self.assertEqual(len({d["token"] for d in got}), 3)

    def test_the_dead_letter_says_how_the_command_failed(self):
        self.broker.ok("queue", "set", "orders", "max_attempts=1")
        self.broker.one("schedule", "orders", "--key", "exits", "--in", "0s", "--body", "exit 3")
        self.broker.one("schedule", "orders", "--key", "killed", "--in", "0s", "--body", "kill -9 $$")
        self.broker.ok("consume", "orders", "--count", 2, "--exec", "sh")
        reasons = {task["key"]: task["reason"] for task in self.broker.ok("dead", "list", "orders")}
        self.assertEqual(reasons, {"exits": "the command exited with status 3", "killed": "the command exited with status 137: Killed"})

    def test_none_leaves_the_lease_to_others(self):
        self.fill(1)
        delivery = self.broker.one("consume", "orders", "--ack", "none", "--count", 1)
        self.assertEqual(self.broker.one("ack", delivery["id"], delivery["token"])["result"], "acked")

    def test_none_leaves_the_lease_to_run_out(self):
        self.fill(1)
        first = self.broker.one("consume", "orders", "--ack", "none", "--count", 1, "--lease", "3s")
        second = self.broker.one("consume", "orders", "--count", 1)
        self.assertEqual((second["id"], second["attempt"], second["deliveries"]), (first["id"], 2, 2))
        one, two = self.broker.ok("audit", "--kind", "leased")
        self.assertGreaterEqual(two["at_ms"], one["lease_deadline_ms"])

    def test_exec_gets_the_body_and_its_status_decides(self):
        self.broker.ok("queue", "set", "orders", "backoff=fixed", "backoff_min=50ms", "backoff_jitter=0")
        self.broker.one("schedule", "orders", "--in", "0s", "--body", "good")
        self.broker.one("schedule", "orders", "--in", "0s", "--body", "bad")
        out = self.path("out")
        self.broker.ok("consume", "orders", "--count", 3, "--exec", f'read line; echo "$line" >> {out}; [ "$line" = good ]')
        with open(out, encoding="utf-8") as file:
            self.assertEqual(sorted(file.read().split()), ["bad", "bad", "good"])
        self.assertEqual(self.broker.queue_stats("orders")["acked"], 1)

    def test_the_end_of_standard_error_is_the_reason(self):
        self.broker.ok("queue", "set", "orders", "max_attempts=1")
        self.broker.one("schedule", "orders", "--in", "0s", "--key", "k")
        said = self.broker.tarry("consume", "orders", "--count", 1, "--exec", "seq 1 3000 >&2; printf 'grün \\033 card refused\\n' >&2; exit 7").err
        self.assertIn("card refused", said)  # the reason is also in the task's record
        self.assertIn("\n2999\n", said)
        (dead,) = self.broker.ok("dead", "list", "orders")
        self.assertRegex(dead["reason"], r"^the command exited with status 7: .*2999 3000 grün   card refused$")
        self.assertLessEqual(len(dead["reason"].encode()), 255)
        self.assertGreater(len(dead["reason"].encode()), 240)

    def test_commands_run_in_parallel_and_their_number_is_bounded(self):
        gate = self.path("gate")
        for i in range(5):
            self.broker.one("schedule", "orders", "--in", "0s", "--key", f"k{i}")
        stream = self.broker.stream("consume", "orders", "--count", 5, "--parallel", 3, "--exec", f"while ! [ -e {gate} ]; do sleep 0.05; done")
        stream.take(3)  # three commands run at the same time
        self.assertEqual(self.broker.queue_stats("orders")["in_flight"], 3)
        self.assertTrue(stream.quiet_for(0.3))
        self.path("gate", "open")
        self.assertEqual((stream.wait(), len(stream.rest())), (0, 2))
        self.broker.wait_stats("orders", acked=5)
        self.assertIn("--parallel is for --exec", self.broker.tarry("consume", "orders", "--parallel", 2).err)

    def test_a_process_that_a_command_leaves_behind_keeps_nobody(self):
        self.broker.one("schedule", "orders", "--in", "0s")
        started = time.monotonic()
        self.broker.ok("consume", "orders", "--count", 1, "--exec", "sleep 20 & exit 0")
        self.assertLess(time.monotonic() - started, 15)

    def test_an_empty_body_is_fine_for_exec(self):
        self.broker.one("schedule", "orders", "--in", "0s")
        self.broker.ok("consume", "orders", "--count", 1, "--exec", "exit 0")
        self.broker.wait_stats("orders", acked=1)

    def test_a_second_consumer_shares_the_work(self):
        one = self.broker.consume("orders", "--prefetch", 10)
        two = self.broker.consume("orders", "--prefetch", 10)
        time.sleep(0.5)
        self.fill(400, delay_ms=200)
        self.broker.wait_stats("orders", acked=400)
        time.sleep(0.3)
        for stream in (one, two):
            stream.signal(signal.SIGTERM)
        keys = [d["key"] for d in one.rest() + two.rest()]
        self.assertEqual(sorted(keys), sorted(f"k{i}" for i in range(400)), "each exactly once")

    def test_a_flooded_queue_lets_another_of_the_same_consumer_have_its_turn(self):  # F-41
        lines = [json.dumps({"queue": "flooded", "delay_ms": 0}) for _ in range(2000)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines))
        self.broker.one("schedule", "calm", "--in", "0s")
        self.broker.wait_stats("calm", ready=1)
        deliveries = self.broker.ok("consume", "flooded", "calm", "--count", 200, "--prefetch", 8)
        self.assertEqual({d["queue"] for d in deliveries}, {"flooded", "calm"})

    def test_no_delivery_without_a_consumer_and_none_to_one_of_another_queue(self):
        self.fill(1, "a")
        self.assertEqual(self.broker.ok("consume", "b", "--for", "300ms"), [])
        self.assertEqual(self.broker.queue_stats("a")["delivered"], 0)


class ConsumerEnds(Case):
    def setUp(self):
        super().setUp()
        lines = [json.dumps({"queue": "q", "key": f"k{i}", "delay_ms": 0}) for i in range(30)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines))

    def ends_by(self, number):
        consumer = self.broker.consume("q", "--ack", "auto", "--prefetch", 10)
        consumer.take(30)
        consumer.signal(number)
        self.assertEqual(consumer.wait(), 0)
        self.broker.wait_stats("q", acked=30, in_flight=0)

    def test_sigterm_settles_what_was_printed(self):
        self.ends_by(signal.SIGTERM)

    def test_sigint_settles_what_was_printed(self):
        self.ends_by(signal.SIGINT)

    def test_sigkill_gives_the_tasks_back_at_once_and_counts_an_attempt(self):  # F-17
        consumer = self.broker.consume("q", "--ack", "none", "--prefetch", 5, "--lease", "10m")  # 10m: longer than any test waits
        held = {d["id"] for d in consumer.take(5)}
        consumer.kill()
        got = self.broker.ok("consume", "q", "--count", 30)
        self.assertEqual({d["id"] for d in got if d["attempt"] == 2}, held)
        self.assertEqual({d["attempt"] for d in got}, {1, 2})

    def test_consume_survives_the_loss_of_the_broker(self):
        consumer = self.broker.consume("q")
        consumer.take(30)
        self.broker.wait_stats("q", acked=30)
        self.broker.kill()
        time.sleep(0.4)
        self.broker.start()
        self.broker.one("schedule", "q", "--key", "after", "--in", "0s")
        after = consumer.next()
        self.assertEqual((after["key"], after["attempt"]), ("after", 1))

    def test_a_stopped_consumer_loses_its_tasks_to_another(self):  # F-13, F-19
        consumer = self.broker.consume("q", "--ack", "none", "--prefetch", 30, "--lease", "1s")
        consumer.take(30)
        freeze(consumer.process)
        got = self.broker.ok("consume", "q", "--count", 30)
        self.assertNotIn(1, {d["attempt"] for d in got})
        thaw(consumer.process)


if __name__ == "__main__":
    harness.main(watches_locks=True)
