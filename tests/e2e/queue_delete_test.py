"""queue_delete_test.py: a queue, for example one with a mistyped name, can be deleted. The command is refused while the queue
has tasks. It is recorded in the log, so it has the same effect after a crash, restart, failover and restore. The ended
tasks stay known, and a later use of the name creates a new queue.
"""
import harness
import pair
import wire
from harness import Case


def names(broker, *arguments):
    return [queue["name"] for queue in broker.ok("queues", *arguments)]


class Delete(Case):
    def delete(self, queue):
        return self.broker.one("queue", "delete", queue)

    def refused(self, queue, words, code="not_done"):
        answer = self.broker.refused("queue", "delete", queue)
        self.assertEqual((answer.one["result"], answer.one["code"]), ("error", code))
        self.assertIn(words, answer.one["message"])

    def mistype(self, queue="odrers"):
        """Creates a queue that once had a task."""
        self.broker.one("schedule", queue, "--key", "k", "--in", "1h")
        self.broker.one("cancel", queue, "k")

    def test_it_is_gone_from_lists_and_statistics(self):
        self.mistype()
        self.broker.one("schedule", "orders", "--in", "1h")
        deleted = self.delete("odrers")
        self.assertGreater(int(deleted.pop("position")), 0)
        self.assertEqual(deleted, {"queue": "odrers", "result": "deleted"})
        self.assertEqual(names(self.broker), ["orders"])
        self.assertEqual([queue["name"] for queue in self.broker.one("stats")["queues"]], ["orders"])
        self.broker.refused("stats", "odrers")
        self.broker.refused("list", "odrers")
        self.broker.refused("queue", "purge", "odrers")
        self.refused("odrers", "the queue does not exist", "no_such_queue")
        self.refused("never", "the queue does not exist", "no_such_queue")

    def test_what_is_in_it_stands_in_the_way(self):
        self.broker.ok("queue", "set", "q", "max_attempts=1")
        for key in ("waits", "held", "dies"):
            self.broker.one("schedule", "q", "--key", key, "--in", "1h" if key == "waits" else "0s", "--priority",
                            9 if key == "dies" else 0)
        dies, = self.broker.ok("consume", "q", "--count", 1, "--ack", "none")
        self.broker.one("nack", dies["id"], dies["token"], "--dead", "broken")
        held, = self.broker.ok("consume", "q", "--count", 1, "--ack", "none", "--lease", "1h")
        self.refused("q", "1 waiting, 1 in flight, 1 dead; purge it, drop its dead letters or wait")
        self.broker.one("ack", held["id"], held["token"])
        self.broker.one("cancel", "q", "waits")
        self.refused("q", "0 waiting, 0 in flight, 1 dead")
        self.broker.ok("dead", "drop", "q", "dies")
        self.delete("q")

    def test_a_consumer_stands_in_the_way(self):
        self.broker.ok("queue", "set", "q", "max_attempts=1")
        consumer = self.broker.consume("q")
        harness.wait_until("its consumer", lambda: self.broker.queue_stats(None)["sessions"] == 1, harness.ANSWER_WAIT_S)
        self.refused("q", "1 consumers are subscribed")
        consumer.signal(15)
        consumer.wait()
        self.delete("q")

    def test_it_goes_alone_in_its_commit(self):
        self.mistype()
        rpc = wire.Rpc(self.broker.port)
        self.addCleanup(rpc.close)
        schedule, delete = wire.schedule("odrers", "k2"), [(13, [(1, "odrers")])]
        code, reply = rpc.ask(wire.COMMIT, wire.commit(rpc.hello(), 1, [schedule, delete]))
        self.assertEqual(code, wire.OK)
        self.assertEqual([wire.number(result, 1) for result in wire.results(reply)], [wire.OK, wire.INVALID])
        self.refused("odrers", "1 waiting")

    def test_it_stays_deleted_after_a_crash_and_a_restart(self):
        self.broker.ok("queue", "set", "odrers", "max_attempts=7")
        self.broker.ok("queue", "pause", "odrers", "--for", "1h")
        self.mistype()
        self.delete("odrers")
        self.broker.kill()
        self.broker.start()  # the killed broker restores its state from the log
        self.assertEqual(names(self.broker), [])
        self.mistype("orders")
        self.broker.stop()
        self.broker.start()  # the cleanly stopped broker restores its state from the index
        self.assertEqual(names(self.broker), ["orders"])

    def test_who_uses_it_again_has_a_new_one(self):
        self.broker.ok("queue", "set", "q", "max_attempts=7")
        self.broker.ok("queue", "pause", "q")
        self.mistype("q")
        self.delete("q")
        for again in range(2):
            self.broker.one("schedule", "q", "--key", "new", "--in", "0s")
            queue = self.broker.ok("queues")[0]
            self.assertNotEqual(queue["policy"]["max_attempts"], 7)
            self.assertFalse(queue["paused"])
            stats = self.broker.queue_stats("q")
            self.assertEqual((stats["scheduled"], stats["cancelled"], stats["acked"]), (1, 0, 0))
            self.assertEqual(self.broker.one("consume", "q", "--count", 1)["key"], "new")
            self.delete("q")
            if again == 0:
                self.broker.restart()

    def test_what_has_ended_in_it_is_told_truly(self):  # TRUE-1
        self.mistype()
        self.delete("odrers")
        for restarted in range(2):
            self.assertEqual(self.broker.tarry("cancel", "odrers", "k").one["result"], "already_cancelled")
            self.assertEqual(self.broker.tarry("get", "odrers", "k").one["state"], "cancelled")
            if restarted == 0:
                self.broker.restart()

    def test_the_log_says_who_deleted_it(self):
        self.mistype()
        before = self.broker.ok("audit")[-1]["at_ms"]
        self.broker.one("queue", "delete", "odrers", "--as", "ticket 12")
        self.mistype()
        deleted, again = [fact for fact in self.broker.ok("audit", "--kind", "queue")][-2:]
        self.assertEqual((deleted["queue"], deleted["deleted"]), ("odrers", True))
        self.assertRegex(deleted["client"], "^ticket 12: ")
        self.assertNotIn("deleted", again)
        self.assertIn("odrers, deleted", self.broker.words("audit", "--kind", "queue"))
        self.broker.stop()
        counts = self.broker.ok("audit", "--data", self.broker.data, "--as-of", str(before))
        self.assertIn("odrers", [item.get("queue") for item in counts])
        self.broker.ok("verify", self.broker.data)

    def test_a_backup_knows(self):
        self.mistype()
        self.delete("odrers")
        self.broker.ok("backup", self.path("copy"))
        self.broker.ok("restore", self.path("copy"), "--data", self.path("restored"))
        other = self.make_broker(data=self.path("restored")).start()
        self.assertEqual(names(other), [])
        self.assertEqual(other.tarry("get", "odrers", "k").one["state"], "cancelled")


class Pair(pair.Case):
    def test_the_follower_takes_over_without_it(self):
        self.start_pair()
        self.a.one("schedule", "odrers", "--key", "k", "--in", "1h")
        self.a.one("cancel", "odrers", "k")
        self.a.one("queue", "delete", "odrers")
        self.a.one("schedule", "orders", "--in", "1h")
        self.wait_pending(self.b, 1)
        self.assertEqual(names(self.b, "--from-follower"), ["orders"])
        self.a.kill()
        self.wait_role(self.b, "leading")
        self.assertEqual(names(self.b), ["orders"])
        self.b.one("schedule", "odrers", "--key", "k", "--in", "1h")
        self.a.start()
        self.wait_in_sync()
        status = self.b.ok("status")
        self.assertEqual(names(self.a, "--from-follower"), ["odrers", "orders"], status)


if __name__ == "__main__":
    harness.main()
