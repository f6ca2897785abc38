"""clients_python_test.py: clients/python: the conformance stories with asyncio and with threads, the first example of its
README, and tests of Python features only."""
import os
import re
import subprocess
import unittest

import conformance
import harness
from harness import Case

PYTHON = "/usr/bin/python3"  # Debian's, which has python3-websockets and python3-protobuf
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDER = os.path.join(ROOT, "clients", "python")
ENV = {"PYTHONPATH": os.path.join(os.environ["TARRY_BUILD_ROOT"], "clients", "python")}

One, Two = conformance.cases(lambda case: [PYTHON, os.path.join(conformance.FOLDER, "driver.py")], ENV)
OneThreads, TwoThreads = conformance.cases(lambda case: [PYTHON, os.path.join(conformance.FOLDER, "driver.py"), "threads"], ENV, "Threads")


class Readme(Case):
    def run_example(self, text):
        conformance.run_example(self, [PYTHON, "-c", text], {**ENV, "PYTHONUNBUFFERED": "1"})

    def test_the_first_example_is_short_and_runs(self):
        self.run_example(conformance.first_example(self, FOLDER, "python"))

    def test_the_example_for_asyncio_runs(self):
        with open(os.path.join(FOLDER, "README.md"), encoding="utf-8") as file:
            self.run_example(re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)[1])


class Units(unittest.TestCase):
    def test_units(self):
        """Runs clients/python/tests with Debian's interpreter."""
        done = subprocess.run([PYTHON, "-m", "unittest", "discover", "-s", os.path.join(FOLDER, "tests")], env={**os.environ, **ENV},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"Ran [1-9]")


if __name__ == "__main__":
    harness.main()
