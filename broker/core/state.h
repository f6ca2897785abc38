/* state.h: the core's state in memory. Private to broker/core.
 *
 * A task has exactly one place, which its state decides:
 *
 *     WAITING  beyond the line's horizon ──► PLACE_FAR       only while the index has not absorbed it
 *              within it, not yet due    ──► PLACE_PENDING   armed on its base's wheel
 *              within it, due            ──► PLACE_READY     in its line's ready heap
 *              within it, due, and another
 *              task of its serial name is
 *              leased or comes first     ──► PLACE_PARKED    in its line's heap of parked tasks (serial.h)
 *              within it, not yet due, in a queue with
 *              lease_before_due, or due
 *              soon in one with groups   ──► PLACE_EARLY     in its line's heap of early tasks
 *     LEASED   ─────────────────────────────► PLACE_LEASED    in its session's list, deadline armed; leased ahead of
 *                                                             time: in session->ahead, due time armed (ahead.h)
 *     BURIED   ─────────────────────────────► PLACE_DEAD      only while dirty
 *     ended    ─────────────────────────────► PLACE_ENDED     a tombstone, only while dirty
 *
 * A task is dirty if it changed at a log position that the overlay has not been trimmed to yet. The overlay is the list
 * of dirty tasks in order of change; it overrides every row read from the index. A task that is not dirty, not within a
 * horizon and not leased is not in memory. */
#ifndef TARRY_CORE_STATE_H
#define TARRY_CORE_STATE_H

#include <assert.h>
#include <sys/queue.h>

#include "core.h"
#include "durations.h"
#include "histogram.h"
#include "outcomes.h"
#include "ready.h"
#include "slab.h"
#include "wheel.h"

#define CLOCK_LEAD_MS 15000ull  /* time before a line's horizon is reached, at which its next window is loaded */
#define WINDOW_TASKS_MAX 16384u /* maximum number of tasks requested in one load */
#define WINDOW_TASKS_MIN 64u
/* Limit of concurrent loads: the rows of all running loads together are at most those of this number of full loads
 * (CALM-1). */
#define WINDOWS_LOADING_MAX 4u
#define WINDOW_READY_LOW 4096u /* below this number of ready tasks, load more overdue tasks */
/* A topic's task may be shared at most SHARE_AHEAD_LEASES * `ahead_ms` before its due time. */
#define SHARE_AHEAD_LEASES 4u
/* A hint for the index (core_low) is sent when its due time has advanced by at least this time in ms. */
#define LOW_ADVICE_STEP_MS 2048ull
/* The limits from TIMERS_PER_STEP_MAX to STARVED_PER_STEP_MAX bound the work per step, so that no queue delays
 * another. */
#define TIMERS_PER_STEP_MAX 4096u
#define TRIM_PER_STEP_MAX 8192u
#define EVICT_PER_STEP_MAX 2048u
#define PROMOTE_PER_STEP_MAX 2048u
#define CHECK_PER_STEP_MAX 512u  /* lines */
#define STARVED_PER_STEP_MAX 64u /* maximum number of lines that waited for memory and are checked again */
/* Number of size classes of lines: class 0 has no near task, class n has 2^(n-1) or more near tasks, but fewer than
 * class n + 1. */
#define LINE_SIZES 65u
#define RECORDS_PER_FRAME_MAX 4096u
#define DELIVERIES_PER_STEP_MAX 64u
#define DELIVERED_PER_STEP_MAX                                                                                         \
    1024u /* once a step has leased or expired this many tasks in total, it starts no further delivery */
#define SETTLED_PER_STEP_MAX 4096u     /* maximum number of subscriptions visited because a session's credit changed */
#define STEP_EFFECTS_MAX (96ull << 20) /* maximum number of bytes that one step may add to the arena (need.h) */
#define JOB_PAGE_TASKS_MAX 2048u
#define JOB_PAGES_MAX 4u  /* maximum number of pages that are read at a time; one thread reads them (CALM-1) */
#define LIST_SCANS_MAX 8u /* maximum number of List scans at a time; others wait */
/* Maximum difference of two clocks in a List; the broker ignores a larger jump of the wall clock (LIMITS.md). */
#define LIST_CLOCKS_MAX_MS 3600000ull
#define LIST_PER_PIECE_MAX 4096u /* maximum number of tasks of the overlay in a piece */
#define STATS_PER_PIECE_MAX 256u /* maximum number of queues in a piece */
#define HOLDS_MAX 1024u
/* Number of slots: for live sessions, and for sessions from before a restart. */
#define SESSIONS_TABLE (2 * SESSIONS_MAX)
#define RESERVE_PAGES 32u /* pages of the region reserved for settling tasks: a commit full of nacks fits (need.h) */
#define PARKED_SHARE 4u   /* a line loads no more tasks while its parked tasks use 1/4 of the region (serial.h) */
#define LEASES_SHARE 2u   /* leases may use 1/2 of the region, because only acks free it (CAP-1) */

enum timer_kind {
    TIMER_DUE = 1,
    TIMER_AHEAD,  /* the task is due soon and may be leased ahead of time now */
    TIMER_DEPART, /* the task was leased ahead of time and is due now */
    TIMER_LEASE,
    TIMER_PAUSE,
    TIMER_SILENCE,
    TIMER_WINDOW,
    TIMER_CLAIM,
    TIMER_SESSION, /* the session must be visited again */
    TIMER_GATE,    /* the queue's rate permits another delivery */
    TIMER_EARLY,   /* the first early task of a line is due */
};

struct timer { /* `wheel` must be the first member: the code casts a popped wheel timer to struct timer */
    struct wheel_timer wheel;
    uint8_t kind; /* enum timer_kind */
};

enum place {
    PLACE_NONE,
    PLACE_FAR,
    PLACE_PENDING,
    PLACE_READY,
    PLACE_PARKED,
    PLACE_EARLY,
    PLACE_LEASED,
    PLACE_DEAD,
    PLACE_ENDED
};

struct session;

enum ahead {
    AHEAD_NOT,     /* the task was not leased ahead of time, or its delivery was sent */
    AHEAD_PENDING, /* the task is leased ahead of time and not due yet: in session->ahead */
    AHEAD_DUE,     /* the task is leased ahead of time and due: in session->due, for this step or until the session's
                      present delivery has ended */
};

struct holder { /* the session to which a task was delivered, and the time of the delivery; session 0: none */
    uint64_t session;
    uint64_t delivered_ms;
};

struct task {
    union { /* `place` decides which member is valid. In a place that no member names, no timer is armed, no heap
               contains the task, and `before` is not valid */
        struct {
            /* PENDING: armed for the due time, or for the start of leasing ahead of time. LEASED: armed for the lease's
             * deadline, or, if leased ahead of time, for the due time. */
            struct timer timer;
            struct holder before; /* LEASED: the previous holder, needed if this delivery is never sent (TRUE-1). Not
                                     valid after a restart, because the core does not know which deliveries were sent */
        };
        struct ready_node ready; /* node of a heap; used in the places READY, PARKED and EARLY */
    };
    TAILQ_ENTRY(task) overlay; /* entry in the overlay; valid if dirty */
    union {
        /* Entry in the list that `place` decides. FAR: `far` of the line. PENDING, READY, PARKED, EARLY: `near` of the
         * line. LEASED: `leases`, `ahead` or `due` of the session, depending on task.ahead. */
        TAILQ_ENTRY(task) member;
        struct task **dead_at; /* DEAD: address of the pointer in the key table that points to this task */
    };
    struct task *by_id_next;
    struct task *by_key_next; /* next task in the same bucket; buckets are sorted by task_comes_first */
    /* The task's key follows this struct in memory. The task's reason is a separate slab object. The task's serial name
     * is in a struct serial. */
    struct row row;
    uint64_t hash;     /* row_hash(row) */
    uint64_t key_hash; /* row_key_hash; not valid if the task has no key */
    uint64_t changed;  /* position of the frame that last changed the task */
    uint8_t place;     /* enum place */
    bool dirty;
    bool keyed;     /* the task is in the key table */
    bool resend;    /* the task is leased and its session has come back: deliver it again with the same token */
    uint8_t ahead;  /* enum ahead */
    bool seen;      /* the session's client has seen this task; valid while the session's leases are released */
    bool departing; /* leased ahead of time, and part of the delivery that is being sent */
    bool returned;  /* returned from a lease with its old due time; excluded from the lateness statistics */
    char key[];
};
TAILQ_HEAD(task_list, task);

struct pause { /* a time without leases ahead of time, after such a lease delayed another task. Each pause is twice as
                  long as the previous one */
    uint64_t until_ms;
    uint64_t length_ms; /* length of the last pause; 0: there was none yet */
};

struct line_state {
    struct line line;
    struct due horizon; /* every waiting task of the line up to this (due, id) is in memory */
    struct task_list near;
    struct task_list far;
    uint64_t near_count;
    uint64_t far_count;
    struct ready ready;
    struct ready parked; /* heap of ready tasks that wait for their serial name */
    bool leases_early;   /* copy of the queue's lease_before_due; saves 31 instructions per scheduled task */
    struct ready early;  /* heap of tasks that are not due yet, in a queue with lease_before_due; otherwise empty */
    struct timer early_timer;      /* timer for the first task of `early`; may be armed for an earlier time */
    struct timer window_timer;     /* time at which to check whether a load is due */
    struct task *evict_cursor;     /* next task of `near` to check for eviction; NULL: no eviction is in progress */
    TAILQ_ENTRY(line_state) size;  /* entry in core->by_size[size_class]; a line of size class 0 is in no list */
    TAILQ_ENTRY(line_state) check; /* entry in core->check or core->starved, depending on `checking` */
    uint8_t size_class;
    uint8_t checking; /* enum checking */
    bool loading;
    int load_hold;      /* hold of the load; valid while loading */
    uint64_t load_rows; /* valid while loading: estimated maximum of rows that will arrive */
    /* Valid while `loading`: rows of the load start after this (due, id). It is the horizon at the time of the request,
     * or the end of the last part received. */
    struct due load_after;
    struct due low_advised; /* `low` of the last hint (core_low) that was sent to the index */
    /* true: a load has moved the horizon, but some tasks of the list `far` within the new horizon are not in `near`
     * yet. Until they are, the core delivers only tasks that are due at or before `sure`. */
    bool settling;
    struct due sure; /* (due, id) up to which the line has no more far tasks to place; valid while `settling` */
    TAILQ_ENTRY(line_state) promotion; /* entry in core->promoting while settling, once the load is complete */
    struct task *promote_cursor; /* next task of the list `far` to check; valid while the line is in core->promoting */
    /* Earliest due time of the tasks that were checked and stay in `far`; valid while the line is in
     * core->promoting. */
    uint64_t promote_soonest_ms;
    uint64_t far_soonest_ms; /* lower bound of the due times of all far tasks; UINT64_MAX: no far task */
};

enum checking { CHECK_NONE, CHECK_LISTED, CHECK_STARVED };

TAILQ_HEAD(line_list, line_state);

struct subscription {
    TAILQ_ENTRY(subscription) of_queue; /* entry in queue->willing while session->willing is set */
    TAILQ_ENTRY(subscription) of_taker; /* entry in queue->takers while session->takes is set */
    struct session *session;
    struct queue *queue;
};
TAILQ_HEAD(subscription_list, subscription);

TAILQ_HEAD(wish_list, wish);

/* A queue that does not exist, but for which sessions wait. It uses neither an entry in the table of queues nor a
 * record in the log. */
struct awaited {
    struct wish_list wishes; /* sessions' waits for this queue; if the list is empty, this entry is unused */
    /* Index + 1 of the next entry with the same hash; in an unused entry, of the next unused one. */
    uint32_t by_name_next;
    char name[QUEUE_NAME_SIZE_MAX + 1];
};

/* One session's wait for a queue that does not exist; becomes a subscription when the queue is created. */
struct wish {
    struct session *session;
    struct awaited *awaited;
    /* Entry in session->wishes (the queues for which the session waits), or in core->wishes_free. */
    TAILQ_ENTRY(wish) of_session;
    TAILQ_ENTRY(wish) of_name; /* in awaited->wishes */
};

/* The judgement of an outage (overdue.h, tarry.proto Overdue). */
struct overdue {
    uint64_t after_ms[ROW_BASES];
    uint64_t until_ms[ROW_BASES];
    uint64_t id_end;
    uint64_t expire_ms;
    uint64_t dead_ms;
    uint64_t spread_ms;
};

struct queue {
    uint32_t number; /* the queue's number: place and generation (row.h); 0: unused */
    char name[QUEUE_NAME_SIZE_MAX + 1];
    Tarry__Policy policy;             /* policy of the queue; its member `push` points to the buffer `push` below */
    char push[PUSH_URL_SIZE_MAX + 1]; /* buffer of policy.push */
    char filter[FILTER_SIZE_MAX + 1]; /* memory of policy.filter */
    bool is_group;                    /* the queue has a filter and is not deleted (groups.h) */
    struct queue *topic; /* topic of a group; NULL: the queue is not a group, or its topic is not restored yet */
    TAILQ_ENTRY(queue) of_topic; /* entry in topic->groups, if `topic` is set */
    TAILQ_HEAD(queue_list, queue) groups;
    uint32_t group_count;
    bool paused;
    bool deleted; /* the queue was deleted. Tasks that ended in it are still found by its name, until the queue is
                     created again or another queue takes its place */
    /* The queue was deleted with the option to forget its outcomes: another queue may take its place at once. */
    bool forgets;
    bool is_counted; /* the queue is counted as a live queue */
    /* Name of the principal that created the queue; the queue counts towards its limit of queues; "": no limit counts
     * the queue. */
    char creator[PRINCIPAL_SIZE_MAX + 1];
    uint64_t paused_until_ms;
    uint64_t hash; /* result of queue_hash, for the digest */
    struct timer pause_timer;
    struct timer gate_timer; /* timer, armed while tasks and consumers wait for the queue's rate (gate.h) */
    uint64_t bucket_full_ns; /* steady time at which the token bucket will be full */
    struct overdue overdues[OVERDUES_MAX]; /* oldest first */
    uint32_t overdue_count;
    struct line_state lines[ROW_BASES][PRIORITY_COUNT];
    /* Set of bits: bit base * PRIORITY_COUNT + priority is 1 if the ready heap of lines[base][priority] is not
     * empty. */
    uint32_t ready_mask;
    uint32_t early_mask; /* like ready_mask, for the heaps of early tasks */
    /* Node in core->moving (queue with lease_before_due) or core->sharing (queue with groups) if a task is due and the
     * queue is not paused. */
    struct ready_node moving;
    struct subscription_list willing; /* subscriptions of sessions that may get new tasks; the first is next in turn */
    uint32_t willing_count;
    uint32_t consumer_count; /* number of sessions that are subscribed to this queue */
    /* Subscriptions of the sessions whose lanes are connected. The first subscription is the next to get a lease ahead
     * of time. */
    struct subscription_list takers;
    uint32_t taker_count;
    uint32_t ahead_count; /* number of tasks leased ahead of time */
    /* Number of times that the queue's lead time for leases ahead was halved because consumers lacked credit. */
    uint8_t ahead_halvings;
    /* Time until which all halvings hold. After this time one halving is undone, and another one after each further
     * `length_ms` of the pause. */
    struct pause ahead_pause;
    /* Node in core->serving if a task is ready (with lease_before_due: early), a consumer has credit, the queue is not
     * paused, and its limits permit a lease (gate.h). */
    struct ready_node serving;
    uint64_t served; /* value of core->turn when the queue was last served */
    uint32_t job_count;
    uint32_t recur_count;    /* recurrences */
    uint32_t by_name_next;   /* place */
    uint64_t delivered_told; /* the highest count of deliveries that a Stats reply has shown */
    struct histogram lateness_us;
    /* Lateness of deliveries in fixed buckets, for monitoring; counts the same deliveries as `lateness_us`. */
    struct durations lateness;
};
enum session_state {
    SESSION_FREE = 0,
    SESSION_WAITING_LANE, /* the session is subscribed; its lane is not connected yet */
    SESSION_UP,
    SESSION_UNCLAIMED, /* the session is from before a restart; it keeps its leases until it is resumed or the claim
                          time ends. A bound session's leases end at once */
    SESSION_LEFT,      /* the session was closed by its client; its leases stay */
};

struct session {
    uint64_t id;
    uint8_t state; /* enum session_state */
    uint32_t lane;
    uint64_t lane_ms; /* steady time in ms at which the session got this lane */
    uint32_t prefetch;
    uint32_t batch_max;
    uint64_t lease_ms; /* lease time of the session; 0: the queue's lease time */
    /* Name of the client, for the log; empty: unknown (session from before a restart). */
    char client[CLIENT_NAME_SIZE_MAX + 1];
    char peer[PEER_SIZE_MAX + 1];
    char principal[PRINCIPAL_SIZE_MAX + 1]; /* owner of the session; valid only if is_owned */
    bool is_owned; /* false: the session is from before a restart and was not resumed, so its owner is unknown */
    struct wish_list wishes;
    uint32_t wish_count;
    struct task_list leases;
    struct task_list ahead;               /* tasks leased ahead of time and not due yet */
    struct task_list due[PRIORITY_COUNT]; /* tasks leased ahead of time and due; each list is sorted by (due, id) */
    uint32_t due_mask;                    /* if bit `priority` is set, due[priority] is not empty */
    uint32_t ahead_count;                 /* number of tasks in `ahead` and `due` */
    /* During this pause, no task is leased ahead of time to the session, because credit was short. */
    struct pause ahead_pause;
    struct timer look;    /* timer, armed while the session must be visited again later */
    uint32_t lease_count; /* number of leases, including the tasks in `ahead` and `due` */
    bool takes;           /* true: the session's subscriptions are in queue->takers of its queues */
    bool sending;
    uint64_t sending_ms;       /* time at which the delivery that is being sent was started */
    uint64_t sending_position; /* lease position of the delivery that is being sent */
    uint32_t sending_count;    /* number of tasks in the delivery that is being sent */
    bool sending_departed; /* the delivery that is being sent contains tasks leased ahead of time, marked `departing` */
    bool sending_again; /* the delivery that is being sent repeats leases; if it is never sent, its tasks stay leased */
    bool gone; /* the connection has ended; the session ends once the result of the present delivery is known */
    uint32_t resend_count; /* number of leases to deliver again */
    /* Number of leases returned until now, while a session from before a restart ends in several steps. */
    uint32_t returned;
    /* The session has credit for new tasks and waits in the lists of its queues; not up to date while `changed` is
     * true. */
    bool willing;
    bool changed; /* the session's credit may have changed, so it is in core->changed */
    TAILQ_ENTRY(session) change;
    /* Entry in core->movers or core->sharers; a mover or sharer is listed while `willing` is true. */
    TAILQ_ENTRY(session) mover;
    struct timer silence;
    uint64_t silence_ms; /* time without a sign of life after which the session counts as gone */
    uint64_t heard_ms;   /* time of the last sign of life */
    uint64_t settled_ms; /* time of the last ack, nack or release; 0: none */
    bool mute;           /* true: no new tasks until the next sign of life, because a lease expired without one */
    uint32_t credit;     /* for a pooled session (session_is_pooled): maximum number of tasks per delivery */
    uint32_t subscription_count;
    struct subscription *subscriptions; /* array of QUEUES_PER_SUBSCRIBE_MAX subscriptions */
};

TAILQ_HEAD(session_list, session);

struct commit_result { /* position of the stored reply to a commit (ONCE-1) */
    uint64_t sequence;
    uint64_t position;
};

struct producer {
    uint64_t id; /* 0: unused */
    uint64_t used_ms;
    uint64_t floor; /* sequences below this one are forgotten */
    uint64_t owner; /* result of principal_owner for the name of the producer's principal */
    uint32_t result_count;
    uint32_t by_id_next;            /* index + 1 of the next producer in the bucket */
    TAILQ_ENTRY(producer) idle;     /* entry in the list in which the least recently used producer is first */
    TAILQ_ENTRY(producer) of_owner; /* entry in core->producers_of[owner's bucket] */
    struct commit_result results[COMMITS_PER_PRODUCER_MAX];
};
TAILQ_HEAD(producer_list, producer);

struct job {
    uint64_t id;   /* 0: unused */
    uint32_t what; /* Tarry__JobPut__What */
    uint32_t queue;
    uint32_t states; /* mask of enum state_bit: states of the tasks that the job concerns */
    uint64_t after_id;
    uint64_t id_end;
    /* For each time base: a task that is due at or before this time in ms counts as ready. */
    uint64_t split_ms[ROW_BASES];
    uint64_t done; /* number of tasks ended or requeued until now */
    uint64_t left; /* number of dead letters that stay dead because a live task has the same key */
    char client[CLIENT_NAME_SIZE_MAX + 1]; /* the client that requested the job */
    char peer[PEER_SIZE_MAX + 1];
    char principal[PRINCIPAL_SIZE_MAX + 1];
    bool loading;
    int hold; /* hold of the page; valid while loading */
    /* Number of tasks in memory when memory was too small for a result page; the job requests the page again when fewer
     * tasks are in memory. 0: memory was sufficient. */
    uint64_t lacked;
};
/* A finished job, kept to answer questions about its result. */
struct ended_job {
    uint64_t id; /* 0: unused */
    uint64_t done;
    uint64_t left;
};

/* A List that is being scanned (query_list.c). */
struct list_candidate {
    struct due due;
    const struct row *read; /* row that was read from the index; NULL: the task is in memory */
};
struct list_scan {
    struct core_list_plan plan;  /* what to list; `plan.prefix` points into the request */
    struct due through;          /* (due, id) up to which the rows read until now are complete */
    struct task *next;           /* next task of the overlay to scan */
    uint64_t end;                /* log position; changes at or after it are offered to the scan when they are made */
    struct list_candidate *heap; /* array of LIST_LIMIT_MAX candidates */
    size_t count;
    uint32_t wanted; /* mask of the wanted states */
    bool is_used;
    bool is_cut; /* more tasks match than the page has space for */
};

/* State of one queue at the time of a Stats scan (query_stats.c). */
struct queue_look {
    uint32_t number;
    uint64_t waiting, ready;
    uint64_t parked;                     /* number of ready tasks that wait for their serial name */
    uint64_t oldest_due_ms[ROW_BASES];   /* due time of the oldest ready task, per base; UINT64_MAX: no task is ready */
    uint64_t count, p50, p99, p999, max; /* lateness: number of samples, then quantiles and maximum in microseconds */
    bool is_lower_bound;
};

struct pending { /* see pending.h */
    bool is_made;
    uint32_t count;       /* number of queues; `count`, `order`, `places` and `sums` are valid if `is_made` is true */
    struct queue **order; /* the queues, sorted by name */
    uint32_t *places;     /* by place: index of the queue in `order`, starting at 1 */
    uint64_t *sums;       /* Fenwick tree over `order` */
};

/* Number of lists of producers, hashed by owner. */
#define OWNER_BUCKETS 1024u

/* The places that a new queue may take, lowest rank first (free_rank in queues.c). They are found at the first search
 * of a step, so that a commit that creates many queues searches only once (CALM-1). */
struct free_place {
    uint64_t rank;
    uint32_t place;
};
struct free_places {
    struct free_place *items; /* array of QUEUE_PLACES entries */
    uint32_t count;
    uint32_t at;    /* index of the first entry of `items` that may still be free; all entries before it are taken */
    uint32_t taken; /* number of entries after the index `at`, including it, that are no longer free */
    bool is_known;  /* true: the list was made in this step */
};

/* Cache of queue_count_of: the number of live queues of one principal. */
struct owner_count {
    bool is_known;
    uint64_t owner; /* result of principal_owner; 0: queues without a recorded creator, including the broker's own */
    uint32_t count;
};

struct core {
    struct core_options options;
    struct instant now;
    uint64_t from_ns; /* see from_ms */
    uint32_t epoch;
    bool started;   /* CORE_START was received: the core makes decisions */
    bool inspected; /* CORE_INSPECT was received: the core decides nothing and records nothing */
    bool following; /* CORE_FOLLOW was received and CORE_START was not: the core only replays another node's log */
    bool stopping;
    bool closed;       /* the log ends with a StopPut and a seal frame */
    bool hurry;        /* the last step left work that must be done at once */
    bool leases_ahead; /* the draft that is being applied contains leases ahead of time (ahead.c) */
    /* true: since the last deliver(), a task became ready; or a line finished moving its far tasks within the horizon
     * to `near`; or the list `far` of a line that has ready or early tasks became empty. */
    bool ready_anew;
    bool full;      /* the last step started no deliveries, because too much data is being sent (core_event.full) */
    bool sealed;    /* the last frame of the log is a seal frame */
    bool is_looked; /* true: a Stats scan is using queue_looks */
    bool producers_unordered; /* true after a restore: producers_idle is not sorted by last use yet */

    /* log */
    uint64_t position; /* log position of the next frame */
    uint64_t durable;
    uint64_t indexed;
    uint64_t seal_at_ms;     /* time to write a seal; UINT64_MAX: no seal needed */
    struct instant recorded; /* logical time of the last frame */

    /* tasks */
    struct slab *slab;
    struct task **by_id;
    struct task **by_key;
    struct serial **by_serial; /* hash table of serial names (serial.h) */
    uint64_t table_mask;
    uint64_t salt; /* odd number */
    uint64_t task_count;
    struct task_list overlay;
    uint64_t overlay_count;
    uint64_t trim_to;          /* overlay entries below this position may be removed */
    uint64_t holds[HOLDS_MAX]; /* log position of each hold; 0: unused */
    size_t hold_count;
    struct wheel wheels[ROW_BASES];
    uint64_t near_count;   /* number of near tasks of all lines */
    uint64_t rows_loading; /* sum of load_rows of all lines */
    struct line_state *evicting;
    bool no_room;                         /* the disk has no room for new tasks (core_event.no_room of this step) */
    bool recur_behind;                    /* true while due occurrences are left that recur_run has not handled */
    bool is_scarce;                       /* near_relieve must free more memory and can still do so */
    struct line_list by_size[LINE_SIZES]; /* lists of lines, by size class: the number of their near tasks */
    uint64_t sizes;                       /* if bit n - 1 is set, by_size[n] is not empty */
    /* Lines that near_check_lines must check: each may need a load, or the index may need a new hint (core_low). */
    struct line_list check;
    struct line_list starved; /* lines that need a window and wait for memory or a hold */
    uint32_t overdue_queues;  /* number of live queues with a policy for overdue tasks (overdue.h) */
    /* near_check_lines must check all lines of the queues from this place to the end of `queues`; 0: none. */
    uint32_t unchecked;
    struct line_list promoting;
    uint64_t random; /* state of the deterministic random numbers, for sampling */
    uint64_t visits; /* for tests: number of objects visited without a change; bounded per step */

    struct tally tally;
    struct pending pending;
    struct outcomes *outcomes;

    struct queue *queues;   /* [place] */
    uint32_t *queue_names;  /* hash table by name: places of queues */
    uint64_t *queue_owners; /* by place: principal_owner of a live queue's creator; 0: none */
    uint64_t *deletions; /* for each place: serial number of the deletion of its queue; 0: the queue is not deleted */
    uint64_t deletion_last;
    struct free_places free_places;
    struct owner_count owner_count;
    struct awaited *awaited;  /* array of QUEUES_AWAITED_MAX entries */
    uint64_t *awaited_owners; /* for each entry of `awaited`: principal_owner of the first waiting principal; not valid
                                 for unused entries */
    uint32_t *awaited_names;  /* hash table by name: index + 1 in `awaited` */
    uint32_t awaited_free;    /* index + 1 of the first entry that was used and is free again */
    uint32_t awaited_end;     /* entries of `awaited` from this index on have never been used */
    uint32_t awaited_count;
    uint32_t own_queue_count;     /* number of live queues that belong to the broker (queue_is_reserved) */
    struct wish *wishes;          /* array of WISHES_MAX entries: enough for every subscription of every session */
    struct wish_list wishes_free; /* entries of `wishes` that were used and are free again */
    uint32_t wishes_end;          /* entries of `wishes` from this index on have never been used */
    struct ready serving; /* queues to serve, sorted by (turn, place): the queue that was served longest ago is first */
    struct ready moving;  /* queues with tasks for a mover, sorted by (turn, place) */
    struct session_list movers;  /* movers that may get new tasks; the first is next in turn */
    struct ready sharing;        /* queues with tasks for a sharer, sorted by (turn, place) */
    struct session_list sharers; /* sharers that may get new tasks; the first is next in turn */
    uint32_t group_count;        /* number of groups of all topics */
    uint32_t orphan_count;       /* number of groups whose topic is not restored yet */
    uint64_t turn;
    struct session_list changed; /* sessions that deliver() must visit before it serves any queue */

    struct session *sessions;
    struct subscription (*subscriptions)[QUEUES_PER_SUBSCRIBE_MAX]; /* subscriptions of each session, by its index */
    uint32_t sessions_end;                                          /* slots from this index on have never been used */
    uint32_t session_count;                                         /* number of sessions in state WAITING_LANE or UP */
    uint64_t session_next;
    uint64_t lane_left_ms[LANES_MAX]; /* steady time in ms at which a session last left the lane; 0: never */
    uint64_t leases;
    uint64_t lease_bytes;               /* bytes of the region that leased tasks use */
    uint64_t ahead_count;               /* number of tasks leased ahead of time */
    uint64_t soon[TIMERS_PER_STEP_MAX]; /* ids of tasks that may be leased ahead of time in this step */
    uint32_t soon_count;
    struct timer claim;
    uint64_t claim_over_ms; /* steady time in ms at which the claim time after the start ends */

    struct producer *producers;
    uint32_t *producer_ids; /* hash table by id: index + 1 in `producers` */
    struct producer_list producers_idle;
    struct producer_list producers_of[OWNER_BUCKETS];
    struct producer_list producers_free; /* entries of `producers` that were used and are free again */
    uint32_t producer_count;
    uint32_t producers_used; /* entries of `producers` from this index on have never been used */
    /* The last pause of the process that lasted hours (F-13): steady times in ms of its start, and of the moment at
     * which the input received meanwhile was read. Both are 0 if there was no such pause. */
    uint64_t producers_stopped_ms;
    uint64_t producers_resumed_ms;

    struct list_scan scans[LIST_SCANS_MAX];
    size_t scan_count;
    /* One entry per place in the table of queues; used by one Stats request at a time. */
    struct queue_look *queue_looks;

    struct recur **recur_names; /* hash table */
    struct recur **recur_slots; /* [slot] */
    uint32_t recur_free;        /* slots of recurrences below this index are in use */
    uint32_t recur_slots_end;   /* slots of recurrences from this index on have never been used */
    uint32_t recur_count;
    uint32_t recur_recheck; /* the occurrences of slots below this index were compared with the present tzdata */
    bool recur_lacks_room;  /* the comparison lacks memory, index or disk space, and is tried again after RECUR_RETRY_MS
                             */
    uint32_t recur_stuck;   /* number of recurrences that are stuck */
    struct {
        uint64_t due, missed, skipped;
    } recur_totals;           /* numbers of occurrences since CORE_START (RecurState) */
    uint64_t recur_bytes;     /* bytes of the region that recurrences use, without their tasks */
    uint64_t recur_last;      /* highest number of a recurrence */
    struct wheel recur_wheel; /* wall time */

    uint64_t push_version; /* core_push_version */
    struct definitions *definitions;
    struct job jobs[JOBS_MAX];
    uint32_t job_count;
    uint32_t job_next; /* index of the job that is the first to request its next result page */
    uint32_t pages_loading;
    uint32_t push_count;                   /* number of queues with a push URL */
    struct ended_job ended_jobs[JOBS_MAX]; /* ring buffer */
    uint32_t ended_job_next;
};

#define NAME_TABLE_SIZE (2 * QUEUES_MAX)
#define AWAITED_TABLE_SIZE (2 * QUEUES_AWAITED_MAX)
#define WISHES_MAX (SESSIONS_MAX * QUEUES_PER_SUBSCRIBE_MAX)
#define PRODUCER_TABLE_SIZE (2 * PRODUCERS_MAX)

/* Returns the limit of work per step: `max`, or options.work_max if that is smaller. */
static inline uint32_t per_step(const struct core *core, uint32_t max) {
    return core->options.work_max && core->options.work_max < max ? core->options.work_max : max;
}
/* Returns the queue of a live task, a line or a job. */
static inline struct queue *queue_at(const struct core *core, uint32_t number) {
    return &core->queues[queue_place(number)];
}
/* Returns true if this core may append to the log. */
static inline bool is_deciding(const struct core *core) {
    return !core->inspected && !core->following;
}
static inline uint64_t steady_ms(const struct core *core) {
    return core->now.steady_ns / 1000000;
}
static inline uint64_t base_ms(const struct core *core, uint8_t base) {
    return (base == ROW_WALL ? core->now.wall_ns : core->now.steady_ns) / 1000000;
}
static inline uint64_t round_up_ms(uint64_t ns) {
    return ns / 1000000 + (ns % 1000000 != 0);
} /* TIME-1 */
/* Returns the time in ms from which delays in the event count: the latest time at which the event may have arrived
 * (TIME-1). */
static inline uint64_t from_ms(const struct core *core) {
    return round_up_ms(core->from_ns);
}
static inline struct due row_due(const struct row *row) {
    return (struct due){row->due_ms, row->id};
}
static inline bool is_expired(const struct core *core, const struct row *row) {
    return row->expires_ms && row_expires_at(row) <= base_ms(core, row->base);
}

#endif
