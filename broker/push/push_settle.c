/* push_settle.c: evaluates a target's responses, for the task and for the health of its queue, and commits the
 * decisions: one commit at a time, with all the jobs that ended meanwhile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pusher_parts.h"

#define SETTLE_MAX 512u
#define SETTLE_AGAIN_MS 100u

/* ---- health */

uint64_t push_unix_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static void go_well(struct push_target *target) {
    struct push *push = target->push;
    if (target->is_unwell) push->options.say(push->options.argument, target->queue, NULL);
    target->is_unwell = false;
    target->failures = target->rests = 0;
}

/* Returns the length of a target's next pause in ms: doubled with each consecutive pause, at most limits.rest_ms. */
static uint64_t rest_ms(const struct push_target *target) {
    const uint64_t most_ms = target->push->options.limits.rest_ms;
    uint64_t ms = PUSH_REST_MIN_MS;
    for (unsigned i = 0; i < target->rests && ms < most_ms; i++) ms *= 2;
    return ms < most_ms ? ms : most_ms;
}

/* Counts a failure of the target. Ignores failures of requests that began before the last pause, because they have
 * already caused that pause. */
static void go_badly(struct push_target *target, const struct push_job *job) {
    struct push *push = target->push;
    if (job->round != target->round) return;
    bool is_hopeless = job->verdict == PUSH_UNSENT; /* a request that could not be sent: further requests would fail for
                                                       the same reason, so pause at once */
    if (++target->failures < PUSH_FAILURES_MAX && !target->is_unwell && !is_hopeless) return;
    if (!target->is_unwell) push->options.say(push->options.argument, target->queue, job->reason);
    const uint64_t ms = rest_ms(target);
    target->is_unwell = true;
    target->rests++;
    target->round++;
    push_target_rest(target, ms);
}

static void count(struct push_target *target, const struct push_job *job) {
    struct push_numbers *numbers = &target->numbers;
    pthread_mutex_lock(&target->push->mutex);
    numbers->in_flight--;
    numbers->sent += job->verdict != PUSH_UNSENT;
    numbers->failed += job->verdict != PUSH_UNSENT && job->verdict != PUSH_TAKEN;
    numbers->refused += job->verdict == PUSH_REFUSED;
    if (job->verdict != PUSH_UNSENT) numbers->status = job->status;
    if (job->verdict == PUSH_TAKEN) {
        numbers->acked++;
        numbers->succeeded_ms = push_unix_ms();
    } else if (job->reason[0] != '\0') {
        numbers->failed_ms = push_unix_ms();
        snprintf(numbers->error, sizeof(numbers->error), "%s", job->reason);
    }
    pthread_mutex_unlock(&target->push->mutex);
}

void push_job_ended(struct push *push, struct push_job *job) {
    struct push_target *target = job->target;
    count(target, job);
    TAILQ_INSERT_TAIL(&push->settling, job, next);
    if (target->is_over) return;
    switch (job->verdict) {
    case PUSH_TAKEN:
    case PUSH_REFUSED: /* a refusal of the task proves that the target works */
        go_well(target);
        break;
    case PUSH_LATER:
        if (job->round != target->round) break;
        target->round++;
        push_target_rest(target, job->later_ms);
        break;
    case PUSH_UNSENT:
        /* Without a reason, the request was not sent because too little of the lease was left, which is no failure of
         * the target. */
        if (job->reason[0] == '\0') break;
        go_badly(target, job);
        break;
    case PUSH_FAILED:
        go_badly(target, job);
        break;
    }
}

/* ---- the commit */

struct settling {
    Tarry__Op ops[SETTLE_MAX], *listed[SETTLE_MAX];
    Tarry__Token tokens[SETTLE_MAX];
    union {
        Tarry__Ack ack;
        Tarry__Nack nack;
        Tarry__Release release;
    } bodies[SETTLE_MAX];
};

static void put_ack(Tarry__Op *op, Tarry__Ack *ack, const struct push_job *job, Tarry__Token *token) {
    tarry__ack__init(ack);
    ack->id = job->id;
    ack->token = token;
    op->op_case = TARRY__OP__OP_ACK;
    op->ack = ack;
}

static void put_release(Tarry__Op *op, Tarry__Release *release, const struct push_job *job, Tarry__Token *token) {
    tarry__release__init(release);
    release->id = job->id;
    release->token = token;
    op->op_case = TARRY__OP__OP_RELEASE;
    op->release = release;
}

static void put_nack(Tarry__Op *op, Tarry__Nack *nack, const struct push_job *job, Tarry__Token *token) {
    tarry__nack__init(nack);
    nack->id = job->id;
    nack->token = token;
    nack->reason = (char *)job->reason;
    nack->dead = job->verdict == PUSH_REFUSED;
    nack->has_delay = job->verdict == PUSH_LATER;
    nack->delay_ms = job->verdict == PUSH_LATER ? job->later_ms : 0;
    op->op_case = TARRY__OP__OP_NACK;
    op->nack = nack;
}

static void put(struct settling *settling, size_t at, const struct push_job *job) {
    Tarry__Op *op = settling->listed[at] = &settling->ops[at];
    Tarry__Token *token = &settling->tokens[at];
    tarry__op__init(op);
    tarry__token__init(token);
    token->epoch = job->epoch;
    token->position = job->position;
    if (job->verdict == PUSH_TAKEN)
        put_ack(op, &settling->bodies[at].ack, job, token);
    else if (job->verdict == PUSH_UNSENT)
        put_release(op, &settling->bodies[at].release, job, token);
    else
        put_nack(op, &settling->bodies[at].nack, job, token);
}

static void run_targets(struct push *push) {
    struct push_target *target = NULL, *next = NULL;
    for (target = TAILQ_FIRST(&push->targets); target != NULL; target = next) {
        next = TAILQ_NEXT(target, next);
        push_target_run(target);
        push_target_end_if_idle(target);
    }
}

/* Returns when a job's lease ends (CLOCK_MONOTONIC). The lease ends later than the request's deadline `until_ms`, by a
 * fifth of the lease, so that time for the commit remains (push_desk.c). */
static uint64_t lease_end_ms(const struct push_job *job) {
    return job->until_ms + job->lease_ms / 5;
}

/* Frees the jobs of the last commit whose lease ended before `now_ms`. */
static void end_committing(struct push *push, uint64_t now_ms) {
    struct push_job *job, *next;
    for (job = TAILQ_FIRST(&push->committing); job != NULL; job = next) {
        next = TAILQ_NEXT(job, next);
        if (lease_end_ms(job) > now_ms) continue;
        TAILQ_REMOVE(&push->committing, job, next);
        push_job_free(push, job);
    }
    run_targets(push);
}

static void on_again(void *argument) {
    struct push *push = argument;
    push->settle_retry = 0;
    push_settle(push);
}

enum commit_outcome {
    COMMIT_DECIDED, /* the broker has replied with a result for each operation, or the commit can never succeed */
    COMMIT_BUSY,    /* the broker has executed nothing, or there was no memory for its reply; commit again */
    COMMIT_UNKNOWN  /* this node does not lead, hands over or cannot confirm; commit again, because it may lead again
                       before a lease ends */
};

static enum commit_outcome outcome_of(const Tarry__Reply *reply) {
    if (reply == NULL || reply->code == TARRY__CODE__BUSY) return COMMIT_BUSY;
    bool is_unknown = reply->code == TARRY__CODE__NOT_PRIMARY || reply->code == TARRY__CODE__FAILED;
    return is_unknown ? COMMIT_UNKNOWN : COMMIT_DECIDED;
}

/* Handles the reply to a commit of settling operations. An operation is committed again until the broker has decided
 * about it, or the lease has ended. Repeating is safe, because the operation names its lease by a token and settles
 * that lease at most once. A refused operation is not repeated: the task was cancelled, or leased again. A task whose
 * lease ends first is pushed again. */
static void on_committed(void *argument, const Tarry__Reply *reply) {
    struct push *push = argument;
    const enum commit_outcome outcome = outcome_of(reply);
    bool is_kept = outcome == COMMIT_UNKNOWN && !atomic_load(&push->stops);
    if (outcome != COMMIT_BUSY) end_committing(push, is_kept ? push_now_ms() : UINT64_MAX);
    if (TAILQ_EMPTY(&push->committing)) {
        push_settle(push);
        return;
    }
    TAILQ_CONCAT(&push->committing, &push->settling, next);
    TAILQ_CONCAT(&push->settling, &push->committing, next);
    push->settle_retry = gateway_timer(push->gateway, SETTLE_AGAIN_MS, on_again, push);
    /* Without memory for a timer, the jobs are committed together with the next job that ends. */
}

void push_settle(struct push *push) {
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    struct push_job *job;
    if (TAILQ_EMPTY(&push->settling) || !TAILQ_EMPTY(&push->committing) || push->settle_retry != 0) return;
    struct settling *settling = malloc(sizeof(*settling));
    while (commit.n_ops < SETTLE_MAX && (job = TAILQ_FIRST(&push->settling)) != NULL) {
        TAILQ_REMOVE(&push->settling, job, next);
        TAILQ_INSERT_TAIL(&push->committing, job, next);
        if (settling != NULL) put(settling, commit.n_ops, job);
        commit.n_ops++;
    }
    struct gateway_caller caller = push_caller(push);
    if (settling != NULL) commit.ops = settling->listed;
    if (settling == NULL || gateway_commit(push->gateway, &caller, &commit, NULL, on_committed, push) == 0)
        on_committed(push, NULL);
    gateway_disown(push->gateway, caller.principal);
    free(settling);
}
