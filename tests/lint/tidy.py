"""tidy.py: clang-tidy with the short list of .clang-tidy; every finding is an error.

A clean file is not checked again until the file, .clang-tidy, its compile command or any of our headers changes. The
results are in BUILD/lint-tidy: an empty file for each clean source, named by the hash of these inputs. Tests are checked
without the analyzer, because it does not understand cmocka's asserts. A test that reads a null pointer fails by itself.

The analyzer follows the paths through a function until no path is left, or until it has made a limited number of nodes.
Some functions have more paths than it can follow, and take half a minute each. `./dev test` sets the limit to 10,000 nodes
(TARRY_TIDY_NODES), which saves minutes; `./dev lint` uses clang's default, 225,000. A low limit may miss a defect at the
end of a path through many branches. Experiment: 39 null pointers were read at the ends of our longest functions. The
analyzer missed the same three with 25,000 nodes and with the default.
"""
import concurrent.futures
import functools
import hashlib
import json
import os

import lint

EXTRA = ("--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-error", "--extra-arg=-w")
BUNCH = 8
NODES_FULL = 225000  # clang's default
NODES = int(os.environ.get("TARRY_TIDY_NODES", NODES_FULL))
BUDGET = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={NODES}")]


@functools.cache
def rules(root):
    """Returns the hash of everything that all files depend on: our headers, and .clang-tidy."""
    digest = hashlib.sha256()
    for name in lint.our_files(root, (".h", ".proto", ".clang-tidy")):
        with open(os.path.join(root, name), "rb") as file:
            digest.update(name.encode() + b"\0" + file.read())
    return digest.hexdigest()


def fingerprint(root, path, command):
    with open(os.path.join(root, path), "rb") as file:
        return hashlib.sha256("\0".join((command, rules(root), path, "")).encode() + file.read()).hexdigest()


def readable(root, build, line):
    """Makes paths relative to the tree: clang-tidy names files relative to the build directory."""
    path, colon, rest = line.partition(":")
    return os.path.relpath(os.path.normpath(os.path.join(build, path)), root) + colon + rest


def is_test(path):
    return path.startswith("tests/")


def mark(root, build, path, command):
    """Returns the path of the file that marks a clean source, without its last part, the number of nodes."""
    return os.path.join(build, "lint-tidy", fingerprint(root, path, command)) + "-"


def tidy_some(root, build, jobs):
    """Checks some sources with clang-tidy. `jobs` maps each source's path to the path of its mark. Either all sources are
    tests or none is.
    """
    checks = ["--checks=-clang-analyzer-*"] if any(map(is_test, jobs)) else []
    status, output = lint.run(["clang-tidy", "--quiet", "-p", build, *checks, *EXTRA, *BUDGET, *(os.path.join(root, path) for path in jobs)], root)
    complaints = [readable(root, build, line) for line in output.splitlines() if " error: " in line or " warning: " in line]
    if status == 0 and not complaints:
        for name in jobs.values():
            with open(f"{name}{NODES}", "w", encoding="ascii"):
                pass
    return complaints or ([] if status == 0 else [f"{', '.join(jobs)}:1: clang-tidy ended with {status}: {output.strip()[-300:]}"])


def bunches(jobs):
    """Each run checks several files, because the start of clang-tidy takes as long as a small file."""
    for kind in (True, False):
        paths = [path for path in jobs if is_test(path) is kind]
        for first in range(0, len(paths), BUNCH):
            yield {path: jobs[path] for path in paths[first:first + BUNCH]}


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
    marks = {path: mark(root, build, path, command) for path, command in sorted(jobs.items())}
    unknown = {path: name for path, name in marks.items() if not any(os.path.exists(f"{name}{nodes}") for nodes in (NODES, NODES_FULL))}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for some in pool.map(lambda bunch: tidy_some(root, build, bunch), bunches(unknown)):
            complaints.extend(some)
    return list(dict.fromkeys(complaints))


if __name__ == "__main__":
    lint.main("tidy", check, lambda: lint.another_release("clang-tidy", "14"))
