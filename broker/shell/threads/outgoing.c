/* outgoing.c: see outgoing.h. */
#include "outgoing.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "call.h"
#include "clock.h"
#include "door.h"
#include "fatal.h"
#include "index.h"
#include "lanes.h"
#include "log.h"
#include "logfmt.h"
#include "node.h"
#include "wire.h"

static struct logfmt_limit overdue_limit;

/* ---- the source (outgoing_read.h): the log and the index. Without `may_wait`, nothing that may be on the disk is read
 */

static int read_log(void *context, uint64_t position, void *out, size_t size) {
    const struct outgoing *outgoing = context;
    struct log *log = outgoing->needs->log;
    return outgoing->may_wait ? log_read(log, position, out, size) : log_read_now(log, position, out, size);
}

/* LMDB's mapped memory may be on the disk, so this needs `may_wait`. */
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

/* Waits until the message's position and the position `after` are durable (LOG-1). */
static bool wait_durable(void *context, uint64_t after) {
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
                                    .wait = wait_durable};
}

/* Checks a result of reading. Returns true for 0, 1 and -ECANCELED, and false for -EAGAIN. Any other error ends the
 * process. */
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

/* CALM-1: repeats of short replies reserve no memory, so they are read no faster than the door takes them. */
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

int outgoing_reply(struct outgoing *outgoing, const struct core_reply *reply) {
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

/* Makes the message of a delivery. Returns NULL if memory is exhausted. */
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

size_t outgoing_contents_size(const struct core_delivery *delivery) {
    size_t size = 0;
    for (size_t i = 0; i < delivery->count; i++) size += delivery->tasks[i].row.blob_size;
    return size;
}

static int deliver(struct outgoing *outgoing, const struct core_delivery *delivery) {
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
    bool is_over = contents.count == 0 && overdue > 0; /* all tasks are overdue, so nothing can be sent */
    struct message *message = is_over ? NULL : delivery_message(outgoing, delivery, &contents, now);
    lanes_send(needs->lanes, delivery, message, now.steady_ns);
    return 0;
}

int outgoing_deliver(struct outgoing *outgoing, const struct core_delivery *delivery) {
    struct door *door = outgoing->needs->door;
    size_t size = outgoing_contents_size(delivery);
    if (!outgoing->awaits_room && !door_reserve(door, size)) return OUTGOING_NO_ROOM;
    if (outgoing->awaits_room && !door_await_room(door, size)) {
        lanes_send(outgoing->needs->lanes, delivery, NULL, 0); /* the broker stops: the delivery will never be sent */
        return 0;
    }
    int result = deliver(outgoing, delivery);
    door_unreserve(door, size); /* the door counts the message now, so the reservation is returned */
    return result;
}
