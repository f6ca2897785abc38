"""options_test.py: options and policies have one table. Everything that is generated from it, or repeats it, must agree with
it.
"""
import json
import os
import re
import subprocess
import tempfile
import unittest

import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGES = os.path.join(ROOT, "docs", "man", "pages.py")


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def made(*words):
    """Runs pages.py. Returns (exit status, text, error message)."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as out:
        done = run("python3", PAGES, *words, out.name)
        return done.returncode, out.read(), done.stderr


class Options(unittest.TestCase):
    def test_the_defaults_of_the_sample_are_those_of_the_broker(self):
        tarryd = harness.find_program("tarryd")
        status, sample, said = made("ini", tarryd)
        self.assertEqual(status, 0, said)
        set_ = re.sub(r"^; ([a-z-]+ = (?:\d\S*|yes|no|exponential|ws://\S+))$", r"\1", sample, flags=re.M)
        self.assertGreater(len(re.findall(r"^[a-z-]+ = ", set_, re.M)), 25)
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            # An option of pairs only; this broker is not in a pair.
            file.write(re.sub(r"^failover-after = .*\n", "", set_, flags=re.M))
            file.flush()
            with_file = run(tarryd, "--config", file.name, "--print-config")
            self.assertEqual((with_file.returncode, with_file.stderr), (0, ""))
            self.assertEqual(with_file.stdout, run(tarryd, "--print-config").stdout)

    def test_a_page_has_each_option_and_each_command_once(self):
        for page, program, line in (("tarryd.8.in", "tarryd", "@option memory"), ("tarry.1.in", "tarry", "@command cancel")):
            with open(os.path.join(ROOT, "docs", "man", page), encoding="utf-8") as file:
                template = file.read()
            for changed, complaint in ((template, ""), (template.replace(line + "\n", ""), f"missing: {line.split()[1]}"),
                                       (template.replace(line, f"{line}\n{line}"), "here twice"), (template.replace(line, line + "x"), "no such")):
                with self.subTest(page=page, complaint=complaint), tempfile.NamedTemporaryFile("w") as file:
                    file.write(changed)
                    file.flush()
                    status, text, said = made("man", file.name, harness.find_program(program))
                    self.assertEqual(status == 0, complaint == "", said)
                    self.assertIn(complaint, said)
                    self.assertEqual("\n.It Fl -memory Ar SIZE\nMemory budget.\nDefault: 256MiB.\n" in text, page == "tarryd.8.in" and status == 0)


class Policy(unittest.TestCase):
    def test_every_face_has_the_fields_of_a_policy(self):
        words = re.findall(r"^  ([a-z_]+)=", run(harness.find_program("tarry"), "queue", "set", "--help").stdout, re.M)
        self.assertGreater(len(words), 6)
        options = re.findall(r"^  --([a-z-]+) [A-Z]+ +new queues:", run(harness.find_program("tarryd"), "--help").stdout, re.M)
        self.assertEqual([name.replace("-", "_") for name in options], words[:len(options)])
        self.assertGreater(len(options), 5)
        with open(os.path.join(ROOT, "broker", "http", "openapi.json"), encoding="utf-8") as file:
            fields = list(json.load(file)["components"]["schemas"]["Policy"]["properties"])
        fields = [name for name in fields if name not in ("queue", "lease_before_due")]  # without lease_before_due, which only the broker itself sets
        self.assertEqual({name.removesuffix("_ms") for name in fields}, set(words))
        fields = [name for name in fields if name + "_ms" not in fields]
        for path, form in (("broker/page/page_queue.js", "policy.{}"), ("client/include/tarry.h", " {}")):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                text = file.read()
            for name in fields:
                with self.subTest(path=path, field=name):
                    self.assertIn(form.format(name), text)


if __name__ == "__main__":
    harness.main()
