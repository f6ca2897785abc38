/* audit.c: tarry audit: what the log says, record by record. */
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "scan.h"

#define PAGE_BYTES (256u << 10)

static int run(struct tool *tool, const struct args *args);

static const struct arg_spec options[] = {
    {"data", ARG_VALUE, "DIR", "the data directory of a broker that is not running"},
    SCAN_OPTIONS,
    {"limit", ARG_VALUE, "N", "at most N records"},
    {0},
};

const struct command command_audit = {
    .name = "audit",
    .usage = "--data DIR [--from T] [--to T] [--kind KINDS] [--queue QUEUE [--key KEY | --prefix P]] [--id ID]\n"
             "--data DIR [--producer N] [--session N] [--limit N]",
    .summary = "what happened: the log, record by record",
    .text =
        "Prints the records of the log, the oldest first: what happened to which task, when by the broker's clock,\n"
        "by whose commit (client, producer, sequence), who held it, and the due time before and after. Reads as\n"
        "far back as segments are kept (tarryd --retain-log-age, --retain-log-size) and changes nothing. Each\n"
        "frame is checked by its sums; 'tarry verify' checks the whole.",
    .options = options,
    .positional_min = 0,
    .positional_max = 0,
    .positional_names = "",
    .examples = "tarry audit --data /var/lib/tarry --queue close-order --key order-1001\n"
                "tarry audit --data /var/lib/tarry --kind dead,expired --from 2026-11-21T00:00:00Z --json",
    .run = run,
};

struct printing {
    struct tool *tool;
    struct text out;
    uint64_t left; /* of --limit */
};

static int print(void *argument, const struct entry *entry) {
    struct printing *printing = argument;
    if (printing->tool->json)
        entry_json(&printing->out, entry);
    else
        entry_words(&printing->out, entry, true);
    if (printing->out.size >= PAGE_BYTES) output_write(&printing->out, false);
    return --printing->left == 0 || output_lost();
}

static int run(struct tool *tool, const struct args *args) {
    struct scan_filter filter = {0};
    struct printing printing = {.tool = tool, .left = UINT64_MAX};
    struct store store;
    int status = scan_options(args, &filter);
    if (status == 0) status = option_number(args, "limit", 1, UINT64_MAX, &printing.left);
    if (status == 0) status = store_open(&store, args);
    if (status != 0) return status;
    scan(&store, &filter, print, &printing);
    return store_finish(&store, &printing.out, store.message[0] != 0 ? EXIT_REFUSED : EXIT_FINE);
}
