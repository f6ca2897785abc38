/* pack_queue.c: operations on whole queues, packed. */
#include "client.h"

#define POLICY_FIELDS_ALL (TARRY_POLICY_PUSH * 2 - 1)

int pack_queue_set(struct buffer *body, const char *queue, const struct tarry_policy *policy, uint32_t fields) {
    static const char *const names[] = {"lease_ms",       "max_attempts",   "backoff", "backoff_min_ms",
                                        "backoff_max_ms", "backoff_jitter", "push"};
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueSet set = TARRY__QUEUE_SET__INIT;
    Tarry__Policy wire = TARRY__POLICY__INIT;
    char *named[sizeof(names) / sizeof(names[0])];
    _Static_assert(sizeof(names) / sizeof(names[0]) == QUEUE_POLICY_FIELDS, "one name for each field of a policy");
    if (queue == NULL || policy == NULL || (fields & ~(uint32_t)POLICY_FIELDS_ALL) != 0) return TARRY_E_ARGUMENT;
    wire.lease_ms = policy->lease_ms;
    wire.max_attempts = policy->max_attempts;
    wire.backoff = policy->backoff_exponential ? TARRY__POLICY__BACKOFF__EXPONENTIAL : TARRY__POLICY__BACKOFF__FIXED;
    wire.backoff_min_ms = policy->backoff_min_ms;
    wire.backoff_max_ms = policy->backoff_max_ms;
    wire.backoff_jitter = policy->backoff_jitter;
    if ((fields & TARRY_POLICY_PUSH) != 0 && policy->push != NULL) wire.push = (char *)policy->push;
    for (size_t i = 0; i < QUEUE_POLICY_FIELDS; i++)
        if ((fields & 1u << i) != 0) named[set.n_fields++] = (char *)names[i];
    set.queue = (char *)queue;
    set.policy = &wire;
    set.fields = named;
    op.op_case = TARRY__OP__OP_QUEUE_SET;
    op.queue_set = &set;
    return pack_op(body, &op);
}

int pack_queue_pause(struct buffer *body, const char *queue, bool paused, uint64_t for_ms) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueuePause pause = TARRY__QUEUE_PAUSE__INIT;
    if (queue == NULL) return TARRY_E_ARGUMENT;
    pause.queue = (char *)queue;
    pause.paused = paused;
    pause.for_ms = for_ms;
    op.op_case = TARRY__OP__OP_QUEUE_PAUSE;
    op.queue_pause = &pause;
    return pack_op(body, &op);
}

int pack_queue_delete(struct buffer *body, const char *queue) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueueDelete delete = TARRY__QUEUE_DELETE__INIT;
    if (queue == NULL) return TARRY_E_ARGUMENT;
    delete.queue = (char *)queue;
    op.op_case = TARRY__OP__OP_QUEUE_DELETE;
    op.queue_delete = &delete;
    return pack_op(body, &op);
}

int pack_queue_purge(struct buffer *body, const char *queue, uint32_t states) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__QueuePurge purge = TARRY__QUEUE_PURGE__INIT;
    if (queue == NULL) return TARRY_E_ARGUMENT;
    const uint32_t all = TARRY_STATE_PENDING | TARRY_STATE_READY | TARRY_STATE_IN_FLIGHT | TARRY_STATE_DEAD;
    if ((states & ~all) != 0) return TARRY_E_ARGUMENT;
    purge.states = states;
    purge.queue = (char *)queue;
    op.op_case = TARRY__OP__OP_QUEUE_PURGE;
    op.queue_purge = &purge;
    return pack_op(body, &op);
}
