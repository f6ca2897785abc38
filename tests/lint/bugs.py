"""bugs.py: each deliberate defect of tests/sim/bugs/*.bug applies to the tree: its lines occur exactly once in its file."""
import os
import pathlib
import sys

import lint

BUGS = "tests/sim/bugs"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sim", "bugs"))
import seeding  # noqa: E402


def check(root, _build):
    directory = pathlib.Path(root) / BUGS
    try:
        _, hunks = seeding.parse(directory)
    except seeding.Failure as failure:
        return [f"{BUGS}/{failure}"]
    return seeding.seed(pathlib.Path(root), hunks)[1]


if __name__ == "__main__":
    lint.main("bugs", check)
