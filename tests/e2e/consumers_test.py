"""consumers_test.py: lists of consumers: `tarry consumers`, GET /v1/consumers, counts, and warnings about queues without
consumers.
"""
import json

import harness
import http_client
import pair
import principals
import tokens
from harness import Case


class Consumers(Case):
    def views(self, *arguments):
        return self.broker.ok("consumers", *arguments)

    def consume(self, *arguments):
        """A consumer that is in the broker's list."""
        before = len(self.views())
        stream = self.broker.stream("consume", *arguments)
        harness.wait_until("the consumer is connected", lambda: len(self.views()) > before, 20)
        return stream

    def test_a_consumer_is_shown_with_what_it_has(self):
        self.broker.one("schedule", "q", "--key", "a", "--in", "0s")
        self.broker.one("schedule", "q", "--key", "b", "--in", "0s")
        held = self.consume("q", "later", "--prefetch", 7, "--ack", "none")
        held.take(2)
        (view,) = self.views()
        self.assertEqual((view["queues"], view["awaited"], view["queue_count"], view["prefetch"], view["in_flight"]), (["q"], ["later"], 2, 7, 2))
        self.assertRegex(view["client"], r"^\w+@.* tarry/\d+$")
        self.assertRegex(view["peer"], r"^127\.0\.0\.1:\d+$")
        self.assertNotIn("settled_ms", view)
        self.assertNotIn("shared", view)
        before_ms = harness.now_ms() - 1
        task = self.broker.one("get", "q", "a")
        self.broker.one("ack", task["id"], task["token"])
        (view,) = self.views()
        self.assertEqual(view["in_flight"], 1)
        self.assertGreaterEqual(view["settled_ms"], before_ms)
        self.assertRegex(self.broker.words("consumers"), r"(?m)^\S+@.* q \(later\) +7 +1 ")
        self.assertEqual(self.broker.queue_stats("q")["consumers"], 1)
        self.broker.one("schedule", "later", "--in", "1h")  # this schedule creates the queue
        (view,) = self.views("later")
        self.assertEqual((view["queues"], "awaited" in view), (["q", "later"], False))
        self.assertEqual(self.views("other"), [])
        self.assertEqual(self.broker.queue_stats("later")["consumers"], 1)
        held.signal(2)
        held.wait()
        self.assertEqual((self.views(), self.broker.queue_stats("q")["consumers"]), ([], 0))
        self.assertEqual(self.broker.words("consumers"), "")

    def test_http_says_the_same_and_its_clients_share_one_consumer(self):
        web = http_client.Http(self.broker.port)
        self.broker.one("schedule", "q", "--in", "1h")
        self.consume("q")
        self.assertEqual(web.ask("GET", "/v1/consumers")[1]["consumers"], self.views())
        self.assertEqual(web.ask("GET", "/v1/consumers?queue=none")[1], {"consumers": []})
        self.assertEqual(web.ask("GET", "/v1/consumers?nobody=1")[0], 400)
        waiting = http_client.Http(self.broker.port)
        waiting.connection.request("POST", "/v1/queues/q/lease", json.dumps({"max": 5, "wait": "20s"}), {"Content-Type": "application/json"})
        shared = harness.wait_until("the client of HTTP is shown", lambda: [view for view in self.views("q") if view.get("shared") and view["prefetch"] == 5], 20)
        self.assertEqual([(view["client"], view["queues"]) for view in shared], [("http", ["q"])])
        waiting.close()

    def test_who_consumes_a_queue_that_does_not_exist_is_told(self):
        stream = self.consume("ordres")
        stream.signal(2)
        stream.wait()
        self.assertIn("the queue ordres does not exist yet", "\n".join(stream.errors))
        self.assertEqual(self.broker.ok("queues"), [])  # a subscription creates no queue
        self.broker.one("schedule", "q", "--in", "1h")
        stream = self.consume("q")
        stream.signal(2)
        stream.wait()
        self.assertNotIn("does not exist", "\n".join(stream.errors))

    def test_the_doctor_warns_of_ready_tasks_without_a_consumer_and_of_consumers_without_a_queue(self):
        self.broker.one("schedule", "q", "--due-ms", harness.now_ms() - 60_000)
        self.broker.one("schedule", "paused", "--due-ms", 1000)
        self.broker.one("queue", "pause", "paused")
        self.consume("ordres")

        def sentences():
            return [found["what"] for found in self.broker.ok("doctor", "--broker", self.broker.url) if found["result"] == "warning"]
        harness.wait_until("ten seconds have passed since it was scheduled",
                           lambda: self.broker.queue_stats("q")["oldest_overdue_ms"] > 10_000, 30)
        found = sentences()
        self.assertEqual(len([text for text in found if "queue q has 1 ready tasks and no consumer" in text]), 1, found)
        self.assertEqual([text for text in found if "queue paused" in text], [])
        self.assertEqual(len([text for text in found if "waits for queue ordres, which does not exist" in text]), 1, found)


class Principals(principals.Access):
    def test_a_principal_sees_consumers_of_its_queues_only(self):
        self.begin(tokens.row("all", "produce,consume,read"), tokens.row("shop", "read", "queue=orders."), tokens.row("maker", "produce"))
        everyone, shop, maker = (http_client.Http(self.broker.port, tokens.text_of(name)) for name in ("all", "shop", "maker"))
        for queue in ("orders.new", "mail"):
            everyone.ask("POST", f"/v1/queues/{queue}/tasks", {"in": "1h"})
        waiting = http_client.Http(self.broker.port, tokens.text_of("all"))
        waiting.connection.request("POST", "/v1/lease", json.dumps({"queues": ["mail", "orders.new"], "wait": "20s"}),
                                   {"Content-Type": "application/json", "Authorization": f"Bearer {tokens.text_of('all')}"})
        seen = harness.wait_until("it is shown", lambda: everyone.ask("GET", "/v1/consumers")[1]["consumers"], 20)
        self.assertEqual([view["queues"] for view in seen], [["mail", "orders.new"]])
        (view,) = shop.ask("GET", "/v1/consumers")[1]["consumers"]
        self.assertEqual((view["queues"], view["queue_count"]), (["orders.new"], 1))
        self.assertEqual(shop.ask("GET", "/v1/consumers?queue=mail")[0], 403)
        self.assertEqual(maker.ask("GET", "/v1/consumers")[0], 403)
        waiting.close()


class Follower(pair.Case):
    def test_a_follower_names_the_primary(self):
        self.start_pair()
        status, answer = http_client.Http(self.b.port).ask("GET", "/v1/consumers")[:2]
        self.assertEqual((status, answer["code"], answer["primary"]), (421, "not_primary", self.a.url))


if __name__ == "__main__":
    harness.main()
