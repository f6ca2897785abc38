/* log.h: the segment log. What happened, in order, and durable (LOG-1, LOG-4, LOG-5).
 *
 * Files: DIR/log/<base position, 16 hex digits>.seg, each preallocated and zero-filled, made under a temporary
 * name, synced, renamed, directory synced, before a frame in it counts (F-6). A frame never spans segments.
 * A segment file = a 4096-byte header (see FORMAT.md; magic, format version, base position, capacity, cluster id, chain
 * hash, epoch and times before the first frame, checksum) and frames one after another from file offset 4096 on:
 * file offset = 4096 + (position - base).
 * Everything below a segment's base was durable before the segment got its name, so only the last one can have a torn
 * tail.
 *
 * Threads: one *writer* calls append/write/sync/retire; any number of readers call log_read and cursors at the same
 * time. Errors: 0 fine; negative errno or LOG_DAMAGED… fatal. After a failed write or sync the log is poisoned: every
 * later append, write and sync returns the same error (LOG-4). */
#ifndef TARRY_STORAGE_LOG_H
#define TARRY_STORAGE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "disk.h"
#include "frame.h"
#include "storage_codes.h"

struct log;

struct log_options {
    const char *directory; /* DIR/log; made if missing */
    const struct disk *disk;
    uint64_t
        segment_size;     /* bytes of frames per segment, preallocated; a larger frame gets a segment of its own size */
    uint8_t cluster[16];  /* written into and compared with every segment header */
    uint64_t durable_min; /* the index says the log was durable up to here: never cut below, refuse (F-7, F-9) */
    bool read_only;       /* nothing is cut, made or deleted: for verify */
    bool prepare_ahead;   /* a thread of the log's own makes the next segment ready, so that a roll does not stall a
                             commit; without it the writer makes it (a simulator wants no threads) */
    const char *single;   /* the name of the one file of the directory that counts (quarantine.h); NULL: all of them */
};

struct log_recovery {
    uint64_t start;                  /* position of the oldest frame there is; LOG_POSITION_FIRST for a new log */
    uint64_t end;                    /* where the next frame goes */
    uint8_t chain[FRAME_CHAIN_SIZE]; /* chain hash at `end` */
    uint32_t epoch;                  /* of the last frame; 0: none */
    uint64_t steady_ns;              /* of the last frame; 0: none */
    uint64_t wall_ns;
    uint64_t cut_bytes; /* torn tail that was cut (or would be, read-only); 0: none */
    uint64_t cut_at;
    uint64_t segments;
    uint64_t last_commit; /* position of the last frame with a body among those that were scanned; 0: none was */
    bool sealed;          /* the last frame is a seal that covers everything before it, or a fresh segment does so */
    /* What the oldest segment's header says of the frame before it, and of the segment that it lies in; 0: there is
     * none. */
    uint64_t start_segment;
    uint64_t start_steady_ns;
    uint64_t start_wall_ns;
    uint32_t start_epoch;
    /* Chain hash at `scan_from` (at `start`, if later): compare it with the index's (LOG-3). */
    uint8_t scan_chain[FRAME_CHAIN_SIZE];
    uint64_t stray_at;    /* where the first of these are, valid if there are any */
    uint64_t stray_bytes; /* from the end of the frames to the last byte that is not zero, in closed segments that were
                             scanned: harmless, but nothing of ours wrote them */
};

/* Opens or makes the log; finds its end by checking every frame's header, body, blob area, order and chain from
 * `scan_from` (or `start`, if later) on; older segments are only checked to be there, contiguous, by header. Cuts a
 * torn tail by the rule of LOG-5, and syncs what it keeps before it returns, for what was read need not be durable
 * (R6). On failure `*out` is untouched and `message` (size ≥ 256) holds a sentence that names file, offset and what is
 * wrong. */
int log_open(struct log **out, const struct log_options *options, uint64_t scan_from, struct log_recovery *out_recovery,
             char *message, size_t message_size);
void log_close(struct log *log); /* NULL is fine; does not sync */

/* What lies before the first frame of a log that does not begin at the beginning. */
struct log_origin {
    uint64_t position;      /* where it begins */
    uint64_t previous_base; /* of the segment that was before it elsewhere; not 0 */
    uint32_t epoch;         /* of the last frame before, like the times and the chain */
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint8_t chain[FRAME_CHAIN_SIZE];
};
/* Makes a log that goes on from there, in a directory that holds none (-EEXIST). Durable, save for the directory's own
 * name in its parent. `durable_min` and `read_only` are void. 0 or a negative errno; then there may be half a log. */
int log_make(struct log **out, const struct log_options *options, const struct log_origin *origin);

/* One piece of a frame's blob area. */
struct log_piece {
    const void *data;
    size_t size;
};

struct log_frame {
    uint16_t type; /* enum frame_type */
    uint32_t epoch;
    uint64_t position; /* must be where the log ends: log_end() */
    uint64_t steady_ns;
    uint64_t wall_ns;
    const void *body;
    uint32_t body_size;
    const struct log_piece *pieces; /* the blob area, in order */
    size_t piece_count;
};

/* Encodes the frame into the write buffer: sums, chain, synced_to = log_durable(). Copies; the caller keeps its memory.
 * May create a segment (I/O). */
int log_append(struct log *log, const struct log_frame *frame);
/* From here on frames say at most this position of how far the log is durable (`synced_to`), UINT64_MAX: what is true.
 * In a pair that answers only what both have it is how far both do: a follower syncs up to a frame's `synced_to` before
 * it writes that frame (log_copy.h), and so need not sync before it answers. Any thread. */
void log_claim(struct log *log, uint64_t position);
/* Hands everything appended to the operating system. Readers may see it from here on. */
int log_write(struct log *log);
/* fdatasync of what was written (all segments touched); afterwards log_durable() == what was written. Implies
 * log_write. */
int log_sync(struct log *log);

uint64_t log_end(const struct log *log);     /* appended; writer only */
uint64_t log_durable(const struct log *log); /* any thread */
uint64_t log_start(const struct log *log);   /* any thread */
/* Notes durably (DIR/log/durable) that the log is durable up to log_durable(), for whoever opens it next: a log that
 * gets no seal of its own, a follower's, would otherwise protect its last frames by nothing (LOG-5). Writer only. */
int log_mark(struct log *log);
#define LOG_MARK_NAME "durable"
#define LOG_MARK_SIZE 48
/* What that file says of a log that is durable up to `position`, for whoever makes a copy of one. */
void log_mark_encode(const uint8_t cluster[16], uint64_t position, uint8_t out[LOG_MARK_SIZE]);
/* Chain hash at log_end(); writer only. */
void log_chain(const struct log *log, uint8_t out[FRAME_CHAIN_SIZE]);

/* `size` bytes at `position`, which must lie inside one frame that was written. Any thread. LOG_RETIRED below
 * log_start, LOG_END beyond what was written; the bytes are not checked, their sums are the caller's. */
int log_read(struct log *log, uint64_t position, void *out, size_t size);
/* Likewise, without waiting for a disk or for somebody who does. -EAGAIN: that is what it would take. */
int log_read_now(struct log *log, uint64_t position, void *out, size_t size);

struct log_stats {
    uint64_t segments;
    uint64_t bytes;    /* on disk, preallocation included */
    uint64_t reserved; /* bytes of frames that fit before the disk is asked for room again (F-4) */
    int prepare_error; /* why the next segment could not be made ready, tried again five times a second; 0: fine */
};
void log_stats(const struct log *log, struct log_stats *out); /* any thread */
/* Whether `size` bytes of frames from `from` on (at or ahead of log_end) fit into files that are there (F-4); the next
 * one is asked for if not. Waits for no disk. 0; the error if it cannot be made, which is tried again five times a
 * second; -EINPROGRESS if that is not known yet; -EAGAIN if the next one would not be enough either. What a frame
 * leaves unused by going over to the next segment is the caller's to add. Any thread. */
int log_fits(struct log *log, uint64_t from, uint64_t size);

struct log_segment {
    uint64_t base;
    uint64_t end;     /* position one past its last frame */
    uint64_t wall_ns; /* logical wall time of its last frame */
    uint64_t bytes;   /* on disk */
};
/* The segment that could be retired first. True if the oldest segment is closed (not the one written to) and ends at or
 * below `below`. Any thread. */
bool log_oldest(const struct log *log, uint64_t below, struct log_segment *out);
/* The segment that `position` lies in; its `end` and `wall_ns` are 0 while it is written to. False: there is none. Any
 * thread. */
bool log_segment_at(const struct log *log, uint64_t position, struct log_segment *out);
/* The first 4096 bytes of the segment's file, as they are there: what its first frame continues (FORMAT.md). The
 * segment must hold a frame. LOG_RETIRED, LOG_END (no such segment). Any thread. */
int log_segment_header(struct log *log, uint64_t base, uint8_t out[4096]);
/* Deletes the oldest segment, which must be `base`; log_start grows first, so readers get LOG_RETIRED, never a wrong
 * byte. Any one thread. A failure is final: the next call returns it again, so that no gap can come into being; but for
 * LOG_PINNED, which changed nothing. */
int log_retire(struct log *log, uint64_t base);
/* From here on no segment is retired: log_oldest finds none, and log_retire answers LOG_PINNED. → log_start, which
 * stays until the last pin is taken back. Any thread. */
uint64_t log_pin(struct log *log);
void log_unpin(struct log *log);
bool log_is_pinned(struct log *log);

/* A content in the blob area of the frame at `frame`. */
struct log_content {
    uint64_t frame;
    uint64_t at;
    uint32_t size;
};
/* Overwrites contents with zeros, for good; a frame's flag says so first. Whoever reads at the same time gets all of a
 * content or zeros. Those below log_start are left out. Idempotent: after a crash it is simply done again. What the
 * index has not absorbed must not be erased (LOG-5: a torn write must not look like an erasure). LOG_DAMAGED: there is
 * no such frame, or it has no such content; nothing of its segment was changed then. Any one thread; not while a
 * segment is being retired. */
int log_erase(struct log *log, const struct log_content *contents, size_t count);
/* Around log_erase, and what is erased elsewhere along with it. False: segments are pinned, and what is copied must not
 * change under the copier; try later. A pin waits until the erasing has ended. */
bool log_erase_begin(struct log *log);
void log_erase_end(struct log *log);
/* How often something was erased so far: what was read before it grew may be gone since. Any thread. */
uint64_t log_erasures(const struct log *log);

/* Reads frames in order. A cursor belongs to one thread; it may trail the writer and sees frames once they are written
 * and below `limit`. */
struct log_cursor;
struct log_view {
    struct frame_header header;
    const uint8_t *body; /* valid until the next call on this cursor */
    const uint8_t *blob; /* likewise; NULL if the cursor was opened without blobs */
};
int log_cursor_open(struct log_cursor **out, struct log *log, uint64_t position, bool with_blobs);
/* The next frame that ends at or below `limit`, its sums checked; LOG_END if there is none (call again later);
 * LOG_DAMAGED, LOG_RETIRED. Of a frame that has lost contents (FRAME_FLAG_ERASED) the blob area is not checked: each
 * content has a sum of its own. */
int log_cursor_next(struct log_cursor *cursor, uint64_t limit, struct log_view *out);
uint64_t log_cursor_position(const struct log_cursor *cursor); /* of the next frame */
/* Goes on at another place where a frame begins; what has been retired by then, the next call tells. */
void log_cursor_seek(struct log_cursor *cursor, uint64_t position);
uint64_t log_cursor_segment(const struct log_cursor *cursor); /* base of the segment that the last frame lay in */
void log_cursor_close(struct log_cursor *cursor);

#endif
