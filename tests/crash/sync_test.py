"""sync_test.py: a sync of the log hangs, or fails (F-5). No message leaves the broker before the records on which the message
depends are durable (LOG-1). Clients learn the truth about what may be on the disk (LOG-4).

A test with SIGKILL cannot show LOG-1, because the page cache survives the process. Here a sync hangs, and meanwhile the
broker must send no message that depends on the sync.
"""
import glob
import os
import select
import shutil
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
import wire  # noqa: E402
from fault import FOR_EVER, Fault  # noqa: E402
from harness import Case  # noqa: E402
from life import STORAGE  # noqa: E402
from wire import Connects, Session  # noqa: E402

QUIET_S = 0.6  # time in s in which no message may leave; a message that does not wait for the sync leaves within a millisecond
SHARE_OF_REQUESTS = 8 << 20  # share of --memory 64 MiB for requests: broker/shell/process/config.h
PLACES, PLACES_RESERVED = 256, 64  # broker/shell/door/rpc.h
UNDONE_WAIT_S = 20  # time limit in s; less than a lease of 30 s


class Synced(Connects, Case):
    autostart = False
    what, how = "log.fdatasync", "hold"

    def setUp(self):
        super().setUp()
        self.fault = Fault(self.directory, self.broker.data, self.what, self.how)
        self.addCleanup(self.fault.close)
        self.broker.env.update(self.fault.env())
        self.broker.start()

    def tearDown(self):
        self.fault.disarm()
        super().tearDown()

    def schedule(self, rpc, producer, sequence, *arguments):
        return rpc.tell(wire.COMMIT, wire.commit(producer, sequence, [wire.schedule(*arguments)]))


class Held(Synced):
    def hold_next(self):
        """Makes the next sync of the log hang. A sync that hangs now continues."""
        number = (self.fault.first if self.fault.fired else self.fault.matched) + 1
        self.fault.first = number
        self.fault.arm(number, number)

    def wait_idle(self):
        """Waits until all syncs have ended, including that of the seal (LOG-5). So the next sync belongs to the test's
        request.
        """
        before = -1
        while before != self.fault.matched:
            before = self.fault.matched
            time.sleep(QUIET_S / 2)

    def wait_held(self, count=1):
        self.fault.wait_fired(count)

    def is_read(self):
        """Waits until the broker has read everything from its sockets."""
        with open(f"/proc/{self.broker.process.pid}/net/tcp", encoding="ascii") as file:
            for line in file:
                fields = line.split()
                if fields[1].endswith(f":{self.broker.port:04X}") and fields[4].split(":")[1].strip("0"):
                    return False
        return True

    def assert_silent(self, peer):
        with self.assertRaises(TimeoutError, msg="something left before it was durable (LOG-1)"):
            peer.receive(QUIET_S)


class Alone(Held):
    def test_f5_an_answer_waits_for_its_sync(self):
        """F-5, LOG-1"""
        rpc = self.rpc()
        producer = rpc.hello()
        self.wait_idle()
        self.hold_next()
        self.schedule(rpc, producer, 1, "q", "k", 3_600_000)
        self.wait_held()
        self.assert_silent(rpc)
        self.fault.disarm()
        self.assertEqual(rpc.hear()[1], wire.OK)

    def test_f5_a_delivery_waits_for_the_sync_of_its_lease(self):
        """F-5, LOG-1"""
        rpc, other = self.rpc(), self.rpc()
        producer = rpc.hello()
        session = Session(rpc, ["q"])
        lane = session.dial()
        self.sockets.append(lane)
        self.schedule(other, producer, 1, "q", "k", 4000, b"body")
        self.assertEqual(other.hear()[1], wire.OK)
        self.wait_idle()
        self.hold_next()
        self.wait_held()  # the task becomes due, and its lease is synced
        self.assert_silent(lane)
        self.fault.disarm()
        self.assertEqual(len(wire.tasks(lane.receive())), 1)


    def test_f19_a_delivery_that_never_left_does_not_count(self):
        """F-19, TRUE-1: the lane is closed before the lease is durable, so no consumer has seen the task. The replies say so
        at once.
        """
        rpc, other = self.rpc(), self.rpc()
        producer = rpc.hello()
        session = Session(rpc, ["q"])
        lane = session.dial()
        self.schedule(other, producer, 1, "q", "k", 4000, b"body")
        self.assertEqual(other.hear()[1], wire.OK)
        self.wait_idle()
        self.hold_next()
        self.wait_held()
        lane.close()
        time.sleep(QUIET_S)  # by now the broker has noticed; otherwise the task is in the kernel's buffer, and counts
        self.fault.disarm()

        def is_given_back():
            task = self.broker.one("get", "q", "k")
            return (task["state"], task["deliveries"]) == ("ready", 0)
        harness.wait_until("the delivery is undone", is_given_back, UNDONE_WAIT_S)


class Crowd(Held):
    """F-37, CAP-1: no reply leaves while the disk hangs. When the memory for requests is used up, further requests are refused
    at once with a code that allows a retry.
    """

    arguments = ("--memory", "64MiB")

    def judge(self, count, body, fields_of):
        """Sends `count` requests, each from its own producer. While the broker releases no reply, it accepts some of them, whose replies wait, and refuses the others.
        """
        first, peers = self.rpc(), [self.rpc() for _ in range(count)]
        producers = [peer.hello() for peer in peers]
        producer = first.hello()
        self.wait_idle()
        self.hold_next()
        self.schedule(first, producer, 1, "q", "", 3_600_000)
        self.wait_held()
        for peer, producer in zip(peers, producers):
            peer.tell(body, fields_of(producer))
        harness.wait_until("all have been read", self.is_read, 30)
        time.sleep(QUIET_S)
        answered = set(select.select([peer.peer for peer in peers], [], [], 0)[0])
        codes = [peer.hear()[1] for peer in peers if peer.peer in answered]
        self.assertEqual(set(codes), {wire.BUSY}, f"{len(codes)} answers of {count} while the disk hangs")
        self.fault.disarm()
        self.assertEqual(first.hear()[1], wire.OK)
        codes += [peer.hear()[1] for peer in peers if peer.peer not in answered]
        self.assertEqual(set(codes), {wire.OK, wire.BUSY})
        return codes.count(wire.OK)

    def judge_commits(self, count, size):
        return self.judge(count, wire.COMMIT, lambda producer: wire.commit(producer, 1, [wire.schedule("q", "", 3_600_000, bytes(size))]))

    def test_f37_large_requests(self):
        """Each request uses four times its packed size of the memory for requests, because it is unpacked."""
        self.assertLessEqual(self.judge_commits(60, 100_000) * 100_000 * 4, SHARE_OF_REQUESTS)

    def test_f37_very_many_requests(self):
        """Some request contexts (PLACES_RESERVED) are reserved for requests that are never refused."""
        self.assertLessEqual(self.judge_commits(240, 10), PLACES - PLACES_RESERVED)

    def test_f20_requests_that_are_large_once_they_are_unpacked(self):
        """F-20: unpacking 250 KB of small numbers, as the end of a session may contain, takes eight times as much memory."""
        small = wire.varint(3 << 3 | 2) + wire.varint(250_000) + b"\1" * 250_000
        self.assertLessEqual(self.judge(60, wire.UNSUBSCRIBE, lambda producer: small) * 250_000 * 8, SHARE_OF_REQUESTS)


class Lone(Held):
    """The thread that serves the port handles a call that comes alone (broker/shell/threads/lone.h). The data directory is in
    memory, so that the disk is fast even on a busy machine.
    """

    CALLS, GROUPS = 20, 50  # number of calls in a group; greatest number of groups

    def make_broker(self, *arguments, data=None, listen=None):
        memory = tempfile.mkdtemp(prefix="tarry-lone-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, memory)
        return super().make_broker(*arguments, data=os.path.join(memory, "data"), listen=listen)

    def sleeps(self, name):
        """Returns how often the broker's thread of that name has gone to sleep."""
        for status in glob.glob(f"/proc/{self.broker.process.pid}/task/*/status"):
            with open(status, encoding="ascii") as file:
                fields = dict(line.split(":", 1) for line in file)
            if fields["Name"].strip() == name:
                return int(fields["voluntary_ctxt_switches"])
        raise AssertionError(f"no thread {name}")

    def call(self, rpc, producer, sequence):
        def is_taken():  # a new log's next segment may not be ready yet
            commit = wire.commit(producer, sequence, [wire.schedule("q", f"k{sequence}", 3_600_000)], sequence)
            return rpc.ask(wire.COMMIT, commit)[0] == wire.OK
        harness.wait_until("there is room", is_taken, 30)

    def test_a_lone_call_wakes_no_other_thread(self):
        """At least one group of calls must pass without waking another thread. On a busy machine the broker's threads are
        late, and a call that meets a running thread does not count.
        """
        rpc = self.rpc()
        producer = rpc.hello()
        for group in range(self.GROUPS):
            before = self.sleeps("tarry-sync"), self.sleeps("tarry-core")
            for number in range(self.CALLS):
                self.call(rpc, producer, 1 + group * self.CALLS + number)
            woken = [self.sleeps(name) - slept for name, slept in zip(("tarry-sync", "tarry-core"), before)]
            if max(woken) < self.CALLS // 2:
                return
        self.fail(f"in none of {self.GROUPS} groups of {self.CALLS} calls: the sync thread and the core slept {woken} times in the last one")

    def test_f5_the_port_is_served_while_a_lone_calls_sync_hangs(self):
        rpc, other = self.rpc(), self.rpc()
        producer = rpc.hello()
        self.call(rpc, producer, 1)
        self.wait_idle()
        asleep = self.sleeps("tarry-sync")
        self.hold_next()
        self.schedule(rpc, producer, 2, "q", "k2", 3_600_000)
        self.wait_held()
        self.assertEqual(self.sleeps("tarry-sync"), asleep)  # the sync thread did not sleep and wake for these calls
        with urllib.request.urlopen(f"http://127.0.0.1:{self.broker.port}/healthz", timeout=30) as page:
            self.assertEqual(page.status, 200)
        other.tell(wire.COMMIT, wire.commit(producer, 3, [wire.schedule("q", "k3", 3_600_000)]))
        harness.wait_until("it has been read", self.is_read, 30)
        self.assert_silent(rpc)
        self.assert_silent(other)
        self.fault.disarm()
        self.assertEqual(rpc.hear()[1], wire.OK)
        self.assertEqual(other.hear()[1], wire.OK)
        self.call(rpc, producer, 4)


class Late(Held):
    """F-5, TIME-2: the disk hangs until the core waits for it. A request that arrived before its deadline counts as in time,
    although the core handles it after the deadline. The deadlines are the end of a lease and a consumer's silence limit.
    """

    BATCHES = 16  # number of batches that wait for the disk before the core also waits: broker/shell/queues/batch.h
    LEASE_MS = 2000

    # TIME-2
    def test_f5_what_came_in_time_counts_after_the_disk_hung(self):
        rpc, asker, heart = self.rpc(), self.rpc(), self.rpc()
        producer = rpc.hello()
        session = Session(rpc, ["q"], lease_ms=self.LEASE_MS)  # the lease equals the silence limit
        lane = session.dial()
        self.sockets.append(lane)
        self.schedule(rpc, producer, 1, "q", "k")
        self.assertEqual(rpc.hear()[1], wire.OK)
        task, = wire.tasks(lane.receive())
        self.wait_idle()
        self.assertEqual(session.heartbeat(), wire.OK)
        self.hold_next()
        others = [self.rpc() for _ in range(2 * self.BATCHES)]
        for number, other in enumerate(others):
            self.schedule(other, producer, 2 + number, "q", "", 3_600_000)
            time.sleep(0.02)  # ensures that each request has its own batch
        self.wait_held()
        ack = [(4, [(1, wire.number(task, 1)), (2, task[7][-1])])]
        asker.tell(wire.COMMIT, wire.commit(producer, 60, [ack], 1))
        heart.tell(wire.HEARTBEAT, [(1, session.id)])
        time.sleep(self.LEASE_MS / 1000 + 0.5)  # the lease's deadline and the consumer's silence limit pass while the disk hangs
        self.fault.disarm()
        code, reply = asker.hear()[1:]
        self.assertEqual((code, wire.results(reply)[0].get(1, [wire.OK])[-1]), (wire.OK, wire.OK))
        self.assertEqual(heart.hear()[1], wire.OK)


class Room(Held):
    """F-4, CAP-1: the disk is slow to make the log's next segment. Meanwhile new tasks are refused, and no other request waits
    for the segment.
    """

    what = "log.posix_fallocate"
    arguments = ("--segment-size", "1MiB")

    # F-4
    def test_f4_nobody_waits_for_the_next_segment(self):
        rpc = self.rpc()
        producer = rpc.hello()
        session = Session(rpc, ["q"])
        lane = session.dial()
        self.sockets.append(lane)
        self.schedule(rpc, producer, 1, "q", "k")
        self.assertEqual(rpc.hear()[1], wire.OK)
        task, = wire.tasks(lane.receive())
        self.fault.arm(self.fault.matched + 1, FOR_EVER)
        code, sequence = wire.OK, 1
        while code == wire.OK:
            self.assertLess(sequence, 12)
            sequence += 1
            self.schedule(rpc, producer, sequence, "far", "", 3_600_000, bytes(100_000))
            code = rpc.hear()[1]
        self.assertEqual((code, "try again in a moment" in rpc.sentence), (wire.BUSY, True), rpc.sentence)
        self.fault.wait_fired(1)
        ack = [(4, [(1, wire.number(task, 1)), (2, task[7][-1])])]
        self.assertEqual(rpc.ask(wire.COMMIT, wire.commit(producer, sequence + 1, [ack], 1))[0], wire.OK)
        self.assertEqual(session.heartbeat(), wire.OK)
        self.fault.disarm()

        def is_taken():
            self.schedule(rpc, producer, sequence, "far", "", 3_600_000, bytes(100_000))
            return rpc.hear()[1] == wire.OK
        harness.wait_until("there is room again", is_taken, 30)


class Beside(Held):
    """F-5, LOG-1: a request that appends nothing shares a group commit with one that does. It waits for the sync of the group
    commit, because it may depend on the other request.
    """

    def setUp(self):
        super().setUp()
        self.asker, self.writer = self.rpc(), self.rpc()
        self.producer = self.asker.hello()
        code, reply = self.asker.ask(wire.COMMIT, self.first())
        self.assertEqual(code, wire.OK)
        self.task = wire.number(wire.results(reply)[0], 3)

    def first(self):
        return wire.commit(self.producer, 1, [wire.schedule("q", "k", 3_600_000, b"body")])

    def judge(self, body, fields):
        """Sends the query after a commit whose own sync hangs, and checks that the query waits for the sync."""
        self.hold_next()
        self.schedule(self.writer, self.producer, 2, "q", "x", 3_600_000)
        self.wait_held()  # while a group commit is running, the following requests wait for the next one, in this order
        self.schedule(self.writer, self.producer, 3, "q", "y", 3_600_000)
        # from here on, a request of `self.asker` comes after the commit of task y
        harness.wait_until("the commit is appended in memory", self.is_read, 30)
        self.asker.tell(body, fields)
        with self.assertRaises(TimeoutError):
            self.asker.receive(QUIET_S)  # the request has arrived, and waits for the sync that is running
        self.hold_next()
        self.wait_held(2)
        self.assert_silent(self.asker)
        self.fault.disarm()
        self.assertEqual(self.asker.hear()[1], wire.OK)

    def test_f5_the_answer_to_a_repeated_commit(self):
        self.judge(wire.COMMIT, self.first())

    def test_f5_a_task_with_its_content(self):
        self.judge(wire.GET, [(1, [(1, self.task)]), (2, 1)])

    def test_f5_statistics(self):
        self.judge(wire.STATS, [])


class Failed(Synced):
    """LOG-4: the process ends after it has replied FAILED, because the commit may be on the disk. BUSY ("nothing was decided")
    would be wrong: the client might then repeat the commit under another sequence.
    """

    how = "EIO"

    def test_f5_a_commit_whose_sync_failed_is_unknown(self):
        rpc = self.rpc()
        producer = rpc.hello()
        self.fault.arm(self.fault.matched + 1, FOR_EVER)
        self.schedule(rpc, producer, 1, "q", "k", 3_600_000)
        self.assertEqual(rpc.hear()[1], wire.FAILED)
        self.assertEqual(self.broker.process.wait(30), STORAGE)


if __name__ == "__main__":
    harness.main()
