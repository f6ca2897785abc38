"""Acceptance 6: four consumers drain 1 million tasks due in the same second, each acked once; 1 million overdue tasks on a queue
without a consumer do not delay another queue."""
import subprocess
import sys
import time

from accept import Probe, Rss, Verdict, finish, new_broker, quantile, harness

TASKS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
LATE_MS_MAX = 1000


def main():
    verdict = Verdict()
    broker = new_broker()
    rss = Rss(broker)
    done = subprocess.run([harness.find_program("bench_drain"), "--broker", broker.url, "--tasks", str(TASKS), "--consumers", "4"],
                          stdout=subprocess.PIPE, text=True, check=False, timeout=900)
    print(done.stdout.strip())
    verdict.check(done.returncode == 0, f"{TASKS} tasks of one second drained to 4 consumers, each acked once")
    stats = broker.queue_stats("drain")
    verdict.check(stats["acked"] == TASKS and stats["pending"] == stats["ready"] == stats["in_flight"] == 0,
                  f"stats: acked={stats['acked']} pending={stats['pending']} ready={stats['ready']} in_flight={stats['in_flight']}")
    probe = Probe(broker, delay_ms=300, every_s=0.02)
    time.sleep(5)
    _, before = probe.forget()
    done = subprocess.run([harness.find_program("bench_schedule"), "--broker", broker.url, "--queue", "orphan", "--tasks", str(TASKS),
                           "--after-ms", "0", "--spread-ms", "1"], stdout=subprocess.PIPE, text=True, check=False, timeout=900)
    print(done.stdout.strip())
    time.sleep(1)
    during_from = len(probe.late_ms)
    time.sleep(10)
    _, late_ms = probe.end()
    loading, after = late_ms[len(before):during_from], late_ms[during_from:]
    verdict.check(done.returncode == 0, f"{TASKS} overdue tasks on a queue without consumers")
    verdict.check(len(late_ms) == probe.sent and probe.early == 0, f"{len(late_ms)} of {probe.sent} probes came, {probe.early} early")
    for name, values in (("before", before), ("while they are scheduled", loading), ("beside them", after)):
        verdict.check(quantile(values, 0.99) < LATE_MS_MAX, f"another queue, {name}: lateness p50={quantile(values, 0.5)} "
                      f"p99={quantile(values, 0.99)} max={max(values, default=0)} ms")
    peak_mib = rss.end()
    verdict.check(peak_mib < 512, f"RSS peaked at {peak_mib:.0f} MiB")
    finish(broker)
    verdict.exit()


main()
