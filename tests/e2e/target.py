"""target.py: an HTTP server for tests. It receives webhooks, and checks their signatures with its own implementation."""
import base64
import hashlib
import hmac
import http.server
import os
import socketserver
import threading
import time

ALLOWED_DRIFT_S = 300


def make_secret():
    return "whsec_" + base64.b64encode(os.urandom(32)).decode()


def signature(secret, headers, body):
    """Returns the signature, implemented from the text of https://github.com/standard-webhooks/standard-webhooks."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()).decode()


class Request:
    def __init__(self, path, headers, body, connection):
        self.path, self.headers, self.body, self.connection = path, headers, body, connection
        self.at = time.monotonic()

    def is_signed(self, secret):
        is_fresh = abs(time.time() - int(self.headers["webhook-timestamp"])) < ALLOWED_DRIFT_S
        return is_fresh and signature(secret, self.headers, self.body) in self.headers["webhook-signature"].split(" ")

    @property
    def id(self):
        return self.headers["webhook-id"]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(self.path, self.headers, body, self.client_address)
        target = self.server.target
        with target.changed:
            target.requests.append(request)
            target.changed.notify_all()
        try:
            target.answer(self, request)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def do_GET(self):
        self.server.target.strays.append(self.path)
        self.reply(404)

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # the broker closed the connection


class Target:
    """`answer(handler, request)` makes the response. By default the response is 204."""

    def __init__(self, context=None):
        self.requests, self.strays = [], []
        self.changed = threading.Condition()
        self.answer = lambda handler, request: handler.reply(200)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.target = self
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.scheme = "https" if context else "http"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    @property
    def port(self):
        return self.server.server_address[1]

    def url(self, path="/hook", host="127.0.0.1"):
        return f"{self.scheme}://{host}:{self.port}{path}"

    def wait(self, count, wait_s=30):
        """Waits for `count` requests, and returns them."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.requests) >= count, wait_s):
                raise AssertionError(f"{len(self.requests)} requests of {count} came: {[r.path for r in self.requests]}")
            return self.requests[:count]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)
