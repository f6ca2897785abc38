"""netns.py: a small network in the kernel, for tests in which the nodes of a pair are disconnected. Hosts are network namespaces.
A hub between them forwards packets, and drops those between chosen hosts, in one direction or in both.

    a ────┐
    b ────┤ hub: forwards, except (source, destination) in `cuts`     10.78.N.1 ◄──► 10.78.N.2 = the host
    clients ┤
    zk ───┘

    network = Network("a", "b", "clients", "zk")
    Broker(data, …, listen=network.listen("a"), prefix=network.prefix("a"))
    network.enter("clients")             # moves the test itself there, and what it starts without a prefix
    network.cut_one_way("a", "b"); network.cut("a", "zk"); network.isolate("b"); network.heal()

Packets are dropped silently, as in a real network: connections stay open, nothing arrives, no reset.

*Nothing remains after a test, even if the test is killed.* A namespace has no name here. It exists while a process runs in it: its
holder (a process that only waits), or a program of the test. All these processes are killed when the *thread* that started them
ends (PR_SET_PDEATHSIG). So start them in a thread that runs until the end of the test. Namespaces, links and rules end with the
processes. Needs root, ip (iproute2), nft (nftables) and nsenter, setpriv (util-linux); `missing()` lists the ones that are missing.
"""
import ctypes
import os
import shutil
import subprocess
import sys

SUBNET = "10.78"
PORT = 7272
COMMAND_WAIT_S = 60
CLONE_NEWNET = 0x40000000
RULES = """
table ip tarry {
    set cuts { type ipv4_addr . ipv4_addr; }
    chain forward { type filter hook forward priority 0; policy accept; ip saddr . ip daddr @cuts counter drop; }
}
"""


def missing():
    """Returns a sentence about what is missing; None: nothing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program, package in (("ip", "iproute2"), ("nft", "nftables"), ("nsenter", "util-linux"), ("setpriv", "util-linux"),
                             ("unshare", "util-linux")):
        if not shutil.which(program):
            return f"no {program}: apt-get install --no-install-recommends {package}"
    try:
        Network("tried").close()
    except OSError as error:
        return f"this machine lets nobody make network namespaces with nftables: {error}"
    return None


class Holder:
    """A process that keeps a namespace in existence, and tells when the namespace exists."""

    def __init__(self):
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", "echo; exec sleep infinity"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if not self.process.stdout.readline():
            raise OSError(f"no network namespace: status {self.process.wait()}")
        self.path = f"/proc/{self.process.pid}/ns/net"

    def run(self, *command, stdin=None):
        done = subprocess.run(["nsenter", f"--net={self.path}", *command], input=stdin, text=True, capture_output=True, check=False,
                              timeout=COMMAND_WAIT_S)
        if done.returncode != 0:
            raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Network:
    """A network of named hosts. For use by one thread."""

    def __init__(self, *names):
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.cuts = set()  # (from, to)
        self.names = list(names)
        self.holders = {}
        try:
            self.hub = self.holders["hub"] = Holder()
            self.hub.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
            self.hub.run("nft", "-f", "-", stdin=RULES)
            for number, name in enumerate(names, 1):
                self._add(number, name)
        except BaseException:
            self.close()
            raise

    def _add(self, number, name):
        host = self.holders[name] = Holder()
        link = f"to{number}"
        self.hub.run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(host.process.pid))
        self.hub.run("ip", "address", "add", f"{SUBNET}.{number}.1/24", "dev", link)
        self.hub.run("ip", "link", "set", link, "up")
        host.run("ip", "link", "set", "lo", "up")
        host.run("ip", "address", "add", f"{SUBNET}.{number}.2/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        host.run("ip", "route", "add", "default", "via", f"{SUBNET}.{number}.1")

    # ---- hosts

    def address(self, name):
        return f"{SUBNET}.{self.names.index(name) + 1}.2"

    def listen(self, name, port=PORT):
        """Returns the URL of a broker on that host. (tarryd needs --unsafe-no-tls and --unsafe-no-tokens with it.)"""
        return f"ws://{self.address(name)}:{port}"

    def prefix(self, name):
        """Returns the words to put before a command. They run the command on that host, and kill it when the calling thread
        ends.
        """
        return ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net={self.holders[name].path}"]

    def enter(self, name):
        """Moves the calling thread to that host, with the processes and threads that it starts later. None: back to the
        original namespace.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        place = self.home if name is None else os.open(self.holders[name].path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.setns(place, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            if place != self.home:
                os.close(place)

    def add_address(self, name, address):
        """Adds one more address to a host, outside of any subnet. The other hosts reach it, and `cuts` do not affect it."""
        self.holders[name].run("ip", "address", "add", f"{address}/32", "dev", "eth0")
        self.hub.run("ip", "route", "add", f"{address}/32", "via", self.address(name))

    # ---- changes of the network

    def _pair(self, source, sink):
        return f"{{ {self.address(source)} . {self.address(sink)} }}"

    def cut_one_way(self, source, sink):
        """From now on, data from `source` to `sink` is lost; the other direction is not affected."""
        if (source, sink) not in self.cuts:
            self.hub.run("nft", "add", "element", "ip", "tarry", "cuts", self._pair(source, sink))
            self.cuts.add((source, sink))

    def cut(self, one, other):
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def isolate(self, name):
        """Cuts the host off from all others at the same moment, because a host that dies is gone for all of them at once."""
        others = [other for other in self.names if other != name]
        wanted = sorted({pair for other in others for pair in ((name, other), (other, name))} - self.cuts)
        if wanted:
            pairs = ", ".join(f"{self.address(source)} . {self.address(sink)}" for source, sink in wanted)
            self.hub.run("nft", "add", "element", "ip", "tarry", "cuts", f"{{ {pairs} }}")
            self.cuts.update(wanted)

    def heal(self, *pair):
        """Ends the cuts between two hosts; without arguments: all cuts."""
        for source, sink in sorted(self.cuts):
            if not pair or {source, sink} == set(pair):
                self.hub.run("nft", "delete", "element", "ip", "tarry", "cuts", self._pair(source, sink))
                self.cuts.remove((source, sink))

    def dropped(self):
        """Returns the number of lost packets so far."""
        words = self.hub.run("nft", "list", "chain", "ip", "tarry", "forward").split()
        return int(words[words.index("packets") + 1])

    def slow(self, name, kbit_per_s):
        """Limits the traffic to this host and the traffic from it; None: no limit."""
        link = f"to{self.names.index(name) + 1}"
        for holder, device in ((self.hub, link), (self.holders[name], "eth0")):
            if kbit_per_s is None:
                holder.run("tc", "qdisc", "delete", "dev", device, "root")
            else:
                holder.run("tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{kbit_per_s}kbit", "burst", "16kb",
                           "latency", "200ms")

    def close(self):
        """Ends the namespaces, unless another process still runs in them. The calling thread returns to its own."""
        self.enter(None)
        for holder in self.holders.values():
            holder.close()
        self.holders = {}
        os.close(self.home)


if __name__ == "__main__":  # when run by hand, the file makes a network, and a shell in its first host
    if missing():
        sys.exit(missing())
    hosts = Network(*(sys.argv[1:] or ["a", "b", "clients", "zk"]))
    for host_name in hosts.names:
        print(f"{host_name}: {hosts.address(host_name)}", flush=True)
    subprocess.run([*hosts.prefix(hosts.names[0]), os.environ.get("SHELL", "sh")], check=False)
    hosts.close()
