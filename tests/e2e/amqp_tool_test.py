"""amqp_tool_test.py: AMQP for operators: the commands of tarry amqp, its import of RabbitMQ's definitions, and the statistics
of the AMQP door.
"""
import json
import os
import re
import urllib.request

import harness
from amqp_case import AmqpCase
from harness import wait_until


class Tool(AmqpCase):
    def test_the_tool_lists_and_imports_what_is_declared(self):
        client = self.client()
        definitions = {"rabbit_version": "3.10.8", "users": [{"name": "guest"}], "vhosts": [{"name": "/"}],
                       "policies": [{"vhost": "/", "name": "ttl", "pattern": ".*", "definition": {"message-ttl": 5}}],
                       "exchanges": [{"name": "close", "vhost": "/", "type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {}},
                                     {"name": "late", "vhost": "/", "type": "x-delayed-message", "durable": True, "auto_delete": False, "internal": True,
                                      "arguments": {"x-delayed-type": "topic"}},
                                     {"name": "odd", "vhost": "/", "type": "x-random", "durable": True, "auto_delete": False, "internal": False, "arguments": {}},
                                     {"name": "far", "vhost": "other", "type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}],
                       "queues": [{"name": "close-order", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}},
                                  {"name": "delay", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {
                                      "x-dead-letter-exchange": "close", "x-dead-letter-routing-key": "order", "x-message-ttl": 1800000, "x": [True, None, {"y": "z"}]}},
                                  {"name": "log", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {"x-queue-type": "stream"}}],
                       "bindings": [{"source": "close", "vhost": "/", "destination": "close-order", "destination_type": "queue", "routing_key": "order", "arguments": {}},
                                    {"source": "close", "vhost": "/", "destination": "late", "destination_type": "exchange", "routing_key": "k", "arguments": {"n": 1}},
                                    {"source": "close", "vhost": "/", "destination": "log", "destination_type": "queue", "routing_key": "", "arguments": {}}]}
        path = self.path("rabbit.json")
        with open(path, "w") as file:
            json.dump(definitions, file)
        refused = {"odd": "refused", "log": "refused", "ttl": "not_imported"}

        def imported(*options):
            answer = self.broker.refused("amqp", "import", path, "--amqp", f"127.0.0.1:{self.amqp_port()}", *options)
            return {line["name"]: line["result"] for line in answer.objects}
        dry = imported("--dry-run")
        self.assertEqual(dry, {"close": "would_declare", "late": "would_declare", "close-order": "would_declare", "delay": "would_declare",
                               "close -> close-order": "would_declare", "close -> late": "would_declare", "close -> log": "would_declare", **refused})
        self.assertTrue(self.is_missing("delay"))
        for _ in range(2):  # twice, because a second import must change nothing
            real = imported()
            self.assertEqual(real, {**{name: result.replace("would_declare", "declared") for name, result in dry.items()}, "close -> log": "refused"})
        client.declare("delay", arguments=definitions["queues"][1]["arguments"])
        client.publish("", "close-order", b"x")
        client.consume("close-order")
        client.delivery()
        client.publish("", "close-order", b"y")
        client.delivery()
        client.publish("", "delay", b"z")
        exchanges = {line["name"]: line for line in self.broker.ok("amqp", "exchanges")}
        self.assertEqual({name: exchanges[name] for name in ("close", "late")}, {line["name"]: line for line in definitions["exchanges"][:2]})
        self.assertEqual(len(exchanges), 7)
        queues = {line["name"]: line for line in self.broker.ok("amqp", "queues")}
        self.assertEqual(queues["delay"], {**definitions["queues"][1], "exclusive": False, "messages": 1, "unacked": 0})
        self.assertEqual((queues["close-order"]["messages"], queues["close-order"]["unacked"]), (0, 2))
        self.assertEqual(self.broker.ok("amqp", "bindings"), definitions["bindings"][:2])
        self.assertRegex(self.broker.words("amqp", "bindings"), r"close +close-order +queue +order +-")
        self.assertRegex(self.broker.words("amqp", "exchanges"), r'late +x-delayed-message +internal +0 +{"x-delayed-type":"topic"}')
        self.assertRegex(self.broker.words("amqp", "queues"), r"close-order +- +0 +2 +-")
        for wrong, sentence in (("nowhere", "nowhere"), (__file__, "line"), (self.path("other.json"), "not a file of")):
            with open(self.path("other.json"), "w") as file:
                file.write("{}")
            self.assertIn(sentence, self.broker.refused("amqp", "import", wrong, status=2).err)
        self.assertIn("127.0.0.1:1", self.broker.refused("amqp", "import", path, "--amqp", "127.0.0.1:1", status=3).err)

    def test_a_token_stays_private(self):
        path, token = self.path("empty.json"), self.path("token")
        with open(path, "w") as file:
            json.dump({"exchanges": [], "queues": [], "bindings": []}, file)
        harness.make_private(token, "word\n")
        crosses = "the token would cross the network"
        for host in ("127.0.0.1.invalid", "localhost.invalid", "[::1].invalid", "broker.invalid", "192.0.2.1:1"):
            self.assertIn(crosses, self.broker.refused("amqp", "import", path, "--amqp", host, status=2, env={"TARRY_TOKEN_FILE": token}).err)
        environment = {"TARRY_TOKEN_FILE": token, "TARRY_UNSAFE_PLAIN_TOKEN": "0"}
        self.assertIn(crosses, self.broker.refused("amqp", "import", path, "--amqp", "broker.invalid", status=2, env=environment).err)
        os.chmod(token, 0o640)
        told = self.broker.refused("amqp", "import", path, "--amqp", "127.0.0.1:1", status=2, env={"TARRY_TOKEN_FILE": token}).err
        self.assertIn("other users can read it", told)
        os.chmod(token, 0o600)
        for host in ("127.0.0.1:1", "localhost:1", "[::1]:1"):
            self.assertNotIn(crosses, self.broker.refused("amqp", "import", path, "--amqp", host, status=3, env={"TARRY_TOKEN_FILE": token}).err)

    def test_the_numbers_of_the_door(self):
        client = self.client()
        other = self.client()
        other.send("CHANNEL_OPEN", "", channel=2)
        other.expect("CHANNEL_OPEN_OK")
        client.declare("q")
        client.declare("mine", exclusive=True)
        client.bind("q", "amq.fanout")
        client.bind("mine", "amq.fanout")
        client.consume("q")
        url = self.broker.url.replace("ws://", "http://") + "/metrics"

        def numbers():
            with urllib.request.urlopen(url, timeout=30) as page:
                return dict(re.findall(r"^tarry_amqp_(\w+) (\d+)$", page.read().decode(), re.MULTILINE))
        self.assertEqual(numbers(), {"connections": "2", "channels": "3", "consumers": "1", "blocked_connections": "0", "exchanges": "5", "queues": "2",
                                     "bindings": "2"})
        self.assertIn("amqp    2 connections, 3 channels, 1 consumers; 5 exchanges, 2 queues, 2 bindings\n", self.broker.words("stats"))
        client.socket.close()
        left = {"connections": "1", "channels": "2", "consumers": "0", "blocked_connections": "0", "exchanges": "5", "queues": "1", "bindings": "1"}
        wait_until("the connection's queue has gone", lambda: numbers() == left, 30)


harness.main()
