/* dry.c: tarry replay --dry-run: reads the log twice. The first time it notes the events of each task. The second time
 * it sends the recorded requests to the real core (stage.h), at the same times of a virtual clock, with --set applied.
 *
 *     log ──► tasks: who took which, when, and its end       ──┐ consumers
 *      │                                                       ▼
 *      └────► asked: schedules, moves, cancels, … ──► core on a virtual clock ──► twins ──► differences
 *
 * A twin is a task in the dry run's core (stage.h). The differences are those between a twin and its recorded task.
 *
 * Without --set, no task differs by more than DRY_TOLERANCE_MS. While the broker did not run, the virtual clock stops.
 * The wall clock is set from the record at each frame. */
#include "dry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "queue_policy.h"
#include "replay.h"
#include "source.h"
#include "text.h"

struct dry {
    struct plans plans;
    struct lives lives;
    struct stage stage;
    struct agenda steady, wall; /* future events by the steady clock, and by the wall clock */
    /* Frames before and after the current time, between which the wall clock is interpolated. */
    struct logical_time before, next;
    struct asked *frame; /* requests of the frame that is being read; owned */
    bool frame_pages, frame_jobs_end;
    uint64_t position;
    struct twin *leased; /* task that the core leased last */
    /* Number of requests that the dry run cannot make, because its task has ended or is in another state. */
    uint64_t unmade;
    uint64_t refused;
    uint64_t assumed;  /* number of deliveries that the log does not have */
    char message[256]; /* error message about --set; empty: none */
};

/* ---- turns the clients' recorded requests into operations for the core */

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
    /* tool_alloc cannot allocate so much; it reports the lack of memory and exits */
    if (memory == NULL) memory = tool_alloc(SIZE_MAX / 8);
    memcpy(memory, from, size);
    return memory;
}

/* Refers to a task by id. If the task is scheduled by the same commit, its id is not known yet, so refers to it by key,
 * as the client did. */
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
    op->schedule->serial.data = (uint8_t *)ask->life->serial;
    op->schedule->serial.len = ask->life->serial_size;
    op->schedule->max_attempts = ask->life->own.max_attempts;
    op->schedule->backoff_ms = ask->life->own.backoff_ms;
    op->schedule->lease_ms = ask->life->own.lease_ms;
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
        op->nack->delay_ms = backoff_ms(&policy, twin->row.backoff_ms, twin->life->id, twin->row.attempt);
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
    /* Two operations for each queue: its policy and its pause. */
    asking->ops = tool_alloc(2 * count * sizeof(Tarry__Op *));
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

static void dry_ask(struct dry *dry, const struct asked *asked) {
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

/* ---- simulated consumers */

/* Simulates consumers as the log shows them: when each waiting task is delivered, and how each delivery ends.
 *
 * A task may wait in the dry run with the same due time and the same start as in a recorded period of waiting. It is
 * then delivered at the recorded time, or not at all if the log has no delivery. In other periods, the delay from ready
 * to delivery, the duration and the result are copied from the recorded delivery with the same number. If there is no
 * such delivery, they are copied from the last recorded one. */

#define NS_PER_MS 1000000u
#define TRIES_DOUBLE 10u /* number of doublings of the retry interval: from 1 ms to 1 s */
#define TOLERANCE_NS ((uint64_t)DRY_TOLERANCE_MS * NS_PER_MS)

static uint64_t apart(uint64_t a, uint64_t b) {
    return a > b ? a - b : b - a;
}

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t ms_up(uint64_t ns) {
    return (ns + NS_PER_MS - 1) / NS_PER_MS;
}

static void ask_one(struct dry *dry, enum ask_kind kind, struct twin *twin, struct turn *turn) {
    struct ask ask = {.kind = kind, .plan = twin->life->plan, .life = twin->life, .turn = turn};
    struct asked asked = {.items = &ask, .count = 1};
    if (turn != NULL) ask.verdict = turn->verdict;
    dry_ask(dry, &asked);
}

/* ---- deliveries */

static void run_take(void *argument, const struct agenda_entry *item) {
    struct dry *dry = argument;
    struct twin *twin = item->subject;
    struct plan *plan = twin->life->plan;
    if (twin->version != item->version || twin->ended || twin->row.state != ROW_WAITING) return;
    if (plan->line == NULL) plan->line = workers_new(&dry->stage, plan);
    dry->leased = NULL;
    workers_grant(plan->line);
    if (plan->line->open) workers_withdraw(plan->line); /* no task was ready, or the task had expired */
    if (twin->version != item->version) return;
    struct agenda_entry again = *item;
    uint64_t now_ns = dry->stage.now.steady_ns;
    if (dry->leased != NULL) /* the core delivered another task; try again when that task's delivery was recorded */
        again.at_ns = later(now_ns, dry->leased->take_ns);
    else /* the task is not ready yet, or the queue is paused */
        again.at_ns = now_ns + (NS_PER_MS << (again.tries < TRIES_DOUBLE ? again.tries++ : TRIES_DOUBLE));
    agenda_add(&dry->steady, &again);
}

static void run_touch(void *argument, const struct agenda_entry *item) {
    struct twin *twin = item->subject;
    if (twin->version == item->version && !twin->ended) ask_one(argument, ASK_TOUCH, twin, NULL);
}

static bool is_same(const struct phase *phase, const struct twin *twin) {
    bool begins_alike = twin->since.steady_ns + TOLERANCE_NS >= phase->earliest_ns &&
                        twin->since.steady_ns <= phase->since.steady_ns + TOLERANCE_NS;
    return begins_alike && phase->base == twin->row.base && apart(phase->due_ms, twin->row.due_ms) <= DRY_TOLERANCE_MS;
}

/* Returns the recorded period of waiting that matches the task's current one in the dry run; NULL: none. */
static struct phase *find_phase(const struct twin *twin) {
    struct phase *phase = twin->next;
    while (phase != NULL && !is_same(phase, twin)) phase = phase->next;
    return phase;
}

/* Returns the recorded period of waiting whose delivery the dry run imitates, when the current period matches no
 * recorded one. */
static const struct phase *find_like(const struct twin *twin) {
    const struct phase *like = NULL;
    uint64_t number = 0;
    for (const struct phase *phase = twin->life->first; phase != NULL; phase = phase->next) {
        if (phase->turn == NULL) continue;
        like = phase;
        if (number++ == twin->taken) break;
    }
    return like;
}

static void wait_as_recorded(struct dry *dry, struct twin *twin) {
    const struct life *life = twin->life;
    struct agenda_entry item = {.subject = twin, .version = twin->version};
    twin->turn = twin->phase->turn;
    if (twin->turn != NULL) {
        item.run = run_take;
        item.at_ns = twin->take_ns = twin->turn->leased.steady_ns;
        item.position = twin->turn->position;
        agenda_add(&dry->steady, &item);
    } else if (twin->phase == life->last && life->outcome == EXPIRED) {
        item.run = run_touch;
        item.at_ns = life->expired.steady_ns;
        item.position = life->expired_position;
        agenda_add(&dry->steady, &item);
    }
}

static void wait_otherwise(struct dry *dry, struct twin *twin) {
    const struct phase *like = find_like(twin);
    bool by_wall = twin->row.base == ROW_WALL;
    uint64_t due_ns = twin->row.due_ms * NS_PER_MS;
    struct agenda *agenda = by_wall ? &dry->wall : &dry->steady;
    struct agenda_entry item = {.subject = twin, .version = twin->version, .position = UINT64_MAX};
    twin->turn = like != NULL ? like->turn : NULL;
    if (like != NULL) {
        uint64_t ready_ns = later(due_ns, by_wall ? twin->since.wall_ns : twin->since.steady_ns);
        bool was_wall = like->base == ROW_WALL;
        uint64_t was_ns = was_wall ? like->since.wall_ns : like->since.steady_ns;
        uint64_t leased_ns = was_wall ? like->turn->leased.wall_ns : like->turn->leased.steady_ns;
        uint64_t was_ready_ns = later(like->due_ms * NS_PER_MS, was_ns);
        item.run = run_take;
        item.at_ns = ready_ns + (leased_ns > was_ready_ns ? leased_ns - was_ready_ns : 0);
        twin->take_ns = item.at_ns;
        agenda_add(agenda, &item);
    }
    uint64_t expires_ms = row_expires_at(&twin->row);
    if (expires_ms >= UINT64_MAX / NS_PER_MS) return;
    item.run = run_touch;
    item.at_ns = expires_ms * NS_PER_MS;
    agenda_add(agenda, &item);
}

static void wait(struct dry *dry, struct twin *twin) {
    struct phase *phase = find_phase(twin);
    twin->waited_since = twin->since;
    twin->phase = phase;
    if (phase != NULL) twin->next = phase->next;
    if (phase != NULL)
        wait_as_recorded(dry, twin);
    else
        wait_otherwise(dry, twin);
}

/* ---- the end of a delivery */

static void run_settle(void *argument, const struct agenda_entry *item) {
    struct twin *twin = item->subject;
    if (twin->version == item->version) ask_one(argument, ASK_SETTLE, twin, twin->turn);
}

static void run_commit(void *argument, const struct agenda_entry *item) {
    struct twin *twin = item->subject;
    if (twin->version == item->version) dry_ask(argument, twin->turn->commit);
}

static void extend(struct dry *dry, const struct twin *twin, uint64_t lease_ms) {
    Tarry__Op op = TARRY__OP__INIT;
    Tarry__Extend extend = TARRY__EXTEND__INIT;
    Tarry__Token token = TARRY__TOKEN__INIT;
    Tarry__Op *ops[] = {&op};
    struct life *lives[] = {NULL};
    op.op_case = TARRY__OP__OP_EXTEND;
    op.extend = &extend;
    extend.id = twin->row.id;
    extend.token = &token;
    token.epoch = twin->row.lease_epoch;
    token.position = twin->row.lease_position;
    extend.lease_ms = lease_ms > 0 ? lease_ms : 1;
    stage_commit(&dry->stage, ops, 1, false, lives);
}

static void run_extend(void *argument, const struct agenda_entry *item) {
    const struct twin *twin = item->subject;
    const struct extension *extension = item->detail;
    if (twin->version == item->version) extend(argument, twin, extension->lease_ms);
}

/* Handles the start of a lease. If the consumer asked for its own lease time, extends the lease to that. If the log
 * shows that the consumer disconnected, shortens the lease to the time of that. */
static void run_lease(void *argument, const struct agenda_entry *item) {
    struct dry *dry = argument;
    const struct twin *twin = item->subject;
    const struct turn *turn = twin->turn;
    if (twin->version != item->version) return;
    if (turn->lease_ms != 0) extend(dry, twin, turn->lease_ms);
    if (turn->verdict != VERDICT_LOST || twin->version != item->version) return;
    uint64_t held_ns = turn->settled_ns - turn->leased.steady_ns;
    bool is_same_moment = apart(item->at_ns, turn->leased.steady_ns) <= TOLERANCE_NS;
    uint64_t lost_ms = (is_same_moment ? turn->settled_ns : item->at_ns + held_ns) / NS_PER_MS;
    uint64_t now_ms = ms_up(dry->stage.now.steady_ns);
    if (lost_ms < twin->row.lease_deadline_ms) extend(dry, twin, lost_ms > now_ms ? lost_ms - now_ms : 0);
}

/* Returns the recorded delivery with the number of the task's next delivery; NULL: none. */
static const struct turn *turn_of_number(const struct twin *twin) {
    uint64_t number = 0;
    for (const struct phase *phase = twin->life->first; phase != NULL; phase = phase->next)
        if (phase->turn != NULL && number++ == twin->taken) return phase->turn;
    return NULL;
}

static void note_lateness(const struct dry *dry, struct twin *twin) {
    struct plan *plan = twin->life->plan;
    struct logical_time now = {dry->stage.now.steady_ns, dry->stage.now.wall_ns};
    const struct turn *recorded = turn_of_number(twin);
    struct phase waited = {.due_ms = twin->row.due_ms, .base = twin->row.base, .since = twin->waited_since};
    lateness_add(&plan->late, &waited, &now);
    plan->moved += recorded == NULL || apart(recorded->leased.steady_ns, now.steady_ns) > TOLERANCE_NS;
}

static void begin_turn(struct dry *dry, struct twin *twin) {
    const struct turn *turn = twin->turn;
    uint64_t now_ns = dry->stage.now.steady_ns;
    note_lateness(dry, twin);
    twin->taken++;
    dry->leased = twin;
    dry->assumed += twin->phase == NULL || turn == NULL;
    if (turn == NULL) return;
    bool is_same_moment = apart(now_ns, turn->leased.steady_ns) <= TOLERANCE_NS;
    struct agenda_entry item = {.at_ns = now_ns, .position = turn->position, .subject = twin, .version = twin->version};
    item.run = run_lease;
    if (turn->lease_ms != 0 || turn->verdict == VERDICT_LOST) agenda_add(&dry->steady, &item);
    item.position = is_same_moment ? turn->settled_position : UINT64_MAX;
    item.run = run_extend;
    for (const struct extension *extension = turn->extensions; extension != NULL; extension = extension->next) {
        item.at_ns = (is_same_moment ? turn->leased.steady_ns : now_ns) + extension->after_ns;
        item.detail = extension;
        agenda_add(&dry->steady, &item);
    }
    bool by_commit = turn->verdict == VERDICT_COMMIT && turn->commit != NULL;
    bool by_itself = turn->verdict == VERDICT_NONE || turn->verdict == VERDICT_RUNS_OUT ||
                     turn->verdict == VERDICT_LOST || turn->verdict == VERDICT_COMMIT;
    item.at_ns = is_same_moment ? turn->settled_ns : now_ns + (turn->settled_ns - turn->leased.steady_ns);
    item.run = by_commit ? run_commit : run_settle;
    if (by_commit || !by_itself) agenda_add(&dry->steady, &item);
}

static void run_beat(void *argument, const struct agenda_entry *item) {
    struct dry *dry = argument;
    struct workers *line = item->subject;
    if (line->session != item->version) return;
    uint64_t at_ns = workers_beat_ns(line);
    if (at_ns <= dry->stage.now.steady_ns) workers_beat(line);
    at_ns = workers_beat_ns(line);
    struct agenda_entry next = *item;
    next.at_ns = at_ns;
    if (at_ns != UINT64_MAX)
        agenda_add(&dry->steady, &next);
    else
        line->beats = 0;
}

static void leased(struct dry *dry, struct twin *twin) {
    struct workers *line = twin->life->plan->line;
    workers_leased(line, twin);
    if (line->beats != line->session) {
        line->beats = line->session;
        struct agenda_entry item = {.run = run_beat,
                                    .at_ns = workers_beat_ns(line),
                                    .position = UINT64_MAX,
                                    .subject = line,
                                    .version = line->session};
        if (item.at_ns != UINT64_MAX) agenda_add(&dry->steady, &item);
    }
    begin_turn(dry, twin);
}

static void dry_on_twin(void *argument, struct twin *twin, Tarry__Cause cause) {
    struct dry *dry = argument;
    bool is_leased = !twin->ended && twin->row.state == ROW_LEASED;
    if (twin->holder != NULL && !is_leased) workers_lost(twin->holder, twin);
    if (twin->ended || twin->row.state == ROW_BURIED) return;
    if (cause == TARRY__CAUSE__CAUSE_LEASED)
        leased(dry, twin);
    else if (twin->row.state == ROW_WAITING)
        wait(dry, twin);
}

/* ---- the run */

/* Returns the wall clock's time. Between two frames it advances like the steady clock, but not beyond the second
 * frame's time. */
static uint64_t dry_wall_ns(const struct dry *dry) {
    uint64_t passed_ns = dry->stage.now.steady_ns - dry->before.steady_ns;
    uint64_t most_ns = dry->next.wall_ns - dry->before.wall_ns;
    return dry->before.wall_ns + (passed_ns < most_ns ? passed_ns : most_ns);
}

static void set_clock(struct dry *dry, uint64_t steady_ns) {
    struct instant *now = &dry->stage.now;
    if (steady_ns > now->steady_ns) now->steady_ns = steady_ns;
    bool is_there = now->steady_ns >= dry->next.steady_ns;
    uint64_t wall_ns = is_there ? dry->next.wall_ns : dry_wall_ns(dry);
    if (wall_ns > now->wall_ns) now->wall_ns = wall_ns;
}

/* Returns the steady time at which the first event with a wall clock time is due. UINT64_MAX: the event is not due
 * before the next frame. */
static uint64_t wall_item_ns(const struct dry *dry) {
    const struct agenda_entry *item = agenda_first(&dry->wall);
    if (item == NULL || item->at_ns > dry->next.wall_ns) return UINT64_MAX;
    if (item->at_ns <= dry->stage.now.wall_ns) return dry->stage.now.steady_ns;
    uint64_t at_ns = dry->before.steady_ns + (item->at_ns - dry->before.wall_ns);
    return at_ns < dry->next.steady_ns ? at_ns : dry->next.steady_ns;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Runs all events before the time `until_ns`. Of the events at exactly that time, runs those that belong to log
 * positions up to `position`. */
static void run_until(struct dry *dry, uint64_t until_ns, uint64_t position) {
    while (dry->stage.problem == NULL) {
        const struct agenda_entry *item = agenda_first(&dry->steady);
        uint64_t item_ns = item != NULL ? item->at_ns : UINT64_MAX;
        uint64_t wall_ns = wall_item_ns(dry);
        uint64_t core_ns = stage_deadline_ns(&dry->stage);
        uint64_t at_ns = least(least(item_ns, wall_ns), core_ns);
        if (at_ns > until_ns) break;
        bool is_core = core_ns == at_ns;
        bool is_after = item != NULL && at_ns == until_ns && !is_core && at_ns == item_ns && item->position > position;
        if (is_after && wall_ns > at_ns) break;
        set_clock(dry, at_ns);
        if (is_core) {
            stage_tick(&dry->stage);
        } else {
            struct agenda_entry taken = agenda_take(item_ns == at_ns && !is_after ? &dry->steady : &dry->wall);
            taken.run(dry, &taken);
        }
    }
    set_clock(dry, until_ns);
}

static void end_frame(struct dry *dry) {
    if (dry->frame == NULL) return;
    if (!dry->frame->settles) dry_ask(dry, dry->frame);
    asked_free(dry->frame);
    dry->frame = NULL;
    if (dry->frame_pages && stage_pages(&dry->stage))
        while (dry->frame_jobs_end && stage_pages(&dry->stage)) continue;
    dry->frame_pages = dry->frame_jobs_end = false;
}

static void release_consumers(struct dry *dry) {
    for (size_t i = 0; i < dry->plans.count; i++)
        if (dry->plans.items[i]->line != NULL) workers_withdraw(dry->plans.items[i]->line);
}

static void begin_frame(struct dry *dry, const struct entry *entry) {
    const struct frame_header *header = entry->header;
    end_frame(dry);
    dry->before = dry->next;
    dry->next = moment_of(header);
    /* Before the frame of a start the broker did not run, so the virtual clock stood still. */
    if (entry_kind(entry) == ENTRY_START) {
        release_consumers(dry);
        dry->before = dry->next;
        set_clock(dry, header->steady_ns);
    }
    run_until(dry, header->steady_ns, header->position);
    dry->position = header->position;
    dry->frame = asked_new(entry);
}

/* Returns whether the record settled the task's lease. If an atomic commit did so, the dry run repeats the whole commit
 * when its own delivery of the task ends. */
static bool settles(const struct entry *entry) {
    switch (entry_kind(entry)) {
    case ENTRY_ACKED:
    case ENTRY_RETRIED:
    case ENTRY_DEAD:
    case ENTRY_RELEASED:
        return true;
    default:
        return false;
    }
}

static int take(void *argument, const struct entry *entry) {
    struct dry *dry = argument;
    if (entry->header->position != dry->position) begin_frame(dry, entry);
    if (dry->stage.problem != NULL || dry->message[0] != 0) return 1;
    enum entry_kind kind = entry_kind(entry);
    dry->frame_jobs_end |= kind == ENTRY_JOB_END; /* the record of a job's end does not name the queue */
    dry->frame_pages |= (kind == ENTRY_JOB || kind == ENTRY_JOB_END) && entry->body->producer == 0;
    struct plan *plan = entry->queue != NULL ? plans_find(&dry->plans, entry->queue) : NULL;
    if (plan == NULL || !plan->taken) return 0;
    const Tarry__Task *task = entry_task(entry);
    struct life *life = task != NULL ? lives_find(&dry->lives, task->id) : NULL;
    asked_take(dry->frame, entry, plan, life);
    if (life != NULL && dry->frame->atomic && settles(entry)) dry->frame->settles = true;
    if (kind == ENTRY_QUEUE) plan->paused = entry->record->queue->paused;
    return 0;
}

static int read_lives(struct dry *dry, const struct scan_filter *filter, struct store *store) {
    int status = plans_learn(&dry->plans, store);
    if (status == 0) status = scan(store, filter, lives_take, &dry->lives);
    lives_end(&dry->lives);
    for (size_t i = 0; i < dry->plans.count; i++) dry->plans.items[i]->paused = false;
    if (status == 0) status = plans_learn(&dry->plans, store);
    return status;
}

static int play(struct dry *dry, const struct scan_filter *filter, struct store *store) {
    struct logical_time begin = dry->lives.first;
    uint64_t first_id = dry->lives.count > 0 ? dry->lives.items[0]->id : 1;
    if (!stage_init(&dry->stage, first_id, dry->lives.count, begin))
        return store_damaged(store, "not enough memory for %zu tasks; select fewer with --queue, --from, --to",
                             dry->lives.count);
    dry->stage.on_twin = dry_on_twin;
    dry->stage.argument = dry;
    dry->before = dry->next = begin;
    int status = scan(store, filter, take, dry);
    if (status == 1 && store->message[0] == 0) status = 0;
    end_frame(dry);
    run_until(dry, dry->lives.last.steady_ns, UINT64_MAX);
    if (dry->message[0] != 0) return store_damaged(store, "%s", dry->message);
    if (dry->stage.problem != NULL) return store_damaged(store, "the dry run ends: %s", dry->stage.problem);
    return status;
}

int replay_dry(struct tool *tool, const struct replay_options *options, struct store *store) {
    struct dry *dry = tool_alloc(sizeof *dry);
    struct scan_filter filter = {.from_ms = options->from_ms, .to_ms = options->to_ms};
    struct text out = {0};
    int status = plans_init(&dry->plans, options->args);
    dry->lives.plans = &dry->plans;
    if (status == 0) status = read_lives(dry, &filter, store);
    const char *missing = status == 0 ? plans_not_met(&dry->plans) : NULL;
    if (missing != NULL) status = tool_usage(options->args, "--set: the log has no queue '%s'", missing);
    if (status == 0) status = play(dry, &filter, store);
    const struct dry_lives came = {.lives = &dry->lives,
                                   .assumed = dry->assumed,
                                   .refused = dry->refused,
                                   .unmade = dry->unmade};
    if (status == 0) difference_print(&came, tool->json, &out);
    for (size_t i = 0; i < dry->plans.count; i++) free(dry->plans.items[i]->line);
    if (dry->stage.core != NULL) stage_deinit(&dry->stage);
    asked_free(dry->frame);
    agenda_deinit(&dry->steady);
    agenda_deinit(&dry->wall);
    lives_deinit(&dry->lives);
    plans_deinit(&dry->plans);
    free(dry);
    return store_finish(store, &out, status);
}
