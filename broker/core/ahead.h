/* ahead.h: leases ahead of time (DESIGN.md, Leases ahead of time).
 *
 *   due - ahead_ms           until the due time                   due
 *   TIMER_AHEAD ─► lease ─► recorded, synced, replicated; every ─► TIMER_DEPART ─► the delivery leaves without a sync,
 * or answer says pending                    the lease is withdrawn and the task is ready
 *
 * The record is that of any lease; its `delivered_ms` is the due time. Recovery, a follower and a later reign take it
 * for a lease whose delivery may have left; only a repeated delivery waits for the due time (TIME-1).
 *
 * The reign that made the lease knows that no consumer has seen the task yet. So every answer shows the task as
 * waiting, and a decision about it first withdraws the lease (UNSENT: no attempt, no delivery) in the same frame, and
 * then decides about a waiting task (TRUE-1).
 *
 * One waiting state: at its due time the task departs or becomes an ordinary ready task, in that step. The exception
 * has a bound: while a delivery to the task's own consumer is under way, the task is the first of the next one. The
 * lease is withdrawn when that delivery has been under way for AHEAD_LATE_MS, when a ready task comes before this one,
 * or when others left before it for AHEAD_LATE_MS.
 *
 * Never leased ahead of time: tasks of absolute times (the wall clock may stand still), tasks that expire, leases
 * shorter than AHEAD_LEASE_MIN_MS, tasks for pooled sessions. */
#ifndef TARRY_CORE_AHEAD_H
#define TARRY_CORE_AHEAD_H

#include "draft.h"

#define AHEAD_TASKS_MAX 8192u /* maximum number of tasks leased ahead of time */
#define AHEAD_LATE_MS 20u     /* how long a lease ahead may wait for its consumer after the due time */
#define AHEAD_SPAN_MIN_MS 4u  /* a queue's time ahead is not halved below this */
#define AHEAD_REST_MS 250u    /* after harm, pause 250 ms, doubling, at most 60 s: leases ahead to a session, or the */
#define AHEAD_REST_MAX_MS 60000u /* doubling of a queue's time ahead */
#define AHEAD_LEASE_MIN_MS 1000u
#define AHEAD_TAKERS_PER_LOOK_MAX 16u

/* Notes the task for ahead_lease in this step. Call it when the task's timer expires before the due time. */
void ahead_note(struct core *core, struct task *task);
/* Leases the noted tasks to consumers with spare credit; writes at most `records_max` records. */
void ahead_lease(struct core *core, uint32_t records_max, struct core_effects *effects);

/* Returns true if this reign leased the task ahead of time and the delivery has not left. */
bool ahead_is(const struct core *core, const struct row *row);
/* Returns in `out` the row as it was before the task was leased ahead of time. */
void ahead_return(const struct core *core, const struct task *task, struct row *out);
/* Withdraws a lease ahead of time by a record in the draft. Call it before a decision about the task. */
void ahead_see(struct draft *draft, struct known *known);

/* Delivers the session's due leases or withdraws them; withdraws all leases ahead of time if the session's credit is
 * used up. */
void ahead_settle(struct core *core, struct session *session, struct core_effects *effects);
/* Withdraw all leases ahead of time of one session, or of all sessions. */
void ahead_withdraw(struct core *core, struct session *session, struct core_effects *effects);
void ahead_withdraw_all(struct core *core, struct core_effects *effects);
/* Call when the delivery under way has left, or when its leases are given back. */
void ahead_departed(struct session *session);

/* Lets a session take leases ahead of time, once its lane is up. Not for pooled sessions. */
void ahead_stand_up(struct session *session);
void ahead_stand_down(struct session *session);

#endif
