"""foreign_library_test.py: clients with other libraries and languages, also over TLS: Perl's NanoMsg::Raw (nanomsg 1.1), Go's
mangos, Python's pynng. Each test runs if its library is installed. `./dev test --languages` installs NanoMsg::Raw from
Debian, with socat for TLS. The environment variable TARRY_MANGOS names the source of mangos; gorilla's websocket must be
where Go finds it. pynng must be on PYTHONPATH.
"""
import functools
import importlib.util
import os
import shutil
import subprocess
import sys

import foreign_test
import harness
import ports
import tokens
from certificates import Authority

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD_WAIT_S = 120
DENIED = "refused: 15 hello"  # a client without credentials is `loopback`, which has no role here


@functools.cache
def perl_has_nanomsg():
    return bool(shutil.which("perl")) and subprocess.run(["perl", "-MNanoMsg::Raw", "-e", "1"], stderr=subprocess.DEVNULL, check=False).returncode == 0


class Stories:
    """The life of a task, for each library. A mixin, not a test class of its own."""

    def test_a_task_goes_through_its_life(self):
        self.lives("small", 10)
        self.assertEqual(self.broker.one("get", "q", "small", *self.as_worker())["state"], "acked")

    def test_a_payload_that_takes_many_frames(self):
        self.lives("large", 900_000)

    def as_worker(self):
        return ()


class Tls(Stories):
    """A broker on which clients without credentials may do nothing."""
    autostart = False

    def setUp(self):
        super().setUp()
        self.authority = Authority(self.directory)
        known = os.path.join(self.directory, "tokens")
        harness.make_private(known, tokens.FIRST_LINE + "loopback loopback roles=none\n" + tokens.row("worker", "produce,consume") +
                             "certificate machine roles=produce,consume\n")
        harness.make_private(self.path("token"), tokens.text_of("worker") + "\n")
        self.authority.serve(self.broker, hosts="IP:127.0.0.1,DNS:localhost")  # socat 1.7 does not accept an IPv6 address
        self.broker.arguments += ["--tokens", known, *self.more_options()]
        self.broker.start()

    def more_options(self):
        return ["--tls-client-ca", self.authority.ca]

    def as_worker(self):
        certificate, key = self.authority.make("machine", usage="clientAuth")
        return ("--tls-ca", self.authority.ca, "--token-file", self.path("token"), "--tls-cert", certificate, "--tls-key", key)

    def address(self):
        return self.broker.url.replace("127.0.0.1", "localhost")


class Perl(Stories, harness.Case):
    def setUp(self):
        if not perl_has_nanomsg():
            self.skipTest("no NanoMsg::Raw for perl: ./dev test --languages")
        super().setUp()

    def lives(self, key, size):
        foreign_test.Foreign.judge(self, ["perl", os.path.join(HERE, "foreign_nanomsg.pl"), self.broker.url], key, size)


class PerlOverTls(Tls, Perl):
    """nanomsg has no TLS, so socat provides it, with a client certificate instead of a token."""

    def setUp(self):
        if not shutil.which("socat"):
            self.skipTest("no socat: ./dev test --languages")
        super().setUp()

    def tunnel(self, certificate, key):
        port = ports.free_port()
        to = f"OPENSSL:localhost:{self.broker.port},pf=ip4,cafile={self.authority.ca},verify=1,cert={certificate},key={key}"
        process = subprocess.Popen(["socat", f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork", to])
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return f"ws://127.0.0.1:{port}"

    def lives(self, key, size, name="machine"):
        url = self.tunnel(*self.authority.make(name, usage="clientAuth"))
        foreign_test.Foreign.judge(self, ["perl", os.path.join(HERE, "foreign_nanomsg.pl"), url], key, size)

    def test_another_certificate_of_the_same_authority_is_nobodys(self):
        with self.assertRaisesRegex(AssertionError, DENIED):
            self.lives("small", 10, name="stranger")


class Go(Stories, harness.Case):
    binary = None

    def setUp(self):
        if not shutil.which("go") or not os.environ.get("TARRY_MANGOS"):
            self.skipTest("no Go, or no mangos in $TARRY_MANGOS")
        super().setUp()
        place = self.path("go/src/go.nanomsg.org/mangos")
        os.makedirs(place)
        os.symlink(os.path.abspath(os.environ["TARRY_MANGOS"]), os.path.join(place, "v3"))
        env = {**os.environ, "GO111MODULE": "off", "GOPATH": f"{self.path('go')}:/usr/share/gocode", "GOCACHE": self.path("go-cache")}
        self.binary = self.path("foreign_mangos")
        subprocess.run(["go", "build", "-o", self.binary, os.path.join(HERE, "foreign_mangos.go")], env=env, timeout=BUILD_WAIT_S, check=True)

    def lives(self, key, size):
        foreign_test.Foreign.judge(self, [self.binary, self.broker.url], key, size)


class GoOverTls(Tls, Go):
    def lives(self, key, size, name="machine"):
        foreign_test.Foreign.judge(self, [self.binary, self.address()], key, size, self.authority.ca, *self.authority.make(name, usage="clientAuth"))

    def test_another_certificate_of_the_same_authority_is_nobodys(self):
        with self.assertRaisesRegex(AssertionError, DENIED):
            self.lives("small", 10, name="stranger")


class Python(Stories, harness.Case):
    def setUp(self):
        if not importlib.util.find_spec("pynng"):
            self.skipTest("no pynng for this Python")
        super().setUp()

    def lives(self, key, size, *secrets):
        foreign_test.Foreign.judge(self, [sys.executable, os.path.join(HERE, "foreign_pynng.py"), self.broker.url], key, size, *secrets)


class PythonOverTls(Tls, Python):
    """Sends the token in the head of the upgrade request."""

    def more_options(self):
        return []

    def as_worker(self):
        return ("--tls-ca", self.authority.ca, "--token-file", self.path("token"))

    def lives(self, key, size, token=tokens.text_of("worker")):
        foreign_test.Foreign.judge(self, [sys.executable, os.path.join(HERE, "foreign_pynng.py"), self.address()], key, size, token, self.authority.ca)

    def test_without_a_right_token_nobody_is_let_in(self):
        with self.assertRaisesRegex(AssertionError, "[Pp]ermission|401|denied"):
            self.lives("small", 10, "tarry_nobodys")


if __name__ == "__main__":
    harness.main()
