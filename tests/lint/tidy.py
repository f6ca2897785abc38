"""tidy.py: clang-tidy, with the short list of .clang-tidy, every finding an error.

A file that was clean is not looked at again until the file, .clang-tidy, its compile command or any header of ours
changes: the answers lie in BUILD/lint-tidy, one empty file each, named by the hash of all of that. Tests go without the
analyzer: it does not understand cmocka's asserts, and a test that reads a null pointer fails by itself.

The analyzer follows the paths through a function until there are none or it has made NODES of them: some of ours have more than it can
ever follow, and take half a minute each. `./dev test` lets it make a ninth of its own default (TARRY_TIDY_NODES) and takes minutes
less; `./dev lint` all. (Of 39 null pointers that were read at the end of our longest functions it found 36 so, and the other three were
missed with all of them too. What it may miss is a defect at the end of one certain way through many branches.)
"""
import concurrent.futures
import functools
import hashlib
import json
import os

import lint

EXTRA = ("--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-error", "--extra-arg=-w")
NODES_FULL = 225000  # clang's default
NODES = int(os.environ.get("TARRY_TIDY_NODES", NODES_FULL))
BUDGET = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={NODES}")]


@functools.cache
def rules(root):
    """The hash of what all files depend on: every header of ours, and .clang-tidy."""
    digest = hashlib.sha256()
    for name in lint.our_files(root, (".h", ".proto", ".clang-tidy")):
        with open(os.path.join(root, name), "rb") as file:
            digest.update(name.encode() + b"\0" + file.read())
    return digest.hexdigest()


def fingerprint(root, path, command):
    with open(os.path.join(root, path), "rb") as file:
        return hashlib.sha256("\0".join((command, rules(root), path, "")).encode() + file.read()).hexdigest()


def readable(root, build, line):
    """clang-tidy names files relative to the build directory: relative to the tree is what a reader wants."""
    path, colon, rest = line.partition(":")
    return os.path.relpath(os.path.normpath(os.path.join(build, path)), root) + colon + rest


def tidy_one(root, build, path, command):
    mark = os.path.join(build, "lint-tidy", fingerprint(root, path, command))
    clean = f"{mark}-{NODES}"
    if os.path.exists(clean) or os.path.exists(f"{mark}-{NODES_FULL}"):
        return []
    checks = ["--checks=-clang-analyzer-*"] if path.startswith("tests/") else []
    status, output = lint.run(["clang-tidy", "--quiet", "-p", build, *checks, *EXTRA, *BUDGET, os.path.join(root, path)], root)
    complaints = [readable(root, build, line) for line in output.splitlines() if " error: " in line or " warning: " in line]
    if status == 0 and not complaints:
        with open(clean, "w", encoding="ascii"):
            pass
    return complaints or ([] if status == 0 else [f"{path}:1: clang-tidy ended with {status}: {output.strip()[-300:]}"])


def check(root, build):
    os.makedirs(os.path.join(build, "lint-tidy"), exist_ok=True)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        database = json.load(file)
    ours = set(lint.our_files(root, (".c",)))
    jobs = {}
    for entry in database:
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
        if path in ours:
            jobs.setdefault(path, entry["command"])
    missing = sorted(path for path in ours - set(jobs))
    complaints = [f"{path}:1: is built by nobody" for path in missing]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        found = pool.map(lambda job: tidy_one(root, build, *job), sorted(jobs.items()))
        for some in found:
            complaints.extend(some)
    return list(dict.fromkeys(complaints))


if __name__ == "__main__":
    lint.main("tidy", check)
