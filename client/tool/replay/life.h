/* life.h: the recorded lives of tasks, in the form that a dry run needs: how long each task waited and when, which
 * consumer took it, and how that delivery ended.
 *
 * A life alternates between phases and turns, and ends with an outcome. In a phase the task waits; a new phase begins
 * with every record that leaves the task waiting (scheduled, moved, retried, …). In a turn the task is leased. A lease
 * whose delivery never left is ignored. Everything is kept for the whole run: about 200 bytes a task and 200 a
 * delivery. */
#ifndef TARRY_TOOL_LIFE_H
#define TARRY_TOOL_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "entry.h"
#include "frame.h"
#include "plan.h"
#include "tables.h"

/* ---- log times, and how deliveries ended */

struct logical_time { /* logical time of the broker (struct instant in core.h) */
    uint64_t steady_ns;
    uint64_t wall_ns;
};

static inline struct logical_time moment_of(const struct frame_header *header) {
    return (struct logical_time){header->steady_ns, header->wall_ns};
}

enum verdict {
    /* The log does not say how the delivery ended: it was in progress at the log's end, or a client that did not hold
       the lease ended the task. */
    VERDICT_NONE,
    VERDICT_ACK,
    VERDICT_NACK,         /* nack: the task was ready again after the queue's backoff */
    VERDICT_NACK_DELAYED, /* nack with a delay of its own */
    VERDICT_BURY,
    VERDICT_RELEASE,
    VERDICT_RUNS_OUT, /* the consumer did not answer before the lease ended */
    VERDICT_LOST,     /* the consumer disconnected */
    VERDICT_COMMIT,   /* settled in an atomic commit with other operations */
};

/* ---- the requests of one recorded commit that took effect; the dry run sends them to its core */

struct life;
struct turn;

enum ask_kind {
    ASK_SCHEDULE,
    ASK_MOVE,
    ASK_CANCEL,
    ASK_REQUEUE,
    ASK_DROP,
    ASK_QUEUE, /* sets the queue's policy, and pauses or resumes the queue if the record did so */
    ASK_JOB,
    ASK_SETTLE, /* repeats the recorded settlement of a delivery */
    ASK_TOUCH,  /* a request that the log does not have: makes the core check whether the task has expired */
};

struct ask {
    enum ask_kind kind;
    struct life *life; /* task of the request; NULL for ASK_QUEUE and ASK_JOB */
    struct plan *plan;
    struct turn *turn; /* SETTLE */
    enum verdict verdict;
    bool absolute;
    /* Due time: a delay, or with `absolute` a time; ASK_QUEUE: duration of the pause, 0: until resumed. */
    uint64_t ms;
    uint32_t priority;
    uint64_t expires_ms;
    bool replaces;
    bool withdraw;
    Tarry__Policy policy; /* ASK_QUEUE: the recorded policy */
    bool pauses, paused;
    Tarry__JobPut__What what;
    uint32_t states;
};

struct asked {
    struct logical_time at;
    uint64_t position;
    bool atomic;
    bool settles; /* true: the commit contains an ASK_SETTLE */
    struct ask *items;
    size_t count, capacity;
};

struct asked *asked_new(const struct entry *entry);
void asked_free(struct asked *asked); /* `asked` may be NULL */
/* Adds the request that led to a record, if a client made one. `life`: the record's task; NULL: no known task. Does not
 * add acks, nacks and other settlements, which the caller adds. */
void asked_take(struct asked *asked, const struct entry *entry, struct plan *plan, struct life *life);

/* ---- lives */

struct extension {
    uint64_t after_ns; /* time from the lease to the extension (steady) */
    uint64_t lease_ms;
    struct extension *next;
};

struct asked;
struct turn {
    struct logical_time leased;
    uint64_t position;    /* log position of the lease's frame; orders leases of the same time */
    uint64_t deadline_ms; /* deadline that the lease had at its beginning */
    uint64_t lease_ms;    /* lease duration that the consumer asked for; 0: the queue's own */
    enum verdict verdict;
    uint64_t settled_ns; /* steady */
    uint64_t settled_position;
    uint64_t delay_ms; /* NACK_DELAYED */
    char *reason;      /* reason of the nack, owned; NULL: none */
    struct extension *extensions;
    /* For VERDICT_COMMIT: the commit that settled the task, owned by the turn of its first settlement; NULL for that
     * commit's other settlements. */
    struct asked *commit;
    bool is_ahead; /* true: the lease was recorded before the due time and is not settled, so it is in the list
                      plan->ahead */
    LIST_ENTRY(turn) ahead;
};

struct phase {
    uint64_t due_ms;
    uint8_t base; /* enum row_base */
    struct logical_time since;
    /* Earliest possible start of the phase (steady): the end of the previous lease if there was one, otherwise the time
     * of `since`. */
    uint64_t earliest_ns;
    struct turn *turn;  /* the delivery that ended the phase; NULL: not delivered */
    uint64_t unsent_ns; /* a lease of this phase was withdrawn before its delivery left: time at which it should have
                           left (steady); 0: no such lease */
    struct phase *next;
};

enum outcome_kind { LIVE, ACKED, CANCELLED, EXPIRED, DROPPED, DEAD, OUTCOME_KINDS };

struct twin;
struct life {
    uint64_t id;
    struct plan *plan;
    char *key; /* key of the task, owned; NULL: none */
    uint8_t key_size;
    char *serial; /* serial name; owned; NULL: none */
    uint8_t serial_size;
    struct {
        uint32_t max_attempts, backoff_ms, lease_ms;
    } own; /* settings of this task that replace those of its queue's policy (OWN-1); 0: the queue's */
    struct phase *first, *last;
    uint32_t deliveries;
    enum outcome_kind outcome;
    struct logical_time expired; /* for an expired task: time at which the broker noticed it */
    uint64_t expired_position;
    struct twin *twin; /* the task in the dry run (stage.h); NULL: it was not scheduled there */
};

struct lives {
    struct plans *plans;
    struct id_map by_id;
    struct life **items; /* all recorded lives of tasks, in the order in which the tasks were scheduled */
    size_t count, capacity;
    uint64_t before;     /* number of records about tasks that were scheduled before the first record that is read */
    struct asked *frame; /* requests of the frame that is being read; owned */
    struct turn *bound;  /* first delivery that the frame `frame` settles */
    uint64_t position;   /* position of the frame that is being read */
    struct logical_time first, last; /* frames */
};

/* Adds the time for which the task was ready before it was leased. */
void lateness_add(struct lateness *late, const struct phase *phase, const struct logical_time *leased);

const char *outcome_kind_name(enum outcome_kind outcome);
/* Sets *out to the outcome of a task after a record of this kind; unchanged if the record does not change the
 * outcome. */
void outcome_after(enum entry_kind kind, enum outcome_kind *out);

/* Adds the next record. Returns 0. */
int lives_take(void *lives, const struct entry *entry);
void lives_end(struct lives *lives); /* must be called after the last record */
struct life *lives_find(const struct lives *lives, uint64_t id);
void lives_deinit(struct lives *lives);

#endif
