/* cmd_consumers.c: tarry consumers. */
#include <string.h>

#include "columns.h"
#include "output.h"
#include "question.h"

static int run(struct tool *tool, const struct args *args);

const struct command command_consumers = {
    .name = "consumers",
    .usage = "[QUEUE]",
    .summary = "list the connected consumers: who, from where, which queues, what they have",
    .text = "Lists the consumers that are connected to the primary now, or those of QUEUE. IN FLIGHT counts the\n"
            "tasks that the consumer has and has not settled, of at most PREFETCH. LAST SETTLED is the time of\n"
            "its last ack, nack or release. A queue in parentheses does not exist: the consumer gets its tasks\n"
            "when the queue is created. Check that its name is spelled correctly.\n\n"
            "Clients of HTTP and of beanstalkd's protocol that wait for the same queues share one consumer,\n"
            "which is marked (shared), and is shown under the name of the client that was first. It is connected\n"
            "while at least one of them waits, and two seconds longer.",
    .positional_min = 0,
    .positional_max = 1,
    .examples = "tarry consumers\ntarry consumers close-order --json",
    .run = run,
};

static const Tarry__ConsumerView *view_of(const ProtobufCMessage *message) {
    return (const Tarry__ConsumerView *)message;
}

static void say_client(struct text *out, const ProtobufCMessage *message) {
    field_say(out, message, "client");
    if (view_of(message)->shared) text_add_str(out, " (shared)");
}

static void say_queues(struct text *out, const ProtobufCMessage *message) {
    const Tarry__ConsumerView *view = view_of(message);
    const char *gap = "";
    for (size_t i = 0; i < view->n_queues; i++, gap = " ") text_printf(out, "%s%s", gap, view->queues[i]);
    for (size_t i = 0; i < view->n_awaited; i++, gap = " ") text_printf(out, "%s(%s)", gap, view->awaited[i]);
    const size_t shown = view->n_queues + view->n_awaited;
    if (view->queue_count > shown) text_printf(out, " and %zu more", view->queue_count - shown);
}

static const struct column columns[] = {
    {"CLIENT", NULL, say_client},         {"ADDRESS", "peer", NULL},       {"PRINCIPAL", "principal", NULL},
    {"QUEUES", NULL, say_queues},         {">PREFETCH", "prefetch", NULL}, {">IN FLIGHT", "in_flight", NULL},
    {"LAST SETTLED", "settled_ms", NULL},
};
#define COLUMNS (sizeof columns / sizeof columns[0])

static int run(struct tool *tool, const struct args *args) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Consumers consumers = TARRY__CONSUMERS__INIT;
    struct answer_of answer;
    char message[TARRY_MESSAGE_SIZE] = "";
    struct table table;
    struct text out = {0};
    int status = tool_connect(tool);
    if (status != 0) return status;
    if (args->positional_count > 0) consumers.queue = (char *)args->positional[0];
    request.body_case = TARRY__REQUEST__BODY_CONSUMERS;
    request.consumers = &consumers;
    int code = question_ask(tool->client, &request, &tool->fresh, &answer, message);
    if (code != TARRY_OK) return tool_failed(tool, code, message);
    const Tarry__ConsumersReply *reply = answer.reply->consumers;
    columns_table(&table, columns, COLUMNS);
    for (size_t i = 0; i < reply->n_consumers; i++) {
        if (tool->json)
            json_line(&out, &reply->consumers[i]->base, &answer.source);
        else
            columns_row(&table, columns, COLUMNS, &reply->consumers[i]->base);
    }
    if (!tool->json && reply->n_consumers > 0) table_print(&table, &out);
    if (!tool->json && reply->n_consumers == 0) tool_say("no consumer is connected");
    status = output_flush(&out, EXIT_FINE);
    table_deinit(&table);
    text_deinit(&out);
    answer_free(&answer);
    return status;
}
