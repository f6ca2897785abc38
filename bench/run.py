"""run.py: `./dev bench`: the speed table (speed/table.py). With a name: one bench with a new broker on a temporary directory, and
its line of figures; or another program.

Nothing else should run on the machine meanwhile. The official figures are in README.md.
"""
import os
import shutil
import subprocess
import sys
import tempfile

os.environ["TARRY_TEST_SEGMENT_SIZE"] = "64MiB"  # tarryd's default, for every bench that is started here
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "e2e"))
import harness  # noqa: E402 (the import needs the changed sys.path)

# Name → (program, arguments).
BENCHES = {
    "schedule-near": ("bench_schedule", ["--tasks", "2000000", "--after-ms", "60000", "--spread-ms", "540000"]),
    "schedule-far": ("bench_schedule", ["--tasks", "10000000", "--after-ms", "600000", "--spread-ms", "2592000000"]),
    "latency": ("bench_latency", ["--calls", "5000"]),
    "latency-shared": ("bench_latency", ["--calls", "2000", "--threads", "16"]),
    "lateness": ("bench_lateness", ["--rate", "10000", "--seconds", "20"]),
    "drain": ("bench_drain", ["--tasks", "1000000", "--consumers", "4"]),
    "http": ("bench_http", ["--connections", "64", "--requests", "100000"]),
    "http-batches": ("bench_http", ["--connections", "4", "--batch", "1000", "--requests", "1000"]),
    "pending": ("bench_pending", ["--commits", "25000"]),
    "recur": ("bench_recur", ["--recurrences", "100000", "--every-ms", "60000", "--seconds", "130"]),
}
# Arguments that start a Python program in this directory instead of a bench: name → program.
OTHERS = {"--instructions": "instructions.py", "beanstalk": "beanstalk.py", "door": "door.py", "hostile": "hostile.py", "peers": "peers.py"}
HERE = os.path.dirname(os.path.abspath(__file__))
ACCEPT = os.path.join(HERE, "accept")
TABLE = os.path.join(HERE, "speed", "table.py")


def run_one(name, arguments):
    program, defaults = BENCHES.get(name, ("bench_" + name, []))
    directory = tempfile.mkdtemp(prefix="tarry-bench-", dir=os.environ.get("TARRY_BENCH_DIR"))
    broker = harness.Broker(os.path.join(directory, "data")).start()
    try:
        done = subprocess.run([harness.find_program(program), "--broker", broker.url, *(arguments or defaults)],
                              stdout=subprocess.PIPE, text=True, check=False)
        with open(f"/proc/{broker.process.pid}/status", encoding="ascii") as file:
            peak_kib = int(next(line for line in file if line.startswith("VmHWM")).split()[1])
        print(f"{done.stdout.strip() or 'bench=' + name + ' failed'} broker_peak_rss_mib={peak_kib >> 10}", flush=True)
        return done.returncode
    finally:
        if broker.is_running():
            broker.stop()
        shutil.rmtree(directory, ignore_errors=True)


def main():
    arguments = sys.argv[1:]
    accept = sorted(name[:-3] for name in os.listdir(ACCEPT) if name.startswith("accept_"))
    if arguments == ["--list"]:
        print("\n".join(["each", *BENCHES, *OTHERS, *accept]))
        return 0
    if arguments and arguments[0] in OTHERS:
        return subprocess.run([sys.executable, os.path.join(HERE, OTHERS[arguments[0]]), *arguments[1:]], check=False).returncode
    if arguments and arguments[0] in accept:
        return subprocess.run([sys.executable, os.path.join(ACCEPT, arguments[0] + ".py"), *arguments[1:]], check=False).returncode
    if not arguments or arguments[0].startswith("--"):
        os.execv(sys.executable, [sys.executable, TABLE, *("--help" if word == "--help-table" else word for word in arguments)])
    names = list(BENCHES) if arguments == ["each"] else arguments[:1]
    try:
        statuses = [run_one(name, arguments[1:]) for name in names]
    except FileNotFoundError as error:
        sys.exit(f"bench: {error}; ./dev bench --list names what there is")
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
