/* asof.h: tarry audit --as-of: tasks that were pending, in flight and dead at an earlier time: counts, a list, or a
 * directory that tarryd can open. storage/history/as_of.h defines such a time, and when it can be answered. */
#ifndef TARRY_TOOL_ASOF_H
#define TARRY_TOOL_ASOF_H

#include "as_of.h"
#include "directory.h"
#include "progress.h"
#include "tarry_limits.h"
#include "tool.h"

/* Runs the command if --as-of or --as-of-position was given. */
int asof_run(struct tool *tool, const struct args *args);
#define ASOF_OPTIONS                                                                                                   \
    {"as-of", ARG_VALUE, "T", "print what was pending, in flight and dead at T; counts per queue"},                    \
        {"as-of-position", ARG_VALUE, "N", "same, for the log below position N"},                                      \
        {"list", ARG_FLAG, NULL, "with --as-of: print the tasks instead of counts, as 'tarry list' did then"},         \
        {"state", ARG_VALUE, "STATES", "with --list: states, any of pending,ready,in_flight,dead [all but dead]"}, {   \
        "into", ARG_VALUE, "NEWDIR", "with --as-of: make a data directory as of T, for tarryd --inspect"               \
    }

/* ---- between asof*.c */
struct asof_queue {
    char *name; /* NULL: no queue has this place */
    uint32_t number;
    bool paused;
    uint64_t paused_until_ms;
};

struct asof {
    struct tool *tool;
    const struct args *args;
    struct store store;
    struct as_of_source source;
    struct as_of_question question;
    struct as_of moment;
    struct progress progress;
    /* Queues at the requested time, by their place in the broker's table of queues. */
    struct asof_queue queues[QUEUE_PLACES + 1];
    const char *queue; /* queue of --queue; NULL: all queues */
    const char *prefix;
    uint32_t states; /* selected states: bits of enum tarry_state */
    uint64_t limit;
};

/* Prints counts or tasks. 0, or EXIT_REFUSED after an error message in store.message. */
int asof_list(struct asof *asof, struct text *out);
/* Makes the directory of --into; also calls asof_find. */
int asof_into(struct asof *asof, const char *directory, struct text *out);

/* Restores the state of the requested time, with its queues, into `directory`. */
int asof_find(struct asof *asof, const char *directory, bool is_lasting);
/* Stores an error message for an error of as_of.h; returns EXIT_REFUSED. */
int asof_failed(struct asof *asof, int error);
/* Appends the requested time and position: "2026-11-21T…, log position 4711". */
void asof_words(const struct asof *asof, struct text *out);
bool asof_is_wanted(const struct asof *asof, uint32_t place);

#endif
