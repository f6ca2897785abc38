/* outgoing_read.h: data that must be read before a message leaves: contents of deliveries and of Get replies, and
 * replies recorded earlier (ONCE-1).
 *
 *   delivery ─► contents ─► its records are durable ─► erased meanwhile? then again ─► outgoing_drop_overdue ─► leaves
 *
 * A content lies in the log, and after its segment was retired in the index. Its checksum is always verified; a content
 * with a wrong checksum never leaves (LOG-5). A content that was redacted after it was read does not leave (KEEP-1 asks
 * for its erasure). Nor does a task whose content was removed when the task ended.
 *
 * Functions return 0, 1 (gone or forgotten: no error) or a negative error: LOG_DAMAGED, -ENOMEM, -ECANCELED (the broker
 * stops, so it may not leave), or the source's error. Any thread, each with its own arena, which keeps all that was
 * read. */
#ifndef TARRY_ENGINE_OUTGOING_READ_H
#define TARRY_ENGINE_OUTGOING_READ_H

#include "core.h"

/* Maximum size of one read of adjacent contents, in bytes. */
#define OUTGOING_SPAN_MAX (64u << 10)
/* Contents are read together if the gap between them is at most this many bytes, or at most the size of the second
 * content. */
#define OUTGOING_GAP_MAX (2u << 10)

/* Maximum number of contents per prefetch. */
#define OUTGOING_PREFETCH_MAX 64u

/* Where contents are read from; the caller supplies it. */
struct outgoing_source {
    void *context;
    /* Returns 0, LOG_RETIRED (the index has had it since the previous transaction), or a negative error */
    int (*read_log)(void *context, uint64_t position, void *out, size_t size);
    /* Read from the index into the arena: the packed reply of a commit; a task's content with its salt. Return 0, 1 or
     * a negative error. */
    int (*read_result)(void *context, const struct core_reply *reply, struct arena *arena, void **out,
                       size_t *out_size);
    int (*read_blob)(void *context, const struct row *row, struct arena *arena, void **out, size_t *out_size);
    /* Announces that these tasks' contents are read next, at most OUTGOING_PREFETCH_MAX. NULL: not useful for this
     * source. */
    void (*prefetch)(void *context, const struct core_delivered *tasks, size_t count);
    /* Number of contents erased so far. */
    uint64_t (*erasures)(void *context);
    /* Returns true once a message that depends on the log up to `after` may leave (LOG-1). False: the broker stops, and
     * it never may. */
    bool (*wait)(void *context, uint64_t after);
};

/* Tasks to deliver; the first `count` entries of each array are valid. */
struct outgoing_contents {
    const struct core_delivered **tasks;
    ProtobufCBinaryData *contents; /* packed, without their salt */
    size_t count;
    size_t gone;      /* number of tasks left out, because their contents are gone */
    uint64_t gone_id; /* id of the last task that was left out */
};

/* Reads all contents of the delivery; returns when it may leave. */
int outgoing_read_delivery(const struct outgoing_source *source, struct arena *arena,
                           const struct core_delivery *delivery, struct outgoing_contents *out);
/* Removes tasks whose lease is over at `now_ms` (logical steady clock), because another consumer may have them. Returns
 * their number. */
size_t outgoing_drop_overdue(struct outgoing_contents *contents, uint64_t now_ms);
/* Reads the content of a reply with reply->content; returns when it may leave. 1: the task ended and its content is
 * gone; the rest of the reply is still correct, and `out` is empty. */
int outgoing_read_content(const struct outgoing_source *source, struct arena *arena, const struct core_reply *reply,
                          ProtobufCBinaryData *out);
/* Reads the packed CommitReply of a reply with reply->repeat_position. 1: it is forgotten. */
int outgoing_read_repeat(const struct outgoing_source *source, struct arena *arena, const struct core_reply *reply,
                         ProtobufCBinaryData *out);

#endif
