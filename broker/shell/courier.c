/* courier.c: see courier.h. */
#include "courier.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "logfmt.h"
#include "shell.h"

/* Packed reply of a commit that was logged before, into `out`. 0, 1: forgotten, or negative. */
static int repeat_read(struct courier *courier, const struct core_reply *reply, const uint8_t **out, size_t *out_size) {
    struct shell *shell = courier->shell;
    uint8_t head[FRAME_HEADER_SIZE];
    struct frame_header header;
    int error = log_read(shell->log, reply->repeat_position, head, sizeof(head));
    if (error == LOG_RETIRED) {
        void *result;
        error = index_result(shell->index, reply->repeat_producer, reply->repeat_sequence, &courier->arena, &result,
                             out_size);
        *out = result;
        return error;
    }
    if (error != 0) return error;
    if (!frame_header_decode(head, &header)) return LOG_DAMAGED;
    uint8_t *body = arena_alloc(&courier->arena, header.body_size);
    if (body == NULL) return -ENOMEM;
    error = log_read(shell->log, frame_body_position(reply->repeat_position, header.blob_size), body, header.body_size);
    if (error == LOG_RETIRED) return repeat_read(courier, reply, out, out_size); /* it moves to the index first */
    if (error != 0) return error;
    if (frame_sum(body, header.body_size) != header.body_sum) return LOG_DAMAGED;
    Tarry__FrameBody *unpacked = tarry__frame_body__unpack(&courier->arena.pb, header.body_size, body);
    if (unpacked == NULL) return LOG_DAMAGED;
    assert(unpacked->producer == reply->repeat_producer && unpacked->sequence == reply->repeat_sequence);
    *out = unpacked->reply.data;
    *out_size = unpacked->reply.len;
    return 0;
}

/* The packed Content of a task: without its salt, its checksum compared. 0, 1: there is none, or negative. */
static int content_read(struct courier *courier, const struct row *row, ProtobufCBinaryData *out) {
    struct shell *shell = courier->shell;
    if (row->blob_size < BLOB_SALT_SIZE) {
        *out = (ProtobufCBinaryData){0};
        return 0;
    }
    void *blob = arena_alloc(&courier->arena, row->blob_size);
    if (blob == NULL) return -ENOMEM;
    size_t size = row->blob_size;
    int error = log_read(shell->log, row->blob_at, blob, row->blob_size);
    /* Retired: the index got it in the transaction before. */
    if (error == LOG_RETIRED) error = index_blob(shell->index, row->id, &courier->arena, &blob, &size);
    if (error != 0) return error;
    if (content_is_erased(blob, size)) return 1; /* a later commit ended the task and redacted it */
    if (size != row->blob_size || frame_sum(blob, size) != row->blob_sum) return LOG_DAMAGED;
    *out = (ProtobufCBinaryData){.data = (uint8_t *)blob + BLOB_SALT_SIZE, .len = size - BLOB_SALT_SIZE};
    return 0;
}

static void wait_durable(struct courier *courier, uint64_t after) {
    if (after < courier->end) after = courier->end;
    pthread_mutex_lock(&courier->mutex);
    courier->awaited = after;
    while (courier->durable < after) pthread_cond_wait(&courier->changed, &courier->mutex);
    courier->awaited = UINT64_MAX;
    pthread_mutex_unlock(&courier->mutex);
}

static void reply_repeat(struct courier *courier, const struct core_reply *reply) {
    const uint8_t *packed;
    size_t size;
    int error = repeat_read(courier, reply, &packed, &size);
    if (error < 0) shell_fail("repeat_unreadable", error);
    nng_msg *message = error > 0 ? reply_pack_refusal(TARRY__CODE__FORGOTTEN, NULL) : reply_pack_commit(packed, size);
    wait_durable(courier, reply->after);
    struct call *call = call_of(reply->ticket);
    call->answer(call, message);
}

static void reply_with_content(struct courier *courier, const struct core_reply *reply) {
    assert(reply->reply->body_case == TARRY__REPLY__BODY_GET);
    Tarry__Reply copy = *reply->reply;
    Tarry__TaskReply get = *copy.get;
    Tarry__TaskView view = *get.task;
    int error = content_read(courier, reply->content, &view.content);
    if (error < 0) shell_fail("content_unreadable", error);
    get.task = &view; /* 1: it ended and its content is gone meanwhile; the view is still true */
    copy.get = &get;
    nng_msg *message = copy.follower ? node_pack(&courier->shell->node, &copy) : reply_pack(&copy);
    wait_durable(courier, reply->after);
    struct call *call = call_of(reply->ticket);
    call->answer(call, message);
}

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

/* Packs the message. `*out_now` is the time of packing, which is that of leaving. NULL: out of memory. */
static nng_msg *delivery_make(struct courier *courier, const struct core_delivery *delivery, struct instant *out_now) {
    struct arena *arena = &courier->arena;
    Tarry__Delivery message = TARRY__DELIVERY__INIT;
    Tarry__DeliveredTask *tasks = arena_alloc(arena, delivery->count * sizeof(*tasks));
    Tarry__DeliveredTask **pointers = arena_alloc(arena, delivery->count * sizeof(void *));
    Tarry__Token *tokens = arena_alloc(arena, delivery->count * sizeof(*tokens));
    if (tasks == NULL || pointers == NULL || tokens == NULL) return NULL;
    message.tasks = pointers;
    for (size_t i = 0; i < delivery->count; i++) {
        task_fill(&delivery->tasks[i], &tasks[i], &tokens[i]);
        int error = content_read(courier, &delivery->tasks[i].row, &tasks[i].content);
        if (error < 0) shell_fail("content_unreadable", error);
        /* 1: a later record ended it before it could leave, and its content went with a retired segment. A task without
         * its content is never sent. */
        if (error == 0)
            pointers[message.n_tasks++] = &tasks[i];
        else
            logfmt("content_gone", "id=%" PRIu64, tasks[i].id);
    }
    message.session = delivery->session;
    wait_durable(courier, delivery->after); /* LOG-1 */
    *out_now = clock_now(&courier->shell->clock, NULL);
    message.delivered_ms = instant_ms(*out_now);
    nng_msg *packed = NULL;
    if (nng_msg_alloc(&packed, tarry__delivery__get_packed_size(&message)) != 0) return NULL;
    tarry__delivery__pack(&message, nng_msg_body(packed));
    return packed;
}

static void deliver(struct courier *courier, const struct core_delivery *delivery) {
    struct instant now = {0};
    nng_msg *message = delivery_make(courier, delivery, &now);
    lanes_send(&courier->shell->lanes, delivery->lane, delivery->session, message, now.steady_ns);
}

static void courier_batch(struct courier *courier, struct batch *batch) {
    const struct core_effects *effects = &batch->effects;
    courier->end = batch->end;
    for (size_t i = 0; i < effects->deliveries.count; i++) {
        deliver(courier, &effects->deliveries.items[i]);
        arena_reset(&courier->arena);
    }
    for (size_t i = 0; i < effects->replies.count; i++) {
        const struct core_reply *reply = &effects->replies.items[i];
        if (reply->ticket == 0) continue;
        if (reply->repeat_position != 0)
            reply_repeat(courier, reply);
        else if (reply->content != NULL)
            reply_with_content(courier, reply);
        else
            continue;
        arena_reset(&courier->arena);
    }
    batch_drop(&courier->shell->batches, batch);
}

static void *courier_run(void *argument) {
    struct courier *courier = argument;
    pthread_mutex_lock(&courier->mutex);
    for (;;) {
        while (courier->first == NULL && !courier->stop) pthread_cond_wait(&courier->changed, &courier->mutex);
        struct batch *batch = courier->first;
        if (batch == NULL) break;
        courier->first = batch->next_out;
        if (courier->first == NULL) courier->last = &courier->first;
        pthread_mutex_unlock(&courier->mutex);
        courier_batch(courier, batch);
        pthread_mutex_lock(&courier->mutex);
    }
    pthread_mutex_unlock(&courier->mutex);
    return NULL;
}

void courier_start(struct courier *courier, struct shell *shell) {
    *courier = (struct courier){.shell = shell, .durable = log_durable(shell->log), .awaited = UINT64_MAX};
    courier->last = &courier->first;
    pthread_mutex_init(&courier->mutex, NULL);
    pthread_cond_init(&courier->changed, NULL);
    shell_arena_init(&courier->arena);
    thread_start(&courier->thread, "tarry-courier", courier_run, courier);
}

void courier_post(struct courier *courier, struct batch *batch) {
    batch->next_out = NULL;
    pthread_mutex_lock(&courier->mutex);
    *courier->last = batch;
    courier->last = &batch->next_out;
    pthread_cond_signal(&courier->changed);
    pthread_mutex_unlock(&courier->mutex);
}

void courier_durable(struct courier *courier, uint64_t position) {
    pthread_mutex_lock(&courier->mutex);
    if (position > courier->durable) {
        courier->durable = position;
        if (position >= courier->awaited) pthread_cond_signal(&courier->changed);
    }
    pthread_mutex_unlock(&courier->mutex);
}

void courier_stop(struct courier *courier) {
    pthread_mutex_lock(&courier->mutex);
    courier->stop = true;
    pthread_cond_signal(&courier->changed);
    pthread_mutex_unlock(&courier->mutex);
    pthread_join(courier->thread, NULL);
}
