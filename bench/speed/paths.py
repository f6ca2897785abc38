"""paths.py: sets sys.path for the speed table, so that its programs can import the modules of bench/, bench/accept/ and
tests/e2e/. A program calls `use` before it imports these modules.
"""
import os
import sys

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(BENCH)


def use():
    sys.path[:0] = [path for path in (BENCH, os.path.join(BENCH, "accept"), os.path.join(ROOT, "tests", "e2e")) if path not in sys.path]
    os.environ.setdefault("TARRY_TEST_SEGMENT_SIZE", "64MiB")  # tarryd's default
