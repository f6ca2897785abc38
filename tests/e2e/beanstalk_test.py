"""beanstalk_test.py: tarryd as a beanstalkd server. The same commands go to a real beanstalkd and to tarryd, and the replies are
compared literally, except ids, ages and server-specific values. Also tests what only tarryd promises."""
import glob
import json
import random
import re
import socket
import time

import harness
import beanstalk
import in_time
from beanstalk import Client, Player
from harness import Case, wait_until

LISTEN = "beanstalk://127.0.0.1:0"
JOB_MAX = 65535


def put(body, pri=1024, delay=0, ttr=60):
    return f"put {pri} {delay} {ttr} {len(body)}\r\n{body}\r\n"


# A story: pairs of (connection, command); None closes the connection. The next command is sent after the reply to the
# previous one.
LIFE = [
    ("a", "list-tubes"), ("a", "list-tube-used"), ("a", "list-tubes-watched"), ("a", "peek-ready"), ("a", "peek-delayed"),
    ("a", "peek-buried"), ("a", "reserve-with-timeout 0"), ("a", "kick 10"), ("a", "delete 1"), ("a", "touch 1"),
    ("a", "release 1 1 0"), ("a", "bury 1 1"), ("a", "kick-job 1"), ("a", "stats-job 1"), ("a", "peek 1"),
    ("a", "reserve-job 1"), ("a", "stats-tube nobody"), ("a", "pause-tube nobody 1"), ("a", "delete 0"),
    ("a", "use t"), ("a", "list-tube-used"), ("a", "watch t"), ("a", "watch t"), ("a", "ignore default"), ("a", "ignore t"),
    ("a", "ignore nobody"), ("a", "list-tubes-watched"), ("a", "list-tubes"), ("a", "stats-tube t"),
    ("a", put("one")), ("a", "stats-job $1"), ("a", "stats-tube t"), ("a", "peek $1"), ("a", "peek-ready"),
    ("a", "reserve"), ("a", "stats-job $1"), ("a", "stats-tube t"), ("a", "peek-ready"), ("a", "peek $1"), ("a", "touch $1"),
    ("b", "touch $1"), ("b", "release $1 1 0"), ("b", "bury $1 1"), ("b", "delete $1"), ("b", "reserve-job $1"),
    ("b", "kick-job $1"), ("a", "release $1 5 0"), ("a", "stats-job $1"), ("a", "release $1 5 0"), ("a", "reserve-with-timeout 5"),
    ("a", "bury $1 7"), ("a", "stats-job $1"), ("a", "stats-tube t"), ("a", "peek-buried"), ("a", "reserve-with-timeout 0"),
    ("a", "kick 10"), ("a", "stats-job $1"), ("a", "reserve-with-timeout 5"), ("a", "delete $1"), ("a", "delete $1"),
    ("a", "stats-job $1"), ("a", "peek $1"), ("a", "stats-tube t"), ("a", "list-tubes"),
    ("a", "use default"), ("a", "watch default"), ("a", "ignore t"), ("a", "list-tubes"), ("a", "stats-tube t"),
]
ORDER = [
    ("a", put("c", 3)), ("a", put("a", 1)), ("a", put("max", 4294967295)), ("a", put("b1", 2)), ("a", put("b2", 2)),
    ("a", put("zero", 0)), ("a", put("late", 4294967294)), ("a", put("1024")), ("a", put("1023", 1023)),
    ("a", put("delayed", 0, 4000)), ("a", put("", 9)), ("a", "stats-tube default"), ("a", "peek-ready"), ("a", "peek-delayed"),
    ("a", "reserve"), ("a", "reserve"), ("a", "reserve"), ("a", "reserve"), ("a", "reserve"), ("a", "reserve"), ("a", "reserve"),
    ("a", "reserve"), ("a", "reserve"), ("a", "reserve"), ("a", "reserve-with-timeout 0"),
    ("a", "release $1 50 0"), ("a", "release $2 40 0"), ("a", "release $4 40 0"), ("a", "stats-job $10"),
    ("b", "reserve"), ("b", "reserve"), ("b", "reserve"), ("b", "reserve-with-timeout 0"),
    ("b", None), ("a", "reserve"), ("a", "reserve"), ("a", "reserve"), ("a", "reserve-with-timeout 0"),
    ("a", "reserve-job $10"), ("a", "stats-job $10"), ("a", "reserve-job $10"), ("a", "release $10 7 5000"), ("a", "stats-job $10"),
    ("a", "kick-job $10"), ("a", "stats-job $10"), ("a", "kick-job $10"), ("a", "reserve-job $10"), ("a", "bury $10 8"),
    ("a", "kick-job $10"), ("a", "stats-job $10"), ("a", "delete $10"),
    ("a", "bury $1 1"), ("a", "bury $2 2"), ("a", "bury $4 3"), ("a", "peek-buried"), ("a", "kick 2"), ("a", "stats-tube default"),
    ("a", "peek-buried"), ("a", "reserve-job $4"), ("a", "stats-job $4"), ("a", "delete $4"),
    ("a", put("d1", 5, 1000)), ("a", put("d2", 4, 2000)), ("a", "peek-delayed"), ("a", "kick 1"), ("a", "peek-delayed"),
    ("a", "kick 100"), ("a", "kick 100"), ("a", "reserve"), ("a", "reserve"), ("a", "reserve"), ("a", "reserve"),
    ("a", "delete $2"), ("a", "stats-tube default"),
]
WATCHING = [
    ("a", "use t1"), ("a", put("t1 5", 5)), ("a", put("t1 1", 1)), ("a", "use t2"), ("a", put("t2 3", 3)), ("a", put("t2 5", 5)), ("a", "use t3"),
    ("a", put("t3 5", 5)), ("a", put("t3 max", 4294967295)), ("a", put("t3 2", 2)), ("a", "use t1"), ("a", put("t1 5 again", 5)), ("a", put("t1 0", 0)),
    ("a", "watch t2"), ("a", "watch t3"), ("a", "watch nobody"), ("a", "watch t1"), ("a", "ignore default"),
    ("a", "reserve"), ("a", "reserve"), ("a", "reserve"), ("a", "release $3 4 0"), ("a", "reserve"), ("a", "reserve"),
    ("a", "reserve-with-timeout 0"), ("a", "use t2"), ("a", put("t2 late", 7)), ("a", "reserve-with-timeout 9"), ("a", "reserve-with-timeout 9"),
    ("a", "ignore t1"), ("a", "reserve-with-timeout 9"), ("a", "watch t1"), ("a", "reserve-with-timeout 9"), ("a", "reserve-with-timeout 0"),
    ("a", "reserve-with-timeout 0"), ("a", "bury $1 2"), ("a", "kick 1"), ("a", "use t1"), ("a", "kick 1"), ("a", "reserve"),
]
# Commands that change which tube has the first job. The broker caches the order of tubes, and must update it.
CHANGING = [
    ("a", "use u1"), *(("a", put(f"u1 {pri}", pri)) for pri in (10, 20, 30, 40)), ("a", "use u2"), *(("a", put(f"u2 {pri}", pri)) for pri in (15, 25, 35, 45)),
    ("a", "watch u1"), ("a", "watch u2"), ("a", "ignore default"), ("b", "use u1"), ("c", "watch u1"), ("c", "ignore default"),
    ("a", "reserve"), ("b", put("u1 5", 5)), ("a", "reserve"), ("a", "delete $5"), ("a", "reserve"), ("a", "release $1 1 0"), ("a", "reserve"), ("a", "reserve"),
    ("b", "reserve-job $3"), ("a", "reserve"), ("a", "reserve"), ("b", "bury $3 0"), ("b", "kick 1"), ("a", "reserve"),
    ("a", "release $1 20 0"), ("a", "release $2 60 0"), ("b", put("u1 8", 8)), ("a", "reserve"), ("c", "reserve"), ("a", "reserve"), ("a", "reserve"),
    ("a", "reserve-with-timeout 0"), ("c", None), ("a", "reserve-with-timeout 9"), ("a", "reserve-with-timeout 0"),
]
MALFORMED = [
    ("a", "put 1 0 60"), ("a", "put a 0 60 1"), ("a", "put 1 0 60 1 2"), ("a", "put 4294967296 0 60 1"), ("a", "put 1 0 60 -1"),
    ("a", "nonsense"), ("a", ""), ("a", "peek-readyx"), ("a", "use"), ("a", "use "), ("a", "use -x"), ("a", "use a b"), ("a", "watch -"),
    ("a", "ignore "), ("a", "use " + "x" * 201), ("a", "x" * 222), ("a", "x" * 1000), ("a", "stats-tube "),
    ("a", "delete"), ("a", "delete x"), ("a", "delete 1x"), ("a", "delete -1"), ("a", "delete 18446744073709551616"), ("a", "release 1"),
    ("a", "release 1 1"), ("a", "release 1 1 1 1"), ("a", "bury 1"), ("a", "kick"), ("a", "kick x"), ("a", "kick 0"), ("a", "touch"), ("a", "touch x"),
    ("a", "peek x"), ("a", "stats-job"), ("a", "stats-job x"), ("a", "reserve-with-timeout"), ("a", "reserve-with-timeout x"),
    ("a", "reserve 1"), ("a", "reserve-job"), ("a", "reserve-job x"), ("a", "list-tubes x"), ("a", "list-tube-used x"),
    ("a", "list-tubes-watched x"), ("a", "pause-tube"), ("a", "pause-tube default"), ("a", "pause-tube default x"),
    ("a", "pause-tube default 4294967296"), ("a", "stats x"), ("a", "st\0ats"), ("a", "put 0 0 1 3\r\nabcde"), ("a", "list-tube-used"),
    ("a", "put 0 0 1 65536\r\n" + "x" * 65536 + "\r\n"), ("a", "put 0 0 1 65535\r\n" + "x" * 65535 + "\r\n"), ("a", "reserve"),
    ("a", "put 0 0 0 0\r\n\r\n"), ("a", "stats-job $2"), ("a", "put 0 0 1 65537 x\r\n" + "x" * 65537 + "\r\n"), ("a", "list-tube-used"),
]
PAUSED = [
    ("a", put("p")), ("a", "pause-tube default 3600"), ("a", "reserve-with-timeout 0"), ("a", "stats-tube default"), ("a", "peek-ready"),
    ("a", "pause-tube default 0"), ("a", "reserve-with-timeout 5"), ("a", "delete $1"), ("a", "stats"),
]


class Beanstalk(Case):
    autostart = False

    def setUp(self):
        super().setUp()
        self.broker.arguments = ["--listen", "ws://127.0.0.1:0", "--listen", LISTEN]
        self.serve()

    def serve(self):
        self.broker.start()
        urls = self.broker.ready["urls"].split()
        self.port = next(int(url.rsplit(":", 1)[1]) for url in urls if url.startswith("beanstalk://"))

    def client(self):
        client = Client(self.port)
        self.addCleanup(client.close)
        return client

    def compare(self, story):
        real = beanstalk.Beanstalkd()
        self.addCleanup(real.stop)
        theirs, ours = Player(real.port), Player(self.port)
        self.addCleanup(theirs.close)
        self.addCleanup(ours.close)
        for at, (name, line) in enumerate(story):
            if line is None:
                theirs.drop(name)
                ours.drop(name)
                time.sleep(0.2)  # gives beanstalkd time to notice the closed connection, because it reports nothing about that
                continue
            data = line.encode() + (b"" if line.startswith("put ") and "\r\n" in line else b"\r\n")
            want, got = theirs.play(name, data), ours.play(name, data)
            if real.version > (1, 12):  # Debian 13's version quotes tube names, and checks that a delay is a number
                want = re.sub(rb'(?m)^(name|tube): "(.*)"$', rb"\1: \2", want)
                got = want if (line, got, want) == ("reserve-with-timeout x", b"TIMED_OUT\r\n", b"BAD_FORMAT\r\n") else got
            self.assertEqual(got[:2000], want[:2000], f"{at}: {name}: {line[:80]!r}")

    def test_a_web_page_can_send_no_commands(self):
        """A web page can make its browser POST text to any port of this host. The lines of that text must not be executed."""
        commands = b"put 0 0 60 5\r\nhello\r\n"
        address = f"127.0.0.1:{self.port}".encode()
        for said in (b"POST / HTTP/1.1\r\nHost: " + address + b"\r\nContent-Length: 22\r\n\r\n" + commands,
                     b"GET /" + b"x" * 300 + b" HTTP/1.1\r\nHost: " + address + b"\r\n\r\n" + commands,  # the line is longer than the maximum
                     b"use / HTTP/1.1\r\nHost: evil.example\r\n\r\n" + commands,  # a method of the page's own, by DNS rebinding
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + commands,
                     b"HOST: x\r\n" + commands,
                     b"\x16\x03\x01\x02\r\n" + commands):  # TLS, with lines in a session's ticket
            for pieces in (1, len(said) // 2):
                client = self.client()
                try:
                    for at in range(0, len(said), len(said) // pieces):
                        client.send(said[at:at + len(said) // pieces])
                    client.socket.shutdown(socket.SHUT_WR)
                    answer = client.stream.read()
                except (BrokenPipeError, ConnectionResetError):
                    continue  # the broker closed the connection while the test was sending
                self.assertNotIn(b"INSERTED", answer, said)
        self.assertIn(b"current-jobs-ready: 0\n", self.client().ask("stats"))
        self.broker.wait_logged("another protocol")

    def test_the_life_of_a_job_is_beanstalkds(self):
        self.compare(LIFE)

    def test_the_order_is_beanstalkds_for_all_32_bits(self):
        self.compare(ORDER)

    def test_the_order_between_watched_tubes_is_beanstalkds(self):
        self.compare(WATCHING)

    def test_the_order_between_watched_tubes_is_so_whatever_changes_meanwhile(self):
        self.compare(CHANGING)

    def test_the_order_between_tubes_holds_while_many_are_reserved(self):
        """Jobs that were just reserved may still be in the result pages that the broker read from the index. It must skip them
        to find the first ready job.
        """
        with self.client() as a:
            for tube in (0, 1, 2):
                a.ask(f"use t{tube}")
                for pri in random.sample(range(tube, 300, 3), 100):
                    a.put(b"%d" % pri, pri=pri)
                a.ask(f"watch t{tube}")
            self.assertEqual([int(a.ask("reserve").split(b"\r\n")[1]) for _ in range(300)], list(range(300)))

    def test_workers_that_watch_the_same_tubes_look_at_them_together(self):
        """CALM-1: each query of a tube wakes the reader thread. So for sixteen clients that watch the same tubes, the broker
        queries the tubes once for the next 64 reserves.
        """
        tubes, workers, rounds = range(4), [self.client() for _ in range(16)], 32
        for tube in tubes:
            workers[0].ask(f"use t{tube}")
            for number in range(len(workers) * rounds // len(tubes)):
                workers[0].put(b"%d" % number, pri=number * len(tubes) + tube)
        for worker in workers:
            for tube in tubes:
                worker.ask(f"watch t{tube}")
        before, jobs = self.wakes_of("tarry-reader"), set()
        for _ in range(rounds):
            for worker in workers:
                worker.send(b"reserve\r\n")
            jobs |= {worker.reply().split()[1] for worker in workers}
        self.assertEqual(len(jobs), len(workers) * rounds)
        self.assertLess(self.wakes_of("tarry-reader") - before, 100, "looks at four tubes of 128 jobs each")

    def test_commands_behind_a_reserve_wait_for_it(self):
        """A worker waits for a query that another worker has sent. Meanwhile its reserve counts as running, so its next
        commands wait. If they ran, the later answer to the reserve could end one of these commands instead.
        """
        workers = [self.client() for _ in range(16)]
        for worker in workers:
            worker.ask("watch t1")
        for _ in range(10):
            for worker in workers:
                worker.send(b"reserve-with-timeout 0\r\nlist-tube-used\r\ndelete 1\r\n")
            for worker in workers:
                self.assertEqual([worker.reply() for _ in range(3)], [b"TIMED_OUT\r\n", b"USING default\r\n", b"NOT_FOUND\r\n"])

    def wakes_of(self, thread):
        """Returns how often the broker's thread has slept."""
        for task in glob.glob(f"/proc/{self.broker.process.pid}/task/*"):
            with open(f"{task}/status", encoding="ascii") as file:
                status = dict(re.findall(r"(?m)^(\w+):\t(.*)$", file.read()))
            if status["Name"] == thread:
                return int(status["voluntary_ctxt_switches"])
        raise AssertionError(f"no thread {thread}")

    def test_who_watches_many_tubes_takes_a_job_whose_delay_has_ended_in_its_turn(self):
        """A client watches many tubes. When the delay of a job ends, the client gets this job in the order of its pri,
        although another tube has many jobs that are more urgent.
        """
        with self.client() as a:
            a.ask("use backlog")
            for number in range(50):
                a.put(b"%d" % number, pri=1)
            a.ask("use rare")
            a.put(b"rare", pri=9, delay=1)
            a.ask("watch backlog")
            a.ask("watch rare")
            wait_until("its delay has ended", lambda: b"\ncurrent-jobs-ready: 1\n" in a.ask("stats-tube rare"), 10)
            replies = [a.ask("reserve") for _ in range(6)]
            self.assertIn(b"rare\r\n", [reply.split(b"\r\n", 1)[1] for reply in replies])

    def test_what_is_malformed_is_refused_as_beanstalkd_refuses_it(self):
        self.compare(MALFORMED)

    def test_a_pause_is_beanstalkds(self):
        self.compare(PAUSED)

    def test_times_are_kept(self):
        with self.client() as a, self.client() as b:
            started = time.monotonic()
            job = a.put(b"short", ttr=2)
            self.assertEqual(a.ask("reserve-with-timeout 5"), b"RESERVED %d 5\r\nshort\r\n" % job)
            self.assertEqual(b.ask("reserve-with-timeout 0"), b"TIMED_OUT\r\n")
            self.assertEqual(a.ask("reserve-with-timeout 9"), b"DEADLINE_SOON\r\n")
            self.assertGreater(time.monotonic() - started, 0.9)
            self.assertLess(time.monotonic() - started, 2)
            self.assertEqual(a.ask(f"touch {job}"), b"TOUCHED\r\n")
            # The touch restarted the TTR of two seconds, so the job is ready two seconds after it.
            self.assertEqual(b.ask("reserve-with-timeout 9"), b"RESERVED %d 5\r\nshort\r\n" % job)
            self.assertGreater(time.monotonic() - started, 2.8)
            self.assertEqual(a.ask(f"delete {job}"), b"NOT_FOUND\r\n")
            stats = b.ask(f"stats-job {job}")
            self.assertIn(b"\nreserves: 2\ntimeouts: 1\nreleases: 0\n", stats)
            self.assertEqual(b.ask(f"delete {job}"), b"DELETED\r\n")
            delayed = a.put(b"delayed", delay=1)
            started = time.monotonic()
            self.assertEqual(b.ask("reserve"), b"RESERVED %d 7\r\ndelayed\r\n" % delayed)
            self.assertGreater(time.monotonic() - started, 0.9)  # TIME-1
            self.assertEqual(b.ask("reserve-with-timeout 1"), b"TIMED_OUT\r\n")

    def test_what_is_left_is_told_in_whole_seconds_rounded_down(self):
        """`time-left` is rounded down to whole seconds, even in the first millisecond: a ttr of 10 s is shown as 9, as
        pheanstalk's tests expect.
        """
        def told(port):
            with Client(port) as client:
                job, late = client.put(ttr=10), client.put(delay=100)
                client.ask("reserve")
                client.ask("pause-tube default 60")
                replies = [client.ask(f"stats-job {late}"), client.ask("stats-tube default")]
                for _ in range(20):  # all commands are in one packet, so that the broker executes them within a millisecond
                    client.send(b"touch %d\r\nstats-job %d\r\n" % (job, job))
                    self.assertEqual(client.reply(), b"TOUCHED\r\n")
                    replies.append(client.reply())
                client.ask("pause-tube default 0")
                for number in (job, late):
                    client.ask(f"delete {number}")
                return [re.search(rb"time-left: (\d+)", reply)[1] for reply in replies]

        def attempt(_):
            with in_time.in_time(1, "from the put until all is told"):
                self.assertEqual(told(self.port), [b"99", b"59"] + 20 * [b"9"])
        real = beanstalk.Beanstalkd()
        self.addCleanup(real.stop)
        in_time.judged(attempt)
        in_time.judged(lambda _: self.assertEqual(told(real.port), [b"99", b"59"] + 20 * [b"9"]))

    def test_who_is_kicked_is_ready_at_once_and_once(self):
        """A kicked delayed job is ready once and at once, even if all commands are executed within one millisecond."""
        with self.client() as a:
            for _ in range(60):
                first, second = a.put(b"1", delay=1000), a.put(b"2", delay=2000)
                a.send(b"kick 1\r\npeek-delayed\r\nkick 100\r\nkick 100\r\n")
                self.assertEqual([a.reply() for _ in range(4)],
                                 [b"KICKED 1\r\n", b"FOUND %d 1\r\n2\r\n" % second, b"KICKED 1\r\n", b"KICKED 0\r\n"])
                a.send(b"delete %d\r\ndelete %d\r\n" % (first, second))
                self.assertEqual([a.reply(), a.reply()], 2 * [b"DELETED\r\n"])

    def test_who_was_buried_first_is_first_within_a_millisecond_too(self):
        with self.client() as a:
            for _ in range(60):
                first, second = a.put(b"1", pri=3), a.put(b"2", pri=1)
                a.send(b"reserve\r\nreserve\r\nbury %d 1\r\nbury %d 2\r\npeek-buried\r\nkick 1\r\npeek-buried\r\n" % (first, second))
                self.assertEqual([a.reply() for _ in range(7)][4:], [b"FOUND %d 1\r\n1\r\n" % first, b"KICKED 1\r\n", b"FOUND %d 1\r\n2\r\n" % second])
                a.send(b"delete %d\r\ndelete %d\r\n" % (first, second))
                self.assertEqual([a.reply(), a.reply()], 2 * [b"DELETED\r\n"])

    def test_whose_delay_ends_stands_where_its_priority_says(self):
        with self.client() as client:
            late = client.put(b"late", pri=2000, delay=1)
            soon = client.put(b"soon", pri=5, delay=1)
            first = client.put(b"first", pri=1)
            last = client.put(b"last", pri=4000)
            wait_until("both are ready", lambda: b"current-jobs-ready: 4" in client.ask("stats-tube default"), 20)
            order = [int(client.ask("reserve-with-timeout 5").split()[1]) for _ in range(4)]
            self.assertEqual(order, [first, soon, late, last])
            self.assertIn(b"\nreserves: 1\n", client.ask(f"stats-job {late}"))  # the broker compared the job with those of other tubes before it gave it out; this did not count as a reserve

    def real(self):
        real = beanstalk.Beanstalkd()
        self.addCleanup(real.stop)
        return real.port

    def test_delays_that_end_together_come_by_pri_and_count_as_urgent(self):
        pris = (9, 1, 2000, 5, 1, 4000, 0)
        for port in (self.real(), self.port):
            with self.subTest(port=port), Client(port) as client:
                jobs = [client.put(b"x", pri=pri, delay=1) for pri in pris]
                jobs.append(client.put(b"x", pri=5))
                tube = wait_until("all are ready", lambda c=client: b"-ready: 8\n" in (said := c.ask("stats-tube default")) and said, 20)
                self.assertIn(b"\ncurrent-jobs-urgent: 6\n", tube)
                self.assertIn(b"\ncurrent-jobs-urgent: 6\n", client.ask("stats"))
                order = [int(client.ask("reserve-with-timeout 5").split()[1]) for _ in jobs]
                self.assertEqual([jobs.index(job) for job in order], [6, 1, 4, 3, 7, 0, 2, 5])
                self.assertIn(b"\nreserves: 1\n", client.ask(f"stats-job {jobs[2]}"))  # the broker compared the job with other jobs before it gave it out; this did not count as a reserve

    def test_who_quits_gives_back_at_once(self):
        """The client sends quit, but does not close its socket."""
        for port in (self.real(), self.port):
            with self.subTest(port=port), Client(port) as quits, Client(port) as other:
                job = quits.put(b"x")
                self.assertEqual(quits.ask("reserve"), b"RESERVED %d 1\r\nx\r\n" % job)
                self.assertEqual(quits.ask("quit"), b"")
                self.assertEqual(other.ask("reserve-with-timeout 1"), b"RESERVED %d 1\r\nx\r\n" % job)
                self.assertIn(b"\ncurrent-connections: 1\n", other.ask("stats"))

    def test_a_client_that_sends_nothing_more_is_answered(self):
        """The client has half-closed its connection, like `printf … | nc -N`. All commands sent so far are answered, and a
        reserve does not wait for new jobs.
        """
        said = ("reserve\r\n", "reserve-with-timeout 9\r\n", "watch none\r\nignore default\r\nreserve\r\nuse aa\r\nlist-tube-used\r\n",
                "use aa\r\n" + put("one"), put("two") + "reserve\r\n", "list-tubes\r\nlist-tubes-watched\r\n", "watch aa\r\nignore default\r\nreserve\r\n",
                "put 1 0 9 5\r\na", "kick 5\r\npeek-ready\r\nquit\r\nuse bb\r\n", "")
        answers = []
        for port in (self.real(), self.port):
            answers.append([])
            for words in said:
                with Client(port) as client:
                    client.send(words.encode())
                    client.socket.shutdown(socket.SHUT_WR)
                    answers[-1].append(re.sub(rb"(RESERVED|INSERTED|FOUND) \d+", rb"\1 ID", client.stream.read()))
            with Client(port) as client, Client(port) as looks:
                client.ask("watch none")
                client.ask("ignore default")
                client.send(b"reserve\r\n")
                wait_until("it waits", lambda c=looks: b"current-waiting: 1\n" in c.ask("stats"), 20)
                client.socket.shutdown(socket.SHUT_WR)
                answers[-1].append(client.stream.read())
        self.assertEqual(answers[0][-1], b"TIMED_OUT\r\n")
        for words, theirs, ours in zip((*said, "waits"), *answers):
            with self.subTest(words):
                self.assertEqual(ours, theirs)

    def test_who_waits_gets_what_comes(self):
        with self.client() as waits, self.client() as puts:
            waits.send(b"watch other\r\nreserve\r\n")
            self.assertEqual(waits.reply(), b"WATCHING 2\r\n")
            wait_until("it waits", lambda: b"current-waiting: 1" in puts.ask("stats"), 20)
            puts.ask("use other")
            job = puts.put(b"here")
            self.assertEqual(waits.reply(), b"RESERVED %d 4\r\nhere\r\n" % job)

    def test_what_a_lost_client_had_is_ready_again(self):
        with self.client() as stays:
            jobs = []
            with self.client() as goes:
                jobs = [goes.put(b"%d" % i) for i in range(3)]
                for _ in jobs:
                    self.assertTrue(goes.ask("reserve").startswith(b"RESERVED"))
            self.assertEqual([int(stays.ask("reserve-with-timeout 9").split()[1]) for _ in jobs], jobs)
            self.assertIn(b"\nreserves: 2\n", stays.ask(f"stats-job {jobs[0]}"))

    def test_what_was_inserted_survives_a_kill(self):
        client = self.client()
        kept = [client.put(b"job %d" % i, pri=9 - i) for i in range(5)]
        delayed = client.put(b"delayed", pri=3, delay=3600)
        buried = client.put(b"buried", pri=0)
        self.assertTrue(client.ask("reserve").startswith(b"RESERVED %d" % buried))
        client.ask(f"bury {buried} 77")
        held = int(client.ask("reserve").split()[1])  # this job is reserved when the connection breaks
        self.assertEqual(held, kept[-1])
        self.broker.kill()
        self.serve()
        with self.client() as client:
            order = [int(client.ask("reserve-with-timeout 20").split()[1]) for _ in kept]
            self.assertEqual(order, sorted(kept, reverse=True) if order[0] == held else kept[-2::-1] + [held])
            self.assertEqual(client.ask("reserve-with-timeout 0"), b"TIMED_OUT\r\n")
            self.assertIn(b"state: buried\npri: 77\n", client.ask(f"stats-job {buried}"))
            self.assertIn(b"state: delayed\npri: 3\n", client.ask(f"stats-job {delayed}"))
            self.assertEqual(client.ask(f"reserve-job {delayed}"), b"RESERVED %d 7\r\ndelayed\r\n" % delayed)

    def test_tarrys_own_clients_see_the_same(self):
        with self.client() as client:
            client.ask("use orders")
            client.ask("watch orders")
            self.broker.one("schedule", "orders", "--in", "0s", "--body", "by tarry")
            reserved = client.ask("reserve-with-timeout 9")
            self.assertTrue(reserved.endswith(b" 8\r\nby tarry\r\n"), reserved)
            job = client.put(b"by beanstalkd")
            task = self.broker.one("get", "--id", str(job))
            self.assertEqual(task["body"], "by beanstalkd")

    def test_a_queues_name_adds_nothing_to_the_yaml(self):
        """Tarry's own clients may use queue names that a YAML parser would take for something else. Each name must be one item
        of the YAML list, and a parser must read it back unchanged (JSON's escapes are valid in YAML).
        """
        names = ["x: - y", "null", "a: b", "x\u2028- more", "\"q\"\\", "# no", "1.10", "\u00e4"]
        for name in names:
            self.broker.one("schedule", name, "--key", "k", "--in", "1h")
        with self.client() as client:
            items = client.ask("list-tubes").partition(b"---\n")[2].removesuffix(b"\n\r\n").split(b"\n")
            self.assertEqual(items[0], b"- default")
            self.assertEqual(sorted(json.loads(item.removeprefix(b"- ")) for item in items[1:]), sorted(names))
            job = self.broker.one("get", names[0], "k")["id"]
            self.assertIn(b'\ntube: "x: - y"\nstate: delayed\n', client.ask(f"stats-job {job}"))
            self.assertIn(b'---\nname: "null"\n', client.ask("stats-tube null"))
            client.ask("watch 1.10")
            self.assertEqual(client.ask("list-tubes-watched"), b'OK 23\r\n---\n- default\n- "1.10"\n\r\n')
            self.assertRegex(client.ask("stats"), rb'\nos: "#')

    def test_hostile_bytes_harm_nobody(self):
        """F-20."""
        choice = random.Random(17)
        words = [b"put 1 0 1 5\r\n", b"put 1 0 1 70000\r\n", b"hello\r\n", b"reserve-with-timeout 0\r\n", b"\r\n", b"\r", b"\n",
                 b"\0", b"peek 1\r\n", b"delete 1\r\n", b"kick 4294967295\r\n", b"stats\r\n", b"use " + b"x" * 300 + b"\r\n",
                 b"list-tubes\r\n", b"quit", b"release 1 1 1\r\n", b"watch a\r\n", b"pause-tube a 1\r\n", bytes(range(256))]
        for _ in range(60):
            with self.client() as client:
                data = b"".join(choice.choice(words) for _ in range(choice.randrange(1, 60)))
                for at in range(0, len(data), 97):
                    try:
                        client.send(data[at:at + 97])
                    except OSError:
                        break
                if choice.random() < 0.5:
                    client.socket.shutdown(socket.SHUT_WR)
        with self.client() as client:
            client.send(b"list-tube-used\r\n" * 20000 + b"put 0 0 1 2\r\nok\r\n")  # many commands are sent at once, and must be answered in order
            for _ in range(20000):
                self.assertEqual(client.reply(), b"USING default\r\n")
            self.assertTrue(client.reply().startswith(b"INSERTED "))

    def test_a_byte_at_a_time(self):
        with self.client() as client:
            for byte in b"put 1 0 60 5\r\nhello\r\n":
                client.send(bytes([byte]))
            self.assertTrue(client.reply().startswith(b"INSERTED "))


harness.main()
