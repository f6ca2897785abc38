"""terminal_test.py: output for people fits their terminals (80 columns if the width is unknown), and requesters are shown by
name.
"""
import json
import os
import pwd
import re
import socket
import subprocess

import harness
import terminal
from harness import Case


class Width(Case):
    def lines(self, *arguments, columns=None):
        command = [harness.find_program("tarry"), *arguments, "--broker", self.broker.url]
        if columns is None:
            return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=harness.ANSWER_WAIT_S).stdout.splitlines()
        return self.on_a_terminal(command, columns).replace("\r\n", "\n").splitlines()

    def on_a_terminal(self, command, columns, stdin=None):
        """Returns the program's output on a terminal of this width."""
        status, seen = terminal.run(command, columns, stdin, harness.ANSWER_WAIT_S)
        self.assertEqual(status, 0, seen)
        return seen

    def test_statistics_fit_80_columns(self):
        name = "a-queue-whose-name-goes-on-and-on-" + "x" * 80
        for queue in (name, "brief"):
            self.broker.one("schedule", queue, "--in", "1h")
        self.broker.ok("queue", "pause", name)
        lines = self.lines("stats")
        self.assertLessEqual(max(map(len, lines)), 80, "\n".join(lines))
        self.assertRegex("\n".join(lines), r"\(paused\) a-queue-who[^ ]*… +1 ")
        self.assertRegex("\n".join(lines), r"QUEUE +PENDING +READY +IN FLIGHT +DEAD +OVERDUE +LATE P50 +P99\n")
        wide = "\n".join(self.lines("stats", "--wide"))
        self.assertIn(name, wide)
        for column in ("SCHEDULED", "CANCELLED", "DELIVERED", "ACKED", "RETRIED", "MAX"):
            self.assertIn(column, wide)
        self.assertIn(name, "\n".join(self.lines("stats", columns=250)))  # a wide terminal has enough columns for the whole name

    def test_a_progress_bar_scrolls_nowhere(self):
        path = self.path("tasks.ndjson")
        with open(path, "w", encoding="utf-8") as file:
            for number in range(60_000):
                file.write(json.dumps({"queue": "q", "key": f"k{number}", "delay_ms": 3_600_000}) + "\n")
        command = [harness.find_program("tarry"), "schedule", "--from", path, "--broker", self.broker.url]
        for columns in (20, 40, 59, 100):
            seen = self.on_a_terminal(command, columns)
            drawn = [text for line in seen.split("\n")[:-1] for text in line.replace("\033[K", "").split("\r") if "%" in text]
            self.assertTrue(drawn, seen)
            self.assertLess(max(map(len, drawn)), columns, drawn)
            self.assertEqual(any("▕" in text for text in drawn), columns >= 40, drawn)
            self.broker.ok("queue", "purge", "q")


class Sizes(Case):
    arguments = ("--memory", "2GiB")  # half of --memory is for tasks

    def test_a_size_is_told_in_its_largest_unit(self):
        self.assertRegex(self.broker.words("stats"), r"memory +[^\n]* of 1\.0 GiB, resident \d+\.\d MiB\n")


class Words(Case):
    """Output without --json."""

    def words(self, *arguments, status=0, stdin=None):
        done = subprocess.run([harness.find_program("tarry"), *arguments, "--broker", self.broker.url], input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=harness.ANSWER_WAIT_S)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout, done.stderr

    def test_what_was_done_to_a_queue(self):
        self.broker.one("schedule", "q", "--in", "1h")
        for arguments, word in ((("pause", "q"), "paused q"), (("resume", "q"), "resumed q"), (("purge", "q"), "purged q: 1 task"), (("delete", "q"), "deleted q")):
            self.assertEqual(self.words("queue", *arguments)[0].splitlines(), [word])
        said, why = self.words("queue", "delete", "q", status=1)
        self.assertEqual(said, "")
        self.assertIn("q", why)

    def test_a_tasks_history_names_it_once(self):
        for key in ("a", "b"):
            self.broker.one("schedule", "q", "--key", key, "--in", "1h")
            self.broker.one("move", "q", key, "--in", "2h")
            self.broker.one("cancel", "q", key)
        told, _ = self.words("history", "q", "a")
        self.assertEqual([line for line in told.splitlines() if line.startswith("task ")], [f"task {self.broker.one('get', 'q', 'a')['id']} of q"])
        self.assertEqual([told.count(word) for word in ("scheduled", "moved", "cancelled")], [1, 1, 1], told)

    def test_what_became_of_lines(self):
        lines = [{"queue": "q", "key": "a", "delay_ms": 3_600_000}, {"queue": "q", "key": "a", "delay_ms": 3_600_000}, {"queue": "q", "delay_ms": -1}]
        path = self.path("lines")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        _, seen = terminal.run([harness.find_program("tarry"), "schedule", "--from", path, "--broker", self.broker.url], 100, None, harness.ANSWER_WAIT_S)
        self.assertRegex(seen, r"3 lines in [^:]*: 1 scheduled, 1 exists, 1 error\b")


class Colours(Case):
    def test_only_on_a_terminal_and_only_if_wanted(self):
        self.broker.one("schedule", "q", "--in", "1h")
        command = [harness.find_program("tarry"), "queues", "--broker", self.broker.url]
        for env, bold in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({}, False)):
            with self.subTest(env):
                _, seen = terminal.run(["env", "-u", "TERM", "-u", "NO_COLOR", *(f"{name}={value}" for name, value in env.items()), *command])
                self.assertEqual("\033[1mQUEUE" in seen, bold, seen)
        self.assertNotIn("\033", self.broker.words("queues"))


class Who(Case):
    def who(self, *arguments):
        answer = self.broker.one("schedule", "q", "--in", "1h", *arguments)
        facts = self.broker.ok("history", "--id", answer["id"])
        return facts[0]["client"]

    def test_user_and_host_by_default(self):
        user = pwd.getpwuid(os.geteuid()).pw_name[:24]
        self.assertRegex(self.who(), rf"^{re.escape(user)}@{re.escape(socket.gethostname()[:24])} tarry/\d+$")

    def test_and_more_by_as(self):
        self.assertRegex(self.who("--as", "ticket 4711, für Ärger"), r"^ticket 4711, für Ärger: [^ ]+@[^ ]+ tarry/\d+$")
        self.assertRegex(self.who("--as", "x" * 64), r"^x{64}: [^ ]+@[^ ]+ tarry/\d+$")  # the longest allowed name is printed completely

    def test_what_is_no_name_is_refused(self):
        for name in ("", "x" * 65, "a\nb", b"\xff"):
            done = subprocess.run([harness.find_program("tarry"), "stats", "--broker", self.broker.url, "--as", name],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=harness.ANSWER_WAIT_S)
            self.assertEqual(done.returncode, 2, name)
            self.assertIn(b"is not 1 to 64 bytes of UTF-8 without control characters", done.stderr)


if __name__ == "__main__":
    harness.main()
