"""table.py: `./dev bench [--full] [--peers] …`: the speed table, rows S1 to S10 (issue 16; bench/README.md describes each row).

Without options: all rows, small, in about two minutes, only Tarry. Each row is printed when it is done and, with --resume or
--json, written at once: an interrupted run continues where it was, and rows of different times are in one table, each with its
commit and date.
"""
import argparse
import datetime
import json
import os
import signal
import sys
import time
import traceback

import paths

paths.use()
import brokers  # noqa: E402 (the imports need the sys.path of paths.use)
import loads  # noqa: E402
import machine  # noqa: E402
import pending  # noqa: E402
import plots  # noqa: E402
import report  # noqa: E402
import steady  # noqa: E402

MEASURES = {"S1": loads.durable_schedules, "S2": loads.many_callers, "S3": loads.lone_call, "S4": loads.lateness, "S5": loads.due_at_once, "S6": loads.order_story,
            "S9": steady.measure, "S10": loads.pair}
BOTH = ("S7", "S8")  # the rows that come from one load
OF_THE_DISK = ("S3", "S4")  # in these rows a call or a lease waits for one sync, so the sync of the disk is measured again right before the row
FULL = {"pending": 100_000_000, "minutes": 30.0, "rounds": 3, "floor_s": 3}
QUICK = {"pending": 1_000_000, "minutes": 0.25, "rounds": 1, "floor_s": 1}
PEER_PENDING = 1_000_000
PENDING_BYTES = 260  # bytes; maximum size on disk per pending task, checked before the run and not found out after ten minutes


def rows_named(text):
    rows = [row.strip().upper() for row in text.split(",") if row.strip()]
    if unknown := [row for row in rows if row not in report.ROWS]:
        raise argparse.ArgumentTypeError(f"no row {', '.join(unknown)}: {', '.join(report.ROWS)}")
    return rows


def options_of(words):
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="at the sizes of record: 100 million pending, 30 minutes, 3 rounds, the curves")
    parser.add_argument("--peers", action="store_true", help="beanstalkd -f0, Redis always, PostgreSQL and RabbitMQ beside Tarry, in the same run")
    parser.add_argument("--rows", type=rows_named, default=list(report.ROWS), help="S1,S3,…: these alone (S7 and S8 come together)")
    parser.add_argument("--pending", type=int, help="S7, S8: how many tasks [1 million; --full: 100 million, 25 GB, 10 minutes]")
    parser.add_argument("--peer-pending", type=int, default=PEER_PENDING, help="… at the other systems [%(default)s; 10 million take them 9 minutes]")
    parser.add_argument("--minutes", type=float, help="S9: how long [0.25; --full: 30]")
    parser.add_argument("--steady-rate", type=int, default=steady.RATE, metavar="N", help="S9: tasks a second, in and out [%(default)s]")
    parser.add_argument("--steady-memory", default=steady.MEMORY, metavar="SIZE", help="S9: tarryd's --memory [%(default)s]")
    parser.add_argument("--rounds", type=int, help="of the rows that have rounds [1; --full: 3]")
    parser.add_argument("--curves", action="store_true", help="S7: points of the curves from 1,000 pending on (--full does)")
    parser.add_argument("--resume", metavar="FILE", help="JSON: what stands there already is told, too, and this run's rows are written there")
    parser.add_argument("--missing", action="store_true", help="only those of the rows that do not stand in --resume's file")
    parser.add_argument("--json", metavar="FILE", help="write there, and forget what stood there; -: to standard output")
    parser.add_argument("--plots", metavar="DIR", help="SVG (gnuplot)")
    parser.add_argument("--markdown", action="store_true", help="the table as bench/README.md has it")
    return parser.parse_args(words)


class Plan:
    """Sizes of the measurements: numbers of tasks, seconds and rounds."""

    def __init__(self, options):
        sizes = FULL if options.full else QUICK
        self.full, self.peers = options.full, options.peers
        self.pending = options.pending or sizes["pending"]
        self.peer_pending = options.peer_pending
        self.minutes = options.minutes or sizes["minutes"]
        self.steady_rate, self.steady_memory = options.steady_rate, options.steady_memory
        self.rounds = options.rounds or sizes["rounds"]
        self.curves = options.full or options.curves
        self.floor_s = sizes["floor_s"]
        self.floor = {}

    @staticmethod
    def say(sentence):
        print(f"bench: {sentence}", file=sys.stderr, flush=True)


def failed(row, error):
    return {"lines": [report.line(row, "FAILED, see below", None, "", met=False)], "error": str(error), "limits": [f"failed: {error}"]}


def measured(row, plan):
    """Measures one row, and returns {row: result}. S7 and S8 are measured together, so either of them returns both rows."""
    try:
        return pending.measure(plan) if row in BOTH else {row: MEASURES[row](plan)}
    except (Exception, SystemExit) as error:  # pylint: disable=broad-except  (a row that fails says so, and the next ones are measured)
        traceback.print_exc()
        return {each: failed(each, error) for each in (BOTH if row in BOTH else (row,))}


def stamped(rows, started, load, floor):
    about = {"commit": machine.commit(), "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "load": load,
             "took_s": round(time.monotonic() - started, 1), "sync_p50_us": floor["sync_p50_us"], "sync_p999_us": floor["sync_p999_us"]}
    return {row: {**about, **one} for row, one in rows.items()}


def check_room(plan, rows):
    if not set(rows) & set(BOTH):
        return
    with brokers.directory() as path:
        free = os.statvfs(path).f_bavail * os.statvfs(path).f_frsize
    if free < plan.pending * PENDING_BYTES:
        sys.exit(f"bench: {plan.pending:,} pending tasks want {plan.pending * PENDING_BYTES / 1e9:.0f} GB and {os.environ.get('TARRY_BENCH_DIR', 'the temporary directory')} "
                 f"has {free / 1e9:.0f}: TARRY_BENCH_DIR says where else, --pending N takes fewer")


def floors(seconds):
    with brokers.directory() as path:
        return machine.floors(path, seconds)


def measure_all(plan, rows, result, file):
    with brokers.directory() as path:
        result = report.merge(result, {"machine": machine.describe(path), "floor": floors(plan.floor_s)})
    if plan.peers:
        result["peers"] = machine.packages("beanstalkd", "redis-server", "postgresql", "rabbitmq-server")
    plan.floor = result["floor"]
    done = set()
    for row in rows:
        if row in done:
            continue
        started, load = time.monotonic(), os.getloadavg()[0]
        if row in OF_THE_DISK:
            plan.floor = floors(plan.floor_s)
        plan.say(f"{row} …")
        found = stamped(measured(row, plan), started, load, plan.floor)
        done.update(found)
        result = report.merge(result, {"rows": found})
        if file:
            report.save(file, result)
        for one in found.values():
            for item in one["lines"]:
                plan.say("  ".join(report.cells(item)))
    return result


def tell(result, options):
    if options.json == "-":
        print(json.dumps(result, indent=1, ensure_ascii=False))
        return
    print(report.markdown(result) if options.markdown else report.table(result))
    print("\n" + "\n".join(report.about(result)))
    print("\nHow far from what the machine can do:\n" + "\n".join(report.limits(result)))
    if result["rows"].get("S7", {}).get("curves", {}).get("tarry"):
        print("\n" + plots.table_of(result))


def stop(_number, _frame):
    """Raises an exception at SIGTERM, so that all started processes are ended too. The signal does not reach the other
    systems, because they run in sessions of their own.
    """
    raise KeyboardInterrupt


def main():
    signal.signal(signal.SIGTERM, stop)
    options = options_of(sys.argv[1:])
    result = report.load(options.resume) if options.resume else {}
    rows = [row for row in options.rows if not (options.missing and row in result.get("rows", {}))]
    file = options.json if options.json not in (None, "-") else options.resume
    if rows:
        plan = Plan(options)
        check_room(plan, rows)
        result = measure_all(plan, rows, result, file)
    if not result.get("rows"):
        sys.exit("bench: nothing was measured, and nothing stands in the file")
    tell(result, options)
    if options.plots:
        print("\n" + plots.links(plots.draw(result, options.plots)))
    return 1 if any(item["met"] is False for item in report.lines_of(result)) else 0


if __name__ == "__main__":
    sys.exit(main())
