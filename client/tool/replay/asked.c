/* asked.c: see asked.h. */
#include "asked.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"

#define NS_PER_MS 1000000u

struct asked *asked_new(const struct entry *entry) {
    struct asked *asked = tool_alloc(sizeof *asked);
    *asked = (struct asked){.at = moment_of(entry->header),
                            .position = entry->header->position,
                            .atomic = entry->body->atomic && entry->body->producer != 0};
    return asked;
}

void asked_free(struct asked *asked) {
    if (asked == NULL) return;
    free(asked->items);
    free(asked);
}

struct ask *asked_add(struct asked *asked, enum ask_kind kind, struct plan *plan, struct life *life) {
    if (asked->items == NULL || asked->count == asked->capacity) {
        asked->capacity = asked->capacity > 0 ? 2 * asked->capacity : 4;
        struct ask *grown = tool_alloc(asked->capacity * sizeof *grown);
        if (asked->items != NULL) memcpy(grown, asked->items, asked->count * sizeof *grown);
        free(asked->items);
        asked->items = grown;
    }
    struct ask *ask = &asked->items[asked->count++];
    *ask = (struct ask){.kind = kind, .plan = plan, .life = life};
    return ask;
}

static uint64_t until(const struct asked *asked, uint64_t ms) {
    uint64_t now_ms = (asked->at.steady_ns + NS_PER_MS - 1) / NS_PER_MS;
    return ms > now_ms ? ms - now_ms : 0;
}

static void take_when(const struct asked *asked, struct ask *ask, const Tarry__Task *task) {
    ask->absolute = task->time_base == TARRY__TASK__BASE__WALL;
    ask->ms = ask->absolute ? task->due_ms : until(asked, task->due_ms);
}

static void take_put(struct asked *asked, const struct entry *entry, struct plan *plan, struct life *life) {
    const Tarry__Task *task = entry->record->put->task;
    enum entry_kind kind = entry_kind(entry);
    if (kind == ENTRY_SCHEDULED) {
        const struct ask *before = asked->count > 0 ? &asked->items[asked->count - 1] : NULL;
        bool replaces = before != NULL && before->kind == ASK_SCHEDULE && before->life == NULL;
        struct ask *ask = replaces ? &asked->items[asked->count - 1] : asked_add(asked, ASK_SCHEDULE, plan, life);
        ask->life = life;
        ask->replaces = replaces;
        ask->priority = task->priority;
        ask->expires_ms = task->expires_ms;
        take_when(asked, ask, task);
    } else if (kind == ENTRY_MOVED) {
        take_when(asked, asked_add(asked, ASK_MOVE, plan, life), task);
    } else if (kind == ENTRY_REQUEUED) {
        asked_add(asked, ASK_REQUEUE, plan, life);
    }
}

static void take_end(struct asked *asked, const struct entry *entry, struct plan *plan, struct life *life) {
    enum entry_kind kind = entry_kind(entry);
    if (kind == ENTRY_CANCELLED || kind == ENTRY_WITHDRAWN)
        asked_add(asked, ASK_CANCEL, plan, life)->withdraw = kind == ENTRY_WITHDRAWN;
    else if (kind == ENTRY_DROPPED)
        asked_add(asked, ASK_DROP, plan, life);
    else if (kind == ENTRY_REPLACED)
        asked_add(asked, ASK_SCHEDULE, plan, NULL); /* asked_add sets the task when the next record names it */
}

static void take_queue(struct asked *asked, const struct entry *entry, struct plan *plan) {
    const Tarry__QueuePut *put = entry->record->queue;
    if (put->deleted) return; /* the queue was empty, so no task is affected */
    struct ask *ask = asked_add(asked, ASK_QUEUE, plan, NULL);
    ask->policy = plan_recorded(put->policy);
    ask->pauses = put->paused || plan->paused;
    ask->paused = put->paused;
    if (put->paused && put->paused_until_ms != 0) {
        ask->ms = until(asked, put->paused_until_ms);
        ask->ms += ask->ms == 0;
    }
}

void asked_take(struct asked *asked, const struct entry *entry, struct plan *plan, struct life *life) {
    bool by_client = entry->body->producer != 0;
    bool is_new = entry->record->fact_case == TARRY__RECORD__FACT_QUEUE && entry_queue_is_new(entry->record->queue);
    if (!by_client && !is_new) return;
    const Tarry__JobPut *job;
    switch (entry->record->fact_case) {
    case TARRY__RECORD__FACT_PUT:
        if (life != NULL) take_put(asked, entry, plan, life);
        break;
    case TARRY__RECORD__FACT_END:
        if (life != NULL || entry_kind(entry) == ENTRY_REPLACED) take_end(asked, entry, plan, life);
        break;
    case TARRY__RECORD__FACT_QUEUE:
        take_queue(asked, entry, plan);
        break;
    case TARRY__RECORD__FACT_JOB:
        job = entry->record->job;
        struct ask *ask = asked_add(asked, ASK_JOB, plan, NULL);
        ask->what = job->what;
        ask->states = job->states;
        break;
    default:
        break;
    }
}
