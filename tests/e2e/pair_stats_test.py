"""pair_stats_test.py: how far a follower is behind, in `tarry status`, `tarry stats` and /metrics of both nodes; the
comparison of the two states (F-31); and a follower whose state differs from the leader's.
"""
import subprocess
import urllib.request

import harness
import pair

FRAME_HEADER_SIZE = 112


def metrics(broker):
    """Returns name → value of the pair's metrics."""
    with urllib.request.urlopen(broker.url.replace("ws://", "http://") + "/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    pairs = (line.split(" ") for line in lines if line.startswith("tarry_pair_"))
    told = {name.removeprefix("tarry_pair_"): float(value) for name, value in pairs}
    if told:
        told["lag_ms"] = round(told["lag_seconds"] * 1000)
    return told


def stats(broker):
    """Returns the pair's part of the statistics."""
    return broker.one("stats", "--from-follower")["broker"].get("pair")


class Lag(pair.Case):
    """An asynchronous follower, whose lag is not limited."""

    arguments = (*pair.Case.arguments, "--replication", "async")
    COUNT = 5

    def fall_behind(self):
        """Freezes the follower and schedules a task. Returns the position up to which the follower has everything."""
        self.a.start()
        self.b.start()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_pending(self.b, 1)
        def has_all():
            status = self.status(self.a)
            return status["peer"]["lag_bytes"] == 0 and status["appended"]
        before = self.wait_for("nothing is missing", has_all)
        self.freeze(self.b)
        # The primary sends the first commit as its reply to the follower's waiting request, so the follower may read
        # this commit when it continues. The primary cannot send the other commits.
        for _ in range(self.COUNT):
            self.a.ok("schedule", "orders", "--in", "1h")
        return before

    def status(self, broker):
        return broker.one("status")

    def lags(self, broker):
        """Returns (frames, bytes, milliseconds) of lag, as reported by each of the three sources."""
        told, counted, scraped = self.status(broker)["peer"], stats(broker), metrics(broker)
        return [tuple(source[f"lag_{unit}"] for unit in ("frames", "bytes", "ms")) for source in (told, counted, scraped)]

    def check_behind(self, had):
        before_ms = 0
        for frames, lag_bytes, lag_ms in self.lags(self.a):
            # The follower may already have the first commit, so the lag may be one frame less than the number of
            # commits. One run of the tool may make several frames, so the lag may also be greater.
            self.assertGreaterEqual(frames, self.COUNT - 1)
            self.assertLessEqual(lag_bytes, self.status(self.a)["appended"] - had)
            self.assertGreaterEqual(lag_bytes, frames * FRAME_HEADER_SIZE)
            self.assertGreaterEqual(lag_ms, before_ms, "it grows while nothing happens")
            before_ms = lag_ms
        self.wait_for("the lag in time grows", lambda: self.status(self.a)["peer"]["lag_ms"] > before_ms + 200)

    def test_both_say_how_far_the_follower_is_behind(self):
        """F-27."""
        self.check_behind(self.fall_behind())
        self.thaw(self.b)
        self.wait_pending(self.b, 1 + self.COUNT)
        for broker in self.brokers:
            self.wait_for("it has caught up", lambda of=broker: self.lags(of) == [(0, 0, 0)] * 3)

    def test_who_is_gone_for_good_falls_behind_all_the_same(self):
        """F-27: the lag grows although the dead follower no longer reports."""
        self.a.start()
        self.b.start()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_pending(self.b, 1)
        self.wait_for("it has all", lambda: self.lags(self.a) == [(0, 0, 0)] * 3)
        self.b.kill()
        self.a.ok("schedule", "orders", "--in", "1h")
        for frames, lag_bytes, _ in self.lags(self.a):
            self.assertGreater(frames, 0)
            self.assertGreater(lag_bytes, frames * FRAME_HEADER_SIZE)

    def test_the_words_for_people_say_it_too(self):
        self.fall_behind()
        self.assertIn(" frames, ", self.a.words("status"))
        self.assertIn("pair    primary, epoch 1, not in sync", self.a.words("stats"))


class Roles(pair.Case):
    def test_role_epoch_and_sync_are_in_the_numbers(self):
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_for("both know", lambda: metrics(self.a)["in_sync"] == metrics(self.b)["in_sync"] == 1)
        leader, follower = metrics(self.a), metrics(self.b)
        self.assertEqual((leader["primary"], leader["role"], leader["alone"]), (1, 1, 0))
        self.assertEqual((follower["primary"], follower["role"]), (0, 2))
        self.assertEqual(leader["epoch"], follower["epoch"])
        self.assertEqual((stats(self.a)["role"], stats(self.b)["role"]), ("primary", "follower"))

    def test_a_broker_without_a_peer_says_nothing_of_a_pair(self):
        lone = harness.Broker(self.path("lone")).start()
        self.brokers.append(lone)
        self.assertEqual(metrics(lone), {})
        self.assertIsNone(stats(lone))


class Digests(pair.Case):
    def compared(self, broker):
        told = broker.tarry("status").one  # tarry status exits with 1 if the leader does not know yet that both are in sync
        digest = told.get("digest", {"own": "", "peer": "", "count": 0, "position": "0"})
        self.assertEqual(digest["own"], digest["peer"])
        return digest["count"], int(digest["position"])

    def test_states_are_compared_with_everything_that_happens(self):
        """F-31."""
        self.start_pair()
        for broker in self.brokers:
            self.wait_for("compared once", lambda of=broker: self.compared(of)[0])
        for _ in range(10):
            before = [self.compared(broker) for broker in self.brokers]
            self.a.ok("schedule", "orders", "--in", "1h")
            for broker, (count, position) in zip(self.brokers, before):
                self.wait_for("compared once more", lambda of=broker, c=count, p=position:
                              self.compared(of)[0] > c and self.compared(of)[1] > p)
        self.wait_for("both at the end of the log", lambda: all(
            self.compared(broker)[1] == self.a.one("status")["appended"] for broker in self.brokers))
        self.assertGreaterEqual(metrics(self.b)["digests_compared_total"], 11)
        self.wait_for("both say so", lambda: metrics(self.a)["digest_position_bytes"] == stats(self.b)["digest_position"])

    def test_a_follower_whose_state_is_another_is_refused(self):
        """F-31: the follower's log equals the leader's and its checksums are correct; only its state differs."""
        self.start_pair()
        self.a.ok("schedule", "orders", "--key", "one", "--in", "1h")
        self.wait_pending(self.b, 1)
        self.b.stop()
        subprocess.run([harness.find_program("forge_index"), "digest", self.b.data], check=True)
        self.b.launch()
        # The two nodes compare their states after the next record.
        self.a.ok("schedule", "orders", "--key", "two", "--in", "1h", "--timeout", "60s", wait_s=65)
        self.assertEqual(self.b.process.wait(pair.WAIT_S), 1, self.b.log_text())
        self.b.reader.join(5)
        self.b.wait_logged("event=digest_differs")
        self.b.wait_logged("state differs from the leader's although their logs are equal")
        self.assertTrue(self.a.is_running())
        self.wait_for("the leader goes on alone", lambda: self.record().get("in-sync") == "0")
        self.a.ok("schedule", "orders", "--key", "three", "--in", "1h")
        # Deletes the follower's directory, as the error message tells the operator.
        harness.shutil.rmtree(self.b.data)
        self.b.start()
        self.wait_in_sync()
        self.wait_pending(self.b, 3)


if __name__ == "__main__":
    harness.main()
