"""look_test.py: the commands get, list, queues, stats."""
import json
import time

import harness
import http_client
from harness import Case, now_ms


class Get(Case):
    def test_states_of_a_life(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "1h", "--priority", 3, "--attr", "a=b", "--body", "x")
        task = self.broker.one("get", "q", "k")
        self.assertEqual((task["state"], task["priority"], task["body"], task["attributes"]), ("pending", 3, "x", {"a": "b"}))
        self.assertEqual(task["deliveries"], 0)
        self.broker.one("move", "q", "k", "--in", "0s")
        self.broker.wait_stats("q", ready=1)
        self.assertEqual(self.broker.one("get", "q", "k")["state"], "ready")
        held = self.broker.one("consume", "q", "--count", 1, "--ack", "none")
        task = self.broker.one("get", "--id", held["id"])
        self.assertEqual((task["state"], task["token"], task["deliveries"]), ("in_flight", held["token"], 1))
        self.broker.one("ack", held["id"], held["token"])
        self.assertEqual(self.broker.one("get", "q", "k")["state"], "acked")

    def test_attempts_of_a_task_that_has_ended_are_not_known(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s")
        task = self.broker.one("consume", "q", "--ack", "none", "--count", 1)
        self.assertEqual(self.broker.one("get", "q", "k")["attempt"], 1)
        self.assertIn("attempt     1", self.broker.words("get", "q", "k"))
        self.broker.one("ack", task["id"], task["token"])
        ended = self.broker.one("get", "q", "k")
        self.assertEqual((ended["state"], ended["deliveries"], ended.get("attempt")), ("acked", 1, None))
        self.assertNotIn("attempt", self.broker.words("get", "q", "k"))

    def test_unknown_is_status_one(self):
        self.broker.refused("get", "q", "k")
        self.broker.refused("get", "--id", "12345")

    def test_the_youngest_life_of_a_key_is_the_one_that_is_shown(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "1h")
        self.broker.one("cancel", "q", "k")
        second = self.broker.one("schedule", "q", "--key", "k", "--in", "2h")
        task = self.broker.one("get", "q", "k")
        self.assertEqual((task["id"], task["state"]), (second["id"], "pending"))


class List(Case):
    COUNT = 2500

    def setUp(self):
        super().setUp()
        self.base = now_ms() + 3_600_000
        lines = [{"queue": "q", "key": f"{'even' if i % 2 == 0 else 'odd'}-{i}", "due_ms": self.base + (i * 7919) % 100_000}
                 for i in range(self.COUNT)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(map(json.dumps, lines)))

    def test_in_order_of_due_time_paged_inside(self):
        tasks = self.broker.ok("list", "q")
        self.assertEqual(len(tasks), self.COUNT)
        self.assertEqual(len({t["id"] for t in tasks}), self.COUNT)
        due = [t["due_ms"] for t in tasks]
        self.assertEqual(due, sorted(due))

    def test_limit_prefix_and_range(self):
        self.assertEqual(len(self.broker.ok("list", "q", "--limit", 7)), 7)
        odd = self.broker.ok("list", "q", "--prefix", "odd-")
        self.assertEqual(len(odd), self.COUNT // 2)
        self.assertTrue(all(t["key"].startswith("odd-") for t in odd))
        some = self.broker.ok("list", "q", "--due-from", self.base + 1000, "--due-to", self.base + 2000)
        expected = sum(1 for i in range(self.COUNT) if 1000 <= (i * 7919) % 100_000 < 2000)
        self.assertEqual(len(some), expected)

    def test_by_state(self):
        self.broker.one("schedule", "q", "--key", "now", "--in", "0s")
        time.sleep(0.1)
        self.assertEqual([t["key"] for t in self.broker.ok("list", "q", "--state", "ready")], ["now"])
        held = self.broker.one("consume", "q", "--count", 1, "--ack", "none")
        self.assertEqual([t["id"] for t in self.broker.ok("list", "q", "--state", "in_flight")], [held["id"]])
        self.assertEqual(self.broker.ok("list", "q", "--state", "ready"), [])
        self.assertEqual(len(self.broker.ok("list", "q", "--state", "pending")), self.COUNT)
        self.broker.one("nack", held["id"], held["token"], "--dead", "because")
        self.assertEqual([t["key"] for t in self.broker.ok("list", "q", "--state", "dead")], ["now"])

    def test_cancelled_and_moved_tasks_are_listed_as_they_are_now_also_after_a_crash(self):
        first = self.broker.ok("list", "q", "--limit", 2)
        self.broker.one("cancel", "--id", first[0]["id"])
        self.broker.one("move", "--id", first[1]["id"], "--due-ms", self.base + 500_000)
        for _ in range(2):
            tasks = self.broker.ok("list", "q")
            self.assertEqual(len(tasks), self.COUNT - 1)
            self.assertEqual(tasks[-1]["id"], first[1]["id"])
            self.assertNotIn(first[0]["id"], {t["id"] for t in tasks})
            self.broker.restart()

    def test_an_empty_or_unknown_queue(self):
        answer = self.broker.tarry("list", "nowhere")
        self.assertEqual(answer.objects if answer.status == 0 else [], [])
        self.assertIn(answer.status, (0, 1))


def shape(value):
    """Returns the names and types in a value. Counts and times are left out, because they differ between two replies."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value).__name__


class Stats(Case):
    FIELDS = {"name", "pending", "ready", "in_flight", "dead", "paused", "scheduled", "cancelled", "delivered", "acked",
              "retried", "expired", "oldest_overdue_ms", "lateness_ms"}

    def test_it_is_what_v1_answers(self):
        self.broker.one("schedule", "a", "--in", "1h")
        self.broker.one("schedule", "b", "--in", "0s")
        stats = self.broker.one("stats")
        self.assertEqual([queue["name"] for queue in stats["queues"]], ["a", "b"])
        for queue in stats["queues"]:
            self.assertEqual(self.FIELDS - set(queue), set())
            self.assertEqual({"p50", "p99", "p999", "max"} - set(queue["lateness_ms"]), set())
        http = http_client.Http(self.broker.port)
        self.addCleanup(http.close)
        for path, said in (("/v1/stats", stats), ("/v1/queues", {"queues": self.broker.ok("queues")}), ("/v1/calendar", self.broker.one("calendar")),
                           ("/v1/queues/a/tasks", {"tasks": self.broker.ok("list", "a"), "next": None}),
                           (f"/v1/tasks/{self.broker.ok('list', 'a')[0]['id']}", self.broker.one("get", "--id", self.broker.ok("list", "a")[0]["id"]))):
            self.assertEqual(shape(http.ask("GET", path)[1]), shape(said), path)

    def test_counts_follow_the_story(self):
        for key in ("paid", "unpaid", "later"):
            self.broker.one("schedule", "q", "--key", key, "--in", "1h" if key == "later" else "300ms")
        self.broker.one("cancel", "q", "paid")
        delivery = self.broker.one("consume", "q", "--count", 1)
        self.assertEqual(delivery["key"], "unpaid")
        stats = self.broker.wait_stats("q", acked=1)
        self.assertEqual({k: stats[k] for k in ("pending", "ready", "in_flight", "dead", "scheduled", "cancelled",
                                                "delivered", "acked", "retried", "expired", "paused")},
                         {"pending": 1, "ready": 0, "in_flight": 0, "dead": 0, "scheduled": 3, "cancelled": 1,
                          "delivered": 1, "acked": 1, "retried": 0, "expired": 0, "paused": False})
        self.assertGreaterEqual(stats["lateness_ms"]["max"], 0)

    def test_counts_of_live_tasks_survive_a_crash(self):
        for number in range(20):
            self.broker.one("schedule", "q", "--key", f"k{number}", "--in", "1h")
        self.broker.one("cancel", "q", "k3")
        self.broker.restart()
        self.assertEqual(self.broker.ready["recovered_tasks"], "19")
        self.assertEqual(self.broker.queue_stats("q")["pending"], 19)

    def test_oldest_overdue(self):
        self.broker.one("schedule", "q", "--in", "0s")
        time.sleep(0.5)
        self.assertGreaterEqual(self.broker.queue_stats("q")["oldest_overdue_ms"], 500)

    def test_what_was_due_before_it_was_scheduled_is_overdue_since_it_is_there(self):
        self.broker.one("schedule", "q", "--at", "2001-01-01T00:00:00Z")
        self.assertLess(self.broker.queue_stats("q")["oldest_overdue_ms"], 60_000)

    def test_for_people_it_is_a_table(self):
        self.broker.one("schedule", "q", "--in", "1h")
        import subprocess
        command = [c for c in self.broker.command("stats") if c != "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=20)
        self.assertIn("q", done.stdout)
        self.assertNotIn('{"', done.stdout)


class Queues(Case):
    def test_queues_come_into_being_on_first_use(self):
        self.assertEqual(self.broker.ok("queues"), [])
        self.broker.one("schedule", "orders", "--in", "1h")
        item = self.broker.one("queues")
        self.assertEqual(item.get("queue", item.get("name")), "orders")

    def test_a_policy_is_set_field_by_field_and_survives_a_crash(self):
        self.broker.ok("queue", "set", "orders", "max_attempts=5", "lease=1500ms")
        self.broker.ok("queue", "set", "orders", "backoff=fixed")
        self.broker.restart()
        text = json.dumps(self.broker.one("queues"))
        for part in ('"max_attempts": 5', '"lease_ms": 1500', '"backoff": "fixed"'):
            self.assertIn(part, text)

    def test_queue_has_list_show_and_create(self):
        self.assertEqual(self.broker.one("queue", "create", "q", "lease=1m")["result"], "created")
        self.assertEqual(self.broker.one("queue", "create", "plain")["result"], "created")
        self.assertEqual(self.broker.tarry("queue", "create", "q").status, 1)
        self.assertEqual(self.broker.ok("queue", "list"), self.broker.ok("queues"))
        self.assertEqual(self.broker.one("queue", "show", "q")["policy"]["lease_ms"], 60_000)
        self.assertRegex(self.broker.words("queue", "show", "q"), r"(?m)^lease +1m$")
        self.assertEqual(self.broker.tarry("queue", "show", "none").status, 1)
        self.assertIn("needs a subcommand: list, show, create, set, pause, resume, purge, delete", self.broker.tarry("queue").err)
        self.assertIn("the subcommands list, show", self.broker.tarry("queue", "frobnicate").err)

    def test_numbers_for_people(self):
        words = self.broker.words("stats")
        self.assertIn(", all durable", words)
        self.assertNotIn("−0", words)

    def test_nonsense_policies_are_refused(self):
        for setting in ("max_attempts=many", "colour=blue", "backoff_jitter=101", "lease=0s", "backoff=sideways", "nonsense"):
            answer = self.broker.tarry("queue", "set", "orders", setting)
            self.assertIn(answer.status, (1, 2), setting)
            self.assertTrue(answer.err or answer.out)

    def test_pause_and_resume(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "200ms")
        self.broker.ok("queue", "pause", "q")
        self.assertTrue(self.broker.queue_stats("q")["paused"])
        consumer = self.broker.consume("q")
        self.assertTrue(consumer.quiet_for(0.8), "delivered while paused")
        self.broker.restart()
        self.assertTrue(consumer.quiet_for(1.5), "the restart forgot the pause")
        self.broker.ok("queue", "resume", "q")
        self.assertEqual(consumer.next()["key"], "k")

    def test_a_timed_pause_ends_by_itself(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s")
        before = now_ms()
        self.broker.ok("queue", "pause", "q", "--for", "1s")
        delivery = self.broker.one("consume", "q", "--count", 1)
        self.assertGreaterEqual(delivery["delivered_ms"], before + 1000)

    def test_purge_ends_tasks_as_cancelled(self):
        lines = [json.dumps({"queue": "q", "key": f"k{i}", "delay_ms": 3_600_000 if i % 2 else 0}) for i in range(3000)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines))
        self.broker.one("schedule", "other", "--key", "o", "--in", "1h")
        self.assertEqual(self.broker.one("queue", "purge", "q")["count"], 3000)
        self.broker.wait_stats("q", pending=0, ready=0, in_flight=0)
        self.assertEqual(self.broker.ok("list", "q"), [])
        self.assertEqual(self.broker.one("get", "q", "k7")["state"], "cancelled")
        self.assertEqual(self.broker.one("cancel", "q", "k8")["result"], "already_cancelled")
        self.assertEqual(self.broker.queue_stats("other")["pending"], 1)
        self.broker.restart()
        self.assertEqual(self.broker.ready["recovered_tasks"], "1")

    def test_purge_by_state_spares_the_others(self):
        lines = [json.dumps({"queue": "q", "key": f"k{i}", "delay_ms": 3_600_000 if i % 2 else 0}) for i in range(20)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines))
        self.broker.wait_stats("q", ready=10)
        self.broker.ok("queue", "purge", "q", "--state", "ready")
        self.broker.wait_stats("q", pending=10, ready=0)
        self.broker.ok("queue", "purge", "q", "--state", "pending")
        self.broker.wait_stats("q", pending=0, ready=0)

    def test_purge_leaves_what_is_in_flight(self):
        self.broker.one("schedule", "q", "--key", "held", "--in", "0s")
        held = self.broker.one("consume", "q", "--count", 1, "--ack", "none")
        self.broker.one("schedule", "q", "--key", "pending", "--in", "1h")
        self.broker.ok("queue", "purge", "q")
        self.assertEqual(self.broker.one("ack", held["id"], held["token"])["result"], "acked")

    def test_purge_of_the_dead(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s")
        held = self.broker.one("consume", "q", "--count", 1, "--ack", "none")
        self.broker.one("nack", held["id"], held["token"], "--dead", "x")
        self.broker.one("schedule", "q", "--key", "pending", "--in", "1h")
        self.broker.ok("queue", "purge", "q", "--state", "dead")
        self.broker.wait_stats("q", dead=0, pending=1)


if __name__ == "__main__":
    harness.main(watches_locks=True)
