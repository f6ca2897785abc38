/* words.c: names of codes, outcomes and states; tokens; replies of the wire protocol as public structs. */
#include "client.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"

#define SAME(public_name, wire_name) _Static_assert((int)(public_name) == (int)(wire_name), #public_name)
SAME(TARRY_OK, TARRY__CODE__OK);
SAME(TARRY_INVALID, TARRY__CODE__INVALID);
SAME(TARRY_TOO_LARGE, TARRY__CODE__TOO_LARGE);
SAME(TARRY_UNSUPPORTED, TARRY__CODE__UNSUPPORTED);
SAME(TARRY_NO_SUCH_QUEUE, TARRY__CODE__NO_SUCH_QUEUE);
SAME(TARRY_EXISTS, TARRY__CODE__EXISTS);
SAME(TARRY_NOT_DONE, TARRY__CODE__NOT_DONE);
SAME(TARRY_STALE_TOKEN, TARRY__CODE__STALE_TOKEN);
SAME(TARRY_ABORTED, TARRY__CODE__ABORTED);
SAME(TARRY_FORGOTTEN, TARRY__CODE__FORGOTTEN);
SAME(TARRY_BUSY, TARRY__CODE__BUSY);
SAME(TARRY_STOPPING, TARRY__CODE__STOPPING);
SAME(TARRY_NO_SUCH_SESSION, TARRY__CODE__NO_SUCH_SESSION);
SAME(TARRY_NOT_PRIMARY, TARRY__CODE__NOT_PRIMARY);
SAME(TARRY_FAILED, TARRY__CODE__FAILED);
SAME(TARRY_DENIED, TARRY__CODE__DENIED);
SAME(TARRY_BEHIND, TARRY__CODE__BEHIND);
SAME(TARRY_TOO_OLD, TARRY__CODE__TOO_OLD);
SAME(TARRY_NONE, TARRY__OUTCOME__NONE);
SAME(TARRY_SCHEDULED, TARRY__OUTCOME__SCHEDULED);
SAME(TARRY_REPLACED, TARRY__OUTCOME__REPLACED);
SAME(TARRY_KEPT, TARRY__OUTCOME__KEPT);
SAME(TARRY_LIVE, TARRY__OUTCOME__LIVE);
SAME(TARRY_MOVED, TARRY__OUTCOME__MOVED);
SAME(TARRY_CANCELLED, TARRY__OUTCOME__CANCELLED);
SAME(TARRY_ALREADY_CANCELLED, TARRY__OUTCOME__ALREADY_CANCELLED);
SAME(TARRY_IN_FLIGHT, TARRY__OUTCOME__IN_FLIGHT);
SAME(TARRY_DEAD, TARRY__OUTCOME__DEAD);
SAME(TARRY_ACKED, TARRY__OUTCOME__ACKED);
SAME(TARRY_EXPIRED, TARRY__OUTCOME__EXPIRED);
SAME(TARRY_DROPPED, TARRY__OUTCOME__DROPPED);
SAME(TARRY_UNKNOWN, TARRY__OUTCOME__UNKNOWN);
SAME(TARRY_NACKED, TARRY__OUTCOME__NACKED);
SAME(TARRY_BURIED, TARRY__OUTCOME__BURIED);
SAME(TARRY_EXTENDED, TARRY__OUTCOME__EXTENDED);
SAME(TARRY_RELEASED, TARRY__OUTCOME__RELEASED);
SAME(TARRY_REQUEUED, TARRY__OUTCOME__REQUEUED);
SAME(TARRY_DONE, TARRY__OUTCOME__DONE);
SAME(TARRY_PENDING, TARRY__OUTCOME__PENDING);
SAME(TARRY_REDACTED, TARRY__OUTCOME__REDACTED);
SAME(TARRY_SHARED, TARRY__OUTCOME__SHARED);
SAME(TARRY_UNMATCHED, TARRY__OUTCOME__UNMATCHED);
SAME(TARRY_REJECT, TARRY__SCHEDULE__ON_CONFLICT__REJECT);
SAME(TARRY_REPLACE, TARRY__SCHEDULE__ON_CONFLICT__REPLACE);
SAME(TARRY_KEEP_EARLIER, TARRY__SCHEDULE__ON_CONFLICT__EARLIER);
SAME(TARRY_KEEP_LATER, TARRY__SCHEDULE__ON_CONFLICT__LATER);
SAME(TARRY_DELAY, TARRY__WHEN__KIND__DELAY);
SAME(TARRY_AT, TARRY__WHEN__KIND__AT);
SAME(TARRY_REQUEUE, TARRY__DEAD_OP__WHAT__REQUEUE);
SAME(TARRY_DROP, TARRY__DEAD_OP__WHAT__DROP);
SAME(TARRY_OPS_PER_COMMIT_MAX, OPS_PER_COMMIT_MAX);

/* Sizes of structs that programs allocate or embed in their own. The sizes must not change, because a compiled program
 * uses the size of its own header (tarry.h, Compatibility). */
#define KEEPS_SIZE(type, size)                                                                                         \
    _Static_assert(sizeof(void *) != 8 || sizeof(type) == (size),                                                      \
                   "existing programs were compiled with a different size of " #type)
KEEPS_SIZE(struct tarry_result, 1024);
KEEPS_SIZE(struct tarry_job_view, 128);
KEEPS_SIZE(struct tarry_audit_view, 128);
KEEPS_SIZE(struct tarry_backup_view, 128);
KEEPS_SIZE(struct tarry_call, 64);
KEEPS_SIZE(struct tarry_options, 168);
KEEPS_SIZE(struct tarry_schedule_options, 208);
KEEPS_SIZE(struct tarry_own_policy, 48);
KEEPS_SIZE(struct tarry_nack_options, 128);
KEEPS_SIZE(struct tarry_policy, 144);
KEEPS_SIZE(struct tarry_consumer_options, 168);
KEEPS_SIZE(struct tarry_list_options, 168);
KEEPS_SIZE(struct tarry_calendar_options, 144);
KEEPS_SIZE(struct tarry_audit_options, 152);
KEEPS_SIZE(struct tarry_backup_options, 88);
KEEPS_SIZE(struct tarry_redact_options, 176);
KEEPS_SIZE(struct tarry_recur_options, 272);
KEEPS_SIZE(struct tarry_token, 16);
KEEPS_SIZE(struct tarry_commit_id, 32);
KEEPS_SIZE(struct tarry_ref, 32);
KEEPS_SIZE(struct tarry_attribute, 16);
KEEPS_SIZE(struct tarry_share, 48);
KEEPS_SIZE(struct tarry_source, 16);
KEEPS_SIZE(struct tarry_quantiles, 40);

#define CLIENT_CODES(X)                                                                                                \
    X(TARRY_E_TIMEOUT, "timeout",                                                                                      \
      "no broker answered within the timeout; the request was sent, so whether it took effect is unknown")             \
    X(TARRY_E_NO_BROKER, "no_broker",                                                                                  \
      "no broker answered within the timeout, so nothing was sent and nothing was done")                               \
    X(TARRY_E_CLOSED, "closed", "the client was closed before a reply arrived")                                        \
    X(TARRY_E_NOMEM, "no_memory", "out of memory; nothing was done")                                                   \
    X(TARRY_E_PROTOCOL, "protocol", "the reply is malformed; the server may not be a Tarry broker of this version")    \
    X(TARRY_E_ADDRESS, "address", "not an address like ws://host:port, wss://host:port or unix:///path")               \
    X(TARRY_E_ARGUMENT, "argument", "an argument is missing or invalid")                                               \
    X(TARRY_E_FULL, "full", "too many requests wait to be sent; nothing was done")                                     \
    X(TARRY_E_CALLBACK, "callback", "a callback must not make a blocking call; nothing was done")                      \
    X(TARRY_E_NOTHING, "nothing", "nothing arrived within the wait")                                                   \
    X(TARRY_E_WOKEN, "woken", "another thread woke this call")                                                         \
    X(TARRY_E_END, "end", "there are no more items")                                                                   \
    X(TARRY_E_SYSTEM, "system", "the operating system refused a thread or a socket")                                   \
    X(TARRY_E_GAP, "gap", "a part of the log is missing")                                                              \
    X(TARRY_E_ABANDONED, "abandoned",                                                                                  \
      "the broker never received the commit, and will refuse it if it arrives later; nothing was done")                \
    X(TARRY_E_VERSION, "version", "this is libtarry " TARRY_VERSION ", but the program needs a newer libtarry")        \
    X(TARRY_E_FORKED, "forked", "the client was opened before this process forked: open the client after the fork")

const char *tarry_code_name(int code) {
    switch (code) {
#define NAME(value, name, sentence)                                                                                    \
    case value:                                                                                                        \
        return name;
        CLIENT_CODES(NAME)
#undef NAME
    default:
        return code_name((Tarry__Code)code);
    }
}

const char *tarry_code_sentence(int code) {
    switch (code) {
#define SENTENCE(value, name, sentence)                                                                                \
    case value:                                                                                                        \
        return sentence;
        CLIENT_CODES(SENTENCE)
#undef SENTENCE
    default:
        return code_sentence((Tarry__Code)code);
    }
}

const char *tarry_outcome_name(enum tarry_outcome outcome) {
    return outcome_name((Tarry__Outcome)outcome);
}

const char *tarry_version(void) {
    return TARRY_VERSION;
}

uint32_t tarry_version_number(void) {
    return TARRY_VERSION_NUMBER;
}

char *tarry_token_format(struct tarry_token token, char text[TARRY_TOKEN_SIZE]) {
    snprintf(text, TARRY_TOKEN_SIZE, "%" PRIu32 "-%" PRIu64, token.epoch, token.position);
    return text;
}

const char *parse_number(const char *text, uint64_t max, uint64_t *out_value) {
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (max - digit) / 10) return NULL;
        value = value * 10 + digit;
    }
    if (at == text || (text[0] == '0' && at - text > 1)) return NULL;
    *out_value = value;
    return at;
}

int tarry_token_parse(const char *text, struct tarry_token *out_token) {
    if (text == NULL || out_token == NULL) return TARRY_E_ARGUMENT;
    uint64_t epoch, position;
    const char *at = parse_number(text, UINT32_MAX, &epoch);
    if (at == NULL || *at != '-') return TARRY_INVALID;
    at = parse_number(at + 1, UINT64_MAX, &position);
    if (at == NULL || *at != 0) return TARRY_INVALID;
    *out_token = (struct tarry_token){(uint32_t)epoch, position};
    return TARRY_OK;
}

/* ---- converts replies of the wire protocol to the public structs */

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
    *out = (struct tarry_policy){.push = "", .filter = ""};
    if (from == NULL) return;
#define COPY_DURATION(field) out->field = from->field;
#define COPY_COUNT(field) out->field = from->field;
#define COPY_RATE(field) out->field = from->field;
#define COPY_BACKOFF(field) out->field##_exponential = from->field == TARRY__POLICY__BACKOFF__EXPONENTIAL;
#define POLICY_NUMBER(field, word, option, kind, ...) COPY_##kind(field)
#define POLICY_TEXT(field, ...) out->field = from->field;
#include "policy.def"
}
