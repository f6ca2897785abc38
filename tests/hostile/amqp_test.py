"""amqp_test.py: hostile AMQP 0-9-1: false sizes, methods in the wrong state, tables without an end, half messages, floods of
channels, deliveries, declarations and confirms, silence (F-20, F-21). An honest client works beside each test
(stranger.Hostile). Afterwards all resources of the strangers must be free again.
"""
import random
import select
import socket
import struct

from stranger import WAIT_S, Hostile
import amqp
import harness
from amqp import Client, Closed
from harness import main

NOW = struct.pack("ii", 1, 0)  # SO_LINGER: the close sends a reset
HEADER = b"AMQP\0\0\x09\x01"


def method(name, *values, channel=1):
    return amqp.pack_method(channel, name, *values)


def declare(arguments):
    return method("QUEUE_DECLARE", 0, "q", 0, 1, 0, 0, 0, arguments)


def nested(levels):
    """Returns the fields of a table that contains a table, and so on, `levels` deep; each table has one field."""
    fields = b""
    for _ in range(levels):
        fields = b"\x01aF" + amqp.long(fields)
    return amqp.long(fields)


def publish_head(size, properties=b"", flags=0):
    return method("BASIC_PUBLISH", 0, "", "q", 0, 0) + amqp.frame(2, 1, struct.pack(">HHQH", 60, 0, size, flags) + properties)


# Pairs of what a client sends on an open channel 1, and the code with which the broker ends the connection or the
# channel.
AFTER_LOGIN = [
    ("a frame of 4 GiB", struct.pack(">BHI", 1, 1, 0xffffffff), 501),
    ("a body frame that is a byte too long", struct.pack(">BHI", 3, 1, 131073 - 8) + b"x" * 131073, 501),
    ("an unknown type of frame", amqp.frame(7, 1, b""), 501),
    ("another byte at the end of a frame", method("BASIC_ACK", 1, 0)[:-1] + b"\xcf", 501),
    ("a heartbeat on a channel", amqp.frame(8, 1, b""), 501),
    ("an empty method", amqp.frame(1, 1, b""), 502),
    ("half a method", amqp.frame(1, 1, b"\0\x32\0\x0a\0"), 502),
    ("bytes behind a method", amqp.frame(1, 1, method("BASIC_ACK", 1, 0)[7:-1] + b"x"), 502),
    ("an unknown method", amqp.frame(1, 1, b"\x12\x34\x56\x78"), 540),
    ("a method of the broker", method("BASIC_DELIVER", "t", 1, 0, "", ""), 540),
    ("a method of the connection on a channel", method("CONNECTION_OPEN", "/", "", 0), 503),
    ("a method of a channel on the connection", method("BASIC_ACK", 1, 0, channel=0), 503),
    ("a second login", method("CONNECTION_START_OK", {}, "PLAIN", "\0a\0b", "", channel=0), 503),
    ("a channel that is open", method("CHANNEL_OPEN", ""), 504),
    ("a channel that is not open", method("BASIC_ACK", 1, 0, channel=9), 504),
    ("a channel above the maximum", method("CHANNEL_OPEN", "", channel=2048), 504),
    ("content without a method", amqp.frame(3, 1, b"x"), 505),
    ("a body before its head", method("BASIC_PUBLISH", 0, "", "q", 0, 0) + amqp.frame(3, 1, b"x"), 505),
    ("a method within a content", publish_head(5) + method("BASIC_ACK", 1, 0), 505),
    ("two heads", publish_head(5) + amqp.frame(2, 1, struct.pack(">HHQH", 60, 0, 5, 0)), 505),
    ("more body than the head says", publish_head(3) + amqp.frame(3, 1, b"four"), 501),
    ("a body of 16 EiB", publish_head(1 << 63), 406),
    ("a head that is too short", method("BASIC_PUBLISH", 0, "", "q", 0, 0) + amqp.frame(2, 1, b"\0\x3c\0\0\0"), 502),
    ("properties that are not there", publish_head(0, flags=0xfffc), 502),
    ("a continuation of the flags", publish_head(0, flags=1), 502),
    ("headers that lie about their size", publish_head(0, struct.pack(">I", 1 << 31), 0x2000), 502),
    ("headers of 33 KiB", publish_head(0, amqp.table_of({"x": "y" * 33000}), 0x2000), 406),
    ("a table of 17 levels", declare(nested(17)), 502),
    ("a table of 4,000 levels", declare(nested(4000)), 502),
    ("a table of 1,025 fields", declare(amqp.long(b"\x01aV" * 1025)), 502),
    ("a table with a field of an unknown type", declare(amqp.long(b"\x01a?")), 502),
    ("a field that is longer than its table", declare(amqp.long(b"\x01aS\0\0\0\x05x")), 502),
    ("an array that is longer than its table", declare(amqp.long(b"\x01aA\x7f\xff\xff\xff")), 502),
    ("arguments of 5 KiB", declare({"x": "y" * 5000}), 506),
    ("a name with a NUL", method("QUEUE_DECLARE", 0, "a\0b", 0, 1, 0, 0, 0, {}), 406),
    ("a prefetch of bytes", method("BASIC_QOS", 1, 1, 0), 540),
    ("a tag that was not given", method("BASIC_ACK", 1 << 63, 1), 406),
    ("a reply address that was guessed", method("QUEUE_DECLARE", 0, "amq.rabbitmq.reply-to.1.1.0", 1, 0, 0, 0, 0, {}), 404),
]
# What a stranger sends first, and the method and code with which the broker ends the connection; None: the broker ends
# it without a method.
BEFORE_LOGIN = [
    ("another version", b"AMQP\0\1\0\0", None),
    ("another protocol", b"GET / HTTP/1.1\r\n\r\n", None),
    ("a method before the header", method("CHANNEL_OPEN", ""), None),
    ("a frame of 17 KiB", HEADER + struct.pack(">BHI", 1, 0, 17 << 10), 501),
    ("a method of a channel", HEADER + method("CHANNEL_OPEN", ""), 503),
    ("content", HEADER + amqp.frame(3, 1, b"x"), 505),
    ("open before login", HEADER + method("CONNECTION_OPEN", "/", "", 0, channel=0), 503),
    ("tune before login", HEADER + method("CONNECTION_TUNE_OK", 0, 4096, 0, channel=0), 503),
    ("an unknown mechanism", HEADER + method("CONNECTION_START_OK", {}, "X", "", "", channel=0), 502),
    ("PLAIN without a password", HEADER + method("CONNECTION_START_OK", {}, "PLAIN", "\0guest", "", channel=0), 502),
    ("AMQPLAIN that is not a table", HEADER + method("CONNECTION_START_OK", {}, "AMQPLAIN", "\xff" * 9, "", channel=0), 502),
    ("a frame size of 1", HEADER + method("CONNECTION_START_OK", {}, "PLAIN", "\0guest\0guest", "", channel=0)
     + method("CONNECTION_TUNE_OK", 0, 1, 0, channel=0), 530),
    ("another vhost", HEADER + method("CONNECTION_START_OK", {}, "PLAIN", "\0guest\0guest", "", channel=0)
     + method("CONNECTION_TUNE_OK", 0, 4096, 0, channel=0) + method("CONNECTION_OPEN", "x" * 255, "", 0, channel=0), 530),
]


class Amqp(Hostile):
    arguments = ("--listen", "amqp://127.0.0.1:0")
    log_lines_max = 200
    memory_more_mib = 64  # 20,000 tasks

    def port(self):
        return next(int(url.rsplit(":", 1)[1]) for url in self.broker.ready["urls"].split() if url.startswith("amqp://"))

    def setUp(self):
        self.clients = []
        super().setUp()

    def tearDown(self):
        for client in self.clients:
            client.socket.close()
        super().tearDown()

    def client(self, **options):
        self.clients.append(Client(self.port(), timeout=WAIT_S, **options))
        return self.clients[-1]

    def code(self, client):
        """Returns the code with which the broker ends the connection or the channel. None: the broker ended it without a code."""
        try:
            while True:
                client.next()
        except Closed as closed:
            return closed.code
        except (EOFError, ConnectionError):
            return None

    def reset(self, client):
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)
        client.socket.close()

    def test_each_lie_has_its_code(self):
        """F-20."""
        for what, data, code in AFTER_LOGIN:
            with self.subTest(what):
                client = self.client()
                client.send("CONFIRM_SELECT", False)
                client.raw(data)
                self.assertEqual(self.code(client), code, what)

    def test_each_lie_before_the_login_has_its_code(self):
        for what, data, code in BEFORE_LOGIN:
            with self.subTest(what):
                client = self.client(opens=False)
                client.raw(data)
                if data[:8] != HEADER:
                    self.assertEqual(client.read(8), HEADER)
                    self.assertEqual(client.socket.recv(1), b"")
                else:
                    self.assertEqual(self.code(client), code, what)

    def test_a_byte_at_a_time(self):
        client = self.client()
        data = (method("QUEUE_DECLARE", 0, "slow", 0, 1, 0, 0, 0, {"x": "y"}) + method("BASIC_PUBLISH", 0, "", "slow", 0, 0)
                + amqp.pack_content(1, b"body", {"headers": {"a": [1, {"b": None}]}}) + method("BASIC_GET", 0, "slow", 1))
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(data)):
            client.raw(data[at:at + 1])
        self.assertEqual(client.expect("BASIC_GET_OK").body, b"body")

    def test_halves_are_dropped_with_their_connection(self):
        """300 connections send half a frame, half a content of 8 MiB, or half a login."""
        body = b"x" * 131064
        for number in range(300):
            client = Client(self.port(), opens=number % 3 != 0, timeout=WAIT_S)
            if number % 3 == 0:
                client.raw((HEADER + method("CONNECTION_START_OK", {}, "PLAIN", "\0guest\0guest", "", channel=0))[:8 + number])
            elif number % 3 == 1:
                client.raw(struct.pack(">BHI", 3, 1, 131064) + body[:number * 300])
            else:
                client.raw(publish_head(8 << 20) + amqp.frame(3, 1, body) * 3)
            if number % 2:
                self.reset(client)
            else:
                client.socket.close()

    def test_silence_ends_a_connection_with_heartbeats(self):
        for data in (b"", b"\x01", struct.pack(">BHI", 3, 1, 1000) + b"x"):
            client = self.client(heartbeat=1)
            client.raw(data)
            self.assertIsNone(self.code(client))

    def test_floods_of_channels(self):
        """Ten connections open 2,047 channels each, with a consumer on every 16th channel. Half of the connections are reset."""
        clients = [self.client() for _ in range(10)]
        clients[0].declare("q")
        for client in clients:
            client.raw(b"".join(method("CHANNEL_OPEN", "", channel=number) for number in range(2, 2048)))
            client.raw(b"".join(method("BASIC_CONSUME", 0, "q", "", 0, 0, 0, 0, {}, channel=number) for number in range(1, 2048, 16)))
        for number, client in enumerate(clients):
            for _ in range(2046):
                client.expect("CHANNEL_OPEN_OK")
            if number % 2:
                self.reset(client)
            else:
                client.raw(b"".join(method("CHANNEL_CLOSE", 200, "", 0, 0, channel=number) for number in range(2, 2048)))
                for _ in range(2046):
                    client.expect("CHANNEL_CLOSE_OK")
        with self.client() as client:
            client.publish("", "q", b"x")
            kept = {client.socket: client for client in clients[::2]}  # each has one consumer left
            readable = select.select(list(kept), [], [], 60)[0]
            self.assertNotEqual(readable, [], "no consumer has got the message")
            self.assertEqual(kept[readable[0]].delivery().body, b"x")
        for client in clients:
            client.socket.close()

    def test_floods_of_deliveries_without_acks(self):
        """A connection with 16,384 unacknowledged messages is reset; the messages are then ready again."""
        client = self.client()
        client.declare("q")
        for _ in range(20000):
            client.publish("", "q", b"x" * 50)
        taker = self.client()
        taker.consume("q")
        for _ in range(16384):
            taker.delivery()
        self.assertEqual(client.declare("q", passive=True).message_count, 20000 - 16384)
        self.reset(taker)
        harness.wait_until("they are ready again", lambda: client.declare("q", passive=True).message_count == 20000, WAIT_S)
        self.assertEqual(client.ask("QUEUE_PURGE", 0, "q", False).message_count, 20000)

    def test_floods_of_declarations(self):
        """A connection is reset; its exclusive queues and its bindings are then deleted."""
        client = self.client()
        for number in range(100):
            client.send("QUEUE_DECLARE", 0, f"mine-{number}", False, False, True, True, True, {"x-expires": 60000, "n": "y" * 3000})
            for key in range(10):
                client.send("QUEUE_BIND", 0, f"mine-{number}", "amq.topic", "#." * 100 + str(key), True, {})
        client.declare("last")
        client.publish("amq.topic", "a." * 100, b"x")
        other = self.client()
        self.assertEqual(other.declare("last", passive=True).message_count, 0)
        self.reset(client)

        def have_gone():
            try:
                self.client().declare("mine-99", passive=True)
            except Closed as closed:
                return closed.code == 404
            return False
        harness.wait_until("its queues have gone", have_gone, WAIT_S)
        harness.wait_until("its bindings have gone", lambda: self.broker.ok("amqp", "bindings") == [], WAIT_S)
        other.ask("QUEUE_DELETE", 0, "last", False, False, False)

    def test_unread_confirms_returns_and_replies(self):
        """CAP-1: clients publish and never read the broker's answers."""
        server = self.client()
        server.declare("q", arguments={"x-message-ttl": 1})
        for kind in range(3):
            deaf = self.client()
            deaf.consume("amq.rabbitmq.reply-to", no_ack=True)
            deaf.ask("CONFIRM_SELECT", False)
            deaf.publish("", "q", b"x", reply_to="amq.rabbitmq.reply-to")
            address = None
            if kind == 2:
                server.declare("rpc")
                server.consume("rpc", no_ack=True, tag="t")
                deaf.publish("", "rpc", b"x", reply_to="amq.rabbitmq.reply-to")
                address = server.delivery().properties["reply_to"]
                server.ask("BASIC_CANCEL", "t", False)
                for _ in range(2000):
                    server.publish("", address, b"z" * 20000)
                server.declare("q", passive=True)
            deaf.socket.settimeout(2)
            try:
                for _ in range(4000):
                    deaf.publish("", "q" if kind == 0 else "nobody", b"y" * 5000, mandatory=True)
            except TimeoutError:
                pass  # the broker stops reading from a client that does not read
            self.reset(deaf)

    def test_noise_in_valid_conversations(self):
        random.seed(15)
        talk = (method("QUEUE_DECLARE", 0, "n", 0, 1, 0, 0, 0, {"x-max-priority": 5}) + method("BASIC_PUBLISH", 0, "", "n", 1, 0)
                + amqp.pack_content(1, b"body", {"headers": {"a": 1, "CC": ["n"]}, "expiration": "100", "priority": 3})
                + method("BASIC_CONSUME", 0, "n", "", 0, 0, 0, 0, {}) + method("TX_SELECT") + method("BASIC_ACK", 1, 1)
                + method("TX_COMMIT") + method("EXCHANGE_DECLARE", 0, "e", "x-delayed-message", 0, 1, 0, 0, 0, {"x-delayed-type": "topic"})
                + method("QUEUE_BIND", 0, "n", "e", "#", 0, {}) + method("BASIC_PUBLISH", 0, "e", "k", 0, 0)
                + amqp.pack_content(1, b"late", {"headers": {"x-delay": 5}}) + method("QUEUE_DELETE", 0, "n", 0, 0, 0))
        for number in range(400):
            data = bytearray(talk)
            for _ in range(random.randrange(1, 6)):
                data[random.randrange(len(data))] = random.randrange(256)
            client = Client(self.port(), timeout=WAIT_S)
            try:
                client.raw(bytes(data)[:random.randrange(1, len(data))])
            except OSError:
                pass
            if number % 2:
                self.reset(client)
            else:
                client.socket.close()


main()
