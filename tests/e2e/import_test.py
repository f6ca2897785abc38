"""import_test.py: `tarry import` imports each item of another server exactly once, whichever process is killed, and whatever
that server answers.
"""
import base64
import itertools
import json
import os
import random
import re
import resource
import signal
import subprocess
import time

import harness
import beanstalk
import origins
import terminal
from harness import Case, wait_until


class Import(Case):
    """A beanstalkd and a broker."""

    def serve(self, origin):
        self.addCleanup(origin.stop)
        return origin

    def start_origin(self, kind, *arguments):
        try:
            return self.serve(kind(*arguments))
        except FileNotFoundError as missing:
            return self.skipTest(str(missing))

    def beanstalkd(self, *arguments):
        server = self.start_origin(beanstalk.Beanstalkd, *arguments)
        client = beanstalk.Client(server.port)
        self.addCleanup(client.close)
        return f"127.0.0.1:{server.port}", client

    def import_from(self, address, *arguments, status=0, **options):
        """Runs an import; returns its last result object."""
        answer = self.broker.tarry("import", "--beanstalkd", address, *arguments, **options)
        self.assertEqual(answer.status, status, answer)
        return answer.objects[-1]

    def tasks(self, queue):
        return self.broker.ok("list", queue)

    def content(self, task):
        view = self.broker.one("get", "--id", task["id"])
        return view["body"].encode() if "body" in view else base64.b64decode(view["body_base64"])

    def take(self, queue, count):
        return self.broker.consume(queue, "--count", count).take(count)

    def assert_nothing_stands(self):
        """Checks that no receipt is left at the broker."""
        self.assertEqual(self.broker.ok("list", "tarry-import"), [])


def body_of(task):
    return task["body"].encode() if "body" in task else base64.b64decode(task["body_base64"])


class Beanstalkd(Import):
    def test_jobs_of_every_state_come_over(self):
        address, client = self.beanstalkd()
        binary = bytes(range(256)) + b"\r\n\0\xff"
        for pri, body in ((7, b"third"), (1, b"first"), (7, b"fourth"), (1, b"second"), (4294967295, binary)):
            client.put(body, pri=pri, ttr=9)
        late = client.put(b"late", pri=3, delay=3600)
        before_ms = harness.now_ms()
        client.put(b"soon", delay=2)
        buried = client.put(b"buried")
        client.ask(f"reserve-job {buried}")
        client.ask(f"bury {buried} 5")
        told = self.import_from(address)
        self.assertEqual({name: told[name] for name in ("moved", "copied", "existed", "refused", "taken", "doubled")},
                         {"moved": 8, "copied": 0, "existed": 0, "refused": 0, "taken": 0, "doubled": 0})
        self.assertEqual(self.import_from(address, "--dry-run"),
                         {"tube": "default", "queue": "default", "ready": 0, "delayed": 0, "buried": 0, "reserved": 0})
        self.assertEqual([body_of(task) for task in self.take("default", 5)], [b"first", b"second", b"third", b"fourth", binary])
        soon = self.take("default", 1)[0]
        self.assertEqual(soon["body"], "soon")
        self.assertGreaterEqual(soon["received_ms"], before_ms + 2000)
        [task] = self.tasks("default")
        self.assertEqual(self.broker.one("get", "--id", task["id"])["attributes"], {"beanstalk": "pri=3 ttr=60 delay=3600"})
        self.assertTrue(task["key"].endswith(f":{late}"), task)
        self.assertGreaterEqual(task["due_ms"], before_ms + 3600_000)
        self.assertLess(task["due_ms"], harness.now_ms() + 3602_000)
        [task] = self.take("default.buried", 1)
        self.assertEqual(task["body"], "buried")
        self.assert_nothing_stands()

    def test_tubes_are_chosen_and_get_a_prefix(self):
        address, client = self.beanstalkd()
        for tube in ("a", "b", "c"):
            client.ask(f"use {tube}")
            client.put(tube.encode())
        told = self.broker.ok("import", "--beanstalkd", address, "--dry-run", "--queue-prefix", "old-")
        self.assertEqual({item["tube"]: (item["queue"], item["ready"]) for item in told},
                         {"a": ("old-a", 1), "b": ("old-b", 1), "c": ("old-c", 1), "default": ("old-default", 0)})
        self.import_from(address, "--tube", "a", "--tube", "c", "--tube", "nobody", "--queue-prefix", "old-")
        self.assertEqual([body_of(self.take(queue, 1)[0]) for queue in ("old-a", "old-c")], [b"a", b"c"])
        self.assertIn(b"\ncurrent-jobs-ready: 1\n", client.ask("stats-tube b"))
        self.assertIn("not a valid tube name", self.broker.refused("import", "--beanstalkd", address, "--tube", "-x", status=2).err)

    def test_what_workers_have_reserved_stays_and_is_said(self):
        address, client = self.beanstalkd()
        client.put(b"in work", pri=0)
        client.put(b"waits")
        client.ask("reserve")
        told = self.import_from(address, status=1)
        self.assertEqual((told["moved"], told["left_reserved"]), (1, 1))
        self.assertEqual(body_of(self.take("default", 1)[0]), b"waits")

    def test_a_copy_leaves_everything_and_a_move_after_it_finds_it_here(self):
        address, client = self.beanstalkd()
        for number in range(3000):
            client.put(b"%d" % number, delay=number % 2 * 1000)
        self.assertEqual(self.import_from(address, "--copy")["copied"], 3000)
        again = self.import_from(address, "--copy")
        self.assertEqual((again["copied"], again["existed"], again["left_ready"], again["left_delayed"]), (0, 3000, 1500, 1500))
        client.put(b"new")
        told = self.import_from(address)
        self.assertEqual((told["moved"], told["existed"], told["left_ready"], told["left_delayed"]), (1, 3000, 0, 0))
        self.assertEqual(len(self.tasks("default")), 3001)
        self.assert_nothing_stands()

    def test_what_no_task_may_be_stays_there_as_it_was(self):
        address, client = self.beanstalkd("-z", "20000000")
        huge, large = client.put(b"x" * 9_000_000, pri=5), client.put(b"y" * 2_000_000, pri=6)
        client.put(b"fine")
        client.ask("use " + "t" * 150)
        client.put(b"long name")
        answer = self.broker.refused("import", "--beanstalkd", address)
        self.assertEqual([item.get("job") for item in answer.objects[:-1]], [str(huge), str(large), "4"])
        self.assertEqual((answer.objects[-1]["moved"], answer.objects[-1]["refused"], answer.objects[-1]["left_ready"]), (1, 3, 3))
        self.assertIn(b"\nstate: ready\npri: 5\n", client.ask(f"stats-job {huge}"))
        self.assertIn(b"\nstate: ready\npri: 6\n", client.ask(f"stats-job {large}"))
        self.assert_nothing_stands()

    def test_a_server_that_drains_and_one_before_1_12_are_emptied_too(self):
        address, client = self.beanstalkd()
        for number in range(5):
            client.put(b"%d" % number)
        old = self.serve(origins.Middle(client.socket.getpeername()[1],
                                        seen=lambda data: data.replace(b"reserve-job ", b"no-such-cmd ")))
        self.assertEqual(self.import_from(old.address)["moved"], 5)
        server = self.start_origin(beanstalk.Beanstalkd)
        with beanstalk.Client(server.port) as other:
            ids = [other.put(b"%d" % number, delay=100) for number in range(600)]
            for number in ids[:-2]:
                other.ask(f"delete {number}")
            server.process.send_signal(signal.SIGUSR1)
            wait_until("it drains", lambda: other.ask("put 1 0 1 0", b"") == b"DRAINING\r\n", 10)
            self.assertEqual(self.import_from(f"127.0.0.1:{server.port}")["moved"], 2)

    def test_who_is_cut_off_before_the_removal_takes_nothing_twice(self):
        """The worst moment for a kill: everything is durable in Tarry, and nothing was removed at the server. Meanwhile
        consumers have even acked all tasks in Tarry.
        """
        address, client = self.beanstalkd()
        for number in range(100):
            client.put(b"%d" % number, delay=0 if number < 50 else 1)
        middle = self.serve(origins.Middle(client.socket.getpeername()[1], seen=lambda data: None if b"delete 100\r\n" in data else data))
        self.import_from(middle.address, status=1)
        self.assertEqual(sorted(int(task["body"]) for task in self.take("default", 100)), list(range(100)))
        middle.seen = None
        wait_until("it is given back there", lambda: b"\ncurrent-jobs-reserved: 0\n" in client.ask("stats-tube default"), 10)
        client.put(b"new")
        answer = self.broker.tarry("import", "--beanstalkd", middle.address)
        told = answer.objects[-1]
        self.assertEqual((answer.status, told["existed"], told["moved"], told["left_ready"], told["left_delayed"]), (0, 100, 1, 0, 0), answer)
        self.assertEqual([task["key"].rsplit(":", 1)[1] for task in self.tasks("default")], ["102"])
        self.assert_nothing_stands()

    def test_a_new_server_at_the_same_address_loses_nothing_by_an_old_receipt(self):
        """A new server numbers its jobs from the beginning, so an id in the receipt now means another job."""
        address, client = self.beanstalkd()
        client.put(b"old")
        middle = self.serve(origins.Middle(client.socket.getpeername()[1], seen=lambda data: None if b"delete 1\r\n" in data else data))
        self.import_from(middle.address, status=1)
        time.sleep(3.5)  # the job with the same id and payload was put at another time
        other = self.start_origin(beanstalk.Beanstalkd)
        with beanstalk.Client(other.port) as client:
            client.put(b"old")
        middle.port_of_server, middle.seen = other.port, None
        self.assertEqual(self.import_from(middle.address)["moved"], 1)
        self.assertEqual([task["body"] for task in self.take("default", 2)], ["old", "old"])

    def test_what_a_worker_takes_meanwhile_is_his_alone(self):
        address, client = self.beanstalkd()
        theirs = client.put(b"theirs", delay=100)
        client.put(b"ours", delay=100)

        def seen(data):
            if b"delete %d\r\n" % theirs in data:
                self.assertEqual(client.ask(f"delete {theirs}"), b"DELETED\r\n")
            return data
        middle = self.serve(origins.Middle(client.socket.getpeername()[1], seen=seen))
        told = self.import_from(middle.address)
        self.assertEqual((told["moved"], told["taken"], told["doubled"]), (1, 1, 0))
        self.assertEqual([self.broker.one("get", "--id", task["id"])["body"] for task in self.tasks("default")], ["ours"])

    def test_nothing_is_lost_or_taken_twice_whenever_it_is_killed(self):
        """The import is killed at random times while a consumer acks the imported tasks."""
        address, client = self.beanstalkd()
        count = 8000
        client.send(b"".join(b"put %d %d 60 5\r\n%05d\r\n" % (number % 7, number % 3 // 2 * 2, number) for number in range(count)))
        for _ in range(count):
            client.reply()
        consumer = self.broker.consume("default")
        seed = random.randrange(1 << 32)
        dice = random.Random(seed)
        kills = 0
        for _ in range(60):
            run = subprocess.Popen(self.broker.command("import", "--beanstalkd", address), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                run.wait(dice.uniform(0.02, 0.12))
            except subprocess.TimeoutExpired:
                kills += 1
            run.kill()
            run.wait()
        wait_until("the last one's are given back", lambda: b"\ncurrent-jobs-reserved: 0\n" in client.ask("stats-tube default"), 10)
        self.import_from(address)
        seen = sorted(int(task["body"]) for task in consumer.take(count))
        self.assertEqual(seen, list(range(count)), f"seed {seed}")
        consumer.quiet_for(0.5)
        self.assertGreater(kills, 1)  # the number of kills depends on the speed of the machine
        self.assert_nothing_stands()

    def test_two_at_once_take_nothing_twice(self):
        address, client = self.beanstalkd()
        client.send(b"".join(b"put 0 1 60 5\r\n%05d\r\n" % number for number in range(5000)))
        for _ in range(5000):
            client.reply()
        runs = [subprocess.Popen(self.broker.command("import", "--beanstalkd", address), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
        errors = [run.communicate()[1] for run in runs]
        if all(run.returncode for run in runs):
            self.import_from(address)
        consumer = self.broker.consume("default")
        self.assertEqual(sorted(int(task["body"]) for task in consumer.take(5000)), list(range(5000)), errors)
        consumer.quiet_for(0.3)

    def test_a_broker_that_dies_meanwhile_is_waited_for(self):
        address, client = self.beanstalkd()
        client.send(b"".join(b"put 0 100 60 5\r\n%05d\r\n" % number for number in range(5000)))
        for _ in range(5000):
            client.reply()
        command = self.broker.command("import", "--beanstalkd", address, "--timeout", "60s")
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until("it has begun", lambda: b"\ncmd-delete: 0\n" not in client.ask("stats"), 30)
        self.broker.kill()
        self.broker.start()
        out, err = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 0, err)
        self.assertEqual(json.loads(out)["moved"], 5000)
        self.assertEqual(len(self.tasks("default")), 5000)

    def test_an_interrupt_ends_it_between_two_batches(self):
        address, client = self.beanstalkd()
        client.send(b"".join(b"put 0 100 60 5\r\n%05d\r\n" % number for number in range(30000)))
        for _ in range(30000):
            client.reply()
        run = subprocess.Popen(self.broker.command("import", "--beanstalkd", address), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until("it has begun", lambda: b"\ncmd-delete: 1\n" not in client.ask("stats") and b"\ncmd-delete: 0\n" not in client.ask("stats"), 30)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
        told = json.loads(out)
        self.assertEqual(run.returncode, 1)
        self.assertIn(b"interrupted", err)
        self.assertEqual(told["moved"] + told["left_delayed"], 30000)
        self.assertEqual(len(self.tasks("default")), told["moved"])


    def test_who_may_produce_there_and_leave_receipts_may_import(self):
        address, client = self.beanstalkd()
        client.put(b"x")
        self.broker.stop()
        path = self.path("tokens")
        self.broker.arguments = [*self.broker.arguments, "--tokens", path]
        shown = {}
        for name, queues in (("whole", ("default", "tarry-import")), ("half", ("default",))):
            options = [word for queue in queues for word in ("--queue", queue)]
            added = subprocess.run([harness.find_program("tarry"), "token", "add", name, "--role", "produce", *options, "--file", path],
                                   capture_output=True, text=True, check=True)
            shown[name] = self.path(name)
            harness.make_private(shown[name], added.stdout)
        self.broker.start()
        answer = self.broker.refused("import", "--beanstalkd", address, "--token-file", shown["half"])
        self.assertIn("tarry-import", answer.err)
        wait_until("it is given back", lambda: b"\ncurrent-jobs-ready: 1\n" in client.ask("stats"), 10)
        self.assertEqual(self.import_from(address, "--token-file", shown["whole"])["moved"], 1)

    def test_a_terminal_is_shown_how_far_it_is(self):
        address, client = self.beanstalkd()
        client.send(b"".join(b"put 0 100 60 5\r\n%05d\r\n" % number for number in range(30000)))
        for _ in range(30000):
            client.reply()
        status, seen = terminal.run(self.broker.command("import", "--beanstalkd", address)[:-1], wait_s=60)
        self.assertEqual(status, 0, seen)
        self.assertRegex(seen, r"\r.*%  \d+ moved  \d+/s")
        self.assertRegex(seen, r"\r\x1b\[Ktarry: 30000 moved, in [^\n]*\r\n$")


class Sets(Import):
    """Imports members of a Redis sorted set."""

    def redis(self, *arguments):
        server = self.start_origin(origins.Redis, *arguments)
        self.addCleanup(server.socket.close)
        self.addCleanup(server.stream.close)
        return server

    def import_set(self, server, *arguments, key="set", status=0, queue="q", **options):
        address = getattr(server, "address", server)
        answer = self.broker.tarry("import", queue, "--redis-zset", key, "--redis", address, *arguments, **options)
        self.assertEqual(answer.status, status, answer)
        return answer.objects[-1]

    def test_members_come_over_with_their_times(self):
        redis, now_s = self.redis(), time.time()
        later_s = int(now_s) + 1000
        binary = b"\0\r\n$5\r\n\xff" + bytes(range(256))
        redis.add("set", [(later_s, b"seconds"), (later_s * 1000 + 1, b"milliseconds"), (f"{later_s}.0004", b"fraction"), ("-inf", b"at once"),
                          (now_s - 5, binary), (0, b"zero"), (now_s + 2, b"soon")])
        self.assertEqual(self.import_set(redis, "--dry-run")["members"], 7)
        self.assertIn("7 members, due from 1970-", self.broker.words("import", "q", "--redis-zset", "set", "--redis", redis.address, "--dry-run"))
        told = self.import_set(redis)
        self.assertEqual((told["moved"], told["left_members"]), (7, 0))
        pending = {self.content(task): task["due_ms"] for task in self.tasks("q") if task["state"] == "pending"}
        self.assertEqual(pending[b"seconds"], later_s * 1000)
        self.assertEqual(pending[b"milliseconds"], later_s * 1000 + 1)
        self.assertEqual(pending[b"fraction"], later_s * 1000 + 1)
        self.assertEqual([body_of(task) for task in self.take("q", 4)], [b"at once", b"zero", binary, b"soon"])
        self.assertEqual(self.import_set(redis)["moved"], 0)
        self.assert_nothing_stands()

    def test_units_are_as_asked_for_and_what_cannot_be_stays(self):
        redis = self.redis()
        redis.add("set", [(5_000_000_000, b"2128"), ("inf", b"never"), (1, b"x" * 2_000_000), (2, b"y" * 9_000_000), (3, b"fine")])
        told = self.import_set(redis, "--score", "s", status=1)
        self.assertEqual((told["moved"], told["refused"], told["left_members"]), (1, 4, 4))
        told = self.import_set(redis, "--score", "ms", status=1)
        self.assertEqual((told["moved"], told["refused"], told["left_members"]), (1, 3, 3))
        self.assertEqual(redis.ask("ZCARD", "set"), 3)
        answer = self.broker.tarry("import", "q", "--redis-zset", "set", "--redis", redis.address, "--score", "h")
        self.assertEqual((answer.status, "is not s or ms" in answer.err), (2, True))

    def test_a_member_can_be_the_key(self):
        redis = self.redis()
        redis.add("set", [(time.time() + 100, f"order-{number}") for number in range(5)])
        self.broker.ok("schedule", "q", "--key", "order-3", "--in", "1h")
        redis.add("set", [(time.time() + 100, b"no\nkey")])
        told = self.import_set(redis, "--member-key", status=1)
        self.assertEqual((told["moved"], told["refused"], told["left_members"]), (4, 2, 2))
        self.assertEqual(sorted(redis.ask("ZRANGE", "set", 0, -1)), [b"no\nkey", b"order-3"])
        self.broker.ok("cancel", "q", "order-1")

    def test_many_pages_come_soonest_first_and_a_copy_leaves_them(self):
        redis = self.redis()
        start = int(time.time()) + 1000
        redis.add("set", [(start + number, b"%d" % number) for number in range(5000)])
        self.assertEqual(self.import_set(redis, "--copy")["copied"], 5000)
        self.assertEqual(self.import_set(redis, "--copy")["existed"], 5000)
        self.assertEqual(redis.ask("ZCARD", "set"), 5000)
        told = self.import_set(redis)
        self.assertEqual((told["existed"], told["left_members"]), (5000, 0))
        asked = int(re.search(rb"cmdstat_zrange:calls=(\d+)", redis.ask("INFO", "commandstats")).group(1))
        self.assertLess(asked, 100)  # the result pages grow when members are small, so few requests are needed
        self.assertEqual([task["due_ms"] for task in self.tasks("q")], [(start + number) * 1000 for number in range(5000)])

    def test_passwords_users_and_databases(self):
        redis = self.redis("--requirepass", "secret word")
        self.assertIn("NOAUTH", self.broker.refused("import", "q", "--redis-zset", "set", "--redis", redis.address).err)
        self.assertIn("WRONGPASS", self.broker.refused("import", "q", "--redis-zset", "set", "--redis", redis.address,
                                                       env={"TARRY_REDIS_PASSWORD": "wrong"}).err)
        redis.ask("AUTH", "secret word")
        redis.ask("SELECT", "3")
        redis.ask("ZADD", "set", "1", "in three")
        self.assertEqual(self.import_set(redis, env={"TARRY_REDIS_PASSWORD": "secret word"})["moved"], 0)
        path = self.path("password", "secret word\n")
        self.assertEqual(self.import_set(redis, "--redis-db", "3", "--redis-password-file", path)["moved"], 1)
        redis.ask("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+zrange", "+zcard", "+select")
        redis.ask("ZADD", "set", "1", "again")
        answer = self.broker.refused("import", "q", "--redis-zset", "set", "--redis", redis.address, "--redis-db", "3", "--redis-user", "reader",
                                     env={"TARRY_REDIS_PASSWORD": "pw"})
        self.assertIn("NOPERM", answer.err)
        self.assertEqual(len(self.tasks("q")), 1)  # no task was scheduled for an item that cannot be removed at the server
        self.assertIn("no such file", self.broker.refused("import", "q", "--redis-zset", "set", "--redis-password-file", "/nowhere", status=2).err.lower())

    def test_a_replica_and_another_kind_of_key_are_refused_before_anything_is_scheduled(self):
        redis = self.redis()
        redis.add("set", [(1, b"one")])
        redis.ask("SET", "text", "x")
        self.assertIn("WRONGTYPE", self.broker.refused("import", "q", "--redis-zset", "text", "--redis", redis.address).err)
        replica = self.redis("--replicaof", "127.0.0.1", str(redis.port))
        wait_until("it has copied", lambda: replica.ask("ZCARD", "set") == 1, 30)
        self.assertIn("READONLY", self.broker.refused("import", "q", "--redis-zset", "set", "--redis", replica.address).err)
        self.assertEqual(self.broker.refused("list", "q").one["code"], "no_such_queue")

    def test_who_is_cut_off_before_the_removal_takes_nothing_twice(self):
        redis = self.redis()
        redis.add("set", [(number, b"%d" % number) for number in range(60)])
        middle = self.serve(origins.Middle(redis.port, seen=lambda data: None if b"EVAL" in data and b"\r\n59\r\n" in data else data))
        self.import_set(middle, status=1)
        self.take("q", 60)
        middle.seen = None
        redis.add("set", [(5, b"new")])
        told = self.import_set(middle)
        self.assertEqual((told["existed"], told["moved"], told["left_members"]), (60, 1, 0))
        self.assertEqual([self.content(task) for task in self.tasks("q")], [b"new"])
        self.assert_nothing_stands()

    def test_what_a_worker_takes_or_changes_meanwhile_is_not_taken(self):
        redis = self.redis()
        later = int(time.time()) + 1000
        redis.add("set", [(later, b"taken"), (later, b"moved"), (later, b"ours")])

        def seen(data):
            if b"EVAL" in data and b"taken" in data:
                redis.ask("ZREM", "set", "taken")
                redis.ask("ZADD", "set", later + 1, "moved")
            return data
        middle = self.serve(origins.Middle(redis.port, seen=seen))
        told = self.import_set(middle, status=0)
        self.assertEqual((told["moved"], told["taken"], told["left_members"]), (2, 2, 0))
        self.assertEqual(sorted((self.content(task), task["due_ms"]) for task in self.tasks("q")),
                         [(b"moved", later * 1000 + 1000), (b"ours", later * 1000)])

    def test_nothing_is_lost_or_taken_twice_whenever_it_is_killed(self):
        redis = self.redis()
        redis.add("set", [(number, b"%d" % number) for number in range(8000)])
        consumer = self.broker.consume("q")
        seed = random.randrange(1 << 32)
        dice = random.Random(seed)
        for _ in range(40):
            run = subprocess.Popen(self.broker.command("import", "q", "--redis-zset", "set", "--redis", redis.address),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                run.wait(dice.uniform(0.02, 0.2))
            except subprocess.TimeoutExpired:
                pass
            run.kill()
            run.wait()
        self.import_set(redis)
        self.assertEqual(sorted(int(task["body"]) for task in consumer.take(8000)), list(range(8000)), f"seed {seed}")
        consumer.quiet_for(0.5)
        self.assert_nothing_stands()


OK_STATS = b"OK 40\r\n---\nid: 0123456789abcdef\nhostname: aaaaaa\n\r\n"
TUBES = b"OK 14\r\n---\n- default\n\r\n"
COUNTS = b"---\nname: default\ncurrent-jobs-ready: 3\ncurrent-jobs-delayed: 0\ncurrent-jobs-buried: 0\ncurrent-jobs-reserved: 0\n"
TUBE = b"OK %d\r\n%s\r\n" % (len(COUNTS), COUNTS)
BEGIN = [OK_STATS, b"NOT_FOUND\r\n", TUBES, TUBE]
PROBED = [*BEGIN, b"USING x\r\nINSERTED 4\r\n", b"DELETED\r\n", TUBE]
JOB = b"---\nid: %d\ntube: default\nstate: ready\npri: 1\nage: 1\ndelay: 0\nttr: 1\ntime-left: 0\n"


def jobs(*numbers):
    return b"".join(b"OK %d\r\n%s\r\n" % (len(JOB % number), JOB % number) for number in numbers)


# Replies, piece by piece, of a server that is not beanstalkd, or that an attacker controls.
LIES = [
    [b"x" * 100_000], [b"HTTP/1.1 400 Bad Request\r\n\r\n"], [b"\r\n"], [b"\n" * 1000], [b"\0" * 600 + b"\r\n"], [b"OK\r\n"], [b"OK -1\r\n"],
    [b"OK 99999999999999999999\r\n"], [b"OK 4294967295\r\n---\n"], [b"OK 5\r\nabcdefgh"], [b"OK 3\r\nabc\r\n"], [b"OK 8388609\r\n" + b"x" * 8388609 + b"\r\n"],
    [b"\x1b]0;title\x07\x1b[2J\r\n"],
    [OK_STATS, b"NOT_FOUND\r\n", b"OK 10\r\n- \x1b[2Jbad\n\r\n"], [OK_STATS, b"NOT_FOUND\r\n", b"OK 300\r\n- " + b"t" * 297 + b"\n\r\n"],
    [OK_STATS, b"NOT_FOUND\r\n", TUBES, b"OK 3\r\n---\r\n"], [*BEGIN, b"USING x\r\nINSERTED 99999999999999999999999\r\n"], [*BEGIN, b"INTERNAL_ERROR\r\n"],
    [*BEGIN, b"USING x\r\nOUT_OF_MEMORY\r\n"], [*PROBED, jobs(4, 3, 2, 2)], [*PROBED, jobs(3, 4, 2, 1)], [*PROBED, b"OK 4\r\n---\n\r\n"],
    [*PROBED, b"NOT_FOUND\r\n" + jobs(3, 2, 1), jobs(1, 2, 3), b"RESERVED 1 1\r\nxRESERVED 2"],
    [*PROBED, b"NOT_FOUND\r\n" + jobs(3, 2, 1), jobs(1, 2, 3), b"RESERVED 7 1\r\nx\r\n"],
    [*PROBED, b"NOT_FOUND\r\n" + jobs(3, 2, 1), jobs(1, 2, 3), b"RESERVED 1 4294967295\r\n" + b"x" * 100_000],
    [*PROBED, b"NOT_FOUND\r\n" + jobs(3, 2, 1), jobs(1, 2, 3), b"FOUND\r\n"],
]
PAGE = b"*2\r\n$1\r\na\r\n$1\r\n1\r\n"
READY = [b":1\r\n", b":0\r\n", b"*0\r\n"]
LIES_OF_REDIS = [
    [b"x" * 100_000], [b"HTTP/1.1 400\r\n\r\n"], [b":\r\n"], [b":x\r\n"], [b":-5\r\n"], [b":99999999999999999999\r\n"], [b"*-7\r\n"], [b"*1000000000\r\n"],
    [b"$-7\r\n"], [b"$99999999999\r\n"], [b"+OK\r\n"], [b"-ERR \x1b[2J\r\n"], [b"$4\r\nabcdefgh"], [b"*1\r\n" * 10_000],
    [*READY, b"*1\r\n$1\r\na\r\n"], [*READY, b"*2000\r\n"], [*READY, b"*2\r\n*2\r\n"], [*READY, b"*2\r\n$1\r\na\r\n$3\r\nNaN\r\n"], [*READY, b"*2\r\n$1\r\na\r\n$3\r\n1\x002\r\n"],
    [*READY, b"*2\r\n$1\r\na\r\n:1\r\n"], [*READY, b"*2\r\n$-1\r\n$1\r\n1\r\n"], [*READY, b"*2\r\n$4000000000\r\n" + b"x" * 100_000],
]


class Hostile(Import):
    """Whatever the server sends, the import ends soon with a message, uses little memory, and schedules nothing."""

    def bounded(self):
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    def judge(self, lies, *arguments):
        sanitized = "asan" in os.environ.get("TARRY_BUILD_ROOT", "")
        for answers, then in itertools.product(lies, ("hang up", "silence")):
            liar = origins.Liar(answers, then)
            command = self.broker.command("import", *arguments, liar.address, "--timeout", "300ms")
            began = time.monotonic()
            done = subprocess.run(command, capture_output=True, timeout=60, check=False, preexec_fn=None if sanitized else self.bounded)
            liar.stop()
            shown = (answers[-1][:60], then, done.returncode, done.stderr[-300:])
            self.assertEqual(done.returncode, 1, shown)
            self.assertTrue(done.stderr.startswith(b"tarry: "), shown)
            self.assertNotIn(b"\x1b", done.stderr + done.stdout, shown)
            self.assertLess(time.monotonic() - began, 30, shown)

    def test_who_is_no_beanstalkd(self):
        self.judge(LIES, "--beanstalkd")
        self.assertEqual(self.broker.refused("list", "default").one["code"], "no_such_queue")

    def test_who_is_no_redis(self):
        self.judge(LIES_OF_REDIS, "q", "--redis-zset", "set", "--redis")
        self.assertEqual(self.broker.refused("list", "q").one["code"], "no_such_queue")

    def test_wrong_words_and_addresses_are_told(self):
        for arguments, status, word in ((("--beanstalkd", "127.0.0.1:1"), 1, "Connection refused"), (("--beanstalkd", "no.such.host.invalid"), 1, "no.such.host.invalid: "),
                                        (("--beanstalkd", ":1"), 1, "not an address"), (("--beanstalkd", "h:99999999"), 1, "not an address"), ((), 2, "missing source"),
                                        (("--beanstalkd", "h", "--redis-zset", "z"), 2, "missing source"), (("q", "--beanstalkd", "h"), 2, "--queue-prefix"),
                                        (("--redis-zset", "z"), 2, "missing queue"), (("q", "--redis-zset", "z", "--tube", "t"), 2, "--tube"),
                                        (("--beanstalkd", "h", "--member-key"), 2, "--member-key"), (("--beanstalkd", "h", "--copy", "--dry-run"), 2, "exclude each other"),
                                        (("q", "--redis-zset", "z", "--redis-user", "u"), 2, "password")):
            answer = self.broker.refused("import", *arguments, status=status)
            self.assertIn(word, answer.err)


if __name__ == "__main__":
    harness.main()
