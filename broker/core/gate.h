/* gate.h: the limits of a queue's deliveries (HERD-1): `max_in_flight` tasks leased at once, and `rate` leases per
 * `rate_period_ms` with bursts of at most `burst`.
 *
 * The rate is a token bucket, stored as the time at which it will be full (the generic cell rate algorithm of ITU-T
 * I.371). In every window of w ms, at most burst + w * rate / rate_period_ms tasks are leased. The bucket is empty
 * after a start, a promotion and a change of the policy, so none of them causes a burst.
 *
 * A task that waits for a limit stays ready, and keeps its place in the order. A repeated delivery of the same lease
 * takes no token. A queue with a limit leases no task ahead of time (ahead.h), because such a lease would take a token
 * before the due time. */
#ifndef TARRY_CORE_GATE_H
#define TARRY_CORE_GATE_H

#include "state.h"

/* Returns whether the queue has a limit. */
static inline bool gate_limits(const struct queue *queue) {
    return queue->policy.rate || queue->policy.max_in_flight;
}

/* Returns the reason why the limits of the policy contradict each other; NULL: they do not. */
const char *gate_problem(const Tarry__Policy *policy);
/* Returns whether the two policies have the same rate and burst. */
bool gate_rates_equal(const Tarry__Policy *a, const Tarry__Policy *b);
/* Returns how many tasks the queue may lease now; UINT32_MAX: no limit. */
uint32_t gate_room(const struct core *core, const struct queue *queue);
/* Returns whether the limits permit the queue to lease a task. After the rate limit has stopped the queue, it may not
 * lease until `gate_timer` has expired. So the answer changes only with a lease, the end of a lease, the policy, or
 * that timer. */
bool gate_is_open(const struct core *core, const struct queue *queue);
/* Takes the tokens of `count` new leases. The caller then calls near_update_serving. */
void gate_use(struct core *core, struct queue *queue, uint32_t count);
/* Empties the bucket: at a start, a promotion or a change of the policy. */
void gate_reset(struct core *core, struct queue *queue);
/* Arms the timer for the queue's next rate token, if only this token is missing. `is_wanted` says that the queue has a
 * task and a consumer; otherwise the timer is cancelled. */
void gate_wait(struct core *core, struct queue *queue, bool is_wanted);

#endif
