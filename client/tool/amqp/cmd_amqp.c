/* cmd_amqp.c: tarry amqp exchanges, queues and bindings: prints what AMQP clients have declared. It reads the broker's
 * stored definitions with the same code as the broker's AMQP door. */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "amqp_topology.h"
#include "amqp_words.h"
#include "json_out.h"
#include "output.h"
#include "question.h"
#include "table.h"
#include "units.h"

static int run_exchanges(struct tool *tool, const struct args *args);
static int run_queues(struct tool *tool, const struct args *args);
static int run_bindings(struct tool *tool, const struct args *args);

#define AS_JSON                                                                                                        \
    "--json prints one object a line, as in a file of 'rabbitmqctl export_definitions'. A principal that may use\n"    \
    "some queues only may not list them."

const struct command command_amqp_exchanges = {
    .name = "amqp exchanges",
    .usage = "",
    .summary = "list the exchanges that clients of AMQP have declared",
    .text = "Lists the exchanges of AMQP, with the predeclared ones, and the number of their bindings. Messages of\n"
            "an exchange of the type x-delayed-message wait in the queue EXCHANGE.x-delayed.\n\n" AS_JSON,
    .examples = "tarry amqp exchanges\ntarry amqp exchanges --json",
    .run = run_exchanges,
};

const struct command command_amqp_queues = {
    .name = "amqp queues",
    .usage = "",
    .summary = "list the queues that clients of AMQP have declared",
    .text = "Lists the queues of AMQP. MESSAGES wait; UNACKED were delivered and are not acknowledged. 'tarry list',\n"
            "'tarry stats' and the other commands show these queues, too.\n\n" AS_JSON,
    .examples = "tarry amqp queues\ntarry amqp queues --json",
    .run = run_queues,
};

const struct command command_amqp_bindings = {
    .name = "amqp bindings",
    .usage = "",
    .summary = "list the bindings between exchanges and queues of AMQP",
    .text = "Lists the bindings of AMQP by their source. The default exchange is bound to each queue by its name;\n"
            "these bindings are not listed.\n\n" AS_JSON,
    .examples = "tarry amqp bindings\ntarry amqp bindings --json",
    .run = run_bindings,
};

/* ---- reading */

/* Reads the definitions of one kind from the broker, and adds them to `topology`. `prefix`: beginning of the names of
 * this kind. Bindings must be read last, because they refer to exchanges and queues. */
static int read_kind(struct tool *tool, const char *prefix, struct amqp_topology *topology) {
    uint8_t after[DEFINITION_NAME_SIZE_MAX];
    size_t after_size = 0;
    bool more = true;
    while (more) {
        Tarry__Request request = TARRY__REQUEST__INIT;
        Tarry__Definitions body = TARRY__DEFINITIONS__INIT;
        struct answer_of answer;
        body.space = "amqp";
        body.prefix = (ProtobufCBinaryData){.data = (uint8_t *)prefix, .len = strlen(prefix)};
        body.after = (ProtobufCBinaryData){.data = after, .len = after_size};
        request.body_case = TARRY__REQUEST__BODY_DEFINITIONS;
        request.definitions = &body;
        const int status = question_run(tool, &request, &answer);
        if (status != EXIT_FINE) return status;
        const Tarry__DefinitionsReply *reply = answer.reply->definitions;
        for (size_t i = 0; i < reply->n_definitions; i++) {
            const Tarry__Definition *definition = reply->definitions[i];
            if (amqp_define(topology, (struct amqp_bytes){definition->value.data, definition->value.len}) ==
                AMQP_DEFINED_NO_MEMORY)
                tool_out_of_memory();
            if (definition->name.len > sizeof after) continue;
            after_size = definition->name.len;
            memcpy(after, definition->name.data, after_size);
        }
        more = reply->more && reply->n_definitions > 0;
        answer_free(&answer);
    }
    return EXIT_FINE;
}

static int read_topology(struct tool *tool, struct amqp_topology *topology) {
    static const char *const kinds[] = {"e:", "q:", "b:"};
    int status = tool_connect(tool);
    if (status != EXIT_FINE) return status;
    if (!amqp_topology_init(topology)) tool_out_of_memory();
    for (size_t i = 0; status == EXIT_FINE && i < sizeof kinds / sizeof kinds[0]; i++)
        status = read_kind(tool, kinds[i], topology);
    if (status != EXIT_FINE) amqp_topology_deinit(topology);
    return status;
}

typedef int compared(const void *a, const void *b);

/* Returns the nodes of a table in sorted order. The caller frees the array. */
static const struct amqp_node **sorted(const struct amqp_hash *hash, compared *compare) {
    const struct amqp_node **nodes = tool_alloc((hash->count + 1) * sizeof(*nodes));
    size_t count = 0;
    for (size_t i = 0; i < hash->capacity; i++)
        for (const struct amqp_node *node = hash->buckets[i]; node != NULL; node = node->next) nodes[count++] = node;
    qsort(nodes, count, sizeof(*nodes), compare);
    return nodes;
}

static struct amqp_bytes arguments_of(const uint8_t *bytes, size_t size) {
    return (struct amqp_bytes){bytes, size};
}

static void cell_of_table(struct table *table, struct amqp_bytes arguments) {
    struct text text = {0};
    if (arguments.size > 0) table_as_json(&text, arguments);
    table_cell(table, arguments.size > 0 ? text_str(&text) : "-");
    text_deinit(&text);
}

/* Writes the arguments, and ends the JSON line. */
static void end_line(struct text *out, struct amqp_bytes arguments) {
    out_key(out, "arguments");
    table_as_json(out, arguments);
    out_line_end(out);
}

/* ---- exchanges */

static int by_exchange(const void *a, const void *b) {
    return strcmp((*(const struct amqp_exchange *const *)a)->name, (*(const struct amqp_exchange *const *)b)->name);
}

static size_t count_bindings(const struct amqp_exchange *exchange) {
    const struct amqp_binding *binding;
    size_t count = 0;
    TAILQ_FOREACH(binding, &exchange->from, in_from) count++;
    return count;
}

static void exchange_json(struct text *out, const struct amqp_exchange *exchange) {
    out_begin(out, '{');
    out_text(out, "name", exchange->name);
    out_text(out, "vhost", "/");
    out_text(out, "type", amqp_exchange_type_name(exchange->type));
    out_bool(out, "durable", exchange->durable);
    out_bool(out, "auto_delete", exchange->auto_delete);
    out_bool(out, "internal", exchange->internal);
    end_line(out, arguments_of(exchange->arguments, exchange->arguments_size));
}

static int run_exchanges(struct tool *tool, const struct args *args) {
    static const char *const heads[] = {"EXCHANGE", "TYPE", "FLAGS", ">BINDINGS", "ARGUMENTS"};
    struct amqp_topology topology;
    struct text out = {0};
    struct table table;
    int status = read_topology(tool, &topology);
    if (status != EXIT_FINE) return status;
    const struct amqp_node **nodes = sorted(&topology.exchanges, by_exchange);
    table_init(&table, heads, sizeof heads / sizeof heads[0]);
    for (size_t i = 0; i < topology.exchanges.count; i++) {
        const struct amqp_exchange *exchange = (const struct amqp_exchange *)nodes[i];
        if (tool->json) {
            exchange_json(&out, exchange);
            continue;
        }
        table_cell(&table, exchange->name);
        table_cell(&table, amqp_exchange_type_name(exchange->type));
        table_cell(&table, exchange->internal ? "internal" : exchange->auto_delete ? "auto-delete" : "-");
        table_cell_number(&table, count_bindings(exchange));
        cell_of_table(&table, arguments_of(exchange->arguments, exchange->arguments_size));
    }
    if (!tool->json) table_print(&table, &out);
    table_deinit(&table);
    free(nodes);
    amqp_topology_deinit(&topology);
    status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    return status;
}

/* ---- queues */

static int by_queue(const void *a, const void *b) {
    return strcmp((*(const struct amqp_queue *const *)a)->name, (*(const struct amqp_queue *const *)b)->name);
}

static void queue_json(struct text *out, const struct amqp_queue *queue, uint64_t messages, uint64_t unacked) {
    out_begin(out, '{');
    out_text(out, "name", queue->name);
    out_text(out, "vhost", "/");
    out_bool(out, "durable", queue->durable);
    out_bool(out, "auto_delete", queue->auto_delete);
    out_bool(out, "exclusive", queue->exclusive);
    out_number(out, "messages", messages);
    out_number(out, "unacked", unacked);
    end_line(out, arguments_of(queue->arguments, queue->arguments_size));
}

static void queue_row(struct table *table, const struct amqp_queue *queue, uint64_t messages, uint64_t unacked) {
    table_cell(table, queue->name);
    table_cell(table, queue->exclusive ? "exclusive" : queue->auto_delete ? "auto-delete" : "-");
    table_cell_number(table, messages);
    table_cell_number(table, unacked);
    cell_of_table(table, arguments_of(queue->arguments, queue->arguments_size));
}

static const Tarry__QueueStats *stats_of(const Tarry__StatsReply *reply, const char *name) {
    for (size_t i = 0; i < reply->n_queues; i++)
        if (strcmp(reply->queues[i]->name, name) == 0) return reply->queues[i];
    return NULL; /* the queue never had a message, so there are no statistics of it */
}

static int run_queues(struct tool *tool, const struct args *args) {
    static const char *const heads[] = {"QUEUE", "FLAGS", ">MESSAGES", ">UNACKED", "ARGUMENTS"};
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats body = TARRY__STATS__INIT;
    struct amqp_topology topology;
    struct answer_of answer;
    struct text out = {0};
    struct table table;
    int status = read_topology(tool, &topology);
    if (status != EXIT_FINE) return status;
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &body;
    status = question_run(tool, &request, &answer);
    if (status != EXIT_FINE) {
        amqp_topology_deinit(&topology);
        return status;
    }
    const struct amqp_node **nodes = sorted(&topology.queues, by_queue);
    table_init(&table, heads, sizeof heads / sizeof heads[0]);
    for (size_t i = 0; i < topology.queues.count; i++) {
        const struct amqp_queue *queue = (const struct amqp_queue *)nodes[i];
        const Tarry__QueueStats *stats = stats_of(answer.reply->stats, queue->name);
        const uint64_t messages = stats != NULL ? stats->pending + stats->ready : 0;
        const uint64_t unacked = stats != NULL ? stats->in_flight : 0;
        if (tool->json)
            queue_json(&out, queue, messages, unacked);
        else
            queue_row(&table, queue, messages, unacked);
    }
    if (!tool->json && topology.queues.count > 0) table_print(&table, &out);
    if (!tool->json && topology.queues.count == 0) tool_say("no queue was declared by a client of AMQP");
    table_deinit(&table);
    free(nodes);
    answer_free(&answer);
    amqp_topology_deinit(&topology);
    status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    return status;
}

/* ---- bindings */

static const char *end_of(const struct amqp_binding *binding) {
    return binding->queue != NULL ? binding->queue->name : binding->exchange->name;
}

static int by_binding(const void *a, const void *b) {
    const struct amqp_binding *first = *(const struct amqp_binding *const *)a,
                              *second = *(const struct amqp_binding *const *)b;
    const int source = strcmp(first->source->name, second->source->name);
    const int end = strcmp(end_of(first), end_of(second));
    const size_t size = first->key.size < second->key.size ? first->key.size : second->key.size;
    if (source != 0 || end != 0) return source != 0 ? source : end;
    const int key = size > 0 ? memcmp(first->key.at, second->key.at, size) : 0;
    return key != 0 ? key : (first->key.size > second->key.size) - (first->key.size < second->key.size);
}

static int run_bindings(struct tool *tool, const struct args *args) {
    static const char *const heads[] = {"SOURCE", "DESTINATION", "KIND", "ROUTING KEY", "ARGUMENTS"};
    struct amqp_topology topology;
    struct text out = {0};
    struct table table;
    int status = read_topology(tool, &topology);
    if (status != EXIT_FINE) return status;
    const struct amqp_node **nodes = sorted(&topology.bindings, by_binding);
    table_init(&table, heads, sizeof heads / sizeof heads[0]);
    for (size_t i = 0; i < topology.bindings.count; i++) {
        const struct amqp_binding *binding = (const struct amqp_binding *)nodes[i];
        const char *kind = binding->queue != NULL ? "queue" : "exchange";
        if (tool->json) {
            out_begin(&out, '{');
            out_text(&out, "source", binding->source->name);
            out_text(&out, "vhost", "/");
            out_text(&out, "destination", end_of(binding));
            out_text(&out, "destination_type", kind);
            out_bytes(&out, "routing_key", binding->key.at, binding->key.size);
            end_line(&out, binding->arguments);
            continue;
        }
        struct text key = {0};
        text_add(&key, binding->key.at, binding->key.size);
        table_cell(&table, binding->source->name);
        table_cell(&table, end_of(binding));
        table_cell(&table, kind);
        table_cell(&table, text_str(&key));
        cell_of_table(&table, binding->arguments);
        text_deinit(&key);
    }
    if (!tool->json && topology.bindings.count > 0) table_print(&table, &out);
    if (!tool->json && topology.bindings.count == 0) tool_say("no binding was declared by a client of AMQP");
    table_deinit(&table);
    free(nodes);
    amqp_topology_deinit(&topology);
    status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    return status;
}
