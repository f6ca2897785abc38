/* tarry_redact.h: erasing the contents of ended tasks. Part of tarry.h, which includes it and has the rules on
 * units, errors and threads. */
#ifndef TARRY_REDACT_H
#define TARRY_REDACT_H

#ifndef TARRY_H
#error "include tarry.h before this header"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Options of tarry_redact: the tasks whose payload and attributes are erased, and the reason. */
struct tarry_redact_options {
    /* The tasks to redact: one task by id; or all tasks, present and past, with this queue and key; or with a queue
     * alone, the tasks of a time range. */
    struct tarry_ref task;
    const char *reason; /* reason for the record: 1 … 255 bytes of UTF-8 */
    uint64_t from_ms;   /* for a reference with a queue only: redact tasks scheduled at this time or later */
    uint64_t to_ms;     /* for a reference with a queue only: redact tasks scheduled before this time; 0: no end */
    uint64_t after_id;  /* redact only tasks with a greater id than this */
    /* In tarry_commit_redact it must be all 0, because the commit's own `call` holds for all its operations. */
    struct tarry_call call;
    uint64_t reserved[6]; /* for later versions; must be 0 */
};

/* Erases the contents of ended tasks (payload, attributes, salt) from the broker's log, archive and index. The erasure
 * cannot be undone. The broker records the requester and the reason. Blocks; any thread but callbacks. Returns
 * result->code. `out_result` may be NULL.
 *
 * TARRY_OK with outcome TARRY_REDACTED: the request is durable, and the erasure has begun. The erasure is complete when
 * tarry_broker_stats.erased is greater than `job`, even if the broker was killed meanwhile. If `job` is 0, the erasure
 * is already complete.
 *
 * One call redacts at most 1,024 tasks: `count` is their number. For a time range, `left` is the number of live tasks,
 * which were not redacted. `id` and `at_ms` are those of the last task that was examined. Call again with after_id = id
 * (and from_ms = at_ms for a time range) until `id` is not greater than after_id.
 *
 * TARRY_NOT_DONE: a matching task is live or a dead letter (`outcome` says which), or the log and archive have no such
 * task. TARRY_NO_SUCH_QUEUE, TARRY_INVALID. TARRY_FAILED: the log or the archive could not be read. */
TARRY_API int tarry_redact(tarry_client *client, const struct tarry_redact_options *options,
                           struct tarry_result *out_result);
/* Adds a redaction to a commit. A commit has at most 64 of them. */
TARRY_API int tarry_commit_redact(tarry_commit *commit, const struct tarry_redact_options *options);

#ifdef __cplusplus
}
#endif

#endif
