/* evict.c: moves the horizon of a line back when memory is short (CALM-1). See near.h; window.c moves the horizon
 * forward.
 *
 * Eviction halves one of the lines with the most tasks in memory. The line's horizon moves to the median of its tasks,
 * and the tasks beyond the new horizon are removed from memory, a bounded number per step. Tasks beyond the horizon
 * that are still in memory are harmless, because they are up to date. near_next_ready does not deliver them before
 * earlier tasks that may be in the index or in `far`. */
#include <stdlib.h>

#include "near.h"
#include "need.h"
#include "tasks.h"

#define SAMPLE_MAX 255u
#define SAMPLE_PROBES_MAX (EVICT_PER_STEP_MAX / 2)
/* Minimum number of near tasks for eviction from a line. It is small, because memory may be full of very many lines. A
 * halved line does not load again while memory is short, so loading and eviction do not alternate. */
#define EVICT_LINE_MIN 8u
/* Maximum number of lines of the largest size class to compare; their sizes differ by less than a factor of two. */
#define COMPARED_MAX 64u

bool near_is_short(const struct core *core) {
    size_t near_max = core->options.near_max;
    uint32_t short_below = need_pages_kept_free(core) + need_pages(core) / 8;
    return need_pages_free(core) < short_below || (near_max && core->near_count > near_max / 2);
}

static bool memory_is_scarce(const struct core *core) {
    size_t near_max = core->options.near_max;
    return need_pages_free(core) < need_pages_kept_free(core) || (near_max && core->near_count > near_max);
}

/* ---- where to halve a line */

static int compare_due(const void *a, const void *b) {
    const struct due *x = a;
    const struct due *y = b;
    return due_before(*y, *x) - due_before(*x, *y);
}

/* Returns the next number of a random generator (xorshift64*, Vigna 2016). */
static uint64_t next_random(struct core *core) {
    uint64_t x = core->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    core->random = x;
    return x * 0x2545F4914F6CDD1Dull;
}

/* Takes every nth task of a small line as the sample. */
static size_t sample_list(struct core *core, const struct line_state *line, struct due *sample) {
    size_t count = 0;
    uint64_t every = line->near_count / SAMPLE_MAX + 1, at = 0;
    const struct task *task = NULL;
    TAILQ_FOREACH(task, &line->near, member) {
        core->visits++;
        if (at++ % every == 0 && count < SAMPLE_MAX) sample[count++] = row_due(&task->row);
    }
    return count;
}

/* Takes the tasks of a large line at random slots of the id table as the sample. */
static size_t sample_table(struct core *core, const struct line_state *line, struct due *sample) {
    size_t count = 0;
    for (uint32_t probe = 0; probe < SAMPLE_PROBES_MAX && count < SAMPLE_MAX; probe++) {
        core->visits++;
        for (struct task *task = core->by_id[next_random(core) & core->table_mask]; task; task = task->by_id_next) {
            bool is_near = task->place == PLACE_PENDING || task->place == PLACE_READY || task->place == PLACE_PARKED ||
                           task->place == PLACE_EARLY;
            if (is_near && line_of(core, &task->row) == line && count < SAMPLE_MAX)
                sample[count++] = row_due(&task->row);
        }
    }
    return count;
}

/* Returns the new horizon: about the median of a sample of the line's tasks in memory. The first task of the sample is
 * kept, and the last is removed: a line without any task in memory would be loaded at once and evicted again. */
static struct due halfway(struct core *core, const struct line_state *line) {
    struct due sample[SAMPLE_MAX];
    bool is_small = line->near_count <= SAMPLE_PROBES_MAX;
    size_t count = is_small ? sample_list(core, line, sample) : sample_table(core, line, sample);
    if (!count) return row_due(&TAILQ_FIRST(&line->near)->row);
    qsort(sample, count, sizeof *sample, compare_due);
    /* The middle is rounded down, so that the first of two tasks stays in memory. */
    if (due_before(sample[0], sample[count - 1])) return sample[(count - 1) / 2];
    return (struct due){.due_ms = sample[0].due_ms, .id = sample[0].id - 1};
}

static struct line_state *big_line(struct core *core) {
    if (!core->sizes) return NULL;
    struct line_state *best = NULL, *line = NULL;
    uint32_t left = COMPARED_MAX;
    TAILQ_FOREACH(line, &core->by_size[64 - __builtin_clzll(core->sizes)], size) {
        core->visits++;
        if (!best || line->near_count > best->near_count) best = line;
        if (--left == 0) break;
    }
    return best;
}

/* Chooses a line to evict from. Returns false if no line is large enough: the other tasks in memory are in the overlay,
 * which the index will absorb. */
static bool begin_eviction(struct core *core) {
    struct line_state *line = big_line(core);
    size_t least = window_count_max(core) < EVICT_LINE_MIN ? window_count_max(core) : EVICT_LINE_MIN;
    if (!line || line->near_count <= least) return false;
    struct due half = halfway(core, line);
    if (due_before(half, line->horizon)) line->horizon = half;
    line->evict_cursor = TAILQ_FIRST(&line->near);
    core->evicting = line;
    return true;
}

static void evict_next(struct core *core, struct line_state *line) {
    struct task *task = line->evict_cursor;
    core->visits++;
    if (!task) {
        core->evicting = NULL;
        near_check_later(core, line);
        return;
    }
    struct task *next = line->evict_cursor = TAILQ_NEXT(task, member);
    if (next && TAILQ_NEXT(next, member)) task_prefetch(TAILQ_NEXT(next, member));
    if (!due_before(line->horizon, row_due(&task->row))) return;
    near_unplace(core, task);
    if (task->dirty) {
        /* The place becomes PLACE_FAR; the task is removed when the index has absorbed it. */
        near_place_waiting(core, task);
    } else {
        task_free(core, task);
    }
}

void near_relieve(struct core *core) {
    uint64_t until = core->visits + per_step(core, EVICT_PER_STEP_MAX);
    core->is_scarce = true;
    while (core->visits < until) {
        bool is_on = core->evicting || (memory_is_scarce(core) && begin_eviction(core));
        core->is_scarce = is_on;
        if (!is_on) return;
        /* Taking the sample above also counts towards the visits of this step. If no visits are left, the next step
         * begins the removal. */
        if (core->visits < until) evict_next(core, core->evicting);
    }
}

bool near_is_relieving(const struct core *core) {
    return core->is_scarce;
}
