"""selftest.py: each check finds its bad sample and accepts the good one. A lint that finds nothing proves nothing."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import bugs
import copies
import cppcheck
import faults
import format as format_check
import includes
import links
import lint
import python
import riddles
import sizes
import symbols
import tidy
import words

GOOD = "int good_add(int a, int b);\n\nint good_add(int a, int b) {\n    return a + b;\n}\n"
LONG_FUNCTION = "int long_function(int a) {\n" + "    a++;\n" * 70 + "    return a;\n}\n"

def row(fault, keeper, proof):
    return f"| {fault} | it fails | {keeper} | {proof} | |\n"


CATALOGUE = faults.CATALOGUE
EXCUSED = "".join(row(fault, "", "gap: nobody has looked") for fault in faults.FAULTS + faults.PROMISES + faults.RULES)
KEEPER = "`storage/log/log.h:GUARD`"

# Bad samples: (what the sample shows, check, path of the sample, its text, words that the complaint must contain).
BAD = [
    ("format: a crooked indent", format_check.check, "proto/a.c", "int  f(void){return 1;}\n", "proto/a.c:1"),
    ("words: an unfinished place", words.check, "proto/a.c", "/* TO" + "DO: later */\n", "proto/a.c:1"),
    ("words: a sentence without an agent", words.check, "proto/a.c", "/* Nobody waits for who asks. */\n", "stand there 2 times, more than 0"),
    ("riddles: 'none' for 'invalid'", riddles.check, "proto/a.c", "/* Refuses a URL that is none. */\n", "proto/a.c:1: 'is none'"),
    ("riddles: no number and no unit", riddles.check, "broker/a.c", "/* Waits for so long, as often\n * as asked. */\n", "'as often'"),
    ("riddles: a passive without an agent", riddles.check, "proto/a.h", "int x; // set once the core is told\n", "'is told'"),
    ("riddles: a thing without a name", riddles.check, "tests/a.py", "# what it held is lost\n", "'what it held is'"),
    ("riddles: a metaphor", riddles.check, "tests/a.c", "/* Who knocks here? */\n", "'knocks'"),
    ("riddles: the end of another comment", riddles.check, "proto/a.c", "/* … and its size */\n", "'/* …'"),
    ("riddles: 'the same' as another comment", riddles.check, "proto/a.c", "/* Returns the same for a queue. */\n", "'Returns the same'"),
    ("riddles: a message", riddles.check, "client/tool/a.c", "char *a = \"the id in the path is none\";\n", "'is none'"),
    ("riddles: Markdown", riddles.check, "docs/A.md", "`x` is\n\nthe size stands for it\n", "docs/A.md:3: 'stands for'"),
    ("words: a tab", words.check, "proto/a.c", "int\tx;\n", "a tab"),
    ("links: a file that has gone", links.check, "docs/A.md", "See [it](../gone.md#there).\n", "no ../gone.md"),
    ("sizes: a function of 73 lines", sizes.check, "proto/a.c", LONG_FUNCTION, "long_function has 73 lines"),
    ("sizes: a file of 1,001 lines", sizes.check, "proto/a.c", "int x;\n" * 1001, "1001 lines"),
    ("includes: the core meets storage", includes.check, "broker/core/a.c", '#include "log.h"\n', "must not include"),
    ("includes: the engine meets the shell", includes.check, "broker/engine/a.c", '#include "shell.h"\n', "must not include"),
    ("includes: the engine meets a thread", includes.check, "broker/engine/a.c", "#include <pthread.h>\n", "must not include <pthread.h>"),
    ("includes: a half of a pair meets the shell", includes.check, "broker/replication/a.c", '#include "shell.h"\n', "must not include"),
    ("includes: a half of a pair meets a log", includes.check, "broker/replication/a.c", '#include "log.h"\n', "must not include"),
    ("includes: a half of a pair meets a clock", includes.check, "broker/replication/a.c", "#include <time.h>\n", "must not include <time.h>"),
    ("includes: a room of the shell meets the house", includes.check, "broker/shell/threads/a.c", '#include "shell.h"\n', "must not include"),
    ("includes: jobs meet the threads above them", includes.check, "broker/shell/jobs/a.c", '#include "sync.h"\n', "must not include"),
    ("includes: the core meets a clock", includes.check, "broker/core/a.c", "#include <time.h>\n", "must not include <time.h>"),
    ("includes: storage meets the core", includes.check, "storage/a.c", '#include "core.h"\n', "must not include"),
    ("includes: an example peeps inside", includes.check, "client/examples/a.c", '#include "frame.h"\n', "must not include"),
    ("includes: a climbing path", includes.check, "client/tool/a.c", '#include "../lib/x.h"\n', "climbs out"),
    ("includes: a folder without a rule", includes.check, "attic/a.c", '#include "frame.h"\n', "no include rule"),
    ("cppcheck: an uninitialised read", cppcheck.check, "proto/a.c",
     "int f(void);\nint f(void) {\n    int x[2];\n    x[0] = 1;\n    return x[2];\n}\n", "rrayIndexOutOfBounds"),
    ("tidy: a null pointer is read", tidy.check, "proto/a.c",
     "int f(int *p);\nint f(int *p) {\n    if (!p) return *p;\n    return 0;\n}\n", "clang-analyzer"),
    ("bugs: lines that have gone", bugs.check, "tests/sim/bugs/a.bug", "bug a LOG-1: it\n--- a.c\n-x\n+BUG(a)\n", "occur 0 times"),
    ("bugs: an unknown bug", bugs.check, "tests/sim/bugs/a.bug", "bug a LOG-1: it\n--- a.c\n x\n+BUG(b)\n", "no bug called b"),
    ("faults: a test that does not exist", faults.check, CATALOGUE, row("F-1", KEEPER, "`unit/a_test.c:a`"), "no file unit/a_test.c"),
    ("faults: a test without its id", faults.check, CATALOGUE, row("F-1", KEEPER, KEEPER), "does not say that it proves"),
    ("faults: a fault without a test", faults.check, CATALOGUE, row("F-1", KEEPER, ""), "no test proves it"),
    ("faults: a keeper that has gone", faults.check, CATALOGUE, row("F-1", "`storage/log/log.h:gone`", ""), "has no gone"),
    ("faults: a promise that its keeper does not cite", faults.check, CATALOGUE, row("LOG-1", KEEPER, ""), "does not cite it"),
    ("faults: a rule that its keeper does not cite", faults.check, CATALOGUE, row("R4", KEEPER, ""), "does not cite it"),
    ("faults: a forgotten rule", faults.check, CATALOGUE, EXCUSED.replace("| R8 |", "| R7 |"), "R8 has 0 rows"),
    ("faults: a forgotten fault", faults.check, CATALOGUE, EXCUSED.replace("| F-41 |", "| F-40 |"), "F-41 has 0 rows"),
    ("copies: another driver of the core", copies.check, "tests/sim/a.c", "void f(void) {\n    core_step(core, &event, &effects);\n}\n",
     "core_step is driven by broker/engine/core_turn.c alone"),
    ("python: a name that nobody defined", python.check, "tests/a.py", "print(socket)\n", "undefined name 'socket'"),
    ("tidy: a file that nobody builds", tidy.check, "proto/orphan.c", GOOD, "built by nobody"),
]
HEADERS = ("storage/log/log.h", "broker/core/core.h", "broker/shell/shell.h", "broker/shell/threads/sync.h", "proto/frame.h", "client/lib/x.h")


def write(root, path, text):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(text)


def sample_tree(real_root, path, text):
    """Makes a tiny tree with our rules, the headers that the samples name, and one sample."""
    root = tempfile.mkdtemp(prefix="tarry-lint-")
    for name in (".clang-format", ".clang-tidy"):
        shutil.copy(os.path.join(real_root, name), root)
    for header in HEADERS:
        write(root, header, "#define GUARD\n")
    write(root, path, text)
    files = [] if "orphan" in path else [path]
    database = [{"directory": root, "file": f, "command": f"cc -c {f}"} for f in files if f.endswith(".c")]
    write(root, "build/compile_commands.json", json.dumps(database))
    return root


def complaints_of(real_root, check, path, text):
    root = sample_tree(real_root, path, text)
    try:
        return check(root, os.path.join(root, "build"))
    finally:
        shutil.rmtree(root)


LOOP = "    int sum = 0;\n    for (int i = 0; i < count; i++) {\n        if (of[i] > 0 && of[i] < 1000) sum += of[i] * 2;\n    }\n    return sum;\n}\n"
OTHER = "    return count > 0 ? of[count - 1] : 0;\n}\n"
# Samples: (what the sample shows, text of the product's file, text of the simulator's file, words that a complaint must
# contain; "": no complaint).
SYMBOLS = [
    ("a function that both show", "int both(int x) { return x; }\n", "int both(int x) { return -x; }\n", "tests/sim/a.c: both is defined in broker/core/a.c too"),
    ("one that a macro names", "#define NAME both\nint NAME(int x) { return x; }\n", "int both(int x) { return -x; }\n", "both is defined in"),
    ("a static function of the same text", "static int total(const int *of, int count) {\n" + LOOP + "int (*shown)(const int *, int) = total;\n",
     "static int total(const int *of, int count) {\n" + LOOP + "int (*seen)(const int *, int) = total;\n", "total is a copy of broker/core/a.c's"),
    ("static functions of one name", "static int total(const int *of, int count) {\n" + LOOP + "int (*shown)(const int *, int) = total;\n",
     "static int total(const int *of, int count) {\n" + OTHER + "int (*seen)(const int *, int) = total;\n", ""),
    ("no object", None, None, "build first"),
]


def symbol_complaints(product, rig):
    """Returns the complaints of symbols.py about two compiled files."""
    root = tempfile.mkdtemp(prefix="tarry-lint-")
    entries = []
    try:
        for path, text in (("broker/core/a.c", product), ("tests/sim/a.c", rig)):
            if text is None:
                continue
            write(root, path, text)
            out = path.replace("/", "_") + ".o"
            subprocess.run(["cc", "-c", os.path.join(root, path), "-o", os.path.join(root, out)], check=True)
            entries.append({"directory": root, "file": path, "command": "cc", "output": out})
        write(root, "build/compile_commands.json", json.dumps(entries))
        return symbols.check(root, os.path.join(root, "build"))
    finally:
        shutil.rmtree(root)


# Samples: (what the sample shows, which file includes which header, words that a complaint must contain; "": no
# complaint).
CIRCLES = [
    ("two folders need each other", [("a/x.c", "b/y.h"), ("b/z.c", "a/x.h")], "folders need each other: a, b"),
    ("three do", [("a/x.c", "b/y.h"), ("b/y.c", "c/z.h"), ("c/z.c", "a/x.h")], "folders need each other: a, b, c"),
    ("a folder and its own", [("a/x.c", "a/b/y.h"), ("a/b/y.c", "a/x.h")], "folders need each other: a, a/b"),
    ("one needs the other", [("a/x.c", "b/y.h"), ("a/z.c", "b/y.h")], ""),
    ("more circles of files than there may be", [arrow for n in range(includes.FILE_CIRCLES_MAX + 1)
                                                 for arrow in ((f"a/x{n}.c", f"a/y{n}.h"), (f"a/y{n}.c", f"a/x{n}.h"))], "files need each other"),
    ("as many as there may be", [arrow for n in range(includes.FILE_CIRCLES_MAX)
                                 for arrow in ((f"a/x{n}.c", f"a/y{n}.h"), (f"a/y{n}.c", f"a/x{n}.h"))], ""),
    ("the parts of one file", [arrow for n in range(includes.FILE_CIRCLES_MAX + 1)
                               for arrow in ((f"a/x{n}.c", f"a/x{n}_parts.h"), (f"a/x{n}_parts.h", f"a/x{n}.h"))], ""),
]


def main():
    real_root = os.path.abspath(sys.argv[1])
    failed = number = 0
    for title, check, path, text, expected in BAD:
        number += 1
        found = complaints_of(real_root, check, path, text)
        good = any(expected in complaint for complaint in found)
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {title}" + ("" if good else f"\n# found only: {found}"))
    for title, product, rig, expected in SYMBOLS:
        number += 1
        found = symbol_complaints(product, rig)
        good = any(expected in complaint for complaint in found) if expected else not found
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - symbols: {title}" + ("" if good else f"\n# found: {found}"))
    for title, arrows, expected in CIRCLES:
        number += 1
        found = includes.complaints_about_circles(arrows)
        good = any(expected in complaint for complaint in found) if expected else not found
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - circles: {title}" + ("" if good else f"\n# found: {found}"))
    for check in (format_check.check, words.check, riddles.check, sizes.check, includes.check, cppcheck.check, tidy.check, faults.check):
        number += 1
        path, text = (CATALOGUE, EXCUSED) if check is faults.check else ("proto/a.c", GOOD)
        found = complaints_of(real_root, check, path, text)
        failed += bool(found)
        print(f"{'not ok' if found else 'ok'} {number} - {check.__module__} leaves a good file alone" +
              (f"\n# {found}" if found else ""))
    print(f"1..{number}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    lint.sys.dont_write_bytecode = True
    main()
