"""webhooks_test.py: tasks of a queue with a `push` URL are POSTed to it, signed, and settled by the response. A bad target
harms only its own queue. See docs/WEBHOOKS.md.
"""
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import urllib.request

import harness
import metrics_test
import pair
import ports
from certificates import Authority
from harness import Case, make_private, wait_until
from http_client import Http
from target import Target, make_secret

LOOPBACK = ("--push-allow", "127.0.0.0/8")
RECOVERS_S = 60
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Pushed(Case):
    """A broker that may send webhooks to this host, and a target. `self.secrets`: the secrets of queue q that are in the file."""

    allow = LOOPBACK
    autostart = False

    def setUp(self):
        super().setUp()
        self.secret = make_secret()
        self.targets = []
        self.target = self.make_target()
        self.write_secrets(f"q {self.secret}\n")
        self.broker = self.brokers[0] if self.brokers else self.make_broker()
        self.broker.arguments += [*self.allow, "--push-secrets", self.path("push.secrets")]
        self.prepare()
        self.broker.start()

    def prepare(self):
        pass

    def make_target(self, context=None):
        self.targets.append(Target(context))
        return self.targets[-1]

    def write_secrets(self, text):
        """Replaces the file as an editor does: by renaming a new one."""
        make_private(self.path("push.secrets.new"), text)
        os.replace(self.path("push.secrets.new"), self.path("push.secrets"))

    def tearDown(self):
        super().tearDown()
        for target in self.targets:
            target.close()

    def push(self, queue="q", url=None, *more):
        self.broker.ok("queue", "set", queue, "--push", url or self.target.url(), *more)

    def schedule(self, key, queue="q", body="{}", *more):
        return self.broker.one("schedule", queue, "--key", key, "--in", "0s", "--body", body, *more)

    def state(self, key, queue="q"):
        return self.broker.one("get", queue, key)["state"]

    def wait_state(self, key, *states, queue="q"):
        return wait_until(f"{key} {states}", lambda: self.state(key, queue) in states and self.state(key, queue), 30)

    def health(self, queue="q"):
        """Returns the queue's row of the statistics."""
        http = Http(self.broker.port, harness.tokens.ADMIN)
        try:
            _, stats = http.ask("GET", "/v1/stats")
        finally:
            http.close()
        return next((row for row in stats["broker"].get("push", []) if row["queue"] == queue), None)

    def commit(self, tasks):
        http = Http(self.broker.port, harness.tokens.ADMIN)
        ops = [{"schedule": {"queue": queue, "key": key, "in": "0s", "body": "{}"}} for queue, key in tasks]
        status, answer = wait_until("room", lambda: (said := http.ask("POST", "/v1/commit", {"ops": ops})) and said[0] != 503 and said, 30)
        http.close()
        self.assertEqual(status, 200, answer)

    def reasons(self, key, queue="q"):
        return [entry.get("reason") for entry in self.broker.ok("history", queue, key) if entry.get("reason")]


class Story(Pushed):
    def test_what_is_due_is_posted_signed_and_acked(self):
        self.push()
        self.broker.ok("schedule", "q", "--key", "order 1", "--in", "0s", "--body", '{"order":1}', "--attr", "shop=a b", "--attr", "note=", "--attr", "blank= ")
        request = self.target.wait(1)[0]
        self.assertTrue(request.is_signed(self.secret))
        self.assertFalse(request.is_signed(make_secret()))
        self.assertEqual((request.path, request.body), ("/hook", b'{"order":1}'))
        heads = request.headers
        self.assertEqual(heads["Content-Type"], "application/json")
        self.assertEqual((heads["ce-specversion"], heads["ce-type"], heads["ce-subject"]), ("1.0", "tarry.task.due", "order%201"))
        self.assertEqual((heads["ce-tarryqueue"], heads["ce-tarryattempt"], heads["ce-tarrydeliveries"]), ("q", "1", "1"))
        self.assertGreaterEqual(int(heads["ce-tarrylatenessms"]), 0)
        self.assertEqual(heads["ce-id"], heads["webhook-id"])
        self.assertRegex(heads["ce-source"], r"^/tarry/[0-9a-f]{16}/queues/q$")
        self.assertRegex(heads["ce-time"], r"^\d{4}-\d\d-\d\dT")
        self.assertEqual([heads[f"tarry-attribute-{name}"] for name in ("shop", "note", "blank")], ["a%20b", "", "%20"])
        self.wait_state("order 1", "acked")
        health = wait_until("health", lambda: self.health()["acked"] and self.health(), 10)
        self.assertEqual((health["sent"], health.get("failed", 0), health.get("error")), (1, 0, None))
        with urllib.request.urlopen(f"http://127.0.0.1:{self.broker.port}/metrics", timeout=30) as page:
            text = page.read().decode()
        self.assertIn('tarry_push_acked_total{queue="q"} 1\n', text)
        self.assertIn("# TYPE tarry_push_requests_total counter\n", text)
        self.assertEqual(metrics_test.lint(text), [])

    def test_one_after_the_other_over_one_connection_and_many_at_once(self):
        self.push()
        for i in range(5):
            self.schedule(f"k{i}")
            self.target.wait(i + 1)
            self.wait_state(f"k{i}", "acked")
        self.assertEqual(len({request.connection for request in self.target.requests}), 1)
        self.assertEqual(len({request.id for request in self.target.requests}), 5)
        together = threading.Barrier(8)

        def meet(handler, _request):
            together.wait(30)  # no request gets a response until all have arrived
            handler.reply(204)
        self.target.answer = meet
        for i in range(8):
            self.schedule(f"m{i}")
        self.target.wait(13)
        for i in range(8):
            self.wait_state(f"m{i}", "acked")

    def test_a_body_says_what_it_is(self):
        self.push()
        for key, body, kind in (("a", "text", "text/plain; charset=utf-8"), ("b", "[1]", "application/json"),
                                ("c", "", "text/plain; charset=utf-8")):
            self.schedule(key, body=body)
            self.wait_state(key, "acked")
            request = self.target.requests[-1]
            self.assertEqual((request.body, request.headers["Content-Type"]), (body.encode(), kind))
            self.assertTrue(request.is_signed(self.secret))

    def test_where_it_is_pushed_is_seen_and_changed(self):
        self.push()
        self.assertEqual(self.broker.ok("queues")[0]["policy"]["push"], self.target.url())
        self.broker.ok("queue", "set", "q", "push=none")
        self.assertNotIn("push", self.broker.ok("queues")[0]["policy"])
        self.schedule("k")
        taken = self.broker.ok("consume", "q", "--count", "1")  # the task can be consumed, because no webhook request has it
        self.assertEqual(taken[0]["key"], "k")
        self.assertEqual(self.target.requests, [])
        http = Http(self.broker.port, harness.tokens.ADMIN)
        status, answer = http.ask("PATCH", "/v1/queues/q", {"push": self.target.url("/other")})
        self.assertEqual(status, 200, answer)
        http.close()
        self.schedule("l")
        self.assertEqual(self.target.wait(1)[0].path, "/other")
        for url in ("ftp://example.org/", "https://", "https://u:p@example.org/", "http://example.org/#a", "http://example.org:0/",
                    "http://example.org/a b", "https://example.org:99999", "http://" + "x" * 520, "//example.org"):
            self.assertEqual(self.broker.tarry("queue", "set", "q", "--push", url).status, 1, url)


    def test_as_many_queues_as_may_be_are_pushed(self):
        self.write_secrets("".join(f"q{i} {self.secret}\n" for i in range(258)))
        http = Http(self.broker.port, harness.tokens.ADMIN)
        ops = [{"policy": {"queue": f"q{i}", "push": self.target.url()}} for i in range(257)]
        status, answer = http.ask("POST", "/v1/commit", {"atomic": False, "ops": ops})
        self.assertEqual(status, 200, answer)
        self.assertEqual([result.get("code", "ok") for result in answer["results"]].count("ok"), 256, answer["results"][-1])
        self.assertIn("PUSH_QUEUES_MAX", answer["results"][256]["message"])
        self.commit([(f"q{i}", "k") for i in range(256)])
        self.assertEqual(len({request.headers["ce-tarryqueue"] for request in self.target.wait(256, 60)}), 256)
        self.broker.ok("queue", "set", "q7", "push=none")
        self.broker.ok("queue", "set", "q256", "--push", self.target.url())
        self.broker.refused("queue", "set", "q257", "--push", self.target.url())
        http.close()


class Answers(Pushed):
    def setUp(self):
        super().setUp()
        self.push("q", None, "backoff=fixed", "backoff_min=50ms", "backoff_jitter=0", "max_attempts=3")

    def answers(self, *answers):
        """Makes the target respond with each of `answers` in turn, and repeat the last one."""
        left = list(answers)

        def answer(handler, request):
            chosen = left.pop(0) if len(left) > 1 else left[0]
            chosen(handler, request)
        self.target.answer = answer

    def test_410_buries(self):
        self.answers(lambda handler, _: handler.reply(410))
        self.schedule("k")
        self.wait_state("k", "dead")
        self.assertEqual(self.reasons("k")[-1], "the target replied with status 410")
        self.assertEqual(len(self.target.requests), 1)

    def test_500_comes_again_by_the_policy_with_the_same_id_and_then_is_dead(self):
        self.answers(lambda handler, _: handler.reply(500, b"<script>"))
        self.schedule("k")
        self.wait_state("k", "dead")
        self.assertEqual(len(self.target.requests), 3)
        self.assertEqual(len({request.id for request in self.target.requests}), 1)
        self.assertEqual([request.headers["ce-tarryattempt"] for request in self.target.requests], ["1", "2", "3"])
        self.assertEqual(self.reasons("k")[-1], "the target replied with status 500")
        self.assertEqual(self.health()["error"], "the target replied with status 500")

    def test_how_its_target_does_is_told_everywhere_and_no_secret_is(self):
        self.answers(lambda handler, _: handler.reply(204), lambda handler, _: handler.reply(410, self.secret.encode()), lambda handler, _: handler.reply(500))
        for key, state in (("good", "acked"), ("gone", "dead"), ("bad", "dead")):
            self.schedule(key)
            self.wait_state(key, state)
        self.schedule("more")
        health = wait_until("it rests", lambda: self.health().get("resting_until_ms") and self.health(), 30)
        self.assertEqual({name: health[name] for name in ("acked", "refused", "status", "error")},
                         {"acked": 1, "refused": 1, "status": 500, "error": "the target replied with status 500"})
        self.assertGreaterEqual(health["failed"], 4, "the one with 410 included")
        told = next(row for row in self.broker.one("stats", "q")["broker"]["push"] if row["queue"] == "q")
        self.assertEqual((told["acked"], told["refused"], told["status"], told["error"]), (1, 1, 500, "the target replied with status 500"))
        self.assertGreater(told["resting_until_ms"], told["succeeded_ms"])
        words = subprocess.run([word for word in self.broker.command("stats", "--wide") if word != "--json"], capture_output=True, text=True, timeout=30, check=True).stdout
        self.assertRegex(words, r"PUSHED +UNDER WAY +ACKED +REFUSED +FAILED +STATUS +BACKS OFF +LAST ERROR\nq +0 +1 +1 +\d+ +500 +\S+ +the target replied with status 500")
        self.broker.ok("schedule", "another", "--in", "1h")
        self.assertNotIn("another", [row["queue"] for row in self.broker.one("stats", "another")["broker"]["push"]])
        with urllib.request.urlopen(f"http://127.0.0.1:{self.broker.port}/metrics", timeout=30) as page:
            metrics = page.read().decode()
        self.assertIn('tarry_push_refused_total{queue="q"} 1\n', metrics)
        self.assertIn('tarry_push_last_status{queue="q"} 500\n', metrics)
        self.assertEqual(metrics_test.lint(metrics), [])
        http = Http(self.broker.port, harness.tokens.ADMIN)
        _, stats = http.ask("GET", "/v1/stats")
        http.close()
        for text in (json.dumps(stats), words, metrics, json.dumps(told)):
            self.assertNotIn(self.secret.removeprefix("whsec_"), text)

    def test_a_target_without_an_answer_has_no_status(self):
        self.schedule("first")
        self.wait_state("first", "acked")
        wait_until("a status", lambda: self.health().get("status") == 200, 30)
        self.push("q", f"http://127.0.0.1:{ports.free_port()}/", "backoff=fixed", "backoff_min=50ms", "max_attempts=1")
        self.schedule("k")
        self.wait_state("k", "dead")
        self.assertEqual((self.health().get("status", 0), self.health()["failed"], self.health().get("refused", 0)), (0, 1, 0))

    def test_retry_after_is_obeyed(self):
        for status in (429, 503):
            before = len(self.target.requests)
            self.answers(lambda handler, _, said=status: handler.reply(said, Retry_After="1"), lambda handler, _: handler.reply(200))
            self.schedule(f"k{status}")
            first, second = self.target.wait(before + 2)[before:]
            self.assertGreaterEqual(second.at - first.at, 1.0)
            self.assertLess(second.at - first.at, 20)
            self.wait_state(f"k{status}", "acked")

    def test_redirects_are_not_followed(self):
        other = self.make_target()
        self.answers(lambda handler, _: handler.reply(307, Location=other.url()), lambda handler, _: handler.reply(200))
        self.schedule("k")
        self.wait_state("k", "acked")
        self.assertEqual(self.reasons("k")[0], "the target replied with status 307: redirects are not followed")
        self.assertEqual((other.requests, other.strays), ([], []))

    def test_an_answer_is_bounded(self):
        def endless(handler, _):
            handler.send_response(200)
            handler.end_headers()
            handler.close_connection = True
            for _ in range(100000):
                handler.wfile.write(b"x" * 65536)  # sends without end, until the client closes the connection

        def flood(handler, _):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for i in range(1000000):
                handler.wfile.write(b"X-%d: %s\r\n" % (i, b"y" * 1000))
        self.answers(endless)
        self.schedule("body")
        self.wait_state("body", "acked")
        self.answers(flood, lambda handler, _: handler.reply(200))
        self.schedule("heads")
        self.wait_state("heads", "acked")
        self.assertEqual(self.reasons("heads")[0], "the target replied with more than 32 KiB of headers")

    def test_slow_ones_end_before_their_lease_does(self):
        self.broker.ok("queue", "set", "q", "lease=1s")
        gone = threading.Event()

        def drip(handler, _):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not gone.wait(0.05):
                handler.wfile.write(b"x")
        self.answers(drip, lambda handler, _: gone.wait(20), lambda handler, _: handler.reply(200))
        self.schedule("k")
        self.wait_state("k", "acked")
        gone.set()
        self.assertEqual(self.reasons("k"), ["the target did not reply in time"] * 2)


class Example(Pushed):
    """Tests the example receiver of docs/WEBHOOKS.md."""

    def test_the_receiver_of_the_page_takes_what_is_genuine_once(self):
        with open(os.path.join(ROOT, "docs/WEBHOOKS.md"), encoding="utf-8") as file:
            program = re.search(r"```python\n(.*?)```", file.read(), re.S).group(1)
        port = ports.free_port()
        example = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   env={**os.environ, "PORT": str(port), "WEBHOOK_SECRETS": f"{make_secret()} {self.secret}"})
        try:
            self.push("q", f"http://127.0.0.1:{port}/", "backoff=fixed", "backoff_min=10ms")
            self.schedule("order-1", body="{}")
            self.assertEqual(example.stdout.readline(), b"closed order-1 {}\n")
            self.wait_state("order-1", "acked")
            self.write_secrets(f"q {make_secret()}\n")
            self.broker.ok("queue", "set", "q", "max_attempts=1")
            wait_until("401", lambda: self.refuses(), 30)
        finally:
            example.kill()
            example.wait()
            example.stdout.close()

    def refuses(self):
        key = f"order-{harness.now_ms()}"
        self.schedule(key)
        return self.wait_state(key, "acked", "dead") == "dead" and self.reasons(key)[-1] == "the target replied with status 401"


class Secrets(Pushed):
    def test_two_while_they_rotate_and_none_without(self):
        old, new = self.secret, make_secret()
        self.push()
        self.schedule("one")
        self.wait_state("one", "acked")
        self.write_secrets(f"# rotated\nq {new} {old}\n")

        def newest():
            count = len(self.target.requests)
            self.schedule(f"r{count}")
            last = self.target.wait(count + 1)[count]
            return last if last.is_signed(new) else None
        request = wait_until("signed with the new one", newest, 30)
        self.assertTrue(request.is_signed(old))
        self.assertEqual(len(request.headers["webhook-signature"].split(" ")), 2)

    def test_who_sets_a_push_without_a_secret_is_told_at_once(self):
        sentence = "the file of --push-secrets has no secret for this queue, so nothing is sent"
        self.assertIn(sentence, self.broker.tarry("queue", "set", "other", "--push", self.target.url()).err)
        self.assertEqual((self.health("other")["signs"], self.health("other")["error"]), (False, sentence))  # reported before any task is due

        def doctor():
            return [found for found in self.broker.ok("doctor", "--broker", self.broker.url) if found["check"] == "webhooks"]
        (found,) = doctor()
        self.assertEqual((found["result"], sentence in found["what"]), ("warning", True))
        self.write_secrets(f"q {self.secret}\nother {self.secret}\n")
        wait_until("the file is read again", lambda: self.health("other")["signs"], 20)
        self.assertEqual(self.broker.tarry("queue", "set", "other", "push=" + self.target.url("/new")).err, "")
        (found,) = doctor()
        self.assertEqual(found["result"], "fine")

    def test_without_a_secret_nothing_is_sent_and_no_attempt_is_lost(self):
        self.push("other", self.target.url("/other"))
        self.schedule("k", queue="other")
        health = wait_until("health", lambda: (self.health("other") or {}).get("error") and self.health("other"), 30)
        self.assertEqual(health["error"], "the file of --push-secrets has no secret for this queue, so nothing is sent")
        self.assertEqual(self.target.requests, [])
        self.write_secrets(f"other {self.secret}\n")
        request = self.target.wait(1, RECOVERS_S)[0]
        self.assertEqual((request.headers["ce-tarryattempt"], request.is_signed(self.secret)), ("1", True))

    def test_they_are_told_nowhere(self):
        self.push()
        self.schedule("k")
        self.wait_state("k", "acked")
        key = self.secret.removeprefix("whsec_")
        said = [json.dumps(self.broker.ok(*command)) for command in (("queues",), ("stats",), ("history", "q", "k"), ("audit",))]
        http = Http(self.broker.port, harness.tokens.ADMIN)
        said += [json.dumps(http.ask("GET", path)[1]) for path in ("/v1/stats", "/v1/queues")]
        http.close()
        said.append(self.broker.log_text(1000))
        self.assertFalse([text for text in said if key in text])
        self.broker.stop()
        for directory, _, names in os.walk(self.broker.data):
            for name in names:
                with open(os.path.join(directory, name), "rb") as file:
                    self.assertNotIn(key.encode(), file.read(), name)

    def test_a_wrong_file_is_refused_without_a_word_of_it(self):
        self.broker.stop()
        for text, why in ((f"q {self.secret}x", "whsec_ and 24 to 64 bytes in base64"), ("q\n", "has no secret"),
                          (f"q {self.secret}\nq {self.secret}", "names a queue that an earlier line names")):
            self.write_secrets(text)
            self.broker.launch()
            self.broker.process.wait(30)
            self.broker.reader.join(5)
            log = self.broker.log_text(3)
            self.assertIn(why, log)
            self.assertNotIn(self.secret[10:20], log)
        self.write_secrets(f"q {self.secret}\n")
        os.chmod(self.path("push.secrets"), 0o644)
        self.broker.launch()
        self.broker.process.wait(30)
        self.broker.reader.join(5)
        self.broker.wait_logged("can be used by other users")


class Elsewhere(Pushed):
    """This broker may send webhooks to public addresses only."""

    allow = ()

    def test_addresses_that_not_everybody_reaches_are_refused(self):
        wrong = {"127.0.0.1": "a loopback address", "localhost": "a loopback address", "[::1]": "a loopback address",
                 "[::ffff:127.0.0.1]": "a loopback address", "2130706433": "a loopback address", "0x7f.1": "a loopback address",
                 "0.0.0.0": "an address of the local network (0.0.0.0/8)", "169.254.169.254": "a link-local address, which cloud metadata services use",
                 "10.0.0.1": "a private address", "[fd00:ec2::254]": "a private address"}
        self.write_secrets("".join(f"q{i} {self.secret}\n" for i in range(len(wrong))))
        for i, host in enumerate(wrong):
            self.push(f"q{i}", self.target.url(host=host))
            self.schedule("k", queue=f"q{i}")
        for i, (host, what) in enumerate(wrong.items()):
            health = wait_until(host, lambda n=i: (self.health(f"q{n}") or {}).get("error") and self.health(f"q{n}"), 30)
            if host == "[::1]" and "loopback" not in health["error"]:
                continue  # this machine has no IPv6
            self.assertEqual(health["error"], f"the target is {what}: not allowed (--push-allow)", host)
        self.assertEqual(self.target.requests, [])


class Proxied(Pushed):
    def prepare(self):
        self.proxy = self.make_target()
        self.broker.env |= {name: self.proxy.url("") for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY")}

    def test_no_proxy_of_the_environment_is_asked(self):
        self.push()
        self.schedule("k")
        self.wait_state("k", "acked")
        self.assertEqual((len(self.target.requests), self.proxy.requests), (1, []))


class OverTls(Pushed):
    def prepare(self):
        self.authority = Authority(self.directory)
        self.broker.arguments += ["--push-ca", self.authority.ca]
        self.write_secrets(f"q {self.secret}\nwrong {self.secret}\n")

    def serve(self, name, **options):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self.authority.make(name, **options))
        return self.make_target(context)

    def test_a_certificate_is_verified(self):
        right, wrong = self.serve("right"), self.serve("wrong", hosts="DNS:elsewhere.example.org")
        self.push("q", right.url())
        self.push("wrong", wrong.url())
        self.schedule("k")
        self.schedule("k", queue="wrong")
        self.wait_state("k", "acked")
        self.assertTrue(right.wait(1)[0].is_signed(self.secret))
        health = wait_until("refused", lambda: (self.health("wrong") or {}).get("error") and self.health("wrong"), 30)
        self.assertIn("SSL peer certificate", health["error"])
        self.assertEqual(wrong.requests, [])


class Beside(Pushed):
    def prepare(self):
        self.write_secrets("".join(f"{queue} {self.secret}\n" for queue in ("q", "dead", "silent", "silent too")).replace("silent too", "silent%20too"))

    def test_a_dead_and_a_silent_target_cost_only_themselves(self):
        forever = threading.Event()
        silent = self.make_target()
        silent.answer = lambda handler, request: forever.wait(60)
        self.push("dead", f"http://127.0.0.1:{ports.free_port()}/", "backoff=fixed", "backoff_min=10ms", "max_attempts=0")
        self.push("silent", silent.url())
        self.push("silent too", silent.url("/too"))
        self.push()
        self.commit([*(("silent", f"s{i}") for i in range(64)), *(("silent too", f"t{i}") for i in range(64)),
                     *(("dead", f"d{i}") for i in range(64))])
        silent.wait(32)
        self.commit([("q", f"k{i}") for i in range(100)])
        late = max(int(request.headers["ce-tarrylatenessms"]) for request in self.target.wait(100))
        self.assertEqual(len(silent.requests), 32)  # PUSH_HOST_REQUESTS_DEFAULT, which limits two queues with the same host together
        self.assertLess(late, 3000)
        wait_until("all acked", lambda: self.health()["acked"] == 100, 30)
        health = wait_until("the dead one rests", lambda: self.health("dead").get("resting_until_ms") and self.health("dead"), 30)
        self.assertRegex(health["error"], "^(Couldn't|Could not) connect to server$")  # libcurl 7.88 says "Couldn't", libcurl 8.14 "Could not"
        self.assertLess(health["failed"], 64)  # the other tasks lost no attempt
        forever.set()


class Killed(Pushed):
    def test_after_kill_9_it_goes_on(self):
        hold = threading.Event()
        self.target.answer = lambda handler, request: hold.wait(30)
        self.push("q", None, "lease=2s")
        self.schedule("k")
        self.target.wait(1)
        self.target.answer = lambda handler, request: handler.reply(200)
        self.broker.restart()
        hold.set()
        first, second = self.target.wait(2)[:2]
        self.assertEqual(first.id, second.id)
        self.wait_state("k", "acked")

    def test_a_stop_waits_for_what_is_under_way(self):
        under_way, go_on = threading.Event(), threading.Event()

        def slow(handler, _):
            under_way.set()
            go_on.wait(30)
            handler.reply(200)
        self.target.answer = slow
        self.push()
        self.schedule("k")
        under_way.wait(30)
        threading.Timer(0.3, go_on.set).start()
        self.assertEqual(self.broker.stop(), 0)
        self.broker.start()
        self.assertEqual(self.state("k"), "acked")
        self.assertEqual(len(self.target.requests), 1)


class Follower(pair.Case):
    def setUp(self):
        super().setUp()
        self.secret = make_secret()
        self.target = Target()
        make_private(self.path("push.secrets"), f"orders {self.secret}\n")
        for broker in (self.a, self.b):
            broker.arguments += [*LOOPBACK, "--push-secrets", self.path("push.secrets")]

    def tearDown(self):
        super().tearDown()
        self.target.close()

    def test_the_next_leader_goes_on_and_a_follower_pushes_nothing(self):
        self.start_pair()
        self.a.ok("queue", "set", "orders", "--push", self.target.url())
        self.a.ok("schedule", "orders", "--key", "one", "--in", "0s")
        one = self.target.wait(1)[0]
        wait_until("acked", lambda: self.a.one("get", "orders", "one")["state"] == "acked", 30)
        self.assertTrue(one.is_signed(self.secret))
        self.a.ok("schedule", "orders", "--key", "two", "--in", "1h")
        self.assertNotIn("tarry-push", threads_of(self.b))
        self.a.kill()
        self.wait_role(self.b, "leading")
        self.b.ok("move", "orders", "two", "--in", "0s")
        two = self.target.wait(2)[1]
        self.assertTrue(two.is_signed(self.secret))
        self.assertEqual(one.headers["ce-source"], two.headers["ce-source"])
        wait_until("acked", lambda: self.b.one("get", "orders", "two")["state"] == "acked", 30)


def threads_of(broker):
    names = []
    for thread in os.listdir(f"/proc/{broker.process.pid}/task"):
        with open(f"/proc/{broker.process.pid}/task/{thread}/comm", encoding="ascii") as file:
            names.append(file.read().strip())
    return names


if __name__ == "__main__":
    harness.main(watches_locks=True)
