"""outbox_test.py: `tarry outbox` moves rows that applications wrote in their own transactions, each exactly once, through kills."""
import glob
import json
import os
import pwd
import random
import shutil
import signal
import subprocess
import unittest

import harness
from harness import Case

BIN = (sorted(glob.glob("/usr/lib/postgresql/*/bin")) or [""])[-1]
USER = "nobody"  # PostgreSQL refuses to run as root


@unittest.skipUnless(BIN and os.path.exists(f"{BIN}/initdb") and (os.geteuid() != 0 or shutil.which("setpriv")), "no PostgreSQL (Debian: postgresql)")
class Outbox(Case):
    def setUp(self):
        super().setUp()
        self.place = self.path("postgres")
        os.mkdir(self.place)
        os.chmod(self.directory, 0o755)
        if os.geteuid() == 0:
            os.chown(self.place, pwd.getpwnam(USER).pw_uid, -1)
        self.as_user("initdb", "-D", f"{self.place}/data", "-U", "app", "--auth=trust", "--no-sync", "--no-instructions")
        self.as_user("pg_ctl", "-D", f"{self.place}/data", "-w", "-l", f"{self.place}/log", "-o", f"-k {self.place} -c listen_addresses='' -c fsync=off", "start")
        self.conninfo = f"host={self.place} dbname=postgres user=app"
        self.outbox("--init")

    def tearDown(self):
        self.as_user("pg_ctl", "-D", f"{self.place}/data", "-m", "immediate", "stop")
        super().tearDown()

    def as_user(self, program, *arguments):
        user = ("setpriv", f"--reuid={USER}", "--clear-groups") if os.geteuid() == 0 else ()
        subprocess.run([*user, f"{BIN}/{program}", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/")

    def sql(self, text):
        done = subprocess.run(["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", self.conninfo], input=text, check=True, capture_output=True, text=True)
        return done.stdout.split("\n")[:-1]

    def outbox(self, *arguments, status=0):
        done = self.broker.tarry("outbox", "--postgres", self.conninfo, *arguments)
        self.assertEqual(done.status, status, done)
        return done

    def insert(self, *tasks, table="tarry_outbox"):
        values = ", ".join("('" + json.dumps(task).replace("'", "''") + "')" for task in tasks)
        self.sql(f"BEGIN; INSERT INTO {table} (task) VALUES {values}; COMMIT;")

    def keys(self, queue="q"):
        return sorted(task["key"] for task in self.broker.ok("list", queue))

    def test_rows_of_committed_transactions_come_and_leave_the_table(self):
        self.insert({"queue": "q", "key": "a", "in": "1h", "json": {"order": "it's"}}, {"queue": "q", "key": "b", "at": "2035-01-01T00:00:00Z"})
        self.sql("BEGIN; INSERT INTO tarry_outbox (task) VALUES ('{\"queue\":\"q\",\"key\":\"c\",\"in\":\"1h\"}'); ROLLBACK;")
        self.assertEqual(self.outbox("--once").one, {"result": "moved", "moved": 2, "refused": 0})
        self.assertEqual((self.keys(), self.sql("SELECT count(*) FROM tarry_outbox")), (["a", "b"], ["0"]))
        self.assertEqual(self.broker.one("get", "q", "a")["json"], {"order": "it's"})
        self.assertEqual(self.outbox("--once").one["moved"], 0)

    def test_a_table_may_have_quotes_in_its_name(self):
        name = "the shop's \"outbox\""
        self.outbox("--table", name, "--init")
        self.insert({"queue": "q", "key": "a", "in": "1h"}, table='"the shop\'s ""outbox"""')
        self.assertEqual(self.outbox("--table", name, "--once").one["moved"], 1)
        self.assertEqual(self.keys(), ["a"])

    def test_a_delay_counts_from_the_transaction(self):
        self.insert({"queue": "q", "key": "a", "in": "1h"})
        self.sql("UPDATE tarry_outbox SET made = made - interval '30 minutes'")
        before_ms = harness.now_ms()
        self.outbox("--once")
        due_ms = self.broker.one("get", "q", "a")["due_ms"]
        self.assertTrue(before_ms + 1_700_000 < due_ms <= harness.now_ms() + 1_800_000, due_ms - before_ms)

    def test_what_is_refused_stays_with_the_reason_and_keeps_nobody(self):
        self.broker.one("schedule", "q", "--key", "taken", "--in", "1h")
        self.insert({"queue": "q", "key": "a", "in": "1h"}, {"queue": "q"}, {"queue": "q", "key": "taken", "in": "1h"}, {"queue": "q", "key": "b", "in": "1h"})
        self.assertEqual(self.outbox("--once", status=1).one, {"result": "moved", "moved": 2, "refused": 2})
        self.assertEqual(self.keys(), ["a", "b", "taken"])
        reasons = self.sql("SELECT refused FROM tarry_outbox ORDER BY number")
        self.assertEqual(len(reasons), 2)
        self.assertIn("a live task has this key", reasons[1])

    def test_killed_at_any_moment_each_row_comes_exactly_once(self):
        choice, count = random.Random(34), 20000
        self.sql("INSERT INTO tarry_outbox (task) SELECT json_build_object('queue', 'q', 'key', 'k' || n, 'in', '1h', 'on_conflict', 'replace')"
                 f" FROM generate_series(1, {count}) AS n")
        kills = 0
        while self.sql("SELECT count(*) FROM tarry_outbox") != ["0"]:
            relay = subprocess.Popen(self.broker.command("outbox", "--postgres", self.conninfo), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                relay.wait(0.02 + choice.random() * 0.1)
            except subprocess.TimeoutExpired:
                relay.send_signal(signal.SIGKILL)
                kills += 1
            relay.wait()
            if kills % 5 == 4:
                self.broker.kill()
                self.broker.start()
        self.outbox("--once")
        self.assertEqual(len(self.keys()), count)
        stats = self.broker.queue_stats("q")
        self.assertEqual((stats["scheduled"], stats["cancelled"]), (count, 0))  # a second schedule of a key would have replaced the first task
        self.assertGreater(kills, 2)
        print(f"# {kills} kills")

    def test_two_relays_move_each_row_once_and_new_rows_wake_one(self):
        relays = [self.broker.stream("outbox", "--postgres", self.conninfo) for _ in range(2)]
        for i in range(20):
            self.insert({"queue": "q", "key": f"k{i}", "in": "1h"})
        harness.wait_until("all have come", lambda: self.sql("SELECT count(*) FROM tarry_outbox") == ["0"], 30)
        for relay in relays:
            relay.signal(signal.SIGTERM)
        self.assertEqual(sum(relay.rest()[-1]["moved"] for relay in relays), 20)
        self.assertEqual((len(self.keys()), self.broker.queue_stats("q")["scheduled"]), (20, 20))


class Usage(Case):
    autostart = False

    def test_the_database_is_named(self):
        done = subprocess.run([harness.find_program("tarry"), "outbox"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, "--postgres CONNINFO" in done.stderr), (2, True))


if __name__ == "__main__":
    harness.main()
