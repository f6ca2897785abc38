/* dry_ask.c: turns the clients' recorded requests into operations for the core. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "dry.h"
#include "queue_policy.h"

struct asking { /* a commit that is being built; all its parts are in one arena */
    struct dry *dry;
    struct arena arena;
    Tarry__Op **ops;
    struct life **lives;
    size_t count;
};

#define NEW(asking, type, init) (new_of((asking), sizeof(type), &(const type)init))
static void *new_of(struct asking *asking, size_t size, const void *from) {
    void *memory = arena_alloc(&asking->arena, size);
    if (memory == NULL) memory = tool_alloc(SIZE_MAX / 8); /* reports the error and exits */
    memcpy(memory, from, size);
    return memory;
}

/* Names the task by its key if the same commit scheduled it: the client could not know the id either. */
static Tarry__Ref *ref_to(struct asking *asking, const struct life *life) {
    Tarry__Ref *ref = NEW(asking, Tarry__Ref, TARRY__REF__INIT);
    if (life->twin != NULL) {
        ref->id = life->twin->row.id;
    } else {
        ref->queue = life->plan->name;
        ref->key.data = (uint8_t *)life->key;
        ref->key.len = life->key_size;
    }
    return ref;
}

static bool is_scheduled_here(const struct asking *asking, const struct life *life) {
    for (size_t i = 0; i < asking->count; i++)
        if (asking->lives[i] == life) return life->key != NULL;
    return false;
}

static Tarry__When *when_of(struct asking *asking, const struct ask *ask) {
    Tarry__When *when = NEW(asking, Tarry__When, TARRY__WHEN__INIT);
    when->kind = ask->absolute ? TARRY__WHEN__KIND__AT : TARRY__WHEN__KIND__DELAY;
    when->ms = ask->ms;
    return when;
}

static Tarry__Token *token_of(struct asking *asking, const struct twin *twin) {
    Tarry__Token *token = NEW(asking, Tarry__Token, TARRY__TOKEN__INIT);
    token->epoch = twin->row.lease_epoch;
    token->position = twin->row.lease_position;
    return token;
}

static void op_schedule(struct asking *asking, const struct ask *ask, Tarry__Op *op) {
    op->op_case = TARRY__OP__OP_SCHEDULE;
    op->schedule = NEW(asking, Tarry__Schedule, TARRY__SCHEDULE__INIT);
    op->schedule->queue = ask->plan->name;
    op->schedule->key.data = (uint8_t *)ask->life->key;
    op->schedule->key.len = ask->life->key_size;
    op->schedule->when = when_of(asking, ask);
    op->schedule->priority = ask->priority;
    op->schedule->expires_ms = ask->expires_ms;
    op->schedule->on_conflict =
        ask->replaces ? TARRY__SCHEDULE__ON_CONFLICT__REPLACE : TARRY__SCHEDULE__ON_CONFLICT__REJECT;
}

/* Repeats a nack. The queue's backoff depends on the task's id, so the delay is computed for the recorded id and sent
 * explicitly. */
static void op_nack(struct asking *asking, const struct ask *ask, const struct twin *twin, Tarry__Op *op) {
    op->op_case = TARRY__OP__OP_NACK;
    op->nack = NEW(asking, Tarry__Nack, TARRY__NACK__INIT);
    op->nack->id = twin->row.id;
    op->nack->token = token_of(asking, twin);
    op->nack->dead = ask->verdict == VERDICT_BURY;
    if (ask->turn->reason != NULL) op->nack->reason = ask->turn->reason;
    if (ask->verdict == VERDICT_NACK_DELAYED) {
        op->nack->has_delay = true;
        op->nack->delay_ms = ask->turn->delay_ms;
    } else if (ask->verdict == VERDICT_NACK && twin->row.id != twin->life->id) {
        Tarry__Policy policy = plan_policy(twin->life->plan);
        op->nack->has_delay = true;
        op->nack->delay_ms = backoff_ms(&policy, twin->life->id, twin->row.attempt);
    }
}

static void op_settle(struct asking *asking, const struct ask *ask, const struct twin *twin, Tarry__Op *op) {
    if (ask->verdict == VERDICT_ACK) {
        op->op_case = TARRY__OP__OP_ACK;
        op->ack = NEW(asking, Tarry__Ack, TARRY__ACK__INIT);
        op->ack->id = twin->row.id;
        op->ack->token = token_of(asking, twin);
    } else if (ask->verdict == VERDICT_RELEASE) {
        op->op_case = TARRY__OP__OP_RELEASE;
        op->release = NEW(asking, Tarry__Release, TARRY__RELEASE__INIT);
        op->release->id = twin->row.id;
        op->release->token = token_of(asking, twin);
    } else {
        op_nack(asking, ask, twin, op);
    }
}

/* Sends an ack with an impossible token. The core then checks whether the task has expired, and changes nothing else.
 */
static void op_touch(struct asking *asking, const struct twin *twin, Tarry__Op *op) {
    op->op_case = TARRY__OP__OP_ACK;
    op->ack = NEW(asking, Tarry__Ack, TARRY__ACK__INIT);
    op->ack->id = twin->row.id;
    op->ack->token = NEW(asking, Tarry__Token, TARRY__TOKEN__INIT);
}

static void op_dead(struct asking *asking, const struct ask *ask, Tarry__Op *op) {
    op->op_case = TARRY__OP__OP_DEAD;
    op->dead = NEW(asking, Tarry__DeadOp, TARRY__DEAD_OP__INIT);
    op->dead->what = ask->kind == ASK_REQUEUE ? TARRY__DEAD_OP__WHAT__REQUEUE : TARRY__DEAD_OP__WHAT__DROP;
    op->dead->task = ref_to(asking, ask->life);
}

static void op_job(struct asking *asking, const struct ask *ask, Tarry__Op *op) {
    if (ask->what == TARRY__JOB_PUT__WHAT__PURGE) {
        op->op_case = TARRY__OP__OP_QUEUE_PURGE;
        op->queue_purge = NEW(asking, Tarry__QueuePurge, TARRY__QUEUE_PURGE__INIT);
        op->queue_purge->queue = ask->plan->name;
        op->queue_purge->states = ask->states;
        return;
    }
    bool requeues = ask->what == TARRY__JOB_PUT__WHAT__REQUEUE_ALL;
    op->op_case = TARRY__OP__OP_DEAD;
    op->dead = NEW(asking, Tarry__DeadOp, TARRY__DEAD_OP__INIT);
    op->dead->what = requeues ? TARRY__DEAD_OP__WHAT__REQUEUE : TARRY__DEAD_OP__WHAT__DROP;
    op->dead->all = true;
    op->dead->task = NEW(asking, Tarry__Ref, TARRY__REF__INIT);
    op->dead->task->queue = ask->plan->name;
}

static void op_policy(struct asking *asking, const struct plan *plan, Tarry__Op *op) {
#define POLICY_NUMBER(field, ...) (char *)#field,
#define POLICY_TEXT(field, ...)
    static char *const names[] = {
#include "policy.def"
    };
    Tarry__Policy policy = plan_policy(plan);
    op->op_case = TARRY__OP__OP_QUEUE_SET;
    op->queue_set = NEW(asking, Tarry__QueueSet, TARRY__QUEUE_SET__INIT);
    op->queue_set->queue = plan->name;
    op->queue_set->policy = new_of(asking, sizeof policy, &policy);
    op->queue_set->fields = (char **)names;
    op->queue_set->n_fields = POLICY_NUMBERS; /* a dry run pushes nothing */
}

static Tarry__Op *add_op(struct asking *asking, struct life *scheduled) {
    Tarry__Op *op = NEW(asking, Tarry__Op, TARRY__OP__INIT);
    asking->lives[asking->count] = scheduled;
    asking->ops[asking->count++] = op;
    return op;
}

static void add_pause(struct asking *asking, const struct ask *ask) {
    Tarry__Op *op = add_op(asking, NULL);
    op->op_case = TARRY__OP__OP_QUEUE_PAUSE;
    op->queue_pause = NEW(asking, Tarry__QueuePause, TARRY__QUEUE_PAUSE__INIT);
    op->queue_pause->queue = ask->plan->name;
    op->queue_pause->paused = ask->paused;
    op->queue_pause->for_ms = ask->ms;
}

/* Adds a request to the commit. Returns false if the request cannot be made, because the task does not exist in the dry
 * run or is in another state. */
static bool add_ask(struct asking *asking, const struct ask *ask) {
    const struct twin *twin = ask->life != NULL ? ask->life->twin : NULL;
    bool is_new = ask->kind == ASK_SCHEDULE;
    bool about_queue = ask->kind == ASK_QUEUE || ask->kind == ASK_JOB;
    if (is_new && ask->life == NULL) return true; /* the replaced task is not part of this dry run */
    bool is_there = twin != NULL ? !twin->ended : !is_new && ask->life != NULL && is_scheduled_here(asking, ask->life);
    if (!is_new && !about_queue && !is_there) return false;
    if ((ask->kind == ASK_SETTLE || ask->kind == ASK_TOUCH) && twin == NULL) return false;
    if (ask->kind == ASK_SETTLE && twin->row.state != ROW_LEASED) return false;
    Tarry__Op *op = add_op(asking, is_new ? ask->life : NULL);
    switch (ask->kind) {
    case ASK_SCHEDULE:
        op_schedule(asking, ask, op);
        break;
    case ASK_MOVE:
        op->op_case = TARRY__OP__OP_MOVE;
        op->move = NEW(asking, Tarry__Move, TARRY__MOVE__INIT);
        op->move->task = ref_to(asking, ask->life);
        op->move->when = when_of(asking, ask);
        break;
    case ASK_CANCEL:
        op->op_case = TARRY__OP__OP_CANCEL;
        op->cancel = NEW(asking, Tarry__Cancel, TARRY__CANCEL__INIT);
        op->cancel->task = ref_to(asking, ask->life);
        op->cancel->withdraw = ask->withdraw;
        break;
    case ASK_REQUEUE:
    case ASK_DROP:
        op_dead(asking, ask, op);
        break;
    case ASK_JOB:
        op_job(asking, ask, op);
        break;
    case ASK_SETTLE:
        op_settle(asking, ask, twin, op);
        break;
    case ASK_TOUCH:
        op_touch(asking, twin, op);
        break;
    case ASK_QUEUE:
        ask->plan->recorded = ask->policy;
        op_policy(asking, ask->plan, op);
        if (ask->pauses) add_pause(asking, ask);
        break;
    }
    return true;
}

static void begin(struct asking *asking, struct dry *dry, size_t count) {
    *asking = (struct asking){.dry = dry};
    arena_init(&asking->arena, SIZE_MAX);
    asking->ops = tool_alloc(2 * count * sizeof(Tarry__Op *)); /* each queue may need two operations */
    asking->lives = tool_alloc(2 * count * sizeof(struct life *));
}

static void send(struct asking *asking, bool atomic, bool counts) {
    struct dry *dry = asking->dry;
    if (asking->count > 0) stage_commit(&dry->stage, asking->ops, asking->count, atomic, asking->lives);
    const Tarry__CommitReply *results = asking->count > 0 ? dry->stage.results : NULL;
    for (size_t i = 0; results != NULL && i < results->n_results; i++) {
        bool refused = results->results[i]->code != TARRY__CODE__OK;
        dry->refused += refused && counts;
        bool sets = asking->ops[i]->op_case == TARRY__OP__OP_QUEUE_SET;
        if (refused && sets && dry->message[0] == 0)
            snprintf(dry->message, sizeof dry->message, "queue %s cannot have this policy: %s",
                     asking->ops[i]->queue_set->queue, results->results[i]->message);
    }
}

static void end(struct asking *asking) {
    arena_deinit(&asking->arena);
    free(asking->ops);
    free(asking->lives);
}

/* Creates the queue with its policy in the core, unless it exists there. */
static void dry_need_queue(struct dry *dry, struct plan *plan) {
    if (plan->known) return;
    plan->known = true;
    struct asking asking;
    begin(&asking, dry, 1);
    op_policy(&asking, plan, add_op(&asking, NULL));
    send(&asking, false, true);
    end(&asking);
}

void dry_ask(struct dry *dry, const struct asked *asked) {
    struct asking asking;
    uint64_t unmade = 0;
    if (asked->count == 0) return;
    for (size_t i = 0; i < asked->count; i++)
        if (asked->items[i].kind != ASK_QUEUE) dry_need_queue(dry, asked->items[i].plan);
    begin(&asking, dry, asked->count);
    bool counts = asked->items[0].kind != ASK_TOUCH;
    for (size_t i = 0; i < asked->count; i++) {
        unmade += !add_ask(&asking, &asked->items[i]);
        asked->items[i].plan->known = true;
    }
    if (counts) dry->unmade += unmade > 0 && asked->atomic ? asked->count : unmade;
    if (unmade == 0 || !asked->atomic) send(&asking, asked->atomic, counts);
    end(&asking);
}
