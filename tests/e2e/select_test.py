"""select_test.py: tarry select: shift and cancel as jobs that can be resumed; no task is shifted twice."""
import contextlib
import json
import os
import resource
import signal
import subprocess

import harness
from harness import Case, now_ms

HOUR_MS = 3600000
FAR_MS = now_ms() + 30 * 24 * HOUR_MS


def limit_files():
    """Runs in the new process: no file may be larger than 8 KiB, as if the disk was full. A write beyond this size fails, and the
    kernel sends SIGXFSZ, which stays pending because it is blocked.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGXFSZ,))
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))


def has_failed_write(pid):
    """Returns whether SIGXFSZ is pending in the process's main thread."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        pending = next(line.split()[1] for line in file if line.startswith("SigPnd:"))
    return bool(int(pending, 16) >> signal.SIGXFSZ - 1 & 1)


class Select(Case):
    def setUp(self):
        super().setUp()
        self.job = self.path("job")

    def fill(self, count):
        self.broker.schedule_all([{"queue": "q", "key": f"k{i}", "due_ms": FAR_MS + i * 1000, "attributes": {"lang": "de" if i % 3 == 0 else "fr"}}
                                  for i in range(count)])

    def due(self):
        return {task["key"]: task["due_ms"] for task in self.broker.ok("list", "q")}

    @contextlib.contextmanager
    def shifting(self, *arguments):
        """Begins a job that shifts all tasks by 9 h. Yields the running tool when its first batch is done."""
        command = self.broker.command("select", "shift", "q", "--by", "9h", "--job", self.job, *arguments)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tool:
            while not os.path.exists(self.job + ".at") and tool.poll() is None:
                pass  # no pause is necessary: the first batch takes milliseconds
            yield tool

    def check_resumed(self, before):
        """Resumes the job; every task is then shifted exactly once."""
        self.assertEqual(self.broker.one("select", "resume", self.job), {"result": "done", "tasks": 30000, "moved": 30000, "left": 0})
        self.assertEqual(self.due(), {key: due_ms + 9 * HOUR_MS for key, due_ms in before.items()})

    def test_a_shift_moves_each_match_once_and_nothing_else(self):
        self.fill(2500)
        before = self.due()
        selected = ("--due-from", FAR_MS + 100 * 1000, "--due-to", FAR_MS + 2400 * 1000)
        dry = self.broker.ok("select", "shift", "q", "--by", "1h", *selected, "--dry-run")
        self.assertEqual((dry[-1], len(dry)), ({"result": "dry_run", "tasks": 2300}, 11))
        self.assertEqual((dry[0]["key"], dry[0]["due_ms"], dry[0]["new_due_ms"]), ("k100", before["k100"], before["k100"] + HOUR_MS))
        self.assertEqual(self.due(), before)
        # The due times are moved by 1000 s, which is less than the selected range of due times. So the moved tasks
        # match the selection again, but must not be moved twice.
        self.assertEqual(self.broker.one("select", "shift", "q", "--by", "1000s", *selected, "--job", self.job), {"result": "done", "tasks": 2300, "moved": 2300, "left": 0})
        expected = {key: due_ms + (1000000 if 100 <= int(key[1:]) < 2400 else 0) for key, due_ms in before.items()}
        self.assertEqual(self.due(), expected)
        self.assertEqual(self.broker.one("select", "resume", self.job)["result"], "done")
        self.assertEqual(self.due(), expected)
        answer = self.broker.tarry("select", "shift", "q", "--by", "1h", "--job", self.job)
        self.assertEqual(answer.status, 2)
        self.assertIn("exists: 'tarry select resume' goes on with it", answer.err)
        self.assertEqual(self.due(), expected)

    def test_a_job_that_was_killed_goes_on(self):
        self.fill(30000)
        before = self.due()
        with self.shifting() as tool:
            tool.send_signal(signal.SIGKILL)
        with open(self.job + ".at", encoding="ascii") as file:
            done = int(file.read().split()[0])
        self.assertGreater(done, 0)
        self.broker.restart()
        self.check_resumed(before)
        moves = [entry["key"] for entry in self.broker.ok("audit", "--kind", "moved")]
        self.assertLessEqual(len(moves), 30000 + 1000)  # at most one batch was sent again

    def test_a_batch_without_an_answer_is_not_done(self):
        self.fill(30000)
        before = self.due()
        fast = self.broker.env
        # Each of the 30 batches takes some 50 ms, so that on a busy machine too the tool is stopped before the last one.
        self.broker.env = {**fast, **harness.preloaded("libslow_sync.so"), "SLOW_SYNC_MS": "100"}
        self.broker.restart()
        with self.shifting("--timeout", "1s") as tool:
            tool.send_signal(signal.SIGSTOP)
            self.broker.kill()
            tool.send_signal(signal.SIGCONT)
            answers = [json.loads(line) for line in tool.communicate(timeout=120)[0].splitlines()]
        self.assertEqual((answers[-1]["result"], answers[-1]["left"], tool.returncode), ("interrupted", 0, 3), answers)
        self.broker.env = fast
        self.broker.start()
        self.check_resumed(before)

    def test_a_file_that_was_not_written_completely_starts_no_job(self):
        self.fill(5000)
        before = self.due()
        command = self.broker.command("select", "shift", "q", "--by", "9h", "--attr", "lang=de", "--job", self.job)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=limit_files) as tool:
            while tool.poll() is None and not has_failed_write(tool.pid):
                pass  # no pause is necessary: the tool writes 8 KiB within milliseconds
            with contextlib.suppress(ProcessLookupError):  # as if the disk has space again
                resource.prlimit(tool.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            message = tool.communicate(timeout=120)[1]
        self.assertEqual(tool.returncode, 1, message)
        self.assertIn("File too large", message)
        self.assertFalse(os.path.exists(self.job))
        self.assertEqual(self.due(), before)

    def test_a_job_whose_file_may_be_lost_changes_nothing(self):
        self.fill(3)
        before = self.due()
        answer = self.broker.tarry("select", "shift", "q", "--by", "9h", "--job", self.job, env=harness.preloaded("libbad_directory.so"))
        self.assertEqual(answer.status, 1)
        self.assertIn("Input/output error", answer.err)
        self.assertEqual(self.due(), before)

    def test_cancel_by_prefix_and_attribute(self):
        self.fill(30)
        self.assertEqual(self.broker.one("select", "cancel", "q", "--prefix", "k1", "--attr", "lang=de", "--job", self.job), {"result": "done", "tasks": 3, "cancelled": 3, "left": 0})
        self.assertEqual(set(self.due()), {f"k{i}" for i in range(30)} - {"k12", "k15", "k18"})

    def test_what_has_ended_meanwhile_is_left_and_a_spread_is_kept(self):
        self.broker.ok("queue", "set", "q", "spread=1h")
        self.fill(20)
        before = self.due()
        self.broker.ok("select", "shift", "q", "--by", "2d", "--earlier", "--job", self.job)
        self.assertEqual(self.due(), {key: due_ms - 48 * HOUR_MS for key, due_ms in before.items()})
        self.broker.one("cancel", "q", "k7")
        os.unlink(self.job + ".at")  # simulates a tool that was killed before it stored the result of the first batch
        answer = self.broker.tarry("select", "resume", self.job)
        self.assertEqual((answer.status, answer.one), (1, {"result": "done", "tasks": 20, "moved": 19, "left": 1}))
        self.assertEqual(self.due(), {key: due_ms - 48 * HOUR_MS for key, due_ms in before.items() if key != "k7"})

    def test_a_damaged_line_of_a_job_is_named(self):
        self.fill(4)
        job = self.job
        self.broker.ok("select", "shift", "q", "--by", "1h", "--job", job)
        with open(job, encoding="ascii") as file:
            lines = file.read().splitlines(keepends=True)
        due = self.due()
        for damaged in ("x" + lines[3], lines[3].split()[0] + "\n"):
            with open(job, "w", encoding="ascii") as file:
                file.write("".join([*lines[:3], damaged, *lines[4:]]))
            os.unlink(job + ".at")
            answer = self.broker.tarry("select", "resume", job)
            self.assertEqual(answer.status, 2, answer)
            self.assertIn(f"{job}, line 4: expected a task's id and a time in ms", answer.err)
            self.assertNotIn("select again", answer.err)  # a new job would shift the tasks a second time
            self.assertEqual(self.due(), due)

    def test_bad_input_changes_nothing(self):
        self.fill(3)
        before = self.due()
        with open(self.job, "w", encoding="ascii") as file:
            file.write(f"tarry-select 1 shift {'0' * 32} 1\n1 5\n")
        for arguments, word in ((("shift", "q", "--job", self.job + ".2"), "--by is missing"), (("shift", "q", "--by", "0s", "--dry-run"), "--by"), (("shift", "q", "--by", "1h"), "either --job FILE or --dry-run"),
                                (("cancel", "q", "--job", self.job + ".2", "--dry-run"), "either --job FILE or --dry-run"), (("cancel", "q", "--attr", "de", "--dry-run"), "'de' is not name=value"),
                                (("resume", self.job), "the job is for the cluster 0000"), (("resume", __file__), "this is no job of 'tarry select'")):
            answer = self.broker.tarry("select", *arguments)
            self.assertEqual(answer.status, 2, answer.err)
            self.assertIn(word, answer.err)
        self.assertEqual(self.due(), before)


if __name__ == "__main__":
    harness.main()
