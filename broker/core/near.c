/* near.c: see near.h. Eviction is in evict.c, loading in window.c. */
#include "near.h"

#include <string.h>

#include "check.h"
#include "gate.h"
#include "overdue.h"
#include "query.h"
#include "tasks.h"

void line_init(struct line_state *line, uint32_t queue, uint8_t base, uint8_t priority) {
    memset(line, 0, sizeof *line);
    line->line = (struct line){.queue = queue, .base = base, .priority = priority};
    line->horizon = DUE_END;
    TAILQ_INIT(&line->near);
    TAILQ_INIT(&line->far);
    line->window_timer.kind = TIMER_WINDOW;
    line->early_timer.kind = TIMER_EARLY;
    line->far_soonest_ms = UINT64_MAX;
}

struct line_state *line_of(struct core *core, const struct row *row) {
    assert(queue_at(core, row->queue)->number == row->queue && row->priority < PRIORITY_COUNT && row->base < ROW_BASES);
    return &queue_at(core, row->queue)->lines[row->base][row->priority];
}

uint64_t line_index_only(const struct core *core, const struct line_state *line) {
    uint64_t all = core->tally.queues[queue_place(line->line.queue)].waiting[line->line.base][line->line.priority];
    assert(all >= line->near_count + line->far_count);
    return all - line->near_count - line->far_count;
}

static uint32_t ready_bit(const struct line_state *line) {
    return 1u << (line->line.base * PRIORITY_COUNT + line->line.priority);
}

static void push_serving(struct core *core, struct queue *queue) {
    ready_push(&core->serving, &queue->serving, queue->served, queue->number);
}

/* Returns the list to which the queue belongs: for movers or for sharers. A topic never has lease_before_due. */
static struct ready *moving_of(struct core *core, const struct queue *queue) {
    return queue->policy.lease_before_due ? &core->moving : &core->sharing;
}

static void push_moving(struct core *core, struct queue *queue) {
    ready_push(moving_of(core, queue), &queue->moving, ++core->turn, queue->number);
}

static void update_moving(struct core *core, struct queue *queue) {
    bool waits = queue->group_count ? queue->ready_mask || queue->early_mask
                                    : queue->policy.lease_before_due && queue->ready_mask;
    bool moves = waits && !queue->paused;
    if (moves == ready_has(&queue->moving)) return;
    if (moves) {
        push_moving(core, queue);
    } else {
        ready_remove(moving_of(core, queue), &queue->moving);
    }
}

void near_move_again(struct core *core, struct queue *queue) {
    ready_remove(moving_of(core, queue), &queue->moving);
    push_moving(core, queue);
}

void near_update_serving(struct core *core, struct queue *queue) {
    uint32_t for_consumers = queue->policy.lease_before_due ? queue->early_mask : queue->ready_mask;
    if (queue->group_count) for_consumers = 0;
    if (queue->policy.lease_before_due || queue->group_count || ready_has(&queue->moving)) update_moving(core, queue);
    bool serve = for_consumers && queue->willing_count && !queue->paused;
    if (gate_limits(queue)) {
        const bool is_open = serve && gate_is_open(core, queue);
        gate_wait(core, queue, serve && !is_open);
        serve = is_open;
    }
    if (serve == ready_has(&queue->serving)) return;
    if (serve) {
        push_serving(core, queue);
    } else {
        ready_remove(&core->serving, &queue->serving);
    }
}

void near_serve_again(struct core *core, struct queue *queue) {
    ready_remove(&core->serving, &queue->serving);
    push_serving(core, queue);
}

static void push_ready(struct core *core, struct line_state *line, struct task *task) {
    struct queue *queue = queue_at(core, line->line.queue);
    task->place = PLACE_READY;
    assert(!wheel_is_armed(&task->timer.wheel));
    task->ready = (struct ready_node){0}; /* clear the heap's node, which uses the memory of the timer */
    ready_push(&line->ready, &task->ready, task->row.due_ms, task->row.id);
    core->ready_anew = true;
    queue->ready_mask |= ready_bit(line);
    near_update_serving(core, queue);
}

static void park(struct line_state *line, struct task *task) {
    task->place = PLACE_PARKED;
    /* The heap's node and the timer share memory, so the timer's bytes are cleared. */
    task->ready = (struct ready_node){0};
    ready_push(&line->parked, &task->ready, task->row.due_ms, task->row.id);
}

static void arm_early_timer(struct core *core, struct line_state *line) {
    struct wheel *wheel = &core->wheels[line->line.base];
    const struct ready_node *first = ready_min(&line->early);
    wheel_cancel(wheel, &line->early_timer.wheel);
    if (first) wheel_arm(wheel, &line->early_timer.wheel, first->due_ms, 0);
}

static void push_early(struct core *core, struct line_state *line, struct task *task) {
    assert(!task->row.serial_size); /* SERIAL-1 */
    struct queue *queue = queue_at(core, line->line.queue);
    task->place = PLACE_EARLY;
    task->ready = (struct ready_node){0}; /* clear the heap's node, which uses the memory of the timer */
    ready_push(&line->early, &task->ready, task->row.due_ms, task->row.id);
    if (ready_min(&line->early) == &task->ready) arm_early_timer(core, line);
    core->ready_anew = true;
    queue->early_mask |= ready_bit(line);
    near_update_serving(core, queue);
}

/* Removes the task from the heap. Clears the members `timer` and `before` of the task, because they share memory with
 * the heap's node. */
static void leave_heap(struct ready *heap, struct task *task) {
    ready_remove(heap, &task->ready);
    task->timer = (struct timer){0};
    task->before = (struct holder){0};
}

static inline __attribute__((always_inline)) void leave_ready(struct core *core, struct line_state *line,
                                                              struct task *task) {
    struct queue *queue = queue_at(core, line->line.queue);
    leave_heap(&line->ready, task);
    if (line->ready.count) return;
    queue->ready_mask &= ~ready_bit(line);
    near_update_serving(core, queue);
}

/* Puts the first ready task of the serial name into the ready heap (offers it), if no task of the name is leased. If
 * another task was offered before, moves that task to the heap of parked tasks (SERIAL-1). */
static void offer_first(struct core *core, struct serial *serial) {
    struct task *before = serial->offered, *first = serial_first(serial);
    if (first == before) return;
    serial->offered = first;
    if (before) {
        struct line_state *line = line_of(core, &before->row);
        leave_ready(core, line, before);
        park(line, before);
    }
    if (!first) return;
    struct line_state *line = line_of(core, &first->row);
    leave_heap(&line->parked, first);
    push_ready(core, line, first);
}

static void enter_named(struct core *core, struct line_state *line, struct task *task) {
    park(line, task);
    serial_push(task);
    offer_first(core, serial_of(task));
}

/* Makes the task ready. */
static inline __attribute__((always_inline)) void enter_ready(struct core *core, struct line_state *line,
                                                              struct task *task) {
    if (task->row.serial_size)
        enter_named(core, line, task);
    else
        push_ready(core, line, task);
}

/* Removes a ready or parked task; then another task of its serial name may be offered. */
static void leave_named(struct core *core, struct line_state *line, struct task *task) {
    if (task->place == PLACE_PARKED)
        leave_heap(&line->parked, task);
    else
        leave_ready(core, line, task);
    serial_remove(task);
    offer_first(core, serial_of(task));
}

void near_hold(struct core *core, struct task *task) {
    struct serial *serial = serial_of(task);
    assert(serial_is_free(task)); /* SERIAL-1 */
    serial->holder = task;
    if (task->place == PLACE_LEASED) offer_first(core, serial);
}

void near_release(struct core *core, struct task *task) {
    assert(serial_of(task)->holder == task);
    serial_of(task)->holder = NULL;
    offer_first(core, serial_of(task));
}

/* Removes the task from the line's heap of early tasks. The timer may stay armed for an earlier time. */
static void leave_early(struct core *core, struct line_state *line, struct task *task) {
    struct queue *queue = queue_at(core, line->line.queue);
    leave_heap(&line->early, task);
    if (line->early.count) return;
    arm_early_timer(core, line);
    queue->early_mask &= ~ready_bit(line);
    near_update_serving(core, queue);
}

/* Sets the number of near tasks and moves the line to the list of its size class. So the largest line is found without
 * a search (CALM-1). */
static void set_near_count(struct core *core, struct line_state *line, uint64_t count) {
    core->near_count += count - line->near_count;
    line->near_count = count;
    uint8_t size_class = count ? (uint8_t)(64 - __builtin_clzll(count)) : 0;
    if (size_class == line->size_class) return;
    if (line->size_class) {
        struct line_list *list = &core->by_size[line->size_class];
        TAILQ_REMOVE(list, line, size);
        if (TAILQ_EMPTY(list)) core->sizes &= ~(1ull << (line->size_class - 1));
    }
    line->size_class = size_class;
    if (!size_class) return;
    TAILQ_INSERT_TAIL(&core->by_size[size_class], line, size);
    core->sizes |= 1ull << (size_class - 1);
}

static void leave_far(struct core *core, struct line_state *line, struct task *task) {
    if (line->promote_cursor == task) line->promote_cursor = TAILQ_NEXT(task, member);
    TAILQ_REMOVE(&line->far, task, member);
    if (--line->far_count > 0) return;
    line->far_soonest_ms = UINT64_MAX;
    if (line->ready.count + line->early.count > 0)
        core->ready_anew = true; /* CALM-1: the far task was perhaps all that could precede them (may_come_before) */
}

static void leave_line(struct core *core, struct task *task) {
    struct line_state *line = line_of(core, &task->row);
    if (task->place == PLACE_FAR) {
        leave_far(core, line, task);
        return;
    }
    near_check_later(core, line);
    if (line->evict_cursor == task) line->evict_cursor = TAILQ_NEXT(task, member);
    TAILQ_REMOVE(&line->near, task, member);
    set_near_count(core, line, line->near_count - 1);
    if (task->place == PLACE_PENDING)
        wheel_cancel(&core->wheels[task->row.base], &task->timer.wheel);
    else if (task->place == PLACE_EARLY)
        leave_early(core, line, task);
    else if (task->row.serial_size)
        leave_named(core, line, task);
    else
        leave_ready(core, line, task);
}

void near_unplace(struct core *core, struct task *task) {
    switch ((enum place)task->place) {
    case PLACE_FAR:
    case PLACE_PENDING:
    case PLACE_READY:
    case PLACE_PARKED:
    case PLACE_EARLY:
        leave_line(core, task);
        break;
    case PLACE_LEASED:
        assert(!"a leased task leaves through lease_drop");
        break;
    case PLACE_NONE:
    case PLACE_DEAD:
    case PLACE_ENDED:
        break;
    }
    task->place = PLACE_NONE;
}

/* Adds the task to the front of `far`, so that a promotion in progress need not check it. */
static void enter_far(struct line_state *line, struct task *task) {
    task->place = PLACE_FAR;
    TAILQ_INSERT_HEAD(&line->far, task, member);
    line->far_count++;
    if (task->row.due_ms < line->far_soonest_ms) line->far_soonest_ms = task->row.due_ms;
    if (task->row.due_ms < line->promote_soonest_ms) line->promote_soonest_ms = task->row.due_ms;
}

uint8_t near_halvings(const struct core *core, const struct queue *queue) {
    const struct pause *pause = &queue->ahead_pause;
    uint64_t now_ms = steady_ms(core);
    if (!queue->ahead_halvings || now_ms < pause->until_ms) return queue->ahead_halvings;
    uint64_t undone = 1 + (now_ms - pause->until_ms) / pause->length_ms;
    return undone < queue->ahead_halvings ? (uint8_t)(queue->ahead_halvings - undone) : 0;
}

bool near_may_be_ahead(const struct core *core, const struct row *row) {
    const struct queue *queue = queue_at(core, row->queue);
    return row->base == ROW_STEADY && !row->expires_ms && !row->serial_size && !queue->group_count &&
           !gate_limits(queue) && (!row->lease_ms || row->lease_ms >= AHEAD_LEASE_MIN_MS);
}

uint64_t near_look_ms(const struct core *core, const struct row *row) {
    uint64_t now_ms = steady_ms(core);
    if (row->due_ms <= now_ms + AHEAD_LEAST_MS || !near_may_be_ahead(core, row)) return row->due_ms;
    uint64_t ahead_ms = core->options.ahead_ms >> near_halvings(core, queue_at(core, row->queue));
    if (!ahead_ms) return row->due_ms;
    return row->due_ms > now_ms + ahead_ms ? row->due_ms - ahead_ms : now_ms;
}

/* Returns true if the sharer may get the task before it is due, so that its shares can be leased ahead of time. Returns
 * false for a task of a recurrence and for a queue with an overdue policy (OVERDUE-1). Reason: until the due time, an
 * outage may begin, and the broker may have to cancel, bury or move the task. */
static bool may_be_shared_early(const struct core *core, const struct row *row) {
    const struct queue *queue = queue_at(core, row->queue);
    return queue->group_count && !row->serial_size && !overdue_is_set(&queue->policy) &&
           !occurrence_name_size(row->key, row->key_size);
}

/* Returns the time at which to check the task of a topic: when the sharer may get it, or the due time. */
static uint64_t share_look_ms(const struct core *core, const struct row *row) {
    const uint64_t ahead_ms = SHARE_AHEAD_LEASES * core->options.ahead_ms;
    if (!may_be_shared_early(core, row)) return row->due_ms;
    return row->due_ms > ahead_ms ? row->due_ms - ahead_ms : 0;
}

bool near_share_soon(struct core *core, struct task *task) {
    assert(task->place == PLACE_PENDING);
    if (!may_be_shared_early(core, &task->row)) return false;
    push_early(core, line_of(core, &task->row), task);
    return true;
}

void near_place_waiting(struct core *core, struct task *task) {
    assert(task->place == PLACE_NONE && task->row.state == ROW_WAITING);
    struct line_state *line = line_of(core, &task->row);
    if (due_before(line->horizon, row_due(&task->row))) {
        enter_far(line, task);
        return;
    }
    TAILQ_INSERT_TAIL(&line->near, task, member);
    set_near_count(core, line, line->near_count + 1);
    uint64_t now_ms = base_ms(core, task->row.base);
    if (task->row.due_ms <= now_ms) { /* TIME-1: ready means due <= now, rounded down */
        enter_ready(core, line, task);
        return;
    }
    if (line->leases_early) {
        push_early(core, line, task);
        return;
    }
    task->place = PLACE_PENDING;
    if (queue_at(core, task->row.queue)->group_count) {
        const uint64_t at_ms = share_look_ms(core, &task->row);
        if (at_ms > now_ms)
            near_soon(core, task, at_ms);
        else
            (void)near_share_soon(core, task);
        return;
    }
    near_soon(core, task, near_look_ms(core, &task->row));
}

void near_due(struct core *core, struct task *task) {
    assert(task->place == PLACE_PENDING && task->row.due_ms <= base_ms(core, task->row.base)); /* TIME-1 */
    enter_ready(core, line_of(core, &task->row), task);
}

void near_soon(struct core *core, struct task *task, uint64_t at_ms) {
    assert(task->place == PLACE_PENDING && task->row.due_ms > base_ms(core, task->row.base));
    bool is_last = at_ms >= task->row.due_ms;
    task->timer.kind = is_last ? TIMER_DUE : TIMER_AHEAD;
    wheel_arm(&core->wheels[task->row.base], &task->timer.wheel, is_last ? task->row.due_ms : at_ms, task->row.id);
}

void near_touch(struct core *core, struct task *task, uint64_t position) {
    if (task->dirty) {
        if (core->scan_count) list_passes(core, task);
        TAILQ_REMOVE(&core->overlay, task, overlay);
    } else {
        core->overlay_count++;
    }
    assert(position >= task->changed);
    task->dirty = true;
    task->changed = position;
    TAILQ_INSERT_TAIL(&core->overlay, task, overlay);
    if (core->scan_count) list_saw(core, task);
}

static struct task *task_of_ready(const struct ready_node *node) {
    return (struct task *)((char *)node - offsetof(struct task, ready));
}

struct task *near_first_ready(const struct line_state *line) {
    struct ready_node *ready = ready_min(&line->ready), *parked = ready_min(&line->parked);
    if (!ready || !parked) return ready || parked ? task_of_ready(ready ? ready : parked) : NULL;
    struct task *first = task_of_ready(ready), *other = task_of_ready(parked);
    return due_before(row_due(&first->row), row_due(&other->row)) ? first : other;
}

void near_prefetch_behind(const struct task *task) {
    const struct ready_node *behind = ready_behind(&task->ready);
    if (behind) task_prefetch(task_of_ready(behind));
}

static inline uint64_t count_of(const struct queue *queue, uint32_t mask, bool early) {
    uint64_t count = 0;
    for (; mask; mask &= mask - 1) {
        uint32_t bit = (uint32_t)__builtin_ctz(mask);
        const struct line_state *line = &queue->lines[bit / PRIORITY_COUNT][bit % PRIORITY_COUNT];
        count += early ? line->early.count : line->ready.count;
    }
    return count;
}

uint64_t near_ready_count(const struct queue *queue) {
    return count_of(queue, queue->ready_mask, false);
}

uint64_t near_parked_count(const struct queue *queue) {
    uint64_t count = 0;
    for (size_t i = 0; i < ROW_BASES * PRIORITY_COUNT; i++)
        count += queue->lines[i / PRIORITY_COUNT][i % PRIORITY_COUNT].parked.count;
    return count;
}

uint64_t near_early_count(const struct queue *queue) {
    return count_of(queue, queue->early_mask, true);
}

uint32_t near_early_due(struct core *core, struct line_state *line, uint32_t tasks_max) {
    const uint64_t now_ms = base_ms(core, line->line.base);
    uint32_t done = 0;
    const struct ready_node *first = NULL;
    for (; (first = ready_min(&line->early)) && first->due_ms <= now_ms && done < tasks_max; done++) {
        struct task *task = task_of_ready((struct ready_node *)first);
        leave_early(core, line, task);
        push_ready(core, line, task);
    }
    arm_early_timer(core, line);
    return done;
}

/* Returns true if a waiting task that is not in the line's list `near` may precede `due`. Beyond the horizon, such a
 * task is only in the index, or an unfinished eviction has moved it to `far`. Within the horizon, near_promote has not
 * moved such a task from `far` to `near` yet. */
static inline __attribute__((always_inline)) bool may_come_before(const struct core *core,
                                                                  const struct line_state *line, struct due due) {
    bool is_far_sooner = line->far_soonest_ms <= due.due_ms;
    if (due_before(line->horizon, due) && (is_far_sooner || line_index_only(core, line))) return true;
    return line->settling && due_before(line->sure, due) && is_far_sooner;
}

/* Returns the earliest ready task of the line, if no other task may precede it. If `early` is true, returns the
 * earliest task that is not due instead. */
static inline struct task *line_next(struct core *core, struct line_state *line, bool early) {
    struct ready_node *first = ready_min(early ? &line->early : &line->ready);
    if (!first) return NULL;
    struct task *task = task_of_ready(first);
    /* The task is due, and its timer will make it ready. */
    if (early && first->due_ms <= base_ms(core, line->line.base)) return NULL;
    return may_come_before(core, line, row_due(&task->row)) ? NULL : task;
}

static inline struct task *next_of(struct core *core, struct queue *queue, uint32_t mask, bool early) {
    struct task *best = NULL;
    /* Set of bits: bit `priority` is 1 if the mask has a task of that priority, for the steady or for the wall
     * clock. */
    uint32_t either = mask | mask >> PRIORITY_COUNT;
    static_assert(ROW_BASES == 2, "`either` has two places");
    for (either &= (1u << PRIORITY_COUNT) - 1; either && !best;) {
        uint32_t priority = 31u - (uint32_t)__builtin_clz(either);
        either &= ~(1u << priority);
        for (uint32_t base = 0; base < ROW_BASES; base++) {
            if (!(mask & 1u << (base * PRIORITY_COUNT + priority))) continue;
            struct task *task = line_next(core, &queue->lines[base][priority], early);
            if (task && (!best || due_before(row_due(&task->row), row_due(&best->row)))) best = task;
        }
    }
    return best;
}

struct task *near_next_ready(struct core *core, struct queue *queue) {
    return next_of(core, queue, queue->ready_mask, false);
}

struct task *near_next_early(struct core *core, struct queue *queue) {
    return next_of(core, queue, queue->early_mask, true);
}

bool near_has_before(struct core *core, const struct row *row) {
    struct queue *queue = queue_at(core, row->queue);
    struct line_state *line = line_of(core, row);
    const struct due due = row_due(row);
    const struct task *best = queue->ready_mask ? near_next_ready(core, queue) : NULL;
    if (best && best->row.priority != row->priority) return best->row.priority > row->priority;
    if (best && due_before(row_due(&best->row), due)) return true;
    return may_come_before(core, line, due);
}

/* ---- trimming */

static void settle_far(struct core *core, struct task *task) {
    struct line_state *line = line_of(core, &task->row);
    near_unplace(core, task);
    if (!due_before(line->horizon, row_due(&task->row))) {
        assert(line->settling); /* near_promote is working on this line, and will move the task from `far` to `near` */
        near_place_waiting(core, task);
        return;
    }
    near_check_later(core, line); /* the task is evicted: from now on it is only in the index */
    task_free(core, task);
}

/* Removes a task from the overlay, because the index now has the same state. */
static void settle_clean(struct core *core, struct task *task) {
    if (core->scan_count) list_trims(core, task);
    TAILQ_REMOVE(&core->overlay, task, overlay);
    core->overlay_count--;
    task->dirty = false;
    switch ((enum place)task->place) {
    case PLACE_FAR:
        settle_far(core, task);
        break;
    case PLACE_DEAD:
    case PLACE_ENDED:
        near_unplace(core, task);
        task_free(core, task);
        break;
    case PLACE_PENDING:
    case PLACE_READY:
    case PLACE_PARKED:
    case PLACE_EARLY:
    case PLACE_LEASED:
        break; /* the task stays in memory, because it is within the horizon, or leased */
    case PLACE_NONE:
        assert(!"a task in the overlay has a place");
    }
}

/* Prefetches the table buckets of the next task, whose memory is in the CPU cache by now, and the memory of the task
 * after it. */
static void prefetch_next_two(const struct core *core, const struct task *first) {
    if (!first) return;
    task_prefetch_buckets(core, first);
    if (TAILQ_NEXT(first, overlay)) task_prefetch(TAILQ_NEXT(first, overlay));
}

void near_trim(struct core *core) {
    for (uint32_t n = 0; n < per_step(core, TRIM_PER_STEP_MAX); n++) {
        struct task *task = TAILQ_FIRST(&core->overlay);
        /* A task that was leased ahead of time stays in the overlay until it is due (ahead.h). Reason: it still counts
         * as waiting, but the index has it as leased. */
        if (!task || task->ahead || task->changed >= core->trim_to) break;
        prefetch_next_two(core, TAILQ_NEXT(task, overlay));
        settle_clean(core, task);
    }
}

bool near_is_trimming(const struct core *core) {
    const struct task *task = TAILQ_FIRST(&core->overlay);
    return task && !task->ahead && task->changed < core->trim_to;
}
