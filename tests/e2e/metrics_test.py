"""metrics_test.py: /metrics follows Prometheus' conventions (also checked by `promtool check metrics` if installed), counts
correctly, and has a limited size for any number of queues; /healthz and /readyz; alert rules and dashboard use existing
metrics only."""
import json
import os
import re
import shutil
import subprocess
import unittest
import urllib.error
import urllib.request

import harness
import pair

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGING = os.path.join(ROOT, "packaging", "prometheus")
PROMTOOL = shutil.which("promtool")
QUEUES_MAX = 512  # METRICS_QUEUES_MAX
SAMPLE = re.compile(r"^(tarry_[a-z0-9_]+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
NOT_BASE = ("ms", "us", "ns", "msec", "usec", "milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "days",
            "kilobytes", "megabytes", "kib", "mib", "gib", "bits", "percent")


def fetch(broker, path):
    """(status, text)"""
    url = broker.url.replace("ws://", "http://") + path
    try:
        with urllib.request.urlopen(url, timeout=harness.ANSWER_WAIT_S) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def parse(text):
    """Parses metrics. Returns ({name: type}, {(name, labels): value})."""
    types, helps, samples = {}, {}, {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, helps[name] = line[7:].split(" ", 1)
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name not in types and name in helps, f"{name}: its TYPE comes twice, or without HELP"
            types[name] = kind
        else:
            name, labels, value = SAMPLE.match(line).groups()
            place = (name, tuple(LABEL.findall(labels or "")))
            assert place not in samples, f"twice: {line}"
            samples[place] = float(value)
    return types, samples


def family(name, types):
    for part in ("_bucket", "_sum", "_count"):
        if types.get(name.removesuffix(part)) == "histogram":
            return name.removesuffix(part)
    return name


def lint(text):
    """Applies the rules of promtool's linter; also checks that each sample belongs to the family announced last."""
    types, problems, last = {}, [], None
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            last, kind = line[7:].split(" ")
            types[last] = kind
            words = last.split("_")
            if (kind == "counter") != last.endswith("_total"):
                problems.append(f"{last}: `_total` is for counters, and all of them")
            if kind != "histogram" and (last.endswith(("_count", "_sum", "_bucket"))):
                problems.append(f"{last}: a histogram's name")
            problems += [f"{last}: {word} is no base unit" for word in words if word in NOT_BASE]
            problems += [f"{last}: names its type" for word in words if word in ("gauge", "counter", "histogram", "summary")]
        elif not line.startswith("#"):
            match = SAMPLE.match(line)
            if not match:
                problems.append(f"no sample: {line}")
            elif family(match[1], types) != last:
                problems.append(f"{match[1]}: not under its TYPE")
    return problems


def promtool_says(text):
    """Returns the complaints of `promtool check metrics`; empty if it is not installed (a skipped test reports that)."""
    if not PROMTOOL:
        return ""
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    return checked.stdout + checked.stderr + (f"status {checked.returncode}" if checked.returncode else "")


class Metrics(harness.Case):
    def read(self):
        status, text = fetch(self.broker, "/metrics")
        self.assertEqual(status, 200)
        return text

    def test_the_linter_sees_what_it_is_for(self):
        for bad in ("# HELP tarry_x y\n# TYPE tarry_x counter\ntarry_x 1", "# HELP tarry_x_ms y\n# TYPE tarry_x_ms gauge\ntarry_x_ms 1",
                    "# HELP tarry_x_total y\n# TYPE tarry_x_total gauge\ntarry_x_total 1",
                    "# HELP tarry_x y\n# TYPE tarry_x gauge\ntarry_y 1"):
            self.assertEqual(len(lint(bad)), 1, bad)

    def test_conventions_and_what_happened(self):
        name = 'a"b\\c'
        self.broker.ok("schedule", name, "--in", "0s", "--key", "k")
        self.broker.ok("schedule", "later", "--in", "1h")
        self.broker.consume(name, "--count", "1").rest()
        text = self.read()
        self.assertEqual((lint(text), promtool_says(text)), ([], ""))
        types, samples = parse(text)
        label = (("queue", 'a\\"b\\\\c'),)
        self.assertEqual(samples["tarry_queue_acked_total", label], 1)
        self.assertEqual(samples["tarry_queue_lateness_seconds_count", label], 1)
        self.assertEqual(samples["tarry_queue_lateness_seconds_bucket", label + (("le", "+Inf"),)], 1)
        self.assertGreater(samples["tarry_queue_lateness_seconds_sum", label], 0)
        self.assertEqual(samples["tarry_queue_tasks", (("queue", "later"), ("state", "pending"))], 1)
        self.assertEqual(samples["tarry_tasks", (("state", "pending"),)], 1)
        self.assertEqual(samples["tarry_tasks_scheduled_total", ()], 2)
        for histogram in (found for found, kind in types.items() if kind == "histogram"):
            rows = {}
            for (found, labels), value in samples.items():
                if found == histogram + "_bucket":
                    rows.setdefault(tuple(pair for pair in labels if pair[0] != "le"), []).append(value)
            for labels, row in rows.items():
                self.assertEqual(row, sorted(row), "buckets are cumulative")
                self.assertEqual(row[-1], samples[histogram + "_count", labels])
        self.assertGreater(samples["tarry_log_sync_duration_seconds_count", ()], 0)
        self.assertGreater(samples["tarry_call_duration_seconds_count", ()], 1)
        self.assertGreater(samples["tarry_disk_size_bytes", ()], samples["tarry_disk_free_bytes", ()])

    def test_many_queues_are_bounded(self):
        count = QUEUES_MAX + 40
        lines = "".join(json.dumps({"queue": f"queue-{number}", "delay_ms": 3_600_000}) + "\n" for number in range(count))
        self.broker.ok("schedule", "--from", "-", stdin=lines)
        _, samples = parse(self.read())
        shown = {labels[0][1] for (name, labels) in samples if name == "tarry_queue_tasks"}
        self.assertEqual(len(shown), QUEUES_MAX)
        self.assertEqual(samples["tarry_queues", ()], count)
        self.assertEqual(samples["tarry_queues_left_out", ()], 40)
        self.assertEqual(samples["tarry_tasks_scheduled_total", ()], count, "the sums have them all")
        self.broker.ok("schedule", "one-more", "--in", "1h")
        _, again = parse(self.read())
        self.assertEqual({labels[0][1] for (name, labels) in again if name == "tarry_queue_tasks"}, shown, "none comes and goes")

    def test_alive_and_ready(self):
        self.assertEqual(fetch(self.broker, "/healthz"), (200, "ok\n"))
        self.assertEqual(fetch(self.broker, "/readyz"), (200, "ready\n"))

    def test_rules_and_dashboard_name_what_there_is(self):
        types, samples = parse(self.read())
        known = set(types) | {name for name, _ in samples}
        with open(os.path.join(PACKAGING, "tarry.rules.yml"), encoding="utf-8") as file:
            rules = file.read()
        with open(os.path.join(PACKAGING, "tarry-dashboard.json"), encoding="utf-8") as file:
            board = json.load(file)
        pairs = set(re.findall(r'X\("(pair_[a-z_]+)"', open(os.path.join(ROOT, "broker", "shell", "door", "metrics.c"), encoding="utf-8").read()))
        known |= {"tarry_" + name for name in pairs}
        for text, least in ((rules, 10), (" ".join(target["expr"] for panel in board["panels"] for target in panel.get("targets", ())), 15)):
            named = {name for name in re.findall(r"\btarry_[a-z_]+", text)}
            self.assertGreaterEqual(len(named), least)
            self.assertLessEqual(named, known)

    @unittest.skipUnless(PROMTOOL, "no promtool: ./dev test --languages (of Debian's prometheus)")
    def test_alert_rules_by_promtool(self):
        for arguments in (("check", "rules", "tarry.rules.yml"), ("test", "rules", "tarry.rules.test.yml")):
            ran = subprocess.run([PROMTOOL, *arguments], cwd=PACKAGING, capture_output=True, check=False)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    @unittest.skipUnless(PROMTOOL, "no promtool: ./dev test --languages (of Debian's prometheus)")
    def test_documented_configuration_by_promtool(self):
        with open(os.path.join(PACKAGING, "README.md"), encoding="utf-8") as file:
            (documented,) = re.findall(r"^```yaml\n(.*?)^```$", file.read(), re.M | re.S)
        with open(self.path("prometheus.yml"), "w", encoding="utf-8") as file:
            file.write(documented)
        shutil.copy(os.path.join(PACKAGING, "tarry.rules.yml"), self.path("tarry.rules.yml"))
        ran = subprocess.run([PROMTOOL, "check", "config", "--syntax-only", self.path("prometheus.yml")], capture_output=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)


class Follower(pair.Case):
    def test_who_follows_is_alive_and_not_ready_and_says_where_the_primary_is(self):
        self.start_pair()
        self.assertEqual(fetch(self.b, "/healthz")[0], 200)
        status, text = fetch(self.b, "/readyz")
        self.assertEqual((status, text), (503, f"follower: the primary is {self.a.url}\n"))
        self.assertEqual(fetch(self.a, "/readyz")[0], 200)

    def test_both_nodes_keep_to_the_conventions(self):
        self.start_pair()
        for node in (self.a, self.b):
            text = fetch(node, "/metrics")[1]
            self.assertIn("tarry_pair_in_sync", text)
            self.assertEqual((lint(text), promtool_says(text)), ([], ""))

    @unittest.skipUnless(PROMTOOL, "no promtool: ./dev test --languages (of Debian's prometheus)")
    def test_promtool_sees_what_it_is_for(self):
        self.assertIn("counter metrics should have", promtool_says("# HELP tarry_x y\n# TYPE tarry_x counter\ntarry_x 1\n"))


if __name__ == "__main__":
    harness.main()
