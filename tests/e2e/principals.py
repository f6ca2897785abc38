"""principals.py: a broker and a file of tokens, for tests of permissions."""
import os

import harness
import tokens
import wire
from harness import Case

NOBODY = "loopback loopback roles=none\n"  # clients without a token may do nothing


def write(path, *rows):
    """Writes the file of tokens again, like `tarry token`."""
    harness.make_private(path + ".new", tokens.FIRST_LINE + "".join(rows))
    os.rename(path + ".new", path)


def page(where, path, token=None):
    """Returns (status, body) of a plain GET."""
    lines = [f"GET {path} HTTP/1.1", "Host: x", "Connection: close", *wire.bearer(token), "", ""]
    with wire.connected(where) as peer:
        peer.sendall("\r\n".join(lines).encode())
        answer = b""
        while part := peer.recv(65536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


class Access(wire.Connects, Case):
    autostart = False
    rows = ()

    def setUp(self):
        super().setUp()
        self.tokens = os.path.join(self.directory, "tokens")
        self.broker.arguments = [*self.arguments, "--tokens", self.tokens]
        if self.rows:
            self.begin(*self.rows)

    def begin(self, *rows):
        write(self.tokens, *rows)
        self.broker.start()

    def of(self, name):
        """Returns a connection that uses this principal's token."""
        return self.rpc(tokens.text_of(name))

    def log_says(self, text, count=1):
        self.broker.wait_logged(text, count, wait_s=20)
