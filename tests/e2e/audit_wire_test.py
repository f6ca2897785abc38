"""audit_wire_test.py: handwritten Audit requests: result pages that can be checked, long polls, invalid requests, a log that is
retired meanwhile, and all of it beside working clients. The tool is tested in audit_live_test.py."""
import hashlib
import struct
import threading
import time

import harness
import wire
from wire import Connects, Rpc, number

FRAMES_MAX, SIZE_MAX, WAIT_MAX_MS = 8192, 1 << 20, 10_000  # tarry_limits.h
READS_MAX, WAITS_MAX = 16, 32
HEADER_SIZE = 112
SEAL = b"\2\0"  # a frame's type


class Page:
    """A decoded AuditReply."""

    def __init__(self, reply):
        fields = wire.decode(reply)
        self.frames = [(frame[1][-1], frame.get(2, [b""])[-1]) for frame in map(wire.decode, fields.get(1, []))]
        self.next, self.end, self.gap_to, self.log_start, self.durable = (number(fields, field) for field in range(2, 7))
        self.queues = {number(name, 1): name[2][-1].decode() for name in map(wire.decode, fields.get(7, []))}

    @property
    def positions(self):
        return [struct.unpack_from("<Q", header, 24)[0] for header, _ in self.frames]


class Audits(Connects, harness.Case):
    def page(self, rpc, position=0, **fields):
        return Page(self.right(rpc, position=position, **fields))

    def ask(self, rpc, wait_s=10, **fields):
        return rpc.ask(wire.AUDIT, audit(**fields), wait_s)

    def right(self, rpc, **fields):
        while (answer := self.ask(rpc, **fields))[0] == wire.BUSY:
            time.sleep(0.01)
        self.assertEqual(answer[0], wire.OK, rpc.sentence)
        return answer[1]

    def wrong(self, rpc, words, **fields):
        code, _ = self.ask(rpc, **fields)
        self.assertEqual(code, wire.INVALID, fields)
        self.assertIn(words, rpc.sentence, fields)

    def pages(self, rpc, position=0, **fields):
        while True:
            page = self.page(rpc, position, **fields)
            yield page
            if page.end:
                return
            position = page.next

    def settle_log(self, rpc):
        """Waits for the seal that follows when the log is idle. Returns the end of the log."""
        position, is_sealed = 0, False
        while True:
            page = self.page(rpc, position, wait_ms=1000)
            if page.frames:
                is_sealed = page.frames[-1][0][4:6] == SEAL
            if page.end and is_sealed:
                return page.next
            position = page.next

    def fill(self, count, rpc=None, queue="q", payload=b"", first=0):
        rpc = rpc or self.rpc()
        producer = rpc.hello()
        for sequence in range(1, count + 1):
            ops = [wire.schedule(queue, f"k{first + sequence}", 3_600_000, payload)]
            commit = wire.commit(producer, sequence, ops, oldest=sequence)
            while (code := rpc.ask(wire.COMMIT, commit, 30)[0]) == wire.BUSY:
                time.sleep(0.01)  # segments are small here, and the next one may not be ready
            self.assertEqual(code, wire.OK)


def audit(position=0, at_end=False, from_ms=0, to_ms=0, task=None, frames_max=0, size_max=0, wait_ms=0):
    fields = [(1, position), (2, int(at_end)), (3, from_ms), (4, to_ms), (6, frames_max), (7, size_max), (8, wait_ms)]
    return [field for field in fields if field[1] != 0] + ([(5, task)] if task is not None else [])


def frame_end(header, body):
    position, blob_size = struct.unpack_from("<Q", header, 24)[0], struct.unpack_from("<I", header, 16)[0]
    return position + (HEADER_SIZE + len(body) + blob_size + 7) // 8 * 8


def keys(frame):
    """Returns the keys of the tasks that a frame changes."""
    for record in map(wire.decode, wire.decode(frame[1]).get(1, [])):
        for change in map(wire.decode, record.get(1, []) + record.get(2, [])):  # TaskPut, TaskEnd
            yield wire.decode(change[2][-1])[3][-1]


def chain_of(previous, header, body):
    """Returns the chain hash by storage/FORMAT.md: flags and blob_sum count as 0."""
    return hashlib.blake2b(previous + header[:6] + bytes(2) + header[8:64] + bytes(8) + body, digest_size=32).digest()


class Pages(Audits):
    def test_frames_come_as_they_lie_in_the_log_and_their_chain_can_be_checked(self):
        rpc = self.rpc()
        self.fill(40, payload=b"never told")
        for limits in ({}, {"frames_max": 3}, {"size_max": 1}, {"size_max": 1000}):
            chain, end, count = bytes(32), 4096, 0
            for page in self.pages(rpc, **limits):
                self.assertLessEqual(page.next, page.durable)
                if "frames_max" in limits:
                    self.assertLessEqual(len(page.frames), 3)
                if limits.get("size_max") == 1:
                    self.assertLessEqual(len(page.frames), 1)
                for header, body in page.frames:
                    self.assertEqual(len(header), HEADER_SIZE)
                    self.assertEqual(struct.unpack_from("<I", header, 12)[0], len(body))
                    self.assertEqual(struct.unpack_from("<Q", header, 24)[0], end)
                    chain = chain_of(chain, header, body)
                    self.assertEqual(chain, header[72:104])
                    self.assertNotIn(b"never told", body)
                    end, count = frame_end(header, body), count + 1
                self.assertEqual(page.next, end)
            self.assertGreater(count, 40)
            self.assertEqual(page.next, page.durable)

    def test_every_page_names_the_queues_that_its_records_mention(self):
        rpc = self.rpc()
        for queue in ("one", "two", "three"):
            self.fill(2, queue=queue)
        self.assertEqual(sorted(self.page(rpc).queues.values()), ["one", "three", "two"])
        self.fill(2, queue="four")
        harness.wait_until("the index has all, what is known too", lambda: (now := self.broker.queue_stats(None))["indexed"] == now["appended"], 30)
        self.assertEqual(sorted(self.page(rpc).queues.values()), ["four", "one", "three", "two"])
        names = {}
        for page in self.pages(rpc, frames_max=1):
            names.update(page.queues)
            mentioned = set()
            for _, body in page.frames:
                for record in map(wire.decode, wire.decode(body).get(1, [])):
                    for put in map(wire.decode, record.get(1, [])):  # TaskPut
                        mentioned.add(number(wire.decode(put[2][-1]), 2))
                    mentioned.update(number(wire.decode(put), 1) for put in record.get(3, []))  # QueuePut
            self.assertLessEqual(mentioned, set(page.queues))
        self.assertEqual(sorted(names.values()), ["four", "one", "three", "two"])

    def test_a_task_is_all_that_is_told_if_it_is_all_that_is_asked_for(self):
        rpc = self.rpc()
        self.fill(10)
        moved = self.broker.one("move", "q", "k7", "--in", "2h")
        for task in ([(2, "q"), (3, "k7")], [(1, int(moved["id"]))]):
            told = [frame for page in self.pages(rpc, task=task) for frame in page.frames]
            self.assertEqual([key for frame in told for key in keys(frame)], [b"k7", b"k7"])
        for task in ([(2, "q"), (3, "k11")], [(2, "nobody's"), (3, "k7")], [(1, 1 << 60)]):
            pages = list(self.pages(rpc, task=task))
            self.assertEqual([key for page in pages for frame in page.frames for key in keys(frame)], [])
            self.assertEqual(pages[-1].next, pages[-1].durable)

    def test_times(self):
        rpc = self.rpc()
        everything = self.page(rpc)
        self.fill(3)
        middle_ms = harness.now_ms() + 1
        while harness.now_ms() <= middle_ms:
            time.sleep(0.001)
        self.fill(2, first=3)
        early, late = self.page(rpc, to_ms=middle_ms), self.page(rpc, from_ms=middle_ms)
        self.assertTrue(early.frames and late.frames)
        self.assertEqual(early.frames[:len(everything.frames)], everything.frames)
        self.assertEqual(early.frames + late.frames, self.page(rpc).frames[:len(early.frames) + len(late.frames)])


class Nonsense(Audits):
    def test_what_makes_no_sense_is_refused_with_a_sentence(self):
        rpc = self.rpc()
        self.fill(20)
        self.settle_log(rpc)
        everything = self.page(rpc)
        self.wrong(rpc, "exclude each other", position=4096, at_end=True)
        self.wrong(rpc, "is not the position of a frame", position=8)
        self.wrong(rpc, "is not the position of a frame", position=4097)
        self.wrong(rpc, "frames_max", frames_max=FRAMES_MAX + 1)
        self.wrong(rpc, "size_max", size_max=SIZE_MAX + 1)
        self.wrong(rpc, "wait_ms", wait_ms=WAIT_MAX_MS + 1)
        self.wrong(rpc, "wait_ms", wait_ms=(1 << 64) - 1)
        self.wrong(rpc, "to_ms", from_ms=5, to_ms=5)
        self.wrong(rpc, "give either its id", task=[])
        self.wrong(rpc, "key is empty", task=[(2, "q")])
        self.wrong(rpc, "queue name", task=[(2, "\n"), (3, "k")])
        self.wrong(rpc, "no frame begins at position", position=everything.next + (1 << 40))
        self.wrong(rpc, "no frame begins at position", position=(1 << 64) - 8)
        inside = [position for position in range(4096, everything.next, 8) if position not in everything.positions]
        for position in inside:  # every invalid position
            self.wrong(rpc, "no frame begins at position", position=position)
        self.assertEqual(self.page(rpc, everything.next).positions, [])
        self.assertEqual(self.page(rpc, from_ms=(1 << 64) - 1).frames, [])
        self.assertEqual(self.page(rpc).frames[:len(everything.frames)], everything.frames)

    def test_malformed_ones(self):
        rpc = self.rpc()
        for bytes_ in (b"\xff", b"\x08", b"\x2a\x05", b"\x2a\xff\xff\xff\xff\x0f", b"\x0a\x00" * 5000):
            rpc.tell(wire.AUDIT, [(99, 1)])
            rpc.hear()
            rpc.last_id += 1
            rpc.send(struct.pack(">I", 0x80000000 | rpc.last_id) + wire.encode([(1, 1), (wire.AUDIT, bytes_)]))
            request_id, code, _ = rpc.hear()
            self.assertEqual((request_id, code), (rpc.last_id, wire.INVALID))


class Waits(Audits):
    def test_what_happens_is_told_at_once(self):
        rpc, worker = self.rpc(), self.rpc()
        producer = worker.hello()
        end = self.settle_log(rpc)
        rpc.tell(wire.AUDIT, audit(position=end, wait_ms=10_000))
        before = time.monotonic()
        worker.ask(wire.COMMIT, wire.commit(producer, 1, [wire.schedule("q", "k", 3_600_000)]))
        _, code, reply = rpc.hear(9)
        self.assertLess(time.monotonic() - before, 9)
        page = Page(reply)
        self.assertEqual((code, page.positions[0], list(page.queues.values())), (wire.OK, end, ["q"]))

    def test_a_wait_ends_in_time_with_nothing(self):
        rpc = self.rpc()
        end = self.settle_log(rpc)
        before = time.monotonic()
        page = self.page(rpc, end, wait_ms=500)
        self.assertGreaterEqual(time.monotonic() - before, 0.5)
        self.assertEqual((page.frames, page.next, page.end, page.durable), ([], end, 1, end))

    def test_a_wait_for_one_task_sleeps_through_the_others(self):
        rpc = self.rpc()
        worker = self.rpc()
        producer = worker.hello()
        ops = [wire.schedule(queue, "k", 3_600_000) for queue in ("waited-for", "other")]
        self.assertEqual(worker.ask(wire.COMMIT, wire.commit(producer, 1, ops))[0], wire.OK)
        end = self.settle_log(rpc)
        rpc.tell(wire.AUDIT, audit(position=end, wait_ms=10_000, task=[(2, "waited-for"), (3, "k")]))
        for sequence in range(2, 12):
            ops = [wire.schedule("other", f"k{sequence}", 3_600_000)]
            self.assertEqual(worker.ask(wire.COMMIT, wire.commit(producer, sequence, ops, oldest=sequence))[0], wire.OK)
        cancel = [(2, [(1, [(2, "waited-for"), (3, "k")])])]
        self.assertEqual(worker.ask(wire.COMMIT, wire.commit(producer, 12, [cancel], oldest=12))[0], wire.OK)
        page = Page(rpc.hear(12)[2])
        while not page.frames:  # on a slow disk, the previous long poll may have ended already
            self.assertEqual(page.end, 1)
            page = self.page(rpc, page.next, wait_ms=10_000, wait_s=12, task=[(2, "waited-for"), (3, "k")])
        self.assertEqual([list(keys(frame)) for frame in page.frames], [[b"k"]])

    def test_more_waits_than_there_is_room_for_are_busy_and_acks_go_on(self):
        rpc, worker = self.rpc(), self.rpc()
        session = wire.Session(worker, ["q"])
        self.sockets.append(lane := session.dial())
        end = self.settle_log(rpc)
        busy = 0
        for _ in range(WAITS_MAX + 8):
            rpc.tell(wire.AUDIT, audit(position=end, wait_ms=10_000))
            asked = rpc.tell(wire.AUDIT, audit(frames_max=1))  # asks for few frames, so that the reply comes at once
            while (answer := rpc.hear())[0] != asked:
                self.assertEqual(answer[1], wire.BUSY)
                busy += 1
        while busy < 8:  # replies may come in another order than their requests
            self.assertEqual(rpc.hear()[1], wire.BUSY)
            busy += 1
        flood = self.rpc()
        for _ in range(400):  # more than the broker's contexts for requests
            flood.tell(wire.AUDIT, audit(position=end, wait_ms=10_000))
        self.assertEqual({flood.hear()[1] for _ in range(400)}, {wire.BUSY})
        self.assertEqual(session.heartbeat(), wire.OK)
        self.fill(1)  # wakes all long polls
        waited = [rpc.hear() for _ in range(WAITS_MAX)]
        self.assertEqual({code for _, code, _ in waited}, {wire.OK})
        self.assertTrue(all(Page(reply).positions[0] == end for _, _, reply in waited))
        lane.close()

    def test_a_stop_answers_those_who_wait(self):
        rpc = self.rpc()
        end = self.settle_log(rpc)
        for _ in range(5):
            rpc.tell(wire.AUDIT, audit(position=end, wait_ms=10_000))
        self.page(rpc, frames_max=1)  # the broker serves this request after the five earlier ones, so the five wait for new frames now
        before = time.monotonic()
        stopper = threading.Thread(target=self.broker.stop)
        stopper.start()
        codes = [rpc.hear()[1] for _ in range(5)]
        stopper.join()
        self.assertEqual(set(codes), {wire.STOPPING})
        self.assertLess(time.monotonic() - before, 9)


class Retired(Audits):
    arguments = ("--segment-size", "1MiB", "--retain-log-age", "0s", "--retain-log-size", "1MiB", "--archiving", "no")

    def test_a_position_that_has_gone_is_said_so_and_the_rest_is_told(self):
        rpc = self.rpc()
        first = self.page(rpc, frames_max=1)
        self.fill(60, payload=b"x" * 100_000)
        end = time.monotonic() + 30
        while (page := self.page(rpc, first.next)).gap_to == 0:
            self.assertLess(time.monotonic(), end, "nothing was retired")
            time.sleep(0.05)
        self.assertEqual((page.frames, page.next), ([], page.gap_to))
        self.assertLessEqual(page.log_start, page.gap_to)  # more segments may have been retired while the broker read this result page
        self.assertGreater(page.gap_to, first.next)
        rest = self.page(rpc, page.next)
        if not rest.gap_to:  # the log was not retired further meanwhile
            self.assertEqual(rest.positions[0], page.next)
        self.assertEqual(self.page(rpc, 0).gap_to, 0)  # a request from the oldest existing frame reports no gap


class Harm(Audits):
    arguments = ("--segment-size", "4MiB", "--retain-log-size", "2GiB")

    def crawl(self, failures, counts, stop, **fields):
        """Reads the log from its beginning to its end, repeatedly."""
        try:
            rpc = Rpc(self.broker.port)
            while not stop.is_set():
                for page in self.pages(rpc, wait_s=60, **fields):
                    counts.append(len(page.frames))
                    if stop.is_set():
                        break
            rpc.close()
        except Exception as error:  # the test reports all errors at its end
            failures.append(repr(error))

    def test_commits_deliveries_and_acks_go_on_while_eight_audits_crawl(self):
        worker = self.rpc()
        producer = worker.hello()
        for sequence in range(1, 101):  # 50,000 tasks: a few segments
            ops = [wire.schedule("old", f"k{sequence}-{i}", 3_600_000) for i in range(500)]
            self.assertEqual(worker.ask(wire.COMMIT, wire.commit(producer, sequence, ops, oldest=sequence), 30)[0], wire.OK)
        failures, counts, stop = [], [], threading.Event()
        kinds = ({}, {"frames_max": 7}, {"task": [(2, "old"), (3, "k1-1")]}, {"task": [(1, 5)]})
        crawlers = [threading.Thread(target=self.crawl, args=(failures, counts, stop), kwargs=kinds[i % 4]) for i in range(8)]
        for crawler in crawlers:
            crawler.start()
        try:
            consumer = self.broker.consume("new", "--count", "200")
            for number_ in range(200):
                self.broker_schedule(worker, producer, 101 + number_)
            self.assertEqual(len(consumer.take(200, 60)), 200)
            self.assertEqual(consumer.wait(60), 0)
        finally:
            stop.set()
            for crawler in crawlers:
                crawler.join()
        self.assertEqual(failures, [])
        self.assertGreater(len(counts), 8)
        self.broker.wait_stats("new", acked=200, in_flight=0)

    def broker_schedule(self, worker, producer, sequence):
        code, _ = worker.ask(wire.COMMIT, wire.commit(producer, sequence, [wire.schedule("new", f"k{sequence}")], oldest=sequence), 30)
        self.assertEqual(code, wire.OK)


if __name__ == "__main__":
    harness.main()
