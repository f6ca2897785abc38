"""damage_test.py: a byte of the log changes on the disk under a running broker (F-2): no client ever gets the damaged data."""
import glob
import os

import harness
import wire

STORAGE = 4  # exit status of tarryd after a disk error
NEEDLE = b"a-needle-in-the-log"


class Rot(harness.Case):
    """F-2: a content or a stored reply is compared with its checksum at each read."""

    def is_indexed(self):
        stats = self.broker.queue_stats(None)
        return stats["indexed"] == stats["appended"]

    def rot(self):
        """Flips one bit of the searched text in the log, after the index has read the frame. Otherwise the index would detect
        the damage first.
        """
        harness.wait_until("the index has read the log", self.is_indexed, 30)
        for path in glob.glob(os.path.join(self.broker.data, "log", "*")):
            with open(path, "r+b") as file:
                at = file.read().find(NEEDLE)
                if at >= 0:
                    file.seek(at)
                    file.write(bytes([NEEDLE[0] ^ 1]))
                    return
        self.fail("the needle is not in the log")

    def ends_with(self, event):
        self.assertEqual(self.broker.process.wait(30), STORAGE)
        self.broker.reader.join(5)
        self.assertTrue(any(f"event={event}" in line for line in self.broker.log), self.broker.log_text())

    def test_a_content_that_rots_is_not_handed_out(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "1h", "--body", NEEDLE.decode())
        self.assertEqual(self.broker.one("get", "q", "k")["body"], NEEDLE.decode())
        self.rot()
        with wire.Rpc(self.broker.port) as rpc:
            rpc.tell(wire.GET, [(1, [(2, "q"), (3, b"k")]), (2, 1)])
            self.assertTrue(rpc.is_closed_by_peer(30), "a damaged content was handed out")
        self.ends_with("content_unreadable")

    def test_a_content_that_rots_is_not_delivered(self):
        with wire.Rpc(self.broker.port) as rpc:
            producer = rpc.hello()
            rpc.ask(wire.COMMIT, wire.commit(producer, 1, [wire.schedule("q", "k", 3_600_000, NEEDLE)]))
            self.rot()
            lane = wire.Session(rpc, ["q"]).dial()
            rpc.tell(wire.COMMIT, wire.commit(producer, 2, [[(3, [(1, [(2, "q"), (3, b"k")]), (2, [(2, 0)])])]]))
            with lane:
                self.assertTrue(lane.is_closed_by_peer(30), "a damaged content was delivered")
        self.ends_with("content_unreadable")

    def test_an_answer_that_rots_is_not_repeated(self):
        with wire.Rpc(self.broker.port) as rpc:
            body = wire.commit(rpc.hello(), 1, [wire.schedule("q", NEEDLE, 3_600_000)])
            self.assertEqual(rpc.ask(wire.COMMIT, body)[0], wire.OK)
            self.rot()
            rpc.tell(wire.COMMIT, body)
            self.assertTrue(rpc.is_closed_by_peer(30), "a damaged answer was repeated")
        self.ends_with("repeat_unreadable")


class Cut(harness.Case):
    """F-8: the index file is truncated under a running broker: reading a missing page of it raises a signal."""

    def test_the_last_line_says_what_to_do(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "1h")
        for path in glob.glob(os.path.join(self.broker.data, "index", "data.mdb")):
            os.truncate(path, 0)
        self.broker.tarry("list", "q", "--timeout", "1s")
        self.assertEqual(self.broker.process.wait(30), STORAGE)
        self.broker.reader.join(5)
        self.assertTrue(self.broker.is_line_whole)
        self.assertRegex(self.broker.log[-1], r"^event=index_unreadable reason=\"the kernel cannot read a memory-mapped file: .*; restore the data directory from a copy\" action=exit$")


if __name__ == "__main__":
    harness.main()
