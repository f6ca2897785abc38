"""pair_at_work.py: a pair with a real coordinator, a producer that makes one call after another, and a consumer; both know the
addresses of both nodes. Uses the loopback device and ZooKeeper; the caller can choose network namespaces (argument `lack`, see
scene.py) and etcd instead. A module for other measurements, not a program."""
import os
import sys
import threading
import time

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", name) for name in ("e2e", "netns")]
from scene import Scene  # noqa: E402 (the import needs the changed sys.path)

DUE_EVERY_MS = 20
WAIT_S = 60


class Untold:
    """Discards the line, because measurements print no log."""

    def tell(self, line):
        pass


class Producer(threading.Thread):
    """`calls`: (start, time of the answer) of each call, in order, in ms of CLOCK_REALTIME."""

    def __init__(self, clients):
        super().__init__(daemon=True)
        self.stream = clients.stream("schedule", "--from", "-", stdin=True)
        self.calls, self.running = [], True
        self.start()

    def run(self):
        while self.running:
            asked_ms = time.time() * 1000
            self.stream.send({"queue": "calls", "delay_ms": 3_600_000})
            answer = self.stream.next(WAIT_S)
            assert answer["result"] == "scheduled", answer
            self.calls.append((asked_ms, time.time() * 1000))

    def longest_ms(self, since):
        """Returns the longest duration of a call in ms, without the calls before index `since`."""
        return max(answered - asked for asked, answered in self.calls[since:])

    def end(self):
        self.running = False
        self.join(WAIT_S)


class PairAtWork:
    def __init__(self, *options, story=None, lack=lambda: "measured on the loopback device", coordinator="zookeeper"):
        self.scene = Scene(story or Untold(), options, lack=lack, coordinator=coordinator)
        if self.scene.server is None:
            sys.exit(f"no real coordinator: {self.scene.lacks[-1]}")
        for name in self.scene.brokers:
            self.scene.launch(name)
        self.scene.roles()
        self.clients = self.scene.clients
        self.producer = Producer(self.clients)
        self.consumer = self.clients.consume("work")
        self.feeder = self.clients.stream("schedule", "--from", "-", stdin=True)
        self.deliveries = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while (delivery := self.consumer.lines.get()) is not None:
            self.deliveries.append(delivery)

    def feed(self, seconds):
        """Schedules tasks that fall due one after another from now on; the consumer acknowledges them."""
        count = seconds * 1000 // DUE_EVERY_MS
        self.feeder.send(*({"queue": "work", "delay_ms": number * DUE_EVERY_MS} for number in range(count)))
        answers = self.feeder.take(count, WAIT_S)
        assert all(answer["result"] == "scheduled" for answer in answers)

    def wait(self, what, check):
        end = time.monotonic() + WAIT_S
        while not (found := check()):
            assert time.monotonic() < end, f"{what}: not within {WAIT_S} s"
            time.sleep(0.005)
        return found

    def first_of_epoch_after(self, epoch, seen):
        """Returns the first delivery that came from a node that became leader later."""
        return self.wait("a delivery of the next leader", lambda: next(
            (delivery for delivery in self.deliveries[seen:] if int(delivery["token"].split("-")[0]) > epoch), None))

    def end(self):
        self.producer.end()
        self.scene.close()
