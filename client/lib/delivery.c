/* delivery.c: converts messages of a lane to tasks for the program. One or two allocations per message, independent
 * of the number of tasks. */
#include "consumer.h"

#include <stdlib.h>
#include <string.h>

#include "wire.h"

static void box_drop(struct delivery_box *box) {
    if (atomic_fetch_sub_explicit(&box->references, 1, memory_order_acq_rel) != 1) return;
    arena_deinit(&box->arena);
    free(box);
}

void tarry_task_free(const struct tarry_task *task) {
    if (task == NULL) return;
    box_drop(((struct held_task *)task)->box);
}

/* Returns a copy with a final 0; NULL: out of memory. */
static char *copy_text(struct arena *arena, ProtobufCBinaryData text) {
    char *copy = arena_alloc(arena, text.len + 1);
    if (copy == NULL) return NULL;
    if (text.len > 0) memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    return copy;
}

/* Unpacks the content into `out`. Returns false if the message is damaged, or memory is used up. */
static bool fill_content(struct arena *arena, ProtobufCBinaryData packed, struct tarry_task *out) {
    static const uint8_t nothing[1];
    out->payload = nothing;
    if (packed.len == 0) return true;
    Tarry__Content *content = content_unpack(arena, packed.len, packed.data);
    if (content == NULL) return false;
    if (content->payload.len > 0) {
        out->payload = content->payload.data;
        out->payload_size = content->payload.len;
    }
    if (content->properties.len > 0) {
        out->properties = content->properties.data;
        out->properties_size = content->properties.len;
    }
    if (content->n_attributes == 0) return true;
    struct tarry_attribute *attributes = arena_alloc(arena, content->n_attributes * sizeof(*attributes));
    if (attributes == NULL) return false;
    for (size_t i = 0; i < content->n_attributes; i++)
        attributes[i] = (struct tarry_attribute){content->attributes[i]->name, content->attributes[i]->value};
    out->attributes = attributes;
    out->attribute_count = content->n_attributes;
    return true;
}

static bool fill_task(struct arena *arena, const Tarry__DeliveredTask *from, uint64_t delivered_ms,
                      uint64_t received_ms, struct tarry_task *out) {
    *out = (struct tarry_task){
        .id = from->id,
        .queue = from->queue,
        .key_size = from->key.len,
        .due_ms = from->due_ms,
        .delivered_ms = delivered_ms,
        .received_ms = received_ms,
        .lease_deadline_ms = from->lease_deadline_ms,
        .attempt = from->attempt,
        .deliveries = from->deliveries,
        .priority = from->priority,
    };
    if (from->token != NULL) out->token = (struct tarry_token){from->token->epoch, from->token->position};
    if (from->key.len > 0 && (out->key = copy_text(arena, from->key)) == NULL) return false;
    return out->id != 0 && fill_content(arena, from->content, out);
}

/* Unpacks a message. NULL: damaged, or out of memory; then the message counts as lost, and its leases expire. */
static struct delivery_box *unpack(const uint8_t *data, size_t size, uint64_t received_ms, uint64_t *out_session,
                                   struct held_task **out_tasks, size_t *out_count) {
    struct delivery_box *box = malloc(sizeof(*box));
    if (box == NULL) return NULL;
    /* The first block of memory grows with the message, because the smallest task takes about 15 bytes on the wire and
     * about 500 in memory. */
    arena_init(&box->arena, 4096 + 40 * size);
    atomic_init(&box->references, 1);
    Tarry__Delivery *delivery = delivery_unpack(&box->arena, size, data);
    if (delivery == NULL) goto damaged;
    struct held_task *tasks = arena_alloc(&box->arena, (delivery->n_tasks + 1) * sizeof(*tasks));
    if (tasks == NULL) goto damaged;
    for (size_t i = 0; i < delivery->n_tasks; i++) {
        tasks[i].box = box;
        tasks[i].next = NULL;
        if (!fill_task(&box->arena, delivery->tasks[i], delivery->delivered_ms, received_ms, &tasks[i].task))
            goto damaged;
    }
    *out_session = delivery->session;
    *out_tasks = tasks;
    *out_count = delivery->n_tasks;
    return box;
damaged:
    box_drop(box);
    return NULL;
}

/* Adds the lease to the set of held leases. False: the task is or was in the set. */
static bool hold(tarry_consumer *consumer, const struct tarry_task *task, uint64_t now) {
    uint64_t lease_ms = task->lease_deadline_ms > task->delivered_ms ? task->lease_deadline_ms - task->delivered_ms : 0;
    struct held_entry entry = {.id = task->id, .token = task->token, .until_ms = now + lease_ms};
    if (consumer->held.count > HELD_SWEEP_COUNT && consumer->held.count * 2 + 2 > consumer->held.capacity)
        held_sweep(&consumer->held, now);
    return held_take(&consumer->held, entry);
}

void delivery_take(tarry_consumer *consumer, const uint8_t *data, size_t size) {
    uint64_t session, now = now_ms();
    struct held_task *tasks;
    size_t count;
    struct delivery_box *box = unpack(data, size, wall_ms(), &session, &tasks, &count);
    if (box == NULL) return;
    pthread_mutex_lock(&consumer->lock);
    for (size_t i = 0; i < count && session != 0 && session == consumer->current; i++) {
        if (!hold(consumer, &tasks[i].task, now)) continue;
        atomic_fetch_add_explicit(&box->references, 1, memory_order_relaxed);
        if (consumer->last != NULL)
            consumer->last->next = &tasks[i];
        else
            consumer->first = &tasks[i];
        consumer->last = &tasks[i];
    }
    if (consumer->first != NULL) pthread_cond_broadcast(&consumer->arrived);
    if (consumer->first != NULL && consumer->handler != NULL && consumer->client->dispatch.on)
        dispatch_signal(consumer->client);
    pthread_mutex_unlock(&consumer->lock);
    box_drop(box);
}

void deliveries_forget(tarry_consumer *consumer) {
    while (consumer->first != NULL) {
        struct held_task *next = consumer->first->next;
        box_drop(consumer->first->box);
        consumer->first = next;
    }
    consumer->last = NULL;
    held_clear(&consumer->held);
}
