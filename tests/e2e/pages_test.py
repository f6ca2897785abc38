"""pages_test.py: commands, options and paths in the documentation exist, in command blocks and in text. (guide_test.py runs the
blocks.)"""
import functools
import glob
import json
import os
import re
import subprocess
import unittest

import harness

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")


def said_commands():
    """Returns (page, program, arguments) of every tarry, tarryd and ./dev command in the documentation."""
    pages = [os.path.join(ROOT, name) for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "broker/README.md", "packaging/README.md",
                                                   "packaging/prometheus/README.md", "examples/README.md")]
    for path in pages + sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        fenced = re.compile(r"^```\w*\n(.*?)^```$", re.M | re.S)
        lines = [line.partition(" # ")[0] for block in fenced.findall(text) if "\u250c" not in block for line in block.splitlines()]
        for code in lines + re.findall(r"`([^`]+)`", fenced.sub("", text)):
            for program, rest in re.findall(r"(?:^|(?<=[\s(;&|!]))(tarryd?|\./dev) +([^|;&)#>]*)", code):
                yield os.path.relpath(path, ROOT), program, rest.split()


class Words(unittest.TestCase):
    def test_every_command_that_the_pages_name_is_one(self):
        """Checks that each documented command is in its program's help, and each option in the command's help. Of a ./dev
        command, only the first word is checked.
        """
        programs = {"tarry": harness.find_program("tarry"), "tarryd": harness.find_program("tarryd"), "./dev": os.path.join(ROOT, "dev")}

        @functools.lru_cache(maxsize=None)
        def help_of(program, command=""):
            done = subprocess.run([programs[program], *command.split(), "--help"], stdout=subprocess.PIPE, text=True, check=True)
            return done.stdout

        commands = {program: re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", help_of(program), re.M) for program in programs}
        seen = 0
        for page, program, words in said_commands():
            named = next((name for name in (" ".join(words[:2]), *words[:1]) if name in commands[program]), "")
            options = [word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", word)]
            begins = any(name.startswith(" ".join(words) + " ") for name in commands[program])  # "`tarry token`" stands for all its subcommands
            with self.subTest(f"{page}: {program} {' '.join(words)}"):
                self.assertTrue(program == "tarryd" or named or options or begins or not words, "there is no such command")
                known = help_of(program) + (help_of(program, named) if named else "")
                self.assertEqual([option for option in options if not re.search(re.escape(option) + "(?![a-z-])", known)], [])
            seen += 1
        self.assertGreater(seen, 150)

    def test_every_path_of_the_docs_is_the_units_directory(self):
        """Checks that in documentation, man pages and help texts, every path below /var/lib/tarry is in the units' data
        directory.
        """
        host_of_units = os.path.join(ROOT, "packaging")
        directories = set()
        for unit in ("tarry.service",):
            with open(os.path.join(host_of_units, unit), encoding="utf-8") as file:
                directories.update(re.findall(r"^ExecStart=.* --data (\S+)", file.read(), re.M))
        self.assertEqual(len(directories), 1, "the units run on one directory")
        directory = directories.pop()
        texts = {}
        for program in ("tarry", "tarryd"):
            done = subprocess.run([harness.find_program(program), "--help"], stdout=subprocess.PIPE, text=True, check=True)
            texts[program] = done.stdout
        commands = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", texts["tarry"], re.M)
        self.assertGreater(len(commands), 20, texts["tarry"])
        for command in commands:
            done = subprocess.run([harness.find_program("tarry"), *command.split(), "--help"], stdout=subprocess.PIPE, text=True, check=False)
            texts["tarry " + command] = done.stdout
        for page in ("README.md", "docs/OPERATING.md", "docs/man/tarry.1.in", "docs/man/tarryd.8.in", "packaging/README.md"):
            with open(os.path.join(ROOT, page), encoding="utf-8") as file:
                texts[page] = file.read()
        for where, text in texts.items():
            for path in re.findall(r"(?<=--data )/var/lib/tarry[^\s`);,\"]*|(?<=verify )/var/lib/tarry[^\s`);,\"]*", text):
                self.assertIn(path.rstrip(":."), (directory,), where)


class Capacity(harness.Case):
    """The sizes in docs/CAPACITY.md match a real broker's; they do not depend on the machine."""
    tasks = 5000

    def appended(self):
        return self.broker.queue_stats(None)["appended"]

    def test_bytes_of_log_and_index(self):
        with open(os.path.join(ROOT, "docs", "CAPACITY.md"), encoding="utf-8") as file:
            page = file.read()
        scheduling, lease, ack = map(int, re.search(r"`r · seconds · \((\d+) \+ p \+ (\d+) \+ (\d+)\)`", page).groups())
        index = int(re.search(r"^\| index \| `n · (\d+)`", page, re.M).group(1))
        key, body = 16, 32

        def schedule(queue, first_ms, apart_ms):
            self.broker.ok("schedule", "--from", "-", stdin="".join(
                json.dumps({"queue": queue, "key": f"{number * 0x9e3779b97f4a7c15 % 2**64:0{key}x}", "delay_ms": first_ms + number * apart_ms,
                            "body": "x" * body}) + "\n" for number in range(self.tasks)))

        schedule("later", 86400000, 77777)
        self.assertEqual(self.broker.stop(), 0)  # a clean stop writes all applied frames into the index
        blocks = os.stat(os.path.join(self.broker.data, "index", "data.mdb")).st_blocks * 512
        self.assertGreater(blocks / self.tasks, index / 2)  # the index contains LMDB pages that the last commits freed; their number varies
        self.assertLess(blocks / self.tasks, index * 2)     # with few tasks: 160 to 230 bytes per task were measured
        self.broker.start()
        before = self.appended()
        schedule("soon", 0, 0)
        scheduled = self.appended()
        self.assertEqual(len(self.broker.ok("consume", "soon", "--count", self.tasks)), self.tasks)
        settled = self.appended()
        self.assertAlmostEqual((scheduled - before) / self.tasks, scheduling + key + body, delta=scheduling / 5)
        took = (settled - scheduled) / self.tasks  # the number of leases and acks per record depends on timing
        self.assertGreater(took, (lease + ack) / 2)
        self.assertLess(took, (lease + ack) * 2)


if __name__ == "__main__":
    harness.main()
