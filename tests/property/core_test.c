/* core_test.c: seeded random histories of the core on virtual time, against a flat table and an outside ledger.
 *
 * Checked in every history: the core's digest equals that of the flat table after every step; a replay of the log has
 * the same digest at every prefix; single operations are answered as a naive model predicts; nothing is delivered early
 * (TIME-1), nor after an answered ack or cancel; `cancelled, deliveries = 0` was never seen by anybody (TRUE-1); a
 * repeated commit gets the same answer (ONCE-1); no accepted task is lost, and every one ends exactly once (KEEP-1); in
 * the end calm comes and nothing is left.
 *
 *   core_test [--seed N] [--histories N]        (also TARRY_SEED, TARRY_HISTORIES) */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../must.h"
#include "core_world.h"

#define REQUESTS_MAX 1024
#define KEYS 6
#define QUEUES 3
#define PRODUCERS 2

struct request {
    uint64_t ticket; /* index + 1 */
    Tarry__Request *request;
    struct core_content *contents;
    bool predicted;
    Tarry__Code code;
    Tarry__Outcome outcome;
    uint64_t id; /* predicted; 0: not */
    bool answered;
    uint8_t *answer; /* packed CommitReply */
    size_t answer_size;
};

struct ledger {
    struct world *world;
    struct request requests[REQUESTS_MAX];
    size_t request_count;
    uint64_t producer[PRODUCERS]; /* 0: none yet */
    uint64_t sequence[PRODUCERS];
    bool seen[FLAT_TASKS_MAX];           /* delivered to a consumer */
    bool over[FLAT_TASKS_MAX];           /* an ack or cancel of it was answered … */
    uint32_t deliveries[FLAT_TASKS_MAX]; /* … and that it had left so often */
    bool accepted[FLAT_TASKS_MAX];       /* its schedule was answered */
    bool calm;
};

static const char *queue_names[QUEUES] = {"orders", "calls", "mail"};

static struct random *chance(struct ledger *ledger) {
    return &ledger->world->random;
}
static bool one_in(struct ledger *ledger, uint64_t n) {
    return random_below(chance(ledger), n) == 0;
}

/* ---- the naive prediction */

static uint32_t queue_number(const struct flat *flat, const char *name) {
    for (uint32_t i = 1; i < FLAT_QUEUES_MAX; i++) {
        if (flat->queues[i].put.number && strcmp(flat->queues[i].name, name) == 0) return i;
    }
    return 0;
}

static bool has_expired(const struct ledger *ledger, const struct row *row) {
    uint64_t ns = row->base == ROW_WALL ? ledger->world->now.wall_ns : ledger->world->now.steady_ns;
    return row->state == ROW_WAITING && row->expires_ms && row->due_ms + row->expires_ms <= ns / 1000000;
}

static Tarry__Outcome outcome_of(const struct flat_task *task) {
    switch (task->cause) {
    case TARRY__CAUSE__CAUSE_ACKED:
        return TARRY__OUTCOME__ACKED;
    case TARRY__CAUSE__CAUSE_EXPIRED:
        return TARRY__OUTCOME__EXPIRED;
    case TARRY__CAUSE__CAUSE_DROPPED:
        return TARRY__OUTCOME__DROPPED;
    default:
        return TARRY__OUTCOME__ALREADY_CANCELLED;
    }
}

static const struct flat_task *last_ended(const struct flat *flat, uint32_t queue, const char *key, size_t size) {
    for (size_t i = flat->ending_count; i-- > 0;) {
        const struct flat_task *task = &flat->tasks[flat->endings[i]];
        bool same = task->row.queue == queue && task->row.key_size == size && !memcmp(task->key, key, size);
        if (same) return task;
    }
    return NULL;
}

static void predict_schedule(struct ledger *ledger, struct request *request, const Tarry__Schedule *schedule) {
    const struct flat *head = &ledger->world->head;
    uint32_t queue = queue_number(head, schedule->queue);
    const struct flat_task *live =
        queue ? flat_live(head, queue, (const char *)schedule->key.data, schedule->key.len) : NULL;
    request->outcome = TARRY__OUTCOME__SCHEDULED;
    if (!live || has_expired(ledger, &live->row)) return;
    uint64_t due_ms = schedule->when->ms;
    if (schedule->when->kind == TARRY__WHEN__KIND__DELAY) {
        due_ms += (ledger->world->now.steady_ns + 999999) / 1000000;
    }
    bool takes_over = schedule->on_conflict == TARRY__SCHEDULE__ON_CONFLICT__REPLACE;
    if (schedule->on_conflict == TARRY__SCHEDULE__ON_CONFLICT__EARLIER) takes_over = due_ms < live->row.due_ms;
    if (schedule->on_conflict == TARRY__SCHEDULE__ON_CONFLICT__LATER) takes_over = due_ms > live->row.due_ms;
    if (schedule->on_conflict == TARRY__SCHEDULE__ON_CONFLICT__REJECT ||
        (takes_over && live->row.state == ROW_LEASED)) {
        request->code = TARRY__CODE__EXISTS;
        request->outcome = TARRY__OUTCOME__LIVE;
        request->id = live->row.id;
    } else if (takes_over) {
        request->outcome = TARRY__OUTCOME__REPLACED;
    } else {
        request->outcome = TARRY__OUTCOME__KEPT;
        request->id = live->row.id;
    }
}

/* The task that a reference means: live, else dead, else the one that ended last. */
static const struct flat_task *meant(const struct flat *head, const Tarry__Ref *ref) {
    if (ref->id) return ref->id < FLAT_TASKS_MAX && head->tasks[ref->id].row.id ? &head->tasks[ref->id] : NULL;
    uint32_t queue = queue_number(head, ref->queue);
    if (!queue) return NULL;
    const char *key = (const char *)ref->key.data;
    const struct flat_task *task = flat_live(head, queue, key, ref->key.len);
    if (!task) task = flat_dead(head, queue, key, ref->key.len);
    return task ? task : last_ended(head, queue, key, ref->key.len);
}

static void predict_change(struct ledger *ledger, struct request *request, const Tarry__Ref *ref, bool withdraw,
                           Tarry__Outcome done) {
    const struct flat_task *task = meant(&ledger->world->head, ref);
    request->code = TARRY__CODE__NOT_DONE;
    request->outcome = TARRY__OUTCOME__UNKNOWN;
    if (!task) return;
    request->id = task->row.id;
    if (task->ended || has_expired(ledger, &task->row)) {
        request->outcome = task->ended ? outcome_of(task) : TARRY__OUTCOME__EXPIRED;
        bool is_repeat = done == TARRY__OUTCOME__CANCELLED && request->outcome == TARRY__OUTCOME__ALREADY_CANCELLED;
        if (is_repeat) request->code = TARRY__CODE__OK;
    } else if (task->row.state == ROW_BURIED) {
        request->outcome = TARRY__OUTCOME__DEAD;
    } else if (task->row.state == ROW_LEASED && !withdraw) {
        request->outcome = TARRY__OUTCOME__IN_FLIGHT;
    } else {
        request->code = TARRY__CODE__OK;
        request->outcome = done;
    }
}

static bool holds(const struct flat_task *task, const Tarry__Token *token) {
    return task->row.id && !task->ended && task->row.state == ROW_LEASED && task->row.lease_epoch == token->epoch &&
           task->row.lease_position == token->position;
}

static void predict_settle(struct ledger *ledger, struct request *request, uint64_t id, const Tarry__Token *token,
                           Tarry__Outcome done) {
    const struct flat_task *task = &ledger->world->head.tasks[id];
    request->outcome = done;
    if (holds(task, token)) return;
    request->code = TARRY__CODE__STALE_TOKEN;
    if (!task->row.id)
        request->outcome = TARRY__OUTCOME__UNKNOWN;
    else if (task->ended)
        request->outcome = outcome_of(task);
    else if (has_expired(ledger, &task->row))
        request->outcome = TARRY__OUTCOME__EXPIRED;
    else if (task->row.state == ROW_BURIED)
        request->outcome = TARRY__OUTCOME__DEAD;
    else
        request->outcome = task->row.state == ROW_LEASED ? TARRY__OUTCOME__IN_FLIGHT : TARRY__OUTCOME__PENDING;
}

static void predict_nack(struct ledger *ledger, struct request *request, const Tarry__Nack *nack) {
    predict_settle(ledger, request, nack->id, nack->token, TARRY__OUTCOME__NACKED);
    if (request->code) return;
    const struct row *row = &ledger->world->head.tasks[nack->id].row;
    uint32_t attempts_max = ledger->world->head.queues[row->queue].policy.max_attempts;
    if (nack->dead || (attempts_max && row->attempt >= attempts_max)) request->outcome = TARRY__OUTCOME__BURIED;
}

static void predict(void *observer, const struct core_event *event) {
    struct ledger *ledger = observer;
    const Tarry__Commit *commit = event->request->commit;
    struct request *request = &ledger->requests[event->ticket - 1];
    request->predicted = false;
    if (request->answered || commit->n_ops != 1) return;
    for (size_t i = 0; i < ledger->world->head.result_count; i++) { /* executed already: the answer was lost */
        const struct flat_result *result = &ledger->world->head.results[i];
        if (result->producer == commit->producer && result->sequence == commit->sequence) return;
    }
    request->predicted = true;
    request->code = TARRY__CODE__OK;
    request->id = 0;
    const Tarry__Op *op = commit->ops[0];
    switch (op->op_case) {
    case TARRY__OP__OP_SCHEDULE:
        predict_schedule(ledger, request, op->schedule);
        break;
    case TARRY__OP__OP_CANCEL:
        predict_change(ledger, request, op->cancel->task, op->cancel->withdraw, TARRY__OUTCOME__CANCELLED);
        break;
    case TARRY__OP__OP_MOVE:
        predict_change(ledger, request, op->move->task, false, TARRY__OUTCOME__MOVED);
        break;
    case TARRY__OP__OP_ACK:
        predict_settle(ledger, request, op->ack->id, op->ack->token, TARRY__OUTCOME__ACKED);
        break;
    case TARRY__OP__OP_NACK:
        predict_nack(ledger, request, op->nack);
        break;
    case TARRY__OP__OP_EXTEND:
        predict_settle(ledger, request, op->extend->id, op->extend->token, TARRY__OUTCOME__EXTENDED);
        break;
    case TARRY__OP__OP_RELEASE:
        predict_settle(ledger, request, op->release->id, op->release->token, TARRY__OUTCOME__RELEASED);
        break;
    default:
        request->predicted = false;
    }
}

/* ---- what clients and consumers see */

static void note_result(struct ledger *ledger, const Tarry__Op *op, const Tarry__OpResult *result) {
    MUST(result->id < FLAT_TASKS_MAX);
    bool took_effect = result->code == TARRY__CODE__OK;
    if (op->op_case == TARRY__OP__OP_SCHEDULE && took_effect) ledger->accepted[result->id] = true;
    if (result->outcome == TARRY__OUTCOME__CANCELLED) {
        if (result->deliveries == 0) MUST(!ledger->seen[result->id]); /* TRUE-1 */
    }
    bool is_over = result->outcome == TARRY__OUTCOME__CANCELLED || result->outcome == TARRY__OUTCOME__ACKED;
    if (!is_over) return;
    ledger->over[result->id] = true;
    ledger->deliveries[result->id] = result->deliveries;
}

static void on_commit_reply(struct ledger *ledger, struct request *request, const Tarry__CommitReply *reply) {
    const Tarry__Commit *commit = request->request->commit;
    MUST(reply->n_results == commit->n_ops);
    size_t size = tarry__commit_reply__get_packed_size(reply);
    uint8_t *packed = world_alloc(ledger->world, size);
    tarry__commit_reply__pack(reply, packed);
    if (request->answered) { /* ONCE-1: the same answer */
        MUST(size == request->answer_size && memcmp(packed, request->answer, size) == 0);
        return;
    }
    request->answered = true;
    request->answer = packed;
    request->answer_size = size;
    for (size_t i = 0; i < commit->n_ops; i++) note_result(ledger, commit->ops[i], reply->results[i]);
    if (commit->atomic && reply->aborted) {
        for (size_t i = 0; i < reply->n_results; i++) MUST(reply->results[i]->code != TARRY__CODE__OK);
    }
    if (!request->predicted) return;
    MUST(reply->results[0]->code == request->code && reply->results[0]->outcome == request->outcome);
    if (request->id) MUST(reply->results[0]->id == request->id);
}

static void on_reply(void *observer, uint64_t ticket, const Tarry__Reply *reply, const Tarry__CommitReply *commit) {
    struct ledger *ledger = observer;
    struct request *request = &ledger->requests[ticket - 1];
    if (commit) {
        on_commit_reply(ledger, request, commit);
    } else if (reply->body_case == TARRY__REPLY__BODY_HELLO) {
        for (size_t i = 0; i < PRODUCERS; i++) {
            if (ledger->producer[i]) continue;
            ledger->producer[i] = reply->hello->producer;
            ledger->sequence[i] = 0;
            break;
        }
    }
}

/* KEEP-1: an aborted commit leaves its answer in the log and nothing else. */
static void on_frame(void *observer, const Tarry__FrameBody *body) {
    (void)observer;
    if (!body->producer) return;
    Tarry__CommitReply *reply = tarry__commit_reply__unpack(NULL, body->reply.len, body->reply.data);
    MUST(reply);
    MUST(!reply->aborted || body->n_records == 0);
    tarry__commit_reply__free_unpacked(reply, NULL);
}

static void on_delivery(void *observer, const struct core_delivery *delivery) {
    struct ledger *ledger = observer;
    const struct world *world = ledger->world;
    for (size_t i = 0; i < delivery->count; i++) {
        const struct row *row = &delivery->tasks[i].row;
        uint64_t now_ns = row->base == ROW_WALL ? world->now.wall_ns : world->now.steady_ns;
        MUST(now_ns >= row->due_ms * 1000000); /* TIME-1 */
        /* TRUE-1: what leaves after an ending was answered had been counted in that answer (it was on its way). */
        MUST(!ledger->over[row->id] || row->deliveries <= ledger->deliveries[row->id]);
        ledger->seen[row->id] = true;
    }
}

/* ---- what clients do */

static struct request *new_request(struct ledger *ledger) {
    MUST(ledger->request_count < REQUESTS_MAX);
    struct request *request = &ledger->requests[ledger->request_count++];
    *request = (struct request){.ticket = ledger->request_count};
    request->request = world_alloc(ledger->world, sizeof(Tarry__Request));
    tarry__request__init(request->request);
    return request;
}

static void post(struct ledger *ledger, struct request *request, enum core_event_kind kind) {
    struct core_event event = {.kind = kind,
                               .ticket = request->ticket,
                               .request = request->request,
                               .contents = request->contents};
    world_post(ledger->world, &event);
}

#define NEW(ledger, type, init)                                                                                        \
    ({                                                                                                                 \
        type *new_ = world_alloc((ledger)->world, sizeof(type));                                                       \
        init(new_);                                                                                                    \
        new_;                                                                                                          \
    })

static Tarry__When *random_when(struct ledger *ledger) {
    Tarry__When *when = NEW(ledger, Tarry__When, tarry__when__init);
    bool is_absolute = one_in(ledger, 4);
    when->kind = is_absolute ? TARRY__WHEN__KIND__AT : TARRY__WHEN__KIND__DELAY;
    when->ms = random_magnitude(chance(ledger), 17);
    if (is_absolute) when->ms += ledger->world->now.wall_ns / 1000000 - 200;
    return when;
}

static ProtobufCBinaryData random_key(struct ledger *ledger) {
    static const char *keys[KEYS] = {"order-1", "order-2", "order-3", "x", "a rather longer key, of many bytes", "k"};
    const char *key = keys[random_below(chance(ledger), KEYS)];
    return (ProtobufCBinaryData){.data = (uint8_t *)key, .len = strlen(key)};
}

static char *random_queue(struct ledger *ledger) {
    return (char *)queue_names[random_below(chance(ledger), QUEUES)];
}

static Tarry__Ref *random_ref(struct ledger *ledger) {
    Tarry__Ref *ref = NEW(ledger, Tarry__Ref, tarry__ref__init);
    if (one_in(ledger, 3)) {
        ref->id = 1 + random_below(chance(ledger), 40);
    } else {
        ref->queue = random_queue(ledger);
        ref->key = random_key(ledger);
    }
    return ref;
}

static Tarry__Op *schedule_op(struct ledger *ledger, Tarry__Op *op) {
    op->op_case = TARRY__OP__OP_SCHEDULE;
    op->schedule = NEW(ledger, Tarry__Schedule, tarry__schedule__init);
    op->schedule->queue = random_queue(ledger);
    if (!one_in(ledger, 3)) op->schedule->key = random_key(ledger);
    op->schedule->when = random_when(ledger);
    op->schedule->priority = one_in(ledger, 3) ? (uint32_t)random_below(chance(ledger), PRIORITY_COUNT) : 0;
    op->schedule->expires_ms = one_in(ledger, 5) ? 1 + random_magnitude(chance(ledger), 14) : 0;
    op->schedule->on_conflict = (Tarry__Schedule__OnConflict)random_below(chance(ledger), 4);
    return op;
}

static const struct held *random_held(struct ledger *ledger) {
    const struct world *world = ledger->world;
    return world->held_count ? &world->held[random_below(chance(ledger), world->held_count)] : NULL;
}

static Tarry__Op *settle_op(struct ledger *ledger, Tarry__Op *op) {
    const struct held *held = random_held(ledger);
    if (!held) return schedule_op(ledger, op);
    Tarry__Token *token = NEW(ledger, Tarry__Token, tarry__token__init);
    token->epoch = held->epoch;
    token->position = held->position;
    switch (random_below(chance(ledger), 6)) {
    case 0:
        op->op_case = TARRY__OP__OP_NACK;
        op->nack = NEW(ledger, Tarry__Nack, tarry__nack__init);
        *op->nack = (Tarry__Nack){.base = op->nack->base, .id = held->id, .token = token, .reason = "no luck"};
        op->nack->dead = one_in(ledger, 3);
        op->nack->has_delay = one_in(ledger, 2);
        break;
    case 1:
        op->op_case = TARRY__OP__OP_EXTEND;
        op->extend = NEW(ledger, Tarry__Extend, tarry__extend__init);
        *op->extend = (Tarry__Extend){.base = op->extend->base, .id = held->id, .token = token, .lease_ms = 500};
        break;
    case 2:
        op->op_case = TARRY__OP__OP_RELEASE;
        op->release = NEW(ledger, Tarry__Release, tarry__release__init);
        *op->release = (Tarry__Release){.base = op->release->base, .id = held->id, .token = token};
        break;
    default:
        op->op_case = TARRY__OP__OP_ACK;
        op->ack = NEW(ledger, Tarry__Ack, tarry__ack__init);
        *op->ack = (Tarry__Ack){.base = op->ack->base, .id = held->id, .token = token};
    }
    return op;
}

static Tarry__Op *admin_op(struct ledger *ledger, Tarry__Op *op) {
    switch (random_below(chance(ledger), 4)) {
    case 0:
        op->op_case = TARRY__OP__OP_DEAD;
        op->dead = NEW(ledger, Tarry__DeadOp, tarry__dead_op__init);
        op->dead->what = (Tarry__DeadOp__What)random_below(chance(ledger), 2);
        op->dead->task = random_ref(ledger);
        op->dead->all = one_in(ledger, 4) && !op->dead->task->id;
        break;
    case 1:
        op->op_case = TARRY__OP__OP_QUEUE_PAUSE;
        op->queue_pause = NEW(ledger, Tarry__QueuePause, tarry__queue_pause__init);
        op->queue_pause->queue = random_queue(ledger);
        op->queue_pause->paused = one_in(ledger, 2);
        op->queue_pause->for_ms = one_in(ledger, 2) ? random_magnitude(chance(ledger), 12) : 0;
        break;
    case 2:
        op->op_case = TARRY__OP__OP_QUEUE_PURGE;
        op->queue_purge = NEW(ledger, Tarry__QueuePurge, tarry__queue_purge__init);
        op->queue_purge->queue = random_queue(ledger);
        op->queue_purge->states = (uint32_t)random_below(chance(ledger), 8);
        break;
    default: {
        static char *fields[] = {"lease_ms", "max_attempts", "backoff_min_ms"};
        op->op_case = TARRY__OP__OP_QUEUE_SET;
        op->queue_set = NEW(ledger, Tarry__QueueSet, tarry__queue_set__init);
        op->queue_set->queue = random_queue(ledger);
        op->queue_set->policy = NEW(ledger, Tarry__Policy, tarry__policy__init);
        op->queue_set->policy->lease_ms = 100 + random_magnitude(chance(ledger), 14);
        op->queue_set->policy->max_attempts = (uint32_t)random_below(chance(ledger), 4);
        op->queue_set->policy->backoff_min_ms = random_magnitude(chance(ledger), 8);
        op->queue_set->fields = fields;
        op->queue_set->n_fields = 3;
    }
    }
    return op;
}

static Tarry__Op *random_op(struct ledger *ledger) {
    Tarry__Op *op = NEW(ledger, Tarry__Op, tarry__op__init);
    switch (random_below(chance(ledger), 8)) {
    case 0:
    case 1:
        op->op_case = TARRY__OP__OP_CANCEL;
        op->cancel = NEW(ledger, Tarry__Cancel, tarry__cancel__init);
        op->cancel->task = random_ref(ledger);
        op->cancel->withdraw = one_in(ledger, 3);
        return op;
    case 2:
        op->op_case = TARRY__OP__OP_MOVE;
        op->move = NEW(ledger, Tarry__Move, tarry__move__init);
        op->move->task = random_ref(ledger);
        op->move->when = random_when(ledger);
        return op;
    case 3:
    case 4:
        return settle_op(ledger, op);
    case 5:
        return one_in(ledger, 2) ? admin_op(ledger, op) : settle_op(ledger, op);
    default:
        return schedule_op(ledger, op);
    }
}

static uint64_t oldest_unanswered(const struct ledger *ledger, uint64_t producer, uint64_t sequence) {
    for (size_t i = 0; i < ledger->request_count; i++) {
        const struct request *request = &ledger->requests[i];
        const Tarry__Commit *commit = request->request->commit;
        bool is_commit = request->request->body_case == TARRY__REQUEST__BODY_COMMIT;
        if (is_commit && commit->producer == producer && !request->answered && commit->sequence < sequence) {
            return commit->sequence;
        }
    }
    return sequence;
}

static void post_ops(struct ledger *ledger, Tarry__Op **ops, size_t count, bool atomic) {
    size_t who = random_below(chance(ledger), PRODUCERS);
    if (!ledger->producer[who]) return;
    struct request *request = new_request(ledger);
    Tarry__Commit *commit = NEW(ledger, Tarry__Commit, tarry__commit__init);
    request->request->body_case = TARRY__REQUEST__BODY_COMMIT;
    request->request->commit = commit;
    commit->producer = ledger->producer[who];
    commit->sequence = ++ledger->sequence[who];
    commit->atomic = atomic;
    commit->ops = ops;
    commit->n_ops = count;
    commit->oldest_unanswered = oldest_unanswered(ledger, commit->producer, commit->sequence);
    request->contents = world_alloc(ledger->world, count * sizeof *request->contents);
    for (size_t i = 0; i < count; i++) {
        request->contents[i].size = (uint32_t)random_below(chance(ledger), 100);
        request->contents[i].sum = random_u64(chance(ledger));
    }
    post(ledger, request, CORE_COMMIT);
}

static void commit_something(struct ledger *ledger) {
    size_t count = one_in(ledger, 3) ? 1 + random_below(chance(ledger), 5) : 1;
    Tarry__Op **ops = world_alloc(ledger->world, count * sizeof *ops);
    for (size_t i = 0; i < count; i++) ops[i] = random_op(ledger);
    post_ops(ledger, ops, count, one_in(ledger, 3));
}

/* What has not been answered, or was answered lately, again under the same sequence. */
static void repeat_something(struct ledger *ledger) {
    if (!ledger->request_count) return;
    struct request *request = &ledger->requests[random_below(chance(ledger), ledger->request_count)];
    if (request->request->body_case == TARRY__REQUEST__BODY_COMMIT) post(ledger, request, CORE_COMMIT);
}

static void hello(struct ledger *ledger) {
    struct request *request = new_request(ledger);
    request->request->body_case = TARRY__REQUEST__BODY_HELLO;
    request->request->hello = NEW(ledger, Tarry__Hello, tarry__hello__init);
    post(ledger, request, CORE_HELLO);
}

static size_t session_count(const struct world *world) {
    size_t count = 0;
    for (size_t i = 0; i < WORLD_SESSIONS_MAX; i++) count += world->sessions[i].id != 0;
    return count;
}

static void subscribe(struct ledger *ledger, uint64_t resume) {
    if (session_count(ledger->world) + 1 >= WORLD_SESSIONS_MAX) return;
    struct request *request = new_request(ledger);
    request->request->body_case = TARRY__REQUEST__BODY_SUBSCRIBE;
    Tarry__Subscribe *subscribe = NEW(ledger, Tarry__Subscribe, tarry__subscribe__init);
    request->request->subscribe = subscribe;
    subscribe->n_queues = 1 + random_below(chance(ledger), QUEUES);
    subscribe->queues = (char **)queue_names;
    subscribe->prefetch = 1 + (uint32_t)random_below(chance(ledger), 8);
    subscribe->lease_ms = one_in(ledger, 2) ? 200 + random_magnitude(chance(ledger), 12) : 0;
    struct core_event event = {.kind = CORE_SUBSCRIBE,
                               .ticket = request->ticket,
                               .request = request->request,
                               .session = resume};
    world_post(ledger->world, &event);
}

static void end_a_session(struct ledger *ledger) {
    struct world_session *session = &ledger->world->sessions[random_below(chance(ledger), WORLD_SESSIONS_MAX)];
    if (!session->id) return;
    if (one_in(ledger, 2)) {
        struct core_event event = {.kind = CORE_LANE_GONE, .session = session->id};
        world_post(ledger->world, &event);
        return;
    }
    struct request *request = new_request(ledger);
    request->request->body_case = TARRY__REQUEST__BODY_UNSUBSCRIBE;
    Tarry__Unsubscribe *unsubscribe = NEW(ledger, Tarry__Unsubscribe, tarry__unsubscribe__init);
    request->request->unsubscribe = unsubscribe;
    unsubscribe->session = session->id;
    unsubscribe->keep_leases = one_in(ledger, 2);
    unsubscribe->seen = world_alloc(ledger->world, sizeof(uint64_t));
    const struct held *held = random_held(ledger);
    if (held) unsubscribe->seen[unsubscribe->n_seen++] = held->id;
    post(ledger, request, CORE_UNSUBSCRIBE);
}

static void look(struct ledger *ledger) {
    struct request *request = new_request(ledger);
    if (one_in(ledger, 2)) {
        request->request->body_case = TARRY__REQUEST__BODY_GET;
        request->request->get = NEW(ledger, Tarry__Get, tarry__get__init);
        request->request->get->task = random_ref(ledger);
        post(ledger, request, CORE_GET);
    } else {
        request->request->body_case = TARRY__REQUEST__BODY_LIST;
        request->request->list = NEW(ledger, Tarry__List, tarry__list__init);
        request->request->list->queue = random_queue(ledger);
        request->request->list->states = (uint32_t)random_below(chance(ledger), 16);
        post(ledger, request, CORE_LIST);
    }
}

static void client_turn(struct ledger *ledger) {
    switch (random_below(chance(ledger), 16)) {
    case 0:
        subscribe(ledger, 0);
        break;
    case 1:
        if (one_in(ledger, 3)) end_a_session(ledger);
        break;
    case 2:
        look(ledger);
        break;
    case 3:
    case 4:
        repeat_something(ledger);
        break;
    case 5:
        if (!ledger->producer[PRODUCERS - 1]) hello(ledger);
        break;
    default:
        commit_something(ledger);
    }
}

/* A crash; clients repeat what was not answered, one session comes back. */
static void crash(struct ledger *ledger) {
    struct world *world = ledger->world;
    uint64_t back = world->sessions[random_below(chance(ledger), WORLD_SESSIONS_MAX)].id;
    world_crash(world);
    if (back && one_in(ledger, 2)) subscribe(ledger, back);
    for (size_t i = 0; i < ledger->request_count; i++) {
        struct request *request = &ledger->requests[i];
        bool is_open = request->request->body_case == TARRY__REQUEST__BODY_COMMIT && !request->answered;
        if (is_open && world->waiting_count < WORLD_WAITING_MAX / 2) post(ledger, request, CORE_COMMIT);
    }
}

/* ---- the calm at the end: everything due, every queue open, a consumer that acks all it gets */

static void open_queues(struct ledger *ledger) {
    for (size_t i = 0; i < QUEUES; i++) {
        Tarry__Op *op = NEW(ledger, Tarry__Op, tarry__op__init);
        op->op_case = TARRY__OP__OP_QUEUE_PAUSE;
        op->queue_pause = NEW(ledger, Tarry__QueuePause, tarry__queue_pause__init);
        op->queue_pause->queue = (char *)queue_names[i];
        Tarry__Op **ops = world_alloc(ledger->world, sizeof *ops);
        ops[0] = op;
        post_ops(ledger, ops, 1, false);
    }
}

static void ack_held(struct ledger *ledger) {
    struct world *world = ledger->world;
    while (world->held_count) {
        struct held held = world->held[--world->held_count];
        Tarry__Op *op = NEW(ledger, Tarry__Op, tarry__op__init);
        op->op_case = TARRY__OP__OP_ACK;
        op->ack = NEW(ledger, Tarry__Ack, tarry__ack__init);
        op->ack->id = held.id;
        op->ack->token = NEW(ledger, Tarry__Token, tarry__token__init);
        op->ack->token->epoch = held.epoch;
        op->ack->token->position = held.position;
        Tarry__Op **ops = world_alloc(world, sizeof *ops);
        ops[0] = op;
        post_ops(ledger, ops, 1, false);
    }
}

static void calm(struct ledger *ledger) {
    struct world *world = ledger->world;
    while (!ledger->producer[0] || !ledger->producer[PRODUCERS - 1]) {
        if (ledger->request_count < REQUESTS_MAX / 2) hello(ledger);
        world_settle(world);
    }
    world_settle(world);
    open_queues(ledger);
    for (int round = 0; core_live(world->core); round++) {
        MUST(round < 200); /* nothing is stuck */
        world->now.wall_ns += 400000000000ull;
        world_advance(world, 400000);
        world_settle(world);
        if (!session_count(world)) subscribe(ledger, 0);
        world_settle(world);
        ack_held(ledger);
        world_settle(world);
    }
}

static void check_ledger(const struct ledger *ledger) {
    const struct flat *head = &ledger->world->head;
    for (size_t id = 1; id < FLAT_TASKS_MAX; id++) {
        const struct flat_task *task = &head->tasks[id];
        if (ledger->accepted[id]) MUST(task->row.id == id); /* KEEP-1: nothing lost */
        if (task->row.id && !task->ended) MUST(task->row.state == ROW_BURIED);
        if (ledger->over[id]) MUST(task->ended);
    }
}

static void play(uint64_t seed) {
    struct core_options options = {
        .memory = 8u << 20,
        .outcomes_max = 1024,
        .outcome_retention_ms = 365ull * 24 * 3600 * 1000,
        .create_queues = true,
        .policy = {.base = PROTOBUF_C_MESSAGE_INIT(&tarry__policy__descriptor),
                   .lease_ms = 1000,
                   .max_attempts = 3,
                   .backoff_min_ms = 100,
                   .backoff_max_ms = 1000},
        .version = "test",
    };
    struct random random = {.state = seed};
    uint64_t memory = random_below(&random, 4); /* swarm: some histories with next to no memory */
    options.near_max = memory < 2 ? 0 : 4 + random_below(&random, 12);
    uint64_t crash_every = 20 + random_below(&random, 200);
    uint64_t turns = 40 + random_below(&random, 160);
    struct world *world = malloc(sizeof *world);
    struct ledger *ledger = calloc(1, sizeof *ledger);
    MUST(world && ledger);
    world_init(world, seed, &options);
    ledger->world = world;
    world->observer = ledger;
    world->on_reply = on_reply;
    world->on_delivery = on_delivery;
    world->on_frame = on_frame;
    world->before_commit = predict;
    struct core_event start = {.kind = CORE_START, .epoch = 1};
    world_post(world, &start);
    hello(ledger);
    for (uint64_t turn = 0; turn < turns; turn++) {
        bool roomy = world->waiting_count < WORLD_WAITING_MAX / 2 && world->delivery_count < 64;
        if (roomy && one_in(ledger, 3))
            client_turn(ledger);
        else if (one_in(ledger, crash_every))
            crash(ledger);
        else
            world_turn(world);
    }
    calm(ledger);
    check_ledger(ledger);
    core_check(world->core);
    world_deinit(world);
    free(world);
    free(ledger);
}

static uint64_t first_seed;
static uint64_t history_count;

static void histories_agree_with_the_flat_table(void **state) {
    for (uint64_t i = 0; i < history_count; i++) {
        if (getenv("TARRY_VERBOSE")) (void)fprintf(stderr, "seed %llu\n", (unsigned long long)(first_seed + i));
        play(first_seed + i);
    }
}

int main(int argc, char **argv) {
    const char *count = getenv("TARRY_HISTORIES");
    first_seed = random_seed(1);
    history_count = count ? strtoull(count, NULL, 0) : 100000;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) first_seed = strtoull(argv[i + 1], NULL, 0);
        if (strcmp(argv[i], "--histories") == 0) history_count = strtoull(argv[i + 1], NULL, 0);
    }
    mallopt(M_MMAP_THRESHOLD, 64 << 10); /* the core's tables come as untouched zero pages, time and again */
    const struct CMUnitTest tests[] = {cmocka_unit_test(histories_agree_with_the_flat_table)};
    return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}
