"""door.py: `./dev bench door [ROUNDS] [--json]`: the cost of calls through the broker's door (its network side). Compares
Tarry with other systems (peers.py), and measures with hostile clients (hostile.py), all in one run. Prints a table: figure,
limit, and whether the limit is met; with --json the same as one object. Figures are medians of the rounds; both sides of a
ratio are measured in the same round. Exits with 1 if a limit is not met. Nothing else should run meanwhile.
"""
import json
import os
import statistics
import sys

import hostile
import peers

ROUNDS_DEFAULT = 5
SLEEPS_MAX, CLIENT_CPU_US_MAX, IDLE_CPU_MAX = 8.0, 25.0, 0.01


def sleeps(pid):
    """Returns how often threads of the process have gone to sleep."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as file:
            total += int(next(line for line in file if line.startswith("voluntary_ctxt_switches")).split()[1])
    return total


def calls_round(systems, samples):
    """Measures one call at a time, and 64 threads, with each system."""
    def note(name, value):
        samples.setdefault(name, []).append(float(value))

    tarry = systems["tarry"]
    for name, system in systems.items():
        if name != "tarry":
            note(name, peers.run(system.measure(peers.ALONE, peers.CALLS_ALONE))["p50_us"])
    for way in ("ws", "unix", "wss"):
        before = sleeps(tarry.broker.process.pid)
        said = peers.run(tarry.measure(peers.ALONE, peers.CALLS_ALONE, way))
        note(way, said["p50_us"])
        if way == "ws":
            note("sleeps", (sleeps(tarry.broker.process.pid) - before) / peers.CALLS_ALONE + float(said["client_sleeps"]))
            note("client_cpu", said["client_cpu_us"])
    for name in ("redis", "tarry"):
        note(f"{name} together", peers.run(systems[name].measure(peers.TOGETHER, peers.CALLS_TOGETHER))["per_s"])


def measure(rounds):
    """Returns samples by name, the p50 and p99 of a call for each kind of hostile load (hostile.py), and the memory and CPU
    time of idle connections.
    """
    samples, found, costs = {}, {}, []
    hostile.raise_limits()
    with peers.all_systems() as systems:
        for _ in range(rounds):
            calls_round(systems, samples)
            costs.append(hostile.judge(systems["tarry"].broker, found))
    return samples, found, costs


def rows_of(samples, found, costs):
    """Returns (name, figure, unit, limit, is_at_least) for each row."""
    def ratio(above, below):
        return statistics.median(a / b for a, b in zip(samples[above], samples[below]))

    durable = ("beanstalkd", "redis", "postgresql")
    samples["best peer"] = [min(several) for several in zip(*(samples[name] for name in durable))]
    best = min(durable, key=lambda name: statistics.median(samples[name]))
    return [
        (f"one blocking call, of the best durable peer's ({best})", ratio("ws", "best peer"), "x", 1.5, False),
        ("the same over unix://, of the best durable peer's", ratio("unix", "best peer"), "x", 1.2, False),
        ("the same over wss://, of ws://", ratio("wss", "ws"), "x", 1.25, False),
        ("64 threads on one client, of Redis always with 64 connections", ratio("tarry together", "redis together"), "x", 3.0, True),
        ("thread sleeps a lone call, both ends", statistics.median(samples["sleeps"]), "", SLEEPS_MAX, False),
        ("client CPU a blocking call", statistics.median(samples["client_cpu"]), "us", CLIENT_CPU_US_MAX, False),
        (f"{hostile.IDLE} idle connections, memory", max(cost[0] for cost in costs), "MiB", hostile.IDLE_MIB_MAX, False),
        (f"{hostile.IDLE} idle connections, CPU", statistics.median(cost[1] for cost in costs), "cores", IDLE_CPU_MAX, False),
        ("a call's p99 among strangers, of the quiet broker's", hostile.worst_of_quiet(found), "x", hostile.P99_RATIO_MAX, False),
    ]


def is_met(row):
    _, figure, _, limit, is_at_least = row
    return figure >= limit if is_at_least else figure <= limit


def print_table(rows, samples, found):
    width = max(len(row[0]) for row in rows)
    for row in rows:
        name, figure, unit, limit, is_at_least = row
        print(f"{name:<{width}}  {figure:9.2f} {unit:<5}  {'>=' if is_at_least else '<='} {limit:g}  {'met' if is_met(row) else 'NOT MET'}")
    for name, values in samples.items():
        print(f"bench=door sample=\"{name}\" median={statistics.median(values):.2f} each={[round(value, 2) for value in values]}")
    for name, values in found.items():
        print(f"bench=door beside=\"{name}\" each_p50_us={[round(p50) for p50, _ in values]} each_p99_us={[round(p99) for _, p99 in values]}")


def main():
    words = [word for word in sys.argv[1:] if word != "--json"]
    if len(words) > 1 or any(not word.isdigit() or word == "0" for word in words):
        sys.exit("bench: door takes a number of rounds, and --json")
    samples, found, costs = measure(int(words[0]) if words else ROUNDS_DEFAULT)
    rows = rows_of(samples, found, costs)
    if "--json" in sys.argv[1:]:
        table = [{"name": row[0], "figure": round(row[1], 3), "unit": row[2], "limit": row[3], "at_least": row[4], "met": is_met(row)} for row in rows]
        print(json.dumps({"rows": table, "samples": samples, "beside": found, "idle": costs, "load": os.getloadavg()}, indent=1))
    else:
        print_table(rows, samples, found)
    return 0 if all(is_met(row) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
