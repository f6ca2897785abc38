/* source.h: source of the past: a data directory without a running broker (--data DIR), or a running broker (the
 * default). Both give one sequence of frames, the oldest first, without frames that cannot match. Gaps are reported
 * on standard error.
 *
 * All code that filters, counts or prints uses this interface, so that both sources give the same output. */
#ifndef TARRY_TOOL_SOURCE_H
#define TARRY_TOOL_SOURCE_H

#include "arena.h"
#include "args.h"
#include "directory.h"
#include "entry.h"
#include "frame.h"
#include "queue_map.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

struct history;

struct source {
    struct tool *tool;
    struct store *store; /* the open directory; its `message` has the error message, even if a broker is the source */
    struct store own;
    bool is_live;
    bool is_marked; /* the warning that a follower answered was printed */
    bool follow; /* running broker: the source continues with new records, and begins with them unless `from_ms` is set
                  */
    /* Function that is called before the source waits for new records; NULL: none. */
    void (*idle)(void *argument);
    void *idle_argument;
    struct queue_map queues; /* known names */
    /* the sequence that is being read */
    struct history *history;
    tarry_audit *audit;
    struct frame_header header;
    struct arena arena;
    uint64_t start;  /* log position of the first frame that is read */
    uint64_t unread; /* number of archive parts that exist but cannot be read */
    int code;        /* running broker: error code that ended the sequence of frames; TARRY_OK: no error */
};

/* Opens --data DIR [--archive DIR], or else the broker. `follow`: continues after the end of the log, and waits for a
 * lost broker. Returns 0, or an exit status after an error message; then nothing is open. */
int source_open(struct source *source, struct tool *tool, const struct args *args, bool follow);

/* Reads the next frame and its body; both are valid until the next call. The body is NULL for a seal, a frame without
 * records. Returns 0, SOURCE_END, or an exit status after an error message in store->message. */
#define SOURCE_END (-1)
int source_next(struct source *source, const struct frame_header **out_header, const Tarry__FrameBody **out_body);

/* Ends a command: prints `out` and the error message, if any, and closes. Returns the exit status. */
int source_finish(struct source *source, struct text *out, int status);

/* ---- reads the records of the past that pass a filter */

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
