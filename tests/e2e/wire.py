"""wire.py: a small client (WebSocket, SP, protobuf) for requests that libtarry would never send. proto/WIRE.md is the
specification. A message is a list of (field number, value): an int is a varint, bytes and str are length-delimited, a list is
a message. A decoded message is a dictionary of field number → list of values; length-delimited values stay bytes until they
are decoded."""
import base64
import os
import socket
import struct

import peer_proof

RPC = "rep.sp.nanomsg.org"
LANE = "push.sp.nanomsg.org"
FRAME_SIZE = 65536

# Codes in tarry.proto.
OK, INVALID, TOO_LARGE, EXISTS, NOT_DONE, STALE_TOKEN, FORGOTTEN, BUSY, STOPPING, NO_SUCH_SESSION, NOT_PRIMARY, FAILED, DENIED, \
    BEHIND, TOO_OLD = 0, 1, 2, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17
# Field numbers of the bodies in Request and Reply of tarry.proto.
HELLO, COMMIT, GOODBYE, SUBSCRIBE, HEARTBEAT, UNSUBSCRIBE, GET, LIST, QUEUES, STATS, AUDIT, BACKUP, FOLLOW, PAIR, CALENDAR, \
    ATTACH = BODIES = range(10, 26)

# ---- protobuf


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(fields):
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = encode(value) if isinstance(value, list) else value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return bytes(out)


def decode(data):
    fields, at = {}, 0

    def take_varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = take_varint()
        if tag & 7 == 0:
            value = take_varint()
        else:
            size = take_varint() if tag & 7 == 2 else {1: 8, 5: 4}[tag & 7]
            value = data[at:at + size]
            at += size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def number(fields, field):
    """Returns a number; 0 if the field is missing."""
    return fields.get(field, [0])[-1]


# ---- WebSocket


def frame(payload, opcode=2, claimed=None, more=False):
    """Makes a masked client frame. `claimed`: a false length for its header. `more`: further frames of the message follow."""
    size = len(payload) if claimed is None else claimed
    head = bytes([(0 if more else 0x80) | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    return head + b"\0\0\0\0" + payload  # a mask of zeros, so that the payload is unchanged


def connected(where, receive_buffer=None):
    """Connects a socket to a loopback port or to the path of a Unix socket; returns a connected socket unchanged."""
    if isinstance(where, socket.socket):
        return where
    peer = socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET)
    if isinstance(where, int):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if receive_buffer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    peer.settimeout(30)
    peer.connect(where if isinstance(where, str) else ("127.0.0.1", where))
    return peer


class WebSocket:
    """A connection that has requested an upgrade. `answer`: head of the response. `accepted`: whether the upgrade succeeded."""

    def __init__(self, where, path="/rpc", protocol=RPC, headers=(), receive_buffer=None):
        self.peer = connected(where, receive_buffer)
        key = base64.b64encode(os.urandom(16)).decode()
        self.buffer = b""
        try:
            self.peer.sendall(("\r\n".join((f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket",
                                            "Connection: Upgrade", f"Sec-WebSocket-Key: {key}",
                                            "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Protocol: {protocol}",
                                            *headers)) + "\r\n\r\n").encode())
            while b"\r\n\r\n" not in self.buffer and (part := self.peer.recv(4096)):
                self.buffer += part
        except OSError:
            pass
        self.answer, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        self.accepted = b" 101 " in self.answer.split(b"\r\n")[0] + b" "

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.peer.close()

    def send(self, payload):
        """Sends a message in frames of the same size as nng's."""
        pieces = [payload[at:at + FRAME_SIZE] for at in range(0, len(payload), FRAME_SIZE)] or [b""]
        for place, piece in enumerate(pieces):
            self.peer.sendall(frame(piece, opcode=0 if place else 2, more=piece is not pieces[-1]))

    def _read(self, size):
        while len(self.buffer) < size:
            part = self.peer.recv(max(65536, size - len(self.buffer)))
            if not part:
                raise ConnectionResetError("closed by the other side")
            self.buffer += part
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def receive(self, wait_s=10):
        """Returns the next message. Raises TimeoutError if none came, ConnectionError if the server closed the connection."""
        self.peer.settimeout(wait_s)
        message = b""
        while True:
            first, second = self._read(2)
            size = second & 0x7F
            if size == 126:
                size, = struct.unpack(">H", self._read(2))
            elif size == 127:
                size, = struct.unpack(">Q", self._read(8))
            data = self._read(size)
            if first & 0xF == 8:
                raise ConnectionResetError("closed by the other side")
            if first & 0xF in (9, 10):
                continue
            message += data
            if first & 0x80:
                return message

    def is_closed_by_peer(self, wait_s=5):
        """Returns True if the server ended the connection without another message."""
        try:
            self.receive(wait_s)
        except TimeoutError:
            return False
        except OSError:
            return True
        return False


# ---- nng's own transports

REQ, REP, PUSH, PULL = 48, 49, 80, 81  # numbers of SP protocols


def sp_hello(protocol):
    return b"\0SP\0" + struct.pack(">HH", protocol, 0)


class SpSocket(WebSocket):
    """A connection over TCP, or over IPC if `where` is a path. `answer` is the broker's hello, or b"" if the broker refused."""

    def __init__(self, where, protocol, receive_buffer=None):  # pylint: disable=super-init-not-called
        self.peer = connected(where, receive_buffer)
        self.type = b"\1" if self.peer.family == socket.AF_UNIX else b""
        self.buffer = self.answer = b""
        try:
            self.peer.sendall(sp_hello(protocol))
            self.answer = self._read(8)
        except OSError:
            pass
        self.accepted = self.answer == sp_hello(REP if protocol == REQ else PUSH)

    def send(self, payload):
        self.peer.sendall(self.type + struct.pack(">Q", len(payload)) + payload)

    def receive(self, wait_s=10):
        self.peer.settimeout(wait_s)
        assert self._read(len(self.type)) == self.type
        return self._read(*struct.unpack(">Q", self._read(8)))


# ---- requests


def bearer(token):
    """Returns the list of headers with the token; without a token the list is empty."""
    return [] if token is None else [f"Authorization: Bearer {token}"]


class Requests:
    """A REQ client with full control of ids, repetitions and order."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        assert self.accepted, self.answer
        self.last_id = 0
        self.sentence = ""  # error message of the last reply
        self.primary = ""
        self.reply = {}
        self.packed = b""

    def tell(self, body, fields, request_id=None, cluster=b""):
        """Sends a request without waiting for the reply. Returns its id."""
        return self.tell_packed(request(body, fields, cluster), request_id)

    def tell_packed(self, packed, request_id=None):
        self.last_id += 1
        request_id = request_id or self.last_id
        self.send(struct.pack(">I", 0x80000000 | request_id) + packed)
        return request_id

    def hear(self, wait_s=10):
        """Returns (id, code, body) of the next reply."""
        message = self.receive(wait_s)
        request_id, = struct.unpack(">I", message[:4])
        self.packed = message[4:]
        self.reply = reply = decode(self.packed)
        self.sentence = reply.get(2, [b""])[-1].decode()
        self.primary = reply.get(3, [b""])[-1].decode()
        body = next((reply[field][-1] for field in reply if field >= 10), b"")
        return request_id & 0x7FFFFFFF, reply.get(1, [OK])[-1], body

    def ask(self, body, fields, wait_s=10, cluster=b""):
        """Sends a request; returns (code, body) of the reply."""
        return self.ask_packed(request(body, fields, cluster), wait_s)

    def ask_packed(self, packed, wait_s=10):
        wanted = self.tell_packed(packed)
        while True:
            request_id, code, reply = self.hear(wait_s)
            if request_id == wanted:
                return code, reply

    def ask_as_peer(self, key, body, fields, wait_s=10):
        """Sends a request as the other node of a pair, with a PeerKey. Returns (code, body of the reply)."""
        self.ask(FOLLOW, [])  # a request without proof is refused, with a challenge
        packed, nonce = key.prove(request(body, fields), self.reply[peer_proof.CHALLENGE][-1])
        answer = self.ask_packed(packed, wait_s)
        assert key.proves(self.packed, nonce), f"not proved: {answer} {self.sentence}"
        return answer

    def hello(self):
        """Requests a new producer. Returns the producer's id."""
        return number(decode(self.ask(HELLO, [])[1]), 1)


class Rpc(Requests, WebSocket):
    def __init__(self, port, token=None):
        super().__init__(port, headers=bearer(token))


class SpRpc(Requests, SpSocket):
    def __init__(self, where):
        super().__init__(where, REQ)


def request(body, fields, cluster=b""):
    return encode([(1, 1), (2, "wire.py"), *([(3, cluster)] if cluster else []), (body, fields)])


def wish(body, fields, at_least=0, staleness_ms=0, wait_ms=0):
    """Returns a packed question that demands freshness."""
    return encode([(1, 1), (2, "wire.py"), (5, at_least), (6, staleness_ms), (7, wait_ms), (body, fields)])


def commit(producer, sequence, ops, oldest=1):
    return [(1, producer), (2, sequence), (3, oldest), *((5, op) for op in ops)]


def schedule(queue, key="", delay_ms=0, payload=b""):
    content = encode([(2, payload)]) if payload else b""
    return [(1, [(1, queue), (2, key), (3, [(2, delay_ms)]), (4, content)])]


def results(reply):
    """Returns the decoded results of a packed CommitReply."""
    return [decode(result) for result in decode(reply).get(1, [])]


class Connects:
    """A mixin for Case: closes its connections before its broker."""

    def setUp(self):
        super().setUp()
        self.sockets = []

    def tearDown(self):
        for peer in self.sockets:
            peer.close()
        super().tearDown()

    def rpc(self, token=None):
        self.sockets.append(Rpc(self.broker.port, token))
        return self.sockets[-1]


class Session:
    """A subscription of a client made by hand. It can connect its lane, send heartbeats and settle tasks."""

    def __init__(self, rpc, queues, prefetch=0, lease_ms=0, resume=b""):
        self.rpc = rpc
        code, reply = rpc.ask(SUBSCRIBE, [*((1, queue) for queue in queues), (2, prefetch), (4, lease_ms), (5, resume)])
        assert code == OK, code
        fields = decode(reply)
        self.id, self.lane, self.secret = number(fields, 1), number(fields, 2), fields[3][-1]

    def dial(self, secret=None, lane=None, **options):
        """Connects the lane. `secret`: a secret to use instead of the session's own; "": none."""
        secret = self.secret.hex() if secret is None else secret
        headers = [f"Authorization: Bearer {secret}"] if secret else []
        path = f"/lane/{self.lane if lane is None else lane}"
        return WebSocket(int(self.rpc.peer.getpeername()[1]), path, LANE, headers, **options)

    def attach(self, lane, ticket=None, secret=None):
        """Attaches a connection without a lane to this session. `ticket` identifies the connection; None: uses the ticket that
        the broker sends on the connection. Returns the reply's code.
        """
        ticket = ticket or decode(lane.receive())[4][-1]
        return self.rpc.ask(ATTACH, [(1, ticket), (2, self.lane), (3, secret or self.secret)])[0]

    def heartbeat(self):
        return self.rpc.ask(HEARTBEAT, [(1, self.id)])[0]


def tasks(delivery):
    """Returns the decoded tasks of a packed Delivery."""
    return [decode(task) for task in decode(delivery).get(3, [])]
