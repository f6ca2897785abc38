"""roles.py: the configurations (*roles*) of brokers that strangers (fuzzing clients) speak to: alone, in a pair, inspecting a
directory.

The data directories of a role are made once. After a clean stop of its brokers, these directories are the template that
every life (one run with a stranger) starts from. So the secrets of sessions, the cluster's id and the ids of existing tasks
are the same in every life, and a trace of one life can be replayed in another.
"""
import os
import shutil

import harness
import ports
import tokens
import wire
from passing import Passing

FILLERS = 60            # tasks that belong to no client, so that small ids are harmless
BROKER_ARGUMENTS = ("--memory", "64MiB", "--segment-size", "4MiB", "--retain-log-size", "32MiB", "--retain-log-age", "1s")
PAIR_ARGUMENTS = ("--failover-after", "5s", "--solo-after", "2s")
IN_SYNC_S = 60


class Role:
    """One broker alone. `prey`: the brokers that strangers attack. `clients`: a Broker object for the tool, whose url names
    all brokers of the role.
    """

    name = "alone"
    arguments = ()
    stranger = ()  # arguments of the stranger program
    honest = True  # some clients schedule tasks
    jobs = True    # the role also speaks beanstalkd's protocol

    def __init__(self, directory, env):
        """`directory`: the role's own, for the template and for lives."""
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        self.passing = Passing(os.path.join(directory, "passed"), env.get("ASAN_OPTIONS"))
        self.env = {**env, **self.passing.env()}
        self.template = os.path.join(directory, "template")
        self.life = os.path.join(directory, "life")
        self.brokers = []
        self.make_brokers()

    def make_broker(self, name, *arguments, listen=None):
        job_port = ports.free_port()
        speaks = ("--listen", f"beanstalk://127.0.0.1:{job_port}") if self.jobs else ()
        broker = harness.Broker(os.path.join(self.life, name), *BROKER_ARGUMENTS, *speaks, *self.arguments, *arguments, env=self.env,
                                listen=listen or f"ws://127.0.0.1:{ports.free_port()}")
        broker.url = broker.listen
        broker.job_port = job_port
        self.brokers.append(broker)
        return broker

    def make_brokers(self):
        self.a = self.make_broker("a")
        self.prey = [self.a]

    # ---- the template

    def make_template(self):
        shutil.rmtree(self.life, ignore_errors=True)
        os.makedirs(self.life)
        self.found()
        self.stop()
        shutil.move(self.life, self.template)

    def found(self):
        self.a.start()
        self.fill(self.a)

    def fill(self, broker):
        with wire.Rpc(broker.port) as rpc:
            ops = [wire.schedule(f"q{number % 3}", f"filler-{number}", 0 if number % 4 == 0 else 3_600_000, b"filler")
                   for number in range(FILLERS)]
            code, reply = rpc.ask(wire.COMMIT, wire.commit(rpc.hello(), 1, ops), wait_s=60)
            assert code == wire.OK and len(wire.results(reply)) == FILLERS, (code, rpc.sentence)

    # ---- a life

    def begin(self):
        """Starts all brokers of the role on copies of the template, with clocks without a jump."""
        self.passing.ns = 0
        shutil.rmtree(self.life, ignore_errors=True)
        shutil.copytree(self.template, self.life)
        for broker in self.brokers:
            broker.log.clear()
            broker.ends.clear()
        self.start()

    def start(self):
        for broker in self.brokers:
            broker.start()

    def stop(self):
        """Stops the brokers by SIGTERM, the last started first; returns their exit statuses."""
        return [broker.stop() for broker in reversed(self.brokers) if broker.is_running()]

    def kill(self):
        for broker in self.brokers:
            if broker.is_running():
                broker.kill()

    @property
    def clients(self):
        return self.a

    def ports(self):
        return [broker.port for broker in self.prey]

    def job_ports(self):
        return [broker.job_port for broker in self.prey] if self.jobs else []


class Tokens(Role):
    """Strangers send tokens: of each role, for some queues or all, unknown ones, or none."""

    name = "tokens"
    rows = {"maker": ("produce", "queue=q0"), "taker": ("consume", "queue=q"), "watcher": ("read",), "operator": ("operate,read", "queue=q1"),
            "all": ("produce,consume,read,operate,admin",), "few": ("produce,consume", "rate=50")}
    stranger = tuple(word for name in rows for word in ("--token", tokens.text_of(name)))

    def make_brokers(self):
        path = os.path.join(self.directory, "tokens")
        harness.make_private(path, tokens.FIRST_LINE + "".join(tokens.row(name, *fields) for name, fields in self.rows.items()))
        self.a = self.make_broker("a", "--tokens", path)
        self.prey = [self.a]


class Pair(Role):
    """Two brokers with a file as their coordinator; strangers speak to the leader."""

    name = "leader"
    arguments = PAIR_ARGUMENTS
    stranger = (*Role.stranger, "--promotes", "60")  # about one request in 100 is a Pair request, so the leader changes sometimes
    coordinated = True

    def make_brokers(self):
        urls = [f"ws://127.0.0.1:{ports.free_port()}" for _ in range(2)]
        keeper = ("--coordinator", "file://" + os.path.join(self.life, "coordinator")) if self.coordinated else ()
        self.a = self.make_broker("a", "--peer", urls[1], *keeper, listen=urls[0])
        self.b = self.make_broker("b", "--follow", urls[0], *keeper, listen=urls[1])
        self.prey = [self.a]

    def found(self):
        self.start()
        self.fill(self.a)
        self.wait_in_sync()

    def status(self, broker):
        """Returns field number → values of a PairReply; {}: no answer."""
        try:
            with wire.Rpc(broker.port) as rpc:
                return wire.decode(rpc.ask(wire.PAIR, [])[1])
        except (OSError, AssertionError):
            return {}

    def wait_in_sync(self):
        in_sync = 14
        harness.wait_until("both in sync", lambda: all(self.status(b).get(in_sync) == [1] for b in self.brokers), IN_SYNC_S)

    def start(self):
        """The last leader starts first: `a`, unless a request changed that."""
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait_ready()
        self.wait_in_sync()

    @property
    def clients(self):
        both = self.a.by_way_of(self.a)
        both.url = ",".join(broker.url for broker in self.brokers)
        return both


class Follower(Pair):
    name = "follower"

    def make_brokers(self):
        super().make_brokers()
        self.prey = [self.b]


class Uncoordinated(Pair):
    """Two brokers without a coordinator; strangers speak to both."""

    name = "uncoordinated"
    arguments = ()
    coordinated = False

    def make_brokers(self):
        super().make_brokers()
        self.prey = [self.a, self.b]


class Solo(Pair):
    """A leader with a coordinator that serves alone, because its follower does not come back."""

    name = "solo"
    stranger = Role.stranger
    arguments = ("--solo-after", "1s", "--failover-after", "500ms")

    def found(self):
        super().found()
        self.b.kill()
        self.brokers.remove(self.b)
        self.fill_again()

    def fill_again(self):
        """Schedules tasks that only this node acknowledges."""
        self.a.ok("schedule", "q0", "--in", "1h", "--timeout", "60s")

    def start(self):
        if len(self.brokers) == 2:
            super().start()
        else:
            self.a.start()


class Inspecting(Role):
    """A directory that is only inspected."""

    name = "inspecting"
    honest = False
    jobs = False

    def start(self):
        inspects = os.path.exists(self.template)
        self.a.arguments = [*BROKER_ARGUMENTS, *(["--inspect"] if inspects else [])]
        super().start()


ROLES = {role.name: role for role in (Role, Tokens, Pair, Follower, Solo, Uncoordinated, Inspecting)}
