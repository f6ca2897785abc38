"""page_test.py: the page at `/`: its content, who may see its numbers, and (if chromium and chromedriver are installed) its
behaviour in a browser: real data, hostile names, tokens, keyboard, contrast, small screens, a thousand queues."""
import base64
import hashlib
import json
import os
import re
import urllib.error
import urllib.request
from unittest import mock

import amqp
import harness
import ports
import tokens
import webhooks_test
import wire
from browser import Browser, needs_one

HOSTILE = ("<script>window.xss=1</script>", "<img src=x onerror=\"window.xss=1\">", "\"><svg onload=window.xss=1>", "'};window.xss=1;//",
           "javascript:window.xss=1", "</script><script>window.xss=1</script>", "${window.xss=1}", "{{constructor.constructor('window.xss=1')()}}",
           "&lt;b&gt;", "<style>*{display:none}</style>", "\u202egnp.exe", "</td></tr></table><iframe srcdoc=\"<script>parent.xss=1</script>\">",
           "<a href=//evil.example>x</a>", "<!--", "]]>", "\\u003cscript\\u003e", "<base href=//evil.example>", "<meta http-equiv=refresh content=0>")
MANY = 1000
SHOTS = os.environ.get("TARRY_SCREENSHOTS")  # if set: directory for screenshots


def get(broker, path, token=None):
    """Returns (status, headers, text) of a GET."""
    request = urllib.request.Request(f"http://127.0.0.1:{broker.port}{path}", headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=harness.ANSWER_WAIT_S) as page:
            return page.status, page.headers, page.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.headers, refused.read().decode()


def schedule(broker, names, delay_ms=3_600_000):
    broker.ok("schedule", "--from", "-", stdin="".join(json.dumps({"queue": name, "delay_ms": delay_ms}) + "\n" for name in names))


def guard(broker, *rows):
    """Restarts the broker with these tokens. Clients without a token may do nothing then."""
    path = os.path.join(os.path.dirname(broker.data), "some.tokens")
    harness.make_private(path, tokens.FIRST_LINE + "loopback loopback roles=none\n" + "".join(rows))
    broker.arguments = (*broker.arguments, "--tokens", path)
    broker.restart()


class Text(harness.Case):
    def test_policy_allows_its_own_style_and_script_and_nothing_else(self):
        status, headers, text = get(self.broker, "/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(headers["X-Frame-Options"], "DENY")
        self.assertEqual(headers["Content-Security-Policy"], "frame-ancestors 'none'")
        self.assertEqual(headers["Cache-Control"], "no-store")
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        for tag, rule in (("style", "style-src"), ("script", "script-src")):
            [inside] = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.S)
            digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
            self.assertEqual(rules[rule], f"'sha256-{digest}'")
        self.assertEqual((rules["default-src"], rules["connect-src"], rules["base-uri"], rules["form-action"]), ("'none'", "'self'", "'none'", "'none'"))

    def test_nothing_comes_from_elsewhere_and_text_stays_text(self):
        _, _, text = get(self.broker, "/")
        self.assertEqual(set(re.findall(r"https?://[^\"' ]+", text)), {"http://www.w3.org/2000/svg"})
        for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "localStorage", " style=", " onclick="):
            self.assertNotIn(forbidden, text)

    def test_numbers_say_what_happened(self):
        schedule(self.broker, HOSTILE)
        self.broker.ok("schedule", "q", "--in", "0s")
        self.broker.consume("q", "--count", "1").rest()
        status, headers, text = get(self.broker, "/v1/stats")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
        told = json.loads(text)
        queues = {queue["name"]: queue for queue in told["queues"]}
        self.assertEqual(set(queues), {*HOSTILE, "q"})
        self.assertEqual((queues["q"]["acked"], sum(queues["q"]["lateness"]["counts"])), (1, 1))
        self.assertEqual(queues[HOSTILE[0]]["pending"], 1)
        self.assertEqual(json.loads(get(self.broker, "/v1/status")[2])["role"], "primary")
        self.assertGreater(told["broker"]["disk_free"], 0)

    def test_who_may_see_them(self):
        schedule(self.broker, ["orders.close", "mail"])
        guard(self.broker, tokens.row("eye", "read"), tokens.row("shop", "read", "queue=orders."), tokens.row("maker", "produce"))
        self.assertEqual(get(self.broker, "/")[0], 200)
        self.assertEqual(get(self.broker, "/v1/stats")[0], 403)
        self.assertEqual(get(self.broker, "/v1/stats", "tarry_nobodys")[0], 401)
        self.assertEqual(get(self.broker, "/v1/stats", tokens.text_of("maker"))[0], 403)
        for name, seen in (("eye", ["mail", "orders.close"]), ("shop", ["orders.close"])):
            self.assertEqual(sorted(queue["name"] for queue in json.loads(get(self.broker, "/v1/stats", tokens.text_of(name))[2])["queues"]), seen)
            self.assertEqual(json.loads(get(self.broker, "/v1/caller", tokens.text_of(name))[2]), {"name": name, "roles": ["read"], "confined": name == "shop"})


CONTRAST = """
const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const back = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
return [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).map((e) => {
  const a = light(rgb(getComputedStyle(e).color)), b = light(back(e));
  return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.tagName, e.className, e.textContent.slice(0, 30)];
}).filter(([ratio]) => ratio < 4.5);
"""
NAMES = """
const name = (e) => (e.getAttribute('aria-label') || (e.labels && e.labels[0] && e.labels[0].textContent) || e.textContent || '').trim();
return [...document.querySelectorAll('button, input, a, svg[role=img], [role=region]')]
  .filter((e) => e.checkVisibility() && !name(e) && !document.getElementById(e.getAttribute('aria-labelledby') || '')).map((e) => e.outerHTML.slice(0, 80));
"""
READY = "return document.body.dataset.ready === 'true'"


class Looks(harness.Case):
    """Tests that share one browser."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = Browser().__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        super().tearDownClass()

    def shoot(self, name):
        if SHOTS:
            self.browser.screenshot(os.path.join(SHOTS, f"page-{name}.png"))

    def look_with_axe(self, view, medium):
        """Checks the view with axe if TARRY_AXE names an axe.min.js (npm's axe-core); run by hand, because Debian has none."""
        if not os.environ.get("TARRY_AXE"):
            return
        with open(os.environ["TARRY_AXE"], encoding="utf-8") as file:
            found = self.browser.run(file.read() + "\nreturn axe.run().then((r) => r.violations.map((v) => [v.id, v.impact, v.nodes.map((n) => n.html)]))")
        self.assertEqual(found, [], (view, medium))
        print(f"# axe: {view}, {medium}: clean")

    def become(self, name):
        """Loads the page again with this token."""
        self.browser.open(f"http://127.0.0.1:{self.broker.port}/")
        self.browser.run("sessionStorage.setItem('tarry-token', arguments[0]); location.reload()", tokens.text_of(name))
        self.browser.wait(READY)
        self.addCleanup(self.browser.run, "sessionStorage.clear()")


@needs_one
class Seen(Looks):
    def look(self):
        self.browser.open(f"http://127.0.0.1:{self.broker.port}/")
        self.browser.log()
        self.browser.wait(READY)

    def row(self, name):
        return self.browser.run("const r = [...document.querySelectorAll('#rows tr')].find((r) => r.cells[0].title === arguments[0]); return r && [...r.cells].map((c) => c.textContent)", name)

    def tiles(self):
        return self.browser.run("return Object.fromEntries([...document.querySelectorAll('#tiles div')].map((d) => [d.firstChild.textContent, d.lastChild.textContent]))")

    def test_real_data_and_it_lives(self):
        for number in range(30):
            self.broker.ok("schedule", f"orders.{('close', 'remind', 'refund')[number % 3]}", "--in", "1h")
        self.broker.ok("schedule", "mail", "--in", "0s", "--key", "k")
        held = self.broker.one("consume", "mail", "--count", 1, "--ack", "none")
        self.broker.one("nack", held["id"], held["token"], "--dead", "no such address")
        self.look()
        self.assertEqual((self.tiles()["Waiting"], self.tiles()["Dead letters"]), ("30", "1"))
        self.assertEqual(self.row("orders.close")[1], "10")
        self.assertEqual(self.row("mail")[4], "1")
        self.broker.ok("schedule", "orders.close", "--in", "1h")
        self.browser.wait("return [...document.querySelectorAll('#rows tr')].some((r) => r.cells[0].title === 'orders.close' && r.cells[1].textContent === '11')")
        self.assertIn("primary, as of", self.browser.run("return document.getElementById('state').textContent"))
        for text in ("none: this broker is alone", "nothing is signed", "0.1.0"):
            self.assertIn(text, self.browser.run("return document.querySelector('main').innerText"))
        self.assertEqual(self.browser.log(), [])

    def test_the_numbers_of_amqp(self):
        self.look()
        self.assertNotIn("AMQP", self.browser.run("return document.getElementById('broker').innerText"))
        self.broker.stop()
        self.broker.arguments += ["--listen", "amqp://127.0.0.1:0"]
        self.broker.start()
        client = amqp.Client(next(int(url.rsplit(":", 1)[1]) for url in self.broker.ready["urls"].split() if url.startswith("amqp://")))
        self.addCleanup(client.socket.close)
        client.declare("orders")
        client.bind("orders", "amq.fanout")
        client.consume("orders")
        self.look()
        text = self.browser.run("return document.getElementById('broker').innerText")
        self.assertIn("1 connections, 1 channels, 1 consumers", text)
        self.assertIn("5 exchanges, 1 queues, 1 bindings", text)

    def test_hostile_names_are_text(self):
        schedule(self.broker, HOSTILE)
        self.look()
        for name in HOSTILE:
            self.assertEqual(self.row(name)[0], name)
        self.assertIsNone(self.browser.run("return window.xss ?? null"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('#rows *:not(tr, td, th, th > button), iframe, main img').length"), 0)
        self.assertEqual(self.browser.log(), [], "the policy had nothing to refuse")
        refused = self.browser.run("const s = document.createElement('script'); s.textContent = 'window.xss = 1'; document.body.append(s); return window.xss ?? null")
        self.assertIsNone(refused, "and would have refused")
        self.assertTrue(any("Content Security Policy" in line for line in self.browser.log()))

    def test_a_token_is_asked_for_and_kept_in_the_tab(self):
        guard(self.broker, tokens.row("eye", "read"))
        self.browser.open(f"http://127.0.0.1:{self.broker.port}/")
        self.browser.wait("return !document.getElementById('access').hidden && document.activeElement.id === 'token'")
        self.browser.keys("tarry_nobodys\ue007")
        self.browser.wait("return document.getElementById('state').textContent.startsWith('A token is wanted')")
        self.assertFalse(self.browser.run(READY), "nothing is shown")
        self.browser.run("document.getElementById('token').focus()")
        self.browser.keys(tokens.text_of("eye") + "\ue007")
        self.browser.wait(READY)
        self.assertEqual(self.browser.run("return [sessionStorage.length, localStorage.length, document.cookie]"), [1, 0, ""])
        self.browser.run("location.reload()")
        self.browser.wait(READY)
        self.browser.run("sessionStorage.clear()")

    def test_accessible_in_light_and_dark_by_keyboard_and_on_a_telephone(self):
        schedule(self.broker, [f"orders.{name}" for name in ("close", "remind", "refund", "archive")] * 5)
        self.look()
        for scheme in ("light", "dark"):
            self.browser.media(prefers_color_scheme=scheme)
            self.assertEqual(self.browser.run(CONTRAST), [], scheme)
            self.browser.size(1280, 1000)
            self.shoot(scheme)
        self.assertEqual(self.browser.run(NAMES), [])
        self.assertEqual(self.browser.run("return [document.querySelectorAll('h1').length, document.documentElement.lang, document.querySelectorAll('th:not([scope])').length]"), [1, "en", 0])
        self.assertEqual(self.browser.run("const ids = [...document.querySelectorAll('[id]')].map((e) => e.id); return ids.length - new Set(ids).size"), 0)
        self.browser.run("document.activeElement.blur()")
        seen = []
        for _ in range(6):
            self.browser.keys("\ue004")
            seen.append(self.browser.run("const e = document.activeElement, s = getComputedStyle(e); return [e.id || e.textContent.trim(), s.outlineStyle !== 'none' || e.className === 'skip']"))
        self.assertEqual([name for name, _ in seen[:5]], ["Skip to the numbers", "freeze", "find-key", "find-queue", "Find"])
        self.assertTrue(all(visible for _, visible in seen), seen)
        self.browser.run("document.querySelectorAll('#heads button')[1].focus()")
        self.browser.keys("\ue007")
        self.assertEqual(self.browser.run("return [document.querySelectorAll('#heads th')[1].getAttribute('aria-sort'), document.activeElement.textContent.slice(0, 7)]"), ["descending", "Waiting"])
        self.browser.size(360, 740, mobile=True)
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 360)
        self.browser.run("scrollTo(0, 0)")
        self.shoot("phone")
        self.browser.size(1280, 1000)

    def find(self, key, queue=""):
        """Finds a task with the keyboard only."""
        self.browser.run("document.getElementById('find-key').value = ''; document.getElementById('find-queue').value = ''; document.getElementById('find-key').focus()")
        self.browser.keys(key + "\ue004" + queue + "\ue007")
        self.browser.wait("return document.getElementById('found').textContent !== 'Looking …' && document.getElementById('life-state').textContent !== 'Reading its history …'")
        return self.browser.run("return document.getElementById('found').textContent")

    def life(self):
        return self.browser.run("return [...document.querySelectorAll('#life strong')].map((e) => e.textContent)")

    def facts(self, name="task-facts"):
        return self.browser.run("return Object.fromEntries([...document.querySelectorAll(`#${arguments[0]} dt`)].map((e) => [e.textContent, e.nextSibling.textContent]))", name)

    def bury(self, queue, key, reason, body="{}"):
        """Makes a dead letter: schedules a task that is due at once, and a consumer refuses it for ever (nack --dead)."""
        self.broker.ok("schedule", queue, "--in", "0s", "--key", key, "--body", body)
        held = self.broker.one("consume", queue, "--count", 1, "--ack", "none")
        self.broker.one("nack", held["id"], held["token"], "--dead", reason)
        return held["id"]

    def test_a_key_that_is_typed_tells_a_task_s_whole_life(self):
        self.broker.ok("schedule", "mail", "--in", "1h", "--key", "another")
        self.bury("orders.close", "order-1001", "no such address", '{"order":12345678901234567890}')
        self.broker.ok("dead", "requeue", "orders.close", "order-1001")
        held = self.broker.one("consume", "orders.close", "--count", 1, "--ack", "none")
        self.broker.one("ack", held["id"], held["token"])
        self.look()
        self.assertEqual(self.find("order-1001"), "Found.")
        self.assertEqual(self.life(), ["Scheduled", "Delivered", "Dead", "Requeued", "Delivered", "Acked"])
        self.assertEqual(self.facts()["State"], "acked")
        self.assertIn("reason: no such address", self.browser.run("return document.getElementById('life').innerText"))
        self.assertEqual(self.find("another", "mail"), "Found in mail.")
        self.assertEqual(self.life(), ["Scheduled", "Due"])
        self.assertEqual(self.find(held["id"]), "Found.", "by its id")
        self.assertEqual(self.find("another", "orders.close"), "No task of this key or id in orders.close.")
        self.broker.ok("schedule", "orders.close", "--in", "1h", "--key", "another", "--body", '{"order":12345678901234567890}')
        self.browser.wait("return document.querySelectorAll('#rows tr').length === 2")
        self.assertEqual(self.find("another"), "2 tasks.")
        self.browser.run("document.querySelectorAll('#matches button')[0].focus()")
        self.browser.keys("\ue007")
        self.browser.wait("return document.activeElement.id === 'task' && !document.getElementById('task').hidden")
        self.find("another", "orders.close")
        self.assertEqual(self.browser.run("return document.getElementById('task-payload').textContent"), '{"order":12345678901234567890}', "with all its digits")
        self.assertEqual([line for line in self.browser.log() if "status of 404" not in line], [])

    def test_the_life_of_a_hostile_task_is_text(self):
        for number, text in enumerate(HOSTILE):
            self.bury("q", text, text, text)
        self.look()
        for text in HOSTILE:
            self.assertEqual(self.find(text), "Found.", text)
            self.assertEqual(self.browser.run("return document.getElementById('task-title').textContent"), f"“{text}”")
            self.assertEqual(self.browser.run("return document.getElementById('task-payload').textContent"), text)
            self.assertEqual(self.facts()["Reason"], text)
            self.assertIn(f"reason: {text}", self.browser.run("return [...document.querySelectorAll('#life .said')].map((e) => e.textContent)"))
        self.assertEqual(self.browser.run("return [window.xss ?? null, document.querySelectorAll('iframe, main img, #task script, #task a').length]"), [None, 0])
        self.assertEqual(self.browser.log(), [], "the policy had nothing to refuse")

    def test_attributes_and_who_it_was_are_text(self):
        for text in HOSTILE:
            told = lambda body, fields, cluster=b"", name=text: wire.encode([(1, 1), (2, name), (body, fields)])  # noqa: E731
            with mock.patch.object(wire, "request", told), wire.Rpc(self.broker.port, tokens.ADMIN) as rpc:
                self.assertEqual(rpc.ask(wire.COMMIT, wire.commit(rpc.hello(), 1, [wire.schedule("q", "k", 3_600_000)]))[0], wire.OK)
            self.broker.ok("cancel", "q", "k")
        self.broker.ok("schedule", "q", "--key", "k", "--in", "1h", *(word for n, text in enumerate(HOSTILE) for word in ("--attr", f"a{n}={text}")))
        self.look()
        self.find("k", "q")
        said = self.browser.run("return [...document.querySelectorAll('#life .said')].map((e) => e.textContent).join()")
        for number, text in enumerate(HOSTILE):
            self.assertIn(f"“{text}”", said)
            self.assertEqual(self.facts()[f"Attribute a{number}"], text)
        self.assertEqual(self.browser.run("return [window.xss ?? null, document.querySelectorAll('iframe, main img, #task script, #task a').length]"), [None, 0])

    def test_who_may_not_see_a_history_sees_the_task(self):
        self.bury("orders.close", "order-1001", "no such address")
        guard(self.broker, tokens.row("eye", "read"), tokens.row("worker", "consume,operate"), tokens.row("clerk", "produce,operate"))
        self.become("worker")
        self.assertIn("No task of this key or id.", self.find("order-1001"))
        self.assertIn("worker lacks the role", self.browser.run("return document.getElementById('found').textContent"), "the broker's sentence")
        self.assertTrue(self.browser.run("return document.getElementById('task').hidden"))
        for name, life, sentence in (("eye", ["Scheduled", "Delivered", "Dead"], ""), ("clerk", ["Scheduled", "Last delivered", "Dead"], "clerk lacks the role")):
            self.become(name)
            self.assertEqual(self.find("order-1001"), "Found.")
            self.assertEqual(self.life(), life)
            self.assertIn(sentence, self.browser.run("return document.getElementById('life-state').textContent"))

    def open_queue(self, name):
        self.browser.run("[...document.querySelectorAll('#rows button')].find((b) => b.parentNode.title === arguments[0]).focus()", name)
        self.browser.keys("\ue007")
        self.browser.wait("return document.activeElement.id === 'queue-title' && document.getElementById('tasks-state').textContent !== 'Reading …'")

    def press(self, name, where="#queue"):
        self.browser.run("[...document.querySelectorAll(`${arguments[1]} button`)].find((b) => (b.getAttribute('aria-label') || b.textContent) === arguments[0]).focus()", name, where)
        self.browser.keys("\ue007")
        self.browser.wait("return document.getElementById('sure').open")

    def names(self, where):
        return self.browser.run("return [...document.querySelectorAll(`${arguments[0]} button`)].map((b) => b.textContent)", where)

    def said(self, name="queue-said"):
        return self.browser.wait("return document.getElementById(arguments[0]).textContent", name)

    def dead(self):
        return self.browser.run("return [...document.querySelectorAll('#tasks tr')].map((r) => [r.cells[1].textContent, r.cells[5].textContent])")

    def test_dead_letters_page_by_page_and_what_is_done_with_them(self):
        for number in range(30):
            self.bury("mail", f"k{number:02}", f"reason {number}")
        self.look()
        self.open_queue("mail")
        self.assertEqual(self.dead(), [[f"“k{number:02}”", f"reason {number}"] for number in range(25)])
        self.browser.run("document.getElementById('tasks-next').focus()")
        self.browser.keys("\ue007")
        self.browser.wait("return document.querySelectorAll('#tasks tr').length === 5")
        self.assertEqual(self.browser.run("return [document.getElementById('tasks-state').textContent, document.getElementById('tasks-next').disabled]"), ["Page 2", True])
        self.browser.run("document.getElementById('tasks-back').focus()")
        self.browser.keys("\ue007")
        self.browser.wait("return document.querySelectorAll('#tasks tr').length === 25")
        self.press("Drop “k00”")
        self.assertEqual(self.browser.run("return document.activeElement.id"), "sure-no", "Enter alone does no harm")
        self.browser.keys("\ue007")
        self.browser.wait("return !document.getElementById('sure').open")
        self.press("Drop “k00”")
        self.browser.keys("\ue00c")
        self.browser.wait("return !document.getElementById('sure').open")
        self.assertEqual(self.broker.one("get", "mail", "k00")["state"], "dead", "neither Leave it nor Escape did anything")
        self.press("Drop “k00”")
        self.assertEqual(self.browser.run("return document.getElementById('sure-title').textContent"), "Drop “k00” of mail?")
        self.confirm()
        self.assertEqual(self.said(), "Done: dropped.")
        self.browser.wait("return document.querySelectorAll('#tasks tr')[0].cells[1].textContent === '“k01”'")
        self.assertEqual(self.broker.one("get", "mail", "k00")["state"], "dropped")
        self.press("Requeue “k01”")
        self.confirm()
        self.browser.wait("return document.getElementById('queue-said').textContent.startsWith('Done: requeued')")
        self.assertEqual(self.broker.one("get", "mail", "k01")["state"], "ready")
        self.press("Requeue all")
        self.confirm()
        self.browser.wait("return document.getElementById('queue-said').textContent.startsWith('Done: requeue: 28 tasks')")
        self.browser.wait("return document.querySelector('#rows tr').cells[4].textContent === '0'")
        self.assertEqual(self.browser.log(), [])

    def confirm(self):
        self.browser.run("document.getElementById('sure-yes').focus()")
        self.browser.keys("\ue007")
        self.browser.wait("return !document.getElementById('sure').open")

    def test_queues_are_paused_and_tasks_moved_and_cancelled(self):
        self.broker.ok("schedule", "mail", "--in", "1h", "--key", "k")
        self.look()
        self.open_queue("mail")
        self.assertEqual(self.names("#queue-actions"), ["Schedule a task", "Change the policy", "Pause", "Purge"])
        self.press("Pause")
        self.assertEqual(self.browser.run("return document.activeElement.id"), "sure-field")
        self.browser.keys("soon\ue007")
        self.assertIn("must be a duration", self.said(), "the broker's refusal")
        self.press("Pause")
        self.browser.keys("10m\ue007")
        self.browser.wait("return document.getElementById('queue-said').textContent.startsWith('Done: pause until')")
        self.assertTrue(self.broker.queue_stats("mail")["paused"])
        self.browser.wait("return [...document.querySelectorAll('#queue-actions button')].some((b) => b.textContent === 'Resume')")
        self.press("Resume")
        self.confirm()
        self.browser.wait("return document.getElementById('queue-said').textContent === 'Done: resume.'")
        self.assertFalse(self.broker.queue_stats("mail")["paused"])
        self.find("k")
        before = self.broker.one("get", "mail", "k")["due_ms"]
        self.press("Move", "#task")
        self.browser.run("document.getElementById('sure-field').select()")
        self.browser.keys("2h\ue007")
        self.browser.wait("return document.getElementById('task-said').textContent.startsWith('Done: moved, due')")
        self.assertGreater(self.broker.one("get", "mail", "k")["due_ms"], before + 3_000_000)
        self.browser.wait("return document.querySelectorAll('#life strong')[1].textContent === 'Moved'")
        self.press("Cancel", "#task")
        self.confirm()
        self.browser.wait("return document.getElementById('task-said').textContent === 'Done: cancelled.'")
        self.assertEqual(self.broker.one("get", "mail", "k")["state"], "cancelled")
        self.browser.wait("return !document.querySelector('#task-actions button')")

    def shown(self):
        """Returns the tasks that the page shows of the queue: their keys, and their states without the time."""
        return self.browser.run("return [...document.querySelectorAll('#tasks tr')].map((r) => [r.cells[1].textContent, r.cells[2].textContent.replace(/ (since|until) .*/, '')])")

    def select(self, *keys):
        for key in keys:
            self.browser.run("document.querySelector(`[aria-label='Select “${arguments[0]}”']`).click()", key)

    def fill(self, **values):
        """Types values into the form, and presses Enter in the last field."""
        self.browser.wait("return document.getElementById('form').open")
        for name, value in values.items():
            self.browser.run("const e = document.getElementById(`form-${arguments[0]}`); e.value = arguments[1]; e.dispatchEvent(new Event('input'))", name, value)

    def send(self):
        self.browser.run("document.getElementById('form-yes').click()")
        self.browser.wait("return !document.getElementById('form-yes').disabled")

    def press_form(self, name, where="#queue-actions"):
        self.browser.run("[...document.querySelectorAll(`${arguments[1]} button`)].find((b) => b.textContent === arguments[0]).click()", name, where)
        self.browser.wait("return document.getElementById('form').open")

    def test_a_queue_s_tasks_in_every_state_filtered_and_linked(self):
        self.bury("mail", "dead-1", "no such address")
        self.broker.ok("schedule", "mail", "--in", "1h", "--key", "order-1")
        self.broker.ok("schedule", "mail", "--in", "2h", "--key", "order-2")
        self.broker.ok("schedule", "mail", "--in", "0s", "--key", "held")
        self.broker.one("consume", "mail", "--count", 1, "--ack", "none")
        self.look()
        self.open_queue("mail")
        self.assertEqual(self.shown(), [["“dead-1”", "dead"]], "dead letters first")
        self.browser.run("const s = document.getElementById('tasks-state-wanted'); s.value = ''; s.dispatchEvent(new Event('change'))")
        self.browser.wait("return document.querySelectorAll('#tasks tr').length === 4")
        self.assertEqual(sorted(self.shown()), [["“dead-1”", "dead"], ["“held”", "in flight"], ["“order-1”", "waiting"], ["“order-2”", "waiting"]])
        self.browser.run("document.getElementById('tasks-prefix').value = 'order'; document.getElementById('tasks-form').requestSubmit()")
        self.browser.wait("return document.querySelectorAll('#tasks tr').length === 2")
        address = self.browser.run("return location.href")
        self.assertTrue(address.endswith("#queue=mail&prefix=order"), address)
        self.browser.open("about:blank")
        self.browser.open(address)
        self.browser.wait("return document.querySelectorAll('#tasks tr').length === 2")
        self.browser.run("document.getElementById('tasks-to').value = '2001-01-01T00:00'; document.getElementById('tasks-form').requestSubmit()")
        self.browser.wait("return document.getElementById('tasks-state').textContent === 'No such task.'")
        self.browser.run("history.back()")
        self.browser.wait("return document.querySelectorAll('#tasks tr').length === 2")

    def test_the_address_names_the_task_while_its_queue_changes(self):
        task = self.broker.one("schedule", "mail", "--in", "1h", "--key", "order-1")
        self.look()
        self.open_queue("mail")
        self.browser.run("[...document.querySelectorAll('#tasks button')].find((b) => b.textContent === '“order-1”').click()")
        self.browser.wait("return location.hash.startsWith('#task=')")
        self.browser.run("document.activeElement.blur()")
        self.broker.ok("schedule", "mail", "--in", "2h", "--key", "order-2")
        self.browser.wait("return document.querySelectorAll('#tasks tr').length === 2")
        self.assertEqual(self.browser.run("return location.hash"), f"#task={task['id']}")

    def test_selected_tasks_are_cancelled_moved_and_requeued_together(self):
        for number in range(3):
            self.bury("mail", f"dead-{number}", "no such address")
            self.broker.ok("schedule", "mail", "--in", "1h", "--key", f"k{number}")
        self.look()
        self.open_queue("mail")
        self.browser.run("const s = document.getElementById('tasks-state-wanted'); s.value = ''; s.dispatchEvent(new Event('change'))")
        self.browser.wait("return document.querySelectorAll('#tasks tr').length === 6")
        self.browser.run("document.getElementById('tasks-all').click()")
        self.assertEqual(self.names("#tasks-actions"), ["Move 3", "Cancel 3", "Requeue 3", "Drop 3"])
        self.browser.run("document.getElementById('tasks-all').click()")
        self.assertTrue(self.browser.run("return document.getElementById('tasks-chosen').hidden"))
        self.select("k0", "k2", "dead-1")
        self.assertEqual(self.names("#tasks-actions"), ["Move 2", "Cancel 2", "Requeue 1", "Drop 1"])
        self.press("Cancel 2")
        self.assertEqual(self.browser.run("return [document.getElementById('sure-yes').className, document.activeElement.id]"), ["danger", "sure-no"])
        self.confirm()
        self.assertEqual(self.said(), "Done: 2 of 2.")
        self.assertEqual([self.broker.one("get", "mail", key)["state"] for key in ("k0", "k1", "k2", "dead-1")], ["cancelled", "pending", "cancelled", "dead"])
        self.browser.wait("return document.querySelectorAll('#tasks tr').length === 4")
        self.select("dead-0", "dead-1")
        self.press("Requeue 2")
        self.confirm()
        self.browser.wait("return [...document.querySelectorAll('#tasks tr')].filter((r) => r.cells[2].textContent === 'ready').length === 2")
        self.select("k1", "dead-0")
        self.press("Move 2")
        self.browser.run("document.getElementById('sure-field').select()")
        self.browser.keys("2h\ue007")
        self.browser.wait("return [...document.querySelectorAll('#tasks tr')].every((r) => r.cells[2].textContent !== 'ready' || r.cells[1].textContent === '“dead-1”')")
        self.assertEqual(self.broker.one("get", "mail", "dead-0")["state"], "pending")
        self.assertEqual(self.browser.log(), [])

    def test_a_task_is_scheduled_with_a_form(self):
        self.broker.ok("schedule", "mail", "--in", "1h", "--key", "taken")
        self.look()
        self.open_queue("mail")
        self.press_form("Schedule a task")
        self.fill(**{"in": "soon", "key": "order-1", "payload": '{"order": 1234567890123456789}', "priority": "7", "attributes": "trace=a=b\n"})
        self.assertEqual(self.browser.run("return document.getElementById('form-queue').value"), "mail")
        self.send()
        self.assertIn("must be a duration", self.browser.wait("return document.getElementById('form-said').textContent"))
        self.assertEqual(self.browser.run(CONTRAST), [])
        self.assertEqual(self.browser.run(NAMES), [])
        self.fill(**{"in": "45m", "key": "taken"})
        self.send()
        self.browser.wait("return document.getElementById('form-said').textContent.startsWith('Nothing was done: a live task has this key')")
        self.fill(key="order-1")
        self.send()
        self.browser.wait("return !document.getElementById('form').open")
        self.assertTrue(self.said().startswith("Done: scheduled, due "), self.said())
        task = self.broker.one("get", "mail", "order-1")
        self.assertEqual((task["priority"], task["attributes"], task["json"]), (7, {"trace": "a=b", "content-type": "application/json"}, {"order": 1234567890123456789}))
        self.assertGreater(task["due_ms"] - task["scheduled_ms"], 44 * 60000)

    def test_a_policy_is_changed_after_its_difference_was_shown_and_a_queue_is_created(self):
        self.broker.ok("schedule", "mail", "--in", "1h")
        self.look()
        self.open_queue("mail")
        self.press_form("Change the policy")
        self.assertEqual(self.browser.run("return ['lease', 'max_attempts', 'backoff'].map((n) => document.getElementById(`form-${n}`).value)"), ["30s", "16", "exponential"])
        self.send()
        self.assertIn("Nothing has been changed", self.browser.run("return document.getElementById('form-said').textContent"))
        self.fill(lease="1m30s", max_attempts="5")
        self.send()
        self.assertEqual(self.browser.wait("return [...document.querySelectorAll('#form-difference li')].map((e) => e.textContent)"), ["lease: 30s → 1m30s", "max attempts: 16 → 5"])
        self.assertEqual(self.broker.one("queue", "show", "mail")["policy"]["lease_ms"], 30000, "nothing was sent")
        self.fill(lease="25h")
        self.assertTrue(self.browser.run("return document.getElementById('form-difference').hidden"), "the difference is shown again after a change")
        self.send()
        self.send()
        self.assertIn("lease", self.browser.wait("return document.getElementById('form-said').textContent"), "the broker's refusal")
        self.fill(lease="2m")
        self.send()
        self.send()
        self.browser.wait("return !document.getElementById('form').open")
        policy = self.broker.one("queue", "show", "mail")["policy"]
        self.assertEqual((policy["lease_ms"], policy["max_attempts"]), (120000, 5))
        self.press_form("Create a queue", "#queues-actions")
        self.fill(queue="calls", lease="10s")
        self.send()
        self.browser.wait("return document.getElementById('queue-title').textContent === 'Queue calls'")
        policy = self.broker.one("queue", "show", "calls")["policy"]
        self.assertEqual((policy["lease_ms"], policy["max_attempts"]), (10000, 16))

    def test_the_queues_that_the_filter_shows_are_paused_and_emptied_together(self):
        for name in ("orders.close", "orders.remind", "mail"):
            self.bury(name, "k", "no such address")
        self.look()
        self.browser.run("const f = document.getElementById('filter'); f.value = 'orders'; f.dispatchEvent(new Event('input'))")
        self.press("Pause these", "#queues-actions")
        self.assertEqual(self.browser.run("return document.getElementById('sure-title').textContent"), "Pause 2 queues?")
        self.confirm()
        self.assertEqual(self.said("queues-said"), "Done: 2 of 2.")
        self.assertEqual([self.broker.queue_stats(name)["paused"] for name in ("orders.close", "orders.remind", "mail")], [True, True, False])
        self.press("Drop their dead letters", "#queues-actions")
        self.confirm()
        self.browser.wait("return document.getElementById('queues-said').textContent === 'Done: 2 of 2 queues.'")
        self.browser.wait("return [...document.querySelectorAll('#rows tr')].every((r) => r.cells[4].textContent === '0')")
        self.assertEqual(self.broker.queue_stats("mail")["dead"], 1)

    def test_an_action_on_many_queues_takes_the_first_of_the_shown_list(self):
        names = [f"q{number:02}" for number in range(70)]
        schedule(self.broker, names)
        self.look()
        self.browser.run("document.querySelector('#heads button').click()")  # sorts by name, z to a
        self.assertEqual(self.browser.run("return document.querySelector('#rows tr').cells[0].title"), "q69")
        self.press("Pause these", "#queues-actions")
        self.confirm()
        self.assertEqual(self.said("queues-said"), "Done: 64 of 64.")
        paused = {queue["name"] for queue in self.broker.one("stats")["queues"] if queue["paused"]}
        self.assertEqual(paused, set(names[6:]))

    def test_a_queue_is_purged_and_deleted_after_its_name_is_typed(self):
        self.broker.ok("schedule", "mail", "--in", "1h", "--key", "k")
        self.look()
        self.open_queue("mail")
        self.press("Purge")
        self.browser.keys("mall\ue007")
        self.assertIn("not the queue's name", self.said())
        self.assertEqual(self.broker.one("get", "mail", "k")["state"], "pending")
        self.press("Purge")
        self.browser.keys("mail\ue007")
        self.browser.wait("return document.getElementById('queue-said').textContent.startsWith('Done: purge')")
        self.browser.wait("return [...document.querySelectorAll('#queue-actions button')].some((b) => b.textContent === 'Delete the queue') || (document.activeElement.blur(), false)")
        self.press("Delete the queue")
        self.confirm()
        self.browser.wait("return document.getElementById('queue-said').textContent.startsWith('Done: delete')")
        self.assertEqual(self.broker.one("stats")["queues"], [])

    def test_consumers_are_shown(self):
        self.broker.consume("mail", "--prefetch", "7")
        self.look()
        self.browser.wait("return document.querySelectorAll('#consumers-rows tr').length === 1")
        cells = self.browser.run("return [...document.querySelector('#consumers-rows tr').cells].map((c) => c.textContent)")
        self.assertEqual((cells[3], cells[4], cells[6]), ("mail (does not exist yet)", "7", "never"))

    def table(self, name):
        return self.browser.run("return [...document.querySelectorAll(`#${arguments[0]} tr`)].map((r) => [...r.cells].map((c) => c.textContent))", name)

    def check_accessible(self, view):
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 360)):
            self.browser.media(prefers_color_scheme=scheme)
            self.browser.size(width, 900, mobile=width < 1000)
            self.assertEqual(self.browser.run(CONTRAST), [], (view, scheme))
            self.assertEqual(self.browser.run(NAMES), [], (view, scheme))
            self.assertTrue(self.browser.run("return document.documentElement.scrollWidth <= innerWidth"), (view, width))
            self.look_with_axe(view, f"{scheme}, {width}")
        self.browser.size(1280, 900)

    def test_groups_are_shown_with_their_filters_and_how_far_behind_they_are(self):
        self.broker.ok("queue", "create", "orders")
        self.look()
        self.assertTrue(self.browser.run("return document.getElementById('groups').hidden"))
        self.broker.ok("group", "create", "orders:mail")
        self.broker.ok("group", "create", "orders:<b>", "--filter", "tag = '<img src=x onerror=\"window.xss=1\">'")
        self.broker.ok("queue", "pause", "orders:mail")
        for number in range(3):
            self.broker.ok("schedule", "orders", "--key", f"o{number}", "--in", "0s")
        self.broker.wait_stats("orders:mail", ready=3)
        self.look()
        self.browser.wait("return [...document.querySelectorAll('#groups-rows tr')].some((r) => r.cells[2].textContent === '3' && r.cells[3].textContent !== '–')")
        rows = {row[0]: row for row in self.table("groups-rows")}
        self.assertEqual((rows["orders:mail"][1], *rows["orders:mail"][4:]), ("*", "0", "0", "0, paused"))
        self.assertEqual(rows["orders:<b>"][1:4], ["tag = '<img src=x onerror=\"window.xss=1\">'", "0", "–"])
        self.assertFalse(self.browser.run("return Boolean(window.xss)"))
        self.check_accessible("groups")
        self.browser.run("document.querySelector('#groups-rows button').focus()")
        self.browser.keys("\ue007")
        self.browser.wait("return document.getElementById('queue-title').textContent === 'Queue orders:mail'")
        self.assertEqual(self.browser.log(), [])

    def test_recurring_tasks_are_created_changed_and_shown_with_their_next_times(self):
        self.look()
        self.assertTrue(self.browser.run("return document.getElementById('recurrences').hidden"))
        self.press_form("Create a recurring task", "#queues-actions")
        self.fill(of_queue="reports", its_name="daily", cron="0 25 * * *", zone="Asia/Shanghai")
        self.send()
        self.assertIn("cron, column 3", self.browser.wait("return document.getElementById('form-said').textContent"), "the broker's refusal")
        self.fill(cron="0 9 * * MON-FRI", body='{"report":"daily"}', attributes="kind=report", jitter="5m", overlap="allow", until="2090-01-01T00:00:00Z")
        self.send()
        self.browser.wait("return document.querySelectorAll('#recurrences-rows tr').length === 1")
        self.assertIn("Done: daily is set, next ", self.said("recurrences-said"))
        [row] = self.table("recurrences-rows")
        self.assertEqual(row[:4], ["daily", "reports", "0 9 * * MON-FRI, Asia/Shanghai", "active"])
        self.assertRegex(row[4], r"^20\d\d-\d\d-\d\d \d\d:\d\d:00$")
        self.assertEqual(row[5:9], ["never", "–", "0", "0"])
        self.browser.run("[...document.querySelectorAll('#recurrences-rows button')].find((b) => b.textContent === 'Change').click()")
        self.browser.wait("return document.getElementById('form').open")
        self.assertTrue(self.browser.run("return document.getElementById('form-its_name').readOnly"))
        self.fill(cron="30 8 * * *")
        self.send()
        self.browser.wait("return document.querySelector('#recurrences-rows tr').cells[2].textContent.startsWith('30 8')")
        view = self.broker.one("recur", "show", "daily")
        self.assertEqual((view["cron"], view["body"], view["attributes"], view["jitter_ms"], view["overlap"], view["until_ms"]),
                         ("30 8 * * *", '{"report":"daily"}', {"kind": "report"}, 300000, "allow", 3786912000000), "the form kept the other fields")
        self.press("Trigger daily of reports", "#recurrences")
        self.confirm()
        self.browser.wait("return document.getElementById('recurrences-said').textContent.startsWith('Done: trigger')")
        self.broker.wait_stats("reports", ready=1)
        self.press("Pause daily of reports", "#recurrences")
        self.confirm()
        self.browser.wait("return document.querySelector('#recurrences-rows tr').cells[3].textContent === 'paused'")
        self.check_accessible("recurring tasks")
        self.press("Delete daily of reports", "#recurrences")
        self.confirm()
        self.browser.wait("return document.querySelectorAll('#recurrences-rows tr').length === 0")
        self.assertEqual(self.broker.ok("recur", "list"), [])
        self.assertEqual([line for line in self.browser.log() if "400 (Bad Request)" not in line], [])

    def test_a_change_of_a_recurring_task_keeps_its_content_and_replaces_the_payload_if_a_body_is_given(self):
        payloads = {"counted": {"json": {"order": 1234567890123456789}}, "bytes": {"body_base64": "/wA="},
                    "lines": {"body": "one\r\ntwo", "attributes": {"note": "three\nfour = five"}}, "blanks": {"body": " \n"}}
        for name, payload in payloads.items():
            body = json.dumps({"every": "1h", "properties": "AAEC", **payload}).encode()
            request = urllib.request.Request(f"http://127.0.0.1:{self.broker.port}/v1/queues/reports/recurrences/{name}", data=body, method="PUT",
                                             headers={"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=harness.ANSWER_WAIT_S) as answer:
                self.assertEqual(answer.status, 200)
        self.look()
        for name, payload in payloads.items():
            row = f"[...document.querySelectorAll('#recurrences-rows tr')].find((r) => r.cells[0].textContent === '{name}')"
            self.browser.wait(f"return Boolean({row})")
            self.browser.run(f"[...{row}.querySelectorAll('button')].find((b) => b.textContent === 'Change').click()")
            self.browser.wait("return document.getElementById('form').open")
            self.fill(every="2h")
            self.send()
            self.browser.wait(f"return {row}.cells[2].textContent === 'every 2h'")
            view = self.broker.one("recur", "show", name)
            kept = {member: view.get(member) for member in ("properties", *payload)}
            self.assertEqual(kept, {"properties": "AAEC", **payload})
            self.browser.run(f"[...{row}.querySelectorAll('button')].find((b) => b.textContent === 'Change').click()")
            self.browser.wait("return document.getElementById('form').open")
            self.fill(every="3h", body="text")
            self.send()
            self.browser.wait(f"return {row}.cells[2].textContent === 'every 3h'")
            view = self.broker.one("recur", "show", name)
            self.assertEqual((view["body"], view["properties"]), ("text", "AAEC"))
            self.assertFalse({"json", "body_base64"} & set(view))
        self.assertEqual(self.browser.log(), [])

    def test_a_chart_tells_its_values_at_the_pointer_and_by_the_keyboard(self):
        self.broker.ok("schedule", "mail", "--in", "1h")
        self.look()
        self.browser.wait("return document.querySelectorAll('#charts polyline')[0].getAttribute('points').split(' ').length >= 3")
        caption = "return document.querySelector('#charts figcaption strong').textContent"
        self.assertEqual(self.browser.run(caption), "Per second")
        self.browser.run("document.querySelector('#charts svg').focus()")
        self.browser.keys("\ue012")
        self.assertIn("Per second, at ", self.browser.run(caption))
        self.assertEqual(self.browser.run("return [document.activeElement.localName, document.querySelectorAll('#charts .cursor').length]"), ["svg", 4])
        self.browser.run("document.activeElement.blur()")
        self.assertEqual(self.browser.run(caption), "Per second")
        self.browser.run("const s = document.querySelector('#charts svg'), b = s.getBoundingClientRect(); s.dispatchEvent(new PointerEvent('pointermove', {clientX: b.right - 1, clientY: b.top + 5}))")
        self.assertIn("Per second, at ", self.browser.run(caption))
        self.browser.run("const v = document.getElementById('time-view'); v.value = 'day'; v.dispatchEvent(new Event('change'))")
        self.assertEqual(self.browser.wait("return document.getElementById('time-said').textContent"), "The broker has counted 0 minutes since it started.")
        self.assertEqual(self.browser.run("return document.querySelector('#charts .span').textContent"), "24 h agonow")

    def test_actions_are_for_those_who_may(self):
        self.bury("mail", "k", "no such address")
        guard(self.broker, tokens.row("eye", "read"), tokens.row("op", "read,operate"))
        self.become("eye")
        self.open_queue("mail")
        self.assertEqual(self.dead(), [["“k”", "no such address"]])
        self.assertEqual(self.names("#queue-actions") + self.names("#tasks td"), [])
        self.find("k")
        self.assertEqual(self.names("#task-actions"), [])
        refused = self.browser.run("return fetch('/v1/commit', {method: 'POST', headers: {Authorization: `Bearer ${sessionStorage.getItem('tarry-token')}`, 'Content-Type': 'application/json'}, "
                                   "body: JSON.stringify({ops: [{drop: {queue: 'mail', key: 'k'}}]})}).then((a) => a.json())")
        self.assertIn("eye lacks the role", json.dumps(refused), "and the broker refuses it, whatever a page does")
        self.become("op")
        self.open_queue("mail")
        self.assertEqual(self.names("#queue-actions"), ["Change the policy", "Pause", "Requeue all", "Drop all", "Purge"])
        self.assertEqual(self.names("#tasks td"), ["Requeue", "Drop"])
        self.find("k")
        self.assertEqual(self.names("#task-actions"), ["Requeue", "Drop"])

    def test_dead_letters_of_a_hostile_queue_are_text_and_accessible(self):
        for text in HOSTILE:
            self.bury(HOSTILE[0], text, text, text)
        self.look()
        self.open_queue(HOSTILE[0])
        self.assertEqual(self.browser.run("return document.getElementById('queue-title').textContent"), f"Queue {HOSTILE[0]}")
        self.assertEqual(self.dead(), [[f"“{text}”", text] for text in HOSTILE])
        self.press(f"Drop “{HOSTILE[1]}”")
        self.assertEqual(self.browser.run("return document.getElementById('sure-title').textContent"), f"Drop “{HOSTILE[1]}” of {HOSTILE[0]}?")
        self.assertEqual(self.browser.run(CONTRAST), [])
        self.browser.keys("\ue00c")
        self.assertEqual(self.browser.run("return [window.xss ?? null, document.querySelectorAll('iframe, main img, main script, #queue a').length]"), [None, 0])
        self.assertEqual(self.browser.log(), [], "the policy had nothing to refuse")

    def test_whoever_is_confined_sees_his_queues(self):
        schedule(self.broker, ["orders.close", "mail"])
        guard(self.broker, tokens.row("shop", "read", "queue=orders."))
        self.become("shop")
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('#rows tr')].map((r) => r.cells[0].title)"), ["orders.close"])

    def test_the_dead_letters_are_accessible_and_fit_a_telephone(self):
        for number, reason in enumerate(("no such address", "HTTP 500 from shop.example.org, the third time", "the payload has no `order`")):
            self.bury("orders.close", f"order-{1001 + number}", reason)
        self.look()
        self.open_queue("orders.close")
        self.browser.size(1280, 900)
        for scheme in ("light", "dark"):
            self.browser.media(prefers_color_scheme=scheme)
            self.assertEqual(self.browser.run(CONTRAST), [], scheme)
            self.browser.run("document.getElementById('queues-title').scrollIntoView()")
            self.shoot(f"dead-{scheme}")
        self.assertEqual(self.browser.run(NAMES), [])
        self.assertEqual(self.browser.run("return document.querySelectorAll('th:not([scope])').length"), 0)
        self.browser.size(360, 740, mobile=True)
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 360)
        self.press("Drop all")
        self.assertEqual(self.browser.run(CONTRAST), [])
        self.shoot("dead-phone")
        self.browser.keys("\ue00c")
        self.browser.size(1280, 1000)

    def test_the_search_is_accessible_and_fits_a_telephone(self):
        self.bury("orders.close", "order-1001", "no such address", '{"order":1001}')
        self.broker.ok("dead", "requeue", "orders.close", "order-1001")
        self.look()
        self.find("order-1001")
        self.browser.size(1280, 1400)
        for scheme in ("light", "dark"):
            self.browser.media(prefers_color_scheme=scheme)
            self.assertEqual(self.browser.run(CONTRAST), [], scheme)
            self.browser.run("document.getElementById('find-title').scrollIntoView()")
            self.shoot(f"task-{scheme}")
        self.assertEqual(self.browser.run(NAMES), [])
        self.browser.size(360, 740, mobile=True)
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 360)
        self.browser.run("document.getElementById('task').scrollIntoView()")
        self.shoot("task-phone")
        self.browser.size(1280, 1000)

    def live(self):
        return self.browser.run("return document.body.dataset.live")

    def test_numbers_are_told_and_asked_for_when_the_stream_ends(self):
        self.broker.ok("schedule", "q", "--in", "1h")
        self.look()
        self.assertEqual(self.live(), "told")
        self.browser.run("window.asked = 0; new PerformanceObserver((l) => l.getEntries().forEach((e) => { window.asked += e.name.endsWith('/v1/stats'); })).observe({type: 'resource'})")
        self.broker.ok("schedule", "q", "--in", "1h")
        self.broker.ok("schedule", "other", "--in", "1h")
        self.browser.wait("return document.querySelectorAll('#rows tr').length === 2")
        self.assertEqual([self.row(name)[1] for name in ("q", "other")], ["2", "1"])
        self.assertEqual(self.browser.run("return window.asked"), 0, "nothing is asked for meanwhile")
        self.broker.ok("queue", "purge", "other")
        self.browser.wait("return [...document.querySelectorAll('#rows tr')].find((r) => r.cells[0].title === 'other').cells[1].textContent === '0'")
        self.broker.ok("queue", "delete", "other")
        self.browser.wait("return document.querySelectorAll('#rows tr').length === 1")
        self.broker.restart()
        self.browser.wait("return document.body.dataset.live === 'asked' && window.asked > 1")
        self.browser.wait("return document.body.dataset.live === 'told'", what="told again")
        self.browser.run("document.getElementById('freeze').click(); window.text = document.getElementById('state').textContent")
        self.assertEqual(self.browser.run("return document.getElementById('freeze').getAttribute('aria-pressed')"), "true")

    def test_a_revoked_token_ends_what_is_told(self):
        guard(self.broker, tokens.row("eye", "read"))
        self.become("eye")
        self.browser.wait("return document.body.dataset.live === 'told'")
        path = os.path.join(os.path.dirname(self.broker.data), "some.tokens")
        harness.make_private(path + ".new", tokens.FIRST_LINE + "loopback loopback roles=none\n")
        os.replace(path + ".new", path)
        self.browser.wait("return document.getElementById('state').textContent.startsWith('A token is wanted')")

    def test_a_thousand_queues_without_a_stutter(self):
        schedule(self.broker, [f"queue-{number:04}" for number in range(MANY)])
        self.look()
        self.browser.run("window.long = []; new PerformanceObserver((l) => l.getEntries().forEach((e) => window.long.push(e.duration))).observe({type: 'longtask'})")
        self.browser.run("window.turns = 0; new MutationObserver(() => window.turns++).observe(document.getElementById('state'), {childList: true})")
        self.browser.run("window.drawn = 0; new MutationObserver((l) => { window.drawn += l.length; }).observe(document.getElementById('rows'), {childList: true, characterData: true, subtree: true})")
        self.browser.wait("return window.turns >= 3")
        self.assertEqual(self.browser.run("return window.drawn"), 0, "what has not changed is not drawn anew")
        self.assertEqual(self.browser.run("return document.querySelectorAll('#rows tr').length"), 200)
        self.assertIn("200 of 1000", self.browser.run("return document.getElementById('shown').textContent"))
        self.browser.run("document.getElementById('filter').focus()")
        self.browser.keys("queue-0999")
        self.browser.wait("return document.querySelectorAll('#rows tr').length === 1")
        longest = max(self.browser.run("return window.long") or [0])
        print(f"# the longest task of the page with {MANY} queues: {longest:.0f} ms (0: none of 50 ms)")


@needs_one
class Webhooks(webhooks_test.Pushed):
    """Checks the page's view of webhook targets: they appear, and hostile text in them stays text."""

    def test_targets_are_seen_and_what_is_hostile_is_text(self):
        name = HOSTILE[0]
        self.write_secrets(f"q {self.secret}\n{name.replace(' ', '%20')} {self.secret}\n")
        hostile = f"http://127.0.0.1:{ports.free_port()}/';window.xss=1;//?javascript:window.xss=1&lt;script&gt;window.xss=1&lt;/script&gt;"
        self.push(name, hostile, "max_attempts=0")
        self.target.answer = lambda handler, request: handler.reply(500, HOSTILE[1].encode())
        self.push()
        for number in range(8):
            for queue in ("q", name):
                self.broker.ok("schedule", queue, "--key", f"k{number}", "--in", "0s", "--body", "{}")
        harness.wait_until("both rest", lambda: all(self.health(queue).get("resting_until_ms") for queue in ("q", name)), 60)
        with Browser() as browser:
            browser.open(f"http://127.0.0.1:{self.broker.port}/")
            browser.size(1280, 900)
            browser.wait(READY)
            rows = browser.wait("const rows = [...document.querySelectorAll('#push-rows tr')].map((r) => [...r.cells].map((c) => c.textContent)); return rows.length === 2 && rows")
            self.assertEqual([row[0] for row in rows], [name, "q"])
            self.assertEqual([row[1] for row in rows], [hostile, self.target.url()])
            self.assertEqual((rows[0][6], rows[1][6]), ("no answer", "500"))
            self.assertRegex(rows[0][8], "(Couldn't|Could not) connect to server")  # libcurl 7.88 says "Couldn't", libcurl 8.14 "Could not"
            self.assertIn("the target replied with status 500", rows[1][8])
            self.assertNotIn(self.secret.removeprefix("whsec_"), browser.run("return document.documentElement.outerHTML"))
            self.assertEqual(browser.run("return [window.xss ?? null, document.querySelectorAll('#push-rows *:not(tr, td, th)').length]"), [None, 0])
            for scheme in ("light", "dark"):
                browser.media(prefers_color_scheme=scheme)
                self.assertEqual(browser.run(CONTRAST), [], scheme)
            browser.size(360, 740, mobile=True)
            self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), 360)
            self.assertEqual(browser.log(), [])


if __name__ == "__main__":
    harness.main()
