"""evidence_test.py: archive, signed heads and backup together: archived frames are still proven, a copy proves what its original
proves, and a restored broker shows the history from the copied archive."""
import ctypes
import json
import os
import random
import shutil
import subprocess
import time

import harness

SUMMARY_PAGE = 4096
LIVES = 8
FAT_SIZE = 200_000
WAIT_S = 120


class Evidence(harness.Case):
    autostart = False

    def setUp(self):
        super().setUp()
        self.key = self.path("sign.key")
        subprocess.run([harness.find_program("tarry"), "keygen", self.key], stdout=subprocess.DEVNULL, check=True)
        self.broker.arguments += ["--sign-key", self.key, "--segment-size", "1MiB", "--retain-log-size", "0", "--memory", "64MiB"]
        self.keys = []

    def archived(self, data=None):
        try:
            names = os.listdir(os.path.join(data or self.broker.data, "archive"))
        except FileNotFoundError:
            return []
        return sorted(name for name in names if name.endswith(".seg.zst"))

    def fill_until(self, count):
        """Schedules tasks that end at once until `count` segments are archived and removed from the log."""
        log = os.path.join(self.broker.data, "log")
        end = time.monotonic() + WAIT_S
        while len(self.archived()) < count or sum(name.endswith(".seg") for name in os.listdir(log)) > 1:
            self.assertLess(time.monotonic(), end, self.broker.log_text())
            if len(self.archived()) >= count:
                time.sleep(0.02)
                continue
            keys = [f"order-{len(self.keys) + i}" for i in range(LIVES)]
            self.keys += keys
            self.broker.ok("schedule", "--from", "-", stdin="".join(
                json.dumps({"queue": "q", "key": key, "delay_ms": 3_600_000, "body": random.randbytes(FAT_SIZE // 2).hex()}) + "\n"
                for key in keys))
            for key in keys:
                self.broker.one("cancel", "q", key)

    def verify(self, data, *arguments, status=0):
        answer = self.broker.tarry("verify", data, "--key", self.key + ".pub", *arguments)
        self.assertEqual(answer.status, status, answer)
        return answer

    def archived_with(self, position):
        """Returns the archive file that contains this position."""
        return max(name for name in self.archived() if int(name.split(".")[0], 16) <= position)

    def assert_tells(self, *arguments):
        """Checks that the archived first task is in the output, and returns the records about it."""
        told = self.broker.ok("history", *arguments, "q", self.keys[0])
        self.assertEqual([fact["kind"] for fact in told], ["scheduled", "cancelled"])
        return told

    def test_what_was_archived_is_proven(self):
        self.broker.start()
        self.fill_until(3)
        self.assertEqual(self.broker.stop(), 0)
        proof = self.verify(self.broker.data).one
        self.assertEqual((proof["result"], proof["signed_to"], proof["archived_segments"]),
                         ("fine", proof["log_end"], len(self.archived())))
        self.assertGreater(proof["frames"], 2 * len(self.keys), "the archive's frames were not read")
        archive = os.path.join(self.broker.data, "archive")
        first, second, third = (os.path.join(archive, name) for name in self.archived()[:3])
        for victim, other in ((second, None), (second, third)):  # first a file is missing, then it is replaced by another one
            shutil.move(victim, self.path("kept"))
            if other:
                shutil.copy(other, victim)
            self.assertIn(os.path.basename(victim)[:16] if other else "the archive and the log do not have the positions", self.verify(self.broker.data, status=1).err)
            shutil.move(self.path("kept"), victim)
        os.rename(first, self.path("kept"))  # the beginning of the archive may be pruned; the proof then names the position from which it holds
        self.assertGreater(self.verify(self.broker.data).one["signed_from"], proof["signed_from"])
        os.rename(self.path("kept"), first)
        self.verify(self.broker.data)

    def bases(self, *endings):
        """Returns the bases of segments that have a file with such an ending, in the log or in the archive."""
        names = [name for folder in ("log", "archive") for name in os.listdir(os.path.join(self.broker.data, folder))]
        return {name.split(".")[0] for name in names if name.endswith(endings)}

    def test_a_summary_that_lies_is_found(self):
        """Makes a false summary with correct checksums that names no task, so readers skip the segment's records."""
        self.broker.start()
        self.fill_until(2)
        self.assertEqual(self.broker.stop(), 0)
        first = self.assert_tells("--data", self.broker.data)[0]
        proof = self.verify(self.broker.data).one
        segments, summaries = self.bases(".seg", ".seg.zst"), self.bases(".sum")
        self.assertEqual((proof["summaries"], proof["summaries_unused"]), (len(summaries), len(segments - summaries)))
        xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
        xxh3.restype, xxh3.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t)
        path = os.path.join(self.broker.data, "archive", self.archived_with(int(first["position"])).replace(".seg.zst", ".sum"))
        with open(path, "rb") as file:
            data = bytearray(file.read())
        for at in range(SUMMARY_PAGE, len(data), SUMMARY_PAGE):
            page = bytes(SUMMARY_PAGE - 64) + data[at + SUMMARY_PAGE - 64:at + SUMMARY_PAGE - 8]
            data[at:at + SUMMARY_PAGE] = page + xxh3(page, len(page)).to_bytes(8, "little")
        with open(path, "wb") as file:
            file.write(data)
        # Readers skip the segment because of the false summary.
        told = self.broker.tarry("history", "--data", self.broker.data, "q", self.keys[0]).objects
        self.assertNotIn("scheduled", [fact["kind"] for fact in told])
        self.assertIn(os.path.basename(path) + " does not match its segment", self.verify(self.broker.data, status=1).err)
        os.unlink(path)
        self.assertEqual(self.verify(self.broker.data).one["summaries_unused"], proof["summaries_unused"] + 1)
        self.assert_tells("--data", self.broker.data)

    def test_a_backup_proves_what_its_original_does(self):
        self.broker.start()
        self.fill_until(2)
        copy, again = self.path("copy"), self.path("again")
        self.broker.one("backup", copy, "--with-archive")
        self.fill_until(4)  # the original broker continues after the backup
        self.assertEqual(self.broker.stop(), 0)
        self.assertGreaterEqual(len(self.archived(copy)), 2)
        proof = self.verify(copy).one
        self.assertEqual((proof["result"], proof["archived_segments"]), ("fine", len(self.archived(copy))))
        self.assertEqual(self.broker.one("verify", copy, "--against", self.broker.data)["result"], "same")
        self.assert_tells("--data", copy)

        self.broker.one("restore", copy, "--data", again)
        self.assertEqual(self.archived(again), self.archived(copy))
        self.verify(again)
        self.assert_tells("--data", again)
        other = self.make_broker(*self.broker.arguments, data=again).start()  # this broker is another member with the same signing key
        told = other.ok("history", "q", self.keys[0])
        self.assertEqual([fact["kind"] for fact in told], ["scheduled", "cancelled"])
        other.one("schedule", "q", "--key", "later", "--in", "1h")
        self.assertEqual(other.stop(), 0)
        proof = self.verify(again).one
        self.assertEqual((proof["result"], proof["signed_to"]), ("fine", proof["log_end"]))

    def test_a_backup_without_the_archive_proves_what_it_has(self):
        self.broker.start()
        self.fill_until(2)
        copy = self.path("copy")
        self.broker.one("backup", copy)
        self.assertEqual(self.archived(copy), [])
        proof = self.verify(copy).one  # frames before the copy's log are missing, so the proof names the position from which it holds
        self.assertEqual((proof["result"], proof["signed_from"] >= proof["log_start"]), ("fine", True))
        proof = self.verify(copy, "--archive", os.path.join(self.broker.data, "archive")).one
        self.assertEqual((proof["result"], proof["archived_segments"]), ("fine", len(self.archived())))


if __name__ == "__main__":
    harness.main()
