"""foreign.py: a client of tarryd in another language, without any code of Tarry: SP's REQ and PULL protocols over WebSocket over TLS, as
proto/WIRE.md and tarry.proto describe them. It uses only Python's standard library. Run by foreign_test.py.

    foreign.py URL QUEUE KEY PAYLOAD_SIZE [TOKEN [CA]]     schedules a task, has it delivered on a lane, acks it

Prints a line for each step that succeeded, like foreign.c."""
import base64
import hashlib
import os
import socket
import ssl
import struct
import sys
from urllib.parse import urlsplit

PATIENCE_S = 20


def packed(*fields):
    """Packs protobuf fields: (number, int), (number, bytes or str)."""
    out = bytearray()

    def number(value):
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
    for field, value in fields:
        number(field << 3 | (0 if isinstance(value, int) else 2))
        if isinstance(value, int):
            number(value)
            continue
        data = value.encode() if isinstance(value, str) else value
        number(len(data))
        out += data
    return bytes(out)


def unpacked(data):
    """Unpacks a message: returns the last value of each field."""
    fields, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return value
    while at < len(data):
        field, kind = divmod(number(), 8)
        size = number() if kind in (0, 2) else {1: 8, 5: 4}[kind]
        if kind == 0:
            fields[field] = size
        else:
            fields[field] = data[at:at + size]
            at += size
    return fields


class Socket:
    """The client's side of a WebSocket."""

    def __init__(self, url, path, protocol, bearer, authority):
        place = urlsplit(url)
        self.peer = socket.create_connection((place.hostname, place.port), timeout=PATIENCE_S)
        if place.scheme == "wss":
            self.peer = ssl.create_default_context(cafile=authority).wrap_socket(self.peer, server_hostname=place.hostname)
        key = base64.b64encode(os.urandom(16)).decode()
        head = [f"GET {path} HTTP/1.1", f"Host: {place.netloc}", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}",
                "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Protocol: {protocol}", *([f"Authorization: Bearer {bearer}"] if bearer else [])]
        self.peer.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
        self.stream = self.peer.makefile("rb")
        answer = [self.stream.readline().decode().strip()]
        while answer[-1]:
            answer.append(self.stream.readline().decode().strip())
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        if " 101 " not in answer[0] + " " or f"sec-websocket-accept: {accept}".lower() not in [line.lower() for line in answer]:
            raise SystemExit(f"no upgrade: {answer}")
        self.last = 0

    def ask(self, request):
        """Sends a request in SP's REQ protocol: a number precedes the message and is repeated in the reply."""
        self.last += 1
        number = struct.pack(">I", 0x80000000 | self.last)
        self.send(number + request)
        answer = self.receive()
        if answer[:4] != number:
            raise SystemExit(f"an answer to nobody: {answer[:4]}")
        return answer[4:]

    def send(self, message, piece_size=30_000):
        """Sends a message in several frames, each with its own mask, and a ping between them."""
        pieces = [message[at:at + piece_size] for at in range(0, len(message), piece_size)]
        for at, piece in enumerate(pieces):
            self.frame(0x80 * (at == len(pieces) - 1) | (2 if at == 0 else 0), piece)
            if at == 0:
                self.frame(0x89, b"still there?")

    def frame(self, first, data):
        mask = os.urandom(4)
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data))
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        self.peer.sendall(bytes([first]) + size + mask + masked)

    def receive(self):
        message, is_whole = b"", False
        while not is_whole:
            first, size = self.stream.read(2)
            size = size if size < 126 else int.from_bytes(self.stream.read(2 if size == 126 else 8), "big")
            data = self.stream.read(size)
            if first & 15 in (0, 2):
                message, is_whole = message + data, bool(first & 0x80)
            elif first & 15 != 10:
                raise SystemExit(f"opcode {first & 15}: {data}")
        return message


class Asker:
    """Sends requests over any socket that has `ask`; also used by foreign_pynng.py."""

    def __init__(self, rpc):
        self.rpc, self.producer, self.sequence = rpc, 0, 0

    def ask(self, body, *fields):
        """Sends a request; returns the reply's body."""
        reply = unpacked(self.rpc.ask(packed((1, 1), (2, "foreign.py"), (body, packed(*fields)))))
        if reply.get(1, 0) != 0:
            raise SystemExit(f"refused: {reply}")
        return unpacked(reply.get(body, b""))

    def commit(self, op):
        self.sequence += 1
        reply = self.ask(11, (1, self.producer), (2, self.sequence), (3, self.sequence), (5, op))
        if unpacked(reply[1]).get(1, 0) != 0:
            raise SystemExit(f"commit {self.sequence}: {reply}")


def main(connect, url, queue, key, size, token="", authority=None):
    asker = Asker(connect(url, "/rpc", "rep.sp.nanomsg.org", token, authority))
    asker.producer = asker.ask(10)[1]
    print("greeted")
    session = asker.ask(13, (1, queue))
    lane = connect(url, f"/lane/{session.get(2, 0)}", "push.sp.nanomsg.org", session[3].hex(), authority)
    asker.commit(packed((1, packed((1, queue), (2, key), (3, packed((2, 50))), (4, packed((2, b"x" * int(size))))))))
    print("scheduled")
    task = unpacked(unpacked(lane.receive())[3])
    print("delivered", task[2].decode(), task[3].decode(), len(task[10]))
    asker.commit(packed((4, packed((1, task[1]), (2, task[7])))))
    print("acked")


if __name__ == "__main__":
    main(Socket, *sys.argv[1:])
