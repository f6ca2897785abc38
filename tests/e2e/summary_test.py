"""summary_test.py: compares `tarry audit --summary` with a count of the log, record by record."""
import collections
import re
import subprocess

import harness


def lateness_of(facts):
    return [fact["late_ms"] for fact in facts if "late_ms" in fact]


def quantile(values, share):
    """Returns the smallest value for which at least the fraction `share` of all values is less or equal."""
    values = sorted(values)
    return values[max(0, -(-int(share * 1000) * len(values) // 1000) - 1)]


class Summary(harness.Case):
    def take_one(self, queue, settle, *options):
        """Takes exactly one task, and settles it with a second command. Reason: a consumer that settles at once would receive
        a second task, and release it.
        """
        taken = self.broker.one("consume", queue, "--count", "1", "--ack", "none")
        self.broker.one(settle, taken["id"], taken["token"], *options)

    def live(self):
        """Makes a history that is small enough to count by hand."""
        q = self.broker
        for number in range(6):
            q.one("schedule", "q", "--key", f"k{number}", "--in", "1h")
        for number in range(4):
            q.one("move", "q", f"k{number}", "--in", "0s")
        q.one("cancel", "q", "k4")
        for settle in (["ack"], ["ack"], ["release"], ["nack", "--dead", "no"], ["nack", "--dead", "no"]):
            self.take_one("q", *settle)
        q.ok("dead", "requeue", "q", "--all")
        q.one("queue", "purge", "q")
        q.one("schedule", "r", "--in", "0s", "--expires", "1ms")
        q.one("schedule", "r", "--key", "again", "--in", "0s")
        self.take_one("r", "nack", "--delay", "0s")
        self.take_one("r", "ack")

    def told(self, *arguments):
        return self.broker.ok("audit", "--data", self.broker.data, *arguments)

    def summary(self, *arguments):
        return {item["queue"]: item for item in self.told("--summary", *arguments)}

    def check_against(self, item, facts):
        """Compares the queue's line of the summary with its records, one by one."""
        kinds = collections.Counter(fact["kind"] for fact in facts)
        self.assertEqual({kind: count for kind, count in item["counts"].items() if count}, dict(kinds))
        self.assertEqual(item["records"], len(facts))
        late = lateness_of(facts)
        self.assertEqual(item["late_ms"]["count"], len(late))
        below = -1
        for band in item["late_ms"]["bands"]:
            limit = band["up_to_ms"] if band["up_to_ms"] is not None else 1 << 64
            self.assertEqual(band["count"], sum(1 for value in late if below < value <= limit), band)
            below = limit
        if late:
            self.assertEqual(item["late_ms"]["max"], max(late))
            for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
                exact = quantile(late, share)
                self.assertLessEqual(abs(item["late_ms"][name] - exact), exact / 64)
        seconds = collections.Counter(fact["at_ms"] // 1000 for fact in facts)
        self.assertEqual([second["records"] for second in item["busiest"]],
                         [count for _, count in seconds.most_common(5)])
        for second in item["busiest"]:
            self.assertEqual(seconds[second["at_ms"] // 1000], second["records"])

    def test_it_counts_what_happened(self):
        self.live()
        self.assertEqual(self.broker.stop(), 0)
        summary = self.summary()
        self.assertEqual(set(summary), {"q", "r", None})
        q, r, everything = (summary[name]["counts"] for name in ("q", "r", None))
        self.assertEqual({kind: q[kind] for kind in ("scheduled", "moved", "cancelled", "leased", "acked", "released", "dead",
                                                     "requeued", "purged", "lease_lost")},
                         {"scheduled": 6, "moved": 4, "cancelled": 1, "leased": 5, "acked": 2, "released": 1, "dead": 2,
                          "requeued": 2, "purged": 3, "lease_lost": 0})
        self.assertEqual({kind: r[kind] for kind in ("scheduled", "leased", "retried", "acked", "expired")},
                         {"scheduled": 2, "leased": 2, "retried": 1, "acked": 1, "expired": 1})
        self.assertEqual(summary["q"]["late_ms"]["count"], 4)  # there are five leases, but one belongs to a released task
        self.assertEqual((everything["start"], everything["stop"], everything["job"]), (1, 1, 2))

    def test_it_counts_as_the_records_do_one_by_one(self):
        self.live()
        self.assertEqual(self.broker.stop(), 0)
        facts, summary = self.told(), self.summary()
        for name, item in summary.items():
            self.check_against(item, facts if name is None else [fact for fact in facts if fact.get("queue") == name])
        self.assertEqual((summary[None]["first_ms"], summary[None]["last_ms"]), (facts[0]["at_ms"], facts[-1]["at_ms"]))

    def test_filters_hold_for_it_too(self):
        self.live()
        self.assertEqual(self.broker.stop(), 0)
        middle_ms = self.told()[40]["at_ms"]
        for filters in (["--queue", "r"], ["--kind", "leased,dead"], ["--from", str(middle_ms)], ["--to", str(middle_ms)],
                        ["--queue", "q", "--prefix", "k1"], ["--queue", "nobodys"]):
            self.check_against(self.summary(*filters)[None], self.told(*filters))

    def test_a_running_broker_says_the_same(self):
        self.live()
        live = {item["queue"]: item for item in self.broker.ok("audit", "--summary")}
        self.assertEqual(self.broker.stop(), 0)
        summary = self.summary()
        for name in ("q", "r"):
            self.assertEqual(live[name], summary[name])
        self.assertEqual(live[None]["counts"]["stop"], 0)

    def test_for_people(self):
        self.live()
        self.assertEqual(self.broker.stop(), 0)
        command = self.broker.command("audit", "--data", self.broker.data, "--summary")
        command.remove("--json")
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        rows = {line.split()[0]: line.split()[1:] for line in told.splitlines() if re.match(r"(queue|q|r) ", line)}
        self.assertEqual(dict(zip(rows["queue"], rows["q"]))["dead"], "2")
        self.assertRegex(told, r"lateness of q, 4 deliveries: p50 ")
        self.assertRegex(told, r"busiest seconds[^\n]*\n  2\S+ +\d+  █")

    def test_the_order_story(self):
        """Every order is scheduled once. Then it is either paid (cancelled) or closed (acked); order_timeout prints how many."""
        done = subprocess.run([harness.find_program("order_timeout"), "--broker", self.broker.url, "--count", "300",
                               "--speed", "28800"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
        said = dict(pair.split("=") for pair in re.search(r"^orders=.*$", done.stdout, re.MULTILINE).group().split())
        self.assertEqual(self.broker.stop(), 0)
        counts = self.summary()["close-order"]["counts"]
        self.assertEqual(counts["scheduled"], int(said["orders"]))
        self.assertEqual(counts["cancelled"], int(said["paid"]))
        self.assertEqual(counts["acked"], int(said["closed"]))
        self.check_against(self.summary()["close-order"], self.told("--queue", "close-order", "--kind", ",".join(
            kind for kind in counts if kind != "session")))

    def test_usage(self):
        for wrong in (["--data", "x", "--limit", "3"], ["--follow"]):
            self.assertEqual(self.broker.tarry("audit", "--summary", *wrong).status, 2, wrong)


if __name__ == "__main__":
    harness.main()
