/* ops.c: see ops.h. */
#include "ops.h"

#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "tarry_limits.h"

void *ops_keep(struct arena *arena, size_t size) {
    void *out = arena_alloc(arena, size > 0 ? size : 1);
    if (out == NULL) abort();
    return memset(out, 0, size);
}

#define NEW(from, type, init) OPS_NEW((from)->arena, type, init)

const char *const ops_queues[OPS_QUEUES] = {"orders", "calls", "mail"};
static const char *const keys[] = {"order-1", "order-2", "k", ""};

static Tarry__When *any_when(const struct ops_source *from) {
    Tarry__When *when = NEW(from, Tarry__When, tarry__when__init);
    uint8_t what = input_byte(from->input);
    when->kind = what % 4 == 0 ? TARRY__WHEN__KIND__AT : TARRY__WHEN__KIND__DELAY;
    when->ms = (uint64_t)input_byte(from->input) << what / 4 % 24;
    if (what % 4 == 0) when->ms += from->wall_ms - 100;
    return when;
}

static ProtobufCBinaryData any_key(const struct ops_source *from) {
    const char *key = keys[input_byte(from->input) % 4];
    return (ProtobufCBinaryData){strlen(key), (uint8_t *)key};
}

Tarry__Ref *ops_ref(const struct ops_source *from) {
    Tarry__Ref *ref = NEW(from, Tarry__Ref, tarry__ref__init);
    uint8_t what = input_byte(from->input);
    if (what % 3 == 0) {
        ref->id = 1 + what / 3;
    } else {
        ref->queue = (char *)ops_queues[what % OPS_QUEUES];
        ref->key = (ProtobufCBinaryData){7, (uint8_t *)keys[what / 4 % 2]};
    }
    return ref;
}

/* Returns a token, usually of a lease that exists. */
static Tarry__Token *any_token(const struct ops_source *from, uint64_t *out_id) {
    Tarry__Token *token = NEW(from, Tarry__Token, tarry__token__init);
    struct ops_lease lease = {1 + input_byte(from->input) % 16, LOG_POSITION_FIRST, from->epoch};
    if (from->held_count > 0) lease = from->held[input_below(from->input, from->held_count)];
    *out_id = lease.id;
    token->epoch = lease.epoch;
    token->position = lease.position;
    return token;
}

static void settle_op(const struct ops_source *from, Tarry__Op *op, unsigned what) {
    uint64_t id;
    Tarry__Token *token = any_token(from, &id);
    if (what == 4) {
        op->op_case = TARRY__OP__OP_ACK, op->ack = NEW(from, Tarry__Ack, tarry__ack__init);
        op->ack->id = id, op->ack->token = token;
    } else if (what == 5) {
        op->op_case = TARRY__OP__OP_NACK, op->nack = NEW(from, Tarry__Nack, tarry__nack__init);
        op->nack->id = id, op->nack->token = token, op->nack->reason = "no luck";
        op->nack->dead = input_byte(from->input) % 2;
    } else if (what == 6) {
        op->op_case = TARRY__OP__OP_EXTEND, op->extend = NEW(from, Tarry__Extend, tarry__extend__init);
        op->extend->id = id, op->extend->token = token, op->extend->lease_ms = (uint64_t)input_byte(from->input) * 50;
    } else {
        op->op_case = TARRY__OP__OP_RELEASE, op->release = NEW(from, Tarry__Release, tarry__release__init);
        op->release->id = id, op->release->token = token;
    }
}

static void admin_op(const struct ops_source *from, Tarry__Op *op, unsigned what) {
    char *queue = (char *)ops_queues[input_byte(from->input) % OPS_QUEUES];
    static char *fields[] = {"lease_ms", "max_attempts"};
    if (what == 8) {
        op->op_case = TARRY__OP__OP_DEAD, op->dead = NEW(from, Tarry__DeadOp, tarry__dead_op__init);
        op->dead->task = ops_ref(from), op->dead->what = (Tarry__DeadOp__What)(input_byte(from->input) % 2);
        op->dead->all = input_byte(from->input) % 4 == 0 && op->dead->task->id == 0;
    } else if (what == 9) {
        op->op_case = TARRY__OP__OP_QUEUE_PAUSE,
        op->queue_pause = NEW(from, Tarry__QueuePause, tarry__queue_pause__init);
        op->queue_pause->queue = queue, op->queue_pause->paused = input_byte(from->input) % 2,
        op->queue_pause->for_ms = input_byte(from->input);
    } else if (what == 10) {
        op->op_case = TARRY__OP__OP_QUEUE_PURGE,
        op->queue_purge = NEW(from, Tarry__QueuePurge, tarry__queue_purge__init);
        op->queue_purge->queue = queue, op->queue_purge->states = input_byte(from->input) % (STATE_ALL + 1);
    } else {
        op->op_case = TARRY__OP__OP_QUEUE_SET, op->queue_set = NEW(from, Tarry__QueueSet, tarry__queue_set__init);
        op->queue_set->queue = queue, op->queue_set->policy = NEW(from, Tarry__Policy, tarry__policy__init);
        op->queue_set->policy->lease_ms = 100 + input_byte(from->input),
        op->queue_set->policy->max_attempts = input_byte(from->input) % 4;
        op->queue_set->fields = fields, op->queue_set->n_fields = 2;
    }
}

/* Makes a reference to one task, a key or a queue. */
static void redact_op(const struct ops_source *from, Tarry__Op *op) {
    op->op_case = TARRY__OP__OP_REDACT, op->redact = NEW(from, Tarry__Redact, tarry__redact__init);
    op->redact->task = ops_ref(from), op->redact->reason = "nobody's business";
    uint8_t what = input_byte(from->input);
    if (op->redact->task->id == 0 && what % 4 == 0) {
        op->redact->task->key.len = 0;
        op->redact->from_ms = 1;
    }
    op->redact->after_id = what % 16 / 12;
}

Tarry__Op *ops_any(const struct ops_source *from) {
    Tarry__Op *op = NEW(from, Tarry__Op, tarry__op__init);
    unsigned what = input_byte(from->input) % 16;
    if (what >= 4 && what <= 7) {
        settle_op(from, op, what);
    } else if (what >= 8 && what <= 11) {
        admin_op(from, op, what);
    } else if (what == 15) {
        redact_op(from, op);
    } else if (what == 2) {
        op->op_case = TARRY__OP__OP_CANCEL, op->cancel = NEW(from, Tarry__Cancel, tarry__cancel__init);
        op->cancel->task = ops_ref(from), op->cancel->withdraw = input_byte(from->input) % 2;
    } else if (what == 3) {
        op->op_case = TARRY__OP__OP_MOVE, op->move = NEW(from, Tarry__Move, tarry__move__init);
        op->move->task = ops_ref(from), op->move->when = any_when(from);
    } else {
        op->op_case = TARRY__OP__OP_SCHEDULE, op->schedule = NEW(from, Tarry__Schedule, tarry__schedule__init);
        op->schedule->queue = (char *)ops_queues[input_byte(from->input) % OPS_QUEUES],
        op->schedule->key = any_key(from);
        op->schedule->when = any_when(from), op->schedule->priority = input_byte(from->input) % PRIORITY_COUNT;
        const uint8_t choice = input_byte(from->input);
        op->schedule->on_conflict = (Tarry__Schedule__OnConflict)(choice % 4);
        if (choice >= 192) op->schedule->serial = (ProtobufCBinaryData){1, (uint8_t *)"s"};
        if (choice % 16 == 5) op->schedule->max_attempts = 1 + choice / 64, op->schedule->backoff_ms = choice;
        if (choice % 16 == 6) op->schedule->lease_ms = LEASE_MIN_MS + choice;
        op->schedule->expires_ms = input_byte(from->input) % 4 == 0 ? input_byte(from->input) : 0;
    }
    return op;
}
