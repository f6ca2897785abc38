"""http_api_test.py: the OpenAPI document is what is served: it names each path of the code's table and no other, and each operation is
called with the document's own example, and with bodies that the document's schema forbids."""
import json
import os
import re
import subprocess

import harness
from harness import Case
from http_client import Http

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOREVER = {"follow"}
WRONG = {"string": 7, "integer": "x", "boolean": "x", "array": 7, "object": 7}


def table():
    """(method, path) of http_routes.c, each name a *."""
    with open(os.path.join(ROOT, "broker/http/http_routes.c"), encoding="utf-8") as file:
        return set(re.findall(r'\{HEAD_([A-Z]+), "(v1/[^"]+)"', file.read()))


class Document(Case):
    def setUp(self):
        super().setUp()
        self.http = Http(self.broker.port, harness.tokens.ADMIN)
        _, self.document = self.http.ask("GET", "/v1/openapi.json")
        self.good = [self.http.ask("POST", "/v1/tasks", {"queue": "q", "key": "k", "in": "1h"})[1]]

    def tearDown(self):
        self.http.close()
        super().tearDown()

    def operations(self):
        for path, item in self.document["paths"].items():
            for method, operation in item.items():
                if method != "parameters":
                    yield method.upper(), path, operation

    def schema(self, schema):
        """With references followed."""
        while "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return schema

    def test_it_is_31_and_has_every_path_of_the_code(self):
        self.assertEqual(self.document["openapi"], "3.1.0")
        with open(os.path.join(ROOT, "broker/http/openapi.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), self.document)
        named = {(method, re.sub(r"\{[a-z]+\}", "*", path[1:])) for method, path, _ in self.operations()}
        self.assertEqual(named, table())
        names = [operation["operationId"] for _, _, operation in self.operations()]
        self.assertEqual(len(names), len(set(names)))

    def filled(self, path):
        return path.replace("{queue}", "q").replace("{key}", "k").replace("{id}", self.good[0]["id"])

    def test_each_operation_takes_its_example(self):
        """It is done, or refused for what is there: never as malformed."""
        for method, path, operation in self.operations():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            with self.subTest(operation["operationId"]):
                status, answer = self.http.ask(method, self.filled(path), body)
                said = str(status) if str(status) in operation["responses"] else "default"
                kind = self.http.headers["Content-Type"]
                self.assertIn(kind, operation["responses"][said]["content"], answer)
                self.assertIn(status, (200, 201, 404, 409), answer)
                if status >= 400:
                    self.assertLessEqual({"type", "status", "code", "detail"}, set(answer))

    def members(self, schema):
        schema = self.schema(schema)
        for one in schema.get("oneOf", []):
            if "properties" in self.schema(one):
                schema = self.schema(one)
                break
        return schema.get("properties", {})

    def test_each_body_that_the_schema_forbids_is_refused(self):
        for method, path, operation in self.operations():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if not content:
                continue
            example = content["example"]
            bad = [{**example, "nobody_knows": 1}, {**example, "": 1}, [], 7, "x", None]
            for name, schema in self.members(content["schema"]).items():
                kind = self.schema(schema).get("type")
                if isinstance(kind, str) and kind in WRONG:
                    bad.append({**example, name: WRONG[kind]})
                if "enum" in schema:
                    bad.append({**example, name: "none of them"})
            for body in bad:
                with self.subTest(operation["operationId"], body=body):
                    status, answer = self.http.ask(method, self.filled(path), json.dumps(body))
                    self.assertIn(status, (400, 413), answer)
                    self.assertGreater(len(answer["detail"]), 5)

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


class Guide(Case):
    def test_the_commands_of_docs_http(self):
        """In order, as somebody would who reads; each must succeed."""
        with open(os.path.join(ROOT, "docs/HTTP.md"), encoding="utf-8") as file:
            blocks = re.findall(r"```sh\n(.*?)```", file.read(), re.S)
        self.assertGreater(len(blocks), 3)
        script = "set -euo pipefail\ncurl() { command curl --fail-with-body -sS -m 20 \"$@\"; echo; }\n" + "".join(blocks)
        done = subprocess.run(["bash", "-c", script.replace("http://127.0.0.1:7272", f"http://127.0.0.1:{self.broker.port}")],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('"result":"acked"', done.stdout)


if __name__ == "__main__":
    harness.main()
