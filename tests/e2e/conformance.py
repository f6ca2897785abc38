"""conformance.py: runs clients/conformance/*.json on one client library, through its driver; clients/conformance/README.md has the steps.

A driver is a process that makes calls (JSON lines on standard input) and prints answers and events. This module starts brokers and drivers, carries out
the steps, and keeps the ledger: which task was handled when, and how it was settled."""
import glob
import json
import os
import re
import signal
import subprocess
import threading
import time

import harness
import pair
import tokens
from certificates import Authority
from harness import Broken, wait_until

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients", "conformance")
WAIT_S = 30


def holds(expected, found):
    """Returns whether `found` contains every expected member; other members are ignored. {"ends": TEXT} means a text with this
    ending.
    """
    if isinstance(expected, dict) and "ends" in expected:
        return isinstance(found, str) and found.endswith(expected["ends"])
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(name in found and holds(value, found[name]) for name, value in expected.items())
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(holds, expected, found))
    return expected == found


class Driver:
    """A process of the library under test."""

    def __init__(self, command, env, ledger):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        self.ledger, self.answers, self.errors, self.calls = ledger, {}, [], 0
        self.readers = [threading.Thread(target=self._read, daemon=True), threading.Thread(target=self._read_errors, daemon=True)]
        for reader in self.readers:
            reader.start()

    def _read(self):
        for line in self.process.stdout:
            try:
                item = json.loads(line)
            except ValueError:
                if line.endswith(b"\n"):
                    self.errors.append(f"no JSON: {line!r}")
                return  # the driver was killed while it wrote a line
            if "event" in item:
                self.ledger.append({**item, "arrived_ms": harness.now_ms()})
            else:
                self.answers[item["id"]] = item

    def _read_errors(self):
        for line in self.process.stderr:
            self.errors.append(line.decode(errors="replace").rstrip())

    def send(self, **call):
        self.calls += 1
        self.process.stdin.write(json.dumps({"id": self.calls, **call}).encode() + b"\n")
        return self.calls

    def flush(self):
        self.process.stdin.flush()

    def answer(self, number, wait_s=WAIT_S):
        wait_until(f"the answer to call {number}", lambda: number in self.answers or self.process.poll() is not None, wait_s)
        for reader in self.readers if number not in self.answers else ():
            reader.join(5)
        assert number in self.answers, f"the driver ended with {self.process.poll()}"
        return self.answers[number]

    def end(self):
        """Closes the driver's input, which ends the driver."""
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        for reader in self.readers:
            reader.join(5)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        return self.process.returncode


class Story:
    """A file of steps, which a test case executes."""

    def __init__(self, case, command, env, after_term):
        self.after_term = after_term
        self.case, self.command, self.env = case, command, {**os.environ, **(env or {})}
        self.drivers, self.ledger, self.numbered, self.expected = {}, [], [], 0
        self.due = {}  # name of a task → due_ms, from replies

    # ---- brokers

    def start(self, story):
        kind = story["broker"]
        getattr(self, f"_start_{kind}")()
        for queue, policy in story.get("policies", {}).items():
            self.case.broker.ok("queue", "set", queue, *policy)

    def _start_one(self):
        self.case.broker.start()
        self.env["TARRY_BROKER"] = self.case.broker.url

    def _start_pair(self):
        self.case.start_pair()
        self.case.broker = self.case.a
        self.env["TARRY_BROKER"] = f"{self.case.a.url},{self.case.b.url}"

    def _start_secure(self):
        broker, directory = self.case.broker, self.case.directory
        authority = Authority(directory)
        Authority(directory, "strange")
        authority.serve(broker)
        for name in ("right", "wrong"):
            harness.make_private(os.path.join(directory, f"{name}.token"), tokens.text_of(name) + "\n")
        rows = tokens.FIRST_LINE + tokens.row("right", "produce,consume,read", "queue=work") + tokens.row("admin", "produce,consume,read,operate,admin")
        harness.make_private(os.path.join(directory, "rows"), rows)
        broker.arguments += ["--tokens", os.path.join(directory, "rows")]
        broker.start()
        self.env.update(TARRY_BROKER=broker.url, TARRY_TLS_CA=authority.ca, TARRY_TOKEN_FILE=os.path.join(directory, "right.token"))

    # ---- steps

    def driver(self, step):
        name = step.get("process", "main")
        if name not in self.drivers:
            env = {variable: value.replace("{directory}", self.case.directory) for variable, value in step.get("env", {}).items()}
            if step.get("timeout_ms"):
                env["TARRY_TEST_TIMEOUT_MS"] = str(step["timeout_ms"])
            self.drivers[name] = Driver(self.command, {**self.env, **env}, self.ledger)
        return self.drivers[name]

    def carry_out(self, step):
        kind = next(iter(step))
        getattr(self, f"_step_{kind}")(step)

    def _step_call(self, step):
        call = {name: value for name, value in step.items() if name not in ("process", "wait", "expect", "env", "name", "timeout_ms")}
        if "name" in step:
            call["attributes"] = {**call.get("attributes", {}), "name": step["name"]}
        driver = self.driver(step)
        number = driver.send(**call)
        driver.flush()
        if step.get("wait", True):
            answer = driver.answer(number)
            assert holds(step.get("expect", {}), answer), f"{step}: {answer}"

    def _step_numbered(self, step):
        """Schedules many tasks, named PREFIX-0, PREFIX-1, …"""
        asked, driver = step["numbered"], self.driver(step)
        self.expected += asked["count"]

        def send_all():
            for number in range(asked["count"]):
                name = f"{asked['prefix']}-{number}"
                key = {} if asked.get("keyless") else {"key": name}
                call = driver.send(call="schedule", queue=asked["queue"], body=asked["body"], delay_ms=asked.get("delay_ms", 0),
                                   attributes={"name": name}, **key)
                self.numbered.append((driver, call, name))
                if asked.get("every_ms"):
                    driver.flush()
                    time.sleep(asked["every_ms"] / 1000)  # the length of the pause sets the rate of the load
            driver.flush()
        sender = threading.Thread(target=send_all)
        sender.start()
        if step.get("wait", True):
            sender.join()
            self._await_answers(self.expected)

    def _answers(self):
        found = 0
        for driver, number, name in list(self.numbered):
            answer = driver.answers.get(number)
            if answer is None:
                continue
            if answer["code"] != "OK":
                raise Broken(f"schedule {name}: {answer}")
            self.due[name] = answer["due_ms"]
            found += 1
        return found

    def _await_answers(self, count):
        wait_until(f"{count} answers", lambda: self._answers() >= count, WAIT_S)

    def _matching(self, pattern):
        prefix = pattern.get("prefix", "")
        plain = {name: value for name, value in pattern.items() if name not in ("prefix", "count")}
        return [item for item in list(self.ledger) if holds(plain, item) and (item.get("name") or "").startswith(prefix)]

    def _step_await(self, step):
        asked = step["await"]
        if "answers" in asked:
            self._await_answers(asked["answers"])
        elif "ready" in asked:
            self.case.broker.wait_stats(asked["queue"], ready=asked["ready"])
        else:
            wait_until(f"{asked}", lambda: len(self._matching(asked)) >= asked.get("count", 1), WAIT_S)

    def _step_events(self, step):
        found = self._matching(step["events"])
        assert holds(step["expect"], found), f"{step}: {found}"
        for before, after in zip(found, found[1:]):
            assert after["delivered_ms"] - before["delivered_ms"] >= step.get("apart_ms", 0), f"{step}: {found}"

    def _step_broker(self, step):
        if step["broker"] == "kill":
            self.case.broker.kill()
            if self.case.broker is getattr(self.case, "a", None):
                self.case.broker = self.case.b
        else:
            self.case.broker.start()

    def _step_signal(self, step):
        self.drivers[step["process"]].process.send_signal(getattr(signal, "SIG" + step["signal"]))
        if step["signal"] == "KILL":
            self.drivers[step["process"]].process.wait()

    def _step_ended(self, step):
        driver = self.drivers.pop(step["ended"])
        if self.after_term == 0:
            driver.answer(1)  # reply to the call `worker`, which is the only call of this driver's process
        self.drivers[f"{step['ended']} (ended)"] = driver
        assert driver.end() == self.after_term, f"{step}: {driver.process.returncode}"

    def _step_once(self, step):
        """Checks each numbered task of this prefix: the broker's log has exactly one record of its schedule and one of its
        ack, one ack was answered, and no delivery was early. `alone`: the queue has no other tasks, so its total counts
        also show that no schedule took effect twice.
        """
        asked = step["once"]
        names = {name for _, _, name in self.numbered if name.startswith(asked["prefix"] + "-")}
        acked = [item["name"] for item in self._matching({"event": "settled", "result": "acked", "prefix": asked["prefix"] + "-"})]
        handled = self._matching({"event": "task", "prefix": asked["prefix"] + "-"})
        if sorted(acked) != sorted(names):
            raise Broken(f"acked: lost {sorted(names - set(acked))}, twice {sorted(name for name in set(acked) if acked.count(name) > 1)}")
        self._answers()
        for item in handled:
            first_ms = min(item["delivered_ms"], item["arrived_ms"])
            if first_ms < item["due_ms"] or item["due_ms"] < self.due[item["name"]] and item["attempt"] == 1:
                raise Broken(f"TIME-1: {item}, due {self.due[item['name']]}")
            if item["deliveries"] > asked.get("deliveries", item["deliveries"]):
                raise Broken(f"delivered again: {item}")
        stats = self.case.broker.queue_stats(asked["queue"])
        assert stats["pending"] == stats["ready"] == stats["in_flight"] == 0, stats
        wanted = {driver.answers[number]["task"] for driver, number, name in self.numbered if name in names}
        records = self.case.broker.ok("audit", "--queue", asked["queue"], "--kind", "scheduled,acked")
        for kind in ("scheduled", "acked"):
            ids = [record["id"] for record in records if record["kind"] == kind]
            if [id for id in ids if id in wanted and ids.count(id) > 1] or wanted - set(ids):
                raise Broken(f"{kind}: the log has {len(ids)} records for {len(wanted)} tasks")
        # For tasks without keys: a repeated schedule made no second task, because it had the same sequence.
        if asked.get("alone") and len(records) != 2 * len(self.numbered):
            raise Broken(f"the log has {len(records)} records, not {2 * len(self.numbered)}")

    def end(self):
        errors = []
        for name, driver in self.drivers.items():
            try:
                driver.end()
            finally:
                errors += [f"{name}: {line}" for line in driver.errors]
        return errors


def run(case, name, command, env=None, after_term=0):
    """Runs clients/conformance/NAME.json. `after_term`: exit status of a driver that drained at SIGTERM (143 for Java). Prints
    the drivers' standard error if a step fails."""
    with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as file:
        told = json.load(file)
    story, done = Story(case, command, env, after_term), False
    try:
        story.start(told)
        for step in told["steps"]:
            started = time.monotonic()
            try:
                story.carry_out(step)
            except AssertionError as error:
                raise type(error)(f"{name}.json, {step}: {error}") from error
            if os.environ.get("TARRY_TEST_STEPS"):
                print(f"# {time.monotonic() - started:6.2f} s {step}", flush=True)
        done = True
    finally:
        errors = story.end()
        for line in [] if done else errors[-200:]:
            print(f"# {line}")


def names(kind):
    """Returns the names of the stories for one broker, or for a pair."""
    found = []
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.json"))):
        with open(path, encoding="utf-8") as file:
            if (json.load(file)["broker"] == "pair") == (kind == "pair"):
                found.append(os.path.basename(path).removesuffix(".json"))
    assert found
    return found


EXAMPLE_LINES_MAX = 12  # maximum number of lines of a README's first example


def first_example(case, folder, language):
    """Returns the first block of that language in the README of `folder`; the block must be short."""
    with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
        example = re.findall(rf"^```{language}\n(.*?)^```$", file.read(), re.M | re.S)[0]
    case.assertLessEqual(len(example.splitlines()), EXAMPLE_LINES_MAX)
    return example


def run_example(case, command, env, line="order 1001 is closed\n", after_term=0):
    """Runs an example with the case's broker until the example has printed `line` and acked; then SIGTERM must end it without
    further output."""
    with subprocess.Popen(command, env={**os.environ, **env, "TARRY_BROKER": case.broker.url}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            case.assertEqual(process.stdout.readline(), line)
            case.broker.wait_stats("close-order", pending=0, ready=0, in_flight=0)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=WAIT_S)
            case.assertEqual((process.returncode, out, err), (after_term, "", ""))
        finally:
            process.kill()  # otherwise a failed test would wait for a worker that does not end


def cases(command, env=None, how="", after_term=0):
    """Returns test classes with a test for each script of calls (a story). `command(case)` returns the command that starts the
    library's driver. `how` is appended to the tests' names.
    """
    def test_of(name):
        return lambda self: run(self, name, command(self), env, after_term)

    one = {f"test_{name}": test_of(name) for name in names("one")}
    two = {f"test_{name}": test_of(name) for name in names("pair")}
    return (type("One" + how, (harness.Case,), {"autostart": False, "__module__": "__main__", **one}),
            type("Two" + how, (pair.Case,), {"__module__": "__main__", **two}))
