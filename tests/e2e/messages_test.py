"""messages_test.py: each error message names the problem, with the value, and what to do. A table of wrong inputs and expected
messages; and all options of tarry and tarryd, each with an invalid value."""
import contextlib
import os
import re
import socket
import subprocess
import threading
import unittest

import harness
from harness import Case
from ports import free_port

NONSENSE = "!x7"


@contextlib.contextmanager
def somebody(answer):
    """Starts a server that sends this answer to every client."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                with peer:
                    peer.settimeout(2)
                    with contextlib.suppress(OSError):
                        peer.recv(4096)
                        peer.sendall(answer)
                        peer.shutdown(socket.SHUT_WR)
                        while peer.recv(4096):
                            pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def run(*arguments, stdin=b"", env=None, prefix=()):
    done = subprocess.run([*prefix, harness.find_program("tarry"), *map(str, arguments)], input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=harness.ANSWER_WAIT_S, check=False, env={**os.environ, **(env or {})})
    return done.returncode, done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def names_it(status, said):
    """Returns whether the tool refused NONSENSE with a message that names it."""
    return status == 2 and NONSENSE in said


# A command prefix that removes all network access.
NO_NETWORK = ("unshare", "-n") if os.geteuid() == 0 else ("unshare", "-rn")


def can_be_without_a_network():
    with contextlib.suppress(OSError):
        return subprocess.run([*NO_NETWORK, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    return False


class Addresses(Case):
    """Messages for an address without a broker."""

    autostart = False

    def said_of(self, url, expected=3, prefix=()):
        status, said = run("stats", "--broker", url, "--timeout", "1500ms", prefix=prefix)
        self.assertEqual(status, expected, said)
        self.assertIn(f"{url}: ", said)
        self.assertNotRegex(said, "never sent|Protocol error|Address invalid|Try again")
        return said

    def test_nobody_listens(self):
        said = self.said_of(f"ws://127.0.0.1:{free_port()}")
        self.assertIn("Connection refused: no broker listens there", said)
        self.assertIn("check that tarryd is running there, or give another address with --broker or TARRY_BROKER", said)
        self.assertEqual(said.count("Connection refused"), 1)  # the message has the reason only once

    def test_a_name_that_nobody_knows(self):
        self.assertRegex(self.said_of("ws://no-such-host.invalid:7272"), "the host does not exist|no name server answers")
        # Longer than a host name may be.
        self.assertIn("the host does not exist: check the name or address", self.said_of(f"ws://{'x' * 64}.invalid:7272"))

    @unittest.skipUnless(can_be_without_a_network(), "needs a network namespace")
    def test_a_name_when_no_name_server_answers(self):
        said = self.said_of("ws://no-such-host.invalid:7272", prefix=NO_NETWORK)
        self.assertIn("the host name cannot be resolved: no name server answers", said)

    def test_something_else_listens(self):
        for what, answer in (("a web server", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
                             ("a web page", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
                             ("ssh", b"SSH-2.0-OpenSSH_9.2p1\r\n")):
            with self.subTest(what), somebody(answer) as url:
                self.assertIn("the server there is not a broker", self.said_of(url))

    def test_somebody_who_lets_nobody_in(self):
        with somebody(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as url:
            self.assertIn("refuses this client (HTTP 403): it may require a token", self.said_of(url, expected=1))


class Inputs(Case):
    arguments = ("--payload-max", "64KiB")

    def test_each_says_what_is_wrong_and_what_to_do(self):
        big = "x" * 70_000
        table = (
            (("schedule", "q", "--in", "soon"), 2, r"--in: 'soon' is not a duration such as 250ms, 30s, 1h30m or 2d"),
            (("schedule", "q"), 2, r"missing due time: give exactly one of --in DUR, --at TIME, --due-ms N"),
            (("schedule", "q", "--in", "1h", "--attr", "k"), 2, r"--attr: 'k' is not name=value"),
            (("schedule", "q", "--in", "1h", "--body", big), 1, r"payload .*have 700\d\d bytes, .*limit is 65536 \(tarryd --payload-max\)"),
            (("schedule", "q", "--in", "1h", "--body-file", "/no/such"), 2, r"/no/such: No such file or directory"),
            (("schedule", "--from", "/no/such"), 2, r"/no/such: No such file or directory"),
            (("audit", "--kind", "scheduled,bogus"), 2, r"--kind: 'bogus' is not one of scheduled, moved, .*, queue, .*redacted"),
            (("audit", "--kind", "b" * 40), 2, r"--kind: 'b{40}' is not one of scheduled, moved"),
            (("list", "q", "--state", "late"), 2, r"--state: 'late' is not pending, ready, in_flight or dead"),
            (("consume", "q", "--ack", "maybe"), 2, r"--ack: 'maybe' is not auto, none or nack"),
            (("schedule", "q", "--in", "1h", "--on-conflict", "win"), 2, r"'win' is not reject, replace, earlier or later"),
            (("queue", "set", "q", "lease=soon"), 2, r"lease.*soon"),
            (("queue", "set", "q", "leese=1s"), 2, r"leese.*(lease|none of)"),
            (("ack", "1", "1"), 2, r"'1'.*token"),
            (("get", "--id", "0x10"), 2, r"'0x10' is not an id: a whole number from 1"),
            (("stats", "--broker", "http://h:1"), 2, r"'http://h:1' is not a broker's address such as ws://127.0.0.1:7272"),
            (("stats", "--timeout", "soon"), 2, r"--timeout: 'soon' is not a duration above zero such as 500ms or 10s"),
            (("statz",), 2, r"'statz'.*did you mean 'stats'"),
            (("stats", "--wotch"), 2, r"'--wotch'.*did you mean '--watch'"),
            (("verify", "/no/such"), 1, r"/no/such"),
            (("stats", "no-such-queue"), 1, r"the queue does not exist"),
        )
        for arguments, status, words in table:
            with self.subTest(" ".join(arguments)[:60]):
                url = () if "--broker" in arguments or arguments[0] in ("verify", "statz") else ("--broker", self.broker.url)
                got, said = run(*arguments, *url)
                self.assertEqual(got, status, said)
                self.assertRegex(said, words)

    def test_each_line_of_a_file_likewise(self):
        good = b'{"queue":"q","delay_ms":3600000}\n'
        table = (
            (b"\xef\xbb\xbf" + good, "line 1.*begins with a byte order mark .BOM.: save it as UTF-8 without one"),
            (b"\xff\xfe" + good.decode().encode("utf-16-le"), "line 1.*is UTF-16: save it as UTF-8"),
            (b"{queue:1}\n", "line 1.*not JSON"),
            (b'{"queue":"q"}\n', "line 1.*delay_ms.*due_ms"),
            (b'{"queue":"q","delay_ms":1,"delay":2}\n', "line 1.*delay"),
            (b'{"queue":"q","delay_ms":1,"key":""}\n', "line 1.*key: is empty; leave it out, or give null"),
            (b'{"queue":"q","delay_ms":-1}\n', "line 1.*delay_ms"),
            (b'{"queue":"","delay_ms":1}\n', "line 1.*queue name is empty"),
        )
        for line, words in table:
            with self.subTest(line[:40]):
                status, said = run("schedule", "--from", "-", "--broker", self.broker.url, stdin=line)
                self.assertEqual(status, 1, said)
                self.assertRegex(said, words)

    def test_an_inspected_directory_says_that_it_only_answers(self):
        self.broker.stop()
        inspector = self.make_broker("--inspect", "yes", data=self.broker.data)
        inspector.arguments = tuple(a for a in inspector.arguments)
        inspector.start()
        status, said = run("schedule", "q", "--in", "1h", "--broker", inspector.url)
        self.assertEqual(status, 1)
        self.assertRegex(said, r"this tarryd runs with --inspect: it answers get, list")


class EveryOption(Case):
    """Every option must refuse an invalid value, with a message that names the option and the value."""

    autostart = False
    # Other arguments that a command may require before it parses the option. One of these lists works for each command.
    around = ([], ["a"], ["a", "b"], ["1", "1-1"], ["--reason", "x", "a", "b"], ["--reason", "x"], ["--data", "/"], ["--data", "/", "--into"],
              ["--data", "/", "--dry-run"], ["a", "--in", "1s"], ["--reason", "x", "--queue", "a"], ["--beanstalkd", "h"], ["--redis-zset", "z"])

    def commands(self):
        help_text = subprocess.run([harness.find_program("tarry"), "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        return re.findall(r"^  ([a-z]+(?: [a-z]+)?) {2,}\S", help_text.split("Commands:")[1].split("Options of")[0], re.MULTILINE)

    def test_of_tarry(self):
        judged = 0
        for command in self.commands():
            text = subprocess.run([harness.find_program("tarry"), *command.split(), "--help"], stdout=subprocess.PIPE, text=True,
                                  check=True).stdout
            own = text.split("Options of every command:")[0]
            for option, value in re.findall(r"^  --([a-z-]+) (DUR|N|RFC3339|T|TIME|STATES|STATE|KIND|KINDS|MODE|WHAT|POSITION|SIZE|ID|FACTOR)\b",
                                            own, re.MULTILINE):
                with self.subTest(f"{command} --{option} {value}"):
                    answers = []
                    for around in self.around:
                        answers.append(run(*command.split(), *around, f"--{option}", NONSENSE, "--broker", "ws://127.0.0.1:9", "--timeout", "1ms"))
                        if harness.SANITIZED and names_it(*answers[-1]):
                            break  # one command is enough here, because the plain build tests all others much faster
                    self.assertEqual([said for status, said in answers if status == 0], [])
                    self.assertTrue([said for status, said in answers if names_it(status, said)], answers)
                judged += 1
        self.assertGreater(judged, 25)

    def test_of_tarryd(self):
        tarryd = harness.find_program("tarryd")
        text = subprocess.run([tarryd, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        options = re.findall(r"^ *--([a-z-]+) (DURATION|SIZE|N|BOOL|PERCENT|MODE|KIND)\b", text, re.MULTILINE)
        self.assertGreater(len(options), 20, text)
        for option, kind in [*options, ("listen", "URL"), ("allow-origin", "ORIGIN")]:
            with self.subTest(f"--{option} {kind}"):
                done = subprocess.run([tarryd, "--data", self.path("nowhere"), f"--{option}={NONSENSE}"], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, check=False, timeout=harness.ANSWER_WAIT_S)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(option, done.stdout)
                self.assertIn(NONSENSE, done.stdout)
        self.assertFalse(os.path.exists(self.path("nowhere")))


if __name__ == "__main__":
    harness.main()
