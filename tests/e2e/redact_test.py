"""redact_test.py: redacted contents are erased: the test searches every file for them. The record of the redaction and the
proof of the log remain.
"""
import os
import random
import shutil
import subprocess
import time

import harness
import wire
from tokens import ADMIN

# Settings of a log that retires its segments at once, so that only the index has the live tasks.
SMALL = ("--segment-size", "1MiB", "--retain-log-size", "2MiB")
REASON = "erasure request 4711"


def unpacked(directory):
    """Returns (name, uncompressed bytes) of each file below `directory`."""
    for parent, _, names in os.walk(directory):
        for name in names:
            try:
                with open(os.path.join(parent, name), "rb") as file:
                    data = file.read()
            except FileNotFoundError:  # the file was temporary, and has been renamed or deleted
                continue
            if name.endswith(".zst"):
                data += subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout
            yield name, data


def files_with(directory, token):
    """Returns the files below `directory` whose uncompressed bytes contain `token`."""
    return [name for name, data in unpacked(directory) if token.encode() in data]


class Redact(harness.Case):
    def setUp(self):
        super().setUp()
        self.random = random.Random(os.environ.get("TARRY_SEED", "4711"))

    def token(self):
        return "secret-" + self.random.randbytes(16).hex()

    def schedule(self, broker, key, queue="orders", delay="1h", size=0):
        """Schedules a task with a unique payload and attribute; returns (id, its tokens)."""
        payload, attribute = self.token(), self.token()
        body = payload + self.random.randbytes(size // 2).hex()
        task = broker.one("schedule", queue, "--key", key, "--in", delay, "--body", body, "--attr", f"card={attribute}")
        return task["id"], (payload, attribute)

    def assert_there(self, broker, tokens):
        for token in tokens:
            self.assertTrue(files_with(broker.data, token), token)

    def assert_gone(self, broker, tokens):
        for name, data in unpacked(broker.data):  # reads each file once for all tokens
            self.assertEqual([token for token in tokens if token.encode() in data], [], name)

    def fill(self, broker, mebibytes, queue="filler"):
        """Schedules tasks until the log has grown by `mebibytes`."""
        lines = "".join(f'{{"queue":"{queue}","delay_ms":3600000,"body":"{self.random.randbytes(32768).hex()}"}}\n'
                        for _ in range(mebibytes * 16))
        answers = broker.ok("schedule", "--from", "-", stdin=lines)
        return [answer["id"] for answer in answers]

    def wait_retired(self, broker, position):
        end = time.monotonic() + 30
        while (start := broker.queue_stats(None)["log_start"]) <= position:
            self.assertLess(time.monotonic(), end, f"log_start {start} does not pass {position}")
            time.sleep(0.05)

    def archived(self):
        """Makes a broker whose archive has the content of task order-1. Returns the broker and the contents."""
        broker = self.make_broker(*SMALL, data=self.path("small")).start()
        _, tokens = self.schedule(broker, "order-1", size=3000)
        broker.one("cancel", "orders", "order-1")
        position = broker.queue_stats(None)["appended"]
        self.fill(broker, 4)
        self.wait_retired(broker, position)
        return broker, tokens

    def verify(self, broker):
        return broker.one("verify", broker.data)

    # ---- tests, one after the other

    def test_nothing_of_it_is_left_in_any_file(self):
        broker = self.broker
        first, tokens = self.schedule(broker, "order-1")
        _, others = self.schedule(broker, "order-2")
        _, living = self.schedule(broker, "order-3", size=5000)
        for key in ("order-1", "order-2"):
            broker.one("cancel", "orders", key)
        self.assert_there(broker, tokens)
        answer = broker.one("redact", "orders", "order-1", "--reason", REASON)
        self.assertEqual((answer["result"], answer["count"], answer["erased"]), ("redacted", 1, True))
        self.assert_gone(broker, tokens)
        self.assert_there(broker, (*others, *living))
        self.assertEqual(broker.one("get", "orders", "order-3")["body"][:len(living[0])], living[0])
        again = broker.one("redact", "orders", "order-1", "--reason", REASON)
        self.assertEqual((again["count"], again["erased"]), (0, True))
        self.assertEqual(broker.stop(), 0)
        told = broker.ok("history", "--data", broker.data, "--id", first)
        self.assertEqual([fact["kind"] for fact in told], ["scheduled", "cancelled", "redacted"])
        self.assertEqual((told[-1]["reason"], told[-1]["key"], told[-1]["queue"]), (REASON, "order-1", "orders"))
        self.assertIn("tarry", told[-1]["client"])
        self.assertEqual(broker.ok("history", "--data", broker.data, "orders", "order-1"), told)
        verified = self.verify(broker)
        self.assertEqual((verified["result"], verified["contents"], verified["erased"]), ("fine", 3, 1))
        broker.start()  # recovery reads the erased frames of the last segment
        self.assert_gone(broker, tokens)
        self.assertEqual(broker.one("get", "orders", "order-3")["body"][:len(living[0])], living[0])

    def test_get_says_so(self):
        broker = self.broker
        for key in ("order-1", "order-2"):
            self.schedule(broker, key)
            broker.one("cancel", "orders", key)
        self.assertNotIn("redacted", broker.one("get", "orders", "order-1"))
        broker.one("redact", "orders", "order-1", "--reason", REASON)
        for life in ("the core heard it", "the index kept it", "the log has it"):
            self.assertIs(broker.one("get", "orders", "order-1").get("redacted"), True, life)
            self.assertNotIn("redacted", broker.one("get", "orders", "order-2"), life)
            self.assertIn("redacted: permanently erased", broker.words("get", "orders", "order-1"))
            if life == "the core heard it":
                self.assertEqual(broker.stop(), 0)
            else:
                broker.kill()
            broker.start()

    def test_what_moved_into_the_index(self):
        broker = self.make_broker(*SMALL, data=self.path("small")).start()
        kept = {}
        for size in (0, 3000, 20000):  # sizes at which a content shares an LMDB page, has a page of its own, or needs several
            task, tokens = self.schedule(broker, f"order-{size}", size=size)
            kept[task] = tokens
        witness, witnessed = self.schedule(broker, "witness", size=3000)
        position = broker.queue_stats(None)["appended"]
        filler = self.fill(broker, 4)
        self.wait_retired(broker, position)
        self.assertEqual(broker.one("get", "--id", witness)["body"][:len(witnessed[0])], witnessed[0])
        for task, tokens in kept.items():
            self.assertEqual(broker.one("get", "--id", task)["body"][:len(tokens[0])], tokens[0])
            broker.one("cancel", "--id", task)
            for token in tokens:  # only the archive has readable contents, because the index stores encrypted ones
                self.assertEqual([name[-8:] for name in files_with(broker.data, token)], [".seg.zst"])
        for number in filler[:40]:
            broker.one("cancel", "--id", number)
        keyring = os.path.join(broker.data, "index", "keyring")
        before = os.path.getsize(keyring)
        for task in kept:
            self.assertEqual(broker.one("redact", "--id", task, "--reason", REASON)["erased"], True)
            self.assert_gone(broker, kept[task])
        self.assert_there(broker, witnessed)
        self.assertGreater(os.path.getsize(keyring), before)  # the keyring grows: for each erased key it stores the keys from which all other keys derive (keyring.h)
        self.assertEqual(sorted(os.listdir(os.path.dirname(keyring))), ["data.mdb", "keyring", "lock.mdb"])
        self.assertEqual(broker.one("get", "--id", witness)["body"][:len(witnessed[0])], witnessed[0])
        broker.restart()
        self.assertEqual(broker.one("get", "--id", witness)["body"][:len(witnessed[0])], witnessed[0])
        self.assertEqual(broker.stop(), 0)
        verified = self.verify(broker)
        self.assertEqual((verified["result"], verified["erased"]), ("fine", 3))

    def test_every_task_that_had_the_key(self):
        broker = self.broker
        gone = []
        for _ in range(3):
            gone.extend(self.schedule(broker, "order-1")[1])
            broker.one("cancel", "orders", "order-1")
        _, other_queue = self.schedule(broker, "order-1", queue="others")
        broker.one("cancel", "others", "order-1")
        self.assertEqual(broker.one("redact", "orders", "order-1", "--reason", REASON)["count"], 3)
        self.assert_gone(broker, gone)
        self.assert_there(broker, other_queue)

    def test_a_range_of_time(self):
        broker = self.broker
        before = [self.schedule(broker, f"early-{i}") for i in range(3)]
        from_ms = broker.queue_stats(None)["now_ms"] + 1
        time.sleep(0.01)
        inside = [self.schedule(broker, f"inside-{i}") for i in range(5)]
        time.sleep(0.01)
        to_ms = broker.queue_stats(None)["now_ms"]
        time.sleep(0.01)
        after = [self.schedule(broker, f"late-{i}") for i in range(3)]
        for task, _ in before + inside[:-1] + after:
            broker.one("cancel", "--id", task)
        answer = broker.refused("redact", "--queue", "orders", "--from", from_ms, "--to", to_ms, "--reason", REASON)
        self.assertEqual((answer.one["count"], answer.one["left"]), (4, 1))  # `left` is the number of live tasks, which are not redacted
        self.assertIn("1 live task was skipped", answer.err)
        for _, tokens in inside[:-1]:
            self.assert_gone(broker, tokens)
        for _, tokens in before + after + inside[-1:]:
            self.assert_there(broker, tokens)
        again = broker.refused("redact", "--queue", "orders", "--from", from_ms, "--to", to_ms, "--reason", REASON)
        self.assertEqual((again.one["count"], again.one["left"]), (0, 1))

    def test_more_than_one_operation_redacts(self):
        broker = self.broker
        lines = "".join(f'{{"queue":"many","key":"k{i}","delay_ms":3600000,"body":"body-{i}-{self.token()}"}}\n'
                        for i in range(2500))
        bodies = [line.split('"')[-2] for line in lines.splitlines()]
        broker.ok("schedule", "--from", "-", stdin=lines)
        broker.ok("cancel", "--from", "-", stdin="".join(f'{{"queue":"many","key":"k{i}"}}\n' for i in range(2500)))
        self.assert_there(broker, bodies[:3])
        answer = broker.one("redact", "--queue", "many", "--from", "1", "--reason", REASON)
        self.assertEqual((answer["count"], answer["erased"]), (2500, True))
        with open(os.path.join(broker.data, "log", os.listdir(os.path.join(broker.data, "log"))[0]), "rb") as file:
            self.assertNotIn(b"secret-", file.read())
        self.assertEqual(broker.stop(), 0)
        self.assertEqual(self.verify(broker)["erased"], 2500)

    def test_who_lives_is_left_alone(self):
        broker = self.broker
        pending, tokens = self.schedule(broker, "pending")
        self.assertIn("cancel it first", broker.refused("redact", "orders", "pending", "--reason", REASON).err)
        self.assertIn("cancel it first", broker.refused("redact", "--id", pending, "--reason", REASON).err)
        self.schedule(broker, "held", queue="held", delay="0s")
        consumer = broker.consume("held", "--count", "1", "--ack", "none")
        consumer.next()
        self.assertIn("withdraw it first", broker.refused("redact", "held", "held", "--reason", REASON).err)
        self.schedule(broker, "dead", queue="dead", delay="0s")
        held = broker.one("consume", "dead", "--count", "1", "--ack", "none")
        broker.one("nack", held["id"], held["token"], "--dead", "no such address")
        self.assertIn("drop it first", broker.refused("redact", "dead", "dead", "--reason", REASON).err)
        broker.one("dead", "drop", "dead", "dead")
        self.assertEqual(broker.one("redact", "dead", "dead", "--reason", REASON)["count"], 1)
        self.assert_there(broker, tokens)

    def test_nonsense_is_refused(self):
        broker = self.broker
        self.schedule(broker, "order-1")
        broker.one("cancel", "orders", "order-1")
        for arguments in (["orders", "order-1"], ["orders", "--reason", "x"], ["--reason", "x"],
                          ["--queue", "orders", "--reason", "x"], ["--from", "1", "--reason", "x"],
                          ["orders", "order-1", "--queue", "orders", "--reason", "x"],
                          ["--queue", "orders", "--from", "2", "--to", "2", "--reason", "x"],
                          ["--id", "0", "--reason", "x"], ["orders", "order-1", "--reason", ""]):
            self.assertEqual(broker.tarry("redact", *arguments).status, 2, arguments)
        self.assertIn("no task with this queue and key", broker.refused("redact", "orders", "order-2", "--reason", "x").err)
        self.assertIn("no task with this queue and key", broker.refused("redact", "--id", "999", "--reason", "x").err)
        self.assertIn("the queue does not exist", broker.refused("redact", "--queue", "nobody", "--from", "1", "--reason", "x").err)
        self.assertIn("longer than 255", broker.refused("redact", "orders", "order-1", "--reason", "x" * 256).err)

    def test_a_commit_that_is_repeated_redacts_once(self):
        broker = self.broker
        task, _ = self.schedule(broker, "order-1")
        broker.one("cancel", "orders", "order-1")
        with wire.Rpc(broker.port, ADMIN) as rpc:
            producer = rpc.hello()
            redact = [(12, [(1, [(2, "orders"), (3, "order-1")]), (2, REASON)])]
            first = rpc.ask(wire.COMMIT, wire.commit(producer, 1, [redact]))
            self.assertEqual(first[0], wire.OK)
            result = wire.results(first[1])[0]
            self.assertEqual((wire.number(result, 2), wire.number(result, 14)), (21, 1))
            self.assertEqual(rpc.ask(wire.COMMIT, wire.commit(producer, 1, [redact])), first)
            many = rpc.ask(wire.COMMIT, wire.commit(producer, 2, [redact] * 65))
            self.assertEqual(many[0], wire.TOO_LARGE)
        broker.kill()
        broker.start()
        with wire.Rpc(broker.port, ADMIN) as rpc:
            self.assertEqual(rpc.ask(wire.COMMIT, wire.commit(producer, 1, [redact])), first)
        self.assertEqual(broker.stop(), 0)
        kinds = [fact["kind"] for fact in broker.ok("history", "--data", broker.data, "--id", task)]
        self.assertEqual(kinds, ["scheduled", "cancelled", "redacted"])

    def test_an_edit_is_no_redaction(self):
        """tarry verify finds two kinds of edits: content that was overwritten and flagged without a redaction record, and
        redacted content that was put back.
        """
        broker = self.broker
        _, tokens = self.schedule(broker, "order-1")
        _, others = self.schedule(broker, "order-2")
        for key in ("order-1", "order-2"):
            broker.one("cancel", "orders", key)
        segment = os.path.join(broker.data, "log", "0000000000001000.seg")
        with open(segment, "rb") as file:
            original = file.read()
        broker.one("redact", "orders", "order-1", "--reason", REASON)
        self.assertEqual(broker.stop(), 0)
        self.assertEqual(self.verify(broker)["result"], "fine")
        with open(segment, "rb") as file:
            redacted = file.read()
        # Puts back the bytes from before the redaction.
        at = original.index(tokens[0].encode())
        self.write(segment, redacted[:at] + original[at:at + 10] + redacted[at + 10:])
        self.assertIn("not erased", broker.refused("verify", broker.data).err)
        # Forges an erasure: sets another frame's flag, and overwrites its content with zeros.
        at = original.index(others[0].encode())
        header = original.rindex(b"TRY1", 0, at)
        blob_size = int.from_bytes(original[header + 16:header + 20], "little")
        edited = bytearray(redacted)
        edited[header + 6] |= 1
        edited[header + 112:header + 112 + blob_size] = bytes(blob_size)
        self.write(segment, bytes(edited))
        self.assertIn("is erased without a redaction in the log", broker.refused("verify", broker.data).err)

    def test_what_came_back_into_the_archive_is_found(self):
        broker, tokens = self.archived()
        archived = os.path.join(broker.data, "archive", "0000000000001000.seg.zst")
        with open(archived, "rb") as file:
            original = file.read()
        self.assertTrue(files_with(broker.data, tokens[0]))
        broker.one("redact", "orders", "order-1", "--reason", REASON)
        self.assertEqual(broker.stop(), 0)
        self.assert_gone(broker, tokens)
        self.assertEqual(self.verify(broker)["result"], "fine")
        with open(archived, "wb") as file:  # restores the former segment file with the content, whose checksums are correct
            file.write(original)
        self.assertIn("not erased from the archive", broker.refused("verify", broker.data).err)

    def test_what_was_in_the_way_is_looked_for_again_though_nothing_else_happens(self):
        broker = self.broker
        _, tokens = self.schedule(broker, "order-1")
        broker.one("cancel", "orders", "order-1")
        in_the_way = os.path.join(broker.data, "quarantine")
        self.write(in_the_way, b"no directory", "xb")
        self.assertFalse(broker.one("redact", "orders", "order-1", "--reason", REASON, "--no-wait")["erased"])
        broker.wait_logged("event=quarantine_unerased", wait_s=harness.ANSWER_WAIT_S)
        os.unlink(in_the_way)
        broker.wait_logged("event=erased", wait_s=harness.ANSWER_WAIT_S)
        self.assertEqual(broker.stop(), 0)
        self.assert_gone(broker, tokens)

    def test_an_archive_whose_disk_is_not_mounted_is_waited_for(self):
        broker, tokens = self.archived()
        in_the_way, archive = os.path.join(broker.data, "quarantine"), os.path.join(broker.data, "archive")
        self.write(in_the_way, b"no directory", "xb")  # the redaction is recorded, but cannot be executed yet
        broker.one("redact", "orders", "order-1", "--reason", REASON, "--no-wait")
        self.assertEqual(broker.stop(), 0)
        os.unlink(in_the_way)
        os.rename(archive, self.path("unmounted"))
        os.mkdir(archive)
        broker.start()
        broker.wait_logged("event=archive_unerased", wait_s=harness.ANSWER_WAIT_S)
        broker.wait_logged("mount its disk")
        self.assertNotIn("event=erased", broker.log_text())
        os.rename(self.path("unmounted"), archive)
        broker.wait_logged("event=erased", wait_s=harness.ANSWER_WAIT_S)
        self.assertEqual(broker.stop(), 0)
        self.assert_gone(broker, tokens)

    def test_an_archive_that_was_deleted_is_not_waited_for(self):
        broker, _ = self.archived()
        self.assertEqual(broker.stop(), 0)
        shutil.rmtree(os.path.join(broker.data, "archive"))
        broker.start()
        _, tokens = self.schedule(broker, "order-2")
        broker.one("cancel", "orders", "order-2")
        self.assertTrue(broker.one("redact", "orders", "order-2", "--reason", REASON)["erased"])
        self.assertEqual(broker.stop(), 0)
        self.assert_gone(broker, tokens)

    def test_a_restored_directory_erases_in_the_archive_that_came_along(self):
        broker, tokens = self.archived()
        self.assertEqual(broker.stop(), 0)
        self.broker.one("restore", broker.data, "--data", self.path("restored"))
        restored = self.make_broker(*SMALL, data=self.path("restored")).start()
        self.assertTrue(files_with(restored.data, tokens[0]))
        self.assertTrue(restored.one("redact", "orders", "order-1", "--reason", REASON)["erased"])
        self.assertEqual(restored.stop(), 0)
        self.assert_gone(restored, tokens)
        self.assertTrue(files_with(broker.data, tokens[0]))  # the broker from which the copy was made still has the content

    def write(self, path, data, mode="r+b"):
        with open(path, mode) as file:
            file.write(data)

    # ---- kill -9

    def test_killed_in_the_middle_it_is_done_in_the_end(self):
        broker = self.make_broker(*SMALL, data=self.path("small")).start()
        tokens = []
        for number in range(3):
            tokens.extend(self.schedule(broker, f"kept-{number}", size=3000)[1])
        position = broker.queue_stats(None)["appended"]
        self.fill(broker, 4)
        self.wait_retired(broker, position)
        for number in range(300):
            tokens.append(self.token())
        lines = "".join(f'{{"queue":"orders","key":"order-{i}","delay_ms":3600000,"body":"{token}"}}\n'
                        for i, token in enumerate(tokens[6:]))
        broker.ok("schedule", "--from", "-", stdin=lines)
        keys = [f"kept-{i}" for i in range(3)] + [f"order-{i}" for i in range(300)]
        broker.ok("cancel", "--from", "-", stdin="".join(f'{{"queue":"orders","key":"{key}"}}\n' for key in keys))
        for round_number in range(8):
            command = broker.command("redact", "--queue", "orders", "--from", "1", "--reason", REASON, "--timeout", "1s")
            tool = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(self.random.random() * 0.12)
            broker.kill()
            broker.start()
            tool.terminate()
            tool.wait()
        for key in keys:  # a restarted broker executes the redactions that it had recorded; request all others again
            if key.startswith("kept"):
                broker.one("redact", "orders", key, "--reason", REASON)
        answer = broker.one("redact", "--queue", "orders", "--from", "1", "--reason", REASON)
        self.assertEqual(answer["erased"], True)
        self.assert_gone(broker, tokens)
        self.assertEqual(broker.stop(), 0)
        verified = self.verify(broker)
        self.assertEqual((verified["result"], verified["erasures_under_way"]), ("fine", 0))

    def test_what_is_recorded_is_done_by_the_next_start(self):
        broker = self.broker
        for _ in range(5):
            _, tokens = self.schedule(broker, "order-1")
            broker.one("cancel", "orders", "order-1")
            answer = broker.one("redact", "orders", "order-1", "--reason", REASON, "--no-wait")
            broker.kill()  # the kill usually comes before the redaction is in the index
            self.assertEqual(answer["count"], 1)
            broker.start()
            end = time.monotonic() + 20
            while any(files_with(broker.data, token) for token in tokens):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)


if __name__ == "__main__":
    harness.main(watches_locks=True)
