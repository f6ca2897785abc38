/* entry.c: see entry.h. */
#include "entry.h"

#include <assert.h>
#include <string.h>

static const char *const names[ENTRY_KINDS] = {
    [ENTRY_SCHEDULED] = "scheduled",
    [ENTRY_MOVED] = "moved",
    [ENTRY_LEASED] = "leased",
    [ENTRY_EXTENDED] = "extended",
    [ENTRY_RELEASED] = "released",
    [ENTRY_LEASE_LOST] = "lease_lost",
    [ENTRY_UNSENT] = "unsent",
    [ENTRY_RETRIED] = "retried",
    [ENTRY_DEAD] = "dead",
    [ENTRY_REQUEUED] = "requeued",
    [ENTRY_ACKED] = "acked",
    [ENTRY_CANCELLED] = "cancelled",
    [ENTRY_WITHDRAWN] = "withdrawn",
    [ENTRY_REPLACED] = "replaced",
    [ENTRY_PURGED] = "purged",
    [ENTRY_EXPIRED] = "expired",
    [ENTRY_DROPPED] = "dropped",
    [ENTRY_SHARED] = "shared",
    [ENTRY_UNMATCHED] = "unmatched",
    [ENTRY_QUEUE] = "queue",
    [ENTRY_PRODUCER] = "producer",
    [ENTRY_PRODUCER_END] = "producer_end",
    [ENTRY_JOB] = "job",
    [ENTRY_JOB_END] = "job_end",
    [ENTRY_START] = "start",
    [ENTRY_CLOCK] = "clock_accepted",
    [ENTRY_SESSION] = "session",
    [ENTRY_SESSION_END] = "session_end",
    [ENTRY_STOP] = "stop",
    [ENTRY_REDACTED] = "redacted",
    [ENTRY_REFUSED] = "access_refused",
    [ENTRY_ALONE] = "alone",
    [ENTRY_ALONE_OVER] = "alone_over",
    [ENTRY_DEFINED] = "defined",
    [ENTRY_RECUR] = "recurrence",
};
static_assert((int)ENTRY_UNMATCHED == (int)TARRY__CAUSE__CAUSE_UNMATCHED, "entry kinds begin as causes do");

const char *entry_kind_name(enum entry_kind kind) {
    return kind > 0 && kind < ENTRY_KINDS ? names[kind] : "unknown";
}

enum entry_kind entry_kind_find(const char *name) {
    for (int kind = 1; kind < ENTRY_KINDS; kind++)
        if (strcmp(names[kind], name) == 0) return (enum entry_kind)kind;
    return 0;
}

/* Converts a cause to the kind of entry with the same number, if the cause lies in `first` … `last`. Returns 0 for any
 * other cause, which no broker writes into such a record. */
static enum entry_kind kind_of_cause(Tarry__Cause cause, Tarry__Cause first, Tarry__Cause last) {
    return cause >= first && cause <= last ? (enum entry_kind)cause : 0;
}

enum entry_kind entry_kind(const struct entry *entry) {
    const Tarry__Record *record = entry->record;
    switch (record->fact_case) {
    case TARRY__RECORD__FACT_PUT:
        return kind_of_cause(record->put->cause, TARRY__CAUSE__CAUSE_SCHEDULED, TARRY__CAUSE__CAUSE_REQUEUED);
    case TARRY__RECORD__FACT_END:
        return kind_of_cause(record->end->cause, TARRY__CAUSE__CAUSE_ACKED, TARRY__CAUSE__CAUSE_UNMATCHED);
    case TARRY__RECORD__FACT_QUEUE:
        return ENTRY_QUEUE;
    case TARRY__RECORD__FACT_PRODUCER:
        return ENTRY_PRODUCER;
    case TARRY__RECORD__FACT_PRODUCER_END:
        return ENTRY_PRODUCER_END;
    case TARRY__RECORD__FACT_JOB:
        return ENTRY_JOB;
    case TARRY__RECORD__FACT_JOB_END:
        return ENTRY_JOB_END;
    case TARRY__RECORD__FACT_EPOCH:
        return ENTRY_START;
    case TARRY__RECORD__FACT_CLOCK:
        return ENTRY_CLOCK;
    case TARRY__RECORD__FACT_SESSION:
        return ENTRY_SESSION;
    case TARRY__RECORD__FACT_SESSION_END:
        return ENTRY_SESSION_END;
    case TARRY__RECORD__FACT_STOP:
        return ENTRY_STOP;
    case TARRY__RECORD__FACT_REDACTION:
        return ENTRY_REDACTED;
    case TARRY__RECORD__FACT_REFUSED:
        return ENTRY_REFUSED;
    case TARRY__RECORD__FACT_DEFINITION:
        return ENTRY_DEFINED;
    case TARRY__RECORD__FACT_ALONE:
        return record->alone->over ? ENTRY_ALONE_OVER : ENTRY_ALONE;
    case TARRY__RECORD__FACT_RECUR:
        return ENTRY_RECUR;
    default:
        return 0;
    }
}

uint64_t entry_ms(const struct entry *entry) {
    return entry->header->steady_ns / 1000000;
}

const Tarry__Task *entry_task(const struct entry *entry) {
    const Tarry__Record *record = entry->record;
    if (record->fact_case == TARRY__RECORD__FACT_PUT) return record->put->task;
    return record->fact_case == TARRY__RECORD__FACT_END ? record->end->task : NULL;
}

uint64_t entry_id(const struct entry *entry, ProtobufCBinaryData *out_key) {
    const Tarry__Task *task = entry_task(entry);
    bool is_redaction = entry->record->fact_case == TARRY__RECORD__FACT_REDACTION;
    if (out_key != NULL && task != NULL) *out_key = task->key;
    if (out_key != NULL && is_redaction) *out_key = entry->record->redaction->key;
    if (task != NULL) return task->id;
    return is_redaction ? entry->record->redaction->id : 0;
}

uint32_t entry_queue(const struct entry *entry) {
    const Tarry__Task *task = entry_task(entry);
    if (task != NULL) return task->queue;
    if (entry->record->fact_case == TARRY__RECORD__FACT_QUEUE) return entry->record->queue->number;
    if (entry->record->fact_case == TARRY__RECORD__FACT_REDACTION) return entry->record->redaction->queue;
    if (entry->record->fact_case == TARRY__RECORD__FACT_RECUR) return entry->record->recur->queue;
    return entry->record->fact_case == TARRY__RECORD__FACT_JOB ? entry->record->job->queue : 0;
}

uint64_t entry_session(const struct entry *entry) {
    const Tarry__Task *task = entry_task(entry);
    if (task != NULL) return entry_kind(entry) == ENTRY_UNSENT ? entry->record->put->before_session : task->session;
    if (entry->record->fact_case == TARRY__RECORD__FACT_SESSION) return entry->record->session->session;
    if (entry->record->fact_case == TARRY__RECORD__FACT_SESSION_END) return entry->record->session_end->session;
    return 0;
}

bool entry_queue_is_new(const Tarry__QueuePut *queue) {
    return queue->before_policy == NULL || queue->before_deleted;
}

bool entry_concerns_queue(const struct entry *entry, const char *queue) {
    if (entry->queue != NULL && strcmp(entry->queue, queue) == 0) return true;
    if (entry->record->fact_case != TARRY__RECORD__FACT_SESSION) return false;
    const Tarry__SessionPut *session = entry->record->session;
    for (size_t i = 0; i < session->n_queues; i++) {
        const char *name = entry_queue_name(entry, session->queues[i]);
        if (name != NULL && strcmp(name, queue) == 0) return true;
    }
    for (size_t i = 0; i < session->n_awaited; i++)
        if (strcmp(session->awaited[i], queue) == 0) return true;
    return false;
}

const char *entry_queue_name(const struct entry *entry, uint32_t number) {
    return entry->queues != NULL ? queue_map_get(entry->queues, number) : NULL;
}

bool entry_is_end(const struct entry *entry) {
    return entry->record->fact_case == TARRY__RECORD__FACT_END;
}

bool entry_is_asked(const struct entry *entry) {
    if (entry->body->client[0] == '\0' && entry->body->principal[0] == '\0') return false;
    switch (entry_kind(entry)) {
    case ENTRY_LEASED: /* the frame names the consumer, but the broker wrote the record by itself */
    case ENTRY_LEASE_LOST:
    case ENTRY_UNSENT:
    case ENTRY_EXPIRED:
        return false;
    case ENTRY_DEAD:
        /* A nack by a client has a producer. A frame without a producer records that a lost lease used up the attempts.
         */
        return entry->body->producer != 0;
    case ENTRY_PRODUCER_END:
        return !entry->record->producer_end->idle;
    case ENTRY_SESSION_END:
        return entry->record->session_end->cause == TARRY__SESSION_END__CAUSE__UNSUBSCRIBED;
    default:
        return true;
    }
}

uint64_t entry_due_before_ms(const struct entry *entry) {
    const Tarry__Record *record = entry->record;
    bool replaces = record->fact_case == TARRY__RECORD__FACT_PUT && !record->put->fresh;
    return replaces && record->put->before_due_ms != record->put->task->due_ms ? record->put->before_due_ms : 0;
}

bool entry_late_ms(const struct entry *entry, uint64_t *out) {
    if (entry_kind(entry) != ENTRY_LEASED || entry_task(entry) == NULL) return false;
    const Tarry__TaskPut *put = entry->record->put;
    const Tarry__Task *task = put->task;
    /* the earliest time at which the task could have been delivered */
    uint64_t from_ms = task->due_ms > task->scheduled_ms ? task->due_ms : task->scheduled_ms;
    if (put->before_delivered_ms != 0 && put->before_delivered_ms >= task->due_ms) return false;
    *out = task->delivered_ms > from_ms ? task->delivered_ms - from_ms : 0;
    return true;
}

uint64_t entry_leaves_ms(const struct entry *entry) {
    if (entry_kind(entry) != ENTRY_LEASED || entry_task(entry) == NULL) return 0;
    uint64_t leaves_ms = entry_task(entry)->delivered_ms;
    return leaves_ms > entry->header->steady_ns / 1000000 ? leaves_ms : 0;
}

ProtobufCBinaryData entry_reason(const struct entry *entry) {
    const Tarry__Record *record = entry->record;
    if (record->fact_case == TARRY__RECORD__FACT_PUT && record->put->reason.len != 0) return record->put->reason;
    const Tarry__Task *task = entry_task(entry);
    return task != NULL ? task->reason : (ProtobufCBinaryData){0};
}

const char *entry_word(const char *const *words, size_t count, int value) {
    return value >= 0 && (size_t)value < count ? words[value] : "unknown";
}

const char *entry_job_name(const struct entry *entry) {
    static const char *const jobs[] = {"purge", "requeue_all", "drop_all"};
    return ENTRY_WORD(jobs, entry->record->job->what);
}

const char *entry_recur_cause(const struct entry *entry) {
    static const char *const causes[] = {"not_said",  "set",     "fell_due",   "paused", "resumed",
                                         "triggered", "deleted", "recomputed", "queued", "stuck"};
    return ENTRY_WORD(causes, entry->record->recur->cause);
}
