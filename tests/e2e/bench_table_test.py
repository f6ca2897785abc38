"""bench_table_test.py: ./dev bench (bench/speed): how the speed table judges numbers (met, flat); rows of several runs form
one table in order; a failed row affects no other row; and the data for gnuplot. This test measures nothing.
"""
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import unittest
from unittest import mock

import harness

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "bench", "speed"))
import paths  # noqa: E402  (the path above)

paths.use()
import loads  # noqa: E402
import pending  # noqa: E402
import plots  # noqa: E402
import report  # noqa: E402
import steady  # noqa: E402
import table  # noqa: E402

FLOOR = {"sync_p50_us": 106.0, "sync_p99_us": 300.0, "sync_p999_us": 900.0, "disk_mb_per_s": 400.0, "turn_p50_us": 14.0, "turn_p99_us": 30.0, "socket_mb_per_s": 2000.0}
MACHINE = {"cores": 2, "cpu": "a processor", "memory_gib": 24, "kernel": "6.1", "file_system": "ext4", "system": "Debian"}


def stamped(*lines, **more):
    return {"lines": list(lines), "limits": [], "commit": "abc", "date": "2026-11-26 17:00 UTC", "took_s": 2.0, "load": 0.1, "sync_p50_us": 106.0, **more}


def result_of(**rows):
    return {"machine": MACHINE, "floor": FLOOR, "rows": rows}


class Lines(unittest.TestCase):
    def test_a_rate_is_met_from_the_ratio_on(self):
        for ours, met in ((999, False), (1000, True)):
            line = report.line("S1", "rate", ours, "/s", theirs=100, peer="redis", ratio_min=10)
            self.assertEqual((line["met"], line["wanted"]), (met, "≥ 10 ×"))

    def test_a_time_is_met_up_to_the_ratio(self):
        for ours, met in ((150, True), (151, False)):
            self.assertEqual(report.line("S3", "call", ours, "µs", theirs=100, peer="beanstalkd", ratio_max=1.5)["met"], met)

    def test_without_a_peer_a_ratio_is_neither_met_nor_not(self):
        self.assertIsNone(report.line("S1", "rate", 5, "/s", ratio_min=10)["met"])

    def test_limits_of_ones_own_need_no_peer(self):
        self.assertTrue(report.line("S8", "restart", 0.3, "s", limit_max=0.3)["met"])
        self.assertFalse(report.line("S8", "restart", 0.31, "s", limit_max=0.3)["met"])
        self.assertFalse(report.line("S10", "of alone", 0.89, "×", limit_min=0.9)["met"])

    def test_the_best_peer_is_the_one_that_is_hardest_to_beat(self):
        self.assertEqual(report.best({"redis": 50, "postgresql": 95}), ("postgresql", 95))
        self.assertEqual(report.best({"redis": 225, "beanstalkd": 140}, is_least=True), ("beanstalkd", 140))
        self.assertEqual(report.best({}), ("", None))

    def test_flat_is_the_last_third_beside_the_first(self):
        self.assertTrue(report.is_flat([100, 101, 99, 150, 100, 100, 105, 109, 104])[0])
        self.assertFalse(report.is_flat([100, 101, 99, 100, 100, 100, 112, 111, 113])[0])
        self.assertTrue(report.is_flat([1, 1, 1, 1, 1, 1, 2.5, 2.5, 2.5], 1.5, slack=2)[0])
        self.assertFalse(report.is_flat([1, 1, 1])[0])  # these are too few values to decide

    def test_lateness_is_judged_by_what_the_disk_allows(self):
        middle = {f"{name} {quantile}": value for name, value in (("tarry", 0.9), ("redis", 2.0)) for quantile in loads.S4_LIMITS_MS}
        wanted = {}
        for p999_us in (900, 9000):
            plan = mock.Mock(floor={**FLOOR, "sync_p999_us": p999_us})
            wanted[p999_us] = [(line["wanted"], line["met"]) for line in loads.lateness_lines(plan, middle)[0]]
        self.assertEqual(wanted[900], [("≤ 0.3 ms", False), ("≤ 1 ms", True), ("≤ 3 ms", True)])
        self.assertEqual(wanted[9000], [("≤ 0.5 ×", True)] * 3)

    def test_steady_lines_look_at_what_comes_after_the_longest_delay(self):
        """Until the longest delay is over, memory and disk usage are expected to grow, so the check ignores this time."""
        samples = [{"at_s": 10.0 * i, "arrived": 1_000_000.0 * max(0, i - 10), "rss_mib": 100 + 30 * min(i, 10), "disk_mib": 500.0, "late_p99_ms": 3.0} for i in range(1, 31)]
        said = {"held_per_s": 100_000.0, "lost": 0.0, "twice": 0.0, "early": 0.0, "not_acked": 0.0}
        self.assertEqual([line["met"] for line in steady.lines_of(samples, said, 300, 100_000, "1GiB")], [True] * 6)
        samples[-1]["disk_mib"] = samples[-2]["disk_mib"] = samples[-3]["disk_mib"] = samples[-4]["disk_mib"] = 600.0
        found = {line["name"]: line["met"] for line in steady.lines_of(samples, {**said, "twice": 1.0, "held_per_s": 98_000.0}, 300, 100_000, "1GiB")}
        self.assertEqual([name for name, met in found.items() if not met], ["5 minutes of 100,000/s in, --memory 1GiB: held", "… disk", "… refused, lost, twice, early"])

    def test_steps_add_up(self):
        for total in (1000, 100_001, 1_000_000, 100_000_000):
            steps = pending.steps_to(total)
            self.assertEqual((sum(steps), len(steps)), (total, 1 + pending.STEPS))
        self.assertEqual(pending.steps_to(100_000_000)[:2], [1_000_000, 11_000_000])

    def test_a_distance_says_how_much_of_each_is_used(self):
        cost = {"broker_us": 4.0, "client_us": 1.0, "cores_busy": 0.5, "disk_bytes": 200.0, "disk_mb_per_s": 40.0, "socket_bytes": 150.0, "socket_mb_per_s": 20.0}
        said = report.distance(cost, FLOOR, 200_000)
        for part in ("cores 50% busy", "40 MB/s (10% of it)", "20 MB/s (1% of it)", f"{os.cpu_count() * 200_000:,}/s"):
            self.assertIn(part, said)


class Table(unittest.TestCase):
    def test_rows_stand_in_their_order(self):
        result = result_of(S10=stamped(report.line("S10", "pair", 0.95, "×", limit_min=0.9)),
                           S2=stamped(report.line("S2", "threads", 60_000, "/s", theirs=30_000, peer="redis", ratio_min=3)),
                           S1=stamped(report.line("S1", "rate", 1_000_000, "/s", theirs=100_000, peer="postgresql", ratio_min=10)))
        text = report.table(result).splitlines()
        self.assertEqual([line.split()[0] for line in text[1:]], ["S1", "S2", "S10"])
        self.assertIn("1,000,000 /s", text[1])
        self.assertIn("postgresql 100,000", text[1])
        self.assertTrue(text[2].endswith("NOT MET") and text[3].endswith("met"))
        rows = report.markdown(result).splitlines()
        self.assertEqual({row.count("|") for row in rows}, {8})
        self.assertEqual(len(report.about(result)), 2 + 3)

    def test_numbers_have_three_digits_that_say_something(self):
        self.assertEqual([report.number(value) for value in (1_234_567.8, 100, 12.34, 0.1234, 0, None)], ["1,234,568", "100", "12.3", "0.12", "0.00", "–"])

    def test_what_is_merged_keeps_its_commit(self):
        merged = report.merge(result_of(S1=stamped(), S2=stamped()), {"rows": {"S2": {**stamped(), "commit": "def"}}})
        self.assertEqual([merged["rows"][row]["commit"] for row in ("S1", "S2")], ["abc", "def"])


class Runs(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="tarry-table-")
        self.file = os.path.join(self.directory, "result.json")
        self.asked = []

    def tearDown(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def measure(self, row, error=None):
        def made(_plan):
            self.asked.append(row)
            if error:
                raise error
            return {"lines": [report.line(row, "figure", 1.0, "s", limit_max=2)], "limits": []}
        return made

    def run_table(self, *words, **errors):
        measures = {row: self.measure(row, errors.get(row)) for row in table.MEASURES}
        out = io.StringIO()
        with mock.patch.object(table, "MEASURES", measures), mock.patch.object(table.machine, "floors", lambda *_: FLOOR), \
                mock.patch.object(sys, "argv", ["table.py", *words]), mock.patch.object(table.signal, "signal"), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            status = table.main()
        return status, out.getvalue()

    def test_a_run_goes_on_where_another_ended(self):
        self.assertEqual(self.run_table("--rows", "S1,S3", "--resume", self.file)[0], 0)
        status, said = self.run_table("--rows", "S1,S2,S3", "--missing", "--resume", self.file)
        self.assertEqual((status, self.asked), (0, ["S1", "S3", "S2"]))
        self.assertEqual([line.split()[0] for line in said.splitlines()[1:4]], ["S1", "S2", "S3"])
        with open(self.file, encoding="utf-8") as file:
            kept = json.load(file)
        self.assertEqual(sorted(kept["rows"]), ["S1", "S2", "S3"])
        self.assertEqual(kept["machine"]["cores"], os.cpu_count())
        self.assertTrue(kept["rows"]["S1"]["commit"] and kept["rows"]["S1"]["date"])

    def test_a_row_that_fails_costs_no_other(self):
        status, said = self.run_table("--rows", "S1,S2", "--json", self.file, S1=table.brokers.Wrong("three were lost"))
        self.assertEqual((status, self.asked), (1, ["S1", "S2"]))
        self.assertIn("FAILED", said)
        self.assertIn("S1: failed: three were lost", said)

    def test_rows_that_do_not_exist_are_named(self):
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            table.options_of(["--rows", "S1,S11"])
        self.assertIn("no row S11", said.getvalue())

    def test_what_has_no_room_is_refused_before(self):
        plan = mock.Mock(pending=10**15)
        with self.assertRaises(SystemExit) as refused:
            table.check_room(plan, ["S8"])
        self.assertIn("TARRY_BENCH_DIR", str(refused.exception))
        table.check_room(plan, ["S1"])


class Plots(unittest.TestCase):
    def result(self):
        points = [{"pending": size, "per_s": 300_000.0, "call_p50_us": 200.0, "call_p99_us": 400.0, "late_p50_ms": 0.0, "late_p99_ms": 2.0, "rss_mib": 80.0, "restart_s": 0.1}
                  for size in (100_000, 1_000)]
        series = [{"at_s": 60.0 * i, "rss_mib": 100.0, "disk_mib": 900.0, "late_p99_ms": 3.0} for i in range(3)]
        return result_of(S7=stamped(curves={"tarry": points, "redis": [{"pending": 10_000, "rss_mib": 12.0, "restart_s": 0.2}]}), S9=stamped(samples={"rate": 80_000, "series": series}))

    def test_curves_are_over_pending_by_whom_they_are(self):
        made = plots.scripts(self.result())
        self.assertEqual(sorted(made), ["latency", "lateness", "memory", "restart", "steady-disk", "steady-lateness", "steady-memory", "throughput"])
        self.assertIn("1000 80\n100000 80\n", made["memory"])
        self.assertIn("title 'redis'", made["memory"])
        self.assertNotIn("redis", made["latency"])
        self.assertIn("1000 0.001\n", made["lateness"])  # a logarithmic axis has no 0
        self.assertIn("2 cores, 24 GiB, ext4; abc, 2026-11-26 17:00 UTC", made["throughput"])

    def test_nothing_measured_draws_nothing(self):
        self.assertEqual(plots.scripts(result_of(S1=stamped())), {})

    def test_files_are_drawn_or_their_scripts_are_left(self):
        directory = tempfile.mkdtemp(prefix="tarry-plots-")
        try:
            files = plots.draw(self.result(), directory)
            self.assertEqual(len(files), 8)
            for name in files:
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    self.assertIn("<svg" if shutil.which("gnuplot") else "plot $data0", file.read())
            self.assertEqual(sorted(os.listdir(directory)), sorted(files))
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def test_the_same_figures_as_text(self):
        rows = plots.table_of(self.result()).splitlines()
        self.assertEqual([row.split("|")[1].strip() for row in rows[2:]], ["1,000", "100,000"])


if __name__ == "__main__":
    harness.main()
