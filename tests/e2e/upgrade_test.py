"""upgrade_test.py: a data directory of an older version opens, and has every task in its state; then the broker accepts groups and recurrences.

data_17c0a51.tar.xz is a directory that tarryd of commit 17c0a51 wrote, which had no groups and no recurrences. These commands of the
same commit made its contents, before a SIGTERM ended the broker:

    tarry queue set orders lease=1h max_attempts=5 backoff=exponential; tarry queue set calls max_attempts=1
    tarry schedule orders --key pending-1 --at 2036-01-01T00:00:00Z --body '{"order":1}' --attr tag=paid --priority 7
    tarry schedule orders --key ready-1 --in 0s --body ready
    tarry schedule orders --key nacked-1 --in 0s --body nacked --priority 9; tarry consume orders --count 1 --ack nack
    tarry schedule mail --key acked-1 --in 0s --body acked; tarry consume mail --count 1
    tarry schedule mail --key inflight-1 --in 0s --body inflight
    tarry schedule calls --key dead-1 --in 0s --body dead; tarry consume calls --count 1 --ack nack
    tarry schedule orders --key cancelled-1 --at 2036-01-02T00:00:00Z; tarry cancel orders cancelled-1
    tarry schedule orders --key moved-1 --at 2036-01-03T00:00:00Z; tarry move orders moved-1 --at 2036-01-04T00:00:00Z
    tarry schedule orders --key expiring-1 --at 2036-01-05T00:00:00Z --expires 1h
    tarry consume mail --count 1 --ack none; tarry queue pause mail
    tar --sort=name --owner=0 --group=0 --numeric-owner -C DATA -cS . | xz -9e
"""
import os
import tarfile

import harness
from harness import Case

PACKED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data_17c0a51.tar.xz")
JANUARY_2036_MS, DAY_MS = 2082758400000, 86400000


class Upgrade(Case):
    autostart = False

    def open_older(self):
        os.mkdir(self.broker.data, mode=0o700)
        with tarfile.open(PACKED) as packed:
            packed.extractall(self.broker.data)
        return self.broker.start()

    def tasks(self, broker, queue):
        return {task["key"]: task for task in broker.ok("list", queue, "--state", "pending,ready,in_flight,dead")}

    def check_tasks(self, broker):
        orders = self.tasks(broker, "orders")
        self.assertEqual(set(orders), {"pending-1", "ready-1", "nacked-1", "moved-1", "expiring-1"})
        pending = broker.one("get", "orders", "pending-1")
        self.assertEqual((pending["id"], pending["state"], pending["due_ms"], pending["priority"], pending["body"], pending["attributes"]),
                         ("1", "pending", JANUARY_2036_MS, 7, '{"order":1}', {"tag": "paid"}))
        self.assertEqual((orders["moved-1"]["state"], orders["moved-1"]["due_ms"]), ("pending", JANUARY_2036_MS + 3 * DAY_MS))
        self.assertEqual(orders["expiring-1"]["expires_ms"], 3600000)
        dead = self.tasks(broker, "calls")["dead-1"]
        self.assertEqual((dead["state"], dead["reason"], broker.one("get", "calls", "dead-1")["body"]), ("dead", "all attempts used", "dead"))

    def test_every_task_is_there_in_its_state(self):
        broker = self.open_older()
        self.check_tasks(broker)
        policies = {queue["name"]: queue for queue in broker.ok("queues")}
        self.assertEqual({name: queue["paused"] for name, queue in policies.items()}, {"orders": False, "calls": False, "mail": True})
        self.assertEqual([policies["orders"]["policy"][field] for field in ("lease_ms", "max_attempts", "backoff")], [3600000, 5, "exponential"])
        self.assertEqual(policies["calls"]["policy"]["max_attempts"], 1)
        for queue, key, kind in (("mail", "acked-1", "acked"), ("orders", "cancelled-1", "cancelled"), ("orders", "moved-1", "moved")):
            self.assertEqual(broker.ok("history", queue, key)[-1]["kind"], kind)

        broker.ok("queue", "resume", "mail")
        delivered = {line["key"]: line for queue, count in (("orders", 2), ("mail", 1)) for line in broker.ok("consume", queue, "--count", count)}
        self.assertEqual({key: line["body"] for key, line in delivered.items()}, {"ready-1": "ready", "nacked-1": "nacked", "inflight-1": "inflight"})
        self.assertEqual((delivered["nacked-1"]["attempt"], delivered["inflight-1"]["deliveries"]), (2, 2))
        self.assertEqual(broker.one("dead", "requeue", "calls", "dead-1")["result"], "requeued")
        broker.stop()
        self.assertEqual(broker.tarry("verify", broker.data).status, 0)

    def test_it_takes_groups_and_recurrences(self):
        broker = self.open_older()
        broker.ok("group", "create", "orders:all")
        broker.ok("recur", "set", "daily", "--queue", "calls", "--cron", "0 9 * * *")
        shares = [line["key"] for line in broker.ok("consume", "orders:all", "--count", 2)]
        self.assertEqual(sorted(shares), ["nacked-1", "ready-1"])
        broker.restart()
        self.assertEqual([group["name"] for group in broker.ok("group", "list", "orders")], ["orders:all"])
        self.assertEqual(broker.one("recur", "show", "daily")["state"], "active")
        self.assertEqual(broker.one("get", "orders", "pending-1")["state"], "pending")
        broker.stop()
        self.assertEqual(broker.tarry("verify", broker.data).status, 0)


if __name__ == "__main__":
    harness.main()
