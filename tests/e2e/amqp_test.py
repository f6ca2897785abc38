"""amqp_test.py: tarryd as a RabbitMQ: features that programs with AMQP 0-9-1 rely on (docs/AMQP.md), also after a kill of the
broker; and hostile bytes.
"""
import os
import random
import signal
import socket
import struct
import subprocess
import time
import unittest

import harness
import amqp
import pair
from amqp import Client, Closed
from amqp_case import AmqpCase
from harness import wait_until

SPECIFICATION = "/usr/share/amqp/specs/0-9-1-rabbit/amqp0-9-1.stripped.extended.xml"
PIKA = """
import sys, pika
connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(sys.argv[1])))
channel = connection.channel()
channel.confirm_delivery()
channel.exchange_declare("orders", "topic", durable=True)
channel.queue_declare("close", durable=True)
channel.queue_bind("close", "orders", "order.*.close")
for number in range(10):
    channel.basic_publish("orders", f"order.{number}.close", str(number).encode(), pika.BasicProperties(delivery_mode=2), mandatory=True)
got = []
for method, properties, body in channel.consume("close", inactivity_timeout=30):
    got.append(int(body))
    channel.basic_ack(method.delivery_tag)
    if len(got) == 10: break
channel.cancel()
connection.close()
print(got)
"""


class Amqp(AmqpCase):
    # ---- messages

    def test_confirmed_messages_and_what_was_declared_survive_a_kill(self):
        """LOG-1."""
        client = self.client()
        client.ask("CONFIRM_SELECT", 0)
        client.declare("orders", arguments={"x-max-priority": 5})
        client.exchange("shop", "topic", {"alternate-exchange": "lost"})
        client.exchange("lost", "fanout")
        client.declare("strays")
        client.bind("orders", "shop", "order.#")
        client.bind("strays", "lost")
        headers = {"a": 1, "b": "x", "c": {"d": [True, None, "e"]}}
        client.publish("shop", "order.1", b"one", headers=headers, content_type="text/plain", delivery_mode=2, message_id="m1", timestamp=1700000000)
        client.publish("shop", "elsewhere", b"two")
        self.assertEqual(client.confirm().name, "BASIC_ACK")
        wait_until("the broker has done it", lambda: client.declare("strays", passive=True).message_count == 1, 30)
        self.broker.kill()
        self.broker.start()
        client = self.client()
        self.assertEqual(client.declare("orders", arguments={"x-max-priority": 5}).message_count, 1)
        message = client.get("orders")
        self.assertEqual((message.body, message.exchange, message.routing_key, message.redelivered), (b"one", "shop", "order.1", False))
        self.assertEqual(message.properties, {"headers": headers, "content_type": "text/plain", "delivery_mode": 2, "message_id": "m1",
                                              "timestamp": 1700000000})
        self.assertEqual(client.get("strays").body, b"two")
        client.ask("CONFIRM_SELECT", 0)
        client.publish("shop", "order.2", b"three", mandatory=True)
        self.assertEqual(client.confirm().name, "BASIC_ACK")
        self.assertEqual(client.get("orders").body, b"three")

    def test_messages_come_in_order_and_keep_their_place(self):
        client = self.client()
        client.declare("q")
        for number in range(100):
            client.publish("", "q", str(number).encode())
        self.assertEqual(client.declare("q", passive=True).message_count, 100)
        client.consume("q", prefetch=10)
        first = [client.delivery() for _ in range(10)]
        self.assertEqual([int(message.body) for message in first], list(range(10)))
        self.assertEqual([message.delivery_tag for message in first], list(range(1, 11)))
        client.send("BASIC_NACK", first[9].delivery_tag, True, True)  # all ten messages are ready again, in their places
        again = [client.delivery() for _ in range(10)]
        self.assertEqual(sorted(int(message.body) for message in again), list(range(10)))
        self.assertTrue(all(message.redelivered for message in again))
        client.ack(again[9].delivery_tag, multiple=True)
        rest = []
        while len(rest) < 90:
            rest.append(client.delivery())
            client.ack(rest[-1].delivery_tag)
        self.assertEqual([int(message.body) for message in rest], list(range(10, 100)))
        self.assertEqual(client.declare("q", passive=True).message_count, 0)

    def test_a_confirmed_message_is_got_at_once(self):
        """A message can be fetched even within the millisecond in which it was published."""
        client = self.client()
        client.ask("CONFIRM_SELECT", 0)
        client.declare("q")
        for number in range(200):
            client.publish("", "q", b"%d" % number)
            self.assertEqual(client.confirm().name, "BASIC_ACK")
            message = client.get("q")
            self.assertEqual((message and message.body, message and message.message_count), (b"%d" % number, 0), number)

    def test_priorities_come_first(self):
        client = self.client()
        client.declare("q", arguments={"x-max-priority": 9})
        for priority in (0, 3, 9, 1):
            client.publish("", "q", b"%d" % priority, priority=priority)
        self.assertEqual([client.get("q").body for _ in range(4)], [b"9", b"3", b"1", b"0"])

    def test_what_a_connection_held_is_ready_at_once(self):
        """The messages of a broken connection are ready again, also after a kill of the broker, because the leases of a
        connection end with the process.
        """
        client = self.client()
        client.declare("q")
        client.publish("", "q", b"x")
        client.consume("q")
        self.assertFalse(client.delivery().redelivered)
        client.socket.close()
        other = self.client()
        other.consume("q")
        self.assertTrue(other.delivery().redelivered)
        self.broker.kill()
        self.broker.start()
        third = self.client(timeout=8)  # the message must come within 8 s, which is earlier than the lease would end
        third.consume("q")
        message = third.delivery()
        self.assertEqual((message.body, message.redelivered), (b"x", True))
        self.assertIn("its connection ended with the former broker process", self.broker.words("audit", "--kind", "session_end"))
        third.ack(message.delivery_tag)
        self.assertEqual(third.declare("q", passive=True).message_count, 0)

    def test_a_consumer_without_acks_is_acked_for(self):
        client = self.client()
        client.declare("q")
        client.consume("q", no_ack=True)
        for number in range(500):
            client.publish("", "q", b"%d" % number)
        self.assertEqual([int(client.delivery().body) for _ in range(500)], list(range(500)))
        self.broker.wait_stats("q", acked=500, in_flight=0)

    def test_exchanges_route(self):
        client = self.client()
        for queue in ("a", "b", "c"):
            client.declare(queue)
        client.bind("a", "amq.fanout")
        client.bind("b", "amq.fanout")
        client.bind("a", "amq.direct", "k")
        client.bind("b", "amq.topic", "x.*.z")
        client.bind("c", "amq.headers", "", {"x-match": "all", "colour": "red", "size": 3})
        client.exchange("e2e", "direct")
        client.ask("EXCHANGE_BIND", 0, "amq.fanout", "e2e", "all", False, {})

        def got():
            return "".join(queue for queue in ("a", "b", "c") if client.get(queue) is not None)
        for exchange, key, headers, queues in (("amq.fanout", "", {}, "ab"), ("amq.direct", "k", {}, "a"), ("amq.direct", "l", {}, ""),
                                               ("amq.topic", "x.y.z", {}, "b"), ("amq.headers", "", {"colour": "red", "size": 3}, "c"),
                                               ("amq.headers", "", {"colour": "red"}, ""), ("e2e", "all", {}, "ab"), ("", "c", {}, "c"),
                                               ("", "a", {"CC": ["b"], "BCC": ["c"]}, "abc")):
            client.publish(exchange, key, b"x", headers=headers)
            self.assertEqual(got(), queues, (exchange, key, headers))
        client.ask("QUEUE_UNBIND", 0, "a", "amq.fanout", "", {})
        client.publish("amq.fanout", "", b"x")
        self.assertEqual(got(), "b")
        client.publish("", "a", b"x", headers={"BCC": ["c"], "n": 1})
        self.assertEqual(client.get("a").properties["headers"], {"n": 1})

    def test_a_message_for_nobody_returns(self):
        client = self.client()
        client.ask("CONFIRM_SELECT", 0)
        client.publish("", "nobody", b"body", mandatory=True, type="t")
        returned = client.expect("BASIC_RETURN")
        self.assertEqual((returned.reply_code, returned.routing_key, returned.body, returned.properties), (312, "nobody", b"body", {"type": "t"}))
        self.assertEqual((client.confirm().name), "BASIC_ACK")
        client.declare("q")
        for _ in range(1000):
            client.publish("", "q", b"x")
        last = 1
        while last < 1001:
            confirm = client.confirm()
            self.assertEqual(confirm.name, "BASIC_ACK")
            self.assertGreater(confirm.delivery_tag, last)
            self.assertTrue(confirm.multiple or confirm.delivery_tag == last + 1, (last, confirm))
            last = confirm.delivery_tag
        self.assertEqual(client.declare("q", passive=True).message_count, 1000)

    def test_a_message_expires_after_its_time(self):
        client = self.client()
        client.declare("ttl", arguments={"x-message-ttl": 300})
        client.declare("plain")
        client.publish("", "ttl", b"x")
        client.publish("", "plain", b"x", expiration="300")
        client.publish("", "plain", b"stays", expiration="3600000")
        self.assertEqual(client.declare("plain", passive=True).message_count, 2)
        began = time.monotonic()
        wait_until("the time of the messages is over", lambda: time.monotonic() > began + 0.5, 10)
        self.assertIsNone(client.get("ttl"))
        self.assertEqual(client.get("plain").body, b"stays")
        self.assertIsNone(client.get("plain"))
        self.broker.wait_stats("ttl", expired=1)
        self.broker.wait_stats("plain", expired=1)

    # ---- dead letters

    def test_an_order_is_closed_when_it_is_due(self):
        """The usual delay queue: a queue with a dead-letter exchange, messages with an expiration, and a consumer of the dead
        letters. Each message has its own timer, so a short delay does not wait for a long one (TIME-1).
        """
        client = self.client()
        client.ask("CONFIRM_SELECT", 0)
        client.exchange("close", "direct")
        client.declare("close-order")
        client.bind("close-order", "close", "order")
        client.declare("delay", arguments={"x-dead-letter-exchange": "close", "x-dead-letter-routing-key": "order"})
        began = time.monotonic()
        client.publish("", "delay", b"long", expiration="1500", headers={"x-tarry-key": "1"})
        client.publish("", "delay", b"short", expiration="400", delivery_mode=2)
        client.publish("", "delay", b"60 days", expiration="5184000000", headers={"x-tarry-key": "far"})
        client.publish("", "delay", b"never", headers={"x-tarry-key": "never"})
        while (confirm := client.confirm()).delivery_tag < 4:
            self.assertEqual(confirm.name, "BASIC_ACK")
        client.consume("close-order")
        first = client.delivery()
        self.assertGreater(time.monotonic() - began, 0.35)
        second = client.delivery()
        self.assertGreaterEqual(time.monotonic() - began, 1.5)
        self.assertEqual((first.body, first.exchange, first.routing_key), (b"short", "close", "order"))
        self.assertEqual(second.body, b"long")
        self.assertNotIn("expiration", first.properties)
        headers = first.properties["headers"]
        death = headers.pop("x-death")[0]
        self.assertAlmostEqual(death.pop("time"), time.time(), delta=60)
        self.assertEqual(death, {"count": 1, "exchange": "", "queue": "delay", "reason": "expired", "routing-keys": ["delay"], "original-expiration": "400"})
        self.assertEqual(headers, {"x-first-death-exchange": "", "x-first-death-queue": "delay", "x-first-death-reason": "expired"})
        client.ack(second.delivery_tag, multiple=True)
        self.assertEqual(client.declare("delay", passive=True).message_count, 2)
        self.assertEqual(self.broker.one("cancel", "delay", "far")["result"], "cancelled")
        self.assertEqual(client.get("delay").body, b"never")

    # ---- x-delayed-message: the cases of RabbitMQ's delayed message plugin, and what it lacks

    def delayed(self, kind="direct", name="late", **options):
        client = self.client()
        client.ask("CONFIRM_SELECT", 0)
        client.exchange(name, "x-delayed-message", {"x-delayed-type": kind}, **options)
        for queue in ("a", "b"):
            client.declare(queue)
        return client

    def got(self, client, count, queues=("a",)):
        for queue in queues:
            client.consume(queue, no_ack=True, tag=queue)
        messages = [client.delivery() for _ in range(count)]
        for queue in queues:
            client.ask("BASIC_CANCEL", queue, False)
        return messages

    def test_an_exchange_delays_messages(self):
        """TIME-1: messages come in the order of their delays, not of their publishes. A delay may be a text."""
        client = self.delayed()
        client.bind("a", "late", "k")
        began = time.monotonic()
        for delay in (900, 300, "600", 0, None, -5):
            client.publish("late", "k", str(delay).encode(), headers={} if delay is None else {"x-delay": delay})
        client.publish("late", "elsewhere", b"for nobody", headers={"x-delay": 1})
        self.broker.wait_stats("late.x-delayed", pending=3, wait_s=30)
        messages = self.got(client, 6)
        self.assertGreaterEqual(time.monotonic() - began, 0.9)
        self.assertEqual([message.body for message in messages], [b"0", b"None", b"-5", b"300", b"600", b"900"])
        self.assertEqual([message.properties["headers"].get("x-delay") for message in messages], [0, None, -5, -300, -600, -900])
        self.assertEqual({(message.exchange, message.routing_key) for message in messages}, {("late", "k")})
        self.assertEqual(client.declare("a", passive=True).message_count, 0)

    def test_a_delayed_message_is_routed_when_it_is_due(self):
        for kind, key, binding, other in (("direct", "k", "k", "l"), ("topic", "x.y", "x.#", "y.#"), ("fanout", "", "", None)):
            with self.subTest(kind):
                client = self.delayed(kind, kind)
                client.publish(kind, key, b"x", headers={"x-delay": 500, "n": 1})
                client.bind("a", kind, binding)  # the binding is made only after the publish
                client.bind("b", kind, binding if other is None else other)
                message, *more = self.got(client, 2 if other is None else 1, ("a", "b"))
                self.assertEqual((message.body, message.properties["headers"]), (b"x", {"n": 1, "x-delay": -500}))
        client = self.delayed("headers", "heads")
        client.bind("a", "heads", "", {"x-match": "all", "colour": "red"})
        client.publish("heads", "", b"red", headers={"x-delay": 100, "colour": "red"})
        client.publish("heads", "", b"blue", headers={"x-delay": 50, "colour": "blue"})
        self.assertEqual(self.got(client, 1)[0].body, b"red")
        client.exchange("front", "fanout")
        client.ask("EXCHANGE_BIND", 0, "heads", "front", "", False, {})
        client.bind("b", "front")
        client.publish("front", "", b"both", headers={"x-delay": 300, "colour": "red"})
        self.assertEqual(self.got(client, 1, ("b",))[0].properties["headers"]["x-delay"], 300)
        self.assertEqual(self.got(client, 1)[0].properties["headers"]["x-delay"], -300)

    def test_delayed_messages_survive_a_kill(self):
        """LOG-1: a delayed message is moved even if its delay ends while the broker is down."""
        client = self.delayed()
        client.bind("a", "late", "k")
        for number in range(200):
            client.publish("late", "k", b"%d" % number, headers={"x-delay": 300 + number * 10})
        while client.confirm().delivery_tag < 200:
            pass
        for _ in range(2):
            self.broker.kill()
            self.broker.start()
        client = self.client()
        bodies = [int(message.body) for message in self.got(client, 200)]
        self.assertEqual(sorted(bodies), list(range(200)))
        self.assertEqual(client.declare("a", passive=True).message_count, 0)

    def test_a_delayed_message_is_cancelled_by_another_door(self):
        client = self.delayed()
        client.bind("a", "late", "k")
        client.bind("b", "late", "other")
        client.publish("late", "k", b"1", headers={"x-delay": 315360000000, "x-tarry-key": "order-1"})  # ten years
        client.publish("late", "k", b"2", headers={"x-delay": 600, "x-tarry-key": "order-2", "BCC": ["other"]}, expiration="60000")
        while client.confirm().delivery_tag < 2:
            pass
        self.assertEqual(self.broker.one("cancel", "late.x-delayed", "order-1")["result"], "cancelled")
        copies = self.got(client, 2, ("a", "b"))
        self.assertEqual([message.body for message in copies], [b"2", b"2"])
        self.assertNotIn("BCC", copies[0].properties["headers"])
        self.assertEqual(copies[0].properties["expiration"], "60000")

    def test_a_delayed_exchange_keeps_its_place(self):
        client = self.delayed()
        client.publish("late", "k", b"x", headers={"x-delay": 60000})
        client.confirm()
        self.assert_closed(406, client.declare, "late.x-delayed")
        client = self.client()
        client.declare("soon.x-delayed")
        self.assert_closed(406, client.exchange, "soon", "x-delayed-message", {"x-delayed-type": "direct"})
        client = self.client()
        client.exchange("late", "x-delayed-message", {"x-delayed-type": "direct"})
        self.assert_closed(406, client.exchange, "late", "x-delayed-message", {"x-delayed-type": "topic"})
        for delay in ("soon", "", "-", 1 << 60, True, "9" * 16):
            client = self.client()
            client.publish("late", "k", b"x", headers={"x-delay": delay})
            self.assertIn("x-delay", self.assert_closed(406, client.next))
        client = self.client()
        client.ask("EXCHANGE_DELETE", 0, "late", False, False)
        wait_until("its messages have gone", lambda: self.broker.queue_stats("late.x-delayed") is None, 60)
        client.exchange("late", "x-delayed-message", {"x-delayed-type": "topic"})
        client.exchange("gone", "x-delayed-message", {"x-delayed-type": "fanout"})
        client.ask("EXCHANGE_BIND", 0, "gone", "late", "#", False, {})
        client.declare("end")
        client.bind("end", "gone")
        client.publish("late", "k", b"both", headers={"x-delay": 100})
        self.assertEqual(self.got(client, 1, ("end",))[0].properties["headers"]["x-delay"], -100)

    def test_a_delayed_exchange_that_ends_with_its_last_binding_leaves_no_queue(self):
        client = self.delayed(auto_delete=True)
        client.bind("a", "late", "k")
        client.publish("late", "k", b"x", headers={"x-delay": 1})
        self.assertEqual(self.got(client, 1)[0].body, b"x")
        self.assertIsNotNone(self.broker.queue_stats("late.x-delayed"))
        client.ask("QUEUE_UNBIND", 0, "a", "late", "k", {})
        self.assert_closed(404, client.exchange, "late", "direct", passive=True)
        wait_until("the broker's queue has gone", lambda: self.broker.queue_stats("late.x-delayed") is None, 60)

    def test_consumers_take_messages_before_they_expire(self):
        client = self.client()
        client.declare("dead")
        client.declare("work", arguments={"x-message-ttl": 60000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
        for number in range(20):
            client.publish("", "work", b"%d" % number)
        self.assertEqual(client.declare("work", passive=True).message_count, 20)
        client.consume("work", prefetch=5)
        for number in range(20):
            message = client.delivery()
            self.assertEqual(int(message.body), number)
            client.send("BASIC_REJECT", message.delivery_tag, False) if number % 2 else client.ack(message.delivery_tag)
        other = self.client()
        other.consume("dead")
        bodies = []
        for _ in range(10):
            message = other.delivery()
            self.assertEqual(message.properties["headers"]["x-death"][0]["reason"], "rejected")
            other.ack(message.delivery_tag)
            bodies.append(int(message.body))
        self.assertEqual(sorted(bodies), list(range(1, 20, 2)))
        self.assertEqual(client.declare("work", passive=True).message_count, 0)

    def test_no_message_is_lost_or_doubled_on_its_way_to_the_dead_letters(self):
        """The broker is killed while messages expire (LOG-1, ONCE-1)."""
        client = self.client()
        client.ask("CONFIRM_SELECT", 0)
        client.exchange("dlx", "fanout")
        for queue in ("one", "two"):
            client.declare(queue)
            client.bind(queue, "dlx")
        client.declare("wait", arguments={"x-dead-letter-exchange": "dlx"})
        for number in range(3000):
            client.publish("", "wait", b"%d" % number, expiration=str(number % 1500))
        while client.confirm().delivery_tag < 3000:
            pass
        for _ in range(3):
            self.broker.kill()
            self.broker.start()
        client = self.client()
        wait_until("all are due", lambda: client.declare("wait", passive=True).message_count == 0, 60)
        for queue in ("one", "two"):
            wait_until("all have come", lambda: client.declare(queue, passive=True).message_count == 3000, 30)
            client.consume(queue, no_ack=True, tag=queue)
            bodies = [int(client.delivery().body) for _ in range(3000)]
            self.assertEqual(sorted(bodies), list(range(3000)))
            client.ask("BASIC_CANCEL", queue, False)

    def test_a_circle_of_dead_letters_ends(self):
        client = self.client()
        client.declare("circle", arguments={"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "circle"})
        client.publish("", "circle", b"x")
        wait_until("it is dropped", lambda: client.declare("circle", passive=True).message_count == 0, 30)

    def test_a_message_without_room_for_x_death_is_not_lost(self):
        """LOG-1: a dead-lettered message gets the header x-death. Here the message's headers have almost as many fields as a
        table may have, so x-death does not fit. The message must not be lost.
        """
        client = self.client()
        client.declare("dead")
        client.declare("wait", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
        client.publish("", "wait", b"full", expiration="100", headers={f"h{number}": None for number in range(1020)})
        client.publish("", "wait", b"small", expiration="400")
        client.consume("dead")
        self.assertEqual(client.delivery().body, b"small")
        stats = self.broker.queue_stats("wait")
        self.assertEqual((stats["acked"], stats["in_flight"]), (1, 1))

    def test_a_transaction_is_one_commit(self):
        client = self.client()
        client.declare("a")
        client.declare("b")
        client.ask("TX_SELECT")
        client.publish("", "a", b"1")
        client.publish("", "b", b"2")
        self.assertEqual(self.client().declare("a", passive=True).message_count, 0)
        client.ask("TX_ROLLBACK")
        client.ask("TX_COMMIT")
        self.assertEqual(client.declare("a", passive=True).message_count, 0)
        client.publish("", "a", b"1")
        client.publish("", "b", b"2")
        client.ask("TX_COMMIT")
        self.assertEqual([client.declare(queue, passive=True).message_count for queue in "ab"], [1, 1])
        message = client.get("a", no_ack=False)
        client.ack(message.delivery_tag)
        client.publish("", "b", b"3")
        client.ask("TX_ROLLBACK")
        client.ack(message.delivery_tag)  # the message is acknowledged only now
        client.ask("TX_COMMIT")
        self.assertEqual(self.broker.queue_stats("a")["acked"], 1)
        self.assertEqual(client.declare("b", passive=True).message_count, 1)
        client.publish("", "a", b"4", headers={"x-tarry-key": "k"})
        client.publish("", "a", b"5", headers={"x-tarry-key": "k"})
        self.assert_closed(406, client.ask, "TX_COMMIT")
        self.assertEqual(self.client().declare("a", passive=True).message_count, 0)

    def test_a_refused_transaction_settles_nothing(self):
        """Messages that an open transaction has acked or rejected are ready again at once. Messages that a committed one has
        rejected become dead letters.
        """
        client = self.client()
        client.declare("dead")
        client.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
        for body in (b"acked", b"rejected"):
            client.publish("", "q", body)
        client.ask("TX_SELECT")
        client.ack(client.get("q", no_ack=False).delivery_tag)
        client.send("BASIC_REJECT", client.get("q", no_ack=False).delivery_tag, False)
        for _ in range(2):
            client.publish("", "dead", b"twice", headers={"x-tarry-key": "k"})
        self.assert_closed(406, client.ask, "TX_COMMIT")
        client.ask("CHANNEL_OPEN", "")
        client.consume("q")
        again = [client.delivery() for _ in range(2)]
        self.assertEqual([(message.body, message.redelivered) for message in again], [(b"acked", True), (b"rejected", True)])
        self.assertEqual(client.declare("dead", passive=True).message_count, 0)
        client.ask("TX_SELECT")
        client.send("BASIC_NACK", again[1].delivery_tag, True, False)
        client.ask("TX_ROLLBACK")
        client.ack(again[0].delivery_tag)
        client.send("BASIC_REJECT", again[1].delivery_tag, False)
        client.ask("TX_COMMIT")
        client.consume("dead")
        self.assertEqual(client.delivery().body, b"rejected")
        self.assertEqual(self.broker.queue_stats("q")["acked"], 2)

    def test_a_channel_that_ends_in_a_transaction_returns_its_deliveries(self):
        client = self.client()
        client.declare("q")
        for number in range(4):
            client.publish("", "q", b"%d" % number)
        client.ask("TX_SELECT")
        tags = [client.get("q", no_ack=False).delivery_tag for _ in range(4)]
        for tag in (tags[2], tags[0], tags[3]):
            client.ack(tag)
        client.ask("CHANNEL_CLOSE", 200, "", 0, 0)
        client.ask("CHANNEL_OPEN", "")
        client.consume("q")
        self.assertEqual([client.delivery().body for _ in range(4)], [b"0", b"1", b"2", b"3"])

    def test_deliveries_are_acknowledged_in_any_order(self):
        client = self.client()
        client.declare("q")
        for number in range(3000):
            client.publish("", "q", b"%d" % number)
        client.consume("q")
        tags = [client.delivery().delivery_tag for _ in range(3000)]
        random.Random(7).shuffle(tags)
        for tag in tags[:2000]:
            client.ack(tag)
        self.assertEqual(self.broker.wait_stats("q", acked=2000)["in_flight"], 1000)
        client.ack(max(tags[2000:]), multiple=True)
        self.broker.wait_stats("q", acked=3000, in_flight=0)
        client.ack(tags[0])
        self.assertIn("unknown delivery tag", self.assert_closed(406, client.next))

    def test_a_message_with_a_key_is_cancelled_by_another_door(self):
        client = self.client()
        client.ask("CONFIRM_SELECT", 0)
        client.declare("close")
        client.publish("", "close", b"1", headers={"x-tarry-key": "order-1"})
        client.publish("", "close", b"2", headers={"x-tarry-key": "order-2"})
        client.publish("", "close", b"again", headers={"x-tarry-key": "order-1"})
        confirms = {}
        while sum(confirms.values()) < 3:
            confirm = client.confirm()
            confirms[confirm.name] = confirms.get(confirm.name, 0) + (confirm.delivery_tag - sum(confirms.values()) if confirm.multiple else 1)
        self.assertEqual(confirms, {"BASIC_ACK": 2, "BASIC_NACK": 1})  # refused, because a live task has the key
        self.assertEqual(self.broker.one("cancel", "close", "order-1")["result"], "cancelled")
        client.consume("close")
        self.assertEqual(client.delivery().body, b"2")
        self.assertEqual(client.deliveries, [])

    def test_tasks_of_other_clients_are_messages(self):
        client = self.client()
        client.declare("q")
        self.broker.one("schedule", "q", "--in", "0s", "--body", "from tarry", "--attr", "colour=red")
        client.consume("q")
        message = client.delivery()
        self.assertEqual((message.body, message.exchange, message.routing_key), (b"from tarry", "", "q"))
        self.assertEqual(message.properties, {"headers": {"colour": "red"}})
        client.publish("", "q", b"from amqp")
        client.ack(message.delivery_tag)
        other = client.delivery()
        client.send("BASIC_REJECT", other.delivery_tag, True)
        client.close()
        self.assertEqual(self.broker.consume("q", "--count", "1").next()["body"], "from amqp")

    def test_a_large_message_in_many_frames(self):
        client = self.client()
        client.declare("q")
        body = random.Random(3).randbytes(1 << 20)
        client.publish("", "q", body)
        self.assertEqual(client.get("q").body, body)
        client.raw(amqp.pack_method(1, "BASIC_PUBLISH", 0, "", "q", False, False) + amqp.frame(2, 1, struct.pack(">HHQH", 60, 0, 1 << 40, 0)))
        self.assert_closed(406, client.next)

    # ---- queues

    def test_queues_of_a_connection_end_with_it(self):
        client = self.client()
        name = client.declare("", exclusive=True).queue
        self.assertRegex(name, "^amq.gen-")
        client.declare("gone", auto_delete=True)
        client.publish("", name, b"x")
        other = self.client()
        self.assert_closed(405, other.declare, name, exclusive=True)
        other.ask("CHANNEL_OPEN", "")
        other.consume("gone", tag="t")
        other.ask("BASIC_CANCEL", "t", False)
        wait_until("the broker has done it", lambda: self.is_missing("gone"), 30)
        client.close()
        wait_until("the broker has done it", lambda: self.is_missing(name), 30)
        third = self.client()
        third.declare("mine", exclusive=True)
        self.broker.kill()
        self.broker.start()
        wait_until("the broker has done it", lambda: self.is_missing("mine"), 30)

    def test_a_queue_expires_when_nobody_uses_it(self):
        client = self.client()
        began = time.monotonic()  # before the declaration, after which the queue lives for 400 ms
        client.declare("idle", arguments={"x-expires": 400})
        client.declare("consumed", arguments={"x-expires": 3000})  # a slow machine consumes within 3 s too
        client.publish("", "idle", b"x")
        client.consume("consumed", tag="t")
        wait_until("the queue has expired", lambda: self.broker.queue_stats("idle") is None, 60)
        self.assertGreater(time.monotonic() - began, 0.35)
        client.declare("got", arguments={"x-expires": 3000})  # 3 s, so that even on a slow machine the next get comes before the queue expires
        began = time.monotonic()
        while time.monotonic() - began < 3.5:
            client.get("got")
            time.sleep(0.05)
        self.assertFalse(self.is_missing("got"))
        self.assertFalse(self.is_missing("consumed"))
        client.ask("BASIC_CANCEL", "t", False)
        self.expires("consumed")
        self.expires("got")
        client.declare("later", arguments={"x-expires": 500})
        self.broker.kill()
        self.broker.start()
        self.expires("later")
        for value in (0, -1, "5", 1 << 60):
            self.assertIn("x-expires", self.assert_closed(406, self.client().declare, "bad", arguments={"x-expires": value}))

    def expires(self, queue):
        """Waits until the queue has expired. Uses the statistics of the Tarry queue, because a passive declaration would
        restart the AMQP queue's expiry time.
        """
        wait_until(f"{queue} has expired", lambda: self.broker.queue_stats(queue) is None, 60)
        self.assertTrue(self.is_missing(queue))

    def test_a_queue_with_thousands_of_bindings_is_deleted(self):
        client = self.client()
        client.declare("q")
        client.exchange("x", "direct")
        for number in range(2100):
            client.send("QUEUE_BIND", 0, "q", "x", str(number), True, {})
        client.publish("x", "2099", b"x")
        self.assertEqual(client.ask("QUEUE_DELETE", 0, "q", False, False, False).message_count, 1)
        self.broker.kill()
        self.broker.start()
        client = self.client()
        client.declare("q")
        for number in (0, 1000, 2099):
            client.publish("x", str(number), b"x")
        self.assertIsNone(client.get("q"))

    def test_purge_and_delete_end_messages(self):
        client = self.client()
        client.declare("q")
        for _ in range(300):
            client.publish("", "q", b"x")
        self.assertEqual(client.ask("QUEUE_PURGE", 0, "q", False).message_count, 300)
        self.assertIsNone(client.get("q"))
        client.publish("", "q", b"x")
        self.assert_closed(406, client.ask, "QUEUE_DELETE", 0, "q", False, True, False)
        client.ask("CHANNEL_OPEN", "")
        tag = client.consume("q")
        client.delivery()
        client.publish("", "q", b"y")
        client.delivery()
        other = self.client()
        other.ask("QUEUE_DELETE", 0, "q", False, False, False)
        self.assertEqual(client.expect("BASIC_CANCEL").consumer_tag, tag)
        client.ack(0, multiple=True)  # a client may still acknowledge messages of a deleted queue
        self.assertEqual(client.declare("q").message_count, 0)
        self.assertIsNone(client.get("q"))
        self.assertTrue(self.is_missing("never"))

    def test_what_is_refused_names_the_reason(self):
        def fresh():
            return self.client()
        fresh().declare("q", arguments={"x-message-ttl": 1000})
        for code, words, ask in (
                (404, "no queue 'nope'", lambda c: c.declare("nope", passive=True)),
                (404, "no exchange 'nope'", lambda c: (c.publish("nope", "k"), c.next())),
                (406, "inequivalent arg 'durable'", lambda c: c.declare("q", durable=False, arguments={"x-message-ttl": 1000})),
                (406, "inequivalent arg 'x-message-ttl'", lambda c: c.declare("q", arguments={"x-message-ttl": 2000})),
                (406, "x-message-ttl", lambda c: c.declare("p", arguments={"x-message-ttl": "1"})),
                (540, "streams", lambda c: c.declare("p", arguments={"x-queue-type": "stream"})),
                (540, "does not support", lambda c: c.declare("p", arguments={"x-max-length": 5})),
                (406, "x-dead-letter-exchange", lambda c: c.declare("p", arguments={"x-dead-letter-routing-key": "k"})),
                (403, "reserved prefix", lambda c: c.declare("amq.mine")),
                (403, "tarry.", lambda c: c.declare("tarry.once")),
                (406, "128", lambda c: c.declare("x" * 200)),
                (406, "expiration", lambda c: (c.publish("", "q", expiration="soon"), c.next())),
                (406, "user_id", lambda c: (c.publish("", "q", user_id="root"), c.next())),
                (406, "unknown delivery tag 7", lambda c: (c.ack(7), c.next())),
                (406, "not transactional", lambda c: c.ask("TX_COMMIT")),
                (540, "immediate", lambda c: (c.send("BASIC_PUBLISH", 0, "", "q", False, True), c.next())),
                (503, "x-delayed-message", lambda c: c.exchange("d", "x-unknown")),
                (406, "x-delayed-type", lambda c: c.exchange("d", "x-delayed-message")),
                (406, "x-delayed-type", lambda c: c.exchange("d", "x-delayed-message", {"x-delayed-type": "x-delayed-message"})),
                (406, "x-delayed-type", lambda c: c.exchange("d", "x-delayed-message", {"x-delayed-type": 1})),
                (406, "118", lambda c: c.exchange("d" * 119, "x-delayed-message", {"x-delayed-type": "direct"})),
                (403, "default exchange", lambda c: c.bind("q", "")),
                (503, "", lambda c: c.send("CONNECTION_START_OK", {}, "PLAIN", "", "", channel=0) or c.next())):
            with self.subTest(words):
                self.assertIn(words, self.assert_closed(code, ask, fresh()))
        client = fresh()
        client.consume("q", exclusive=True)
        self.assert_closed(403, fresh().consume, "q")
        with self.assertRaises(Closed) as caught:
            other = Client(self.amqp_port(), opens=False)
            other.raw(b"AMQP\0\0\x09\x01")
            other.expect("CONNECTION_START")
            other.send("CONNECTION_START_OK", {"capabilities": {"authentication_failure_close": True}}, "PLAIN", "\0guest\0guest", "en_US", channel=0)
            other.expect("CONNECTION_TUNE")
            other.send("CONNECTION_TUNE_OK", 0, 131072, 0, channel=0)
            other.send("CONNECTION_OPEN", "elsewhere", "", 0, channel=0)
            other.next()
        self.assertEqual(caught.exception.code, 530)

    def test_a_message_is_not_returned_more_often_than_its_limit(self):
        client = self.client()
        client.declare("dead")
        client.declare("q", arguments={"x-delivery-limit": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
        client.declare("dropped", arguments={"x-delivery-limit": 0})
        client.publish("", "q", b"poison")
        client.consume("q", tag="t")
        for number in range(3):
            message = client.delivery()
            self.assertEqual((message.body, message.redelivered), (b"poison", number > 0))
            client.send("BASIC_REJECT", message.delivery_tag, True)
        client.consume("dead")
        message = client.delivery()
        self.assertEqual((message.routing_key, message.properties["headers"]["x-death"][0]["reason"]), ("dead", "delivery_limit"))
        client.ask("BASIC_CANCEL", "t", False)
        for body in (b"1", b"2", b"3", b"4"):
            client.publish("", "dropped", body)
        tags = [client.get("dropped", no_ack=False).delivery_tag for _ in range(3)]
        for tag in tags:
            client.send("BASIC_REJECT", tag, True)
        message = client.get("dropped")
        self.assertEqual((message.body, message.message_count), (b"4", 0))
        self.assertIsNone(client.get("dropped"))
        self.broker.wait_stats("dropped", acked=4, in_flight=0)
        for value in (-1, "3", 1 << 40):
            self.assert_closed(406, self.client().declare, "bad", arguments={"x-delivery-limit": value})

    def test_one_consumer_is_active(self):
        client = self.client()
        client.declare("q", arguments={"x-single-active-consumer": True})
        others = [self.client() for _ in range(3)]
        for other in others:
            other.consume("q", prefetch=10)
        for number in range(20):
            client.publish("", "q", b"%d" % number)
        first = [others[0].delivery() for _ in range(10)]
        self.assertEqual([int(message.body) for message in first], list(range(10)))
        others[0].ack(first[4].delivery_tag, multiple=True)
        self.assertEqual([int(others[0].delivery().body) for _ in range(5)], list(range(10, 15)))
        others[0].socket.close()
        self.assertEqual([int(others[1].delivery().body) for _ in range(10)], list(range(5, 15)))
        others[1].ask("BASIC_CANCEL", others[1].consume("amq.rabbitmq.reply-to", no_ack=True), False)
        others[1].ask("CHANNEL_CLOSE", 200, "", 0, 0)
        self.assertEqual([int(others[2].delivery().body) for _ in range(10)], list(range(5, 15)))
        self.assertEqual(client.declare("q", passive=True, arguments={}).consumer_count, 1)
        self.assert_closed(406, client.declare, "p", arguments={"x-single-active-consumer": 1})

    # ---- direct reply-to

    def test_replies_come_on_the_channel_of_the_request(self):
        server, client = self.client(), self.client()
        server.declare("rpc")
        server.consume("rpc", no_ack=True)
        self.assertEqual(client.declare("amq.rabbitmq.reply-to", passive=True).queue, "amq.rabbitmq.reply-to")
        tag = client.consume("amq.rabbitmq.reply-to", no_ack=True)
        for number in range(3):
            client.publish("", "rpc", b"%d" % number, reply_to="amq.rabbitmq.reply-to", correlation_id=str(number), headers={"BCC": ["nobody"]})
            request = server.delivery()
            address = request.properties["reply_to"]
            self.assertRegex(address, r"^amq\.rabbitmq\.reply-to\.")
            self.assertNotIn("BCC", request.properties["headers"])
            server.publish("", address, request.body * 70000, correlation_id=request.properties["correlation_id"])
            reply = client.delivery()
            self.assertEqual((reply.body, reply.consumer_tag, reply.delivery_tag, reply.properties), (request.body * 70000, tag, number + 1,
                                                                                                      {"correlation_id": str(number)}))
        self.assertEqual(server.declare(address, passive=True).consumer_count, 1)
        forged = address[:-1] + ("0" if address[-1] != "0" else "1")
        server.ask("CONFIRM_SELECT", 0)
        for other in (forged, "amq.rabbitmq.reply-to.", "amq.rabbitmq.reply-to.x.y", address + "0", address.rsplit(".", 1)[0]):
            server.publish("", other, b"x", mandatory=True)
            self.assertEqual(server.expect("BASIC_RETURN").routing_key, other)
            self.assertEqual(server.confirm().name, "BASIC_ACK")
            self.assert_closed(404, self.client().declare, other, passive=True)
        client.ask("BASIC_CANCEL", tag, False)
        self.assertEqual(client.deliveries, [])
        server.publish("", address, b"late", mandatory=True)
        self.assertEqual(server.expect("BASIC_RETURN").body, b"late")
        self.assertIn("does not exist", self.assert_closed(406, lambda: (client.publish("", "rpc", reply_to="amq.rabbitmq.reply-to"), client.next())))
        other = self.client()
        self.assert_closed(406, other.consume, "amq.rabbitmq.reply-to")
        other = self.client()
        other.consume("amq.rabbitmq.reply-to", no_ack=True)
        self.assert_closed(406, other.consume, "amq.rabbitmq.reply-to", no_ack=True)

    # ---- who may connect

    def test_the_password_is_a_token(self):
        tokens = self.path("tokens")
        command = [harness.find_program("tarry"), "token", "add", "shop", "--role", "produce", "--role", "consume", "--queue", "shop.", "--file", tokens]
        shop = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        self.broker.stop()
        self.broker.arguments += ["--tokens", tokens]
        self.broker.start()
        self.assert_closed(403, self.client, user="shop", password="wrong")
        client = self.client(user="shop", password=shop)
        client.declare("shop.orders")
        client.publish("", "shop.orders", b"x")
        self.assertEqual(client.get("shop.orders").body, b"x")
        self.client().declare("other")
        for ask in (lambda c: c.declare("other2"), lambda c: c.exchange("other", "fanout"), lambda c: c.bind("shop.orders", "amq.fanout"),
                    lambda c: (c.publish("", "other", b"x"), c.next()), lambda c: (c.consume("other"), c.next()),
                    lambda c: c.ask("QUEUE_PURGE", 0, "other", False), lambda c: c.ask("QUEUE_DELETE", 0, "other", False, False, False)):
            self.assert_closed(403, ask, self.client(user="shop", password=shop))
        self.assertEqual(self.client().declare("other", passive=True).message_count, 0)

    @unittest.skipUnless(os.path.exists(SPECIFICATION), "needs Debian's amqp-specs")
    def test_the_table_of_methods_is_that_of_the_specification(self):
        script = os.path.join(os.path.dirname(amqp.TABLE), "methods.py")
        written = subprocess.run(["python3", script, SPECIFICATION], capture_output=True, text=True, check=True).stdout
        with open(amqp.TABLE) as table:
            self.assertEqual(table.read(), written)

    def test_pika_works_unchanged(self):
        for python in ("/usr/bin/python3", "python3"):
            if subprocess.run([python, "-c", "import pika"], capture_output=True).returncode == 0:
                break
        result = subprocess.run([python, "-c", PIKA, str(self.amqp_port())], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.stdout, f"{list(range(10))}\n", result.stderr)

    # ---- hostile clients

    def ended(self, client):
        """Returns whether the broker ends the connection. Reads everything that it sends before."""
        try:
            while client.socket.recv(65536):
                pass
        except ConnectionError:
            pass
        return True

    def test_hostile_bytes_harm_nobody(self):
        """F-20."""
        choice = random.Random(11)
        words = [b"AMQP\0\0\x09\x01", amqp.pack_method(1, "CHANNEL_OPEN", ""), amqp.pack_method(1, "QUEUE_DECLARE", 0, "h", 0, 1, 0, 0, 0, {}),
                 amqp.pack_method(1, "BASIC_PUBLISH", 0, "", "h", 0, 0), amqp.pack_content(1, b"x" * 100, {"headers": {"a": 1}}),
                 amqp.pack_method(1, "BASIC_CONSUME", 0, "h", "", 0, 0, 0, 0, {}), amqp.pack_method(1, "BASIC_ACK", 0, 1), amqp.frame(8, 0, b""),
                 amqp.pack_method(1, "CHANNEL_CLOSE", 200, "", 0, 0), amqp.pack_method(0, "CONNECTION_CLOSE", 200, "", 0, 0), b"\x01\0\x01\0\0",
                 amqp.frame(1, 1, b"\0\x32\0\x0a\0\0\x01q\0\xff\xff\xff\xff"), b"\xce", b"\0" * 9, bytes(range(256)),
                 amqp.pack_method(1, "BASIC_GET", 0, "h", 0), amqp.pack_method(1, "QUEUE_DELETE", 0, "h", 0, 0, 0), amqp.frame(3, 1, b"body"),
                 amqp.pack_method(1, "EXCHANGE_DECLARE", 0, "e", "topic", 0, 1, 0, 0, 0, {}), amqp.pack_method(1, "CONFIRM_SELECT", 0),
                 amqp.pack_method(1, "QUEUE_BIND", 0, "h", "e", "#." * 100, 0, {}), amqp.pack_method(1, "BASIC_NACK", 1, 1, 1)]
        for round_number in range(150):
            client = Client(self.amqp_port(), opens=round_number % 3 != 0)
            data = b"".join(choice.choice(words) for _ in range(choice.randrange(1, 40)))
            try:
                for at in range(0, len(data), 131):
                    client.raw(data[at:at + 131])
                if choice.random() < 0.5:
                    client.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            client.socket.close()
        with self.client() as client:
            client.declare("after")
            client.publish("", "after", b"x")
            self.assertEqual(client.get("after").body, b"x")

    def test_lies_about_sizes_end_the_connection(self):
        """F-20."""
        for data in (struct.pack(">BHI", 1, 1, 0xffffffff), struct.pack(">BHI", 3, 1, 131073), b"\x07", amqp.frame(1, 1, b"\0\x32")[:-1] + b"x",
                     amqp.pack_method(1, "BASIC_PUBLISH", 0, "", "q", 0, 0) + amqp.frame(2, 1, struct.pack(">HHQH", 60, 0, 3, 0)) + amqp.frame(3, 1, b"four"),
                     amqp.pack_method(1, "QUEUE_DECLARE", 0, "q", 0, 1, 0, 0, 0, amqp.long(b"\x01aF" * 40 + b"\0\0\0\0")),
                     amqp.frame(3, 1, b"x"), amqp.pack_method(2048, "CHANNEL_OPEN", ""), amqp.pack_method(5, "BASIC_ACK", 1, 0)):
            client = self.client()
            client.raw(data)
            self.assertTrue(self.ended(client), data)
        stranger = Client(self.amqp_port(), opens=False)
        stranger.raw(b"AMQP\0\0\x09\x01" + struct.pack(">BHI", 1, 0, 20000))
        self.assertTrue(self.ended(stranger))
        other = Client(self.amqp_port(), opens=False)
        other.raw(b"AMQP\1\1\0\x0a")
        self.assertEqual(other.read(8), b"AMQP\0\0\x09\x01")
        self.assertTrue(self.ended(other))

    def test_a_silent_client_is_not_waited_for(self):
        client = self.client(heartbeat=1)
        began = time.monotonic()
        beats = 0
        try:
            while True:
                beats += client.read_frame()[0] == 8
        except (EOFError, ConnectionError):
            pass
        self.assertGreaterEqual(beats, 2)
        self.assertGreater(time.monotonic() - began, 1.9)
        silent = Client(self.amqp_port(), opens=False)
        self.assertTrue(self.ended(silent))  # a connection without a handshake ends after AMQP_HANDSHAKE_MS

    def test_floods_cost_bounded_memory(self):
        """CAP-1: opens 40,000 channels on 20 connections, sends arguments and headers of the maximum size, and has a client
        that reads nothing.
        """
        def resident():
            with open(f"/proc/{self.broker.process.pid}/status") as status:
                return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS:"))
        client = self.client()
        client.declare("q")
        clients = [self.client() for _ in range(20)]
        for other in clients:
            other.raw(b"".join(amqp.pack_method(number, "CHANNEL_OPEN", "") for number in range(2, 2002)))
        for other in clients:
            for _ in range(2000):
                other.expect("CHANNEL_OPEN_OK")
        deaf = self.client()
        deaf.consume("q", no_ack=True)
        for _ in range(200):
            client.publish("", "q", b"z" * 100000, headers={"h": "y" * 30000})
        self.assertLess(resident(), 512 << 20)
        client.declare("fine")
        client.publish("", "fine", b"x")
        self.assertEqual(client.get("fine").body, b"x")


class AmqpPair(pair.Case):
    """In a pair, declarations and messages that the leader confirmed are still there when the follower becomes the leader
    (LOG-1).
    """

    arguments = (*pair.Case.arguments, "--listen", "amqp://127.0.0.1:0")

    def client(self, broker):
        port = next(int(url.rsplit(":", 1)[1]) for url in broker.ready["urls"].split() if url.startswith("amqp://"))
        client = Client(port)
        self.addCleanup(client.socket.close)
        return client

    def test_the_other_node_goes_on(self):
        self.start_pair()
        with self.assertRaises(Closed) as caught:
            self.client(self.b)
        self.assertEqual(caught.exception.code, 320)
        self.assertIn(self.a.url, caught.exception.text)
        client = self.client(self.a)
        client.ask("CONFIRM_SELECT", 0)
        client.declare("dead")
        client.declare("wait", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
        client.declare("work")
        client.exchange("shop", "topic")
        client.bind("work", "shop", "#")
        client.publish("", "wait", b"later", expiration="2000")
        client.publish("shop", "k", b"now")
        while client.confirm().delivery_tag < 2:
            pass
        client.consume("work")
        client.delivery()
        self.a.kill()
        self.wait_role(self.b, "leading")
        other = self.wait_for("b serves AMQP", lambda: self.connected(self.b))
        other.consume("work")
        message = other.delivery()
        self.assertEqual((message.body, message.redelivered), (b"now", True))
        other.consume("dead")
        self.assertEqual(other.delivery().body, b"later")
        other.publish("shop", "k", b"again")
        self.assertEqual(other.delivery().body, b"again")

    def test_an_ack_whose_outcome_is_unknown_ends_the_connection(self):
        """The primary is killed while an ack waits for the follower's confirmation."""
        self.start_pair()
        client = self.client(self.a)
        client.declare("q")
        client.publish("", "q", b"x")
        client.consume("q")
        message = client.delivery()
        self.freeze(self.b)
        client.ack(message.delivery_tag)
        self.wait_for("the ack waits", lambda: self.a.tarry("status").one["peer"]["lag_bytes"] > 0)
        self.a.process.send_signal(signal.SIGTERM)
        with self.assertRaises(Closed) as caught:
            client.next()
        self.assertEqual(caught.exception.code, 541, caught.exception)

    def connected(self, broker):
        try:
            return self.client(broker)
        except (Closed, EOFError, OSError):
            return None


harness.main()
