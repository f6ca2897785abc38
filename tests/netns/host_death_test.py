"""host_death_test.py: the host of a pair's leader dies and sends nothing more, neither a reset nor a refusal. Hosts are
network namespaces. ZooKeeper has its default tickTime, so the leader's session lasts at least 4 s after the death. `./dev
bench accept_host_death` measures the failover.
"""
import sys
import time
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from netns import missing  # noqa: E402
from scene import COORDINATORS, NAMES, Scene, zookeeper  # noqa: E402

DELIVERY_WAIT_S = 4  # 2.2 s measured in the worst case; 5 s if a client waits in vain for a reply
PRESENCE = "/tarry/pair/present-0"
LACK = missing()
if LACK:
    print(f"# SKIPPED: {LACK}", flush=True)


class Untold:
    def tell(self, line):
        pass


class HostDeath:
    coordinator = None

    def setUp(self):
        if lack := COORDINATORS[self.coordinator][0]():
            self.skipTest(lack)
        self.addCleanup(setattr, zookeeper, "TICK_MS", zookeeper.TICK_MS)
        zookeeper.TICK_MS = 2000
        self.scene = Scene(Untold(), options=(), coordinator=self.coordinator)
        self.addCleanup(self.scene.close)
        for name in NAMES:
            self.scene.launch(name)
        self.assertEqual(self.scene.roles(), ("a", "b"))

    def follower_said(self, word):
        return any(word in line for line in self.scene.brokers["b"].log)

    def die(self):
        self.scene.network.isolate("a")
        self.scene.kill("a")
        return time.monotonic()

    def test_f10_a_connected_consumer_hears_from_the_other_node(self):
        consumer = self.scene.clients.consume("work")
        self.scene.clients.ok("schedule", "work", "--in", "0s")
        consumer.next(harness.ANSWER_WAIT_S)
        self.scene.clients.ok("schedule", "work", "--in", "1s")
        died = self.die()
        delivery = consumer.next(60)
        took_s = time.monotonic() - died
        self.assertEqual(delivery["token"].split("-")[0], "2")
        self.assertLess(took_s, DELIVERY_WAIT_S)
        return took_s


@unittest.skipIf(LACK, LACK)
class AtZooKeeper(HostDeath, unittest.TestCase):
    coordinator = "zookeeper"

    def test_f31c_a_dead_leader_that_the_coordinator_calls_present_is_not_waited_for(self):
        self.die()
        harness.wait_until("b leads", lambda: self.follower_said("event=role role=leading"), 60)
        self.assertIsNotNone(self.scene.server.read_entry(PRESENCE))
        self.assertTrue(self.follower_said("event=leader_absent"))

    def test_f31c_a_healthy_leader_answers_at_the_coordinator(self):
        """Only the link between the nodes is cut, for three times the time in which a leader must answer."""
        before = len(self.scene.brokers["a"].log)
        self.scene.cut("a", "b")
        self.scene.wait("a serves alone", lambda: any("event=serves_alone" in line for line in self.scene.brokers["a"].log[before:]))
        self.assertFalse(self.follower_said("event=leader_absent"))
        self.scene.heal("a", "b")
        self.assertEqual(self.scene.roles(), ("a", "b"))


@unittest.skipIf(LACK, LACK)
class AtEtcd(HostDeath, unittest.TestCase):
    coordinator = "etcd"


if __name__ == "__main__":
    harness.main()
