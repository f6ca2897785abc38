"""cold_test.py: the disk with the contents of tasks hangs. Only requests that need contents wait. When the disk continues, the
broker uses the present state of the lane's session, the lease and redactions, not the state at the time of the request
(TRUE-1, CALM-1). The preloaded library makes reads of the log wait, and meanwhile reports that no part of the log is in
memory (fault_shim.c, "hold").
"""
import signal
import sys
import time

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
import tokens  # noqa: E402
import wire  # noqa: E402
from fault import FOR_EVER, Fault  # noqa: E402
from harness import Case  # noqa: E402
from wire import Rpc, Session  # noqa: E402

ANSWER_S = 5  # time limit in s of a request that needs no disk; it takes milliseconds, but this machine may be busy


class Cold(Case):
    autostart = False

    def setUp(self):
        super().setUp()
        self.fault = Fault(self.directory, self.broker.data, "log.pread", "hold")
        self.addCleanup(self.fault.close)
        self.broker.env.update(self.fault.env())
        self.broker.start()
        self.sockets = []
        self.rpc = self.dial()
        self.producer = self.rpc.hello()
        self.sequence = 0

    def tearDown(self):
        self.fault.disarm()
        for peer in self.sockets:
            peer.close()
        super().tearDown()

    def dial(self):
        self.sockets.append(Rpc(self.broker.port, tokens.ADMIN))
        return self.sockets[-1]

    def commit(self, *ops):
        """Sends a commit, which must be answered soon although the disk hangs. Returns its results."""
        self.sequence += 1
        code, reply = self.rpc.ask(wire.COMMIT, wire.commit(self.producer, self.sequence, ops, self.sequence), ANSWER_S)
        self.assertEqual(code, wire.OK)
        results = wire.results(reply)
        self.assertEqual([wire.number(result, 1) for result in results], [wire.OK] * len(ops))
        return results

    def schedule(self, *arguments, **more):
        return wire.number(self.commit(wire.schedule(*arguments, **more))[0], 3)

    def consume(self, queue, **options):
        session = Session(self.dial(), [queue], **options)
        lane = session.dial()
        self.sockets.append(lane)
        return session, lane

    def wait_indexed(self):
        """Waits until the index has everything. From then on, all reads of the log are for deliveries and replies."""
        def is_indexed():
            broker = self.stats()[1]
            return wire.number(broker, 7) == wire.number(broker, 6) == wire.number(broker, 5)
        harness.wait_until("everything is indexed, the seal too", is_indexed, 30)
        before = -1
        while before != self.fault.matched:
            before = self.fault.matched
            time.sleep(0.5)

    def hold(self, first=1, last=FOR_EVER):
        """From now on, reads of the log hang: those from number `first` to number `last`, counted from here."""
        self.fault.arm(self.fault.matched + first, min(self.fault.matched + last, FOR_EVER))

    def stats(self):
        """Returns the statistics: (queues by name, broker)."""
        reply = wire.decode(self.rpc.ask(wire.STATS, [], ANSWER_S)[1])
        queues = [wire.decode(queue) for queue in reply.get(1, [])]
        return {queue[1][-1].decode(): queue for queue in queues}, wire.decode(reply[2][-1])

    def ack(self, task):
        return [(4, [(1, wire.number(task, 1)), (2, task[7][-1])])]


class Beside(Cold):
    BATCHES = 16  # limit of broker/shell/queues/batch.h: when all batches wait for contents, the core waits, too
    LONG = 900_000
    ASKED_OF_ONE = 70  # number of requests; less than 128, the maximum that the door reads of one connection (broker/net/door.h)

    # CALM-1
    def test_nobody_else_waits(self):
        body = b"body" * 100
        ids = [self.schedule("far", f"k{i}", 3_600_000, body) for i in range(2 * self.BATCHES)]
        self.schedule("bare", "in flight")
        session, lane = self.consume("bare")
        task, = wire.tasks(lane.receive())
        self.schedule("cold", "", 0, body)
        self.wait_indexed()
        self.hold()
        _, cold = self.consume("cold")
        asking = [self.dial() for _ in ids]
        for asker, task_id in zip(asking, ids):
            asker.tell(wire.GET, [(1, [(1, task_id)]), (2, 1)])
            time.sleep(0.02)  # waits, so that each task gets a batch of its own
        self.fault.wait_fired(1)
        began = time.monotonic()
        self.assertEqual(session.heartbeat(), wire.OK)
        self.commit(self.ack(task))
        self.schedule("bare", "another")
        self.assertEqual(len(wire.tasks(lane.receive(ANSWER_S))), 1)  # this task has no payload, so it needs no disk
        self.report(time.monotonic() - began)
        for peer in (cold, asking[0]):
            with self.assertRaises(TimeoutError):
                peer.receive(0.2)
        self.fault.disarm()
        self.assertEqual(wire.decode(wire.tasks(cold.receive())[0][10][-1]), {2: [body]})
        for asker, task_id in zip(asking, ids):
            code, reply = asker.hear()[1:]
            view = wire.decode(wire.decode(reply)[2][-1])
            self.assertEqual((code, wire.number(view, 1), wire.decode(view[18][-1])), (wire.OK, task_id, {2: [body]}))

    def ask_content(self, task_id, count):
        """Asks `count` times for a content on the hanging disk. Some questions are answered BUSY, the others wait. Returns the
        connections.
        """
        asking = []
        for number in range(count):
            if number % self.ASKED_OF_ONE == 0:
                asker = self.dial()
            asker.tell(wire.GET, [(1, [(1, task_id)]), (2, 1)])
            asking.append(asker)
            time.sleep(0.005)
        return asking

    def crowd(self, size, count):
        """Requests `count` times a content of `size` bytes from the hanging disk. Meanwhile the broker must accept a schedule
        with a long payload, one with a short payload, an ack and a heartbeat. Returns how many requests were answered BUSY.
        """
        body = b"x" * size
        task_id = self.schedule("far", "key", 3_600_000, body)
        self.schedule("bare", "in flight")
        session, lane = self.consume("bare")
        task, = wire.tasks(lane.receive())
        self.wait_indexed()
        self.hold()
        asking = self.ask_content(task_id, count)
        self.fault.wait_fired(1)
        self.commit(self.ack(task))
        self.assertEqual(session.heartbeat(), wire.OK)
        self.schedule("far", "long", 3_600_000, b"y" * self.LONG)
        self.schedule("bare", "another")
        self.assertEqual(len(wire.tasks(lane.receive(ANSWER_S))), 1)
        self.fault.disarm()
        busy = 0
        for asker in asking:
            code, reply = asker.hear()[1:]
            self.assertIn(code, (wire.OK, wire.BUSY))
            busy += code == wire.BUSY
            if code == wire.OK:
                view = wire.decode(wire.decode(reply)[2][-1])
                self.assertEqual(wire.decode(view[18][-1]), {2: [body]})
        return busy

    # CALM-1, CAP-1
    def test_who_reads_long_contents_leaves_room_for_who_writes(self):
        """Requests 36 MB of contents. The broker reads at most 32 MiB of contents at once: half of its memory for requests
        stays free for writes.
        """
        self.assertIn(self.crowd(self.LONG, 40), range(1, 20))

    # CALM-1, CAP-1
    def test_who_reads_short_contents_leaves_room_for_who_writes(self):
        """Requests for short contents may use at most half of the 256 request contexts (broker/shell/door/rpc.h). Their size
        in bytes does not matter.
        """
        self.assertIn(self.crowd(400, 210), range(210 - 128, 210 - 32))

    def report(self, took_s):
        print(f"# a heartbeat, an ack, a schedule and its delivery beside reads that hang: {took_s * 1000:.1f} ms")


class Full(Cold):
    arguments = ("--segment-size", "64MiB")  # segments are so large that no commit of 1 MiB is answered BUSY while the next segment is made
    OUT_BYTES_MAX = 32 << 20  # broker/shell/threads/delivery_sender.h

    # CAP-1
    def test_what_is_under_way_is_bounded(self):
        size, count = 1 << 20, 48
        for number in range(count):
            self.schedule(f"q{number}", "", 0, bytes(size))
        self.wait_indexed()
        self.hold()
        lanes = [self.consume(f"q{number}")[1] for number in range(count)]
        leased = self.settled_leases()
        self.assertLessEqual(leased, self.OUT_BYTES_MAX // size + 1)
        self.assertGreaterEqual(leased, self.OUT_BYTES_MAX // size - 1)
        idle_s = self.processor_s()
        time.sleep(1)
        self.assertLess(self.processor_s() - idle_s, 0.3)  # the waiting broker does not use the processor
        self.schedule("other")
        self.fault.disarm()
        for lane in lanes:
            self.assertEqual(len(wire.tasks(lane.receive(30))), 1)

    def settled_leases(self):
        before, count = -1, 0
        while count != before:
            time.sleep(0.3)
            before, count = count, sum(wire.number(queue, 5) for queue in self.stats()[0].values())
        return count

    def processor_s(self):
        with open(f"/proc/{self.broker.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100


# TRUE-1
class Late(Cold):
    FURTHER_THAN_A_READ = 8192  # broker/engine/outgoing_read.c: OUTGOING_GAP_MAX
    REST_S = 1.1  # a little longer than the 1 s after which broker/core may give a lane to another session

    def tasks(self, lane):
        """Returns the tasks of the next message that has tasks. Ignores messages without tasks (lanes.c)."""
        tasks = []
        while not tasks:
            tasks = wire.tasks(lane.receive())
        return tasks

    # TRUE-1
    def test_a_session_that_came_back_to_its_lane_gets_a_task_once(self):
        task_id = self.schedule("q", "", 0, b"body")
        self.wait_indexed()
        self.hold()
        session, first = self.consume("q")
        self.fault.wait_fired(1)
        lanes = [session.lane]
        while len(lanes) < 2 or session.lane != lanes[0]:
            self.assertLess(len(lanes), 5)
            time.sleep(self.REST_S)
            session = Session(self.dial(), ["q"], resume=session.secret)
            lanes.append(session.lane)
            lane = session.dial()
            self.sockets.append(lane)
            self.fault.wait_fired(len(lanes))
        first.close()
        self.fault.disarm()
        task, = self.tasks(lane)
        self.assertEqual(wire.number(task, 1), task_id)
        with self.assertRaises(TimeoutError, msg="the delivery that the session had not waited for left too"):
            while not wire.tasks(lane.receive(1)):
                pass
        self.commit(self.ack(task))

    # TRUE-1, FENCE-1
    def test_a_task_whose_lease_is_over_does_not_leave(self):
        self.schedule("q", "", 0, b"body")
        self.wait_indexed()
        self.hold()
        session, lane = self.consume("q", lease_ms=2000)
        self.fault.wait_fired(1)
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            self.assertEqual(session.heartbeat(), wire.OK)
            time.sleep(0.2)
        harness.wait_until("the lease is over", lambda: wire.number(self.stats()[0]["q"], 5) == 0, 10)
        self.fault.disarm()
        self.assertEqual(session.heartbeat(), wire.OK)
        tasks = self.tasks(lane)
        self.assertEqual(wire.number(tasks[0], 5), 2)  # the second attempt; its token is valid, the first one's is not
        self.commit(self.ack(tasks[0]))

    # AUDIT-1
    def test_what_was_erased_meanwhile_does_not_leave(self):
        ids = []
        for body in (b"secret", b"public", b"public"):
            ids.append(self.schedule("q", "", 0, body))
            self.schedule("between", "", 0, bytes(self.FURTHER_THAN_A_READ))
        self.wait_indexed()
        self.hold(2, 2)  # the first read succeeds, the second one hangs
        _, lane = self.consume("q")
        self.fault.wait_fired(1)
        self.assertIn("tarry-cold", self.fault.hit)
        self.commit([(2, [(1, [(1, ids[0])]), (2, 1)])])  # cancels the task, although it is in flight
        reads = self.fault.matched
        self.commit([(12, [(1, [(1, ids[0])]), (2, "asked for")])])
        harness.wait_until("the eraser has looked at the frame", lambda: self.fault.matched > reads + 2, 30)
        time.sleep(0.5)  # gives the redaction time to erase too early; it must wait for the running read
        self.fault.disarm()
        message = lane.receive()
        self.assertNotIn(b"secret", message)
        self.assertEqual([wire.number(task, 1) for task in wire.tasks(message)], ids[1:])


class Stopping(Cold):
    DRAIN_S = 3  # broker/shell/threads/core_thread.c: DRAIN_MAX_MS

    def redact_while_it_stops(self):
        """Stops the broker while it searches the contents for a redaction. Returns the reply (None: no reply), and how long
        after the stop it came.
        """
        self.hold()
        before = self.fault.fired
        redaction = [(12, [(1, [(1, self.task)]), (2, "law")])]
        self.rpc.tell(wire.COMMIT, wire.commit(self.producer, self.sequence + 1, [redaction]))
        self.fault.wait_fired(before + 1)
        self.assertIn("tarry-locator", self.fault.hit)
        since = time.monotonic()
        self.broker.process.send_signal(signal.SIGTERM)
        other = self.dial()
        while other.ask(wire.STATS, [])[0] != wire.STOPPING:
            pass
        with self.assertRaises(TimeoutError):
            self.rpc.receive(0.3)
        self.fault.disarm()
        try:
            heard = self.rpc.hear()[1]
        except ConnectionError:
            heard = None
        took_s = time.monotonic() - since
        self.assertEqual(self.broker.process.wait(60), 0)
        return heard, took_s

    def test_a_stop_waits_for_what_is_under_way(self):
        """A request that the broker has received gets a reply before the broker ends, even if the broker still reads the
        task's history at the stop. The broker waits for at most DRAIN_MAX_MS.
        """
        took_s = self.DRAIN_S
        while took_s >= self.DRAIN_S:  # repeats if the whole machine was paused, because the measured time is invalid then
            if not self.broker.is_running():
                self.broker.start()
                self.rpc = self.dial()
            self.task = self.schedule("q", "", 3_600_000, b"secret")
            self.wait_indexed()
            heard, took_s = self.redact_while_it_stops()
        self.assertEqual(heard, wire.STOPPING)


if __name__ == "__main__":
    harness.main()
