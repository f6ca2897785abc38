"""way_test.py: the system calls of the door's thread for one blocking call that comes alone, from what it waits with to the answer: a limit for
each kind, so that the way through the broker cannot grow unnoticed. Counted by count_calls.c, not timed; the disk syncs at once there, so
that each call is carried through by the door's thread (broker/shell/lone.h)."""
import socket
import ssl
import struct

import harness
import wire
from certificates import Authority
from fault_wire_test import Wire
from wire import Rpc

CALLS = 200
NAMES = ("ppoll", "epoll_wait", "epoll_ctl", "recv", "send", "read", "write", "pwrite", "fdatasync", "timerfd_settime", "ioctl")  # count_calls.c
# A call. The second ppoll asks whether the socket takes the answer; the timer is the substitute's, armed and disarmed.
LONE = {"ppoll": 2, "recv": 1, "send": 1, "pwrite": 1, "fdatasync": 1, "timerfd_settime": 2, "ioctl": 1}
OVER_TLS = {**LONE, "recv": 0, "send": 0, "read": 2, "write": 1}  # a record's head, then the rest
AMONG_MANY = {**LONE, "ppoll": 1, "epoll_wait": 1}
SPARE = 0.25  # timers of the broker, a next segment


class Way(Wire):
    autostart = False

    def setUp(self):
        super().setUp()
        authority = Authority(self.directory)
        certificate, key = authority.make("node")
        self.authority, self.counts = authority, self.path("counts")
        with open(self.counts, "wb") as file:
            file.write(bytes(8 * len(NAMES)))
        self.broker.env.update(LD_PRELOAD=harness.find_program("libcount_calls.so"), COUNT_CALLS_FILE=self.counts)
        self.broker.arguments = ["--listen", "unix://" + self.path("socket"), "--listen", "wss://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key]
        self.broker.start()

    def count(self):
        with open(self.counts, "rb") as file:
            return struct.unpack(f"{len(NAMES)}Q", file.read())

    def cost(self, rpc):
        """Of one call, by name."""
        def call(sequence):
            def is_taken():  # a new log's next segment may still be being made
                commit = wire.commit(producer, sequence, [wire.schedule("q", f"k{sequence}", 3_600_000)], sequence)
                return rpc.ask(wire.COMMIT, commit)[0] == wire.OK
            harness.wait_until("there is room", is_taken, 30)

        producer = rpc.hello()
        for sequence in range(1, CALLS + 1):  # the first calls may have had company: they go the usual way
            call(sequence)
        before = self.count()
        for sequence in range(CALLS + 1, 2 * CALLS + 1):
            call(sequence)
        return {name: (b - a) / CALLS for name, a, b in zip(NAMES, before, self.count())}

    def assertWithin(self, cost, limits):
        for name in NAMES:
            self.assertLessEqual(cost[name], limits.get(name, 0) + SPARE, f"{name} of {cost}")
        self.assertGreaterEqual(cost["fdatasync"], 1 - SPARE, cost)  # it was the door's thread that did it all

    def test_a_lone_call(self):
        self.assertWithin(self.cost(self.rpc()), LONE)

    def test_a_lone_call_by_a_unix_socket(self):
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(20)
        peer.connect(self.path("socket"))
        with Rpc(peer) as rpc:
            self.assertWithin(self.cost(rpc), LONE)

    def test_a_lone_call_over_tls(self):
        port = int(next(url for url in self.broker.ready["urls"].split() if url.startswith("wss://")).rsplit(":", 1)[1])
        context = ssl.create_default_context(cafile=self.authority.ca)
        peer = socket.create_connection(("127.0.0.1", port), timeout=20)
        with Rpc(context.wrap_socket(peer, server_hostname="127.0.0.1")) as rpc:
            self.assertWithin(self.cost(rpc), OVER_TLS)

    def test_a_lone_call_among_many_connections(self):
        """Beyond 31 descriptors the door waits by epoll: one look, and no change of the set."""
        idle = [self.rpc() for _ in range(64)]
        self.assertWithin(self.cost(idle[0]), AMONG_MANY)


if __name__ == "__main__":
    harness.main()
