"""lives.py: a life (one run of a role's brokers with a stranger), and its checks.

These conditions must be true. Every process survives. No sanitizer reports a defect. The broker serves an honest client
with a new connection within BOUND_S. The honest clients' ledger agrees. Memory stays below a bound. SIGTERM ends the broker
in order. `tarry verify` accepts the directory, and a new process can serve it.
"""
import json
import os
import re
import signal
import subprocess
import time

import harness
from honest import KEY_FAR, Caller, Honest
from honest_web import Api, Jobs

BOUND_S = 15               # limit for an honest client's answer, on a busy machine with sanitizers
SILENCE_S = 60             # no client was served for that time: the life ends
MEMORY_MAX_KIB = 1500 << 10 if harness.SANITIZED else 200 << 10
STOP_S = 120
HERE = os.path.dirname(os.path.abspath(__file__))
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:strict_string_checks=1:quarantine_size_mb=32:malloc_context_size=12",
               "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
BAD = re.compile(r"ERROR: AddressSanitizer|runtime error:|Assertion|ThreadSanitizer|stack smashing|malloc\(\)|free\(\)")
SIGNATURE = re.compile(r"SUMMARY: .*|.*Assertion .* failed.*|.*runtime error: .*")


def peak_kib(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            return int(re.search(r"^VmHWM:\s*(\d+)", file.read(), re.M).group(1))
    except (OSError, AttributeError):
        return 0


def signature(role):
    """Returns the last log lines of a dead broker, without numbers that differ from run to run; "" if no broker has died."""
    for broker in role.brokers:
        if broker.is_running():
            continue
        broker.reader.join(10)
        said = [line for line in broker.log if SIGNATURE.match(line)]
        words = re.sub(r"0x[0-9a-f]+|==\d+==|\d{4,}", "#", said[-1]) if said else ""
        return f"status {broker.process.returncode} {words}"
    return ""


class Stranger:
    """The process of a fuzzing client (stranger.c)."""

    def __init__(self, role, arguments):
        command = ["nice", "-n", "5", harness.find_program("stranger"), *role.stranger, "--pass", role.passing.path, *arguments]
        for port in role.ports():
            command += ["--port", str(port)]
        for port in role.job_ports():
            command += ["--beanstalk", str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def is_over(self):
        return self.process.poll() is not None

    def end(self):
        """Returns the stranger's own report; {} if it did not end by itself."""
        if not self.is_over():
            self.process.kill()
        out, err = self.process.communicate()
        if self.process.returncode not in (0, 3, -signal.SIGKILL):
            raise AssertionError(f"stranger ended with {self.process.returncode}: {err.decode(errors='replace')}")
        return json.loads(out) if out.strip() else {}


class Life:
    """`complaints` is empty if no check failed."""

    def __init__(self, role, seed, arguments, gently):
        """`arguments` are further arguments for the stranger. If `gently`, the life ends with SIGTERM, otherwise with SIGKILL."""
        self.role, self.seed, self.arguments, self.gently = role, seed, list(arguments), gently
        self.complaints, self.said, self.memory_kib, self.signature = [], {}, 0, ""
        self.caller = self.honest = None
        self.webs = []

    def live(self):
        self.role.begin()
        try:
            self.go_on()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            self.complain_dead()
            self.complaints.append(str(error))
        finally:
            if self.caller:
                self.caller.end()
            if self.honest:
                self.honest.end()
            for web in self.webs:
                web.end()
            self.role.kill()
        return self

    def go_on(self):
        role = self.role
        if role.honest:
            self.honest = Honest(role.clients, self.seed, role.passing)
            self.caller = Caller(role.ports(), self.honest.far_queue, KEY_FAR)
            self.webs = [Api([broker.port for broker in role.brokers], self.seed, role.passing),
                         Jobs([broker.job_port for broker in role.brokers], self.seed, role.passing)]
        else:
            self.caller = Caller(role.ports(), "q1", "filler-1")
        self.listen(Stranger(role, ["--seed", str(self.seed), *self.arguments]))
        if self.complaints:
            return
        for web in self.webs:
            web.running = False  # stops all clients first; the loop below waits for them
        if self.honest:
            self.complaints += self.honest.finish()
        for web in self.webs:
            self.complaints += web.finish()
        self.caller.end()
        if self.caller.worst_s > BOUND_S:
            self.complaints.append(f"an honest client waited for {self.caller.worst_s:.1f} s: {self.caller.trouble}")
        self.finish()

    def listen(self, stranger):
        """Waits until the stranger has sent everything, or an error has occurred."""
        try:
            while not stranger.is_over() and not self.complaints:
                time.sleep(0.1)
                self.memory_kib = max([self.memory_kib, *(peak_kib(b.process.pid) for b in self.role.brokers)])
                self.complain_dead()
                if self.caller.waits() > SILENCE_S:
                    self.complaints.append(f"nobody is served any more: {self.caller.trouble}")
        finally:
            self.said = stranger.end()
        self.complain_dead()
        if self.memory_kib > MEMORY_MAX_KIB:
            self.complaints.append(f"{self.memory_kib >> 10} MiB of memory, more than {MEMORY_MAX_KIB >> 10}")

    def complain_dead(self):
        if not self.signature and (found := signature(self.role)):
            self.signature = found
            self.complaints.append(f"a broker has ended: {found}")

    def complain_log(self):
        for broker in self.role.brokers:
            self.complaints += [f"{os.path.basename(broker.data)}: {line}" for line in broker.log if BAD.search(line)]

    def finish(self):
        """Ends the brokers and starts others in their places."""
        role = self.role
        if self.gently:
            self.stop()
        else:
            role.kill()
        self.complain_log()
        for broker in role.brokers:
            verified = broker.tarry("verify", broker.data, wait_s=STOP_S)
            if verified.status != 0:
                self.complaints.append(f"{broker.data} does not verify: {verified}")
        if self.complaints:
            return
        role.start()
        if self.honest:
            self.complaints += self.honest.still_there(role.clients)
        self.stop()
        self.complain_log()

    def stop(self):
        for broker in reversed(self.role.brokers):
            status = broker.stop(STOP_S)
            if status != 0:
                self.complaints.append(f"{os.path.basename(broker.data)} ended with {status} after SIGTERM: {broker.log_text(40)}")
