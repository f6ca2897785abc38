/* predict.c: predicts the reply to a single operation from a naive model of the state right before the core decides
 * (ledger.h). Commits of several operations are only checked against the laws: the effects of their earlier
 * operations are not modelled. */
#include <string.h>

#include "../must.h"
#include "client.h"
#include "host.h"
#include "leases.h"
#include "ledger.h"
#include "world.h"

static bool has_expired(struct world *world, const struct row *row) {
    struct instant now = host_answers_at(world);
    uint64_t now_ms = (row->base == ROW_WALL ? now.wall_ns : now.steady_ns) / NS_PER_MS;
    return row->state == ROW_WAITING && row_expires_at(row) <= now_ms;
}

static Tarry__Outcome outcome_of(const struct flat_task *task) {
    switch (task->cause) {
    case TARRY__CAUSE__CAUSE_ACKED:
        return TARRY__OUTCOME__ACKED;
    case TARRY__CAUSE__CAUSE_EXPIRED:
        return TARRY__OUTCOME__EXPIRED;
    case TARRY__CAUSE__CAUSE_DROPPED:
        return TARRY__OUTCOME__DROPPED;
    case TARRY__CAUSE__CAUSE_SHARED:
        return TARRY__OUTCOME__SHARED;
    case TARRY__CAUSE__CAUSE_UNMATCHED:
        return TARRY__OUTCOME__UNMATCHED;
    default:
        return TARRY__OUTCOME__ALREADY_CANCELLED;
    }
}

/* Predicts the reply about a task that has ended: its outcome, unless the broker may have forgotten it. */
static void predict_ended(struct world *world, struct prediction *prediction, const struct flat_task *task) {
    if (!task->ended) {
        prediction->outcome = TARRY__OUTCOME__EXPIRED; /* the request finds the expired task, and so makes it end */
        return;
    }
    prediction->outcome = outcome_of(task);
    prediction->may_be_forgotten = true;
    prediction->redacted = task->redacted;
    prediction->ended_ms = task->ended_ms;
}

static bool is_in_flight(const struct world *world, const struct row *row) {
    return row->state == ROW_LEASED && !host_holds_back(world, row);
}

/* Returns whether the time is more than 10 years ahead. The broker refuses such a time. */
static bool is_too_far(struct world *world, const Tarry__When *when) {
    uint64_t from_ms = when->kind == TARRY__WHEN__KIND__AT ? host_answers_at(world).wall_ns / NS_PER_MS : 0;
    return when->ms > from_ms + DUE_AHEAD_MAX_MS;
}

static void refuse_as_invalid(struct prediction *prediction) {
    prediction->code = TARRY__CODE__INVALID;
    prediction->outcome = TARRY__OUTCOME__NONE;
    prediction->id = 0;
}

static void predict_schedule(struct world *world, struct prediction *prediction, const Tarry__Schedule *schedule) {
    const struct flat *head = &world->host->head;
    uint32_t queue = flat_queue_number(head, schedule->queue);
    const struct flat_task *live = flat_live(head, queue, schedule->key.data, schedule->key.len);
    prediction->outcome = TARRY__OUTCOME__SCHEDULED;
    if (is_too_far(world, schedule->when)) {
        refuse_as_invalid(prediction);
        return;
    }
    if (!live || has_expired(world, &live->row)) return;
    uint64_t due_ms = schedule->when->ms;
    if (schedule->when->kind == TARRY__WHEN__KIND__DELAY)
        due_ms = due_ms == 0 ? host_answers_at(world).steady_ns / NS_PER_MS
                             : due_ms + (host_from_ns(world) + NS_PER_MS - 1) / NS_PER_MS;
    bool takes_over = schedule->on_conflict == TARRY__SCHEDULE__ON_CONFLICT__REPLACE;
    if (schedule->on_conflict == TARRY__SCHEDULE__ON_CONFLICT__EARLIER)
        takes_over = due_ms < live->row.due_ms - live->row.spread_ms;
    if (schedule->on_conflict == TARRY__SCHEDULE__ON_CONFLICT__LATER)
        takes_over = due_ms > live->row.due_ms - live->row.spread_ms;
    bool is_leased = is_in_flight(world, &live->row);
    if (schedule->on_conflict == TARRY__SCHEDULE__ON_CONFLICT__REJECT || (takes_over && is_leased)) {
        prediction->code = TARRY__CODE__EXISTS;
        prediction->outcome = TARRY__OUTCOME__LIVE;
        prediction->id = live->row.id;
    } else if (takes_over) {
        prediction->outcome = TARRY__OUTCOME__REPLACED;
    } else {
        prediction->outcome = TARRY__OUTCOME__KEPT;
        prediction->id = live->row.id;
    }
}

/* Returns the task that a reference names: the live one, otherwise the dead one, otherwise the one that ended last. */
static const struct flat_task *meant(const struct flat *head, const Tarry__Ref *ref) {
    if (ref->id) return ref->id < head->next_id ? &head->tasks[ref->id] : NULL;
    uint32_t queue = flat_queue_number(head, ref->queue);
    const struct flat_task *task = flat_live(head, queue, ref->key.data, ref->key.len);
    if (!task) task = flat_dead(head, queue, ref->key.data, ref->key.len);
    return task ? task : flat_ended(head, queue, ref->key.data, ref->key.len);
}

static void predict_change(struct world *world, struct prediction *prediction, const Tarry__Ref *ref, bool withdraw,
                           Tarry__Outcome done) {
    const struct flat_task *task = meant(&world->host->head, ref);
    prediction->code = TARRY__CODE__NOT_DONE;
    prediction->outcome = TARRY__OUTCOME__UNKNOWN;
    if (!task) return;
    prediction->id = task->row.id;
    if (task->ended || has_expired(world, &task->row)) {
        predict_ended(world, prediction, task);
        bool is_repeat = done == TARRY__OUTCOME__CANCELLED && prediction->outcome == TARRY__OUTCOME__ALREADY_CANCELLED;
        if (is_repeat) prediction->code = TARRY__CODE__OK;
    } else if (task->row.state == ROW_BURIED) {
        prediction->outcome = TARRY__OUTCOME__DEAD;
    } else if (is_in_flight(world, &task->row) && !withdraw) {
        prediction->outcome = TARRY__OUTCOME__IN_FLIGHT;
    } else {
        prediction->code = TARRY__CODE__OK;
        prediction->outcome = done;
    }
}

static bool holds(const struct flat_task *task, const Tarry__Token *token) {
    return task->row.id && !task->ended && task->row.state == ROW_LEASED && task->row.lease_epoch == token->epoch &&
           task->row.lease_position == token->position; /* FENCE-1 */
}

static void predict_settle(struct world *world, struct prediction *prediction, uint64_t id, const Tarry__Token *token,
                           Tarry__Outcome done) {
    const struct flat_task *task = &world->host->head.tasks[id];
    prediction->outcome = done;
    if (holds(task, token)) return;
    prediction->code = TARRY__CODE__STALE_TOKEN;
    if (!task->row.id)
        prediction->outcome = TARRY__OUTCOME__UNKNOWN;
    else if (task->ended || has_expired(world, &task->row))
        predict_ended(world, prediction, task);
    else if (task->row.state == ROW_BURIED)
        prediction->outcome = TARRY__OUTCOME__DEAD;
    else
        prediction->outcome = is_in_flight(world, &task->row) ? TARRY__OUTCOME__IN_FLIGHT : TARRY__OUTCOME__PENDING;
}

static void predict_nack(struct world *world, struct prediction *prediction, const Tarry__Nack *nack) {
    predict_settle(world, prediction, nack->id, nack->token, TARRY__OUTCOME__NACKED);
    if (prediction->code) return;
    const struct flat *head = &world->host->head;
    const struct row *row = &head->tasks[nack->id].row;
    const uint32_t queues = flat_queue_of(head, row->queue)->put.policy->max_attempts;
    const uint32_t most = row->max_attempts ? row->max_attempts : queues; /* OWN-1 */
    if (nack->dead || (most && row->attempt >= most)) prediction->outcome = TARRY__OUTCOME__BURIED;
}

static void predict_get(struct world *world, struct prediction *prediction, const Tarry__Get *get) {
    const struct flat_task *task = meant(&world->host->head, get->task);
    prediction->outcome = TARRY__OUTCOME__UNKNOWN;
    if (!task) return;
    prediction->id = task->row.id;
    if (task->ended || has_expired(world, &task->row))
        predict_ended(world, prediction, task);
    else if (task->row.state == ROW_BURIED)
        prediction->outcome = TARRY__OUTCOME__DEAD;
    else
        prediction->outcome = is_in_flight(world, &task->row) ? TARRY__OUTCOME__IN_FLIGHT : TARRY__OUTCOME__PENDING;
}

static bool is_over(struct world *world, const struct flat_task *task) {
    return task->ended || has_expired(world, &task->row);
}

/* Predicts the count in the reply to a redaction, from the result of the search for contents. */
static void predict_count(struct world *world, struct prediction *prediction) {
    const struct core_past *past = &prediction->past[0];
    prediction->count = prediction->left = 0;
    for (size_t i = 0; i < past->count; i++) {
        bool ends = is_over(world, &world->host->head.tasks[past->tasks[i].id]);
        prediction->left += !ends;
        prediction->count += ends && !past->tasks[i].redacted_at;
    }
}

static void predict_redact(struct world *world, struct prediction *prediction, const Tarry__Redact *redact) {
    const struct flat *head = &world->host->head;
    const Tarry__Ref *ref = redact->task;
    bool is_range = !ref->id && !ref->key.len;
    prediction->outcome = TARRY__OUTCOME__REDACTED;
    predict_count(world, prediction);
    if (is_range) {
        if (prediction->past[0].is_former || flat_queue_number(head, ref->queue)) return;
        prediction->code = TARRY__CODE__NO_SUCH_QUEUE;
        prediction->outcome = TARRY__OUTCOME__NONE;
        return;
    }
    const struct flat_task *task = meant(head, ref);
    if (task && !ref->id &&
        is_over(world, task)) { /* if the live task has expired, its key refers to the last dead letter with this key */
        const struct flat_task *dead = flat_dead(head, task->row.queue, ref->key.data, ref->key.len);
        if (dead) task = dead;
    }
    if (task && !is_over(world, task)) {
        prediction->code = TARRY__CODE__NOT_DONE;
        prediction->outcome = TARRY__OUTCOME__PENDING;
        if (is_in_flight(world, &task->row)) prediction->outcome = TARRY__OUTCOME__IN_FLIGHT;
        if (task->row.state == ROW_BURIED) prediction->outcome = TARRY__OUTCOME__DEAD;
    } else if (ref->id && ref->id < prediction->past[0].id_end && !prediction->past[0].count) {
        prediction->count = 1; /* one task is redacted, because the index may once have stored its content */
    } else if (!prediction->past[0].count &&
               (ref->id || !redact->after_id)) { /* no task matches; only a later page of a time range may be empty
                                                    without an error */
        prediction->code = TARRY__CODE__NOT_DONE;
        prediction->outcome = TARRY__OUTCOME__UNKNOWN;
        if (task) predict_ended(world, prediction, task);
    }
}

static void predict_define(const struct world *world, struct prediction *prediction, const Tarry__Define *define) {
    const uint64_t version = world->host->head.definitions[define->name.data[1] % FLAT_DEFINITIONS].version;
    prediction->outcome = TARRY__OUTCOME__DONE;
    if (!define->has_expected || define->expected == version) return;
    prediction->code = TARRY__CODE__NOT_DONE;
    prediction->outcome = TARRY__OUTCOME__NONE;
}

/* Returns whether the queue does not exist and the table of queues may be full, so that the broker may refuse to create
 * it. */
static bool may_lack_place(const struct world *world, const char *name) {
    return world->options.core.queues_max && !flat_has_queue(&world->host->head, name);
}

/* Returns whether the reply depends on shares, which this file does not model (laws.c checks them). If the last task
 * with a topic's key has ended, the key may mean an earlier task's shares, because the broker may have forgotten the
 * last task's outcome. */
static bool depends_on_shares(const struct world *world, const Tarry__Ref *ref) {
    const struct flat_task *task = meant(&world->host->head, ref);
    if (!task || !task->row.id) return false;
    bool is_shared = task->ended && task->cause == TARRY__CAUSE__CAUSE_SHARED;
    bool may_be_earlier = task->ended && !ref->id && flat_is_topic(&world->host->head, task->row.queue);
    return is_shared || may_be_earlier ||
           (!task->ended && task->row.state == ROW_LEASED && session_is_sharer(task->row.session));
}

/* Returns whether the queue is a topic or a group. A schedule in such a queue is not predicted, because its key may be
 * the key of a share. */
static bool is_of_groups(const struct world *world, const char *queue) {
    const struct flat *head = &world->host->head;
    const uint32_t number = flat_queue_number(head, queue);
    return number && (flat_is_topic(head, number) || flat_queue_of(head, number)->put.policy->filter[0]);
}

static bool predict_op(struct world *world, struct prediction *prediction, const Tarry__Op *op) {
    switch (op->op_case) {
    case TARRY__OP__OP_SCHEDULE:
        if (may_lack_place(world, op->schedule->queue) || is_of_groups(world, op->schedule->queue)) return false;
        predict_schedule(world, prediction, op->schedule);
        return true;
    case TARRY__OP__OP_CANCEL:
        if (depends_on_shares(world, op->cancel->task)) return false;
        predict_change(world, prediction, op->cancel->task, op->cancel->withdraw, TARRY__OUTCOME__CANCELLED);
        return true;
    case TARRY__OP__OP_MOVE:
        if (depends_on_shares(world, op->move->task)) return false;
        predict_change(world, prediction, op->move->task, false, TARRY__OUTCOME__MOVED);
        if (!prediction->code && is_too_far(world, op->move->when)) refuse_as_invalid(prediction);
        return true;
    case TARRY__OP__OP_ACK:
        predict_settle(world, prediction, op->ack->id, op->ack->token, TARRY__OUTCOME__ACKED);
        return true;
    case TARRY__OP__OP_NACK:
        predict_nack(world, prediction, op->nack);
        return true;
    case TARRY__OP__OP_EXTEND:
        predict_settle(world, prediction, op->extend->id, op->extend->token, TARRY__OUTCOME__EXTENDED);
        return true;
    case TARRY__OP__OP_RELEASE:
        predict_settle(world, prediction, op->release->id, op->release->token, TARRY__OUTCOME__RELEASED);
        return true;
    case TARRY__OP__OP_DEFINE:
        predict_define(world, prediction, op->define);
        return true;
    case TARRY__OP__OP_REDACT:
        if (depends_on_shares(world, op->redact->task)) return false;
        predict_redact(world, prediction, op->redact);
        return true;
    default:
        return false;
    }
}

void ledger_predict(struct world *world, struct request *request) {
    struct prediction *prediction = &request->predictions[world->host->number];
    const Tarry__Commit *commit = NULL;
    if (request->body->body_case == TARRY__REQUEST__BODY_COMMIT) {
        commit = request->body->commit;
        watch_commit(world, commit);
        const struct flat *head = &world->host->head;
        /* A commit that was executed before gets the reply of that execution. If the broker has forgotten the outcome,
         * the old prediction stays too, because the first reply may still be in flight. */
        if (request->answer || flat_result(head, commit->producer, commit->sequence)) return;
        if (flat_is_forgotten(head, commit->producer, commit->sequence)) return;
    }
    prediction->predicted = false;
    prediction->may_be_forgotten = false;
    prediction->code = TARRY__CODE__OK;
    prediction->id = 0;
    if (!commit) {
        /* Predicts only the reply to the first execution of a query. Each execution may give another reply, and the
         * client cannot know which execution a reply comes from. */
        prediction->predicted = prediction->executions++ == 0 && !depends_on_shares(world, request->body->get->task);
        if (prediction->predicted) predict_get(world, prediction, request->body->get);
    } else if (commit->n_ops == 1) {
        prediction->predicted = predict_op(world, prediction, commit->ops[0]);
    }
}
