"""probe.py: the tests' driver of probe.c, which calls the coordinator, line by line."""
import os
import re
import sys
import threading
import time
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)

WAIT_S = 60
CALL_MS = 1000      # time limit of calls that must fail
PATIENT_MS = 30000  # time limit of calls that must succeed
SESSION_MS = 10000


class Probe:
    """One probe process. Answers are matched by number; all other lines are events of the session or of a watch."""

    def __init__(self, url, call_ms=PATIENT_MS, session_ms=SESSION_MS, *credentials, prefix=()):
        self.stream = harness.Stream([*prefix, harness.find_program("coordinator_probe"), url, str(call_ms), str(session_ms),
                                      *credentials], dict(os.environ), stdin=True)
        self.changed = threading.Condition()
        self.answers, self.news, self.count, self.ended = {}, [], 0, False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while (item := self.stream.lines.get()) is not None:
            with self.changed:
                if "id" in item:
                    self.answers[item["id"]] = item
                else:
                    self.news.append(item)
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def ask(self, *words):
        """Sends a line; returns its number."""
        self.count += 1
        self.stream.send(" ".join(map(str, words)))
        return self.count

    def answer(self, number):
        with self.changed:
            assert self.changed.wait_for(lambda: number in self.answers or self.ended, WAIT_S) and number in self.answers, \
                f"no answer to {number}: {self.news} {''.join(self.stream.errors)}"
            return self.answers[number]

    def call(self, *words):
        return self.answer(self.ask(*words))

    def done(self, *words):
        answer = self.call(*words)
        assert answer["outcome"] == "done", f"{words}: {answer}"
        return answer

    def wait_news(self, wanted, start=0):
        """Waits for an event that `wanted` accepts, at index `start` or later of `self.news`. Returns the index behind the
        event.
        """
        def find():
            return next((i for i in range(start, len(self.news)) if wanted(self.news[i])), None)
        with self.changed:
            assert self.changed.wait_for(lambda: find() is not None, WAIT_S), f"not among the news: {self.news[start:]}"
            return find() + 1

    def wait_session(self, state, start=0):
        return self.wait_news(lambda item: item.get("session") == state, start)

    def message(self, pattern):
        """Waits until the session's message matches `pattern`."""
        end = time.monotonic() + WAIT_S
        while not re.search(pattern, (session := self.call("session"))["message"]):
            assert time.monotonic() < end, f"not like {pattern}: {session}"
            time.sleep(0.05)
        return session

    def close(self):
        """Closes in an orderly way; returns how many ms it took."""
        self.stream.end_input()
        end = self.wait_news(lambda item: "closed" in item)
        status = self.stream.wait()
        errors = "".join(self.stream.errors)
        self.stream.kill()
        assert status == 0 and "Sanitizer" not in errors, f"status {status}: {errors}"
        return self.news[end - 1]["closed"]

    def kill(self):
        self.stream.kill()


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.probes = []
        self.addCleanup(self.end_probes)

    def end_probes(self):
        for probe in self.probes:
            probe.kill()

    def probe(self, url, *arguments, **options):
        self.probes.append(Probe(url, *arguments, **options))
        return self.probes[-1]

    def unknown(self, answer, pattern="."):
        self.assertEqual(answer["outcome"], "unknown", answer)
        self.assertRegex(answer["reason"], pattern)

    def until_done(self, probe, *words):
        """Repeats the call while its outcome is unknown."""
        end = time.monotonic() + WAIT_S
        while (answer := probe.call(*words))["outcome"] == "unknown":
            self.assertLess(time.monotonic(), end, answer)
        self.assertEqual(answer["outcome"], "done")
        return answer


def needs(server, lack):
    """Skips a test, visibly, if the server cannot run on this machine. `lack`: a sentence that says what the server needs;
    None: the server can run.
    """
    def decorate(case):
        if lack:
            print(f"# {case.__name__} SKIPPED: no {server} can be started here: {lack}", flush=True)
        return unittest.skipIf(lack, f"no {server}: {lack}")(case)
    return decorate
