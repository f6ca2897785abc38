"""fault_load_test.py: overload: more load than can be served, very many tasks at once, tasks without a consumer, tasks that
always fail, one busy queue beside a quiet one (F-37 … F-41). Measures no times: checks order, counts, limits, and that every
call is answered within a generous deadline. TARRY_SLOW=1: ten to twenty times as much load."""
import json
import os
import threading
import time

import harness
import wire
from harness import Case, now_ms
from wire import Rpc

SLOW = os.environ.get("TARRY_SLOW") == "1"
CROWD = 1_000_000 if SLOW else 50_000
DEADLINE = "120s" if SLOW else "60s"
WAIT_S = 900 if SLOW else 120
MEMORY_MIB = 64


class Load(Case):
    arguments = ("--memory", f"{MEMORY_MIB}MiB")

    def schedule_many(self, queue, count, *, prefix="k", **fields):
        """Schedules `count` tasks as a stream of lines."""
        line = json.dumps({"queue": queue, "key": "KEY", **fields})
        before, after = line.split("KEY")
        answers = self.broker.tarry("schedule", "--from", "-", "--timeout", DEADLINE, wait_s=WAIT_S,
                                    stdin="\n".join(f"{before}{prefix}{i}{after}" for i in range(count)))
        self.assertEqual(answers.status, 0, answers.err)
        self.assertEqual(answers.out.count('"scheduled"'), count)

    def resident_mib(self, field="VmHWM"):
        with open(f"/proc/{self.broker.process.pid}/status", encoding="ascii") as file:
            return int(next(line for line in file if line.startswith(field)).split()[1]) >> 10

    def assert_memory_bounded(self):
        if not harness.SANITIZED:
            self.assertLess(self.resident_mib(), 2 * MEMORY_MIB, "CALM-1: below twice --memory")

    def small_work_goes_on(self, count=5):
        """Checks that another client's tasks are scheduled, delivered and acked meanwhile."""
        queue = f"small-{time.monotonic_ns()}"
        for number in range(count):
            self.broker.one("schedule", queue, "--key", f"s{number}", "--in", "0s", "--timeout", DEADLINE, wait_s=WAIT_S)
            delivery = self.broker.one("consume", queue, "--count", 1, "--timeout", DEADLINE, wait_s=WAIT_S)
            self.assertEqual(delivery["attempt"], 1)


class Overload(Load):
    arguments = (*Load.arguments, "--index-lag-max", "2000", "--index-lag-hard", "20000")
    CLIENTS, COMMITS, OPS = 8, 400 if SLOW else 60, 100

    def flood(self, number, answers):
        """Sends commits as fast as possible, sixteen in flight; repeats busy ones under the same sequence."""
        with Rpc(self.broker.port) as rpc:
            producer = rpc.hello()
            waiting, bodies, next_sequence, under_way = [], {}, 1, {}
            while len(answers) < self.COMMITS:
                while len(under_way) < 16 and (waiting or next_sequence <= self.COMMITS):
                    sequence = waiting.pop(0) if waiting else next_sequence
                    if sequence == next_sequence:
                        next_sequence += 1
                        bodies[sequence] = [wire.schedule("flood", f"{number}-{sequence}-{i}", 3_600_000, b"x" * 100)
                                            for i in range(self.OPS)]
                    oldest = min([sequence, *under_way.values(), *waiting])
                    under_way[rpc.tell(wire.COMMIT, wire.commit(producer, sequence, bodies[sequence], oldest))] = sequence
                request_id, code, reply = rpc.hear(WAIT_S)
                sequence = under_way.pop(request_id)
                if code == wire.BUSY:
                    self.refusals += 1
                    waiting.append(sequence)
                else:
                    answers[sequence] = (code, [wire.number(result, 1) for result in wire.results(reply)])
                    bodies.pop(sequence)

    def test_ten_times_the_load_that_can_be_served(self):
        """F-37, CAP-1, CALM-1: eight clients flood a broker whose index may lag by only 2,000 records. Excess commits are
        refused as busy at once and have no effect; repeated later, each is accepted once. Acks and small commits are served
        meanwhile, and memory stays within its limit."""
        self.refusals = 0
        answers = [{} for _ in range(self.CLIENTS)]
        self.schedule_many("acks", 2000, delay_ms=0)
        consumer = self.broker.consume("acks", "--timeout", DEADLINE)
        threads = [threading.Thread(target=self.flood, args=(n, answers[n])) for n in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        self.small_work_goes_on()
        for thread in threads:
            thread.join(WAIT_S)
        for one in answers:
            self.assertEqual(sorted(one), list(range(1, self.COMMITS + 1)))
            for code, codes in one.values():
                self.assertEqual((code, set(codes)), (wire.OK, {wire.OK}), "a commit took effect twice, or was lost")
        print(f"# {self.refusals} refusals, {self.resident_mib()} MiB", flush=True)
        self.assertGreater(self.refusals, 0, "this was no overload")
        total = self.CLIENTS * self.COMMITS * self.OPS
        self.assertEqual(self.broker.wait_stats("flood", scheduled=total)["pending"], total)
        consumer.take(2000, WAIT_S)
        self.broker.wait_stats("acks", wait_s=WAIT_S, acked=2000, in_flight=0)
        self.assert_memory_bounded()
        self.broker.restart()
        self.assertEqual(self.broker.ready["recovered_tasks"], str(total))

    def test_the_library_waits_out_a_busy_broker(self):
        """F-37: four clients of libtarry send lines as fast as possible; the library repeats refused ones, so that none sees a
        refusal."""
        lines = "\n".join(json.dumps({"queue": "q", "delay_ms": 3_600_000}) for _ in range(CROWD // 10))
        streams = [self.broker.stream("schedule", "--from", "-", "--timeout", DEADLINE, stdin=True) for _ in range(4)]
        feeders = [threading.Thread(target=lambda s=stream: (s.send(lines), s.end_input())) for stream in streams]
        for feeder in feeders:
            feeder.start()
        for feeder, stream in zip(feeders, streams):
            feeder.join()
            answers = stream.take(CROWD // 10, WAIT_S)
            self.assertEqual({answer["result"] for answer in answers}, {"scheduled"})
            self.assertEqual(stream.wait(), 0)
        self.assertEqual(self.broker.queue_stats("q")["pending"], 4 * (CROWD // 10))
        self.assert_memory_bounded()


class Crowd(Load):
    def test_a_crowd_due_in_one_millisecond(self):
        """F-38: very many tasks are due in the same millisecond. Each is delivered once, none early, in order of ids; other
        clients are served meanwhile; memory stays within its limit. (A million tasks with TARRY_SLOW=1.)
        """
        due_ms = now_ms() + (120_000 if SLOW else 8_000)
        self.schedule_many("crowd", CROWD, due_ms=due_ms)
        self.assertEqual(self.broker.queue_stats("crowd")["scheduled"], CROWD)
        consumer = self.broker.consume("crowd", "--prefetch", 4096, "--count", CROWD, "--timeout", DEADLINE)
        first = consumer.next(WAIT_S)
        self.small_work_goes_on(3)
        got = [first, *consumer.take(CROWD - 1, WAIT_S)]
        ids = [int(delivery["id"]) for delivery in got]
        self.assertEqual(len(set(ids)), CROWD)
        self.assertEqual(ids, sorted(ids), "out of order")
        self.assertGreaterEqual(min(delivery["delivered_ms"] for delivery in got), due_ms)
        self.assertGreaterEqual(min(delivery["_arrived_ms"] for delivery in got), due_ms)
        self.broker.wait_stats("crowd", wait_s=WAIT_S, acked=CROWD, in_flight=0)
        self.assert_memory_bounded()

    def test_very_many_overdue_without_a_consumer_beside_a_busy_queue(self):
        """F-39, CALM-1: no consumer takes the overdue tasks; a busy queue beside them is served normally; a restart finds all of
        them; a later consumer gets them in order."""
        self.schedule_many("deserted", 2 * CROWD, due_ms=now_ms() - 1000)
        busy = self.broker.consume("busy", "--timeout", DEADLINE)
        for number in range(5):
            self.schedule_many("busy", 200, prefix=f"b{number}-", delay_ms=20)
            self.assertEqual(len({delivery["id"] for delivery in busy.take(200, WAIT_S)}), 200)
        self.broker.wait_stats("busy", acked=1000, in_flight=0)
        self.assert_memory_bounded()
        self.broker.restart()
        self.assertEqual(self.broker.ready["recovered_tasks"], str(2 * CROWD))
        got = self.broker.ok("consume", "deserted", "--count", 2000, wait_s=WAIT_S)
        ids = [int(delivery["id"]) for delivery in got]
        self.assertEqual(ids, sorted(ids))
        self.assertEqual({delivery["attempt"] for delivery in got}, {1})
        self.broker.wait_stats("deserted", acked=2000, in_flight=0)
        self.assert_memory_bounded()


    def test_overdue_tasks_in_very_many_queues(self):
        """F-39: no consumer, and each of very many queues has few tasks: memory is freed anyway, so that thousands of later
        tasks find space."""
        queues, each = 200, 2 * CROWD // 200
        lines = "\n".join(json.dumps({"queue": f"d{i % queues}", "delay_ms": 0}) for i in range(queues * each))
        answers = self.broker.tarry("schedule", "--from", "-", "--timeout", DEADLINE, wait_s=WAIT_S, stdin=lines)
        self.assertEqual((answers.status, answers.out.count('"scheduled"')), (0, queues * each), answers.err)
        got = self.broker.ok("consume", "d7", "--count", each, wait_s=WAIT_S)
        self.assertEqual(len({delivery["id"] for delivery in got}), each)
        self.small_work_goes_on(2)
        self.assert_memory_bounded()


class Poison(Load):
    def test_a_poison_task_harms_no_other(self):
        """F-40: a task with the highest priority that always fails is dead after max_attempts, with every attempt counted; the
        other tasks are done once each, without delay."""
        self.broker.ok("queue", "set", "q", "max_attempts=4", "backoff=fixed", "backoff_min=50ms", "backoff_jitter=0")
        self.broker.one("schedule", "q", "--key", "poison", "--in", "0s", "--priority", 9, "--body", "poison")
        for number in range(30):
            self.broker.one("schedule", "q", "--key", f"good{number}", "--in", "0s", "--body", "good")
        worker = self.broker.consume("q", "--exec", '[ "$TARRY_KEY" != poison ]', "--prefetch", 3)
        got = worker.take(34, WAIT_S)
        stats = self.broker.wait_stats("q", acked=30, dead=1, in_flight=0, ready=0, pending=0)
        self.assertEqual(stats["delivered"], 34)
        attempts = [delivery["attempt"] for delivery in got if delivery["key"] == "poison"]
        self.assertEqual(attempts, [1, 2, 3, 4])
        keys = [delivery["key"] for delivery in got if delivery["key"] != "poison"]
        self.assertEqual(sorted(keys), sorted(f"good{i}" for i in range(30)))
        self.assertTrue(worker.quiet_for(0.5), "a dead task came again")

    def test_a_queue_full_of_poison(self):
        """F-40: a thousand tasks that always fail, retried without a pause, beside a working queue."""
        self.broker.ok("queue", "set", "bad", "max_attempts=5", "backoff=fixed", "backoff_min=0ms", "backoff_jitter=0")
        self.schedule_many("bad", 1000, delay_ms=0)
        failing = self.broker.consume("bad", "--ack", "nack")
        self.small_work_goes_on(3)
        got = failing.take(5000, WAIT_S)
        self.broker.wait_stats("bad", dead=1000, in_flight=0, ready=0, pending=0)
        by_id = {}
        for delivery in got:
            by_id.setdefault(delivery["id"], []).append(delivery["attempt"])
        self.assertEqual(len(by_id), 1000)
        self.assertTrue(all(attempts == [1, 2, 3, 4, 5] for attempts in by_id.values()))


class Fair(Load):
    def test_one_queue_floods_another_with_a_consumer_of_its_own(self):
        """F-41: one queue has very many overdue tasks and a fast consumer; the few tasks of another queue are delivered long
        before the first queue is empty."""
        self.schedule_many("flood", CROWD, due_ms=now_ms() - 1000)
        flood = self.broker.consume("flood", "--prefetch", 1000, "--timeout", DEADLINE)
        flood.next(WAIT_S)
        calm = self.broker.consume("calm", "--timeout", DEADLINE)
        self.schedule_many("calm", 20, delay_ms=0)
        calm.take(20, WAIT_S)
        left = CROWD - self.broker.queue_stats("flood")["acked"]
        print(f"# {left} of the flood were left", flush=True)
        self.assertGreater(left, 0, "the calm queue waited for the flood to end")
        flood.take(CROWD - 1, WAIT_S)
        self.broker.wait_stats("flood", wait_s=WAIT_S, acked=CROWD, in_flight=0)

    def test_one_consumer_of_a_flooded_queue_and_of_a_calm_one(self):
        """F-41: tasks of the queue "calm" are delivered early, because the broker serves queues round robin."""
        self.schedule_many("flood", 20_000, due_ms=now_ms() - 1000)
        self.schedule_many("calm", 20, due_ms=now_ms() - 1000)
        both = self.broker.consume("flood", "calm", "--prefetch", 50, "--timeout", DEADLINE)
        got = both.take(20_020, 4 * WAIT_S)  # batches of fifty tasks, each with its own sync
        last = max(place for place, delivery in enumerate(got) if delivery["queue"] == "calm")
        print(f"# the last calm task was number {last}", flush=True)
        self.assertLess(last, 2_000, "the calm queue waited for the flood to end")


if __name__ == "__main__":
    harness.main()
