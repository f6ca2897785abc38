"""fault_process_test.py: a process is stopped (SIGSTOP) for longer than a lease lasts, and continued (F-13)."""
import json
import time

import harness
import in_time
import wire
from frozen import freeze, thaw
from harness import Case

LEASE, LEASE_S = "1s", 1.0
SHORT_MS = 2000  # duration of a lease, and maximum silence of its session, in ms
SETTLE_S = 0.25  # time for a continued broker to read its sockets (broker/engine/stall.h)


class Stopped(Case):
    def schedule(self, *delays_ms):
        lines = [json.dumps({"queue": "q", "key": f"k{i}", "delay_ms": delay_ms}) for i, delay_ms in enumerate(delays_ms)]
        return self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines))

    def stop_broker(self, seconds):
        freeze(self.broker.process)
        time.sleep(seconds)
        thaw(self.broker.process)

    def test_a_broker_stopped_for_twice_the_lease(self):
        """F-13: while the broker is stopped, leases expire, delays become due, and a producer and a consumer wait. After that
        every line is answered once, nothing is early, leased tasks are delivered again, and a late ack is refused."""
        producer = self.broker.stream("schedule", "--from", "-", "--timeout", "60s", stdin=True)
        self.schedule(0, 0)
        held = self.broker.ok("consume", "q", "--ack", "none", "--count", 2, "--lease", LEASE)
        producer.send(*({"queue": "due", "key": f"d{i}", "delay_ms": 300 * i} for i in range(8)))
        asked = producer.take(8)
        consumer = self.broker.consume("due", "--timeout", "60s")
        first = consumer.next()
        freeze(self.broker.process)
        producer.send(*({"queue": "due", "key": f"late{i}", "delay_ms": 0} for i in range(8)))
        time.sleep(2 * LEASE_S)
        thaw(self.broker.process)
        self.assertEqual({answer["result"] for answer in producer.take(8)}, {"scheduled"})
        got = [first, *consumer.take(15)]
        self.assertEqual(len({delivery["id"] for delivery in got}), 16)
        due_ms = {answer["id"]: answer["due_ms"] for answer in asked}
        for delivery in got:
            self.assert_not_early(delivery)
            self.assertEqual(delivery["due_ms"], due_ms.get(delivery["id"], delivery["due_ms"]))
        again = self.broker.ok("consume", "q", "--ack", "none", "--count", 2, "--lease", "20s")
        attempts = {delivery["id"]: delivery["attempt"] for delivery in held}
        self.assertTrue(all(delivery["attempt"] > attempts[delivery["id"]] for delivery in again), (held, again))
        for delivery in held:
            self.assertIn("stale_token", self.broker.refused("ack", delivery["id"], delivery["token"]).out)
        for delivery in again:
            self.assertEqual(self.broker.one("ack", delivery["id"], delivery["token"])["result"], "acked")
        self.broker.wait_stats("due", acked=16, in_flight=0)

    # TIME-2
    def test_f13_what_lay_in_the_sockets_came_before_the_timers(self):
        """F-13: an ack, an extension and a heartbeat arrive while the broker is stopped for longer than the lease and the
        silence limit. All three count, because the broker reads its sockets before its timers expire.
        """
        self.judged(self.ack_extend_and_beat)

    def judged(self, attempt):
        """Repeats attempts like in_time.judged. Continues the broker after each attempt, whatever its result."""
        def thawed(number):
            try:
                attempt(number)
            finally:
                thaw(self.broker.process)
        in_time.judged(thawed)

    def go_on(self, *others):
        """Continues the broker. Returns the replies that each connection in `others` gets within the settle time."""
        with in_time.in_time(SETTLE_S, "from when the broker goes on until it has read its sockets"):
            thaw(self.broker.process)
            return [other.hear()[1:] for other in others]

    def ack_extend_and_beat(self, number):
        queue = f"stopped-{number}"  # each attempt uses its own queue
        rpc, others = wire.Rpc(self.broker.port), [wire.Rpc(self.broker.port) for _ in range(3)]
        for peer in (rpc, *others):
            self.addCleanup(peer.close)
        producer = rpc.hello()
        with in_time.in_time(SHORT_MS / 1000, "from the subscription until the broker stands still"):
            session = wire.Session(rpc, [queue], lease_ms=SHORT_MS)
            lane = session.dial()
            self.addCleanup(lane.close)
            ops = [wire.schedule(queue), wire.schedule(queue)]
            self.assertEqual(rpc.ask(wire.COMMIT, wire.commit(producer, 1, ops))[0], wire.OK)
            tasks = []
            while len(tasks) < 2:
                tasks += wire.tasks(lane.receive())
            self.assertEqual(session.heartbeat(), wire.OK)
            freeze(self.broker.process)
        ref = [[(1, wire.number(task, 1)), (2, task[7][-1])] for task in tasks]
        others[0].tell(wire.COMMIT, wire.commit(producer, 2, [[(4, ref[0])]]))
        others[1].tell(wire.COMMIT, wire.commit(producer, 3, [[(6, [*ref[1], (3, 20_000)])]]))
        others[2].tell(wire.HEARTBEAT, [(1, session.id)])
        time.sleep(3)  # longer than SESSION_SILENCE_MIN_MS
        with in_time.in_time(SHORT_MS / 1000, "from when the broker goes on until the heartbeat"):
            for at, (code, reply) in enumerate(self.go_on(*others)):
                self.assertEqual(code, wire.OK, at)
                if at < 2:
                    self.assertEqual(wire.results(reply)[0].get(1, [wire.OK])[-1], wire.OK, at)
            self.assertEqual(session.heartbeat(), wire.OK)

    def stand_still(self, seconds, *asked):
        """Stops the broker for `seconds`. Each of `asked` is a pair (time in seconds after the stop, function); the function
        is called at that time.
        """
        freeze(self.broker.process)
        began = time.monotonic()
        for at, say in asked:
            time.sleep(max(0, began + at - time.monotonic()))
            say()
        time.sleep(max(0, began + seconds - time.monotonic()))

    # TIME-1
    def test_f13_what_was_asked_of_a_stopped_broker_is_not_early(self):
        """F-13: the broker does not know when a request arrived while it was stopped. So a delay counts from when the request
        was read; otherwise the task would be early."""
        rpc, other = wire.Rpc(self.broker.port), wire.Rpc(self.broker.port)
        producer = rpc.hello()
        session = wire.Session(rpc, ["q", "back"], lease_ms=30_000)
        lane = session.dial()
        self.assertEqual(rpc.ask(wire.COMMIT, wire.commit(producer, 1, [wire.schedule("back", "nacked")]))[0], wire.OK)
        task, = wire.tasks(lane.receive())
        delay_ms, asked_ms = 2000, []

        def ask():
            asked_ms.append(harness.now_ms())
            nack = [(5, [(1, wire.number(task, 1)), (2, task[7][-1]), (3, 1), (4, delay_ms)])]
            other.tell(wire.COMMIT, wire.commit(producer, 2, [wire.schedule("q", "late", delay_ms), nack]))
        self.stand_still(3, (2.9, ask))
        thaw(self.broker.process)
        self.assertEqual(other.hear()[1], wire.OK)
        got = []
        while len(got) < 2:
            got += wire.tasks(lane.receive())
            self.assertGreaterEqual(harness.now_ms() - asked_ms[0], delay_ms, got)
        for peer in (rpc, other, lane):
            peer.close()

    # TIME-2
    def test_f13_a_sign_of_life_that_lay_in_the_socket_counts_from_when_it_was_read(self):
        """F-13: a heartbeat arrives half a second before the session's deadline, while the broker is stopped. The broker
        continues long after the deadline. It must not end the session, and must count the heartbeat from the time at which
        it reads it.

        The broker waits a quarter of a second (the settle time) after a stop. An attempt in which it reads the heartbeat
        within this time proves nothing.
        """
        self.judged(self.beat_while_it_stands)

    def beat_while_it_stands(self, number):
        rpc, other = wire.Rpc(self.broker.port), wire.Rpc(self.broker.port)
        for peer in (rpc, other):
            self.addCleanup(peer.close)
        with in_time.in_time(SHORT_MS / 1000, "from the subscription until the broker stands still"):
            session = wire.Session(rpc, [f"q-{number}"], lease_ms=SHORT_MS)
            lane = session.dial()
            self.addCleanup(lane.close)
            self.assertEqual(session.heartbeat(), wire.OK)
            time.sleep(1.4)
            freeze(self.broker.process)
        self.stand_still(3, (0.1, lambda: other.tell(wire.HEARTBEAT, [(1, session.id)])))
        with in_time.in_time(SHORT_MS / 1000, "from when the broker goes on until the next heartbeat"):
            (code, _), = self.go_on(other)
            self.assertEqual(code, wire.OK)
            time.sleep(1)
            self.assertEqual(session.heartbeat(), wire.OK)

    def test_a_broker_stopped_again_and_again(self):
        """F-13: ten short stops under load; every task is delivered once, none early, none is left."""
        consumer = self.broker.consume("q", "--timeout", "60s")
        producer = self.broker.stream("schedule", "--from", "-", "--timeout", "60s", stdin=True)
        for number in range(10):
            producer.send(*({"queue": "q", "key": f"{number}-{i}", "delay_ms": 40 * (i % 7)} for i in range(50)))
            self.stop_broker(0.15)
        self.assertEqual({answer["result"] for answer in producer.take(500, 60)}, {"scheduled"})
        got = consumer.take(500, 60)
        for delivery in got:
            self.assert_not_early(delivery)
        self.broker.wait_stats("q", acked=500, in_flight=0)
        leases = [(delivery["id"], delivery["token"]) for delivery in got]
        self.assertEqual(len(leases), len(set(leases)))

    def test_a_consumer_stopped_in_the_middle_of_its_work(self):
        """F-13: a stopped consumer loses its tasks to another one. When it continues, its late acks are refused, and it gets new
        tasks, because its heartbeats arrive again."""
        consumer = self.broker.consume("q", "--prefetch", 5, "--lease", "1s", "--exec", "sleep 0.3", "--timeout", "60s")
        self.schedule(0, 0, 0, 0, 0)
        consumer.next()
        freeze(consumer.process)
        other = self.broker.consume("q", "--ack", "none", "--prefetch", 5, "--lease", "30s")
        self.broker.wait_stats("q", ready=0, pending=0)
        taken = other.take(5 - self.broker.queue_stats("q")["acked"])
        thaw(consumer.process)
        time.sleep(1)
        stats = self.broker.queue_stats("q")
        self.assertEqual(stats["in_flight"], len(taken), "a stale ack ended a task that another holds")
        for delivery in taken:
            self.assertGreaterEqual(delivery["attempt"], 2)
            self.assertEqual(self.broker.one("ack", delivery["id"], delivery["token"])["result"], "acked")
        other.kill()
        self.broker.wait_stats("q", acked=5, in_flight=0)
        self.broker.one("schedule", "q", "--key", "more", "--in", "0s")
        while consumer.next(60)["key"] != "more":
            pass
        self.broker.wait_stats("q", acked=6, in_flight=0)

    def test_a_producer_stopped_in_the_middle_of_a_line(self):
        """F-13: other clients are served while the producer is stopped. When it continues, every line is answered once."""
        producer = self.broker.stream("schedule", "--from", "-", "--timeout", "60s", stdin=True)
        producer.send({"queue": "q", "key": "first", "delay_ms": 3_600_000})
        producer.next()
        freeze(producer.process)
        producer.send(*({"queue": "q", "key": f"k{i}", "delay_ms": 3_600_000} for i in range(200)))
        producer.process.stdin.write(b'{"queue": "q", "key": "torn", ')
        producer.process.stdin.flush()
        self.broker.one("schedule", "other", "--in", "0s")
        self.broker.one("consume", "other", "--count", 1)
        time.sleep(2 * LEASE_S)
        self.assertEqual(self.broker.queue_stats("q")["scheduled"], 1)
        thaw(producer.process)
        producer.process.stdin.write(b'"delay_ms": 3600000}\n')
        producer.process.stdin.flush()
        self.assertEqual({answer["result"] for answer in producer.take(201)}, {"scheduled"})
        producer.end_input()
        self.assertEqual((producer.rest(), producer.wait()), ([], 0))
        self.assertEqual(self.broker.queue_stats("q")["pending"], 202)


if __name__ == "__main__":
    harness.main()
