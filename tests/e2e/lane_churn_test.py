"""lane_churn_test.py: hundreds of consumers that leave right after a delivery (F-19). nng 1.5.2 could count a closed pipe as
ready; the next delivery on that lane was lost, or ended the broker. lane_jitter.c makes the race likely."""
import os

import harness
import wire
from fault_wire_test import Wire
from wire import Session

ROUNDS = 600
NEWCOMER_ROUNDS, NEWCOMERS = 250, 5


class LaneChurn(Wire):
    autostart = False

    def start_late(self):
        jitter = os.path.join(os.environ["TARRY_BUILD_ROOT"], "tests", "e2e", "liblane_jitter.so")
        self.broker.env["LD_PRELOAD"] = jitter
        self.broker.start()

    def test_newcomers_on_a_lane_leave_nothing_behind(self):
        """Clients connect one after another with a session's secret during deliveries. In an earlier version the broker forgot
        the first one's connection.
        """
        self.start_late()
        rpc = self.rpc()
        producer, sequence = rpc.hello(), 0
        for turn in range(NEWCOMER_ROUNDS):
            session = Session(rpc, ["q"], prefetch=100)
            lanes = []
            for _ in range(NEWCOMERS):
                sequence += 1
                lanes.append(session.dial())
                rpc.tell(wire.COMMIT, wire.commit(producer, sequence, [wire.schedule("q")], oldest=sequence))
            for lane in lanes:
                lane.close()
            self.assertEqual(rpc.ask(wire.UNSUBSCRIBE, [(1, session.id)])[0], wire.OK)
            self.assertTrue(self.broker.is_running(), f"turn {turn}")

    def test_the_next_consumer_of_a_lane_is_served(self):
        self.start_late()
        self.broker.ok("queue", "set", "q", "max_attempts=0")
        self.broker.one("schedule", "q", "--key", "k", "--in", "0s")
        rpc = self.rpc()
        for turn in range(ROUNDS):
            with self.subTest(turn=turn):
                session = Session(rpc, ["q"], prefetch=1)
                with session.dial() as lane:
                    while not wire.tasks(delivery := lane.receive()):
                        pass  # a connection that names no session belongs to none
                    self.assertEqual(wire.number(wire.decode(delivery), 1), session.id)
        self.assertTrue(self.broker.is_running())


if __name__ == "__main__":
    harness.main()
