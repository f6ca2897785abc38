"""backup_test.py: a copy of a running broker is complete as of one log position; an incomplete copy is never accepted; and a
restored copy is a new member (LOG-1, LOG-3, FENCE-1, F-4, F-8).
"""
import json
import os
import random
import subprocess
import time
import unittest

import harness
import tokens
import wire
from harness import Case, Stream

BACKUP = 21
STATUS, BEGIN, LIST, READ, END = range(5)
NOT_DONE = 6
TURNS = 40 if os.environ.get("TARRY_SLOW") else 4  # number of kills of each kind of process
SMALL_LOG = ("--segment-size", "1MiB", "--retain-log-size", "2MiB", "--retain-log-age", "1s")


def lines(queue, prefix, count, delay_ms=3_600_000, body=""):
    return "\n".join(json.dumps({"queue": queue, "key": f"{prefix}-{i}", "delay_ms": delay_ms, "body": body})
                     for i in range(count))


class BackupCase(Case):
    arguments = SMALL_LOG

    def backup(self, name, *arguments, **options):
        return self.broker.one("backup", self.path(name), *arguments, **options)

    def offline(self, *arguments):
        return self.broker.tarry(*arguments)

    def restore(self, name, target):
        return self.broker.one("restore", self.path(name), "--data", self.path(target))

    def assert_refused_by_all(self, name, word):
        """Checks that tarryd, verify and restore all refuse the directory, with `word` in their messages."""
        path = self.path(name)
        broker = self.make_broker(data=path).launch()
        broker.is_ready.wait(harness.READY_WAIT_S)
        self.assertFalse(broker.ready, f"{name} was served")
        self.assertEqual(broker.process.wait(harness.READY_WAIT_S), 1)
        self.assertIn(word, self.broker.refused("verify", path).err)
        target = self.path(f"{name}-restored")
        self.assertIn(word, self.broker.refused("restore", path, "--data", target).err)
        self.assertFalse(os.path.exists(target))


class UnderLoad(BackupCase):
    def load(self):
        """Schedules tasks with keys load-0, load-1, … until the test kills the stream. A task whose line is printed is
        acknowledged.
        """
        stream = Stream(self.broker.command("schedule", "--from", "-"), dict(os.environ), stdin=True)
        self.broker.streams.append(stream)
        return stream

    def test_what_was_acknowledged_before_is_in_it_while_segments_are_retired(self):  # Proves LOG-1, LOG-3 and KEEP-1.
        body = "x" * 2000
        keys = []
        for turn in range(2):
            self.broker.ok("schedule", "--from", "-", stdin=lines("gone", f"g{turn}", 700, 0, body))
            self.broker.ok("consume", "gone", "--count", 700)
            self.broker.schedule_all([{"queue": "keep", "key": f"k{turn}-{i}", "delay_ms": 3_600_000, "body": f"{turn}-{i}"} for i in range(20)])
            keys += [f"k{turn}-{i}" for i in range(20)]
            load = self.load()
            load.send(lines("load", f"l{turn}", 3000, 3_600_000, body))
            load.take(200)
            copy = self.backup(f"copy{turn}")
            self.assertTrue(copy["verified"])
            self.assertGreaterEqual(copy["position"], copy["index_position"])
            load.end_input()
            load.rest()
            self.assertEqual(load.wait(), 0)
            if turn == 0:
                harness.wait_until("a segment is retired", lambda: self.broker.queue_stats(None)["log_start"] > 4096, 60)
            self.restore(f"copy{turn}", f"again{turn}")
            other = self.make_broker(data=self.path(f"again{turn}")).start()
            known = {task["key"] for task in other.ok("list", "keep")}
            self.assertEqual(known, set(keys))
            taken = {task["key"] for task in other.ok("list", "load")}
            before = {item["key"] for item in load.seen[:200]}
            self.assertLessEqual(before, taken, "an acknowledged task is missing")
            self.assertEqual(other.one("get", "keep", keys[0])["body"], "0-0")
            self.assertEqual(other.stop(), 0)
        self.assertGreater(copy["log_start"], 4096, "nothing was retired meanwhile")

    def test_digest_is_the_original_s(self):
        self.broker.ok("schedule", "--from", "-", stdin=lines("q", "t", 500))
        self.broker.one("cancel", "q", "t-7")
        stats = self.broker.queue_stats(None)
        copy = self.backup("copy")
        self.assertEqual((copy["digest"], copy["live"]), (stats["digest"], 499))
        restored = self.restore("copy", "again")
        self.assertEqual(restored["digest"], stats["digest"])
        other = self.make_broker(data=self.path("again")).start()
        self.assertEqual(other.queue_stats(None)["live"], 499)


class Kills(BackupCase):
    """kill -9 of the tool or of the broker at any time leaves a copy that is complete or marked as incomplete."""

    def fill(self):
        self.broker.ok("schedule", "--from", "-", stdin=lines("q", "t", 8000, 3_600_000, "x" * 500), wait_s=60)

    def run_backup(self, name):
        return subprocess.Popen(self.broker.command("backup", self.path(name), "--timeout", "3s"), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def assert_marked_or_whole(self, name):
        path = self.path(name)
        if not os.path.exists(path):
            return "nothing"
        if os.path.exists(os.path.join(path, "backup.partial")):
            self.assertIn("unfinished copy", self.broker.refused("verify", path).err)
            return "marked"
        if not os.listdir(path):
            return "nothing"
        self.assertEqual(self.offline("verify", path).status, 0)
        return "whole"

    def kill_while(self, name, act, seconds):
        """Calls `act` when the copying has lasted for `seconds`. Returns the state of the copy."""
        tool = self.run_backup(name)
        time.sleep(seconds)
        act(tool)
        tool.communicate()
        return self.assert_marked_or_whole(name)

    def test_tool_is_killed(self):
        self.fill()
        started = time.monotonic()
        self.backup("whole")
        length = time.monotonic() - started
        generator = random.Random(1)
        found = set()
        for turn in range(TURNS):
            found.add(self.kill_while("copy", lambda tool: tool.kill(), generator.random() * length))
            if os.path.exists(os.path.join(self.path("copy"), "identity")) and "whole" in found:
                break
        # Finish an incomplete copy in the same directory. The broker allows two backups at a time, so restart it to end
        # the killed ones.
        if not os.path.exists(os.path.join(self.path("copy"), "identity")) or self.assert_marked_or_whole("copy") != "whole":
            self.broker.restart()
            self.assertTrue(self.backup("copy")["verified"])
        self.assertEqual(self.restore("copy", "again")["live"], 8000)

    def test_marked_directory_is_refused_by_all_and_finished_by_the_next(self):
        self.fill()
        self.backup("copy")
        for name in ("identity", "member"):
            os.unlink(os.path.join(self.path("copy"), name))
        self.path("copy/backup.partial", "")
        self.assert_refused_by_all("copy", "unfinished copy")
        self.broker.restart()
        self.assertTrue(self.backup("copy")["verified"])

    def test_broker_is_killed(self):
        self.fill()
        started = time.monotonic()
        self.backup("whole")
        length = time.monotonic() - started
        generator = random.Random(2)
        for turn in range(TURNS // 2):
            self.kill_while("copy" + str(turn), lambda tool: self.broker.kill(), generator.random() * length)
            self.broker.start()
            self.assertNotIn("backup.tmp", os.listdir(self.broker.data))
            self.assertEqual(self.broker.queue_stats(None)["live"], 8000)
            if self.assert_marked_or_whole("copy" + str(turn)) != "whole":
                self.assertTrue(self.backup("copy" + str(turn))["verified"])

    def test_restore_is_killed(self):
        self.fill()
        self.backup("copy")
        os.mkdir(self.path("again.restoring"))  # leave the directory that a restore leaves if it is killed before it has written its mark file
        generator = random.Random(3)
        command = self.broker.command("restore", self.path("copy"), "--data", self.path("again"))
        for _ in range(TURNS):
            tool = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(generator.random() * 0.2)
            tool.kill()
            tool.communicate()
            if os.path.exists(self.path("again")):
                break
        if not os.path.exists(self.path("again")):
            self.restore("copy", "again")
            self.assertNotIn("again.restoring", os.listdir(self.path("")))
        if os.path.exists(self.path("again/backup.partial")):  # the restore was killed just before its end
            self.restore("copy", "again")
        self.assertEqual(self.offline("verify", self.path("again")).status, 0)
        self.assertFalse(os.path.exists(self.path("again/backup.partial")))

    def test_restore_is_killed_before_it_removes_the_mark(self):
        self.fill()
        self.backup("copy")
        self.restore("copy", "again")
        self.path("again/backup.partial", "")
        self.assert_refused_by_all("again", "unfinished copy")
        self.broker.restart()
        self.assertEqual(self.restore("copy", "again")["live"], 8000)
        self.assertEqual(self.offline("verify", self.path("again")).status, 0)
        self.assertFalse(os.path.exists(self.path("again/backup.partial")))


class Pins(BackupCase):
    """Tests with handwritten requests how long a backup keeps segments."""

    def ask(self, rpc, *fields):
        """Sends a backup request. Returns (code, fields of the BackupReply)."""
        code, reply = rpc.ask(BACKUP, list(fields))
        return code, wire.decode(reply)

    def churn(self):
        body = "x" * 5000
        self.broker.ok("schedule", "--from", "-", stdin=lines("q", "t", 1200, 0, body))
        self.broker.ok("consume", "q", "--count", 1200)

    def log_start(self):
        return self.broker.queue_stats(None)["log_start"]

    def wait_ready(self, rpc, number):
        for _ in range(1500):
            reply = self.ask(rpc, (1, STATUS), (2, number))[1]
            if wire.number(reply, 2):
                return reply
            time.sleep(0.02)
        raise AssertionError("the index is never copied")

    def test_segments_stay_until_it_ends(self):  # LOG-3
        with wire.Rpc(self.broker.port, tokens.ADMIN) as rpc:
            number = wire.number(self.ask(rpc, (1, BEGIN))[1], 1)
            self.wait_ready(rpc, number)
            start = self.log_start()
            for _ in range(3):
                self.churn()
                self.ask(rpc, (1, STATUS), (2, number))
            time.sleep(1.5)  # waits for longer than the retention time
            self.assertEqual(self.log_start(), start)
            self.assertEqual(self.ask(rpc, (1, END), (2, number))[0], wire.OK)
        end = time.monotonic() + 30
        while self.log_start() == start and time.monotonic() < end:
            self.churn()
        self.assertGreater(self.log_start(), start)

    def test_what_is_not_there_or_not_now_is_refused_with_a_sentence(self):
        with wire.Rpc(self.broker.port, tokens.ADMIN) as rpc:
            first = wire.number(self.ask(rpc, (1, BEGIN))[1], 1)
            second = wire.number(self.ask(rpc, (1, BEGIN))[1], 1)
            self.assertNotEqual(first, second)
            self.assertEqual(self.ask(rpc, (1, BEGIN))[0], NOT_DONE)
            self.assertIn("maximum number of backups", self.broker.refused("backup", self.path("copy")).err)
            count = wire.number(self.wait_ready(rpc, first), 8)
            for fields, code in (([(1, READ), (2, first), (4, count), (6, 10)], wire.INVALID),
                                 ([(1, READ), (2, first), (4, 0), (6, 2 << 20)], wire.INVALID),
                                 ([(1, READ), (2, first), (4, 0)], wire.INVALID),
                                 ([(1, STATUS)], wire.INVALID),
                                 ([(1, 9), (2, first)], wire.INVALID),
                                 ([(1, BEGIN), (2, first)], wire.INVALID),
                                 ([(1, STATUS), (2, 12345)], NOT_DONE),
                                 ([(1, END), (2, 12345)], NOT_DONE)):
                self.assertEqual(self.ask(rpc, *fields)[0], code, fields)
            # A read beyond the end of a file returns nothing, and unknown names are refused.
            self.assertNotIn(10, self.ask(rpc, (1, READ), (2, first), (4, 0), (5, 1 << 60), (6, 10))[1])
            self.assertNotIn(9, self.ask(rpc, (1, LIST), (2, first), (4, count + 5))[1])
            self.assertEqual(self.ask(rpc, (1, END), (2, first))[0], wire.OK)
            self.assertEqual(self.ask(rpc, (1, STATUS), (2, first))[0], NOT_DONE)


class Restored(BackupCase):
    def test_another_member_beside_its_original(self):  # FENCE-1, TIME-1
        self.broker.one("schedule", "q", "--key", "held", "--in", "0s")
        self.broker.one("schedule", "q", "--key", "later", "--in", "3s")
        consumer = self.broker.consume("q", "--ack", "none")
        held = consumer.take(1)[0]
        self.backup("copy")
        made = self.restore("copy", "again")
        other = self.make_broker(data=self.path("again")).start()
        stats, own = other.queue_stats(None), self.broker.queue_stats(None)
        self.assertEqual(stats["member"], made["member"])
        self.assertNotEqual(stats["member"], own["member"])
        self.assertGreaterEqual(stats["epoch"], own["epoch"] + (1 << 22))
        with open(os.path.join(self.broker.data, "identity"), "rb") as mine, open(self.path("again/identity"), "rb") as its:
            mine, its = mine.read(), its.read()
        self.assertEqual(mine[16:32], its[16:32], "the cluster is the same")
        self.assertNotEqual(mine[32:64], its[32:64], "the secret is not")
        self.assertNotIn(mine[32:64], open(self.path("copy/identity"), "rb").read())
        # The restored copy delivers tasks in flight again, with a greater token. It also delivers the tasks that were
        # not due at the time of the backup.
        tasks = other.consume("q", "--count", 2).take(2, 60)
        for task in tasks:
            self.assert_not_early(task)
            self.assertGreater(int(task["token"].split("-")[0]), int(held["token"].split("-")[0]))
        self.assertEqual({task["key"] for task in tasks}, {"held", "later"})
        self.assertEqual({task["key"] for task in consumer.take(1, 60)}, {"later"})
        # A second restart keeps the member id, and begins the next epoch.
        other.restart()
        again = other.queue_stats(None)
        self.assertEqual((again["member"], again["epoch"]), (stats["member"], stats["epoch"] + 1))
        self.assertNotEqual(self.restore("copy", "third")["member"], made["member"])

    def test_directory_in_use_or_full_is_left_alone(self):
        self.backup("copy")
        self.assertIn("contains", self.broker.refused("backup", self.path("copy")).err)
        self.assertIn("contains", self.broker.refused("restore", self.path("copy"), "--data", self.broker.data).err)
        self.assertIn("locked", self.broker.refused("restore", self.broker.data, "--data", self.path("x")).err)
        self.assertFalse(os.path.exists(self.path("x")))
        os.mkdir(self.path("empty"))
        self.restore("copy", "empty")
        subprocess.run([harness.find_program("tarry"), "restore", "copy", "--data", "r/"], cwd=self.directory, stdout=subprocess.DEVNULL, check=True)
        self.assertTrue(os.path.exists(self.path("r/identity")))
        os.mkdir(self.path("other.restoring"))
        self.path("other.restoring/mine", "mine")
        self.assertIn("not left from an unfinished restore", self.broker.refused("restore", self.path("copy"), "--data", self.path("other")).err)
        self.assertTrue(os.path.exists(self.path("other.restoring/mine")))
        self.broker.refused("restore", self.path("copy"), status=2)
        self.broker.refused("backup", status=2)

    def test_stopped_directory_can_be_restored_too(self):
        self.broker.one("schedule", "q", "--key", "one", "--in", "1h")
        own = self.broker.queue_stats(None)
        self.assertEqual(self.broker.stop(), 0)
        made = self.broker.one("restore", self.broker.data, "--data", self.path("clone"))
        self.assertNotEqual(made["member"], own["member"])
        self.broker.start()
        self.assertEqual(self.broker.queue_stats(None)["member"], own["member"])
        self.assertEqual(self.make_broker(data=self.path("clone")).start().queue_stats(None)["live"], 1)

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files to others")
    def test_what_root_restores_is_its_owners(self):
        self.backup("copy")
        os.mkdir(self.path("theirs"))
        os.chown(self.path("theirs"), 4243, 4244)
        for target in ("theirs", "theirs/below/another"):
            self.restore("copy", target)
        names = [os.path.join(directory, name) for directory, folders, files in os.walk(self.path("")) for name in (*folders, *files)]
        theirs = {name: (os.lstat(name).st_uid, os.lstat(name).st_gid) for name in names if name.startswith(self.path("theirs"))}
        self.assertTrue(any(name.endswith("/another/log") for name in theirs), theirs)
        self.assertEqual(set(theirs.values()), {(4243, 4244)}, theirs)

    def test_directory_of_a_former_version_gets_a_member(self):
        self.assertEqual(self.broker.stop(), 0)
        os.unlink(os.path.join(self.broker.data, "member"))
        self.broker.start()
        member = self.broker.ready["member"]
        self.broker.restart()
        self.assertEqual(self.broker.ready["member"], member)


class Damaged(BackupCase):
    arguments = ("--segment-size", "1MiB")

    def flip(self, path, offset):
        with open(path, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 0x10]))

    def test_damage_is_refused_with_its_place(self):  # F-8
        self.broker.ok("schedule", "--from", "-", stdin=lines("q", "t", 2000, 3_600_000, "x" * 1000), wait_s=60)
        self.backup("copy")
        log = self.path("copy/log")
        segments = sorted(name for name in os.listdir(log) if name.endswith(".seg"))
        # Segment boundaries depend on how the tasks arrived. The first frame of a segment is at offset 4096.
        held = [name for name in segments if os.path.getsize(os.path.join(log, name)) > 4096]
        self.assertGreater(len(held), 2)
        for name, offset in ((f"log/{held[0]}", 4100), (f"log/{held[-2]}", 4100), ("identity", 40)):
            path = self.path(f"copy/{name}")
            self.flip(path, offset)
            answer = self.broker.refused("restore", self.path("copy"), "--data", self.path("again"))
            place = "identity" if name == "identity" else "position"
            self.assertIn(place, answer.one["message"])
            self.assertFalse(os.path.exists(self.path("again")))
            self.flip(path, offset)
        os.rename(os.path.join(log, segments[0]), self.path("away"))
        self.broker.refused("restore", self.path("copy"), "--data", self.path("again"))
        os.rename(self.path("away"), os.path.join(log, segments[0]))
        self.assertEqual(self.restore("copy", "again")["torn_tail_bytes"], 0)

    def backup_whose_end_is_indexed(self, wanted):
        """Makes a backup whose last frame is damaged. `wanted`: whether the index of the copy has absorbed the last frame.
        Returns the copy's name.
        """
        for number in range(100):
            if number == 0 or not wanted:
                self.broker.ok("schedule", "q", "--in", "1h")
            copy = self.backup(f"copy-{number}")
            if (copy["index_position"] == copy["position"]) == wanted:
                log = self.path(f"copy-{number}/log")
                last = os.path.join(log, max(name for name in os.listdir(log) if name.endswith(".seg")))
                self.flip(last, os.path.getsize(last) - 1)
                return f"copy-{number}"
        raise AssertionError(f"no backup of 100 with an index that was as far as the log: {wanted}")

    def test_damage_of_the_last_frame_is_told_of_as_a_torn_tail(self):  # F-8, LOG-5
        name = self.backup_whose_end_is_indexed(False)
        self.assertGreater(self.restore(name, "again")["torn_tail_bytes"], 0)

    def test_damage_of_the_last_frame_that_the_index_has_is_refused(self):  # F-8, LOG-5
        name = self.backup_whose_end_is_indexed(True)
        answer = self.broker.refused("restore", self.path(name), "--data", self.path("again"))
        self.assertIn("the end of the log is lost", answer.one["message"])
        self.assertFalse(os.path.exists(self.path("again")))


@unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small disk")
class FullDisk(BackupCase):
    autostart = False

    def mount(self, name, size):
        path = self.path(name)
        os.mkdir(path)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=False,
                              stderr=subprocess.DEVNULL)
        if done.returncode:
            self.skipTest("cannot mount here")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", path], check=False))
        return path

    def test_target_is_full(self):  # F-4
        self.broker.start()
        self.broker.ok("schedule", "--from", "-", stdin=lines("q", "t", 3000, 3_600_000, "x" * 1000), wait_s=60)
        mount = self.mount("small", "1m")
        answer = self.broker.refused("backup", os.path.join(mount, "copy"))
        self.assertIn("No space left", answer.err)
        self.assertIn("unfinished copy", self.broker.refused("verify", os.path.join(mount, "copy")).err)
        self.backup("copy")
        answer = self.broker.refused("restore", self.path("copy"), "--data", os.path.join(mount, "again"))
        self.assertIn("No space left", answer.err)
        self.assertFalse(os.path.exists(os.path.join(mount, "again")))
        self.assertEqual(self.broker.queue_stats(None)["live"], 3000)

    def test_broker_s_disk_has_no_room_for_a_copy(self):  # F-4
        self.broker.data = os.path.join(self.mount("small", "14m"), "data")
        self.broker.start()
        self.broker.ok("schedule", "--from", "-", stdin=lines("q", "t", 3000, 3_600_000, "x" * 100), wait_s=60)
        filler = os.path.join(self.path("small"), "filler")
        with open(filler, "wb") as file:
            status = os.statvfs(self.path("small"))
            file.write(bytes(max(0, status.f_bavail * status.f_frsize - (3 << 20))))
        self.assertIn("too little free space", self.broker.refused("backup", self.path("copy")).err)
        self.assertEqual(self.broker.one("schedule", "q", "--in", "1h")["result"], "scheduled")
        os.unlink(filler)
        self.assertTrue(self.backup("copy")["verified"])


if __name__ == "__main__":
    harness.main(watches_locks=True)
