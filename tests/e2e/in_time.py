"""in_time.py: for promises with a time limit. A lease of two seconds, a session that may be resumed for two seconds after a
start, a client that may be silent for a time: such a limit also applies to the test, and a machine that stops for longer
breaks it although the product is right. Such a test is written as an attempt with limited spans, and `judged` repeats the
attempt until all spans were short enough:

    def attempt(number):
        with in_time(2, "from the start until the claim is answered"):
            ...
    in_time.judged(attempt)

A failure within the limits fails the test. A failure after a late span proves nothing, except a crash (harness.Broken). If no
attempt was in time, the test fails.
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
    """Limits a span to `limit_s` seconds. Raises Late if it took longer, whatever its result. Begin the span before the
    product's time begins, and end it after the judged request was answered, so that it is never shorter than the product's
    time."""
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
