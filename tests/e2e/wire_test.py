"""wire_test.py: what else may arrive on the port. Nothing that a stranger sends may harm a client at work."""
import os
import random
import socket
import struct
import threading
import time

import harness
import wire
from harness import Case
from wire import WebSocket, frame


class Port(Case):
    def setUp(self):
        super().setUp()
        self.alive = True
        self.worst_ms = 0
        self.failures = []
        self.worker = threading.Thread(target=self.work)
        self.worker.start()

    def tearDown(self):
        self.alive = False
        self.worker.join()
        try:
            self.assertEqual(self.failures, [])
            self.assertLess(self.worst_ms, harness.ANSWER_WAIT_S * 1000)
        finally:
            super().tearDown()

    def work(self):
        """A client that keeps working meanwhile, over one connection."""
        stream = self.broker.stream("schedule", "--from", "-", stdin=True)
        number = 0
        while self.alive:
            number += 1
            before = time.monotonic()
            stream.send({"queue": "work", "key": f"k{number}", "delay_ms": 3_600_000})
            try:
                if stream.next()["result"] != "scheduled":
                    self.failures.append(stream.seen[-1])
            except Exception as error:  # whatever went wrong is reported by tearDown
                self.failures.append(repr(error))
                return
            self.worst_ms = max(self.worst_ms, (time.monotonic() - before) * 1000)
            time.sleep(0.005)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.broker.port), 5)

    def ask(self, data, wait_s=2):
        """Sends bytes; whatever comes back until the other side closes or is silent."""
        got = b""
        with self.connect() as peer:
            peer.settimeout(wait_s)
            try:
                peer.sendall(data)
                while len(got) < 65536 and (part := peer.recv(65536)):
                    got += part
                    if b"\r\n\r\n" in got and b"101 " not in got[:16]:
                        break
            except OSError:
                pass
        return got

    def upgrade(self, path="/rpc", protocol=wire.RPC):
        """A WebSocket that the broker accepted, or the answer that it gave instead."""
        web = WebSocket(self.broker.port, path, protocol)
        return web.peer, web.answer

    def test_http_garbage(self):
        """F-20: what is not HTTP, or hardly."""
        for data in (b"GARBAGE\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 100, b"GET " + b"a" * 20000,
                     b"POST /rpc HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 5000,
                     b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00SP\x00\x00\x30\x00\x00"):
            self.ask(data, 1)

    def test_a_wrong_path_is_not_found(self):
        answer = self.ask(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", harness.ANSWER_WAIT_S)
        self.assertIn(b" 404 ", answer.split(b"\r\n")[0] + b" ")
        for path in ("/nowhere", "/lane/99999999", "/lane/-1", "/rpc/../etc/passwd", "/lane/" + "9" * 3000):
            peer, answer = self.upgrade(path)
            self.assertNotIn(b" 101 ", answer.split(b"\r\n")[0] + b" ", path)
            peer.close()

    def test_a_lane_without_its_token_is_refused(self):
        """F-23: nobody reads a lane without its session's secret."""
        self.broker.one("schedule", "q", "--key", "first", "--in", "0s")
        holder = self.broker.consume("q", "--ack", "none")
        self.assertEqual(holder.next()["key"], "first")  # its lane is there
        self.broker.one("schedule", "q", "--key", "secret", "--in", "200ms", "--body", "for the holder only")
        thieves = [WebSocket(self.broker.port, f"/lane/{lane}", wire.LANE) for lane in range(0, 4)]
        self.assertTrue(any(thief.accepted for thief in thieves), "none of them is a lane")
        for thief in thieves:
            with thief:
                self.assertTrue(thief.is_closed_by_peer() or not thief.accepted)
        self.assertEqual(holder.next()["key"], "secret")

    def test_random_bytes(self):
        """F-20: noise."""
        random.seed(1)
        for _ in range(50):
            self.ask(random.randbytes(random.randrange(1, 3000)), 0.05)

    def test_malformed_and_truncated_protobuf(self):
        """F-20: messages that are none."""
        random.seed(2)
        messages = [b"", b"\0" * 8, b"\x80\0\0\1", b"\x80\0\0\1" + b"\xff" * 50, b"\x80\0\0\1" + b"\x0a\xff\xff\xff\xff\x0f",
                    b"\x80\0\0\1" + b"\x0a\x05abc", b"\x80\0\0\1" + b"\x08\x63\x5a\x00"]
        messages += [b"\x80\0\0\1" + random.randbytes(random.randrange(1, 400)) for _ in range(200)]
        peer, answer = self.upgrade()
        self.assertIn(b"101", answer)
        for message in messages:
            try:
                peer.sendall(frame(message))
            except OSError:
                peer.close()
                peer, answer = self.upgrade()
        peer.close()

    def test_a_frame_that_lies_about_its_length(self):
        """F-20: up to 2^64 - 1 bytes are claimed, three are sent."""
        for claimed in (1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1):
            peer, answer = self.upgrade()
            self.assertIn(b"101", answer)
            try:
                peer.sendall(frame(b"\x80\0\0\1abc", claimed=claimed))
                peer.settimeout(0.3)
                peer.recv(100)
            except OSError:
                pass
            peer.close()

    def test_an_oversized_message_is_refused_and_costs_no_memory(self):
        """F-20: 64 MiB where 16 MiB are the limit (CALM-1), and one frame of more than there may be."""
        with WebSocket(self.broker.port) as web, self.assertRaises(ConnectionError):
            web.peer.sendall(frame(b"", claimed=64 << 20) + bytes(64 << 20))
        before_kib = self.peak_kib()
        with WebSocket(self.broker.port) as web, self.assertRaises(ConnectionError):
            web.send(bytes(64 << 20))
        if not harness.SANITIZED:
            self.assertLess(self.peak_kib() - before_kib, 32 << 10)

    def peak_kib(self):
        with open(f"/proc/{self.broker.process.pid}/status", encoding="ascii") as file:
            return int(next(line for line in file if line.startswith("VmHWM")).split()[1])

    def test_floods_of_resets_and_broken_upgrades(self):
        """F-21: 1,500 connections that come to nothing, and no descriptor is left of them."""
        while not self.worst_ms:
            time.sleep(0.01)  # until the client at work is connected
        before = len(os.listdir(f"/proc/{self.broker.process.pid}/fd"))
        for number in range(1500):
            peer = self.connect()
            if number % 3 == 0:
                peer.sendall(b"GET /rpc HTTP/1.1\r\nUpgrade: websocket\r\nConn")
            elif number % 3 == 1:
                peer.sendall(b"GET /rpc HTTP/1.1\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ?\r\n\r\n")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
        harness.wait_until("no descriptor has leaked", lambda: len(os.listdir(f"/proc/{self.broker.process.pid}/fd")) <= before, 30)

    def test_half_open_connections_do_not_stop_others(self):
        """F-17: 200 connections that have said half a word."""
        peers = []
        for _ in range(200):
            peers.append(self.connect())
            peers[-1].sendall(b"GET /rpc HT")
        self.broker.one("schedule", "q", "--in", "1h")
        for peer in peers:
            peer.close()

    def test_a_byte_at_a_time(self):
        """F-18: an HTTP request, byte by byte."""
        with self.connect() as peer:
            for byte in b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n":
                peer.sendall(bytes([byte]))
                time.sleep(0.005)
            peer.settimeout(harness.ANSWER_WAIT_S)
            self.assertIn(b"HTTP/1.1", peer.recv(4096))


if __name__ == "__main__":
    harness.main()
