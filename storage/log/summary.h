/* summary.h: what a closed segment of the log holds, in brief, so that a question about one task or one hour need not
 * read it: its times, and for each part of SUMMARY_PART_SIZE bytes of its file a filter over the ids and keys of the
 * tasks that the records there name.
 *
 * File: <base>.sum beside the segment, in the log or in the archive (FORMAT.md). A question about one task reads two
 * pages of it, however large it is: the head, and the page of the filter that is chosen by the hash; each has a sum of
 * its own. The bits within the block that the hash chooses depend on the part, too, so that one cache line answers for
 * every part.
 *
 * It is derived, and made by whoever reads the whole segment: the index thread as it goes. It may be missing, or be
 * deleted, at any time; it is not synced, and what is wrong in it is found by its sums. Nothing but skipping rests on
 * it: "certainly not here".
 *
 * Not thread-safe: one owner. */
#ifndef TARRY_STORAGE_SUMMARY_H
#define TARRY_STORAGE_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "log.h"
#include "tarry.pb-c.h"

/* As much as an archived segment's seekable frame unpacks to, and from the same places on (seekable.h). */
#define SUMMARY_PART_SIZE (1ull << 20)

/* One being made. */
struct summary {
    uint64_t base;
    uint64_t end;      /* one past the last frame taken in */
    uint64_t first_ns; /* logical steady times of the first and the last frame; void while end == base */
    uint64_t last_ns;
    uint64_t records;
    uint64_t parts; /* up to the last that a frame begins in */
    uint64_t parts_max;
    uint64_t *starts; /* of each part: where the first frame lies that begins in it or behind it */
    uint64_t pages;
    uint8_t *filter; /* these pages, as in the file, but for their sums */
};

/* For a segment with room for `capacity` bytes of frames; its filter takes a 32nd of that. NULL: out of memory. */
struct summary *summary_new(uint64_t base, uint64_t capacity);
void summary_free(struct summary *summary); /* NULL is fine */

/* The next frame of the segment, which must begin within the capacity. `body` NULL: a seal. */
void summary_add(struct summary *summary, const struct frame_header *header, const Tarry__FrameBody *body);

/* Writes it beside its segment, by way of a temporary name. 0 or a negative errno; a failure leaves nothing but the
 * temporary file, and costs nothing but time later. */
int summary_write(struct summary *summary, const struct log *log);
int summary_write_to(struct summary *summary, const struct disk *disk, const char *directory);
/* Deletes it, if it is there. */
void summary_delete(const struct log *log, uint64_t base);

/* Is a file that somebody left to be believed? `*out` is an empty summary as large as it, to be filled with the frames
 * of its segment. 0; 1: there is no file, or one that nobody uses, for it is damaged or of another version; negative
 * errno. */
int summary_like(struct summary **out, const struct disk *disk, const char *directory, uint64_t base);
/* 0: the file would lead nobody past what was added since summary_like; SUMMARY_LIES: it would; 1 and negative as
 * there. */
int summary_check(const struct summary *summary, const struct disk *disk, const char *directory);
#define SUMMARY_LIES 2

/* Hashes to ask with: of a task's id, and of a key in a queue (by number). */
uint64_t summary_task_hash(uint64_t id);
uint64_t summary_key_hash(uint32_t queue, const void *key, size_t key_size);

/* What one says of its segment. */
struct summary_range {
    uint64_t from; /* log positions, of frames */
    uint64_t to;
};
struct summary_answer {
    uint64_t end; /* as in struct summary */
    uint64_t first_ns;
    uint64_t last_ns;
    size_t count;                 /* 0: certainly no record of the segment names it */
    struct summary_range *ranges; /* all frames that may name it lie in these: ascending, apart from each other */
};
/* Where records of the segment `base` may name what was hashed; hash 0: anything, so one range. 0; 1: there is no
 * summary, or what had to be read of it is damaged or of another version; negative errno. Unless it is 0 there is
 * nothing to free. */
int summary_ask(struct summary_answer *out, const struct disk *disk, const char *directory, uint64_t base,
                uint64_t hash);
int summary_ask_log(struct summary_answer *out, const struct log *log, uint64_t base, uint64_t hash);
void summary_answer_deinit(struct summary_answer *answer); /* harmless when done twice, or to one of zeros */

#endif
