"""install_test.py: `meson install` puts every file where packagers and C programmers expect it."""
import glob
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
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wundef", "-Wconversion", "-Werror")
# Code in a header's comment: a paragraph of lines with at least five spaces of indentation.
HEADER_EXAMPLE = re.compile(r"^ \*     #include.*\n(?: \*(?:     .*)?\n| \*     .* \*/\n)*", re.MULTILINE)
README_EXAMPLE = re.compile(r"^```c\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DECLARED = re.compile(r"\bTARRY_API\b[^;]*?\b(tarry_\w+)\(", re.DOTALL)


def examples():
    """Returns (place, source) of each example in a public header or README (those of tests/ show the tests' code)."""
    for path in sorted(glob.glob(os.path.join(ROOT, "client", "include", "*.h"))):
        with open(path, encoding="utf-8") as file:
            for number, found in enumerate(HEADER_EXAMPLE.findall(file.read())):
                lines = [re.sub(r" \*/$", "", line)[7:] for line in found.splitlines()]
                yield f"{os.path.basename(path)} {number + 1}", "\n".join(lines) + "\n"
    for path in sorted(glob.glob(os.path.join(ROOT, "**", "*.md"), recursive=True)):
        name = os.path.relpath(path, ROOT)
        if name.split(os.sep)[0] in ("tests", "build", "build-asan"):
            continue
        with open(path, encoding="utf-8") as file:
            for number, found in enumerate(README_EXAMPLE.findall(file.read())):
                yield f"{name} {number + 1}", found


def without_comments(source):
    return re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)

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
                        r"share/tarry/tarry\.proto$", r"doc/tarry/examples/single\.conf$", r"examples/10-peer\.conf$", r"examples/pair-a\.conf$", r"examples/pair-b\.conf$",
                        r"examples/sign-key\.conf$", r"examples/network\.conf$", r"examples/memory\.conf$", r"examples/coordinator-credentials\.conf$", r"examples/coordinator-tls\.conf$",
                        r"examples/tls\.conf$"):
            self.find(pattern)

    def test_each_function_has_a_man_page(self):
        functions = []
        for name in sorted(name for name in self.files if re.search(r"include/tarry\w*\.h$", name)):
            with open(os.path.join(self.directory, name), encoding="utf-8") as file:
                functions += re.findall(r"TARRY_API\b[^;]*?\b(tarry_\w+)\(", re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S))
        self.assertGreater(len(functions), 90)
        pages = [self.find(rf"man/man3/{name}\.3$") for name in [*functions, "tarry"]]
        with open(self.find(r"man/man3/tarry_consumer_open\.3$"), encoding="utf-8") as file:
            text = file.read()
        for part in ('.Fa "const struct tarry_consumer_options *options"', "struct tarry_consumer_options {", "Subscribes to the queues"):
            self.assertIn(part, text)
        if not shutil.which("mandoc"):
            self.skipTest("SKIPPED: no mandoc (Debian: mandoc): the pages' markup is not checked")
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "error", *pages, self.find(r"man/man1/tarry\.1"), self.find(r"man/man8/tarryd\.8")], capture_output=True, text=True, check=False,
                              cwd=os.path.dirname(os.path.dirname(pages[0])))
        self.assertEqual(done.stdout, "")

    def test_the_units_name_the_installed_program(self):
        for unit in (r"tarry\.service$",):
            with open(self.find(unit), encoding="utf-8") as file:
                self.assertIn("ExecStart=/usr/local/bin/tarryd ", file.read())

    def test_systemd_understands_the_units(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze")
        for unit in (r"tarry\.service$",):
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", self.find(unit)], capture_output=True, text=True, check=False)
            complaints = [line for line in done.stderr.splitlines() if "tarry" in line and "is not executable" not in line]
            self.assertEqual(complaints, [])

    def test_the_samples_of_a_pair_are_right(self):
        """Every option in the sample drop-in files exists in tarryd and has a valid value, and the two nodes name each other.
        tarryd complains only about missing files whose paths the drop-ins contain.
        """
        tarryd, said = harness.find_program("tarryd"), {}
        usage = subprocess.run([tarryd, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        if "--coordinator" not in usage:
            self.skipTest("this tarryd knows no pairs")
        credentials = os.path.join(self.directory, "credentials")
        os.mkdir(credentials)
        for drop_in in (r"examples/tls\.conf$", r"examples/10-peer\.conf$"):
            with open(self.find(drop_in), encoding="utf-8") as file:
                for name in re.findall(r"^LoadCredential=([a-z-]+):", file.read(), re.M):
                    with open(os.path.join(credentials, name), "w", encoding="ascii"):
                        pass
        for node in ("a", "b"):
            sample = self.find(rf"examples/pair-{node}\.conf$")
            done = subprocess.run([tarryd, "--print-config", "--config", sample], capture_output=True, text=True, check=False,
                                  env={**os.environ, "CREDENTIALS_DIRECTORY": credentials})
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(sample, encoding="utf-8") as file:
                said[node] = dict(re.findall(r"^([a-z-]+) = (.*)$", file.read(), re.MULTILINE))
        self.assertEqual((said["a"]["peer"], said["b"]["follow"]), (said["b"]["listen"], said["a"]["listen"]))
        for same in ("tokens", "coordinator", "replication", "solo-after", "memory"):
            self.assertEqual(said["a"][same], said["b"][same])

    def test_only_tarry_symbols_are_visible(self):
        if not shutil.which("nm"):
            self.skipTest("no nm")
        done = subprocess.run(["nm", "-D", "--defined-only", self.find(r"libtarry\.so\.0")], stdout=subprocess.PIPE, text=True, check=True)
        names = [line.split()[-1].split("@")[0] for line in done.stdout.splitlines()]
        self.assertEqual([n for n in names if not re.match(r"tarry_|TARRY_|_init|_fini|__", n)], [])

    def pkg_config(self, *wanted):
        env = {**os.environ, "PKG_CONFIG_PATH": os.path.dirname(self.find(r"tarry\.pc$")), "PKG_CONFIG_SYSROOT_DIR": self.directory}
        return subprocess.run(["pkg-config", *wanted, "tarry"], stdout=subprocess.PIPE, text=True, check=True, env=env).stdout.split()

    def compile(self, *arguments):
        done = subprocess.run([*arguments, *self.pkg_config("--cflags")], cwd=self.directory, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.stdout if done.returncode != 0 else ""

    def proto_file(self):
        (path,) = self.pkg_config("--variable=proto")
        return path if path.startswith(self.directory) else self.directory + path

    def test_every_example_compiles_with_what_is_installed(self):
        proto, made = self.proto_file(), os.path.join(self.directory, "made")
        os.makedirs(made, exist_ok=True)
        subprocess.run(["protoc-c", "--proto_path=" + os.path.dirname(proto), "--c_out=" + made, proto], check=True)
        seen = 0
        for where, source in examples():
            path = os.path.join(self.directory, "example.c")
            with open(path, "w", encoding="utf-8") as file:
                file.write(source)
            with self.subTest(where):
                self.assertEqual(self.compile("cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
                                              "-isystem", made, path), "")
            seen += 1
        self.assertGreaterEqual(seen, 3, "an example that is not found is not compiled")

    def test_the_headers_are_c99_and_cpp_without_a_warning(self):
        for compiler, standards, ending in (("cc", ("c99", "c11", "gnu17"), "c"), ("c++", ("c++98", "c++11", "c++20"), "cc")):
            for standard in standards:
                path = os.path.join(self.directory, "all." + ending)
                with open(path, "w", encoding="utf-8") as file:
                    file.write("#include <tarry.h>\n#include <tarry.h>\nint main(void) { return tarry_version_number() != TARRY_VERSION_NUMBER; }\n")
                also = ("-Wno-long-long", "-Wno-variadic-macros") if standard == "c++98" else ()
                with self.subTest(standard):
                    self.assertEqual(self.compile(compiler, "-std=" + standard, *STRICT, *also, "-fsyntax-only", path), "")

    def test_a_cpp_program_links_and_runs(self):
        path, program = os.path.join(self.directory, "links.cc"), os.path.join(self.directory, "links")
        with open(path, "w", encoding="utf-8") as file:
            file.write('#include <tarry.h>\nint main() {\n'
                       '    tarry_options options = tarry_options();\n    tarry_client *client;\n'
                       '    options.urls = "ws://127.0.0.1:9";\n'
                       '    if (tarry_open(&options, &client) != TARRY_OK) return 1;\n    (void)tarry_close(client);\n'
                       '    return tarry_version_number() != TARRY_VERSION_NUMBER;\n}\n')
        self.assertEqual(self.compile("c++", *STRICT, "-std=c++11", path, "-o", program, *self.pkg_config("--libs")), "")
        env = {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(self.find(r"libtarry\.so\.0"))}
        subprocess.run([program], check=True, timeout=60, env=env)

    def test_what_is_exported_is_what_the_headers_declare(self):
        """Each symbol has the version that introduced it. So a program that needs a newer library gets an error when it
        starts.
        """
        declared = set()
        for path in glob.glob(os.path.join(ROOT, "client", "include", "*.h")):
            with open(path, encoding="utf-8") as file:
                declared |= set(DECLARED.findall(without_comments(file.read())))
        done = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", self.find(r"libtarry\.so\.0")],
                              stdout=subprocess.PIPE, text=True, check=True)
        exported = dict(re.findall(r" T (tarry_\w+)@@(\S+)$", done.stdout, re.MULTILINE))
        self.assertEqual(sorted(declared), sorted(exported))
        self.assertEqual({version for version in exported.values() if not re.fullmatch(r"TARRY_\d+\.\d+", version)}, set())
        done = subprocess.run(["readelf", "-d", self.find(r"libtarry\.so\.0")], stdout=subprocess.PIPE, text=True, check=True)
        self.assertRegex(done.stdout, r"SONAME.*\[libtarry\.so\.0\]")

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

    def test_who_installs_builds_no_tests(self):
        """README's two commands, meson setup and meson install, build only what is installed."""
        directory = os.path.join(self.directory, "build")
        done = subprocess.run(["meson", "setup", directory, ROOT], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        done = subprocess.run(["ninja", "-C", directory, "-n"], stdout=subprocess.PIPE, text=True, check=True)
        self.assertNotRegex(done.stdout, r" (tests|bench)/")
        self.assertRegex(done.stdout, r"Linking target client/tool/tarry\b")

    def test_the_readme_quotes_the_quickstart(self):
        with open(os.path.join(ROOT, "client", "examples", "quickstart.c"), encoding="utf-8") as file:
            source = file.read()
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            self.assertIn(source[source.index("#include <stdio.h>"):].strip(), file.read())


if __name__ == "__main__":
    harness.main()
