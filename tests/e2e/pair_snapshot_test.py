"""pair_snapshot_test.py: a follower needs frames that the leader's log no longer has, so it fetches a snapshot. Checks which
data a snapshot must not replace, and what the follower waits for.
"""
import json
import os

import harness
import pair
import wire
from pair_modes_test import DURABLE, IN_SYNC, status
from proxy import Proxy


class Case(pair.Case):
    """A leader that retires segments soon after they are in its index."""

    arguments = (*pair.Case.arguments, "--segment-size", "1MiB", "--retain-log-size", "1MiB", "--archiving", "no")

    def fill(self, leader, mebibytes=6, retired=2):
        """Fills `mebibytes` of the leader's log; waits until the beginning is retired."""
        before = self.count(leader, "event=segment_retired")
        lines = "\n".join(json.dumps({"queue": "bulk", "delay_ms": 3600000, "body": "x" * 500_000}) for _ in range(2 * mebibytes))
        leader.ok("schedule", "--from", self.path("bulk.ndjson", lines + "\n"))
        self.wait_for("segments retired", lambda: self.count(leader, "event=segment_retired") >= before + retired)

    def count(self, broker, text):
        return sum(text in line for line in broker.log)

    def word_of(self, broker, text):
        """Checks that the node's status names the problem."""
        self.wait_for(text, lambda: text in (broker.tarry("status").one["problem"] or ""))


class ByHand(Case):
    coordinated = False

    def start_pair(self):
        self.a.start()
        self.b.start()
        self.wait_log(self.a, "event=leading")
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_for("the follower knows", lambda: status(self.b).get(IN_SYNC))

    def leave_behind(self):
        """Stops `b`. Then `a` serves alone, and retires segments that `b` lacks."""
        self.start_pair()
        self.b.kill()
        self.a.restart()  # after its restart, a primary does not wait for the follower until the follower connects
        self.a.ok("promote", "--peer-is-stopped")
        self.fill(self.a)

    def want(self, broker):
        """Makes the node's directory look as if the node had requested a snapshot and been killed before the snapshot began."""
        with open(os.path.join(broker.data, "snapshot.wanted"), "w", encoding="ascii"):
            pass

    def test_who_has_served_alone_keeps_what_it_has(self):  # R8
        """R8: node a served alone, and then node b was promoted by force. A snapshot of b must not replace commits that only a
        acknowledged.
        """
        self.start_pair()
        self.b.kill()
        self.a.ok("promote", "--peer-is-stopped")
        self.a.ok("schedule", "orders", "--in", "1h")
        self.a.stop()
        self.b.start()
        self.b.ok("promote", "--force")
        self.a.start()
        self.word_of(self.a, "this node has served alone, and so has the other one")
        self.fill(self.b)  # the leader retires segments, as it keeps them only for a node that follows
        self.a.restart()
        self.word_of(self.a, "this node has served alone, and so has the other one")
        self.assertEqual(self.pending(self.a), 2)
        self.assertEqual(self.count(self.a, "snapshot"), 0)

    def test_nothing_is_given_up_for_another_clusters_data(self):  # F-29
        """The leader lost its disk, and was set up again without --follow, so it leads a new cluster. The follower's data may
        be the only copy left, so it is not replaced.
        """
        self.leave_behind()
        self.a.kill()
        self.want(self.b)
        self.b.launch()
        self.wait_log(self.b, "event=snapshot_waits peer=" + self.a.listen + ' reason="Connection refused"')
        os.rename(self.a.data, self.path("aside"))
        self.a.start()
        self.wait_log(self.b, "the peer belongs to another cluster")
        self.a.kill()
        os.rename(self.a.data, self.path("stranger"))
        os.rename(self.path("aside"), self.a.data)
        self.a.start()
        self.b.wait_ready()
        self.assertEqual(self.count(self.b, "event=snapshot_taken"), 1)
        self.wait_for("all of it", lambda: (self.pending(self.b), self.pending(self.b, "bulk")) == (1, 12))

    def test_what_an_earlier_one_left_is_not_taken_for_a_snapshot(self):
        """A node was killed after it had a complete snapshot; only the snapshot's empty folder is left."""
        self.leave_behind()
        os.mkdir(os.path.join(self.b.data, "snapshot"))
        self.b.start()
        self.wait_for("all of it", lambda: self.pending(self.b, "bulk") == 12)
        self.assertEqual(self.count(self.b, "event=snapshot_taken"), 1)
        self.wait_for("none of the snapshot's files is open", lambda: not self.open_below(self.b, "snapshot"))

    @staticmethod
    def open_below(broker, folder):
        """Returns the names that the broker's open files below the folder had."""
        descriptors, found = f"/proc/{broker.process.pid}/fd", []
        for name in os.listdir(descriptors):
            try:
                found.append(os.readlink(os.path.join(descriptors, name)))
            except FileNotFoundError:
                pass  # the file was closed meanwhile
        return [path for path in found if path.startswith(os.path.join(broker.data, folder) + "/")]

    def test_who_waits_for_a_snapshot_that_never_comes_says_how_to_go_on_without(self):
        self.leave_behind()
        self.a.kill()
        self.want(self.b)
        self.b.launch()
        self.wait_log(self.b, "event=snapshot_waits")
        wanted = os.path.join(self.b.data, "snapshot.wanted")
        self.assertIn(f"delete {wanted}", next(line for line in self.b.log if "event=snapshot_waits" in line))
        self.assertEqual(self.b.stop(), 0)
        self.b.wait_logged("is not complete; the next start fetches it again")
        os.remove(wanted)
        self.b.start()
        self.b.ok("promote", "--force")
        self.assertEqual(self.pending(self.b), 1)

    def test_a_follower_that_cannot_store_it_costs_its_leader_nothing(self):  # F-28
        """The follower cannot store the snapshot and restarts again and again. The leader must not keep its log and a copy of
        its index for a minute after each attempt.
        """
        self.leave_behind()
        self.want(self.b)
        self.b.prefix = ["bash", "-c", "trap '' XFSZ; ulimit -f 1200; exec \"$0\" \"$@\""]
        for _ in range(3):
            self.b.launch()
            self.assertEqual(self.b.process.wait(pair.WAIT_S), 1, self.b.log_text())
            self.b.reader.join(5)
            self.assertIn("the snapshot cannot be written: File too large", self.b.log_text(1))
        self.assertEqual(self.count(self.a, "event=backup_began"), 3)
        self.wait_log(self.a, "event=backup_ended", 3)
        self.fill(self.a)
        self.b.prefix = []
        self.b.start()
        self.wait_log(self.b, "event=snapshot_taken")

    def test_what_comes_after_a_snapshot_is_kept_for_who_takes_it(self):
        """While the follower fetches the snapshot, clients write much. The leader must keep these frames until the follower
        has requested the frames after the snapshot.
        """
        proxy = Proxy(int(self.a.listen.rpartition(":")[2]))
        self.addCleanup(proxy.close)
        self.leave_behind()
        self.b.arguments[self.b.arguments.index("--follow") + 1] = proxy.url
        self.slow_note(self.b, 1500)  # the hard state is written slowly, so that the start after the snapshot also takes long
        proxy.delay_s = 0.08
        self.b.launch()
        self.wait_log(self.b, "event=snapshot_begun")
        self.fill(self.a, 12, 0)
        self.assertEqual(self.count(self.b, "event=snapshot_taken"), 0)
        self.wait_log(self.a, "event=backup_ended", wait_s=60)
        proxy.delay_s = 0
        self.a.ok("schedule", "orders", "--in", "1h")
        self.b.wait_ready()
        self.wait_for("all of it", lambda: self.pending(self.b, "bulk") == 36)
        self.assertEqual(self.count(self.b, "event=snapshot_begun"), 1)
        self.fill(self.a)  # the leader retires these segments afterwards, as before

    def test_a_promotion_goes_on_after_the_epochs_of_a_snapshot(self):
        """The snapshot contains several epochs. Node b is killed before it has durably promised any of them."""
        self.a.start()
        self.a.ok("promote", "--force")
        self.fill(self.a)
        for count in (2, 3):
            self.a.restart()
            self.a.ok("promote", "--peer-is-stopped")
            self.wait_log(self.a, "event=leading", count)
        self.slow_note(self.b, 1500)
        self.b.launch()
        self.wait_log(self.b, "event=snapshot_taken")
        self.a.kill()
        self.b.wait_ready()
        self.assertEqual(self.b.one("promote", "--force", "--timeout", "20s")["result"], "promoted")
        self.assertEqual(self.pending(self.b, "bulk"), 12)


class Tail(Case):
    def test_a_tail_that_nobody_can_compare_any_more_is_put_aside(self):  # R8, F-25
        """The old leader has a tail that was never acknowledged. When it returns as a follower, the new leader no longer has
        the frames to compare with the tail, so the old leader must get a snapshot.
        """
        self.a.arguments += ["--solo-after", "60s"]
        self.start_pair()
        with wire.Rpc(self.a.port) as rpc:
            producer = rpc.hello()
            self.freeze(self.b)
            for sequence in (1, 2):  # the stopped follower may still read the first frame later
                before = status(self.a)[DURABLE][0]
                rpc.tell(wire.COMMIT, wire.commit(producer, sequence, [wire.schedule("orders", delay_ms=3600000)]))
                self.wait_for("it is written", lambda known=before: status(self.a)[DURABLE][0] > known)
            self.a.kill()
        self.thaw(self.b)
        self.wait_log(self.b, "event=leading")
        self.fill(self.b)
        self.a.start()
        self.wait_in_sync()
        self.assertEqual(self.count(self.a, "event=snapshot_taken"), 1)
        self.assertEqual(self.a.stop(), 0)
        [tail] = self.b.one("verify", self.a.data)["quarantined"]
        facts = self.b.ok("audit", "--data", self.a.data, "--quarantined", tail["name"])
        self.assertIn("scheduled", [fact["kind"] for fact in facts])


if __name__ == "__main__":
    harness.main(watches_locks=True)
