"""secure_test.py: the tool and the library over TLS and over a Unix socket, and problems of certificates, keys and token files."""
import os
import signal
import subprocess

import tokens
from certificates import Authority
from harness import Case, find_program, main, make_private
from tokens import row

REFUSED = 1  # exit status of the tool


class Rig(Case):
    autostart = False

    def setUp(self):
        super().setUp()
        self.authority = Authority(self.directory)
        self.certificate, self.key = self.authority.serve(self.broker)

    def fails(self, *options, expected=3):
        """Checks that the tool fails, and returns its message. Repeats with a longer timeout if the broker did not answer in
        time.
        """
        for timeout in ("300ms", "10s"):
            done = self.broker.tarry("stats", *options, "--timeout", timeout)
            if "does not answer" not in done.err:
                break  # otherwise the machine was too slow, so the loop tries again
        self.assertEqual(done.status, expected, done)
        return done.err

    def lives(self, *options):
        """Checks the whole life of a task, delivery on a lane included."""
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s", "--body", "x" * 100_000, *options)
        self.assertEqual(self.broker.one("consume", "q", "--count", "1", *options)["key"], "k")
        self.assertEqual(self.broker.one("get", "q", "k", *options)["state"], "acked")

    def with_tokens(self, *rows):
        """Makes a broker on which clients without a token may do nothing, and a file with the token of `worker`."""
        path, shown = os.path.join(self.directory, "tokens"), os.path.join(self.directory, "token")
        make_private(path, tokens.FIRST_LINE + "".join(rows))
        self.broker.arguments += ["--tokens", path]
        self.broker.start()
        self.show(shown, tokens.text_of("worker"))
        return shown

    def show(self, path, token):
        with open(path, "w", encoding="ascii") as file:
            file.write(token + "\n")
        os.chmod(path, 0o600)


class Secure(Rig):
    def test_a_life_over_tls(self):
        self.broker.start()
        self.lives("--tls-ca", self.authority.ca)

    def test_options_are_also_the_environments(self):
        self.broker.start()
        done = self.broker.tarry("stats", env={"TARRY_TLS_CA": self.authority.ca})
        self.assertEqual(done.status, 0, done)

    def test_a_life_over_a_unix_socket(self):
        self.broker.listen = "unix://" + os.path.join(self.directory, "socket")
        self.broker.arguments = []
        self.broker.start()
        self.lives()

    def test_who_is_not_vouched_for_is_left(self):
        self.broker.start()
        os.mkdir(os.path.join(self.directory, "elsewhere"))
        other = Authority(os.path.join(self.directory, "elsewhere"), "other")
        self.assertIn("its certificate is not trusted", self.fails())
        self.assertIn("its certificate is not trusted", self.fails("--tls-ca", other.ca))

    def test_a_certificate_of_another_host(self):
        self.broker.arguments = []
        self.authority.serve(self.broker, "other", hosts="IP:127.0.0.2,DNS:elsewhere")
        self.broker.start()
        self.assertIn("IP address mismatch", self.fails("--tls-ca", self.authority.ca))

    def test_a_broker_that_wants_a_certificate(self):
        self.broker.arguments += ["--tls-client-ca", self.authority.ca]
        self.broker.start()
        certificate, key = self.authority.make("client")
        self.assertIn("no broker answered", self.fails("--tls-ca", self.authority.ca))
        self.lives("--tls-ca", self.authority.ca, "--tls-cert", certificate, "--tls-key", key)

    def test_a_life_with_a_token_over_tls(self):
        ca = ("--tls-ca", self.authority.ca)
        shown = self.with_tokens("loopback loopback roles=none\n", row("worker", "produce,consume,read"))
        done = self.broker.tarry("schedule", "q", "--key", "k", "--in", "0s", *ca)
        self.assertEqual(done.status, 1, done)
        self.lives(*ca, "--token-file", shown)
        self.show(shown, "tarry_nobodys")
        self.assertIn("refuses this client (HTTP 401)", self.fails(*ca, "--token-file", shown, expected=1))
        self.show(shown, tokens.text_of("worker"))  # the broker reloads the file
        self.assertEqual(self.broker.one("get", "q", "k", *ca, "--token-file", shown)["state"], "acked")

    def test_files_that_cannot_be_used_are_named(self):
        self.broker.start()
        ca = ("--tls-ca", self.authority.ca)
        certificate, key = self.authority.make("client")
        empty, token = os.path.join(self.directory, "empty"), os.path.join(self.directory, "token")
        for path, text in ((empty, ""), (token, "two words\n")):
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(path, 0o600)
        self.assertIn("/nowhere cannot be read: No such file", self.fails(*ca, "--token-file", "/nowhere", expected=REFUSED))
        self.assertIn("empty is empty", self.fails(*ca, "--token-file", empty, expected=REFUSED))
        self.assertIn("contains no token", self.fails(*ca, "--token-file", token, expected=REFUSED))
        os.chmod(token, 0o640)
        self.assertIn("can be read by other users (mode 0640): run chmod 600 on it", self.fails(*ca, "--token-file", token, expected=REFUSED))
        self.assertIn("is not a regular file", self.fails(*ca, "--token-file", self.directory, expected=REFUSED))
        self.assertIn("/nowhere", self.fails("--tls-ca", "/nowhere"))
        self.assertIn("/dev/zero is not a regular file", self.fails("--tls-ca", "/dev/zero"))
        self.assertIn("/dev/zero is not a regular file", self.fails(*ca, "--tls-cert", "/dev/zero", "--tls-key", key))
        self.assertIn("empty", self.fails("--tls-ca", empty))
        self.assertIn("without a certificate: give both", self.fails(*ca, "--tls-key", key))
        os.chmod(key, 0o644)
        self.assertIn("client.key can be read by other users", self.fails(*ca, "--tls-cert", certificate, "--tls-key", key))
        os.chmod(key, 0o600)
        self.assertIn("key", self.fails(*ca, "--tls-cert", certificate, "--tls-key", self.key))


class Examples(Rig):
    """Runs programs that use libtarry without changes for TLS: environment variables name the broker, the CA and the token."""

    def run_example(self, name, *arguments, token="worker", stop_after=None):
        shown = self.with_tokens("loopback loopback roles=none\n", row("worker", "produce,consume,read,operate"))
        self.show(shown, tokens.text_of(token))
        env = {**os.environ, "TARRY_BROKER": self.broker.url, "TARRY_TLS_CA": self.authority.ca, "TARRY_TOKEN_FILE": shown}
        with subprocess.Popen([find_program(name), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=env) as process:
            said = ""
            while stop_after and stop_after not in said and (line := process.stdout.readline()):
                said += line
            if stop_after:
                process.send_signal(signal.SIGTERM)
            said += process.communicate(timeout=60)[0]
            return process.returncode, said

    def test_quickstart(self):
        status, said = self.run_example("quickstart")
        self.assertEqual(status, 0, said)
        self.assertRegex(said, "order-1 paid, 0 seen\norder-2 closed")

    def test_worker(self):
        status, said = self.run_example("worker", stop_after="charged")
        self.assertEqual(status, 0, said)
        self.assertIn("charged", said)

    def test_order_timeout(self):
        status, said = self.run_example("order_timeout", "--count", "200", "--speed", "43200")
        self.assertEqual(status, 0, said)
        self.assertRegex(said, "early=0 lost=0")

    def test_without_the_right_token_they_say_so(self):
        status, said = self.run_example("order_timeout", "--count", "20", "--speed", "43200", token="nobody")
        self.assertNotEqual(status, 0)
        self.assertRegex(said, "token|the principal may not do this")  # the consumer's message, or the producer's if that came first


class Certificates(Case):
    """A client certificate's name can identify a principal without a token (docs/ACCESS.md)."""

    autostart = False

    def setUp(self):
        super().setUp()
        self.authority = Authority(self.directory)
        self.authority.serve(self.broker)

    def test_the_row_of_a_certificates_name_says_what_it_may(self):
        self.broker.has_admin = False
        known = self.path("tokens")
        make_private(known, tokens.FIRST_LINE + "loopback loopback roles=none\ncertificate looker roles=read\n" +
                             row("shop", "produce"))
        self.broker.arguments += ["--tls-client-ca", self.authority.ca, "--tokens", known]
        self.broker.start()
        token = self.path("shop.token")
        make_private(token, tokens.text_of("shop") + "\n")

        def shown(name):
            certificate, key = self.authority.make(name)
            return "--tls-ca", self.authority.ca, "--tls-cert", certificate, "--tls-key", key
        looker, other = shown("looker"), shown("other")
        self.assertEqual(self.broker.tarry("stats", *looker).status, 0)
        schedule = ("schedule", "q", "--key", "k", "--in", "1h")
        denied = self.broker.tarry(*schedule, *looker)
        self.assertEqual(denied.status, 1, denied)
        self.assertIn("looker lacks the role produce", denied.err)
        self.assertEqual(self.broker.tarry("stats", *other).status, 1)  # no row has the name of this certificate, so the client gets the rights of the loopback row
        self.assertEqual(self.broker.tarry(*schedule, *looker, "--token-file", token).status, 0)  # the token has priority over the certificate


if __name__ == "__main__":
    main()
