/* result.c: converts replies of the wire protocol to the public structs. */
#include "client.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

int code_from_proto(Tarry__Code code) {
    return (int)code >= TARRY_OK && (int)code < TARRY_E_TIMEOUT ? (int)code : TARRY_E_PROTOCOL;
}

/* Leaves out the unused bytes of the message, because programs copy millions of results. */
static void result_clear(struct tarry_result *out) {
    memset(out, 0, offsetof(struct tarry_result, message) + 1);
}

void result_copy(const struct tarry_result *from, struct tarry_result *out) {
    memcpy(out, from, offsetof(struct tarry_result, message) + strlen(from->message) + 1);
}

void result_from_proto(const Tarry__OpResult *from, struct tarry_result *out) {
    result_clear(out);
    out->code = code_from_proto(from->code);
    out->outcome = (enum tarry_outcome)from->outcome;
    out->id = from->id;
    out->due_ms = from->due_ms;
    out->deliveries = from->deliveries;
    out->attempt = from->attempt;
    out->at_ms = from->at_ms;
    out->session = from->session;
    out->delivered_ms = from->delivered_ms;
    out->known_since_ms = from->known_since_ms;
    out->lease_deadline_ms = from->lease_deadline_ms;
    out->count = from->count;
    out->job = from->job;
    out->left = from->left;
    if (from->token != NULL) out->token = (struct tarry_token){from->token->epoch, from->token->position};
    const bool is_mute = from->code != TARRY__CODE__OK && from->message[0] == 0;
    message_set(out->message, is_mute ? tarry_code_sentence(out->code) : from->message);
}

void result_failed(int code, const char *message, struct tarry_result *out) {
    result_clear(out);
    out->code = code;
    message_set(out->message, message != NULL ? message : tarry_code_sentence(code));
}

struct tarry_source source_of(const Tarry__Reply *reply) {
    return (struct tarry_source){reply->follower, reply->follower ? reply->position : 0};
}

const char *message_copy(char *text, size_t size, const char *message) {
    snprintf(text, size, "%s", message);
    return text;
}

void message_set(char out_message[TARRY_MESSAGE_SIZE], const char *message) {
    if (out_message == NULL) return;
    size_t size = strlen(message);
    if (size >= TARRY_MESSAGE_SIZE) size = TARRY_MESSAGE_SIZE - 1;
    memcpy(out_message, message, size);
    out_message[size] = 0;
}

int message_say(char out_message[TARRY_MESSAGE_SIZE], int code) {
    message_set(out_message, tarry_code_sentence(code));
    return code;
}

int options_take(void *out, const void *given, size_t size, size_t reserved_at) {
    const uint8_t *bytes = given;
    memset(out, 0, size);
    if (given == NULL) return TARRY_OK;
    for (size_t i = reserved_at; i < size; i++)
        if (bytes[i] != 0) return TARRY_E_VERSION;
    memcpy(out, given, size);
    return TARRY_OK;
}

void policy_from_proto(const Tarry__Policy *from, struct tarry_policy *out) {
    *out = (struct tarry_policy){.push = ""};
    if (from == NULL) return;
    *out = (struct tarry_policy){
        .lease_ms = from->lease_ms,
        .max_attempts = from->max_attempts,
        .backoff_exponential = from->backoff == TARRY__POLICY__BACKOFF__EXPONENTIAL,
        .backoff_min_ms = from->backoff_min_ms,
        .backoff_max_ms = from->backoff_max_ms,
        .backoff_jitter = from->backoff_jitter,
        .rate = from->rate,
        .rate_period_ms = from->rate_period_ms,
        .burst = from->burst,
        .max_in_flight = from->max_in_flight,
        .push = from->push,
    };
}
