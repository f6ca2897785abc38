/* failures.h: clients that show unknown tokens, by address, in a table that does not grow. A right token is always
 * let in, or a client behind the same address could keep others out; what is limited is what a wrong one
 * costs: beyond FAILURES_MAX of them in FAILURES_WINDOW_S the answer is 429, and the log says nothing more. One thread.
 */
#ifndef TARRY_ACCESS_FAILURES_H
#define TARRY_ACCESS_FAILURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAILURES_MAX 10u
#define FAILURES_WINDOW_S 60u
#define FAILURES_ADDRESSES 1024u /* the one that has been quiet longest gives its place to a new one */
#define FAILURES_ADDRESS_SIZE 64 /* as text, without the port; what is longer counts by its beginning */

struct failures {
    struct failures_of {
        char address[FAILURES_ADDRESS_SIZE]; /* "": free */
        uint64_t since_s;                    /* the window's first */
        uint64_t last_s;
        uint64_t count; /* in the window */
    } of[FAILURES_ADDRESSES];
    uint64_t total;   /* since the start */
    uint64_t limited; /* of them, beyond FAILURES_MAX */
};

/* Of a peer's text: without the port; of a Unix socket without the process ("unix:uid=1000"). */
void failures_address(const char *peer, char out[FAILURES_ADDRESS_SIZE]);
/* Another one, from `peer` ("192.0.2.7:40312"). `now_s`: a clock that does not go back. True: too many. */
bool failures_add(struct failures *failures, const char *peer, uint64_t now_s);

#endif
