"""foreign_test.py: nng 1.5.2's own REQ and PULL sockets work with tarryd. libtarry has its own sockets, so independent clients
check the protocol: nng's (foreign.c), and one in another language (foreign.py)."""
import os
import subprocess
import sys
import unittest

import harness
import tokens
from certificates import Authority


class Foreign(harness.Case):
    def command(self):
        return [harness.find_program("foreign")]

    def lives(self, key, size, *secrets):
        url = self.broker.url.replace("wss://127.0.0.1", "wss://localhost")  # nng's TLS accepts host names only
        self.judge([*self.command(), url], key, size, *secrets)

    def judge(self, command, key, size, *secrets):
        """Checks a client's output about the life of a task, line by line; also used by foreign_library_test.py."""
        done = subprocess.run([*command, "q", key, str(size), *secrets], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["greeted", "scheduled", "delivered", "acked"])
        queue, found, content_size = lines[2].split()[1:]
        self.assertEqual((queue, found), ("q", key))
        self.assertGreaterEqual(int(content_size), size)

    def test_a_task_goes_through_its_life(self):
        self.lives("small", 10)
        self.assertEqual(self.broker.one("get", "q", "small")["state"], "acked")

    def test_a_payload_that_takes_many_frames(self):
        self.lives("large", 900_000)


class ForeignOverTls(Foreign):
    autostart = False

    def setUp(self):
        super().setUp()
        self.authority = Authority(self.directory)
        known = os.path.join(self.directory, "tokens")
        harness.make_private(known, tokens.FIRST_LINE + "loopback loopback roles=none\n" + tokens.row("worker", "produce,consume"))
        self.authority.serve(self.broker)
        self.broker.arguments += ["--tokens", known]
        self.broker.start()

    def lives(self, key, size, *secrets):
        super().lives(key, size, tokens.text_of("worker"), self.authority.ca)

    def test_a_task_goes_through_its_life(self):
        self.lives("small", 10)

    def test_without_a_right_token_nobody_is_let_in(self):
        with self.assertRaisesRegex(AssertionError, "401|[Pp]ermission|denied"):
            Foreign.lives(self, "small", 10, "tarry_nobodys", self.authority.ca)


class ForeignBySp(Foreign):
    """Tests over nng's own transports."""
    autostart = False
    scheme, listen = "tcp://", "tcp://127.0.0.1:0"

    def setUp(self):
        super().setUp()
        self.begin()

    def begin(self):
        self.broker.arguments += ["--listen", self.listen.replace("DIRECTORY", self.directory)]
        self.broker.start()

    def lives(self, key, size, *secrets):
        url = next(url for url in self.broker.ready["urls"].split() if url.startswith(self.scheme))
        self.judge([*self.command(), url.replace("tls+tcp://127.0.0.1", "tls+tcp://localhost")], key, size, *secrets)


class ForeignByIpc(ForeignBySp):
    scheme, listen = "ipc://", "ipc://DIRECTORY/nng.sock"


class ForeignBySpOverTls(ForeignBySp):
    scheme, listen = "tls+tcp://", "tls+tcp://127.0.0.1:0"

    def begin(self):
        self.authority = Authority(self.directory)
        known, certificate, key = os.path.join(self.directory, "tokens"), *self.authority.make("node")
        harness.make_private(known, tokens.FIRST_LINE + tokens.row("admin", "produce,consume,read,operate,admin") + "certificate worker roles=produce,consume\n")
        self.broker.arguments += ["--tokens", known, "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", self.authority.ca]
        super().begin()

    def lives(self, key, size, *secrets):
        both = os.path.join(self.directory, "both.pem")
        with open(both, "w", encoding="ascii") as file:
            for name in self.authority.make("worker"):
                with open(name, encoding="ascii") as part:
                    file.write(part.read())
        super().lives(key, size, both, self.authority.ca)


class Linked(unittest.TestCase):
    def libraries(self, name):
        """Returns all libraries that the program loads, directly or indirectly."""
        return subprocess.run(["ldd", harness.find_program(name)], capture_output=True, text=True, check=True).stdout

    def test_nothing_of_ours_links_nng(self):
        for name in ("tarryd", "tarry", "libtarry.so"):
            self.assertNotIn("nng", self.libraries(name))
        self.assertIn("nng", self.libraries("foreign"), "it would not be seen")


class Python(Foreign):
    def command(self):
        return [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "foreign.py")]


class PythonOverTls(Python, ForeignOverTls):
    pass


if __name__ == "__main__":
    harness.main()
