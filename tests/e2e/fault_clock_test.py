"""fault_clock_test.py: the machine's clocks misbehave under a real broker (F-32 … F-36). clock.py changes them. The test's own
monotonic clock decides what is early: a delayed task may not come before its delay has passed, whatever the wall clock shows.
An absolute time is judged by the wall clock that the broker sees."""
import datetime
import json
import threading
import time

import harness
from clock import Clock
from harness import Case

HOUR, DAY, YEAR = 3600, 86400, 365 * 86400
WAIT_S = 60


def utc_s(text):
    return datetime.datetime.fromisoformat(text + "+00:00").timestamp()


class Clocked(Case):
    autostart = False
    start_at = None  # wall clock at the first start

    def setUp(self):
        super().setUp()
        self.clock = Clock(self.path("clock"))
        self.broker.env.update(self.clock.env())
        if self.start_at:
            self.clock.set(utc_s(self.start_at))
        self.broker.start()
        self.asked = {}

    def ask(self, queue_name, delays_s):
        """Schedules delayed tasks, and notes the time of each request."""
        lines = [json.dumps({"queue": queue_name, "key": f"{queue_name}-{i}", "delay_ms": round(delay * 1000)})
                 for i, delay in enumerate(delays_s)]
        asked_s = time.monotonic()
        for answer, delay in zip(self.broker.ok("schedule", "--from", "-", stdin="\n".join(lines)), delays_s):
            self.assertEqual(answer["result"], "scheduled")
            self.asked[answer["id"]] = asked_s + delay

    def at(self, key, due_ms, queue_name="wall"):
        return self.broker.one("schedule", queue_name, "--key", key, "--due-ms", round(due_ms))

    def assert_none_early(self, deliveries, arrived_s):
        for delivery in deliveries:
            if arrived_s < self.asked[delivery["id"]] or delivery["delivered_ms"] < delivery["due_ms"]:
                raise harness.Broken(f"TIME-1: arrived {arrived_s}, asked for {self.asked[delivery['id']]}: {delivery}")

    def take_all(self, consumer, count):
        """Takes `count` delayed tasks, and checks the time of each arrival."""
        for _ in range(count):
            delivery = consumer.next(WAIT_S)
            self.assert_none_early([delivery], time.monotonic())

    def wait_event(self, name, since=0):
        """Waits for the event in the broker's log. Returns the number of log lines so far."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            if any(f"event={name}" in line.split() for line in self.broker.log[since:]):
                return len(self.broker.log)
            time.sleep(0.02)
        raise AssertionError(f"no event={name}: {self.broker.log_text()}")

    def is_held(self):
        return self.broker.queue_stats(None)["clock_held"]

    def assert_waits(self, queue_name, count):
        """Checks that no task of the queue leaves, although a consumer waits."""
        self.assertEqual(self.broker.ok("consume", queue_name, "--for", "700ms"), [])
        stats = self.broker.queue_stats(queue_name)
        self.assertEqual((stats["pending"], stats["delivered"]), (count, 0))


class Jumps(Clocked):
    def test_no_jump_within_a_run_fires_a_delay_early(self):
        """F-32, TIME-1: forty delays and a lease are pending while the wall clock jumps by ±1 s, ±1 h, ±10 years."""
        delays = [0.2 + 0.07 * i for i in range(40)]
        self.ask("q", delays)
        consumer = self.broker.consume("q", "--count", len(delays))
        self.broker.one("schedule", "leased", "--in", "0s")
        leased_s = time.monotonic()
        self.broker.one("consume", "leased", "--count", 1, "--ack", "none", "--lease", "6s")
        again = self.broker.consume("leased")
        stopped = threading.Event()

        def jumps():
            for size in (1, HOUR, 10 * YEAR) * 100:
                for seconds in (size, -size, -size, size):
                    self.clock.jump(seconds)
                    if stopped.wait(0.05):
                        return

        jumper = threading.Thread(target=jumps)
        jumper.start()
        try:
            self.take_all(consumer, len(delays))
            self.assertEqual(again.next(WAIT_S)["attempt"], 2)
            self.assertGreaterEqual(time.monotonic() - leased_s, 6, "the lease ended early")
        finally:
            stopped.set()
            jumper.join()

    def test_absolute_times_wait_while_a_jump_is_not_believed(self):
        """F-32, TIME-2: the clock jumps ten years ahead within a run: absolute times wait, with a warning in the log; delays
        continue. When the clock is corrected, absolute times continue, in order and not early."""
        now_ms = self.clock.now_ms()
        self.broker.ok("schedule", "--from", "-", stdin="\n".join(
            json.dumps({"queue": "wall", "key": key, "due_ms": now_ms + delay_ms})
            for key, delay_ms in (("c", 8500), ("a", 7500), ("b", 8000), ("far", 9 * YEAR * 1000))))
        self.clock.jump(10 * YEAR)
        self.wait_event("clock_held")
        self.assertTrue(self.is_held())
        self.ask("delays", [0.5])
        self.take_all(self.broker.consume("delays"), 1)
        while harness.now_ms() < now_ms + 8500:
            time.sleep(0.05)  # waits until all tasks but one would be due
        self.assert_waits("wall", 4)
        self.clock.jump(-10 * YEAR)
        self.wait_event("clock_released")
        got = self.broker.ok("consume", "wall", "--count", 3)
        self.assertEqual([delivery["key"] for delivery in got], ["a", "b", "c"])
        for delivery in got:
            self.assert_not_early(delivery)
        self.assertFalse(self.is_held())

    def test_an_hour_is_believed_and_a_little_more_is_not(self):
        """F-32: the broker accepts a clock that is set forward by less than an hour, and delivers the tasks that are due. A
        step of an hour and ten seconds counts as a jump. If the clock is set back, logical wall time stands still until the
        clock reaches it again.
        """
        now_ms = self.clock.now_ms()
        self.at("within", now_ms + 1800_000)
        self.at("after", now_ms + 3 * HOUR * 1000)
        self.clock.jump(HOUR - 10)
        delivery = self.broker.one("consume", "wall", "--count", 1)
        self.assertEqual(delivery["key"], "within")
        self.assertGreaterEqual(delivery["delivered_ms"], delivery["due_ms"])
        self.clock.jump(HOUR + 10)
        self.wait_event("clock_held")
        self.assert_waits_for_more("wall")
        self.clock.jump(-HOUR - 10)
        since = self.wait_event("clock_released")
        self.at("soon", self.clock.now_ms() + 30_000, "back")
        self.clock.jump(-1800)
        self.assert_waits("back", 1)
        self.clock.jump(1800 + 30)
        self.assertEqual(self.broker.one("consume", "back", "--count", 1)["key"], "soon")
        self.assertNotIn("event=clock_held", " ".join(self.broker.log[since:]), "half an hour back is no jump")

    def assert_waits_for_more(self, queue_name):
        self.assertEqual(self.broker.ok("consume", queue_name, "--for", "500ms"), [])


class Restarts(Clocked):
    def test_no_jump_across_restarts_fires_a_delay_early(self):
        """F-32, TIME-1: the broker is killed or stopped, the wall clock is set, and the broker starts again: within one boot of
        the machine, BOOTTIME determines delays."""
        self.ask("q", [2.0, 4.0, 6.0, 8.0])
        consumer = self.broker.consume("q", "--count", 4, "--timeout", "60s")
        for number, seconds in enumerate((1, -1, HOUR, -HOUR, 10 * DAY, -10 * DAY, 10 * YEAR, -10 * YEAR)):
            if number % 2:
                self.broker.kill()
            else:
                self.assertEqual(self.broker.stop(), 0)
            self.clock.jump(seconds)
            self.broker.start()
        self.take_all(consumer, 4)

    def test_a_month_ahead_is_believed_only_by_a_persons_word(self):
        """F-32, TIME-2: the clock is 41 days ahead at a start: absolute times wait. --accept-clock-jump accepts it at one start,
        which the log records; later starts need no option."""
        self.at("in 40 days", self.clock.now_ms() + 40 * DAY * 1000)
        self.ask("delays", [3600.0])
        self.assertEqual(self.broker.stop(), 0)
        self.clock.jump(41 * DAY)
        self.broker.start()
        self.wait_event("clock_held")
        self.assertTrue(self.is_held())
        self.assert_waits("wall", 1)
        self.assertEqual(self.broker.stop(), 0)
        self.broker.arguments += ["--accept-clock-jump", "yes"]
        since = len(self.broker.log)
        self.broker.start()
        self.wait_event("clock_accepted", since)
        self.assertFalse(self.is_held())
        delivery = self.broker.one("consume", "wall", "--count", 1)
        self.assertGreaterEqual(delivery["delivered_ms"], delivery["due_ms"])
        self.assert_waits("delays", 1)
        self.assertEqual(self.broker.stop(), 0)
        said = self.accepted()
        self.assertEqual(len(said), 1, said)
        del self.broker.arguments[-2:]
        since = len(self.broker.log)
        self.broker.start()
        self.assertFalse(self.is_held())
        self.assertNotIn("event=clock_", " ".join(self.broker.log[since:]))
        self.assertEqual(self.broker.stop(), 0)
        self.assertEqual(self.accepted(), said)
        self.broker.start()

    def accepted(self):
        """Returns the clock records in the log of the stopped broker."""
        return self.broker.ok("audit", "--data", self.broker.data, "--kind", "clock_accepted")

    def test_a_clock_that_is_behind_at_the_start(self):
        """F-32: the machine starts in 1970, or ten years ago: nothing is lost, delays continue, absolute times wait until the
        clock has caught up, and logical time never goes back."""
        self.at("soon", self.clock.now_ms() + 600_000)
        self.ask("delays", [2.0])
        last_ms = 0
        for seconds in (-10 * YEAR, -30 * YEAR):
            self.broker.kill()
            self.clock.jump(seconds)
            self.broker.start()
            now_ms = self.broker.queue_stats(None)["now_ms"]
            self.assertGreaterEqual(now_ms, last_ms)
            last_ms = now_ms
        self.assert_waits("wall", 1)
        self.take_all(self.broker.consume("delays"), 1)
        self.clock.jump(40 * YEAR)
        self.clock.jump(1800)  # a jump of less than an hour is accepted
        self.assertEqual(self.broker.one("consume", "wall", "--count", 1)["key"], "soon")


class Slow(Clocked):
    def test_a_smear(self):
        """F-33: the wall clock runs 10 % too fast, then 10 % too slow. Delays are not affected, absolute times follow the wall
        clock, and the broker reports no jump.
        """
        for name, rate_ppm in (("fast", 100_000), ("slow", -100_000)):
            self.clock.smear(rate_ppm)
            self.ask(name, [0.5, 1.0, 1.5])
            base_ms = self.clock.now_ms()
            for number in range(5):
                self.at(f"{name}-{number}", base_ms + 400 * number, f"wall-{name}")
            wall = self.broker.consume(f"wall-{name}", "--count", 5)
            self.take_all(self.broker.consume(name, "--count", 3), 3)
            for number, delivery in enumerate(wall.take(5, WAIT_S)):
                self.assertEqual(delivery["key"], f"{name}-{number}")
                self.assertGreaterEqual(self.clock.now_ms(), delivery["due_ms"], "before the wall clock said so")
        self.assertNotIn("event=clock_", self.broker.log_text())

    def test_a_suspend(self):
        """F-34: the machine is suspended for nearly an hour, then for ten days. At each resume the broker delivers the tasks
        that fell due, and no others. Leases expire. The broker reports no jump.
        """
        self.ask("delays", [HOUR, 10 * DAY + HOUR])
        self.at("at", self.clock.now_ms() + HOUR * 1000)
        self.broker.one("schedule", "leased", "--in", "0s")
        self.broker.one("consume", "leased", "--count", 1, "--ack", "none", "--lease", "30m")
        self.clock.suspend(HOUR - 20)
        self.assert_waits("delays", 2)
        self.assert_waits("wall", 1)
        self.assertEqual(self.broker.one("consume", "leased", "--count", 1)["attempt"], 2)
        self.clock.suspend(20)
        first = self.broker.one("consume", "delays", "--count", 1)
        self.assertEqual(first["key"], "delays-0")
        self.assertGreaterEqual(first["delivered_ms"], first["due_ms"])
        self.assertEqual(self.broker.one("consume", "wall", "--count", 1)["key"], "at")
        self.clock.suspend(10 * DAY)
        self.assertEqual(self.broker.one("consume", "delays", "--count", 1)["key"], "delays-1")
        self.assertNotIn("event=clock_", self.broker.log_text())


class LeapSecond(Clocked):
    start_at = "2028-12-31T23:59:57"

    def test_a_leap_second(self):
        """F-35: the last second of the year happens twice: every task is delivered once, in order, and not early."""
        midnight_ms = utc_s("2029-01-01T00:00:00") * 1000
        offsets = (-1500, -1000, -500, -1, 0, 1, 500, 1000)
        for offset in offsets:
            self.at(f"{offset}", midnight_ms + offset)
        self.ask("delays", [1.0, 2.0, 3.0])
        wall, delays = self.broker.consume("wall", "--count", len(offsets)), self.broker.consume("delays", "--count", 3)
        while self.clock.now_ms() < midnight_ms:
            time.sleep(0.001)
        self.clock.jump(-1)
        got = wall.take(len(offsets), WAIT_S)
        self.assertEqual([delivery["key"] for delivery in got], [str(offset) for offset in offsets])
        for delivery in got:
            self.assertGreaterEqual(delivery["delivered_ms"], delivery["due_ms"])
        self.take_all(delays, 3)
        self.assertNotIn("event=clock_", self.broker.log_text())


class Year2038(Clocked):
    start_at = "2038-01-19T03:14:04"

    def test_the_year_2038(self):
        """F-35: the wall clock passes 2^31 seconds while relative and absolute tasks wait, one of them for ten more years; the
        broker is killed at that moment; log and index stay valid."""
        border_ms = (1 << 31) * 1000
        for offset in (-1000, -1, 0, 1, 1000):
            self.at(f"{offset}", border_ms + offset)
        far = self.at("far", border_ms + 9 * YEAR * 1000)
        self.assertEqual(far["due_ms"], border_ms + 9 * YEAR * 1000)
        self.ask("delays", [2.0, 4.0])
        self.assertEqual(self.broker.one("schedule", "rfc", "--at", "2038-01-19T03:14:08Z")["due_ms"], border_ms)
        while self.clock.now_ms() < border_ms - 500:
            time.sleep(0.01)
        self.broker.restart()
        got = self.broker.ok("consume", "wall", "--count", 5)
        self.assertEqual([delivery["key"] for delivery in got], ["-1000", "-1", "0", "1", "1000"])
        for delivery in got:
            self.assertGreaterEqual(self.clock.now_ms(), delivery["due_ms"])
        self.take_all(self.broker.consume("delays", "--count", 2), 2)
        self.broker.one("consume", "rfc", "--count", 1)
        self.assertEqual(self.broker.stop(), 0)
        self.assertEqual(self.broker.tarry("verify", self.broker.data).status, 0)
        self.broker.start()
        self.assertEqual(self.broker.one("get", "wall", "far")["due_ms"], far["due_ms"])


class Levels(Clocked):
    def test_every_border_of_the_wheel_up_to_ten_years(self):
        """F-36: delays of 64^k - 1, 64^k and 64^k + 1 ms, up to the maximum. Before each due time the machine is suspended,
        and sometimes the broker is killed. Each task comes alone, in order, and not early.
        """
        delays_ms = [base + more for base in (64, 64**2, 64**3, 64**4, 64**5, 64**6, 10 * YEAR * 1000) for more in (-1, 0, 1)]
        begun_s = time.monotonic()
        self.ask("q", [delay_ms / 1000 for delay_ms in delays_ms])
        slept_s = 0.0
        for number, delay_ms in enumerate(delays_ms):
            ahead_s = delay_ms / 1000 - slept_s - (time.monotonic() - begun_s)
            if ahead_s > 1:  # sets the clock to just before the due time
                self.clock.suspend(ahead_s - 0.3)
                slept_s += ahead_s - 0.3
            if delay_ms == 64**4:
                self.broker.restart()
            delivery = self.broker.one("consume", "q", "--count", 1)
            self.assertEqual(delivery["key"], f"q-{number}")
            self.assertGreaterEqual(delivery["delivered_ms"], delivery["due_ms"])
            self.assertGreaterEqual(time.monotonic() - begun_s + slept_s, delay_ms / 1000)
        self.broker.wait_stats("q", pending=0, ready=0, in_flight=0, acked=len(delays_ms))


if __name__ == "__main__":
    harness.main()
