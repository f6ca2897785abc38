"""Acceptance 8: floods of resets, broken upgrades and random bytes at the port while a client works: a call's p99 under 100 ms
before, during and after, the maximum under 500 ms, and no leaked descriptors or memory."""
import os
import random
import socket
import struct
import sys
import threading
import time

from accept import Probe, Verdict, finish, new_broker, open_files, quantile, status_kib

SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 10


def reset(port, data):
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as peer:
            if data:
                peer.sendall(data)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass


def upgrade(key):
    return (f"GET /rpc HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: rep.sp.nanomsg.org\r\n\r\n").encode()


FLOODS = {
    "resets": lambda: b"",
    "broken upgrades": lambda: random.choice((upgrade("dGhlIHNhbXBsZSBub25jZQ==")[:random.randrange(10, 150)], upgrade("!!!"),
                                              upgrade("") + b"\x82\xff" + b"\xff" * 8)),
    "random bytes": lambda: random.randbytes(random.randrange(1, 2000)),
}


def flood(port, make, seconds):
    """Two threads connect as fast as they can; returns the number of connections."""
    counts = [0, 0]

    def run(number):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            reset(port, make())
            counts[number] += 1

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def settle(broker, files):
    end = time.monotonic() + 20
    while open_files(broker.process.pid) > files and time.monotonic() < end:
        time.sleep(0.1)
    return open_files(broker.process.pid)


def main():
    verdict = Verdict()
    broker = new_broker()
    probe = Probe(broker, delay_ms=500, every_s=0.002)

    def judge(name):
        calls_ms, _ = probe.forget()
        p99, worst = quantile(calls_ms, 0.99), max(calls_ms, default=0)
        verdict.check(calls_ms and p99 < 100 and worst < 500, f"{name}: {len(calls_ms)} calls, p99={p99:.1f} worst={worst:.1f} ms")

    time.sleep(5)
    judge("before")
    files, resident_kib = open_files(broker.process.pid), status_kib(broker.process.pid, "VmRSS")
    for name, make in FLOODS.items():
        count = flood(broker.port, make, SECONDS)
        judge(f"during {count} {name}")
        left = settle(broker, files)
        verdict.check(left <= files, f"descriptors: {files} before, {left} after {name}")
        if name == "resets":
            resident_kib = status_kib(broker.process.pid, "VmRSS")
    grown_kib = status_kib(broker.process.pid, "VmRSS") - resident_kib
    verdict.check(grown_kib < 32 << 10, f"memory grew by {grown_kib} KiB in the last two floods")
    probe.forget()
    time.sleep(5)
    judge("after")
    _, late_ms = probe.end()
    verdict.check(len(late_ms) == probe.sent and probe.early == 0, f"{len(late_ms)} of {probe.sent} probes came, {probe.early} early")
    finish(broker)
    verdict.exit()


if __name__ == "__main__":
    assert os.environ.get("TARRY_BUILD_ROOT"), "run by ./dev bench accept_8"
    main()
