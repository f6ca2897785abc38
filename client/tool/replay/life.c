/* life.c: see life.h. Reads records in order. An atomic commit that settles a lease is stored as a whole. The task's
 * consumer sent that commit, so the dry run sends it when its own delivery of the task ends. */
#include "life.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "core.h"

/* ---- recorded requests */

#define NS_PER_MS 1000000u

struct asked *asked_new(const struct entry *entry) {
    struct asked *asked = tool_alloc(sizeof *asked);
    *asked = (struct asked){.at = moment_of(entry->header),
                            .position = entry->header->position,
                            .atomic = entry->body->atomic && entry->body->producer != 0};
    return asked;
}

void asked_free(struct asked *asked) {
    if (asked == NULL) return;
    free(asked->items);
    free(asked);
}

static struct ask *asked_add(struct asked *asked, enum ask_kind kind, struct plan *plan, struct life *life) {
    if (asked->items == NULL || asked->count == asked->capacity) {
        asked->capacity = asked->capacity > 0 ? 2 * asked->capacity : 4;
        struct ask *grown = tool_alloc(asked->capacity * sizeof *grown);
        if (asked->items != NULL) memcpy(grown, asked->items, asked->count * sizeof *grown);
        free(asked->items);
        asked->items = grown;
    }
    struct ask *ask = &asked->items[asked->count++];
    *ask = (struct ask){.kind = kind, .plan = plan, .life = life};
    return ask;
}

static uint64_t until(const struct asked *asked, uint64_t ms) {
    uint64_t now_ms = (asked->at.steady_ns + NS_PER_MS - 1) / NS_PER_MS;
    return ms > now_ms ? ms - now_ms : 0;
}

static void take_when(const struct asked *asked, struct ask *ask, const Tarry__Task *task) {
    ask->absolute = task->time_base == TARRY__TASK__BASE__WALL;
    /* The due time without the recorded spread, because the replayed queue adds its own spread. */
    const uint64_t asked_ms = task->due_ms - task->spread_ms;
    ask->ms = ask->absolute ? asked_ms : until(asked, asked_ms);
}

static void take_put(struct asked *asked, const struct entry *entry, struct plan *plan, struct life *life) {
    const Tarry__Task *task = entry->record->put->task;
    enum entry_kind kind = entry_kind(entry);
    if (kind == ENTRY_SCHEDULED) {
        const struct ask *before = asked->count > 0 ? &asked->items[asked->count - 1] : NULL;
        bool replaces = before != NULL && before->kind == ASK_SCHEDULE && before->life == NULL;
        struct ask *ask = replaces ? &asked->items[asked->count - 1] : asked_add(asked, ASK_SCHEDULE, plan, life);
        ask->life = life;
        ask->replaces = replaces;
        ask->priority = task->priority;
        ask->expires_ms = task->expires_ms;
        take_when(asked, ask, task);
    } else if (kind == ENTRY_MOVED) {
        take_when(asked, asked_add(asked, ASK_MOVE, plan, life), task);
    } else if (kind == ENTRY_REQUEUED) {
        asked_add(asked, ASK_REQUEUE, plan, life);
    }
}

static void take_end(struct asked *asked, const struct entry *entry, struct plan *plan, struct life *life) {
    enum entry_kind kind = entry_kind(entry);
    if (kind == ENTRY_CANCELLED || kind == ENTRY_WITHDRAWN)
        asked_add(asked, ASK_CANCEL, plan, life)->withdraw = kind == ENTRY_WITHDRAWN;
    else if (kind == ENTRY_DROPPED)
        asked_add(asked, ASK_DROP, plan, life);
    else if (kind == ENTRY_REPLACED)
        asked_add(asked, ASK_SCHEDULE, plan,
                  NULL); /* the next record names the new task and completes this request (take_put) */
}

static void take_queue(struct asked *asked, const struct entry *entry, struct plan *plan) {
    const Tarry__QueuePut *put = entry->record->queue;
    if (put->deleted) return; /* a queue that is deleted is empty, so no task is affected */
    struct ask *ask = asked_add(asked, ASK_QUEUE, plan, NULL);
    ask->policy = plan_recorded(put->policy);
    ask->pauses = put->paused || plan->paused;
    ask->paused = put->paused;
    if (put->paused && put->paused_until_ms != 0) {
        ask->ms = until(asked, put->paused_until_ms);
        ask->ms += ask->ms == 0;
    }
}

/* Recurrences are not copied. So the requests that made their occurrences are repeated like a client's. */
static bool is_of_recurrence(const Tarry__FrameBody *body) {
    for (size_t i = 0; i < body->n_records; i++)
        if (body->records[i]->fact_case == TARRY__RECORD__FACT_RECUR) return true;
    return false;
}

void asked_take(struct asked *asked, const struct entry *entry, struct plan *plan, struct life *life) {
    bool by_client = entry->body->producer != 0 || is_of_recurrence(entry->body);
    bool is_new = entry->record->fact_case == TARRY__RECORD__FACT_QUEUE && entry_queue_is_new(entry->record->queue);
    if (!by_client && !is_new) return;
    const Tarry__JobPut *job;
    switch (entry->record->fact_case) {
    case TARRY__RECORD__FACT_PUT:
        if (life != NULL) take_put(asked, entry, plan, life);
        break;
    case TARRY__RECORD__FACT_END:
        if (life != NULL || entry_kind(entry) == ENTRY_REPLACED) take_end(asked, entry, plan, life);
        break;
    case TARRY__RECORD__FACT_QUEUE:
        take_queue(asked, entry, plan);
        break;
    case TARRY__RECORD__FACT_JOB:
        job = entry->record->job;
        struct ask *ask = asked_add(asked, ASK_JOB, plan, NULL);
        ask->what = job->what;
        ask->states = job->states;
        break;
    default:
        break;
    }
}

/* ---- lives */

/* If a lease was withdrawn before its delivery left, the task is usually leased again within this time. If it takes
 * longer, the task was waiting for a consumer. In ns. */
#define WITHDRAWN_MAX_NS 1000000000u

const char *outcome_kind_name(enum outcome_kind outcome) {
    static const char *const names[] = {"live", "acked", "cancelled", "expired", "dropped", "dead"};
    return names[outcome];
}

void outcome_after(enum entry_kind kind, enum outcome_kind *out) {
    switch (kind) {
    case ENTRY_ACKED:
        *out = ACKED;
        break;
    case ENTRY_CANCELLED:
    case ENTRY_WITHDRAWN:
    case ENTRY_REPLACED:
    case ENTRY_PURGED:
        *out = CANCELLED;
        break;
    case ENTRY_EXPIRED:
        *out = EXPIRED;
        break;
    case ENTRY_DROPPED:
        *out = DROPPED;
        break;
    case ENTRY_DEAD:
        *out = DEAD;
        break;
    case ENTRY_REQUEUED:
        *out = LIVE;
        break;
    default:
        break;
    }
}

void lateness_add(struct lateness *late, const struct phase *phase, const struct logical_time *leased) {
    bool by_wall = phase->base == TARRY__TASK__BASE__WALL;
    uint64_t due_ns = phase->due_ms * NS_PER_MS, since_ns = by_wall ? phase->since.wall_ns : phase->since.steady_ns;
    uint64_t ready_ns = due_ns > since_ns ? due_ns : since_ns;
    uint64_t leased_ns = by_wall ? leased->wall_ns : leased->steady_ns;
    uint64_t late_ms = leased_ns > ready_ns ? (leased_ns - ready_ns) / NS_PER_MS : 0;
    if (late->count == late->capacity) {
        late->capacity = late->capacity > 0 ? 2 * late->capacity : 256;
        uint32_t *grown = tool_alloc(late->capacity * sizeof *grown);
        if (late->count > 0) memcpy(grown, late->ms, late->count * sizeof *grown);
        free(late->ms);
        late->ms = grown;
    }
    late->ms[late->count++] = late_ms < UINT32_MAX ? (uint32_t)late_ms : UINT32_MAX;
}

struct life *lives_find(const struct lives *lives, uint64_t id) {
    return id_map_get(&lives->by_id, id);
}

/* ---- phases and turns */

static void wait_again(struct life *life, const Tarry__Task *task, struct logical_time since) {
    struct phase *phase = tool_alloc(sizeof *phase);
    const struct turn *before = life->last != NULL ? life->last->turn : NULL;
    bool ran_out = before != NULL && before->verdict == VERDICT_RUNS_OUT;
    *phase = (struct phase){.due_ms = task->due_ms,
                            .base = (uint8_t)task->time_base,
                            .since = since,
                            .earliest_ns = ran_out ? before->deadline_ms * NS_PER_MS : since.steady_ns};
    if (life->last != NULL)
        life->last->next = phase;
    else
        life->first = phase;
    life->last = phase;
}

static uint64_t ms_up(uint64_t ns) {
    return (ns + NS_PER_MS - 1) / NS_PER_MS;
}

/* Returns when the delivery of a lease leaves: at the due time, if the lease was recorded before that; otherwise at the
 * time of its record. */
static struct logical_time leaves(const struct entry *entry) {
    struct logical_time moment = moment_of(entry->header);
    uint64_t leaves_ns = entry_leaves_ms(entry) * NS_PER_MS;
    if (leaves_ns > moment.steady_ns) {
        moment.wall_ns += leaves_ns - moment.steady_ns;
        moment.steady_ns = leaves_ns;
    }
    return moment;
}

/* Handles a lease that was recorded before the due time, and whose delivery had not left at the due time `from_ns`: the
 * broker was stopped, or waited for a CPU. The log does not say when the deliveries of the queue's other leases of this
 * kind left. This function assumes that they left after this frame. Otherwise the only consumer of the dry run would be
 * free too early, and take this task. */
static void leave_later(struct plan *plan, uint64_t from_ns, const struct entry *entry) {
    const struct logical_time now = moment_of(entry->header);
    const uint64_t position = entry->header->position;
    struct turn *turn = NULL;
    if (from_ns >= now.steady_ns || (plan->late_position == position && plan->late_from_ns <= from_ns)) return;
    plan->late_position = position;
    plan->late_from_ns = from_ns;
    LIST_FOREACH(turn, &plan->ahead, ahead) {
        bool is_between = turn->leased.steady_ns >= from_ns && turn->leased.steady_ns <= now.steady_ns;
        if (!is_between || turn->deadline_ms <= ms_up(now.steady_ns)) continue;
        turn->leased = now;
        turn->position = position + 1; /* makes the delivery come after this frame */
        turn->lease_ms = turn->deadline_ms - ms_up(now.steady_ns);
    }
}

static void lease(struct life *life, const struct entry *entry) {
    const Tarry__Task *task = entry->record->put->task;
    struct turn *turn = tool_alloc(sizeof *turn);
    /* The log does not record this period of waiting. */
    if (life->last->turn != NULL) wait_again(life, task, moment_of(entry->header));
    *turn = (struct turn){.leased = leaves(entry),
                          .position = entry->header->position,
                          .deadline_ms = task->lease_deadline_ms};
    /* Duration of the lease in ms. A delivery time in the log has whole ms; the lease counts from the end of that ms.
     */
    uint64_t leaves_ms = entry_leaves_ms(entry);
    uint64_t lease_ms = task->lease_deadline_ms - (leaves_ms ? leaves_ms + 1 : ms_up(turn->leased.steady_ns));
    if (lease_ms != life->plan->recorded.lease_ms) turn->lease_ms = lease_ms;
    uint64_t unsent_ns = life->last->unsent_ns, now_ns = entry->header->steady_ns;
    if (unsent_ns != 0 && now_ns < unsent_ns + WITHDRAWN_MAX_NS) leave_later(life->plan, unsent_ns, entry);
    turn->is_ahead = leaves_ms != 0;
    if (turn->is_ahead) LIST_INSERT_HEAD(&life->plan->ahead, turn, ahead);
    life->last->turn = turn;
    life->deliveries++;
}

static void end_ahead(struct turn *turn) {
    if (turn->is_ahead) LIST_REMOVE(turn, ahead);
    turn->is_ahead = false;
}

static void extend(struct turn *turn, const struct entry *entry) {
    struct extension *extension = tool_alloc(sizeof *extension);
    struct extension **last = &turn->extensions;
    turn->deadline_ms = entry->record->put->task->lease_deadline_ms;
    uint64_t now_ns = entry->header->steady_ns, leased_ns = turn->leased.steady_ns;
    *extension = (struct extension){.after_ns = now_ns > leased_ns ? now_ns - leased_ns : 0,
                                    .lease_ms = turn->deadline_ms - ms_up(entry->header->steady_ns)};
    while (*last != NULL) last = &(*last)->next;
    *last = extension;
}

static void free_turn(struct turn *turn) {
    if (turn == NULL) return;
    end_ahead(turn);
    for (struct extension *extension; (extension = turn->extensions) != NULL; free(extension))
        turn->extensions = extension->next;
    asked_free(turn->commit);
    free(turn->reason);
    free(turn);
}

static void take_reason(struct turn *turn, const ProtobufCBinaryData *reason) {
    if (reason->len == 0) return;
    turn->reason = tool_alloc(reason->len + 1);
    memcpy(turn->reason, reason->data, reason->len);
}

/* Handles a nack after which the task was delivered again. Computes the queue's backoff from id and attempt, to see
 * whether the nack had a delay of its own. */
static enum verdict nacked(const struct life *life, struct turn *turn, const Tarry__Task *task) {
    turn->delay_ms = task->due_ms - ms_up(turn->settled_ns);
    bool by_backoff =
        turn->delay_ms == backoff_ms(&life->plan->recorded, life->own.backoff_ms, life->id, task->attempt);
    return by_backoff ? VERDICT_NACK : VERDICT_NACK_DELAYED;
}

/* The log has the same record for a nack of the last attempt and for a nack that asks for a dead letter. If the
 * attempts are used up, assumes the first. */
static enum verdict buried(const struct life *life, struct turn *turn, const struct entry *entry, bool ran_out) {
    const Tarry__Task *task = entry->record->put->task;
    if (entry->body->producer == 0) return ran_out ? VERDICT_RUNS_OUT : VERDICT_LOST;
    uint32_t most = attempts_max(&life->plan->recorded, life->own.max_attempts);
    static const char used_up[] = "the task used up its attempts";
    bool has_reason =
        task->reason.len != sizeof used_up - 1 || memcmp(task->reason.data, used_up, task->reason.len) != 0;
    if (has_reason) take_reason(turn, &task->reason);
    return most != 0 && task->attempt >= most ? VERDICT_NACK : VERDICT_BURY;
}

static enum verdict verdict_of(struct life *life, struct turn *turn, const struct entry *entry) {
    bool ran_out = entry->header->steady_ns / NS_PER_MS >= turn->deadline_ms;
    switch (entry_kind(entry)) {
    case ENTRY_ACKED:
        return VERDICT_ACK;
    case ENTRY_RELEASED:
        return VERDICT_RELEASE;
    case ENTRY_RETRIED:
        take_reason(turn, &entry->record->put->reason);
        return nacked(life, turn, entry->record->put->task);
    case ENTRY_LEASE_LOST:
        return ran_out ? VERDICT_RUNS_OUT : VERDICT_LOST;
    case ENTRY_DEAD:
        return buried(life, turn, entry, ran_out);
    default:
        return VERDICT_NONE;
    }
}

/* Ends the lease. If an atomic commit settled it, links the settlement to that commit. */
static void settle(struct lives *lives, struct life *life, const struct entry *entry) {
    struct turn *turn = life->last != NULL ? life->last->turn : NULL;
    if (turn == NULL || turn->verdict != VERDICT_NONE || turn->settled_ns != 0) return;
    uint64_t now_ns = entry->header->steady_ns, leased_ns = turn->leased.steady_ns;
    /* After a restart, a lease may end before the time at which its delivery should leave. */
    turn->settled_ns = now_ns > leased_ns ? now_ns : leased_ns;
    turn->settled_position = entry->header->position;
    end_ahead(turn);
    turn->verdict = verdict_of(life, turn, entry);
    bool by_client = entry->body->producer != 0 && turn->verdict != VERDICT_NONE;
    if (!by_client || !lives->frame->atomic) return;
    struct ask *ask = asked_add(lives->frame, ASK_SETTLE, life->plan, life);
    ask->turn = turn;
    ask->verdict = turn->verdict;
    turn->verdict = VERDICT_COMMIT;
    lives->frame->settles = true;
    if (lives->bound == NULL) lives->bound = turn;
}

/* Undoes a lease whose delivery never left. */
static void undo_lease(struct life *life, const struct entry *entry) {
    struct turn *turn = life->last->turn;
    if (turn == NULL) return;
    if (turn->is_ahead) {
        life->last->unsent_ns = turn->leased.steady_ns;
        leave_later(life->plan, turn->leased.steady_ns, entry);
    }
    free_turn(turn);
    life->last->turn = NULL;
    life->deliveries--;
}

/* ---- records */

static void end_frame(struct lives *lives) {
    if (lives->frame != NULL && lives->frame->settles)
        lives->bound->commit = lives->frame;
    else
        asked_free(lives->frame);
    lives->frame = NULL;
    lives->bound = NULL;
}

/* Copies a text with a final 0. Returns NULL if the text is empty. */
static char *text_of(const ProtobufCBinaryData *from) {
    if (from->len == 0) return NULL;
    char *text = tool_alloc(from->len + 1);
    memcpy(text, from->data, from->len);
    text[from->len] = 0;
    return text;
}

static struct life *add(struct lives *lives, const Tarry__Task *task, struct plan *plan) {
    if (lives->count == lives->capacity) {
        lives->capacity = lives->capacity > 0 ? 2 * lives->capacity : 1024;
        struct life **grown = tool_alloc(lives->capacity * sizeof(struct life *));
        if (lives->count > 0) memcpy(grown, lives->items, lives->count * sizeof(struct life *));
        free(lives->items);
        lives->items = grown;
    }
    struct life *life = tool_alloc(sizeof *life);
    *life = (struct life){.id = task->id,
                          .plan = plan,
                          .key = text_of(&task->key),
                          .key_size = (uint8_t)task->key.len,
                          .serial = text_of(&task->serial),
                          .serial_size = (uint8_t)task->serial.len,
                          .own = {task->max_attempts, (uint32_t)task->backoff_ms, task->lease_ms}};
    lives->items[lives->count++] = life;
    id_map_put(&lives->by_id, task->id, life);
    return life;
}

static void take_task(struct lives *lives, const struct entry *entry, struct life *life) {
    enum entry_kind kind = entry_kind(entry);
    struct logical_time now = moment_of(entry->header);
    const Tarry__Task *task = entry_task(entry);
    if (kind == ENTRY_UNSENT) {
        undo_lease(life, entry);
        return;
    }
    if (kind == ENTRY_LEASED) {
        lease(life, entry);
        return;
    }
    if (kind == ENTRY_EXTENDED) {
        if (life->last->turn != NULL) extend(life->last->turn, entry);
        return;
    }
    settle(lives, life, entry);
    outcome_after(kind, &life->outcome);
    if (kind == ENTRY_EXPIRED) {
        life->expired = now;
        life->expired_position = entry->header->position;
    }
    bool waits = entry->record->fact_case == TARRY__RECORD__FACT_PUT && task->state == TARRY__TASK__STATE__WAITING;
    if (waits) wait_again(life, task, now);
}

int lives_take(void *argument, const struct entry *entry) {
    struct lives *lives = argument;
    if (entry->header->position != lives->position) {
        end_frame(lives);
        lives->position = entry->header->position;
        lives->last = moment_of(entry->header);
        if (lives->first.steady_ns == 0) lives->first = lives->last;
        lives->frame = asked_new(entry);
    }
    struct plan *plan = entry->queue != NULL ? plans_find(lives->plans, entry->queue) : NULL;
    if (plan == NULL || !plan->taken) return 0;
    plan->told = true;
    const Tarry__Task *task = entry_task(entry);
    struct life *life = task != NULL ? lives_find(lives, task->id) : NULL;
    if (task != NULL && life == NULL && entry_kind(entry) == ENTRY_SCHEDULED) life = add(lives, task, plan);
    if (lives->frame->atomic) asked_take(lives->frame, entry, plan, life);
    if (entry->record->fact_case == TARRY__RECORD__FACT_QUEUE) {
        plan->recorded = plan_recorded(entry->record->queue->policy);
        plan->paused = entry->record->queue->paused;
    }
    lives->before += task != NULL && life == NULL;
    if (life != NULL) take_task(lives, entry, life);
    return 0;
}

void lives_end(struct lives *lives) {
    end_frame(lives);
}

static void free_life(struct life *life) {
    for (struct phase *phase; (phase = life->first) != NULL; free(phase)) {
        life->first = phase->next;
        free_turn(phase->turn);
    }
    free(life->key);
    free(life->serial);
    free(life);
}

void lives_deinit(struct lives *lives) {
    end_frame(lives);
    for (size_t i = 0; i < lives->count; i++) free_life(lives->items[i]);
    free(lives->items);
    id_map_deinit(&lives->by_id);
    *lives = (struct lives){0};
}
