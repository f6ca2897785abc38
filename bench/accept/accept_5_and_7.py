"""Acceptance 5 and 7: 5 million tasks due far ahead use bounded memory; a restart with them takes under 2 s; the idle broker uses
no CPU time; and tasks of a small queue are always on time."""
import subprocess
import sys
import time

from accept import Probe, Rss, Verdict, cpu_s, finish, new_broker, quantile, harness

TASKS = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
LATE_MS_MAX = 1000


def main():
    verdict = Verdict()
    broker = new_broker("--memory", "256MiB")
    probe = Probe(broker)
    rss = Rss(broker)
    done = subprocess.run([harness.find_program("bench_schedule"), "--broker", broker.url, "--queue", "far", "--tasks", str(TASKS),
                           "--after-ms", "86400000", "--spread-ms", "2592000000"], stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout.strip())
    verdict.check(done.returncode == 0, f"{TASKS} far tasks were scheduled")
    time.sleep(3)
    peak_mib = rss.end()
    verdict.check(peak_mib < 512, f"RSS, mapped pages included, peaked at {peak_mib:.0f} MiB (limit 512)")
    broker.kill()
    started = time.monotonic()
    broker.start()
    took_s = time.monotonic() - started
    verdict.check(took_s < 2, f"ready {took_s:.2f} s after kill -9 (limit 2), took_ms={broker.ready['took_ms']}")
    recovered = int(broker.ready["recovered_tasks"])
    verdict.check(recovered >= TASKS, f"{recovered} tasks recovered")
    time.sleep(2)
    _, late_ms = probe.end()
    verdict.check(probe.early == 0 and len(late_ms) == probe.sent, f"{len(late_ms)} of {probe.sent} probes came, {probe.early} early")
    verdict.check(quantile(late_ms, 0.99) < LATE_MS_MAX, f"a task due in 1 s beside the load: lateness p50={quantile(late_ms, 0.5)} "
                  f"p99={quantile(late_ms, 0.99)} max={max(late_ms)} ms (max includes the kill)")
    stats = broker.queue_stats("far")
    verdict.check(stats["pending"] == TASKS, f"stats: {stats['pending']} pending on the far queue")
    for stream in broker.streams:
        stream.kill()
    time.sleep(30)
    before = cpu_s(broker.process.pid)
    time.sleep(20)
    share = (cpu_s(broker.process.pid) - before) / 20 * 100
    verdict.check(share < 1, f"idle CPU {share:.2f} % of a core, 30 s after the last request (limit 1)")
    broker.kill()
    verified = broker.tarry("verify", broker.data, wait_s=600)
    verdict.check(verified.status == 0, f"verify: {(verified.out or verified.err).strip()[:300]}")
    finish(broker)
    verdict.exit()


main()
