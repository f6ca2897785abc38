"""pair_ledger_test.py: producers and consumers continue while leaders are killed: acknowledged tasks are delivered, never early,
and settled once."""
import subprocess
import threading
import time

import harness
import pair


class Ledger(pair.Case):
    arguments = ("--failover-after", "3s", "--solo-after", "60s")  # long enough that even on a busy machine only a killed node counts as silent
    TASKS = 60

    def both(self, command):
        """Returns a command of the tool that names both nodes' addresses instead of node a's."""
        return [self.urls if word == self.a.url else word for word in command]

    def produce(self, done):
        for i in range(self.TASKS):
            while self.is_open:
                answer = self.tool("schedule", "work", "--key", f"w{i}", "--in", "1s")
                # "exists" is fine: an earlier attempt may have succeeded, although its reply was lost when its leader
                # died.
                if answer.objects and answer.one["result"] in ("scheduled", "exists"):
                    self.acknowledged.add(f"w{i}")
                    break
            time.sleep(0.05)
        done.set()

    def tool(self, *arguments):
        done = subprocess.run(self.both(self.a.command(*arguments)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, check=False)
        return harness.Answer(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))

    def test_nothing_is_lost_and_nothing_is_early(self):
        self.start_pair()
        self.is_open = True
        self.acknowledged = set()
        self.urls = f"{self.a.url},{self.b.url}"
        consumer = harness.Stream(self.both(self.a.command("consume", "work", "--timeout", "60s")), self.a.env)
        self.a.streams.append(consumer)
        done = threading.Event()
        threading.Thread(target=self.produce, args=(done,), daemon=True).start()
        leader, follower = self.a, self.b
        try:
            for _ in range(3):
                time.sleep(0.7)
                count = sum("event=leading" in line for line in follower.log)
                leader.kill()
                self.wait_log(follower, "event=leading", count + 1)
                leader.start()
                self.wait_in_sync()
                leader, follower = follower, leader
            self.assertTrue(done.wait(120), self.acknowledged)
        finally:
            self.is_open = False
        seen = {}
        while self.acknowledged - set(seen):
            delivery = consumer.take(1, 60)[0]
            seen[delivery["key"]] = delivery
            self.assert_not_early(delivery)
        self.assertEqual(len(self.acknowledged), self.TASKS)


if __name__ == "__main__":
    harness.main()
