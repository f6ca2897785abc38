/* amqp_channel.c: channels, and the methods on them. A method that makes a request to the broker waits until the
 * earlier publishes and acks are durable. So it has the same effect as if each method were executed before the next one
 * is read. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amqp_parts.h"
#include "door_stream.h"

static struct channel *channel_find(const struct amqp_connection *connection, uint16_t number) {
    struct channel *channel;
    TAILQ_FOREACH(channel, &connection->channels, next)
    if (channel->number == number) return channel;
    return NULL;
}

/* Ends the channel's work. Releases deliveries before it ends the consumers, because the end of each consumer searches
 * the list of unreleased deliveries. */
static void channel_leave(struct channel *channel) {
    struct consumer *consumer;
    unacked_restore(channel);
    unacked_release(channel);
    while ((consumer = TAILQ_FIRST(&channel->consumers)) != NULL) consumer_end(consumer, false);
    transaction_drop(channel);
    arriving_end(channel);
    reply_end(channel);
}

static void channel_free(struct channel *channel) {
    TAILQ_REMOVE(&channel->connection->channels, channel, next);
    channel->connection->channel_count--;
    channel->connection->server->counts.channels--;
    (void)client_hold(channel->connection, -(int64_t)sizeof(*channel));
    free(channel->tags);
    free(channel);
}

void channels_leave(struct amqp_connection *connection) {
    struct channel *channel;
    TAILQ_FOREACH(channel, &connection->channels, next) {
        // cppcheck-suppress uninitvar ; TAILQ_FOREACH sets it
        if (channel->is_closing) continue;
        channel->is_closing = true;
        channel_leave(channel);
    }
}

void channels_end(struct amqp_connection *connection) {
    struct channel *channel;
    while ((channel = TAILQ_FIRST(&connection->channels)) != NULL) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): channel_free has removed those that it freed
        channel_leave(channel);
        channel_free(channel);
    }
}

void channel_fail(struct channel *channel, unsigned code, enum amqp_method_kind kind, const char *format, ...) {
    struct amqp_connection *connection = channel->connection;
    uint16_t class_id, method_id;
    char text[AMQP_SHORTSTR_MAX + 1];
    va_list arguments;
    if (channel->is_closing) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    amqp_method_ids(kind, &class_id, &method_id);
    channel->is_closing = true;
    channel_leave(channel);
    amqp_put_method(&connection->out, channel->number, AMQP_CHANNEL_CLOSE, code, amqp_text(text), (unsigned)class_id,
                    (unsigned)method_id);
    outbox_flush(&connection->settles);
}

/* ---- methods that wait for those before them */

void op_begin(struct amqp_connection *connection, uint16_t channel, struct amqp_bytes payload,
              void (*op)(struct amqp_connection *connection)) {
    connection->held = malloc(payload.size);
    if (connection->held == NULL) {
        client_fail(connection, AMQP_RESOURCE_ERROR, "RESOURCE_ERROR - out of memory");
        return;
    }
    memcpy(connection->held, payload.at, payload.size);
    (void)amqp_method_read((struct amqp_bytes){connection->held, payload.size}, &connection->method);
    connection->method_channel = channel;
    connection->is_busy = true;
    connection->op = op;
    outbox_flush(&connection->published);
    outbox_flush(&connection->settles);
    op_try(connection);
}

struct channel *op_channel(struct amqp_connection *connection) {
    if (connection->is_gone) return NULL;
    struct channel *channel = channel_find(connection, connection->method_channel);
    return channel != NULL && !channel->is_closing ? channel : NULL;
}

static void op_close_channel(struct amqp_connection *connection) {
    struct channel *channel = channel_find(connection, connection->method_channel);
    if (channel != NULL) {
        channel_leave(channel);
        channel_free(channel);
        outbox_flush(&connection->settles);
        amqp_put_method(&connection->out, connection->method_channel, AMQP_CHANNEL_CLOSE_OK);
    }
    op_end(connection);
}

/* ---- methods that are carried out at once */

static void open_channel(struct amqp_connection *connection, uint16_t number) {
    struct channel *channel = client_hold(connection, sizeof(*channel)) ? calloc(1, sizeof(*channel)) : NULL;
    if (channel == NULL) {
        client_fail(connection, AMQP_RESOURCE_ERROR, "RESOURCE_ERROR - out of memory");
        return;
    }
    channel->connection = connection;
    channel->number = number;
    channel->serial = ++connection->channel_serial;
    channel->next_tag = channel->next_confirm = 1;
    TAILQ_INIT(&channel->consumers);
    TAILQ_INIT(&channel->unacked);
    TAILQ_INIT(&channel->tx_unacked);
    TAILQ_INIT(&channel->tx_items);
    TAILQ_INSERT_HEAD(&connection->channels, channel, next);
    connection->channel_count++;
    connection->server->counts.channels++;
    amqp_put_method(&connection->out, number, AMQP_CHANNEL_OPEN_OK, amqp_text(""));
}

static void set_flow(struct channel *channel, const struct amqp_method *method) {
    struct amqp_connection *connection = channel->connection;
    if (method->fields[AMQP_CHANNEL_FLOW_active].number == 0)
        client_fail(connection, AMQP_NOT_IMPLEMENTED, "NOT_IMPLEMENTED - active=false: use basic.qos");
    else
        amqp_put_method(&connection->out, channel->number, AMQP_CHANNEL_FLOW_OK, 1u);
}

static void set_qos(struct channel *channel, const struct amqp_method *method) {
    uint32_t count = (uint32_t)method->fields[AMQP_BASIC_QOS_prefetch_count].number;
    if (method->fields[AMQP_BASIC_QOS_prefetch_size].number != 0) {
        client_fail(channel->connection, AMQP_NOT_IMPLEMENTED, "NOT_IMPLEMENTED - prefetch_size != 0 (%u)",
                    (unsigned)method->fields[AMQP_BASIC_QOS_prefetch_size].number);
        return;
    }
    if (method->fields[AMQP_BASIC_QOS_global].number != 0)
        channel->prefetch_all = count;
    else
        channel->prefetch = count;
    amqp_put_method(&channel->connection->out, channel->number, AMQP_BASIC_QOS_OK);
    consumers_fetch(channel->connection);
}

static void select_confirms(struct channel *channel, const struct amqp_method *method) {
    if (channel->in_tx) {
        channel_fail(channel, AMQP_PRECONDITION, method->kind,
                     "PRECONDITION_FAILED - cannot switch from tx to confirm mode");
        return;
    }
    channel->confirms = true;
    if (method->fields[AMQP_CONFIRM_SELECT_nowait].number == 0)
        amqp_put_method(&channel->connection->out, channel->number, AMQP_CONFIRM_SELECT_OK);
}

static void select_tx(struct channel *channel) {
    if (channel->confirms) {
        channel_fail(channel, AMQP_PRECONDITION, AMQP_TX_SELECT,
                     "PRECONDITION_FAILED - cannot switch from confirm to tx mode");
        return;
    }
    channel->in_tx = true;
    amqp_put_method(&channel->connection->out, channel->number, AMQP_TX_SELECT_OK);
}

static void roll_back(struct channel *channel) {
    transaction_drop(channel);
    unacked_restore(channel);
    amqp_put_method(&channel->connection->out, channel->number, AMQP_TX_ROLLBACK_OK);
}

typedef void op(struct amqp_connection *connection);

/* Returns the function of a method that must wait for earlier publishes and acks; NULL: the method need not wait. */
static op *waiting_op(enum amqp_method_kind kind) {
    switch (kind) {
    case AMQP_CHANNEL_CLOSE:
        return op_close_channel;
    case AMQP_EXCHANGE_DECLARE:
        return op_declare_exchange;
    case AMQP_EXCHANGE_DELETE:
        return op_delete_exchange;
    case AMQP_EXCHANGE_BIND:
    case AMQP_QUEUE_BIND:
        return op_bind;
    case AMQP_EXCHANGE_UNBIND:
    case AMQP_QUEUE_UNBIND:
        return op_unbind;
    case AMQP_QUEUE_DECLARE:
        return op_declare_queue;
    case AMQP_QUEUE_PURGE:
        return op_purge_queue;
    case AMQP_QUEUE_DELETE:
        return op_delete_queue;
    case AMQP_BASIC_GET:
        return op_get;
    case AMQP_TX_COMMIT:
        return op_commit;
    default:
        return NULL;
    }
}

static void carry_out(struct channel *channel, const struct amqp_method *method, struct amqp_bytes payload) {
    struct amqp_connection *connection = channel->connection;
    op *waits = waiting_op(method->kind);
    bool needs_tx = method->kind == AMQP_TX_COMMIT || method->kind == AMQP_TX_ROLLBACK;
    if (needs_tx && !channel->in_tx) {
        channel_fail(channel, AMQP_PRECONDITION, method->kind, "PRECONDITION_FAILED - channel is not transactional");
        return;
    }
    if (waits != NULL) {
        op_begin(connection, channel->number, payload, waits);
        return;
    }
    switch (method->kind) {
    case AMQP_CHANNEL_FLOW:
        set_flow(channel, method);
        break;
    case AMQP_BASIC_QOS:
        set_qos(channel, method);
        break;
    case AMQP_BASIC_CONSUME:
        channel_consume(channel, method);
        break;
    case AMQP_BASIC_CANCEL:
        channel_cancel(channel, method);
        break;
    case AMQP_BASIC_PUBLISH:
        publish_begin(channel, method);
        break;
    case AMQP_BASIC_ACK:
        channel_ack(channel, method);
        break;
    case AMQP_BASIC_NACK:
    case AMQP_BASIC_REJECT:
        channel_reject(channel, method);
        break;
    case AMQP_BASIC_RECOVER:
    case AMQP_BASIC_RECOVER_ASYNC:
        channel_recover(channel, method);
        break;
    case AMQP_CONFIRM_SELECT:
        select_confirms(channel, method);
        break;
    case AMQP_TX_SELECT:
        select_tx(channel);
        break;
    case AMQP_TX_ROLLBACK:
        roll_back(channel);
        break;
    case AMQP_CHANNEL_FLOW_OK:
    case AMQP_BASIC_CANCEL_OK:
        break;
    default:
        client_fail(connection, AMQP_NOT_IMPLEMENTED, "NOT_IMPLEMENTED - this broker does not have %s (docs/AMQP.md)",
                    amqp_method_name(method->kind));
    }
}

void channel_method(struct amqp_connection *connection, uint16_t number, const struct amqp_method *method,
                    struct amqp_bytes payload) {
    struct channel *channel = channel_find(connection, number);
    connection->method.class_id = method->class_id;
    connection->method.method_id = method->method_id;
    if (number > connection->channel_max) {
        client_fail(connection, AMQP_CHANNEL_ERROR, "CHANNEL_ERROR - channel %u is above channel-max, %u", number,
                    connection->channel_max);
    } else if (channel == NULL && method->kind == AMQP_CHANNEL_OPEN) {
        open_channel(connection, number);
    } else if (channel == NULL || method->kind == AMQP_CHANNEL_OPEN) {
        client_fail(connection, AMQP_CHANNEL_ERROR, "CHANNEL_ERROR - %s",
                    channel == NULL ? "expected 'channel.open'" : "second 'channel.open' seen");
    } else if (channel->is_closing) {
        bool is_close = method->kind == AMQP_CHANNEL_CLOSE;
        if (is_close) amqp_put_method(&connection->out, number, AMQP_CHANNEL_CLOSE_OK);
        if (is_close || method->kind == AMQP_CHANNEL_CLOSE_OK) channel_free(channel);
    } else if (channel->arriving.is_open) {
        client_fail(connection, AMQP_UNEXPECTED_FRAME,
                    "UNEXPECTED_FRAME - expected content of basic.publish, got method %s",
                    amqp_method_name(method->kind));
    } else {
        carry_out(channel, method, payload);
    }
}

void channel_content(struct amqp_connection *connection, const struct amqp_frame *frame) {
    struct channel *channel = channel_find(connection, frame->channel);
    if (channel != NULL && channel->is_closing) return;
    if (channel == NULL || !channel->arriving.is_open)
        client_fail(connection, AMQP_UNEXPECTED_FRAME, "UNEXPECTED_FRAME - content on channel %u without basic.publish",
                    frame->channel);
    else
        publish_content(channel, frame);
}

void channel_count_half(struct amqp_connection *connection, size_t before, size_t after) {
    connection->half_size = connection->half_size - before + after;
    (void)door_stream_half(connection->server->door, connection->id, connection->half_size, true);
}
