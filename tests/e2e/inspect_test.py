"""inspect_test.py: tarryd --inspect answers questions about a directory and changes no byte in it."""
import hashlib
import os
import shutil
import subprocess
import urllib.error
import urllib.request

import harness


def fingerprint(directory):
    """Returns the content and the modification time of every file."""
    files = {}
    for root, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                files[path] = (hashlib.sha256(file.read()).hexdigest(), os.stat(path).st_mtime_ns)
    return files


class Inspected(harness.Case):
    """A broker's directory with tasks in every state, inspected afterwards."""

    def setUp(self):
        super().setUp()
        broker = self.broker
        broker.one("schedule", "orders", "--key", "later", "--in", "1h", "--body", "the body of later", "--attr", "a=b")
        broker.one("schedule", "orders", "--key", "ended", "--in", "1h")
        broker.one("cancel", "orders", "ended")
        broker.one("schedule", "orders", "--key", "buried", "--in", "0s")
        self.buried = broker.one("consume", "orders", "--count", "1", "--ack", "none")
        broker.one("nack", self.buried["id"], self.buried["token"], "--dead", "no such order")
        broker.one("schedule", "orders", "--key", "held", "--in", "0s")
        self.held = broker.one("consume", "orders", "--count", "1", "--ack", "none", "--lease", "1h")
        broker.one("queue", "pause", "orders")
        broker.schedule_all([{"queue": "orders", "key": f"ready-{number:02}", "delay_ms": 0, "priority": number % 3} for number in range(30)])
        broker.one("queue", "set", "other", "lease=77s")
        self.states = ("--state", "pending,ready,in_flight,dead")

    def look(self, broker, ready=30):
        stats = {name: value for name, value in broker.wait_stats("orders", ready=ready).items()
                 if name not in ("oldest_overdue_ms", "lateness_ms", "lateness")}
        return {
            "list": broker.ok("list", "orders", *self.states),
            "queues": broker.ok("queues"),
            "get": broker.one("get", "orders", "later"),
            "ended": broker.one("get", "orders", "ended"),
            "dead": broker.one("get", "--id", self.buried["id"]),
            "stats": stats,
            "digest": broker.queue_stats(None)["digest"],
            "history": broker.ok("history", "orders", "buried"),
            "audit": broker.ok("audit", "--queue", "orders"),
        }

    def inspect(self, data=None, *arguments):
        return self.make_broker("--inspect", *arguments, data=data or self.broker.data).start()

    def test_it_says_what_the_broker_said_and_changes_nothing(self):
        before = self.look(self.broker)
        self.assertEqual(self.broker.stop(), 0)
        files = fingerprint(self.broker.data)
        inspector = self.inspect()
        self.assertEqual(inspector.ready["mode"], "inspect")
        self.assertEqual(self.look(inspector), before)
        self.assertEqual(before["get"]["body"], "the body of later")
        self.assertEqual(before["ended"]["state"], "cancelled")
        self.assertEqual([task["state"] for task in before["list"] if task["key"] == "held"], ["in_flight"])
        for page in ("/healthz", "/metrics"):
            url = inspector.url.replace("ws://", "http://") + page
            with urllib.request.urlopen(url, timeout=harness.ANSWER_WAIT_S) as answer:
                self.assertEqual(answer.status, 200)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(inspector.url.replace("ws://", "http://") + "/readyz", timeout=harness.ANSWER_WAIT_S)
        with refused.exception as answer:
            self.assertEqual((answer.code, answer.read().split(b":")[0]), (503, b"inspecting"))
        self.assertEqual(inspector.stop(), 0)
        self.assertEqual(fingerprint(self.broker.data), files)

    def test_whatever_would_change_something_is_refused_with_a_sentence(self):
        self.assertEqual(self.broker.stop(), 0)
        inspector = self.inspect()
        files = fingerprint(self.broker.data)
        for command in (("schedule", "orders", "--in", "1s"), ("cancel", "orders", "later"),
                        ("move", "orders", "later", "--in", "1s"), ("ack", self.held["id"], self.held["token"]),
                        ("nack", self.held["id"], self.held["token"]), ("extend", self.held["id"], self.held["token"]),
                        ("release", self.held["id"], self.held["token"]),
                        ("queue", "pause", "orders"), ("queue", "set", "new", "lease=1s"),
                        ("queue", "purge", "orders"), ("dead", "drop", "orders", "--all")):
            answer = inspector.refused(*command)
            self.assertIn("--inspect", answer.err, f"{command}: {answer}")
        self.assertIn("runs with --inspect", inspector.refused("consume", "orders", "--count", "1").err)
        self.assertEqual(inspector.stop(), 0)
        self.assertEqual(fingerprint(self.broker.data), files)

    def test_a_tail_that_the_index_does_not_have_is_seen_too(self):
        """After SIGKILL, the index has not absorbed the end of the log, and the log has no seal. The inspector must show these
        last records and their due times.
        """
        self.broker.one("schedule", "orders", "--key", "soon", "--in", "20ms")
        self.broker.wait_stats("orders", ready=31)
        self.broker.one("schedule", "orders", "--key", "news", "--in", "1h")  # the last record: by then the task "soon" is ready
        before = self.look(self.broker, 31)
        self.broker.kill()
        files = fingerprint(self.broker.data)
        inspector = self.inspect()
        self.assertEqual(self.look(inspector, 31), before)
        self.assertEqual(inspector.stop(), 0)
        self.assertEqual(fingerprint(self.broker.data), files)

    def test_time_stands_still(self):
        """Under --inspect, logical time stands still: a task that is long overdue stays pending."""
        due_ms = self.broker.one("schedule", "soon", "--key", "soon", "--in", "3s")["due_ms"]
        self.broker.kill()
        inspector = self.inspect()
        now_ms = inspector.queue_stats(None)["now_ms"]
        while harness.now_ms() < due_ms + 500:
            self.assertEqual(inspector.one("get", "soon", "soon")["state"], "pending")
        self.assertEqual(inspector.queue_stats(None)["now_ms"], now_ms)
        self.assertEqual(int(inspector.ready["as_of_ms"]), now_ms)
        self.assertEqual(inspector.queue_stats("soon")["pending"], 1)

    def test_readers_share_it_and_keep_brokers_out(self):
        running = self.make_broker("--inspect", data=self.broker.data).launch()
        self.assertEqual(running.process.wait(harness.READY_WAIT_S), 1)
        running.reader.join(5)
        running.wait_logged("is locked")
        self.assertEqual(self.broker.stop(), 0)
        first, second = self.inspect(), self.inspect()
        self.assertEqual(first.ok("queues"), second.ok("queues"))
        done = subprocess.run([harness.find_program("tarry"), "verify", self.broker.data], check=False, capture_output=True)
        self.assertEqual(done.returncode, 0, done)
        broker = self.make_broker(data=self.broker.data).launch()
        self.assertEqual(broker.process.wait(harness.READY_WAIT_S), 1)
        broker.reader.join(5)
        broker.wait_logged("is locked")

    def test_a_copy_without_its_lock_on_a_medium_that_cannot_be_written(self):
        before = self.look(self.broker)
        self.assertEqual(self.broker.stop(), 0)
        copy = self.path("copy")
        shutil.copytree(self.broker.data, copy)
        os.remove(os.path.join(copy, "lock"))
        os.remove(os.path.join(copy, "index", "lock.mdb"))
        read_only = ["unshare", "-rm", "sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && "$@"', copy]
        if subprocess.run([*read_only, "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("mount namespaces are not allowed here")
        self.assertNotEqual(subprocess.run([*read_only, "touch", copy + "/x"], check=False, capture_output=True).returncode, 0)
        read_only[4] = read_only[4].replace('&& "$@"', '&& exec "$@"')
        inspector = harness.Broker(copy, "--inspect", prefix=read_only)
        self.brokers.append(inspector)
        inspector.start()
        self.assertEqual(self.look(inspector), before)
        self.assertEqual(inspector.stop(), 0)
        self.assertEqual(fingerprint(copy).keys(), {path.replace(self.broker.data, copy) for path in
                         fingerprint(self.broker.data) if not path.endswith(("/lock", "/lock.mdb"))})

    def test_what_is_no_data_directory_stays_what_it_is(self):
        empty = self.path("empty")
        os.mkdir(empty)
        for data in (empty, self.path("missing")):
            inspector = self.make_broker("--inspect", data=data).launch()
            self.assertEqual(inspector.process.wait(harness.READY_WAIT_S), 1)
            inspector.reader.join(5)
            inspector.wait_logged("not a data directory")
        self.assertEqual(os.listdir(empty), [])
        self.assertFalse(os.path.exists(self.path("missing")))

    def test_afterwards_a_broker_goes_on_with_it(self):
        self.broker.kill()
        inspector = self.inspect()
        self.assertEqual(inspector.stop(), 0)
        self.broker.start()
        self.broker.one("queue", "resume", "orders")
        # If a consumer does not return, its tasks are ready again after two seconds.
        keys = {line["key"] for line in self.broker.ok("consume", "orders", "--count", "31")}
        self.assertEqual(keys, {"held", *(f"ready-{number:02}" for number in range(30))})


if __name__ == "__main__":
    harness.main()
