"""ci_test.py: `.ci/run` reports where it runs: in a bare Debian, or directly and why; and it leaves nothing behind. The test
uses a stub of ./dev that prints its arguments, and a debootstrap that fails or hangs. (Only a real run of .ci/run tests the
bare Debian.)
"""
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness

WAIT_S = 60
RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".ci", "run")
DEV = "#!/bin/sh\necho \"dev: $*\"\nexit 3\n"
IS_ROOT = os.geteuid() == 0
LOUD = "ci: NOT in a bare Debian: "


def can_unshare():
    return IS_ROOT and subprocess.run(["unshare", "--mount", "--mount-proc", "--pid", "--fork", "true"], stderr=subprocess.DEVNULL,
                                      check=False).returncode == 0


def has_apt():
    return shutil.which("apt-get") is not None


def hears_signals():
    """Returns whether signals are delivered. If the parent ignores them, as with `nohup ./dev test`, a shell cannot catch
    them.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Ci(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="tarry-ci-test-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        os.chmod(self.directory, 0o755)
        for name in ("tree/.ci", "bin", "tmp"):
            os.makedirs(os.path.join(self.directory, name))
        shutil.copy(RUN, os.path.join(self.directory, "tree", ".ci", "run"))
        self.program("tree/dev", DEV)

    def program(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def start(self, *arguments, prefix=()):
        environment = {**os.environ, "PATH": f"{self.directory}/bin:{os.environ['PATH']}", "TMPDIR": f"{self.directory}/tmp"}
        return subprocess.Popen([*prefix, "bash", f"{self.directory}/tree/.ci/run", *arguments], env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=hears_signals)

    def ends(self, process):
        output, _ = process.communicate(timeout=WAIT_S)
        self.assertEqual(os.listdir(f"{self.directory}/tmp"), [], output)
        return process.returncode, output

    def assert_plain(self, process, reason):
        status, output = self.ends(process)
        self.assertEqual((status, output.splitlines()[-1]), (3, "dev: test unit --slow-sync 5"), output)
        self.assertIn(LOUD + reason, output)

    def test_asked_for(self):
        self.assert_plain(self.start("--suite", "none", "unit", "--slow-sync", "5"), "asked for by --suite none")

    @unittest.skipUnless(IS_ROOT, "somebody else than root")
    def test_nobody_but_root_can(self):
        self.assert_plain(self.start("unit", "--slow-sync", "5", prefix=["setpriv", "--reuid", "65534", "--clear-groups"]), "only root can")

    @unittest.skipUnless(IS_ROOT and has_apt(), "root without a right")
    def test_a_container_without_the_right_to_mount(self):
        self.program("bin/debootstrap", "#!/bin/sh\nexit 1\n")
        prefix = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
        self.assert_plain(self.start("unit", "--slow-sync", "5", prefix=prefix), "this machine allows no mount or pid namespaces")

    @unittest.skipUnless(can_unshare() and has_apt(), "needs root, namespaces, and a Debian")
    def test_a_debian_that_cannot_be_made(self):
        """debootstrap fails half-way and leaves a mount, whose content must not be deleted."""
        self.program("bin/debootstrap", f"""#!/bin/sh
            echo "E: no such mirror"
            mkdir -p "$3/mounted"
            mount --bind {self.directory}/bin "$3/mounted"
            exit 1
            """)
        process = self.start("unit", "--slow-sync", "5")
        self.assert_plain(process, "it could not be made (above)")
        self.assertTrue(os.path.exists(f"{self.directory}/bin/debootstrap"))
        with open("/proc/mounts", encoding="utf-8") as file:
            self.assertNotIn(self.directory, file.read())

    @unittest.skipUnless(can_unshare() and has_apt(), "needs root, namespaces, and a Debian")
    def test_whoever_gives_up_leaves_nothing(self):
        for number, expected in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 143)):
            self.program("bin/debootstrap", f"#!/bin/sh\nmkdir -p \"$3/dev\"\n: >{self.directory}/hangs\nexec sleep 1000\n")
            process = self.start("unit")
            harness.wait_until("debootstrap runs", lambda: os.path.exists(f"{self.directory}/hangs"), WAIT_S)
            process.send_signal(number)
            status, output = self.ends(process)
            self.assertEqual((status, "dev: test" in output), (expected, False), output)
            harness.wait_until("the killed are gone", lambda: not is_named(self.directory), WAIT_S)  # the kernel removes a namespace with a delay
            os.unlink(f"{self.directory}/hangs")


def is_named(word):
    """Returns whether a process has the word on its command line."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if word.encode() in file.read():
                    return True
        except OSError:
            continue
    return False


if __name__ == "__main__":
    harness.main()
