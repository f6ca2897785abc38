"""archive_test.py: segments that the log retires are in the archive: history reads them, prune deletes them, holds keep them.
If the archive is missing, full or belongs to another broker, nothing is lost and the broker continues.
"""
import json
import os
import random
import re
import shutil
import subprocess
import time
import unittest
import urllib.request

import harness

WAIT_S = 30
FAT_SIZE = 200_000
LIVES_PER_STEP = 8


class Archived(harness.Case):
    arguments = ("--segment-size", "1MiB", "--retain-log-size", "0", "--memory", "64MiB")

    def setUp(self):
        self.steps = 0
        super().setUp()

    def archive(self):
        return os.path.join(self.broker.data, "archive")

    def files(self):
        try:
            return sorted(name for name in os.listdir(self.archive()) if name.endswith(".seg.zst"))
        except FileNotFoundError:
            return []

    def segments(self):
        return sorted(name for name in os.listdir(os.path.join(self.broker.data, "log")) if name.endswith(".seg"))

    def body(self):
        """Returns a payload that compresses badly."""
        return random.randbytes(FAT_SIZE // 2).hex()

    def fill(self):
        """Fills more than one segment with tasks that end at once, so that only history remains of them."""
        self.steps += 1
        keys = [f"order-{self.steps}-{number}" for number in range(LIVES_PER_STEP)]
        lines = "".join(json.dumps({"queue": "q", "key": key, "delay_ms": 3_600_000, "body": self.body()}) + "\n"
                        for key in keys)
        self.broker.ok("schedule", "--from", "-", stdin=lines)
        for key in keys:
            self.broker.one("cancel", "q", key)
        return keys

    def wait(self, condition, what):
        end = time.monotonic() + WAIT_S
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what}\n{self.broker.log_text()}")
            time.sleep(0.02)

    def wait_said(self, event):
        self.wait(lambda: any(f"event={event} " in line for line in self.broker.log), f"it does not say {event}")

    def fill_until(self, count):
        """Adds tasks until `count` segments are archived."""
        keys = []
        while len(self.files()) < count:
            keys += self.fill()
            self.wait(lambda: len(self.segments()) == 1, "the log keeps its segments")
        return keys

    def stop(self):
        self.assertEqual(self.broker.stop(), 0)

    def audit(self, *arguments):
        return self.broker.ok("audit", "--data", self.broker.data, *arguments)

    def listed(self, *arguments):
        return self.broker.ok("archive", "list", "--data", self.broker.data, *arguments)


class Tells(Archived):
    def test_history_from_the_first_position_on(self):
        keys = self.fill_until(4)
        self.stop()
        self.assertTrue(self.files()[0].startswith("0000000000001000"))
        told = self.audit("--kind", "scheduled")
        self.assertEqual([fact["key"] for fact in told], keys)
        life = self.broker.ok("history", "--data", self.broker.data, "q", keys[0])
        self.assertEqual([fact["kind"] for fact in life], ["scheduled", "cancelled"])

    def test_a_running_broker_tells_of_both(self):
        keys = self.fill_until(3)
        told = self.broker.ok("audit", "--kind", "scheduled")
        self.assertEqual([fact["key"] for fact in told], keys)
        life = self.broker.ok("history", "q", keys[0])
        self.assertEqual([fact["kind"] for fact in life], ["scheduled", "cancelled"])

    def test_statistics_tell_of_it(self):
        self.assertEqual(self.broker.queue_stats(None)["archived_segments"], 0)
        self.fill_until(3)
        self.wait(lambda: self.broker.queue_stats(None)["archived_segments"] == len(self.files()), "they are not counted")
        stats = self.broker.queue_stats(None)
        self.assertEqual(stats["archive_bytes"], sum(os.path.getsize(os.path.join(self.archive(), name)) for name in self.files()))
        self.assertLess(abs(stats["archive_oldest_ms"] - harness.now_ms()), 60_000)
        self.assertEqual((stats["archive_held"], stats.get("archive_error")), (0, None))
        self.assertIn(f"archive {len(self.files())} segments", self.broker.words("stats"))
        self.broker.ok("archive", "hold", "--archive", self.archive(), "--reason", "a lawsuit", "--from", "0")
        shutil.move(self.archive(), self.path("away"))
        os.mkdir(self.archive())  # an empty directory replaces the archive, as if its disk were not mounted
        self.fill()
        self.wait(lambda: self.broker.queue_stats(None).get("archive_error"), "its failure is not told")
        self.assertIn("THE BROKER CANNOT ARCHIVE", self.broker.words("stats"))
        with urllib.request.urlopen(f"http://127.0.0.1:{self.broker.port}/metrics") as reply:
            metrics = reply.read().decode()
        self.assertIn("\ntarry_archive_failing 1\n", metrics)
        self.assertIn(f"\ntarry_archive_segments {stats['archived_segments']}\n", metrics)
        os.rename(self.path("away"), self.archive())
        self.wait(lambda: not self.broker.queue_stats(None).get("archive_error"), "it does not recover")
        self.stop()
        count = len(self.files())
        self.broker.start()  # the broker counts holds at its start; it may archive one more segment, whose hold it counts a minute later
        self.wait(lambda: self.broker.queue_stats(None)["archive_held"] == count, "they are not counted")
        self.assertGreaterEqual(self.broker.queue_stats(None)["archived_segments"], count)

    def test_elsewhere(self):
        elsewhere = self.path("elsewhere")
        os.mkdir(elsewhere)
        self.stop()
        self.broker.arguments += ["--archive", elsewhere]
        self.broker.start()
        self.fill()
        self.wait(lambda: len(self.segments()) == 1, "the log keeps its segments")
        self.stop()
        self.assertEqual(self.files(), [])
        told = self.audit("--archive", elsewhere, "--kind", "scheduled")
        self.assertEqual(len(told), LIVES_PER_STEP)
        self.assertLess(len(self.audit("--kind", "scheduled")), LIVES_PER_STEP)
        self.assertTrue(self.broker.ok("archive", "list", "--archive", elsewhere))

    def test_without_archiving_segments_go(self):
        self.stop()
        self.broker.arguments += ["--archiving", "no"]
        self.broker.start()
        self.fill()
        self.wait(lambda: len(self.segments()) == 1, "the log keeps its segments")
        self.assertFalse(os.path.exists(self.archive()))

    def test_a_gap_is_said_and_the_rest_told(self):
        self.fill_until(4)
        self.stop()
        count = len(self.audit())
        os.unlink(os.path.join(self.archive(), self.files()[1]))
        answer = self.broker.tarry("audit", "--data", self.broker.data)
        self.assertEqual(answer.status, 0)
        self.assertIn("the log and the archive do not have the positions", answer.err)
        self.assertIn(str(int(self.files()[1][:16], 16)), answer.err)
        self.assertTrue(0 < len(answer.objects) < count)

    def test_damage_is_said_and_the_rest_told(self):
        self.fill_until(4)
        self.stop()
        count = len(self.audit())
        path = os.path.join(self.archive(), self.files()[1])
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        answer = self.broker.refused("audit", "--data", self.broker.data)
        self.assertIn(os.path.basename(path), answer.err)
        self.assertTrue(0 < len(answer.objects) < count)


class Survives(Archived):
    def test_sigkill_again_and_again(self):
        keys = []
        for step in range(5):
            keys += self.fill()
            if step % 2:
                time.sleep(0.05 * step)  # at some point of the archive's work
            self.broker.restart()
        self.wait(lambda: len(self.segments()) == 1, "the log keeps its segments")
        self.stop()
        answer = self.broker.tarry("audit", "--data", self.broker.data, "--kind", "scheduled,cancelled")
        self.assertEqual((answer.status, answer.err), (0, ""))
        for kind in ("scheduled", "cancelled"):
            self.assertEqual([fact["key"] for fact in answer.objects if fact["kind"] == kind], keys)
        self.assertEqual(self.files()[0][:16], "0000000000001000")
        self.assertEqual([name for name in os.listdir(self.archive()) if name.endswith(".tmp")], [])

    def stuck(self, *more):
        """Checks that the archive cannot be written, that the log reports it, and that the broker continues."""
        self.broker.arguments += more
        self.broker.start()
        keys = self.fill()
        self.wait_said("archive_failed")
        keys += self.fill()
        self.assertGreater(len(self.segments()), 2)
        return keys

    def relieved(self, keys, archive):
        self.wait(lambda: len(self.segments()) == 1, "the log keeps its segments")
        self.stop()
        told = self.audit("--archive", archive, "--kind", "scheduled")
        self.assertEqual([fact["key"] for fact in told], keys)

    def test_a_directory_that_is_restored_in_its_own_place(self):
        self.fill_until(2)
        self.stop()
        count = len(self.files())
        os.rename(self.broker.data, self.path("old"))
        self.broker.one("restore", self.path("old"), "--data", self.broker.data)
        self.broker.start()
        self.fill()
        self.wait(lambda: len(self.files()) > count, "nothing is archived any more")
        self.assertNotIn("event=archive_failed", self.broker.log_text(5))
        self.stop()

    def test_a_missing_directory(self):
        self.stop()
        missing = self.path("not-mounted")
        keys = self.stuck("--archive", missing)
        self.broker.wait_logged("the directory does not exist")
        self.broker.wait_logged("event=archive_absent")  # the broker logs at its start that the archive is absent
        os.mkdir(missing)
        self.relieved(keys, missing)

    def test_a_directory_that_is_a_file(self):
        self.stop()
        wrong = self.path("archive-file", "x")
        keys = self.stuck("--archive", wrong)
        self.broker.wait_logged("event=archive_absent")
        os.unlink(wrong)
        os.mkdir(wrong)
        self.relieved(keys, wrong)

    def test_a_disk_that_is_not_mounted_any_more(self):
        keys = self.fill_until(2)
        self.stop()
        os.rename(self.archive(), self.path("unmounted"))
        os.mkdir(self.archive())
        keys += self.stuck()
        self.broker.wait_logged("mount its disk")
        os.rename(self.path("unmounted"), self.archive())
        self.relieved(keys, self.archive())

    def test_an_archive_emptied_on_purpose(self):
        self.fill_until(2)
        self.stop()
        shutil.rmtree(self.archive())
        os.mkdir(self.archive())
        os.unlink(os.path.join(self.broker.data, "archived"))
        self.broker.start()
        self.fill()
        self.wait(lambda: len(self.segments()) == 1, "the log keeps its segments")

    def test_another_brokers_archive(self):
        self.fill_until(2)
        theirs, mine = self.archive(), self.files()
        other = self.make_broker("--archive", theirs, data=self.path("other")).start()
        first, self.broker = self.broker, other
        self.fill()
        self.wait_said("archive_failed")
        other.wait_logged("another broker")
        self.broker = first
        self.assertEqual(self.files(), mine)

    def mount(self, directory, options):
        os.makedirs(directory, exist_ok=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("this machine does not let us mount a tmpfs")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", directory], check=False))

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a tmpfs")
    def test_a_full_disk(self):
        """F-4 for the archive: segments that cannot be archived stay in the log."""
        self.stop()
        full = self.path("full")
        self.mount(full, "size=64k")
        keys = self.stuck("--archive", full)
        self.broker.wait_logged("No space left")
        base = int(re.search(r"event=archive_failed .* base=(\d+)", self.broker.log_text())[1])
        # If all tasks came in one batch, the log begins with a short segment, which fits on the disk.
        self.assertEqual([name for name in os.listdir(full) if name.endswith(".seg.zst") and int(name[:16], 16) >= base], [])
        subprocess.run(["mount", "-o", "remount,size=64m", full], check=True)
        self.relieved(keys, full)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a tmpfs")
    def test_a_read_only_disk(self):
        self.stop()
        still = self.path("read-only")
        self.mount(still, "size=64m,ro")
        keys = self.stuck("--archive", still)
        self.broker.wait_logged("Read-only")
        subprocess.run(["mount", "-o", "remount,rw", still], check=True)
        self.relieved(keys, still)


class Keeps(Archived):
    """Tests the commands `hold` and `prune` while a broker runs."""

    def test_list(self):
        self.fill_until(3)
        files = self.listed()
        self.assertEqual([file["file"] for file in files], self.files())
        for before, after in zip(files, files[1:]):
            self.assertEqual(before["end"], after["base"])
            self.assertLessEqual(before["last_ms"], after["first_ms"])
        self.assertEqual([file["bytes"] for file in files],
                         [os.path.getsize(os.path.join(self.archive(), name)) for name in self.files()])
        self.stop()
        self.assertEqual(sum(file["records"] for file in files),
                         len([fact for fact in self.audit() if int(fact["position"]) < files[-1]["end"]]))

    def test_prune_by_size(self):
        self.fill_until(4)
        before = self.listed()
        keep = sum(file["bytes"] for file in before[2:])
        arguments = ("archive", "prune", "--data", self.broker.data, "--keep-size", str(keep))
        self.assertEqual([file["result"] for file in self.broker.ok(*arguments, "--dry-run")], ["would prune"] * 2)
        self.assertEqual(self.listed(), before)
        self.assertEqual([file["file"] for file in self.broker.ok(*arguments)], [file["file"] for file in before[:2]])
        self.assertEqual(self.listed(), before[2:])
        self.assertEqual(self.broker.ok(*arguments), [])

    def test_prune_by_age(self):
        self.fill_until(2)
        arguments = ("archive", "prune", "--data", self.broker.data, "--older-than")
        self.assertEqual(self.broker.ok(*arguments, "1h"), [])
        self.broker.ok(*arguments, "1ms")
        self.assertEqual(self.files(), [])

    def test_a_hold_survives_pruning(self):
        self.fill_until(4)
        files = self.listed()
        hold = self.broker.one("archive", "hold", "--data", self.broker.data, "--reason", "case 17",
                               "--from-position", str(files[1]["base"] + 8), "--to-position", str(files[1]["end"]))
        self.assertEqual((hold["hold"], hold["reason"]), (1, "case 17"))
        listed = self.listed()
        self.assertEqual([file["holds"] for file in listed[:3]], [[], [1], []])
        self.assertEqual(listed[-1]["reason"], "case 17")
        self.broker.ok("archive", "prune", "--data", self.broker.data, "--keep-size", "0")
        self.assertEqual(self.files(), [files[1]["file"]])
        self.stop()  # the broker's own retention must respect holds, too
        self.broker.arguments += ["--retain-archive-age", "1ms"]
        self.broker.start()
        self.fill()
        self.wait_said("archive_pruned")
        self.assertIn(files[1]["file"], self.files())
        self.broker.one("archive", "release", "--data", self.broker.data, "1")
        self.broker.ok("archive", "prune", "--data", self.broker.data, "--keep-size", "0")
        self.assertNotIn(files[1]["file"], self.files())

    def test_before_anything_is_archived(self):
        """The archive's directory is made with the first segment. Until then it counts as an empty archive, and a hold can be
        placed.
        """
        place = ("--data", self.broker.data)
        self.assertEqual(self.broker.ok("archive", "list", *place), [])
        command = [*self.broker.command("archive", "list", *place)[:-1]]
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        self.assertIn("the broker has archived nothing yet", said.stderr)
        self.assertEqual(self.broker.ok("archive", "prune", *place, "--older-than", "1s"), [])
        self.assertIn("hold 1 does not exist", self.broker.refused("archive", "release", *place, "1").err)
        self.assertFalse(os.path.exists(os.path.join(self.broker.data, "archive")))
        self.assertEqual(self.broker.one("archive", "hold", *place, "--reason", "case 17", "--from-position", "0")["hold"], 1)
        self.assertEqual([item["hold"] for item in self.broker.ok("archive", "list", *place)], [1])
        self.fill_until(2)
        self.assertEqual(self.broker.ok("archive", "prune", *place, "--older-than", "1ms"), [])
        self.assertGreaterEqual(len(self.files()), 2)
        self.broker.one("archive", "release", *place, "1")
        self.assertGreater(len(self.broker.ok("archive", "prune", *place, "--older-than", "1ms")), 0)

    @unittest.skipUnless(os.geteuid() == 0, "needs two users")
    def test_what_root_holds_the_broker_can_read(self):
        self.stop()
        os.chmod(self.directory, 0o755)
        for place, folders, files in os.walk(self.broker.data):
            for name in ["", *folders, *files]:
                os.chown(os.path.join(place, name), 61999, 61999)
        self.broker.prefix = ["setpriv", "--reuid=61999", "--regid=61999", "--clear-groups"]
        self.broker.has_admin = False  # the harness's file of tokens belongs to root
        self.broker.start()
        self.broker.one("archive", "hold", "--data", self.broker.data, "--reason", "case", "--from-position", "0")
        self.fill_until(2)
        self.assertFalse([line for line in self.broker.log if "archive_failed" in line])
        for name in os.listdir(self.archive()):
            self.assertEqual(os.stat(os.path.join(self.archive(), name)).st_uid, 61999, name)

    def test_a_hold_of_the_future(self):
        self.fill_until(1)
        self.broker.one("archive", "hold", "--data", self.broker.data, "--reason", "all of it", "--from", "0")
        self.fill_until(3)
        self.broker.ok("archive", "prune", "--data", self.broker.data, "--keep-size", "0")
        self.assertGreaterEqual(len(self.files()), 3)

    def test_a_hold_that_cannot_be_read_holds_everything(self):
        self.fill_until(2)
        self.broker.one("archive", "hold", "--data", self.broker.data, "--reason", "r", "--to-position", "8")
        path = os.path.join(self.archive(), "00000001.hold")
        with open(path, "r+b") as file:
            file.seek(20)
            file.write(b"?")
        self.broker.ok("archive", "prune", "--data", self.broker.data, "--keep-size", "0")
        self.assertGreaterEqual(len(self.files()), 2)
        self.assertIn("hold 1 cannot be read", self.broker.refused("archive", "list", "--data", self.broker.data).err)
        self.broker.one("archive", "release", "--data", self.broker.data, "1")
        self.broker.ok("archive", "prune", "--data", self.broker.data, "--keep-size", "0")
        self.assertEqual(self.files(), [])

    def test_retention_by_size(self):
        self.stop()
        self.broker.arguments += ["--retain-archive-size", "4KiB"]
        self.broker.start()
        for _ in range(4):
            self.fill()
        self.wait(lambda: len(self.segments()) == 1, "the log keeps its segments")
        self.wait_said("archive_pruned")
        self.wait(lambda: sum(file["bytes"] for file in self.listed()) <= 4096, "the archive is too large")
        self.stop()
        self.assertEqual(self.broker.tarry("audit", "--data", self.broker.data).err, "")  # a pruned segment does not count as a gap

    def test_wrong_uses(self):
        data = ("--data", self.broker.data)
        for arguments in (("list",), ("prune", *data), ("prune", *data, "--keep-size", "many"), ("hold", *data),
                          ("hold", *data, "--reason", "r"), ("hold", *data, "--reason", "r" * 256, "--from", "0"),
                          ("hold", *data, "--reason", "r", "--from", "9", "--to", "9"), ("release", *data, "x"),
                          ("release", *data, "0"), ("release", "1")):
            self.broker.refused("archive", *arguments, status=2)
        self.assertIn("No such file", self.broker.refused("archive", "list", "--archive", self.path("none")).err)
        self.fill_until(1)
        self.broker.refused("archive", "release", *data, "7")
        self.broker.refused("archive", "list", "--archive", self.directory)


if __name__ == "__main__":
    harness.main(watches_locks=True)
