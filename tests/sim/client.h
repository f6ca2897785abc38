/* client.h: a client of the broker: it commits, repeats what is not answered, and may be a consumer.
 *
 * It does what libtarry promises to do: a commit keeps its sequence until it is answered; a session that is lost is
 * subscribed anew; deliveries of other sessions are dropped. It has its outbox on its own disk: a crash forgets what it
 * holds, but not what it asked. What it decides to do is up to a story, or to habits.h. */
#ifndef TARRY_TESTS_SIM_CLIENT_H
#define TARRY_TESTS_SIM_CLIENT_H

#include "ledger.h"
#include "network.h"

#define CLIENT_HELD_MAX 256

struct held { /* a task that a consumer got */
    uint64_t id;
    uint32_t epoch;
    uint64_t position;
    uint64_t session;
};

struct habits;

struct client {
    struct world *world;
    const char *name;
    struct link link;
    bool up;
    uint32_t node; /* of a pair: whom it takes for the primary */
    uint64_t run;  /* grows with every crash; what belongs to an earlier one is void */

    /* producer */
    uint64_t producer; /* 0: none yet */
    bool greeting;     /* a Hello is under way */
    uint64_t sequence;
    uint64_t used_ns;      /* something of this producer was executed then or later */
    struct request **open; /* not answered, in order */
    size_t open_count;
    size_t open_capacity;

    /* consumer */
    bool wants_session; /* subscribes again when the session is lost */
    bool subscribing;
    bool deaf;    /* gets nothing more, though it looks alive */
    bool silent;  /* sends no heartbeats */
    bool stalled; /* reads nothing from its lane */
    uint64_t session;
    uint32_t session_node;   /* whose it is */
    uint64_t session_life;   /* … in that life of it */
    uint64_t pipe;           /* the broker's name for its connection … */
    uint64_t pipe_session;   /* … which is this session's */
    bool lane_up;            /* its pipe stood */
    uint64_t session_before; /* to be resumed */
    uint64_t silence_ms;
    const char *queues[FLAT_QUEUES_MAX];
    size_t queue_count;
    uint32_t prefetch;
    uint64_t lease_ms;
    bool pooled; /* others stand behind its session, as behind a gateway's (core.h): it is in the broker's process, */
    uint32_t credit; /* so its pipe does not break; each delivery may have so many tasks */
    struct held held[CLIENT_HELD_MAX];
    size_t held_count;
    const struct habits *habits;                                     /* of on_task; NULL: a story decides */
    void (*on_task)(struct client *client, const struct held *held); /* NULL: it only keeps it */
};

struct client *client_new(struct world *world, const char *name);
void client_free(struct client *client);

/* ---- producer */
void client_hello(struct client *client);
/* One commit; NULL: the client has no producer id yet (it has asked for one), or too much that is not answered.
 * Contents are made up from the request. */
struct request *client_commit(struct client *client, Tarry__Op **ops, size_t count, bool atomic);
struct request *client_commit_one(struct client *client, Tarry__Op *op);
/* Again under the same sequence, whatever was answered. */
void client_repeat(struct client *client, struct request *request);
void client_repeat_open(struct client *client);
/* Other requests: Get, List, Stats, … (`body` is complete). */
struct request *client_ask(struct client *client, Tarry__Request *body);

/* ---- consumer */
/* One queue or many (NULL-terminated list). `lease_ms` 0: the queue's. */
void client_subscribe(struct client *client, const char *const *queues, uint32_t prefetch, uint64_t lease_ms);
/* `keep`: what it holds stays leased. */
void client_unsubscribe(struct client *client, bool keep);
void client_heartbeat(struct client *client);
/* Each delivery to a pooled session may have so many tasks from here on. */
void client_credit(struct client *client, uint32_t credit);
/* The pipe of its lane breaks. */
void client_break_pipe(struct client *client);
void client_settle(struct client *client, const struct held *held, Tarry__Op *op);

/* ---- life */
void client_crash(struct client *client);
void client_return(struct client *client);
/* Its outbox is lost too: what was not answered it will never know. Between crash and return. */
void client_forget(struct client *client);

/* ---- from the network */
void client_on_answer(struct client *client, struct request *request, const struct answer *answer);
void client_on_delivery(struct client *client, const struct delivered *delivered);
void client_on_pipe_broken(struct client *client, uint64_t session);

#endif
