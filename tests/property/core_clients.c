/* core_clients.c: see core_clients.h. */
#include "core_clients.h"

#include <string.h>

#include "../must.h"

#define KEYS 6

const char *const queue_names[QUEUES] = {"orders", "calls", "mail"};

static struct random *chance(struct ledger *ledger) {
    return &ledger->world->random;
}
bool one_in(struct ledger *ledger, uint64_t n) {
    return random_below(chance(ledger), n) == 0;
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
        op->queue_purge->states = (uint32_t)random_below(chance(ledger), STATE_ALL + 1);
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

void client_hello(struct ledger *ledger) {
    struct request *request = new_request(ledger);
    request->request->body_case = TARRY__REQUEST__BODY_HELLO;
    request->request->hello = NEW(ledger, Tarry__Hello, tarry__hello__init);
    post(ledger, request, CORE_HELLO);
}

size_t client_sessions(const struct ledger *ledger) {
    size_t count = 0;
    for (size_t i = 0; i < WORLD_SESSIONS_MAX; i++) count += ledger->world->sessions[i].id != 0;
    return count;
}

void client_subscribe(struct ledger *ledger, uint64_t resume) {
    if (client_sessions(ledger) + 1 >= WORLD_SESSIONS_MAX) return;
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

void client_turn(struct ledger *ledger) {
    switch (random_below(chance(ledger), 16)) {
    case 0:
        client_subscribe(ledger, 0);
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
        if (!ledger->producer[PRODUCERS - 1]) client_hello(ledger);
        break;
    default:
        commit_something(ledger);
    }
}

void client_resume_queues(struct ledger *ledger) {
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

void client_ack_held(struct ledger *ledger) {
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

void client_repeat_open(struct ledger *ledger) {
    for (size_t i = 0; i < ledger->request_count; i++) {
        struct request *request = &ledger->requests[i];
        bool is_open = request->request->body_case == TARRY__REQUEST__BODY_COMMIT && !request->answered;
        if (is_open && ledger->world->waiting_count < WORLD_WAITING_MAX / 2) post(ledger, request, CORE_COMMIT);
    }
}
