"""run.py: runs the suites in both builds, shows the output of failed programs, and counts every sub-test.

`meson test` runs the programs: once for each plan below, several plans side by side, while the sanitized build is made. The
programs' output is read from meson's logs, because meson counts programs and run.py counts tests (verdict.py). A live line shows
the progress (progress.py). The last line is `N passed, N failed`.

Failed programs that may be run again (again.py) are run once more when nothing else runs.
"""
import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import again
from progress import Progress, clock
from verdict import Tally, brief, show

PLAIN, SANITIZED = "plain", "sanitized"
CORES = len(os.sched_getaffinity(0))
TESTS = os.path.dirname(os.path.abspath(__file__))
LOW_PRIORITY = os.path.join(TESTS, "low_priority")
SLOW = ("slow_sync", "slow_threads")  # libraries that --slow-sync and --slow-threads preload
STEP = re.compile(r"^\s*\[?(\d+)/(\d+)\]?\s", re.MULTILINE)  # progress, as ninja and meson print it
BAD = re.compile(r"^ *\d+/\d+ (?:\S+ / )?(\S+)\s+(FAIL|ERROR|TIMEOUT)\b", re.MULTILINE)
NO_TESTS = re.compile(r"^No (suitable )?tests defined", re.MULTILINE)
TICK_S = 0.3
SANITIZER_ENV = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:strict_string_checks=1:verify_asan_link_order=0",  # sanitizer options for SLOW
                 "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


class Plan(NamedTuple):
    """Suites of a build that one `meson test` runs. In it, the longest programs come first (`priority` in meson.build, in
    seconds)."""

    suites: tuple
    kind: str
    processes: int
    arguments: tuple = ()
    is_low: bool = False  # low priority, because these programs only compute and can run when other programs wait


# List of lines of plans. Lines run side by side, and the plans of a line one after another. Programs that mostly wait
# (for processes, disks, deadlines) run many at a time. Fewer run against a sanitized broker, because it needs more CPU
# time.
WAITING, COMPUTING, READING = ("unit", "e2e", "crash"), ("property", "sim", "fuzz"), ("lint",)
LINES = (
    (Plan(WAITING, PLAIN, min(3 * CORES, 12)), Plan(("unit", "e2e"), SANITIZED, min(2 * CORES, 8), ("--no-suite", "long"))),
    (Plan(COMPUTING, PLAIN, CORES, is_low=True), Plan(COMPUTING, SANITIZED, CORES, is_low=True)),
    (Plan(READING, PLAIN, 1, is_low=True),),
)


def used_s():
    """Returns the processor time of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Work:
    """A process of the run, in a session of its own. Its output goes to a file."""

    def __init__(self, title, command, env):
        self.title, self.command, self.env = title, command, env
        self.process = None
        self.used_s = 0.0  # once ended: processor time of the process and all of its child processes
        self.said = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.DEVNULL, stdout=self.said, stderr=subprocess.STDOUT,
                                        start_new_session=True)

    def is_running(self):
        return self.process is not None and not self.has_ended()

    def has_ended(self):
        before = used_s()
        if self.process is None or self.process.poll() is None:
            return False
        self.used_s += used_s() - before
        return True

    def output(self):
        return os.pread(self.said.fileno(), os.fstat(self.said.fileno()).st_size, 0).decode(errors="replace")

    def steps(self):
        """Returns (steps done, all steps) of meson's build; (0, 0) before the first step."""
        found = STEP.findall(self.output())
        return tuple(map(int, found[-1])) if found else (0, 0)

    def stop(self):
        """Stops a process that no thread waits for."""
        if self.is_running():
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()


class Stage(Work):
    """A plan that is being carried out."""

    def __init__(self, plan, suites, directory, environment):
        self.plan, self.suites, self.directory = plan, suites, directory
        name = "-".join(("dev", *suites))
        ending = f"-{os.path.basename(LOW_PRIORITY)}" if plan.is_low else ""  # meson prints the wrapper's name too
        self.log = os.path.join(directory, "meson-logs", f"{name}{ending}.json")
        chosen = [word for suite in suites for word in ("--suite", suite)]
        wrapped = ["--wrapper", LOW_PRIORITY] if plan.is_low else []
        super().__init__(self.label("+".join(suites)), ["meson", "test", "-C", directory, "--no-rebuild", "--logbase", name,
                                                       "--num-processes", str(plan.processes), *wrapped, *chosen, *plan.arguments],
                         {**os.environ, **(SANITIZER_ENV if plan.kind == SANITIZED else {}), **environment, "PYTHONDONTWRITEBYTECODE": "1"})
        self.told = 0  # number of failures printed so far

    def label(self, suite):
        return suite if self.plan.kind == PLAIN else f"{suite} (ASan+UBSan)"

    def start(self):
        if os.path.exists(self.log):
            os.unlink(self.log)
        super().start()

    def new_failures(self):
        """Returns the names of programs that have failed since the last call, in meson's opinion; verdict.py judges at the end.
        """
        found = BAD.findall(self.output())[self.told:]
        self.told += len(found)
        return [f"{self.label(name)} ({result})" for name, result in found]

    def entries(self):
        """Returns (suite, entry) for each program; raises ValueError if some never ran."""
        entries = []
        if os.path.exists(self.log):
            with open(self.log, encoding="utf-8") as file:
                entries = [json.loads(line) for line in file if line.strip()]
        if len(entries) != self.steps()[1] or (not entries and not NO_TESTS.search(self.output())):
            raise ValueError(f"meson ended with {self.process.returncode} when {len(entries)} of {self.steps()[1]} programs had run")
        return [(entry["name"].split(" / ")[0].split(":")[-1].split("+")[0], entry) for entry in entries]


class Sums(NamedTuple):
    """The results of a suite in a build."""

    programs: int = 0
    passed: int = 0
    failed: int = 0
    seconds: float = 0.0  # total time of its programs

    def plus(self, verdict, seconds):
        return Sums(self.programs + 1, self.passed + verdict.passed, self.failed + verdict.failed, self.seconds + seconds)


class Run:
    """One run of ./dev test."""

    def __init__(self, options, progress):
        self.progress, self.tally = progress, Tally()
        self.sums = {}  # dict from a plan's label to its Sums
        self.again = []  # (Stage, suite, entry) of programs that may be run again
        wanted = set(options.suites) or {suite for line in LINES for plan in line for suite in plan.suites}
        directories, slow = {PLAIN: options.build, SANITIZED: options.sanitized}, slow_environment(options)
        self.lines = [[Stage(plan, [suite for suite in plan.suites if suite in wanted], directories[plan.kind],
                             {} if plan.suites == READING else slow)
                       for plan in line if wanted.intersection(plan.suites)] for line in LINES]
        self.build = Work("sanitized build", [LOW_PRIORITY, options.dev, "build", "--asan"], os.environ)
        self.is_building = any(stage.plan.kind == SANITIZED for line in self.lines for stage in line)
        if self.is_building:
            self.lines.insert(0, [self.build])
        self.failed = 0  # number of failed programs so far, in meson's opinion

    def play(self):
        """Runs every line to its end, then the programs that may be run again."""
        try:
            while any(self.lines):
                for line in self.lines:
                    self.go_on(line)
                self.tell()
                time.sleep(TICK_S)
            for stage, suite, entry in self.again:
                self.progress.say(f"{entry['name']} is run once more, alone")
                self.count(stage, suite, entry, lambda entry, stage=stage: again.run(entry, stage.directory))
        finally:
            for line in self.lines:
                for work in line:
                    work.stop()
            self.progress.clear()

    def go_on(self, line):
        """Starts the first plan of the line. If that plan has ended, finishes it and removes it from the line."""
        if not line:
            return
        work = line[0]
        if work.has_ended():
            line.pop(0)
            self.finish(work)
        elif not work.is_running() and not (self.is_building and self.waits_for_the_build(work)):
            work.start()

    def waits_for_the_build(self, work):
        """Returns whether the plan must wait for the end of the sanitized build. Low-priority plans wait too, because they
        would slow the build down.
        """
        return work is not self.build and (work.plan.kind == SANITIZED or work.plan.is_low)

    def finish(self, work):
        self.progress.say(f"{work.title}: ended after {clock(time.monotonic() - self.progress.started)}, {work.used_s:.0f} s of a processor")
        if work is self.build:
            self.is_building = False
            if work.process.returncode != 0:
                self.tally.fail("the sanitized build: what needs it does not run", work.output())
                for line in self.lines:
                    line[:] = [stage for stage in line if stage.plan.kind == PLAIN]
            return
        self.tell_failures(work)
        try:
            entries = work.entries()
        except ValueError as error:
            self.tally.fail(f"{work.title}: {error}", work.output())
            return
        for suite, entry in entries:
            if again.may_help(suite, entry) and len(self.again) < again.TRIES_MAX:
                self.again.append((work, suite, entry))
            else:
                self.count(work, suite, entry)

    def count(self, stage, suite, entry, *run_again):
        label = stage.label(suite)
        verdict = self.tally.count_program(label, entry, *run_again)
        self.sums[label] = self.sums.get(label, Sums()).plus(verdict, entry["duration"])

    def tell_failures(self, work):
        for failure in work.new_failures():
            self.failed += 1
            self.progress.say(f"FAILED, says meson: {failure}")

    def tell(self):
        running = [line[0] for line in self.lines if line and line[0].is_running()]
        for work in running:
            if work is not self.build:
                self.tell_failures(work)
        failed = f" | {self.failed} failed" if self.failed else ""
        self.progress.show(", ".join("{} {}/{}".format(work.title, *work.steps()) for work in running) + failed)

    def table(self):
        for label, sums in self.sums.items():
            print(f"{label:24} {sums.programs:4} programs {sums.passed:6} passed {sums.failed:4} failed {sums.seconds:7.1f} s one after another")


def slow_environment(options):
    """Returns the environment for the SLOW options; empty without them."""
    preload, environment = [], {}
    for name in SLOW:
        if wait_ms := getattr(options, name):
            preload.append(os.path.join(options.build, "tests", "e2e", f"lib{name}.so"))
            environment[name.upper() + "_MS"] = str(wait_ms)
    return {**environment, "LD_PRELOAD": ":".join(preload)} if preload else {}


def parse_options():
    parser = argparse.ArgumentParser(description="Runs the suites; see ./dev test --help.")
    parser.add_argument("--dev", required=True, help="what makes the sanitized build: DEV build --asan")
    parser.add_argument("--build", required=True)
    parser.add_argument("--sanitized", required=True)
    for name in SLOW:
        parser.add_argument("--" + name.replace("_", "-"), metavar="MS", type=int, help="see ./dev test --help")
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    options = parser.parse_args()
    known = (*WAITING, *COMPUTING, *READING)
    for suite in options.suites:
        if suite not in known:
            sys.exit(f"dev: no suite called '{suite}'; there are: {' '.join(known)}")
    return options


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # SystemExit runs the `finally` blocks, which end all child processes
    run = Run(parse_options(), Progress())
    run.play()
    tally = run.tally
    show(tally.unsteady, "UNSTEADY: these failed and passed when they were run again, alone. Look into it: some were defects.")
    show(tally.failures)
    print()
    run.table()
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    unsteady = f", {len(tally.unsteady)} unsteady" if tally.unsteady else ""
    print(f"all suites: {time.monotonic() - run.progress.started:.0f} s, {used_s():.0f} s of a processor{skipped}{unsteady}")
    for line in brief(tally.failures, tally.unsteady):
        print(line)
    if tally.passed + tally.failed == 0:
        tally.failed = 1
        print("no test ran")
    print(f"{tally.passed} passed, {tally.failed} failed", flush=True)
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main()
