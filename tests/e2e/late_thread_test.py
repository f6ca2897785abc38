"""late_thread_test.py: a client sends requests immediately after the start. Whichever thread starts late, tarryd replies and
does not crash: shared data is initialised before the first thread starts."""
import concurrent.futures
import time

import harness
import pair
import wire

LATE_MS = 600
WAIT_S = 30
BROKER = ("tarry-auditor", "tarry-sync", "tarry-sender", "tarry-cold", "tarry-parked", "tarry-index", "tarry-reader", "tarry-calendar", "tarry-backup",
          "tarry-locator", "tarry-core", "tarry-filters", "authorizer")
# Every kind of query, without a freshness condition and with each of the two freshness conditions. The pair's thread
# makes a query with a condition wait.
QUESTIONS = ((wire.GET, [(1, "orders"), (2, "one")]), (wire.LIST, [(1, "orders")]), (wire.QUEUES, []), (wire.STATS, []), (wire.AUDIT, []),
             (wire.CALENDAR, []), (wire.PAIR, []), (wire.BACKUP, []))
WISHES = ({}, {"at_least": 1, "wait_ms": 200}, {"staleness_ms": 1000, "wait_ms": 200})


def late(broker, thread):
    broker.env = {**broker.env, "LD_PRELOAD": harness.find_program("liblate_thread.so"), "LATE_THREAD": thread,
                  "LATE_THREAD_MS": str(LATE_MS)}


def ask(broker, packed):
    """Sends a request as soon as the broker listens."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            with wire.Rpc(broker.port) as rpc:
                return rpc.ask_packed(packed, WAIT_S)
        except (ConnectionRefusedError, AssertionError):  # the broker does not listen yet, or its process has just started
            if time.monotonic() > end or not broker.is_running():
                raise


def ask_everything(broker):
    """Sends all kinds of requests at once. Returns (code, reply) of each."""
    packed = [wire.wish(body, fields, **wish) for wish in WISHES for body, fields in QUESTIONS]
    with concurrent.futures.ThreadPoolExecutor(len(packed)) as pool:
        return list(pool.map(lambda one: ask(broker, one), packed))


class Alone(harness.Case):
    autostart = False

    def test_a_client_may_ask_before_any_one_thread_works(self):
        self.broker.start()
        self.broker.ok("schedule", "orders", "--key", "one", "--in", "1h")
        for thread in BROKER:
            with self.subTest(thread=thread):
                self.broker.stop()
                late(self.broker, thread)
                self.broker.launch()
                answers = ask_everything(self.broker)
                self.assertEqual(len(answers), len(QUESTIONS) * len(WISHES))
                self.broker.wait_ready()
                self.assertEqual(self.broker.one("get", "orders", "one")["state"], "pending")


class Pair(pair.Case):
    def test_a_client_may_ask_a_node_before_the_pairs_thread_works(self):
        self.start_pair()
        self.a.ok("schedule", "orders", "--key", "one", "--in", "1h")
        for broker in (self.b, self.a):  # restarts one node at a time, because the restarted node needs its peer: to follow it, or to hand over to it
            for thread in ("tarry-pair", "tarry-core", "tarry-index"):
                with self.subTest(node=broker.data, thread=thread):
                    broker.stop()
                    late(broker, thread)
                    broker.launch()
                    self.assertEqual(len(ask_everything(broker)), len(QUESTIONS) * len(WISHES))
                    broker.wait_ready()
                    self.assertTrue(broker.is_running(), broker.log_text())


if __name__ == "__main__":
    harness.main()
