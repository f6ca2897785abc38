"""embed.py: writes a file as a C array: embed.py IN OUT NAME HEADER."""
import sys

with open(sys.argv[1], "rb") as file:
    data = file.read()
with open(sys.argv[2], "w", encoding="ascii") as out:
    out.write(f'#include "{sys.argv[4]}"\n\nconst unsigned char {sys.argv[3]}[] = {{{",".join(map(str, data))}}};\n')
    out.write(f"const size_t {sys.argv[3]}_size = sizeof({sys.argv[3]});\n")
