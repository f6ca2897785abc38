"""two_hosts_test.py: a pair on two hosts, and etcd on three, set up over TLS with tokens by the exact commands of
docs/OPERATING.md (guide_test.py extracts them, units.py runs the units). Hosts are network namespaces with the
addresses of the documents; services are on a fourth. Without root, or etcd, it is skipped with a message."""
import contextlib
import glob
import os
import re
import shutil
import socket
import ssl
import sys
import tempfile
import time
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import guide_test  # noqa: E402  (the path above)
import harness  # noqa: E402
import units  # noqa: E402
from etcd import missing as etcd_missing  # noqa: E402
from guide_test import ADDRESSES, BLOCKS  # noqa: E402
from netns import PORT, Network, missing  # noqa: E402

LACK = missing() or etcd_missing() or (None if shutil.which("openssl") else "no openssl")
UNIT = "tarry.service"
WAIT_S = 60
if LACK:
    print(f"# SKIPPED: {LACK}", flush=True)


@unittest.skipIf(LACK, LACK)
class TwoHosts(unittest.TestCase):
    def setUp(self):
        self.network = Network("a", "b", "c", "shop")
        self.addCleanup(self.network.close)
        self.hosts = {name: self.host(name) for name in self.network.names}
        self.a, self.b, self.c, self.shop = self.hosts.values()
        for name, address in zip("abc", ADDRESSES):
            self.network.add_address(name, address)
            self.hosts[name].others = self.hosts

    def host(self, name):
        directory = tempfile.mkdtemp(prefix=f"tarry-{name}-")
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        host = units.Host(directory, guide_test.installed(), inside=lambda: self.inside(name))
        self.addCleanup(host.close)
        return host

    @contextlib.contextmanager
    def inside(self, name):
        self.network.enter(name)
        try:
            yield
        finally:
            self.network.enter(None)

    # ---- the commands of the documents, unchanged

    def play(self, host, *names):
        return "".join(host.run(BLOCKS[name]) for name in names)

    def set_up_etcd(self):
        first = "NAME=a ADDRESS=10.0.0.1\n"
        self.assertIn(first, BLOCKS["etcd"])
        for name, address in zip("abc", ADDRESSES):
            self.hosts[name].run(BLOCKS["etcd"].replace(first, f"NAME={name} ADDRESS={address}\n"))
        for name in "abc":
            self.hosts[name].wait_ready("etcd.service")
        self.play(self.a, "users of etcd")

    def set_up_pair(self):
        self.play(self.a, "certificates", "tokens", "tokens to b", "peer key")
        for name in "ab":
            self.play(self.hosts[name], "credentials")
            self.hosts[name].run(BLOCKS["pair"].replace("pair-a.conf", f"pair-{name}.conf"))
        for host in (self.a, self.b):
            self.play(host, "clients")

    def set_up_service(self):
        """Sets up a service's host as the document says."""
        os.makedirs(self.shop.there("/etc/tarry/tls"))
        for file in ("tls/ca.crt", "shop.token", "worker.token"):
            shutil.copy(self.a.there(f"/etc/tarry/{file}"), self.shop.there(f"/etc/tarry/{file}"))
        self.assertIn("scheduled", self.play(self.shop, "service"))

    # ---- access

    def refused(self, command, sentence):
        said = self.shop.run(f"{command} --timeout 1s && echo LET IN || true")
        self.assertNotIn("LET IN", said)
        self.assertRegex(said, sentence)

    def page(self, path, address=ADDRESSES[0], ca="/etc/tarry/tls/ca.crt"):
        """Sends a GET request without credentials. Returns the first line of the broker's reply; an empty value: no reply."""
        with self.inside("shop"), socket.create_connection((address, PORT), WAIT_S) as peer:
            if ca:
                peer = ssl.create_default_context(cafile=self.shop.there(ca)).wrap_socket(peer, server_hostname=address)
            with peer:
                peer.sendall(f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
                with contextlib.suppress(ConnectionResetError):
                    return peer.recv(4096).partition(b"\r\n")[0]
        return b""

    def strangers_are_refused(self):
        schedule = "tarry schedule close-order --in 1h"
        self.refused(f"env -u TARRY_TOKEN_FILE {schedule}", "requires a token from this address")
        self.refused(f"TARRY_TOKEN_FILE=/etc/tarry/worker.token {schedule}", "produce")
        self.refused("tarry schedule other --in 1h", "queue")
        self.refused("tarry promote", "operate")
        self.refused(f"TARRY_BROKER=ws://{ADDRESSES[0]}:{PORT} {schedule}", "not sent over unencrypted ws:// to another machine")
        self.refused(f"TARRY_BROKER=ws://{ADDRESSES[0]}:{PORT} {schedule} --unsafe-plain-token", "no broker answered")
        self.shop.run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=tarry-ca -keyout /tmp/x -out /tmp/ca.crt")
        self.refused(f"TARRY_TLS_CA=/tmp/ca.crt {schedule}", "certificate")
        for address in ADDRESSES[:2]:
            self.assertIn(b" 401 ", self.page("/metrics", address))
            self.assertIn(b" 200 ", self.page("/healthz", address))
            self.assertNotIn(b"200", self.page("/healthz", address, ca=None))

    def plaintext_is_refused(self):
        """A node that is configured to listen without TLS must not start."""
        unit = self.a.load(UNIT)
        unit.said["Service", "ExecStart"][0] = f"/usr/local/bin/tarryd --data /tmp/other --listen ws://{ADDRESSES[0]}:7273"
        process = self.a.spawn(unit, self.a.prepare(unit))
        refusal = process.communicate(timeout=WAIT_S)[1].decode()
        self.assertEqual(process.returncode, 1, refusal)
        self.assertIn("is not a loopback address", refusal)

    # ---- the test's story

    def test_a_pair_over_tls_with_tokens_by_the_documents(self):
        started = time.monotonic()
        self.set_up_etcd()
        self.set_up_pair()
        self.set_up_service()
        print(f"# from nothing to a pair that is in sync and has a task: {time.monotonic() - started:.0f} s without packages", flush=True)
        self.strangers_are_refused()
        self.plaintext_is_refused()
        consume = "TARRY_TOKEN_FILE=/etc/tarry/worker.token tarry consume close-order --count 1 --timeout 60s"
        self.shop.run("tarry schedule close-order --key order-1 --in 0s")
        self.assertIn("order-1", self.shop.run(consume))
        self.shop.run("tarry schedule close-order --key order-2 --in 2s")
        self.a.services[UNIT].kill()
        self.assertIn("order-2", self.shop.run(consume))
        self.assertIn("event=leading", self.b.logs())
        self.a.run("systemctl start tarry")  # systemctl returns when the node runs, so that no other command is needed
        self.a.run("tarry status --wait 60s")
        self.others_are_served()
        self.revoke()

    def change_tokens(self, command, count):
        """Runs the command on a, and then the documented commands that copy the file to b. When this returns, both brokers
        have read the file.
        """
        self.a.run(command)
        self.play(self.a, "tokens to b")
        for name in "ab":
            service = self.hosts[name].services[UNIT]
            harness.wait_until(f"{name} knows", lambda log=service.log: any(re.search(f"=tokens_read .*count={count}$", line) for line in log), WAIT_S)

    def others_are_served(self):
        """Checks that a node serves other clients too: README's program, and a client with nng's own sockets, whose TLS checks
        names and which switches to the leader.
        """
        tokens = "/etc/tarry/programs.token"
        self.change_tokens("umask 077; tarry token add programs --role produce --role consume --file /var/lib/tarry/tokens > " + tokens, 6)
        shutil.copy(self.a.there(tokens), self.shop.there(tokens))
        with open(os.path.join(guide_test.ROOT, "README.md"), encoding="utf-8") as page:
            source = re.search(r"^```c\n(.*?)^```$", page.read(), re.M | re.S).group(1)
        self.assertIn("tarry_open(NULL, ", source)  # the program takes the addresses from TARRY_BROKER
        library = os.path.dirname(glob.glob("usr/local/**/libtarry.so", root_dir=guide_test.installed(), recursive=True)[0])
        with open(self.shop.there("/tmp/example.c"), "w", encoding="utf-8") as file:
            file.write(source)
        with open(self.shop.there("/tmp/hosts"), "w", encoding="ascii") as file:
            file.write(f"{ADDRESSES[1]} tarry-b\n")
        said = self.shop.run(f"cc -o /tmp/example /tmp/example.c -I /usr/local/include -L /{library} -ltarry\n"
                             f"TARRY_TOKEN_FILE={tokens} LD_LIBRARY_PATH=/{library} /tmp/example")
        self.assertRegex(said, "order-1 paid, 0 seen\norder-2 closed")
        shutil.copy(harness.find_program("foreign"), self.shop.there("/tmp/foreign"))  # copied, because the tree may be below /root, where the client cannot read it
        said = self.shop.run(f"""unshare --mount sh -c 'mount --bind /tmp/hosts /etc/hosts && exec "$@"' sh \
            /tmp/foreign wss://tarry-b:{PORT} q k 10 $(cat {tokens}) /etc/tarry/tls/ca.crt""")
        self.assertIn("\nacked", said)

    def revoke(self):
        self.change_tokens("tarry token revoke shop --file /var/lib/tarry/tokens", 5)
        for address in ADDRESSES[:2]:
            self.refused(f"tarry list close-order --broker wss://{address}:{PORT}", "this broker does not know the token|too many wrong tokens")


def tearDownModule():
    guide_test.tearDownModule()


if __name__ == "__main__":
    harness.main()
