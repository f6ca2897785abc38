/* eraser.h: carries out redactions in bounded slices, on the index thread: contents become zeros in the log, in the
 * archive and in tails that were put aside, keys of those that the index held are destroyed, and the redaction leaves
 * the index's table. The engine says what is done when (engine/erasure.h); this executes it. */
#ifndef TARRY_SHELL_ERASER_H
#define TARRY_SHELL_ERASER_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "erasure.h"
#include "tarry.pb-c.h"

struct archivist;
struct config;
struct datadir;
struct disk;
struct index;
struct log;
struct retirement;

struct eraser_needs {
    const struct config *config;
    const struct datadir *dir;
    struct disk *disk; /* the log's */
    struct log *log;
    struct index *index;
    struct archivist *archivist;
    const struct retirement *retirement;
};

/* Redactions per slice: contents of a MiB each still take less than a tenth of a second. */
#define ERASER_SLICE_COUNT 64

struct eraser {
    struct eraser_needs needs;
    struct erasure erasure;
    struct arena arena;
    Tarry__Redaction **slice; /* that is being erased, in the arena, or in `left` */
    size_t slice_count;
    Tarry__FrameBody *left; /* of pending_erasures.h; NULL: nothing */
    size_t left_done;       /* of its records */
};

void eraser_init(struct eraser *eraser, const struct eraser_needs *needs);
void eraser_deinit(struct eraser *eraser);
/* How long the thread may sleep on its account; 0: there is something to erase. */
uint64_t eraser_wait_ns(const struct eraser *eraser);
/* One slice. 1: there may be more; 0: nothing to do (now); -ENOSPC: no room for the index just now, to be tried again.
 * Any other failure ends the process (LOG-4). */
int eraser_step(struct eraser *eraser);

/* ---- eraser_tails.c */
/* What these mean in the tails of DIR/quarantine (storage/log/quarantine.h). False: one of them cannot be read or
 * written just now, which is said. */
bool eraser_in_tails(struct eraser *eraser, Tarry__Redaction *const *redactions, size_t count);

#endif
