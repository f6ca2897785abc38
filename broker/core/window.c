/* window.c: moving the horizon of a line: loading what comes near, evicting what is far (CALM-1). See near.h.
 *
 *     time ──►   now ........ horizon ........ until (now + 2 × lead)
 *                 in memory    |  index only
 *
 * A load asks for the line's tasks beyond the horizon up to `until`; the answer moves the horizon to what it is
 * complete through. When memory is short the line with the most tasks halves: its horizon drops to the median, and what
 * lies beyond is swept out a bounded number at a time. Tasks beyond the horizon that are still in memory do no harm:
 * they are true, and near_next_ready does not deliver them before what the index may hold in front of them. */
#include <stdlib.h>

#include "near.h"
#include "push.h"
#include "seeded_bug.h"
#include "tasks.h"

#define SAMPLE_MAX 255u
#define SAMPLE_PROBES_MAX 16384u
/* Lines of so few tasks are left alone. Small, for memory may be full of very many lines. A line that was halved does
 * not load again while memory is short, so nothing goes to and fro. */
#define EVICT_LINE_MIN 8u

static size_t capacity(const struct core *core) {
    return slab_capacity(core->slab) / task_size_max();
}

/* Below this much room tasks are evicted: at the latest when the largest commit would be refused for want of it
 * (lacks_capacity), or it would be refused for ever, for nothing else makes room where nobody consumes (F-39). */
static size_t scarce_below(const struct core *core) {
    size_t commit = 2 * OPS_PER_COMMIT_MAX, half = capacity(core) / 2, share = capacity(core) / 8;
    if (commit > half) commit = half;
    return (share > commit ? share : commit) + TASK_RESERVE;
}

static bool memory_is_short(const struct core *core) {
    size_t near_max = core->options.near_max;
    return task_room(core) < scarce_below(core) + capacity(core) / 8 || (near_max && core->near_count > near_max / 2);
}

static bool memory_is_scarce(const struct core *core) {
    size_t near_max = core->options.near_max;
    return task_room(core) < scarce_below(core) || (near_max && core->near_count > near_max);
}

/* Loads are worth it when the horizon is near in time and memory allows. When memory is short only a line that has
 * nothing left loads: loading and evicting by turns would get nobody anywhere. */
static bool wants_window(const struct core *core, const struct line_state *line) {
    if (line->loading || line->evict_cursor || !line_index_only(core, line)) return false;
    if (line->horizon.due_ms > base_ms(core, line->line.base) + CLOCK_LEAD_MS) return false;
    if (memory_is_short(core)) return line->near_count == 0 && task_room(core) > 2 * TASK_RESERVE;
    return line->ready.count < WINDOW_READY_LOW;
}

static uint64_t window_count_max(const struct core *core) {
    uint64_t count = task_room(core) / 8;
    if (core->options.near_max) return core->options.near_max / 4 + 1;
    if (count > WINDOW_TASKS_MAX) count = WINDOW_TASKS_MAX;
    return count < WINDOW_TASKS_MIN ? WINDOW_TASKS_MIN : count;
}

void near_check_later(struct core *core, struct line_state *line) {
    if (line->checking) return;
    line->checking = true;
    TAILQ_INSERT_TAIL(&core->check, line, check);
}

static void ask_window(struct core *core, struct line_state *line, struct core_effects *effects) {
    int hold = core_hold(core);
    if (hold < 0) return; /* stays in the list of lines to check */
    line->loading = true;
    line->load_hold = hold;
    line->load_after = line->horizon;
    wheel_cancel(&core->wheels[line->line.base], &line->window_timer.wheel);
    *PUSH(effects, windows) = (struct core_window){
        .line = line->line,
        .after = line->horizon,
        .until_ms = base_ms(core, line->line.base) + 2 * CLOCK_LEAD_MS,
        .count_max = window_count_max(core),
    };
}

static void arm_window_timer(struct core *core, struct line_state *line) {
    struct wheel *wheel = &core->wheels[line->line.base];
    wheel_cancel(wheel, &line->window_timer.wheel);
    if (line->loading || line->horizon.due_ms == UINT64_MAX || !line_index_only(core, line)) return;
    if (line->horizon.due_ms <= base_ms(core, line->line.base) + CLOCK_LEAD_MS) return;
    wheel_arm(wheel, &line->window_timer.wheel, line->horizon.due_ms - CLOCK_LEAD_MS, 0);
}

/* Whatever is waiting within the horizon and due is ready: below the first ready one nothing of the line is left. */
static void advise_low(struct core *core, struct line_state *line, struct core_effects *effects) {
    const struct ready_node *first = ready_min(&line->ready);
    struct due low = {.due_ms = base_ms(core, line->line.base), .id = 0};
    if (due_before(line->horizon, low)) low = line->horizon;
    if (first && first->due_ms < low.due_ms) low = (struct due){.due_ms = first->due_ms, .id = 0};
    if (low.due_ms < line->low_advised.due_ms + LOW_ADVICE_STEP_MS) return;
    line->low_advised = low;
    *PUSH(effects, lows) = (struct core_low){.line = line->line, .low = low};
}

/* Short of memory with nothing ready: looked at again when the next step may have freed some. */
static bool is_starved(const struct core *core, const struct line_state *line) {
    bool is_near = line->horizon.due_ms <= base_ms(core, line->line.base) + CLOCK_LEAD_MS;
    return is_near && !line->loading && line->near_count == 0 && line_index_only(core, line);
}

void near_check_lines(struct core *core, struct core_effects *effects) {
    if (!core->started || core->stopping) return;
    struct line_state *last = TAILQ_LAST(&core->check, line_list);
    struct line_state *line = TAILQ_FIRST(&core->check);
    for (bool more = line; more; line = TAILQ_FIRST(&core->check)) {
        more = line != last;
        TAILQ_REMOVE(&core->check, line, check);
        line->checking = false;
        advise_low(core, line, effects);
        if (wants_window(core, line)) ask_window(core, line, effects);
        arm_window_timer(core, line);
        if (is_starved(core, line)) near_check_later(core, line);
    }
}

/* Dirty tasks that the index did not have when the window was read, and that lie within the new horizon. */
static void promote_far(struct core *core, struct line_state *line) {
    struct task *next = NULL;
    for (struct task *task = TAILQ_FIRST(&line->far); task; task = next) {
        next = TAILQ_NEXT(task, member);
        if (due_before(line->horizon, row_due(&task->row))) continue;
        near_unplace(core, task);
        near_place_waiting(core, task);
    }
}

void near_loaded(struct core *core, const struct core_event *event) {
    struct line_state *line = &core->queues[event->line.queue].lines[event->line.base][event->line.priority];
    assert(line->loading);
    line->loading = false;
    core_unhold(core, line->load_hold);
    struct due through = event->through;
    bool is_stale = due_before(line->horizon, line->load_after); /* evicted meanwhile: there is a gap before the rows */
    if (SEEDED_BUG(stale_window_taken)) is_stale = false;
    for (size_t i = 0; i < event->row_count && !is_stale; i++) {
        const struct row *row = &event->rows[i];
        bool is_known = task_find(core, row->id); /* what is in memory is at least as new */
        if (is_known && !SEEDED_BUG(loaded_row_wins)) continue;
        struct task *task = task_room(core) > TASK_RESERVE ? task_new(core, row, false) : NULL;
        if (!task) { /* complete up to the row before this one */
            through = i ? row_due(&event->rows[i - 1]) : line->horizon;
            break;
        }
        task->hash = row_hash(row);
        if (due_before(line->horizon, row_due(row))) line->horizon = row_due(row);
        near_place_waiting(core, task);
    }
    if (!is_stale && due_before(line->horizon, through))
        line->horizon = SEEDED_BUG(horizon_too_far) ? DUE_END : through;
    if (!SEEDED_BUG(far_left_behind)) promote_far(core, line);
    near_check_later(core, line);
}

/* ---- eviction */

static int compare_due(const void *a, const void *b) {
    const struct due *x = a;
    const struct due *y = b;
    return due_before(*y, *x) - due_before(*x, *y);
}

static uint64_t next_random(struct core *core) { /* xorshift64*: Vigna 2016 */
    uint64_t x = core->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    core->random = x;
    return x * 0x2545F4914F6CDD1Dull;
}

/* Where to halve the line: just before about the median of its tasks in memory, from a sample of the id table, so that
 * the first of the sample stays. A line that loses all would load it again at once, and lose it again. */
static struct due halfway(struct core *core, const struct line_state *line) {
    struct due sample[SAMPLE_MAX];
    size_t count = 0;
    for (uint32_t probe = 0; probe < SAMPLE_PROBES_MAX && count < SAMPLE_MAX; probe++) {
        for (struct task *task = core->by_id[next_random(core) & core->table_mask]; task; task = task->by_id_next) {
            bool is_near = task->place == PLACE_PENDING || task->place == PLACE_READY;
            if (is_near && line_of(core, &task->row) == line && count < SAMPLE_MAX)
                sample[count++] = row_due(&task->row);
        }
    }
    if (!count) return row_due(&TAILQ_FIRST(&line->near)->row);
    qsort(sample, count, sizeof *sample, compare_due);
    struct due median = sample[count / 2];
    if (!due_before(sample[0], median)) return median;
    return (struct due){.due_ms = median.due_ms, .id = median.id - 1};
}

static struct line_state *biggest_line(struct core *core) {
    struct line_state *best = NULL;
    for (uint32_t number = 1; number < core->tally.next_queue; number++) {
        for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++) {
            struct line_state *line = &core->queues[number].lines[i / PRIORITY_COUNT][i % PRIORITY_COUNT];
            if (line->near_count && (!best || line->near_count > best->near_count)) best = line;
        }
    }
    return best;
}

static void begin_eviction(struct core *core) {
    struct line_state *line = biggest_line(core);
    size_t least = window_count_max(core) < EVICT_LINE_MIN ? window_count_max(core) : EVICT_LINE_MIN;
    if (!line || line->near_count <= least) return; /* the rest is overlay: the index will catch up */
    struct due half = halfway(core, line);
    if (due_before(half, line->horizon)) line->horizon = half;
    line->evict_cursor = TAILQ_FIRST(&line->near);
    core->evicting = line;
}

void near_relieve(struct core *core) {
    if (!core->evicting && memory_is_scarce(core)) begin_eviction(core);
    struct line_state *line = core->evicting;
    for (uint32_t n = 0; line && n < EVICT_PER_STEP_MAX; n++) {
        struct task *task = line->evict_cursor;
        if (!task) {
            core->evicting = NULL;
            near_check_later(core, line);
            if (memory_is_scarce(core)) begin_eviction(core); /* at once: no event may come for long */
            return;
        }
        line->evict_cursor = TAILQ_NEXT(task, member);
        if (!due_before(line->horizon, row_due(&task->row))) continue;
        near_unplace(core, task);
        if (task->dirty && !SEEDED_BUG(evicted_dirty)) {
            near_place_waiting(core, task); /* FAR: goes when the index has it */
        } else {
            task_free(core, task);
        }
    }
}

bool near_is_relieving(const struct core *core) {
    return core->evicting != NULL;
}
