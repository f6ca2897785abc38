"""campaign.py: injects a fault at each of many system calls. For each call, a campaign runs a broker on a new directory (a
*life*), injects the fault at that call, and reports what was wrong. Several lives run at a time. First, a life without a
fault counts the calls. `TARRY_CRASH_ALL=1` injects a fault at every call; otherwise a campaign takes an evenly spread
sample, whose size the test sets.
"""
import concurrent.futures
import os
import signal
import threading
import unittest

from fault import FOR_EVER
from life import REFUSED, STORAGE, WHOLE, Life, Snapshot

ALL = os.environ.get("TARRY_CRASH_ALL") == "1"
JOBS = int(os.environ.get("TARRY_CRASH_JOBS", "10"))
COMPLAINTS_SHOWN = 4


def spread(count, samples):
    """Returns at most `samples` of the numbers 1 … count, the first and the last included."""
    if ALL or count <= samples:
        return list(range(1, count + 1))
    return sorted({1 + round(number * (count - 1) / max(1, samples - 1)) for number in range(samples)})


class Census:
    """Counts the calls of each kind in a run of the broker without a fault, once for each workload."""

    def __init__(self):
        self.lives = {}
        self.lock = threading.Lock()

    def count(self, work, what, snapshot, spare=None):
        key = (tuple(work), id(snapshot), spare)
        with self.lock:
            if key not in self.lives:
                with Life(snapshot=snapshot, spare=spare) as life:
                    life.run(work)
                    complaints = life.judge()
                    assert life.status == 0 and not complaints and not life.given_up, f"{complaints} {life.story()}"
                    self.lives[key] = life.fault.counts()
            counts = self.lives[key]
        return sum(number for name, number in counts.items() if matches(name, what))


def matches(name, what):
    scope, call = name.split(".")
    return any(wanted_scope in ("any", scope) and wanted_call in ("any", call)
               for wanted_scope, wanted_call in (term.split(".") for term in what.split("+")))


census = Census()


class Outcome:
    """The results of one campaign."""

    def __init__(self, count):
        self.count = count       # number of calls that could be hit
        self.lives = 0
        self.fired = 0           # lives in which the fault was injected
        self.exits = {}          # exit status → number of lives
        self.complaints = []

    def add(self, life, index, complaints):
        self.lives += 1
        self.fired += life.fault.fired > 0
        self.exits[life.status] = self.exits.get(life.status, 0) + 1
        if complaints:
            self.complaints.append(f"call {index}: " + "; ".join(map(str, complaints)) + f"\n  {life.story()}")

    def __str__(self):
        exits = ", ".join(f"{number} ended with {status}" for status, number in sorted(self.exits.items()))
        return f"{self.count} calls, {self.lives} lives, struck in {self.fired}, {exits}, {len(self.complaints)} complaints"


class Campaign(unittest.TestCase):
    """A test case that runs lives and prints their results."""

    def every_call(self, what, how, samples=12, for_ever=False, check=None, work=WHOLE, snapshot=None, spare=None, but_last=False,
                   **options):
        """Runs a broker (a *life*) for each call of the kinds `what`, and injects the fault `how` at that call. `check(life)`
        may yield complaints about a life in which the fault occurred. `but_last`: no fault at the last call, because the
        process may end by itself while this call is running.
        """
        outcome = Outcome(census.count(work, what, snapshot, spare))
        lock = threading.Lock()

        def live(index):
            last = FOR_EVER if for_ever else index
            with Life(what, how, index, last, spare=spare, snapshot=snapshot, **options) as life:
                life.run(work)
                complaints = [*(check(life) if check and life.fault.fired else []), *life.judge()]
                with lock:
                    outcome.add(life, index, complaints)

        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for future in [pool.submit(live, index) for index in spread(outcome.count - but_last, samples)]:
                future.result()
        print(f"# {what}:{how}{' for ever' if for_ever else ''}: {outcome}", flush=True)
        self.assertGreater(outcome.count, 0, f"no call matches {what}")
        self.assertGreater(outcome.fired, 0, "no fault struck")
        self.assertFalse(outcome.complaints, "\n" + "\n".join(outcome.complaints[:COMPLAINTS_SHOWN]))
        return outcome


class RecoveryCampaign(Campaign):
    """A campaign in which each broker starts on a copy of `snapshot`: the directory of a killed broker, with a torn tail."""

    @classmethod
    def setUpClass(cls):
        cls.snapshot = Snapshot()

    @classmethod
    def tearDownClass(cls):
        cls.snapshot.delete()


# ---- checks of a life in which the fault was injected

def must_exit(life):
    """LOG-4: complains if the broker continued after the fault."""
    if life.broker.ready and life.status != STORAGE or not life.broker.ready and life.status not in (REFUSED, STORAGE):
        yield f"went on, and ended with {life.status}"


def must_go_on(life):
    """Complains if the fault had a visible effect."""
    if life.status != 0 or life.given_up:
        yield f"was not harmless: {life.given_up}, {life.status}"


def must_be_killed(life):
    if life.status != -signal.SIGKILL:
        yield f"was not killed: {life.status}"
