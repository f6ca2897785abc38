/* http_exchange.c: functions for handlers: the request's parameters, and requests to the broker; see http_exchange.h.
 */
#include "http_exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "rfc3339.h"

/* ---- replies and timers */

static void on_reply(void *argument, const Tarry__Reply *reply) {
    struct http_exchange *exchange = argument;
    exchange->handle = 0;
    exchange->on_reply(exchange, reply);
}

/* Returns the operation that was charged before the body was read to the principal's rate, because the broker charges
 * the request's operations itself. */
static void take_payment_back(struct http_exchange *exchange) {
    if (exchange->has_paid) gateway_unpay(exchange->server->gateway, &exchange->caller);
    exchange->has_paid = false;
}

void http_ask(struct http_exchange *exchange, Tarry__Request *request,
              void (*then)(struct http_exchange *exchange, const Tarry__Reply *reply)) {
    take_payment_back(exchange);
    exchange->on_reply = then;
    exchange->handle = gateway_ask(exchange->server->gateway, &exchange->caller, request, on_reply, exchange);
    if (exchange->handle == 0) http_refuse_memory(exchange);
}

void http_fingerprint_begin(struct http_exchange *exchange) {
    const struct head *head = &exchange->head;
    crypto_generichash_state *state = &exchange->hash;
    crypto_generichash_init(state, NULL, 0, GATEWAY_FINGERPRINT_SIZE);
    crypto_generichash_update(state, (const uint8_t *)&head->method, sizeof(head->method));
    for (size_t i = 0; i < head->segment_count; i++)
        crypto_generichash_update(state, (const uint8_t *)head->segments[i].text, head->segments[i].size + 1);
    for (size_t i = 0; i < head->parameter_count; i++) {
        const struct head_parameter *parameter = &head->parameters[i];
        crypto_generichash_update(state, (const uint8_t *)parameter->name.text, parameter->name.size + 1);
        crypto_generichash_update(state, (const uint8_t *)parameter->value.text, parameter->value.size + 1);
    }
}

void http_body_came(struct http_exchange *exchange, const char *bytes, size_t size) {
    if (size == 0) return;
    json_scan(&exchange->scan, bytes, size);
    if (exchange->head.fields[HEAD_FIELD_idempotency].text != NULL)
        crypto_generichash_update(&exchange->hash, (const uint8_t *)bytes, size);
}

/* Handles a commit's reply. A commit that was refused as BUSY with a Reply.retry_ms was not executed, and is sent again
 * soon. With status 503 the client would wait a second instead (Retry-After). */
static void on_commit_reply(void *argument, const Tarry__Reply *reply) {
    struct http_exchange *exchange = argument;
    uint32_t retry_ms = reply != NULL && reply->code == TARRY__CODE__BUSY ? reply->retry_ms : 0;
    exchange->handle = 0;
    if (retry_ms != 0 && exchange->retried_ms + retry_ms <= HTTP_RETRIED_MAX_MS) {
        exchange->retried_ms += retry_ms;
        http_put_off(exchange, retry_ms);
        return;
    }
    exchange->retried_ms = 0;
    exchange->on_reply(exchange, reply);
}

void http_commit(struct http_exchange *exchange, Tarry__Commit *commit,
                 void (*then)(struct http_exchange *exchange, const Tarry__Reply *reply)) {
    take_payment_back(exchange);
    exchange->commit = commit;
    exchange->on_reply = then;
    if (exchange->head.fields[HEAD_FIELD_idempotency].text != NULL)
        crypto_generichash_final(&exchange->hash, exchange->fingerprint, sizeof(exchange->fingerprint));
    http_commit_again(exchange);
}

void http_commit_again(struct http_exchange *exchange) {
    const struct head_text *key = &exchange->head.fields[HEAD_FIELD_idempotency];
    struct gateway_once once = {.key = key->text, .key_size = key->size};
    if (key->text != NULL && (key->size == 0 || key->size > GATEWAY_ONCE_KEY_MAX)) {
        http_refuse(exchange, 400, "invalid", "Idempotency-Key must have 1 to 255 bytes");
        return;
    }
    memcpy(once.fingerprint, exchange->fingerprint, sizeof(once.fingerprint));
    exchange->handle = gateway_commit(exchange->server->gateway, &exchange->caller, exchange->commit,
                                      key->text != NULL ? &once : NULL, on_commit_reply, exchange);
    if (exchange->handle == 0)
        http_refuse_memory(exchange);
    else if (key->text == NULL)
        http_lets_others_begin(exchange);
}

static void on_leased(void *argument, const struct gateway_leased *leased) {
    struct http_exchange *exchange = argument;
    if (leased->count == 0) exchange->handle = 0;
    exchange->on_leased(exchange, leased);
}

void http_lease(struct http_exchange *exchange, const struct gateway_lease_options *options,
                void (*then)(struct http_exchange *exchange, const struct gateway_leased *leased)) {
    take_payment_back(exchange);
    exchange->on_leased = then;
    exchange->handle = gateway_lease(exchange->server->gateway, &exchange->caller, options, on_leased, exchange);
    if (exchange->handle == 0) {
        http_refuse_memory(exchange);
        return;
    }
    /* The lease may wait for a long time, so it must not hold its request's memory. */
    json_decref(exchange->json);
    exchange->json = NULL;
    arena_deinit(&exchange->arena);
    body_deinit(&exchange->body);
}

/* ---- the request */

bool http_keep(struct http_exchange *exchange, size_t size) {
    struct door *door = exchange->server->door;
    bool holds = door_stream_half(door, exchange->id, size, size <= HTTP_SMALL_MAX);
    door_stream_whole(door, exchange->id);
    return holds;
}

/* If the request exceeds the free memory, it is allowed only if no other request exceeds it. Without this exception, a
 * large request could never be served on a busy broker. */
bool http_hold(struct http_exchange *exchange, size_t weight) {
    struct http_server *server = exchange->server;
    exchange->held = exchange->body.capacity + weight;
    bool holds = http_keep(exchange, exchange->held);
    if (!holds && server->alone == NULL) server->alone = exchange;
    return holds || server->alone == exchange;
}

bool http_has_json(struct http_exchange *exchange) {
    const char *type = exchange->head.fields[HEAD_FIELD_type].text;
    bool is_json = type != NULL && strncasecmp(type, "application/json", 16) == 0 &&
                   (type[16] == '\0' || type[16] == ';' || type[16] == ' ');
    /* The type application/json is required because a form on a web page cannot send it without a CORS preflight. */
    if (!is_json || exchange->body.bytes == NULL)
        http_refuse(exchange, is_json ? 400 : 415, is_json ? "invalid" : "unsupported_media_type",
                    is_json ? "the request body is missing" : "Content-Type must be application/json");
    return is_json && exchange->body.bytes != NULL;
}

bool http_read_json(struct http_exchange *exchange, bool optional) {
    if (exchange->body.size == 0 && optional) {
        exchange->json = json_object();
        if (exchange->json == NULL) http_refuse_memory(exchange);
        return exchange->json != NULL;
    }
    if (!http_has_json(exchange)) return false;
    exchange->json = json_read(&exchange->in, exchange->body.bytes, exchange->body.size);
    if (exchange->json == NULL) {
        bool is_large = exchange->in.too_large;
        http_refuse(exchange, is_large ? 413 : 400, is_large ? "too_large" : "invalid", exchange->in.problem);
        return false;
    }
    return true;
}

static bool refuse_parameter(struct http_exchange *exchange, const char *name, const char *what) {
    char sentence[160];
    snprintf(sentence, sizeof(sentence), "parameter %.60s %s", name, what);
    http_refuse(exchange, 400, "invalid", sentence);
    return false;
}

bool http_parameter_u64(struct http_exchange *exchange, const char *name, uint64_t most, uint64_t *out) {
    const struct head_text *value = head_parameter(&exchange->head, name);
    if (value == NULL) return true;
    bool is_number = value->size > 0 && value->size < 20 && strspn(value->text, "0123456789") == value->size;
    uint64_t number = is_number ? strtoull(value->text, NULL, 10) : 0;
    if (!is_number || number > most) return refuse_parameter(exchange, name, "is not a number, or is too large");
    *out = number;
    return true;
}

bool http_parameter_bool(struct http_exchange *exchange, const char *name, bool *out) {
    const struct head_text *value = head_parameter(&exchange->head, name);
    if (value == NULL) return true;
    *out = strcmp(value->text, "true") == 0;
    return *out || strcmp(value->text, "false") == 0 || refuse_parameter(exchange, name, "must be true or false");
}

bool http_parameter_time(struct http_exchange *exchange, const char *name, uint64_t *out_ms) {
    const struct head_text *value = head_parameter(&exchange->head, name);
    if (value == NULL) return true;
    bool is_number = value->size > 0 && value->size < 19 && strspn(value->text, "0123456789") == value->size;
    if (is_number) *out_ms = strtoull(value->text, NULL, 10);
    return is_number || rfc3339_parse(value->text, out_ms) == NULL ||
           refuse_parameter(exchange, name, "must be a time (RFC 3339) or Unix milliseconds");
}

bool http_parameters_only(struct http_exchange *exchange, const char *known) {
    for (size_t i = 0; i < exchange->head.parameter_count; i++) {
        const struct head_text *name = &exchange->head.parameters[i].name;
        if (!json_names_hold(known, name->text)) return refuse_parameter(exchange, name->text, "is unknown");
        if (head_parameter(&exchange->head, name->text) != &exchange->head.parameters[i].value)
            return refuse_parameter(exchange, name->text, "is given twice");
    }
    return true;
}

void *http_make(struct http_exchange *exchange, size_t size) {
    void *made = arena_alloc(&exchange->arena, size > 0 ? size : 1);
    if (made != NULL) return memset(made, 0, size);
    http_refuse_memory(exchange);
    return NULL;
}
