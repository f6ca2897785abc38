"""units.py: simulated hosts that run the shipped systemd unit (and Debian's unit of etcd), for tests of the documentation. The
simulation implements exactly the features of systemd that these units use, as strictly as systemd does. It reads a unit
from the installed files and their drop-ins. If the test runs as root, a unit runs as the user that it names. This user owns
the state directory, and can read none of root's files except its credentials. The method `there` maps absolute paths
(/usr/local, /etc, /var/lib, /mnt) to paths below the host's directory. Commands of `Host.run` find stubs of systemctl,
journalctl, ssh and meson on their PATH, which call the simulated host.
"""
import contextlib
import os
import pwd
import re
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

import harness

READY_WAIT_S = 60
STOP_WAIT_S = 60
UID_FIRST = 61184  # first uid of systemd's dynamic users
REAL = re.compile(r"(?<![\w.])(/usr/local|/etc/tarry|/etc/default|/etc/systemd|/var/lib|/mnt|/root|/tmp)(?=[/\s'\";)]|$)")
# Variables that later command blocks of the documentation keep, as an operator's shell would.
KEPT = ("TARRY_BROKER", "TARRY_TLS_CA", "TARRY_TOKEN_FILE")
STUB = """#!{python}
import os, socket, sys
with socket.socket(socket.AF_UNIX) as host:
    host.connect("{socket}")
    host.sendall("\\0".join(sys.argv).encode() + b"\\n")
    answer = host.makefile(encoding="utf-8").read()
status, _, text = answer.partition("\\n")
print(text, end="", file=sys.stderr if int(status) else sys.stdout)
sys.exit(int(status))
"""


class Unit:
    """Contents of a unit's file and its drop-ins: (section, name) → values; an empty value clears the earlier ones."""

    def __init__(self, name, paths):
        self.name, self.said = name, {}
        for path in paths:
            section = None
            with open(path, encoding="utf-8") as file:
                for line in file:
                    line = line.strip()
                    if line.startswith("["):
                        section = line.strip("[]")
                    elif line and line[0] not in "#;":
                        key, _, value = line.partition("=")
                        values = self.said.setdefault((section, key), [])
                        values[:] = [*values, value] if value else []

    def words(self, section, key):
        return [word for value in self.said.get((section, key), []) for word in value.split()]

    def one(self, section, key):
        values = self.said.get((section, key), [])
        assert len(values) == 1, f"{self.name}: {key} is {values}"
        return values[0]


class Service:
    """A unit's process. It is restarted whenever it ends by itself."""

    def __init__(self, host, unit):
        self.host, self.unit, self.log = host, unit, []
        self.process, self.wanted, self.thread = None, False, None
        self.ready = threading.Event()

    def start(self, waits=True):
        self.wanted = True
        self.ready.clear()
        environment = self.host.prepare(self.unit)
        self.thread = threading.Thread(target=self._run, args=(environment,), daemon=True)
        self.thread.start()
        if waits:
            self.wait_ready()

    def wait_ready(self):
        assert self.ready.wait(READY_WAIT_S) and self.process, f"{self.unit.name} is not ready\n{self.text()}"

    def _run(self, environment):
        with tempfile.TemporaryDirectory(dir=self.host.directory) as place, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            os.chmod(place, 0o755)
            notify.bind(os.path.join(place, "notify"))
            os.chmod(os.path.join(place, "notify"), 0o777)
            environment["NOTIFY_SOCKET"] = os.path.join(place, "notify")
            threading.Thread(target=self._hear, args=(notify,), daemon=True).start()
            while self.wanted:
                self.process = self.host.spawn(self.unit, environment)
                for line in self.process.stderr:
                    self.log.append(line.decode(errors="replace").rstrip("\n"))
                self.process.wait()
                time.sleep(0.1 if self.wanted else 0)  # the pause before a restart, shorter here than the unit's RestartSec
            notify.shutdown(socket.SHUT_RDWR)

    def _hear(self, notify):
        while message := notify.recv(4096):
            if b"READY=1" in message:
                self.ready.set()

    def stop(self):
        self.wanted = False
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        if self.thread:
            self.thread.join(STOP_WAIT_S)
            assert not self.thread.is_alive(), f"{self.unit.name} does not stop\n{self.text()}"
        self.thread = None

    def kill(self):
        """Kills all processes of the host, as a power loss would."""
        self.wanted = False
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.thread:
            self.thread.join(STOP_WAIT_S)
        self.thread = None

    def text(self):
        return "\n".join(self.log[-60:])


class Host:
    """One host. `installed`: a DESTDIR of meson install. `others`: hosts by name that ssh reaches. `inside()`: a context in
    which the calling thread and its children use the host's network (tests/netns); by default the test's own."""

    def __init__(self, directory, installed, others=None, inside=contextlib.nullcontext):
        self.directory, self.installed, self.others, self.inside = directory, installed, others or {}, inside
        self.services, self.environment = {}, {}
        for name in ("etc/default", "var/lib", "mnt", "root", "tmp", "run", "stubs"):
            os.makedirs(self.at(name))
        os.makedirs(self.at("usr"))
        os.symlink(os.path.join(installed, "usr", "local"), self.at("usr/local"))
        os.chmod(directory, 0o755)
        path = self.at("host")
        for stub in ("systemctl", "journalctl", "ssh", "scp", "meson", "apt-get"):
            with open(self.at("stubs/" + stub), "w", encoding="ascii") as file:
                file.write(STUB.format(python=sys.executable, socket=path))
            os.chmod(self.at("stubs/" + stub), 0o755)
        self.server = socketserver.ThreadingUnixStreamServer(path, self._handler())
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def at(self, name):
        return os.path.join(self.directory, name)

    def there(self, text):
        """Replaces absolute paths in a text by the host's paths."""
        return REAL.sub(lambda found: self.directory + found.group(1), text.replace("/usr/share/doc/tarryd/", "/usr/local/share/doc/tarry/"))

    def close(self):
        for service in self.services.values():
            service.kill()
        self.server.shutdown()
        self.server.server_close()

    # ---- commands

    def run(self, commands, wait_s=120, status=0):
        """Runs commands as if they were pasted into a shell on this host. Returns (output, failed lines). Every command must
        exit with 0, except the commands in `status`: it maps the beginning of a line to the expected exit status.
        """
        expected = status or {}
        trap = "trap 'echo \"FAILED($?) $BASH_COMMAND\" >&2' ERR"
        programs = {os.path.dirname(harness.find_program(name)) for name in ("tarry", "tarryd")}
        environment = {**os.environ, **self.environment, "PATH": ":".join([self.at("stubs"), *programs, os.environ["PATH"]])}
        with self.inside():
            done = subprocess.run(["bash", "-m", "-c", f"{trap}\n{self.there(commands)}\nexport -p > {self.at('exported')}"],
                                  cwd=self.at("tmp"), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=wait_s, check=False)
        failed = re.findall(r"^FAILED\((\d+)\) (.*)$", done.stderr, re.M)
        for code, command in failed:
            allowed = [value for begin, value in expected.items() if command.startswith(begin)]
            assert allowed and int(code) in allowed, f"{command}: exit status {code}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        for begin in expected:
            assert any(command.startswith(begin) for _, command in failed), f"{begin} has not failed\n{done.stdout}\n{done.stderr}"
        with open(self.at("exported"), encoding="utf-8") as file:
            for name, value in re.findall(r'^declare -x (\w+)="(.*)"$', file.read(), re.M):
                if name in KEPT:
                    self.environment[name] = value
        return done.stdout + done.stderr

    def logs(self):
        return "\n".join(f"--- {self.directory} {name}\n{service.text()}" for name, service in self.services.items())

    def _handler(host):  # pylint: disable=no-self-argument
        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                words = self.rfile.readline().decode().rstrip("\n").split("\0")
                try:
                    status, text = 0, host.obey(os.path.basename(words[0]), words[1:]) or ""
                except (AssertionError, OSError) as wrong:
                    status, text = 1, f"{wrong}\n"
                self.wfile.write(f"{status}\n{text}".encode())
        return Handler

    def obey(self, program, words):
        if program in ("meson", "apt-get"):
            return ""  # nothing to do: everything is installed, and neither package starts a service
        if program == "ssh":
            return self.others[words[0]].run(" ".join(words[1:]).replace(self.directory, ""))
        if program == "scp":
            assert words[0] == "-p" and len(words) == 3, words
            node, _, path = words[2].partition(":")
            path = path.replace(self.directory, "", 1)  # the path was mapped to this host already
            shutil.copy(words[1], self.others[node].at(path.lstrip("/")))
            return ""
        if program == "journalctl":
            assert words[0] == "-u", words
            return "".join(line + "\n" for line in self.services[words[1] + ".service"].log)
        verb, names = words[0], [word + ".service" for word in words[1:] if not word.startswith("-")]
        if verb == "is-active":
            assert all(name in self.services and self.services[name].wanted for name in names), "inactive"
            return "active\n"
        if verb == "daemon-reload":
            return ""
        assert verb in ("start", "stop", "restart", "enable", "disable"), words
        for name in names:
            if verb in ("stop", "restart") or (verb == "disable" and "--now" in words):
                self.stop(name)
            if "--no-block" in words:
                self.start(name, waits=False)
            elif verb in ("start", "restart") or (verb == "enable" and "--now" in words):
                self.start(name)
        return ""

    # ---- units

    def load(self, name):
        drop_ins = self.there(f"/etc/systemd/system/{name}.d")
        files = sorted(os.listdir(drop_ins)) if os.path.isdir(drop_ins) else []
        path = self.there(f"/usr/local/lib/systemd/system/{name}")
        return Unit(name, [path if os.path.exists(path) else f"/lib/systemd/system/{name}", *[os.path.join(drop_ins, file) for file in files]])

    def wait_ready(self, name):
        self.services[name].wait_ready()

    def start(self, name, waits=True):
        unit = self.load(name)
        for path in unit.words("Unit", "AssertPathExists"):
            assert os.path.exists(self.there(path)), f"{name}: assertion failed: {path} does not exist"
        if name in self.services and self.services[name].wanted:
            return
        old = self.services.get(name)
        self.services[name] = Service(self, unit)
        self.services[name].log = old.log if old else []
        self.services[name].start(waits)

    def stop(self, name):
        if name in self.services:
            self.services[name].stop()

    def uid(self, unit):
        """Returns the uid of the unit's dynamic user, or None if the test is not root or the unit is not Tarry's."""
        if unit.name == "etcd.service":
            return None
        assert unit.one("Service", "DynamicUser") == "yes"
        user = unit.one("Service", "User")
        assert user not in (entry.pw_name for entry in pwd.getpwall()), f"there is a user {user} here"
        return UID_FIRST + sum(user.encode()) % 1000 if os.geteuid() == 0 else None

    def prepare(self, unit):
        """Makes the state directory and the credentials by the rules of systemd.exec(5). Returns the environment."""
        if unit.name == "etcd.service":
            return self.prepare_etcd(unit)
        uid = self.uid(unit)
        state = self.there("/var/lib/" + unit.one("Service", "StateDirectory"))
        os.makedirs(state, exist_ok=True)
        os.chmod(state, int(unit.one("Service", "StateDirectoryMode"), 8))
        if uid is not None and os.stat(state).st_uid != uid:  # like systemd, change the owner of the files below only if the directory's owner is wrong
            for place, folders, files in os.walk(state):
                for path in [place, *[os.path.join(place, name) for name in folders + files]]:
                    os.lchown(path, uid, uid)
        credentials = self.at("run/credentials/" + unit.name)
        shutil.rmtree(credentials, ignore_errors=True)
        os.makedirs(credentials)
        environment = {"PATH": "/usr/bin:/bin"}
        for word in unit.words("Service", "LoadCredential"):
            name, _, source = word.partition(":")
            assert source.startswith("/"), word
            target = os.path.join(credentials, name)
            shutil.copyfile(self.there(source), target)  # copyfile raises an exception if the file is missing
            os.chmod(target, 0o400)
            if uid is not None:
                os.chown(target, uid, uid)
            environment["CREDENTIALS_DIRECTORY"] = credentials
        return environment

    def prepare_etcd(self, unit):
        """Makes the directory that the etcd package would have made."""
        os.makedirs(self.there("/var/lib/etcd"), exist_ok=True)
        environment = {"PATH": "/usr/bin:/bin", "ETCD_BCRYPT_COST": "4"}  # selects the cheapest password hash
        lines = unit.words("Service", "Environment")
        with open(self.there("/etc/default/etcd"), encoding="utf-8") as file:
            lines += file.read().split()
        for line in lines:
            name, _, value = line.partition("=")
            environment[name] = self.there(value)
        return environment

    def mapped(self, path):
        """Copies a configuration, with this host's paths."""
        copy = self.at("run/" + os.path.basename(path))
        with open(path, encoding="utf-8") as source, open(copy, "w", encoding="utf-8") as target:
            target.write(self.there(source.read()))
        return copy

    def spawn(self, unit, environment):
        uid = self.uid(unit)
        who = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        kept = {name: os.environ[name] for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS") if name in os.environ}
        command = self.there(unit.one("Service", "ExecStart")).replace("$DAEMON_ARGS", environment.get("DAEMON_ARGS", ""))
        words = command.split()
        if "--config" in words:
            at = words.index("--config") + 1
            words[at] = self.mapped(words[at])
        with self.inside():
            return subprocess.Popen(words, env={**kept, **environment}, cwd="/",
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **who)
