/* knock.h: does anybody listen at the other node's address? A refused connection is what a host's kernel says of a
 * process that has died; a host that has died says nothing.
 *
 * A follower whose connection to its leader breaks knocks: the refusal is evidence enough to claim at once (F-10),
 * where silence would have to last for `--failover-after`. A second opinion, as silence is: the compare-and-set
 * protects.
 *
 * Thread-safety: knock by any thread, open and close by one; `refused` is called by the knocker's own thread. */
#ifndef TARRY_SHELL_PAIR_KNOCK_H
#define TARRY_SHELL_PAIR_KNOCK_H

#include "listen.h"

struct knocker;

/* `where` is copied; `refused` must not wait. 0 or a positive errno. */
int knocker_open(struct knocker **out, const struct listen_address *where, void (*refused)(void *argument),
                 void *argument);
/* Tries to connect, soon; `refused` is called if all addresses of the host refuse. Does not wait. */
void knocker_knock(struct knocker *knocker);
/* `refused` is not called again once this has returned. NULL is fine. */
void knocker_close(struct knocker *knocker);

/* One connection is tried, and closed: 0, or why there is none as an errno; ETIMEDOUT after `wait_ms`. */
struct addrinfo;
int knock_once(const struct addrinfo *to, int wait_ms);

#endif
