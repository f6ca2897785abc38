/* recur.h: recurrences. A recurrence creates a task again and again by a cron expression, an interval or an RRULE
 * (docs/RECURRING.md).
 *
 *   set ──► next occurrence: an ordinary waiting task ──► it falls due ──► one frame: this one is settled, and the next
 *           occurrence's task is created ──► …
 *
 * A recurrence has one timer, at its next occurrence's due time. The frame of that moment advances the recurrence from
 * one occurrence to the next. No occurrence is lost, even by a crash or a failover, because the recurrence waits for
 * the same occurrence until the frame is in the log. No occurrence comes twice, because the same frame replaces the
 * state that named the occurrence.
 *
 * The calendar (broker/recur) is computed when a frame is decided. The frame carries the chosen times, so apply, a
 * follower and a replay compute none.
 *
 * Only recur_apply, recur_restore, recur_note_put and recur_note_end change the table of recurrences (LOG-2). */
#ifndef TARRY_CORE_RECUR_H
#define TARRY_CORE_RECUR_H

#include "draft.h"
#include "rule.h"

#define RECUR_OPEN_MAX 4u      /* maximum number of unfinished earlier occurrences that are remembered for overlap */
#define RECUR_CHUNK_DATA 1000u /* maximum size in bytes of one chunk of the packed RecurSet */
#define RECUR_FIRED_PER_STEP_MAX 256u
#define RECUR_MADE_PER_STEP_MAX 512u /* tasks */
#define RECUR_RETRY_MS 200u          /* pause before another try if memory, index or disk had no room */
#define RECUR_TZDATA_SIZE_MAX 15u
#define RECUR_DEFAULTS_SIZE_MAX                                                                                        \
    64u /* maximum number of bytes that recur_decide.c:complete adds to a client's recurrence, for defaults */
/* Objects of the region that an operation may need: the recurrence, its chunks, a task and a tombstone. */
#define RECUR_SET_SIZE_MAX (RECUR_CONTENT_SIZE_MAX + 2048u)
#define RECUR_SET_OBJECTS_MAX (4u + RECUR_SET_SIZE_MAX / RECUR_CHUNK_DATA)
#define RECUR_DO_OBJECTS_MAX 2u

struct recur_chunk {
    struct recur_chunk *next;
    uint32_t size;
    uint8_t data[];
};

struct recur {
    /* Must be the first member, because code casts a popped wheel timer to struct recur. Armed at due_ms, or at once if
     * a queued occurrence may run. A follower arms it, too, but never pops it. */
    struct wheel_timer timer;
    uint64_t number;
    uint32_t queue;
    uint32_t slot; /* in core->recur_slots */
    struct recur *by_name_next;
    struct recur_chunk *set; /* the packed RecurSet */
    uint32_t set_size;
    uint8_t open_size; /* number of elements of `open` */
    /* Set of bits: bit i is 1 if the task `open[i]` is waiting or in flight, and 0 if the task is a dead letter that
     * was not requeued. */
    uint8_t open_live;
    bool paused;
    bool stuck;
    /* The recurrence has overlap=allow, so the tasks of earlier occurrences that have not ended are not remembered in
     * `open`. */
    bool is_allowed;
    bool is_live; /* the next occurrence's task has not ended */
    /* true: the next occurrence's task is waiting, and `row`, `row_time` and `row_hash` contain its present row. */
    bool has_row;
    uint64_t hash; /* hash of the recurrence's recorded state */
    uint64_t set_hash;
    uint64_t next_ms;
    uint64_t due_ms;
    uint64_t task;
    uint64_t last_ms;
    uint64_t occurrences;
    uint64_t missed;
    uint64_t skipped;
    uint64_t queued_ms;
    uint64_t open[RECUR_OPEN_MAX]; /* earlier occurrences that had not ended when the state was recorded */
    struct row row;                /* row of the next occurrence's task, without key and reason */
    char row_time[ZONE_TIME_SIZE]; /* the part of the row's key after the @. It is stored, because newer tzdata may give
                                      another text than when the task was created */
    uint64_t row_hash;
    char tzdata[RECUR_TZDATA_SIZE_MAX + 1];
    uint8_t name_size;
    char name[];
};

#define RECUR_TABLE_SIZE (2 * RECURRENCES_MAX)

#define RECUR_OBJECT_SIZE_MAX (sizeof(struct recur) + RECUR_NAME_SIZE_MAX)

/* Finds a recurrence; NULL: none. */
struct recur *recur_find(const struct core *core, uint32_t queue, const char *name, size_t name_size);
/* Returns the recurrence to which a task with this key belongs; NULL: none. */
struct recur *recur_of_key(const struct core *core, uint32_t queue, const char *key, size_t key_size);
/* Unpacks the recurrence's stored definition into the arena. */
const Tarry__RecurSet *recur_set_of(const struct recur *recur, struct arena *arena);
/* Makes the rule that computes the occurrences of the recurrence. */
bool recur_rule(const Tarry__RecurSet *set, struct rule *out, struct rule_problem *out_problem);
/* Returns the key of an occurrence, in the arena, for example recur:NAME@2026-11-28T09:00:00+08:00. If a client
 * triggered the occurrence, `task` is the id of its task, and the key ends with it (…#77), because several triggers may
 * happen in one second. Otherwise `task` is 0. */
struct task_key recur_key(uint32_t queue, const char *name, size_t name_size, const struct zone *zone, uint64_t at_ms,
                          uint64_t task, struct arena *arena);
/* Returns the key of the next occurrence's task, in the arena. Valid if recur->has_row. */
struct task_key recur_row_key(const struct recur *recur, struct arena *arena);
/* Returns whether the region has room for one more recurrence, besides tasks (CAP-1). */
bool recur_has_room(const struct core *core);

/* ---- apply */
int recur_apply(struct core *core, const Tarry__RecurPut *put);
/* Restores a recurrence at a start. `next` is the row of the next occurrence's task; NULL: the task has ended. Of the
 * tasks in put->state->open, the first `open_live` are waiting or in flight, and the others are dead. */
int recur_restore(struct core *core, const Tarry__RecurPut *put, const struct row *next, size_t open_live);
/* Note that a task of a queue with recurrences has changed or ended. */
void recur_note_put(struct core *core, const struct row *row, uint64_t hash);
void recur_note_end(struct core *core, const struct row *row);

/* ---- decide */
/* Handles occurrences that fall due. Returns true if more are due. */
bool recur_run(struct core *core, struct core_effects *effects);
void recur_check(const struct core *core);

#endif
