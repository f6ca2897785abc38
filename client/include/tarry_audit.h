/* tarry_audit.h: reading the broker's log, frame by frame, while the broker runs. Part of tarry.h, which includes it
 * and has the rules on units, errors and threads.
 *
 * The body of a frame is a protobuf message, tarry.FrameBody, so any language can read it. Its definition is
 * installed: `pkg-config --variable=proto tarry` prints the path of the file. In C, use protobuf-c (and
 * -lprotobuf-c):
 *
 *     protoc-c --proto_path=$(dirname $FILE) --c_out=. $FILE      # writes tarry.pb-c.h and tarry.pb-c.c
 *
 *     #include <stdio.h>
 *     #include <tarry.h>
 *     #include "tarry.pb-c.h"
 *
 *     int print_what_happened_to_order_1(tarry_client *client) {
 *         struct tarry_ref order = {.queue = "close-order", .key = "order-1"};
 *         struct tarry_audit_options options = {.task = &order};
 *         const struct tarry_frame *frame;
 *         char message[TARRY_MESSAGE_SIZE];
 *         tarry_audit *audit;
 *         int code = tarry_audit_open(client, &options, &audit);
 *         if (code != TARRY_OK) return code;
 *         while ((code = tarry_audit_next(audit, TARRY_FOREVER, &frame, message)) == TARRY_OK) {
 *             Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, frame->body_size, frame->body);
 *             for (size_t i = 0; body != NULL && i < body->n_records; i++)
 *                 printf("%llu: fact %d\n", (unsigned long long)frame->position, (int)body->records[i]->fact_case);
 *             if (body != NULL) tarry__frame_body__free_unpacked(body, NULL);
 *         }
 *         if (code != TARRY_E_END) fprintf(stderr, "%s\n", message);
 *         tarry_audit_close(audit);
 *         return code == TARRY_E_END ? TARRY_OK : code;
 *     } */
#ifndef TARRY_AUDIT_H
#define TARRY_AUDIT_H

#ifndef TARRY_H
#error "include tarry.h before this header"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One frame of the log: the changes of one commit, or changes that the broker made by itself (leases, starts, …).
 * Payloads and attributes of tasks are not included. The audit owns the frame; it is valid until the next call on
 * the audit.
 *
 * The body is a packed tarry.FrameBody (see above). Header and body are the bytes of the log. The library has
 * verified their checksums, and also the hash chain between neighbouring frames (storage/FORMAT.md has the layout). */
struct tarry_frame {
    uint64_t position; /* log position of the frame's first byte */
    /* log position of the next frame; usable as tarry_audit_options.position, also after a restart */
    uint64_t end;
    uint32_t epoch;       /* epoch of the broker that wrote the frame; it grows with each start */
    uint64_t steady_ns;   /* broker's clock for delays, Unix nanoseconds; the tools print this time */
    uint64_t wall_ns;     /* broker's clock for absolute times, Unix nanoseconds */
    const uint8_t *chain; /* chain value of this frame, 32 bytes: BLAKE2b-256 hash over this frame and the previous
                             frame's chain value */
    const void *header;
    size_t header_size; /* always 112 */
    const void *body;
    size_t body_size; /* 0: a seal, which only confirms that all frames before it are durable */
};

/* Options of tarry_audit_open. 0, false and NULL mean the default. */
struct tarry_audit_options {
    uint64_t position; /* log position at which to start: a frame's own position, or the previous frame's
                          `tarry_frame.end`; 0: the oldest frame */
    bool at_end;       /* start at the end of the log instead: only new frames */
    bool follow;       /* at the end of the log, wait for new frames */
    uint64_t from_ms;  /* skip frames before this time */
    uint64_t to_ms;    /* skip frames at or after this time; 0: no end */
    /* Skip frames that contain only changes of other tasks. A task by key means all tasks that ever had this key in
     * this queue. NULL: skip none. The broker applies this filter; the program must do any other filtering itself. */
    const struct tarry_ref *task;
    /* Requirements for each request of a result page. `at_least`: all frames below this log position that match are
     * returned. While a follower lacks frames, tarry_audit_next waits; after the client's timeout_ms it returns
     * TARRY_BEHIND, and may be called again. `staleness_ms`: if the follower's data are too old, tarry_audit_next
     * returns TARRY_TOO_OLD. `timeout_ms` must be 0, because tarry_audit_next has `wait_ms` instead. */
    struct tarry_call call;
    uint64_t reserved[6]; /* for later versions; must be 0 */
};

/* Reader of the log. One thread at a time may use it, except for tarry_audit_wake. */
typedef struct tarry_audit tarry_audit;

/* Opens a reader. No request is sent yet. `options` (NULL: the whole log) is copied. The caller closes *out_audit.
 * TARRY_E_ARGUMENT, _NOMEM, _VERSION. */
TARRY_API TARRY_MUST_USE int tarry_audit_open(tarry_client *client, const struct tarry_audit_options *options,
                                              tarry_audit **out_audit);

/* Returns the next durable frame, in log order. Waits up to wait_ms for it. With wait_ms 0 it does not wait: it returns
 * only a frame that has arrived already, and requests more. TARRY_FOREVER: no limit. TARRY_E_NOTHING: no frame arrived
 * within wait_ms; call again. `out_message` may be NULL.
 *
 *   TARRY_E_END    there are no more frames: all frames that were durable at the first request have been returned;
 *                  never with `follow`
 *   TARRY_E_GAP    frames are missing here: retired, pruned, or damaged in the archive. `out_message` has the
 *                  positions and the reason. The next call continues after them.
 *   TARRY_E_WOKEN  another thread called tarry_audit_wake
 *   TARRY_INVALID  `position` is not the position of a frame, or the log is damaged there
 *   TARRY_E_TIMEOUT, TARRY_E_NO_BROKER  no broker replied for the client's timeout_ms. The call may be repeated and
 *                                       continues where it stopped; positions stay valid when the broker restarts.
 *   TARRY_E_PROTOCOL  a checksum, the hash chain or the order is wrong; the call must not be repeated */
TARRY_API TARRY_MUST_USE int tarry_audit_next(tarry_audit *audit, uint64_t wait_ms,
                                              const struct tarry_frame **out_frame,
                                              char out_message[TARRY_MESSAGE_SIZE]);

/* Makes one waiting tarry_audit_next, or else the next call, return TARRY_E_WOKEN. No frame is lost. Any thread, but
 * not a signal handler. */
TARRY_API void tarry_audit_wake(tarry_audit *audit);

/* Returns the name of a queue that records refer to by number. NULL: no frame so far has defined the number. Valid
 * until the audit is closed. */
TARRY_API const char *tarry_audit_queue(const tarry_audit *audit, uint32_t number);

/* Progress of an audit. Positions count bytes of the log. */
struct tarry_audit_view {
    uint64_t position;  /* all matching frames before this position have been returned */
    uint64_t log_start; /* position of the oldest frame in the log, without the archive */
    uint64_t durable;   /* end of the durable log at the last reply */
    uint64_t segments_read;
    uint64_t segments_skipped; /* segments that the broker skipped, because their summaries show no matching frame */
    uint64_t queues;           /* number of queue names known so far (tarry_audit_queue) */
    /* number of gaps (missing frames) found so far */
    uint64_t gaps;
    uint64_t gaps_damaged;      /* number of gaps that a damaged archive caused */
    struct tarry_source source; /* node that answered the last page request */
    uint64_t reserved[6];       /* always 0 */
};
/* Fills in *out_view. No request is sent. */
TARRY_API void tarry_audit_look(const tarry_audit *audit, struct tarry_audit_view *out_view);

/* Closes the audit without waiting. NULL is allowed. The reply to a pending request is discarded. */
TARRY_API void tarry_audit_close(tarry_audit *audit);

#ifdef __cplusplus
}
#endif

#endif
