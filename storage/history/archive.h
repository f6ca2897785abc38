/* archive.h: retired segments, compressed and readable: ARCHIVE/<base>.seg.zst, each with its summary beside it.
 *
 * A file is the segment's header and frames, without the zeros behind them, in the zstd seekable format (seekable.h):
 * `zstd -d` makes a segment of it again. Its head (FORMAT.md) says what it holds, so that listing reads no more.
 *
 * A file gets its name last: written under a temporary one, synced, read back and checked frame by frame, renamed,
 * directory synced. So a file under its own name was whole, and any doubt about it is damage. It is never changed, only
 * replaced (archive_erase) or deleted. Kill -9 at any step leaves at worst a temporary file, which is overwritten.
 *
 * `struct archive` names the directory and holds nothing open: any thread and any process may use its own, beside the
 * broker. Two that delete, hold or release agree by archive_lock (archive_hold.h). Negative results: errno, LOG_DAMAGED
 * (what is there is not an archive file, or not a whole one), LOG_VERSION, LOG_FOREIGN. Where there is a `problem`, it
 * is a phrase that follows the file's name ("has a head with a wrong checksum"), valid for ever. */
#ifndef TARRY_STORAGE_ARCHIVE_H
#define TARRY_STORAGE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "disk.h"
#include "frame.h"
#include "log.h"

#define ARCHIVE_PATH_SIZE 4096u
#define ARCHIVE_LEVEL_MIN 1
#define ARCHIVE_LEVEL_MAX 19

struct archive {
    const struct disk *disk;
    const char *directory; /* shorter than ARCHIVE_PATH_SIZE - 64; borrowed */
    uint8_t cluster[16];   /* whose segments these are */
};

/* What the head of a file says. */
struct archive_info {
    uint64_t base;
    uint64_t end;      /* position one past the last frame */
    uint64_t first_ns; /* logical steady times of the first and the last frame */
    uint64_t last_ns;
    uint64_t first_wall_ns;
    uint64_t last_wall_ns;
    uint64_t frames; /* seals included */
    uint64_t records;
    uint64_t erased; /* frames of which contents were erased */
    uint32_t epoch;  /* of the last frame */
    uint8_t cluster[16];
    uint8_t chain[FRAME_CHAIN_SIZE]; /* of the last frame */
    uint64_t bytes;                  /* of the file */
    uint64_t sum;                    /* XXH3-64 of what follows the head */
};

/* ARCHIVE/<base>.seg.zst */
void archive_path(const struct archive *archive, uint64_t base, char path[ARCHIVE_PATH_SIZE]);
/* The bases of the files that are there, ascending; to be freed. -ENOENT: there is no such directory. */
int archive_list(const struct archive *archive, uint64_t **out_bases, size_t *out_count);
/* Reads and judges the head; `*out_problem` is set if the result is LOG_…. */
int archive_look(const struct archive *archive, uint64_t base, struct archive_info *out, const char **out_problem);

/* ---- Reading: frames in order, checked like those of the log */
struct archive_cursor;
/* At `position` of the segment with that base: the base itself, or where a frame begins. */
int archive_cursor_open(struct archive_cursor **out, const struct archive *archive, uint64_t base, uint64_t position,
                        bool with_blobs, const char **out_problem);
/* The next frame that ends at or below `limit`, its sums checked, valid until the next call. LOG_END: the segment ends
 * here, or the limit does. */
int archive_cursor_next(struct archive_cursor *cursor, uint64_t limit, struct log_view *out);
uint64_t archive_cursor_position(const struct archive_cursor *cursor); /* of the next frame */
/* Goes on where a frame begins, within the segment, its end included. */
void archive_cursor_seek(struct archive_cursor *cursor, uint64_t position);
const char *archive_cursor_problem(const struct archive_cursor *cursor);
const struct archive_info *archive_cursor_info(const struct archive_cursor *cursor);
/* The segment's own header (FORMAT.md), as it was in the log: what its first frame continues. */
struct archive_start {
    uint64_t previous_base; /* 0: this is the first segment ever */
    uint64_t steady_ns;     /* of the last frame before `base`, like all that follows; 0: there is none */
    uint64_t wall_ns;
    uint32_t epoch;
    uint8_t chain[FRAME_CHAIN_SIZE];
};
void archive_cursor_start(const struct archive_cursor *cursor, struct archive_start *out);
void archive_cursor_close(struct archive_cursor *cursor); /* NULL is fine */

/* ---- Checking */
/* Everything: the head, every byte of the file by its sum, every frame by its sums, order and chain, and that the head
 * says what the frames are. `out` (may be NULL) is set unless the head cannot be read; `*out_at`: the position of what
 * is wrong, void if it is the file as a whole (then 0). Each file proves only itself: whether it continues the one
 * before, start and chain tell (archive_cursor_start). */
int archive_verify(const struct archive *archive, uint64_t base, struct archive_info *out, uint64_t *out_at,
                   const char **out_problem);

/* ---- Writing: one thread of one process */
/* Makes the file of the closed segment `base`, as told above, in the place of one that may be there. On failure that
 * one is as it was, or this one is there under its name and not certainly durable. `*out_problem` may be NULL then. */
int archive_store(const struct archive *archive, struct log *log, uint64_t base, int level, struct archive_info *out,
                  const char **out_problem);
/* Deletes temporary files that a killed process left. */
int archive_sweep(const struct archive *archive);
/* Deletes the file and its summary, and syncs the directory. */
int archive_delete(const struct archive *archive, uint64_t base);

/* A part of a blob area, by log position. */
struct archive_range {
    uint64_t position;
    uint64_t size;
};
/* Replaces the file by one in which these ranges (ascending, apart from each other, each within the blob area of one
 * frame) are zero and their frames say so (FRAME_FLAG_ERASED); crash-safe like archive_store, and doing it again is
 * harmless. Chain and body stay as they were. -EINVAL: a range lies in no blob area; nothing was changed. */
int archive_erase(const struct archive *archive, uint64_t base, const struct archive_range *ranges, size_t count,
                  int level, const char **out_problem);

#endif
