"""changes.py: makes small changes of a C file, each on one line, like typical mistakes: a negated condition, a dropped
statement, an off-by-one, < for >, an early return, a constant plus one. The text is read line by line. It is formatted by
clang-format, so a complete statement ends on its line, and a function begins with a head in the first column that ends in
`{`. Other code is not changed. The compiler rejects changes that are not valid C.
"""
import re
from typing import NamedTuple

# Lines that are not mutated: they have no effect on behaviour, or they abort at once if they are wrong.
SKIPPED = re.compile(r"^\s*(#(?!define \w+ \d)|//|/\*|\*|case\b|default:|static_assert|assert\b|struct\b[^=]*;|union\b|enum\b|typedef\b|extern\b|\}?\s*else\s*\{?$)|"
                     r"\bassert\(|NOLINT|explicit_bzero|logfmt\(")
LITERAL = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/\*.*?\*/|//.*$')
SWAPS = (("<", ">"), ("<", "<="), ("<=", "<"), (">", "<"), (">", ">="), (">=", ">"), ("==", "!="), ("!=", "=="), ("&&", "||"), ("||", "&&"),
         ("+", "-"), ("-", "+"), ("+=", "-="), ("-=", "+="))
NUMBER = re.compile(r"(?<![\w.])(\d+)(?=(?:[uUlL]*)\b)(?![\w.]*x)")
CALL = re.compile(r"^(\s+)(?:\(void\)!?)?[A-Za-z_][\w>.\[\]-]*\(.*\);(?:\s*/\*.*\*/)?$")
ASSIGNMENT = re.compile(r"^(\s+)[*A-Za-z_][\w>.\[\]*-]*(?:\[.*\])? (?:[-+|&^]?=) .*;(?:\s*/\*.*\*/)?$|^(\s+)[A-Za-z_][\w>.\[\]-]*(?:\+\+|--);$")
CONDITION = re.compile(r"\b(if|while) \(")
HEAD = re.compile(r"^(?!struct \w+ \{|union|enum|typedef|static const|const )([A-Za-z_][\w \*]*?)\b\w+\(.*\{$")


class Change(NamedTuple):
    """A change that replaces one line of a file (counted from 0) by another."""

    line: int
    kind: str
    text: str


def masked(line):
    """Returns the line with strings and comments replaced by spaces; same length."""
    return LITERAL.sub(lambda found: found.group(0)[0] + " " * (len(found.group(0)) - 2) + found.group(0)[-1] if len(found.group(0)) > 1 else " ",
                       line)


def closing(text, start):
    """Returns the position of the bracket that closes the one at `start`; -1: it is not on this line."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    return -1


def negated(line, code):
    for found in CONDITION.finditer(code):
        start, end = found.end() - 1, closing(code, found.end() - 1)
        if end > 0:
            yield "negate", f"{line[:start]}(!({line[start + 1:end]})){line[end + 1:]}"


def dropped(line, code):
    """Returns a statement that has its own line, or that follows a condition on the same line; never a declaration."""
    found = CALL.match(code) or ASSIGNMENT.match(code)
    if found and not code.lstrip().startswith(("return", "if ", "while ", "for ", "switch ")):
        yield "drop", code[:len(code) - len(code.lstrip())] + "(void)0;"
    found = re.match(r"^(\s*(?:\} )?(?:else )?if )\(", code)
    if found and code.rstrip().endswith(";"):
        end = closing(code, found.end() - 1)
        if end > 0 and line[end + 1:].strip() != ";":
            yield "drop", line[:end + 1] + " (void)0;"


def swapped(line, code):
    for old, new in SWAPS:
        for found in re.finditer(rf"(?<= ){re.escape(old)}(?= )", code):
            yield f"{old} to {new}", line[:found.start()] + new + line[found.end():]


def counted(line, code):
    for found in NUMBER.finditer(code):
        if code[found.start() - 1] == "0" or found.group(1).startswith("0") and len(found.group(1)) > 1:
            continue
        for step in (1, -1):
            value = int(found.group(1)) + step
            if value >= 0:
                yield f"{found.group(1)} to {value}", line[:found.start()] + str(value) + line[found.end():]


def returned(line, code):
    found = re.match(r"^(\s+(?:if \(.*\) )?return )(\w.*|!.*|\(.*);$", code)
    if found and found.group(2) in ("true", "false"):
        yield "return", line[:found.start(2)] + ("false;" if found.group(2) == "true" else "true;")


def head_of(line):
    """Returns the result type of the function that begins on this line: "" (void), "bool", or None for any other."""
    found = HEAD.match(line)
    if not found:
        return None
    kind = found.group(1).replace("static", "").replace("inline", "").strip()
    return {"void": "", "bool": "bool"}.get(kind)


def changes_of(lines):
    """Returns all changes of a file, in order."""
    found, in_comment, in_body = [], False, False
    for number, line in enumerate(lines):
        code = masked(line)
        if in_comment:
            in_comment = "*/" not in line
            continue
        if "/*" in code and "*/" not in code[code.index("/*"):]:
            in_comment = True
            continue
        kind = head_of(line)
        if line and line[0] not in " \t}#/":
            in_body = line.endswith("{") and "(" in line
        elif line.endswith(") {") and line.startswith(" " * 10):
            in_body = True  # the function's head has several lines, so its body begins here
        if kind is not None:
            for value in [""] if kind == "" else [" true", " false"]:
                found.append(Change(number, "return early", f"{line} if (*\"x\") return{value};"))
        if SKIPPED.search(code) or not (in_body or re.match(r"#define \w+ \d", line)) or line[:1] not in (" ", "#"):
            continue
        for make in (negated, dropped, swapped, counted, returned):
            found += [Change(number, kind, text) for kind, text in make(line, code) if text != line]
    return found
