/* near.h: which tasks are in memory: places, horizons, loads, trimming and eviction (DESIGN.md, Near and far).
 *
 * A *line* is the set of a queue's waiting tasks with one time base and one priority. Invariant of a line: every
 * waiting task with (due, id) up to `horizon` is in memory. Two kinds of tasks beyond the horizon are in memory: tasks
 * that the index has not absorbed (PLACE_FAR), and tasks that eviction has not reached yet. */
#ifndef TARRY_CORE_NEAR_H
#define TARRY_CORE_NEAR_H

#include "state.h"

/* Minimum lead time of a lease ahead of time, in ms. A task that is due sooner is leased at its due time. */
#define AHEAD_LEAST_MS 1u

struct line_state *line_of(struct core *core, const struct row *row);
/* Returns the number of waiting tasks of the line that are only in the index. */
uint64_t line_index_only(const struct core *core, const struct line_state *line);
void line_init(struct line_state *line, uint32_t queue, uint8_t base, uint8_t priority);
/* Removes the line of a deleted queue from every list, because another queue takes the queue's place. */
void line_leave(struct core *core, struct line_state *line);

/* Removes the task from its list, heap or wheel and sets PLACE_NONE. The task stays in the overlay. */
void near_unplace(struct core *core, struct task *task);
/* Puts a waiting task into the list, heap or wheel to which its row belongs. The caller puts a leased task into its
 * session's list (leases.h). */
void near_place_waiting(struct core *core, struct task *task);
/* Marks the task as changed at `position` and moves it to the end of the overlay. */
void near_touch(struct core *core, struct task *task, uint64_t position);
/* Handles the expiry of the task's due timer: a pending task becomes ready. */
void near_due(struct core *core, struct task *task);
/* Sets the timer of a pending task to `at_ms`: the start of leasing ahead of time (ahead.h), or the due time. */
void near_soon(struct core *core, struct task *task, uint64_t at_ms);
/* Returns how many times the queue's lead time (how long before the due time its tasks are leased, ahead.h) is halved
 * now. Halvings are undone one by one as time passes. */
uint8_t near_halvings(const struct core *core, const struct queue *queue);
#define AHEAD_LEASE_MIN_MS 1000u /* no task with a shorter lease is leased ahead of time */
/* Returns true if tasks such as this one may be leased ahead of time: the steady clock decides when it is due, it does
 * not expire, it has neither a serial name nor a short lease of its own, and its queue has neither a limit (gate.h) nor
 * groups. */
bool near_may_be_ahead(const struct core *core, const struct row *row);
/* Returns when to check the waiting task: at its due time, or earlier if it may be leased ahead of time. */
uint64_t near_look_ms(const struct core *core, const struct row *row);
/* Lets the sharer get a topic's pending task before the due time. Returns false if the task must not be shared early.
 */
bool near_share_soon(struct core *core, struct task *task);
/* Notes that the task, which has a serial name, is leased, or will be in this draft. Until near_release no other task
 * of its name is offered (SERIAL-1). */
void near_hold(struct core *core, struct task *task);
/* Notes that the task's lease has ended: offers the next task of its serial name. */
void near_release(struct core *core, struct task *task);
/* Returns true if the core must deliver a ready task before this task, which was leased ahead of time, or cannot rule
 * that out. */
bool near_has_before(struct core *core, const struct row *row);
/* Number of ready tasks of the queue in memory that consumers may get, without the parked ones. */
uint64_t near_ready_count(const struct queue *queue);
/* Returns the number of the queue's tasks in memory that are not due and that consumers may get (lease_before_due). */
uint64_t near_early_count(const struct queue *queue);
/* Makes early tasks (PLACE_EARLY) of the line ready if they are due, at most `tasks_max`. Arms the line's timer for the
 * next early task. Returns the number of tasks made ready. */
uint32_t near_early_due(struct core *core, struct line_state *line, uint32_t tasks_max);

/* Updates whether the queue is served: it has a task for consumers, a consumer has credit, the queue is not paused, and
 * its limits permit a lease (gate.h). Also updates whether movers get tasks of it. Call it after any of these has
 * changed. */
void near_update_serving(struct core *core, struct queue *queue);
/* Moves a queue to its new place in core->serving after the value of queue->served has changed. */
void near_serve_again(struct core *core, struct queue *queue);
/* Moves a queue with tasks for a mover behind all other queues with such tasks. */
void near_move_again(struct core *core, struct queue *queue);

/* Number of ready tasks of the queue in memory that wait for their serial name. */
uint64_t near_parked_count(const struct queue *queue);
/* Returns the first ready task of the line in memory, by (due, id), parked or not; NULL: none. */
struct task *near_first_ready(const struct line_state *line);
/* Returns the next ready task of the queue, by priority, due time and id. Returns NULL if no task is ready, or if the
 * order is unknown until a window has been loaded. */
struct task *near_next_ready(struct core *core, struct queue *queue);
/* Like near_next_ready, for the next task that is not due, in a queue with lease_before_due. */
struct task *near_next_early(struct core *core, struct queue *queue);

/* Prefetches the tasks after this one in its line into the CPU cache. */
void near_prefetch_behind(const struct task *task);

/* Handles CORE_INDEXED: removes absorbed tasks from memory. The work per call is bounded; near_is_trimming returns true
 * while more are left. */
void near_trim(struct core *core);
bool near_is_trimming(const struct core *core);
uint64_t near_trim_limit(const struct core *core);

/* Queues the line for near_check_lines at the end of a step, because the line may need a load, or the index may need a
 * new hint (core_low). */
void near_check_later(struct core *core, struct line_state *line);
/* Puts those lines of the queue that have tasks in the index on the list for near_check_lines. */
void near_check_queue(struct core *core, struct queue *queue);
/* Puts all lines that have tasks in the index on the list for near_check_lines. */
void near_check_all(struct core *core);
/* Requests the loads that are due, arms timers for later loads, and sends hints (core_low) to the index. The work per
 * call is bounded. */
void near_check_lines(struct core *core, struct core_effects *effects);
bool near_is_checking(const struct core *core);
void near_loaded(struct core *core, const struct core_loaded *loaded);
/* Places the far tasks that a load has brought within a horizon. The work per call is bounded. */
void near_promote(struct core *core);
bool near_is_promoting(const struct core *core);
/* Frees memory when memory is short. The work per call is bounded. */
void near_relieve(struct core *core);
bool near_is_relieving(const struct core *core);
/* Returns true if little memory is left, even if near_relieve need not free any yet. */
bool near_is_short(const struct core *core);
/* Returns the maximum number of tasks per load. */
uint64_t window_count_max(const struct core *core);

#endif
