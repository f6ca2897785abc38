"""corpus.py: keeps a target's inputs in one text file (corpus/TARGET.txt), instead of a thousand files.

One line per input: its name, a tab, its bytes. A printable ASCII character except the backslash stands for itself, any other byte
is written as `\\xNN`; so a changed input is one line of a diff. replay_main.c reads the same format. libFuzzer needs files:
`unpacked` makes them.

corpus.py add TARGET FILE [NAME]     adds a regression (NAME: what it was) or a file of make_seeds; replaces one of that name
corpus.py unpack TARGET DIRECTORY    writes each input to a file
"""
import argparse
import contextlib
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = re.compile(r"[\w.:+-]+", re.ASCII)
ESCAPE = re.compile(r"\\x([0-9a-f]{2})|([ -\[\]-~])")


def path_of(target):
    return os.path.join(HERE, "corpus", target + ".txt")


def escaped(data):
    return "".join(chr(byte) if 0x20 <= byte < 0x7f and byte != ord("\\") else f"\\x{byte:02x}" for byte in data)


def unescaped(text):
    """Raises ValueError if `escaped` would never write this text."""
    data, at = bytearray(), 0
    while at < len(text):
        found = ESCAPE.match(text, at)
        if not found:
            raise ValueError(f"neither a printable character nor \\xNN: {text[at:at + 8]!r}")
        data.append(int(found[1], 16) if found[1] else ord(found[2]))
        at = found.end()
    return bytes(data)


def read(target):
    """Returns {name: bytes}; {} if the file does not exist."""
    if not os.path.exists(path_of(target)):
        return {}
    with open(path_of(target), encoding="ascii") as file:
        lines = [line.rstrip("\n").partition("\t") for line in file]
    return {name: unescaped(text) for name, _, text in lines}


def write(target, inputs):
    for name in inputs:
        if not NAME.fullmatch(name):
            raise ValueError(f"an input's name is of letters, digits and .:+-_, and {name!r} is not")
    with open(path_of(target), "w", encoding="ascii") as file:
        file.writelines(f"{name}\t{escaped(inputs[name])}\n" for name in sorted(inputs))


def unpack(target, directory):
    os.makedirs(directory, exist_ok=True)
    for name, data in read(target).items():
        with open(os.path.join(directory, name), "wb") as file:
            file.write(data)


@contextlib.contextmanager
def unpacked(target):
    """Returns the path of a temporary directory that has a file for each input."""
    with tempfile.TemporaryDirectory(prefix=f"tarry-corpus-{target}-") as directory:
        unpack(target, directory)
        yield directory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    adding = verbs.add_parser("add")
    adding.add_argument("target")
    adding.add_argument("file")
    adding.add_argument("name", nargs="?")
    unpacking = verbs.add_parser("unpack")
    unpacking.add_argument("target")
    unpacking.add_argument("directory")
    arguments = parser.parse_args()
    if arguments.verb == "unpack":
        unpack(arguments.target, arguments.directory)
        return 0
    with open(arguments.file, "rb") as file:
        write(arguments.target, {**read(arguments.target), arguments.name or os.path.basename(arguments.file): file.read()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
