/* gate.c: see gate.h. */
#include "gate.h"

static uint64_t period_ms_of(const Tarry__Policy *policy) {
    return policy->rate_period_ms ? policy->rate_period_ms : RATE_PERIOD_DEFAULT_MS;
}

/* Returns how many tasks the rate allows in `span_ms`, rounded up. */
static uint64_t allowed_in(const Tarry__Policy *policy, uint64_t span_ms) {
    const uint64_t period_ms = period_ms_of(policy);
    return (policy->rate * span_ms + period_ms - 1) / period_ms;
}

static uint32_t burst_of(const Tarry__Policy *policy) {
    return policy->burst ? policy->burst : (uint32_t)allowed_in(policy, RATE_BURST_DEFAULT_MS);
}

bool gate_rates_equal(const Tarry__Policy *a, const Tarry__Policy *b) {
    return a->rate == b->rate && a->burst == b->burst && period_ms_of(a) == period_ms_of(b);
}

const char *gate_problem(const Tarry__Policy *policy) {
    if (!policy->rate) return NULL; /* a burst without a rate is allowed: it takes effect when a rate is set */
    if (policy->burst && policy->burst < allowed_in(policy, RATE_BURST_MIN_MS))
        return "burst is too small for this rate: it must be at least the number of tasks that the rate allows in 2 ms";
    if (policy->burst > 1 && policy->burst > allowed_in(policy, RATE_BURST_MAX_MS))
        return "burst is too large for this rate: it must be at most the number of tasks that the rate allows in 24 "
               "hours";
    return NULL;
}

static uint64_t interval_ns(const Tarry__Policy *policy) { /* time in which the bucket gains a token, rounded up */
    const uint64_t period_ns = period_ms_of(policy) * 1000000;
    return (period_ns + policy->rate - 1) / policy->rate;
}

static uint32_t tokens(const struct core *core, const struct queue *queue) {
    const uint64_t now_ns = core->now.steady_ns, each_ns = interval_ns(&queue->policy);
    const uint32_t burst = burst_of(&queue->policy);
    if (queue->bucket_full_ns <= now_ns) return burst;
    const uint64_t missing = (queue->bucket_full_ns - now_ns + each_ns - 1) / each_ns;
    return missing < burst ? burst - (uint32_t)missing : 0;
}

uint32_t gate_room(const struct core *core, const struct queue *queue) {
    const Tarry__Policy *policy = &queue->policy;
    uint32_t room = UINT32_MAX;
    if (policy->max_in_flight) {
        const uint64_t leased = core->tally.queues[queue_place(queue->number)].in_flight;
        room = leased < policy->max_in_flight ? policy->max_in_flight - (uint32_t)leased : 0;
    }
    if (!policy->rate) return room;
    const uint32_t held = tokens(core, queue);
    return held < room ? held : room;
}

bool gate_is_open(const struct core *core, const struct queue *queue) {
    if (!gate_limits(queue)) return true;
    return !wheel_is_armed(&queue->gate_timer.wheel) && gate_room(core, queue) > 0;
}

void gate_use(struct core *core, struct queue *queue, uint32_t count) {
    if (!queue->policy.rate) return;
    assert(count <= tokens(core, queue)); /* HERD-1 */
    const uint64_t now_ns = core->now.steady_ns;
    if (queue->bucket_full_ns < now_ns) queue->bucket_full_ns = now_ns;
    queue->bucket_full_ns += count * interval_ns(&queue->policy);
}

void gate_reset(struct core *core, struct queue *queue) {
    wheel_cancel(&core->wheels[ROW_STEADY], &queue->gate_timer.wheel);
    queue->bucket_full_ns = 0;
    if (queue->policy.rate)
        queue->bucket_full_ns = core->now.steady_ns + burst_of(&queue->policy) * interval_ns(&queue->policy);
}

void gate_wait(struct core *core, struct queue *queue, bool is_wanted) {
    struct wheel_timer *timer = &queue->gate_timer.wheel;
    if (!is_wanted || !queue->policy.rate) {
        wheel_cancel(&core->wheels[ROW_STEADY], timer);
        return;
    }
    if (wheel_is_armed(timer) || tokens(core, queue) > 0) return;
    const uint64_t before_full_ns = (burst_of(&queue->policy) - 1) * interval_ns(&queue->policy);
    wheel_arm(&core->wheels[ROW_STEADY], timer, round_up_ms(queue->bucket_full_ns - before_full_ns), 0);
}
