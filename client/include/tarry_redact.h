/* tarry_redact.h: erasing what ended tasks contained. A part of tarry.h, which includes it and has the rules on units,
 * errors and threads. */
#ifndef TARRY_REDACT_H
#define TARRY_REDACT_H

#ifndef TARRY_H
#error "include tarry.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Which tasks lose their payload and attributes, and why. */
struct tarry_redact_options {
    struct tarry_ref
        task;             /* by id; by queue and key: all that ever had it; queue alone: those scheduled in the range */
    const char *reason;   /* for the record: 1 … 255 bytes of UTF-8 */
    uint64_t from_ms;     /* queue alone: scheduled at this time or later … */
    uint64_t to_ms;       /* … and before this one; 0: no end */
    uint64_t after_id;    /* only tasks with a greater id */
    uint64_t timeout_ms;  /* of this call; 0: the client's; TARRY_FOREVER. In a commit 0: see tarry_commit_timeout */
    uint64_t reserved[6]; /* 0 */
};

/* Erases for good what ended tasks contained (payload, attributes, salt) from the broker's log, archive and index, and
 * records the requester and the reason. Blocking, from any thread; the return value is result->code; `out_result` may
 * be NULL.
 *
 * TARRY_OK, outcome TARRY_REDACTED: `count` tasks were found that had ended and were not redacted yet, 1,024 at most;
 * of a range of time, `left` live ones were left alone. `id` and `at_ms` are those of the last task looked at: ask
 * again with after_id = id (and from_ms = at_ms, of a range) until id is not above after_id. The record is durable
 * then, the erasure under way: it is done once tarry_broker_stats.erased is above `job` (0: it is done), also if the
 * broker is killed meanwhile.
 * TARRY_NOT_DONE: a task of this name is live or dead (`outcome` says which), or none is in log or archive.
 * TARRY_NO_SUCH_QUEUE, TARRY_INVALID. TARRY_FAILED: log or archive could not be read. */
TARRY_API int tarry_redact(tarry_client *client, const struct tarry_redact_options *options,
                           struct tarry_result *out_result);
/* The same as an operation of a commit, which has 64 of them at most. */
TARRY_API int tarry_commit_redact(tarry_commit *commit, const struct tarry_redact_options *options);

#ifdef __cplusplus
}
#endif

#endif
