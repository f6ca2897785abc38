/* overdue.c: see overdue.h. */
#include "overdue.h"

#include <string.h>

#include "effects.h"
#include "leases.h"
#include "queues.h"
#include "tasks.h"

/* Number of queues per frame; a queue's record has at most about 2 KiB, so 64 records fit into a frame. */
#define QUEUES_PER_FRAME 64u

static const char reason_spread[] = "overdue after an outage: spread";

/* Returns true if the outage was long enough for the policy to apply to some task. */
static bool is_concerned(const struct core *core, const struct instant *since, const Tarry__Policy *policy) {
    uint64_t longest_ms = 0;
    for (uint8_t base = 0; base < ROW_BASES; base++) {
        const uint64_t from_ns = base == ROW_WALL ? since->wall_ns : since->steady_ns;
        const uint64_t from_ms = from_ns / 1000000, to_ms = base_ms(core, base);
        if (to_ms > from_ms && to_ms - from_ms > longest_ms) longest_ms = to_ms - from_ms;
    }
    if (policy->overdue_spread_ms) return longest_ms > 0;
    bool may_die = policy->overdue_dead_ms && longest_ms > policy->overdue_dead_ms;
    return may_die || (policy->overdue_expire_ms && longest_ms > policy->overdue_expire_ms);
}

/* Adds the outage and the queue's present overdue policy to the queue's record (QueuePut.overdue). Drops the oldest
 * outage if the record is full. */
static void judge_queue(struct draft *draft, const struct queue *queue, const struct instant *since) {
    const struct core *core = draft->core;
    Tarry__QueuePut *put = draft_queue(draft, queue);
    const size_t kept = put->n_overdue < OVERDUES_MAX ? put->n_overdue : OVERDUES_MAX - 1;
    Tarry__Overdue **all = must_alloc(draft->arena, OVERDUES_MAX * sizeof(Tarry__Overdue *));
    if (kept) memcpy(all, put->overdue + (put->n_overdue - kept), kept * sizeof(Tarry__Overdue *));
    Tarry__Overdue *overdue = must_alloc(draft->arena, sizeof *overdue);
    tarry__overdue__init(overdue);
    overdue->after_steady_ms = since->steady_ns / 1000000;
    overdue->until_steady_ms = base_ms(core, ROW_STEADY);
    overdue->after_wall_ms = since->wall_ns / 1000000;
    overdue->until_wall_ms = base_ms(core, ROW_WALL);
    overdue->id_end = core->tally.next_id;
    overdue->overdue_expire_ms = queue->policy.overdue_expire_ms;
    overdue->overdue_dead_ms = queue->policy.overdue_dead_ms;
    overdue->overdue_spread_ms = queue->policy.overdue_spread_ms;
    all[kept] = overdue;
    put->overdue = all;
    put->n_overdue = kept + 1;
}

void overdue_start(struct core *core, const struct instant *since, struct core_effects *effects) {
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, QUEUES_PER_FRAME);
    for (uint32_t place = 1; core->overdue_queues && place < core->tally.next_queue; place++) {
        const struct queue *queue = &core->queues[place];
        const Tarry__Policy *policy = &queue->policy;
        bool is_judged = !queue->deleted && overdue_is_set(policy) && !policy->lease_before_due &&
                         queue_waiting(core, queue) && is_concerned(core, since, policy);
        if (!is_judged) continue;
        judge_queue(&draft, queue, since);
        if (draft.record_count < QUEUES_PER_FRAME) continue;
        draft_commit(&draft, NULL, effects);
        draft_init(&draft, core, effects->arena, NULL, QUEUES_PER_FRAME);
    }
    draft_commit(&draft, NULL, effects);
}

/* Returns the judgement that concerns the task; NULL: none (OVERDUE-1). */
static const struct overdue *judgement_of(const struct queue *queue, const struct row *row) {
    for (uint32_t i = 0; i < queue->overdue_count; i++) {
        const struct overdue *overdue = &queue->overdues[i];
        bool is_in = row->due_ms > overdue->after_ms[row->base] && row->due_ms <= overdue->until_ms[row->base];
        if (is_in && row->id < overdue->id_end) return overdue;
    }
    return NULL;
}

/* Returns the new due time of a task that fell due in the outage: a pseudo-random time within `spread_ms` after the
 * outage. It is at least 1 ms after the outage, so that the policy is applied to the task only once. */
static uint64_t spread_to(const struct overdue *overdue, const struct row *row) {
    const uint64_t seed[2] = {row->id, overdue->until_ms[ROW_STEADY]};
    return overdue->until_ms[row->base] + 1 + frame_sum(seed, sizeof seed) % overdue->spread_ms;
}

bool overdue_judge(struct draft *draft, const struct queue *queue, const struct known *known) {
    const struct row *before = &known->row;
    const struct overdue *overdue = judgement_of(queue, before);
    if (!overdue) return false;
    const uint64_t late_ms = overdue->until_ms[before->base] - before->due_ms;
    if (overdue->expire_ms && late_ms > overdue->expire_ms) {
        draft_end(draft, TARRY__CAUSE__CAUSE_EXPIRED, known);
        return true;
    }
    struct row row = *before;
    if (overdue->dead_ms && late_ms > overdue->dead_ms) {
        row_bury(draft->core, &row, reason_overdue);
        draft_put(draft, TARRY__CAUSE__CAUSE_BURIED, known, &row);
        return true;
    }
    if (!overdue->spread_ms) return false;
    row.due_ms = spread_to(overdue, before);
    /* The time within the spread has passed, too, so the task is delivered now. */
    if (row.due_ms <= base_ms(draft->core, row.base)) return false;
    row.spread_ms = 0;
    Tarry__TaskPut *put = draft_put(draft, TARRY__CAUSE__CAUSE_MOVED, known, &row);
    put->reason = (ProtobufCBinaryData){.data = (uint8_t *)reason_spread, .len = sizeof reason_spread - 1};
    return true;
}
