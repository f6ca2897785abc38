"""timers_test.py: lets every deadline pass that is too long to wait for, also in the sanitized build: hours pass at once
(passing.py). tests/README.md lists all timers with their tests.
"""
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

import harness
import pair
import ports
import tokens
import wire
from beanstalk import Client
from harness import Case, wait_until
from http_client import Http
from passing import Passing
from principals import Access
from tokens import row
from webhooks_test import Pushed
from wire import BACKUP, COMMIT, FORGOTTEN, OK, commit, schedule

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/crash")
from fault import FOR_EVER, Fault  # noqa: E402  (the path above)

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 24 * 3600


class Passes(Case):
    """A broker for which `go_on` lets time pass."""

    autostart = False

    def setUp(self):
        super().setUp()
        self.passing = Passing(self.path("passed"))
        self.broker.env.update(self.passing.env())

    def go_on(self, seconds, step_s=None, until=None):
        """Lets time pass. Without `step_s`, time jumps by `seconds`, and the call waits until the core has noticed. After such
        a jump the broker reads its input before it acts on deadlines (F-13). With `step_s`, time passes in steps until
        `until` is true. Each step is long enough for the threads to notice.
        """
        if step_s is None:
            self.passing.go_on(seconds)
            now_ms = self.passing.now_ms() - 1000
            wait_until("it is that late", lambda: self.broker.queue_stats(None)["now_ms"] >= now_ms, 20)
            return
        for _ in range(round(seconds / step_s)):
            self.passing.go_on(step_s)
            time.sleep(0.04)
            if until is not None and until():
                return


class Webhooks(Pushed, Passes):
    """Pushed.setUp makes the broker, so time can pass only after it."""

    def setUp(self):
        self.brokers = []
        super().setUp()

    def prepare(self):
        self.passing = Passing(self.path("passed"))
        self.broker.env.update(self.passing.env())

    def delivered(self, key, count):
        self.schedule(key)
        self.target.wait(count)
        self.wait_state(key, "acked")

    def test_an_idle_queue_is_asked_for_again_after_ten_minutes(self):
        """Checks the timers GATEWAY_WAIT_MAX_MS, PUSH_CONNECTION_MAX_S, and POLL_MS of the sender."""
        self.push()
        self.delivered("a", 1)
        for n in range(3):
            self.go_on(11 * MINUTE_S)
            self.delivered(f"later-{n}", 2 + n)
        self.assertNotEqual(self.target.requests[0].connection, self.target.requests[-1].connection, "no connection lasts longer than 300 s")

    def test_a_target_says_how_long_it_is_to_be_left_alone(self):
        """Checks PUSH_LATER_MAX_MS, with a Retry-After of a day."""
        self.target.answer = lambda handler, request: handler.reply(503, **{"Retry-After": str(DAY_S)})
        self.push()
        self.schedule("a")
        wait_until("it rests", lambda: (self.health() or {}).get("resting_until_ms"), 20)
        self.target.answer = lambda handler, request: handler.reply(204)
        self.go_on(DAY_S - HOUR_S)
        self.assertEqual(self.state("a"), "pending")
        self.go_on(HOUR_S + MINUTE_S)
        self.wait_state("a", "acked")


class Web(Passes):
    def setUp(self):
        super().setUp()
        self.broker.start()

    @property
    def http(self):
        """Returns a new connection, because the broker ends a connection that was idle for a minute."""
        http = Http(self.broker.port, tokens.ADMIN)
        self.addCleanup(http.close)
        return http

    def test_a_long_poll_ends_after_its_ten_minutes(self):
        answer = []
        poll = threading.Thread(target=lambda: answer.append(self.http.ask("POST", "/v1/queues/q/lease", {"max": 1, "wait": "600s"})))
        poll.start()
        wait_until("it waits", lambda: self.broker.queue_stats(None)["sessions"], 20)
        self.go_on(500, 100)
        self.assertTrue(poll.is_alive(), answer)
        self.go_on(110, 5, lambda: not poll.is_alive())
        poll.join(20)
        self.assertEqual(answer, [(200, {"tasks": []})])

    def test_each_minute_is_counted(self):
        """Checks MINUTE_MS of http_minutes.c."""
        minutes = lambda: self.http.ask("GET", "/v1/minutes")[1]  # noqa: E731
        self.broker.ok("schedule", "q", "--in", "1h", "--key", "a")
        self.go_on(MINUTE_S + 1)
        wait_until("a minute is counted", lambda: len(minutes()["at_ms"]) >= 1, 20)
        before = len(minutes()["at_ms"])
        self.broker.ok("schedule", "q", "--in", "1h", "--key", "b")
        self.go_on(MINUTE_S + 1)
        wait_until("another minute is counted", lambda: len(minutes()["at_ms"]) > before, 20)
        counted = minutes()
        self.assertEqual((sum(counted["scheduled"]), counted["pending"][-1]), (2, 2))
        self.assertGreaterEqual(counted["at_ms"][-1] - counted["at_ms"][0], MINUTE_S * 1000)

    def ends(self, sent, after_s):
        """Sends `sent` on a new connection, and lets `after_s` seconds pass. Returns what the broker sends before it closes
        the connection.
        """
        with socket.create_connection(("127.0.0.1", self.broker.port), 20) as peer:
            peer.sendall(sent)
            time.sleep(0.2)
            self.go_on(after_s + 2, 1)
            said = b""
            while part := peer.recv(65536):
                said += part
            return said

    def test_half_a_head_half_a_body_and_silence_end_a_connection(self):
        """Checks the HTTP timers HEAD_MS, BODY_MS, REST_MS."""
        whole = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n"
        self.assertEqual(self.ends(whole, 10), b"", "there is no request to answer")
        body = f"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {tokens.ADMIN}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode()
        self.assertEqual(self.ends(body, 30), b"")
        said = self.ends(whole + b"\r\n", 60)
        self.assertEqual(said.count(b"HTTP/1.1 "), 1, "no second answer")

    def test_a_lane_ends_ten_seconds_after_its_session(self):
        """Checks DOOR_LINGER_S: the client reads nothing and does not answer the WebSocket Close."""
        rpc = self.rpc_of_admin()
        session = wire.Session(rpc, ["q"])
        lane = session.dial()
        self.addCleanup(lane.close)
        self.assertEqual(session.heartbeat(), OK)
        self.assertEqual(rpc.ask(wire.UNSUBSCRIBE, [(1, session.id)])[0], OK)
        lane.peer.settimeout(0.5)
        with self.assertRaises(TimeoutError):
            while lane.peer.recv(65536):
                pass
        self.go_on(12, 1)
        lane.peer.settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            while lane.peer.recv(65536):
                pass

    def test_a_queue_is_paused_for_an_hour_and_a_task_expires(self):
        self.broker.ok("queue", "pause", "q", "--for", "1h")
        self.broker.ok("schedule", "q", "--key", "k", "--in", "0s")
        self.broker.ok("schedule", "q", "--key", "old", "--in", "2h", "--expires", "10m")
        self.broker.ok("schedule", "q", "--key", "far", "--in", "30d")
        self.assertEqual(self.http.ask("POST", "/v1/queues/q/lease", {"max": 9}), (200, {"tasks": []}))
        self.go_on(HOUR_S)

        def lease():
            _, answer = self.http.ask("POST", "/v1/queues/q/lease", {"max": 9, "lease": "24h"})
            return [task["key"] for task in answer["tasks"]]
        self.assertEqual(wait_until("the pause is over", lease, 20), ["k"])
        self.go_on(DAY_S + MINUTE_S)  # the lease has ended, and the task "old" has expired
        self.assertEqual(wait_until("the lease of a day is over", lease, 20), ["k"])
        self.assertEqual(self.broker.one("get", "q", "old")["state"], "expired")
        self.go_on(29 * DAY_S)
        self.assertEqual(sorted(wait_until("the task of a month", lease, 20)), ["far", "k"])

    def test_endings_are_forgotten_after_an_hour(self):
        self.broker.ok("schedule", "q", "--key", "k", "--in", "2h")
        self.broker.ok("cancel", "q", "k")
        self.assertEqual(self.http.ask("GET", "/v1/queues/q/tasks/k")[1]["state"], "cancelled")
        self.go_on(HOUR_S + MINUTE_S)
        self.broker.ok("schedule", "q", "--key", "next", "--in", "2h")
        self.broker.ok("cancel", "q", "next")  # when a new outcome is stored, outcomes that are too old are deleted
        status, answer = self.http.ask("GET", "/v1/queues/q/tasks/k")
        self.assertEqual(status, 404, answer)

    def test_an_idle_producer_is_forgotten_after_a_day(self):
        """Checks PRODUCER_IDLE_MS in the core and in the gateway, also for the gateway's own producers. A principal has at
        most 8 producers there (PRODUCERS_EACH).
        """
        for n in range(10):
            rpc = self.rpc_of_admin()
            producer = rpc.hello()
            self.assertEqual(rpc.ask(COMMIT, commit(producer, 1, [schedule("q")]))[0], OK)
            self.assertEqual(self.http.ask("POST", "/v1/queues/q/tasks", {"key": f"k{n}", "in": "1h"})[0], 201)
            self.assertEqual(self.http.ask("POST", "/v1/queues/q/tasks", {"key": f"o{n}", "in": "1h"}, {"Idempotency-Key": f"n{n}"})[0], 201)
            self.go_on(DAY_S + MINUTE_S)
            other = self.rpc_of_admin()
            other.hello()
            self.assertEqual(other.ask(COMMIT, commit(producer, 2, [schedule("q")], 2))[0], FORGOTTEN)

    def rpc_of_admin(self):
        rpc = wire.Rpc(self.broker.port, tokens.ADMIN)
        self.addCleanup(rpc.close)
        return rpc

    def test_an_idle_backup_ends_after_a_minute(self):
        """Checks BACKUP_IDLE_MS. Time in which the process was stopped does not count (F-13), so the minute passes in small
        steps.
        """
        rpc = self.rpc_of_admin()
        code, reply = rpc.ask(BACKUP, [(1, 1)])
        self.assertEqual(code, OK)
        number = wire.number(wire.decode(reply), 1)
        self.go_on(50, 1)
        self.assertFalse([line for line in self.broker.log if "event=backup_ended" in line and f"backup={number}" in line])
        self.go_on(60, 1, lambda: any("idle" in line for line in self.broker.log))
        self.broker.wait_logged("idle")
        self.assertNotEqual(self.rpc_of_admin().ask(BACKUP, [(1, 2), (2, number)])[0], OK)


class Tokens(Access, Passes):
    def begin(self, *rows):
        self.passing = Passing(self.path("passed"))
        self.broker.env.update(self.passing.env())
        if rows:
            super().begin(*rows)
        else:
            self.broker.start()

    def test_a_token_expires_in_the_middle_of_its_use(self):
        self.begin(row("late", "read", f"expires={int(time.time()) + HOUR_S}"), row("other", "read"))
        late, other = self.of("late"), self.of("other")
        self.assertEqual(late.ask(wire.QUEUES, [])[0], OK)
        self.go_on(HOUR_S + 1)
        self.assertTrue(late.is_closed_by_peer(20))
        self.assertEqual(other.ask(wire.QUEUES, [])[0], OK)

    def test_a_file_that_changes_where_no_notice_comes_from_is_read_within_ten_seconds(self):
        """Checks LOOK_MS. The path of the file of tokens is a symbolic link. The kernel reports changes in the link's
        directory, but the file itself is in another directory. So the broker must look at the file regularly.
        """
        elsewhere = self.path("elsewhere")
        os.mkdir(elsewhere)
        harness.make_private(os.path.join(elsewhere, "tokens"), tokens.FIRST_LINE + row("shop", "read"))
        os.symlink(os.path.join(elsewhere, "tokens"), self.tokens)
        self.begin()
        harness.make_private(os.path.join(elsewhere, "tokens.new"), tokens.FIRST_LINE + row("late", "read"))
        os.rename(os.path.join(elsewhere, "tokens.new"), os.path.join(elsewhere, "tokens"))
        self.go_on(11)
        self.broker.wait_logged("event=tokens_read")
        self.assertEqual(self.of("late").ask(wire.QUEUES, [])[0], OK)

    def test_wrong_tokens_are_counted_for_a_minute_and_told_after_it(self):
        """Checks FAILURES_WINDOW_S and REFUSALS_AGAIN_MS."""
        self.begin(row("other", "read"))

        def wrong():
            with wire.WebSocket(self.broker.port, "/rpc", headers=wire.bearer("tarry_nobodys")) as upgrade:
                return int(upgrade.answer.split()[1])
        self.assertEqual([wrong() for _ in range(12)], [401] * 10 + [429] * 2)

        def told():
            _, records = Http(self.broker.port, tokens.text_of("other")).ask("GET", "/v1/audit")
            return sum(record["count"] for record in records if record["kind"] == "access_refused")
        wait_until("the first is told at once", lambda: told() >= 1, 20)
        self.go_on(MINUTE_S + 1)
        wait_until("the others are told a minute later", lambda: told() == 12, 20)
        self.assertEqual(wrong(), 401, "another window")


class Tubes(Passes):
    def setUp(self):
        super().setUp()
        self.broker.arguments += ["--listen", "beanstalk://127.0.0.1:0"]
        self.broker.start()
        self.port = next(int(url.rsplit(":", 1)[1]) for url in self.broker.ready["urls"].split() if url.startswith("beanstalk://"))
        self.client = Client(self.port)
        self.addCleanup(self.client.close)

    def test_delays_pauses_and_reserves_of_hours(self):
        job = self.client.put(b"x", delay=DAY_S, ttr=7200)
        self.client.send(b"reserve-with-timeout 7200\r\n")
        with Client(self.port) as other:
            wait_until("it waits", lambda: b"current-waiting: 1" in other.ask("stats"), 20)
        self.go_on(2 * HOUR_S + 1, 15 * MINUTE_S + 1)
        self.assertEqual(self.client.reply(), b"TIMED_OUT\r\n")
        self.go_on(DAY_S)
        self.assertEqual(self.client.ask("reserve-with-timeout 5").split()[:2], [b"RESERVED", str(job).encode()])
        self.go_on(HOUR_S, 4)  # the broker extends the job's lease of 10 s every 5 s while the time passes
        with Client(self.port) as other:
            self.assertEqual(other.ask("reserve-with-timeout 0"), b"TIMED_OUT\r\n", "it is reserved for two hours")
            self.assertEqual(self.client.ask("pause-tube default 3600"), b"PAUSED\r\n")
            self.go_on(HOUR_S + 2, 4)
            self.assertEqual(other.ask("reserve-with-timeout 20").split()[:2], [b"RESERVED", str(job).encode()], "its two hours and the pause are over")


class Tool(Case):
    autostart = False

    def test_a_wait_for_a_broker_is_told_again_each_minute(self):
        """Checks SAID_EVERY_MS of the tool."""
        passing = Passing(self.path("passed"))
        environment = {**os.environ, **passing.env()}
        url = f"ws://127.0.0.1:{ports.free_port()}"
        command = [harness.find_program("tarry"), "schedule", "q", "--in", "1h", "--timeout", "10m", "--broker", url]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as tool:
            for _ in range(3):
                self.assertIn("no broker answers", tool.stderr.readline())
                passing.go_on(61)
            passing.go_on(600)
            self.assertEqual(tool.wait(30), 3)


class History(Passes):
    """Checks deadlines of weeks: of retiring, pruning and signing."""

    def setUp(self):
        super().setUp()
        self.broker.arguments += ["--segment-size", "1MiB", "--retain-log-age", "7d", "--retain-log-size", "1GiB", "--retain-archive-age", "90d", "--archive",
                                  self.path("archive"), "--sign-key", self.path("sign.key")]
        os.mkdir(self.path("archive"))
        subprocess.run([harness.find_program("tarry"), "keygen", self.path("sign.key")], stdout=subprocess.DEVNULL, check=True)
        self.broker.start()

    def segments(self, where):
        return sorted(name for name in os.listdir(where) if ".seg" in name)

    def fill(self):
        """Fills some segments with tasks that end at once."""
        body = os.urandom(100_000).hex()
        lines = "".join(json.dumps({"queue": "q", "key": f"k{number}", "delay_ms": HOUR_S * 1000, "body": body}) + "\n" for number in range(14))
        self.broker.ok("schedule", "--from", "-", stdin=lines)
        self.broker.ok("queue", "purge", "q")

    def test_a_broker_that_only_inspects_waits_for_hours(self):
        """INSPECT_WAIT_NS."""
        self.fill()
        self.broker.stop()
        self.broker.arguments = ["--inspect"]
        self.broker.start()
        for _ in range(3):
            self.passing.go_on(HOUR_S + 1)
            time.sleep(0.1)
            self.assertEqual(len(self.broker.ok("list", "q")), 0)

    def test_a_head_that_cannot_be_written_is_signed_a_minute_later(self):
        self.broker.stop()
        fault = Fault(self.directory, self.broker.data, "data.pwrite+data.write", "EIO")
        passing = self.broker.env["LD_PRELOAD"]
        self.broker.env.update(fault.env())
        self.broker.env["LD_PRELOAD"] += ":" + passing
        self.broker.start()
        self.broker.ok("schedule", "q", "--in", "1h")
        heads = os.path.join(self.broker.data, "heads")
        wait_until("the first head", lambda: os.path.exists(heads) and os.path.getsize(heads) > 0, 20)
        size = os.path.getsize(heads)
        fault.arm(1, FOR_EVER)
        self.broker.ok("schedule", "q", "--in", "1h")
        self.go_on(MINUTE_S + 1)
        self.broker.wait_logged("event=head_failed")
        fault.disarm()
        self.assertEqual(os.path.getsize(heads), size)
        self.go_on(MINUTE_S + 1)
        wait_until("it is signed", lambda: os.path.getsize(heads) > size, 20)

    def test_an_archive_that_is_not_there_is_told_of_each_minute(self):
        """Checks RETRY_NS and SAY_NS of the archivist."""
        self.broker.stop()
        archive = self.path("archive")
        os.rename(archive, archive + ".away")
        self.broker.arguments[self.broker.arguments.index("7d")] = "1s"
        self.broker.start()
        self.fill()

        def complaints():
            return sum("event=archive_failed" in line for line in self.broker.log)
        for count in (1, 2, 3):
            self.go_on(5 * MINUTE_S, MINUTE_S / 2, lambda count=count: complaints() >= count)
            wait_until("it is told", lambda count=count: complaints() >= count, 20)
        os.rename(archive + ".away", archive)
        self.go_on(5 * MINUTE_S, MINUTE_S / 2, lambda: any("event=archive_resumed" in line for line in self.broker.log))
        self.broker.wait_logged("event=archive_resumed")

    def test_segments_retire_after_a_week_and_leave_the_archive_after_a_season(self):
        log, archive = os.path.join(self.broker.data, "log"), self.path("archive")
        self.fill()
        first = self.segments(log)[0]
        heads = os.path.join(self.broker.data, "heads")
        wait_until("a head is signed", lambda: os.path.exists(heads) and os.path.getsize(heads) > 0, 20)
        size = os.path.getsize(heads)
        self.broker.ok("schedule", "q", "--key", "news", "--in", "1h")
        self.go_on(MINUTE_S + 1)
        wait_until("the next head, a minute later", lambda: os.path.getsize(heads) > size, 20)
        self.go_on(6 * DAY_S)
        self.assertIn(first, self.segments(log))
        self.go_on(DAY_S + HOUR_S)
        self.go_on(10 * MINUTE_S, MINUTE_S, lambda: first not in self.segments(log))
        wait_until("it retires", lambda: first not in self.segments(log), 20)
        wait_until("it is archived", lambda: any(name.startswith(first) for name in self.segments(archive)), 20)
        self.go_on(82 * DAY_S)
        self.go_on(2 * MINUTE_S + 2, MINUTE_S + 1)
        self.assertTrue(any(name.startswith(first) for name in self.segments(archive)), "89 days")
        self.go_on(8 * DAY_S)
        self.go_on(10 * MINUTE_S, MINUTE_S + 1, lambda: not any(name.startswith(first) for name in self.segments(archive)))
        wait_until("it is pruned", lambda: not any(name.startswith(first) for name in self.segments(archive)), 20)


class Pairs(pair.Case):
    """Time passes for both nodes at once, as if the machine with both had been suspended."""

    arguments = ("--failover-after", "3s", "--solo-after", "3s", "--segment-size", "1MiB", "--retain-log-size", "0")

    def setUp(self):
        super().setUp()
        self.passing = Passing(self.path("passed"))
        for broker in self.brokers:
            broker.env.update(self.passing.env())
        self.start_pair()

    def once(self, key):
        http = Http(self.a.port, tokens.ADMIN)
        try:
            return http.ask("POST", "/v1/queues/q/tasks", {"key": key, "in": "1h"}, {"Idempotency-Key": key})[0]
        finally:
            http.close()

    def receipts(self, broker):
        return [item["pending"] + item["ready"] + item["in_flight"] for item in broker.one("stats", "--from-follower", "--broker", broker.url)["queues"]
                if item["name"] == "tarry.once"]

    def test_a_day_changes_no_role_and_only_the_leader_sweeps(self):
        self.assertEqual([self.once(f"k{n}") for n in range(3)], [201] * 3)
        self.passing.go_on(DAY_S)

        def swept():
            """Waits for a sweep. A sweep takes several requests, and time must not jump during these."""
            self.passing.go_on(10 * MINUTE_S)
            try:
                return harness.wait_until("a sweep", lambda: self.receipts(self.a) == [0], 3)
            except AssertionError:
                return False
        self.wait_for("the receipts are acknowledged", swept, 60)
        self.wait_for("... at the follower, too", lambda: self.receipts(self.b) == [0])
        self.wait_for("both in sync", lambda: self.a.tarry("status").one["in_sync"])
        self.assertFalse([line for line in self.b.log if "role=leading" in line], "nothing has happened")
        self.assertEqual(self.once("another"), 201)

    def test_what_a_lost_follower_lacks_is_kept_for_ten_minutes(self):
        """FOLLOW_KEEP_MS."""
        self.b.stop()
        self.wait_log(self.a, "event=serves_alone level", 2)
        log = os.path.join(self.a.data, "log")

        def segments():
            return sorted(name for name in os.listdir(log) if name.endswith(".seg"))
        first = segments()[0]
        lines = "".join(json.dumps({"queue": "q", "key": f"k{number}", "delay_ms": HOUR_S * 1000, "body": "x" * 200_000}) + "\n" for number in range(14))
        self.a.ok("schedule", "--from", "-", stdin=lines)
        self.a.ok("queue", "purge", "q")
        for _ in range(8):
            self.passing.go_on(MINUTE_S)
            time.sleep(0.2)
        self.assertIn(first, segments())
        self.wait_for("it retires", lambda: self.passing.go_on(MINUTE_S / 4) or first not in segments(), 60)
        self.b.start()  # the follower begins with a snapshot
        self.wait_in_sync()


if __name__ == "__main__":
    harness.main()
