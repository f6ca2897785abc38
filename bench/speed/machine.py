"""machine.py: the measured machine, its limits without a broker, and the cost of a load."""
import json
import os
import platform
import resource
import subprocess
import tempfile
import time

import paths
import harness
import instructions
from accept import cpu_s


def first_line(path, name):
    with open(path, encoding="utf-8", errors="replace") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith(name)), "")


def said_by(*command):
    """Returns the program's output; "" if it does not exist or fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False, cwd=paths.ROOT)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 or command[0] == "dpkg-query" else ""  # dpkg-query fails if one of several packages is missing


def commit():
    """Returns the tree's commit, and whether the tree was changed since."""
    return (said_by("git", "rev-parse", "--short=10", "HEAD") or "no git") + (" (changed)" if said_by("git", "status", "--porcelain", "-uno") else "")


def describe(directory):
    kib = int(first_line("/proc/meminfo", "MemTotal").split()[0])
    return {"cores": os.cpu_count(), "cpu": first_line("/proc/cpuinfo", "model name"), "memory_gib": round(kib / (1 << 20)), "kernel": platform.release(),
            "file_system": (said_by("df", "--output=fstype", directory).split() or ["?"])[-1], "system": first_name("/etc/os-release")}


def packages(*names):
    """Returns Debian's versions of the installed packages: "redis-server 5:7.0.15-1", …"""
    return [line for line in said_by("dpkg-query", "-W", "-f=${Package} ${Version}\n", *names).splitlines() if " " in line.strip()]


def first_name(path):
    with open(path, encoding="utf-8") as file:
        return next((line.split("=", 1)[1].strip().strip('"') for line in file if line.startswith("PRETTY_NAME=")), "")


def floors(directory, seconds):
    """Returns the figures of bench_floor, name → number."""
    done = subprocess.run([harness.find_program("bench_floor"), "--directory", directory, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True, check=True)
    return {name: float(value) for name, value in harness.parse_logfmt(done.stdout).items() if name != "bench"}


def drop_page_cache():
    """Returns whether the kernel dropped its page cache: only root may request it."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("3\n")
        return True
    except OSError:
        return False


def size_of(directory):
    """Returns the size on disk of all files below."""
    total = 0
    for top, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(top, name)).st_blocks * 512
            except OSError:
                pass  # deleted meanwhile
    return total


def loopback_bytes():
    with open("/proc/net/dev", encoding="ascii") as file:
        return next((int(line.split(":")[1].split()[0]) for line in file if line.strip().startswith("lo:")), 0)


def thread_ns(pid):
    """Returns the CPU time of each living thread, by its name."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as name, open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as stat:
                called = name.read().strip()
                found[called] = found.get(called, 0) + int(stat.read().split()[0])
        except OSError:
            pass  # the thread has ended
    return found


def device_bytes():
    """Returns the bytes written to the device of the brokers' directories, by the device's own count. (/proc/PID/io counts a
    whole page even if only a part was changed, and pages are up to 2 MiB in a file system with large folios.) None: the directory
    is not on its own device (overlay, tmpfs)."""
    at = os.stat(os.environ.get("TARRY_BENCH_DIR") or tempfile.gettempdir()).st_dev
    try:
        with open(f"/sys/dev/block/{os.major(at)}:{os.minor(at)}/stat", encoding="ascii") as file:
            return int(file.read().split()[6]) * 512
    except FileNotFoundError:
        return None


def written_bytes(pid):
    """Returns the device's count, or otherwise all bytes that the process has written with write() and similar calls."""
    found = device_bytes()
    return int(first_line(f"/proc/{pid}/io", "wchar")) if found is None else found


class Cost:
    """Measures the time between its construction and `end`: CPU time of the broker and of its clients (children of this process
    that end meanwhile), bytes written to disk, bytes over the loopback device."""

    def __init__(self, pid):
        self.pid = pid
        self.threads, self.before = thread_ns(pid), self.now()

    def now(self):
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.monotonic(), cpu_s(self.pid), children.ru_utime + children.ru_stime, written_bytes(self.pid), loopback_bytes()

    def end(self, count):
        """Returns a dictionary: costs per operation, for `count` operations, and shares of the machine's resources."""
        wall, broker, clients, written, loop = (after - before for after, before in zip(self.now(), self.before))
        threads = {name: (ns - self.threads.get(name, 0)) / 1000 / count for name, ns in thread_ns(self.pid).items()}
        by_most = sorted(threads.items(), key=lambda item: -item[1])
        return {"thread_us": {name: round(us, 2) for name, us in by_most if us >= 0.05}, "wall_s": round(wall, 3),
                "broker_us": broker * 1e6 / count, "client_us": clients * 1e6 / count, "cores_busy": (broker + clients) / wall / os.cpu_count(),
                "disk_bytes": written / count, "disk_mb_per_s": written / wall / 1e6, "socket_bytes": loop / count, "socket_mb_per_s": loop / wall / 1e6}


def instructions_of_a_life():
    """Returns (number, compiler) from instructions.json."""
    with open(os.path.join(paths.BENCH, "instructions.json"), encoding="utf-8") as file:
        figures = json.load(file)
    compiler = instructions.compiler_of(harness.find_program("bench_schedule"))
    compiler = compiler if compiler in figures else max(figures)  # another compiler's figures are similar
    return round(sum(figures[compiler].values())), compiler
