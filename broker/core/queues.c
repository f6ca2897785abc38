/* queues.c: see queues.h. */
#include "queues.h"

#include <string.h>

#include "near.h"
#include "push.h"

static size_t name_slot(const char *name) {
    return row_key_hash(0, name, strlen(name)) & (NAME_TABLE_SIZE - 1);
}

struct queue *queue_find(const struct core *core, const char *name) {
    if (!name || !*name) return NULL;
    uint32_t number = core->queue_names[name_slot(name)];
    while (number && strcmp(core->queues[number].name, name) != 0) number = core->queues[number].by_name_next;
    return number ? &core->queues[number] : NULL;
}

static void queue_init(struct core *core, struct queue *queue, const Tarry__QueuePut *put) {
    queue->number = put->number;
    memcpy(queue->name, put->name, strlen(put->name) + 1);
    TAILQ_INIT(&queue->subscriptions);
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

int queue_apply(struct core *core, const Tarry__QueuePut *put) {
    size_t name_size = put->name ? strlen(put->name) : 0;
    if (!put->number || put->number > QUEUES_MAX || !name_size || name_size > QUEUE_NAME_SIZE_MAX || !put->policy) {
        return CORE_NONSENSE;
    }
    struct queue *queue = &core->queues[put->number];
    if (!queue->number) {
        if (queue_find(core, put->name)) return CORE_NONSENSE;
        queue_init(core, queue, put);
    } else if (strcmp(queue->name, put->name) != 0) {
        return CORE_NONSENSE;
    }
    queue->policy = *put->policy;
    queue->paused = put->paused;
    queue->paused_until_ms = put->paused ? put->paused_until_ms : 0;
    queue->hash = queue_hash(put);
    struct wheel *wheel = &core->wheels[ROW_STEADY];
    wheel_cancel(wheel, &queue->pause_timer.wheel);
    if (queue->paused_until_ms) wheel_arm(wheel, &queue->pause_timer.wheel, queue->paused_until_ms, 0);
    near_update_serving(core, queue);
    return 0;
}

struct queue *queue_need(struct core *core, const char *name, struct core_effects *effects, Tarry__Code *out_code,
                         const char **out_message) {
    struct queue *queue = queue_find(core, name);
    if (queue) return queue;
    if (!core->options.create_queues) {
        *out_code = TARRY__CODE__NO_SUCH_QUEUE;
        *out_message = "there is no such queue, and this broker is configured not to create queues on first use";
        return NULL;
    }
    if (core->tally.next_queue > QUEUES_MAX) {
        *out_code = TARRY__CODE__TOO_LARGE;
        *out_message = "the broker has as many queues as it can hold (QUEUES_MAX)";
        return NULL;
    }
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, 1);
    Tarry__QueuePut *put = must_alloc(effects->arena, sizeof *put);
    tarry__queue_put__init(put);
    put->number = core->tally.next_queue;
    put->name = (char *)name;
    put->policy = &core->options.policy;
    Tarry__Record *record = draft_record(&draft);
    record->fact_case = TARRY__RECORD__FACT_QUEUE;
    record->queue = put;
    draft_commit(&draft, NULL, effects);
    return &core->queues[put->number];
}

void queue_pause_over(struct core *core, struct queue *queue, struct core_effects *effects) {
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, 1);
    Tarry__QueuePut *put = draft_queue(&draft, queue);
    put->paused = false;
    put->paused_until_ms = 0;
    draft_commit(&draft, NULL, effects);
}
