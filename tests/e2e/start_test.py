"""start_test.py: how tarryd starts, when it refuses to start, and how it stops."""
import os
import re
import socket
import stat
import subprocess
import tempfile
import time
import unittest

import harness
from harness import Case, find_program


class Start(Case):
    autostart = False

    def make_broker(self, *arguments, **options):
        """Makes a broker without the harness's tokens. Only the test's files are beside its directory, and any user can start
        it.
        """
        broker = super().make_broker(*arguments, **options)
        broker.has_admin = False
        return broker

    def fails(self, *arguments, listen="ws://127.0.0.1:0", data=None):
        """Starts a broker that must refuse to start. Returns its log."""
        command = [find_program("tarryd"), "--data", data or self.broker.data, "--listen", listen, *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, check=False, text=True)
        self.assertGreater(done.returncode, 0, f"{done.returncode} {done.stderr}")
        self.assertNotIn("event=ready", done.stderr)
        self.assertGreater(len(done.stderr.strip()), 20, "no sentence")
        return done.stderr

    def test_the_ready_line(self):
        self.broker.listen = "ws://127.0.0.1:0"  # port 0: the ready line names the chosen port
        self.broker.start()
        lines = [line for line in self.broker.log if "event=ready" in line.split()]
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], r"(^| )event=ready url=ws://127\.0\.0\.1:[1-9][0-9]* (.* )?recovered_tasks=0 took_ms=[0-9]+")

    def test_the_directory_is_made_with_mode_0700(self):
        self.broker.data = os.path.join(self.directory, "new")
        self.broker.start()
        self.assertEqual(stat.S_IMODE(os.stat(self.broker.data).st_mode), 0o700)

    def test_the_same_port_can_be_bound_at_once_after_sigkill(self):
        self.broker.start()
        consumer = self.broker.consume("q")
        for _ in range(5):
            url = self.broker.url
            self.broker.one("schedule", "q", "--in", "0s")
            consumer.next()
            self.broker.restart()
            self.assertEqual(self.broker.url, url)

    def test_recovered_tasks_is_the_exact_number_of_live_tasks(self):
        self.broker.start()
        for number in range(7):
            self.broker.one("schedule", "q", "--key", f"k{number}", "--in", "1h")
        self.broker.one("schedule", "q", "--key", "held", "--in", "0s")
        self.broker.one("consume", "q", "--ack", "none", "--count", 1)
        self.broker.one("cancel", "q", "k0")
        self.broker.restart()
        self.assertEqual(self.broker.ready["recovered_tasks"], "7")

    def test_an_occupied_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.fails(listen=f"ws://127.0.0.1:{taken.getsockname()[1]}")

    def test_a_locked_directory(self):  # F-14
        self.broker.start()
        self.fails()
        self.assertTrue(self.broker.is_running())

    def test_the_network_wants_tls(self):
        self.assertIn("--unsafe-no-tls", self.fails(listen="ws://0.0.0.0:0"))
        self.assertIn("--unsafe-no-tls", self.fails("--unsafe-no-tokens", listen="ws://0.0.0.0:0"))
        self.assertIn("--unsafe-no-tls", self.fails(listen="tcp://0.0.0.0:0"))
        self.fails(listen="udp://127.0.0.1:0")
        self.fails(listen="ws://127.0.0.1:99999")
        self.fails(listen="nonsense")

    def test_unsafe_no_tls_does_without(self):
        self.broker.listen = "ws://0.0.0.0:0"
        self.broker.arguments = ["--unsafe-no-tls", "--unsafe-no-tokens"]
        self.broker.launch()
        self.broker.wait_ready()

    def test_unknown_options_are_errors(self):
        self.assertIn("colour", self.fails("--colour", "red"))
        self.assertIn("colour", self.fails("--config", self.path("a.ini", "colour = red\n")))
        self.fails("--config", self.path("nowhere.ini"))
        self.fails("--memory", "lots")
        self.fails("--memory", "1KiB")

    def test_the_configuration_file(self):
        self.broker.arguments = ["--config", self.path("tarry.ini", "[tarryd]\nmax_attempts = 2\nlease = 2s\n")]
        self.broker.start()
        self.broker.one("schedule", "q", "--in", "1h")
        self.assertEqual(self.broker.one("queues")["policy"]["max_attempts"], 2)

    def test_new_queues_have_the_policy_of_the_options(self):
        policy = {"lease": "7s", "max-attempts": "3", "backoff": "fixed", "backoff-min": "11s", "backoff-max": "12s", "backoff-jitter": "9"}
        self.broker.arguments = [word for name, value in policy.items() for word in (f"--{name}", value)]
        self.broker.start()
        self.broker.one("schedule", "q", "--in", "1h")
        told = self.broker.one("queues")["policy"]
        self.assertEqual([told[name] for name in ("lease_ms", "max_attempts", "backoff", "backoff_min_ms", "backoff_max_ms", "backoff_jitter")],
                         [7000, 3, "fixed", 11000, 12000, 9])

    def test_a_file_in_place_of_the_directory(self):  # F-14
        self.fails(data=self.path("file", "not a directory"))

    def test_a_directory_whose_parent_is_missing_or_made(self):
        self.broker.data = os.path.join(self.directory, "a", "b")
        self.broker.launch()
        self.broker.is_ready.wait(20)
        if not self.broker.ready:
            self.assertGreater(self.broker.process.wait(20), 0)

    def test_an_empty_directory_beside_one_with_data_is_founded_loudly(self):
        self.broker.start()
        self.assertFalse([line for line in self.broker.log if "founded_beside" in line])
        self.broker.stop()
        other = self.make_broker(data=self.path("date")).start()
        line, = [line for line in other.log if "event=founded_beside" in line]
        told = harness.parse_logfmt(line)
        self.assertEqual((told["data"], told["others"]), (self.broker.data, "0"))
        self.assertIn("starts with no tasks", told["warning"])
        other.stop()
        other.start()  # once
        self.assertEqual(len([line for line in other.log if "event=founded_beside" in line]), 1)
        os.chmod(self.directory, 0o1777)  # the permissions of /tmp: files beside the directory may belong to other users
        third = self.make_broker(data=self.path("third")).start()
        self.assertFalse([line for line in third.log if "founded_beside" in line])

    def test_an_empty_directory_within_one_with_data_is_refused(self):
        self.broker.start()
        self.broker.stop()
        inside = os.path.join(self.broker.data, "main")
        self.assertIn(f"start with --data {self.broker.data}", self.fails(data=inside))
        self.assertFalse(os.path.exists(inside))
        self.assertIn(f"start with --data {self.directory}/data", self.fails(data=self.directory))

    @unittest.skipUnless(os.geteuid() == 0, "needs two users")
    def test_a_directory_of_another_user_is_refused_with_what_to_do(self):  # F-14
        self.broker.start()
        self.broker.stop()
        os.chmod(self.directory, 0o755)
        self.broker.prefix = ["setpriv", "--reuid=61999", "--regid=61999", "--clear-groups"]
        self.broker.launch()
        self.assertEqual(self.broker.process.wait(30), 1)
        self.broker.reader.join(5)
        command = f"chown -R 61999:61999 {self.broker.data}"
        self.broker.wait_logged(f"it belongs to uid 0, but this broker runs as uid 61999: {command}")
        subprocess.run(command.split(), check=True)
        self.broker.start()

    def test_a_directory_that_others_may_write_is_refused_with_what_to_do(self):  # F-14
        self.broker.start()
        self.broker.stop()
        for mode in (0o770, 0o702, 0o777):
            os.chmod(self.broker.data, mode)
            command = f"chmod go-w {self.broker.data}"
            self.assertIn(f"(mode {mode:04o}): {command}, or ", self.fails(data=self.broker.data))
        subprocess.run(command.split(), check=True)
        self.broker.start()
        shared = self.path("shared")  # permissions like those of the root of a tmpfs
        os.mkdir(shared)
        os.chmod(shared, 0o1777)
        said = self.fails(data=shared)
        self.assertIn("(mode 1777): give a directory below it with --data", said)
        self.assertEqual(os.listdir(shared), [])
        self.make_broker(data=os.path.join(shared, "main")).start()

    @unittest.skipUnless(os.geteuid() == 0, "needs two users")
    def test_a_directory_that_its_owner_can_change_is_refused_with_what_to_do(self):  # F-14
        """Even root's broker refuses a directory of another owner, although root could write to it: the owner could replace
        its content.
        """
        self.broker.start()
        self.broker.stop()
        os.chown(self.broker.data, 61999, 61999)
        said = self.fails(data=self.broker.data)
        command = f"chown -R 0:0 {self.broker.data}"
        self.assertIn(f"belongs to uid 61999, which could replace its content, but this broker runs as uid 0: run tarryd as the owner, or {command}", said)
        subprocess.run(command.split(), check=True)
        self.broker.start()

    @unittest.skipUnless(os.path.exists("/proc/mounts") and os.geteuid() == 0, "needs root to mount")
    def test_a_read_only_directory(self):  # F-14
        mount = self.path("mount")
        os.mkdir(mount)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", mount], check=False, stderr=subprocess.DEVNULL).returncode:
            self.skipTest("cannot mount here")
        try:
            self.fails(data=mount)
            self.fails(data=os.path.join(mount, "data"))
        finally:
            subprocess.run(["umount", mount], check=True)

    def test_sigterm_ends_cleanly_and_loses_nothing(self):
        self.broker.start()
        stream = self.broker.stream("schedule", "--from", "-", "--timeout", "60s", stdin=True)
        for number in range(3000):
            stream.send({"queue": "q", "key": f"k{number}", "delay_ms": 3_600_000})
        stream.take(500)
        self.assertEqual(self.broker.stop(30), 0)
        self.broker.start()
        stream.end_input()
        stream.rest(60)
        answers = stream.seen
        self.assertEqual(stream.wait(), 0)
        self.assertEqual([a["line"] for a in answers], list(range(1, 3001)))
        self.assertEqual(self.broker.queue_stats("q")["pending"], 3000)

    def test_sigterm_with_consumers_and_open_connections(self):
        self.broker.start()
        consumers = [self.broker.consume("q", "--ack", "none") for _ in range(3)]
        self.broker.one("schedule", "q", "--in", "0s")
        time.sleep(0.5)
        with socket.create_connection(("127.0.0.1", self.broker.port)):
            self.assertEqual(self.broker.stop(30), 0)
        for consumer in consumers:
            self.assertIsNone(consumer.process.poll(), "the consumer gave up")

    def test_systemd_is_told(self):
        with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(os.path.join(directory, "notify"))
            notify.settimeout(20)
            self.broker.env["NOTIFY_SOCKET"] = os.path.join(directory, "notify")
            self.broker.start()
            self.assertIn(b"READY=1", notify.recv(4096))

    def test_help_and_version(self):
        for option in ("--help", "--version"):
            done = subprocess.run([find_program("tarryd"), option], stdout=subprocess.PIPE, check=True, text=True, timeout=10)
            self.assertTrue(done.stdout.strip())
        self.assertTrue(re.search(r"\d+\.\d+\.\d+", done.stdout))


if __name__ == "__main__":
    harness.main()
