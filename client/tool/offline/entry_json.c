/* entry_json.c: prints a record as a JSON line (entry.h), without empty members. */
#include <string.h>

#include "check.h"
#include "entry.h"
#include "json_out.h"
#include "tarry.h"

static void json_bytes(struct text *out, const char *name, ProtobufCBinaryData bytes) {
    out_bytes(out, name, bytes.len != 0 ? (const char *)bytes.data : NULL, bytes.len);
}

static void json_hex(struct text *out, const char *name, ProtobufCBinaryData bytes) {
    out_key(out, name);
    out_hex(out, bytes.data, bytes.len);
}

static void json_number_if(struct text *out, const char *name, uint64_t number) {
    if (number != 0) out_number(out, name, number);
}

static void json_lease(struct text *out, const struct entry *entry, const Tarry__Task *task) {
    uint64_t session = entry_session(entry);
    if (session != 0) out_id(out, "session", session);
    if (task->session != 0 && task->session != session) out_id(out, "last_session", task->session);
    if (entry->consumer != NULL) {
        out_text(out, "consumer", entry->consumer->client);
        if (entry->consumer->peer[0] != '\0') out_text(out, "consumer_peer", entry->consumer->peer);
    }
    if (task->lease_position == 0) return;
    out_key(out, "token");
    out_token_value(out, task->lease_epoch, task->lease_position);
    json_number_if(out, "lease_deadline_ms", task->lease_deadline_ms);
}

/* Prints the values that the record replaced, where they are informative. */
static void json_before(struct text *out, const struct entry *entry) {
    if (entry->record->fact_case != TARRY__RECORD__FACT_PUT || entry->record->put->fresh) return;
    const Tarry__TaskPut *put = entry->record->put;
    json_number_if(out, "before_due_ms", entry_due_before_ms(entry));
    if (put->before_attempt != put->task->attempt) out_number(out, "before_attempt", put->before_attempt);
    json_number_if(out, "before_lease_deadline_ms", put->before_lease_deadline_ms);
    /* The record UNSENT replaces the lease itself, which is not informative. */
    if (entry_kind(entry) != ENTRY_LEASED) return;
    if (put->before_session != 0) out_id(out, "before_session", put->before_session);
    json_number_if(out, "before_delivered_ms", put->before_delivered_ms);
}

static void json_task(struct text *out, const struct entry *entry, const Tarry__Task *task) {
    uint64_t late_ms;
    out_id(out, "id", task->id);
    out_text(out, "queue", entry->queue);
    json_bytes(out, "key", task->key);
    out_number(out, "due_ms", task->due_ms);
    json_before(out, entry);
    out_number(out, "scheduled_ms", task->scheduled_ms);
    out_number(out, "priority", task->priority);
    out_number(out, "attempt", task->attempt);
    out_number(out, "deliveries", task->deliveries);
    json_number_if(out, "expires_ms", task->expires_ms);
    json_lease(out, entry, task);
    json_number_if(out, "leaves_ms", entry_leaves_ms(entry));
    if (entry_late_ms(entry, &late_ms)) out_number(out, "late_ms", late_ms);
    ProtobufCBinaryData reason = entry_reason(entry);
    if (reason.len != 0) json_bytes(out, "reason", reason);
}

static void json_policy(struct text *out, const Tarry__Policy *policy) {
    out_number(out, "lease_ms", policy->lease_ms);
    out_number(out, "max_attempts", policy->max_attempts);
    out_text(out, "backoff", policy->backoff == TARRY__POLICY__BACKOFF__FIXED ? "fixed" : "exponential");
    out_number(out, "backoff_min_ms", policy->backoff_min_ms);
    out_number(out, "backoff_max_ms", policy->backoff_max_ms);
    out_number(out, "backoff_jitter", policy->backoff_jitter);
    json_number_if(out, "rate", policy->rate);
    json_number_if(out, "rate_period_ms", policy->rate_period_ms);
    json_number_if(out, "burst", policy->burst);
    json_number_if(out, "max_in_flight", policy->max_in_flight);
    if (policy->push[0] != 0) out_text(out, "push", policy->push);
}

/* Begins an object as a member of the line. */
static void json_object(struct text *out, const char *name) {
    out_key(out, name);
    text_add_char(out, '{');
}

static void json_queue(struct text *out, const Tarry__QueuePut *queue) {
    if (queue->deleted) out_bool(out, "deleted", true);
    if (queue->policy != NULL) json_policy(out, queue->policy);
    out_bool(out, "paused", queue->paused);
    json_number_if(out, "paused_until_ms", queue->paused_until_ms);
    if (queue->before_policy == NULL || queue->before_deleted) return; /* the queue did not exist before */
    json_object(out, "before");
    json_policy(out, queue->before_policy);
    out_bool(out, "paused", queue->before_paused);
    json_number_if(out, "paused_until_ms", queue->before_paused_until_ms);
    text_add_char(out, '}');
}

static void json_job(struct text *out, const struct entry *entry) {
    const Tarry__JobPut *job = entry->record->job;
    out_id(out, "job", job->job);
    out_text(out, "what", entry_job_name(entry));
    out_number(out, "done", job->done);
    out_number(out, "left", job->left);
}

static void json_session(struct text *out, const struct entry *entry) {
    const Tarry__SessionPut *session = entry->record->session;
    out_id(out, "session", session->session);
    if (session->mover) out_bool(out, "mover", true);
    out_key(out, "queues");
    text_add_char(out, '[');
    for (size_t i = 0; i < session->n_queues; i++) {
        const char *name = entry_queue_name(entry, session->queues[i]);
        out_comma(out);
        if (name != NULL)
            out_string(out, name, strlen(name));
        else
            text_add_u64(out, session->queues[i]);
    }
    for (size_t i = 0; i < session->n_awaited; i++) {
        if (i + session->n_queues > 0) text_add_char(out, ',');
        out_string(out, session->awaited[i], strlen(session->awaited[i]));
    }
    text_add_char(out, ']');
    out_number(out, "prefetch", session->prefetch);
    out_number(out, "batch_max", session->batch_max);
    json_number_if(out, "lease_ms", session->lease_ms);
    out_number(out, "lane", session->lane);
    out_bool(out, "resumed", session->resumed);
}

static void json_session_end(struct text *out, const struct entry *entry) {
    const Tarry__SessionEnd *end = entry->record->session_end;
    out_id(out, "session", end->session);
    out_text(out, "cause", entry_session_cause(entry));
    out_number(out, "returned", end->returned);
    out_number(out, "kept", end->kept);
    if (entry->consumer == NULL) return;
    out_text(out, "consumer", entry->consumer->client);
    if (entry->consumer->peer[0] != '\0') out_text(out, "consumer_peer", entry->consumer->peer);
}

static void json_alone(struct text *out, const struct entry *entry) {
    const Tarry__AlonePut *alone = entry->record->alone;
    out_text(out, "why", entry_alone_why(entry));
    out_number(out, "since_ms", alone->since_ms);
    out_number(out, "alone_from", alone->position);
    if (alone->member.len != 0) json_hex(out, "lacks_member", alone->member);
}

static void json_start(struct text *out, const struct entry *entry) {
    const Tarry__EpochPut *epoch = entry->record->epoch;
    out_text(out, "version", epoch->server_version);
    out_text(out, "before", entry_before_start(entry));
    if (epoch->config_digest.len != 0) json_hex(out, "config_digest", epoch->config_digest);
}

static void json_redaction(struct text *out, const Tarry__Redaction *redaction) {
    out_id(out, "id", redaction->id);
    out_bytes(out, "key", redaction->key.len != 0 ? (const char *)redaction->key.data : NULL, redaction->key.len);
    out_text(out, "reason", redaction->reason);
}

static void json_refused(struct text *out, const struct entry *entry) {
    const Tarry__AccessRefused *refused = entry->record->refused;
    out_text(out, "reason", entry_refusal_reason(entry));
    out_bytes(out, "address", refused->address[0] != '\0' ? refused->address : NULL, strlen(refused->address));
    if (refused->principal[0] != '\0') out_text(out, "credential", refused->principal);
    if (refused->what[0] != '\0') out_text(out, "what", refused->what);
    out_number(out, "count", refused->count);
    out_number(out, "first_ms", refused->first_ms);
    out_number(out, "last_ms", refused->last_ms);
}

static void json_definition(struct text *out, const Tarry__DefinitionPut *put) {
    out_text(out, "space", put->space);
    if (is_utf8(put->name.data, put->name.len)) {
        out_bytes(out, "name", put->name.data, put->name.len);
    } else {
        out_key(out, "name_base64");
        out_base64(out, put->name.data, put->name.len);
    }
    out_bool(out, "deleted", put->deleted);
    if (put->deleted) return;
    out_key(out, "value_base64");
    out_base64(out, put->value.data, put->value.len);
    out_id(out, "version", put->version);
}

static void json_other(struct text *out, const struct entry *entry) {
    const Tarry__Record *record = entry->record;
    if (entry->queue != NULL) out_text(out, "queue", entry->queue);
    switch (record->fact_case) {
    case TARRY__RECORD__FACT_QUEUE:
        json_queue(out, record->queue);
        break;
    case TARRY__RECORD__FACT_PRODUCER:
        out_id(out, "producer", record->producer->producer);
        break;
    case TARRY__RECORD__FACT_PRODUCER_END:
        out_id(out, "producer", record->producer_end->producer);
        out_bool(out, "idle", record->producer_end->idle);
        break;
    case TARRY__RECORD__FACT_JOB:
        json_job(out, entry);
        break;
    case TARRY__RECORD__FACT_JOB_END:
        out_id(out, "job", record->job_end->job);
        out_number(out, "done", record->job_end->done);
        out_number(out, "left", record->job_end->left);
        break;
    case TARRY__RECORD__FACT_EPOCH:
        json_start(out, entry);
        break;
    case TARRY__RECORD__FACT_CLOCK:
        out_number(out, "wall_ms", record->clock->wall_ms);
        break;
    case TARRY__RECORD__FACT_SESSION:
        json_session(out, entry);
        break;
    case TARRY__RECORD__FACT_SESSION_END:
        json_session_end(out, entry);
        break;
    case TARRY__RECORD__FACT_STOP:
        out_text(out, "version", record->stop->server_version);
        break;
    case TARRY__RECORD__FACT_REDACTION:
        json_redaction(out, record->redaction);
        break;
    case TARRY__RECORD__FACT_REFUSED:
        json_refused(out, entry);
        break;
    case TARRY__RECORD__FACT_DEFINITION:
        json_definition(out, record->definition);
        break;
    case TARRY__RECORD__FACT_ALONE:
        json_alone(out, entry);
        break;
    default:
        break;
    }
}

/* Adds the client that requested the change. */
static void json_by(struct text *out, const struct entry *entry) {
    const Tarry__FrameBody *body = entry->body;
    if (entry_is_asked(entry)) {
        out_text(out, "client", body->client);
        if (body->peer[0] != '\0') out_text(out, "peer", body->peer);
        if (body->token[0] != '\0') out_text(out, "credential", body->token);
    } else if (entry->record->fact_case ==
               TARRY__RECORD__FACT_PRODUCER) { /* an old broker's record, which does not name the client */
        out_text(out, "client", entry->record->producer->client);
    }
    bool is_said = entry_kind(entry) == ENTRY_PRODUCER || entry_kind(entry) == ENTRY_PRODUCER_END;
    if (body->producer == 0 || is_said) return;
    out_id(out, "producer", body->producer);
    out_id(out, "sequence", body->sequence);
}

void entry_json(struct text *out, const struct entry *entry) {
    const Tarry__Task *task = entry_task(entry);
    out_begin(out, '{');
    out_number(out, "position", entry->header->position);
    out_number(out, "epoch", entry->header->epoch);
    out_number(out, "at_ms", entry_ms(entry));
    out_text(out, "kind", entry_kind_name(entry_kind(entry)));
    if (task != NULL)
        json_task(out, entry, task);
    else
        json_other(out, entry);
    json_by(out, entry);
    out_line_end(out);
}
