/* eraser.h: carries out redactions in limited slices, on the index thread. It overwrites contents with zeros in the
 * log, in the archive and in quarantined tails. For contents in the index, it destroys their encryption keys. Then it
 * removes the redaction from the index's table. The engine decides the order (engine/erasure.h). */
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
    struct disk *disk; /* the log's disk */
    struct log *log;
    struct index *index;
    struct archivist *archivist;
    const struct retirement *retirement;
};

/* Redactions per slice. Even with 1 MiB contents, a slice takes less than 100 ms. */
#define ERASER_SLICE_COUNT 64

struct eraser {
    struct eraser_needs needs;
    struct erasure erasure;
    struct arena arena;
    Tarry__Redaction **slice; /* redactions being erased; in the arena or in `left` */
    size_t slice_count;
    Tarry__FrameBody *left; /* redactions from pending_erasures.h; NULL: none */
    size_t left_done;       /* count of records of `left` that are done */
};

void eraser_init(struct eraser *eraser, const struct eraser_needs *needs);
void eraser_deinit(struct eraser *eraser);
/* Returns how long the thread may sleep; 0: there is something to erase. */
uint64_t eraser_wait_ns(const struct eraser *eraser);
/* Erases one slice. Returns 1 if there may be more, 0 if nothing can be done now, and -ENOSPC if the index has no space
 * now (retry later). Any other failure ends the process (LOG-4). */
int eraser_step(struct eraser *eraser);

#endif
