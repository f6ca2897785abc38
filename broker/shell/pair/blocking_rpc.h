/* blocking_rpc.h: sends requests to the other node, one at a time, and blocks until the answer. Used before this node
 * runs. Thread-safety: one owner. */
#ifndef TARRY_SHELL_PAIR_BLOCKING_RPC_H
#define TARRY_SHELL_PAIR_BLOCKING_RPC_H

#include <pthread.h>
#include <stdbool.h>

#include "peer_proof.h"
#include "rpc_client.h"
#include "tarry.pb-c.h"

#define BLOCKING_RPC_UNPROVED_SIZE 512

struct blocking_rpc {
    struct rpc_client *line;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct message *answer; /* answer to the pending request; NULL: none came */
    bool answered;
    const char *url;
    const struct peer_key *key;
    struct peer_requester requester;
    char unproved[BLOCKING_RPC_UNPROVED_SIZE]; /* why the last answer had no valid proof; empty: it had one */
};

/* Prepares requests to the broker at `url`. The URL and the key must outlive the struct, which must not be moved.
 * Returns 0 or a positive errno. */
int blocking_rpc_open(struct blocking_rpc *blocking_rpc, const char *url, const struct peer_key *key,
                      const struct peer_credentials *credentials);
void blocking_rpc_close(struct blocking_rpc *blocking_rpc);
/* Returns a request of this broker; the caller sets its body. */
Tarry__Request blocking_rpc_request(Tarry__Request__BodyCase body);
/* Sends a request and returns the answer, which the caller frees with tarry__reply__free_unpacked. Returns NULL if no
 * answer came in time, or if it is malformed or has no proof that the other node sent it. */
Tarry__Reply *blocking_rpc_ask(struct blocking_rpc *blocking_rpc, const Tarry__Request *request);
/* Says why there was no answer: no process listens there, it is not a tarryd, or it is not the other node. Takes at
 * most 1 s. */
void blocking_rpc_why(const struct blocking_rpc *blocking_rpc, char *out, size_t size);
/* Waits before a retry. Returns true if SIGTERM or SIGINT, which are blocked, has arrived: the process must end. */
bool blocking_rpc_pause(void);

#endif
