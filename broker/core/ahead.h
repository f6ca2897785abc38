/* ahead.h: leases ahead of time (DESIGN.md, Leases ahead of time).
 *
 *   due - ahead_ms          … until then …                            due
 *   TIMER_AHEAD ─► lease ─► recorded, synced, replicated; shown as    TIMER_DEPART ─► the delivery leaves: its lease is
 *                           pending; withdrawn by whatever meets it                   durable, so no sync is in its way
 *
 * The record is that of any lease, and says when the delivery will leave: `delivered_ms` is the due time. Code that
 * replays it (recovery, a follower, a restart in between) takes it for a lease whose delivery may have left, as any
 * other; only what is sent again is not sent before it is due (TIME-1).
 *
 * In the reign that made it the core knows better: until it gives the delivery out no consumer has seen the task. So it
 * is shown as waiting, and a decision about it first takes the lease back (UNSENT: it costs no attempt, and counts as
 * no delivery), in the same frame, and then decides about a task that waits (TRUE-1).
 *
 * Not leased so: tasks of absolute times (the wall clock may stand still), tasks that expire, queues where something
 * waits for credit, leases shorter than AHEAD_LEASE_MIN_MS, pooled sessions. */
#ifndef TARRY_CORE_AHEAD_H
#define TARRY_CORE_AHEAD_H

#include "draft.h"

#define AHEAD_TASKS_MAX 8192u    /* leased ahead of time at once */
#define AHEAD_LEAST_MS 1u        /* what is due so soon is leased when it is */
#define AHEAD_LATE_MS 20u        /* what is so late is withdrawn: its session does not take it */
#define AHEAD_REST_MS 250u       /* a session that had too much ahead gets nothing so, and a narrowed queue is not */
#define AHEAD_REST_MAX_MS 60000u /* widened, for so long at least, and twice as long each time, so long at most */
#define AHEAD_LEASE_MIN_MS 1000u /* shorter leases begin when their deliveries are decided */
#define AHEAD_TAKERS_PER_LOOK_MAX 16u

/* When the task's timer is to fire: due, or ahead of it if it may be leased so. */
uint64_t ahead_from_ms(const struct core *core, const struct row *row);
/* That timer has come ahead of time: ahead_lease, in this step, may lease the task; else it is leased when it is due.
 */
void ahead_note(struct core *core, struct task *task);
/* Leases what was noted to consumers with credit to spare; `records_max` at most. */
void ahead_lease(struct core *core, uint32_t records_max, struct core_effects *effects);

/* Leased ahead of time, by this reign, and still here? */
bool ahead_is(const struct core *core, const struct row *row);
/* The row as it was before that lease, which never left. */
void ahead_return(const struct core *core, const struct task *task, struct row *out);
/* A decision is about the task: if it is leased ahead it is so no longer, by a record of the draft. */
void ahead_see(struct draft *draft, struct known *known);
/* A record that takes the lease back. */
void ahead_take_back(struct draft *draft, const struct task *task);

/* Lets out what is due, or withdraws what cannot leave or whose credit is needed. */
void ahead_settle(struct core *core, struct session *session, struct core_effects *effects);
/* Withdraws what is due by `due_ms`. */
void ahead_withdraw(struct core *core, struct session *session, uint64_t due_ms, struct core_effects *effects);
void ahead_withdraw_all(struct core *core, struct core_effects *effects);
/* Of what it has ahead in this queue and is due, the one that comes first; NULL: there is none. It waits for a ready
 * one that comes before it, and what comes after it must not leave first. */
const struct row *ahead_first_due(struct core *core, const struct session *session, const struct queue *queue);
/* The delivery under way has left, or its leases are given back. */
void ahead_departed(struct session *session);
/* The session is looked at again then. */
void ahead_wait(struct core *core, struct session *session, uint64_t until_ms);
/* The task leaves the list: it is not leased ahead any more. */
void ahead_leave(struct core *core, struct session *session, struct task *task);

/* Its lane is up: it may be leased to ahead of time. Not pooled. And no longer. */
void ahead_stand_up(struct session *session);
void ahead_stand_down(struct session *session);

#endif
