/* decide_schedule.c: schedules a new task, and handles a key that is taken. */
#include "groups.h"

static bool takes_over(const Tarry__Schedule *schedule, uint64_t due_ms, const struct row *holder) {
    switch (schedule->on_conflict) {
    case TARRY__SCHEDULE__ON_CONFLICT__REPLACE:
        return true;
    /* The comparison uses the due times that the clients requested, without the random spread. */
    case TARRY__SCHEDULE__ON_CONFLICT__EARLIER:
        return due_ms < holder->due_ms - holder->spread_ms;
    case TARRY__SCHEDULE__ON_CONFLICT__LATER:
        return due_ms > holder->due_ms - holder->spread_ms;
    case TARRY__SCHEDULE__ON_CONFLICT__REJECT:
    default:
        return false;
    }
}

/* Handles a key that a live task has. Returns true if that task was replaced and the new one may be scheduled. */
static bool settle_conflict(struct decision *d, const Tarry__Schedule *schedule, uint64_t due_ms,
                            const struct known *holder) {
    describe(d->result, &holder->row, d->effects->arena);
    if (schedule->on_conflict == TARRY__SCHEDULE__ON_CONFLICT__REJECT) {
        refuse_op(d, TARRY__CODE__EXISTS, TARRY__OUTCOME__LIVE, "a live task has this key");
        return false;
    }
    if (takes_over(schedule, due_ms, &holder->row)) {
        if (holder->row.state == ROW_LEASED) {
            refuse_op(d, TARRY__CODE__EXISTS, TARRY__OUTCOME__LIVE, "the task that has this key is in flight");
            return false;
        }
        draft_end(d->draft, TARRY__CAUSE__CAUSE_REPLACED, holder);
        return true;
    }
    d->result->outcome = TARRY__OUTCOME__KEPT;
    return false;
}

void decide_schedule(struct decision *d, const Tarry__Schedule *schedule) {
    struct row row = {.priority = (uint8_t)schedule->priority, .expires_ms = schedule->expires_ms};
    row_set_own(&row, schedule->max_attempts, schedule->backoff_ms, schedule->lease_ms);
    if (!due_of(d, schedule->when, &row.due_ms, &row.base)) return;
    if (schedule->expires_ms > UINT64_MAX / 4) {
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE, "expires_ms is out of range");
        return;
    }
    if (d->queue->is_group) {
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE,
                  "the queue is a group, which gets its tasks from its topic (the name before the last ':'): schedule "
                  "the task there");
        return;
    }
    if (d->queue->group_count && d->content->size > FRAME_BLOB_SIZE_MAX / GROUPS_MAX) {
        refuse_op(
            d, TARRY__CODE__TOO_LARGE, TARRY__OUTCOME__NONE,
            "the queue has groups, and a task for groups may have at most 1 MiB of payload and attributes together");
        return;
    }
    const struct task_key key = task_key_of(d->queue->number, (const char *)schedule->key.data, schedule->key.len);
    row.queue = key.queue;
    row.key = key.data;
    row.key_size = key.size;
    row.scheduled_ms = steady_ms(d->core);
    row.serial = (const char *)schedule->serial.data;
    row.serial_size = (uint8_t)schedule->serial.len;
    if (row.serial_size && draft_queue_now(d->draft, d->queue)->lease_before_due) {
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE,
                  "serial: the queue was declared over AMQP with a TTL and cannot have serial names");
        return;
    }
    bool replaces = false;
    struct known holder;
    if (key.size && draft_find_key(d->draft, &key, &holder)) {
        Tarry__Ref ref = TARRY__REF__INIT;
        ref.id = holder.row.id;
        enum resolved resolved = resolve(d, &ref, &holder); /* a dead task does not reserve its key */
        if (resolved == RESOLVED_LIVE) {
            if (!settle_conflict(d, schedule, row.due_ms, &holder)) return;
            replaces = true;
        }
        tarry__op_result__init(d->result); /* clear the result, because it describes the replaced task */
    }
    if (key.size && d->queue->group_count && !replaces && shares_hold_key(d, schedule)) return;
    row.id = d->draft->next_id;
    row_spread(d, d->queue, &row);
    draft_put_new(d->draft, &row, key.hash, d->content);
    d->result->outcome = replaces ? TARRY__OUTCOME__REPLACED : TARRY__OUTCOME__SCHEDULED;
    d->result->id = row.id;
    d->result->due_ms = row.due_ms;
}
