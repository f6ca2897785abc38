/* question.c: see question.h. */
#include "question.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "json_map.h"
#include "json_out.h"
#include "progress.h"
#include "rfc3339.h"
#include "signals.h"
#include "table.h"
#include "tool.h"
#include "units.h"

/* ---- questions */

int question_ask(tarry_client *client, Tarry__Request *request, const struct tarry_call *call, struct answer_of *out,
                 char message[TARRY_MESSAGE_SIZE]) {
    struct tarry_answer *answer = NULL;
    size_t size = tarry__request__get_packed_size(request);
    uint8_t *packed = tool_alloc(size);
    tarry__request__pack(request, packed);
    *out = (struct answer_of){.reply = NULL};
    int code = tarry_question(client, packed, size, call, &answer, message);
    free(packed);
    if (code != TARRY_OK) return code;
    out->source = answer->source;
    out->reply = tarry__reply__unpack(NULL, answer->size, answer->reply);
    /* The library has already unpacked the same reply, so unpacking fails only for lack of memory. */
    if (out->reply == NULL) tool_out_of_memory();
    tarry_answer_free(answer);
    return TARRY_OK;
}

int question_run(const struct tool *tool, Tarry__Request *request, struct answer_of *out) {
    char message[TARRY_MESSAGE_SIZE] = "";
    int code = question_ask(tool->client, request, &tool->fresh, out, message);
    return code == TARRY_OK ? 0 : tool_failed(tool, code, message);
}

int question_consumers(tarry_client *client, const char *queue, const struct tarry_call *call, struct answer_of *out,
                       char message[TARRY_MESSAGE_SIZE]) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Consumers consumers = TARRY__CONSUMERS__INIT;
    if (queue != NULL) consumers.queue = (char *)queue;
    request.body_case = TARRY__REQUEST__BODY_CONSUMERS;
    request.consumers = &consumers;
    return question_ask(client, &request, call, out, message);
}

void answer_free(struct answer_of *answer) {
    if (answer->reply != NULL) tarry__reply__free_unpacked(answer->reply, NULL);
    answer->reply = NULL;
}

void ref_to_message(const struct tarry_ref *ref, Tarry__Ref *out) {
    tarry__ref__init(out);
    out->id = ref->id;
    if (ref->queue != NULL) out->queue = (char *)ref->queue;
    if (ref->key == NULL) return;
    out->key.data = (uint8_t *)ref->key;
    out->key.len = ref->key_size != 0 ? ref->key_size : strlen(ref->key);
}

void json_line(struct text *out, const ProtobufCMessage *message, const struct tarry_source *source) {
    out_begin(out, '{');
    json_members(out, message);
    json_source(out, source);
    out_line_end(out);
}

/* ---- jobs */

#define POLL_MIN_MS 5u
#define POLL_MAX_MS 250u

int job_follow(struct tool *tool, const char *queue, const struct tarry_result *started, const char *what,
               struct tarry_job_view *out_view) {
    struct progress progress;
    struct tarry_job_view view = {.running = true};
    const uint64_t job = started->job, count = started->count;
    char message[TARRY_MESSAGE_SIZE] = "";
    int code = TARRY_OK;
    signals_graceful();
    progress_start(&progress, what);
    for (uint64_t wait_ms = POLL_MIN_MS; !signals_ended(); wait_ms += wait_ms < POLL_MAX_MS ? wait_ms : 0) {
        code = tarry_job(tool->client, queue, job, NULL, &view, message);
        if (code != TARRY_OK || !view.running) break;
        uint64_t done = view.done + view.left;
        if (count > 0) progress_show(&progress, done < count ? done : count, count, view.done);
        pause_ms(wait_ms);
    }
    progress_end(&progress);
    if (code != TARRY_OK) return tool_failed(tool, code, message);
    if (view.running) {
        tool_say("interrupted after %llu; the broker continues by itself", (unsigned long long)view.done);
        return EXIT_REFUSED;
    }
    if (!view.known) tool_say("done; the number is unknown, because the broker restarted meanwhile");
    *out_view = view;
    return EXIT_FINE;
}

void job_json_count(struct text *out, const struct tarry_job_view *view) {
    if (view->known)
        out_number(out, "count", view->done);
    else
        out_null(out, "count");
}

void job_words_count(struct text *out, const struct tarry_job_view *view, const char *noun) {
    if (view->known) text_printf(out, ": %llu %s%s", (unsigned long long)view->done, noun, view->done == 1 ? "" : "s");
}

/* ---- answers */

/* Returns whether the result has a definite outcome (TRUE-1): the operation took effect, or the task's state prevented
 * it. */
static bool has_outcome(const struct tarry_result *result) {
    return result->outcome != TARRY_NONE && (result->code == TARRY_OK || result->code == TARRY_EXISTS ||
                                             result->code == TARRY_NOT_DONE || result->code == TARRY_STALE_TOKEN);
}

const char *answer_word(const struct tarry_result *result) {
    if (result->code == TARRY_EXISTS) return "exists";
    return has_outcome(result) ? tarry_outcome_name(result->outcome) : "error";
}

void answer_word_words(struct text *out, const struct tarry_result *result) {
    for (const char *at = answer_word(result); *at != 0; at++) text_add_char(out, *at == '_' ? ' ' : *at);
}

bool answer_refused(enum verb verb, const struct tarry_result *result) {
    if (verb == VERB_CANCEL && result->outcome == TARRY_ALREADY_CANCELLED && has_outcome(result)) return false;
    return result->code != TARRY_OK;
}

static const char *sentence_of(const struct tarry_result *result) {
    return result->message[0] != 0 ? result->message : tarry_code_sentence(result->code);
}

/* Converts the result back to the message that the broker sent. */
static void result_to_wire(const struct tarry_result *from, Tarry__Token *token, Tarry__OpResult *out) {
    tarry__op_result__init(out);
    tarry__token__init(token);
    token->epoch = from->token.epoch;
    token->position = from->token.position;
    out->code = (Tarry__Code)from->code;
    out->outcome = (Tarry__Outcome)from->outcome;
    out->id = from->id;
    out->due_ms = from->due_ms;
    out->deliveries = from->deliveries;
    out->at_ms = from->at_ms;
    out->session = from->session;
    out->delivered_ms = from->delivered_ms;
    out->token = token;
    out->known_since_ms = from->known_since_ms;
    out->lease_deadline_ms = from->lease_deadline_ms;
    out->message = (char *)from->message;
    out->attempt = from->attempt;
    out->count = from->count;
    out->job = from->job;
    out->left = from->left;
}

void answer_json(struct text *out, const struct answer *answer) {
    Tarry__OpResult result;
    Tarry__Token token;
    result_to_wire(answer->result, &token, &result);
    if (result.id == 0) result.id = answer->id;
    const struct json_result what = {
        .line = answer->line,
        .queue = answer->queue,
        .key = {answer->key_size, (uint8_t *)answer->key},
        .has_key = answer->queue != NULL,
        .is_new = answer->verb == VERB_SCHEDULE && answer->result->code == TARRY_OK,
        .result = &result,
        .code = tarry_code_name(answer->result->code),
        .sentence = tarry_code_sentence(answer->result->code),
        .position = answer->result->position,
    };
    json_write_result(out, &what);
    text_add_char(out, '\n');
}

static void add_time(struct text *out, const char *before, uint64_t ms) {
    char time[RFC3339_TEXT_SIZE];
    if (ms != 0) text_printf(out, "%s%s", before, rfc3339_format(ms, time));
}

static void add_due(struct text *out, uint64_t due_ms) {
    char duration[UNITS_TEXT_SIZE];
    uint64_t now_ms = wall_ms();
    add_time(out, ", due ", due_ms);
    if (due_ms > now_ms) {
        uint64_t in_ms = due_ms - now_ms; /* rounded to seconds from 1 s on, because 29m59s997ms is hard to read */
        if (in_ms >= 1000) in_ms = (in_ms + 500) / 1000 * 1000;
        text_printf(out, " (in %s)", duration_format(in_ms, duration));
    }
}

void answer_circumstances_words(struct text *out, const struct tarry_result *result) {
    char token[TARRY_TOKEN_SIZE];
    switch (result->outcome) {
    case TARRY_IN_FLIGHT:
        text_printf(out, ": session %llu holds it", (unsigned long long)result->session);
        add_time(out, " since ", result->at_ms);
        text_printf(out, " (token %s)", tarry_token_format(result->token, token));
        break;
    case TARRY_DEAD:
        add_time(out, " since ", result->at_ms);
        break;
    case TARRY_UNKNOWN:
        text_add_str(out, ": the task is not live, and has not ended recently");
        /* Time since which the broker remembers outcomes; 0: it has not forgotten any. */
        add_time(out, " since ", result->known_since_ms);
        return;
    case TARRY_ALREADY_CANCELLED:
    case TARRY_ACKED:
    case TARRY_EXPIRED:
    case TARRY_DROPPED:
    case TARRY_SHARED:
    case TARRY_UNMATCHED:
        add_time(out, " at ", result->at_ms);
        break;
    default:
        break;
    }
    if (result->deliveries == 0) {
        if (result->outcome == TARRY_CANCELLED) text_add_str(out, ", never delivered");
        return;
    }
    text_printf(out, ", delivered %u time%s", (unsigned)result->deliveries, result->deliveries == 1 ? "" : "s");
    if (result->session != 0 && result->outcome != TARRY_IN_FLIGHT)
        text_printf(out, ", last to session %llu", (unsigned long long)result->session);
    if (result->outcome != TARRY_IN_FLIGHT) add_time(out, " at ", result->delivered_ms);
}

static void add_name(struct text *out, const struct answer *answer) {
    uint64_t id = answer->result->id != 0 ? answer->result->id : answer->id;
    if (id != 0) text_printf(out, " %llu", (unsigned long long)id);
    if (answer->queue != NULL) {
        text_add_str(out, " on ");
        plain_add(out, answer->queue, strlen(answer->queue));
    }
    if (answer->key_size > 0) {
        text_add_str(out, ", key ");
        plain_add(out, answer->key, answer->key_size);
    }
}

void answer_words(struct text *out, const struct answer *answer) {
    const struct tarry_result *result = answer->result;
    answer_word_words(out, result);
    add_name(out, answer);
    if (!has_outcome(result))
        text_printf(out, ": %s: %s", tarry_code_name(result->code), sentence_of(result));
    else if (answer->verb == VERB_SCHEDULE || result->outcome == TARRY_MOVED)
        add_due(out, result->due_ms);
    else
        answer_circumstances_words(out, result);
    text_add_char(out, '\n');
}
