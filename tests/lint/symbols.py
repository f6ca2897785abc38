"""symbols.py: checks the rules of copies.py in the object files, where no macro can hide a name. nm lists the functions of
each object of the product and of tests/sim. A function that both define is a copy, unless it is the simulator's own
implementation of an interface (copies.ALLOWED). Static functions may have the same name, but not the same name and text.
"""
import difflib
import json
import os
import re
import subprocess

import copies
import lint
import sizes

PRODUCT = ("common/", "proto/", "storage/", "broker/", "client/lib/", "client/tool/")
ALIKE = 0.9  # share of equal words: above it, one function is a copy of the other
SMALL = 45  # number of words; shorter functions are alike because there is only one way to write them
FUNCTION = re.compile(r"^(.*?)(?:\[.*\])?: (\S+) ([Tt]) ")


def objects(root, build):
    """Returns object file → source for everything that the build compiles, except generated sources."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    for entry in entries:
        source = os.path.relpath(os.path.normpath(os.path.join(entry["directory"], entry["file"])), root)
        if source.startswith((*PRODUCT, copies.RIG)) and "output" in entry and os.path.exists(os.path.join(entry["directory"], entry["output"])):
            yield os.path.join(entry["directory"], entry["output"]), source


def functions(of):
    """Returns (name, source, whether it is visible to other files) of every function that nm finds; a part that the compiler
    split off has the name of its function."""
    listed = subprocess.run(["nm", "-A", "-P", "--defined-only", *of], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in listed.splitlines():
        if found := FUNCTION.match(line):
            yield found.group(2).split(".")[0], of[found.group(1)], found.group(3) == "T"


def words(root, source, name):
    """Returns the words of the function's text; [] if the source does not have the function in this form."""
    lines = lint.read_lines(root, source)
    return next((re.findall(r"\w+|[^\w\s]", "\n".join(lines[first - 1:first - 1 + count]))
                 for found, first, count in sizes.functions(lines) if found == name), [])


def is_copy(root, name, rig, product):
    ours, theirs = words(root, rig, name), words(root, product, name)
    return min(len(ours), len(theirs)) >= SMALL and difflib.SequenceMatcher(None, ours, theirs).ratio() >= ALIKE


def check(root, build):
    of = dict(objects(root, build))
    product, rig = {}, {}
    for name, source, is_global in functions(of) if of else ():
        if name != "main":
            (rig if source.startswith(copies.RIG) else product).setdefault(name, {})[source] = is_global
    if not product or not rig:
        return [f"{build}: no objects of the product, or none of {copies.RIG}: build first"]
    complaints = []
    for name in sorted(set(product) & set(rig)):
        for source, is_global in sorted(rig[name].items()):
            shown = [path for path, is_shown in sorted(product[name].items()) if is_shown and is_global]
            if shown and not name.startswith(tuple(copies.ALLOWED)):
                complaints.append(f"{source}: {name} is defined in {shown[0]} too")
            complaints += [f"{source}: {name} is a copy of {path}'s: link that" for path in sorted(product[name]) if is_copy(root, name, source, path)]
    return complaints


if __name__ == "__main__":
    lint.main("symbols", check)
