"""clients_java_test.py: clients/java: the conformance stories, the first example of its README, its tables, its own tests, and @TarryListener in Spring."""
import glob
import os
import re
import signal
import subprocess
import unittest

import conformance
import harness
from harness import Case

FOLDER = os.path.normpath(os.path.join(conformance.FOLDER, "..", "java"))
BUILT = os.path.join(os.environ["TARRY_BUILD_ROOT"], "clients", "java")
CLASSES = os.path.join(BUILT, "test-classes")
JAR = os.path.join(BUILT, "tarry.jar")
PROTO = os.path.join(conformance.FOLDER, "..", "..", "proto", "tarry.proto")
SPRING = [f"/usr/share/java/spring3-{name}.jar" for name in ("context", "core", "beans", "aop", "expression")] + ["/usr/share/java/commons-logging.jar"]
AFTER_TERM = 128 + signal.SIGTERM  # exit status of the Java runtime after its shutdown hooks


def run(*command, wait_s=300):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=wait_s, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


def compile_java(classpath, *sources):
    """Compiles the sources; warnings count as errors."""
    run("javac", "-encoding", "UTF-8", "-Xlint:all,-processing,-classfile,-path", "-Werror", "-d", CLASSES, "-cp", ":".join((CLASSES, *classpath)), *sources)


def build():
    """Builds the jars and the driver."""
    os.makedirs(CLASSES, exist_ok=True)
    run("python3", os.path.join(FOLDER, "make_jar.py"), BUILT)
    compile_java([JAR], os.path.join(conformance.FOLDER, "Driver.java"))


build()
# Uses the quick compiler and one collector thread, because the programs are short. The locale of a bare machine is not UTF-8.
JAVA = ["java", "-Dfile.encoding=UTF-8", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
One, Two = conformance.cases(lambda case: [*JAVA, "-cp", f"{JAR}:{CLASSES}", "Driver"], after_term=AFTER_TERM)


class Readme(Case):
    def test_the_first_example_is_short_and_runs(self):
        path = self.path("Close.java", conformance.first_example(self, FOLDER, "java"))
        conformance.run_example(self, [*JAVA, "-cp", JAR, path], {}, "order-1001 is closed\n", AFTER_TERM)


class Spring(Case):
    def test_listeners_work_and_end_with_the_context(self):
        """Runs with Debian's Spring: annotated methods of a bean become workers, which stop when the context closes."""
        compile_java([JAR, os.path.join(BUILT, "tarry-spring.jar"), *SPRING], os.path.join(FOLDER, "test", "Shop.java"))
        classpath = ":".join((JAR, os.path.join(BUILT, "tarry-spring.jar"), CLASSES, *SPRING))
        done = subprocess.run([*JAVA, "-cp", classpath, "Shop"], env={**os.environ, "TARRY_BROKER": self.broker.url}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "order 1001 is closed\nkey order-1002, body two\nclosed\n"), done.stderr)
        self.broker.wait_stats("close-order", pending=0, ready=0, in_flight=0, dead=0)
        self.assertEqual([item["queue"] for item in self.broker.ok("dead", "list", "refused")], ["refused"])


class Units(unittest.TestCase):
    def test_units(self):
        """clients/java/test/Tests.java."""
        compile_java([JAR], *glob.glob(os.path.join(FOLDER, "test", "tarry", "*.java")))
        self.assertRegex(run(*JAVA, "-ea", "-cp", f"{CLASSES}:{JAR}", "tarry.Tests", wait_s=60), r"\A[1-9]\d* passed\n\Z")

    def test_the_tables_say_what_the_protocol_says(self):
        with open(PROTO, encoding="utf-8") as file:
            proto = re.sub(r"//.*", "", file.read())
        with open(os.path.join(FOLDER, "src", "tarry", "Wire.java"), encoding="utf-8") as file:
            wire = file.read()
        messages = re.findall(r"interface (\w+) \{\s*int ([^;]+);", wire)
        self.assertGreater(len(messages), 20)
        for name, fields in messages:
            body = re.search(rf"\bmessage {name} \{{(.*?)^\}}", proto, re.M | re.S)
            body = body or re.search(rf"\bmessage {name} \{{(.*?)\}}", proto, re.S)
            for field, number in re.findall(r"(\w+) = (\d+)", fields):
                self.assertRegex(body.group(1), rf"\b{field.lower()} = {number};", f"{name}.{field}")
        for constant, enum in (("CODES", "Code"), ("OUTCOMES", "Outcome")):
            names = re.findall(r'"(\w+)"', re.search(rf"{constant} = List.of\((.*?)\);", wire, re.S).group(1))
            told = re.findall(r"(\w+) = (\d+);", re.search(rf"\benum {enum} \{{(.*?)\}}", proto, re.S).group(1))
            self.assertEqual([(name, str(number)) for number, name in enumerate(names)], told)


if __name__ == "__main__":
    harness.main()
