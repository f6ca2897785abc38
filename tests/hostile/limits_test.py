"""limits_test.py: reaches each limit of the door (broker/net/door.h) and checks the promised reaction."""
import os
import resource
import select
import struct
import time

import stranger
import harness
import wire
from harness import main
from stranger import BINARY, CONTINUATION, WAIT_S, Hostile, frame, hello, statuses

REQUESTS_MAX, DOOR_HEAD_S = 128, 10  # broker/net/door.h
HTTP_BODY_S = 30  # broker/http/http_connection.c
DESCRIPTORS = 576  # number of the broker's descriptors; 256 are reserved, so 320 connections are possible
ALL, OF_ADDRESS, HTTP = 320, 240, 80
PREFETCHED = 72  # frames that the client's WebSocket library may buffer beyond those that the test allowed it to read


def allow_descriptors(case):
    """Allows this test 4,096 descriptors; the broker inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    case.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))


class Connections(Hostile):
    """Tests the limit of all connections, the lower limit per address, and the lower limit of connections without an upgrade."""

    log_lines_max = 40

    def setUp(self):
        allow_descriptors(self)
        self.peers = []
        super().setUp()

    def make_broker(self, *arguments, **options):
        broker = super().make_broker(*arguments, **options)
        broker.prefix = ["prlimit", f"--nofile={DESCRIPTORS}"]
        return broker

    def tearDown(self):
        for peer in self.peers:
            peer.peer.close()
        super().tearDown()

    def enter(self, source, upgraded=True):
        """Returns whether a connection from that address is accepted."""
        peer = stranger.Stranger(self.broker.port, source=source)
        try:
            is_taken = " 101 " in peer.upgrade() if upgraded else bool(peer.send(b"GET /heal") or True)
        except OSError:
            is_taken = False
        if is_taken:
            self.peers.append(peer)
        else:
            peer.peer.close()
        return is_taken

    def test_of_one_address_and_in_all(self):
        """F-21: the honest client comes from 127.0.0.1. One address cannot get all connections, and all addresses together get
        at most the limit. A closed connection makes space for another one.
        """
        self.assertEqual([self.enter("127.0.0.1") for _ in range(OF_ADDRESS - 1)], [True] * (OF_ADDRESS - 1))
        self.assertFalse(self.enter("127.0.0.1"))
        self.assert_logged("this address has its maximum number of connections")
        self.assertTrue(any("from=127.0.0.1:" in line for line in self.broker.log if "this address has its maximum" in line), "the log does not say who")
        rest = ALL - OF_ADDRESS
        self.assertEqual([self.enter("127.0.0.2") for _ in range(rest)], [True] * rest)
        self.assertFalse(self.enter("127.0.0.3"))
        self.assert_logged("the broker has its maximum number of connections")
        self.peers.pop().peer.close()
        harness.wait_until("room for another", lambda: self.enter("127.0.0.3"), WAIT_S)
        for _ in range(2):  # the limit of all connections, and that of the address
            self.peers.pop(0).peer.close()
        harness.wait_until("room for another of that address", lambda: self.enter("127.0.0.1"), WAIT_S)

    def test_who_only_knocks_makes_room_for_others_like_him(self):
        """F-21: the connection with the oldest half request is closed first. Upgraded clients are not affected, and a new
        client is served.
        """
        before = time.monotonic()
        for number in range(HTTP + 20):
            self.assertTrue(self.enter(f"127.0.0.{2 + number % 9}", upgraded=False))
        gone, there = self.peers[:20], self.peers[20:]
        for peer in gone:
            self.assertTrue(peer.receive_until(lambda got: False))
        self.assertLess(time.monotonic() - before, DOOR_HEAD_S - 1, "s: it was their time that ended them")
        for peer in there[-HTTP // 2:]:
            peer.send(b"thz HTTP/1.1\r\nHost: x\r\n\r\n")
            peer.receive_until(lambda got: b"ok" in got)
            self.assertEqual(statuses(peer.got), [200])
        with self.stranger() as newcomer:
            self.assertIn(" 101 ", newcomer.upgrade())


class Memory(Hostile):
    """`--memory 64MiB`: an eighth of it is for requests, including half-received ones."""

    arguments = ("--memory", "64MiB")
    log_lines_max = 40

    def setUp(self):
        allow_descriptors(self)
        self.rpcs = []
        super().setUp()

    def begin(self, size):
        """Sends the first `size` bytes of an unfinished message."""
        peer = self.stranger()
        peer.upgrade()
        rest = size
        first = hello(1)
        peer.send(frame(BINARY, first, fin=False))
        while rest > 0:
            peer.send(frame(CONTINUATION, bytes(min(rest, 1 << 20)), fin=False))
            rest -= 1 << 20
        return peer

    def large(self, rpc):
        """Returns the answer to a large request that does not use the log. A large commit would need the log's next segment,
        and could be BUSY for that reason.
        """
        return rpc.ask(wire.HELLO, [(99, b"x" * 900_000)])[0]

    def test_half_received_bytes_count(self):
        """F-20, CALM-1, CAP-1: half-sent requests fill the 8 MiB for requests: two of 5 MiB, of which one fits, and small
        ones. Then a large request is answered BUSY under its own id, and a small one is answered normally. The half-sent
        requests stay silent. After DOOR_SILENT_S the broker closes those that were silent longest, which frees their
        memory.
        """
        with wire.Rpc(self.broker.port) as rpc:
            harness.wait_until("room", lambda: self.large(rpc) == wire.OK, WAIT_S)
            halves = [self.begin(size) for size in [5 << 20] * 2 + [300_000] * 12]
            harness.wait_until("BUSY", lambda: self.large(rpc) == wire.BUSY, WAIT_S)
            self.assertGreater(rpc.hello(), 0)
            harness.wait_until("room again", lambda: self.large(rpc) == wire.OK, WAIT_S)
            self.assert_logged("another request needs the buffer")
            ended = select.select([half.peer for half in halves], [], [], WAIT_S)[0]
            self.assertEqual([half.words() for half in halves if half.peer in ended], [["eof"]] * len(ended))
            self.assertTrue(ended)
            for half in halves:
                half.peer.close()

    def test_a_crowd_of_small_halves_takes_no_more_than_its_share(self):
        """CALM-1: the broker always accepts half-sent requests of less than 16 KiB. 2,000 of them need 31 MiB; the broker
        keeps only the newest ones.
        """
        crowd = []
        for _ in range(2000):  # each request must arrive before the next one, because half a head has a time limit
            crowd.append(self.stranger())
            crowd[-1].upgrade()
        before = self.memory_now()
        for peer in crowd:
            peer.send(frame(BINARY, hello(1) + bytes(16000), fin=False))
        self.assert_logged("too many requests are incomplete")
        self.assertEqual(crowd[0].words(), ["eof"])
        if not harness.SANITIZED:
            self.assertLess(self.memory_now() - before, 28 << 10, "KiB")
        for peer in crowd:
            peer.peer.close()

    def judge_memory(self, before, most_mib):
        """Checks for 1 s that the broker's memory grows by less than `most_mib` MiB. `before`: its memory at the start in KiB."""
        for _ in range(20):
            if not harness.SANITIZED:
                self.assertLess(self.memory_now() - before, most_mib << 10, "KiB")
            time.sleep(0.05)

    def test_a_crowd_that_reads_no_answers_takes_no_more_than_its_share(self):
        """CALM-1, F-19: 40 connections repeat a commit with a long answer, as often as they may: 30 bytes cause an answer of 4
        MiB or more. No client reads an answer. A repeat beyond the memory budget is answered BUSY, and the broker closes
        connections of clients that do not read. Meanwhile an honest client gets the answer.
        """
        with wire.Rpc(self.broker.port) as rpc:
            self.producer = rpc.hello()
            body = wire.commit(self.producer, 1, [[(2, [])]] * 8192)  # each operation is refused with a sentence, so the answer is long
            harness.wait_until("an answer", lambda: rpc.ask(wire.COMMIT, body)[0] == wire.OK, WAIT_S)
            self.assertGreater(len(rpc.packed), 200_000)
        repeat = wire.commit(self.producer, 1, [[(2, [])]])
        again = wire.request(wire.COMMIT, repeat)
        before = self.memory_now()
        crowd = [self.stranger(receive_buffer=4096) for _ in range(40)]
        for peer in crowd:
            peer.upgrade()
            peer.send(b"".join(frame(BINARY, struct.pack(">I", 0x80000000 | number) + again) for number in range(1, 129)))
        self.judge_memory(before, 80)
        with wire.Rpc(self.broker.port) as rpc:
            harness.wait_until("the answer again", lambda: rpc.ask(wire.COMMIT, repeat)[0] == wire.OK, WAIT_S)
            self.assertGreater(len(rpc.packed), 200_000)
        self.assert_logged("does not read its replies")
        for peer in crowd:
            peer.peer.close()

    def subscribe(self):
        """Returns a session with a credit of four tasks of 900 kB."""
        self.rpcs.append(wire.Rpc(self.broker.port))
        return wire.Session(self.rpcs[-1], ["large"], prefetch=4, lease_ms=3_600_000)

    def test_a_crowd_of_consumers_that_read_nothing_takes_no_more_than_its_share(self):
        """CALM-1, F-19: 50 consumers ask for four tasks of 900 kB each (180 MB in all), and read nothing. The broker makes no
        deliveries beyond their share of memory, and producers are not affected. When another consumer needs the memory, the
        broker ends consumers that do not read, and that consumer gets its tasks.
        """
        with wire.Rpc(self.broker.port) as rpc:
            producer = rpc.hello()
            for sequence in range(1, 241):
                body = wire.commit(producer, sequence, [wire.schedule("large", "", 0, b"x" * 900_000)], oldest=sequence)
                harness.wait_until("a task", lambda body=body: rpc.ask(wire.COMMIT, body)[0] == wire.OK, WAIT_S)
            before = self.memory_now()
            crowd = [self.subscribe().dial(receive_buffer=4096) for _ in range(50)]
            self.judge_memory(before, 40)
            body = wire.commit(producer, 241, [wire.schedule("large", "", 0, b"y" * 900_000)], oldest=241)
            harness.wait_until("a task beside them", lambda: rpc.ask(wire.COMMIT, body)[0] == wire.OK, WAIT_S)
            session = self.subscribe()
            with session.dial() as reader:
                while not reader.buffer and not select.select([reader.peer], [], [], 1)[0]:
                    self.assertEqual(session.heartbeat(), wire.OK)
                self.assertIn(b"x" * 900_000, reader.receive(WAIT_S))
            self.assert_logged("does not read its deliveries")
            for peer in crowd + self.rpcs:
                peer.close()

    def test_a_crowd_of_halves_takes_no_more_than_its_share(self):
        """40 half-sent requests of 8 MiB would need 320 MiB. The broker reads requests beyond its budget to their end, does
        not keep them, and answers them BUSY if they ever end.
        """
        before = self.memory_now()
        halves = [self.begin(8 << 20) for _ in range(40)]
        if not harness.SANITIZED:
            self.assertLess(self.memory_now() - before, 48 << 10, "KiB")
        for half in halves[1:4]:
            half.send(frame(CONTINUATION))
            if half.receive_until(lambda got: stranger.words_of(got) == ["answer:1"]):
                continue  # the body was accepted, because an earlier, silent one had been closed
            self.assertIn(wire.number(wire.decode(half.got[6:]), 1), (wire.BUSY, wire.INVALID))  # the broker may also accept the whole body, which is then invalid
        for half in halves:
            half.peer.close()

    def test_silent_http_bodies_give_way(self):
        """CALM-1, F-18: two half-sent bodies over HTTP fill the 8 MiB for requests, so a large request is answered BUSY. After
        DOOR_SILENT_S the broker closes connections with a silent body, long before their time limit. It keeps a connection
        whose body continues.
        """
        with wire.Rpc(self.broker.port) as rpc:
            harness.wait_until("room", lambda: self.large(rpc) == wire.OK, WAIT_S)
            halves = [self.begin_body(3_750_000) for _ in range(2)]
            before = time.monotonic()
            harness.wait_until("BUSY", lambda: self.large(rpc) == wire.BUSY, WAIT_S)
            harness.wait_until("room again", lambda: self.large(rpc) == wire.OK, WAIT_S)
            self.assertLess(time.monotonic() - before, HTTP_BODY_S - 5, "s: it was their time that ended them")
            self.assert_logged("another request needs the buffer")
            self.assertTrue(halves[0].receive_until(lambda got: False))
            halves[1].peer.close()

    def begin_body(self, size):
        """Sends half of a body over HTTP. `size`: the size that the head announces."""
        peer = self.stranger()
        peer.send(f"POST /v1/commit HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()
                  + b" " * (size // 2))
        return peer

    def test_a_crowd_that_reads_no_answers_over_http_takes_no_more_than_its_share(self):
        """CALM-1, F-19: requests of 60 bytes ask for a task of 900 kB, a thousand times on each of 40 connections, and no client
        reads an answer. The broker does not read from a connection with unread answers; the one that has not read for longest is
        ended."""
        with wire.Rpc(self.broker.port) as rpc:
            self.producer = rpc.hello()
            body = wire.commit(self.producer, 1, [wire.schedule("q", "large", 3_600_000, b"x" * 900_000)])
            harness.wait_until("the task", lambda: rpc.ask(wire.COMMIT, body)[0] == wire.OK, WAIT_S)
        before = self.memory_now()
        crowd = [self.stranger(receive_buffer=4096) for _ in range(40)]
        for peer in crowd:  # the connections ask one after the other, because otherwise they would get BUSY a thousand times in small answers
            peer.send(b"GET /v1/queues/q/tasks/large HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
            self.assertTrue(select.select([peer.peer], [], [], WAIT_S)[0], "its answer begins")
        self.assert_logged("too many replies are unread")
        self.judge_memory(before, 80)
        for peer in crowd:
            peer.peer.close()


class Requests(Hostile):
    """Commits on a slow disk: no commit gets its answer, and the broker reads at most 128 per connection."""

    def make_broker(self, *arguments, **options):
        broker = super().make_broker(*arguments, **options)
        broker.env = {**broker.env, **harness.preloaded("libhold_sync.so"), "HOLD_SYNC_FILE": self.path("held")}
        return broker

    def test_who_leaves_4_mib_of_answers_unread_is_not_read_from(self):
        """F-19: DOOR_UNSENT_MAX. The client sends requests one by one, and each answer has 900 kB. Some 3 MiB of answers fit
        into the kernel, and 4 MiB may wait in the broker. Then the broker stops reading, and later requests stay in the
        socket. When the client has read the answers, the broker answers all requests.
        """
        with wire.Rpc(self.broker.port) as rpc:
            body = wire.commit(rpc.hello(), 1, [wire.schedule("q", "large", 3_600_000, b"x" * 900_000)])
            self.assertEqual(rpc.ask(wire.COMMIT, body)[0], wire.OK)
        question = wire.request(wire.GET, [(1, [(2, "q"), (3, "large")]), (2, 1)])
        with self.stranger(receive_buffer=65536) as peer:
            peer.upgrade()
            for number in range(1, 31):
                sent = frame(BINARY, struct.pack(">I", 0x80000000 | number) + question)
                peer.send(sent)
                time.sleep(0.03)
            harness.wait_until("questions that are not read", lambda: self.unread(peer) >= 10 * len(sent), WAIT_S)
            size = 0
            while size < 30 * 900_000:
                part = peer.peer.recv(1 << 20)
                self.assertNotEqual(part, b"")
                size += len(part)

    def unread(self, peer):
        """Returns the number of bytes of this connection that the broker has not read: in its socket, and still in the test's
        socket (/proc/net/tcp).
        """
        ours, brokers = f":{peer.peer.getsockname()[1]:04X}", f":{self.broker.port:04X}"
        with open("/proc/net/tcp", encoding="ascii") as file:
            queues = {(words[1][-5:], words[2][-5:]): words[4].split(":") for words in map(str.split, file)}
        return int(queues[ours, brokers][0], 16) + int(queues[brokers, ours][1], 16)

    def test_a_connection_with_128_requests_under_way_is_not_read_from(self):
        """F-19: further requests wait in the kernel; once the disk works again, each request is answered."""
        count = 400
        producer = self.producer()
        peer = self.stranger()
        peer.upgrade()
        with open(self.path("held"), "wb"):
            pass
        try:
            sent = [frame(BINARY, struct.pack(">I", 0x80000000 | number) + wire.request(
                wire.COMMIT, wire.commit(producer, number, [wire.schedule("q", "", 3_600_000, b"x" * 4000)]))) for number in range(1, count + 1)]
            peer.send(b"".join(sent))
            time.sleep(1)
            left = self.unread(peer)
            read = (sum(map(len, sent)) - left) / len(sent[0])
            self.assertGreaterEqual(read, REQUESTS_MAX)
            self.assertLess(read, REQUESTS_MAX + PREFETCHED)
        finally:
            os.unlink(self.path("held"))
        with peer:
            peer.receive_until(lambda got: len(stranger.words_of(got)) == count)
            self.assertEqual(sorted(stranger.words_of(peer.got)), sorted(f"answer:{number}" for number in range(1, count + 1)))

    def producer(self):
        with wire.Rpc(self.broker.port) as rpc:
            return rpc.hello()


if __name__ == "__main__":
    main()
