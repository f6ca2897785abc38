/* tcp_check.h: does a process listen at the other node's address? A refused connection is what a host's kernel says of
 * a process that has died; a host that has died says nothing.
 *
 * A node whose connection to the other one breaks tries to connect. The refusal is evidence enough to act at once: a
 * follower promotes itself (F-10) and does not wait for `--failover-after`, a leader goes on alone and does not wait
 * for `--solo-after`. A second opinion, as silence is: the compare-and-set protects.
 *
 * Thread-safety: start by any thread, open and close by one; `refused` is called by the check's own thread. */
#ifndef TARRY_SHELL_PAIR_TCP_CHECK_H
#define TARRY_SHELL_PAIR_TCP_CHECK_H

#include "listen.h"

struct tcp_check;

/* `where` is copied; `refused` must not wait. 0 or a positive errno. */
int tcp_check_open(struct tcp_check **out, const struct listen_address *where, void (*refused)(void *argument),
                   void *argument);
/* Tries to connect, soon; `refused` is called if all addresses of the host refuse. Does not wait. */
void tcp_check_start(struct tcp_check *tcp_check);
/* `refused` is not called again once this has returned. NULL is fine. */
void tcp_check_close(struct tcp_check *tcp_check);

/* One connection is tried, and closed: 0, or why there is none as an errno; ETIMEDOUT after `wait_ms`. */
struct addrinfo;
int tcp_check_once(const struct addrinfo *to, int wait_ms);

#endif
