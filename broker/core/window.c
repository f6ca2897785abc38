/* window.c: moves the horizon of a line forward by loading tasks that become near. See near.h; evict.c moves it back.
 *
 *     time ──►   now ........ horizon ........ until (now + 2 × lead)
 *                 in memory    |  index only
 *
 * A load asks for the line's tasks beyond the horizon up to `until`. The answer may come in parts; after each part, the
 * horizon moves to the last (due, id) up to which the rows are complete. Tasks in the list `far` are in memory, but
 * were beyond the horizon. Those within the new horizon are moved to `near`, a bounded number per step. Until then, a
 * task is not delivered if a task in `far` might be due before it.
 *
 * The work per step is bounded, independent of the number of lines. A line is checked only when it has changed
 * (core->check), or when memory may be free for a line that waits for memory (core->starved). */
#include "effects.h"
#include "near.h"
#include "need.h"
#include "tasks.h"

/* Returns true if memory has space for the smallest load and the reserve. */
static bool fits_window(const struct core *core) {
    return need_pages_free(core) >= RESERVE_PAGES + need_pages_of(WINDOW_TASKS_MIN);
}

/* Returns true if consumers may get tasks of the line that are not due, and there are consumers. */
static bool is_taken_early(const struct core *core, const struct line_state *line) {
    return line->leases_early && queue_at(core, line->line.queue)->consumer_count;
}

/* Returns true if tasks beyond the line's horizon are due soon, or consumers may get them before they are due. */
static bool is_horizon_close(const struct core *core, const struct line_state *line) {
    return line->horizon.due_ms <= base_ms(core, line->line.base) + CLOCK_LEAD_MS || is_taken_early(core, line);
}

/* Maximum number of parked tasks of a line; with more, the line loads no further tasks. */
static uint64_t parked_max(const struct core *core) {
    return (uint64_t)need_pages(core) / PARKED_SHARE * (SLAB_PAGE_SIZE / task_size(KEY_SIZE_MAX, SERIAL_SIZE_MAX));
}

/* Returns true if the line should load: its horizon is close and memory allows it. If memory is short, only a
 * line without near tasks loads. Otherwise loading and eviction would alternate. */
static bool wants_window(const struct core *core, const struct line_state *line) {
    if (line->loading || line->settling || line->evict_cursor || !line_index_only(core, line)) return false;
    if (!is_horizon_close(core, line)) return false;
    if (near_is_short(core)) return line->near_count == 0 && fits_window(core);
    bool has_few_early = !is_taken_early(core, line) || line->early.count < WINDOW_READY_LOW;
    bool has_few_parked = line->parked.count < parked_max(core);
    return line->ready.count < WINDOW_READY_LOW && has_few_early && has_few_parked;
}

uint64_t window_count_max(const struct core *core) {
    uint64_t count = (uint64_t)need_pages_free(core) * (SLAB_PAGE_SIZE / task_size(KEY_SIZE_MAX, 0)) / 8;
    if (core->options.near_max) return core->options.near_max / 4 + 1;
    if (count > WINDOW_TASKS_MAX) count = WINDOW_TASKS_MAX;
    return count < WINDOW_TASKS_MIN ? WINDOW_TASKS_MIN : count;
}

void near_check_later(struct core *core, struct line_state *line) {
    if (line->checking == CHECK_LISTED) return;
    if (line->checking == CHECK_STARVED) TAILQ_REMOVE(&core->starved, line, check);
    line->checking = CHECK_LISTED;
    TAILQ_INSERT_TAIL(&core->check, line, check);
}

void near_check_queue(struct core *core, struct queue *queue) {
    for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++, core->visits++) {
        struct line_state *line = &queue->lines[i / PRIORITY_COUNT][i % PRIORITY_COUNT];
        if (line_index_only(core, line)) near_check_later(core, line);
    }
}

void near_check_all(struct core *core) {
    core->unchecked = 1;
}

/* Adds lines of unchecked queues to core->check, a bounded number per step. */
static void list_unchecked(struct core *core) {
    uint32_t queues = per_step(core, CHECK_PER_STEP_MAX / (ROW_BASES * PRIORITY_COUNT));
    for (uint32_t n = 0; n < queues && core->unchecked; n++) {
        if (core->unchecked >= core->tally.next_queue) {
            core->unchecked = 0;
            return;
        }
        near_check_queue(core, &core->queues[core->unchecked++]);
    }
}

static bool is_loading_enough(const struct core *core) {
    return core->rows_loading >= WINDOWS_LOADING_MAX * window_count_max(core);
}

static bool ask_window(struct core *core, struct line_state *line, struct core_effects *effects) {
    int hold = is_loading_enough(core) ? -1 : core_hold(core);
    if (hold < 0) return false;
    const uint64_t count_max = window_count_max(core), index_only = line_index_only(core, line);
    line->loading = true;
    line->load_hold = hold;
    line->load_rows = count_max < index_only ? count_max : index_only;
    core->rows_loading += line->load_rows;
    line->load_after = line->horizon;
    wheel_cancel(&core->wheels[line->line.base], &line->window_timer.wheel);
    *PUSH(effects, windows) = (struct core_window){
        .line = line->line,
        .after = line->horizon,
        .until_ms = is_taken_early(core, line) ? UINT64_MAX : base_ms(core, line->line.base) + 2 * CLOCK_LEAD_MS,
        .count_max = count_max,
    };
    return true;
}

static void arm_window_timer(struct core *core, struct line_state *line) {
    struct wheel *wheel = &core->wheels[line->line.base];
    wheel_cancel(wheel, &line->window_timer.wheel);
    if (line->loading || line->horizon.due_ms == UINT64_MAX || !line_index_only(core, line)) return;
    if (line->horizon.due_ms <= base_ms(core, line->line.base) + CLOCK_LEAD_MS) return;
    wheel_arm(wheel, &line->window_timer.wheel, line->horizon.due_ms - CLOCK_LEAD_MS, 0);
}

/* Sends the index a new hint: all rows of the line before `low` are gone. `low` is the earliest of the current time,
 * the horizon, and the first ready task's due time. */
static void advise_low(struct core *core, struct line_state *line, struct core_effects *effects) {
    if (line->settling) return;
    const struct task *first = near_first_ready(line);
    struct due low = {.due_ms = base_ms(core, line->line.base), .id = 0};
    if (due_before(line->horizon, low)) low = line->horizon;
    if (first && first->row.due_ms < low.due_ms) low = (struct due){.due_ms = first->row.due_ms, .id = 0};
    if (low.due_ms < line->low_advised.due_ms + LOW_ADVICE_STEP_MS) return;
    line->low_advised = low;
    *PUSH(effects, lows) = (struct core_low){.line = line->line, .low = low};
}

/* Returns true if the line needs tasks from the index but has no near task. */
static bool is_starved(const struct core *core, const struct line_state *line) {
    return line->near_count == 0 && !line->loading && !line->settling && line_index_only(core, line) &&
           is_horizon_close(core, line);
}

/* Checks starved lines (core->starved) again once memory or a hold is free. If a line begins a load, the loaded rows
 * arrive with an event, and the step of that event checks further lines. */
static void retry_starved(struct core *core) {
    if (core->hold_count == HOLDS_MAX || is_loading_enough(core) || (near_is_short(core) && !fits_window(core))) return;
    struct line_state *line = NULL;
    for (uint32_t n = 0; n < per_step(core, STARVED_PER_STEP_MAX) && (line = TAILQ_FIRST(&core->starved)); n++) {
        near_check_later(core, line);
    }
}

static void check_line(struct core *core, struct line_state *line, struct core_effects *effects) {
    advise_low(core, line, effects);
    bool lacks_hold = wants_window(core, line) && !ask_window(core, line, effects);
    arm_window_timer(core, line);
    if (!lacks_hold && !is_starved(core, line)) return;
    line->checking = CHECK_STARVED;
    TAILQ_INSERT_TAIL(&core->starved, line, check);
}

void near_check_lines(struct core *core, struct core_effects *effects) {
    if (!(core->started || core->inspected) || core->stopping) return;
    list_unchecked(core);
    retry_starved(core);
    struct line_state *line = NULL;
    for (uint32_t n = 0; n < per_step(core, CHECK_PER_STEP_MAX) && (line = TAILQ_FIRST(&core->check)); n++) {
        TAILQ_REMOVE(&core->check, line, check);
        line->checking = CHECK_NONE;
        core->visits++;
        check_line(core, line, effects);
    }
}

bool near_is_checking(const struct core *core) {
    return core->unchecked || !TAILQ_EMPTY(&core->check);
}

/* ---- loaded rows */

#define AHEAD 16u

/* Prefetches the table slots of the row's task. Returns the hash of its key. */
static uint64_t prefetch(const struct core *core, const struct core_loaded *loaded, size_t i) {
    if (i >= loaded->row_count) return 0;
    uint64_t key_hash = row_key(&loaded->rows[i]).hash;
    task_prefetch_id_bucket(core, loaded->rows[i].id);
    task_prefetch_key_bucket(core, key_hash);
    return key_hash;
}

/* Creates tasks from the rows of a piece while memory has space. Returns the (due, id) up to which the line is
 * complete. */
static struct due take_rows(struct core *core, struct line_state *line, const struct core_loaded *loaded) {
    uint64_t hashes[AHEAD];
    for (size_t i = 0; i < AHEAD; i++) hashes[i] = prefetch(core, loaded, i);
    for (size_t i = 0; i < loaded->row_count; i++) {
        const struct row *row = &loaded->rows[i];
        uint64_t key_hash = hashes[i % AHEAD];
        hashes[i % AHEAD] = prefetch(core, loaded, i + AHEAD);
        bool is_known = task_find(core, row->id); /* the task in memory is at least as new as the row */
        if (is_known) continue;
        struct task *task = need_task_fits(core, row) ? task_new(core, row, key_hash, false) : NULL;
        if (!task) { /* no memory: the line is complete up to the previous row */
            return i ? row_due(&loaded->rows[i - 1]) : line->horizon;
        }
        task->hash = row_hash(row);
        if (due_before(line->horizon, row_due(row))) line->horizon = row_due(row);
        near_place_waiting(core, task);
    }
    return loaded->through;
}

/* Starts near_promote for the far tasks within the new horizon, once the load is complete. */
static void begin_promotion(struct core *core, struct line_state *line) {
    bool has_any = line->far_soonest_ms <= line->horizon.due_ms;
    line->promote_cursor = has_any ? TAILQ_FIRST(&line->far) : NULL;
    line->promote_soonest_ms = has_any ? UINT64_MAX : line->far_soonest_ms;
    TAILQ_INSERT_TAIL(&core->promoting, line, promotion);
}

void line_leave(struct core *core, struct line_state *line) {
    assert(!line->near_count && !line->far_count); /* a deleted queue has no tasks */
    wheel_cancel(&core->wheels[line->line.base], &line->window_timer.wheel);
    wheel_cancel(&core->wheels[line->line.base], &line->early_timer.wheel);
    if (line->checking) TAILQ_REMOVE(line->checking == CHECK_LISTED ? &core->check : &core->starved, line, check);
    if (line->loading) core_unhold(core, line->load_hold); /* drop the load; near_loaded ignores the answer to it */
    if (line->settling && !line->loading) TAILQ_REMOVE(&core->promoting, line, promotion);
    if (core->evicting == line) core->evicting = NULL;
}

void near_loaded(struct core *core, const struct core_loaded *loaded) {
    struct queue *queue = queue_at(core, loaded->line.queue);
    if (queue->number != loaded->line.queue)
        return; /* the queue was deleted meanwhile, and another queue took its place */
    struct line_state *line = &queue->lines[loaded->line.base][loaded->line.priority];
    assert(line->loading);
    /* True if an eviction moved the horizon back, so that rows are missing. */
    bool is_stale = due_before(line->horizon, line->load_after);
    if (!line->settling) {
        line->settling = true;
        line->sure = line->horizon;
    }
    if (!is_stale) {
        struct due through = take_rows(core, line, loaded);
        if (due_before(line->horizon, through)) line->horizon = through;
        /* If an eviction has moved the horizon before this position, the following parts of the load are dropped. */
        line->load_after = loaded->through;
    }
    if (loaded->more) return;
    line->loading = false;
    core->rows_loading -= line->load_rows;
    core_unhold(core, line->load_hold);
    begin_promotion(core, line);
}

/* Moves tasks within the new horizon from the list `far` to `near`. These tasks are in memory because the index did not
 * have them when the window was read. */
void near_promote(struct core *core) {
    struct line_state *line = NULL;
    for (uint32_t n = 0; n < per_step(core, PROMOTE_PER_STEP_MAX) && (line = TAILQ_FIRST(&core->promoting)); n++) {
        struct task *task = line->promote_cursor;
        core->visits++;
        if (!task) {
            TAILQ_REMOVE(&core->promoting, line, promotion);
            line->settling = false;
            core->ready_anew = true;
            line->far_soonest_ms = line->promote_soonest_ms;
            near_check_later(core, line);
            continue;
        }
        line->promote_cursor = TAILQ_NEXT(task, member);
        if (due_before(line->horizon, row_due(&task->row))) {
            if (task->row.due_ms < line->promote_soonest_ms) line->promote_soonest_ms = task->row.due_ms;
            continue;
        }
        near_unplace(core, task);
        near_place_waiting(core, task);
    }
}

bool near_is_promoting(const struct core *core) {
    return !TAILQ_EMPTY(&core->promoting);
}
