/* outgoing_read.h: data that must be read before a message is sent: contents of deliveries and of Get replies, and
 * replies recorded earlier (ONCE-1).
 *
 * A delivery takes these steps. Its contents are read. Its records become durable. If a content was erased meanwhile,
 * the contents are read again. outgoing_drop_overdue removes the tasks whose leases have ended. The message is sent.
 *
 * A content is in the log, or, after its segment was retired, in the index. Its checksum is always verified; a content
 * with a wrong checksum is never sent (LOG-5). A content that was redacted after it was read is not sent. A task whose
 * content was removed when the task ended is not sent either.
 *
 * Functions return 0, 1 (the content is gone or the reply forgotten; this is no error) or a negative error:
 * LOG_DAMAGED, -ENOMEM, -ECANCELED (the broker stops, so the message may not be sent), or the source's error. Any
 * thread, each with its own arena, which keeps all data that was read. */
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

/* The source of contents; the caller supplies its functions. */
struct outgoing_source {
    void *context;
    /* Reads `size` bytes of the log. Returns 0 or a negative error. LOG_RETIRED means that the segment was retired: the
     * last transaction of the index moved the bytes into the index. */
    int (*read_log)(void *context, uint64_t position, void *out, size_t size);
    /* Read the packed reply of a commit, or a task's content with its salt, from the index into the arena. Return 0, 1
     * or a negative error. */
    int (*read_result)(void *context, const struct core_reply *reply, struct arena *arena, void **out,
                       size_t *out_size);
    int (*read_blob)(void *context, const struct row *row, struct arena *arena, void **out, size_t *out_size);
    /* Announces that these tasks' contents are read next, at most OUTGOING_PREFETCH_MAX. NULL: this source needs no
     * announcement. */
    void (*prefetch)(void *context, const struct core_delivered *tasks, size_t count);
    /* Returns the number of contents erased until now. */
    uint64_t (*erasures)(void *context);
    /* Waits until a message that depends on the log up to `after` may be sent (LOG-1), and returns true. Returns false
     * if the broker stops, so the message may never be sent. */
    bool (*wait)(void *context, uint64_t after);
};

/* Tasks to deliver; the first `count` entries of each array are valid. */
struct outgoing_contents {
    const struct core_delivered **tasks;
    ProtobufCBinaryData *contents; /* packed contents, without their salt */
    size_t count;
    size_t gone;      /* number of tasks left out, because their contents are gone */
    uint64_t gone_id; /* id of the last task that was left out */
};

/* Reads all contents of the delivery; returns when its message may be sent. */
int outgoing_read_delivery(const struct outgoing_source *source, struct arena *arena,
                           const struct core_delivery *delivery, struct outgoing_contents *out);
/* Removes tasks whose lease has ended at `now_ms` (logical steady clock), because another consumer may have them.
 * Returns their number. */
size_t outgoing_drop_overdue(struct outgoing_contents *contents, uint64_t now_ms);
/* Reads the content of a reply with reply->content; returns when the reply may be sent. Returns 1 if the task has ended
 * and its content is gone; the rest of the reply is still correct, and `out` is empty. */
int outgoing_read_content(const struct outgoing_source *source, struct arena *arena, const struct core_reply *reply,
                          ProtobufCBinaryData *out);
/* Reads the packed CommitReply of a reply with reply->repeat_position. Returns 1 if it is forgotten. */
int outgoing_read_repeat(const struct outgoing_source *source, struct arena *arena, const struct core_reply *reply,
                         ProtobufCBinaryData *out);

#endif
