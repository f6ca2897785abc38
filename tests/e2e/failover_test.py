"""failover_test.py: clients with two addresses. The broker at the first address does not return, and a broker at the second
one continues from the same log. This is no pair: the second broker runs on a copy of the first one's directory, with the
same identity, like a follower that has everything. Real pairs have their own tests.
"""
import copy
import json
import shutil
import time
import urllib.request

import harness
from frozen import freeze, thaw
from harness import Case
from ports import free_port


class Failover(Case):
    def setUp(self):
        super().setUp()
        self.second = self.make_broker(data=self.path("second"), listen=f"ws://127.0.0.1:{free_port()}")
        self.both = copy.copy(self.broker)  # an object to run the tool with both addresses; it does not start or stop a broker
        self.both.url = f"{self.broker.url},{self.second.listen}"

    def take_over(self):
        """Starts the second broker on the first one's data. Call it when the first one has stopped working."""
        shutil.copytree(self.broker.data, self.second.data)
        self.second.start()

    def crash(self):
        self.broker.kill()
        self.take_over()

    def test_every_line_takes_effect_once(self):
        """ONCE-1: keys are unique, so a commit executed twice would return "exists", and one not executed would leave no task."""
        count, batch = 3000, 50
        stream = self.both.stream("schedule", "--from", "-", stdin=True)
        for first in range(0, count, batch):
            stream.send(*({"queue": "q", "key": f"k{i}", "delay_ms": 3_600_000} for i in range(first, first + batch)))
            if first == count // 2:
                self.crash()  # the crash comes while a request is in flight
        stream.end_input()
        results = stream.rest(60)
        self.assertEqual(stream.wait(), 0, stream.errors)
        self.assertEqual([result["result"] for result in results], ["scheduled"] * count)
        self.assertEqual(self.second.queue_stats("q")["pending"], count)
        self.assertEqual(len({result["id"] for result in results}), count)

    def test_tasks_without_a_key_are_not_doubled(self):
        stream = self.both.stream("schedule", "--from", "-", stdin=True)
        stream.send(*({"queue": "q", "delay_ms": 3_600_000} for _ in range(2000)))
        stream.take(200)
        self.crash()
        stream.send(*({"queue": "q", "delay_ms": 3_600_000} for _ in range(500)))
        stream.end_input()
        self.assertEqual({result["result"] for result in stream.rest(60)}, {"scheduled"})
        self.assertEqual(self.second.queue_stats("q")["pending"], 2500)

    def test_a_session_goes_along_with_its_leases(self):
        """FENCE-1: the second broker accepts the same tokens, and delivers no leased task again."""
        for i in range(20):
            self.broker.one("schedule", "q", "--key", f"k{i}", "--in", "0s")
        consumer = self.both.consume("q", "--ack", "none", "--lease", "60s")
        held = consumer.take(20)
        session = self.broker.one("get", "q", "k7")["session"]
        self.crash()
        self.both.one("schedule", "q", "--key", "later", "--in", "0s")
        self.assertEqual(consumer.next()["key"], "later")
        time.sleep(2.5)  # waits longer than the 2 s within which a session must reconnect
        task = self.both.one("get", "q", "k7")
        self.assertEqual((task["state"], task["token"], task["session"]),
                         ("in_flight", next(t["token"] for t in held if t["key"] == "k7"), session))
        for task in held:
            self.assertEqual(self.both.one("extend", task["id"], task["token"])["result"], "extended")
            self.assertEqual(self.both.one("ack", task["id"], task["token"])["result"], "acked")
        self.assertTrue(consumer.quiet_for(0.5))

    def test_consumers_and_producers_work_on(self):
        """No task is lost or early. Only tasks whose outcome was open at the crash are delivered twice."""
        consumer = self.both.consume("q")
        producer = self.both.stream("schedule", "--from", "-", stdin=True)
        producer.send(*({"queue": "q", "key": f"k{i}", "delay_ms": i % 300} for i in range(1000)))
        producer.take(500)
        self.crash()
        producer.send(*({"queue": "q", "key": f"k{i}", "delay_ms": i % 300} for i in range(1000, 1500)))
        producer.end_input()
        self.assertEqual({result["result"] for result in producer.rest(60)}, {"scheduled"})
        seen = set()
        end = time.monotonic() + 60
        while len(seen) < 1500 and time.monotonic() < end:
            task = consumer.next(max(0.1, end - time.monotonic()))
            self.assert_not_early(task)
            seen.add(task["key"])
        self.assertEqual(len(seen), 1500)
        self.second.wait_stats("q", pending=0, ready=0, in_flight=0, dead=0)

    def test_a_primary_that_hangs_is_left_and_so_is_its_lane(self):
        """F-13, F-17: the connections to a stopped broker stay open. Clients use the other broker anyway, and stay there when
        the first one continues.
        """
        self.broker.one("schedule", "q", "--key", "held", "--in", "0s")
        consumer = self.both.consume("q", "--ack", "none", "--lease", "60s")
        held = consumer.next()
        producer = self.both.stream("schedule", "--from", "-", "--timeout", "60s", stdin=True)
        producer.send({"queue": "q", "key": "before", "delay_ms": 3_600_000})
        producer.next()
        freeze(self.broker.process)
        try:
            self.take_over()
            producer.send({"queue": "q", "key": "after", "delay_ms": 0})
            self.assertEqual(producer.next(40)["result"], "scheduled")
            while (task := consumer.next(40))["key"] != "after":  # arrives over the second broker's lane
                # the consumer noticed the failure too late to keep its lease, so the task is delivered a second time
                self.assertEqual((task["id"], task["attempt"]), (held["id"], 2))
                held = task
        finally:
            thaw(self.broker.process)
        self.assertEqual(self.second.one("ack", held["id"], held["token"])["result"], "acked")
        producer.send({"queue": "q", "key": "still here", "delay_ms": 3_600_000})
        self.assertEqual(producer.next()["result"], "scheduled")
        self.assertEqual(self.second.one("get", "q", "still here")["state"], "pending")
        producer.end_input()


class Addresses(Case):
    def both(self, *urls):
        both = copy.copy(self.broker)
        both.url = ",".join(urls)
        return both

    def test_a_producer_does_not_stray_into_another_cluster(self):
        """F-29: the second broker belongs to another cluster. Its first client has the same producer number as the producer of
        this test.
        """
        other = self.make_broker(data=self.path("other")).start()
        both = self.both(self.broker.url, other.url)
        stream = both.stream("schedule", "--from", "-", "--timeout", "4s", stdin=True)
        stream.send({"queue": "q", "key": "k1", "delay_ms": 3_600_000})
        self.assertEqual(stream.next()["result"], "scheduled")
        self.assertEqual(other.one("schedule", "q", "--key", "other", "--in", "1h")["result"], "scheduled")
        self.broker.kill()
        stream.send({"queue": "q", "key": "k2", "delay_ms": 3_600_000})
        answer = stream.next()
        # On a busy machine, a request may be in flight when the timeout ends. Then the code is `timeout`, because the
        # outcome is unknown.
        self.assertIn((answer["result"], answer["code"]), (("error", "not_primary"), ("error", "timeout")))
        self.assertIn("another cluster", answer["message"])
        self.assertIn("refused", answer["message"].lower())
        self.assertEqual(stream.wait(), 3)
        self.assertEqual(other.queue_stats("q")["pending"], 1)
        self.broker.start()

    def test_nobody_there_is_told_with_what_each_address_said(self):
        one, two = (f"ws://127.0.0.1:{free_port()}" for _ in range(2))
        answer = self.both(one, two).refused("schedule", "q", "--in", "1s", "--timeout", "3s", status=3)
        self.assertEqual(answer.one["code"], "no_broker")
        for url in (one, two):
            self.assertIn(f"{url}: Connection refused", answer.one["message"])
            self.assertIn(f"{url}: Connection refused", answer.err)

    def test_the_order_of_addresses_does_not_matter(self):
        dead = f"ws://127.0.0.1:{free_port()}"
        for urls in ((dead, self.broker.url), (self.broker.url, dead), (dead, dead, self.broker.url, dead)):
            self.both(*urls).ok("schedule", "q", "--in", "1h", "--timeout", "10m")  # fails at once, before the timeout


class Status(Case):
    def urls(self, *urls):
        several = copy.copy(self.broker)
        several.url = ",".join(urls)
        return several

    @staticmethod
    def without_times(status):
        return {key: value for key, value in status.items() if key not in ("now_ms", "now")}

    def both_statuses(self):
        """Returns the status that the tool prints and the status of /v1. The broker may write a record between the two replies,
        so the requests are repeated until the tool prints the same status before and after the request to /v1.
        """
        def ask():
            before = self.broker.one("status")
            with urllib.request.urlopen(f"http://{self.broker.url.partition('//')[2]}/v1/status", timeout=10) as answer:
                same = json.load(answer)
            is_same = self.without_times(before) == self.without_times(self.broker.one("status"))
            return (before, same) if is_same else None
        return harness.wait_until("a status that does not change", ask, harness.ANSWER_WAIT_S)

    def test_a_broker_alone_is_the_primary(self):
        status, same = self.both_statuses()
        self.assertEqual((status["result"], status["role"], status["epoch"]), ("ok", "primary", 1))
        self.assertEqual((status["url"], status["primary"], status.get("peer")), (self.broker.url, self.broker.url, None))
        self.assertEqual(status["member"], self.broker.ready["member"])
        self.assertEqual(status["mode"], "none")
        self.assertGreater(status["durable"], 0)
        self.assertEqual({key: value for key, value in self.without_times(status).items() if key not in ("broker", "result")},
                         self.without_times(same))
        words = self.words(self.broker, "status")
        self.assertEqual(words.status, 0)
        self.assertIn("primary, epoch 1", words.out)

    def words(self, broker, *arguments):
        """Runs the tool as people use it, without --json."""
        command = [part for part in broker.command(*arguments) if part != "--json"]
        stream = harness.subprocess.run(command, capture_output=True, timeout=30, check=False)
        answer = harness.Answer(stream.returncode, "", stream.stderr.decode())
        answer.out = stream.stdout.decode()
        return answer

    def test_two_that_say_so_or_one_that_is_silent_want_an_operator(self):
        other = self.make_broker(data=self.path("other")).start()
        answer = self.urls(self.broker.url, other.url).refused("status")
        self.assertEqual([node["role"] for node in answer.objects], ["primary", "primary"])
        self.assertIn("2 brokers report that they are the primary", answer.err)
        dead = f"ws://127.0.0.1:{free_port()}"
        answer = self.urls(self.broker.url, dead).refused("status")
        self.assertEqual([node["result"] for node in answer.objects], ["ok", "error"])
        self.assertEqual(answer.objects[1]["code"], "no_broker")
        self.assertIn("refused", answer.objects[1]["message"])
        self.urls(dead).refused("status", "--timeout", "300ms", status=3)
        self.urls(dead, dead).refused("status", "--timeout", "300ms", status=3)

    def test_promote_and_demote_without_a_peer(self):
        self.assertEqual(self.broker.one("promote")["result"], "already")
        answer = self.broker.refused("demote")
        self.assertEqual(answer.one["code"], "not_done")
        self.assertIn("no peer", answer.err)
        self.assertEqual(self.broker.refused("promote", "--force", "--peer-is-stopped", status=2).objects, [])
        self.broker.refused("demote", "--wait", "soon", status=2)
        dead = f"ws://127.0.0.1:{free_port()}"
        self.assertIn("no peer", self.urls(self.broker.url, dead).refused("demote").err)  # the command selects the follower's address and asks that broker
        self.assertIn("none of the brokers that answered can be promoted", self.urls(self.broker.url, dead).refused("promote").err)
        self.urls(dead).refused("promote", "--timeout", "300ms", status=3)

    def test_a_follower_is_not_needed_for_from_follower(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "1h")
        for command in (("get", "q", "k"), ("list", "q"), ("queues",), ("stats",)):
            for item in self.broker.ok(*command, "--from-follower"):
                self.assertNotIn("follower", item)
        self.assertEqual(self.broker.ok("dead", "list", "q", "--from-follower"), [])


if __name__ == "__main__":
    harness.main(watches_locks=True)
