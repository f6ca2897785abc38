/* need.h: what each event may need of the core's memory, bounded before it begins (CAP-1, CALM-1).
 *
 * Three memories: the region of a fixed size (slab.h), which holds tasks; the facts, which the shell reads for a
 * request; and the arena of the effects.
 *
 *   event               objects of the region at most         asked before it begins   without room
 *   ------------------  ------------------------------------  ----------------------- ---------------------------------
 *   COMMIT              one for each schedule, each nack with  commit.c:lacks_memory    BUSY, and nothing is recorded;
 *                       a sentence, each dead letter that is                            TOO_LARGE if so much room never
 *                       named, each live row in the facts                               comes (need_may_fit)
 *   GET                 one for each live row in the facts     query.c:query_get        BUSY
 *   PAGE                one for each row                       job_run.c:job_page       the page is asked for again
 *   WINDOW              one for each row                       window.c:near_loaded     the window ends before that row
 *   a frame (replay)    one for each task that is not in       core.c:core_replay       CORE_NO_MEMORY, nothing applied
 *                       memory, one for each sentence
 *   a restored lease    one                                    core_restore_lease       CORE_NO_MEMORY
 *   timers, deliveries  none                                   -                        -
 *   all other events    none                                   -                        -
 *
 * A live row in the facts stands for a task that only the index holds; whatever the event does to it, it needs one
 * object: the task, or its tombstone, which is as large. A dead letter in the facts needs one only if an operation
 * names it. A task in memory changes, is leased, given back, buried and ends where it is; the sentences that the broker
 * itself gives as a reason take no memory (tasks.h). So whatever time and lost consumers bring about needs nothing.
 * core_step asserts the table (need_objects_max).
 *
 * What makes room: near tasks are evicted, the overlay shrinks as the index absorbs it; leases can do neither, so they
 * take at most half of the region (LEASES_SHARE). RESERVE_PAGES are kept from whatever is new, for what settles.
 *
 * Facts: for one request FACTS_SIZE_MAX bytes at most, or it is refused as TOO_LARGE; for all requests under way, and
 * pages of lists with them, a share of --memory, or calls are refused as BUSY (shell/threads/reader.h). Pages of jobs
 * are JOB_PAGES_MAX at most.
 *
 * Effects of one step: STEP_EFFECTS_MAX at most. An event is bounded by the limits of requests (tarry_limits.h) and by
 * the facts; timers and deliveries by TIMERS_PER_STEP_MAX and DELIVERED_PER_STEP_MAX, and what a single session may
 * hold (PREFETCH_MAX).
 */
#ifndef TARRY_CORE_NEED_H
#define TARRY_CORE_NEED_H

#include "state.h"

struct need { /* zeroed: nothing */
    struct slab_need objects;
    uint32_t count;
};

/* A task, or a tombstone, with a key of this size. */
void need_task(struct need *need, size_t key_size);
/* Tasks that only the index holds, and all of which change. */
void need_rows(struct need *need, const struct row *rows, size_t count);
/* Tasks among the facts that may change although no operation changes them: live ones, which may be found to be
 * expired. A dead letter changes by an operation of its own (need_dead). */
void need_facts(struct need *need, const struct core_facts *facts);
/* The dead letter that the operation requeues or drops. */
void need_dead(struct need *need, const Tarry__DeadOp *dead);
/* A client's reason. */
void need_sentence(struct need *need);

enum need_room { ROOM_BUT_RESERVE, ROOM_ALL };
bool need_fits(const struct core *core, const struct need *need, enum need_room room);
/* The same for one task, but the reserve is kept from it. */
bool need_task_fits(const struct core *core, size_t key_size);
/* Eviction and the index make so much room sooner or later, whatever is stored. */
bool need_may_fit(const struct core *core, const struct need *need);
/* The table above: objects that the event may take at most. */
size_t need_objects_max(const struct core_event *event);
/* Tasks, queues, entries of tables and the like that deciding a commit looks at, at most: a look-up goes through one
 * slot of some tables, and the salt keeps slots short (slots.h). It does not grow with what is stored (CALM-1). */
uint64_t need_visits_max(const struct core_event *event);
/* Does what the frame says fit? */
bool need_frame_fits(const struct core *core, const Tarry__FrameBody *body);

/* Pages of the region. */
uint32_t need_pages(const struct core *core);
uint32_t need_pages_free(const struct core *core);
/* Pages that hold `count` tasks, whatever their keys. */
uint32_t need_pages_of(size_t count);
/* With fewer free pages tasks are evicted: at the latest when the largest commit would be refused for want of them
 * (lacks_capacity), or it would be refused for ever, for nothing else makes room where no consumer takes tasks (F-39).
 * A region so small that this is most of it does what it can. */
uint32_t need_pages_kept_free(const struct core *core);
/* May so many more bytes of tasks be leased? */
size_t need_lease_room(const struct core *core);

#endif
