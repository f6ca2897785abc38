"""input_test.py: bad input gets a code and a message; nothing is lost, nothing crashes, and other clients are not affected."""
import json
import os
import subprocess

import harness
from harness import Case, find_program


class BadInput(Case):
    def setUp(self):
        super().setUp()
        self.broker.one("schedule", "other", "--key", "neighbour", "--in", "1h", "--body", "unharmed")

    def tearDown(self):
        if self.broker.is_running():
            self.assertEqual(self.broker.one("get", "other", "neighbour")["body"], "unharmed")
        super().tearDown()

    def refuse(self, line, code=None):
        """Sends an invalid NDJSON line between two valid ones. Only the invalid one must be refused, with a code and a
        message.
        """
        text = line if isinstance(line, bytes) else json.dumps(line).encode()
        good = b'{"queue":"other","delay_ms":3600000}'
        answer = self.broker.tarry("schedule", "--from", "-", stdin=good + b"\n" + text + b"\n" + good + b"\n")
        self.assertEqual(answer.status, 1, answer)
        self.assertEqual([o["line"] for o in answer.objects], [1, 2, 3], answer)
        self.assertEqual([o["result"] for o in answer.objects], ["scheduled", "error", "scheduled"], answer)
        item = answer.objects[1]
        self.assertTrue(item["code"] and len(item["message"]) > 5, item)
        if code:
            self.assertEqual(item["code"], code, item)

    def test_queue_names(self):
        for name in ("", "x" * 129, "a\nb", "a\u0000b", "a\u007fb", "\u001b[31m"):
            self.refuse({"queue": name, "delay_ms": 1})
        self.refuse({"queue": 7, "delay_ms": 1})
        self.refuse({"delay_ms": 1})

    def test_keys(self):
        self.refuse({"queue": "q", "key": "k" * 256, "delay_ms": 1})
        self.refuse({"queue": "q", "key": "ü" * 128, "delay_ms": 1})
        self.refuse({"queue": "q", "key": "a\tb", "delay_ms": 1})
        self.refuse({"queue": "q", "key": "a\u0000b", "delay_ms": 1})
        self.refuse({"queue": "q", "key": ["k"], "delay_ms": 1})
        self.broker.one("schedule", "q", "--key", "k" * 255, "--in", "1h")
        self.assertEqual(self.broker.one("get", "q", "k" * 255)["key"], "k" * 255)

    def test_keys_that_are_not_utf8(self):
        self.refuse(b'{"queue":"q","key":"\xff\xfe","delay_ms":1}')
        answer = self.broker.tarry(*["schedule", "q", "--in", "1h", "--key"], os.fsdecode(b"\xff\xfe"))
        self.assertIn(answer.status, (1, 2))

    def test_times(self):
        for when in ({"delay_ms": -5}, {"delay_ms": 10 * 366 * 86_400_000}, {"delay_ms": 2 ** 63}, {"delay_ms": 2 ** 64 - 1},
                     {"delay_ms": 2 ** 70}, {"delay_ms": 1.5}, {"delay_ms": "1s"}, {"due_ms": 2 ** 63 - 1},
                     {"due_ms": 2 ** 64 - 1}, {"due_ms": -1}, {"delay_ms": 1, "due_ms": 5}, {"delay_ms": None}, {}):
            self.refuse({"queue": "q", **when})

    def test_expiry_priority_attributes(self):
        for extra in ({"expires_ms": 2 ** 64 - 1}, {"expires_ms": -1}, {"priority": 10}, {"priority": -1}, {"priority": "high"},
                      {"attributes": ["a"]}, {"attributes": {"a": 1}}, {"attributes": {"a" * 200: "b"}},
                      {"attributes": {"a": "b" * 5000}}, {"attributes": {f"n{i}": "v" for i in range(65)}},
                      {"on_conflict": "shrug"}, {"body": 5}, {"body_base64": "@@@"}, {"body": "x", "body_base64": "eA=="}):
            self.refuse({"queue": "q", "delay_ms": 1, **extra})

    def test_payload_over_the_limit(self):
        self.refuse({"queue": "q", "delay_ms": 1, "body": "x" * 1_048_577}, "too_large")
        self.refuse({"queue": "q", "delay_ms": 1, "body": "x" * 20_000_000})

    def test_broken_ndjson(self):
        for line in (b"", b"{", b"[]", b"null", b'"text"', b"\xff\xff\xff", b"{}" b"{}", b'{"queue":"q","delay_ms":1}x',
                     b"{" * 5000, b'{"queue":"q","queue":"r","delay_ms":1}'[:20], b"\x00\x01\x02"):
            if line:
                self.refuse(line)

    def test_arguments_that_make_no_sense_are_usage(self):
        for arguments in ([], ["conjure"], ["schedule"], ["schedule", "q"], ["schedule", "q", "--in", "soon"],
                          ["schedule", "q", "--in", "5"], ["schedule", "q", "--in", "1s", "--due-ms", "5"],
                          ["schedule", "q", "--in", "99999999999999999999d"], ["schedule", "q", "--at", "yesterday"],
                          ["schedule", "q", "--at", "2031-02-30T00:00:00Z"], ["schedule", "q", "--in", "1s", "--colour", "red"],
                          ["schedule", "q", "--in"], ["schedule", "q", "--in", "1s", "--priority", "ten"],
                          ["schedule", "q", "--in", "1s", "--expires", "0s"], ["consume", "q", "--lease", "0s"],
                          ["extend", "1", "1-1", "--lease", "0s"], ["queue", "pause", "q", "--for", "0s"],
                          ["cancel"], ["cancel", "q"], ["move", "q", "k"], ["consume"], ["consume", "q", "--count", "-1"],
                          ["consume", "q", "--ack", "maybe"], ["ack", "1"], ["get"], ["list"], ["list", "q", "--state", "odd"],
                          ["queue"], ["queue", "explode", "q"], ["dead", "list"], ["dead", "requeue", "q"],
                          ["stats", "--timeout", "soon"], ["verify"]):
            answer = self.broker.tarry(*arguments)
            self.assertEqual(answer.status, 2, f"{arguments}: {answer}")
            self.assertTrue(answer.err.strip(), f"{arguments}: no sentence")
            self.assertEqual(answer.out, "", f"{arguments}: chatter on standard output")

    def test_an_unreadable_body_file(self):
        answer = self.broker.tarry("schedule", "q", "--in", "1s", "--body-file", self.path("nowhere"))
        self.assertIn(answer.status, (1, 2))
        self.assertIn("nowhere", answer.err)
        answer = self.broker.tarry("schedule", "q", "--in", "1s", "--body-file", self.directory)
        self.assertIn(answer.status, (1, 2))

    def test_cancel_and_settle_of_nonsense(self):
        for arguments in (["cancel", "--id", "x"], ["cancel", "--id", "-1"], ["cancel", "--id", "99999999999999999999999"],
                          ["get", "--id", "0x10"], ["ack", "1", "1"], ["ack", "1", "-"]):
            self.assertIn(self.broker.tarry(*arguments).status, (1, 2), arguments)


class ToolContract(Case):
    def test_options_may_stand_anywhere(self):
        tool = find_program("tarry")
        url = self.broker.url
        for command in ([tool, "--broker", url, "--json", "schedule", "q", "--in", "1h"],
                        [tool, "schedule", "--json", "q", "--broker", url, "--in", "1h"],
                        [tool, "schedule", "q", "--in", "1h", "--timeout", "5s", "--broker", url, "--json"]):
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=20)
            self.assertEqual(json.loads(done.stdout)["result"], "scheduled")

    def test_the_broker_is_found_by_environment(self):
        done = subprocess.run([find_program("tarry"), "--json", "schedule", "q", "--in", "1h"], stdout=subprocess.PIPE,
                              check=True, timeout=20, env={**os.environ, "TARRY_BROKER": self.broker.url})
        self.assertEqual(json.loads(done.stdout)["result"], "scheduled")

    def test_several_brokers_are_tried_in_turn(self):
        done = subprocess.run([find_program("tarry"), "--json", "schedule", "q", "--in", "1h", "--broker",
                               f"ws://127.0.0.1:1,{self.broker.url}"], stdout=subprocess.PIPE, check=True, timeout=20)
        self.assertEqual(json.loads(done.stdout)["result"], "scheduled")

    def test_nobody_there_is_status_three_after_the_timeout(self):
        self.broker.kill()
        for arguments in (["stats"], ["schedule", "q", "--in", "1s"], ["consume", "q", "--count", 1], ["get", "q", "k"]):
            before = harness.now_ms()
            answer = self.broker.refused(*arguments, "--timeout", "700ms", status=3)
            took_ms = harness.now_ms() - before
            self.assertTrue(answer.err.strip())
            self.assertGreaterEqual(took_ms, 650, arguments)  # the limit is shorter than a test waits for a reply
        self.broker.start()

    def test_help_is_complete_for_every_command(self):
        tool = find_program("tarry")
        names = [["schedule"], ["cancel"], ["move"], ["consume"], ["ack"], ["nack"], ["extend"], ["release"], ["get"], ["list"],
                 ["queues"], ["queue"], ["dead"], ["stats"], ["verify"]]
        top = subprocess.run([tool, "--help"], stdout=subprocess.PIPE, check=True, text=True, timeout=10).stdout
        for name in names:
            self.assertIn(name[0], top)
            done = subprocess.run([tool, *name, "--help"], stdout=subprocess.PIPE, check=False, text=True, timeout=10)
            self.assertEqual(done.returncode, 0, name)
            self.assertIn("xample", done.stdout, name)


class NoCreation(Case):
    arguments = ("--create-queues", "no")

    def test_an_unknown_queue_is_refused_when_creation_is_off(self):
        answer = self.broker.refused("schedule", "q", "--in", "1s")
        self.assertIn("no_such_queue", answer.out)


if __name__ == "__main__":
    harness.main()
