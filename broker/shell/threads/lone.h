/* lone.h: decides how the door's thread passes calls to the core. It posts the calls of one round of the event loop
 * together. If a single call arrives (a lone call), the door's thread itself does the work for it.
 *
 * Usual calls: the door's thread posts to the core thread, which posts to the sync thread (fdatasync), which replies
 * through the door. A lone call: the door's thread runs the core, appends to the log, calls fdatasync and replies.
 *
 * Passing a call between threads costs about as much as all other work for it, apart from its fdatasync. So the thread
 * that has read the only pending request does the work of the core thread and of the sync thread, if both sleep. With
 * only one request, the threads could not work in parallel anyway.
 *
 * When there are more requests, each thread does its own part again and they work in parallel. There are three such
 * cases: requests of more than one connection, more requests at the end of the sync, and a slow disk. A pair always
 * works in parallel, because a leader sends its frames while its own disk syncs.
 *
 * Nothing else changes: the same code appends in the same order, and replies are sent after the sync (LOG-1). If the
 * disk takes long, the door's second thread serves the port meanwhile (door_step_aside). Door's thread only. */
#ifndef TARRY_SHELL_LONE_H
#define TARRY_SHELL_LONE_H

#include <stdbool.h>
#include <stdint.h>

struct core_thread;
struct door;
struct inbox;
struct item;
struct sync;

/* Number of calls after which the door wakes the core thread, even before the end of the door's round. One wake-up
 * costs as much as decoding a request, so the thread is woken once for many calls. */
#define LONE_CALLS_MAX 32u
/* After further calls arrived during a lone call, this many calls are passed to the core thread. Then the next lone
 * call is processed on the door's thread again. */
#define LONE_COMPANY_CALLS 64u

struct lone {
    struct inbox *inbox;
    struct core_thread *core_thread;
    struct sync *sync;
    struct door *door;
    uint64_t from;   /* connection of the last call; DOOR_INSIDE: a request of the gateway (HTTP, beanstalkd) */
    bool was_inside; /* true: the last lone call came from the gateway. Then several calls in the next round show that
                        calls no longer arrive alone. */
    bool is_posted;  /* a lone call was posted in this round of the door; it may be processed at the end of the round */
    unsigned posted; /* number of calls posted since the core thread was woken */
    unsigned company; /* number of calls that still go through the threads (LONE_COMPANY_CALLS) */
};

void lone_init(struct lone *lone, struct inbox *inbox, struct core_thread *core_thread, struct sync *sync,
               struct door *door);
/* Posts a call of connection `from` to the core. `is_alone` is true if the core has no other call without a reply.
 * lone_served must follow. */
void lone_post(struct lone *lone, struct item *call, uint64_t from, bool is_alone);
/* Called at the end of a round, when the door holds no lock. Processes the lone call, or wakes the core thread. */
void lone_served(struct lone *lone);

#endif
