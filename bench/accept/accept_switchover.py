"""A planned switch-over of a pair, seen by a producer that makes one call after another during `tarry demote`: how long the
longest call takes, and how long the command. Everything is on one host; ZooKeeper is the coordinator. The median must be under 1
s.

./dev bench accept_switchover [TIMES]        (20 times)
"""
import os
import sys
import time

from accept import Verdict, quantile
from pair_at_work import PairAtWork

TIMES = int(sys.argv[1]) if len(sys.argv) > 1 else 20
LIMIT_MS = 1000
CALLS_AROUND = 20


def switch_over(pair):
    """Returns ms of the longest call, of the command, and of a usual call."""
    pair.scene.roles()
    producer = pair.producer
    since = len(producer.calls)
    pair.wait("calls before", lambda: len(producer.calls) > since + CALLS_AROUND)
    usual = quantile([answered - asked for asked, answered in producer.calls[since:]], 0.5)
    since, begun = len(producer.calls), time.monotonic()
    pair.clients.ok("demote", wait_s=60)
    took_ms = (time.monotonic() - begun) * 1000
    now = len(producer.calls)
    pair.wait("calls after", lambda: len(producer.calls) > now + CALLS_AROUND)
    return producer.longest_ms(since), took_ms, usual


def main():
    verdict = Verdict()
    pair = PairAtWork()
    try:
        times = [switch_over(pair) for _ in range(TIMES)]
    finally:
        pair.end()
    pauses, commands, usual = ([item[number] for item in times] for number in (0, 1, 2))
    median, worst = quantile(pauses, 0.5), max(pauses)
    verdict.check(median < LIMIT_MS, f"{TIMES} switch-overs: the longest call took a median of {median:.0f} ms, worst {worst:.0f} ms "
                                     f"(a usual one {quantile(usual, 0.5):.1f} ms); `tarry demote` {quantile(commands, 0.5):.0f} ms, worst "
                                     f"{max(commands):.0f} ms")
    verdict.exit()


if __name__ == "__main__":
    assert os.environ.get("TARRY_BUILD_ROOT"), "run by ./dev bench accept_switchover"
    main()
