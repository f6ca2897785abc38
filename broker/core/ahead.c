/* ahead.c: see ahead.h. Invariants
 *   A-1  session->ahead is in the order of due times, and its departure timer is armed while it is not empty;
 *   A-2  a task in it was leased by this reign, to this session, which is present, and no delivery of it was given out;
 *   A-3  it takes at most half of the session's prefetch, and never its last credit: what is due first
 *        finds some. */
#include "ahead.h"

#include "decide.h"
#include "effects.h"
#include "leases.h"
#include "near.h"
#include "need.h"
#include "query.h"
#include "seeded_bug.h"
#include "tasks.h"

/* A queue whose consumers have too little credit for all that is due in `ahead_ms` gets half of it, a quarter … */
static uint64_t window_ms(const struct core *core, const struct queue *queue) {
    return core->options.ahead_ms >> queue->ahead_halvings;
}

uint64_t ahead_from_ms(const struct core *core, const struct row *row) {
    uint64_t ahead_ms = window_ms(core, queue_at(core, row->queue)), now_ms = steady_ms(core);
    bool is_fit = row->base == ROW_STEADY && !row->expires_ms && row->due_ms > now_ms + AHEAD_LEAST_MS;
    if (!ahead_ms || !is_fit) return row->due_ms;
    return row->due_ms > now_ms + ahead_ms ? row->due_ms - ahead_ms : now_ms;
}

void ahead_note(struct core *core, struct task *task) {
    uint64_t now_ms = steady_ms(core), due_ms = task->row.due_ms, from_ms = ahead_from_ms(core, &task->row);
    bool is_taken = from_ms == now_ms && queue_at(core, task->row.queue)->taker_count > 0;
    if (is_taken && core->soon_count < TIMERS_PER_STEP_MAX) {
        core->soon[core->soon_count++] = task->row.id;
        from_ms = now_ms + (due_ms - now_ms + 1) / 2; /* should this step not get to it */
    }
    near_soon(core, task, from_ms > now_ms ? from_ms : due_ms);
}

/* From now on, and twice as long as the last time. */
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

/* How many tasks more it may get ahead of time. */
static uint32_t room_of(const struct core *core, const struct session *session, const struct queue *queue) {
    bool is_fit = session->state == SESSION_UP && !session->gone && !session->resend_count &&
                  steady_ms(core) >= session->ahead_pause.until_ms &&
                  session_lease_ms(session, queue) >= AHEAD_LEASE_MIN_MS;
    uint32_t credit = is_fit ? session_credit_left(session) : 0, half = session->prefetch / 2;
    if (!credit || session->ahead_count >= half) return 0;
    return credit - 1 < half - session->ahead_count ? credit - 1 : half - session->ahead_count;
}

/* The next in turn that has room; it goes to the end. NULL: none of those that were looked at. */
static struct session *next_taker(struct core *core, struct queue *queue) {
    uint32_t looks = queue->taker_count < AHEAD_TAKERS_PER_LOOK_MAX ? queue->taker_count : AHEAD_TAKERS_PER_LOOK_MAX;
    for (; looks; looks--) {
        struct subscription *first = TAILQ_FIRST(&queue->takers);
        core->visits++;
        TAILQ_REMOVE(&queue->takers, first, of_taker);
        TAILQ_INSERT_TAIL(&queue->takers, first, of_taker);
        if (room_of(core, first->session, queue)) return first->session;
    }
    return NULL;
}

/* The task, if it still waits for its time and nothing can come before it that is not in memory; else NULL. */
static struct task *candidate(struct core *core, uint64_t id) {
    struct task *task = task_find(core, id);
    if (!task || task->place != PLACE_PENDING || task->row.base != ROW_STEADY) return NULL;
    uint64_t now_ms = steady_ms(core), due_ms = task->row.due_ms;
    bool is_fit = !task->row.expires_ms && due_ms > now_ms && due_ms <= now_ms + core->options.ahead_ms;
    return is_fit && !line_of(core, &task->row)->settling ? task : NULL;
}

/* From `at` on: where those that are of this queue, in a row, end. */
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
    leased.lease_deadline_ms = row->due_ms + 1 + session_lease_ms(session, queue); /* TIME-1: rounded up */
    return leased;
}

/* Into the session's list, which apply cannot know of. */
static void hold_back(struct core *core, struct session *session, struct task *task) {
    assert(task->place == PLACE_LEASED && !task->ahead && task->row.session == session->id);
    TAILQ_REMOVE(&session->leases, task, member);
    struct task *before = TAILQ_LAST(&session->ahead, task_list);
    while (before && due_before(row_due(&task->row), row_due(&before->row))) {
        before = TAILQ_PREV(before, task_list, member);
        core->visits++;
    }
    if (before)
        TAILQ_INSERT_AFTER(&session->ahead, before, task, member);
    else
        TAILQ_INSERT_HEAD(&session->ahead, task, member);
    task->ahead = true;
    session->ahead_count++;
    core->ahead_count++;
    queue_at(core, task->row.queue)->ahead_count++;
    if (core->scan_count) list_saw(core, task); /* when its record was applied it was still taken for one in flight */
}

void ahead_leave(struct core *core, struct session *session, struct task *task) {
    assert(task->ahead && session->ahead_count && core->ahead_count);
    TAILQ_REMOVE(&session->ahead, task, member);
    task->ahead = false;
    session->ahead_count--;
    core->ahead_count--;
    queue_at(core, task->row.queue)->ahead_count--;
}

void ahead_wait(struct core *core, struct session *session, uint64_t until_ms) {
    wheel_cancel(&core->wheels[ROW_STEADY], &session->departure.wheel);
    wheel_arm(&core->wheels[ROW_STEADY], &session->departure.wheel, until_ms, session->id);
}

/* Leases the first of those from `at` to `end` to one session. Returns where the rest begins. */
static uint32_t lease_some(struct core *core, struct session *session, uint32_t at, uint32_t end, uint32_t count_max,
                           struct core_effects *effects) {
    struct draft draft;
    draft_init_for(&draft, core, effects->arena, session, count_max);
    uint64_t *ids = must_alloc(effects->arena, count_max * sizeof *ids);
    uint32_t count = 0;
    for (; at < end && count < count_max; at++) {
        const struct task *task = candidate(core, core->soon[at]);
        if (!task) continue;
        struct known known = known_of(task);
        struct row leased = row_promised(core, queue_at(core, task->row.queue), session, &task->row);
        draft_put(&draft, TARRY__CAUSE__CAUSE_LEASED, &known, &leased);
        ids[count++] = task->row.id;
    }
    draft_commit(&draft, NULL, effects);
    for (uint32_t i = 0; i < count; i++) hold_back(core, session, task_find(core, ids[i]));
    const struct task *first = TAILQ_FIRST(&session->ahead);
    if (first) ahead_wait(core, session, first->row.due_ms);
    return at;
}

/* CAP-1: as many as there is room for. */
static uint32_t limit(const struct core *core, uint32_t count) {
    uint64_t fitting = need_lease_room(core) / task_size(KEY_SIZE_MAX);
    if (count > AHEAD_TASKS_MAX - core->ahead_count) count = (uint32_t)(AHEAD_TASKS_MAX - core->ahead_count);
    if (count > LEASES_MAX - core->leases) count = (uint32_t)(LEASES_MAX - core->leases);
    return count > fitting ? (uint32_t)fitting : count;
}

/* Those from `at` to `end`, of one queue: each consumer that has room gets a fair share. Returns where those begin that
 * no consumer has room for. */
static uint32_t lease_run(struct core *core, struct queue *queue, uint32_t at, uint32_t end, uint32_t *records_left,
                          struct core_effects *effects) {
    if (queue->ready_mask) return at; /* what waits for credit comes first */
    uint32_t share = (end - at + queue->taker_count - 1) / queue->taker_count;
    while (at < end && may_lease(core)) {
        struct session *session = next_taker(core, queue);
        if (!session) return at;
        uint32_t room = room_of(core, session, queue);
        uint32_t count = limit(core, share < room ? share : room);
        if (count > *records_left) count = *records_left;
        if (!count) return *records_left ? at : end;
        *records_left -= count;
        at = lease_some(core, session, at, end, count, effects);
    }
    return at;
}

/* Later ones would take what those need that are due before them, and be withdrawn for it: the queue's time ahead is
 * halved, so that all of them fit or none is leased. */
static void narrow(struct core *core, struct queue *queue, uint32_t at, uint32_t end) {
    uint64_t now_ms = steady_ms(core);
    if (window_ms(core, queue) && !SEEDED_BUG(ahead_never_narrowed)) queue->ahead_halvings++;
    pause_again(&queue->ahead_pause, now_ms);
    for (; at < end; at++) {
        struct task *task = candidate(core, core->soon[at]);
        if (!task) continue;
        uint64_t from_ms = ahead_from_ms(core, &task->row);
        wheel_cancel(&core->wheels[ROW_STEADY], &task->timer.wheel);
        near_soon(core, task, from_ms > now_ms ? from_ms : task->row.due_ms);
    }
}

/* All fitted, for long enough. */
static void widen(const struct core *core, struct queue *queue) {
    if (!queue->ahead_halvings || steady_ms(core) < queue->ahead_pause.until_ms) return;
    queue->ahead_halvings--;
    queue->ahead_pause.until_ms = steady_ms(core) + queue->ahead_pause.length_ms;
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
        bool is_served = queue->taker_count && !queue->paused;
        if (is_served) at = lease_run(core, queue, at, end, &records_max, effects);
        if (is_served && at < end)
            narrow(core, queue, at, end);
        else if (is_served && records_max)
            widen(core, queue);
        at = end;
    }
}

/* ---- until it is due */

bool ahead_is(const struct core *core, const struct row *row) {
    const struct task *task = task_find(core, row->id);
    return task && task->ahead && task->row.lease_position == row->lease_position;
}

void ahead_return(const struct core *core, const struct task *task, struct row *out) {
    Tarry__Cause cause = row_return(core, &task->row, TARRY__CAUSE__CAUSE_UNSENT, out);
    assert(cause == TARRY__CAUSE__CAUSE_UNSENT);
    row_unsend(task, out);
}

void ahead_take_back(struct draft *draft, const struct task *task) {
    assert(task->ahead);
    struct known known = known_of(task);
    struct row row;
    ahead_return(draft->core, task, &row);
    draft_put(draft, TARRY__CAUSE__CAUSE_UNSENT, &known, &row);
}

/* TRUE-1: what is decided is decided about a task that no consumer has seen. */
void ahead_see(struct draft *draft, struct known *known) {
    if (known->ended || known->row.state != ROW_LEASED || !ahead_is(draft->core, &known->row)) return;
    if (SEEDED_BUG(ahead_seen_as_leased)) return;
    ahead_take_back(draft, task_find(draft->core, known->row.id));
    bool is_known = draft_find(draft, known->row.id, known);
    assert(is_known && known->row.state == ROW_WAITING);
}

void ahead_withdraw(struct core *core, struct session *session, uint64_t due_ms, struct core_effects *effects) {
    const struct task *task = TAILQ_FIRST(&session->ahead);
    while (task && task->row.due_ms <= due_ms) {
        struct draft draft;
        draft_init_for(&draft, core, effects->arena, session, RECORDS_PER_FRAME_MAX);
        for (; task && task->row.due_ms <= due_ms && draft.record_count < RECORDS_PER_FRAME_MAX;
             task = TAILQ_NEXT(task, member))
            ahead_take_back(&draft, task);
        draft_commit(&draft, NULL, effects); /* what it names leaves the list */
        task = TAILQ_FIRST(&session->ahead);
    }
}

void ahead_withdraw_all(struct core *core, struct core_effects *effects) {
    for (uint32_t i = 0; i < core->sessions_end && core->ahead_count; i++) {
        struct session *session = &core->sessions[i];
        if (session->state != SESSION_FREE) ahead_withdraw(core, session, UINT64_MAX, effects);
    }
}

/* ---- and then */

/* Its queue was paused since, or its leases are of another length. */
static bool is_outdated(const struct core *core, const struct session *session, const struct task *task) {
    const struct queue *queue = queue_at(core, task->row.queue);
    uint64_t lease_ms = task->row.lease_deadline_ms - task->row.due_ms - 1;
    return (queue->paused && !SEEDED_BUG(paused_departs)) || lease_ms != session_lease_ms(session, queue);
}

/* What is leased to it ahead of time stands in the way of what is not, or the other way round. */
static void rest(const struct core *core, struct session *session) {
    pause_again(&session->ahead_pause, steady_ms(core));
}

static void withdraw_outdated(struct core *core, const struct session *session, uint64_t due_ms,
                              struct core_effects *effects) {
    struct draft draft;
    draft_init_for(&draft, core, effects->arena, session, 16);
    const struct task *task = NULL;
    TAILQ_FOREACH(task, &session->ahead, member) {
        if (task->row.due_ms > due_ms || draft.record_count == RECORDS_PER_FRAME_MAX) break;
        if (is_outdated(core, session, task)) ahead_take_back(&draft, task);
    }
    draft_commit(&draft, NULL, effects);
}

/* What is due, the highest priority first, then due, then id: moved to the leases, at the end of their list. The number
 * of tasks. */
static uint32_t gather_due(struct core *core, struct session *session, uint64_t due_ms, uint32_t count_max,
                           struct core_delivered *tasks) {
    uint32_t count = 0, priorities = 0;
    uint64_t bytes = 0;
    struct task *task = NULL, *next = NULL;
    TAILQ_FOREACH(task, &session->ahead, member) {
        if (task->row.due_ms > due_ms) break;
        priorities |= 1u << task->row.priority;
    }
    for (uint32_t priority = PRIORITY_COUNT; priority-- > 0;) {
        if (!(priorities & 1u << priority)) continue;
        for (task = TAILQ_FIRST(&session->ahead); task && task->row.due_ms <= due_ms; task = next) {
            next = TAILQ_NEXT(task, member);
            if (task->row.priority != priority || is_outdated(core, session, task)) continue;
            if (near_has_before(core, &task->row) && !SEEDED_BUG(ahead_overtakes)) {
                rest(core, session);
                continue;
            }
            if (count == count_max || (count && bytes + task->row.blob_size > DELIVERY_SIZE_MAX)) return count;
            assert(task->row.due_ms <= steady_ms(core) || SEEDED_BUG(departs_early)); /* TIME-1 */
            ahead_leave(core, session, task);
            if (core->scan_count) list_saw(core, task); /* in flight from now on, without a record */
            TAILQ_INSERT_TAIL(&session->leases, task, member);
            task->departing = true;
            bytes += task->row.blob_size;
            tasks[count] =
                (struct core_delivered){.row = task->row, .queue_name = queue_at(core, task->row.queue)->name};
            count++;
        }
    }
    return count;
}

static void depart(struct core *core, struct session *session, uint64_t due_ms, struct core_effects *effects) {
    uint32_t count_max = session->batch_max < session->ahead_count ? session->batch_max : session->ahead_count;
    struct core_delivered *tasks = must_alloc(effects->arena, count_max * sizeof *tasks);
    uint32_t count = gather_due(core, session, due_ms, count_max, tasks);
    uint64_t position = 0;
    for (uint32_t i = 0; i < count; i++) { /* the task may change before the message is made */
        struct row *row = &tasks[i].row;
        row->key = must_copy(effects->arena, row->key, row->key_size);
        if (row->lease_position > position) position = row->lease_position;
    }
    if (!count) return;
    session->sending = session->sending_departed = true;
    session->sending_ms = steady_ms(core);
    session->sending_count = count;
    session_withdraw(core, session);
    *PUSH(effects, deliveries) = (struct core_delivery){
        .session = session->id,
        .lane = session->lane,
        .after = position + 1, /* LOG-1: what is durable ends with a frame, so the lease's is wholly durable */
        .tasks = tasks,
        .count = count,
        .departs = true,
    };
}

const struct row *ahead_first_due(struct core *core, const struct session *session, const struct queue *queue) {
    const struct row *first = NULL;
    const struct task *task = NULL;
    TAILQ_FOREACH(task, &session->ahead, member) {
        if (task->row.due_ms > steady_ms(core)) break;
        core->visits++;
        if (task->row.queue != queue->number) continue;
        if (!first || task->row.priority > first->priority) first = &task->row; /* they lie in the order of due times */
    }
    return first;
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

void ahead_settle(struct core *core, struct session *session, struct core_effects *effects) {
    if (TAILQ_EMPTY(&session->ahead)) return;
    uint64_t now_ms = steady_ms(core), due_ms = now_ms + (SEEDED_BUG(departs_early) ? 1 : 0);
    bool may_send = session->state == SESSION_UP && !session->sending && !session->resend_count && !session->gone;
    if (may_send && TAILQ_FIRST(&session->ahead)->row.due_ms <= due_ms) {
        withdraw_outdated(core, session, due_ms, effects);
        depart(core, session, due_ms, effects);
    }
    /* Its consumer does not take what it gets: it is decided anew. One that does gets all, however late. */
    bool is_stuck = session->sending ? now_ms > session->sending_ms + AHEAD_LATE_MS : !may_send;
    if (SEEDED_BUG(ahead_late_taken_back)) is_stuck = true;
    if (is_stuck && now_ms > AHEAD_LATE_MS) ahead_withdraw(core, session, now_ms - AHEAD_LATE_MS - 1, effects);
    if (!session_credit_left(session) && !SEEDED_BUG(ahead_keeps_credit)) { /* */
        ahead_withdraw(core, session, UINT64_MAX, effects);
        rest(core, session);
    }
    const struct task *first = TAILQ_FIRST(&session->ahead);
    if (!first) return;
    ahead_wait(core, session, first->row.due_ms > now_ms ? first->row.due_ms : now_ms + AHEAD_LATE_MS + 1);
}
