"""nng_consumer_test.py: the consumer examples that use only nng, in C (client/examples/nng_consumer.c) and with pynng
(nng_consumer.py), built by the commands in their first comments. pynng_part/pynng.py replaces pynng if that is not installed."""
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys

import harness
from harness import main, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EXAMPLES = os.path.join(ROOT, "client", "examples")
INSTALLED = "/usr/share/tarry"
LINES_MAX = 90
WAIT_S = 30


class Consumer:
    """Runs one example in a directory of its own, over one of nng's transports."""
    name = None
    transport = "ws"

    autostart = False

    def setUp(self):
        super().setUp()
        self.begin()
        with open(os.path.join(EXAMPLES, self.name), encoding="utf-8") as file:
            self.text = file.read()
        with open(os.path.join(self.directory, self.name), "w", encoding="utf-8") as file:
            file.write(self.text)
        for command in self.build_commands():
            subprocess.run(shlex.split(command.replace(INSTALLED, os.path.join(ROOT, "proto"))), cwd=self.directory, timeout=WAIT_S, check=True)

    def begin(self):
        """Starts a broker that listens at an address of this transport, too."""
        listens = {"ws": [], "tcp": [], "ipc": [f"ipc://{self.directory}/nng.sock"]}[self.transport]
        self.broker.arguments += [word for listen in listens for word in ("--listen", listen)]
        self.broker.start()
        urls = self.broker.ready.get("urls", self.broker.url).split()
        self.url = next((url for url in urls if url.startswith(self.transport + "://")), self.broker.url.replace("ws://", "tcp://"))

    def build_commands(self):
        """Returns the commands in the example's first comment, without the last one, which runs the example."""
        return [line.split("      (")[0].strip() for line in re.findall(r"^(?: \*)? {4,5}((?:protoc|cc)\b.*)$", self.text, re.MULTILINE)]

    def consume(self, count, *, queue="close-order"):
        return subprocess.Popen([*self.command(), self.url, queue, *([str(count)] if count else [])], cwd=self.directory, env=self.environment(),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def environment(self):
        return dict(os.environ)

    def schedule(self, *keys):
        for key in keys:
            self.broker.ok("schedule", "close-order", "--key", key, "--in", "1ms", "--body", f"body of {key}")

    def test_the_example_is_short(self):
        self.assertLessEqual(len(self.text.splitlines()), LINES_MAX)

    def test_tasks_are_printed_and_acked(self):
        keys = [f"order-{number}" for number in range(20)]
        consumer = self.consume(len(keys))
        self.schedule(*keys)
        said, complaint = consumer.communicate(timeout=WAIT_S)
        self.assertEqual((consumer.returncode, complaint), (0, ""))
        self.assertEqual(sorted(said.splitlines()), sorted(f"{key} body of {key}" for key in keys))
        for key in keys:
            self.assertEqual(self.broker.one("get", "close-order", key)["state"], "acked")

    def test_a_killed_consumer_loses_nothing(self):
        self.schedule("order-1")
        first = self.consume(None)
        self.assertEqual(first.stdout.readline(), "order-1 body of order-1\n")
        first.send_signal(signal.SIGKILL)
        first.communicate(timeout=WAIT_S)
        self.schedule("order-2")
        second = self.consume(None)
        lines = []
        while lines[-1:] != ["order-2 body of order-2\n"]:
            lines.append(second.stdout.readline())
            self.assertNotEqual(lines[-1], "", second.returncode)
        wait_until("the acks", lambda: [self.broker.one("get", "close-order", key)["state"] for key in ("order-1", "order-2")] == ["acked", "acked"], WAIT_S)
        second.kill()
        second.communicate(timeout=WAIT_S)
        self.assertLessEqual(set(lines), {"order-1 body of order-1\n", "order-2 body of order-2\n"})

    def test_an_idle_consumer_keeps_its_session(self):
        """The consumer sends heartbeats: with leases of 1 s, the broker ends a session after 1 s of silence."""
        self.broker.ok("queue", "set", "close-order", "lease=1s")
        consumer = self.consume(2)
        self.schedule("order-1")
        self.broker.ok("schedule", "close-order", "--key", "order-2", "--in", "3s", "--body", "body of order-2")
        said, complaint = consumer.communicate(timeout=WAIT_S)
        self.assertEqual((consumer.returncode, complaint, said), (0, "", "order-1 body of order-1\norder-2 body of order-2\n"))

    def test_a_refusal_is_told(self):
        consumer = self.consume(1, queue="a" * 129)
        said, complaint = consumer.communicate(timeout=WAIT_S)
        self.assertEqual((consumer.returncode, said), (1, ""))
        self.assertIn("nng_consumer: refused: queue name is longer than 128 bytes", complaint)


class InC(Consumer, harness.Case):
    name = "nng_consumer.c"

    def command(self):
        return ["./nng_consumer"]


class InPython(Consumer, harness.Case):
    name = "nng_consumer.py"

    def command(self):
        return ["/usr/bin/python3", self.name]  # Debian's, which has python3-protobuf

    def environment(self):
        part = [] if importlib.util.find_spec("pynng") else [os.path.join(HERE, "pynng_part")]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(part or sys.path)}


class InCOverTcp(InC):
    transport = "tcp"


class InCOverIpc(InC):
    transport = "ipc"


class InPythonOverTcp(InPython):
    transport = "tcp"


del Consumer
if __name__ == "__main__":
    main()
