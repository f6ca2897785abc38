"""http_test.py: HTTP and JSON (docs/HTTP.md): the life of tasks, idempotency keys across a crash, long polls, broken
connections, and refusals. Every operation of the OpenAPI document: http_api_test.py."""
import base64
import gzip
import json
import re
import socket
import threading
import time

import harness
import tokens
from harness import Case
from http_client import Http, raw, request


def zstd(blocks):
    """Makes a Zstandard frame by hand (RFC 8878) of blocks: raw, or one byte repeated."""
    frame = bytes.fromhex("28b52ffd0038")  # frame header with a window of 128 KiB
    for i, (what, count) in enumerate(blocks):
        size = len(what) if count == 1 else count
        frame += (size << 3 | (count > 1) << 1 | (i + 1 == len(blocks))).to_bytes(3, "little") + what
    return frame


class Web(Case):
    def setUp(self):
        super().setUp()
        self.http = Http(self.broker.port)

    def tearDown(self):
        self.http.close()
        super().tearDown()

    def good(self, method, path, body=None, status=200, **more):
        got, answer = self.http.ask(method, path, body, **more)
        self.assertEqual(got, status, answer)
        return answer

    def refusal(self, status, code, method, path, body=None, **more):
        got, answer = self.http.ask(method, path, body, **more)
        self.assertEqual((got, answer["code"]), (status, code), answer)
        self.assertIn("problem+json", self.http.headers["Content-Type"])
        return answer

    def lease(self, queue="q", **body):
        return self.good("POST", f"/v1/queues/{queue}/lease", body)["tasks"]


class Tasks(Web):
    def test_a_task_from_schedule_to_ack(self):
        made = self.good("POST", "/v1/queues/q/tasks", {"key": "order-1", "in": "0", "json": {"a": [1, None]}, "attributes": {"x": "y"}}, 201)
        self.assertEqual((made["result"], made["key"]), ("scheduled", "order-1"))
        (task,) = self.lease(wait="10s", max=5)
        self.assertEqual((task["key"], task["json"], task["attempt"]), ("order-1", {"a": [1, None]}, 1))
        settled = self.good("POST", "/v1/ack", {"id": task["id"], "token": task["token"]})
        self.assertEqual(settled["result"], "acked")
        self.assertEqual(self.good("GET", "/v1/queues/q/tasks/order-1")["state"], "acked")
        again = self.good("POST", "/v1/ack", {"id": task["id"], "token": task["token"]})  # the task is already in the state that the client wants
        self.assertEqual((again["result"], again["code"]), ("acked", "stale_token"))
        self.assertEqual(self.refusal(409, "stale_token", "POST", "/v1/extend", {"id": task["id"], "token": task["token"]})["result"]["result"], "acked")
        self.assertEqual(self.broker.one("get", "q", "order-1")["state"], "acked")

    def test_payloads_say_what_they_are(self):
        for member, value in (("body", "grün\n"), ("body_base64", base64.b64encode(b"\xff\0").decode()), ("json", "text")):
            self.good("POST", "/v1/tasks", {"queue": "p", "key": member, "at": "2035-01-01T00:00:00Z", member: value}, 201)
            self.assertEqual(self.good("GET", f"/v1/queues/p/tasks/{member}")[member], value)
        self.broker.ok("schedule", "p", "--key", "tool", "--in", "1h", "--body", "{}")
        self.assertEqual(self.good("GET", "/v1/queues/p/tasks/tool")["body"], "{}")

    def test_properties_stay_with_the_task(self):
        value = base64.b64encode(bytes(range(256)) * 2).decode()
        self.good("POST", "/v1/tasks", {"queue": "props", "key": "k", "in": "0", "body": "b", "properties": value}, 201)
        (task,) = self.lease(queue="props", wait="10s")
        self.assertEqual((task["body"], task["properties"]), ("b", value))
        self.good("POST", "/v1/nack", {"id": task["id"], "token": task["token"], "dead": True})
        self.assertEqual(self.good("GET", f"/v1/tasks/{task['id']}")["properties"], value)
        self.good("POST", "/v1/queues/props/dead/requeue", {"id": task["id"]})
        self.assertEqual(self.lease(queue="props", wait="10s")[0]["properties"], value)
        self.refusal(413, "too_large", "POST", "/v1/tasks",
                     {"queue": "props", "in": "0", "properties": base64.b64encode(bytes(65537)).decode()})
        self.refusal(400, "invalid", "POST", "/v1/tasks", {"queue": "props", "in": "0", "properties": "?"})

    def test_cancel_move_list_and_count_by_time(self):
        for hour in (1, 2, 3):
            self.good("POST", "/v1/queues/t/tasks", {"key": f"k{hour}", "at": f"2035-01-01T0{hour}:00:00Z"}, 201)
        moved = self.good("PATCH", "/v1/queues/t/tasks/k3", {"at": "2035-01-01T00:30:00Z"})
        self.assertEqual(moved["result"], "moved")
        listed = self.good("GET", "/v1/queues/t/tasks?due_to=2035-01-01T02:00:00Z&limit=1")
        self.assertEqual([task["key"] for task in listed["tasks"]], ["k3"])
        rest = self.good("GET", f"/v1/queues/t/tasks?due_to=2035-01-01T02:00:00Z&cursor={listed['next']}")
        self.assertEqual([task["key"] for task in rest["tasks"]], ["k1"])
        counted = self.good("GET", "/v1/queues/t/count?due_from=2035-01-01T01:00:00Z")
        self.assertEqual((counted["count"], counted["complete"]), (2, True))
        cancelled = self.good("DELETE", "/v1/queues/t/tasks/k2")
        self.assertEqual(cancelled["result"], "cancelled")
        self.assertEqual({"count", "job", "left", "session", "lease_deadline"} & set(cancelled), set())  # members that are empty are not in the answer
        self.assertEqual(self.refusal(404, "not_done", "DELETE", "/v1/queues/t/tasks/nobody")["result"]["result"], "unknown")

    def test_a_time_has_the_name_of_what_it_is(self):
        paused = self.good("POST", "/v1/queues/n/pause", {"for": "10m"})
        self.assertIn("paused_until_ms", paused)
        self.assertNotIn("ended_ms", paused)
        self.good("POST", "/v1/queues/n/tasks", {"key": "k", "in": "1h"}, 201)
        self.assertIn("ended_ms", self.good("DELETE", "/v1/queues/n/tasks/k"))
        purged = self.good("POST", "/v1/queues/n/purge", {})
        self.assertEqual((purged["count"], purged["left"]), (0, 0))  # a job's count is present even if it is zero
        self.assertIsInstance(purged.get("position", 1), int)

    def test_the_log_names_a_client_of_http_by_its_user_agent_and_address(self):
        self.http.ask("POST", "/v1/queues/u/tasks", {"key": "k", "in": "1h"}, headers={"User-Agent": "shop/1.2 (\xe4)"})
        self.http.ask("PATCH", "/v1/queues/u/tasks/k", {"in": "2h"}, headers={"User-Agent": "x" * 500})
        self.http.ask("DELETE", "/v1/queues/u/tasks/k")
        made, moved, gone = self.broker.ok("history", "u", "k")
        self.assertEqual((made["client"], len(moved["client"]), gone["client"]), ("http: shop/1.2 (?)", 128, "http"))
        self.assertRegex(made["peer"], r"^127\.0\.0\.1:\d+$")

    def test_an_atomic_commit_acks_and_schedules(self):
        self.good("POST", "/v1/queues/c/tasks", {"in": "0"}, 201)
        (task,) = self.lease("c", wait="10s")
        lease = {"id": task["id"], "token": task["token"]}
        done = self.good("POST", "/v1/commit", {"ops": [{"ack": lease}, {"schedule": {"queue": "c", "key": "next", "in": "1h"}}]})
        self.assertEqual([result["result"] for result in done["results"]], ["acked", "scheduled"])
        again = self.good("POST", "/v1/commit", {"ops": [{"ack": lease}, {"schedule": {"queue": "c", "key": "third", "in": "1h"}}]})
        self.assertTrue(again["aborted"])
        self.assertEqual([result["code"] for result in again["results"]], ["stale_token", "aborted"])
        self.refusal(404, "not_done", "GET", "/v1/queues/c/tasks/third")

    def test_nack_extend_release_and_dead_letters(self):
        self.good("PATCH", "/v1/queues/d", {"max_attempts": 1, "lease": "1m"})
        self.good("POST", "/v1/queues/d/tasks", [{"key": "a", "in": "0"}, {"key": "b", "in": "0"}])
        tasks = {task["key"]: {"id": task["id"], "token": task["token"]} for task in self.lease("d", max=2, wait="10s")}
        if len(tasks) < 2:
            tasks.update((task["key"], {"id": task["id"], "token": task["token"]}) for task in self.lease("d", max=2, wait="10s"))
        extended = self.good("POST", "/v1/extend", {**tasks["a"], "lease": "5m"})
        self.assertEqual((extended["result"], {"ended_ms", "since_ms"} & set(extended)), ("extended", set()))
        self.assertEqual(self.good("POST", "/v1/release", tasks["a"])["result"], "released")
        self.assertEqual(self.good("POST", "/v1/nack", {"tasks": [{**tasks["b"], "reason": "no"}]})["results"][0]["result"], "buried")
        (dead,) = self.good("GET", "/v1/queues/d/dead")["tasks"]
        self.assertEqual((dead["key"], dead["reason"]), ("b", "no"))
        self.assertEqual(self.good("POST", "/v1/queues/d/dead/requeue", {"key": "b"})["result"], "requeued")
        (again,) = [task for task in self.lease("d", max=9, wait="10s") if task["key"] == "a"] or self.lease("d", max=9, wait="10s")
        self.assertEqual(again["attempt"], 1)  # after a release no attempt is counted

    def test_a_nack_may_say_when_the_task_comes_again(self):
        """The nack has delay_ms, or delay with a unit; 0 is a delay too. Without one the queue's backoff applies."""
        self.good("PATCH", "/v1/queues/later", {"backoff": "fixed", "backoff_min": "20m", "backoff_max": "20m", "backoff_jitter": 0})
        for key, words, least_ms, most_ms in (("ms", {"delay_ms": 3_600_000}, 3_000_000, 4_000_000), ("unit", {"delay": "1h"}, 3_000_000, 4_000_000),
                                              ("none", {}, 1_000_000, 1_300_000), ("zero", {"delay_ms": 0}, -60_000, 60_000)):
            with self.subTest(key):
                self.good("POST", "/v1/queues/later/tasks", {"key": key, "in": "0"}, 201)
                (task,) = self.lease("later", max=1, wait="10s")
                self.good("POST", "/v1/nack", {"id": task["id"], "token": task["token"], **words})
                delay_ms = self.good("GET", f"/v1/tasks/{task['id']}")["due_ms"] - harness.now_ms()
                self.assertTrue(least_ms < delay_ms < most_ms, delay_ms)

    def test_json_lines_of_any_number_with_a_line_for_each(self):
        lines = "\n".join(json.dumps({"queue": "n", "key": f"k{i}", "in": "1h"}) if i != 7 else "{nonsense" for i in range(2500))
        got = self.good("POST", "/v1/tasks", lines, kind="application/x-ndjson")
        self.assertEqual(sorted(line["line"] for line in got), list(range(1, 2501)))
        self.assertEqual([line["line"] for line in got if line.get("result") == "error"], [8])
        self.assertEqual(self.good("GET", "/v1/queues/n/count")["count"], 2499)

    def test_what_happened_and_what_happens(self):
        made = self.good("POST", "/v1/queues/h/tasks", {"key": "k", "in": "1h"}, 201)
        self.good("DELETE", f"/v1/tasks/{made['id']}")
        for path in ("/v1/queues/h/tasks/k/history", f"/v1/tasks/{made['id']}/history"):
            told = self.good("GET", path)
            self.assertEqual([line["kind"] for line in told], ["scheduled", "cancelled"])
            self.assertEqual(told, self.broker.ok("history", "h", "k"))  # `tarry history --json` prints the same lines as /v1
        with socket.create_connection(("127.0.0.1", self.broker.port), timeout=30) as follower:
            follower.sendall(b"GET /v1/audit?follow=true HTTP/1.1\r\nHost: x\r\n\r\n")
            got = b""
            while b"\"cancelled\"" not in got:
                got += follower.recv(65536)
            self.good("POST", "/v1/queues/h/tasks", {"key": "news-of-now", "in": "1h"}, 201)
            while b"news-of-now" not in got:
                got += follower.recv(65536)

    def test_packed_bodies_and_bombs(self):
        """F-20."""
        body = gzip.compress(json.dumps({"queue": "z", "in": "1h"}).encode())
        text = json.dumps({"queue": "z", "in": "1h"}).encode()
        frame = zstd([(text[:9], 1), (text[9:], 1), (b" ", 100_000)])
        for coding, packed, bomb in (("gzip", body, gzip.compress(b" " * (64 << 20))), ("zstd", frame, zstd([(b" ", 1 << 17)] * 512))):
            coded = {"Content-Encoding": coding}
            self.good("POST", "/v1/tasks", packed, 201, headers=coded)
            self.refusal(413, "too_large", "POST", "/v1/tasks", bomb, headers=coded)
            self.refusal(400, "invalid", "POST", "/v1/tasks", packed[:-4], headers=coded)
            self.refusal(400, "invalid", "POST", "/v1/tasks", text, headers=coded)
        self.assertEqual(self.good("GET", "/v1/queues/z/count")["count"], 2)
        self.refusal(415, "unsupported_media_type", "POST", "/v1/tasks", body, headers={"Content-Encoding": "br"})


class Once(Web):
    def test_a_key_holds_over_a_crash(self):
        body, key = [{"key": "a", "in": "1h"}, {"in": "2h"}], {"Idempotency-Key": "order 1"}
        first = self.good("POST", "/v1/queues/o/tasks", body, headers=key)
        self.assertEqual(self.good("POST", "/v1/queues/o/tasks", body, headers=key)["results"], first["results"])
        self.broker.kill()
        self.broker.start()
        self.http.close()
        self.http = Http(self.broker.port)
        self.assertEqual(self.good("POST", "/v1/queues/o/tasks", body, headers=key)["results"], first["results"])
        self.assertEqual(self.good("GET", "/v1/queues/o/count")["count"], 2)
        self.assertIn("already used", self.refusal(422, "key_reused", "POST", "/v1/queues/o/tasks", body[:1], headers=key)["detail"])

    def test_many_keys_at_once_and_each_once(self):
        """More keys than the broker remembers per producer."""
        answers = {}

        def post(number):
            http = Http(self.broker.port)
            answers[number] = (503, None)
            while answers[number][0] == 503:  # busy: the log's next segment may not be ready
                answers[number] = http.ask("POST", "/v1/queues/m/tasks", {"in": "1h"}, {"Idempotency-Key": f"k{number % 80}"})
            http.close()
        threads = [threading.Thread(target=post, args=(number,)) for number in range(160)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({status for status, _ in answers.values()}, {201})
        for number in range(80):
            self.assertEqual(answers[number][1]["id"], answers[number + 80][1]["id"])
        self.assertEqual(self.good("GET", "/v1/queues/m/count")["count"], 80)


class Waiting(Web):
    def test_a_long_poll_is_woken_and_never_early(self):
        made = self.good("POST", "/v1/queues/w/tasks", {"in": "700ms"}, 201)
        (task,) = self.lease("w", wait="20s")
        self.assertGreaterEqual(task["lease_deadline_ms"] - 30000, made["due_ms"])
        self.assertEqual(self.lease("w", wait="50ms"), [])

    def test_a_waiting_poll_costs_no_record(self):
        self.lease("r")
        before = self.good("GET", "/v1/stats")["broker"]["appended"]
        self.assertEqual(self.lease("r", wait="500ms"), [])
        self.assertEqual(self.lease("r", wait="500ms"), [])
        self.assertLessEqual(self.good("GET", "/v1/stats")["broker"]["appended"] - before, 1000)  # the waiting polls append no record; only the subscription has appended some

    def test_many_wait_and_each_task_comes_once(self):
        got, lock = [], threading.Lock()

        def wait():
            http = Http(self.broker.port)
            _, answer = http.ask("POST", "/v1/queues/many/lease", {"wait": "20s", "max": 1})
            with lock:
                got.extend(task["id"] for task in answer["tasks"])
            http.close()
        threads = [threading.Thread(target=wait) for _ in range(40)]
        for thread in threads:
            thread.start()
        self.good("POST", "/v1/queues/many/tasks", [{"in": "200ms"} for _ in range(40)])
        for thread in threads:
            thread.join()
        self.assertEqual((len(got), len(set(got))), (40, 40))

    def test_who_hangs_up_before_costs_no_attempt(self):
        for _ in range(3):
            peer = socket.create_connection(("127.0.0.1", self.broker.port))
            body = b'{"wait":"20s"}'
            peer.sendall(b"POST /v1/queues/g/lease HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            time.sleep(0.05)
            peer.close()
        self.good("POST", "/v1/queues/g/tasks", {"in": "0"}, 201)
        (task,) = self.lease("g", wait="20s")
        self.assertEqual((task["attempt"], task["deliveries"]), (1, 1))

    def test_a_lease_outlives_its_connection_and_the_broker(self):
        self.good("PATCH", "/v1/queues/l", {"lease": "10m"})
        self.good("POST", "/v1/queues/l/tasks", {"in": "0"}, 201)
        (task,) = self.lease("l", wait="20s")
        self.http.close()
        self.broker.kill()
        self.broker.start()
        self.http = Http(self.broker.port)
        time.sleep(2.5)  # waits for longer than a consumer may take to claim its leases after a restart
        self.assertEqual(self.lease("l"), [])
        self.assertEqual(self.good("POST", "/v1/ack", {"id": task["id"], "token": task["token"]})["result"], "acked")

    def test_a_queue_is_shared_with_the_tools_consumer(self):
        consumer = self.broker.consume("s")
        self.good("POST", "/v1/queues/s/tasks", {"in": "0"}, 201)
        self.assertEqual(consumer.next()["queue"], "s")


class Heads(Web):
    """Sends heads that a proxy might parse differently."""
    GOOD = b"GET /v1/queues HTTP/1.1\r\nHost: x\r\n"
    BAD = {
        "a blank before the colon": b"Content-Length : 5\r\n", "two lengths": b"Content-Length: 5\r\nContent-Length: 5\r\n",
        "a length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "an underscore": b"Content_Length: 5\r\n",
        "obs-fold": b"X: a\r\n b\r\n", "bare LF": b"X: a\nTransfer-Encoding: chunked\r\n", "bare CR": b"X: a\rb\r\n", "NUL": b"X: \0\r\n",
        "two hosts": b"Host: y\r\n", "another coding": b"Transfer-Encoding: gzip, chunked\r\n", "a signed length": b"Content-Length: +5\r\n",
        "a length of two": b"Content-Length: 5, 5\r\n", "a tab in a name": b"Content\tLength: 5\r\n", "no name": b": x\r\n"}

    def test_what_could_be_smuggled_ends_the_connection(self):
        """F-20."""
        for name, lines in self.BAD.items():
            with self.subTest(name):
                got = raw(self.broker.port, self.GOOD + lines + b"\r\n" + self.GOOD + b"\r\n", answers=2)
                self.assertEqual(got.count(b"HTTP/1.1 "), 1, got)
                self.assertIn(got.split(b" ")[1], (b"400", b"501"))
                self.assertIn(b"Connection: close", got)

    def test_pipelined_requests_are_answered_in_order(self):
        data = b"".join(b"POST /v1/queues/p/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
                        for body in (b'{"key":"k%d","in":"1h"}' % i for i in range(50)))
        got = raw(self.broker.port, data, answers=50)
        self.assertEqual([int(part.split(b'"')[0]) for part in got.split(b'"key":"k')[1:]], list(range(50)))

    def test_64_pipelined_requests_of_all_kinds(self):
        """The broker executes several commits at a time. Each request sees the effects of all earlier ones, and the replies
        have the order of the requests.
        """
        def ask(method, path, body, *fields):
            return request(method, path, json.dumps(body).encode(), *fields)
        requests, expected = [], []
        for i in range(8):
            task, key = f"/v1/queues/mix/tasks/k{i}", f"k{i}"
            for status, one in (
                    (201, ask("POST", "/v1/queues/mix/tasks", {"key": key, "in": "1h"})),
                    (409, ask("POST", "/v1/tasks", {"queue": "mix", "key": key, "in": "1h"})),  # refused, because a live task has the key
                    (200, ask("PATCH", task, {"in": "2h"})),
                    (400, ask("POST", "/v1/tasks", {"queue": "mix", "when": "1h"})),  # refused, because the member is unknown
                    (200, request("GET", task, b"", "Content-Length: 0")),
                    (200, request("DELETE", task, b"", "Content-Length: 0")),
                    (404, request("DELETE", f"/v1/queues/mix/tasks/none{i}", b"", "Content-Length: 0")),
                    (201, ask("POST", "/v1/queues/mix/tasks", {"key": "once", "in": "1h"}, "Idempotency-Key: 1"))):
                requests.append(one)
                expected.append(status)
        got = raw(self.broker.port, b"".join(requests), answers=64)
        self.assertEqual([int(status) for status in re.findall(rb"HTTP/1.1 (\d+)", got)], expected)
        answers = got.split(b"HTTP/1.1 ")[1:]
        for i in range(8):
            self.assertIn(b'"key":"k%d"' % i, answers[8 * i])
            self.assertIn(b'"state":"pending"', answers[8 * i + 4])
        self.assertEqual(len({re.search(rb'"id":"(\d+)"', answer).group(1) for answer in answers[7::8]}), 1)

    def test_a_pipelined_commit_does_not_overtake_one_that_needs_stored_tasks(self):
        self.good("POST", "/v1/queues/cold/tasks", [{"key": f"c{i}", "in": "100h"} for i in range(8)])
        self.assertEqual(self.broker.stop(), 0)
        self.broker.start()  # the tasks are only on the disk now
        for i in range(8):
            body = b'[{"key":"c%d","in":"1h"},{"key":"n%d","in":"1h"}]' % (i, i)
            got = raw(self.broker.port, request("POST", "/v1/queues/cold/tasks", body) + request("DELETE", f"/v1/queues/cold/tasks/n{i}"), answers=2)
            self.assertEqual(re.findall(rb'"result":"(\w+)"', got), [b"exists", b"scheduled", b"cancelled"], got)

    def test_a_half_closed_client_gets_the_results_of_all_its_lines(self):
        """As `nc -N` does."""
        body = b"".join(b'{"queue":"nc","key":"k%d","in":"1h"}\n' % i for i in range(2500))
        with socket.create_connection(("127.0.0.1", self.broker.port), timeout=30) as peer:
            peer.sendall(b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            peer.shutdown(socket.SHUT_WR)
            got = b"".join(iter(lambda: peer.recv(65536), b""))
        self.assertEqual(got.count(b'"result":"scheduled"'), 2500)
        self.assertTrue(got.endswith(b"\r\n0\r\n\r\n"), got[-99:])

    def test_a_byte_at_a_time_and_chunked(self):
        body = b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" \
               b"5\r\n{\"que\r\n14\r\nue\":\"q\",\"in\":\"1h\"}  \r\n0\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.broker.port), timeout=10) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(len(body)):
                peer.sendall(body[i:i + 1])
            self.assertIn(b"201 Created", peer.recv(65536))
        for wrong in (b"5;x=1\n", b"5 \r\n", b"+5\r\n", b"\r\n", b"5\n", b"fffffffff\r\n"):
            head = body.split(b"\r\n\r\n", 1)[0] + b"\r\n\r\n"
            self.assertIn(b" 400 ", raw(self.broker.port, head + wrong + b"hello\r\n0\r\n\r\n"))

    def test_chunk_extensions_and_trailers_are_passed_over(self):
        """RFC 9112, 7.1.1: a recipient must ignore unknown extensions. A trailer is no header: it sets no token and no length."""
        request = b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" \
                  b"18;a=b;c=\"d;e\"\r\n{\"queue\":\"q\",\"in\":\"1h\"} \r\n0;last\r\nX-Sum: 1\r\nContent-Length: 5\r\nAuthorization: Bearer no\r\n\r\n"
        got = raw(self.broker.port, request + self.GOOD + b"\r\n", answers=2)
        self.assertEqual(re.findall(rb"HTTP/1.1 (\d+)", got), [b"201", b"200"])
        long = request.replace(b"a=b", b"a=" + b"b" * 4096)
        self.assertIn(b"larger than 4 KiB", raw(self.broker.port, long))

    def test_a_name_that_a_client_takes_out_of_a_path_is_refused(self):
        """curl and browsers request /v1/tasks/1 instead of /v1/queues/../tasks/1: another task."""
        for queue, key, what in (("..", "1", "queue name"), (".", "1", "queue name"), ("q", "..", "key"), ("q", ".", "key")):
            problem = self.refusal(400, "invalid", "POST", "/v1/tasks", {"queue": queue, "key": key, "in": "1h"})
            self.assertIn(f"{what} must not be . or .., because an HTTP path cannot contain them", problem["detail"])
        status, answer = self.http.ask("POST", "/v1/commit", {"ops": [{"policy": {"queue": "..", "lease": "1m"}}]})
        self.assertIn("an HTTP path cannot contain them", json.dumps(answer), status)
        self.good("POST", "/v1/tasks", {"queue": "...", "key": ".a", "in": "1h"}, 201)

    def test_no_name_ends_a_line(self):
        """A reply has no byte that ends a line, also for readers that treat U+0085, U+2028 or U+2029 as a line end."""
        body = "a\x85b\u2028c\u2029d"
        self.good("POST", "/v1/queues/l/tasks", {"key": "k\u2028", "in": "1h", "body": body}, 201)
        text = raw(self.broker.port, b"GET /v1/queues/l/tasks/k%E2%80%A8 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").partition(b"\r\n\r\n")[2].decode()
        self.assertEqual((json.loads(text)["body"], len(text.splitlines())), (body, 1))

    def test_pages_on_the_same_connection(self):
        got = raw(self.broker.port, self.GOOD + b"\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", answers=2)
        self.assertTrue(got.endswith(b"ok\n"), got)

    def test_web_pages_may_not(self):
        got = raw(self.broker.port, self.GOOD + b"Origin: https://evil.example\r\n\r\n")
        self.assertIn(b" 403 ", got)
        self.refusal(415, "unsupported_media_type", "POST", "/v1/tasks", '{"queue":"q","in":"1h"}', kind="text/plain")

    def test_paths_and_methods_that_are_none(self):
        self.refusal(404, "not_found", "GET", "/v1/nothing")
        self.refusal(405, "method_not_allowed", "PUT", "/v1/tasks", {})
        self.refusal(400, "invalid", "GET", "/v1/queues/%zz")
        self.refusal(400, "invalid", "GET", "/v1/queues/q/tasks?color=red")
        self.refusal(400, "invalid", "GET", "/v1/queues/q/tasks?due=1")  # "ate" is the end of a parameter's name
        self.refusal(400, "invalid", "GET", "/v1/queues/q/tasks?ate=ready")  # an ambiguous suffix of a parameter's name


class Access(Web):
    def make_broker(self, *arguments, **more):
        path = self.path("tokens")
        harness.make_private(path, tokens.FIRST_LINE + tokens.row("shop", "produce", "queue=shop.") + tokens.row("work", "consume"))
        return super().make_broker("--tokens", path, *arguments, **more)

    def test_tokens_and_roles(self):
        self.http.token = tokens.text_of("shop")
        self.good("POST", "/v1/queues/shop.a/tasks", {"in": "0"}, 201)
        self.refusal(403, "denied", "POST", "/v1/queues/other/tasks", {"in": "0"})
        self.refusal(403, "denied", "POST", "/v1/queues/shop.a/lease", {})
        self.assertEqual(self.http.ask("GET", "/metrics")[0], 403)  # each path needs its own role, also on a connection that was allowed other paths
        self.http.close()
        self.http = Http(self.broker.port, tokens.text_of("work"))
        self.assertEqual(len(self.lease("shop.a", wait="10s")), 1)
        self.refusal(403, "denied", "POST", "/v1/queues/shop.a/tasks", {"in": "0"})
        self.http.token = "tarry_nobodys"
        got, answer = self.http.ask("GET", "/v1/queues")
        self.assertEqual(got, 401, answer)


if __name__ == "__main__":
    harness.main()
