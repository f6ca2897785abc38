/* result.c: answers of the wire as the user's plain structs. */
#include "client.h"

#include <stdio.h>

int code_from_proto(Tarry__Code code) {
    return (int)code >= TARRY_OK && (int)code < TARRY_E_TIMEOUT ? (int)code : TARRY_E_PROTOCOL;
}

void result_from_proto(const Tarry__OpResult *from, struct tarry_result *out) {
    *out = (struct tarry_result){
        .code = code_from_proto(from->code),
        .outcome = (enum tarry_outcome)from->outcome,
        .id = from->id,
        .due_ms = from->due_ms,
        .deliveries = from->deliveries,
        .attempt = from->attempt,
        .at_ms = from->at_ms,
        .session = from->session,
        .delivered_ms = from->delivered_ms,
        .known_since_ms = from->known_since_ms,
        .lease_deadline_ms = from->lease_deadline_ms,
        .count = from->count,
        .job = from->job,
        .left = from->left,
        .message = from->message,
    };
    if (from->token != NULL) out->token = (struct tarry_token){from->token->epoch, from->token->position};
    if (from->code != TARRY__CODE__OK && from->message[0] == 0) out->message = tarry_code_sentence(out->code);
}

void result_failed(int code, const char *message, struct tarry_result *out) {
    *out = (struct tarry_result){.code = code, .message = message != NULL ? message : tarry_code_sentence(code)};
}

struct tarry_source source_of(const Tarry__Reply *reply) {
    return (struct tarry_source){reply->follower, reply->follower ? reply->position : 0};
}

const char *message_copy(char *text, size_t size, const char *message) {
    snprintf(text, size, "%s", message);
    return text;
}

const char *message_keep(const char *message) {
    static _Thread_local char kept[MESSAGE_SIZE_MAX];
    snprintf(kept, sizeof(kept), "%s", message);
    return kept;
}

void policy_from_proto(const Tarry__Policy *from, struct tarry_policy *out) {
    if (from == NULL) return;
    *out = (struct tarry_policy){
        .lease_ms = from->lease_ms,
        .max_attempts = from->max_attempts,
        .backoff_exponential = from->backoff == TARRY__POLICY__BACKOFF__EXPONENTIAL,
        .backoff_min_ms = from->backoff_min_ms,
        .backoff_max_ms = from->backoff_max_ms,
        .backoff_jitter = from->backoff_jitter,
    };
}
