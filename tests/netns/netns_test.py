"""netns_test.py: tests the network namespaces before other tests rely on them: a cut affects only its direction, a healed link
works, and nothing remains after the process that made the network. Without root, the test is skipped with a message.
"""
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/e2e")
import harness  # noqa: E402  (the path above)
from netns import Network, missing  # noqa: E402

LACK = missing()
WAIT_S = 30
LOOK_EVERY_S = 0.05
if LACK:
    print(f"# SKIPPED: no network can be cut here: {LACK}", flush=True)


class Sink(threading.Thread):
    """Counts the datagrams that reach a host, by their contents. Only its own thread closes the socket: otherwise a wait for the
    closed descriptor may continue with another file of the same number (after SIGCONT)."""

    def __init__(self, network, name):
        super().__init__(daemon=True)
        self.heard = []
        self.changed = threading.Condition()
        network.enter(name)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((network.address(name), 4000))
        self.socket.settimeout(LOOK_EVERY_S)
        self.is_over = False
        network.enter(None)
        self.start()

    def run(self):
        while not self.is_over:
            with contextlib.suppress(TimeoutError):
                text = self.socket.recv(100).decode()
                with self.changed:
                    self.heard.append(text)
                    self.changed.notify_all()
        self.socket.close()

    def close(self):
        self.is_over = True
        self.join()

    def wait(self, text):
        with self.changed:
            assert self.changed.wait_for(lambda: text in self.heard, WAIT_S), f"{text} did not come: {self.heard}"


@unittest.skipIf(LACK, f"no network namespaces: {LACK}")
class Rig(unittest.TestCase):
    def setUp(self):
        self.network = Network("a", "b", "clients")
        self.addCleanup(self.network.close)

    def wait_dropped(self, count):
        harness.wait_until(f"{count} lost", lambda: self.network.dropped() >= count, WAIT_S)
        self.assertEqual(self.network.dropped(), count)

    def send(self, source, sink, text):
        """Sends a datagram: unlike TCP, nothing repeats a lost one."""
        self.network.enter(source)
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                out.sendto(text.encode(), (self.network.address(sink), 4000))
        finally:
            self.network.enter(None)

    def test_a_cut_is_one_way_and_heals(self):
        sinks = {name: Sink(self.network, name) for name in ("a", "b", "clients")}
        try:
            self.network.cut_one_way("a", "b")
            self.send("a", "b", "lost")
            self.send("b", "a", "other way")
            self.send("a", "clients", "elsewhere")
            sinks["a"].wait("other way")
            sinks["clients"].wait("elsewhere")
            self.wait_dropped(1)
            self.network.heal("a", "b")
            self.send("a", "b", "healed")
            sinks["b"].wait("healed")
            self.assertEqual(sinks["b"].heard, ["healed"])
            self.network.isolate("a")
            for source, sink in (("a", "b"), ("b", "a"), ("clients", "a"), ("a", "clients")):
                self.send(source, sink, "lost")
            self.wait_dropped(5)
            self.send("b", "clients", "others go on")
            sinks["clients"].wait("others go on")
            self.network.heal()
            self.send("a", "b", "back")
            sinks["b"].wait("back")
            self.assertEqual(sum("lost" in sink.heard for sink in sinks.values()), 0)
        finally:
            for sink in sinks.values():
                sink.close()

    def test_a_connection_stands_and_goes_on_once_healed(self):
        self.network.enter("a")
        listener = socket.create_server((self.network.address("a"), 4001))
        self.network.enter("b")
        client = socket.create_connection((self.network.address("a"), 4001), WAIT_S)
        self.network.enter(None)
        server, _ = listener.accept()
        with listener, client, server:
            self.network.cut("a", "b")
            client.sendall(b"late")
            server.settimeout(0.2)
            with self.assertRaises(TimeoutError):
                server.recv(10)
            self.network.heal()
            server.settimeout(WAIT_S)
            self.assertEqual(server.recv(10), b"late")

    def test_a_slow_host_is_slow(self):
        self.network.enter("a")
        listener = socket.create_server((self.network.address("a"), 4002))
        self.network.enter("b")
        client = socket.create_connection((self.network.address("a"), 4002), WAIT_S)
        self.network.enter(None)
        server, _ = listener.accept()
        with listener, client, server:
            server.settimeout(WAIT_S)
            self.network.slow("b", 2000)
            started = time.monotonic()
            threading.Thread(target=client.sendall, args=(bytes(250_000),), daemon=True).start()
            left = 250_000
            while left > 0:
                got = len(server.recv(65536))
                self.assertGreater(got, 0)
                left -= got
            self.assertGreater(time.monotonic() - started, 0.5)  # 2,000,000 bits at 2,000,000 bits a second take 1 s; an initial burst is not slowed
            self.network.slow("b", None)

    def test_a_broker_is_there_for_others_and_cut_off_when_it_is_cut(self):
        with tempfile.TemporaryDirectory(prefix="tarry-netns-") as directory:
            broker = harness.Broker(directory + "/data", "--unsafe-no-tls", "yes", "--unsafe-no-tokens", "yes", listen=self.network.listen("a"),
                                    prefix=self.network.prefix("a")).start()
            try:
                self.network.enter("clients")
                broker.one("schedule", "q", "--in", "1h", "--key", "one", "--timeout", "20s")
                self.network.cut("a", "clients")
                broker.refused("schedule", "q", "--in", "1h", "--timeout", "1s", status=3)
                self.network.heal()
                broker.one("cancel", "q", "one", "--timeout", "20s")
            finally:
                self.network.enter(None)
                self.assertEqual(broker.stop(), 0)

    def test_nothing_outlives_a_killed_test(self):
        script = ("import sys, subprocess, time; sys.path.insert(0, sys.argv[1]); import netns; n = netns.Network('a', 'b')\n"
                  "p = subprocess.Popen([*n.prefix('a'), 'sh', '-c', 'echo; exec sleep 1000'], stdout=subprocess.PIPE)\n"
                  "p.stdout.readline()  # before, it has not asked for its end yet\n"
                  "print(*[h.process.pid for h in n.holders.values()], p.pid, flush=True); time.sleep(1000)")
        child = subprocess.Popen([sys.executable, "-c", script, os.path.dirname(os.path.abspath(__file__))], stdout=subprocess.PIPE)
        with child.stdout:
            pids = [int(pid) for pid in child.stdout.readline().split()]
            self.assertEqual(len(pids), 4)
            child.send_signal(signal.SIGKILL)
            child.wait()
        end = time.monotonic() + WAIT_S
        while alive := [pid for pid in pids if os.path.exists(f"/proc/{pid}/ns/net") and self.is_alive(pid)]:
            self.assertLess(time.monotonic(), end, f"still there: {alive}")
            time.sleep(0.02)

    def is_alive(self, pid):
        """A zombie process does not keep a namespace."""
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                return file.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
        except (FileNotFoundError, ProcessLookupError):  # the process ended before or during the read
            return False


if __name__ == "__main__":
    harness.main()
