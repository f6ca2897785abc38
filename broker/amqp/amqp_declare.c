/* amqp_declare.c: methods that declare, bind and delete. Each waits for its turn (store_enter), checks, commits the
 * definitions, and then changes the topology. So the change survives a crash and is on the follower before the client
 * has its reply.
 *
 * Permissions: a name must be within the principal's prefixes, as a queue's name must. A principal that may produce or
 * consume may declare and bind; to delete or to purge needs the role that a purge needs (docs/AMQP.md). */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amqp_parts.h"
#include "check.h"
#include "door_stream.h"

/* ---- answers and refusals */

static bool flag(const struct amqp_connection *connection, int field) {
    return connection->method.fields[field].number != 0;
}

/* Arguments for "'%.*s'": at most 150 bytes of a name, so that the rest of the sentence fits into the reply's text. */
#define QUOTED(bytes) (int)((bytes).size < 150 ? (bytes).size : 150), (const char *)(bytes).at

/* Ends the method that is being executed. May free the connection. */
static void leave(struct amqp_connection *connection) {
    declare_forget(connection);
    op_end(connection);
}

static void turn_over(struct amqp_connection *connection) {
    topology_count(connection->server);
    store_leave(&connection->server->store, &connection->job);
    leave(connection);
}

/* Returns whether the channel has gone. If it has, ends the method that is being executed, so that the next job of the
 * store may run. */
static bool has_gone(struct amqp_connection *connection) {
    if (op_channel(connection) != NULL) return false;
    turn_over(connection);
    return true;
}

/* Refuses the method. A result with the code OK means that the commit succeeded, but that memory was exhausted when the
 * topology was changed; the client gets BUSY. */
static void refuse_stored(struct amqp_connection *connection, const struct stored_result *result) {
    const Tarry__Code code = result->code != TARRY__CODE__OK ? result->code : TARRY__CODE__BUSY;
    struct channel *channel = op_channel(connection);
    if (channel == NULL) return;
    if (code_ends_connection(code))
        client_refuse(connection, code, "");
    else
        channel_fail(channel, code == TARRY__CODE__DENIED ? AMQP_ACCESS_REFUSED : AMQP_RESOURCE_ERROR,
                     connection->method.kind, "%s - %.200s",
                     code == TARRY__CODE__DENIED ? "ACCESS_REFUSED" : "RESOURCE_ERROR", result->sentence);
}

/* Returns whether the principal may do at least one of two operations with this name. If not, the channel has failed.
 */
static bool may(struct channel *channel, struct amqp_bytes name, Tarry__Op__OpCase first, Tarry__Op__OpCase second) {
    char sentence[GATEWAY_SENTENCE_SIZE], text[AMQP_SHORTSTR_MAX + 1];
    struct amqp_connection *connection = channel->connection;
    const struct gateway_caller caller = client_caller(connection);
    memcpy(text, name.at, name.size);
    text[name.size] = '\0';
    if (gateway_may(connection->server->gateway, &caller, second, text, sentence)) return true;
    if (gateway_may(connection->server->gateway, &caller, first, text, sentence)) return true;
    channel_fail(channel, AMQP_ACCESS_REFUSED, connection->method.kind, "ACCESS_REFUSED - %.200s", sentence);
    return false;
}

static bool may_declare(struct channel *channel, struct amqp_bytes name) {
    return may(channel, name, TARRY__OP__OP_SCHEDULE, TARRY__OP__OP_ACK);
}

static bool may_delete(struct channel *channel, struct amqp_bytes name) {
    return may(channel, name, TARRY__OP__OP_QUEUE_PURGE, TARRY__OP__OP_QUEUE_PURGE);
}

static bool is_confined(const struct amqp_connection *connection) {
    struct gateway_who holder;
    const struct gateway_caller caller = client_caller(connection);
    gateway_who(connection->server->gateway, &caller, &holder);
    return holder.is_confined;
}

/* Returns whether one more exchange, queue or binding may be created. */
static bool has_room(struct channel *channel) {
    struct amqp_connection *connection = channel->connection;
    const struct amqp_topology *topology = &connection->server->store.topology;
    bool is_full = topology->queues.count >= AMQP_QUEUES_MAX || topology->exchanges.count >= AMQP_EXCHANGES_MAX ||
                   topology->bindings.count >= AMQP_BINDINGS_MAX;
    if (!is_full && is_confined(connection)) {
        struct amqp_created created = amqp_created_by(topology, connection->holder);
        is_full = created.queues >= QUEUES_OF_CONFINED_DEFAULT || created.exchanges >= QUEUES_OF_CONFINED_DEFAULT ||
                  created.bindings >= 16 * QUEUES_OF_CONFINED_DEFAULT;
    }
    if (is_full)
        channel_fail(channel, AMQP_RESOURCE_ERROR, connection->method.kind,
                     "RESOURCE_ERROR - the maximum number of queues, exchanges or bindings exists (docs/AMQP.md)");
    return !is_full;
}

static const char *name_problem(struct amqp_bytes name) {
    char text[AMQP_SHORTSTR_MAX + 1];
    memcpy(text, name.at, name.size);
    text[name.size] = '\0';
    if (memchr(text, '\0', name.size) != NULL) return "the name has a NUL";
    if (name_is_dots(text, name.size)) return "the name must not be . or ..";
    return check_queue_name(text);
}

static bool is_name(struct channel *channel, struct amqp_bytes name) {
    const char *problem = name_problem(name);
    if (problem != NULL)
        channel_fail(channel, AMQP_PRECONDITION, channel->connection->method.kind, "PRECONDITION_FAILED - '%.*s': %s",
                     QUOTED(name), problem);
    return problem == NULL;
}

/* ---- finding */

static struct amqp_queue *find_queue(struct channel *channel, struct amqp_bytes name, enum amqp_method_kind kind,
                                     bool is_needed) {
    if (name.size == 0) name = amqp_text(channel->last_queue);
    struct amqp_queue *queue = amqp_queue_find(&channel->connection->server->store.topology, name);
    if (queue == NULL && is_needed)
        channel_fail(channel, AMQP_NOT_FOUND, kind, "NOT_FOUND - no queue '%.*s' in vhost '/'", QUOTED(name));
    if (queue == NULL || !queue->exclusive || queue->owner == channel->connection->id) return queue;
    channel_fail(channel, AMQP_RESOURCE_LOCKED, kind,
                 "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '%.*s' in vhost '/'. It could be "
                 "originally declared on another connection",
                 QUOTED(name));
    return NULL;
}

struct amqp_queue *queue_of(struct channel *channel, struct amqp_bytes name, enum amqp_method_kind kind) {
    return find_queue(channel, name, kind, true);
}

struct amqp_queue *op_queue(struct amqp_connection *connection, int field) {
    struct channel *channel = op_channel(connection);
    if (channel == NULL) return NULL;
    return queue_of(channel, connection->method.fields[field].bytes, connection->method.kind);
}

static struct amqp_exchange *exchange_of(struct channel *channel, struct amqp_bytes name) {
    struct amqp_exchange *exchange = amqp_exchange_find(&channel->connection->server->store.topology, name);
    if (exchange == NULL)
        channel_fail(channel, AMQP_NOT_FOUND, channel->connection->method.kind,
                     "NOT_FOUND - no exchange '%.*s' in vhost '/'", QUOTED(name));
    return exchange;
}

/* ---- counting */

static void on_counted(void *argument, const Tarry__Reply *reply) {
    struct amqp_connection *connection = argument;
    uint64_t messages = 0;
    bool is_known = reply != NULL && reply->code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_STATS;
    for (size_t i = 0; is_known && i < reply->stats->n_queues; i++)
        messages += reply->stats->queues[i]->pending + reply->stats->queues[i]->ready;
    connection->asked = 0;
    connection->counts(connection, messages);
}

void queue_count(struct amqp_connection *connection, const char *name, counted *counts) {
    struct gateway *gateway = connection->server->gateway;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats stats = TARRY__STATS__INIT;
    stats.queue = (char *)name;
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    const struct gateway_caller caller = own_caller(gateway);
    connection->counts = counts;
    connection->asked = gateway_ask(gateway, &caller, &request, on_counted, connection);
    gateway_disown(gateway, caller.principal);
    if (connection->asked == 0) counts(connection, 0);
}

/* ---- queue.declare */

static void declared(struct channel *channel, struct amqp_queue *queue, uint64_t messages) {
    struct amqp_connection *connection = channel->connection;
    queue_used(connection->server, queue);
    memcpy(channel->last_queue, queue->name, sizeof(channel->last_queue));
    if (!flag(connection, AMQP_QUEUE_DECLARE_no_wait))
        amqp_put_method(&connection->out, channel->number, AMQP_QUEUE_DECLARE_OK, amqp_text(queue->name),
                        count_field(messages), queue->consumer_count);
}

static void existing_counted(struct amqp_connection *connection, uint64_t messages) {
    struct amqp_queue *queue = op_queue(connection, AMQP_QUEUE_DECLARE_queue);
    if (queue != NULL) declared(op_channel(connection), queue, messages);
    leave(connection);
}

static void differs(struct channel *channel, const char *what, struct amqp_bytes argument, const char *kind,
                    struct amqp_bytes name) {
    channel_fail(
        channel, AMQP_PRECONDITION, channel->connection->method.kind,
        "PRECONDITION_FAILED - inequivalent arg '%.*s' for %s '%.*s' in vhost '/': it was declared with another "
        "value",
        what != NULL ? (int)strlen(what) : (int)argument.size, what != NULL ? what : (const char *)argument.at, kind,
        QUOTED(name));
}

/* Returns whether the declaration agrees with the existing queue. If not, the channel has failed. */
static bool agrees(struct channel *channel, const struct amqp_queue *queue) {
    const struct amqp_connection *connection = channel->connection;
    struct amqp_bytes name = amqp_text(queue->name), argument;
    const char *what = NULL;
    if (flag(connection, AMQP_QUEUE_DECLARE_passive)) return true;
    if (queue->durable != flag(connection, AMQP_QUEUE_DECLARE_durable)) what = "durable";
    if (queue->exclusive != flag(connection, AMQP_QUEUE_DECLARE_exclusive)) what = "exclusive";
    if (queue->auto_delete != flag(connection, AMQP_QUEUE_DECLARE_auto_delete)) what = "auto_delete";
    bool is_same = amqp_arguments_same((struct amqp_bytes){queue->arguments, queue->arguments_size},
                                       connection->method.fields[AMQP_QUEUE_DECLARE_arguments].bytes, &argument);
    if (what == NULL && is_same) return true;
    differs(channel, what, argument, "queue", name);
    return false;
}

/* Returns whether the queue's dead-letter exchange and routing key are allowed. The mover publishes dead letters as the
 * broker itself, so a confined principal may only name targets within its prefixes. */
static bool may_dead_letter(struct channel *channel, const struct amqp_queue *queue) {
    struct amqp_bytes exchange = amqp_text(queue->dead_exchange);
    if (!queue->has_dead_exchange || !is_confined(channel->connection)) return true;
    if (exchange.size > 0) return may(channel, exchange, TARRY__OP__OP_SCHEDULE, TARRY__OP__OP_SCHEDULE);
    if (queue->has_dead_key)
        return may(channel, amqp_text(queue->dead_key), TARRY__OP__OP_SCHEDULE, TARRY__OP__OP_SCHEDULE);
    channel_fail(channel, AMQP_ACCESS_REFUSED, channel->connection->method.kind,
                 "ACCESS_REFUSED - x-dead-letter-routing-key is missing: this principal is confined to some queues");
    return false;
}

static void on_queue_stored(void *argument, const struct stored_result *result) {
    struct amqp_connection *connection = argument;
    struct amqp *server = connection->server;
    struct amqp_queue *queue = connection->made_queue;
    if (result->code == TARRY__CODE__OK && amqp_queue_add(&server->store.topology, queue)) {
        connection->made_queue = NULL;
        struct channel *channel = op_channel(connection);
        connection->has_exclusive |= queue->exclusive;
        if (queue->exclusive && connection->is_gone) declare_drop_exclusive(server, connection->id);
        if (channel != NULL) declared(channel, queue, 0);
    } else {
        refuse_stored(connection, result);
    }
    turn_over(connection);
}

/* Creates the queue that the method describes; NULL: the channel has failed. */
static struct amqp_queue *make_queue(struct channel *channel, struct amqp_bytes name) {
    struct amqp_connection *connection = channel->connection;
    const struct amqp_bytes arguments = connection->method.fields[AMQP_QUEUE_DECLARE_arguments].bytes;
    bool is_refused = false;
    struct amqp_queue *queue = arguments.size <= AMQP_ARGUMENTS_MAX ? amqp_queue_new(name, arguments) : NULL;
    if (queue == NULL) {
        channel_fail(channel, AMQP_RESOURCE_ERROR, AMQP_QUEUE_DECLARE,
                     "RESOURCE_ERROR - the arguments have more than %u bytes, or there is no memory",
                     AMQP_ARGUMENTS_MAX);
        return NULL;
    }
    if (amqp_exchange_waiting(&connection->server->store.topology, queue->name) != NULL) {
        channel_fail(channel, AMQP_PRECONDITION, AMQP_QUEUE_DECLARE,
                     "PRECONDITION_FAILED - messages of an exchange of the type x-delayed-message wait in '%.*s'",
                     QUOTED(name));
        amqp_queue_free(queue);
        return NULL;
    }
    queue->durable = flag(connection, AMQP_QUEUE_DECLARE_durable);
    queue->exclusive = flag(connection, AMQP_QUEUE_DECLARE_exclusive);
    queue->auto_delete = flag(connection, AMQP_QUEUE_DECLARE_auto_delete);
    queue->owner = queue->exclusive ? connection->id : 0;
    snprintf(queue->creator, sizeof(queue->creator), "%s", connection->holder);
    const char *problem = amqp_queue_arguments(queue, &is_refused);
    if (problem != NULL)
        channel_fail(channel, is_refused ? AMQP_NOT_IMPLEMENTED : AMQP_PRECONDITION, AMQP_QUEUE_DECLARE, "%s - %s",
                     is_refused ? "NOT_IMPLEMENTED" : "PRECONDITION_FAILED", problem);
    if (problem == NULL && may_dead_letter(channel, queue)) return queue;
    amqp_queue_free(queue);
    return NULL;
}

static void run_declare_queue(void *argument) {
    struct amqp_connection *connection = argument;
    struct store *store = &connection->server->store;
    struct amqp_bytes name = connection->method.fields[AMQP_QUEUE_DECLARE_queue].bytes;
    char made[AMQP_NAME_MAX + 1], key[AMQP_DEFINITION_KEY_SIZE];
    if (has_gone(connection)) return;
    struct channel *channel = op_channel(connection);
    struct amqp_queue *queue = name.size > 0 ? find_queue(channel, name, AMQP_QUEUE_DECLARE, false) : NULL;
    if (queue != NULL || channel->is_closing) {
        bool goes_on = !channel->is_closing && agrees(channel, queue);
        store_leave(store, &connection->job);
        if (goes_on)
            queue_count(connection, queue->name, existing_counted);
        else
            leave(connection);
        return;
    }
    if (name.size == 0) {
        uint8_t random[16];
        char hex[sizeof(random) * 2 + 1];
        randombytes_buf(random, sizeof(random));
        snprintf(made, sizeof(made), "amq.gen-%s", sodium_bin2hex(hex, sizeof(hex), random, sizeof(random)));
        name = amqp_text(made);
    } else if (amqp_begins(name, "amq.")) {
        channel_fail(channel, AMQP_ACCESS_REFUSED, AMQP_QUEUE_DECLARE,
                     "ACCESS_REFUSED - queue name '%.*s' contains reserved prefix 'amq.*'", QUOTED(name));
    }
    bool is_fine = !channel->is_closing && is_name(channel, name) && may_declare(channel, name) && has_room(channel);
    connection->made_queue = is_fine ? make_queue(channel, name) : NULL;
    if (connection->made_queue == NULL) {
        turn_over(connection);
        return;
    }
    struct amqp_out definition = {0};
    amqp_put_queue(&definition, connection->made_queue);
    amqp_key_of_queue(connection->made_queue->name, key);
    store_put(store, key, &definition);
    store_holding(store, connection->made_queue->name, connection->made_queue->has_dead_exchange);
    store_commit(store, on_queue_stored, connection);
}

/* Answers a declaration of amq.rabbitmq.reply-to, or of the address of a channel. False: it is another queue. */
static bool declared_reply(struct amqp_connection *connection) {
    const struct amqp_bytes name = connection->method.fields[AMQP_QUEUE_DECLARE_queue].bytes;
    struct channel *channel = op_channel(connection);
    bool is_queue = reply_is_queue(name);
    if (channel == NULL || (!is_queue && !reply_is_address(name))) return false;
    if (!is_queue && !reply_has_consumer(connection->server, name))
        channel_fail(channel, AMQP_NOT_FOUND, AMQP_QUEUE_DECLARE, "NOT_FOUND - no queue '%.*s' in vhost '/'",
                     QUOTED(name));
    else if (!flag(connection, AMQP_QUEUE_DECLARE_no_wait))
        amqp_put_method(&connection->out, channel->number, AMQP_QUEUE_DECLARE_OK, name, 0u, 1u);
    return true;
}

void op_declare_queue(struct amqp_connection *connection) {
    if (declared_reply(connection)) {
        leave(connection);
        return;
    }
    if (op_channel(connection) != NULL && flag(connection, AMQP_QUEUE_DECLARE_passive)) {
        const struct amqp_queue *queue = op_queue(connection, AMQP_QUEUE_DECLARE_queue);
        if (queue != NULL)
            queue_count(connection, queue->name, existing_counted);
        else
            leave(connection);
        return;
    }
    store_enter(&connection->server->store, &connection->job, run_declare_queue, connection);
}

/* ---- exchange.declare */

static bool agrees_exchange(struct channel *channel, const struct amqp_exchange *exchange, struct amqp_bytes type) {
    const struct amqp_connection *connection = channel->connection;
    struct amqp_bytes argument;
    const char *what = NULL;
    if (flag(connection, AMQP_EXCHANGE_DECLARE_passive)) return true;
    if (exchange->durable != flag(connection, AMQP_EXCHANGE_DECLARE_durable)) what = "durable";
    if (exchange->auto_delete != flag(connection, AMQP_EXCHANGE_DECLARE_auto_delete)) what = "auto_delete";
    if (exchange->internal != flag(connection, AMQP_EXCHANGE_DECLARE_internal)) what = "internal";
    if (!amqp_is(type, amqp_exchange_type_name(exchange->type))) what = "type";
    bool is_same = amqp_arguments_same((struct amqp_bytes){exchange->arguments, exchange->arguments_size},
                                       connection->method.fields[AMQP_EXCHANGE_DECLARE_arguments].bytes, &argument);
    if (what == NULL && is_same) return true;
    differs(channel, what, argument, "exchange", amqp_text(exchange->name));
    return false;
}

static void exchange_declared(struct channel *channel) {
    if (!flag(channel->connection, AMQP_EXCHANGE_DECLARE_no_wait))
        amqp_put_method(&channel->connection->out, channel->number, AMQP_EXCHANGE_DECLARE_OK);
}

static void on_exchange_stored(void *argument, const struct stored_result *result) {
    struct amqp_connection *connection = argument;
    struct channel *channel = op_channel(connection);
    if (result->code == TARRY__CODE__OK &&
        amqp_exchange_add(&connection->server->store.topology, connection->made_exchange)) {
        connection->made_exchange = NULL;
        if (channel != NULL) exchange_declared(channel);
    } else {
        refuse_stored(connection, result);
    }
    turn_over(connection);
}

static struct amqp_exchange *make_exchange(struct channel *channel, struct amqp_bytes name, struct amqp_bytes type) {
    struct amqp_connection *connection = channel->connection;
    const struct amqp_bytes arguments = connection->method.fields[AMQP_EXCHANGE_DECLARE_arguments].bytes;
    enum amqp_exchange_type kind = amqp_exchange_type_of(type);
    if (amqp_begins(name, "amq.")) {
        channel_fail(channel, AMQP_ACCESS_REFUSED, AMQP_EXCHANGE_DECLARE,
                     "ACCESS_REFUSED - exchange name '%.*s' contains reserved prefix 'amq.*'", QUOTED(name));
        return NULL;
    }
    if (kind == AMQP_EXCHANGE_TYPES) {
        client_fail(
            connection, AMQP_COMMAND_INVALID,
            "COMMAND_INVALID - unknown exchange type '%.*s': this broker has direct, fanout, topic, headers and "
            "x-delayed-message",
            QUOTED(type));
        return NULL;
    }
    bool is_fine = is_name(channel, name) && may_declare(channel, name) && has_room(channel);
    if (!is_fine) return NULL;
    struct amqp_exchange *exchange = arguments.size <= AMQP_ARGUMENTS_MAX ? amqp_exchange_new(name, arguments) : NULL;
    if (exchange == NULL) {
        channel_fail(channel, AMQP_RESOURCE_ERROR, AMQP_EXCHANGE_DECLARE,
                     "RESOURCE_ERROR - the arguments have more than %u bytes, or there is no memory",
                     AMQP_ARGUMENTS_MAX);
        return NULL;
    }
    exchange->type = kind;
    exchange->durable = flag(connection, AMQP_EXCHANGE_DECLARE_durable);
    exchange->auto_delete = flag(connection, AMQP_EXCHANGE_DECLARE_auto_delete);
    exchange->internal = flag(connection, AMQP_EXCHANGE_DECLARE_internal);
    snprintf(exchange->creator, sizeof(exchange->creator), "%s", connection->holder);
    const char *problem = amqp_exchange_arguments(exchange);
    if (problem == NULL && exchange->alternate[0] != '\0' && !may_declare(channel, amqp_text(exchange->alternate))) {
        amqp_exchange_free(exchange);
        return NULL;
    }
    char waiting[AMQP_NAME_MAX + 1];
    amqp_waiting_name(exchange->name, waiting);
    if (problem == NULL && kind == AMQP_DELAYED &&
        amqp_queue_find(&connection->server->store.topology, amqp_text(waiting)) != NULL)
        problem =
            "there is a queue with the exchange's name and the suffix .x-delayed, in which its messages would wait";
    if (problem == NULL) return exchange;
    channel_fail(channel, AMQP_PRECONDITION, AMQP_EXCHANGE_DECLARE, "PRECONDITION_FAILED - %s", problem);
    amqp_exchange_free(exchange);
    return NULL;
}

static void run_declare_exchange(void *argument) {
    struct amqp_connection *connection = argument;
    struct store *store = &connection->server->store;
    char key[AMQP_DEFINITION_KEY_SIZE];
    struct amqp_bytes name = connection->method.fields[AMQP_EXCHANGE_DECLARE_exchange].bytes;
    struct amqp_bytes type = connection->method.fields[AMQP_EXCHANGE_DECLARE_type].bytes;
    if (has_gone(connection)) return;
    struct channel *channel = op_channel(connection);
    const struct amqp_exchange *exchange = amqp_exchange_find(&store->topology, name);
    bool is_passive = flag(connection, AMQP_EXCHANGE_DECLARE_passive);
    if (name.size == 0) { /* the empty name means the default exchange */
        if (is_passive)
            exchange_declared(channel);
        else
            channel_fail(channel, AMQP_ACCESS_REFUSED, AMQP_EXCHANGE_DECLARE,
                         "ACCESS_REFUSED - operation not permitted on the default exchange");
    } else if (exchange != NULL) {
        if (agrees_exchange(channel, exchange, type)) exchange_declared(channel);
    } else if (is_passive) {
        (void)exchange_of(channel, name);
    } else {
        connection->made_exchange = make_exchange(channel, name, type);
    }
    if (connection->made_exchange == NULL) {
        turn_over(connection);
        return;
    }
    struct amqp_out definition = {0};
    amqp_put_exchange(&definition, connection->made_exchange);
    amqp_key_of_exchange(connection->made_exchange->name, key);
    store_put(store, key, &definition);
    if (connection->made_exchange->type == AMQP_DELAYED) {
        char waiting[AMQP_NAME_MAX + 1];
        amqp_waiting_name(connection->made_exchange->name, waiting);
        store_holding(store, waiting, true);
    }
    store_commit(store, on_exchange_stored, connection);
}

void op_declare_exchange(struct amqp_connection *connection) {
    store_enter(&connection->server->store, &connection->job, run_declare_exchange, connection);
}

/* ---- bind and unbind */

/* Fields of queue.bind, exchange.bind, queue.unbind and exchange.unbind, whose order differs from method to method. */
struct bind_method {
    bool is_exchange;
    struct amqp_bytes destination, source, key, arguments;
    bool no_wait;
    enum amqp_method_kind answer;
};

static struct bind_method bind_of(const struct amqp_method *method) {
    bool is_exchange = method->kind == AMQP_EXCHANGE_BIND || method->kind == AMQP_EXCHANGE_UNBIND;
    struct bind_method bind = {.is_exchange = is_exchange};
    bind.destination = method->fields[AMQP_QUEUE_BIND_queue].bytes;
    bind.source = method->fields[AMQP_QUEUE_BIND_exchange].bytes;
    bind.key = method->fields[AMQP_QUEUE_BIND_routing_key].bytes;
    if (method->kind == AMQP_QUEUE_UNBIND) {
        bind.arguments = method->fields[AMQP_QUEUE_UNBIND_arguments].bytes;
        bind.answer = AMQP_QUEUE_UNBIND_OK;
        return bind;
    }
    bind.no_wait = method->fields[AMQP_QUEUE_BIND_no_wait].number != 0;
    bind.arguments = method->fields[AMQP_QUEUE_BIND_arguments].bytes;
    bind.answer = method->kind == AMQP_QUEUE_BIND      ? AMQP_QUEUE_BIND_OK
                  : method->kind == AMQP_EXCHANGE_BIND ? AMQP_EXCHANGE_BIND_OK
                                                       : AMQP_EXCHANGE_UNBIND_OK;
    return bind;
}
_Static_assert((int)AMQP_QUEUE_BIND_queue == (int)AMQP_EXCHANGE_BIND_destination &&
                   (int)AMQP_QUEUE_BIND_exchange == (int)AMQP_EXCHANGE_BIND_source &&
                   (int)AMQP_QUEUE_BIND_routing_key == (int)AMQP_EXCHANGE_UNBIND_routing_key &&
                   (int)AMQP_QUEUE_BIND_no_wait == (int)AMQP_EXCHANGE_UNBIND_no_wait &&
                   (int)AMQP_QUEUE_BIND_arguments == (int)AMQP_EXCHANGE_UNBIND_arguments,
               "the methods have the same places");

static void bound(struct amqp_connection *connection) {
    const struct channel *channel = op_channel(connection);
    const struct bind_method bind = bind_of(&connection->method);
    if (channel != NULL && !bind.no_wait) amqp_put_method(&connection->out, channel->number, bind.answer);
}

static void on_bound(void *argument, const struct stored_result *result) {
    struct amqp_connection *connection = argument;
    if (result->code == TARRY__CODE__OK &&
        amqp_binding_add(&connection->server->store.topology, connection->made_binding)) {
        connection->made_binding = NULL;
        bound(connection);
    } else {
        refuse_stored(connection, result);
    }
    turn_over(connection);
}

/* Creates the binding that the method names; NULL: the channel has failed. */
static struct amqp_binding *make_binding(struct channel *channel, const struct bind_method *bind) {
    struct amqp_queue *queue = NULL;
    struct amqp_exchange *exchange = NULL, *source = NULL;
    if (bind->source.size == 0 || (bind->is_exchange && bind->destination.size == 0)) {
        channel_fail(channel, AMQP_ACCESS_REFUSED, channel->connection->method.kind,
                     "ACCESS_REFUSED - operation not permitted on the default exchange");
        return NULL;
    }
    if (bind->is_exchange)
        exchange = exchange_of(channel, bind->destination);
    else
        queue = queue_of(channel, bind->destination, channel->connection->method.kind);
    if (exchange != NULL || queue != NULL) source = exchange_of(channel, bind->source);
    if (source == NULL) return NULL;
    if (bind->arguments.size > AMQP_ARGUMENTS_MAX) {
        channel_fail(channel, AMQP_RESOURCE_ERROR, channel->connection->method.kind,
                     "RESOURCE_ERROR - the arguments have more than %u bytes", AMQP_ARGUMENTS_MAX);
        return NULL;
    }
    bool is_allowed = may_declare(channel, amqp_text(source->name)) &&
                      may_declare(channel, amqp_text(queue != NULL ? queue->name : exchange->name));
    if (!is_allowed) return NULL;
    struct amqp_binding *binding = amqp_binding_new(source, exchange, queue, bind->key, bind->arguments);
    if (binding != NULL)
        snprintf(binding->creator, sizeof(binding->creator), "%s", channel->connection->holder);
    else
        channel_fail(channel, AMQP_RESOURCE_ERROR, channel->connection->method.kind, "RESOURCE_ERROR - out of memory");
    return binding;
}

static void run_bind(void *argument) {
    struct amqp_connection *connection = argument;
    struct store *store = &connection->server->store;
    char key[AMQP_DEFINITION_KEY_SIZE];
    if (has_gone(connection)) return;
    struct channel *channel = op_channel(connection);
    const struct bind_method bind = bind_of(&connection->method);
    struct amqp_binding *binding = make_binding(channel, &bind);
    connection->made_binding = binding;
    bool is_there = binding != NULL && amqp_binding_find(&store->topology, binding) != NULL;
    if (is_there) bound(connection);
    if (binding == NULL || is_there || !has_room(channel)) {
        turn_over(connection);
        return;
    }
    struct amqp_out definition = {0};
    amqp_put_binding(&definition, binding);
    amqp_key_of_binding(binding, key);
    store_put(store, key, &definition);
    store_commit(store, on_bound, connection);
}

void op_bind(struct amqp_connection *connection) {
    store_enter(&connection->server->store, &connection->job, run_bind, connection);
}

void remove_doomed(struct amqp *server, const struct stored_result *result) {
    struct amqp_topology *topology = &server->store.topology;
    for (size_t i = 0; i < result->deleted; i++) {
        struct amqp_node *node = topology->doomed[i];
        const struct amqp_queue *waiting = node->kind == 'e' ? ((const struct amqp_exchange *)node)->waiting : NULL;
        if (node->kind == 'q') {
            consumers_lose_queue((struct amqp_queue *)node);
            queue_forget(server, ((const struct amqp_queue *)node)->name);
        } else if (waiting != NULL) {
            queue_forget(server, waiting->name);
        }
    }
    amqp_doomed_end(topology, result->deleted);
}

/* Commits the deletion of the doomed objects (amqp_topology.h), and of the messages of the queue `purged` (NULL: none).
 * If `is_doomed` is false, memory was too small to mark all objects, so the method is refused. */
static void delete_doomed(struct amqp_connection *connection, bool is_doomed, const char *purged, stored *done) {
    struct store *store = &connection->server->store;
    if (!is_doomed) {
        const struct stored_result no_memory = {.code = TARRY__CODE__BUSY, .sentence = "out of memory"};
        amqp_doomed_end(&store->topology, 0);
        refuse_stored(connection, &no_memory);
        turn_over(connection);
        return;
    }
    store_delete_doomed(store);
    if (purged != NULL) store_purge(store, purged);
    store_commit(store, done, connection);
}

static void on_unbound(void *argument, const struct stored_result *result) {
    struct amqp_connection *connection = argument;
    remove_doomed(connection->server, result);
    if (result->code == TARRY__CODE__OK)
        bound(connection);
    else
        refuse_stored(connection, result);
    turn_over(connection);
}

static void run_unbind(void *argument) {
    struct amqp_connection *connection = argument;
    struct store *store = &connection->server->store;
    if (has_gone(connection)) return;
    struct channel *channel = op_channel(connection);
    const struct bind_method bind = bind_of(&connection->method);
    struct amqp_binding *like = make_binding(channel, &bind);
    struct amqp_binding *binding = like != NULL ? amqp_binding_find(&store->topology, like) : NULL;
    bool is_none = like != NULL && binding == NULL;
    free(like);
    if (is_none) bound(connection); /* like RabbitMQ, reports a missing binding as deleted */
    if (binding == NULL)
        turn_over(connection);
    else
        delete_doomed(connection, amqp_doom_binding(&store->topology, binding), NULL, on_unbound);
}

void op_unbind(struct amqp_connection *connection) {
    store_enter(&connection->server->store, &connection->job, run_unbind, connection);
}

/* ---- exchange.delete */

static void exchange_deleted(struct amqp_connection *connection) {
    const struct channel *channel = op_channel(connection);
    if (channel != NULL && !flag(connection, AMQP_EXCHANGE_DELETE_no_wait))
        amqp_put_method(&connection->out, channel->number, AMQP_EXCHANGE_DELETE_OK);
}

static void on_exchange_deleted(void *argument, const struct stored_result *result) {
    struct amqp_connection *connection = argument;
    remove_doomed(connection->server, result);
    if (result->code == TARRY__CODE__OK)
        exchange_deleted(connection);
    else
        refuse_stored(connection, result);
    turn_over(connection);
}

static void run_delete_exchange(void *argument) {
    struct amqp_connection *connection = argument;
    struct store *store = &connection->server->store;
    struct amqp_bytes name = connection->method.fields[AMQP_EXCHANGE_DELETE_exchange].bytes;
    if (has_gone(connection)) return;
    struct channel *channel = op_channel(connection);
    struct amqp_exchange *exchange = amqp_exchange_find(&store->topology, name);
    if (name.size == 0 || amqp_begins(name, "amq.")) {
        channel_fail(channel, AMQP_ACCESS_REFUSED, AMQP_EXCHANGE_DELETE,
                     "ACCESS_REFUSED - operation not permitted on the exchange '%.*s', which is predeclared",
                     QUOTED(name));
        exchange = NULL;
    } else if (exchange == NULL) {
        exchange_deleted(connection);
    } else if (flag(connection, AMQP_EXCHANGE_DELETE_if_unused) && !TAILQ_EMPTY(&exchange->from)) {
        channel_fail(channel, AMQP_PRECONDITION, AMQP_EXCHANGE_DELETE,
                     "PRECONDITION_FAILED - exchange '%.*s' in vhost '/' in use", QUOTED(name));
        exchange = NULL;
    } else if (!may_delete(channel, name)) {
        exchange = NULL;
    }
    if (exchange == NULL)
        turn_over(connection);
    else
        delete_doomed(connection, amqp_doom_exchange(&store->topology, exchange),
                      exchange->waiting != NULL ? exchange->waiting->name : NULL, on_exchange_deleted);
}

void op_delete_exchange(struct amqp_connection *connection) {
    store_enter(&connection->server->store, &connection->job, run_delete_exchange, connection);
}

/* ---- queue.purge and queue.delete */

static void purged(struct amqp_connection *connection, uint64_t messages) {
    const struct channel *channel = op_channel(connection);
    bool is_delete = connection->method.kind == AMQP_QUEUE_DELETE;
    bool no_wait = flag(connection, is_delete ? (int)AMQP_QUEUE_DELETE_no_wait : (int)AMQP_QUEUE_PURGE_no_wait);
    if (channel == NULL || no_wait) return;
    amqp_put_method(&connection->out, channel->number, is_delete ? AMQP_QUEUE_DELETE_OK : AMQP_QUEUE_PURGE_OK,
                    count_field(messages));
}

static void on_purged(void *argument, const struct stored_result *result) {
    struct amqp_connection *connection = argument;
    if (result->code == TARRY__CODE__OK)
        purged(connection, result->purged);
    else
        refuse_stored(connection, result);
    turn_over(connection);
}

static void run_purge(void *argument) {
    struct amqp_connection *connection = argument;
    struct store *store = &connection->server->store;
    if (has_gone(connection)) return;
    const struct amqp_queue *queue = op_queue(connection, AMQP_QUEUE_PURGE_queue);
    if (queue == NULL || !may_delete(op_channel(connection), amqp_text(queue->name))) {
        turn_over(connection);
        return;
    }
    store_purge(store, queue->name);
    store_commit(store, on_purged, connection);
}

void op_purge_queue(struct amqp_connection *connection) {
    store_enter(&connection->server->store, &connection->job, run_purge, connection);
}

static void on_queue_deleted(void *argument, const struct stored_result *result) {
    struct amqp_connection *connection = argument;
    remove_doomed(connection->server, result);
    if (result->code == TARRY__CODE__OK)
        purged(connection, result->purged);
    else
        refuse_stored(connection, result);
    turn_over(connection);
}

static void run_delete_queue(void *argument) {
    struct amqp_connection *connection = argument;
    struct store *store = &connection->server->store;
    if (has_gone(connection)) return;
    struct channel *channel = op_channel(connection);
    struct amqp_bytes name = connection->method.fields[AMQP_QUEUE_DELETE_queue].bytes;
    struct amqp_queue *queue = find_queue(channel, name, AMQP_QUEUE_DELETE, false);
    if (queue == NULL) {
        purged(connection, 0); /* like RabbitMQ, reports that 0 messages are deleted */
    } else if (flag(connection, AMQP_QUEUE_DELETE_if_unused) && queue->consumer_count > 0) {
        channel_fail(channel, AMQP_PRECONDITION, AMQP_QUEUE_DELETE,
                     "PRECONDITION_FAILED - queue '%.*s' in vhost '/' in use", QUOTED(name));
        queue = NULL;
    } else if (flag(connection, AMQP_QUEUE_DELETE_if_empty) && connection->counted > 0) {
        channel_fail(channel, AMQP_PRECONDITION, AMQP_QUEUE_DELETE,
                     "PRECONDITION_FAILED - queue '%.*s' in vhost '/' is not empty", QUOTED(name));
        queue = NULL;
    } else if (!queue->exclusive && !may_delete(channel, amqp_text(queue->name))) {
        queue = NULL;
    }
    if (queue == NULL)
        turn_over(connection);
    else
        delete_doomed(connection, amqp_doom_queue(&store->topology, queue), queue->name, on_queue_deleted);
}

static void delete_counted(struct amqp_connection *connection, uint64_t messages) {
    connection->counted = messages;
    store_enter(&connection->server->store, &connection->job, run_delete_queue, connection);
}

void op_delete_queue(struct amqp_connection *connection) {
    struct channel *channel = op_channel(connection);
    const struct amqp_queue *queue =
        channel != NULL
            ? find_queue(channel, connection->method.fields[AMQP_QUEUE_DELETE_queue].bytes, AMQP_QUEUE_DELETE, false)
            : NULL;
    if (queue != NULL)
        queue_count(connection, queue->name, delete_counted);
    else
        delete_counted(connection, 0);
}

void declare_forget(struct amqp_connection *connection) {
    amqp_queue_free(connection->made_queue);
    amqp_exchange_free(connection->made_exchange);
    free(connection->made_binding);
    connection->made_queue = NULL;
    connection->made_exchange = NULL;
    connection->made_binding = NULL;
}
