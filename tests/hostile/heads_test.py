"""heads_test.py: wrong HTTP heads. After each head, another request follows in the same packet. A server that treats a body as
a request would answer a request that no client sent (smuggling). The broker refuses every ambiguous head and ends the
connection.
"""
import time

from stranger import BINARY, SENTINEL, Hostile, frame, hello, statuses, upgrade_head
import wire
from harness import main

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
END = b"\r\n"
DOOR_HEAD_S = 10  # broker/net/door.h
BEHIND = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
A1 = b"GET /aaaaaaaaaaaaaaaaaaa%41 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

BEGINNINGS = ("X-Auth", "x-forwarded", "If", "CONTENT", "A", "Sec-WebSocket", "Access-Control-Request-Header", "Ge")
# For each case: the bytes that are sent, and the statuses of the answers before the end of the connection.
SMUGGLED = {
    "a body of five bytes": (HEALTH + b"Content-Length: 5\r\n\r\nabcde", [413]),
    "a body of none": (HEALTH + b"Content-Length: 0\r\n\r\n", [200, 200]),
    "none twice": (HEALTH + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n", [400]),
    "two lengths": (HEALTH + b"Content-Length: 0\r\nContent-Length: 36\r\n\r\n", [400]),
    "two lengths, the other way": (HEALTH + b"Content-Length: 36\r\nContent-Length: 0\r\n\r\n", [400]),
    "two lengths in a line": (HEALTH + b"Content-Length: 0, 36\r\n\r\n", [400]),
    "a length with a sign": (HEALTH + b"Content-Length: +0\r\n\r\n", [400]),
    "a negative length": (HEALTH + b"Content-Length: -1\r\n\r\n", [400]),
    "a length in hex": (HEALTH + b"Content-Length: 0x0\r\n\r\n", [400]),
    "no length in its header": (HEALTH + b"Content-Length:\r\n\r\n", [400]),
    "a length of many zeros": (HEALTH + b"Content-Length: " + b"0" * 600 + b"36\r\n\r\n", [400]),
    "a length beyond 2^64": (HEALTH + b"Content-Length: 99999999999999999999\r\n\r\n", [400]),
    "a length behind a tab": (HEALTH + b"Content-Length:\t36\r\n\r\n", [413]),
    "a folded length": (HEALTH + b"Content-Length:\r\n 36\r\n\r\n", [400]),
    "a length in other letters": (HEALTH + b"cOnTeNt-lEnGtH: 36\r\n\r\n", [413]),
    "a blank before the colon": (HEALTH + b"Content-Length : 36\r\n\r\n", [400]),
    "chunks": (HEALTH + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [413]),
    "chunks and a length": (HEALTH + b"Content-Length: 36\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [400]),
    "a length and chunks": (HEALTH + b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", [400]),
    "chunks that are none": (HEALTH + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", [501]),
    "identity": (HEALTH + b"Transfer-Encoding: identity\r\n\r\n", [501]),
    "no encoding in its header": (HEALTH + b"Transfer-Encoding:\r\n\r\n", [501]),
    "chunks behind a vertical tab": (HEALTH + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n", [400]),
    "chunks before a blank": (HEALTH + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", [400]),
    "chunks in a fold": (HEALTH + b"X-B: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [400]),
    "chunks behind a bare CR": (HEALTH + b"X-B: a\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [400]),
    "a fold before all headers": (b"GET /healthz HTTP/1.1\r\n Content-Length: 36\r\n\r\n", [400]),
    "a folded value": (HEALTH + b"X-B: a\r\n b\r\n\r\n", [400]),
    "NUL in a value": (HEALTH + b"X-B: a\0b\r\n\r\n", [400]),
    "a line without a colon": (HEALTH + b"nocolon\r\nContent-Length: 36\r\n\r\n", [400]),
    "a line without a name": (HEALTH + b": x\r\nContent-Length: 36\r\n\r\n", [400]),
    "a CR before the empty line": (HEALTH + b"\r\r\nContent-Length: 36\r\n\r\n", [400]),
    "an empty line before all": (b"\r\n" + HEALTH + END, [400]),
    # Each of these names is the beginning of a known name. A parser that compares only the first bytes of a name would
    # confuse them.
    **{f"{name}, and an empty line": (HEALTH + name.encode() + b": a\r\n\r\n", [200, 200]) for name in BEGINNINGS},
    **{f"{name}, and a length": (HEALTH + name.encode() + b": a\r\nContent-Length: 36\r\n\r\n", [413]) for name in BEGINNINGS},
    "such names behind each other": (HEALTH + b"X-Auth: a\r\nIf: b\r\nA:\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [413]),
    "such a name and an origin": (HEALTH + b"X-Auth: a\r\nOrigin: http://evil.example\r\n\r\n", [403]),
    "such a name and a wrong token": (HEALTH.replace(b"/healthz", b"/metrics") + b"X-Auth: a\r\nAuthorization: Bearer nobodys\r\n\r\n", [401]),
    "many of them": (HEALTH + b"X:\n" * 200 + END, [400]),
    "bare LF": (b"GET /healthz HTTP/1.1\nHost: x\n\n", [400]),
    "NUL in a name": (HEALTH + b"Content-Length\0: 36\r\n\r\n", [400]),
    "bytes above 127": (HEALTH + b"\xff\xfe: \xff\xfe\r\n\r\n", [400]),
    "two hosts": (HEALTH + b"Host: y\r\n\r\n", [400]),
    "three in a row": (HEALTH + END + HEALTH + END, [200, 200, 200]),
    "a body of POST": (b"POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: 36\r\n\r\n", [405]),
    "a page, and an upgrade behind it": (HEALTH + END + upgrade_head(), [200, 101]),
    "the version before": (b"GET /healthz HTTP/1.0\r\nHost: x\r\n\r\n", [200]),
    "a version that is none": (b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n", [505]),
    "a version of another major": (b"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n", [505]),
    "a version of three digits": (b"GET /healthz HTTP/1.11\r\nHost: x\r\n\r\n", [505]),
    "no version's name": (b"GET /healthz XTTP/1.1\r\nHost: x\r\n\r\n", [505]),
    "a page that is none": (b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", [404, 200]),
}
# Targets of a GET that the broker handles as paths of /v1.
TARGETS = {
    b"/healthz": [200], b"/healthz?a=b": [200], b"//healthz": [404], b"/x/../healthz": [400], b"/%68ealthz": [200], b"/healthz/": [404],
    b"/healthz%2f": [404], b"/healthz#x": [400], b"/../../etc/passwd": [400], b"/%2e%2e/%2e%2e/etc/passwd": [400], b"/health z": [400], b"/\xff\xfe": [400],
    b"/%": [400], b"/%4": [400], b"/%zz": [400], b"healthz": [400], b"": [400], b"*": [400], b"/healthz%00": [400], b"/healthz\0": [400],
    b"http://127.0.0.1/healthz": [400], b"http://evil.example/": [400], b"/" + b"a/" * 3000: [404], b"/" + b"a" * 9000: [404], b"/" + b"a" * 17000: [431],
    b"/rpc": [404], b"/rpc%00": [400], b"/lane/0": [404], b"/lane/%30": [404],
}
METHODS = {b"HEAD": [200], b"POST": [405], b"PUT": [405], b"DELETE": [405], b"PATCH": [405], b"OPTIONS": [405], b"CONNECT": [405], b"TRACE": [405],
           b"GETX": [405], b"FOO": [405], b"get": [405], b"G" * 5000: [405], b"": [400]}
# Other protocols, and bytes of no protocol. None: no answer, and the connection ends. A first byte 0 begins a hello of
# nng's transports (SP).
SP_HELLO = b"\0SP\0\0\x30\0\0"
ELSE = {
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), None), "SSH": (b"SSH-2.0-x\r\n", 400), "memcached": (b"stats\r\n", 400),
    "Redis": (b"*1\r\n$4\r\nPING\r\n", 400), "HTTP behind a byte 0": (b"\0" + HEALTH + END, None),
    "SP of no socket that we serve": (b"\0SP\0\0\x10\0\0", None), "HTTP behind SP's hello": (SP_HELLO + HEALTH + END, None),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), 505),
    "empty lines": (b"\r\n" * 100, 400), "CR alone": (HEALTH.replace(b"\r\n", b"\r") + b"\r", 400),
    "25,000 headers": (HEALTH + b"a: b\r\n" * 25000 + END, 431), "500 headers that are known": (HEALTH + b"Accept: b\r\n" * 500 + END, 431),
    "a header of 17,000 bytes": (HEALTH + b"X-B: " + b"y" * 17000 + b"\r\n\r\n", 431),
}
# Incomplete heads: the broker closes their connections after the time limit.
UNFINISHED = {"nothing": b"", "half a line": b"GET /heal", "no empty line": HEALTH, "half a name": HEALTH + b"X-Au"}
# For each case: a line that replaces a line of a correct upgrade or is added to it, and the expected status.
UPGRADES = {
    "as it should be": ({}, [], 101),
    "with a length": ({}, ["Content-Length: 5"], 413),
    "with a length of many zeros": ({}, ["Content-Length: " + "0" * 600], 400),
    "with chunks": ({}, ["Transfer-Encoding: chunked"], 413),
    "with a length behind a name that another one begins with": ({}, ["X-Auth: a", "Content-Length: 5"], 413),
    "with an origin behind such a name": ({}, ["If: a", "Origin: http://evil.example"], 403),
    "with such a name alone": ({}, ["X-Auth: a"], 101),
    "with two keys": ({}, ["Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw=="], 400),
    "of another version of HTTP": ({b"HTTP/1.1": b"HTTP/9.9"}, [], 505),
    "with two versions": ({}, ["Sec-WebSocket-Version: 8"], 400),
    "with two protocols": ({}, ["Sec-WebSocket-Protocol: chat"], 400),
    "of an absolute target": ({b"GET /rpc": b"GET http://127.0.0.1/rpc"}, [], 400),
    "by POST": ({b"GET /rpc": b"POST /rpc"}, [], 405),
    "by HEAD": ({b"GET /rpc": b"HEAD /rpc"}, [], 404),
    "without Connection": ({b"Connection: Upgrade\r\n": b""}, [], 404),
    "that is to close": ({b"Connection: Upgrade": b"Connection: close"}, [], 404),
    "without a key": ({b"Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n": b""}, [], 400),
}


class Heads(Hostile):
    def came_of(self, data, piece=None):
        """Returns the statuses of all answers until the broker ends the connection."""
        with self.stranger() as peer:
            peer.send(data, piece)
            self.assertTrue(peer.receive_until(lambda got: False))
            return statuses(peer.got)

    def test_nothing_is_smuggled(self):
        """F-20: two parsers may disagree, because one reads a body where the other reads a request."""
        for name, (head, expected) in SMUGGLED.items():
            with self.subTest(name):
                self.assertEqual(self.came_of(head + BEHIND), expected)
        self.assert_logged("status=413")

    def test_the_same_a_byte_at_a_time(self):
        """F-18."""
        for name in ("two lengths", "chunks and a length", "a blank before the colon", "bare LF", "a body of none"):
            head, expected = SMUGGLED[name]
            with self.subTest(name):
                self.assertEqual(self.came_of(head + BEHIND if len(expected) > 1 else head, piece=1), expected)

    def test_targets_and_methods(self):
        for target, expected in TARGETS.items():
            with self.subTest(target=target[:40]):
                self.assertEqual(self.came_of(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), expected)
        for method, expected in METHODS.items():
            with self.subTest(method=method[:10]):
                self.assertEqual(self.came_of(method + b" /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), expected)

    def test_what_is_not_http(self):
        """F-20."""
        for name, (data, expected) in ELSE.items():
            with self.subTest(name):
                answers = [] if expected is None else [expected]
                self.assertIn(self.came_of(data), (answers, []) if len(data) > 8000 else (answers,))  # with more data the answer may be lost
        self.assert_logged("connect to a wss:// address")

    def test_an_upgrade_to_something_else_is_ignored(self):
        """RFC 9110, 7.8. Java's HttpClient offers h2c with each first request."""
        offer = b"Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
        for head in (HEALTH, b"GET /metrics HTTP/1.1\r\nHost: x\r\n", b"GET /v1/caller HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"):
            with self.subTest(head):
                self.assertEqual(self.came_of(head + offer + END), [200])

    def test_one_judgement_for_all_paths(self):
        """F-20: the same malformed HTTP heads are refused at every URL path."""
        for lines in (b"Host : x\r\n", b"Host: y\r\n", b"X: a\0b\r\n", b"X: a\rb\r\n", b"X: a\nY: b\r\n", b"X: a\r\n b\r\n", b"Content_Length: 5\r\n",
                      b"Content-Length: 1\r\nContent-Length: 1\r\n", b"Origin: a\r\nOrigin: a\r\n"):
            for path in (b"/v1/caller", b"/rpc", b"/lane/0", b"/metrics", b"/healthz", b"/"):
                with self.stranger() as peer:
                    peer.send(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n" + lines + END)
                    self.assertTrue(peer.receive_until(lambda got: False))
                    self.assertEqual(statuses(peer.got), [400], (path, lines))

    def test_upgrades(self):
        for name, (changes, more, expected) in UPGRADES.items():
            head = upgrade_head(headers=more)
            for old, new in changes.items():
                self.assertIn(old, head)
                head = head.replace(old, new)
            with self.subTest(name), self.stranger() as peer:
                peer.send(head)
                peer.receive_until(lambda got: b"\r\n\r\n" in got)
                self.assertEqual(statuses(peer.got), [expected])


class Slow(Hostile):
    log_lines_max = 60

    def test_what_never_ends_has_its_time(self):
        """F-18: connections with an incomplete head are closed after DOOR_HEAD_S, without an answer. A silent upgraded
        connection may stay.
        """
        silent = self.stranger()
        self.assertIn(" 101 ", silent.upgrade())
        peers = {name: self.stranger() for name in UNFINISHED}
        before = time.monotonic()
        for name, peer in peers.items():
            peer.send(UNFINISHED[name])
        for name, peer in peers.items():
            with self.subTest(name), peer:
                self.assertTrue(peer.receive_until(lambda got: False))
                self.assertEqual(statuses(peer.got), [])
                self.assertGreater(time.monotonic() - before, DOOR_HEAD_S / 2)
        with silent:
            silent.send(frame(BINARY, hello(SENTINEL)))
            self.assertEqual(silent.words(), [f"answer:{SENTINEL}"])


class Findings(Hostile):
    """Attacks on a broker by a client without credentials (issue 12, A)."""

    def test_a1_a_target_that_ends_in_an_escape(self):
        """F-20: with such a target, nng 1.5.2's server wrote past the end of its buffer (nng#1594), and the following requests
        ended tarryd.
        """
        for size in range(64):
            with self.stranger() as peer:
                peer.send(A1.replace(b"a" * 19, b"a" * size))
                self.assertTrue(peer.receive_until(lambda got: False))
                self.assertEqual(statuses(peer.got), [404])

    def test_a2_an_empty_follow(self):
        """F-20: in an earlier version, a Follow request with empty or invalid fields crashed a broker without a peer. (Pairs:
        e2e/pair_wire_test.py, and the strangers of tests/fuzz in each role.)
        """
        with wire.Rpc(self.broker.port) as rpc:
            for fields in ([], [(1, b"")], [(1, b"\xff" * 64)], [(3, 1 << 63)]):
                code, reply = rpc.ask(wire.FOLLOW, fields)
                self.assertNotEqual((code, len(reply) >= 32), (wire.OK, True), "a secret was given away")

    def test_a3_two_bodies_in_a_request(self):
        """F-20: if a request has several bodies, the broker uses the last one that it unpacks. Tests all pairs of bodies, and
        the request with two bodies that crashed an earlier version.
        """
        redact = wire.encode([(wire.COMMIT, [(1, 1), (2, 1), (5, [(9, [(1, [(1, 1)])])])]), (wire.STATS, [(1, "q" * 32)])])
        with wire.Rpc(self.broker.port) as rpc:
            rpc.ask_packed(wire.encode([(1, 1), (2, "x")]) + redact)
            for first in wire.BODIES:
                for second in wire.BODIES:
                    rpc.tell_packed(wire.encode([(1, 1), (2, "x"), (first, []), (second, [])]))
                    if second in (wire.AUDIT, wire.FOLLOW):
                        continue
                    rpc.hear()

    def test_a4_a_foreign_origin(self):
        """F-23: requests of a web page in a browser on this machine."""
        for origin in ("http://evil.example", "null", "", "http://127.0.0.1:1", "file://"):
            for head in (upgrade_head(headers=[f"Origin: {origin}"]), upgrade_head("/lane/0", wire.LANE, [f"Origin: {origin}"]),
                         HEALTH + f"Origin: {origin}\r\n\r\n".encode(), f"POST /rpc HTTP/1.1\r\nHost: x\r\nOrigin: {origin}\r\n\r\n".encode()):
                with self.subTest(origin=origin, head=head[:20]), self.stranger() as peer:
                    peer.send(head)
                    self.assertTrue(peer.receive_until(lambda got: False))
                    self.assertEqual(statuses(peer.got), [403])
        self.assert_logged("status=403")


if __name__ == "__main__":
    main()
