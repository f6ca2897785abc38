"""links.py: checks that each relative link of a Markdown file names an existing file or folder of the tree."""
import os
import re

import lint

LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
ELSEWHERE = re.compile(r"[a-z]+:")  # https:, mailto:


def check(root, _build):
    complaints = []
    for path in lint.our_files(root, (".md",)):
        for number, line in enumerate(lint.read_lines(root, path), 1):
            for target in LINK.findall(line):
                if not ELSEWHERE.match(target) and not os.path.exists(os.path.join(root, os.path.dirname(path), target)):
                    complaints.append(f"{path}:{number}: no {target}")
    return complaints


if __name__ == "__main__":
    lint.main("links", check)
