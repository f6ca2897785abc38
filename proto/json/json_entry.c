/* json_entry.c: writes a record of the log (entry.h) as a JSON line of `tarry audit` and of GET /v1/audit. The line
 * first has the record's position, epoch, time (`at`) and kind. Then come the members of the record's message in
 * tarry.proto, by the mapping of /v1 (proto/json); a task has the members of GET /v1/task. Last comes the client of the
 * frame.
 *
 * A line also has values that are not in the record itself: names of queues and of a session's consumer (from earlier
 * records), and how late a delivery was. For a lease that was recorded before the due time, the line has the time at
 * which the delivery leaves. */
#include <string.h>

#include "check.h"
#include "json_map.h"

/* Writes the values that the record replaced, if they differ from the new ones. */
static void json_before(struct text *out, const struct entry *entry) {
    if (entry->record->fact_case != TARRY__RECORD__FACT_PUT || entry->record->put->fresh) return;
    Tarry__TaskPut put = *entry->record->put;
    put.before_due_ms = entry_due_before_ms(entry);
    if (put.before_attempt == put.task->attempt) put.before_attempt = 0;
#define BEFORE(field)                                                                                                  \
    if (put.field != 0) json_write_field(out, &put.base, #field)
    BEFORE(before_due_ms);
    BEFORE(before_attempt);
    BEFORE(before_lease_deadline_ms);
    BEFORE(before_session);
    BEFORE(before_delivered_ms);
#undef BEFORE
}

/* Writes the ids that link a topic's task and its shares (the tasks made from it for the topic's groups). */
static void json_shares(struct text *out, const Tarry__Record *record) {
    if (record->fact_case == TARRY__RECORD__FACT_PUT && record->put->shares != 0) {
        json_write_field(out, &record->put->base, "share_of");
        json_write_field(out, &record->put->base, "first_share");
        json_write_field(out, &record->put->base, "shares");
    } else if (record->fact_case == TARRY__RECORD__FACT_END && record->end->shares != 0) {
        json_write_field(out, &record->end->base, "first_share");
        json_write_field(out, &record->end->base, "shares");
    }
}

static void json_consumer(struct text *out, const struct entry *entry) {
    if (entry->consumer == NULL) return;
    out_text(out, "consumer", entry->consumer->client);
    if (entry->consumer->peer[0] != '\0') out_text(out, "consumer_peer", entry->consumer->peer);
}

/* Writes the task as /v1 shows it, but without its state: the record's kind says what happened to the task. */
static void json_task(struct text *out, const struct entry *entry, const Tarry__Task *task) {
    Tarry__TaskView view = TARRY__TASK_VIEW__INIT;
    Tarry__Token token = TARRY__TOKEN__INIT;
    ProtobufCBinaryData reason = entry_reason(entry);
    struct text reason_text = {0};
    uint64_t late_ms;
    token.epoch = task->lease_epoch;
    token.position = task->lease_position;
    view.id = task->id;
    if (entry->queue != NULL) view.queue = (char *)entry->queue;
    view.key = task->key;
    view.due_ms = task->due_ms;
    view.priority = task->priority;
    view.attempt = task->attempt;
    view.deliveries = task->deliveries;
    view.scheduled_ms = task->scheduled_ms;
    view.expires_ms = task->expires_ms;
    view.serial = task->serial;
    view.spread_ms = task->spread_ms;
    view.max_attempts = task->max_attempts;
    view.backoff_ms = task->backoff_ms;
    view.lease_ms = task->lease_ms;
    view.delivered_ms = task->delivered_ms;
    view.session = task->session;
    if (task->lease_position != 0) view.token = &token;
    view.lease_deadline_ms = task->lease_deadline_ms;
    view.dead_ms = task->dead_ms;
    if (reason.len != 0) {
        text_add(&reason_text, reason.data, reason.len);
        view.reason = (char *)text_str(&reason_text);
    }
    json_members(out, &view.base);
    text_deinit(&reason_text);
    json_before(out, entry);
    json_consumer(out, entry);
    json_shares(out, entry->record);
    if (entry_leaves_ms(entry) != 0) out_time(out, "leaves", entry_leaves_ms(entry));
    if (entry_late_ms(entry, &late_ms)) out_number(out, "late_ms", late_ms);
}

static void json_queue_names(struct text *out, const struct entry *entry, const Tarry__SessionPut *session) {
    out_key(out, "queues");
    out_begin(out, '[');
    for (size_t i = 0; i < session->n_queues; i++) {
        const char *name = entry_queue_name(entry, session->queues[i]);
        out_comma(out);
        if (name != NULL)
            out_string(out, name, strlen(name));
        else
            text_add_u64(out, session->queues[i]);
    }
    out_end(out, ']');
}

static void json_bytes(struct text *out, const char *name, const char *name_base64, ProtobufCBinaryData bytes) {
    if (is_utf8(bytes.data, bytes.len)) {
        out_bytes(out, name, bytes.data, bytes.len);
        return;
    }
    out_key(out, name_base64);
    out_base64(out, bytes.data, bytes.len);
}

/* Returns the message of the record's fact; NULL: a newer version wrote it. */
static const ProtobufCMessage *fact_of(const Tarry__Record *record) {
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(&tarry__record__descriptor, record->fact_case);
    return field != NULL ? *(ProtobufCMessage *const *)((const char *)record + field->offset) : NULL;
}

static void json_fact(struct text *out, const struct entry *entry) {
    const Tarry__Record *record = entry->record;
    const ProtobufCMessage *fact = fact_of(record);
    if (entry->queue != NULL) out_text(out, "queue", entry->queue);
    if (record->fact_case == TARRY__RECORD__FACT_SESSION) json_queue_names(out, entry, record->session);
    if (record->fact_case == TARRY__RECORD__FACT_DEFINITION) {
        json_bytes(out, "name", "name_base64", record->definition->name);
        if (!record->definition->deleted) json_bytes(out, "value", "value_base64", record->definition->value);
    }
    if (fact != NULL) json_members(out, fact);
    if (record->fact_case == TARRY__RECORD__FACT_SESSION_END) json_consumer(out, entry);
}

/* Writes a text of the frame. Writes nothing if the text is empty, or if the record already has a text of this name. */
static void json_frame_text(struct text *out, const struct entry *entry, const char *name, const char *value) {
    const ProtobufCMessage *fact = fact_of(entry->record);
    const ProtobufCFieldDescriptor *own =
        fact != NULL ? protobuf_c_message_descriptor_get_field_by_name(fact->descriptor, name) : NULL;
    if (value[0] == '\0' || (own != NULL && **(char *const *)((const char *)fact + own->offset) != '\0')) return;
    out_text(out, name, value);
}

/* Writes the client of the frame, if that client requested the record. Writes the producer and sequence of the frame's
 * commit. */
static void json_by(struct text *out, const struct entry *entry) {
    const Tarry__FrameBody *body = entry->body;
    const enum entry_kind kind = entry_kind(entry);
    if (entry_is_asked(entry)) {
        json_frame_text(out, entry, "client", body->client);
        json_frame_text(out, entry, "peer", body->peer);
        json_frame_text(out, entry, "principal", body->principal);
    }
    if (body->producer == 0 || kind == ENTRY_PRODUCER || kind == ENTRY_PRODUCER_END) return;
    json_write_field(out, &body->base, "producer");
    json_write_field(out, &body->base, "sequence");
}

void json_entry(struct text *out, const struct entry *entry) {
    const Tarry__Task *task = entry_task(entry);
    out_begin(out, '{');
    out_number(out, "position", entry->header->position);
    out_number(out, "epoch", entry->header->epoch);
    out_time(out, "at", entry_ms(entry));
    out_text(out, "kind", entry_kind_name(entry_kind(entry)));
    if (task != NULL)
        json_task(out, entry, task);
    else
        json_fact(out, entry);
    json_by(out, entry);
    out_line_end(out);
}
