"""audit_live_test.py: for a running broker, tarry history and tarry audit print the same as for its directory afterwards;
--follow prints new events. The requests themselves are tested in audit_wire_test.py.
"""
import contextlib
import itertools
import signal
import subprocess
import threading
import time

import harness


class Live(harness.Case):
    def text(self, *arguments, people=False, status=0):
        """Returns the tool's output, byte for byte."""
        command = self.broker.command(*arguments)
        if people:
            command.remove("--json")
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=60)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done.stdout

    def live_a_life(self):
        """Causes at least one record of every kind. Returns the first task's id."""
        one = self.broker.one
        first = one("schedule", "close-order", "--key", "order-1001", "--in", "30m", "--body", "secret body")
        one("move", "close-order", "order-1001", "--in", "10ms")
        one("consume", "close-order", "--count", "1", "--ack", "nack")
        one("consume", "close-order", "--count", "1")
        one("schedule", "close-order", "--key", "order-1001", "--in", "1h")
        one("cancel", "close-order", "order-1001")
        one("schedule", "other", "--key", "order-1001", "--in", "1h")
        one("queue", "set", "other", "max_attempts=1")
        one("schedule", "other", "--key", "short", "--in", "0s")
        one("consume", "other", "--count", "1", "--ack", "nack")
        lines = "".join(f'{{"queue":"many","key":"k{number}","delay_ms":3600000}}\n' for number in range(3000))
        self.broker.ok("schedule", "--from", "-", stdin=lines)
        one("queue", "pause", "many")
        return first["id"]


class Equal(Live):
    arguments = ("--segment-size", "1MiB")

    def test_a_running_broker_tells_what_its_directory_tells_after_it_was_stopped(self):
        task = self.live_a_life()
        middle_ms = harness.now_ms()
        self.broker.one("queue", "purge", "many")
        self.broker.wait_stats("many", pending=0, jobs=0)
        session = self.broker.ok("audit", "--kind", "session")[0]["session"]
        producer = self.broker.one("audit", "--kind", "moved")["producer"]
        questions = [["audit"], ["audit", "--kind", "leased,acked,queue"], ["audit", "--queue", "other"],
                     ["audit", "--queue", "many", "--prefix", "k10"], ["audit", "--queue", "many", "--key", "k2999"],
                     ["audit", "--queue", "nobody's", "--key", "k"], ["audit", "--id", task], ["audit", "--limit", "7"],
                     ["audit", "--from", str(middle_ms), "--queue", "many"], ["audit", "--to", str(middle_ms)],
                     ["audit", "--session", session], ["audit", "--producer", producer],
                     ["history", "close-order", "order-1001"], ["history", "many", "k17"], ["history", "--id", task]]
        live = [(question, people, self.text(*question, people=people)) for question in questions for people in (False, True)]
        self.assertEqual(self.broker.stop(), 0)
        for question, people, told in live:
            offline = self.text(*question, "--data", self.broker.data, people=people)
            self.assertEqual(offline[:len(told)], told, question)  # the stop of the broker may have added records
            self.assertEqual(bool(told), "nobody's" not in question, question)
            if "--limit" in question or question[0] == "history" or "--to" in question:
                self.assertEqual(offline, told, question)
        everything = live[0][2]
        self.assertGreater(everything.count(b"\n"), 6000)
        self.assertNotIn(b"secret body", everything)
        self.assertGreater(self.text("audit", "--data", self.broker.data).count(b"\n"), 0)

    def test_what_the_log_does_not_know(self):
        self.live_a_life()
        for wrong in (["history", "close-order", "order-1002"], ["history", "nobody's", "order-1001"], ["history", "--id", "999999"]):
            self.assertIn("the log has no such task", self.broker.refused(*wrong).err)

    def test_it_asks_the_broker_that_it_is_told_of(self):
        self.broker.one("schedule", "close-order", "--key", "order-1001", "--in", "30m")
        other = self.make_broker(data=self.path("other")).start()
        other.one("schedule", "other", "--key", "k", "--in", "1h")  # wait for this reply, because when it arrives, the record of the broker's start is also durable
        self.assertEqual([fact["kind"] for fact in other.ok("audit", "--kind", "start,scheduled")], ["start", "scheduled"])
        told = subprocess.run([harness.find_program("tarry"), "history", "close-order", "order-1001"], stdout=subprocess.PIPE, check=True,
                              env={**harness.os.environ, "TARRY_BROKER": self.broker.url})
        self.assertEqual(told.stdout, self.text("history", "close-order", "order-1001", people=True))
        nobody = subprocess.run([harness.find_program("tarry"), "audit", "--broker", "ws://127.0.0.1:9", "--timeout", "300ms", "--json"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual((nobody.returncode, harness.json.loads(nobody.stdout)["code"]), (3, "no_broker"))

    def test_usage(self):
        for wrong in (["audit", "--follow", "--data", "x"], ["audit", "--follow", "--to", "+1h"], ["audit", "--follow", "--as-of", "0"], ["audit", "--archive", "x"],
                      ["history", "--archive", "x", "q", "k"], ["audit", "--key", "k"], ["history"]):
            self.assertEqual(self.broker.tarry(*wrong).status, 2, wrong)


class Follow(Live):
    def follow(self, *arguments):
        """Starts a command with --follow, and waits until it follows."""
        stream = self.broker.stream("audit", "--follow", *arguments)
        return stream

    def ready(self, stream, queue="start"):
        """Waits until the audit's stream has printed a record of a task that this function scheduled. From this record on, the
        stream prints all records.
        """
        end = time.monotonic() + harness.ANSWER_WAIT_S
        for number in itertools.count(1):
            self.assertLess(time.monotonic(), end, "nothing of what happens is told")
            self.broker.one("schedule", queue, "--key", f"begin-{number}", "--in", "1h")
            with contextlib.suppress(harness.queue.Empty):
                while stream.next(0.5).get("key") != f"begin-{number}":
                    pass
                return

    def test_it_tells_what_happens_as_it_happens_and_ends_at_a_signal(self):
        self.broker.one("schedule", "q", "--key", "before", "--in", "1h")
        stream = self.follow("--queue", "q")
        self.ready(stream, "q")
        scheduled = self.broker.one("schedule", "q", "--key", "k", "--in", "1h")
        told = stream.next()
        self.assertEqual((told["kind"], told["id"], told["key"]), ("scheduled", scheduled["id"], "k"))
        self.broker.one("cancel", "q", "k")
        self.assertEqual(stream.next()["kind"], "cancelled")
        self.broker.one("schedule", "other", "--in", "1h")
        self.assertTrue(stream.quiet_for(0.3))
        stream.signal(signal.SIGINT)
        self.assertEqual((stream.wait(), stream.errors), (0, []))
        self.assertNotIn("before", {fact.get("key") for fact in stream.seen})

    def test_from_says_since_when(self):
        self.broker.one("schedule", "q", "--key", "before", "--in", "1h")
        stream = self.follow("--from", "2020-01-01T00:00:00Z", "--queue", "q", "--kind", "scheduled")
        self.assertEqual(stream.next()["key"], "before")
        self.broker.one("schedule", "q", "--key", "after", "--in", "1h")
        self.assertEqual(stream.next()["key"], "after")
        stream.signal(signal.SIGTERM)
        self.assertEqual(stream.wait(), 0)

    def test_limit_ends_it(self):
        stream = self.follow("--from", "2020-01-01T00:00:00Z", "--kind", "scheduled", "--limit", "2")
        for number in range(3):
            self.broker.one("schedule", "q", "--key", str(number), "--in", "1h")
        self.assertEqual([fact["key"] for fact in stream.rest()], ["0", "1"])
        self.assertEqual(stream.wait(), 0)

    def test_one_task_among_many(self):
        stream = self.follow("--queue", "q", "--key", "wanted", "--kind", "scheduled,cancelled")
        idle = self.follow("--queue", "q", "--key", "begin-1")
        self.ready(self.follow("--queue", "q"), "q")
        stop = threading.Event()
        worker = threading.Thread(target=self.work, args=(stop,))
        worker.start()
        try:
            for _ in range(harness.ANSWER_WAIT_S):  # wait until the audit has read this record
                self.broker.one("schedule", "q", "--key", "wanted", "--in", "1h")
                self.broker.one("cancel", "q", "wanted")
                if not stream.quiet_for(1):
                    break
            self.assertTrue(stream.seen)
            if stream.seen[0]["kind"] == "scheduled":  # otherwise the audit began between the two commands
                stream.take(1)
        finally:
            stop.set()
            worker.join()
        self.assertEqual({fact["key"] for fact in stream.seen}, {"wanted"})
        idle.signal(signal.SIGINT)
        self.assertEqual(idle.wait(), 0)

    def work(self, stop):
        number = 0
        while not stop.is_set():
            number += 1
            self.broker.one("schedule", "q", "--key", f"k{number}", "--in", "1h")

    def test_it_goes_on_after_a_restart_and_after_a_kill(self):
        stream = self.follow("--queue", "q", "--timeout", "60s")
        self.ready(stream, "q")
        self.assertEqual(self.broker.stop(), 0)
        self.broker.start()
        self.broker.one("schedule", "q", "--key", "after the stop", "--in", "1h")
        self.assertEqual(stream.next(60)["key"], "after the stop")
        self.broker.kill()
        self.broker.start()
        self.broker.one("schedule", "q", "--key", "after the kill", "--in", "1h")
        self.assertEqual(stream.next(60)["key"], "after the kill")
        positions = [int(fact["position"]) for fact in stream.seen]
        self.assertEqual(positions, sorted(set(positions)))
        stream.signal(signal.SIGINT)
        self.assertEqual(stream.wait(), 0)

    def test_a_broker_that_stays_away_is_said_so(self):
        stream = self.follow("--queue", "q", "--timeout", "10s")
        self.ready(stream, "q")
        self.broker.kill()
        self.assertEqual(stream.rest()[-1]["result"], "error")
        self.assertEqual(stream.wait(), 3)
        self.broker.start()

    def test_nobody_reads_any_more(self):
        follower = subprocess.Popen(self.broker.command("audit", "--follow", "--from", "2020-01-01T00:00:00Z"), stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertIn(b'"start"', follower.stdout.readline())
        follower.stdout.close()
        self.broker.one("schedule", "q", "--in", "1h")
        self.assertEqual(follower.wait(30), 1)
        follower.stderr.close()


class Gone(Live):
    arguments = ("--segment-size", "1MiB", "--retain-log-age", "1h", "--retain-log-size", "16MiB", "--archiving", "no")

    def test_what_is_retired_under_a_slow_audit_is_said_and_the_rest_is_told(self):
        command = self.broker.command("audit", "--kind", "scheduled")
        self.fill(0, 60000)  # about 7 MB of log, which need several result pages
        slow = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = slow.stdout.readline()  # the test reads no more, so the pipe fills up and the audit waits
        number = 60000
        # Wait until the log has retired more than a result page, but not all of the 60,000 tasks. A result page of 1
        # MiB corresponds to 2 to 2.5 MB of log, because it leaves out the blob areas.
        while self.stats()["log_start"] <= 4 << 20:
            self.assertLess(number, 400_000, "nothing is retired")
            self.fill(number, number + 5000)
            number += 5000
            harness.wait_until("all that is due is retired", lambda: self.stats()["log_bytes"] <= 16 << 20, harness.ANSWER_WAIT_S)
        lines, err = [first, *slow.stdout], slow.stderr.read()  # standard error has few lines, so it can be read after standard output
        self.assertEqual(slow.wait(60), 0, err)
        slow.stdout.close()
        slow.stderr.close()
        numbers = [int(harness.json.loads(line)["key"][1:]) for line in lines]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(numbers[0], 0)
        self.assertEqual(numbers[-1], 59999)
        self.assertLess(len(numbers), 60000)
        self.assertIn(b"are no longer in the log or the archive", err)

    def stats(self):
        return self.broker.queue_stats(None)

    def fill(self, first, end):
        lines = "".join(f'{{"queue":"q","key":"k{number}","delay_ms":3600000}}\n' for number in range(first, end))
        self.broker.ok("schedule", "--from", "-", stdin=lines)


if __name__ == "__main__":
    harness.main()
