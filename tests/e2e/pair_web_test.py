"""pair_web_test.py: HTTP and JSON at a pair. A follower names the primary. A request with a used Idempotency-Key gets the
first reply from each node, also after a failover (ONCE-1).
"""
import http.client
import subprocess
import threading
import time

import harness
import pair
from harness import Case
from http_client import Http

CLIENTS = 4
EACH = 30
PATIENCE_S = 40
TROUBLES = (OSError, http.client.HTTPException, ValueError)


def place(brokers, number):
    """Places an order under its key at whichever node serves, and retries until it is answered. Returns the task's id."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        for broker in brokers:
            web = Http(broker.port)
            try:
                status, answer = web.ask("POST", "/v1/queues/orders/tasks", {"in": "1h", "json": {"n": number}}, {"Idempotency-Key": f"place-{number}"})
                if status == 201:
                    return answer["id"]
                assert status in (421, 503, 500), (status, answer)
            except TROUBLES:
                pass  # the node is dying: the outcome is unknown
            finally:
                web.close()
        time.sleep(0.05)
    raise AssertionError(f"place-{number} was never answered")


class Keys:
    """Clients that place orders under their own keys while a broker is killed."""

    def __init__(self, brokers):
        self.brokers, self.ids, self.errors = brokers, {}, []
        self.threads = [threading.Thread(target=self.work, args=(first,)) for first in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def work(self, first):
        try:
            for number in range(first, CLIENTS * EACH, CLIENTS):
                self.ids[number] = place(self.brokers, number)
        except AssertionError as error:
            self.errors.append(error)

    def some(self):
        harness.wait_until("some are placed", lambda: len(self.ids) >= CLIENTS * EACH // 4, 20)

    def finish(self, test, broker):
        """Checks that each key made one task, and that a repeated request returns that task."""
        for thread in self.threads:
            thread.join(2 * PATIENCE_S)
        test.assertEqual(self.errors, [])
        web = Http(broker.port)
        test.addCleanup(web.close)
        status, answer = web.ask("GET", "/v1/queues/orders/tasks?limit=1000")
        test.assertEqual(status, 200, answer)
        test.assertEqual({task["id"] for task in answer["tasks"]}, set(self.ids.values()))
        test.assertEqual(len(self.ids), CLIENTS * EACH)
        for number in range(0, CLIENTS * EACH, 7):
            test.assertEqual(place([broker], number), self.ids[number])
        status, answer = web.ask("POST", "/v1/queues/orders/tasks", {"in": "2h"}, {"Idempotency-Key": "place-0"})
        test.assertEqual((status, answer["code"]), (422, "key_reused"))
        test.assertEqual(len(web.ask("GET", "/v1/queues/orders/tasks?limit=1000")[1]["tasks"]), CLIENTS * EACH)


class Alone(Case):
    """ONCE-1"""

    def test_a_key_means_one_task_over_kill_9(self):
        keys = Keys([self.broker])
        keys.some()
        self.broker.kill()
        self.broker.start()
        keys.finish(self, self.broker)


class Pair(pair.Case):
    """ONCE-1"""

    def test_a_follower_says_where_the_primary_is(self):
        self.start_pair()
        web = Http(self.b.port)
        self.addCleanup(web.close)
        key = {"Idempotency-Key": "at-the-follower"}
        for method, path, body, headers in (("POST", "/v1/queues/orders/tasks", {"in": "1h"}, {}), ("POST", "/v1/queues/orders/tasks", {"in": "1h"}, key),
                                            ("DELETE", "/v1/queues/orders/tasks/k", None, {}), ("POST", "/v1/queues/orders/lease", {"wait": "5s"}, {}),
                                            ("POST", "/v1/ack", {"id": "1", "token": "1-1"}, {}), ("PATCH", "/v1/queues/orders", {"lease": "1m"}, {})):
            with self.subTest(f"{method} {path}", **headers):
                status, answer = web.ask(method, path, body, headers)
                self.assertEqual((status, answer["code"], answer["primary"]), (421, "not_primary", self.a.url), answer)
        self.assertEqual(web.ask("GET", "/v1/status")[0], 200)
        self.assertEqual(self.pending(self.a), 0)
        self.each_operation(web)

    def each_operation(self, web):
        """A follower answers 421 to exactly those operations for which the OpenAPI document lists it (http_codes_test.py)."""
        for path, item in web.ask("GET", "/v1/openapi.json")[1]["paths"].items():
            for method, operation in item.items():
                if method == "parameters":
                    continue
                example = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
                with self.subTest(operation["operationId"]):
                    status, answer = web.ask(method.upper(), path.format(queue="orders", key="k", name="n", id="7"), example)
                    self.assertEqual(status == 421, "421" in operation["responses"], answer)
                    if status == 421:
                        self.assertEqual((answer["code"], answer["primary"]), ("not_primary", self.a.url))

    def test_a_key_means_one_task_over_a_failover(self):
        self.start_pair()
        keys = Keys([self.a, self.b])
        keys.some()
        self.a.kill()
        self.wait_role(self.b, "leading")
        keys.finish(self, self.b)


class HandsOver(pair.Case):
    arguments = ("--failover-after", "60s", "--solo-after", "60s")

    def test_a_primary_that_hands_over_sends_a_client_to_the_other_node(self):
        """The primary answers 421 with the other node's address, and not 503: 503 would make the client wait for a second
        (Retry-After), but the other node serves after about 40 ms.
        """
        self.start_pair()
        web = Http(self.a.port)
        self.assertEqual(web.ask("POST", "/v1/queues/orders/tasks", {"in": "1h"})[0], 201)  # at the first write, the gateway creates its own producer
        web.close()
        self.freeze(self.b)
        demote = subprocess.Popen(self.a.command("demote", "--wait", "30s"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(demote.wait)

        def ask():
            """Requests that arrive before the operator's command takes effect wait for the frozen follower."""
            web = Http(self.a.port)
            web.connection.timeout = 1
            try:
                status, answer = web.ask("POST", "/v1/queues/orders/tasks", {"in": "1h"})
                return answer if status == 421 else None
            except TimeoutError:
                return None
            finally:
                web.close()
        answer = self.wait_for("it hands over", ask)
        self.assertEqual((answer["code"], answer["primary"]), ("not_primary", self.b.url))
        self.thaw(self.b)
        self.wait_role(self.b, "leading")
        self.assertEqual(demote.wait(harness.ANSWER_WAIT_S), 0)


if __name__ == "__main__":
    harness.main()
