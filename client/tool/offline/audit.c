/* audit.c: tarry audit: what the log says, record by record. */
#include <stdlib.h>
#include <string.h>

#include "asof.h"
#include "output.h"
#include "scan.h"
#include "tails.h"
#include "totals.h"

#define PAGE_BYTES (256u << 10)

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"data", ARG_VALUE, "DIR", "the data directory of a broker that is not running,\ninstead of the broker"},
    STORE_ARCHIVE_OPTION,
    OPTIONS_FRESH,
    {"quarantined", ARG_VALUE, "TAIL", "read a tail that was cut off instead of its log; 'tarry verify' lists them"},
    SCAN_OPTIONS,
    {"limit", ARG_VALUE, "N", "at most N records, or tasks"},
    {"follow", ARG_FLAG, NULL, "go on with what happens, as it happens; without --from\nonly that"},
    {"summary", ARG_FLAG, NULL, "in numbers: per queue what happened how often, lateness, busiest seconds"},
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
    .text =
        "Prints the records of the log, the oldest first: what happened to which task, when by the broker's clock,\n"
        "by whose commit (client, producer, sequence), who held it, and the due time before and after. Reads as\n"
        "far back as segments are kept, in the log or in the archive (tarryd --retain-archive-age,\n"
        "--retain-archive-size), and changes nothing. What is missing in between is said on standard error. Each\n"
        "frame is checked by its sums; 'tarry verify' checks the whole.\n\n"
        "With --quarantined it tells what a tail says that a node of a pair cut off and put aside when it came back\n"
        "(its leader had never had it): what was decided there, and never confirmed by both.\n\n"
        "With --follow it ends at --limit or a signal, with exit status 0; a broker that goes away is waited for,\n"
        "as long as --timeout says.\n\n"
        "With --as-of T: what was pending, ready, in flight and dead at T, as counts per queue, as a list, or as a\n"
        "data directory that 'tarryd --inspect' opens. The log is replayed from its beginning, archive included, or\n"
        "on top of the index for what it does not have yet; if neither reaches to T, that is said, and nothing else.\n"
        "T is the broker's clock, as in every record; ready is what was due at T; EXPIRED counts tasks whose time\n"
        "was over before the broker had come across them. The index made on the way lies in $TMPDIR, or /tmp.\n\n"
        "With --summary the records that the filters let through are counted: by queue and kind, how late tasks were\n"
        "delivered (after their due time; what came back from an earlier lease is left out), and which seconds saw\n"
        "the most records. With --json a line per queue, and one over everything whose queue is null.",
    .options = options,
    .positional_min = 0,
    .positional_max = 0,
    .positional_names = "",
    .examples =
        "tarry audit --follow --queue close-order\n"
        "tarry audit --data /var/lib/tarry/main --queue close-order --key order-1001\n"
        "tarry audit --data /var/lib/tarry/main --kind dead,expired --from 2026-11-21T00:00:00Z --json\n"
        "tarry audit --data /var/lib/tarry/main --summary --from 2026-11-20T00:00:00Z --to 2026-11-21T00:00:00Z\n"
        "tarry audit --data /var/lib/tarry/main --as-of 2026-11-21T03:00:00Z\n"
        "tarry audit --data /var/lib/tarry/main --as-of 2026-11-21T03:00:00Z --list --state in_flight\n"
        "tarry audit --data /var/lib/tarry/main --as-of 2026-11-21T03:00:00Z --into /tmp/then",
    .run = run,
};

struct printing {
    struct tool *tool;
    struct text out;
    uint64_t left; /* of --limit */
    bool follow;
};

static int print(void *argument, const struct entry *entry) {
    struct printing *printing = argument;
    if (printing->tool->json)
        entry_json(&printing->out, entry);
    else
        entry_words(&printing->out, entry, true);
    if (printing->out.size >= PAGE_BYTES) output_write(&printing->out, printing->follow);
    return --printing->left == 0 || output_lost();
}

/* Nothing more is there: what was told is seen. */
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

static int run(struct tool *tool, const struct args *args) {
    struct scan_filter filter = {0};
    struct printing printing = {.tool = tool, .left = UINT64_MAX, .follow = args_has(args, "follow")};
    struct source source;
    bool follow = printing.follow;
    bool as_of = args_has(args, "as-of") || args_has(args, "as-of-position");
    if (follow && as_of) return tool_usage(args, "--follow tells what happens, --as-of what was so: one of them");
    if (as_of && args_has(args, "summary"))
        return tool_usage(args, "--summary counts what happened, --as-of what was so: one of them");
    if (as_of && args_has(args, "quarantined"))
        return tool_usage(args,
                          "--quarantined tells what a tail that was cut off says, record by record: leave --as-of");
    if (as_of) return asof_run(tool, args);
    if (args_has(args, "list") || args_has(args, "into") || args_has(args, "state"))
        return tool_usage(args, "--list, --state and --into go with --as-of T");
    if (follow && args_has(args, "data"))
        return tool_usage(args, "--follow asks a running broker: nothing happens in a directory of --data");
    if (args_has(args, "quarantined") && (!args_has(args, "data") || args_has(args, "archive")))
        return tool_usage(args, "--quarantined goes with --data, which it lies in, and has no archive");
    if (follow && args_has(args, "to")) return tool_usage(args, "--follow has no end: leave --to");
    int status = scan_options(args, &filter);
    if (status == 0) status = option_number(args, "limit", 1, UINT64_MAX, &printing.left);
    if (status == 0 && args_has(args, "summary") && (follow || args_has(args, "limit")))
        status = tool_usage(args, "--summary counts all that the filters let through: leave --limit and --follow");
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
