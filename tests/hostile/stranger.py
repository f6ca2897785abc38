"""stranger.py: a hostile or broken client (a "stranger"), and the checks after it.

`Stranger` is a socket whose every byte is the test's. The received data is returned as a list of words: "answer:7" (to the
request with this id), "pong:hi", "close:1002", "eof" (also a reset), or the status of an HTTP answer.
"""
import os
import re
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402  (the path above)
import wire  # noqa: E402

WAIT_S = 90
MASK = b"\x37\xfa\x21\x3d"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
SENTINEL = 77  # id of the honest request after a stranger's frames


def frame(opcode, payload=b"", fin=True, reserved=0, masked=True, length=None, mask=MASK):
    """Makes one frame of a client; `length` (16, 64): bits of the length field, whether necessary or not."""
    size = len(payload)
    head = bytes([(0x80 if fin else 0) | reserved << 4 | opcode])
    mask_bit = 0x80 if masked else 0
    if length == 64 or (length is None and size > 0xFFFF):
        head += bytes([mask_bit | 127]) + struct.pack(">Q", size)
    elif length == 16 or (length is None and size > 125):
        head += bytes([mask_bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([mask_bit | size])
    if not masked:
        return head + payload
    repeated = (mask * (size // 4 + 1))[:size]
    return head + mask + (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")


def hello(request_id):
    """Makes a request that is answered at once: a message, not yet a frame."""
    return struct.pack(">I", 0x80000000 | request_id) + wire.request(wire.HELLO, [])


def words_of(data):
    """Returns the complete frames of the broker's data, as words."""
    words = []
    while len(data) >= 2:
        size, at = data[1] & 0x7F, 2
        if size > 125:
            width = 2 if size == 126 else 8
            size, at = int.from_bytes(data[2:2 + width], "big"), 2 + width
        if len(data) < at + size:
            break
        opcode, payload, data = data[0] & 0xF, data[at:at + size], data[at + size:]
        if opcode == CLOSE:
            words.append(f"close:{int.from_bytes(payload[:2], 'big')}" if payload else "close")
        elif opcode in (PING, PONG):
            words.append(f"{'ping' if opcode == PING else 'pong'}:{payload.decode('latin-1')}")
        else:
            words.append(f"answer:{int.from_bytes(payload[:4], 'big') & 0x7FFFFFFF}")
    return words


class Stranger:
    """A connection; `source` is its local address, `tls` the context if it uses TLS."""

    def __init__(self, port, source=None, receive_buffer=None, tls=None):
        self.peer = socket.socket()
        self.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            self.peer.bind((source, 0))
        self.peer.settimeout(WAIT_S)
        self.peer.connect(("127.0.0.1", port))
        if tls:
            self.peer = tls.wrap_socket(self.peer, server_hostname="127.0.0.1")
        self.got = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.peer.close()

    def upgrade(self, path="/rpc", protocol=wire.RPC, headers=()):
        """Upgrades to WebSocket as an honest client does; returns the head of the answer."""
        self.peer.sendall(upgrade_head(path, protocol, headers))
        while b"\r\n\r\n" not in self.got and (part := self.peer.recv(4096)):
            self.got += part
        answer, _, self.got = self.got.partition(b"\r\n\r\n")
        return answer.decode("latin-1")

    def send(self, data, piece=None):
        """Sends all bytes, or stops when the other side closes. `piece`: number of bytes per packet."""
        try:
            for at in range(0, len(data), piece or len(data) or 1):
                self.peer.sendall(data[at:at + (piece or len(data))])
        except OSError:
            pass

    def receive_until(self, is_enough, wait_s=WAIT_S):
        """Reads until `is_enough`, or until the other side closes the connection. Returns whether it closed the connection."""
        self.peer.settimeout(wait_s)
        try:
            while not is_enough(self.got):
                part = self.peer.recv(65536)
                if not part:
                    return True
                self.got += part
        except TimeoutError as late:
            raise AssertionError(f"neither an answer nor an end within {wait_s} s; it has {self.got[:200]!r}") from late
        except OSError:
            return True
        return False

    def words(self):
        """Returns the received words, up to the sentinel's answer, a Close, or the end."""
        is_ended = self.receive_until(lambda got: any(word == f"answer:{SENTINEL}" or word.startswith("close") for word in words_of(got)))
        words = words_of(self.got)
        return words + (["eof"] if is_ended and not any(word.startswith("close") for word in words) else [])


def upgrade_head(path="/rpc", protocol=wire.RPC, headers=()):
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Protocol: {protocol}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def statuses(data):
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", data)]


class Hostile(harness.Case):
    """Checks after each test: the broker runs, honest clients were answered meanwhile, everything that the stranger used is
    free again, and the log is short.
    """

    log_lines_max = 100
    memory_more_mib = 24

    def setUp(self):
        super().setUp()
        self.is_over = threading.Event()
        self.waits_ms, self.complaints = [], []
        self.honest = self.rpc()
        self.honest.hello()
        self.descriptors = self.broker.sockets()
        self.memory_kib = self.memory_now()
        self.worker = threading.Thread(target=self.work)
        self.worker.start()
        harness.wait_until("the honest client's first answer", lambda: self.waits_ms or self.complaints, WAIT_S)

    def rpc(self):
        return wire.Rpc(self.broker.port)

    def work(self):
        """The honest client that works during a test: it schedules one durable task after another."""
        try:
            producer = self.honest.hello()
            for sequence in range(1, 1 << 30):
                if self.is_over.wait(0.01):
                    return
                before = time.monotonic()
                body = wire.commit(producer, sequence, [wire.schedule("honest", "", 3_600_000)], oldest=sequence)
                code, _ = self.honest.ask(wire.COMMIT, body, wait_s=WAIT_S)
                if code not in (wire.OK, wire.BUSY):
                    self.complaints.append(f"code {code} {self.honest.sentence}")
                self.waits_ms.append((time.monotonic() - before) * 1000)
        except (OSError, AssertionError) as wrong:
            self.complaints.append(repr(wrong))

    def tearDown(self):
        self.is_over.set()
        self.worker.join()
        try:
            self.assertEqual(self.complaints, [])
            harness.wait_until("the stranger's descriptors are given back", lambda: self.broker.sockets() <= self.descriptors, WAIT_S)
            if not harness.SANITIZED:
                harness.wait_until(f"no more than {self.memory_more_mib} MiB more than before",
                                   lambda: self.memory_now() - self.memory_kib < self.memory_more_mib << 10, WAIT_S)
            lines = [line for line in self.broker.log if "event=http_refused" in line or "event=door_trouble" in line]
            self.assertLessEqual(len(lines), self.log_lines_max, lines[-3:])
            self.honest.close()
        finally:
            super().tearDown()

    def memory_now(self):
        with open(f"/proc/{self.broker.process.pid}/status", encoding="ascii") as file:
            return int(next(line for line in file if line.startswith("VmRSS")).split()[1])

    def stranger(self, **options):
        return Stranger(self.broker.port, **options)

    def assert_logged(self, text):
        self.broker.wait_logged(text, wait_s=WAIT_S)
