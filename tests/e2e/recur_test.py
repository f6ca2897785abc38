"""recur_test.py: recurring tasks (docs/RECURRING.md): over the tool and HTTP; each occurrence exactly once, although the broker is
killed again and again, and although a pair's primary is killed; what was missed; the log as evidence; upgrade and downgrade."""
import os
import random
import re
import time

import harness
import http_client
import pair
from harness import Case, wait_until

KEY = re.compile(r"^recur:(.*)@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)Z$")


def occurrences(audit, queue):
    """Returns {name: [second]} of the occurrences that ran: scheduled and not cancelled by the broker, in order."""
    made, gone = {}, set()
    for fact in audit:
        if fact.get("queue") != queue or "key" not in fact:
            continue
        if fact["kind"] == "scheduled":
            made[fact["id"]] = fact["key"]
        elif fact["kind"] == "cancelled":
            gone.add(fact["id"])
    found = {}
    for number, key in made.items():
        name, text = KEY.match(key).groups()
        if number not in gone:
            found.setdefault(name, []).append(int(time.mktime(time.strptime(text + " UTC", "%Y-%m-%dT%H:%M:%S %Z"))) - time.timezone)
    return found


class Recur(Case):
    def show(self, name):
        return self.broker.one("recur", "show", name)

    def wait_due(self, name, count):
        return wait_until(f"{count} occurrences of {name}", lambda: self.show(name).get("occurrences", 0) >= count and self.show(name), 60)

    def test_the_three_commands_of_the_guide(self):
        answer = self.broker.one("recur", "set", "daily", "--queue", "reports", "--cron", "0 9 * * MON-FRI", "--zone", "Asia/Shanghai",
                                 "--body", '{"report":"daily"}', "--attr", "lang=de", "--priority", 3)
        self.assertEqual((answer["name"], answer["queue"], answer["result"]), ("daily", "reports", "set"))
        self.assertIsInstance(answer["position"], int)  # the answer has a log position, as the answer of every other command that changes something
        times = [time_["local"] for time_ in self.broker.ok("recur", "next", "daily", "--count", 5)]
        self.assertEqual(len(times), 5)
        self.assertTrue(all(local.endswith("T09:00:00+08:00") for local in times), times)
        listed, = self.broker.ok("recur", "list")
        self.assertEqual((listed["name"], listed["state"], listed["next_id"]), ("daily", "active", answer["id"]))
        task, = self.broker.ok("list", "reports")
        self.assertEqual((task["key"], task["priority"], task["state"]), ("recur:daily@" + times[0], 3, "pending"))
        content = self.show("daily")
        self.assertEqual((content["body"], content["attributes"]), ('{"report":"daily"}', {"lang": "de"}))

    def test_refusals_name_the_place_and_store_nothing(self):
        for arguments, words in [
                (("--cron", "0 25 * * *"), "cron, column 3: 25 is out of range for hour (0 to 23)"),
                (("--cron", "0 0 30 2 *"), "never fires"),
                (("--cron", "0 9 13 * FRI"), "both day of month and day of week"),
                (("--cron", "0 9 * * *", "--zone", "Europe/Berlim"), "Europe/Berlim"),
                (("--rrule", "FREQ=DAYLY"), "rrule, column 6"),
                (("--every", "10ms"), "from 1 second"),
                (("--every", "1m", "--missed", "all:3"), "needs overlap allow")]:
            answer = self.broker.refused("recur", "set", "x", "--queue", "q", *arguments)
            self.assertIn(words, answer.one["message"])
        self.assertEqual(self.broker.ok("recur", "list"), [])
        self.broker.refused("recur", "show", "x")

    def test_it_is_paused_triggered_resumed_and_deleted(self):
        self.broker.one("recur", "set", "poll", "--queue", "calls", "--every", "1h")
        self.broker.one("recur", "pause", "poll")
        self.assertEqual((self.show("poll")["state"], self.broker.ok("list", "calls")), ("paused", []))
        triggered = self.broker.one("recur", "trigger", "poll")
        got = self.broker.one("consume", "calls", "--count", 1)
        self.assertEqual(got["id"], triggered["id"])
        self.broker.restart()
        self.assertEqual(self.show("poll")["state"], "paused")
        self.broker.one("recur", "resume", "poll")
        self.assertEqual(len(self.broker.ok("list", "calls")), 1)
        self.broker.refused("queue", "delete", "calls")
        self.broker.one("recur", "delete", "poll")
        self.assertEqual((self.broker.ok("list", "calls"), self.broker.ok("recur", "list")), ([], []))
        self.broker.one("queue", "delete", "calls")

    def test_a_client_cannot_take_the_key_of_an_occurrence(self):
        taken = self.broker.refused("schedule", "q", "--key", "recur:r@2030-01-01T00:00:00Z", "--in", "1h")
        self.assertIn("belong to recurrences", taken.one["message"])
        self.broker.one("schedule", "q", "--key", "r@2030-01-01T00:00:00Z", "--in", "1h")
        self.broker.one("recur", "set", "r", "--queue", "q", "--every", "1h")
        self.assertEqual(len(self.broker.ok("list", "q")), 2)

    def test_a_cancelled_occurrence_is_left_out_and_a_moved_one_runs(self):
        self.broker.one("recur", "set", "tick", "--queue", "q", "--every", "1s", "--overlap", "allow")
        first = self.show("tick")
        self.broker.one("cancel", "--id", first["next_id"])
        view = self.wait_due("tick", 2)
        self.assertEqual(view.get("skipped_count", 0), 0)
        ran = [item["key"] for item in self.broker.ok("list", "q") if int(item["id"]) > int(first["next_id"])]
        self.assertGreaterEqual(len(ran), 1)

    def test_while_one_runs_the_next_is_skipped(self):
        self.broker.one("recur", "set", "tick", "--queue", "q", "--every", "1s")
        held = self.broker.one("consume", "q", "--count", 1, "--ack", "none", "--lease", "1h")
        view = self.wait_due("tick", 4)
        self.assertGreaterEqual(view["skipped_count"], 2)
        self.assertEqual(view["open"], 1)
        self.broker.one("ack", held["id"], held["token"])
        self.assertEqual(view["last_state"], "cancelled")  # the occurrence was skipped, and skipped occurrences are shown as cancelled
        again = self.broker.one("consume", "q", "--count", 1)
        self.assertNotEqual(again["key"], held["key"])

    def test_the_last_result_and_the_history_are_shown(self):
        self.broker.one("recur", "set", "tick", "--queue", "q", "--every", "1s", "--count", 1)
        self.broker.one("recur", "set", "other", "--queue", "q", "--every", "1h")
        ready = wait_until("the occurrence is ready", lambda: self.show("tick").get("last_state") == "ready" and self.show("tick"), 60)
        self.assertNotIn("last_ended_ms", ready)
        got = self.broker.one("consume", "q", "--count", 1)
        ended = self.show("tick")
        self.assertEqual((ended["last_state"], ended["state"]), ("acked", "ended"))
        self.assertGreaterEqual(ended["last_ended_ms"], ended["last_ms"])
        past = self.broker.ok("recur", "history", "tick")
        self.assertEqual([(fact["kind"], fact.get("cause")) for fact in past if fact["kind"] == "recurrence"], [("recurrence", "set"), ("recurrence", "fell_due")])
        self.assertEqual([fact["kind"] for fact in past if fact.get("id") == got["id"]], ["scheduled", "leased", "acked"])
        self.assertEqual([fact for fact in past if fact.get("name", "tick") != "tick" or not fact.get("key", "recur:tick@").startswith("recur:tick@")], [])
        self.broker.refused("recur", "history", "no-such-name")

    def test_each_occurrence_comes_once_although_the_broker_is_killed(self):
        names = [f"r{number}" for number in range(20)]
        for name in names:
            self.broker.one("recur", "set", name, "--queue", "q", "--every", "1s", "--overlap", "allow", "--missed", "all:100")
        begin = min(int(self.show(name)["next_ms"]) for name in names) // 1000
        random_ = random.Random(7)
        for _ in range(6):
            time.sleep(random_.uniform(0.3, 1.4))  # the wait chooses a random moment for the crash
            self.broker.kill()
            self.broker.start()
        self.wait_due("r0", 8)
        for name in names:
            self.broker.one("recur", "pause", name)
        self.broker.stop()
        ran = occurrences(self.broker.ok("audit", "--data", self.broker.data), "q")
        self.assertEqual(sorted(ran), sorted(names))
        for name, seconds in ran.items():
            self.assertEqual(seconds, list(range(seconds[0], seconds[0] + len(seconds))), name)  # each second has one occurrence: none is missing and none is doubled
            self.assertLessEqual(seconds[0] - begin, 3, name)
            self.assertGreaterEqual(len(seconds), 5, name)
        self.assertIn("fine", self.broker.words("verify", self.broker.data))

    def test_the_log_says_what_was_missed(self):
        self.broker.one("recur", "set", "tick", "--queue", "q", "--every", "1s")
        self.broker.kill()
        time.sleep(2.5)  # the downtime
        self.broker.start()
        view = self.wait_due("tick", 3)
        self.assertGreaterEqual(view["missed_count"], 1)
        fact = [fact for fact in self.broker.ok("audit", "--kind", "recurrence") if fact.get("missed")][0]
        self.assertEqual((fact["name"], fact["cause"], fact["queue"]), ("tick", "fell_due", "q"))
        self.assertEqual(fact["missed_last_ms"] - fact["missed_first_ms"], 1000 * (fact["missed"] - 1))
        metrics = http_client.Http(self.broker.port).ask("GET", "/metrics")[1]
        self.assertIn("tarry_recurrences 1\n", str(metrics).replace("\\n", "\n"))
        self.assertIn(" missed from ", self.broker.words("audit", "--kind", "recurrence"))

    def test_over_http(self):
        http = http_client.Http(self.broker.port)
        self.addCleanup(http.close)
        path = "/v1/queues/reports/recurrences/daily"
        status, answer = http.ask("PUT", path, {"cron": "0 9 * * MON-FRI", "zone": "Europe/Berlin", "json": {"report": 1}, "missed": "none"})
        self.assertEqual((status, answer["result"]), (200, "done"))
        status, view = http.ask("GET", path + "?times=3")
        self.assertEqual((status, view["json"], view["missed"], len(view["times"])), (200, {"report": 1}, "none", 3))
        self.assertTrue(view["times"][0]["local"].startswith(view["times"][0]["at"][:10]))
        self.assertEqual([one["name"] for one in http.ask("GET", "/v1/recurrences")[1]["recurrences"]], ["daily"])
        self.assertEqual(http.ask("POST", path + "/pause")[0], 200)
        self.assertEqual(http.ask("GET", path)[1]["state"], "paused")
        self.assertEqual(http.ask("POST", path + "/resume")[0], 200)
        status, triggered = http.ask("POST", path + "/trigger")
        self.assertEqual((status, http.ask("GET", f"/v1/tasks/{triggered['id']}")[1]["queue"]), (200, "reports"))
        status, problem = http.ask("PUT", path, {"cron": "0 25 * * *"})
        self.assertEqual(status, 400)
        self.assertIn("column 3", problem["detail"])
        self.assertEqual(http.ask("GET", path)[1]["cron"], "0 9 * * MON-FRI")
        self.assertEqual(http.ask("PUT", path, {"crom": "0 9 * * *"})[0], 400)
        self.assertEqual(http.ask("PUT", path, {"every": "1m", "gap": "maybe"})[0], 400)
        self.assertEqual(http.ask("DELETE", path)[0], 200)
        self.assertEqual(http.ask("DELETE", path)[0], 404)
        self.assertEqual(http.ask("GET", path)[0], 404)

    def test_an_older_program_refuses_the_index_by_its_version(self):
        """Programs without recurrences read format versions 1 and 2 only."""
        self.broker.one("schedule", "q", "--in", "1h")
        self.broker.stop()
        self.assertEqual(self.index_formats(), {1})
        self.broker.start()
        self.broker.one("recur", "set", "r", "--queue", "q", "--every", "1h")
        self.broker.stop()
        self.assertIn(3, self.index_formats())  # INDEX_FORMAT_RECURS
        self.broker.start()
        self.assertEqual(self.show("r")["state"], "active")

    def index_formats(self):
        """Returns the format versions in the index's file. The file may have several copies of the record `meta`. In each
        copy, the version is 8 bytes before the cluster's id.
        """
        with open(os.path.join(self.broker.data, "index", "data.mdb"), "rb") as file:
            data = file.read()
        with open(os.path.join(self.broker.data, "identity"), "rb") as file:
            cluster = file.read()[16:32]
        return {int.from_bytes(data[found.start() - 8:found.start() - 4], "little") for found in re.finditer(re.escape(cluster), data)}


class Pair(pair.Case):
    def test_the_follower_goes_on(self):
        names = [f"r{number}" for number in range(10)]
        self.start_pair()
        for name in names:
            self.a.one("recur", "set", name, "--queue", "q", "--every", "1s", "--overlap", "allow", "--missed", "all:100")
        self.wait_in_sync()
        self.a.kill()
        self.wait_role(self.b, "leading")
        wait_until("the other node's occurrences", lambda: self.b.one("recur", "show", "r0").get("occurrences", 0) >= 5, 60)
        for name in names:
            self.b.one("recur", "pause", name)
        ran = occurrences(self.b.ok("audit"), "q")
        self.assertEqual(sorted(ran), sorted(names))
        for name, seconds in ran.items():
            self.assertEqual(seconds, list(range(seconds[0], seconds[0] + len(seconds))), name)


if __name__ == "__main__":
    harness.main()
