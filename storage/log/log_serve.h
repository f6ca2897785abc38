/* log_serve.h: reads frames of the log for another log to copy (log_copy.h), and finds the common part of two logs.
 *
 * No two frames have the same (epoch, position), and each frame has the chain hash of all frames before it. So two logs
 * with the same chain hash at a position are equal up to that position, except contents that were erased in one of
 * them.
 *
 * Any number of threads at the same time. LOG_RETIRED and LOG_DAMAGED as in log.h. */
#ifndef TARRY_STORAGE_LOG_SERVE_H
#define TARRY_STORAGE_LOG_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include "log.h"

/* State of a log at a position where a frame ends. */
struct log_point {
    uint64_t position;
    /* Epoch of the last frame before `position`; 0: no frame; the times and the chain are also those of this frame. */
    uint32_t epoch;
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint8_t chain[FRAME_CHAIN_SIZE];
};

/* Finds the point at `position`: the chain hash, epoch and times of the frame that ends there. `position` may lie from
 * log_start to the end of the written frames. Recent points are cached; otherwise the call reads the headers of one
 * segment, tens of milliseconds at worst.
 *
 * Returns 0; LOG_WITHIN: no frame ends at `position`; LOG_RETIRED: `position` is below log_start; LOG_END: nothing is
 * written at `position` yet. */
int log_point(struct log *log, uint64_t position, struct log_point *out);

/* Frames, byte for byte as in the log. Zeroed: empty. */
struct log_bytes {
    uint8_t *data; /* owned */
    size_t size;
    size_t room;
    size_t frames;
    struct log_point end; /* the point at the end of the last frame */
};
void log_bytes_deinit(struct log_bytes *bytes);

/* Reads whole frames from `position` on, where a frame must start. The frames end at or below `limit` (UINT64_MAX: all
 * written frames, durable or not) and lie in one segment. Reads at most `size_max` bytes, or one larger frame of at
 * most FRAME_SIZE_MAX bytes. Checks their checksums; the receiver checks that they continue its log. Replaces the
 * content of `out`. 0; LOG_END: no such frame yet. */
int log_serve(struct log *log, uint64_t position, uint64_t limit, size_t size_max, struct log_bytes *out);

/* An epoch and the position of its first frame. */
struct log_epoch {
    uint32_t epoch;
    uint64_t start;
};
/* The epochs of a log, oldest first. */
struct log_epochs {
    /* Owned; the first item starts at log_start, because the first frames of its epoch may be retired. */
    struct log_epoch *items;
    size_t count; /* number of epochs; 0: the log never had a frame */
    uint64_t start;
    uint64_t end;
};
int log_epochs_read(struct log *log, struct log_epochs *out);
void log_epochs_deinit(struct log_epochs *epochs);

/* Returns the greatest position up to which the two logs may be equal: the end of the last epoch that both have
 * (KIP-101). Without a common epoch, returns the greater of the two start positions, but at most the smaller of the two
 * end positions.
 *
 * The caller must first compare the chain hashes at that position. They differ if one log was damaged, or if an
 * operator forced two leaders under one epoch. A position below the start of either log means that the common part was
 * retired. */
uint64_t log_epochs_common(const struct log_epochs *a, const struct log_epochs *b);

#endif
