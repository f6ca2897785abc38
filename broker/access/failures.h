/* failures.h: counts clients that show unknown tokens, by address, in a table of fixed size. A valid token is always
 * admitted; otherwise one client could lock out others behind the same address. Only the cost of invalid tokens is
 * limited: beyond FAILURES_MAX in FAILURES_WINDOW_S the reply is 429, and nothing more is logged. One thread. */
#ifndef TARRY_ACCESS_FAILURES_H
#define TARRY_ACCESS_FAILURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAILURES_MAX 10u
#define FAILURES_WINDOW_S 60u
/* Number of rows. When all are used, a new address takes the row whose last failure is oldest. */
#define FAILURES_ADDRESSES 1024u
#define FAILURES_ADDRESS_SIZE 64 /* text without the port; a longer address is truncated */

struct failures {
    struct failures_of {
        char address[FAILURES_ADDRESS_SIZE]; /* "": the row is free */
        uint64_t since_s;                    /* start of the window */
        uint64_t last_s;
        uint64_t count; /* failures in the window */
    } of[FAILURES_ADDRESSES];
    uint64_t total;   /* failures since startup */
    uint64_t limited; /* failures since startup beyond FAILURES_MAX */
};

/* Writes the address in `peer`: without the port; for a Unix socket without the process ("unix:uid=1000"). */
void failures_address(const char *peer, char out[FAILURES_ADDRESS_SIZE]);
/* Counts a failure of `peer` ("192.0.2.7:40312"). `now_s` is a monotonic clock. True: the limit is exceeded. */
bool failures_add(struct failures *failures, const char *peer, uint64_t now_s);

#endif
