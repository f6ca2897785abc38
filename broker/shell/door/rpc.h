/* rpc.h: requests from /rpc: a bounded pool of contexts. One is taken for each request, which is prepared on the door's
 * thread, and given back when the answer is handed over to the door. Without a free one the door keeps the request, and
 * its connection waits.
 *
 * What requests in flight may hold is bounded: beyond the budget, or when few contexts are left, a commit that
 * schedules, a question about the log, or any request above half a MiB, is refused as busy without being unpacked, and
 * one that turns out to be large unpacked is refused then; everything else passes (CAP-1). What a refused request took
 * is given back before the refusal is sent (CALM-1).
 *
 * A question whose answer may be long reserves room for it in two steps: a little when it is asked, and the answer's
 * size once the core knows it, before the answer is packed or read. Beyond the budget, or beyond half of the contexts,
 * the answer is BUSY. No requester takes all of that: a connection may have as many questions under way as further ones
 * are allowed, a principal twice as many, and the answers of a principal four times as many bytes as are free: so one
 * that asks without end always leaves room for another one. Answers never take more than half of the budget from other
 * requests: however long a disk keeps readers waiting, writers are not refused because of that. In all, requests in
 * flight thus hold one and a half budgets at most. */
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
/* With fewer contexts than this left, new tasks are refused, so that acks and heartbeats find one. */
#define RPC_CONTEXTS_RESERVED 64
/* No more than so many are for questions whose answers may be long. */
#define RPC_CONTEXTS_OF_ANSWERS 128
/* … of which a principal may have so many times as many as are left, so that one alone has two thirds; a connection as
 * many as are left, so that one alone has half. */
#define RPC_PRINCIPAL_SHARE 2u
/* The answers of a principal may have so many times as many bytes as are free, so that one alone has four fifths. */
#define RPC_BYTES_SHARE 4u
/* What a question reserves before the core knows its answer's size; a list, for each task that it may show. */
#define RPC_ANSWER_FIRST (4u << 10)
#define RPC_LIST_ROW 256u
/* … and in a pair these are for the other node alone. */
#define RPC_CONTEXTS_OF_PEER 4

struct rpc_context {
    struct call call; /* first */
    struct rpc *rpc;
    struct rpc_context *next;           /* while it is free */
    uint64_t from;                      /* connection */
    struct access_principal *principal; /* the requester; held until it is answered */
    size_t size;                        /* of its bytes under way; 0: they are not counted */
    char peer[PEER_SIZE_MAX + 1];
    uint8_t head[MESSAGE_HEAD_MAX]; /* the request's backtrace, for its answer */
    uint8_t head_size;
    size_t charge;         /* bytes of the budget … */
    size_t expected;       /* … and those of the answer, if it may be long; 0: it is short */
    bool follows;          /* it is the other node's question */
    bool asks_core;        /* it was posted to the core */
    uint64_t posted_ns;    /* … at once, and when; MONOTONIC. 0: it was not */
    enum peer_proof proof; /* PEER_RIGHT: the other node of the pair asks, and the reply is to be proved, too ... */
    uint8_t nonce[PEER_NONCE_SIZE]; /* ... naming this */
    struct pooled_arena *memory;    /* between a request and its answer */
};

struct rpc_needs {
    const struct config *config;
    const struct datadir *dir;
    const struct run *run;
    const struct peer_key *peer_key; /* of a pair */
    struct log *log;
    struct inbox *inbox; /* the core's */
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
    _Atomic size_t expected;                          /* bytes of answers that may be long … */
    _Atomic unsigned asking_long;                     /* … and contexts that wait for one … */
    _Atomic uint16_t asking_of[DOOR_CONNECTIONS_MAX]; /* … of each connection, by its place in the door's table */
    _Atomic unsigned busy;                            /* contexts between a request and its answer ... */
    _Atomic unsigned followed;    /* ... and those of them that the other node of the pair waits for */
    _Atomic unsigned asking_core; /* … and those that the core answers */
    struct arena_pool arenas;
    uint64_t follower;     /* connection that brought the other node's newest question; 0: none. The door's thread's */
    pthread_mutex_t mutex; /* of the list */
    struct rpc_context *free;
    bool is_awaited; /* the door keeps requests, for none was free */
    struct rpc_context contexts[RPC_CONTEXTS];
};

void rpc_init(struct rpc *rpc, const struct rpc_needs *needs);
/* The door's calls, on its thread (door.h). */
bool rpc_request(struct rpc *rpc, uint64_t from, uint64_t principal, const char *peer, struct message *request);
struct message *rpc_refusal(bool is_principals);
void rpc_gone(struct rpc *rpc, uint64_t from);
/* A question that waited goes to the thread that answers it. Any thread. */
void rpc_go_on(struct rpc *rpc, struct call *call);
/* Requests of clients that have no answer yet. The other node of a pair always waits for something, and would keep this
 * one from ever being at rest. */
unsigned rpc_busy(const struct rpc *rpc);

#endif
