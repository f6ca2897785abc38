#!/usr/bin/env python3
"""golden.py: makes each story's present trace the expected one. Usage: golden.py BUILD. Runs every story with
TARRY_STORY_RECORD, and rewrites the text of each SIM_TRACE in the sources. Nothing proves that the new text is right: read
the diff as you would read the story.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LOOK = re.compile(r'SIM_TRACE\(\s*f,\s*(?:"(?:[^"\\]|\\.)*"\s*)+\)')


def quoted(line):
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"'


def looks_of(program):
    """Runs the stories. Returns {(file, line of a comparison): the lines of its trace, or None if two runs of it gave
    different lines}.
    """
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as file:
        subprocess.run([program], env={**os.environ, "TARRY_STORY_RECORD": file.name}, check=False, stdout=subprocess.DEVNULL)
        looks, at = {}, None
        for line in file.read().split("\n"):
            if line.startswith("@ "):
                path, number = line[2:].rsplit(":", 1)
                at = (os.path.basename(path), int(number))
                looks[at] = []
            elif line.startswith("|"):
                looks[at].append(line[1:])
    return looks


def rewrite(path, looks):
    with open(path, encoding="utf-8") as file:
        text = file.read()

    def replaced(match):
        # Compilers report the line where the macro's call begins, or the line where it ends; accept either.
        first = text.count("\n", 0, match.start()) + 1
        last = text.count("\n", 0, match.end()) + 1
        for number in range(first, last + 1):
            lines = looks.get((os.path.basename(path), number))
            if lines:
                return "SIM_TRACE(f, " + "\n".join(map(quoted, lines)) + ")"
            if lines is not None:
                return 'SIM_TRACE(f, "")'
        return match.group(0)

    done = subprocess.run(["clang-format", "--assume-filename", path], input=LOOK.sub(replaced, text), stdout=subprocess.PIPE,
                          text=True, check=True)
    if done.stdout != text:
        with open(path, "w", encoding="utf-8") as file:
            file.write(done.stdout)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name in sorted(os.listdir(HERE)):
        if name.startswith("story_") and name.endswith(".c"):
            source, program = os.path.join(HERE, name), os.path.join(sys.argv[1], "tests", "sim", name[:-2])
            if os.path.getmtime(program) < os.path.getmtime(source):
                sys.exit(f"{program} is older than its source: its lines are not where they are now; build first")
            rewrite(source, looks_of(program))


if __name__ == "__main__":
    main()
