/* summary.h: a summary of a closed segment, so that a query about one task or one hour need not read the segment. A
 * summary has the segment's times. For each part of SUMMARY_PART_SIZE bytes, it has a Bloom filter over the ids and
 * keys of the tasks in that part's records.
 *
 * File: <base>.sum beside the segment, in the log or in the archive (FORMAT.md). A query about one task reads two pages
 * of the file, whatever its size: the head, and one filter page. Each page has its own checksum. The hash of the id or
 * key selects the filter page and one block in that page. The block has bits for all parts, so one cache line answers
 * for all parts.
 *
 * A summary is derived data: the index thread makes it while it reads the whole segment. The file is not synced. It may
 * be missing or deleted at any time, and its checksums reveal damage. Queries use it only to skip parts.
 *
 * Not thread-safe. */
#ifndef TARRY_STORAGE_SUMMARY_H
#define TARRY_STORAGE_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "log.h"
#include "tarry.pb-c.h"

/* Bytes per part: the unpacked size of an archived segment's seekable frames, with the same boundaries (seekable.h). */
#define SUMMARY_PART_SIZE (1ull << 20)

/* A summary that is being made. */
struct summary {
    uint64_t base;
    uint64_t end; /* end of the last frame added */
    /* Logical steady times of the first and the last frame; invalid while the summary has no frame (end == base). */
    uint64_t first_ns;
    uint64_t last_ns;
    uint64_t records;
    uint64_t parts; /* number of parts up to the last one in which a frame starts */
    uint64_t parts_max;
    uint64_t *starts; /* for each part: position of the first frame that starts in the part or after it */
    uint64_t pages;
    uint8_t *filter; /* the filter pages as in the file, without their checksums */
};

/* Makes an empty summary for a segment with `capacity` bytes of frames; its filter takes 1/32 of that. NULL: out of
 * memory. */
struct summary *summary_new(uint64_t base, uint64_t capacity);
void summary_free(struct summary *summary); /* frees the summary; the argument may be NULL */

/* Adds the next frame of the segment, which must start within the capacity. NULL `body`: a seal. */
void summary_add(struct summary *summary, const struct frame_header *header, const Tarry__FrameBody *body);

/* Writes the summary beside its segment, first under a temporary name. 0 or a negative errno. A failure leaves at most
 * the temporary file, and only makes later queries slower. */
int summary_write(struct summary *summary, const struct log *log);
int summary_write_to(struct summary *summary, const struct disk *disk, const char *directory);
/* Deletes the summary file, if it exists. */
void summary_delete(const struct log *log, uint64_t base);

/* First step of verifying a summary file: makes an empty summary with the same filter size as the file. The caller adds
 * the segment's frames to this summary. Returns 0; 1: no file, or an unusable one (damaged or of another version);
 * negative errno. */
int summary_like(struct summary **out, const struct disk *disk, const char *directory, uint64_t base);
/* Last step of verifying a summary file: compares the file with the frames that were added since summary_like. Returns
 * 0: a query that uses the file finds all these frames; SUMMARY_LIES: a query would skip some of them; 1 and negative
 * errno as from summary_like. */
int summary_check(const struct summary *summary, const struct disk *disk, const char *directory);
#define SUMMARY_LIES 2

/* Return the hash for summary_ask: of a task's id, or of a key in the queue with that number. */
uint64_t summary_task_hash(uint64_t id);
uint64_t summary_key_hash(uint32_t queue, const void *key, size_t key_size);

/* A range of log positions that may have matching frames. */
struct summary_range {
    uint64_t from; /* start of the range, at the start of a frame */
    uint64_t to;   /* exclusive */
};
struct summary_answer {
    uint64_t end; /* end of the segment that the summary describes */
    uint64_t first_ns;
    uint64_t last_ns;
    size_t count;                 /* number of ranges; 0: certainly no record of the segment matches */
    struct summary_range *ranges; /* ranges in which all frames that may match lie; ascending, not adjacent */
};
/* Finds the ranges of segment `base` whose records may match `hash`; hash 0 matches everything and gives one range. 0;
 * 1: no summary, or it is damaged or of another version; negative errno. The caller frees the answer only after 0. */
int summary_ask(struct summary_answer *out, const struct disk *disk, const char *directory, uint64_t base,
                uint64_t hash);
int summary_ask_log(struct summary_answer *out, const struct log *log, uint64_t base, uint64_t hash);
void summary_answer_deinit(struct summary_answer *answer); /* may be called twice, and on a zeroed answer */

#endif
