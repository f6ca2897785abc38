/* frames.h: every frame of a data directory, archive and log, the oldest first, each checked against the one before:
 * its sums, its place, and that its chain hash follows.
 *
 * What the log still has is read from the log. The store's log must be open, with all of it scanned (store_open_log
 * from 0), and its archive named. */
#ifndef TARRY_TOOL_FRAMES_H
#define TARRY_TOOL_FRAMES_H

#include "store.h"

/* What lies before the next frame: what the last one said of itself, or at the start what the segment's header says of
 * the frame before it. */
struct frames_point {
    uint64_t position; /* of the next frame */
    uint64_t segment;  /* base of the segment that the last frame lies in; 0: there was none */
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint32_t epoch;
    uint8_t chain[FRAME_CHAIN_SIZE];
};

struct frames {
    struct store *store;
    uint64_t *bases; /* archived segments below the log's start */
    size_t base_count;
    size_t base_next;
    struct archive_cursor *archived; /* NULL: not in an archived segment */
    struct log_cursor *cursor;       /* NULL: not in the log yet */
    struct frames_point at;
    uint64_t start;   /* where the frames begin */
    uint64_t segment; /* base of the segment that the last frame lay in */
    uint64_t archived_segments;
    uint64_t gaps;
    uint64_t gap_from, gap_to; /* the last one */
};

enum frames_result {
    FRAMES_END = 1,
    FRAMES_GAP,     /* positions gap_from to gap_to are in neither archive nor log; `at` is behind them */
    FRAMES_DAMAGED, /* a sentence is in the store's message */
};

/* 0, or EXIT_REFUSED with a sentence in the store's message. */
int frames_open(struct frames *frames, struct store *store);
/* 0 and the frame with its contents, valid until the next call; or an enum frames_result. */
int frames_next(struct frames *frames, struct log_view *out);
void frames_close(struct frames *frames);

#endif
