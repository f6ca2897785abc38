"""http_codes_test.py: causes each status that the OpenAPI document names for an operation, at each operation, and allows no
other status: without a token, with a wrong role, too fast, too large, twice with one key, too late, for missing or changed
objects. Status 421 of a follower is tested in pair_web_test.py. 500 and 408 are the document's `default`: a disk error ends
the broker (crash/sync_test.py), and a client that sends half a request gets 408 (hostile/).
"""
import collections
import gzip
import re

import harness
import tokens
from http_client import Http, raw
from http_document import Document

ALL = "produce,consume,read,operate,admin"
HEADS = {"505": (b"HTTP/9.9", b""), "501": (b"HTTP/1.1", b"Transfer-Encoding: gzip\r\n"), "417": (b"HTTP/1.1", b"Expect: wonders\r\n"),
         "431": (b"HTTP/1.1", b"".join(b"X-%d: x\r\n" % i for i in range(70))), "405": None}
WRONG_TOKENS_MAX = 40
FAST_MAX = 100
LOST_ZONE = "Asia/Shanghai"  # lost_zone.c
FORGETTING = 200  # number of commits with keys; more producers than the broker keeps for a principal


class Codes(Document):
    def make_broker(self, *arguments, **more):
        path = self.path("tokens")
        harness.make_private(path, tokens.FIRST_LINE + "loopback loopback roles=none\n" + "".join(
            (tokens.row("admin", ALL), tokens.row("eye", "read"), tokens.row("worker", "consume"), tokens.row("slow", ALL, "rate=1"),
             tokens.row("young", ALL, "producers=1"))))
        return super().make_broker("--tokens", path, *arguments, **more)

    def setUp(self):
        super().setUp()
        self.seen = collections.defaultdict(dict)
        self.strict = self.make_broker("--create-queues", "no", data=self.path("strict")).start()
        self.webs = {"strict": Http(self.strict.port, tokens.ADMIN)}

    def tearDown(self):
        for web in self.webs.values():
            web.close()
        super().tearDown()

    def ask(self, who, operation, method, path, body=None, web=None, **more):
        """Sends a request, and checks that the document lists the status for the operation."""
        if who not in self.webs:
            self.webs[who] = Http(self.broker.port, tokens.text_of(who))
        web = web or self.webs[who]
        status, answer = web.ask(method, path, body, **more)
        name = operation["operationId"]
        said = self.response(operation, status)
        self.assertIsNotNone(said, f"{name} answers {status}, which the document does not say: {answer}")
        self.assertIn(web.headers["Content-Type"], said["content"])
        content = said["content"][web.headers["Content-Type"]]
        if "ndjson" not in web.headers["Content-Type"]:
            self.assertIsNone(self.wrong_with(answer, content["schema"]), name)
        if status >= 400:
            self.assertEqual((answer["status"], answer["type"]), (status, f"urn:tarry:code:{answer['code']}"))
            self.assertEqual("Retry-After" in web.headers, status in (429, 503))
        self.seen[name][str(status)] = answer
        return status, answer

    def stage(self, name):
        """Makes a queue for the operation, with one pending task, one leased task, and the arguments that settle it."""
        queue = f"of-{name}"
        made = {key: self.http.ask("POST", f"/v1/queues/{queue}/tasks", {"key": key, "in": when})[1]["id"] for key, when in (("k", "1h"), ("held", "0"))}
        (held,) = self.http.ask("POST", f"/v1/queues/{queue}/lease", {"wait": "30s"})[1]["tasks"]
        return queue, made, {"id": held["id"], "token": held["token"]}

    def test_each_status_of_each_operation_comes_and_no_other(self):
        for number, (method, path, operation) in enumerate(self.operations()):
            with self.subTest(operation["operationId"]):
                self.in_order(method, path, operation)
                self.who_may_not(number, method, path, operation)
                self.as_it_should_not_be(method, path, operation)
        self.forgotten()
        self.without_the_zone()
        for _, _, operation in self.operations():
            named = set(operation["responses"]) - {"default", "421"}
            with self.subTest(operation["operationId"]):
                self.assertEqual(named, set(self.seen[operation["operationId"]]))
        print(f"# {sum(map(len, self.seen.values()))} statuses of {len(self.seen)} operations")

    def in_order(self, method, path, operation):
        """Checks 200 or 201, 404 for a missing object, and 409 for a wrong state."""
        name, (schema, example) = operation["operationId"], self.body(operation)
        queue, made, held = self.stage(name)
        if "{name}" in path:
            self.recurrence(self.http, f"/v1/queues/{queue}/recurrences/k")
        path_of = lambda key, queue=queue: path.format(queue=queue, key=key, name=key, id=made.get(key, "999999"))  # noqa: E731
        is_lease = schema and "token" in example
        for who in ("admin", "strict"):
            self.ask(who, operation, method, path_of("none", f"no-{name}"), example)
        if name in ("schedule", "scheduleIn"):
            for body, kind in ((example, "application/json"), ([example], "application/json"), ('{"queue":"q","in":"1h"}\n', "application/x-ndjson")):
                self.ask("admin", operation, method, path_of("k"), body, kind=kind)
        elif is_lease:
            self.ask("admin", operation, method, path, example)
            self.ask("admin", operation, method, path, {**example, **held})
        elif name in ("stats", "calendar"):
            self.ask("admin", operation, method, f"{path}?queue=none")
        elif name == "deleteQueue":
            self.http.ask("PATCH", "/v1/queues/empty", {"lease": "1m"})
            self.ask("admin", operation, method, path_of("k", "empty"))
        elif name in ("requeue", "drop"):
            self.ask("admin", operation, method, path_of("k"), {"key": "k"})
        if not is_lease:
            self.ask("admin", operation, method, path_of("held"), example)
            self.ask("admin", operation, method, path_of("k"), example)

    def who_may_not(self, number, method, path, operation):
        """Checks 401, then 429; 403; 503 for a client that is too fast."""
        example, path = self.body(operation)[1], self.filled(path)
        web = Http(self.broker.port, "tarry_nobodys")
        web.connection.source_address = (f"127.0.1.{number + 1}", 0)  # failed attempts are counted per address, so each client uses another one
        said = [self.ask("nobody", operation, method, path, example, web)[0] for _ in range(2)]
        while said[-1] == 401 and len(said) < WRONG_TOKENS_MAX:
            said.append(self.ask("nobody", operation, method, path, example, web)[0])
        web.close()
        for who in ("eye", "worker", "slow"):
            self.ask(who, operation, method, path, example)
        for _ in range(FAST_MAX if "503" in operation["responses"] else 3):  # two requests within a second are too fast, unless the machine is slow
            if self.ask("slow", operation, method, path, example)[0] == 503:
                break

    def as_it_should_not_be(self, method, path, operation):
        """Checks the statuses 400, 413 and 415. Also checks 422: an Idempotency-Key that was used for another request."""
        example, filled = self.body(operation)[1], self.filled(path)
        self.ask("admin", operation, method, f"{filled}?nobody=1", example)
        self.ask("admin", operation, method, filled, "{}", headers={"Content-Encoding": "br"})
        self.webs["admin"].close()
        large = b" " * (2 << 20) if method in ("GET", "HEAD") else gzip.compress(b" " * (17 << 20), 1)  # the body of a GET is skipped, up to 1 MiB
        self.ask("admin", operation, method, filled, large, headers={} if method in ("GET", "HEAD") else {"Content-Encoding": "gzip"})
        self.webs["admin"].close()
        if self.has_key(operation):
            key = {"Idempotency-Key": f"twice {operation['operationId']}"}
            self.ask("admin", operation, method, filled, example, headers=key)
            self.ask("admin", operation, method, path.format(queue="another", key="other", name="other", id="7"), self.other(example), headers=key)

    def other(self, example):
        """Returns a body that differs from `example`, for requests whose path names no object."""
        return {**example, "token": "1-1"} if example and "token" in example else {**example, "atomic": False} if example and "ops" in example else \
            {**example, "in": "7h"} if example and "in" in example else example

    def forgotten(self):
        """Checks 410: the broker remembers the replies of a limited number of producers per principal."""
        keyed = [(method, self.filled(path), operation) for method, path, operation in self.operations() if self.has_key(operation)]
        for again in range(2):
            for method, path, operation in keyed:
                with self.subTest(operation["operationId"]):
                    self.ask("young", operation, method, path, self.body(operation)[1], headers={"Idempotency-Key": f"old {operation['operationId']}"})
            for number in range(0 if again else FORGETTING):
                self.webs["young"].ask("POST", "/v1/tasks", {"queue": "q", "in": "1h"}, {"Idempotency-Key": f"new {number}"})

    def recurrence(self, web, path, **more):
        status, answer = web.ask("PUT", path, {"every": "1h", **more})
        self.assertEqual(status, 200, answer)

    def without_the_zone(self):
        """Checks 409 of recurrences: after an update of tzdata that dropped its zone, a recurrence can only be replaced or deleted."""
        broker = self.make_broker(data=self.path("moved")).start()
        web = self.webs["moved"] = Http(broker.port, tokens.ADMIN)
        recurring = [one for one in self.operations() if one[1].startswith("/v1/queues/{queue}/recurrences/{name}")]
        paths = {operation["operationId"]: path.format(queue="q", name=operation["operationId"]) for _, path, operation in recurring}
        for name in paths:
            self.recurrence(web, f"/v1/queues/q/recurrences/{name}", zone=LOST_ZONE)
        web.close()
        broker.env = {**broker.env, "LD_PRELOAD": harness.find_program("liblost_zone.so"), "LOST_ZONE": LOST_ZONE}
        broker.restart()
        said = {}
        for method, _, operation in recurring:
            name = operation["operationId"]
            said[name] = self.ask("moved", operation, method, paths[name], {"every": "2h"} if method == "PUT" else None)[0]
        self.assertEqual(said, {"recurrence": 200, "recur": 200, "recurDelete": 200, "recurPause": 409, "recurResume": 409, "recurTrigger": 409})

    def test_what_is_no_request_of_the_interface(self):
        """Checks the `default` response of each path."""
        for method, path, operation in self.operations():
            for status, head in HEADS.items():
                version, lines = head or (b"HTTP/1.1", b"")
                word = method.encode() if head else b"OPTIONS"
                with self.subTest(operation["operationId"], status=status):
                    self.assertNotIn(status, operation["responses"])
                    said = raw(self.broker.port, word + b" " + self.filled(path).encode() + b" " + version + b"\r\nHost: x\r\n"
                               b"Authorization: Bearer " + tokens.ADMIN.encode() + b"\r\n" + lines + b"\r\n")
                    self.assertEqual(re.findall(rb"^HTTP/1.1 (\d+) .*\r\nContent-Type: (\S+)\r\n", said), [(status.encode(), b"application/problem+json")], said)


if __name__ == "__main__":
    harness.main()
