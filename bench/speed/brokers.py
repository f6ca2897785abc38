"""brokers.py: starts a new broker on the measured disk, and runs a bench with it; any error that a bench finds ends the
measurement."""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

import harness

RUN_WAIT_S = 3600


class Wrong(Exception):
    """Raised when a load broke a promise, so that there is no figure."""


def words_of(options):
    return [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]


def figures_of(text):
    """Returns the name=value pairs of the last line as a dictionary; values that are numbers are converted."""
    lines = text.strip().splitlines()
    found = {}
    for name, value in harness.parse_logfmt(lines[-1] if lines else "").items():
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = value
    return found


def run(command, wait_s=RUN_WAIT_S):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=wait_s)
    if done.returncode != 0:
        raise Wrong(f"{os.path.basename(command[0])} {' '.join(command[1:])}: {(done.stdout + done.stderr).strip()[-600:]}")
    if done.stderr.strip():
        print(done.stderr.strip(), file=sys.stderr, flush=True)
    return figures_of(done.stdout)


def command(broker, program, **options):
    return [harness.find_program(program), "--broker", broker.url, *words_of(options)]


def load(broker, program, **options):
    """Runs a bench program with this broker; returns its figures."""
    return run(command(broker, program, **options))


@contextlib.contextmanager
def directory():
    """Makes a directory on the measured disk; it is removed afterwards."""
    path = tempfile.mkdtemp(prefix="tarry-bench-", dir=os.environ.get("TARRY_BENCH_DIR"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def fresh(*options):
    with directory() as path:
        broker = harness.Broker(os.path.join(path, "data"), *options).start()
        try:
            yield broker
        finally:
            if broker.is_running():
                broker.kill()
