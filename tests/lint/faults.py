"""faults.py: checks that tests/FAULTS.md is true: every fault and every promise has a row, and everything that a row names
exists.

A row is `| id | what | where it is kept | proof | how far |`. A place is written `file:name`, with the file relative to the
root or to tests/. Every place must exist. Every proof must have the row's id on the line that defines the test, in the
comment right above, or in the docstring, so that `grep -rn F-5 tests` finds the tests of F-5. The file that keeps a
promise, or a rule of the pair, must cite the id. A row without a proof gives a reason: `gap: …`.
"""
import os
import re

import lint

CATALOGUE = "tests/FAULTS.md"
FAULTS = [f"F-{n}" for n in range(1, 42)] + ["F-31a", "F-31b", "F-31c", "F-31d"]
PROMISES = ["LOG-1", "LOG-2", "LOG-3", "LOG-4", "LOG-5", "TIME-1", "TIME-2", "KEEP-1", "ONCE-1", "TRUE-1", "FENCE-1", "CAP-1",
            "CALM-1", "GROUP-1"]
RULES = [f"R{n}" for n in range(1, 9)]

ROW = re.compile(r"^\| ((?:(?:F|LOG|TIME|KEEP|ONCE|TRUE|FENCE|CAP|CALM|GROUP)-|R)\d+[a-d]?) \|(.*)\|$")
PLACE = re.compile(r"`([\w./-]+\.(?:c|h|py)):(\w+)`")
COMMENT = re.compile(r'^\s*(#|/\*|\*|//)|\*/\s*$')


def carries(text, fault):
    """Returns whether the text contains the fault's id (F-5), also as part of a name (test_f5_…)."""
    return re.search(rf"\b{fault}(?![\da-d])|_{fault.replace('-', '').lower()}_", text) is not None


def definition(lines, name):
    """Returns the index of the line that defines the name at the top of its file, or in a class; None: it is not defined."""
    defined = re.compile(rf"^\s*(?:def|class) {name}\b" rf"|^[^\s/*#].*\b{name}\b(?!.*;$)" rf"|^#define {name}\b")
    return next((i for i, line in enumerate(lines) if defined.search(line)), None)


def words_about(lines, at):
    """Returns the definition's own line, the comment directly above it, and a docstring below it."""
    first = at
    while first > 0 and COMMENT.search(lines[first - 1]):
        first -= 1
    last = at + 1
    if '"""' in "".join(lines[last:last + 1]):
        while last + 1 < len(lines) and lines[last].count('"""') < 2 and '"""' not in lines[last + 1]:
            last += 1
        last += 2
    return "\n".join(lines[first:last])


class Tree:
    """The files that the catalogue names. Each is read once."""

    def __init__(self, root):
        self.root, self.files = root, {}

    def lines(self, path):
        if path not in self.files:
            found = next((p for p in (path, "tests/" + path) if os.path.isfile(os.path.join(self.root, p))), None)
            self.files[path] = lint.read_lines(self.root, found) if found else None
        return self.files[path]


def complaint_about_proof(tree, fault, path, name):
    lines = tree.lines(path)
    if lines is None:
        return f"{fault}: there is no file {path}"
    at = definition(lines, name)
    if at is None:
        return f"{fault}: {path} has no {name}"
    if not carries(words_about(lines, at), fault):
        return f"{fault}: {path}:{name} does not say that it proves {fault}, in its name or right above"
    return None


def complaints_about_row(tree, fault, cells):
    if len(cells) != 4 or any(cell.startswith("| ") for cell in cells):
        return [f"{fault}: a row has five cells"]
    _, keepers, proofs, _ = cells
    complaints = []
    for path, name in PLACE.findall(keepers):
        lines = tree.lines(path)
        if lines is None:
            complaints.append(f"{fault}: there is no file {path}")
        elif not any(re.search(rf"\b{name}\b", line) for line in lines):
            complaints.append(f"{fault}: {path} has no {name}")
        elif fault in PROMISES + RULES and not carries("\n".join(lines), fault):
            complaints.append(f"{fault}: {path} is said to keep it, and does not cite it")
    complaints += filter(None, (complaint_about_proof(tree, fault, *place) for place in PLACE.findall(proofs)))
    is_excused = re.search(r"\bgap: \w+", proofs)
    if not PLACE.search(proofs) and not is_excused:
        complaints.append(f"{fault}: no test proves it, and no reason is given")
    if not PLACE.search(keepers) and not is_excused:
        complaints.append(f"{fault}: nothing is said to keep it")
    return complaints


def check(root, _build):
    if not os.path.isfile(os.path.join(root, CATALOGUE)):
        return [f"{CATALOGUE}:1: there is no catalogue of faults"]
    tree, seen, complaints = Tree(root), [], []
    for number, line in enumerate(lint.read_lines(root, CATALOGUE), 1):
        row = ROW.match(line)
        if row:
            seen.append(row.group(1))
            cells = row.group(2).split(" | ")
            complaints += [f"{CATALOGUE}:{number}: {c}" for c in complaints_about_row(tree, row.group(1), cells)]
    for fault in FAULTS + PROMISES + RULES:
        if seen.count(fault) != 1:
            complaints.append(f"{CATALOGUE}:1: {fault} has {seen.count(fault)} rows instead of one")
    strangers = sorted(set(seen) - set(FAULTS + PROMISES + RULES))
    complaints += [f"{CATALOGUE}:1: {fault} is no fault, no promise and no rule of ours" for fault in strangers]
    return complaints


if __name__ == "__main__":
    lint.main("faults", check)
