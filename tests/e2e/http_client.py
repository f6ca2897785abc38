"""http_client.py: HTTP for tests: one persistent connection, and raw bytes where needed."""
import http.client
import json
import socket


class Http:
    """Sends requests on one connection, one after the other."""

    def __init__(self, port, token=None):
        self.port, self.token = port, token
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.headers = {}

    def ask(self, method, path, body=None, headers=(), kind="application/json"):
        """Returns (status, parsed body)."""
        sent = {**({"Authorization": f"Bearer {self.token}"} if self.token else {}), **dict(headers)}
        if body is not None:
            sent["Content-Type"] = kind
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
        self.connection.request(method, path, body.encode() if isinstance(body, str) else body, sent)
        answer = self.connection.getresponse()
        self.headers = dict(answer.getheaders())
        text = answer.read()
        if "json" not in self.headers.get("Content-Type", "") or not text:
            return answer.status, text
        if "ndjson" in self.headers["Content-Type"]:
            return answer.status, [json.loads(line) for line in text.splitlines()]
        return answer.status, json.loads(text)

    def close(self):
        self.connection.close()


def request(method, path, body=b"", *fields):
    """Returns the bytes of a request; `fields`: more lines of its head."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *fields]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*lines, "", ""]).encode() + body


def raw(port, data, answers=1, wait_s=10):
    """Sends these bytes. Returns what arrives until there were `answers` replies, or the connection ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait_s) as peer:
        peer.sendall(data)
        got = b""
        while got.count(b"HTTP/1.1 ") < answers or not got.endswith((b"}", b"\n", b"ok\n")):
            part = peer.recv(65536)
            if not part:
                break
            got += part
        return got
