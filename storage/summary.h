/* summary.h: what a closed segment of the log holds, in brief, so that a question about one task or one hour need not
 * read it: its times, and a filter over the ids and keys of the tasks that its records name.
 *
 * File: DIR/log/<base>.sum beside the segment (FORMAT.md). It is derived, and made by whoever reads the whole
 * segment: the index thread as it goes. It may be missing, or be deleted, at any time; it is
 * not synced, and what is wrong in it is found by its sums. Nothing but skipping rests on it: "certainly not here".
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

struct summary {
    uint64_t base;
    uint64_t end;      /* one past the last frame taken in */
    uint64_t first_ns; /* logical steady times of the first and the last frame; void while end == base */
    uint64_t last_ns;
    uint64_t records;
    uint64_t blocks;
    uint64_t *filter;
};

/* For a segment with room for `capacity` bytes of frames; its filter takes a 32nd of that. NULL: out of memory. */
struct summary *summary_new(uint64_t base, uint64_t capacity);
void summary_free(struct summary *summary); /* NULL is fine */

/* The next frame of the segment. `body` NULL: a seal. */
void summary_add(struct summary *summary, const struct frame_header *header, const Tarry__FrameBody *body);

/* Writes it beside its segment, by way of a temporary name. 0 or a negative errno; a failure leaves nothing but the
 * temporary file, and costs nothing but time later. */
int summary_write(const struct summary *summary, const struct log *log);
/* Reads it. 0; 1: there is none, or it is damaged or of another version; negative errno. */
int summary_read(struct summary **out, const struct log *log, uint64_t base);
/* Deletes it, if it is there. */
void summary_delete(const struct log *log, uint64_t base);

/* Hashes to ask with: of a task's id, and of a key in a queue (by number). */
uint64_t summary_task_hash(uint64_t id);
uint64_t summary_key_hash(uint32_t queue, const void *key, size_t key_size);
/* False: certainly no record of the segment names it. */
bool summary_may_name(const struct summary *summary, uint64_t hash);

#endif
