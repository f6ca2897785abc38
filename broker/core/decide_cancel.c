/* decide_cancel.c: cancel and move, with definite answers (TRUE-1). */
#include "groups.h"
#include "leases.h"

/* Returns true if the task is in flight or dead, which prevents the operation. The result then names the consumer or
 * the time of death. */
static bool stands_in_the_way(struct decision *d, enum resolved resolved, const struct known *known) {
    if (resolved == RESOLVED_DEAD) {
        describe(d->result, &known->row, d->effects->arena);
        refuse_op(d, TARRY__CODE__NOT_DONE, TARRY__OUTCOME__DEAD, "the task is a dead letter");
        return true;
    }
    if (known->row.state == ROW_LEASED) {
        describe(d->result, &known->row, d->effects->arena);
        refuse_op(d, TARRY__CODE__NOT_DONE, TARRY__OUTCOME__IN_FLIGHT, "the task is in flight");
        return true;
    }
    return false;
}

/* Withdraws the task's lease from the sharer (the part of the broker that leases a topic's due tasks). No consumer has
 * seen the task. Returns the task's new state: waiting, or expired. */
static enum resolved take_back(struct decision *d, enum resolved resolved, struct known *known) {
    const struct task *task = task_find(d->core, known->row.id);
    if (resolved != RESOLVED_LIVE || known->row.state != ROW_LEASED || !session_is_sharer(known->row.session))
        return resolved;
    if (!task || task->place != PLACE_LEASED || task->row.lease_position != known->row.lease_position) return resolved;
    struct row row;
    Tarry__Cause cause = task_return(d->core, task, TARRY__CAUSE__CAUSE_UNSENT, &row);
    draft_put(d->draft, cause, known, &row);
    return resolve_id(d, row.id, known);
}

static void refuse_ended(struct decision *d) {
    d->result->code = TARRY__CODE__NOT_DONE;
    d->result->message =
        d->result->outcome == TARRY__OUTCOME__UNKNOWN ? "the broker knows no such task" : "the task has already ended";
}

void decide_cancel(struct decision *d, const Tarry__Cancel *cancel) {
    struct known known;
    enum resolved resolved = resolve(d, cancel->task, &known);
    if (resolved != RESOLVED_ENDED) resolved = take_back(d, resolved, &known);
    if (resolved == RESOLVED_ENDED) {
        if (shares_cancel(d, cancel)) return;
        if (d->result->outcome != TARRY__OUTCOME__ALREADY_CANCELLED) refuse_ended(d);
        return;
    }
    bool withdraw = cancel->withdraw && resolved == RESOLVED_LIVE && known.row.state == ROW_LEASED;
    if (!withdraw && stands_in_the_way(d, resolved, &known)) return;
    describe(d->result, &known.row, d->effects->arena);
    d->result->outcome = TARRY__OUTCOME__CANCELLED;
    d->result->at_ms = steady_ms(d->core);
    d->result->token = NULL;
    draft_end(d->draft, withdraw ? TARRY__CAUSE__CAUSE_WITHDRAWN : TARRY__CAUSE__CAUSE_CANCELLED, &known);
}

void decide_move(struct decision *d, const Tarry__Move *move) {
    struct known known;
    enum resolved resolved = resolve(d, move->task, &known);
    if (resolved != RESOLVED_ENDED) resolved = take_back(d, resolved, &known);
    if (resolved == RESOLVED_ENDED) {
        if (!shares_move(d, move)) refuse_ended(d);
        return;
    }
    if (stands_in_the_way(d, resolved, &known)) return;
    struct row row = known.row;
    if (!due_of(d, move->when, &row.due_ms, &row.base)) return;
    row_spread(d, queue_at(d->core, row.queue), &row);
    if (move->has_priority) row.priority = (uint8_t)move->priority;
    describe(d->result, &row, d->effects->arena);
    d->result->outcome = TARRY__OUTCOME__MOVED;
    draft_put(d->draft, TARRY__CAUSE__CAUSE_MOVED, &known, &row);
}
