"""outage_test.py: commands that run until they are ended (consume, --from, --watch, --follow) wait during an outage of the
broker, report it, and continue; other commands report after one second that no broker answers, and why."""
import os
import pty
import signal
import subprocess
import time

import harness
from frozen import freeze, thaw
from harness import Case
from ports import free_port

OUTAGE_S = 11.5  # longer than the default timeout of a call, 10 s


class Waiting(Case):
    """Runs without --timeout, which the harness would add."""

    def lasting(self, *arguments, stdin=False):
        command = [harness.find_program("tarry"), *arguments, "--broker", self.broker.url, "--json"]
        stream = harness.Stream(command, dict(os.environ), stdin)
        self.broker.streams.append(stream)
        return stream

    def hear(self, stream, words, wait_s=harness.ANSWER_WAIT_S):
        harness.wait_until(f"'{words}' on standard error", lambda: words in "".join(stream.errors), wait_s)

    def wait_followed(self, audit, schedule):
        """Schedules tasks until the audit prints one. The audit prints only records made after its request arrived, so the
        printed task shows that it follows.
        """
        def is_heard():
            schedule.send({"queue": "q", "delay_ms": 3_600_000})
            return schedule.next()["result"] == "scheduled" and not audit.lines.empty()
        harness.wait_until("the audit follows", is_heard, harness.ANSWER_WAIT_S)
        audit.next()

    def test_what_goes_on_waits_for_a_broker_that_goes_away(self):
        streams = {"consume": self.lasting("consume", "q"),
                   "schedule": self.lasting("schedule", "--from", "-", stdin=True),
                   "stats": self.lasting("stats", "--watch"),
                   "audit": self.lasting("audit", "--follow")}
        streams["schedule"].send({"queue": "q", "key": "before", "delay_ms": 0})
        self.assertEqual(streams["schedule"].next()["result"], "scheduled")
        self.assertEqual(streams["consume"].next()["key"], "before")
        streams["stats"].take(2)
        self.wait_followed(streams["audit"], streams["schedule"])
        self.broker.kill()
        gone = time.monotonic()
        streams["schedule"].send({"queue": "q", "key": "meanwhile", "delay_ms": 0})
        for name, stream in streams.items():
            with self.subTest(name):
                self.hear(stream, "no broker answers; retrying")
                self.assertIn("refused", "".join(stream.errors))
        while not streams["stats"].lines.empty():
            streams["stats"].next()
        # Without a new reply, old numbers are not printed again.
        self.assertTrue(streams["stats"].quiet_for(max(3, OUTAGE_S - (time.monotonic() - gone))))
        for name, stream in streams.items():
            self.assertIsNone(stream.process.poll(), f"{name} gave up: {''.join(stream.errors)}")
        self.broker.start()
        self.assertEqual(streams["schedule"].next()["result"], "scheduled")
        self.assertEqual(streams["consume"].next()["key"], "meanwhile")
        self.assertIn("queues", streams["stats"].next())
        for name, stream in streams.items():
            with self.subTest(name):
                self.hear(stream, "answers again, after 1")

    def test_none_at_the_start_is_said_after_a_second_and_given_up_in_time(self):
        nobody = f"ws://127.0.0.1:{free_port()}"
        for arguments in (["stats"], ["stats", "--watch"], ["schedule", "q", "--in", "1s"], ["consume", "q"], ["audit", "--follow"],
                          ["schedule", "--from", "-"]):
            with self.subTest(" ".join(arguments)):
                started = time.monotonic()
                done = subprocess.run([harness.find_program("tarry"), *arguments, "--broker", nobody, "--timeout", "1500ms"],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                                      timeout=harness.ANSWER_WAIT_S)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertGreaterEqual(time.monotonic() - started, 1.4)
                self.assertIn("no broker answers; giving up after 1s500ms", done.stderr)
                self.assertIn(f"{nobody}: ", done.stderr)

    def test_a_timeout_that_was_given_ends_an_outage(self):
        streams = {"consume": self.lasting("consume", "q", "--timeout", "2s"),
                   "schedule": self.lasting("schedule", "--from", "-", "--timeout", "2s", stdin=True),
                   "stats": self.lasting("stats", "--watch", "--timeout", "2s")}
        streams["stats"].take(2)
        streams["schedule"].send({"queue": "q", "key": "before", "delay_ms": 0})
        self.assertEqual(streams["schedule"].next()["result"], "scheduled")
        self.assertEqual(streams["consume"].next()["key"], "before")
        self.broker.kill()
        streams["schedule"].send({"queue": "q", "key": "never", "delay_ms": 0})
        for name, stream in streams.items():
            with self.subTest(name):
                self.assertEqual(stream.wait(), 3)

    def test_a_wait_without_an_end_is_ended_by_a_signal(self):
        """`consume` and `schedule --from` both have unanswered requests. After a signal they end within 10 s and report an
        unknown outcome.
        """
        self.broker.one("schedule", "q", "--key", "first", "--in", "0s")
        consumer = self.lasting("consume", "q", "--exec", "cat; sleep 1")
        producer = self.lasting("schedule", "--from", "-", stdin=True)
        self.assertEqual(consumer.next()["key"], "first")
        producer.send({"queue": "q", "key": "second", "delay_ms": 3_600_000})
        self.assertEqual(producer.next()["result"], "scheduled")
        freeze(self.broker.process)
        try:
            producer.send({"queue": "q", "key": "third", "delay_ms": 3_600_000})
            for stream in (consumer, producer):
                self.hear(stream, "no broker answers; retrying")  # the request is in flight, and the connection is open
            for stream in (consumer, producer):
                stream.signal(signal.SIGTERM)
            self.assertEqual((consumer.wait(), producer.wait()), (3, 1))
        finally:
            thaw(self.broker.process)
        answer = producer.next()
        self.assertEqual((answer["line"], answer["result"], answer["code"]), (2, "error", "closed"))
        self.assertIn("interrupted after line 2", "".join(producer.errors))

    def test_an_idle_audit_is_no_silence(self):
        """The broker answers the audit's request only after seconds, when there is a record. The tool must not report an
        outage.
        """
        stream = self.lasting("audit", "--follow")
        time.sleep(7)
        self.broker.one("schedule", "q", "--in", "1h")
        stream.take(1)
        self.assertEqual("".join(stream.errors), "")


class Screen(Case):
    def read_until(self, fd, words):
        seen = b""
        end = time.monotonic() + harness.ANSWER_WAIT_S
        while words.encode() not in seen:
            self.assertLess(time.monotonic(), end, f"no '{words}' in {seen[-2000:]}")
            seen += os.read(fd, 65536)
        return seen.decode(errors="replace")

    def test_stale_numbers_say_how_old_they_are(self):
        self.broker.one("schedule", "q", "--in", "1h")
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = subprocess.Popen([harness.find_program("tarry"), "stats", "--watch", "--broker", self.broker.url],
                                   stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
        os.close(slave)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.read_until(master, "PENDING")
        self.broker.kill()
        stale = self.read_until(master, "THESE NUMBERS ARE 2s OLD")
        self.assertIn("refused", stale)
        self.assertNotIn("retrying", stale)  # the screen of --watch itself shows the outage
        self.broker.start()
        self.read_until(master, "per second")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(harness.ANSWER_WAIT_S), 0)


if __name__ == "__main__":
    harness.main()
