"""package_test.py: the contents of the packages, and how they behave on a bare Debian."""
import atexit
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
import harness  # noqa: E402  (the paths above)
import machine  # noqa: E402
import made  # noqa: E402

CLOSED_WITHIN_S = 300  # a reader of "getting started" has closed an order within this time
SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
INSTALL = "apt-get install -qq -y --no-install-recommends"
ALONE = "install -D -m 0644 /usr/share/doc/tarryd/examples/single.conf /etc/tarry/tarryd.conf; systemctl enable --now tarry\n"
# Sets up a node of a pair without TLS. The other node does not exist.
PAIR = ("install -d -m 0755 /etc/tarry; tarry keygen --peer /etc/tarry/peer.key\n"
        "printf '%s\\n' '[tarryd]' 'listen = ws://127.0.0.1:7272' 'peer = ws://127.0.0.1:7273' > /etc/tarry/tarryd.conf\n"
        "install -d /etc/systemd/system/tarry.service.d; echo '[Service]' > /etc/systemd/system/tarry.service.d/peer-key.conf\n"
        "echo LoadCredential=peer-key:/etc/tarry/peer.key >> /etc/systemd/system/tarry.service.d/peer-key.conf; systemctl daemon-reload\n")
MADE = made.Made()
atexit.register(MADE.close)


def page(name):
    """Returns the command blocks of a page, in order."""
    with open(os.path.join(made.ROOT, name), encoding="utf-8") as file:
        return SHELL_BLOCK.findall(file.read())


class Packages(unittest.TestCase):
    def test_lintian_has_nothing_against_them(self):
        complaints, is_bad = made.package.lint(MADE.first())
        self.assertFalse(is_bad, complaints)

    def test_two_builds_are_the_same_bytes(self):
        """Compares everything that is published, except .buildinfo and .changes, which name the time and place of the build."""
        one, other = MADE.first(), MADE.second()
        self.assertEqual([os.path.basename(path) for path in one], [os.path.basename(path) for path in other])
        compared = 0
        for here, there in zip(one, other):
            if here.endswith((".deb", ".tar.xz", ".dsc")):
                with self.subTest(os.path.basename(here)):
                    same = filecmp.cmp(here, there, shallow=False)
                    self.assertTrue(same, "" if same else difference(here, there))
                compared += 1
        self.assertGreaterEqual(compared, 10, one)

    def test_debug_symbols_are_those_of_the_programs(self):
        for name, file in (("tarryd", "usr/bin/tarryd"), ("tarry", "usr/bin/tarry")):
            with self.subTest(name):
                program, symbols = made.debs(MADE.first(), name) + made.debs(MADE.first(), name + "-dbgsym")
                directory = MADE.at("unpacked-" + name)
                shutil.rmtree(directory, ignore_errors=True)
                subprocess.run(["dpkg-deb", "-x", program, directory], check=True)
                notes = subprocess.run(["readelf", "-n", os.path.join(directory, file)], stdout=subprocess.PIPE, text=True, check=True).stdout
                build_id = re.search(r"Build ID: ([0-9a-f]+)", notes).group(1)
                listed = subprocess.run(["dpkg-deb", "-c", symbols], stdout=subprocess.PIPE, text=True, check=True).stdout
                self.assertIn(f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug", listed)


def difference(one, other):
    if not shutil.which("diffoscope"):
        return "they differ; diffoscope would say where"
    return subprocess.run(["diffoscope", "--max-report-size", "8000", one, other], stdout=subprocess.PIPE, text=True, check=False).stdout[:8000]


def base():
    """Makes the bare Debian. apt's cache has the packages that the tests need from the mirror."""
    path = MADE.at("base")
    if not os.path.exists(path + ".done"):
        shutil.rmtree(path, ignore_errors=True)
        bare = machine.Base(path)
        bare.fetch(*made.debs(MADE.first(), "libtarry0", "tarry", "tarryd", "libtarry-dev"), "gcc", "libc6-dev", "pkgconf", "curl", "python3", "php-cli",
                   "default-jdk-headless", "redis-server", "postgresql", "beanstalkd")
        with open(path + ".done", "w", encoding="ascii"):
            pass
    return machine.Base.there_already(path)


@unittest.skipIf(machine.why_not(), machine.why_not())
class Installed(unittest.TestCase):
    def setUp(self):
        path = MADE.at("machine")
        shutil.rmtree(path, ignore_errors=True)
        self.host = machine.Machine(base(), path)
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        self.addCleanup(self.host.close)

    def put(self, packages, *names):
        """Copies packages of one version to where the next apt-get finds them, and removes earlier ones."""
        for name in os.listdir(self.host.there("/root")):
            if name.endswith(".deb"):
                os.unlink(self.host.there("/root/" + name))
        self.host.put(*made.debs(packages, *(names or ("libtarry0", "tarry", "tarryd", "libtarry-dev"))))

    def state(self, unit):
        said = self.host.run(f"systemctl show {unit} -p UnitFileState -p ActiveState -p MainPID")
        values = dict(line.split("=", 1) for line in said.splitlines())
        return {"enabled": values["UnitFileState"], "active": values["ActiveState"], "process": int(values["MainPID"])}

    def keys(self):
        return [json.loads(line)["key"] for line in self.host.run("tarry list close-order --json").splitlines()]

    def left(self):
        """Returns the files whose name contains tarry, except in apt's and dpkg's records, journals, and the test's own files."""
        return self.host.run("find / -xdev -name '*tarry*' -not -path '/proc/*' -not -path '/root/*' -not -path '/var/lib/apt/*' "
                             "-not -path '/var/cache/*' -not -path '/var/log/*' -not -path '/run/*'").split()

    def test_from_install_to_purge(self):
        self.put(MADE.first())
        self.host.run(f"{INSTALL} ./libtarry0_*.deb ./tarry_*.deb ./tarryd_*.deb")
        with self.subTest("installed: nothing runs, and nothing is founded before somebody has said what this host shall be"):
            before = self.state("tarry")
            self.assertEqual((before["enabled"], before["active"]), ("disabled", "inactive"))
            self.assertIn("ssertion failed", self.host.run("systemctl start tarry", status=1))
            self.host.run("test ! -e /var/lib/tarry -a ! -e /var/lib/private/tarry")
        with self.subTest("configured: it runs, under a user that nobody made, and starts again with the machine"):
            self.host.run(ALONE)
            before = self.state("tarry")
            self.assertEqual((before["enabled"], before["active"]), ("enabled", "active"))
            self.assertNotIn("tarry", self.host.run("cat /etc/passwd /etc/group"))
            self.assertEqual(self.host.run("stat -c %U /var/lib/tarry/main/").strip(), "tarry")
            self.assertNotIn("0.0.0.0", self.host.run("cat /proc/net/tcp | head -1; tarry stats --json"))
        self.host.run("tarry schedule close-order --key order-1 --in 1h --body one; tarry schedule close-order --key order-2 --in 2h")
        with self.subTest("upgraded: another program, the same tasks"):
            self.put(MADE.next())
            self.host.run(f"{INSTALL} ./libtarry0_*.deb ./tarry_*.deb ./tarryd_*.deb")
            after = self.state("tarry")
            self.assertEqual((after["enabled"], after["active"]), ("enabled", "active"))
            self.assertNotEqual(after["process"], before["process"])
            self.assertIn(f"tarryd {made.NEXT}\n", self.host.run("tarryd --version"))
            self.assertIn(f"version={made.NEXT} ", self.host.journal())
            self.assertIn("event=stopped", self.host.journal())
            self.assertEqual(self.keys(), ["order-1", "order-2"])
        self.host.run("tarry move close-order order-1 --in 0s")
        self.assertEqual(json.loads(self.host.run("tarry consume close-order --count 1 --json"))["body"], "one")
        with self.subTest("removed: nothing runs, the data stay"):
            self.host.run("apt-get remove -qq -y tarryd")
            self.assertEqual(self.state("tarry")["process"], 0)
            self.assertEqual(self.host.run("grep -lx tarryd /proc/[0-9]*/comm || echo none").strip(), "none")
            self.host.run("test -s /var/lib/private/tarry/main/lock -o -d /var/lib/private/tarry/main")
        with self.subTest("installed again: it goes on"):
            self.host.run(f"{INSTALL} ./tarryd_*.deb")
            self.assertEqual((self.state("tarry")["active"], self.keys()), ("active", ["order-2"]))
        with self.subTest("purged: nothing of the packages is left"):
            self.host.run("apt-get purge -qq -y tarryd tarry libtarry0; rm -r /etc/tarry")
            self.assertEqual(self.left(), [])
            self.assertEqual(self.host.run("systemctl list-units --all --no-legend 'tarry*'").strip(), "")

    def test_a_node_of_a_pair_stays_one(self):
        self.put(MADE.first())
        self.host.run(f"{INSTALL} ./libtarry0_*.deb ./tarry_*.deb ./tarryd_*.deb")
        self.host.run(PAIR + "systemctl enable --now tarry")
        self.upgraded("tarry")

    def upgraded(self, unit):
        """After an upgrade, a node of a pair that ran in this unit runs in tarry.service, with the same configuration."""
        before = self.state(unit)
        self.assertEqual((before["enabled"], before["active"]), ("enabled", "active"))
        self.put(MADE.next())
        self.host.run(f"{INSTALL} ./libtarry0_*.deb ./tarry_*.deb ./tarryd_*.deb")
        after = self.state("tarry")
        self.assertEqual((after["enabled"], after["active"]), ("enabled", "active"))
        self.assertNotEqual(after["process"], before["process"])
        self.assertIn("peer = ws://127.0.0.1:7273", self.host.run("cat /etc/tarry/tarryd.conf"))
        self.host.run("apt-get purge -qq -y tarryd")
        self.host.run("test -f /etc/tarry/peer.key -a ! -e /var/lib/tarry -a ! -e /var/lib/private/tarry")  # purge deletes the broker's data, but not the operator's key

    def test_a_node_of_the_two_units_moves_to_the_one(self):
        """A node ran in tarry-pair.service of an older package. When the package's script runs, dpkg has already removed that
        unit's file.
        """
        self.put(MADE.first())
        self.host.run(f"{INSTALL} ./libtarry0_*.deb ./tarry_*.deb ./tarryd_*.deb")
        self.host.run(PAIR + "mv /etc/tarry/tarryd.conf /etc/tarry/pair.conf; cd /etc/systemd/system; mv tarry.service.d tarry-pair.service.d\n"
                      "sed -e s,/etc/tarry/tarryd.conf,/etc/tarry/pair.conf, -e /^AssertPath/d /lib/systemd/system/tarry.service > /lib/systemd/system/tarry-pair.service\n"
                      "systemctl daemon-reload; systemctl enable --now tarry-pair; systemctl is-active tarry-pair")
        before = self.state("tarry-pair")
        self.host.run("rm /lib/systemd/system/tarry-pair.service")
        self.assertEqual(before["active"], "active")
        self.put(MADE.next())
        self.host.run(f"{INSTALL} ./libtarry0_*.deb ./tarry_*.deb ./tarryd_*.deb")
        after = self.state("tarry")
        self.assertEqual((after["enabled"], after["active"]), ("enabled", "active"))
        self.assertIn("peer = ws://127.0.0.1:7273", self.host.run("cat /etc/tarry/tarryd.conf"))
        self.assertEqual(self.host.run("grep -lx tarryd /proc/[0-9]*/comm | wc -l").strip(), "1")
        self.host.run("test ! -e /etc/tarry/pair.conf -a ! -e /etc/systemd/system/tarry-pair.service.d -a -e /etc/systemd/system/tarry.service.d/10-peer.conf")

    def test_a_broker_of_the_older_unit_goes_on(self):
        """A broker of an older package ran without a configuration file, and the package had enabled its unit."""
        self.put(MADE.first())
        self.host.run(f"{INSTALL} ./libtarry0_*.deb ./tarry_*.deb ./tarryd_*.deb")
        self.host.run(ALONE + "tarry schedule close-order --key order-1 --in 1h; rm /etc/tarry/tarryd.conf")
        self.put(MADE.next())
        self.host.run(f"{INSTALL} ./libtarry0_*.deb ./tarry_*.deb ./tarryd_*.deb")
        self.assertEqual((self.state("tarry")["active"], self.keys()), ("active", ["order-1"]))
        self.host.run("cmp /etc/tarry/tarryd.conf /usr/share/doc/tarryd/examples/single.conf")

    def test_a_stopped_broker_is_not_started_by_an_upgrade_if_it_is_disabled(self):
        self.put(MADE.first())
        self.host.run(f"{INSTALL} ./libtarry0_*.deb ./tarry_*.deb ./tarryd_*.deb; {ALONE} systemctl disable --now tarry")
        self.put(MADE.next())
        self.host.run(f"{INSTALL} ./libtarry0_*.deb ./tarry_*.deb ./tarryd_*.deb")
        self.assertEqual((self.state("tarry")["enabled"], self.state("tarry")["active"]), ("disabled", "inactive"))

    def test_getting_started_is_typed_and_timed(self):
        self.put(MADE.first())
        blocks = page("docs/GETTING_STARTED.md")
        started, said, closed_after = time.monotonic(), "", None
        for block in blocks:
            said += self.host.run(block)
            if closed_after is None and re.search(r"order-1001 .*\n(.*\n)*.*acked", said):
                closed_after = time.monotonic() - started
        self.assertRegex(said, r"order-2 closed \d+ ms after it was due")  # output of the C example
        self.assertEqual(said.count("order-2 closed, attempt 1\n"), 4, said)  # output of the examples for curl, Python, PHP and Java
        self.assertIsNotNone(closed_after, said)
        self.assertLess(closed_after, CLOSED_WITHIN_S)
        print(f"# an order is closed after {closed_after:.0f} s, and after {time.monotonic() - started:.0f} s all {len(blocks)} blocks are typed")

    def test_moving_in_is_typed(self):
        """Imports tasks from real servers of Debian: Redis, beanstalkd and PostgreSQL."""
        self.put(MADE.first())
        self.host.run(f"{INSTALL} ./libtarry0_*.deb ./tarry_*.deb ./tarryd_*.deb beanstalkd redis-server postgresql; {ALONE}")
        due = int(time.time()) + 3600
        self.host.run("systemctl start beanstalkd redis-server postgresql; " + "; ".join(f"redis-cli ZADD delayed-orders {due + number} order-{number}" for number in range(3)))
        self.host.run("su postgres -c 'createuser --superuser root; createdb --owner root shop'\n"
                      "psql -X shop -c \"CREATE TABLE jobs (order_id int, payload jsonb, due_at timestamptz, done_at timestamptz);\n"
                      f"INSERT INTO jobs SELECT 10 + n, json_build_object('order', n), to_timestamp({due} + n), NULL FROM generate_series(1, 4) n;\n"
                      "INSERT INTO jobs VALUES (99, NULL, now(), now())\"")
        self.host.run("bash -c 'exec 3<>/dev/tcp/127.0.0.1/11300; printf \"put 0 3600 60 5\\r\\nhello\\r\\n\" >&3; head -n 1 <&3'")
        for block in page("docs/MOVING_IN.md"):
            self.host.run(block)
        self.assertEqual(len(self.host.run("tarry list default --json").splitlines()), 1)
        tasks = {task["key"]: task for task in map(json.loads, self.host.run("tarry list close-order --json").splitlines())}
        self.assertEqual(sorted(tasks), sorted([f"order-{number}" for number in (0, 1, 2, 11, 12, 13, 14)]))
        self.assertEqual((tasks["order-2"]["due_ms"], tasks["order-11"]["due_ms"]), ((due + 2) * 1000, (due + 1) * 1000))
        self.assertEqual(self.host.run("redis-cli EXISTS delayed-orders; psql -AtX shop -c 'SELECT count(*) FROM jobs WHERE done_at IS NULL'").split(), ["0", "0"])

    def test_capacity_is_typed(self):
        self.put(MADE.first())
        self.host.run(f"{INSTALL} ./libtarry0_*.deb ./tarry_*.deb ./tarryd_*.deb; {ALONE}")
        for block in page("docs/CAPACITY.md"):
            self.assertIn("index", self.host.run(block))


class Machines(unittest.TestCase):
    def test_they_can_be_made_here(self):
        """Fails if no machine can be made. This suite runs only on demand, and a suite whose tests are all skipped would test
        nothing.
        """
        self.assertIsNone(machine.why_not())


if __name__ == "__main__":
    harness.main()
