/* rpc.h: handles requests to /rpc with a fixed pool of contexts. Each request takes one context, is prepared on the
 * door's thread, and returns the context when its reply goes to the door. When no context is free, the door keeps the
 * request and its connection waits.
 *
 * Memory of pending requests is limited (CAP-1). Some requests are refused as busy when the budget is exceeded or few
 * contexts are left: a commit that schedules, a question about the log, and any request above 512 KiB. The refusal
 * comes before unpacking; a request that turns out to be large is refused after unpacking. All other requests are
 * admitted. A refused request frees its memory before its refusal is sent (CALM-1).
 *
 * A question whose reply may be long reserves memory in two steps: a small amount on arrival, and the reply's size as
 * soon as the core knows it, before the reply is packed or read. Beyond the budget, or beyond half of the contexts, the
 * reply is BUSY.
 *
 * The share of a requester depends on what is free, so no requester can use up the whole budget. A connection may have
 * as many pending questions as places for questions are free, a principal twice as many. The replies to a principal may
 * use four times as many bytes as are free. So space is always left for another requester.
 *
 * When another request needs memory, the reserved replies count as at most half of the budget. So writers are not
 * refused when a slow disk delays many readers. In total, pending requests use at most 1.5 times the budget. */
#ifndef TARRY_SHELL_RPC_H
#define TARRY_SHELL_RPC_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "arena_pool.h"
#include "call.h"
#include "door.h"
#include "peer_proof.h"
#include "tarry_limits.h"

struct access_principal;
struct auditor;
struct authorizer;
struct backup;
struct config;
struct datadir;
struct inbox;
struct latency;
struct log;
struct lone;
struct node;
struct pair_status;
struct run;
struct rpc;

#define RPC_CONTEXTS 256
/* Number of free contexts that are reserved for acks, heartbeats and other urgent requests. When fewer are free, new
 * tasks are refused. */
#define RPC_CONTEXTS_RESERVED 64
/* While fewer contexts than this are in use, a connection of HTTP may have several unanswered commits. */
#define RPC_CONTEXTS_SPARE ((RPC_CONTEXTS - RPC_CONTEXTS_RESERVED) / 2)
/* Maximum number of contexts for questions whose reply may be long. */
#define RPC_CONTEXTS_OF_ANSWERS 128
/* A principal may have at most this many times as many questions with long replies as places are free. So a single busy
 * principal gets two thirds of the places. A connection may have as many as places are free, so a single busy
 * connection gets half. */
#define RPC_PRINCIPAL_SHARE 2u
/* The replies to a principal may use at most this many times the bytes that are free. So a single busy principal gets
 * four fifths of the bytes. */
#define RPC_BYTES_SHARE 4u
/* Contexts that only the other node of a pair may use. */
#define RPC_CONTEXTS_OF_PEER 4

struct rpc_context {
    struct call call; /* `call` must be the first member, because a pointer to it is cast to the context */
    struct rpc *rpc;
    struct rpc_context *next;           /* next context in the list of free contexts */
    uint64_t from;                      /* id of the requester's connection */
    struct access_principal *principal; /* the requester; held until it has its reply */
    size_t size;                        /* bytes counted against the principal's limit; 0: not counted */
    char peer[PEER_SIZE_MAX + 1];
    uint8_t head[MESSAGE_HEAD_MAX]; /* backtrace of the request, copied to its reply */
    uint8_t head_size;
    size_t charge;      /* bytes of the request, charged to the budget */
    size_t expected;    /* bytes reserved for a reply that may be long; 0: the reply is short */
    bool follows;       /* the request is a Follow of the other node */
    bool asks_core;     /* the request was posted to the core */
    uint64_t posted_ns; /* CLOCK_MONOTONIC, when the request was posted to the core on arrival; 0: it was posted later,
                           or not at all */
    enum peer_proof proof; /* PEER_RIGHT: the requester is the other node of the pair, so the reply needs a proof too */
    uint8_t nonce[PEER_NONCE_SIZE]; /* nonce of the request, for the proof of the reply */
    struct pooled_arena *memory;    /* memory of the request, from its arrival to its reply */
};

struct rpc_needs {
    const struct config *config;
    const struct datadir *dir;
    const struct run *run;
    const struct peer_key *peer_key; /* key for proofs between the two nodes; set in a pair */
    struct log *log;
    struct inbox *inbox;
    struct lone *lone;
    struct node *node;
    struct auditor *auditor;
    struct backup *backup;
    struct authorizer *authorizer;
    const struct pair_status *pair_status;
    struct door *door;
    struct latency *calls_us;
};

struct rpc {
    struct rpc_needs needs;
    size_t budget;
    _Atomic size_t charged;
    _Atomic size_t expected;                          /* bytes reserved for replies that may be long */
    _Atomic unsigned asking_long;                     /* contexts that wait for a reply that may be long */
    _Atomic uint16_t asking_of[DOOR_CONNECTIONS_MAX]; /* number of questions with a long reply of each connection, by
                                                         the connection's slot at the door */
    _Atomic unsigned busy;                            /* contexts whose request has no reply yet */
    _Atomic unsigned followed;                        /* contexts with a Follow of the other node */
    _Atomic unsigned asking_core;                     /* contexts that wait for the core */
    struct arena_pool arenas;
    uint64_t follower;     /* the connection of the other node's newest Follow; 0: none. The door's thread only */
    pthread_mutex_t mutex; /* guards `free` and `is_awaited` */
    struct rpc_context *free;
    bool is_awaited; /* true while the door keeps requests because no context was free */
    struct rpc_context contexts[RPC_CONTEXTS];
};

void rpc_init(struct rpc *rpc, const struct rpc_needs *needs);
/* Callbacks of the door, on its thread (door.h). */
bool rpc_request(struct rpc *rpc, uint64_t from, uint64_t principal, const char *peer, struct message *request);
struct message *rpc_refusal(bool is_principals);
/* Returns whether few contexts are in use (RPC_CONTEXTS_SPARE), and the principal's limit allows another request of
 * `size` bytes. */
bool rpc_has_spare(const struct rpc *rpc, const struct access_principal *principal, size_t size);
void rpc_gone(struct rpc *rpc, uint64_t from);
/* Passes a question that was delayed to the thread that answers it. Any thread. */
void rpc_go_on(struct rpc *rpc, struct call *call);
/* Returns the number of clients' requests without a reply. The other node's Follow requests are not counted: one is
 * always pending, so this broker would never be idle. */
unsigned rpc_busy(const struct rpc *rpc);

#endif
