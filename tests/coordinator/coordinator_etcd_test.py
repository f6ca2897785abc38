"""coordinator_etcd_test.py: the contract (contract.py) with a real etcd 3.4, and etcd's own features and faults: users,
certificates, a quota, a compaction, members that lag or hang, an older snapshot (F-9, F-30; R4 to R6 of FAULTS.md).
"""
import http.server
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

from contract import OverServer
from etcd import Certificates, Ensemble, Etcd, missing
from ports import free_port
from probe import CALL_MS, PATIENT_MS, SESSION_MS, WAIT_S, Case, harness, needs
from proxy import DOWN

CAN_MOUNT = os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0
NO_OPENSSL = None if shutil.which("openssl") else "no openssl"


@needs("etcd", missing())
class AtEtcd(OverServer, Case):
    named = "etcd"
    make_server = Etcd

    def delete(self, name):
        self.server.control("del", f"{self.path}/{name}")

    def test_a_path_is_a_prefix_and_needs_no_making(self):
        deep = self.probe(self.server.url(self.path + "/b/c/d"))
        self.assertEqual(deep.done("set", "record", 0, "one")["version"], 1)
        self.assertIn("one", self.server.control("get", self.path + "/b/c/d/record"))
        beside = self.probe(self.server.url(self.path + "/b"))
        self.assertEqual(beside.done("read", "record")["version"], 0)

    def test_a_compaction_loses_nothing(self):
        """Compaction removes only earlier versions, which no client reads. A watch continues."""
        probe, other = self.probe(self.url()), self.probe(self.url())
        probe.ask("watch", "record")
        for version in range(5):
            other.done("set", "record", version, f"v{version}")
        self.server.control("compact", str(self.server.status()["header"]["revision"]), "--physical")
        self.assertEqual(probe.done("read", "record")["value"], "v4")
        start = len(probe.news)
        self.assertEqual(other.done("set", "record", 5, "v5")["version"], 6)
        probe.wait_news(lambda item: "changed" in item, start)
        self.assertEqual(probe.done("set", "record", 6, "v6")["version"], 7)

    def test_what_another_wrote_there_is_no_entry(self):
        probe = self.probe(self.url(), CALL_MS)
        self.server.control("put", self.path + "/record", "x" * 5000)
        self.unknown(probe.call("read", "record"), "more than 4096 bytes, so Tarry did not write it")
        self.server.control("put", self.path + "/other", "x" * 100000)
        self.unknown(probe.call("read", "other"), "no answer|65536")
        self.assertEqual(probe.call("set", "other", 7, "mine")["outcome"], "unknown")
        self.assertEqual(self.until_done(self.probe(self.url()), "read", "third")["version"], 0)

    def test_values_of_every_size(self):
        probe = self.probe(self.url())
        for version, size in enumerate((1, 2, 3, 4094, 4095, 4096)):
            probe.done("set", "record", version, "x" * size)
            self.assertEqual(probe.done("read", "record")["value"], "x" * size)

    def test_a_reply_that_is_lost_at_once_is_not_asked_for_again(self):
        """R5: libcurl itself repeats a request if a reused connection ends without a reply. The repetition would be refused
        although the first request was executed.
        """
        proxy, url = self.by_proxy()
        self.probe(self.url()).done("set", "record", 0, "0;")
        probe = self.probe(url, PATIENT_MS, 30000)
        for version in range(1, 6):
            self.assertEqual(self.until_done(probe, "read", "record")["version"], version)
            proxy.hold(DOWN)
            number = probe.ask("set", "record", version, f"{version};")
            harness.wait_until("it has happened", lambda v=version: f"{v};" in self.server.control("get", self.path + "/record"), WAIT_S)
            proxy.cut()
            self.unknown(probe.answer(number), "connection was lost before the answer came")
            proxy.heal()


@needs("etcd", missing())
class Room(Case):
    def test_without_room_nothing_changes_and_it_says_so(self):
        """--quota-backend-bytes: etcd raises its NOSPACE alarm and refuses changes until an operator makes room."""
        server = Etcd(options=["--quota-backend-bytes", str(1 << 20)])
        self.addCleanup(server.close)
        server.start().wait_ready()
        probe = self.probe(server.url())
        probe.done("set", "record", 0, "one")
        for _ in range(20):
            if "exceeded" in server.control("put", "/fill", "x" * 100000, check=False):
                break
        self.unknown(probe.call("set", "record", 1, "two"), "used up its quota and takes no change.*alarm disarm")
        session = probe.message("used up its quota")
        self.assertEqual(session["session"], "connected")
        self.assertEqual(probe.done("read", "record")["value"], "one")
        server.control("del", "/fill")
        server.control("compact", str(server.status()["header"]["revision"]), "--physical")
        server.control("defrag")
        server.control("alarm", "disarm")
        self.assertEqual(self.until_done(probe, "set", "record", 1, "two")["version"], 2)
        self.assertEqual(probe.call("session")["message"], "")


@needs("etcd", missing())
class Users(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Etcd(options=["--auth-token-ttl", "1"])
        cls.addClassCleanup(cls.server.close)
        cls.server.start().wait_ready()
        cls.before = Etcd()
        cls.addClassCleanup(cls.before.close)
        cls.before.start().wait_ready()
        cls.server.add_users()

    def refused(self, url, pattern, *arguments):
        probe = self.probe(url, CALL_MS, SESSION_MS, *arguments)
        for words in (("read", "record"), ("set", "record", 0, "one")):
            self.unknown(probe.call(*words))
        self.assertEqual(probe.message(pattern)["session"], "forbidden")

    def test_who_has_no_name_or_a_wrong_one_is_told(self):
        self.refused(self.server.url(), "requires a user and password: set --coordinator-credentials")
        self.refused(self.server.url(), "refuses the user 'pair' or the password", "pair:wrong")
        self.refused(self.server.url(), "refuses the user 'nobody' or the password", "nobody:secret")
        self.refused(self.server.url("/mine/pair"), "does not let the user 'pair' read and write all keys below /mine/pair/: type 'etcdctl role",
                     "pair:secret")
        self.refused(self.before.url(), "has authentication turned off, so any client can change the record", "pair:secret")

    def test_a_token_that_expires_is_renewed(self):
        """In this test an unused token expires after one or two seconds. The client's next call discovers this, because its
        regular probes come only every 15 s.
        """
        probe = self.probe(self.server.url("/tarry/renewed"), PATIENT_MS, 60000, "pair:secret")
        probe.done("set", "record", 0, "0")
        for version in range(1, 4):
            time.sleep(3.5)
            self.assertEqual(probe.done("set", "record", version, str(version))["version"], version + 1)

    def test_a_server_that_forgot_its_tokens_gives_new_ones(self):
        probe = self.probe(self.server.url("/tarry/again"), PATIENT_MS, SESSION_MS, "pair:secret")
        probe.done("set", "record", 0, "one")
        probe.ask("watch", "record")
        self.server.kill()
        self.server.start().wait_ready()  # etcd finds the tokens in its log, and they expire as usual
        self.assertEqual(self.until_done(probe, "set", "record", 1, "two")["version"], 2)
        start = len(probe.news)
        self.probe(self.server.url("/tarry/again"), PATIENT_MS, SESSION_MS, "pair:secret").done("set", "record", 2, "three")
        probe.wait_news(lambda item: "changed" in item, start)

    def test_a_password_that_was_changed_lets_in_again_once_it_is_right(self):
        self.server.control("user", "add", "moody:one")
        self.server.control("user", "grant-role", "moody", "pair")
        probe = self.probe(self.server.url("/tarry/moody"), CALL_MS, SESSION_MS, "moody:one")
        self.until_done(probe, "set", "record", 0, "one")
        subprocess.run(["etcdctl", "--endpoints", self.server.client_url(), "--user", "root:root", "user", "passwd", "moody",
                        "--interactive=false"], input="two\n", text=True, check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "ETCDCTL_API": "3"})
        probe.message("refuses the user 'moody' or the password")
        self.unknown(probe.call("set", "record", 1, "two"))
        subprocess.run(["etcdctl", "--endpoints", self.server.client_url(), "--user", "root:root", "user", "passwd", "moody",
                        "--interactive=false"], input="one\n", text=True, check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "ETCDCTL_API": "3"})
        self.until_done(probe, "read", "record")


@needs("etcd", missing() or NO_OPENSSL)
class Certified(Case):
    """etcds://: TLS, and client certificates."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="tarry-certificates-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.authority = Certificates(cls.directory)
        cls.other = Certificates(cls.directory, "other")
        cls.client = cls.authority.make("client")

    def server(self, name, asks=False, **options):
        server = Etcd(certificates=(self.authority.ca, *self.authority.make(name, **options)), asks=asks)
        self.addCleanup(server.close)
        return server.start()

    def refused(self, url, pattern, *certificates):
        probe = self.probe(url, CALL_MS, SESSION_MS, "", *certificates)
        self.unknown(probe.call("set", "record", 0, "one"))
        probe.message(pattern)
        return probe

    def test_who_has_a_certificate_is_let_in_and_nobody_else(self):
        server = self.server("strict", asks=True)
        server.certificates = (self.authority.ca, *self.client)
        server.wait_ready()
        probe = self.probe(server.url(), PATIENT_MS, SESSION_MS, "", self.authority.ca, *self.client)
        self.assertEqual(probe.done("set", "record", 0, "one")["version"], 1)
        self.assertEqual(probe.done("multi", "record", 1, "two", "other", 0, "x")["versions"], [2, 1])
        start = len(probe.news)
        probe.ask("watch", "record")
        probe.wait_news(lambda item: "changed" in item, start)
        self.refused(server.url(), "certificate required|bad certificate|alert", self.authority.ca)
        self.refused(server.url(), "alert|certificate", self.authority.ca, *self.other.make("stranger"))
        self.refused(server.url(), "alert.*expired|certificate expired|bad certificate|alert", self.authority.ca,
                     *self.authority.make("late", days=-1))

    def test_a_server_that_is_not_who_it_should_be_is_told_nothing(self):
        right = self.server("right").wait_ready()
        self.refused(right.url(), "certificate.*(unable to get|self.signed|issuer)", self.other.ca)
        self.refused(right.url(), "unable to get local issuer certificate|self.signed")
        self.refused(right.url().replace("127.0.0.1", "localhost"), "no alternative certificate subject name matches", self.authority.ca)
        expired = self.server("expired", days=-1)
        self.refused(expired.url(), "certificate has expired", self.authority.ca)
        plain = self.refused(right.url().replace("etcds", "etcd"), "no connection to etcd")
        self.assertEqual(plain.call("session")["session"], "connecting")

    def test_a_certificate_that_is_renewed_is_taken_by_the_next_connection(self):
        expired = self.server("renewed", days=-1)
        probe = self.refused(expired.url(), "certificate has expired", self.authority.ca)
        expired.certificates = (self.authority.ca, *self.authority.make("renewed"))  # the files have the same names as before, so etcd reads the new ones
        self.assertEqual(self.until_done(probe, "set", "record", 0, "one")["version"], 1)

    def test_files_that_do_not_belong_there_are_refused_in_words(self):
        for url, why, *files in (("etcd://h:1/p", "are allowed with etcds:// only, not with etcd://", self.authority.ca),
                                 ("zk://h:1/p", "are allowed with etcds:// only, not with zk://", self.authority.ca),
                                 ("etcds://h:1/p", "name both the certificate and its key", "", self.client[0], ""),
                                 ("etcds://h:1/p", "the CA /dev/zero must be a regular PEM file of at most 1 MiB", "/dev/zero"),
                                 ("etcds://h:1/p", "the key /dev/zero must be a regular PEM file", "", self.client[0], "/dev/zero")):
            probe = self.probe(url, CALL_MS, SESSION_MS, "", *files)
            end = probe.wait_news(lambda item: "refused" in item)
            self.assertIn(why, probe.news[end - 1]["refused"])


@needs("etcd", missing())
class Several(Case):
    """Three members."""

    @classmethod
    def setUpClass(cls):
        cls.three = Ensemble()
        cls.addClassCleanup(cls.three.close)

    def test_a_member_that_stands_still_is_left(self):
        """Stops the member that the client uses (SIGSTOP). Calls continue with another member within about a second."""
        probe = self.probe(self.three.url("/tarry/still"), PATIENT_MS, 4000)
        probe.done("set", "record", 0, "0")
        for version, server in enumerate(self.three.servers, 1):
            server.pause()
            try:
                started = time.monotonic()
                self.assertEqual(self.until_done(probe, "read", "record")["version"], version)
                self.assertLess(time.monotonic() - started, 20)  # seconds; a session lasts 4 s, and a busy machine is slow
                self.assertEqual(probe.done("set", "record", version, str(version))["version"], version + 1)
            finally:
                server.resume()
                server.wait_ready()

    def test_a_member_that_has_no_majority_is_not_asked(self):
        """A member without a majority answers serializable reads with old data. While two members are paused, no call
        succeeds, and the client trusts no answer.
        """
        probe = self.probe(self.three.url("/tarry/alone"), PATIENT_MS, 2000)
        probe.done("set", "record", 0, "one")
        for server in self.three.servers[1:]:
            server.pause()
        try:
            impatient = self.probe(self.three.url("/tarry/alone"), 2000, 2000)
            self.unknown(impatient.call("read", "record"))
            impatient.message("no connection to etcd at")
            probe.message("no connection to etcd at")
            alone = self.three.servers[0].ask("kv/range", {"key": "L3RhcnJ5L2Fsb25lL3JlY29yZA==", "serializable": True})
            self.assertEqual(alone["count"], "1", "the read that would have been wrong")
        finally:
            for server in self.three.servers[1:]:
                server.resume()
        self.assertEqual(self.until_done(probe, "set", "record", 1, "two")["version"], 2)

    def test_a_read_is_no_older_than_what_another_member_was_told(self):
        """Each value is written through one member and read at once through another."""
        urls = [server.url("/tarry/fresh") for server in self.three.servers]
        probes = [self.probe(url) for url in urls]
        for version in range(60):
            self.assertEqual(probes[version % 3].done("set", "record", version, f"v{version}")["version"], version + 1)
            self.assertEqual(self.probe_at(probes, version + 1).done("read", "record")["version"], version + 1)

    def probe_at(self, probes, number):
        return probes[number % len(probes)]

    def test_when_all_have_failed_it_is_said_at_once(self):
        """If all servers are unreachable, a call fails at once. It does not wait for the end of the session (five minutes
        here).
        """
        server = Etcd("gone")
        self.addCleanup(server.close)
        server.start().wait_ready()
        probe = self.probe(server.url("/tarry/gone"), PATIENT_MS, 600000)
        probe.done("set", "record", 0, "one")
        start = len(probe.news)
        server.close()
        probe.ask("read", "record")
        probe.wait_session("connecting", start)

    def test_hosts_of_two_clusters_are_refused(self):
        """If each cluster had a record, there could be two leaders."""
        stranger = Etcd("x")
        self.addCleanup(stranger.close)
        stranger.start().wait_ready()
        for hosts in ((self.three.servers[0], stranger), (stranger, self.three.servers[0])):
            url = "etcd://" + ",".join(f"127.0.0.1:{server.port}" for server in hosts) + "/tarry/two"
            probe = self.probe(url, CALL_MS)
            self.unknown(probe.call("set", "record", 0, "one"))
            self.assertEqual(probe.message("belongs to another cluster")["session"], "forbidden")
        for server in (stranger, self.three.servers[0]):
            self.assertEqual(self.probe(server.url("/tarry/two")).done("read", "record")["version"], 0)


@needs("etcd", missing())
class Snapshot(Case):
    """An operator restores etcd from an older snapshot (etcdctl snapshot restore), so the record is older than before."""

    def restore(self, server, snapshot, token):
        server.kill()
        shutil.rmtree(server.data)
        command = ["etcdctl", "snapshot", "restore", snapshot, "--name", server.name, "--data-dir", server.data,
                   "--initial-cluster", server.cluster, "--initial-advertise-peer-urls", server.peer_url(),
                   "--initial-cluster-token", token]
        subprocess.run(command, check=True, env={**os.environ, "ETCDCTL_API": "3"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server.options = ["--initial-cluster-token", token]
        server.start().wait_ready()

    def run_with(self, token):
        server = Etcd(options=["--initial-cluster-token", "t1"])
        self.addCleanup(server.close)
        server.start().wait_ready()
        snapshot = server.directory + "/snapshot"
        running = self.probe(server.url(), CALL_MS)
        self.until_done(running, "set", "record", 0, "one")
        server.control("snapshot", "save", snapshot)
        self.until_done(running, "set", "record", 1, "two")
        self.restore(server, snapshot, token)
        other = self.probe(server.url())
        self.assertEqual(other.done("read", "record")["version"], 1)  # the client reports that the record was restored
        self.assertEqual(other.done("set", "record", 1, "TWO")["version"], 2)  # the new record may have the same revision as the lost one
        self.assertNotEqual(running.call("set", "record", 2, "three")["outcome"], "done")
        self.unknown(running.call("read", "record"), "put back to an older state|it did not answer in time")
        self.assertNotEqual(running.call("set", "record", 2, "three")["outcome"], "done")  # changes are refused while it is not certain that the record is current
        self.assertEqual(other.done("read", "record")["value"], "TWO")
        return running

    def test_under_the_same_cluster_s_id(self):
        self.run_with("t1")

    def test_under_another_cluster_s_id(self):
        self.run_with("t2").message("belongs to another cluster.*start the node that led last first")


class Liar(http.server.BaseHTTPRequestHandler):
    """A server at etcd's port that is not etcd."""
    protocol_version = "HTTP/1.1"
    answers = {}

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        status, body = self.answers.get(self.path, self.answers.get("*", (404, b"")))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


HEADER = {"cluster_id": "7", "member_id": "8", "revision": "9", "raft_term": "2"}
COUNTED = (200, json.dumps({"header": HEADER}).encode())


class Hostile(Case):
    def lie(self, **answers):
        answers = {"/v3/kv/range": COUNTED, **{"/v3/kv/" + name: answer for name, answer in answers.items()}}
        return self.probe(f"etcd://{self.sit(answers)}/tarry", 2000)

    def sit(self, answers, before=lambda: None):
        """Starts the server. Returns its host and port. Calls `before` before each answer."""
        def do_post(handler):
            before()
            Liar.do_POST(handler)
        handler = type("Handler", (Liar,), {"answers": answers, "do_POST": do_post})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), handler)
        server.handle_error = lambda *_: None  # the client may close the connection
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return f"127.0.0.1:{server.server_port}"

    def test_what_is_no_proof_is_unknown(self):
        """R5, R6: the answer to a transaction says done or refused, but contains no proof."""
        def kv(version, value, mark="9"):
            return {"key": "L3RhcnJ5L3JlY29yZA==", "create_revision": "3", "mod_revision": mark, "version": version, "value": value}

        def answer(succeeded, *kvs, puts=1):
            return 200, json.dumps({"header": HEADER, **({"succeeded": True} if succeeded else {}), "responses": [
                *[{"response_put": {}}] * puts, *[{"response_range": {"kvs": [one]} if one else {}} for one in kvs]]}).encode()

        for lie in (COUNTED, (200, b"{}"), (200, b"<html>welcome"), (200, b"[" * 60000), (200, b"x" * 100000), (502, b"bad gateway"),
                    (503, b'{"error":"etcdserver: request timed out","code":14}'),
                    (503, b'{"error":"etcdserver: leader changed","code":14}'),
                    answer(True, kv("1", "b25l")), answer(True, kv("2", "b25l"), puts=0), answer(True, kv("2", "WFg=")), answer(True, None),
                    answer(True, {**kv("2", "dHdv"), "key": "L3g="}), answer(False, kv("1", "b25l"), puts=0), answer(False, puts=0)):
            self.unknown(self.lie(txn=lie).call("set", "record", 1, "two"))
        self.assertEqual(self.lie(txn=answer(True, kv("2", "dHdv"))).done("set", "record", 1, "two")["version"], 2)
        self.assertEqual(self.lie(txn=answer(False, kv("5", "dHdv"), puts=0)).call("set", "record", 1, "two")["outcome"], "refused")

    def test_a_read_that_is_none_is_unknown(self):
        for lie in ((200, b"{}"), (200, json.dumps({"header": HEADER, "kvs": [{"key": "L3g=", "version": "1"}]}).encode()),
                    (200, json.dumps({"header": HEADER, "kvs": {"a": 1}}).encode()), (301, b"")):
            self.unknown(self.lie(range=lie).call("read", "record"))

    def test_a_cluster_is_believed_once_all_hosts_had_time_to_answer(self):
        """The second host belongs to another cluster. Its answer arrives while the client asks the first host a second time."""
        asked, again = [], threading.Event()

        def first():
            asked.append(None)
            if len(asked) > 1:
                again.set()
        other = (200, json.dumps({"header": {**HEADER, "cluster_id": "70"}}).encode())
        hosts = self.sit({"*": COUNTED}, first), self.sit({"*": other}, lambda: again.wait(WAIT_S))
        probe = self.probe("etcd://" + ",".join(hosts) + "/tarry", CALL_MS, 60000)  # each host gets a quarter of the session's time
        self.assertEqual(probe.message("belongs to another cluster")["session"], "forbidden")
        self.assertNotIn("connected", [item.get("session") for item in probe.news])

    def test_nobody_is_followed_elsewhere(self):
        """The client ignores redirections, and the proxy settings of the environment."""
        os.environ["http_proxy"] = "http://127.0.0.1:1"
        try:
            self.assertEqual(self.lie().done("read", "record")["version"], 0)
        finally:
            del os.environ["http_proxy"]


class Nowhere(Case):
    """No process listens at the address."""

    def test_a_port_where_nobody_listens_is_named(self):
        probe = self.probe("etcd://127.0.0.1:1,127.0.0.1:2/tarry", CALL_MS)
        self.unknown(probe.call("read", "record"), "it did not answer in time")
        probe.message("no connection to etcd at 127.0.0.1:1,127.0.0.1:2: 127.0.0.1:1: Connection refused; 127.0.0.1:2: Connection refused")
        self.assertLess(probe.close(), 20000)

    def test_a_host_without_an_address_is_named(self):
        probe = self.probe("etcd://nobody.invalid:2379/tarry", CALL_MS)
        self.unknown(probe.call("set", "record", 0, "one"), "it did not answer in time")
        probe.message("etcd at nobody.invalid:2379: nobody.invalid:2379: Could not resolve host")

    def test_wrong_addresses_are_refused_in_words(self):
        for place, why in (("", "no path"), ("h:2379/", "no path"), ("h/p", r"without a port (etcd's is 2379)"), ("h:0/p", "1 to 65535"),
                           ("::1:2379/p", "without brackets"), ("u@h:1/p", "must not contain blanks"), ("h:1//p", "an empty part"),
                           (",".join(["h:1"] * 10) + "/p", "10 hosts, but at most 9 are allowed")):
            probe = self.probe("etcd://" + place)
            end = probe.wait_news(lambda item: "refused" in item)
            self.assertIn(why, probe.news[end - 1]["refused"], place)
            self.assertEqual(probe.stream.wait(), 1)

    @unittest.skipUnless(CAN_MOUNT, "mounts of one's own need root")
    def test_a_host_without_libcurl_says_what_to_install(self):
        """libcurl is loaded only where etcd is used."""
        known = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
        library = os.path.realpath(re.search(r"libcurl\.so\.4 .* => (\S+)", known).group(1))
        prefix = ["unshare", "--mount", "sh", "-c", f'mount --bind /dev/null {library} && exec "$@"', "sh"]
        probe = self.probe("etcd://127.0.0.1:1/tarry", prefix=prefix)
        end = probe.wait_news(lambda item: "refused" in item)
        self.assertRegex(probe.news[end - 1]["refused"], "etcd needs libcurl: .*libcurl.so.4.*; apt-get install libcurl4")
        self.assertEqual(self.probe("zk://127.0.0.1:1/tarry", prefix=prefix).call("session")["session"], "connecting")

    @unittest.skipUnless(CAN_MOUNT, "an /etc/resolv.conf of one's own needs root")
    def test_a_resolver_that_hangs_holds_up_nobody(self):
        """libcurl's resolver thread hangs. Neither a call nor the closing of the client waits for this thread."""
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("nameserver 127.0.0.111\noptions timeout:30 attempts:5\n")
            file.flush()
            prefix = ["unshare", "--mount", "--net", "sh", "-c",
                      f'ip link set lo up; mount --bind {file.name} /etc/resolv.conf; nft add table ip t; '
                      "nft add chain ip t i '{ type filter hook input priority 0; }'; nft add rule ip t i udp dport 53 drop; "
                      'exec "$@"', "sh"]
            probe = self.probe("etcd://record_client.tarry-test:2379/tarry", CALL_MS, 2000, prefix=prefix)
            started = time.monotonic()
            self.unknown(probe.call("read", "record"), "it did not answer in time")
            self.assertLess(time.monotonic() - started, 15)
            probe.message("record_client.tarry-test:2379: no answer in time")
            self.assertLess(probe.close(), 10000)


if __name__ == "__main__":
    harness.main()
