"""pair_redact_test.py: contents that are redacted at the primary disappear from both nodes: from log, archive, index and
quarantined tails. This holds whether the follower was connected, connects later, or takes over. Each directory still passes
tarry verify.
"""
import json
import os
import random
import shutil
import time

import harness
import pair
import wire
from tokens import ADMIN
from redact_test import REASON, files_with, unpacked

FAT_SIZE = 200_000


class Pair(pair.Case):
    """A pair whose log is archived soon. Its tasks have unique contents."""

    arguments = (*pair.Case.arguments, "--segment-size", "1MiB", "--retain-log-size", "0", "--memory", "64MiB")

    def setUp(self):
        super().setUp()
        self.random = random.Random(os.environ.get("TARRY_SEED", "4711"))
        self.filled = 0

    def schedule(self, broker, key, size=0, delay="1h"):
        """Schedules a task with a unique payload and attribute; returns these."""
        payload, attribute = ("secret-" + self.random.randbytes(16).hex() for _ in range(2))
        body = payload + self.random.randbytes(size // 2).hex()
        broker.one("schedule", "orders", "--key", key, "--in", delay, "--body", body, "--attr", f"card={attribute}")
        return payload, attribute

    def ended(self, broker, key, size=0):
        tokens = self.schedule(broker, key, size)
        broker.one("cancel", "orders", key)
        return tokens

    def redact(self, broker, key):
        answer = broker.one("redact", "orders", key, "--reason", REASON)
        self.assertEqual((answer["count"], answer["erased"]), (1, True))

    def assert_there(self, broker, tokens):
        for token in tokens:
            self.assertTrue(files_with(broker.data, token), token)

    def wait_gone(self, broker, tokens):
        """Waits until these contents are gone. A follower erases them a moment after the primary, when it knows that the
        redaction is committed.
        """
        left = lambda: [name for name, data in unpacked(broker.data) if any(token.encode() in data for token in tokens)]
        end = time.monotonic() + pair.WAIT_S
        while left():
            self.assertLess(time.monotonic(), end, f"{broker.data}: {left()}\n{broker.log_text()}")
            time.sleep(0.05)
        self.wait_for("it has noted that it has erased", lambda: self.has_noted_all(broker))

    def has_noted_all(self, broker):
        """Returns whether no erasure is in progress. Reads a copy of the directory, because a directory in use is locked.
        Makes a new copy if a file changed while it was copied.
        """
        copy = self.path("copy-to-look-at")
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(broker.data, copy)
        except (shutil.Error, FileNotFoundError):  # the broker renamed a file meanwhile
            return False
        answer = self.a.tarry("verify", copy)
        return answer.status == 0 and answer.one["erasures_under_way"] == 0 and "unerased" not in os.listdir(copy)

    def archived(self, broker):
        path = os.path.join(broker.data, "archive")
        return sorted(name for name in os.listdir(path) if name.endswith(".zst")) if os.path.isdir(path) else []

    def fill(self, broker, mebibytes=2):
        """Fills `mebibytes` of log with tasks that end at once."""
        for _ in range(mebibytes * 5):
            key = f"filler-{self.filled}"
            self.filled += 1
            broker.ok("schedule", "--from", "-", stdin=json.dumps(
                {"queue": "q", "key": key, "delay_ms": 3_600_000, "body": self.random.randbytes(FAT_SIZE // 2).hex()}))
            broker.one("cancel", "q", key)

    def fill_until_archived(self, leader, *brokers):
        """Fills the log until each broker has archived and retired what was there before."""
        before = leader.queue_stats(None)["appended"]
        def is_done():
            if all(self.log_start(broker) > before for broker in brokers):
                return True
            self.fill(leader, 1)
            return False
        self.wait_for("archived", is_done, 60)

    def log_start(self, broker):
        return min(int(name[:16], 16) for name in os.listdir(os.path.join(broker.data, "log")) if name.endswith(".seg"))

    def verify(self, *brokers):
        for broker in brokers:
            answer = self.tool("verify", broker.data)
            self.assertEqual((answer["result"], answer["erasures_under_way"]), ("fine", 0), broker.data)

    def tool(self, *arguments):
        return self.a.one(*arguments)

    def durable(self, broker):
        """Returns the position up to which this node's own log is durable, which does not depend on the other node."""
        with wire.Rpc(broker.port) as rpc:
            return wire.decode(rpc.ask(wire.PAIR, [])[1])[17][0]


class Redact(Pair):
    def test_it_is_gone_from_both(self):
        self.start_pair()
        fresh, old = self.ended(self.a, "fresh"), self.ended(self.a, "old", 3000)
        kept = self.schedule(self.a, "kept", 3000)
        living = self.schedule(self.a, "living", 3000)
        self.fill_until_archived(self.a, self.a, self.b)
        late, witness = self.ended(self.a, "late"), self.ended(self.a, "witness")
        self.a.one("cancel", "orders", "living")  # the index and the archive have an encrypted copy of this task's content
        for broker in (self.a, self.b):
            self.wait_for("all of it is there", lambda: all(files_with(broker.data, token) for token in witness))
            self.assert_there(broker, (*fresh, *old, *late, *living, *kept))
        for key, tokens in (("fresh", fresh), ("old", old), ("late", late), ("living", living)):
            self.redact(self.a, key)
            for broker in (self.a, self.b):
                self.wait_gone(broker, tokens)
                self.assert_there(broker, (*witness, *kept))
        self.assertEqual(self.b.stop(), 0)
        self.assertEqual(self.a.stop(), 0)
        self.verify(self.a, self.b)
        self.assertEqual(self.tool("verify", self.a.data, "--against", self.b.data)["result"], "same")

    def test_the_follower_was_away(self):
        self.start_pair()
        before, also = self.ended(self.a, "before"), self.ended(self.a, "also", 3000)
        self.assertEqual(self.b.stop(), 0)
        self.assert_there(self.b, (*before, *also))
        self.wait_for("alone", lambda: self.record().get("in-sync") == "0")
        while_away = self.ended(self.a, "while-away", 3000)
        for key, tokens in (("before", before), ("also", also), ("while-away", while_away)):
            self.redact(self.a, key)
            self.wait_gone(self.a, tokens)
        self.b.start()
        self.wait_in_sync()
        self.wait_gone(self.b, (*before, *also, *while_away))
        self.assertEqual(self.b.stop(), 0)
        self.verify(self.b)

    def test_it_leads_before_it_has_erased(self):
        """The primary is killed as soon as the redaction is recorded; the follower then leads, and erases."""
        self.start_pair()
        tokens = self.ended(self.a, "order-1", 3000)
        self.a.one("redact", "orders", "order-1", "--reason", REASON, "--no-wait")
        self.a.kill()
        self.wait_log(self.b, "event=leading")
        self.wait_gone(self.b, tokens)
        others = self.ended(self.b, "order-2")
        self.redact(self.b, "order-2")
        self.a.start()
        self.wait_in_sync()
        self.wait_gone(self.a, (*tokens, *others))
        self.wait_gone(self.b, (*tokens, *others))
        self.assertEqual((self.a.stop(), self.b.stop()), (0, 0))
        self.verify(self.a, self.b)

    def test_what_was_put_aside_is_erased_too(self):
        """The former primary wrote a request but did not answer it, so the client repeated the request at the new primary. So
        the same content is in the new log and in the quarantined tail of the former primary.
        """
        self.a.arguments += ["--solo-after", "60s"]
        self.start_pair()
        payloads = {name: f"secret-{name}-" + self.random.randbytes(16).hex() for name in ("keyed", "plain", "other", "new")}
        def send(rpc, producer, is_answered):
            for sequence, (queue, key, name) in enumerate((("orders", "order-1", "keyed"), ("orders", "", "plain"),
                                                           ("orders", "order-2", "other"), ("made-there", "order-1", "new"))):
                rpc.tell(wire.COMMIT, wire.commit(producer, 10 + sequence, [
                    wire.schedule(queue, key, delay_ms=3_600_000, payload=payloads[name].encode())]))
                if is_answered:
                    self.assertEqual(rpc.hear()[1], wire.OK, rpc.sentence)

        with wire.Rpc(self.a.port, ADMIN) as rpc:
            producer = rpc.hello()
            self.freeze(self.b)
            before = self.durable(self.a)  # the stopped follower may already have received the frames before this one
            rpc.tell(wire.COMMIT, wire.commit(producer, 1, [wire.schedule("filler", delay_ms=3_600_000)]))
            self.wait_for("it is written", lambda: self.durable(self.a) > before)
            send(rpc, producer, False)  # send at once, because without its follower the primary soon refuses new requests
            log = os.path.join(self.a.data, "log")
            self.wait_for("they are written", lambda: all(files_with(log, payload) for payload in payloads.values()))
            self.a.kill()
        self.thaw(self.b)
        self.wait_log(self.b, "event=leading")
        with wire.Rpc(self.b.port, ADMIN) as rpc:
            self.b.one("schedule", "made-here", "--key", "order-1", "--in", "1h")  # so that the two nodes' queue numbers differ
            send(rpc, rpc.hello(), True)
        self.a.start()
        self.wait_log(self.a, "event=tail_quarantined")
        self.wait_in_sync()
        aside = lambda name: [file for file in files_with(os.path.join(self.a.data, "quarantine"), payloads[name])]
        for name in payloads:
            self.assertTrue(aside(name), name)
        plain = next(task["id"] for task in self.b.ok("list", "orders") if not task.get("key"))
        self.b.one("cancel", "--id", plain)
        self.b.one("cancel", "orders", "order-1")
        self.b.one("cancel", "made-there", "order-1")
        self.redact(self.b, "order-1")
        self.assertEqual(self.b.one("redact", "--id", plain, "--reason", REASON)["erased"], True)
        for broker in (self.a, self.b):
            self.wait_gone(broker, (payloads["keyed"], payloads["plain"]))
            self.assert_there(broker, (payloads["other"], payloads["new"]))  # a task with another key and a task with the same key in another queue are not erased
        self.assertTrue(aside("other") and aside("new"))
        self.assertEqual(self.b.one("redact", "made-there", "order-1", "--reason", REASON)["erased"], True)
        self.wait_gone(self.a, (payloads["new"],))
        self.assertTrue(aside("other"))
        self.assertEqual((self.a.stop(), self.b.stop()), (0, 0))
        self.verify(self.a, self.b)
        [tail] = self.tool("verify", self.a.data)["quarantined"]
        told = self.a.ok("audit", "--data", self.a.data, "--quarantined", tail["name"], "--queue", "orders", "--key", "order-1")
        self.assertEqual([fact["kind"] for fact in told], ["scheduled"])  # the quarantined tail has only the schedule of the redacted task

    def test_a_follower_that_took_a_snapshot_erases_what_it_had_archived(self):
        self.start_pair()
        tokens, witness = self.ended(self.a, "order-1", 3000), self.ended(self.a, "witness")
        self.fill_until_archived(self.a, self.a, self.b)
        self.assert_there(self.b, tokens)
        self.b.kill()
        self.a.restart()  # after its restart, a primary does not wait for the follower until the follower connects
        self.redact(self.a, "order-1")
        self.fill_until_archived(self.a, self.a)
        self.assert_there(self.b, tokens)
        self.b.start()
        self.wait_log(self.b, "event=snapshot_taken")
        self.b.restart()  # the restart may come before the erasure, during it, or after it
        self.wait_in_sync()
        self.wait_gone(self.b, tokens)
        self.assert_there(self.b, witness)
        self.assertNotIn("unerased", os.listdir(self.b.data))
        self.assertEqual((self.b.stop(), self.a.stop()), (0, 0))
        self.verify(self.a, self.b)


if __name__ == "__main__":
    harness.main()
