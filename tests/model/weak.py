#!/usr/bin/env python3
"""weak.py: checks that the model finds each weakened rule of the pair: weak.py EXPLORE.

The necessary limits were measured; README.md lists them.
"""
import subprocess
import sys

PAIR = "--epochs 2 --frames 1"
OPERATOR = "--operator --epochs 3 --frames 1 --safety --silent-clients"
LIMITS = {
    "unpromised": PAIR, "alone": "--epochs 1 --frames 1", "stale_answer": PAIR, "shrink_early": "--epochs 1 --frames 1",
    "grow_late": "--epochs 1 --frames 1", "grow_early": "--epochs 1 --frames 2 --safety --silent-clients",
    "unchanged_proves": "--epochs 1 --frames 1", "not_in_sync": PAIR, "any_run": "--epochs 1 --frames 1", "fence_unheard": PAIR,
    "any_epoch": PAIR, "stale_greeting": PAIR, "older_record": "--epochs 1 --frames 1 --lag --safety --silent-clients",
    "known_only": PAIR + " --strict --safety --silent-clients", "not_quiet": "--operator --force --epochs 2 --frames 1 --safety",
    "promise_alone": OPERATOR + " --hand", "any_promise": "--operator --epochs 4 --frames 1 --safety --silent-clients",
    "any_parity": "--operator --force --epochs 2 --frames 1", "unasserted": "--operator --epochs 2 --frames 1 --safety",
    "alone_unnoted": OPERATOR, "hand_early": "--operator --epochs 2 --frames 1 --hand --safety", "leads_on": OPERATOR + " --hand",
    "any_disk": "--operator --exchange --epochs 3 --frames 1 --safety --silent-clients",
    "claim_unasked": "--operator --epochs 3 --frames 1 --silent-clients",
    "alone_unheard": "--operator --epochs 3 --frames 1 --silent-clients",
    "unfit": PAIR, "unfenced": PAIR + " --lag --safety --silent-clients",
    "record_forgotten": PAIR + " --lose --safety --silent-clients",
    "record_outdated": PAIR + " --roll --safety --silent-clients", "promise_unseen": PAIR + " --roll --safety --silent-clients",
    "claim_unnoted": PAIR + " --lose --safety --silent-clients",
    "fence_forgotten": PAIR + " --lag --safety --silent-clients"}


# tests/sim/bugs/pair.bug says which rule each weakness breaks: R2, R3, R4, R5, R6, R7 or R8.
def main():
    program = sys.argv[1]
    print(f"1..{len(LIMITS)}")
    failed = 0
    for number, (name, limits) in enumerate(LIMITS.items(), 1):
        run = subprocess.run([program, *limits.split(), "--states", "20000000", "--weak", name], capture_output=True,
                             encoding="utf-8", check=False)
        broken = [line for line in run.stdout.splitlines() if line.startswith("# broken")]
        found = run.returncode == 1 and broken
        failed += not found
        print(f"{'ok' if found else 'not ok'} {number} - {name} is found out")
        print(f"#{broken[0][1:] if broken else ' nothing'}; {run.stdout.splitlines()[-1] if run.stdout else run.stderr}")
    return 1 if failed else 0


sys.exit(main())
