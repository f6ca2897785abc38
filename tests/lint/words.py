"""words.py: checks that no file has marks of unfinished work, tabs or trailing blanks, and counts vague words such as "who".

A sentence names the process, thread, node or client that acts: "a follower that asks again", not "who asks anew"; "no
client waits", not "nobody waits". Vague words are counted for each folder, and may not exceed the numbers in
words_limits.json. If a folder has fewer, `words.py --record ROOT` lowers the limits.
"""
import collections
import json
import os
import re
import sys

import lint

UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|\bfor " r"now\b|\bnot implem" r"ented\b|\bplace" r"holder\b",
                        re.IGNORECASE)
TIC = re.compile(r"\b(who|whoever|whom|nobody|somebody|anybody|everybody|he|him|his|himself)\b", re.IGNORECASE)
TIC_SUFFIXES = (".c", ".h", ".py", ".proto", ".md", ".1", ".8")
LIMITS = "tests/lint/words_limits.json"
SUFFIXES = (".c", ".h", ".py", ".proto", ".md", ".build", ".service", ".ini", "dev")


def tics(root):
    """Returns the number of vague words (TIC) in the files of each folder, without its subfolders."""
    counts = collections.Counter()
    for path in lint.our_files(root, TIC_SUFFIXES):
        if not path.startswith("tests/lint/") and path != "CHANGELOG.md":  # the text of published versions stays unchanged
            counts[os.path.dirname(path) or "."] += sum(len(TIC.findall(line)) for line in lint.read_lines(root, path))
    return {folder: count for folder, count in sorted(counts.items()) if count}


def limits(root):
    path = os.path.join(root, LIMITS)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def record(root):
    """Lowers the limits to the current numbers; never raises one."""
    known = limits(root)
    kept = {folder: min(count, known.get(folder, count)) for folder, count in tics(root).items()}
    with open(os.path.join(root, LIMITS), "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
        file.write("\n")


def check(root, _build):
    known = limits(root)
    complaints = [f"{folder}/:1: who, nobody, he and the like stand there {count} times, more than {known.get(folder, 0)} ({LIMITS}): "
                  "name the process, thread, node or client" for folder, count in tics(root).items() if count > known.get(folder, 0)]
    for path in lint.our_files(root, SUFFIXES):
        for number, line in enumerate(lint.read_lines(root, path), 1):
            found = UNFINISHED.search(line)
            if found:
                complaints.append(f"{path}:{number}: '{found.group(0)}': finish it, or file an issue")
            if "\t" in line or line != line.rstrip():
                complaints.append(f"{path}:{number}: a tab, or blanks at the end of the line")
    return complaints


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        sys.exit(record(os.path.abspath(sys.argv[2])))
    lint.main("words", check)
