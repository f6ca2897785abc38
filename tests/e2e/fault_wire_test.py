"""fault_wire_test.py: invalid and hostile requests, one by one (F-16, F-19, F-20, F-22, F-23). wire.py sends requests that
libtarry never sends. Floods and garbage below the level of requests are tested in wire_test.py.
"""
import os
import threading
import time

import harness
import wire
from frozen import freeze, thaw
from harness import Case
from wire import Connects, Rpc, Session, WebSocket


class Wire(Connects, Case):
    def dial(self, session, **options):
        self.sockets.append(session.dial(**options))
        return self.sockets[-1]

    def fill(self, queue, count, payload=b"", rpc=None):
        """Schedules `count` tasks, due at once, in commits of limited size."""
        rpc = rpc or self.rpc()
        producer = rpc.hello()
        per_commit = max(1, min(500, (4 << 20) // (len(payload) + 64)))
        for sequence, first in enumerate(range(0, count, per_commit), 1):
            ops = [wire.schedule(queue, f"{queue}-{i}", 0, payload) for i in range(first, min(count, first + per_commit))]
            while (code := rpc.ask(wire.COMMIT, wire.commit(producer, sequence, ops, oldest=sequence), wait_s=30)[0]) == wire.BUSY:
                time.sleep(0.01)
            self.assertEqual(code, wire.OK)

    def peak_mib(self):
        with open(f"/proc/{self.broker.process.pid}/status", encoding="ascii") as file:
            return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) >> 10


class Once(Wire):
    def test_a_commit_sent_twice_over_two_connections_takes_effect_once(self):
        """F-16: duplicated requests. The second copy gets the reply to the first one, byte for byte (ONCE-1)."""
        one, two = self.rpc(), self.rpc()
        producer = one.hello()
        for sequence in range(1, 51):
            body = wire.commit(producer, sequence, [wire.schedule("q", f"k{sequence}", 3_600_000), wire.schedule("q", "", 3_600_000)])
            one.tell(wire.COMMIT, body)
            two.tell(wire.COMMIT, body)
            self.assertEqual(one.hear()[1:], two.hear()[1:])
        self.assertEqual(self.broker.queue_stats("q")["scheduled"], 100)

    def test_a_commit_repeated_after_an_orderly_restart_takes_effect_once(self):
        """F-22: after a clean restart the log has nothing to replay, so the reply comes from the index (ONCE-1)."""
        rpc = self.rpc()
        body = wire.commit(rpc.hello(), 1, [wire.schedule("q", "", 3_600_000)])
        first = rpc.ask(wire.COMMIT, body)
        self.assertEqual(self.broker.stop(), 0)
        self.broker.start()
        self.assertEqual(self.rpc().ask(wire.COMMIT, body), first)
        self.assertEqual(self.broker.queue_stats("q")["scheduled"], 1)

    def test_commits_that_overtake_each_other_take_effect_once_each(self):
        """F-16: reordered requests. Sequences arrive shuffled, some twice, over two connections. Every reply must be correct."""
        peers = [self.rpc(), self.rpc()]
        producer = peers[0].hello()
        order = [(sequence * 37) % 61 for sequence in range(1, 61)]  # number * 37 modulo 61 gives each number from 1 to 60 exactly once
        asked = {}
        for place, sequence in enumerate(order + order[::-1]):
            peer = peers[place % 2]
            asked[place % 2, peer.tell(wire.COMMIT, wire.commit(producer, sequence, [wire.schedule("q", f"k{sequence}", 3_600_000)]))] = sequence
        answers = {}
        for place in range(2 * len(order)):
            request_id, code, reply = peers[place % 2].hear()
            self.assertEqual(code, wire.OK)
            answers.setdefault(asked[place % 2, request_id], []).append(reply)
        self.assertEqual(sorted(answers), list(range(1, 61)))
        for sequence, (first, second) in answers.items():
            self.assertEqual(first, second, sequence)
            self.assertEqual(wire.number(wire.results(first)[0], 1), wire.OK, "a repeat was executed again")
        self.assertEqual(self.broker.queue_stats("q")["scheduled"], 60)

    def test_a_late_copy_of_what_was_forgotten_is_never_executed_again(self):
        """F-16: a copy of a commit that the network delayed arrives after its reply was forgotten. It gets FORGOTTEN and makes
        no second task.
        """
        rpc = self.rpc()
        producer = rpc.hello()
        body = wire.commit(producer, 1, [wire.schedule("q", "", 3_600_000)])
        self.assertEqual(rpc.ask(wire.COMMIT, body)[0], wire.OK)
        self.assertEqual(rpc.ask(wire.COMMIT, wire.commit(producer, 2, [wire.schedule("q", "", 3_600_000)], oldest=2))[0], wire.OK)
        self.assertEqual(self.rpc().ask(wire.COMMIT, body)[0], wire.FORGOTTEN)
        self.assertEqual(self.broker.queue_stats("q")["scheduled"], 2)

    def test_a_repeated_req_is_answered_twice_and_done_once(self):
        """F-22: a library for SP (nng's protocol) sends a request again under the same request id, without Tarry's sequences.
        The test repeats a request id on one connection and on a new one, before and after a crash of the broker.
        """
        rpc = self.rpc()
        producer = rpc.hello()
        body = wire.commit(producer, 1, [wire.schedule("q", "k", 3_600_000)])
        for _ in range(3):
            rpc.tell(wire.COMMIT, body, request_id=7)
        answers = [rpc.hear() for _ in range(3)]
        self.assertEqual(len(set(answers)), 1, answers)
        again = self.rpc()
        again.tell(wire.COMMIT, body, request_id=7)
        self.assertEqual(again.hear(), answers[0])
        self.broker.restart()
        after = self.rpc()
        after.tell(wire.COMMIT, body, request_id=7)
        self.assertEqual(after.hear(), answers[0])
        self.assertEqual(self.broker.queue_stats("q")["pending"], 1)

    def test_the_answer_to_a_connection_that_is_gone_reaches_nobody_else(self):
        """F-22: the sender of a request disconnects at once. The next client on that port gets only its own replies."""
        for number in range(50):
            with Rpc(self.broker.port) as gone:
                gone.tell(wire.LIST, [(1, "q"), (6, 1000)], request_id=9)
            with Rpc(self.broker.port) as peer:
                producer = peer.hello()
                code, reply = peer.ask(wire.COMMIT, wire.commit(producer, 1, [wire.schedule("q", f"k{number}", 3_600_000)]))
                self.assertEqual((code, wire.number(wire.results(reply)[0], 1)), (wire.OK, wire.OK))
        self.assertEqual(self.broker.queue_stats("q")["pending"], 50)


class SlowConsumer(Wire):
    arguments = ("--memory", "64MiB", "--max-attempts", "0")

    def test_one_that_does_not_read_stops_nobody_and_its_tasks_come_back(self):
        """F-19: a consumer subscribes, sends heartbeats, and never reads its lane. Others continue, memory stays limited, and
        another consumer gets its tasks when the leases end."""
        slow = Session(self.rpc(), ["big"], prefetch=64, lease_ms=3000)
        self.dial(slow, receive_buffer=4096)
        done = threading.Event()
        beating = threading.Thread(target=lambda: [slow.heartbeat() for _ in iter(lambda: done.wait(0.2), True)])
        beating.start()
        try:
            self.work_beside_the_slow_one()
        finally:
            done.set()
            beating.join()
        if not harness.SANITIZED:
            self.assertLess(self.peak_mib(), 128, "twice --memory")

    def work_beside_the_slow_one(self):
        self.fill("big", 64, os.urandom(512 << 10))
        self.assertGreater(self.broker.queue_stats("big")["delivered"], 0)
        self.broker.ok("schedule", "other", "--in", "0s")
        self.broker.one("consume", "other", "--count", 1)
        consumer = self.broker.consume("big", "--prefetch", 8)
        taken = set()
        while len(taken) < 64:
            taken |= {delivery["key"] for delivery in consumer.take(1)}
        stats = self.broker.wait_stats("big", acked=64, in_flight=0)
        self.assertEqual((stats["dead"], stats["pending"], stats["ready"]), (0, 0, 0))

    def test_consumers_that_stop_working_stop_nobody_else(self):
        """F-19: eight consumers with leased tasks are stopped; the remaining one acks every task."""
        dead = [self.broker.consume("q", "--ack", "none", "--prefetch", 2, "--lease", "1s") for _ in range(8)]
        self.fill("q", 16)
        self.broker.wait_stats("q", in_flight=16)
        for consumer in dead:
            freeze(consumer.process)
        got = self.broker.ok("consume", "q", "--count", 16)
        self.assertEqual(len({d["id"] for d in got}), 16)
        self.broker.wait_stats("q", acked=16, in_flight=0)
        for consumer in dead:
            thaw(consumer.process)


class Malformed(Wire):
    arguments = ("--memory", "64MiB")

    def survives(self, body, fields, rpc):
        """Sends the request. It must be refused or ignored, or end the connection, and the broker must answer other clients at
        once.
        """
        try:
            code, _ = rpc.ask(body, fields, wait_s=60)
            self.assertTrue(code != wire.OK or body == wire.UNSUBSCRIBE)
        except ConnectionError:
            pass
        with Rpc(self.broker.port) as other:
            self.assertGreater(other.hello(), 0)

    def test_endless_repeated_fields(self):
        """F-20: a request of 16 MiB, filled with minimal repeated fields: refused, or the connection ends."""
        size = (16 << 20) - 64
        for body, piece in ((wire.COMMIT, b"\x2a\0"), (wire.COMMIT, b"\x2a\2\x0a\0"), (wire.SUBSCRIBE, b"\x0a\0"),
                            (wire.UNSUBSCRIBE, b"\x18\1"), (wire.HEARTBEAT, b"\x98\6\1")):
            with self.subTest(body=body, piece=piece), Rpc(self.broker.port) as rpc:
                self.survives(body, piece * (size // len(piece)), rpc)
        with Rpc(self.broker.port) as rpc:  # 16 million ids in a packed field
            self.survives(wire.UNSUBSCRIBE, wire.varint(3 << 3 | 2) + wire.varint(size - 16) + b"\1" * (size - 16), rpc)

    def test_a_crowd_of_endless_requests_stays_within_the_memory(self):
        """F-20, CALM-1: 64 connections each send half a MiB at once, which would be gigabytes when unpacked."""
        size = (512 << 10) - 64
        for body, piece in ((wire.SUBSCRIBE, b"\x0a\0"), (wire.COMMIT, b"\x2a\0"), (wire.UNSUBSCRIBE, b"\x18\1"),
                            (wire.HEARTBEAT, b"\x98\6\1")):
            peers = [Rpc(self.broker.port) for _ in range(64)]
            threads = [threading.Thread(target=peer.tell, args=(body, piece * (size // len(piece)))) for peer in peers]
            for thread in threads:
                thread.start()
            self.broker.one("schedule", "q", "--in", "1h")
            for thread, peer in zip(threads, peers):
                thread.join()
                peer.hear(60)
                peer.close()
        if not harness.SANITIZED:
            self.assertLess(self.peak_mib(), 128, "twice --memory")

    def test_lengths_that_lie(self):
        """F-20: inner lengths up to 2^64 - 1, endless varints, nested groups: INVALID, or the connection ends."""
        for data in (b"\x5a" + b"\xff" * 9 + b"\x01", b"\x5a\xff\xff\xff\xff\x0f", b"\x5a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
                     b"\x5b" * 5000, b"\x08\x01" * 5000, b"\x5a\x04\x2a\xff\xff\x7f", b"\xff" * 5000, b"\x12\xff\xff\x03" + b"\xff" * 50):
            with self.subTest(data=data[:12]), WebSocket(self.broker.port) as peer:
                peer.send(b"\x80\0\0\1" + data)
                try:
                    self.assertNotEqual(wire.number(wire.decode(peer.receive()[4:]), 1), wire.OK)
                except ConnectionError:
                    pass
        self.broker.one("schedule", "q", "--in", "1h")

    def test_names_and_numbers_out_of_range_are_refused_one_by_one(self):
        """F-20: well-formed but invalid operations get INVALID or TOO_LARGE, and the other operations take effect."""
        rpc = self.rpc()
        producer = rpc.hello()
        bad = [wire.schedule("q" * 129), wire.schedule("q", "k" * 256), wire.schedule("q\n"), wire.schedule(""),
               wire.schedule("q", b"\xff\xfe"), wire.schedule("q", "", 1 << 60), [(1, [(1, "q"), (3, [(1, 9), (2, 1)])])],
               [(1, [(1, "q"), (5, 10)])], [(1, [(1, "q"), (4, b"\x12\xff\x7f")])], [(99, b"a newer client")],
               wire.schedule("q", "k" * 5000), [(2, [(1, [(2, "q"), (3, "k" * 5000)])])]]
        code, reply = rpc.ask(wire.COMMIT, wire.commit(producer, 1, [wire.schedule("q", "good", 3_600_000), *bad]))
        self.assertEqual(code, wire.OK)
        codes = [wire.number(result, 1) for result in wire.results(reply)]
        self.assertEqual(codes[0], wire.OK)
        self.assertEqual(len(codes), 1 + len(bad))
        self.assertNotIn(wire.OK, codes[1:])
        self.assertEqual(self.broker.queue_stats("q")["scheduled"], 1)

    def test_a_refused_request_gives_back_nothing_of_an_earlier_one(self):
        """In an earlier version, a refused request freed memory that an earlier request in the same request context had
        reserved for its reply. The next long reply then had no memory.
        """
        rpc = self.rpc()
        rpc.ask(wire.COMMIT, wire.commit(rpc.hello(), 1, [wire.schedule("q", "k", 3_600_000)]))
        for _ in range(4):
            self.assertEqual(rpc.ask(wire.LIST, [(1, "q")])[0], wire.OK, rpc.sentence)
            for _ in range(3):
                self.assertEqual(rpc.ask(wire.LIST, [(1, "")])[0], wire.INVALID)


class Secrets(Wire):
    def test_only_the_sessions_own_secret_opens_its_lane(self):
        """F-23: a client gets nothing without the session's secret, with a wrong or incomplete one, with another session's
        secret on this lane, or with this session's secret on another lane. The session's holder loses nothing.
        """
        rpc = self.rpc()
        one, two = Session(rpc, ["a"]), Session(rpc, ["b"])
        lanes = self.dial(one), self.dial(two)
        right = one.secret
        wrong = {"none": "", "a bit off": bytes([right[0] ^ 1, *right[1:]]).hex(), "the tail off": bytes([*right[:-1], right[-1] ^ 128]).hex(),
                 "half": right.hex()[:-16], "too long": right.hex() + "00", "no hex": "z" * len(right.hex()), "zeros": "00" * len(right),
                 "another's": two.secret.hex()}
        for name, secret in wrong.items():
            with self.subTest(name), one.dial(secret=secret) as thief:
                self.assertFalse(thief.accepted)
        with one.dial(lane=two.lane) as thief:
            self.assertFalse(thief.accepted)
        self.fill("a", 1, b"for one")
        self.fill("b", 1, b"for two")
        self.assertIn(b"for one", lanes[0].receive())
        self.assertIn(b"for two", lanes[1].receive())

    def test_a_guessed_session_cannot_be_resumed_or_settled(self):
        """F-23: a client that knows the number of another client's session cannot settle its tasks without the lease token,
        and cannot resume the session with a forged secret.
        """
        rpc = self.rpc()
        holder = Session(rpc, ["q"], prefetch=5)
        lane = self.dial(holder)
        self.fill("q", 1)
        task = wire.tasks(lane.receive())[0]
        epoch, position = (wire.number(wire.decode(task[7][-1]), field) for field in (1, 2))
        producer = rpc.hello()
        forged = [(4, [(1, wire.number(task, 1)), (2, [(1, epoch), (2, position + 1)])])]
        code, reply = rpc.ask(wire.COMMIT, wire.commit(producer, 1, [forged]))
        self.assertEqual((code, wire.number(wire.results(reply)[0], 1)), (wire.OK, wire.STALE_TOKEN))
        secret = bytes([holder.secret[0] ^ 1, *holder.secret[1:]])
        code, reply = rpc.ask(wire.SUBSCRIBE, [(1, "q"), (5, secret)])
        self.assertFalse(code == wire.OK and wire.number(wire.decode(reply), 5), "resumed with a forged secret")
        self.assertEqual(self.broker.queue_stats("q")["in_flight"], 1)


class TwoBodies(Wire):
    """F-20: protobuf allows repeated fields; of the members of a oneof, the last one counts. The broker counts a request's
    operations before unpacking. This count must equal that of the unpacked message.
    """

    samples = {
        wire.COMMIT: wire.commit(1, 1, [[(12, [(1, [(1, 1)]), (2, "because")])]]),  # an operation that redacts task 1
        wire.STATS: [(1, "aaaaaaaabbbbbbbbccccccccdddddddd")],  # as large as a commit's fields, but contains no pointers
        wire.AUDIT: [(8, 100)],
        wire.FOLLOW: [(15, 100)],
    }

    def test_a_request_of_two_bodies_is_refused_whichever_they_are(self):
        rpc = self.rpc()
        for first in wire.BODIES:
            for second in wire.BODIES:
                packed = wire.request(first, self.samples.get(first, [])) + wire.encode([(second, self.samples.get(second, []))])
                with self.subTest(first=first, second=second):
                    self.assertEqual(rpc.ask_packed(packed)[0], wire.INVALID)
                    self.assertIn("more than one body", rpc.sentence)
        self.assertGreater(rpc.hello(), 0)
        self.assertEqual(self.broker.ok("queues"), [])

    def test_an_operation_of_two_bodies_is_refused(self):
        rpc = self.rpc()
        producer = rpc.hello()
        both = wire.schedule("q", "k") + [(12, [(1, [(1, 1)]), (2, "because")])]
        for op in (both, both[::-1], wire.schedule("q", "k") * 2):
            self.assertEqual(rpc.ask(wire.COMMIT, wire.commit(producer, 1, [op]))[0], wire.INVALID)
            self.assertIn("operation has more than one body", rpc.sentence)
        self.assertEqual(self.broker.ok("queues"), [])

    def test_a_commit_with_a_follow_before_it_is_refused(self):
        """In an earlier version, the broker took a commit with a Follow body before it for a request of the peer. So a stop
        did not wait for the commit's reply.
        """
        rpc = self.rpc()
        producer = rpc.hello()
        packed = wire.encode([(wire.FOLLOW, [])]) + wire.request(wire.COMMIT, wire.commit(producer, 1, [wire.schedule("q", "k", 3_600_000)]))
        self.assertEqual(rpc.ask_packed(packed)[0], wire.INVALID)
        self.assertEqual(self.broker.ok("queues"), [])


class Pair(Wire):
    """Requests about the pair that a client sends to a broker without a peer."""

    def setUp(self):
        super().setUp()
        self.rpc = wire.Rpc(self.broker.port)

    def test_a_greeting_says_whose_producer_it_is(self):
        code, reply = self.rpc.ask(wire.HELLO, [])
        hello = wire.decode(reply)
        self.assertEqual((code, len(hello[5][0])), (wire.OK, 16))
        self.assertEqual(wire.number(hello, 3), 1 << 20)  # payload_max

    def test_a_producer_of_another_cluster_is_refused(self):
        """F-29 for clients: in another cluster, the same producer and sequence belong to another client."""
        hello = wire.decode(self.rpc.ask(wire.HELLO, [])[1])
        producer, own = wire.number(hello, 1), hello[5][0]
        commit = wire.commit(producer, 1, [wire.schedule("q", "k", 3_600_000)])
        for other in (bytes([own[0] ^ 1]) + own[1:], own[:15], own + b"x", b"\0"):
            self.assertEqual(self.rpc.ask(wire.COMMIT, commit, cluster=other)[0], wire.NOT_PRIMARY)
            self.assertIn("another cluster", self.rpc.sentence)
        self.assertEqual(self.broker.ok("queues"), [])
        code, reply = self.rpc.ask(wire.COMMIT, commit, cluster=own)
        self.assertEqual((code, wire.number(wire.results(reply)[0], 2)), (wire.OK, 1))  # the task has id 1, so the broker executed none of the refused commits

    def test_nobody_follows_a_broker_that_has_no_peer(self):
        """A broker without a peer refuses a follower's request, whether the request is empty or has all fields."""
        own = wire.decode(self.rpc.ask(wire.HELLO, [])[1])[5][0]
        url = self.broker.url
        for question in ([], [(15, 100)], [(1, own), (2, b"m" * 16), (3, 1), (4, 1), (7, 4096), (14, url)]):
            code, body = self.rpc.ask(wire.FOLLOW, question)
            self.assertEqual((code, body), (wire.NOT_DONE, b""))
            self.assertIn("no peer", self.rpc.sentence)
        self.assertGreater(self.rpc.hello(), 0)

    def test_a_broker_alone_is_the_primary_and_has_nobody_to_hand_over_to(self):
        code, reply = self.rpc.ask(wire.PAIR, [])
        status = wire.decode(reply)
        self.assertEqual((code, wire.number(status, 1), wire.number(status, 2)), (wire.OK, 1, 1))
        self.assertEqual(status[6][0].decode(), self.broker.url)
        self.assertNotIn(20, status)  # field 20 is missing, because the broker has no peer
        self.assertEqual(self.rpc.ask(wire.PAIR, [(1, 1)])[0], wire.OK)  # refused, because the requested state already holds
        self.assertEqual(self.rpc.ask(wire.PAIR, [(1, 2)])[0], wire.NOT_DONE)
        self.assertIn("no peer", self.rpc.sentence)
        self.assertEqual(self.rpc.ask(wire.PAIR, [(1, 3)])[0], wire.NOT_DONE)  # refused, because there is no record
        for nonsense in ([(1, 5)], [(2, 1)], [(1, 2), (3, 1)], [(1, 1), (2, 1), (3, 1)]):
            self.assertEqual(self.rpc.ask(wire.PAIR, nonsense)[0], wire.INVALID)


if __name__ == "__main__":
    harness.main()
