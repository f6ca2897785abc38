"""beanstalk.py: `./dev bench beanstalk [ROUNDS]`: the life of a job in beanstalkd's protocol, from put to delete. Compares
Tarry with beanstalkd -f0, which, like Tarry, syncs before INSERTED. Both run in turn on one disk, with 1 connection, with
16 connections, and with 16 connections that watch four tubes each. Prints medians and ratios. Absolute figures depend on
the machine: quote ratios of one run.
"""
import os
import shutil
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "e2e"))
import harness  # noqa: E402 (the import needs the changed sys.path)
import peers  # noqa: E402
import ports  # noqa: E402

ROUNDS_DEFAULT = 3
SEGMENT_SIZE = "64MiB"  # tarryd's default; on a busy disk the tests' segments of 8 MiB are not ready in time, and a put is answered OUT_OF_MEMORY
# Name → (threads, jobs per thread, tubes).
WAYS = {"one connection": (1, 2000, 1), "16 connections": (16, 500, 1), "16 connections, 4 tubes": (16, 250, 4)}
FIGURES = ("put_per_s", "worked_per_s", "put_p50_us", "put_p99_us", "reserve_p50_us", "reserve_p99_us", "delete_p50_us", "delete_p99_us")


class Tarry:
    def __init__(self, directory):
        self.port = ports.free_port()
        self.broker = harness.Broker(os.path.join(directory, "data"), "--segment-size", SEGMENT_SIZE, "--listen", f"beanstalk://127.0.0.1:{self.port}").start()

    def close(self):
        self.broker.stop()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS_DEFAULT
    top = tempfile.mkdtemp(prefix="tarry-beanstalk-", dir=os.environ.get("TARRY_BENCH_DIR"))
    systems, told = {}, {}
    try:
        for name, make in (("tarry", Tarry), ("beanstalkd", peers.SYSTEMS["beanstalkd"])):
            os.mkdir(os.path.join(top, name))
            systems[name] = make(os.path.join(top, name))
        for _ in range(rounds):
            for way, (threads, calls, tubes) in WAYS.items():
                for name, system in systems.items():
                    words = ["--port", str(system.port), "--threads", str(threads), "--calls", str(calls), "--tubes", str(tubes)]
                    told.setdefault((way, name), []).append(peers.run([harness.find_program("bench_tubes"), *words]))
    finally:
        for system in systems.values():
            system.close()
        shutil.rmtree(top, ignore_errors=True)
    middle = {which: {figure: statistics.median(float(one[figure]) for one in all_of) for figure in FIGURES} for which, all_of in told.items()}
    for way in WAYS:
        for name in systems:
            print(f"bench=beanstalk way={way!r} system={name} " + " ".join(f"{figure}={middle[way, name][figure]:.0f}" for figure in FIGURES))
        print(f"bench=beanstalk way={way!r} tarry/beanstalkd: " + " ".join(
            f"{figure}={middle[way, 'tarry'][figure] / max(1, middle[way, 'beanstalkd'][figure]):.2f}" for figure in ("put_per_s", "worked_per_s", "reserve_p50_us")))


if __name__ == "__main__":
    main()
