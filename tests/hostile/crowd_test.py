"""crowd_test.py: many connections at once (F-20, F-21): connections that come and go, half requests of every kind, resets in
the middle. An honest client works during each test (stranger.Hostile). Afterwards everything that the strangers used is
free again.
"""
import random
import socket
import struct
import threading

from stranger import BINARY, PING, SENTINEL, WAIT_S, Hostile, Stranger, frame, hello, upgrade_head
import harness
import wire
from harness import main

NOW = struct.pack("ii", 1, 0)  # SO_LINGER: the close sends a reset


class Crowd(Hostile):
    log_lines_max = 200

    def each(self, count, act, threads=4):
        """Calls `act(number, peer)` with that many connections, several at once."""
        def some(first):
            for number in range(first, count, threads):
                try:
                    with Stranger(self.broker.port) as peer:
                        act(number, peer)
                except OSError:
                    pass
        workers = [threading.Thread(target=some, args=(first,)) for first in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def reset(self, peer):
        peer.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)

    def test_connections_that_come_and_go(self):
        self.each(2000, lambda number, peer: None)

    def test_resets(self):
        """F-21: connections are reset after nothing, half a head, a head, an upgrade, half a frame, or a request."""
        begun = (b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", upgrade_head(), upgrade_head() + frame(BINARY, hello(1))[:9],
                 upgrade_head() + frame(BINARY, hello(1)), upgrade_head() + frame(BINARY, hello(1)) * 100 + frame(PING, b"hi") * 100)

        def act(number, peer):
            self.reset(peer)
            peer.send(begun[number % len(begun)])
        self.each(2000, act)

    def test_upgrades_that_are_none(self):
        """F-21: each request differs from a correct upgrade in a few bytes."""
        random.seed(13)
        head = upgrade_head()

        def act(number, peer):
            data = bytearray(head)
            for _ in range(random.randrange(1, 4)):
                data[random.randrange(len(data))] = random.randrange(256)
            peer.send(bytes(data)[:random.randrange(len(data)) if number % 2 else None])
            if number % 3:
                self.reset(peer)
        self.each(2000, act)

    def test_frames_cut_and_flipped(self):
        """Sends correct upgrades, and then random bytes that begin like a frame."""
        random.seed(14)

        def act(number, peer):
            peer.upgrade()
            data = bytearray(frame(BINARY, hello(number + 1)) * 3)
            for _ in range(random.randrange(1, 6)):
                data[random.randrange(len(data))] = random.randrange(256)
            peer.send(bytes(data)[:random.randrange(1, len(data))])
        self.each(1500, act)

    def test_sessions_that_are_left_alone(self):
        """300 sessions have consumers that never connect their lane, and 300 lanes have consumers that are reset."""
        def act(number, peer):
            peer.upgrade()
            peer.send(frame(BINARY, struct.pack(">I", 0x80000001) + wire.request(wire.SUBSCRIBE, [(1, f"q{number % 7}")])))
            peer.receive_until(lambda got: len(got) > 6)
            fields = wire.decode(wire.decode(peer.got[6:]).get(wire.SUBSCRIBE, [b""])[-1])
            if number % 2 and 3 in fields:
                with Stranger(self.broker.port) as lane:
                    lane.upgrade(f"/lane/{wire.number(fields, 2)}", wire.LANE, [f"Authorization: Bearer {fields[3][-1].hex()}"])
                    self.reset(lane)
            self.reset(peer)
        self.each(600, act)

    def test_a_lane_that_is_reset_ends_its_session(self):
        """F-21: a session whose lane is reset loses its tasks, even if its heartbeats continue. Another consumer gets the
        tasks, and the attempt counts.
        """
        with self.rpc() as rpc, self.rpc() as beside:
            session = wire.Session(rpc, ["q"], lease_ms=3_600_000)
            with session.dial() as lane:
                code, _ = rpc.ask(wire.COMMIT, wire.commit(rpc.hello(), 1, [wire.schedule("q", "", 0)]))
                self.assertEqual(code, wire.OK)
                self.assertEqual([wire.number(task, 5) for task in wire.tasks(lane.receive(WAIT_S))], [1], "attempts")
                lane.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)
            harness.wait_until("its session has ended", lambda: session.heartbeat() == wire.NO_SUCH_SESSION, WAIT_S)
            with wire.Session(beside, ["q"]).dial() as lane:
                self.assertEqual([wire.number(task, 5) for task in wire.tasks(lane.receive(WAIT_S))], [2], "attempts")

    def test_idle_ones_cost_nothing(self):
        """1,000 upgraded connections are silent. Each of them still works afterwards."""
        peers = [self.stranger() for _ in range(1000)]
        for peer in peers:
            self.assertIn(" 101 ", peer.upgrade())
        for peer in peers:
            with peer:
                peer.send(frame(BINARY, hello(SENTINEL)))
                self.assertEqual(peer.words(), [f"answer:{SENTINEL}"])


if __name__ == "__main__":
    main()
