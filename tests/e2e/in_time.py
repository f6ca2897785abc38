"""in_time.py: for tests of promises with a time limit, such as a lease of two seconds, or a client that may be silent for a
limited time. The limit also applies to the test: a machine that stops for longer breaks the test although the product is right.
So such a test is written as an attempt in which `in_time` limits the duration of some parts. `judged` repeats the attempt until
all these parts were short enough:

    def attempt(number):
        with in_time(2, "from the start until the claim is answered"):
            ...
    in_time.judged(attempt)

A failure within the limits fails the test. A failure after a part that was too slow proves nothing, except a crash
(harness.Broken). If every attempt was too slow, the test fails.
"""
import contextlib
import itertools
import time

import harness

PATIENCE_S = 120


class Late(Exception):
    """Raised if a span took longer than its limit, so the attempt's result proves nothing."""


@contextlib.contextmanager
def in_time(limit_s, what):
    """Limits the duration of a part of a test to `limit_s` seconds. Raises Late if the part took longer, whatever its result.
    The part must begin before the product starts its timer, and end after the product has replied. So it is never shorter
    than the product's own time.
    """
    began = time.monotonic()

    def check():
        took = time.monotonic() - began
        if took >= limit_s:
            raise Late(f"{what}: {took:.1f} s, and {limit_s} s are the limit")
    try:
        yield
    except harness.Broken:
        raise
    except AssertionError:
        check()
        raise
    check()


def judged(attempt, patience_s=PATIENCE_S):
    """Returns the result of the first `attempt(number)` (1, 2, …) that kept all limits. Raises AssertionError if there is none
    within `patience_s` seconds.
    """
    end = time.monotonic() + patience_s
    for number in itertools.count(1):
        try:
            return attempt(number)
        except Late as late:
            if time.monotonic() > end:
                raise AssertionError(f"in none of {number} tries this machine was quick enough to judge: {late}") from late
