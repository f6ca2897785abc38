"""queue_places_test.py: clients cannot fill the table of queues (issue 28, A3). A subscription uses no entry of the table, a
principal may create a limited number of queues, and the broker's own queues have reserved entries. When a queue is deleted,
a new queue may use its entry, with another number. The history of the deleted and of the new queue stays correct: history,
audit, directories, redaction by name, `tarry verify`.
"""
import harness
import http_client
import tokens
import wire
from harness import Case
from principals import Access
from tokens import row

PLACES = 4096  # QUEUES_MAX
RETENTION_MS = 300


class Limits(Access):
    rows = (row("shop", "produce,read", "queue=orders."), row("evil", "consume,produce", "queue=evil."),
            row("few", "produce", "queue=few.", "queues=3"))

    def client(self, name):
        client = http_client.Http(self.broker.port, tokens.text_of(name))
        self.addCleanup(client.close)
        return client

    def test_a_subscription_takes_no_place(self):  # CAP-1
        evil, shop = self.client("evil"), self.client("shop")
        before = self.broker.ok("queues")
        status, answer = evil.ask("POST", "/v1/lease", {"queues": [f"evil.{i}" for i in range(256)]})
        self.assertEqual((status, answer["tasks"]), (200, []))
        status, answer = evil.ask("POST", "/v1/lease", {"queues": [f"evil.more.{i}" for i in range(256)]})
        self.assertIn("queues=", answer["detail"])
        self.assertEqual(self.broker.ok("queues"), before)
        self.assertEqual(shop.ask("POST", "/v1/queues/orders.b/tasks", {"in": "1h"})[0], 201)
        self.assertEqual(shop.ask("POST", "/v1/queues/orders.b/tasks", {"in": "1h"}, [("Idempotency-Key", "k1")])[0], 201)

    def test_so_many_queues_are_created_and_no_more_also_after_a_restart(self):
        for restarted in range(2):
            few = self.client("few")
            for i in range(3):
                self.assertEqual(few.ask("POST", f"/v1/queues/few.{i}/tasks", {"in": "1h"})[0], 201)
            answer = few.ask("POST", "/v1/queues/few.3/tasks", {"in": "1h"})[1]
            self.assertEqual(answer["code"], "too_large")
            self.assertIn("3 queues", answer["detail"])
            self.assertIn("queues=", answer["detail"])
            if restarted == 0:
                self.broker.restart()

    def test_one_confined_token_cannot_take_the_table(self):  # CAP-1
        evil, shop = self.client("evil"), self.client("shop")
        rpc = wire.Rpc(self.broker.port, tokens.text_of("evil"))
        self.addCleanup(rpc.close)
        ops = [wire.schedule(f"evil.{i}", delay_ms=3600000) for i in range(PLACES)]
        _, reply = rpc.ask(wire.COMMIT, wire.commit(rpc.hello(), 1, ops), wait_s=30)
        codes = [wire.number(result, 1) for result in wire.results(reply)]
        self.assertEqual((codes.count(wire.OK), codes.count(wire.TOO_LARGE)), (256, PLACES - 256))
        self.assertEqual(shop.ask("POST", "/v1/queues/orders.b/tasks", {"in": "1h"})[0], 201)
        self.assertEqual(evil.ask("POST", "/v1/queues/evil.x/tasks", {"in": "1h"})[1]["code"], "too_large")


class Places(Case):
    arguments = ("--outcome-retention", f"{RETENTION_MS}ms")

    def fill(self):
        rpc = wire.Rpc(self.broker.port)
        self.addCleanup(rpc.close)
        ops = [wire.schedule(f"q{i}", delay_ms=3600000) for i in range(1, PLACES)]
        _, reply = rpc.ask(wire.COMMIT, wire.commit(rpc.hello(), 1, ops), wait_s=30)
        self.assertEqual({wire.number(result, 1) for result in wire.results(reply)}, {wire.OK})

    def facts(self, queue, *where):
        return [(fact["kind"], fact["queue"]) for fact in self.broker.ok("audit", *where, "--queue", queue, "--key", "k")
                if fact["kind"] in ("scheduled", "cancelled")]

    def expect_past(self, *where):
        self.assertEqual(self.facts("former", *where), [("scheduled", "former"), ("cancelled", "former")])
        self.assertEqual(self.facts("later", *where), [("scheduled", "later")])

    def test_the_past_of_a_place_stays_true(self):  # TRUE-1
        broker = self.broker
        broker.one("schedule", "former", "--key", "k", "--in", "1h", "--body", "secret")
        broker.one("cancel", "former", "k")
        broker.one("queue", "delete", "former")
        self.fill()
        later = harness.wait_until("the former queue's place", lambda: broker.tarry("schedule", "later", "--key", "k", "--in", "1h").status == 0,
                                   harness.ANSWER_WAIT_S)
        self.assertTrue(later)
        full = broker.refused("schedule", "more", "--in", "1h").one
        self.assertEqual(full["code"], "too_large")
        self.assertIn("QUEUES_MAX", full["message"])
        self.assertEqual(broker.tarry("cancel", "former", "k").one["result"], "unknown")
        self.assertEqual(broker.one("get", "later", "k")["state"], "pending")
        self.expect_past()
        broker.kill()
        broker.start()
        self.expect_past()
        self.assertEqual(len(broker.ok("queues")), PLACES)
        self.assertEqual(broker.one("redact", "former", "k", "--reason", "ticket 7")["count"], 1)
        self.assertEqual(broker.one("get", "later", "k")["state"], "pending")
        broker.stop()
        self.expect_past("--data", broker.data)
        counts = {item["queue"]: item for item in broker.ok("audit", "--data", broker.data, "--as-of-position", str(self.position(broker)))}
        self.assertIn("later", counts)
        self.assertNotIn("former", counts)
        broker.ok("verify", broker.data)

    def position(self, broker):
        return broker.ok("audit", "--data", broker.data)[-1]["position"]


if __name__ == "__main__":
    harness.main()
