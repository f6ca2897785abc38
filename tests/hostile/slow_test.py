"""slow_test.py: clients that are slow, or whose requests never end (F-18, F-19, F-20). Tests with the same time limit wait for it
together."""
import os
import struct
import time

import stranger
import wire
import harness
from harness import SANITIZED, main
from stranger import BINARY, CONTINUATION, PING, SENTINEL, WAIT_S, Hostile, frame, hello

DOOR_UNREAD_S, DOOR_REQUEST_S = 10, 30  # broker/net/door.h
ANSWER = 900_000


class Unread(Hostile):
    """A client does not read its answers of 900 kB each."""

    def make_broker(self, *arguments, **options):
        broker = super().make_broker(*arguments, **options)
        broker.env = {**broker.env, **harness.preloaded("libnote_trim.so"), "NOTE_TRIM_FILE": self.path("trimmed")}
        return broker

    def setUp(self):
        super().setUp()
        with self.rpc() as rpc:
            body = wire.commit(rpc.hello(), 1, [wire.schedule("q", "large", 3_600_000, b"x" * ANSWER)])
            self.assertEqual(rpc.ask(wire.COMMIT, body)[0], wire.OK)
        harness.wait_until("its own connection is closed", lambda: self.connections() == 1, WAIT_S)
        self.descriptors = self.broker.sockets()

    def connections(self):
        with open("/proc/net/tcp", encoding="ascii") as file:
            return sum(line.split()[1].endswith(f":{self.broker.port:04X}") and line.split()[3] == "01" for line in file)

    def test_answers_that_nobody_reads_end_the_connection(self):
        """F-19: the total size of unread answers is limited (CALM-1), so further queries are answered BUSY. After
        DOOR_UNREAD_S the connection ends.
        """
        question = wire.request(wire.GET, [(1, [(2, "q"), (3, "large")]), (2, 1)])
        before, memory_kib = time.monotonic(), self.memory_now()
        peers = [self.stranger(receive_buffer=4096) for _ in range(4)]
        for peer in peers:
            self.assertIn(" 101 ", peer.upgrade())
            peer.send(b"".join(frame(BINARY, struct.pack(">I", 0x80000000 | number) + question) for number in range(1, 101)))
        worst_kib, connected = 0, self.broker.sockets()
        while time.monotonic() - before < DOOR_UNREAD_S - 2:
            worst_kib = max(worst_kib, self.memory_now() - memory_kib)
            time.sleep(0.1)
        self.assert_logged("the client does not read its replies")
        if not SANITIZED:
            self.assertLess(worst_kib, 64 << 10, "KiB for four times 90 MB of answers")
        harness.wait_until("the broker has let go of one who is not told BUSY", lambda: self.broker.sockets() < connected, WAIT_S)
        for peer in peers:
            peer.peer.close()
        harness.wait_until("the allocator gives back what it keeps", lambda: os.path.exists(self.path("trimmed")), WAIT_S)

    def test_who_reads_slowly_gets_all(self):
        """F-19: a client that reads a few kilobytes at a time is slow but honest. It gets all answers completely and in order."""
        question = wire.request(wire.GET, [(1, [(2, "q"), (3, "large")]), (2, 1)])
        with self.stranger(receive_buffer=65536) as peer:
            peer.upgrade()
            peer.send(b"".join(frame(BINARY, struct.pack(">I", 0x80000000 | number) + question) for number in range(1, 13)))
            total = 0
            while total < 12 * ANSWER:
                part = peer.peer.recv(8192)
                self.assertNotEqual(part, b"")
                total += len(part)


class Endless(Hostile):
    def test_fragments_without_an_end(self):
        """F-20: a message exceeds 16 MiB, and the connection is closed with 1009. The broker keeps none of it."""
        with self.stranger() as peer:
            peer.upgrade()
            part = frame(CONTINUATION, bytes(1 << 16), fin=False)
            peer.send(frame(BINARY, hello(1), fin=False) + part * 256)
            self.assertEqual(peer.words(), ["close:1009"])

    def test_half_a_request_has_its_time(self):
        """F-18: a request must be complete DOOR_REQUEST_S after its first byte. Less than 64 KiB of progress does not extend
        this time. A request that is completed in time is answered.
        """
        whole, large = frame(BINARY, hello(SENTINEL)), frame(BINARY, bytes(1 << 16), fin=False)
        begun = {"half a frame": whole[:9], "a first fragment": frame(BINARY, hello(1)[:5], fin=False), "a large one": large}
        peers, ended = {name: self.stranger() for name in (*begun, "in time")}, {}
        for peer in peers.values():
            self.assertIn(" 101 ", peer.upgrade())
        before = time.monotonic()
        for name, sent in begun.items():
            peers[name].send(sent)
        peers["in time"].send(whole[:9])
        while time.monotonic() - before < DOOR_REQUEST_S / 2:
            peers["a first fragment"].send(frame(CONTINUATION, b"x", fin=False))
            time.sleep(1)
        with peers["in time"] as peer:
            peer.send(whole[9:])
            self.assertEqual(peer.words(), [f"answer:{SENTINEL}"])
        for name in begun:
            with self.subTest(name), peers[name] as peer:
                self.assertTrue(peer.receive_until(lambda got: False, 2 * DOOR_REQUEST_S))
                ended[name] = time.monotonic() - before
                self.assertGreater(ended[name], DOOR_REQUEST_S - 1)
        self.assertLess(ended["a first fragment"] - ended["half a frame"], DOOR_REQUEST_S / 4, "s that a trickle bought")
        self.assert_logged("the client did not finish its request in time")

    def test_empty_fragments_without_an_end(self):
        """Sends 200,000 empty fragments with pings between them, then the rest of the request, which is answered."""
        with self.stranger() as peer:
            peer.upgrade()
            peer.send(frame(BINARY, hello(SENTINEL)[:5], fin=False))
            for _ in range(200):
                peer.send(frame(CONTINUATION, fin=False) * 1000 + frame(PING, b"hi"))
            peer.send(frame(CONTINUATION, hello(SENTINEL)[5:]))
            self.assertEqual([word for word in peer.words() if word != "pong:hi"], [f"answer:{SENTINEL}"])

    def test_a_flood_of_pings_that_are_not_read(self):
        """500,000 pings from a client that reads no pong, while the honest client works. No memory is lost."""
        with self.stranger(receive_buffer=4096) as peer:
            peer.upgrade()
            peer.peer.settimeout(2)
            for _ in range(500):
                peer.send(frame(PING, b"x" * 120) * 1000)
            if not SANITIZED:
                self.assertLess(self.memory_now() - self.memory_kib, 16 << 10)

    def test_a_request_a_byte_at_a_time(self):
        """F-18: in both directions, each byte is sent in its own packet, and each is read alone."""
        with self.stranger() as peer:
            peer.upgrade()
            peer.send(frame(BINARY, hello(1)) + frame(BINARY, hello(SENTINEL)), piece=1)
            while f"answer:{SENTINEL}" not in stranger.words_of(peer.got):
                part = peer.peer.recv(1)
                self.assertNotEqual(part, b"")
                peer.got += part


if __name__ == "__main__":
    main()
