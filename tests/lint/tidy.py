"""tidy.py: clang-tidy, with the short list of .clang-tidy, every finding an error.

A file that was clean is not looked at again until the file, .clang-tidy, its compile command or any header of ours
changes: the answers lie in BUILD/lint-tidy, one empty file each, named by the hash of all of that. Tests go without the
analyzer: it does not understand cmocka's asserts, and a test that reads a null pointer fails by itself.
"""
import concurrent.futures
import hashlib
import json
import os

import lint

EXTRA = ("--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-error", "--extra-arg=-w")


def fingerprint(root, path, command):
    digest = hashlib.sha256(command.encode())
    headers = lint.our_files(root, (".h", ".proto", ".clang-tidy"))
    for name in [path, *headers]:
        with open(os.path.join(root, name), "rb") as file:
            digest.update(name.encode() + b"\0" + file.read())
    return digest.hexdigest()


def readable(root, build, line):
    """clang-tidy names files relative to the build directory: relative to the tree is what a reader wants."""
    path, colon, rest = line.partition(":")
    return os.path.relpath(os.path.normpath(os.path.join(build, path)), root) + colon + rest


def tidy_one(root, build, path, command):
    clean = os.path.join(build, "lint-tidy", fingerprint(root, path, command))
    if os.path.exists(clean):
        return []
    checks = ["--checks=-clang-analyzer-*"] if path.startswith("tests/") else []
    status, output = lint.run(["clang-tidy", "--quiet", "-p", build, *checks, *EXTRA, os.path.join(root, path)], root)
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
