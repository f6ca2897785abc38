/* decide_settle.c: ack, nack, extend and release by the holder of a lease (FENCE-1), and operations on dead letters. */
#include <string.h>

#include "ahead.h"
#include "callers.h"
#include "decide.h"
#include "leases.h"
#include "tasks.h"

bool holds_lease(struct decision *d, uint64_t id, const Tarry__Token *token, struct known *out) {
    enum resolved resolved = resolve_id(d, id, out);
    if (resolved == RESOLVED_LIVE && out->row.state == ROW_LEASED && token && token->epoch == out->row.lease_epoch &&
        token->position == out->row.lease_position) {
        const struct session *holder = session_find(d->core, out->row.session);
        if (holder && !caller_is_owner(d->caller, holder)) {
            refuse_op(d, TARRY__CODE__DENIED, TARRY__OUTCOME__NONE, "the lease belongs to another principal");
            return false;
        }
        session_heard(d->core, out->row.session);
        return true;
    }
    d->result->code = TARRY__CODE__STALE_TOKEN;
    if (resolved == RESOLVED_ENDED) {
        d->result->message = d->result->outcome == TARRY__OUTCOME__UNKNOWN ? "the broker knows no such task"
                                                                           : "the task has already ended";
        return false;
    }
    describe(d->result, &out->row, d->effects->arena);
    if (resolved == RESOLVED_DEAD) {
        d->result->outcome = TARRY__OUTCOME__DEAD;
        d->result->message = "the lease has ended; the task is a dead letter";
    } else if (out->row.state == ROW_LEASED) {
        d->result->outcome = TARRY__OUTCOME__IN_FLIGHT;
        d->result->message = "the token is stale: the task has been leased again";
    } else {
        d->result->outcome = TARRY__OUTCOME__PENDING;
        d->result->message = "the lease has ended; the task waits again";
    }
    return false;
}

static void settled(struct decision *d, Tarry__Outcome outcome, const struct row *row) {
    struct session *holder = outcome != TARRY__OUTCOME__EXTENDED ? session_find(d->core, row->session) : NULL;
    if (holder) holder->settled_ms = steady_ms(d->core);
    describe_tokenless(d->result, row);
    d->result->outcome = outcome;
}

void decide_ack(struct decision *d, const Tarry__Ack *ack) {
    struct known known;
    if (!holds_lease(d, ack->id, ack->token, &known)) return;
    settled(d, TARRY__OUTCOME__ACKED, &known.row);
    d->result->at_ms = steady_ms(d->core);
    draft_end(d->draft, TARRY__CAUSE__CAUSE_ACKED, &known);
}

void decide_nack(struct decision *d, const Tarry__Nack *nack) {
    struct known known;
    if (!holds_lease(d, nack->id, nack->token, &known)) return;
    const Tarry__Policy *policy = &queue_at(d->core, known.row.queue)->policy;
    struct row row = known.row;
    const uint32_t most = attempts_max(policy, row.max_attempts);
    bool is_used_up = most && row.attempt >= most;
    if (nack->dead || is_used_up) {
        bool has_reason = nack->reason && *nack->reason;
        row_bury(d->core, &row, has_reason ? nack->reason : (nack->dead ? NULL : reason_attempts_used));
        draft_put(d->draft, TARRY__CAUSE__CAUSE_BURIED, &known, &row);
        settled(d, TARRY__OUTCOME__BURIED, &row);
        return;
    }
    uint64_t delay_ms = nack->has_delay ? nack->delay_ms : backoff_ms(policy, row.backoff_ms, row.id, row.attempt);
    if (delay_ms > DUE_AHEAD_MAX_MS) {
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE, "delay_ms is longer than ten years (3653 days)");
        return;
    }
    row.state = ROW_WAITING;
    row.lease_deadline_ms = 0;
    row.due_ms = from_ms(d->core) + delay_ms; /* TIME-1 */
    row.spread_ms = 0;
    row.base = ROW_STEADY;
    Tarry__TaskPut *put = draft_put(d->draft, TARRY__CAUSE__CAUSE_RETRIED, &known, &row);
    size_t reason_size = strlen(nack->reason);
    put->reason = (ProtobufCBinaryData){.data = (uint8_t *)nack->reason, .len = reason_size};
    settled(d, TARRY__OUTCOME__NACKED, &row);
}

void decide_extend(struct decision *d, const Tarry__Extend *extend) {
    struct known known;
    if (!holds_lease(d, extend->id, extend->token, &known)) return;
    const struct session *session = session_find(d->core, known.row.session);
    uint64_t lease_ms = extend->lease_ms;
    if (!lease_ms) lease_ms = task_lease_ms(session, queue_at(d->core, known.row.queue), &known.row);
    struct row row = known.row;
    row.lease_deadline_ms = from_ms(d->core) + lease_ms;
    draft_put(d->draft, TARRY__CAUSE__CAUSE_EXTENDED, &known, &row);
    settled(d, TARRY__OUTCOME__EXTENDED, &row);
}

void decide_release(struct decision *d, const Tarry__Release *release) {
    struct known known;
    if (!holds_lease(d, release->id, release->token, &known)) return;
    struct row row;
    const bool is_sharers = session_is_sharer(known.row.session);
    Tarry__Cause cause = is_sharers
                             ? task_return(d->core, task_find(d->core, release->id), TARRY__CAUSE__CAUSE_UNSENT, &row)
                             : row_return(d->core, &known.row, TARRY__CAUSE__CAUSE_RELEASED, &row);
    if (release->when && !due_of(d, release->when, &row.due_ms, &row.base)) return;
    if (release->when) row.spread_ms = 0;
    if (release->has_priority) row.priority = (uint8_t)release->priority;
    draft_put(d->draft, cause, &known, &row);
    settled(d, TARRY__OUTCOME__RELEASED, &row);
}

static void decide_requeue(struct decision *d, const struct known *known) {
    struct known holder;
    const struct task_key key = row_key(&known->row);
    if (draft_find_live(d->draft, &key, &holder)) {
        ahead_see(d->draft, &holder);
        describe(d->result, &holder.row, d->effects->arena);
        refuse_op(d, TARRY__CODE__EXISTS, TARRY__OUTCOME__LIVE, "a live task has this key now");
        return;
    }
    struct row row;
    row_revive(d->core, &known->row, &row);
    draft_put(d->draft, TARRY__CAUSE__CAUSE_REQUEUED, known, &row);
    settled(d, TARRY__OUTCOME__REQUEUED, &row);
}

/* Finds the dead letter. A key names the dead task, even if a live task has the same key. */
static bool find_dead(struct decision *d, const Tarry__Ref *ref, struct known *out) {
    if (!ref->id) {
        const struct queue *queue = queue_find(d->core, ref->queue);
        const struct task_key key = queue ? ref_key(queue, ref) : (struct task_key){0};
        if (queue && draft_find_dead(d->draft, &key, out)) return true;
    }
    enum resolved resolved = resolve(d, ref, out);
    if (resolved == RESOLVED_DEAD) return true;
    d->result->code = TARRY__CODE__NOT_DONE;
    d->result->message = "the queue has no such dead letter";
    if (resolved == RESOLVED_LIVE) {
        describe(d->result, &out->row, d->effects->arena);
        d->result->outcome = out->row.state == ROW_LEASED ? TARRY__OUTCOME__IN_FLIGHT : TARRY__OUTCOME__PENDING;
    }
    return false;
}

void decide_dead(struct decision *d, const Tarry__DeadOp *dead) {
    bool is_requeue = dead->what == TARRY__DEAD_OP__WHAT__REQUEUE;
    if (dead->all) {
        decide_job(d, dead->task->queue,
                   is_requeue ? TARRY__JOB_PUT__WHAT__REQUEUE_ALL : TARRY__JOB_PUT__WHAT__DROP_ALL, STATE_DEAD);
        return;
    }
    struct known known;
    if (!find_dead(d, dead->task, &known)) return;
    if (is_requeue) {
        decide_requeue(d, &known);
        return;
    }
    settled(d, TARRY__OUTCOME__DROPPED, &known.row);
    d->result->at_ms = steady_ms(d->core);
    draft_end(d->draft, TARRY__CAUSE__CAUSE_DROPPED, &known);
}
