"""packages_test.py: checks of the Debian packages without building them: they contain everything that meson installs, and facts
stated in several files agree. (`./dev package --test`, tests/package, builds, installs, upgrades and purges them.)"""
import fnmatch
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import harness

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
DEBIAN = os.path.join(ROOT, "packaging", "debian")
UNITS = "usr/lib/systemd/system/"  # debian/rules passes these units to dh_installsystemd


def lines(*names):
    with open(os.path.join(DEBIAN, *names), encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


def read(*names):
    with open(os.path.join(ROOT, *names), encoding="utf-8") as file:
        return file.read()


def as_debian_has_it(path):
    """Converts a path of meson's to Debian's: replaces usr/local by usr, and lib or lib64 by Debian's library folder."""
    return re.sub(r"^usr/lib(64)?/(libtarry\.|pkgconfig/)", r"usr/lib/MACHINE/\2", path.replace("usr/local/", "usr/", 1))


def installed():
    """Returns the paths that meson installs, as in a package, without a leading /."""
    directory = tempfile.mkdtemp(prefix="tarry-packages-")
    try:
        done = subprocess.run(["meson", "install", "-C", os.environ["TARRY_BUILD_ROOT"], "--no-rebuild", "--destdir", directory],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert done.returncode == 0, done.stdout
        return sorted(as_debian_has_it(os.path.relpath(os.path.join(place, name), directory))
                      for place, _, names in os.walk(directory) for name in names)
    finally:
        shutil.rmtree(directory)


def takes(pattern, path):
    """Matches like dh_install: a pattern matches a file, or a folder that contains it."""
    parts = path.split("/")
    depth = pattern.count("/") + 1
    return len(parts) >= depth and all(fnmatch.fnmatchcase(part, wanted) for part, wanted in zip(parts, pattern.split("/")))


class Lists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = installed()
        cls.patterns = [(os.path.basename(path)[:-len(".install")], line.split()[0])
                        for path in sorted(glob.glob(os.path.join(DEBIAN, "*.install"))) for line in lines(os.path.basename(path))]

    def test_whatever_meson_installs_is_in_one_package(self):
        for path in self.files:
            with self.subTest(path):
                owners = {package for package, pattern in self.patterns if takes(pattern, path)}
                if path.startswith(UNITS):
                    self.assertIn(f"mv debian/tmp/{path} debian/tarryd.{os.path.basename(path)}\n", read("packaging/debian/rules"))
                    self.assertIn(f"debian/tarryd.{os.path.basename(path)}", lines("clean"))
                    self.assertRegex(read("packaging/debian/rules"), rf"\tdh_installsystemd -ptarryd .*{re.escape(os.path.basename(path))}\n")
                else:
                    self.assertEqual(len(owners), 1, f"packages: {owners or 'none'}")

    def test_whatever_a_package_wants_is_there(self):
        for package, pattern in self.patterns:
            with self.subTest(f"{package}: {pattern}"):
                self.assertTrue([path for path in self.files if takes(pattern, path)])
        for path in glob.glob(os.path.join(DEBIAN, "*.docs")) + glob.glob(os.path.join(DEBIAN, "*.examples")):
            for name in lines(os.path.basename(path)):
                with self.subTest(f"{os.path.basename(path)}: {name}"):
                    self.assertTrue(glob.glob(os.path.join(ROOT, name)))

    def test_each_list_is_of_a_package(self):
        packages = set(re.findall(r"^Package: (\S+)$", read("packaging/debian/control"), re.M))
        self.assertEqual({package for package, _ in self.patterns}, packages)


class Said(unittest.TestCase):
    def test_the_version_is_the_same_everywhere(self):
        version = re.search(r"version: '([\d.]+)'", read("meson.build")).group(1)
        header = read("client", "include", "tarry.h")
        self.assertEqual(".".join(re.search(rf"#define TARRY_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH")), version)
        self.assertEqual(re.search(r"^## ([\d.]+)", read("CHANGELOG.md"), re.M).group(1), version)
        self.assertEqual(re.match(r"tarry \(([\d.]+)-\S+\) ", read("packaging/debian/changelog")).group(1), version)
        self.assertEqual(re.search(r'"version": "([^"]+)"', read("clients", "node", "package.json")).group(1), version)  # npm's

    def test_each_version_of_a_symbol_has_a_line(self):
        nodes = re.findall(r"(TARRY_[\d.]+) \{", read("client", "lib", "make_map.py"), re.M)
        self.assertTrue(nodes)
        said = dict(re.findall(r"^ \(symver\)(\S+) ([\d.]+)$", read("packaging/debian/libtarry0.symbols"), re.M))
        self.assertEqual({node: node.partition("_")[2] + ".0" for node in nodes}, said)

    def test_what_dev_installs_to_build_is_what_the_packages_build_with(self):
        """packages_build of ./dev and Build-Depends name the same packages. Two kinds of packages are only in ./dev: those
        that only tests need, and those that every Debian build has.
        """
        wanted = re.search(r"^packages_build=\((.*?)\)", read("dev"), re.M | re.S).group(1).split()
        depends = re.search(r"^Build-Depends: (.*?)\n\n", read("packaging/debian/control"), re.M | re.S).group(1)
        listed = {word.split()[0] for word in depends.replace("\n", " ").split(",") if word.strip()} - {"debhelper-compat", "dh-sequence-python3"}
        self.assertEqual(set(wanted) - {"gcc", "libc6-dev", "ninja-build", "python3", "libnng-dev", "libcmocka-dev"}, listed)

    def test_dev_installs_what_dpkg_wants_for_any_package(self):
        """Checks that ./dev installs build-essential for a package build: debian/control does not name it, and a bare Debian
        lacks it.
        """
        wanted = re.search(r"^packages_package=\((.*?)\)", read("dev"), re.M | re.S).group(1).split()
        self.assertLessEqual({"build-essential", "debhelper", "dh-python", "dpkg-dev", "lintian"}, set(wanted))

    def test_the_container_file_names_what_there_is(self):
        lines_of_it = [line for line in read("packaging", "Containerfile").splitlines() if line and not line.startswith("#")]
        said = dict(line.split(" ", 1) for line in lines_of_it)
        for word in ("ENTRYPOINT", "HEALTHCHECK"):
            program, *words = json.loads(said[word].removeprefix("CMD "))
            owner = [name for name in ("tarry", "tarryd") if program.lstrip("/") in lines(f"{name}.install")]
            self.assertEqual(owner, [os.path.basename(program)])
            known = subprocess.run([harness.find_program(owner[0]), *words[:words[0].isalpha()], "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
            for option in filter(lambda word: word.startswith("--"), words):
                self.assertIn(option, known)
        packages = set(re.findall(r"/packages/(\S+?)_\*\.deb", read("packaging", "Containerfile")))
        self.assertEqual(packages, {"libtarry0", "tarry", "tarryd"})
        self.assertIn(f":{said['EXPOSE']}", subprocess.run([harness.find_program("tarryd"), "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout)
        self.assertIn(said["VOLUME"] + "/", said["ENTRYPOINT"])  # the data directory is on the volume, so its content outlives the container

    def test_the_next_version_of_the_library_changes_its_package(self):
        """libtarry0 contains libtarry.so.0, so a new soversion needs a new package name."""
        soversion = re.search(r"soversion: '(\d+)'", read("client", "meson.build")).group(1)
        self.assertIn(f"Package: libtarry{soversion}\n", read("packaging/debian/control"))
        self.assertTrue(read("packaging/debian", f"libtarry{soversion}.symbols").startswith(f"libtarry.so.{soversion} libtarry{soversion} "))


if __name__ == "__main__":
    harness.main()
