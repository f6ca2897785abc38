"""instructions.py: `./dev bench --instructions [--record]`: instructions per task for each frequent part of its life, with
callgrind.

instructions.py [PROGRAM] [--record]      PROGRAM: $TARRY_BUILD_ROOT/bench/instructions by default

Runs bench/instructions under valgrind, sums the cost of each of its functions measured_… with everything that they call, and
compares it with the figures for this compiler's major version in instructions.json. A difference of more than 2 %, up or down, is
a failure: an unrecorded gain could be lost again unnoticed. --record writes the new figures to instructions.json. Other work on
the machine does not change instruction counts. Another compiler does, so each compiler has its own figures; without figures for
the compiler, the program says so and exits with 0. Without valgrind, the program prints a message and measures nothing.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

LIMIT = 0.02
FIGURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.json")


def costs_of(lines):
    """Returns {measured function: instructions in it and below} from callgrind's file: the line after `calls=` is the cost of a
    call."""
    costs, callee, is_next = {}, None, False
    for line in lines:
        if line.startswith("cfn="):
            callee = line[4:].strip()
        elif line.startswith("calls="):
            is_next = True
        elif is_next:
            is_next = False
            if callee.startswith("measured_"):
                costs[callee[9:]] = costs.get(callee[9:], 0) + int(line.split()[1])
    return costs


def measure(program):
    directory = tempfile.mkdtemp(prefix="tarry-instructions-")
    out = os.path.join(directory, "callgrind.out")
    try:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no", "--callgrind-out-file=" + out,
                               program, directory], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                              env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"})  # makes malloc use mmap for large blocks, so that growing a block moves its pages in the kernel and copies no bytes
        if done.returncode != 0:
            sys.exit(f"instructions: {program} failed under valgrind:\n{done.stderr}")
        tasks = int(re.search(r"tasks=(\d+)", done.stdout).group(1))
        with open(out, encoding="utf-8", errors="replace") as file:
            return {name: round(cost / tasks, 1) for name, cost in sorted(costs_of(file).items())}
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def compiler_of(program):
    """Returns the compiler by the program's own .comment: "GCC 12", "clang 14"."""
    with open(program, "rb") as file:
        said = re.search(rb"(GCC): \(.*?\) (\d+)|(clang) version (\d+)", file.read())
    return b" ".join(part for part in said.groups() if part).decode() if said else "unknown"


def judge(found, expected):
    """Returns a sentence for each figure that has changed."""
    wrong = []
    for name in sorted(set(found) | set(expected)):
        if name not in found or name not in expected:
            wrong.append(f"{name} is {'not measured any more' if name in expected else 'new'}")
        elif abs(found[name] / expected[name] - 1) > LIMIT:
            wrong.append(f"{name}: {found[name]:.0f} instructions a task, {expected[name]:.0f} before ({found[name] / expected[name] - 1:+.1%})")
    return wrong


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--record"]
    if len(arguments) > 1 or (not arguments and "TARRY_BUILD_ROOT" not in os.environ):
        sys.exit(__doc__)
    program = arguments[0] if arguments else os.path.join(os.environ["TARRY_BUILD_ROOT"], "bench", "instructions")
    print("1..1")
    if shutil.which("valgrind") is None:
        print("ok 1 - instructions # SKIP there is no valgrind here: apt-get install valgrind")
        return 0
    with open(FIGURES, encoding="utf-8") as file:
        figures = json.load(file)
    compiler, found = compiler_of(program), measure(program)
    for name, cost in found.items():
        print(f"# {name} {cost}")
    print(f"# all {sum(found.values()):.1f} a life; {compiler}")
    if "--record" in sys.argv[1:]:
        figures[compiler] = found
        with open(FIGURES, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=2, sort_keys=True)
            file.write("\n")
    elif compiler not in figures:
        print(f"ok 1 - instructions # SKIP no figures for {compiler} yet: ./dev bench --instructions --record")
        return 0
    wrong = judge(found, figures[compiler])
    for sentence in wrong:
        print("# " + sentence)
    print(("not ok" if wrong else "ok") + " 1 - instructions a task are what they were (./dev bench --instructions --record, if that is meant)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
