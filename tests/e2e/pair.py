"""pair.py: two brokers that are a pair, on their own ports, with a file as the coordinator. Node `a` founds the cluster, node
`b` joins it. Both keep their ports and directories across restarts."""
import re
import time

import harness
from frozen import freeze, thaw
from ports import free_port

WAIT_S = 20


class Case(harness.Case):
    """A test with two brokers that are not started yet. Both brokers get `arguments`, but --solo-after only if the pair has a
    coordinator.
    """

    autostart = False
    arguments = ("--failover-after", "3s", "--solo-after", "3s")
    coordinated = True

    def setUp(self):
        super().setUp()
        self.brokers.clear()
        if not self.coordinated and "--solo-after" in self.arguments:
            at = self.arguments.index("--solo-after")
            self.arguments = (*self.arguments[:at], *self.arguments[at + 2:])
        urls = [f"ws://127.0.0.1:{free_port()}" for _ in range(2)]
        keeper = ["--coordinator", f"file://{self.directory}/coordinator"] if self.coordinated else []
        self.a = self.make_broker("--peer", urls[1], *keeper, data=self.path("a"), listen=urls[0])
        self.b = self.make_broker("--follow", urls[0], *keeper, data=self.path("b"), listen=urls[1])

    def start_pair(self):
        """Starts both nodes. Waits until `a` leads and its commits are also on `b`."""
        self.a.start()
        self.b.start()
        self.wait_role(self.a, "leading")
        self.wait_in_sync()

    def record(self):
        """Returns the pair's record from the coordinator: name → text."""
        with open(self.path("coordinator"), encoding="utf-8", errors="replace") as file:
            return dict(re.findall(r"^([a-z-]+) (.*)$", file.read(), re.M))

    def wait_for(self, what, check, wait_s=WAIT_S):
        """Calls `check` until it returns a true value, and returns that value."""
        try:
            return harness.wait_until(what, check, wait_s)
        except AssertionError as late:
            logs = "\n".join(f"--- {b.data}\n{b.log_text(25)}" for b in self.brokers)
            raise AssertionError(f"{late}\n{logs}") from None

    def pending(self, broker, queue="orders"):
        """Returns the number of pending tasks at this node, whether it is primary or follower."""
        queues = broker.one("stats", "--from-follower")["queues"]
        return next((item["pending"] for item in queues if item["name"] == queue), 0)

    def wait_pending(self, broker, count):
        self.wait_for(f"{count} tasks at {broker.data}", lambda: self.pending(broker) == count)

    def slow_note(self, broker, wait_ms):
        """From its next start on, the node's hard state takes `wait_ms` to become durable."""
        broker.env = {**broker.env, "LD_PRELOAD": harness.find_program("libslow_note.so"), "SLOW_NOTE_MS": str(wait_ms)}

    def freeze(self, broker):
        freeze(broker.process)

    def thaw(self, broker):
        thaw(broker.process)

    def tearDown(self):
        for broker in self.brokers:
            if broker.is_running():
                self.thaw(broker)  # a stopped (SIGSTOP) process would not end
        super().tearDown()

    def wait_in_sync(self):
        self.wait_for("both in sync", lambda: self.record().get("in-sync") == "0 1")

    def wait_quiet(self):
        """Waits until the leader has nothing more to write, and returns the follower's status: the leader writes a seal
        shortly after its last frame.
        """
        end, end_of_log = time.monotonic() + WAIT_S, None
        while True:
            leads, told = self.a.tarry("status").one, self.b.tarry("status", "--broker", self.b.url).one
            if end_of_log == leads["appended"] == leads["durable"] == told["durable"] and leads["peer"]["lag_bytes"] == 0:
                return told
            self.assertLess(time.monotonic(), end, f"the log of an idle pair grows: {leads}, {told}")
            end_of_log = leads["appended"]
            time.sleep(0.2)  # more than ten times the time after which the leader writes a seal

    def wait_log(self, broker, text, count=1, wait_s=WAIT_S):
        self.wait_for(f"{text} in the log of {broker.data}", lambda: sum(text in line for line in broker.log) >= count, wait_s)

    def wait_role(self, broker, role, wait_s=WAIT_S):
        self.wait_for(f"{broker.data} {role}", lambda: any(f"event=role role={role}" in line for line in broker.log[-50:]), wait_s)
