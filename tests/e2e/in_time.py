"""in_time.py: what is promised to who comes in time is judged only when the test came in time.

A lease that lasts two seconds, a session that may be claimed for two seconds after a start, a time that a client may be silent: each is a
limit for the test as well, and a machine that stops for longer breaks it while the product is right. A test that depends on such a limit is
written as a try, with the spans in it that must not last longer, and `judged` repeats the try until one came in time:

    def attempt(number):
        with in_time(2, "from the start until the claim is answered"):
            ...
    in_time.judged(attempt)

What fails in time fails the test. What fails late says nothing, but for a crash (harness.Broken). If no try came in time the test fails.
"""
import contextlib
import itertools
import time

import harness

PATIENCE_S = 120


class Late(Exception):
    """A span lasted longer than the limit: whatever came of the try, it says nothing."""


@contextlib.contextmanager
def in_time(limit_s, what):
    """A span that is shorter than `limit_s` seconds. Raises Late if it was not, whether it ended well or by an assertion. Let it begin
    before the product's time begins, and end after what the product judges has been answered: so it is never shorter than the product's."""
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
    """What the first `attempt(number)` returns that came in time; number: 1, 2, … AssertionError when after `patience_s` seconds none did."""
    end = time.monotonic() + patience_s
    for number in itertools.count(1):
        try:
            return attempt(number)
        except Late as late:
            if time.monotonic() > end:
                raise AssertionError(f"in none of {number} tries this machine was quick enough to judge: {late}") from late
