"""audit_test.py: tarry history and tarry audit on the directory of a stopped broker."""
import subprocess

import harness


class Told(harness.Case):
    """A history with all kinds of changes: scheduled, moved, delivered, failed, delivered again, done. Then the key is used
    again.
    """

    def setUp(self):
        super().setUp()
        self.before_ms = harness.now_ms()
        first = self.broker.one("schedule", "close-order", "--key", "order-1001", "--in", "30m", "--body", "secret body")
        moved = self.broker.one("move", "close-order", "order-1001", "--in", "10ms")
        held = self.broker.one("consume", "close-order", "--count", "1", "--ack", "none")
        self.broker.one("nack", held["id"], held["token"], "--delay", "1s")
        last = self.broker.one("consume", "close-order", "--count", "1")
        self.broker.one("schedule", "close-order", "--key", "order-1001", "--in", "1h")
        self.broker.one("cancel", "close-order", "order-1001")
        self.broker.one("schedule", "other", "--key", "order-1001", "--in", "1h")
        self.first, self.moved, self.last = first, moved, last

    def stop(self):
        self.assertEqual(self.broker.stop(), 0)

    def history(self, *arguments):
        return self.broker.ok("history", "--data", self.broker.data, *arguments)

    def audit(self, *arguments):
        return self.broker.ok("audit", "--data", self.broker.data, *arguments)

    def test_the_life_of_a_task(self):
        self.stop()
        told = self.history("--id", self.first["id"])
        self.assertEqual([fact["kind"] for fact in told], ["scheduled", "moved", "leased", "retried", "leased", "acked"])
        scheduled, moved, _, retried, leased, acked = told
        self.assertEqual((scheduled["queue"], scheduled["key"], scheduled["due_ms"]),
                         ("close-order", "order-1001", self.first["due_ms"]))
        self.assertEqual((moved["due_ms"], moved["before_due_ms"]), (self.moved["due_ms"], self.first["due_ms"]))
        self.assertGreaterEqual(retried["due_ms"], retried["at_ms"])
        self.assertEqual((leased["token"], leased["attempt"], leased["deliveries"]), (self.last["token"], 2, 2))
        self.assertEqual(acked["session"], leased["session"])
        for fact in told:  # every record except the broker's own leases names the client of its commit
            self.assertEqual("client" in fact, fact["kind"] != "leased")
        self.assertEqual([fact["at_ms"] for fact in told], sorted(fact["at_ms"] for fact in told))
        self.assertGreaterEqual(told[0]["at_ms"], self.before_ms)

    def test_a_key_may_have_had_several_tasks(self):
        self.stop()
        told = self.history("close-order", "order-1001")
        self.assertEqual([fact["kind"] for fact in told[-2:]], ["scheduled", "cancelled"])
        self.assertEqual({fact["queue"] for fact in told}, {"close-order"})
        self.assertEqual(len({fact["id"] for fact in told}), 2)
        command = self.broker.command("history", "--data", self.broker.data, "close-order", "order-1001")
        command.remove("--json")
        for_people = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual([line for line in for_people.splitlines() if line.startswith("task ")],
                         [f"task {number} of close-order" for number in (told[0]["id"], told[-1]["id"])])

    def test_what_the_log_does_not_know(self):
        self.stop()
        answer = self.broker.refused("history", "--data", self.broker.data, "close-order", "order-1002")
        self.assertIn("the log has no such task", answer.err)

    def test_audit_filters(self):
        self.stop()
        everything = self.audit()
        self.assertEqual(everything[0]["kind"], "start")
        self.assertEqual(self.audit("--kind", "leased,acked"),
                         [fact for fact in everything if fact["kind"] in ("leased", "acked")])
        self.assertEqual(self.audit("--queue", "other"), [fact for fact in everything if fact.get("queue") == "other"])
        self.assertEqual(self.audit("--queue", "close-order", "--prefix", "order-"),
                         [fact for fact in everything if fact.get("queue") == "close-order" and fact.get("key")])
        middle_ms = self.last["received_ms"]
        early, late = self.audit("--to", str(middle_ms)), self.audit("--from", str(middle_ms))
        for fact in early + late + everything:  # remove the consumer: the audit learns it from the lease, which may be earlier than --from
            fact.pop("consumer", None)
            fact.pop("consumer_peer", None)
        self.assertEqual(early + late, everything)
        self.assertTrue(early and late)
        producer = next(fact["producer"] for fact in everything if fact["kind"] == "moved")
        self.assertEqual([fact["kind"] for fact in self.audit("--producer", producer)], ["moved"])
        self.assertEqual(len(self.audit("--limit", "3")), 3)

    def test_a_running_broker_is_left_alone_and_said_so(self):
        answer = self.broker.refused("audit", "--data", self.broker.data)
        self.assertIn("locked", answer.err)

    def test_it_is_the_same_after_kill_and_recovery(self):
        self.stop()
        before = self.audit()
        self.broker.start()
        self.broker.one("schedule", "other", "--key", "order-1003", "--in", "1h")  # wait for this reply, because when it arrives, the record of the broker's start is also on disk
        self.broker.kill()
        after = self.audit()
        self.assertEqual(after[:len(before)], before)
        self.assertEqual([fact["kind"] for fact in after[len(before):]][:3], ["start", "producer", "scheduled"])

    def test_usage(self):
        for wrong in (["history", "--data", "x", "q"], ["audit", "--data", "x", "--key", "k"],
                      ["audit", "--data", "x", "--kind", "closed"], ["audit", "--data", "x", "--from", "yesterday"]):
            self.assertEqual(self.broker.tarry(*wrong).status, 2, wrong)
        self.assertIn("not a data directory", self.broker.refused("audit", "--data", "/nonexistent").err)


if __name__ == "__main__":
    harness.main(watches_locks=True)
