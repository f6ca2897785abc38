/* archive.h: compressed retired segments, ARCHIVE/<base>.seg.zst, each with its summary beside it.
 *
 * Format: a file has the segment's header and frames, without the zeros after them, in the zstd seekable format
 * (seekable.h). `zstd -d` restores the segment. The file's head (FORMAT.md) describes the content, so a listing reads
 * only the head.
 *
 * Durability: a file is written under a temporary name, synced, read back, checked frame by frame, and renamed; then
 * the directory is synced. So a file under its own name was complete when it was renamed, and any later error is
 * damage. A file never changes; it is only replaced (archive_erase) or deleted. A kill -9 at any step leaves at most a
 * temporary file, which the next attempt overwrites.
 *
 * Threads: `struct archive` names the directory and has no open files. Any thread and any other process may have a
 * struct archive for the same directory. Processes that delete files, or place or release holds, use archive_lock
 * (archive_keep.h).
 *
 * Errors: a negative result is an errno, LOG_DAMAGED (not an archive file, or an incomplete one), LOG_VERSION or
 * LOG_FOREIGN. A `problem` is a phrase that follows the file's name ("has a head with a wrong checksum"); it is never
 * freed. */
#ifndef TARRY_STORAGE_ARCHIVE_H
#define TARRY_STORAGE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "disk.h"
#include "frame.h"
#include "log.h"

#define ARCHIVE_PATH_SIZE 4096u

struct archive {
    const struct disk *disk;
    const char *directory; /* path of the archive, shorter than ARCHIVE_PATH_SIZE - 64; borrowed */
    uint8_t cluster[16];   /* cluster id of the segments */
};

/* The content of a file's head. */
struct archive_info {
    uint64_t base;
    uint64_t end;      /* end position of the last frame */
    uint64_t first_ns; /* logical steady times of the first and the last frame */
    uint64_t last_ns;
    uint64_t first_wall_ns;
    uint64_t last_wall_ns;
    uint64_t frames; /* number of frames, including seals */
    uint64_t records;
    uint64_t erased; /* number of frames with erased contents */
    uint32_t epoch;  /* epoch of the last frame */
    uint8_t cluster[16];
    uint8_t chain[FRAME_CHAIN_SIZE]; /* chain hash of the last frame */
    uint64_t bytes;                  /* size of the archive file */
    uint64_t sum;                    /* XXH3-64 of the file's bytes after the head */
};

/* ARCHIVE/<base>.seg.zst */
void archive_path(const struct archive *archive, uint64_t base, char path[ARCHIVE_PATH_SIZE]);
/* Lists the bases of the files, ascending; the caller frees the list. -ENOENT: the directory does not exist. */
int archive_list(const struct archive *archive, uint64_t **out_bases, size_t *out_count);
/* Reads and checks the head; sets `*out_problem` if the result is LOG_…. */
int archive_look(const struct archive *archive, uint64_t base, struct archive_info *out, const char **out_problem);

/* ---- Reading: frames in order, with the same checks as in the log */
struct archive_cursor;
/* Opens a cursor at `position` of the segment `base`: the base itself, or the start of a frame. */
int archive_cursor_open(struct archive_cursor **out, const struct archive *archive, uint64_t base, uint64_t position,
                        bool with_blobs, const char **out_problem);
/* Reads the next frame that ends at or below `limit`, and checks its checksums; valid until the next call. LOG_END: the
 * end of the segment, or the limit. */
int archive_cursor_next(struct archive_cursor *cursor, uint64_t limit, struct log_view *out);
uint64_t archive_cursor_position(const struct archive_cursor *cursor); /* returns the position of the next frame */
/* Moves the cursor to the start of a frame, or to the end of the segment. */
void archive_cursor_seek(struct archive_cursor *cursor, uint64_t position);
const char *archive_cursor_problem(const struct archive_cursor *cursor);
const struct archive_info *archive_cursor_info(const struct archive_cursor *cursor);
/* State before the segment's first frame, from the segment's own header (FORMAT.md). */
struct archive_start {
    uint64_t previous_base; /* base of the previous segment; 0: this is the first one of the log */
    uint64_t steady_ns; /* steady time of the last frame before `base`; 0: no such frame. wall_ns, epoch and chain are
                           those of the same frame */
    uint64_t wall_ns;
    uint32_t epoch;
    uint8_t chain[FRAME_CHAIN_SIZE];
};
void archive_cursor_start(const struct archive_cursor *cursor, struct archive_start *out);
void archive_cursor_close(struct archive_cursor *cursor); /* closes the cursor; the argument may be NULL */

/* ---- Checking */
/* Checks a whole file: the head, the checksum of the file, every frame's checksums, order and chain, and that the head
 * matches the frames. `out` (may be NULL) is set if the head is readable. `*out_at`: position of the problem; 0 if it
 * concerns the whole file. The check covers one file; archive_cursor_start tells whether it continues the file before.
 */
int archive_verify(const struct archive *archive, uint64_t base, struct archive_info *out, uint64_t *out_at,
                   const char **out_problem);

/* ---- Writing: one thread of one process */
/* Makes the archive file of the closed segment `base` by the steps at the top of this file, and replaces an older file.
 * After a failure, either the old file is unchanged, or the new file has replaced it but may not be durable.
 * `*out_problem` is NULL if a failure has no phrase. */
int archive_store(const struct archive *archive, struct log *log, uint64_t base, int level, struct archive_info *out,
                  const char **out_problem);
/* Deletes the temporary files of killed processes. */
int archive_sweep(const struct archive *archive);
/* Deletes the file and its summary, and syncs the directory. */
int archive_delete(const struct archive *archive, uint64_t base);

/* A range of bytes in a blob area, by log position. */
struct archive_range {
    uint64_t position;
    uint64_t size;
};
/* Replaces the file by one in which these ranges are zeros and their frames have FRAME_FLAG_ERASED. The ranges are
 * ascending and not adjacent, each within the blob area of one frame. Chain and bodies stay unchanged. Crash-safe like
 * archive_store; idempotent. -EINVAL: a range is not inside a blob area; nothing was changed. */
int archive_erase(const struct archive *archive, uint64_t base, const struct archive_range *ranges, size_t count,
                  int level, const char **out_problem);

#endif
