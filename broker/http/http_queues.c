/* http_queues.c: requests about queues: their policies, pauses, purges and deletion. */
#include <string.h>

#include "http_exchange.h"

static void on_queues(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text out = HTTP_TEXT;
    if (http_refused(exchange, reply)) return;
    if (http_answered_by_head(exchange)) return;
    json_message(&out, &reply->queues->base);
    http_respond(exchange, 200, &out);
}

static void on_queue(struct http_exchange *exchange, const Tarry__Reply *reply) {
    struct text out = HTTP_TEXT;
    if (http_refused(exchange, reply)) return;
    for (size_t i = 0; i < reply->queues->n_queues; i++) {
        if (strcmp(reply->queues->queues[i]->name, exchange->in.queue) != 0) continue;
        if (http_answered_by_head(exchange)) return;
        json_message(&out, &reply->queues->queues[i]->base);
        http_respond(exchange, 200, &out);
        return;
    }
    http_refuse(exchange, 404, "no_such_queue", "the queue does not exist");
}

static void ask_queues(struct http_exchange *exchange,
                       void (*then)(struct http_exchange *exchange, const Tarry__Reply *reply)) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Queues queues = TARRY__QUEUES__INIT;
    if (!http_parameters_only(exchange, "")) return;
    request.body_case = TARRY__REQUEST__BODY_QUEUES;
    request.queues = &queues;
    http_ask(exchange, &request, then);
}

void handle_queues(struct http_exchange *exchange) {
    ask_queues(exchange, on_queues);
}

void handle_queue_get(struct http_exchange *exchange) {
    ask_queues(exchange, on_queue);
}

/* PATCH changes the policy; DELETE deletes the queue. For other changes, the path contains the operation. */
void handle_queue_change(struct http_exchange *exchange) {
    const struct head *head = &exchange->head;
    const char *name = head->method == HEAD_PATCH    ? "policy"
                       : head->method == HEAD_DELETE ? "delete"
                                                     : head->segments[3].text;
    if (!http_parameters_only(exchange, "") || !http_read_json(exchange, head->method != HEAD_PATCH)) return;
    http_commit_one(exchange, name);
}
