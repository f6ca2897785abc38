"""demo_pair.py: `./dev demo --pair`: the same day of orders on a primary and its follower.

    0 %  of the day: node a leads, node b follows, both are in sync
   25 %  a is killed with SIGKILL; b takes over
   45 %  a is started again, as b's follower
   60 %  a consumer is killed
   75 %  planned switch-over: b hands over to a
   85 %  an upgrade: b, then a is stopped (SIGTERM) and started
    end  both are in sync; their states and their logs are the same

Clients have both addresses and are not informed of the steps. Each step waits until the previous one is complete, without a
time limit. If the day ends before the last step, the demonstration has failed. The coordinator is the one that --coordinator
names (etcd://HOST:PORT/PATH, zk://HOST:PORT/PATH); without that option an etcd that is started, or, if etcd is not installed,
a file.
"""
import os
import subprocess
import sys
import threading

import demo_play
import harness
from ports import free_port

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "coordinator"))
import etcd  # noqa: E402  (the path above)

KILL_PRIMARY_AT, RETURN_AT, KILL_CONSUMER_AT, SWITCH_AT, UPGRADE_AT = 0.25, 0.45, 0.60, 0.75, 0.85
WAIT_S = 60


class Caller(threading.Thread):
    """A producer that makes one call after the other, and measures the longest one."""

    def __init__(self, urls):
        super().__init__(daemon=True)
        command = [harness.find_program("tarry"), "schedule", "--from", "-", "--broker", urls, "--json"]
        self.stream = harness.Stream(command, dict(os.environ), stdin=True)
        self.count, self.longest_ms, self.failed, self.running = 0, 0, None, True
        self.start()

    def run(self):
        while self.running and not self.failed:
            asked_ms = harness.now_ms()
            self.stream.send({"queue": "calls", "delay_ms": 24 * 3_600_000})
            answer = self.stream.next(WAIT_S)
            self.longest_ms = max(self.longest_ms, answer["_arrived_ms"] - asked_ms)
            self.count += 1
            self.failed = None if answer["result"] == "scheduled" else answer

    def end(self):
        self.running = False
        self.join(WAIT_S)
        self.stream.kill()


class TwoBrokers(demo_play.Demo):
    def __init__(self, arguments, coordinator=None):
        super().__init__(arguments)
        self.keeper = None if coordinator or etcd.missing() else etcd.Etcd()
        self.coordinator = coordinator or (self.keeper.url() if self.keeper else f"file://{self.directory}/coordinator")
        self.figures = {}

    # ---- the brokers

    def start(self):
        if self.keeper:
            self.keeper.start().wait_ready()
        urls = [f"ws://127.0.0.1:{free_port()}" for _ in range(2)]
        for name, url, *options in (("a", urls[0], "--peer", urls[1]), ("b", urls[1], "--follow", urls[0])):
            self.brokers.append(harness.Broker(os.path.join(self.directory, name), *options, "--coordinator",
                                               self.coordinator, listen=url))
        self.a, self.b = self.brokers
        self.a.start()
        self.b.start()
        self.urls = ",".join(urls)
        self.wait_in_sync()
        self.say(f"a leads on {self.a.url}, b follows on {self.b.url}; the coordinator is {self.coordinator}")
        return self.urls

    def tarry(self, *arguments):
        """Runs the tool with both addresses, and returns its result."""
        command = [harness.find_program("tarry"), *arguments, "--broker", self.urls, "--json"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=WAIT_S, check=False)
        return harness.Answer(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))

    def wait_in_sync(self):
        """Waits until one node leads, the other follows, all acknowledged commits are on both, and no node reports a problem."""
        harness.wait_until("the pair is in sync", lambda: self.tarry("status").status == 0, WAIT_S)

    def lines(self, broker, event):
        return [line for line in broker.log if f"event={event}" in line.split()]

    def end(self):
        try:
            super().end()
        finally:
            if self.keeper:
                self.keeper.close()

    # ---- the day: each step reports whether it could be shown

    def disturb(self):
        steps = ((KILL_PRIMARY_AT, self.kill_primary), (RETURN_AT, self.bring_back),
                 (KILL_CONSUMER_AT, self.kill_consumer), (SWITCH_AT, self.switch_over),
                 (UPGRADE_AT, self.upgrade))
        for part, step in steps:
            if not self.wait_day(part) or not step():
                self.figures["missed"] = step.__name__
                return

    def kill_primary(self):
        pid, led = self.a.process.pid, len(self.lines(self.b, "leading"))
        self.a.process.kill()
        killed_ms = harness.now_ms()
        self.a.kill()  # wait until the process has ended
        harness.wait_until("b leads", lambda: len(self.lines(self.b, "leading")) > led, WAIT_S)
        led_ms = harness.now_ms() - killed_ms
        first = harness.wait_until("b delivers", lambda: self.first_delivery(killed_ms + 1), WAIT_S)
        self.figures["failover_ms"] = first["at_ms"] - killed_ms
        self.say(f"the primary a (pid {pid}) was killed with SIGKILL; b led {led_ms} ms after that, in epoch "
                 f"{first['epoch']}, and delivered its first task after {self.figures['failover_ms']} ms")
        return True

    def first_delivery(self, since_ms):
        """Returns the record of the first lease that b made at `since_ms` or later; None if b has made no such lease."""
        answer = self.tarry("audit", "--kind", "leased", "--from", str(since_ms), "--limit", "1")
        return answer.objects[0] if answer.status == 0 and answer.objects else None

    def bring_back(self):
        self.a.start()
        self.wait_in_sync()
        tails = [harness.parse_logfmt(line) for line in self.lines(self.a, "tail_quarantined")]
        size = sum(int(tail["to"]) - int(tail["from"]) for tail in tails)
        self.figures["quarantined_bytes"] = size
        self.say("a is back, and follows b: both are in sync again; "
                 + (f"{size} bytes that it had written, and nobody was told of, are put aside in its quarantine"
                    if size else "b had everything that a had written"))
        return True

    def switch_over(self):
        self.wait_in_sync()
        answer = self.tarry("demote")
        if answer.status != 0:
            self.say(f"tarry demote: {answer}")
            return False
        self.wait_in_sync()
        self.figures["switch_over_ms"] = answer.one["took_ms"]
        self.say(f"`tarry demote`: b has handed over to a, and follows it after {answer.one['took_ms']} ms")
        return True

    def upgrade(self):
        """Upgrades like an operator: stops and starts each node in turn."""
        self.wait_in_sync()
        caller = Caller(self.urls)
        for broker in (self.b, self.a):
            broker.stop()
            broker.start()
            self.wait_in_sync()
        caller.end()
        self.figures["upgrade_call_ms"] = caller.longest_ms
        self.say(f"both were stopped and started, one after the other: of {caller.count} calls meanwhile the longest took "
                 f"{caller.longest_ms} ms, and {caller.failed or 'none'} failed; b leads")
        return caller.failed is None

    # ---- end of the demonstration

    def judge(self):
        if "missed" in self.figures:
            self.say(f"{self.figures['missed']} could not be shown: the day was over too soon for it; take a lower --speed")
            return 1
        self.wait_in_sync()
        for broker in (self.a, self.b):  # stops the follower before the leader, because it would take over if the leader stopped
            broker.stop()
        same = subprocess.run([harness.find_program("tarry"), "verify", self.a.data, "--against", self.b.data],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.say("both were in sync in the end; their logs are " + ("the same" if same.returncode == 0 else
                                                                    "DIFFERENT:\n" + same.stdout.decode()))
        figures = ("failover_ms", "switch_over_ms", "upgrade_call_ms", "quarantined_bytes")
        print("pair: " + " ".join(f"{name}={self.figures[name]}" for name in figures), flush=True)
        return same.returncode
