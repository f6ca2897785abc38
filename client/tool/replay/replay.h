/* replay.h: tarry replay: what the command line asks for, and the two ways of doing it. */
#ifndef TARRY_TOOL_REPLAY_H
#define TARRY_TOOL_REPLAY_H

#include "args.h"
#include "store.h"
#include "tool.h"

struct replay_options {
    const struct args *args; /* --queue, --map, --set */
    uint64_t from_ms;
    uint64_t to_ms;         /* exclusive; 0: no end */
    uint64_t from_position; /* frames before it are not replayed; 0: all are */
    double speed;           /* how many times as fast; 0: as fast as the broker takes it */
    bool settle;            /* acks and the like too, as a consumer */
    bool policies;
    bool missing_as_empty; /* a task whose content is gone is scheduled without one */
};

/* Each: an exit status, after what there is to say. `store` is open. */
int replay_into(struct tool *tool, const struct replay_options *options, struct store *store);
int replay_dry(struct tool *tool, const struct replay_options *options, struct store *store);

#endif
