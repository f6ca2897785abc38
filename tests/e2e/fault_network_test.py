"""fault_network_test.py: real clients and a real broker with a faulty network between them (F-15, F-17, F-18), simulated by
proxy.py. Proves that nothing acknowledged is lost, nothing takes effect twice, nothing is early or delivered after its end,
other clients continue, and everything recovers with the network."""
import json
import os
import random
import socket
import sys
import time

import harness
from harness import Case
from proxy import BOTH, DOWN, UP, Proxy, close

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/crash")
from load import Load  # noqa: E402  (the path above)

SETTLE_S = 60


class Network(Case):
    def setUp(self):
        super().setUp()
        self.proxy = Proxy(self.broker.port)
        self.far = self.broker.by_way_of(self.proxy)
        self.standing = []

    def tearDown(self):
        for stream in self.broker.streams:
            stream.kill()
        for peer in self.standing:
            close(peer)
        self.proxy.close()
        super().tearDown()

    def far_consumer(self, *arguments):
        """Starts a consumer of q across this network, and waits until its lane works: a task has arrived, and its ack was
        answered."""
        far = self.far.consume("q", "hello", *arguments, "--timeout", "60s")
        self.broker.one("schedule", "hello", "--in", "0s")
        self.assertEqual(far.next()["queue"], "hello")
        self.broker.wait_stats("hello", acked=1, in_flight=0)
        far.seen.clear()
        return far

    def others_go_on(self):
        """Checks that clients that do not use this network are not affected."""
        self.broker.one("schedule", "near", "--in", "0s", "--timeout", "20s")
        self.broker.one("consume", "near", "--count", 1, "--timeout", "20s")


class Partition(Network):
    COUNT = 300

    def schedules_across(self, misfortune):
        """A fault hits a producer's stream half-way. Every line is answered once, and takes effect once."""
        stream = self.far.stream("schedule", "--from", "-", "--timeout", "60s", stdin=True)
        half = self.COUNT // 2
        stream.send(*({"queue": "q", "key": f"k{i}", "delay_ms": 3_600_000} for i in range(half)))
        stream.take(half)
        misfortune(lambda: stream.send(*({"queue": "q", "key": f"k{i}", "delay_ms": 3_600_000} for i in range(half, self.COUNT))))
        answers = stream.seen + stream.take(self.COUNT - half, SETTLE_S)
        stream.end_input()
        self.assertEqual((stream.rest(), stream.wait()), ([], 0))
        self.assertEqual({a["result"] for a in answers}, {"scheduled"}, "a repeat was executed again")
        self.assertEqual(len({a["id"] for a in answers}), self.COUNT)
        stats = self.broker.queue_stats("q")
        self.assertEqual((stats["pending"], stats["scheduled"]), (self.COUNT, self.COUNT))

    def more_is_done(self):
        """Returns whether an operation that was sent into the partition has taken effect without a reply. (The client sends
        one commit at a time, so its later operations wait.)
        """
        end = time.monotonic() + SETTLE_S
        while self.broker.queue_stats("q")["scheduled"] <= self.COUNT // 2:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_requests_that_are_held_and_come_late(self):
        """F-15: only the direction from client to broker is cut. Requests sent into the partition arrive when it ends, and are
        executed once.
        """
        def misfortune(send):
            self.proxy.hold(UP)
            send()
            self.others_go_on()
            self.proxy.heal()
        self.schedules_across(misfortune)

    def test_requests_that_are_lost(self):
        """F-15, F-16: requests sent into the partition are lost with their connection, and the client sends them again."""
        def misfortune(send):
            self.proxy.hold(UP)
            send()
            self.others_go_on()
            self.proxy.cut()
            self.proxy.heal()
        self.schedules_across(misfortune)

    def test_answers_that_are_lost(self):
        """F-15, F-16: only the direction from broker to client is cut. All requests were executed, and all replies were lost.
        Repeated on a new connection under the same sequence, the requests get the lost replies (ONCE-1).
        """
        def misfortune(send):
            self.proxy.hold(DOWN)
            send()
            self.more_is_done()
            self.proxy.cut()
            self.proxy.heal()
        self.schedules_across(misfortune)

    def test_answers_that_are_lost_and_asked_for_after_a_crash(self):
        """F-15, F-16: replies are lost, and the broker is killed before the repeated requests reach it."""
        def misfortune(send):
            self.proxy.hold(DOWN)
            send()
            self.more_is_done()
            self.broker.kill()
            self.proxy.cut()
            self.proxy.heal()
            self.broker.start()
        self.schedules_across(misfortune)

    def test_a_consumer_that_hears_nothing_loses_its_tasks_to_another(self):
        """F-15: only the direction from broker to client is cut, so deliveries leave and do not arrive. When the leases end,
        another consumer gets the tasks. Late acks are refused and settle nothing.
        """
        far = self.far_consumer("--prefetch", 10, "--lease", "10s")
        self.proxy.hold(DOWN)
        self.fill(10)
        self.broker.wait_stats("q", delivered=10)
        near = self.broker.consume("q", "--prefetch", 10, "--lease", "60s")
        got = near.take(10, 60)
        self.assertTrue(all(d["attempt"] >= 2 for d in got))
        self.broker.wait_stats("q", acked=10)
        self.proxy.heal()
        self.still_works(far, near)

    def test_a_consumer_that_is_not_heard_loses_its_tasks_to_another(self):
        """F-15: only the direction from client to broker is cut, so tasks arrive, but acks and heartbeats do not. The session
        ends, another consumer does its tasks, and late acks change nothing.
        """
        far = self.far_consumer("--prefetch", 10, "--lease", "10s")
        self.proxy.hold(UP)
        self.fill(10)
        self.assertEqual({d["attempt"] for d in far.take(10)}, {1})
        near = self.broker.consume("q", "--ack", "none", "--prefetch", 10, "--lease", "60s")
        got = near.take(10, 60)
        self.assertTrue(all(d["attempt"] >= 2 for d in got))
        self.proxy.heal()  # the acks of the first attempt arrive now, and are refused
        time.sleep(0.5)
        self.assertEqual(self.broker.queue_stats("q")["acked"], 0, "an old token settled a task")
        for delivery in got:
            self.assertEqual(self.broker.one("ack", delivery["id"], delivery["token"])["result"], "acked")
        self.still_works(far, near)

    def fill(self, count):
        lines = [json.dumps({"queue": "q", "key": f"k{i}", "delay_ms": 0}) for i in range(count)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines))

    def still_works(self, far, near):
        """Checks that the consumer that was cut off reconnects and gets new tasks, and that no old task is left."""
        stats = self.broker.wait_stats("q", pending=0, ready=0, in_flight=0)
        self.assertEqual((stats["acked"], stats["dead"]), (10, 0))
        near.kill()
        answer = self.broker.one("schedule", "q", "--in", "0s")
        while far.next(SETTLE_S)["id"] != answer["id"]:
            pass  # tasks delivered during the partition arrive late
        leases = [(delivery["id"], delivery["token"]) for delivery in far.seen]
        self.assertEqual(len(leases), len(set(leases)), "printed twice under one lease")
        self.broker.wait_stats("q", acked=11, in_flight=0, ready=0)


class HalfOpen(Network):
    def test_the_broker_is_left_alone_with_connections(self):
        """F-17: the clients are gone and their connections stay open. Their tasks are delivered to other consumers, and the
        broker uses TCP keepalive, so no descriptor stays open for ever.
        """
        before = self.broker.sockets()
        consumers = [self.far.consume("q", "--ack", "none", "--prefetch", 2, "--lease", "10s") for _ in range(5)]
        lines = [json.dumps({"queue": "q", "key": f"k{i}", "delay_ms": 0}) for i in range(10)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines))
        for consumer in consumers:
            consumer.next()
        self.broker.wait_stats("q", in_flight=10)
        self.standing = self.proxy.abandon("broker")
        self.assertGreaterEqual(len(self.standing), 10, "a connection for requests and a lane each")
        for consumer in consumers:
            consumer.kill()
        self.others_go_on()
        got = self.broker.ok("consume", "q", "--count", 10)
        self.assertTrue(all(d["attempt"] >= 2 for d in got))
        self.assertEqual(self.timers(), {"02"}, "a connection without keepalive")
        for peer in self.standing:
            close(peer)
        end = time.monotonic() + 20
        while self.broker.sockets() > before and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.broker.sockets(), before)

    def timers(self):
        """Returns the kinds of the kernel's timers for the broker's idle connections; "02" is keepalive."""
        ports = {f"{peer.getsockname()[1]:04X}" for peer in self.standing}
        with open("/proc/net/tcp", encoding="ascii") as file:
            rows = [line.split() for line in file.read().splitlines()[1:]]
        return {row[5].split(":")[0] for row in rows
                if row[3] == "01" and row[1].endswith(f":{self.broker.port:04X}") and row[2].split(":")[1] in ports}

    def test_clients_are_left_alone_with_connections(self):
        """F-17: the broker's side of every connection is gone, and the clients get no notice. They detect it, repeat their
        requests, and continue; nothing is executed twice."""
        consumer = self.far.consume("q", "--lease", "10s", "--timeout", "60s")
        stream = self.far.stream("schedule", "--from", "-", "--timeout", "60s", stdin=True)
        stream.send({"queue": "q", "key": "before", "delay_ms": 0})
        stream.next()
        self.assertEqual(consumer.next()["key"], "before")
        self.broker.wait_stats("q", acked=1)
        self.standing = self.proxy.abandon("client")
        stream.send({"queue": "q", "key": "after", "delay_ms": 0})
        self.assertEqual(stream.next(SETTLE_S)["result"], "scheduled")
        self.assertEqual(consumer.next(SETTLE_S)["key"], "after")
        self.broker.wait_stats("q", acked=2, in_flight=0)


class Trickle(Network):
    def test_everything_works_a_byte_at_a_time(self):
        """F-18: each byte of requests, replies, deliveries and acks comes in its own packet."""
        self.proxy.slow(1)
        consumer = self.far.consume("q", "--timeout", "60s")
        body = "x" * 2000
        for number in range(5):
            answer = self.far.one("schedule", "q", "--key", f"k{number}", "--in", "100ms", "--body", body, "--timeout", "60s",
                                  wait_s=90)
            delivery = consumer.next(SETTLE_S)
            self.assertEqual((delivery["id"], delivery["body"]), (answer["id"], body))
            self.assert_not_early(delivery)
        self.broker.wait_stats("q", acked=5, in_flight=0)
        self.assertGreater(self.proxy.carried[UP] + self.proxy.carried[DOWN], 20_000)

    def test_a_slow_upgrade_stops_nobody(self):
        """F-18: fifty connections send their upgrade requests one byte at a time."""
        peers = [socket.create_connection(("127.0.0.1", self.broker.port)) for _ in range(50)]
        for byte in b"GET /rpc HTTP/1.1\r\nUpgrade: websocket\r\n":
            for peer in peers:
                peer.sendall(bytes([byte]))
        self.others_go_on()
        for peer in peers:
            peer.close()


class Weather(Network):
    SECONDS = float(os.environ.get("TARRY_WEATHER_S", "6"))
    SEED = int(os.environ.get("TARRY_WEATHER_SEED", str(random.SystemRandom().randrange(1 << 32))))

    def test_a_storm_of_every_kind(self):
        """F-15, F-16, F-17, F-18: schedules, cancels, moves, consumers and manual acks cross a network that at random holds one
        direction or both, resets, delays, slows down or abandons connections; an independent ledger agrees."""
        rng = random.Random(self.SEED)
        print(f"# seed {self.SEED}", flush=True)
        load = Load(self.far, self.SEED)
        end = time.monotonic() + self.SECONDS
        while time.monotonic() < end:
            self.blow(rng)
        self.proxy.heal()
        self.proxy.fast()
        self.proxy.cut()
        statuses, stats = load.finish()
        ledger = load.ledger
        for name in ("lost", "early", "after_ack", "after_cancel", "untrue", "twice"):
            self.assertEqual(getattr(ledger, name)()[:5], [], f"seed {self.SEED}: {name}")
        self.assertEqual(statuses[0], 0)
        self.assertEqual([s for s in stats if s["pending"] or s["ready"] or s["in_flight"] or s["dead"]], [])
        self.assertEqual(load.answered, {"schedule": load.count, "cancel": load.cancels_sent, "move": load.moves_sent})
        self.assertGreater(len(ledger.deliveries), 100)

    def blow(self, rng):
        """Causes one random fault, and then a pause without faults."""
        gust = rng.choice(("up", "down", "both", "cut", "delay", "pieces", "client", "broker"))
        if gust in ("up", "down", "both"):
            self.proxy.hold(*(BOTH if gust == "both" else (gust,)))
        elif gust == "cut":
            self.proxy.cut()
        elif gust == "delay":
            self.proxy.slow(None, 0.02)
        elif gust == "pieces":
            self.proxy.slow(rng.randrange(1, 40))
        else:
            self.standing += self.proxy.abandon(gust)
        time.sleep(rng.uniform(0.02, 0.6))
        if gust in ("up", "down", "both") and rng.random() < 0.5:
            self.proxy.cut()
        self.proxy.heal()
        self.proxy.fast()
        time.sleep(rng.uniform(0.05, 0.5))


if __name__ == "__main__":
    harness.main()
