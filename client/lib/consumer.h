/* consumer.h: internal types of a consumer, shared by consumer.c (public functions), session.c (the engine's part)
 * and delivery.c (arriving tasks). */
#ifndef TARRY_CONSUMER_H
#define TARRY_CONSUMER_H

#include <stdatomic.h>

#include "client.h"
#include "held.h"

#define SECRET_SIZE_MAX 64u
#define LANE_PATIENCE_MS 2000u /* time without a connected lane after which the consumer subscribes again */
/* Pause after a permanent refusal, before a consumer that lost its session subscribes again. (A permanent refusal of
 * the first subscription makes tarry_consumer_open fail.) */
#define SUBSCRIBE_AGAIN_MS 1000u
#define DISPATCH_AGAIN_MS 20u  /* retry interval while closing waits for callbacks */
#define HELD_SWEEP_COUNT 4096u /* number of entries above which expired leases are removed from the set */

/* States of a consumer's session. A pipe is the connection of the session's lane.
 *
 *        open                     reply            pipe up
 *  LOST ─────► SUBSCRIBING ─────► ACCEPTED ─────► UP
 *   ▲               │ refused        │ no pipe    │ pipe gone, broker knows no session
 *   └───────────────┴────────────────┴────────────┘                                                          */
enum session_state { SESSION_LOST, SESSION_SUBSCRIBING, SESSION_ACCEPTED, SESSION_UP };

/* One unpacked message of a lane. Its tasks share its memory. */
struct delivery_box {
    atomic_size_t references;
    struct arena arena;
};

struct held_task {
    struct tarry_task task; /* must be first: programs get a pointer to it */
    struct delivery_box *box;
    struct held_task *next;
    struct tarry_consumer *consumer; /* the consumer whose handler settled the task; it waits for the broker's reply */
};

/* A request about the session that has no reply yet. If the consumer is freed before the reply, `consumer` becomes
 * NULL. */
struct session_call {
    tarry_client *client;
    struct tarry_consumer *consumer;
};

struct tarry_consumer {
    tarry_client *client;
    struct tarry_consumer *next;
    char **queues;
    size_t queue_count;
    uint32_t prefetch;
    uint32_t max_batch;
    uint64_t lease_ms;
    tarry_handler_fn handler;
    tarry_settled_fn settled;
    void *arg;
    pthread_t thread;
    bool thread_runs;
    /* The following fields are protected by client.lock. */
    enum session_state state;
    bool opening;            /* true during the first subscription; tarry_consumer_open returns its refusal */
    bool closing;            /* the engine ignores the consumer */
    bool busy;               /* true while the engine reads the lane, which it does without the lock */
    int opened;              /* result of the first subscription; -1: no reply yet, otherwise a code */
    uint64_t open_until_ms;  /* deadline of tarry_consumer_open */
    uint64_t close_until_ms; /* time until which the handler's thread may wait for queue space; UINT64_MAX: the consumer
                                is not closing */
    int trouble;             /* code of the last failed attempt to open the consumer; 0: none */
    char message[MESSAGE_SIZE_MAX];
    uint64_t since_ms;    /* start of the current state */
    uint64_t retry_at_ms; /* in state LOST: earliest time of the next attempt to subscribe */
    uint64_t heartbeat_at_ms;
    struct session_call *subscribing;
    struct session_call *beating;
    uint64_t session;
    uint64_t silence_ms;
    uint32_t lane;
    uint8_t secret[SECRET_SIZE_MAX];
    size_t secret_size;
    size_t address;              /* index of the session's address in the link */
    struct ws_client connection; /* the lane */
    uint64_t lane_since_ms;      /* last step of the lane's connection attempt */
    bool lane_tried;             /* a connection was attempted since the session was accepted */
    bool lane_up;
    /* time since which the session has been accepted but has no lane; 0: the lane is up */
    uint64_t lane_missing_ms;
    /* The following fields are protected by `lock`. */
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    struct held_task *first;
    struct held_task *last;
    struct held held;
    uint64_t current; /* number of the current session; deliveries of other sessions are dropped; 0: all deliveries are
                         dropped */
    unsigned wakes;
    bool silent;
    int refused;     /* code of a refused later subscription, reported once; 0: none */
    bool ended;      /* the handler's thread must end */
    bool is_handled; /* tarry_dispatch is running the handler */
    size_t settling; /* number of verdicts whose answer has not been passed to `settled` */
};

/* ---- session.c */
bool session_handler_is_me(const tarry_consumer *consumer);

/* ---- delivery.c */
void delivery_take(tarry_consumer *consumer, const uint8_t *data, size_t size); /* handles a message of the lane */
/* Discards tasks that were not handed out, and all leases. Lock held. */
void deliveries_forget(tarry_consumer *consumer);

#endif
