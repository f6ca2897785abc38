"""sizes.py: checks that functions and files are not too long. A function is recognized by clang-format's layout: it ends at a
`}` in the first column. Its body begins at the nearest earlier line that ends in `{` and starts in the first column (or continues such a line).
"""
import re

import lint

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 1000
NO_FUNCTION = re.compile(r"^(struct|union|enum|typedef|static const|const|extern|#|/|\*|\{)")


def functions(lines):
    """Returns (name, first line, number of lines) of each function definition."""
    start = None
    for number, line in enumerate(lines, 1):
        if line and line[0] not in " \t}#/*{" and not line.endswith((";", ":")):
            start = number if start is None else start
        elif line.startswith("}"):
            if start is not None:
                head = lines[start - 1]
                joined = " ".join(lines[start - 1:number])
                name = re.search(r"(\w+)\s*\(", joined)
                body_at = joined.find("{")
                is_function = "(" in joined[:body_at] and "=" not in joined[:body_at] if body_at > 0 else False
                if is_function and name and not (NO_FUNCTION.match(head) and "(" not in head):
                    yield name.group(1), start, number - start + 1
            start = None
        elif line.endswith(";") and line and line[0] != " ":
            start = None
        elif start is not None and line.endswith(";") and "{" not in " ".join(lines[start - 1:number]):
            start = None  # not a function but a declaration over several lines


def check(root, _build):
    complaints = []
    for path in lint.our_files(root, (".c", ".h")):
        lines = lint.read_lines(root, path)
        if len(lines) - 1 > FILE_LINES_MAX:
            complaints.append(f"{path}:1: {len(lines) - 1} lines, more than {FILE_LINES_MAX}: split it")
        for name, first, count in functions(lines):
            if count > FUNCTION_LINES_MAX:
                complaints.append(f"{path}:{first}: {name} has {count} lines, more than {FUNCTION_LINES_MAX}")
    for path in lint.our_files(root, (".py", "dev")):
        count = len(lint.read_lines(root, path)) - 1
        if count > FILE_LINES_MAX:
            complaints.append(f"{path}:1: {count} lines, more than {FILE_LINES_MAX}: split it")
    return complaints


if __name__ == "__main__":
    lint.main("sizes", check)
