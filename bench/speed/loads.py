"""loads.py: rows S1 to S6 and S10 of the speed table: rates, calls, lateness, and a pair; beside the other systems if requested.
With rounds, Tarry and the others are measured in turn, and medians are reported."""
import argparse
import statistics

import accept_pair
import brokers
import machine
import peers
import report

NEAR = {"after_ms": 60_000, "spread_ms": 540_000}  # the tasks are due within 10 minutes, but not during the measurement
ALL_PEERS, QUICK_PEERS = ("beanstalkd", "redis", "postgresql", "rabbitmq"), ("redis", "postgresql")
CALLS_ALONE, CALLS_TOGETHER = 3000, 500
PEER_MOST_S = 10  # seconds per measurement of another system; even a slow system has reached its rate after this time
S4_LIMITS_MS = {"p50": 0.3, "p99": 1.0, "p999": 3.0}
S4_DISK_ALLOWS = 0.5  # the limits of S4 apply to a disk whose own p99.9 is at most this share of 3 ms; on another disk, half of the best peer's figure applies
PAIR_TASKS, PAIR_CALLS = 1_000_000, 300


def medians(samples):
    return {name: statistics.median(values) for name, values in samples.items() if name != "failed"}


def beside(plan, names):
    """Starts those of the peers that are installed; returns the context of peers.all_systems."""
    return peers.all_systems(tuple(name for name in names if plan.peers and peers.is_installed(name)))


def note(samples, name, value):
    samples.setdefault(name, []).append(round(value, 3))


def note_peer(plan, samples, name, measure):
    """Reports a peer that fails; it has no figure, and Tarry's figures stay."""
    try:
        note(samples, name, measure())
    except brokers.Wrong as error:
        plan.say(f"{name} has no figure: {error}")
        samples.setdefault("failed", []).append(f"{name}: {error}")


def durable_schedules(plan):
    """S1"""
    ways = {"redis": [{"tasks": 400_000, "links": 1, "window": 1024}, {"tasks": 400_000, "links": 4, "window": 1024}],
            "postgresql": [{"tasks": 400_000, "links": 2, "window": 4, "batch": 1000}], "beanstalkd": [{"tasks": 40_000, "links": 4, "window": 64}],
            "rabbitmq": [{"tasks": 80_000, "links": 2, "window": 512}]}
    samples, cost = {}, None
    tasks = 4_000_000 if plan.full else 2_000_000
    with beside(plan, ALL_PEERS) as systems:
        for _ in range(plan.rounds):
            for name, system in systems.items():
                note_peer(plan, samples, name, lambda: max(brokers.run(system.load("schedule", **way, **NEAR, most_s=PEER_MOST_S))["per_s"] for way in ways[name]))
            with brokers.fresh() as broker:
                watch = machine.Cost(broker.process.pid)
                note(samples, "tarry", brokers.load(broker, "bench_schedule", tasks=tasks, payload_size=128, **NEAR)["caught_up_per_s"])
                cost = watch.end(tasks)
    middle = medians(samples)
    ours = middle.pop("tarry")
    peer, theirs = report.best(middle)
    line = report.line("S1", "durable schedules, batched, caught up", ours, "/s", theirs=theirs, peer=peer, ratio_min=10)
    return {"lines": [line], "samples": samples, "limits": [report.distance(cost, plan.floor, ours)]}


def calls(plan, row, threads, number, figure):
    """Returns samples of blocking calls."""
    samples = {}
    others = ALL_PEERS if row == "S3" else QUICK_PEERS
    with peers.all_systems(("tarry", *(name for name in others if plan.peers and peers.is_installed(name)))) as systems:
        for _ in range(max(3, plan.rounds)):
            for name, system in systems.items():
                if name == "tarry":
                    note(samples, name, brokers.run(system.measure(threads, number))[figure])
                else:
                    note_peer(plan, samples, name, lambda: brokers.run(system.measure(threads, number))[figure])
    return samples


def many_callers(plan):
    """S2"""
    samples = calls(plan, "S2", 64, CALLS_TOGETHER, "per_s")
    middle = medians(samples)
    ours = middle.pop("tarry")
    peer, theirs = report.best(middle)
    floor_us = plan.floor["turn_p50_us"] + plan.floor["sync_p50_us"]
    limit = (f"64 callers who each wait for the socket and one sync alone ({floor_us:.0f} µs): {report.number(64e6 / floor_us)}/s, "
             f"measured {report.number(ours)}/s ({ours * floor_us / 64e6:.0%})")
    return {"lines": [report.line("S2", "64 blocking threads on one client", ours, "/s", theirs=theirs, peer=peer, ratio_min=3)], "samples": samples, "limits": [limit]}


def lone_call(plan):
    """S3"""
    samples = calls(plan, "S3", 1, CALLS_ALONE, "p50_us")
    middle = medians(samples)
    ours = middle.pop("tarry")
    peer, theirs = report.best(middle, is_least=True)
    floor_us = plan.floor["turn_p50_us"] + plan.floor["sync_p50_us"]
    limit = f"the socket and one sync alone: {floor_us:.0f} µs, measured {ours:.0f} µs ({ours / floor_us:.1f} times that)"
    return {"lines": [report.line("S3", "one blocking call, median", ours, "µs", theirs=theirs, peer=peer, ratio_max=1.5)], "samples": samples, "limits": [limit]}


def note_lateness(samples, name, figures):
    for quantile in S4_LIMITS_MS:
        note(samples, f"{name} {quantile}", figures[f"late_{quantile}_us"] / 1000)


def lateness_lines(plan, middle):
    lines, disk_ms = [], plan.floor["sync_p999_us"] / 1000
    is_quick_disk = disk_ms <= S4_DISK_ALLOWS * S4_LIMITS_MS["p999"]
    for quantile, limit_ms in S4_LIMITS_MS.items():
        peer, theirs = report.best({name: middle[f"{name} {quantile}"] for name in QUICK_PEERS if f"{name} {quantile}" in middle}, is_least=True)
        reach = {"limit_max": limit_ms} if is_quick_disk else {"ratio_max": 0.5}
        lines.append(report.line("S4", f"lateness at 10,000/s, {quantile.replace('999', '99.9')}", middle[f"tarry {quantile}"], "ms", theirs=theirs, peer=peer, **reach))
    if "fast p99" in middle:
        lines.append(report.line("S4", "lateness at 100,000/s, p99", middle["fast p99"], "ms", limit_max=5))
    return lines, f"the disk's own p99.9: {disk_ms:.1f} ms, so {'the limits in ms are' if is_quick_disk else 'half of the best peer is'} what is wanted; a lease is one sync"


def lateness(plan):
    """S4"""
    load = {"rate": 10_000, "seconds": 15 if plan.full else 8, "after_ms": 1000, "spread_ms": 4000}
    ways = {"redis": {"window": 1024}, "postgresql": {"window": 16, "batch": 100}}
    samples = {}
    for _ in range(min(plan.rounds, 2)):
        with beside(plan, QUICK_PEERS) as systems:
            for name, system in systems.items():
                try:
                    note_lateness(samples, name, brokers.run(system.load("lateness", **load, **ways[name])))
                except brokers.Wrong as error:
                    plan.say(f"{name} has no figure: {error}")
        with brokers.fresh() as broker:
            note_lateness(samples, "tarry", brokers.load(broker, "bench_lateness", **load))
    with brokers.fresh() as broker:
        fast = brokers.load(broker, "bench_lateness", **{**load, "rate": 100_000})
    note_lateness(samples, "fast", fast)
    lines, limit = lateness_lines(plan, medians(samples))
    held = f"at 100,000/s: {report.number(fast['held_per_s'])}/s held, at most {fast['behind_max_ms']:.0f} ms behind"
    return {"lines": lines, "samples": samples, "limits": [limit, held]}


def due_at_once(plan):
    """S5"""
    tasks = 1_000_000 if plan.full else 500_000
    ways = {"redis": {"links": 4, "window": 1024}, "postgresql": {"links": 2, "window": 4, "batch": 1000}}
    samples, cost = {}, None
    with beside(plan, QUICK_PEERS) as systems:
        for name, system in systems.items():
            note_peer(plan, samples, name, lambda: brokers.run(system.load("drain", tasks=tasks, consumers=4, after_ms=tasks // 40, spread_ms=1000, **ways[name]))["per_s"])
    for _ in range(min(plan.rounds, 2)):
        with brokers.fresh() as broker:
            watch = machine.Cost(broker.process.pid)
            figures = brokers.load(broker, "bench_drain", tasks=tasks, consumers=4, after_ms=tasks // 100)
            cost = watch.end(tasks)
            note(samples, "tarry", figures["per_s"])
    middle = medians(samples)
    ours = middle.pop("tarry")
    peer, theirs = report.best(middle)
    count, compiler = machine.instructions_of_a_life()
    limit = (f"a life, scheduling included: {count:,} instructions counted ({compiler}); {cost['broker_us']:.1f} µs of the broker's CPU and {cost['client_us']:.1f} of the clients', so "
             f"all cores on lives alone make {report.number(report.of_all_cores(cost))} lives/s; {report.threads(cost)}; "
             f"{cost['disk_bytes']:.0f} bytes of disk, {cost['socket_bytes']:.0f} of the socket a life")
    line = report.line("S5", f"{tasks:,} due in one second, delivered and acked", ours, "/s", theirs=theirs, peer=peer, ratio_min=10)
    return {"lines": [line], "samples": samples, "limits": [limit]}


def order_story(plan):
    """S6"""
    orders, after_ms = 2_000_000 if plan.full else 1_000_000, 2000
    samples, cost = {}, None
    with beside(plan, ("redis",)) as systems:
        for _ in range(min(plan.rounds, 2)):
            for name, system in systems.items():
                note_peer(plan, samples, name, lambda: brokers.run(system.load("orders", tasks=300_000, links=4, window=512, after_ms=after_ms))["per_s"])
            with brokers.fresh() as broker:
                watch = machine.Cost(broker.process.pid)
                note(samples, "tarry", brokers.load(broker, "bench_orders", orders=orders, after_ms=after_ms)["per_s"])
                cost = watch.end(orders)
    middle = medians(samples)
    ours = middle.pop("tarry")
    peer, theirs = report.best(middle)
    line = report.line("S6", "orders: 90 % cancelled by key, 10 % fired, acked", ours, "op/s", theirs=theirs, peer=peer, ratio_min=10)
    return {"lines": [line], "samples": samples, "limits": ["of each order (two operations): " + report.distance(cost, plan.floor, ours / 2)]}


def pair(plan):
    """S10"""
    samples = {}
    for cores in ("each", "shared") if plan.full else ("each",):
        args = argparse.Namespace(tasks=PAIR_TASKS if plan.full else PAIR_TASKS // 2, calls=PAIR_CALLS, cores=cores)
        for _ in range(min(plan.rounds, 2)):
            alone, sync = (accept_pair.measure(mode, args)["caught_up"] for mode in ("none", "sync"))
            for name, value in ((f"alone, {cores}", alone), (f"sync, {cores}", sync), (f"ratio, {cores}", sync / alone)):
                note(samples, name, value)
    middle = medians(samples)
    lines = [report.line("S10", "sync replication, of alone, a core for each node", middle["ratio, each"], "×", limit_min=0.9)]
    if "ratio, shared" in middle:
        lines.append(report.line("S10", "the same, both on the same cores", middle["ratio, shared"], "×"))
    return {"lines": lines, "samples": samples, "limits": [f"alone {report.number(middle['alone, each'])}/s, sync {report.number(middle['sync, each'])}/s, client and leader on one core"]}
