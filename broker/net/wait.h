/* wait.h: waiting for very many connections, most of which are idle.
 *
 * libwebsockets as Debian builds it waits by poll(2) over all of them, which costs the kernel 55 µs per 1,000 each
 * time, and takes no other way to wait that works in both 4.1.6 and 4.3 (README.md). So tarryd brings its own poll(2):
 * for the door's thread, and for many descriptors, it keeps an epoll(7) set that is what poll's array is, and otherwise
 * does what the C library's does. What poll promises is kept: level-triggered, errors and hang-ups unasked.
 *
 * The array belongs to the library, so what has changed in it is found by comparing it with a copy: 8 bytes a
 * descriptor. One thing that shows nothing: a descriptor that was closed, and whose number came back at once; of these
 * the door tells (wait_new).
 *
 * Thread-safety: one thread at a time. */
#ifndef TARRY_NET_WAIT_H
#define TARRY_NET_WAIT_H

#include <stdbool.h>

/* From so many descriptors on. Below, poll itself is quicker. */
#define WAIT_MANY 32u

struct wait;

/* Of the calling thread, whose poll it serves from now on; NULL: there is no memory, or no descriptor, and poll stays
 * as it is. */
struct wait *wait_begin(void);
/* Another thread's poll from now on, while no other uses it; NULL: the calling thread's is the system's. */
void wait_use(struct wait *wait);
/* It is not in use. NULL is fine. */
void wait_end(struct wait *wait);
/* This number is a new descriptor's, whatever was known of it. NULL is fine. */
void wait_new(struct wait *wait, int fd);
/* True once: something could not be waited for in this way, and from now on poll is the system's, for all of them. NULL
 * is fine. */
bool wait_fell_back(struct wait *wait);

#endif
