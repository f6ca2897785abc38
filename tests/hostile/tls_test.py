"""tls_test.py: broken clients at a TLS port: before, during and after the handshake. (Versions, ciphers, renegotiation, names
and certificates: e2e/tls_test.py.)
"""
import os
import random
import socket
import ssl
import struct
import time

import stranger
import harness
import wire
from certificates import Authority
from frames_test import CLOSES, FRAGMENTS, FRAMING, PINGS, RESERVED
from harness import SANITIZED, main
from stranger import BINARY, SENTINEL, WAIT_S, Hostile, Stranger, frame, hello

DOOR_HEAD_S = DOOR_UNREAD_S = 10  # broker/net/door.h
ANSWER = 900_000
DESCRIPTORS, ALL, HTTP = 576, 320, 80  # limits_test.py


class Tls(Hostile):
    """A broker with one listener, over TLS; the honest client uses TLS too."""

    def make_broker(self, *arguments, **options):
        authority = Authority(self.directory)
        self.context = authority.context()
        broker = super().make_broker(*arguments, **options)
        authority.serve(broker)
        return broker

    def rpc(self):
        return wire.Rpc(self.stranger().peer)

    def stranger(self, **options):
        return Stranger(self.broker.port, tls=self.context, **options)

    def raw(self):
        return Stranger(self.broker.port)

    def client_hello(self):
        """Returns a client's first message."""
        said = ssl.MemoryBIO()
        try:
            self.context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="127.0.0.1").do_handshake()
        except ssl.SSLWantReadError:
            pass
        return said.read()


class Handshakes(Tls):
    def test_a_byte_at_a_time(self):
        """F-18: each byte of the handshake, the upgrade and a request comes in its own packet."""
        heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context.wrap_bio(heard, said, server_hostname="127.0.0.1")
        with self.raw() as peer:
            def until(act):
                while True:
                    try:
                        result = act()
                        peer.send(said.read(), piece=1)
                        return result
                    except ssl.SSLWantReadError:
                        peer.send(said.read(), piece=1)
                        heard.write(peer.peer.recv(65536))
            until(tls.do_handshake)
            until(lambda: tls.write(stranger.upgrade_head()))
            got = b""
            while b"\r\n\r\n" not in got:
                got += until(lambda: tls.read(65536))
            self.assertIn(b" 101 ", got)
            until(lambda: tls.write(frame(BINARY, hello(SENTINEL))))
            self.assertEqual(stranger.words_of(until(lambda: tls.read(65536))), [f"answer:{SENTINEL}"])

    def test_half_of_one_has_its_time(self):
        """F-18: clients send nothing, half a ClientHello, a whole one and then nothing or random bytes, or nothing after the
        handshake. Their connections are closed after DOOR_HEAD_S.
        """
        greeting = self.client_hello()
        begun = {"nothing": b"", "half a hello": greeting[:50], "a hello": greeting, "a record that does not end": b"\x16\x03\x01\x40\x00" + greeting[5:]}
        peers = {name: self.raw() for name in begun}
        before = time.monotonic()
        for name, peer in peers.items():
            peer.send(begun[name])
        peers["a handshake"] = self.stranger()
        for name, peer in peers.items():
            with self.subTest(name), peer:
                self.assertTrue(peer.receive_until(lambda got: False))
                self.assertGreater(time.monotonic() - before, DOOR_HEAD_S / 4)

    def test_noise_and_resets_in_it(self):
        """F-20, F-21: truncated and changed ClientHellos, other protocols, resets: 600 connections."""
        random.seed(15)
        greeting = self.client_hello()
        for number in range(600):
            data = bytearray(greeting)
            for _ in range(random.randrange(0, 5)):
                data[random.randrange(len(data))] = random.randrange(256)
            with self.raw() as peer:
                peer.send((bytes(data), bytes(data)[:random.randrange(len(data))], b"GET / HTTP/1.1\r\n\r\n", random.randbytes(200))[number % 4])
                if number % 3 == 0:
                    peer.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Knocks(Tls):
    def make_broker(self, *arguments, **options):
        broker = super().make_broker(*arguments, **options)
        broker.prefix = ["prlimit", f"--nofile={DESCRIPTORS}"]
        return broker

    def test_who_does_not_shake_hands_makes_room_for_others_like_him(self):
        """F-21: connections with half a handshake count like those with half a head. The oldest is closed first, and a new
        client is served.
        """
        before, peers = time.monotonic(), []
        for _ in range(HTTP + 20):
            peers.append(self.raw())
            peers[-1].send(self.client_hello()[:50])
        for peer in peers[:20]:
            self.assertTrue(peer.receive_until(lambda got: False))
        self.assertLess(time.monotonic() - before, DOOR_HEAD_S - 1, "s: it was their time that ended them")
        with self.stranger() as newcomer:
            self.assertIn(" 101 ", newcomer.upgrade())
        for peer in peers:
            peer.peer.close()


class Memory(Tls):
    arguments = ("--memory", "64MiB")
    log_lines_max = 20

    def test_half_handshakes_take_no_more_than_half_requests_may(self):
        """CALM-1: the clients have sent no token yet. A client announces a ClientHello of 16 KiB and sends only a part of it,
        which costs OpenSSL 57 KiB. Of 400 such connections, the broker keeps the last 128.
        """
        before = self.memory_now()
        peers = [self.raw() for _ in range(400)]
        for peer in peers:
            peer.send(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes(8000))
        for peer in peers[:400 - 128]:
            self.assertTrue(peer.receive_until(lambda got: False))
        if not SANITIZED:
            self.assertLess(self.memory_now() - before, 20 << 10, "KiB")
        with self.stranger() as newcomer:
            self.assertIn(" 101 ", newcomer.upgrade())
        for peer in peers:
            peer.peer.close()


class Behind(Tls):
    """The limits without TLS also apply with TLS."""

    def test_frames_case_by_case(self):
        for cases in (FRAMING, PINGS, RESERVED, FRAGMENTS, CLOSES):
            for name, (sent, expected) in cases.items():
                with self.subTest(name), self.stranger() as peer:
                    self.assertIn(" 101 ", peer.upgrade())
                    peer.send(sent + frame(BINARY, hello(SENTINEL)))
                    self.assertEqual(peer.words(), expected)

    def test_heads_are_read_as_everybody_reads_them(self):
        """If an HTTP head has a field whose name is the beginning of a known name, the broker still reads the known field
        (broker/net/http_head.h). The test sends the head in one packet, and byte by byte.
        """
        for piece in (None, 1):
            for more, status in ((b"X-Auth: a\r\nContent-Length: 36\r\n", [413]), (b"If: a\r\nConnection: close\r\n", [200]), (b"nocolon\r\n", [400]), (b"X-B: a\r\n b\r\n", [400])):
                with self.subTest(more, piece=piece), self.stranger() as peer:
                    peer.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + more + b"\r\n", piece)
                    self.assertTrue(peer.receive_until(lambda got: False))
                    self.assertEqual(stranger.statuses(peer.got), status)

    def test_answers_that_nobody_reads_end_the_connection(self):
        """F-19: some unread answers are in the kernel, some in the broker. After DOOR_UNREAD_S the connection ends. A client
        that reads slowly gets all answers.
        """
        with self.rpc() as rpc:
            body = wire.commit(rpc.hello(), 1, [wire.schedule("q", "large", 3_600_000, os.urandom(ANSWER))])
            self.assertEqual(rpc.ask(wire.COMMIT, body)[0], wire.OK)
        question = wire.request(wire.GET, [(1, [(2, "q"), (3, "large")]), (2, 1)])
        asked = b"".join(frame(BINARY, struct.pack(">I", 0x80000000 | number) + question) for number in range(1, 11))  # ten requests, because the broker would answer further ones BUSY
        memory_kib = self.memory_now()
        unread, slow = self.stranger(receive_buffer=4096), self.stranger(receive_buffer=65536)
        for peer in (unread, slow):
            peer.upgrade()
            peer.send(asked)
        with slow:
            total = 0
            while total < 10 * ANSWER:
                part = slow.peer.recv(8192)
                self.assertNotEqual(part, b"")
                total += len(part)
        connected = self.broker.sockets()
        self.assert_logged("the client does not read its replies")
        if not SANITIZED:
            self.assertLess(self.memory_now() - memory_kib, 64 << 10)
        harness.wait_until("the broker has let go of it", lambda: self.broker.sockets() < connected, WAIT_S)
        unread.peer.close()
        self.descriptors = self.broker.sockets()


if __name__ == "__main__":
    main()
