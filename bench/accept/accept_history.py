"""Issue 5: a log of the story of orders, made by a real broker; how fast one order's history is found in it, and how fast
all of it is streamed.

    ./dev bench accept_history                        10 million records, in a temporary directory
    ./dev bench accept_history 100000000 --keep DIR   more, in DIR, which is left (and used again if it is there)
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

from accept import Verdict, harness

RECORDS_PER_ORDER = 2.1  # story.c
HISTORY_S_MAX = 1.0
RECORDS_PER_S_MIN = 1_000_000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=int, nargs="?", default=10_000_000)
    parser.add_argument("--keep", metavar="DIR")
    return parser.parse_args()


def tell_story(data, records):
    orders = int(records / RECORDS_PER_ORDER) + 1
    broker = harness.Broker(data, "--retain-log-size", "1TiB", "--retain-log-age", "365d").start()
    done = subprocess.run([harness.find_program("bench_story"), "--broker", broker.url, "--orders", str(orders)],
                          stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout.strip(), flush=True)
    if done.returncode:
        sys.exit("the story was not told")
    backup_s = time_of("backup", os.path.join(os.path.dirname(data), "copy"), "--no-verify", "--broker", broker.url)[0]
    print(f"backup while it runs: {backup_s:.2f} s", flush=True)
    broker.stop(600)
    return orders


def time_of(*command):
    """(seconds, the output's lines) of a run of the tool; the better of two, for the first finds nothing in the cache."""
    started = time.monotonic()
    done = subprocess.run([harness.find_program("tarry"), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return time.monotonic() - started, done.stdout, done.stderr.decode()


def stream_of(*command):
    """(seconds, records) of a run of audit whose records nobody keeps."""
    started = time.monotonic()
    with subprocess.Popen([harness.find_program("tarry"), *command, "--json"], stdout=subprocess.PIPE) as tool:
        count = subprocess.run(["wc", "-l"], stdin=tool.stdout, stdout=subprocess.PIPE, check=True).stdout
    return time.monotonic() - started, int(count)


def main():
    options = arguments()
    verdict = Verdict()
    root = options.keep or tempfile.mkdtemp(prefix="tarry-accept-", dir=os.environ.get("TARRY_BENCH_DIR"))
    data = os.path.join(root, "data")
    if not os.path.exists(data):
        os.makedirs(root, exist_ok=True)
        tell_story(data, options.records)
    log = os.path.join(data, "log")
    size = sum(os.path.getsize(os.path.join(log, name)) for name in os.listdir(log))
    print(f"log: {size >> 20} MiB in {len(os.listdir(log))} files", flush=True)
    for place in (1, 500_001, int(options.records / RECORDS_PER_ORDER) - 7):
        seconds, out, _ = time_of("history", "--data", data, "close-order", f"order-{place:09}", "--json")
        lines = out.count(b"\n")
        verdict.check(lines >= 1 and seconds < HISTORY_S_MAX, f"history by key, order {place}: {seconds * 1000:.0f} ms, {lines} lines")
        task = out.split(b'"id":')[1].split(b",")[0].decode() if lines else "1"
        seconds, out, _ = time_of("history", "--data", data, "--id", task, "--json")
        verdict.check(out.count(b"\n") >= 1 and seconds < HISTORY_S_MAX, f"history --id {task}: {seconds * 1000:.0f} ms")
    for name, filters in (("all of it", ()), ("--kind acked", ("--kind", "acked")), ("--queue ship", ("--queue", "ship")),
                          ("--prefix order-0000001", ("--queue", "close-order", "--prefix", "order-0000001"))):
        seconds, count = stream_of("audit", "--data", data, *filters)
        rate = options.records / seconds
        verdict.check(count > 0 and rate >= RECORDS_PER_S_MIN,
                      f"audit --json, {name}: {count} lines in {seconds:.2f} s, {rate / 1e6:.2f} million records/s looked at")
    if not options.keep:
        harness.shutil.rmtree(root)
    verdict.exit()


main()
