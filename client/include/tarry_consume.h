/* tarry_consume.h: consumers, which receive due tasks and settle them (ack, nack, extend, release). Part of tarry.h,
 * which includes it and has the rules on units, errors and threads. */
#ifndef TARRY_CONSUME_H
#define TARRY_CONSUME_H

#ifndef TARRY_H
#error "include tarry.h before this header"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One delivery of a task. The library owns it. It is valid until tarry_task_free, or in a handler until the handler
 * returns. */
struct tarry_task {
    uint64_t id;
    const char *queue;
    const char *key; /* ends with a 0 that key_size does not count; NULL: no key */
    size_t key_size;
    uint64_t due_ms;
    uint64_t delivered_ms;      /* when the broker sent it, by the broker's clock */
    uint64_t received_ms;       /* when the library received it, by this machine's CLOCK_REALTIME */
    uint64_t lease_deadline_ms; /* end of the lease, by the broker's clock; settle or extend the task before it */
    uint32_t attempt;           /* number of this delivery attempt, from 1 */
    uint32_t deliveries;        /* number of deliveries so far, with this one */
    struct tarry_token token;
    uint32_t priority;
    const struct tarry_attribute *attributes;
    size_t attribute_count;
    const void *payload; /* without a final 0; never NULL */
    size_t payload_size;
    const void *properties; /* properties of another protocol's message, such as AMQP; NULL: none */
    size_t properties_size;
};

/* Subscription to one or more queues. Its functions are thread-safe unless their comments say otherwise. */
typedef struct tarry_consumer tarry_consumer;
/* Action that the consumer takes on a task after its handler returns. */
enum tarry_verdict {
    TARRY_DO_ACK = 0,
    TARRY_DO_NACK = 1,    /* deliver again, as struct tarry_nack_details says */
    TARRY_DO_RELEASE = 2, /* give back without charging an attempt */
    TARRY_DO_NOTHING =
        3 /* do nothing: the handler has settled the task, or another thread will settle it by id and token */
};
/* Details of TARRY_DO_NACK. The library sets them to zero before each call of the handler, and the handler fills
 * them in. */
struct tarry_nack_details {
    bool has_delay; /* true: redeliver after delay_ms; false: after the queue's backoff */
    uint64_t delay_ms;
    bool dead;        /* move the task to the dead letters now */
    char reason[256]; /* UTF-8 reason for the record and the dead letter, cut at a character; "": none */
};
typedef enum tarry_verdict (*tarry_handler_fn)(void *arg, tarry_consumer *consumer, const struct tarry_task *task,
                                               struct tarry_nack_details *nack);
/* Receives the broker's answer to the verdict (enum tarry_verdict) that a handler returned. It is called once for each
 * verdict but TARRY_DO_NOTHING. Example: TARRY_STALE_TOKEN means that the lease had expired and the task was ready for
 * other consumers. Runs on the client's own thread like completion callbacks, or on the handler's thread if nothing
 * could be sent. `task` and `result` are valid until the callback returns. The callback may submit operations but must
 * not make blocking calls. */
typedef void (*tarry_settled_fn)(void *arg, const struct tarry_task *task, const struct tarry_result *result);
/* Options of tarry_consumer_open. 0 and NULL mean the default, except for the queues. */
struct tarry_consumer_options {
    const char *const *queues;
    size_t queue_count; /* number of queues, 1 … 256 */
    uint32_t prefetch;  /* limit of unsettled tasks at this consumer; 0: the broker's default (256) */
    uint32_t max_batch; /* limit of tasks in one message; 0: the broker's default */
    uint64_t lease_ms;  /* lease duration; 0: that of the queue's policy */
    /* NULL: the program fetches tasks with tarry_consumer_next. Otherwise the consumer starts a thread that calls
     * the handler for one task at a time. The handler may make blocking calls. It cannot close its consumer. */
    tarry_handler_fn handler;
    void *arg; /* passed to `handler` and `settled` */
    /* receives the broker's answer to each verdict of the handler; NULL: the answers are not reported */
    tarry_settled_fn settled;
    /* Limits tarry_consumer_open; TARRY_FOREVER: waits until a broker accepts or refuses the consumer. */
    struct tarry_call call;
    uint64_t reserved[6]; /* for later versions; must be 0 */
};

/* Subscribes to the queues and waits for the broker's reply. `options` is copied. The caller closes *out_consumer.
 *
 * The consumer sends heartbeats to keep its session alive. If the connection breaks, it subscribes again and resumes
 * its session. Leases and tokens stay valid if the broker is back within seconds. If the session cannot be resumed,
 * the consumer discards the tasks that it has not handed out, and the broker delivers them again. It drops
 * deliveries that belong to other sessions.
 *
 * TARRY_INVALID, _NO_SUCH_QUEUE, _E_TIMEOUT, _E_NO_BROKER … */
TARRY_API TARRY_MUST_USE int tarry_consumer_open(tarry_client *client, const struct tarry_consumer_options *options,
                                                 tarry_consumer **out_consumer, char out_message[TARRY_MESSAGE_SIZE]);

/* Waits up to wait_ms for the next delivery. With wait_ms 0 it does not wait, and returns only a delivery that has
 * arrived already. TARRY_FOREVER: no limit. The caller frees *out_task, however it settles the lease. Several threads
 * may call this on one consumer.
 *
 *   TARRY_E_NOTHING   no delivery arrived within wait_ms
 *   TARRY_E_WOKEN     another thread called tarry_consumer_wake
 *   TARRY_E_TIMEOUT   no broker replied for the client's timeout_ms; the consumer keeps trying, so call again
 *   TARRY_E_ARGUMENT  the consumer has a handler
 *   TARRY_E_CALLBACK  called from a completion callback with a wait_ms other than 0 */
TARRY_API TARRY_MUST_USE int tarry_consumer_next(tarry_consumer *consumer, uint64_t wait_ms,
                                                 const struct tarry_task **out_task);
/* Waits like tarry_consumer_next for one task. Returns this task and further tasks that have already arrived, at most
 * `max` in all. The caller frees each task. */
TARRY_API TARRY_MUST_USE int tarry_consumer_next_batch(tarry_consumer *consumer, uint64_t wait_ms,
                                                       const struct tarry_task **out_tasks, size_t max,
                                                       size_t *out_count);
/* Frees a task that tarry_consumer_next returned. Any thread, also after the consumer was closed. Does not settle
 * the task. */
TARRY_API void tarry_task_free(const struct tarry_task *task);

/* Makes one waiting tarry_consumer_next, or else the next call, return TARRY_E_WOKEN. Any thread, but not a signal
 * handler. */
TARRY_API void tarry_consumer_wake(tarry_consumer *consumer);
/* Returns the session's number, as in tarry_result.session; 0 while the consumer subscribes again. Any thread. */
TARRY_API uint64_t tarry_consumer_session(tarry_consumer *consumer);

/* A task is settled by its id and token, on any client: tarry_ack_async(client, task->id, task->token, NULL, NULL,
 * NULL) … */

/* Bits for tarry_consumer_close. */
enum tarry_close_flag {
    TARRY_KEEP_LEASES = 1 /* keep the leases of unsettled tasks until they are settled by token or expire */
};
/* Closes and frees the consumer. NULL is allowed. Tasks that are not freed yet stay valid. `flags`: bits of enum
 * tarry_close_flag, or 0.
 *
 * The function stops the handler's thread after the handler's current task. Then it waits for the answers to verdicts,
 * releases the tasks that were not handed out, and ends the session. `settled` has been called for every verdict before
 * the function returns. Tasks that were handed out and not settled become ready at once and are charged an attempt,
 * unless TARRY_KEEP_LEASES is set.
 *
 * After the handler has returned, the function takes at most the timeout of `call`, or of the client. It may take twice
 * that if the last verdict found the client's queue full. If a verdict has no answer when the function returns,
 * `settled` gets TARRY_E_TIMEOUT for it.
 *
 * TARRY_E_CALLBACK (from its handler or a completion callback), TARRY_E_FORKED: nothing was done. Any other code: the
 * consumer is closed and freed, but the broker has not confirmed it. Without heartbeats from the consumer, the broker
 * soon ends the session and delivers the unsettled tasks again. */
TARRY_API int tarry_consumer_close(tarry_consumer *consumer, uint32_t flags, const struct tarry_call *call);

#ifdef __cplusplus
}
#endif

#endif
