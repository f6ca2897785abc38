/* ops.c: see ops.h. */
#include "ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../must.h"
#include "world.h"

#define NEW(world, type, init)                                                                                         \
    ({                                                                                                                 \
        type *new_ = world_alloc(world, sizeof(type));                                                                 \
        init(new_);                                                                                                    \
        new_;                                                                                                          \
    })

static Tarry__Op *op_new(struct world *world, Tarry__Op__OpCase kind) {
    Tarry__Op *op = NEW(world, Tarry__Op, tarry__op__init);
    op->op_case = kind;
    return op;
}

static ProtobufCBinaryData key_data(const char *key) {
    return (ProtobufCBinaryData){.data = (uint8_t *)key, .len = key ? strlen(key) : 0};
}

Tarry__When *op_when(struct world *world, uint64_t delay_ms, uint64_t at_ms) {
    Tarry__When *when = NEW(world, Tarry__When, tarry__when__init);
    when->kind = at_ms ? TARRY__WHEN__KIND__AT : TARRY__WHEN__KIND__DELAY;
    when->ms = at_ms ? at_ms : delay_ms;
    return when;
}

Tarry__Op *op_schedule(struct world *world, const struct schedule *schedule) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_SCHEDULE);
    op->schedule = NEW(world, Tarry__Schedule, tarry__schedule__init);
    op->schedule->queue = (char *)(schedule->queue ? schedule->queue : "orders");
    op->schedule->key = key_data(schedule->key);
    op->schedule->when = op_when(world, schedule->delay_ms, schedule->at_ms);
    op->schedule->priority = schedule->priority;
    op->schedule->expires_ms = schedule->expires_ms;
    op->schedule->on_conflict = schedule->on_conflict;
    op->schedule->serial = key_data(schedule->serial);
    op->schedule->max_attempts = schedule->max_attempts;
    op->schedule->backoff_ms = schedule->backoff_ms;
    op->schedule->lease_ms = schedule->lease_ms;
    return op;
}

Tarry__Ref *op_ref(struct world *world, const char *queue, const char *key, uint64_t id) {
    Tarry__Ref *ref = NEW(world, Tarry__Ref, tarry__ref__init);
    ref->id = id;
    if (queue) ref->queue = (char *)queue;
    ref->key = key_data(key);
    return ref;
}

Tarry__Op *op_cancel(struct world *world, Tarry__Ref *task, bool withdraw) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_CANCEL);
    op->cancel = NEW(world, Tarry__Cancel, tarry__cancel__init);
    op->cancel->task = task;
    op->cancel->withdraw = withdraw;
    return op;
}

Tarry__Op *op_move(struct world *world, Tarry__Ref *task, uint64_t delay_ms) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_MOVE);
    op->move = NEW(world, Tarry__Move, tarry__move__init);
    op->move->task = task;
    op->move->when = op_when(world, delay_ms, 0);
    return op;
}

static Tarry__Token *token_of(struct world *world, const struct held *held) {
    Tarry__Token *token = NEW(world, Tarry__Token, tarry__token__init);
    token->epoch = held->epoch;
    token->position = held->position;
    return token;
}

Tarry__Op *op_ack(struct world *world, const struct held *held) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_ACK);
    op->ack = NEW(world, Tarry__Ack, tarry__ack__init);
    op->ack->id = held->id;
    op->ack->token = token_of(world, held);
    return op;
}

Tarry__Op *op_nack(struct world *world, const struct held *held, bool has_delay, uint64_t delay_ms, bool dead) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_NACK);
    op->nack = NEW(world, Tarry__Nack, tarry__nack__init);
    op->nack->id = held->id;
    op->nack->token = token_of(world, held);
    op->nack->has_delay = has_delay;
    op->nack->delay_ms = delay_ms;
    op->nack->dead = dead;
    op->nack->reason = "no luck";
    return op;
}

Tarry__Op *op_extend(struct world *world, const struct held *held, uint64_t lease_ms) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_EXTEND);
    op->extend = NEW(world, Tarry__Extend, tarry__extend__init);
    op->extend->id = held->id;
    op->extend->token = token_of(world, held);
    op->extend->lease_ms = lease_ms;
    return op;
}

Tarry__Op *op_release(struct world *world, const struct held *held) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_RELEASE);
    op->release = NEW(world, Tarry__Release, tarry__release__init);
    op->release->id = held->id;
    op->release->token = token_of(world, held);
    return op;
}

Tarry__Op *op_dead(struct world *world, Tarry__DeadOp__What what, Tarry__Ref *task, bool all) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_DEAD);
    op->dead = NEW(world, Tarry__DeadOp, tarry__dead_op__init);
    op->dead->what = what;
    op->dead->task = task;
    op->dead->all = all;
    return op;
}

Tarry__Op *op_pause(struct world *world, const char *queue, bool paused, uint64_t for_ms) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_QUEUE_PAUSE);
    op->queue_pause = NEW(world, Tarry__QueuePause, tarry__queue_pause__init);
    op->queue_pause->queue = (char *)queue;
    op->queue_pause->paused = paused;
    op->queue_pause->for_ms = for_ms;
    return op;
}

Tarry__Op *op_delete(struct world *world, const char *queue) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_QUEUE_DELETE);
    op->queue_delete = NEW(world, Tarry__QueueDelete, tarry__queue_delete__init);
    op->queue_delete->queue = (char *)queue;
    op->queue_delete->forget = queue[strlen(queue) - 1] % 2 == 0; /* "lone-2" */
    return op;
}

static const char *const filters[SIM_FILTERS + 1] = {
    "*", "tag = '1'", "tag in ('0', '2') and not tag = '2'", "exists tag and tag prefix '2'", "tag != '1'", ""};

static bool has_tag(uint64_t id) {
    return id % 5 != 0;
}

bool sim_filter_matches(const char *filter, uint64_t id) {
    size_t i = 0;
    while (i < SIM_FILTERS && strcmp(filters[i], filter) != 0) i++;
    MUST(i < SIM_FILTERS);
    switch (i) {
    case 0:
        return true;
    case 1:
        return has_tag(id) && id % 3 == 1;
    case 2:
        return has_tag(id) && id % 3 == 0;
    case 3:
        return has_tag(id) && id % 3 == 2;
    default:
        return !has_tag(id) || id % 3 != 1;
    }
}

Tarry__Op *op_create(struct world *world, const char *queue) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_QUEUE_SET);
    op->queue_set = NEW(world, Tarry__QueueSet, tarry__queue_set__init);
    op->queue_set->policy = NEW(world, Tarry__Policy, tarry__policy__init);
    op->queue_set->queue = (char *)queue;
    return op;
}

Tarry__Op *op_group(struct world *world, const char *queue, uint32_t filter) {
    static char *fields[] = {"filter"};
    Tarry__Op *op = op_create(world, queue);
    op->queue_set->policy->filter = (char *)filters[filter];
    op->queue_set->fields = fields;
    op->queue_set->n_fields = 1;
    return op;
}

Tarry__Op *op_fan_out(struct world *world, const struct held *held) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_FAN_OUT);
    op->fan_out = NEW(world, Tarry__FanOut, tarry__fan_out__init);
    op->fan_out->id = held->id;
    op->fan_out->token = token_of(world, held);
    if (!has_tag(held->id)) return op;
    Tarry__Attribute *attribute = NEW(world, Tarry__Attribute, tarry__attribute__init);
    const char value[] = {(char)('0' + held->id % 3), 0};
    attribute->name = (char *)"tag";
    attribute->value = world_copy(world, value, sizeof value);
    op->fan_out->attributes = world_copy(world, &attribute, sizeof(Tarry__Attribute *));
    op->fan_out->n_attributes = 1;
    return op;
}

Tarry__Op *op_early(struct world *world, const char *queue) {
    static char *fields[] = {"lease_before_due"};
    Tarry__Op *op = op_new(world, TARRY__OP__OP_QUEUE_SET);
    op->queue_set = NEW(world, Tarry__QueueSet, tarry__queue_set__init);
    op->queue_set->policy = NEW(world, Tarry__Policy, tarry__policy__init);
    op->queue_set->policy->lease_before_due = true;
    op->queue_set->queue = (char *)queue;
    op->queue_set->fields = fields;
    op->queue_set->n_fields = 1;
    return op;
}

Tarry__Op *op_define(struct world *world, uint32_t number, bool deletes, const uint64_t *expected) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_DEFINE);
    const char name[] = {'x', (char)number};
    op->define = NEW(world, Tarry__Define, tarry__define__init);
    op->define->space = (char *)"sim";
    op->define->name.data = world_copy(world, name, sizeof name);
    op->define->name.len = sizeof name;
    op->define->deleted = deletes;
    if (!deletes) op->define->value = op->define->name;
    op->define->has_expected = expected != NULL;
    if (expected) op->define->expected = *expected;
    return op;
}

Tarry__Op *op_recur_set(struct world *world, const Tarry__RecurSet *set) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_RECUR_SET);
    op->recur_set = world_copy(world, set, sizeof *set);
    return op;
}

Tarry__Op *op_recur_do(struct world *world, const char *queue, const char *name, Tarry__RecurDo__What what) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_RECUR_DO);
    op->recur_do = NEW(world, Tarry__RecurDo, tarry__recur_do__init);
    op->recur_do->queue = (char *)queue;
    op->recur_do->name = (char *)name;
    op->recur_do->what = what;
    return op;
}

Tarry__Op *op_purge(struct world *world, const char *queue, uint32_t states) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_QUEUE_PURGE);
    op->queue_purge = NEW(world, Tarry__QueuePurge, tarry__queue_purge__init);
    op->queue_purge->queue = (char *)queue;
    op->queue_purge->states = states;
    return op;
}

Tarry__Op *op_redact(struct world *world, Tarry__Ref *task, uint64_t from_ms, uint64_t to_ms, uint64_t after_id) {
    Tarry__Op *op = op_new(world, TARRY__OP__OP_REDACT);
    op->redact = NEW(world, Tarry__Redact, tarry__redact__init);
    op->redact->task = task;
    op->redact->reason = "nobody's business";
    op->redact->from_ms = from_ms;
    op->redact->to_ms = to_ms;
    op->redact->after_id = after_id;
    return op;
}

Tarry__Op *op_queue_set(struct world *world, const char *queue, uint64_t lease_ms, uint32_t max_attempts,
                        uint64_t backoff_min_ms) {
    static char *fields[] = {"lease_ms", "max_attempts", "backoff_min_ms"};
    Tarry__Op *op = op_new(world, TARRY__OP__OP_QUEUE_SET);
    op->queue_set = NEW(world, Tarry__QueueSet, tarry__queue_set__init);
    op->queue_set->queue = (char *)queue;
    op->queue_set->policy = NEW(world, Tarry__Policy, tarry__policy__init);
    op->queue_set->policy->lease_ms = lease_ms;
    op->queue_set->policy->max_attempts = max_attempts;
    op->queue_set->policy->backoff_min_ms = backoff_min_ms;
    op->queue_set->fields = fields;
    op->queue_set->n_fields = 3;
    return op;
}

Tarry__Op *op_queue_limits(struct world *world, const char *queue, uint32_t rate, uint32_t burst,
                           uint32_t max_in_flight) {
    static char *fields[] = {"rate", "burst", "max_in_flight"};
    Tarry__Op *op = op_queue_set(world, queue, 0, 0, 0);
    op->queue_set->policy->rate = rate;
    op->queue_set->policy->burst = burst;
    op->queue_set->policy->max_in_flight = max_in_flight;
    op->queue_set->fields = fields;
    return op;
}

Tarry__Op *op_queue_herd(struct world *world, const char *queue, const struct herd *herd) {
    static char *fields[] = {"spread_ms", "overdue_expire_ms", "overdue_dead_ms", "overdue_spread_ms"};
    Tarry__Op *op = op_queue_set(world, queue, 0, 0, 0);
    Tarry__Policy *policy = op->queue_set->policy;
    policy->spread_ms = herd->spread_ms;
    policy->overdue_expire_ms = herd->overdue_expire_ms;
    policy->overdue_dead_ms = herd->overdue_dead_ms;
    policy->overdue_spread_ms = herd->overdue_spread_ms;
    op->queue_set->fields = fields;
    op->queue_set->n_fields = 4;
    return op;
}

/* ---- for the trace */

static const char *ref_text(const Tarry__Ref *ref) {
    static char text[160];
    if (ref->id)
        snprintf(text, sizeof text, "task %" PRIu64, ref->id);
    else
        snprintf(text, sizeof text, "%s %.*s", ref->queue, (int)ref->key.len, (const char *)ref->key.data);
    return text;
}

static const char *when_text(const Tarry__When *when) {
    static char text[48];
    if (when->kind == TARRY__WHEN__KIND__DELAY)
        snprintf(text, sizeof text, "in %" PRIu64 " ms", when->ms);
    else
        snprintf(text, sizeof text, "at %" PRId64 " ms", (int64_t)when->ms - (int64_t)(WORLD_EPOCH_NS / 1000000));
    return text;
}

static size_t schedule_text(char *text, size_t size, const Tarry__Schedule *schedule) {
    static const char *const conflicts[] = {"", ", replacing", ", the earlier", ", the later"};
    return (size_t)snprintf(text, size, "schedule %s %.*s%s%s%s", schedule->queue, (int)schedule->key.len,
                            schedule->key.len ? (const char *)schedule->key.data : "", schedule->key.len ? " " : "",
                            when_text(schedule->when), conflicts[schedule->on_conflict & 3]);
}

const char *op_text(const Tarry__Op *op) {
    static char text[400];
    switch (op->op_case) {
    case TARRY__OP__OP_SCHEDULE:
        (void)schedule_text(text, sizeof text, op->schedule);
        break;
    case TARRY__OP__OP_CANCEL:
        snprintf(text, sizeof text, "%s %s", op->cancel->withdraw ? "withdraw" : "cancel", ref_text(op->cancel->task));
        break;
    case TARRY__OP__OP_MOVE:
        snprintf(text, sizeof text, "move %s %s", ref_text(op->move->task), when_text(op->move->when));
        break;
    case TARRY__OP__OP_ACK:
        snprintf(text, sizeof text, "ack task %" PRIu64, op->ack->id);
        break;
    case TARRY__OP__OP_NACK:
        snprintf(text, sizeof text, "nack task %" PRIu64 "%s", op->nack->id, op->nack->dead ? ", it is hopeless" : "");
        break;
    case TARRY__OP__OP_EXTEND:
        snprintf(text, sizeof text, "extend task %" PRIu64, op->extend->id);
        break;
    case TARRY__OP__OP_RELEASE:
        snprintf(text, sizeof text, "release task %" PRIu64, op->release->id);
        break;
    case TARRY__OP__OP_DEAD:
        snprintf(text, sizeof text, "%s%s %s", op->dead->what == TARRY__DEAD_OP__WHAT__DROP ? "drop" : "requeue",
                 op->dead->all ? " all of" : "", ref_text(op->dead->task));
        break;
    case TARRY__OP__OP_QUEUE_PAUSE:
        snprintf(text, sizeof text, "%s %s", op->queue_pause->paused ? "pause" : "resume", op->queue_pause->queue);
        break;
    case TARRY__OP__OP_FAN_OUT:
        snprintf(text, sizeof text, "share task %" PRIu64, op->fan_out->id);
        break;
    case TARRY__OP__OP_QUEUE_PURGE:
        snprintf(text, sizeof text, "purge %s", op->queue_purge->queue);
        break;
    case TARRY__OP__OP_REDACT:
        snprintf(text, sizeof text, "redact %s", ref_text(op->redact->task));
        break;
    case TARRY__OP__OP_DEFINE:
        snprintf(text, sizeof text, "%s definition %d", op->define->deleted ? "delete" : "set",
                 op->define->name.data[1]);
        break;
    default:
        snprintf(text, sizeof text, "set %s", op->queue_set->queue);
    }
    return text;
}

static const char *enum_text(const ProtobufCEnumDescriptor *descriptor, int value, size_t skip) {
    static char text[48];
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(descriptor, value);
    if (!found) return "?";
    size_t size = 0;
    for (const char *at = found->name + skip; *at && size + 1 < sizeof text; at++) {
        char letter = *at;
        if (letter >= 'A' && letter <= 'Z') letter = (char)(letter + 'a' - 'A');
        text[size++] = letter == '_' ? ' ' : letter;
    }
    text[size] = 0;
    return text;
}

const char *result_text(const Tarry__OpResult *result) {
    static char text[160];
    size_t size = 0;
    if (result->code != TARRY__CODE__OK)
        size = (size_t)snprintf(text, sizeof text, "%s: ", enum_text(&tarry__code__descriptor, (int)result->code, 0));
    size += (size_t)snprintf(text + size, sizeof text - size, "%s",
                             enum_text(&tarry__outcome__descriptor, (int)result->outcome, 0));
    if (result->id) size += (size_t)snprintf(text + size, sizeof text - size, ", task %" PRIu64, result->id);
    if (result->deliveries) snprintf(text + size, sizeof text - size, ", deliveries %" PRIu32, result->deliveries);
    return text;
}

static size_t record_text(char *text, size_t size, const Tarry__Record *record) {
    switch (record->fact_case) {
    case TARRY__RECORD__FACT_PUT:
        return (size_t)snprintf(text, size, "%s %" PRIu64,
                                enum_text(&tarry__cause__descriptor, (int)record->put->cause, strlen("CAUSE_")),
                                record->put->task->id);
    case TARRY__RECORD__FACT_END:
        return (size_t)snprintf(text, size, "%s %" PRIu64,
                                enum_text(&tarry__cause__descriptor, (int)record->end->cause, strlen("CAUSE_")),
                                record->end->task->id);
    case TARRY__RECORD__FACT_QUEUE:
        return (size_t)snprintf(text, size, "queue %s", record->queue->name);
    case TARRY__RECORD__FACT_PRODUCER:
        return (size_t)snprintf(text, size, "producer");
    case TARRY__RECORD__FACT_PRODUCER_END:
        return (size_t)snprintf(text, size, "producer over");
    case TARRY__RECORD__FACT_JOB:
        return (size_t)snprintf(text, size, "job after %" PRIu64, record->job->after_id);
    case TARRY__RECORD__FACT_JOB_END:
        return (size_t)snprintf(text, size, "job done");
    case TARRY__RECORD__FACT_REDACTION:
        return (size_t)snprintf(text, size, "redaction of %" PRIu64, record->redaction->id);
    case TARRY__RECORD__FACT_DEFINITION:
        return (size_t)snprintf(text, size, "definition %s", record->definition->deleted ? "deleted" : "set");
    case TARRY__RECORD__FACT_RECUR:
        return (size_t)snprintf(text, size, "recurrence %s: %s", record->recur->name,
                                enum_text(&tarry__recur_put__cause__descriptor, (int)record->recur->cause, 0));
    case TARRY__RECORD__FACT_EPOCH:
        return (size_t)snprintf(text, size, "epoch %" PRIu32, record->epoch->epoch);
    case TARRY__RECORD__FACT_SESSION:
        return (size_t)snprintf(text, size, "session");
    case TARRY__RECORD__FACT_SESSION_END:
        return (size_t)snprintf(text, size, "session over");
    case TARRY__RECORD__FACT_STOP:
        return (size_t)snprintf(text, size, "stop");
    case TARRY__RECORD__FACT_REFUSED:
        return (size_t)snprintf(text, size, "refused");
    case TARRY__RECORD__FACT_ALONE:
        return (size_t)snprintf(text, size, record->alone->over ? "alone no more" : "alone");
    default:
        return (size_t)snprintf(text, size, "clock accepted");
    }
}

const char *frame_text(const struct frame_header *header, const Tarry__FrameBody *body) {
    static char text[300];
    if (header->type == FRAME_SEAL) return "seal";
    if (!body->n_records) return "nothing but the answer";
    size_t size = 0;
    for (size_t i = 0; i < body->n_records && size + 80 < sizeof text; i++) {
        if (i) size += (size_t)snprintf(text + size, sizeof text - size, ", ");
        size += record_text(text + size, sizeof text - size, body->records[i]);
    }
    return text;
}
