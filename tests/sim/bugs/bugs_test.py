"""bugs_test.py: checks that every seeded bug (*.bug, seeding.py) is caught by the tests for its file.

    bugs_test.py CATCHERS BUILD [--only WORD] [--factor N] [--search | --refresh | --write]

CATCHERS is the directory of the programs that are linked with the libraries with defects; BUILD is the build whose libraries and
programs must contain none. For each bug its catchers run in turn, from a fixed first seed, until one fails: by an assertion of
the product, a check of the test, or a wrong exit. A bug that survives all of them is `not ok`. Without a bug, the same programs
must pass the same histories: they give no false alarms.

The table in README.md says which program caught a bug last time, and in which history. That history and those around it run
first. If they no longer catch the bug, or with --search, the search begins at the first seed, with up to some thousand histories
in each program. Such a search takes most of the time, and is reported. After a change that makes the simulator draw other
numbers, use --refresh.

--factor N   N times as many histories
--search     searches every bug from the first seed: how long it lives
--refresh    records in the table what caught each bug this time
--write      --search and --refresh
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import seeding

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
TABLE_ROW = re.compile(r"^\| `(\w+)` \|[^\n]*\| (\w+) \| (\d+|one run) \| `[^\n]*$", re.MULTILINE)
FIRST_SEED = 1
AROUND = 4  # number of histories before and after the one that caught the bug last time
WATCHDOG_CPU_S = 60
LIMITS = ["prlimit", "--core=0", f"--cpu={WATCHDOG_CPU_S}"]
PLAYED_AT_ONCE = 2


class Catcher:
    """A program that plays `histories` histories from a seed on, or, with 0, one exhaustive test."""

    def __init__(self, name, histories):
        self.name = name
        self.histories = histories

    def command(self, directory, seed, count):
        program = str(directory / f"seeded_{self.name}")
        environment = {}
        if self.name == "pair":
            return [str(directory / "seeded_sim"), "--pair", "--jobs", "1", "--seed", str(seed), "--histories",
                    str(count)], environment
        if self.name == "sim":
            return [program, "--jobs", "1", "--seed", str(seed), "--histories", str(count)], environment
        if self.name == "index":
            return [program, str(seed), str(count)], environment
        if self.histories:
            environment = {"TARRY_SEED": str(seed), "TARRY_HISTORIES": str(count)}
        return [program], environment


HISTORIES = {"sim": 10000, "pair": 2000, "log_crash": 10000, "log_pair_crash": 5000, "index": 20}
CATCHERS = {name: Catcher(name, HISTORIES.get(name, 0)) for name in
            ("sim", "pair", "core_ahead", "core_ahead_bounds", "core_ahead_waits", "wheel", "log_crash", "log_pair_crash", "log_tail", "log_fault", "log_copy", "log_cut", "index", "index_unit", "erase",
             "core_deliver", "core_need", "core_overdue", "core_own", "core_recur", "core_sessions", "core_turn", "core_work", "erasure", "index_schedule", "lane_state", "outgoing_read", "freshness", "hung_disk", "keyring", "follower_half", "leader_half", "record_reads", "recovery_plan", "retention", "silence", "stall", "summons", "core_square", "list_page")}
# The catchers for a bug, by the file that contains the bug; they run in this order.
RIGS = [("broker/core/core.c", ["sim", "pair", "core_deliver", "core_overdue"]), ("broker/core/ahead", ["core_ahead", "core_ahead_bounds", "sim"]), ("broker/core/leases.c", ["core_ahead", "sim"]), ("broker/core/deliver", ["core_ahead", "sim"]), ("broker/core/query_list.c", ["list_page", "core_work", "sim"]), ("broker/core/near.c", ["core_ahead_bounds", "core_deliver", "sim"]), ("broker/core/task_view.c", ["core_ahead_waits", "sim"]), ("broker/core/need.c", ["core_need", "sim"]), ("broker/core/sessions.c", ["core_sessions", "sim"]), ("broker/core/apply.c", ["core_square", "sim"]), ("broker/core/recur", ["sim", "core_recur"]), ("broker/core/", ["sim"]), ("broker/engine/recovery_plan", ["sim", "recovery_plan"]),
        ("broker/engine/retention", ["sim", "retention"]), ("broker/engine/core_turn", ["core_turn", "sim", "pair"]),
        ("broker/engine/engine_request", ["core_turn", "sim"]), ("broker/engine/lane_state", ["lane_state", "sim"]), ("broker/engine/outgoing_read", ["outgoing_read", "sim"]),
        ("broker/engine/erasure", ["sim", "erasure"]), ("broker/engine/index_schedule", ["index_schedule", "sim", "pair"]), ("broker/engine/release_gate", ["pair", "sim"]), ("broker/engine/stall", ["sim", "stall"]), ("broker/engine/", ["sim", "pair"]),
        ("broker/shell/", ["sim"]), ("broker/pair/", ["pair"]),
        ("broker/replication/hung_disk", ["hung_disk"]),
        *((f"broker/replication/{name}.", ["pair", name]) for name in ("follower_half", "freshness", "leader_half", "record_reads", "silence", "summons")),
        ("storage/log/log_erase", ["erase"]), ("storage/index/keyring", ["keyring"]),
        ("storage/log/log_copy", ["log_pair_crash", "log_copy"]), ("storage/log/log_serve", ["log_copy"]),
        ("storage/log/log_mark", ["log_copy"]), ("storage/log/quarantine_cut", ["log_pair_crash", "log_cut"]),
        ("storage/log/quarantine", ["log_pair_crash"]),
        ("storage/log/log", ["log_crash", "log_tail", "log_fault", "erase", "sim"]), ("storage/files/disk", ["log_crash"]),
        ("storage/index/content_cache", ["keyring", "index"]), ("storage/index/index", ["keyring", "index", "index_unit"]), ("storage/index/db", ["index", "index_unit"]),
        ("proto/frame", ["log_tail", "log_crash"]), ("proto/", ["sim"])]


def play(directory, catcher, bug, seed, count):
    """Returns (caught, the seed that caught it, the program's message)."""
    command, environment = catcher.command(directory, seed, count)
    environment = {**os.environ, **environment, "TARRY_VERBOSE": "1", "CMOCKA_MESSAGE_OUTPUT": "STDOUT"}
    environment.pop("TARRY_SEEDED_BUG", None)
    if bug:
        environment["TARRY_SEEDED_BUG"] = bug
    done = subprocess.run(LIMITS + command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = done.stdout.decode(errors="replace")
    if done.returncode in (0, -signal.SIGXCPU):  # the catcher reported no error within its time limit
        return False, 0, ""
    return True, seed_in(text, catcher), complaint_in(text, done.returncode)


def seed_in(text, catcher):
    seeds = re.findall(r"^seed (\d+)(?: failed.*)?$", text, re.MULTILINE)
    return int(seeds[-1]) if seeds and catcher.histories else 0


COMPLAINTS = [
    re.compile(r"(?:^|/)(\w+\.[ch]):\d+: (?:[^\n]*: )?Assertion `([^\n]*)' failed"),  # failed assertions of the product
    re.compile(r"(?:^|/)(\w+\.[ch]):\d+: must hold: ([^\n]*)", re.MULTILINE),          # checks of a test's helper
    re.compile(r"^ERROR: (?:seed \d+(?: position \d+)?: )?([^\n]*)", re.MULTILINE),     # checks of a test
    re.compile(r"^\[  ERROR   \] --- ([^\n]*)", re.MULTILINE),                         # failures reported by cmocka
]


def complaint_in(text, status):
    """Returns the program's first complaint in one line, with the name of its test if the program has several."""
    found = [match for match in (pattern.search(text) for pattern in COMPLAINTS) if match]
    first = min(found, key=lambda match: match.start()) if found else None
    said = ": ".join(first.groups()).strip() if first else (f"signal {-status}" if status < 0 else f"exit status {status}")
    tests = re.findall(r"^\[ RUN      \] (\w+)$", text[:first.start()] if first else text, re.MULTILINE)
    if tests and "Running 1 test" not in text:
        said = f"{tests[-1]}: {said}"
    return said if len(said) <= 100 else said[:97] + "..."


def rig_of(files):
    names = []
    for path in sorted(files):
        names += next(rig for prefix, rig in RIGS if path.startswith(prefix))
    return [CATCHERS[name] for name in dict.fromkeys(names)]


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def say(self, good, title):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {title}", flush=True)


def knows_bugs(path):
    listed = subprocess.run(["nm", str(path)], capture_output=True, text=True, check=False)
    return "seeded_bug" in listed.stdout or not listed.stdout


def check_absence(tap, catchers, build):
    """Checks that installed programs contain no seeded bug. As a counter-check, the libraries in `catchers` must contain one."""
    installed = ["common/libtarry_common.a", "proto/libtarry_proto.a", "broker/core/libtarry_core.a", "broker/engine/libtarry_engine.a", "storage/libtarry_storage.a", "broker/shell/tarryd"]
    for name in installed:
        tap.say(not knows_bugs(build / name), f"{name} holds no seeded bug")
    tap.say(knows_bugs(catchers / "libseeded_core.a"), "the libraries of the tests do")


def last_catches():
    """Returns name of bug → (catcher, seed) from the table; seed 0: one whole run of a test."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    return {bug: (catcher, FIRST_SEED + int(after) - 1 if after.isdigit() else 0) for bug, catcher, after in TABLE_ROW.findall(text)}


def is_known(last, catcher, seed):
    """Returns whether `catcher` caught the bug at a seed near that of the last recorded result."""
    return last is not None and last[0] == catcher.name and abs(last[1] - seed) <= AROUND


def catch(directory, bug, factor, last):
    """Returns (catcher, the seed that caught it, its message, what was played without success)."""
    played, rig = [], rig_of(bug.files)
    known, seed = last or ("", 0)
    for catcher in (catcher for catcher in rig if catcher.name == known):
        first = max(FIRST_SEED, seed - AROUND)
        caught, at, said = play(directory, catcher, bug.name, first, seed + AROUND - first + 1 if catcher.histories else 1)
        if caught:
            return catcher, at, said, played
    for catcher in rig:
        count = catcher.histories * factor
        caught, at, said = play(directory, catcher, bug.name, FIRST_SEED, count)
        if caught:
            return catcher, at, said, played
        played.append(f"{count} {catcher.name}" if count else catcher.name)
    return None, 0, "", played


def check_no_wolf(tap, directory, catcher, seeds, is_search):
    """Checks that the program without the bug passes the history that caught the bug. After a search, checks all histories of
    the search.
    """
    last = max(seeds)
    first = FIRST_SEED if is_search else max(FIRST_SEED, last - AROUND)
    caught, at, said = play(directory, catcher, None, first, last - first + 1 if catcher.histories else 1)
    tap.say(not caught, f"with no bug on {catcher.name} passes " + (f"the histories {first} to {last}" if catcher.histories else "too") +
            (f": failed at {at}: {said}" if caught else ""))


def write_table(rows):
    path = HERE / "README.md"
    text = path.read_text(encoding="utf-8")
    head, rest = text.split("<!-- table -->\n")[0], text.split("<!-- end of table -->")[1]
    lines = ["| bug | breaks | what is broken | caught by | after | by |", "| --- | --- | --- | --- | ---: | --- |"]
    for name, promise, sentence, catcher, histories, said in rows:
        after = histories if histories else "one run"
        lines.append(f"| `{name}` | {promise} | {sentence} | {catcher} | {after} | `{said.replace('|', chr(92) + '|')}` |")
    path.write_text(head + "<!-- table -->\n" + "\n".join(lines) + "\n<!-- end of table -->" + rest, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("catchers", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", default="", help="names that contain one of these words, separated by commas")
    parser.add_argument("--factor", type=int, default=1)
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--refresh", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    is_search = options.search or options.write
    tap, rows, seeds = Tap(), [], {}
    last = {} if is_search else last_catches()
    bugs = [bug for bug in seeding.parse()[0].values() if not bug.is_of_model]
    if not options.only:
        check_absence(tap, options.catchers, options.build)
    started = time.monotonic()
    asked = [bug for bug in bugs if any(word in bug.name for word in options.only.split(","))]
    pool = concurrent.futures.ThreadPoolExecutor(PLAYED_AT_ONCE)
    catches = pool.map(lambda bug: catch(options.catchers, bug, options.factor, last.get(bug.name)), asked)
    for bug, (catcher, seed, said, played) in zip(asked, catches):
        if catcher is None:
            tap.say(False, f"{bug.name} ({bug.promise}: {bug.sentence}) survived {', '.join(played)}")
            continue
        seeds.setdefault(catcher.name, []).append(seed)
        tap.say(True, f"{bug.name}: caught by {catcher.name} " + (f"in history {seed}" if seed else "") + f" ({said})")
        rows.append((bug.name, bug.promise, bug.sentence, catcher.name, seed - FIRST_SEED + 1 if seed else 0, said))
        if not is_search and not is_known(last.get(bug.name), catcher, seed):
            print(f"# {bug.name} had to be searched for: the table wants --refresh", flush=True)
    for name, found in seeds.items():
        check_no_wolf(tap, options.catchers, CATCHERS[name], found, is_search)
    print(f"1..{tap.count}")
    print(f"# {len(rows)} of {len(bugs)} bugs caught in {time.monotonic() - started:.0f} s")
    if (options.write or options.refresh) and not options.only:
        write_table(rows)
    sys.exit(1 if tap.failed else 0)


if __name__ == "__main__":
    main()
