"""clients_python_test.py: clients/python: the conformance stories with asyncio and with threads, the first example of its README, and what only Python has."""
import os
import re
import signal
import subprocess
import unittest

import conformance
import harness
from harness import Case

PYTHON = "/usr/bin/python3"  # Debian's, which has python3-websockets and python3-protobuf
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
README = os.path.join(ROOT, "clients", "python", "README.md")
ENV = {"PYTHONPATH": os.path.join(os.environ["TARRY_BUILD_ROOT"], "clients", "python")}
EXAMPLE_LINES_MAX = 12
WAIT_S = 30

One, Two = conformance.cases(lambda case: [PYTHON, os.path.join(conformance.FOLDER, "driver.py")], ENV)
OneThreads, TwoThreads = conformance.cases(lambda case: [PYTHON, os.path.join(conformance.FOLDER, "driver.py"), "threads"], ENV, "Threads")


def examples():
    with open(README, encoding="utf-8") as file:
        return re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)


class Readme(Case):
    def run_example(self, text):
        """Until it has printed the line about the order; then SIGTERM ends it."""
        env = {**os.environ, **ENV, "TARRY_BROKER": self.broker.url, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen([PYTHON, "-c", text], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "order 1001 is closed\n")
            self.broker.wait_stats("close-order", pending=0, ready=0, in_flight=0)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=WAIT_S)
            self.assertEqual((process.returncode, out, err), (0, "", ""))

    def test_the_first_example_is_short_and_runs(self):
        self.assertLessEqual(len(examples()[0].splitlines()), EXAMPLE_LINES_MAX)
        self.run_example(examples()[0])

    def test_the_example_for_asyncio_runs(self):
        self.run_example(examples()[1])


class Units(unittest.TestCase):
    def test_units(self):
        """clients/python/tests, by Debian's interpreter."""
        done = subprocess.run([PYTHON, "-m", "unittest", "discover", "-s", os.path.join(ROOT, "clients", "python", "tests")], env={**os.environ, **ENV},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"Ran [1-9]")


if __name__ == "__main__":
    harness.main()
