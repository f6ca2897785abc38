"""rounds_test.py: a few rounds of trouble for a pair (rounds.py). For hundreds of them: ./dev crash --pair.

Without network namespaces nothing can be cut, which the test reports; processes are killed and frozen all the same, on the
loopback device. Without Java a file is the coordinator, which it reports too. TARRY_PAIR_ROUNDS sets the number, TARRY_PAIR_SEED
the seed (fixed in ./dev test).
"""
import os
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from rounds import play  # noqa: E402

ROUNDS = int(os.environ.get("TARRY_PAIR_ROUNDS", "5"))
SEED = int(os.environ.get("TARRY_PAIR_SEED", "12741054"))  # with this seed, the third round stops a leader that was just started


class Rounds(unittest.TestCase):
    def test_a_pair_in_trouble(self):  # Proves F-13, F-15, F-24, F-25, F-26, F-27, F-30 and F-31.
        print(f"# seed {SEED}, {ROUNDS} rounds", flush=True)
        result = play(ROUNDS, SEED, chapter_rounds=ROUNDS)
        for why in result.lacks:
            print(f"# LACKING: {why}: fewer troubles were drawn", flush=True)
        for line in result.summary.splitlines():
            print(f"# {line}", flush=True)
        self.assertFalse(result.wrong, f"seed {SEED}: {len(result.wrong)}, such as\n" + "\n".join(result.wrong[:8]) + f"\n{result.told}")


if __name__ == "__main__":
    harness.main()
