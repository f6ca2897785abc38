"""pair_gone_test.py: the death of a node's process is detected at once, even if a node may be silent for a long time. A probe
is answered at once, and acknowledges nothing.
"""
import time

import harness
import pair
import peer_proof
import wire
from proxy import Proxy

FOLLOW, VERDICT, EPOCH = 22, 1, 2
NOT_LEADING = 3
FORMAT_VERSION = 1


class Gone(pair.Case):
    """A node that is only silent is given up after a minute, so every faster result comes from the detected death."""

    arguments = ("--failover-after", "60s", "--solo-after", "60s")

    def setUp(self):
        super().setUp()
        self.start_pair()

    def test_f10_a_process_that_has_died_is_followed_at_once(self):
        self.a.ok("schedule", "orders", "--in", "1h")
        self.a.kill()
        self.wait_role(self.b, "leading")
        self.assertTrue(any("event=leader_gone" in line for line in self.b.log), self.b.log_text())
        self.assertEqual(self.record()["in-sync"], "1")

    def test_f27_a_follower_whose_process_has_died_is_not_waited_for(self):
        self.b.kill()
        self.assertEqual(self.a.one("schedule", "orders", "--in", "1h")["result"], "scheduled")
        self.assertTrue(any("event=follower_gone" in line for line in self.a.log), self.a.log_text())
        self.assertEqual(self.record()["in-sync"], "0")
        self.b.start()
        self.wait_in_sync()

    def test_f13_one_that_stands_still_refuses_nobody(self):
        self.freeze(self.a)
        time.sleep(2)  # the process is stopped, but the kernel still accepts connections for it
        self.thaw(self.a)
        self.assertEqual(self.a.one("schedule", "orders", "--in", "1h")["result"], "scheduled")
        self.assertFalse(any("event=leader_gone" in line for line in self.b.log), self.b.log_text())

    def test_f31a_a_probe_is_answered_at_once_and_acknowledges_nothing(self):
        """Unlike a probe, a question of the follower would wait up to ten seconds for something to report."""
        told = self.wait_quiet()
        self.freeze(self.b)
        leads = self.a.one("status")
        key = peer_proof.PeerKey(harness.PEER_KEY)
        probe = [(1, bytes.fromhex(told["cluster"])), (2, bytes.fromhex(told["member"])), (3, told["node"]), (4, FORMAT_VERSION),
                 (5, told["epoch"]), (6, 1 << 40), (7, told["durable"] + (1 << 20)), (10, 1 << 40), (14, told["url"]),
                 (15, 10000), (23, 1), (25, 1)]
        with wire.Rpc(self.a.port) as rpc:
            before = time.monotonic()
            code, reply = rpc.ask_as_peer(key, FOLLOW, probe)
            self.assertLess(time.monotonic() - before, 5)
        said = wire.decode(reply)
        self.assertEqual((code, said[VERDICT], said[EPOCH]), (wire.OK, [NOT_LEADING], [told["epoch"]]))
        after = self.a.one("status")
        for key in ("epoch", "appended", "durable"):
            self.assertEqual(after[key], leads[key])
        self.assertEqual(after["peer"]["lag_bytes"], leads["peer"]["lag_bytes"])


class Cut(pair.Case):
    """F-31c. Only the connection between the two nodes is cut: both reach the coordinator, where the leader is present."""

    arguments = ("--failover-after", "500ms", "--solo-after", "1s")

    def setUp(self):
        super().setUp()
        self.proxy = Proxy(int(self.a.listen.rpartition(":")[2]))
        self.addCleanup(self.proxy.close)
        self.brokers.remove(self.b)
        self.b = self.make_broker("--follow", f"ws://127.0.0.1:{self.proxy.port}", "--coordinator",
                                  f"file://{self.directory}/coordinator", data=self.path("b"), listen=self.b.listen)
        self.start_pair()

    def test_a_healthy_leader_that_is_present_goes_on_alone(self):
        epoch = self.record()["epoch"]
        self.proxy.hold()
        self.assertEqual(self.a.one("schedule", "orders", "--in", "1h")["result"], "scheduled")
        self.assertEqual((self.record()["in-sync"], self.record()["epoch"]), ("0", epoch))
        self.proxy.cut()
        self.proxy.heal()
        self.wait_in_sync()
        self.assertEqual(self.record()["epoch"], epoch)
        self.assertFalse(any("event=promoted" in line for line in self.b.log), self.b.log_text())


class StrictCut(Cut):
    """Strict mode: nothing is acknowledged without the follower, which does not take over either; an operator must be told."""

    arguments = ("--failover-after", "500ms", "--solo-after", "never")

    def test_a_healthy_leader_that_is_present_goes_on_alone(self):
        self.proxy.hold()
        self.wait_for("the follower says so", lambda: "the network between the two nodes is interrupted" in str(
            self.b.tarry("status", "--broker", self.b.url).one["problem"]))
        self.proxy.cut()
        self.proxy.heal()
        self.wait_for("all is well", lambda: self.b.tarry("status", "--broker", self.b.url).one["problem"] is None)
        self.assertEqual(self.a.one("schedule", "orders", "--in", "1h")["result"], "scheduled")
        self.assertFalse(any("event=promoted" in line for line in self.b.log), self.b.log_text())


if __name__ == "__main__":
    harness.main()
