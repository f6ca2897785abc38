"""reserved_test.py: no client may use the broker's own queues, `tarry.…`, by any protocol (docs/ACCESS.md). The broker's own
requests stay separate, even if a principal has the same name as a component of the broker. Old receipts in these queues are
deleted.
"""
import json
import os
import time
import unittest

import harness
import pair
import tokens
import wire
from beanstalk import Client
from harness import make_private, wait_until
from http_client import Http
from passing import Passing
from principals import Access
from target import Target, make_secret
from tokens import row
from wire import AUDIT, CALENDAR, COMMIT, DENIED, GET, LIST, OK, QUEUES, STATS, SUBSCRIBE, commit, decode, number, results, schedule

ONCE = "tarry.once"
DAY_S = 24 * 3600
RULE = "names begin with \"tarry.\""
ALL = "produce,consume,read,operate,admin,peer"


class Web(Access):
    def web(self, name, port=None):
        http = Http(port or self.broker.port, tokens.text_of(name))
        self.addCleanup(http.close)
        return http

    def beanstalk_port(self):
        return next(int(url.rsplit(":", 1)[1]) for url in self.broker.ready["urls"].split() if url.startswith("beanstalk://"))

    def post_once(self, http, key, queue="pay.close", name="order-1"):
        return http.ask("POST", f"/v1/queues/{queue}/tasks", {"key": name, "in": "1h"}, {"Idempotency-Key": key})

    def receipts(self):
        """Returns the number of receipts, from the statistics."""
        _, stats = self.web("all").ask("GET", "/v1/stats")
        queue = next((queue for queue in stats["queues"] if queue["name"] == ONCE), None)
        return sum(queue.get(name, 0) for name in ("pending", "ready", "in_flight")) if queue else 0

    def scheduled(self, queue):
        """Returns (id, principal) of the queue's last scheduled task, from the audit."""
        _, lines = self.web("all").ask("GET", "/v1/audit")
        found = [(int(line["id"]), line.get("principal")) for line in lines if line.get("kind") == "scheduled" and line["queue"] == queue]
        return found[-1]


class Doors(Web):
    rows = (row("all", ALL), row("mine", "produce,consume,read,operate,admin", "queue=tarry.", "queue=x"))

    def test_no_operation_and_no_question_names_one(self):
        self.assertEqual(self.post_once(self.web("all"), "a")[0], 201)
        task = self.scheduled(ONCE)[0]
        named, by_id = [(2, ONCE), (3, "k")], [(1, task)]
        for name in ("all", "mine"):
            rpc = self.of(name)
            ops = [schedule(ONCE), schedule("tarry.other"), [(9, [(1, ONCE), (2, [(7, "https://example.net/x")]), (3, "push")])], [(10, [(1, ONCE), (2, 1)])],
                   [(11, [(1, ONCE)])], [(13, [(1, ONCE)])], [(8, [(2, [(2, ONCE)]), (3, 1)])], [(12, [(1, [(2, ONCE)]), (2, "curious"), (3, 1)])]]
            for ref in (named, by_id):
                ops += [[(2, [(1, ref)])], [(3, [(1, ref), (2, [(2, 0)])])], [(8, [(2, ref)])], [(12, [(1, ref), (2, "curious")])]]
            ops += [[(number_of, [(1, task), (2, [(1, 1), (2, 8)])])] for number_of in (4, 5, 6, 7)]
            code, reply = rpc.ask(COMMIT, commit(rpc.hello(), 1, ops))
            self.assertEqual(code, OK)
            for op, result in zip(ops, results(reply), strict=True):
                with self.subTest(name=name, op=op):
                    self.assertEqual(number(result, 1), DENIED, result)
                    said = result[12][-1].decode()
                    self.assertTrue(RULE in said or "have no task with this id" in said, said)
            for body, fields in ((SUBSCRIBE, [(1, ONCE)]), (SUBSCRIBE, [(1, "x"), (1, ONCE)]), (LIST, [(1, ONCE)]), (LIST, [(1, ONCE), (4, 8)]), (GET, [(1, named)]),
                                 (GET, [(1, by_id)])):
                with self.subTest(name=name, body=body, fields=fields):
                    self.assertEqual(rpc.ask(body, fields)[0], DENIED, rpc.sentence)
        self.assertEqual(self.of("all").ask(GET, [(1, by_id)])[0], DENIED)
        self.assertEqual(self.receipts(), 1, "it is as it was")

    def test_numbers_and_the_audit_are_seen(self):
        self.assertEqual(self.post_once(self.web("all"), "a")[0], 201)
        rpc = self.of("all")
        self.assertIn(ONCE.encode(), [decode(queue)[1][-1] for queue in decode(rpc.ask(QUEUES, [])[1])[1]])
        self.assertEqual(rpc.ask(STATS, [(1, ONCE)])[0], OK)
        self.assertEqual(rpc.ask(CALENDAR, [(1, ONCE), (3, 60000), (4, 1)])[0], OK)
        self.assertEqual(rpc.ask(AUDIT, [])[0], OK)
        self.assertEqual((self.scheduled(ONCE)[1], self.scheduled("pay.close")[1]), ("(tarryd)", "all"), "their principals")
        self.assertEqual(self.of("mine").ask(STATS, [(1, ONCE)])[0], OK)

    def test_not_by_http(self):
        http = self.web("all")
        self.assertEqual(self.post_once(http, "a")[0], 201)
        task = self.scheduled(ONCE)[0]
        for method, path, body in (
                ("POST", f"/v1/queues/{ONCE}/tasks", {"in": "1h"}), ("POST", "/v1/tasks", {"queue": ONCE, "in": "1h"}), ("GET", f"/v1/queues/{ONCE}/tasks", None),
                ("GET", f"/v1/queues/{ONCE}/tasks/k", None), ("GET", f"/v1/tasks/{task}", None), ("DELETE", f"/v1/tasks/{task}", None), ("DELETE", f"/v1/queues/{ONCE}/tasks/k", None),
                ("PATCH", f"/v1/tasks/{task}", {"in": "0"}), ("PATCH", f"/v1/queues/{ONCE}/tasks/k", {"in": "0"}), ("GET", f"/v1/queues/{ONCE}/dead", None),
                ("POST", f"/v1/queues/{ONCE}/lease", {"max": 1}), ("POST", "/v1/lease", {"queues": ["x", ONCE], "max": 1}), ("PATCH", f"/v1/queues/{ONCE}", {"lease": "1s"}),
                ("PATCH", f"/v1/queues/{ONCE}", {"push": "https://example.net/x"}), ("DELETE", f"/v1/queues/{ONCE}", None), ("POST", f"/v1/queues/{ONCE}/pause", None),
                ("POST", f"/v1/queues/{ONCE}/resume", None), ("POST", f"/v1/queues/{ONCE}/purge", None), ("POST", f"/v1/queues/{ONCE}/dead/requeue", {"all": True}),
                ("POST", f"/v1/queues/{ONCE}/dead/drop", {"all": True})):
            with self.subTest(f"{method} {path}"):
                status, answer = http.ask(method, path, body)
                self.assertEqual((status, answer.get("code")), (403, "denied"), answer)
                self.assertIn(RULE, answer["detail"])
        self.assertEqual(self.receipts(), 1, "it is as it was")

    def test_not_by_beanstalkd_s_protocol(self):
        self.broker.stop()
        self.broker.arguments += ["--listen", "beanstalk://127.0.0.1:0"]
        self.broker.listen = "ws://127.0.0.1:0"
        write_loopback = row("all", ALL) + "loopback loopback roles=produce,consume,read,operate\n"
        make_private(self.tokens, tokens.FIRST_LINE + write_loopback)
        self.broker.start()
        self.assertEqual(self.post_once(self.web("all"), "a")[0], 201)
        task = self.scheduled(ONCE)[0]
        with Client(self.beanstalk_port()) as client:
            for line in (f"use {ONCE}", f"watch {ONCE}", f"pause-tube {ONCE} 60", f"stats-tube {ONCE}"):
                self.assertEqual(client.ask(line), b"BAD_FORMAT\r\n", line)
            for line in (f"peek {task}", f"delete {task}", f"reserve-job {task}", f"kick-job {task}", f"stats-job {task}"):
                self.assertIn(client.ask(line).split()[0], (b"INTERNAL_ERROR", b"NOT_FOUND"), line)
        self.assertEqual(self.receipts(), 1, "it is as it was")

    @unittest.skipUnless(os.geteuid() == 0, "the owner of the socket is this user")
    def test_not_by_the_owner_either(self):
        self.broker.stop()
        local = "unix://" + os.path.join(self.directory, "socket")
        self.broker.arguments += ["--listen", local]
        self.broker.start()
        for command in (("schedule", ONCE, "--in", "1h"), ("queue", "pause", ONCE), ("queue", "purge", ONCE), ("queue", "delete", ONCE), ("list", ONCE), ("dead", "list", ONCE)):
            answer = self.broker.refused(*command, "--broker", local, env={"TARRY_TOKEN_FILE": ""})
            self.assertIn(RULE, answer.err, command)


class Receipts(Web):
    rows = (row("all", ALL), row("shop", "produce,read,operate", "queue=pay."), row("evil", "produce,read"))

    def test_a_receipt_that_somebody_else_writes_is_refused(self):
        """A client writes a receipt for another client's request. If the broker accepted it, that other client's request would
        be answered with 201 although its commit never happened.
        """
        shop, evil = self.web("shop"), self.web("evil")
        self.assertEqual(self.post_once(shop, "earlier", name="old")[0], 201)
        status, answer = evil.ask("POST", f"/v1/queues/{ONCE}/tasks", {"key": "0" * 64, "in": "24h", "attributes": {"producer": "1", "sequence": "1", "request": "0"}})
        self.assertEqual(status, 403, answer)
        status, first = self.post_once(shop, "order-1")
        self.assertEqual(status, 201)
        self.assertEqual(self.post_once(shop, "order-1"), (201, first), "the same answer")
        status, task = self.web("all").ask("GET", "/v1/queues/pay.close/tasks/order-1")
        self.assertEqual((status, task["id"]), (200, first["id"]))

    def test_with_queues_that_nobody_may_create(self):
        self.broker.ok("queue", "set", "pay.close", "lease=30s")
        self.broker.stop()
        self.broker.arguments += ["--create-queues", "no"]
        self.broker.start()
        shop = self.web("shop")
        status, first = self.post_once(shop, "order-1")
        self.assertEqual(status, 201, first)
        self.assertEqual(self.post_once(shop, "order-1"), (201, first))
        self.assertEqual(self.post_once(shop, "order-2", queue="pay.other")[0], 404)


class Swept(Web):
    """Receipts are acknowledged, and so deleted, after 24 h. A former defect (SIGSEGV) occurred 60 s after each start of a
    broker with older receipts.
    """

    rows = (row("all", ALL),)

    def wait_swept(self, passing):
        """Waits for a sweep that deletes receipts. A sweep that comes too early deletes none; the next one comes 10 minutes
        later.
        """
        for _ in range(20):
            passing.go_on(600)
            end = time.monotonic() + 3
            while time.monotonic() < end:
                if self.receipts() == 0:
                    return
                time.sleep(0.05)
        self.fail(f"receipts are left: {self.receipts()}")

    def test_a_key_is_forgotten_after_a_day(self):
        passing = Passing(self.path("passed"))
        self.broker.stop()
        self.broker.env.update(passing.env())
        self.broker.start()
        http = self.web("all")
        first = [self.post_once(http, f"key-{n}", name=f"task-{n}")[1]["id"] for n in range(5)]
        self.assertEqual([self.post_once(http, f"key-{n}", name=f"task-{n}")[1]["id"] for n in range(5)], first)
        passing.go_on(DAY_S - 3600)
        self.assertEqual(self.post_once(self.web("all"), "key-0", name="task-0")[1]["id"], first[0], "not before")
        passing.go_on(3600)
        self.wait_swept(passing)
        for life in range(2):
            self.assertEqual(self.broker.stop(), 0)
            self.broker.start()
            self.assertEqual(self.post_once(self.web("all"), f"again-{life}", name=f"again-{life}")[0], 201)
            passing.go_on(DAY_S)
            self.wait_swept(passing)
        self.assertEqual(self.post_once(self.web("all"), "key-0", name="task-0")[0], 409, "the key is free again: the task that is there is in the way")


class Names(Web):
    """A principal may have the same name as a part of the broker."""

    def test_a_principal_may_be_called_as_a_part_of_the_broker(self):
        target = Target()
        self.addCleanup(target.close)
        make_private(self.path("push.secrets"), f"hook {make_secret()}\n")
        self.broker.arguments += ["--push-allow", "127.0.0.0/8", "--push-secrets", self.path("push.secrets"), "--listen", "beanstalk://127.0.0.1:0"]
        named = ("http", "gateway", "push", "tarryd", "page", "broker")
        self.begin(row("shop", "produce,consume,read,operate"), *(row(name, "read") for name in named), "certificate beanstalkd roles=read\n")
        shop = self.web("shop")
        self.assertEqual(shop.ask("GET", "/v1/queues")[0], 200)
        self.assertEqual(self.post_once(shop, "k", queue="a")[0], 201)
        self.assertEqual(shop.ask("POST", "/v1/queues/a/lease", {"max": 1})[0], 200)
        self.broker.ok("queue", "set", "hook", "--push", target.url())
        self.assertEqual(shop.ask("POST", "/v1/queues/hook/tasks", {"key": "now", "in": "0"})[0], 201)
        wait_until("the webhook", lambda: target.requests, 20)
        with Client(self.beanstalk_port()) as client:
            self.assertGreater(client.put(b"x"), 0)
        wait_until("it is acknowledged", lambda: shop.ask("GET", "/v1/queues/hook/tasks/now")[1].get("state") == "acked", 20)
        # A client cannot pretend to be a part of the broker by the name that it claims.
        rpc = self.of("shop")
        for claimed in ("http", "gateway", "push", "(tarryd)"):
            self.assertEqual(rpc.ask_packed(wire.encode([(1, 1), (2, claimed), (wire.HELLO, [])]))[0], DENIED, claimed)


class Nodes(pair.Case):
    """The other node of a pair uses the client name tarryd, and must prove with the pair's key that it is this node."""

    arguments = ("--failover-after", "3s", "--solo-after", "3s", "--segment-size", "1MiB", "--retain-log-size", "0")

    def test_a_node_copies_a_snapshot_from_a_broker_that_knows_a_tarryd(self):
        make_private(self.path("tokens"), tokens.FIRST_LINE + row("tarryd", "read"))
        for broker in self.brokers:
            broker.arguments += ["--tokens", self.path("tokens")]
        self.a.start()
        self.wait_role(self.a, "leading")
        log = os.path.join(self.a.data, "log")
        first = min(name for name in os.listdir(log) if name.endswith(".seg"))
        lines = "".join(json.dumps({"queue": "q", "key": f"k{number}", "delay_ms": 3_600_000, "body": "x" * 200_000}) + "\n" for number in range(14))
        self.a.ok("schedule", "--from", "-", stdin=lines)
        self.a.ok("queue", "purge", "q")
        self.wait_for("its first segment retires", lambda: first not in os.listdir(log))
        self.b.start()
        self.wait_in_sync()
        self.wait_log(self.b, "event=snapshot_taken")


if __name__ == "__main__":
    harness.main()
