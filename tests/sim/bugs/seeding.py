#!/usr/bin/env python3
"""seeding.py: puts the deliberate defects of *.bug into copies of the product's sources.

    seeding.py ROOT --sources       prints the sources that have a defect, one per line, relative to ROOT
    seeding.py ROOT --into DIR      writes seeded_bug.h and these sources, with all defects, into DIR; leaves files that are equal
    seeding.py ROOT --check         exits with 1 and names each change that does not apply to the tree

A *.bug file has entries such as this:

    bug ready_early TIME-1: a task is ready one millisecond before it is due
    --- broker/core/near.c
    -    uint64_t now_ms = base_ms(core, task->row.base);
    +    uint64_t now_ms = base_ms(core, task->row.base) + BUG(ready_early);

The first line has the bug's name, the promise or rule that the bug breaks, and the defect in words. `model` before the colon: only
tests/model finds the bug. Each `---` begins a change of one file, in the form of a patch without line numbers: the lines with a space or
`-` must occur exactly once in the file, one after the other. `BUG(name)` is true while the bug is on (seeded_bug.c).
"""
import collections
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEAD = re.compile(r"bug (\w+) ([\w-]+)( model)?: (.+)")
USE = re.compile(r"\bBUG\((\w+)\)")


class Failure(Exception):
    """A .bug file is malformed, or one of its changes does not apply."""


class Bug:
    def __init__(self, name, promise, is_of_model, sentence):
        self.name, self.promise, self.is_of_model, self.sentence = name, promise, is_of_model, sentence
        self.files = set()  # files that have the bug


class Hunk:
    """A change of one file."""

    def __init__(self, place, path):
        self.place, self.path, self.before, self.after = place, path, [], []


def parse(directory=HERE):
    """Returns (bugs by name, changes), in the order of the files."""
    bugs, hunks = {}, []
    for path in sorted(directory.glob("*.bug")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            place = f"{path.name}:{number}"
            if head := HEAD.fullmatch(line):
                if head[1] in bugs:
                    raise Failure(f"{place}: the name {head[1]} is taken")
                bugs[head[1]] = Bug(head[1], head[2], bool(head[3]), head[4])
            elif line.startswith("--- "):
                if not bugs:
                    raise Failure(f"{place}: a change before the first bug")
                hunks.append(Hunk(place, line[4:]))
            elif line[:1] in (" ", "-", "+") and hunks:
                if line[0] != "+":
                    hunks[-1].before.append(line[1:])
                if line[0] != "-":
                    hunks[-1].after.append(line[1:])
            elif line and not line.startswith("#"):
                raise Failure(f"{place}: neither a bug nor a line of a change: {line}")
    for hunk in hunks:
        for name in USE.findall("\n".join(hunk.after)):
            if name not in bugs:
                raise Failure(f"{hunk.place}: there is no bug called {name}")
            bugs[name].files.add(hunk.path)
    for bug in bugs.values():
        if not bug.files:
            raise Failure(f"no change has the bug {bug.name}")
    return bugs, hunks


def seed(root, hunks):
    """Returns (path → the file's text with its defects, sentences about changes that do not apply)."""
    by_path, texts, wrong = collections.defaultdict(list), {}, []
    for hunk in hunks:
        by_path[hunk.path].append(hunk)
    for path, changes in by_path.items():
        text = "\n" + (root / path).read_text(encoding="utf-8") if (root / path).exists() else "\n"
        found = []
        for hunk in changes:
            lines = "\n" + "\n".join(hunk.before) + "\n"
            count = text.count(lines)
            if count != 1 or not hunk.before:
                wrong.append(f"tests/sim/bugs/{hunk.place}: its lines occur {count} times in {path}, not once")
                continue
            found.append((text.index(lines), lines, "\n" + "\n".join(hunk.after) + "\n", hunk))
        found.sort(key=lambda change: change[0])
        for first, second in zip(found, found[1:]):
            if first[0] + len(first[1]) > second[0] + 1:
                wrong.append(f"tests/sim/bugs/{second[3].place}: it changes the same lines as {first[3].place}")
        for at, lines, after, _ in reversed(found):
            text = text[:at] + after + text[at + len(lines):]
        texts[path] = text[1:]
    return texts, wrong


def header(bugs):
    """Returns the text of seeded_bug.h."""
    lines = "".join(f" \\\n    SEEDED({bug.name})" for bug in bugs.values())
    return f"""/* seeded_bug.h: the names of the deliberate defects. Made by tests/sim/bugs/seeding.py. */
#ifndef TARRY_SEEDED_BUG_H
#define TARRY_SEEDED_BUG_H

#include <stdbool.h>

#define SEEDED_BUGS(SEEDED){lines}

enum seeded_bug {{
    SEEDED_BUG_none,
#define SEEDED_BUG_NUMBER(name) SEEDED_BUG_##name,
    SEEDED_BUGS(SEEDED_BUG_NUMBER)
#undef SEEDED_BUG_NUMBER
}};

/* The bug that is on. */
extern enum seeded_bug seeded_bug;
#define BUG(name) (seeded_bug == SEEDED_BUG_##name)

/* Switches a bug on. Returns false if no bug has the name. */
bool seeded_bug_choose(const char *name);

#endif
"""


def write(path, text):
    """Leaves a file that is equal as it is, so that ninja compiles nothing."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main():
    root, verb = pathlib.Path(sys.argv[1]), sys.argv[2]
    try:
        bugs, hunks = parse()
    except Failure as failure:
        sys.exit(f"tests/sim/bugs/{failure}")
    if verb == "--sources":
        print("\n".join(sorted({hunk.path for hunk in hunks})))
        return
    texts, wrong = seed(root, hunks)
    if wrong:
        sys.exit("\n".join(wrong))
    if verb == "--into":
        write(pathlib.Path(sys.argv[3]) / "seeded_bug.h", header(bugs))
        for path, text in texts.items():
            write(pathlib.Path(sys.argv[3]) / pathlib.Path(path).name, text)


if __name__ == "__main__":
    main()
