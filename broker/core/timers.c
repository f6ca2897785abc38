/* timers.c: see timers.h. Leases that expire together go into one frame. */
#include "timers.h"

#include "ahead.h"
#include "decide.h"
#include "leases.h"
#include "near.h"

static struct timer *timer_of(struct wheel_timer *wheel) {
    return (struct timer *)wheel;
}

static struct task *task_of(struct timer *timer) {
    return (struct task *)((char *)timer - offsetof(struct task, timer));
}

static struct line_state *line_of_early(struct timer *timer) {
    return (struct line_state *)((char *)timer - offsetof(struct line_state, early_timer));
}

/* Handles a timer that belongs to no task. Returns the amount of work. Each lease that ends counts as work, too,
 * because many sessions may end at the same time (CALM-1). */
static uint32_t run_other(struct core *core, struct timer *timer, struct core_effects *effects) {
    char *at = (char *)timer;
    switch ((enum timer_kind)timer->kind) {
    case TIMER_PAUSE:
        queue_pause_over(core, (struct queue *)(at - offsetof(struct queue, pause_timer)), effects);
        return 1;
    case TIMER_SILENCE:
        return session_gone(core, (struct session *)(at - offsetof(struct session, silence)),
                            TARRY__SESSION_END__CAUSE__SILENT, effects);
    case TIMER_WINDOW:
        near_check_later(core, (struct line_state *)(at - offsetof(struct line_state, window_timer)));
        return 1;
    case TIMER_CLAIM:
        return session_claim_over(core, TIMERS_PER_STEP_MAX, effects);
    case TIMER_SESSION:
        session_changed(core, (struct session *)(at - offsetof(struct session, look)));
        return 1;
    case TIMER_GATE:
        near_update_serving(core, (struct queue *)(at - offsetof(struct queue, gate_timer)));
        return 1;
    case TIMER_EARLY:
        return 1 + near_early_due(core, line_of_early(timer), TIMERS_PER_STEP_MAX);
    case TIMER_DUE:
    case TIMER_AHEAD:
    case TIMER_DEPART:
    case TIMER_LEASE:
        break;
    }
    assert(!"the caller handles this kind");
    return 0;
}

/* Returns a lost lease. A consumer without a sign of life since the delivery may be stopped, so it gets no new task
 * until the next sign of life. */
static void return_lease(struct draft *draft, struct task *task) {
    struct session *session = session_find(draft->core, task->row.session);
    if (session && session->heard_ms <= task->row.delivered_ms) {
        session->mute = true;
        session_changed(draft->core, session);
    }
    struct known known = known_of(task);
    struct row row;
    Tarry__Cause cause = task_return(draft->core, task, TARRY__CAUSE__CAUSE_LEASE_LOST, &row);
    draft_put(draft, cause, &known, &row);
}

/* Handles the timer of a task that is due, or will be soon. */
static void come_near(struct core *core, struct task *task) {
    if (task->row.due_ms <= base_ms(core, task->row.base)) {
        near_due(core, task);
        return;
    }
    if (!near_share_soon(core, task)) ahead_note(core, task);
}

/* Prefetches the next timer, which nearly always belongs to a task. */
static void prefetch_next(const struct wheel *wheel) {
    const struct wheel_timer *next = wheel_at_hand(wheel);
    if (next) task_prefetch(task_of(timer_of((struct wheel_timer *)next)));
}

/* Handles the timers of one wheel. Collects lost leases in a draft; they leave their lists only when the draft is
 * applied. */
static uint32_t run_wheel(struct core *core, uint8_t base, struct core_effects *effects) {
    struct draft lost;
    draft_init(&lost, core, effects->arena, NULL, 64);
    uint64_t now_ms = base_ms(core, base);
    uint32_t done = 0;
    struct wheel_timer *popped = NULL;
    while (done < TIMERS_PER_STEP_MAX && (popped = wheel_pop(&core->wheels[base], now_ms))) {
        struct timer *timer = timer_of(popped);
        prefetch_next(&core->wheels[base]);
        if (timer->kind == TIMER_DUE || timer->kind == TIMER_AHEAD) {
            come_near(core, task_of(timer));
            done++;
        } else if (timer->kind == TIMER_LEASE) {
            return_lease(&lost, task_of(timer));
            done++;
        } else if (timer->kind == TIMER_DEPART) {
            lease_is_due(core, task_of(timer));
            done++;
        } else {
            if (lost.record_count) draft_commit(&lost, NULL, effects);
            draft_init(&lost, core, effects->arena, NULL, 64);
            done += run_other(core, timer, effects);
        }
    }
    draft_commit(&lost, NULL, effects);
    return done;
}

void timers_make_ready(struct core *core) {
    for (uint8_t base = 0; base < ROW_BASES; base++) {
        struct wheel_timer *popped = NULL;
        while ((popped = wheel_pop(&core->wheels[base], base_ms(core, base)))) {
            struct timer *timer = timer_of(popped);
            if (timer->kind == TIMER_DUE || timer->kind == TIMER_AHEAD)
                come_near(core, task_of(timer)); /* from here on `timer` is not valid, because its memory becomes a node
                                                    of a heap */
            else if (timer->kind == TIMER_EARLY)
                (void)near_early_due(core, line_of_early(timer), UINT32_MAX);
        }
    }
}

bool timers_run(struct core *core, struct core_effects *effects) {
    if (!core->started || core->stopping) return false;
    uint32_t steady = run_wheel(core, ROW_STEADY, effects);
    uint32_t wall = run_wheel(core, ROW_WALL, effects);
    return steady >= TIMERS_PER_STEP_MAX || wall >= TIMERS_PER_STEP_MAX;
}
