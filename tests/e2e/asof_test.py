"""asof_test.py: tarry audit --as-of: the state at an earlier time, as counts, as a list, and as a directory."""
import hashlib
import json
import os
import subprocess
import time

import harness


def fingerprint(directory):
    files = {}
    for root, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                files[path] = (hashlib.sha256(file.read()).hexdigest(), os.stat(path).st_mtime_ns)
    return files


class Cut(harness.Case):
    """The demo's story of orders, with an independent ledger: at some times the test asked the broker for its state, and
    stored the answers.
    """

    arguments = ("--segment-size", "1MiB")

    def setUp(self):
        super().setUp()
        self.ledger = []

    def tool(self, *arguments, status=0, **options):
        done = subprocess.run([harness.find_program("tarry"), *map(str, arguments), "--json"], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.assertEqual(done.returncode, status, f"{arguments}: {done}")
        return harness.Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def as_of(self, moment, *arguments, data=None, **options):
        """Runs the command, and checks that it leaves no temporary index, because that would contain keys of tasks."""
        temporary = self.path("temporary")
        os.makedirs(temporary, exist_ok=True)
        answer = self.tool("audit", "--data", data or self.broker.data, "--as-of", moment, *arguments,
                           env={**os.environ, "TMPDIR": temporary}, **options)
        self.assertEqual(os.listdir(temporary), [])
        return answer

    def note(self):
        """Stores the broker's current answers at a moment at which nothing changes."""
        states = ("--state", "pending,ready,in_flight,dead")
        while True:
            before = self.broker.queue_stats(None)
            lists = {queue["name"]: self.broker.ok("list", queue["name"], *states) for queue in self.broker.ok("queues")}
            stats = {queue["name"]: queue for queue in self.broker.one("stats")["queues"]}
            after = self.broker.queue_stats(None)
            if before["appended"] == after["appended"]:
                break  # no client wrote meanwhile, and no other task became due
        note = {"at_ms": before["now_ms"], "position": before["appended"], "digest": before["digest"], "lists": lists,
                "stats": stats}
        self.ledger.append(note)
        time.sleep(0.005)  # waits, so that the next record has another millisecond
        return note

    def story(self):
        broker = self.broker
        broker.one("queue", "set", "close-order", "max_attempts=1")
        for first in range(0, 40, 10):
            broker.schedule_all([{"queue": "close-order", "key": f"order-{number}", "delay_ms": 3_600_000, "body": f"body {number}",
                                  "attributes": {"n": str(number)}} for number in range(first, first + 10)])
            self.note()
        broker.ok("cancel", "--from", "-", stdin="".join(f'{{"queue":"close-order","key":"order-{number}"}}\n' for number in range(0, 40, 2)))  # paid
        self.note()
        for number in (1, 3, 5):
            broker.one("move", "close-order", f"order-{number}", "--in", "0s")
        self.note()
        self.held = broker.one("consume", "close-order", "--count", "1", "--ack", "none", "--lease", "1h")
        self.note()
        broker.one("consume", "close-order", "--count", "1", "--ack", "nack")
        self.note()
        broker.one("queue", "pause", "close-order")
        broker.one("schedule", "remind", "--key", "wall", "--at", "2030-01-01T00:00:00Z", "--priority", "3")
        self.note()
        broker.one("ack", self.held["id"], self.held["token"])
        broker.one("queue", "resume", "close-order")
        broker.one("consume", "close-order", "--count", "1")
        self.note()

    def compare(self, note, counts, lists):
        whole = counts[-1]
        self.assertEqual((whole["queue"], whole["digest"]), (None, note["digest"]))
        for queue in counts[:-1]:
            said = note["stats"][queue["queue"]]
            for field in ("pending", "ready", "in_flight", "dead", "paused", "scheduled", "cancelled", "delivered",
                          "acked", "retried", "expired", "dropped"):
                self.assertEqual(queue[field], said[field], f"{queue['queue']}.{field} at {note['at_ms']}")
            self.assertEqual(queue["expired_unrecorded"], 0)
        self.assertEqual(lists, [task for name in note["lists"] for task in note["lists"][name]])

    def test_what_it_says_is_what_the_ledger_outside_says(self):
        self.story()
        self.assertEqual(self.broker.stop(), 0)
        files = fingerprint(self.broker.data)
        states = ("--state", "pending,ready,in_flight,dead")
        for note in self.ledger:
            lists = self.as_of(note["at_ms"], "--list", *states).objects
            self.compare(note, self.as_of(note["at_ms"]).objects, lists)
            at = ("audit", "--data", self.broker.data, "--as-of-position", note["position"])
            self.assertEqual(self.tool(*at).objects[-1]["digest"], note["digest"])
        self.assertEqual(fingerprint(self.broker.data), files)
        last = self.ledger[-2]["at_ms"]
        self.assertEqual(self.as_of(last, "--list", "--state", "in_flight").one["key"], self.held["key"])
        self.assertEqual([task["key"] for task in self.as_of(last, "--list", "--queue", "close-order", "--prefix",
                                                             "order-1", "--limit", "2").objects], ["order-1", "order-11"])
        self.assertEqual([queue["queue"] for queue in self.as_of(last, "--queue", "remind").objects], ["remind", None])
        self.assertEqual(self.as_of(last, "--list", "--limit", "3").objects, self.as_of(last, "--list").objects[:3])

    def test_moments_that_have_no_answer_are_said_to_have_none(self):
        self.broker.one("schedule", "q", "--key", "a", "--in", "1h")
        self.assertEqual(self.broker.stop(), 0)
        first = self.tool("audit", "--data", self.broker.data).objects[0]
        self.assertIn("the broker had no data before", self.as_of(first["at_ms"] - 1, status=1).err)
        self.assertEqual(self.as_of(first["at_ms"]).objects[-1]["live"], 0)
        self.assertIn("is in the future", self.as_of(harness.now_ms() + 60_000, status=2).err)
        end = self.as_of(harness.now_ms()).objects[-1]
        self.assertEqual(end["live"], 1)
        positions = ("audit", "--data", self.broker.data, "--as-of-position")
        self.assertIn("the broker had no data before", self.tool(*positions, first["position"], status=1).err)
        self.assertIn(f"ends at position {end['position']}", self.tool(*positions, end["position"] + 1, status=1).err)
        self.assertEqual(self.tool(*positions, end["position"]).objects[-1]["digest"], end["digest"])
        put = next(fact for fact in self.tool("audit", "--data", self.broker.data).objects if fact["kind"] == "scheduled")
        self.assertEqual(self.tool(*positions, put["position"]).objects[-1]["live"], 0)  # state as of the frame before
        self.assertEqual(self.tool(*positions, int(put["position"]) + 1).objects[-1]["live"], 0)  # state as of a position inside of the frame
        for wrong in (("--from", "1"), ("--kind", "acked"), ("--prefix", "p"), ("--limit", "1"), ("--state", "ready"),
                      ("--as-of-position", "1"), ("--list", "--into", "x")):
            self.as_of(first["at_ms"], *wrong, status=2)
        self.tool("audit", "--data", self.broker.data, "--list", status=2)
        self.assertIn("the queue 'nobody' did not exist", self.as_of(harness.now_ms(), "--queue", "nobody", status=1).err)

    def test_ready_is_told_by_the_moment_and_not_by_the_last_record(self):
        due_ms = self.broker.one("schedule", "q", "--key", "a", "--in", "1500ms")["due_ms"]
        wall_ms = self.broker.one("schedule", "q", "--key", "w", "--due-ms", harness.now_ms() + 1500)["due_ms"]
        over_ms = self.broker.one("schedule", "q", "--key", "e", "--in", "1s", "--expires", "1s")["due_ms"] + 1000
        last_ms = self.broker.queue_stats(None)["now_ms"]
        while harness.now_ms() <= max(due_ms, wall_ms, over_ms, last_ms) + 100:
            time.sleep(0.01)
        self.broker.kill()
        state = lambda ms: {task["key"]: task["state"] for task in self.as_of(ms, "--list").objects}
        if last_ms < min(due_ms, wall_ms):  # on a slow machine, tasks were due before all of them were recorded
            self.assertEqual(state(last_ms), {"a": "pending", "w": "pending", "e": "pending"})
        self.assertEqual(state(due_ms - 1)["a"], "pending")
        self.assertEqual(state(due_ms)["a"], "ready")
        self.assertEqual(state(max(wall_ms, last_ms) + 50)["w"], "ready")  # the two clocks may differ by a millisecond
        if last_ms < over_ms:
            self.assertEqual(state(over_ms - 1)["e"], "ready")
        self.assertNotIn("e", state(over_ms))  # the task has expired by its `expires` time, although no record says so yet
        self.assertEqual(self.as_of(over_ms).objects[0]["expired_unrecorded"], 1)

    def test_a_directory_as_of_then(self):
        self.story()
        self.assertEqual(self.broker.stop(), 0)
        files = fingerprint(self.broker.data)
        for index, note in enumerate(self.ledger):
            if index not in (3, 6, 8, 9):
                continue
            then = self.path(f"then-{index}")
            made = self.as_of(note["at_ms"], "--into", then).one
            self.assertEqual((made["directory"], made["digest"], made["as_of_ms"]), (then, note["digest"], note["at_ms"]))
            self.tool("verify", then)
            before = fingerprint(then)
            inspector = self.make_broker("--inspect", data=then).start()
            self.assertEqual(int(inspector.ready["as_of_ms"]), note["at_ms"])
            for name, tasks in note["lists"].items():
                self.assertEqual(inspector.ok("list", name, "--state", "pending,ready,in_flight,dead"), tasks)
                said = inspector.wait_stats(name, ready=note["stats"][name]["ready"])
                self.assertEqual({field: said[field] for field in ("pending", "in_flight", "dead", "paused", "acked")},
                                 {field: note["stats"][name][field] for field in
                                  ("pending", "in_flight", "dead", "paused", "acked")})
            for task in note["lists"]["close-order"]:  # each task's payload was copied, too
                number = task["key"].removeprefix("order-")
                whole = inspector.one("get", "--id", task["id"])
                self.assertEqual((whole["body"], whole["attributes"]), (f"body {number}", {"n": number}))
            self.assertEqual(inspector.queue_stats(None)["digest"], note["digest"])
            self.assertEqual(inspector.stop(), 0)
            self.assertEqual(fingerprint(then), before)
        self.assertEqual(fingerprint(self.broker.data), files)

    def test_what_was_redacted_since_cannot_come_along(self):
        self.broker.one("schedule", "q", "--key", "a", "--in", "1h", "--body", "secret")
        position = self.broker.queue_stats(None)["appended"]
        self.broker.one("cancel", "q", "a")
        self.assertTrue(self.broker.one("redact", "q", "a", "--reason", "asked for")["erased"])
        self.assertEqual(self.broker.stop(), 0)
        at = ("audit", "--data", self.broker.data, "--as-of-position", position)
        self.assertEqual(self.tool(*at).objects[-1]["live"], 1)
        self.assertEqual(self.tool(*at, "--list").one["key"], "a")
        self.assertIn("has been redacted since", self.tool(*at, "--into", self.path("then"), status=1).err)
        self.assertFalse(os.path.exists(os.path.join(self.path("then"), "identity")))

    def test_a_broker_may_go_on_from_it_as_another_one(self):
        self.story()
        self.assertEqual(self.broker.stop(), 0)
        note = self.ledger[6]  # the stored state in which a task was in flight
        then = self.path("then")
        self.as_of(note["at_ms"], "--into", then)
        other = self.make_broker(data=then).start()
        self.broker.start()
        self.assertGreater(int(other.ready["epoch"]), int(self.broker.ready["epoch"]) + 1000)
        self.assertNotEqual(other.ready["member"], self.broker.ready["member"])
        ready = {task["key"] for task in note["lists"]["close-order"] if task["state"] == "ready"}
        self.assertEqual({line["key"] for line in other.ok("consume", "close-order", "--count", "2")}, ready)
        other.wait_stats("close-order", dead=1)  # the lease was the task's last attempt, and no consumer of the copy resumes it, so the task becomes a dead letter
        other.one("schedule", "close-order", "--key", "new", "--in", "1h")
        self.assertEqual(other.stop(), 0)
        self.tool("verify", then)
        other.start()
        self.assertEqual(other.one("get", "close-order", "new")["state"], "pending")

    def test_where_it_may_be_made(self):
        self.broker.one("schedule", "q", "--key", "a", "--in", "1h")
        self.assertEqual(self.broker.stop(), 0)
        now = harness.now_ms()
        full = self.path("full")
        os.mkdir(full)
        with open(os.path.join(full, "letter"), "w", encoding="utf-8") as file:
            file.write("dear")
        self.assertIn('contains "letter"', self.as_of(now, "--into", full, status=1).err)
        self.assertEqual(os.listdir(full), ["letter"])
        self.assertIn("cannot be created", self.as_of(now, "--into", self.path("no/where"), status=1).err)
        files = fingerprint(self.broker.data)
        for inside in ("", "/new", "/log", "/log/new"):
            self.assertIn("inside the data directory that the command reads", self.as_of(now, "--into", self.broker.data + inside, status=1).err)
        self.assertEqual(fingerprint(self.broker.data), files)
        empty = self.path("empty")
        os.mkdir(empty)
        self.as_of(now, "--into", empty)
        self.tool("verify", empty)
        self.assertIn('contains "identity"; --into needs a new or empty directory', self.as_of(now, "--into", empty, status=1).err)

    def test_a_log_that_lost_its_beginning(self):
        self.broker.stop()
        self.broker.arguments = ["--segment-size", "1MiB", "--retain-log-size", "2MiB"]
        self.broker.start()
        self.broker.ok("schedule", "--from", "-", stdin="".join(json.dumps(
            {"queue": "q", "key": f"k{number}", "delay_ms": 3_600_000, "body": "x" * 20_000}) + "\n" for number in range(300)))
        end = time.monotonic() + harness.ANSWER_WAIT_S
        while self.broker.queue_stats(None)["log_start"] == 4096 and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.broker.stop(), 0)
        half = next(fact["at_ms"] for fact in self.tool("audit", "--data", self.broker.data).objects
                    if fact.get("key") == "k150")
        archive = os.path.join(self.broker.data, "archive")
        self.assertIn(self.as_of(half).objects[-1]["live"], range(151, 301))  # the archive reaches back to the beginning
        then = self.path("half")
        self.as_of(half, "--into", then)
        self.tool("verify", then)
        os.rename(archive, self.path("elsewhere"))
        self.assertIn("no longer have the beginning of the history", self.as_of(half, status=1).err)
        self.assertEqual(self.as_of(half, "--archive", self.path("elsewhere")).objects[-1]["queue"], None)
        self.assertEqual(self.as_of(harness.now_ms()).objects[-1]["live"], 300)
        then = self.path("then")
        self.as_of(harness.now_ms(), "--into", then)
        self.tool("verify", then)
        inspector = self.make_broker("--inspect", data=then).start()
        for number in (0, 150, 299):  # the content comes from the index, or from the log
            self.assertEqual(inspector.one("get", "q", f"k{number}")["body"], "x" * 20_000)


if __name__ == "__main__":
    harness.main()
