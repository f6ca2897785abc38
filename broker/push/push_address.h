/* push_address.h: decides to which addresses a webhook may connect. Pure, any thread.
 *
 * A client that may set policies chooses the URL. The broker can reach services that trust its network, and the
 * metadata service of a cloud. So the address is checked when the connection is made, whatever name led to it. Only
 * public addresses are allowed, unless the operator allows others. */
#ifndef TARRY_PUSH_PUSH_ADDRESS_H
#define TARRY_PUSH_PUSH_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define PUSH_ALLOWED_MAX 64u

/* A network; IPv4 is stored as ::ffff:a.b.c.d, with 96 added to its prefix length. */
struct push_network {
    uint8_t bytes[16];
    unsigned prefix; /* length of the network's prefix, in bits */
};

struct push_allowed {
    struct push_network networks[PUSH_ALLOWED_MAX];
    size_t count;
};

/* Parses `10.1.0.0/16`, `fd00::/8` or `127.0.0.1`; bits after the prefix must be 0. False: invalid. */
bool push_network_parse(const char *text, size_t size, struct push_network *out);
/* Parses blank-separated networks. False: one is invalid, or there are too many. */
bool push_allowed_parse(const char *text, struct push_allowed *out);
/* Returns NULL if a connection is allowed, else the kind of address for a sentence, such as "a private address". */
const char *push_address_problem(const struct sockaddr *address, const struct push_allowed *allowed);

#endif
