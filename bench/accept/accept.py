"""accept.py: shared by the acceptance checks of issue 2: a probe that sends requests during the whole run, the memory and CPU time of a process, and the verdict."""
import contextlib
import os
import queue
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "e2e"))
import harness  # noqa: E402 (the import needs the changed sys.path)

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def new_broker(*arguments):
    """Starts a broker in a new directory (under $TARRY_BENCH_DIR); `finish` removes it."""
    directory = tempfile.mkdtemp(prefix="tarry-accept-", dir=os.environ.get("TARRY_BENCH_DIR"))
    return harness.Broker(os.path.join(directory, "data"), *arguments).start()


def finish(broker):
    for stream in broker.streams:
        stream.kill()
    if broker.is_running():
        broker.stop(120)
    harness.shutil.rmtree(os.path.dirname(broker.data), ignore_errors=True)


def status_kib(pid, field):
    """Returns a field of /proc/PID/status. VmRSS includes mapped file pages."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith(field + ":")).split()[1])


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Rss(threading.Thread):
    """Samples the resident memory of a broker's process until `end`, also after a restart: the maximum, in MiB."""

    def __init__(self, broker):
        super().__init__(daemon=True)
        self.broker, self.peak_kib, self.running = broker, 0, True
        self.start()

    def run(self):
        while self.running:
            with contextlib.suppress(OSError, StopIteration):  # the process has ended, and may be restarted
                self.peak_kib = max(self.peak_kib, status_kib(self.broker.process.pid, "VmRSS"))
            time.sleep(0.1)

    def end(self):
        self.running = False
        self.join()
        return self.peak_kib / 1024


class Probe(threading.Thread):
    """Repeatedly schedules a small task due in `delay_ms` and consumes it from a queue of its own. Measures how long the calls
    take and how late the tasks come. Reconnects by itself when the broker is killed."""

    def __init__(self, broker, delay_ms=1000, every_s=0.05):
        super().__init__(daemon=True)
        self.delay_ms, self.every_s = delay_ms, every_s
        self.calls_ms, self.late_ms, self.early, self.running = [], [], 0, True
        self.schedules = broker.stream("schedule", "--from", "-", "--timeout", "60s", stdin=True)
        self.consumer = broker.consume("probe", "--timeout", "60s")
        time.sleep(0.5)
        self.sent = 0
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.start()

    def run(self):
        while self.running:
            before = time.monotonic()
            self.schedules.send({"queue": "probe", "delay_ms": self.delay_ms})
            self.sent += 1
            answer = self.schedules.next(60)
            assert answer["result"] == "scheduled", answer
            self.calls_ms.append((time.monotonic() - before) * 1000)
            time.sleep(self.every_s)

    def read(self):
        while len(self.late_ms) < self.sent or self.running:
            try:
                delivery = self.consumer.next(0.5)
            except queue.Empty:
                continue
            if delivery is None:
                return
            self.early += delivery["received_ms"] < delivery["due_ms"]
            self.late_ms.append(delivery["received_ms"] - delivery["due_ms"])

    def forget(self):
        """Starts a new measurement; returns the former one."""
        calls, late = self.calls_ms, self.late_ms[:]
        self.calls_ms = []
        return calls, late

    def end(self):
        self.running = False
        self.join()
        deadline = time.monotonic() + self.delay_ms / 1000 + 10
        while len(self.late_ms) < self.sent and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.calls_ms, self.late_ms


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, round(share * (len(values) - 1)))] if values else 0


class Verdict:
    def __init__(self):
        self.failed = 0

    def check(self, good, sentence):
        print(f"{'ok  ' if good else 'FAIL'} {sentence}", flush=True)
        self.failed += not good

    def exit(self):
        sys.exit(1 if self.failed else 0)
