"""directory_test.py: data directories that no correct run can have made (F-7, F-8, F-9, F-14): log and index from different
times or histories, a truncated log, foreign files. A broker refuses such a directory with an error message, and leaves it
unchanged. If a mixed directory could have been made by a correct run, the broker starts with the log's contents.
"""
import concurrent.futures
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from life import ARGUMENTS, POLL_S, REFUSED, RETIRED_WAIT_S, STORAGE  # noqa: E402

POINTS = 9
FAT_POINT = 4          # from here on so much is written that a segment fills up and is retired
FAT_SIZE = 400_000
JOBS = 6


def schedule(broker, keys, body="x"):
    lines = [json.dumps({"queue": "q", "key": key, "delay_ms": 3_600_000, "body": body}) for key in keys]
    broker.ok("schedule", "--from", "-", stdin="\n".join(lines))


def verified(data):
    """Returns the output of `tarry verify` on a directory."""
    done = subprocess.run([harness.find_program("tarry"), "verify", data, "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, timeout=60)
    return {"status": done.returncode, **(json.loads(done.stdout) if done.stdout.strip() else {})}


def contents(data):
    """Returns hashes of all files except locks and next.tmp, the prepared next segment. Any start of a broker may make new
    locks and a new next.tmp.
    """
    found = {}
    for directory, _, files in os.walk(data):
        for name in files:
            if name not in ("lock", "lock.mdb", "next.tmp"):
                with open(os.path.join(directory, name), "rb") as file:
                    found[os.path.relpath(os.path.join(directory, name), data)] = hashlib.sha256(file.read()).hexdigest()
    return found


class Opening:
    """Starts tarryd on a directory, stops it at once, and has the result."""

    def __init__(self, data, *prefix):
        self.before = contents(data)
        command = [*prefix, harness.find_program("tarryd"), "--data", data, "--listen", "ws://127.0.0.1:0", *ARGUMENTS]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.log, self.ready = [], {}
        for raw in self.process.stderr:
            line = raw.decode(errors="replace").rstrip("\n")
            self.log.append(line)
            if "event=ready" in line.split():
                self.ready = harness.parse_logfmt(line)
                self.process.terminate()
        self.status = self.process.wait(60)
        self.process.stderr.close()
        self.is_unchanged = contents(data) == self.before

    def complaints(self):
        """Returns complaints; an empty list means success. A broker may either start and stop cleanly, or refuse to start with
        an error message and change nothing.
        """
        if self.ready:
            return [] if self.status == 0 else [f"opened, and ended with {self.status}: {self.log}"]
        found = []
        if self.status not in (REFUSED, STORAGE) or not any("reason=" in line and len(line) > 50 for line in self.log):
            found.append(f"status {self.status}, no sentence: {self.log}")
        if not self.is_unchanged:
            found.append(f"refused, and changed the directory: {self.log}")
        return found


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="tarry-directory-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.data = os.path.join(self.directory, "data")

    def copy(self, source, name):
        path = os.path.join(self.directory, name)
        shutil.copytree(source, path)
        return path

    def live(self, data, work, orderly=True):
        """Runs a broker on this directory, and ends it cleanly or by SIGKILL."""
        broker = harness.Broker(data, *ARGUMENTS)
        broker.start()
        try:
            work(broker)
            if orderly:
                self.assertEqual(broker.stop(), 0)
        finally:
            if broker.is_running():
                broker.kill()

    def refused(self, *words, data=None, prefix=()):
        opening = Opening(data or self.data, *prefix)
        self.assertFalse(opening.ready, f"it opened: {opening.log}")
        self.assertEqual(opening.complaints(), [])
        for word in words:
            self.assertIn(word, " ".join(opening.log))
        return opening


class Mixture(Case):
    """F-7: log and index are copies from different moments."""

    def work(self, point):
        def steps(broker):
            schedule(broker, [f"k{point}-{number}" for number in range(5)])
            broker.one("cancel", "q", f"k{point}-0")
            if point == FAT_POINT:
                schedule(broker, [f"fat{number}" for number in range(5)], "x" * FAT_SIZE)
                self.wait_retired()
        return steps

    def wait_retired(self):
        """Waits until only the current segment is left. Reason: a kill during a retirement may leave an index whose log start
        is one segment ahead of the log's files. A directory mixed from such parts may be invalid where `mix` expects a
        valid one.
        """
        end = time.monotonic() + RETIRED_WAIT_S
        while sum(name.endswith(".seg") for name in os.listdir(os.path.join(self.data, "log"))) > 1:
            self.assertLess(time.monotonic(), end, "the full segments are still there")
            time.sleep(POLL_S)

    def test_f7_log_and_index_of_all_pairs_of_moments(self):
        moments = []
        for point in range(POINTS):
            self.live(self.data, self.work(point), orderly=point % 3 != 1)
            moments.append(self.copy(self.data, f"moment{point}"))
        facts = [verified(moment) for moment in moments]
        self.assertEqual([fact["status"] for fact in facts], [0] * POINTS)
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            pairs = list(itertools.product(range(POINTS), repeat=2))
            results = list(pool.map(lambda pair: self.mix(moments, facts, *pair), pairs))
        complaints = [complaint for found, _ in results for complaint in found]
        self.assertEqual(complaints, [])
        opened = sum(is_open for _, is_open in results)
        print(f"# {len(pairs)} pairs: {opened} opened with the log's digest, {len(pairs) - opened} refused", flush=True)
        self.assertGreater(opened, POINTS)

    def mix(self, moments, facts, log_at, index_at):
        """Makes a directory from the log of one moment and the index of another. Returns (complaints, whether the broker
        started).
        """
        data = tempfile.mkdtemp(prefix=f"mix{log_at}-{index_at}-", dir=self.directory)
        for name in ("identity", "member"):
            shutil.copy(os.path.join(moments[0], name), data)
        shutil.copytree(os.path.join(moments[log_at], "log"), os.path.join(data, "log"))
        shutil.copytree(os.path.join(moments[index_at], "index"), os.path.join(data, "index"))
        log, index = facts[log_at], facts[index_at]
        may_open = log["log_start"] <= index["index_position"] <= log["log_end"] and index["log_start"] >= log["log_start"]
        found = []
        said = verified(data)
        if said["status"] == 0 and said["digest"] != log["digest"]:
            found.append(f"digest {said['digest']}, the log's is {log['digest']}")
        opening = Opening(data)
        found += opening.complaints()
        if bool(opening.ready) != may_open:
            found.append(f"{'opened' if opening.ready else 'refused'}: {opening.log}")
        if opening.ready and int(opening.ready["recovered_tasks"]) != log["live"]:
            found.append(f"recovered {opening.ready['recovered_tasks']} tasks, the log has {log['live']}")
        shutil.rmtree(data)
        return [f"log {log_at}, index {index_at}: {complaint}" for complaint in found], bool(opening.ready)

    def test_f7_log_and_index_of_two_futures_of_one_past(self):
        self.live(self.data, lambda broker: schedule(broker, ["a", "b", "c"]))
        other = self.copy(self.data, "other")
        self.live(self.data, lambda broker: schedule(broker, ["d"]))
        self.live(other, lambda broker: schedule(broker, ["e"]))
        shutil.rmtree(os.path.join(self.data, "index"))
        shutil.copytree(os.path.join(other, "index"), os.path.join(self.data, "index"))
        said = " ".join(self.refused().log)
        # One of the two histories may have one more seal. So the index's position may be at the end of a frame of the log, beyond
        # the log's end, or inside a frame. The broker has a message for each case.
        self.assertRegex(said, "do not belong together|the end of the log is lost|belongs to another log")


class CutBack(Case):
    """F-9: the log has lost its end, so the index has a later position than the log."""

    def setUp(self):
        super().setUp()
        self.live(self.data, lambda broker: schedule(broker, [f"k{number}" for number in range(6)], "x" * FAT_SIZE))
        log = os.path.join(self.data, "log")
        self.segments = [os.path.join(log, name) for name in sorted(os.listdir(log)) if name.endswith(".seg")]

    def cut(self, size_of, fill):
        with open(self.segments[-1], "r+b") as file:
            used = len(file.read().rstrip(b"\0"))
            whole = file.tell()
            file.truncate(size_of(used))
            if fill:
                file.truncate(whole)
        self.refused("lost")

    def test_f9_the_last_segment_is_gone(self):
        os.unlink(self.segments[-1])
        self.refused("lost")

    def test_f9_half_of_the_last_segment_is_zeros(self):
        self.cut(lambda used: used // 2, True)

    def test_f9_the_file_was_cut_short(self):
        self.cut(lambda used: used // 2, False)

    def test_f9_only_the_last_frames_are_gone(self):
        self.cut(lambda used: used - 200, True)

    def test_f9_the_whole_log_is_gone(self):
        shutil.rmtree(os.path.join(self.data, "log"))
        self.refused("lost")


class Wrong(Case):
    """F-14: wrong data directories of every kind. More cases are in e2e/start_test.py."""

    def setUp(self):
        super().setUp()
        self.live(self.data, lambda broker: schedule(broker, ["a", "b"]))
        self.other = os.path.join(self.directory, "other")

    def change(self, name, change):
        path = os.path.join(self.data, name)
        with open(path, "rb") as file:
            content = bytearray(file.read())
        with open(path, "wb") as file:
            file.write(change(content))

    def flip(self, name, at):
        def flipped(content):
            content[at] ^= 1
            return content
        self.change(name, flipped)

    def segment(self):
        return os.path.join("log", next(name for name in os.listdir(os.path.join(self.data, "log")) if name.endswith(".seg")))

    def test_f14_a_damaged_identity(self):
        self.flip("identity", 20)
        self.refused("damaged")

    def test_f14_an_identity_that_was_cut_short(self):
        self.change("identity", lambda content: content[:30])
        self.refused("damaged")

    def test_f14_an_empty_identity(self):
        self.change("identity", lambda content: b"")
        self.refused("not an identity file of Tarry")

    def test_f14_the_identity_of_another_version(self):
        self.flip("identity", 8)
        self.refused("version")

    def test_f14_a_lost_identity(self):
        os.unlink(os.path.join(self.data, "identity"))
        self.refused("identity")

    def test_f14_the_log_or_the_index_of_another_cluster(self):
        self.live(self.other, lambda broker: schedule(broker, ["c"]))
        for part in ("log", "index"):
            data = self.copy(self.data, part)
            shutil.rmtree(os.path.join(data, part))
            shutil.copytree(os.path.join(self.other, part), os.path.join(data, part))
            self.refused("another cluster", data=data)

    def test_f14_a_segment_header_of_another_version_or_a_damaged_one(self):
        for at in (8, 17, 90, 200):
            self.flip(self.segment(), at)
            self.refused(".seg")
            self.flip(self.segment(), at)

    def test_f14_a_lost_index_is_made_again_from_a_whole_log(self):
        shutil.rmtree(os.path.join(self.data, "index"))
        opening = Opening(self.data)
        self.assertEqual(opening.complaints(), [])
        self.assertEqual(opening.ready["recovered_tasks"], "2")

    def test_f8_an_index_that_is_none(self):
        for change in (lambda content: b"not an index " * 1000, lambda content: bytes(len(content)), lambda content: content[:5000],
                       lambda content: content[:len(content) // 2]):
            data = self.copy(self.data, "changed")
            with open(os.path.join(data, "index", "data.mdb"), "r+b") as file:
                content = change(file.read())
                file.seek(0)
                file.truncate()
                file.write(content)
            self.refused("index", data=data)
            shutil.rmtree(data)

    def test_f14_files_in_place_of_directories_and_the_other_way_round(self):
        for name in ("log", "index", "identity", "member", "lock"):
            data = self.copy(self.data, "changed")
            path = os.path.join(data, name)
            if os.path.isdir(path):
                shutil.rmtree(path)
                with open(path, "wb") as file:
                    file.write(b"a file")
            else:
                os.unlink(path)
                os.mkdir(path)
            self.refused(data=data)
            shutil.rmtree(data)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv to be somebody else")
    def test_f14_somebody_else_s_directory(self):
        os.chmod(self.directory, 0o755)
        self.refused("denied", prefix=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])


if __name__ == "__main__":
    harness.main()
