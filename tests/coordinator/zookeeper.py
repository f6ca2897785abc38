"""zookeeper.py: a real ZooKeeper server of Debian for tests, on a free port, in its own directory. A test can stop it, kill
it, start it again on its data, or give it older data. Needs a Java runtime and libzookeeper-java (./dev test installs
them); `missing()` says what is missing.
"""
import os
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from ports import free_port  # noqa: E402  (the path above)
from server import Server  # noqa: E402

JAR = "/usr/share/java/zookeeper.jar"
LOGGING = "/usr/share/java/slf4j-simple.jar"
TICK_MS = 250


def missing():
    """Returns a sentence that says what must be installed, or None if nothing is missing."""
    if not os.path.exists(JAR):
        return f"no {JAR}: apt-get install --no-install-recommends libzookeeper-java default-jre-headless"
    if not shutil.which("java"):
        return "no java: apt-get install --no-install-recommends default-jre-headless"
    return None


class ZooKeeper(Server):
    """One standalone server, or one member of an ensemble (`members`: the server lines of its configuration). `prefix`: a
    command that runs it elsewhere, for example in a network namespace with the address `address`.
    """

    named = "ZooKeeper"
    ready_wait_s = 180

    def __init__(self, number=0, members=(), address="127.0.0.1", prefix=(), port=None):
        super().__init__()
        self.address = address
        self.prefix = list(prefix)
        self.port = port or free_port()
        os.mkdir(self.data)
        with open(os.path.join(self.data, "myid"), "w", encoding="ascii") as file:
            file.write(f"{number}\n")
        with open(os.path.join(self.directory, "zoo.cfg"), "w", encoding="ascii") as file:
            file.write("\n".join([f"dataDir={self.data}", f"clientPort={self.port}", f"clientPortAddress={address}",
                                  f"tickTime={TICK_MS}", "initLimit=40", "syncLimit=20", "admin.enableServer=false",
                                  "minSessionTimeout=500",
                                  "maxSessionTimeout=60000", "4lw.commands.whitelist=srvr,cons", *members, ""]))

    def command(self):
        entry = "quorum.QuorumPeerMain" if self.is_member() else "ZooKeeperServerMain"
        return [*self.prefix, "java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JAR}:{LOGGING}",
                f"org.apache.zookeeper.server.{entry}", os.path.join(self.directory, "zoo.cfg")]

    def is_member(self):
        with open(os.path.join(self.directory, "zoo.cfg"), encoding="ascii") as file:
            return "server.1=" in file.read()

    def ask(self, word=b"srvr"):
        """Returns the answer to a four-letter command (`cons` lists the server's connections), or an empty text if there is no
        answer.
        """
        answer = b""
        try:
            with socket.create_connection((self.address, self.port), 5) as peer:
                peer.settimeout(5)
                peer.sendall(word)
                while piece := peer.recv(4096):
                    answer += piece
        except OSError:
            pass  # keep the part that has arrived
        return answer.decode(errors="replace")

    def mode(self):
        """Returns standalone, leader or follower, or None if the server does not serve."""
        for line in self.ask().splitlines():
            if line.startswith("Mode: "):
                return line.split()[1]
        return None

    # ---- the server's data, read or changed without Tarry's client

    def entry(self, word, path, text=""):
        """Runs zookeeper_entry.py on a node of its tree."""
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zookeeper_entry.py")
        command = [*self.prefix, sys.executable, program, f"{self.address}:{self.port}", word, path]
        return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout

    def read_entry(self, path):
        """Returns the node's text, or None if the node does not exist."""
        return self.entry("get", path) or None

    def write_entry(self, path, text):
        self.entry("put", path, text)

    def delete_entry(self, path):
        self.entry("delete", path)

    def serves(self):
        return self.mode() is not None

    def url(self, path="/tarry/pair", port=None):
        return f"zk://{self.address}:{port or self.port}{path}"


class Ensemble:
    """Three members."""

    def __init__(self):
        ports = [(free_port(), free_port()) for _ in range(3)]
        members = [f"server.{i}=127.0.0.1:{peer}:{election}" for i, (peer, election) in enumerate(ports, 1)]
        self.servers = [ZooKeeper(i, members).start() for i in (1, 2, 3)]
        for server in self.servers:
            server.wait_ready()

    def url(self, path="/tarry/pair"):
        return "zk://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers) + path

    def leader(self):
        return next(server for server in self.servers if server.process.poll() is None and server.mode() == "leader")

    def close(self):
        for server in self.servers:
            server.close()
