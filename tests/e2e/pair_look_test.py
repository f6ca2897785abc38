"""pair_look_test.py: the history is the same everywhere: at the primary, at its follower (running, with --follow, as of a time,
including the archive), in both directories and in a backup; if two directories differ, the tool reports where."""
import shutil
import signal

import harness
import wire
from pair_redact_test import Pair


class Look(Pair):
    def facts(self, broker, *arguments):
        return broker.ok("audit", "--queue", "orders", *arguments)

    def test_a_follower_tells_what_the_primary_tells(self):
        self.start_pair()
        self.ended(self.a, "order-1")
        moment = self.a.queue_stats(None)
        self.fill_until_archived(self.a, self.a, self.b)
        stream = self.b.stream("audit", "--follow", "--from-follower", "--from", str(moment["now_ms"] - 60_000),
                               "--queue", "orders", "--kind", "scheduled")
        self.assertEqual(stream.next()["key"], "order-1")  # this entry comes from the archive
        for i in range(2, 5):
            self.ended(self.a, f"order-{i}")
            self.assertEqual(stream.next()["key"], f"order-{i}")  # the follower prints the entry while it happens at the primary
        stream.signal(signal.SIGINT)
        self.assertEqual(stream.wait(), 0)
        self.schedule(self.a, "order-5")
        self.wait_pending(self.b, 1)
        for key in ("order-1", "order-4", "order-5"):
            told = self.a.ok("history", "orders", key)
            self.assertEqual(self.b.ok("history", "orders", key, "--from-follower"), told)
            self.assertEqual([fact["kind"] for fact in told], ["scheduled", "cancelled"] if key != "order-5" else ["scheduled"])
        self.assertIn("reply of a follower", self.b.tarry("history", "orders", "order-1", "--from-follower").err)
        told = self.facts(self.a)
        self.assertEqual(self.facts(self.b, "--from-follower"), told)
        self.assertEqual(len(told), 10)
        # Without --from-follower, a command given the follower's address reaches the primary, or reports the primary's
        # address.
        asked = self.b.tarry("history", "orders", "order-1")
        self.assertTrue(asked.status == 0 or self.a.url in asked.err, asked)
        self.assertEqual((self.b.stop(), self.a.stop()), (0, 0))
        for broker in (self.a, self.b):
            self.assertEqual(self.facts(broker, "--data", broker.data), told)
            self.assertEqual(broker.ok("history", "--data", broker.data, "orders", "order-1"), self.a.ok(
                "history", "--data", self.a.data, "orders", "order-1"))
        # Both directories give the same state as of that position; part of the frames comes from the archive.
        then = [self.a.ok("audit", "--data", broker.data, "--as-of-position", moment["durable"]) for broker in (self.a, self.b)]
        self.assertEqual(then[0], then[1])
        self.assertEqual(then[0][-1]["digest"], moment["digest"])
        self.assertEqual(self.a.one("verify", self.b.data, "--against", self.a.data)["longer"], "against")

    def against(self, one, other, status=0):
        answer = self.a.tarry("verify", one, "--against", other)
        self.assertEqual(answer.status, status, answer)
        return answer.one

    def test_directories_are_compared_after_failovers(self):
        """Compares directories: one with a quarantined tail, a backup, and one with another history."""
        self.a.arguments += ["--solo-after", "60s"]
        self.start_pair()
        self.a.one("schedule", "orders", "--key", "one", "--in", "1h")
        copy = self.path("copy")
        self.a.one("backup", copy)
        with wire.Rpc(self.a.port) as rpc:
            producer = rpc.hello()
            self.wait_for("the follower has it", lambda: self.durable(self.a) == self.durable(self.b))
            self.freeze(self.b)
            for sequence in (1, 2):
                before = self.durable(self.a)
                rpc.tell(wire.COMMIT, wire.commit(producer, sequence, [wire.schedule("lost", delay_ms=3_600_000)]))
                self.wait_for("it is written", lambda known=before: self.durable(self.a) > known)
            self.a.kill()
        went = self.path("went")
        shutil.copytree(self.a.data, went)  # a copy of the dead primary's directory, with a tail that was not acknowledged
        self.thaw(self.b)
        self.wait_log(self.b, "event=leading")
        self.b.one("schedule", "orders", "--key", "two", "--in", "1h")
        self.a.start()
        self.wait_log(self.a, "event=tail_quarantined")
        self.wait_in_sync()
        self.b.kill()
        self.wait_log(self.a, "event=leading", 2)
        self.a.one("schedule", "orders", "--key", "three", "--in", "1h")
        self.b.start()
        self.wait_in_sync()
        self.wait_pending(self.b, 3)
        self.assertEqual((self.b.stop(), self.a.stop()), (0, 0))
        [tail] = self.a.one("verify", self.a.data)["quarantined"]
        same = self.against(self.a.data, self.b.data)
        self.assertEqual((same["result"], same["longer"], same["common_to"]), ("same", "directory", same["against_log_end"]))
        backup = self.against(copy, self.a.data)
        self.assertEqual((backup["result"], backup["longer"], backup["common_to"]), ("same", "against", backup["log_end"]))
        for directory in (self.a.data, self.b.data):
            apart = self.against(went, directory, status=1)
            self.assertEqual((apart["result"], apart["differs_at"], apart["common_to"]), ("differs", tail["from"], tail["from"]))
            self.assertIn("of epoch 1", apart["frame"])
            self.assertIn("of epoch 2", apart["against_frame"])


if __name__ == "__main__":
    harness.main()
