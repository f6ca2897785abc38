/* commit.c: turns a Commit into one frame and one reply.
 *
 *     known sequence? ── yes ──► repeat the recorded reply from the log (ONCE-1)
 *          │ no, and `ask` is set ──► check capacity, then record the sequence as abandoned
 *          │ no
 *     capacity (CAP-1) ── no ──► BUSY, nothing is recorded, the sequence stays unused
 *          │
 *     create its missing queues: a separate frame before it, which stays even if the commit is refused
 *          │
 *     decide each operation on a draft ── atomic and one refused ──► a frame with the refusals only
 *          │
 *     one frame: records, results, (producer, sequence) ──► apply ──► reply once it is durable (LOG-1) */
#include "commit.h"

#include <string.h>

#include "callers.h"
#include "decide.h"
#include "effects.h"
#include "groups.h"
#include "need.h"
#include "pending.h"
#include "producers.h"
#include "recur.h"
#include "requests.h"
#include "wire.h"

/* Memory and rows of the index that a commit needs. */
struct demand {
    size_t schedules;
    size_t changes; /* number of moves, cancels and other changes of tasks that may be only in the index */
    size_t jobs;
    struct need need;
};

/* Returns true if a background job executes the operation. */
static bool is_job(const Tarry__Op *op) {
    switch (op->op_case) {
#define OPERATION(CASE, member, Message, target, roles, reach, creates, job, ...)                                      \
    case TARRY__OP__OP_##CASE: {                                                                                       \
        const Tarry__##Message *m = op->member;                                                                        \
        (void)m;                                                                                                       \
        return job;                                                                                                    \
    }
#include "requests.def"
        OPERATION_UNKNOWN
    }
    return false;
}

/* A recurrence's next occurrence is a new task. */
static void need_recur(struct demand *demand, const Tarry__Op *op) {
    const bool sets = op->op_case == TARRY__OP__OP_RECUR_SET;
    if (!sets && op->op_case != TARRY__OP__OP_RECUR_DO) return;
    demand->schedules++;
    for (unsigned i = 0; i < RECUR_DO_OBJECTS_MAX; i++) need_task(&demand->need, KEY_SIZE_MAX, SERIAL_SIZE_MAX);
    if (sets) need_recur_set(&demand->need, op->recur_set);
}

static struct demand demand_of(const struct core *core, const struct core_request *request) {
    const Tarry__Commit *commit = request->message->commit;
    struct demand demand = {0};
    need_facts(&demand.need, &request->facts);
    for (size_t i = 0; i < commit->n_ops; i++) {
        const Tarry__Op *op = commit->ops[i];
        if (op_is_malformed(request, i)) continue;
        switch (op_target(op)) {
        case NAMES_NEW_TASK:
            demand.schedules++;
            /* Only a Schedule creates a task. */
            need_task(&demand.need, op->schedule->key.len, op->schedule->serial.len);
            break;
        case NAMES_TASK:
        case NAMES_DEAD_TASK:
        case NAMES_PAST_TASKS: /* the operation may find that one of the tasks has expired, and then records its end */
            demand.changes++;
            demand.jobs += is_job(op);
            if (op->op_case == TARRY__OP__OP_DEAD) need_dead(&demand.need, op->dead);
            break;
        case NAMES_QUEUE:
            demand.jobs += is_job(op);
            need_recur(&demand, op);
            break;
        case NAMES_LEASE:
            if (op->op_case == TARRY__OP__OP_NACK && *op->nack->reason) need_sentence(&demand.need);
            if (op->op_case == TARRY__OP__OP_FAN_OUT) demand.schedules += need_shares(&demand.need, core, op->fan_out);
            break;
        case NAMES_DEFINITION: /* definitions are stored in a table of their own, not in the region */
        case NAMES_NOTHING:
            break;
        }
    }
    return demand;
}

/* Reason for refusing a commit before anything is decided. BUSY: a retry may succeed. TOO_LARGE: a retry never
 * succeeds. */
struct lack {
    const char *sentence; /* error message; NULL: the commit is not refused */
    Tarry__Code code;
};

static struct lack busy(const char *sentence) {
    return (struct lack){sentence, TARRY__CODE__BUSY};
}

static struct lack too_large(const char *sentence) {
    return (struct lack){sentence, TARRY__CODE__TOO_LARGE};
}

/* Checks the principal's limit of pending tasks over all its queues. */
static struct lack lacks_pending(struct core *core, const struct core_caller *caller, size_t schedules) {
    if (!caller || !caller->pending_max || !schedules) return busy(NULL);
    if (schedules > caller->pending_max)
        return too_large("the commit schedules more tasks than the limit of this principal's waiting tasks (pending=, "
                         "tarry token): send fewer, or raise the limit");
    if (pending_of(core, caller) <= caller->pending_max - schedules) return busy(NULL);
    return busy("the queues of this principal have reached its limit of tasks (pending=, tarry token): try again when "
                "some have ended, or raise the limit");
}

static struct lack lacks_memory(const struct core *core, const struct demand *demand) {
    enum need_room room = demand->schedules || demand->changes ? ROOM_BUT_RESERVE : ROOM_ALL;
    if (need_fits(core, &demand->need, room)) return busy(NULL);
    if (!need_may_fit(core, &demand->need))
        return too_large("the commit needs more memory than this broker has for tasks (--memory): split the commit");
    return busy("the broker's memory for tasks is full (--memory): try again in a moment");
}

/* Checks the capacity for a commit. Acks, extends and releases of leased tasks always pass, because these tasks are in
 * memory. Two operations may use the reserved memory: a nack that gives a reason, and an operation that settles a task
 * which is not leased any more and is only in the index. */
static struct lack lacks_capacity(struct core *core, const struct core_request *request) {
    struct demand demand = demand_of(core, request);
    if (demand.schedules && core->overlay_count > core->options.index_lag_max)
        return busy("the broker's index lags too far behind its log to accept new tasks (index_lag_max): try again in "
                    "a moment");
    if (demand.changes && core->overlay_count > core->options.index_lag_hard)
        return busy(
            "the broker's index lags too far behind its log to accept changes (index_lag_hard): try again in a moment");
    struct lack lack = lacks_memory(core, &demand);
    if (lack.sentence) return lack;
    lack = lacks_pending(core, request->caller, demand.schedules);
    if (lack.sentence) return lack;
    if (demand.jobs && core->job_count == JOBS_MAX)
        return busy("the broker runs its maximum number of purges (JOBS_MAX, 64): try again when one has ended");
    return lack;
}

/* Returns the queue that the operation creates if it is missing; NULL: none. */
static const char *queue_to_create(const Tarry__Op *op) {
    switch (op->op_case) {
#define OPERATION(CASE, member, Message, target, roles, reach, creates, ...)                                           \
    case TARRY__OP__OP_##CASE:                                                                                         \
        return creates ? QUEUE_OF_##target(op->member) : NULL;
#include "requests.def"
        OPERATION_UNKNOWN
    }
    return NULL;
}

/* Returns the reason why the queue cannot be created or changed with its filter; NULL: it can, or the operation has no
 * filter. */
static const char *becomes_no_group(struct core *core, const Tarry__QueueSet *set, struct core_effects *effects,
                                    Tarry__Code *out_code) {
    for (size_t i = 0; i < set->n_fields; i++) {
        if (!strcmp(set->fields[i], "filter"))
            return group_problem(core, set->queue, set->policy->filter, 0, effects->arena, out_code);
    }
    return NULL;
}

/* Returns the queue that must exist for the operation. Returns NULL if the operation needs none, or with a refusal in
 * `result`. */
static const struct queue *need_queue(struct core *core, const struct core_request *request, const Tarry__Op *op,
                                      struct core_effects *effects, Tarry__OpResult *result) {
    const char *name = queue_to_create(op);
    if (!name) return NULL;
    const char *message = NULL;
    if (op->op_case == TARRY__OP__OP_QUEUE_SET) message = becomes_no_group(core, op->queue_set, effects, &result->code);
    if (message) { /* the filter is refused, so no queue is created */
        result->message = (char *)message;
        return NULL;
    }
    const struct queue *queue = queue_need(core, request, name, effects, &result->code, &message);
    if (!queue) result->message = (char *)message;
    return queue;
}

static void decide_op(struct decision *d, const Tarry__Op *op) {
    switch (op->op_case) {
#define OPERATION(CASE, member, ...)                                                                                   \
    case TARRY__OP__OP_##CASE:                                                                                         \
        decide_##member(d, op->member);                                                                                \
        return;
#include "requests.def"
        OPERATION_UNKNOWN
    }
    refuse_op(d, TARRY__CODE__UNSUPPORTED, TARRY__OUTCOME__NONE,
              "this broker does not know the operation; the client may be newer than the broker");
}

static Tarry__CommitReply *results_new(struct core_effects *effects, size_t count) {
    Tarry__CommitReply *reply = must_alloc(effects->arena, sizeof *reply);
    tarry__commit_reply__init(reply);
    Tarry__OpResult *results = must_have(effects->arena, count * sizeof *results);
    reply->results = must_have(effects->arena, count * sizeof(Tarry__OpResult *));
    reply->n_results = count;
    for (size_t i = 0; i < count; i++) {
        results[i] = (Tarry__OpResult)TARRY__OP_RESULT__INIT;
        reply->results[i] = &results[i];
    }
    return reply;
}

static bool any_refused(const Tarry__CommitReply *reply) {
    for (size_t i = 0; i < reply->n_results; i++) {
        if (reply->results[i]->code != TARRY__CODE__OK) return true;
    }
    return false;
}

/* Fills in the members that are equal for all operations of the event. */
static struct decision decision_of(struct core *core, struct draft *draft, const struct core_request *request,
                                   struct core_effects *effects) {
    return (struct decision){.core = core, .draft = draft, .effects = effects, .caller = request->caller};
}

/* Decides one operation. `queue` is the queue that it needs; NULL: none. */
static void decide_one(struct decision *d, const struct core_request *request, size_t i, const struct queue *queue,
                       Tarry__OpResult *result) {
    const Tarry__Op *op = request->message->commit->ops[i];
    const struct core_content *content = d->content = request->commit.contents ? &request->commit.contents[i] : NULL;
    d->past = request->commit.past ? &request->commit.past[i] : NULL;
    d->queue = queue;
    d->result = result;
    if (content && content->problem) { /* proto/check.h found the operation malformed when it was received */
        refuse_op(d, content->code, TARRY__OUTCOME__NONE, content->problem);
    } else if (op->op_case == TARRY__OP__OP_QUEUE_DELETE && request->message->commit->n_ops != 1) {
        /* The tasks of the queue were read before this commit. Another operation of the commit could change them, so a
         * deletion must be alone. */
        refuse_op(d, TARRY__CODE__INVALID, TARRY__OUTCOME__NONE,
                  "a commit that deletes a queue must not have other operations");
    } else if (may_touch(d, op_id(op))) {
        decide_op(d, op);
    }
}

static void decide_alone(struct core *core, const struct core_request *request, struct facts_table *facts, size_t i,
                         const struct queue *queue, Tarry__OpResult *result, struct core_effects *effects) {
    const bool lacks_queue = !queue && queue_to_create(request->message->commit->ops[i]);
    if (result->code == TARRY__CODE__NO_SUCH_QUEUE || result->code == TARRY__CODE__TOO_LARGE ||
        (lacks_queue && !op_is_malformed(request, i)))
        return; /* the operation was refused before the draft began */
    struct draft draft;
    draft_init(&draft, core, effects->arena, NULL, 1);
    draft.facts_table = facts;
    tarry__op_result__init(result);
    struct decision d = decision_of(core, &draft, request, effects);
    decide_one(&d, request, i, queue, result);
}

/* Aborts an atomic commit: none of its operations takes effect. An operation may have been refused only because of an
 * earlier operation of the commit. So each refused operation is decided a second time, alone, and its answer is true
 * for the state without the commit (TRUE-1). All other operations get ABORTED. */
static void abort_all(struct core *core, const struct core_request *request, struct facts_table *facts,
                      const struct queue *const *queues, Tarry__CommitReply *reply, struct core_effects *effects) {
    reply->aborted = true;
    for (size_t i = 0; i < reply->n_results; i++) {
        Tarry__OpResult *result = reply->results[i];
        if (result->code != TARRY__CODE__OK) decide_alone(core, request, facts, i, queues[i], result, effects);
        if (result->code != TARRY__CODE__OK) continue;
        tarry__op_result__init(result);
        result->code = TARRY__CODE__ABORTED;
        result->message = "nothing was done, because another operation of this atomic commit was refused";
    }
}

static void decide_commit(struct core *core, const struct core_request *request, struct core_effects *effects) {
    const Tarry__Commit *commit = request->message->commit;
    Tarry__CommitReply *reply = results_new(effects, commit->n_ops);
    const struct queue **queues = must_alloc(effects->arena, commit->n_ops * sizeof(struct queue *));
    for (size_t i = 0; i < commit->n_ops; i++) {
        if (op_is_malformed(request, i)) continue;
        queues[i] = need_queue(core, request, commit->ops[i], effects, reply->results[i]);
    }
    struct draft draft;
    draft_init(&draft, core, effects->arena, &request->facts, commit->n_ops + need_shares_max(commit));
    draft_by_request(&draft, request);
    struct decision d = decision_of(core, &draft, request, effects);
    for (size_t i = 0; i < commit->n_ops; i++) {
        if (reply->results[i]->code != TARRY__CODE__OK) continue;
        decide_one(&d, request, i, queues[i], reply->results[i]);
    }
    if (commit->atomic && any_refused(reply)) {
        abort_all(core, request, draft.facts_table, queues, reply, effects);
        draft_init(&draft, core, effects->arena, NULL, 0);
        draft_by_request(&draft, request);
    }
    /* ONCE-1: store that the sequence is abandoned, so that a retry with it gets the same reply. */
    reply->abandoned = commit->ask;
    size_t room = commit_reply_room(reply);
    uint8_t *end = (uint8_t *)must_have(effects->arena, room) + room;
    const uint8_t *packed = commit_reply_pack(reply, end);
    size_t size = (size_t)(end - packed);
    struct draft_commit frame = {
        .producer = commit->producer,
        .sequence = commit->sequence,
        .oldest_unanswered = commit->oldest_unanswered,
        .atomic = commit->atomic,
        .reply = packed,
        .reply_size = size,
    };
    draft_commit(&draft, &frame, effects);
    struct core_reply *out = reply_send(core, effects, request->ticket, NULL);
    out->commit = packed;
    out->commit_size = size;
}

static uint64_t answered_at(const struct producer *producer, uint64_t sequence) {
    for (uint32_t i = 0; i < producer->result_count; i++)
        if (producer->results[i].sequence == sequence) return producer->results[i].position;
    return 0;
}

static uint32_t outstanding(const struct producer *producer, uint64_t oldest_unanswered) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < producer->result_count; i++) {
        count += producer->results[i].sequence >= oldest_unanswered;
    }
    return count;
}

bool commit_decides(const struct core *core, const struct core_request *request) {
    const Tarry__Commit *commit = request->message->commit;
    const struct producer *producer = producer_of_caller(core, commit->producer, request->caller);
    if (!producer || commit->sequence < producer->floor) return false;
    return !answered_at(producer, commit->sequence);
}

void commit_step(struct core *core, const struct core_request *request, struct core_effects *effects) {
    const Tarry__Commit *commit = request->message->commit;
    if (!commit->sequence || !commit->oldest_unanswered || commit->oldest_unanswered > commit->sequence) {
        reply_refuse(core, effects, request->ticket, TARRY__CODE__INVALID,
                     "sequence must be 1 or more, and oldest_unanswered must be from 1 to sequence");
        return;
    }
    if ((commit->n_ops == 0) != (commit->ask != 0) || commit->n_ops > OPS_PER_COMMIT_MAX) {
        reply_refuse(core, effects, request->ticket, TARRY__CODE__TOO_LARGE,
                     "a commit must have 1 to 8192 operations (OPS_PER_COMMIT_MAX)");
        return;
    }
    const struct producer *producer = producer_of_caller(core, commit->producer, request->caller);
    if (!producer || commit->sequence < producer->floor) {
        reply_refuse(
            core, effects, request->ticket, TARRY__CODE__FORGOTTEN,
            "the broker no longer remembers this producer or sequence, so whether the commit took effect is unknown");
        return;
    }
    uint64_t position = answered_at(producer, commit->sequence);
    if (position) { /* ONCE-1: repeat the recorded reply, and do not execute the commit again */
        struct core_reply *out = reply_send(core, effects, request->ticket, NULL);
        out->repeat_position = position;
        out->repeat_producer = commit->producer;
        out->repeat_sequence = commit->sequence;
        return;
    }
    if (core->stopping) {
        reply_refuse(core, effects, request->ticket, TARRY__CODE__STOPPING, "the broker is shutting down");
        return;
    }
    struct lack lack = lacks_capacity(core, request);
    if (!lack.sentence && outstanding(producer, commit->oldest_unanswered) >= COMMITS_PER_PRODUCER_MAX)
        lack = busy("this producer has the maximum number of unanswered commits (COMMITS_PER_PRODUCER_MAX): wait for a "
                    "reply first");
    if (lack.sentence) {
        reply_refuse(core, effects, request->ticket, lack.code, lack.sentence);
        return;
    }
    decide_commit(core, request, effects);
}
