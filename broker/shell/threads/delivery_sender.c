/* delivery_sender.c: see delivery_sender.h. */
#include "delivery_sender.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "call.h"
#include "clock.h"
#include "door.h"
#include "fatal.h"
#include "inbox.h"
#include "index.h"
#include "lanes.h"
#include "log.h"
#include "logfmt.h"
#include "node.h"
#include "wire.h"

/* ---- deliveries under way */

static struct logfmt_limit overdue_limit;

/* ---- the source (outgoing_read.h): the log and the index. Without `may_wait`, nothing that may be on the disk is read
 */

static int read_log(void *context, uint64_t position, void *out, size_t size) {
    const struct outgoing *outgoing = context;
    struct log *log = outgoing->needs->log;
    return outgoing->may_wait ? log_read(log, position, out, size) : log_read_now(log, position, out, size);
}

/* Reads a recorded reply from the index. Returns -EAGAIN if this thread must not wait for a disk (`may_wait`), because
 * the index's mapped memory may be on disk. */
static int read_result(void *context, const struct core_reply *reply, struct arena *arena, void **out,
                       size_t *out_size) {
    const struct outgoing *outgoing = context;
    if (!outgoing->may_wait) return -EAGAIN;
    return index_result(outgoing->needs->index, reply->repeat_producer, reply->repeat_sequence, arena, out, out_size);
}

static int read_blob(void *context, const struct row *row, struct arena *arena, void **out, size_t *out_size) {
    const struct outgoing *outgoing = context;
    struct index *index = outgoing->needs->index;
    return outgoing->may_wait ? index_blob(index, row->id, arena, out, out_size)
                              : index_blob_now(index, row->id, arena, out, out_size);
}

/* Prefetches contents from the index into the CPU cache. They are scattered in memory, and without the prefetch most of
 * the sender's time was spent waiting for them. */
static void prefetch(void *context, const struct core_delivered *tasks, size_t count) {
    const struct outgoing *outgoing = context;
    const uint64_t start = log_start(outgoing->needs->log);
    uint64_t ids[OUTGOING_PREFETCH_MAX];
    size_t retired = 0;
    assert(count <= OUTGOING_PREFETCH_MAX);
    for (size_t i = 0; i < count; i++)
        if (tasks[i].row.blob_at < start) ids[retired++] = tasks[i].row.id;
    index_blobs_prefetch(outgoing->needs->index, ids, retired);
}

static uint64_t erasures(void *context) {
    const struct outgoing *outgoing = context;
    return log_erasures(outgoing->needs->log);
}

/* Waits until the log is durable up to `after`, and up to the batch's position (LOG-1). */
static bool wait_for_lease(void *context, uint64_t after) {
    const struct outgoing *outgoing = context;
    return outgoing->needs->wait_durable(outgoing->needs->context, after > outgoing->end ? after : outgoing->end);
}

static struct outgoing_source source_of(struct outgoing *outgoing) {
    return (struct outgoing_source){.context = outgoing,
                                    .read_log = read_log,
                                    .read_result = read_result,
                                    .read_blob = read_blob,
                                    .prefetch = prefetch,
                                    .erasures = erasures,
                                    .wait = wait_for_lease};
}

/* Checks the result of a read. Returns true if the read is finished: 0, 1, or -ECANCELED (the broker stops). Returns
 * false for -EAGAIN: the data are not in memory, and this thread must not wait. Any other error ends the process. */
static bool was_read(const struct outgoing *outgoing, const char *what, int error) {
    if (error == -EAGAIN && !outgoing->may_wait) return false;
    if (error < 0 && error != -ECANCELED) fatal(what, error);
    return true;
}

/* Replies FAILED, because the broker stops and the follower has not confirmed the records that the reply needs. */
static void reply_unknown(const struct core_reply *reply) {
    struct call *call = call_of(reply->ticket);
    call->answer(call, reply_pack_refusal(TARRY__CODE__FAILED, CALL_UNCONFIRMED));
}

/* ---- replies */

static struct message *pack_repeat(const struct core_reply *reply, const ProtobufCBinaryData *packed) {
    struct call *call = call_of(reply->ticket);
    if (call->repeats != NULL && !call->repeats(call, packed->len)) return reply_pack_refusal(TARRY__CODE__BUSY, NULL);
    return reply_pack_commit(packed->data, packed->len, reply->after);
}

/* Sends the recorded reply of a repeated commit. A short reply reserves no memory. So the thread waits until the door
 * has taken earlier replies, before it reads the next one (CALM-1). */
static int reply_repeat(struct outgoing *outgoing, const struct core_reply *reply) {
    const struct outgoing_source source = source_of(outgoing);
    struct door *door = outgoing->needs->door;
    if (!outgoing->may_wait && door_is_behind(door)) return OUTGOING_COLD;
    if (outgoing->may_wait) door_await_taken(door);
    ProtobufCBinaryData packed = {0};
    int error = outgoing_read_repeat(&source, &outgoing->arena, reply, &packed);
    if (!was_read(outgoing, "repeat_unreadable", error)) return OUTGOING_COLD;
    if (error == -ECANCELED) {
        reply_unknown(reply);
        return 0;
    }
    struct message *message =
        error > 0 ? reply_pack_refusal(TARRY__CODE__FORGOTTEN, NULL) : pack_repeat(reply, &packed);
    struct call *call = call_of(reply->ticket);
    call->answer(call, message);
    return 0;
}

static int reply_with_content(struct outgoing *outgoing, const struct core_reply *reply) {
    assert(reply->reply->body_case == TARRY__REPLY__BODY_GET);
    const struct outgoing_source source = source_of(outgoing);
    Tarry__Reply copy = *reply->reply;
    Tarry__TaskReply get = *copy.get;
    Tarry__TaskView view = *get.task;
    int error = outgoing_read_content(&source, &outgoing->arena, reply, &view.content);
    if (!was_read(outgoing, "content_unreadable", error)) return OUTGOING_COLD;
    if (error == -ECANCELED) {
        reply_unknown(reply);
        return 0;
    }
    get.task = &view;
    copy.get = &get;
    struct message *message = copy.follower ? node_pack(outgoing->needs->node, &copy) : reply_pack(&copy);
    struct call *call = call_of(reply->ticket);
    call->answer(call, message);
    return 0;
}

/* Like outgoing_deliver, for a reply that has a content or repeats an earlier reply. Never returns OUTGOING_NO_ROOM. */
static int outgoing_reply(struct outgoing *outgoing, const struct core_reply *reply) {
    arena_reset(&outgoing->arena);
    return reply->repeat_position != 0 ? reply_repeat(outgoing, reply) : reply_with_content(outgoing, reply);
}

/* ---- deliveries */

static void task_fill(const struct core_delivered *delivered, Tarry__DeliveredTask *out, Tarry__Token *token) {
    const struct row *row = &delivered->row;
    tarry__token__init(token);
    token->epoch = row->lease_epoch;
    token->position = row->lease_position;
    tarry__delivered_task__init(out);
    out->id = row->id;
    out->queue = (char *)delivered->queue_name;
    out->key = (ProtobufCBinaryData){.data = (uint8_t *)row->key, .len = row->key_size};
    out->due_ms = row->due_ms;
    out->attempt = row->attempt;
    out->deliveries = row->deliveries;
    out->token = token;
    out->priority = row->priority;
    out->lease_deadline_ms = row->lease_deadline_ms;
}

static void tell_overdue(const struct core_delivery *delivery, size_t count) {
    if (count > 0 && logfmt_allowed(&overdue_limit))
        logfmt("lease_over_unsent", "session=%" PRIu64 " tasks=%zu", delivery->session, count);
}

/* Makes the message of a delivery. Returns NULL when out of memory. */
static struct message *delivery_message(struct outgoing *outgoing, const struct core_delivery *delivery,
                                        const struct outgoing_contents *contents, struct instant now) {
    struct arena *arena = &outgoing->arena;
    Tarry__Delivery message = TARRY__DELIVERY__INIT;
    Tarry__DeliveredTask *tasks = arena_alloc(arena, contents->count * sizeof(*tasks));
    Tarry__DeliveredTask **pointers = arena_alloc(arena, contents->count * sizeof(void *));
    Tarry__Token *tokens = arena_alloc(arena, contents->count * sizeof(*tokens));
    if (tasks == NULL || pointers == NULL || tokens == NULL) return NULL;
    message.tasks = pointers;
    message.n_tasks = contents->count;
    for (size_t i = 0; i < contents->count; i++) {
        pointers[i] = &tasks[i];
        task_fill(contents->tasks[i], &tasks[i], &tokens[i]);
        tasks[i].content = contents->contents[i];
    }
    message.session = delivery->session;
    message.delivered_ms = instant_ms(now);
    size_t room = delivery_room(&message);
    struct message *packed = message_new(room);
    if (packed == NULL) return NULL;
    const uint8_t *from = delivery_pack(&message, packed->bytes + room);
    packed->size = (size_t)(packed->bytes + room - from);
    memmove(packed->bytes, from, packed->size);
    return packed;
}

/* Returns the number of bytes of the delivery's contents. */
static size_t outgoing_contents_size(const struct core_delivery *delivery) {
    size_t size = 0;
    for (size_t i = 0; i < delivery->count; i++) size += delivery->tasks[i].row.blob_size;
    return size;
}

static int take_delivery(struct outgoing *outgoing, const struct core_delivery *delivery) {
    const struct outgoing_needs *needs = outgoing->needs;
    const struct outgoing_source source = source_of(outgoing);
    struct outgoing_contents contents;
    arena_reset(&outgoing->arena);
    int error = outgoing_read_delivery(&source, &outgoing->arena, delivery, &contents);
    if (!was_read(outgoing, "content_unreadable", error)) return OUTGOING_COLD;
    if (error == -ECANCELED) {
        lanes_send(needs->lanes, delivery, NULL, 0); /* the delivery will never be sent */
        return 0;
    }
    if (contents.gone > 0) logfmt("content_gone", "tasks=%zu last_id=%" PRIu64, contents.gone, contents.gone_id);
    struct instant now = clock_now(needs->clock, NULL); /* time at which the delivery is sent */
    size_t overdue = outgoing_drop_overdue(&contents, now.steady_ns / NS_PER_MS);
    tell_overdue(delivery, overdue);
    /* The leases of all tasks have ended, so no task is left to send. */
    bool is_over = contents.count == 0 && overdue > 0;
    struct message *message = is_over ? NULL : delivery_message(outgoing, delivery, &contents, now);
    lanes_send(needs->lanes, delivery, message, now.steady_ns);
    return 0;
}

/* Sends the delivery, or reports that it will never be sent. Returns 0. Returns OUTGOING_COLD and does nothing if a
 * part is not in memory and `may_wait` is false. Returns OUTGOING_NO_ROOM and does nothing if the door has no memory
 * and `awaits_room` is false; consumers have then not read earlier deliveries (CALM-1). A read error ends the process
 * (LOG-4). */
static int outgoing_deliver(struct outgoing *outgoing, const struct core_delivery *delivery) {
    struct door *door = outgoing->needs->door;
    size_t size = outgoing_contents_size(delivery);
    if (!outgoing->awaits_room && !door_reserve(door, size)) return OUTGOING_NO_ROOM;
    if (outgoing->awaits_room && !door_await_room(door, size)) {
        lanes_send(outgoing->needs->lanes, delivery, NULL, 0); /* the broker stops: the delivery will never be sent */
        return 0;
    }
    int result = take_delivery(outgoing, delivery);
    door_unreserve(door, size); /* end the reservation, because the door now counts the message itself */
    return result;
}

/* ---- the sender */

/* A delivery or reply that waits for the disk or for memory, with copies of all its data: it outlives its batch. */
struct cold_item {
    struct cold_item *next;
    struct arena arena; /* memory of the copied data */
    uint64_t end;
    bool is_reply;
    struct core_delivery delivery;
    struct core_reply reply;
};

/* ---- bytes of unsent deliveries */

/* Bytes of the delivery without its contents. */
static uint64_t delivery_bytes(const struct core_delivery *delivery) {
    uint64_t bytes = sizeof(struct cold_item);
    for (size_t i = 0; i < delivery->count; i++) bytes += sizeof(*delivery->tasks) + delivery->tasks[i].row.key_size;
    return bytes;
}

void delivery_sender_decided(struct delivery_sender *delivery_sender, const struct core_delivery *delivery) {
    atomic_fetch_add(&delivery_sender->out_bytes, delivery_bytes(delivery) + outgoing_contents_size(delivery));
}

bool delivery_sender_is_full(const struct delivery_sender *delivery_sender) {
    return atomic_load(&delivery_sender->out_bytes) >= OUT_BYTES_MAX;
}

/* Subtracts bytes of deliveries from out_bytes. Called for a delivery that was sent, that will never be sent, or that
 * waits until consumers read earlier deliveries. */
static void have_left(struct delivery_sender *delivery_sender, uint64_t bytes) {
    uint64_t before = atomic_fetch_sub(&delivery_sender->out_bytes, bytes);
    assert(before >= bytes);
    if (before >= OUT_BYTES_MAX && before - bytes < OUT_BYTES_MAX) inbox_nudge(delivery_sender->inbox);
}

/* ---- waiting for the durable position */

static bool wait_durable(void *context, uint64_t position) {
    struct delivery_sender *delivery_sender = context;
    pthread_mutex_lock(&delivery_sender->mutex);
    while (delivery_sender->durable < position && !delivery_sender->ended) {
        if (position < delivery_sender->awaited) delivery_sender->awaited = position;
        pthread_cond_wait(&delivery_sender->grown, &delivery_sender->mutex);
    }
    bool is_durable = delivery_sender->durable >= position;
    pthread_mutex_unlock(&delivery_sender->mutex);
    return is_durable;
}

/* ---- copies */

static void *copied(struct arena *arena, const void *data, size_t size) {
    void *copy = arena_alloc(arena, size);
    assert(copy != NULL); /* never NULL, because the arena is made by fatal_arena_init */
    if (size > 0) memcpy(copy, data, size);
    return copy;
}

static struct cold_item *cold_item_new(uint64_t end) {
    struct cold_item *item = fatal_calloc(sizeof(*item));
    fatal_arena_init(&item->arena);
    item->end = end;
    return item;
}

static void row_own(struct arena *arena, struct row *row) {
    row->key = copied(arena, row->key, row->key_size);
    row->reason = NULL; /* not sent */
    row->reason_size = 0;
    row->serial = NULL; /* not sent */
    row->serial_size = 0;
}

static struct cold_item *copy_delivery(const struct core_delivery *delivery, uint64_t end) {
    struct cold_item *item = cold_item_new(end);
    struct core_delivered *tasks = copied(&item->arena, delivery->tasks, delivery->count * sizeof(*tasks));
    for (size_t i = 0; i < delivery->count; i++) row_own(&item->arena, &tasks[i].row);
    /* The copied pointer to the queue's name stays valid, because queue names are never freed. */
    item->delivery = *delivery;
    item->delivery.tasks = tasks;
    return item;
}

static struct cold_item *copy_reply(const struct core_reply *reply, uint64_t end) {
    struct cold_item *item = cold_item_new(end);
    item->is_reply = true;
    item->reply = *reply;
    if (reply->content != NULL) {
        struct row *row = copied(&item->arena, reply->content, sizeof(*row));
        row_own(&item->arena, row);
        item->reply.content = row;
    }
    if (reply->reply == NULL) return item;
    size_t size = tarry__reply__get_packed_size(reply->reply);
    uint8_t *packed = arena_alloc(&item->arena, size);
    assert(packed != NULL);
    tarry__reply__pack(reply->reply, packed);
    item->reply.reply = tarry__reply__unpack(&item->arena.pb, size, packed);
    assert(item->reply.reply != NULL);
    return item;
}

/* ---- the threads */

static void post(struct delivery_sender *delivery_sender, struct cold_queue *queue, struct cold_item *item) {
    item->next = NULL;
    pthread_mutex_lock(&delivery_sender->mutex);
    *queue->last = item;
    queue->last = &item->next;
    pthread_cond_signal(&queue->posted);
    pthread_mutex_unlock(&delivery_sender->mutex);
}

/* Passes the delivery to the thread that waits for the door's memory. The contents of the delivery are not in memory,
 * so their bytes are no longer counted. If they were counted, consumers that do not read would stop the deliveries to
 * all others. */
static void park(struct delivery_sender *delivery_sender, struct cold_item *item) {
    have_left(delivery_sender, outgoing_contents_size(&item->delivery));
    post(delivery_sender, &delivery_sender->parked, item);
}

static void deliver(struct delivery_sender *delivery_sender, struct outgoing *outgoing,
                    const struct core_delivery *delivery) {
    int result = outgoing_deliver(outgoing, delivery);
    if (result == 0) have_left(delivery_sender, delivery_bytes(delivery) + outgoing_contents_size(delivery));
    if (result == OUTGOING_COLD) post(delivery_sender, &delivery_sender->cold, copy_delivery(delivery, outgoing->end));
    if (result == OUTGOING_NO_ROOM) park(delivery_sender, copy_delivery(delivery, outgoing->end));
}

static void take_out(struct outgoing *outgoing, struct delivery_sender *delivery_sender, struct batch *batch) {
    const struct core_effects *effects = &batch->effects;
    outgoing->end = batch->end;
    for (size_t i = 0; i < effects->deliveries.count; i++) {
        const struct core_delivery *delivery = &effects->deliveries.items[i];
        if (delivery->departs) continue; /* a delivery of a lease ahead of time is sent by delivery_sender_depart */
        deliver(delivery_sender, outgoing, delivery);
    }
    for (size_t i = 0; i < effects->replies.count; i++) {
        const struct core_reply *reply = &effects->replies.items[i];
        if (reply->ticket == 0 || (reply->repeat_position == 0 && reply->content == NULL)) continue;
        if (outgoing_reply(outgoing, reply) == OUTGOING_COLD)
            post(delivery_sender, &delivery_sender->cold, copy_reply(reply, batch->end));
    }
    batch_drop(delivery_sender->batches, batch);
}

void delivery_sender_depart(struct delivery_sender *delivery_sender, const struct core_delivery *delivery) {
    post(delivery_sender, &delivery_sender->cold, copy_delivery(delivery, 0));
}

static void *delivery_sender_run(void *argument) {
    struct delivery_sender *delivery_sender = argument;
    struct outgoing outgoing = {.needs = &delivery_sender->outgoing};
    fatal_arena_init(&outgoing.arena);
    pthread_mutex_lock(&delivery_sender->mutex);
    for (;;) {
        while (delivery_sender->first == NULL && !delivery_sender->stop)
            pthread_cond_wait(&delivery_sender->posted, &delivery_sender->mutex);
        struct batch *batch = delivery_sender->first;
        if (batch == NULL) break;
        delivery_sender->first = batch->next_out;
        if (delivery_sender->first == NULL) delivery_sender->last = &delivery_sender->first;
        pthread_mutex_unlock(&delivery_sender->mutex);
        take_out(&outgoing, delivery_sender, batch);
        pthread_mutex_lock(&delivery_sender->mutex);
    }
    pthread_mutex_unlock(&delivery_sender->mutex);
    arena_deinit(&outgoing.arena);
    return NULL;
}

/* Waits for the next item, and takes it. NULL: the queue has ended. */
static struct cold_item *take(struct delivery_sender *delivery_sender, struct cold_queue *queue) {
    pthread_mutex_lock(&delivery_sender->mutex);
    while (queue->first == NULL && !queue->has_ended) pthread_cond_wait(&queue->posted, &delivery_sender->mutex);
    struct cold_item *item = queue->first;
    if (item != NULL) queue->first = item->next;
    if (queue->first == NULL) queue->last = &queue->first;
    pthread_mutex_unlock(&delivery_sender->mutex);
    return item;
}

static void item_free(struct cold_item *item) {
    arena_deinit(&item->arena);
    free(item);
}

static void *cold_run(void *argument) {
    struct delivery_sender *delivery_sender = argument;
    struct outgoing outgoing = {.needs = &delivery_sender->outgoing, .may_wait = true};
    fatal_arena_init(&outgoing.arena);
    for (struct cold_item *item; (item = take(delivery_sender, &delivery_sender->cold)) != NULL;) {
        outgoing.end = item->end;
        if (item->is_reply) {
            int result = outgoing_reply(&outgoing, &item->reply);
            assert(result == 0);
        } else {
            /* Wait until the records that the read needs are written. */
            if (item->delivery.departs) (void)wait_durable(delivery_sender, item->delivery.after);
            deliver(delivery_sender, &outgoing, &item->delivery);
        }
        item_free(item);
    }
    arena_deinit(&outgoing.arena);
    return NULL;
}

static void *parked_run(void *argument) {
    struct delivery_sender *delivery_sender = argument;
    struct outgoing outgoing = {.needs = &delivery_sender->outgoing, .may_wait = true, .awaits_room = true};
    fatal_arena_init(&outgoing.arena);
    for (struct cold_item *item; (item = take(delivery_sender, &delivery_sender->parked)) != NULL;) {
        outgoing.end = item->end;
        int result = outgoing_deliver(&outgoing, &item->delivery);
        assert(result == 0);
        have_left(delivery_sender, delivery_bytes(&item->delivery));
        item_free(item);
    }
    arena_deinit(&outgoing.arena);
    return NULL;
}

static void queue_init(struct cold_queue *queue) {
    queue->last = &queue->first;
    pthread_cond_init(&queue->posted, NULL);
}

void delivery_sender_start(struct delivery_sender *delivery_sender, const struct delivery_sender_needs *needs) {
    *delivery_sender = (struct delivery_sender){.batches = needs->batches,
                                                .inbox = needs->inbox,
                                                .outgoing = {.log = needs->log,
                                                             .index = needs->index,
                                                             .clock = needs->clock,
                                                             .lanes = needs->lanes,
                                                             .door = needs->door,
                                                             .node = needs->node,
                                                             .wait_durable = wait_durable,
                                                             .context = delivery_sender},
                                                .durable = log_durable(needs->log),
                                                .awaited = UINT64_MAX};
    delivery_sender->last = &delivery_sender->first;
    pthread_mutex_init(&delivery_sender->mutex, NULL);
    pthread_cond_init(&delivery_sender->posted, NULL);
    queue_init(&delivery_sender->cold);
    queue_init(&delivery_sender->parked);
    pthread_cond_init(&delivery_sender->grown, NULL);
    thread_start(&delivery_sender->thread, "tarry-sender", delivery_sender_run, delivery_sender);
    for (size_t i = 0; i < COLD_READERS; i++)
        thread_start(&delivery_sender->readers[i], "tarry-cold", cold_run, delivery_sender);
    thread_start(&delivery_sender->parker, "tarry-parked", parked_run, delivery_sender);
}

void delivery_sender_post(struct delivery_sender *delivery_sender, struct batch *batch) {
    batch->next_out = NULL;
    pthread_mutex_lock(&delivery_sender->mutex);
    *delivery_sender->last = batch;
    delivery_sender->last = &batch->next_out;
    pthread_cond_signal(&delivery_sender->posted);
    pthread_mutex_unlock(&delivery_sender->mutex);
}

void delivery_sender_durable(struct delivery_sender *delivery_sender, uint64_t position) {
    pthread_mutex_lock(&delivery_sender->mutex);
    if (position > delivery_sender->durable) delivery_sender->durable = position;
    if (delivery_sender->durable >= delivery_sender->awaited) {
        /* No thread waits for a position; a thread that must wait longer sets `awaited` again. */
        delivery_sender->awaited = UINT64_MAX;
        pthread_cond_broadcast(&delivery_sender->grown);
    }
    pthread_mutex_unlock(&delivery_sender->mutex);
}

static void end_queue(struct delivery_sender *delivery_sender, struct cold_queue *queue) {
    pthread_mutex_lock(&delivery_sender->mutex);
    queue->has_ended = true;
    pthread_cond_broadcast(&queue->posted);
    pthread_mutex_unlock(&delivery_sender->mutex);
}

void delivery_sender_stop(struct delivery_sender *delivery_sender) {
    pthread_mutex_lock(&delivery_sender->mutex);
    delivery_sender->stop = delivery_sender->ended = true;
    pthread_cond_signal(&delivery_sender->posted);
    pthread_cond_broadcast(&delivery_sender->grown);
    pthread_mutex_unlock(&delivery_sender->mutex);
    pthread_join(delivery_sender->thread, NULL); /* no more items for the cold readers */
    end_queue(delivery_sender, &delivery_sender->cold);
    for (size_t i = 0; i < COLD_READERS; i++) pthread_join(delivery_sender->readers[i], NULL);
    door_end_waits(delivery_sender->outgoing.door);
    end_queue(delivery_sender, &delivery_sender->parked);
    pthread_join(delivery_sender->parker, NULL);
}
