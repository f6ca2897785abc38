/* deliver.c: leases ready tasks to consumers. A lease is a record that is durable before its delivery is sent (LOG-1,
 * TRUE-1).
 *
 * Order within a queue: highest priority, then due time, then id. The consumers of a queue with credit take turns,
 * and each gets a fair share. So one consumer's prefetch does not take all tasks of a small burst. */
#include "ahead.h"
#include "decide.h"
#include "effects.h"
#include "gate.h"
#include "leases.h"
#include "near.h"
#include "need.h"
#include "overdue.h"
#include "tasks.h"

static bool has_credit(const struct session *session) {
    return session->state == SESSION_UP && !session->sending && !session->resend_count &&
           session_credit_left(session) > 0;
}

/* Adds the session's subscriptions to the end of its queues' waiting lines. */
static void enlist(struct core *core, struct session *session) {
    session->willing = true;
    if (session_is_mover(session->id)) TAILQ_INSERT_TAIL(movers_of(core, session->id), session, mover);
    for (uint32_t i = 0; i < session->subscription_count; i++) {
        struct subscription *subscription = &session->subscriptions[i];
        TAILQ_INSERT_TAIL(&subscription->queue->willing, subscription, of_queue);
        subscription->queue->willing_count++;
        near_update_serving(core, subscription->queue);
    }
}

/* Returns true if the session now gets tasks of the queue that are not due yet. These are consumers of a queue with
 * lease_before_due, and the sharer of a topic when no due task is left. */
static bool takes_early(struct core *core, struct queue *queue, const struct session *session) {
    if (session_is_sharer(session->id)) return !near_next_ready(core, queue);
    return queue->policy.lease_before_due && !session_is_mover(session->id);
}

static uint32_t share_of(const struct core *core, const struct queue *queue, const struct session *session,
                         bool early) {
    uint64_t count = early ? near_early_count(queue) : near_ready_count(queue);
    uint64_t share = session_is_mover(session->id) ? count : (count + queue->willing_count - 1) / queue->willing_count;
    uint32_t credit = session_credit_left(session);
    if (share > credit) share = credit;
    if (share > session->batch_max) share = session->batch_max;
    if (share > LEASES_MAX - core->leases) share = LEASES_MAX - core->leases;
    uint64_t fitting = need_lease_room(core) / TASK_BYTES_MAX;
    if (share > fitting) share = fitting;
    if (session_is_mover(session->id))
        return (uint32_t)share; /* the queue's limits apply to its consumers, not to a mover (HERD-1) */
    const uint32_t room = gate_room(core, queue);
    return share < room ? (uint32_t)share : room;
}

struct lease_batch {
    struct draft draft;
    struct core_delivered *tasks;
    uint32_t count;
    uint64_t bytes;
};

/* Takes the next tasks of the queue out of their heaps, so that each is visited once. Records each in the draft as
 * leased, as expired, or as handled by an overdue policy (overdue.h). */
static void gather(struct core *core, struct queue *queue, const struct session *session, bool early,
                   uint32_t count_max, uint32_t records_max, struct lease_batch *batch) {
    while (batch->count < count_max && batch->draft.record_count < records_max) {
        struct task *task = early ? near_next_early(core, queue) : near_next_ready(core, queue);
        if (!task) return;
        if (batch->count && batch->bytes + task->row.blob_size > DELIVERY_SIZE_MAX) return;
        near_prefetch_behind(task);
        struct known known = known_of(task);
        if (is_expired(core, &task->row)) {
            near_unplace(core, task);
            draft_end(&batch->draft, TARRY__CAUSE__CAUSE_EXPIRED, &known);
            continue;
        }
        if (queue->overdue_count && overdue_judge(&batch->draft, queue, &known)) {
            near_unplace(core, task);
            continue;
        }
        /* SERIAL-1: no other task with the same serial name is offered. */
        if (task->row.serial_size) near_hold(core, task);
        /* Removes the task from its heap now, because near_next_ready would return it again. apply runs only when the
         * draft is committed. */
        near_unplace(core, task);
        assert((task->row.due_ms <= base_ms(core, task->row.base)) != early); /* TIME-1 */
        struct row leased = row_leased(core, queue, session, &task->row);
        draft_put(&batch->draft, TARRY__CAUSE__CAUSE_LEASED, &known, &leased);
        batch->bytes += leased.blob_size;
        batch->tasks[batch->count++] = (struct core_delivered){.row = leased, .queue_name = queue->name};
    }
}

/* Leases one batch of the queue to the session. Returns the number of tasks leased or expired, at most `records_max`;
 * 0: no task can be delivered now. */
static uint32_t deliver_batch(struct core *core, struct queue *queue, struct session *session, uint32_t records_max,
                              struct core_effects *effects) {
    assert(has_credit(session));
    const bool early = takes_early(core, queue, session);
    uint32_t count_max = share_of(core, queue, session, early);
    if (count_max > records_max) count_max = records_max;
    struct lease_batch batch = {0};
    draft_init_for(&batch.draft, core, effects->arena, session, count_max);
    batch.tasks = must_have(effects->arena, count_max * sizeof *batch.tasks);
    gather(core, queue, session, early, count_max, records_max, &batch);
    if (!batch.draft.record_count) return 0;
    uint64_t position = core->position;
    draft_commit(&batch.draft, NULL, effects);
    if (!batch.count) return (uint32_t)batch.draft.record_count; /* all tasks were expired, so none was leased */
    if (!session_is_mover(session->id)) gate_use(core, queue, batch.count);
    /* near_update_serving is called once for the whole batch, instead of once per lease. */
    if (gate_limits(queue)) near_update_serving(core, queue);
    for (uint32_t i = 0; i < batch.count; i++) {
        /* Copy the keys, because a task may change before its message is made. */
        struct row *row = &batch.tasks[i].row;
        must_own(effects->arena, row);
    }
    session->sending = true;
    session->sending_ms = steady_ms(core);
    session->sending_position = position;
    session->sending_count = batch.count;
    session_withdraw(core, session);
    *PUSH(effects, deliveries) = (struct core_delivery){
        .session = session->id,
        .lane = session->lane,
        .after = core->position, /* LOG-1 */
        .tasks = batch.tasks,
        .count = batch.count,
    };
    return (uint32_t)batch.draft.record_count;
}

/* Repeats deliveries that a returning session may not have received: same tokens, no new record. */
static void send_again(struct core *core, struct session *session, struct core_effects *effects) {
    uint32_t count_max = session->batch_max < session->resend_count ? session->batch_max : session->resend_count;
    struct core_delivered *tasks = must_alloc(effects->arena, count_max * sizeof *tasks);
    uint32_t count = 0;
    uint64_t bytes = 0;
    uint64_t later_ms = UINT64_MAX; /* earliest due time of tasks that were leased ahead of time before a restart */
    struct task *task = NULL;
    TAILQ_FOREACH(task, &session->leases, member) {
        core->visits++;
        if (!task->resend) continue;
        bool is_pending = task->row.due_ms > base_ms(core, task->row.base);
        if (is_pending && !queue_at(core, task->row.queue)->policy.lease_before_due) { /* TIME-1 */
            later_ms = task->row.due_ms < later_ms ? task->row.due_ms : later_ms;
            continue;
        }
        if (count == count_max || (count && bytes + task->row.blob_size > DELIVERY_SIZE_MAX)) break;
        session_resent(core, session, task);
        bytes += task->row.blob_size;
        tasks[count] = (struct core_delivered){.row = task->row, .queue_name = queue_at(core, task->row.queue)->name};
        must_own(effects->arena, &tasks[count].row);
        count++;
    }
    if (later_ms != UINT64_MAX) session_look_at(core, session, later_ms);
    if (!count) return;
    session->sending = true;
    session->sending_ms = steady_ms(core);
    session->sending_again = true;
    *PUSH(effects, deliveries) = (struct core_delivery){
        .session = session->id,
        .lane = session->lane,
        .after = core->position, /* LOG-1 */
        .tasks = tasks,
        .count = count,
    };
}

/* Updates the waiting lines for the changed sessions and repeats their lost deliveries. Returns true if no changed
 * session is left. */
static bool settle_sessions(struct core *core, struct core_effects *effects) {
    uint64_t until = core->visits + per_step(core, SETTLED_PER_STEP_MAX);
    struct session *session = NULL;
    while (core->visits < until && (session = TAILQ_FIRST(&core->changed))) {
        if (session->state == SESSION_UP && session->resend_count && !session->sending) {
            send_again(core, session, effects);
        }
        ahead_settle(core, session, effects);
        TAILQ_REMOVE(&core->changed, session, change);
        session->changed = false;
        bool is_willing = has_credit(session);
        core->visits += 1 + (is_willing != session->willing ? session->subscription_count : 0);
        if (is_willing && !session->willing) enlist(core, session);
        if (!is_willing) session_withdraw(core, session);
    }
    return TAILQ_EMPTY(&core->changed);
}

/* Amount of work that the step may still do. */
struct allowance {
    uint32_t deliveries;
    uint32_t tasks;
    /* If `tasks` is at or below `tasks_least`, no further delivery starts, because it would be too small. */
    uint32_t tasks_least;
};

static bool is_used_up(const struct allowance *left) {
    return !left->deliveries || left->tasks <= left->tasks_least;
}

/* Serves one queue until it is empty, no consumer has credit, or the step's limit is reached. */
static bool serve(struct core *core, struct queue *queue, struct allowance *left, struct core_effects *effects) {
    bool did = false;
    while (ready_has(&queue->serving) && may_lease(core) && !is_used_up(left)) {
        struct session *session = TAILQ_FIRST(&queue->willing)->session; /* the session whose turn is next */
        uint32_t count = deliver_batch(core, queue, session, left->tasks, effects);
        if (!count) break;
        left->tasks -= count;
        left->deliveries--;
        did = true;
    }
    return did;
}

/* Moves the queue to the end of core->serving. Otherwise a consumer of two queues would get nothing from the second
 * queue until the first one is empty (F-41). */
static void to_the_end(struct core *core, struct queue *queue) {
    queue->served = ++core->turn;
    if (ready_has(&queue->serving)) near_serve_again(core, queue);
}

/* Leases due tasks to the sessions in `movers`, one delivery to each. `queues` and `movers` are either the queues with
 * lease_before_due and their movers, or the topics and their sharers. */
static void serve_movers(struct core *core, const struct ready *queues, const struct session_list *movers,
                         struct allowance *left, struct core_effects *effects) {
    uint32_t looks = DELIVERIES_PER_STEP_MAX;
    while (looks-- && queues->count && !TAILQ_EMPTY(movers) && may_lease(core) && !is_used_up(left)) {
        struct queue *queue = queue_at(core, (uint32_t)ready_min(queues)->id);
        core->visits++;
        uint32_t count = deliver_batch(core, queue, TAILQ_FIRST(movers), left->tasks, effects);
        left->tasks -= count;
        left->deliveries -= count > 0;
        if (ready_has(&queue->moving)) near_move_again(core, queue);
    }
}

bool deliver(struct core *core, struct core_effects *effects) {
    core->ready_anew = false;
    if (!core->started || core->stopping) return false;
    if (!settle_sessions(core, effects)) return true;
    uint32_t most = per_step(core, DELIVERED_PER_STEP_MAX);
    struct allowance left = {.deliveries = DELIVERIES_PER_STEP_MAX, .tasks = most, .tasks_least = most / 2};
    /* If no task of a queue can be leased because eviction of its line is in progress, the queue waits until the
     * eviction has ended (near_is_relieving). */
    uint32_t looks = DELIVERIES_PER_STEP_MAX;
    serve_movers(core, &core->moving, &core->movers, &left, effects);
    serve_movers(core, &core->sharing, &core->sharers, &left, effects);
    uint64_t count = core->serving.count;
    for (; count && looks && !is_used_up(&left) && core->serving.count && may_lease(core); count--) {
        struct ready_node *first = ready_min(&core->serving);
        struct queue *queue = queue_at(core, (uint32_t)first->id);
        core->visits++;
        const bool waits = core->recur_behind && queue->recur_count; /* an occurrence may still be skipped (recur.h) */
        if (waits || !serve(core, queue, &left, effects)) looks--;
        to_the_end(core, queue);
    }
    bool more = (count || is_used_up(&left)) && (core->serving.count || can_move(core)) && may_lease(core);
    if (!more && may_lease(core)) ahead_lease(core, left.tasks, effects);
    return more;
}
