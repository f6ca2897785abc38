"""soak.py: tarryd under valgrind's memcheck while real clients load it: `TARRY_BUILD_ROOT=… python3 tests/e2e/soak.py
[SECONDS]`. The clients are those of the SIGKILL test, through the network of proxy.py: connections are cut now and then,
and consumers are killed. At the end all tasks must be settled, the ledger must agree, and memcheck must have found no error
and no memory leak. `./dev test` does not run this program, because a broker under valgrind is about thirty times slower.
"""
import os
import random
import re
import shutil
import sys
import tempfile
import time

import harness
from proxy import Proxy

sys.path.insert(0, __file__.rsplit("/", 2)[0] + "/crash")
from load import Load  # noqa: E402  (the path above)

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 180
HERE = os.path.dirname(os.path.abspath(__file__))


def memcheck(log):
    command = ["valgrind", "--tool=memcheck", "--leak-check=full", "--show-leak-kinds=definite,indirect",
               "--errors-for-leak-kinds=definite,indirect", "--num-callers=30", "--error-exitcode=99", f"--log-file={log}"]
    suppressions = os.path.join(HERE, "..", "valgrind.supp")
    return command + ([f"--suppressions={suppressions}"] if os.path.exists(suppressions) else [])


def churn(broker, far, load):
    """Makes memory usage vary: sends queries and large payloads, runs consumers that end soon, kills a consumer, breaks a
    connection.
    """
    broker.ok("stats", wait_s=120)
    broker.ok("list", "auto", "--limit", 50, wait_s=120)
    broker.ok("queue", "set", "auto", f"max_attempts={random.randrange(10, 100)}", wait_s=120)
    broker.tarry("schedule", "big", "--in", "0s", "--body", "x" * 100_000, "--timeout", "60s", wait_s=120)
    broker.tarry("consume", "big", "--count", 1, "--for", "20s", "--timeout", "60s", wait_s=120)
    load.replace_consumer()
    return 1 + far.cut()


def blocks_let_pass(text):
    """Returns the number of leaked blocks that memcheck suppressed because tests/valgrind.supp lists them."""
    found = re.search(r"suppressed: [\d,]+ bytes in ([\d,]+) blocks", text)
    return int(found.group(1).replace(",", "")) if found else 0


def main():
    directory = tempfile.mkdtemp(prefix="tarry-soak-")
    log = os.path.join(directory, "valgrind.log")
    broker = harness.Broker(os.path.join(directory, "data"), "--retain-log-size", "2MiB", "--segment-size", "1MiB",
                            prefix=memcheck(log), env={"LD_PRELOAD": harness.find_program("libsmall_map.so")}).start()
    far = Proxy(broker.port)
    load = Load(broker.by_way_of(far), 1, hand_every=0)
    end, rounds, lost = time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < end:
        lost += churn(broker, far, load)
        rounds += 1
        time.sleep(1)
    _, stats = load.finish()
    complaints = [c for name in ("lost", "early", "after_ack", "after_cancel", "untrue", "twice")
                  for c in getattr(load.ledger, name)()]
    for stream in broker.streams:
        stream.kill()
    status = broker.stop(300)
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    print(text)
    let_pass = blocks_let_pass(text)
    unsettled = [s for s in stats if s["pending"] or s["ready"] or s["in_flight"]]
    print(f"rounds={rounds} connections_lost={lost} blocks_let_pass={let_pass} scheduled={len(load.ledger.schedules)} deliveries={len(load.ledger.deliveries)} status={status} "
          f"complaints={complaints[:5]} unsettled={unsettled}")
    shutil.rmtree(directory, ignore_errors=True)
    sys.exit(1 if status != 0 or complaints or unsettled or let_pass > 3 * lost else 0)


if __name__ == "__main__":
    main()
