#!/usr/bin/env python3
"""pages.py: makes a man page, or the sample of all options, from a program's --help, which its tables print.

    pages.py man TEMPLATE PROGRAM OUT    the page of tarry or tarryd
    pages.py ini PROGRAM OUT             a configuration file with each option of tarryd and its default, as comments

A line `@option NAME` of the template becomes the entry of that option of tarryd; `@command NAME` becomes the whole section of that
command of tarry, `@maybe NAME` that of a command that not every build has. The text after it is what the help does not say. A
template that names an option or a command that does not exist, leaves one out, or says twice what one is, ends the build.
"""
import os
import re
import subprocess
import sys

OPTION = re.compile(r"^  --([a-z][a-z-]*)(?: ([^\s]+( …)?))?\s*$|^  --([a-z][a-z-]*)(?: ([^\s]+(?: …)?))?\s+(\S.*)$")


def help_of(program, *words):
    # The sanitizers' report about memory at exit is of no interest here.
    done = subprocess.run([program, *words, "--help"], stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    return done.stdout


def options_in(lines):
    """Returns [(name, argument, text)] of lines as a help prints them; text that goes on is indented."""
    found = []
    for line in lines:
        if head := OPTION.match(line):
            found.append([head[1] or head[4], head[2] or head[5] or "", head[6] or ""])
        elif found and line.startswith("     "):
            found[-1][2] = f"{found[-1][2]} {line.strip()}".strip()
    return [tuple(option) for option in found]


def escape(text):
    """Returns text for mdoc: an option's dashes stay dashes, and no line is a request."""
    text = text.replace("…", "...").replace("\\", r"\e").replace("--", r"\-\-")
    return r"\&" + text if text[:1] in (".", "'") else text


def sentence(text):
    """Returns (the text as a sentence, its default)."""
    found = re.fullmatch(r"(.*?)(?: \[([^\[\]]*)\])?", text)
    is_word = re.match(r"[a-z]+(?=[ ;])", found[1])
    return (found[1][:1].upper() if is_word else found[1][:1]) + found[1][1:] + ".", found[2]


def entry(name, argument, text, leads=()):
    said, preset = sentence(text)
    many = argument.endswith(" …")
    argument = argument.removesuffix(" …")
    lines = [f".It Fl -{name}" + (f" Ar {argument}" if argument else "") + (" ..." if many else ""), *(escape(lead) for lead in leads), escape(said)]
    return lines + ([escape(f"Default: {preset}.")] if preset else [])


def paragraphs(text):
    """Prose flows; a block of indented lines stays as it is."""
    out, is_literal = [], False
    for line in text.splitlines():
        if line.startswith("  ") != is_literal and line:
            is_literal = not is_literal
            out.append(".Bd -literal -offset indent -compact" if is_literal else ".Ed")
        if line:
            out.append(escape(line.removeprefix("  ") if is_literal else line))
        elif not is_literal:
            out.append(".Pp")
    return out + ([".Ed"] if is_literal else [])


def command_section(program, name):
    said = help_of(program, *name.split())
    usage, rest = re.fullmatch(r"Usage:\n(.*?)\n\n(.*)", said, re.S).groups()
    text, _, rest = rest.partition("\nOptions of every command:\n")
    text, _, options = text.partition("\nOptions:\n")
    examples = re.search(r"\nExamples:\n(.*?)\n\n", rest, re.S)[1]
    out = [f".Ss tarry {name}", ".Bd -literal -compact", *(escape(line.strip()) for line in usage.splitlines()), ".Ed", ".Pp", *paragraphs(text.strip("\n"))]
    if options:
        out.append(".Bl -tag -width Ds")
        for option in options_in(options.splitlines()):
            out += entry(*option)
        out.append(".El")
    out += [".Pp", "Examples:", ".Bd -literal -offset indent -compact", *(escape(line.strip()) for line in examples.splitlines()), ".Ed", ".Pp"]
    return out


def man(template, program):
    said = help_of(program)
    options = {option[0]: option for option in options_in(said.splitlines())}
    commands = [line[2:17].strip() for line in said.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()]
    wanted = set(commands) if commands else set(options)
    out = []
    with open(template, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for line in lines:
        if not line.startswith("@"):
            out.append(line)
            continue
        verb, name = line[1:].split(" ", 1)
        if verb == "maybe" and name not in wanted:
            continue
        if name not in wanted:
            sys.exit(f"{template}: {line}: {program} has no such {verb}, or it is here twice")
        wanted.remove(name)
        out += command_section(program, name) if verb != "option" else entry(*options[name])
    if commands:
        out = "\n".join(out)
        missing = [name for name in options if name != "version" and f"Fl -{name}" not in out]
        out = out.splitlines()
        wanted |= set(missing)
    if wanted:
        sys.exit(f"{template}: these are missing: {', '.join(sorted(wanted))}")
    return "\n".join(out) + "\n"


def ini(program):
    out = ["; Every option of tarryd, with its default. `tarryd --config FILE` reads such a file; a line without `;` sets an option.", "[tarryd]"]
    for name, argument, text in options_in(help_of(program).splitlines()):
        if argument and name != "config":  # the others are for the command line
            said, preset = sentence(text)
            is_value = preset and re.fullmatch(r"[\w:/.]+", preset) and preset not in ("none", "no")
            out += ["", f"; {said}", f"; {name} = {preset if is_value or preset == 'no' else argument}"]
    return "\n".join(out) + "\n"


def main():
    verb, *rest = sys.argv[1:]
    text = man(*rest[:2]) if verb == "man" else ini(rest[0])
    with open(rest[-1], "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
