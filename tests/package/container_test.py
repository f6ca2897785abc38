"""container_test.py: tests packaging/Containerfile without a container engine. The first stage runs on a bare Debian, and must
make the same packages as this build. The last stage is made into an image (packaging/publish.py), whose broker is started,
queried and stopped.
"""
import filecmp
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
import harness  # noqa: E402  (the paths above)
import machine  # noqa: E402
import made  # noqa: E402
import package_test  # noqa: E402
import publish  # noqa: E402 (packaging/ is in the path that `made` sets)

START_WAIT_S = 60


def built_with(made_there):
    """Returns the versions of compilers and headers in a .buildinfo: another libssl-dev has other line numbers in its headers,
    which are in the debug symbols."""
    (told,) = [path for path in made_there if path.endswith(".buildinfo")]
    with open(told, encoding="utf-8") as file:
        return sorted(re.findall(r"^ ((?:gcc-|cpp-|binutils|linux-libc|\S+-dev\b|meson|debhelper)\S* \(= \S+\))", file.read(), re.M))


@unittest.skipIf(machine.why_not(), machine.why_not())
class Container(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        layout, cls.bundle = package_test.MADE.at("container-image"), package_test.MADE.at("container")
        for path in (layout, cls.bundle):
            shutil.rmtree(path, ignore_errors=True)
        version = publish.package.version_of(made.ROOT)
        publish.image(made.ROOT, package_test.MADE.first(), layout, version)
        machine.checked(["umoci", "unpack", "--image", f"{layout}:{version}", cls.bundle], "umoci")
        cls.path = os.path.join(cls.bundle, "rootfs")
        with open(os.path.join(cls.bundle, "config.json"), encoding="utf-8") as file:
            cls.process = json.load(file)["process"]
        cls.said = dict(publish.stages(made.ROOT)[-1])

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.bundle, ignore_errors=True)

    def test_the_first_stage_makes_the_packages(self):
        """On a bare system, `./dev package` fails if it needs a package that it does not install."""
        path = package_test.MADE.at("container-build")
        shutil.rmtree(path, ignore_errors=True)
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        machine.checked(["cp", "-a", "--reflink=auto", package_test.base().path, path], "cp")
        said = dict(publish.stages(made.ROOT)[0])
        here, there = said["COPY"].split()
        self.assertEqual(here, ".")
        made.copy_tree(package_test.MADE.tree(), path + there)
        machine.Base.there_already(path).chroot(said["RUN"])
        ours = [os.path.basename(name) for name in package_test.MADE.first()]
        self.assertEqual(sorted(os.listdir(path + "/packages")), ours)
        if built_with(package_test.MADE.first()) == built_with([os.path.join(path, "packages", name) for name in ours]):
            for name in package_test.MADE.first():
                if name.endswith(".deb"):
                    self.assertTrue(filecmp.cmp(name, os.path.join(path, "packages", os.path.basename(name)), shallow=False), name)

    def test_nothing_that_only_built_it_is_left(self):
        self.assertFalse(os.path.exists(self.path + "/packages"))
        self.assertEqual(os.listdir(self.path + "/var/lib/apt/lists"), [])

    def test_it_starts_answers_and_stops_as_process_1_of_no_root(self):
        user = f"{self.process['user']['uid']}:{self.process['user']['gid']}"
        started = " ".join(map(shlex.quote, self.process["args"]))
        self.assertEqual(self.process["args"], json.loads(self.said["ENTRYPOINT"]))
        script = f"ip link set lo up && mount -t proc proc {self.path}/proc && exec chroot --userspec={user} {self.path} {started}"
        outer = subprocess.Popen(["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "bash", "-ec", script],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            harness.wait_until("it runs", lambda: self.broker_of(outer), START_WAIT_S)
            broker = self.broker_of(outer)
            with open(f"/proc/{broker}/status", encoding="ascii") as file:
                status = file.read()
            self.assertRegex(status, r"(?m)^Uid:\s+7272\s+7272\s+7272\s+7272$")
            self.assertRegex(status, r"(?m)^NSpid:.*\s1$")
            check = json.loads(re.fullmatch(r"CMD (\[.*\])", self.said["HEALTHCHECK"]).group(1))
            inside = ["nsenter", "--target", str(broker), "--net", "--", "chroot", self.path]
            harness.wait_until("it is healthy", lambda: subprocess.run([*inside, *check], capture_output=True, check=False).returncode == 0, START_WAIT_S)
            subprocess.run([*inside, "/usr/bin/tarry", "schedule", "close-order", "--key", "order-1", "--in", "1h"], check=True, stdout=subprocess.DEVNULL)
            os.kill(broker, getattr(signal, self.said["STOPSIGNAL"]))
            self.assertEqual(outer.wait(START_WAIT_S), 0)
            self.assertIn("event=stopped", outer.stdout.read())
            self.assertTrue(os.path.isdir(self.path + self.said["VOLUME"] + "/main"))
        finally:
            outer.kill()
            outer.wait()
            outer.stdout.close()

    @staticmethod
    def broker_of(outer):
        """Returns the process that unshare started, once it is tarryd."""
        assert outer.poll() is None, outer.stdout.read()
        with open(f"/proc/{outer.pid}/task/{outer.pid}/children", encoding="ascii") as file:
            children = file.read().split()
        for child in children:
            with open(f"/proc/{child}/comm", encoding="ascii") as file:
                if file.read().strip() == "tarryd":
                    return int(child)
        return None


if __name__ == "__main__":
    harness.main()
