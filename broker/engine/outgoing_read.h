/* outgoing_read.h: what must be read before something leaves: the contents of deliveries and of Get answers, and
 * answers that were recorded before (ONCE-1).
 *
 *   delivery ─► contents ─► what it rests on is durable ─► erased meanwhile? once more ─► outgoing_drop_overdue ─►
 * leaves
 *
 * A content lies in the log, and in the index once its segment is retired; wherever it lies, its checksum is compared,
 * and nothing leaves that does not have it (LOG-5). What has been redacted since it was read does not leave (KEEP-1
 * asks for its erasure), nor does a task whose content went with its ending.
 *
 * Functions give 0, 1 (it is gone, or forgotten: no fault) or what went wrong, negative: LOG_DAMAGED, -ENOMEM,
 * -ECANCELED (the broker stops, and it may not leave), or what the source said. Any thread, each with an arena of its
 * own, in which all that was read stays. */
#ifndef TARRY_ENGINE_OUTGOING_READ_H
#define TARRY_ENGINE_OUTGOING_READ_H

#include "core.h"

/* Contents that lie behind one another are read so much at a time … */
#define OUTGOING_SPAN_MAX (64u << 10)
/* … with so much between two of them, or as much as the second one takes. */
#define OUTGOING_GAP_MAX (2u << 10)

/* So many contents are prefetched at once. */
#define OUTGOING_PREFETCH_MAX 64u

/* Where it is read from: the hand's. */
struct outgoing_source {
    void *context;
    /* 0, LOG_RETIRED (the index has had it since the transaction before), or negative */
    int (*read_log)(void *context, uint64_t position, void *out, size_t size);
    /* From the index, into the arena: the packed answer of a commit; a task's content with its salt. 0, 1, negative. */
    int (*read_result)(void *context, const struct core_reply *reply, struct arena *arena, void **out,
                       size_t *out_size);
    int (*read_blob)(void *context, const struct row *row, struct arena *arena, void **out, size_t *out_size);
    /* These tasks' contents are read next, OUTGOING_PREFETCH_MAX at most. NULL: the source has no use for that. */
    void (*prefetch)(void *context, const struct core_delivered *tasks, size_t count);
    /* So many contents were erased until now. */
    uint64_t (*erasures)(void *context);
    /* Returns once what has `after` for its end may leave (LOG-1). False: the broker stops, and it never may. */
    bool (*wait)(void *context, uint64_t after);
};

/* What is delivered: the first `count` of each. */
struct outgoing_contents {
    const struct core_delivered **tasks;
    ProtobufCBinaryData *contents; /* packed, without their salt */
    size_t count;
    size_t gone;      /* so many were left out, for their contents are gone, … */
    uint64_t gone_id; /* … this one last */
};

/* All contents of it; returns when it may leave. */
int outgoing_read_delivery(const struct outgoing_source *source, struct arena *arena,
                           const struct core_delivery *delivery, struct outgoing_contents *out);
/* Leaves out what is no longer leased at `now_ms` of the logical steady clock: it may be another consumer's by now.
 * Gives how many these were. */
size_t outgoing_drop_overdue(struct outgoing_contents *contents, uint64_t now_ms);
/* Of an answer with reply->content; returns when it may leave. 1: its task ended and its content is gone; the rest of
 * the answer is still true, and `out` is empty. */
int outgoing_read_content(const struct outgoing_source *source, struct arena *arena, const struct core_reply *reply,
                          ProtobufCBinaryData *out);
/* The packed CommitReply of an answer with reply->repeat_position. 1: it is forgotten. */
int outgoing_read_repeat(const struct outgoing_source *source, struct arena *arena, const struct core_reply *reply,
                         ProtobufCBinaryData *out);

#endif
