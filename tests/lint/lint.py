"""lint.py: common functions of the checks in this folder: the list of our files, and one way to report.

A check is a function from (root, build) to a list of complaints, each "path:line: sentence". It prints one TAP line, and the
complaints if there are any. Generated code is not linted.
"""
import os
import re
import subprocess
import sys

GENERATED = (".pb-c.c", ".pb-c.h")
SKIPPED_DIRECTORIES = {".git", "__pycache__", ".cache"}


def our_files(root, suffixes):
    """Returns the paths, relative to root and sorted, of the files in the tree that end in one of the suffixes."""
    found = []
    for directory, names, files in os.walk(root):
        names[:] = [n for n in names if n not in SKIPPED_DIRECTORIES and not n.startswith("build")]
        for name in files:
            if name.endswith(tuple(suffixes)) and not name.endswith(GENERATED):
                found.append(os.path.relpath(os.path.join(directory, name), root))
    return sorted(found)


def read_lines(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read().split("\n")


def run(command, cwd):
    """Returns the exit status and all output of a command; a missing program is a failure, not a pass."""
    try:
        done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except OSError as error:
        return 127, f"{command[0]}: {error}"
    return done.returncode, done.stdout


def another_release(program, decides):
    """Returns a complaint if this is another release of the program than Debian 12's, which CI uses. Each release reports
    other problems, so only one release counts.
    """
    _, said = run([program, "--version"], ".")
    found = re.search(r"(?:version|Cppcheck) (\d+(?:\.\d+)?)", said)
    if found is None or re.match(re.escape(decides) + r"(\.|$)", found[1]):
        return None
    return f"{program} {found[1]} judges otherwise than {decides}, which decides (Debian 12)"


def main(name, check, why_not=lambda: None):
    """Entry point of a check: `check.py ROOT BUILD`. `why_not`: why the check is skipped on this machine; None: it runs."""
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} ROOT BUILD")
    if reason := why_not():
        print(f"ok 1 - lint {name} # SKIP {reason}\n1..1")
        return
    complaints = check(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    print(f"{'not ok' if complaints else 'ok'} 1 - lint {name}")
    print("1..1")
    for complaint in complaints:
        print(f"# {complaint}")
    sys.exit(1 if complaints else 0)
