/* wait.h: a poll(2) replacement for thousands of connections that are mostly idle.
 *
 * Debian's libwebsockets calls poll(2) for all connections, which costs the kernel 55 µs per 1,000 descriptors each
 * time. No other event loop works in both 4.1.6 and 4.3 (README.md). So tarryd defines its own poll(2). For the door's
 * thread and many descriptors, that function keeps an epoll(7) set equal to poll's array. In all other cases it does
 * the same as the C library. It keeps poll's guarantees: level-triggered, and errors and hang-ups are always reported.
 *
 * The array belongs to the library, so changes are found by comparing the array with a copy, 8 bytes per descriptor.
 * The comparison cannot detect a closed descriptor whose number was reused at once; the door reports those with
 * wait_new.
 *
 * Thread-safety: one thread at a time. */
#ifndef TARRY_NET_WAIT_H
#define TARRY_NET_WAIT_H

#include <stdbool.h>

/* Minimum number of descriptors for epoll; below it poll is faster. */
#define WAIT_MANY 32u

struct wait;

/* Creates a wait that serves the calling thread's poll from now on. NULL: out of memory or descriptors; poll stays the
 * system's. */
struct wait *wait_begin(void);
/* Makes `wait` serve the calling thread's poll, while no other thread uses it; NULL: restores the system's poll. */
void wait_use(struct wait *wait);
/* Frees `wait`, which must not be in use; NULL is allowed. */
void wait_end(struct wait *wait);
/* Reports that `fd` is a new descriptor, so earlier state of this number is invalid; NULL is allowed. */
void wait_new(struct wait *wait, int fd);
/* Returns true once after epoll failed for a descriptor and poll became the system's for all of them. NULL is allowed.
 */
bool wait_fell_back(struct wait *wait);

#endif
