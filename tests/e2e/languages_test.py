"""languages_test.py: runs examples/ in each language with a broker, if the interpreter is installed (`./dev test --languages`
installs them)."""
import glob
import os
import re
import shutil
import subprocess
import unittest

import harness
from harness import Case

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
LINES_MAX = 60
RUN_WAIT_S = 120  # seconds; long, because go compiles first
PROGRAMS = {"order.sh": ("curl", ["sh"]), "order.py": ("python3", ["python3"]), "order.mjs": ("node", ["node"]), "order.php": ("php", ["php"]),
            "order.go": ("go", ["go", "run"]), "Order.java": ("javac", ["java"])}


class Languages(Case):
    def tell(self, name):
        """Runs the whole example; then checks the broker's records."""
        program, command = PROGRAMS[name]
        if not shutil.which(program):
            self.skipTest(f"no {program}: ./dev test --languages")
        env = {**os.environ, "TARRY_HTTP": self.broker.url.replace("ws://", "http://"), "GOCACHE": self.path("go-cache"), "GOFLAGS": "-mod=mod"}
        env.pop("TARRY_TOKEN", None)
        done = subprocess.run([*command, os.path.join(EXAMPLES, name)], cwd=self.directory, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=RUN_WAIT_S, check=False)
        self.assertEqual((done.returncode, done.stdout.splitlines()), (0, ["order-1 paid, 0 seen", "order-2 closed, attempt 1"]), done.stderr)
        for key, ended in (("order-1", "cancelled"), ("order-2", "acked")):
            self.assertEqual(self.broker.tarry("get", "close-order", key).one["state"], ended)

    def test_curl(self):
        self.tell("order.sh")

    def test_python(self):
        self.tell("order.py")

    def test_node(self):
        self.tell("order.mjs")

    def test_php(self):
        self.tell("order.php")

    def test_go(self):
        self.tell("order.go")

    def test_java(self):
        self.tell("Order.java")


class Files(unittest.TestCase):
    def test_each_is_short_and_told_of(self):
        names = {os.path.basename(path) for path in glob.glob(os.path.join(EXAMPLES, "[oO]rder.*"))}
        self.assertEqual(names, set(PROGRAMS))
        with open(os.path.join(EXAMPLES, "README.md"), encoding="utf-8") as file:
            listed = set(re.findall(r"^\| `([oO]rder\.\w+)`", file.read(), re.M))
        self.assertEqual(listed, names)
        for name in names:
            with self.subTest(name), open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
                self.assertLess(len(file.read().splitlines()), LINES_MAX)


if __name__ == "__main__":
    harness.main()
