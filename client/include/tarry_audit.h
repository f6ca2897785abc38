/* tarry_audit.h: what happened: the broker's log, frame by frame, while it runs. A part of tarry.h, which includes it
 * and has the rules on units, errors and threads.
 *
 * What a frame says is a protobuf message, tarry.FrameBody, so any language can read it. Its definition is installed:
 * `pkg-config --variable=proto tarry` names the file. For C, with protobuf-c (and -lprotobuf-c):
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
#error "include tarry.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One frame of the log: what one commit changed, or what the broker did by itself (leases, starts, …). Contents of
 * tasks are not part of it. Owned by the audit; valid until the next call on it.
 *
 * The body is a packed tarry.FrameBody (see above). Header and body are the bytes of
 * the log; the library has compared their checksums, and the hash chain wherever two frames are neighbours
 * (storage/FORMAT.md has the tables), so what comes here is what was written. */
struct tarry_frame {
    uint64_t position;    /* log position of its first byte */
    uint64_t end;         /* … of the next frame: good for tarry_audit_options.position, also after a restart */
    uint32_t epoch;       /* which start of the broker wrote it */
    uint64_t steady_ns;   /* the broker's clock for delays; Unix nanoseconds. What the tools print */
    uint64_t wall_ns;     /* … for absolute times */
    const uint8_t *chain; /* 32 bytes: BLAKE2b-256 over this frame and, through its predecessor's, all before it */
    const void *header;
    size_t header_size; /* 112 */
    const void *body;
    size_t body_size; /* 0: a seal, which only says that everything before it is durable */
};

struct tarry_audit_options {
    uint64_t position; /* where to begin: 0, or a `tarry_frame.end` from before; 0: the oldest frame there is */
    bool at_end;       /* begin with what happens from now on, instead */
    bool follow;       /* go on at the end of the log, with what happens next */
    uint64_t from_ms;  /* frames before it are left out */
    uint64_t to_ms;    /* exclusive; 0: no end */
    /* Frames that hold nothing but changes of other tasks are left out: other than this one, or than those that had
     * this key of this queue. NULL: none are. This is what the broker can skip by; all else is yours to filter. */
    const struct tarry_ref *task;
    /* As in struct tarry_call, of each page: with at_least what is recorded below that log
     * position is told if it is asked for. While a follower does not have it, tarry_audit_next waits as for a broker:
     * TARRY_BEHIND after the client's timeout_ms, and the call may be repeated. TARRY_TOO_OLD. */
    uint64_t at_least;
    uint64_t staleness_ms;
    uint64_t reserved[6]; /* must be 0 */
};

typedef struct tarry_audit tarry_audit;

/* Asks nothing yet. `options` (NULL: the whole log) is copied. TARRY_E_ARGUMENT, _NOMEM, _VERSION. The caller closes
 * *out_audit. An audit is used by one thread at a time, save for tarry_audit_wake. */
TARRY_API TARRY_MUST_USE int tarry_audit_open(tarry_client *client, const struct tarry_audit_options *options,
                                              tarry_audit **out_audit);

/* The next frame, in the order of the log. Waits up to wait_ms for it (0: what is here already, and the question for
 * more is sent; TARRY_FOREVER), TARRY_E_NOTHING after that: call again. Only what is durable is told.
 *
 *   TARRY_E_END    that was the last one that was durable when the first was asked for; never with `follow`
 *   TARRY_E_GAP    frames are missing here: retired, pruned, or damaged in the archive. `out_message` says which
 *                  positions, and why. The next call goes on behind them.
 *   TARRY_E_WOKEN  another thread called tarry_audit_wake
 *   TARRY_INVALID  `position` is not one of a frame, or the log is damaged there
 *   TARRY_E_TIMEOUT, TARRY_E_NO_BROKER  no broker has answered for the client's timeout_ms; the call may be repeated,
 *                  and goes on where it was: positions outlive the broker's restart
 *   TARRY_E_PROTOCOL  a checksum, the chain or the order is wrong; the call may not be repeated */
TARRY_API TARRY_MUST_USE int tarry_audit_next(tarry_audit *audit, uint64_t wait_ms,
                                              const struct tarry_frame **out_frame,
                                              char out_message[TARRY_MESSAGE_SIZE]);

/* Makes one waiting (or the next) tarry_audit_next return TARRY_E_WOKEN, and loses nothing. Any thread. Not from a
 * signal handler. */
TARRY_API void tarry_audit_wake(tarry_audit *audit);

/* The name of a queue that a record of a frame so far mentions by number. NULL: none does. Valid until the audit is
 * closed. */
TARRY_API const char *tarry_audit_queue(const tarry_audit *audit, uint32_t number);

/* How far an audit has come. Positions count bytes of log. */
struct tarry_audit_view {
    uint64_t position;  /* everything before it has been handed out, or does not matter */
    uint64_t log_start; /* of the oldest frame in the log itself; an archive reaches further back */
    uint64_t durable;   /* the end of what was durable at the last answer */
    uint64_t segments_read;
    uint64_t segments_skipped; /* their summaries say that they cannot matter */
    uint64_t queues;           /* names learnt so far: see tarry_audit_queue */
    uint64_t gaps;
    uint64_t gaps_damaged;      /* of those, the ones that are damage of the archive */
    struct tarry_source source; /* of the last page */
    uint64_t reserved[6];       /* always 0 */
};
TARRY_API void tarry_audit_look(const tarry_audit *audit, struct tarry_audit_view *out_view);

/* NULL is fine. Does not wait: what was asked for is left to itself. */
TARRY_API void tarry_audit_close(tarry_audit *audit);

#ifdef __cplusplus
}
#endif

#endif
