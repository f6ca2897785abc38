"""pair_follow_test.py: a follower copies its leader's log and answers questions; it takes over when the leader dies, and the old
leader returns as the follower."""
import os

import harness
import pair
import wire
from peer_proof import PeerKey


class Follow(pair.Case):
    def test_what_is_acknowledged_is_on_the_follower(self):
        self.start_pair()
        for i in range(20):
            self.a.ok("schedule", "orders", "--key", f"k{i}", "--in", "1h")
        self.wait_pending(self.b, 20)
        task = self.b.one("get", "orders", "k7", "--from-follower")
        self.assertEqual((task["state"], task["follower"]), ("pending", True))
        self.assertGreater(int(task["position"]), 0)

    def test_a_follower_refuses_changes_and_says_where_to_go(self):
        self.start_pair()
        with wire.Rpc(self.b.port) as rpc:
            code, _ = rpc.ask(wire.HELLO, [])
            self.assertEqual((code, rpc.primary), (wire.NOT_PRIMARY, self.a.url), rpc.sentence)
            code, _ = rpc.ask(wire.STATS, [])
            self.assertEqual((code, rpc.primary, rpc.reply[5]), (wire.OK, self.a.url, [1]), rpc.sentence)

    def test_it_takes_over_and_the_old_one_returns(self):
        self.start_pair()
        for i in range(10):
            self.a.ok("schedule", "orders", "--key", f"k{i}", "--in", "1h")
        self.a.kill()
        self.wait_log(self.b, "event=leading")
        self.assertEqual(self.pending(self.b), 10)
        self.b.ok("schedule", "orders", "--key", "new", "--in", "1h")
        self.a.start()
        self.wait_in_sync()
        self.wait_pending(self.a, 11)
        self.b.kill()
        self.wait_log(self.a, "event=leading", 2)
        self.assertEqual(self.pending(self.a), 11)

    def test_a_leader_whose_clock_fell_behind_is_noted(self):  # TIME-1
        """A follower may have to restart, and then lead without a further message from the leader. For that it stores the
        leader's steady time, relative to this boot of the machine, on its own disk.
        """
        self.start_pair()
        self.a.ok("schedule", "orders", "--key", "one", "--in", "1h")
        steady_ns = self.boot_note(self.a)
        self.assertLessEqual(self.boot_note(self.b), steady_ns)
        self.freeze(self.b)  # node b is stopped, so that it does not take over
        self.a.kill()
        with open(os.path.join(self.a.data, "boot"), "r+", encoding="ascii") as file:
            fallen = file.read().replace(str(steady_ns), str(steady_ns - 3600 * 1_000_000_000))
            file.seek(0)
            file.write(fallen)
        self.a.start()
        self.assertLess(self.boot_note(self.a), steady_ns)
        self.wait_log(self.a, "event=leading", 2)
        self.thaw(self.b)
        self.wait_in_sync()
        self.a.ok("schedule", "orders", "--key", "two", "--in", "1h")
        self.assertLessEqual(self.boot_note(self.b), self.boot_note(self.a))

    def boot_note(self, broker):
        """Returns the value in the node's file `boot`: logical steady time, in ns, when the clock BOOTTIME was zero."""
        with open(os.path.join(broker.data, "boot"), encoding="ascii") as file:
            return int(file.read().split()[-1])

    def test_a_stopped_leader_that_wakes_up_starts_again_as_follower(self):  # F-13, F-26
        self.start_pair()
        self.a.ok("schedule", "orders", "--key", "one", "--in", "1h")
        self.freeze(self.a)
        self.wait_log(self.b, "event=leading")
        self.b.ok("schedule", "orders", "--key", "two", "--in", "1h")
        self.thaw(self.a)
        self.wait_log(self.a, "event=deposed")
        self.wait_log(self.a, "event=ready", 2)
        self.wait_in_sync()
        self.wait_pending(self.a, 2)


class Returner(pair.Case):
    """Sends, message by message, the requests of a node whose log may have nothing in common with the leader's."""

    TASKS = 20_000
    LOG_VERSION = 1  # FORMAT_VERSION
    CUT_TO = 2       # FollowReply.Verdict

    def ask(self, rpc, status, end):
        """Sends a follow request as node 1, whose log ends at `end`; the leader has no frame that ends there. Returns the
        reply's verdict, and the position to which node 1 must cut its log.
        """
        follow = [(1, bytes.fromhex(status["cluster"])), (2, b"m" * 16), (3, 1), (4, self.LOG_VERSION), (5, status["epoch"]), (6, 1),
                  (7, end), (8, b"c" * 32), (9, 1), (14, "ws://127.0.0.1:1"), (15, 0), (16, 1), (17, 4096), (23, 1)]
        code, body = rpc.ask_as_peer(PeerKey(harness.PEER_KEY), wire.FOLLOW, follow)
        self.assertEqual(code, wire.OK, rpc.sentence)
        reply = wire.decode(body)
        return reply.get(1, [0])[0], reply.get(9, [0])[0]

    def read_size(self):
        with open(f"/proc/{self.a.process.pid}/io", encoding="ascii") as file:
            return int(file.readline().split()[1])

    def test_the_common_point_is_sought_once(self):  # F-26
        """The leader reads its log to find the last point that both logs have. For a long log this takes longer than a
        follower waits for a reply. If every follow request began the search again, the follower could never join.
        """
        self.a.start()
        lines = "\n".join(f'{{"queue": "q", "delay_ms": 3600000, "key": "k{i}"}}' for i in range(self.TASKS))
        self.a.ok("schedule", "--from", self.path("tasks.ndjson", lines + "\n"), wait_s=120)
        self.a.ok("schedule", "q", "--in", "1h")
        status = self.a.tarry("status").one
        with wire.Rpc(self.a.port) as rpc:
            before = self.read_size()
            first = self.ask(rpc, status, status["durable"] - 8)
            once = self.read_size() - before
            self.assertEqual(first[0], self.CUT_TO)
            self.assertGreater(once, 1_000_000)
            for _ in range(10):
                self.assertEqual(self.ask(rpc, status, status["durable"] - 8), first)
            self.assertLess(self.read_size() - before, 2 * once)
            self.assertEqual(self.ask(rpc, status, status["durable"] - 16)[0], self.CUT_TO)


if __name__ == "__main__":
    harness.main(watches_locks=True)
