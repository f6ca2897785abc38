/* http_recurrences.c: requests about recurrences, which create tasks by a cron expression, an interval or an RRULE. */
#include <string.h>

#include "http_exchange.h"

/* ---- questions */

static void on_recurrences(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text out = HTTP_TEXT;
    if (http_refused(exchange, reply)) return;
    if (http_answered_by_head(exchange)) return;
    json_message(&out, &reply->recurrences->base);
    http_respond(exchange, 200, &out);
}

static void on_recurrence(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text out = HTTP_TEXT;
    if (http_refused(exchange, reply)) return;
    if (reply->recurrences->n_recurrences == 0) {
        http_refuse(exchange, 404, "not_done", "the queue has no such recurrence");
        return;
    }
    if (http_answered_by_head(exchange)) return;
    json_message(&out, &reply->recurrences->recurrences[0]->base);
    http_respond(exchange, 200, &out);
}

static void ask(struct http_exchange *exchange, Tarry__Recurrences *question,
                void (*then)(struct http_exchange *exchange, const Tarry__Reply *reply)) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    if (exchange->in.queue != NULL) question->queue = (char *)exchange->in.queue;
    request.body_case = TARRY__REQUEST__BODY_RECURRENCES;
    request.recurrences = question;
    http_ask(exchange, &request, then);
}

void handle_recurrences(struct http_exchange *exchange) {
    Tarry__Recurrences question = TARRY__RECURRENCES__INIT;
    uint64_t limit = RECURRENCES_LIMIT_MAX;
    if (!http_parameters_only(exchange, "limit cursor") ||
        !http_parameter_u64(exchange, "limit", RECURRENCES_LIMIT_MAX, &limit) ||
        !http_parameter_u64(exchange, "cursor", RECURRENCES_MAX, &question.cursor))
        return;
    question.limit = (uint32_t)limit;
    ask(exchange, &question, on_recurrences);
}

void handle_recurrence_get(struct http_exchange *exchange) {
    Tarry__Recurrences question = TARRY__RECURRENCES__INIT;
    uint64_t times = 0;
    if (!http_parameters_only(exchange, "times") || !http_parameter_u64(exchange, "times", RECUR_TIMES_MAX, &times))
        return;
    question.name = exchange->head.segments[4].text;
    question.times = (uint32_t)times;
    ask(exchange, &question, on_recurrence);
}

/* ---- changes */

/* PUT sets, DELETE deletes; other changes are named in the path. */
void handle_recurrence_change(struct http_exchange *exchange) {
    const struct head *head = &exchange->head;
    const struct head_text *name = &head->segments[4];
    const char *last = head->segment_count > 5 ? head->segments[5].text : "";
    const char *change = head->method == HEAD_PUT      ? "recur"
                         : head->method == HEAD_DELETE ? "recur_delete"
                         : strcmp(last, "pause") == 0  ? "recur_pause"
                         : strcmp(last, "resume") == 0 ? "recur_resume"
                                                       : "recur_trigger";
    if (!http_parameters_only(exchange, "") || !http_read_json(exchange, head->method != HEAD_PUT)) return;
    json_t *value = json_stringn(name->text, name->size);
    if (value == NULL || json_object_set_new(exchange->json, "name", value) != 0) {
        http_refuse(exchange, 400, "invalid", "the recurrence's name in the path is not UTF-8");
        return;
    }
    http_commit_one(exchange, change);
}
