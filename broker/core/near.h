/* near.h: which tasks are in memory: places, horizons, loads, trimming and eviction (DESIGN.md, Near and far).
 *
 * Invariant of a line: every waiting task with (due, id) up to `horizon` is in memory. Beyond it there are in memory
 * only dirty tasks (PLACE_FAR), and what eviction has not swept yet. */
#ifndef TARRY_CORE_NEAR_H
#define TARRY_CORE_NEAR_H

#include "state.h"

#define AHEAD_LEAST_MS 1u /* a task that is due sooner than that is leased when it is due */

struct line_state *line_of(struct core *core, const struct row *row);
/* Waiting tasks of the line that only the index holds. */
uint64_t line_index_only(const struct core *core, const struct line_state *line);
void line_init(struct line_state *line, uint32_t queue, uint8_t base, uint8_t priority);
/* Takes the line of a deleted queue out of every list: another queue takes the place. */
void line_leave(struct core *core, struct line_state *line);

/* Takes the task out of whatever holds it; place NONE. Stays in the overlay. */
void near_unplace(struct core *core, struct task *task);
/* Puts the task where its row belongs. A leased one is put in its session's list by the caller (leases.h). */
void near_place_waiting(struct core *core, struct task *task);
/* Marks it as changed at `position`: to the end of the overlay. */
void near_touch(struct core *core, struct task *task, uint64_t position);
/* The task's timer has come: pending → ready. */
void near_due(struct core *core, struct task *task);
/* The timer of what is pending comes next at `at_ms`, ahead of time (ahead.h), or when the task is due. */
void near_soon(struct core *core, struct task *task, uint64_t at_ms);
/* How often the queue's time ahead (ahead.h) is halved now: time alone undoes it. */
uint8_t near_halvings(const struct core *core, const struct queue *queue);
/* When the waiting task is to be looked at: when it is due, or ahead of time if it may be leased then. */
uint64_t near_look_ms(const struct core *core, const struct row *row);
/* Is there a ready task that must leave before this one, which was leased ahead of time, or may there be? */
bool near_has_before(struct core *core, const struct row *row);
/* Ready tasks of the queue that are in memory. */
uint64_t near_ready_count(const struct queue *queue);

/* A queue is served while something is ready, a consumer is willing and it is not paused; call after any of these
 * changed. */
void near_update_serving(struct core *core, struct queue *queue);

/* The first of the line that is in memory and ready, by (due, id); NULL: none is. */
struct task *near_first_ready(const struct line_state *line);
/* The next ready task of the queue, by priority, due, id; NULL when none is both ready and known to be the next (the
 * window behind it may have to be loaded first). */
struct task *near_next_ready(struct core *core, struct queue *queue);

/* What comes next of its line, into the cache. */
void near_prefetch_behind(const struct task *task);

/* CORE_INDEXED: what is absorbed may go. Bounded per call; near_is_trimming says that there is more. */
void near_trim(struct core *core);
bool near_is_trimming(const struct core *core);
uint64_t near_trim_limit(const struct core *core);

/* The line's window or low mark may have to move: looked at by near_check_lines at the end of a step. */
void near_check_later(struct core *core, struct line_state *line);
/* So may those of all lines that the index holds something of. */
void near_check_all(struct core *core);
/* Asks for the windows that are due, arms timers for those that will be, and advises the index of what has passed.
 * Bounded per call. */
void near_check_lines(struct core *core, struct core_effects *effects);
bool near_is_checking(const struct core *core);
void near_loaded(struct core *core, const struct core_event *event);
/* Places the far tasks that a load has brought within a horizon: bounded per call. */
void near_promote(struct core *core);
bool near_is_promoting(const struct core *core);
/* Frees memory when it is short: bounded per call. */
void near_relieve(struct core *core);
bool near_is_relieving(const struct core *core);
/* There is little room, though none need be freed yet. */
bool near_is_short(const struct core *core);
/* Tasks that one load may bring. */
uint64_t window_count_max(const struct core *core);

#endif
