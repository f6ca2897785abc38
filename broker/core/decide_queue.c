/* decide_queue.c: creation of queues on first use, policies, pauses, deletion, and jobs over a whole queue. */
#include <stdio.h>
#include <string.h>

#include "callers.h"
#include "check.h"
#include "decide.h"
#include "effects.h"
#include "gate.h"
#include "groups.h"
#include "near.h"
#include "wishes.h"

static void done(struct decision *d) {
    d->result->outcome = TARRY__OUTCOME__DONE;
}

/* Copies one field of a policy; check_op has checked it. */
static void take_field(Tarry__Policy *policy, const Tarry__Policy *from, const char *field) {
#define POLICY_NUMBER(name, ...)                                                                                       \
    if (!strcmp(field, #name)) policy->name = from->name;
#define POLICY_TEXT(name, ...)                                                                                         \
    if (!strcmp(field, #name)) policy->name = from->name;
#include "policy.def"
    if (!strcmp(field, "lease_before_due")) policy->lease_before_due = from->lease_before_due;
}

/* Returns true if one more queue may have a push URL. Counts the URLs added in this commit; those removed in it still
 * count until it is applied. */
static bool may_push(const struct decision *d) {
    return d->core->push_count + d->draft->pushes < PUSH_QUEUES_MAX;
}

/* Returns NULL if the policy lease_before_due may change, otherwise the reason why not. A change would move waiting
 * tasks between the heaps of pending and early tasks. So the queue must have no tasks, and no operation of this commit
 * may have changed tasks. */
static const char *keeps_early(const struct decision *d, const struct queue *queue) {
    /* A dead letter counts as a task here, because it may have a serial name, which a queue with lease_before_due must
     * not have. */
    const bool has_dead = d->core->tally.queues[queue_place(queue->number)].dead > 0;
    if (queue_waiting(d->core, queue) || queue_in_flight(d->core, queue) || has_dead)
        return "lease_before_due cannot change while the queue has tasks";
    return d->draft->has_tasks ? "lease_before_due must be set before the operations on tasks of its commit" : NULL;
}

void decide_queue_set(struct decision *d, const Tarry__QueueSet *set) {
    const struct queue *queue = d->queue;
    const Tarry__Policy *before = draft_queue_now(d->draft, queue);
    Tarry__Policy policy = *before;
    for (size_t i = 0; i < set->n_fields; i++) take_field(&policy, set->policy, set->fields[i]);
    const bool changes_early = policy.lease_before_due != before->lease_before_due;
    if (changes_early && !caller_may_all(d->caller)) {
        refuse_op(d, TARRY__CODE__DENIED, TARRY__OUTCOME__NONE, "lease_before_due: only the broker itself may set it");
        return;
    }
    const char *kept = changes_early ? keeps_early(d, queue) : NULL;
    if (kept) {
        refuse_op(d, TARRY__CODE__NOT_DONE, TARRY__OUTCOME__NONE, kept);
        return;
    }
    Tarry__Code code = TARRY__CODE__OK;
    const char *no_group =
        strcmp(policy.filter, before->filter)
            ? group_problem(d->core, queue->name, policy.filter, d->draft->groups, d->draft->arena, &code)
            : NULL;
    if (!no_group && policy.filter[0] && !before->filter[0] && (d->draft->has_tasks || d->draft->recur_count)) {
        no_group = "filter must be set before the operations on tasks of its commit";
        code = TARRY__CODE__INVALID;
    }
    if (no_group) {
        refuse_op(d, code, TARRY__OUTCOME__NONE, no_group);
        return;
    }
    if (policy.push[0] && queue->group_count) {
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE, "the queue has groups: set push on a group");
        return;
    }
    if (policy.lease_before_due && (queue->group_count || policy.filter[0])) {
        refuse_op(d, TARRY__CODE__NOT_DONE, TARRY__OUTCOME__NONE, "lease_before_due: the queue has groups, or is one");
        return;
    }
    if (policy.backoff_max_ms < policy.backoff_min_ms) {
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE, "backoff_max must not be shorter than backoff_min");
        return;
    }
    const char *problem = gate_problem(&policy);
    if (problem) {
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE, problem);
        return;
    }
    bool is_pushed_anew = policy.push[0] && !before->push[0];
    if (is_pushed_anew && !may_push(d)) {
        refuse_op(d, TARRY__CODE__TOO_LARGE, TARRY__OUTCOME__NONE,
                  "the maximum number of queues have push already (PUSH_QUEUES_MAX, 256): remove push from one first");
        return;
    }
    d->draft->pushes += is_pushed_anew;
    d->draft->groups += policy.filter[0] && !before->filter[0];
    *draft_queue(d->draft, queue)->policy = policy;
    done(d);
}

void decide_queue_pause(struct decision *d, const Tarry__QueuePause *pause) {
    Tarry__QueuePut *put = draft_queue(d->draft, d->queue);
    put->paused = pause->paused;
    put->paused_until_ms = pause->paused && pause->for_ms ? from_ms(d->core) + pause->for_ms : 0;
    d->result->at_ms = put->paused_until_ms;
    done(d);
}

/* Counts the queue's tasks in these states. A ready task that is only in the index counts as pending, because the core
 * knows only the states of tasks in memory. */
static uint64_t count_states(const struct core *core, const struct queue *queue, uint32_t states) {
    uint64_t ready = near_ready_count(queue) + near_parked_count(queue), count = 0;
    if (states & STATE_PENDING) count += queue_waiting(core, queue) - ready;
    if (states & STATE_READY) count += ready;
    if (states & STATE_IN_FLIGHT) count += queue_in_flight(core, queue);
    if (states & STATE_DEAD) count += core->tally.queues[queue_place(queue->number)].dead;
    return count;
}

void decide_job(struct decision *d, const char *queue_name, Tarry__JobPut__What what, uint32_t states) {
    const struct queue *queue = queue_find_live(d->core, queue_name);
    if (!queue) {
        refuse_op(d, TARRY__CODE__NO_SUCH_QUEUE, TARRY__OUTCOME__NONE, "the queue does not exist");
        return;
    }
    if (d->draft->has_job) {
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE,
                  "a commit may have only one purge, requeue or drop of a whole queue: send the others in commits of "
                  "their own");
        return;
    }
    if (d->core->job_count == JOBS_MAX) {
        refuse_op(d, TARRY__CODE__BUSY, TARRY__OUTCOME__NONE,
                  "the broker runs its maximum number of purges (JOBS_MAX, 64): try again when one has ended");
        return;
    }
    d->draft->has_job = true;
    Tarry__Record *record = draft_record(d->draft);
    record->fact_case = TARRY__RECORD__FACT_JOB;
    record->job = must_alloc(d->draft->arena, sizeof *record->job);
    tarry__job_put__init(record->job);
    record->job->job = d->core->position;
    record->job->what = what;
    record->job->queue = queue->number;
    record->job->states = states;
    record->job->id_end = d->draft->next_id;
    record->job->steady_ms = base_ms(d->core, ROW_STEADY);
    record->job->wall_ms = base_ms(d->core, ROW_WALL);
    if (d->draft->client) record->job->client = (char *)d->draft->client;
    if (d->draft->peer) record->job->peer = (char *)d->draft->peer;
    if (d->draft->principal) record->job->principal = (char *)d->draft->principal;
    d->result->count = count_states(d->core, queue, states);
    d->result->job = d->core->position;
    done(d);
}

void decide_queue_purge(struct decision *d, const Tarry__QueuePurge *purge) {
    decide_job(d, purge->queue, TARRY__JOB_PUT__WHAT__PURGE,
               purge->states ? purge->states : STATE_PENDING | STATE_READY);
}

/* Returns the reason why the queue cannot be deleted; NULL: it can. */
static char *not_deletable(struct decision *d, const struct queue *queue) {
    enum { SENTENCE_SIZE = 200 };
    const uint64_t waiting = queue_waiting(d->core, queue), in_flight = queue_in_flight(d->core, queue);
    const uint64_t dead = d->core->tally.queues[queue_place(queue->number)].dead;
    const uint32_t consumers = queue->consumer_count;
    char *sentence = must_alloc(d->draft->arena, SENTENCE_SIZE);
    if (waiting || in_flight || dead) {
        snprintf(sentence, SENTENCE_SIZE,
                 "the queue is not empty: %llu waiting, %llu in flight, %llu dead; purge it, drop its dead letters or "
                 "wait, then delete it",
                 (unsigned long long)waiting, (unsigned long long)in_flight, (unsigned long long)dead);
    } else if (queue->recur_count) {
        snprintf(sentence, SENTENCE_SIZE, "the queue has %u recurrences: delete them first (tarry recur delete)",
                 queue->recur_count);
    } else if (queue->job_count) {
        snprintf(sentence, SENTENCE_SIZE,
                 "%u purges, requeues or drops of the queue are still running: delete it when they have ended",
                 queue->job_count);
    } else if (queue->group_count) {
        snprintf(sentence, SENTENCE_SIZE, "the queue has %u groups: delete them first", queue->group_count);
    } else if (consumers) {
        snprintf(sentence, SENTENCE_SIZE, "%u consumers are subscribed to the queue: stop them first", consumers);
    } else {
        return NULL;
    }
    return sentence;
}

/* Deletes an empty queue. The broker itself keeps empty queues, because their policies, pauses and counts are still
 * used. Only an operator deletes queues, because only an operator knows that a name was mistyped. */
void decide_queue_delete(struct decision *d, const Tarry__QueueDelete *delete) {
    const struct queue *queue = queue_find_live(d->core, delete->queue);
    if (!queue) {
        refuse_op(d, TARRY__CODE__NO_SUCH_QUEUE, TARRY__OUTCOME__NONE, "the queue does not exist");
        return;
    }
    if (delete->forget && !caller_may_all(d->caller)) {
        refuse_op(d, TARRY__CODE__DENIED, TARRY__OUTCOME__NONE, "forget: only the broker itself may set it");
        return;
    }
    char *obstacle = not_deletable(d, queue);
    if (obstacle) {
        refuse_op(d, TARRY__CODE__NOT_DONE, TARRY__OUTCOME__NONE, obstacle);
        return;
    }
    Tarry__QueuePut *put = draft_queue(d->draft, queue);
    put->deleted = true;
    put->n_overdue = 0;
    put->forgets = delete->forget;
    put->paused = false;
    put->paused_until_ms = 0;
    done(d);
}

const char queue_not_created[] =
    "there is no such queue, and this broker is configured not to create queues on first use";

/* Returns NULL if the request's caller may create the queue; otherwise the error message. */
static const char *lacks_queues(struct core *core, const struct core_request *request, struct arena *arena) {
    enum { SENTENCE_SIZE = 200 };
    const struct core_caller *caller = request->caller;
    if (!caller || !caller->queues_max) return NULL;
    const uint32_t count = queue_count_of(core, caller->name);
    if (count < caller->queues_max) return NULL;
    char *sentence = must_alloc(arena, SENTENCE_SIZE);
    snprintf(sentence, SENTENCE_SIZE,
             "this principal has created %u queues, and its limit is %llu (queues=, tarry token): delete a queue, or "
             "raise the limit",
             count, (unsigned long long)caller->queues_max);
    return sentence;
}

static Tarry__QueuePut *draft_new_queue(struct draft *draft, uint32_t number, const char *name) {
    const struct core *core = draft->core;
    const struct queue *former = queue_at(core, number);
    Tarry__QueuePut *put = must_alloc(draft->arena, sizeof *put);
    tarry__queue_put__init(put);
    put->number = number;
    put->name = (char *)name;
    put->before_hash = former->number ? former->hash : 0;
    Tarry__Record *record = draft_record(draft);
    record->fact_case = TARRY__RECORD__FACT_QUEUE;
    record->queue = put;
    return put;
}

struct queue *queue_need(struct core *core, const struct core_request *request, const char *name,
                         struct core_effects *effects, Tarry__Code *out_code, const char **out_message) {
    struct queue *queue = queue_find(core, name);
    if (queue && !queue->deleted) return queue;
    const bool is_own = queue_is_reserved(name);
    if (!core->options.create_queues && !is_own) {
        *out_code = TARRY__CODE__NO_SUCH_QUEUE;
        *out_message = queue_not_created;
        return NULL;
    }
    const uint32_t number = queue ? queue->number : queue_new_number(core, is_own);
    const char *lack = is_own ? NULL : lacks_queues(core, request, effects->arena);
    if (!lack && !number)
        lack =
            "the broker has its maximum number of queues (QUEUES_MAX, 4096): delete a queue. A new queue can take its "
            "place when the broker has forgotten the outcomes of the deleted queue's tasks (--outcome-retention)";
    if (lack) {
        *out_code = TARRY__CODE__TOO_LARGE;
        *out_message = lack;
        return NULL;
    }
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, 1);
    draft_by_request(&draft, request);
    Tarry__QueuePut *put = queue ? draft_queue(&draft, queue) : draft_new_queue(&draft, number, name);
    put->deleted = false;
    put->policy = &core->options.policy;
    put->creator = request->caller && !is_own ? (char *)request->caller->name : "";
    draft_commit(&draft, NULL, effects);
    queue = queue_at(core, number);
    wishes_grant(core, queue);
    return queue;
}

void queue_pause_over(struct core *core, struct queue *queue, struct core_effects *effects) {
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, 1);
    Tarry__QueuePut *put = draft_queue(&draft, queue);
    put->paused = false;
    put->paused_until_ms = 0;
    draft_commit(&draft, NULL, effects);
}
