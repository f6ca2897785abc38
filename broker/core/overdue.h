/* overdue.h: what happens to tasks that fell due while no broker served (OVERDUE-1; docs/HERDS.md, policies overdue_…).
 *
 * A start records each outage once, in the record of each queue with such a policy (QueuePut.overdue). It records the
 * time of the outage (from the last record of the former run to the start) and the queue's policy at the start. The
 * policy is applied to a task when the task would be delivered: the task expires, becomes a dead letter, or is moved.
 * So no start waits for a scan of the index. A restart or a promotion applies the recorded policy too.
 *
 * The policy is not applied to two kinds of tasks. A task that was due before the outage waited for slow consumers,
 * not for the broker. A task that was scheduled after the outage did not wait for the broker either. While a queue
 * has such a policy, the log gets a frame each OVERDUE_MARK_MS, so that an idle log is not mistaken for an outage. */
#ifndef TARRY_CORE_OVERDUE_H
#define TARRY_CORE_OVERDUE_H

#include "draft.h"

#define OVERDUE_MARK_MS 1000u

/* Returns true if a policy of the queue concerns overdue tasks. */
static inline bool overdue_is_set(const Tarry__Policy *policy) {
    return policy->overdue_expire_ms || policy->overdue_dead_ms || policy->overdue_spread_ms;
}
/* Records the judgements of the outage that ends with this start. `since`: time of the former run's last frame. */
void overdue_start(struct core *core, const struct instant *since, struct core_effects *effects);
/* Carries out a judgement on a ready task that is about to be delivered, by a record in the draft. Returns false if no
 * judgement concerns the task; then it may be leased. */
bool overdue_judge(struct draft *draft, const struct queue *queue, const struct known *known);

#endif
