"""rest_test.py: the door's thread sleeps when it has nothing to do. If a descriptor stayed ready without being handled (level-
triggered poll), the thread would run in a busy loop. The test tries each state of a connection, a listener and the link to
the other node in which that could happen, and measures the CPU time of tarryd's network threads for a second.
"""
import base64
import contextlib
import hashlib
import os
import re
import resource
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

from stranger import BINARY, CLOSE, PING, TEXT, WAIT_S, Stranger, frame, hello, statuses, upgrade_head
import harness
import wire
from certificates import Authority
from harness import main

MEASURED_S = 1
BUSY_S = 0.4 if harness.SANITIZED else 0.12  # limit of CPU time in seconds; a busy loop uses at least half of the measured second, even on a busy machine
THREADS = ("tarry-net", "tarry-net-2")
QUEUES = 400  # their /metrics are several times larger than a Unix socket's buffer


def accepted(head):
    """Returns a broker's answer to this upgrade."""
    key = re.search(rb"Sec-WebSocket-Key: (\S+)", head, re.I).group(1) + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    protocol = re.search(rb"Sec-WebSocket-Protocol: (\S+)", head, re.I).group(1)
    return (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
            + base64.b64encode(hashlib.sha1(key).digest()) + b"\r\nSec-WebSocket-Protocol: " + protocol + b"\r\n\r\n")


def silent(peer):
    """Reads without sending, until the other side ends the connection."""
    while peer.recv(65536):
        pass


class Rest(harness.Case):
    def setUp(self):
        super().setUp()
        self.peers = []

    def make_broker(self, *arguments, **options):
        broker = super().make_broker("--listen", f"unix://{self.path('socket')}", *arguments, **options)
        broker.env = {**broker.env, **harness.preloaded("libhold_sync.so"), "HOLD_SYNC_FILE": self.path("held")}
        return broker

    def tearDown(self):
        for peer in self.peers:
            peer.close()
        super().tearDown()

    def spent_s(self):
        """Returns the CPU time of the network's threads so far."""
        directory, total = f"/proc/{self.broker.process.pid}/task", 0
        for task in os.listdir(directory):
            with open(f"{directory}/{task}/comm", encoding="ascii") as name, open(f"{directory}/{task}/schedstat", encoding="ascii") as spent:
                total += int(spent.read().split()[0]) if name.read().strip() in THREADS else 0
        return total / 1e9

    def assert_rests(self, seconds=MEASURED_S):
        time.sleep(0.2)  # wait until the broker has finished its work for the new connections
        before = self.spent_s()
        time.sleep(seconds)
        self.assertLess(self.spent_s() - before, BUSY_S, "s of a processor: the thread spins")

    def connect(self, unix=False, receive_buffer=None):
        """Connects a socket whose bytes the test sends itself."""
        peer = wire.connected(self.path("socket") if unix else self.broker.port, receive_buffer)
        self.peers.append(peer)
        return peer

    def upgraded(self, **options):
        peer = self.connect(**options)
        peer.sendall(upgrade_head())
        self.assertIn(b" 101 ", peer.recv(4096))
        return peer

    def fill(self, peer, data):
        """Sends until the other side accepts no more."""
        peer.setblocking(False)
        try:
            while True:
                peer.send(data)
        except BlockingIOError:
            peer.settimeout(WAIT_S)

    def half_close(self, peer):
        peer.shutdown(socket.SHUT_WR)


class Connections(Rest):
    def test_many_that_are_silent(self):
        """Measures without connections, and with 100."""
        self.assert_rests()
        for number in range(100):
            self.upgraded(unix=number % 2 == 0)
        self.assert_rests()
        for peer in self.peers[::3]:
            peer.close()
        self.assert_rests()

    def test_half_a_head_and_half_a_frame(self):
        for unix in (False, True):
            self.connect(unix).sendall(b"GET /heal")
            self.upgraded(unix=unix).sendall(frame(BINARY, hello(1))[:9])
            self.upgraded(unix=unix).sendall(frame(BINARY, hello(1), fin=False))
        self.assert_rests()

    def test_half_closed(self):
        """Measures after clients sent nothing, half a head, an upgrade, and a request."""
        for unix in (False, True):
            self.half_close(self.connect(unix))
            half = self.connect(unix)
            half.sendall(b"GET /heal")
            self.half_close(half)
            for behind in (b"", frame(BINARY, hello(1)), frame(BINARY, hello(1))[:9]):
                peer = self.upgraded(unix=unix)
                peer.sendall(behind)
                self.half_close(peer)
        self.assert_rests()

    def test_pongs_that_nobody_reads(self):
        for unix in (False, True):
            self.fill(self.upgraded(unix=unix, receive_buffer=4096), frame(PING, b"x" * 120) * 100)
        self.assert_rests()

    def test_a_close_that_nobody_answers(self):
        """A client that got a Close continues to send, or neither reads nor answers."""
        for unix in (False, True):
            for bad in (frame(TEXT, b"x"), frame(BINARY, b"x", reserved=4), frame(CLOSE, b"\x03\xe8")):
                peer = self.upgraded(unix=unix, receive_buffer=4096)
                peer.sendall(bad)
                self.upgraded(unix=unix).sendall(bad + frame(BINARY, hello(1)) * 50)
                talks = self.upgraded(unix=unix)
                talks.sendall(bad)
                time.sleep(0.05)
                try:
                    talks.sendall(frame(BINARY, hello(1)) * 50 + frame(PING, b"hi") * 50)
                except OSError:
                    pass
        self.assert_rests()


class Answers(Rest):
    """A client that does not read its answers, and sends more."""

    def setUp(self):
        super().setUp()
        with wire.Rpc(self.broker.port) as rpc:
            body = wire.commit(rpc.hello(), 1, [wire.schedule("q", "large", 3_600_000, b"x" * 900_000)])
            self.assertEqual(rpc.ask(wire.COMMIT, body)[0], wire.OK)

    def test_unread_answers_and_questions_behind_them(self):
        """F-19: the broker does not read requests from a connection whose answers the client does not read."""
        question = frame(BINARY, struct.pack(">I", 0x80000001) + wire.request(wire.GET, [(1, [(2, "q"), (3, "large")]), (2, 1)]))
        for unix in (False, True):
            for ends in (lambda peer: None, self.half_close):
                peer = self.upgraded(unix=unix, receive_buffer=4096)
                self.fill(peer, question * 20)
                ends(peer)
        self.assert_rests()

    def test_who_went_while_he_was_not_read_from(self):
        question = frame(BINARY, struct.pack(">I", 0x80000001) + wire.request(wire.GET, [(1, [(2, "q"), (3, "large")]), (2, 1)]))
        for unix in (False, True):
            for is_reset in (False, True):
                peer = self.upgraded(unix=unix, receive_buffer=4096)
                self.fill(peer, question * 20)
                if is_reset:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.close()
        self.assert_rests()

    def test_requests_that_wait_for_the_disk(self):
        """F-19: 128 requests are in progress, and more have arrived."""
        with wire.Rpc(self.broker.port) as rpc:
            producer = rpc.hello()
        with open(self.path("held"), "wb"):
            pass
        try:
            sent = b"".join(frame(BINARY, struct.pack(">I", 0x80000000 | number) + wire.request(
                wire.COMMIT, wire.commit(producer, number, [wire.schedule("q", "", 3_600_000)]))) for number in range(1, 301))
            for unix in (False, True):
                self.upgraded(unix=unix).sendall(sent)
                gone = self.upgraded(unix=unix)
                gone.sendall(sent)
                self.half_close(gone)
            self.assert_rests()
        finally:
            os.unlink(self.path("held"))

    def test_a_lane_that_nobody_reads(self):
        for unix in (False, True):
            for ends in (lambda peer: None, self.half_close, socket.socket.close):
                rpc = wire.Rpc(self.connect(unix))
                producer = rpc.hello()
                for sequence in range(1, 9):
                    code, _ = rpc.ask(wire.COMMIT, wire.commit(producer, sequence, [wire.schedule("lane", "", 0, b"x" * 900_000)]))
                    self.assertIn(code, (wire.OK, wire.BUSY))
                session = wire.Session(rpc, ["lane"], prefetch=8)
                lane = self.connect(unix, receive_buffer=4096)
                lane.sendall(upgrade_head(f"/lane/{session.lane}", wire.LANE, [f"Authorization: Bearer {session.secret.hex()}"]))
                self.assertIn(b" 101 ", lane.recv(12 + 20))
                ends(lane)
        self.assert_rests()


class Pages(Rest):
    """A web page that is larger than the kernel's buffer."""

    arguments = ("--memory", "64MiB")

    def setUp(self):
        super().setUp()
        with wire.Rpc(self.broker.port) as rpc:
            body = wire.commit(rpc.hello(), 1, [wire.schedule(f"a-queue-whose-number-is-{number:04}", "", 3_600_000) for number in range(QUEUES)])
            self.assertEqual(rpc.ask(wire.COMMIT, body)[0], wire.OK)

    AGAIN = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    METRICS = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    def ask(self, *requests):
        peer = self.connect(unix=True)
        peer.sendall(b"".join(requests))
        return peer

    def whole(self, peer, count=1):
        """Checks that each web page arrived completely and that the connection ended."""
        got, sizes = b"", []
        while part := peer.recv(65536):
            got += part
        while got:
            head, _, got = got.partition(b"\r\n\r\n")
            self.assertEqual(statuses(head), [200])
            sizes.append(next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")))
            self.assertGreater(sizes[-1], 400_000, "the kernel takes it whole: this shows nothing")
            self.assertGreaterEqual(len(got), sizes[-1])
            got = got[sizes[-1]:]
        self.assertEqual(len(sizes), count)

    def test_unread(self):
        peer = self.ask(self.METRICS)
        self.assert_rests()
        self.whole(peer)

    def test_unread_with_another_request_behind(self):
        """The second request is sent once in the same packet as the first, and once in a packet of its own."""
        first, second = self.ask(self.AGAIN, self.METRICS), self.ask(self.AGAIN)
        time.sleep(0.3)
        second.sendall(self.METRICS)
        self.assert_rests()
        for peer in (first, second):
            self.whole(peer, 2)

    def test_unread_and_half_closed(self):
        """An honest client half-closes, as `nc -N` does."""
        peer = self.ask(self.AGAIN)
        self.half_close(peer)
        self.assert_rests()
        self.whole(peer)

    def test_who_never_reads_it_is_let_go(self):
        """The connection ends after DOOR_UNREAD_S; if the client has gone, at once."""
        before = self.broker.sockets()
        self.ask(self.METRICS)
        self.ask(self.METRICS).close()
        self.ask(self.AGAIN, self.METRICS)
        harness.wait_until("they are there", lambda: self.broker.sockets() > before, WAIT_S)
        harness.wait_until("they are let go", lambda: self.broker.sockets() <= before, WAIT_S)
        self.assert_rests()


    def memory_kib(self):
        with open(f"/proc/{self.broker.process.pid}/status", encoding="ascii") as file:
            return int(next(line for line in file if line.startswith("VmRSS")).split()[1])

    def test_unread_ones_are_counted(self):
        """F-19, CALM-1: an eighth of the memory is for unread replies: 8 MiB here, for 100 pages of 500 kB and more. The
        connections that were opened first are closed first; the last page is read completely.
        """
        before = self.memory_kib()
        peers = []
        for _ in range(100):
            peers.append(self.ask(self.METRICS))
            self.assertEqual(peers[-1].recv(1, socket.MSG_PEEK), b"H")
        self.broker.wait_logged("too many replies are unread", wait_s=WAIT_S)
        if not harness.SANITIZED:
            self.assertLess(self.memory_kib() - before, 20 << 10, "KiB more than before")
        self.whole(peers[-1])
        with self.assertRaises((AssertionError, OSError)):
            self.whole(peers[0])


class Listeners(Rest):
    def assert_logged(self, text):
        self.broker.wait_logged(text, wait_s=WAIT_S)

    def limit(self, descriptors):
        return resource.prlimit(self.broker.process.pid, resource.RLIMIT_NOFILE, descriptors)

    def knock(self, unix=False):
        peer = self.connect(unix)
        peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return peer

    def test_no_descriptors_left(self):
        """F-21: the broker reserves one descriptor to refuse connections. If even that one is missing, a new connection waits
        until there are descriptors again.
        """
        before = resource.prlimit(self.broker.process.pid, resource.RLIMIT_NOFILE)
        used = {int(name) for name in os.listdir(f"/proc/{self.broker.process.pid}/fd")}
        self.limit((next(number for number in range(1 << 20) if number not in used), before[1]))
        refused = self.knock()
        self.assert_logged("the broker has no free file descriptors for connections")
        self.assertRaises((ConnectionResetError, AssertionError), lambda: self.assertNotEqual(refused.recv(100), b""))
        self.assert_rests()
        self.limit((4, before[1]))
        waiting = [self.knock(), self.knock(unix=True)]
        self.assert_rests()
        self.limit(before)
        for peer in (*waiting, self.knock()):
            self.assertIn(b" 200 ", peer.recv(1000))
        self.assert_rests()

    def test_who_knocks_while_it_stops(self):
        """The stopping broker waits a second for a client to read its answers."""
        rpc = wire.Rpc(self.connect(unix=True))
        body = wire.commit(rpc.hello(), 1, [wire.schedule("q", "large", 3_600_000, b"x" * 900_000)])
        self.assertEqual(rpc.ask(wire.COMMIT, body)[0], wire.OK)
        self.connect(unix=True, receive_buffer=4096)
        self.peers[-1].sendall(upgrade_head() + frame(BINARY, struct.pack(">I", 0x80000001) + wire.request(
            wire.GET, [(1, [(2, "q"), (3, "large")]), (2, 1)])))
        time.sleep(0.3)
        self.broker.process.send_signal(signal.SIGTERM)
        self.assert_logged("event=stopping")
        for unix in (False, True):
            self.knock(unix)
        self.assert_rests(0.4)
        self.assertEqual(self.broker.process.wait(60), 0)


class Elsewhere(Rest):
    """The threads of the connecting side sleep too, whatever server they reach: a follower that looks for its leader, and a
    consumer that looks for its broker.
    """

    autostart = False
    MANNERS = {
        "accepts and is silent": lambda peer, head: peer.recv(1),
        "ends it": lambda peer, head: None,
        "half closes": lambda peer, head: (peer.shutdown(socket.SHUT_WR), peer.recv(1)),
        "is no broker": lambda peer, head: (peer.sendall(b"SSH-2.0-x\r\n"), peer.recv(1)),
        "is a page": lambda peer, head: (peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"), peer.recv(1)),
        "half an answer": lambda peer, head: (peer.sendall(b"HTTP/1.1 101 Swit"), peer.recv(1)),
        "is silent behind the upgrade": lambda peer, head: (peer.sendall(accepted(head)), silent(peer)),
        "half closes behind the upgrade": lambda peer, head: (peer.sendall(accepted(head)), peer.shutdown(socket.SHUT_WR), silent(peer)),
        "half a frame, and half closed": lambda peer, head: (peer.sendall(accepted(head) + b"\x82\x7e\x10"), peer.shutdown(socket.SHUT_WR), silent(peer)),
        "a Close, and open": lambda peer, head: (peer.sendall(accepted(head) + b"\x88\x02\x03\xe8"), silent(peer)),
        "resets behind the upgrade": lambda peer, head: (peer.sendall(accepted(head)), peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                                                                                      struct.pack("ii", 1, 0))),
    }

    def serve(self, manner):
        """Opens a port with a server that behaves as `manner` says, until the end of the test."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.peers.append(listener)

        def receive(peer):
            with contextlib.suppress(OSError), peer:
                peer.settimeout(WAIT_S)
                head = b""
                while b"\r\n\r\n" not in head and (part := peer.recv(4096)):
                    head += part
                self.received.append(head)
                manner(peer, head)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    peer = listener.accept()[0]
                    self.peers.append(peer)
                    threading.Thread(target=receive, args=(peer,), daemon=True).start()
        self.received = []
        threading.Thread(target=accept, daemon=True).start()
        return f"ws://127.0.0.1:{listener.getsockname()[1]}"

    def spent_s(self):
        fields = open(f"/proc/{self.process.pid}/stat", encoding="ascii").read().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def test_a_follower(self):
        for name, manner in self.MANNERS.items():
            with self.subTest(name):
                follower = super().make_broker("--follow", self.serve(manner), data=self.path(name.replace(" ", "-")))
                follower.arguments = follower.arguments[2:]  # removes the option for the Unix socket, which another broker of this test uses already
                follower.launch()
                self.process = follower.process
                harness.wait_until("it asks", lambda: self.received, WAIT_S)
                self.assert_rests()
                follower.kill()

    def test_a_consumer(self):
        for name, manner in self.MANNERS.items():
            with self.subTest(name):
                self.process = subprocess.Popen([harness.find_program("tarry"), "consume", "q", "--count", "1", "--timeout", "30s", "--broker", self.serve(manner)],
                                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                try:
                    harness.wait_until("it asks", lambda: self.received, WAIT_S)
                    self.assert_rests()
                    self.assertIsNone(self.process.poll(), "it has given up: this shows nothing")
                finally:
                    self.process.kill()
                    self.process.wait()


class Tls(Rest):
    autostart = False

    def setUp(self):
        super().setUp()
        authority = Authority(self.directory)
        self.context = authority.context()
        authority.serve(self.broker)
        self.broker.start()

    def shaken(self, head=b""):
        peer = Stranger(self.port, receive_buffer=4096, tls=self.context).peer
        self.peers.append(peer)
        peer.sendall(head)
        return peer

    @property
    def port(self):
        return int(self.broker.ready["urls"].split()[0].rsplit(":", 1)[1])

    def test_half_of_a_handshake_and_after_it(self):
        said = ssl.MemoryBIO()
        try:
            self.context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="127.0.0.1").do_handshake()
        except ssl.SSLWantReadError:
            pass
        greeting = said.read()
        for begun in (b"", greeting[:50], greeting, b"\x16\x03\x01\x40\x00" + greeting[5:]):
            for ends in (lambda peer: None, self.half_close):
                peer = wire.connected(self.port)
                self.peers.append(peer)
                peer.sendall(begun)
                ends(peer)
        self.shaken()
        self.shaken(b"GET /heal")
        self.half_close(self.shaken(b"GET /heal"))
        self.assert_rests()

    def test_upgraded_and_silent_half_closed_or_closed(self):
        for sent in (b"", frame(BINARY, hello(1))[:9], frame(TEXT, b"x"), frame(TEXT, b"x") + frame(BINARY, hello(1)) * 50, frame(CLOSE, b"\x03\xe8")):
            for ends in (lambda peer: None, self.half_close):
                peer = self.shaken(upgrade_head())
                self.assertIn(b" 101 ", peer.recv(4096))
                peer.sendall(sent)
                ends(peer)
        self.assert_rests()

    def test_questions_behind_answers_that_nobody_reads(self):
        with wire.Rpc(self.shaken()) as rpc:
            body = wire.commit(rpc.hello(), 1, [wire.schedule("q", "large", 3_600_000, b"x" * 900_000)])
            self.assertEqual(rpc.ask(wire.COMMIT, body)[0], wire.OK)
        question = frame(BINARY, struct.pack(">I", 0x80000001) + wire.request(wire.GET, [(1, [(2, "q"), (3, "large")]), (2, 1)]))
        peer = self.shaken(upgrade_head())
        self.assertIn(b" 101 ", peer.recv(4096))
        peer.settimeout(2)
        try:
            for _ in range(400):
                peer.sendall(question * 100)
        except (TimeoutError, ssl.SSLError):
            pass
        self.assert_rests()


if __name__ == "__main__":
    main()
