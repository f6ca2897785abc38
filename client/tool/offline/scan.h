/* scan.h: reads the records of the past that pass a filter. */
#ifndef TARRY_TOOL_SCAN_H
#define TARRY_TOOL_SCAN_H

#include "args.h"
#include "entry.h"
#include "source.h"

struct scan_filter { /* conditions that a record must match, all of them */
    uint64_t from_ms;
    uint64_t to_ms; /* end of the time range, exclusive; 0: no end */
    uint64_t kinds; /* selected kinds as bits 1 << enum entry_kind; 0: all */
    const char *queue;
    const char *key; /* key of the task; needs `queue`; NULL: any key */
    const char *prefix;
    uint64_t id;
    uint64_t producer;
    uint64_t session;
};

/* Reads all records, the oldest first, and calls `each` for those that pass the filter. A non-zero result of `each`
 * stops the scan and is returned. Otherwise returns 0, or EXIT_REFUSED after an error message in source->store. Shows a
 * progress bar on a terminal. */
int scan_source(struct source *source, const struct scan_filter *filter,
                int (*each)(void *argument, const struct entry *entry), void *argument);
/* Like scan_source, for a data directory. The store's log must be open. */
int scan(struct store *store, const struct scan_filter *filter, int (*each)(void *argument, const struct entry *entry),
         void *argument);

/* Parses --from, --to, --kind, --queue, --key, --prefix, --id, --producer and --session. 0, or EXIT_USAGE after an
 * error message. */
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
