#!/usr/bin/env python3
"""pack.py OUT: writes the npm tarball as `npm pack` would, without npm, and with the same bytes each time."""
import gzip
import io
import json
import os
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))


def names():
    """Returns package.json and the files in its `files`."""
    with open(os.path.join(HERE, "package.json"), encoding="utf-8") as file:
        listed = json.load(file)["files"]
    found = ["package.json"]
    for name in listed:
        path = os.path.join(HERE, name)
        found += [f"{name}/{inside}" for inside in os.listdir(path)] if os.path.isdir(path) else [name]
    return sorted(found)


def main(out):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in names():
            with open(os.path.join(HERE, name), "rb") as file:
                data = file.read()
            entry = tarfile.TarInfo("package/" + name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    with open(out, "wb") as file:
        file.write(gzip.compress(plain.getvalue(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
