/* tarry_consume.h: getting what falls due, and what becomes of it. A part of tarry.h, which includes it and has the
 * rules on units, errors and threads. */
#ifndef TARRY_CONSUME_H
#define TARRY_CONSUME_H

#ifndef TARRY_H
#error "include tarry.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A delivery. Owned by the library; valid until tarry_task_free (or, in a handler, until it returns). */
struct tarry_task {
    uint64_t id;
    const char *queue;
    const char *key; /* terminated by a 0 that key_size does not count; NULL: none */
    size_t key_size;
    uint64_t due_ms;
    uint64_t delivered_ms;      /* the broker's clock when it was sent */
    uint64_t received_ms;       /* this machine's CLOCK_REALTIME when it came */
    uint64_t lease_deadline_ms; /* the broker's clock; settle or extend before */
    uint32_t attempt;           /* from 1 */
    uint32_t deliveries;        /* this one included */
    struct tarry_token token;
    uint32_t priority;
    const struct tarry_attribute *attributes;
    size_t attribute_count;
    const void *payload; /* not terminated; never NULL */
    size_t payload_size;
};

typedef struct tarry_consumer tarry_consumer;
/* What a handler wants done with the task that it was given. */
enum tarry_verdict {
    TARRY_DO_ACK = 0,
    TARRY_DO_NACK = 1,    /* again, as struct tarry_nack_details says */
    TARRY_DO_RELEASE = 2, /* back to the broker, unseen */
    TARRY_DO_NOTHING = 3  /* the handler has settled it, or another thread will by id and token */
};
/* What TARRY_DO_NACK means. The library's: zeroed before each call of the handler, which fills in what it likes. */
struct tarry_nack_details {
    bool has_delay; /* otherwise the queue's backoff decides */
    uint64_t delay_ms;
    bool dead;        /* straight to the dead letters */
    char reason[256]; /* UTF-8, for the record and the dead letter; "": none. Cut between characters to what fits */
};
typedef enum tarry_verdict (*tarry_handler_fn)(void *arg, tarry_consumer *consumer, const struct tarry_task *task,
                                               struct tarry_nack_details *nack);
/* What came of a handler's verdict: once for each but TARRY_DO_NOTHING. TARRY_STALE_TOKEN, say: the lease had run out,
 * and another consumer has the task, or had it. On the client's own thread, as completions, or on the handler's if
 * nothing could be sent. `task` and `result` are valid until it returns. It may submit; it must not make blocking
 * calls. */
typedef void (*tarry_settled_fn)(void *arg, const struct tarry_task *task, const struct tarry_result *result);
struct tarry_consumer_options {
    const char *const *queues;
    size_t queue_count; /* 1 … 256 */
    uint32_t prefetch;  /* unacknowledged tasks at most; 0: the broker's default (256) */
    uint32_t max_batch; /* tasks in one message at most; 0: the broker's default */
    uint64_t lease_ms;  /* 0: the queue's own */
    /* NULL: tasks are fetched with tarry_consumer_next. Otherwise the consumer runs a thread of its own that calls the
     * handler, one task at a time. The handler may make blocking calls; it cannot close its consumer. */
    tarry_handler_fn handler;
    void *arg;                /* the handler's, and of `settled` */
    tarry_settled_fn settled; /* NULL: what came of the handler's verdicts is not wanted */
    uint64_t timeout_ms;  /* of its opening; 0: the client's; TARRY_FOREVER: until a broker has accepted or refused */
    uint64_t reserved[6]; /* 0 */
};

/* Subscribes and waits for the broker's word. `options` is copied. While it is open the consumer keeps its session
 * alive by itself; when the broker is lost it subscribes again and resumes its session, so that leases and tokens stay
 * good if the broker comes back within seconds; what cannot be resumed and was not handed out yet is forgotten here and
 * comes again. Deliveries of other sessions are dropped. TARRY_INVALID, _NO_SUCH_QUEUE, _E_TIMEOUT, _E_NO_BROKER … */
TARRY_API TARRY_MUST_USE int tarry_consumer_open(tarry_client *client, const struct tarry_consumer_options *options,
                                                 tarry_consumer **out_consumer, char out_message[TARRY_MESSAGE_SIZE]);

/* The next delivery. Waits up to wait_ms (0: what is here already; TARRY_FOREVER), TARRY_E_NOTHING after it.
 * TARRY_E_WOKEN after tarry_consumer_wake. TARRY_E_TIMEOUT when no broker has answered for the client's timeout_ms: the
 * consumer goes on trying, so the call may be repeated. The caller frees *out_task, whatever it does with the lease.
 * Several threads may share a consumer. TARRY_E_ARGUMENT if there is a handler; TARRY_E_CALLBACK from a
 * completion callback, unless wait_ms is 0. */
TARRY_API TARRY_MUST_USE int tarry_consumer_next(tarry_consumer *consumer, uint64_t wait_ms,
                                                 const struct tarry_task **out_task);
/* As above, but takes up to `max` tasks that are there, waiting only for the first. */
TARRY_API TARRY_MUST_USE int tarry_consumer_next_batch(tarry_consumer *consumer, uint64_t wait_ms,
                                                       const struct tarry_task **out_tasks, size_t max,
                                                       size_t *out_count);
TARRY_API void tarry_task_free(const struct tarry_task *task);

/* Makes one waiting (or the next) tarry_consumer_next return TARRY_E_WOKEN. Not from a signal handler. */
TARRY_API void tarry_consumer_wake(tarry_consumer *consumer);
/* The session's number, as results name it; 0 while it is being subscribed again. */
TARRY_API uint64_t tarry_consumer_session(tarry_consumer *consumer);

/* Settling goes by id and token, on any client: tarry_ack_async(client, task->id, task->token, NULL, NULL, NULL) … */

enum tarry_close_flag {
    TARRY_KEEP_LEASES = 1 /* tasks handed out and not settled stay leased until settled by token or their deadline */
};
/* Stops the handler's thread (after the task that it is at; `settled` has been called for all by the end), waits for
 * the answers to what settles leases, releases what was not handed out, and ends the session; from when the handler has
 * returned, this takes at most the timeout of `call`, or of the client (as long again if its verdict found no room in
 * the client's own queue): a verdict that is not answered by then is told as TARRY_E_TIMEOUT. What was handed out and
 * not settled is ready again at once and has cost an attempt, unless TARRY_KEEP_LEASES. `flags`: bits, 0 for none.
 * Frees the consumer; tasks not freed yet stay valid. NULL is fine. TARRY_E_CALLBACK (from its handler or a completion
 * callback), TARRY_E_FORKED: nothing is done. Any other code: it is closed and freed, but the broker has not confirmed
 * it; what it held comes again once that misses it. */
TARRY_API int tarry_consumer_close(tarry_consumer *consumer, uint32_t flags, const struct tarry_call *call);

#ifdef __cplusplus
}
#endif

#endif
