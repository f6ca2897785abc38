"""way_test.py: limits for the number of system calls, by kind. The test measures two threads: the door's thread for a single
blocking call, from wake-up to reply; and the client's engine for a reply. count_calls.c counts the system calls; time is
not measured. In these tests syncs return at once, so the door's thread handles each call completely
(broker/shell/threads/lone.h).
"""
import os
import socket
import ssl
import struct

import harness
import wire
from certificates import Authority
from fault_wire_test import Wire
from wire import Rpc

CALLS = 200
NAMES = ("ppoll", "epoll_wait", "epoll_ctl", "recv", "send", "read", "write", "pwrite", "fdatasync", "timerfd_settime", "ioctl")  # names of the counted system calls, in the order of count_calls.c
# Limits for one call. timerfd_settime is called twice, to arm and disarm the timer that starts the door's second thread
# if the disk is slow.
LONE = {"epoll_wait": 1, "recv": 1, "send": 1, "pwrite": 1, "fdatasync": 1, "timerfd_settime": 2, "ioctl": 1}
OVER_TLS = {**LONE, "recv": 0, "send": 0, "read": 1, "write": 1}
ANSWER = {"epoll_wait": 3, "recv": 1, "send": 1, "read": 1}  # limits for the engine, which wakes once per submission
SPARE = 0.25  # additional calls per request, for timers and the next segment


class Way(Wire):
    autostart = False

    def setUp(self):
        super().setUp()
        authority = Authority(self.directory)
        certificate, key = authority.make("node")
        self.authority, self.counts = authority, self.path("counts")
        self.broker.env.update(self.counting("tarry-net", self.counts))
        self.broker.arguments = ["--listen", "unix://" + self.path("socket"), "--listen", "wss://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key]
        self.broker.start()

    @staticmethod
    def counting(threads, counts):
        """Returns the environment of a process whose calls are counted in the file `counts`."""
        with open(counts, "wb") as file:
            file.write(bytes(8 * len(NAMES)))
        return {"LD_PRELOAD": harness.find_program("libcount_calls.so"), "COUNT_CALLS_FILE": counts, "COUNT_CALLS_THREADS": threads}

    @property
    def secure(self):
        return next(url for url in self.broker.ready["urls"].split() if url.startswith("wss://"))

    @staticmethod
    def count(counts):
        with open(counts, "rb") as file:
            return struct.unpack(f"{len(NAMES)}Q", file.read())

    def cost(self, rpc):
        """Returns the calls per request, by name."""
        def call(sequence):
            def is_taken():  # a new log's next segment may not be ready
                commit = wire.commit(producer, sequence, [wire.schedule("q", f"k{sequence}", 3_600_000)], sequence)
                return rpc.ask(wire.COMMIT, commit)[0] == wire.OK
            harness.wait_until("there is room", is_taken, 30)

        producer = rpc.hello()
        for sequence in range(1, CALLS + 1):  # not counted: the first calls may share a round with others, and then the door's thread does not handle them completely
            call(sequence)
        before = self.count(self.counts)
        for sequence in range(CALLS + 1, 2 * CALLS + 1):
            call(sequence)
        return {name: (b - a) / CALLS for name, a, b in zip(NAMES, before, self.count(self.counts))}

    def assertWithin(self, cost, limits):
        for name in NAMES:
            self.assertLessEqual(cost[name], limits.get(name, 0) + SPARE, f"{name} of {cost}")

    def assertDoorWithin(self, cost, limits):
        self.assertWithin(cost, limits)
        self.assertGreaterEqual(cost["fdatasync"], 1 - SPARE, cost)  # the door's thread executed the whole call

    def test_a_lone_call(self):
        self.assertDoorWithin(self.cost(self.rpc()), LONE)

    def test_a_lone_call_by_a_unix_socket(self):
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(20)
        peer.connect(self.path("socket"))
        with Rpc(peer) as rpc:
            self.assertDoorWithin(self.cost(rpc), LONE)

    def test_a_lone_call_over_tls(self):
        port = int(self.secure.rsplit(":", 1)[1])
        context = ssl.create_default_context(cafile=self.authority.ca)
        peer = socket.create_connection(("127.0.0.1", port), timeout=20)
        with Rpc(context.wrap_socket(peer, server_hostname="127.0.0.1")) as rpc:
            self.assertDoorWithin(self.cost(rpc), OVER_TLS)

    def test_a_lone_call_among_many_connections(self):
        """With more than 31 descriptors the door waits with epoll. It then makes one epoll_wait per call, and does not change
        the set of descriptors.
        """
        idle = [self.rpc() for _ in range(64)]
        self.assertDoorWithin(self.cost(idle[0]), LONE)

    def test_a_lone_call_over_http(self):
        """The door's thread handles an HTTP request completely, like a call of libtarry."""
        body = b'{"queue":"q","in":"60m","json":1}'
        head = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        with socket.create_connection(("127.0.0.1", self.broker.port), timeout=20) as peer:
            def call():
                peer.sendall(head + body)
                answer = peer.recv(4096)
                status = int(answer.split()[1])
                self.assertIn(status, (200, 201, 503), answer)  # a new log's next segment may not be ready
            for _ in range(CALLS):
                call()
            before = self.count(self.counts)
            for _ in range(CALLS):
                call()
            after = self.count(self.counts)
        self.assertDoorWithin({name: (b - a) / CALLS for name, a, b in zip(NAMES, before, after)}, LONE)

    def engine_cost(self, url):
        """Returns the client's calls per reply, by name."""
        counts = self.path("counts-of-client")
        command = [harness.find_program("tarry"), "schedule", "--json", "--from", "-", "--broker", url, "--tls-ca", self.authority.ca]
        stream = harness.Stream(command, {**os.environ, **self.counting("tarry-engine", counts)}, stdin=True)
        self.broker.streams.append(stream)
        for number in range(2 * CALLS):
            if number == CALLS:
                before = self.count(counts)
            stream.send({"queue": "q", "delay_ms": 3_600_000})
            self.assertEqual(stream.next()["result"], "scheduled")
        after = self.count(counts)
        stream.end_input()
        self.assertEqual(stream.process.wait(20), 0)
        return {name: (b - a) / CALLS for name, a, b in zip(NAMES, before, after)}

    def test_an_answer(self):
        self.assertWithin(self.engine_cost(self.broker.url), ANSWER)

    def test_an_answer_over_tls(self):
        """One read gets a TLS record's header and body, and no further read follows."""
        self.assertWithin(self.engine_cost(self.secure), ANSWER)


if __name__ == "__main__":
    harness.main()
