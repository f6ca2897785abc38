/* blocking_rpc.h: requests to the other node before this one runs: one after another; the caller waits for each answer.
 *
 * Thread-safety: one owner. */
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
    struct message *answer; /* to the question under way; NULL: none came */
    bool answered;
    const char *url;
    const struct peer_key *key;
    struct peer_requester requester;
    char unproved[BLOCKING_RPC_UNPROVED_SIZE]; /* what the last answer lacked, if its sender proved nothing; else empty
                                                */
};

/* `url` is the other broker's; it and the key must live as long as this, and this must stay where it is. 0 or a
 * positive errno. */
int blocking_rpc_open(struct blocking_rpc *blocking_rpc, const char *url, const struct peer_key *key,
                      const struct peer_credentials *credentials);
void blocking_rpc_close(struct blocking_rpc *blocking_rpc);
/* A request of this broker's; its body is the caller's to put in. */
Tarry__Request blocking_rpc_request(Tarry__Request__BodyCase body);
/* The other node's answer, tarry__reply__free_unpacked's; NULL: none came in time, or one that makes no sense, or it is
 * not proved that it is the other node's. */
Tarry__Reply *blocking_rpc_ask(struct blocking_rpc *blocking_rpc, const Tarry__Request *request);
/* Why there was no answer, in words: no process listens there, or it is no tarryd, or not the other node. Takes a
 * second at most. */
void blocking_rpc_why(const struct blocking_rpc *blocking_rpc, char *out, size_t size);
/* Waits a moment. True: SIGTERM or SIGINT, which are blocked, has come: the process is to end. */
bool blocking_rpc_pause(void);

#endif
