"""owner_test.py: clients of the broker's Unix socket (docs/ACCESS.md). The broker's user and root may do everything without a
token. Other users have the rights of any local client.
"""
import os
import shutil
import subprocess
import unittest

import harness
import tokens
import wire
from principals import NOBODY, Access
from tokens import row
from wire import BACKUP, COMMIT, DENIED, FOLLOW, OK, QUEUES, Rpc, commit, number, results, schedule

BROKERS, OTHER = 61999, 61998  # uids of users that do not exist on this host
REDACT = [(12, [(1, [(2, "q"), (3, "k")]), (2, "asked for")])]
IS_ROOT = os.geteuid() == 0


def as_user(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


class Unix(Access):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o777)  # other users must also read and write here
        self.socket = os.path.join(self.directory, "socket")
        self.local = f"unix://{self.socket}"
        self.broker.arguments += ["--listen", self.local]

    def begin(self, *rows):
        super().begin(*rows)
        os.chmod(self.socket, 0o666)  # an operator who admits all users sets this mode

    def program(self, name, uid):
        """Returns the program's path; for another user a copy, because the tree may be readable by root only."""
        built, copied = harness.find_program(name), os.path.join(self.directory, name)
        if not uid:
            return built
        if not os.path.exists(copied):
            shutil.copy(built, copied)
            os.chmod(copied, 0o755)
        return copied

    def tool(self, *arguments, uid=None, url=None, token=None):
        """Runs the tool as another user. Returns (status, standard output, standard error)."""
        shown = ()
        if token is not None:
            path = os.path.join(self.directory, "shown.token")
            harness.make_private(path, token + "\n")
            shown = ("--token-file", path)
        command = [*(as_user(uid) if uid else ()), self.program("tarry", uid), *arguments, *shown, "--timeout", harness.TOOL_TIMEOUT, "--json",
                   "--broker", url or self.local]
        environment = {name: value for name, value in os.environ.items() if name != "TARRY_TOKEN_FILE"}
        if uid:
            self.program("libtarry.so.0", uid)
            environment["LD_LIBRARY_PATH"] = self.directory
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False, env=environment)
        return done.returncode, done.stdout, done.stderr

    def assert_done(self, *arguments, **options):
        status, said, why = self.tool(*arguments, **options)
        self.assertEqual(status, 0, why)
        return said

    def assert_denied(self, sentence, *arguments, **options):
        status, _, why = self.tool(*arguments, **options)
        self.assertEqual(status, 1, why)
        self.assertIn(sentence, why)

    def end_a_task(self, key, **options):
        self.assert_done("schedule", "q", "--key", key, "--in", "1h", "--body", "a secret", **options)
        self.assert_done("cancel", "q", key, **options)

    def assert_may_everything(self, whose, name, **options):
        """Checks that the user may redact and back up with the tool and no token, and that the log names the user."""
        self.end_a_task(name, **options)
        self.assert_done("redact", "q", name, "--reason", "asked for", **options)
        self.assert_done("backup", os.path.join(self.directory, f"backup-{name}"), "--no-verify", **options)
        redactions = [record for record in self.broker.ok("audit") if record["kind"] == "redacted"]
        self.assertEqual(redactions[-1]["principal"], "owner")
        self.assertIn(f"unix:uid={whose},pid=", redactions[-1]["peer"])

    def test_the_brokers_own_user_without_a_file_of_tokens(self):
        place = self.broker.arguments.index("--tokens")
        del self.broker.arguments[place:place + 2]
        self.broker.has_admin = False
        self.broker.start()
        self.assert_may_everything(os.geteuid(), "first")
        self.assert_denied("backup: loopback lacks the role admin", "backup", self.path("no"), url=self.broker.url)

    def test_the_brokers_own_user_beside_tokens(self):
        self.begin(row("shop", "produce"), NOBODY)
        with Rpc(self.socket) as rpc:
            self.assertEqual(rpc.ask(QUEUES, [])[0], OK)
            self.assertNotEqual(rpc.ask(BACKUP, [(2, 77)])[0], DENIED)
        self.assertEqual(self.rpc().ask(QUEUES, [])[0], DENIED)  # over loopback the same user has the rights of the loopback row

    def test_a_token_that_is_shown_counts_instead(self):
        self.begin(row("shop", "produce"), row("late", "admin", "expires=1000"))
        with Rpc(self.socket, tokens.text_of("shop")) as rpc:
            self.assertEqual(rpc.ask(BACKUP, [(2, 77)])[0], DENIED)
            self.assertIn("shop lacks the role admin", rpc.sentence)
            _, reply = rpc.ask(COMMIT, commit(rpc.hello(), 1, [schedule("q", "k", 60000), REDACT]))
            self.assertEqual([number(result, 1) for result in results(reply)], [OK, DENIED])
        for name in ("late", "nobody"):
            with wire.WebSocket(self.socket, headers=wire.bearer(tokens.text_of(name))) as upgrade:
                self.assertIn(b" 401 ", upgrade.answer)

    def test_over_loopback_the_same_user_is_anybody(self):
        self.begin(row("shop", "produce"))
        self.end_a_task("k")
        for arguments in (("redact", "q", "k", "--reason", "asked for"), ("backup", self.path("no"))):
            self.assert_denied("loopback lacks the role admin", *arguments, url=self.broker.url)

    @unittest.skipUnless(IS_ROOT, "needs two users")
    def test_root_beside_a_broker_of_another_user(self):
        self.broker.prefix = as_user(BROKERS)
        harness.make_private(self.tokens, tokens.FIRST_LINE)
        os.chown(self.tokens, BROKERS, BROKERS)
        self.broker.start()
        self.assert_may_everything(0, "root")
        self.assert_may_everything(BROKERS, "broker", uid=BROKERS)

    @unittest.skipUnless(IS_ROOT, "needs two users")
    def test_another_user_is_anybody_and_is_named(self):
        self.begin(row("admin", "produce,operate,admin"))
        self.end_a_task("k", uid=OTHER)
        task = [record for record in self.broker.ok("audit") if record["kind"] == "scheduled"][-1]
        self.assertNotIn("principal", task)
        self.assertIn(f"unix:uid={OTHER},pid=", task["peer"])
        for arguments in (("redact", "q", "k", "--reason", "asked for"), ("backup", self.path("no"))):
            self.assert_denied("loopback lacks the role admin", *arguments, uid=OTHER)
        refused = harness.wait_until("both are in the audit", lambda: self.refusals(2), 20)
        self.assertEqual({record["what"] for record in refused}, {"backup", "commit: redact"})
        self.assertEqual({record["address"] for record in refused}, {f"unix:uid={OTHER}"})
        self.assert_done("redact", "q", "k", "--reason", "asked for", token=tokens.text_of("admin"))

    @unittest.skipUnless(IS_ROOT, "needs two users")
    def test_another_user_may_no_more_than_the_row_says(self):
        self.begin(NOBODY)
        self.assert_denied("loopback lacks the role", "queues", uid=OTHER)
        self.assert_done("queues")

    def refusals(self, count):
        found = self.broker.ok("audit", "--kind", "access_refused")
        return found if len(found) >= count else None

    def test_the_other_node_proves_itself_by_the_key_here_too(self):
        """The owner has the role peer, but the pair's key is needed too: without it, a follower is refused."""
        self.broker.arguments += ["--peer", f"ws://127.0.0.1:{harness.ports.free_port()}"]
        self.begin(row("node", "peer"))
        for token in (None, tokens.text_of("node")):
            with Rpc(self.socket, token) as rpc:
                code, _ = rpc.ask(FOLLOW, [])
                self.assertEqual((code, len(rpc.reply[wire.peer_proof.CHALLENGE])), (wire.NOT_DONE, 1), rpc.sentence)


if __name__ == "__main__":
    harness.main()
