"""webhooks_options_test.py: the operator's limits for webhooks (`tarryd --push-…`): concurrent requests, timeout of a request,
pause after failures of a target.
"""
import subprocess
import threading
import time

import harness
import in_time
import tokens
import webhooks_test
from frozen import freeze, thaw
from harness import wait_until
from http_client import Http


TIMEOUT_S = 2


class Options(webhooks_test.Pushed):
    def prepare(self):
        self.write_secrets("".join(f"{queue} {self.secret}\n" for queue in ("q", "other", "alone")))
        self.forever = threading.Event()
        self.target.answer = lambda handler, request: self.forever.wait(60)
        self.addCleanup(self.forever.set)

    def under_way(self, *more):
        """Returns how many requests an unresponsive target received before the broker stopped sending, and for which queues."""
        self.broker.arguments += more
        self.broker.restart()
        other = self.make_target()
        other.answer = self.target.answer
        self.push()
        self.push("other", self.target.url("/other"))
        self.push("alone", other.url())
        self.commit([(queue, f"{queue}{i}") for queue in ("q", "other", "alone") for i in range(8)])
        queues = lambda: {queue: (self.health(queue) or {}).get("in_flight", 0) for queue in ("q", "other", "alone")}  # noqa: E731
        return other, queues

    def test_requests_of_a_queue_and_to_a_host(self):
        _, queues = self.under_way("--push-queue-requests", "3", "--push-host-requests", "5")
        wait_until("all that may", lambda: sum(queues().values()) == 8, 30)
        self.assertEqual((queues()["alone"], queues()["q"] + queues()["other"]), (3, 5))
        self.assertEqual({queues()["q"], queues()["other"]}, {2, 3})

    def test_requests_in_all(self):
        """All queues together have a limit of open requests. When a response ends a request, the next request is for a queue
        that has no open one.
        """
        def answer(handler, _request):
            self.forever.wait(60)
            handler.reply(204)
        self.target.answer = answer
        _, queues = self.under_way("--push-requests", "2")
        wait_until("each queue has one, at least", lambda: all(queues().values()), 30)
        self.assertLessEqual(sum(queues().values()), 4)
        self.forever.set()
        wait_until("all are acked", lambda: sum((self.health(queue) or {}).get("acked", 0) for queue in ("q", "other", "alone")) == 24, 60)

    def test_a_file_of_cas_that_never_ends_is_refused(self):
        self.broker.stop()
        self.broker.arguments += ["--push-ca", "/dev/zero"]
        self.assertEqual(self.broker.launch().process.wait(30), 1)
        self.broker.wait_logged("push-ca /dev/zero is not a PEM file of at most 1 MiB")

    def test_how_long_a_request_takes_and_a_rest(self):
        self.broker.arguments += ["--push-timeout", "200ms", "--push-rest", "100ms"]
        self.broker.restart()
        self.push("q", None, "max_attempts=0", "backoff=fixed", "backoff_min=10ms", "lease=1h")
        self.schedule("k")
        self.target.wait(9)  # five failures, then pauses of at most 100 ms; with the lease's time it would be one request per hour
        self.assertIn("did not reply in time", self.reasons("k")[0])
        health = wait_until("a rest", lambda: (said := self.health()) and said.get("resting_until_ms") and said, 30)
        self.assertLess(health["resting_until_ms"] - health["failed_ms"], 1000)

    def test_f13_what_a_target_answered_while_the_broker_stood_still_is_taken(self):
        """When the stopped broker continues, the request's timeout has passed, but the response is in the socket. The broker
        uses it, and sends the request no second time.
        """
        self.broker.arguments += ["--push-timeout", f"{TIMEOUT_S}s"]
        self.broker.restart()
        self.push()
        in_time.judged(self.answer_while_it_stands)

    def answer_while_it_stands(self, number):
        key, goes_on, answered = f"k{number}", threading.Event(), threading.Event()

        def answer(handler, _request):
            goes_on.wait(60)
            handler.reply(204)
            answered.set()
        self.target.answer = answer
        came = lambda: [request for request in self.target.requests if request.headers["ce-subject"] == key]  # noqa: E731
        try:
            with in_time.in_time(TIMEOUT_S, "from when it is due until the broker stands still"):
                self.schedule(key)
                wait_until("it is pushed", came, 30)
                freeze(self.broker.process)
            goes_on.set()
            self.assertTrue(answered.wait(30))
            time.sleep(TIMEOUT_S)
        finally:
            goes_on.set()
            thaw(self.broker.process)
        wait_until("it is acked", lambda: self.broker.one("get", "q", key)["state"] == "acked", 60)
        self.assertEqual(len(came()), 1)

    def test_what_the_options_take(self):
        for option, value, sentence in (("requests", "0", "must be between 1 and 4096"), ("host-requests", "4097", "must be between 1 and 4096"),
                                        ("timeout", "10ms", "must be between 100ms and 1h"), ("connect-timeout", "2h", "must be between"),
                                        ("rest", "soon", "takes a duration")):
            with self.subTest(option):
                done = subprocess.run([harness.find_program("tarryd"), "--print-config", f"--push-{option}", value], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"push-{option} {sentence}", done.stderr)
        self.broker.stop()
        self.broker.arguments += ["--push-requests", "4096"]
        self.broker.start()
        self.broker.wait_logged("event=push_requests_fewer level=warning asked=4096")


class Confined(webhooks_test.Pushed):
    def prepare(self):
        self.write_secrets(f"q {self.secret}\norders.close {self.secret}\n")

    def rows(self, name):
        web = Http(self.broker.port, tokens.text_of(name))
        _, stats = web.ask("GET", "/v1/stats")
        web.close()
        return {row["queue"]: row["url"] for row in stats["broker"].get("push", [])}

    def test_a_url_is_seen_by_whoever_sees_its_queue(self):
        self.push()
        self.push("orders.close", self.target.url("/orders"))
        path = self.path("some.tokens")
        harness.make_private(path, tokens.FIRST_LINE + "loopback loopback roles=none\n" + tokens.row("eye", "read") + tokens.row("shop", "read", "queue=orders."))
        self.broker.arguments += ["--tokens", path]
        self.broker.restart()
        wait_until("both are told of", lambda: self.rows("eye") == {"q": self.target.url(), "orders.close": self.target.url("/orders")}, 30)
        self.assertEqual(self.rows("shop"), {"orders.close": self.target.url("/orders")})


if __name__ == "__main__":
    harness.main()
