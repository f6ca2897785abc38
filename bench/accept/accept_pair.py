"""Issue 4: the cost of a follower. The same load on a broker alone, with an asynchronous and with a synchronous follower, one
after the other in one run. The median throughput with a synchronous follower must be at least 70 % of that of a
broker alone.

./dev bench accept_pair                 a core for each node: client and leader on one, the follower on another
./dev bench accept_pair --cores shared  the kernel places all processes, as in the other benches

Two brokers and their client on one machine share its cores, unlike on two machines. With two cores, one core per node shows a
pair fairly: client and leader have the same core with or without a follower, and the ratio shows the cost of following: the link,
and waiting for the other disk. The follower's own work is shown by its CPU time. With `shared`, both nodes work on the same
cores, so the ratio shows the number of cores rather than the speed of the link; this ratio is printed, but has no limit. Both nodes
always share one disk.
"""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from accept import Verdict, cpu_s, harness
from pair import free_port

RATIO_MIN = 0.70
MODES = ("none", "async", "sync")
LEADER_CORE, FOLLOWER_CORE = "0", "1"
WAIT_S = 120


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1_000_000, help="in each run of the throughput")
    parser.add_argument("--calls", type=int, default=5000, help="in each run of the latency")
    parser.add_argument("--rounds", type=int, default=5, help="each with all three modes, in turn")
    parser.add_argument("--cores", choices=("each", "shared"), default="each")
    return parser.parse_args()


class Nodes:
    """Starts a broker, and a follower unless `mode` is none; waits until it is in sync, if the mode needs that."""

    def __init__(self, mode, pinned):
        self.mode, self.pinned = mode, pinned
        self.directory = tempfile.mkdtemp(prefix="tarry-accept-", dir=os.environ.get("TARRY_BENCH_DIR"))
        urls = [f"ws://127.0.0.1:{free_port()}" for _ in range(2)]
        options = ["--coordinator", f"file://{self.directory}/coordinator", "--replication", mode]
        self.leader = self.make("a", LEADER_CORE, urls[0], *(["--peer", urls[1], *options] if mode != "none" else [])).start()
        self.follower = None
        if mode == "none":
            return
        self.follower = self.make("b", FOLLOWER_CORE, urls[1], "--follow", urls[0], *options).start()
        self.wait(lambda: self.status()["peer"]["heard_ms"] and (mode == "async" or self.status()["in_sync"]))

    def make(self, name, core, url, *options):
        prefix = ("taskset", "-c", core) if self.pinned else ()
        return harness.Broker(os.path.join(self.directory, name), *options, listen=url, prefix=prefix)

    def status(self, broker=None):
        return (broker or self.leader).tarry("status").one

    def wait(self, check):
        end = time.monotonic() + WAIT_S
        while not check():
            if time.monotonic() > end:
                sys.exit(f"the follower is not where it should be within {WAIT_S} s: {self.status()}")
            time.sleep(0.02)

    def wait_applied(self):
        """Returns the seconds until the follower has applied all frames that the leader has appended."""
        before = time.monotonic()
        if self.follower:
            self.wait(lambda: self.status(self.follower)["applied"] >= self.status()["appended"])
        return time.monotonic() - before

    def cpu_s(self):
        """(leader, follower)"""
        return cpu_s(self.leader.process.pid), cpu_s(self.follower.process.pid) if self.follower else 0.0

    def run(self, program, *options):
        """Returns a bench's output, name → number, and its CPU time."""
        command = ["taskset", "-c", LEADER_CORE] if self.pinned else []
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*command, harness.find_program(program), "--broker", self.leader.url, *options],
                              stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            sys.exit(f"{program} failed: {done.stdout}\n{self.leader.log_text()}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        pairs = (word.split("=") for word in done.stdout.split())
        figures = {name: float(value) for name, value in pairs if value.replace(".", "").isdigit()}
        return figures, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def end(self):
        for broker in (self.follower, self.leader):
            if broker and broker.is_running():
                broker.kill()
        harness.shutil.rmtree(self.directory, ignore_errors=True)


def measure(mode, args):
    """Returns name → figure of one run."""
    nodes = Nodes(mode, args.cores == "each")
    try:
        latency, _ = nodes.run("bench_latency", "--calls", str(args.calls))
        before = nodes.cpu_s()
        rate, client_s = nodes.run("bench_schedule", "--tasks", str(args.tasks), "--after-ms", "3600000", "--spread-ms", "3600000")
        behind_s = nodes.wait_applied()
        after = nodes.cpu_s()
        if nodes.follower:
            found = next(q["pending"] for q in nodes.follower.ok("stats", "--from-follower") if q["queue"] == "bench")
            if found != args.tasks:
                sys.exit(f"the follower has {found} tasks of {args.tasks}")
        return {"acknowledged": rate["acknowledged_per_s"], "caught_up": rate["caught_up_per_s"], "behind_s": behind_s,
                "p50": latency["p50_us"], "p99": latency["p99_us"], "client": client_s * 1e6 / args.tasks,
                "leader": (after[0] - before[0]) * 1e6 / args.tasks, "follower": (after[1] - before[1]) * 1e6 / args.tasks}
    finally:
        nodes.end()


def main():
    args = arguments()
    rounds = []
    for number in range(args.rounds):
        rounds.append({mode: measure(mode, args) for mode in MODES})
        print(f"round {number + 1}: " + ", ".join(f"{mode} {rounds[-1][mode]['acknowledged']:.0f}/s" for mode in MODES), flush=True)
    print(f"\nmedians of {args.rounds} rounds of {args.tasks} tasks, cores: {args.cores}; CPU in µs a task; ratios: of each round")
    print(f"{'mode':6} {'acknowledged/s':>15} {'caught up/s':>12} {'ratio':>6} {'p50 µs':>8} {'p99 µs':>8} "
          f"{'client':>7} {'leader':>7} {'follower':>9} {'applied after':>14}")
    ratios = {}
    for mode in MODES:
        median = {name: statistics.median(one[mode][name] for one in rounds) for name in rounds[0][mode]}
        ratios[mode] = statistics.median(one[mode]["caught_up"] / one["none"]["caught_up"] for one in rounds)
        print(f"{mode:6} {median['acknowledged']:15.0f} {median['caught_up']:12.0f} {ratios[mode]:6.2f} {median['p50']:8.0f} "
              f"{median['p99']:8.0f} {median['client']:7.2f} {median['leader']:7.2f} {median['follower']:9.2f} "
              f"{median['behind_s']:12.2f} s")
    verdict = Verdict()
    if args.cores == "each":
        verdict.check(ratios["sync"] >= RATIO_MIN, f"sync is {ratios['sync']:.0%} of unreplicated (at least {RATIO_MIN:.0%})")
    verdict.exit()


if __name__ == "__main__":
    main()
