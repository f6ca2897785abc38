/* deliver.c: who gets what is ready. A lease is a record, durable before its delivery leaves (LOG-1, TRUE-1).
 *
 * Per queue: the highest priority first, then due, then id. Among the consumers of a queue that have credit the next
 * in turn gets a fair share, so that a small burst does not end in one consumer's prefetch. */
#include "decide.h"
#include "leases.h"
#include "near.h"
#include "push.h"
#include "seeded_bug.h"

static bool has_credit(const struct session *session) {
    return session->state == SESSION_UP && !session->mute && !session->sending && !session->resend_count &&
           session->lease_count < session->prefetch;
}

/* The next subscriber in turn that has credit; it goes to the end of the line. */
static struct session *next_in_turn(struct queue *queue, uint32_t *out_waiting) {
    struct subscription *chosen = NULL;
    struct subscription *subscription = NULL;
    uint32_t waiting = 0;
    TAILQ_FOREACH(subscription, &queue->subscriptions, of_queue) {
        if (!has_credit(subscription->session)) continue;
        if (!chosen) chosen = subscription;
        waiting++;
    }
    if (!chosen) return NULL;
    TAILQ_REMOVE(&queue->subscriptions, chosen, of_queue);
    TAILQ_INSERT_TAIL(&queue->subscriptions, chosen, of_queue);
    *out_waiting = waiting;
    return chosen->session;
}

static uint64_t ready_count(const struct queue *queue) {
    uint64_t count = 0;
    for (uint32_t mask = queue->ready_mask; mask; mask &= mask - 1) {
        uint32_t bit = (uint32_t)__builtin_ctz(mask);
        count += queue->lines[bit / PRIORITY_COUNT][bit % PRIORITY_COUNT].ready.count;
    }
    return count;
}

static uint32_t share_of(const struct core *core, const struct queue *queue, const struct session *session,
                         uint32_t waiting) {
    uint64_t share = (ready_count(queue) + waiting - 1) / waiting;
    uint32_t credit = session->prefetch - session->lease_count;
    if (share > credit && !SEEDED_BUG(prefetch_ignored)) share = credit;
    if (share > session->batch_max) share = session->batch_max;
    if (share > LEASES_MAX - core->leases) share = LEASES_MAX - core->leases;
    return (uint32_t)share;
}

static struct row row_leased(const struct core *core, const struct queue *queue, const struct session *session,
                             const struct row *row) {
    struct row leased = *row;
    uint64_t lease_ms = session->lease_ms ? session->lease_ms : queue->policy.lease_ms;
    leased.state = ROW_LEASED;
    leased.attempt++;
    leased.deliveries++;
    leased.lease_epoch = core->epoch;
    leased.lease_position = core->position; /* FENCE-1: where this frame will lie */
    leased.lease_deadline_ms = round_up_ms(core->now.steady_ns) + lease_ms;
    leased.session = session->id;
    leased.delivered_ms = steady_ms(core);
    return leased;
}

struct batch {
    struct draft draft;
    struct core_delivered *tasks;
    uint32_t count;
    uint64_t bytes;
};

/* Takes ready tasks off their heaps, so that each is seen once, and puts them into the draft: leased, or expired. */
static void gather(struct core *core, struct queue *queue, const struct session *session, uint32_t count_max,
                   struct batch *batch) {
    while (batch->count < count_max && batch->draft.record_count < RECORDS_PER_FRAME_MAX) {
        struct task *task = near_next_ready(core, queue);
        if (!task) return;
        if (batch->count && batch->bytes + task->row.blob_size > DELIVERY_SIZE_MAX) return;
        struct known known = known_of(task);
        /* Off its heap already; apply would take it off a moment later. */
        near_unplace(core, task);
        if (is_expired(core, &task->row) && !SEEDED_BUG(expired_delivered)) {
            draft_end(&batch->draft, TARRY__CAUSE__CAUSE_EXPIRED, &known);
            continue;
        }
        assert(task->row.due_ms <= base_ms(core, task->row.base)); /* TIME-1 */
        struct row leased = row_leased(core, queue, session, &task->row);
        draft_put(&batch->draft, TARRY__CAUSE__CAUSE_LEASED, &known, &leased);
        batch->bytes += leased.blob_size;
        batch->tasks[batch->count++] = (struct core_delivered){.row = leased, .queue_name = queue->name};
    }
}

/* CAP-1: new leases wait for the index. */
static bool may_lease(const struct core *core) {
    return core->leases < LEASES_MAX && core->overlay_count <= core->options.index_lag_hard;
}

/* A batch for the next consumer in turn. False: nobody, or nothing that may leave now. */
static bool deliver_batch(struct core *core, struct queue *queue, struct core_effects *effects) {
    uint32_t waiting = 0;
    struct session *session = next_in_turn(queue, &waiting);
    if (!session) return false;
    uint32_t count_max = share_of(core, queue, session, waiting);
    struct batch batch = {0};
    draft_init(&batch.draft, core, effects->arena, NULL, count_max);
    batch.tasks = must_alloc(effects->arena, count_max * sizeof *batch.tasks);
    gather(core, queue, session, count_max, &batch);
    if (!batch.draft.record_count) return false;
    uint64_t position = core->position;
    draft_commit(&batch.draft, NULL, effects);
    if (!batch.count) return true;               /* all expired */
    for (uint32_t i = 0; i < batch.count; i++) { /* the task may change before the message is made */
        struct row *row = &batch.tasks[i].row;
        row->key = must_copy(effects->arena, row->key, row->key_size);
    }
    session->sending = true;
    session->sending_position = position;
    session->sending_count = batch.count;
    *PUSH(effects, deliveries) = (struct core_delivery){
        .session = session->id,
        .lane = session->lane,
        .after = SEEDED_BUG(delivery_before_sync) ? 0 : core->position, /* LOG-1 */
        .tasks = batch.tasks,
        .count = batch.count,
    };
    return true;
}

/* Leases that a returning session may never have got: the same tokens, no new record. */
static void send_again(struct core *core, struct session *session, struct core_effects *effects) {
    struct core_delivered *tasks = must_alloc(effects->arena, session->batch_max * sizeof *tasks);
    uint32_t count = 0;
    uint64_t bytes = 0;
    struct task *task = NULL;
    TAILQ_FOREACH(task, &session->leases, member) {
        if (!task->resend) continue;
        if (count == session->batch_max || (count && bytes + task->row.blob_size > DELIVERY_SIZE_MAX)) break;
        session_resent(core, session, task);
        bytes += task->row.blob_size;
        tasks[count] = (struct core_delivered){.row = task->row, .queue_name = core->queues[task->row.queue].name};
        tasks[count].row.key = must_copy(effects->arena, task->row.key, task->row.key_size);
        count++;
    }
    session->sending = true;
    session->sending_again = true;
    *PUSH(effects, deliveries) = (struct core_delivery){
        .session = session->id,
        .lane = session->lane,
        .after = SEEDED_BUG(resend_before_sync) ? 0 : core->position, /* LOG-1 */
        .tasks = tasks,
        .count = count,
    };
}

static void send_all_again(struct core *core, struct core_effects *effects) {
    for (size_t i = 0; i < core->sessions_end && core->resending; i++) {
        struct session *session = &core->sessions[i];
        if (session->state == SESSION_UP && session->resend_count && !session->sending) {
            send_again(core, session, effects);
        }
    }
}

bool deliver(struct core *core, struct core_effects *effects) {
    if (!core->started || core->stopping) return false;
    if (core->resending) send_all_again(core, effects);
    if (!may_lease(core)) return false;
    uint32_t made = 0;
    struct queue *next = NULL;
    for (struct queue *queue = TAILQ_FIRST(&core->serving); queue; queue = next) {
        next = TAILQ_NEXT(queue, serving);
        uint32_t before = made;
        while (queue->is_serving && made < DELIVERIES_PER_STEP_MAX && may_lease(core) &&
               deliver_batch(core, queue, effects))
            made++;
        if (made == before) continue;
        /* The others come first next time, or a consumer of two queues would see nothing of the second until the first
         * is empty (F-41). */
        if (queue->is_serving) {
            TAILQ_REMOVE(&core->serving, queue, serving);
            TAILQ_INSERT_TAIL(&core->serving, queue, serving);
        }
        if (made == DELIVERIES_PER_STEP_MAX) return true;
        /* `next` may have stopped being served only by its own deliveries: it is still in the list. */
    }
    return false;
}
