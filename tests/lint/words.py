"""words.py: nothing in the tree admits to being unfinished, and no line carries a tab or trailing blanks."""
import re

import lint

UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|\bfor " r"now\b|\bnot implem" r"ented\b|\bplace" r"holder\b",
                        re.IGNORECASE)
SUFFIXES = (".c", ".h", ".py", ".proto", ".md", ".build", ".service", ".ini", "dev")


def check(root, _build):
    complaints = []
    for path in lint.our_files(root, SUFFIXES):
        for number, line in enumerate(lint.read_lines(root, path), 1):
            found = UNFINISHED.search(line)
            if found:
                complaints.append(f"{path}:{number}: '{found.group(0)}': finish it, or file an issue")
            if "\t" in line or line != line.rstrip():
                complaints.append(f"{path}:{number}: a tab, or blanks at the end of the line")
    return complaints


if __name__ == "__main__":
    lint.main("words", check)
