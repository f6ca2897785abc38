"""timers_test.py: each deadline that is too long to wait for fires here, in the sanitized build too: hours pass at once (passing.py). tests/README.md has
the table of all timers, and the test that fires it."""
import json
import os
import socket
import subprocess
import threading
import time

import harness
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

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 24 * 3600


class Passes(Case):
    """A broker for which `go_on` lets time pass."""

    autostart = False

    def setUp(self):
        super().setUp()
        self.passing = Passing(self.path("passed"))
        self.broker.env.update(self.passing.env())

    def go_on(self, seconds, step_s=None, until=None):
        """At once, until the core has noticed it: a process that stood still reads first what came meanwhile (F-13). Or in steps, each of which
        the threads have time to notice, until something has come about."""
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
    """The broker of Pushed is made in its setUp, so time is given to it here."""

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
        """GATEWAY_WAIT_MAX_MS, PUSH_CONNECTION_MAX_S, POLL_MS of the sender."""
        self.push()
        self.delivered("a", 1)
        for n in range(3):
            self.go_on(11 * MINUTE_S)
            self.delivered(f"later-{n}", 2 + n)
        self.assertNotEqual(self.target.requests[0].connection, self.target.requests[-1].connection, "no connection lasts longer than 300 s")

    def test_a_target_says_how_long_it_is_to_be_left_alone(self):
        """Retry-After of a day: PUSH_LATER_MAX_MS."""
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
        """A connection that is new: one that has rested for a minute has ended."""
        http = Http(self.broker.port, tokens.ADMIN)
        self.addCleanup(http.close)
        return http

    def test_a_long_poll_ends_after_its_ten_minutes(self):
        answer = []
        poll = threading.Thread(target=lambda: answer.append(self.http.ask("POST", "/v1/queues/q/lease", {"max": 1, "wait": "600s"})))
        poll.start()
        wait_until("it waits", lambda: self.broker.queue_stats("q"), 20)
        self.go_on(500, 100)
        self.assertTrue(poll.is_alive(), answer)
        self.go_on(110, 5, lambda: not poll.is_alive())
        poll.join(20)
        self.assertEqual(answer, [(200, {"tasks": []})])

    def ends(self, sent, after_s):
        """What the broker says before it ends a connection over which this came."""
        with socket.create_connection(("127.0.0.1", self.broker.port), 20) as peer:
            peer.sendall(sent)
            time.sleep(0.2)
            self.go_on(after_s + 2, 1)
            said = b""
            while part := peer.recv(65536):
                said += part
            return said

    def test_half_a_head_half_a_body_and_silence_end_a_connection(self):
        """HEAD_MS, BODY_MS, REST_MS of HTTP."""
        whole = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n"
        self.assertEqual(self.ends(whole, 10), b"", "there is no request to answer")
        body = f"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {tokens.ADMIN}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode()
        self.assertEqual(self.ends(body, 30), b"")
        said = self.ends(whole + b"\r\n", 60)
        self.assertEqual(said.count(b"HTTP/1.1 "), 1, "no second answer")

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
        self.go_on(DAY_S + MINUTE_S)  # the lease is over, and "old" has expired
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
        self.broker.ok("cancel", "q", "next")  # an ending takes the place of those that are too old
        status, answer = self.http.ask("GET", "/v1/queues/q/tasks/k")
        self.assertEqual(status, 404, answer)

    def test_an_idle_producer_is_forgotten_after_a_day(self):
        """PRODUCER_IDLE_MS, in the core and in the gateway, whose own producers it means, too."""
        for n in range(2):
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
        """BACKUP_IDLE_MS; what the process stood still for does not count (F-13), so a minute passes in steps."""
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
        super().begin(*rows)

    def test_a_token_expires_in_the_middle_of_its_use(self):
        self.begin(row("late", "read", f"expires={int(time.time()) + HOUR_S}"), row("other", "read"))
        late, other = self.of("late"), self.of("other")
        self.assertEqual(late.ask(wire.QUEUES, [])[0], OK)
        self.go_on(HOUR_S + 1)
        self.assertTrue(late.is_closed_by_peer(20))
        self.assertEqual(other.ask(wire.QUEUES, [])[0], OK)

    def test_wrong_tokens_are_counted_for_a_minute_and_told_after_it(self):
        """FAILURES_WINDOW_S and REFUSALS_AGAIN_MS."""
        self.begin(row("other", "read"))

        def wrong():
            with wire.WebSocket(self.broker.port, "/rpc", headers=wire.bearer("tarry_nobodys")) as upgrade:
                return int(upgrade.answer.split()[1])
        self.assertEqual([wrong() for _ in range(12)], [401] * 10 + [429] * 2)

        def told():
            _, frames = Http(self.broker.port, tokens.text_of("other")).ask("GET", "/v1/audit")
            return sum(int(record["refused"].get("count", 0)) for frame in frames for record in frame["records"] if "refused" in record)
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
        self.go_on(HOUR_S, 4)  # its lease of 10 s is extended each 5 s
        with Client(self.port) as other:
            self.assertEqual(other.ask("reserve-with-timeout 0"), b"TIMED_OUT\r\n", "it is reserved for two hours")
            self.assertEqual(self.client.ask("pause-tube default 3600"), b"PAUSED\r\n")
            self.go_on(HOUR_S + 2, 4)
            self.assertEqual(other.ask("reserve-with-timeout 20").split()[:2], [b"RESERVED", str(job).encode()], "its two hours and the pause are over")


class History(Passes):
    """Weeks: what retires, is pruned and signed."""

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
        """Some segments of lives that end at once."""
        body = os.urandom(100_000).hex()
        lines = "".join(json.dumps({"queue": "q", "key": f"k{number}", "delay_ms": HOUR_S * 1000, "body": body}) + "\n" for number in range(14))
        self.broker.ok("schedule", "--from", "-", stdin=lines)
        self.broker.ok("queue", "purge", "q")

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


if __name__ == "__main__":
    harness.main()
