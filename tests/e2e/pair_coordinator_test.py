"""pair_coordinator_test.py: a pair whose record is in a real ZooKeeper or etcd: with credentials no other client changes the
record, and session events are reported. Skipped with a message without Java or etcd; tests/netns disturbs the same ZooKeeper."""
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import unittest

import harness
import pair
import wire

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "coordinator"))
import etcd  # noqa: E402  (the path above)
import zookeeper  # noqa: E402

LACKS = {"ZooKeeper": zookeeper.missing(), "etcd": etcd.missing()}
for name, lack in LACKS.items():
    if lack:
        print(f"# SKIPPED: no {name} here: {lack}", flush=True)


class AtServer:
    """The tests for one kind of coordinator. `make_server()` starts a server that accepts the pair's credentials."""
    coordinated = False  # the base class would set up a file as the coordinator

    @classmethod
    def setUpClass(cls):
        cls.server = cls.make_server()
        cls.addClassCleanup(cls.server.close)

    def setUp(self):
        self.place = self.server.url(f"/tarry/{self.id().rsplit('.', 1)[1]}")
        self.files = tempfile.TemporaryDirectory(prefix="tarry-e2e-")
        self.addCleanup(self.files.cleanup)
        self.arguments = (*pair.Case.arguments, "--coordinator", self.place, "--coordinator-credentials", self.credentials("pair:secret"))
        super().setUp()

    def credentials(self, text, mode=0o600):
        path = os.path.join(self.files.name, f"credentials-{len(os.listdir(self.files.name))}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.chmod(path, mode)
        return path

    def wait_in_sync(self):
        self.wait_for("both in sync", lambda: self.b.is_running() and all(
            item["in_sync"] for broker in (self.a, self.b) for item in broker.tarry("status").objects))

    def is_promising(self, broker):
        """Returns whether the node's hard state is being written."""
        return os.path.exists(os.path.join(broker.data, "pair.new"))

    def refused(self, *arguments):
        """Returns the error message of a broker that does not start with these arguments."""
        broker = self.make_broker("--peer", self.b.listen, *arguments, data=self.path("other"))
        self.brokers.remove(broker)
        broker.arguments = [*pair.Case.arguments, "--peer", self.b.listen, *arguments]
        broker.launch()
        self.addCleanup(broker.process.stderr.close)
        status = broker.process.wait(pair.WAIT_S)
        broker.reader.join(5)
        self.assertEqual(status, 1, broker.log_text())
        return broker.log_text()

    def test_the_record_is_the_pairs_alone(self):
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        stranger = self.make_broker(data=self.path("stranger"))
        stranger.arguments = [*pair.Case.arguments, "--peer", self.b.url, "--coordinator", self.place]
        stranger.start()
        self.wait_log(stranger, "event=coordinator state=forbidden")
        self.assertFalse(any("event=leading" in line for line in stranger.log))
        stranger.refused("schedule", "orders", "--in", "1h", "--timeout", "1s", status=3)
        self.a.kill()
        self.wait_log(self.b, "event=leading")
        self.b.ok("schedule", "orders", "--in", "1h")

    def test_a_session_that_is_lost_is_told_and_made_again(self):  # F-30
        self.start_pair()
        self.wait_log(self.a, "event=coordinator state=connected")
        self.server.kill()
        self.wait_log(self.a, "event=coordinator state=connecting", 2)
        self.a.ok("schedule", "orders", "--in", "1h")  # while both nodes are in sync, the leader works without its coordinator
        self.server.start().wait_ready()
        self.wait_log(self.a, "event=coordinator state=connected", 2)

    def test_nobody_is_done_without_before_the_record_says_so(self):
        """R4, F-30: the leader may acknowledge without its follower only after the coordinator's record permits it. It is not
        enough that solo-after has passed.
        """
        self.a.arguments += ["--solo-after", "2s"]
        self.start_pair()
        with wire.Rpc(self.a.port) as rpc:
            producer = rpc.hello()
            self.wait_in_sync()
            self.server.pause()
            self.b.kill()
            answers = []
            for sequence, wait_s in ((1, 2.6), (2, 0.4)):  # the first commit is sent before the leader gives up the follower, the second one afterwards
                rpc.tell(wire.COMMIT, wire.commit(producer, sequence, [wire.schedule("orders", delay_ms=3600000)]))
                with contextlib.suppress(TimeoutError):
                    answers.append(rpc.hear(wait_s)[1])  # the second commit may be refused
            self.assertNotIn(wire.OK, answers)
            self.server.resume()
            while len(answers) < 2:
                answers.append(rpc.hear()[1])
            self.assertIn(wire.OK, answers)

    def test_a_fence_that_leads_to_nothing_is_no_end(self):
        """R7: the follower has fenced the leader's epoch (promised to refuse it), but the leader continues. If the leader did
        not begin a new epoch, both nodes would wait for ever.
        """
        self.slow_note(self.b, 1500)
        self.start_pair()
        self.wait_for("nothing is being promised", lambda: not self.is_promising(self.b))
        self.freeze(self.a)
        self.wait_for("it has read the record, and fences", lambda: self.is_promising(self.b))
        self.server.kill()
        self.wait_role(self.b, "promoting")
        self.b.kill()
        self.thaw(self.a)
        self.server.start().wait_ready()
        self.b.start()
        self.wait_log(self.a, "event=deposed")
        self.wait_in_sync()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_pending(self.b, 1)

    def test_credentials_that_are_none_are_refused(self):
        place = ("--coordinator", self.place, "--coordinator-credentials")
        for text, mode, reason in (("pair:secret", 0o644, "can be used by other users"), ("pair", 0o600, "one line user:password"),
                                   ("pair:", 0o600, "one line user:password"), ("a:b\nc:d", 0o600, "one line user:password"),
                                   ("a:" + 300 * "b", 0o600, "of at most 255 bytes")):
            self.assertIn(reason, self.refused(*place, self.credentials(text, mode)))
        self.assertIn("No such file", self.refused(*place, self.path("nothing")))
        done = subprocess.run([harness.find_program("tarryd"), "--data", self.path("other"), "--coordinator-credentials", "x"],
                              capture_output=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"coordinator-credentials needs a coordinator", done.stderr)


@unittest.skipIf(LACKS["ZooKeeper"], f"no ZooKeeper: {LACKS['ZooKeeper']}")
class AtZooKeeper(AtServer, pair.Case):
    @classmethod
    def make_server(cls):
        return zookeeper.ZooKeeper().start().wait_ready()

    def test_a_dead_server_is_noticed_soon(self):
        """The server to which the follower is connected may fail together with the primary's host: after two thirds of the
        session time the follower asks another server."""
        self.start_pair()
        sessions = [int(ms) for ms in re.findall(r"\bto=(\d+)", self.server.ask(b"cons"))]
        self.assertEqual(sessions, [4000, 4000])


@unittest.skipIf(LACKS["etcd"], f"no etcd: {LACKS['etcd']}")
class AtEtcd(AtServer, pair.Case):
    @classmethod
    def make_server(cls):
        server = etcd.Etcd().start().wait_ready()
        server.add_users()
        return server

    def test_without_room_the_pair_goes_on_and_says_why_it_cannot_change(self):
        self.start_pair()
        self.server.kill()
        self.server.options = ["--quota-backend-bytes", "100000"]
        self.server.start().wait_ready()
        self.addCleanup(self.make_room)
        for _ in range(20):
            if "exceeded" in self.server.control("put", "/fill", "x" * 50000, check=False):
                break
        self.b.kill()  # `a` continues without `b` as soon as the record says so
        self.wait_log(self.a, "used up its quota and takes no change")
        status = self.a.tarry("status")
        self.assertIn("used up its quota", str(status))

    def make_room(self):
        self.server.kill()
        self.server.options = []
        self.server.start().wait_ready()
        self.server.control("del", "/fill", check=False)
        self.server.control("alarm", "disarm", check=False)

    def test_files_for_tls_are_looked_at_before_anything_else(self):
        place = ("--coordinator", self.place.replace("etcd:", "etcds:"))
        key = self.credentials("key", 0o644)
        for option, path, reason in (("ca", self.path("nothing"), "coordinator-ca .*nothing cannot be read: No such file"),
                                     ("certificate", self.path("no"), "coordinator-certificate .*no cannot be read"),
                                     ("key", key, "coordinator key .*can be used by other users; run chmod 600"),
                                     ("key", self.credentials("key"), "name both the certificate and its key")):
            self.assertRegex(self.refused(*place, f"--coordinator-{option}", path), reason)
        self.assertIn("are allowed with etcds:// only, not with etcd://", self.refused("--coordinator", self.place, "--coordinator-ca", key))
        done = subprocess.run([harness.find_program("tarryd"), "--data", self.path("other"), "--coordinator-key", key],
                              capture_output=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"coordinator-key needs a coordinator", done.stderr)


if __name__ == "__main__":
    harness.main()
