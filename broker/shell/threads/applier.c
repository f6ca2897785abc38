/* applier.c: see applier.h. */
#include "applier.h"

#include <errno.h>
#include <inttypes.h>

#include "core.h"
#include "fatal.h"
#include "log.h"
#include "logfmt.h"
#include "node.h"
#include "wire.h"

#define FRAMES_PER_STEP 64
#define BYTES_PER_STEP (1u << 20)

void applier_init(struct applier *applier, struct core *core, struct log *log, struct node *node) {
    *applier = (struct applier){.core = core, .node = node};
    fatal_arena_init(&applier->arena);
    int error = log_cursor_open(&applier->cursor, log, core_position(core), false);
    if (error != 0) fatal("apply_failed", error);
}

/* Reads the next frame. Returns false if there is none yet. */
static bool read_one(struct applier *applier, uint64_t to) {
    struct log_view view;
    int error = log_cursor_next(applier->cursor, to, &view);
    if (error == LOG_END) return false;
    if (error != 0) fatal("apply_failed", error);
    applier->header = view.header;
    applier->body = frame_body_unpack(&applier->arena, view.header.body_size, view.body);
    if (applier->body == NULL) fatal("apply_failed", LOG_DAMAGED);
    return true;
}

/* Applies the next frame. Returns false if there is none yet, or if it does not fit into memory until the index has
 * absorbed more. */
static bool apply_one(struct applier *applier, uint64_t to) {
    struct core *core = applier->core;
    if (applier->body == NULL && !read_one(applier, to)) return false;
    int error = core_replay(core, &applier->header, applier->body);
    if (error == CORE_NO_MEMORY && core_may_free(core)) return false;
    if (error == CORE_NO_MEMORY)
        logfmt("apply_failed",
               "position=%" PRIu64 " reason=\"the tasks in flight do not fit into the broker's memory: start with a "
               "larger --memory, equal to that of the other node\"",
               applier->header.position);
    if (error != 0) fatal("apply_failed", error == CORE_NONSENSE ? LOG_DAMAGED : -ENOMEM);
    applier->body = NULL;
    arena_reset(&applier->arena);
    node_applied(applier->node, core_position(core), core_digest(core));
    return true;
}

bool applier_step(struct applier *applier, uint64_t to) {
    struct core *core = applier->core;
    uint64_t from = core_position(core);
    for (int i = 0; i < FRAMES_PER_STEP && core_position(core) - from < BYTES_PER_STEP; i++) {
        if (core_position(core) >= to || !core_may_replay(core)) return false;
        if (!apply_one(applier, to)) return false;
    }
    return true;
}

void applier_end(struct applier *applier) {
    log_cursor_close(applier->cursor);
    arena_deinit(&applier->arena);
    *applier = (struct applier){0};
}
