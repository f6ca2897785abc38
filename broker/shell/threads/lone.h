/* lone.h: a call that comes alone is carried through by the door's thread.
 *
 *   as a rule    net ──► core ──► sync (fdatasync) ──► net
 *   a lone call  net: steps the core, appends, fdatasync, answers
 *
 * A hand-over between threads costs about as much as everything else that is done for a call, apart from its fdatasync.
 * So the thread that has read the only request there is stands in for the core thread and for the sync thread, if both
 * sleep: no other could use their time. As soon as there is company each thread does its own part again, and they
 * overlap: requests of more than one connection, more requests by the end of the sync, a slow disk. In a pair they
 * always do, for a leader's frames leave while its own disk syncs.
 *
 * Nothing else changes: the same code appends in the same order, and answers leave after the sync (LOG-1). While the
 * disk has its time the port is served by the door's second thread, should it take long (door_step_aside).
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

/* After a call had company so many go the usual way before the next is tried alone. */
#define LONE_COMPANY_CALLS 64u

struct lone {
    struct inbox *inbox;
    struct core_thread *core_thread;
    struct sync *sync;
    struct door *door;
    uint64_t from;    /* the connection of the last call */
    bool is_posted;   /* in this round of the door: it may be carried through at its end */
    unsigned company; /* calls that still go the usual way */
};

void lone_init(struct lone *lone, struct inbox *inbox, struct core_thread *core_thread, struct sync *sync,
               struct door *door);
/* Posts a call of connection `from` to the core. `is_alone`: the core owes no other an answer. */
void lone_post(struct lone *lone, struct item *call, uint64_t from, bool is_alone);
/* The round is over, and nothing of the door is held: carries the call through, or wakes the core thread. */
void lone_served(struct lone *lone);

#endif
