/* task_view.c: shared parts of decisions: finding a task, describing its state, changing rows (decide.h). */
#include <string.h>

#include "ahead.h"
#include "callers.h"
#include "check.h"
#include "decide.h"
#include "effects.h"
#include "tasks.h"

Tarry__Outcome outcome_of_cause(Tarry__Cause cause) {
    switch (cause) {
    case TARRY__CAUSE__CAUSE_ACKED:
        return TARRY__OUTCOME__ACKED;
    case TARRY__CAUSE__CAUSE_CANCELLED:
    case TARRY__CAUSE__CAUSE_WITHDRAWN:
    case TARRY__CAUSE__CAUSE_REPLACED:
    case TARRY__CAUSE__CAUSE_PURGED:
        return TARRY__OUTCOME__ALREADY_CANCELLED;
    case TARRY__CAUSE__CAUSE_EXPIRED:
        return TARRY__OUTCOME__EXPIRED;
    case TARRY__CAUSE__CAUSE_DROPPED:
        return TARRY__OUTCOME__DROPPED;
    case TARRY__CAUSE__CAUSE_SHARED:
        return TARRY__OUTCOME__SHARED;
    case TARRY__CAUSE__CAUSE_UNMATCHED:
        return TARRY__OUTCOME__UNMATCHED;
    default:
        return TARRY__OUTCOME__UNKNOWN;
    }
}

void refuse_op(struct decision *d, Tarry__Code code, Tarry__Outcome outcome, const char *message) {
    d->result->code = code;
    d->result->outcome = outcome;
    d->result->message = (char *)message;
}

void describe(Tarry__OpResult *result, const struct row *row, struct arena *arena) {
    describe_tokenless(result, row);
    if (row->state != ROW_LEASED) return;
    result->token = must_alloc(arena, sizeof *result->token);
    tarry__token__init(result->token);
    result->token->epoch = row->lease_epoch;
    result->token->position = row->lease_position;
}

void describe_tokenless(Tarry__OpResult *result, const struct row *row) {
    result->id = row->id;
    result->due_ms = row->due_ms;
    result->deliveries = row->deliveries;
    result->attempt = row->attempt;
    result->session = row->session;
    result->delivered_ms = row->delivered_ms;
    if (row->state == ROW_LEASED) {
        result->at_ms = row->delivered_ms;
        result->lease_deadline_ms = row->lease_deadline_ms;
    } else if (row->state == ROW_BURIED) {
        result->at_ms = row->dead_ms;
    }
}

static void describe_ended(Tarry__OpResult *result, Tarry__Outcome outcome, const struct row *row, uint64_t ended_ms) {
    result->outcome = outcome;
    result->id = row->id;
    result->due_ms = row->due_ms;
    result->deliveries = row->deliveries;
    result->session = row->session;
    result->delivered_ms = row->delivered_ms;
    result->at_ms = ended_ms;
}

void describe_outcome(Tarry__OpResult *result, const struct outcome *outcome) {
    result->outcome = outcome_of_cause((Tarry__Cause)outcome->cause);
    result->id = outcome->id;
    result->due_ms = outcome->due_ms;
    /* In the outcome of a shared task, the fields deliveries, session and delivered_ms are about its shares. */
    if (outcome->cause != TARRY__CAUSE__CAUSE_SHARED) {
        result->deliveries = outcome->deliveries;
        result->session = outcome->session;
        result->delivered_ms = outcome->delivered_ms;
    }
    result->at_ms = outcome->ended_ms;
}

/* Classifies a task that draft_find… found: ended in this draft, expired, dead or live. */
static enum resolved classify(struct decision *d, struct known *known) {
    if (!d->is_question) ahead_see(d->draft, known);
    if (!known->ended && known->row.state == ROW_WAITING && is_expired(d->core, &known->row)) {
        draft_end(d->draft, TARRY__CAUSE__CAUSE_EXPIRED, known);
        known->ended = TARRY__CAUSE__CAUSE_EXPIRED;
    }
    if (known->ended) {
        describe_ended(d->result, outcome_of_cause(known->ended), &known->row, steady_ms(d->core));
        return RESOLVED_ENDED;
    }
    return known->row.state == ROW_BURIED ? RESOLVED_DEAD : RESOLVED_LIVE;
}

static enum resolved not_found(struct decision *d, const struct outcome *outcome) {
    if (outcome) {
        describe_outcome(d->result, outcome);
    } else {
        d->result->outcome = TARRY__OUTCOME__UNKNOWN;
        d->result->known_since_ms = outcomes_known_since(d->core->outcomes);
    }
    return RESOLVED_ENDED;
}

enum resolved resolve_id(struct decision *d, uint64_t id, struct known *out) {
    if (draft_find(d->draft, id, out)) return classify(d, out);
    return not_found(d, outcomes_by_id(d->core->outcomes, id));
}

static const char anothers_task[] = "the queues that you may use have no task with this id";
const char refused_brokers_task[] = "the task is in a queue that is reserved for the broker: clients may not use "
                                    "queues whose names begin with \"" QUEUE_RESERVED_PREFIX "\" (docs/LIMITS.md)";

bool may_touch(struct decision *d, uint64_t id) {
    struct known known;
    uint32_t queue = 0;
    if (!id || caller_may_all(d->caller)) return true;
    if (draft_find(d->draft, id, &known)) {
        queue = known.row.queue;
    } else {
        const struct outcome *outcome = outcomes_by_id(d->core->outcomes, id);
        if (outcome) queue = outcome->queue;
    }
    bool is_brokers = queue && queue_is_reserved(queue_at(d->core, queue)->name);
    bool is_own = queue ? caller_covers(d->caller, queue_at(d->core, queue)->name) : !caller_is_confined(d->caller);
    if (is_own && !is_brokers) return true;
    refuse_op(d, TARRY__CODE__DENIED, TARRY__OUTCOME__NONE, is_own ? refused_brokers_task : anothers_task);
    return false;
}

enum resolved resolve(struct decision *d, const Tarry__Ref *ref, struct known *out) {
    if (ref->id) return resolve_id(d, ref->id, out);
    const struct queue *queue = queue_find(d->core, ref->queue);
    if (!queue) return not_found(d, NULL);
    const struct task_key key = ref_key(queue, ref);
    if (draft_find_key(d->draft, &key, out)) return classify(d, out);
    /* The task may have ended in this draft. Its outcome exists only after the draft is applied, so look in the draft.
     */
    if (draft_ended_key(d->draft, &key, out)) return classify(d, out);
    return not_found(d, outcomes_by_key(d->core->outcomes, queue->number, key.data, key.size));
}

/* Returns the due time of a task with this delay. Without a delay, the task is due when it is received. */
static uint64_t delayed_ms(const struct core *core, uint64_t delay_ms) {
    if (delay_ms == 0) return steady_ms(core);
    return from_ms(core) + delay_ms; /* TIME-1: time of receipt, rounded up, plus the delay */
}

bool due_of(struct decision *d, const Tarry__When *when, uint64_t *out_due_ms, uint8_t *out_base) {
    if (when && when->kind == TARRY__WHEN__KIND__AT) {
        if (when->ms > base_ms(d->core, ROW_WALL) + DUE_AHEAD_MAX_MS) {
            refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE,
                      "due_ms is more than ten years (3653 days) in the future");
            return false;
        }
        *out_due_ms = when->ms;
        *out_base = ROW_WALL;
        return true;
    }
    uint64_t delay_ms = when ? when->ms : 0;
    if (delay_ms > DUE_AHEAD_MAX_MS) {
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE, "delay_ms is longer than ten years (3653 days)");
        return false;
    }
    *out_due_ms = delayed_ms(d->core, delay_ms);
    *out_base = ROW_STEADY;
    return true;
}

void row_spread(const struct decision *d, const struct queue *queue, struct row *row) {
    const Tarry__Policy *policy = draft_queue_now(d->draft, queue);
    row->spread_ms = 0;
    /* In a queue with lease_before_due, consumers get a task before its due time. A spread of due times would not delay
     * deliveries, so none is added. */
    if (!policy->spread_ms || policy->lease_before_due) return;
    const uint64_t seed[1] = {row->id};
    row->spread_ms = (uint32_t)(frame_sum(seed, sizeof seed) % policy->spread_ms);
    row->due_ms += row->spread_ms;
}

void row_revive(const struct core *core, const struct row *row, struct row *out) {
    *out = *row;
    out->state = ROW_WAITING;
    out->attempt = 0;
    out->due_ms = steady_ms(core);
    out->spread_ms = 0;
    out->base = ROW_STEADY;
    out->dead_ms = 0;
    out->reason = NULL;
    out->reason_size = 0;
}

/* Returns the delay before the next attempt. The delay grows exponentially: min × 2^(attempt-1), at most max. A task's
 * own backoff (OWN-1) is used instead of min; if it is larger than max, it is also used instead of max. Jitter adds up
 * to the policy's percentage. It is computed from the task's id and attempt, so that a replay computes the same
 * delay. */
uint64_t backoff_ms(const Tarry__Policy *policy, uint32_t own_ms, uint64_t id, uint32_t attempt) {
    uint64_t delay_ms = own_ms ? own_ms : policy->backoff_min_ms;
    if (policy->backoff == TARRY__POLICY__BACKOFF__EXPONENTIAL) {
        const uint64_t max_ms = own_ms > policy->backoff_max_ms ? own_ms : policy->backoff_max_ms;
        for (uint32_t i = 1; i < attempt && delay_ms && delay_ms < max_ms; i++) delay_ms *= 2;
        if (delay_ms > max_ms) delay_ms = max_ms;
    }
    if (!policy->backoff_jitter || !delay_ms) return delay_ms;
    uint64_t seed[2] = {id, attempt};
    uint64_t spread_ms = delay_ms * policy->backoff_jitter / 100;
    return delay_ms + frame_sum(seed, sizeof seed) % (spread_ms + 1);
}
