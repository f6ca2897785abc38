/* check.c: core_check checks every invariant of state.h and near.h; O(tasks in memory). */
#include "check.h"
#include "ahead.h"
#include "definitions.h"
#include "gate.h"
#include "leases.h"
#include "near.h"
#include "pending.h"
#include "queues.h"
#include "recur.h"
#include "tasks.h"
#include "wishes.h"

static uint64_t check_line(struct core *core, const struct line_state *line) {
    uint64_t near = 0;
    uint64_t far = 0;
    uint64_t ready = 0;
    uint64_t early = 0;
    uint64_t parked = 0;
    const struct queue *queue = queue_at(core, line->line.queue);
    const struct task *task = NULL;
    TAILQ_FOREACH(task, &line->near, member) {
        assert(task->place == PLACE_PENDING || task->place == PLACE_READY || task->place == PLACE_PARKED ||
               task->place == PLACE_EARLY);
        early += task->place == PLACE_EARLY;
        if (task->place == PLACE_EARLY) assert(ready_has(&task->ready));
        assert(task->row.state == ROW_WAITING && line_of(core, &task->row) == line);
        if (task->place == PLACE_PENDING) assert(wheel_is_armed(&task->timer.wheel));
        if (task->place == PLACE_READY || task->place == PLACE_PARKED)
            assert(ready_has(&task->ready) && task->row.due_ms <= base_ms(core, task->row.base)); /* TIME-1 */
        ready += task->place == PLACE_READY;
        parked += task->place == PLACE_PARKED;
        near++;
    }
    TAILQ_FOREACH(task, &line->far, member) {
        assert(task->place == PLACE_FAR && task->dirty && task->row.due_ms >= line->far_soonest_ms);
        assert(due_before(line->horizon, row_due(&task->row)) || line->settling);
        far++;
    }
    assert(near == line->near_count && far == line->far_count && ready == line->ready.count);
    assert(parked == line->parked.count && ready_check(&line->parked));
    assert(line->size_class == (near ? 64 - __builtin_clzll(near) : 0));
    assert(line->leases_early == queue->policy.lease_before_due);
    assert(ready_check(&line->ready) && ready_check(&line->early) && early == line->early.count);
    /* In a queue with lease_before_due, each task within the horizon is ready or early (PLACE_EARLY). */
    if (queue->policy.lease_before_due) assert(near == ready + early);
    const uint32_t bit = 1u << (line->line.base * PRIORITY_COUNT + line->line.priority);
    assert(!(queue->early_mask & bit) == !early && !(queue->ready_mask & bit) == !ready);
    const struct ready_node *first = ready_min(&line->early);
    assert(wheel_is_armed(&line->early_timer.wheel) == (first != NULL));
    if (first) assert(line->early_timer.wheel.due_ms <= first->due_ms);
    (void)line_index_only(core, line); /* asserts that memory contains no more waiting tasks than exist */
    return near + far;
}

/* Checks the order of tasks in the table of keys: a look-up stops at the first match (tasks.c). */
static void check_keys(const struct core *core) {
    for (uint64_t slot = 0; slot <= core->table_mask; slot++) {
        for (struct task *const *at = &core->by_key[slot]; *at; at = &(*at)->by_key_next) {
            const struct task *task = *at, *next = task->by_key_next;
            assert(task->keyed && (task->row.state != ROW_BURIED || task->dead_at == at));
            assert(!next || task_comes_first(task, next));
        }
    }
}

static void check_task(struct core *core, const struct task *task) {
    assert(task->place != PLACE_NONE);
    serial_check(task);
    if (task->place != PLACE_ENDED) assert(task->hash == row_hash(&task->row));
    assert((task->row.deliveries > 0) == (task->row.session != 0)); /* TRUE-1 */
    bool leaves_when_clean = task->place == PLACE_FAR || task->place == PLACE_DEAD || task->place == PLACE_ENDED;
    if (leaves_when_clean) assert(task->dirty);
    if (task->place == PLACE_LEASED) {
        const struct session *session = session_find(core, task->row.session);
        assert(session && session->lease_count);
        assert(!task->ahead || (is_deciding(core) && session_is_present(session) && !task->resend && !task->departing));
        if (task->ahead == AHEAD_PENDING) /* A-1 (ahead.c) */
            assert(wheel_is_armed(&task->timer.wheel) && task->timer.kind == TIMER_DEPART);
    } else {
        assert(!task->ahead && !task->departing);
    }
}

/* Checks the invariants of leases ahead of time (ahead.c). */
static void check_ahead(const struct core *core) {
    uint64_t ahead = 0;
    for (uint32_t i = 0; i < core->sessions_end; i++) {
        const struct session *session = &core->sessions[i];
        if (session->state == SESSION_FREE) continue;
        const struct task *task = NULL;
        uint32_t count = 0;
        TAILQ_FOREACH(task, &session->ahead, member) {
            assert(task->ahead == AHEAD_PENDING);
            count++;
        }
        for (uint32_t priority = 0; priority < PRIORITY_COUNT; priority++) {
            const struct task *before = NULL;
            TAILQ_FOREACH(task, &session->due[priority], member) {
                assert(task->ahead == AHEAD_DUE && task->row.priority == priority);
                assert(!before || due_before(row_due(&before->row), row_due(&task->row)));
                before = task;
                count++;
            }
            assert(!(session->due_mask & 1u << priority) == TAILQ_EMPTY(&session->due[priority]));
        }
        assert(count == session->ahead_count && count <= session->lease_count);
        bool is_behind = session->sending && steady_ms(core) <= session->sending_ms + AHEAD_LATE_MS;
        /* after a step a session has due tasks only if it is in core->changed, or while a delivery to it is not
         * sent yet (at most AHEAD_LATE_MS). */
        assert(!session->due_mask || session->changed || is_behind);
        ahead += count;
    }
    assert(ahead == core->ahead_count);
}

/* Checks the lists that deliver() uses: sessions with credit per queue, and queues to serve. */
static void check_serving(struct core *core) {
    uint32_t willing[QUEUE_PLACES + 1] = {0}, consumers[QUEUE_PLACES + 1] = {0};
    uint32_t movers = 0, sharers = 0; /* numbers of movers and sharers (leases.h) that can get tasks now */
    for (uint32_t i = 0; i < core->sessions_end; i++) {
        const struct session *session = &core->sessions[i];
        if (session->state == SESSION_FREE) continue;
        sharers += session->willing && session_is_sharer(session->id);
        movers += session->willing && session_is_mover(session->id) && !session_is_sharer(session->id);
        for (uint32_t k = 0; k < session->subscription_count; k++) {
            const uint32_t place = queue_place(session->subscriptions[k].queue->number);
            consumers[place]++;
            willing[place] += session->willing;
        }
    }
    const struct owner_count *counted = &core->owner_count;
    uint64_t served = 0, moved = 0, shared = 0, own = 0, owned = 0;
    for (uint32_t place = 1; place < core->tally.next_queue; place++) {
        const struct queue *queue = &core->queues[place];
        assert(queue->willing_count == willing[place] && queue->consumer_count == consumers[place]);
        assert(queue_place(queue->number) == place && queue->is_counted == !queue->deleted);
        assert(!core->deletions[place] == !queue->deleted);
        assert(queue->deleted || !wish_is_pending(core, queue->name));
        own += !queue->deleted && queue_is_reserved(queue->name);
        owned += !queue->deleted && core->queue_owners[place] == counted->owner;
        assert(!queue->deleted || (!queue->willing_count && !queue->job_count && !queue->paused));
        const bool is_early = queue->policy.lease_before_due;
        const uint32_t mask = queue->group_count ? 0 : is_early ? queue->early_mask : queue->ready_mask;
        bool serves = mask && queue->willing_count && !queue->paused && gate_is_open(core, queue);
        bool moves = is_early && queue->ready_mask && !queue->paused;
        bool shares = queue->group_count && (queue->ready_mask || queue->early_mask) && !queue->paused;
        assert(ready_has(&queue->serving) == serves && ready_has(&queue->moving) == (moves || shares));
        assert(queue->is_group == (!queue->deleted && queue->filter[0]) && queue->is_group == (queue->topic != NULL));
        bool is_idle = core->started && !core->stopping && !core->hurry && !core->full && may_lease(core);
        /* CALM-1: no task may wait while a consumer or a mover has credit */
        struct task *next =
            is_early ? near_next_early(core, &core->queues[place]) : near_next_ready(core, &core->queues[place]);
        assert(!is_idle || !serves || !next);
        assert(!is_idle || !moves || !movers || !near_next_ready(core, &core->queues[place]));
        assert(!is_idle || !shares || !sharers ||
               (!near_next_ready(core, &core->queues[place]) && !near_next_early(core, &core->queues[place])));
        served += serves;
        moved += moves;
        shared += shares;
    }
    assert(ready_check(&core->serving) && core->serving.count == served && core->own_queue_count == own);
    assert(!counted->is_known || counted->count == owned);
    assert(ready_check(&core->moving) && core->moving.count == moved);
    assert(ready_check(&core->sharing) && core->sharing.count == shared && !core->orphan_count);
    const struct session *mover = NULL;
    TAILQ_FOREACH(mover, &core->movers, mover) movers--;
    TAILQ_FOREACH(mover, &core->sharers, mover) sharers--;
    assert(!movers && !sharers);
}

void core_check(const struct core *constant) {
    struct core *core = (struct core *)constant; /* not changed */
    uint64_t counted = 0;
    uint64_t leased = 0;
    uint64_t other = 0;
    for (uint64_t slot = 0; slot <= core->table_mask; slot++) {
        for (const struct task *task = core->by_id[slot]; task; task = task->by_id_next) {
            check_task(core, task);
            counted++;
            leased += task->place == PLACE_LEASED;
            other += task->place == PLACE_DEAD || task->place == PLACE_ENDED;
        }
    }
    assert(counted == core->task_count && leased == core->leases);
    uint64_t in_lines = 0;
    uint64_t near = 0;
    uint64_t in_flight = 0;
    for (uint32_t place = 1; place < core->tally.next_queue; place++) {
        for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++) {
            const struct line_state *line = &core->queues[place].lines[i / PRIORITY_COUNT][i % PRIORITY_COUNT];
            in_lines += check_line(core, line);
            near += line->near_count;
        }
        in_flight += core->tally.queues[place].in_flight;
    }
    assert(in_flight == core->leases); /* every lease is in memory */
    assert(near == core->near_count);
    recur_check(core);
    assert(in_lines + leased + other == counted);
    uint64_t dirty = 0;
    uint64_t before = 0;
    const struct task *task = NULL;
    TAILQ_FOREACH(task, &core->overlay, overlay) {
        assert(task->dirty && task->changed >= before && task->changed < core->position);
        before = task->changed;
        dirty++;
    }
    assert(dirty == core->overlay_count);
    for (int base = 0; base < ROW_BASES; base++) assert(wheel_check(&core->wheels[base]));
    definitions_check(core->definitions);
    check_serving(core);
    check_keys(core);
    pending_check(core);
    check_ahead(core);
}
