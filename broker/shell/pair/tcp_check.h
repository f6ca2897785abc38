/* tcp_check.h: tests whether a process listens at the other node's address. The kernel refuses connections to a process
 * that has died; a host that has died does not answer.
 *
 * A node whose connection to the other one breaks tries to connect. A refusal lets it act at once: a follower takes
 * over (F-10) without waiting for `--failover-after`, and a leader goes on alone without waiting for `--solo-after`. A
 * wrong verdict costs time only; the compare-and-set keeps the pair correct.
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
/* After it returns, `refused` is not called again. NULL: does nothing. */
void tcp_check_close(struct tcp_check *tcp_check);

/* Opens and closes one connection. Returns 0 or a positive errno; ETIMEDOUT after `wait_ms`. */
struct addrinfo;
int tcp_check_once(const struct addrinfo *to, int wait_ms);

#endif
