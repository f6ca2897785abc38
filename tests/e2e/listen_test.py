"""listen_test.py: addresses on which tarryd listens: several addresses, and Unix sockets."""
import os
import socket
import stat
import subprocess

import harness
import wire
from harness import Case, find_program
from wire import Rpc


def page(where, path="/healthz"):
    """Returns the response to a plain GET."""
    with wire.connected(where) as peer:
        peer.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while part := peer.recv(4096):
            answer += part
    return answer


class Listen(Case):
    autostart = False

    def setUp(self):
        super().setUp()
        self.place = os.path.join(self.directory, "socket")
        self.local = f"unix://{self.place}"

    def refused(self, *listens, data="other", status=1):
        """Starts a broker that must refuse; returns its log."""
        command = [find_program("tarryd"), "--data", os.path.join(self.directory, data)]
        for listen in listens:
            command += ["--listen", listen]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=30, check=False, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertNotIn("event=ready", done.stderr)
        return done.stderr

    def serve(self, *listens):
        self.broker.arguments = [word for listen in listens for word in ("--listen", listen)]
        return self.broker.start()

    def test_all_addresses_serve_one_broker(self):
        self.serve(self.local, "ws://127.0.0.1:0")
        urls = self.broker.ready["urls"].split()
        self.assertEqual([urls[0], urls[1]], [self.broker.url, self.local])
        ports = [self.broker.port, int(urls[2].rsplit(":", 1)[1])]
        producers = set()
        for where in (self.place, *ports):
            self.assertIn(b"200 OK", page(where))
            with Rpc(where) as rpc:
                producers.add(rpc.hello())
        self.assertEqual(len(producers), 3)  # all addresses belong to one broker
        self.assert_says(urls[1:])

    def assert_says(self, urls):
        """Checks that `tarry status` lists all addresses, in the order of --listen, and the first one reachable over a network."""
        status = self.broker.one("status")
        self.assertEqual((status["url"], status["urls"]), (self.broker.url, [self.broker.listen, *urls]))
        words = self.broker.words("status")
        for url in (self.broker.listen, *urls):
            self.assertRegex(words, rf"(?m)^  (listens at|          ) +{url}$")

    def test_a_node_of_a_pair_says_them_too(self):
        self.broker.arguments = ["--listen", self.local, "--peer", f"ws://127.0.0.1:{harness.ports.free_port()}"]
        self.broker.start()
        status = self.broker.refused("status").one  # tarry status exits with 1, because the other node does not run
        self.assertEqual((status["url"], status["urls"]), (self.broker.url, [self.broker.url, self.local]))

    def test_one_address_is_said_once(self):
        self.broker.start()
        self.assertNotIn("urls", self.broker.ready)
        self.assertEqual(self.broker.one("status")["urls"], [self.broker.url])
        self.assertNotIn("listens at", self.broker.words("status"))

    def test_a_unix_socket_alone(self):
        self.broker.listen = self.local
        self.broker.start()
        self.assertEqual(self.broker.ready["url"], self.local)
        self.assertIn(b"200 OK", page(self.place))
        self.assertEqual(stat.S_IMODE(os.stat(self.place).st_mode), 0o660)
        self.assertEqual(self.broker.stop(), 0)
        self.assertFalse(os.path.exists(self.place))

    def test_what_a_dead_broker_left_is_replaced(self):
        self.serve(self.local)
        self.broker.kill()
        self.assertTrue(stat.S_ISSOCK(os.stat(self.place).st_mode))
        self.broker.start()
        self.assertIn(b"200 OK", page(self.place))

    def test_a_living_broker_keeps_its_socket(self):
        self.serve(self.local)
        log = self.refused(self.local)
        self.assertIn("another broker listens there", log)
        self.assertIn(self.local, log)
        self.assertIn(b"200 OK", page(self.place))

    def test_what_another_made_there_is_left_to_it(self):
        self.serve(self.local)
        os.unlink(self.place)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(self.place)
            self.assertEqual(self.broker.stop(), 0)
            self.assertTrue(os.path.exists(self.place))

    def test_what_is_no_socket_is_left_alone(self):
        self.path("socket", "precious")
        self.assertIn("is not a socket", self.refused(self.local))
        with open(self.place, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")

    def test_nothing_stays_of_a_start_that_is_refused(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.refused(self.local, f"ws://127.0.0.1:{taken.getsockname()[1]}")
        self.assertFalse(os.path.exists(self.place))

    def test_addresses_that_cannot_be(self):
        self.assertIn("107 bytes", self.refused("unix:///" + "x" * 107, status=2))
        self.assertIn("given twice", self.refused(self.local, self.local, status=2))
        self.assertIn("no more than 8", self.refused(*["ws://127.0.0.1:0"] * 9, status=2))
        self.assertIn("create the directory first", self.refused(f"unix://{self.directory}/none/s"))
        self.assertIn("0.0.0.0", self.refused(self.local, "ws://0.0.0.0:0"))

    def test_a_pair_needs_an_address_that_the_other_reaches(self):
        key = self.path("key", "a secret of both nodes of this pair")
        os.chmod(key, 0o600)
        command = [find_program("tarryd"), "--data", self.broker.data, "--listen", self.local, "--peer", "ws://127.0.0.1:1",
                   "--peer-key", key]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=30, check=False, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("Unix socket only", done.stderr)


if __name__ == "__main__":
    harness.main()
