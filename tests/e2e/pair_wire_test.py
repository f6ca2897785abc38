"""What no follower would say to its leader is refused, and breaks nothing."""
import harness
import pair
import wire

# Numbers of tarry.proto, and the log's format version.
FOLLOW, SENTENCE = 22, 14
FORMAT_VERSION = 1


class Strangers(pair.Case):
    def setUp(self):
        super().setUp()
        self.start_pair()
        self.a.ok("schedule", "orders", "--in", "1h")
        self.wait_for("compared", lambda: all(
            broker.tarry("status").one.get("digest_position") == self.a.one("status")["appended"] for broker in self.brokers))
        self.told = self.b.one("status")
        self.b.kill()

    def follow(self, *others):
        """The question that the follower would ask, but for `others`."""
        fields = {1: bytes.fromhex(self.told["cluster"]), 2: bytes.fromhex(self.told["member"]), 3: self.told["node"],
                  4: FORMAT_VERSION, 5: self.told["epoch"], 6: 1 << 40, 7: self.told["durable"], 14: self.told["url"], 23: 1,
                  **dict(others)}
        return list(fields.items())

    def test_a_digest_that_is_not_the_leaders(self):
        """F-31. The leader looks, too; what is not in the message is 0."""
        with wire.Rpc(self.a.port) as rpc:
            code, reply = rpc.ask(FOLLOW, self.follow((12, self.told["digest_position"])))
        self.assertEqual(code, wire.INVALID)
        self.assertIn("state is not the leader's", wire.decode(reply)[SENTENCE][0].decode())

    def test_a_url_that_is_none(self):
        """It would go into the pair's record."""
        with wire.Rpc(self.a.port) as rpc:
            for url in ("", "ws://", "ws://a b:7272", "ws://a\n:7272", "ws://\u00e4:7272", "http://a", "ws://a/path"):
                code, _ = rpc.ask(FOLLOW, self.follow((14, url)))
                self.assertEqual((code, rpc.sentence), (wire.INVALID, "url is not one by which a broker is reached"), url)
        self.wait_for("it goes on alone", lambda: self.record().get("in-sync") == "0")
        self.a.ok("schedule", "orders", "--in", "1h")


if __name__ == "__main__":
    harness.main()
