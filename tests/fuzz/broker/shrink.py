"""shrink.py: makes a trace smaller while the broker still ends in the same way (trace.h describes traces).

First the data of each connection is split into WebSocket frames. Then fewer and fewer connections are tried, the last active ones
first, and then fewer and fewer frames.
"""
import struct
import time

STEP = struct.Struct("<BII")
OPEN, SAY, HEARD, CLOSE, PASS = b"OSHCP"


def read(path):
    """Returns [(kind, connection, number, bytes)] without an incomplete last step."""
    steps, at = [], 0
    with open(path, "rb") as file:
        data = file.read()
    while at + STEP.size <= len(data):
        kind, connection, number = STEP.unpack_from(data, at)
        at += STEP.size
        said = data[at:at + number] if kind == SAY else b""
        at += len(said)
        steps.append((kind, connection, len(said) if kind == SAY else number, said))
    return steps


def write(steps, path):
    with open(path, "wb") as file:
        for kind, connection, number, said in steps:
            file.write(STEP.pack(kind, connection, number) + said)


def first_frame(said):
    """Returns the size of the upgrade request or frame at the beginning of `said`, or None if it is incomplete."""
    if said.startswith(b"GET "):
        end = said.find(b"\r\n\r\n")
        return None if end < 0 else end + 4
    if len(said) < 2:
        return None
    size, head = said[1] & 0x7F, 2
    if size == 126:
        size, head = int.from_bytes(said[2:4], "big"), 4
    elif size == 127:
        size, head = int.from_bytes(said[2:10], "big"), 10
    size += head + (4 if said[1] & 0x80 else 0)
    return size if size <= len(said) else None


def split(steps):
    """Splits the data into one step for each frame, where the frame became complete."""
    pieces, pending = [], {}
    for kind, connection, number, said in steps:
        if kind == CLOSE and pending.get(connection):
            pieces.append((SAY, connection, len(pending[connection]), pending.pop(connection)))
        if kind != SAY:
            pieces.append((kind, connection, number, said))
            continue
        rest = pending.get(connection, b"") + said
        while rest and (size := first_frame(rest)):
            pieces.append((SAY, connection, size, rest[:size]))
            rest = rest[size:]
        pending[connection] = rest
    return pieces + [(SAY, connection, len(rest), rest) for connection, rest in pending.items() if rest]


def fewer(items, holds, until):
    """Returns a small part of `items` for which `holds` is still true (delta debugging)."""
    count = 2
    while len(items) > 1 and time.monotonic() < until:
        size = max(1, len(items) // count)
        for at in range(len(items) - size, -1, -size):
            rest = items[:at] + items[at + size:]
            if time.monotonic() < until and rest and holds(rest):
                items, count = rest, max(count - 1, 2)
                break
        else:
            if size == 1:
                break
            count = min(count * 2, len(items))
    return items


def shrink(steps, fails, limit_s):
    """Returns the fewest steps found for which `fails(steps)` still returns True."""
    until = time.monotonic() + limit_s
    steps = split(steps)
    order = list(dict.fromkeys(step[1] for step in reversed(steps) if step[0] != PASS))  # begins with the connection that sent last

    def of(connections):
        return [step for step in steps if step[0] == PASS or step[1] in connections]

    count = 1
    while count < len(order) and time.monotonic() < until and not fails(of(set(order[:count]))):
        count *= 2
    connections = fewer(order[:count], lambda some: fails(of(set(some))), until)
    steps = of(set(connections))

    def with_only(some):
        """Returns the steps, but only those frames and clock jumps whose numbers are in `some`."""
        return [step for n, step in enumerate(steps) if step[0] not in (SAY, PASS) or n in some]

    kept = fewer([n for n, step in enumerate(steps) if step[0] in (SAY, PASS)], lambda some: fails(with_only(set(some))), until)
    return with_only(set(kept))
