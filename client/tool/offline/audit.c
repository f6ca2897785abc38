/* audit.c: tarry history and tarry audit: print the log, record by record. */
#include <stdlib.h>
#include <string.h>

#include "asof.h"
#include "entry_words.h"
#include "frames.h"
#include "json_map.h"
#include "output.h"
#include "source.h"
#include "totals.h"

/* ---- tarry history: the life of a task, from the log. A key may have had several tasks, one after another */

static int run_history(struct tool *tool, const struct args *args);

static const struct arg_spec history_options[] = {
    {"data", ARG_VALUE, "DIR", "data directory of a broker that is not running, to read instead of a broker"},
    STORE_ARCHIVE_OPTION,
    OPTIONS_FRESH,
    {"id", ARG_VALUE, "ID", "id of the task, instead of QUEUE and KEY"},
    {0},
};

const struct command command_history = {
    .name = "history",
    .usage = "[--data DIR [--archive DIR]] QUEUE KEY\n[--data DIR [--archive DIR]] --id ID",
    .summary = "print the life of a task, from the log",
    .text = "Prints all that the log says about a task, or about every task that had the key: when it was\n"
            "scheduled, moved, delivered and settled, by whom, and how it ended. It reads all segments that the\n"
            "log and the archive still have (tarryd --retain-archive-age, --retain-archive-size). The exit\n"
            "status is 1 if they do not contain the task.",
    .options = history_options,
    .positional_min = 0,
    .positional_max = 2,
    .examples = "tarry history close-order order-1001\n"
                "tarry history --data /var/lib/tarry/main close-order order-1001\n"
                "tarry history --data /var/lib/tarry/main --id 4711 --json",
    .run = run_history,
};

struct telling {
    struct tool *tool;
    struct text out;
    uint64_t task; /* id of the task whose record was printed last */
    uint64_t count;
};

static int tell(void *argument, const struct entry *entry) {
    struct telling *telling = argument;
    uint64_t id = entry_id(entry, NULL);
    telling->count++;
    if (telling->tool->json) {
        json_entry(&telling->out, entry);
        return 0;
    }
    if (id != telling->task)
        text_printf(&telling->out, "%stask %llu of %s\n", telling->task != 0 ? "\n" : "", (unsigned long long)id,
                    entry->queue != NULL ? entry->queue : "a queue whose name the log no longer has");
    telling->task = id;
    entry_words(&telling->out, entry, false);
    return 0;
}

static int run_history(struct tool *tool, const struct args *args) {
    struct tarry_ref ref;
    struct telling telling = {.tool = tool};
    struct source source;
    int status = option_ref(args, &ref);
    if (status == 0) status = source_open(&source, tool, args, false);
    if (status != 0) return status;
    struct scan_filter filter = {.id = ref.id, .queue = ref.queue, .key = ref.key};
    status = scan_source(&source, &filter, tell, &telling);
    if (status == 0 && telling.count == 0) status = store_damaged(source.store, "the log has no such task");
    return source_finish(&source, &telling.out, status);
}

/* ---- tarry audit: prints the log, record by record */

#define PAGE_BYTES (256u << 10)

static int run_audit(struct tool *tool, const struct args *args);

static const struct arg_spec audit_options[] = {
    {"data", ARG_VALUE, "DIR", "data directory of a broker that is not running, to read instead of a broker"},
    STORE_ARCHIVE_OPTION,
    OPTIONS_FRESH,
    {"quarantined", ARG_VALUE, "TAIL", "quarantined tail to read instead of the log; 'tarry verify' lists them"},
    SCAN_OPTIONS,
    {"limit", ARG_VALUE, "N", "maximum number of records, or tasks [no limit]"},
    {"follow", ARG_FLAG, NULL, "print new records as they are written; without --from, only new ones"},
    {"summary", ARG_FLAG, NULL, "print numbers: records per queue and kind, lateness, busiest seconds"},
    ASOF_OPTIONS,
    {0},
};

const struct command command_audit = {
    .name = "audit",
    .usage = "[--data DIR [--archive DIR | --quarantined TAIL] | --follow] [--from T] [--to T] [--kind KINDS] "
             "[--producer N]\n"
             "… [--queue QUEUE [--key KEY | --prefix P]] [--id ID] [--session N] [--limit N | --summary]\n"
             "--data DIR (--as-of T | --as-of-position N) [--list [--state STATES] [--prefix P] [--limit N]] [--queue "
             "QUEUE]\n"
             "--data DIR (--as-of T | --as-of-position N) --into NEWDIR",
    .summary = "print the log, record by record",
    .text = "Prints the records of the log, the oldest first: what happened to which task, at which time of the\n"
            "broker's clock, by whose commit (client, producer, sequence), which consumer had the task, and the\n"
            "due time before and after. It reads all segments that the log and the archive still have (tarryd\n"
            "--retain-archive-age, --retain-archive-size), and changes nothing. It reports gaps in between on\n"
            "standard error. It checks the checksums of each frame; 'tarry verify' checks the whole log.\n\n"
            "--quarantined reads a tail that a node of a pair cut off and put aside when it came back, because\n"
            "its leader did not have it: records that were written there, and never confirmed by both nodes.\n\n"
            "--follow ends at --limit or at a signal, with exit status 0. While the broker does not answer, it\n"
            "retries without end, unless --timeout is given.\n\n"
            "--as-of T shows what was pending, ready, in flight and dead at T: as counts per queue, as a list,\n"
            "or as a data directory for 'tarryd --inspect'. The command replays the log from its beginning,\n"
            "archive included, or starts from the index and replays what the index does not have yet. If\n"
            "neither reaches T, the command only says so. T is the time of the broker's clock, as in each\n"
            "record. A task that was due at T is ready. EXPIRED counts tasks that had expired before the broker\n"
            "noticed it. The command keeps a temporary index in $TMPDIR, or in /tmp.\n\n"
            "--summary counts the records that pass the filters: records by queue and kind, how late tasks were\n"
            "delivered (after their due time; not those that came back from an earlier lease), and the seconds\n"
            "with the most records. --json prints one line for each queue, and one for all queues, whose queue\n"
            "is null.",
    .options = audit_options,
    .positional_min = 0,
    .positional_max = 0,
    .examples =
        "tarry audit --follow --queue close-order\n"
        "tarry audit --data /var/lib/tarry/main --queue close-order --key order-1001\n"
        "tarry audit --data /var/lib/tarry/main --kind dead,expired --from 2026-11-21T00:00:00Z --json\n"
        "tarry audit --data /var/lib/tarry/main --summary --from 2026-11-20T00:00:00Z --to 2026-11-21T00:00:00Z\n"
        "tarry audit --data /var/lib/tarry/main --as-of 2026-11-21T03:00:00Z\n"
        "tarry audit --data /var/lib/tarry/main --as-of 2026-11-21T03:00:00Z --list --state in_flight\n"
        "tarry audit --data /var/lib/tarry/main --as-of 2026-11-21T03:00:00Z --into /tmp/then",
    .run = run_audit,
};

struct printing {
    struct tool *tool;
    struct text out;
    uint64_t left; /* number of records that --limit still allows */
    bool follow;
};

static int print(void *argument, const struct entry *entry) {
    struct printing *printing = argument;
    if (printing->tool->json)
        json_entry(&printing->out, entry);
    else
        entry_words(&printing->out, entry, true);
    if (printing->out.size >= PAGE_BYTES) output_write(&printing->out, printing->follow);
    return --printing->left == 0 || output_lost();
}

/* Flushes the output before the source waits for new records. */
static void idle(void *argument) {
    struct printing *printing = argument;
    output_write(&printing->out, true);
}

static int count(void *argument, const struct entry *entry) {
    totals_take(argument, entry);
    return 0;
}

static int summarize(struct tool *tool, struct source *source, const struct scan_filter *filter) {
    struct totals *totals = totals_new();
    struct text out = {0};
    scan_source(source, filter, count, totals);
    if (tool->json)
        totals_json(totals, &out);
    else
        totals_words(totals, &out);
    totals_free(totals);
    return source_finish(source, &out, source->store->message[0] != 0 ? EXIT_REFUSED : EXIT_FINE);
}

static int run_audit(struct tool *tool, const struct args *args) {
    struct scan_filter filter = {0};
    struct printing printing = {.tool = tool, .left = UINT64_MAX, .follow = args_has(args, "follow")};
    struct source source;
    bool follow = printing.follow;
    bool as_of = args_has(args, "as-of") || args_has(args, "as-of-position");
    if (follow && as_of) return tool_usage(args, "--follow and --as-of exclude each other");
    if (as_of && args_has(args, "summary")) return tool_usage(args, "--summary and --as-of exclude each other");
    if (as_of && args_has(args, "quarantined"))
        return tool_usage(args, "--quarantined prints the records of a cut-off tail: omit --as-of");
    if (as_of) return asof_run(tool, args);
    if (args_has(args, "list") || args_has(args, "into") || args_has(args, "state"))
        return tool_usage(args, "--list, --state and --into need --as-of T");
    if (follow && args_has(args, "data")) return tool_usage(args, "--follow needs a running broker: omit --data");
    if (args_has(args, "quarantined") && (!args_has(args, "data") || args_has(args, "archive")))
        return tool_usage(args, "--quarantined needs --data DIR, and excludes --archive");
    if (follow && args_has(args, "to")) return tool_usage(args, "--follow has no end: omit --to");
    int status = scan_options(args, &filter);
    if (status == 0) status = option_number(args, "limit", 1, UINT64_MAX, &printing.left);
    if (status == 0 && args_has(args, "summary") && (follow || args_has(args, "limit")))
        status =
            tool_usage(args, "--summary excludes --limit and --follow: it counts all records that pass the filters");
    if (status == 0) status = source_open(&source, tool, args, follow);
    if (status != 0) return status;
    if (args_has(args, "quarantined") && tails_enter(source.store, args_get(args, "quarantined")) != 0)
        return source_finish(&source, &printing.out, EXIT_REFUSED);
    if (args_has(args, "summary")) return summarize(tool, &source, &filter);
    source.idle = idle;
    source.idle_argument = &printing;
    scan_source(&source, &filter, print, &printing);
    return source_finish(&source, &printing.out, source.store->message[0] != 0 ? EXIT_REFUSED : EXIT_FINE);
}
