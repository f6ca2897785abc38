"""pair_disk_test.py: without a coordinator, a node returns without its disk, and it is unknown what that disk had acknowledged
(F-29)."""
import shutil

import harness
import pair
from pair_modes_test import IN_SYNC, status
from ports import free_port

NEW_DISK = "has a different disk than the one that this node was in sync with"


class Case(pair.Case):
    coordinated = False
    arguments = ("--failover-after", "1s")

    def setUp(self):
        """Both nodes have the same single task, and know that they are in sync."""
        super().setUp()
        self.a.start()
        self.b.start()
        self.wait_log(self.a, "event=leading")
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_pending(self.b, 1)
        self.wait_for("the follower knows", lambda: status(self.b).get(IN_SYNC))

    def says(self, broker, words):
        """Checks that the node's status names the problem, and that the tool exits with 1."""
        self.wait_for(words, lambda: words in (broker.tarry("status").one["problem"] or ""))
        self.assertEqual(broker.tarry("status").status, 1)

    def both_in_sync(self):
        self.wait_for("in sync", lambda: self.a.tarry("status").status == 0 and self.b.tarry("status").status == 0)

    def lose_disk(self, broker):
        shutil.rmtree(broker.data)
        if "--peer" in broker.arguments:
            broker.arguments[broker.arguments.index("--peer")] = "--follow"


class Disks(Case):
    def setUp(self):
        super().setUp()
        self.a.kill()
        self.b.kill()

    def check_word(self, good, new):
        """Checks that no node leads before the operator's command, and that the new disk has the task afterwards."""
        good.start()
        new.start()
        self.says(good, NEW_DISK)
        self.says(new, "does not know this node's disk")
        refused = new.refused("promote", "--peer-is-stopped").err
        self.assertIn("not in sync", refused)
        self.assertEqual([broker.tarry("status").one["role"] for broker in (good, new)], ["looking", "looking"])
        good.ok("promote", "--peer-is-stopped")
        self.wait_pending(new, 1)
        self.both_in_sync()
        self.assertEqual(self.pending(good), 1)
        good.kill()
        new.ok("promote", "--peer-is-stopped")
        new.ok("schedule", "orders", "--in", "1h")
        good.start()
        self.wait_pending(good, 2)

    def test_the_founders_disk_is_lost(self):  # F-29
        self.lose_disk(self.a)
        self.check_word(self.b, self.a)

    def test_the_followers_disk_is_lost(self):  # F-29
        self.lose_disk(self.b)
        self.check_word(self.a, self.b)

    def test_the_disk_that_was_lost_comes_back(self):
        """Node b starts with a new disk, then with its former disk again. The new disk was never in sync, so no operator's
        command is necessary.
        """
        shutil.move(self.b.data, self.path("b-before"))
        self.a.start()
        self.b.start()
        self.says(self.a, NEW_DISK)
        self.b.kill()
        shutil.rmtree(self.b.data)
        shutil.move(self.path("b-before"), self.b.data)
        self.b.start()
        self.both_in_sync()
        self.assertEqual((self.pending(self.a), self.pending(self.b)), (1, 1))


class Survivors(Case):
    """One node loses its disk while the other node keeps running."""

    def test_the_founders_disk_is_lost_while_its_follower_runs(self):  # F-29
        self.a.kill()
        self.lose_disk(self.a)
        self.a.start()
        self.says(self.b, NEW_DISK)
        self.assertEqual(sum(NEW_DISK in line for line in self.b.log), 1)
        self.assertEqual(self.b.tarry("status").one["role"], "looking")
        self.b.ok("promote", "--peer-is-stopped")
        self.wait_pending(self.a, 1)
        self.both_in_sync()

    def test_the_followers_disk_is_lost_while_its_leader_runs(self):  # F-29
        self.b.kill()
        self.lose_disk(self.b)
        self.b.start()
        self.says(self.b, "makes the pair accept a new disk")
        self.a.ok("promote", "--peer-is-stopped")
        self.wait_pending(self.b, 1)
        self.both_in_sync()

    def test_a_claimer_that_meets_a_new_disk_says_so(self):  # F-29
        """While b was unreachable, node a asked it for its promise and got no answer. Then b returns with a new disk."""
        self.a.kill()
        self.b.kill()
        arguments = list(self.b.arguments)
        self.b.arguments[self.b.arguments.index("--follow") + 1] = f"ws://127.0.0.1:{free_port()}"
        self.b.start()
        self.a.start()
        self.wait_log(self.a, "event=role role=promoting", 2)
        self.b.kill()
        self.lose_disk(self.b)
        self.b.arguments[:] = arguments
        self.b.start()
        self.says(self.a, NEW_DISK)
        self.a.ok("promote", "--peer-is-stopped")
        self.wait_pending(self.b, 1)

    def test_a_restored_leader_is_followed_and_known_from_then_on(self):  # F-29
        """The pair is asynchronous here, so neither node learns that it is in sync."""
        for broker in (self.a, self.b):
            broker.kill()
            broker.arguments += ["--replication", "async"]
        self.a.ok("restore", self.a.data, "--data", self.path("restored"))
        shutil.rmtree(self.a.data)
        shutil.move(self.path("restored"), self.a.data)
        self.a.start()
        self.b.start()
        self.says(self.b, "has a different disk than the one")
        self.a.ok("promote", "--peer-is-stopped")
        self.wait_for("it follows", lambda: self.b.tarry("status").one["role"] == "follower")
        self.a.restart()
        self.wait_for("it leads again", lambda: self.a.tarry("status").one["role"] == "primary")


class SlowDisk(Case):
    def test_a_slow_note_delays_the_start_and_nothing_else(self):
        """A slow write of the hard state delays the pair thread. The core needs the position up to which the index may absorb,
        before the pair thread runs. The core must still start correctly.
        """
        self.b.stop()
        self.slow_note(self.b, 1500)
        self.b.start()
        self.assertGreaterEqual(int(self.b.ready["took_ms"]), 1500)
        self.both_in_sync()


class Runs(Case):
    def test_every_run_has_a_number_on_disk_before_it_takes_part(self):
        """R6: every start of a node has its own run number, by which the pair recognizes a request whose outcome is unknown.
        No node leads here, so only the run number is stored.
        """
        self.a.kill()
        self.b.restart()
        before = self.runs()
        for number in (1, 2):
            self.b.restart()
            self.assertEqual(self.runs(), before + number)

    def runs(self):
        """Returns the number of the node's current run. File format: storage/FORMAT.md."""
        with open(self.b.data + "/pair", "rb") as file:
            return int.from_bytes(file.read()[32:40], "little")


if __name__ == "__main__":
    harness.main()
