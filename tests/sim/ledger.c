/* ledger.c: see ledger.h. predict.c predicts the replies to single operations. */
#include "ledger.h"

#include <string.h>

#include "../must.h"
#include "check.h"
#include "client.h"
#include "host.h"
#include "leases.h"
#include "world.h"

void ledger_begin(struct world *world) {
    struct ledger *ledger = &world->ledger;
    memset(ledger->tasks, 0, (size_t)ledger->task_end * sizeof ledger->tasks[0]);
    ledger->task_end = 1;
    ledger->requests = ledger->answers = ledger->deliveries = ledger->refusals = 0;
}

static struct ledger_task *task_of(struct world *world, uint64_t id) {
    struct ledger *ledger = &world->ledger;
    MUST(id && id < FLAT_TASKS_MAX);
    if (id >= ledger->task_end) ledger->task_end = id + 1;
    return &ledger->tasks[id];
}

/* ---- frames */

/* Returns what the frame's note has about this task. A new entry has the present values; the caller changes it. */
static struct ledger_origin *news_of(struct world *world, struct frame_note *note, uint64_t id) {
    MUST(id && id < FLAT_TASKS_MAX);
    for (size_t i = note->news_count; i-- > 0;) {
        if (note->news[i].id == id) return &note->news[i].origin;
    }
    struct ledger_news *news = &note->news[note->news_count++];
    *news = (struct ledger_news){id, world->host->origins[id]};
    return &news->origin;
}

/* Notes the true time at which the task began to wait, and the task's delay, for the check of TIME-1. */
static void note_due(struct world *world, const Tarry__TaskPut *put, struct ledger_origin *origin) {
    bool sets_due = put->cause == TARRY__CAUSE__CAUSE_SCHEDULED || put->cause == TARRY__CAUSE__CAUSE_MOVED;
    bool changes_due = sets_due || put->task->due_ms != put->before_due_ms;
    if (!changes_due) return;
    uint64_t steady_ns = world->host->clock.now.steady_ns;
    bool is_delay = put->task->time_base == TARRY__TASK__BASE__STEADY && put->task->due_ms * NS_PER_MS >= steady_ns;
    origin->received_ns = is_delay ? world->now_ns + 1 : 0;
    origin->jumped_ns = world->steady_jumped_ns;
    origin->due_ms = put->task->due_ms;
    origin->delay_ns = is_delay ? put->task->due_ms * NS_PER_MS - steady_ns : 0;
}

/* Checks that the redaction covers exactly the payload that the client sent. */
static void check_redaction(struct world *world, const Tarry__Redaction *redaction) {
    const struct core_content *content = world->host->origins[redaction->id].content;
    if (!redaction->frame) return;
    MUST(content && redaction->blob_size == content->size);
    MUST(memcmp(redaction->content_hash.data, content->hash, CONTENT_HASH_SIZE) == 0);
}

/* Returns a copy of the content, because an occurrence's content lies in memory that is valid only during the core's
 * step. */
static const struct core_content *kept_content(struct world *world, const struct core_content *content) {
    struct core_content *copy = world_copy(world, content, sizeof *content);
    copy->data = world_copy(world, content->data, content->size);
    return copy;
}

void ledger_on_frame(struct world *world, struct frame_note *note, const struct core_content *const *contents,
                     size_t content_count) {
    const Tarry__FrameBody *body = note->body;
    size_t taken = 0;
    uint64_t redacted = 0;
    if (body) note->news = world_alloc(world, body->n_records * sizeof *note->news);
    for (size_t i = 0; body && i < body->n_records; i++) {
        const Tarry__TaskPut *put = body->records[i]->put;
        if (body->records[i]->fact_case == TARRY__RECORD__FACT_REDACTION) {
            check_redaction(world, body->records[i]->redaction);
            redacted++;
        }
        if (body->records[i]->fact_case != TARRY__RECORD__FACT_PUT) continue;
        struct ledger_origin *origin = news_of(world, note, put->task->id);
        (void)task_of(world, put->task->id);
        note_due(world, put, origin);
        if (!put->fresh) continue;
        origin->content = NULL;
        if (!put->task->blob_size) continue;
        MUST(taken < content_count);
        origin->content = kept_content(world, contents[taken++]);
    }
    ledger_take_frame(world, note);
    MUST(taken == content_count);
    if (!body || !body->producer) return;
    Tarry__CommitReply *reply = tarry__commit_reply__unpack(&world->memory.pb, body->reply.len, body->reply.data);
    MUST(reply);
    MUST(!reply->aborted || body->n_records == 0); /* KEEP-1: an aborted commit leaves its answer and nothing else */
    for (size_t i = 0; i < reply->n_results; i++) {
        if (reply->results[i]->outcome == TARRY__OUTCOME__REDACTED && !reply->aborted)
            redacted -= reply->results[i]->count;
    }
    MUST(!redacted); /* the frame must have as many records of redactions as the replies state */
}

void ledger_take_frame(struct world *world, const struct frame_note *note) {
    for (size_t i = 0; i < note->news_count; i++) world->host->origins[note->news[i].id] = note->news[i].origin;
}

void ledger_take_frames(struct world *world, uint64_t position) {
    const struct host *host = world->host;
    size_t count = host_frames_below(host, position);
    for (size_t i = 0; i < count; i++) ledger_take_frame(world, &host->frames[i]);
}

void ledger_on_loss(struct world *world, const struct flat *head) {
    struct ledger *ledger = &world->ledger;
    for (uint64_t id = 1; id < ledger->task_end; id++) {
        struct ledger_task *task = &ledger->tasks[id];
        if (id >= head->next_id) {
            MUST(!task->accepted && !task->seen &&
                 !task->over); /* KEEP-1, LOG-1: no client has learned about a task that was lost */
            *task = (struct ledger_task){0};
        } else if (task->over) {
            MUST(head->tasks[id].ended);
        }
    }
    if (ledger->task_end > head->next_id) ledger->task_end = head->next_id;
}

/* ---- answers */

static void note_result(struct world *world, const Tarry__Op *op, const Tarry__OpResult *result) {
    bool took_effect = result->code == TARRY__CODE__OK;
    /* TRUE-1: a result with `deliveries` above 0 names the session that got the task, and the time. Excepted is a task
     * that went to its groups: its shares may have had deliveries that are forgotten. */
    bool is_of_task = op->op_case == TARRY__OP__OP_CANCEL || op->op_case == TARRY__OP__OP_MOVE;
    MUST(!result->session == !result->delivered_ms && (!result->session || result->deliveries));
    MUST(!result->deliveries == !result->session || (is_of_task && world->has_topic));
    if (!result->id) return;
    struct ledger_task *task = task_of(world, result->id);
    if (op->op_case == TARRY__OP__OP_SCHEDULE && took_effect) task->accepted = true;
    bool is_over = result->outcome == TARRY__OUTCOME__CANCELLED || result->outcome == TARRY__OUTCOME__ACKED;
    if (!is_over) return;
    if (result->outcome == TARRY__OUTCOME__CANCELLED && !result->deliveries) MUST(!task->seen); /* TRUE-1 */
    const struct flat_task *ended = &world->host->head.tasks[result->id];
    bool was_shared = result->outcome == TARRY__OUTCOME__CANCELLED && ended->cause == TARRY__CAUSE__CAUSE_SHARED;
    for (uint32_t i = 0; was_shared && !result->deliveries && i < ended->shares; i++) {
        struct ledger_task *share = task_of(world, ended->first_share + i);
        MUST(!share->seen); /* TRUE-1 */
        share->over = true;
        share->deliveries = 0;
    }
    task->over = true;
    task->deliveries = result->deliveries;
}

static void check_prediction(const struct prediction *prediction, Tarry__Code code, Tarry__Outcome outcome, uint64_t id,
                             uint64_t known_since_ms) {
    bool is_forgotten = outcome == TARRY__OUTCOME__UNKNOWN && prediction->outcome != TARRY__OUTCOME__UNKNOWN;
    if (is_forgotten) { /* TRUE-1: if the broker has forgotten the task, its reply says since when it remembers outcomes
                         */
        MUST(prediction->may_be_forgotten && known_since_ms > prediction->ended_ms);
        return;
    }
    MUST(code == prediction->code && outcome == prediction->outcome);
    if (prediction->id) MUST(id == prediction->id);
}

static void on_commit(struct world *world, struct request *request, const struct answer *answer) {
    const Tarry__Commit *commit = request->body->commit;
    const Tarry__CommitReply *reply = answer->commit;
    MUST(reply->n_results == commit->n_ops);
    if (request->answer) { /* ONCE-1: a request that is repeated gets the same reply again */
        MUST(answer->packed_size == request->answer_size &&
             memcmp(answer->packed, request->answer, request->answer_size) == 0);
        return;
    }
    request->answer = (uint8_t *)answer->packed;
    request->answer_size = answer->packed_size;
    for (size_t i = 0; i < commit->n_ops; i++) note_result(world, commit->ops[i], reply->results[i]);
    for (size_t i = 0; commit->atomic && reply->aborted && i < reply->n_results; i++)
        MUST(reply->results[i]->code != TARRY__CODE__OK);
    const struct prediction *prediction = &request->predictions[answer->node];
    if (!prediction->predicted) return;
    const Tarry__OpResult *result = reply->results[0];
    check_prediction(prediction, result->code, result->outcome, result->id, result->known_since_ms);
    if (result->outcome == TARRY__OUTCOME__REDACTED)
        MUST(result->count == prediction->count && result->left == prediction->left);
}

/* Returns whether the payload that was read is this content without its salt. */
static bool is_content(const struct core_content *content, const ProtobufCBinaryData *read) {
    const uint8_t *packed = (const uint8_t *)content->data + BLOB_SALT_SIZE;
    return content->size == BLOB_SALT_SIZE + read->len && (!read->len || memcmp(packed, read->data, read->len) == 0);
}

static void on_task(const struct request *request, const struct answer *answer) {
    const Tarry__TaskReply *reply = answer->reply->get;
    const struct prediction *prediction = &request->predictions[answer->node];
    if (!prediction->predicted) return;
    uint64_t id = reply->task ? reply->task->id : 0;
    if (reply->task) MUST(!reply->task->deliveries == !reply->task->session); /* TRUE-1 */
    check_prediction(prediction, TARRY__CODE__OK, reply->outcome, id, reply->known_since_ms);
    bool is_redacted = prediction->may_be_forgotten && prediction->redacted;
    if (reply->task && reply->task->ended_ms) MUST(reply->task->redacted == is_redacted);
    if (!request->body->get->with_content || !reply->task || !reply->task->content.len) return;
    const struct core_content *content = answer->content;
    MUST(content && is_content(content, &reply->task->content));
}

/* Checks that the broker forgets a producer only a long time after its last commit was executed. */
static void on_forgotten(struct world *world, const struct request *request) {
    const struct client *client = request->client;
    const Tarry__Commit *commit = request->body->commit;
    if (request->answered || client->producer != commit->producer)
        return; /* nothing to check, because the client has also forgotten this producer id */
    uint64_t idle_ns = world->now_ns - client->used_ns + world->steady_jumped_ns;
    MUST(idle_ns >= PRODUCER_IDLE_MS * NS_PER_MS); /* ONCE-1 */
}

void ledger_on_answer(struct world *world, struct request *request, const struct answer *answer) {
    if (answer->commit) {
        on_commit(world, request, answer);
        return;
    }
    world->ledger.refusals += answer->reply->code != TARRY__CODE__OK;
    bool is_commit = request->body->body_case == TARRY__REQUEST__BODY_COMMIT;
    if (is_commit && answer->reply->code == TARRY__CODE__FORGOTTEN) on_forgotten(world, request);
    bool is_get = request->body->body_case == TARRY__REQUEST__BODY_GET;
    if (is_get && answer->reply->code == TARRY__CODE__OK) on_task(request, answer);
}

/* ---- deliveries */

static void check_time(struct world *world, const struct row *row, const struct ledger_origin *task) {
    struct instant now = host_answers_at(world);
    uint64_t now_ns = row->base == ROW_WALL ? now.wall_ns : now.steady_ns;
    if (now_ns < row->due_ms * NS_PER_MS && flat_is_early(&world->host->head, row->queue)) return;
    MUST(now_ns >= row->due_ms * NS_PER_MS); /* TIME-1: the delivery is not early by the broker's own clock */
    if (row->base == ROW_WALL) {             /* allows for the error up to which the broker accepts a wall clock */
        MUST((int64_t)(row->due_ms * NS_PER_MS) <= (int64_t)(WORLD_EPOCH_NS + world->now_ns) + world->believable_ns);
    } else if (task->received_ns &&
               task->due_ms == row->due_ms) { /* TIME-1: the delivery is not early by the true time */
        uint64_t passed_ns = world->now_ns + 1 - task->received_ns;
        uint64_t jumped_ns = world->steady_jumped_ns - task->jumped_ns;
        if (passed_ns + jumped_ns < task->delay_ns)
            TRACE(world, "ledger", "task %llu waited %llu us, %llu us of the clock, of %llu us",
                  (unsigned long long)row->id, (unsigned long long)passed_ns / 1000,
                  (unsigned long long)jumped_ns / 1000, (unsigned long long)task->delay_ns / 1000);
        MUST(passed_ns + jumped_ns >= task->delay_ns);
    }
}

/* Returns whether this delivery may come late or again, because a deposed leader of a pair sent it. Newer deliveries of
 * the task may have been sent before; the token tells the consumer (FENCE-1). */
static bool is_late(const struct world *world, const struct row *row) {
    const struct row *now = &world->host->head.tasks[row->id].row;
    bool is_current = now->lease_epoch == row->lease_epoch && now->lease_position == row->lease_position;
    return world->host_count > 1 && (!is_current || world->host->head.epoch < world->truth.epoch);
}

static void check_token(const struct row *row, struct ledger_task *task) {
    bool is_older = row->lease_epoch < task->token_epoch ||
                    (row->lease_epoch == task->token_epoch && row->lease_position < task->token_position);
    MUST(!is_older); /* FENCE-1 */
    task->token_epoch = row->lease_epoch;
    task->token_position = row->lease_position;
}

/* FENCE-1: checks with true time that the former consumer no longer has the task: its deadline has passed, it has
 * returned the task, or it has lost its session. */
static void check_former_lease(struct world *world, const struct ledger_task *task, uint64_t id) {
    const struct run_out *run_out = &world->host->watch.run_out[id];
    const struct frame_note *frame = run_out->position ? host_frame(world->host, run_out->told_at) : NULL;
    bool has_run_out = frame && frame->header.epoch == run_out->told_in && run_out->epoch == task->token_epoch &&
                       run_out->position == task->token_position && run_out->deadline_ms == task->deadline_ms;
    uint64_t passed_ns = world->now_ns - task->left_ns + (world->steady_jumped_ns - task->jumped_ns);
    if (has_run_out && passed_ns + NS_PER_MS < task->lasts_ns)
        TRACE(world, "ledger", "task %llu left %llu us ago, with a lease of %llu us until %llu", (unsigned long long)id,
              (unsigned long long)passed_ns / 1000, (unsigned long long)task->lasts_ns / 1000,
              (unsigned long long)task->deadline_ms);
    MUST(!has_run_out || passed_ns + NS_PER_MS >= task->lasts_ns);
}

static void note_lease(const struct world *world, const struct row *row, uint64_t steady_ns, struct ledger_task *task) {
    task->left_ns = world->now_ns;
    task->jumped_ns = world->steady_jumped_ns;
    task->deadline_ms = row->lease_deadline_ms;
    task->lasts_ns = row->lease_deadline_ms * NS_PER_MS - steady_ns;
}

void ledger_on_departure(struct world *world, const struct core_delivered *delivered,
                         const ProtobufCBinaryData *content) {
    const struct row *row = &delivered->row;
    struct ledger_task *task = task_of(world, row->id);
    const struct ledger_origin *origin = &world->host->origins[row->id];
    if (!session_is_sharer(row->session)) check_time(world, row, origin); /* the sharer is no consumer */
    uint64_t steady_ns = host_now(world).steady_ns;
    MUST(
        row->lease_deadline_ms >
        steady_ns /
            NS_PER_MS); /* TIME-2: the lease must not have ended, because another consumer could have the task by now */
    bool is_another = row->lease_epoch != task->token_epoch || row->lease_position != task->token_position;
    if (!is_late(world, row)) {
        if (is_another) check_former_lease(world, task, row->id);
        check_token(row, task);
        if (is_another) note_lease(world, row, steady_ns, task);
    }
    MUST(origin->content ? is_content(origin->content, content) : content->len == 0);
    const struct flat_task *now = &world->host->head.tasks[row->id];
    MUST(now->row.key_size == row->key_size && (!row->key_size || memcmp(now->row.key, row->key, row->key_size) == 0));
    world->ledger.deliveries++;
}

void ledger_on_arrival(struct world *world, const struct core_delivered *delivered) {
    struct ledger_task *task = task_of(world, delivered->row.id);
    /* TRUE-1: if the client already knows that the task has ended, the reply that said so must have counted this
     * delivery. */
    MUST(!task->over || delivered->row.deliveries <= task->deliveries);
    task->seen = true;
}

/* ---- the end */

/* Returns true if the task is an occurrence that fell due less than LATE_MS before the history's last frame, which is
 * too late for a consumer. */
#define LATE_MS 1000u
static bool came_at_the_end(const struct flat *head, const struct row *row) {
    return occurrence_name_size(row->key, row->key_size) && row->due_ms + LATE_MS > head->wall_ns / 1000000;
}

void ledger_check(const struct world *world) {
    const struct flat *head = &world->host->head;
    for (uint64_t id = 1; id < world->ledger.task_end; id++) {
        const struct ledger_task *known = &world->ledger.tasks[id];
        const struct flat_task *task = &head->tasks[id];
        if (known->accepted) MUST(task->row.id == id); /* KEEP-1: no accepted task is lost */
        if (task->row.id &&
            !task->ended) /* a dead task does not count as lost, because it waits for an operator's decision */
            MUST(task->row.state == ROW_BURIED || came_at_the_end(head, &task->row));
        if (known->over) MUST(task->ended);
    }
}
