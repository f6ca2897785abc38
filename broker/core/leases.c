/* leases.c: the table of sessions and the leases they hold (leases.h). How consumers come and go is in sessions.c. */
#include "leases.h"

#include <string.h>

#include "ahead.h"
#include "near.h"
#include "seeded_bug.h"
#include "tasks.h"

struct session *session_find(struct core *core, uint64_t id) {
    for (size_t i = 0; id && i < SESSIONS_TABLE; i++) {
        size_t slot = (id + i) % SESSIONS_TABLE;
        if (core->sessions[slot].state != SESSION_FREE && core->sessions[slot].id == id) return &core->sessions[slot];
        if (!core->sessions[slot].id) return NULL; /* never used: the probe ends */
    }
    return NULL;
}

/* A slot by linear probing; a slot once used keeps an id, so that probes go on past it. */
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
        session->departure.kind = TIMER_DEPART;
        TAILQ_INIT(&session->leases);
        TAILQ_INIT(&session->ahead);
        TAILQ_INIT(&session->wishes);
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
    wheel_cancel(&core->wheels[ROW_STEADY], &session->departure.wheel);
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

void session_withdraw(struct core *core, struct session *session) {
    if (!session->willing) return;
    session->willing = false;
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

void lease_take(struct core *core, struct task *task) {
    assert(task->place == PLACE_NONE && task->row.state == ROW_LEASED);
    struct session *session = session_find(core, task->row.session);
    bool is_pooled = session_is_pooled(task->row.session) &&
                     !SEEDED_BUG(pooled_given_back); /* it will not be claimed, and its leases stand */
    if (!session) session = session_new(core, task->row.session, is_pooled ? SESSION_LEFT : SESSION_UNCLAIMED);
    assert(session); /* twice as many slots as sessions: those of before a restart fit too */
    task->place = PLACE_LEASED;
    TAILQ_INSERT_TAIL(&session->leases, task, member);
    session->lease_count++;
    core->leases++;
    core->lease_bytes += task_bytes(task);
    arm(core, task);
}

void lease_extend(struct core *core, struct task *task) {
    assert(task->place == PLACE_LEASED && task->row.state == ROW_LEASED);
    struct session *session = session_find(core, task->row.session);
    assert(session && session->lease_count);
    if (task->resend) session_resent(core, session, task); /* the session that extends it has it */
    wheel_cancel(&core->wheels[ROW_STEADY], &task->timer.wheel);
    arm(core, task);
}

void session_resent(struct core *core, struct session *session, struct task *task) {
    assert(task->resend && session->resend_count);
    task->resend = false;
    session->resend_count--;
    session_changed(core, session);
}

void lease_drop(struct core *core, struct task *task) {
    assert(task->place == PLACE_LEASED);
    struct session *session = session_find(core, task->row.session);
    assert(session && session->lease_count && core->leases);
    if (task->ahead) {
        ahead_leave(core, session, task);
    } else {
        TAILQ_REMOVE(&session->leases, task, member);
    }
    task->departing = false;
    session->lease_count--;
    core->leases--;
    core->lease_bytes -= task_bytes(task);
    session_changed(core, session);
    if (task->resend) session_resent(core, session, task);
    if (!SEEDED_BUG(lease_outlives_ack)) wheel_cancel(&core->wheels[ROW_STEADY], &task->timer.wheel);
    task->before = (struct holder){0};
    task->place = PLACE_NONE;
    bool is_over = session->state == SESSION_LEFT || (session->state == SESSION_UNCLAIMED && !core->started);
    if (is_over && !session->lease_count) session_free(core, session);
}
