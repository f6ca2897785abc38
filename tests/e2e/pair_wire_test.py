"""pair_wire_test.py: requests that no follower would send are refused and break nothing; and a client without the peer key gets
no information."""
import json
import os
import subprocess

import harness
import pair
import peer_proof
import wire
from peer_proof import PeerKey

# Field numbers of tarry.proto, and the log's format version.
FOLLOW, SENTENCE, SECRET, JOIN = 22, 14, 17, 6
FORMAT_VERSION = 1


class Strangers(pair.Case):
    key = PeerKey(harness.PEER_KEY)

    def setUp(self):
        super().setUp()
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_for("compared", lambda: all(
            int(broker.tarry("status").one.get("digest", {}).get("position", 0)) == self.a.one("status")["appended"] for broker in self.brokers))
        self.told = self.b.one("status")
        self.b.kill()

    def follow(self, *others):
        """Returns the fields of the follower's request. The pairs (field number, value) in `others` replace the correct
        values.
        """
        fields = {1: bytes.fromhex(self.told["cluster"]), 2: bytes.fromhex(self.told["member"]), 3: self.told["node"],
                  4: FORMAT_VERSION, 5: self.told["epoch"], 6: 1 << 40, 7: self.told["durable"], 14: self.told["url"], 23: 1,
                  **dict(others)}
        return list(fields.items())

    def test_a_digest_that_is_not_the_leaders(self):
        """F-31: the leader compares the digests, too. The request names the digest's position but has no digest, so the digest
        is 0, which is wrong.
        """
        with wire.Rpc(self.a.port) as rpc:
            code, reply = rpc.ask_as_peer(self.key, FOLLOW, self.follow((12, int(self.told["digest"]["position"]))))
        self.assertEqual(code, wire.INVALID)
        self.assertIn("state differs from the leader's although their logs are equal", wire.decode(reply)[SENTENCE][0].decode())

    def test_a_url_that_is_none(self):
        """A follower's URL becomes part of the pair's record, so the leader refuses an invalid one."""
        with wire.Rpc(self.a.port) as rpc:
            for url in ("", "ws://", "ws://a b:7272", "ws://a\n:7272", "ws://\u00e4:7272", "http://a", "ws://a/path"):
                code, _ = rpc.ask_as_peer(self.key, FOLLOW, self.follow((14, url)))
                self.assertEqual((code, rpc.sentence), (wire.INVALID, "url is not the address of a broker"), url)
        self.wait_for("it goes on alone", lambda: self.record().get("in-sync") == "0")
        self.a.ok("schedule", "orders", "--in", "1h")


class Useless(Strangers):
    """Strict mode (F-28): a follower asks repeatedly but stores nothing, as with a full disk or with a crash every second."""

    arguments = ("--failover-after", "3s", "--solo-after", "never")
    test_a_digest_that_is_not_the_leaders = test_a_url_that_is_none = None

    def test_f28_a_follower_that_asks_and_stores_nothing_is_a_problem(self):
        waiting = self.a.stream("schedule", "orders", "--in", "1h")
        def problem():
            with wire.Rpc(self.a.port) as rpc:
                rpc.ask_as_peer(self.key, FOLLOW, self.follow((15, 100)))
            return "stores nothing" in str(self.a.tarry("status").one["problem"])
        self.wait_for("the leader says so", problem)
        self.b.start()
        waiting.wait()
        self.wait_for("no problem", lambda: self.a.tarry("status").one["problem"] is None)


class PeerKeys(pair.Case):
    """A client that does not prove with the peer key that it is the other node is refused (F-23, F-29)."""

    key = PeerKey(harness.PEER_KEY)

    def secret(self, broker):
        """Returns the key from which session secrets are made (storage/files/identity.h)."""
        with open(f"{broker.data}/identity", "rb") as file:
            return file.read()[32:64]

    def question(self, status):
        """Returns a follower's complete and correct question."""
        return [(1, bytes.fromhex(status["cluster"])), (2, bytes.fromhex(status["member"])), (3, 1), (4, FORMAT_VERSION),
                (5, status["epoch"]), (6, 1 << 40), (7, status["durable"]), (14, status["url"]), (23, 1)]

    def refused(self, rpc, answer):
        self.assertEqual(answer, (wire.NOT_DONE, b""))
        self.assertEqual(set(rpc.reply), {1, 2, peer_proof.CHALLENGE})
        for broker in (self.a, self.b):
            self.assertNotIn(self.secret(broker), rpc.packed)

    def test_a_stranger_gets_no_place_and_no_secret(self):
        self.start_pair()
        status = self.b.one("status", "--broker", self.b.url)
        strange = PeerKey("some other key that is long enough")
        for broker in (self.a, self.b):
            with wire.Rpc(broker.port) as rpc:
                for question in ([], [(15, 100)], self.question(status)):
                    self.refused(rpc, rpc.ask(FOLLOW, question))
                    self.assertIn("it must prove its identity with the peer key", rpc.sentence)
                    challenge = rpc.reply[peer_proof.CHALLENGE][0]
                    self.refused(rpc, rpc.ask_packed(strange.prove(wire.request(FOLLOW, question), challenge)[0]))
                    self.assertIn("has a different peer key than this broker", rpc.sentence)
                    half = wire.request(FOLLOW, question) + wire.encode([(peer_proof.PROOF_OF_REQUEST, b"x" * 56)])
                    self.refused(rpc, rpc.ask_packed(half))
        self.a.wait_logged("event=peer_refused")

    def test_who_has_the_key_joins_and_the_secret_travels_sealed(self):
        self.a.start()
        if self.coordinated:
            self.wait_role(self.a, "leading")
        with wire.Rpc(self.a.port) as rpc:
            code, body = rpc.ask_as_peer(self.key, FOLLOW, [])
            reply = wire.decode(body)
            self.assertEqual((code, wire.number(reply, 1)), (wire.OK, JOIN))
            self.assertNotIn(self.secret(self.a), rpc.packed)
            self.assertEqual(self.key.unseal(reply[SECRET][0]), self.secret(self.a))
            self.assertIsNone(PeerKey("some other key that is long enough").unseal(reply[SECRET][0]))

    def test_what_was_heard_on_the_network_is_worth_nothing_after_a_start(self):
        self.a.start()
        self.wait_role(self.a, "leading")
        with wire.Rpc(self.a.port) as rpc:
            rpc.ask_as_peer(self.key, FOLLOW, [])
            challenge = self.challenge(rpc)
            packed, _ = self.key.prove(wire.request(FOLLOW, []), challenge)
            self.assertEqual(rpc.ask_packed(packed)[0], wire.OK)
        self.a.restart()
        self.wait_for("leads again", lambda: sum("event=leading" in line for line in self.a.log) == 2)
        with wire.Rpc(self.a.port) as rpc:
            self.assertEqual(rpc.ask_packed(packed), (wire.NOT_DONE, b""))
            self.assertNotEqual(self.challenge(rpc), challenge)

    def challenge(self, rpc):
        rpc.ask(FOLLOW, [])
        return rpc.reply[peer_proof.CHALLENGE][0]

    def other_key(self, name="other.key"):
        path = self.path(name)
        harness.make_private(path, "some other key that is long enough")
        return ["--peer-key", path]

    def test_two_keys_make_no_pair_and_both_say_so(self):
        """The primary refuses a node with another peer key, both when the node joins for the first time and when it had joined
        before.
        """
        self.a.start()
        arguments = self.b.arguments
        self.b.arguments = [*arguments, *self.other_key()]
        self.b.launch()
        self.wait_log(self.b, "event=joining_waits")
        self.wait_log(self.b, "the requesting node has a different peer key than this broker")
        self.wait_log(self.a, "event=peer_refused")
        self.b.kill()
        self.b.arguments = arguments
        self.b.start()
        self.wait_in_sync()
        self.b.stop()
        self.b.arguments = [*arguments, *self.other_key()]
        self.b.launch()
        self.wait_log(self.b, "event=not_followed")
        self.wait_for("a problem", lambda: "does not prove that it has this node's peer key" in str(self.b.tarry("status").objects))
        self.assertTrue(self.b.is_running())
        self.b.kill()
        self.b.arguments = arguments
        self.b.start()
        self.wait_in_sync()

    def test_who_listens_at_the_leaders_address_orders_nobody_about(self):
        """A process that listens at the leader's address, but has another peer key, can neither make the follower end nor send
        it frames.
        """
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.a.kill()
        stranger = harness.Broker(self.path("stranger"), "--peer", self.b.listen, "--coordinator",
                                  f"file://{self.directory}/another", *self.other_key(), listen=self.a.listen)
        self.brokers.append(stranger.start())
        self.wait_role(stranger, "leading")
        self.wait_log(self.b, "event=leading")
        self.assertEqual(self.pending(self.b), 1)

    def test_a_snapshot_is_taken_from_the_other_node_only(self):
        """The cluster's id is not secret. A broker that has the id but not the peer key can neither get nor send data."""
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_pending(self.b, 1)
        self.b.stop()
        self.a.stop()
        with open(f"{self.b.data}/snapshot.wanted", "wb"):
            pass
        self.a.arguments = [*self.a.arguments, *self.other_key()]
        self.a.start()
        self.b.launch()
        self.wait_log(self.b, "event=snapshot_waits")
        self.b.wait_logged("the server there did not prove with the peer key that it is the other node")
        self.a.kill()
        self.a.arguments = self.a.arguments[:-2]
        self.a.start()
        self.wait_log(self.b, "event=snapshot_taken")
        self.wait_in_sync()
        self.wait_pending(self.b, 1)


class KeyFiles(pair.Case):
    """Checks that a broker reports problems of its key file when it starts."""

    def refusal(self, broker, *arguments, status=1):
        broker.arguments = [*broker.arguments, *arguments]
        command = [harness.find_program("tarryd"), "--data", broker.data, "--listen", broker.listen, *broker.arguments]
        done = subprocess.run(command, stderr=subprocess.PIPE, check=False, timeout=pair.WAIT_S)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertFalse(os.path.exists(broker.data))
        return done.stderr.decode()

    def test_a_pair_without_a_key(self):
        for broker in (self.a, self.b):
            said = self.refusal(broker, status=2)
            self.assertIn("a pair needs the option peer-key", said)
            self.assertIn("tarry keygen --peer", said)

    def test_a_key_without_a_pair(self):
        self.a.arguments = []
        self.assertIn("option peer-key needs a pair", self.refusal(self.a, "--peer-key", "x", status=2))

    def test_files_that_hold_no_key(self):
        self.assertIn("cannot be read: No such file", self.refusal(self.a, "--peer-key", self.path("none")))
        harness.make_private(self.path("short"), " \n" + "x" * 31 + "\n")
        self.assertIn("shorter than the minimum of 32 bytes", self.refusal(self.a, "--peer-key", self.path("short")))
        harness.make_private(self.path("long"), "x" * 1025)
        self.assertIn("larger than the maximum of 1024 bytes", self.refusal(self.a, "--peer-key", self.path("long")))
        harness.make_private(self.path("open"), "x" * 32)
        os.chmod(self.path("open"), 0o640)
        self.assertIn("can be used by other users; run chmod 600", self.refusal(self.a, "--peer-key", self.path("open")))

    def test_the_tool_makes_one(self):
        made = subprocess.run([harness.find_program("tarry"), "keygen", "--peer", self.path("made"), "--json"],
                              stdout=subprocess.PIPE, check=True)
        self.assertEqual(json.loads(made.stdout), {"result": "made", "secret": self.path("made")})
        self.assertEqual(os.stat(self.path("made")).st_mode & 0o777, 0o600)
        self.assertFalse(os.path.exists(self.path("made") + ".pub"))
        with open(self.path("made"), encoding="ascii") as file:
            self.assertRegex(file.read(), "^[0-9a-f]{64}\n$")
        again = subprocess.run([harness.find_program("tarry"), "keygen", "--peer", self.path("made")], stderr=subprocess.PIPE, check=False)
        self.assertEqual(again.returncode, 1)
        self.assertIn(b"this command does not overwrite keys", again.stderr)
        for broker in (self.a, self.b):
            broker.arguments += ["--peer-key", self.path("made")]
        self.start_pair()


if __name__ == "__main__":
    harness.main(watches_locks=True)
