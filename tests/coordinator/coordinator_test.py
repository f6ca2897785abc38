"""coordinator_test.py: the contract with a file, and with a real ZooKeeper 3.8 that is stopped, killed, cut off, slow, loses
data or refuses clients (F-30, and R4 to R6 of FAULTS.md: what the outcomes done, refused and unknown mean). Every call goes
through tests/coordinator/probe.c, which only wraps coordinator.h. Without Java, the tests that need a server are skipped
with a message. etcd: coordinator_etcd_test.py.
"""
import contextlib
import os
import random
import re
import shutil
import socket
import tempfile
import threading
import time

from contract import Contract, OverServer
from probe import CALL_MS, PATIENT_MS, SESSION_MS, WAIT_S, Case, harness, needs
from ports import free_port
from zookeeper import ZooKeeper, missing

SESSIONS_AMONG_DEAD = 60  # in an earlier version, one session in ten failed


@contextlib.contextmanager
def strangers(ends):
    """Starts a listener that is not ZooKeeper, and returns its port. It closes connections at once, or never."""
    listener = socket.create_server(("127.0.0.1", 0))
    held = []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                if ends:
                    peer.close()
                else:
                    held.append(peer)
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for peer in held:
            peer.close()


class File(Contract, Case):
    def setUp(self):
        super().setUp()
        self.directory = tempfile.mkdtemp(prefix="tarry-coordinator-")
        self.addCleanup(shutil.rmtree, self.directory)

    def url(self):
        return f"file://{self.directory}/pair"

    def test_f31b_another_file_at_the_same_version_is_not_changed(self):
        """R4: the node has not read the record since the file was replaced."""
        probe = self.probe(self.url())
        probe.done("set", "record", 0, "one")
        os.unlink(f"{self.directory}/pair")
        other = self.probe(self.url())
        other.done("set", "record", 0, "another")
        answer = probe.call("set", "record", 1, "two")
        self.assertEqual(answer["outcome"], "refused")
        self.assertRegex(answer["reason"], "another content or history")
        self.assertEqual(other.done("read", "record")["value"], "another")

    def test_killed_in_the_middle_of_changes_it_is_whole(self):
        """The writer is repeatedly killed by SIGKILL. The next process can read the file, and every change with the outcome
        done is there.
        """
        done = 0
        generator = random.Random(1)
        for turn in range(10):
            probe = self.probe(self.url())
            version = probe.done("read", "record")["version"]
            self.assertGreaterEqual(version, done)
            numbers = [probe.ask("set", "record", version + i, "x" * 500) for i in range(50)]
            if turn % 2:
                probe.answer(numbers[0])  # otherwise the kill might always come too early on a busy machine
            time.sleep(generator.uniform(0, 0.03))
            probe.kill()
            done = max([done] + [probe.answers[n]["version"] for n in numbers if n in probe.answers])
        self.assertGreater(done, 0, "it was always killed too soon")


@needs("ZooKeeper", missing())
class AtZooKeeper(OverServer, Case):
    named = "ZooKeeper"
    make_server = ZooKeeper

    def delete(self, name):
        self.probe(self.url()).call("delete", f"{self.path}/{name}")

    def test_an_acl_that_lets_nobody_in_is_named(self):
        owner = self.probe(self.url(), PATIENT_MS, SESSION_MS, "tarry:secret")
        owner.done("set", "record", 0, "one")
        for credentials in ((), ("tarry:wrong",)):
            probe = self.probe(self.url(), PATIENT_MS, SESSION_MS, *credentials)
            word = "with its credentials" if credentials else "without credentials"
            for words in (("read", "record"), ("set", "record", 1, "two"), ("set", "other", 0, "two"),
                          ("multi", "record", 1, "two", "other", 0, "two")):
                self.unknown(probe.call(*words), f"ACL of {self.path}.*denies this node access {word}")
            self.assertEqual(probe.call("session")["session"], "forbidden")
        self.assertEqual(self.probe(self.url(), PATIENT_MS, SESSION_MS, "tarry:secret").done("read", "record")["value"], "one")

    def test_credentials_reach_a_server_that_is_found_after_others_that_are_dead(self):
        """ZooKeeper's client may try the servers in any order. The session that it gets has logged in."""
        url = "zk://" + ",".join(f"127.0.0.1:{port}" for port in (free_port(), free_port(), self.server.port)) + "/guarded/pair"
        self.probe(url, PATIENT_MS, SESSION_MS, "pair:secret").done("set", "record", 0, "v")
        for _ in range(SESSIONS_AMONG_DEAD):
            probe = self.probe(url, PATIENT_MS, SESSION_MS, "pair:secret")
            self.assertEqual(probe.done("read", "record")["value"], "v")
            probe.close()

    def test_a_path_is_made_piece_by_piece(self):
        probe = self.probe(self.server.url("/zookeeper-not/mine"))
        probe.done("set", "record", 0, "one")
        deep = self.probe(self.server.url("/a/b/c/d/e"), PATIENT_MS)
        self.assertEqual(deep.done("set", "record", 0, "one")["version"], 1)
        again = self.probe(self.server.url("/a/b/x/y"), PATIENT_MS)
        self.assertEqual(again.done("multi", "record", 0, "one", "other", 0, "two")["versions"], [1, 1])


class Nowhere(Case):
    """No process listens at the address."""

    def test_a_port_where_nobody_listens_is_named(self):
        probe = self.probe("zk://127.0.0.1:1,127.0.0.1:2/tarry", CALL_MS)
        self.unknown(probe.call("read", "record"), "it did not answer in time")
        probe.message("no connection to ZooKeeper at 127.0.0.1:1,127.0.0.1:2: nobody listens at 127.0.0.1:[12] "
                      r"\(Connection refused\); is ZooKeeper running there")
        self.assertLess(probe.close(), 20000)

    def test_somebody_else_who_listens_is_named(self):
        """Messages of ZooKeeper's client library are not shown unchanged."""
        for ends, words in ((True, "ended the connection; .*is it ZooKeeper that listens there"),
                            (False, "does not answer; .*does another program listen there")):
            with self.subTest(ends=ends), strangers(ends) as port:
                probe = self.probe(f"zk://127.0.0.1:{port}/tarry", CALL_MS, 1000)
                text = self.words(probe, words)
                self.assertIn(f"no connection to ZooKeeper at 127.0.0.1:{port}: 127.0.0.1:{port} ", text)
                self.assertNotRegex(text, "retcode|errno|Socket|Host is down")
                probe.close()

    def words(self, probe, wanted):
        """Waits until the session's message contains these words. The wording for a state may change only after a while."""
        text = [""]

        def are_there():
            text[0] = probe.call("session")["message"]
            return re.search(wanted, text[0])
        harness.wait_until(f"it says '{wanted}'", are_there, WAIT_S)
        return text[0]

    def test_a_host_without_an_address_is_named(self):
        probe = self.probe("zk://nobody.invalid:2181/tarry", CALL_MS)
        self.unknown(probe.call("set", "record", 0, "one"), "it did not answer in time")
        probe.message("ZooKeeper at nobody.invalid:2181: (Name or service not known|Temporary failure|No address).*; "
                      "the name 'nobody.invalid' cannot be resolved: check the host names")

    def test_wrong_addresses_are_refused_in_words(self):
        for place, why in (("", "no path"), ("h:2181", "no path"), ("h:2181/", "no path"), ("h/p", "without a port"),
                           ("h:0/p", "1 to 65535"), ("h:65536/p", "1 to 65535"), ("h:x/p", "1 to 65535"),
                           ("h:1,/p", "without a port"), (":1/p", "without a host"), ("::1:2181/p", "without brackets"),
                           ("u@h:1/p", "must not contain blanks"), ("h:1/p/", "an empty part"), ("h:1//p", "an empty part"),
                           ("h:1/p/../q", "'..'"), ("h:1/./p", "'.'"), ("h:1/zookeeper", "ZooKeeper's own"),
                           ("h:1/zookeeper/x", "ZooKeeper's own"), ("h:1/a b", "a blank"), ("h:1/ä", "not ASCII")):
            probe = self.probe("zk://" + place)
            end = probe.wait_news(lambda item: "refused" in item)
            self.assertIn(why, probe.news[end - 1]["refused"], place)
            self.assertEqual(probe.stream.wait(), 1)


if __name__ == "__main__":
    harness.main()
