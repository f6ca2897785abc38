"""foreign_test.py: tarryd is what nng 1.5.2's own REQ and PULL sockets believe it to be. libtarry has sockets of its own, so a client that
knows nothing of it judges the wire (foreign.c)."""
import subprocess

import harness


class Foreign(harness.Case):
    def foreign(self, key, size):
        return subprocess.run([harness.find_program("foreign"), self.broker.url, "q", key, str(size)], capture_output=True, text=True,
                              timeout=60, check=False)

    def lives(self, key, size):
        done = self.foreign(key, size)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["greeted", "scheduled", "delivered", "acked"])
        queue, found, content_size = lines[2].split()[1:]
        self.assertEqual((queue, found), ("q", key))
        self.assertGreaterEqual(int(content_size), size)
        self.assertEqual(self.broker.one("get", "q", key)["state"], "acked")

    def test_a_task_goes_through_its_life(self):
        self.lives("small", 10)

    def test_a_payload_that_takes_many_frames(self):
        self.lives("large", 900_000)


if __name__ == "__main__":
    harness.main()
