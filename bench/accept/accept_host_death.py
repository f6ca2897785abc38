"""Death of a host: the time from the moment at which the primary's host sends nothing more (no reset, no refusal) to the first
delivery by the other node. Hosts are network namespaces (tests/netns): all packets to and from the primary's host are dropped at
one moment, then its process is killed, unnoticed. Two consumers know both addresses: one was connected to the primary, and one
dials when it dies. Three figures: until the other node leads (by its log), and until each consumer's first delivery from it. The
slowest delivery must come within 2.5 s. ZooKeeper has its default tickTime of 2 s, etcd its defaults.

./dev bench accept_host_death [COORDINATOR [TIMES [OPTION…]]]      (zookeeper and etcd, 20 times each, with tarryd's defaults)
"""
import os
import sys
import time

from accept import Verdict, quantile
from pair_at_work import PairAtWork
from scene import netns, zookeeper  # importing pair_at_work adds the path of this module

ALL = ("zookeeper", "etcd")
COORDINATORS = ALL if len(sys.argv) < 2 or sys.argv[1] == "all" else (sys.argv[1],)
TIMES = int(sys.argv[2]) if len(sys.argv) > 2 else 20
OPTIONS = sys.argv[3:]
WORST_MS = 2500
FED_S = 30
WAIT_S = 60
ZOOKEEPER_TICK_MS = 2000


class Leads:
    """Receives the brokers' messages; notes when a node last reported that it leads (ms)."""

    def __init__(self):
        self.at_ms = {}

    def tell(self, line):
        name, _, said = line.partition(": ")
        if "event=role role=leading" in said:
            self.at_ms[name] = time.time() * 1000


def die(pair, leads):
    """Kills a node. Returns three durations in ms from the death: until the other node leads, until the connected consumer
    gets its next delivery, and until the new consumer gets its first delivery.
    """
    scene = pair.scene
    pair.feed(FED_S)
    pair.feeder.send({"queue": "fresh", "delay_ms": 0})
    assert pair.feeder.next(WAIT_S)["result"] == "scheduled"
    leader, follower = scene.roles()
    epoch = scene.status()[leader]["epoch"]
    seen = len(pair.deliveries)
    pair.wait("a delivery", lambda: len(pair.deliveries) > seen)
    scene.network.isolate(leader)
    died_ms = time.time() * 1000
    scene.kill(leader)
    newcomer = scene.clients.consume("fresh")
    first = pair.first_of_epoch_after(epoch, seen)
    fresh = newcomer.next(WAIT_S)
    scene.network.heal()
    scene.launch(leader)
    scene.roles()
    newcomer.kill()
    return leads.at_ms[follower] - died_ms, first["_arrived_ms"] - died_ms, fresh["_arrived_ms"] - died_ms


def measure(coordinator, verdict):
    leads = Leads()
    pair = PairAtWork(*OPTIONS, story=leads, lack=netns.missing, coordinator=coordinator)
    try:
        times = []
        for _ in range(TIMES):
            times.append(die(pair, leads))
            print("     " + ", ".join(f"{what} {ms:.0f} ms" for what, ms in zip(("leads", "connected", "newcomer"), times[-1])), flush=True)
    finally:
        pair.end()
    told = " ".join(OPTIONS) or "the defaults"
    leading, connected, fresh = ([item[number] for item in times] for number in range(3))
    verdict.check(max(connected) <= WORST_MS and max(fresh) <= WORST_MS,
                  f"{coordinator}, {TIMES} deaths of a host with {told}: "
                  + "; ".join(f"{what} after a median of {quantile(ms, 0.5):.0f} ms, worst {max(ms):.0f} ms" for what, ms in
                              (("the other leads", leading), ("a connected consumer's delivery", connected), ("a new consumer's", fresh))))


def main():
    if missing := netns.missing():
        sys.exit(missing)
    zookeeper.TICK_MS = ZOOKEEPER_TICK_MS
    verdict = Verdict()
    for coordinator in COORDINATORS:
        measure(coordinator, verdict)
    verdict.exit()


if __name__ == "__main__":
    assert os.environ.get("TARRY_BUILD_ROOT"), "run by ./dev bench accept_host_death"
    main()
