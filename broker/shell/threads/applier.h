/* applier.h: on a follower, applies the frames of the leader's log to the core, up to a given position. Core thread
 * only. */
#ifndef TARRY_SHELL_APPLIER_H
#define TARRY_SHELL_APPLIER_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "frame.h"
#include "tarry.pb-c.h"

struct core;
struct log;
struct node;
struct log_cursor;

struct applier {
    struct core *core;
    struct node *node;
    struct log_cursor *cursor;
    struct arena arena; /* memory of the frame that is being applied */
    struct frame_header header;
    Tarry__FrameBody *body; /* body of a frame that was read but does not fit into memory yet; NULL: none */
};

/* Initializes the applier at the core's position. */
void applier_init(struct applier *applier, struct core *core, struct log *log, struct node *node);
/* Applies a limited number of frames that end at or below `to`. Returns false if all are applied, or if the core's
 * memory is full until the index has absorbed more. Damage ends the process. */
bool applier_step(struct applier *applier, uint64_t to);
/* Ends the applier: from here on this node decides. */
void applier_end(struct applier *applier);

#endif
