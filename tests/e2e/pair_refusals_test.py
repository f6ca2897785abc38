"""pair_refusals_test.py: nodes that may not join a pair, and the messages they get: another disk, another history, a copy,
another format."""
import os
import shutil

import harness
import pair
import wire
from peer_proof import PeerKey
from proxy import Proxy

# Field numbers of Follow, FollowReply and PairReply in tarry.proto.
FOLLOW, CLUSTER, MEMBER, NODE, LOG_VERSION, END, CHAIN, URL, SENTENCE = 22, 1, 2, 3, 4, 7, 8, 14, 14
STATUS_CLUSTER, STATUS_DURABLE = 4, 17


class Case(pair.Case):
    def refused(self, broker, sentence):
        """Starts the broker, and checks that it exits with status 1 and this message."""
        broker.launch()
        self.ended(broker, sentence)

    def ended(self, broker, sentence):
        """Checks that the broker exits with status 1 and this message."""
        self.assertEqual(broker.process.wait(pair.WAIT_S), 1, broker.log_text())
        broker.reader.join(5)
        self.assertIn(sentence, " ".join(line for line in broker.log if "event=refused" in line), broker.log_text())

    def stop_pair(self):
        """Stops the follower first; otherwise it would take over."""
        self.b.stop()
        self.a.stop()

    def take_coordinator(self, broker):
        for option in ("--coordinator", "--solo-after"):
            at = broker.arguments.index(option)
            del broker.arguments[at:at + 2]

    def as_follower(self, broker):
        broker.arguments[broker.arguments.index("--peer")] = "--follow"


class Refusals(Case):
    def test_a_follower_with_a_new_disk_is_a_new_member(self):
        """F-29, R5: a new disk does not count as the old one; it gets the leader's whole data."""
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        before = self.record()
        self.b.kill()
        shutil.rmtree(self.b.data)
        self.b.start()
        self.wait_for("another member", lambda: self.record().get("in-sync") == "0 1" and self.record() != before
                      and self.b.ready["member"] in str(self.record()))
        self.wait_pending(self.b, 1)
        self.a.kill()
        self.wait_log(self.b, "event=leading")
        self.assertEqual(self.pending(self.b), 1)

    def test_a_leader_with_a_new_disk_founds_no_second_cluster(self):
        """F-29, R6."""
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.a.kill()
        shutil.rmtree(self.a.data)
        self.refused(self.a, "the coordinator has the record of another cluster at that path")
        self.wait_log(self.b, "event=leading")
        shutil.rmtree(self.a.data)
        self.as_follower(self.a)
        self.a.start()
        self.wait_in_sync()
        self.wait_pending(self.a, 1)

    def test_a_restored_leader_is_another_disk(self):
        """F-29: a leader restored from a backup lacks commits that the pair acknowledged since. It is refused, because it is a
        different disk.
        """
        self.start_pair()
        self.a.ok("backup", self.path("copy"))
        self.a.ok("schedule", "orders", "--in", "1h")
        self.stop_pair()
        shutil.rmtree(self.a.data)
        self.a.url = "ws://127.0.0.1:1"  # no broker listens there
        self.a.ok("restore", self.path("copy"), "--data", self.a.data)
        self.refused(self.a, "names a different disk as the leader's")

    def test_a_leader_that_was_put_back_is_refused(self):
        """F-9 for a pair: the leader's directory is replaced by an older copy. The record says how much was acknowledged, so
        the node is refused.
        """
        self.start_pair()
        self.stop_pair()
        shutil.copytree(self.a.data, self.path("yesterday"))
        self.a.start()
        self.b.start()
        self.wait_in_sync()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.b.kill()
        self.wait_for("alone", lambda: self.record().get("in-sync") == "0")
        self.a.stop()
        shutil.rmtree(self.a.data)
        os.rename(self.path("yesterday"), self.a.data)
        self.refused(self.a, "the log is shorter than what the pair has acknowledged")

    def test_a_deleted_record_does_not_begin_anew(self):
        """F-31b: if the pair made a new record, it would use epochs a second time that are already in its log."""
        self.start_pair()
        self.stop_pair()
        os.remove(self.path("coordinator"))
        for _ in range(2):
            self.a.start()
            self.wait_log(self.a, "the coordinator no longer has this pair's record")
            self.assertEqual(self.a.stop(), 0)
        self.assertFalse(os.path.exists(self.path("coordinator")), "nothing is claimed")
        os.rename(self.a.data, self.path("aside"))
        self.a.url = "ws://127.0.0.1:1"  # no broker listens there
        self.a.ok("restore", self.path("aside"), "--data", self.a.data)
        self.a.start()
        self.b.start()
        self.wait_in_sync()

    def test_a_copy_of_the_leader_and_the_leader_do_not_take_turns(self):
        """F-29: a copied data directory cannot be distinguished from its original. But the nodes detect that both exist, and
        one of them ends.
        """
        self.start_pair()
        self.stop_pair()
        shutil.rmtree(self.b.data)
        shutil.copytree(self.a.data, self.b.data)
        self.a.start()
        self.b.start()
        self.wait_for("one has ended", lambda: not (self.a.is_running() and self.b.is_running()))
        ended = self.a if not self.a.is_running() else self.b
        self.ended(ended, "a copy of this data directory leads")

    def test_one_of_a_pair_does_not_start_alone(self):
        self.start_pair()
        self.stop_pair()
        for options in ([], ["--peer", self.b.listen, "--replication", "none"]):
            self.a.arguments = options
            self.refused(self.a, "belongs to a node of a pair: a single broker on it would acknowledge changes that the other node lacks")
        self.a.arguments = ["--inspect"]
        self.a.start()

    def test_another_format_is_not_followed(self):
        self.start_pair()
        with wire.Rpc(self.a.port) as rpc:
            status = wire.decode(rpc.ask(wire.PAIR, [])[1])
            question = [(CLUSTER, status[STATUS_CLUSTER][0]), (MEMBER, bytes(16)), (NODE, 1), (LOG_VERSION, 99),
                        (END, status[STATUS_DURABLE][0]), (CHAIN, bytes(32)), (URL, self.b.url)]
            _, reply = rpc.ask_as_peer(PeerKey(harness.PEER_KEY), FOLLOW, question)
            self.assertIn(b"write different versions of the log", wire.decode(reply)[SENTENCE][0])

    def test_a_pair_whose_coordinator_is_taken_away_waits_for_a_word(self):
        """The operator removes the coordinator. Only the coordinator's record said which node had served alone, so the nodes
        wait for an operator's command.
        """
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_pending(self.b, 1)
        self.a.kill()
        self.wait_log(self.b, "event=leading")
        self.b.ok("schedule", "orders", "--in", "1h")
        self.b.kill()
        for broker in (self.a, self.b):
            self.take_coordinator(broker)
            broker.start()
        for broker in (self.a, self.b):
            self.wait_for("it is said", lambda known=broker: "both nodes have served alone, or had a coordinator" in
                          (known.tarry("status").one["problem"] or ""))
        self.a.kill()
        shutil.rmtree(self.a.data)
        self.as_follower(self.a)
        self.a.start()
        self.wait_pending(self.a, 2)

    def test_one_has_a_coordinator_and_the_other_has_none(self):
        self.start_pair()
        self.b.stop()
        self.take_coordinator(self.b)
        self.refused(self.b, "one of the two nodes has the option coordinator and the other does not")


class AnotherThere(Case):
    """Another broker listens at the leader's address. If nothing listened there, the follower would take over at once."""

    arguments = ("--failover-after", "15s", "--solo-after", "60s")

    def setUp(self):
        super().setUp()
        self.proxy = Proxy(int(self.a.listen.rpartition(":")[2]))
        self.addCleanup(self.proxy.close)
        self.brokers.remove(self.b)
        self.b = self.make_broker("--follow", f"ws://127.0.0.1:{self.proxy.port}", "--coordinator",
                                  f"file://{self.directory}/coordinator", data=self.path("b"), listen=self.b.listen)
        self.start_pair()

    def test_a_stranger_at_the_leaders_address_keeps_nobody_from_taking_over(self):
        """F-29: the broker at the leader's address leads another cluster, and refuses the follower."""
        self.a.ok("schedule", "orders", "--in", "1h")
        self.a.kill()
        stranger = harness.Broker(self.path("stranger"), "--peer", self.b.listen, "--coordinator",
                                  f"file://{self.directory}/another", listen=self.a.listen)
        self.brokers.append(stranger.start())
        self.wait_log(self.b, "event=not_followed")
        self.wait_log(self.b, "event=leading")
        self.assertEqual(self.pending(self.b), 1)


class ByHand(Case):
    """A pair without a coordinator."""

    coordinated = False

    def test_a_copy_of_the_leader_is_no_follower(self):
        """F-29."""
        self.a.start()
        self.a.stop()
        shutil.copytree(self.a.data, self.b.data)
        self.a.start()
        self.b.launch()
        self.wait_for("one has ended", lambda: not (self.a.is_running() and self.b.is_running()))
        first, second = (self.b, self.a) if self.a.is_running() else (self.a, self.b)
        self.ended(first, "both brokers have the same node id: one of the data directories is a copy")
        second.kill()  # the second broker may also detect the copy, and end
        self.brokers.remove(second)


if __name__ == "__main__":
    harness.main()
