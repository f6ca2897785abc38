/* decide_share.c: turns a topic's due task into shares (one task per matching group), and cancels, moves and shows
 * tasks that have shares (groups.h).
 *
 * GROUP-1: one frame contains a record for each share, and the end of the topic's task. So a crash leaves either all of
 * these or none. Replay and a follower decide nothing, because the records name the groups that matched. */
#include <string.h>

#include "callers.h"
#include "effects.h"
#include "filter.h"
#include "groups.h"
#include "leases.h"
#include "tasks.h"

/* ---- the fan-out */

/* Adds the share of one group. The share gets no key if a live task of the group already has the key. Such a task can
 * be a dead letter that was requeued. */
static void add_share(struct decision *d, const struct queue *group, const struct row *task, uint64_t first,
                      uint32_t count) {
    struct row row = {
        .due_ms = task->due_ms,
        .expires_ms = task->expires_ms,
        .scheduled_ms = task->scheduled_ms,
        .queue = group->number,
        .priority = task->priority,
        .base = task->base,
        .key = task->key,
        .key_size = task->key_size,
        .serial = task->serial,
        .serial_size = task->serial_size,
        .spread_ms = task->spread_ms,
    };
    row_set_own(&row, task->max_attempts, task->backoff_ms, task->lease_ms);
    struct task_key key = task_key_of(group->number, task->key, task->key_size);
    struct known holder;
    if (draft_find_live(d->draft, &key, &holder)) {
        key = (struct task_key){0};
        row.key_size = 0;
    }
    Tarry__TaskPut *put = draft_put_new(d->draft, &row, key.hash, d->content);
    put->share_of = task->id;
    put->first_share = first;
    put->shares = count;
}

/* Refuses the operation and returns true if the contents of the shares do not fit into the rest of this frame. If they
 * do not fit into an empty frame either, the task becomes a dead letter. Such a task was scheduled before its queue had
 * groups (decide_schedule). */
static bool lacks_room(struct decision *d, uint32_t count, const struct known *known) {
    const uint64_t size = (uint64_t)count * d->content->size;
    if (d->draft->blob_size + size <= FRAME_BLOB_SIZE_MAX) return false;
    if (size <= FRAME_BLOB_SIZE_MAX) {
        refuse_op(d, TARRY__CODE__BUSY, TARRY__OUTCOME__IN_FLIGHT, "the frame is full: send the operation again");
        return true;
    }
    struct row row = known->row;
    row_bury(d->core, &row, reason_shares_large);
    draft_put(d->draft, TARRY__CAUSE__CAUSE_BURIED, known, &row);
    d->result->outcome = TARRY__OUTCOME__BURIED;
    return true;
}

void decide_fan_out(struct decision *d, const Tarry__FanOut *fan_out) {
    struct known known;
    if (!holds_lease(d, fan_out->id, fan_out->token, &known)) return;
    const struct queue *topic = queue_at(d->core, known.row.queue), *group = NULL;
    if (!session_is_sharer(known.row.session) || !topic->group_count) {
        refuse_op(d, TARRY__CODE__NOT_DONE, TARRY__OUTCOME__IN_FLIGHT, "the task's queue has no groups");
        return;
    }
    bool matches[GROUPS_MAX] = {0};
    uint32_t count = 0, i = 0;
    TAILQ_FOREACH(group, &topic->groups, of_topic) {
        matches[i] = filter_matches(group->filter, fan_out->attributes, fan_out->n_attributes);
        count += matches[i++];
    }
    if (lacks_room(d, count, &known)) return;
    const uint64_t first = d->draft->next_id;
    i = 0;
    TAILQ_FOREACH(group, &topic->groups, of_topic) {
        if (matches[i++]) add_share(d, group, &known.row, first, count);
    }
    Tarry__TaskEnd *end =
        draft_end(d->draft, count ? TARRY__CAUSE__CAUSE_SHARED : TARRY__CAUSE__CAUSE_UNMATCHED, &known);
    end->first_share = count ? first : 0;
    end->shares = count;
    d->result->outcome = count ? TARRY__OUTCOME__SHARED : TARRY__OUTCOME__UNMATCHED;
    d->result->id = known.row.id;
    d->result->count = count;
}

/* ---- finding shares */

static void add_found(struct shares *out, const struct known *known, enum resolved how) {
    if (out->count == GROUPS_MAX) return;
    out->known[out->count] = *known;
    out->how[out->count++] = how;
    if (!out->due_ms) out->due_ms = known->row.due_ms;
}

/* Finds the shares by their ids, which the task's outcome names. */
static void find_by_outcome(struct decision *d, const struct outcome *task, struct shares *out) {
    const uint64_t first = task->session;
    const uint32_t count = task->deliveries < GROUPS_MAX ? task->deliveries : GROUPS_MAX;
    out->id = task->id;
    out->due_ms = task->due_ms;
    for (uint32_t i = 0; i < count; i++) {
        struct known known;
        enum resolved how = resolve_id(d, first + i, &known);
        if (how != RESOLVED_ENDED) {
            add_found(out, &known, how);
            continue;
        }
        const struct outcome *ended = outcomes_by_id(d->core->outcomes, first + i);
        if (ended) out->ended[out->ended_count++] = ended;
        out->has_unknown |= !ended;
    }
}

static void find_by_key(struct decision *d, const struct queue *topic, const Tarry__Ref *ref, struct shares *out) {
    const struct queue *group = NULL;
    TAILQ_FOREACH(group, &topic->groups, of_topic) {
        struct known known;
        const struct task_key key = task_key_of(group->number, (const char *)ref->key.data, ref->key.len);
        if (!draft_find_live(d->draft, &key, &known)) continue;
        enum resolved how = resolve_id(d, known.row.id, &known);
        if (how == RESOLVED_LIVE) add_found(out, &known, how);
    }
    out->has_unknown = out->count > 0;
}

bool shares_find(struct decision *d, const Tarry__Ref *ref, struct shares *out) {
    /* Any other outcome belongs to a later task with the same key, which ended without shares. */
    if (d->result->outcome != TARRY__OUTCOME__SHARED && d->result->outcome != TARRY__OUTCOME__UNKNOWN) return false;
    const Tarry__OpResult before = *d->result;
    const struct queue *topic = ref->id ? NULL : queue_find(d->core, ref->queue);
    const struct outcome *task = NULL;
    out->count = out->ended_count = 0;
    out->id = out->due_ms = 0;
    out->has_unknown = false;
    if (ref->id) task = outcomes_by_id(d->core->outcomes, ref->id);
    if (topic && ref->key.len <= KEY_SIZE_MAX)
        task = outcomes_by_key(d->core->outcomes, topic->number, (const char *)ref->key.data, (uint8_t)ref->key.len);
    if (task && task->cause == TARRY__CAUSE__CAUSE_SHARED) {
        find_by_outcome(d, task, out);
    } else if (topic && !task) {
        find_by_key(d, topic, ref, out);
    }
    *d->result = before;
    return out->id || out->count;
}

/* ---- cancel and move */

/* Describes the task by its shares: the sum of their deliveries, and the last delivery. */
static void describe_shares(struct decision *d, const struct shares *shares) {
    Tarry__OpResult *result = d->result;
    tarry__op_result__init(result);
    result->id = shares->id;
    result->due_ms = shares->due_ms;
    result->deliveries = shares->has_unknown;
    for (size_t i = 0; i < shares->count; i++) {
        const struct row *row = &shares->known[i].row;
        result->deliveries += row->deliveries;
        if (row->delivered_ms < result->delivered_ms) continue;
        result->delivered_ms = row->delivered_ms;
        result->session = row->session;
    }
    for (size_t i = 0; i < shares->ended_count; i++) {
        const struct outcome *ended = shares->ended[i];
        result->deliveries += ended->deliveries;
        if (ended->delivered_ms < result->delivered_ms) continue;
        result->delivered_ms = ended->delivered_ms;
        result->session = ended->session;
    }
}

/* Refuses the operation and returns true in three cases: no share is live; a share is in flight and `withdraw` is
 * false; the commit would change too many shares. Without the limit of the third case, a commit of OPS_PER_COMMIT_MAX
 * operations could need a frame of more than FRAME_BODY_SIZE_MAX. */
static bool shares_stand_in_the_way(struct decision *d, const struct shares *shares, bool withdraw) {
    size_t live = 0, dead = 0;
    describe_shares(d, shares);
    for (size_t i = 0; i < shares->count; i++) {
        const bool is_live = shares->how[i] == RESOLVED_LIVE;
        live += is_live;
        dead += !is_live;
        if (!is_live || shares->known[i].row.state != ROW_LEASED || withdraw) continue;
        d->result->at_ms = shares->known[i].row.delivered_ms;
        d->result->session = shares->known[i].row.session;
        d->result->delivered_ms = shares->known[i].row.delivered_ms;
        refuse_op(d, TARRY__CODE__NOT_DONE, TARRY__OUTCOME__IN_FLIGHT,
                  "the task went to its groups, and a share is in flight; no share was changed");
        return true;
    }
    if (d->draft->share_count + live > SHARES_PER_COMMIT_MAX) {
        refuse_op(d, TARRY__CODE__BUSY, TARRY__OUTCOME__NONE,
                  "the operations before this one change as many shares as one commit may change "
                  "(SHARES_PER_COMMIT_MAX, 4096): send the operation again in another commit");
        return true;
    }
    d->draft->share_count += live;
    if (live) return false;
    refuse_op(d, TARRY__CODE__NOT_DONE, dead ? TARRY__OUTCOME__DEAD : TARRY__OUTCOME__SHARED,
              dead ? "the task went to its groups, and the shares that have not ended are dead letters"
                   : "the task went to its groups, and all its shares have ended");
    return true;
}

bool shares_cancel(struct decision *d, const Tarry__Cancel *cancel) {
    struct shares shares;
    if (!shares_find(d, cancel->task, &shares)) return false;
    if (shares_stand_in_the_way(d, &shares, cancel->withdraw)) return true;
    for (size_t i = 0; i < shares.count; i++) {
        if (shares.how[i] != RESOLVED_LIVE) continue;
        const bool is_leased = shares.known[i].row.state == ROW_LEASED;
        draft_end(d->draft, is_leased ? TARRY__CAUSE__CAUSE_WITHDRAWN : TARRY__CAUSE__CAUSE_CANCELLED,
                  &shares.known[i]);
    }
    d->result->outcome = TARRY__OUTCOME__CANCELLED;
    d->result->at_ms = steady_ms(d->core);
    return true;
}

bool shares_move(struct decision *d, const Tarry__Move *move) {
    struct shares shares;
    uint64_t due_ms = 0;
    uint8_t base = 0;
    if (!shares_find(d, move->task, &shares)) return false;
    if (!due_of(d, move->when, &due_ms, &base) || shares_stand_in_the_way(d, &shares, false)) return true;
    for (size_t i = 0; i < shares.count; i++) {
        if (shares.how[i] != RESOLVED_LIVE) continue;
        struct row row = shares.known[i].row;
        row.due_ms = due_ms;
        row.base = base;
        row_spread(d, queue_at(d->core, row.queue), &row);
        if (move->has_priority) row.priority = (uint8_t)move->priority;
        draft_put(d->draft, TARRY__CAUSE__CAUSE_MOVED, &shares.known[i], &row);
    }
    d->result->due_ms = due_ms;
    d->result->outcome = TARRY__OUTCOME__MOVED;
    return true;
}

bool shares_hold_key(struct decision *d, const Tarry__Schedule *schedule) {
    const struct queue *group = NULL;
    TAILQ_FOREACH(group, &d->queue->groups, of_topic) {
        struct known known;
        const struct task_key key = task_key_of(group->number, (const char *)schedule->key.data, schedule->key.len);
        if (!draft_find_live(d->draft, &key, &known)) continue;
        if (resolve_id(d, known.row.id, &known) != RESOLVED_LIVE) continue;
        tarry__op_result__init(d->result);
        describe(d->result, &known.row, d->effects->arena);
        refuse_op(d, TARRY__CODE__EXISTS, TARRY__OUTCOME__LIVE,
                  "the task that has this key went to its groups, and a share of it has not ended");
        return true;
    }
    tarry__op_result__init(d->result);
    return false;
}
