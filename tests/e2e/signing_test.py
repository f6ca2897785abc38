"""signing_test.py: keys, signed heads, and what `tarry verify --key` proves. The test uses only the tool and the key files."""
import os
import shutil
import stat
import struct
import subprocess
import time

import harness

HEAD_SIZE = 192
CONTEXT = b"tarry signed head 1\n"
DER_PREFIX = bytes.fromhex("302a300506032b6570032100")  # RFC 8410: an Ed25519 public key in SubjectPublicKeyInfo


def schedule_many(broker, count, prefix="order"):
    lines = "".join('{"queue":"close-order","key":"%s-%d","delay_ms":3600000,"body":"%s"}\n' % (prefix, i, "x" * 500)
                    for i in range(count))
    answer = broker.tarry("schedule", "--from", "-", stdin=lines)
    assert answer.status == 0, answer


class Signed(harness.Case):
    autostart = False

    def setUp(self):
        super().setUp()
        self.key = self.path("sign.key")
        self.run_tool("keygen", self.key)
        self.broker.arguments += ["--sign-key", self.key, "--segment-size", "1MiB"]

    def run_tool(self, *arguments, status=0):
        done = subprocess.run([harness.find_program("tarry"), *arguments, "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        answer = harness.Answer(done.returncode, done.stdout, done.stderr)
        self.assertEqual(done.returncode, status, answer)
        return answer

    def heads(self):
        return self.run_tool("heads", self.broker.data).objects

    def verify(self, *arguments, status=0):
        return self.run_tool("verify", self.broker.data, "--key", self.key + ".pub", *arguments, status=status)

    def wait_heads(self, count, wait_s=30):
        """Waits until the file has `count` heads."""
        end = time.monotonic() + wait_s
        path = os.path.join(self.broker.data, "heads")
        while not os.path.exists(path) or os.path.getsize(path) < count * HEAD_SIZE:
            self.assertLess(time.monotonic(), end, f"no {count} heads; {self.broker.log_text()}")
            time.sleep(0.02)

    def test_keygen_writes_over_nothing(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.key).st_mode), 0o600)
        before = open(self.key, "rb").read(), open(self.key + ".pub", "rb").read()
        self.assertIn("exists", self.run_tool("keygen", self.key, status=1).err)
        os.rename(self.key + ".pub", self.path("public"))
        self.assertIn("exists", self.run_tool("keygen", self.key, status=1).err)
        self.assertFalse(os.path.exists(self.key + ".pub"))
        self.assertEqual(before, (open(self.key, "rb").read(), open(self.path("public"), "rb").read()))
        self.assertIn("cannot be written", self.run_tool("keygen", self.path("no/such/place"), status=1).err)

    def test_a_key_that_will_not_do_is_refused(self):
        text = open(self.key).read()
        bad = {"can be used by other users": (text, 0o640), "is not a key file": ("hello\n", 0o600), "cut or edited": (text[:-3], 0o600),
               "is a public key": (open(self.key + ".pub").read(), 0o600), "no such file": (None, 0)}
        for sentence, (content, mode) in bad.items():
            path = self.path("bad.key", content)
            if content is None:
                path = self.path("missing.key")
            else:
                os.chmod(path, mode)
            broker = self.make_broker("--sign-key", path).launch()
            self.assertEqual(broker.process.wait(30), 1)
            broker.reader.join(5)
            self.assertIn(sentence, broker.log_text().lower())
            self.assertNotIn(text.split()[-1], broker.log_text())
        config = self.path("tarry.ini", f"[tarryd]\nsign-key = {self.key}\n")
        broker = self.make_broker("--config", config, data=self.path("other")).start()
        self.assertTrue(any("event=signing" in line for line in broker.log))

    def test_everything_is_signed_and_proven(self):
        self.broker.start()
        self.wait_heads(1)  # the broker signs its first head soon after a start
        schedule_many(self.broker, 5000)
        self.wait_heads(3)  # one head at each segment's end
        self.assertEqual(self.broker.stop(), 0)
        heads = self.heads()
        segments = sorted(int(name[:16], 16) for name in os.listdir(self.broker.data + "/log") if name.endswith(".seg"))
        self.assertEqual([head["number"] for head in heads], list(range(1, len(heads) + 1)))
        for base in segments[1:]:  # each segment's end has a head
            self.assertIn(base, [head["position"] for head in heads])
        proof = self.verify().one
        self.assertEqual((proof["result"], proof["signed_to"], proof["unsigned_frames"], proof["heads"]),
                         ("fine", proof["log_end"], 0, len(heads)))
        self.assertEqual(proof["head"], heads[-1]["head"])
        last = subprocess.run([harness.find_program("tarry"), "heads", self.broker.data, "--last"], stdout=subprocess.PIPE,
                              text=True, check=True).stdout.strip()
        self.assertEqual(last, proof["head"])
        self.verify("--head", last)

        self.run_tool("keygen", self.path("other.key"))
        other = self.run_tool("verify", self.broker.data, "--key", self.path("other.key.pub"), status=1)
        self.assertIn("which no --key names", other.err)
        self.assertIn("--head needs --key", self.run_tool("verify", self.broker.data, "--head", last, status=2).err)
        self.assertIn("not a complete head", self.verify("--head", last[:-1], status=2).err)
        self.assertIn("is a secret key",
                      self.run_tool("verify", self.broker.data, "--key", self.key, status=2).err)

    def live_twice(self):
        """Runs the broker twice, with one task each. Returns the path of a copy made in between."""
        self.broker.start()
        self.broker.one("schedule", "q", "--key", "a", "--in", "1h")
        self.assertEqual(self.broker.stop(), 0)
        copy = self.path("copy")
        shutil.copytree(self.broker.data, copy)
        self.broker.start()
        self.broker.one("schedule", "q", "--key", "b", "--in", "1h")
        self.assertEqual(self.broker.stop(), 0)
        return copy

    def test_as_many_keys_as_may_be_given(self):
        """verify accepts the maximum number of keys. Only one of them has signed, so nothing is countersigned."""
        self.broker.start()
        self.assertEqual(self.broker.stop(), 0)
        others = []
        for number in range(8):
            self.run_tool("keygen", self.path(f"other-{number}"))
            others += ["--key", self.path(f"other-{number}.pub")]
        proof = self.verify(*others[:2 * 7], "--head", self.heads()[-1]["head"]).one
        self.assertEqual([signer["signed_to"] for signer in proof["signers"]], [proof["signers"][0]["signed_to"], *[0] * 7])
        self.assertGreater(proof["signers"][0]["signed_to"], 4096)
        self.assertEqual(proof["countersigned_to"], 0)
        self.assertIn("--key may be given 8 times", self.verify(*others, status=2).err)

    def test_log_and_heads_cut_together_are_found_by_a_head_kept_elsewhere(self):
        copy = self.live_twice()
        kept = self.heads()[-1]["head"]
        self.verify("--head", kept)
        shutil.rmtree(self.broker.data)
        shutil.copytree(copy, self.broker.data)
        self.verify()  # without --head, verify accepts the older directory: it is correct in itself
        answer = self.verify("--head", kept, status=1)
        self.assertIn("somebody cut it", answer.err)
        self.assertEqual(answer.one["differs_from"], answer.one["log_end"])

    def test_a_log_and_an_index_that_end_before_the_last_head_are_refused(self):  # F-9
        """An older log and an older index agree with each other. Only the heads show that the log had more frames: a signed
        frame was durable.
        """
        copy = self.live_twice()
        for part in ("log", "index"):
            shutil.rmtree(os.path.join(self.broker.data, part))
            shutil.copytree(os.path.join(copy, part), os.path.join(self.broker.data, part))
        self.broker.launch()
        self.assertEqual(self.broker.process.wait(30), 1)
        self.broker.reader.join(5)
        self.assertFalse(self.broker.ready)
        self.broker.wait_logged("event=refused")

    def test_a_broker_that_was_killed_has_signed_what_is_durable_and_signs_the_rest(self):
        self.broker.start()
        for turn in range(4):
            self.wait_heads(turn + 1)
            schedule_many(self.broker, 300, f"turn-{turn}")
            self.broker.kill()
            proof = self.verify().one
            self.assertLessEqual(proof["signed_to"], proof["log_end"])
            signed_to, end = proof["signed_to"], proof["log_end"]
            # A torn last head, as after a power cut, is overwritten.
            with open(self.broker.data + "/heads", "ab") as file:
                file.write(b"TARRYHD1 and then the lights went out"[:9 * turn])
            if turn > 0:
                self.assertIn("the last head is incomplete", self.verify(status=1).err)
            count = os.path.getsize(self.broker.data + "/heads") // HEAD_SIZE
            self.broker.start()
            self.wait_heads(count + 1)
            self.assertGreaterEqual(self.heads()[-1]["position"], end)
            self.assertGreater(end, signed_to)
        self.assertEqual(self.broker.stop(), 0)
        self.assertEqual(self.verify().one["unsigned_frames"], 0)

    def signed_elsewhere(self, key):
        """Makes another broker with this key; returns its heads."""
        broker = self.make_broker("--sign-key", key, data=self.path("elsewhere")).start()
        broker.one("schedule", "q", "--in", "1h")
        self.assertEqual(broker.stop(), 0)
        return open(broker.data + "/heads", "rb").read()

    def refused_with(self, heads, sentence):
        """Starts the broker with these bytes as its file of heads. The broker must refuse it."""
        with open(self.broker.data + "/heads", "wb") as file:
            file.write(heads)
        self.broker.launch()
        self.assertEqual(self.broker.process.wait(30), 1)
        self.broker.reader.join(5)
        self.broker.wait_logged(sentence)

    def test_heads_that_were_tampered_with_are_not_added_to(self):
        self.broker.start()
        schedule_many(self.broker, 10)
        self.assertEqual(self.broker.stop(), 0)
        heads = open(self.broker.data + "/heads", "rb").read()
        self.run_tool("keygen", self.path("other.key"))
        foreign = self.signed_elsewhere(self.path("other.key"))
        shutil.rmtree(self.path("elsewhere"))
        # The damaged head is not the last one in the file. No crash can cause that, so the broker refuses to start.
        self.refused_with(heads[:20] + bytes([heads[20] ^ 1]) + heads[21:HEAD_SIZE] + foreign[:HEAD_SIZE], "damaged at byte 0")
        self.refused_with(self.signed_elsewhere(self.key), "names this broker as its signer, but its signature is wrong")
        with open(self.broker.data + "/heads", "wb") as file:
            file.write(heads)
        self.broker.start()
        self.assertEqual(self.broker.stop(), 0)
        self.verify()

    def test_heads_that_cannot_be_written_stop_nothing(self):
        self.broker.start()
        self.wait_heads(1)
        os.rename(self.broker.data + "/heads", self.path("heads"))
        os.mkdir(self.broker.data + "/heads")
        schedule_many(self.broker, 5000)  # enough tasks to pass the end of a segment
        end = time.monotonic() + 30
        while not any("event=head_failed" in line for line in self.broker.log):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        self.broker.one("schedule", "q", "--in", "1h")
        os.rmdir(self.broker.data + "/heads")
        os.rename(self.path("heads"), self.broker.data + "/heads")
        self.assertEqual(self.broker.stop(), 0)
        self.assertEqual(self.verify().one["unsigned_frames"], 0)

    def test_retirement_is_signed_before_it_happens(self):
        self.broker.arguments += ["--retain-log-size", "1MiB"]
        self.broker.start()
        schedule_many(self.broker, 8000)
        end = time.monotonic() + 30
        while self.broker.queue_stats(None)["segments"] > 2:  # wait until segments are retired; after that the broker signs no more heads before the kill
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        self.broker.kill()
        proof = self.verify().one
        self.assertGreater(proof["log_start"], 4096)
        self.assertGreaterEqual(self.heads()[-1]["kept_from"], proof["log_start"])
        self.broker.start()
        self.assertEqual(self.broker.stop(), 0)
        self.verify()

    def segments(self, data):
        """Returns the paths of the log's segments, oldest first."""
        log = os.path.join(data, "log")
        return [os.path.join(log, name) for name in sorted(os.listdir(log)) if name.endswith(".seg")]

    def prove(self, data, status=0):
        return self.run_tool("verify", data, "--key", self.key + ".pub", status=status)

    def test_a_backup_of_a_running_broker_is_proven_and_so_is_what_is_restored_from_it(self):  # F-8
        self.broker.start()
        schedule_many(self.broker, 5000)
        copy, again = self.path("copy"), self.path("again")
        self.broker.one("backup", copy)
        self.assertGreaterEqual(len(self.segments(copy)), 3)
        self.prove(copy)
        self.broker.one("restore", copy, "--data", again)
        self.prove(again)
        other = self.make_broker(*self.broker.arguments, data=again).start()  # the restored broker has a new member id, but the same signing key
        schedule_many(other, 5000, "later")
        second = self.path("second")
        other.one("backup", second)  # makes a backup of a restored broker
        self.prove(second)
        self.assertEqual(other.stop(), 0)
        self.assertGreater(len(self.segments(again)), len(self.segments(copy)))
        proof = self.prove(again).one
        self.assertEqual((proof["signed_to"], proof["unsigned_frames"]), (proof["log_end"], 0))

    def test_a_segment_file_of_any_other_length_was_changed(self):  # F-8
        self.broker.start()
        schedule_many(self.broker, 5000)
        copy = self.path("copy")
        self.broker.one("backup", copy)
        self.assertEqual(self.broker.stop(), 0)
        for data in (self.broker.data, copy):
            first, second = self.segments(data)[:2]
            frames_end = 4096 + int(os.path.basename(second)[:16], 16) - int(os.path.basename(first)[:16], 16)
            with open(first, "rb") as file:
                content = file.read()
            for length in (frames_end - 8, frames_end + 1, frames_end + 8, 4096 + (1 << 20) + 1):
                with open(first, "wb") as file:
                    file.write(content.ljust(length, b"\0")[:length])
                self.assertIn(os.path.basename(first), self.prove(data, status=1).err, f"{data}: {length} bytes")
            with open(first, "wb") as file:
                file.write(content)
            self.prove(data)

    def compare(self, other, status=0):
        return self.run_tool("verify", self.broker.data, "--against", other, status=status).one

    def test_two_directories_are_compared(self):
        self.broker.start()
        schedule_many(self.broker, 2500)
        self.assertEqual(self.broker.stop(), 0)
        copy = self.path("copy")
        shutil.copytree(self.broker.data, copy)
        same = self.compare(copy)
        fork = same["log_end"]
        self.assertEqual((same["result"], same["common_from"], same["common_to"], same["longer"]), ("same", 4096, fork, None))
        self.broker.start()
        self.broker.one("schedule", "here", "--in", "1h")
        self.assertEqual(self.broker.stop(), 0)
        longer = self.compare(copy)
        self.assertEqual((longer["result"], longer["common_to"], longer["longer"]), ("same", fork, "directory"))
        other = self.make_broker(data=copy).start()  # from here on the two directories have different histories
        other.one("schedule", "there", "--in", "1h")
        self.assertEqual(other.stop(), 0)
        apart = self.compare(copy, status=1)
        self.assertEqual((apart["result"], apart["common_to"], apart["differs_at"], apart["difference"]),
                         ("differs", fork, fork, "the frames"))
        self.assertIn("epoch 2", apart["frame"])
        self.assertIn("epoch 2", apart["against_frame"])
        words = subprocess.run([harness.find_program("tarry"), "verify", self.broker.data, "--against", copy],
                               stdout=subprocess.PIPE, text=True, check=False).stdout
        self.assertIn(f"differs at position {fork}", words)
        self.assertIn("--against cannot be used with --key", self.verify("--against", copy, status=2).err)

    def test_a_cut_or_empty_copy_is_said_to_be_so(self):
        self.broker.start()
        schedule_many(self.broker, 2500)
        self.assertEqual(self.broker.stop(), 0)
        copy = self.path("copy")
        shutil.copytree(self.broker.data, copy)
        oldest = sorted(name for name in os.listdir(copy + "/log") if name.endswith(".seg"))[0]
        os.unlink(f"{copy}/log/{oldest}")
        later = self.compare(copy)
        self.assertEqual(later["result"], "same")
        self.assertGreater(later["common_from"], 4096)
        middle = f"{copy}/log/" + sorted(name for name in os.listdir(copy + "/log") if name.endswith(".seg"))[0]
        with open(middle, "r+b") as file:
            file.seek(50_000)
            file.write(b"!!!!!!!!")
        answer = self.run_tool("verify", self.broker.data, "--against", copy, status=1)
        self.assertIn(middle, answer.err)
        self.assertIn("not a data directory", self.run_tool("verify", self.broker.data, "--against", self.directory, status=1).err)

    def test_another_implementation_agrees(self):
        """Checks the signature of each head with openssl. The test knows only FORMAT.md."""
        if shutil.which("openssl") is None:
            self.skipTest("no openssl here")
        self.broker.start()
        schedule_many(self.broker, 10)
        self.assertEqual(self.broker.stop(), 0)
        public = bytes.fromhex(open(self.key + ".pub").read().split()[-1])
        key = self.path("key.der", DER_PREFIX + public)
        data = open(self.broker.data + "/heads", "rb").read()
        self.assertEqual(len(data) % HEAD_SIZE, 0)
        listed = self.heads()
        for i, head in enumerate(listed):
            entry = data[i * HEAD_SIZE:(i + 1) * HEAD_SIZE]
            magic, number, _, position, segment, kept_from, _, wall_ns, epoch, zero = struct.unpack("<8sQ16sQQQQQII", entry[:80])
            self.assertEqual((magic, number, position, segment, kept_from, wall_ns // 1000000, epoch, zero),
                             (b"TARRYHD1", head["number"], head["position"], head["segment"], head["kept_from"],
                              head["wall_ms"], head["epoch"], 0))
            for message, good in ((entry[:120], True), (entry[:119] + bytes([entry[119] ^ 1]), False)):
                done = subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", key, "-rawin",
                                       "-in", self.path("message", CONTEXT + message),
                                       "-sigfile", self.path("signature", entry[120:184])],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                self.assertEqual(done.returncode == 0, good, done.stdout)


if __name__ == "__main__":
    harness.main(watches_locks=True)
