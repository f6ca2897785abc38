/* rpc.h: the REP endpoint /rpc: a bounded pool of contexts, each of which receives, has the request prepared in nng's
 * own thread, waits for the core's answer, and sends it.
 *
 * What requests in flight may hold is bounded: beyond the budget, or when few contexts are left, a commit that
 * schedules, a question about the log, or any request above half a MiB, is refused as busy without being unpacked, and
 * one that turns out to be large unpacked is refused then; everything else passes (CAP-1). What a refused request took
 * is given back before the refusal is sent (CALM-1). */
#ifndef TARRY_SHELL_RPC_H
#define TARRY_SHELL_RPC_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "call.h"
#include "peer_proof.h"
#include "peers.h"

struct shell;
struct rpc;

#define RPC_CONTEXTS 256
/* With fewer contexts than this left, new tasks are refused, so that acks and heartbeats find one. */
#define RPC_CONTEXTS_RESERVED 64
/* … and in a pair these are for the other node alone. */
#define RPC_CONTEXTS_OF_PEER 4

struct rpc_arena {
    struct rpc_arena *next; /* while it is idle */
    struct arena arena;
};

enum rpc_state { RPC_RECEIVING, RPC_WAITING, RPC_SENDING };

struct rpc_context {
    struct call call; /* first */
    struct rpc *rpc;
    nng_ctx ctx;
    nng_aio *aio;
    nng_pipe pipe; /* where the request came from */
    char peer[PEER_SIZE_MAX + 1];
    enum rpc_state state;
    size_t charge;         /* bytes of the budget */
    bool follows;          /* it is the other node's question */
    enum peer_proof proof; /* PEER_RIGHT: the other node of the pair asks, and the reply is to be proved, too ... */
    uint8_t nonce[PEER_NONCE_SIZE]; /* ... naming this */
    struct rpc_arena *memory;       /* between a request and its answer */
};

struct rpc {
    struct shell *shell;
    nng_socket socket;
    struct peers peers;
    size_t budget;
    _Atomic size_t charged;
    _Atomic unsigned busy;     /* contexts between a request and its answer ... */
    _Atomic unsigned followed; /* ... and those of them that the other node of the pair waits for */
    /* Idle arenas, the last used first: what is in use follows the load, not the number of contexts. */
    pthread_mutex_t mutex;
    struct rpc_arena *idle;
    size_t idle_count;
    struct rpc_context contexts[RPC_CONTEXTS];
};

/* Opens the endpoint at `url`, which becomes bound here. 0 or an nng error. Nothing is received before rpc_start. */
int rpc_open(struct rpc *rpc, struct shell *shell, const char *url);
void rpc_start(struct rpc *rpc);
/* Requests of clients that have no answer yet. The other node of a pair always waits for something, and would keep this
 * one from ever being at rest. */
unsigned rpc_busy(const struct rpc *rpc);

#endif
