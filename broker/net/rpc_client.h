/* rpc_client.h: one question at a time to another broker's /rpc, and its answer, or that none came.
 *
 * A newer question replaces the one under way. A thread of its own dials, again and again for as long as a question
 * waits for an answer, and a question whose connection is lost is sent once more by the next. One of whose answer
 * nothing has come for its time ends without, and its connection with it: it may be dead.
 *
 * With credentials it shows a token, and over TLS its certificate; the other's must be of the peers' CA, and for the
 * name or address by which it is reached. A dial that fails is tried again in the same way: what was refused may be
 * mended.
 *
 * Thread-safety: ask and close by one thread; `answered` is called by the client's own. */
#ifndef TARRY_NET_RPC_CLIENT_H
#define TARRY_NET_RPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "listen.h"
#include "message.h"
#include "tls.h"

struct rpc_client;

/* Takes the answer over; NULL: none came. The rpc_client's thread; must not wait. */
typedef void (*rpc_client_answered)(void *argument, struct message *answer);

#define RPC_CLIENT_TOKEN_SIZE 256u

struct peer_credentials {
    struct tls *tls; /* for wss://; else NULL */
    /* The token as it is now, for `Authorization: Bearer`; the client's thread. False: there is none to be had.
     * NULL: nothing is shown. */
    bool (*token)(const void *argument, char out[RPC_CLIENT_TOKEN_SIZE]);
    const void *argument;
};

/* `where` and `credentials` are copied; for wss:// there must be a `tls`, which must stay. 0 or a positive errno. */
int rpc_client_open(struct rpc_client **out, const struct listen_address *where,
                    const struct peer_credentials *credentials, size_t answer_size_max, rpc_client_answered answered,
                    void *argument);
/* Before the first question: `told` is called by the client's thread whenever a connection is lost, or a dial
 * fails; it must not wait. */
void rpc_client_tell_lost(struct rpc_client *rpc_client, void (*told)(void *argument));
/* Takes `question` over. An answer is waited for `time_ms`, and for as long again after each part of it: large ones may
 * take longer. */
void rpc_client_ask(struct rpc_client *rpc_client, struct message *question, unsigned time_ms);
/* Nothing is asked any more; what is under way is forgotten. `answered` is not called again once this has returned.
 * NULL is fine. */
void rpc_client_close(struct rpc_client *rpc_client);

#endif
