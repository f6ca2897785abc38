"""pair_modes_test.py: asynchronous and strict pairs, pairs without a coordinator, an operator's commands, and nodes that may not
join."""
import contextlib
import json
import socket
import subprocess

import harness
import pair
import tokens
import wire
from ports import free_port

# Field numbers of Pair and PairReply in tarry.proto.
PROMOTE, DEMOTE = 1, 2
# Field numbers of Request and of Backup.
BACKUP, BACKUP_BEGIN, BACKUP_END = 21, 1, 4
# Field numbers of PairReply.
IN_SYNC, DURABLE, COMMITTED = 14, 17, 18


def tell(broker, what, *more):
    """Sends an operator's command. Returns (code, message)."""
    with wire.Rpc(broker.port) as rpc:
        code, _ = rpc.ask(wire.PAIR, [(1, what), *more])
        return code, rpc.sentence


def status(broker):
    """Returns field number → values of a PairReply."""
    with wire.Rpc(broker.port) as rpc:
        return wire.decode(rpc.ask(wire.PAIR, [])[1])


class Modes(pair.Case):
    def test_an_asynchronous_follower_never_counts(self):
        for broker in self.brokers:
            broker.arguments += ["--replication", "async"]
        self.a.start()
        self.b.start()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_pending(self.b, 1)
        self.assertEqual(self.record()["in-sync"], "0")
        self.freeze(self.b)
        self.a.ok("schedule", "orders", "--in", "1h")
        self.thaw(self.b)
        self.wait_pending(self.b, 2)

    def test_a_leader_goes_on_alone_after_the_time_it_was_given(self):  # F-27
        self.start_pair()
        self.freeze(self.b)
        self.a.ok("schedule", "orders", "--in", "1h")
        self.assertEqual(self.record()["in-sync"], "0")
        self.thaw(self.b)
        self.wait_in_sync()
        self.wait_pending(self.b, 1)

    def test_a_switch_over_by_a_word_loses_nothing(self):
        self.start_pair()
        for _ in range(5):
            self.a.ok("schedule", "orders", "--in", "1h")
        self.assertEqual(tell(self.a, DEMOTE)[0], wire.OK)
        self.wait_log(self.b, "event=leading")
        self.wait_log(self.a, "event=ready", 2)
        self.wait_in_sync()
        self.assertEqual(self.pending(self.b), 5)
        self.b.ok("schedule", "orders", "--in", "1h")
        self.wait_pending(self.a, 6)
        self.assertEqual(tell(self.a, PROMOTE)[0], wire.OK)
        self.wait_log(self.a, "event=leading", 2)
        self.a.ok("schedule", "orders", "--in", "1h")

    def test_a_follower_that_counts_must_confirm_answers_to_questions_too(self):
        """R3: a leader whose follower does not confirm cannot know whether another node leads, so its state may be outdated
        and it must not answer.
        """
        self.a.arguments += ["--solo-after", "60s"]
        self.start_pair()
        task = int(self.a.one("schedule", "q", "--key", "k", "--in", "1h", "--body", "x")["id"])
        with_content = [(1, [(1, task)]), (2, 1)]  # the task's content is read from the log, so another thread sends this reply
        for body, fields in ((wire.QUEUES, []), (wire.GET, with_content)):
            with wire.Rpc(self.a.port) as rpc:
                self.assertEqual(rpc.ask(body, fields)[0], wire.OK)
                self.freeze(self.b)
                rpc.tell(body, fields)
                with self.assertRaises(TimeoutError):
                    rpc.hear(0.7)
                self.thaw(self.b)
                self.assertEqual(rpc.hear()[1], wire.OK)

    def test_an_answer_beside_a_commit_is_confirmed_too(self):
        """R3: the broker reads a query of a task's content together with a commit. The query's answer goes to the delivery
        sender when the commit is written. The answer does not contain the commit, but must also wait until the follower
        confirms the commit.
        """
        self.a.arguments += ["--solo-after", "60s"]
        self.start_pair()
        task = int(self.a.one("schedule", "q", "--key", "k", "--in", "1h", "--body", "x")["id"])
        with contextlib.ExitStack() as stack:
            *askers, writer = [stack.enter_context(wire.Rpc(self.a.port)) for _ in range(21)]  # the broker reads the connections in the order in which they were opened
            producer = writer.hello()
            self.freeze(self.b)
            self.freeze(self.a)  # while `a` is stopped, all requests arrive; then it reads them together, and the last question together with the commit
            for asker in askers:
                asker.tell(wire.GET, [(1, [(1, task)]), (2, 1)])
            writer.tell(wire.COMMIT, wire.commit(producer, 1, [wire.schedule("q", "", 3_600_000)]))
            self.thaw(self.a)
            for number, asker in enumerate(askers):
                with self.assertRaises(TimeoutError, msg=f"asker {number} was answered without a confirmation"):
                    asker.hear(0.7 if number == 0 else 0.01)
            self.thaw(self.b)
            for asker in askers:
                self.assertEqual(asker.hear()[1], wire.OK)

    def write_alone(self):
        """Lets `a` write frames that it never acknowledges, and kills it; then `b` leads."""
        self.a.arguments += ["--solo-after", "60s"]
        self.start_pair()
        with wire.Rpc(self.a.port) as rpc:
            producer = rpc.hello()
            self.freeze(self.b)
            # The primary sends the first commit as its reply to the follower's waiting request. The stopped follower
            # may read that reply when it continues. The primary cannot send the second commit.
            for sequence in (1, 2):
                before = status(self.a)[DURABLE][0]
                rpc.tell(wire.COMMIT, wire.commit(producer, sequence, [wire.schedule("orders", delay_ms=3600000)]))
                self.wait_for("it is written", lambda known=before: status(self.a)[DURABLE][0] > known)
            self.assertLess(status(self.a)[COMMITTED][0], before, "nothing is committed without the follower")
            with self.assertRaises(TimeoutError):
                rpc.hear(0.5)
            self.a.kill()
        self.thaw(self.b)
        self.wait_log(self.b, "event=leading")

    def test_what_was_written_alone_is_never_acknowledged_and_is_put_aside(self):  # F-25
        self.write_alone()
        self.a.start()
        self.wait_log(self.a, "event=tail_quarantined")
        self.wait_in_sync()
        self.assertLessEqual(self.pending(self.b), 1)
        self.wait_pending(self.a, self.pending(self.b))

    def test_a_tail_is_cut_once_a_backup_of_it_is_done(self):  # R8
        """Copies the directory, as an operator would, before a node may discard its tail."""
        self.write_alone()
        self.freeze(self.b)
        self.a.start()
        with wire.Rpc(self.a.port, tokens.ADMIN) as rpc:
            backup = wire.decode(rpc.ask(BACKUP, [(1, BACKUP_BEGIN)])[1])[1][0]
            self.thaw(self.b)
            self.wait_for("it waits", lambda: "a running backup of this node has ended" in (self.a.tarry("status").one["problem"] or ""))
            self.assertEqual(rpc.ask(BACKUP, [(1, BACKUP_END), (2, backup)])[0], wire.OK)
        self.wait_log(self.a, "event=tail_quarantined")
        self.wait_in_sync()

    def test_another_clusters_data_are_refused(self):
        """F-29."""
        self.start_pair()
        harness.Broker(self.path("other")).start().stop()
        self.b.stop()
        stranger = self.make_broker("--follow", self.a.url, *self.b.arguments[2:], data=self.path("other"), listen=self.b.url)
        stranger.launch()
        self.assertEqual(stranger.process.wait(pair.WAIT_S), 1, stranger.log_text())
        stranger.reader.join(5)
        stranger.wait_logged("another cluster")
        self.brokers.remove(stranger)


class Snapshot(pair.Case):
    """The leader has retired segments that the follower still needs."""

    arguments = (*pair.Case.arguments, "--segment-size", "1MiB", "--retain-log-size", "1MiB")

    def fill(self, count=6):
        """Fills `count` MiB of log, most of which is retired soon."""
        payload = "x" * 500_000
        lines = "\n".join(json.dumps({"queue": "bulk", "delay_ms": 3600000, "body": payload}) for _ in range(2 * count))
        self.a.ok("schedule", "--from", self.path("bulk.ndjson", lines + "\n"))
        self.wait_for("segments retired", lambda: sum("event=segment_retired" in line for line in self.a.log) >= 2)

    def test_a_new_follower_gets_a_snapshot_and_then_the_rest(self):
        self.a.start()
        self.fill()
        self.b.start()
        self.wait_log(self.b, "event=snapshot_taken")
        self.wait_in_sync()
        self.wait_for("all of it", lambda: self.pending(self.b, "bulk") == 12)
        self.a.kill()
        self.wait_log(self.b, "event=leading")
        self.b.ok("schedule", "orders", "--in", "1h")
        self.assertEqual(self.pending(self.b, "bulk"), 12)

    def test_a_follower_that_was_away_for_too_long_gets_a_snapshot(self):
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_pending(self.b, 1)
        self.b.kill()
        self.a.restart()  # after its restart, a primary does not wait for the follower until the follower connects
        self.fill()
        self.b.start()
        self.wait_log(self.b, "event=snapshot_taken")
        self.wait_in_sync()
        self.wait_for("all of it", lambda: (self.pending(self.b), self.pending(self.b, "bulk")) == (1, 12))


class Operator(pair.Case):
    coordinated = False

    def start_pair(self):
        self.a.start()
        self.b.start()
        self.wait_log(self.a, "event=leading")
        self.wait_for("in sync", lambda: status(self.a).get(IN_SYNC))

    def test_who_founded_leads_once_the_other_has_promised(self):
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_pending(self.b, 1)

    def test_nobody_takes_over_but_by_an_operators_word(self):
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_for("the follower knows", lambda: status(self.b).get(IN_SYNC))
        self.a.kill()
        code, sentence = tell(self.b, PROMOTE, (2, 1))
        self.assertEqual(code, wire.OK, sentence)
        self.wait_log(self.b, "event=leading")
        self.b.ok("schedule", "orders", "--in", "1h")
        self.a.start()
        self.wait_pending(self.a, 2)

    def test_a_word_is_not_undone_by_what_the_other_had_asked_before(self):
        """When the operator promotes node a, a follow request of the dead node b may still wait for its reply. Node a must not
        answer it, because node b would then count as in sync.
        """
        self.start_pair()
        for _ in range(5):
            self.b.kill()
            self.a.ok("promote", "--peer-is-stopped")
            self.a.ok("schedule", "orders", "--in", "1h")
            self.b.start()
            self.wait_for("in sync", lambda: status(self.a).get(IN_SYNC))

    def test_a_word_with_both_addresses_is_for_the_one_that_answers(self):
        """The operator's command has both nodes' addresses, as the guide recommends. First the primary waits for its follower,
        then the follower has no primary.
        """
        self.start_pair()
        both = f"{self.a.url},{self.b.url}"

        def promote(*words, status=0):
            done = subprocess.run([harness.find_program("tarry"), "promote", *words, "--broker", both, "--json"], capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, status, done)
            return done
        self.assertIn("2 brokers answer: stop the one that must not lead", promote("--peer-is-stopped", status=1).stderr)
        self.b.stop()
        self.assertIn('"serves alone"', promote("--peer-is-stopped").stdout)
        self.a.ok("schedule", "orders", "--in", "1h")
        self.b.start()
        self.wait_for("both know that they are in sync", lambda: status(self.a).get(IN_SYNC) and status(self.b).get(IN_SYNC))
        self.a.kill()
        self.assertIn('"promoted"', promote("--peer-is-stopped").stdout)
        self.b.ok("schedule", "orders", "--in", "1h")

    def test_a_switch_over_without_a_coordinator(self):
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.assertEqual(tell(self.b, PROMOTE)[0], wire.OK)
        self.wait_log(self.b, "event=leading")
        self.b.ok("schedule", "orders", "--in", "1h")
        self.wait_pending(self.a, 2)

    def test_an_idle_pair_comes_to_know_that_it_is_in_sync(self):
        """Nothing is written after the former primary is back. It must still learn that it is in sync."""
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_for("the follower knows", lambda: status(self.b).get(IN_SYNC))
        self.a.kill()
        self.b.ok("promote", "--peer-is-stopped")
        self.a.start()
        self.wait_for("the old one knows", lambda: status(self.a).get(IN_SYNC))
        self.b.kill()
        self.a.ok("promote", "--peer-is-stopped")
        self.assertEqual(self.pending(self.a), 1)

    def test_status_says_what_an_operator_can_do(self):
        self.a.start()
        self.assertEqual(self.a.ready["role"], "looking")
        waits = self.a.refused("status").one
        self.assertEqual(waits["role"], "looking")
        self.assertIn("start it with --follow", waits["problem"])
        self.assertIn("knows no primary yet", self.a.refused("schedule", "orders", "--in", "1h", "--timeout", "3s", status=3).err)
        self.b.start()
        self.wait_for("in sync", lambda: self.a.tarry("status").status == 0 and self.b.tarry("status").status == 0)
        self.freeze(self.b)
        self.wait_for("it is missed", lambda: "makes this node serve alone" in (self.a.tarry("status").one["problem"] or ""))
        self.assertIn("does not confirm", self.a.refused("demote", "--wait", "200ms").err)
        alone = self.wait_for("alone", lambda: [answer for answer in self.a.tarry("promote", "--peer-is-stopped").objects
                                                if answer["result"] != "error"])  # the command is refused until the hand-over has been cancelled
        self.assertEqual(alone[0]["result"], "serves alone")
        self.a.ok("schedule", "orders", "--in", "1h")
        self.assertIn("so this node cannot hand over", self.a.refused("demote").err)
        self.thaw(self.b)
        # `tarry status` reports a problem only as long as its cause exists.
        self.wait_for("in sync", lambda: self.a.tarry("status").status == 0 and self.b.tarry("status").status == 0)
        self.freeze(self.a)
        word = "if it is certainly stopped and has not served alone, 'tarry promote --peer-is-stopped'"
        self.wait_for("it is missed", lambda: word in (self.b.tarry("status").one["problem"] or ""))
        self.assertEqual(self.b.tarry("status").status, 1)
        self.assertIn("--peer-is-stopped", self.b.refused("promote", "--wait", "100ms").err)


class Mistakes(pair.Case):
    coordinated = False
    arguments = ()

    def refusal(self, *arguments, status=2):
        """Returns the error message of a tarryd that exits at once."""
        broker = self.make_broker(*arguments, data=self.path("x"), listen=self.a.listen)
        self.brokers.remove(broker)
        broker.launch()
        self.assertEqual(broker.process.wait(pair.WAIT_S), status, broker.log_text())
        broker.reader.join(5)
        broker.process.stderr.close()
        return broker.log_text()

    def test_options_that_make_no_pair(self):
        self.assertIn("option solo-after must be never without a coordinator", self.refusal("--peer", "ws://h:1", "--solo-after", "5s"))
        for option in ("--replication=sync", "--replication=async", "--solo-after=5s", "--failover-after=5s",
                       "--advertise=ws://127.0.0.1:1", "--coordinator=file:///tmp/x"):
            self.assertIn(f"option {option[2:].partition('=')[0]} needs a pair", self.refusal(option))
        self.assertIn("differ", self.refusal("--peer", "ws://h:1", "--follow", "ws://h:2"))
        for option in ("--peer", "--follow"):
            self.assertIn(f"{option} {self.a.listen}: that is this node itself", self.refusal(option, self.a.listen))
            port = self.a.listen.rpartition(":")[2]
            self.assertIn("this node itself", self.refusal(option, f"ws://localhost:{port}"))
            self.assertIn("must look like", self.refusal(option, "http://h:1"))
        for url in ("zk://h", "redis://h/x"):
            self.assertIn(f"--coordinator '{url}'", self.refusal("--peer", "ws://h:1", "--coordinator", url))

    def test_who_joins_says_what_it_waits_for(self):
        self.b.launch()
        self.wait_log(self.b, 'event=joining_waits peer=' + self.a.listen + ' reason="Connection refused"')
        with socket.create_server(("127.0.0.1", int(self.a.listen.rpartition(":")[2]))):
            self.wait_log(self.b, "does not answer like a tarryd")
        self.a.start()
        self.b.wait_ready()

    def test_both_found_a_cluster(self):
        self.b.arguments[self.b.arguments.index("--follow")] = "--peer"
        self.a.launch()
        self.b.launch()
        for broker in (self.a, self.b):
            self.wait_log(broker, "belongs to another cluster than the leader's")

    def test_a_coordinator_that_does_not_answer(self):
        self.a.arguments += ["--coordinator", f"zk://127.0.0.1:{free_port()}/x"]
        self.a.start()
        self.wait_log(self.a, "event=coordinator state=connecting")
        self.assertEqual(self.a.ready["role"], "looking")
        self.wait_for("it is said", lambda: "until the coordinator answers, no node takes over" in (self.a.tarry("status").one["problem"] or ""))
        self.assertIn("until the coordinator answers, no node takes over", self.a.refused("status").one["problem"])
        for word in ("--force", "--peer-is-stopped"):
            self.assertIn("the coordinator does not answer, and only the coordinator's record says which node leads", self.a.refused("promote", word).err)


if __name__ == "__main__":
    harness.main()
