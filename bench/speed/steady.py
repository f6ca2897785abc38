"""steady.py: row S9 of the speed table: a long run with equal rates in and out, and delays from 1 s to a third of the run's time
(10 of 30 minutes). Memory, disk and lateness are sampled all the time, and must be flat once the longest delay is over. The
history is limited to 1 GiB of log, without an archive: otherwise it would grow to its own limits by design."""
import statistics
import subprocess
import sys

import accept
import brokers
import machine
import report

RATE = 100_000
MEMORY = "8GiB"  # --memory of the broker: 30 million tasks are pending at any time; with 256MiB nearly each of them would be read from the index again
CONSUMERS = 2  # number of consumers, each with a prefetch of 8,192. With only one, a lease, its delivery and its ack may take at most 82 ms at 100,000/s, and the disk alone sometimes takes 30
OPTIONS = ("--archiving", "no", "--retain-log-size", "1GiB")
REPORTS = 180
HELD_MIN = 0.99
MIB = 1 << 20


def sample(broker, line):
    said = brokers.figures_of(line)
    return {"at_s": said["at_s"], "sent": said["sent"], "arrived": said["arrived"], "late_p50_ms": said["late_p50_us"] / 1000, "late_p99_ms": said["late_p99_us"] / 1000,
            "late_p999_ms": said["late_p999_us"] / 1000, "rss_mib": accept.status_kib(broker.process.pid, "VmRSS") / 1024, "disk_mib": machine.size_of(broker.data) / MIB}


def watch(plan, broker, seconds):
    """Returns (samples, the bench's last line)."""
    spread_ms = int(seconds * 1000 / 3) - 1000
    command = brokers.command(broker, "bench_lateness", rate=plan.steady_rate, seconds=int(seconds), after_ms=1000, spread_ms=max(1000, spread_ms), consumers=CONSUMERS, leave=1, report_s=max(1, int(seconds) // REPORTS))
    samples, last = [], ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for last in process.stdout:
            if last.startswith("bench=lateness_part"):
                samples.append(sample(broker, last))
                if len(samples) % 20 == 0:
                    plan.say("S9: " + ", ".join(f"{name} {value:,.1f}" for name, value in samples[-1].items()))
        complaint = process.stderr.read()
    if process.returncode != 0:
        raise brokers.Wrong(f"{(last + complaint).strip()[-600:]}; log: {broker.log_text(5)}")
    print(complaint, end="", file=sys.stderr)
    return samples, brokers.figures_of(last)


def flat_line(name, samples, unit, ratio_max, slack=0.0):
    """The figure is the median of the last third."""
    is_flat, first, last = report.is_flat(samples, ratio_max, slack)
    wanted = f"≤ {ratio_max:g} × {report.number(first)}" + (f" or + {slack:g} {unit}" if slack else "")
    return report.line("S9", name, last, unit, wanted=wanted + ", the first third's", met=is_flat)


def lines_of(samples, said, seconds, rate, memory):
    """In the steady part, everything that is due was scheduled during the run, at the full rate."""
    steady = [one for one in samples if one["at_s"] > seconds / 3]
    lines = [report.line("S9", f"{seconds / 60:g} minutes of {rate:,}/s in, --memory {memory}: held", said["held_per_s"], "/s", wanted=f"≥ {HELD_MIN:.0%} of it", met=said["held_per_s"] >= HELD_MIN * rate)]
    if len(steady) >= 6:
        out = (steady[-1]["arrived"] - steady[0]["arrived"]) / (steady[-1]["at_s"] - steady[0]["at_s"])
        lines += [report.line("S9", "… out, once the longest delay is over", out, "/s", wanted=f"≥ {HELD_MIN:.0%} of it", met=out >= HELD_MIN * rate),
                  flat_line("… resident memory", [one["rss_mib"] for one in steady], "MiB", report.FLAT_RATIO),
                  flat_line("… disk", [one["disk_mib"] for one in steady], "MiB", report.FLAT_RATIO),
                  flat_line("… lateness, p99", [one["late_p99_ms"] for one in steady], "ms", report.LATENESS_FLAT_RATIO, report.LATENESS_FLAT_SLACK)]
    bad = {name: said[name] for name in ("lost", "twice", "early", "not_acked")}
    lines.append(report.line("S9", "… refused, lost, twice, early", sum(bad.values()), "", wanted="0", met=not any(bad.values())))
    return lines


def measure(plan):
    seconds = plan.minutes * 60
    options = (*OPTIONS, "--memory", plan.steady_memory)
    with brokers.fresh(*options) as broker:
        cost = machine.Cost(broker.process.pid)
        samples, said = watch(plan, broker, seconds)
        spent = cost.end(max(1, said["arrived"]))
    p50 = statistics.median(one["late_p50_ms"] for one in samples) if samples else 0
    limits = [f"lateness all the while: p50 {said['late_p50_us'] / 1000:.1f}, p99 {said['late_p99_us'] / 1000:.1f}, p99.9 {said['late_p999_us'] / 1000:.1f} ms (median of p50: {p50:.1f}); "
              f"{said['left']:,.0f} left pending, as the broker counts; at most {said['behind_max_ms']:,.0f} ms behind",
              "of each delivered: " + report.distance(spent, plan.floor, said["arrived"] / seconds)]
    return {"lines": lines_of(samples, said, seconds, plan.steady_rate, plan.steady_memory), "samples": {"rate": plan.steady_rate, "series": samples, "end": said, "options": list(options)}, "limits": limits}
