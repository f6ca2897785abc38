"""http_hostile_test.py: hostile HTTP and JSON. A few bytes could cost the broker much memory or time (CALM-1). A proxy could
confuse replies. Web pages of other origins could send requests. Line breaks in values could forge lines of the broker's
log. Clients could use Idempotency-Keys without rights.
"""
import contextlib
import gzip
import json
import re
import socket
import time

import harness
import principals
import tokens
from harness import Case
from http_client import Http, raw

MIB = 1 << 20
ROUNDS = 5


def post(path, body, *fields):
    head = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", *fields, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(head).encode() + body


def peak_mib(broker):
    with open(f"/proc/{broker.process.pid}/status", encoding="ascii", errors="replace") as file:
        return int(re.search(r"^VmHWM:\s*(\d+)", file.read(), re.M).group(1)) >> 10


class Bombs(Case):
    """F-20: input that is small on the wire, but large or slow to parse."""

    arguments = ("--segment-size", "64MiB")

    def speak(self, data):
        peer = socket.create_connection(("127.0.0.1", self.broker.port), 30)
        self.addCleanup(peer.close)
        peer.sendall(data)
        return peer

    def test_values_of_three_bytes_take_no_gigabyte(self):
        """16 MiB of {} are 5.6 million JSON objects."""
        body = b"[" + b"{}," * (15 * MIB // 3) + b"0]"
        before = peak_mib(self.broker)
        for path in ("/v1/tasks", "/v1/commit", "/v1/lease"):
            with self.subTest(path):
                said = raw(self.broker.port, post(path, gzip.compress(body, 1), "Content-Encoding: gzip"), wait_s=60)
                self.assertIn(b" 413 ", said[:20])
                self.assertIn(b"too_large", said)
        line = b'{"queue":"q","in":"1h","json":' + body + b"}\n"
        asked = post("/v1/tasks", line, "Connection: close").replace(b"application/json", b"application/x-ndjson")
        said = raw(self.broker.port, asked, answers=99, wait_s=60)
        self.assertIn(b"too_large", said)
        if not harness.SANITIZED:
            self.assertLess(peak_mib(self.broker) - before, 150)

    def test_a_batch_as_large_as_may_be_is_taken(self):
        tasks = [{"queue": "q", "in": "1h", "json": {f"member-{n}": n for n in range(12)}} for _ in range(8192)]
        http = Http(self.broker.port)
        self.addCleanup(http.close)
        status, answer = http.ask("POST", "/v1/tasks", tasks)
        self.assertEqual((status, len(answer.get("results", ()))), (200, 8192), str(answer)[:300])

    def test_millions_of_lines_stop_nobody(self):
        """16 MiB of line ends, compressed to 16 KiB, are 16 million invalid lines."""
        packed = gzip.compress(b"\n" * (16 * MIB), 9)
        self.speak(post("/v1/tasks", packed, "Content-Encoding: gzip").replace(b"application/json", b"application/x-ndjson"))
        worst = 0
        for _ in range(ROUNDS):
            began = time.monotonic()
            self.assertIn(b" 200 ", raw(self.broker.port, b"GET /v1/queues HTTP/1.1\r\nHost: x\r\n\r\n", wait_s=60))
            worst = max(worst, time.monotonic() - began)
        self.assertLess(worst, 6 if harness.SANITIZED else 1.5)

    def waits(self, data):
        """Checks that the request is not answered at once."""
        try:
            peer = self.speak(data)
            peer.settimeout(0.2)
            self.assertIn(b" 503 ", peer.recv(100)[:20])
        except TimeoutError:
            return True
        except OSError:
            pass  # the request was refused before all of it was sent
        return False

    def test_who_waits_for_tasks_does_not_hold_what_he_asked_with(self):
        """Requests may hold 32 MiB (an eighth of --memory). In an earlier version, each of these requests held 12 MiB while it
        waited.
        """
        body = b" " * (12 * MIB) + b'{"wait":"30s"}'
        for fields, said in (((), body), (("Content-Encoding: gzip",), gzip.compress(body, 1))):
            for _ in range(3):
                tries = 0
                while not self.waits(post("/v1/queues/q/lease", said, *fields)):
                    tries += 1  # the previous request is still being read, and holds its body
                    self.assertLess(tries, 400)
                    time.sleep(0.05)
        large, said = json.dumps({"queue": "other", "in": "1h", "body": "x" * 900_000}).encode(), b" 503 "
        while b" 503 " in said[:20]:
            said = raw(self.broker.port, post("/v1/tasks", b" " * (12 * MIB) + large), wait_s=30)
        self.assertIn(b" 201 ", said[:20])

    def test_what_is_sent_too_early_gives_way(self):
        """Each waiting request is followed by 60 KiB of early input, which must be dropped when memory is needed."""
        crowd = [self.speak(post("/v1/queues/q/lease", b'{"wait":"60s"}') + b"x" * 60_000) for _ in range(400)]
        time.sleep(2.5)  # DOOR_SILENT_S: half-received bodies keep their memory for this time, even if others need it
        large = json.dumps({"queue": "other", "in": "1h", "body": "x" * 900_000}).encode()
        self.assertIn(b" 201 ", raw(self.broker.port, post("/v1/tasks", b" " * (12 * MIB) + large), wait_s=30))
        self.assertTrue(crowd)


class Answers(Case):
    """F-20: each request gets exactly one response, which cannot be mistaken for the response to another request."""

    def test_a_head_has_no_body(self):
        """The response to HEAD has no body, because a client would read a body as the next response."""
        self.broker.ok("schedule", "q", "--in", "1h")
        for path in ("/v1/audit", "/v1/audit?follow=true", "/v1/queues", "/v1/openapi.json"):
            asked = f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/nobody HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            heads = raw(self.broker.port, asked, answers=2).split(b"\r\n\r\n")
            self.assertTrue(heads[0].startswith(b"HTTP/1.1 200 "), heads)
            self.assertTrue(heads[1].startswith(b"HTTP/1.1 404 "), heads[1][:100])

    def test_pages_are_served_behind_requests(self):
        asked = "".join(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n" for path in ("/v1/queues", "/v1/stats", "/metrics", "/healthz"))
        said = raw(self.broker.port, asked.encode(), answers=4)
        self.assertEqual(re.findall(rb"HTTP/1.1 (\d+)", said), [b"200"] * 4)
        self.assertIn(b'"now_ms":', said)
        self.assertIn(b"tarry_", said)


class Names(Case):
    """F-23: a web page whose host name resolves to this machine (DNS rebinding) sends GET requests without an Origin."""

    arguments = ("--allow-origin", "https://board.example:8443")

    def status(self, path, host, *fields):
        asked = "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}", *fields, "", ""])
        return int(raw(self.broker.port, asked.encode()).split()[1])

    def test_a_made_up_name_is_refused(self):
        for path in ("/v1/queues", "/v1/audit", "/metrics", "/v1/stats"):
            with self.subTest(path):
                for host in ("evil.example", "evil.example:7272", "127.0.0.1.evil.example", "localhost.evil.example", "board.example.evil", "oard.example"):
                    self.assertEqual(self.status(path, host), 403, host)
                for host in ("127.0.0.1", "127.0.0.1:7272", "localhost:7272", "[::1]:7272", "broker", "a.localhost", "board.example", "BOARD.example:1"):
                    self.assertEqual(self.status(path, host), 200, host)
                self.assertEqual(self.status(path, "evil.example", f"Authorization: Bearer {tokens.ADMIN}"), 200)


    def test_a_page_s_origin_is_the_broker_s_own_or_allowed(self):
        """A POST by a web page, and any request by a page of another origin, has an Origin (CSRF)."""
        own, token = f"127.0.0.1:{self.broker.port}", f"Authorization: Bearer {tokens.ADMIN}"
        for host, origin, status in ((own, f"http://{own}", 200), (own, "https://board.example:8443", 200), (own, f"https://{own}", 403), (own, "http://127.0.0.1", 403),
                                     (own, f"http://{own}.evil.example", 403), (own, "https://evil.example", 403), (own, "null", 403)):
            self.assertEqual(self.status("/v1/queues", host, f"Origin: {origin}"), status, origin)
            self.assertEqual(self.status("/v1/queues", host, f"Origin: {origin}", token), status, origin)
        self.assertEqual(self.status("/v1/queues", "evil.example:80", "Origin: http://evil.example:80"), 403, "a name that leads here is its own origin, too")
        self.assertEqual(self.status("/v1/queues", "evil.example:80", "Origin: http://evil.example:80", token), 200, "and has no token to show")


class Full(harness.Case):
    """CAP-1: an ack is always accepted, even compressed, whatever half-received requests hold."""

    arguments = ("--memory", "64MiB")

    def half(self, size):
        """Sends half a request of this size. Returns True if the broker keeps it, False if the broker refuses it."""
        peer = socket.create_connection(("127.0.0.1", self.broker.port), 20)
        self.addCleanup(peer.close)
        peer.sendall(b"POST /v1/queues/q/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (2 * size) + b" " * size)
        peer.settimeout(0.1)
        try:
            return not peer.recv(4096)
        except TimeoutError:
            return True
        except OSError:
            return False

    def status(self, sent, headers):
        with contextlib.closing(Http(self.broker.port, tokens.ADMIN)) as http:
            return http.ask("POST", "/v1/tasks/1/ack", sent, headers)[0]

    def test_a_small_packed_ack_is_small(self):
        body = json.dumps({"token": "1-1"}).encode()
        large = json.dumps({"token": "1-1", "x": "y" * 70000}).encode()

        def comes_through():
            """Returns whether a large request is accepted. (Half-received requests that are silent for 2 s are dropped.)"""
            for size in (2 << 20, 512 << 10, 64 << 10, 32 << 10):
                while self.half(size):
                    pass
            plain, packed = self.status(body, ()), self.status(gzip.compress(body), {"Content-Encoding": "gzip"})
            try:
                return self.status(large, ()) == 503 and (plain, packed)
            except OSError:  # the request was refused while it was sent
                return plain, packed

        plain, packed = harness.wait_until("it is full", comes_through, 60)
        self.assertNotEqual(plain, 503)
        self.assertEqual(packed, plain)


class Strangers(principals.Access):
    """F-23: requests of a client without permissions leave nothing on the disk."""

    rows = (tokens.row("worker", "consume"), tokens.row("slow", "produce", "rate=3"), tokens.row("all", "produce,consume,read"),
            tokens.row("boss", "operate"), tokens.row("apart", "read", "queue=a."))

    def web(self, name):
        http = Http(self.broker.port, tokens.text_of(name))
        self.addCleanup(http.close)
        return http

    def receipts(self):
        _, stats = self.web("all").ask("GET", "/v1/stats")
        return sum(queue["pending"] for queue in stats.get("queues", []) if queue["name"] == "tarry.once")

    def test_a_key_of_whoever_may_not_is_not_recorded(self):
        """A receipt stays on disk for a day. So a client without permissions must not be able to fill the disk with receipts."""
        worker, slow = self.web("worker"), self.web("slow")
        for n in range(20):
            status, answer = worker.ask("POST", "/v1/tasks", {"queue": "q", "in": "1h"}, {"Idempotency-Key": f"worker-{n}"})
            self.assertEqual((status, answer["code"]), (403, "denied"))
        self.assertEqual(self.receipts(), 0)
        statuses = [slow.ask("POST", "/v1/tasks", {"queue": "q", "in": "1h"}, {"Idempotency-Key": f"slow-{n}"})[0] for n in range(60)]
        self.assertIn(503, statuses)
        self.assertLess(self.receipts(), 30)

    def test_the_minutes_of_all_queues_are_for_those_who_may_see_them(self):
        for name, status in (("worker", 403), ("slow", 403), ("apart", 403), ("all", 200), ("boss", 200)):
            self.assertEqual(self.web(name).ask("GET", "/v1/minutes")[0], status, name)

    def test_a_path_ends_no_line_of_the_log(self):
        for prefix in (b"", b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", self.broker.port), 20) as peer:
                peer.sendall(prefix + b"GET /a%0aevent=made_up%20x=y HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nobody\r\n\r\n")
                while peer.recv(65536):
                    pass
        self.log_says("event=access_refused")
        self.log_says("status=401")
        self.assertFalse([line for line in self.broker.log if line.startswith("event=made_up")], self.broker.log_text())


if __name__ == "__main__":
    harness.main()
