/* replay.h: tarry replay: its options and its two modes. */
#ifndef TARRY_TOOL_REPLAY_H
#define TARRY_TOOL_REPLAY_H

#include "args.h"
#include "directory.h"
#include "tool.h"

struct replay_options {
    const struct args *args; /* the command line with --queue, --map and --set */
    uint64_t from_ms;
    uint64_t to_ms;         /* end of the time range, exclusive; 0: no end */
    uint64_t from_position; /* log position at which the replay begins; 0: at the beginning */
    double speed;           /* speed factor; 0: replay without waiting */
    bool settle;            /* true: also consume and settle the target's deliveries */
    bool policies;
    bool missing_as_empty; /* true: a task whose content is lost is scheduled with an empty body */
};

/* Each of these functions prints its result and returns an exit status. `store` is open. */
int replay_into(struct tool *tool, const struct replay_options *options, struct store *store);
int replay_dry(struct tool *tool, const struct replay_options *options, struct store *store);

#endif
