"""live_test.py: GET /v1/stats?follow=true sends changing numbers as server-sent events: only changes, only numbers that the
token may see, and only while it may see them. The number of streams is limited, and a slow reader costs others nothing.
"""
import json
import socket
import time

import harness
import pair
import principals
import tokens
from harness import Case, wait_until
from http_client import Http

PATH = "/v1/stats?follow=true"
MAX = 64  # HTTP_LIVE_MAX
WAIT_S = 60


class Stream:
    """A connection that follows the statistics. `with Stream(broker) as stream: stream.next()`"""

    def __init__(self, broker, token=None, method="GET"):
        self.peer = socket.create_connection(("127.0.0.1", broker.port), timeout=WAIT_S)
        shown = f"Authorization: Bearer {token}\r\n" if token else ""
        self.peer.sendall(f"{method} {PATH} HTTP/1.1\r\nHost: x\r\n{shown}\r\n".encode())
        self.file = self.peer.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = {}
        while (line := self.file.readline().strip()):
            name, _, value = line.decode().partition(": ")
            self.headers[name] = value

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.peer.close()

    def chunk(self):
        """Returns the next chunk; b"" at the end."""
        line = self.file.readline()
        if not line:
            return b""
        data = self.file.read(int(line, 16))
        self.file.readline()
        return data

    def next(self):
        """Returns the next event's data; None: the stream has ended."""
        data = self.chunk()
        if not data:
            return None
        name, said, *rest = data.decode().split("\n")
        assert name == "event: stats" and said.startswith("data: {") and rest == ["", ""], data
        return json.loads(said.removeprefix("data: "))

    def until(self, what, holds):
        """Returns all events up to and including the first one for which `holds` is true."""
        end, before = time.monotonic() + WAIT_S, []
        while time.monotonic() < end:
            event = self.next()
            assert event is not None, f"{what}: the stream has ended"
            if holds(event):
                return event, before
            before.append(event)
        raise AssertionError(f"{what}: not within {WAIT_S} s: {before[-3:]}")


def names(event):
    return [queue["name"] for queue in event["queues"]]


class Follow(Case):
    def test_what_has_changed_and_no_more(self):
        for queue in ("a", "b", "c"):
            self.broker.ok("schedule", queue, "--in", "1h")
        with Stream(self.broker) as stream:
            self.assertEqual((stream.status, stream.headers["Content-Type"], stream.headers["Cache-Control"]), (200, "text/event-stream", "no-store"))
            first = stream.next()
            self.assertEqual((first["all"], sorted(names(first))), (True, ["a", "b", "c"]))
            self.assertEqual((first["status"]["role"], first["queues"][0]["pending"]), ("primary", 1))
            self.assertGreater(first["broker"]["disk_free"], 0)
            quiet = stream.next()
            self.assertEqual((quiet["all"], quiet["queues"]), (False, []), "nothing has changed")
            self.broker.ok("schedule", "b", "--in", "1h")
            changed, _ = stream.until("b changes", lambda event: event["queues"])
            self.assertEqual((changed["all"], names(changed), changed["queues"][0]["pending"]), (False, ["b"], 2))
            self.broker.ok("schedule", "d", "--in", "1h")
            more, _ = stream.until("d comes", lambda event: event["queues"])
            self.assertEqual((more["all"], names(more)), (False, ["d"]))
            self.broker.ok("queue", "purge", "a")
            stream.until("a is empty", lambda event: any(queue["name"] == "a" and not queue.get("pending") for queue in event["queues"]))
            self.broker.ok("queue", "delete", "a")
            gone, _ = stream.until("a is gone", lambda event: event["all"])
            self.assertEqual(sorted(names(gone)), ["b", "c", "d"])

    def test_what_is_none(self):
        http = Http(self.broker.port)
        for query in ("follow=true&queue=q", "follow=true&job=7", "follow=yes", "follow=true&nobody=1"):
            self.assertEqual(http.ask("GET", f"/v1/stats?{query}")[0], 400, query)
        self.assertEqual(http.ask("GET", "/v1/stats?follow=false")[0], 200)
        http.close()
        with Stream(self.broker, method="HEAD") as stream:
            self.assertEqual((stream.status, stream.headers["Content-Type"]), (200, "text/event-stream"))
            stream.peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertIn(b" 200 ", stream.file.readline(), "the connection goes on")

    def test_so_many_and_no_more(self):
        streams = [Stream(self.broker) for _ in range(MAX)]
        try:
            self.assertEqual({stream.status for stream in streams}, {200})
            with Stream(self.broker) as beyond:
                self.assertEqual((beyond.status, beyond.headers["Retry-After"]), (503, "1"))
                self.assertIn(b"HTTP_LIVE_MAX", beyond.file.read(int(beyond.headers["Content-Length"])))
            self.assertEqual(len(self.broker.ok("stats")), 1, "others are served")
            streams.pop().__exit__()

            def is_let_in():
                with Stream(self.broker) as again:
                    return again.status == 200 and again.next()
            wait_until("one is free again", is_let_in, WAIT_S)
        finally:
            for stream in streams:
                stream.__exit__()

    def test_who_does_not_read_is_ended_and_holds_little(self):
        """Each event has all 2,000 queues, because their overdue times grow. For a client that does not read, only few events
        are made.
        """
        self.broker.ok("schedule", "--from", "-", stdin="".join(json.dumps({"queue": f"queue-{number:04}", "delay_ms": 0}) + "\n" for number in range(2000)))
        http = Http(self.broker.port)
        self.addCleanup(http.close)
        before = http.ask("GET", "/v1/stats")[1]["broker"]["resident_bytes"]
        deaf = []
        for _ in range(8):
            peer = socket.socket()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.connect(("127.0.0.1", self.broker.port))
            peer.sendall(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            deaf.append(peer)
        with Stream(self.broker) as reader:
            for _ in range(4):
                self.assertEqual(len(reader.next()["queues"]), 2000)
            held = http.ask("GET", "/v1/stats")[1]["broker"]["resident_bytes"] - before
            print(f"# 8 who do not read hold {held >> 20} MiB")
            if not harness.SANITIZED:  # a sanitizer's allocator keeps freed memory
                self.assertLess(held, 20 << 20, "an event each, and some")

            def is_ended(peer):
                """Returns whether the stream has ended: unread data comes first, then the end or a reset."""
                peer.settimeout(10)
                try:
                    while peer.recv(1 << 20):
                        pass
                except TimeoutError:
                    return False
                except ConnectionResetError:
                    pass
                return True
            # The kernel accepts some events. After DOOR_UNREAD_S, the log reports the first client that was closed.
            end, seen = time.monotonic() + 2 * WAIT_S, False
            while time.monotonic() < end:
                self.assertIsNotNone(reader.next())
                if not seen and any("the client does not read its replies" in line for line in self.broker.log):
                    seen, end = True, time.monotonic() + 15  # all streams began at the same time, so the second one ends soon
            self.assertTrue(seen, "who does not read is ended")
            self.assertTrue(all(is_ended(peer) for peer in deaf))
            self.assertIsNotNone(reader.next(), "who reads goes on")
        for peer in deaf:
            peer.close()


class Allowed(principals.Access):
    rows = (principals.NOBODY, tokens.row("eye", "read"), tokens.row("shop", "read", "queue=orders."), tokens.row("maker", "produce"))

    def fill(self):
        http = Http(self.broker.port, tokens.text_of("maker"))
        for queue in ("orders.close", "mail"):
            self.assertEqual(http.ask("POST", "/v1/tasks", {"queue": queue, "in": "1h"})[0], 201)
        http.close()

    def test_what_the_token_may_see_as_long_as_it_may(self):
        self.fill()
        for name, status in ((None, 403), ("maker", 403)):
            with Stream(self.broker, name and tokens.text_of(name)) as stream:
                self.assertEqual(stream.status, status, name)
        with Stream(self.broker, "tarry_nobodys") as stream:
            self.assertEqual(stream.status, 401)
        with Stream(self.broker, tokens.text_of("eye")) as eye, Stream(self.broker, tokens.text_of("shop")) as shop:
            self.assertEqual((sorted(names(eye.next())), names(shop.next())), (["mail", "orders.close"], ["orders.close"]))
            principals.write(self.tokens, principals.NOBODY, tokens.row("eye", "read"), tokens.row("maker", "produce"))
            end = time.monotonic() + WAIT_S
            while shop.next() is not None:
                self.assertLess(time.monotonic(), end, "a revoked token is told nothing more")
            self.assertIsNotNone(eye.next(), "another one is")


class Both(pair.Case):
    def test_both_nodes_of_a_pair_tell(self):
        self.start_pair()
        for broker, role in ((self.a, "primary"), (self.b, "follower")):
            with Stream(broker) as stream:
                event, _ = stream.until("both are in sync", lambda event: event["status"].get("in_sync"))
                self.assertEqual((event["status"]["role"], event["status"]["primary"]), (role, self.a.url))


if __name__ == "__main__":
    harness.main()
