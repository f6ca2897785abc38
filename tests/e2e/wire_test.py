"""wire_test.py: invalid and hostile input on the broker's port. No input of a stranger may harm a working client."""
import contextlib
import os
import random
import re
import socket
import struct
import subprocess
import threading
import time

import harness
import wire
from harness import Case
from wire import WebSocket, frame


class Beside(Case):
    """Sends hostile input to the port beside a working client, which must not be affected."""

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
        """Runs a client that works during the test, over one connection."""
        stream = self.broker.stream("schedule", "--from", "-", stdin=True)
        number = 0
        while self.alive:
            number += 1
            before = time.monotonic()
            stream.send({"queue": "work", "key": f"k{number}", "delay_ms": 3_600_000})
            try:
                if stream.next()["result"] != "scheduled":
                    self.failures.append(stream.seen[-1])
            except Exception as error:  # kept for tearDown, which reports it
                self.failures.append(repr(error))
                return
            self.worst_ms = max(self.worst_ms, (time.monotonic() - before) * 1000)
            time.sleep(0.005)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.broker.port), 5)

    def ask(self, data, wait_s=2):
        """Sends bytes. Returns what arrives until the server closes the connection or is silent."""
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

    def ends(self, data):
        """Sends invalid input, and checks that the server sends at most a refusal and ends the connection."""
        got = b""
        with self.connect() as peer:
            peer.settimeout(harness.ANSWER_WAIT_S)
            with contextlib.suppress(ConnectionError):
                peer.sendall(data)
                while part := peer.recv(65536):
                    got += part
        self.assertRegex(got[:13], rb"^(HTTP/1\.1 4\d\d )?$", data[:40])

    def upgrade(self, path="/rpc", protocol=wire.RPC):
        """Returns an accepted WebSocket, or the response to a refused upgrade."""
        web = WebSocket(self.broker.port, path, protocol)
        return web.peer, web.answer


class Port(Beside):
    def test_http_garbage(self):
        """F-20: input that is not HTTP, or almost HTTP."""
        for data in (b"GARBAGE\r\n\r\n", b"GET\r\n\r\n", b"\r\n" * 100, b"GET " + b"a" * 20000,
                     b"POST /rpc HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 5000,
                     b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00SP\x00\x00\x10\x00\x00", b"\x00GET / HTTP/1.1\r\n\r\n"):
            self.ends(data)
        self.assertRegex(self.ask(b"GET / HTTP/9.9\r\n\r\n", harness.ANSWER_WAIT_S), rb"^HTTP/1\.[01] ")  # the response has an existing HTTP version

    def test_a_wrong_path_is_not_found(self):
        answer = self.ask(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", harness.ANSWER_WAIT_S)
        self.assertIn(b" 404 ", answer.split(b"\r\n")[0] + b" ")
        for path in ("/nowhere", "/lane/99999999", "/lane/-1", "/rpc/../etc/passwd", "/lane/" + "9" * 3000):
            peer, answer = self.upgrade(path)
            self.assertNotIn(b" 101 ", answer.split(b"\r\n")[0] + b" ", path)
            peer.close()

    def test_a_lane_without_its_token_is_refused(self):
        """F-23: without its session's secret, a lane cannot be read."""
        self.broker.one("schedule", "q", "--key", "first", "--in", "0s")
        holder = self.broker.consume("q", "--ack", "none")
        self.assertEqual(holder.next()["key"], "first")  # the holder's lane is open
        self.broker.one("schedule", "q", "--key", "secret", "--in", "200ms", "--body", "for the holder only")
        for lane in range(0, 4):
            with WebSocket(self.broker.port, f"/lane/{lane}", wire.LANE) as thief:
                self.assertIn(b" 401 ", thief.answer.split(b"\r\n")[0])
        self.assertEqual(holder.next()["key"], "secret")
        self.broker.wait_logged('event=lane_refused lane=0 reason="the secret is not that of the session that owns the lane"')

    def test_a_lanes_secret_in_its_path_is_its_own_and_is_never_told(self):
        """F-23: another session's secret does not open a lane, and the log contains no secret."""
        with wire.Rpc(self.broker.port) as rpc:
            first, second = wire.Session(rpc, ["q"]), wire.Session(rpc, ["q"])
            for lane, secret, expected in ((first.lane, second.secret.hex(), b" 401 "), (second.lane, first.secret.hex(), b" 401 "),
                                           (first.lane, first.secret.hex()[:-2], b" 401 "), (first.lane, "", b" 401 "),
                                           (first.lane, first.secret.hex(), b" 101 ")):
                with WebSocket(self.broker.port, f"/lane/{lane}/{secret}", wire.LANE) as peer:
                    self.assertIn(expected, peer.answer.split(b"\r\n")[0] + b" ", (lane, secret))
            for lane in (first.lane, second.lane):
                self.broker.wait_logged(f"event=lane_refused lane={lane} reason=\"the lane belongs to another session\"")
            for secret in (first.secret, second.secret):
                self.assertNotIn(secret.hex(), self.broker.log_text(1000))

    def test_random_bytes(self):
        """F-20: noise."""
        random.seed(1)
        for _ in range(50):
            self.ends(random.randbytes(random.randrange(1, 3000)))

    def test_malformed_and_truncated_protobuf(self):
        """F-20: sends invalid messages."""
        random.seed(2)
        messages = [b"", b"\0" * 8, b"\x80\0\0\1", b"\x80\0\0\1" + b"\xff" * 50, b"\x80\0\0\1" + b"\x0a\xff\xff\xff\xff\x0f",
                    b"\x80\0\0\1" + b"\x0a\x05abc", b"\x80\0\0\1" + b"\x08\x63\x5a\x00"]
        messages += [b"\x80\0\0\1" + random.randbytes(random.randrange(1, 400)) for _ in range(200)]
        for message in messages[:2]:  # too short for a request's number
            with WebSocket(self.broker.port) as web:
                web.send(message)
                self.assertTrue(web.is_closed_by_peer(harness.ANSWER_WAIT_S), message)
        with WebSocket(self.broker.port) as web:
            for message in messages[2:]:
                web.send(message)
                answer = web.receive(harness.ANSWER_WAIT_S)
                self.assertEqual(answer[:4], message[:4])
                reply = wire.decode(answer[4:])
                self.assertNotEqual(wire.number(reply, 1), wire.OK, message)
                self.assertIn(2, reply, message)  # the reply names the error

    def test_a_frame_that_lies_about_its_length(self):
        """F-20: a frame claims up to 2^64 - 1 bytes, but has three."""
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
        """F-20: a message of 64 MiB, above the limit of 16 MiB (CALM-1), and one frame above the limit."""
        with WebSocket(self.broker.port) as web, self.assertRaises(ConnectionError):
            web.peer.sendall(frame(b"", claimed=64 << 20) + bytes(64 << 20))
            web.receive()
        before_kib = self.peak_kib()
        with WebSocket(self.broker.port) as web, self.assertRaises(ConnectionError):
            web.send(bytes(64 << 20))
            web.receive()
        if not harness.SANITIZED:
            self.assertLess(self.peak_kib() - before_kib, 32 << 10)

    def peak_kib(self):
        with open(f"/proc/{self.broker.process.pid}/status", encoding="ascii") as file:
            return int(next(line for line in file if line.startswith("VmHWM")).split()[1])

    def test_floods_of_resets_and_broken_upgrades(self):
        """F-21: after 1,500 failed connections no descriptor remains open."""
        while not self.worst_ms:
            time.sleep(0.01)  # waits until the working client is connected
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
        """F-17: 200 connections that have sent only half a request do not disturb the working client."""
        peers = []
        for _ in range(200):
            peers.append(self.connect())
            peers[-1].sendall(b"GET /rpc HT")
        self.broker.one("schedule", "q", "--in", "1h")
        for peer in peers:
            peer.close()

    def test_a_byte_at_a_time(self):
        """F-18: an HTTP request that arrives byte by byte is served."""
        with self.connect() as peer:
            for byte in b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n":
                peer.sendall(bytes([byte]))
                time.sleep(0.005)
            peer.settimeout(harness.ANSWER_WAIT_S)
            self.assertIn(b"HTTP/1.1", peer.recv(4096))


class Door(Beside):
    """How the door handles HTTP (broker/net)."""

    escape = b"GET /aaaaaaaaaaaaaaaaaaa%41 HTTP/1.1\r\nHost: x\r\n\r\n"
    page = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

    def answers(self, *pieces, ends=False):
        """Sends the pieces one after another until the server closes the connection. Returns the statuses of its responses.
        `ends`: half-closes after the last piece.
        """
        got = b""
        with self.connect() as peer:
            peer.settimeout(harness.ANSWER_WAIT_S)
            try:
                for piece in pieces:
                    peer.sendall(piece)
                if ends:
                    peer.shutdown(socket.SHUT_WR)
                while part := peer.recv(65536):
                    got += part
            except OSError:
                pass
        return [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) ", got)]

    def last(self, request):
        """Returns the same request, but with a header that ends the connection after it."""
        return request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

    def test_an_escape_at_the_end_of_a_target(self):
        """F-20: nng 1.5.2's server read and wrote beyond the memory of a target that ends in an incomplete escape. A few of
        these requests ended the broker.
        """
        for size in range(200):
            target = b"/" + b"a" * size + b"%41"
            self.assertEqual(self.answers(self.last(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")), [404])
        for target in (b"/%", b"/%4", b"/%zz", b"/rpc%00", b"/%2e%2e/%2e%2e/etc/passwd", b"/rpc?%41", b"/lane/%30"):
            self.answers(self.last(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n"))
            self.assertFalse(WebSocket(self.broker.port, target.decode(), wire.LANE).accepted, target)

    def test_an_escape_behind_something_else(self):
        """F-20: hostile bytes after valid ones, in the same packet or in many, also after the request for a page and after a
        failed upgrade.
        """
        escape = self.last(self.escape)
        self.assertEqual(self.answers(self.page + escape), [200, 404])
        self.assertEqual(self.answers(self.page * 3 + escape + self.page), [200, 200, 200, 404])
        self.assertEqual(self.answers(*(bytes([byte]) for byte in escape)), [404])
        for end in range(1, len(escape)):
            self.assertEqual(self.answers(escape[:end], escape[end:]), [404])
        failed = b"GET /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        self.assertEqual(self.answers(failed + self.escape), [426])
        body = b"POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(self.escape)
        self.assertEqual(self.answers(body + self.escape), [405])
        self.assertEqual(self.answers(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(self.escape) + self.escape), [413])
        self.assertEqual(self.answers(b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + self.escape), [413])

    def test_an_upgrade_must_be_one_of_ours(self):
        """F-20: each upgrade request differs from a valid one in one respect."""
        lines = {"": "GET /rpc HTTP/1.1", "Host": "127.0.0.1", "Upgrade": "websocket", "Connection": "Upgrade",
                 "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": wire.RPC}

        def status(**changes):
            now = {**lines, **{name.replace("_", "-"): value for name, value in changes.items()}}
            head = [f"{name}: {value}" if name else value for name, value in now.items() if value is not None]
            with self.connect() as peer:
                peer.settimeout(harness.ANSWER_WAIT_S)
                peer.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
                got = peer.recv(4096)
            return int(got.split(b" ")[1]) if got else None

        self.assertEqual(status(), 101)
        for version in ("12", "", None, "1313", "13 "):
            self.assertIn(status(Sec_WebSocket_Version=version), (426, 101) if version == "13 " else (426,), version)
        for key in ("", None, "short", "x" * 25, "x" * 20000):
            self.assertEqual(status(Sec_WebSocket_Key=key), 431 if len(key or "") > 16384 else 400, key)
        for protocol in (wire.LANE, "", None, "chat", f"x{wire.RPC}", "x" * 3000):
            self.assertEqual(status(Sec_WebSocket_Protocol=protocol), 400, protocol)
        self.assertEqual(status(Sec_WebSocket_Protocol=f"chat, {wire.RPC}"), 101)  # accepted, because the list contains our protocol (RFC 6455, 4.2.2)
        for upgrade in ("h2c", "tls", "websocketx"):
            self.assertEqual(status(Upgrade=upgrade), 404, upgrade)  # the broker ignores an unknown Upgrade header, so this is a request for a page that does not exist
        self.assertEqual(status(Host=None), 400)
        self.assertEqual(status(**{"": "POST /rpc HTTP/1.1"}), 405)
        self.assertEqual(status(**{"": "GET /rpcs HTTP/1.1"}), 404)

    def test_a_connection_serves_one_request_after_the_other(self):
        """A connection serves several requests for pages. After a half-close, the client still gets the replies to the
        requests that it has sent.
        """
        pages = [self.page, self.page.replace(b"healthz", b"metrics")]
        for first in pages:
            self.assertEqual(self.answers(self.last(first)), [200])
            self.assertEqual(self.answers(first, *pages, self.last(first)), [200] * 4)
            self.assertEqual(self.answers(first + b"".join(pages), ends=True), [200] * 3)

    def test_frames_are_nobodys_business(self):
        """Bytes after the upgrade are not parsed as HTTP, even in the same packet."""
        with wire.Rpc(self.broker.port) as rpc:
            producer = rpc.hello()
            code, reply = rpc.ask(wire.COMMIT, wire.commit(producer, 1, [wire.schedule("frames", "k", 0, self.escape * 100)]))
            self.assertEqual((code, wire.number(wire.results(reply)[0], 1)), (wire.OK, wire.OK))
        head = (b"GET /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\nSec-WebSocket-Protocol: " + wire.RPC.encode() + b"\r\n\r\n")
        question = struct.pack(">I", 0x80000001) + wire.request(wire.HELLO, [])
        with self.connect() as peer:
            peer.settimeout(harness.ANSWER_WAIT_S)
            peer.sendall(head + frame(question))
            got = b""
            while got.count(b"\r\n\r\n") == 0 or len(got.split(b"\r\n\r\n", 1)[1]) < 20:
                part = peer.recv(65536)
                self.assertNotEqual(part, b"", got)
                got += part
        self.assertIn(b" 101 ", got)

    def test_a_head_that_is_too_long(self):
        """A head that is too long ends the connection. The response may be lost if more was sent than the server read."""
        for head in (self.page[:-2] + b"X: " + b"y" * 17000 + b"\r\n\r\n", self.page[:-2] + b"Accept: y\r\n" * 2000 + b"\r\n",
                     b"GET /" + b"y" * 17000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"):
            self.assertIn(self.answers(head), ([431], []))

    def test_half_a_head_has_its_time_and_half_a_request(self):
        """F-18: a connection without a complete head ends after DOOR_HEAD_S, whether it is silent or sends a byte now and
        then. A connection with half a request ends after DOOR_REQUEST_S.
        """
        silent, slow, half = self.connect(), self.connect(), WebSocket(self.broker.port)
        half.peer.sendall(frame(b"\x80\0\0\1" + bytes(20), claimed=1000))
        end = time.monotonic() + 60
        alive = {silent: b"", slow: b"GET / HTTP/1.1\r\n", half.peer: b"\0"}
        while alive and time.monotonic() < end:
            for peer in list(alive):
                try:
                    peer.settimeout(0.2)
                    peer.sendall(alive[peer][:1])
                    alive[peer] = alive[peer][1:] + alive[peer][:1]
                    if peer.recv(100) == b"":
                        del alive[peer]
                except TimeoutError:
                    pass
                except OSError:
                    del alive[peer]
        for peer in (silent, slow, half):
            peer.close()
        self.assertEqual(alive, {})


class Origins(Case):
    """F-23: a web page in a browser on this machine can also connect to loopback. The Origin header distinguishes it from
    other clients.
    """

    allowed = ("http://localhost:3000", "https://one.example")
    strange = ("http://localhost:3001", "https://one.example.evil.example", "null", "https://two.example", "")

    def answer(self, port, method, path, origin, upgrade):
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Origin: {origin}"]
        if upgrade:
            protocol = wire.RPC if path == "/rpc" else wire.LANE
            lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==",
                      "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Protocol: {protocol}"]
        with socket.create_connection(("127.0.0.1", port), 10) as peer:
            peer.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
            return int(peer.recv(4096).split(b" ")[1])

    def ask_all(self, port, origin):
        requests = (("GET", "/rpc", True), ("GET", "/lane/0", True), ("GET", "/metrics", False), ("GET", "/healthz", False),
                    ("POST", "/rpc", False), ("OPTIONS", "/rpc", False))
        return [self.answer(port, method, path, origin, upgrade) for method, path, upgrade in requests]

    def open_a_lane(self):
        session = wire.Session(wire.Rpc(self.broker.port), ["q"])
        self.assertEqual(session.lane, 0)
        return session

    def test_no_page_may_use_the_broker_by_default(self):
        self.open_a_lane()
        for origin in (*self.allowed, *self.strange):
            self.assertEqual(self.ask_all(self.broker.port, origin), [403] * 6, origin)
        self.broker.wait_logged("status=403", wait_s=5)
        self.broker.wait_logged("start tarryd with --allow-origin")

    def test_pages_of_allowed_origins_may(self):
        self.broker.stop()
        with open(self.path("tarry.ini"), "w", encoding="utf-8") as file:
            file.write(f"allow-origin = {self.allowed[0]}\n")
        self.broker.arguments += ["--config", self.path("tarry.ini"), "--allow-origin", self.allowed[1]]
        self.broker.start()
        self.open_a_lane()
        for origin in self.allowed:
            self.assertEqual(self.ask_all(self.broker.port, origin), [101, 401, 200, 200, 405, 405], origin)
        for origin in self.strange:
            self.assertEqual(self.ask_all(self.broker.port, origin), [403] * 6, origin)

    def test_an_origin_that_is_none_is_no_option(self):
        for origin in ("*", "example.org", "https://example.org/", "https://a b"):
            command = [harness.find_program("tarryd"), "--data", self.path("none"), "--allow-origin", origin]
            done = subprocess.run(command, stderr=subprocess.PIPE, check=False, timeout=20)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"option allow-origin takes an origin such as https://example.org", done.stderr)
        printed = subprocess.run([harness.find_program("tarryd"), "--print-config", "--allow-origin", "https://a", "--allow-origin", "null"],
                                 stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertIn("allow-origin=https://a null\n", printed)


if __name__ == "__main__":
    harness.main()
