/* applier.h: applies to the core what another node of the pair has decided, frame by frame, as far as it is told to.
 * Core thread only. */
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
    struct arena arena; /* the frame's body */
    struct frame_header header;
    Tarry__FrameBody *body; /* a frame that was read and waits for memory; NULL: none */
};

/* From the core's position on. */
void applier_init(struct applier *applier, struct core *core, struct log *log, struct node *node);
/* Applies what ends at or below `to`, a bounded number of frames. False: all, or memory is short, until the index has
 * absorbed more. Damage ends the process. */
bool applier_step(struct applier *applier, uint64_t to);
/* The core decides for itself from here on. */
void applier_end(struct applier *applier);

#endif
