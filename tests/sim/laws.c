/* laws.c: see laws.h. States of a task, and the records that change them:
 *
 *   WAITING ─ leased ─► LEASED ─ retried, lease lost, released, unsent ─► WAITING
 *      ▲ moved             │ buried                    acked, withdrawn ─► ended
 *      └── requeued ── BURIED ── dropped ─► ended      WAITING ─ cancelled, replaced, expired, purged ─► ended */
#include "laws.h"
#include "leases.h"
#include "ops.h"

#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "check.h"
#include "tarry_limits.h"

/* Fields of a task that the record must not change. The fields of the lease are checked separately. */
enum keeps { KEEPS_DUE = 1, KEEPS_ATTEMPT = 2, KEEPS_DELIVERIES = 4, KEEPS_TOKEN = 8 };

static const struct {
    uint8_t from, to;
    uint8_t keeps; /* mask of enum keeps */
} moves[] = {
    [TARRY__CAUSE__CAUSE_LEASED] = {ROW_WAITING, ROW_LEASED, KEEPS_DUE},
    [TARRY__CAUSE__CAUSE_EXTENDED] = {ROW_LEASED, ROW_LEASED,
                                      KEEPS_DUE | KEEPS_ATTEMPT | KEEPS_DELIVERIES | KEEPS_TOKEN},
    [TARRY__CAUSE__CAUSE_MOVED] = {ROW_WAITING, ROW_WAITING, KEEPS_ATTEMPT | KEEPS_DELIVERIES},
    [TARRY__CAUSE__CAUSE_RETRIED] = {ROW_LEASED, ROW_WAITING, KEEPS_ATTEMPT | KEEPS_DELIVERIES},
    [TARRY__CAUSE__CAUSE_LEASE_LOST] = {ROW_LEASED, ROW_WAITING, KEEPS_DUE | KEEPS_ATTEMPT | KEEPS_DELIVERIES},
    [TARRY__CAUSE__CAUSE_RELEASED] = {ROW_LEASED, ROW_WAITING, KEEPS_DUE | KEEPS_DELIVERIES},
    [TARRY__CAUSE__CAUSE_UNSENT] = {ROW_LEASED, ROW_WAITING, KEEPS_DUE},
    [TARRY__CAUSE__CAUSE_BURIED] = {ROW_LEASED, ROW_BURIED, KEEPS_DUE | KEEPS_ATTEMPT | KEEPS_DELIVERIES},
    [TARRY__CAUSE__CAUSE_REQUEUED] = {ROW_BURIED, ROW_WAITING, KEEPS_DELIVERIES},
};

static uint64_t now_ns(const struct flat *flat, uint8_t base) {
    return base == ROW_WALL ? flat->wall_ns : flat->steady_ns;
}

static bool has_expired(const struct flat *flat, const struct row *row) {
    return row_expires_at(row) <= now_ns(flat, row->base) / 1000000;
}

enum fate fate_by(const Tarry__Overdue *overdue, const struct row *row) {
    const bool is_wall = row->base == ROW_WALL;
    const uint64_t after_ms = is_wall ? overdue->after_wall_ms : overdue->after_steady_ms;
    const uint64_t until_ms = is_wall ? overdue->until_wall_ms : overdue->until_steady_ms;
    bool is_in = row->due_ms > after_ms && row->due_ms <= until_ms && row->id < overdue->id_end;
    if (!is_in) return FATE_NONE;
    const uint64_t late_ms = until_ms - row->due_ms;
    if (overdue->overdue_expire_ms && late_ms > overdue->overdue_expire_ms) return FATE_EXPIRED;
    if (overdue->overdue_dead_ms && late_ms > overdue->overdue_dead_ms) return FATE_DEAD;
    return overdue->overdue_spread_ms ? FATE_SPREAD : FATE_NONE;
}

enum fate fate_of(const struct flat *flat, const struct row *row, const Tarry__Overdue **out) {
    const Tarry__QueuePut *put = &flat_queue_of(flat, row->queue)->put;
    for (size_t i = 0; i < put->n_overdue; i++) {
        const enum fate fate = fate_by(put->overdue[i], row);
        *out = put->overdue[i];
        if (fate != FATE_NONE) return fate;
    }
    return FATE_NONE;
}

static bool says_overdue(const ProtobufCBinaryData *reason) {
    static const char word[] = "overdue";
    for (size_t i = 0; i + sizeof word <= reason->len + 1; i++)
        if (memcmp(reason->data + i, word, sizeof word - 1) == 0) return true;
    return false;
}

bool is_spread(const Tarry__TaskPut *put) {
    return put->cause == TARRY__CAUSE__CAUSE_MOVED && says_overdue(&put->reason);
}

uint64_t spread_to(const Tarry__Overdue *overdue, const struct row *row) {
    const uint64_t seed[2] = {row->id, overdue->until_steady_ms};
    const uint64_t until_ms = row->base == ROW_WALL ? overdue->until_wall_ms : overdue->until_steady_ms;
    return until_ms + 1 + frame_sum(seed, sizeof seed) % overdue->overdue_spread_ms;
}

/* Checks that the broker treats an overdue task exactly as the recorded outage requires. */
static void law_of_overdue(const struct flat *flat, const Tarry__TaskPut *put, const struct row *before) {
    const Tarry__Overdue *overdue = NULL;
    const enum fate fate = fate_of(flat, before, &overdue);
    const uint64_t now_ms = now_ns(flat, before->base) / 1000000;
    bool has_come =
        fate == FATE_SPREAD &&
        spread_to(overdue, before) <=
            now_ms; /* the new due time has passed, so the task may be leased without a record that moves it */
    if (put->cause == TARRY__CAUSE__CAUSE_LEASED)
        MUST(fate == FATE_NONE || has_come || session_is_mover(put->task->session));
    if (put->cause == TARRY__CAUSE__CAUSE_BURIED && before->state == ROW_WAITING)
        MUST(fate == FATE_DEAD && says_overdue(&put->task->reason));
    if (!is_spread(put)) return;
    const uint64_t until_ms = before->base == ROW_WALL ? overdue->until_wall_ms : overdue->until_steady_ms;
    MUST(fate == FATE_SPREAD && put->task->due_ms == spread_to(overdue, before));
    MUST(put->task->due_ms > until_ms && put->task->due_ms <= until_ms + overdue->overdue_spread_ms);
}

static void law_of_key(const struct flat *flat, const struct row *row) {
    if (row->key_size)
        MUST(!flat_live(flat, row->queue, row->key,
                        row->key_size)); /* the key must be unique among the live tasks of the queue */
}

/* Checks that a task keeps its own settings, or that a share has those of its task (OWN-1). */
static void law_of_own(const struct row *row, const struct row *from) {
    MUST(row->max_attempts == from->max_attempts && row->backoff_ms == from->backoff_ms &&
         row->lease_ms == from->lease_ms);
}

/* Checks that a share equals its task, and that the filter of its group matches (GROUP-1). */
static void law_of_share(const struct flat *flat, const Tarry__TaskPut *put, const struct row *row) {
    const struct flat_task *task = &flat->tasks[put->share_of];
    const Tarry__QueuePut *group = &flat_queue_of(flat, row->queue)->put;
    MUST(put->share_of < flat->next_id && !task->ended && task->row.state == ROW_LEASED);
    MUST(session_is_sharer(task->row.session));
    MUST(flat_is_group_of(flat, group, task->row.queue) && sim_filter_matches(group->policy->filter, put->share_of));
    MUST(row->due_ms == task->row.due_ms && row->base == task->row.base && row->priority == task->row.priority);
    MUST(row->expires_ms == task->row.expires_ms && row->scheduled_ms == task->row.scheduled_ms);
    MUST(!row->key_size ||
         (row->key_size == task->row.key_size && memcmp(row->key, task->row.key, row->key_size) == 0));
    MUST(row->blob_size == task->row.blob_size);
    law_of_own(row, &task->row);
    MUST(row->id >= put->first_share && row->id - put->first_share < put->shares);
    for (uint64_t id = put->first_share; id < row->id; id++) /* no two shares of a task may be in the same group */
        MUST(flat->tasks[id].share_of == put->share_of && flat->tasks[id].row.queue != row->queue);
}

/* Checks that the key of a topic's new task belongs to no live share. */
static void law_of_topic_key(const struct flat *flat, const struct row *row) {
    for (size_t i = 1; row->key_size && i < FLAT_QUEUES_MAX; i++) {
        const Tarry__QueuePut *group = &flat->queues[i].put;
        if (flat_is_group_of(flat, group, row->queue)) MUST(!flat_live(flat, group->number, row->key, row->key_size));
    }
}

static void law_of_new(const struct flat *flat, const struct row *row) {
    MUST(row->state == ROW_WAITING && !row->attempt && !row->deliveries && !row->lease_position && !row->session);
    law_of_key(flat, row);
}

/* Returns the recurrence that the task, or the share, is an occurrence of; NULL: none. */
static const struct flat_recur *recur_of(const struct flat *flat, const struct row *row) {
    const size_t size = occurrence_name_size(row->key, row->key_size);
    for (size_t i = 0; size && i < flat->recur_count; i++) {
        const struct flat_recur *recur = &flat->recurs[i];
        const bool is_in =
            recur->queue == row->queue || flat_is_group_of(flat, &flat_queue_of(flat, row->queue)->put, recur->queue);
        if (is_in && strlen(recur->name) == size && memcmp(recur->name, row->key + OCCURRENCE_PREFIX_SIZE, size) == 0)
            return recur;
    }
    return NULL;
}

/* Returns the id of the topic's task whose share the task is. Returns `id` for a task that is no share. */
static uint64_t first_id(const struct flat *flat, uint64_t id) {
    return flat->tasks[id].share_of ? flat->tasks[id].share_of : id;
}

/* Checks that an occurrence of a recurrence is delivered only once (in a topic, once to each group). No other task with
 * its key may have been delivered since the recurrence was set. Excepted are tasks that an operator moved. */
static void law_of_once(const struct flat *flat, const struct row *row) {
    const struct flat_recur *recur = recur_of(flat, row);
    if (!recur || first_id(flat, row->id) < recur->first_task) return;
    for (uint64_t id = recur->first_task; id < flat->next_id; id++) {
        const struct row *other = &flat->tasks[id].row;
        const bool is_same = id != row->id && other->queue == row->queue && other->key_size == row->key_size &&
                             memcmp(other->key, row->key, row->key_size) == 0;
        MUST(!is_same || !other->deliveries || first_id(flat, id) < recur->first_task);
    }
}

static void law_of_lease(const struct flat *flat, const Tarry__TaskPut *put, const struct row *before,
                         const struct row *row) {
    bool is_ahead = now_ns(flat, row->base) / 1000000 < row->due_ms, is_mover = session_is_mover(row->session);
    bool is_early = flat_is_early(flat, row->queue);
    bool is_topic = flat_is_topic(flat, row->queue), is_sharer = session_is_sharer(row->session);
    MUST(is_sharer == is_topic); /* a sharer gets the tasks of topics, and no other tasks */
    /* TIME-1: a mover gets only tasks that are due, in queues with lease_before_due */
    MUST(is_sharer || !is_mover || (is_early && !is_ahead));
    /* TIME-1: a consumer of a queue with lease_before_due gets only tasks that are not due */
    MUST(is_mover || !is_early || is_ahead);
    /* SERIAL-1: tasks with a serial name go to the groups when they are due. So do occurrences, because missed=none may
     * cancel them until then. */
    if (is_sharer && is_ahead) MUST(!row->serial_size && !occurrence_name_size(row->key, row->key_size));
    if (is_ahead && !is_sharer &&
        !is_early) { /* TIME-1: the lease's record says that the delivery is sent when the task is due (core/ahead.h) */
        MUST(row->base == ROW_STEADY && !row->expires_ms && row->delivered_ms == row->due_ms);
        MUST(row->lease_deadline_ms > row->due_ms);
    } else {
        MUST(row->delivered_ms == flat->steady_ns / 1000000);
    }
    MUST(!has_expired(flat, before));
    law_of_once(flat, row);
    MUST(!flat_queue_of(flat, row->queue)->put.paused);
    MUST(row->attempt == before->attempt + 1 && row->deliveries == before->deliveries + 1);
    MUST(row->lease_epoch == flat->epoch && row->lease_position == flat->position); /* FENCE-1 */
    MUST(row->session && row->lease_deadline_ms * 1000000 >= flat->steady_ns);
    MUST(put->before_session == before->session && put->before_delivered_ms == before->delivered_ms);
}

/* TRUE-1: an unsent delivery is undone, so the record again names the consumer before it as the last one that may have
 * acted on the task. */
static void law_of_unsent(const struct flat_task *task, const Tarry__TaskPut *put, const struct row *row) {
    MUST(put->before_session == task->row.session && put->before_delivered_ms == task->row.delivered_ms);
    MUST(row->session == task->session_before && row->delivered_ms == task->delivered_before_ms);
}

static void law_of_attempts(const struct flat *flat, const struct row *before) {
    const uint32_t queues = flat_queue_of(flat, before->queue)->put.policy->max_attempts;
    const uint32_t most = before->max_attempts ? before->max_attempts : queues; /* OWN-1 */
    MUST(!most || before->attempt < most); /* the task must have an attempt left; otherwise it would have become dead */
}

/* Checks spread_ms. Only a client's schedule or move sets it (see watch.c). Any other record that changes the due time
 * must set spread_ms to 0. */
static void law_of_spread(const Tarry__TaskPut *put, const struct row *row, const struct row *before) {
    bool is_clients = put->cause == TARRY__CAUSE__CAUSE_MOVED && !is_spread(put);
    bool is_kept = row->spread_ms == before->spread_ms && row->due_ms == before->due_ms;
    MUST(is_clients || is_kept || !row->spread_ms);
}

void laws_of_put(const struct flat *flat, const Tarry__TaskPut *put) {
    struct row row;
    MUST(row_from_task(put->task, &row) && row.id < FLAT_TASKS_MAX);
    if (put->fresh) {
        law_of_new(flat, &row);
        if (put->share_of) law_of_share(flat, put, &row);
        if (!put->share_of) MUST(!flat_queue_of(flat, row.queue)->put.policy->filter[0]);
        if (!put->share_of) law_of_topic_key(flat, &row);
        return;
    }
    const struct row *before = &flat->tasks[row.id].row;
    MUST((size_t)put->cause < sizeof moves / sizeof *moves);
    bool is_judged_dead = put->cause == TARRY__CAUSE__CAUSE_BURIED && before->state == ROW_WAITING;
    MUST(before->state == moves[put->cause].from || is_judged_dead); /* law_of_overdue */
    MUST(row.state == moves[put->cause].to);
    law_of_overdue(flat, put, before);
    law_of_spread(put, &row, before);
    law_of_own(&row, before);
    MUST(row.queue == before->queue && row.priority == before->priority && row.scheduled_ms == before->scheduled_ms);
    bool same_size = row.key_size == before->key_size;
    MUST(same_size && (!row.key_size || memcmp(row.key, before->key, row.key_size) == 0));
    MUST(row.blob_at == before->blob_at && row.blob_size == before->blob_size && row.blob_sum == before->blob_sum);
    MUST(put->before_due_ms == before->due_ms && put->before_attempt == before->attempt);
    MUST(put->before_lease_deadline_ms == (before->state == ROW_LEASED ? before->lease_deadline_ms : 0));
    /* The lease of a sharer counts neither as a delivery nor as an attempt, because a sharer is not a consumer. */
    if (before->state == ROW_LEASED && session_is_sharer(before->session))
        MUST(put->cause == TARRY__CAUSE__CAUSE_UNSENT || put->cause == TARRY__CAUSE__CAUSE_BURIED);
    unsigned keeps = moves[put->cause].keeps;
    if (keeps & KEEPS_DUE)
        MUST(row.due_ms == before->due_ms && row.base == before->base && row.spread_ms == before->spread_ms);
    if (keeps & KEEPS_ATTEMPT) MUST(row.attempt == before->attempt);
    if (keeps & KEEPS_DELIVERIES) MUST(row.deliveries == before->deliveries);
    if (keeps & KEEPS_TOKEN) {
        MUST(row.lease_epoch == before->lease_epoch && row.lease_position == before->lease_position);
    }
    switch (put->cause) {
    case TARRY__CAUSE__CAUSE_LEASED:
        law_of_lease(flat, put, before, &row);
        break;
    case TARRY__CAUSE__CAUSE_RETRIED:
        MUST(row.base == ROW_STEADY && row.due_ms * 1000000 >= flat->steady_ns); /* TIME-1 */
        break;
    case TARRY__CAUSE__CAUSE_LEASE_LOST:
        law_of_attempts(flat, before);
        break;
    case TARRY__CAUSE__CAUSE_RELEASED:
        MUST(row.attempt + 1 ==
             before->attempt); /* the attempt must not count, because no consumer has seen the task */
        break;
    case TARRY__CAUSE__CAUSE_UNSENT:
        MUST(row.attempt + 1 == before->attempt && row.deliveries + 1 == before->deliveries);
        law_of_unsent(&flat->tasks[row.id], put, &row);
        break;
    case TARRY__CAUSE__CAUSE_REQUEUED:
        MUST(!row.attempt);
        law_of_key(flat, &row);
        break;
    default:
        break;
    }
}

/* Returns whether a purge of the queue was requested after the task had been scheduled. */
static bool is_purged(const struct flat *flat, const struct row *row) {
    for (size_t i = 0; i < flat->job_count; i++) {
        const Tarry__JobPut *job = &flat->jobs[i];
        if (job->what == TARRY__JOB_PUT__WHAT__PURGE && job->queue == row->queue && row->id < job->id_end) return true;
    }
    return false;
}

/* Checks that a task went to exactly the groups whose filters match (GROUP-1). */
static void law_of_sharing(const struct flat *flat, const Tarry__TaskEnd *end) {
    uint32_t count = 0;
    for (size_t i = 1; i < FLAT_QUEUES_MAX; i++) {
        const Tarry__QueuePut *group = &flat->queues[i].put;
        if (!flat_is_group_of(flat, group, end->task->queue)) continue;
        if (!sim_filter_matches(group->policy->filter, end->task->id)) continue;
        bool is_there = false;
        for (uint32_t k = 0; k < end->shares; k++)
            is_there |= flat->tasks[end->first_share + k].row.queue == group->number;
        MUST(is_there);
        count++;
    }
    MUST(count == end->shares && !count == (end->cause == TARRY__CAUSE__CAUSE_UNMATCHED));
    for (uint32_t k = 0; k < end->shares; k++) MUST(flat->tasks[end->first_share + k].share_of == end->task->id);
}

void laws_of_end(const struct flat *flat, const Tarry__TaskEnd *end) {
    const struct row *before = &flat->tasks[end->task->id].row;
    const Tarry__Overdue *overdue = NULL;
    switch (end->cause) {
    case TARRY__CAUSE__CAUSE_ACKED:
    case TARRY__CAUSE__CAUSE_WITHDRAWN:
        MUST(before->state == ROW_LEASED);
        break;
    case TARRY__CAUSE__CAUSE_CANCELLED:
    case TARRY__CAUSE__CAUSE_REPLACED:
        MUST(before->state == ROW_WAITING && !has_expired(flat, before));
        break;
    case TARRY__CAUSE__CAUSE_EXPIRED:
        MUST(before->state == ROW_WAITING &&
             (has_expired(flat, before) || fate_of(flat, before, &overdue) == FATE_EXPIRED));
        break;
    case TARRY__CAUSE__CAUSE_PURGED:
        MUST(is_purged(flat, before));
        break;
    case TARRY__CAUSE__CAUSE_SHARED:
    case TARRY__CAUSE__CAUSE_UNMATCHED:
        MUST(before->state == ROW_LEASED && session_is_sharer(before->session));
        law_of_sharing(flat, end);
        break;
    default:
        MUST(end->cause == TARRY__CAUSE__CAUSE_DROPPED && before->state == ROW_BURIED);
    }
}

/* Checks a queue that takes the place of a deleted one: no earlier task has its number. */
static void law_of_place(const struct flat *flat, const Tarry__QueuePut *former, const Tarry__QueuePut *put) {
    MUST(former->deleted && !put->deleted);
    MUST(queue_generation(put->number) == queue_generation(former->number) + 1);
    for (uint64_t id = 1; id < flat->next_id; id++) {
        MUST(flat->tasks[id].row.queue != put->number);
        MUST(flat->tasks[id].ended || flat->tasks[id].row.queue != former->number);
    }
}

/* Checks a record of a queue: the record itself must state what has changed. */
void laws_of_queue(const struct flat *flat, const Tarry__QueuePut *put) {
    const struct flat_queue *queue = flat_queue_of(flat, put->number);
    const bool follows = queue->put.number && queue->put.number != put->number;
    MUST(!put->before_policy == (!queue->hash || follows));
    if (follows) law_of_place(flat, &queue->put, put);
    if (!put->before_policy) return;
    MUST(put->before_paused == queue->put.paused && put->before_paused_until_ms == queue->put.paused_until_ms);
    MUST(protobuf_c_message_get_packed_size(&put->before_policy->base) ==
         protobuf_c_message_get_packed_size(&queue->put.policy->base));
    MUST(put->before_policy->lease_ms == queue->put.policy->lease_ms &&
         put->before_policy->max_attempts == queue->put.policy->max_attempts);
}

void laws_of_job(const struct flat *flat, const Tarry__JobPut *job) {
    if (job->job != flat->position) return; /* nothing to check, because the record only continues a job */
    MUST(job->id_end == flat->next_id &&
         !job->after_id); /* a new job must not concern tasks that are scheduled later */
}

/* Checks that the redacted task has ended. If the record describes the erased content, it must name the task's own
 * queue, key and content. */
void laws_of_redaction(const struct flat *flat, const Tarry__Redaction *redaction) {
    MUST(redaction->id && redaction->id < flat->next_id && redaction->reason[0]);
    const struct flat_task *task = &flat->tasks[redaction->id];
    MUST(task->ended);
    if (!redaction->queue) {
        MUST(!redaction->frame && !redaction->key.len);
        return;
    }
    const struct row *row = &task->row;
    MUST(redaction->queue == row->queue && redaction->key.len == row->key_size);
    MUST(!row->key_size || memcmp(redaction->key.data, row->key, row->key_size) == 0);
    MUST(redaction->blob_at == row->blob_at && redaction->blob_size == row->blob_size);
    if (redaction->frame) MUST(redaction->content_hash.len == CONTENT_HASH_SIZE);
}

/* ---- recurrences */

/* Returns the next occurrence after `after_ms`, by a second, simple implementation. It knows intervals, and cron
 * expressions that mean "every N-th second of a minute". */
static uint64_t calendar_next(const Tarry__RecurSet *set, uint64_t after_ms) {
    if (set->every_ms) return after_ms + set->every_ms;
    const uint64_t step_s = strtoull(set->cron + 2, NULL, 10);
    uint64_t at_s = after_ms / 1000 + 1;
    while (at_s % 60 % step_s) at_s++;
    return at_s * 1000;
}

static bool is_live(const struct flat *flat, uint64_t id) {
    const struct flat_task *task = &flat->tasks[id];
    return id && id < flat->next_id && !task->ended && task->row.state != ROW_BURIED;
}

/* Checks the task of the next occurrence: either the record leaves it unchanged, or it is live and has the due time in
 * the recurrence's state. */
static void law_of_next_task(const struct flat *flat, const struct flat_recur *before, const Tarry__RecurPut *put) {
    const Tarry__RecurState *state = put->state;
    const uint64_t task = state->next_id;
    MUST(!task == !state->next_ms || !task);
    if (!task || (before && before->state->next_id == task)) return;
    MUST(is_live(flat, task) && flat->tasks[task].row.due_ms == state->due_ms && state->due_ms >= state->next_ms);
    MUST(flat->tasks[task].row.base == ROW_WALL && flat->tasks[task].row.queue == put->queue);
    MUST(flat->tasks[task].row.scheduled_ms == flat->steady_ns / 1000000); /* the task was created by this frame */
}

/* Checks that an occurrence runs only if no earlier occurrence is still open. Excepted are recurrences with the overlap
 * "allow", and occurrences that an operator moved. */
static void law_of_overlap(const struct flat *flat, const struct flat_recur *before) {
    const Tarry__RecurState *was = before->state;
    if (strcmp(before->set->overlap, "allow") == 0 || !is_live(flat, was->next_id)) return;
    const struct row *row = &flat->tasks[was->next_id].row;
    if (row->state == ROW_LEASED || row->due_ms != was->due_ms) return;
    for (size_t i = 0; i < was->n_open; i++) MUST(!is_live(flat, was->open[i]));
}

/* Checks that no occurrence is lost or comes twice. The record must settle exactly the calendar's occurrences from the
 * former `next_ms` up to `at_ms`. The new `next_ms` must be the first occurrence after them. */
static void law_of_due(const struct flat *flat, const struct flat_recur *before, const Tarry__RecurPut *put) {
    const Tarry__RecurSet *set = before->set;
    const Tarry__RecurState *was = before->state, *state = put->state;
    const uint64_t wall_ms = flat->wall_ns / 1000000;
    MUST(!was->paused && was->next_ms && wall_ms >= was->due_ms); /* TIME-1 */
    uint64_t at_ms = was->next_ms, count = 1;
    for (; at_ms < put->occurrence_ms; count++) at_ms = calendar_next(set, at_ms);
    MUST(at_ms == put->occurrence_ms && state->last_ms == at_ms && state->occurrences == was->occurrences + count);
    MUST(put->missed <= count && put->missed + put->skipped <= count);
    const bool is_over = set->count && state->occurrences >= set->count;
    MUST(state->next_ms == (is_over ? 0 : calendar_next(set, at_ms)));
    const bool is_piece = state->next_ms && !state->next_id && state->due_ms <= wall_ms;
    const bool is_late = wall_ms > at_ms + RECUR_GRACE_MS + set->jitter_ms;
    if (!is_piece && strcmp(set->missed, "last") == 0) MUST(put->missed == count - 1);
    if (!is_piece && strcmp(set->missed, "none") == 0) MUST(put->missed == count - !is_late);
    law_of_overlap(flat, before);
}

void laws_of_recur(const struct flat *flat, const struct flat_recur *before, const Tarry__RecurPut *put) {
    if (!put->state) return;
    law_of_next_task(flat, before, put);
    if (put->cause == TARRY__RECUR_PUT__CAUSE__FELL_DUE) law_of_due(flat, before, put);
    MUST(put->cause != TARRY__RECUR_PUT__CAUSE__STUCK && put->cause != TARRY__RECUR_PUT__CAUSE__RECOMPUTED);
    if (put->cause == TARRY__RECUR_PUT__CAUSE__QUEUED)
        for (size_t i = 0; i < before->state->n_open; i++) MUST(!is_live(flat, before->state->open[i]));
}

void laws_of_recurs(const struct flat *flat, uint64_t wall_ms) {
    enum { SLACK_MS = 5000 };
    for (size_t i = 0; i < flat->recur_count; i++) {
        const Tarry__RecurState *state = flat->recurs[i].state;
        if (state->paused) continue;
        const uint64_t count = flat->recurs[i].set->count;
        MUST(state->next_ms ||
             (count && state->occurrences >=
                           count)); /* without a next occurrence, the recurrence must have had all its occurrences */
        MUST(!state->next_ms || state->due_ms + SLACK_MS >= wall_ms);
    }
}
