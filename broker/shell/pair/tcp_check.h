/* tcp_check.h: tests whether a process listens at the other node's address.
 *
 * The kernel refuses connections to a process that has died; a host that has died does not answer. A node whose
 * connection to the other node breaks tries to connect again. A refusal lets it act at once: a follower takes over
 * (F-10) without waiting for `--failover-after`, and a leader continues alone without waiting for `--solo-after`. A
 * wrong verdict costs time only; the compare-and-set keeps the pair correct.
 *
 * Thread-safety: any thread may start a check; one thread opens and closes it; `refused` is called on the check's own
 * thread. */
#ifndef TARRY_SHELL_PAIR_TCP_CHECK_H
#define TARRY_SHELL_PAIR_TCP_CHECK_H

#include "listen.h"

struct tcp_check;

/* Creates a check of the address `where`, which is copied. `refused` must not wait. Returns 0 or a positive errno. */
int tcp_check_open(struct tcp_check **out, const struct listen_address *where, void (*refused)(void *argument),
                   void *argument);
/* Starts an attempt to connect, and does not wait for it. `refused` is called if all addresses of the host refuse. */
void tcp_check_start(struct tcp_check *tcp_check);
/* Ends the check. After it returns, `refused` is not called any more. NULL is allowed. */
void tcp_check_close(struct tcp_check *tcp_check);

/* Opens and closes one connection. Returns 0 or a positive errno; ETIMEDOUT after `wait_ms`. */
struct addrinfo;
int tcp_check_once(const struct addrinfo *to, int wait_ms);

#endif
