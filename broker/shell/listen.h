/* listen.h: where the broker listens: the address that was asked for, checked, and a port of its own for port 0. */
#ifndef TARRY_SHELL_LISTEN_H
#define TARRY_SHELL_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

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
/* A port that is free on the host at this moment; 0 or a positive errno. Somebody may take it before we do. */
int listen_free_port(const struct listen_address *address, uint16_t *out_port);

/* Tunes the socket that listens on the port in what nng has no option for; false: no such socket was found.
 *   a longer queue than nng's 128: in a flood of connections an overflowing queue costs an honest client a second,
 *   which is how long TCP takes to knock again
 *   times of keepalive, which connections inherit (http_keepalive switches it on): a client whose machine is gone
 * says no farewell, and its connection would stand for ever (F-17) */
bool listen_tune(uint16_t port);
/* What the socket that listens on the port is bound to; false: no such socket was found. Like listen_tune for the
 * start, when descriptors are few. */
bool listen_address_of(uint16_t port, struct sockaddr_storage *out);

#endif
