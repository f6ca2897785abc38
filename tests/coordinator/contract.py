"""contract.py: the contract of the coordinator's five calls, one suite for every kind of coordinator. `Contract` tests the calls;
`OverServer` tests them over a server that is stopped, killed, cut off, slow, or loses data (F-30, and R4 to R6 of FAULTS.md)."""
import itertools
import os
import random
import threading
import time

from probe import CALL_MS, PATIENT_MS, SESSION_MS, WAIT_S, harness
from proxy import DOWN, UP, Proxy

PRESENT_MS = 1500  # lifetime of a session and of a presence
NEEDED = {"done", "refused"}  # outcomes that each competition must see; "unknown" depends on chance


class Contract:
    """Tests of every kind of coordinator. `self.url()` is a new place at the coordinator."""

    def test_an_entry_changes_at_its_version_only(self):
        probe = self.probe(self.url())
        self.assertEqual(probe.done("read", "record")["version"], 0)
        self.assertEqual(probe.call("set", "record", 3, "early")["outcome"], "refused")
        self.assertEqual(probe.done("set", "record", 0, "one")["version"], 1)
        for version in (0, 2, 99999999999):
            self.assertEqual(probe.call("set", "record", version, "wrong")["outcome"], "refused")
        self.assertEqual(probe.done("set", "record", 1, "two")["version"], 2)
        answer = self.probe(self.url()).done("read", "record")
        self.assertEqual((answer["version"], answer["value"]), (2, "two"))
        self.assertLess(probe.close(), 20000)

    def test_a_multi_happens_whole_or_not_at_all(self):
        probe = self.probe(self.url())
        self.assertEqual(probe.done("multi", "record", 0, "r1", "other", 0, "o1")["versions"], [1, 1])
        self.assertEqual(probe.call("multi", "record", 1, "r2", "other", 7, "o2")["outcome"], "refused")
        self.assertEqual(probe.call("multi", "record", 1, "r2", "other", 2, "=")["outcome"], "refused")
        self.assertEqual(probe.call("multi", "record", 1, "r2", "other", 0, "o2")["outcome"], "refused")
        self.assertEqual(probe.call("multi", "record", 1, "r2", "third", 1, "=")["outcome"], "refused")
        self.assertEqual(probe.done("read", "record")["value"], "r1")
        self.assertEqual(probe.done("multi", "record", 1, "r2", "other", 1, "=")["versions"], [2, 1])
        self.assertEqual(probe.done("read", "record")["value"], "r2")
        self.assertEqual(probe.done("read", "other")["version"], 1)

    def test_who_watches_hears_of_every_change(self):
        watching, changing = self.probe(self.url()), self.probe(self.url())
        watching.ask("watch", "record")
        self.assertEqual(watching.done("read", "record")["version"], 0)
        for version in range(5):
            start = len(watching.news)
            changing.done("set", "record", version, f"v{version}")
            watching.wait_news(lambda item: item.get("changed") == "record", start)
            self.assertEqual(watching.done("read", "record")["version"], version + 1)

    def test_of_many_who_compete_one_succeeds(self):
        """Each process appends its mark to the value. A change with the outcome done is in the value once; a refused one is
        not.
        """
        outcomes = self.compete(self.url(), [self.url()] * 3, rounds=15)
        self.assertIn("done", {outcome for outcome, _ in outcomes.values()})

    def until_present(self, probe, value):
        """Reads the presence until the entry NAME has the text `value`, or until NAME is absent if `value` is None."""
        def look():
            answer = probe.done("present", "present-0")
            return (answer["value"] if answer["version"] else None) == value
        harness.wait_until(f"present: {value}", look, WAIT_S)

    def test_f31c_who_declares_itself_is_present_for_a_while(self):
        """A node's presence at the coordinator is only information, so it does not change the version of any entry."""
        there, asking = self.probe(self.url(), PATIENT_MS, PRESENT_MS), self.probe(self.url())
        there.done("set", "record", 0, "one")
        self.until_present(asking, None)
        for epoch in ("epoch1", "epoch2"):
            there.call("declare", "present-0", epoch)
            self.until_present(asking, epoch)
        self.until_present(asking, None)  # the node no longer declares its presence
        there.call("declare", "present-0", "epoch3")
        self.until_present(asking, "epoch3")
        there.close()
        self.until_present(asking, None)

    def test_f31c_who_has_died_is_present_no_more(self):
        """A successor may declare its presence while its predecessor still counts as present. Then the successor is present
        with its own text.
        """
        asking = self.probe(self.url())
        asking.done("set", "record", 0, "one")
        for text in ("first", "second"):
            there = self.probe(self.url(), PATIENT_MS, PRESENT_MS)
            there.call("declare", "present-0", text)
            self.until_present(asking, text)
            there.kill()
        self.until_present(asking, None)

    def test_f31c_who_says_something_else_is_there_meanwhile_and_heard_of(self):
        """A follower can ask its leader a question through the coordinator. The leader answers by declaring its presence with
        another text. The presence is never absent meanwhile.
        """
        there, asking = self.probe(self.url(), PATIENT_MS, PRESENT_MS), self.probe(self.url())
        there.done("set", "record", 0, "one")
        asking.ask("watch", "present-0")
        there.call("declare", "present-0", "says-00")
        self.until_present(asking, "says-00")
        for number in range(1, 12):
            text, seen, start = f"says-{number:02}", None, len(asking.news)
            while seen != text:
                there.call("declare", "present-0", text)
                answer = asking.done("present", "present-0")
                self.assertEqual(answer["version"], 1, text)
                seen = answer["value"]
            asking.wait_news(lambda item: item.get("changed") == "present-0", start)
            harness.wait_until("it is known to stand", lambda: there.call("stands", text)["stands"], WAIT_S)
            self.assertFalse(there.call("stands", "something-else")["stands"])

    def compete(self, url, urls, rounds, chaos=None):
        """Several processes compete through `urls`, whose connections may be cut at any time. The test reads the true value
        through `url`, which is never cut. With faults, the rounds continue until every outcome in NEEDED has occurred.
        """
        outcomes, threads = {}, []

        def is_over(done):
            seen = {outcome for outcome, _ in list(outcomes.values())}
            return done >= rounds and (not chaos or NEEDED <= seen or done >= 10 * rounds)

        def work(number, probe):
            for round_number in itertools.takewhile(lambda done: not is_over(done), itertools.count()):
                now = probe.call("read", "record")
                if now["outcome"] != "done":
                    continue
                mark = f"{number}.{round_number};"
                answer = probe.call("set", "record", now["version"], now["value"] + mark)
                outcomes[mark] = answer["outcome"], answer.get("version")
                if chaos:
                    time.sleep(random.uniform(0, 0.03))  # slow down, so that the network fails at least twice before the rounds end

        for number, way in enumerate(urls):
            probe = self.probe(way, *((300, 1000) if chaos else ()))
            threads.append(threading.Thread(target=work, args=(number, probe)))
            threads[-1].start()
        if chaos:
            chaos(threads)
        for thread in threads:
            thread.join()
        self.judge(self.probe(url).done("read", "record"), outcomes)
        return outcomes

    def judge(self, end, outcomes):
        marks = [mark + ";" for mark in end["value"].split(";")[:-1]]
        self.assertEqual(len(marks), len(set(marks)), "nothing happened twice")
        self.assertEqual(len(marks), end["version"], "each version is one change")
        for mark, (outcome, version) in outcomes.items():
            if outcome == "done":
                self.assertEqual(marks[version - 1], mark, "what was done is there, as the version that was told")
            if outcome == "refused":
                self.assertNotIn(mark, marks, "what was refused never happens")
        self.assertLessEqual(set(marks), set(outcomes))


class OverServer(Contract):
    """Tests with a real server, `make_server()`; each test has its own path. `named`: the server's name in sentences."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.make_server()
        cls.addClassCleanup(cls.server.close)
        cls.server.start().wait_ready()
        cls.paths = 0

    def setUp(self):
        super().setUp()
        type(self).paths += 1
        self.path = f"/tarry/pair-{self.paths}"

    def url(self):
        return self.server.url(self.path)

    def by_proxy(self):
        proxy = Proxy(self.server.port)
        self.addCleanup(proxy.close)
        return proxy, self.server.url(self.path, proxy.port)

    def impatient(self, url, call_ms=CALL_MS, session_ms=SESSION_MS):
        """Returns a connected probe whose calls may fail; the record is there, at version 1."""
        self.probe(self.url()).done("set", "record", 0, "one")
        probe = self.probe(url, call_ms, session_ms)
        self.until_done(probe, "read", "record")
        return probe

    # ---- faults of the network during a call

    def test_a_lost_reply_is_unknown_though_it_happened(self):
        """F-30"""
        proxy, url = self.by_proxy()
        probe, other = self.impatient(url), self.probe(self.url())
        proxy.hold(DOWN)
        self.unknown(probe.call("set", "record", 1, "two"), "it did not answer in time|connection was lost")
        harness.wait_until("it has happened", lambda: other.done("read", "record")["version"] == 2, WAIT_S)
        proxy.cut()
        proxy.heal()
        answer = self.until_done(probe, "read", "record")
        self.assertEqual((answer["version"], answer["value"]), (2, "two"))

    def test_a_connection_that_breaks_before_the_reply_leaves_it_unknown(self):
        """F-30: the change was made, but the client only sees that the connection was reset."""
        proxy, url = self.by_proxy()
        probe, other = self.impatient(url, PATIENT_MS, 30000), self.probe(self.url())
        proxy.hold(DOWN)
        number = probe.ask("set", "record", 1, "two")
        end = time.monotonic() + 60
        while other.done("read", "record")["version"] == 1 and time.monotonic() < end:
            pass
        proxy.cut()
        self.unknown(probe.answer(number), "connection was lost before the answer came")
        proxy.heal()
        self.assertEqual(self.until_done(probe, "read", "record")["version"], 2)

    def test_a_lost_request_is_unknown_though_it_never_happened(self):
        """F-30"""
        proxy, url = self.by_proxy()
        probe = self.impatient(url)
        proxy.hold(UP)
        self.unknown(probe.call("set", "record", 1, "two"))
        proxy.cut()
        proxy.heal()
        self.assertEqual(self.until_done(probe, "read", "record")["version"], 1)

    def test_unknown_may_mean_not_yet(self):
        """F-30, R5: a read showed the unchanged record, but an earlier request in flight may still take effect."""
        proxy, url = self.by_proxy()
        proxy.lingers = True
        probe, other = self.impatient(url, 300, 30000), self.probe(self.url())
        start = len(other.news)
        other.ask("watch", "record")
        other.wait_news(lambda item: "changed" in item, start)
        proxy.hold(UP)
        self.unknown(probe.call("set", "record", 1, "two"))
        self.assertEqual(other.done("read", "record")["version"], 1)
        start = len(other.news)
        proxy.heal()
        while other.done("read", "record")["version"] == 1:
            start = other.wait_news(lambda item: "changed" in item, start)
        self.assertEqual(other.done("read", "record")["value"], "two")

    def test_competing_over_a_network_that_breaks_all_the_time(self):
        """F-30: replies and requests are lost, late or cut off. A change with the outcome done is there; a refused one is not."""
        proxies = [self.by_proxy() for _ in range(3)]
        generator = random.Random(os.environ.get("TARRY_SEED", "7"))

        def chaos(threads):
            while any(thread.is_alive() for thread in threads):
                proxy, _ = generator.choice(proxies)
                proxy.hold(*generator.choice([(UP,), (DOWN,), (UP, DOWN)]))
                time.sleep(generator.uniform(0.02, 0.12))
                if generator.random() < 0.7:
                    proxy.cut()
                proxy.heal()
                time.sleep(generator.uniform(0, 0.02))

        self.probe(self.url()).done("read", "record")
        outcomes = self.compete(self.url(), [url for _, url in proxies], 40, chaos)
        self.assertLessEqual(NEEDED, {outcome for outcome, _ in outcomes.values()})

    # ---- faults of a server

    def test_a_stopped_server_ends_no_call_late_and_is_found_again(self):
        """F-30: SIGSTOP"""
        probe = self.impatient(self.url(), session_ms=3000)
        self.server.pause()
        try:
            started = time.monotonic()
            self.unknown(probe.call("read", "record"))
            self.unknown(probe.call("set", "record", 1, "two"))
            self.assertLess(time.monotonic() - started, 2 * CALL_MS / 1000 + 20)
            probe.message(f"no connection to {self.named} at 127.0.0.1:")
            self.assertEqual(probe.call("session")["session"], "connecting")
        finally:
            self.server.resume()
        self.assertIn(self.until_done(probe, "read", "record")["version"], (1, 2))
        self.assertEqual(probe.call("session")["message"], "")

    def test_a_stopped_server_lets_itself_be_closed(self):
        probe = self.impatient(self.url())
        self.server.pause()
        try:
            self.assertLess(probe.close(), 20000)
        finally:
            self.server.resume()

    def test_a_killed_server_comes_back_with_what_was_done(self):
        """F-30: SIGKILL"""
        probe = self.impatient(self.url(), session_ms=3000)
        probe.ask("watch", "record")
        self.server.kill()
        self.unknown(probe.call("set", "record", 1, "two"), "no answer|lost")
        probe.message(f"no connection to {self.named} at 127.0.0.1:.*Connection refused")
        self.server.start().wait_ready()
        answer = self.until_done(probe, "read", "record")
        self.assertIn(answer["version"], (1, 2))
        start = len(probe.news)
        self.probe(self.url()).done("set", "record", answer["version"], "three")
        probe.wait_news(lambda item: "changed" in item, start)

    def test_an_expired_session_is_opened_again_and_watches_on(self):
        proxy, url = self.by_proxy()
        probe, other = self.impatient(url, PATIENT_MS, 1500), self.probe(self.url())
        probe.ask("watch", "record")
        probe.wait_news(lambda item: "changed" in item)  # the first event shows that the watch is set
        before = probe.call("session")["sessions"]
        end = time.monotonic() + 60
        while probe.call("session")["sessions"] == before and time.monotonic() < end:
            proxy.hold()  # the proxy holds all bytes for longer than a session lasts
            time.sleep(3)
            proxy.cut()
            proxy.heal()
            time.sleep(0.5)
        self.assertGreater(probe.call("session")["sessions"], before)
        self.assertEqual(self.until_done(probe, "read", "record")["version"], 1)
        start = len(probe.news)
        other.done("set", "record", 1, "two")
        probe.wait_news(lambda item: "changed" in item, start)
        self.assertEqual(self.until_done(probe, "read", "record")["version"], 2)

    # ---- actions of an operator

    def test_an_entry_that_is_deleted_or_made_again_is_not_believed(self):
        """R4, F-31b: the versions of a deleted and recreated entry start again at the beginning. A client must not confuse
        them with versions of the former entry.
        """
        probe, other = self.probe(self.url()), self.probe(self.url())
        probe.done("set", "record", 0, "one")
        self.assertEqual(probe.done("read", "record")["version"], 1)
        self.delete("record")
        self.unknown(probe.call("read", "record"), "is gone .version 0 after 1.: somebody deleted it")
        other.done("set", "record", 0, "another")
        self.unknown(probe.call("read", "record"), "deleted and made again")
        answer = probe.call("set", "record", 1, "two")
        self.assertNotEqual(answer["outcome"], "done")
        self.assertRegex(answer["reason"], "deleted and made again|another content or history")
        self.assertEqual(other.done("read", "record")["value"], "another", "nothing was changed on top of it")

    def test_a_host_without_an_address_does_not_keep_us_from_the_others(self):
        probe = self.probe(self.url().replace("127.0.0.1:", "nobody.invalid:2181,localhost:"))
        self.assertEqual(probe.done("read", "record")["version"], 0)
