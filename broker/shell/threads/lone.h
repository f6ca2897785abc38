/* lone.h: decides how the door's thread passes calls to the core. It posts the calls of a round together, and processes
 * a call that arrives alone by itself.
 *
 * Usual calls: the door's thread posts to the core thread, which posts to the sync thread (fdatasync), which replies
 * through the door. A lone call: the door's thread steps the core, appends, calls fdatasync and replies.
 *
 * Passing a call between threads costs about as much as all other work for it, apart from its fdatasync. So the thread
 * that has read the only pending request does the work of the core thread and of the sync thread, if both sleep. No
 * other thread could use their time.
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

/* Maximum number of calls for which the core thread is woken once. It is woken once for all calls of a round of the
 * door, or for this number of them. Reason: a wake-up costs as much as decoding a request. */
#define LONE_CALLS_MAX 32u
/* Number of calls that go through the threads after other calls arrived during a lone call. After them, the next lone
 * call is processed on the door's thread again. */
#define LONE_COMPANY_CALLS 64u

struct lone {
    struct inbox *inbox;
    struct core_thread *core_thread;
    struct sync *sync;
    struct door *door;
    uint64_t from;   /* connection of the last call; DOOR_INSIDE: a request of the gateway (HTTP, beanstalkd) */
    bool was_inside; /* true: the last lone call was the gateway's. Then several calls in the next round count as
                        further calls */
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
