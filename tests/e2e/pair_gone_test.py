"""pair_gone_test.py: a leader whose process has died is known to be gone, whatever time a silent one is given; a probe is
answered at once, and acknowledges nothing."""
import time

import harness
import pair
import peer_proof
import wire

FOLLOW, VERDICT, EPOCH = 22, 1, 2
NOT_LEADING = 3
FORMAT_VERSION = 1


class Gone(pair.Case):
    """Silence would take a minute."""

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

    def test_f13_one_that_stands_still_refuses_nobody(self):
        self.freeze(self.a)
        time.sleep(2)  # the kernel takes connections for it
        self.thaw(self.a)
        self.assertEqual(self.a.one("schedule", "orders", "--in", "1h")["result"], "scheduled")
        self.assertFalse(any("event=leader_gone" in line for line in self.b.log), self.b.log_text())

    def test_f31a_a_probe_is_answered_at_once_and_acknowledges_nothing(self):
        """A question would wait for something to say, here for ten seconds."""
        told = self.b.one("status", "--broker", self.b.url)
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
        self.assertEqual({key: after[key] for key in ("epoch", "appended", "durable", "lag_bytes")},
                         {key: leads[key] for key in ("epoch", "appended", "durable", "lag_bytes")})


if __name__ == "__main__":
    harness.main()
