/* amqp_mover.c: messages that were rejected, or have expired, go to the dead-letter exchange of their queue; those
 * whose x-delay is over go to the queues behind their exchange. One atomic commit acks the message and schedules it in
 * its new queues, so it is never lost and never doubled. */
#include <stdlib.h>
#include <time.h>

#include "amqp_parts.h"

#define READS_MAX 16u
/* Leases of expired messages: number of messages, duration, and pause after a refused lease. */
#define AMQP_MOVER_MAX 1024u
#define AMQP_MOVER_LEASE_MS 60000u
#define AMQP_MOVER_PAUSE_MS 200u

/* A rejected message whose content is being read. */
struct rejected {
    TAILQ_ENTRY(rejected) next;
    struct mover *mover;
    struct leased_task task;
    enum amqp_death death;
    uint64_t asked;
};
TAILQ_HEAD(rejected_list, rejected);

struct mover {
    struct amqp *server;
    struct outbox outbox;
    struct rejected_list waiting, reading;
    unsigned read_count;
    struct gateway_caller caller; /* the broker itself, as the caller of its requests */
    uint64_t timer;
    /* `lease` is the handle of the waiting lease for expired messages (0: none). `lease_timer` is the timer after which
     * a refused lease is requested again. */
    uint64_t lease, lease_timer;
    bool is_started;
};

/* ---- one message */

static uint64_t wall_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec;
}

static void add_settle(struct mover *mover, enum item_kind kind, const struct leased_task *task) {
    struct item *item = item_of_lease(kind, task);
    if (item != NULL)
        outbox_add(&mover->outbox,
                   item); /* without memory, the lease ends at its deadline, and the message is delivered again */
}

/* Finds the queues to which the dead message is routed, except those in which it would circle. */
static void find_targets(struct mover *mover, const struct amqp_queue *queue, struct amqp_bytes key,
                         struct amqp_bytes headers, struct amqp_targets *targets) {
    struct amqp_topology *topology = &mover->server->store.topology;
    struct amqp_bytes name = amqp_text(queue->dead_exchange);
    struct amqp_exchange *exchange = name.size > 0 ? amqp_exchange_find(topology, name) : NULL;
    size_t kept = 0;
    if (name.size > 0 && exchange == NULL) return;
    (void)amqp_route_message(topology, exchange, key, headers, targets);
    for (size_t i = 0; i < targets->count; i++)
        if (!amqp_death_circles(headers, targets->queues[i]->name)) targets->queues[kept++] = targets->queues[i];
    targets->count = kept;
}

static struct amqp_bytes key_of(struct amqp_bytes headers) {
    struct amqp_field field;
    bool has_key = amqp_table_find(headers, "x-tarry-key", &field) && field.type == 'S';
    return has_key && field.value.size <= KEY_SIZE_MAX ? field.value : (struct amqp_bytes){0};
}

/* The message that replaces a leased one, and the data from which it is made. */
struct replacement {
    const Tarry__Content *content; /* content of the leased message */
    struct amqp_targets targets;
    struct amqp_bytes exchange, key;
    struct amqp_out properties;
};

/* Makes an outbox item that publishes the replacement message `from`, and frees the members of `from`. Returns NULL if
 * no queue gets the message. Also returns NULL, and sets `*out_failed`, if the message cannot be made. */
static struct item *replacement_item(struct replacement *from, bool *out_failed) {
    struct amqp_out envelope = {0};
    struct amqp_properties properties;
    struct item *item = NULL;
    size_t size = 0;
    const struct amqp_bytes raw = {from->properties.bytes, from->properties.size};
    *out_failed |= from->targets.failed || from->properties.failed;
    if (!*out_failed && from->targets.count > 0) {
        const struct amqp_bytes body = {from->content->payload.data, from->content->payload.len};
        (void)amqp_properties_read(raw, &properties);
        amqp_put_envelope(&envelope, from->exchange, from->key, raw);
        uint8_t *bytes = content_pack(&envelope, body, &size);
        if (bytes != NULL) item = item_of_message(&from->targets, bytes, size, key_of(properties.bytes[AMQP_HEADERS]));
        if (item != NULL) item_place(item, &from->targets, &properties);
        *out_failed = item == NULL;
    }
    amqp_out_free(&from->properties);
    amqp_targets_free(&from->targets);
    return item;
}

/* Makes the message that replaces the dead one. Returns NULL if no queue gets the message. Also returns NULL, and sets
 * `*out_failed`, if the message cannot be made: memory is exhausted, or its headers with x-death have more than
 * AMQP_TABLE_FIELDS_MAX fields. After such a failure, the lease of the dead message ends at its deadline and the
 * message is leased again. After max_attempts leases it becomes one of Tarry's dead letters. */
static struct item *make_dead(struct mover *mover, const struct amqp_queue *queue, const Tarry__Content *content,
                              enum amqp_death death, bool *out_failed) {
    struct amqp_out made = {0};
    struct amqp_envelope envelope;
    struct amqp_properties properties;
    struct replacement dead = {.content = content, .exchange = amqp_text(queue->dead_exchange)};
    *out_failed = !amqp_envelope_of(content, queue->name, &made, &envelope);
    if (!*out_failed) amqp_put_dead(&dead.properties, &envelope, queue, death, wall_s());
    *out_failed |= dead.properties.failed ||
                   !amqp_properties_read((struct amqp_bytes){dead.properties.bytes, dead.properties.size}, &properties);
    dead.key = queue->has_dead_key ? amqp_text(queue->dead_key) : envelope.key;
    if (!*out_failed) {
        (void)amqp_properties_read(envelope.properties, &properties);
        find_targets(mover, queue, dead.key, properties.bytes[AMQP_HEADERS], &dead.targets);
    }
    struct item *item = replacement_item(&dead, out_failed);
    amqp_out_free(&made);
    return item;
}

/* Makes the message that goes to the queues behind an x-delayed-message exchange. NULL: as for make_dead. */
static struct item *make_due(struct mover *mover, struct amqp_exchange *exchange, const Tarry__Content *content,
                             bool *out_failed) {
    struct amqp_out made = {0}, all = {0};
    struct amqp_envelope envelope;
    struct amqp_properties properties;
    struct replacement due = {.content = content};
    bool is_read = amqp_envelope_of(content, exchange->waiting->name, &made, &envelope) &&
                   amqp_properties_read(envelope.properties, &properties);
    if (is_read) amqp_put_due(&all, &properties);
    is_read = is_read && !all.failed && amqp_properties_read((struct amqp_bytes){all.bytes, all.size}, &properties);
    *out_failed = !is_read;
    if (is_read) {
        due.exchange = envelope.exchange;
        due.key = envelope.key;
        (void)amqp_route_message(&mover->server->store.topology, exchange, envelope.key, properties.bytes[AMQP_HEADERS],
                                 &due.targets);
        amqp_put_without_bcc(&due.properties, &properties);
    }
    struct item *item = replacement_item(&due, out_failed);
    amqp_out_free(&made);
    amqp_out_free(&all);
    return item;
}

/* Moves a leased message to the queues of its dead-letter exchange. */
static void move(struct mover *mover, const char *queue_name, const ProtobufCBinaryData *packed,
                 const struct leased_task *task, enum amqp_death death) {
    const struct amqp_queue *queue = amqp_queue_find(&mover->server->store.topology, amqp_text(queue_name));
    struct amqp_exchange *delayed = amqp_exchange_waiting(&mover->server->store.topology, queue_name);
    bool has_way = delayed != NULL || (queue != NULL && queue->has_dead_exchange);
    Tarry__Content *content = tarry__content__unpack(NULL, packed->len, packed->data);
    bool failed = content == NULL;
    struct item *item = NULL;
    if (!failed && delayed != NULL)
        item = make_due(mover, delayed, content, &failed);
    else if (!failed && has_way)
        item = make_dead(mover, queue, content, death, &failed);
    if (item != NULL) {
        item->acks = true;
        item->task = *task;
        outbox_add(&mover->outbox, item);
    } else if (!failed && has_way) {
        add_settle(mover, ITEM_ACK, task); /* the exchange routes it to no queue, so it is dropped, as in RabbitMQ */
    } else if (!failed) { /* the queue or the exchange was deleted after the message was stored, and perhaps declared
                             again: the message becomes a dead letter of Tarry's queue */
        add_settle(mover, ITEM_BURY, task);
    }
    if (content != NULL) tarry__content__free_unpacked(content, NULL);
}

/* ---- rejected messages: their contents are read from the broker */

static void read_on(struct mover *mover);

static void on_read(void *argument, const Tarry__Reply *reply) {
    struct rejected *rejected = argument;
    struct mover *mover = rejected->mover;
    Tarry__Code code = reply != NULL ? reply->code : TARRY__CODE__BUSY;
    const Tarry__TaskView *task =
        code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_GET ? reply->get->task : NULL;
    TAILQ_REMOVE(&mover->reading, rejected, next);
    mover->read_count--;
    rejected->asked = 0;
    if (code == TARRY__CODE__BUSY) {
        TAILQ_INSERT_TAIL(&mover->waiting, rejected, next);
    } else {
        if (task != NULL) move(mover, task->queue, &task->content, &rejected->task, rejected->death);
        free(rejected);
    }
    outbox_flush(&mover->outbox);
    read_on(mover);
}

static void on_read_timer(void *argument) {
    struct mover *mover = argument;
    mover->timer = 0;
    read_on(mover);
}

static void read_on(struct mover *mover) {
    struct rejected *rejected;
    struct gateway *gateway = mover->server->gateway;
    while (mover->read_count < READS_MAX && mover->outbox.bytes < AMQP_OUTBOX_BYTES_MAX &&
           (rejected = TAILQ_FIRST(&mover->waiting)) != NULL) {
        Tarry__Request request = TARRY__REQUEST__INIT;
        Tarry__Get get = TARRY__GET__INIT;
        Tarry__Ref ref = TARRY__REF__INIT;
        ref.id = rejected->task.id;
        get.task = &ref;
        get.with_content = true;
        request.body_case = TARRY__REQUEST__BODY_GET;
        request.get = &get;
        rejected->asked = gateway_ask(gateway, &mover->caller, &request, on_read, rejected);
        if (rejected->asked == 0) break;
        TAILQ_REMOVE(&mover->waiting, rejected, next);
        TAILQ_INSERT_TAIL(&mover->reading, rejected, next);
        mover->read_count++;
    }
    bool waits = mover->read_count == 0 && !TAILQ_EMPTY(&mover->waiting) && outbox_is_idle(&mover->outbox);
    if (waits && mover->timer == 0) mover->timer = gateway_timer(gateway, AMQP_BUSY_MS, on_read_timer, mover);
}

void mover_reject(struct mover *mover, const struct leased_task *task, enum amqp_death death) {
    struct rejected *rejected = calloc(1, sizeof(*rejected));
    if (rejected == NULL || !mover->is_started) { /* the message cannot be moved now. Its lease ends at the deadline,
                                                     and the mover then leases it again */
        free(rejected);
        return;
    }
    *rejected = (struct rejected){.mover = mover, .task = *task, .death = death};
    TAILQ_INSERT_TAIL(&mover->waiting, rejected, next);
    read_on(mover);
}

/* ---- expired messages: they are due, and still wait in queues with a dead-letter exchange */

static void lease_on(struct mover *mover);

static void on_lease_timer(void *argument) {
    struct mover *mover = argument;
    mover->lease_timer = 0;
    lease_on(mover);
}

static void on_leased(void *argument, const struct gateway_leased *leased) {
    struct mover *mover = argument;
    struct gateway *gateway = mover->server->gateway;
    uint64_t lease = mover->lease;
    mover->lease = 0;
    for (size_t i = 0; i < leased->count; i++) {
        const struct leased_task task = leased_task_of(leased->tasks[i]);
        move(mover, leased->tasks[i]->queue, &leased->tasks[i]->content, &task, AMQP_DEATH_EXPIRED);
    }
    if (leased->count > 0) gateway_left(gateway, lease, true);
    outbox_flush(&mover->outbox);
    if (leased->code == TARRY__CODE__OK)
        lease_on(mover);
    else
        mover->lease_timer = gateway_timer(gateway, AMQP_MOVER_PAUSE_MS, on_lease_timer, mover);
}

static void lease_on(struct mover *mover) {
    struct gateway *gateway = mover->server->gateway;
    bool is_full = mover->outbox.bytes >= AMQP_OUTBOX_BYTES_MAX || mover->outbox.count >= AMQP_OUTBOX_ITEMS_MAX;
    if (!mover->is_started || mover->lease != 0 || mover->lease_timer != 0 || is_full) return;
    const struct gateway_lease_options options = {.max = AMQP_MOVER_MAX,
                                                  .lease_ms = AMQP_MOVER_LEASE_MS,
                                                  .wait_ms = GATEWAY_WAIT_MAX_MS,
                                                  .bound = true,
                                                  .mover = true};
    mover->lease = gateway_lease(gateway, &mover->caller, &options, on_leased, mover);
    if (mover->lease == 0) mover->lease_timer = gateway_timer(gateway, AMQP_MOVER_PAUSE_MS, on_lease_timer, mover);
}

/* ---- results of items */

/* Handles the result of an item. If a live task of the target queue has the message's key, the message is sent once
 * more without its key. */
static void on_settled(void *argument, const struct item *item, Tarry__Code code, const char *message) {
    struct mover *mover = argument;
    if (code != TARRY__CODE__EXISTS) return;
    struct item *again = item_without_key(item);
    if (again != NULL) outbox_add(&mover->outbox, again);
}

static void on_went_on(void *argument) {
    struct mover *mover = argument;
    read_on(mover);
    lease_on(mover);
}

struct mover *mover_new(struct amqp *server) {
    struct mover *mover = calloc(1, sizeof(*mover));
    if (mover == NULL) return NULL;
    mover->server = server;
    TAILQ_INIT(&mover->waiting);
    TAILQ_INIT(&mover->reading);
    TAILQ_INIT(&mover->outbox.items);
    return mover;
}

void mover_start(struct mover *mover) {
    if (mover->is_started) return;
    mover->is_started = true;
    mover->caller = own_caller(mover->server->gateway);
    outbox_init(&mover->outbox, mover->server->gateway, mover->caller.principal, mover->caller.peer, mover);
    mover->outbox.settled = on_settled;
    mover->outbox.went_on = on_went_on;
    lease_on(mover);
}

void mover_stop(struct mover *mover) {
    struct rejected *rejected;
    if (!mover->is_started) return;
    mover->is_started = false;
    if (mover->lease != 0) gateway_cancel(mover->server->gateway, mover->lease);
    if (mover->lease_timer != 0) gateway_timer_cancel(mover->server->gateway, mover->lease_timer);
    mover->lease = mover->lease_timer = 0;
    outbox_end(&mover->outbox);
    while ((rejected = TAILQ_FIRST(&mover->waiting)) != NULL) {
        TAILQ_REMOVE(&mover->waiting, rejected, next);
        free(rejected);
    }
    while ((rejected = TAILQ_FIRST(&mover->reading)) != NULL) {
        TAILQ_REMOVE(&mover->reading, rejected, next);
        gateway_forget(mover->server->gateway, rejected->asked);
        free(rejected);
    }
    mover->read_count = 0;
    if (mover->timer != 0) gateway_timer_cancel(mover->server->gateway, mover->timer);
    mover->timer = 0;
    gateway_disown(mover->server->gateway, mover->caller.principal);
}

void mover_free(struct mover *mover) {
    mover_stop(mover);
    free(mover);
}
