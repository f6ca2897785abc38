/* scan.h: the past, record by record, those that a filter lets through. */
#ifndef TARRY_TOOL_SCAN_H
#define TARRY_TOOL_SCAN_H

#include "args.h"
#include "entry.h"
#include "source.h"

struct scan_filter { /* all that are given must hold */
    uint64_t from_ms;
    uint64_t to_ms; /* exclusive; 0: no end */
    uint64_t kinds; /* bits 1 << enum entry_kind; 0: all */
    const char *queue;
    const char *key; /* NULL: any; needs `queue` */
    const char *prefix;
    uint64_t id;
    uint64_t producer;
    uint64_t session;
};

/* Reads every record from the oldest on and calls `each` with those that pass; non-zero stops, and is returned.
 * Otherwise 0, or EXIT_REFUSED after a sentence in the source's store->message. A bar is shown on a terminal. */
int scan_source(struct source *source, const struct scan_filter *filter,
                int (*each)(void *argument, const struct entry *entry), void *argument);
/* Of a data directory alone. The store's log must be open. */
int scan(struct store *store, const struct scan_filter *filter, int (*each)(void *argument, const struct entry *entry),
         void *argument);

/* --from, --to, --kind, --queue, --key, --prefix, --id, --producer, --session. 0, or EXIT_USAGE after a sentence. */
int scan_options(const struct args *args, struct scan_filter *out);
#define SCAN_OPTIONS                                                                                                   \
    {"from", ARG_VALUE, "T", "only records at T or later: RFC 3339, or Unix ms"},                                      \
        {"to", ARG_VALUE, "T", "only records before T"},                                                               \
        {"kind", ARG_VALUE, "KINDS", "kinds of records: scheduled,moved,leased,acked,cancelled,… (`kind` in JSON)"},   \
        {"queue", ARG_VALUE, "QUEUE", "only records of this queue"},                                                   \
        {"key", ARG_VALUE, "KEY", "with --queue: only records of this key"},                                           \
        {"prefix", ARG_VALUE, "P", "with --queue: only records of keys that start with P"},                            \
        {"id", ARG_VALUE, "ID", "only records of this task"},                                                          \
        {"producer", ARG_VALUE, "N", "only commits of this producer"}, {                                               \
        "session", ARG_VALUE, "N", "only records of this session, or of tasks that it holds or held last"              \
    }

#endif
