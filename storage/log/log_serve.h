/* log_serve.h: the log's frames as they are, for another log to take over (log_copy.h), and what two logs compare to
 * find out how far they are the same.
 *
 * Frames are never written twice at one (epoch, position), and each carries the hash of all before it. So two logs with
 * the same chain hash at a position are the same up to there, but for contents that were erased in one of them.
 *
 * Thread-safety: any thread, any number at the same time; LOG_RETIRED and LOG_DAMAGED as in log.h. */
#ifndef TARRY_STORAGE_LOG_SERVE_H
#define TARRY_STORAGE_LOG_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include "log.h"

/* What a log says of everything before a position at which a frame ends. */
struct log_point {
    uint64_t position;
    uint32_t epoch; /* of the last frame before; 0: there is none. Likewise the times and the chain */
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint8_t chain[FRAME_CHAIN_SIZE];
};

/* The point at `position`, from log_start to the end of what is written (log_write). 0; LOG_WITHIN: no frame ends
 * there; LOG_RETIRED; LOG_END: nothing is written there yet. What was found or served lately is remembered; otherwise
 * the headers of one segment are read: tens of milliseconds at worst. */
int log_point(struct log *log, uint64_t position, struct log_point *out);

/* Frames, byte for byte as in the log. Begin with zeros. */
struct log_bytes {
    uint8_t *data; /* owned */
    size_t size;
    size_t room;
    size_t frames;
    struct log_point end; /* the point behind the last one */
};
void log_bytes_deinit(struct log_bytes *bytes);

/* Whole frames from `position` on, where a frame must begin, that end at or below `limit` (UINT64_MAX: all that are
 * written, durable or not) and lie in one segment: at most `size_max` bytes, or one frame that is larger
 * (FRAME_SIZE_MAX at most). Their sums are checked; that they follow the one before is the taker's to check. Replaces
 * what `out` held. 0; LOG_END: there is none yet. */
int log_serve(struct log *log, uint64_t position, uint64_t limit, size_t size_max, struct log_bytes *out);

/* Where an epoch's frames begin. */
struct log_epoch {
    uint32_t epoch;
    uint64_t start;
};
/* The epochs of a log, oldest first. */
struct log_epochs {
    struct log_epoch *items; /* owned; of the first one, some frames may have been retired: its start is log_start */
    size_t count;            /* 0: the log has no frame, and had none */
    uint64_t start;
    uint64_t end;
};
int log_epochs_read(struct log *log, struct log_epochs *out);
void log_epochs_deinit(struct log_epochs *epochs);

/* The greatest position up to which the two may be the same: the end of the last epoch that both have (KIP-101). Where
 * they have none in common, where the later one begins, at most where the shorter one ends. Whoever acts on it first
 * compares the chain hashes at that position: they differ if one was damaged, or led by force twice under one epoch. A
 * position below either's start says that the common part has been retired. */
uint64_t log_epochs_common(const struct log_epochs *a, const struct log_epochs *b);

#endif
