/* asof.h: tarry audit --as-of: tasks that were pending, in flight and dead at an earlier time: counts, a list, or a
 * directory that tarryd can open. storage/history/as_of.h defines such a time, and when it can be answered. */
#ifndef TARRY_TOOL_ASOF_H
#define TARRY_TOOL_ASOF_H

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

#endif
