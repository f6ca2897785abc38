#!/usr/bin/env python3
"""weak.py: each rule of the pair, weakened, is found out by the model: weak.py EXPLORE [--all].

Those that need three epochs, or more states than fit into a test, are tried with --all only (`./dev model`).
"""
import subprocess
import sys

# How far one must look: epochs, frames. Measured; see README.md.
QUICK = {"unpromised": (2, 1), "unfit": (2, 1), "alone": (2, 1), "stale_answer": (2, 1), "shrink_early": (2, 1), "grow_late": (2, 1),
         "unchanged_proves": (2, 1), "not_in_sync": (2, 1), "any_run": (2, 1), "fence_unheard": (2, 1), "stale_greeting": (2, 1)}
SLOW = {"any_epoch": (3, 2), "older_record": (3, 2), "grow_early": (2, 2), "unfenced": (3, 1), "fence_forgotten": (3, 2)}


def main():
    program, weaknesses = sys.argv[1], dict(QUICK)
    if "--all" in sys.argv:
        weaknesses.update(SLOW)
    print(f"1..{len(weaknesses)}")
    failed = 0
    for number, (name, (epochs, frames)) in enumerate(weaknesses.items(), 1):
        run = subprocess.run([program, "--epochs", str(epochs), "--frames", str(frames), "--states", "100000000", "--weak", name],
                             capture_output=True, encoding="utf-8", check=False)
        broken = [line for line in run.stdout.splitlines() if line.startswith("# broken")]
        found = run.returncode == 1 and broken
        failed += not found
        print(f"{'ok' if found else 'not ok'} {number} - {name} is found out")
        print(f"#{broken[0][1:] if broken else ' nothing'}; {run.stdout.splitlines()[-1] if run.stdout else run.stderr}")
    return 1 if failed else 0


sys.exit(main())
