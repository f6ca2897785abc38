"""plots.py: draws the curves of a result as SVG, with gnuplot: throughput, latency, lateness, memory and restart against the
number of pending tasks, and row S9 over time. Each contains machine and commit."""
import os
import shutil
import subprocess

import report

# File → (title, unit, [(key of a point, label)]).
AGAINST_PENDING = {
    "throughput": ("durable schedules a second, caught up", "1/s", [("per_s", "")]),
    "latency": ("one blocking call", "µs", [("call_p50_us", "p50"), ("call_p99_us", "p99")]),
    "lateness": ("lateness at 10,000/s, each acked durably", "ms", [("late_p50_ms", "p50"), ("late_p99_ms", "p99")]),
    "memory": ("resident memory", "MiB", [("rss_mib", "")]),
    "restart": ("kill -9 to the first delivery", "s", [("restart_s", "")]),
}
OVER_TIME = {"steady-memory": ("resident memory", "MiB", "rss_mib"), "steady-disk": ("data directory", "MiB", "disk_mib"), "steady-lateness": ("lateness, p99", "ms", "late_p99_ms")}
HEAD = """set terminal svg size 800,500 dynamic background rgb 'white' font 'sans,12'
set output '{output}'
set title "{title}\\n{{/*0.7 {about}}}" noenhanced
set ylabel '{unit}' noenhanced
set grid
set key outside bottom center horizontal noenhanced
"""


def about(result, row):
    machine = result["machine"]
    return f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['file_system']}; {result['rows'][row]['commit']}, {result['rows'][row]['date']}"


def head(output, title, unit, said):
    """gnuplot's own markup is off for text from the machine, so the second line is plain."""
    return HEAD.format(output=output, title=title, about=said, unit=unit).replace("{/*0.7 ", "").replace("}\" noenhanced", "\" noenhanced")


def curves(row, keys):
    """Returns [(title, [(x, y)])] for every system whose points have one of the figures `keys`."""
    found = []
    for name, points in row.get("curves", {}).items():
        for key, called in keys:
            pairs = sorted((point["pending"], point[key]) for point in points if point.get(key) is not None)
            if pairs:
                found.append((f"{name} {called}".strip(), pairs))
    return found


def drawn(found):
    """Returns data blocks and the plot command; a 0 cannot be drawn on a logarithmic axis."""
    blocks, words = [], []
    for number, (title, pairs) in enumerate(found):
        blocks.append(f"$data{number} << EOD\n" + "\n".join(f"{x:g} {max(y, 0.001):g}" for x, y in pairs) + "\nEOD\n")
        words.append(f"$data{number} using 1:2 with linespoints linewidth 2 title '{title}'")
    return "".join(blocks) + "plot " + ", \\\n     ".join(words) + "\n"


def scripts(result):
    """Returns {name: gnuplot's input} for everything measured."""
    made, rows = {}, result["rows"]
    for name, (title, unit, keys) in AGAINST_PENDING.items() if "S7" in rows else ():
        found = curves(rows["S7"], keys)
        if found:
            made[name] = (head(name + ".svg", title, unit, about(result, "S7")) + "set logscale xy\nset format x '10^{%T}'\nset xlabel 'pending tasks'\n" + drawn(found))
    steady = rows.get("S9", {}).get("samples", {})
    series = steady.get("series", [])
    for name, (title, unit, key) in OVER_TIME.items() if len(series) > 1 else ():
        pairs = [(one["at_s"] / 60, one[key]) for one in series]
        made[name] = head(name + ".svg", title + f" at {steady['rate']:,}/s in and out", unit, about(result, "S9")) + "set xlabel 'minutes'\nset yrange [0:*]\n" + drawn([("tarry", pairs)])
    return made


def draw(result, directory):
    """Returns the files' names; without gnuplot only the scripts."""
    os.makedirs(directory, exist_ok=True)
    files = []
    for name, script in scripts(result).items():
        with open(os.path.join(directory, name + ".gp"), "w", encoding="utf-8") as file:
            file.write(script)
        files.append(name + ".gp")
        if shutil.which("gnuplot"):
            subprocess.run(["gnuplot", name + ".gp"], cwd=directory, check=True)
            os.remove(os.path.join(directory, name + ".gp"))
            files[-1] = name + ".svg"
    return files


def links(files):
    """Returns Markdown links to the plots, for bench/README.md."""
    return "\n".join(f"![{name.rsplit('.', 1)[0]}]({name})" for name in files)


def table_of(result):
    """Returns the figures as text, one row per size."""
    points = result["rows"].get("S7", {}).get("curves", {}).get("tarry", [])
    keys = [key for _, _, several in AGAINST_PENDING.values() for key, _ in several]
    lines = ["| pending | " + " | ".join(keys) + " |", "| " + " | ".join(["---"] * (len(keys) + 1)) + " |"]
    lines += [f"| {point['pending']:,} | " + " | ".join(report.number(point.get(key)) for key in keys) + " |" for point in sorted(points, key=lambda point: point["pending"])]
    return "\n".join(lines)
