"""amqp.py: a client of AMQP 0-9-1 that works frame by frame. It reads the same table of methods as the broker (methods.def),
and can also send data that no library would send.
"""
import os
import re
import socket
import struct

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../broker/amqp/methods.def")
METHODS, IDS, FIELDS = {}, {}, {}
with open(TABLE) as table:
    for line in table:
        if found := re.match(r'METHOD\((\w+), (\d+), (\d+), "(\w*)"\)', line):
            METHODS[found[1]] = (int(found[2]), int(found[3]), found[4])
            IDS[int(found[2]), int(found[3])] = found[1]
        elif found := re.match(r"FIELD\((\w+), (\w+), (\d+)\)", line):
            FIELDS.setdefault(found[1], {})[found[2]] = int(found[3])
NUMBERS = {"o": ">B", "w": ">H", "d": ">I", "q": ">Q"}
PROPERTIES = ("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration",
              "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id")
PROPERTY_LETTERS = "ssToossssqssss"


def short(text):
    data = text.encode() if isinstance(text, str) else text
    return bytes([len(data)]) + data


def long(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">I", len(data)) + data


def value_of(value):
    if isinstance(value, bool):
        return b"t" + bytes([value])
    if isinstance(value, int):
        return b"l" + struct.pack(">q", value)
    if isinstance(value, dict):
        return b"F" + table_of(value)
    if isinstance(value, list):
        return b"A" + long(b"".join(value_of(item) for item in value))
    return b"V" if value is None else b"S" + long(value)


def table_of(fields):
    return long(b"".join(short(name) + value_of(value) for name, value in fields.items()))


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        assert self.at + size <= len(self.data), "the frame is too short"
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def value(self):
        kind = chr(self.number(">B"))
        forms = {"t": ">?", "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q", "T": ">Q", "d": ">d", "f": ">f"}
        if kind in forms:
            return self.number(forms[kind])
        if kind == "V":
            return None
        data = self.take(self.number(">I"))
        if kind == "F":
            return Reader(data).table_fields()
        if kind == "A":
            rest, items = Reader(data), []
            while rest.at < len(data):
                items.append(rest.value())
            return items
        assert kind in "Sx", kind
        return data.decode("utf-8", "surrogateescape")

    def table_fields(self):
        fields = {}
        while self.at < len(self.data):
            name = self.take(self.number(">B")).decode()
            fields[name] = self.value()
        return fields

    def field(self, letter):
        if letter in NUMBERS:
            return self.number(NUMBERS[letter])
        if letter == "s":
            return self.take(self.number(">B")).decode("utf-8", "surrogateescape")
        data = self.take(self.number(">I"))
        return Reader(data).table_fields() if letter == "T" else data


class Method:
    def __init__(self, name, channel, values):
        self.name, self.channel, self.values, self.properties, self.body = name, channel, values, {}, b""

    def __getattr__(self, field):
        return self.values[FIELDS[self.name][field]]

    def __repr__(self):
        return f"{self.name} {self.values} {self.body[:40]}"


def pack_method(channel, name, *values):
    group, number, letters = METHODS[name]
    data, bits, values = struct.pack(">HH", group, number), [], list(values)
    for at, letter in enumerate(letters):
        value = values[at]
        if letter == "b":
            bits.append(bool(value))
            if letters[at + 1:at + 2] != "b":
                data += bytes([sum(bit << place for place, bit in enumerate(bits))])
                bits = []
        elif letter in NUMBERS:
            data += struct.pack(NUMBERS[letter], value)
        elif letter == "s":
            data += short(value)
        else:
            data += table_of(value) if letter == "T" and isinstance(value, dict) else long(value)
    return frame(1, channel, data)


def frame(kind, channel, data):
    return struct.pack(">BHI", kind, channel, len(data)) + data + b"\xce"


def pack_content(channel, body, properties, frame_max=131072):
    flags, data = 0, b""
    for place, name in enumerate(PROPERTIES):
        if name not in properties:
            continue
        flags |= 0x8000 >> place
        letter, value = PROPERTY_LETTERS[place], properties[name]
        data += short(value) if letter == "s" else table_of(value) if letter == "T" else struct.pack(NUMBERS[letter], value)
    frames = frame(2, channel, struct.pack(">HHQH", 60, 0, len(body), flags) + data)
    for at in range(0, len(body), frame_max - 8):
        frames += frame(3, channel, body[at:at + frame_max - 8])
    return frames


class Closed(Exception):
    """Raised when the broker has closed the channel or the connection: `code` and `text`."""

    def __init__(self, method):
        super().__init__(f"{method.reply_code} {method.reply_text}")
        self.code, self.text = method.reply_code, method.reply_text


class Client:
    """One connection with one channel, number 1."""

    def __init__(self, port, user="guest", password="guest", heartbeat=0, opens=True, timeout=30):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.deliveries, self.confirms, self.others = [], [], []
        if not opens:
            return
        self.socket.sendall(b"AMQP\0\0\x09\x01")
        self.start = self.expect("CONNECTION_START")
        self.send("CONNECTION_START_OK", {"capabilities": {"authentication_failure_close": True, "consumer_cancel_notify": True}}, "PLAIN",
                  f"\0{user}\0{password}", "en_US", channel=0)
        self.expect("CONNECTION_TUNE")
        self.send("CONNECTION_TUNE_OK", 0, 131072, heartbeat, channel=0)
        self.send("CONNECTION_OPEN", "/", "", 0, channel=0)
        self.expect("CONNECTION_OPEN_OK")
        self.ask("CHANNEL_OPEN", "")

    def raw(self, data):
        self.socket.sendall(data)

    def send(self, name, *values, channel=1):
        self.raw(pack_method(channel, name, *values))

    def read(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError(f"the broker ended the connection after {data[:20]}")
            data += part
        return data

    def read_frame(self):
        kind, channel, size = struct.unpack(">BHI", self.read(7))
        data = self.read(size)
        assert self.read(1) == b"\xce"
        return kind, channel, data

    def next(self):
        """Returns the next method, with its content."""
        while True:
            kind, channel, data = self.read_frame()
            if kind != 8:
                break
        assert kind == 1, kind
        group, number = struct.unpack(">HH", data[:4])
        name, reader, values, place, bits = IDS[group, number], Reader(data[4:]), [], 0, 0
        letters = METHODS[name][2]
        for at, letter in enumerate(letters):
            if letter != "b":
                place = 0
                values.append(reader.field(letter))
                continue
            bits = reader.number(">B") if place == 0 else bits
            values.append(bool(bits >> place & 1))
            place = (place + 1) % 8
        method = Method(name, channel, values)
        if name in ("BASIC_DELIVER", "BASIC_GET_OK", "BASIC_RETURN"):
            kind, _, head = self.read_frame()
            reader = Reader(head)
            _, _, size, flags = reader.number(">H"), reader.number(">H"), reader.number(">Q"), reader.number(">H")
            for place, property_name in enumerate(PROPERTIES):
                if flags & 0x8000 >> place:
                    method.properties[property_name] = reader.field(PROPERTY_LETTERS[place])
            while len(method.body) < size:
                method.body += self.read_frame()[2]
        if name in ("CHANNEL_CLOSE", "CONNECTION_CLOSE"):
            self.send(name + "_OK", channel=channel)
            raise Closed(method)
        return method

    def expect(self, *names):
        """Returns the next method with one of these names. Keeps deliveries and confirms that come before it."""
        while True:
            method = self.next()
            if method.name in names:
                return method
            if method.name == "BASIC_DELIVER":
                self.deliveries.append(method)
            elif method.name in ("BASIC_ACK", "BASIC_NACK"):
                self.confirms.append(method)
            else:
                self.others.append(method)

    def ask(self, name, *values, channel=1):
        self.send(name, *values, channel=channel)
        answers = {"BASIC_GET": ("BASIC_GET_OK", "BASIC_GET_EMPTY")}.get(name, (name + "_OK",))
        return self.expect(*answers)

    # ---- what programs do

    def declare(self, queue, durable=True, exclusive=False, auto_delete=False, passive=False, arguments=None):
        return self.ask("QUEUE_DECLARE", 0, queue, passive, durable, exclusive, auto_delete, False, arguments or {})

    def exchange(self, name, kind, arguments=None, auto_delete=False, internal=False, passive=False):
        return self.ask("EXCHANGE_DECLARE", 0, name, kind, passive, True, auto_delete, internal, False, arguments or {})

    def bind(self, queue, exchange, key="", arguments=None):
        return self.ask("QUEUE_BIND", 0, queue, exchange, key, False, arguments or {})

    def publish(self, exchange, key, body=b"", mandatory=False, **properties):
        self.raw(pack_method(1, "BASIC_PUBLISH", 0, exchange, key, mandatory, False) + pack_content(1, body, properties))

    def get(self, queue, no_ack=True):
        """Returns the next message, or None."""
        answer = self.ask("BASIC_GET", 0, queue, no_ack)
        return answer if answer.name == "BASIC_GET_OK" else None

    def consume(self, queue, no_ack=False, prefetch=None, tag="", exclusive=False):
        if prefetch is not None:
            self.ask("BASIC_QOS", 0, prefetch, False)
        return self.ask("BASIC_CONSUME", 0, queue, tag, False, no_ack, exclusive, False, {}).consumer_tag

    def delivery(self):
        return self.deliveries.pop(0) if self.deliveries else self.expect("BASIC_DELIVER")

    def confirm(self):
        return self.confirms.pop(0) if self.confirms else self.expect("BASIC_ACK", "BASIC_NACK")

    def ack(self, tag, multiple=False):
        self.send("BASIC_ACK", tag, multiple)

    def close(self):
        self.ask("CONNECTION_CLOSE", 200, "", 0, 0, channel=0)
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
