"""machine.py: bare Debian systems with a real systemd, for tests that install, start, upgrade and remove packages. A Base is
made once (debootstrap: the packages of every Debian, and systemd). Packages that a test needs from the mirror are
downloaded into it first. A Machine is a booted copy of the Base (systemd-nspawn). It has only its own loopback network, so
tests can use the real ports. Commands run in it as root. A machine ends by `close`, or when this process ends. Root only.
"""
import os
import re
import shutil
import subprocess
import time

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAKING_WAIT_S = 1200  # time limit in seconds for debootstrap, or for apt-get with network access
BOOT_WAIT_S = 120
COMMAND_WAIT_S = 600
MACHINES = ["systemd", "systemd-sysv", "dbus", "libnss-systemd"]  # packages that a booted machine needs, but a chroot does not
APT = "apt-get -qq -y -o Dpkg::Use-Pty=0 -o APT::Sandbox::User=root"


class Failed(AssertionError):
    """Raised when a command ended with an unexpected status. Contains all of its output."""


def checked(command, what, wait_s=MAKING_WAIT_S, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          timeout=wait_s, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{what}: exit status {done.returncode}\n{done.stdout[-8000:]}")
    return done.stdout


def why_not():
    """Returns why no machine can be made here, or None if one can be made."""
    if os.geteuid() != 0:
        return "only root can make a machine"
    for program in ("debootstrap", "systemd-nspawn", "nsenter"):
        if not shutil.which(program):
            return f"no {program}"
    return None


def mirror(suite):
    """Returns lines of a sources.list for another release, from this machine's own mirror."""
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
                          stdout=subprocess.PIPE, text=True, check=True)
    with open("/etc/os-release", encoding="utf-8") as file:
        own = re.search(r"^VERSION_CODENAME=(\w+)", file.read(), re.M).group(1)
    found = sorted({(uri, release) for uri, release, component in map(str.split, done.stdout.splitlines())
                    if component == "main" and re.fullmatch(f"{own}(-updates|-security)?", release)}, key=lambda line: len(line[1]))
    return [(uri, release.replace(own, suite, 1)) for uri, release in found]


class Base:
    """A directory with a Debian that is not booted. `path` must not exist yet."""

    def __init__(self, path, suite="bookworm"):
        self.path = path
        sources = mirror(suite)
        checked(["debootstrap", "--variant=minbase", "--include=" + ",".join(MACHINES), suite, path, sources[0][0]], "debootstrap")
        with open(os.path.join(path, "etc/apt/sources.list"), "w", encoding="ascii") as file:
            file.writelines(f"deb {uri} {release} main\n" for uri, release in sources)
        settings = checked(["apt-config", "dump", "--no-empty", "Acquire"], "apt-config")
        kept = [line for line in settings.splitlines() if not line.startswith("Acquire::IndexTargets") and "Proxy-Auto-Detect" not in line]
        with open(os.path.join(path, "etc/apt/apt.conf.d/00own-machine"), "w", encoding="utf-8") as file:
            file.write("\n".join(kept) + "\n")
        with open(os.path.join(path, "etc/dpkg/dpkg.cfg.d/unsafe-io"), "w", encoding="ascii") as file:
            file.write("force-unsafe-io\n")  # faster: this system need not survive a power cut
        for name in ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt"):
            if os.path.exists("/" + name):
                os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
                shutil.copyfile("/" + name, os.path.join(path, name))
        self.chroot(f"{APT} update")

    @classmethod
    def there_already(cls, path):
        """Returns a base that was made earlier."""
        found = cls.__new__(cls)
        found.path = os.path.realpath(path)
        return found

    def chroot(self, commands):
        """Runs a command in the base, with this machine's network, and without systemd."""
        script = f"mount -t proc proc {self.path}/proc && exec chroot {self.path} /usr/bin/env -i PATH={PATH} HOME=/root " \
                 f"DEBIAN_FRONTEND=noninteractive bash -ec '{commands}'"
        return checked(["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-ec", script], commands)

    def fetch(self, *packages):
        """Puts packages and their dependencies into apt's cache, for machines without a network. A package is a name, or the
        path of a package file on this machine.
        """
        inside = "/var/tmp/fetch"
        os.makedirs(self.path + inside)
        names = [shutil.copy(name, self.path + inside) and f"{inside}/{os.path.basename(name)}" if "/" in name else name for name in packages]
        self.chroot(f"{APT} install --download-only {' '.join(names)}")
        shutil.rmtree(self.path + inside)


class Machine:
    """A booted copy of `base` at `path`, which must not exist yet."""

    def __init__(self, base, path):
        self.path = path
        checked(["cp", "-a", "--reflink=auto", base.path, path], "cp")
        os.remove(os.path.join(path, "etc/resolv.conf"))
        environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        self.said = open(path + ".console", "w+", encoding="utf-8", errors="replace")
        # Runs in a pid namespace that always ends with this process. Otherwise a machine would survive when its
        # systemd-nspawn is killed.
        bounds = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "--mount-proc", "--pid", "--fork", "--kill-child"]
        self.outer = subprocess.Popen([*bounds, "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "--console=pipe",
                                       "--directory", path, "--boot"],
                                      env=environment, stdin=subprocess.DEVNULL, stdout=self.said, stderr=subprocess.STDOUT)
        try:
            self.leader = self._wait_for(self._find_leader, "its systemd has not begun")
            self._wait_for(self._is_up, "it is not up")
        except BaseException:
            self.close()
            raise

    def _wait_for(self, check, what):
        end = time.monotonic() + BOOT_WAIT_S
        while not (found := check()):
            if time.monotonic() > end or self.outer.poll() is not None:
                self.said.seek(0)
                raise Failed(f"the machine at {self.path}: {what}\n{self.said.read()[-4000:]}")
            time.sleep(0.1)
        return found

    def _find_leader(self):
        """Returns the pid, as seen here, of the machine's process 1: the descendant of systemd-nspawn that has pid 1 in its
        own namespace.
        """
        waiting = [self.outer.pid]
        while waiting:
            process = waiting.pop()
            try:
                with open(f"/proc/{process}/status", encoding="ascii") as status:
                    numbers = re.search(r"^NSpid:(.*)$", status.read(), re.M).group(1).split()
                with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
                    waiting += map(int, file.read().split())
            except FileNotFoundError:
                continue  # the process has ended meanwhile
            if len(numbers) == self._depth() + 2 and numbers[-1] == "1":
                return process
        return None

    @staticmethod
    def _depth():
        with open("/proc/self/status", encoding="ascii") as status:
            return len(re.search(r"^NSpid:(.*)$", status.read(), re.M).group(1).split())

    def _is_up(self):
        done = self._inside("systemctl is-system-running")
        return done.stdout.strip() in ("running", "degraded")

    def _inside(self, commands, wait_s=COMMAND_WAIT_S):
        entered = ["nsenter", "--target", str(self.leader), "--mount", "--uts", "--ipc", "--net", "--pid", "--", "/usr/bin/env", "-i", "--chdir=/root",
                   f"PATH={PATH}", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"]
        return subprocess.run([*entered, "bash", "-c", commands], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=wait_s, check=False)

    def run(self, commands, status=0, wait_s=COMMAND_WAIT_S):
        """Runs commands as root. Every command must end with 0; `status` is the expected status of the whole script. Returns
        the output.
        """
        done = self._inside("set -e\n" + commands, wait_s)
        if done.returncode != status:
            raise Failed(f"{commands}: exit status {done.returncode}, not {status}\n{done.stdout[-8000:]}\n{self.journal()}")
        return done.stdout

    def journal(self):
        return self._inside("journalctl --no-pager -n 60 -u tarry").stdout

    def there(self, path):
        return os.path.join(self.path, path.lstrip("/"))

    def put(self, *paths, to="/root"):
        """Copies files from this machine into the booted one."""
        for path in paths:
            shutil.copy(path, self.there(to))

    def close(self):
        if self.outer.poll() is None:
            self.outer.kill()  # kills all processes in its namespaces, too
        self.outer.wait()
        self.said.close()
