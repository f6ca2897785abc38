/* queues.c: see queues.h. */
#include "queues.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "frame.h"
#include "gate.h"
#include "groups.h"
#include "near.h"
#include "overdue.h"
#include "pending.h"
#include "slots.h"

static size_t name_slot(const struct core *core, const char *name) {
    return hash_slot(row_key_hash(0, name, strlen(name)), core->salt, NAME_TABLE_SIZE - 1);
}

struct queue *queue_find(const struct core *core, const char *name) {
    if (!name || !*name) return NULL;
    uint32_t place = core->queue_names[name_slot(core, name)];
    while (place && strcmp(core->queues[place].name, name) != 0) place = core->queues[place].by_name_next;
    return place ? &core->queues[place] : NULL;
}

struct queue *queue_find_live(const struct core *core, const char *name) {
    struct queue *queue = queue_find(core, name);
    return queue && !queue->deleted ? queue : NULL;
}

bool queue_has_place(const struct core *core, uint32_t number) {
    return queue_number_is_valid(number) && queue_at(core, number)->number == number;
}

/* Returns true if a new queue may take this place in the table of queues (CAP-1). The place of a deleted queue stays
 * reserved while outcomes of the queue are remembered, because they are reported by its name. */
static bool is_free(const struct core *core, uint32_t place) {
    if (!core->deletions[place]) return false;
    const uint32_t number = core->queues[place].number;
    if (queue_generation(number) == QUEUE_GENERATION_MAX) return false;
    return !outcomes_of_queue(core->outcomes, number) || core->queues[place].forgets;
}

/* Returns the order of a free place: the place with the lowest result is taken first. Places without remembered
 * outcomes come before places whose outcomes will be forgotten (QueueDelete.forget). Within each group, the place whose
 * queue was deleted longest ago comes first. */
static uint64_t free_rank(const struct core *core, uint32_t place) {
    const uint64_t last = 1ull << 63;
    return core->deletions[place] + (outcomes_of_queue(core->outcomes, core->queues[place].number) ? last : 0);
}

static int compare_ranks(const void *one, const void *other) {
    const struct free_place *first = one, *second = other;
    return first->rank < second->rank ? -1 : first->rank > second->rank;
}

static void find_free_places(struct core *core) {
    struct free_places *free_places = &core->free_places;
    free_places->is_known = true;
    free_places->at = free_places->count = free_places->taken = 0;
    outcomes_expire(core->outcomes, steady_ms(core));
    for (uint32_t place = 1; place < core->tally.next_queue; place++, core->visits++) {
        if (is_free(core, place))
            free_places->items[free_places->count++] = (struct free_place){free_rank(core, place), place};
    }
    if (free_places->count) qsort(free_places->items, free_places->count, sizeof *free_places->items, compare_ranks);
}

uint32_t queue_new_number(struct core *core, bool is_own) {
    struct free_places *free_places = &core->free_places;
    const uint32_t places = (core->options.queues_max ? core->options.queues_max : QUEUES_MAX) + QUEUES_OWN;
    const uint32_t fresh = places + 1 > core->tally.next_queue ? places + 1 - core->tally.next_queue : 0;
    const uint32_t own_left = core->own_queue_count < QUEUES_OWN ? QUEUES_OWN - core->own_queue_count : 0;
    const uint32_t kept = is_own ? 0 : own_left;
    if (fresh > kept) return core->tally.next_queue;
    if (!free_places->is_known) find_free_places(core);
    for (; free_places->taken && !is_free(core, free_places->items[free_places->at].place); core->visits++) {
        free_places->at++;
        free_places->taken--;
    }
    if (fresh + free_places->count - free_places->at - free_places->taken <= kept) return 0;
    const uint32_t oldest = free_places->items[free_places->at].place;
    assert(free_places->at < free_places->count && is_free(core, oldest));
    return queue_number(oldest, queue_generation(core->queues[oldest].number) + 1);
}

uint32_t queue_count_of(struct core *core, const char *principal) {
    struct owner_count *counted = &core->owner_count;
    const uint64_t owner = principal_owner(principal);
    if (!counted->is_known || counted->owner != owner) {
        *counted = (struct owner_count){.is_known = true, .owner = owner};
        for (uint32_t place = 1; place < core->tally.next_queue; place++, core->visits++)
            counted->count += core->queue_owners[place] == owner && !core->deletions[place];
    }
    return owner ? counted->count : counted->count - core->own_queue_count;
}

uint64_t queue_waiting(const struct core *core, const struct queue *queue) {
    const struct queue_tally *tally = &core->tally.queues[queue_place(queue->number)];
    uint64_t waiting = queue->ahead_count;
    for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++)
        waiting += tally->waiting[i / PRIORITY_COUNT][i % PRIORITY_COUNT];
    return waiting;
}

uint64_t queue_in_flight(const struct core *core, const struct queue *queue) {
    return core->tally.queues[queue_place(queue->number)].in_flight - queue->ahead_count;
}

static void queue_init(struct core *core, struct queue *queue, const Tarry__QueuePut *put) {
    pending_outdate(&core->pending);
    queue->number = put->number;
    memcpy(queue->name, put->name, strlen(put->name) + 1);
    TAILQ_INIT(&queue->willing);
    TAILQ_INIT(&queue->takers);
    TAILQ_INIT(&queue->groups);
    queue->pause_timer.kind = TIMER_PAUSE;
    queue->gate_timer.kind = TIMER_GATE;
    for (uint8_t base = 0; base < ROW_BASES; base++) {
        for (uint8_t priority = 0; priority < PRIORITY_COUNT; priority++) {
            line_init(&queue->lines[base][priority], queue->number, base, priority);
        }
    }
    size_t slot = name_slot(core, queue->name);
    queue->by_name_next = core->queue_names[slot];
    core->queue_names[slot] = queue_place(queue->number);
}

/* Removes a deleted queue from the name table, because another queue takes its place. */
static void queue_leave(struct core *core, struct queue *queue) {
    uint32_t *at = &core->queue_names[name_slot(core, queue->name)];
    while (*at != queue_place(queue->number)) at = &core->queues[*at].by_name_next;
    *at = queue->by_name_next;
    for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++)
        line_leave(core, &queue->lines[i / PRIORITY_COUNT][i % PRIORITY_COUNT]);
    outcomes_lose_queue(core->outcomes, queue->number);
    *queue = (struct queue){0};
}

/* Copies the policy. `put->policy` may be the queue's own policy. */
static void take_policy(struct core *core, struct queue *queue, const Tarry__QueuePut *put) {
    const bool was_pushed = !queue->deleted && queue->push[0], is_pushed = !put->deleted && put->policy->push[0];
    core->push_count += (uint32_t)is_pushed - (uint32_t)was_pushed;
    core->push_version += was_pushed != is_pushed || strcmp(queue->push, put->policy->push) != 0;
    queue->policy = *put->policy;
    /* The copy has no unknown fields, because their memory belongs to the record. */
    queue->policy.base.n_unknown_fields = 0;
    queue->policy.base.unknown_fields = NULL;
    memmove(queue->push, put->policy->push, strlen(put->policy->push) + 1);
    queue->policy.push = queue->push;
    memmove(queue->filter, put->policy->filter, strlen(put->policy->filter) + 1);
    queue->policy.filter = queue->filter;
    for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++)
        queue->lines[i / PRIORITY_COUNT][i % PRIORITY_COUNT].leases_early = queue->policy.lease_before_due;
}

uint64_t core_push_version(const struct core *core) {
    return core->push_version;
}

static bool is_sound(const Tarry__QueuePut *put) {
    const size_t name_size = put->name ? strlen(put->name) : 0;
    return queue_number_is_valid(put->number) && name_size && name_size <= QUEUE_NAME_SIZE_MAX && put->policy &&
           strlen(put->policy->push) <= PUSH_URL_SIZE_MAX && strlen(put->policy->filter) <= FILTER_SIZE_MAX &&
           strlen(put->creator) <= PRINCIPAL_SIZE_MAX && put->n_overdue <= OVERDUES_MAX;
}

/* Gives the place to the queue. Returns false if the record contradicts the state. */
static bool take_place(struct core *core, const Tarry__QueuePut *put) {
    struct queue *queue = queue_at(core, put->number);
    if (queue->number == put->number) return strcmp(queue->name, put->name) == 0;
    if (queue_find(core, put->name)) return false;
    if (queue->number) {
        const bool is_next = put->number == queue_number(queue_place(put->number), queue_generation(queue->number) + 1);
        if (!is_next || !queue->deleted || put->deleted) return false;
        queue_leave(core, queue);
    }
    queue_init(core, queue, put);
    return true;
}

static void count_queue(struct core *core, const struct queue *queue, const Tarry__QueuePut *put) {
    const uint32_t place = queue_place(put->number);
    const bool was_live = queue->is_counted, is_live = !put->deleted;
    const uint64_t owner = is_live && put->creator[0] ? principal_owner(put->creator) : 0;
    struct owner_count *counted = &core->owner_count;
    if (queue_is_reserved(put->name)) core->own_queue_count += (uint32_t)is_live - (uint32_t)was_live;
    if (was_live && core->queue_owners[place] == counted->owner) counted->count--;
    if (is_live && owner == counted->owner) counted->count++;
    core->queue_owners[place] = owner;
    if (is_live) core->deletions[place] = 0;
    if (!is_live && !core->deletions[place]) core->deletions[place] = ++core->deletion_last;
}

/* Copies the judgements of outages (overdue.h). */
static void take_overdues(struct queue *queue, const Tarry__QueuePut *put) {
    queue->overdue_count = (uint32_t)put->n_overdue;
    for (size_t i = 0; i < put->n_overdue; i++) {
        const Tarry__Overdue *from = put->overdue[i];
        queue->overdues[i] = (struct overdue){
            .after_ms = {[ROW_STEADY] = from->after_steady_ms, [ROW_WALL] = from->after_wall_ms},
            .until_ms = {[ROW_STEADY] = from->until_steady_ms, [ROW_WALL] = from->until_wall_ms},
            .id_end = from->id_end,
            .expire_ms = from->overdue_expire_ms,
            .dead_ms = from->overdue_dead_ms,
            .spread_ms = from->overdue_spread_ms,
        };
    }
}

int queue_apply(struct core *core, const Tarry__QueuePut *put) {
    if (!is_sound(put)) return CORE_NONSENSE;
    const bool was_free = core->free_places.is_known && is_free(core, queue_place(put->number));
    if (!take_place(core, put)) return CORE_NONSENSE;
    if (was_free && !put->deleted) core->free_places.taken++;
    struct queue *queue = queue_at(core, put->number);
    const bool is_used = queue->job_count || queue->recur_count || queue->willing_count || queue->group_count;
    if (put->deleted && is_used) return CORE_NONSENSE;
    if (put->deleted && put->n_overdue) return CORE_NONSENSE;
    take_overdues(queue, put);
    const bool turns_early = queue->hash && put->policy->lease_before_due != queue->policy.lease_before_due;
    /* decide_queue_set refuses this change, so the record is damaged. */
    if (turns_early && queue_waiting(core, queue)) return CORE_NONSENSE;
    if (put->deleted) { /* the counts of a deleted queue start at 0 again, as in tally.c */
        queue->delivered_told = 0;
        queue->lateness_us = (struct histogram){0};
        queue->lateness = (struct durations){0};
    }
    count_queue(core, queue, put);
    core->overdue_queues += (uint32_t)(!put->deleted && overdue_is_set(put->policy));
    core->overdue_queues -= (uint32_t)(queue->is_counted && overdue_is_set(&queue->policy));
    const bool is_other_rate = !gate_rates_equal(&queue->policy, put->policy);
    take_policy(core, queue, put);
    /* memmove, because the source may be the queue's own buffer. */
    memmove(queue->creator, put->creator, strlen(put->creator) + 1);
    queue->is_counted = !put->deleted;
    queue->deleted = put->deleted;
    queue->forgets = put->deleted && put->forgets;
    queue->paused = put->paused;
    queue->paused_until_ms = put->paused ? put->paused_until_ms : 0;
    queue->hash = queue_hash(put);
    struct wheel *wheel = &core->wheels[ROW_STEADY];
    wheel_cancel(wheel, &queue->pause_timer.wheel);
    if (queue->paused_until_ms) wheel_arm(wheel, &queue->pause_timer.wheel, queue->paused_until_ms, 0);
    if (is_other_rate) gate_reset(core, queue);
    groups_apply(core, queue);
    near_update_serving(core, queue);
    return 0;
}
