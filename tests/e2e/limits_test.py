"""limits_test.py: a principal's share of shared resources (`tarry token add --limit`): beyond it, only that principal's requests
are refused, with a message."""
import struct

import harness
import tokens
import wire
from http_client import Http
from principals import Access, page
from tokens import row
from wire import AUDIT, BUSY, COMMIT, FORGOTTEN, OK, QUEUES, SUBSCRIBE, WebSocket, commit, schedule

BYTES = 65536


class Limits(Access):
    rows = (row("few", "produce,consume,read", "connections=2"), row("slow", "produce,read", "rate=5"), row("small", "produce,consume", "sessions=1", "pending=2"),
            row("one", "read", "connections=1"), row("young", "produce", "producers=2"), row("large", "produce,read", f"bytes={BYTES}"))

    def test_connections(self):
        first, _ = self.of("few"), self.of("few")
        with WebSocket(self.broker.port, headers=wire.bearer(tokens.text_of("few"))) as upgrade:
            self.assertIn(b" 429 ", upgrade.answer)
        first.close()

        def again():
            with WebSocket(self.broker.port, headers=wire.bearer(tokens.text_of("few"))) as upgrade:
                return upgrade.accepted
        harness.wait_until("the place is free again", again, 10)

    def test_a_connection_does_not_count_beside_itself(self):
        """Each further request on a connection replaces the connection's previous count, instead of adding to it."""
        paths = ("/v1/caller", "/metrics", "/v1/caller", "/metrics", "/v1/queues")
        for _ in range(2):  # twice, because the first round must not leave a connection counted
            first, second = (Http(self.broker.port, tokens.text_of("one")) for _ in range(2))
            try:
                self.assertEqual([harness.wait_until("the place is free", lambda: (said := first.ask("GET", paths[0])[0]) != 429 and said, 10)], [200])
                self.assertEqual([first.ask("GET", path)[0] for path in paths], [200] * len(paths))
                self.assertEqual(second.ask("GET", "/v1/caller")[0], 429)
                self.assertEqual(first.ask("GET", "/metrics")[0], 200)
            finally:
                first.close()
                second.close()

    def test_sessions(self):
        rpc = self.of("small")
        session = wire.Session(rpc, ["q"])
        self.assertEqual(rpc.ask(SUBSCRIBE, [(1, "q")])[0], BUSY)
        self.assertIn("sessions=", rpc.sentence)
        wire.Session(self.rpc(), ["q"])  # another principal's session
        self.assertEqual(rpc.ask(wire.UNSUBSCRIBE, [(1, session.id)])[0], OK)
        wire.Session(rpc, ["q"])

    def test_tasks_that_wait(self):
        rpc = self.of("small")
        producer = rpc.hello()
        self.assertEqual(rpc.ask(COMMIT, commit(producer, 1, [schedule("q", "", 60000)] * 2))[0], OK)
        self.assertEqual(rpc.ask(COMMIT, commit(producer, 2, [schedule("q", "", 60000)]))[0], BUSY)
        self.assertIn("pending=", rpc.sentence)
        local = self.rpc()
        self.assertEqual(local.ask(COMMIT, commit(local.hello(), 1, [schedule("q", "", 60000)]))[0], OK)

    def test_producers(self):
        """A new producer beyond the limit replaces the principal's own longest idle one, never another principal's."""
        rpc, local = self.of("young"), self.rpc()
        other = local.hello()
        first, second, third = rpc.hello(), rpc.hello(), rpc.hello()
        for asker, producer, code in ((rpc, first, FORGOTTEN), (rpc, second, OK), (rpc, third, OK), (local, other, OK)):
            self.assertEqual(asker.ask(COMMIT, commit(producer, 1, [schedule("q", "", 60000)]))[0], code, asker.sentence)

    def test_operations_a_second(self):
        rpc = self.of("slow")
        codes = [rpc.ask(QUEUES, [])[0] for _ in range(12)]
        self.assertIn(BUSY, codes)
        self.assertEqual(codes[:5], [OK] * 5)
        self.assertEqual(rpc.ask(QUEUES, [])[0], BUSY)
        self.assertIn("slow has reached its limit rate=5", rpc.sentence)
        harness.wait_until("the second is over", lambda: rpc.ask(QUEUES, [])[0] == OK, 10)
        self.assertEqual(self.rpc().ask(QUEUES, [])[0], OK)  # other principals are not limited

    def test_bytes_under_way(self):
        """Pending requests count. Here they wait for changes of a task that the test creates later."""
        asks, waits, local = self.of("large"), self.of("large"), self.rpc()
        producers = {rpc: rpc.hello() for rpc in (asks, local)}
        sequences = dict.fromkeys(producers, 0)

        def schedules(rpc, size, key=""):
            sequences[rpc] += 1
            code, _ = rpc.ask(COMMIT, commit(producers[rpc], sequences[rpc], [schedule("q", key, 60000, b"x" * size)], sequences[rpc]))
            if code == BUSY:
                sequences[rpc] -= 1  # a refused commit uses no sequence
            return code

        self.assertEqual(schedules(asks, 2 * BYTES), OK)  # a single request is always accepted, whatever its size
        question = [(2, 1), (5, [(2, "q"), (3, "news")]), (8, 10000)]
        waits.tell(AUDIT, question)

        def is_under_way():
            if schedules(asks, BYTES) == BUSY:
                return True
            try:  # the other request may have arrived first, and then this one exceeds the limit
                self.assertEqual(waits.hear(0.05)[1], BUSY)
                waits.tell(AUDIT, question)
            except TimeoutError:
                pass
            return False
        harness.wait_until("the question is under way", is_under_way, 20)
        self.assertIn("reached its limit of bytes in progress", asks.sentence)
        self.assertIn("bytes=", asks.sentence)
        self.assertEqual(schedules(asks, BYTES // 2), OK)  # this request still fits into the limit
        self.assertEqual(schedules(local, 2 * BYTES), OK)  # another principal is not limited
        with self.assertRaises(TimeoutError):
            waits.hear(0.1)  # the request is still pending
        self.assertEqual(schedules(local, 1, "news"), OK)
        self.assertEqual(waits.hear()[1], OK)
        harness.wait_until("its bytes are given back", lambda: schedules(asks, BYTES) == OK, 10)
        self.assertRegex(page(self.broker.port, "/metrics")[1], r"\ntarry_limited_total [1-9]")

    def test_bytes_half_received(self):
        """A half-received large request counts towards the principal's limit. A second request that exceeds the limit is read
        to its end and refused.
        """
        half, beside, other = self.of("large"), self.of("large"), self.rpc()  # two connections of the limited principal, and one of another principal
        producers = {rpc: rpc.hello() for rpc in (half, beside, other)}
        request = struct.pack(">I", 0x80000009) + wire.request(COMMIT, commit(producers[half], 1, [schedule("q", "", 60000, b"x" * 4 * BYTES)]))

        def schedules(rpc, size):
            code, _ = rpc.ask(COMMIT, commit(producers[rpc], 1, [schedule("q", "", 60000, b"x" * size)]))
            return code

        half.peer.sendall(wire.frame(request, claimed=len(request) + 1, more=True))  # sends all bytes but one; a single request is always accepted
        harness.wait_until("it counts", lambda: schedules(beside, BYTES // 2) == BUSY, 20)
        self.assertIn("bytes=", beside.sentence)
        self.assertEqual(schedules(other, 2 * BYTES), OK)  # another principal is not limited
        half.close()
        harness.wait_until("its bytes are given back", lambda: schedules(beside, BYTES // 2) == OK, 20)


if __name__ == "__main__":
    harness.main()
