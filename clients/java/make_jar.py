#!/usr/bin/env python3
"""make_jar.py DIR: compiles the client and its Spring integration into DIR/tarry.jar and DIR/tarry-spring.jar. Needs a JDK of
17 or later, and for the second jar Debian's libspring-context-java (or the jars that $SPRING_JARS names).
"""
import glob
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RELEASE = "17"
SPRING = os.environ.get("SPRING_JARS", ":".join(f"/usr/share/java/spring3-{name}.jar" for name in ("context", "core", "beans")))


def make(jar, classpath, sources):
    with tempfile.TemporaryDirectory(prefix="tarry-jar-") as classes:
        subprocess.run(["javac", "--release", RELEASE, "-encoding", "UTF-8", "-Xlint:all,-processing,-classfile,-path", "-Werror", "-d", classes, "-cp", classpath, *sources], check=True)
        subprocess.run(["jar", "--create", "--date", "2026-01-01T00:00:00Z", "--file", jar, "-C", classes, "."], check=True)


def main(directory):
    os.makedirs(directory, exist_ok=True)
    jar = os.path.join(directory, "tarry.jar")
    make(jar, "", sorted(glob.glob(os.path.join(HERE, "src", "tarry", "*.java"))))
    if all(map(os.path.exists, SPRING.split(":"))):
        make(os.path.join(directory, "tarry-spring.jar"), f"{jar}:{SPRING}", sorted(glob.glob(os.path.join(HERE, "spring", "tarry", "spring", "*.java"))))


if __name__ == "__main__":
    main(sys.argv[1])
