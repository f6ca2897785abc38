"""includes.py: checks which folder may include which (DESIGN.md section 3, The house), that there are no cycles between
folders, and few between files. The build makes most wrong includes fail. This check explains them, and finds those that the
build cannot see: a path that leaves its folder, an example that uses more than the public header, a core that uses the
system.
"""
import os
import re

import lint

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

SHELL_ROOMS = tuple(f"broker/shell/{room}/" for room in ("process", "queues", "pair", "jobs", "threads", "door"))
# This check applies to the product only, because tests are not part of its structure.
PRODUCT = ("common/", "proto/", "transport/", "storage/", "broker/", "client/")
# Number of files in include cycles. x.c and x.h count as one file, named x. x_parts.h and x_y.c of the same folder also
# belong to file x. Lower the number when a cycle is removed.
FILE_CIRCLES_MAX = 2

# Prefix of a file's path → prefixes of the headers that the file may include. If several prefixes match a file, the
# longest one counts.
ALLOWED = {
    "common/": ("common/",),
    "proto/": ("proto/", "common/"),
    # The WebSocket connection of a client: of libtarry, and of a node of a pair.
    "transport/": ("transport/", "proto/", "common/"),
    # Small files of a data directory, the log, the index, the history: each folder may include those before it.
    "storage/": ("storage/", "proto/", "common/"),
    "storage/files/": ("storage/files/", "proto/", "common/"),
    "storage/log/": ("storage/log/", "storage/files/", "proto/", "common/"),
    "storage/index/": ("storage/index/", "storage/files/", "proto/", "common/"),
    "storage/history/": ("storage/history/", "storage/index/", "storage/log/", "storage/files/", "proto/", "common/"),
    # Calendars. The core decides by calendars, so calendar code must be pure. Exception: it reads a time zone's file
    # once.
    "broker/recur/": ("broker/recur/", "proto/tarry_limits."),
    "broker/core/": ("broker/core/", "broker/recur/", "proto/", "common/"),
    # Decisions around the core: this folder uses the log's and the index's types, and executes nothing.
    "broker/engine/": ("broker/engine/", "broker/core/", "storage/", "proto/", "common/"),
    "broker/pair/": ("broker/pair/",),
    "broker/access/": ("broker/access/", "proto/", "common/"),
    # Both halves of a pair decide, and do no I/O: of the storage they use only hard state and identity.
    "broker/replication/": ("broker/replication/", "broker/pair/", "storage/files/hard_state.", "storage/files/identity.", "proto/", "common/"),
    "broker/coordinator/": ("broker/coordinator/", "broker/curl/", "broker/pair/", "storage/", "proto/", "common/"),
    "broker/curl/": ("broker/curl/",),
    "broker/page/": ("broker/page/",),
    "broker/net/": ("broker/net/", "proto/tarry_limits.", "proto/check.", "proto/sp_frame.", "proto/ws_frame.", "proto/ws_handshake."),
    "broker/peer/": ("broker/peer/", "broker/net/listen.", "broker/net/message.", "broker/net/tls.", "transport/", "proto/", "common/"),
    # Foreign protocols use the door. They use each other's code only through the gateway. From the rest of the broker
    # they use only the messages of proto/.
    "broker/gateway/": ("broker/gateway/", "broker/net/", "proto/", "common/"),
    "broker/beanstalk/": ("broker/beanstalk/", "broker/gateway/gateway.h", "broker/net/", "proto/", "common/"),
    "broker/amqp/": ("broker/amqp/", "broker/gateway/gateway.h", "broker/net/", "proto/", "common/"),
    "broker/http/": ("broker/http/", "broker/gateway/gateway.h", "broker/net/", "proto/", "common/"),
    # Webhooks use only the gateway, like a protocol.
    "broker/push/": ("broker/push/", "broker/curl/", "broker/gateway/gateway.h", "proto/", "common/"),
    # The folders of the shell, from bottom to top. Each may include those before it, and none includes shell.h.
    "broker/shell/process/": (*SHELL_ROOMS[:1], "broker/core/", "broker/engine/", "broker/net/", "broker/pair/", "broker/push/", "broker/coordinator/", "storage/", "proto/", "common/"),
    "broker/shell/queues/": (*SHELL_ROOMS[:2], "broker/core/", "broker/engine/", "broker/access/", "broker/net/", "proto/", "common/"),
    "broker/shell/pair/": (*SHELL_ROOMS[:3], "broker/core/", "broker/engine/", "broker/net/", "broker/pair/", "broker/peer/", "broker/replication/", "broker/coordinator/", "storage/", "proto/", "common/"),
    "broker/shell/jobs/": (*SHELL_ROOMS[:4], "broker/core/", "broker/engine/", "storage/", "proto/", "common/"),
    "broker/shell/threads/": (*SHELL_ROOMS[:5], "broker/core/", "broker/engine/", "broker/net/", "broker/push/", "storage/", "proto/", "common/"),
    "broker/shell/door/": (*SHELL_ROOMS, "broker/access/", "broker/amqp/amqp.h", "broker/beanstalk/", "broker/core/", "broker/engine/", "broker/gateway/", "broker/net/", "broker/page/", "broker/push/", "storage/", "proto/", "common/"),
    "broker/shell/": ("broker/shell/", "broker/amqp/", "broker/beanstalk/", "broker/core/", "broker/engine/", "broker/gateway/", "broker/http/", "broker/net/", "broker/push/", "storage/", "proto/", "common/"),
    "client/include/": ("client/include/",),
    "client/lib/": ("client/lib/", "client/include/", "transport/", "proto/", "common/"),
    "client/tool/": ("client/tool/", "client/include/", "proto/", "common/"),
    "client/tool/amqp/": ("client/tool/", "broker/amqp/amqp_codec.", "broker/amqp/amqp_topology.", "transport/place.", "client/include/", "proto/", "common/"),
    "client/tool/doctor/": ("client/tool/", "broker/access/token_file.", "client/include/", "storage/files/identity.", "proto/", "common/"),
    # The tool writes the file of tokens and the broker reads it, so both use the same parser.
    "client/tool/cmd_token.": ("client/tool/", "broker/access/token_file.", "client/include/", "proto/", "common/"),
    "client/tool/token_store.": ("client/tool/", "broker/access/token_file.", "client/include/", "proto/", "common/"),
    "client/tool/offline/": ("client/tool/", "client/include/", "storage/", "proto/", "common/"),
    # A dry run asks the real core what would have happened. The core is a pure function of its events, and only the
    # core can prove that.
    "client/tool/replay/": ("client/tool/", "client/include/", "broker/core/core.h", "broker/engine/core_turn.h", "storage/", "proto/", "common/"),
    "client/examples/": ("client/examples/", "client/include/"),
    "client/examples/nng_consumer.": ("proto/tarry.pb-c.h",),  # the example is a client that uses only the messages of the protocol
    # The pure parts of the clock and of the leader's clock, stalls, the pair's rules and their wire format, and the
    # client of the record.
    "tests/sim/": ("tests/", "broker/core/", "broker/engine/", "broker/pair/", "broker/replication/", "broker/coordinator/",
                   "broker/shell/process/clock.", "broker/shell/process/last_shutdown.",
                   "broker/shell/pair/follow_wire.", "broker/shell/pair/record_client.", "broker/shell/pair/leader_clock.", "storage/", "proto/", "common/"),
    "tests/e2e/": ("tests/e2e/", "client/include/"),
    "tests/e2e/forge_index.": ("storage/", "proto/", "common/"),  # the test makes an index that looks right but is wrong, which needs the index's own functions
    "tests/e2e/foreign.": ("proto/", "common/",),  # the test's client uses only the messages of the protocol
    "tests/crash/": ("tests/crash/", "client/include/"),
    "tests/": ("tests/", "broker/", "storage/", "transport/", "proto/", "common/", "client/"),
    "bench/": ("bench/", "broker/core/", "storage/", "proto/", "common/"),  # micro-benchmarks; the end-to-end ones use only the public interface
    "bench/bench.": ("bench/", "client/include/"),
    "bench/schedule": ("bench/", "client/include/"),
    "bench/latency": ("bench/", "client/include/"),
    "bench/lateness": ("bench/", "client/include/"),
    "bench/drain": ("bench/", "client/include/"),
    "bench/http.": ("bench/", "client/include/"),
    "bench/flow.": ("bench/", "client/include/"),
    "bench/ledger": ("bench/", "client/include/"),
    "bench/orders": ("bench/", "client/include/"),
    "bench/first": ("bench/", "client/include/"),
    "bench/floor": ("bench/", "client/include/"),
    "bench/peer/": ("bench/", "client/include/"),
}

# System headers that a folder must not use: the core has no I/O, no clock, no threads; proto has no I/O, no threads.
FORBIDDEN_SYSTEM = {
    "broker/access/": ("pthread.h", "threads.h", "time.h", "sys/", "unistd.h", "fcntl.h", "poll.h", "signal.h", "nng/", "lmdb.h"),
    "broker/engine/": ("pthread.h", "threads.h", "time.h", "sys/", "unistd.h", "fcntl.h", "poll.h", "signal.h", "nng/", "lmdb.h",
                       "stdlib.h", "stdio.h"),
    "broker/pair/": ("pthread.h", "threads.h", "time.h", "sys/", "unistd.h", "fcntl.h", "poll.h", "signal.h", "nng/", "lmdb.h",
                     "stdlib.h", "stdio.h"),
    "broker/replication/": ("pthread.h", "threads.h", "time.h", "sys/", "unistd.h", "fcntl.h", "poll.h", "signal.h", "nng/", "lmdb.h",
                            "stdlib.h", "stdio.h"),
    "broker/core/": ("pthread.h", "threads.h", "time.h", "sys/", "unistd.h", "fcntl.h", "poll.h", "signal.h", "nng/", "lmdb.h",
                     "sodium.h"),
    "common/": ("pthread.h", "threads.h", "sys/", "unistd.h", "fcntl.h", "poll.h", "nng/", "lmdb.h"),
    "proto/": ("pthread.h", "threads.h", "sys/", "unistd.h", "fcntl.h", "poll.h", "nng/", "lmdb.h"),
    # proto/json may use pthread.h: it makes the map of all messages at the first use, and pthread_once guards that.
    "proto/json/": ("threads.h", "sys/", "unistd.h", "fcntl.h", "poll.h", "nng/", "lmdb.h"),
    "broker/": ("nng/",),  # tarryd uses no nng
    "broker/shell/": ("nng/",),
    "storage/": ("nng/",),
    "transport/": ("nng/",),
    "client/lib/": ("nng/",),  # only the tests' foreign client uses nng
    "client/include/": ("nng/", "protobuf-c/", "lmdb.h"),
    "client/examples/": ("nng/", "protobuf-c/", "lmdb.h"),
    "client/examples/nng_consumer.": ("lmdb.h",),
}
ALLOWED_SYSTEM = ("sys/mman.h", "sys/queue.h")  # system headers that every folder may include: sys/mman.h for memory that is reserved at the start, sys/queue.h for linked lists
GENERATED_HEADERS = {"tarry.pb-c.h": "proto/tarry.pb-c.h"}


def longest_rule(rules, path):
    matching = [prefix for prefix in rules if path.startswith(prefix)]
    return max(matching, key=len) if matching else None


def complaint_about(path, bracket, included, headers):
    forbidden = longest_rule(FORBIDDEN_SYSTEM, path)
    if bracket == "<":
        if forbidden and included.startswith(FORBIDDEN_SYSTEM[forbidden]) and included not in ALLOWED_SYSTEM:
            return f"{forbidden} must not include <{included}>"
        return None
    if ".." in included and not path.startswith("tests/"):
        return f'"{included}" climbs out of its folder'
    rule = longest_rule(ALLOWED, path)
    if rule is None:
        return "no include rule for this folder: add it to includes.py and DESIGN.md"
    targets = headers.get(os.path.basename(included), [])
    if not targets:
        return f'"{included}" is no header of ours: write <{included}>'
    beside = [t for t in targets if os.path.dirname(t) == os.path.dirname(path)]
    reachable = beside or targets  # if two headers have the same name, the build finds the one in the folder that the file may use
    if not any(target.startswith(ALLOWED[rule]) for target in reachable):
        return f'{rule} must not include "{included}" ({reachable[0]})'
    return None


def circles(graph):
    """Returns the strongly connected components of {node: set of nodes} with more than one node (Tarjan), each sorted."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in order:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            part = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(part) > 1:
                found.append(sorted(part))

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return sorted(found)


def whole_of(path, stems):
    """Returns the unit that a file belongs to: x for x.h, and x also for x_parts.h if x.c or x.h is beside it."""
    folder, stem = os.path.dirname(path), os.path.splitext(os.path.basename(path))[0]
    pieces = stem.split("_")
    for count in range(1, len(pieces)):
        if os.path.join(folder, "_".join(pieces[:count])) in stems:
            stem = "_".join(pieces[:count])
            break
    return os.path.join(folder, stem)


def complaints_about_circles(arrows):
    """`arrows`: pairs of a file and a header that it includes."""
    stems = {os.path.splitext(path)[0] for arrow in arrows for path in arrow}
    folders, files = {}, {}
    for path, header in arrows:
        if os.path.dirname(path) != os.path.dirname(header):
            folders.setdefault(os.path.dirname(path), set()).add(os.path.dirname(header))
        if whole_of(path, stems) != whole_of(header, stems):
            files.setdefault(whole_of(path, stems), set()).add(whole_of(header, stems))
    complaints = [f"folders need each other: {', '.join(circle)}" for circle in circles(folders)]
    of_files = circles(files)
    if len(of_files) > FILE_CIRCLES_MAX:
        complaints += [f"files need each other ({len(of_files)} circles, {FILE_CIRCLES_MAX} at most): {', '.join(circle)}" for circle in of_files]
    return complaints


def check(root, _build):
    headers = {name: [path] for name, path in GENERATED_HEADERS.items()}
    for path in lint.our_files(root, (".h", ".def")):
        headers.setdefault(os.path.basename(path), []).append(path)
    complaints, arrows = [], []
    for path in lint.our_files(root, (".c", ".h")):
        for number, line in enumerate(lint.read_lines(root, path), 1):
            match = INCLUDE.match(line)
            complaint = match and complaint_about(path, match.group(1), match.group(2), headers)
            if complaint:
                complaints.append(f"{path}:{number}: {complaint}")
            if match and match.group(1) == '"' and path.startswith(PRODUCT):
                targets = headers.get(os.path.basename(match.group(2)), [])
                beside = [t for t in targets if os.path.dirname(t) == os.path.dirname(path)]
                arrows += [(path, target) for target in (beside or targets)[:1]]
    return complaints + complaints_about_circles(arrows)


if __name__ == "__main__":
    lint.main("includes", check)
