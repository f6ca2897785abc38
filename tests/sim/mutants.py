#!/usr/bin/env python3
"""Breaks the core on purpose, one defect at a time, and sees whether the simulator notices.

    python3 tests/sim/mutants.py BUILD_DIR [--histories N] [--only WORD]

BUILD_DIR is a configured meson build directory (for tarry.pb-c and the proto library). Each mutant is a copy of
broker/core with one piece of text replaced. Prints a table: defect, caught or not, at which history. Exits 1 if any
survives, or if the text to replace is not there exactly once (the table must follow the code)."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORE = ROOT / "broker" / "core"
HERE = ROOT / "tests" / "sim"

# (promise, defect, file, text, replacement)
MUTANTS = [
    ("TIME-1", "ready one millisecond early", "near.c",
     "if (task->row.due_ms <= base_ms(core, task->row.base))",
     "if (task->row.due_ms <= base_ms(core, task->row.base) + 1)"),
    ("TIME-1", "the receipt is rounded down", "task_view.c",
     "*out_due_ms = round_up_ms(d->core->now.steady_ns) + delay_ms;",
     "*out_due_ms = d->core->now.steady_ns / 1000000 + delay_ms;"),
    ("LOG-1", "a reply waits for nothing", "reply.c", ".after = core->position", ".after = 0"),
    ("LOG-1", "a delivery leaves before its lease is durable", "deliver.c",
     ".lane = session->lane,\n        .after = core->position,\n        .tasks = batch.tasks",
     ".lane = session->lane,\n        .after = 0,\n        .tasks = batch.tasks"),
    ("LOG-2", "a changed task carries a wrong hash of what it replaces", "draft.c",
     "put->before_hash = before->hash;", "put->before_hash = before->hash + 1;"),
    ("LOG-3", "trimmed without regard to facts under way", "near.c",
     "if (core->holds[i] && core->holds[i] < limit) limit = core->holds[i];", ""),
    ("LOG-3", "a tombstone goes too early", "near.c",
     "if (!task || task->changed >= core->trim_to) break;",
     "if (!task || (task->changed >= core->trim_to && task->place != PLACE_ENDED)) break;"),
    ("facts", "a row that was read wins over memory", "draft.c",
     "if (entry_of(draft, row->id) || task_find(draft->core, row->id)) continue; /* memory wins */",
     "if (entry_of(draft, row->id)) continue;"),
    ("facts", "a loaded task is taken although memory knows it better", "window.c",
     "if (task_find(core, row->id)) continue; /* what is in memory is at least as new */", ""),
    ("window", "the horizon moves, what lies behind it stays far", "window.c",
     "    promote_far(core, line);\n", ""),
    ("window", "a stale window is taken", "window.c",
     "bool is_stale = due_before(line->horizon, line->load_after);", "bool is_stale = false;"),
    ("ONCE-1", "a repeated commit is executed again", "commit.c",
     "if (position) { /* ONCE-1: never executed again */", "if (position && false) {"),
    ("ONCE-1", "sequences below the floor are executed", "commit.c",
     "if (!producer || commit->sequence < producer->floor) {", "if (!producer) {"),
    ("TRUE-1", "refusals of an aborted commit are not asked again", "commit.c",
     "if (result->code != TARRY__CODE__OK) decide_alone(core, event, facts, i, result, effects);", ""),
    ("TRUE-1", "unsent is assumed of what has left", "sessions.c",
     "    } else if (event->ok) {", "    } else if (!event->ok) {"),
    ("FENCE-1", "any token of the epoch will do", "decide_settle.c",
     "        token->position == out->row.lease_position) {", "        true) {"),
    ("KEEP-1", "an atomic commit takes effect in part", "commit.c",
     "        draft_init(&draft, core, effects->arena, NULL, 0);\n", ""),
    ("KEEP-1", "a job goes on after a task ended", "jobs.c",
     "if (task && task->place == PLACE_ENDED) return false;", ""),
    ("key", "a dead task holds its key", "decide_schedule.c",
     "if (resolve(d, &ref, &holder) == RESOLVED_LIVE) {", "if (resolve(d, &ref, &holder) != RESOLVED_ENDED) {"),
    ("key", "requeue onto a live key", "decide_settle.c",
     "        holder.row.state != ROW_BURIED) {\n        describe", "        false) {\n        describe"),
    ("attempts", "a lost lease costs nothing", "task_view.c",
     "if (!attempts_max || out->attempt < attempts_max) return why;", "return why;"),
    ("attempts", "a release costs an attempt", "task_view.c",
     "    out->attempt--; /* given back unseen: costs no attempt */\n", ""),
    ("expiry", "an expired task is delivered", "deliver.c",
     "        if (is_expired(core, &task->row)) {", "        if (false) {"),
    ("pause", "a paused queue is served", "near.c",
     "queue->ready_mask && queue->subscription_count && !queue->paused;",
     "queue->ready_mask && queue->subscription_count;"),
    ("claim", "leases of before a restart are never given back", "sessions.c",
     "if (core->sessions[i].state == SESSION_UNCLAIMED) session_gone", "if (false) session_gone"),
    ("move", "a moved task keeps its old due time in memory", "tasks.c",
     "    task->row = *row;\n    task->row.key = task->key;\n    task->row.reason = reason;",
     "    uint64_t due_ms = task->row.due_ms;\n    task->row = *row;\n    task->row.due_ms = due_ms;\n"
     "    task->row.key = task->key;\n    task->row.reason = reason;"),
]


def squeeze(text):
    """Whitespace does not count, so that the formatter may break lines as it likes."""
    return re.compile(r"\s*".join(re.escape(word) for word in text.split()))


def build(source, build_dir, out):
    shell = ROOT / "broker" / "shell"
    include = [source, ROOT / "proto", build_dir / "proto", ROOT / "storage", HERE, HERE.parent, shell]
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-w", *(f"-I{folder}" for folder in include)]
    # The rig's own includes name core headers without a path: the mutant's folder comes first.
    rig = [*map(str, sorted(HERE.glob("*.c"))), str(shell / "clock.c")]
    rig = [name for name in rig if not re.search(r"/(story|bugs)_\w+\.c$", name)]
    libraries = [build_dir / "storage" / "libtarry_storage.a", build_dir / "proto" / "libtarry_proto.a",
                 build_dir / "proto" / "libtarry_pb.a"]
    command = ["cc", *flags, *map(str, sorted(source.glob("*.c"))), *rig, *map(str, libraries),
               "-llmdb", "-lprotobuf-c", "-lsodium", "-lxxhash", "-lpthread", "-o", str(out)]
    subprocess.run(command, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build_dir", type=pathlib.Path)
    parser.add_argument("--histories", type=int, default=5000)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    survived = 0
    for promise, defect, name, old, new in MUTANTS:
        if options.only not in f"{promise} {defect}":
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "core"
            shutil.copytree(CORE, source)
            text = (source / name).read_text()
            pattern = squeeze(old)
            if len(pattern.findall(text)) != 1:
                print(f"{promise:8} {defect}: the text is not in {name} exactly once")
                survived += 1
                continue
            (source / name).write_text(pattern.sub(lambda _: new, text))
            program = pathlib.Path(folder) / "sim"
            build(source, options.build_dir, program)
            command = [program, "--jobs", "1", "--histories", str(options.histories)]
            run = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
            seeds = re.findall(r"^seed (\d+) failed", run.stderr, re.M)
            caught = run.returncode != 0
            survived += not caught
            how = f"caught at history {seeds[-1]}" if caught and seeds else "SURVIVED"
            print(f"{promise:8} {defect}: {how}", flush=True)
    print(f"{len(MUTANTS)} mutants, {survived} not caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
