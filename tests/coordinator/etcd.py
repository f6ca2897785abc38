"""etcd.py: a real etcd of Debian for tests, on free loopback ports, in its own directory. It can be stopped, killed and started
again on its data, and be given users, certificates, a small quota or older data.

Needs etcd-server and etcd-client (./dev test installs them); `missing()` says what is missing.
"""
import json
import os
import shutil
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from ports import free_port  # noqa: E402  (the path above)
from server import Server  # noqa: E402
from validity import valid_for  # noqa: E402


def missing():
    """Returns a sentence that says what must be installed; None: nothing."""
    for program, package in (("etcd", "etcd-server"), ("etcdctl", "etcd-client")):
        if not shutil.which(program):
            return f"no {program}: apt-get install --no-install-recommends {package}"
    return None


class Certificates:
    """A CA, and the certificates that it signs, in `directory`."""

    def __init__(self, directory, name="ca"):
        self.directory, self.name = directory, name
        self.ca = self.path(name + ".pem")
        self.openssl("req", "-x509", *self.new_key(name), "-out", self.ca, "-days", "10", "-subj", f"/CN=tarry test {name}")

    def path(self, name):
        return os.path.join(self.directory, name)

    def new_key(self, name):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.path(name + ".key"))

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def make(self, name, days=10, host="IP:127.0.0.1"):
        """Returns (certificate, key); days < 0: expired."""
        request, extensions = self.path(name + ".csr"), self.path(name + ".ext")
        with open(extensions, "w", encoding="ascii") as file:  # etcd's gateway is a client of its own server
            file.write(f"subjectAltName={host}\nextendedKeyUsage=serverAuth,clientAuth\n")
        self.openssl("req", *self.new_key(name), "-out", request, "-subj", f"/CN={name}")
        self.openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.path(self.name + ".key"), "-CAcreateserial",
                     *valid_for(days), "-out", self.path(name + ".pem"), "-extfile", extensions)
        os.chmod(self.path(name + ".key"), 0o600)
        return self.path(name + ".pem"), self.path(name + ".key")


class Etcd(Server):
    """One server alone, or one member of a cluster (`cluster`: its --initial-cluster). `certificates`: (CA, certificate, key) for
    clients' connections; with `asks`, clients need certificates too."""

    named = "etcd"
    ready_wait_s = 60

    def __init__(self, name="m1", cluster=None, address="127.0.0.1", prefix=(), port=None, peer=None, certificates=None, asks=False,
                 options=()):
        super().__init__()
        self.name, self.address, self.prefix, self.options = name, address, list(prefix), list(options)
        self.port, self.peer = port or free_port(), peer or free_port()
        self.cluster = cluster or f"{name}={self.peer_url()}"
        self.certificates, self.asks = certificates, asks
        self.user = None  # name:password, for etcdctl

    def peer_url(self):
        return f"http://{self.address}:{self.peer}"

    def client_url(self):
        return f"{'https' if self.certificates else 'http'}://{self.address}:{self.port}"

    def command(self):
        command = [*self.prefix, "etcd", "--name", self.name, "--data-dir", self.data, "--logger", "zap", "--log-level", "warn", "--bcrypt-cost", "4",
                   "--listen-client-urls", self.client_url(), "--advertise-client-urls", self.client_url(),
                   "--listen-peer-urls", self.peer_url(), "--initial-advertise-peer-urls", self.peer_url(),
                   "--initial-cluster", self.cluster, *self.options]
        if self.certificates:
            ca, certificate, key = self.certificates
            command += ["--cert-file", certificate, "--key-file", key, *(["--client-cert-auth", "--trusted-ca-file", ca] if self.asks else [])]
        return command

    def control(self, *words, check=True, stdin=""):
        """Runs etcdctl on this server; returns its output."""
        command = [*self.prefix, "etcdctl", "--endpoints", self.client_url(), "--command-timeout", "5s", *words]
        if self.certificates:
            ca, certificate, key = self.certificates
            command += ["--cacert", ca, "--cert", certificate, "--key", key]
        if self.user:
            command += ["--user", self.user]
        done = subprocess.run(command, env={**os.environ, "ETCDCTL_API": "3"}, input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        assert done.returncode == 0 or not check, f"{command}: {done.stdout}"
        return done.stdout

    # ---- the server's data, read or changed without Tarry's client

    def read_entry(self, path):
        """Returns the entry's text; None: it does not exist."""
        found = self.control("get", path, "--print-value-only")
        return found[:-1] or None  # etcdctl appends a newline

    def write_entry(self, path, text):
        self.control("put", path, stdin=text)

    def delete_entry(self, path):
        self.control("del", path)

    def serves(self):
        return "successfully" in self.control("endpoint", "health", check=False)

    def ask(self, path, body):
        """Sends a request to etcd's JSON gateway. Returns the answer."""
        request = urllib.request.Request(f"{self.client_url()}/v3/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def status(self):
        return json.loads(self.control("endpoint", "status", "-w", "json"))[0]["Status"]

    def is_leader(self):
        status = self.status()
        return status["leader"] == status["header"]["member_id"]

    def add_users(self, password="secret", prefix="/tarry/"):
        """Adds the users root, and `pair`, who may do everything below `prefix`."""
        for words in ("user add root:root", "user grant-role root root", f"user add pair:{password}", "role add pair",
                      f"role grant-permission pair --prefix=true readwrite {prefix}", "user grant-role pair pair", "auth enable"):
            self.control(*words.split())
        self.user = "root:root"

    def url(self, path="/tarry/pair", port=None):
        return f"{'etcds' if self.certificates else 'etcd'}://{self.address}:{port or self.port}{path}"


class Ensemble:
    """Three members. `places`: address and command prefix of each member; by default all run on this host."""

    def __init__(self, places=({}, {}, {}), **options):
        ports = [(free_port(), free_port()) for _ in places]
        members = [(f"m{i}", place, port, peer) for i, (place, (port, peer)) in enumerate(zip(places, ports), 1)]
        cluster = ",".join(f"{name}=http://{place.get('address', '127.0.0.1')}:{peer}" for name, place, _, peer in members)
        self.servers = [Etcd(name, cluster, port=port, peer=peer, **place, **options).start() for name, place, port, peer in members]
        for server in self.servers:
            server.wait_ready()

    def url(self, path="/tarry/pair"):
        return "etcd://" + ",".join(f"{server.address}:{server.port}" for server in self.servers) + path

    def leader(self):
        return next(server for server in self.servers if server.process.poll() is None and server.is_leader())

    def close(self):
        for server in self.servers:
            server.close()
