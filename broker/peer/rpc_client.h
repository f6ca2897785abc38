/* rpc_client.h: sends one request at a time to another broker's /rpc, and reports its reply, or that no reply arrived.
 * A newer request replaces the current one.
 *
 * The client's own thread connects, and retries as long as a request waits for its reply. A request whose connection
 * breaks is sent again on the next one. If a reply makes no progress within its timeout, the request ends without a
 * reply, and its connection is closed because it may be dead.
 *
 * With credentials, the client shows a token, and over TLS its certificate. The other broker's certificate must be
 * issued by the peer CA, for the name or address that is dialed. A failed connection attempt is retried unchanged,
 * because an operator may have fixed the cause.
 *
 * Thread-safety: one thread calls ask and close; the client's own thread calls `answered`. */
#ifndef TARRY_PEER_RPC_CLIENT_H
#define TARRY_PEER_RPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "listen.h"
#include "message.h"
#include "tls.h"

struct rpc_client;

/* Callback that takes ownership of the reply; NULL: no reply. The client's thread calls it, and it must not block. */
typedef void (*rpc_client_answered)(void *argument, struct message *answer);

#define RPC_CLIENT_TOKEN_SIZE 256u

struct peer_credentials {
    struct tls *tls; /* this broker's certificates; required for wss://, else NULL */
    /* Gets the current token for `Authorization: Bearer`, on the client's thread. Returns false if no token is
     * available. If the pointer is NULL, no token is sent. */
    bool (*token)(const void *argument, char out[RPC_CLIENT_TOKEN_SIZE]);
    const void *argument;
};

/* Starts a client; copies `where` and `credentials`. A wss:// address needs a `tls`, which must outlive the client.
 * Returns 0 or a positive errno. */
int rpc_client_open(struct rpc_client **out, const struct listen_address *where,
                    const struct peer_credentials *credentials, size_t answer_size_max, rpc_client_answered answered,
                    void *argument);
/* Sets a callback for each lost connection and each failed connection attempt. The client's thread calls `told`, which
 * must not block. Call this before the first request. */
void rpc_client_tell_lost(struct rpc_client *rpc_client, void (*told)(void *argument));
/* Takes ownership of `question` and sends it. The timeout `time_ms` restarts with each received part of the reply, so
 * that large replies may take longer. */
void rpc_client_ask(struct rpc_client *rpc_client, struct message *question, unsigned time_ms);
/* Stops the client and drops its request. `answered` is not called after this returns. NULL is allowed. */
void rpc_client_close(struct rpc_client *rpc_client);

#endif
