"""access_test.py: permissions (docs/ACCESS.md): tokens at connection time, roles, queues, and the end of connections whose
rights were revoked. Limits: limits_test.py; the Unix socket: owner_test.py."""
import os
import subprocess
import time

import harness
import tokens
import wire
from harness import Case
from principals import NOBODY, Access, page, write
from tokens import row
from wire import (AUDIT, BACKUP, CALENDAR, COMMIT, DENIED, FORGOTTEN, GET, GOODBYE, HEARTBEAT, HELLO, LIST, NO_SUCH_SESSION, OK, PAIR, QUEUES,
                  STATS, SUBSCRIBE, UNSUBSCRIBE, WebSocket, commit, decode, number, results, schedule)

ROLES = ("produce", "consume", "read", "operate", "admin", "peer")


class Door(Access):
    rows = (row("shop", "produce"), row("watch", "read"), row("late", "read", "expires=1000"))

    def status(self, token, path="/rpc"):
        with WebSocket(self.broker.port, path, headers=wire.bearer(token)) as upgrade:
            return int(upgrade.answer.split()[1]), upgrade.answer

    def test_a_token_is_judged_before_anything_is_taken(self):
        self.assertEqual(self.status(tokens.text_of("shop"))[0], 101)
        wrong, answer = self.status("tarry_nobodys")
        self.assertEqual(wrong, 401)
        self.assertIn(b"WWW-Authenticate: Bearer", answer)
        self.assertEqual(self.status(tokens.text_of("late"))[0], 401)
        self.assertEqual(self.status("a " + tokens.text_of("shop"))[0], 401)  # a malformed token is refused like an unknown one
        self.assertEqual(self.status(None)[0], 101)  # loopback
        self.log_says("event=access_refused")
        log = "\n".join(self.broker.log)
        self.assertNotIn("tarry_", log.replace("tarry_nobodys", "tarry_"[:0]), "a token is in the log")

    def test_pages_too(self):
        self.assertEqual(page(self.broker.port, "/metrics", tokens.text_of("watch"))[0], 200)
        status, body = page(self.broker.port, "/metrics", tokens.text_of("shop"))
        self.assertEqual(status, 403)
        self.assertIn("shop lacks the role read or operate", body)
        self.assertEqual(page(self.broker.port, "/metrics", "tarry_nobodys")[0], 401)
        self.assertEqual(page(self.broker.port, "/healthz")[0], 200)

    def test_many_wrong_tokens_are_too_many_and_the_right_one_is_let_in(self):
        seen = [self.status("tarry_nobodys")[0] for _ in range(14)]
        self.assertEqual(seen, [401] * 10 + [429] * 4)
        self.assertEqual(self.status(tokens.text_of("shop"))[0], 101)
        body = page(self.broker.port, "/metrics")[1]
        self.assertIn("tarry_token_failures_total 14\n", body)
        self.assertIn("tarry_tokens 3\n", body)


class Roles(Access):
    rows = (*(row(role, role) for role in ROLES), row("none", "none"), NOBODY)
    # Requests by their fields. Each request has the roles that permit it; a client needs only one of them.
    REQUESTS = (
        (HELLO, [], {"produce", "consume", "operate", "admin"}),
        (GOODBYE, [(1, 1)], {"produce", "consume", "operate", "admin"}),
        (COMMIT, commit(1, 1, [schedule("q")]), {"produce", "consume", "operate", "admin"}),
        (SUBSCRIBE, [(1, "q")], {"consume"}),
        (HEARTBEAT, [(1, 1)], {"consume"}),
        (UNSUBSCRIBE, [(1, 1)], {"consume"}),
        (GET, [(1, [(2, "q"), (3, "k")])], {"produce", "read"}),
        (LIST, [(1, "q")], {"read", "operate", "admin"}),
        (QUEUES, [], {"read", "operate", "admin"}),
        (STATS, [], {"read", "operate", "admin"}),
        (CALENDAR, [(3, 60000), (4, 1)], {"read", "operate", "admin"}),
        (AUDIT, [], {"read", "admin"}),
        (BACKUP, [(2, 77)], {"admin"}),
        (PAIR, [], {*ROLES, "none"} - {"none"}),
        (PAIR, [(1, 2)], {"operate"}),
    )
    # Each operation of a commit, with the roles that permit it; a client needs only one of them.
    OPERATIONS = (
        (schedule("q", "k", 60000), {"produce"}),
        ([(2, [(1, [(2, "q"), (3, "x")])])], {"produce"}),  # cancel
        ([(3, [(1, [(2, "q"), (3, "x")]), (2, [(2, 5)])])], {"produce"}),  # move
        ([(4, [(1, 99), (2, [(1, 1), (2, 8)])])], {"consume"}),  # ack
        ([(5, [(1, 99), (2, [(1, 1), (2, 8)])])], {"consume"}),  # nack
        ([(6, [(1, 99), (2, [(1, 1), (2, 8)])])], {"consume"}),  # extend
        ([(7, [(1, 99), (2, [(1, 1), (2, 8)])])], {"consume"}),  # release
        ([(8, [(2, [(2, "q"), (3, "x")])])], {"operate"}),  # a requeue of dead letters
        ([(9, [(1, "q"), (2, [(1, 60000)]), (3, "lease_ms")])], {"operate"}),  # sets a queue's policy
        ([(10, [(1, "q")])], {"operate"}),  # resume
        ([(11, [(1, "q")])], {"operate"}),  # purge
        ([(12, [(1, [(2, "q"), (3, "x")]), (2, "asked for")])], {"admin"}),  # redact
    )

    def test_each_request_takes_its_role(self):
        for role in (*ROLES, "none"):
            rpc = self.of(role)
            for body, fields, allowed in self.REQUESTS:
                code, _ = rpc.ask(body, fields)
                with self.subTest(role=role, body=body, fields=fields):
                    self.assertEqual(code != DENIED, role in allowed, rpc.sentence)
                    if code == DENIED:
                        self.assertIn(f"{role} lacks the role", rpc.sentence)

    def test_each_operation_takes_its_role(self):
        for role in ("produce", "consume", "operate", "admin"):
            rpc = self.of(role)
            code, reply = rpc.ask(COMMIT, commit(rpc.hello(), 1, [op for op, _ in self.OPERATIONS]))
            self.assertEqual(code, OK)
            for (op, allowed), result in zip(self.OPERATIONS, results(reply), strict=True):
                with self.subTest(role=role, op=op):
                    self.assertEqual(number(result, 1) != DENIED, role in allowed, result)

    def test_who_shows_nothing_may_do_what_his_row_says(self):
        rpc = self.rpc()
        self.assertEqual(rpc.ask(HELLO, [])[0], DENIED)
        self.assertIn("use a token that has this role", rpc.sentence)
        self.assertEqual(self.rpc().ask(QUEUES, [])[0], DENIED)


class Queues(Access):
    rows = (row("shop", "produce,consume,read,operate", "queue=orders.", "queue=mail"),
            row("spy", "produce,consume,read,operate,admin", "queue=spies."),
            row("all", "produce,consume,read,operate,admin"))

    def test_other_queues_are_denied_one_by_one(self):
        rpc = self.of("shop")
        _, reply = rpc.ask(COMMIT, commit(rpc.hello(), 1, [schedule("orders.new"), schedule("orders"), schedule("mail")]))
        codes = [number(result, 1) for result in results(reply)]
        self.assertEqual(codes, [OK, DENIED, OK])
        self.assertIn(b"queue orders is not one of the queues that shop may use", results(reply)[1][12][-1])
        for body, fields in ((SUBSCRIBE, [(1, "mail"), (1, "spies.x")]), (LIST, [(1, "spies.x")]), (STATS, [(1, "spies.x")]),
                             (GET, [(1, [(2, "spies.x"), (3, "k")])]), (AUDIT, [])):
            self.assertEqual(rpc.ask(body, fields)[0], DENIED, (body, fields))
        self.assertEqual(page(self.broker.port, "/metrics", tokens.text_of("shop"))[0], 403)

    def test_a_task_in_anothers_queue_is_denied_whether_there_is_one_or_not(self):
        shop, spy = self.of("shop"), self.of("spy")
        _, reply = shop.ask(COMMIT, commit(shop.hello(), 1, [schedule("orders.new", "k", 60000)]))
        task = number(results(reply)[0], 3)
        producer = spy.hello()
        sentences = set()
        for sequence, there in enumerate((task, task + 1000), 1):
            ops = [[(2, [(1, [(1, there)])])], [(3, [(1, [(1, there)]), (2, [(2, 5)])])], [(4, [(1, there), (2, [(1, 1), (2, 8)])])],
                   [(8, [(2, [(1, there)])])], [(12, [(1, [(1, there)]), (2, "curious")])]]
            _, reply = spy.ask(COMMIT, commit(producer, sequence, ops, sequence))
            self.assertEqual([number(result, 1) for result in results(reply)], [DENIED] * len(ops))
            sentences.update(str(sorted(result.items())) for result in results(reply))
            self.assertEqual(spy.ask(GET, [(1, [(1, there)])])[0], DENIED)
            sentences.add(spy.sentence)
        self.assertEqual(len(sentences), 2, sentences)  # a refused operation and a refused `get` give different messages

    def test_anothers_session_producer_and_answers_are_not_to_be_had(self):
        shop, spy = self.of("shop"), self.of("spy")
        session = wire.Session(shop, ["orders.new"])
        producer = shop.hello()
        self.assertEqual(shop.ask(COMMIT, commit(producer, 1, [schedule("orders.new", "k", 60000)]))[0], OK)
        self.assertEqual(spy.ask(COMMIT, commit(producer, 1, [schedule("spies.x")]))[0], FORGOTTEN)
        self.assertEqual(spy.ask(HEARTBEAT, [(1, session.id)])[0], NO_SUCH_SESSION)
        spy.ask(UNSUBSCRIBE, [(1, session.id)])
        self.assertEqual(session.heartbeat(), OK)
        self.assertEqual(spy.ask(SUBSCRIBE, [(1, "spies.x"), (5, session.secret)])[0], NO_SUCH_SESSION)
        with session.dial() as lane:
            self.assertTrue(lane.accepted)

    def test_a_producer_stays_its_owners_after_a_restart(self):
        producer = self.of("shop").hello()
        local = self.rpc().hello()
        self.broker.restart()
        self.assertEqual(self.of("spy").ask(COMMIT, commit(producer, 1, [schedule("spies.x")]))[0], FORGOTTEN)
        self.assertEqual(self.of("shop").ask(COMMIT, commit(local, 1, [schedule("mail")]))[0], FORGOTTEN)
        self.assertEqual(self.of("shop").ask(COMMIT, commit(producer, 1, [schedule("mail")]))[0], OK)
        self.assertEqual(self.rpc().ask(COMMIT, commit(local, 1, [schedule("mail")]))[0], OK)
        self.broker.stop()  # a restart follows, after which the answers come from the index
        self.broker.start()
        self.assertEqual(self.of("spy").ask(COMMIT, commit(producer, 2, [schedule("spies.x")]))[0], FORGOTTEN)
        self.assertEqual(self.of("shop").ask(COMMIT, commit(producer, 2, [schedule("mail")]))[0], OK)

    def test_only_ones_own_queues_are_shown(self):
        rpc = self.of("all")
        rpc.ask(COMMIT, commit(rpc.hello(), 1, [schedule("orders.new"), schedule("spies.x")]))
        _, reply = self.of("shop").ask(QUEUES, [])
        self.assertEqual([decode(queue)[1][-1] for queue in decode(reply)[1]], [b"orders.new"])
        _, reply = self.of("shop").ask(STATS, [])
        self.assertEqual([decode(queue)[1][-1] for queue in decode(reply)[1]], [b"orders.new"])

    def test_nobody_takes_anothers_name(self):
        rpc = self.of("shop")
        for claimed, code in (("spy", DENIED), ("spy (host:1)", DENIED), ("owner", DENIED), ("shop", OK), ("spying", OK)):
            packed = wire.encode([(1, 1), (2, claimed), (HELLO, [])])
            self.assertEqual(rpc.ask_packed(packed)[0], code, claimed)


class Records(Access):
    rows = (row("shop", "produce"),)

    def test_the_log_says_whose_word_it_was(self):
        rpc = self.of("shop")
        rpc.ask(COMMIT, commit(rpc.hello(), 1, [schedule("q", "k", 60000)]))
        local = self.rpc()
        local.ask(COMMIT, commit(local.hello(), 1, [[(2, [(1, [(2, "q"), (3, "k")])])]]))
        scheduled, cancelled = self.broker.ok("history", "q", "k")
        self.assertEqual((scheduled["principal"], scheduled["client"]), ("shop", "wire.py"))
        self.assertNotIn("principal", cancelled)
        first, second = [line for line in self.broker.words("history", "q", "k").splitlines() if "  by " in line]
        self.assertIn('by shop ("wire.py") at 127.0.0.1:', first)
        self.assertIn('by "wire.py" at 127.0.0.1:', second)


class Audit(Access):
    """Refusals are recorded in the log (tarry.proto, AccessRefused)."""

    rows = (row("shop", "produce"), row("late", "read", "expires=1000"), row("few", "admin", "queue=few."))

    def knock(self, token):
        with WebSocket(self.broker.port, headers=wire.bearer(token)) as upgrade:
            self.assertFalse(upgrade.accepted)

    def refused(self, count=1):
        """Waits until there are `count` records of refusals, and returns them."""
        def look():
            found = self.broker.ok("audit", "--kind", "access_refused")
            return found if len(found) >= count else None
        return harness.wait_until("records of refusals", look, 20)

    def test_a_wrong_token_is_recorded_with_its_address_and_without_itself(self):
        before = harness.now_ms()
        self.knock("tarry_nobodys")
        record, = self.refused()
        self.assertEqual((record["why"], record["address"], record["count"]), ("unknown_token", "127.0.0.1", 1))
        self.assertLess(abs(record["first_ms"] - before), 20_000)
        self.assertEqual(record["first_ms"], record["last_ms"])
        self.assertNotIn("client", record)
        self.assertIn("1 from 127.0.0.1: an unknown token", self.broker.words("audit", "--kind", "access_refused"))
        log = b""
        for directory, _, names in os.walk(self.broker.data):
            for name in names:
                with open(os.path.join(directory, name), "rb") as file:
                    log += file.read() if os.path.isfile(file.name) else b""
        self.assertIn(b"127.0.0.1", log)
        self.assertNotIn(b"tarry_nobodys", log)

    def test_a_flood_is_one_record_and_its_rest_is_told_before_a_stop(self):
        for _ in range(200):
            self.knock("tarry_nobodys")
        self.refused()
        self.broker.stop()
        records = self.broker.ok("audit", "--data", self.broker.data, "--kind", "access_refused")
        self.assertLessEqual(len(records), 3)  # at most three reports: one at the first refusal, one at the stop, and one after a minute on a slow machine
        self.assertEqual(sum(record["count"] for record in records), 200)
        self.assertEqual(self.broker.ok("audit", "--data", self.broker.data)[-1]["kind"], "stop")
        harness.subprocess.run([harness.find_program("tarry"), "verify", self.broker.data], check=True, capture_output=True, timeout=60)
        self.broker.start()  # the broker reads a log with such records
        self.assertEqual(len(self.broker.ok("audit", "--kind", "access_refused")), len(records))

    def test_an_expired_token_is_recorded_by_whose_it_was(self):
        self.knock(tokens.text_of("late"))
        record, = self.refused()
        self.assertEqual((record["why"], record["principal"]), ("expired_token", "late"))

    def test_who_is_denied_what_few_may_is_recorded_and_others_are_not(self):
        shop, few = self.of("shop"), self.of("few")
        redact = [(12, [(1, [(2, "q"), (3, "k")]), (2, "asked for")])]
        self.assertEqual(shop.ask(BACKUP, [(1, 1)])[0], DENIED)
        self.assertEqual(shop.ask(COMMIT, commit(shop.hello(), 1, [redact, redact, schedule("q")]))[0], OK)
        self.assertEqual(few.ask(BACKUP, [(1, 1)])[0], DENIED)  # DENIED, because a backup concerns all queues
        self.assertEqual(self.rpc().ask(BACKUP, [(1, 1)])[0], DENIED)
        self.assertEqual(shop.ask(QUEUES, [])[0], DENIED)
        told = {(record.get("principal"), record["what"]): record["count"] for record in self.refused(4)}
        self.assertEqual(told, {("shop", "backup"): 1, ("shop", "commit: redact"): 2, ("few", "backup"): 1, (None, "backup"): 1})
        self.assertEqual({(record["why"], record["address"]) for record in self.refused()}, {("role_lacks", "127.0.0.1")})


class Changes(Access):
    def task_of(self, lane):
        return wire.tasks(lane.receive())[0]

    def leave_with_a_lease(self, name):
        """Returns a session of this principal that has one leased task on its lane."""
        rpc = self.of(name)
        rpc.ask(COMMIT, commit(rpc.hello(), 1, [schedule("q", "k")]))
        session = wire.Session(rpc, ["q"], lease_ms=3600000)
        lane = session.dial()
        self.sockets.append(lane)
        self.assertEqual(number(self.task_of(lane), 5), 1)
        return rpc, lane

    def assert_comes_back_to(self, name):
        session = wire.Session(self.of(name), ["q"])
        with session.dial() as lane:
            self.assertEqual(number(self.task_of(lane), 5), 2)  # the attempt is 2, because the first delivery counts as one

    def test_who_is_revoked_loses_connections_and_session(self):
        self.begin(row("shop", "produce,consume"), row("other", "consume"))
        rpc, lane = self.leave_with_a_lease("shop")
        bystander = self.of("other")
        write(self.tokens, row("other", "consume"))
        self.assertTrue(rpc.is_closed_by_peer())
        self.assertTrue(lane.is_closed_by_peer())
        self.assert_comes_back_to("other")
        self.assertNotEqual(bystander.ask(HEARTBEAT, [(1, 1)])[0], DENIED)  # a principal whose row in the file of tokens has not changed stays connected
        with WebSocket(self.broker.port, headers=wire.bearer(tokens.text_of("shop"))) as upgrade:
            self.assertFalse(upgrade.accepted)

    def test_who_expires_loses_them_too(self):
        self.begin(row("shop", "produce,consume", f"expires={int(time.time()) + 3}"), row("other", "consume"))
        rpc, lane = self.leave_with_a_lease("shop")
        self.assertTrue(rpc.is_closed_by_peer(20))
        self.assertTrue(lane.is_closed_by_peer(20))
        self.assert_comes_back_to("other")

    def test_other_roles_are_in_force_at_once(self):
        self.begin(row("shop", "produce"))
        rpc = self.of("shop")
        self.assertEqual(rpc.ask(QUEUES, [])[0], DENIED)
        write(self.tokens, row("shop", "read"))
        self.assertTrue(rpc.is_closed_by_peer())
        self.assertEqual(self.of("shop").ask(QUEUES, [])[0], OK)

    def test_a_wrong_file_changes_nothing_and_is_told_of(self):
        self.begin(row("shop", "read"))
        rpc = self.of("shop")
        harness.make_private(self.tokens, tokens.FIRST_LINE + "token shop roles=read\n")
        self.log_says("event=tokens_wrong")
        self.assertIn("line 2: hash is missing", self.broker.refused("status").one["problem"])
        self.assertIn("tarry_tokens_wrong 1\n", page(self.broker.port, "/metrics")[1])
        self.assertEqual(rpc.ask(QUEUES, [])[0], OK)
        self.assertEqual(self.of("shop").ask(QUEUES, [])[0], OK)
        os.chmod(self.tokens, 0o640)
        self.log_says("can be used by other users")
        os.unlink(self.tokens)
        self.log_says("No such file")
        self.assertEqual(self.of("shop").ask(QUEUES, [])[0], OK)
        write(self.tokens, row("other", "read"))
        self.log_says("event=tokens_read")
        self.assertTrue(rpc.is_closed_by_peer())
        self.assertFalse(self.broker.ok("status")[0].get("problem"))

    def test_at_the_start_a_wrong_file_is_refused(self):
        harness.make_private(self.tokens, "nonsense\n")
        self.broker.launch()
        self.assertEqual(self.broker.process.wait(30), 1)
        self.log_says("it is not a file of tokens")
        os.unlink(self.tokens)
        self.broker.launch()  # --tokens names a missing file
        self.assertEqual(self.broker.process.wait(30), 1)
        self.log_says("'tarry token add' creates it")
        write(self.tokens)
        self.broker.start()


class Local(Access):
    rows = (row("admin", "produce,admin"),)

    def test_who_shows_nothing_may_neither_redact_nor_back_up(self):
        local = self.rpc()
        redact = [(12, [(1, [(2, "q"), (3, "k")]), (2, "asked for")])]
        _, reply = local.ask(COMMIT, commit(local.hello(), 1, [schedule("q", "k", 60000), redact]))
        self.assertEqual([number(result, 1) for result in results(reply)], [OK, DENIED])
        self.assertEqual(local.ask(BACKUP, [(1, 1)])[0], DENIED)
        self.assertIn("lacks the role admin; use a token that has this role", local.sentence)
        self.assertNotEqual(self.of("admin").ask(BACKUP, [(2, 77)])[0], DENIED)


class Client(Access):
    """Checks the messages that a client without permission gets from the tool."""

    rows = (row("late", "read", "expires=1000"), NOBODY)

    def tool(self, *arguments, url=None, token="tarry_nobodys", **environment):
        """Runs the tool with a token. Returns (status, standard error, seconds)."""
        path = os.path.join(self.directory, "shown.token")
        harness.make_private(path, token + "\n")
        began = time.monotonic()
        done = subprocess.run([harness.find_program("tarry"), "--timeout", "60s", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=90, check=False,
                              env={**os.environ, "TARRY_BROKER": url or self.broker.url, "TARRY_TOKEN_FILE": path, **environment})
        return done.returncode, done.stderr, time.monotonic() - began

    def assert_denied(self, sentence, *arguments, **options):
        status, said, seconds = self.tool(*arguments, **options)
        self.assertEqual(status, 1, said)
        self.assertIn(sentence, said)
        self.assertLess(seconds, 20, said)

    def test_a_wrong_token_is_said_at_once(self):
        for arguments in (("schedule", "q", "--key", "k", "--in", "1h"), ("queues",), ("consume", "q", "--count", "1")):
            self.assert_denied("this broker does not know the token", *arguments)
        self.assert_denied("the token has expired", "queues", token=tokens.text_of("late"))

    def test_a_file_that_cannot_be_read_is_said_at_once(self):
        missing = self.path("none")
        for arguments in (("schedule", "q", "--key", "k", "--in", "1h"), ("queues",), ("consume", "q", "--count", "1")):
            self.assert_denied(f"the token file {missing} cannot be read: No such file or directory", *arguments, TARRY_TOKEN_FILE=missing)
        self.assertEqual(self.broker.log_text().count("access_refused"), 0)  # the clients sent no request

    def test_too_many_wrong_ones_are_said_at_once_too(self):
        for _ in range(11):
            with WebSocket(self.broker.port, headers=wire.bearer("tarry_nobodys")) as upgrade:
                self.assertFalse(upgrade.accepted)
        self.assert_denied("this address sent too many wrong tokens", "schedule", "q", "--key", "k", "--in", "1h")

    def test_one_address_of_two_that_is_silent_may_still_let_in(self):
        silent = f"ws://127.0.0.1:{harness.ports.free_port()}"
        status, said, seconds = self.tool("queues", "--timeout", "3s", url=f"{self.broker.url},{silent}")
        self.assertEqual(status, 3, said)
        self.assertIn("this broker does not know the token", said)
        self.assertGreater(seconds, 2)

    def test_a_token_is_not_shown_in_the_clear_to_another_machine(self):
        listen = f"ws://192.0.2.1:{harness.ports.free_port()}"  # TEST-NET-1: no host has this address, and the broker must not contact it
        self.assert_denied("not sent over unencrypted ws:// to another machine", "queues", url=listen)
        self.assert_denied("not sent over unencrypted ws:// to another machine", "queues", url="ws://a-name-that-is-not-localhost.invalid")
        status, said, _ = self.tool("queues", "--timeout", "1s", url=listen, TARRY_UNSAFE_PLAIN_TOKEN="1")
        self.assertEqual(status, 3, said)
        self.assertEqual(self.tool("queues", "--unsafe-plain-token", "--timeout", "1s", url=listen)[0], 3)


class Network(Access):
    def test_no_address_beyond_the_host_without_tokens(self):
        write(self.tokens, "loopback loopback roles=read\n")
        self.broker.listen = "ws://0.0.0.0:0"
        self.broker.arguments += ["--unsafe-no-tls"]
        self.broker.launch()
        self.assertEqual(self.broker.process.wait(30), 1)
        self.broker.reader.join(10)
        self.assertIn("--unsafe-no-tokens", "\n".join(self.broker.log))


class Tool(Case):
    autostart = False

    def token(self, *arguments, status=0):
        command = [harness.find_program("tarry"), "token", *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def test_a_token_is_made_shown_once_and_works(self):
        path = self.path("tokens")
        text = self.token("add", "shop", "--role", "read", "--file", path).strip()
        self.assertRegex(text, r"^tarry_[A-Za-z0-9_-]{43}$")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path, encoding="utf-8") as file:
            self.assertNotIn(text, file.read())
        self.assertNotIn(text, self.token("list", "--file", path))
        self.broker.arguments = ["--tokens", path]
        self.broker.start()
        with wire.Rpc(self.broker.port, text) as rpc:
            self.assertEqual(rpc.ask(QUEUES, [])[0], OK)
            self.token("revoke", "shop", "--file", path)
            self.assertTrue(rpc.is_closed_by_peer())

    def test_a_renewed_token_and_the_former_one_are_valid_at_once(self):
        path = self.path("tokens")
        former = self.token("add", "shop", "--role", "read", "--queue", "orders.", "--file", path).strip()
        self.broker.arguments = ["--tokens", path]
        self.broker.start()
        text = self.token("renew", "shop", "--former", "5s", "--file", path).strip()
        self.assertNotEqual(text, former)
        self.assertEqual(len(self.token("list", "--json", "--file", path).splitlines()), 2)
        self.assertIn("two valid tokens", self.token("renew", "shop", "--file", path, status=1))

        def accepted(token):
            with WebSocket(self.broker.port, headers=wire.bearer(token)) as upgrade:
                return upgrade.accepted
        harness.wait_until("the new token lets in", lambda: accepted(text), 20)
        harness.wait_until("the former token does not let in any more", lambda: not accepted(former), 20)
        self.assertTrue(accepted(text))
        self.token("renew", "shop", "--former", "0s", "--file", path)
        harness.wait_until("without an overlap the former token is invalid at once", lambda: not accepted(text), 20)
        self.token("revoke", "shop", "--file", path)
        self.assertEqual(self.token("list", "--json", "--file", path), "")

    def test_the_default_is_in_the_data_directory(self):
        self.broker.has_admin = False
        self.broker.start()
        text = self.token("add", "shop", "--role", "read", "--data", self.broker.data).strip()

        def accepted():
            with WebSocket(self.broker.port, headers=wire.bearer(text)) as upgrade:
                return upgrade.accepted
        harness.wait_until("the new token lets in", accepted, 20)

    def test_those_who_add_at_once_lose_nothing(self):
        path = self.path("tokens")
        command = [harness.find_program("tarry"), "token", "add", "--role", "read", "--file", path]
        runs = [subprocess.Popen([*command, f"t{i}"], stdout=subprocess.DEVNULL) for i in range(8)]
        self.assertEqual([run.wait(30) for run in runs], [0] * 8)
        self.assertEqual(len(self.token("list", "--json", "--file", path).splitlines()), 8)
        self.assertEqual(sorted(os.listdir(self.directory)), ["tokens"])

    def test_what_is_wrong_is_refused(self):
        path = self.path("tokens")
        for arguments, sentence in ((("shop",), "--role"), (("shop", "--role", "root"), "unknown role 'root'"),
                                    (("a b", "--role", "read"), "letters, digits"), (("owner", "--role", "read"), "reserved for the broker"),
                                    (("loopback", "--role", "admin"), "always need a token"),
                                    (("shop", "--role", "read", "--expires", "yesterday"), "such as 90d"),
                                    (("shop", "--role", "read", "--expires", "2020-01-01"), "not in the future"),
                                    (("shop", "--role", "read", "--limit", "rate=0"), "between 1 and"),
                                    (("shop", "--role", "read", "--queue", ""), "must not be empty")):
            self.assertIn(sentence, self.token("add", *arguments, "--file", path, status=2))
        self.assertIn("--file FILE or --data DIR", self.token("list", status=2))
        self.assertFalse(os.path.exists(path))
        self.token("add", "shop", "--role", "read", "--file", path)
        self.assertIn("already has a principal named", self.token("add", "shop", "--role", "read", "--file", path, status=1))
        self.assertIn("no principal named", self.token("renew", "other", "--file", path, status=1))
        self.assertIn("such as 7d", self.token("renew", "shop", "--former", "soon", "--file", path, status=2))
        self.assertIn("no principal named", self.token("revoke", "other", "--file", path, status=1))
        os.chmod(path, 0o644)
        self.assertIn("chmod 600", self.token("list", "--file", path, status=1))


if __name__ == "__main__":
    harness.main(watches_locks=True)
