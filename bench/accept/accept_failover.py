"""Failover of a pair: the time from SIGKILL of the primary to the first delivery by the other node, to a consumer that knows both
addresses; and how long a producer's call takes during which the kill happens. ZooKeeper is the coordinator; everything is on one
host. The median must be at most 500 ms, the maximum 1 s.

./dev bench accept_failover [TIMES [FAILOVER_AFTER]]        (50 times, with tarryd's default of 1,500 ms)
"""
import os
import sys
import time

from accept import Verdict, quantile
from pair_at_work import PairAtWork

TIMES = int(sys.argv[1]) if len(sys.argv) > 1 else 50
OPTIONS = ["--failover-after", sys.argv[2]] if len(sys.argv) > 2 else []
MEDIAN_MS, WORST_MS = 500, 1000
FED_S = 12


def fail_over(pair):
    """Returns ms from SIGKILL to the first delivery, and ms of the longest call."""
    scene = pair.scene
    pair.feed(FED_S)
    leader, _ = scene.roles()
    epoch = scene.status()[leader]["epoch"]
    seen, calls = len(pair.deliveries), len(pair.producer.calls)
    pair.wait("a delivery", lambda: len(pair.deliveries) > seen)
    killed_ms = time.time() * 1000
    scene.kill(leader)
    first = pair.first_of_epoch_after(epoch, seen)
    answered = len(pair.producer.calls)
    pair.wait("an answer", lambda: len(pair.producer.calls) > answered + 1)
    scene.launch(leader)
    scene.roles()
    return first["_arrived_ms"] - killed_ms, pair.producer.longest_ms(calls)


def main():
    verdict = Verdict()
    pair = PairAtWork(*OPTIONS)
    try:
        times = [fail_over(pair) for _ in range(TIMES)]
    finally:
        pair.end()
    firsts, calls = ([item[number] for item in times] for number in (0, 1))
    told = " ".join(OPTIONS) or "the defaults"
    median, worst = quantile(firsts, 0.5), max(firsts)
    verdict.check(median <= MEDIAN_MS and worst <= WORST_MS,
                  f"{TIMES} failovers with {told}: first delivery after a median of {median:.0f} ms, worst {worst:.0f} ms, "
                  f"best {min(firsts):.0f} ms")
    print(f"     a producer's call that was hit: median {quantile(calls, 0.5):.0f} ms, worst {max(calls):.0f} ms", flush=True)
    verdict.exit()


if __name__ == "__main__":
    assert os.environ.get("TARRY_BUILD_ROOT"), "run by ./dev bench accept_failover"
    main()
