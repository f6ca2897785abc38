/* entry.c: see entry.h. */
#include "entry.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "ndjson.h"
#include "rfc3339.h"
#include "tarry.h"
#include "tarry_limits.h"
#include "units.h"

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
    [ENTRY_QUEUE] = "queue",
    [ENTRY_PRODUCER] = "producer",
    [ENTRY_PRODUCER_END] = "producer_end",
    [ENTRY_JOB] = "job",
    [ENTRY_JOB_END] = "job_end",
    [ENTRY_START] = "start",
    [ENTRY_CLOCK] = "clock_accepted",
};
static_assert((int)ENTRY_DROPPED == (int)TARRY__CAUSE__CAUSE_DROPPED, "entry kinds begin as causes do");

const char *entry_kind_name(enum entry_kind kind) {
    return kind > 0 && kind < ENTRY_KINDS ? names[kind] : "unknown";
}

enum entry_kind entry_kind_find(const char *name) {
    for (int kind = 1; kind < ENTRY_KINDS; kind++)
        if (strcmp(names[kind], name) == 0) return (enum entry_kind)kind;
    return 0;
}

enum entry_kind entry_kind(const struct entry *entry) {
    const Tarry__Record *record = entry->record;
    switch (record->fact_case) {
    case TARRY__RECORD__FACT_PUT:
        return (enum entry_kind)record->put->cause;
    case TARRY__RECORD__FACT_END:
        return (enum entry_kind)record->end->cause;
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

uint32_t entry_queue(const struct entry *entry) {
    const Tarry__Task *task = entry_task(entry);
    if (task != NULL) return task->queue;
    if (entry->record->fact_case == TARRY__RECORD__FACT_QUEUE) return entry->record->queue->number;
    return entry->record->fact_case == TARRY__RECORD__FACT_JOB ? entry->record->job->queue : 0;
}

static bool is_end(const struct entry *entry) {
    return entry->record->fact_case == TARRY__RECORD__FACT_END;
}

/* The due time that the record replaced; 0: it replaced none. */
static uint64_t due_before_ms(const struct entry *entry) {
    const Tarry__Record *record = entry->record;
    bool replaces = record->fact_case == TARRY__RECORD__FACT_PUT && !record->put->fresh;
    return replaces && record->put->before_due_ms != record->put->task->due_ms ? record->put->before_due_ms : 0;
}

/* ---- JSON */

static void json_lease(struct text *out, const Tarry__Task *task) {
    if (task->session != 0) ndjson_id(out, "session", task->session);
    if (task->lease_position == 0) return;
    ndjson_token(out, "token", (struct tarry_token){task->lease_epoch, task->lease_position});
    if (task->lease_deadline_ms != 0) ndjson_number(out, "lease_deadline_ms", task->lease_deadline_ms);
}

static void json_task(struct text *out, const struct entry *entry, const Tarry__Task *task) {
    uint64_t before_ms = due_before_ms(entry);
    ndjson_id(out, "id", task->id);
    ndjson_text(out, "queue", entry->queue);
    ndjson_bytes(out, "key", task->key.len != 0 ? (const char *)task->key.data : NULL, task->key.len);
    ndjson_number(out, "due_ms", task->due_ms);
    if (before_ms != 0) ndjson_number(out, "before_due_ms", before_ms);
    ndjson_number(out, "scheduled_ms", task->scheduled_ms);
    ndjson_number(out, "priority", task->priority);
    ndjson_number(out, "attempt", task->attempt);
    ndjson_number(out, "deliveries", task->deliveries);
    if (task->expires_ms != 0) ndjson_number(out, "expires_ms", task->expires_ms);
    json_lease(out, task);
    if (task->reason.len != 0) ndjson_bytes(out, "reason", (const char *)task->reason.data, task->reason.len);
}

static void json_policy(struct text *out, const Tarry__Policy *policy) {
    ndjson_number(out, "lease_ms", policy->lease_ms);
    ndjson_number(out, "max_attempts", policy->max_attempts);
    ndjson_text(out, "backoff", policy->backoff == TARRY__POLICY__BACKOFF__FIXED ? "fixed" : "exponential");
    ndjson_number(out, "backoff_min_ms", policy->backoff_min_ms);
    ndjson_number(out, "backoff_max_ms", policy->backoff_max_ms);
    ndjson_number(out, "backoff_jitter", policy->backoff_jitter);
}

static const char *job_name(const Tarry__JobPut *job) {
    static const char *const jobs[] = {"purge", "requeue_all", "drop_all"};
    return (unsigned)job->what < 3 ? jobs[job->what] : "unknown";
}

static void json_other(struct text *out, const struct entry *entry) {
    const Tarry__Record *record = entry->record;
    if (entry->queue != NULL) ndjson_text(out, "queue", entry->queue);
    switch (record->fact_case) {
    case TARRY__RECORD__FACT_QUEUE:
        if (record->queue->policy != NULL) json_policy(out, record->queue->policy);
        ndjson_bool(out, "paused", record->queue->paused);
        if (record->queue->paused_until_ms != 0) ndjson_number(out, "paused_until_ms", record->queue->paused_until_ms);
        break;
    case TARRY__RECORD__FACT_PRODUCER:
        ndjson_id(out, "producer", record->producer->producer);
        ndjson_text(out, "client", record->producer->client);
        break;
    case TARRY__RECORD__FACT_PRODUCER_END:
        ndjson_id(out, "producer", record->producer_end->producer);
        break;
    case TARRY__RECORD__FACT_JOB:
        ndjson_id(out, "job", record->job->job);
        ndjson_text(out, "what", job_name(record->job));
        break;
    case TARRY__RECORD__FACT_JOB_END:
        ndjson_id(out, "job", record->job_end->job);
        break;
    case TARRY__RECORD__FACT_EPOCH:
        ndjson_text(out, "version", record->epoch->server_version);
        break;
    case TARRY__RECORD__FACT_CLOCK:
        ndjson_number(out, "wall_ms", record->clock->wall_ms);
        break;
    default:
        break;
    }
}

void entry_json(struct text *out, const struct entry *entry) {
    const Tarry__Task *task = entry_task(entry);
    ndjson_begin(out);
    ndjson_id(out, "position", entry->header->position);
    ndjson_number(out, "epoch", entry->header->epoch);
    ndjson_number(out, "at_ms", entry_ms(entry));
    ndjson_text(out, "kind", entry_kind_name(entry_kind(entry)));
    if (task != NULL)
        json_task(out, entry, task);
    else
        json_other(out, entry);
    if (entry->body->producer != 0) {
        ndjson_text(out, "client", entry->body->client);
        ndjson_id(out, "producer", entry->body->producer);
        ndjson_id(out, "sequence", entry->body->sequence);
    }
    ndjson_end(out);
}

/* ---- words */

static void words_time(struct text *out, const char *what, uint64_t ms) {
    char time[RFC3339_TEXT_SIZE];
    text_printf(out, "%s %s", what, rfc3339_format(ms, time));
}

/* Text that somebody chose: quoted, for it must not drive the terminal. */
static void words_quoted(struct text *out, const char *what, const void *text, size_t size) {
    text_printf(out, "%s ", what);
    ndjson_string(out, text, size);
}

static void words_lease(struct text *out, const Tarry__Task *task) {
    char token[TARRY_TOKEN_SIZE];
    text_printf(out, "  to session %" PRIu64 ", delivery %u, token %s,", task->session, task->deliveries,
                tarry_token_format((struct tarry_token){task->lease_epoch, task->lease_position}, token));
    words_time(out, " until", task->lease_deadline_ms);
}

static void words_change(struct text *out, const struct entry *entry, const Tarry__Task *task) {
    uint64_t before_ms = due_before_ms(entry);
    switch (entry_kind(entry)) {
    case ENTRY_LEASED:
        words_lease(out, task);
        break;
    case ENTRY_EXTENDED:
        words_time(out, "  until", task->lease_deadline_ms);
        break;
    case ENTRY_RELEASED:
    case ENTRY_LEASE_LOST:
    case ENTRY_UNSENT:
        text_printf(out, "  by session %" PRIu64 ", attempts so far %u", task->session, task->attempt);
        break;
    case ENTRY_DEAD:
        text_printf(out, "  after %u attempts", task->attempt);
        if (task->reason.len != 0) words_quoted(out, ", reason", task->reason.data, task->reason.len);
        break;
    default:
        words_time(out, is_end(entry) ? "  was due" : "  due", task->due_ms);
        if (before_ms != 0) words_time(out, ", before", before_ms);
        if (is_end(entry)) text_printf(out, ", deliveries %u", task->deliveries);
    }
}

static void words_other(struct text *out, const struct entry *entry) {
    const Tarry__Record *record = entry->record;
    char duration[UNITS_TEXT_SIZE];
    if (entry->queue != NULL) text_printf(out, "  %s", entry->queue);
    switch (record->fact_case) {
    case TARRY__RECORD__FACT_QUEUE:
        text_printf(out, "  lease %s, at most %u attempts%s",
                    duration_format(record->queue->policy->lease_ms, duration), record->queue->policy->max_attempts,
                    record->queue->paused ? ", paused" : "");
        break;
    case TARRY__RECORD__FACT_PRODUCER:
        text_printf(out, "  %" PRIu64, record->producer->producer);
        words_quoted(out, " of client", record->producer->client, strlen(record->producer->client));
        break;
    case TARRY__RECORD__FACT_PRODUCER_END:
        text_printf(out, "  %" PRIu64, record->producer_end->producer);
        break;
    case TARRY__RECORD__FACT_JOB:
        text_printf(out, "  %s %" PRIu64, job_name(record->job), record->job->job);
        break;
    case TARRY__RECORD__FACT_JOB_END:
        text_printf(out, "  %" PRIu64, record->job_end->job);
        break;
    case TARRY__RECORD__FACT_EPOCH:
        text_printf(out, "  tarryd %s, epoch %u", record->epoch->server_version, record->epoch->epoch);
        break;
    case TARRY__RECORD__FACT_CLOCK:
        words_time(out, "  wall clock", record->clock->wall_ms);
        break;
    default:
        break;
    }
}

void entry_words(struct text *out, const struct entry *entry, bool with_task) {
    const Tarry__Task *task = entry_task(entry);
    char time[RFC3339_TEXT_SIZE];
    text_printf(out, "%s  %-10s", rfc3339_format(entry_ms(entry), time), entry_kind_name(entry_kind(entry)));
    if (task != NULL && with_task) {
        text_printf(out, "  %" PRIu64 " %s ", task->id, entry->queue != NULL ? entry->queue : "?");
        if (task->key.len != 0) ndjson_string(out, (const char *)task->key.data, task->key.len);
    }
    if (task != NULL)
        words_change(out, entry, task);
    else
        words_other(out, entry);
    if (entry->body->producer != 0) {
        words_quoted(out, "  by", entry->body->client, strlen(entry->body->client));
        text_printf(out, " (producer %" PRIu64 ", sequence %" PRIu64 ")", entry->body->producer, entry->body->sequence);
    }
    text_add_char(out, '\n');
}
