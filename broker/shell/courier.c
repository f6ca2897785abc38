/* courier.c: see courier.h. */
#include "courier.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shell.h"

/* What is not in memory, with all that it needs: it outlives its batch. */
struct cold_item {
    struct cold_item *next;
    struct arena arena; /* of the copies */
    uint64_t end;
    bool is_reply;
    struct core_delivery delivery;
    struct core_reply reply;
};

/* ---- how much is under way */

static uint64_t delivery_bytes(const struct core_delivery *delivery) {
    uint64_t bytes = sizeof(struct cold_item);
    for (size_t i = 0; i < delivery->count; i++)
        bytes += sizeof(*delivery->tasks) + delivery->tasks[i].row.key_size + delivery->tasks[i].row.blob_size;
    return bytes;
}

void courier_decided(struct courier *courier, const struct core_delivery *delivery) {
    atomic_fetch_add(&courier->out_bytes, delivery_bytes(delivery));
}

bool courier_is_full(const struct courier *courier) {
    return atomic_load(&courier->out_bytes) >= OUT_BYTES_MAX;
}

void courier_left(struct courier *courier, const struct core_delivery *delivery) {
    uint64_t bytes = delivery_bytes(delivery);
    uint64_t before = atomic_fetch_sub(&courier->out_bytes, bytes);
    assert(before >= bytes);
    if (before >= OUT_BYTES_MAX && before - bytes < OUT_BYTES_MAX) inbox_nudge(&courier->shell->inbox);
}

/* ---- copies */

static void *copied(struct arena *arena, const void *data, size_t size) {
    void *copy = arena_alloc(arena, size);
    if (copy == NULL) shell_fail("delivery_failed", -ENOMEM);
    if (size > 0) memcpy(copy, data, size);
    return copy;
}

static struct cold_item *cold_item_new(uint64_t end) {
    struct cold_item *item = calloc(1, sizeof(*item));
    if (item == NULL) shell_fail("delivery_failed", -ENOMEM);
    shell_arena_init(&item->arena);
    item->end = end;
    return item;
}

static void row_own(struct arena *arena, struct row *row) {
    row->key = copied(arena, row->key, row->key_size);
    row->reason = NULL; /* nobody sends it */
    row->reason_size = 0;
}

static struct cold_item *copy_delivery(const struct core_delivery *delivery, uint64_t end) {
    struct cold_item *item = cold_item_new(end);
    struct core_delivered *tasks = copied(&item->arena, delivery->tasks, delivery->count * sizeof(*tasks));
    for (size_t i = 0; i < delivery->count; i++) row_own(&item->arena, &tasks[i].row);
    item->delivery = *delivery; /* names of queues stay */
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
    if (packed == NULL) shell_fail("delivery_failed", -ENOMEM);
    tarry__reply__pack(reply->reply, packed);
    item->reply.reply = tarry__reply__unpack(&item->arena.pb, size, packed);
    if (item->reply.reply == NULL) shell_fail("delivery_failed", -ENOMEM);
    return item;
}

/* ---- the threads */

static void cold_post(struct courier *courier, struct cold_item *item) {
    pthread_mutex_lock(&courier->mutex);
    *courier->cold_last = item;
    courier->cold_last = &item->next;
    pthread_cond_signal(&courier->chilled);
    pthread_mutex_unlock(&courier->mutex);
}

static void take_out(struct outgoing *outgoing, struct courier *courier, struct batch *batch) {
    const struct core_effects *effects = &batch->effects;
    outgoing->end = batch->end;
    for (size_t i = 0; i < effects->deliveries.count; i++) {
        const struct core_delivery *delivery = &effects->deliveries.items[i];
        if (outgoing_deliver(outgoing, delivery) == OUTGOING_COLD)
            cold_post(courier, copy_delivery(delivery, batch->end));
    }
    for (size_t i = 0; i < effects->replies.count; i++) {
        const struct core_reply *reply = &effects->replies.items[i];
        if (reply->ticket == 0 || (reply->repeat_position == 0 && reply->content == NULL)) continue;
        if (outgoing_reply(outgoing, reply) == OUTGOING_COLD) cold_post(courier, copy_reply(reply, batch->end));
    }
    batch_drop(&courier->shell->batches, batch);
}

static void *courier_run(void *argument) {
    struct courier *courier = argument;
    struct outgoing outgoing = {.shell = courier->shell};
    shell_arena_init(&outgoing.arena);
    pthread_mutex_lock(&courier->mutex);
    for (;;) {
        while (courier->first == NULL && !courier->stop) pthread_cond_wait(&courier->posted, &courier->mutex);
        struct batch *batch = courier->first;
        if (batch == NULL) break;
        courier->first = batch->next_out;
        if (courier->first == NULL) courier->last = &courier->first;
        pthread_mutex_unlock(&courier->mutex);
        take_out(&outgoing, courier, batch);
        pthread_mutex_lock(&courier->mutex);
    }
    pthread_mutex_unlock(&courier->mutex);
    arena_deinit(&outgoing.arena);
    return NULL;
}

static void *reader_run(void *argument) {
    struct courier *courier = argument;
    struct outgoing outgoing = {.shell = courier->shell, .may_wait = true};
    shell_arena_init(&outgoing.arena);
    pthread_mutex_lock(&courier->mutex);
    for (;;) {
        while (courier->cold_first == NULL && !courier->cold_stop)
            pthread_cond_wait(&courier->chilled, &courier->mutex);
        struct cold_item *item = courier->cold_first;
        if (item == NULL) break;
        courier->cold_first = item->next;
        if (courier->cold_first == NULL) courier->cold_last = &courier->cold_first;
        pthread_mutex_unlock(&courier->mutex);
        outgoing.end = item->end;
        int result =
            item->is_reply ? outgoing_reply(&outgoing, &item->reply) : outgoing_deliver(&outgoing, &item->delivery);
        assert(result == 0);
        arena_deinit(&item->arena);
        free(item);
        pthread_mutex_lock(&courier->mutex);
    }
    pthread_mutex_unlock(&courier->mutex);
    arena_deinit(&outgoing.arena);
    return NULL;
}

void courier_start(struct courier *courier, struct shell *shell) {
    *courier = (struct courier){.shell = shell, .durable = log_durable(shell->log), .awaited = UINT64_MAX};
    courier->last = &courier->first;
    courier->cold_last = &courier->cold_first;
    pthread_mutex_init(&courier->mutex, NULL);
    pthread_cond_init(&courier->posted, NULL);
    pthread_cond_init(&courier->chilled, NULL);
    pthread_cond_init(&courier->grown, NULL);
    thread_start(&courier->thread, "tarry-courier", courier_run, courier);
    for (size_t i = 0; i < COLD_READERS; i++) thread_start(&courier->readers[i], "tarry-cold", reader_run, courier);
}

void courier_post(struct courier *courier, struct batch *batch) {
    batch->next_out = NULL;
    pthread_mutex_lock(&courier->mutex);
    *courier->last = batch;
    courier->last = &batch->next_out;
    pthread_cond_signal(&courier->posted);
    pthread_mutex_unlock(&courier->mutex);
}

void courier_wait_durable(struct courier *courier, uint64_t position) {
    pthread_mutex_lock(&courier->mutex);
    while (courier->durable < position) {
        if (position < courier->awaited) courier->awaited = position;
        pthread_cond_wait(&courier->grown, &courier->mutex);
    }
    pthread_mutex_unlock(&courier->mutex);
}

void courier_durable(struct courier *courier, uint64_t position) {
    pthread_mutex_lock(&courier->mutex);
    if (position > courier->durable) courier->durable = position;
    if (courier->durable >= courier->awaited) {
        courier->awaited = UINT64_MAX; /* whoever waits for more says so again */
        pthread_cond_broadcast(&courier->grown);
    }
    pthread_mutex_unlock(&courier->mutex);
}

void courier_stop(struct courier *courier) {
    pthread_mutex_lock(&courier->mutex);
    courier->stop = true;
    pthread_cond_signal(&courier->posted);
    pthread_mutex_unlock(&courier->mutex);
    pthread_join(courier->thread, NULL); /* nothing more grows cold */
    pthread_mutex_lock(&courier->mutex);
    courier->cold_stop = true;
    pthread_cond_broadcast(&courier->chilled);
    pthread_mutex_unlock(&courier->mutex);
    for (size_t i = 0; i < COLD_READERS; i++) pthread_join(courier->readers[i], NULL);
}
