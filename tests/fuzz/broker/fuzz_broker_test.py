"""fuzz_broker_test.py: runs strangers for some seconds against each role, and checks that the checks can fail (F-20). The seed
is always the same, so that a new failure comes from a change; `./dev fuzz broker` tries other seeds.
"""
import os
import signal
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("e2e", "crash"):
    sys.path.insert(0, os.path.join(HERE, "..", "..", folder))

import harness  # noqa: E402  (the paths above)
import shrink  # noqa: E402
from fuzz_broker import KEEP, keep, replay  # noqa: E402
from lives import ENVIRONMENT, Life  # noqa: E402
from roles import ROLES  # noqa: E402

SECONDS = 4
SEED = int(os.environ.get("TARRY_SEED", "12"))
REQUESTS_MIN = 100  # a slow, busy machine reaches this number; usually there are thousands


class Rig(unittest.TestCase):
    """Base class of the tests. Runs the brokers of a role for one life (one run with a stranger)."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="tarry-fuzz-")
        self.addCleanup(temporary.cleanup)
        self.directory = temporary.name

    def role(self, name):
        role = ROLES[name](os.path.join(self.directory, name), ENVIRONMENT)
        self.brokers = role.brokers  # after a failed test, harness.py prints the logs of these brokers
        self.addCleanup(role.kill)
        role.make_template()
        return role

    def live(self, name, gently):
        role = self.role(name)
        trace = os.path.join(self.directory, "trace")
        life = Life(role, SEED, ["--seconds", str(SECONDS), "--trace", trace], gently).live()
        if life.complaints:
            where = os.path.join(KEEP, f"{name}-{SEED}")
            keep(role, life, trace, where)
            self.fail(f"seed {SEED}, kept in {where}: " + "\n".join(map(str, life.complaints[:10])))
        self.assertGreater(life.said["requests"], REQUESTS_MIN)
        self.assertGreater(life.said["answers"], REQUESTS_MIN // 2)
        self.assertTrue(life.said["http"])
        self.assertEqual(bool(life.said["jobs"]), role.jobs)
        self.assertTrue(life.said["jumps"])
        return life.said


class Strangers(Rig):
    """F-20: runs a life of each role."""

    def test_alone(self):
        self.live("alone", gently=False)

    def test_tokens(self):
        """Strangers send tokens, and some are refused."""
        said = self.live("tokens", gently=False)
        self.assertTrue(any(word.endswith("DENIED") for word in (*said["codes"], *said["operations"])), said)

    def test_leader(self):
        self.live("leader", gently=True)

    def test_follower(self):
        self.live("follower", gently=False)

    def test_solo(self):
        self.live("solo", gently=True)

    def test_uncoordinated(self):
        self.live("uncoordinated", gently=False)

    def test_inspecting(self):
        self.live("inspecting", gently=True)


class Judge(Rig):
    """Tests that the checks detect what they must detect."""

    def test_a_broker_that_dies_is_complained_of(self):
        role = self.role("alone")
        life = Life(role, SEED, ["--requests", "1000000"], gently=True)
        listen = life.listen

        def listen_and_die(stranger):
            role.a.process.send_signal(signal.SIGABRT)
            listen(stranger)

        life.listen = listen_and_die
        life.live()
        self.assertTrue(any("a broker has ended: status -6" in what for what in life.complaints), life.complaints)

    def test_a_lost_task_is_complained_of(self):
        role = self.role("alone")
        life = Life(role, SEED, ["--requests", "100"], gently=True)
        listen = life.listen

        def listen_and_meddle(stranger):
            listen(stranger)
            task = life.honest.far["far-3"]
            role.a.one("cancel", life.honest.far_queue, task["key"])

        life.listen = listen_and_meddle
        life.live()
        self.assertTrue(any(what.startswith("far-3: None instead of") for what in life.complaints), life.complaints)

    def test_a_trace_is_played_again_and_made_smaller(self):
        """Uses a broker that ends whenever it gets one client's name."""
        steps = [(shrink.OPEN, 0, 0, b""), *((shrink.SAY, 0, 4, b"GET ") for _ in range(3)), (shrink.OPEN, 1, 0, b""),
                 (shrink.PASS, 0, 86400, b""), (shrink.SAY, 1, 7, b"\x82\x81....x"), (shrink.SAY, 1, 14, b"\x82\x81....y\x82\x81....z"), (shrink.CLOSE, 1, 0, b"")]
        small = shrink.shrink(steps, lambda some: any(step[3].endswith(b"y") for step in some), 10)
        self.assertEqual([step[3] for step in small if step[0] == shrink.SAY], [b"\x82\x81....y"])
        self.assertFalse([step for step in small if step[0] == shrink.PASS])
        small = shrink.shrink(steps, lambda some: any(step[0] == shrink.PASS for step in some), 10)
        self.assertTrue([step for step in small if step[0] == shrink.PASS])
        role, trace = self.role("alone"), os.path.join(self.directory, "trace")
        shrink.write(steps, trace)
        self.assertEqual(shrink.read(trace), steps)
        self.assertEqual(replay(role, trace), "")
        self.assertEqual(role.passing.ahead_ms(), 86_400_000)


if __name__ == "__main__":
    harness.main()
