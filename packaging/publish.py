#!/usr/bin/env python3
"""publish.py: makes, in one directory, everything of a release that is published on a server: an apt repository, a container
image, and checksums.

    DIR/apt/        a repository for apt: `deb [signed-by=…] https://HOST/apt stable main`
    DIR/image/      a container image in OCI's layout, made from Debian and the packages by the last stage of Containerfile
    DIR/SHA256SUMS  checksums of all files; with --key also SHA256SUMS.asc, and the signatures of the repository

It sends nothing: docs/RELEASING.md has the two commands with which a person publishes the results.
"""
import argparse
import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import package

MIRROR = "http://deb.debian.org/debian"  # the image's own source of packages
# Paths below the image's root that differ between two builds, or contain data about the build.
UNWANTED = ("var/log/*", "var/cache/apt/*", "var/cache/ldconfig/*", "var/lib/apt/lists/*", "etc/machine-id", "etc/resolv.conf", "etc/hostname", "dev/*")


def run(command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"dev: {' '.join(command)}: exit status {done.returncode}\n{done.stderr[-4000:]}")
    return done.stdout


def stages(root):
    """Returns [(instruction, its arguments)] of each stage of the Containerfile."""
    with open(os.path.join(root, "packaging", "Containerfile"), encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    found = []
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found


# ---- the repository

def repository(packages, output, suite, key):
    """Makes a repository of the .deb files in `output`, which is replaced."""
    shutil.rmtree(output, ignore_errors=True)
    pool, lists = os.path.join(output, "pool", "main"), os.path.join(output, "dists", suite)
    os.makedirs(pool)
    for path in packages:
        if path.endswith((".deb", ".dsc", ".tar.xz")):
            shutil.copy(path, pool)
    for architecture in sorted({re.search(r"_(\w+)\.deb$", path)[1] for path in packages if path.endswith(".deb")} - {"all"}):
        folder = os.path.join(lists, "main", f"binary-{architecture}")
        os.makedirs(folder)
        listed(folder, "Packages", run(["apt-ftparchive", "--arch", architecture, "packages", "pool/main"], cwd=output))
    folder = os.path.join(lists, "main", "source")
    os.makedirs(folder)
    listed(folder, "Sources", run(["apt-ftparchive", "sources", "pool/main"], cwd=output))
    architectures = " ".join(name.removeprefix("binary-") for name in sorted(os.listdir(os.path.join(lists, "main"))) if name.startswith("binary-"))
    options = {"Origin": "Tarry", "Label": "Tarry", "Suite": suite, "Codename": suite, "Components": "main", "Architectures": architectures}
    release = run(["apt-ftparchive", *(word for name, value in options.items() for word in ("-o", f"APT::FTPArchive::Release::{name}={value}")),
                   "release", os.path.join("dists", suite)], cwd=output)
    with open(os.path.join(lists, "Release"), "w", encoding="utf-8") as file:
        file.write(release)
    if key:
        sign = ["gpg", "--batch", "--yes", "--local-user", key]
        run([*sign, "--clearsign", "--output", os.path.join(lists, "InRelease"), os.path.join(lists, "Release")])
        run([*sign, "--armor", "--detach-sign", "--output", os.path.join(lists, "Release.gpg"), os.path.join(lists, "Release")])
        run(["gpg", "--batch", "--yes", "--output", os.path.join(output, "tarry-archive-keyring.gpg"), "--export", key])


def listed(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    run(["xz", "--keep", path])


# ---- the image

def settings(stage):
    """Returns the options of `umoci config` for those instructions of a stage that set how the image runs."""
    said = dict(stage)
    options = ["--config.user", said["USER"], "--config.stopsignal", said["STOPSIGNAL"], "--config.volume", said["VOLUME"], "--config.exposedports", said["EXPOSE"]]
    for word in json.loads(said["ENTRYPOINT"]):
        options += ["--config.entrypoint", word]
    return options


def image(root, packages, output, version):
    """Makes the container image in `output`, an OCI layout, which is replaced. As root; needs the network."""
    stage = stages(root)[-1]
    suite = re.search(r":(\w+?)(-slim)?$", stage[0][1])[1]
    shutil.rmtree(output, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="tarry-image-") as work:
        tree = os.path.join(work, "root")
        run(["debootstrap", "--variant=minbase", suite, tree, *mirrors(suite)[:1]])
        shutil.copy("/etc/resolv.conf", os.path.join(tree, "etc/resolv.conf"))
        for word, rest in stage:
            if word == "RUN":
                run(["chroot", tree, "/bin/sh", "-ec", rest], env={"PATH": package.PATH, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"})
            elif word == "COPY":
                target = shlex.split(rest)[-1]
                os.makedirs(tree + target)
                for path in packages:
                    shutil.copy(path, tree + target)
        for pattern in UNWANTED:
            for path in glob.glob(os.path.join(glob.escape(tree), pattern)):
                shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        with open(os.path.join(tree, "etc/apt/sources.list"), "w", encoding="ascii") as file:
            file.write(f"deb {MIRROR} {suite} main\n")
        stamp = package.timestamp_of(root)
        layer = os.path.join(work, "layer.tar")
        run(["tar", "-C", tree, "--sort=name", f"--mtime=@{stamp}", "--numeric-owner", "--one-file-system", "-cf", layer, "."])
        run(["umoci", "init", "--layout", output])
        run(["umoci", "new", "--image", f"{output}:{version}"])
        run(["umoci", "raw", "add-layer", "--image", f"{output}:{version}", layer])
        run(["umoci", "config", "--image", f"{output}:{version}", *settings(stage)])
        run(["umoci", "gc", "--layout", output])


def mirrors(suite):
    """Returns the URL of this machine's own mirror of Debian, if it is the same release; otherwise nothing."""
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"], stdout=subprocess.PIPE, text=True, check=False)
    return [uri for uri, release in map(str.split, done.stdout.splitlines()) if release == suite]


# ---- checksums

def sums(output, key):
    lines = []
    for place, folders, names in os.walk(output):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            if not name.startswith("SHA256SUMS"):
                with open(path, "rb") as file:
                    lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {os.path.relpath(path, output)}\n")
    path = os.path.join(output, "SHA256SUMS")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(sorted(lines, key=lambda line: line.split("  ", 1)[1]))
    if key:
        run(["gpg", "--batch", "--yes", "--local-user", key, "--armor", "--detach-sign", "--output", path + ".asc", path])


def main():
    parser = argparse.ArgumentParser(prog="./dev publish", description="Makes an apt repository, a container image and checksums of this tree's packages. Sends nothing.")
    parser.add_argument("output", metavar="DIR", help="where they are put")
    parser.add_argument("--packages", metavar="DIR", help="packages that `./dev package` has made (default: makes them)")
    parser.add_argument("--suite", default="stable", help="name of the repository's suite (default: stable)")
    parser.add_argument("--key", metavar="KEY", help="gpg's key for the signatures; without it nothing is signed, and apt refuses the repository unless told otherwise")
    parser.add_argument("--no-image", action="store_true", help="no container image (it needs root, and the network)")
    options = parser.parse_args()
    if not re.fullmatch(r"[a-z][a-z0-9-]*", options.suite):
        parser.error(f"--suite {options.suite}: use small letters, digits and hyphens, such as stable")
    if os.path.exists(options.output) and not os.path.isdir(options.output):
        parser.error(f"{options.output} is not a directory")
    made = options.packages or os.path.join(package.ROOT, "build-package")
    if not options.packages:
        package.make_here(made)
    packages = sorted(glob.glob(os.path.join(glob.escape(made), "*")))
    if not any(path.endswith(".deb") for path in packages):
        parser.error(f"{made} has no .deb file: run ./dev package first")
    os.makedirs(options.output, exist_ok=True)
    repository(packages, os.path.join(options.output, "apt"), options.suite, options.key)
    if not options.no_image:
        image(package.ROOT, packages, os.path.join(options.output, "image"), package.version_of(package.ROOT))
    sums(options.output, options.key)


if __name__ == "__main__":
    main()
