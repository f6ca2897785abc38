"""etcd_partition_test.py: three members of etcd on separate hosts, and a network partition. The member that both nodes of the
pair use is cut off from the other two. Hosts are network namespaces. A ledger outside the product checks the results (rounds.py).
a and b are the nodes, m1 to m3 the members of etcd. The tests make two partitions:

1. Only m1 is cut off. Both nodes continue with m2 or m3, and neither takes over. Then the link between the nodes is cut too. The
   leader changes the pair's record, and stays present, through another member.
2. a and m1 are cut off from b, the clients, m2 and m3. b takes over, because a minority of etcd does not confirm a leader. Both
   nodes have stored everything that a had acknowledged.
"""
import sys
import time
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from netns import missing  # noqa: E402
from rounds import Chapter, Rounds, Story  # noqa: E402
from scene import NAMES, RECORD, Scene, etcd  # noqa: E402

MEMBERS = ("m1", "m2", "m3")
FIRST = MEMBERS[0]
PACE_S = 0.2
LACK = missing() or etcd.missing()
if LACK:
    print(f"# SKIPPED: {LACK}", flush=True)


class ThreeMembers(Scene):
    """A pair whose nodes both use m1: when they started they could reach no other member."""

    servers = MEMBERS

    def _start_coordinator(self):
        places = [{"address": self.network.address(name), "prefix": self.network.prefix(name)} for name in MEMBERS]
        self.server = etcd.Ensemble(places)
        return self.server.url()

    def begin(self):
        links = [(name, member) for name in NAMES for member in MEMBERS[1:]]
        for link in links:
            self.cut(*link)
        for name in NAMES:
            self.launch(name)
        roles = self.roles()
        for link in links:
            self.heal(*link)
        return roles

    def part(self, *side):
        """Separates these hosts from all others."""
        for name in side:
            for other in self.network.names:
                if other not in side:
                    self.cut(name, other)

    def heal_all(self):
        self.story.tell("heal everything")
        self.network.heal()

    def asked(self, name):
        """Returns the members to which that node has a connection."""
        host = self.network.holders[name]
        return {member for member in MEMBERS if host.run("ss", "-Htn", "state", "established", "dst", self.network.address(member))}

    def record(self):
        """Returns the record that the majority has."""
        return self.server.servers[-1].read_entry(RECORD)

    def has_said(self, name, word):
        return any(word in line for line in self.brokers[name].log)


@unittest.skipIf(LACK, LACK)
class Partition(unittest.TestCase):
    def setUp(self):
        self.story = Story(None)
        self.scene = ThreeMembers(self.story, options=(), coordinator="etcd")
        self.addCleanup(self.scene.close)
        self.assertEqual(self.scene.begin(), ("a", "b"))
        self.chapter = Chapter(self.scene, 1, 1, PACE_S)
        self.chapter.wait_back()

    def a_member_without_a_majority_is_left(self):
        self.assertEqual([self.scene.asked(name) for name in NAMES], [{FIRST}] * 2)
        self.scene.part(FIRST)
        self.scene.wait("both ask others", lambda: all(self.scene.asked(name) - {FIRST} for name in NAMES))
        self.chapter.wait_back()
        self.assertIn("in-sync 0 1", self.scene.record())

    def the_leader_changes_the_record_by_way_of_others(self):
        self.scene.cut(*NAMES)
        self.scene.wait("a serves alone", lambda: self.scene.has_said("a", "event=serves_alone"))
        self.chapter.wait_back()
        self.assertNotIn("in-sync 0 1", self.scene.record())
        self.assertFalse(self.scene.has_said("b", "role=leading"))
        self.scene.heal_all()
        self.assertEqual(self.scene.roles(), ("a", "b"))
        self.assertEqual(self.scene.epoch(), 1)

    def the_minority_keeps_nobody_in_office(self):
        """Returns the seconds until b leads."""
        parted = time.monotonic()
        self.scene.part("a", FIRST)
        self.scene.wait("b leads", lambda: self.scene.has_said("b", "event=role role=leading"))
        took_s = time.monotonic() - parted
        self.chapter.wait_back()
        self.scene.heal_all()
        self.assertEqual(self.scene.roles(), ("b", "a"))
        self.assertEqual(self.scene.epoch(), 2)
        return took_s

    def test_f30_f15_a_member_of_etcd_without_a_majority(self):
        try:
            self.a_member_without_a_majority_is_left()
            self.the_leader_changes_the_record_by_way_of_others()
            took_s = self.the_minority_keeps_nobody_in_office()
            print(f"# b led {took_s:.1f} s after it and the clients were cut off from a and {FIRST}", flush=True)
            wrong = Rounds(self.scene, 1, 1, (), PACE_S).end(self.chapter)
        except BaseException:
            print(self.story.told(), flush=True)
            raise
        self.assertEqual(wrong, [])
        self.assertGreater(len(self.chapter.ledger.schedules), 20)


if __name__ == "__main__":
    harness.main()
