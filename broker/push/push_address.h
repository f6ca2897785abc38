/* push_address.h: which addresses a webhook may go to. Pure, any thread.
 *
 * A client that may set policies names the URL, and the broker stands where others do not: it reaches services that
 * trust their network, and what clouds tell their own machines. So an address is judged when a connection to it is
 * made, whatever name led there, and only a public address is let through, unless the operator allows more. */
#ifndef TARRY_PUSH_PUSH_ADDRESS_H
#define TARRY_PUSH_PUSH_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define PUSH_ALLOWED_MAX 64u

/* A network; IPv4 as ::ffff:a.b.c.d, with 96 added to its prefix. */
struct push_network {
    uint8_t bytes[16];
    unsigned prefix; /* bits */
};

struct push_allowed {
    struct push_network networks[PUSH_ALLOWED_MAX];
    size_t count;
};

/* `10.1.0.0/16`, `fd00::/8`, `127.0.0.1`; no bits behind the prefix. False: it is none. */
bool push_network_parse(const char *text, size_t size, struct push_network *out);
/* Networks between blanks. False: one of them is none, or there are too many. */
bool push_allowed_parse(const char *text, struct push_allowed *out);
/* NULL: a connection may be made. Else what is wrong with the address, for a sentence: "a private address". */
const char *push_address_problem(const struct sockaddr *address, const struct push_allowed *allowed);

#endif
