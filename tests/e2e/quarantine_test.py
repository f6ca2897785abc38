"""quarantine_test.py: a tail that was cut off a log (R8, F-25) is listed by all commands and can be read. The directory
without the tail is valid, and its log is the beginning of the former log.
"""
import os
import shutil
import subprocess

import harness

WHY = "the leader of epoch 7 never had it"


class CutOff(harness.Case):
    def setUp(self):
        super().setUp()
        self.broker.one("schedule", "orders", "--key", "kept", "--in", "1h")
        self.assertEqual(self.broker.stop(), 0)
        self.position = self.verify()["log_end"]
        index, older = os.path.join(self.broker.data, "index"), self.path("older")
        shutil.copytree(index, older)
        self.broker.start()
        for i in range(20):
            self.broker.one("schedule", "orders", "--key", f"cut-{i}", "--in", "1h", "--body", f"body {i}")
        self.broker.kill()
        # Put back an older index. The log is cut after the older index's position, because frames that the index has
        # absorbed are never cut off.
        shutil.rmtree(index)
        shutil.move(older, index)
        whole = self.verify()
        self.assertEqual(whole["index_position"], self.position)
        self.assertGreater(whole["log_end"], self.position)
        self.end = whole["log_end"]
        self.whole = self.path("whole")
        shutil.copytree(self.broker.data, self.whole)
        self.records = self.count(self.broker.data, self.position)

    def verify(self, *arguments, status=0):
        command = [harness.find_program("tarry"), "verify", self.broker.data, *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        answer = harness.Answer(done.returncode, done.stdout.decode(), done.stderr.decode())
        self.assertEqual(answer.status, status, answer)
        return answer.one

    def count(self, directory, position):
        """Returns the records from this position on."""
        return [record for record in self.broker.ok("audit", "--data", directory) if int(record["position"]) >= position]

    def cut(self):
        command = [harness.find_program("cut_tail"), self.broker.data, str(self.position), WHY]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode().strip()

    def test_a_tail_is_listed_and_read(self):
        self.assertEqual(self.verify()["quarantined"], [])
        name = self.cut()
        seen = self.verify()
        self.assertEqual((seen["result"], seen["log_end"]), ("fine", self.position))
        [tail] = seen["quarantined"]
        self.assertEqual((tail["from"], tail["to"], tail["why"]), (self.position, self.end, WHY))
        self.assertEqual(tail["name"] + ".seg", name)
        self.assertGreater(tail["frames"], 0)
        words = subprocess.run([harness.find_program("tarry"), "verify", self.broker.data], capture_output=True, timeout=60,
                               check=True).stdout.decode()
        self.assertIn(f"tarry audit --data {self.broker.data} --quarantined {tail['name']}", words)
        self.assertIn(WHY, words)
        # The quarantined tail has the records that were cut off the log. The command accepts both forms of its name.
        for asked in (tail["name"], name):
            told = self.broker.ok("audit", "--data", self.broker.data, "--quarantined", asked)
            self.assertEqual(told, self.records)
        [told] = self.broker.ok("audit", "--data", self.broker.data, "--quarantined", name, "--queue", "orders", "--key", "cut-7")
        self.assertEqual((told["kind"], told["key"]), ("scheduled", "cut-7"))
        self.assertEqual(self.count(self.broker.data, self.position), [])
        # The remaining log is the beginning of the log before the cut.
        self.assertEqual(self.verify("--against", self.whole)["longer"], "against")
        # A broker starts on the remaining log, and continues it.
        self.broker.start()
        self.broker.one("schedule", "orders", "--key", "cut-19", "--in", "1h")
        self.assertEqual(self.broker.stop(), 0)
        self.assertEqual(len(self.verify()["quarantined"]), 1)
        self.assertEqual(self.verify("--against", self.whole, status=1)["differs_at"], self.position)

    def test_a_damaged_tail_is_told(self):
        path = os.path.join(self.broker.data, "quarantine", self.cut())
        with open(path, "r+b") as file:
            file.seek(4096 + 120)
            byte = file.read(1)
            file.seek(4096 + 120)
            file.write(bytes([byte[0] ^ 1]))
        seen = self.verify(status=1)
        self.assertEqual(seen["result"], "damaged")
        self.assertIn(path, seen["message"])

    def test_what_is_not_there_or_makes_no_sense_is_refused(self):
        answer = self.broker.refused("audit", "--data", self.broker.data, "--quarantined", "0000000000001000-0011223344556677")
        self.assertIn("'tarry verify' lists", answer.err)
        for arguments, words in ((("--quarantined", "x"), "needs --data DIR"),
                                 (("--data", self.broker.data, "--quarantined", "x", "--as-of", "now"), "omit --as-of"),
                                 (("--data", self.broker.data, "--quarantined", "x", "--archive", "/tmp"), "needs --data DIR")):
            self.assertIn(words, self.broker.refused("audit", *arguments, status=2).err)

    def test_a_damaged_note_of_a_pair_is_told(self):
        with open(os.path.join(self.broker.data, "pair"), "wb") as file:
            file.write(b"x" * 64)
        seen = self.verify(status=1)
        self.assertIn("/pair is damaged", seen["message"])


if __name__ == "__main__":
    harness.main()
