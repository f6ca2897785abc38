"""Issue 5: a log made by a real broker with the load of bench/story.c (orders). Measured: how fast the history of one order is found, with an empty
page cache and a full one, from the log and from the archive; how fast the whole log is streamed, and its state rebuilt as of a
moment.

./dev bench accept_history                        10 million records, in a temporary directory
./dev bench accept_history 100000000 --keep DIR   100 million, in DIR, which is kept (and reused if it exists)

A directory that was extended with build/bench/grow_story works too.
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
    """Runs the tool; returns (seconds, output, messages)."""
    started = time.monotonic()
    done = subprocess.run([harness.find_program("tarry"), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return time.monotonic() - started, done.stdout, done.stderr.decode()


def stream_of(*command):
    """Runs audit and discards its records; returns (seconds, records)."""
    started = time.monotonic()
    with subprocess.Popen([harness.find_program("tarry"), *command], stdout=subprocess.PIPE) as tool:
        count = subprocess.run(["wc", "-l"], stdin=tool.stdout, stdout=subprocess.PIPE, check=True).stdout
    return time.monotonic() - started, int(count)


def forget(data):
    """Removes the directory's files from the page cache: the next query reads from the disk."""
    for directory, _, names in os.walk(data):
        for name in names:
            with open(os.path.join(directory, name), "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def check_history(verdict, data, orders, where):
    """Queries orders of the beginning, the middle and the end; first with an empty cache, then the same again."""
    for place in (1, orders // 2, orders - 7):
        key, task = f"order-{place:09}", None
        for warmth in ("cold", "warm"):
            if warmth == "cold":
                forget(data)
            seconds, out, _ = time_of("history", "--data", data, "close-order", key, "--json")
            lines = out.count(b"\n")
            verdict.check(lines >= 1 and seconds < HISTORY_S_MAX,
                          f"history of {key}, {where}, {warmth}: {seconds * 1000:.0f} ms, {lines} lines")
            task = out.split(b'"id":"')[1].split(b'"')[0].decode() if lines else "1"
        seconds, out, _ = time_of("history", "--data", data, "--id", task, "--json")
        verdict.check(out.count(b"\n") >= 1 and seconds < HISTORY_S_MAX, f"history --id {task}, {where}: {seconds * 1000:.0f} ms")


def check_streams(verdict, data, records):
    for name, filters in (("JSON", ("--json",)), ("table", ()), ("--kind acked", ("--json", "--kind", "acked")),
                          ("--queue ship", ("--json", "--queue", "ship")),
                          ("--prefix order-0000001", ("--json", "--queue", "close-order", "--prefix", "order-0000001"))):
        seconds, count = stream_of("audit", "--data", data, *filters)
        rate = records / seconds
        verdict.check(count > 0 and rate >= RECORDS_PER_S_MIN,
                      f"audit, {name}: {count} lines in {seconds:.2f} s, {rate / 1e6:.2f} million records/s looked at")


def archive_it(data):
    """Lets a broker archive all closed segments."""
    log = os.path.join(data, "log")
    broker = harness.Broker(data, "--retain-log-age", "0s", "--retain-log-size", "0").start()
    until = time.monotonic() + 3600
    while sum(name.endswith(".seg") for name in os.listdir(log)) > 2 and time.monotonic() < until:
        time.sleep(0.2)
    broker.stop(600)


def main():
    options = arguments()
    verdict = Verdict()
    root = options.keep or tempfile.mkdtemp(prefix="tarry-accept-", dir=os.environ.get("TARRY_BENCH_DIR"))
    data = os.path.join(root, "data")
    if not os.path.exists(data):
        os.makedirs(root, exist_ok=True)
        tell_story(data, options.records)
    orders = int(options.records / RECORDS_PER_ORDER)
    log = os.path.join(data, "log")
    size = sum(os.path.getsize(os.path.join(log, name)) for name in os.listdir(log))
    print(f"log: {size >> 20} MiB in {len(os.listdir(log))} files; load average {os.getloadavg()[0]:.1f}", flush=True)
    check_history(verdict, data, orders, "log")
    check_streams(verdict, data, options.records)
    middle = time_of("audit", "--data", data, "--kind", "acked", "--json", "--limit", "1")[1]
    moment = middle.split(b'"at_ms":')[1].split(b",")[0].decode()
    seconds, out, _ = time_of("audit", "--data", data, "--as-of", moment, "--json")
    verdict.check(len(out) > 0, f"as of {moment}, counts: {seconds:.2f} s")
    if not options.keep:
        archive_it(data)
        check_history(verdict, data, orders, "archive")
        harness.shutil.rmtree(root)
    verdict.exit()


main()
