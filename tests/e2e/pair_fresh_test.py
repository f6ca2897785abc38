"""pair_fresh_test.py: freshness of a follower's answers: it answers as of a log position (at_least) or of a maximum age
(staleness), or says why it cannot. A client that passes on a position sees the commits acknowledged up to it."""
import time

import harness
import pair
import proxy
import wire


# TRUE-1
class Fresh(pair.Case):
    """The follower reaches its primary through the proxy `wire`, which can delay all bytes."""

    arguments = ("--failover-after", "30s", "--solo-after", "never")

    def setUp(self):
        super().setUp()
        at = self.b.arguments.index("--follow") + 1
        self.net = proxy.Proxy(int(self.b.arguments[at].rsplit(":", 1)[1]))
        self.addCleanup(self.net.close)
        self.b.arguments[at] = self.net.url

    def start_pair(self):
        super().start_pair()
        self.a.one("schedule", "orders", "--key", "first", "--in", "1h")
        self.wait_pending(self.b, 1)

    def write(self, key):
        """Schedules a task; returns the position below which it is recorded."""
        return int(self.a.one("schedule", "orders", "--key", key, "--in", "1h")["position"])

    def get(self, broker, key, *arguments):
        return broker.tarry("get", "orders", key, "--from-follower", *arguments)

    def test_a_follower_that_is_asked_for_a_position_shows_what_was_written(self):
        self.start_pair()
        for i in range(50):
            key = f"order-{i}"
            position = self.write(key)
            seen = self.get(self.b, key, "--at-least", str(position)).one
            self.assertTrue(seen["follower"] and int(seen["position"]) >= position, seen)
            self.assertEqual((seen["key"], seen["state"]), (key, "pending"))
        for command in (["list", "orders"], ["calendar"], ["queues"], ["stats"]):
            shown = self.b.ok(*command, "--from-follower", "--at-least", str(position))
            self.assertTrue(all(int(item["position"]) >= position for item in shown if "position" in item), shown)
        self.assertEqual(len(self.b.ok("list", "orders", "--from-follower", "--at-least", str(position))), 51)
        told = self.b.ok("history", "orders", "order-49", "--from-follower", "--at-least", str(position))
        self.assertEqual([fact["kind"] for fact in told], ["scheduled"])

    def test_every_answer_to_a_write_tells_its_position(self):
        self.start_pair()
        before = 0
        scheduled = self.a.one("schedule", "orders", "--key", "one", "--in", "1h")
        for answer in (scheduled, self.a.one("move", "orders", "one", "--in", "2h"), self.a.one("cancel", "orders", "one"),
                       self.a.one("queue", "set", "orders", "max_attempts=5"), self.a.one("queue", "pause", "orders"),
                       self.a.one("queue", "resume", "orders")):
            self.assertGreater(int(answer["position"]), before, answer)
            before = int(answer["position"])
        with wire.Rpc(self.a.port) as rpc:
            producer = rpc.hello()
            op = [wire.schedule("orders", key="again", delay_ms=3_600_000)]
            code, _ = rpc.ask(wire.COMMIT, wire.commit(producer, 1, op))
            self.assertEqual(code, wire.OK)
            self.assertGreater(wire.number(rpc.reply, 4), before)
            first = wire.number(rpc.reply, 4)
            rpc.ask(wire.COMMIT, wire.commit(producer, 1, op))  # the repeated commit gets the same reply, with a position that includes the commit
            self.assertGreaterEqual(wire.number(rpc.reply, 4), first)

    def test_a_position_that_a_follower_does_not_have_is_waited_for_and_then_refused(self):
        self.start_pair()
        self.wait_quiet()
        have = int(self.get(self.b, "first").one["position"])
        self.freeze_leader_word()
        # The leader does not acknowledge the commit, because the in-sync follower is unreachable. A query may still
        # require the commit's position, which the follower does not have yet.
        began = time.monotonic()
        refused = self.get(self.b, "first", "--at-least", str(have + 8), "--timeout", "1500ms")
        took_s = time.monotonic() - began
        self.assertEqual((refused.status, refused.one["code"]), (1, "behind"), refused)
        self.assertIn(f"up to position {have}", refused.err)
        self.assertIn(f"below {have + 8}", refused.err)
        self.assertTrue(1.0 < took_s < 6, took_s)
        waits = self.b.stream("get", "orders", "late", "--from-follower", "--at-least", str(have + 8), "--timeout", "20s")
        self.net.heal()
        position = self.write("late")
        seen = waits.next()
        self.assertGreaterEqual(int(seen["position"]), have + 8)
        self.assertEqual(waits.wait(), 0 if seen["state"] == "pending" else 1)
        self.assertEqual(self.get(self.b, "late", "--at-least", str(position)).one["state"], "pending")

    def freeze_leader_word(self):
        """Holds back everything that the primary sends to the follower from now on."""
        self.net.hold(proxy.DOWN)

    def test_a_primary_honours_a_position_and_refuses_what_lies_beyond_its_log(self):
        self.start_pair()
        position = self.write("one")
        for extra in ((), ("--from-follower",)):
            self.assertEqual(self.a.tarry("get", "orders", "one", "--at-least", str(position), "--staleness", "1ms", *extra).one["key"],
                             "one")
            began = time.monotonic()
            refused = self.a.tarry("get", "orders", "one", "--at-least", str(position + 10_000_000), *extra)
            self.assertLess(time.monotonic() - began, 5)
            self.assertEqual((refused.status, refused.one["code"]), (1, "behind"), refused)
            self.assertIn(f"below {position + 10_000_000}", refused.err)
            self.assertIn("ends at position", refused.err)

    def test_a_follower_proves_how_old_it_is_while_it_hears_its_primary(self):
        self.start_pair()
        time_s = time.monotonic()
        while time.monotonic() < time_s + 2:  # idle: the primary holds the follower's questions for a while
            for staleness in ("500ms", "50ms", "5ms"):
                seen = self.get(self.b, "first", "--staleness", staleness)
                self.assertEqual(seen.status, 0, seen)
        for command in (["list", "orders"], ["queues"], ["stats"], ["history", "orders", "first"]):
            self.assertTrue(self.b.ok(*command, "--from-follower", "--staleness", "100ms"))
        with wire.Rpc(self.b.port) as rpc:
            code, _ = rpc.ask_packed(wire.wish(wire.QUEUES, [], staleness_ms=100, wait_ms=500))
            self.assertEqual(code, wire.OK)
            self.assertTrue(1 <= wire.number(rpc.reply, 8) <= 100, rpc.reply)

    def test_a_follower_that_is_cut_off_refuses_what_it_cannot_prove(self):
        self.start_pair()
        self.assertEqual(self.get(self.b, "first", "--staleness", "500ms").status, 0)
        self.freeze_leader_word()

        def refuses():
            answer = self.get(self.b, "first", "--staleness", "500ms")
            return answer if answer.status != 0 else None

        refused = self.wait_for("it refuses", refuses)
        self.assertEqual((refused.status, refused.one["code"]), (1, "too_old"), refused)
        self.assertIn("cannot prove", refused.err)
        self.assertIn("at most 500 ms old", refused.err)
        self.assertIn("has the log up to position", refused.err)
        self.assertEqual(self.get(self.b, "first").status, 0)  # a question without a freshness demand is answered
        self.assertEqual(self.get(self.b, "first", "--staleness", "1h").status, 0)
        self.net.heal()
        self.wait_for("it proves again", lambda: self.get(self.b, "first", "--staleness", "500ms").status == 0)

    def test_what_lay_in_a_socket_proves_nothing_younger(self):
        """The follower is stopped while a reply of the primary is unread in its socket. The reply proves that the follower was
        fresh at the time of its question, and not at the time at which it reads the reply.
        """
        self.start_pair()
        self.freeze_leader_word()
        self.wait_for("it refuses", lambda: self.get(self.b, "first", "--staleness", "200ms").status != 0)
        with wire.Rpc(self.b.port) as rpc:
            self.freeze(self.b)
            self.net.heal()  # now the primary's held messages arrive at b, and no new ones, because the stopped b sends no question
            time.sleep(1.5)
            self.net.hold()
            self.thaw(self.b)
            code, _ = rpc.ask_packed(wire.wish(wire.QUEUES, [], staleness_ms=1000))  # b may answer without waiting
            self.assertEqual(code, wire.TOO_OLD)
            code, _ = rpc.ask(wire.QUEUES, [])
            self.assertEqual(code, wire.OK)

    def test_a_stopped_primary_leaves_a_follower_unproved(self):
        self.start_pair()
        self.freeze(self.a)
        refused = self.wait_for("it refuses",
                                lambda: (answer := self.get(self.b, "first", "--staleness", "300ms")).status != 0 and answer)
        self.assertEqual(refused.one["code"], "too_old")
        self.thaw(self.a)
        self.wait_for("it proves again", lambda: self.get(self.b, "first", "--staleness", "300ms").status == 0)

    def test_what_makes_no_sense_is_refused(self):
        self.start_pair()
        with wire.Rpc(self.b.port) as rpc:
            self.assertEqual(rpc.ask_packed(wire.wish(wire.QUEUES, [], at_least=4096, wait_ms=2001))[0], wire.INVALID)
            self.assertIn("2 s", rpc.sentence)
        with wire.Rpc(self.a.port) as rpc:
            self.assertEqual(rpc.ask_packed(wire.wish(wire.HELLO, [], at_least=4096))[0], wire.INVALID)
        self.assertEqual(self.a.tarry("get", "orders", "first", "--staleness", "0s").status, 2)
        self.assertEqual(self.a.tarry("get", "orders", "first", "--at-least", "x").status, 2)

    def test_a_follower_that_stops_tells_those_who_wait(self):
        self.start_pair()
        have = int(self.get(self.b, "first").one["position"])
        with wire.Rpc(self.b.port) as rpc:
            rpc.tell_packed(wire.wish(wire.QUEUES, [], at_least=have + 1_000_000, wait_ms=2000))
            rpc.tell(wire.STATS, [])
            self.assertEqual(rpc.hear()[:2], (2, wire.OK))  # the second question is answered while the first one still waits
            began = time.monotonic()
            self.assertEqual(self.b.stop(), 0)
            self.assertLess(time.monotonic() - began, 10)
            self.assertEqual(rpc.hear()[1], wire.STOPPING)


class Alone(harness.Case):
    def test_a_broker_alone_honours_a_position(self):
        position = int(self.broker.one("schedule", "orders", "--key", "one", "--in", "1h")["position"])
        seen = self.broker.tarry("get", "orders", "one", "--at-least", str(position), "--staleness", "1ms")
        self.assertEqual(seen.one["key"], "one")
        refused = self.broker.tarry("get", "orders", "one", "--at-least", str(position + 8_000_000))
        self.assertEqual((refused.status, refused.one["code"]), (1, "behind"), refused)
        self.assertIn("ends at position", refused.err)


if __name__ == "__main__":
    harness.main()
