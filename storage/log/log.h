/* log.h: the segment log: a durable, ordered record of all events (LOG-1, LOG-4, LOG-5).
 *
 * Files: DIR/log/<base position, 16 hex digits>.seg. A segment file has a 4096-byte header and then frames, one after
 * another. A frame never spans segments. File offset = 4096 + (position - base). The header (FORMAT.md) has magic,
 * format version, base position, capacity, cluster id and a checksum. It also has the chain hash, epoch and times of
 * the last frame before the segment.
 *
 * A new segment file is filled with zeros under a temporary name, synced and renamed, and its directory is synced. Only
 * then may the log acknowledge a frame in it (F-6). All earlier frames are durable before a segment gets its name. So
 * only the last segment can have a torn tail.
 *
 * Threads: one *writer* calls append, write, sync and retire; any number of readers use log_read and cursors meanwhile.
 *
 * Errors: 0: success; negative errno or LOG_… (storage_codes.h): fatal. After a failed write or sync the log is
 * poisoned: every later append, write and sync returns the same error (LOG-4). */
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
    const char *directory; /* directory of the log, DIR/log; log_open makes it if it is missing */
    const struct disk *disk;
    uint64_t segment_size; /* preallocated bytes of frames per segment; a larger frame gets a larger segment */
    uint8_t cluster[16];   /* cluster id; every segment header must have the same */
    uint64_t durable_min;  /* position up to which the log is known to be durable, from the index; log_open fails if the
                              log ends below it (F-7, F-9) */
    bool read_only;        /* for tarry verify: the log is not changed in any way */
    /* True: a background thread makes the next segment, so a roll does not stall a commit; false: the writer makes it
     * (for simulators without threads). */
    bool prepare_ahead;
    const char *single; /* name of the only file to open (quarantine.h); NULL: all segments of the directory */
};

struct log_recovery {
    uint64_t start;                  /* position of the oldest frame; LOG_POSITION_FIRST for a new log */
    uint64_t end;                    /* position of the next frame */
    uint8_t chain[FRAME_CHAIN_SIZE]; /* chain hash at `end` */
    uint32_t epoch; /* epoch of the last frame; 0: no frame; `steady_ns` and `wall_ns` are the last frame's times */
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint64_t cut_bytes; /* bytes of the torn tail that was cut, or, with read_only, would be cut; 0: no torn tail */
    uint64_t cut_at;
    uint64_t segments;
    uint64_t last_commit; /* position of the last scanned frame with a body; 0: no such frame */
    /* True: the log ends with a seal or with a new segment. Both prove that all earlier frames were durable. */
    bool sealed;
    /* Base of the segment before the oldest one; 0: the oldest segment is the log's first. The next three fields
     * describe the last frame of that earlier segment. All four come from the oldest segment's header. */
    uint64_t start_segment;
    uint64_t start_steady_ns;
    uint64_t start_wall_ns;
    uint32_t start_epoch;
    /* Chain hash at `scan_from`, or at `start` if later. The caller compares it with the index's chain hash (LOG-3). */
    uint8_t scan_chain[FRAME_CHAIN_SIZE];
    uint64_t stray_at;    /* position of the first stray bytes; valid if stray_bytes > 0 */
    uint64_t stray_bytes; /* bytes behind the frames, up to the last non-zero byte, in closed segments that were
                             scanned; harmless, but Tarry did not write them */
};

/* Opens the log, or makes it, and finds its end. From `scan_from` (or `start`, if later) on, checks every frame's
 * header, body, blob area, order and chain. Checks older segments only by header: they must exist and be contiguous.
 * Cuts a torn tail by the rule of LOG-5. Syncs the kept frames before it returns, because frames that were read need
 * not be durable (R6). On failure `*out` is unchanged, and `message` (at least 256 bytes) has a sentence with file,
 * offset and problem. */
int log_open(struct log **out, const struct log_options *options, uint64_t scan_from, struct log_recovery *out_recovery,
             char *message, size_t message_size);
void log_close(struct log *log); /* closes the log without a sync; NULL is allowed */

/* State before the first frame of a log that begins after position LOG_POSITION_FIRST. */
struct log_origin {
    uint64_t position;      /* position at which the new log starts */
    uint64_t previous_base; /* base of the previous segment in the original log; not 0 */
    uint32_t epoch; /* epoch of the last frame before `position`; `steady_ns`, `wall_ns` and `chain` are that frame's
                       values */
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint8_t chain[FRAME_CHAIN_SIZE];
};
/* Makes a log that starts at `origin`, in a directory without a log (otherwise -EEXIST). The log is durable, but the
 * directory's name in its parent is not synced. Ignores `durable_min` and `read_only`. 0 or a negative errno; after an
 * error an incomplete log may remain. */
int log_make(struct log **out, const struct log_options *options, const struct log_origin *origin);

/* One piece of a frame's blob area. */
struct log_piece {
    const void *data;
    size_t size;
};

struct log_frame {
    uint16_t type; /* enum frame_type */
    uint32_t epoch;
    uint64_t position; /* position of the frame; must equal log_end() */
    uint64_t steady_ns;
    uint64_t wall_ns;
    const void *body;
    uint32_t body_size;
    const struct log_piece *pieces; /* parts of the blob area, in order */
    size_t piece_count;
};

/* Encodes the frame into the write buffer, with checksums and chain hash. Sets the frame's `synced_to` (the position up
 * to which the log is durable) to log_durable(), or to the lower limit of log_claim. Copies the caller's data. May
 * create a segment (I/O). */
int log_append(struct log *log, const struct log_frame *frame);
/* Limits the `synced_to` of later frames to `position`; UINT64_MAX: no limit. Any thread. A leader whose replies
 * require both nodes passes the position that is durable on both nodes. Reason: a follower first syncs its log up to a
 * frame's `synced_to`, then writes the frame (log_copy.h). With the limit this sync has nothing to do, so the follower
 * answers sooner. */
void log_claim(struct log *log, uint64_t position);
/* Writes all appended frames to the file, without sync. Readers can see them afterwards. */
int log_write(struct log *log);
/* Calls log_write and then fdatasync on every segment written. Afterwards log_durable() is the end of the written
 * frames. */
int log_sync(struct log *log);

uint64_t log_end(const struct log *log);     /* returns the end of the appended frames; called by the writer only */
uint64_t log_durable(const struct log *log); /* any thread */
uint64_t log_start(const struct log *log);   /* any thread */
/* Stores log_durable() in DIR/log/durable, durably, for the next log_open. Reason: a follower writes no seals, so
 * otherwise nothing would prove that its last frames were durable (LOG-5). Writer only. */
int log_mark(struct log *log);
#define LOG_MARK_NAME "durable"
#define LOG_MARK_SIZE 48
/* Encodes the content of DIR/log/durable for a log that is durable up to `position`; for making a copy of a log. */
void log_mark_encode(const uint8_t cluster[16], uint64_t position, uint8_t out[LOG_MARK_SIZE]);
/* Returns the chain hash at log_end(); writer only. */
void log_chain(const struct log *log, uint8_t out[FRAME_CHAIN_SIZE]);

/* Reads `size` bytes at `position`, inside one written frame. Any thread. LOG_RETIRED: below log_start; LOG_END: beyond
 * the written frames. Does not check the bytes; the caller checks their checksum. */
int log_read(struct log *log, uint64_t position, void *out, size_t size);
/* Like log_read, but never waits for the disk, nor for a thread that waits for the disk. -EAGAIN: it would have to
 * wait. */
int log_read_now(struct log *log, uint64_t position, void *out, size_t size);

struct log_stats {
    uint64_t segments;
    uint64_t bytes;    /* bytes on disk, including preallocated space */
    uint64_t reserved; /* bytes of frames that fit into the existing files (F-4) */
    int prepare_error; /* error of the last attempt to make the next segment, repeated every 200 ms; 0: no error */
};
void log_stats(const struct log *log, struct log_stats *out); /* any thread */
/* Checks whether `size` bytes of frames at position `from` (at least log_end) fit into the existing files (F-4). If
 * not, requests the next segment. Never waits for the disk. Any thread. The caller includes in `size` the space that
 * stays unused at the end of a segment.
 *
 * Returns 0: they fit; -EINPROGRESS: the next segment is not ready yet; -EAGAIN: one more segment is not enough;
 * another error: making the segment failed and is retried every 200 ms. */
int log_fits(struct log *log, uint64_t from, uint64_t size);

struct log_segment {
    uint64_t base;
    uint64_t end;     /* end position of the segment's last frame */
    uint64_t wall_ns; /* logical wall time of the segment's last frame */
    uint64_t bytes;   /* size of the segment's file on disk, in bytes */
};
/* Returns the oldest segment, the next to retire. True if that segment is closed (the writer has moved on) and ends at
 * or below `below`. Any thread. */
bool log_oldest(const struct log *log, uint64_t below, struct log_segment *out);
/* Returns the segment that contains `position`. `end` and `wall_ns` are 0 for the segment that the writer uses. False:
 * no such segment. Any thread. */
bool log_segment_at(const struct log *log, uint64_t position, struct log_segment *out);
/* Reads the 4096-byte header of a segment's file, unchanged (FORMAT.md). The segment must have a frame. LOG_RETIRED;
 * LOG_END: no such segment. Any thread. */
int log_segment_header(struct log *log, uint64_t base, uint8_t out[4096]);
/* Deletes the oldest segment, which must have base `base`. Raises log_start first, so readers get LOG_RETIRED and never
 * wrong bytes. One thread at a time. A failure is permanent: later calls return it again, so that no gap arises. The
 * exception is LOG_PINNED, which changes nothing. */
int log_retire(struct log *log, uint64_t base);
/* Prevents retirement until the matching log_unpin: log_oldest returns false, and log_retire returns LOG_PINNED.
 * Returns log_start, which does not change while a pin exists. Any thread. */
uint64_t log_pin(struct log *log);
void log_unpin(struct log *log);
bool log_is_pinned(struct log *log);

/* Location of a content in the blob area of the frame at position `frame`. */
struct log_content {
    uint64_t frame;
    uint64_t at;
    uint32_t size;
};
/* Overwrites contents with zeros, durably; sets and syncs the frame's erased flag first. A concurrent reader gets the
 * whole content or zeros. Skips contents below log_start. Idempotent: the caller repeats it after a crash. The index
 * must have absorbed the frames (LOG-5: a torn write must not look like an erasure). LOG_DAMAGED: the frame or the
 * content does not exist; then its segment is unchanged. One thread at a time, and not while a segment is being
 * retired. */
int log_erase(struct log *log, const struct log_content *contents, size_t count);
/* log_erase_begin and log_erase_end enclose log_erase and the related erasures in archive and index. False: segments
 * are pinned, because a copy is being made and must not change; try later. log_pin waits until log_erase_end. */
bool log_erase_begin(struct log *log);
void log_erase_end(struct log *log);
/* Number of erasures so far. If it has grown, content that was read before may be erased now. Any thread. */
uint64_t log_erasures(const struct log *log);

/* Reads frames in order. One thread uses a cursor. The cursor may follow the writer: it sees frames that are written
 * and end at or below `limit`. */
struct log_cursor;
struct log_view {
    struct frame_header header;
    const uint8_t *body; /* body of the frame; valid until the next call on this cursor */
    const uint8_t *blob; /* blob area, read by the cursor; NULL if the cursor was opened without blobs */
};
int log_cursor_open(struct log_cursor **out, struct log *log, uint64_t position, bool with_blobs);
/* Reads the next frame that ends at or below `limit`, and checks its checksums. LOG_END: no such frame yet;
 * LOG_DAMAGED; LOG_RETIRED. Does not check the blob area of a frame with erased contents (FRAME_FLAG_ERASED); each
 * content has its own checksum. */
int log_cursor_next(struct log_cursor *cursor, uint64_t limit, struct log_view *out);
uint64_t log_cursor_position(const struct log_cursor *cursor); /* returns the position of the next frame */
/* Moves the cursor to the start of another frame. If that frame is retired, the next log_cursor_next returns
 * LOG_RETIRED. */
void log_cursor_seek(struct log_cursor *cursor, uint64_t position);
uint64_t log_cursor_segment(const struct log_cursor *cursor); /* returns the base of the last frame's segment */
void log_cursor_close(struct log_cursor *cursor);

#endif
