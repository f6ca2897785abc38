/* core_ledger.c: see core_ledger.h. */
#include "core_ledger.h"

#include <string.h>

#include "../must.h"

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

void ledger_predict(void *observer, const struct core_event *event) {
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

void ledger_on_reply(void *observer, uint64_t ticket, const Tarry__Reply *reply, const Tarry__CommitReply *commit) {
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
void ledger_on_frame(void *observer, const Tarry__FrameBody *body) {
    (void)observer;
    if (!body->producer) return;
    Tarry__CommitReply *reply = tarry__commit_reply__unpack(NULL, body->reply.len, body->reply.data);
    MUST(reply);
    MUST(!reply->aborted || body->n_records == 0);
    tarry__commit_reply__free_unpacked(reply, NULL);
}

void ledger_on_delivery(void *observer, const struct core_delivery *delivery) {
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

void ledger_check(const struct ledger *ledger) {
    const struct flat *head = &ledger->world->head;
    for (size_t id = 1; id < FLAT_TASKS_MAX; id++) {
        const struct flat_task *task = &head->tasks[id];
        if (ledger->accepted[id]) MUST(task->row.id == id); /* KEEP-1: nothing lost */
        if (task->row.id && !task->ended) MUST(task->row.state == ROW_BURIED);
        if (ledger->over[id]) MUST(task->ended);
    }
}
