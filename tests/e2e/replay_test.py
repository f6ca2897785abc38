"""replay_test.py: `tarry replay` repeats recorded requests, at another broker or (--dry-run) in the core alone. Both end in
the recorded state.
"""
import atexit
import collections
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import harness
import wire

ENDINGS = {"acked": "acked", "cancelled": "cancelled", "withdrawn": "cancelled", "replaced": "cancelled",
           "purged": "cancelled", "expired": "expired", "dropped": "dropped"}
ORDERS = 300 if harness.SANITIZED else 800
CALLS = 20


def records(data):
    """Returns the records of a directory whose broker is stopped."""
    done = subprocess.run([harness.find_program("tarry"), "audit", "--data", data, "--json"], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def outcomes(data, queues=None):
    """Returns how the tasks of each (queue, key) ended, in the order of scheduling."""
    tasks = {}
    for fact in records(data):
        if "id" not in fact or "scheduled_ms" not in fact or (queues and fact["queue"] not in queues):
            continue
        task = tasks.setdefault(fact["id"], [fact["queue"], fact.get("key"), "live"])
        if fact["kind"] in ENDINGS:
            task[2] = ENDINGS[fact["kind"]]
        elif fact["kind"] in ("dead", "requeued"):
            task[2] = "dead" if fact["kind"] == "dead" else "live"
    ended = collections.defaultdict(list)
    for queue, key, outcome in tasks.values():
        ended[queue, key].append(outcome)
    return ended


def new_directory():
    directory = tempfile.mkdtemp(prefix="tarry-replay-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@functools.cache
def day_of_orders():
    """Runs the demonstration with orders (order_timeout). Returns the directory of its broker."""
    broker = harness.Broker(os.path.join(new_directory(), "data")).start()
    subprocess.run([harness.find_program("order_timeout"), "--broker", broker.url, "--count", str(ORDERS), "--speed", "43200"],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=100, check=True)
    assert broker.stop() == 0
    return broker.data


class Worker:
    """Consumes a queue in a thread. `verdict` returns for each delivery the arguments with which the tool settles it, or
    nothing.
    """

    def __init__(self, broker, queue, verdict, *options):
        self.broker, self.verdict = broker, verdict
        self.stream = broker.stream("consume", queue, "--ack", "none", *options)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while (task := self.stream.next(60)) is not None:
            if words := self.verdict(task):
                self.broker.tarry(words[0], task["id"], task["token"], *words[1:])

    def end(self):
        self.stream.kill()
        self.thread.join()


def call_verdict(task):
    """Chooses by the key's last digit how a delivery is settled: it fails until the task is dead; it succeeds at the third
    attempt; it is released once; it is dead at once; or it is acked.
    """
    if not task["key"].startswith("call-"):
        return ["ack"]
    kind = int(task["key"].split("-")[1]) % 5
    if kind == 0 or (kind == 1 and task["attempt"] < 3):
        return ["nack"] if kind == 0 else ["nack", "--delay", "30ms"]
    if kind == 2 and task["deliveries"] == 1:
        return ["release"]
    return ["nack", "--dead", "no such number"] if kind == 3 else ["ack"]


def tell_everything(broker):
    """Causes every kind of event that can happen to a task."""
    broker.one("queue", "set", "calls", "max_attempts=4", "backoff=fixed", "backoff_min=20ms", "backoff_jitter=20")
    broker.one("queue", "set", "hung", "lease=200ms", "max_attempts=2")
    lines = [{"queue": "calls", "key": f"call-{i}", "delay_ms": 5 + 7 * i, "body": "x" * i} for i in range(CALLS)]
    lines += [{"queue": "hung", "key": f"hung-{i}", "delay_ms": 5 + i} for i in range(4)]
    lines += [{"queue": "stale", "key": f"stale-{i}", "delay_ms": 30, "expires_ms": 40} for i in range(6)]
    lines += [{"queue": "purged", "key": f"purged-{i}", "delay_ms": 60000} for i in range(6)]
    lines += [{"queue": "dated", "key": f"dated-{i}", "due_ms": harness.now_ms() + 50 * i, "priority": i} for i in range(6)]
    lines += [{"queue": "calls", "key": f"twice-{i}", "delay_ms": 60000} for i in range(3)]
    lines += [{"queue": "calls", "key": f"twice-{i}", "delay_ms": 20, "on_conflict": "replace"} for i in range(3)]
    lines += [{"queue": "keyless", "delay_ms": 10, "body": str(i)} for i in range(3)]
    broker.ok("schedule", "--from", "-", stdin="\n".join(map(json.dumps, lines)))
    workers = [Worker(broker, "calls", call_verdict, "--prefetch", "3"), Worker(broker, "hung", lambda task: None),
               Worker(broker, "dated", lambda task: ["ack"], "--lease", "7s"), Worker(broker, "keyless", lambda task: ["ack"])]
    for i in range(3):
        broker.one("move", "purged", f"purged-{i}", "--in", "30s")
    broker.one("cancel", "purged", "purged-0")
    broker.one("queue", "purge", "purged")
    broker.one("queue", "pause", "calls", "--for", "200ms")
    time.sleep(0.1)  # let tasks expire; the next command names one of the expired tasks
    broker.tarry("cancel", "stale", "stale-0")
    workers.append(Worker(broker, "stale", lambda task: None))
    broker.one("schedule", "lost", "--key", "lost-0", "--in", "5ms")
    lost = broker.stream("consume", "lost", "--ack", "none")
    lost.take(1)
    lost.kill()  # its lease's session ends with it
    workers.append(Worker(broker, "lost", lambda task: ["ack"]))
    broker.wait_stats("hung", dead=4, wait_s=60)
    broker.wait_stats("calls", dead=8, acked=15, wait_s=60)
    broker.wait_stats("lost", acked=1)
    broker.wait_stats("stale", expired=6)
    broker.one("dead", "drop", "calls", "call-3")
    broker.one("dead", "requeue", "hung", "--all")
    return workers


@functools.cache
def everything():
    """Makes the directory of a broker with every kind of record, including a kill -9 with leased tasks."""
    broker = harness.Broker(os.path.join(new_directory(), "data")).start()
    workers = tell_everything(broker)
    broker.one("schedule", "held", "--key", "held-0", "--in", "1ms")
    workers.append(Worker(broker, "held", lambda task: None))
    broker.wait_stats("held", in_flight=1)
    broker.restart()
    broker.one("schedule", "calls", "--key", "after", "--in", "5ms")
    broker.wait_stats("calls", acked=16)
    broker.wait_stats("hung", dead=4)
    for worker in workers:
        worker.end()
    assert broker.stop() == 0
    return broker.data


class Target(harness.Case):
    """Replays into a target broker."""

    def replay(self, data, *options, status=0, **others):
        others.setdefault("wait_s", 100)
        return self.broker.refused("replay", "--data", data, "--into", self.broker.url, *options, status=status, **others)

    def assert_alike(self, data, **others):
        """Checks that each key's tasks ended in the target as in the log."""
        if self.broker.is_running():
            self.assertEqual(self.broker.stop(), 0)
        self.assertEqual(outcomes(self.broker.data, **others), outcomes(data, **others))


class Replayed(Target):
    def test_the_order_story_ends_alike(self):
        data = day_of_orders()
        told = self.replay(data, "--settle", "--speed", "max").one
        self.assertEqual((told["result"], told["refused"], told["scheduled"]), ("replayed", 0, ORDERS))
        self.assert_alike(data)
        kinds = {outcome for ended in outcomes(data).values() for outcome in ended}
        self.assertEqual(kinds, {"acked", "cancelled"})

    def durable(self, rpc):
        return wire.number(wire.decode(rpc.ask(wire.PAIR, [])[1]), 17)

    def test_a_target_that_is_killed_meanwhile_ends_alike(self):
        """ONCE-1: replay repeats the requests that had no reply, and none takes effect twice."""
        data = day_of_orders()
        replay = self.broker.stream("replay", "--data", data, "--into", self.broker.url, "--settle", "--speed", "max")
        for part in (1, 2):
            with wire.Rpc(self.broker.port) as rpc:  # query the durable position over an own connection, because starting the tool could take as long as the replay
                while self.durable(rpc) < part * 20000 * ORDERS // 800 and replay.process.poll() is None:
                    time.sleep(0.01)
            self.assertIsNone(replay.process.poll(), "the replay was over before the target was killed")
            self.broker.restart()
        told = replay.next(100)
        self.assertEqual(replay.wait(), 0, replay.errors)
        self.assertEqual((told["result"], told["refused"]), ("replayed", 0))
        self.assert_alike(data)

    def test_everything_ends_alike(self):
        data = everything()
        told = self.replay(data, "--settle", "--policies", "--speed", "max").one
        self.assertEqual(told["refused"], 0)
        self.assert_alike(data)
        mine, theirs = records(data), records(self.broker.data)
        for kind in ("moved", "dropped", "requeued", "released"):
            least = sum(fact["kind"] == kind for fact in mine)
            self.assertGreaterEqual(sum(fact["kind"] == kind for fact in theirs), least, kind)
        reasons = {fact["reason"] for fact in theirs if fact["kind"] == "dead"}
        self.assertIn("no such number", reasons)

    def test_at_its_own_speed_it_ends_alike(self):
        data = everything()
        first, last = records(data)[0]["at_ms"], records(data)[-1]["at_ms"]
        told = self.replay(data, "--settle", "--policies", "--speed", "2").one
        self.assertGreaterEqual(told["took_ms"], (last - first) // 2 - 100)
        self.assertEqual(told["refused"], 0)
        self.assert_alike(data)

    def test_stopped_and_gone_on_with(self):
        data = day_of_orders()
        replay = self.broker.stream("replay", "--data", data, "--into", self.broker.url, "--settle", "--speed", "0.2")
        harness.wait_until("it has begun", lambda: self.broker.queue_stats("close-order"), harness.ANSWER_WAIT_S)
        replay.signal(2)
        told = replay.next()
        self.assertEqual(replay.wait(), 1)
        self.assertEqual(told["result"], "interrupted")
        self.assertIn(f"--from-position {told['from_position']}", "".join(replay.errors))
        self.replay(data, "--settle", "--speed", "max", "--from-position", told["from_position"])
        self.assert_alike(data)


class Filtered(Target):
    """Replays without settling, with selections of queues, periods and names, and with changed due times."""

    def record(self, tell):
        source = self.make_broker(data=self.path("source"))
        source.start()
        told = tell(source)
        self.assertEqual(source.stop(), 0)
        return source.data, told

    def tell(self, source):
        at_ms = harness.now_ms() + 3_600_000
        source.one("schedule", "a", "--key", "delayed", "--in", "2h", "--body", "payload", "--attr", "n=v", "--priority", "7")
        source.one("schedule", "a", "--key", "dated", "--due-ms", at_ms)
        time.sleep(0.3)
        middle_ms = harness.now_ms()
        source.one("schedule", "b", "--key", "late", "--in", "1h")
        source.one("cancel", "a", "dated")
        return at_ms, middle_ms

    def listed(self, queue):
        return {task["key"]: task for task in self.broker.ok("list", queue)}

    def test_due_times_are_shifted(self):
        data, _ = self.record(self.tell)
        mine = {fact["key"]: fact for fact in records(data) if fact["kind"] == "scheduled"}
        begin_ms = next(fact["at_ms"] for fact in records(data) if "id" in fact and "scheduled_ms" in fact)
        before_ms = harness.now_ms()
        self.replay(data, "--speed", "max", "--from", begin_ms)
        after_ms = harness.now_ms()
        task = self.broker.one("get", "a", "delayed")
        self.assertEqual((task["body"], task["attributes"], task["priority"]), ("payload", {"n": "v"}, 7))
        for name, queue in (("delayed", "a"), ("late", "b")):
            shift_ms = mine[name]["due_ms"] - begin_ms
            due_ms = self.listed(queue)[name]["due_ms"]
            self.assertTrue(before_ms + shift_ms - 5 <= due_ms <= after_ms + shift_ms + 5, (name, due_ms - before_ms - shift_ms))
        self.assertNotIn("dated", self.listed("a"))

    def test_ten_times_as_fast_is_due_ten_times_as_soon(self):
        data, _ = self.record(self.tell)
        self.replay(data, "--speed", "10")
        for queue, name, delay_ms in (("a", "delayed", 7_200_000), ("b", "late", 3_600_000)):
            task = self.listed(queue)[name]
            self.assertIn(task["due_ms"] - task["scheduled_ms"] - delay_ms // 10, (0, 1))  # the replayed delay is the recorded delay divided by the speed, rounded up

    def test_queues_names_and_times(self):
        data, (_, middle_ms) = self.record(self.tell)
        self.replay(data, "--speed", "max", "--queue", "a", "--map", "a=c", "--to", middle_ms)
        self.assertEqual(set(self.listed("c")), {"delayed", "dated"})
        self.assertEqual([queue["name"] for queue in self.broker.one("stats")["queues"]], ["c"])
        told = self.replay(data, "--speed", "max", "--from", middle_ms).one
        self.assertEqual(set(self.listed("b")), {"late"})
        self.assertEqual((told["scheduled"], told["cancelled"], told["from_before"]), (1, 0, 1))

    def test_an_atomic_commit_stays_one(self):
        def tell(source):
            with wire.Rpc(source.port) as rpc:
                producer = rpc.hello()
                for sequence, (names, atomic) in enumerate((("xy", 1), ("vw", 0)), 1):
                    ops = [wire.schedule("q", name, 60000) for name in names]
                    code, reply = rpc.ask(wire.COMMIT, [*wire.commit(producer, sequence, ops), (4, atomic)])
                    self.assertEqual((code, len(wire.results(reply))), (wire.OK, 2))

        data, _ = self.record(tell)
        self.broker.one("schedule", "q", "--key", "x", "--in", "1h")
        self.broker.one("schedule", "q", "--key", "v", "--in", "1h")
        told = self.replay(data, "--speed", "max", status=1).one
        self.assertEqual(told["refused"], 3)
        self.assertEqual(set(self.listed("q")), {"x", "v", "w"}, "x was taken, so y must not come either")

    def test_what_was_redacted_is_left_out_and_counted(self):
        def tell(source):
            source.one("schedule", "a", "--key", "kept", "--in", "1h", "--body", "payload")
            source.one("schedule", "a", "--key", "gone", "--in", "1h", "--body", "secret")
            source.one("cancel", "a", "gone")
            source.one("redact", "a", "gone", "--reason", "asked for")

        data, _ = self.record(tell)
        answer = self.replay(data, "--speed", "max")
        told = answer.one
        self.assertEqual((told["scheduled"], told["cancelled"], told["content_missing"]), (1, 0, 1))
        self.assertIn("1 tasks were skipped, because their contents were redacted", answer.err)
        self.assertEqual(self.broker.one("get", "a", "kept")["body"], "payload")
        told = self.replay(data, "--speed", "max", "--missing", "empty", "--map", "a=b").one
        self.assertEqual((told["scheduled"], told["cancelled"], told["content_missing"]), (2, 1, 1))
        self.assertEqual(self.broker.one("get", "b", "gone")["state"], "cancelled")

    def test_who_waits_for_a_delivery_can_be_stopped_and_gone_on_with(self):
        def tell(source):
            source.one("schedule", "a", "--key", "k", "--in", "0s")
            source.ok("consume", "a", "--count", "1")

        data, _ = self.record(tell)
        self.broker.one("schedule", "a", "--key", "other", "--in", "1h")
        self.broker.one("queue", "pause", "a")  # the target's queue is paused, so that it delivers no task
        replay = self.broker.stream("replay", "--data", data, "--into", self.broker.url, "--settle", "--speed", "max")
        self.broker.wait_stats("a", ready=1)
        replay.signal(2)
        told = replay.next()
        self.assertEqual((replay.wait(), told["result"]), (1, "interrupted"))
        self.broker.one("queue", "resume", "a")
        self.replay(data, "--settle", "--speed", "max", "--from-position", told["from_position"])
        self.broker.wait_stats("a", ready=0, acked=1)

    def test_a_lease_that_was_lost_there_is_waited_for_and_settled_anew(self):
        def tell(source):
            held = []
            for queue in ("a", "b"):
                source.one("schedule", queue, "--key", "k", "--in", "0s")
                held.append(source.one("consume", queue, "--count", 1, "--ack", "none"))
            for task in reversed(held):
                source.one("ack", task["id"], task["token"])

        data, _ = self.record(tell)
        for queue in ("a", "b"):
            self.broker.one("schedule", queue, "--key", "other", "--in", "1h")
        self.broker.one("queue", "pause", "b")  # so that the replay waits with a's lease
        replay = self.broker.stream("replay", "--data", data, "--into", self.broker.url, "--settle", "--speed", "max")
        self.broker.wait_stats("a", in_flight=1)
        task = self.broker.one("get", "a", "k")
        self.broker.one("queue", "pause", "a")  # the target's queue is paused, so that it does not deliver the task again before the replayed ack was refused
        self.broker.one("release", task["id"], task["token"])
        self.broker.one("queue", "resume", "b")
        self.broker.wait_stats("b", acked=1)
        self.broker.one("queue", "resume", "a")
        told = replay.next(100)
        self.assertEqual((replay.wait(), told["result"], told["refused"]), (0, "replayed", 0), replay.errors)
        self.assertEqual(self.broker.one("get", "a", "k")["state"], "acked")

    def test_what_differs_is_said(self):
        data, _ = self.record(self.tell)
        self.broker.one("schedule", "b", "--key", "late", "--in", "1h")
        answer = self.replay(data, "--speed", "max", status=1)
        self.assertEqual(answer.one["refused"], 1)
        self.assertIn("schedule b late: ", answer.err)


def in_ms(words):
    """Parses a duration as the tool prints it: 1s463ms."""
    units = {"ms": 1, "s": 1000, "m": 60_000}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)(ms|s|m)", words))


class DryRun(harness.Case):
    autostart = False

    def dry(self, data, *options, status=0):
        command = [harness.find_program("tarry"), "replay", "--data", data, "--dry-run", "--json", *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        told = [json.loads(line) for line in done.stdout.splitlines()]
        return {line.get("queue"): line for line in told}, done.stderr

    def test_the_same_again_is_the_same(self):
        for data in (everything(), day_of_orders()):
            told, _ = self.dry(data)
            total = told.pop(None)
            moved = {name: queue["deliveries_moved"] for name, queue in told.items()}
            self.assertEqual((total["result"], total["changed"], total["refused"], total["impossible"]), ("same", 0, 0, 0), moved)
            for queue in told.values():
                self.assertEqual({k: v for k, v in queue["recorded"].items() if not k.startswith("lateness")},
                                 {k: v for k, v in queue["dry_run"].items() if not k.startswith("lateness")})
            ended = collections.Counter(outcome for each in outcomes(data).values() for outcome in each)
            for outcome, count in ended.items():
                self.assertEqual(sum(queue["dry_run"][outcome] for queue in told.values()), count, outcome)

    def late_departures(self):
        """Returns how many leases the broker made ahead of their task's due time and took back after the due time, without
        sending the delivery.
        """
        return sum(fact["kind"] == "unsent" and fact["at_ms"] > fact["due_ms"] for fact in records(self.broker.data))

    def stand_still(self, rpc, producer, story):
        """Schedules 240 tasks; ten fall due every 25 ms. Stops the broker after about half of them, when it has leased some
        tasks ahead of time. Sends a cancel for every second task. Continues the broker when all tasks are due.
        """
        keys = [f"{producer}-{story}-{n}" for n in range(240)]
        scheduled = [wire.schedule("q", key, 100 + 25 * (n // 10)) for n, key in enumerate(keys)]
        cancelled = [[(2, [(1, [(2, "q"), (3, key)])])] for key in keys[1::2]]
        self.assertEqual(rpc.ask(wire.COMMIT, wire.commit(producer, 2 * story + 1, scheduled, 2 * story + 1), wait_s=30)[0], wire.OK)
        time.sleep(0.3)
        self.broker.process.send_signal(signal.SIGSTOP)
        rpc.tell(wire.COMMIT, wire.commit(producer, 2 * story + 2, cancelled, 2 * story + 2))
        time.sleep(0.5)
        self.broker.process.send_signal(signal.SIGCONT)
        self.assertEqual(rpc.hear(30)[1], wire.OK)

    def test_leases_ahead_of_time_that_left_late_are_the_same(self):
        """A stopped broker sends the deliveries of leases that it made ahead of time only when it continues. If the lease is
        kept, the log does not show when its delivery was sent.
        """
        for _ in range(20):  # repeated, because on a busy machine the broker may be stopped too late
            self.broker.start()
            consumers = [self.broker.consume("q", "--prefetch", "100") for _ in range(2)]
            with wire.Rpc(self.broker.port) as rpc:
                producer = rpc.hello()
                for story in range(3):
                    self.stand_still(rpc, producer, story)
            self.broker.wait_stats("q", pending=0, ready=0, in_flight=0)
            for consumer in consumers:
                consumer.kill()
            self.assertEqual(self.broker.stop(), 0)
            if self.late_departures() >= 10:
                break
        self.assertGreaterEqual(self.late_departures(), 10)
        told, _ = self.dry(self.broker.data)
        self.assertEqual((told[None]["result"], told[None]["changed"], told[None]["deliveries_moved"]), ("same", 0, 0))

    def test_words_say_what_json_says(self):
        told, _ = self.dry(everything())
        command = [harness.find_program("tarry"), "replay", "--data", everything(), "--dry-run"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100, check=True)
        self.assertIn(f"no differences: all {told[None]['tasks']} tasks end as they did\n", done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()]
        for queue, side in ((queue, side) for queue in told if queue for side in ("recorded", "dry_run")):
            cells = next(row[-11:] for row in rows if "_".join(row[:-11]) == f"{queue}_{side}")
            outcomes_told = [told[queue][side][name] for name in ("acked", "cancelled", "expired", "dropped", "dead", "live", "refused", "deliveries")]
            self.assertEqual([int(cell) for cell in cells[:8]], outcomes_told, done.stdout)
            if side == "recorded":
                late_ms = [told[queue][side][f"lateness_{name}_ms"] for name in ("p50", "p99", "max")]
                self.assertEqual([in_ms(cell) for cell in cells[8:]], late_ms, done.stdout)

    def test_a_commit_may_cancel_what_it_has_scheduled(self):
        self.broker.start()
        with wire.Rpc(self.broker.port) as rpc:
            cancel = [(2, [(1, [(2, "q"), (3, "k")])])]
            for atomic in (0, 1):
                ops = [wire.schedule("q", "k", 3_600_000), cancel]
                code, reply = rpc.ask(wire.COMMIT, [*wire.commit(rpc.hello(), 1, ops), (4, atomic)])
                self.assertEqual((code, [wire.number(result, 1) for result in wire.results(reply)]), (wire.OK, [wire.OK] * 2))
        self.assertEqual(self.broker.stop(), 0)
        told, _ = self.dry(self.broker.data)
        self.assertEqual((told[None]["result"], told[None]["impossible"], told["q"]["dry_run"]["cancelled"]), ("same", 0, 2))

    def test_fewer_attempts(self):
        """With at most two attempts, tasks that died after four attempts die after two, and no task succeeds at the third."""
        told, _ = self.dry(everything(), "--set", "calls.max_attempts=2")
        calls = told["calls"]
        each = CALLS // 5
        self.assertEqual(told[None]["changed"], 2 * each)
        self.assertEqual(calls["dry_run"]["dead"], calls["recorded"]["dead"] + each)
        self.assertEqual(calls["dry_run"]["acked"], calls["recorded"]["acked"] - each)
        self.assertEqual(calls["dry_run"]["deliveries"], calls["recorded"]["deliveries"] - 2 * each - each)
        self.assertEqual(told[None]["deliveries_assumed"], 0)
        for example in calls["examples"]:
            lucky = int(example["key"].split("-")[1]) % 5 == 1
            self.assertEqual((example["recorded"], example["recorded_deliveries"]), ("acked", 3) if lucky else ("dead", 4))
            self.assertEqual((example["dry_run"], example["dry_run_deliveries"]), ("dead", 2))

    def test_what_could_not_be_asked_for_is_counted(self):
        """In the recording, an operator requeued a dead letter. The dry run has one more attempt, in which the task is done.
        So it has no dead letter to requeue, and must count the requeue.
        """
        self.broker.start()
        for gap_s in (0.5, 2, 10):  # longer than the task's work takes, even on a busy machine
            self.broker.one("queue", "set", f"gap-{gap_s}", "max_attempts=1", "backoff=fixed", "backoff_min=20ms", "backoff_jitter=0")
            self.broker.one("schedule", f"gap-{gap_s}", "--key", "k", "--in", "0s")
            taken = self.broker.one("consume", f"gap-{gap_s}", "--count", 1, "--ack", "none")
            self.broker.one("nack", taken["id"], taken["token"])
            time.sleep(gap_s)
            self.broker.one("dead", "requeue", f"gap-{gap_s}", "k")
            self.broker.one("consume", f"gap-{gap_s}", "--count", 1)
            *_, leased, acked = [fact["at_ms"] for fact in self.broker.ok("history", f"gap-{gap_s}", "k")]
            if acked - leased < 1000 * gap_s / 2:
                break
        self.assertEqual(self.broker.stop(), 0)
        told, _ = self.dry(self.broker.data, "--set", f"gap-{gap_s}.max_attempts=2")
        self.assertEqual((told[None]["impossible"], told[None]["refused"], told[None]["changed"]), (1, 0, 0))

    def test_more_attempts_are_assumed_to_fail_alike(self):
        told, _ = self.dry(everything(), "--set", "calls.max_attempts=5", "--set", "calls.backoff_min_ms=1",
                           "--set", "calls.backoff_jitter=0")
        example = {each["key"]: each for each in told["calls"]["examples"]}["call-0"]
        self.assertEqual((example["recorded"], example["recorded_deliveries"]), ("dead", 4))
        self.assertEqual(example["dry_run_deliveries"], 5)
        self.assertIn(example["dry_run"], ("dead", "live"), "the record may end before the last nack would come")
        self.assertGreater(told[None]["deliveries_assumed"], 0)

    def test_a_shorter_lease_is_lost(self):
        """Consumers never settle the tasks of queue "hung". In a dry run with a shorter lease, each lease ends earlier, so the
        next delivery is earlier.
        """
        told, _ = self.dry(everything(), "--set", "hung.lease_ms=100")
        self.assertEqual(told["hung"]["dry_run"]["dead"], told["hung"]["recorded"]["dead"])
        self.assertGreater(told["hung"]["deliveries_moved"], 0)

    def test_bad_input(self):
        for words in (["--set", "calls.max_attempts"], ["--set", "max_attempts=3"], ["--set", "calls.attempts=3"],
                      ["--set", "calls.max_attempts=-1"], ["--set", "calls.lease_ms=1"], ["--set", "nobody.max_attempts=3"],
                      ["--set", "calls.backoff_jitter=101"], ["--set", "calls.max_attempts=1", "--set", "calls.max_attempts=2"],
                      ["--speed", "2"], ["--settle"], ["--map", "a=b"], ["--into", "ws://127.0.0.1:1"]):
            self.dry(everything(), *words, status=2)
        _, err = self.dry(everything(), "--set", "calls.backoff_max_ms=1", status=1)
        self.assertIn("backoff_max must not be shorter than backoff_min", err)


class Wrong(harness.Case):
    def test_usage(self):
        data = day_of_orders()
        for wrong in ([], ["--data", data], ["--data", data, "--into", self.broker.url, "--speed", "0"],
                      ["--data", data, "--into", self.broker.url, "--speed", "fast"],
                      ["--data", data, "--into", self.broker.url, "--map", "a"],
                      ["--data", data, "--into", self.broker.url, "--map", "a=b", "--map", "a=c"],
                      ["--data", data, "--into", self.broker.url, "--queue", ""],
                      ["--data", data, "--into", self.broker.url, "--missing", "invent"],
                      ["--data", data, "--into", self.broker.url, "--from", "20", "--to", "10"],
                      ["--data", data, "--into", self.broker.url, "--set", "a.lease_ms=100"],
                      ["--data", data, "--into", "http://127.0.0.1:1"]):
            answer = self.broker.tarry("replay", *wrong)
            self.assertEqual(answer.status, 2, (wrong, answer))

    def test_nobody_there(self):
        answer = self.broker.refused("replay", "--data", day_of_orders(), "--into", "ws://127.0.0.1:1", "--timeout", "300ms",
                                     status=3)
        self.assertIn("no broker answered at ws://127.0.0.1:1", answer.err)

    def test_its_own_directory_is_locked(self):
        answer = self.broker.refused("replay", "--data", self.broker.data, "--into", self.broker.url)
        self.assertIn("locked", answer.err)

    def test_a_copy_of_its_own_directory_is_refused(self):
        self.assertEqual(self.broker.stop(), 0)
        copy = self.path("copy")
        shutil.copytree(self.broker.data, copy)
        self.broker.start()
        answer = self.broker.refused("replay", "--data", copy, "--into", self.broker.url)
        self.assertIn("is never replayed into its own broker", answer.err)


if __name__ == "__main__":
    harness.main()
