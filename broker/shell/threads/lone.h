/* lone.h: how the door's thread passes calls to the core: those of a round together, and one that arrives alone it
 * processes itself.
 *
 *   as a rule    net ──► core ──► sync (fdatasync) ──► net
 *   a lone call  net: steps the core, appends, fdatasync, answers
 *
 * Passing a call between threads costs about as much as all other work for it, apart from its fdatasync. So the thread
 * that has read the only pending request stands in for the core thread and the sync thread, if both sleep. Then no
 * other thread could use their time. When there are more requests, each thread does its own part again and they work in
 * parallel. That is so with requests of more than one connection, with more requests at the end of the sync, or with a
 * slow disk. In a pair it is always so, because a leader sends its frames while its own disk syncs.
 *
 * Nothing else changes: the same code appends in the same order, and replies are sent after the sync (LOG-1). If the
 * disk takes long, the door's second thread serves the port meanwhile (door_step_aside).
 *
 * Door's thread only. */
#ifndef TARRY_SHELL_LONE_H
#define TARRY_SHELL_LONE_H

#include <stdbool.h>
#include <stdint.h>

struct core_thread;
struct door;
struct inbox;
struct item;
struct sync;

/* The core thread is woken once for all calls of a round of the door, or for this number of them: a wake-up costs as
 * much as decoding a request. */
#define LONE_CALLS_MAX 32u
/* Number of calls that go through the threads, after a lone call had company, before the next lone one is tried. */
#define LONE_COMPANY_CALLS 64u

struct lone {
    struct inbox *inbox;
    struct core_thread *core_thread;
    struct sync *sync;
    struct door *door;
    uint64_t from;   /* connection of the last call; DOOR_INSIDE: a request of the gateway (HTTP, beanstalkd) */
    bool was_inside; /* the last lone call was the gateway's: several calls in the next round are its company */
    bool is_posted;  /* a lone call was posted in this round of the door; it may be processed at the end of the round */
    unsigned posted; /* number of calls posted since the core thread was woken */
    unsigned company; /* number of calls that still go through the threads */
};

void lone_init(struct lone *lone, struct inbox *inbox, struct core_thread *core_thread, struct sync *sync,
               struct door *door);
/* Posts a call of connection `from` to the core. `is_alone`: the core has no other call without a reply. lone_served
 * must follow. */
void lone_post(struct lone *lone, struct item *call, uint64_t from, bool is_alone);
/* Called at the end of a round, when the door holds no lock. Processes the lone call, or wakes the core thread. */
void lone_served(struct lone *lone);

#endif
