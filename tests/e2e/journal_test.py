"""journal_test.py: if standard error is systemd's journal, log lines become entries with fields, and go only there. If
standard error only claims to be the journal, log lines stay on it.
"""
import os
import shutil
import signal
import socket
import subprocess
import unittest

import harness

SOCKET_FOLDER = "/run/systemd/journal"
STREAM = "JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2)"


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "mounts need root")
class Journal(harness.Case):
    def run_with(self, stream):
        """Returns (entries up to the ready entry, standard error) of a broker with this $JOURNAL_STREAM."""
        folder = self.path("journal")
        os.mkdir(folder)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
            journal.bind(os.path.join(folder, "socket"))
            journal.settimeout(harness.READY_WAIT_S)
            script = f'mkdir -p {SOCKET_FOLDER} && mount --bind {folder} {SOCKET_FOLDER} && export {stream} && exec "$@"'
            command = ["unshare", "-m", "sh", "-c", script, "sh", harness.find_program("tarryd"), "--data", self.path("other"), "--listen", "ws://127.0.0.1:0"]
            process = subprocess.Popen(command, stderr=subprocess.PIPE)
            entries = []
            try:
                while not any(entry.get("TARRY_EVENT") == "ready" for entry in entries):
                    entries.append(dict(line.split("=", 1) for line in journal.recv(65536).decode().splitlines()))
            except TimeoutError:
                pass
            finally:
                process.send_signal(signal.SIGTERM)
                said = process.communicate(timeout=60)[1].decode()
            return entries, said

    def test_entries_have_fields(self):
        entries, said = self.run_with(STREAM)
        ready = entries[-1]
        self.assertEqual((ready["TARRY_EVENT"], ready["PRIORITY"], ready["SYSLOG_IDENTIFIER"], ready["TARRY_EPOCH"]), ("ready", "6", "tarryd", "1"))
        self.assertTrue(ready["MESSAGE"].startswith("event=ready url=ws://127.0.0.1:"))
        self.assertEqual(ready["TARRY_URL"], ready["MESSAGE"].split()[1].removeprefix("url="))
        self.assertNotIn("event=ready", said, "it is not said twice")


if __name__ == "__main__":
    harness.main()
