/* erasures.h: checks that every erased content has a redaction in the log. A reader of the log notes each erased
 * content. A later redaction record must name exactly that content. A content without redaction at the end was erased
 * without a record: damage, or a manual edit.
 *
 * Memory: 64 bytes per noted content until its redaction is read. Not thread-safe. */
#ifndef TARRY_STORAGE_ERASURES_H
#define TARRY_STORAGE_ERASURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "tarry.pb-c.h"

/* File in a data directory. It lists the redactions whose content must still be erased in the archive and in
 * quarantined segments (FORMAT.md). */
#define UNERASED_NAME "unerased"

struct erasure_noted {
    uint64_t blob_at;
    uint64_t id;
    uint32_t blob_size;
    bool is_whole; /* true: the whole content is zeros */
    uint8_t content_hash[CONTENT_HASH_SIZE];
};

struct erasures {
    struct erasure_noted *noted; /* sorted by blob_at; contents with a redaction have blob_size 0 */
    size_t count;
    size_t room;
    size_t explained;
};

/* State of a content in the log. */
enum content_state {
    CONTENT_RIGHT,
    CONTENT_ERASED,  /* the frame has FRAME_FLAG_ERASED, and the content is zeros */
    CONTENT_PARTLY,  /* the frame has FRAME_FLAG_ERASED, and the content is partly erased: a kill during the erasure */
    CONTENT_DAMAGED, /* the content is wrong in another way */
};
/* Returns the state of the content that `put` refers to, in the frame's blob area `blob`. Returns CONTENT_RIGHT if
 * `put` does not create its task (`fresh` is false), or if the task has no content. */
enum content_state content_state(const struct frame_header *header, const uint8_t *blob, const Tarry__TaskPut *put);

/* Frees the set's memory. A zeroed set is empty. */
void erasures_deinit(struct erasures *erasures);
/* Notes a content in state CONTENT_ERASED or CONTENT_PARTLY. Call it in log order. 0 or -ENOMEM. */
int erasures_note(struct erasures *erasures, const Tarry__TaskPut *put, enum content_state state);
/* Matches a redaction record with the noted contents. `is_under_way`: the index says that the redaction has not been
 * completed, so a partly erased content is not an error and matches. */
void erasures_explain(struct erasures *erasures, const Tarry__Redaction *redaction, bool is_under_way);
/* Returns the first noted content without a redaction; NULL: every one has a redaction. */
const struct erasure_noted *erasures_unexplained(const struct erasures *erasures);

#endif
