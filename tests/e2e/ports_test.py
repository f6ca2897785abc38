"""ports_test.py: tests/ports.py gives a port to one caller only, in any process, until that caller ends."""
import subprocess
import sys
import unittest

import harness
import ports

COUNT, ASKERS = 60, 8
ASK = f"import ports, sys; print(*(ports.free_port() for _ in range({COUNT})), flush=True); sys.stdin.read()"


class Ports(unittest.TestCase):
    def ask(self):
        process = subprocess.Popen([sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env={"PYTHONPATH": ports.__file__.rsplit("/", 1)[0]})
        self.addCleanup(process.communicate)
        return process

    def test_nobody_gets_anothers(self):
        askers = [self.ask() for _ in range(ASKERS)]
        given = [port for asker in askers for port in asker.stdout.readline().split()]
        given += [str(ports.free_port()) for _ in range(COUNT)]
        self.assertEqual(len(given), COUNT * (ASKERS + 1))
        self.assertEqual(len(set(given)), len(given))

    def test_it_is_free_again_when_the_asker_has_ended(self):
        asker = self.ask()
        port = int(asker.stdout.readline().split()[0])
        self.assertFalse(ports._claim(port))
        asker.kill()
        asker.wait()
        self.assertTrue(ports._claim(port))


if __name__ == "__main__":
    harness.main()
