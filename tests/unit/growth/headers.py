"""headers.py: makes the public headers of another library version, for client_growth_test.c.

older: the last field of every struct of options is called `absent`, and one field of a result has another name. newer: every
struct of options has a field `tomorrow` in place of the first reserved one.

Usage: headers.py older|newer SOURCE_DIRECTORY OUTPUT_DIRECTORY STAMP
"""
import os
import re
import sys

# A struct that the user fills keeps its size: a new field replaces a reserved one (tarry.h, Compatibility).
OPTIONS = re.compile(r"^(struct tarry_(?:(?:\w+_)?options|policy|call) \{\n)(.*?)^    uint64_t reserved\[(\d+)\];([^\n]*\n)(\};\n)", re.MULTILINE | re.DOTALL)
LAST_FIELD = re.compile(r"(\w+)(;[^\n]*\n)\Z")


def without_last_field(match):
    body, count = LAST_FIELD.subn(r"absent\2", match.group(2))
    if count != 1:
        sys.exit(f"headers.py: {match.group(1).strip()} ends in no field that is understood")
    return match.group(1) + body + f"    uint64_t reserved[{match.group(3)}];" + match.group(4) + match.group(5)


def with_another_field(match):
    fields = f"    uint64_t tomorrow;\n    uint64_t reserved[{int(match.group(3)) - 1}];"
    return match.group(1) + match.group(2) + fields + match.group(4) + match.group(5)


def older(text):
    text = OPTIONS.sub(without_last_field, text)
    text = text.replace("    uint64_t sequence;\n    uint64_t index;", "    uint64_t sequence_was;\n    uint64_t index;")
    return text


def newer(text):
    return OPTIONS.sub(with_another_field, text)


def main():
    kind, source, output, stamp = sys.argv[1:]
    change = {"older": older, "newer": newer}[kind]
    os.makedirs(output, exist_ok=True)
    changed = 0
    for name in sorted(os.listdir(source)):
        with open(os.path.join(source, name), encoding="utf-8") as file:
            text = file.read()
        changed += len(OPTIONS.findall(text))
        with open(os.path.join(output, name), "w", encoding="utf-8") as file:
            file.write(change(text))
    if changed < 9:
        sys.exit(f"headers.py: only {changed} structs of options found")
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(f"#define GROWTH_STRUCTS {changed}\n")


main()
