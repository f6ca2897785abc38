"""herds_test.py: limits of deliveries (HERD-1) and serial names (SERIAL-1) hold over all consumers and protocols, and after
kill -9.
"""
import json
import time

import harness
from harness import Case
from principals import page


class Herds(Case):
    def fill(self, count):
        lines = [{"queue": "mail", "key": f"k{i}", "in": "0s"} for i in range(count)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(map(json.dumps, lines)))

    def leases(self):
        """Returns the times in ms of all leases, from the log."""
        return sorted(entry["at_ms"] for entry in self.broker.ok("audit", "--kind", "leased"))

    def test_no_window_has_more_than_the_rate_across_a_crash(self):
        self.broker.ok("queue", "set", "mail", "rate=20/s", "burst=4")
        self.fill(60)
        first, second = self.broker.consume("mail"), self.broker.consume("mail")
        first.take(10)
        second.take(10)
        self.broker.restart()
        self.broker.wait_stats("mail", acked=60)
        times = self.leases()
        self.assertGreaterEqual(len(times), 60)
        for i, since in enumerate(times):
            for k in range(i, len(times)):  # one more than 4 + 20/s: the log's times are whole milliseconds
                self.assertLessEqual(k - i + 1, 5 + (times[k] - since) * 20 / 1000, (i, k))

    def test_max_in_flight_counts_all_consumers_and_leases_over_http(self):
        self.broker.ok("queue", "set", "mail", "max_in_flight=3")
        self.fill(10)
        one, two = self.broker.consume("mail", "--ack", "none"), self.broker.consume("mail", "--ack", "none")
        self.broker.wait_stats("mail", in_flight=3)
        self.assertTrue(one.quiet_for(0.5) or two.quiet_for(0.5))
        self.assertEqual(self.broker.queue_stats("mail")["in_flight"], 3)
        self.broker.ok("queue", "set", "mail", "max_in_flight=5")
        self.broker.wait_stats("mail", in_flight=5)
        self.assertEqual(self.broker.one("queues")["policy"]["max_in_flight"], 5)

    def fill_serial(self, names, each):
        lines = [{"queue": "mail", "key": f"{name}-{i}", "in": "0s", "serial": name, "body": f"{name} {i}"} for i in range(each) for name in names]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(map(json.dumps, lines)))

    def test_of_one_serial_name_one_task_is_in_flight_in_order_over_kill_9(self):
        names, each = ("ann", "bob", "köln"), 200
        self.fill_serial(names, each)
        for _ in range(3):
            self.broker.consume("mail", "--prefetch", "20")
        for share in (1, 2, 3):
            while self.broker.queue_stats("mail")["acked"] < 100 * share:
                pass  # no pause is necessary: a query takes a millisecond, and the consumers still have 300 tasks
            self.broker.restart()
        self.broker.wait_stats("mail", acked=len(names) * each)
        in_flight, order = {}, {name: [] for name in names}
        for entry in self.broker.ok("audit"):  # the records in the order of the log
            name = entry.get("serial")
            if entry["kind"] == "leased":
                self.assertNotIn(name, in_flight, entry)
                in_flight[name] = entry["id"]
            elif name and entry["kind"] not in ("scheduled", "extended"):
                self.assertEqual(in_flight.pop(name), entry["id"], entry)
                if entry["kind"] == "acked":
                    order[name].append(entry["id"])
        for ids in order.values():
            self.assertEqual(ids, sorted(ids, key=int))
            self.assertEqual(len(ids), each)

    def test_a_busy_name_stops_no_other_and_people_see_what_waits(self):
        self.fill_serial(["ann"], 500)
        one = self.broker.consume("mail", "--ack", "none", "--prefetch", "100")
        one.take(1)
        self.assertEqual(self.broker.wait_stats("mail", ready=499)["parked"], 499)
        self.fill_serial(["bob"], 2)
        self.assertEqual(one.take(1)[0]["key"], "bob-0")
        self.assertEqual(self.broker.one("get", "mail", "ann-7")["serial"], "ann")
        self.assertRegex(self.broker.words("get", "mail", "ann-7"), r"(?m)^serial +ann$")
        self.assertIn('tarry_queue_parked{queue="mail"} 500', page(self.broker.port, "/metrics")[1])
        self.broker.ok("cancel", "mail", "ann-3")
        self.broker.ok("move", "mail", "ann-4", "--in", "1h")
        self.broker.wait_stats("mail", parked=498)

    def test_a_serial_name_that_cannot_be_is_refused(self):
        for name, word in (("x" * 256, "serial is longer than 255 bytes"), ("a\u0001", "control character")):
            answer = self.broker.tarry("schedule", "--from", "-", stdin=json.dumps({"queue": "q", "in": "1h", "serial": name}))
            self.assertEqual(answer.status, 1, name)
            self.assertIn(word, json.dumps(answer.objects))
        self.assertIn("--serial: the name is empty", self.broker.tarry("schedule", "q", "--in", "1h", "--serial", "").err)

    # TIME-1
    def test_a_spread_is_never_early_and_stays_over_kill_9(self):
        self.broker.ok("queue", "set", "mail", "spread=1h")
        at_ms = int(time.time() + 7200) * 1000
        lines = [{"queue": "mail", "key": f"k{i}", "due_ms": at_ms} for i in range(200)]
        answers = self.broker.ok("schedule", "--from", "-", stdin="\n".join(map(json.dumps, lines)))
        dues = {answer["key"]: answer["due_ms"] for answer in answers}
        self.assertTrue(all(at_ms <= due < at_ms + 3_600_000 for due in dues.values()))
        self.assertGreater(len(set(dues.values())), 190)
        self.assertLess(at_ms + 1_200_000, sum(dues.values()) / 200)
        self.assertGreater(at_ms + 2_400_000, sum(dues.values()) / 200)
        self.broker.restart()
        listed = self.broker.ok("list", "mail", "--limit", "200")
        self.assertEqual({task["key"]: task["due_ms"] for task in listed if "key" in task}, dues)
        self.assertTrue(all(task["due_ms"] - task.get("spread_ms", 0) == at_ms for task in listed if "key" in task))
        moved = self.broker.one("move", "mail", "k7", "--in", "10h")
        self.assertEqual(self.broker.one("get", "mail", "k7")["due_ms"], moved["due_ms"])
        self.assertRegex(self.broker.words("get", "mail", "k7"), r"(?m)^spread +.* later than asked for$")
        self.assertIn("spread over 1h", self.broker.words("queues"))
        self.broker.ok("queue", "set", "mail", "spread=0s")
        self.broker.ok("move", "mail", "k7", "--due-ms", str(at_ms))
        self.assertEqual(self.broker.one("get", "mail", "k7")["due_ms"], at_ms)
        self.assertIn("spread_ms is out of range (0 to 24 hours)", self.broker.tarry("queue", "set", "mail", "spread=25h").err)

    def test_tasks_that_fell_due_in_an_outage_expire_die_or_are_spread(self):
        policies = {"old": "overdue_expire=300ms", "dead": "overdue_dead=300ms", "slow": "overdue_spread=10h", "as-ever": "burst=0"}
        for queue, policy in policies.items():
            self.broker.ok("queue", "set", queue, policy)
            self.broker.ok("schedule", queue, "--key", "before", "--in", "0s")  # this task is due before the outage, so the policies for the outage do not affect it
        lines = [{"queue": queue, "key": f"k{i}", "in": "2s"} for queue in policies for i in range(3)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(map(json.dumps, lines)))
        self.broker.kill()
        time.sleep(3.5)  # the outage
        self.broker.start()
        streams = {queue: self.broker.consume(queue) for queue in policies}
        self.broker.wait_stats("as-ever", acked=4)
        self.broker.wait_stats("old", acked=1, expired=3)
        self.broker.wait_stats("dead", acked=1, dead=3)
        self.broker.wait_stats("slow", acked=1, pending=3, ready=0)
        self.assertEqual(streams["old"].take(1)[0]["key"], "before")
        self.assertIn("overdue after an outage", self.broker.one("get", "dead", "k1")["reason"])
        outages = [entry["overdue"] for entry in self.broker.ok("audit", "--kind", "queue") if entry.get("overdue")]
        self.assertEqual(len(outages), 3)  # one record for each of the three queues with an `overdue_…` policy
        self.assertGreater(outages[0][0]["until_steady_ms"] - outages[0][0]["after_steady_ms"], 1500)
        moved = [entry for entry in self.broker.ok("audit", "--kind", "moved")]
        self.assertEqual({entry["reason"] for entry in moved}, {"overdue after an outage: spread"})
        self.broker.restart()
        self.broker.wait_stats("slow", pending=3, ready=0)  # the second start does not apply the policy to the same tasks again
        self.assertIn("after an outage: spread over 10h", self.broker.words("audit", "--kind", "queue"))
        self.assertIn("outage judged, from", self.broker.words("audit", "--kind", "queue"))
        self.assertRegex(self.broker.words("queue", "show", "old"), r"(?m)^overdue +expire if later than 300ms$")

    def test_what_cannot_be_is_refused_and_nothing_is_stored(self):
        for setting, word in (("rate=fast", "rate: 'fast' is not"), ("rate=5/fortnight", "such as 1000/s"), ("rate=10000/s burst=1", "burst is too small"), ("rate=2000000/s", "0 to 1000000"), ("rate=1/10ms", "1 second to 24 hours"),
                              ("max_in_flight=-1", "whole number"), ("fast=1", "overdue_spread, spread, push, filter, and no others"), ("max_in_flight=300000", "0 to 262144"), ("rate=1/s rate_period=2s", "rate_period")):
            answer = self.broker.tarry("queue", "set", "mail", *setting.split())
            self.assertIn(answer.status, (1, 2), setting)
            self.assertIn(word, answer.err, setting)
        self.assertEqual([queue["policy"]["rate"] for queue in self.broker.ok("queues")], [0] * len(self.broker.ok("queues")))

    def test_people_see_the_limits(self):
        self.broker.ok("queue", "set", "mail", "rate=600/min", "burst=20", "max_in_flight=7")
        self.assertIn("600/min (burst 20), 7 in flight", self.broker.words("queues"))
        self.assertRegex(self.broker.words("queue", "show", "mail"), r"(?m)^limits +600/min \(burst 20\), 7 in flight$")
        self.assertIn("rate 600/min, burst 20, at most 7 in flight", self.broker.words("audit", "--kind", "queue"))


if __name__ == "__main__":
    harness.main()
