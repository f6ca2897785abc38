"""snapshot_test.py: a directory made of the log of one copy and the index of another. If they match, the broker starts and has
all data. If they do not match, it refuses to start, with a message (F-7, F-9, LOG-3).
"""
import json
import os
import shutil

import harness
from harness import Case

POINTS = 5


class Snapshots(Case):
    """Stops the same broker several times, and copies its directory each time."""

    arguments = ("--segment-size", "1MiB")

    def live_a_little(self, name, point):
        """Schedules ten tasks, cancels one of them, moves another."""
        lines = [json.dumps({"queue": "q", "key": f"{name}{point}-{i}", "delay_ms": 3_600_000}) for i in range(10)]
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines))
        self.broker.ok("cancel", "q", f"{name}{point}-3")
        self.broker.ok("move", "q", f"{name}{point}-4", "--in", "2h")

    def copy(self, name):
        """Stops the broker with a complete index, and copies the directory."""
        self.assertEqual(self.broker.stop(), 0)
        shutil.copytree(self.broker.data, self.path(name))
        self.broker.start()

    def mixed(self, log, index):
        """Returns a broker whose directory has the log of one copy and the index of another."""
        data = self.path(f"log-{log}-index-{index}")
        shutil.copytree(self.path(log), data)
        shutil.rmtree(os.path.join(data, "index"))
        shutil.copytree(os.path.join(self.path(index), "index"), os.path.join(data, "index"))
        return self.make_broker(data=data)

    def assert_whole(self, log, index, live):
        broker = self.mixed(log, index).start()
        self.assertEqual(broker.ready["recovered_tasks"], str(live), f"log {log}, index {index}")
        self.assertEqual(broker.queue_stats("q")["pending"], live)
        self.assertEqual(broker.stop(), 0)
        # tarry verify computes the index's digest again from every row, and compares it with the log's.
        self.assertEqual(self.broker.tarry("verify", broker.data).status, 0, f"log {log}, index {index}")

    def assert_refused(self, log, index, sentence):
        broker = self.mixed(log, index).launch()
        broker.is_ready.wait(harness.READY_WAIT_S)
        self.assertFalse(broker.ready, f"log {log} was served under index {index}")
        self.assertEqual(broker.process.wait(harness.READY_WAIT_S), 1)
        broker.reader.join(5)
        broker.wait_logged(sentence)
        self.assertEqual(self.broker.tarry("verify", broker.data).status, 1, f"log {log}, index {index}")

    def test_every_pair_of_points_is_whole_or_refused(self):  # Proves F-7, F-9 and LOG-3.
        for point in range(POINTS):
            self.live_a_little("a", point)
            self.copy(str(point))
        for log in range(POINTS):
            for index in range(POINTS):
                if index <= log:
                    self.assert_whole(str(log), str(index), 9 * (log + 1))
                else:
                    self.assert_refused(str(log), str(index), "the end of the log is lost")

    def branch_off(self):
        """Copies the directory under the name "root", and lets a second broker continue that copy with a different history."""
        self.copy("root")
        self.assertEqual(self.broker.stop(), 0)
        other = self.make_broker(data=self.path("branch-home"))
        shutil.copytree(self.path("root"), other.data)
        return other

    def test_a_branch_of_history_is_not_taken_for_another(self):  # Proves F-7, F-9 and LOG-3.
        self.live_a_little("a", 0)
        other = self.branch_off()
        self.broker.start()
        self.live_a_little("a", 1)
        self.live_a_little("a", 2)
        self.copy("long")
        self.assertEqual(self.broker.stop(), 0)
        self.broker = other.start()
        self.live_a_little("b", 1)
        self.copy("branch")
        self.assert_whole("long", "root", 27)
        self.assert_whole("branch", "root", 18)
        self.assert_refused("long", "branch", "event=refused")

    def test_a_branch_of_the_same_length_is_told_by_its_chain(self):  # Proves F-7, F-9 and LOG-3.
        self.live_a_little("a", 0)
        other = self.branch_off()
        for broker, name in ((self.broker, "one"), (other, "other")):
            self.broker = broker.start()
            self.copy(name)  # the records of a start and a stop have the same sizes in both histories, but different times
        self.assert_whole("one", "one", 9)
        self.assert_refused("one", "other", "do not belong together")


if __name__ == "__main__":
    harness.main()
