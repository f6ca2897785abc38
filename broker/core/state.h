/* state.h: what the core holds in memory. Private to broker/core.
 *
 * A task has exactly one place:
 *
 *     WAITING  beyond the line's horizon ──► PLACE_FAR       only while the index has not absorbed it
 *              within it, not yet due    ──► PLACE_PENDING   armed on its base's wheel
 *              within it, due            ──► PLACE_READY     in its line's ready heap
 *     LEASED   ─────────────────────────────► PLACE_LEASED    in its session's list, deadline armed; leased ahead of
 *                                                             time: in session->ahead, due time armed (ahead.h)
 *     BURIED   ─────────────────────────────► PLACE_DEAD      only while dirty
 *     ended    ─────────────────────────────► PLACE_ENDED     a tombstone, only while dirty
 *
 * Dirty: changed at a position that the index has not been trimmed up to. The dirty tasks, in order of change, are
 * the overlay; it wins over every row read from the index. What is neither dirty, nor within a horizon, nor leased
 * is not in memory at all. */
#ifndef TARRY_CORE_STATE_H
#define TARRY_CORE_STATE_H

#include <assert.h>
#include <sys/queue.h>

#include "core.h"
#include "durations.h"
#include "histogram.h"
#include "outcomes.h"
#include "ready.h"
#include "seeded_bug.h"
#include "slab.h"
#include "wheel.h"

#define CLOCK_LEAD_MS 15000ull  /* a line's window is loaded so long before its horizon comes */
#define WINDOW_TASKS_MAX 16384u /* tasks asked for in one load */
#define WINDOW_TASKS_MIN 64u
#define WINDOWS_LOADING_MAX 4u     /* full ones, or as many rows in smaller ones, are read at once (CALM-1) */
#define WINDOW_READY_LOW 4096u     /* fewer ready than this: load more that is overdue */
#define LOW_ADVICE_STEP_MS 2048ull /* the index is told of a line's low mark so often, in time passed */
#define TIMERS_PER_STEP_MAX 4096u  /* bounded work per step: no queue delays another */
#define TRIM_PER_STEP_MAX 8192u
#define EVICT_PER_STEP_MAX 2048u
#define PROMOTE_PER_STEP_MAX 2048u
#define CHECK_PER_STEP_MAX 512u  /* lines */
#define STARVED_PER_STEP_MAX 64u /* lines that waited for memory, and are checked again */
#define LINE_SIZES 65u           /* 0: nothing near; n: from 2^(n-1) tasks on */
#define RECORDS_PER_FRAME_MAX 4096u
#define DELIVERIES_PER_STEP_MAX 64u
#define DELIVERED_PER_STEP_MAX                                                                                         \
    1024u /* a step that has leased so many tasks, or ended them as expired, makes no further delivery */
#define SETTLED_PER_STEP_MAX 4096u     /* subscriptions looked at because a session's credit changed */
#define STEP_EFFECTS_MAX (96ull << 20) /* bytes in the arena that one step may add (need.h) */
#define JOB_PAGE_TASKS_MAX 2048u
#define JOB_PAGES_MAX 4u              /* being read at once: one thread reads them (CALM-1) */
#define LIST_SCANS_MAX 8u             /* Lists that are looked into at the same time; the others wait */
#define LIST_CLOCKS_MAX_MS 3600000ull /* a wall clock that jumps farther is not believed (LIMITS.md) */
#define LIST_PER_PIECE_MAX 4096u      /* tasks of the overlay */
#define STATS_PER_PIECE_MAX 256u      /* queues */
#define HOLDS_MAX 1024u
#define SESSIONS_TABLE (2 * SESSIONS_MAX) /* live ones, and those of before a restart */
#define RESERVE_PAGES 32u /* of the region, kept for what settles: a commit full of nacks fits (need.h) */
#define LEASES_SHARE 2u   /* 1 / of the region is what leases may take: nothing but acks frees it (CAP-1) */

enum timer_kind {
    TIMER_DUE = 1,
    TIMER_AHEAD,  /* of a task that is due soon: it may be leased from here on */
    TIMER_DEPART, /* of a task that was leased ahead of time: it is due */
    TIMER_LEASE,
    TIMER_PAUSE,
    TIMER_SILENCE,
    TIMER_WINDOW,
    TIMER_CLAIM,
    TIMER_SESSION, /* the session must be looked at again */
};

struct timer { /* `wheel` first: a popped wheel timer is cast back */
    struct wheel_timer wheel;
    uint8_t kind; /* enum timer_kind */
};

enum place { PLACE_NONE, PLACE_FAR, PLACE_PENDING, PLACE_READY, PLACE_LEASED, PLACE_DEAD, PLACE_ENDED };

struct session;

enum ahead {
    AHEAD_NOT,     /* not leased ahead of time, or its delivery has left */
    AHEAD_PENDING, /* leased ahead of time, its due time has not come: in session->ahead */
    AHEAD_DUE,     /* its due time has come: in session->due, for this step or behind the delivery under way */
};

struct holder { /* the session that had a task, and since when; 0: none */
    uint64_t session;
    uint64_t delivered_ms;
};

struct task {
    union { /* by place; elsewhere nothing is armed, in no heap, and `before` is void */
        struct {
            struct timer timer; /* PENDING: due, or when it may be leased ahead of that; LEASED: deadline; leased ahead
                                   of time: due */
            struct holder before; /* LEASED: the session that had it before this lease, should the delivery never leave
                                     (TRUE-1). Void after a restart: what left then is not known */
        };
        struct ready_node ready; /* READY */
    };
    TAILQ_ENTRY(task) overlay; /* valid if dirty */
    union {
        /* FAR: line->far; PENDING, READY: line->near; LEASED: session->leases, ->ahead or ->due, by `ahead` */
        TAILQ_ENTRY(task) member;
        struct task **dead_at; /* DEAD, in the key table: the link that leads to it */
    };
    struct task *by_id_next;
    struct task *by_key_next; /* in the order of task_comes_first */
    struct row row;           /* key follows this struct; reason is a slab object of its own */
    uint64_t hash;            /* row_hash(row) */
    uint64_t key_hash;        /* row_key_hash; void without a key */
    uint64_t changed;         /* position of the frame that changed it last */
    uint8_t place;            /* enum place */
    bool dirty;
    bool keyed;     /* in the key table */
    bool resend;    /* leased, and its session has come back: it is sent again under the same token */
    uint8_t ahead;  /* enum ahead */
    bool seen;      /* leased, and the user of its session has seen it; while the session gives its leases back */
    bool departing; /* leased ahead of time, and in the delivery that is under way */
    bool returned;  /* came back from a lease with its old due time: lateness would mislead */
    char key[];
};
TAILQ_HEAD(task_list, task);

struct pause { /* of what did harm: each lasts twice as long as the one before it */
    uint64_t until_ms;
    uint64_t length_ms; /* 0: there was none */
};

struct line_state {
    struct line line;
    struct due horizon; /* every waiting task of the line up to it is in memory */
    struct task_list near;
    struct task_list far;
    uint64_t near_count;
    uint64_t far_count;
    struct ready ready;
    struct timer window_timer;     /* when to look whether a load is due */
    struct task *evict_cursor;     /* sweeping `near` for tasks beyond the horizon; NULL: not sweeping */
    TAILQ_ENTRY(line_state) size;  /* in core->by_size[size_class]; class 0: in none */
    TAILQ_ENTRY(line_state) check; /* in core->check or core->starved, by `checking` */
    uint8_t size_class;
    uint8_t checking; /* enum checking */
    bool loading;
    int load_hold;          /* valid while loading */
    uint64_t load_rows;     /* likewise: at most about as many come */
    struct due load_after;  /* likewise: the horizon when it was asked for, or that of the last piece */
    struct due low_advised; /* what the index was told last */
    /* What was loaded has moved the horizon, and not all far tasks within it are placed yet: what is due after `sure`
     * is not delivered before. */
    bool settling;
    struct due sure;                   /* valid while settling */
    TAILQ_ENTRY(line_state) promotion; /* in core->promoting: settling, and all of the load is there */
    struct task *promote_cursor;       /* likewise: the far task to look at next */
    uint64_t promote_soonest_ms;       /* likewise: of the far tasks that were looked at and stay */
    uint64_t far_soonest_ms;           /* no far task is due before; UINT64_MAX: there is none */
};

enum checking { CHECK_NONE, CHECK_LISTED, CHECK_STARVED };

TAILQ_HEAD(line_list, line_state);

struct subscription {
    TAILQ_ENTRY(subscription) of_queue; /* in queue->willing while session->willing */
    TAILQ_ENTRY(subscription) of_taker; /* in queue->takers while session->takes */
    struct session *session;
    struct queue *queue;
};
TAILQ_HEAD(subscription_list, subscription);

TAILQ_HEAD(wish_list, wish);

/* A queue that does not exist, and that sessions wait for. It takes no place in the table of queues and no record. */
struct awaited {
    struct wish_list wishes; /* empty: unused */
    uint32_t by_name_next;   /* index + 1; unused: of the next unused one */
    char name[QUEUE_NAME_SIZE_MAX + 1];
};

/* One session's subscription to it, which becomes a subscription to the queue once that exists. */
struct wish {
    struct session *session;
    struct awaited *awaited;
    TAILQ_ENTRY(wish) of_session; /* in session->wishes, or in core->wishes_free */
    TAILQ_ENTRY(wish) of_name;    /* in awaited->wishes */
};

struct queue {
    uint32_t number; /* place and generation (row.h); 0: unused */
    char name[QUEUE_NAME_SIZE_MAX + 1];
    Tarry__Policy policy;             /* its `push` is … */
    char push[PUSH_URL_SIZE_MAX + 1]; /* … this */
    bool paused;
    bool deleted; /* there is no such queue. Until it is used again, or another queue takes its place, what ended in it
                     is still found by its name */
    bool is_counted;                      /* among the live queues */
    char creator[PRINCIPAL_SIZE_MAX + 1]; /* the principal whose limit of queues it counts to; "": none */
    uint64_t paused_until_ms;
    uint64_t hash; /* queue_hash, for the digest */
    struct timer pause_timer;
    struct line_state lines[ROW_BASES][PRIORITY_COUNT];
    uint32_t ready_mask;              /* bit base * PRIORITY_COUNT + priority: that line's ready heap is not empty */
    struct subscription_list willing; /* of the sessions that may get something new, the next in turn first */
    uint32_t willing_count;
    struct subscription_list takers; /* of the sessions whose lanes are up, the next in turn for a lease ahead first */
    uint32_t taker_count;
    uint32_t ahead_count;      /* tasks leased ahead of time */
    uint8_t ahead_halvings;    /* how often the time ahead was halved, for want of credit */
    struct pause ahead_pause;  /* the first halving is undone at its end, each other one its length later */
    struct ready_node serving; /* in core->serving while something is ready, a consumer willing, and it is not paused */
    uint64_t served;           /* the turn when it was served last */
    uint32_t job_count;
    uint32_t by_name_next;   /* place */
    uint64_t delivered_told; /* the highest count of deliveries that Stats was told */
    struct histogram lateness_us;
    struct durations lateness; /* the same, for monitoring */
};
enum session_state {
    SESSION_FREE = 0,
    SESSION_WAITING_LANE, /* subscribed, its pipe is not there yet */
    SESSION_UP,
    SESSION_UNCLAIMED, /* of before a restart; holds leases until it returns or the claim time is over */
    SESSION_LEFT,      /* ended in order and kept its leases */
};

struct session {
    uint64_t id;
    uint8_t state; /* enum session_state */
    uint32_t lane;
    uint64_t lane_ms; /* … since then */
    uint32_t prefetch;
    uint32_t batch_max;
    uint64_t lease_ms;                     /* 0: the queue's */
    char client[CLIENT_NAME_SIZE_MAX + 1]; /* for the log; empty: not known, of before a restart */
    char peer[PEER_SIZE_MAX + 1];
    char principal[PRINCIPAL_SIZE_MAX + 1]; /* whose it is; void unless is_owned */
    bool is_owned; /* otherwise it is of before a restart, and has not come back: its owner is not known */
    struct wish_list wishes;
    uint32_t wish_count;
    struct task_list leases;
    struct task_list ahead;               /* leased ahead of time and not due yet */
    struct task_list due[PRIORITY_COUNT]; /* leased ahead of time and due, each list by (due, id) */
    uint32_t due_mask;                    /* bit priority: due[priority] is not empty */
    uint32_t ahead_count;                 /* tasks in `ahead` and `due` */
    struct pause ahead_pause;             /* nothing is leased ahead of time meanwhile: its credit was needed */
    struct timer look;                    /* armed while the session must be looked at again later */
    uint32_t lease_count;                 /* with those in `ahead` and `due` */
    bool takes;                           /* its subscriptions are in their queues' takers */
    bool sending;
    uint64_t sending_ms;       /* since then */
    uint64_t sending_position; /* lease position of the delivery under way */
    uint32_t sending_count;    /* tasks in it */
    bool sending_departed;     /* its tasks were leased ahead of time: those that are `departing` */
    bool sending_again;        /* it repeats leases: should it fail to leave, they stay leased */
    bool gone;                 /* its pipe is gone; it ends once it is known whether the delivery under way left */
    uint32_t resend_count;     /* leases to be sent again */
    bool willing;              /* it may get something new, and stands in line at its queues; but see `changed` */
    bool changed;              /* what it may get has changed since: it is in core->changed */
    TAILQ_ENTRY(session) change;
    struct timer silence;
    uint64_t silence_ms; /* not heard of for so long: it is gone */
    uint64_t heard_ms;   /* the last sign of life */
    bool mute;           /* a lease ran out without a sign of life: nothing new until there is one */
    uint32_t credit;     /* session_is_pooled: tasks that a delivery may have */
    uint32_t subscription_count;
    struct subscription *subscriptions; /* QUEUES_PER_SUBSCRIBE_MAX of them */
};

TAILQ_HEAD(session_list, session);

struct commit_result { /* where the answer to a commit lies (ONCE-1) */
    uint64_t sequence;
    uint64_t position;
};

struct producer {
    uint64_t id; /* 0: unused */
    uint64_t used_ms;
    uint64_t floor; /* sequences below are forgotten */
    uint64_t owner; /* principal_owner of its principal's name */
    uint32_t result_count;
    uint32_t by_id_next;            /* index + 1 */
    TAILQ_ENTRY(producer) idle;     /* least recently used first */
    TAILQ_ENTRY(producer) of_owner; /* in core->producers_of, by its owner */
    struct commit_result results[COMMITS_PER_PRODUCER_MAX];
};
TAILQ_HEAD(producer_list, producer);

struct job {
    uint64_t id;   /* 0: unused */
    uint32_t what; /* Tarry__JobPut__What */
    uint32_t queue;
    uint32_t states; /* mask of enum state_bit */
    uint64_t after_id;
    uint64_t id_end;
    uint64_t split_ms[ROW_BASES];          /* ready is what was due by then */
    uint64_t done;                         /* tasks ended or requeued so far */
    uint64_t left;                         /* dead letters whose keys live again */
    char client[CLIENT_NAME_SIZE_MAX + 1]; /* the client that asked for it */
    char peer[PEER_SIZE_MAX + 1];
    char principal[PRINCIPAL_SIZE_MAX + 1];
    bool loading;
    int hold;        /* valid while loading */
    uint64_t lacked; /* tasks in memory when a page found no room: asked for again when there are fewer; 0: none did */
};
/* A job that has ended, for questions about its result. */
struct ended_job {
    uint64_t id; /* 0: none */
    uint64_t done;
    uint64_t left;
};

/* A List that is being looked into (query_list.c). */
struct list_candidate {
    struct due due;
    const struct row *read; /* from the index; NULL: it is in memory */
};
struct list_scan {
    struct core_list_plan plan;  /* its prefix is the request's */
    struct due through;          /* the page that was read reaches so far */
    struct task *next;           /* of the overlay */
    uint64_t end;                /* what changed from this position on was offered when it changed */
    struct list_candidate *heap; /* LIST_LIMIT_MAX of them */
    size_t count;
    uint32_t wanted; /* states */
    bool is_used;
    bool is_cut; /* there was one more than the page may have */
};

/* Of one queue, when it was looked at (query_stats.c). */
struct queue_look {
    uint32_t number;
    uint64_t waiting, ready;
    uint64_t oldest_due_ms[ROW_BASES];   /* of what is ready; UINT64_MAX: nothing is */
    uint64_t count, p50, p99, p999, max; /* lateness */
    bool is_lower_bound;
};

struct pending { /* pending.h */
    bool is_made;
    uint32_t count;       /* queues, valid if made, as are … */
    struct queue **order; /* … them, by name; */
    uint32_t *places;     /* [place]: of each queue, in that order, from 1; */
    uint64_t *sums;       /* Fenwick's tree over that order */
};

/* Lists of producers by their owners. */
#define OWNER_BUCKETS 1024u

struct core {
    struct core_options options;
    struct instant now;
    uint64_t from_ns; /* see from_ms */
    uint32_t epoch;
    bool started;   /* CORE_START was seen: decisions are made */
    bool inspected; /* CORE_INSPECT was: nothing is decided, nothing recorded */
    bool following; /* CORE_FOLLOW was, and no CORE_START yet: likewise, but the log goes on */
    bool stopping;
    bool closed;              /* the log ends with a StopPut and a seal */
    bool hurry;               /* the last step left something to do at once */
    bool leases_ahead;        /* the draft that is being applied leases ahead of time (ahead.c) */
    bool ready_anew;          /* since deliver() has looked, a task has become ready, or a line has settled */
    bool full;                /* the last step made no deliveries, for the disk is behind (core_event.full) */
    bool sealed;              /* the last frame of the log is a seal */
    bool is_looked;           /* queue_looks are in use */
    bool producers_unordered; /* restored: producers_idle is not in the order of last use yet */

    /* log */
    uint64_t position; /* where the next frame goes */
    uint64_t durable;
    uint64_t indexed;
    uint64_t seal_at_ms; /* when to write one; UINT64_MAX: not */

    /* tasks */
    struct slab *slab;
    struct task **by_id;
    struct task **by_key;
    uint64_t table_mask;
    uint64_t salt; /* odd */
    uint64_t task_count;
    struct task_list overlay;
    uint64_t overlay_count;
    uint64_t trim_to;          /* the overlay below it may go */
    uint64_t holds[HOLDS_MAX]; /* positions; 0: free */
    size_t hold_count;
    struct wheel wheels[ROW_BASES];
    uint64_t near_count;   /* of all lines */
    uint64_t rows_loading; /* of all lines: load_rows */
    struct line_state *evicting;
    bool is_scarce;                       /* near_relieve has not made room enough yet, and can */
    struct line_list by_size[LINE_SIZES]; /* lines by how many tasks of theirs are near */
    uint64_t sizes;                       /* bit n - 1: by_size[n] is not empty */
    struct line_list check;               /* lines whose window or low mark may have to move */
    struct line_list starved;             /* lines that want a window, and memory or a hold for it */
    uint32_t unchecked;                   /* all lines of queues from this number on are to be checked; 0: of none */
    struct line_list promoting;
    uint64_t random; /* deterministic, for sampling */
    uint64_t visits; /* queues, sessions, lines, tasks that were looked at in vain or in passing; for tests: a step's
                        share is bounded */

    struct tally tally;
    struct pending pending;
    struct outcomes *outcomes;

    struct queue *queues;   /* [place] */
    uint32_t *queue_names;  /* hash table: places */
    uint64_t *queue_owners; /* [place]: principal_owner of a live queue's creator; 0: none */
    uint64_t *deletions;    /* [place]: when it was deleted, counted in deletions; 0: it was not */
    uint64_t deletion_last;
    struct awaited *awaited;  /* QUEUES_AWAITED_MAX of them */
    uint64_t *awaited_owners; /* beside it: principal_owner of the principal that was the first to wait; unused: void */
    uint32_t *awaited_names;  /* hash table: index + 1 */
    uint32_t awaited_free;    /* used before, unused again: index + 1 */
    uint32_t awaited_end;     /* entries from here on have never been used */
    uint32_t awaited_count;
    uint32_t own_queue_count;     /* live queues of the broker's own (queue_is_reserved) */
    struct wish *wishes;          /* WISHES_MAX of them: what all sessions may subscribe to */
    struct wish_list wishes_free; /* used before, free again */
    uint32_t wishes_end;          /* entries from here on have never been used */
    struct ready serving;         /* the queue that was served longest ago first, by (turn, place) */
    uint64_t turn;
    struct session_list changed; /* sessions that deliver() looks at before it serves any queue */

    struct session *sessions;
    struct subscription (*subscriptions)[QUEUES_PER_SUBSCRIBE_MAX]; /* of the session at the same index */
    uint32_t sessions_end;                                          /* slots from here on have never been used */
    uint64_t session_next;
    uint64_t lane_left_ms[LANES_MAX]; /* when a session last left it; 0: never */
    uint32_t session_count;           /* WAITING_LANE and UP */
    uint64_t leases;
    uint64_t lease_bytes;               /* what the leased tasks take of the region */
    uint64_t ahead_count;               /* tasks leased ahead of time */
    uint64_t soon[TIMERS_PER_STEP_MAX]; /* ids: may be leased ahead of time in this step */
    uint32_t soon_count;
    struct timer claim;

    struct producer *producers;
    uint32_t *producer_ids; /* hash table: index + 1 */
    struct producer_list producers_idle;
    struct producer_list producers_of[OWNER_BUCKETS];
    struct producer_list producers_free; /* used before, free again */
    uint32_t producer_count;
    uint32_t producers_used; /* entries from here on have never been used */

    struct list_scan scans[LIST_SCANS_MAX];
    size_t scan_count;
    struct queue_look *queue_looks; /* of one Stats at a time: [place] */

    uint64_t push_version; /* core_push_version */
    struct job jobs[JOBS_MAX];
    uint32_t job_count;
    uint32_t job_next; /* the job that may read a page first */
    uint32_t pages_loading;
    uint32_t push_count;                   /* queues that are pushed */
    struct ended_job ended_jobs[JOBS_MAX]; /* a ring */
    uint32_t ended_job_next;
};

#define NAME_TABLE_SIZE (2 * QUEUES_MAX)
#define AWAITED_TABLE_SIZE (2 * QUEUES_AWAITED_MAX)
#define WISHES_MAX (SESSIONS_MAX * QUEUES_PER_SUBSCRIBE_MAX)
#define PRODUCER_TABLE_SIZE (2 * PRODUCERS_MAX)

/* How much a part of a step does, where `max` is the rule. */
static inline uint32_t per_step(const struct core *core, uint32_t max) {
    return core->options.work_max && core->options.work_max < max ? core->options.work_max : max;
}
/* The queue of a live task, a line or a job. */
static inline struct queue *queue_at(const struct core *core, uint32_t number) {
    return &core->queues[queue_place(number)];
}
/* Whether this core may add to the log. */
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
    return ns / 1000000 + (ns % 1000000 != 0 && !SEEDED_BUG(deadline_rounded_down));
} /* TIME-1 */
/* What is to last, or to wait, for so long counts from here: the latest that the event may have come (TIME-1). */
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
