"""pending.py: rows S7 and S8 of the speed table, and the curves over the number of pending tasks. Tasks are loaded in steps up
to the requested number. After that the broker is killed and restarted twice: with its files in the page cache, and with an
empty page cache. The other systems get --peer-pending tasks.
"""
import os
import statistics
import subprocess
import time

import accept
import brokers
import machine
import peers
import report

FAR = {"after_ms": 86_400_000, "spread_ms": 2_592_000_000}  # due times are random within 30 days
PAYLOAD_SIZE, KEY_SIZE = 32, 24  # bench_schedule's keys have 23 to 25 bytes
MILLION = 1_000_000
STEPS = 9  # number of loading steps after the first million tasks
SIZES = (1_000, 10_000, 100_000, MILLION, 10 * MILLION, 100 * MILLION)
ONE_BROKER_FROM = 10 * MILLION  # from this number of pending tasks on, all points of the curve use one broker. Each smaller point uses a new broker, because the tasks of the previous point would still be pending
RATE_FLAT_MIN = 0.9
DISK_RATIO_MAX, MEMORY_SHARE, WARM_S_MAX, COLD_S_MAX = 1.5, 80, 0.3, 1.0
FIRST_WAIT_S = 600
SAMPLE = 300_000


class Restart:
    """Kills the broker (kill -9) and measures the time until a consumer has the overdue task. Work between the death and the
    launch does not count.
    """

    def __init__(self, broker):
        self.broker = broker
        self.ask("bench_schedule", queue="first", tasks=1, after_ms=1, spread_ms=1)
        time.sleep(0.2)  # the task is overdue

    def ask(self, program, **options):
        return brokers.load(self.broker, program, **options)

    def measure(self, between=lambda: None):
        killed = time.time()
        self.broker.kill()
        died = time.time()
        between()
        launched = time.time()
        self.broker.launch()
        figures = self.ask("bench_first", port=self.broker.port, wait_s=FIRST_WAIT_S)
        self.broker.wait_ready(FIRST_WAIT_S)
        if figures["early"]:
            raise brokers.Wrong("a delivery was early")
        return died - killed + figures["delivered_us"] / 1e6 - launched


def cold(broker):
    """Returns the duration of the start in seconds; None: this user cannot empty the page cache."""
    dropped = []
    took = Restart(broker).measure(lambda: dropped.append(machine.drop_page_cache()))
    return took if dropped[0] else None


def point(broker, pending):
    """Measures one point of the curves. Afterwards the broker has SAMPLE more pending tasks than before."""
    found = {"pending": pending, "rss_mib": accept.status_kib(broker.process.pid, "VmRSS") / 1024}
    call = brokers.load(broker, "bench_latency", calls=500)
    late = brokers.load(broker, "bench_lateness", rate=10_000, seconds=3, after_ms=500, spread_ms=500)
    found.update(call_p50_us=call["p50_us"], call_p99_us=call["p99_us"], late_p50_ms=late["late_p50_us"] / 1000, late_p99_ms=late["late_p99_us"] / 1000)
    found["restart_s"] = Restart(broker).measure()
    found["per_s"] = brokers.load(broker, "bench_schedule", tasks=SAMPLE, payload_size=PAYLOAD_SIZE, queue="more", **FAR)["caught_up_per_s"]
    return found


def fill(broker, tasks):
    return brokers.load(broker, "bench_schedule", tasks=tasks, payload_size=PAYLOAD_SIZE, **FAR)["caught_up_per_s"]


def small_points(plan):
    found = []
    for size in SIZES if plan.curves else ():
        if size < min(ONE_BROKER_FROM, plan.pending + 1):
            with brokers.fresh() as broker:
                fill(broker, size)
                found.append(point(broker, size))
    return found


def steps_to(total):
    first = min(MILLION, max(1, total // 10))
    rest = total - first
    return [first] + [rest // STEPS + (1 if i < rest % STEPS else 0) for i in range(STEPS) if rest > 0]


def check_pending(broker, expected):
    found = broker.queue_stats("bench")["pending"]
    if found != expected:
        raise brokers.Wrong(f"{found} tasks are pending of {expected}")


def fill_all(plan, broker, points):
    """Loads the tasks in steps. Returns [(number of pending tasks after the step, rate of the step)] and the cost of the last
    step. Adds the point of the curves at ONE_BROKER_FROM pending tasks; this measurement kills and restarts the broker.
    """
    rates, pending, cost = [], 0, {}
    for size in steps_to(plan.pending):
        watch = machine.Cost(broker.process.pid)
        rate = fill(broker, size)
        cost = watch.end(size)
        pending += size
        rates.append((pending, rate))
        plan.say(f"S7: {pending:,} pending, {rate:,.0f}/s, {accept.status_kib(broker.process.pid, 'VmRSS') >> 10} MiB")
        if plan.curves and plan.pending > ONE_BROKER_FROM and pending - size < ONE_BROKER_FROM <= pending:
            points.append(point(broker, pending))
    return rates, cost


def hold(plan):
    """Measures Tarry with plan.pending tasks."""
    found = {"points": small_points(plan)}
    with brokers.fresh() as broker:
        rss = accept.Rss(broker)
        found["rates"], found["cost"] = fill_all(plan, broker, found["points"])
        found["peak_mib"] = rss.end()
        found["disk"] = {name: machine.size_of(os.path.join(broker.data, name)) if os.path.isdir(os.path.join(broker.data, name))
                         else os.lstat(os.path.join(broker.data, name)).st_blocks * 512 for name in os.listdir(broker.data)}
        found["warm_s"] = [Restart(broker).measure() for _ in range(3)]
        plan.say(f"S8: first delivery after {', '.join(f'{took:.2f}' for took in found['warm_s'])} s")
        found["cold_s"] = [took for took in (cold(broker) for _ in range(2)) if took is not None]
        check_pending(broker, plan.pending)
        if plan.curves and plan.pending >= ONE_BROKER_FROM:
            found["points"].append(point(broker, plan.pending))
    return found


# ---- the other systems

PEER_WAYS = {"redis": {"links": 4, "window": 512}, "beanstalkd": {"links": 4, "window": 512}, "postgresql": {"links": 2, "window": 4, "batch": 1000}}


def peer_first_s(server):
    """Measures the time from kill -9 to the first delivery. Connects again and again while the server refuses connections or
    says that it is loading.
    """
    brokers.run(server.load("schedule", tasks=1, after_ms=1000))
    time.sleep(2.2)  # waits for more than 1 s, because beanstalkd counts in seconds
    killed = time.time()
    server.kill()
    server.launch()
    end = time.monotonic() + FIRST_WAIT_S
    while time.monotonic() < end:
        done = subprocess.run(server.load("first"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False, timeout=FIRST_WAIT_S)
        if done.returncode == 0:
            return brokers.figures_of(done.stdout)["delivered_us"] / 1e6 - killed
        time.sleep(0.005)
    raise brokers.Wrong(f"{server.name} delivered nothing within {FIRST_WAIT_S} s of its restart")


def peer_start(name, directory):
    """beanstalkd is filled without a sync for each job, which would take minutes; its restart time is the same."""
    if name == "beanstalkd":
        return peers.Server(name, directory, ["beanstalkd", "-l", "127.0.0.1", "-p", "{port}", "-b", "{directory}", "-f1000"])
    return peers.SYSTEMS[name](directory)


def peer_hold(plan, name):
    """Returns [{pending, rss_mib, disk_bytes, restart_s}]."""
    found, pending = [], 0
    with brokers.directory() as top:
        directory = os.path.join(top, name)
        os.chmod(top, 0o755)
        os.mkdir(directory)
        server = peer_start(name, directory)
        try:
            for size in sorted({plan.peer_pending, *(size for size in SIZES if plan.curves and 10_000 <= size < plan.peer_pending)}):
                brokers.run(server.load("schedule", tasks=size - pending, after_ms=86_400_000, spread_ms=2_592_000_000 if name != "beanstalkd" else 1, **PEER_WAYS[name]))
                pending = size
                rss = sum(accept.status_kib(pid, "VmRSS") for pid in server.pids()) / 1024
                found.append({"pending": pending, "rss_mib": rss, "disk_bytes": machine.size_of(directory), "restart_s": peer_first_s(server)})
                plan.say(f"S8: {name}: {pending:,} pending, {rss:.0f} MiB, first delivery after {found[-1]['restart_s']:.2f} s")
        finally:
            server.close()
    return found


def hold_of_peers(plan):
    """Returns ({name: points}, [systems without points, and why])."""
    others, missing = {}, []
    for name in PEER_WAYS if plan.peers else ():
        try:
            others[name] = peer_hold(plan, name)
        except (brokers.Wrong, AssertionError) as error:
            plan.say(f"{name} has no figure: {error}")
            missing.append(f"{name} has no figure: {error}")
    return others, missing


# ---- rows

def lines_of_s7(plan, found, others):
    wanted_b = DISK_RATIO_MAX * (PAYLOAD_SIZE + KEY_SIZE)
    first, last = found["rates"][0][1], statistics.median(rate for _, rate in found["rates"][-3:])
    disk = sum(found["disk"].values()) / plan.pending
    in_memory = {name: points[-1]["rss_mib"] * plan.pending / points[-1]["pending"] for name, points in others.items() if name != "postgresql"}
    peer, theirs = report.best(in_memory, is_least=True)
    of = f" as of {plan.peer_pending:,}" if theirs else ""
    return [report.line("S7", f"{plan.pending:,} pending: peak resident", found["peak_mib"], "MiB", theirs=theirs, peer=peer + of, ratio_max=1 / MEMORY_SHARE),
            report.line("S7", "… disk a task, log and archive included", disk, "B",
                        wanted=f"≤ {wanted_b:.0f} B (payload and key: {PAYLOAD_SIZE + KEY_SIZE})", met=disk <= wanted_b),
            report.line("S7", f"… rate of the last third ({last:,.0f}/s), of the first {found['rates'][0][0]:,}'s", last / first, "×", limit_min=RATE_FLAT_MIN)]


def lines_of_s8(plan, found, others):
    peer, theirs = report.best({f"{name}, {points[-1]['pending']:,}:": points[-1]["restart_s"] for name, points in others.items()}, is_least=True)
    lines = [report.line("S8", f"kill -9 to the first delivery, {plan.pending:,} pending", statistics.median(found["warm_s"]), "s", theirs=theirs, peer=peer, limit_max=WARM_S_MAX)]
    if found["cold_s"]:
        lines.append(report.line("S8", "… with a cold page cache", statistics.median(found["cold_s"]), "s", limit_max=COLD_S_MAX))
    return lines


def measure(plan):
    """Measures rows S7 and S8, which come from one load. Returns {row name: result}."""
    found = hold(plan)
    others, missing = hold_of_peers(plan)
    disk = ", ".join(f"{name} {size / plan.pending:.0f}" for name, size in sorted(found["disk"].items(), key=lambda item: -item[1]) if size / plan.pending >= 1)
    return {"S7": {"lines": lines_of_s7(plan, found, others), "samples": {"rates": found["rates"], "peak_mib": found["peak_mib"], "disk": found["disk"], "peers": others},
                   "curves": {"tarry": found["points"], **others},
                   "limits": ["of the last step: " + report.distance(found["cost"], plan.floor, found["rates"][-1][1]), f"bytes of disk a task: {disk}", *missing]},
            "S8": {"lines": lines_of_s8(plan, found, others), "samples": {"warm_s": found["warm_s"], "cold_s": found["cold_s"]},
                   "limits": [] if found["cold_s"] else ["the page cache can be emptied by root only: no cold figure"]}}
