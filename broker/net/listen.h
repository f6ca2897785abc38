/* listen.h: where the broker listens: the address that was asked for, checked, and the socket. */
#ifndef TARRY_NET_LISTEN_H
#define TARRY_NET_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LISTEN_HOST_SIZE 256

struct listen_address {
    char host[LISTEN_HOST_SIZE]; /* without brackets */
    uint16_t port;               /* 0: any */
    bool loopback;
};

/* "ws://HOST[:PORT]", nothing after it. False: `*out_problem` is a sentence. Pure. */
bool listen_parse(const char *url, struct listen_address *out, const char **out_problem);
/* "ws://HOST:PORT", IPv6 in brackets. */
void listen_format(const struct listen_address *address, char *out, size_t size);
/* A socket that listens there, for `out_fd`'s owner to close; `*out_port` is what port 0 became. 0 or a positive errno.
 * It accepts nothing by itself: what knocks waits in the kernel's queue. */
int listen_open(const struct listen_address *address, int *out_fd, uint16_t *out_port);
/* Of a connection that was accepted: no waiting for more to send, and an end for one whose other side is gone without a
 * farewell (F-17). */
void listen_tune_connection(int fd);

#endif
