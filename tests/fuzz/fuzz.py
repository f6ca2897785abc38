"""fuzz.py: runs libFuzzer programs in parallel, each for a number of minutes, and prints a table (`./dev fuzz`).

New inputs go to CORPUS/TARGET; the tree's corpus (corpus.py) is read and never written (only `--merge` writes it). Inputs that
crash, hang or leak are kept as CORPUS/TARGET-crash-…, -timeout-… and so on, and fail the run. Time in which a fuzzer was stopped
(SIGSTOP) does not count, so a run may be interrupted for a measurement. libFuzzer does everything else.
"""
import argparse
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import corpus as tree

HERE = os.path.dirname(os.path.abspath(__file__))
INTERRUPTED = 72  # libFuzzer's exit status after SIGINT
# handle_abort=1 makes AddressSanitizer show the stack of a failed assert. A memory leak in a target fails the run.
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=1:handle_abort=1:strict_string_checks=1:allocator_may_return_null=1",
              "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
TICK_S = 0.25
STOP_S = 60  # seconds; time in which a fuzzer may finish its current input


def is_stopped(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False


def options(target):
    """Returns the options for the target's own dictionary and for its maximum input size."""
    dictionary = os.path.join(HERE, "dictionaries", target + ".dict")
    return ["-dict=" + dictionary] if os.path.exists(dictionary) else []


class Run:
    """A running fuzzer."""

    def __init__(self, target, program, corpus):
        self.target = target
        self.active_s = 0.0
        self.asked_at = None
        self.log = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.seeds = tempfile.TemporaryDirectory(prefix=f"tarry-corpus-{target}-")
        tree.unpack(target, self.seeds.name)
        own = os.path.join(corpus, target)
        os.makedirs(own, exist_ok=True)
        command = [program, "-print_final_stats=1", "-timeout=20", "-rss_limit_mb=2560", *options(target),
                   f"-artifact_prefix={own}-", own, self.seeds.name]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log, env={**SANITIZERS, **os.environ})
        self.seen = time.monotonic()

    def tick(self, limit_s):
        """Returns whether the fuzzer has ended. Makes it end when its time is over."""
        now = time.monotonic()
        if not is_stopped(self.process.pid):
            self.active_s += now - self.seen
        self.seen = now
        if self.process.poll() is not None:
            return True
        if self.asked_at is None and self.active_s >= limit_s:
            self.process.send_signal(signal.SIGINT)
            self.asked_at = now
        elif self.asked_at is not None and now - self.asked_at > STOP_S:
            self.process.kill()
        return False

    def result(self):
        self.log.seek(0)
        text = self.log.read()
        self.log.close()
        self.seeds.cleanup()

        def last(pattern):
            found = re.findall(pattern, text)
            return int(found[-1]) if found else 0

        crashed = self.process.returncode not in (0, INTERRUPTED)
        executions = last(r"stat::number_of_executed_units:\s*(\d+)") or last(r"#(\d+)\s")
        return {"target": self.target, "executions": executions, "rate": executions / max(self.active_s, 1e-9),
                "edges": last(r"cov: (\d+)"), "new": last(r"stat::new_units_added:\s*(\d+)"),
                "minutes": self.active_s / 60, "crashed": crashed, "text": text}


def table(results):
    print(f"{'target':<10} {'executions':>13} {'a second':>9} {'edges':>6} {'new':>6} {'minutes':>8}  crashes")
    for one in results:
        print(f"{one['target']:<10} {one['executions']:>13,} {one['rate']:>9,.0f} {one['edges']:>6} {one['new']:>6} "
              f"{one['minutes']:>8.1f}  {1 if one['crashed'] else 0}")


def fuzz(targets, programs, corpus, minutes, jobs):
    waiting, running, results = list(targets), [], []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                target = waiting.pop(0)
                running.append(Run(target, programs[target], corpus))
            time.sleep(TICK_S)
            for run in list(running):
                if not run.tick(minutes * 60):
                    continue
                running.remove(run)
                results.append(run.result())
                one = results[-1]
                print(f"{one['target']}: {one['executions']:,} executions, {'CRASHED' if one['crashed'] else 'fine'}",
                      file=sys.stderr, flush=True)
                if one["crashed"]:
                    print("\n".join(one["text"].splitlines()[-60:]), file=sys.stderr, flush=True)
    finally:
        for run in running:
            run.process.kill()
    return sorted(results, key=lambda one: one["target"])


def merge(targets, programs, corpus):
    """Replaces the tree's corpus by the smallest set of inputs with the same coverage as the old corpus and the build
    directory together.
    """
    for target in targets:
        kept = {name: data for name, data in tree.read(target).items() if not re.fullmatch(r"[0-9a-f]{40}", name)}
        with tempfile.TemporaryDirectory() as fresh, tree.unpacked(target) as seeds:
            own = os.path.join(corpus, target)
            command = [programs[target], "-set_cover_merge=1", "-timeout=20", f"-artifact_prefix={own}-", fresh, seeds, own]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env={**SANITIZERS, **os.environ})
            named = set(kept.values())  # seeds and regressions keep their names
            for path in sorted(glob.glob(fresh + "/*"), key=os.path.getsize):
                with open(path, "rb") as file:
                    data = file.read()
                if data not in named and len(data) <= 400 and len(kept) < 100:
                    kept[os.path.basename(path)] = data
        tree.write(target, kept)
        print(f"{target}: {len(kept)} inputs, {sum(map(len, kept.values()))} bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True, help="where the fuzz_* programs are")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("targets", nargs="+")
    arguments = parser.parse_args()
    programs = {target: os.path.join(arguments.programs, "fuzz_" + target) for target in arguments.targets}
    if arguments.merge:
        merge(arguments.targets, programs, arguments.corpus)
        return 0
    # The targets make their data directories here, on a tmpfs. They are removed at the end, even after crashes.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        os.environ["TMPDIR"] = directory
        results = fuzz(arguments.targets, programs, arguments.corpus, arguments.minutes, max(arguments.jobs, 1))
    table(results)
    return 1 if any(one["crashed"] for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
