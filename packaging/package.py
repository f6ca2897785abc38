#!/usr/bin/env python3
"""package.py: makes Debian packages of this tree. Their bytes do not depend on where, when or by whom they were made. The tree
(the files that git tracks or would track) is copied, `packaging/debian` becomes `debian` in the copy, and dpkg-buildpackage
makes a source package and the binary packages. All time stamps are those of the changelog's last entry.
"""
import argparse
import glob
import io
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
COPIED = os.path.join("packaging", "debian")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LEFT_OUT = re.compile(r"^(build.*|__pycache__|\.git|\.cache)$")  # directories to leave out where git is not available
MADE = re.compile(r"^(lib|python3-)?tarry(d|0|-dev)?(-dbgsym)?_.*\.(deb|dsc|changes|buildinfo|tar\.xz)$")
TAP = re.compile(r"(not )?ok\b")
VERSION = re.compile(r"^tarry \(([^)-]+)(?:-[^)]+)?\) ", re.M)


def tracked(root):
    """Returns the names of the files that belong to a release of the tree, relative to it."""
    if os.path.exists(os.path.join(root, ".git")) and shutil.which("git"):
        done = subprocess.run(["git", "-c", f"safe.directory={root}", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                              stdout=subprocess.PIPE, check=True)
        names = [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
        return sorted(name for name in names if os.path.lexists(os.path.join(root, name)))
    names = []
    for place, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not LEFT_OUT.match(name)]
        names += [os.path.relpath(os.path.join(place, name), root) for name in files]
    return sorted(names)


def version_of(tree):
    """Returns the release of the packages' changelog, without Debian's revision."""
    with open(os.path.join(tree, COPIED, "changelog"), encoding="utf-8") as file:
        return VERSION.match(file.read()).group(1)


def timestamp_of(tree):
    done = subprocess.run(["dpkg-parsechangelog", "-l", os.path.join(tree, COPIED, "changelog"), "-S", "Timestamp"],
                          stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout)


def archive(root, tree, path):
    """Writes the files of `root` as DIR/NAME into the tar file `path`, where DIR is the last part of `tree`. The bytes are the
    same each time.
    """
    stamp, plain = timestamp_of(root), io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in tracked(root):
            at = os.path.join(root, name)
            entry = tar.gettarinfo(at, os.path.join(os.path.basename(tree), name))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = stamp
            entry.mode = 0o755 if entry.mode & 0o100 else 0o644
            if entry.isfile():
                with open(at, "rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)
    with open(path, "wb") as file:
        file.write(lzma.compress(plain.getvalue(), preset=6))


def make(root, work, said, environment=None, jobs=None):
    """Makes the packages of the tree `root` in the empty directory `work`. Writes the output of the build to the file `said`.
    Returns the paths of the packages. `environment`: variables for the build, added to a minimal environment.
    """
    umask = os.umask(0o022)  # dpkg packs files with the modes that they have
    try:
        return make_so(root, work, said, environment or {}, jobs or len(os.sched_getaffinity(0)))
    finally:
        os.umask(umask)


def make_so(root, work, said, environment, jobs):
    version = version_of(root)
    tree = os.path.join(work, f"tarry-{version}")
    orig = os.path.join(work, f"tarry_{version}.orig.tar.xz")
    archive(root, tree, orig)
    subprocess.run(["tar", "-C", work, "--no-same-owner", "-xf", orig], check=True)
    shutil.copytree(os.path.join(tree, COPIED), os.path.join(tree, "debian"))
    bare = {"PATH": PATH, "LC_ALL": "C.UTF-8", "HOME": work, **environment, "DEB_BUILD_OPTIONS": f"parallel={jobs}"}
    done = subprocess.run(["dpkg-buildpackage", "--build=full", "--no-sign"], cwd=tree, env=bare, stdin=subprocess.DEVNULL, stdout=said,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"dpkg-buildpackage ended with {done.returncode}")
    shutil.rmtree(tree)
    return sorted(path for path in glob.glob(os.path.join(work, "*")) if os.path.isfile(path))


def lint(made):
    """Runs lintian on the packages. Returns its messages down to the level info, and whether one of them is an error or
    warning.
    """
    (changes,) = [path for path in made if path.endswith(".changes")]
    as_root = ["--allow-root"] if os.geteuid() == 0 else []
    done = subprocess.run(["lintian", *as_root, "--fail-on", "error,warning", "--display-info", "--tag-display-limit", "0", changes],
                          env={"PATH": PATH, "LC_ALL": "C.UTF-8"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout, done.returncode != 0


def test(programs):
    """Runs the selected tests of tests/package (tests/package/README.md). The last line of the output says how many passed.
    Returns whether all passed.
    """
    folder = os.path.join(ROOT, "tests", "package")
    chosen = [os.path.join(folder, name + "_test.py") for name in programs] or sorted(glob.glob(os.path.join(glob.escape(folder), "*_test.py")))
    passed = failed = 0
    for program in chosen:
        running = subprocess.Popen([sys.executable, program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace")
        planned = counted = 0
        for line in running.stdout:
            print(line, end="", flush=True)
            counted += bool(TAP.match(line))
            passed, failed = passed + line.startswith("ok "), failed + line.startswith("not ok ")
            planned = int(line[3:]) if line.startswith("1..") else planned
        if running.wait() < 0 or counted != planned or planned == 0:
            failed += 1
            print(f"not ok {os.path.basename(program)}: ended with {running.returncode} after {counted} of {planned} tests")
    print(f"{passed} passed, {failed} failed")
    return failed == 0


def main():
    parser = argparse.ArgumentParser(prog="./dev package", description="Makes Debian's packages of this tree (packaging/debian), and asks lintian about them.")
    parser.add_argument("--output", metavar="DIR", default=os.path.join(ROOT, "build-package"), help="where they are put (default: build-package)")
    parser.add_argument("--test", metavar="PROGRAM", nargs="*", help="instead: builds them in two ways and compares the bytes, installs, upgrades, removes and purges "
                        "them on a bare Debian with a real systemd, and types docs/GETTING_STARTED.md and docs/MOVING_IN.md there. As root, with the net; "
                        "about ten minutes. PROGRAM: only tests/package/PROGRAM_test.py")
    options = parser.parse_args()
    if options.test is not None:
        sys.exit(0 if test(options.test) else 1)
    make_here(options.output)


def make_here(output):
    with tempfile.TemporaryDirectory(prefix="tarry-package-") as work, open(os.path.join(work, "said"), "w+", encoding="utf-8", errors="replace") as said:
        os.mkdir(os.path.join(work, "made"))
        try:
            made = make(ROOT, os.path.join(work, "made"), said)
        except RuntimeError as wrong:
            said.seek(0)
            print(said.read()[-8000:], file=sys.stderr)
            sys.exit(f"dev: {wrong}")
        complaints, is_bad = lint(made)
        print(complaints, end="", file=sys.stderr)
        os.makedirs(output, exist_ok=True)
        for old in filter(MADE.match, os.listdir(output)):
            os.unlink(os.path.join(output, old))  # also deletes packages of other versions, because the directory has those of one tree only
        for path in made:
            print(os.path.relpath(shutil.move(path, output)))
    if is_bad:
        sys.exit("dev: lintian does not pass these packages")


if __name__ == "__main__":
    main()
