"""tls_test.py: tarryd over TLS: which clients it serves, changed certificates, and a pair whose nodes check each other."""
import os
import shutil
import socket
import ssl
import subprocess
import time

import harness
import wire
from certificates import Authority
from harness import Case, find_program, wait_until
from wire import Rpc


class Tls(Case):
    autostart = False

    def setUp(self):
        super().setUp()
        self.authority = Authority(self.directory)
        self.certificate, self.key = self.authority.serve(self.broker)
        self.broker.arguments += ["--listen", "ws://127.0.0.1:0"]

    @property
    def plain(self):
        return int(self.broker.ready["urls"].split()[1].rsplit(":", 1)[1])

    def connect(self, client=None, name="127.0.0.1", alpn=None, **limits):
        """Returns a socket to the broker; `client`: a certificate and its key."""
        context = self.authority.context()
        for limit, value in limits.items():
            setattr(context, limit, value)
        if client:
            context.load_cert_chain(*client)
        if alpn:
            context.set_alpn_protocols(alpn)
        peer = socket.create_connection(("127.0.0.1", self.broker.port), timeout=20)
        try:
            return context.wrap_socket(peer, server_hostname=name)
        except BaseException:
            peer.close()
            raise

    def greets(self, **options):
        with Rpc(self.connect(**options)) as rpc:
            return rpc.accepted and rpc.hello() > 0

    def problem(self):
        """Returns the problem that the broker's status reports, for example of a certificate."""
        with Rpc(self.plain) as rpc:
            _, reply = rpc.ask(wire.PAIR, [(1, 1)])
            return wire.decode(reply).get(11, [b""])[-1].decode()

    def says(self, event):
        return lambda: next((line for line in self.broker.log if f"event={event}" in line.split()), None)

    def fails(self, *arguments, status=1, listen="wss://127.0.0.1:0"):
        command = [find_program("tarryd"), "--data", self.path("other"), "--listen", listen, *arguments]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=30, check=False, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertNotIn("event=ready", done.stderr)
        return done.stderr


class Served(Tls):
    def test_requests_of_every_size_over_tls(self):
        self.broker.start()
        self.assertTrue(self.broker.url.startswith("wss://127.0.0.1:"))
        with Rpc(self.connect()) as rpc:
            producer = rpc.hello()
            for sequence, size in enumerate((0, 1, 16_000, 70_000, 1_000_000), 1):
                ops = [wire.schedule("q", f"k{size}", 3_600_000, os.urandom(size))]
                code, reply = rpc.ask(wire.COMMIT, wire.commit(producer, sequence, ops))
                self.assertEqual(code, wire.OK)
                self.assertEqual(len(wire.results(reply)), 1)
        self.assertEqual(self.broker_by(self.plain).queue_stats("q")["scheduled"], 5)

    def broker_by(self, port):
        """Returns the broker object; from now on its commands use the address without TLS at `port`."""
        self.broker.url = f"ws://127.0.0.1:{port}"
        return self.broker

    def test_large_answers_leave_whole(self):
        self.broker.start()
        with Rpc(self.connect()) as rpc:
            producer, body = rpc.hello(), os.urandom(900_000)
            self.assertEqual(rpc.ask(wire.COMMIT, wire.commit(producer, 1, [wire.schedule("q", "k", 0, body)]))[0], wire.OK)
            session = wire.Session(rpc, ["q"])
            with wire.WebSocket(self.connect(), f"/lane/{session.lane}", wire.LANE,
                                [f"Authorization: Bearer {session.secret.hex()}"]) as lane:
                self.assertTrue(lane.accepted, lane.answer)
                self.assertIn(body, lane.receive(20))

    def test_old_versions_and_weak_ciphers_are_refused(self):
        self.broker.start()
        with self.connect(maximum_version=ssl.TLSVersion.TLSv1_2) as peer:
            self.assertEqual(peer.version(), "TLSv1.2")
            self.assertIsNone(peer.compression())
        with self.connect() as peer:
            self.assertEqual(peer.version(), "TLSv1.3")
        for words in (("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"),
                      ("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")):
            done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{self.broker.port}", *words],
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=20)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(b"Cipher is (NONE)", done.stdout, words)
        self.assertTrue(self.greets())

    def test_who_says_that_he_fell_back_is_refused(self):
        """RFC 7507: the client claims that its attempts with TLS 1.3 failed, as if an attacker between client and broker had
        blocked them.
        """
        self.broker.start()
        for words, alert in ((("-tls1_2", "-fallback_scsv"), b"inappropriate fallback"), (("-tls1_3",), b"")):
            done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{self.broker.port}", "-CAfile", self.authority.ca, *words],
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=20)
            self.assertIn(alert, done.stderr)
            self.assertEqual(done.returncode != 0, alert != b"", words)

    def test_nothing_is_resumed_and_nothing_is_renegotiated(self):
        self.broker.start()
        where = f"127.0.0.1:{self.broker.port}"
        for version in ("-tls1_2", "-tls1_3"):
            done = subprocess.run(["openssl", "s_client", "-connect", where, version, "-reconnect", "-CAfile", self.authority.ca],
                                  input=b"", capture_output=True, check=False, timeout=20)
            self.assertNotIn(b"Reused, ", done.stdout, version)
            self.assertIn(b"New, ", done.stdout, version)
        done = subprocess.run(["openssl", "s_client", "-connect", where, "-tls1_2", "-CAfile", self.authority.ca],
                              input=b"R\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", capture_output=True, check=False, timeout=20)
        self.assertIn(b"RENEGOTIATING", done.stdout + done.stderr)
        self.assertIn(b"no renegotiation", done.stderr)
        self.assertNotIn(b"200 OK", done.stdout)

    def test_http_2_is_not_agreed_on(self):
        self.broker.start()
        with self.connect(alpn=["h2", "http/1.1"]) as peer:
            self.assertEqual(peer.selected_alpn_protocol(), "http/1.1")
        with Rpc(self.connect(alpn=["h2"])) as rpc:
            self.assertTrue(rpc.accepted)

    def test_whatever_name_is_asked_for_gets_the_one_certificate(self):
        self.broker.start()
        for name in ("localhost", "tarryd", "tarryd-tls", "x" * 63):
            done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{self.broker.port}", "-servername", name,
                                   "-CAfile", self.authority.ca, "-verify_return_error"],
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=20)
            self.assertIn(b"Verify return code: 0", done.stdout, name)  # s_client prints this line even if the server shows no certificate, so check the status and the subject too
            self.assertEqual(done.returncode, 0, (name, done.stdout))
            self.assertRegex(done.stdout, rb"(?m)^subject=CN ?= ?node$", name)  # openssl 3.0 prints `CN = node`, and openssl 3.5 `CN=node`

    def test_what_is_no_tls_ends_there_and_the_other_way_round(self):
        self.broker.start()
        with socket.create_connection(("127.0.0.1", self.broker.port), timeout=20) as peer:
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                self.assertNotIn(b"200", peer.recv(4096))
            except ConnectionResetError:
                pass
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            context = self.authority.context()
            with socket.create_connection(("127.0.0.1", self.plain), timeout=20) as peer:
                context.wrap_socket(peer, server_hostname="127.0.0.1")
        self.assertTrue(self.greets())


class Clients(Tls):
    """Clients have to show a certificate."""

    def setUp(self):
        super().setUp()
        self.broker.arguments += ["--tls-client-ca", self.authority.ca]

    def test_one_of_the_ca_is_let_in_and_no_other(self):
        self.broker.start()
        client = self.authority.make("client")
        self.assertTrue(self.greets(client=client))
        directory = self.path("strangers")
        os.mkdir(directory)
        stranger, stale = Authority(directory).make("client"), self.authority.make("stale", days=0)
        for other in (None, stranger, stale):
            with self.assertRaises((ssl.SSLError, OSError, AssertionError)):
                self.assertTrue(self.greets(client=other))
        self.assertTrue(self.greets(client=client))

    def test_a_certificate_for_servers_is_none_for_clients(self):
        self.broker.start()
        with self.assertRaises((ssl.SSLError, OSError, AssertionError)):
            self.assertTrue(self.greets(client=self.authority.make("server", usage="serverAuth")))


class Renewed(Tls):
    def test_new_certificates_are_taken_up_and_connections_stand(self):
        self.broker.start()
        with Rpc(self.connect()) as before:
            first = before.peer.getpeercert()["serialNumber"]
            self.assertGreater(before.hello(), 0)
            self.authority.make("node")
            wait_until("tls_renewed", self.says("tls_renewed"), 20)
            with self.connect() as peer:
                self.assertNotEqual(peer.getpeercert()["serialNumber"], first)
            self.assertGreater(before.hello(), 0)
        self.assertEqual(self.problem(), "")

    def test_what_is_broken_leaves_the_former_in_force_and_is_said(self):
        self.broker.start()
        shutil.copy(self.key, self.path("former.key"))
        other, other_key = self.authority.make("other")
        os.replace(other_key, self.key)
        line = wait_until("tls_refused", self.says("tls_refused"), 20)
        self.assertIn("does not belong to the certificate", line)
        self.assertIn("level=warning", line)
        self.assertIn("does not belong to the certificate", self.problem())
        self.assertTrue(self.greets())
        os.replace(other, self.certificate)
        wait_until("tls_renewed", self.says("tls_renewed"), 20)
        self.assertEqual(self.problem(), "")
        self.assertTrue(self.greets())

    def test_the_end_of_a_certificate_is_said_in_time(self):
        soon, key = self.authority.make("soon", days=5)
        self.broker.arguments += ["--tls-cert", soon, "--tls-key", key]
        self.broker.start()
        self.assertRegex(self.problem(), r"soon\.crt expires in [45] days: replace it")


class Refused(Tls):
    def test_files_that_do_not_serve(self):
        own = ("--tls-cert", self.certificate, "--tls-key", self.key)
        stale = self.authority.make("stale", days=0)
        other = self.authority.make("other")
        open_key = self.path("open.key", self.read(self.key))
        os.chmod(open_key, 0o644)
        private = self.path("private.crt", self.read(self.certificate))
        os.chmod(private, 0o600)
        locked = self.path("locked.key")
        subprocess.run(["openssl", "ec", "-in", self.key, "-aes128", "-passout", "pass:x", "-out", locked], check=True,
                       capture_output=True)
        broken = self.path("broken.crt", self.read(self.certificate)[:200] + b"\n-----END CERTIFICATE-----\n")
        for arguments, sentence in (
                (("--tls-cert", stale[0], "--tls-key", stale[1]), "has expired"),
                (("--tls-cert", self.certificate, "--tls-key", other[1]), "does not belong to the certificate"),
                (("--tls-cert", self.path("none"), "--tls-key", self.key), "none cannot be read: No such file"),
                (("--tls-cert", self.key, "--tls-key", self.key), "contains no certificate"),
                (("--tls-cert", broken, "--tls-key", self.key), "broken"),
                (("--tls-cert", self.certificate, "--tls-key", private), "contains no private key"),
                (("--tls-cert", self.certificate, "--tls-key", locked), "without a password"),
                (("--tls-cert", self.certificate, "--tls-key", open_key), "chmod o-rwx"),
                (("--tls-cert", self.directory, "--tls-key", self.key), "not a PEM file"),
                ((*own, "--tls-client-ca", self.key), "contains no certificate")):
            with self.subTest(sentence):
                self.assertIn(sentence, self.fails(*arguments))

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_options_that_do_not_fit(self):
        own = ("--tls-cert", self.certificate, "--tls-key", self.key)
        self.assertIn("--tls-cert FILE", self.fails(status=2))
        self.assertIn("need each other", self.fails("--tls-cert", self.certificate, status=2))
        self.assertIn("needs TLS: give an address at wss://", self.fails(*own, listen="ws://127.0.0.1:0", status=2))
        self.assertIn("tls-peer-ca", self.fails(*own, "--tls-peer-ca", self.authority.ca, status=2))
        self.assertIn("needs option tls-peer-ca", self.fails(*own, "--peer", "wss://127.0.0.1:1", "--peer-key", "x", status=2))


class Pair(Tls):
    """The two nodes use only wss:// between each other, and each checks the other's certificate."""

    def node(self, name, *arguments, authority=None, hosts="IP:127.0.0.1", token=None):
        certificate, key = (authority or self.authority).make(name, hosts=hosts)
        arguments = ["--tls-cert", certificate, "--tls-key", key, "--tls-peer-ca", self.authority.ca, *arguments]
        if token:
            path = self.path(f"{name}.token")
            harness.make_private(path, token + "\n")
            arguments += ["--peer-token-file", path]
        return self.make_broker(*arguments, data=self.path(name))

    def setUp(self):
        super().setUp()
        self.ports = [harness.ports.free_port() for _ in range(4)]

    def urls(self, scheme="wss"):
        return [f"{scheme}://127.0.0.1:{port}" for port in self.ports[:2]]

    def pair(self, leader_hosts="IP:127.0.0.1", **options):
        first, second = self.urls()
        leader = self.node("a", "--listen", f"ws://127.0.0.1:{self.ports[2]}", "--peer", second, hosts=leader_hosts)
        follower = self.node("b", "--listen", f"ws://127.0.0.1:{self.ports[3]}", "--follow", first, **options)
        leader.listen, follower.listen = first, second
        return leader, follower

    def test_a_pair_over_tls(self):
        leader, follower = self.pair()
        leader.launch()
        follower.start()
        leader.wait_ready()
        for broker, port in zip((leader, follower), self.ports[2:]):
            broker.url = f"ws://127.0.0.1:{port}"
        self.assertEqual(leader.one("schedule", "q", "--key", "k", "--in", "1h")["result"], "scheduled")
        self.assertTrue(leader.one("status")["in_sync"])
        self.kill(leader, follower)

    def test_strangers_are_refused_and_half_a_handshake_has_its_time(self):
        """All cases run at the same time, because each takes as long as its timeout."""
        directory = self.path("strangers")
        os.mkdir(directory)
        leader, _ = self.pair(leader_hosts="IP:127.0.0.1")
        elsewhere = self.node("d", "--listen", "ws://127.0.0.1:0", "--peer", self.urls()[1], hosts="IP:127.0.0.2,DNS:localhost")
        elsewhere.listen = f"wss://127.0.0.1:{self.ports[3]}"
        of_another_ca = self.node("e", "--follow", leader.listen, authority=Authority(directory))
        misled = self.node("f", "--follow", elsewhere.listen)
        for broker in (leader, elsewhere):
            broker.launch()
        for broker in (of_another_ca, misled):
            broker.listen = "wss://127.0.0.1:0"
            broker.launch()
        wait_until("a port", lambda: socket.socket().connect_ex(("127.0.0.1", self.ports[0])) == 0, 20)
        with socket.create_connection(("127.0.0.1", self.ports[0]), timeout=40) as silent:
            before = time.monotonic()
            silent.sendall(b"\x16\x03\x01\x02\x00\x01")
            self.assertEqual(silent.recv(4096), b"")
            self.assertGreater(time.monotonic() - before, 5)
        for broker in (of_another_ca, misled):
            wait_until("the reason", lambda log=broker.log: any("joining_waits" in line and "--tls-peer-ca" in line for line in log), 30)
            self.assertFalse(broker.is_ready.is_set())
        self.kill(leader, elsewhere, of_another_ca, misled)

    def kill(self, *brokers):
        """Kills the brokers: a clean stop of a pair takes long, and other tests cover it."""
        for broker in brokers:
            broker.kill()

    def heard_as(self, authority):
        """Acts as the other node, with a certificate of this CA, and accepts any certificate. Returns the connecting node's
        certificate and the head of its request.
        """
        certificate, key = authority.make("other", hosts="IP:::1")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.authority.ca)
        context.load_cert_chain(certificate, key)
        context.verify_mode = ssl.CERT_REQUIRED
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
            listener.settimeout(30)
            port = listener.getsockname()[1]
            node = self.node("c", "--follow", f"wss://[::1]:{port}", token="tarry_of_c")
            node.listen = "wss://127.0.0.1:0"
            node.launch()
            self.addCleanup(self.kill, node)
            with listener.accept()[0] as knocking, context.wrap_socket(knocking, server_side=True) as peer:
                head = b""
                while b"\r\n\r\n" not in head and (part := peer.recv(4096)):
                    head += part
                return peer.getpeercert(), head, port

    def test_certificate_and_token_are_shown(self):
        shown, head, port = self.heard_as(self.authority)
        self.assertIn((("commonName", "c"),), shown["subject"])
        self.assertIn(b"\r\nAuthorization: Bearer tarry_of_c\r\n", head)
        self.assertIn(f"\r\nHost: [::1]:{port}\r\n".encode(), head)

    def test_no_token_is_shown_to_whoever_is_not_vouched_for(self):
        os.mkdir(self.path("strangers"))
        with self.assertRaises(ssl.SSLError):
            _, head, _ = self.heard_as(Authority(self.path("strangers")))
            self.assertEqual(head, b"", "shown to somebody else")
            raise ssl.SSLError("the node ended it")


if __name__ == "__main__":
    harness.main()
