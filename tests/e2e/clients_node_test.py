"""clients_node_test.py: clients/node: the conformance stories, the first example of its README, its types, its tarball, and
tests of Node features only."""
import atexit
import glob
import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest

import conformance
import harness
from harness import Case

FOLDER = os.path.join(conformance.FOLDER, "..", "node")
TARBALL = os.path.join(os.environ["TARRY_BUILD_ROOT"], "clients", "node", "tarry-client-0.1.0.tgz")
# Directory with the package as installed from its tarball, and with Debian's module node-ws, which other Node versions
# do not find.
MODULES = tempfile.mkdtemp(prefix="tarry-node-")
atexit.register(shutil.rmtree, MODULES, ignore_errors=True)
with tarfile.open(TARBALL) as tar:
    tar.extractall(MODULES)
os.rename(os.path.join(MODULES, "package"), os.path.join(MODULES, "tarry-client"))
ENV = {"NODE_PATH": f"{MODULES}:/usr/share/nodejs"}

One, Two = conformance.cases(lambda case: ["node", os.path.join(conformance.FOLDER, "driver.js")], ENV)


class Readme(Case):
    def test_the_first_example_is_short_and_runs(self):
        conformance.run_example(self, ["node", "-e", conformance.first_example(self, FOLDER, "js")], ENV)


class Units(unittest.TestCase):
    def test_units(self):
        """Runs clients/node/test with Node's own test runner."""
        done = subprocess.run(["node", "--test", *sorted(glob.glob(os.path.join(FOLDER, "test", "*.test.js")))], env={**os.environ, **ENV}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"# pass [1-9]|ℹ pass [1-9]")

    @unittest.skipUnless(shutil.which("tsc"), "no tsc: apt-get install node-typescript")
    def test_the_types_hold(self):
        """A program that uses every call compiles, and programs with wrong types do not compile."""
        done = subprocess.run(["tsc", "--noEmit", "--strict", "--target", "es2022", "--lib", "es2022,dom", "--module", "commonjs", os.path.join(FOLDER, "test", "types.ts")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


if __name__ == "__main__":
    harness.main()
