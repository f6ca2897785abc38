"""copies.py: the simulator runs the broker's own code, not a copy of it.

No function of tests/sim has the name of a function in the broker's headers, and each state machine is called in only one place:
with a second caller it would be unclear which of the two is tested.
"""
import re

import lint
import sizes

RIG = "tests/sim/"
# The simulator's own implementations of an interface, which may have a function name of the product; with the reason
# for each.
ALLOWED = {
    "coordinator_": "registrar.c is a coordinator, behind broker/coordinator/coordinator.h",
    "node_": "node*.c are the hands of broker/pair and broker/replication in one thread, as broker/shell/pair is in several",
}
# State machine → files that may call it.
DRIVERS = {"core_step": ("broker/core/", "broker/engine/core_turn.c")}
DRIVEN = ("broker/", RIG)


def is_global(lines, first):
    return not lines[first - 1].startswith("static")


def definitions(root, folder, only_global):
    found = {}
    for path in lint.our_files(root, (".c",)):
        if not path.startswith(folder):
            continue
        lines = lint.read_lines(root, path)
        for name, first, _count in sizes.functions(lines):
            if name != "__attribute__" and name != "main" and (is_global(lines, first) or not only_global):
                found.setdefault(name, (path, first))
    return found


def second_drivers(root):
    for path in lint.our_files(root, (".c", ".h")):
        if not path.startswith(DRIVEN):
            continue
        for number, line in enumerate(lint.read_lines(root, path), 1):
            for machine, drivers in DRIVERS.items():
                if re.search(rf"\b{machine}\(", line) and not path.startswith(drivers):
                    yield f"{path}:{number}: {machine} is driven by {drivers[-1]} alone"


def check(root, _build):
    product = definitions(root, "broker/", True)
    complaints = []
    for name, (path, first) in sorted(definitions(root, RIG, False).items()):
        if name in product and not name.startswith(tuple(ALLOWED)):
            complaints.append(f"{path}:{first}: {name} is a function of {product[name][0]}: link that, or name it for what it does here")
    return complaints + list(second_drivers(root))


if __name__ == "__main__":
    lint.main("copies", check)
