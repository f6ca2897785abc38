"""scene.py: a pair in a small network: two brokers, the coordinator between them, and clients that know both addresses.

    a ───────┐
    b ───────┤ hub (netns.py)          each a network namespace; the test itself is one of the clients
    clients ─┤
    zk ──────┘ a real ZooKeeper, or etcd

Without namespaces everything is on the loopback device (`can_cut` is false). Without the coordinator's server a file is the
coordinator (`server` is None). Then fewer kinds of faults are possible, but not none.

Everything dies with the thread that made it (netns.py); `close` leaves nothing. For use by one thread.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name) for name in ("e2e", "crash", "coordinator")]
import etcd  # noqa: E402  (the path above)
import harness  # noqa: E402
import netns  # noqa: E402
import zookeeper  # noqa: E402
from fault import FOR_EVER, Fault  # noqa: E402
from frozen import freeze, thaw  # noqa: E402
from ports import free_port  # noqa: E402

NAMES = ("a", "b")
# kind → (what is missing on this machine, its server, its port)
COORDINATORS = {"zookeeper": (zookeeper.missing, zookeeper.ZooKeeper, 2181), "etcd": (etcd.missing, etcd.Etcd, 2379)}
QUICK = ("--failover-after", "700ms", "--solo-after", "1500ms")
# Options for small segments, which soon fill up and are archived and retired. A node that comes back late then needs a
# snapshot.
SMALL = ("--segment-size", "1MiB", "--retain-log-size", "1MiB")
SETTLE_WAIT_S = int(os.environ.get("TARRY_PAIR_SETTLE_S", "90"))  # time limit in seconds; set it higher on a busy machine
POLL_S = 0.2
RECORD = "/tarry/pair/record"  # path of the pair's record at the coordinator, below Server.url()
STOP_WAIT_S = 20
WRITE_WAIT_S = 4  # seconds in which a leader must be found before the scene reports that there is none
CLIENT_TIMEOUT = "300s"  # longer than any round takes, so that clients wait until its end


class Log(list):
    """A broker's messages, which are also written to the story."""

    def __init__(self, story, name):
        super().__init__()
        self.story, self.name = story, name

    def append(self, line):
        super().append(line)
        self.story.tell(f"{self.name}: {line}")


class Clients(harness.Broker):
    """The tool with both addresses; it starts and stops no broker."""

    def __init__(self, urls):
        super().__init__(None)
        self.url = ",".join(urls)

    def command(self, *arguments):
        patience = [] if "--timeout" in arguments else ["--timeout", CLIENT_TIMEOUT]
        return super().command(*arguments, *patience)


class Unsettled(AssertionError):
    """Raised when the pair did not reach the expected state."""


def wait_for_signals(process):
    """Waits until the process handles signals. Before that, SIGTERM would kill it. A broker blocks SIGTERM before it starts
    its second thread. (While its main thread waits for a signal, the kernel does not show that thread's block.)
    """
    end = time.monotonic() + STOP_WAIT_S
    while process.poll() is None and time.monotonic() < end:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            status = dict(line.split(":", 1) for line in file)
        if int(status["Threads"]) > 1 or int(status["SigBlk"], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.001)


class Scene:
    """`servers`: the hosts of the coordinator. `weakness`: the pair's rule that both break (weak_broker.c); None: none.
    `coordinator`: one of COORDINATORS."""

    servers = ("zk",)

    def __init__(self, story, options=QUICK, lack=netns.missing, weakness=None, coordinator="zookeeper"):
        self.story, self.weakness = story, weakness
        self.kind = COORDINATORS[coordinator]
        self.directory = tempfile.mkdtemp(prefix="tarry-rounds-", dir=os.environ.get("TARRY_BENCH_DIR"))
        self.lacks = [why for why in (lack(), self.kind[0]()) if why]
        self.can_cut = not lack()
        self.network = netns.Network(*NAMES, "clients", *self.servers) if self.can_cut else None
        self.server = None
        self.slowed = frozenset()
        self.is_alone = True  # True: this round has only one trouble
        self.disks = {}
        self.records = []  # (epoch, text) of the coordinator's record, one for each epoch that was seen
        try:
            if self.can_cut:
                self.network.enter("clients")
            coordinator = self._start_coordinator()
            urls = [self.network.listen(name) if self.can_cut else f"ws://127.0.0.1:{free_port()}" for name in NAMES]
            self.brokers = {name: self._make(name, urls, number, coordinator, options) for number, name in enumerate(NAMES)}
            self.clients = Clients(urls)
        except BaseException:
            self.close()
            raise

    def _start_coordinator(self):
        missing, make, port = self.kind
        if missing():
            return f"file://{self.directory}/coordinator"
        where = {"address": self.network.address("zk"), "prefix": self.network.prefix("zk"), "port": port} if self.can_cut else {}
        self.server = make(**where).start().wait_ready()
        return self.server.url()

    def _make(self, name, urls, number, coordinator, options):
        role = ("--peer", urls[1]) if number == 0 else ("--follow", urls[0])
        broker = harness.Broker(os.path.join(self.directory, name), *role, "--coordinator", coordinator, *options,
                                "--unsafe-no-tls", "yes", "--unsafe-no-tokens", "yes", listen=urls[number],
                                prefix=self.network.prefix(name) if self.can_cut else ())
        broker.log = Log(self.story, name)
        os.mkdir(place := os.path.join(self.directory, f"{name}-disk"))
        self.disks[name] = Fault(place, broker.data, "log.fdatasync", "hold")
        broker.env |= self.disks[name].env()
        if self.weakness:
            broker.program = "tarryd_weak"
            broker.env["TARRY_SEEDED_BUG"] = self.weakness
        return broker

    # ---- its brokers

    def launch(self, name):
        """Starts the broker unless it runs. Does not wait."""
        broker = self.brokers[name]
        if not broker.is_running():
            if broker.process is not None:
                broker.reader.join(5)
                broker.process.stderr.close()
            self.story.tell(f"start {name}")
            broker.launch()

    def kill(self, name):
        if self.brokers[name].is_running():
            self.story.tell(f"SIGKILL {name}")
            self.brokers[name].process.kill()
            self.brokers[name].process.wait()

    def freeze(self, name):
        """Sends SIGSTOP. Returns when all threads have stopped."""
        broker = self.brokers[name]
        if broker.is_running():
            self.story.tell(f"SIGSTOP {name}")
            freeze(broker.process)

    def thaw(self, name):
        if self.brokers[name].is_running():
            self.story.tell(f"SIGCONT {name}")
            thaw(self.brokers[name].process)

    def stop(self, name):
        """Sends SIGTERM. Does not wait. Returns False if the broker does not run."""
        is_running = self.brokers[name].is_running()
        if is_running:
            self.story.tell(f"SIGTERM {name}")
            wait_for_signals(self.brokers[name].process)
            self.brokers[name].process.send_signal(signal.SIGTERM)
        return is_running

    def hang_disk(self, name):
        """Makes all further syncs of the node's log hang until free_disk."""
        self.story.tell(f"the disk of {name} hangs")
        self.disks[name].arm(self.disks[name].matched + 1, FOR_EVER)

    def free_disk(self, name):
        self.story.tell(f"the disk of {name} goes on")
        self.disks[name].disarm()

    def pause(self, seconds):
        time.sleep(seconds)

    def wait_gone(self, name):
        """Must be called after stop. A frozen broker, or one that waits for the other node, may not end; then it is killed."""
        process = self.brokers[name].process
        try:
            status = process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill(name)
            return
        if status not in (0, -signal.SIGKILL):
            raise Unsettled(f"{name} ended with {status} after SIGTERM")

    def demote(self):
        """A planned switch-over; the brokers report its result."""
        self.story.tell("tarry demote")
        answer = self.clients.tarry("demote", "--wait", "4s", "--timeout", "4s", wait_s=60)
        self.story.tell(f"demote: {answer.status} {answer.out.strip()} {answer.err.strip()}")

    # ---- its network

    def cut(self, one, other):
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_one_way(self, source, sink):
        self.story.tell(f"cut {source} > {sink}")
        self.network.cut_one_way(source, sink)

    def isolate(self, name):
        self.story.tell(f"isolate {name}")
        self.network.isolate(name)

    def heal(self, one, other):
        self.story.tell(f"heal {one} = {other}")
        self.network.heal(one, other)

    def slow(self, name, kbit_per_s):
        self.story.tell(f"{name} at {kbit_per_s} kbit/s" if kbit_per_s else f"{name} at full speed")
        if kbit_per_s or name in self.slowed:
            self.network.slow(name, kbit_per_s)
        self.slowed = self.slowed | {name} if kbit_per_s else self.slowed - {name}

    # ---- its coordinator

    def kill_server(self):
        self.story.tell(f"SIGKILL {self.server.named}")
        self.server.kill()

    def start_server(self):
        if self.server.process.poll() is not None:
            self.story.tell(f"start {self.server.named}")
            self.server.start()

    def freeze_server(self):
        if self.server.process.poll() is None:
            self.story.tell(f"SIGSTOP {self.server.named}")
            self.server.pause()

    def thaw_server(self):
        if self.server.process.poll() is None:
            self.story.tell(f"SIGCONT {self.server.named}")
            self.server.resume()

    def save_record(self):
        """Saves the record for `put_record_back`, once per epoch. Both nodes are in sync, so both have seen this epoch."""
        epoch = self.epoch()
        if all(known != epoch for known, _ in self.records):
            self.records.append((epoch, self.server.read_entry(RECORD)))
            del self.records[:-2]

    def lose_record(self):
        self.story.tell("the record is lost")
        self.server.delete_entry(RECORD)

    def age_record(self):
        """Saves the pair's record, and makes both nodes promise later epochs than the saved one. Call it while both nodes run
        normally.
        """
        self.roles()
        self.save_record()
        while len(self.records) < 2:
            self.demote()
            self.roles()
            self.save_record()

    def put_record_back(self):
        """Writes the oldest saved record of the pair, whose epoch is earlier than the one that both nodes promised (see
        age_record).
        """
        epoch, text = self.records[0]
        self.story.tell(f"the record is put back to that of epoch {epoch}")
        self.server.write_entry(RECORD, text)

    def write_record(self):
        """Writes the record as docs/OPERATING.md describes it: on the leader, or on the node that has most of the log; then the
        other node is restarted."""
        leader = self.last_leader(self.find_leader(WRITE_WAIT_S))
        other = next(name for name in NAMES if name != leader)
        is_led = self.status()[leader]["role"] == "primary"
        if not is_led and self.stop(other):
            self.wait_gone(other)
        word = () if is_led else ("--peer-is-stopped",)
        answer = Clients([self.brokers[leader].listen]).tarry("pair", "record", "--write", *word, "--timeout", "20s", wait_s=60)
        self.story.tell(f"{leader} writes the record: {answer.status} {answer.err.strip()}")
        if answer.status != 0 and "nothing was written, because the coordinator's record is not older" not in answer.err:
            raise Unsettled(f"{leader} does not write the record: {answer}")
        if is_led and self.stop(other):
            self.wait_gone(other)
        self.launch(other)

    # ---- the state of the brokers

    def fallen(self):
        """Returns brokers that ended without being told to end."""
        return [f"{name} ended with {broker.process.returncode}" for name, broker in self.brokers.items() if not broker.is_running()]

    def status(self):
        """Returns name → its `tarry status`; None: no answer."""
        objects = self.clients.tarry("status", "--timeout", "4s", wait_s=60).objects
        if len(objects) != len(NAMES):
            return dict.fromkeys(NAMES)
        return {name: item if item["result"] == "ok" else None for name, item in zip(NAMES, objects)}

    def roles(self):
        """Returns (leader, follower) once one node leads, the other follows it, both count as in sync, and neither reports a
        problem.
        """
        return self.wait("one leads, both in sync", self.find_roles)

    def find_roles(self):
        status = self.status()
        if None in status.values():
            return None
        roles = {item["role"]: name for name, item in status.items()}
        epochs = {item["epoch"] for item in status.values()}
        if set(roles) != {"primary", "follower"} or len(epochs) != 1 or not all(item["in_sync"] for item in status.values()):
            return None
        return roles["primary"], roles["follower"]

    def find_leader(self, wait_s):
        """Returns the `status` of both nodes once one of them leads, or after a time limit."""
        end = time.monotonic() + wait_s
        while True:
            status = self.status()
            is_known = None not in status.values()
            if fallen := self.fallen():
                raise Unsettled(f"both answer: {', '.join(fallen)}")
            if is_known and (time.monotonic() > end or any(item["role"] == "primary" for item in status.values())):
                return status
            if time.monotonic() > end + SETTLE_WAIT_S:
                raise Unsettled(f"both answer: not within {SETTLE_WAIT_S} s: {status}")
            time.sleep(POLL_S)

    @staticmethod
    def last_leader(status):
        """Returns the name of the leader. If both nodes say that they lead, returns the one with the later epoch. If neither
        leads, returns the node that has most of the log.
        """
        return max(NAMES, key=lambda name: (status[name]["role"] == "primary", status[name]["epoch"], status[name]["durable"]))

    def leaders(self):
        """Returns name → epoch for each node that says that it leads."""
        return {name: item["epoch"] for name, item in self.status().items() if item and item["role"] == "primary"}

    def epoch(self):
        """Returns the leader's epoch."""
        return self.wait("one leads", lambda: max(self.leaders().values(), default=0))

    def wait_equal(self):
        """Called when no client makes changes any more. Waits until both nodes have the same log, have applied it, and have
        compared their digests.
        """
        def are_equal():
            status = self.status()
            if None in status.values():
                return False
            points = {(item["durable"], item["committed"], item["applied"]) for item in status.values()}
            follower = [item for item in status.values() if item["role"] == "follower"]
            digest = follower[0].get("digest") if follower else None
            return len(points) == 1 and digest is not None and digest["own"] == digest["peer"] and int(digest["position"]) > 0
        self.wait("both have the same", are_equal)

    def wait(self, what, check, wait_s=SETTLE_WAIT_S):
        end = time.monotonic() + wait_s
        while True:
            if found := check():
                return found
            if fallen := self.fallen():
                raise Unsettled(f"{what}: {', '.join(fallen)}")
            if time.monotonic() > end:
                raise Unsettled(f"{what}: not within {wait_s} s: {self.status()}")
            time.sleep(POLL_S)

    # ---- their directories

    def tool(self, *arguments):
        """Runs the tool on a directory, without a broker."""
        done = subprocess.run([harness.find_program("tarry"), *map(str, arguments), "--json"], capture_output=True, timeout=300, check=False)
        return harness.Answer(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))

    def close(self):
        for broker in getattr(self, "brokers", {}).values():
            if broker.is_running():
                broker.kill()
        for stream in self.clients.streams if hasattr(self, "clients") else ():
            stream.kill()
        for disk in self.disks.values():
            disk.close()
        if self.server is not None:
            self.server.close()
        if self.network is not None:
            self.network.close()
        shutil.rmtree(self.directory, ignore_errors=True)
