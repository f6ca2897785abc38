"""harness.py: a broker, the tool, and streams of the tool, for tests that read like stories. Uses the contract of issue 2: the
ready line, exit statuses, JSON lines. Each broker has its own temporary directory and port, and is killed only by its process
id. A test file ends with `harness.main()`, which prints one TAP line per test."""
import copy
import functools
import json
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest

sys.path.insert(0, __file__.rsplit("/", 2)[0])
import ports  # pylint: disable=wrong-import-position
import tokens  # pylint: disable=wrong-import-position

SEGMENT_SIZE = os.environ.get("TARRY_TEST_SEGMENT_SIZE", "8MiB")
READY_WAIT_S = 60
ANSWER_WAIT_S = 30
TOOL_TIMEOUT = "25s"  # long, because a busy machine must not look like an absent broker
ASKS_BOTH = ("status", "promote", "demote")  # these commands ask both nodes, and one of them may be silent
ADMIN = ("backup", "redact")  # commands that need a token with the role admin (docs/ACCESS.md)
PEER_KEY = "what both nodes of a pair know, and nobody else"
CRASHES = (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGFPE)
SANITIZED = any(kind in os.path.basename(os.environ.get("TARRY_BUILD_ROOT", "")) for kind in ("asan", "tsan"))


class Broken(AssertionError):
    """A failure that cannot be caused by a busy machine. tests/again.py does not repeat such a test."""


def make_private(path, text):
    """Makes a file that only its owner may read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def now_ms():
    return time.time_ns() // 1_000_000


def wait_until(what, check, wait_s):
    """Calls `check` until it returns a true value, and returns that value. `what` is for the message after a timeout."""
    end = time.monotonic() + wait_s
    while not (found := check()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {wait_s} s")
        time.sleep(0.02)
    return found


@functools.cache
def find_program(name):
    """Returns the built program: under $TARRY_BUILD_ROOT, otherwise on PATH."""
    root = os.environ.get("TARRY_BUILD_ROOT")
    if root:
        for directory, names, files in os.walk(root):
            names[:] = [n for n in names if not n.endswith(".p") and not n.startswith(("meson-", "lint-"))]
            path = os.path.join(directory, name)
            if name in files and os.access(path, os.X_OK):
                return path
    path = shutil.which(name)
    if not path:
        raise FileNotFoundError(f"no program {name}: set TARRY_BUILD_ROOT or PATH (eval \"$(./dev env)\")")
    return path


def preloaded(library, asan_options=None):
    """Returns the environment of a program that loads this built library before all others. ASan must normally be the first
    loaded library; verify_asan_link_order=0 allows another one before it. `asan_options`: options of ASan, if they differ from
    the test's.
    """
    options = os.environ.get("ASAN_OPTIONS", "") if asan_options is None else asan_options
    return {"LD_PRELOAD": find_program(library), "ASAN_OPTIONS": ":".join(filter(None, (options, "verify_asan_link_order=0")))}


def parse_logfmt(line):
    """Returns the name=value pairs of one log line; values may be quoted."""
    pairs = {}
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            pairs[name] = value
    return pairs


class Answer:
    """The result of one run of the tool."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        self.objects = [json.loads(line) for line in out.splitlines() if line.strip()]

    @property
    def one(self):
        assert len(self.objects) == 1, f"one object expected: {self}"
        return self.objects[0]

    def __repr__(self):
        return f"status {self.status}\nstdout: {self.out}\nstderr: {self.err}"


class Stream:
    """A long-lived run of the tool; its output lines are read as they arrive, each with its time of arrival."""

    def __init__(self, command, env, stdin=False):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        self.lines = queue.Queue()
        self.seen = []
        self.errors = []
        self.readers = [threading.Thread(target=self._read_out, daemon=True),
                        threading.Thread(target=self._read_err, daemon=True)]
        for reader in self.readers:
            reader.start()

    def _read_out(self):
        for line in self.process.stdout:
            item = json.loads(line)
            item["_arrived_ms"] = now_ms()
            self.lines.put(item)
        self.lines.put(None)

    def _read_err(self):
        for line in self.process.stderr:
            self.errors.append(line.decode(errors="replace"))

    def send(self, *items):
        for item in items:
            line = item if isinstance(item, bytes) else (item if isinstance(item, str) else json.dumps(item)).encode()
            self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def end_input(self):
        self.process.stdin.close()

    def next(self, wait_s=ANSWER_WAIT_S):
        """Returns the next line; None at the end of the output. Raises queue.Empty on a timeout."""
        item = self.lines.get(timeout=wait_s)
        if item is not None:
            self.seen.append(item)
        return item

    def take(self, count, wait_s=ANSWER_WAIT_S):
        """Returns the next `count` lines."""
        end = time.monotonic() + wait_s
        items = []
        while len(items) < count:
            try:
                item = self.next(max(0.01, end - time.monotonic()))
            except queue.Empty:
                item = None
            if item is None:
                raise AssertionError(f"{len(items)} lines of {count} came: {items}; stderr: {''.join(self.errors)}")
            items.append(item)
        return items

    def quiet_for(self, seconds):
        """Returns True if no line arrives for this time."""
        try:
            self.next(seconds)
        except queue.Empty:
            return True
        return False

    def rest(self, wait_s=ANSWER_WAIT_S):
        """Returns all lines up to the end of the output."""
        items = []
        end = time.monotonic() + wait_s
        while (item := self.next(max(0.01, end - time.monotonic()))) is not None:
            items.append(item)
        return items

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, wait_s=ANSWER_WAIT_S):
        status = self.process.wait(wait_s)
        for reader in self.readers:
            reader.join(5)
        return status

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join(5)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


class Broker:
    """One tarryd, on a free port unless `listen` is given. `start` waits for the ready line; `restart` uses the same port and
    directory. `prefix`: a command that runs the program."""

    program = "tarryd"
    has_admin = True

    def __init__(self, data, *arguments, listen=None, env=None, prefix=()):
        self.data = data
        self.prefix = list(prefix)
        self.listen = listen or f"ws://127.0.0.1:{ports.free_port()}"
        self.arguments = list(arguments)
        self.env = {**os.environ, **(env or {})}
        self.process = None
        self.ends = []  # exit statuses of the earlier processes
        self.log = []
        self.is_line_whole = True  # whether the last line of the log ended with a line feed
        self.ready = {}
        self.url = None
        self.streams = []

    def launch(self):
        """Starts the process without waiting."""
        if self.process is not None:
            self.ends.append(self.process.poll())
        command = [*self.prefix, find_program(self.program), "--data", self.data, "--listen", self.listen, *self.arguments,
                   *self._segments(), *self._peer_key(), *self._tokens()]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, env=self.env)
        self.is_ready = threading.Event()
        self.reader = threading.Thread(target=self._read_log, args=(self.process, self.is_ready), daemon=True)
        self.reader.start()
        return self

    def _segments(self):
        """Uses small segments unless the test sets a size: tarryd fills new segments with zeros, 64 MiB by default."""
        return [] if "--segment-size" in self.arguments else ["--segment-size", SEGMENT_SIZE]

    def _peer_key(self):
        """Gives a node of a pair the common test key, unless the test sets one."""
        is_pair = any(argument in ("--peer", "--follow") for argument in self.arguments)
        if not is_pair or "--peer-key" in self.arguments:
            return []
        path = os.path.join(os.path.dirname(os.path.abspath(self.data)), "peer.key")
        if not os.path.exists(path):
            make_private(path, PEER_KEY + "\n")
        return ["--peer-key", path]

    def _beside(self, name):
        return os.path.join(os.path.dirname(os.path.abspath(self.data)), name)

    def _tokens(self):
        """Adds a token with the role admin, unless the test has its own tokens."""
        if "--tokens" in self.arguments or not self.has_admin:
            return []
        for name, text in (("admin.tokens", tokens.FIRST_LINE + tokens.row("admin", "produce,consume,read,operate,admin")),
                           ("admin.token", tokens.ADMIN + "\n")):
            if not os.path.exists(self._beside(name)):
                make_private(self._beside(name), text)
        return ["--tokens", self._beside("admin.tokens")]

    def start(self):
        self.launch()
        self.wait_ready()
        return self

    def wait_ready(self, wait_s=READY_WAIT_S):
        if not self.is_ready.wait(wait_s) or not self.ready:
            raise AssertionError(f"no ready line; status {self.process.poll()}; log:\n{self.log_text()}")
        self.url = self.ready["url"]
        self.listen = self.url

    def _read_log(self, process, is_ready):
        self.ready = {}
        for raw in process.stderr:
            line = raw.decode(errors="replace").rstrip("\n")
            self.is_line_whole = raw.endswith(b"\n")
            self.log.append(line)
            if not is_ready.is_set() and "event=ready" in line.split():
                self.ready = parse_logfmt(line)
                is_ready.set()
        is_ready.set()

    def log_text(self, lines=60):
        return "\n".join(self.log[-lines:])

    def wait_logged(self, text, count=1, wait_s=30):
        """Waits until the text is in `count` log lines. A thread reads the log, so it may lag behind replies."""
        wait_until(f"a line in the log with {text!r}", lambda: sum(text in line for line in self.log) >= count, wait_s)

    def sockets(self):
        """Returns the number of open sockets. Counts no files, because their number changes while no connection is opened."""
        directory, count = f"/proc/{self.process.pid}/fd", 0
        for name in os.listdir(directory):
            try:
                count += os.readlink(os.path.join(directory, name)).startswith("socket:")
            except FileNotFoundError:
                pass  # the connection was closed meanwhile
        return count

    def kill(self):
        """Sends SIGKILL, and waits for the end of the process."""
        self.process.kill()
        self.process.wait()
        self.reader.join(5)
        self.process.stderr.close()

    def stop(self, wait_s=60):
        """Sends SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(wait_s)
        self.reader.join(5)
        self.process.stderr.close()
        return status

    def restart(self):
        self.kill()
        return self.start()

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def by_way_of(self, proxy):
        """Returns the same broker for clients that connect through a proxy. Only for the tool: it starts and stops nothing."""
        far = copy.copy(self)
        far.url = proxy.url
        return far

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    # ---- the tool

    def command(self, *arguments):
        is_patient = arguments and "--timeout" not in arguments and arguments[0] not in ASKS_BOTH
        patience = ("--timeout", TOOL_TIMEOUT) if is_patient else ()
        token = ("--token-file", self._beside("admin.token")) if arguments and arguments[0] in ADMIN else ()
        if token and self.url.startswith("ws://") and "//127." not in self.url:
            token = (*token, "--unsafe-plain-token")
        return [find_program("tarry"), *[str(a) for a in (*arguments, *patience, *token)], "--broker", self.url, "--json"]

    def tarry(self, *arguments, stdin=None, wait_s=ANSWER_WAIT_S, env=None):
        """Runs the tool once, with --json."""
        data = stdin if isinstance(stdin, (bytes, type(None))) else stdin.encode()
        done = subprocess.run(self.command(*arguments), input=data, stdin=subprocess.DEVNULL if data is None else None,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=wait_s, check=False,
                              env={**os.environ, **(env or {})})
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))

    def ok(self, *arguments, **options):
        """Returns the result objects of a run that must exit with 0."""
        answer = self.tarry(*arguments, **options)
        assert answer.status == 0, f"tarry {' '.join(map(str, arguments))}: {answer}"
        return answer.objects

    def schedule_all(self, tasks):
        """Schedules all tasks by one run of the tool, one line each. Returns the result objects."""
        objects = self.ok("schedule", "--from", "-", stdin="".join(json.dumps(task) + "\n" for task in tasks))
        assert len(objects) == len(tasks), objects
        return objects

    def one(self, *arguments, **options):
        objects = self.ok(*arguments, **options)
        assert len(objects) == 1, f"tarry {arguments}: {objects}"
        return objects[0]

    def words(self, *arguments, status=0):
        """Returns the output for people of a run that must exit with `status`."""
        done = subprocess.run(self.command(*arguments)[:-1], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=ANSWER_WAIT_S, check=False)
        assert done.returncode == status, f"tarry {' '.join(map(str, arguments))}: expected status {status}: {done}"
        return done.stdout.decode()

    def refused(self, *arguments, status=1, **options):
        """Returns the result of a run that must exit with `status`."""
        answer = self.tarry(*arguments, **options)
        assert answer.status == status, f"tarry {' '.join(map(str, arguments))}: expected status {status}: {answer}"
        return answer

    def stream(self, *arguments, stdin=False):
        stream = Stream(self.command(*arguments), dict(os.environ), stdin)
        self.streams.append(stream)
        return stream

    def consume(self, *arguments):
        return self.stream("consume", *arguments)

    def queue_stats(self, name):
        """Returns the stats object of one queue; None: of the broker."""
        stats = self.one("stats")
        return stats["broker"] if name is None else next((queue for queue in stats["queues"] if queue["name"] == name), None)

    def wait_stats(self, name, wait_s=ANSWER_WAIT_S, **expected):
        """Waits until the queue's statistics have these values; returns the object."""
        end = time.monotonic() + wait_s
        while True:
            stats = self.queue_stats(name)
            if stats and all(stats[field] == value for field, value in expected.items()):
                return stats
            if time.monotonic() > end:
                raise AssertionError(f"{name}: {expected} expected, found {stats}")
            time.sleep(0.05)


class Case(unittest.TestCase):
    """A test with a fresh broker. `arguments` go to tarryd; set `autostart = False` to start it in the test."""

    autostart = True
    arguments = ()
    maxDiff = None

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="tarry-e2e-")
        self.brokers = []
        self.broker = self.make_broker()
        if self.autostart:
            self.broker.start()

    def make_broker(self, *arguments, data=None, listen=None):
        broker = Broker(data or os.path.join(self.directory, "data"), *self.arguments, *arguments, listen=listen)
        self.brokers.append(broker)
        return broker

    def tearDown(self):
        try:
            for broker in self.brokers:
                for stream in broker.streams:
                    stream.kill()
                if broker.process is None:
                    continue
                status = broker.stop() if broker.is_running() else 0
                broker.reader.join(5)
                if crash := next((end for end in (*broker.ends, broker.process.poll()) if end in CRASHES), None):
                    raise Broken(f"tarryd ended with {crash}: {broker.log_text()}")
                self.assertEqual(status, 0, f"tarryd at SIGTERM: {broker.log_text()}")
                log = "\n".join(broker.log)
                for bad in ("ERROR: AddressSanitizer", "runtime error:", "LeakSanitizer", "ThreadSanitizer", "Assertion"):
                    self.assertNotIn(bad, log)
        finally:
            for broker in self.brokers:
                if broker.is_running():
                    broker.kill()
            shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, name, text=None):
        """Returns a path in the test's directory; with `text`, writes a file first."""
        path = os.path.join(self.directory, name)
        if text is not None:
            with open(path, "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def assert_not_early(self, delivery):
        """TIME-1: checks by the broker's clock, the tool's clock, and the test's clock."""
        first_ms = min(delivery["delivered_ms"], delivery["received_ms"], delivery.get("_arrived_ms", delivery["received_ms"]))
        if first_ms < delivery["due_ms"]:
            raise Broken(f"TIME-1: {delivery}")


class TapResult(unittest.TestResult):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.count = 0

    def _line(self, good, test, note=""):
        self.count += 1
        name = test.id().removeprefix("__main__.").replace("_", " ")
        print(f"{'ok' if good else 'not ok'} {self.count} - {name}{note}", flush=True)

    def addSuccess(self, test):
        self._line(True, test)

    def addSkip(self, test, reason):
        self._line(True, test, f" # SKIP {reason}")

    def _bad(self, test, error):
        self._line(False, test)
        for line in "".join(traceback.format_exception(*error)).splitlines():
            print(f"# {line}", flush=True)
        for broker in getattr(test, "brokers", []):
            for line in broker.log[-25:]:
                print(f"# tarryd: {line}", flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._bad(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._bad(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:  # successful tests report themselves
            self._bad(subtest, err)


def watch_locks():
    """From now on, each started broker and tool ends with SIGABRT if one of its threads unlocks a mutex that it has not
    locked. (Sanitizers must be loaded first.)
    """
    if not SANITIZED:
        earlier = os.environ.get("LD_PRELOAD")  # ./dev test --slow-sync may have set LD_PRELOAD already
        os.environ["LD_PRELOAD"] = (f"{earlier}:" if earlier else "") + find_program("liblock_owner.so")


def main(watches_locks=False):
    """Runs the tests of the calling file, or those named on the command line."""
    if watches_locks:
        watch_locks()
    loader = unittest.TestLoader()
    module = sys.modules["__main__"]
    names = sys.argv[1:]
    suite = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    result = TapResult()
    suite.run(result)
    print(f"1..{result.count}")
    sys.exit(0 if result.wasSuccessful() else 1)
