"""pair_paused_test.py: without a coordinator, an operator makes the follower lead while the primary is paused or cut off, and
the primary continues in the middle of its work. It returns as the follower by itself (R7, R8, F-24, F-26)."""
import http.client
import json
import os
import select
import signal
import socket
import time

import harness
import pair
import proxy
from pair_modes_test import IN_SYNC, status
from ports import free_port

NEW_EPOCH = 3  # node 0 led epoch 2; odd epochs are node 1's
SERVES_ALONE = "served alone"
STOP_MAX_S = 10


class Case(pair.Case):
    """Each node reaches the other through its own proxy, which can cut the connection."""

    coordinated = False
    arguments = ("--failover-after", "1s")

    def setUp(self):
        super().setUp()
        self.a_to_b, self.b_to_a = self.route(self.a, "--peer"), self.route(self.b, "--follow")

    def route(self, broker, option):
        at = broker.arguments.index(option) + 1
        net = proxy.Proxy(int(broker.arguments[at].rsplit(":", 1)[1]))
        self.addCleanup(net.close)
        broker.arguments[at] = net.url
        return net

    def start_pair(self):
        self.a.start()
        self.b.start()
        self.wait_log(self.a, "event=leading")
        self.a.ok("schedule", "orders", "--key", "first", "--in", "1h")
        self.wait_pending(self.b, 1)
        self.wait_for("the follower knows", lambda: status(self.b).get(IN_SYNC))

    def lag(self, broker):
        """Returns how many bytes of this node's log the other node lacks."""
        return broker.tarry("status").one["peer"]["lag_bytes"]

    def lacks(self, broker):
        return self.lag(broker) > 0

    def cut(self):
        for net in (self.a_to_b, self.b_to_a):
            net.hold()

    def heal(self, *nets):
        """Restores the connections through these proxies. Requests on the way are lost."""
        for net in nets or (self.a_to_b, self.b_to_a):
            net.cut()
            net.heal()

    def state(self, broker):
        return broker.tarry("status").one

    def roles(self):
        return [self.state(broker)["role"] for broker in (self.a, self.b)]

    def wait_roles(self, a, b, wait_s=20):
        self.wait_for(f"{a} and {b}", lambda: self.roles() == [a, b], wait_s)

    def promote(self):
        """Promotes `b` with --peer-is-stopped. As far as the operator can know, `a` is stopped."""
        self.b.ok("promote", "--peer-is-stopped")
        self.wait_log(self.b, "event=leading")
        self.b.ok("schedule", "orders", "--key", "second", "--in", "1h")

    def check_both_follow_one(self):
        self.wait_roles("follower", "primary")
        self.assertEqual(self.state(self.b)["epoch"], NEW_EPOCH)
        self.wait_for("in sync", lambda: [broker.tarry("status").status for broker in (self.a, self.b)] == [0, 0])
        self.wait_pending(self.a, 2)
        self.b.ok("schedule", "orders", "--key", "third", "--in", "1h")


class Returns(Case):
    def test_a_primary_that_was_paused_comes_back_as_the_follower(self):  # F-26
        self.start_pair()
        self.freeze(self.a)
        self.promote()
        self.thaw(self.a)
        self.check_both_follow_one()

    def test_what_it_alone_had_is_put_aside(self):  # R8
        self.start_pair()
        self.freeze(self.b)
        write = self.a.stream("schedule", "orders", "--key", "unconfirmed", "--in", "1h", "--timeout", "60s")
        begin = self.a.tarry("status").one["durable"]
        self.wait_for("it is written", lambda: self.a.tarry("status").one["durable"] > begin or self.lacks(self.a))
        self.freeze(self.a)
        self.thaw(self.b)
        self.promote()
        self.thaw(self.a)
        self.check_both_follow_one()
        self.wait_log(self.a, "event=tail_quarantined")
        self.assertTrue(os.listdir(os.path.join(self.a.data, "quarantine")))
        write.kill()

    def test_a_primary_that_was_cut_off_comes_back_as_the_follower(self):  # F-24
        self.start_pair()
        self.cut()
        self.promote()
        self.heal()
        self.check_both_follow_one()

    def test_the_way_from_the_old_primary_is_enough(self):  # F-15
        """Only the connection from the old primary is restored. The old primary asks over it, and learns that another node
        leads.
        """
        self.start_pair()
        self.cut()
        self.promote()
        self.heal(self.a_to_b)
        self.check_both_follow_one()

    def test_the_way_from_the_new_primary_is_enough(self):  # F-15
        """Only the connection from the new primary is restored. Over it the old primary learns that another node leads, and
        restarts; then it waits until it can connect.
        """
        self.start_pair()
        self.cut()
        self.promote()
        self.heal(self.b_to_a)
        self.wait_log(self.a, "event=deposed")
        self.assertNotEqual(self.state(self.a)["role"], "primary")
        self.heal(self.a_to_b)
        self.check_both_follow_one()

    def test_a_new_primary_that_starts_again_leads_all_the_same(self):
        """The old primary still believes that it leads when it meets the restarted new primary. It is idle."""
        self.start_pair()
        self.freeze(self.a)
        self.promote()
        self.b.kill()
        self.thaw(self.a)
        self.b.start()
        self.wait_for("b leads", lambda: self.roles() == ["follower", "primary"])
        self.wait_pending(self.a, 2)


class Words(Case):
    def test_a_word_against_a_primary_that_answers_is_refused(self):
        self.start_pair()
        for word in ("--peer-is-stopped", "--force"):
            refused = self.b.refused("promote", word).err
            self.assertIn("the other node leads epoch 2: the other node answers, so it is not stopped", refused)
        self.assertEqual(self.roles(), ["primary", "follower"])

    def test_the_old_primary_takes_no_word_while_the_new_one_answers(self):
        self.start_pair()
        self.freeze(self.a)
        self.promote()
        self.thaw(self.a)
        refused = self.a.tarry("promote", "--peer-is-stopped")
        self.assertNotEqual(refused.status, 0, refused)
        self.check_both_follow_one()

    def test_a_wrong_word_leaves_one_primary_and_says_what_to_do(self):
        """The operator promoted both nodes while they could not reach each other, so two primaries exist for a while."""
        self.start_pair()
        self.cut()
        self.wait_for("it is missed", lambda: self.state(self.a)["problem"])
        self.a.ok("promote", "--peer-is-stopped")
        self.a.ok("schedule", "orders", "--key", "lost", "--in", "1h")
        self.promote()
        self.heal()
        self.wait_for("one primary", lambda: self.roles() == ["looking", "primary"])
        problem = self.wait_for("it is named", lambda: (text := self.state(self.a)["problem"]) and SERVES_ALONE in text and text)
        self.assertIn(f"the other node leads epoch {NEW_EPOCH}: ", problem)
        self.assertIn("--follow", problem)
        for word in ("--peer-is-stopped", "--force"):
            self.assertIn(f"leads epoch {NEW_EPOCH}: the other node answers", self.a.refused("promote", word).err)
        self.b.ok("schedule", "orders", "--key", "third", "--in", "1h")
        self.assertEqual(self.roles(), ["looking", "primary"])


class Stops(Case):
    """SIGTERM ends a node within a limited time in any state."""

    def check_stop(self, broker):
        began = time.monotonic()
        broker.process.send_signal(signal.SIGTERM)
        status_of_process = broker.process.wait(60)
        self.assertLess(time.monotonic() - began, STOP_MAX_S, broker.log_text())
        self.assertEqual(status_of_process, 0, broker.log_text())

    def unconfirmed(self):
        """Makes `a` a primary with a written commit that its stopped follower has not confirmed."""
        self.start_pair()
        self.freeze(self.b)
        write = self.a.stream("schedule", "orders", "--key", "unconfirmed", "--in", "1h", "--timeout", "60s")
        self.addCleanup(write.kill)
        self.wait_for("it waits", lambda: self.lacks(self.a))

    def test_a_primary_that_waits_for_its_follower(self):
        self.unconfirmed()
        self.check_stop(self.a)

    def test_a_primary_that_waits_and_has_stalled(self):
        self.unconfirmed()
        self.wait_log(self.a, "event=follower_awaited")
        self.check_stop(self.a)

    def test_a_primary_that_another_node_has_overtaken(self):
        self.start_pair()
        self.cut()
        write = self.a.stream("schedule", "orders", "--key", "unconfirmed", "--in", "1h", "--timeout", "60s")
        self.addCleanup(write.kill)
        self.promote()
        self.check_stop(self.a)

    def test_a_primary_without_anything_to_do_and_without_its_follower(self):
        self.start_pair()
        self.freeze(self.b)
        self.check_stop(self.a)

    def test_a_primary_that_serves_alone(self):
        self.start_pair()
        self.freeze(self.b)
        self.a.ok("promote", "--peer-is-stopped")
        self.check_stop(self.a)

    def test_a_follower_whose_primary_is_paused(self):
        self.start_pair()
        self.freeze(self.a)
        self.check_stop(self.b)

    def test_a_follower_whose_primary_is_cut_off(self):
        self.start_pair()
        self.cut()
        self.check_stop(self.b)

    def test_a_quiet_node(self):
        self.a.start()
        self.check_stop(self.a)

    def test_a_node_that_waits_for_a_promise(self):
        self.start_pair()
        self.b.kill()
        self.a.kill()
        self.a.start()
        self.check_stop(self.a)

    def test_a_quiet_node_of_two_that_have_both_served_alone(self):
        self.start_pair()
        self.cut()
        self.a.ok("promote", "--peer-is-stopped")
        self.promote()
        self.heal()
        self.wait_for("one primary", lambda: self.roles() == ["looking", "primary"])
        self.check_stop(self.a)
        self.check_stop(self.b)

    def test_a_node_that_hands_over_to_one_that_stands_still(self):
        self.start_pair()
        self.freeze(self.b)
        demotes = self.a.stream("demote", "--wait", "30s")
        self.addCleanup(demotes.kill)
        self.check_stop(self.a)

    def test_a_primary_whose_deliveries_wait_for_its_follower(self):  # LOG-1
        """Deliveries that become due, or were leased ahead of time, are not sent, because the stopped follower does not
        confirm their leases.
        """
        self.start_pair()
        consumer = self.a.stream("consume", "work")
        self.addCleanup(consumer.kill)
        for i in range(20):
            self.a.ok("schedule", "work", "--in", f"{1000 + 50 * i}ms")
        consumer.next()
        self.freeze(self.b)
        self.wait_for("a lease is written", lambda: self.lacks(self.a))
        self.wait_log(self.a, "event=follower_awaited")
        self.check_stop(self.a)

    def test_a_node_with_a_word_that_waits(self):
        self.start_pair()
        self.freeze(self.b)
        word = self.a.stream("promote", "--peer-is-stopped")
        self.addCleanup(word.kill)
        self.check_stop(self.a)


class Unknown(Case):
    """ONCE-1: a client is never told *not done* if the outcome of its request is unknown."""

    def setUp(self):
        super().setUp()
        self.jobs_ports = {}
        for broker in (self.a, self.b):
            self.jobs_ports[broker] = free_port()
            broker.arguments += ["--listen", f"beanstalk://127.0.0.1:{self.jobs_ports[broker]}"]

    def jobs(self, commands, broker=None):
        peer = socket.create_connection(("127.0.0.1", self.jobs_ports[broker or self.a]))
        self.addCleanup(peer.close)
        peer.settimeout(60)
        peer.sendall(commands)
        return peer

    def line(self, peer):
        text = b""
        while not text.endswith(b"\r\n"):
            part = peer.recv(1)
            self.assertTrue(part, text)
            text += part
        return text.split()

    def reserved(self):
        """Returns a connection with a reserved job, and the job's id."""
        peer = self.jobs(b"put 0 0 60 1\r\nx\r\nreserve\r\n")
        self.assertEqual(self.line(peer)[0], b"INSERTED")
        number = self.line(peer)[1]
        self.assertEqual(self.line(peer), [b"x"])
        return peer, number

    def check_closed(self, peer):
        """Checks that the connection ends without a reply: each error reply would say that nothing was done."""
        try:
            self.assertEqual(peer.recv(100), b"")
        except ConnectionResetError:
            pass

    def write_unconfirmed(self, puts):
        """Makes the primary write a put that the follower has not received. Returns whether the primary wrote it. After 1 s
        without its follower a primary refuses new requests, and a slow machine may need longer to send the put.
        """
        self.wait_quiet()
        self.freeze(self.b)
        other = self.a.stream("schedule", "orders", "--in", "1h", "--timeout", "60s")  # sent as the reply to the follower's last question
        self.addCleanup(other.kill)
        self.wait_for("the other write waits", lambda: self.lacks(self.a))
        lag = self.lag(self.a)
        puts.sendall(b"put 0 0 60 3\r\nabc\r\n")
        self.wait_for("the put waits, or is refused", lambda: self.lag(self.a) > lag or select.select([puts], [], [], 0)[0])
        if not select.select([puts], [], [], 0)[0]:
            return True
        self.assertEqual(self.line(puts), [b"OUT_OF_MEMORY"])
        self.thaw(self.b)
        return False

    def put_over_a_failover(self, end_primary):
        """The other node is promoted while the primary waits for the confirmation of a put. `end_primary` then lets the former
        primary continue, or kills it.
        """
        self.start_pair()
        puts = self.jobs(b"put 0 0 60 1\r\nx\r\n")
        self.assertEqual(self.line(puts)[0], b"INSERTED")  # at the first write, the gateway creates its own producer
        while not self.write_unconfirmed(puts):
            pass
        self.freeze(self.a)
        self.thaw(self.b)
        self.promote()
        end_primary()
        self.check_closed(puts)
        self.assertEqual(self.line(self.jobs(b"put 0 0 60 3\r\nabc\r\n", self.b))[0], b"INSERTED")

    def test_a_put_whose_primary_is_deposed(self):
        self.put_over_a_failover(lambda: self.thaw(self.a))
        self.wait_log(self.a, "event=deposed")

    def test_a_put_whose_primary_is_killed(self):
        self.put_over_a_failover(self.a.kill)

    def test_a_stop_that_no_follower_confirms(self):
        self.start_pair()
        (deletes, one), (releases, two), (buries, three) = self.reserved(), self.reserved(), self.reserved()
        self.freeze(self.b)
        deletes.sendall(b"delete %s\r\n" % one)
        releases.sendall(b"release %s 0 0\r\n" % two)
        buries.sendall(b"bury %s 0\r\n" % three)
        puts = self.jobs(b"put 0 0 60 3\r\nabc\r\n")
        kicks = self.jobs(b"put 0 3600 60 1\r\ny\r\nkick 1\r\n")
        web = http.client.HTTPConnection("127.0.0.1", int(self.a.listen.rsplit(":", 1)[1]), timeout=60)
        self.addCleanup(web.close)
        web.request("POST", "/v1/queues/orders/tasks", '{"delay_ms": 3600000}', {"Content-Type": "application/json"})
        self.wait_for("they wait", lambda: self.lacks(self.a))
        self.wait_log(self.a, "event=follower_awaited")
        self.a.process.send_signal(signal.SIGTERM)
        for peer in (deletes, releases, buries, puts, kicks):
            self.check_closed(peer)
        answer = web.getresponse()
        problem = json.loads(answer.read())
        self.assertEqual((answer.status, problem["code"]), (500, "failed"))
        self.assertIn("whether it took effect is unknown", problem["detail"])
        self.assertEqual(self.a.process.wait(60), 0)


if __name__ == "__main__":
    harness.main()
