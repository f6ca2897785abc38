/* client.h: a client of the broker. It commits, repeats requests without a reply, and may be a consumer.
 *
 * The client keeps the promises of libtarry: a commit keeps its sequence until the reply comes; a lost session is
 * subscribed again; deliveries of other sessions are dropped. The client's outbox is on its own disk: after a crash
 * the client has forgotten its tasks, but not its requests. A story or habits.h decides what the client does. */
#ifndef TARRY_TESTS_SIM_CLIENT_H
#define TARRY_TESTS_SIM_CLIENT_H

#include "ledger.h"
#include "network.h"

#define CLIENT_HELD_MAX 256

struct held { /* a task that the consumer holds */
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
    uint32_t node; /* for a pair: the node that the client takes for the primary */
    uint64_t run;  /* number of the client's process; messages of earlier runs are ignored */

    /* producer */
    uint64_t producer; /* 0: no producer id yet */
    bool greeting;     /* a Hello request is in flight */
    uint64_t sequence;
    uint64_t used_ns;      /* a commit of this producer was executed at this time or later */
    struct request **open; /* requests without a reply, oldest first */
    size_t open_count;
    size_t open_capacity;

    /* consumer */
    bool wants_session; /* subscribes again when the session is lost */
    bool subscribing;
    bool deaf;    /* ignores all deliveries and replies, but looks alive */
    bool silent;  /* sends no heartbeats */
    bool stalled; /* does not read from its lane */
    uint64_t session;
    uint32_t session_node;   /* node that owns the session */
    uint64_t session_life;   /* life of that node in which the session began */
    uint64_t pipe;           /* the broker's number for the lane's connection */
    uint64_t pipe_session;   /* session that the connection `pipe` belongs to */
    bool lane_up;            /* the lane's connection was established */
    uint64_t session_before; /* earlier session that the client wants to resume */
    uint64_t silence_ms;
    const char *queues[FLAT_QUEUES_MAX];
    size_t queue_count;
    uint32_t prefetch;
    uint64_t lease_ms;
    bool pooled; /* a session of several consumers within the broker, as a gateway's (core.h): its lane never breaks */
    bool bound;  /* of a pooled session: its consumers are connections of the broker's process */
    bool mover;  /* of a pooled session: it gets due tasks of queues with lease_before_due */
    bool sharer; /* likewise, due tasks of queues with groups */
    uint32_t credit; /* for a pooled session: maximum number of tasks in each delivery */
    struct held held[CLIENT_HELD_MAX];
    size_t held_count;
    const struct habits *habits; /* chooses what on_task does; NULL: a story decides */
    void (*on_task)(struct client *client, const struct held *held); /* NULL: keep the task */
};

struct client *client_new(struct world *world, const char *name);
void client_free(struct client *client);

/* ---- producer */
void client_hello(struct client *client);
/* Sends one commit. Returns NULL if the client has no producer id yet (it has requested one), or too many requests
 * without a reply. The payloads are made from the request. */
struct request *client_commit(struct client *client, Tarry__Op **ops, size_t count, bool atomic);
struct request *client_commit_one(struct client *client, Tarry__Op *op);
/* Sends the request again under the same sequence, even if it has a reply. */
void client_repeat(struct client *client, struct request *request);
void client_repeat_open(struct client *client);
/* Sends another request: Get, List, Stats, … (`body` is complete). */
struct request *client_ask(struct client *client, Tarry__Request *body);

/* ---- consumer */
/* Subscribes to one queue or several (NULL-terminated list). `lease_ms` 0: the queue's lease. */
void client_subscribe(struct client *client, const char *const *queues, uint32_t prefetch, uint64_t lease_ms);
/* Ends the session. `keep`: the client's tasks stay leased. */
void client_unsubscribe(struct client *client, bool keep);
void client_heartbeat(struct client *client);
/* Sets how many tasks each delivery to the pooled session may have from now on. */
void client_credit(struct client *client, uint32_t credit);
/* Breaks the connection of the client's lane. */
void client_break_pipe(struct client *client);
void client_settle(struct client *client, const struct held *held, Tarry__Op *op);

/* ---- life */
void client_crash(struct client *client);
void client_return(struct client *client);
/* Loses the outbox too: the client never learns the outcome of its open requests. Call between crash and return. */
void client_forget(struct client *client);

/* ---- from the network */
void client_on_answer(struct client *client, struct request *request, const struct answer *answer);
void client_on_delivery(struct client *client, const struct delivered *delivered);
void client_on_pipe_broken(struct client *client, uint64_t session);

#endif
