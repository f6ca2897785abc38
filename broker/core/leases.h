/* leases.h: sessions and the leases they hold. A session is no state that survives a restart: what the log says of its
 * coming and going is for people; a lease is state, and names its session. */
#ifndef TARRY_CORE_LEASES_H
#define TARRY_CORE_LEASES_H

#include "state.h"

struct session *session_find(struct core *core, uint64_t id);
/* NULL: the table is full. */
struct session *session_new(struct core *core, uint64_t id, enum session_state state);
/* Must hold no lease and no subscription. */
void session_free(struct core *core, struct session *session);
/* It is known by its number, which its leases bear after a restart. */
#define SESSION_POOLED (1ull << 31)
static inline bool session_is_pooled(uint64_t id) {
    return (id & SESSION_POOLED) != 0;
}
/* Subscribed, its pipe there or expected. */
bool session_is_present(const struct session *session);
/* A leased task into its session's list, its deadline armed; while core->leases_ahead is set, into the list of what was
 * leased ahead of time, its due time armed. A session of before a restart comes into being here. */
void lease_take(struct core *core, struct task *task);
/* It goes out once more, or no longer needs to. */
void session_resent(struct core *core, struct session *session, struct task *task);
/* The same lease until the row's new deadline. Its session stays what it is, though this be all that keeps it. */
void lease_extend(struct core *core, struct task *task);
/* Out of the list; place NONE. */
void lease_drop(struct core *core, struct task *task);

/* ---- a lease that was made ahead of time (ahead.h) */
/* Its due time has come. */
void lease_is_due(struct core *core, struct task *task);
/* Its delivery leaves: from here on it is a lease like any other. */
void lease_depart(struct core *core, struct session *session, struct task *task);

void session_subscribe(struct core *core, const struct core_event *event, struct core_effects *effects);
void session_unsubscribe(struct core *core, const struct core_event *event, struct core_effects *effects);
/* It settled something: a sign of life. */
void session_heard(struct core *core, uint64_t id);
void session_heartbeat(struct core *core, const struct core_event *event, struct core_effects *effects);
void session_lane_up(struct core *core, const struct core_event *event);
void session_credit(struct core *core, const struct core_event *event);
/* The session ends: what it held is ready again, by records, the last of which says why. Returns how many. */
uint32_t session_gone(struct core *core, struct session *session, Tarry__SessionEnd__Cause why,
                      struct core_effects *effects);
void session_sent(struct core *core, const struct core_event *event, struct core_effects *effects);
/* The claim time after a start is over: what was not claimed is ready again. After about `records_max` records it
 * goes on in the next step. Returns how many. */
uint32_t session_claim_over(struct core *core, uint32_t records_max, struct core_effects *effects);

/* Looks at the session again at `at_ms`, or at the time asked for before if that is earlier. */
void session_look_at(struct core *core, struct session *session, uint64_t at_ms);
/* What it may get, or how much, may have changed: it got a lease or lost one, was heard, a delivery left … O(1);
 * deliver() looks at it. */
void session_changed(struct core *core, struct session *session);
/* The session gets tasks of the queue from here on; nothing if it does already. */
void session_subscribe_to(struct core *core, struct session *session, struct queue *queue);
/* Leaves the lines of its queues. */
void session_withdraw(struct core *core, struct session *session);

/* How many tasks more it may get. Behind a pooled one it does not count what other clients hold that got it by this
 * session. */
uint32_t session_credit_left(const struct session *session);
uint64_t session_lease_ms(const struct session *session, const struct queue *queue);
/* The row as it is leased now. */
struct row row_leased(const struct core *core, const struct queue *queue, const struct session *session,
                      const struct row *row);
/* A leased task whose lease is over: waiting again, or dead when its attempts are used up. Also the cause to record. */
Tarry__Cause row_return(const struct core *core, const struct row *row, Tarry__Cause why, struct row *out);
/* UNSENT: the delivery of the task's lease provably never left. It does not count, and the consumer that had the task
 * before is again the last that may have acted on it (TRUE-1). */
void row_unsend(const struct task *task, struct row *row);
/* CAP-1: new leases wait for the index, and for others to end when they have their share of memory. */
bool may_lease(const struct core *core);

/* Leases what is ready to consumers with credit. Bounded per call; true: there may be more at once. */
bool deliver(struct core *core, struct core_effects *effects);

#endif
