/* consumer.h: the inside of a consumer, shared by consumer.c (what the user calls), session.c (the engine's side) and
 * delivery.c (what arrives). */
#ifndef TARRY_CONSUMER_H
#define TARRY_CONSUMER_H

#include <stdatomic.h>

#include "client.h"
#include "held.h"

#define SECRET_SIZE_MAX 64u
#define LANE_PATIENCE_MS 2000u   /* a lane that does not come up: subscribe again */
#define SUBSCRIBE_AGAIN_MS 1000u /* after a final refusal of a session that had been accepted before */
#define DISPATCH_AGAIN_MS 20u    /* while a consumer that closes waits for callbacks */
#define HELD_SWEEP_COUNT 4096u   /* above it leases that ran out are forgotten */

/*        open                     reply            pipe up
 *  LOST ─────► SUBSCRIBING ─────► ACCEPTED ─────► UP
 *   ▲               │ refused        │ no pipe    │ pipe gone, broker knows no session
 *   └───────────────┴────────────────┴────────────┘                                                          */
enum session_state { SESSION_LOST, SESSION_SUBSCRIBING, SESSION_ACCEPTED, SESSION_UP };

/* One message of a lane, unpacked; its tasks share its memory. */
struct delivery_box {
    atomic_size_t references;
    struct arena arena;
};

struct held_task {
    struct tarry_task task; /* first, so that the user's pointer is this one */
    struct delivery_box *box;
    struct held_task *next;
    struct tarry_consumer *consumer; /* that waits for what comes of its handler's verdict */
};

/* A request of the session's own that is under way. It outlives the consumer: `consumer` is NULL then. */
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
    /* client.lock */
    enum session_state state;
    bool opening;            /* the first subscription: a refusal is the caller's */
    bool closing;            /* the engine leaves it alone */
    bool busy;               /* the engine reads its lane, without the lock */
    int opened;              /* -1: not yet answered; otherwise a code */
    uint64_t open_until_ms;  /* while it opens */
    uint64_t close_until_ms; /* how long its handler's thread may wait for room; UINT64_MAX: it does not close */
    int trouble;             /* while it opens: why the last try failed; else 0 */
    char message[MESSAGE_SIZE_MAX];
    uint64_t since_ms;    /* of the state */
    uint64_t retry_at_ms; /* LOST: not before */
    uint64_t heartbeat_at_ms;
    struct session_call *subscribing;
    struct session_call *beating;
    uint64_t session;
    uint64_t silence_ms;
    uint32_t lane;
    uint8_t secret[SECRET_SIZE_MAX];
    size_t secret_size;
    size_t address;               /* whose session it is: of the link's */
    struct connection connection; /* of the lane */
    uint64_t lane_since_ms;       /* when it was tried, and when that last went on */
    bool lane_tried;              /* since the session was accepted */
    bool lane_up;
    uint64_t lane_missing_ms; /* since when no lane of an accepted session has come up; 0: one is up */
    /* lock */
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    struct held_task *first;
    struct held_task *last;
    struct held held;
    uint64_t current; /* deliveries of other sessions are dropped; 0: all are */
    unsigned wakes;
    bool silent;
    int refused;     /* a later subscription was refused, to be told once; 0: no */
    bool ended;      /* the handler's thread is to end */
    bool is_handled; /* tarry_dispatch is in its handler */
    size_t settling; /* verdicts of the handler's whose answer `settled` has not been told yet */
};

/* ---- session.c */
bool session_handler_is_me(const tarry_consumer *consumer);

/* ---- delivery.c */
void delivery_take(tarry_consumer *consumer, const uint8_t *data, size_t size); /* a message of the lane */
void deliveries_forget(tarry_consumer *consumer); /* lock held: what was not handed out, and all leases */

#endif
