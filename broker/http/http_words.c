/* http_words.c: responses as JSON, with the terms of the tool (client/tool): ids and tokens are strings; times are Unix
 * milliseconds, with RFC 3339 beside them. */
#include <string.h>

#include "check.h"
#include "errors.h"
#include "http_exchange.h"
#include "json_valid.h"

/* Returns the queue that the operation names; NULL: it names none. */
static const char *words_queue_of(const Tarry__Op *op) {
    switch (op->op_case) {
    case TARRY__OP__OP_SCHEDULE:
        return op->schedule->queue;
    case TARRY__OP__OP_CANCEL:
        return op->cancel->task->queue;
    case TARRY__OP__OP_MOVE:
        return op->move->task->queue;
    case TARRY__OP__OP_DEAD:
        return op->dead->task->queue;
    case TARRY__OP__OP_REDACT:
        return op->redact->task->queue;
    default:
        return NULL;
    }
}

static const ProtobufCBinaryData *key_of(const Tarry__Op *op) {
    static const ProtobufCBinaryData none;
    switch (op->op_case) {
    case TARRY__OP__OP_SCHEDULE:
        return &op->schedule->key;
    case TARRY__OP__OP_CANCEL:
        return &op->cancel->task->key;
    case TARRY__OP__OP_MOVE:
        return &op->move->task->key;
    case TARRY__OP__OP_DEAD:
        return &op->dead->task->key;
    default:
        return &none;
    }
}

static void key_as(struct json_out *out, const ProtobufCBinaryData *key) {
    out_key(out, "key");
    if (key->len > 0)
        out_string(out, key->data, key->len);
    else
        out_literal(out, "null");
}

static bool has_outcome(const Tarry__OpResult *result) {
    return result->outcome != TARRY__OUTCOME__NONE &&
           (result->code == TARRY__CODE__OK || result->code == TARRY__CODE__EXISTS ||
            result->code == TARRY__CODE__NOT_DONE || result->code == TARRY__CODE__STALE_TOKEN);
}

static void circumstances(struct json_out *out, const Tarry__OpResult *result) {
    if (result->id != 0) out_number(out, "deliveries", result->deliveries);
    bool is_since = result->outcome == TARRY__OUTCOME__IN_FLIGHT || result->outcome == TARRY__OUTCOME__DEAD;
    out_time(out, is_since ? "since" : "ended", result->at_ms);
    if (result->outcome == TARRY__OUTCOME__IN_FLIGHT) out_token(out, "token", result->token);
    out_time(out, "known_since", result->known_since_ms);
    if (result->session != 0) out_id(out, "session", result->session);
    out_time(out, "delivered", result->delivered_ms);
    out_time(out, "lease_deadline", result->lease_deadline_ms);
    if (result->count != 0) out_number(out, "count", result->count);
    if (result->job != 0) out_id(out, "job", result->job);
    if (result->left != 0) out_number(out, "left", result->left);
}

void words_result(struct json_out *out, const char *name, const Tarry__Op *op, const Tarry__OpResult *result) {
    const char *queue = words_queue_of(op);
    out_begin(out, '{');
    if (name != NULL) out_text(out, "op", name);
    out_id(out, "id", result->id);
    if (queue != NULL && queue[0] != '\0') out_text(out, "queue", queue);
    if (key_of(op)->len > 0) key_as(out, key_of(op));
    out_text(out, "result",
             !has_outcome(result)                  ? "error"
             : result->code == TARRY__CODE__EXISTS ? "exists"
                                                   : outcome_name(result->outcome));
    if (result->code != TARRY__CODE__OK) {
        out_text(out, "code", code_name(result->code));
        out_text(out, "message", result->message[0] != '\0' ? result->message : code_sentence(result->code));
    }
    out_time(out, "due", result->due_ms);
    if (has_outcome(result) && (op->op_case != TARRY__OP__OP_SCHEDULE || result->code != TARRY__CODE__OK))
        circumstances(out, result);
    out_end(out, '}');
}

/* ---- contents */

static bool says_json(const Tarry__Content *content) {
    for (size_t i = 0; i < content->n_attributes; i++) {
        const char *name = content->attributes[i]->name, *value = content->attributes[i]->value;
        if (strcmp(name, "content-type") == 0) return strncmp(value, "application/json", 16) == 0;
    }
    return false;
}

/* Validates a payload that is marked as JSON: an invalid one would make the whole response invalid. */
static bool is_json(const Tarry__Content *content) {
    const ProtobufCBinaryData *payload = &content->payload;
    if (!says_json(content) || payload->len == 0) return false;
    return memchr(payload->data, '\n', payload->len) == NULL &&
           json_is_valid((const char *)payload->data, payload->len);
}

static void content_as(struct json_out *out, const ProtobufCBinaryData *packed) {
    Tarry__Content *content = tarry__content__unpack(NULL, packed->len, packed->data);
    if (content == NULL) {
        out->failed = true; /* out of memory: stored contents are valid */
        return;
    }
    if (content->n_attributes > 0) {
        out_key(out, "attributes");
        out_begin(out, '{');
        for (size_t i = 0; i < content->n_attributes; i++) {
            out_comma(out);
            out_string(out, content->attributes[i]->name, strlen(content->attributes[i]->name));
            out_raw(out, ":", 1);
            out_string(out, content->attributes[i]->value, strlen(content->attributes[i]->value));
        }
        out_end(out, '}');
    }
    const ProtobufCBinaryData *payload = &content->payload;
    if (is_json(content)) {
        out_key(out, "json");
        out_raw(out, (const char *)payload->data, payload->len);
    } else if (is_utf8(payload->data, payload->len)) {
        out_key(out, "body");
        out_string(out, payload->data, payload->len);
    } else {
        out_key(out, "body_base64");
        out_base64(out, payload->data, payload->len);
    }
    tarry__content__free_unpacked(content, NULL);
}

/* ---- tasks */

void words_view(struct json_out *out, const Tarry__TaskView *view) {
    bool is_leased = strcmp(view->state, "in_flight") == 0, is_dead = strcmp(view->state, "dead") == 0;
    out_begin(out, '{');
    out_id(out, "id", view->id);
    out_text(out, "queue", view->queue);
    key_as(out, &view->key);
    out_text(out, "state", view->state);
    out_time(out, "due", view->due_ms);
    out_number(out, "priority", view->priority);
    if (view->ended_ms == 0) out_number(out, "attempt", view->attempt);
    out_number(out, "deliveries", view->deliveries);
    out_time(out, "scheduled", view->scheduled_ms);
    if (view->expires_ms != 0) out_number(out, "expires_ms", view->expires_ms);
    out_time(out, "delivered", view->delivered_ms);
    if (view->session != 0) out_id(out, "session", view->session);
    if (is_leased) out_token(out, "token", view->token);
    if (is_leased) out_time(out, "lease_deadline", view->lease_deadline_ms);
    if (is_dead) out_time(out, "dead", view->dead_ms);
    if (is_dead) out_text(out, "reason", view->reason);
    out_time(out, "ended", view->ended_ms);
    if (view->redacted) out_bool(out, "redacted", true);
    if (view->content.len > 0) content_as(out, &view->content);
    out_end(out, '}');
}

void words_delivered(struct json_out *out, const Tarry__DeliveredTask *task) {
    out_begin(out, '{');
    out_id(out, "id", task->id);
    out_token(out, "token", task->token);
    out_text(out, "queue", task->queue);
    key_as(out, &task->key);
    out_time(out, "due", task->due_ms);
    out_number(out, "attempt", task->attempt);
    out_number(out, "deliveries", task->deliveries);
    out_number(out, "priority", task->priority);
    out_time(out, "lease_deadline", task->lease_deadline_ms);
    content_as(out, &task->content);
    out_end(out, '}');
}
