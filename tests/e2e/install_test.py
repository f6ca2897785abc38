"""install_test.py: `meson install` puts everything where a packager and a C programmer look for it."""
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

import harness

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")


DEFAULT_PORT = 7272


def is_taken(port):
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="tarry-install-")
        cls.prefix = os.path.join(cls.directory, "usr", "local")
        done = subprocess.run(["meson", "install", "-C", os.environ["TARRY_BUILD_ROOT"], "--no-rebuild", "--destdir", cls.directory],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout
        cls.files = [os.path.relpath(os.path.join(d, f), cls.directory) for d, _, names in os.walk(cls.directory) for f in names]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.directory)

    def find(self, pattern):
        found = [f for f in self.files if re.search(pattern, f)]
        self.assertTrue(found, f"nothing like {pattern} among {self.files}")
        return os.path.join(self.directory, found[0])

    def test_everything_is_there(self):
        for pattern in (r"bin/tarryd$", r"bin/tarry$", r"include/tarry\.h$", r"libtarry\.so\.0", r"pkgconfig/tarry\.pc$",
                        r"man/man1/tarry\.1", r"man/man8/tarryd\.8", r"systemd/system/tarry\.service$",
                        r"systemd/system/tarry-pair\.service$", r"doc/tarry/examples/pair-a\.conf$", r"examples/pair-b\.conf$"):
            self.find(pattern)

    def test_the_units_name_the_installed_program(self):
        for unit in (r"tarry\.service$", r"tarry-pair\.service$"):
            with open(self.find(unit), encoding="utf-8") as file:
                self.assertIn("ExecStart=/usr/local/bin/tarryd ", file.read())

    def test_systemd_understands_the_units(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze")
        for unit in (r"tarry\.service$", r"tarry-pair\.service$"):
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", self.find(unit)], capture_output=True, text=True, check=False)
            complaints = [line for line in done.stderr.splitlines() if "tarry" in line and "is not executable" not in line]
            self.assertEqual(complaints, [])

    def test_the_samples_of_a_pair_are_right(self):
        """Every option of theirs is one of tarryd's, with a value that it takes, and the two nodes name each other."""
        tarryd, said = harness.find_program("tarryd"), {}
        usage = subprocess.run([tarryd, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        if "--coordinator" not in usage:
            self.skipTest("this tarryd knows no pairs")
        for node in ("a", "b"):
            sample = self.find(rf"examples/pair-{node}\.conf$")
            done = subprocess.run([tarryd, "--print-config", "--config", sample], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(sample, encoding="utf-8") as file:
                said[node] = dict(re.findall(r"^([a-z-]+) = (.*)$", file.read(), re.MULTILINE))
        self.assertEqual((said["a"]["peer"], said["b"]["follow"]), (said["b"]["listen"], said["a"]["listen"]))
        for same in ("coordinator", "replication", "solo-after", "memory"):
            self.assertEqual(said["a"][same], said["b"][same])

    def test_only_tarry_symbols_are_visible(self):
        if not shutil.which("nm"):
            self.skipTest("no nm")
        done = subprocess.run(["nm", "-D", "--defined-only", self.find(r"libtarry\.so\.0")], stdout=subprocess.PIPE, text=True, check=True)
        names = [line.split()[-1].split("@")[0] for line in done.stdout.splitlines()]
        self.assertEqual([n for n in names if not re.match(r"tarry_|TARRY_|_init|_fini|__", n)], [])

    def test_the_quickstart_builds_with_pkg_config_and_runs(self):
        library = os.path.dirname(self.find(r"libtarry\.so\.0"))
        env = {**os.environ, "PKG_CONFIG_PATH": os.path.dirname(self.find(r"tarry\.pc$")), "PKG_CONFIG_SYSROOT_DIR": self.directory,
               "LD_LIBRARY_PATH": library}
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tarry"], stdout=subprocess.PIPE, text=True, check=True,
                               env=env).stdout.split()
        program = os.path.join(self.directory, "quickstart")
        subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic",
                        os.path.join(ROOT, "client", "examples", "quickstart.c"), "-o", program, *flags], check=True, env=env)
        somebodys = f"it builds and links; port {DEFAULT_PORT} is somebody else's"
        if is_taken(DEFAULT_PORT):
            self.skipTest(somebodys)
        broker = harness.Broker(os.path.join(self.directory, "data"), listen=f"ws://127.0.0.1:{DEFAULT_PORT}").launch()
        broker.is_ready.wait(harness.READY_WAIT_S)
        if "Address in use" in broker.log_text():
            self.skipTest(somebodys)
        try:
            broker.wait_ready()
            done = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=30, check=True, env=env)
            self.assertIn("order-2 closed", done.stdout)
        finally:
            broker.stop()

    def test_the_readme_quotes_the_quickstart(self):
        with open(os.path.join(ROOT, "client", "examples", "quickstart.c"), encoding="utf-8") as file:
            source = file.read()
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            self.assertIn(source[source.index("#include <stdio.h>"):].strip(), file.read())


if __name__ == "__main__":
    harness.main()
