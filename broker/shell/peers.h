/* peers.h: the network addresses of those who ask, as text. Asking nng for one takes locks and a system call, so a pipe
 * is asked once, as long as its slot is not another pipe's meanwhile. */
#ifndef TARRY_SHELL_PEERS_H
#define TARRY_SHELL_PEERS_H

#include <nng/nng.h>
#include <pthread.h>

#include "tarry_limits.h"

#define PEERS_SLOTS 1024u

struct peers {
    pthread_mutex_t mutex;
    struct peer {
        uint32_t pipe; /* id; 0: free */
        char text[PEER_SIZE_MAX + 1];
    } slots[PEERS_SLOTS];
};

void peers_init(struct peers *peers);
/* "127.0.0.1:40312" of the other end of `pipe`; empty: the pipe is gone, or no address is known. Any thread. */
void peers_text(struct peers *peers, nng_pipe pipe, char out[PEER_SIZE_MAX + 1]);

#endif
