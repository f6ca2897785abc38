"""tool_test.py: the tool with slow readers and readers that close its output, commands of --exec, terminals, verify."""
import fcntl
import glob
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
import unittest

import harness
from harness import Case

PIPE_SIZE = 65536


def unread(pipe):
    """Returns the number of bytes in the pipe that the reader has not read."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


class Completion(Case):
    autostart = False
    lines = {"tarry que": {"queue", "queues"}, "tarry queue s": {"set", "show"}, "tarry schedule --ke": {"--key"}, "tarry queue set q --pu": {"--push"},
             "tarry --broker queue sched": {"schedule"}, "tarry completion f": {"fish"}, "tarry schedule q --body --k": set()}

    def script(self, shell):
        done = subprocess.run([harness.find_program("tarry"), "completion", shell], capture_output=True, text=True, check=True)
        return self.path(f"completion.{shell}", done.stdout)

    def test_bash(self):
        script = self.script("bash")
        for line, expected in self.lines.items():
            program = f'. {script}; COMP_WORDS=({line}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _tarry; printf "%s\n" "${{COMPREPLY[@]}}"'
            done = subprocess.run(["bash", "-uc", program], capture_output=True, text=True, check=True)
            self.assertEqual((set(done.stdout.split()), done.stderr), (expected, ""), line)

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        script = self.script("zsh")
        for line, expected in self.lines.items():
            *before, last = line.split()[1:]
            done = subprocess.run(["zsh", "-fc", f'compdef() {{ }}; . {script}; _tarry_list {" ".join(before)}'], capture_output=True, text=True, check=True)
            self.assertEqual(({word for word in done.stdout.split() if word.startswith(last)}, done.stderr), (expected, ""), line)

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish(self):
        script = self.script("fish")
        for line, expected in [*self.lines.items()][:4]:
            done = subprocess.run(["fish", "-c", f"source {script}; complete -C '{line}'"], capture_output=True, text=True, check=True,
                                  env={**os.environ, "HOME": self.directory})
            self.assertEqual({word.split("\t")[0] for word in done.stdout.splitlines()}, expected, line)

    def test_another_shell_is_refused(self):
        done = subprocess.run([harness.find_program("tarry"), "completion", "csh"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("'csh' is not bash, zsh or fish", done.stderr)


class Manners(Case):
    def fill(self, count, queue="q", delay_ms=0):
        lines = [{"queue": queue, "key": f"k{i}", "delay_ms": delay_ms, "body": f"b{i}"} for i in range(count)]
        return self.broker.ok("schedule", "--from", "-", stdin="\n".join(map(json.dumps, lines)))

    def test_consume_ends_when_its_reader_has_gone(self):
        self.fill(10)
        consumer = subprocess.Popen(self.broker.command("consume", "q"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        consumer.stdout.readline()
        consumer.stdout.close()
        self.assertEqual(consumer.wait(harness.ANSWER_WAIT_S), 1)
        consumer.stderr.close()

    def test_a_slow_reader_gets_whole_lines_and_the_rest_is_released_unseen(self):  # F-19
        self.fill(3000)
        consumer = subprocess.Popen(self.broker.command("consume", "q"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        harness.wait_until("the pipe is nearly full", lambda: unread(consumer.stdout) > PIPE_SIZE * 3 // 4, harness.ANSWER_WAIT_S)
        consumer.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        first = [json.loads(line) for line in consumer.stdout]
        consumer.stdout.close()
        self.assertEqual(consumer.wait(harness.ANSWER_WAIT_S), 0)
        self.assertLess(len(first), 3000)
        second = self.broker.ok("consume", "q", "--count", 3000 - len(first))
        self.assertEqual(len({d["id"] for d in first + second}), 3000)
        self.assertEqual({d["attempt"] for d in second}, {1}, "what was never printed has cost an attempt")

    def test_a_reader_that_takes_nothing_keeps_no_consumer_from_its_end(self):  # F-19
        self.fill(3000)
        consumer = subprocess.Popen(self.broker.command("consume", "q"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(consumer.kill)
        harness.wait_until("the pipe is nearly full", lambda: unread(consumer.stdout) > PIPE_SIZE * 3 // 4, harness.ANSWER_WAIT_S)
        consumer.send_signal(signal.SIGTERM)
        self.assertEqual(consumer.wait(harness.ANSWER_WAIT_S), 0)
        first = [json.loads(line) for line in consumer.stdout]
        consumer.stdout.close()
        self.assertTrue(0 < len(first) < 3000, len(first))
        self.broker.wait_stats("q", ready=3000 - len(first))

    def test_a_command_finds_its_task_in_the_environment(self):
        task = self.broker.one("schedule", "q", "--key", "k 1", "--in", "0s", "--attr", "my-attr=v")
        out = self.path("out")
        command = f'echo "$TARRY_ID/$TARRY_QUEUE/$TARRY_KEY/$TARRY_ATTEMPT/$TARRY_DUE_MS/$TARRY_ATTR_MY_ATTR" > {out}'
        self.broker.ok("consume", "q", "--count", 1, "--exec", command)
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read().strip(), f"{task['id']}/q/k 1/1/{task['due_ms']}/v")

    def test_what_a_command_prints_is_no_answer(self):
        self.broker.one("schedule", "q", "--in", "0s", "--body", "echo said by the body")
        answer = self.broker.tarry("consume", "q", "--count", 1, "--exec", "sh")
        self.assertEqual(answer.status, 0, answer)
        self.assertEqual(answer.one["queue"], "q")  # with --json standard output contains only objects
        self.assertIn("said by the body\n", answer.err)

    def test_a_large_body_that_nobody_reads_blocks_nobody(self):
        self.broker.one("schedule", "q", "--in", "0s", "--body-file", "-", stdin=b"x" * 1_000_000)
        self.broker.ok("consume", "q", "--count", 1, "--exec", "true")

    def test_a_long_command_keeps_its_lease(self):
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s")
        self.broker.ok("consume", "q", "--count", 1, "--lease", "6s", "--exec", "sleep 7")
        task = self.broker.one("get", "q", "k")
        self.assertEqual((task["state"], task["deliveries"]), ("acked", 1))

    def test_a_command_may_finish_when_the_end_is_asked_for(self):
        self.fill(2)
        consumer = self.broker.consume("q", "--prefetch", 2, "--exec", "sleep 3")
        first = consumer.next()
        consumer.signal(signal.SIGTERM)
        self.assertEqual(consumer.wait(), 0)
        self.assertEqual(self.broker.one("get", "--id", first["id"])["state"], "acked")
        self.assertEqual([d["attempt"] for d in self.broker.ok("consume", "q", "--count", 1)], [1])

    def test_lines_are_answered_one_by_one_as_they_come(self):
        stream = self.broker.stream("schedule", "--from", "-", stdin=True)
        for number in range(1, 6):
            stream.send({"queue": "q", "delay_ms": 60000})
            self.assertEqual(stream.next()["line"], number)
        stream.send("garbage", "")
        self.assertEqual([a["result"] for a in stream.take(2)], ["error", "error"])
        stream.end_input()
        self.assertEqual(stream.wait(), 1)

    def test_what_a_command_prints_another_may_read(self):
        self.fill(20, delay_ms=60000)
        listed = "\n".join(json.dumps(task) for task in self.broker.ok("list", "q"))
        self.assertEqual({a["result"] for a in self.broker.ok("cancel", "--from", "-", stdin=listed)}, {"cancelled"})

    def on_terminal(self, *arguments):
        pid, terminal = pty.fork()
        if pid == 0:
            command = [word for word in self.broker.command(*arguments) if word != "--json"]
            os.execv(command[0], command)
        out = b""
        while select.select([terminal], [], [], 30)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the other side has closed the connection
                break
            if not data:
                break
            out += data
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), out.decode()

    def test_a_bar_on_a_terminal_and_none_in_a_pipe(self):
        path = self.path("tasks.ndjson")
        with open(path, "w", encoding="utf-8") as file:
            for number in range(100_000):
                file.write(json.dumps({"queue": "q", "key": f"k{number}", "delay_ms": 3_600_000}) + "\n")
        status, out = self.on_terminal("schedule", "--from", path)
        self.assertEqual(status, 0, out)
        self.assertIn("█", out)
        self.assertIn("100000 scheduled", out)
        answer = self.broker.tarry("cancel", "--from", path, wait_s=120)
        self.assertEqual((answer.status, len(answer.objects)), (0, 100_000))
        self.assertNotIn("\r", answer.err)


class Verify(Case):
    def test_fine_then_damaged_with_the_place(self):
        for number in range(20):
            self.broker.one("schedule", "q", "--key", f"k{number}", "--in", "1h", "--body", f"body {number}")
        answer = self.broker.refused("verify", self.broker.data)
        self.assertIn("locked", answer.err)
        digest = self.broker.queue_stats(None)["digest"]
        self.assertEqual(self.broker.stop(), 0)
        fine = self.broker.one("verify", self.broker.data)
        self.assertEqual((fine["result"], fine["live"], fine["contents"]), ("fine", 20, 20))
        self.assertEqual((fine["erased"], fine["erasures_under_way"]), (0, 0))
        told = subprocess.run([harness.find_program("tarry"), "verify", self.broker.data], capture_output=True, text=True, check=True).stdout
        self.assertIn(f"index   position {fine['index_position']}, {fine['rows']} rows\n", told)
        self.assertIn(f"log     positions {fine['log_start']} … {fine['log_end']}, {fine['segments']} segments, epoch {fine['epoch']}\n", told)
        self.assertEqual(fine["digest"], digest)
        segment = sorted(glob.glob(os.path.join(self.broker.data, "log", "*.seg")))[0]
        with open(segment, "r+b") as file:
            data = file.read(65536)
            at = data.index(b"body 7")
            file.seek(at)
            file.write(b"BODY 7")
        damaged = self.broker.refused("verify", self.broker.data)
        self.assertEqual(damaged.one["result"], "damaged")
        self.assertIn(os.path.basename(segment), damaged.one["message"])
        self.assertRegex(damaged.one["action"], f"^move {self.broker.data} away and keep it.*tarry restore BACKUP --data DIR$")
        with open(segment, "r+b") as file:
            file.seek(at)
            file.write(b"body 7")
        self.assertEqual(self.broker.one("verify", self.broker.data)["result"], "fine")

    def test_where_two_logs_part_both_frames_are_described(self):
        self.broker.one("schedule", "q", "--key", "both", "--in", "1h")
        self.assertEqual(self.broker.stop(), 0)
        other = self.make_broker(data=self.path("other"))
        shutil.copytree(self.broker.data, other.data)
        self.assertEqual(self.broker.one("verify", self.broker.data, "--against", other.data)["result"], "same")
        for broker in (self.broker, other):
            broker.start()
            self.assertEqual(broker.stop(), 0)
        told = self.broker.refused("verify", self.broker.data, "--against", other.data).one
        self.assertEqual(told["result"], "differs")
        for frame in (told["frame"], told["against_frame"]):
            self.assertRegex(frame, r"^commit of epoch 2, 20\d\d-[^ ]*: start; 0 bytes of contents$")

    def test_a_directory_of_somebody_else(self):  # F-14
        self.assertEqual(self.broker.tarry("verify", "/").status, 1)
        self.assertEqual(self.broker.tarry("verify", "/nonexistent").status, 1)


if __name__ == "__main__":
    harness.main()
