"""mutate_test.py: tests ./dev mutate (tests/mutate). It checks which changes mutate makes in a file, and that its table of
tests matches the tree. A small project has one change that its test detects and one that it does not.
"""
import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from unittest import mock

import harness

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "mutate"))
import changes  # noqa: E402  (the path above)
import journal  # noqa: E402
import mutate  # noqa: E402
import table  # noqa: E402

SOURCE = """/* a.c: if (x < 1) is a comment. */
#define LIMIT 7
static int seen;

bool a_is_fine(int x) {
    const char *words = "if (x < 1) return 5;"; /* x == 2 */
    if (x < 10 && x != 3) return true;
    assert(x > 1);
    note_it(words);
    seen += x;
    return x >= LIMIT;
}
"""
MADE = ["#define LIMIT 8", "#define LIMIT 6", "bool a_is_fine(int x) { if (*\"x\") return true;", "bool a_is_fine(int x) { if (*\"x\") return false;",
        "if (!(x < 10 && x != 3)) return true;", "if (x < 10 && x != 3) (void)0;", "if (x > 10 && x != 3) return true;",
        "if (x <= 10 && x != 3) return true;", "if (x < 10 && x == 3) return true;", "if (x < 10 || x != 3) return true;",
        "if (x < 11 && x != 3) return true;", "if (x < 9 && x != 3) return true;", "if (x < 10 && x != 4) return true;",
        "if (x < 10 && x != 2) return true;", "if (x < 10 && x != 3) return false;", "(void)0;", "(void)0;", "seen -= x;",
        "return x > LIMIT;"]

PROJECT = {
    "meson.build": "project('small', 'c')\nexecutable('sum_test', 'broker/core/sum.c', 'test.c', install: false)\n"
                   "test('core', executable('core_test', 'broker/core/sum.c', 'test.c'))\n",
    "meson_options.txt": "option('tests', type: 'boolean', value: false)\n",
    "broker/core/sum.c": "int sum(int a, int b);\nint idle(int a);\nint sum(int a, int b) {\n    return a + b;\n}\nint idle(int a) {\n"
                         "    (void)(a < 5);\n    return a - 1;\n}\n",
    "test.c": "int sum(int a, int b);\nint main(void) {\n    return sum(2, 3) == 5 ? 0 : 1;\n}\n",
}


class Changes(unittest.TestCase):
    def test_what_is_made_of_a_file(self):
        made = changes.changes_of(SOURCE.split("\n"))
        self.assertEqual(sorted(change.text.strip() for change in made), sorted(MADE))
        for change in made:
            self.assertNotIn("comment", SOURCE.split("\n")[change.line])

    def test_most_of_them_are_c(self):
        """Each function in a folder of the product can be changed."""
        with open(os.path.join(ROOT, "broker", "core", "need.c"), encoding="utf-8") as file:
            lines = file.read().split("\n")
        made = changes.changes_of(lines)
        self.assertGreater(len({change.line for change in made}), 25)
        self.assertTrue(all(change.text != lines[change.line] for change in made))


class Table(unittest.TestCase):
    def test_it_names_tests_that_there_are(self):
        said = subprocess.run(["meson", "introspect", os.environ["TARRY_BUILD_ROOT"], "--tests"], stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(table.unknown_patterns([test["name"] for test in json.loads(said)]), [])

    def test_every_folder_of_the_product_is_in_it(self):
        for folder in mutate.PRODUCT:
            for directory, _, files in os.walk(os.path.join(ROOT, folder)):
                for name in files:
                    if name.endswith(".c"):
                        self.assertTrue(table.stages_of(os.path.relpath(os.path.join(directory, name), ROOT)), name)

    def test_the_longest_folder_counts(self):
        self.assertEqual(table.stages_of("broker/shell/pair/node_leader.c"), table.STAGES["broker/shell/pair"])
        self.assertEqual(table.stages_of("bench/a.c"), [])


class Helpers(unittest.TestCase):
    def test_all_that_is_installed_is_compared_with_what_it_was(self):
        """The file of the tool is unchanged when only the library changes, so no Python test would run."""
        said = subprocess.run(["meson", "introspect", os.environ["TARRY_BUILD_ROOT"], "--targets"], stdout=subprocess.PIPE, check=True).stdout
        build = os.path.realpath(os.environ["TARRY_BUILD_ROOT"])
        names = [os.path.relpath(os.path.realpath(name), build) for target in json.loads(said) if target["installed"]
                 and target["type"] in ("executable", "shared library") for name in target["filename"]]
        self.assertGreaterEqual(len(names), 3)
        self.assertEqual([name for name in names if not name.startswith(mutate.HELPERS)], [])


class Play(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="tarry-mutate-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        for name, text in PROJECT.items():
            path = os.path.join(self.directory, "source", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        self.addCleanup(setattr, table, "STAGES", table.STAGES)
        table.STAGES = {"broker/core": [["core"]]}
        self.copy = mutate.Copy(os.path.join(self.directory, "source"), self.directory)
        self.copy.update()
        self.copy.configure()
        self.said = []
        self.judge, self.compiler = mutate.Judge(self.copy, self.said.append), mutate.Compiler(self.copy)
        self.judge.prepare()

    def play(self, text):
        """Returns the result of the change whose new line is `text`."""
        for path, lines, change in mutate.candidates(self.copy, self.compiler, ["broker/core"]):
            if change.text.strip() == text:
                return mutate.play(self.judge, self.compiler, path, lines, change)
        raise AssertionError(f"no such change: {text}")

    def source(self):
        with open(os.path.join(self.copy.root, "broker/core/sum.c"), encoding="ascii") as file:
            return file.read()

    def test_what_becomes_of_changes(self):
        self.assertEqual(self.play("return a - b;"), (mutate.FOUND, "core"))
        self.assertEqual(self.play("return a - 2;"), (mutate.SURVIVED, None))
        self.assertEqual(self.play("(void)(a < 6);"), (mutate.SAME, None))
        self.assertEqual(self.source(), PROJECT["broker/core/sum.c"])
        lines = self.source().split("\n")
        no_c = changes.Change(3, "drop", "    return a +;")
        self.assertEqual(mutate.play(self.judge, self.compiler, "broker/core/sum.c", lines, no_c), (mutate.NO_C, None))

    def test_the_sanitized_build_sees_what_is_never_given_back(self):
        copy = mutate.Copy(os.path.join(self.directory, "source"), self.directory, sanitized=True)
        copy.configure()
        judge = mutate.Judge(copy, self.said.append)
        judge.prepare()
        leaks = changes.Change(3, "leak", "    for (int i = 0; i < 9; i++) { char *volatile left = __builtin_malloc(5); (void)left; } return a + b;")
        found = mutate.play(judge, mutate.Compiler(copy), "broker/core/sum.c", self.source().split("\n"), leaks)
        self.assertEqual((found, self.said), ((mutate.FOUND, "core"), []))

    def test_what_hangs_is_found(self):
        mutate_s, mutate.PATIENCE_S = mutate.PATIENCE_S, 1
        self.addCleanup(setattr, mutate, "PATIENCE_S", mutate_s)
        lines = self.source().split("\n")
        hangs = changes.Change(3, "hang", "    for (volatile int i = a; i != b || a;) { } return a + b;")
        self.assertEqual(mutate.play(self.judge, self.compiler, "broker/core/sum.c", lines, hangs), (mutate.FOUND, "core"))

    def test_a_test_that_fails_by_itself_finds_nothing(self):
        with open(os.path.join(self.copy.root, "test.c"), "a", encoding="ascii") as file:
            file.write("__attribute__((constructor)) static void fail(void) { __builtin_trap(); }\n")
        self.assertEqual(self.play("return a - b;"), (mutate.SURVIVED, None))
        self.assertEqual(self.said, ["core fails on the unchanged tree, and is left out"])

    def test_a_program_is_ended_at_its_first_check_that_fails(self):
        program = self.judge.programs["core"]
        program.command = ["sh", "-c", "echo 'not ok 3 - Sums.test two and three (b=3)'; exec sleep 600"]
        self.assertFalse(program.run(60))
        self.assertEqual(program.complaint, "Sums.test two and three (b=3)")

    def test_of_a_program_of_python_the_check_that_failed_is_tried_again(self):
        program = self.judge.programs["core"]
        program.is_python, program.took_s, program.complaint = True, 0, "Sums.test two and three (b=3)"
        program.command = ["sh", "-c", 'test "$*" != Sums.test_two_and_three', "test.py"]
        self.assertTrue(program.fails_again())
        program.complaint = None
        self.assertFalse(program.fails_again())

    def test_quick_leaves_programs_of_python_out(self):
        self.judge.programs["core"].is_python = True
        self.assertEqual([[program.name for program in stage] for stage in self.judge.stages("broker/core/sum.c")], [["core"]])
        self.judge.quick = True
        self.assertEqual(list(self.judge.stages("broker/core/sum.c")), [])

    def test_what_has_noticed_changes_of_a_folder_goes_first(self):
        program = self.judge.programs["core"]
        program.took_s, program.found = 6, {"broker/core": 1}
        self.assertLess(program.rank("broker/core/slab.c"), program.rank("broker/net/slab.c"))

    def test_what_bears_the_name_of_the_file_goes_first(self):
        program = self.judge.programs["core"]
        self.assertLess(program.rank("broker/net/a_cores.c"), program.rank("broker/net/a_door.c"))
        self.assertEqual(program.rank("broker/net/co.c"), program.rank("broker/net/a_door.c"))

    def test_what_a_change_leaves_as_it_was_is_not_run(self):
        program = self.judge.programs["core"]
        self.assertFalse(self.judge.differs(program))
        self.copy.write("broker/core/sum.c", PROJECT["broker/core/sum.c"].replace("a + b", "a - b"))
        self.copy.ninja(program.targets)
        self.assertTrue(self.judge.differs(program))
        program.command, program.has_passed = ["false"], True
        self.copy.write("broker/core/sum.c", PROJECT["broker/core/sum.c"] + "/* more */\n")
        self.copy.ninja(program.targets)
        self.assertEqual(self.judge.find("broker/core/sum.c", PROJECT["broker/core/sum.c"], PROJECT["broker/core/sum.c"]), (mutate.SURVIVED, None))

    def test_how_long_it_took_is_known_to_the_next_run(self):
        self.play("return a - b;")
        took_s, known = self.judge.programs["core"].took_s, os.path.join(self.directory, "known.json")
        self.assertGreater(took_s, 0)
        self.judge.save(known)
        other = mutate.Judge(self.copy, self.said.append)
        self.assertIsNone(other.programs["core"].took_s)
        other.load(known)
        self.assertEqual(other.programs["core"].took_s, took_s)
        self.assertEqual(other.programs["core"].found, {"broker/core": 1})

    def run_of(self, **options):
        """Returns the output and the counts of a run, with the journal in the test's directory."""
        given = {"journal": os.path.join(self.directory, "journal"), "again": False, "quick": False, "sanitized": False, **options}
        run, out = mutate.Run(argparse.Namespace(**given), self.judge, self.compiler), io.StringIO()
        with redirect_stdout(out):
            for item in mutate.candidates(self.copy, self.compiler, ["broker/core"]):
                if item[2].text.strip() in ("return a - b;", "return a - 2;"):
                    run.one(*item)
        return run.counts.get("broker/core", {}), out.getvalue()

    def test_what_the_journal_knows_is_not_judged_again(self):
        whole = {mutate.FOUND: 1, mutate.SURVIVED: 1}
        counts, said = self.run_of()
        self.assertEqual(counts, whole)
        with mock.patch.object(mutate, "play", side_effect=AssertionError("judged")):
            self.assertEqual(self.run_of(), (counts, said))
        with mock.patch.object(mutate, "play", return_value=(mutate.FOUND, "other")):
            self.assertEqual(self.run_of(again=True)[0], {mutate.FOUND: 1})

    def test_what_survived_quick_is_judged_by_the_others_later(self):
        asked = []

        def play(judge, *_):
            asked.append(judge.is_python_only)
            return mutate.SURVIVED, None

        with mock.patch.object(mutate, "play", play):
            self.run_of(quick=True)
            self.run_of(quick=True)
            self.run_of()
            self.run_of()
        self.assertEqual(asked, [False, False, True, True])

    def test_what_is_equivalent_is_counted_apart(self):
        self.run_of()
        path = os.path.join(self.directory, "journal")
        key = next(entry["id"] for entry in journal.Journal(path).entries.values() if entry["outcome"] == mutate.SURVIVED)
        journal.Journal(path).add({"id": key, "equivalent": "nobody calls it"})
        self.assertEqual(self.run_of()[0], {mutate.FOUND: 1, mutate.EQUIVALENT: 1})

    def test_only_at_a_place(self):
        found = list(mutate.candidates(self.copy, self.compiler, ["broker/core"]))
        place = f"broker/core/sum.c:{found[-1][2].line + 1} {found[-1][2].kind}"
        self.assertEqual([item[2].kind for item in mutate.only_at(found, [place])], [found[-1][2].kind])
        self.assertEqual(list(mutate.only_at(found, None)), found)

    def test_the_copy_follows_the_tree(self):
        path = os.path.join(self.directory, "source", "broker/core/sum.c")
        with open(path, "a", encoding="ascii") as file:
            file.write("/* more */\n")
        os.unlink(os.path.join(self.directory, "source", "meson_options.txt"))
        self.copy.update()
        self.assertIn("/* more */", self.source())
        self.assertFalse(os.path.exists(os.path.join(self.copy.root, "meson_options.txt")))

    def test_the_report(self):
        out = io.StringIO()
        with redirect_stdout(out):
            status = mutate.report({"broker/core": {mutate.FOUND: 3, mutate.SURVIVED: 1, mutate.SAME: 2}}, ["--- a/x"], 7)
        self.assertEqual(status, 1)
        self.assertIn("seed 7: 4 changes, 3 found, 1 survived; 2 changed no object file, 0 were no C", out.getvalue())
        self.assertIn("--- a/x", out.getvalue())
        with redirect_stdout(io.StringIO()):
            self.assertEqual(mutate.report({"broker/core": {mutate.FOUND: 3}}, [], 7), 0)

    def test_every_folder_has_its_turn_and_then_large_ones_have_more(self):
        def all_of(**sizes):
            return [(f"{folder}/a.c", [""], changes.Change(0, "drop", str(n))) for folder, size in sizes.items() for n in range(size)]

        order = [path for path, _, _ in mutate.spread(all_of(x=400, y=3, z=100), 1)]
        self.assertEqual(sorted(order[:9]), ["x/a.c"] * 3 + ["y/a.c"] * 3 + ["z/a.c"] * 3)
        self.assertEqual(order[:39].count("x/a.c"), mutate.EACH)
        self.assertGreater(order[39:139].count("x/a.c"), 2 * order[39:139].count("z/a.c"))
        self.assertEqual(mutate.spread(all_of(x=9), 5), mutate.spread(list(reversed(all_of(x=9))), 5))
        self.assertNotEqual(mutate.spread(all_of(x=9), 5), mutate.spread(all_of(x=9), 6))

    def test_a_change_is_known_again_where_it_has_moved(self):
        lines = ["a();", "b();", "a();"]
        first, last = [journal.identity("x.c", lines, changes.Change(line, "drop", "(void)0;")) for line in (0, 2)]
        self.assertNotEqual(first, last)
        self.assertEqual(journal.identity("x.c", ["new();", *lines], changes.Change(3, "drop", "(void)0;")), last)
        self.assertNotEqual(journal.identity("y.c", lines, changes.Change(0, "drop", "(void)0;")), first)


if __name__ == "__main__":
    harness.main()
