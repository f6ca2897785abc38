"""peers.py: the systems that people use for delays, each durable, started beside Tarry on loopback and on one disk: beanstalkd
-f0, Redis with appendfsync always, PostgreSQL; RabbitMQ on request.

`./dev bench peers [ROUNDS]`: one blocking durable schedule, and 64 blocking threads, with each system in turn, in several rounds;
medians and ratios. Absolute figures depend on the machine: quote ratios of one run. Tarry's 64 threads share one client, the
others have a connection each.
"""
import contextlib
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "e2e"))
import harness  # noqa: E402 (the import needs the changed sys.path)
import ports  # noqa: E402
from certificates import Authority  # noqa: E402

ROUNDS_DEFAULT = 3
ALONE, TOGETHER, CALLS_ALONE, CALLS_TOGETHER = 1, 64, 3000, 500
WAIT_S = 60
POSTGRESQL = "/usr/lib/postgresql"
RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Server:
    """Another system with a port and a directory of its own."""

    def __init__(self, name, directory, command, user=None, env=None, ends=lambda: None):
        self.name, self.port, self.directory = name, ports.free_port(), directory
        words = [word.format(port=self.port, directory=directory) for word in command]
        prefix = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user and os.getuid() == 0 else []
        self.command, self.env = [*prefix, *words], {**os.environ, **{key: value.format(port=self.port) for key, value in (env or {}).items()}}
        self.log = open(directory + ".log", "wb")  # pylint: disable=consider-using-with  (closed with the server)
        self.ends = ends  # function that is called after the server has ended, to end its other processes; or None
        self.launch()
        try:
            harness.wait_until(f"{name} on its port", lambda: listens(self.port), WAIT_S)
        except BaseException:
            self.kill()
            self.close()
            self.ends()
            raise

    def launch(self):
        self.process = subprocess.Popen(self.command, cwd=self.directory, env=self.env, stdout=self.log, stderr=self.log, start_new_session=True)

    def measure(self, threads, calls):
        return [harness.find_program("bench_peer"), "--peer", self.name, "--port", str(self.port), "--threads", str(threads), "--calls", str(calls)]

    def load(self, mode, **options):
        words = [word for key, value in options.items() for word in ("--" + key.replace("_", "-"), str(value))]
        return [harness.find_program("bench_peer_load"), "--peer", self.name, "--port", str(self.port), "--mode", mode, *words]

    def pids(self):
        """Processes of its session: PostgreSQL and RabbitMQ have several."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.getsid(int(pid)) == self.process.pid:
                    found.append(int(pid))
        return found

    def kill(self):
        """Sends SIGKILL to all processes of the session, and waits until they are gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(WAIT_S)
        harness.wait_until(f"{self.name} is gone", lambda: not self.pids() and not listens(self.port), WAIT_S)

    def close(self):
        if self.name == "rabbitmq":  # RabbitMQ's start script does not pass signals on to the server
            self.kill()
        elif self.process.poll() is None:
            self.process.send_signal(signal.SIGINT if self.name == "postgresql" else signal.SIGTERM)  # on SIGTERM PostgreSQL would wait for its clients
            self.process.wait(WAIT_S)
        self.log.close()


class Tarry:
    """One broker that is reachable by TCP, a Unix socket and TLS; `urls` has the three addresses."""

    def __init__(self, directory):
        authority = Authority(directory)
        certificate, key = authority.make("node")
        self.broker = harness.Broker(os.path.join(directory, "data"), "--listen", "unix://" + os.path.join(directory, "socket"), "--listen",
                                     "wss://127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key).start()
        self.urls = dict(zip(("ws", "unix", "wss"), self.broker.ready["urls"].split()))
        os.environ["TARRY_TLS_CA"] = authority.ca  # for the benches' clients

    def measure(self, threads, calls, way="ws"):
        return [harness.find_program("bench_latency"), "--broker", self.urls[way], "--threads", str(threads), "--calls", str(calls)]

    def ends(self):
        """Ends the server, and checks that none of its processes is left."""

    def close(self):
        self.broker.stop()


def postgresql(directory):
    version = max(os.listdir(POSTGRESQL), key=int)
    bin_directory = os.path.join(POSTGRESQL, version, "bin")
    shutil.chown(directory, "postgres", "postgres")
    initdb = [os.path.join(bin_directory, "initdb"), "-D", directory, "-A", "trust", "-U", "postgres"]
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    subprocess.run([*as_user, *initdb], cwd=directory, stdout=subprocess.DEVNULL, check=True)
    server = Server("postgresql", directory, [os.path.join(bin_directory, "postgres"), "-D", "{directory}", "-p", "{port}", "-c", "listen_addresses=127.0.0.1", "-c",
                                            "unix_socket_directories={directory}", "-c", "synchronous_commit=on", "-c", "fsync=on", "-c",
                                            "shared_buffers=512MB", "-c", "max_wal_size=4GB", "-c", "max_connections=120"], user="postgres")
    is_ready = [os.path.join(bin_directory, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(server.port)]  # waits for more than the open port, because the server listens before it serves
    harness.wait_until("postgresql serves", lambda: subprocess.run(is_ready, check=False).returncode == 0, WAIT_S)
    return server


def rabbitmq(directory):
    """Starts RabbitMQ with its own epmd. epmd runs in another session, so ending RabbitMQ must also end epmd by a command."""
    epmd, dist = str(ports.free_port()), str(ports.free_port())
    with open(os.path.join(directory, "plugins"), "w", encoding="ascii") as file:
        file.write("[].\n")
    env = {"RABBITMQ_NODENAME": "peer@localhost", "RABBITMQ_MNESIA_BASE": directory, "RABBITMQ_LOG_BASE": directory, "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
           "RABBITMQ_NODE_PORT": "{port}", "RABBITMQ_DIST_PORT": dist, "ERL_EPMD_PORT": epmd, "ERL_EPMD_ADDRESS": "127.0.0.1", "HOME": directory,
           "RABBITMQ_ENABLED_PLUGINS_FILE": os.path.join(directory, "plugins")}
    end_it = ["epmd", "-port", epmd, "-kill"]  # epmd refuses to end until it has noticed that the node is gone

    def ends():
        harness.wait_until("epmd is gone", lambda: not listens(int(epmd)) or subprocess.run(end_it, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                                                                            check=False).returncode == 0, WAIT_S)

    return Server("rabbitmq", directory, [RABBITMQ], env=env, ends=ends)


SYSTEMS = {
    "tarry": Tarry,
    "beanstalkd": lambda directory: Server("beanstalkd", directory, ["beanstalkd", "-l", "127.0.0.1", "-p", "{port}", "-b", "{directory}", "-f0"]),
    "redis": lambda directory: Server("redis", directory, ["redis-server", "--bind", "127.0.0.1", "--port", "{port}", "--dir", "{directory}", "--appendonly",
                                                           "yes", "--appendfsync", "always", "--save", ""]),
    "postgresql": postgresql,
}
FURTHER = {"rabbitmq": rabbitmq}  # measured only on request, because it is never the fastest and starts slowly


def is_installed(name):
    return name != "rabbitmq" or os.access(RABBITMQ, os.X_OK)


def run(command):
    return harness.parse_logfmt(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


@contextlib.contextmanager
def all_systems(names=tuple(SYSTEMS)):
    """Starts all systems; yields a dictionary by name."""
    top = tempfile.mkdtemp(prefix="tarry-peers-", dir=os.environ.get("TARRY_BENCH_DIR"))
    os.chmod(top, 0o755)
    systems = {}
    try:
        for name in names:
            directory = os.path.join(top, name)
            os.mkdir(directory)
            systems[name] = {**SYSTEMS, **FURTHER}[name](directory)
        yield systems
    finally:
        for system in systems.values():
            system.close()
            system.ends()
        shutil.rmtree(top, ignore_errors=True)


def main():
    rounds, alone, together = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS_DEFAULT, {}, {}
    with all_systems() as systems:
        for _ in range(rounds):
            for name, system in systems.items():
                alone.setdefault(name, []).append(float(run(system.measure(ALONE, CALLS_ALONE))["p50_us"]))
            for name, system in systems.items():
                together.setdefault(name, []).append(float(run(system.measure(TOGETHER, CALLS_TOGETHER))["per_s"]))
    middle_us = {name: statistics.median(samples) for name, samples in alone.items()}
    middle_per_s = {name: statistics.median(samples) for name, samples in together.items()}
    for name in SYSTEMS:
        print(f"bench=peers system={name} call_p50_us={middle_us[name]:.0f} each={[round(us) for us in alone[name]]} "
              f"threads_64_per_s={middle_per_s[name]:.0f} each={[round(per_s) for per_s in together[name]]}")
    best = min((us, name) for name, us in middle_us.items() if name != "tarry")
    print(f"bench=peers call: tarry takes {middle_us['tarry'] / best[0]:.2f} times as long as {best[1]}; 64 threads: tarry does "
          f"{middle_per_s['tarry'] / middle_per_s['redis']:.2f} times as many as redis")


if __name__ == "__main__":
    main()
