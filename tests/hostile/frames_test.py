"""frames_test.py: WebSocket case by case, in the order of Autobahn's list (github.com/crossbario/autobahn-testsuite): the
frames that are sent, and the expected result. After each case, an honest request (SENTINEL) follows in the same packet. If
it is answered, the broker has accepted everything before it.
"""
import os
import socket
import struct
import time

import stranger
import harness
import wire
from harness import main
from stranger import BINARY, CLOSE, CONTINUATION, PING, PONG, SENTINEL, TEXT, Hostile, frame, hello

ONE = hello(1)
ANSWERED, LIVES = ["answer:1", f"answer:{SENTINEL}"], [f"answer:{SENTINEL}"]
CUT = ["eof"]


def closed(code):
    return [f"close:{code}"]


def reason(code, text=b""):
    return struct.pack(">H", code) + text


# Autobahn 1: framing. Requests are binary messages; text messages are invalid.
FRAMING = {
    "a request": (frame(BINARY, ONE), ANSWERED),
    # A length that uses more bytes than it needs (RFC 6455, 5.2).
    "its length in 16 bits": (frame(BINARY, ONE, length=16), closed(1002)),
    "its length in 64 bits": (frame(BINARY, ONE, length=64), closed(1002)),
    "not masked": (frame(BINARY, ONE, masked=False), closed(1002)),
    "a ping that is not masked": (frame(PING, b"hi", masked=False), closed(1002)),
    "a close that is not masked": (frame(CLOSE, reason(1000), masked=False), closed(1002)),
    "text": (frame(TEXT, b"hello"), closed(1003)),
    "text that is a request": (frame(TEXT, ONE), closed(1003)),
    "no text": (frame(TEXT), closed(1003)),
    "text that is not UTF-8": (frame(TEXT, b"\xce\xba\xe1\xbd\xb9\xcf\x83\xed\xa0\x80"), closed(1003)),
    "text in fragments that cut a character": (frame(TEXT, b"\xce", fin=False) + frame(CONTINUATION, b"\xba"), closed(1003)),
    # Sizes on both sides of each boundary at which the length needs more bytes. Zeros are not a valid request, so the
    # broker answers with an error under the request's id.
    **{f"a message of {size}": (frame(BINARY, b"\x80\0\0\1" + bytes(size - 4)), ANSWERED) for size in (4, 125, 126, 127, 128, 65535, 65536, 1 << 20)},
    "a mask of zeros": (frame(BINARY, ONE, mask=bytes(4)), ANSWERED),
    "a mask of ones": (frame(BINARY, ONE, mask=b"\xff" * 4), ANSWERED),
    "a mask of its own for each fragment": (frame(BINARY, ONE[:5], fin=False, mask=b"\1\2\3\4") + frame(CONTINUATION, ONE[5:], mask=b"\5\6\7\x08"), ANSWERED),
    "a length of 2^64 - 1": (b"\x82\xff" + b"\xff" * 8 + stranger.MASK, closed(1002)),
    "a frame of 1 MiB and a byte": (b"\x82\xff" + struct.pack(">Q", (1 << 20) + 1) + stranger.MASK + ONE, closed(1009)),
}
# Autobahn 2: pings and pongs.
PINGS = {
    "a ping": (frame(PING), ["pong:", *LIVES]),
    "a ping with words": (frame(PING, b"hi"), ["pong:hi", *LIVES]),
    "a ping of 125 bytes": (frame(PING, b"x" * 125), ["pong:" + "x" * 125, *LIVES]),
    "a ping of 126 bytes": (frame(PING, b"x" * 126), closed(1002)),
    "a ping of 64 KiB": (frame(PING, bytes(1 << 16)), closed(1002)),
    "a pong that nobody asked for": (frame(PONG, b"hi"), LIVES),
    "a pong that nobody asked for, and a ping": (frame(PONG, b"ho") + frame(PING, b"hi"), ["pong:hi", *LIVES]),
    "a pong of 126 bytes": (frame(PONG, b"x" * 126), closed(1002)),
}
# Autobahn 3 and 4: reserved bits and opcodes.
RESERVED = {
    **{f"reserved bits {bits:03b}": (frame(BINARY, ONE, reserved=bits), closed(1002)) for bits in range(1, 8)},
    **{f"reserved bits {bits:03b} of a ping": (frame(PING, b"", reserved=bits), closed(1002)) for bits in range(1, 8)},
    "a reserved bit of a close": (frame(CLOSE, reason(1000), reserved=4), closed(1002)),
    # Frames marked as compressed, although compression was not agreed.
    "a deflated request": (frame(BINARY, bytes.fromhex("f248cdc9c90700"), reserved=4), closed(1002)),
    **{f"opcode {opcode}": (frame(opcode, ONE), closed(1002)) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    **{f"opcode {opcode} and no payload": (frame(opcode), closed(1002)) for opcode in (3, 7, 11, 15)},
}
# 5: fragments.
FRAGMENTS = {
    "a byte a frame": (b"".join(frame(CONTINUATION if at else BINARY, ONE[at:at + 1], fin=at == len(ONE) - 1) for at in range(len(ONE))), ANSWERED),
    "empty ones before, between and behind": (frame(BINARY, fin=False) + frame(CONTINUATION, ONE[:7], fin=False) + frame(CONTINUATION, fin=False)
                                               + frame(CONTINUATION, ONE[7:], fin=False) + frame(CONTINUATION), ANSWERED),
    "a ping in between": (frame(BINARY, ONE[:5], fin=False) + frame(PING, b"hi") + frame(CONTINUATION, ONE[5:]), ["pong:hi", *ANSWERED]),
    "a pong in between": (frame(BINARY, ONE[:5], fin=False) + frame(PONG, b"hi") + frame(CONTINUATION, ONE[5:]), ANSWERED),
    "a close in between": (frame(BINARY, ONE[:5], fin=False) + frame(CLOSE, reason(1000)) + frame(CONTINUATION, ONE[5:]), closed(1000)),
    "a ping in two": (frame(PING, b"hi", fin=False) + frame(CONTINUATION, b"ho"), closed(1002)),
    "a close in two": (frame(CLOSE, reason(1000), fin=False) + frame(CONTINUATION, b"bye"), closed(1002)),
    "a continuation of nothing": (frame(CONTINUATION, ONE), closed(1002)),
    "a continuation of nothing, and more": (frame(CONTINUATION, ONE, fin=False) + frame(CONTINUATION), closed(1002)),
    "a message in a message": (frame(BINARY, ONE[:5], fin=False) + frame(BINARY, ONE), closed(1002)),
    "a first fragment in a message": (frame(BINARY, ONE[:5], fin=False) + frame(BINARY, ONE[:5], fin=False), closed(1002)),
    "a continuation of what has ended": (frame(BINARY, ONE) + frame(CONTINUATION, ONE), closed(1002)),
}
# Autobahn 7: closing. After a Close, no request is answered.
CLOSES = {
    "a close without a code": (frame(CLOSE), ["close"]),
    "a close of one byte": (frame(CLOSE, b"\x03"), closed(1002)),
    "a close with words": (frame(CLOSE, reason(1000, b"bye")), closed(1000)),
    "a close of 125 bytes": (frame(CLOSE, reason(1000, b"x" * 123)), closed(1000)),
    "a close of 126 bytes": (frame(CLOSE, reason(1000, b"x" * 124)), closed(1002)),
    "two": (frame(CLOSE, reason(1000)) * 2, closed(1000)),
    "a close and a ping": (frame(CLOSE, reason(1000)) + frame(PING, b"hi"), closed(1000)),
    "a close and a request": (frame(CLOSE, reason(1000)) + frame(BINARY, ONE), closed(1000)),
    **{f"code {code}": (frame(CLOSE, reason(code)), closed(code)) for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999)},
    **{f"code {code}, which is none": (frame(CLOSE, reason(code)), closed(1002)) for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)},
    "a reason that is not UTF-8": (frame(CLOSE, reason(1000, b"\xff\xfe")), closed(1007)),
}
# SP's header before a request, and data after it.
SP = {
    "an empty message": (frame(BINARY), closed(1002)),
    "three bytes": (frame(BINARY, b"\x80\0\0"), closed(1002)),
    "a header without an id": (frame(BINARY, b"\0\0\0\1" * 3), closed(1002)),
    "a header without an end": (frame(BINARY, b"\0\0\0\1" * 1000), closed(1002)),
    "a header and nothing": (frame(BINARY, b"\x80\0\0\1"), ANSWERED),
    "a header and noise": (frame(BINARY, b"\x80\0\0\1" + b"\xff" * 50), ANSWERED),
    "a header across fragments": (frame(BINARY, ONE[:2], fin=False) + frame(CONTINUATION, ONE[2:]), ANSWERED),
}


TABLES = {"framing": FRAMING, "pings": PINGS, "reserved": RESERVED, "fragments": FRAGMENTS, "closes": CLOSES, "SP": SP}


class Frames(Hostile):
    def test_frames_in_the_packet_of_the_upgrade_are_followed(self):
        """Frames arrive in one packet with the upgrade request. If the frame is unmasked, the broker answers the upgrade and
        closes the connection. If the frame is masked, the broker answers its request. The broker also answers an upgrade
        that it refuses.
        """
        head = stranger.upgrade_head()
        for more, expected in ((frame(BINARY, ONE, masked=False), b"\x88"), (frame(BINARY, ONE), b"\x82")):
            with self.stranger() as peer:
                peer.send(head + more)
                peer.receive_until(lambda got: got.partition(b"\r\n\r\n")[2])
                self.assertTrue(peer.got.startswith(b"HTTP/1.1 101 "))
                self.assertEqual(peer.got.partition(b"\r\n\r\n")[2][:1], expected)
        with self.stranger() as peer:
            peer.send(head.replace(b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 8") + frame(BINARY, ONE, masked=False))
            self.assertTrue(peer.receive_until(lambda got: False))
            self.assertEqual(stranger.statuses(peer.got), [426])

    def test_who_answers_the_brokers_close_is_gone_at_once(self):
        """Whichever rule the client broke, the broker does not wait for the client's Close."""
        for what in (frame(3, ONE), frame(BINARY, ONE, reserved=4), frame(TEXT, b"hello"), frame(CONTINUATION, ONE)):
            with self.subTest(what), self.stranger() as peer:
                peer.upgrade()
                peer.send(what)
                self.assertFalse(peer.receive_until(lambda got: stranger.words_of(got)))
                self.assertIn(stranger.words_of(peer.got)[0], ("close:1002", "close:1003"))
                before = time.monotonic()
                peer.send(frame(CLOSE, reason(1002)))
                self.assertTrue(peer.receive_until(lambda got: False))
                self.assertLess(time.monotonic() - before, 4)

    def test_several_pings(self):
        """Autobahn 2.10 and 2.11: of ten pings sent at once, at least the newest is answered (RFC 6455, 5.5.3). Of ten pings
        sent one by one, each is answered.
        """
        for piece in (None, 1):
            with self.subTest(piece=piece), self.stranger() as peer:
                peer.upgrade()
                peer.send(b"".join(frame(PING, b"%d" % number) for number in range(10)) + frame(BINARY, hello(SENTINEL)), piece)
                words = peer.words()
                self.assertEqual(words[-1], LIVES[0])
                pongs = [word for word in words[:-1] if word.startswith("pong:")]
                self.assertEqual(pongs, words[:-1])
                self.assertLessEqual(set(pongs), {f"pong:{number}" for number in range(10)})
                self.assertEqual(pongs, sorted(pongs))
                self.assertEqual(pongs[-1], "pong:9")
        with self.stranger() as peer:
            peer.upgrade()
            for number in range(10):
                peer.send(frame(PING, b"%d" % number))
                peer.receive_until(lambda got, count=number + 1: len(stranger.words_of(got)) == count)
            self.assertEqual(stranger.words_of(peer.got), [f"pong:{number}" for number in range(10)])

    def test_large_messages(self):
        """Autobahn 9: 4 MiB in fragments of 64 bytes to 1 MiB, and in packets of 997 bytes; 16 MiB, and one byte more; a
        thousand small messages.
        """
        message = b"\x80\0\0\1" + bytes((4 << 20) - 4)
        for size, piece in ((64, None), (4096, None), (1 << 20, None), (1 << 20, 997)):
            parts = [message[at:at + size] for at in range(0, len(message), size)]
            sent = b"".join(frame(CONTINUATION if number else BINARY, part, fin=number == len(parts) - 1) for number, part in enumerate(parts))
            with self.subTest(size=size, piece=piece), self.stranger() as peer:
                peer.upgrade()
                peer.send(sent + frame(BINARY, hello(SENTINEL)), piece)
                self.assertEqual(peer.words(), ANSWERED)
        for size, expected in ((16 << 20, ANSWERED), ((16 << 20) + 1, closed(1009))):
            rest = size - 15 * (1 << 20)
            sent = frame(BINARY, message[:1 << 20], fin=False) + frame(CONTINUATION, bytes(1 << 20), fin=False) * 14 + frame(
                CONTINUATION, bytes(min(rest, 1 << 20)), fin=rest <= 1 << 20) + (frame(CONTINUATION, b"\0") if rest > 1 << 20 else b"")
            with self.subTest(size=size), self.stranger() as peer:
                peer.upgrade()
                peer.send(sent + frame(BINARY, hello(SENTINEL)))
                self.assertEqual(peer.words(), expected)
        with self.stranger() as peer:
            peer.upgrade()
            for size in (0, 16, 1000, 16000):
                for number in range(1, 251):
                    peer.send(frame(BINARY, struct.pack(">I", 0x80000000 | number) + bytes(size)))
                    peer.receive_until(lambda got: stranger.words_of(got))
                    self.assertEqual(stranger.words_of(peer.got), [f"answer:{number}"])
                    peer.got = b""

    def judge(self, piece=None, size_max=1 << 20):
        """Runs all tables; returns the connections that got a Close and are still open."""
        closing = []
        for table, cases in TABLES.items():
            for name, (sent, expected) in cases.items():
                if len(sent) > size_max:
                    continue
                with self.subTest(table=table, case=name):
                    closing.append(self.stranger())
                    self.assertIn(" 101 ", closing[-1].upgrade())
                    closing[-1].send(sent + frame(BINARY, hello(SENTINEL)), piece)
                    words = closing[-1].words()
                    if piece and expected[-1].startswith("close"):
                        # The broker may have answered a complete request before it read the invalid frame behind it.
                        if sent.startswith(frame(BINARY, ONE)) and words[:1] == ANSWERED[:1]:
                            words = words[1:]
                        # Data after the fault may have ended the connection before its Close was sent.
                        self.assertIn(words, (expected, CUT))
                    else:
                        self.assertEqual(words, expected)
                    if words[-1] == f"answer:{SENTINEL}":
                        closing.pop().peer.close()
        return closing

    def test_case_by_case(self):
        """F-20: results as in the tables. F-18: the same results if each byte comes in a packet of its own."""
        closing = self.judge()
        self.assert_logged("status=1002")
        closing += self.judge(piece=1, size_max=200)
        for peer in closing:  # a connection that got a Close has 5 s
            with peer:
                self.assertTrue(peer.receive_until(lambda got: False))

    def test_compression_is_declined(self):
        """Autobahn 12 and 13: whatever extension a client offers, the broker agrees to none, and frames are the same as
        without the offer.
        """
        for offer in ("permessage-deflate", "permessage-deflate; client_max_window_bits; server_max_window_bits=8", "x-webkit-deflate-frame",
                      "permessage-deflate, permessage-bzip2", ";;;,,,", "permessage-deflate; " * 5, ""):
            with self.subTest(offer), self.stranger() as peer:
                answer = peer.upgrade(headers=[f"Sec-WebSocket-Extensions: {offer}"])
                self.assertIn(" 101 ", answer)
                self.assertNotIn("extensions", answer.lower())
                peer.send(frame(BINARY, hello(SENTINEL)))
                self.assertEqual(peer.words(), LIVES)

    def test_who_is_ended_stays_ended(self):
        """After a Close, the connection ends, whatever the client sends (requests, pings, text) and although an answer is in
        flight.
        """
        producer = wire.number(wire.decode(self.ask_beside(wire.HELLO, [])), 1)
        commit = struct.pack(">I", 0x80000001) + wire.request(wire.COMMIT, wire.commit(producer, 1, [wire.schedule("q", "", 3_600_000)]))
        peers = []
        for bad in (frame(TEXT, b"x"), frame(BINARY, ONE, reserved=4)):
            for before, behind in ((b"", b""), (frame(BINARY, commit), b""), (b"", frame(PING, b"hi") * 3), (b"", frame(BINARY, ONE) * 3)):
                peers.append(self.stranger())
                peers[-1].upgrade()
                peers[-1].send(before + bad)
                peers[-1].send(behind)
        for peer in peers:
            with peer:
                self.assertTrue(peer.receive_until(lambda got: False))
                self.assertTrue(stranger.words_of(peer.got)[-1] in ("close:1002", "close:1003"), peer.got)

    def ask_beside(self, body, fields):
        with wire.Rpc(self.broker.port) as rpc:
            return rpc.ask(body, fields)[1]

    def test_a_consumer_says_nothing_on_its_lane(self):
        for data in (frame(BINARY, ONE), frame(TEXT, b"x"), frame(BINARY), frame(BINARY, ONE, fin=False)):
            with wire.Rpc(self.broker.port) as rpc, self.stranger() as peer:
                session = wire.Session(rpc, ["q"])
                self.assertIn(" 101 ", peer.upgrade(f"/lane/{session.lane}", wire.LANE, [f"Authorization: Bearer {session.secret.hex()}"]))
                peer.send(frame(PING, b"hi") + data)
                self.assertEqual([word for word in peer.words() if not word.startswith("pong")], closed(1008))


class UnderWay(Hostile):
    """A connection ends while an answer that the disk delays, or a delivery, is in flight."""

    FAULTS = {"reserved bits": (frame(BINARY, ONE, reserved=4), 1002), "a continuation of nothing": (frame(CONTINUATION, ONE), 1002),
              "opcode 3": (frame(3), 1002), "a close in two": (frame(CLOSE, reason(1000), fin=False), 1002), "text": (frame(TEXT, b"x"), 1003),
              "no request": (frame(BINARY), 1002), "a close": (frame(CLOSE, reason(1000)), 1000)}

    def make_broker(self, *arguments, **options):
        broker = super().make_broker(*arguments, **options)
        broker.env = {**broker.env, **harness.preloaded("libhold_sync.so"), "HOLD_SYNC_FILE": self.path("held")}
        return broker

    def ended(self, name, code, peer):
        """Checks that the Close was the last frame: the stranger closes its side, and reads to the end."""
        with self.subTest(name), peer:
            peer.peer.shutdown(socket.SHUT_WR)
            self.assertTrue(peer.receive_until(lambda got: False))
            self.assertEqual(stranger.words_of(peer.got), closed(code))

    def test_no_answer_follows_a_close(self):
        """F-20: three kinds of end: the door closes after a broken frame, the door closes after an invalid message, or the
        client closes.
        """
        with wire.Rpc(self.broker.port) as rpc:
            producers = {name: rpc.hello() for name in self.FAULTS}
            producer = rpc.hello()
            peers = {name: self.stranger() for name in self.FAULTS}
            with open(self.path("held"), "wb"):
                pass
            try:
                for name, (sent, code) in self.FAULTS.items():
                    commit = wire.commit(producers[name], 1, [wire.schedule("q", "", 3_600_000)])
                    self.assertIn(" 101 ", peers[name].upgrade())
                    peers[name].send(frame(BINARY, struct.pack(">I", 0x80000001) + wire.request(wire.COMMIT, commit)) + sent)
                    self.assertEqual(peers[name].words(), closed(code), name)
            finally:
                os.unlink(self.path("held"))
            # Answers come in the log's order. So when this answer has arrived, the commits of the broken connections
            # have been answered too.
            for sequence in (1, 2):
                code, _ = rpc.ask(wire.COMMIT, wire.commit(producer, sequence, [wire.schedule("q", "", 3_600_000)]), wait_s=stranger.WAIT_S)
                self.assertEqual(code, wire.OK)
        for name, (_, code) in self.FAULTS.items():
            self.ended(name, code, peers[name])

    def test_no_delivery_follows_a_close(self):
        """A delivery that follows a Close does not count as sent: the next session gets the task at once, as its first
        delivery.
        """
        for queue, name in (("q1", "reserved bits"), ("q2", "opcode 3")):
            with wire.Rpc(self.broker.port) as rpc, wire.Rpc(self.broker.port) as beside, self.stranger() as lane:
                producer, session = rpc.hello(), wire.Session(rpc, [queue])
                self.assertIn(" 101 ", lane.upgrade(f"/lane/{session.lane}", wire.LANE, [f"Authorization: Bearer {session.secret.hex()}"]))
                sent, code = self.FAULTS[name]
                lane.send(sent)
                self.assertEqual(lane.words(), closed(code))
                self.assertEqual(rpc.ask(wire.COMMIT, wire.commit(producer, 1, [wire.schedule(queue, "", 0)]))[0], wire.OK)
                with wire.Session(beside, [queue]).dial() as next_lane:
                    self.assertEqual([wire.number(task, 6) for task in wire.tasks(next_lane.receive())], [1], "deliveries")
                self.ended(name, code, lane)


if __name__ == "__main__":
    main()
