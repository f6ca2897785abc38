/* frames.h: reads all frames of a data directory, archive and log, the oldest first. Checks each frame against the
 * one before: checksums, position, and chain hash.
 *
 * Frames that are in both archive and log are read from the log. The store's log must be open and scanned completely
 * (store_open_log from 0), and its archive must be set. */
#ifndef TARRY_STORAGE_FRAMES_H
#define TARRY_STORAGE_FRAMES_H

#include "quarantine.h"
#include "store.h"

/* State before the next frame. It comes from the last frame, or at the start from the segment header. */
struct frames_point {
    uint64_t position; /* position of the next frame to read */
    uint64_t segment;  /* base of the segment that contains the last frame; 0: none */
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint32_t epoch;
    uint8_t chain[FRAME_CHAIN_SIZE];
};

struct frames {
    struct store *store;
    uint64_t *bases; /* bases of the archived segments that lie below the start of the log */
    size_t base_count;
    size_t base_next;
    struct archive_cursor *archived; /* reader of an archived segment; NULL: none is being read */
    struct log_cursor *cursor;       /* reader of the log; NULL: the log has not been reached */
    struct frames_point at;
    uint64_t start;   /* position of the first frame that is read */
    uint64_t segment; /* base of the segment with the last frame */
    uint64_t archived_segments;
    uint64_t gaps;
    uint64_t gap_from, gap_to; /* positions where the last gap begins and ends */
};

enum frames_result {
    FRAMES_END = 1,
    FRAMES_GAP, /* frames between positions `gap_from` and `gap_to` are in neither archive nor log; `at` is after the
                   gap */
    FRAMES_DAMAGED, /* the next frame cannot be read, or is damaged; the error message is in the store */
};

/* Opens archive and log. Returns 0, or STORE_REFUSED with an error message in the store. */
int frames_open(struct frames *frames, struct store *store);
/* Reads the next frame. Returns 0 and the frame with its contents, valid until the next call; or an enum frames_result.
 */
int frames_next(struct frames *frames, struct log_view *out);
void frames_close(struct frames *frames);

/* ---- quarantined tails */

/* Quarantined tails of a log (storage/log/quarantine.h). When a broker came back and its leader did not have its last
 * frames, these frames were moved from the log to the quarantine. */

struct tail {
    struct quarantine_tail file;
    uint64_t frames; /* correct frames */
    uint32_t epoch;  /* epoch of the tail's last frame */
    char why[QUARANTINE_WHY_SIZE];
};

struct tails {
    char directory[STORE_PATH_SIZE];
    struct tail *items;
    size_t count;
};

/* Lists the tails and checks every frame of each. Call after the identity. 0, or STORE_REFUSED with an error message
 * in the store; then `out` has the tails before the damaged one. */
int tails_check(struct tails *out, struct store *store);
void tails_deinit(struct tails *tails);
/* Returns the size of a tail's name without its file extension: "0000000000001a40-5d3e…". */
int tail_name_size(const struct quarantine_tail *tail);
/* Makes the open store read this tail instead of log and archive. `name` is a tail's name, with or without its file
 * extension. 0, or STORE_REFUSED with an error message in the store. */
int tails_enter(struct store *store, const char *name);

#endif
