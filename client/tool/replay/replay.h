/* replay.h: tarry replay: its options and its two modes. */
#ifndef TARRY_TOOL_REPLAY_H
#define TARRY_TOOL_REPLAY_H

#include "args.h"
#include "store.h"
#include "tool.h"

struct replay_options {
    const struct args *args; /* --queue, --map, --set */
    uint64_t from_ms;
    uint64_t to_ms;         /* exclusive; 0: no end */
    uint64_t from_position; /* frames before it are skipped; 0: none */
    double speed;           /* speed factor; 0: without waiting */
    bool settle;            /* also settle deliveries, as a consumer */
    bool policies;
    bool missing_as_empty; /* schedule a task whose content is lost with an empty body */
};

/* Each prints its result and returns an exit status. `store` is open. */
int replay_into(struct tool *tool, const struct replay_options *options, struct store *store);
int replay_dry(struct tool *tool, const struct replay_options *options, struct store *store);

#endif
