"""sp_test.py: nng's own transports for SP over TCP, TLS and IPC (--listen tcp://, tls+tcp://, ipc://), byte by byte.
foreign_test.py uses nng's own sockets.
"""
import os
import struct
import time

import harness
import tokens
import wire
from certificates import Authority
from harness import Case, wait_until
from wire import DENIED, HEARTBEAT, INVALID, LIST, NO_SUCH_SESSION, NOT_DONE, OK, PULL, REQ, Session, SpRpc, SpSocket

HEAD_S = 10  # DOOR_HEAD_S
REQUEST_SIZE_MAX = 16 << 20


class Sp(wire.Connects, Case):
    """A broker with one address of each kind. `where` is a port or a path."""
    autostart = False

    def setUp(self):
        super().setUp()
        self.path_of_ipc = os.path.join(self.directory, "nng.sock")
        self.broker.arguments += ["--listen", "tcp://127.0.0.1:0", "--listen", f"ipc://{self.path_of_ipc}"]
        self.start()

    def start(self):
        self.broker.start()
        url = next(url for url in self.broker.ready["urls"].split() if url.startswith("tcp://"))
        self.port = int(url.rsplit(":", 1)[1])

    def kept(self, peer):
        self.sockets.append(peer)
        return peer

    def places(self):
        for where in (self.port, self.path_of_ipc):
            with self.subTest(where=where):
                yield where


class Life(Sp):
    def test_a_task_goes_through_its_life(self):
        for where in self.places():
            rpc, lane = self.kept(SpRpc(where)), self.kept(SpSocket(where, PULL))
            queue = str(where)
            session, producer = Session(rpc, [queue]), rpc.hello()
            self.assertEqual(session.attach(lane), OK)
            rpc.ask(wire.COMMIT, wire.commit(producer, 1, [wire.schedule(queue, payload=b"x" * 900_000)]))
            delivery = wire.decode(lane.receive())
            self.assertEqual(wire.number(delivery, 1), session.id)
            task = wire.decode(delivery[3][0])
            self.assertIn(b"x" * 900_000, task[10][0])
            _, reply = rpc.ask(wire.COMMIT, wire.commit(producer, 2, [[(4, [(1, task[1][0]), (2, task[7][0])])]]))
            self.assertEqual(wire.number(wire.results(reply)[0], 1), OK)

    def test_requests_in_any_parts(self):
        for where in self.places():
            rpc = self.kept(SpRpc(where))
            packed = struct.pack(">I", 0x80000001) + wire.request(wire.HELLO, [])
            message = rpc.type + struct.pack(">Q", len(packed)) + packed
            for at in range(len(message)):
                rpc.peer.sendall(message[at:at + 1])
            self.assertEqual(rpc.hear()[:2], (1, OK))
            rpc.peer.sendall(message * 50)  # sends fifty messages in one write
            self.assertEqual([rpc.hear()[:2] for _ in range(50)], [(1, OK)] * 50)

    def test_a_hello_and_a_request_in_one_packet(self):
        for where in self.places():
            peer = self.kept(wire.connected(where))
            packed = struct.pack(">I", 0x80000001) + wire.request(wire.HELLO, [])
            kind = b"\1" if where == self.path_of_ipc else b""
            peer.sendall(wire.sp_hello(REQ) + kind + struct.pack(">Q", len(packed)) + packed)
            self.assertEqual(self.read(peer, 8), wire.sp_hello(wire.REP))
            self.assertEqual(self.read(peer, len(kind)), kind)
            size, = struct.unpack(">Q", self.read(peer, 8))
            self.assertEqual(self.read(peer, size)[:4], packed[:4])

    def read(self, peer, size):
        data = b""
        while len(data) < size:
            data += peer.recv(size - len(data)) or self.fail("closed by the broker")
        return data

    def test_the_lane_of_a_websocket_by_its_ticket(self):
        """Connects to /lane without a session's number, for libraries that cannot send a header. This also keeps the session's
        secret out of the URL.
        """
        rpc = self.rpc()
        lane = self.kept(wire.WebSocket(self.broker.port, "/lane", wire.LANE))
        self.assertTrue(lane.accepted, lane.answer)
        self.assertEqual(Session(rpc, ["q"]).attach(lane), OK)
        rpc.ask(wire.COMMIT, wire.commit(rpc.hello(), 1, [wire.schedule("q")]))
        self.assertEqual(len(wire.tasks(lane.receive())), 1)

    def test_a_new_connection_closes_the_old_one(self):
        rpc = self.kept(SpRpc(self.port))
        session = Session(rpc, ["q"])
        former, lane = self.kept(SpSocket(self.port, PULL)), self.kept(SpSocket(self.port, PULL))
        self.assertEqual(session.attach(former), OK)
        self.assertEqual(session.attach(lane), OK)
        self.assertTrue(former.is_closed_by_peer())

    def test_a_lost_lane_ends_the_session(self):
        rpc, lane = self.kept(SpRpc(self.port)), self.kept(SpSocket(self.port, PULL))
        session = Session(rpc, ["q"])
        self.assertEqual(session.attach(lane), OK)
        lane.close()
        wait_until("the session's end", lambda: rpc.ask(HEARTBEAT, [(1, session.id)])[0] == NO_SUCH_SESSION, 20)


class Tickets(Sp):
    def setUp(self):
        super().setUp()
        self.asks = self.kept(SpRpc(self.port))
        self.session = Session(self.asks, ["q"])
        self.lane = self.kept(SpSocket(self.port, PULL))
        self.ticket = wire.decode(self.lane.receive())[4][-1]

    def assert_refused(self, code, sentence, **options):
        self.assertEqual(self.session.attach(self.lane, **{"ticket": self.ticket, **options}), code)
        self.assertIn(sentence, self.asks.sentence)

    def test_each_connection_has_its_own(self):
        other = wire.decode(self.kept(SpSocket(self.port, PULL)).receive())[4][-1]
        self.assertEqual((len(self.ticket), len(other)), (24, 24))
        self.assertNotEqual(self.ticket[8:], other[8:])

    def test_a_wrong_one_attaches_nothing(self):
        for ticket in (self.ticket[:-1], self.ticket + b"x", self.ticket[:-1] + bytes([self.ticket[-1] ^ 1]), b"\xff" * 24, b"x"):
            self.assert_refused(NOT_DONE, "no connection waits with this ticket", ticket=ticket)
        self.assertEqual(self.session.attach(self.lane, self.ticket), OK)
        self.assert_refused(NOT_DONE, "no connection waits with this ticket")  # a ticket can be used only once

    def test_a_wrong_secret_attaches_nothing(self):
        other = Session(self.asks, ["q"])
        for secret in (other.secret, self.session.secret[:-1], b"x", b"x" * 4000):
            self.assert_refused(DENIED, "the secret is not that of the session", secret=secret)
        self.session.lane = 1 << 31
        self.assert_refused(DENIED, "the secret is not that of the session")
        self.session.lane = other.lane
        self.assert_refused(DENIED, "the secret is not that of the session")

    def test_what_is_missing(self):
        for fields, sentence in (([(3, b"x")], "ticket is missing"), ([(1, b"x")], "secret is missing")):
            self.assertEqual(self.asks.ask(wire.ATTACH, fields)[0], INVALID)
            self.assertEqual(self.asks.sentence, sentence)

    def test_a_closed_connection_cannot_be_attached(self):
        self.lane.close()
        wait_until("the end", lambda: self.session.attach(None, self.ticket) == NOT_DONE, 10)

    def test_a_consumer_that_sends_is_closed(self):
        for is_attached in (False, True):
            lane = self.kept(SpSocket(self.port, PULL))
            ticket = wire.decode(lane.receive())[4][-1]
            if is_attached:
                self.assertEqual(self.session.attach(lane, ticket), OK)
            lane.send(b"hello")
            self.assertTrue(lane.is_closed_by_peer())
        self.broker.wait_logged("a consumer must not send messages on its lane")


class ByTheFirstByte(Life):
    """The broker's HTTP and WebSocket addresses also serve nng's own transport for SP. They distinguish the protocols by the
    first byte: no HTTP request begins with a byte 0.
    """

    def start(self):
        path = os.path.join(self.directory, "http.sock")
        self.broker.arguments += ["--listen", f"unix://{path}"]
        super().start()
        self.port, self.path_of_ipc = self.broker.port, path

    def test_what_begins_otherwise_is_http(self):
        for where in self.places():
            peer = self.kept(wire.connected(where))
            peer.sendall(b"G")
            peer.sendall(b"ET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertIn(b"200 OK", peer.recv(4096))
            peer.sendall(wire.sp_hello(REQ))  # too late
            self.assertNotIn(b"SP", peer.recv(4096))

    def test_half_a_hello(self):
        peer = self.kept(wire.connected(self.port))
        peer.sendall(b"\0")
        peer.sendall(wire.sp_hello(REQ)[1:])
        self.assertEqual(self.read(peer, 8), wire.sp_hello(wire.REP))
        other = self.kept(wire.connected(self.port))
        other.sendall(b"\0GET / HTTP/1.1\r\n\r\n")
        self.assertEqual(other.recv(4096), b"")

    def test_tls_is_refused_with_a_reason(self):
        peer = self.kept(wire.connected(self.port))
        peer.sendall(b"\x16\x03\x01\x02\0")
        self.assertEqual(peer.recv(4096), b"")
        self.broker.wait_logged("connect to a wss:// address")


class Refused(Sp):
    """Sends bytes that are not SP, or that exceed a limit."""

    def assert_closed(self, peer, reason):
        self.assertTrue(peer.is_closed_by_peer())
        self.broker.wait_logged(reason)

    def test_other_protocols(self):
        for where in self.places():
            for number, sentence in ((32, "SP protocol is 32"), (wire.PUSH, "SP protocol is 80"), (65535, "SP protocol is 65535")):
                peer = self.kept(SpSocket(where, number))
                self.assertEqual(peer.answer, b"")
                self.assert_closed(peer, sentence)

    def test_what_is_no_hello(self):
        for where in self.places():
            for said in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0SP\1\0\x30\0\0", b"\0SP\0\0\x30\0\1", b"\x16\x03\x01", b"put 0 0 1 1\r\nx\r\n", b"\0SQ"):
                peer = self.kept(wire.connected(where))
                peer.sendall(said)
                self.assertEqual(peer.recv(100), b"", said)
        self.broker.wait_logged("does not speak nng's SP protocols")

    def test_a_message_that_is_too_large(self):
        for where in self.places():
            for size in (REQUEST_SIZE_MAX + 1, 1 << 63, (1 << 64) - 1):
                rpc = self.kept(SpRpc(where))
                rpc.peer.sendall(rpc.type + struct.pack(">Q", size))
                self.assert_closed(rpc, "a request may have at most 16 MiB")

    def test_a_message_without_a_request_id(self):
        for where in self.places():
            for message in (b"", b"\x80\0\0", b"\0\0\0\1" * 9):
                rpc = self.kept(SpRpc(where))
                rpc.send(message)
                self.assert_closed(rpc, "does not begin with the SP header")

    def test_another_type_of_ipc_message(self):
        rpc = self.kept(SpRpc(self.path_of_ipc))
        rpc.peer.sendall(b"\2")
        self.assert_closed(rpc, "a message over IPC must begin with a byte 1")

    def test_half_a_hello_and_a_lane_that_nobody_attaches_have_ten_seconds(self):
        before = time.monotonic()
        half, lane = self.kept(wire.connected(self.port)), self.kept(SpSocket(self.port, PULL))
        half.sendall(b"\0SP")
        lane.receive()
        half.settimeout(2 * HEAD_S)
        self.assertEqual(half.recv(1), b"")
        self.assertTrue(lane.is_closed_by_peer(2 * HEAD_S))
        self.assertGreater(time.monotonic() - before, HEAD_S - 1)
        self.broker.wait_logged("did not attach a lane")


class Access(Sp):
    """SP cannot carry a token, so a certificate or the socket's user identifies the client (docs/ACCESS.md)."""

    def setUp(self):
        Case.setUp(self)
        self.sockets = []
        self.path_of_ipc = os.path.join(self.directory, "nng.sock")
        known = os.path.join(self.directory, "tokens")
        rows = "loopback loopback roles=none\n" + tokens.row("worker", "produce,consume") + "certificate client roles=consume,produce\n"
        harness.make_private(known, tokens.FIRST_LINE + rows)
        self.authority = Authority(self.directory)
        certificate, key = self.authority.make("node")
        self.broker.arguments += ["--listen", "tcp://127.0.0.1:0", "--listen", f"ipc://{self.path_of_ipc}", "--listen", "tls+tcp://127.0.0.1:0",
                                  "--tokens", known, "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", self.authority.ca]
        self.start()

    def over_tls(self, certificate):
        url = next(url for url in self.broker.ready["urls"].split() if url.startswith("tls+tcp://"))
        context = self.authority.context()
        context.load_cert_chain(*self.authority.make(certificate))
        return self.kept(context.wrap_socket(wire.connected(int(url.rsplit(":", 1)[1])), server_hostname="localhost"))

    def test_a_client_that_shows_nothing_may_do_nothing(self):
        self.assertEqual(self.kept(SpRpc(self.port)).ask(wire.HELLO, [])[0], DENIED)

    def test_the_owner_over_ipc(self):
        rpc = self.kept(SpRpc(self.path_of_ipc))
        self.assertEqual(rpc.ask(wire.BACKUP, [(1, 1)])[0], OK)  # needs admin

    def test_a_certificate(self):
        rpc = SpRpc(self.over_tls("client"))
        self.assertEqual(rpc.ask(LIST, [(1, "q")])[0], DENIED)  # the client has no permission to read
        lane = SpSocket(self.over_tls("client"), PULL)
        self.assertEqual(Session(rpc, ["q"]).attach(lane), OK)
        rpc.ask(wire.COMMIT, wire.commit(rpc.hello(), 1, [wire.schedule("q", payload=b"y" * 300_000)]))
        self.assertEqual(len(wire.tasks(lane.receive())), 1)

    def test_a_certificate_without_a_row_may_do_nothing(self):
        self.assertEqual(SpRpc(self.over_tls("stranger")).ask(wire.HELLO, [])[0], DENIED)

    def test_an_address_of_a_network_needs_tls(self):
        refused = harness.Broker(os.path.join(self.directory, "other"), "--listen", "tcp://0.0.0.0:0")
        refused.launch()
        self.assertEqual(refused.process.wait(30), 1)
        refused.wait_logged("tcp:// does not encrypt: listen on tls+tcp://")


if __name__ == "__main__":
    harness.main()
