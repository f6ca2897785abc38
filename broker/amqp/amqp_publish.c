/* amqp_publish.c: messages from clients: they arrive in frames, are routed, and are committed. The confirm of a message
 * is sent once its commit is durable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amqp_parts.h"
#include "check.h"
#include "door.h"
#include "door_stream.h"

#define HEADER_KEY "x-tarry-key"

/* ---- arriving */

void publish_begin(struct channel *channel, const struct amqp_method *method) {
    struct arriving *arriving = &channel->arriving;
    const struct amqp_bytes exchange = method->fields[AMQP_BASIC_PUBLISH_exchange].bytes;
    const struct amqp_bytes key = method->fields[AMQP_BASIC_PUBLISH_routing_key].bytes;
    struct amqp_topology *topology = &channel->connection->server->store.topology;
    const struct amqp_exchange *found = exchange.size > 0 ? amqp_exchange_find(topology, exchange) : NULL;
    if (method->fields[AMQP_BASIC_PUBLISH_immediate].number != 0) {
        client_fail(channel->connection, AMQP_NOT_IMPLEMENTED, "NOT_IMPLEMENTED - immediate=true");
    } else if (exchange.size > 0 && found == NULL) {
        channel_fail(channel, AMQP_NOT_FOUND, method->kind, "NOT_FOUND - no exchange '%.*s' in vhost '/'",
                     (int)exchange.size, (const char *)exchange.at);
    } else if (found != NULL && found->internal) {
        channel_fail(channel, AMQP_ACCESS_REFUSED, method->kind,
                     "ACCESS_REFUSED - cannot publish to internal exchange '%s' in vhost '/'", found->name);
    } else {
        *arriving = (struct arriving){.is_open = true, .names = malloc(exchange.size + key.size + 1)};
        if (arriving->names == NULL) {
            client_fail(channel->connection, AMQP_RESOURCE_ERROR, "RESOURCE_ERROR - out of memory");
            return;
        }
        arriving->mandatory = method->fields[AMQP_BASIC_PUBLISH_mandatory].number != 0;
        memcpy(arriving->names, exchange.at, exchange.size);
        memcpy(arriving->names + exchange.size, key.at, key.size);
        arriving->exchange = (struct amqp_bytes){arriving->names, exchange.size};
        arriving->key = (struct amqp_bytes){arriving->names + exchange.size, key.size};
    }
}

void arriving_end(struct channel *channel) {
    struct arriving *arriving = &channel->arriving;
    if (!arriving->is_open) return;
    channel_count_half(channel->connection, arriving->properties_size + arriving->body_capacity, 0);
    free(arriving->names);
    free(arriving->properties);
    free(arriving->body);
    *arriving = (struct arriving){0};
}

/* ---- routing */

void item_place(struct item *item, const struct amqp_targets *targets, const struct amqp_properties *properties) {
    uint64_t expiration_ms = UINT64_MAX;
    uint64_t priority = amqp_has(properties, AMQP_PRIORITY) ? properties->numbers[AMQP_PRIORITY] : 0;
    int64_t delay_ms;
    (void)amqp_delay_read(properties->bytes[AMQP_HEADERS], &delay_ms);
    if (amqp_has(properties, AMQP_EXPIRATION))
        (void)amqp_duration_read(properties->bytes[AMQP_EXPIRATION], &expiration_ms);
    for (size_t i = 0; i < item->target_count; i++) {
        const struct amqp_queue *queue = targets->queues[i];
        struct target *target = &item->targets[i];
        if (queue->is_waiting) { /* the message's time to live begins later, when it is routed */
            target->delay_ms = delay_ms > 0 ? (uint64_t)delay_ms : 0;
            continue;
        }
        uint64_t ttl_ms = queue->has_ttl && queue->ttl_ms < expiration_ms ? queue->ttl_ms : expiration_ms;
        if (queue->has_dead_exchange) /* the task's due time is the time at which the message dies. Consumers may lease
                                         the task earlier, because the queue has lease_before_due */
            target->delay_ms = ttl_ms < DUE_AHEAD_MAX_MS ? ttl_ms : DUE_AHEAD_MAX_MS;
        else if (ttl_ms != UINT64_MAX)
            target->expires_ms = ttl_ms > 0 ? ttl_ms : 1;
        uint64_t level = priority < queue->priority_max ? priority : queue->priority_max;
        target->priority = (uint32_t)(queue->priority_max < PRIORITY_COUNT ? level : level * 9 / queue->priority_max);
    }
}

uint8_t *content_pack(struct amqp_out *envelope, struct amqp_bytes body, size_t *out_size) {
    Tarry__Content content = TARRY__CONTENT__INIT;
    content.properties = (ProtobufCBinaryData){.data = envelope->bytes, .len = envelope->size};
    content.payload = (ProtobufCBinaryData){.data = (uint8_t *)body.at, .len = body.size};
    *out_size = tarry__content__get_packed_size(&content);
    uint8_t *packed = envelope->failed ? NULL : malloc(*out_size);
    if (packed != NULL) tarry__content__pack(&content, packed);
    amqp_out_free(envelope);
    return packed;
}

static void return_message(struct channel *channel) {
    struct amqp_connection *connection = channel->connection;
    const struct arriving *arriving = &channel->arriving;
    amqp_put_method(&connection->out, channel->number, AMQP_BASIC_RETURN, (unsigned)AMQP_NO_ROUTE,
                    amqp_text("NO_ROUTE"), arriving->exchange, arriving->key);
    amqp_put_content(&connection->out, channel->number, connection->frame_max,
                     (struct amqp_bytes){arriving->properties, arriving->properties_size},
                     (struct amqp_bytes){arriving->body, arriving->body_size});
}

/* Returns the problem of the properties; NULL: no problem. Sets `*out_key` to the task's key. */
static const char *properties_problem(const struct channel *channel, const struct amqp_properties *properties,
                                      struct amqp_bytes *out_key) {
    struct amqp_field key;
    uint64_t ms;
    if (amqp_has(properties, AMQP_EXPIRATION) && !amqp_duration_read(properties->bytes[AMQP_EXPIRATION], &ms))
        return "invalid expiration: it must be milliseconds as a decimal text, at most ten years";
    if (amqp_has(properties, AMQP_USER_ID) && !amqp_is(properties->bytes[AMQP_USER_ID], channel->connection->user))
        return "user_id property set to another name than that of the authenticated user";
    if (amqp_has(properties, AMQP_REPLY_TO) && reply_is_queue(properties->bytes[AMQP_REPLY_TO]) &&
        channel->reply == NULL)
        return "fast reply consumer does not exist: consume from amq.rabbitmq.reply-to on this channel first";
    if (!amqp_table_find(properties->bytes[AMQP_HEADERS], HEADER_KEY, &key)) return NULL;
    if (key.type != 'S' || key.value.size == 0) return "header x-tarry-key must be a text";
    *out_key = key.value;
    return check_key(key.value.at, key.value.size);
}

/* Makes the task's content; NULL: out of memory. */
static uint8_t *pack(const struct channel *channel, const struct amqp_properties *properties, bool keeps_bcc,
                     size_t *out_size) {
    const struct arriving *arriving = &channel->arriving;
    struct amqp_out envelope = {0}, kept = {0};
    struct amqp_field field;
    struct amqp_bytes raw = {arriving->properties, arriving->properties_size};
    struct amqp_properties changed = *properties;
    char address[REPLY_ADDRESS_SIZE];
    bool has_bcc = !keeps_bcc && amqp_table_find(properties->bytes[AMQP_HEADERS], "BCC", &field);
    bool wants_reply = amqp_has(properties, AMQP_REPLY_TO) && reply_is_queue(properties->bytes[AMQP_REPLY_TO]);
    if (wants_reply && reply_address(channel, address)) changed.bytes[AMQP_REPLY_TO] = amqp_text(address);
    if (has_bcc)
        amqp_put_without_bcc(&kept, &changed);
    else if (wants_reply)
        amqp_put_properties(&kept, &changed);
    if (has_bcc || wants_reply) raw = (struct amqp_bytes){kept.bytes, kept.size};
    amqp_put_envelope(&envelope, arriving->exchange, arriving->key, raw);
    envelope.failed |= kept.failed;
    amqp_out_free(&kept);
    return content_pack(&envelope, (struct amqp_bytes){arriving->body, arriving->body_size}, out_size);
}

/* Stores a message until the transaction is committed. */
static void transaction_add(struct channel *channel, struct item *item) {
    size_t bytes = item->content_size * item->target_count;
    if (channel->tx_bytes + bytes > AMQP_FANOUT_BYTES_MAX || channel->tx_count + item->target_count > AMQP_TX_OPS_MAX ||
        !client_hold(channel->connection, (int64_t)item->content_size)) {
        item_free(item);
        channel_fail(
            channel, AMQP_PRECONDITION, AMQP_BASIC_PUBLISH,
            "PRECONDITION_FAILED - the transaction has more than %u messages or %u bytes, or there is no memory",
            AMQP_TX_OPS_MAX, AMQP_FANOUT_BYTES_MAX);
        return;
    }
    channel->tx_bytes += bytes;
    channel->tx_count += item->target_count;
    TAILQ_INSERT_TAIL(&channel->tx_items, item, next);
}

void transaction_drop(struct channel *channel) {
    struct item *item;
    while ((item = TAILQ_FIRST(&channel->tx_items)) != NULL) {
        TAILQ_REMOVE(&channel->tx_items, item, next);
        (void)client_hold(channel->connection, -(int64_t)item->content_size);
        item_free(item);
    }
    channel->tx_bytes = channel->tx_count = 0;
}

static void publish_to(struct channel *channel, const struct amqp_targets *targets,
                       const struct amqp_properties *properties, struct amqp_bytes key) {
    struct amqp_connection *connection = channel->connection;
    size_t size = 0;
    uint8_t *content = NULL;
    struct item *item = NULL;
    /* Content for a queue of delayed messages keeps the BCC header, because BCC is routed when the delay is over. */
    bool keeps_bcc = targets->count == 1 && targets->queues[0]->is_waiting;
    if (targets->count > 0) content = pack(channel, properties, keeps_bcc, &size);
    if (size * targets->count > AMQP_FANOUT_BYTES_MAX) {
        free(content);
        channel_fail(channel, AMQP_PRECONDITION, AMQP_BASIC_PUBLISH,
                     "PRECONDITION_FAILED - %zu bytes to %zu queues are more than the %u bytes of one commit", size,
                     targets->count, AMQP_FANOUT_BYTES_MAX);
        return;
    }
    if (targets->count == 0 || content != NULL) item = item_of_message(targets, content, size, key);
    if (item == NULL) {
        client_fail(connection, AMQP_RESOURCE_ERROR, "RESOURCE_ERROR - out of memory");
        return;
    }
    item_place(item, targets, properties);
    item->channel_serial = channel->serial;
    if (channel->in_tx) {
        transaction_add(channel, item);
        return;
    }
    if (channel->confirms) item->confirm = channel->next_confirm++;
    if (item->confirm > 0 || targets->count > 0)
        outbox_add(&connection->published, item);
    else
        item_free(item);
}

static void publish(struct channel *channel) {
    struct amqp_connection *connection = channel->connection;
    struct arriving *arriving = &channel->arriving;
    struct amqp_topology *topology = &connection->server->store.topology;
    struct amqp_targets targets = {0};
    struct amqp_properties properties;
    struct amqp_bytes key = {0};
    (void)amqp_properties_read((struct amqp_bytes){arriving->properties, arriving->properties_size}, &properties);
    const char *problem = properties_problem(channel, &properties, &key);
    struct amqp_exchange *exchange =
        arriving->exchange.size > 0 ? amqp_exchange_find(topology, arriving->exchange) : NULL;
    bool is_known = exchange != NULL || arriving->exchange.size == 0;
    bool is_reply = arriving->exchange.size == 0 && reply_is_address(arriving->key);
    if (problem == NULL && is_known &&
        !amqp_route_message(topology, exchange, arriving->key, properties.bytes[AMQP_HEADERS], &targets))
        problem = "the headers CC and BCC must be arrays of texts";
    if (problem == NULL && targets.bad_delay)
        problem = "the header x-delay must be milliseconds, as an integer or a decimal text, at most ten years";
    if (!is_known) {
        channel_fail(channel, AMQP_NOT_FOUND, AMQP_BASIC_PUBLISH, "NOT_FOUND - no exchange '%.*s' in vhost '/'",
                     (int)arriving->exchange.size, (const char *)arriving->exchange.at);
    } else if (problem != NULL) {
        channel_fail(channel, AMQP_PRECONDITION, AMQP_BASIC_PUBLISH, "PRECONDITION_FAILED - %s", problem);
    } else if (targets.failed) {
        channel_fail(channel, AMQP_RESOURCE_ERROR, AMQP_BASIC_PUBLISH,
                     "RESOURCE_ERROR - the message would get to more than %u queues, or there is no memory",
                     AMQP_TARGETS_MAX);
    } else {
        bool is_sent = is_reply && reply_deliver(connection->server, arriving->key,
                                                 (struct amqp_bytes){arriving->properties, arriving->properties_size},
                                                 (struct amqp_bytes){arriving->body, arriving->body_size});
        if (targets.count == 0 && !is_sent && arriving->mandatory) return_message(channel);
        publish_to(channel, &targets, &properties, key);
    }
    amqp_targets_free(&targets);
    arriving_end(channel);
}

/* ---- the content's frames */

static void take_head(struct channel *channel, struct amqp_bytes payload) {
    struct arriving *arriving = &channel->arriving;
    struct amqp_content_head head;
    if (!amqp_content_read(payload, &head)) {
        client_fail(channel->connection, AMQP_SYNTAX_ERROR, "SYNTAX_ERROR - malformed content header");
        return;
    }
    if (head.body_size > PAYLOAD_SIZE_MAX_LIMIT) {
        channel_fail(channel, AMQP_PRECONDITION, AMQP_BASIC_PUBLISH,
                     "PRECONDITION_FAILED - message size %llu is larger than configured max size %u",
                     (unsigned long long)head.body_size, PAYLOAD_SIZE_MAX_LIMIT);
        return;
    }
    if (head.properties.size > AMQP_PROPERTIES_SIZE_MAX) {
        channel_fail(channel, AMQP_PRECONDITION, AMQP_BASIC_PUBLISH,
                     "PRECONDITION_FAILED - the properties have %zu bytes, more than %u", head.properties.size,
                     AMQP_PROPERTIES_SIZE_MAX);
        return;
    }
    arriving->properties = malloc(head.properties.size);
    if (arriving->properties == NULL) {
        client_fail(channel->connection, AMQP_RESOURCE_ERROR, "RESOURCE_ERROR - out of memory");
        return;
    }
    memcpy(arriving->properties, head.properties.at, head.properties.size);
    arriving->properties_size = head.properties.size;
    arriving->has_head = true;
    arriving->body_size = head.body_size;
    channel_count_half(channel->connection, 0, arriving->properties_size);
}

/* Enlarges the buffer by `size` bytes. Returns false if the memory limit is reached. */
static bool grow(struct channel *channel, size_t size) {
    struct amqp_connection *connection = channel->connection;
    struct arriving *arriving = &channel->arriving;
    size_t need = arriving->body_at + size, capacity = arriving->body_capacity;
    if (need <= capacity) return true;
    capacity = capacity * 2 > need ? capacity * 2 : need;
    if (capacity > arriving->body_size) capacity = arriving->body_size;
    size_t half = connection->half_size - arriving->body_capacity + capacity;
    if (!door_stream_half(connection->server->door, connection->id, half, half <= DOOR_SMALL_MAX)) return false;
    connection->half_size = half;
    uint8_t *body = realloc(arriving->body, capacity);
    if (body == NULL) {
        channel_count_half(connection, capacity, arriving->body_capacity);
        return false;
    }
    arriving->body = body;
    arriving->body_capacity = capacity;
    return true;
}

void publish_content(struct channel *channel, const struct amqp_frame *frame) {
    struct arriving *arriving = &channel->arriving;
    bool is_head = frame->type == AMQP_FRAME_CONTENT;
    if (is_head == arriving->has_head) {
        client_fail(channel->connection, AMQP_UNEXPECTED_FRAME,
                    "UNEXPECTED_FRAME - expected content %s, got content %s", arriving->has_head ? "body" : "header",
                    is_head ? "header" : "body");
        return;
    }
    if (is_head) {
        take_head(channel, frame->payload);
        if (channel->is_closing) return;
    } else {
        if (frame->payload.size > arriving->body_size - arriving->body_at) {
            client_fail(channel->connection, AMQP_FRAME_ERROR, "FRAME_ERROR - more body bytes than the header says");
            return;
        }
        if (!grow(channel, frame->payload.size)) {
            client_fail(channel->connection, AMQP_RESOURCE_ERROR,
                        "RESOURCE_ERROR - the broker has no memory for the message now");
            return;
        }
        memcpy(arriving->body + arriving->body_at, frame->payload.at, frame->payload.size);
        arriving->body_at += frame->payload.size;
    }
    if (arriving->body_at == arriving->body_size) publish(channel);
}

/* ---- confirms */

static struct channel *channel_of(struct amqp_connection *connection, uint64_t serial) {
    struct channel *channel;
    TAILQ_FOREACH(channel, &connection->channels, next)
    if (channel->serial == serial) return channel->is_closing ? NULL : channel;
    return NULL;
}

static void tell_run(struct channel *channel) {
    if (channel->run == 0) return;
    amqp_put_method(&channel->connection->out, channel->number, AMQP_BASIC_ACK, channel->run,
                    (unsigned)(channel->run > channel->run_from));
    channel->run = 0;
}

/* Confirms a publish, or notes it for a later basic.ack. All earlier publishes of the channel have their results, so
 * one basic.ack can confirm several publishes (`multiple`). */
static void confirm(struct channel *channel, uint64_t tag, bool is_stored) {
    if (tag == 0) return;
    if (is_stored && channel->run == 0) channel->run_from = tag;
    if (is_stored) {
        channel->run = tag;
        return;
    }
    tell_run(channel);
    amqp_put_method(&channel->connection->out, channel->number, AMQP_BASIC_NACK, tag, 0u, 0u);
}

void publish_settled(void *argument, const struct item *item, Tarry__Code code, const char *message) {
    struct amqp_connection *connection = argument;
    if (code_ends_connection(code)) {
        client_refuse(connection, code, "");
        return;
    }
    struct channel *channel = channel_of(connection, item->channel_serial);
    if (channel == NULL) return;
    if (code == TARRY__CODE__OK || (code == TARRY__CODE__EXISTS && item->confirm > 0)) {
        confirm(channel, item->confirm, code == TARRY__CODE__OK);
        return;
    }
    confirm(channel, item->confirm, false);
    if (code == TARRY__CODE__DENIED)
        channel_fail(channel, AMQP_ACCESS_REFUSED, AMQP_BASIC_PUBLISH, "ACCESS_REFUSED - %.200s", message);
    else
        channel_fail(channel, AMQP_PRECONDITION, AMQP_BASIC_PUBLISH, "PRECONDITION_FAILED - %.200s", message);
}

static void tell_blocked(struct amqp_connection *connection) {
    bool is_blocked = connection->published.busy_count > 1;
    if (is_blocked == connection->is_blocked || !connection->can_blocked || connection->phase != PHASE_RUNS) return;
    connection->is_blocked = is_blocked;
    if (is_blocked) {
        connection->server->counts.blocked++;
        amqp_put_method(&connection->out, 0, AMQP_CONNECTION_BLOCKED, amqp_text("the broker has no capacity now"));
    } else {
        connection->server->counts.blocked--;
        amqp_put_method(&connection->out, 0, AMQP_CONNECTION_UNBLOCKED);
    }
}

void publish_went_on(void *argument) {
    struct amqp_connection *connection = argument;
    struct channel *channel;
    TAILQ_FOREACH(channel, &connection->channels, next) {
        // cppcheck-suppress uninitvar ; TAILQ_FOREACH sets it
        tell_run(channel);
    }
    tell_blocked(connection);
    client_go_on(connection);
}

/* ---- transactions */

void op_commit(struct amqp_connection *connection) {
    struct channel *channel = op_channel(connection);
    struct outbox *outbox = &connection->transaction;
    struct item *item;
    if (channel == NULL) {
        op_end(connection);
        return;
    }
    connection->transaction_code = TARRY__CODE__OK;
    connection->transaction_message[0] = '\0';
    if (!unacked_commit(channel, outbox)) {
        client_fail(connection, AMQP_RESOURCE_ERROR, "RESOURCE_ERROR - out of memory");
        op_end(connection);
        return;
    }
    while ((item = TAILQ_FIRST(&channel->tx_items)) != NULL) {
        TAILQ_REMOVE(&channel->tx_items, item, next);
        (void)client_hold(connection, -(int64_t)item->content_size);
        if (item->target_count > 0)
            outbox_add(outbox, item);
        else
            item_free(item);
    }
    channel->tx_bytes = channel->tx_count = 0;
    outbox_flush(outbox);
    if (outbox_is_idle(outbox)) transaction_went_on(connection);
}

void transaction_settled(void *argument, const struct item *item, Tarry__Code code, const char *message) {
    struct amqp_connection *connection = argument;
    const Tarry__Code former = connection->transaction_code;
    /* The transaction took no effect and its channel ends, so the message is made ready again. */
    if (code != TARRY__CODE__OK && !code_ends_connection(code) && item->kind != ITEM_MESSAGE)
        unacked_return(connection, &item->task);
    if (code == TARRY__CODE__OK || (former != TARRY__CODE__OK && former != TARRY__CODE__ABORTED)) return;
    connection->transaction_code = code;
    snprintf(connection->transaction_message, sizeof(connection->transaction_message), "%s", message);
}

void transaction_went_on(void *argument) {
    struct amqp_connection *connection = argument;
    struct channel *channel = op_channel(connection);
    Tarry__Code code = connection->transaction_code;
    /* The broker refused the commit as BUSY, and the outbox will send it again. */
    if (!outbox_is_idle(&connection->transaction)) return;
    unacked_committed(connection, code == TARRY__CODE__OK);
    outbox_flush(&connection->settles);
    if (channel != NULL && code == TARRY__CODE__OK)
        amqp_put_method(&connection->out, channel->number, AMQP_TX_COMMIT_OK);
    else if (code_ends_connection(code))
        client_refuse(connection, code, "");
    else if (channel != NULL)
        channel_fail(channel, AMQP_PRECONDITION, AMQP_TX_COMMIT, "PRECONDITION_FAILED - nothing was committed: %.200s",
                     connection->transaction_message[0] != '\0' ? connection->transaction_message
                                                                : "two of its messages have the same x-tarry-key");
    op_end(connection);
    if (connection->phase == PHASE_RUNS) consumers_fetch(connection);
}
