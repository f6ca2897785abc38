"""slow_link_test.py: a follower lacks much, and over a slow link one answer takes longer than the follower waits for an
answer. The answer arrives in parts, and each part shows that more follows. Hosts are network namespaces.
"""
import random
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from netns import missing  # noqa: E402
from rounds import Story  # noqa: E402
from scene import Scene, etcd  # noqa: E402

KBIT_PER_S = 12_000  # the 4 MiB of an answer (FOLLOW_BYTES_MAX) take 3 s; without any data a follower asks again after 1.2 s
BACKLOG = (24, 200_000)
LACK = missing() or etcd.missing()
if LACK:
    print(f"# SKIPPED: {LACK}", flush=True)


@unittest.skipIf(LACK, LACK)
class SlowLink(unittest.TestCase):
    def test_f27_a_follower_gets_on_over_a_slow_link(self):
        scene = Scene(Story(None), options=(), coordinator="etcd")
        self.addCleanup(scene.close)
        for name in "ab":
            scene.launch(name)
        self.assertEqual(scene.roles(), ("a", "b"))
        scene.stop("b")
        scene.wait_gone("b")
        bodies = random.Random(1)
        stream = scene.clients.stream("schedule", "--from", "-", "--timeout", "60s", stdin=True)
        for number in range(BACKLOG[0]):
            stream.send({"queue": "work", "key": f"k{number}", "delay_ms": 3_600_000, "body": bodies.randbytes(BACKLOG[1] // 2).hex()})
        stream.end_input()
        self.assertEqual(stream.wait(60), 0)
        scene.slow("b", KBIT_PER_S)
        scene.launch("b")
        self.assertEqual(scene.roles(), ("a", "b"))


if __name__ == "__main__":
    harness.main()
