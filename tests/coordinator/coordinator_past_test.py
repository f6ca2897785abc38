"""coordinator_past_test.py: servers of ZooKeeper that die, and servers that are put back to an older past (F-9, F-30)."""
import os
import shutil
import time

from probe import CALL_MS, WAIT_S, Case, harness, needs_server
from zookeeper import Ensemble, ZooKeeper

DEATHS = 5 if os.environ.get("TARRY_SLOW") else 1


@needs_server
class Rollback(Case):
    def test_a_server_with_an_older_past_is_not_believed(self):
        """F-9 for the coordinator: its directory is put back to an earlier copy while a node runs."""
        server = ZooKeeper().start().wait_ready()
        self.addCleanup(server.close)
        probe = self.probe(server.url(), CALL_MS)
        probe.done("set", "record", 0, "one")
        server.kill()
        shutil.copytree(server.data, server.directory + "/old")
        server.start().wait_ready()
        end = time.monotonic() + WAIT_S
        while (answer := probe.call("set", "record", 1, "two"))["outcome"] == "unknown":
            self.assertLess(time.monotonic(), end)
        self.assertIn(answer["outcome"], ("done", "refused"))
        self.assertEqual(probe.done("read", "record")["version"], 2)
        server.kill()
        shutil.rmtree(server.data)
        os.rename(server.directory + "/old", server.data)
        server.start().wait_ready()
        self.unknown(probe.call("read", "record"))
        self.assertEqual(probe.call("set", "record", 1, "three")["outcome"], "refused")
        self.assertNotEqual(probe.call("set", "record", 2, "three")["outcome"], "done")
        self.probe(server.url()).done("set", "record", 1, "two anew")
        for _ in range(2):
            self.unknown(probe.call("read", "record"))
            self.assertNotEqual(probe.call("set", "record", 3, "three")["outcome"], "done")


@needs_server
class Three(Case):
    def test_when_the_leader_dies_another_server_answers_and_nothing_is_older(self):
        ensemble = Ensemble()
        self.addCleanup(ensemble.close)
        probe = self.probe(ensemble.url(), 5000, 4000)
        probe.done("set", "record", 0, "one")
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


if __name__ == "__main__":
    harness.main()
