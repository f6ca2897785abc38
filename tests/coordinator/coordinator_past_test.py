"""coordinator_past_test.py: members of an ensemble that die, and servers whose data are set back to an older state (F-9,
F-30), with ZooKeeper and etcd.
"""
import os
import shutil
import subprocess
import time
import unittest

import etcd
import zookeeper
from probe import CALL_MS, WAIT_S, Case, harness, needs
from zookeeper import ZooKeeper

DEATHS = 5 if os.environ.get("TARRY_SLOW") else 1


class Rollback:
    def test_a_server_with_an_older_past_is_not_believed(self):
        """F-9 for the coordinator: the server's directory is set back to an earlier copy while a node runs."""
        server = self.make_server()
        self.addCleanup(server.close)
        server.start().wait_ready()
        self.probe(server.url()).done("set", "record", 0, "one")
        probe = self.probe(server.url(), CALL_MS)
        self.until_done(probe, "read", "record")
        server.kill()
        shutil.copytree(server.data, server.directory + "/old")
        server.start().wait_ready()
        end = time.monotonic() + WAIT_S
        tries = 0
        # A change with unknown outcome may still be executed later, even by the restored server. So each change has a
        # different value.
        while (answer := probe.call("set", "record", 1, f"two, try {(tries := tries + 1)}"))["outcome"] == "unknown":
            self.assertLess(time.monotonic(), end)
        self.assertIn(answer["outcome"], ("done", "refused"))
        self.assertEqual(self.until_done(probe, "read", "record")["version"], 2)
        server.kill()
        shutil.rmtree(server.data)
        os.rename(server.directory + "/old", server.data)
        server.start().wait_ready()
        self.unknown(probe.call("read", "record"))
        self.assertEqual(probe.call("set", "record", 1, "three")["outcome"], "refused")
        self.assertNotEqual(probe.call("set", "record", 2, "three")["outcome"], "done")
        anew = self.probe(server.url())
        self.until_done(anew, "read", "record")
        self.assertIn(anew.call("set", "record", 1, "two anew")["outcome"], ("done", "refused") if tries > 1 else ("done",))
        for _ in range(2):
            self.unknown(probe.call("read", "record"))
            self.assertNotEqual(probe.call("set", "record", 3, "three")["outcome"], "done")


@needs("ZooKeeper", zookeeper.missing())
class RollbackOfZooKeeper(Rollback, Case):
    make_server = ZooKeeper


@needs("etcd", etcd.missing())
class RollbackOfEtcd(Rollback, Case):
    make_server = etcd.Etcd


def can_have_hosts():
    """Returns whether a process can have its own /etc/hosts on this machine."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


class Names:
    @unittest.skipUnless(can_have_hosts(), "an /etc/hosts of one's own needs root")
    def test_a_server_that_moves_to_another_address_is_found_there(self):
        """The client looks a server's name up again when it has no connection, and never while it has one. (The ZooKeeper
        client 3.8 would look it up in every round of its loop.)
        """
        server = self.make_server().start().wait_ready()
        self.addCleanup(server.close)
        hosts = server.directory + "/hosts"

        def point(address):
            with open(hosts, "w", encoding="ascii") as file:
                file.write(f"{address} record_client.tarry-test\n")

        point("127.0.0.1")
        prefix = ["unshare", "--mount", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"]
        probe = self.probe(server.url().replace("127.0.0.1", "record_client.tarry-test"), CALL_MS, prefix=prefix)
        self.until_done(probe, "read", "record")
        self.probe(server.url()).done("set", "record", 0, "one")
        point("127.0.0.77")  # no process listens at this address
        for _ in range(20):
            self.until_done(probe, "read", "record")
        late = self.probe(server.url().replace("127.0.0.1", "record_client.tarry-test"), CALL_MS, prefix=prefix)
        self.unknown(late.call("read", "record"))
        late.message(f"no connection to {self.named} at record_client.tarry-test:.*Connection refused")
        point("127.0.0.1")
        self.assertEqual(self.until_done(late, "read", "record")["version"], 1)
        self.assertEqual(late.call("session")["sessions"], self.sessions_of_late)
        self.assertEqual(probe.call("session")["sessions"], 1)


@needs("ZooKeeper", zookeeper.missing())
class NamesOfZooKeeper(Names, Case):
    named = "ZooKeeper"
    make_server = ZooKeeper
    sessions_of_late = 2  # the first session was never established, so the server counts two


@needs("etcd", etcd.missing())
class NamesOfEtcd(Names, Case):
    named = "etcd"
    make_server = etcd.Etcd
    sessions_of_late = 1


class Three:
    def test_when_the_leader_dies_another_server_answers_and_nothing_is_older(self):
        ensemble = self.make_ensemble()
        self.addCleanup(ensemble.close)
        probe = self.probe(ensemble.url(), 5000, 4000)
        self.probe(ensemble.url()).done("set", "record", 0, "one")
        self.assertEqual(self.read_version(probe), 1)
        for version in range(1, DEATHS + 1):
            leader = ensemble.leader()
            leader.kill()
            end = time.monotonic() + WAIT_S
            while (answer := probe.call("set", "record", version, f"v{version}"))["outcome"] == "unknown":
                self.assertLess(time.monotonic(), end, answer)
                self.assertIn(self.read_version(probe), (version, version + 1))
            self.assertEqual(self.read_version(probe), version + 1)
            leader.start().wait_ready()

    def read_version(self, probe):
        return self.until_done(probe, "read", "record")["version"]


@needs("ZooKeeper", zookeeper.missing())
class ThreeOfZooKeeper(Three, Case):
    make_ensemble = zookeeper.Ensemble


@needs("etcd", etcd.missing())
class ThreeOfEtcd(Three, Case):
    make_ensemble = etcd.Ensemble


if __name__ == "__main__":
    harness.main()
