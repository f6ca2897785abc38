/* erasures.h: is what has become zeros rightly so? Contents that are gone are noted as a reader meets them, in the
 * order of the log; the redaction that explains one comes later and must name exactly that content. What is left
 * unexplained at the end was erased without a record: damage, or an edit.
 *
 * Memory: 64 bytes a content between its place and its redaction. One owner; not thread-safe. */
#ifndef TARRY_STORAGE_ERASURES_H
#define TARRY_STORAGE_ERASURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "tarry.pb-c.h"

/* In a data directory: redactions that are to be carried out in archive and tails alone (FORMAT.md). */
#define UNERASED_NAME "unerased"

struct erasure_noted {
    uint64_t blob_at;
    uint64_t id;
    uint32_t blob_size;
    bool is_whole; /* nothing but zeros is left */
    uint8_t content_hash[CONTENT_HASH_SIZE];
};

struct erasures {
    struct erasure_noted *noted; /* by blob_at; explained ones have size 0 */
    size_t count;
    size_t room;
    size_t explained;
};

/* What became of a content. */
enum content_state {
    CONTENT_RIGHT,
    CONTENT_ERASED,  /* its frame says that contents were erased, and this one is zeros */
    CONTENT_PARTLY,  /* … and this one is neither whole nor zeros: a kill in the middle of erasing it */
    CONTENT_DAMAGED, /* anything else */
};
/* Of the content that `put` brought, in the frame's blob area `blob`. A put that is not fresh, or has none: right. */
enum content_state content_state(const struct frame_header *header, const uint8_t *blob, const Tarry__TaskPut *put);

/* Zeroed memory is an empty set. */
void erasures_deinit(struct erasures *erasures);
/* The content of `put` is ERASED or PARTLY erased. In the order of the log. 0 or -ENOMEM. */
int erasures_note(struct erasures *erasures, const Tarry__TaskPut *put, enum content_state state);
/* A redaction was met; `is_under_way`: the index does not say that it has been carried out, so it explains what is
 * erased in part, too. */
void erasures_explain(struct erasures *erasures, const Tarry__Redaction *redaction, bool is_under_way);
/* The first one that no redaction explains; NULL: all is well. */
const struct erasure_noted *erasures_unexplained(const struct erasures *erasures);

#endif
