"""report.py: the text of the speed table: lines with a figure, the best peer's, the ratio, the goal, met or not; for people and
for machines."""
import json
import os
import statistics

ROWS = ("S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10")
# Limit of the check "flat": the median of the last third of the steady part may be at most this multiple of the median
# of the first third.
FLAT_RATIO = 1.10
LATENESS_FLAT_RATIO, LATENESS_FLAT_SLACK = 1.5, 2.0  # limit of the check for the p99 of lateness: this multiple of the first third, or this many ms more, because one sync of a busy disk is no growth


def line(row, name, tarry, unit, *, theirs=None, peer="", ratio_min=None, ratio_max=None, limit_max=None, limit_min=None, wanted=None, met=None):
    """Returns one line of the table, as in the JSON. The goal is a ratio to the best peer (ratio_…), or an absolute limit
    (limit_…). If `met` is given, it decides whether the goal is met. `theirs` is None if no peer can be compared.
    """
    ratio = tarry / theirs if theirs and tarry is not None else None
    if ratio_min is not None:
        wanted, met = f"≥ {ratio_min:g} ×", None if ratio is None else ratio >= ratio_min
    elif ratio_max is not None:
        wanted, met = f"≤ {ratio_max:g} ×", None if ratio is None else ratio <= ratio_max
    elif limit_max is not None:
        wanted, met = f"≤ {limit_max:g} {unit}".rstrip(), tarry <= limit_max
    elif limit_min is not None:
        wanted, met = f"≥ {limit_min:g} {unit}".rstrip(), tarry >= limit_min
    return {"row": row, "name": name, "tarry": tarry, "unit": unit, "peer": peer, "theirs": theirs, "ratio": ratio, "wanted": wanted or "", "met": met}


def best(figures, is_least=False):
    """Returns (name, figure) of the best of {name: figure}; ("", None) if there is none."""
    if not figures:
        return "", None
    return (min if is_least else max)(figures.items(), key=lambda item: item[1])


def is_flat(samples, ratio_max=FLAT_RATIO, slack=0.0):
    """Returns (whether it is flat, median of the first third, of the last third)."""
    if len(samples) < 6:
        return False, 0.0, 0.0
    third = len(samples) // 3
    first, last = statistics.median(samples[:third]), statistics.median(samples[-third:])
    return last <= max(first * ratio_max, first + slack), first, last


def number(value):
    """Formats three significant digits: 1234567.8 → '1,234,568', 0.1234 → '0.12', 12.34 → '12.3'."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def cells(item):
    theirs = f"{item['peer']} {number(item['theirs'])}" if item["theirs"] is not None else "–"
    ratio = f"{number(item['ratio'])} ×" if item["ratio"] is not None else "–"
    verdict = {True: "met", False: "NOT MET", None: "–"}[item["met"]]
    return [item["row"], item["name"], f"{number(item['tarry'])} {item['unit']}".rstrip(), theirs, ratio, item["wanted"] or "–", verdict]


HEAD = ["", "", "Tarry", "best durable peer", "ratio", "reach", ""]


def lines_of(result):
    """Returns all lines, in the order S1 … S10, whatever was measured first."""
    return [item for row in ROWS if row in result["rows"] for item in result["rows"][row]["lines"]]


def table(result):
    """Returns the table as text for a terminal."""
    rows = [HEAD] + [cells(item) for item in lines_of(result)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def markdown(result):
    """For bench/README.md."""
    rows = [cells(item) for item in lines_of(result)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [HEAD, ["---"] * len(HEAD), *rows])


def about(result):
    machine, floor = result["machine"], result.get("floor", {})
    said = [f"{machine['cores']} cores ({machine['cpu']}), {machine['memory_gib']} GiB, {machine['file_system']}, {machine['system']}, Linux {machine['kernel']}"]
    if floor:
        said.append(f"the disk alone: 4 KiB written and synced in {floor['sync_p50_us']:.0f} µs (p99 {floor['sync_p99_us']:.0f}, p99.9 {floor['sync_p999_us']:.0f}), "
                    f"{floor['disk_mb_per_s']:.0f} MB/s; the socket alone: to and fro {floor['turn_p50_us']:.1f} µs, {floor['socket_mb_per_s']:.0f} MB/s")
    if result.get("peers"):
        said.append("the others: " + ", ".join(result["peers"]))
    for row in ROWS:
        if row in result["rows"]:
            one = result["rows"][row]
            said.append(f"{row}: at {one['commit']}, {one['date']}, {one['took_s']:.0f} s, load average before it {one['load']:.1f}, the disk's sync {one.get('sync_p50_us', 0):.0f} µs (p99.9 {one.get('sync_p999_us', 0):.0f})")
    return said


def limits(result):
    """Returns how far each figure is from the machine's limits."""
    return [f"{row}: {sentence}" for row in ROWS if row in result["rows"] for sentence in result["rows"][row].get("limits", [])]


def of_all_cores(cost):
    """Returns how many operations per second all cores could execute, if they executed only these operations."""
    cpu_us = cost["broker_us"] + cost["client_us"]
    return os.cpu_count() * 1e6 / cpu_us if cpu_us else 0.0


def threads(cost):
    return "the broker's threads, µs: " + ", ".join(f"{name} {us:.2f}" for name, us in cost["thread_us"].items())


def distance(cost, floor, rate):
    """Returns, for a load, how busy cores, disk and socket are; and the rate that the cores allow."""
    said = (f"cores {cost['cores_busy']:.0%} busy: {cost['broker_us']:.1f} µs of the broker and {cost['client_us']:.1f} of the clients for each "
            f"(all cores on it alone: {number(of_all_cores(cost))}/s; measured {number(rate)}/s)")
    said += "; " + threads(cost) if cost.get("thread_us") else ""
    said += f"; disk {cost['disk_bytes']:.0f} bytes for each, {cost['disk_mb_per_s']:.0f} MB/s"
    said += f" ({cost['disk_mb_per_s'] / floor['disk_mb_per_s']:.0%} of it)" if floor.get("disk_mb_per_s") else ""
    said += f"; socket {cost['socket_bytes']:.0f} bytes for each, {cost['socket_mb_per_s']:.0f} MB/s"
    return said + (f" ({cost['socket_mb_per_s'] / floor['socket_mb_per_s']:.0%} of it)" if floor.get("socket_mb_per_s") else "")


def load(path):
    """Returns {} if the file does not exist."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def save(path, result):
    """Writes the whole file, or leaves it as it was."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, ensure_ascii=False)
        file.write("\n")
    os.replace(path + ".new", path)


def merge(old, new):
    """Returns `old` with its rows replaced by the rows of `new`. Each row keeps its own commit and date."""
    return {**old, **new, "rows": {**old.get("rows", {}), **new.get("rows", {})}}
