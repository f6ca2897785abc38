/* need.h: upper bounds of the memory that each event needs, checked before the event changes anything (CAP-1, CALM-1).
 *
 * There are three memories. The region (slab.h) has a fixed size and holds tasks. The facts are rows that the shell
 * reads for a request. The arena holds the effects.
 *
 *   event               objects of the region at most         checked before by        if there is no room
 *   ------------------  ------------------------------------  -----------------------  ---------------------------
 *   COMMIT              one per schedule, per nack with a     commit.c:lacks_memory    BUSY, nothing is recorded;
 *                       sentence, per named dead letter and                            TOO_LARGE if it never fits
 *                       per live row in the facts                                      (need_may_fit)
 *   GET                 one per live row in the facts         query.c:query_get        BUSY
 *   PAGE                one per row                           job_run.c:job_page       the job asks again later
 *   WINDOW              one per row                           window.c:near_loaded     the window ends before the row
 *   a frame (replay)    one per task that is not in memory,   core.c:core_replay       CORE_NO_MEMORY, nothing applied
 *                       one per sentence
 *   a restored lease    one                                   core_restore_lease       CORE_NO_MEMORY
 *   COMMIT, besides     RECUR_SET_OBJECTS_MAX, or              commit.c:need_recur      as above
 *   for a recurrence    RECUR_DO_OBJECTS_MAX per operation
 *   an occurrence due   one per task that it makes or ends     recur_decide.c:fits      again after RECUR_RETRY_MS
 *   timers, deliveries  none                                   -                        -
 *   all other events    none                                   -                        -
 *
 * A live row in the facts is a task that only the index holds. Any change of the task needs one object: the task or its
 * tombstone, which has the same size. A dead letter in the facts needs an object only if an operation names it. A task
 * that is already in memory needs no further object when it changes, is leased, returns, dies or ends. A task with a
 * serial name counts twice, because its name may need an object (serial.h). Reasons given by the broker are static
 * strings (tasks.h). So expired timers and lost consumers need no memory. core_step asserts that the table holds
 * (need_allows).
 *
 * Memory becomes free when tasks are evicted (evict.c), and when the index absorbs changed tasks. Leased tasks cannot
 * leave memory, so they may use at most half of the region (LEASES_SHARE). New tasks may not use the last RESERVE_PAGES
 * pages, which are reserved for acks, nacks and releases.
 *
 * Facts: at most FACTS_SIZE_MAX bytes per request; a larger request gets TOO_LARGE. All requests and list pages
 * together may use a share of --memory; above it, requests get BUSY (shell/threads/reader.h). At most JOB_PAGES_MAX
 * pages of jobs are read at once.
 *
 * Effects of one step: at most STEP_EFFECTS_MAX bytes. The limits of requests (tarry_limits.h) and the facts bound an
 * event. TIMERS_PER_STEP_MAX, DELIVERED_PER_STEP_MAX and the maximum credit of a session (PREFETCH_MAX) bound timers
 * and deliveries. */
#ifndef TARRY_CORE_NEED_H
#define TARRY_CORE_NEED_H

#include "state.h"

struct need { /* must be zero-initialised; zero means that no memory is needed */
    struct slab_need objects;
    uint32_t count;
};

/* Adds a task or a tombstone with a key of this size, and its serial name. */
void need_task(struct need *need, size_t key_size, size_t serial_size);
/* Adds tasks that only the index holds, all of which change. */
void need_rows(struct need *need, const struct row *rows, size_t count);
/* Adds the live tasks among the facts. Each may have expired, and then changes even if no operation names it. A dead
 * letter changes only by an operation (need_dead). */
void need_facts(struct need *need, const struct core_facts *facts);
/* Adds the dead letter that the operation requeues or drops. */
void need_dead(struct need *need, const Tarry__DeadOp *dead);
/* Adds the shares of a fan-out. Returns their maximum number. */
size_t need_shares(struct need *need, const struct core *core, const Tarry__FanOut *fan_out);
/* Returns the maximum number of shares that the commit creates. In a commit, fan-outs can only be the first operations
 * (request.c). */
size_t need_shares_max(const Tarry__Commit *commit);
/* Adds the objects that a new or changed recurrence needs. */
void need_recur_set(struct need *need, const Tarry__RecurSet *set);
/* Adds the object for a reason that a client gives. */
void need_sentence(struct need *need);

enum need_room { ROOM_BUT_RESERVE, ROOM_ALL };
bool need_fits(const struct core *core, const struct need *need, enum need_room room);
/* Returns true if the row's task and its serial name fit without the reserve. */
bool need_task_fits(const struct core *core, const struct row *row);
/* Returns true if eviction and the index will eventually free enough memory, whatever is stored. */
bool need_may_fit(const struct core *core, const struct need *need);
/* Returns true if the event may use this number of objects (see the table at the top of this file). */
bool need_allows(const struct core_event *event, uint64_t objects);
/* Returns the maximum number of tasks, queues and table entries that are visited while a commit is decided. It does not
 * depend on the number of stored tasks (CALM-1): a look-up visits one slot per table, and the salt keeps slots short
 * (slots.h). */
uint64_t need_visits_max(const struct core_event *event);
/* Returns true if memory has space for all records of the frame. */
bool need_frame_fits(const struct core *core, const Tarry__FrameBody *body);

/* Returns the number of pages in the region. */
uint32_t need_pages(const struct core *core);
uint32_t need_pages_free(const struct core *core);
/* Returns the number of pages that `count` tasks need, whatever the size of their keys. */
uint32_t need_pages_of(size_t count);
/* Returns the number of free pages below which tasks are evicted. Eviction starts before the largest commit would be
 * refused (lacks_capacity). Otherwise that commit would be refused again and again: without consumers, only eviction
 * frees memory (F-39). In a very small region the number is smaller. */
uint32_t need_pages_kept_free(const struct core *core);
/* Returns how many bytes of tasks may still be leased. */
size_t need_lease_room(const struct core *core);

#endif
