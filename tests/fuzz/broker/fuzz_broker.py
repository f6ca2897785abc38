"""fuzz_broker.py: lets fuzzing clients (*strangers*) speak to whole brokers (`./dev fuzz broker`), in each role of a broker
(roles.py). Honest clients work at the same time.

One test is a *life*: a broker starts on a copy of the role's prepared directory (the template), a stranger speaks to it for
LIFE_S seconds, and the broker is checked. Life n of a role has the seed S + n.

A life that fails leaves a directory with these files: `trace`, everything that the stranger sent, for --replay; `small`, a
shorter trace with the same failure; `template`; `life`, the broker's directories at the end; the brokers' logs; and
`story`, the report.
"""
import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("e2e", "crash"):
    sys.path.insert(0, os.path.join(HERE, "..", "..", folder))

import shrink  # noqa: E402  (the paths above)
from lives import ENVIRONMENT, Life, Stranger, signature  # noqa: E402
from roles import ROLES  # noqa: E402

KEEP = os.path.join(os.environ.get("TARRY_BUILD_ROOT", "."), "fuzz-broker")  # directory of failures
LIFE_S = 25
REPLAY_S = 120
SETTLE_S = 1.5
SHRINK_S = 240


class Tally:
    """The number of requests in a role, over all lives."""

    def __init__(self):
        self.lives, self.failures, self.seconds, self.worst_s, self.memory_kib = 0, [], 0.0, 0.0, 0
        self.said = {}

    def add(self, life, seconds):
        self.lives += 1
        self.seconds += seconds
        self.memory_kib = max(self.memory_kib, life.memory_kib)
        self.worst_s = max(self.worst_s, life.caller.worst_s if life.caller else 0)
        for name, value in life.said.items():
            if isinstance(value, dict):
                mine = self.said.setdefault(name, {})
                for code, count in value.items():
                    mine[code] = mine.get(code, 0) + count
            else:
                self.said[name] = self.said.get(name, 0) + value


def keep(role, life, trace, where):
    """Keeps the files of a life (one run of brokers with a stranger) whose checks failed."""
    os.makedirs(where, exist_ok=True)
    for path in (trace, role.template, role.life):
        target = os.path.join(where, os.path.basename(path))
        if os.path.isdir(path):
            shutil.copytree(path, target, dirs_exist_ok=True)
        elif os.path.exists(path):
            shutil.copy(path, target)
    for broker in role.brokers:
        with open(os.path.join(where, os.path.basename(broker.data) + ".log"), "w", encoding="utf-8") as file:
            file.write("\n".join(broker.log) + "\n")
    with open(os.path.join(where, "story"), "w", encoding="utf-8") as file:
        json.dump({"role": role.name, "seed": life.seed, "signature": life.signature, "complaints": life.complaints[:50],
                   "said": life.said}, file, indent=1)


def replay(role, trace):
    """Replays the trace. Returns how the broker died; "" if it survived."""
    role.begin()
    try:
        stranger = Stranger(role, ["--replay", trace])
        end = time.monotonic() + REPLAY_S
        while not stranger.is_over() and time.monotonic() < end and not signature(role):
            time.sleep(0.02)
        stranger.end()
        end = time.monotonic() + SETTLE_S
        while time.monotonic() < end and not signature(role):
            time.sleep(0.02)
        return signature(role)
    finally:
        role.kill()


def shrink_trace(role, where, wanted):
    """Writes `small` beside `trace`, if the failure can be reproduced."""
    trace, small = os.path.join(where, "trace"), os.path.join(where, "small")
    attempt = os.path.join(role.directory, "attempt")

    def fails(steps):
        shrink.write(steps, attempt)
        return replay(role, attempt) == wanted

    steps = shrink.read(trace)
    if not fails(steps):
        return "not seen again when it was replayed"
    steps = shrink.shrink(steps, fails, SHRINK_S)
    shrink.write(steps, small)
    return f"{small}: {sum(step[0] == shrink.SAY for step in steps)} frames"


def fuzz_role(name, options, directory, say):
    """Runs brokers of one role with strangers, life after life, until the time is over or the checks of a life fail."""
    tally, role = Tally(), ROLES[name](os.path.join(directory, name), ENVIRONMENT)
    role.make_template()
    trace = os.path.join(role.directory, "trace")
    end = time.monotonic() + options.minutes * 60
    while time.monotonic() < end and not tally.failures:
        seed, began = options.seed + tally.lives, time.monotonic()
        life_s = max(2, min(LIFE_S, int(end - began)))
        arguments = ["--seconds", str(life_s), "--trace", trace, *options.stranger.split()]
        life = Life(role, seed, arguments, gently=seed % 2 == 0).live()
        tally.add(life, time.monotonic() - began)
        if not life.complaints:
            say(f"{name}: seed {seed}: {life.said.get('requests', 0):,} requests, fine")
            continue
        where = os.path.join(options.keep, f"{name}-{seed}")
        keep(role, life, trace, where)
        tally.failures.append(where)
        say(f"{name}: seed {seed}: " + "\n    ".join(map(str, life.complaints[:6])) + f"\n    kept in {where}; again: "
            f"./dev fuzz broker --replay {where}, or --role {name} --seed {seed}")
        if life.signature and not options.no_shrink:
            say(f"{name}: " + shrink_trace(role, where, life.signature))
    return tally


def replay_kept(where, options, directory):
    """Replays a kept failure. Returns the exit status."""
    with open(os.path.join(where, "story"), encoding="utf-8") as file:
        story = json.load(file)
    role = ROLES[story["role"]](os.path.join(directory, story["role"]), ENVIRONMENT)
    shutil.copytree(os.path.join(where, "template"), role.template)
    small = os.path.join(where, "small")
    trace = small if os.path.exists(small) and not options.whole else os.path.join(where, "trace")
    found = replay(role, trace)
    print(f"{trace}: {found or 'all brokers live'}")
    for broker in role.brokers:
        if found:
            print(broker.log_text(80))
    return 1 if found else 0


def table(tallies):
    print(f"{'role':<14}{'lives':>6} {'minutes':>8} {'requests':>10} {'a second':>9} {'answers':>10} {'noises':>8} {'connections':>12} "
          f"{'jumps':>6} {'MiB':>6} {'worst s':>8}  failures")
    total = 0
    for name, one in tallies.items():
        said, requests = one.said, one.said.get("requests", 0)
        total += requests
        print(f"{name:<14}{one.lives:>6} {one.seconds / 60:>8.1f} {requests:>10,} {requests / max(one.seconds, 1):>9,.0f} "
              f"{said.get('answers', 0):>10,} {said.get('noises', 0):>8,} {said.get('connections', 0):>12,} "
              f"{said.get('jumps', 0):>6,} {one.memory_kib >> 10:>6,} {one.worst_s:>8.1f}  {len(one.failures)}")
    print(f"{total:,} requests")
    for group in ("codes", "operations", "http", "jobs"):
        counts = {}
        for one in tallies.values():
            for name, count in one.said.get(group, {}).items():
                counts[name] = counts.get(name, 0) + count
        print(f"{group}: " + ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda item: -item[1])))


def parse():
    parser = argparse.ArgumentParser(prog="./dev fuzz broker")
    parser.add_argument("--role", action="append", choices=sorted(ROLES), help="all of them otherwise; may be given again")
    parser.add_argument("--minutes", type=float, default=1, help="for each role")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=1, help="how many roles at a time")
    parser.add_argument("--replay", metavar="DIR", help="once more what was kept of a failure")
    parser.add_argument("--whole", action="store_true", help="with --replay: the whole trace, not the small one")
    parser.add_argument("--no-shrink", action="store_true", help="do not look for a smaller trace")
    parser.add_argument("--stranger", default="", help="more arguments of the stranger's")
    parser.add_argument("--keep", default=KEEP, help="where what failed is kept")
    options = parser.parse_args()
    options.seed = random.SystemRandom().randrange(1 << 31) * 1000 if options.seed is None else options.seed
    return options


def main():
    options = parse()
    with tempfile.TemporaryDirectory(prefix="tarry-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        if options.replay:
            return replay_kept(options.replay, options, directory)
        waiting, tallies, lock = list(options.role or ROLES), {}, threading.Lock()
        print(f"seed {options.seed}", flush=True)

        def say(line):
            with lock:
                print(line, flush=True)

        def work():
            while waiting:
                name = waiting.pop(0)
                tallies[name] = fuzz_role(name, options, directory, say)

        threads = [threading.Thread(target=work) for _ in range(max(1, options.jobs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    table(tallies)
    asked = options.role or list(ROLES)
    return 1 if any(name not in tallies or tallies[name].failures for name in asked) else 0


if __name__ == "__main__":
    sys.exit(main())
