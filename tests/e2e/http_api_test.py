"""http_api_test.py: the OpenAPI document matches the server: it lists exactly the paths of the code's table. Each operation is
called with the document's own example, and with bodies that the document's schema forbids."""
import json
import os
import re
import subprocess

import harness
from harness import Case
from http_document import Document

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
WHICH, LEASED = {"queue": "q", "key": "k"}, {"id": "1", "token": "1-4096"}
# The required arguments of each operation of a commit.
OPS = {"schedule": {"queue": "q", "in": "1h"}, "cancel": WHICH, "move": {**WHICH, "in": "1h"}, "ack": LEASED, "nack": LEASED, "extend": LEASED, "release": LEASED,
       "requeue": WHICH, "drop": WHICH, "redact": {**WHICH, "reason": "x"}, "policy": {"queue": "q", "lease": "1m"}, "pause": {"queue": "q"}, "resume": {"queue": "q"},
       "purge": {"queue": "q"}, "delete": {"queue": "q"}, "recur": {"queue": "q", "name": "n", "cron": "0 9 * * *"},
       **{f"recur_{what}": {"queue": "q", "name": "n"} for what in ("pause", "resume", "trigger", "delete")}}


def table():
    """Returns the (method, path) pairs of http_routes.c, with names replaced by *."""
    with open(os.path.join(ROOT, "broker/http/http_routes.c"), encoding="utf-8") as file:
        return set(re.findall(r'\{HEAD_([A-Z]+), "(v1/[^"]+)"', file.read()))


class Interface(Document):
    def test_it_is_31_and_has_every_path_of_the_code(self):
        self.assertEqual(self.document["openapi"], "3.1.0")
        with open(os.path.join(ROOT, "broker/http/openapi.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), self.document)
        named = {(method, re.sub(r"\{[a-z]+\}", "*", path[1:])) for method, path, _ in self.operations()}
        self.assertEqual(named, table())
        names = [operation["operationId"] for _, _, operation in self.operations()]
        self.assertEqual(len(names), len(set(names)))

    def test_each_operation_takes_its_example(self):
        """Each operation succeeds, or is refused because of the state, but never as malformed."""
        for method, path, operation in self.operations():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            with self.subTest(operation["operationId"]):
                status, answer = self.http.ask(method, self.filled(path), body)
                content = self.response(operation, status)["content"]
                self.assertIn(self.http.headers["Content-Type"], content, answer)
                if "application/json" in content:
                    self.assertIsNone(self.wrong_with(answer, content["application/json"]["schema"]))
                self.assertIn(status, (200, 201, 404, 409), answer)
                if status >= 400:
                    self.assertLessEqual({"type", "status", "code", "detail"}, set(answer))

    def variants(self, schema, example):
        """Returns (body, is valid): values at the limits of the schema, one member at a time, and invalid values."""
        for one in self.schema(schema).get("oneOf", [schema]):
            one = self.schema(one)
            if one.get("type") == "array":
                continue  # skip arrays, because the members of an array's elements decide whether it is valid
            start = example if set(one.get("required", [])) <= set(example) else {"tasks": [LEASED if "token" in example else {"key": "k"}]}
            for wrong in ({**start, "nobody_knows": 1}, {**start, "": 1}, [], 7, "x", None):
                yield wrong, False
            for name, member in one["properties"].items():
                if name in ("ops", "tasks"):
                    yield from self.within(name, self.schema(member["items"]), example)
                    continue
                good, bad = self.values(name, member)
                for values, is_good in ((good, True), (bad, False)):
                    for value in values:
                        yield self.with_one(start, name, value), is_good

    def within(self, name, schema, example):
        """Adds required members of an operation of a commit, or of a task to settle."""
        for wrong in ([], 7, "x", [7], [[]], [{"nobody_knows": 1}], *([[{}], [{"schedule": {}, "ack": {}}]] if name == "ops" else [])):
            yield {name: wrong}, False
        if name == "ops":
            for op, of in schema["properties"].items():
                yield from (({name: [{op: body}]}, is_good) for body, is_good in self.variants(of, OPS[op]) if body is not None)
        else:
            yield from (({name: [body]}, is_good) for body, is_good in self.variants(schema, LEASED if "token" in example else {"key": "k"}))

    def test_each_body_that_the_schema_allows_is_read_and_each_other_is_refused(self):
        count = [0, 0]
        for method, path, operation in self.operations():
            schema, example = self.body(operation)
            for body, is_good in self.variants(schema, example) if schema else ():
                with self.subTest(operation["operationId"], body=body):
                    status, answer = self.http.ask(method, self.filled(path), json.dumps(body))
                    codes = {result.get("code") for result in answer.get("results", ())} | {answer.get("code")}
                    self.assertEqual(bool(codes & {"invalid", "too_large"}), not is_good, answer)
                    self.assertIn(str(status), operation["responses"])
                    count[is_good] += 1
        print(f"# {count[True]} bodies as the document says, {count[False]} that are not")

    def test_the_operations_of_a_commit_are_all_called(self):
        operations = self.document["components"]["schemas"]["Commit"]["properties"]["ops"]["items"]["properties"]
        self.assertEqual(set(operations), set(OPS))

    def test_each_parameter_that_is_wrong_is_refused(self):
        for method, path, operation in self.operations():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            queries = ["nobody=1"] + [f"{parameter['name']}=%21" for parameter in operation.get("parameters", [])
                                      if parameter.get("in") == "query" and parameter["name"] not in ("prefix", "queue")]
            if path.endswith("openapi.json"):
                continue
            for query in queries:
                with self.subTest(operation["operationId"], query=query):
                    self.assertEqual(self.http.ask(method, f"{self.filled(path)}?{query}", body)[0], 400)

    def test_two_known_names_with_a_blank_between_are_no_known_name(self):
        for query in ("position%20from=1", "position+from=1", "from+to=1", "+=1", "=1", "position%20=1"):
            with self.subTest(query):
                answer = self.http.ask("GET", f"/v1/audit?{query}")
                self.assertEqual((answer[0], "is unknown" in answer[1]["detail"]), (400, True), answer)
        for body in ({"queue": "q", "in": "1h", "key priority": 1}, {"queue": "q", "in": "1h", "": 1}):
            with self.subTest(body=body):
                self.assertEqual(self.http.ask("POST", "/v1/tasks", body)[0], 400)

    def test_a_parameter_that_comes_twice_is_refused(self):
        answer = self.http.ask("GET", "/v1/audit?position=1&position=2")
        self.assertEqual((answer[0], answer[1]["detail"]), (400, "parameter position is given twice"))


class Guide(Case):
    def test_the_commands_of_docs_http(self):
        """Runs the commands of the page in order, like a reader. Each must succeed."""
        with open(os.path.join(ROOT, "docs/HTTP.md"), encoding="utf-8") as file:
            blocks = re.findall(r"```sh\n(.*?)```", file.read(), re.S)
        self.assertGreater(len(blocks), 3)
        script = "set -euo pipefail\ncurl() { command curl --fail-with-body -sS -m 20 \"$@\"; echo; }\n" + "".join(blocks)
        done = subprocess.run(["bash", "-c", script.replace("http://127.0.0.1:7272", f"http://127.0.0.1:{self.broker.port}")],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('"result":"acked"', done.stdout)


if __name__ == "__main__":
    harness.main(watches_locks=True)
