"""clients_go_test.py: clients/go: the conformance stories, the first example of its README, and tests of Go features only."""
import os
import shutil
import subprocess
import unittest

import conformance
import harness
from harness import Case

FOLDER = os.path.normpath(os.path.join(conformance.FOLDER, "..", "go"))
BUILT = os.path.join(os.environ["TARRY_BUILD_ROOT"], "clients", "go")
ENV = {"GOCACHE": os.path.join(BUILT, "cache"), "GOPATH": os.path.join(BUILT, "path"), "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
BUILD_WAIT_S = 300


def build(folder, name):
    """Builds the program in `folder`. Returns its path."""
    program = os.path.join(BUILT, name)
    done = subprocess.run(["go", "build", "-o", program, "."], cwd=folder, env={**os.environ, **ENV}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=BUILD_WAIT_S, check=False)
    assert done.returncode == 0, done.stdout
    return program


os.makedirs(BUILT, exist_ok=True)
DRIVER = build(os.path.join(FOLDER, "conformance"), "driver")
One, Two = conformance.cases(lambda case: [DRIVER])


class Readme(Case):
    def test_the_first_example_is_short_and_runs(self):
        example = conformance.first_example(self, FOLDER, "go")
        folder = self.path("shop")
        os.mkdir(folder)
        with open(os.path.join(folder, "main.go"), "w", encoding="utf-8") as file:
            file.write('package main\n\nimport (\n\t"context"\n\t"fmt"\n\t"time"\n\n\t"tarry"\n)\n\nfunc main() {\n' + example + "}\n")
        with open(os.path.join(folder, "go.mod"), "w", encoding="utf-8") as file:
            file.write(f"module shop\n\ngo 1.19\n\nrequire tarry v0.0.0\n\nreplace tarry => {FOLDER}\n")
        conformance.run_example(self, [build(folder, "example")], {})


class Units(unittest.TestCase):
    def test_units(self):
        """Runs go vet, the tests in clients/go, and its format check."""
        for command in (["go", "vet", "./..."], ["go", "test", "./..."]):
            done = subprocess.run(command, cwd=FOLDER, env={**os.environ, **ENV}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=BUILD_WAIT_S, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"ok\s+tarry\s")
        if shutil.which("gofmt"):
            done = subprocess.run(["gofmt", "-l", FOLDER], stdout=subprocess.PIPE, text=True, check=True)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    harness.main()
