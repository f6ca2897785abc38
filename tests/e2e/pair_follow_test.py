"""A follower copies its leader's log and answers questions; it takes over when the leader dies, and the old one returns."""
import harness
import pair
import wire


class Follow(pair.Case):
    def test_what_is_acknowledged_is_on_the_follower(self):
        self.start_pair()
        for i in range(20):
            self.a.ok("schedule", "orders", "--key", f"k{i}", "--in", "1h")
        self.wait_pending(self.b, 20)
        task = self.b.one("get", "orders", "k7", "--from-follower")
        self.assertEqual((task["state"], task["follower"]), ("pending", True))
        self.assertGreater(task["position"], 0)

    def test_a_follower_refuses_changes_and_says_where_to_go(self):
        self.start_pair()
        with wire.Rpc(self.b.port) as rpc:
            code, _ = rpc.ask(wire.HELLO, [])
            self.assertEqual((code, rpc.primary), (wire.NOT_PRIMARY, self.a.url), rpc.sentence)

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
        self.wait_log(self.a, "event=leading", 1)
        self.assertEqual(self.pending(self.a), 11)

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


if __name__ == "__main__":
    harness.main()
