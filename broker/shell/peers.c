/* peers.c: see peers.h. Ids of pipes are not used twice before 2^31 others were. */
#include "peers.h"

#include <arpa/inet.h>
#include <assert.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static_assert(PEER_SIZE_MAX >= INET6_ADDRSTRLEN + IF_NAMESIZE, "an address with its port fits");

void peers_init(struct peers *peers) {
    memset(peers, 0, sizeof(*peers));
    pthread_mutex_init(&peers->mutex, NULL);
}

static void ask(nng_pipe pipe, char out[PEER_SIZE_MAX + 1]) {
    nng_sockaddr address;
    char host[INET6_ADDRSTRLEN];
    out[0] = '\0';
    if (nng_pipe_get_addr(pipe, NNG_OPT_REMADDR, &address) != 0) return;
    if (address.s_family == NNG_AF_INET && inet_ntop(AF_INET, &address.s_in.sa_addr, host, sizeof(host)) != NULL)
        snprintf(out, PEER_SIZE_MAX + 1, "%s:%u", host, ntohs(address.s_in.sa_port));
    else if (address.s_family == NNG_AF_INET6 && inet_ntop(AF_INET6, address.s_in6.sa_addr, host, sizeof(host)) != NULL)
        snprintf(out, PEER_SIZE_MAX + 1, "[%s]:%u", host, ntohs(address.s_in6.sa_port));
}

void peers_text(struct peers *peers, nng_pipe pipe, char out[PEER_SIZE_MAX + 1]) {
    struct peer *slot = &peers->slots[pipe.id % PEERS_SLOTS];
    pthread_mutex_lock(&peers->mutex);
    bool is_known = slot->pipe == pipe.id;
    if (is_known) memcpy(out, slot->text, sizeof(slot->text));
    pthread_mutex_unlock(&peers->mutex);
    if (is_known) return;
    ask(pipe, out);
    if (out[0] == '\0') return;
    pthread_mutex_lock(&peers->mutex);
    slot->pipe = pipe.id;
    memcpy(slot->text, out, sizeof(slot->text));
    pthread_mutex_unlock(&peers->mutex);
}
