"""calendar_test.py: the calendar: tool, HTTP and requests return exact counts at once, after all kinds of changes, and only
counts that the client may see. tests/property/index_test.c compares the counts with a count of all rows after random
operations."""
import subprocess

import harness
from harness import Case, now_ms
from http_client import Http
from principals import Access
from tokens import row
from wire import CALENDAR, COMMIT, DENIED, INVALID, OK, commit, decode, number, schedule

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


def calendar_of(objects):
    """Parses the output of `tarry calendar --json`: ([(from, count)], {queue: count}, object)."""
    said, = objects
    spans = [(said["from_ms"] + i * said["step_ms"], count) for i, count in enumerate(said["counts"])]
    return spans, {queue["name"]: queue["count"] for queue in said.get("queues", ())}, said


class Counts(Case):
    def setUp(self):
        super().setUp()
        self.base = (now_ms() // DAY_MS + 2) * DAY_MS

    def ask(self, *arguments, **options):
        return calendar_of(self.broker.ok("calendar", *arguments, **options))

    def due(self):
        """Returns the due times of all pending tasks, by queue, from `tarry list`."""
        return {queue: sorted(task["due_ms"] for task in self.broker.ok("list", queue, "--state", "pending,ready")) for queue in ("q", "r")}

    def agree(self):
        due = self.due()
        for queue in (None, "q", "r"):
            times = sorted(due["q"] + due["r"]) if queue is None else due[queue]
            for from_ms, step, step_ms, spans in ((self.base, "1m", MINUTE_MS, 300), (self.base - 2 * DAY_MS, "1d", DAY_MS, 366),
                                                  (self.base - 7 * MINUTE_MS, "25m", 25 * MINUTE_MS, 100)):
                with self.subTest(queue=queue, step=step):
                    chosen = [queue] if queue else []
                    counts, queues, last = self.ask(*chosen, "--from", from_ms, "--step", step, "--spans", spans, "--by-queue")
                    self.assertEqual([count for _, count in counts],
                                     [sum(from_ms + i * step_ms <= t < from_ms + (i + 1) * step_ms for t in times) for i in range(spans)])
                    end_ms = from_ms + spans * step_ms
                    self.assertEqual((last["before"], last["after"]), (sum(t < from_ms for t in times), sum(t >= end_ms for t in times)))
                    within = {name: sum(from_ms <= t < end_ms for t in due[name]) for name in ("q", "r") if queue in (None, name)}
                    self.assertEqual(queues, {name: count for name, count in within.items() if count})

    def fill(self):
        self.broker.schedule_all([{"queue": "qr"[i % 2], "key": f"k{i}", "due_ms": self.base + (i * 7919) % 200 * MINUTE_MS // 2 + i}
                                  for i in range(60)])
        self.broker.schedule_all([{"queue": "q", "key": f"herd{i}", "due_ms": self.base + DAY_MS} for i in range(40)])
        self.broker.schedule_all([{"queue": "q", "key": f"late{i}", "delay_ms": 0} for i in range(5)])
        self.broker.one("schedule", "r", "--key", "far", "--due-ms", self.base + 700 * DAY_MS)

    def test_what_happens_to_tasks_happens_to_the_counts_at_once(self):
        self.fill()
        self.agree()
        self.broker.one("move", "q", "k0", "--due-ms", self.base + 3 * DAY_MS)
        self.broker.one("move", "q", "k2", "--due-ms", self.base + 1)
        self.broker.one("cancel", "r", "k1")
        self.broker.one("queue", "purge", "r", "--state", "ready")
        held = self.broker.ok("consume", "q", "--ack", "none", "--count", 3)
        self.agree()  # a leased task does not count as due, so the counts still agree
        self.broker.one("ack", held[0]["id"], held[0]["token"])
        self.broker.one("nack", held[1]["id"], held[1]["token"], "--delay", "2h")
        self.broker.one("nack", held[2]["id"], held[2]["token"], "--dead", "no")
        self.agree()
        counts, _, last = self.ask("q", "--from", self.base, "--step", "1m", "--spans", "2000")
        self.assertEqual(max(counts, key=lambda span: span[1]), (self.base + DAY_MS, 40))  # this is the span with the many tasks of the same due time
        self.assertGreater(int(last["position"]), 0)

    def test_a_killed_broker_and_one_of_before_know_them(self):
        self.fill()
        self.broker.kill()
        self.broker.start()
        self.agree()
        self.broker.stop()
        subprocess.run([harness.find_program("forge_index"), "calendar", self.broker.data], check=True)
        inspector = self.make_broker("--inspect", data=self.broker.data).start()
        self.assertIn("without a calendar, and --inspect does not build one", inspector.refused("calendar").err)
        inspector.stop()
        self.broker.start()  # the index builds its calendar again; until it has finished, the command says so
        harness.wait_until("all is counted", lambda: self.broker.tarry("calendar").status == 0, 60)
        self.agree()
        self.broker.stop()
        inspector = self.make_broker("--inspect", data=self.broker.data).start()
        self.broker = inspector
        self.agree()

    def test_words(self):
        self.fill()
        said = self.broker.words("calendar", "q", "--from", self.base, "--step", "1d", "--spans", "3", "--by-queue")
        self.assertIn("DUE FROM", said)
        self.assertRegex(said, r"(?m)^earlier +5 ")
        self.assertRegex(said, r"(?m)^\d{4}-\d\d-\d\dT\S+ +40 +█")
        self.assertRegex(said, r"(?m)^QUEUE +TASKS")
        self.assertEqual(len([line for line in said.splitlines() if line.startswith("20")]), 3)
        for wrong in (("--step", "90s"), ("--step", "0s"), ("--spans", "0"), ("--spans", "10081"), ("--from", "x")):
            self.broker.refused("calendar", *wrong, status=2)
        self.assertIn("the queue does not exist", self.broker.refused("calendar", "nope").err)

    def test_over_http(self):
        self.fill()
        http = Http(self.broker.port)
        status, answer = http.ask("GET", f"/v1/calendar?from={self.base}&step=1h&spans=48&by_queue=true")
        self.assertEqual(status, 200, answer)
        self.assertEqual((answer["from_ms"], answer["step_ms"], len(answer["counts"])), (self.base, HOUR_MS, 48))
        self.assertEqual((answer["counts"][24], answer["before"], answer["after"]), (40, 5, 1))
        self.assertEqual(sum(answer["counts"]), sum(queue["count"] for queue in answer["queues"]))
        self.assertEqual({queue["name"] for queue in answer["queues"]}, {"q", "r"})
        self.assertLessEqual(answer["at_ms"], answer["now_ms"])
        status, answer = http.ask("GET", f"/v1/calendar?queue=r&from={self.base + 59_999}&spans=1&step=700d")
        self.assertEqual(status, 400)
        status, answer = http.ask("GET", f"/v1/calendar?queue=r&from={self.base + 59_999}&spans=2&step=366d")
        self.assertEqual((answer["from_ms"], answer["counts"], "queues" in answer), (self.base, [30, 1], False))
        for wrong, code in (("spans=0", 400), ("spans=10081", 400), ("step=1s", 400), ("step=x", 400), ("queue=nope", 404), ("colour=red", 400)):
            self.assertEqual(http.ask("GET", f"/v1/calendar?{wrong}")[0], code, wrong)
        status, answer = http.ask("GET", "/v1/calendar")  # without arguments, the calendar starts at the current hour
        self.assertEqual((len(answer["counts"]), answer["from_ms"] % HOUR_MS), (24, 0))
        self.assertGreaterEqual(answer["counts"][0] + answer["before"], 5)
        http.close()


class Seen(Access):
    """The principal `shop` may see only queues that begin with `orders`."""
    rows = (row("all", "produce,read"), row("shop", "read", "queue=orders.", "queue=mail"), row("none", "produce"))

    def ask(self, name, *fields):
        return self.of(name).ask(CALENDAR, [(2, 0), (3, HOUR_MS), (4, 1), *fields])

    def test_only_ones_own_queues_are_counted(self):
        rpc = self.of("all")
        rpc.ask(COMMIT, commit(rpc.hello(), 1, [schedule(name, delay_ms=HOUR_MS) for name in ("orders.new", "spies.x", "spies.y", "orders.old", "mail")]))
        named = lambda reply: sorted(decode(queue)[1][-1].decode() for queue in decode(reply).get(4, []))  # noqa: E731
        code, reply = self.ask("all", (5, 1))
        self.assertEqual((code, number(decode(reply), 3)), (OK, 5))  # a task due after the requested spans is not counted
        code, reply = self.ask("shop", (5, 1))
        self.assertEqual((code, number(decode(reply), 3)), (OK, 3))
        wide = [(2, 0), (3, 366 * DAY_MS), (4, 100), (5, 1)]
        _, reply = self.of("shop").ask(CALENDAR, wide)
        self.assertEqual(named(reply), ["mail", "orders.new", "orders.old"])
        _, reply = self.of("all").ask(CALENDAR, wide)
        self.assertEqual(len(named(reply)), 5)
        code, _ = self.ask("shop", (1, "spies.x"))
        self.assertEqual(code, DENIED)
        code, reply = self.ask("shop", (1, "orders.new"))
        self.assertEqual((code, number(decode(reply), 3)), (OK, 1))
        self.assertEqual(self.ask("none")[0], DENIED)

    def test_what_makes_no_sense_is_refused(self):
        rpc = self.of("all")
        for fields in ([(3, HOUR_MS)], [(4, 1)], [(2, 1), (3, HOUR_MS), (4, 1)], [(3, 1), (4, 1)], [(3, HOUR_MS), (4, 10_081)],
                       [(3, 367 * DAY_MS), (4, 1)], [(2, 2**64 - 2**64 % MINUTE_MS - MINUTE_MS), (3, HOUR_MS), (4, 1)],
                       [(2, 0), (3, 366 * DAY_MS), (4, 10_080)], [(1, "a\n"), (3, HOUR_MS), (4, 1)]):
            with self.subTest(fields=fields):
                self.assertEqual(rpc.ask(CALENDAR, fields)[0], INVALID, rpc.sentence)


if __name__ == "__main__":
    harness.main()
