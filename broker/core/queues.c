/* queues.c: see queues.h. */
#include "queues.h"

#include <string.h>

#include "near.h"

static size_t name_slot(const char *name) {
    return row_key_hash(0, name, strlen(name)) & (NAME_TABLE_SIZE - 1);
}

struct queue *queue_find(const struct core *core, const char *name) {
    if (!name || !*name) return NULL;
    uint32_t number = core->queue_names[name_slot(name)];
    while (number && strcmp(core->queues[number].name, name) != 0) number = core->queues[number].by_name_next;
    return number ? &core->queues[number] : NULL;
}

struct queue *queue_find_live(const struct core *core, const char *name) {
    struct queue *queue = queue_find(core, name);
    return queue && !queue->deleted ? queue : NULL;
}

uint64_t queue_waiting(const struct core *core, const struct queue *queue) {
    const struct queue_tally *tally = &core->tally.queues[queue->number];
    uint64_t waiting = queue->ahead_count;
    for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++)
        waiting += tally->waiting[i / PRIORITY_COUNT][i % PRIORITY_COUNT];
    return waiting;
}

uint64_t queue_in_flight(const struct core *core, const struct queue *queue) {
    return core->tally.queues[queue->number].in_flight - queue->ahead_count;
}

static void queue_init(struct core *core, struct queue *queue, const Tarry__QueuePut *put) {
    queue->number = put->number;
    memcpy(queue->name, put->name, strlen(put->name) + 1);
    TAILQ_INIT(&queue->willing);
    TAILQ_INIT(&queue->takers);
    queue->pause_timer.kind = TIMER_PAUSE;
    for (uint8_t base = 0; base < ROW_BASES; base++) {
        for (uint8_t priority = 0; priority < PRIORITY_COUNT; priority++) {
            line_init(&queue->lines[base][priority], queue->number, base, priority);
        }
    }
    size_t slot = name_slot(queue->name);
    queue->by_name_next = core->queue_names[slot];
    core->queue_names[slot] = queue->number;
}

/* `put->policy` may be the policy that the queue has. */
static void take_policy(struct core *core, struct queue *queue, const Tarry__QueuePut *put) {
    const bool was_pushed = !queue->deleted && queue->push[0], is_pushed = !put->deleted && put->policy->push[0];
    core->push_count += (uint32_t)is_pushed - (uint32_t)was_pushed;
    core->push_version += was_pushed != is_pushed || strcmp(queue->push, put->policy->push) != 0;
    queue->policy = *put->policy;
    queue->policy.base.n_unknown_fields = 0; /* they are the record's */
    queue->policy.base.unknown_fields = NULL;
    memmove(queue->push, put->policy->push, strlen(put->policy->push) + 1);
    queue->policy.push = queue->push;
}

uint64_t core_push_version(const struct core *core) {
    return core->push_version;
}

int queue_apply(struct core *core, const Tarry__QueuePut *put) {
    size_t name_size = put->name ? strlen(put->name) : 0;
    if (!put->number || put->number > QUEUES_MAX || !name_size || name_size > QUEUE_NAME_SIZE_MAX || !put->policy) {
        return CORE_NONSENSE;
    }
    if (strlen(put->policy->push) > PUSH_URL_SIZE_MAX) return CORE_NONSENSE;
    struct queue *queue = &core->queues[put->number];
    if (!queue->number) {
        if (queue_find(core, put->name)) return CORE_NONSENSE;
        queue_init(core, queue, put);
    } else if (strcmp(queue->name, put->name) != 0) {
        return CORE_NONSENSE;
    }
    if (put->deleted && (queue->job_count || queue->willing_count)) return CORE_NONSENSE;
    if (put->deleted) { /* as its other counts: tally.c */
        queue->lateness_us = (struct histogram){0};
        queue->lateness = (struct durations){0};
    }
    take_policy(core, queue, put);
    queue->deleted = put->deleted;
    queue->paused = put->paused;
    queue->paused_until_ms = put->paused ? put->paused_until_ms : 0;
    queue->hash = queue_hash(put);
    struct wheel *wheel = &core->wheels[ROW_STEADY];
    wheel_cancel(wheel, &queue->pause_timer.wheel);
    if (queue->paused_until_ms) wheel_arm(wheel, &queue->pause_timer.wheel, queue->paused_until_ms, 0);
    near_update_serving(core, queue);
    return 0;
}
