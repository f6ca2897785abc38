"""pair_sign_test.py: both nodes of a pair sign their logs, each with its own key. A signed head of one node also confirms
(countersigns) what the other node signed before it. So a primary that rewrites its log and signs it again is detected, and
a failover does not look like forgery.
"""
import ctypes
import hashlib
import os
import shutil
import subprocess

import harness
import pair

HEAD_SIZE, SEGMENT_HEADER_SIZE, FRAME_HEADER_SIZE = 192, 4096, 112
CONTEXT = b"tarry signed head 1\n"
XXH3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
XXH3.restype, XXH3.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t)
SODIUM = ctypes.CDLL("libsodium.so.23")


def xxh3(data):
    return XXH3(bytes(data), len(data)).to_bytes(8, "little")


def number(data, at, size):
    return int.from_bytes(data[at:at + size], "little")


def forge_log(path, old, new):
    """Forges a log of one segment: replaces `old` by `new` in the body of every frame, and corrects all checksums and chain
    hashes. Returns a map: position of a frame's end → chain hash.
    """
    assert len(old) == len(new)
    chains, chain, forged = {}, bytes(32), 0
    with open(path, "rb") as file:
        data = bytearray(file.read())
    at = SEGMENT_HEADER_SIZE
    while data[at:at + 4] == b"TRY1":
        body_size, blob_size = number(data, at + 12, 4), number(data, at + 16, 4)
        body_at = at + FRAME_HEADER_SIZE + blob_size
        body = bytes(data[body_at:body_at + body_size])
        forged += body.count(old)
        body = body.replace(old, new)
        data[body_at:body_at + body_size] = body
        data[at + 56:at + 64] = xxh3(body)
        bare = bytearray(data[at:at + 72])
        bare[6:8], bare[64:72] = bytes(2), bytes(8)
        chain = hashlib.blake2b(chain + bare + body, digest_size=32).digest()
        data[at + 72:at + 104] = chain
        summed = bytearray(data[at:at + 104])
        summed[6:8] = bytes(2)
        data[at + 104:at + 112] = xxh3(summed)
        at += (FRAME_HEADER_SIZE + blob_size + body_size + 7) // 8 * 8
        chains[at] = chain  # the segment's base is the size of its header
    assert forged > 0
    with open(path, "wb") as file:
        file.write(data)
    return chains


def forge_heads(path, chains, key):
    """Signs other chain hashes with the key of this file."""
    with open(key, encoding="ascii") as file:
        seed = bytes.fromhex(file.read().split("secret ")[1].strip())
    public, secret, signature = (ctypes.create_string_buffer(size) for size in (32, 64, 64))
    assert SODIUM.crypto_sign_seed_keypair(public, secret, seed) == 0
    with open(path, "rb") as file:
        data = bytearray(file.read())
    for at in range(0, len(data), HEAD_SIZE):
        data[at + 80:at + 112] = chains[number(data, at + 32, 8)]
        message = CONTEXT + bytes(data[at:at + 120])
        assert SODIUM.crypto_sign_detached(signature, None, message, ctypes.c_ulonglong(len(message)), secret) == 0
        data[at + 120:at + 184] = signature.raw
        data[at + 184:at + 192] = xxh3(data[at:at + 184])
    with open(path, "wb") as file:
        file.write(data)


def head_ends(path):
    """Returns, for each head in the file, the position up to which the head covers the log."""
    with open(path, "rb") as file:
        data = file.read()
    return [number(data, at + 32, 8) for at in range(0, len(data), HEAD_SIZE)]


class Signed(pair.Case):
    def setUp(self):
        super().setUp()
        for broker in (self.a, self.b):
            broker.key = broker.data + ".key"
            subprocess.run([harness.find_program("tarry"), "keygen", broker.key], stdout=subprocess.DEVNULL, check=True)
            broker.arguments += ["--sign-key", broker.key]

    def wait_signed(self, broker):
        path = os.path.join(broker.data, "heads")
        self.wait_for("a head", lambda: os.path.exists(path) and os.path.getsize(path) >= HEAD_SIZE)

    def verify(self, broker, *others, status=0):
        """Runs tarry verify with both keys, and with the heads of the other nodes."""
        keys = [argument for node in (self.a, self.b) for argument in ("--key", node.key + ".pub")]
        heads = [argument for node in others for argument in ("--heads", node.data)]
        answer = self.a.tarry("verify", broker.data, *keys, *heads)
        self.assertEqual(answer.status, status, answer)
        return answer

    def signed_to(self, proof, broker):
        with open(broker.key + ".pub", encoding="ascii") as file:
            key = file.read().split("id ")[1].split()[0]
        return next(signer["signed_to"] for signer in proof["signers"] if signer["key"] == key)

    def stop_both(self):
        """Stops the follower first, so that the leader's log contains the follower's whole log."""
        self.assertEqual((self.b.stop(), self.a.stop()), (0, 0))

    def refuse_nonsense(self):
        """Checks that tarry verify refuses invalid options. Both nodes are stopped."""
        keys = ("--key", self.a.key + ".pub", "--key", self.b.key + ".pub")
        path = self.path("heads")
        shutil.copy(os.path.join(self.b.data, "heads"), path)
        self.assertEqual(self.a.one("verify", self.a.data, *keys, "--heads", path)["result"], "fine")  # the file of heads is enough; the rest of the other node's directory is not needed
        answer = self.a.refused("verify", self.a.data, "--heads", self.b.data, status=2)
        self.assertIn("--heads needs --key", answer.err)
        answer = self.a.refused("verify", self.a.data, *keys[:2], "--heads", self.b.data)
        self.assertIn("which no --key names", answer.err)
        answer = self.a.refused("verify", self.a.data, *keys, "--heads", self.path("nothing"))
        self.assertIn("cannot be read", answer.err)
        answer = self.a.refused("verify", self.a.data, *keys, "--heads", self.path("empty", b""))
        self.assertIn("has no signed head", answer.err)
        with open(path, "r+b") as file:
            file.seek(100)
            byte = file.read(1)[0]
            file.seek(100)
            file.write(bytes([byte ^ 1]))
        answer = self.a.refused("verify", self.a.data, *keys, "--heads", path)
        self.assertIn("incomplete" if os.path.getsize(path) == HEAD_SIZE else "damaged", answer.err)

    def test_a_primary_that_rewrote_its_log_and_signed_it_is_found_by_the_followers_heads(self):
        self.start_pair()
        for i in range(20):
            self.a.one("schedule", "orders", "--key", f"order-{i}", "--in", "1h")
        self.a.one("cancel", "orders", "order-1")
        self.wait_signed(self.b)  # wait until b has signed once after its start; it signs the later frames when it stops
        self.stop_both()
        proof = self.verify(self.a, self.b).one
        self.assertEqual((proof["result"], proof["signed_to"]), ("fine", proof["log_end"]))
        self.assertEqual(self.signed_to(proof, self.a), proof["log_end"])
        self.assertEqual(proof["countersigned_to"], self.signed_to(proof, self.b))
        self.assertGreater(proof["countersigned_to"], 4096)
        alone = self.verify(self.a).one
        self.assertEqual((alone["countersigned_to"], self.signed_to(alone, self.b)), (0, 0))
        said = self.a.words("verify", self.a.data, "--key", self.a.key + ".pub", "--key", self.b.key + ".pub", "--heads", self.b.data)
        self.assertIn(f"countersigned up to position {proof['countersigned_to']}", said)
        said = self.a.words("verify", self.a.data, "--key", self.a.key + ".pub", "--key", self.b.key + ".pub")
        self.assertIn("not countersigned", said)
        self.refuse_nonsense()

        # An attacker who has the primary's directory and key changes the client's name in a record of the log.
        chains = forge_log(os.path.join(self.a.data, "log", "0000000000001000.seg"), b"127.0.0.1", b"10.66.6.6")
        forge_heads(os.path.join(self.a.data, "heads"), chains, self.a.key)
        shutil.rmtree(os.path.join(self.a.data, "index"))
        os.remove(os.path.join(self.a.data, "pair"))  # without the file `pair`, the broker is a single broker; a node of a pair would not start alone
        forged = harness.Broker(self.a.data, "--sign-key", self.a.key).start()  # the broker's start builds the deleted index again
        self.brokers.append(forged)
        facts = forged.ok("history", "orders", "order-1")
        self.assertTrue(all(fact["peer"].startswith("10.66.6.6") for fact in facts), facts)
        self.assertEqual(forged.stop(), 0)
        self.assertEqual(self.verify(self.a).one["result"], "fine")  # without the other node's heads it looks correct
        answer = self.verify(self.a, self.b, status=1)
        self.assertIn("the log differs from the one that another node signed", answer.err)
        self.assertIn(os.path.join(self.b.data, "heads"), answer.err)
        against = self.a.refused("verify", self.a.data, "--against", self.b.data).one  # the command reports where the two logs differ
        ends = [4096, *head_ends(os.path.join(self.b.data, "heads"))]
        before = max(end for end in ends if end <= against["differs_at"])
        after = min(end for end in ends if end > against["differs_at"])
        self.assertEqual((answer.one["differs_from"], answer.one["differs_to"]), (before, after))

    def test_after_failovers_the_log_has_heads_of_two_keys(self):
        self.start_pair()
        self.a.one("schedule", "orders", "--key", "one", "--in", "1h")
        self.wait_signed(self.b)
        self.a.kill()
        self.wait_log(self.b, "event=leading")
        self.b.one("schedule", "orders", "--key", "two", "--in", "1h")
        self.a.start()
        self.wait_in_sync()
        self.b.kill()
        self.wait_log(self.a, "event=leading", 2)
        self.a.one("schedule", "orders", "--key", "three", "--in", "1h")
        self.b.start()
        self.wait_in_sync()
        self.wait_pending(self.b, 3)
        self.wait_for("the follower knows all to be committed", lambda: self.b.one("status")["committed"] >= self.a.one("status")["appended"])
        self.stop_both()
        for broker, other in ((self.a, self.b), (self.b, None)):
            proof = self.verify(broker, *([other] if other else [])).one
            # A follower signs only frames that it knows to be committed. The leader's last frame, a seal, may arrive
            # while the follower stops, and then stays unsigned.
            unsigned = proof["log_end"] - self.signed_to(proof, broker)
            self.assertEqual(proof["result"], "fine")
            self.assertIn(unsigned, (0,) if broker is self.a else (0, FRAME_HEADER_SIZE))  # a seal consists of a header only
            self.assertEqual(proof["epoch"], 3)
        proof = self.verify(self.a, self.b).one
        self.assertEqual(proof["countersigned_to"], self.signed_to(proof, self.b))
        # The follower stopped first, so its directory lacks the frames that the leader signed later. tarry verify
        # reports that.
        answer = self.verify(self.b, self.a, status=1)
        self.assertIn("or this node was not running then", answer.err)


if __name__ == "__main__":
    harness.main()
