"""nuisance_test.py: clients with a token that try to use objects of other clients, and clients that stay connected although
their permission was withdrawn (F-23). Each has a name and roles in the file of tokens; the honest client (stranger.Hostile)
has a token too.
"""
import os
import socket
import struct
import time

from stranger import BINARY, WAIT_S, Hostile, frame, hello
import harness
import tokens
import wire
from harness import main
from tokens import row
from wire import COMMIT, DENIED, FORGOTTEN, GET, LIST, NO_SUCH_SESSION, OK, STALE_TOKEN, SUBSCRIBE, UNSUBSCRIBE, number, results

HONEST = row("honest", "produce,consume,read,operate")
SHOP = row("shop", "produce,consume,read", "queue=orders.", "queue=shared")
SPY = row("spy", "produce,consume,read,operate,admin", "queue=spies.", "queue=shared")
NOBODY = "loopback loopback roles=none\n"
EXPIRES_S = 4
DOOR_UNREAD_S = 10  # broker/net/door.h


class Nuisance(Hostile):
    rows = (HONEST, SHOP, SPY, NOBODY)

    def write(self, *rows):
        harness.make_private(self.path("known.new"), tokens.FIRST_LINE + "".join(rows))
        os.rename(self.path("known.new"), self.path("known"))

    def make_broker(self, *arguments, **options):
        self.write(*self.rows)
        return super().make_broker("--tokens", self.path("known"), *arguments, **options)

    def rpc(self):
        return self.of("honest")

    def of(self, name):
        rpc = wire.Rpc(self.broker.port, tokens.text_of(name))
        self.addCleanup(rpc.close)
        return rpc

    def ask(self, rpc, *ops):
        """Returns the codes of the operations of one commit."""
        commit = wire.commit(rpc.hello(), 1, list(ops))
        code, reply = rpc.ask(COMMIT, commit)
        while code == wire.BUSY:  # a new log's next segment may not be ready yet
            time.sleep(0.05)
            code, reply = rpc.ask(COMMIT, commit)
        self.assertEqual(code, OK, rpc.sentence)
        return [number(result, 1) for result in results(reply)]

    def leave(self, *rpcs):
        """Closes the connections before the final check counts them."""
        for rpc in rpcs:
            rpc.close()


class Others(Nuisance):
    """Another client's queue, task, session, lane and lease are used in the same way as by their owner, by a client with its
    own token and all roles.
    """

    def test_anothers_lane(self):
        """F-23: another client's lane opens neither with an own token nor with an own secret, and the shop's consumer loses
        nothing.
        """
        shop, spy = self.of("shop"), self.of("spy")
        session, own = wire.Session(shop, ["orders.new"]), wire.Session(spy, ["spies.x"])
        wrong = {"his token": tokens.text_of("spy"), "the shop's token": tokens.text_of("shop"), "his secret": own.secret.hex(), "none": "",
                 "a bit off": bytes([session.secret[0] ^ 1, *session.secret[1:]]).hex(), "the shop's secret behind his token":
                 f"{tokens.text_of('spy')}\r\nAuthorization: Bearer {session.secret.hex()}"}
        for name, secret in wrong.items():
            with self.subTest(name), session.dial(secret=secret) as thief:
                self.assertFalse(thief.accepted)
                self.assertIn(b" 400 " if "\r" in secret else b" 401 ", thief.answer.split(b"\r\n")[0])
        with session.dial() as lane:
            self.assertTrue(lane.accepted)
            self.assertEqual(self.ask(shop, wire.schedule("orders.new", "k", 0, b"for the shop")), [OK])
            self.assertIn(b"for the shop", lane.receive(WAIT_S))
            for name, secret in wrong.items():
                with session.dial(secret=secret) as thief:
                    self.assertFalse(thief.accepted, name)
            self.assertFalse(lane.is_closed_by_peer(0.2), "the one who is there was closed for somebody who was refused")
        self.leave(shop, spy)

    def test_anothers_queue_and_task(self):
        shop, spy = self.of("shop"), self.of("spy")
        code, reply = shop.ask(COMMIT, wire.commit(shop.hello(), 1, [wire.schedule("orders.new", "k", 3_600_000)]))
        self.assertEqual(code, OK)
        task = number(results(reply)[0], 3)
        for where in ([(1, task)], [(2, "orders.new"), (3, "k")]):
            codes = self.ask(spy, [(2, [(1, where)])], [(3, [(1, where), (2, [(2, 5)])])], [(8, [(2, where)])], [(12, [(1, where), (2, "curious")])],
                             wire.schedule("orders.new", "k", 0), [(10, [(1, "orders.new")])], [(11, [(1, "orders.new")])])
            self.assertEqual(set(codes), {DENIED}, codes)
            self.assertEqual(spy.ask(GET, [(1, where)])[0], DENIED)
        for body, fields in ((SUBSCRIBE, [(1, "orders.new")]), (LIST, [(1, "orders.new")])):
            self.assertEqual(spy.ask(body, fields)[0], DENIED)
        self.assertEqual(shop.ask(GET, [(1, [(1, task)])])[0], OK)
        self.leave(shop, spy)

    def test_anothers_lease(self):
        """F-23: two clients may use the same queue. One client tries to guess the other client's lease token, which consists
        of two small numbers.
        """
        shop, spy = self.of("shop"), self.of("spy")
        session = wire.Session(shop, ["shared"], lease_ms=3_600_000)
        with session.dial() as lane:
            self.assertEqual(self.ask(shop, wire.schedule("shared", "k")), [OK])
            task, = wire.tasks(lane.receive(WAIT_S))
            lease = [(1, number(task, 1)), (2, wire.encode([(1, number(wire.decode(task[7][-1]), 1)), (2, number(wire.decode(task[7][-1]), 2))]))]
            codes = self.ask(spy, [(4, lease)], [(5, lease)], [(5, [*lease, (5, 1)])], [(6, [*lease, (3, 60_000)])], [(7, lease)])
            self.assertLessEqual(set(codes), {DENIED, STALE_TOKEN}, codes)
            self.assertEqual(self.ask(shop, [(4, lease)]), [OK])
        self.leave(shop, spy)

    def test_anothers_session_and_producer(self):
        shop, spy = self.of("shop"), self.of("spy")
        session, producer = wire.Session(shop, ["shared"]), shop.hello()
        self.assertEqual(shop.ask(COMMIT, wire.commit(producer, 1, [wire.schedule("shared", "k", 3_600_000)]))[0], OK)
        for _ in range(3):
            spy.ask(UNSUBSCRIBE, [(1, session.id)])
            self.assertEqual(spy.ask(wire.HEARTBEAT, [(1, session.id)])[0], NO_SUCH_SESSION)
            self.assertEqual(spy.ask(SUBSCRIBE, [(1, "shared"), (5, session.secret)])[0], NO_SUCH_SESSION)
            spy.ask(wire.GOODBYE, [(1, producer)])
            self.assertEqual(spy.ask(COMMIT, wire.commit(producer, 1, [wire.schedule("shared", "k", 3_600_000)]))[0], FORGOTTEN)
        self.assertEqual(session.heartbeat(), OK)
        code, reply = shop.ask(COMMIT, wire.commit(producer, 1, [wire.schedule("shared", "k", 3_600_000)]))
        self.assertEqual((code, number(results(reply)[0], 1)), (OK, OK), "the shop's answer is not there any more")
        self.leave(shop, spy)


class Gone(Nuisance):
    """A client whose permission ends is disconnected in whatever state it is: half of a request, unread answers or deliveries,
    silence.
    """

    PAYLOAD = b"x" * 900_000

    def hang_on(self):
        """Opens connections of the shop, each in a different state."""
        shop = self.of("shop")
        self.assertEqual(self.ask(shop, wire.schedule("shared", "large", 3_600_000, self.PAYLOAD)), [OK])
        for _ in range(8):
            self.assertEqual(self.ask(shop, wire.schedule("orders.new", "", 0, self.PAYLOAD)), [OK])
        session = wire.Session(shop, ["orders.new"], prefetch=8, lease_ms=3_600_000)
        peers = {"silent": shop.peer, "an unread lane": session.dial(receive_buffer=4096).peer}
        question = frame(BINARY, struct.pack(">I", 0x80000001) + wire.request(GET, [(1, [(2, "shared"), (3, "large")]), (2, 1)]))
        for name, sent in {"half a request": [frame(BINARY, hello(1), fin=False)], "half a frame": [frame(BINARY, hello(1))[:9]],
                           "not read from, for he leaves 4 MiB of answers unread": [question] * 20}.items():
            peer = wire.WebSocket(self.broker.port, headers=wire.bearer(tokens.text_of("shop")), receive_buffer=4096)
            self.assertTrue(peer.accepted)
            for part in sent:
                peer.peer.sendall(part)
                time.sleep(0.03)  # pauses, because requests that are sent together would be BUSY
            peers[name] = peer.peer
        self.assertNotEqual(peers["an unread lane"].recv(1, socket.MSG_PEEK), b"")  # a part of the delivery has been sent, so it counts as an attempt
        return peers

    def assert_gone(self, peers, wait_s=DOOR_UNREAD_S - 2):
        """The broker ends the connections before their time limits, and another consumer gets the tasks."""
        harness.wait_until("the broker has let go of them", lambda: self.broker.sockets() <= self.descriptors, wait_s)
        for peer in peers.values():
            peer.close()
        other = self.of("other")
        session = wire.Session(other, ["orders.new"], prefetch=8)
        with session.dial() as lane:
            self.assertIn(2, [number(task, 5) for task in wire.tasks(lane.receive(WAIT_S))], "attempts")
        with wire.WebSocket(self.broker.port, headers=wire.bearer(tokens.text_of("shop"))) as upgrade:
            self.assertIn(b" 401 ", upgrade.answer)
        self.leave(other)


    def assert_lane_is_shut(self, session):
        """A session without a lane stays until its silence limit. Its secret opens no lane, neither in the head nor in the
        path.
        """
        secret = session.secret.hex()
        for path, headers in ((f"/lane/{session.lane}", wire.bearer(secret)), (f"/lane/{session.lane}/{secret}", [])):
            with wire.WebSocket(self.broker.port, path, wire.LANE, headers) as lane:
                self.assertIn(b" 401 ", lane.answer)
        self.assert_logged("event=access_refused")  # The broker refuses the connection because of the wrong secret, not because the secret is missing.
        self.assertNotIn("event=lane_refused", self.broker.log_text(1000))


class Revoked(Gone):
    rows = (HONEST, SHOP, row("other", "consume"), NOBODY)

    def test_a_lane_that_was_not_there_yet(self):
        """F-23."""
        shop = self.of("shop")
        session = wire.Session(shop, ["orders.new"])
        self.write(HONEST, row("other", "consume"), NOBODY)
        self.assertTrue(shop.is_closed_by_peer(WAIT_S))
        self.assert_lane_is_shut(session)
        self.leave(shop)

    def test_revoked(self):
        """F-23."""
        peers = self.hang_on()
        self.assertGreater(self.broker.sockets(), self.descriptors)
        self.write(HONEST, row("other", "consume"), NOBODY)
        self.assert_gone(peers)


class Expired(Gone):
    @property
    def rows(self):
        self.end_s = int(time.time()) + EXPIRES_S + (6 if harness.SANITIZED else 0)
        return HONEST, row("shop", "produce,consume,read", "queue=orders.", "queue=shared", f"expires={self.end_s}"), row("other", "consume"), NOBODY

    def test_expired(self):
        """F-23."""
        peers = self.hang_on()
        self.assertLess(time.time(), self.end_s, "this machine was too slow for it")
        self.assert_gone(peers, self.end_s - time.time() + DOOR_UNREAD_S - 2)

    def test_a_lane_that_was_not_there_yet(self):
        """F-23."""
        shop = self.of("shop")
        session = wire.Session(shop, ["orders.new"])
        self.assertTrue(shop.is_closed_by_peer(WAIT_S))
        self.assert_lane_is_shut(session)
        self.leave(shop)


if __name__ == "__main__":
    main()
