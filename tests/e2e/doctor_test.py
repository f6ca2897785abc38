"""doctor_test.py: tarry doctor finds each of many problems, says what to do, and reports none if everything works. For scripts:
the exit status, and one JSON object per finding."""
import json
import os
import re
import shutil
import subprocess
import time
import unittest

import clock
import harness
import pair
import tokens
from certificates import Authority

FINE, WARNING, WRONG = "fine", "warning", "wrong"


class Doctor:
    """A mixin for Case: runs doctor and searches its findings."""

    def look(self, *arguments, prefix=(), environment=(), status=None):
        """Returns the findings of a run; without --broker in the arguments, no broker is checked."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("TARRY_B")} | dict(environment)
        ran = subprocess.run([*prefix, harness.find_program("tarry"), "doctor", "--json", *arguments], env=env, capture_output=True,
                             timeout=harness.ANSWER_WAIT_S, check=False)
        findings = [json.loads(line) for line in ran.stdout.splitlines()]
        self.assertTrue(findings, ran.stderr)
        self.assertEqual(ran.returncode, 1 if any(found["result"] == WRONG for found in findings) else 0, ran.stderr)
        for found in findings:
            self.assertIn(found["result"], (FINE, WARNING, WRONG))
            self.assertEqual(found["mend"] is not None, found["result"] != FINE, found)
        if status is not None:
            self.assertEqual(ran.returncode, status, findings)
        return findings

    def find(self, findings, check, result, pattern):
        hits = [found for found in findings if (found["check"], found["result"]) == (check, result) and re.search(pattern, found["what"])]
        self.assertEqual(len(hits), 1, (check, result, pattern, findings))
        return hits[0]


class Directory(Doctor, harness.Case):
    def test_a_running_broker_and_its_directory_are_fine(self):
        findings = self.look("--data", self.broker.data, "--broker", self.broker.url)
        self.find(findings, "directory", FINE, "is a broker's")
        self.find(findings, "lock", FINE, "^a broker uses the data directory")
        self.find(findings, "sync", FINE if not harness.SANITIZED else findings[-1]["result"], "median")
        self.find(findings, "broker", FINE, "is primary, epoch 1")
        self.find(findings, "clock", FINE, r"differ by \d+ms$")
        self.find(findings, "limits", FINE, rf"the broker \(process {self.broker.process.pid}\) may open .* descriptors")
        self.find(findings, "memory", FINE, "tasks take")
        self.find(findings, "tokens", FINE, f"^the file {self.broker.data}/tokens does not exist")
        self.assertEqual([found for found in findings if found["result"] == WRONG], [])
        self.assertEqual(self.broker.stop(), 0)
        self.find(self.look("--data", self.broker.data), "lock", FINE, "^no broker uses the data directory")
        self.broker.start()  # doctor has not prevented the start of the broker

    def test_words_for_people(self):
        ran = subprocess.run([harness.find_program("tarry"), "doctor", "--data", self.path("none")], capture_output=True, check=False)
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stdout.decode(), r"(?m)^wrong   directory    .*No such file or directory\n +→ give the data directory")
        for line in ran.stdout.decode().splitlines():  # one line per finding, and another line if there is something to do
            self.assertRegex(line, r"^((fine|warning|wrong) +[a-z]+ +| +→ )[^ ]")
        self.assertRegex(ran.stderr.decode(), r"checks, (1 warning|\d+ warnings), [1-9]\d* wrong")

    def test_what_is_no_data_directory(self):
        os.mkdir(self.path("empty"), 0o700)
        findings = self.look("--data", self.path("empty"), status=1)
        self.find(findings, "directory", WRONG, "no identity")
        self.find(findings, "lock", FINE, "^no broker has ever run on it")
        with open(os.path.join(self.path("empty"), "backup.partial"), "w", encoding="ascii"):
            pass
        self.find(self.look("--data", self.path("empty")), "directory", WRONG, "unfinished copy")
        os.chmod(self.path("empty"), 0o777)
        self.find(self.look("--data", self.path("empty")), "directory", WRONG, "other users can write")

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "mounts need root")
    def test_disks_that_are_none(self):
        for options, check, pattern in (("size=1g", "filesystem", "in memory"), ("size=64m", "disk", "MiB are free"), ("size=1g,ro", "disk", "read-only")):
            script = f"mount -t tmpfs -o {options} none {self.path('data')} && exec \"$@\""
            os.makedirs(self.path("data"), exist_ok=True)
            findings = self.look("--data", self.path("data"), prefix=("unshare", "-m", "sh", "-c", script, "sh"))
            self.find(findings, check, WRONG, pattern)

    def test_limits_of_the_broker_that_runs_there(self):
        """Checks the limits of the broker's process, not those of the shell that runs doctor or of another broker."""
        self.make_broker(data=self.path("other")).start()
        self.assertEqual(self.broker.stop(), 0)
        self.broker.prefix = ["sh", "-c", 'ulimit -n 512 && ulimit -l 8 && exec "$@"', "sh"]
        self.broker.start()
        findings = self.look("--data", self.broker.data, status=1)
        self.assertIn("LimitNOFILE", self.find(findings, "limits", WRONG, r"the broker \(process \d+\) may open 512 file descriptors")["mend"])
        self.find(findings, "limits", WRONG, "may lock 8KiB of memory")
        self.assertEqual(self.broker.stop(), 0)
        self.broker.prefix = ["sh", "-c", 'ulimit -n 4096 && exec "$@"', "sh"]
        self.broker.start()
        self.find(self.look("--data", self.broker.data), "limits", WARNING, "may open 4096 file descriptors")

    def test_limits_where_no_broker_runs(self):
        self.assertEqual(self.broker.stop(), 0)
        findings = self.look("--data", self.broker.data, prefix=("sh", "-c", 'ulimit -n 512 && exec "$@"', "sh"), status=1)
        self.find(findings, "limits", WRONG, "^a process started here may open 512 file descriptors")


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "mounts need root")
class FullDisk(Doctor, harness.Case):
    autostart = False

    def test_a_full_disk(self):
        mount = self.path("mount")
        os.mkdir(mount)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "none", mount], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("cannot mount here")
        self.addCleanup(subprocess.run, ["umount", "-l", mount], check=False)
        self.broker.data = os.path.join(mount, "data")
        self.broker.arguments += ["--segment-size", "1MiB"]
        self.broker.start()
        with open(os.path.join(mount, "another's"), "wb") as file, self.assertRaises(OSError):
            while True:
                file.write(bytes(1 << 20))
        findings = self.look("--data", self.broker.data, "--broker", self.broker.url, status=1)
        self.find(findings, "disk", WRONG, f"^{self.broker.url}: 0 MiB of 80 MiB are free")
        self.assertIn("the broker refuses new tasks", self.find(findings, "disk", WRONG, f"^0 MiB of 80 MiB are free at {self.broker.data}")["mend"])
        self.find(findings, "sync", WRONG, "No space left on device")


class Clocks(Doctor, harness.Case):
    autostart = False

    def test_a_clock_that_is_off(self):
        """The host's clock is set forward by 90 s. The broker accepts such a step as normal, and its logical time never goes back. So
        only `tarry doctor` can show the difference.
        """
        moved = clock.Clock(self.path("clock"))
        self.broker.env.update(moved.env())
        self.broker.start()
        moved.jump(90)
        self.find(self.look("--broker", self.broker.url, status=0), "clock", WARNING, "is 1m(30|29)s ahead of this host's")
        moved.jump(-600)
        self.find(self.look("--broker", self.broker.url, status=0), "clock", WARNING, "behind this host's")
        moved.jump(400 * 86400)
        harness.wait_until("the broker notices", lambda: self.broker.queue_stats(None)["clock_held"], harness.ANSWER_WAIT_S)
        self.find(self.look("--broker", self.broker.url, status=1), "clock", WRONG, "has jumped")


class Host(Doctor, harness.Case):
    """A simulated host (host_shim.c). Each limit is tested on both sides."""
    autostart = False

    def on_host(self, data=None, **host):
        data = data or self.path("data")
        environment = harness.preloaded("libhost_shim.so")
        os.makedirs(data, 0o700, exist_ok=True)
        return self.look("--data", data, environment=environment | {f"TARRY_HOST_{name.upper()}": value for name, value in host.items()})

    def test_a_clock_that_is_kept_and_yet_off(self):
        for offset_us, result in ((0, FINE), (100_000, FINE), (-100_000, FINE), (100_001, WARNING), (-100_001, WARNING), (500_000, WARNING)):
            found = self.find(self.on_host(offset_us=str(offset_us)), "clock", result, f"the clock is synchronized, with an error of about {offset_us} ")
            self.assertIn("chronyc" if result == WARNING else "None", str(found["mend"]))

    def test_a_disk_that_gets_full(self):
        """Less than 128 MiB free is an error; less than 512 MiB or 5 % is a warning."""
        mib = 256  # blocks
        for free, everything, result in ((128 * mib - 1, 100_000 * mib, WRONG), (128 * mib, 1000 * mib, WARNING), (512 * mib - 1, 1000 * mib, WARNING),
                                         (512 * mib, 1000 * mib, FINE), (5000 * mib - 1, 100_000 * mib, WARNING), (5000 * mib, 100_000 * mib, FINE)):
            self.find(self.on_host(disk=f"{free} {everything}"), "disk", result, f"^{free // mib} MiB of {everything // mib} MiB are free at ")

    def test_a_broker_whose_process_cannot_be_seen(self):
        self.broker.start()
        findings = self.on_host(self.broker.data, hides_processes="1")
        self.find(findings, "lock", FINE, "^a broker uses the data directory")
        self.find(findings, "limits", WARNING, "the broker's process is not visible")

    def test_a_cgroup_that_gives_little_memory(self):
        """A broker may use up to twice its --memory, which is 256 MiB."""
        for memory, result, said in (("max", FINE, "no cgroup limits"), (str((512 << 20) - 1), WARNING, "may use 511 MiB"), (str(512 << 20), FINE, "may use 512 MiB")):
            self.find(self.on_host(memory=memory), "memory", result, said)


class Files(Doctor, harness.Case):
    def test_tokens(self):
        now_s = int(time.time())
        file = self.path("tokens")
        self.find(self.look("--tokens", file, status=1), "tokens", WRONG, "No such file")
        rows = (tokens.row("good", "read"), tokens.row("soon", "read", f"expires={now_s + 3 * 86400 + 60}"), tokens.row("gone", "read", f"expires={now_s - 60}"))
        harness.make_private(file, tokens.FIRST_LINE + "".join(rows))
        findings = self.look("--tokens", file, status=1)
        self.find(findings, "tokens", FINE, "3 principals")
        self.find(findings, "tokens", WARNING, "^soon expires in 3 days")
        self.find(findings, "tokens", WRONG, "^gone has expired")
        harness.make_private(file, tokens.FIRST_LINE + tokens.row("good", "read") + "nonsense\n")
        self.find(self.look("--tokens", file, status=1), "tokens", WRONG, "is invalid")
        harness.make_private(file, tokens.FIRST_LINE)
        os.chmod(file, 0o644)
        self.find(self.look("--tokens", file, status=1), "tokens", WRONG, "other users can read or write")

    def test_certificates(self):
        authority = Authority(self.path(""))
        soon, _ = authority.make("soon", days=5)
        over, _ = authority.make("over", days=-1)
        findings = self.look("--certificate", authority.ca, "--certificate", soon, "--certificate", over, "--certificate", self.path("none"),
                             "--broker", self.broker.url)
        self.find(findings, "certificate", FINE, "CN=ca is valid for (29|30)d$")
        self.find(findings, "certificate", WARNING, "CN=soon is valid for (4|5)d$")
        self.find(findings, "certificate", WRONG, "CN=over (has expired, .* ago|is not valid yet)$")
        self.find(findings, "certificate", WRONG, "No such file")
        self.find(self.look("--certificate", "/dev/zero", "--broker", self.broker.url, status=1), "certificate", WRONG, "/dev/zero: it is not a regular file")


class Brokers(Doctor, harness.Case):
    def test_who_does_not_answer(self):
        self.assertEqual(self.broker.stop(), 0)
        self.find(self.look("--broker", self.broker.url, "--timeout", "300ms", status=1), "broker", WRONG,
                  f"^no broker at {self.broker.url}: Connection refused: no broker listens there$")

    def test_a_certificate_that_ends_soon_is_no_fault_yet(self):
        self.assertEqual(self.broker.stop(), 0)
        authority = Authority(self.path(""))
        authority.serve(self.broker, name="soon", days=3)
        self.broker.start()
        self.find(self.look("--broker", self.broker.url, status=1), "certificate", WRONG, "is not trusted")
        findings = self.look("--broker", self.broker.url, environment={"TARRY_TLS_CA": authority.ca}, status=0)
        self.find(findings, "certificate", WARNING, "expires in [23] days")

    def test_who_may_not_ask(self):
        harness.make_private(self.path("token"), tokens.text_of("nobody") + "\n")
        findings = self.look("--broker", self.broker.url, environment={"TARRY_TOKEN_FILE": self.path("token")}, status=1)
        self.assertIn("TARRY_TOKEN_FILE", self.find(findings, "broker", WRONG, "does not report its status: .* this broker does not know the token")["mend"])

    def test_what_memory_tasks_take(self):
        self.broker.schedule_all([{"queue": "q", "delay_ms": 0}] * 12_000)
        stats = self.broker.queue_stats(None)
        self.assertGreaterEqual(stats["core_bytes"], 2 << 20)
        self.find(self.look("--broker", self.broker.url), "memory", FINE,
                  f"tasks take {stats['core_bytes'] >> 20} MiB of {stats['core_bytes_max'] >> 20} MiB$")

    def test_queues_that_want_somebody(self):
        self.broker.ok("schedule", "q", "--in", "0s", "--key", "k")
        self.assertFalse([found for found in self.look("--broker", self.broker.url, status=0) if found["check"] == "queues"])
        held = self.broker.one("consume", "q", "--count", 1, "--ack", "none")
        self.broker.one("nack", held["id"], held["token"], "--dead", "no such address")
        self.find(self.look("--broker", self.broker.url, status=0), "queues", WARNING, "there are 1 dead letters")


class Pair(Doctor, pair.Case):
    def test_of_a_pair_both_are_looked_at(self):
        self.start_pair()
        both = f"{self.a.url},{self.b.url}"
        findings = self.look("--broker", both, status=0)
        self.find(findings, "pair", FINE, "the other node is in sync")
        self.find(findings, "broker", FINE, "is follower")
        for check in ("clock", "disk", "memory"):
            self.find(findings, check, FINE, f"^{self.b.url}: ")  # the follower's address, too
        self.b.kill()
        def alone():
            found = self.look("--broker", both, "--timeout", "500ms")
            return [one for one in found if one["check"] == "pair" and one["result"] == WRONG] and found
        findings = self.wait_for("the primary is found to be alone", alone)
        self.find(findings, "pair", WRONG, f"without a follower in sync: {self.b.url} lacks .* was last heard .* ago; ")
        self.find(findings, "broker", WRONG, f"^no broker at {self.b.url}: ")


if __name__ == "__main__":
    harness.main()
