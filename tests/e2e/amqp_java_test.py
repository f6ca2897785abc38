"""amqp_java_test.py: a program for RabbitMQ that closes unpaid orders runs with RabbitMQ's Java client without a change."""
import os
import shutil
import subprocess
import unittest

import harness
from harness import Case

JARS = [f"/usr/share/java/{name}.jar" for name in ("amqp-client", "slf4j-api", "slf4j-nop")]
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "amqp_java", "Orders.java")


@unittest.skipUnless(shutil.which("javac") and all(map(os.path.exists, JARS)), "needs Debian's librabbitmq-client-java and libslf4j-java")
class Java(Case):
    arguments = ("--listen", "amqp://127.0.0.1:0")

    def test_unpaid_orders_are_closed_when_they_are_due(self):
        """TIME-1: no message is early, and a message with a short delay does not wait behind one with a long delay."""
        port = next(url.rsplit(":", 1)[1] for url in self.broker.ready["urls"].split() if url.startswith("amqp://"))
        classes = self.path("classes")
        subprocess.run(["javac", "-Xlint:-options", "-d", classes, "-cp", ":".join(JARS), SOURCE], check=True, timeout=120)
        done = subprocess.run(["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", ":".join((classes, *JARS)), "Orders", port],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        fast, slow, left = done.stdout.splitlines()
        self.assertEqual((fast.rsplit(" ", 1)[0], slow.rsplit(" ", 1)[0], left),
                         ("fast expired order.delay.queue", "slow expired order.delay.queue", "1 waits"))
        self.assertGreaterEqual(int(fast.rsplit(" ", 1)[1]), 300)
        self.assertLess(int(fast.rsplit(" ", 1)[1]), 1500)
        self.assertGreaterEqual(int(slow.rsplit(" ", 1)[1]), 1500)
        self.assertEqual(self.broker.one("cancel", "order.delay.queue", "order-3")["result"], "cancelled")
        self.broker.wait_stats("order.close.queue", acked=2, in_flight=0)


harness.main()
