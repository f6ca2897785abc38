"""restart_test.py: what a client may rely on after its broker was ended by kill -9."""
import json
import os
import time

import harness
import wire
from frozen import freeze
from harness import Case, now_ms
from in_time import in_time, judged
from proxy import DOWN, Proxy


class Leases(Case):
    def setUp(self):
        super().setUp()
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s")

    CLAIM_S = 2  # time after a start within which a session must claim its leases
    SILENCE_S = 10  # maximum silence of a session before it ends

    def test_a_claimed_lease_keeps_its_token_and_its_ack_is_good(self):
        judged(self.claim_and_ack)

    def claim_and_ack(self, number):
        queue = f"claimed-{number}"  # each attempt uses its own queue
        self.broker.one("schedule", queue, "--key", "k", "--in", "0s")
        with wire.Rpc(self.broker.port) as rpc:
            session = wire.Session(rpc, [queue])
            with session.dial() as lane:  # the lane stays open until the kill, because closing it would end the session
                held, = wire.tasks(lane.receive())
                self.broker.kill()
        with in_time(self.SILENCE_S, "from the start until the heartbeat"):
            with in_time(self.CLAIM_S, "from the start until the session is claimed"):
                self.broker.start()
                rpc = wire.Rpc(self.broker.port)
                self.addCleanup(rpc.close)
                again = wire.Session(rpc, [queue], resume=session.secret)
                self.assertEqual(again.id, session.id)
            lane = again.dial()
            self.addCleanup(lane.close)
            same, = wire.tasks(lane.receive())
            self.assertEqual((same[1], same[7]), (held[1], held[7]))
            time.sleep(self.CLAIM_S + 1)
            self.assertEqual(again.heartbeat(), wire.OK)
        self.assertEqual(self.broker.one("get", queue, "k")["state"], "in_flight")
        ack = [(4, [(1, wire.number(held, 1)), (2, held[7][-1])])]
        code, reply = rpc.ask(wire.COMMIT, wire.commit(rpc.hello(), 1, [ack]))
        self.assertEqual((code, wire.number(wire.results(reply)[0], 1)), (wire.OK, wire.OK))

    def test_a_consumer_goes_on_with_what_it_holds(self):
        """After a restart the consumer keeps its lease. If the machine was too slow for the claim, it gets the task again."""
        holder = self.broker.consume("q", "--ack", "none")
        held = holder.next()
        self.broker.restart()
        time.sleep(self.CLAIM_S + 1)
        task = self.broker.one("get", "q", "k")
        if task["token"] != held["token"]:
            held = holder.next()
            self.assertEqual(held["attempt"], 2)
        self.assertEqual(self.broker.one("ack", held["id"], held["token"])["result"], "acked")

    def test_an_unclaimed_lease_is_ready_again_after_two_seconds(self):
        holder = self.broker.consume("q", "--ack", "none", "--lease", "10m")  # 10m: longer than any test waits
        held = holder.next()
        freeze(holder.process)
        self.broker.kill()
        holder.kill()
        self.broker.start()
        again = self.broker.one("consume", "q", "--count", 1)
        self.assertEqual((again["id"], again["attempt"], again["deliveries"]), (held["id"], 2, 2))

    def test_attempts_survive(self):
        self.broker.ok("queue", "set", "q", "backoff=fixed", "backoff_min=10ms", "max_attempts=10")
        self.broker.ok("consume", "q", "--ack", "nack", "--count", 3)
        self.broker.restart()
        self.assertEqual(self.broker.one("consume", "q", "--count", 1)["attempt"], 4)

    def test_an_acked_task_never_comes_again(self):  # KEEP-1
        self.broker.one("consume", "q", "--count", 1)
        self.broker.wait_stats("q", acked=1)
        self.broker.restart()
        self.assertEqual(self.broker.ok("consume", "q", "--for", "2500ms"), [])


class Strangers(Case):
    def test_a_producer_that_used_the_last_sequence_and_went_leaves_nothing(self):  # F-20, ONCE-1
        """In a former defect, the index kept the row of a producer that was deleted after its greatest possible sequence.
        Every later start refused the index.
        """
        with wire.Rpc(self.broker.port) as rpc:
            producer = rpc.hello()
            code, _ = rpc.ask(wire.COMMIT, wire.commit(producer, 2 ** 64 - 1, [wire.schedule("q", "k", 3_600_000)]))
            self.assertEqual(code, wire.OK)
            self.assertEqual(rpc.ask(wire.GOODBYE, [(1, producer)])[0], wire.OK)
        self.assertEqual(self.broker.stop(), 0)
        self.broker.start()
        self.assertEqual(self.broker.one("get", "q", "k")["state"], "pending")


class Much(Case):
    def test_fifty_thousand_tasks_come_back_and_the_index_agrees(self):
        lines = [json.dumps({"queue": f"q{i % 3}", "key": f"k{i}", "delay_ms": 3_600_000 + i}) for i in range(50_000)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines), wait_s=120)
        self.broker.restart()
        self.assertEqual(self.broker.ready["recovered_tasks"], "50000")
        # Asks immediately after the start, when the filters may not be in memory yet.
        again = self.broker.refused("schedule", "--from", "-", stdin="\n".join(lines[::500]))
        self.assertEqual([r["result"] for r in again.objects], 100 * ["exists"])
        self.assertEqual(self.broker.one("get", "q1", "k40000")["state"], "pending")
        cancels = "\n".join(json.dumps({"queue": f"q{i % 3}", "key": f"k{i}"}) for i in range(0, 50_000, 2))
        results = self.broker.ok("cancel", "--from", "-", stdin=cancels, wait_s=120)
        self.assertEqual({r["result"] for r in results}, {"cancelled"})
        self.broker.restart()
        self.assertEqual(self.broker.ready["recovered_tasks"], "25000")
        self.assertEqual(self.broker.one("get", "q1", "k40000")["state"], "cancelled")
        self.assertEqual(self.broker.one("get", "q2", "k40001")["state"], "pending")
        self.assertEqual(self.broker.stop(), 0)
        answer = self.broker.tarry("verify", self.broker.data, wait_s=120)
        self.assertEqual(answer.status, 0, answer)
        self.broker.start()

    def test_killed_again_and_again_while_starting(self):  # F-10
        for number in range(300):
            self.broker.one("schedule", "q", "--key", f"k{number}", "--in", "1h") if number % 50 == 0 else None
        lines = [json.dumps({"queue": "q", "key": f"x{i}", "delay_ms": 3_600_000}) for i in range(5000)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines))
        live = 5000 + 6
        for delay_ms in (1, 3, 6, 10, 15, 20, 30, 40, 60, 90):
            self.broker.kill()
            self.broker.launch()
            time.sleep(delay_ms / 1000)
        self.broker.kill()
        self.broker.start()
        self.assertEqual(self.broker.ready["recovered_tasks"], str(live))


class Damage(Case):
    def setUp(self):
        super().setUp()
        lines = [json.dumps({"queue": "q", "key": f"k{i}", "delay_ms": 3_600_000, "body": "b" * 100}) for i in range(3000)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines))
        self.assertEqual(self.broker.stop(), 0)

    def segments(self):
        found = []
        for directory, _, files in os.walk(self.broker.data):
            found += [os.path.join(directory, f) for f in files if not f.endswith(("mdb", "lock", ".next"))]
        return sorted(found, key=os.path.getsize)

    def refuses(self):
        self.broker.launch()
        self.broker.is_ready.wait(30)
        self.assertFalse(self.broker.ready, "started on damaged data")
        self.assertGreater(self.broker.process.wait(30), 0)
        self.assertGreater(len(self.broker.log_text()), 20)

    def test_verify_is_content_with_what_is_whole(self):
        self.assertEqual(self.broker.tarry("verify", self.broker.data).status, 0)

    def test_a_flipped_byte_in_the_middle_of_the_log_is_found_by_verify(self):  # F-2
        path = self.segments()[-1]
        with open(path, "r+b") as file:
            data = file.read()
            used = len(data.rstrip(b"\0"))
            file.seek(used // 2)
            file.write(bytes([data[used // 2] ^ 0x10]))
        answer = self.broker.tarry("verify", self.broker.data)
        self.assertEqual(answer.status, 1, answer)
        self.assertTrue(answer.out.strip() or answer.err.strip())

    def test_another_version_is_refused(self):  # F-14
        for path in self.segments():
            if os.path.getsize(path) < 4096:
                continue
            with open(path, "r+b") as file:
                file.write(b"\xff" * 16)
        self.refuses()

    def test_a_missing_log_is_refused_not_taken_for_a_new_one(self):  # Proves F-7, F-9 and LOG-3.
        for path in self.segments():
            if os.path.getsize(path) > 4096:
                os.unlink(path)
        self.refuses()
        self.assertIn("move that directory away, and restore the newest backup", self.broker.log[-1])


class Once(Case):
    def test_cancels_and_moves_repeated_over_a_crash_take_effect_once(self):  # F-22, ONCE-1
        lines = [json.dumps({"queue": "q", "key": f"k{i}", "delay_ms": 3_600_000}) for i in range(1000)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines))
        proxy = Proxy(self.broker.port)
        self.addCleanup(proxy.close)
        far = self.broker.by_way_of(proxy)
        cancels, moves = (far.stream(verb, "--from", "-", "--timeout", "60s", stdin=True) for verb in ("cancel", "move"))
        due_ms = self.broker.one("get", "q", "k501")["due_ms"]
        for first, end in ((0, 1), (1, 500)):
            cancels.send(*({"queue": "q", "key": f"k{number}"} for number in range(first, end)))
            moves.send(*({"queue": "q", "key": f"k{500 + number}", "delay_ms": 7_200_000} for number in range(first, end)))
            if first == 0:
                self.assertEqual((cancels.next()["result"], moves.next()["result"]), ("cancelled", "moved"))
                proxy.hold(DOWN)
        # Some operations took effect although their replies are held back.
        moved_ms = harness.wait_until("k501 is moved", lambda: (now := self.broker.one("get", "q", "k501")["due_ms"]) != due_ms and now, 30)
        self.broker.kill()
        proxy.cut()
        proxy.heal()
        self.broker.start()
        for stream, result in ((cancels, "cancelled"), (moves, "moved")):
            stream.end_input()
            stream.rest(60)
            self.assertEqual((stream.wait(), len(stream.seen)), (0, 500))
            self.assertEqual({answer["result"] for answer in stream.seen}, {result}, "a repeat was executed again")
        self.assertEqual((moves.seen[1]["due_ms"], self.broker.one("get", "q", "k501")["due_ms"]), (moved_ms, moved_ms))
        self.assertEqual(self.broker.queue_stats("q")["pending"], 500)

    def test_the_clock_never_runs_backwards_across_restarts(self):
        last = 0
        for number in range(4):
            self.broker.one("schedule", "q", "--key", f"k{number}", "--in", "0s")
            delivery = self.broker.one("consume", "q", "--count", 1)
            self.assertGreaterEqual(delivery["delivered_ms"], last)
            last = delivery["delivered_ms"]
            self.broker.restart()
        self.assertLess(abs(last - now_ms()), 60_000)


if __name__ == "__main__":
    harness.main()
