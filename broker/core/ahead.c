/* ahead.c: see ahead.h. Invariants
 *   A-1  a task leased ahead of time is in session->ahead, with a timer for its due time, or in session->due;
 *   A-2  such a task was leased in this epoch, to this session; the session is present, and the delivery has not
 * started; A-3  a session uses at most half of its prefetch for leases ahead of time, and never its last credit; A-4
 * after a step session->due is empty, with two exceptions: a delivery to the session is being sent for at most
 *        AHEAD_LATE_MS, or the session is in core->changed, so that the next step settles it. */
#include "ahead.h"

#include "effects.h"
#include "gate.h"
#include "leases.h"
#include "near.h"
#include "need.h"
#include "tasks.h"

void ahead_note(struct core *core, struct task *task) {
    uint64_t now_ms = steady_ms(core), due_ms = task->row.due_ms, from_ms = near_look_ms(core, &task->row);
    bool is_taken = from_ms == now_ms && queue_at(core, task->row.queue)->taker_count > 0;
    if (is_taken && core->soon_count < TIMERS_PER_STEP_MAX) {
        core->soon[core->soon_count++] = task->row.id;
        /* If this step does not lease the task ahead, the next attempt is half-way between now and the due time. */
        from_ms = now_ms + (due_ms - now_ms + 1) / 2;
    }
    near_soon(core, task, from_ms > now_ms ? from_ms : due_ms);
}

/* Starts a pause of leases ahead of time, twice as long as the last one. A pause that starts AHEAD_REST_MAX_MS or more
 * after the end of the last one lasts AHEAD_REST_MS. */
static void pause_again(struct pause *pause, uint64_t now_ms) {
    if (now_ms < pause->until_ms) return;
    if (now_ms >= pause->until_ms + AHEAD_REST_MAX_MS) pause->length_ms = 0;
    uint64_t twice_ms = 2 * pause->length_ms;
    pause->length_ms = twice_ms < AHEAD_REST_MS ? AHEAD_REST_MS : twice_ms;
    if (pause->length_ms > AHEAD_REST_MAX_MS) pause->length_ms = AHEAD_REST_MAX_MS;
    pause->until_ms = now_ms + pause->length_ms;
}

void ahead_stand_up(struct session *session) {
    assert(!session->takes);
    session->takes = true;
    for (uint32_t i = 0; i < session->subscription_count; i++) {
        struct subscription *subscription = &session->subscriptions[i];
        TAILQ_INSERT_TAIL(&subscription->queue->takers, subscription, of_taker);
        subscription->queue->taker_count++;
    }
}

void ahead_stand_down(struct session *session) {
    if (!session->takes) return;
    session->takes = false;
    for (uint32_t i = 0; i < session->subscription_count; i++) {
        struct subscription *subscription = &session->subscriptions[i];
        TAILQ_REMOVE(&subscription->queue->takers, subscription, of_taker);
        subscription->queue->taker_count--;
    }
}

/* ---- leasing */

/* Returns how many more tasks the session may get ahead of time. Credit for the ready tasks of the queue, and the
 * session's last credit, is never used ahead of time. */
static uint32_t room_of(const struct core *core, const struct session *session, const struct queue *queue) {
    bool is_fit = session->state == SESSION_UP && !session->gone && !session->resend_count &&
                  steady_ms(core) >= session->ahead_pause.until_ms &&
                  (session->lease_ms ? session->lease_ms : queue->policy.lease_ms) >= AHEAD_LEASE_MIN_MS;
    uint32_t credit = is_fit ? session_credit_left(session) : 0, half = session->prefetch / 2;
    uint64_t needed = 1 + near_ready_count(queue);
    if (credit <= needed || session->ahead_count >= half) return 0;
    uint32_t spare = credit - (uint32_t)needed;
    return spare < half - session->ahead_count ? spare : half - session->ahead_count;
}

/* Returns the next consumer of the queue whose session has credit for tasks ahead of time, and moves it to the end of
 * the list. Visits at most AHEAD_TAKERS_PER_LOOK_MAX sessions; returns NULL if none of these has credit. Sets
 * `*out_full` if the queue has no sessions besides the visited ones. */
static struct session *next_taker(struct core *core, struct queue *queue, bool *out_full) {
    uint32_t looks = queue->taker_count < AHEAD_TAKERS_PER_LOOK_MAX ? queue->taker_count : AHEAD_TAKERS_PER_LOOK_MAX;
    *out_full = looks == queue->taker_count;
    for (; looks; looks--) {
        struct subscription *first = TAILQ_FIRST(&queue->takers);
        core->visits++;
        TAILQ_REMOVE(&queue->takers, first, of_taker);
        TAILQ_INSERT_TAIL(&queue->takers, first, of_taker);
        if (room_of(core, first->session, queue)) return first->session;
    }
    return NULL;
}

/* Returns the task if it is not due yet and no task that precedes it in the queue can be missing in memory; otherwise
 * NULL. */
static struct task *candidate(struct core *core, uint64_t id) {
    struct task *task = task_find(core, id);
    if (!task || task->place != PLACE_PENDING || !near_may_be_ahead(core, &task->row)) return NULL;
    uint64_t now_ms = steady_ms(core), due_ms = task->row.due_ms;
    bool is_soon = due_ms > now_ms && due_ms <= now_ms + core->options.ahead_ms;
    return is_soon && !line_of(core, &task->row)->settling ? task : NULL;
}

/* Returns the end of the run of tasks of this queue that begins at `at`. */
static uint32_t run_end(struct core *core, uint32_t at, const struct queue *queue) {
    while (at < core->soon_count) {
        const struct task *task = candidate(core, core->soon[at]);
        if (task && task->row.queue != queue->number) break;
        at++;
    }
    return at;
}

static struct row row_promised(const struct core *core, const struct queue *queue, const struct session *session,
                               const struct row *row) {
    struct row leased = row_leased(core, queue, session, row);
    leased.delivered_ms = row->due_ms;
    /* The extra 1 ms is the rounding of the deadline: the lease must not end too early (TIME-1). */
    leased.lease_deadline_ms = row->due_ms + 1 + task_lease_ms(session, queue, row);
    return leased;
}

/* Leases tasks from `at` on, before `end`, to one session: at most `count_max`. Returns the index of the first task
 * that it did not visit. */
static uint32_t lease_some(struct core *core, struct session *session, uint32_t at, uint32_t end, uint32_t count_max,
                           struct core_effects *effects) {
    struct draft draft;
    draft_init_for(&draft, core, effects->arena, session, count_max);
    for (; at < end && draft.record_count < count_max; at++) {
        const struct task *task = candidate(core, core->soon[at]);
        if (!task) continue;
        struct known known = known_of(task);
        struct row leased = row_promised(core, queue_at(core, task->row.queue), session, &task->row);
        draft_put(&draft, TARRY__CAUSE__CAUSE_LEASED, &known, &leased);
    }
    core->leases_ahead = true;
    draft_commit(&draft, NULL, effects);
    core->leases_ahead = false;
    return at;
}

/* Returns `count`, reduced if memory for leases or the maximum numbers of leases permit fewer (CAP-1). */
static uint32_t limit(const struct core *core, uint32_t count) {
    uint64_t fitting = need_lease_room(core) / TASK_BYTES_MAX;
    if (count > AHEAD_TASKS_MAX - core->ahead_count) count = (uint32_t)(AHEAD_TASKS_MAX - core->ahead_count);
    if (count > LEASES_MAX - core->leases) count = (uint32_t)(LEASES_MAX - core->leases);
    return count > fitting ? (uint32_t)fitting : count;
}

/* Leases the tasks from `at` to `end`, all of one queue: each consumer with credit gets a fair share. Returns the index
 * of the first task that was not leased. Sets `*out_full` to true if no further lease is possible: all consumers of the
 * queue lack credit, or a limit is reached. */
static uint32_t lease_run(struct core *core, struct queue *queue, uint32_t at, uint32_t end, uint32_t *records_left,
                          bool *out_full, struct core_effects *effects) {
    uint32_t share = (end - at + queue->taker_count - 1) / queue->taker_count;
    while (at < end && may_lease(core)) {
        struct session *session = next_taker(core, queue, out_full);
        if (!session) return at;
        *out_full = true;
        uint32_t room = room_of(core, session, queue);
        uint32_t count = limit(core, share < room ? share : room);
        if (count > *records_left) count = *records_left;
        if (!count) return *records_left ? at : end;
        *records_left -= count;
        at = lease_some(core, session, at, end, count, effects);
    }
    return at;
}

/* Halves the queue's lead time (how long before the due time its tasks are leased), because some tasks from `at` to
 * `end` could not be leased. Otherwise later tasks would use the credit that earlier tasks need. Only the passing of
 * time undoes a halving (near_halvings). */
static void narrow(struct core *core, struct queue *queue, uint32_t at, uint32_t end) {
    uint64_t now_ms = steady_ms(core);
    uint8_t halvings = near_halvings(core, queue);
    bool may_halve = core->options.ahead_ms >> (halvings + 1) >= AHEAD_SPAN_MIN_MS;
    queue->ahead_halvings = halvings + may_halve;
    pause_again(&queue->ahead_pause, now_ms);
    for (; at < end; at++) {
        struct task *task = candidate(core, core->soon[at]);
        if (!task) continue;
        uint64_t from_ms = near_look_ms(core, &task->row);
        wheel_cancel(&core->wheels[ROW_STEADY], &task->timer.wheel);
        near_soon(core, task, from_ms > now_ms ? from_ms : task->row.due_ms);
    }
}

void ahead_lease(struct core *core, uint32_t records_max, struct core_effects *effects) {
    for (uint32_t at = 0; at < core->soon_count;) {
        const struct task *task = candidate(core, core->soon[at]);
        if (!task) {
            at++;
            continue;
        }
        struct queue *queue = queue_at(core, task->row.queue);
        uint32_t end = run_end(core, at, queue);
        bool is_served = queue->taker_count && !queue->paused, is_full = true;
        if (is_served) at = lease_run(core, queue, at, end, &records_max, &is_full, effects);
        /* If is_full is false, consumers that were not visited may have credit. The timers that ahead_note has set
         * lease the remaining tasks later. */
        if (is_served && at < end && is_full) narrow(core, queue, at, end);
        at = end;
    }
}

/* ---- before the due time */

bool ahead_is(const struct core *core, const struct row *row) {
    const struct task *task = task_find(core, row->id);
    return task && task->ahead && task->row.lease_position == row->lease_position;
}

void ahead_return(const struct core *core, const struct task *task, struct row *out) {
    Tarry__Cause cause = row_return(core, &task->row, TARRY__CAUSE__CAUSE_UNSENT, out);
    assert(cause == TARRY__CAUSE__CAUSE_UNSENT);
    row_unsend(task, out);
}

/* Adds the withdrawal of the task's lease to the draft, as a record. */
static void take_back(struct draft *draft, const struct task *task) {
    assert(task->ahead);
    struct known known = known_of(task);
    struct row row;
    ahead_return(draft->core, task, &row);
    draft_put(draft, TARRY__CAUSE__CAUSE_UNSENT, &known, &row);
}

/* Withdraws a lease ahead of time before a decision about its task. So the decision concerns a task that no consumer
 * has seen (TRUE-1). */
void ahead_see(struct draft *draft, struct known *known) {
    if (known->ended || known->row.state != ROW_LEASED || !ahead_is(draft->core, &known->row)) return;
    take_back(draft, task_find(draft->core, known->row.id));
    bool is_known = draft_find(draft, known->row.id, known);
    assert(is_known && known->row.state == ROW_WAITING);
}

/* Withdraws all leases of one list, in frames of bounded size. */
static void withdraw_list(struct core *core, struct session *session, const struct task_list *list,
                          struct core_effects *effects) {
    while (!TAILQ_EMPTY(list)) {
        struct draft draft;
        draft_init_for(&draft, core, effects->arena, session, RECORDS_PER_FRAME_MAX);
        const struct task *task = NULL;
        TAILQ_FOREACH(task, list, member) {
            if (draft.record_count == RECORDS_PER_FRAME_MAX) break;
            take_back(&draft, task);
        }
        /* The commit removes the tasks of the draft from `list`, so the outer loop ends. */
        draft_commit(&draft, NULL, effects);
    }
}

static void withdraw_due(struct core *core, struct session *session, struct core_effects *effects) {
    while (session->due_mask) withdraw_list(core, session, &session->due[__builtin_ctz(session->due_mask)], effects);
}

void ahead_withdraw(struct core *core, struct session *session, struct core_effects *effects) {
    withdraw_list(core, session, &session->ahead, effects);
    withdraw_due(core, session, effects);
}

void ahead_withdraw_all(struct core *core, struct core_effects *effects) {
    for (uint32_t i = 0; i < core->sessions_end && core->ahead_count; i++) {
        struct session *session = &core->sessions[i];
        if (session->state != SESSION_FREE) ahead_withdraw(core, session, effects);
    }
}

/* ---- at the due time */

/* Returns true if the lease is outdated: the task's queue was paused or limited, its lease time changed, or half of the
 * lease has passed. */
static bool is_outdated(const struct core *core, const struct session *session, const struct task *task) {
    const struct queue *queue = queue_at(core, task->row.queue);
    uint64_t lease_ms = task->row.lease_deadline_ms - task->row.due_ms - 1;
    if (queue->paused) return true;
    if (gate_limits(queue)) return true; /* the limit was set after this lease, so the task must wait for it */
    return lease_ms != task_lease_ms(session, queue, &task->row) || steady_ms(core) > task->row.due_ms + lease_ms / 2;
}

/* Pauses leases ahead of time to the session, because more urgent tasks needed its credit. */
static void rest(const struct core *core, struct session *session) {
    pause_again(&session->ahead_pause, steady_ms(core));
}

struct departure {
    struct core_delivered *tasks;
    uint32_t count;
    uint32_t count_max;
    uint64_t bytes;
    struct draft back; /* draft of the withdrawals of leases whose tasks cannot be part of this delivery */
};

static void commit_back(struct core *core, const struct session *session, struct departure *departure,
                        struct core_effects *effects) {
    draft_commit(&departure->back, NULL, effects);
    draft_init_for(&departure->back, core, effects->arena, session, 16);
}

/* Returns true if the task must not be delivered now. Its lease is then withdrawn. */
static bool must_wait(struct core *core, struct session *session, const struct task *task, struct departure *departure,
                      struct core_effects *effects) {
    bool is_overtaken = near_has_before(core, &task->row);
    if (!is_overtaken && !is_outdated(core, session, task)) return false;
    if (is_overtaken) rest(core, session);
    take_back(&departure->back, task);
    /* A task whose lease is withdrawn because it waited too long becomes ready at once, so that later tasks are not
     * delivered before it (KEEP-1). */
    bool is_full = departure->back.record_count == RECORDS_PER_FRAME_MAX;
    if (!is_overtaken || is_full) commit_back(core, session, departure, effects);
    return true;
}

static bool is_full(const struct departure *departure, const struct task *task) {
    return departure->count == departure->count_max ||
           (departure->count && departure->bytes + task->row.blob_size > DELIVERY_SIZE_MAX);
}

/* Adds the session's due tasks of one priority to the delivery, and makes their leases ordinary ones. Returns false if
 * the delivery is full. */
static bool gather_due(struct core *core, struct session *session, uint32_t priority, struct departure *departure,
                       struct core_effects *effects) {
    struct task *next = NULL;
    for (struct task *task = TAILQ_FIRST(&session->due[priority]); task; task = next) {
        next = TAILQ_NEXT(task, member);
        core->visits++;
        if (must_wait(core, session, task, departure, effects)) continue;
        if (is_full(departure, task)) return false;
        lease_depart(core, session, task);
        departure->bytes += task->row.blob_size;
        struct core_delivered *delivered = &departure->tasks[departure->count++];
        *delivered = (struct core_delivered){.row = task->row, .queue_name = queue_at(core, task->row.queue)->name};
    }
    return true;
}

/* Withdraws the leases of a lower priority that waited longer than AHEAD_LATE_MS because the delivery was full. Their
 * tasks become ready. */
static void take_back_late(struct core *core, struct session *session, uint32_t priority, struct departure *departure,
                           struct core_effects *effects) {
    const struct task *next = NULL;
    for (const struct task *task = TAILQ_FIRST(&session->due[priority]); task; task = next) {
        next = TAILQ_NEXT(task, member);
        if (task->row.due_ms + AHEAD_LATE_MS >= steady_ms(core)) return;
        core->visits++;
        take_back(&departure->back, task);
        if (departure->back.record_count == RECORDS_PER_FRAME_MAX) commit_back(core, session, departure, effects);
    }
}

/* Collects due tasks: highest priority first, then due time, then id. */
static void gather(struct core *core, struct session *session, struct departure *departure,
                   struct core_effects *effects) {
    uint32_t mask = session->due_mask;
    for (bool has_room = true; mask;) {
        uint32_t priority = 31u - (uint32_t)__builtin_clz(mask);
        mask &= ~(1u << priority);
        if (has_room)
            has_room = gather_due(core, session, priority, departure, effects);
        else
            take_back_late(core, session, priority, departure, effects);
    }
    draft_commit(&departure->back, NULL, effects);
}

static void depart(struct core *core, struct session *session, struct core_effects *effects) {
    struct departure departure = {.count_max = session->batch_max};
    if (departure.count_max > session->ahead_count) departure.count_max = session->ahead_count;
    departure.tasks = must_alloc(effects->arena, departure.count_max * sizeof *departure.tasks);
    draft_init_for(&departure.back, core, effects->arena, session, 16);
    gather(core, session, &departure, effects);
    uint64_t position = 0;
    for (uint32_t i = 0; i < departure.count; i++) {
        /* Copy the keys, because a task may change before its message is made. */
        struct row *row = &departure.tasks[i].row;
        must_own(effects->arena, row);
        if (row->lease_position > position) position = row->lease_position;
    }
    if (!departure.count) return;
    session->sending = session->sending_departed = true;
    session->sending_ms = steady_ms(core);
    session->sending_count = departure.count;
    session_withdraw(core, session);
    *PUSH(effects, deliveries) = (struct core_delivery){
        .session = session->id,
        .lane = session->lane,
        /* LOG-1: a position inside the frame of the lease is enough, because the durable part of the log always ends at
         * the end of a frame. */
        .after = position + 1,
        .tasks = departure.tasks,
        .count = departure.count,
        .departs = true,
    };
}

void ahead_departed(struct session *session) {
    if (!session->sending_departed) return;
    session->sending_departed = false;
    struct task *task = NULL;
    TAILQ_FOREACH_REVERSE(task, &session->leases, task_list, member) {
        if (!task->departing) break;
        task->departing = false;
    }
}

/* Delivers the session's leases ahead of time that are due, or withdraws them. */
static void settle_due(struct core *core, struct session *session, struct core_effects *effects) {
    bool may_send = session->state == SESSION_UP && !session->sending && !session->resend_count && !session->gone;
    if (may_send && session->due_mask) depart(core, session, effects);
    if (!session->due_mask) return;
    bool is_stuck = !session->sending || steady_ms(core) > session->sending_ms + AHEAD_LATE_MS;
    if (is_stuck)
        withdraw_due(core, session, effects); /* The consumer has not read the session's last delivery in time. */
    else
        session_look_at(core, session, session->sending_ms + AHEAD_LATE_MS + 1);
}

void ahead_settle(struct core *core, struct session *session, struct core_effects *effects) {
    if (!session->ahead_count) return;
    if (session->due_mask) settle_due(core, session, effects);
    if (session->ahead_count && !session_credit_left(session)) { /* */
        ahead_withdraw(core, session, effects);
        rest(core, session);
    }
}
