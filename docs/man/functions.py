#!/usr/bin/env python3
"""functions.py: makes a man page of section 3 for each function of libtarry, from the public headers and their comments.

    functions.py list HEADER...           prints the name of each page, one a line
    functions.py make OUTDIR HEADER...

A function's page has the comment before its declaration, and the types that the declaration names. A function without a comment of
its own shares the page of the function before it. tarry.3 has the comment at the beginning of tarry.h.
"""
import os
import re
import sys

FUNCTION = re.compile(r"TARRY_API\s+(?:TARRY_MUST_USE\s+)?(.*?)\b(tarry_\w+)\((.*)\)[^)]*;\s*$", re.S)
TYPE = re.compile(r"^(struct|enum|union) (tarry_\w+) \{\n.*?^\};", re.M | re.S)
CALLBACK = re.compile(r"^typedef [^;]*\(\*(tarry_\w+)\)\([^;]*\);", re.M)
FIRST_SENTENCE = re.compile(r"^(.*?[.:])(?:\s|$)", re.S)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def comment_text(comment):
    """Returns the lines of a comment without its marks."""
    lines = comment.strip()[2:-2].split("\n")
    return "\n".join([lines[0].strip()] + [re.sub(r"^\s*\* ?", "", line).rstrip() for line in lines[1:]]).strip()


def functions(text):
    """Returns [(names, [(result, name, arguments)], comment)] of a header: one entry a page."""
    pages, comment, is_direct = [], "", False
    for match in re.finditer(r"/\*(?:[^*]|\*(?!/))*\*/|TARRY_API[^;]*;|#define TARRY[^\n]*|typedef [^;{]*;|[^\s]", text):
        piece = match[0]
        if piece.startswith("/*"):
            comment, is_direct = comment_text(piece), True
            continue
        if piece.startswith(("#define", "typedef")):
            continue  # a constant or a callback of the function that follows
        if not piece.startswith("TARRY_API"):
            is_direct = False
            continue
        found = FUNCTION.match(re.sub(r"/\*.*?\*/", "", piece, flags=re.S))
        if not found:
            sys.exit(f"functions.py: this declaration is not understood: {piece}")
        declaration = (" ".join(found[1].split()), found[2], [" ".join(argument.split()) for argument in split(found[3])])
        if is_direct or not pages:
            pages.append(([found[2]], [declaration], comment))
        else:
            pages[-1][0].append(found[2])
            pages[-1][1].append(declaration)
        is_direct = False
    return pages


def split(arguments):
    """Splits at the commas that are not within parentheses."""
    out, depth = [""], 0
    for char in arguments:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            out.append("")
        else:
            out[-1] += char
    return [argument for argument in out if argument.strip()]


def escape(text):
    text = text.replace("\\", r"\e").replace("…", "...").replace("–", "-").replace("µ", "u").replace("≤", "<=").replace("→", "->")
    return r"\&" + text if text[:1] in (".", "'") else text


def prose(text):
    """Paragraphs flow; indented lines stay as they are."""
    out, is_literal = [], False
    for line in text.split("\n"):
        literal = line.startswith("  ")
        if literal != is_literal:
            out.append(".Bd -literal -offset indent" if literal else ".Ed")
            is_literal = literal
        if not line.strip():
            out.append("" if is_literal else ".Pp")
        else:
            out.append(escape(line if literal else line.strip()))
    if is_literal:
        out.append(".Ed")
    tidy = []
    for line in out:
        if line == ".Pp" and (not tidy or tidy[-1] in (".Pp", ".Ed")):
            continue
        if line == ".Bd -literal -offset indent" and tidy and tidy[-1] == ".Pp":
            tidy.pop()
        tidy.append(line)
    while tidy and tidy[-1] == ".Pp":
        tidy.pop()
    return tidy


def types_of(declarations, texts):
    """Returns the definitions of the structs, enums and callbacks that the declarations name."""
    words = " ".join(result + " ".join(arguments) for result, _, arguments in declarations)
    out = []
    for text in texts:
        for match in TYPE.finditer(text):
            if re.search(rf"\b{match[1]} {match[2]}\b(?! \*\*)", words):
                out.append(match[0])
        for match in CALLBACK.finditer(text):
            if re.search(rf"\b{match[1]}\b", words):
                out.append(match[0])
    return out


def first_sentence(comment):
    first = FIRST_SENTENCE.match(comment)
    return " ".join((first[1] if first else comment).split())


def page(names, declarations, comment, header, texts, others):
    summary = first_sentence(comment).rstrip(".:")
    lines = [".Dd", f".Dt {names[0].upper()} 3", ".Os Tarry", ".Sh NAME"]
    lines += [f".Nm {name}" + (" ," if i + 1 < len(names) else "") for i, name in enumerate(names)]
    lines += [f".Nd {escape(summary[:1].lower() + summary[1:])}", ".Sh LIBRARY", "libtarry (\\-ltarry)", ".Sh SYNOPSIS", ".In tarry.h"]
    for result, name, arguments in declarations:
        lines += [f".Ft {result}", f".Fo {name}", *(f'.Fa "{argument}"' for argument in arguments), ".Fc"]
    lines += [".Sh DESCRIPTION", *prose(comment)]
    types = types_of(declarations, texts)
    if types:
        lines += [".Sh TYPES"]
        for definition in types:
            lines += [".Bd -literal", *(escape(line) for line in definition.split("\n")), ".Ed"]
    lines += [".Sh SEE ALSO", ".Xr tarry 3 ,", *(f".Xr {other} 3" + (" ," if i + 1 < len(others) else "") for i, other in enumerate(others)),
              ".Pp", f"The declarations are in <{header}>, which <tarry.h> includes."]
    return "\n".join(lines) + "\n"


def overview(text, pages):
    comment = comment_text(re.match(r"/\*.*?\*/", text, re.S)[0])
    comment = re.sub(r"^tarry\.h: ", "", comment)
    lines = [".Dd", ".Dt TARRY 3", ".Os Tarry", ".Sh NAME", ".Nm tarry", ".Nd client library of a durable delay broker", ".Sh LIBRARY", "libtarry (\\-ltarry)",
             ".Sh SYNOPSIS", ".In tarry.h", ".Sh DESCRIPTION", *prose(comment[:1].upper() + comment[1:]), ".Sh FUNCTIONS", ".Bl -tag -width Ds"]
    for names, _, said in pages:
        lines += [".It " + " , ".join(f"Xr {name} 3" for name in names), escape(first_sentence(said))]
    return "\n".join(lines + [".El", ".Sh SEE ALSO", ".Xr tarry 1 ,", ".Xr tarryd 8"]) + "\n"


def main():
    order, *arguments = sys.argv[1:]
    if order == "list":
        print("tarry.3", *(f"{name}.3" for path in arguments for names, _, _ in functions(read(path)) for name in names), sep="\n")
        return
    out, *headers = arguments
    texts = [read(path) for path in headers]
    every = []
    for path, text in zip(headers, texts):
        pages = functions(text)
        every += pages
        for names, declarations, comment in pages:
            if not comment:
                sys.exit(f"functions.py: {names[0]} has no comment in {path}")
            others = sorted(other[0] for other, _, _ in pages if other[0] != names[0])[:12]
            made = page(names, declarations, comment, os.path.basename(path), texts, others)
            for i, name in enumerate(names):
                with open(os.path.join(out, f"{name}.3"), "w", encoding="utf-8") as file:
                    file.write(made if i == 0 else f".so man3/{names[0]}.3\n")
    with open(os.path.join(out, "tarry.3"), "w", encoding="utf-8") as file:
        file.write(overview(texts[0], every))


if __name__ == "__main__":
    main()
