/* amqp_consume.c: consumers, basic.get, and the settling of deliveries. A consumer leases messages while its prefetch
 * permits more, and while few bytes for the client are unsent. A delivery is leased until the client acknowledges it or
 * its channel ends; then its message is released and keeps its place in the queue. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amqp_parts.h"
#include "door_stream.h"

/* Bytes counted for an entry of `unacked`: the struct, malloc's own overhead, and two pointers in the table of delivery
 * tags. */
#define UNACKED_BYTES ((int64_t)sizeof(struct unacked) + 16 + 2 * (int64_t)sizeof(struct unacked *))
#define TAGS_MIN 16u /* number of buckets of a channel's first table of tags */

static void fetch(struct consumer *consumer);
static void extend_arm(struct amqp_connection *connection);

/* ---- unacknowledged deliveries */

/* Doubles the table of tags when it is full. False: out of memory, and there is no table yet. */
static bool tags_grow(struct channel *channel) {
    size_t capacity = channel->tag_capacity == 0 ? TAGS_MIN : channel->tag_capacity * 2;
    struct unacked *unacked;
    if (channel->unacked_count < channel->tag_capacity) return true;
    struct unacked **tags = calloc(capacity, sizeof(*tags));
    /* No memory for a larger table: keep the present one, whose buckets get longer lists. */
    if (tags == NULL) return channel->tags != NULL;
    TAILQ_FOREACH(unacked, &channel->unacked, next) {
        // cppcheck-suppress uninitvar ; TAILQ_FOREACH sets it
        unacked->same_bucket = tags[unacked->tag & (capacity - 1)];
        tags[unacked->tag & (capacity - 1)] = unacked;
    }
    free(channel->tags);
    channel->tags = tags;
    channel->tag_capacity = capacity;
    return true;
}

static struct unacked **bucket_of(const struct channel *channel, uint64_t tag) {
    return &channel->tags[tag & (channel->tag_capacity - 1)];
}

/* Counts an entry that was put into the list of the channel. */
static void tag_add(struct channel *channel, struct unacked *unacked) {
    struct unacked **bucket = bucket_of(channel, unacked->tag);
    unacked->same_bucket = *bucket;
    *bucket = unacked;
    channel->unacked_count++;
}

static void tag_remove(struct channel *channel, const struct unacked *unacked) {
    struct unacked **at = bucket_of(channel, unacked->tag);
    while (*at != unacked) at = &(*at)->same_bucket;
    *at = unacked->same_bucket;
    channel->unacked_count--;
}

/* Returns NULL if the tag is not in the list. */
static struct unacked *unacked_find(const struct channel *channel, uint64_t tag) {
    struct unacked *unacked = channel->tags != NULL ? *bucket_of(channel, tag) : NULL;
    while (unacked != NULL && unacked->tag != tag) unacked = unacked->same_bucket;
    return unacked;
}

/* Settles the message of an entry that is in no list any more, in a commit of `outbox`, and frees the entry. */
static void settle_removed(struct channel *channel, struct unacked *unacked, struct outbox *outbox) {
    struct amqp_connection *connection = channel->connection;
    struct item *item = NULL;
    if (unacked->dies && !unacked->is_settled)
        mover_reject(connection->server->mover, &unacked->task, AMQP_DEATH_REJECTED);
    else if (!unacked->is_settled)
        item = item_of_lease(unacked->outcome, &unacked->task);
    /* If memory was exhausted, the message is not settled, and its lease ends at its deadline. */
    if (item != NULL) outbox_add(outbox, item);
    (void)client_hold(connection, -UNACKED_BYTES);
    free(unacked);
}

/* Removes an entry from `unacked` and notes how settle_removed must settle its message. With ITEM_RELEASE, the message
 * becomes ready again. */
static void settle_begin(struct channel *channel, struct unacked *unacked, enum item_kind kind, bool dies) {
    struct consumer *consumer = unacked->consumer;
    TAILQ_REMOVE(&channel->unacked, unacked, next);
    tag_remove(channel, unacked);
    if (consumer != NULL) consumer->unacked--;
    unacked->outcome = kind;
    unacked->dies = dies && unacked->has_dead_exchange;
    unacked->consumer = NULL;
}

/* Removes an entry of `unacked` and settles its message. In a transaction, the message is settled at tx.commit. */
static void settle(struct channel *channel, struct unacked *unacked, enum item_kind kind, bool dies) {
    settle_begin(channel, unacked, kind, dies);
    if (channel->in_tx) {
        TAILQ_INSERT_TAIL(&channel->tx_unacked, unacked, next);
        channel->tx_unacked_count++;
    } else {
        settle_removed(channel, unacked, &channel->connection->settles);
    }
}

static int by_tag(const void *a, const void *b) {
    const uint64_t first = (*(struct unacked *const *)a)->tag, second = (*(struct unacked *const *)b)->tag;
    return first < second ? -1 : first > second;
}

/* The entries may be in any order: they are sorted, and then merged into the list. */
void unacked_restore(struct channel *channel) {
    struct unacked *unacked, *at = TAILQ_FIRST(&channel->unacked);
    struct unacked **sorted = calloc(channel->tx_unacked_count + 1, sizeof(struct unacked *));
    size_t count = 0;
    if (sorted == NULL) { /* without memory no delivery is restored, and the connection ends */
        channel->connection->out.failed = true;
        return;
    }
    TAILQ_FOREACH(unacked, &channel->tx_unacked, next) sorted[count++] = unacked;
    qsort(sorted, count, sizeof(sorted[0]), by_tag);
    for (size_t i = 0; i < count && tags_grow(channel); i++) {
        TAILQ_REMOVE(&channel->tx_unacked, sorted[i], next);
        channel->tx_unacked_count--;
        while (at != NULL && at->tag < sorted[i]->tag) at = TAILQ_NEXT(at, next);
        if (at != NULL)
            TAILQ_INSERT_BEFORE(at, sorted[i], next);
        else
            TAILQ_INSERT_TAIL(&channel->unacked, sorted[i], next);
        tag_add(channel, sorted[i]);
    }
    free(sorted);
}

bool unacked_commit(struct channel *channel, struct outbox *outbox) {
    struct unacked *unacked;
    size_t count = 0;
    struct leased_task *dying = calloc(channel->tx_unacked_count + 1, sizeof(*dying));
    if (dying == NULL) return false;
    while ((unacked = TAILQ_FIRST(&channel->tx_unacked)) != NULL) {
        TAILQ_REMOVE(&channel->tx_unacked, unacked, next);
        if (unacked->dies && !unacked->is_settled) dying[count++] = unacked->task;
        unacked->is_settled |= unacked->dies;
        settle_removed(channel, unacked, outbox);
    }
    channel->tx_unacked_count = 0;
    channel->connection->transaction_dying = dying;
    channel->connection->transaction_dying_count = count;
    return true;
}

void unacked_committed(struct amqp_connection *connection, bool is_stored) {
    for (size_t i = 0; i < connection->transaction_dying_count; i++) {
        const struct leased_task *task = &connection->transaction_dying[i];
        if (is_stored)
            mover_reject(connection->server->mover, task, AMQP_DEATH_REJECTED);
        else
            unacked_return(connection, task);
    }
    free(connection->transaction_dying);
    connection->transaction_dying = NULL;
    connection->transaction_dying_count = 0;
}

void unacked_return(struct amqp_connection *connection, const struct leased_task *task) {
    struct item *item = item_of_lease(ITEM_RELEASE, task);
    if (item != NULL) outbox_add(&connection->settles, item);
}

void unacked_release(struct channel *channel) {
    struct unacked *unacked;
    while ((unacked = TAILQ_FIRST(&channel->unacked)) != NULL) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): settle_begin has removed those that settle_removed freed
        settle_begin(channel, unacked, ITEM_RELEASE, false);
        settle_removed(channel, unacked, &channel->connection->settles);
    }
}

static void on_extend(void *argument) {
    struct amqp_connection *connection = argument;
    const struct channel *channel;
    struct unacked *unacked;
    const uint64_t now_ms = amqp_now_ms();
    connection->extend_timer = 0;
    TAILQ_FOREACH(channel, &connection->channels, next) {
        TAILQ_FOREACH(unacked, &channel->unacked, next) {
            // cppcheck-suppress uninitvar ; TAILQ_FOREACH sets it
            if (unacked->is_settled || unacked->lease_until_ms > now_ms + AMQP_LEASE_MS - AMQP_EXTEND_MS) continue;
            struct item *item = item_of_lease(ITEM_EXTEND, &unacked->task);
            if (item == NULL) continue;
            outbox_add(&connection->settles, item);
            unacked->lease_until_ms = now_ms + AMQP_LEASE_MS;
        }
    }
    outbox_flush(&connection->settles);
    extend_arm(connection);
}

static void extend_arm(struct amqp_connection *connection) {
    const struct channel *channel;
    bool has_any = false;
    if (connection->extend_timer != 0) return;
    TAILQ_FOREACH(channel, &connection->channels, next)
    has_any |= channel->unacked_count > 0;
    if (has_any)
        connection->extend_timer =
            gateway_timer(connection->server->gateway, AMQP_EXTEND_MS / 2, on_extend, connection);
}

/* ---- deliveries */

static struct sending *sending_new(struct amqp_connection *connection, uint64_t lease, size_t ack_count) {
    struct sending *sending = calloc(1, sizeof(*sending) + ack_count * sizeof(sending->acks[0]));
    if (sending == NULL) return NULL;
    sending->server = connection->server;
    sending->connection = connection;
    sending->lease = lease;
    TAILQ_INSERT_TAIL(&connection->server->sendings, sending, next);
    return sending;
}

/* Reports the result of a sending. If its bytes are in the kernel, acks the messages of consumers that use no
 * acknowledgements (`no_ack`). */
void sending_sent(struct sending *sending, bool left) {
    struct amqp_connection *connection = sending->connection;
    gateway_left(sending->server->gateway, sending->lease, left);
    for (size_t i = 0; left && connection != NULL && i < sending->ack_count; i++) {
        struct item *item = item_of_lease(ITEM_ACK, &sending->acks[i]);
        if (item != NULL) outbox_add(&connection->settles, item);
    }
    if (connection != NULL) outbox_flush(&connection->settles);
    TAILQ_REMOVE(&sending->server->sendings, sending, next);
    free(sending);
}

/* Adds a delivery to `unacked`, where it stays until the client acknowledges it. If `no_ack` is true, adds the delivery
 * to `sending` instead; sending_sent acks it when its bytes are in the kernel. Returns false if memory is exhausted. */
static bool note(struct channel *channel, struct consumer *consumer, const Tarry__DeliveredTask *task, bool no_ack,
                 bool has_dead_exchange, struct sending *sending) {
    const uint64_t tag = channel->next_tag++;
    if (no_ack) {
        sending->acks[sending->ack_count++] = leased_task_of(task);
        return true;
    }
    if (!client_hold(channel->connection, UNACKED_BYTES)) return false;
    struct unacked *unacked = tags_grow(channel) ? malloc(sizeof(*unacked)) : NULL;
    if (unacked == NULL) {
        (void)client_hold(channel->connection, -UNACKED_BYTES);
        return false;
    }
    *unacked = (struct unacked){.tag = tag,
                                .task = leased_task_of(task),
                                .lease_until_ms = amqp_now_ms() + AMQP_LEASE_MS,
                                .consumer = consumer,
                                .has_dead_exchange = has_dead_exchange};
    TAILQ_INSERT_TAIL(&channel->unacked, unacked, next);
    tag_add(channel, unacked);
    if (consumer != NULL) consumer->unacked++;
    extend_arm(channel->connection);
    return true;
}

/* Writes a delivery. `consumer` NULL: writes the reply to basic.get, with `left` as the number of remaining messages.
 */
static bool put_delivery(struct channel *channel, const struct consumer *consumer, const Tarry__DeliveredTask *task,
                         uint64_t left, struct amqp_out *out) {
    struct amqp_out made = {0};
    struct amqp_envelope envelope;
    const uint64_t tag = channel->next_tag;
    const unsigned again = task->deliveries > 1;
    Tarry__Content *content = tarry__content__unpack(NULL, task->content.len, task->content.data);
    if (content == NULL) return false;
    bool is_made = amqp_envelope_of(content, task->queue, &made, &envelope);
    if (is_made && consumer != NULL)
        amqp_put_method(out, channel->number, AMQP_BASIC_DELIVER, consumer->tag, tag, again, envelope.exchange,
                        envelope.key);
    else if (is_made)
        amqp_put_method(out, channel->number, AMQP_BASIC_GET_OK, tag, again, envelope.exchange, envelope.key,
                        count_field(left));
    if (is_made)
        amqp_put_content(out, channel->number, channel->connection->frame_max, envelope.properties,
                         (struct amqp_bytes){content->payload.data, content->payload.len});
    amqp_out_free(&made);
    tarry__content__free_unpacked(content, NULL);
    return is_made && !out->failed;
}

static void on_retry(void *argument) {
    struct consumer *consumer = argument;
    consumer->timer = 0;
    fetch(consumer);
}

static void fetch_later(struct consumer *consumer) {
    struct gateway *gateway = consumer->channel->connection->server->gateway;
    if (consumer->timer == 0) consumer->timer = gateway_timer(gateway, AMQP_BUSY_MS, on_retry, consumer);
}

static void refuse(struct channel *channel, const struct gateway_leased *leased, enum amqp_method_kind kind) {
    const char *message = leased->message != NULL ? leased->message : "";
    if (code_ends_connection(leased->code))
        client_refuse(channel->connection, leased->code, leased->primary != NULL ? leased->primary : "");
    else if (leased->code == TARRY__CODE__DENIED)
        channel_fail(channel, AMQP_ACCESS_REFUSED, kind, "ACCESS_REFUSED - %.200s", message);
    else
        channel_fail(channel, AMQP_RESOURCE_ERROR, kind, "RESOURCE_ERROR - %.200s", message);
}

/* Ends a message that was returned too often (x-delivery-limit): it goes to the dead-letter exchange, or is dropped.
 * False: it may be delivered. */
static bool end_spent(struct amqp_connection *connection, const struct amqp_queue *queue,
                      const Tarry__DeliveredTask *task) {
    if (!queue->has_delivery_limit || task->deliveries <= (uint64_t)queue->delivery_limit + 1) return false;
    const struct leased_task leased = leased_task_of(task);
    struct item *item = queue->has_dead_exchange ? NULL : item_of_lease(ITEM_ACK, &leased);
    if (queue->has_dead_exchange) mover_reject(connection->server->mover, &leased, AMQP_DEATH_LIMIT);
    if (item != NULL) outbox_add(&connection->settles, item);
    return true;
}

static void deliver(struct consumer *consumer, uint64_t lease, const struct gateway_leased *leased) {
    struct channel *channel = consumer->channel;
    struct amqp_connection *connection = channel->connection;
    struct amqp_out out = {0};
    struct sending *sending = sending_new(connection, lease, consumer->no_ack ? leased->count : 0);
    if (sending == NULL) {
        gateway_left(connection->server->gateway, lease, false);
        fetch_later(consumer);
        return;
    }
    bool has_memory = true;
    for (size_t i = 0; has_memory && i < leased->count; i++) {
        if (end_spent(connection, consumer->queue, leased->tasks[i])) continue;
        has_memory =
            put_delivery(channel, consumer, leased->tasks[i], 0, &out) &&
            note(channel, consumer, leased->tasks[i], consumer->no_ack, consumer->queue->has_dead_exchange, sending);
    }
    out.failed |= !has_memory; /* a failed `out` ends the connection */
    client_send_out(connection);
    if (out.size == 0 && !out.failed) /* all leased messages were ended here, so they must not become ready again */
        sending_sent(sending, true);
    else
        client_send(connection, &out, sending);
    outbox_flush(&connection->settles);
    fetch(consumer);
}

static void on_leased(void *argument, const struct gateway_leased *leased) {
    struct consumer *consumer = argument;
    struct amqp_connection *connection = consumer->channel->connection;
    uint64_t lease = consumer->lease;
    consumer->lease = 0;
    if (leased->code == TARRY__CODE__BUSY) {
        fetch_later(consumer);
    } else if (leased->code != TARRY__CODE__OK) {
        refuse(consumer->channel, leased, AMQP_BASIC_CONSUME);
    } else if (leased->count == 0) {
        fetch(consumer);
    } else {
        deliver(consumer, lease, leased);
    }
    client_send_out(connection);
}

/* Returns the number of deliveries that the consumer may get now. */
static uint32_t credit_of(const struct consumer *consumer) {
    const struct channel *channel = consumer->channel;
    uint32_t most = consumer->prefetch > 0 ? consumer->prefetch : AMQP_UNACKED_MAX;
    uint32_t all = channel->prefetch_all > 0 ? channel->prefetch_all : AMQP_UNACKED_MAX;
    if (consumer->no_ack) return AMQP_FETCH_MAX;
    if (consumer->unacked >= most || channel->unacked_count >= all) return 0;
    uint32_t credit = most - consumer->unacked < all - channel->unacked_count ? most - consumer->unacked
                                                                              : all - channel->unacked_count;
    return credit < AMQP_FETCH_MAX ? credit : AMQP_FETCH_MAX;
}

static void fetch(struct consumer *consumer) {
    const struct channel *channel = consumer->channel;
    struct amqp_connection *connection = channel->connection;
    const struct amqp *server = connection->server;
    const char *queue = consumer->queue->name;
    uint32_t credit = credit_of(consumer);
    if (consumer->lease != 0 || consumer->timer != 0 || credit == 0 || channel->is_closing) return;
    if (connection->phase != PHASE_RUNS || connection->is_gone) return;
    if (consumer->queue->single_active && TAILQ_FIRST(&consumer->queue->consumers) != consumer) return;
    if (door_stream_unsent(server->door, connection->id) >= AMQP_UNSENT_MAX) return; /* on_drained continues */
    const struct gateway_lease_options options = {.queues = &queue,
                                                  .queue_count = 1,
                                                  .max = credit,
                                                  .lease_ms = AMQP_LEASE_MS,
                                                  .wait_ms = GATEWAY_WAIT_MAX_MS,
                                                  .bound = true};
    const struct gateway_caller caller = client_caller(connection);
    consumer->lease = gateway_lease(server->gateway, &caller, &options, on_leased, consumer);
    if (consumer->lease == 0) fetch_later(consumer);
}

void consumers_fetch(struct amqp_connection *connection) {
    const struct channel *channel;
    struct consumer *consumer;
    TAILQ_FOREACH(channel, &connection->channels, next) {
        TAILQ_FOREACH(consumer, &channel->consumers, in_channel) {
            // cppcheck-suppress uninitvar ; TAILQ_FOREACH sets it
            fetch(consumer);
        }
    }
}

/* ---- consume and cancel */

static struct consumer *consumer_find(const struct channel *channel, struct amqp_bytes tag) {
    struct consumer *consumer;
    TAILQ_FOREACH(consumer, &channel->consumers, in_channel) {
        // cppcheck-suppress uninitvar ; TAILQ_FOREACH sets it
        if (amqp_same(tag, consumer->tag)) return consumer;
    }
    return NULL;
}

/* Returns whether the consumer may be created. If not, the channel or the connection has failed. */
static bool may_consume(struct channel *channel, const struct amqp_queue *queue, const struct amqp_method *method) {
    const struct amqp_bytes tag = method->fields[AMQP_BASIC_CONSUME_consumer_tag].bytes;
    bool exclusive = method->fields[AMQP_BASIC_CONSUME_exclusive].number != 0;
    if (tag.size > 0 && consumer_find(channel, tag) != NULL) {
        client_fail(channel->connection, AMQP_NOT_ALLOWED, "NOT_ALLOWED - attempt to reuse consumer tag '%.*s'",
                    (int)tag.size, (const char *)tag.at);
        return false;
    }
    if (queue->has_exclusive_consumer || (exclusive && queue->consumer_count > 0)) {
        channel_fail(channel, AMQP_ACCESS_REFUSED, method->kind,
                     "ACCESS_REFUSED - queue '%s' in vhost '/' in exclusive use", queue->name);
        return false;
    }
    if (channel->connection->consumer_count >= AMQP_CONSUMERS_MAX) {
        channel_fail(channel, AMQP_RESOURCE_ERROR, method->kind, "RESOURCE_ERROR - the connection has %u consumers",
                     AMQP_CONSUMERS_MAX);
        return false;
    }
    return true;
}

void channel_consume(struct channel *channel, const struct amqp_method *method) {
    struct amqp_connection *connection = channel->connection;
    struct amqp_bytes tag = method->fields[AMQP_BASIC_CONSUME_consumer_tag].bytes;
    char made[64];
    if (tag.size == 0) {
        snprintf(made, sizeof(made), "amq.ctag-%s-%" PRIu64, connection->server->id, ++connection->server->names);
        tag = amqp_text(made);
    }
    if (reply_is_queue(method->fields[AMQP_BASIC_CONSUME_queue].bytes)) {
        reply_consume(channel, method, tag);
        return;
    }
    struct amqp_queue *queue = queue_of(channel, method->fields[AMQP_BASIC_CONSUME_queue].bytes, method->kind);
    if (queue == NULL || !may_consume(channel, queue, method)) return;
    struct consumer *consumer = calloc(1, sizeof(*consumer) + tag.size);
    if (consumer == NULL) {
        client_fail(connection, AMQP_RESOURCE_ERROR, "RESOURCE_ERROR - out of memory");
        return;
    }
    consumer->channel = channel;
    consumer->queue = queue;
    consumer->no_ack = method->fields[AMQP_BASIC_CONSUME_no_ack].number != 0;
    consumer->exclusive = method->fields[AMQP_BASIC_CONSUME_exclusive].number != 0;
    consumer->prefetch = channel->prefetch;
    memcpy(consumer->tag_bytes, tag.at, tag.size);
    consumer->tag = (struct amqp_bytes){consumer->tag_bytes, tag.size};
    TAILQ_INSERT_TAIL(&channel->consumers, consumer, in_channel);
    TAILQ_INSERT_TAIL(&queue->consumers, consumer, in_queue);
    queue->consumer_count++;
    queue->had_consumer = true;
    queue->has_exclusive_consumer |= consumer->exclusive;
    connection->consumer_count++;
    connection->server->counts.consumers++;
    if (method->fields[AMQP_BASIC_CONSUME_no_wait].number == 0)
        amqp_put_method(&connection->out, channel->number, AMQP_BASIC_CONSUME_OK, tag);
    fetch(consumer);
}

void consumer_end(struct consumer *consumer, bool is_told) {
    struct channel *channel = consumer->channel;
    struct amqp_connection *connection = channel->connection;
    struct amqp_queue *queue = consumer->queue;
    struct unacked *unacked;
    if (consumer->lease != 0) gateway_cancel(connection->server->gateway, consumer->lease);
    if (consumer->timer != 0) gateway_timer_cancel(connection->server->gateway, consumer->timer);
    TAILQ_FOREACH(unacked, &channel->unacked, next)
    if (unacked->consumer == consumer) unacked->consumer = NULL;
    if (is_told && connection->can_cancel)
        amqp_put_method(&connection->out, channel->number, AMQP_BASIC_CANCEL, consumer->tag, 1u);
    TAILQ_REMOVE(&channel->consumers, consumer, in_channel);
    TAILQ_REMOVE(&queue->consumers, consumer, in_queue);
    queue->consumer_count--;
    if (consumer->exclusive) queue->has_exclusive_consumer = false;
    connection->consumer_count--;
    connection->server->counts.consumers--;
    free(consumer);
    if (queue->consumer_count == 0)
        queue_used(connection->server, queue);
    else if (queue->single_active) /* the next consumer fetches later, when the messages that this consumer released are
                                      ready again at their old places in the queue */
        fetch_later(TAILQ_FIRST(&queue->consumers));
    if (queue->auto_delete && queue->consumer_count == 0 && !queue->node.is_doomed)
        queue_drop(connection->server, queue->name);
}

void consumers_lose_queue(struct amqp_queue *queue) {
    struct consumer *consumer;
    while ((consumer = TAILQ_FIRST(&queue->consumers)) != NULL) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): consumer_end has removed the former one from the list
        struct channel *channel = consumer->channel;
        struct amqp_connection *connection = channel->connection;
        struct unacked *unacked;
        TAILQ_FOREACH(unacked, &channel->unacked, next) {
            // cppcheck-suppress uninitvar ; TAILQ_FOREACH sets it
            if (unacked->consumer != consumer || unacked->is_settled) continue;
            struct item *item = item_of_lease(ITEM_ACK, &unacked->task);
            if (item != NULL) outbox_add(&connection->settles, item);
            unacked->is_settled = true;
        }
        consumer_end(consumer, true);
        outbox_flush(&connection->settles);
        client_send_out(connection);
    }
}

void channel_cancel(struct channel *channel, const struct amqp_method *method) {
    const struct amqp_bytes tag = method->fields[AMQP_BASIC_CANCEL_consumer_tag].bytes;
    struct consumer *consumer = consumer_find(channel, tag);
    if (consumer != NULL)
        consumer_end(consumer, false);
    else
        (void)reply_cancel(channel, tag);
    if (method->fields[AMQP_BASIC_CANCEL_no_wait].number == 0)
        amqp_put_method(&channel->connection->out, channel->number, AMQP_BASIC_CANCEL_OK, tag);
}

/* ---- basic.get */

void get_abandon(struct amqp_connection *connection) {
    if (connection->get_lease != 0) gateway_cancel(connection->server->gateway, connection->get_lease);
    connection->get_lease = 0;
}

static void got(struct channel *channel, uint64_t lease, const Tarry__DeliveredTask *task) {
    struct amqp_connection *connection = channel->connection;
    struct amqp_out out = {0};
    bool no_ack = connection->method.fields[AMQP_BASIC_GET_no_ack].number != 0;
    struct amqp_queue *queue = amqp_queue_find(&connection->server->store.topology, amqp_text(task->queue));
    struct sending *sending = sending_new(connection, lease, 1);
    if (sending == NULL) {
        gateway_left(connection->server->gateway, lease, false);
        client_fail(connection, AMQP_RESOURCE_ERROR, "RESOURCE_ERROR - out of memory");
        return;
    }
    uint64_t left = connection->counted > 0 ? connection->counted - 1 : 0;
    out.failed |= !put_delivery(channel, NULL, task, left, &out) ||
                  !note(channel, NULL, task, no_ack, queue != NULL && queue->has_dead_exchange, sending);
    client_send_out(connection);
    client_send(connection, &out, sending);
}

static void get_counted(struct amqp_connection *connection, uint64_t messages);

/* Ends the leased message if it was returned too often, and leases the next one. */
static bool gets_next(struct amqp_connection *connection, uint64_t lease, const Tarry__DeliveredTask *task) {
    const struct amqp_queue *queue = amqp_queue_find(&connection->server->store.topology, amqp_text(task->queue));
    if (queue == NULL || !end_spent(connection, queue, task)) return false;
    gateway_left(connection->server->gateway, lease, true);
    outbox_flush(&connection->settles);
    get_counted(connection, connection->counted > 0 ? connection->counted - 1 : 0);
    return true;
}

static void on_got(void *argument, const struct gateway_leased *leased) {
    struct amqp_connection *connection = argument;
    uint64_t lease = connection->get_lease;
    connection->get_lease = 0;
    struct channel *channel = op_channel(connection);
    if (channel == NULL) {
        if (leased->count > 0) gateway_left(connection->server->gateway, lease, false);
    } else if (leased->code != TARRY__CODE__OK) {
        refuse(channel, leased, AMQP_BASIC_GET);
    } else if (leased->count > 0 && gets_next(connection, lease, leased->tasks[0])) {
        return;
    } else if (leased->count == 0) {
        amqp_put_method(&connection->out, channel->number, AMQP_BASIC_GET_EMPTY, amqp_text(""));
    } else {
        got(channel, lease, leased->tasks[0]);
    }
    op_end(connection);
}

static void get_counted(struct amqp_connection *connection, uint64_t messages) {
    const struct amqp_queue *queue = op_queue(connection, AMQP_BASIC_GET_queue);
    if (queue == NULL) {
        op_end(connection);
        return;
    }
    const char *name = queue->name;
    const struct gateway_lease_options options = {
        .queues = &name, .queue_count = 1, .max = 1, .lease_ms = AMQP_LEASE_MS, .bound = true};
    const struct gateway_caller caller = client_caller(connection);
    connection->counted = messages;
    connection->get_lease = gateway_lease(connection->server->gateway, &caller, &options, on_got, connection);
    if (connection->get_lease != 0) return;
    channel_fail(op_channel(connection), AMQP_RESOURCE_ERROR, AMQP_BASIC_GET, "RESOURCE_ERROR - out of memory");
    op_end(connection);
}

void op_get(struct amqp_connection *connection) {
    struct amqp_queue *queue = op_queue(connection, AMQP_BASIC_GET_queue);
    if (queue == NULL) {
        op_end(connection);
        return;
    }
    queue_used(connection->server, queue);
    queue_count(connection, queue->name, get_counted);
}

/* ---- ack, nack, reject, recover */

/* Settles one delivery, or all deliveries up to it. If `dies` is true, the message goes to the dead-letter exchange, or
 * is dropped if the queue has none. */
static void settle_tags(struct channel *channel, const struct amqp_method *method, uint64_t tag, bool multiple,
                        bool requeue, bool dies) {
    struct unacked *unacked = multiple ? TAILQ_FIRST(&channel->unacked) : unacked_find(channel, tag), *next;
    bool is_all = multiple && tag == 0;
    bool is_known = is_all || (unacked != NULL && unacked->tag <= tag && tag < channel->next_tag);
    if (!is_known) {
        channel_fail(channel, AMQP_PRECONDITION, method->kind, "PRECONDITION_FAILED - unknown delivery tag %" PRIu64,
                     tag);
        return;
    }
    for (; unacked != NULL && (is_all || unacked->tag <= tag); unacked = next) {
        next = TAILQ_NEXT(unacked, next);
        settle(channel, unacked, requeue ? ITEM_RELEASE : ITEM_ACK, dies);
    }
    /* Requeued messages must be back at their old places in the queue before the consumers fetch. So consumers do not
     * fetch here after a requeue. */
    if (!requeue) consumers_fetch(channel->connection);
}

void channel_ack(struct channel *channel, const struct amqp_method *method) {
    settle_tags(channel, method, method->fields[AMQP_BASIC_ACK_delivery_tag].number,
                method->fields[AMQP_BASIC_ACK_multiple].number != 0, false, false);
}

void channel_reject(struct channel *channel, const struct amqp_method *method) {
    bool is_nack = method->kind == AMQP_BASIC_NACK;
    bool requeue = method->fields[is_nack ? (int)AMQP_BASIC_NACK_requeue : (int)AMQP_BASIC_REJECT_requeue].number != 0;
    bool multiple = is_nack && method->fields[AMQP_BASIC_NACK_multiple].number != 0;
    settle_tags(channel, method, method->fields[AMQP_BASIC_NACK_delivery_tag].number, multiple, requeue, !requeue);
}

void channel_recover(struct channel *channel, const struct amqp_method *method) {
    if (method->fields[AMQP_BASIC_RECOVER_requeue].number == 0) {
        client_fail(channel->connection, AMQP_NOT_IMPLEMENTED, "NOT_IMPLEMENTED - requeue=false");
        return;
    }
    unacked_release(channel);
    if (method->kind == AMQP_BASIC_RECOVER)
        amqp_put_method(&channel->connection->out, channel->number, AMQP_BASIC_RECOVER_OK);
}

void settle_settled(void *argument, const struct item *item, Tarry__Code code, const char *message) {
    /* Any other code means that the lease had already ended, which needs no action. */
    if (code_ends_connection(code)) client_refuse(argument, code, "");
}

void settle_went_on(void *argument) {
    consumers_fetch(argument);
    client_go_on(argument);
}
