#!/usr/bin/env bash
# every.sh: the limits that `./dev model` explores. Usage: every.sh BUILT [--deep | ARGUMENT of explore...]
set -euo pipefail

built=$1
shift
quick=("--epochs 1" "--epochs 2 --silent-clients" "--epochs 1 --strict --hand" "--epochs 2 --lose --safety --silent-clients"
    "--epochs 1 --roll --silent-clients" "--epochs 2 --roll --safety --silent-clients" "--operator --epochs 3 --hand --silent-clients"
    "--operator --epochs 3 --wrong --silent-clients")
deep=("--epochs 2" "--epochs 2 --frames 2 --lose --roll --safety --silent-clients"
    "--epochs 2 --lag --silent-clients" "--operator --epochs 4 --frames 2 --hand --silent-clients"
    "--operator --epochs 3 --hand --force" "--operator --epochs 4 --frames 2 --hand --exchange --safety --silent-clients"
    "--epochs 3 --frames 3 --silent-clients --states 60000000")
if [[ $# -gt 0 && $1 != --deep ]]; then
    exec "$built/explore" "$@"
fi
[[ ${1:-} == --deep ]] || deep=()
for limits in "${quick[@]}" "${deep[@]}"; do
    # shellcheck disable=SC2086
    "$built/explore" --frames 1 $limits
done
exec "$(dirname "${BASH_SOURCE[0]}")/weak.py" "$built/explore_weak"
