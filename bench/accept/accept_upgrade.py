"""Measures the longest call of a producer during an upgrade of both nodes of a pair. First the follower gets SIGTERM and is
restarted. After that the leader gets SIGTERM, hands over, and is restarted. Everything is on one host; ZooKeeper is the
coordinator. No call may fail; the median of the longest calls must be at most 100 ms.

./dev bench accept_upgrade [TIMES]        (10 times)
"""
import os
import sys

from accept import Verdict, quantile
from pair_at_work import PairAtWork

TIMES = int(sys.argv[1]) if len(sys.argv) > 1 else 10
LIMIT_MS = 100
CALLS_AROUND = 20


def restart(pair, name):
    """Stops a node with SIGTERM and starts it again; returns ms of the longest call until both nodes are in sync again."""
    producer = pair.producer
    since = len(producer.calls)
    pair.wait("calls before", lambda: len(producer.calls) > since + CALLS_AROUND)
    since = len(producer.calls)
    pair.scene.stop(name)
    pair.scene.wait_gone(name)
    pair.scene.launch(name)
    pair.scene.roles()
    now = len(producer.calls)
    pair.wait("calls after", lambda: len(producer.calls) > now + CALLS_AROUND)
    return producer.longest_ms(since)


def upgrade(pair):
    leader, follower = pair.scene.roles()
    return restart(pair, follower), restart(pair, leader)


def main():
    verdict = Verdict()
    pair = PairAtWork()
    try:
        times = [upgrade(pair) for _ in range(TIMES)]
    finally:
        pair.end()
    followers, leaders = ([item[number] for item in times] for number in (0, 1))
    both = [max(item) for item in times]
    verdict.check(quantile(both, 0.5) <= LIMIT_MS,
                  f"{TIMES} upgrades: the longest call took a median of {quantile(both, 0.5):.0f} ms, worst {max(both):.0f} ms; at the "
                  f"follower's restart {quantile(followers, 0.5):.0f} and {max(followers):.0f} ms, at the leader's "
                  f"{quantile(leaders, 0.5):.0f} and {max(leaders):.0f} ms")
    verdict.exit()


if __name__ == "__main__":
    assert os.environ.get("TARRY_BUILD_ROOT"), "run by ./dev bench accept_upgrade"
    main()
