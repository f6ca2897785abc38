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

struct held { /* a task that is leased to the consumer */
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
    uint32_t node; /* number of the node that the client believes to be the primary */
    uint64_t run;  /* number of the client's process, counted from 1; messages to earlier processes are ignored */

    /* producer */
    uint64_t producer; /* id of the client's producer; 0: none yet */
    bool greeting;     /* true: a Hello request has no reply yet */
    uint64_t sequence;
    uint64_t used_ns;      /* latest known time at which a commit of this producer was executed */
    struct request **open; /* requests without a reply, oldest first */
    size_t open_count;
    size_t open_capacity;

    /* consumer */
    bool wants_session; /* true: if the session is lost, the client subscribes again */
    bool subscribing;
    bool deaf;    /* true: the client ignores all deliveries and replies, but sends heartbeats */
    bool silent;  /* true: the client sends no heartbeats */
    bool stalled; /* true: the client does not read from its lane */
    uint64_t session;
    uint32_t session_node;   /* number of the node that has the session */
    uint64_t session_life;   /* number of that node's run in which the session began */
    uint64_t pipe;           /* number of the lane's connection, as the broker counts connections */
    uint64_t pipe_session;   /* number of the session that has the connection `pipe` */
    bool lane_up;            /* true: the lane's connection is established */
    uint64_t session_before; /* number of an earlier session that the client wants to resume; 0: none */
    uint64_t silence_ms;
    const char *queues[FLAT_QUEUES_MAX];
    size_t queue_count;
    uint32_t prefetch;
    uint64_t lease_ms;
    /* true: a session for several consumers within the broker, as gateways have it (core.h); its lane never breaks */
    bool pooled;
    bool bound;      /* pooled session whose consumers are connections of the broker's process */
    bool mover;      /* pooled session: true if it gets due tasks of queues with lease_before_due */
    bool sharer;     /* set for a pooled session: it gets due tasks of queues with groups */
    uint32_t credit; /* pooled session: maximum number of tasks in each delivery */
    struct held held[CLIENT_HELD_MAX];
    size_t held_count;
    const struct habits *habits; /* habits by which on_task decides about a task; NULL: a story decides */
    void (*on_task)(
        struct client *client,
        const struct held *held); /* function that handles a received task; NULL: the client keeps the task */
};

struct client *client_new(struct world *world, const char *name);
void client_free(struct client *client);

/* ---- producer */
void client_hello(struct client *client);
/* Sends one commit, with payloads made from the request. Returns NULL if the client has no producer id yet (it then
 * requests one), or if too many requests have no reply. */
struct request *client_commit(struct client *client, Tarry__Op **ops, size_t count, bool atomic);
struct request *client_commit_one(struct client *client, Tarry__Op *op);
/* Sends a request again under the same sequence, even if it has a reply. */
void client_repeat(struct client *client, struct request *request);
void client_repeat_open(struct client *client);
/* Sends a request other than a commit: Get, List, Stats, … (`body` is complete). */
struct request *client_ask(struct client *client, Tarry__Request *body);

/* ---- consumer */
/* Subscribes to one queue or several (a NULL-terminated list). `lease_ms` 0 means the queue's lease time. */
void client_subscribe(struct client *client, const char *const *queues, uint32_t prefetch, uint64_t lease_ms);
/* Ends the client's session. `keep`: the client's tasks stay leased. */
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
/* Forgets all requests without a reply, so that the client never learns their outcome. Call between a crash of the
 * client and its return. */
void client_forget(struct client *client);

/* ---- from the network */
void client_on_answer(struct client *client, struct request *request, const struct answer *answer);
void client_on_delivery(struct client *client, const struct delivered *delivered);
void client_on_pipe_broken(struct client *client, uint64_t session);

#endif
