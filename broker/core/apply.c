/* apply.c: see apply.h. Every record carries the data that it replaces, so apply reads nothing outside memory and
 * refuses nothing. A record that contradicts the counts of tasks (the tally) comes from a damaged log or a bug; it
 * stops the start, or the broker. */
#include "apply.h"

#include <string.h>

#include "definitions.h"
#include "jobs.h"
#include "leases.h"
#include "near.h"
#include "pending.h"
#include "producers.h"
#include "queues.h"
#include "recur.h"
#include "tasks.h"

static void detach(struct core *core, struct task *task) {
    if (task->place == PLACE_LEASED) {
        lease_drop(core, task);
    } else {
        near_unplace(core, task);
    }
}

static bool is_return(Tarry__Cause cause) {
    return cause == TARRY__CAUSE__CAUSE_LEASE_LOST || cause == TARRY__CAUSE__CAUSE_RELEASED ||
           cause == TARRY__CAUSE__CAUSE_UNSENT;
}

static uint64_t key_hash_of(const struct row *row, const struct known *known) {
    return known ? known->key_hash : row_key(row).hash;
}

static int apply_put(struct core *core, const Tarry__TaskPut *put, const struct tally_row *seen,
                     const struct known *known) {
    const struct row *row = &seen->row;
    /* The id of a fresh task is new (checked by the tally), so no look-up is needed. */
    struct task *task = put->fresh ? NULL : task_find(core, row->id);
    bool was_ahead = task && task->ahead; /* a lease that was not delivered is not counted in the lateness statistics */
    bool is_extended =
        task && task->place == PLACE_LEASED && row->state == ROW_LEASED && row->session == task->row.session;
    if (is_extended) {
        if (!task_set_row(core, task, row)) return CORE_NO_MEMORY;
    } else if (task) {
        detach(core, task);
        if (!task_set_row(core, task, row)) return CORE_NO_MEMORY;
    } else {
        task = task_new(core, row, key_hash_of(row, known), false);
        if (!task) return CORE_NO_MEMORY;
    }
    task->hash = seen->hash;
    near_touch(core, task, core->position);
    if (is_extended) {
        lease_extend(core, task);
    } else if (row->state == ROW_LEASED) {
        if (!serial_is_free(task)) return CORE_NONSENSE; /* SERIAL-1 */
        lease_take(core, task);
        task->before = (struct holder){put->before_session, put->before_delivered_ms};
    } else if (row->state == ROW_WAITING) {
        task->returned = is_return(put->cause) && !was_ahead;
        near_place_waiting(core, task);
    } else {
        task->place = PLACE_DEAD;
    }
    if (core->recur_count && queue_at(core, row->queue)->recur_count) recur_note_put(core, row, seen->hash);
    return 0;
}

static int apply_end(struct core *core, const Tarry__TaskEnd *end, const struct row *row, const struct known *known) {
    struct outcome outcome = {
        .id = row->id,
        .ended_ms = steady_ms(core),
        .due_ms = row->due_ms,
        .session = row->session,
        .delivered_ms = row->delivered_ms,
        .queue = row->queue,
        .deliveries = row->deliveries,
        .cause = (uint16_t)end->cause,
        .priority = row->priority,
        .key_size = row->key_size,
        .key = row->key,
    };
    if (end_is_sharing(end)) {
        const struct row last = row_at_end(end, row);
        outcome.session = last.session;
        outcome.deliveries = last.deliveries;
        outcome.delivered_ms = last.delivered_ms;
    }
    struct task *task = task_find(core, row->id);
    uint64_t key_hash = task ? task->key_hash : key_hash_of(row, known);
    outcomes_push_hashed(core->outcomes, &outcome, key_hash);
    if (task) {
        detach(core, task);
        task_leave_keys(core, task);
    } else {
        task = task_new(core, row, key_hash, true); /* the ended task can be found only by its id, not by its key */
        if (!task) return CORE_NO_MEMORY;
    }
    task->place = PLACE_ENDED;
    near_touch(core, task, core->position);
    if (core->recur_count && queue_at(core, row->queue)->recur_count) recur_note_end(core, row);
    return 0;
}

/* Applies one record. `known` is as in apply_frame. */
static int apply_record(struct core *core, const Tarry__Record *record, const struct known *known) {
    struct tally_row seen;
    if (known) seen = (struct tally_row){.row = known->row, .hash = known->hash};
    const uint64_t live = core->tally.live;
    if (!tally_record_row(&core->tally, record, known, &seen)) return CORE_NONSENSE;
    if (core->tally.live != live) pending_changed(core, seen.row.queue, core->tally.live - live);
    switch (record->fact_case) {
    case TARRY__RECORD__FACT_PUT:
        return apply_put(core, record->put, &seen, known);
    case TARRY__RECORD__FACT_END:
        return apply_end(core, record->end, &seen.row, known);
    case TARRY__RECORD__FACT_QUEUE:
        return queue_apply(core, record->queue);
    case TARRY__RECORD__FACT_PRODUCER:
        return producer_apply_put(core, record->producer->producer, principal_owner(record->producer->principal));
    case TARRY__RECORD__FACT_PRODUCER_END:
        return producer_apply_end(core, record->producer_end->producer);
    case TARRY__RECORD__FACT_JOB:
        return job_apply_put(core, record->job);
    case TARRY__RECORD__FACT_JOB_END:
        return job_apply_end(core, record->job_end);
    case TARRY__RECORD__FACT_DEFINITION:
        return definitions_apply(core->definitions, record->definition);
    case TARRY__RECORD__FACT_EPOCH:
        core->epoch = record->epoch->epoch;
        return 0;
    case TARRY__RECORD__FACT_REDACTION: /* the storage code erases the content; the core only marks the outcome */
        outcomes_redacted(core->outcomes, record->redaction->id);
        return 0;
    case TARRY__RECORD__FACT_RECUR:
        return recur_apply(core, record->recur);
    case TARRY__RECORD__FACT_CLOCK: /* apply changes no state: the shell adjusts its clock when it reads this record */
    case TARRY__RECORD__FACT_SESSION:
    case TARRY__RECORD__FACT_SESSION_END:
    case TARRY__RECORD__FACT_STOP:
    case TARRY__RECORD__FACT_REFUSED:
    case TARRY__RECORD__FACT_ALONE:
        return 0; /* these records change no state; they inform readers of the log. A restart restores sessions from
                     their leases */
    case TARRY__RECORD__FACT__NOT_SET:
    default:
        return CORE_NONSENSE;
    }
}

int apply_frame(struct core *core, uint64_t frame_bytes, const Tarry__FrameBody *body, struct known *const *knowns) {
    int error = 0;
    for (size_t i = 0; body && i < body->n_records && !error; i++) {
        error = apply_record(core, body->records[i], knowns ? knowns[i] : NULL);
    }
    if (!error && body && body->producer) {
        error = producer_apply_commit(core, body->producer, body->sequence, body->oldest_unanswered, core->position);
    }
    core->position += frame_bytes;
    return error;
}
