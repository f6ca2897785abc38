"""guide_test.py: runs the command blocks of README.md and docs (PAGES) unchanged, and the installed systemd unit (units.py).
Absolute paths are mapped below a temporary directory; ports and addresses are the real ones, in a network namespace of this
process."""
import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import harness
import beanstalk
import origins
import units

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "coordinator"))
import etcd  # noqa: E402  (the path above)

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
PAGES = ("README.md", "docs/OPERATING.md", "docs/GETTING_STARTED.md", "docs/CAPACITY.md", "docs/MOVING_IN.md",
         "docs/ACCESS.md", "docs/WEBHOOKS.md")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
# First line of each block of commands in the docs → name of the block; None: the block is not tested here.
NAMES = {
    "./dev demo": None,
    "rabbitmqctl export_definitions": None,
    'eval "$(./dev env)"': "try",
    "export TARRY_BROKER=ws://127.0.0.1:7273": "two",
    "# one broker on this host": "alone",
    "install -d -m 0755 /etc/tarry\ntarry keygen": "sign",
    "# on a and on b\ninstall -d": "credentials",
    "# on a: the key by which the two": "peer key",
    "# on a; on b with pair-b.conf": "pair",
    "# on a, on b and on c, with its own name": "etcd",
    "# on a: a CA, and for each node": "certificates",
    "# on a, after `meson install`": "tokens",
    "# on a, now and whenever the file of tokens": "tokens to b",
    "# on a service's host": "service",
    "# on a, once etcd runs": "users of etcd",
    "# on a\nexport ETCDCTL_API=3": "record",
    "export TARRY_BROKER=wss://10.0.0.1:7272": "clients",
    "tarry demote   ": "switch",
    "tarry status                                   # 1.": "upgrade",
    "tarry status                                   # problem: the primary is silent": "primary lost",
    "tarry promote --force": "force",
    "ssh b 'systemctl stop tarry'\n": "follower lost",
    "systemctl stop tarry\ntarry verify": "quarantine",
    "systemctl stop tarry\nmv /var/lib/tarry/main /var/lib/tarry/main.lost                 # if there is one\nsed": "new disk",
    "# on a; both nodes are stopped": "both lost",
    "# on a node of a pair, once": "from two units",
    "tarry status                                   # problem: the follower does not": "word",
    "tarry status --wait 10m": "copied",
    "# once: who may back up": "backup",
    "# on a, once; then hand the file": "token of backups",
    "# wherever the copies are kept": "backup of a pair",
    "# on a\ntarry doctor": "watching",
    "systemctl stop tarry\nmv /var/lib/tarry/main /var/lib/tarry/main.lost                  # if there is one\ntarry restore": "restore",
    "# where the packages lie\napt-get install -y --no-install-recommends ./libtarry0": "install",
    "tarry schedule close-order --key order-1001 --in 2s": "an order",
    "tarry schedule close-order --key order-1003": "a worker",
    "tarry queue set close-order lease": "a policy",
    "# where the packages lie\napt-get install -y --no-install-recommends gcc": "from C",
    "tarry stats                                    # what is pending": "sizes",
    "apt-get install -y --no-install-recommends curl\n": "from curl",
    "apt-get install -y --no-install-recommends python3\n": "from python3",
    "apt-get install -y --no-install-recommends php-cli\n": "from php",
    "apt-get install -y --no-install-recommends default-jdk-headless\n": "from java",
    "# on a host that reaches both\ntarry import close-order": "import from Redis",
    "# on a host that reaches both; the old": "import from beanstalkd",
    "tarry token add shop --role produce": "who may do what",
    "tarry queue set close-order --push": "a webhook",
    "umask 077\necho \"close-order whsec_": "a webhook's secret",
    "# on a host that reaches both\npsql": None,  # tests/package/package_test.py tests this block with a real PostgreSQL
}


def network():
    """Moves this process and its children into a new network namespace. Returns None, or why that is impossible."""
    libc = ctypes.CDLL(None, use_errno=True)
    kinds = CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if not shutil.which("ip"):
        return "no `ip`: apt-get install iproute2"
    if libc.unshare(kinds) != 0:
        return f"no network namespace: {os.strerror(ctypes.get_errno())}"
    for command in ("link set lo up", *[f"addr add {address}/32 dev lo" for address in ADDRESSES]):
        done = subprocess.run(["ip", *command.split()], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            return f"ip {command}: {done.stderr.strip()}"
    return None


def blocks():
    """Returns every shell block of the documentation: name → commands. A block without a name is an error."""
    found = {}
    for page in PAGES:
        with open(os.path.join(ROOT, page), encoding="utf-8") as file:
            for block in re.findall(r"^```sh\n(.*?)^```$", file.read(), re.M | re.S):
                names = [name for begin, name in NAMES.items() if block.startswith(begin)]
                assert len(names) == 1, f"{page}: no test plays this block (or several could), name it in NAMES:\n{block}"
                found[names[0]] = block
    return found


BLOCKS = blocks()
NO_NETWORK = network() if __name__ == "__main__" else "not the main program"
INSTALLED = None


def installed():
    global INSTALLED  # pylint: disable=global-statement
    if INSTALLED is None:
        INSTALLED = tempfile.mkdtemp(prefix="tarry-guide-installed-")
        os.chmod(INSTALLED, 0o755)
        done = subprocess.run(["meson", "install", "-C", os.environ["TARRY_BUILD_ROOT"], "--no-rebuild", "--destdir", INSTALLED],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout
    return INSTALLED


def until(what, check, wait_s=60):
    return harness.wait_until(what, check, wait_s)


@unittest.skipIf(NO_NETWORK, NO_NETWORK)
class Case(unittest.TestCase):
    def setUp(self):
        self.hosts = []

    def host(self):
        directory = tempfile.mkdtemp(prefix="tarry-guide-")
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        host = units.Host(directory, installed())
        self.hosts.append(host)
        self.addCleanup(host.close)
        return host

    def play(self, host, name, **options):
        return host.run(BLOCKS[name], **options)


class Readme(Case):
    def test_one_broker(self):
        host = self.host()
        first, _, rest = BLOCKS["try"].partition("\n")
        self.assertTrue(first.startswith('eval "$(./dev env)"'))  # the line builds the programs; in this test they are already on PATH
        follow = "tarry audit --follow"
        self.assertIn(follow, rest)
        until_ctrl_c = (f"{follow} > followed & follow=$!\nuntil [ -s followed ]; do tarry schedule other --in 1h; done\n"
                        "kill -INT $follow; wait $follow #")
        said = host.run(rest.replace(follow, until_ctrl_c))
        self.assertRegex(said, r"cancelled .*order-1001|order-1001.*cancelled")
        self.assertIn("order-1002", said)

    def slow(self, host, name, seconds):
        """Puts a tarryd on the host's PATH that starts `seconds` later if its data directory ends with `name`."""
        with open(host.at("stubs/tarryd"), "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\ncase "$2" in */{name}) sleep {seconds};; esac\nexec {harness.find_program("tarryd")} "$@"\n')
        os.chmod(host.at("stubs/tarryd"), 0o755)

    def test_two_of_them(self):
        for late, seconds in (("b", 0), ("b", 1.5), ("a", 1)):
            host = self.host()
            self.slow(host, late, seconds)
            said = self.play(host, "two")
            self.assertIn("order-1003", said)
            self.assertRegex(said, "promoted ws://127.0.0.1:7273")


class GettingStarted(Case):
    """Uses the files that meson installs instead of packages; tests/package tests the packages on a bare Debian."""

    def test_an_order_is_closed(self):
        host = self.host()
        self.assertRegex(self.play(host, "install"), "(?m)^active$")
        said = self.play(host, "an order")
        self.assertRegex(said, r"(?m)^.*cancelled.*order-1002")
        self.assertRegex(said, r"acked")
        self.assertIn('{"order":1003} closed order-1003, attempt 1', self.play(host, "a worker"))
        self.assertRegex(self.play(host, "a policy"), r"close-order .*1m")
        self.assertRegex(self.play(host, "sizes"), r"/var/lib/tarry/main/index")

    def test_from_c(self):
        host = self.host()
        self.play(host, "install")
        # The folder is lib/MACHINE (such as lib/x86_64-linux-gnu), or lib64 where dpkg-architecture is missing.
        (pkg_config,) = glob.glob(os.path.join(installed(), "usr/local/lib*/**/pkgconfig"), recursive=True)
        host.environment.update({"PKG_CONFIG_PATH": pkg_config, "PKG_CONFIG_SYSROOT_DIR": installed(), "LD_LIBRARY_PATH": os.path.dirname(pkg_config)})
        said = host.run(self.with_examples(host, "from C", "/usr/share/doc/libtarry-dev/examples/", "client/examples"))
        self.assertRegex(said, r"order-1 paid, 0 seen\norder-2 closed \d+ ms after it was due")

    def with_examples(self, host, block, documented, folder):
        """Returns the block of commands, but with the examples of this tree. The block names the examples of an installed
        package (`documented`).
        """
        self.assertIn(documented, BLOCKS[block])
        if not os.path.lexists(host.at("tmp/examples")):
            os.symlink(os.path.join(ROOT, folder), host.at("tmp/examples"))
        return BLOCKS[block].replace(documented, "examples/")

    def test_from_other_languages(self):
        host, played = self.host(), 0
        self.play(host, "install")
        for program in ("curl", "python3", "php", "java"):
            if not shutil.which("javac" if program == "java" else program):
                continue  # languages_test.py reports the missing interpreter
            with self.subTest(program):
                said = host.run(self.with_examples(host, "from " + program, "/usr/share/doc/tarry/examples/", "examples"))
                self.assertTrue(said.startswith("order-1 paid, 0 seen\norder-2 closed, attempt 1\n"), said)
            played += 1
        self.assertGreaterEqual(played, 1)


class OtherPages(Case):
    def test_who_may_do_what(self):
        host = self.host()
        os.makedirs(host.there("/etc/tarry"))
        said = self.play(host, "who may do what")
        self.assertRegex(said, r"(?m)^shop +token +produce,read +orders\. ")
        left = host.run("tarry token list --file /etc/tarry/tokens")
        self.assertIn("worker", left)
        self.assertNotIn("shop", left)

    def test_a_webhook(self):
        host = self.host()
        self.play(host, "install")
        self.play(host, "a webhook")
        os.makedirs(host.there("/etc/tarry"), exist_ok=True)
        begins, _, ends = BLOCKS["a webhook's secret"].rpartition("tarryd")
        self.assertEqual(ends, " --push-secrets /etc/tarry/push.secrets …\n")
        host.run(begins)
        self.assertIn("primary", host.run(f"tarryd --data other --listen ws://127.0.0.1:7299{ends.replace('…', '&')}"
                                          "tarry status --broker ws://127.0.0.1:7299 --timeout 60s\nkill %1; wait"))


class MovingIn(Case):
    def served(self, kind, program, port):
        if not (shutil.which(program) or os.path.exists("/usr/bin/" + program)):
            self.skipTest(f"{program} is not installed: apt-get install {program}")
        server = kind(port=port)
        self.addCleanup(server.stop)
        return server

    def test_from_redis(self):
        redis, host = self.served(origins.Redis, "redis-server", 6379), self.host()
        self.addCleanup(redis.socket.close)
        self.addCleanup(redis.stream.close)
        due = int(time.time()) + 3600
        redis.add("delayed-orders", [(due + number, f"order-{number}") for number in range(3)])
        self.play(host, "install")
        said = self.play(host, "import from Redis")
        self.assertIn("delayed-orders: 3 members, due from 20", said)
        self.assertRegex(said, r"(?m)^ *\d+ +order-2 +pending ")
        self.assertEqual(redis.ask("ZCARD", "delayed-orders"), 0)

    def test_from_beanstalkd(self):
        server, host = self.served(beanstalk.Beanstalkd, "beanstalkd", 11300), self.host()
        with beanstalk.Client(server.port) as client:
            client.put(b"now")
            client.put(b"later", delay=1000)
            self.play(host, "install")
            said = self.play(host, "import from beanstalkd")
            self.assertIn("default: 1 ready, 1 delayed, 0 buried, 0 reserved\n", said)
            self.assertRegex(said, r"(?m)^default +2 ")
            self.assertIn(b"\ncurrent-jobs-ready: 0\ncurrent-jobs-reserved: 0\ncurrent-jobs-delayed: 0\n", client.ask("stats"))


class Unit(Case):
    def tarry(self, host, *arguments):
        """Runs the tool on the broker's host, without the token of an operator's shell."""
        return host.run("env -u TARRY_TOKEN_FILE tarry " + " ".join(arguments))

    def host(self):
        host = super().host()
        os.mkdir(host.there("/mnt/backup"))  # a directory in place of a mounted disk
        return host

    def configured(self, host):
        """Configures the host like the block "alone", but starts nothing."""
        host.run(BLOCKS["alone"].partition("systemctl")[0])

    def test_without_a_configuration_nothing_starts(self):
        """A broker that starts with an empty directory founds a cluster, which node b must not do."""
        host = self.host()
        said = host.run("systemctl enable --now tarry", status={"systemctl": 1})
        self.assertIn("/etc/tarry/tarryd.conf does not exist", said)
        self.assertFalse(os.path.exists(host.there("/var/lib/tarry")))

    def log_of(self, host, name="tarry.service"):
        return host.services[name].text()

    def test_backup_and_restore(self):
        host = self.host()
        self.play(host, "alone")
        self.tarry(host, "schedule", "close-order", "--key", "order-1001", "--in", "1h")
        self.assertIn("scheduled", self.play(host, "backup"))
        self.tarry(host, "schedule", "close-order", "--key", "order-1002", "--in", "1h")  # this task is scheduled after the backup, so the copy does not have it
        self.play(host, "restore")
        self.assertIn("order-1001", self.tarry(host, "list", "close-order"))
        self.assertNotIn("order-1002", self.tarry(host, "list", "close-order"))
        self.assertNotIn("founded_beside", self.log_of(host))

    def test_restore_on_a_new_disk(self):
        host, other = self.host(), self.host()
        self.play(host, "alone")
        self.tarry(host, "schedule", "close-order", "--key", "order-1001", "--in", "1h")
        self.play(host, "backup")
        host.stop("tarry.service")
        shutil.copytree(host.at("mnt"), other.at("mnt"), dirs_exist_ok=True)
        self.configured(other)
        self.play(other, "restore", status={"mv": 1})  # the host has no directory of Tarry yet, not even /var/lib/tarry
        self.assertIn("order-1001", self.tarry(other, "list", "close-order"))

    def test_a_restore_to_the_wrong_place_is_noticed(self):
        host = self.host()
        self.play(host, "alone")
        self.tarry(host, "schedule", "close-order", "--key", "order-1001", "--in", "1h")
        self.play(host, "backup")
        host.run("systemctl stop tarry; mv /var/lib/tarry/main /var/lib/tarry/lost; "
                 "tarry restore /mnt/backup/monday --data /var/lib/tarry/mian && systemctl start tarry")
        line = next(line for line in self.log_of(host).splitlines() if "event=founded_beside" in line)
        self.assertEqual(harness.parse_logfmt(line)["others"], "1")
        self.assertIn("starts with no tasks", line)
        host.stop("tarry.service")
        other = self.host()
        shutil.copytree(host.at("mnt"), other.at("mnt"), dirs_exist_ok=True)
        self.configured(other)
        other.run("tarry restore /mnt/backup/monday --data /var/lib/tarry")
        unit = other.load("tarry.service")
        process = other.spawn(unit, other.prepare(unit))
        refusal = process.communicate(timeout=60)[1].decode()
        self.assertEqual(process.returncode, 1)
        self.assertIn("would be inside the data directory", refusal)

    @unittest.skipUnless(os.geteuid() == 0, "root's commands beside a broker of another user")
    def test_what_root_makes_stays_the_broker_s(self):
        host = self.host()
        self.play(host, "alone")
        self.tarry(host, "archive", "hold", "--data", "/var/lib/tarry/main", "--reason", "case", "--from-position", "1")
        self.tarry(host, "archive", "list", "--data", "/var/lib/tarry/main")
        host.stop("tarry.service")
        self.tarry(host, "verify", "/var/lib/tarry/main")
        self.tarry(host, "audit", "--data", "/var/lib/tarry/main")
        uid = host.uid(host.load("tarry.service"))
        for place, folders, files in os.walk(host.there("/var/lib/tarry")):
            for path in [os.path.join(place, name) for name in folders + files]:
                self.assertEqual(os.lstat(path).st_uid, uid, path)
        # After the mistake of copying the directory as root, the refusal names a chown command, and that command helps.
        host.run("cp -r /var/lib/tarry/main /var/lib/tarry/copy; rm -r /var/lib/tarry/main; mv /var/lib/tarry/copy /var/lib/tarry/main")
        unit = host.load("tarry.service")
        process = host.spawn(unit, host.prepare(unit))
        refusal = process.communicate(timeout=60)[1].decode()
        command = re.search(r"chown -R \d+:\d+ [^\"]+/main", refusal)
        self.assertTrue(command, refusal)
        subprocess.run(command.group(0).split(), check=True)
        host.start("tarry.service")

    def test_a_key_that_signs(self):
        host = self.host()
        self.play(host, "alone")
        said = self.play(host, "sign")
        self.assertRegex(said, "event=signing key=[0-9a-f]{16}")
        self.tarry(host, "schedule", "close-order", "--in", "1h")
        host.run("systemctl stop tarry; tarry verify /var/lib/tarry/main --key /etc/tarry/sign.key.pub")

    @unittest.skipUnless(os.geteuid() == 0, "root's key, and a broker of another user")
    def test_a_key_that_only_root_can_read(self):
        host = self.host()
        self.play(host, "alone")
        host.run("mkdir -p /etc/tarry && tarry keygen /etc/tarry/sign.key; systemctl stop tarry")
        unit = host.load("tarry.service")
        unit.said["Service", "ExecStart"][0] += " --sign-key /etc/tarry/sign.key"
        process = host.spawn(unit, host.prepare(unit))
        refusal = process.communicate(timeout=60)[1].decode()
        self.assertEqual(process.returncode, 1)
        self.assertIn("LoadCredential=sign-key:" + host.there("/etc/tarry/sign.key"), refusal)
        self.assertNotIn("keygen", refusal)


class PairStories:
    """A mixin for Case: nodes a and b, each on its own host."""

    coordinated = False

    def setUp(self):
        super().setUp()
        self.a, self.b = self.host(), self.host()
        for host in self.hosts:
            host.others = {"a": self.a, "b": self.b}
        for name in ("peer key", "certificates", "tokens", "tokens to b"):
            self.play(self.a, name)

    def node(self, host, name):
        block = BLOCKS["pair"].replace("pair-a.conf", f"pair-{name}.conf")
        if not self.coordinated:
            install = r"^(install .*/tarryd\.conf)$"
            self.assertRegex(block, re.compile(install, re.M))
            block = re.sub(install, r"\1\nsed -i '/^coordinator/d; /^solo-after/d' /etc/tarry/tarryd.conf", block, flags=re.M)
        host.run(block)

    def set_up(self):
        self.node(self.a, "a")
        self.node(self.b, "b")
        for host in (self.a, self.b):
            self.play(host, "clients")

    def schedule(self, key, options=""):
        """Schedules a task with a service's token."""
        self.a.run(f"TARRY_TOKEN_FILE=/etc/tarry/shop.token tarry schedule close-order --key {key} --in 1h {options}")

    def keys(self, host=None):
        return set(re.findall(r"order-\d+", (host or self.a).run("tarry list close-order")))

    def wait_in_sync(self):
        self.a.run("tarry status --wait 60s")

    def test_a_broker_that_ran_alone_becomes_node_a(self):
        self.play(self.a, "alone")
        self.a.run("tarry schedule close-order --key order-1 --in 1h")
        self.node(self.a, "a")
        self.node(self.b, "b")
        self.play(self.a, "clients")
        self.assertEqual(self.keys(), {"order-1"})
        self.a.run("tarry get close-order order-1 --broker wss://10.0.0.2:7272 --from-follower")

    def test_from_setting_up_to_disaster(self):
        self.set_up()
        self.schedule("order-1")
        self.play(self.a, "switch")
        self.wait_in_sync()
        self.play(self.a, "upgrade")  # b is the primary now
        self.a.run("tarry promote --broker wss://10.0.0.1:7272")
        self.schedule("order-2")
        self.wait_in_sync()
        self.lose_the_primary()
        self.schedule("order-3")
        self.a.run("systemctl start tarry")
        self.wait_in_sync()
        self.a.run("tarry promote --broker wss://10.0.0.1:7272")
        self.wait_in_sync()
        self.lose_the_follower()
        self.schedule("order-4")
        self.b.run("systemctl start tarry")
        self.wait_in_sync()
        self.assertEqual(self.keys(), {f"order-{i}" for i in range(1, 5)})

    def test_a_pair_is_backed_up_from_its_follower(self):
        self.set_up()
        self.schedule("order-1")
        self.wait_in_sync()
        for name in ("token of backups", "tokens to b"):
            self.play(self.a, name)
        known = "TARRY_TOKEN_FILE=/etc/tarry/backups.token tarry stats --from-follower --broker wss://10.0.0.2:7272 >/dev/null 2>&1"
        self.a.run(f"until {known}; do sleep 0.2; done")  # the broker reloads the file by itself
        os.makedirs(self.a.there("/mnt/backup"))
        said = self.play(self.a, "backup of a pair")
        self.assertIn(", from wss://10.0.0.2:7272", said)
        self.assertIn("order-1", self.a.run("tarry audit --data /mnt/backup/monday --json"))

    def test_a_node_of_the_two_units_moves_to_the_one(self):
        self.set_up()
        self.schedule("order-1")
        self.wait_in_sync()
        self.b.run("systemctl stop tarry\nmv /etc/tarry/tarryd.conf /etc/tarry/pair.conf\n"
                   "mv /etc/systemd/system/tarry.service.d /etc/systemd/system/tarry-pair.service.d\nrm /etc/systemd/system/tarry-pair.service.d/10-peer.conf")
        self.play(self.b, "from two units")
        self.wait_in_sync()

    def lose_the_follower(self):
        self.play(self.a, "follower lost")

    def lose_the_primary(self):
        self.a.services["tarry.service"].kill()
        until("it is missed", lambda: "peer-is-stopped" in self.b.run("tarry status || true"))
        self.play(self.b, "primary lost", status={"tarry status": 1})

    def test_the_follower_comes_back_with_a_new_disk(self):
        self.set_up()
        self.schedule("order-1")
        self.play(self.b, "new disk")
        self.let_in("wss://10.0.0.1:7272")
        self.play(self.b, "copied")
        self.assertNotIn("founded_beside", self.b.logs())
        self.assertEqual(self.keys(), {"order-1"})

    def test_the_founder_comes_back_with_a_new_disk(self):
        self.set_up()
        self.schedule("order-1")
        self.wait_in_sync()
        self.play(self.a, "new disk")
        self.let_in("wss://10.0.0.2:7272")
        self.play(self.a, "copied")
        self.assertEqual(self.keys(), {"order-1"})

    def let_in(self, leader):
        """Runs the operator's command after the node with the data has noticed the other one."""
        until("it has noticed", lambda: "problem" in self.b.run(f"tarry status --broker {leader} || true"))
        word = "--broker wss://10.0.0.1:7272"
        self.assertIn(word, BLOCKS["word"])
        self.b.run(BLOCKS["word"].replace(word, f"--broker {leader}"), status={"tarry status": 1})


class Uncoordinated(PairStories, Case):
    """A pair without a coordinator: the operator decides, following the guide."""

    def test_it_is_watched(self):
        self.set_up()
        self.wait_in_sync()
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.a.there("/var/lib/tarry")], stdout=subprocess.PIPE, text=True, check=True).stdout
        in_memory = {"tarry doctor --data": 1} if kind == "tmpfs\n" else 0  # doctor rejects a tmpfs
        said = self.play(self.a, "watching", status=in_memory)
        self.assertRegex(said, r"(?m)^fine +pair +wss://10.0.0.1:7272 leads, and the other node is in sync$")
        self.assertRegex(said, r"(?m)^fine +certificate +.*/CN=tarry-a is valid for \d+d$")
        self.assertRegex(said, r"(?m)^fine +limits +the broker \(process \d+\) may (open|lock|use) ")
        self.assertIn("\nok\nready\n", said)
        self.assertRegex(said, r"(?m)^tarry_pair_in_sync 1$")

    def test_force_and_quarantine(self):
        """Commits that only a has acknowledged are quarantined, and can be read."""
        self.set_up()
        self.schedule("order-1")
        self.wait_in_sync()
        self.b.services["tarry.service"].kill()
        self.a.run("tarry promote --peer-is-stopped")
        self.schedule("order-2")  # only a gets this task
        self.a.services["tarry.service"].kill()
        self.b.run("systemctl start tarry")
        until("b misses a", lambda: "silent" in self.b.run("tarry status || true") or True)
        self.play(self.b, "force")
        self.assertEqual(self.keys(self.b), {"order-1"})

    def test_what_was_cut_can_be_read(self):
        """Frames that a appended without acknowledging them are quarantined when a returns as the follower."""
        self.set_up()
        self.schedule("order-1")
        self.wait_in_sync()
        self.b.services["tarry.service"].kill()
        self.schedule("order-2", "--timeout 3s || true")  # no node accepts this task
        self.a.services["tarry.service"].kill()
        self.b.run("systemctl start tarry")
        self.b.run("tarry promote --peer-is-stopped")
        self.assertEqual(self.keys(self.b), {"order-1"})
        self.a.run("systemctl start tarry")  # the node becomes the follower without a command
        self.b.run("tarry status --wait 60s")
        said = self.quarantined(self.a)
        self.assertRegex(said, r"producer +\d+  by ")

    def quarantined(self, host):
        """Returns the output of `tarry audit --quarantined` for the name that `tarry verify` lists."""
        names = sorted({name.partition(".")[0] for name in os.listdir(host.there("/var/lib/tarry/main/quarantine"))})
        self.assertEqual(len(names), 1, names)
        block = BLOCKS["quarantine"]
        self.assertIn("--quarantined NAME ", block)
        said = host.run(block.replace("--quarantined NAME ", f"--quarantined {names[0]} "))
        self.assertIn(names[0], said)
        return said[said.rindex(names[0]):]


@unittest.skipIf(etcd.missing(), etcd.missing())
class Coordinated(PairStories, Case):
    """A pair with etcd on a, b and a third host, and an etcd user of its own."""
    coordinated = True

    def setUp(self):
        super().setUp()
        self.c = self.host()
        first = "NAME=a ADDRESS=10.0.0.1\n"
        self.assertIn(first, BLOCKS["etcd"])
        for name, host, address in zip("abc", (self.a, self.b, self.c), ADDRESSES):
            host.run(BLOCKS["etcd"].replace(first, f"NAME={name} ADDRESS={address}\n"))
        for host in (self.a, self.b, self.c):
            host.wait_ready("etcd.service")
        self.play(self.a, "users of etcd")
        for host in (self.a, self.b):
            self.play(host, "credentials")

    def set_up(self):
        super().set_up()
        self.assertRegex(self.play(self.a, "record"), r"tarry-pair 1\n(?s:.*)\nleader 0\n")

    def lose_the_follower(self):
        self.a.run("ssh b 'systemctl stop tarry'")  # no command is needed: a continues alone

    def lose_the_primary(self):
        self.a.services["tarry.service"].kill()  # the operator enters no command: b takes over
        until("b leads", lambda: "event=leading" in self.b.logs())

    def let_in(self, leader):
        pass  # the operator enters no command

    def test_both_nodes_are_lost(self):
        self.set_up()
        self.schedule("order-1")
        self.wait_in_sync()
        for name in ("token of backups", "tokens to b"):
            self.play(self.a, name)
        os.makedirs(self.a.there("/mnt/backup"))
        known = "TARRY_TOKEN_FILE=/etc/tarry/backups.token tarry stats --from-follower --broker wss://10.0.0.2:7272 >/dev/null 2>&1"
        self.a.run(f"until {known}; do sleep 0.2; done")
        self.a.run("bash -c '" + BLOCKS["backup of a pair"] + "'")
        for host in (self.a, self.b):
            host.run("systemctl stop tarry; mv /var/lib/tarry/main /var/lib/tarry/main.lost")
        self.play(self.a, "both lost")
        self.b.run("systemctl start tarry")
        self.wait_in_sync()
        self.assertEqual(self.keys(), {"order-1"})

    def test_credentials(self):
        for host, name in ((self.a, "a"), (self.b, "b")):
            host.run("umask 077\n" + BLOCKS["credentials"])
            self.node(host, name)
        self.play(self.a, "clients")
        self.schedule("order-1")
        with open(self.a.there("/etc/tarry/coordinator.credentials"), "w", encoding="ascii") as file:
            file.write("pair:another\n")  # wrong credentials, which the coordinator must refuse; this shows that the node uses the file
        self.a.run("systemctl restart tarry")
        until("it is forbidden", lambda: "state=forbidden" in self.a.logs())


def tearDownModule():
    if INSTALLED:
        shutil.rmtree(INSTALLED, ignore_errors=True)


if __name__ == "__main__":
    harness.main()
