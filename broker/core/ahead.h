/* ahead.h: leases ahead of time (DESIGN.md, Leases ahead of time).
 *
 * A lease ahead of time is made before the task is due: when the timer TIMER_AHEAD expires, `ahead_ms` before the due
 * time. Until the due time, the lease is recorded, synced and replicated, and every answer shows the task as pending.
 * At the due time (TIMER_DEPART), the delivery is sent without waiting for a sync, or the lease is withdrawn and the
 * task becomes ready.
 *
 * The record of the lease is that of an ordinary lease; its `delivered_ms` is the due time. Recovery, a follower and a
 * later epoch treat it as a lease whose delivery may have been sent. If they repeat the delivery, they wait for the due
 * time (TIME-1).
 *
 * In the epoch in which the core made the lease, the core knows that no consumer has seen the task yet. A decision
 * about the task first withdraws the lease in the same frame (cause UNSENT: no attempt, no delivery). So the decision
 * is about a waiting task (TRUE-1).
 *
 * At its due time the task is delivered or becomes an ordinary ready task, in the same step. There is one exception:
 * while an earlier delivery to the task's consumer is still being sent, the task waits to be the first of the next
 * delivery. The lease is withdrawn in three cases: that earlier delivery has lasted AHEAD_LATE_MS; a ready task
 * precedes this task; other tasks were delivered before this task for AHEAD_LATE_MS.
 *
 * Some tasks are never leased ahead of time: tasks with absolute due times (the wall clock may stand still), tasks that
 * expire, tasks with leases shorter than AHEAD_LEASE_MIN_MS, tasks for pooled sessions. */
#ifndef TARRY_CORE_AHEAD_H
#define TARRY_CORE_AHEAD_H

#include "draft.h"

#define AHEAD_TASKS_MAX 8192u /* maximum number of tasks that are leased ahead of time */
#define AHEAD_LATE_MS 20u     /* maximum time after the due time that a lease ahead waits for its consumer */
#define AHEAD_SPAN_MIN_MS 4u  /* minimum of the time by which a queue's tasks are leased ahead; halving stops there */
/* Length of the first pause after a task that was leased ahead of time delayed another task. Each pause is twice as
 * long as the previous one, at most AHEAD_REST_MAX_MS. */
#define AHEAD_REST_MS 250u
/* Length of the longest pause. During a pause, a session gets no leases ahead of time, or a queue's lead time (how long
 * before the due time its tasks are leased) is not doubled. */
#define AHEAD_REST_MAX_MS 60000u
#define AHEAD_TAKERS_PER_LOOK_MAX 16u

/* Notes the task for ahead_lease in this step. Call it when the task's timer expires before the due time. */
void ahead_note(struct core *core, struct task *task);
/* Leases the noted tasks to consumers with spare credit; writes at most `records_max` records. */
void ahead_lease(struct core *core, uint32_t records_max, struct core_effects *effects);

/* Returns true if the task was leased ahead of time in this epoch and its delivery has not been sent. */
bool ahead_is(const struct core *core, const struct row *row);
/* Sets `out` to the row as it was before the task was leased ahead of time. */
void ahead_return(const struct core *core, const struct task *task, struct row *out);
/* Withdraws a lease ahead of time by a record in the draft. Call it before a decision about the task. */
void ahead_see(struct draft *draft, struct known *known);

/* Delivers the session's leases ahead of time that are due, or withdraws them. If the session has no credit left,
 * withdraws all its other leases ahead of time too. */
void ahead_settle(struct core *core, struct session *session, struct core_effects *effects);
/* Withdraw all leases ahead of time of one session, or of all sessions. */
void ahead_withdraw(struct core *core, struct session *session, struct core_effects *effects);
void ahead_withdraw_all(struct core *core, struct core_effects *effects);
/* Notes that the delivery to the session was sent, or that its leases were released. */
void ahead_departed(struct session *session);

/* Permits leases ahead of time to a session, once its lane is connected. Not for pooled sessions. */
void ahead_stand_up(struct session *session);
void ahead_stand_down(struct session *session);

#endif
