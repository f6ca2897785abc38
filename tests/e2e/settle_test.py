"""settle_test.py: manual ack, nack, extend and release; fencing; attempts and backoff; dead letters."""
import time

import harness
from harness import Case, now_ms
from http_client import Http


class Settle(Case):
    def setUp(self):
        super().setUp()
        self.task = self.broker.one("schedule", "q", "--key", "k", "--in", "0s", "--body", "b")

    def take(self, *arguments):
        return self.broker.one("consume", "q", "--count", 1, "--ack", "none", *arguments)

    def test_ack_ends_the_task(self):
        held = self.take()
        answer = self.broker.one("ack", held["id"], held["token"])
        self.assertEqual(answer["result"], "acked")
        task = self.broker.one("get", "q", "k")
        self.assertEqual(task["state"], "acked")
        self.assertGreaterEqual(task["ended_ms"], held["delivered_ms"])

    def test_a_repeated_ack_is_told_that_it_was_acked(self):
        held = self.take()
        self.broker.one("ack", held["id"], held["token"])
        self.assertIn("acked", self.broker.tarry("ack", held["id"], held["token"]).out)

    def test_nack_with_a_delay(self):
        held = self.take()
        before_ms = now_ms()
        self.assertEqual(self.broker.one("nack", held["id"], held["token"], "--delay", "400ms")["result"], "nacked")
        again = self.take()
        self.assertEqual((again["id"], again["attempt"], again["deliveries"]), (held["id"], 2, 2))
        self.assertGreaterEqual(again["delivered_ms"], before_ms + 400)

    def test_nack_to_the_dead_letters_with_a_reason(self):
        held = self.take()
        self.broker.one("nack", held["id"], held["token"], "--dead", "no such address")
        task = self.broker.one("get", "q", "k")
        self.assertEqual((task["state"], task["reason"]), ("dead", "no such address"))

    def test_extend_keeps_the_lease(self):
        held = self.take("--lease", "8s")
        answer = self.broker.one("extend", held["id"], held["token"], "--lease", "1m")
        self.assertEqual(answer["result"], "extended")
        self.assertEqual(self.broker.ok("consume", "q", "--for", "8500ms"), [])
        self.assertEqual(self.broker.one("ack", held["id"], held["token"])["result"], "acked")

    def test_release_costs_no_attempt(self):
        held = self.take()
        self.assertEqual(self.broker.one("release", held["id"], held["token"])["result"], "released")
        again = self.take()
        self.assertEqual((again["attempt"], again["deliveries"]), (1, 2))

    def test_a_stale_token_is_refused_and_changes_nothing(self):  # FENCE-1
        old = self.take("--lease", "300ms")
        new = self.take("--lease", "1m")
        self.assertGreater(new["attempt"], old["attempt"])
        for verb in ("ack", "nack", "extend", "release"):
            answer = self.broker.refused(verb, old["id"], old["token"])
            self.assertIn("stale_token", answer.out, verb)
        self.assertEqual(self.broker.one("ack", new["id"], new["token"])["result"], "acked")

    def test_tokens_grow_across_a_restart(self):  # FENCE-1
        def number(token):
            return tuple(int(part) for part in token.split("-"))
        old = self.take("--lease", "300ms")
        self.broker.restart()
        new = self.take()
        self.assertGreater(number(new["token"]), number(old["token"]))
        self.assertIn("stale_token", self.broker.refused("ack", old["id"], old["token"]).out)

    def test_nonsense_tokens_and_ids(self):
        held = self.take()
        self.assertIn(self.broker.tarry("ack", held["id"], "nonsense").status, (1, 2))
        self.assertIn(self.broker.tarry("ack", "x", held["token"]).status, (1, 2))
        self.assertEqual(self.broker.tarry("ack", held["id"], "4000000000-18446744073709551615").status, 1)
        self.assertEqual(self.broker.tarry("ack", "123456", held["token"]).status, 1)
        self.assertEqual(self.broker.one("ack", held["id"], held["token"])["result"], "acked")


class Attempts(Case):
    def test_fixed_backoff_then_the_dead_letters(self):  # F-40
        self.broker.ok("queue", "set", "q", "backoff=fixed", "backoff_min=200ms", "backoff_jitter=0", "max_attempts=3")
        self.broker.one("schedule", "q", "--key", "poison", "--in", "0s", "--body", "b")
        got = self.broker.ok("consume", "q", "--ack", "nack", "--count", 3)
        self.assertEqual([d["attempt"] for d in got], [1, 2, 3])
        for before, after in zip(got, got[1:]):
            self.assertGreaterEqual(after["delivered_ms"] - before["delivered_ms"], 200)
        self.assertEqual(self.broker.one("get", "q", "poison")["state"], "dead")
        self.assertEqual(self.broker.queue_stats("q")["dead"], 1)

    def test_exponential_backoff_doubles_up_to_its_limit(self):  # F-40
        self.broker.ok("queue", "set", "q", "backoff=exponential", "backoff_min=100ms", "backoff_max=300ms",
                       "backoff_jitter=0")
        self.broker.one("schedule", "q", "--in", "0s")
        got = self.broker.ok("consume", "q", "--ack", "nack", "--count", 5)
        gaps = [b["delivered_ms"] - a["delivered_ms"] for a, b in zip(got, got[1:])]
        for gap, at_least in zip(gaps, (100, 200, 300, 300)):
            self.assertGreaterEqual(gap, at_least)
        told = [fact for fact in self.broker.ok("history", "--id", got[0]["id"]) if fact["kind"] == "retried"]
        for fact, delay_ms in zip(told, (100, 200, 300, 300, 300), strict=True):
            self.assertIn(fact["due_ms"] - fact["at_ms"], (delay_ms, delay_ms + 1))  # due_ms is rounded up

    def test_a_lost_lease_counts_as_an_attempt_without_backoff(self):
        self.broker.ok("queue", "set", "q", "backoff_min=60000ms", "backoff=fixed", "max_attempts=2")
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s")
        self.broker.one("consume", "q", "--ack", "none", "--count", 1, "--lease", "1s")
        second = self.broker.one("consume", "q", "--ack", "none", "--count", 1, "--lease", "1s")
        self.assertEqual(second["attempt"], 2)
        self.broker.wait_stats("q", dead=1)


class Own(Case):
    def history(self, kind, queue="q"):
        return [fact for fact in self.broker.ok("history", queue, "k") if fact["kind"] == kind]

    def check_leases(self, queue, lease_ms, count):
        leased = self.history("leased", queue)
        self.assertEqual(len(leased), count)
        for fact in leased:
            self.assertIn(fact["lease_deadline_ms"] - fact["delivered_ms"], (lease_ms, lease_ms + 1))  # rounded up

    def test_a_tasks_own_settings_replace_those_of_its_queue(self):  # OWN-1
        self.broker.ok("queue", "set", "q", "backoff=fixed", "backoff_min=10d", "backoff_max=10d", "backoff_jitter=0", "max_attempts=9", "lease=1m")
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s", "--max-attempts", 2, "--backoff", "100ms", "--lease", "3h")
        for _ in range(2):
            self.assertEqual([self.broker.one("get", "q", "k")[name] for name in ("max_attempts", "backoff_ms", "lease_ms")], [2, 100, 3 * 3600000])
            self.broker.stop()  # after the restart, the task is only in the index, no longer in memory
            self.broker.start()
        self.assertRegex(self.broker.words("get", "q", "k"), r"(?m)^max attempts +2\nbackoff +100ms\nlease +3h$")
        self.broker.ok("consume", "q", "--ack", "nack", "--count", 2)
        self.assertEqual(self.broker.one("get", "q", "k")["state"], "dead")
        self.check_leases("q", 3 * 3600000, 2)
        (retried,) = self.history("retried")
        self.assertIn(retried["due_ms"] - retried["at_ms"], (100, 101))  # due_ms is rounded up
        self.assertEqual([fact["max_attempts"] for fact in self.history("scheduled")], [2])
        self.broker.stop()
        self.broker.ok("verify", self.broker.data)
        replayed = self.broker.ok("replay", "--data", self.broker.data, "--dry-run", "--set", "q.max_attempts=5")
        self.assertEqual([(line["changed"], line["dry_run"]["dead"], line["dry_run"]["deliveries"]) for line in replayed if line.get("queue") == "q"], [(0, 1, 2)])

    def test_over_http_and_to_the_shares_of_groups(self):
        http = Http(self.broker.port)
        self.broker.ok("queue", "create", "t")
        self.broker.ok("queue", "set", "t:g", "filter=*")
        own = {"max_attempts": 1, "backoff": "1m", "lease": "1h"}  # the lease lasts until the nack, however slow the machine is
        self.assertEqual(http.ask("POST", "/v1/tasks", {"queue": "t", "key": "k", "in": "0s", **own})[0], 201)
        held = self.broker.one("consume", "t:g", "--count", 1, "--ack", "none")
        self.check_leases("t:g", 3600000, 1)
        self.assertEqual(http.ask("GET", "/v1/queues/t:g/tasks/k")[1]["max_attempts"], 1)
        self.broker.one("nack", held["id"], held["token"])
        self.assertEqual(self.broker.one("get", "t:g", "k")["state"], "dead")
        for member, words in ((("max_attempts", 10001), "is more than 10000"), (("lease_ms", 9), "at least 10 ms"), (("lease", "25h"), "at most 24 hours"), (("backoff", "31d"), "at most 30 days")):
            status, problem = http.ask("POST", "/v1/tasks", {"queue": "t", "in": "1h", member[0]: member[1]})
            self.assertEqual(status, 400)
            self.assertIn(words, problem["detail"])
        for option, value in (("--max-attempts", "0"), ("--max-attempts", "10001"), ("--backoff", "0s"), ("--lease", "soon")):
            answer = self.broker.tarry("schedule", "t", "--in", "1h", option, value)
            self.assertEqual(answer.status, 2, answer.err)
            self.assertIn(option, answer.err)


class DeadLetters(Case):
    def setUp(self):
        super().setUp()
        self.broker.ok("queue", "set", "q", "max_attempts=1")
        for key in ("a", "b", "c"):
            self.broker.one("schedule", "q", "--key", key, "--in", "0s", "--body", f"body {key}")
        self.broker.ok("consume", "q", "--ack", "nack", "--count", 3)
        self.broker.wait_stats("q", dead=3)

    def test_list(self):
        self.assertEqual({d["key"] for d in self.broker.ok("dead", "list", "q")}, {"a", "b", "c"})

    def test_requeue_one(self):
        self.broker.ok("dead", "requeue", "q", "b")
        delivery = self.broker.one("consume", "q", "--count", 1)
        self.assertEqual((delivery["key"], delivery["body"]), ("b", "body b"))
        self.broker.wait_stats("q", dead=2, acked=1)

    def test_requeue_all(self):
        self.broker.ok("dead", "requeue", "q", "--all")
        got = self.broker.ok("consume", "q", "--count", 3)
        self.assertEqual({d["key"] for d in got}, {"a", "b", "c"})

    def test_drop_one_and_all(self):
        self.broker.ok("dead", "drop", "q", "a")
        self.broker.wait_stats("q", dead=2)
        self.assertEqual(self.broker.one("get", "q", "a")["state"], "dropped")
        self.broker.ok("dead", "drop", "q", "--all")
        self.broker.wait_stats("q", dead=0)

    def test_a_dead_task_does_not_hold_its_key_and_is_not_requeued_onto_a_live_one(self):
        self.assertEqual(self.broker.one("schedule", "q", "--key", "a", "--in", "1h")["result"], "scheduled")
        self.broker.refused("dead", "requeue", "q", "a")
        self.assertEqual(self.broker.queue_stats("q")["dead"], 3)

    def test_requeue_all_says_how_many_it_has_requeued_and_left(self):
        self.broker.one("schedule", "q", "--key", "a", "--in", "1h")
        answer = self.broker.tarry("dead", "requeue", "q", "--all")
        self.assertEqual(answer.one, {"queue": "q", "result": "requeued", "count": 2, "left": 1})
        self.assertEqual(answer.status, 1)
        self.assertIn("1 dead letter was skipped, because a live task has the same key", answer.err)
        self.assertEqual([d["key"] for d in self.broker.ok("dead", "list", "q")], ["a"])
        self.broker.one("cancel", "q", "a")
        self.assertEqual(self.broker.one("dead", "requeue", "q", "--all")["count"], 1)

    def test_the_live_task_of_a_key_is_found_behind_many_dead_ones(self):
        for _ in range(20):
            self.broker.one("schedule", "q", "--key", "a", "--in", "0s")
            self.broker.ok("consume", "q", "--ack", "nack", "--count", 1)
        oldest = min((d for d in self.broker.ok("dead", "list", "q") if d["key"] == "a"), key=lambda d: int(d["id"]))["id"]
        self.broker.ok("dead", "requeue", "--id", oldest)
        self.broker.one("move", "q", "a", "--in", "1h")
        self.broker.stop()  # after the restart, the task is only in the index, no longer in memory
        self.broker.start()
        self.assertEqual(self.broker.one("get", "q", "a")["id"], oldest)
        self.assertEqual(self.broker.tarry("schedule", "q", "--key", "a", "--in", "2h").one["result"], "exists")
        self.assertEqual(self.broker.one("cancel", "q", "a")["id"], oldest)
        self.assertEqual(self.broker.one("get", "q", "a")["state"], "dead")

    def test_dead_letters_survive_a_crash(self):
        self.broker.restart()
        self.assertEqual({d["key"] for d in self.broker.ok("dead", "list", "q")}, {"a", "b", "c"})
        self.assertEqual(self.broker.ready["recovered_tasks"], "0", "dead tasks are not live")

    def test_an_unknown_dead_letter_is_refused(self):
        self.broker.refused("dead", "requeue", "q", "nobody")
        self.broker.refused("dead", "drop", "q", "nobody")


class Expiry(Case):
    def test_an_expired_task_is_not_delivered(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "100ms", "--expires", "100ms")
        time.sleep(0.6)
        self.assertEqual(self.broker.ok("consume", "q", "--for", "300ms"), [])
        self.assertEqual(self.broker.one("get", "q", "k")["state"], "expired")
        self.broker.wait_stats("q", expired=1)

    def test_before_its_expiry_it_is(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "100ms", "--expires", "1h")
        self.assertEqual(self.broker.one("consume", "q", "--count", 1)["key"], "k")

    def test_expiry_survives_a_crash(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s", "--expires", "200ms")
        self.broker.kill()
        time.sleep(0.4)
        self.broker.start()
        self.assertEqual(self.broker.ok("consume", "q", "--for", "300ms"), [])
        self.assertEqual(self.broker.one("get", "q", "k")["state"], "expired")


if __name__ == "__main__":
    harness.main(watches_locks=True)
