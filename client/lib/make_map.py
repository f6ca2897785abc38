#!/usr/bin/env python3
"""make_map.py: writes the linker's list of exported functions: those that the public headers declare with TARRY_API.

    make_map.py OUT HEADER...

The list has a version node (TARRY_0.1) with the names of that version. After a release its node stays unchanged; the new names of
each later minor version get a node of their own.
"""
import re
import sys

out, *headers = sys.argv[1:]
names = set()
for path in headers:
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    names.update(re.findall(r"TARRY_API\b[^;]*?\b(tarry_\w+)\(", text))
with open(out, "w", encoding="utf-8") as file:
    file.write("TARRY_0.1 {\nglobal:\n" + "".join(f"    {name};\n" for name in sorted(names)) + "local:\n    *;\n};\n")
