"""facts_test.py: which facts an auditor finds in the log: client, address, reason and former value."""
import hashlib
import re
import subprocess

import harness

ADDRESS = re.compile(r"127\.0\.0\.1:\d+")


class Facts(harness.Case):
    def told(self, *arguments):
        """Returns the output of `tarry audit` for the stopped broker."""
        return self.broker.ok("audit", "--data", self.broker.data, *arguments)

    def stop(self):
        self.assertEqual(self.broker.stop(), 0)

    def only(self, kind, *arguments):
        facts = self.told("--kind", kind, *arguments)
        self.assertEqual(len(facts), 1, facts)
        return facts[0]

    def assert_names(self, fact, who="client", where="peer"):
        self.assertRegex(fact[who], r"^[^ ]+@[^ ]+ tarry/\d+$")
        self.assertRegex(fact[where], ADDRESS)

    def in_words(self, *arguments):
        command = self.broker.command(*arguments, "--data", self.broker.data)
        command.remove("--json")
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


class Tasks(Facts):
    def test_every_commit_names_its_client_and_where_it_came_from(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "1h")
        self.broker.one("move", "q", "k", "--in", "2h")
        self.broker.one("cancel", "q", "k")
        self.stop()
        for kind in ("scheduled", "moved", "cancelled"):
            self.assert_names(self.only(kind))
        self.assertEqual(len({fact["client"] for fact in self.told("--kind", "scheduled,moved,cancelled")}), 3)

    def test_a_lease_names_the_consumer_that_got_it(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s")
        self.broker.one("consume", "q", "--count", "1")
        self.stop()
        leased, session = self.only("leased"), self.only("session")
        self.assertEqual(leased["session"], session["session"])
        self.assertEqual((leased["consumer"], leased["consumer_peer"]), (session["client"], session["peer"]))
        self.assert_names(session)
        self.assertEqual(leased["late_ms"], leased["at_ms"] - leased["due_ms"])
        self.assertIn(f'to session {leased["session"]} of "{leased["consumer"]}" at {leased["consumer_peer"]}',
                      self.in_words("history", "q", "k"))

    def test_the_reason_of_a_nack_is_kept_though_the_task_is_tried_again(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s")
        taken = self.broker.one("consume", "q", "--count", "1", "--ack", "none")
        self.broker.one("nack", taken["id"], taken["token"], "--delay", "10ms", "--reason", "the bank\nis closed")
        again = self.broker.one("consume", "q", "--count", "1", "--ack", "none")
        self.broker.one("nack", again["id"], again["token"], "--dead", "no such bank")
        self.stop()
        retried, dead = self.only("retried"), self.only("dead")
        self.assertEqual((retried["reason"], dead["reason"]), ("the bank\nis closed", "no such bank"))
        self.assertEqual((retried["before_due_ms"], retried["attempt"]), (taken["due_ms"], 1))
        self.assert_names(retried)
        self.assertIn('reason "the bank\\nis closed"', self.in_words("history", "q", "k"))

    def test_what_was_before(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s")
        taken = self.broker.one("consume", "q", "--count", "1", "--ack", "none", "--lease", "1m")
        self.broker.one("extend", taken["id"], taken["token"], "--lease", "5m")
        self.broker.one("release", taken["id"], taken["token"])
        again = self.broker.one("consume", "q", "--count", "1", "--ack", "none")
        self.broker.one("nack", again["id"], again["token"], "--dead", "over")
        self.broker.one("dead", "requeue", "--id", again["id"])
        self.stop()
        extended, released, requeued = self.only("extended"), self.only("released"), self.only("requeued")
        first, second = self.told("--kind", "leased")
        self.assertEqual(extended["before_lease_deadline_ms"], first["lease_deadline_ms"])
        self.assertGreater(extended["lease_deadline_ms"], first["lease_deadline_ms"] + 200_000)
        self.assertEqual(released["before_lease_deadline_ms"], extended["lease_deadline_ms"])
        # The task was released before any consumer saw it, so no attempt was counted.
        self.assertEqual((released["before_attempt"], released["attempt"]), (1, 0))
        self.assertEqual((requeued["before_attempt"], requeued["attempt"]), (1, 0))
        self.assertEqual((second["before_session"], second["before_delivered_ms"]), (first["session"], first["at_ms"]))
        self.assertNotIn("late_ms", second)  # the task was released before, so `late_ms` would be misleading and is absent
        self.assert_names(requeued)


class Sessions(Facts):
    def test_a_consumer_that_leaves(self):
        self.broker.one("schedule", "q", "--in", "1h")
        stream = self.broker.consume("q", "r", "--prefetch", "7", "--lease", "1m", "--for", "300ms")
        self.assertEqual(stream.wait(), 0)
        self.stop()
        session, end = self.only("session"), self.only("session_end")
        self.assertEqual((session["queues"], session["awaited"], session["prefetch"], session["lease_ms"], session["resumed"]),
                         (["q"], ["r"], 7, 60000, False))
        self.assertEqual((end["session"], end["cause"], end["returned"], end["kept"]),
                         (session["session"], "unsubscribed", 0, 0))
        self.assertEqual((end["consumer"], end["consumer_peer"]), (session["client"], session["peer"]))
        for queue in ("q", "r"):
            self.assertEqual(self.told("--kind", "session", "--queue", queue), [session])
        self.assertEqual(self.told("--session", session["session"]), [session, end])

    def test_a_consumer_that_is_killed_is_told_by_its_name(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s")
        stream = self.broker.consume("q", "--ack", "none")
        stream.take(1)
        stream.kill()
        self.broker.wait_stats("q", ready=1)
        self.stop()
        lost, end, leased = self.only("lease_lost"), self.only("session_end"), self.only("leased")
        self.assertEqual((end["cause"], end["returned"]), ("pipe_lost", 1))
        self.assertEqual((lost["consumer"], lost["consumer_peer"], lost["before_lease_deadline_ms"]),
                         (leased["consumer"], leased["consumer_peer"], leased["lease_deadline_ms"]))
        self.assertNotIn("client", lost)  # the end of a lease has no client
        self.assertNotIn("client", end)

    def test_a_consumer_that_leaves_and_keeps_what_it_has(self):
        self.broker.one("schedule", "q", "--in", "0s")
        self.broker.one("consume", "q", "--count", "1", "--ack", "none")
        self.stop()
        end = self.only("session_end")
        self.assertEqual((end["cause"], end["returned"], end["kept"]), ("unsubscribed", 0, 1))

    def test_a_consumer_that_does_not_come_back_after_a_restart(self):
        self.broker.one("schedule", "q", "--in", "0s")
        stream = self.broker.consume("q", "--ack", "none")
        stream.take(1)
        self.broker.kill()
        stream.kill()
        self.broker.start()
        self.broker.wait_stats("q", ready=1)
        self.stop()
        end = self.only("session_end")
        self.assertEqual((end["cause"], end["returned"]), ("not_resumed", 1))


class Administration(Facts):
    def test_a_queue_says_who_changed_what_and_what_was_before(self):
        self.broker.one("queue", "set", "q", "max_attempts=3")
        self.broker.one("queue", "pause", "q", "--for", "1h")
        self.broker.one("queue", "resume", "q")
        self.stop()
        new, changed, paused, resumed = self.told("--kind", "queue")
        self.assertNotIn("before_policy", new)
        self.assertEqual((changed["policy"]["max_attempts"], changed["before_policy"]["max_attempts"]), (3, 16))
        self.assertEqual((paused["paused"], paused.get("before_paused")), (True, None))
        self.assertEqual((resumed["paused"], resumed["before_paused"]), (False, True))
        self.assertEqual(resumed["before_paused_until_ms"], paused["paused_until_ms"])
        for fact in (new, changed, paused, resumed):
            self.assert_names(fact)

    def test_a_pause_that_runs_out_is_nobodys_act(self):
        self.broker.one("queue", "set", "q", "max_attempts=3")
        self.broker.one("queue", "pause", "q", "--for", "50ms")
        self.broker.one("schedule", "q", "--in", "0s")
        self.broker.one("consume", "q", "--count", "1")
        self.stop()
        over = self.told("--kind", "queue")[-1]
        self.assertEqual((over["paused"], over["before_paused"], over.get("client")), (False, True, None))

    def test_what_a_purge_ends_says_who_asked_for_it(self):
        for number in range(3):
            self.broker.one("schedule", "q", "--key", f"k{number}", "--in", "1h")
        self.broker.one("queue", "purge", "q")
        self.stop()
        job, end = self.only("job"), self.only("job_end")
        purged = self.told("--kind", "purged")
        self.assertEqual((job["what"], end["job"], end["done"], len(purged)), ("purge", job["job"], 3, 3))
        self.assert_names(job)
        for fact in purged + [end]:
            self.assertEqual((fact["client"], fact["peer"]), (job["client"], job["peer"]))

    def test_dead_letters_say_who_dropped_and_who_revived_them(self):
        for key in "abc":
            self.broker.one("schedule", "q", "--key", key, "--in", "0s")
            taken = self.broker.one("consume", "q", "--count", "1", "--ack", "none")
            self.broker.one("nack", taken["id"], taken["token"], "--dead", "no")
        self.broker.one("dead", "drop", "q", "a")
        self.broker.ok("dead", "requeue", "q", "--all")
        self.stop()
        self.assert_names(self.only("dropped"))
        self.assertEqual(self.only("job")["what"], "requeue_all")
        requeued = self.told("--kind", "requeued")
        self.assertEqual([fact["client"] for fact in requeued], [self.only("job")["client"]] * 2)


class Runs(Facts):
    autostart = False

    def digest(self, *arguments):
        printed = subprocess.run([harness.find_program("tarryd"), "--print-config", "--segment-size", harness.SEGMENT_SIZE, *arguments],
                                 stdout=subprocess.PIPE,
                                 check=True).stdout
        return hashlib.blake2b(printed, digest_size=32).hexdigest()

    def test_starts_and_stops_say_who_which_version_and_how_it_had_ended(self):
        self.broker.start()
        self.stop()
        self.broker.start()
        self.broker.one("schedule", "q", "--in", "1h")  # the reply proves that the record of the start is on disk too
        self.broker.kill()
        self.broker.start()
        self.stop()
        first, stopped, second, third, last = self.told("--kind", "start,stop")
        self.assertEqual([fact["kind"] for fact in (first, stopped, second, third, last)],
                         ["start", "stop", "start", "start", "stop"])
        self.assertEqual([fact["before"] for fact in (first, second, third)], ["nothing", "stopped", "broken_off"])
        self.assertEqual({fact["server_version"] for fact in (first, stopped, second, third, last)}, {self.broker.ready["version"]})
        for fact in (first, stopped):
            self.assertRegex(fact["client"], r"^\S.*@")
        self.assertEqual(self.told()[-1], last)  # no record follows the one of the stop

    def test_the_configuration_has_a_digest_that_can_be_made_by_hand(self):
        self.broker.start()
        self.stop()
        self.broker.arguments = ["--lease", "1m"]
        self.broker.start()
        self.stop()
        first, second = self.told("--kind", "start")
        self.assertEqual((first["config_digest"], second["config_digest"]), (self.digest(), self.digest("--lease", "60s")))
        self.assertNotEqual(first["config_digest"], second["config_digest"])
        self.assertEqual(self.digest(), self.digest("--data", "/elsewhere", "--listen", "ws://127.0.0.1:1"))


if __name__ == "__main__":
    harness.main()
