/* leases.h: sessions and their leases. A session does not survive a restart; its records in the log only inform readers
 * of the log. A lease survives a restart and names its session. */
#ifndef TARRY_CORE_LEASES_H
#define TARRY_CORE_LEASES_H

#include "state.h"

struct session *session_find(struct core *core, uint64_t id);
/* Creates a session. Returns NULL if the table is full. */
struct session *session_new(struct core *core, uint64_t id, enum session_state state);
/* Frees a session that has no lease and no subscription. */
void session_free(struct core *core, struct session *session);
/* Bit in the id of a pooled session. The leases carry the id, so the bit is known after a restart too. */
#define SESSION_POOLED (1ull << 31)
static inline bool session_is_pooled(uint64_t id) {
    return (id & SESSION_POOLED) != 0;
}
/* Bit in the id of a pooled session whose consumers are connections of this process (Subscribe.bound). After a restart
 * or a promotion, the tasks that such a session leased become ready at once. */
#define SESSION_BOUND (1ull << 30)
static inline bool session_is_bound(uint64_t id) {
    return (id & SESSION_BOUND) != 0;
}
/* Bit in the id of a mover (Subscribe.mover), which is a bound session. */
#define SESSION_MOVER (1ull << 29)
static inline bool session_is_mover(uint64_t id) {
    return (id & SESSION_MOVER) != 0;
}
/* Bit in the id of a sharer (Subscribe.sharer): the part of the broker that leases the due tasks of topics (groups.h).
 * A sharer also has the bit SESSION_MOVER. */
#define SESSION_SHARER (1ull << 28)
static inline bool session_is_sharer(uint64_t id) {
    return (id & SESSION_SHARER) != 0;
}
/* Returns true if the session is subscribed and its lane's connection exists or is expected. */
bool session_is_present(const struct session *session);
/* Adds a leased task to its session's list and arms its deadline. If core->leases_ahead is set, adds it to the list of
 * leases ahead of time and arms its due time. Creates the session if it is from before a restart. */
void lease_take(struct core *core, struct task *task);
/* Clears the task's mark `resend`, because the task is being delivered again, or because its consumer has it. */
void session_resent(struct core *core, struct session *session, struct task *task);
/* Extends the lease to the row's new deadline. Does not change the session's state, even if this is its only lease. */
void lease_extend(struct core *core, struct task *task);
/* Removes the task from its session's list and sets PLACE_NONE. */
void lease_drop(struct core *core, struct task *task);

/* ---- a lease that was made ahead of time (ahead.h) */
/* Moves the task to session->due when its due time has come. */
void lease_is_due(struct core *core, struct task *task);
/* Makes the lease an ordinary one when its delivery is sent. */
void lease_depart(struct core *core, struct session *session, struct task *task);

void session_subscribe(struct core *core, const struct core_request *request, struct core_effects *effects);
void session_unsubscribe(struct core *core, const struct core_request *request, struct core_effects *effects);
/* Notes a sign of life, because the session settled a task. */
void session_heard(struct core *core, uint64_t id);
void session_heartbeat(struct core *core, const struct core_request *request, struct core_effects *effects);
void session_lane_up(struct core *core, uint64_t id);
void session_credit(struct core *core, uint64_t id, uint32_t credit);
/* Ends the session and returns its tasks to their queues by records; the last record gives the cause. Returns the
 * number of records. */
uint32_t session_gone(struct core *core, struct session *session, Tarry__SessionEnd__Cause why,
                      struct core_effects *effects);
void session_sent(struct core *core, const struct core_lane_news *news, struct core_effects *effects);
/* Ends leases after a start, so that others can lease the tasks: those of bound sessions at once, and those of sessions
 * that were not resumed, at the end of the claim time. Stops after about `records_max` records and continues in the
 * next step. Returns the number of records. */
uint32_t session_claim_over(struct core *core, uint32_t records_max, struct core_effects *effects);

/* Makes the core examine the session at `at_ms`, unless an earlier time is already set. */
void session_look_at(struct core *core, struct session *session, uint64_t at_ms);
/* Marks the session for deliver(), because its credit may have changed (a lease gained or lost, a sign of life, a
 * delivery sent). O(1). */
void session_changed(struct core *core, struct session *session);
/* Subscribes the session to the queue; does nothing if it is subscribed already. */
void session_subscribe_to(struct core *core, struct session *session, struct queue *queue);
/* Removes the session from the waiting lines of its queues. */
void session_withdraw(struct core *core, struct session *session);

/* Returns how many more tasks the session may get. For a pooled session, tasks that other clients have through it are
 * not counted. */
uint32_t session_credit_left(const struct session *session);
/* Returns the lease time for the task: that of the session, else the task's own, else that of its queue. `session`
 * NULL: the session has ended. */
uint64_t task_lease_ms(const struct session *session, const struct queue *queue, const struct row *row);
/* Returns the row with a new lease that begins now. */
struct row row_leased(const struct core *core, const struct queue *queue, const struct session *session,
                      const struct row *row);
/* Changes the row to a dead letter that died now. `reason` is borrowed; NULL: none. */
void row_bury(const struct core *core, struct row *row, const char *reason);
/* Sets `out` to the row after the end of its lease: waiting again, or dead if no attempts are left. Returns the cause
 * to record. */
Tarry__Cause row_return(const struct core *core, const struct row *row, Tarry__Cause why, struct row *out);
/* Sets `out` to the row after the end of the task's lease, for any kind of session, and returns the cause. The lease of
 * a sharer counts neither as an attempt nor as a delivery, because a sharer is a part of the broker. */
Tarry__Cause task_return(const struct core *core, const struct task *task, Tarry__Cause why, struct row *out);
/* Undoes a delivery that certainly was not sent (UNSENT): it does not count as a delivery. The previous holder is again
 * the last consumer that may have acted on the task (TRUE-1). */
void row_unsend(const struct task *task, struct row *row);
/* Returns whether new leases may be made. They must wait while the index lags too far, or leases use their whole share
 * of memory (CAP-1). */
bool may_lease(const struct core *core);

/* Returns the list of the movers that may get new tasks, or of the sharers. */
static inline struct session_list *movers_of(struct core *core, uint64_t session) {
    return session_is_sharer(session) ? &core->sharers : &core->movers;
}
/* Returns true if a queue has tasks for a mover or a sharer, and some mover or sharer may get them. */
static inline bool can_move(const struct core *core) {
    return (core->moving.count && !TAILQ_EMPTY(&core->movers)) || (core->sharing.count && !TAILQ_EMPTY(&core->sharers));
}
/* Leases ready tasks to consumers with credit. The work per call is bounded; returns true if more tasks may be left. */
bool deliver(struct core *core, struct core_effects *effects);

#endif
