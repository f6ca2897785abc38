/* leases.c: the table of sessions, their leases, and the rows of leased tasks (leases.h). Subscriptions and ends of
 * sessions are in sessions.c. */
#include "leases.h"

#include <string.h>

#include "decide.h"
#include "gate.h"
#include "near.h"
#include "need.h"
#include "query.h"
#include "tasks.h"

struct session *session_find(struct core *core, uint64_t id) {
    for (size_t i = 0; id && i < SESSIONS_TABLE; i++) {
        size_t slot = (id + i) % SESSIONS_TABLE;
        if (core->sessions[slot].state != SESSION_FREE && core->sessions[slot].id == id) return &core->sessions[slot];
        if (!core->sessions[slot].id) return NULL; /* the slot was never used, so the probe ends */
    }
    return NULL;
}

/* Finds a free slot by linear probing. A slot that was freed keeps its id, so that probes continue past it. */
struct session *session_new(struct core *core, uint64_t id, enum session_state state) {
    for (size_t i = 0; i < SESSIONS_TABLE; i++) {
        struct session *session = &core->sessions[(id + i) % SESSIONS_TABLE];
        if (session->state != SESSION_FREE) continue;
        if ((size_t)(session - core->sessions) >= core->sessions_end) {
            core->sessions_end = (uint32_t)(session - core->sessions) + 1;
        }
        memset(session, 0, sizeof *session);
        session->subscriptions = core->subscriptions[session - core->sessions];
        session->id = id;
        session->state = (uint8_t)state;
        session->silence.kind = TIMER_SILENCE;
        session->look.kind = TIMER_SESSION;
        TAILQ_INIT(&session->leases);
        TAILQ_INIT(&session->ahead);
        TAILQ_INIT(&session->wishes);
        for (size_t priority = 0; priority < PRIORITY_COUNT; priority++) TAILQ_INIT(&session->due[priority]);
        return session;
    }
    return NULL;
}

void session_free(struct core *core, struct session *session) {
    assert(!session->lease_count && !session->subscription_count && !session->wish_count && !session->willing &&
           !session->takes);
    if (session->changed) TAILQ_REMOVE(&core->changed, session, change);
    session->changed = false;
    wheel_cancel(&core->wheels[ROW_STEADY], &session->silence.wheel);
    wheel_cancel(&core->wheels[ROW_STEADY], &session->look.wheel);
    session->state = SESSION_FREE;
}

bool session_is_present(const struct session *session) {
    return session->state == SESSION_WAITING_LANE || session->state == SESSION_UP;
}

void session_changed(struct core *core, struct session *session) {
    if (session->changed) return;
    session->changed = true;
    TAILQ_INSERT_TAIL(&core->changed, session, change);
}

void session_look_at(struct core *core, struct session *session, uint64_t at_ms) {
    struct wheel *wheel = &core->wheels[ROW_STEADY];
    if (wheel_is_armed(&session->look.wheel) && session->look.wheel.due_ms <= at_ms) return;
    wheel_cancel(wheel, &session->look.wheel);
    wheel_arm(wheel, &session->look.wheel, at_ms, session->id);
}

void session_withdraw(struct core *core, struct session *session) {
    if (!session->willing) return;
    session->willing = false;
    if (session_is_mover(session->id)) TAILQ_REMOVE(movers_of(core, session->id), session, mover);
    for (uint32_t i = 0; i < session->subscription_count; i++) {
        struct subscription *subscription = &session->subscriptions[i];
        TAILQ_REMOVE(&subscription->queue->willing, subscription, of_queue);
        subscription->queue->willing_count--;
        near_update_serving(core, subscription->queue);
    }
}

static void arm(struct core *core, struct task *task) {
    uint64_t deadline_ms = task->row.lease_deadline_ms;
    task->timer.kind = TIMER_LEASE;
    wheel_arm(&core->wheels[ROW_STEADY], &task->timer.wheel, deadline_ms ? deadline_ms : 1, task->row.id);
}

/* Keeps the leased task back until its due time. */
static void hold_back(struct core *core, struct session *session, struct task *task) {
    TAILQ_INSERT_TAIL(&session->ahead, task, member);
    task->ahead = AHEAD_PENDING;
    session->ahead_count++;
    core->ahead_count++;
    queue_at(core, task->row.queue)->ahead_count++;
    task->timer.kind = TIMER_DEPART;
    wheel_arm(&core->wheels[ROW_STEADY], &task->timer.wheel, task->row.due_ms, task->row.id);
    /* A List that is being scanned may have passed this task while it was in flight, so the List must check the task
     * again. */
    if (core->scan_count) list_saw(core, task);
}

void lease_take(struct core *core, struct task *task) {
    assert(task->place == PLACE_NONE && task->row.state == ROW_LEASED);
    struct session *session = session_find(core, task->row.session);
    /* A pooled session (shared by the clients of a gateway) cannot be claimed by a client. Its leases stay until their
     * deadlines, unless the session is bound to this process. */
    bool stays = session_is_pooled(task->row.session) && !session_is_bound(task->row.session);
    if (!session) session = session_new(core, task->row.session, stays ? SESSION_LEFT : SESSION_UNCLAIMED);
    assert(session); /* the table has twice as many slots as sessions, so it has space for sessions from before a
                        restart */
    task->place = PLACE_LEASED;
    if (task->row.serial_size) near_hold(core, task); /* SERIAL-1 */
    session->lease_count++;
    core->leases++;
    core->lease_bytes += task_bytes(task);
    if (core->leases_ahead) {
        hold_back(core, session, task);
        return;
    }
    TAILQ_INSERT_TAIL(&session->leases, task, member);
    arm(core, task);
}

void lease_extend(struct core *core, struct task *task) {
    assert(task->place == PLACE_LEASED && task->row.state == ROW_LEASED);
    struct session *session = session_find(core, task->row.session);
    assert(session && session->lease_count);
    /* A session that extends the lease has got the task, so it need not be delivered again. */
    if (task->resend) session_resent(core, session, task);
    wheel_cancel(&core->wheels[ROW_STEADY], &task->timer.wheel);
    arm(core, task);
}

void session_resent(struct core *core, struct session *session, struct task *task) {
    assert(task->resend && session->resend_count);
    task->resend = false;
    session->resend_count--;
    session_changed(core, session);
}

/* Removes the task from its list and updates the counts of leases ahead of time. */
static void leave_list(struct core *core, struct session *session, struct task *task) {
    if (!task->ahead) {
        TAILQ_REMOVE(&session->leases, task, member);
        return;
    }
    struct task_list *due = &session->due[task->row.priority];
    TAILQ_REMOVE(task->ahead == AHEAD_DUE ? due : &session->ahead, task, member);
    if (TAILQ_EMPTY(due)) session->due_mask &= ~(1u << task->row.priority);
    assert(session->ahead_count && core->ahead_count && queue_at(core, task->row.queue)->ahead_count);
    task->ahead = AHEAD_NOT;
    session->ahead_count--;
    core->ahead_count--;
    queue_at(core, task->row.queue)->ahead_count--;
}

void lease_is_due(struct core *core, struct task *task) {
    assert(task->place == PLACE_LEASED && task->ahead == AHEAD_PENDING);
    struct session *session = session_find(core, task->row.session);
    TAILQ_REMOVE(&session->ahead, task, member);
    /* The list stays in order, because timers expire in order of (due, id). */
    TAILQ_INSERT_TAIL(&session->due[task->row.priority], task, member);
    session->due_mask |= 1u << task->row.priority;
    task->ahead = AHEAD_DUE;
    session_changed(core, session);
}

void lease_depart(struct core *core, struct session *session, struct task *task) {
    assert(task->ahead == AHEAD_DUE && task->row.due_ms <= steady_ms(core)); /* TIME-1 */
    leave_list(core, session, task);
    TAILQ_INSERT_TAIL(&session->leases, task, member);
    task->departing = true;
    arm(core, task);
    /* The task counts as in flight from now on, although no record says so; the List must know that. */
    if (core->scan_count) list_saw(core, task);
}

void lease_drop(struct core *core, struct task *task) {
    assert(task->place == PLACE_LEASED);
    struct session *session = session_find(core, task->row.session);
    assert(session && session->lease_count && core->leases);
    leave_list(core, session, task);
    task->departing = false;
    session->lease_count--;
    core->leases--;
    core->lease_bytes -= task_bytes(task);
    session_changed(core, session);
    if (task->resend) session_resent(core, session, task);
    wheel_cancel(&core->wheels[ROW_STEADY], &task->timer.wheel);
    task->before = (struct holder){0};
    task->place = PLACE_NONE;
    if (task->row.serial_size) near_release(core, task); /* SERIAL-1 */
    struct queue *queue = queue_at(core, task->row.queue);
    if (gate_limits(queue)) near_update_serving(core, queue); /* HERD-1: one task fewer is in flight */
    bool is_over = session->state == SESSION_LEFT || (session->state == SESSION_UNCLAIMED && !core->started);
    if (is_over && !session->lease_count) session_free(core, session);
}

/* ---- credit, and rows */

uint32_t session_credit_left(const struct session *session) {
    if (session_is_pooled(session->id)) return session->credit;
    return !session->mute && session->lease_count < session->prefetch ? session->prefetch - session->lease_count : 0;
}

bool may_lease(const struct core *core) {
    return core->leases < LEASES_MAX && core->overlay_count <= core->options.index_lag_hard &&
           need_lease_room(core) >= TASK_BYTES_MAX;
}

uint64_t task_lease_ms(const struct session *session, const struct queue *queue, const struct row *row) {
    if (session && session->lease_ms) return session->lease_ms;
    return row->lease_ms ? row->lease_ms : queue->policy.lease_ms; /* OWN-1 */
}

struct row row_leased(const struct core *core, const struct queue *queue, const struct session *session,
                      const struct row *row) {
    struct row leased = *row;
    uint64_t lease_ms = task_lease_ms(session, queue, row);
    leased.state = ROW_LEASED;
    leased.attempt++;
    leased.deliveries++;
    leased.lease_epoch = core->epoch;
    leased.lease_position = core->position; /* FENCE-1: the fencing token is the position of this frame */
    leased.lease_deadline_ms = from_ms(core) + lease_ms;
    leased.session = session->id;
    leased.delivered_ms = steady_ms(core);
    return leased;
}

void row_bury(const struct core *core, struct row *row, const char *reason) {
    row->state = ROW_BURIED;
    row->lease_deadline_ms = 0;
    row->dead_ms = steady_ms(core);
    row->reason = reason;
    row->reason_size = reason ? (uint8_t)strlen(reason) : 0;
}

Tarry__Cause row_return(const struct core *core, const struct row *row, Tarry__Cause why, struct row *out) {
    *out = *row;
    out->state = ROW_WAITING;
    out->lease_deadline_ms = 0;
    if (why == TARRY__CAUSE__CAUSE_LEASE_LOST) { /* a lost lease counts as an attempt, without backoff */
        const uint32_t most = attempts_max(&queue_at(core, row->queue)->policy, row->max_attempts);
        if (!most || out->attempt < most) return why;
        row_bury(core, out, reason_lease_lost);
        return TARRY__CAUSE__CAUSE_BURIED;
    }
    assert(out->attempt > 0);
    out->attempt--; /* no consumer has seen the task, so no attempt is counted */
    return why;
}

void row_unsend(const struct task *task, struct row *row) {
    assert(task->place == PLACE_LEASED && row->deliveries > 0);
    row->deliveries--;
    /* The sharer's lease has replaced the record of the consumer that had the task before, so that consumer is not
     * known. */
    if (session_is_sharer(row->session) && row->deliveries && !task->before.session) return;
    row->session = task->before.session;
    row->delivered_ms = task->before.delivered_ms;
}

Tarry__Cause task_return(const struct core *core, const struct task *task, Tarry__Cause why, struct row *out) {
    if (session_is_sharer(task->row.session)) why = TARRY__CAUSE__CAUSE_UNSENT;
    Tarry__Cause cause = row_return(core, &task->row, why, out);
    if (cause == TARRY__CAUSE__CAUSE_UNSENT) row_unsend(task, out);
    return cause;
}
