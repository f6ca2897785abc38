"""groups_test.py: groups of a topic, with filters over attributes (GROUP-1). Each group gets exactly the tasks that its filter
matches, and each share ends once, also across kill -9, failover and different protocols.
"""
import copy
import shutil
import time

import harness
from beanstalk import Client
from harness import Case
from http_client import Http
from ports import free_port

TAGS = ["created", "paid", "refunded", "closed"]
GROUPS = {"orders:mail": ("*", lambda tag: True),
          "orders:billing": ("tag in ('paid', 'refunded')", lambda tag: tag in ("paid", "refunded")),
          "orders:audit": ("exists tag and not tag = 'created'", lambda tag: tag not in (None, "created"))}


def tag_of(number):
    return TAGS[number % 5] if number % 5 < 4 else None


def task(number, delay_ms):
    tag = tag_of(number)
    return {"queue": "orders", "key": f"o{number}", "delay_ms": delay_ms, "body": f"order {number}"} | ({"attributes": {"tag": tag}} if tag else {})


class Groups(Case):
    def declare(self):
        self.broker.ok("queue", "create", "orders")
        for name, (text, _) in GROUPS.items():
            self.broker.ok("queue", "set", name, f"filter={text}")

    def expected(self, name, count):
        return {f"o{number}" for number in range(count) if GROUPS[name][1](tag_of(number))}

    def check_all(self, broker, count, consumers):
        """Checks that every group gets exactly its tasks, and that the log has exactly one record of the end of each share
        (the group's copy of a task).
        """
        seen = {name: set() for name in GROUPS}
        end = time.monotonic() + 60
        while any(seen[name] != self.expected(name, count) for name in GROUPS):
            self.assertLess(time.monotonic(), end, {name: len(keys) for name, keys in seen.items()})
            for name, consumer in consumers.items():
                while not consumer.lines.empty():
                    got = consumer.next()
                    self.assertEqual(got["queue"], name)
                    self.assertEqual(got["body"], f"order {got['key'][1:]}")
                    self.assert_not_early(got)
                    seen[name].add(got["key"])
            time.sleep(0.02)
        for name in GROUPS:
            broker.wait_stats(name, pending=0, ready=0, in_flight=0, dead=0, acked=len(self.expected(name, count)))
        broker.wait_stats("orders", pending=0, ready=0, in_flight=0, acked=count)
        ends = [(entry["queue"], entry["key"]) for entry in broker.ok("audit", "--kind", "acked")]
        self.assertEqual(len(ends), len(set(ends)))

    def test_topic_tag_and_group_of_rocketmq_across_crashes(self):
        """GROUP-1: kill -9 while tasks fall due and are being shared."""
        self.declare()
        count = 400
        consumers = {name: self.broker.consume(name) for name in GROUPS}
        producer = self.broker.stream("schedule", "--from", "-", stdin=True)
        for first in range(0, count, 100):
            producer.send(*(task(number, number % 700) for number in range(first, first + 100)))
            producer.take(50)
            self.broker.restart()
        producer.end_input()
        self.assertEqual({result["result"] for result in producer.rest(60)}, {"scheduled"})
        self.check_all(self.broker, count, consumers)
        self.broker.stop()
        self.assertEqual(self.broker.tarry("verify", self.broker.data).status, 0)

    def test_another_broker_goes_on(self):
        second = self.make_broker(data=self.path("second"), listen=f"ws://127.0.0.1:{free_port()}")
        both = copy.copy(self.broker)
        both.url = f"{self.broker.url},{second.listen}"
        self.declare()
        count = 300
        consumers = {name: both.consume(name) for name in GROUPS}
        producer = both.stream("schedule", "--from", "-", stdin=True)
        producer.send(*(task(number, 2 * number) for number in range(count)))
        producer.take(count)
        self.broker.kill()
        shutil.copytree(self.broker.data, second.data)
        second.start()
        self.check_all(second, count, consumers)

    def test_each_group_is_a_queue_of_its_own(self):
        """A pause, attempts and dead letters of one group do not affect the other groups."""
        self.declare()
        self.broker.ok("queue", "set", "orders:billing", "max_attempts=1")
        self.broker.ok("queue", "pause", "orders:audit")
        self.broker.one("schedule", "orders", "--key", "o1", "--in", "0s", "--attr", "tag=paid", "--body", "x")
        self.assertEqual(self.broker.consume("orders:mail", "--count", "1").next()["key"], "o1")
        self.broker.consume("orders:billing", "--count", "1", "--ack", "nack").next()
        self.broker.wait_stats("orders:billing", dead=1)
        self.broker.wait_stats("orders:mail", acked=1)
        states = {share["queue"]: share["state"] for share in self.broker.one("get", "orders", "o1")["shares"]}
        self.assertEqual(states, {"orders:mail": "acked", "orders:billing": "dead", "orders:audit": "ready"})
        self.assertIn("share       orders:billing: dead", self.broker.words("get", "orders", "o1"))
        self.assertEqual(self.broker.one("cancel", "orders", "o1")["result"], "cancelled")
        self.assertEqual(self.broker.queue_stats("orders:audit")["cancelled"], 1)
        self.assertEqual(self.broker.one("dead", "drop", "orders:billing", "o1")["result"], "dropped")
        shared = [entry for entry in self.broker.ok("history", "orders", "o1") if entry["kind"] == "shared"]
        self.assertEqual(shared[0]["shares"], 3)

    def test_a_task_that_no_group_wants_ends(self):
        self.declare()
        self.broker.ok("queue", "set", "orders:mail", "filter=tag = 'none'")
        task_id = self.broker.one("schedule", "orders", "--key", "o4", "--in", "0s")["id"]
        self.broker.wait_stats("orders", dropped=1)
        self.assertEqual(self.broker.one("get", "--id", task_id)["state"], "unmatched")
        self.assertRegex(self.broker.words("cancel", "orders", "o4", status=1), rf"^unmatched {task_id} on orders, key o4 at 20\d\d-")

    def test_what_cannot_be_is_refused_and_nothing_is_stored(self):
        self.broker.ok("queue", "create", "orders")
        for arguments, word in ((("queue", "set", "orders:mail", "filter=tag == 'x'"), "filter, byte 6: expected a text in single quotes"),
                                (("queue", "set", "calls:mail", "filter=*"), "the topic calls of the group calls:mail does not exist"),
                                (("queue", "set", "mail", "filter=*"), "must be named TOPIC:GROUP")):
            answer = self.broker.tarry(*arguments)
            self.assertEqual(answer.status, 1, arguments)
            self.assertIn(word, answer.err, arguments)
        self.assertEqual([queue["name"] for queue in self.broker.ok("queues")], ["orders"])
        self.declare_rest()
        for arguments, word in ((("consume", "orders", "--count", "1"), "subscribe to one of orders:mail"),
                                (("consume", "orders:nope", "--count", "1"), "there is no group orders:nope"),
                                (("schedule", "orders:mail", "--in", "0s"), "schedule the task there"),
                                (("queue", "delete", "orders"), "the queue has 3 groups: delete them first")):
            answer = self.broker.tarry(*arguments)
            self.assertEqual(answer.status, 1, arguments)
            self.assertIn(word, answer.err, arguments)

    def test_the_tool_creates_lists_and_deletes_groups(self):
        self.broker.ok("queue", "create", "orders")
        self.broker.ok("queue", "create", "calls")
        self.assertEqual(self.broker.ok("group", "list", "orders"), [])
        self.assertEqual(self.broker.one("group", "create", "orders:mail")["result"], "created")
        self.broker.ok("group", "create", "orders:billing", "--filter", "tag = 'paid'", "max_attempts=5")
        self.broker.ok("group", "create", "calls:all", "--filter", "*")
        self.broker.ok("queue", "pause", "orders:billing")
        listed = self.broker.ok("group", "list", "orders")
        self.assertEqual([(group["name"], group["policy"]["filter"], group["policy"]["max_attempts"]) for group in listed],
                         [("orders:mail", "*", 16), ("orders:billing", "tag = 'paid'", 5)])
        self.assertEqual([group["name"] for group in self.broker.ok("group", "list")], ["orders:mail", "orders:billing", "calls:all"])
        self.assertRegex(self.broker.words("group", "list", "orders"), r"(?s)^GROUP +FILTER.*\norders:billing +tag = 'paid'")

        for number in range(3):
            self.broker.ok("schedule", "orders", "--key", f"o{number}", "--in", "0s", "--attr", "tag=paid")
        self.broker.wait_stats("orders:mail", ready=3)
        self.broker.wait_stats("orders:billing", ready=3)
        lag = {group["name"]: group for group in self.broker.ok("group", "lag", "orders")}
        self.assertEqual({name: (group["ready"], group["paused"], group["consumers"]) for name, group in lag.items()},
                         {"orders:mail": (3, False, 0), "orders:billing": (3, True, 0)})
        self.assertRegex(self.broker.words("group", "lag"), r"(?s)^GROUP +READY +LAG.*\norders:billing +3 +([0-9]+(ms|s|m|h))+ +0 +0 +0 +yes")

        for arguments, status, word in ((("group", "create", "orders:mail"), 1, "the queue exists"),
                                        (("group", "create", "cals:mail"), 1, "the topic cals of the group cals:mail does not exist"),
                                        (("group", "create", "orders:x", "--filter", "tag =="), 1, "filter, byte 6"),
                                        (("group", "create", "orders:x", "--filter", "none"), 2, "--filter: 'none' is not a filter"),
                                        (("group", "create", "orders:x", "filter=*"), 2, "use --filter EXPR"),
                                        (("group", "list", "cals"), 1, "the queue does not exist"),
                                        (("group", "lag", "cals"), 1, "the queue does not exist"),
                                        (("group", "delete", "calls"), 1, "there is no such group"),
                                        (("group", "delete", "orders:mail"), 1, "the queue is not empty: 3 waiting")):
            answer = self.broker.tarry(*arguments)
            self.assertEqual(answer.status, status, arguments)
            self.assertIn(word, answer.err, arguments)
        self.broker.ok("queue", "purge", "orders:mail")
        self.assertEqual(self.broker.one("group", "delete", "orders:mail")["result"], "deleted")
        self.assertEqual([group["name"] for group in self.broker.ok("group", "list", "orders")], ["orders:billing"])

    def declare_rest(self):
        for name, (text, _) in GROUPS.items():
            self.broker.ok("queue", "set", name, f"filter={text}")

    def test_http_and_beanstalkd_name_a_group_as_a_queue(self):
        port = free_port()
        broker = self.make_broker("--listen", f"beanstalk://127.0.0.1:{port}", data=self.path("doors"), listen=f"ws://127.0.0.1:{free_port()}")
        broker.start()
        http = Http(broker.port)
        self.assertEqual(http.ask("PATCH", "/v1/queues/orders", {"max_attempts": 5})[0], 200)
        self.assertEqual(http.ask("PATCH", "/v1/queues/orders:mail", {"filter": "*"})[0], 200)
        self.assertEqual(http.ask("PATCH", "/v1/queues/orders:billing", {"filter": "tag ="})[1]["detail"],
                         "filter, byte 6: expected a text in single quotes")
        self.assertEqual(http.ask("PATCH", "/v1/queues/orders:billing", {"filter": "tag = 'paid'"})[0], 200)
        http.ask("POST", "/v1/tasks", {"queue": "orders", "key": "o1", "delay_ms": 0, "body": "hello", "attributes": {"tag": "paid"}})
        leased = http.ask("POST", "/v1/queues/orders:mail/lease", {"wait_ms": 5000})[1]
        self.assertEqual((leased["tasks"][0]["key"], leased["tasks"][0]["body"]), ("o1", "hello"))
        status, answer = http.ask("POST", "/v1/queues/orders/lease", {})
        self.assertEqual(status, 400)
        self.assertIn("orders has groups", answer["detail"])
        with Client(port) as client:
            client.ask("watch orders:billing")
            self.assertIn(b"hello", client.ask("reserve-with-timeout 5"))
        shares = http.ask("GET", "/v1/queues/orders/tasks/o1")[1]["shares"]
        self.assertEqual({share["queue"] for share in shares}, {"orders:mail", "orders:billing"})


if __name__ == "__main__":
    harness.main()
