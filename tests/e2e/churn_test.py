"""churn_test.py: many consumers that subscribe and leave as fast as they can while tasks are delivered. Lanes change their
holders while deliveries are being sent. The broker must not crash or lose a task; ThreadSanitizer checks for races (./dev
tsan runs this file)."""
import json
import os
import subprocess

import harness

THREADS = 8
CYCLES = 400 if os.environ.get("TARRY_SLOW") else 12 if harness.SANITIZED else 40


class Churn(harness.Case):
    def test_consumers_come_and_go_under_load(self):
        done = subprocess.run([harness.find_program("churn"), self.broker.url, str(THREADS), str(CYCLES)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        said = json.loads(done.stdout)
        self.assertEqual(said["opened"], THREADS * CYCLES)
        self.assertGreater(said["taken"], 0)
        self.assertTrue(self.broker.is_running())
        # Now no consumer has a task any more, and a new consumer gets the remaining tasks.
        stats = self.broker.wait_stats("churn", in_flight=0, wait_s=60)
        left = self.broker.consume("churn", "--count", str(min(10, stats["ready"])))
        left.take(min(10, stats["ready"]))


if __name__ == "__main__":
    harness.main()
