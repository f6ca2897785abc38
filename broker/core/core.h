/* core.h: what is decided. A deterministic state machine: no I/O, no clock, no thread, no global, no allocation after
 * start.
 *
 *   event ──► core_wants ──► (the shell looks up facts) ──► core_step ──► effects
 *
 * Inside a step, `decide` reads state and turns a command into records or a refusal; `apply` alone changes state
 * (LOG-2). Time comes in with every event (TIME-2). The same core runs under the real shell, in recovery and in the
 * simulator. */
#ifndef TARRY_CORE_H
#define TARRY_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "frame.h"
#include "row.h"
#include "tally.h"
#include "tarry_limits.h"

struct core;

/* Logical time, made by the shell's clock; neither half ever goes back. */
struct instant {
    uint64_t steady_ns; /* delays, leases */
    uint64_t wall_ns;   /* absolute times */
};

struct core_options {
    size_t memory;       /* bytes for tasks in memory (near window and overlay) */
    size_t near_max;     /* tasks within horizons at most; 0: as memory allows */
    uint32_t work_max;   /* tasks, lines or queues that one part of a step looks at; 0: as state.h says. For tests */
    uint32_t queues_max; /* of clients; 0: QUEUES_MAX. For tests */
    uint32_t outcomes_max;
    uint64_t outcome_retention_ms;
    uint64_t index_lag_max;  /* records not yet in the index: beyond it, commits that schedule are refused (BUSY) */
    uint64_t index_lag_hard; /* …: moves, cancels and new leases too */
    uint64_t ahead_ms;       /* leases may be made so long before a task is due (ahead.h); 0: never */
    uint64_t salt;           /* random, of this process: where keys and names lie in hash tables, and nothing else */
    bool create_queues;      /* on first use; otherwise NO_SUCH_QUEUE */
    Tarry__Policy policy;    /* of new queues */
    const char *version;
    const uint8_t *config_digest; /* CONFIG_DIGEST_SIZE bytes, for the log; NULL: not said */
};

#define WINDOW_PIECE_MAX 1024u /* rows in one CORE_WINDOW, so that the step is short */

/* Takes all memory at once. NULL: out of memory. */
struct core *core_new(const struct core_options *options);
void core_free(struct core *core);

/* ---- recovery: 1. restore what the index knows  2. apply the log's tail  3. CORE_START
 * A follower: 1.  CORE_FOLLOW  2. for as long as another node leads  3. CORE_START */
struct core_base { /* as of the index's position */
    uint64_t position;
    const struct tally *tally;
    uint64_t known_since_ms;
    struct instant then; /* of the last frame: a follower answers no question as of an earlier time (TIME-2) */
};
void core_restore(struct core *core, const struct core_base *base);
int core_restore_queue(struct core *core, const Tarry__QueuePut *queue);
int core_restore_lease(struct core *core, const struct row *row);
/* In any order; `owner` as of principal_owner. */
int core_restore_producer(struct core *core, uint64_t producer, uint64_t used_ms, uint64_t floor, uint64_t owner);
int core_restore_result(struct core *core, uint64_t producer, uint64_t sequence, uint64_t position);
int core_restore_job(struct core *core, const Tarry__JobPut *job);
int core_restore_outcome(struct core *core, const struct outcome *outcome); /* oldest first */
enum core_replay_error {
    CORE_NONSENSE = -30001,  /* a record contradicts what was there: damage or a bug; refuse to start */
    CORE_NO_MEMORY = -30002, /* what the index has not absorbed does not fit into options.memory */
};
/* Applies one frame of the log. 0 or an enum core_replay_error; NO_MEMORY: nothing has changed, and the same frame may
 * be tried again. */
int core_replay(struct core *core, const struct frame_header *header, const Tarry__FrameBody *body);
/* FOLLOW: false: memory is short until the index has absorbed more, or CORE_TICK has made room; core_replay waits. */
bool core_may_replay(const struct core *core);
/* After NO_MEMORY: the index has not absorbed all, or tasks can leave memory: there will be more. */
bool core_may_free(const struct core *core);

/* ---- events */
enum core_event_kind {
    CORE_START = 1, /* recovery is over: this broker is primary under `epoch` */
    CORE_TICK,      /* core_deadline has come */
    CORE_HELLO,
    CORE_GOODBYE,
    CORE_COMMIT,
    CORE_SUBSCRIBE, /* the lane is chosen by the core: effect CORE_LANE_OPEN tells */
    CORE_UNSUBSCRIBE,
    CORE_HEARTBEAT,
    CORE_LANE_UP,   /* the session's pipe has been accepted on its lane */
    CORE_LANE_GONE, /* … is gone, or the session was silent for too long */
    CORE_LANE_SENT, /* the delivery under way on this lane left (ok), or provably never will (not ok) */
    CORE_CREDIT,    /* each delivery to a pooled session may have `credit` tasks, until it is told otherwise */
    CORE_GET,
    CORE_LIST,
    CORE_QUEUES,
    CORE_STATS,
    CORE_CALENDAR,
    CORE_DURABLE, /* log durable up to `position` */
    CORE_INDEXED, /* index reached `position` */
    CORE_WINDOW,  /* a near window was loaded */
    CORE_PAGE,    /* a page for a job was loaded */
    CORE_STOP,    /* no new work; what is durable is answered */
    CORE_RESUME,  /* after CORE_STOP: work goes on after all */
    CORE_INSPECT, /* instead of CORE_START: time stands still, nothing is ever recorded. Only questions (GET, LIST,
                     QUEUES, STATS, CALENDAR), WINDOW and STOP may follow, all at the time of the last frame */
    CORE_FOLLOW,  /* instead of CORE_START, which may come later: the log is another node's. What it says comes by
                     core_replay; the state is as of its last frame. Only questions (as of event.now), DURABLE, INDEXED,
                     TICK, START, STOP and RESUME may follow */
    CORE_REFUSED, /* some were not let in, or were denied what few may: for the log */
    CORE_ALONE,   /* the leader of a pair serves alone from here on, or does no more: `alone` is recorded as it is. Not
                     after CORE_STOP */
    CORE_CLOSE,   /* after CORE_STOP: the log says so, and takes no further record; DURABLE, INDEXED, TICK may follow */
};

/* The caller, as far as a decision rests on it; what its roles allow, and the queues that are named, was judged before
 * the event was made (broker/access). The core looks at what only it knows: the queue of a task that is meant by its
 * id, and whose a session, a lease and a producer are. NULL: any caller, which may do everything. */
struct core_caller {
    const char *name;     /* the principal's, PRINCIPAL_SIZE_MAX bytes at most: for records; "": a local one */
    const char *prefixes; /* of the queues that it is confined to, one after the other, each terminated */
    size_t prefix_count;  /* 0: none, it may use all */
    bool acts_for_all;    /* others' sessions, leases and producers are its own, too */
    bool is_broker;       /* this broker itself: the only one that may use its own queues (queue_is_reserved) */
    /* What it may have at once; 0: no limit of its own. */
    uint64_t sessions_max;
    uint64_t queues_max;    /* queues that it has created; and, counted apart, that its consumers wait for */
    uint64_t producers_max; /* beyond it its own that has been idle longest goes */
    uint64_t pending_max;   /* tasks in its queues, waiting or in flight */
};

/* A content of a schedule operation, prepared by the shell: salt ‖ packed Content. */
struct core_content {
    const void *data; /* only passed through */
    uint32_t size;
    uint64_t sum;
    uint8_t hash[CONTENT_HASH_SIZE];
    const char *problem; /* check_op's sentence: this operation is to be refused with it; NULL: fine */
    Tarry__Code code;    /* valid with `problem` */
};

/* A task that a redact operation means, as the shell found it in log and archive; what ended there, the core can tell.
 */
struct core_past_task {
    uint64_t id;
    uint32_t queue;
    uint64_t scheduled_ms;
    uint64_t frame; /* that brought the content; 0: it is not there any more, and content_hash is void */
    uint64_t blob_at;
    uint32_t blob_size;
    uint8_t key_size;
    const char *key;
    uint8_t content_hash[CONTENT_HASH_SIZE];
    uint64_t redacted_at; /* position of the frame that says so already; 0: none does */
};
struct core_past { /* of one operation, in order of id; REDACT_TASKS_MAX at most */
    struct core_past_task *tasks;
    size_t count;
    uint64_t id_end; /* tasks from here on may have been too young to be found */
    bool is_former;  /* a queue has the name that is asked for, or had it */
    bool no_room;    /* operations before it took all that a commit may redact: it was not searched for */
};

/* Rows that the shell read for the event, as of `position`. */
struct core_facts {
    const struct row *rows;
    size_t count;
    const struct want *wants; /* what was asked: anything wanted and not in rows is not in the index */
    size_t want_count;
};

/* How much falls due when, as the shell read it from the index (core_plan_calendar). */
enum core_calendar_found {
    CALENDAR_FOUND,
    CALENDAR_BEHIND,   /* the index does not have yet what was recorded when the question came */
    CALENDAR_COUNTING, /* it is counted anew, after an older program; tasks with ids below `counted` are, of those below
                          `next_id` */
    CALENDAR_TOO_MUCH, /* to be read at once */
};
struct core_calendar {
    /* what is asked */
    uint64_t from_ms;
    uint64_t step_ms;
    uint32_t span_count;
    bool of_all; /* all queues together; otherwise those below */
    bool by_queue;
    uint32_t *queues; /* numbers */
    size_t queue_count;
    /* what was found */
    enum core_calendar_found found;
    const uint64_t *counts;          /* one a span */
    const uint64_t *counts_by_queue; /* beside `queues` */
    uint64_t before, after;
    uint64_t position;
    uint64_t at_ms;
    uint64_t counted;
    uint64_t next_id;
};

/* What one address did since the last record of it (tarry.proto, AccessRefused). */
struct core_refusal {
    Tarry__AccessRefused__Why why;
    const char *address;
    const char *principal; /* "": not known, or a local one */
    const char *what;      /* ROLE_LACKS; otherwise "" */
    uint64_t count;
    uint64_t first_ago_ms; /* before event.now */
    uint64_t last_ago_ms;
};

struct core_event {
    enum core_event_kind kind;
    bool behind; /* `now` is a while ago, and more waits: deliveries wait too, or their leases would begin then */
    bool full;   /* too much is on its way out: no delivery begins. A TICK follows once that is over */
    struct instant now; /* when it was received: what was due before that comes first, and nothing else (TIME-2) */
    uint64_t age_ns;    /* how long ago that was */
    uint64_t late_ns;   /* it may have come so much after `now`: what it wants "in so long" counts from then (TIME-1) */
    uint64_t ticket;    /* comes back in the reply; 0: no reply wanted */
    const Tarry__Request *request;    /* requests; checked by check.h */
    const char *who;                  /* START, CLOSE: the system's user that did it; NULL: not known */
    const struct core_caller *caller; /* requests; NULL: any caller */
    const char *peer; /* requests: the client's network address, at most PEER_SIZE_MAX bytes; NULL: not known */
    const struct core_content *contents; /* CORE_COMMIT: one per op, in order; size 0 for ops that are not schedules */
    struct core_facts facts;
    const struct core_past *past; /* COMMIT with redact operations: one per op, in order; otherwise NULL */
    uint32_t look;                /* LIST, STATS: core_look's; 0: it has not begun */
    uint64_t session; /* LANE_UP, LANE_GONE, LANE_SENT, CREDIT; SUBSCRIBE: a resumed one (its secret was checked), 0:
                         none */
    /* SUBSCRIBE: many take turns behind the session (broker/gateway): it gets what it has credit for, silence does not
     * end it, and its leases last until their deadlines, over a restart too (broker/gateway/README.md). */
    bool pooled;
    uint32_t credit;                /* CREDIT */
    bool ok;                        /* LANE_SENT */
    uint64_t position;              /* DURABLE, INDEXED */
    const Tarry__AlonePut *alone;   /* ALONE; `request`, `peer` and `caller` say which client told it to, if one did */
    uint64_t delivered_ns;          /* LANE_SENT: logical steady time when it was sent, for the lateness statistics */
    uint32_t epoch;                 /* START */
    Tarry__EpochPut__Before before; /* START: how the log ended until now */
    bool clock_accepted;            /* START: an operator accepted a jump of the wall clock, to event.now (TIME-2) */
    bool more; /* WINDOW: a piece of a load: `through` is its last row's, and other pieces follow */
    /* WINDOW, PAGE: the answer to the effect of the same name. LIST: the page that was read. */
    const struct row *rows;
    size_t row_count;
    struct due through;                  /* WINDOW, LIST */
    struct line line;                    /* WINDOW */
    const struct core_refusal *refusals; /* REFUSED */
    size_t refusal_count;
    uint64_t job;                         /* PAGE */
    uint64_t next_id;                     /* PAGE */
    const struct core_calendar *calendar; /* CALENDAR */
    Tarry__BrokerStats *broker;           /* STATS: filled in by the shell but for what the core knows */
};

/* ---- effects: everything lives in the arena until the shell resets it */
struct core_append { /* one frame; positions are given by the core, without gaps */
    uint64_t position;
    uint16_t type;
    uint32_t epoch;
    struct instant now;
    const uint8_t *body;
    uint32_t body_size;
    const struct core_content **contents; /* those of the event that were accepted, in order */
    size_t content_count;
};

struct core_reply { /* leaves once the log is durable up to `after` (LOG-1) */
    uint64_t ticket;
    uint64_t after;
    const Tarry__Reply *reply; /* or … */
    const uint8_t *commit;     /* … a packed CommitReply (code OK) … */
    size_t commit_size;
    uint64_t repeat_position; /* … or read it from the frame at this position (a retry, ONCE-1); 0: none */
    uint64_t repeat_producer;
    uint64_t repeat_sequence;
    const struct row *content; /* GET with_content: whose content the shell adds to reply->get->task; NULL: none */
};

struct core_delivered {
    struct row row; /* leased; key in the arena */
    const char *queue_name;
};

struct core_delivery { /* one message; leaves once the log is durable up to `after` */
    uint64_t session;
    uint32_t lane;
    uint64_t turn; /* of the lane; the shell's to fill in */
    uint64_t after;
    const struct core_delivered *tasks;
    size_t count;
    bool departs; /* leased ahead of time, due now: no sync is needed but for `after`, which is most likely reached */
};

struct core_window { /* load the near window of a line: answer with CORE_WINDOW */
    struct line line;
    struct due after;
    uint64_t until_ms;
    size_t count_max;
};

struct core_page { /* read rows of a queue in order of id: answer with CORE_PAGE */
    uint64_t job;
    uint32_t queue;
    uint64_t after_id;
    uint64_t id_end;
    size_t count_max;
};

struct core_lane { /* open (expect the session's pipe) or close (drop its pipe, cancel what is queued) */
    uint64_t session;
    uint32_t lane;
    bool open;
    const char *principal; /* open: whose the session is; valid until the next step */
};

struct core_low { /* everything of the line below `low` is gone from it: advice to the index */
    struct line line;
    struct due low;
};

#define EFFECT_LIST(type)                                                                                              \
    struct {                                                                                                           \
        type *items;                                                                                                   \
        size_t count;                                                                                                  \
        size_t capacity;                                                                                               \
    }

struct core_effects {
    struct arena *arena; /* set by the shell */
    EFFECT_LIST(struct core_append)
    appends;
    EFFECT_LIST(struct core_reply)
    replies;
    EFFECT_LIST(struct core_delivery)
    deliveries;
    EFFECT_LIST(struct core_window)
    windows;
    EFFECT_LIST(struct core_page)
    pages;
    EFFECT_LIST(struct core_lane)
    lanes;
    EFFECT_LIST(struct core_low)
    lows;
};

void core_effects_init(struct core_effects *effects, struct arena *arena);
/* Forgets everything and resets the arena. */
void core_effects_reset(struct core_effects *effects);

/* ---- the interface */
/* What the event needs to know that memory does not hold. Fills `wants` (in `arena`, keys borrowed from the event) and
 * returns how many; 0: step at once. `filter` is asked for keys before they are wanted (NULL: everything may exist).
 * COMMIT, GET and PAGE may want (LIST: see core_plan_list). Facts already in the event count as known, so a caller
 * loops until it returns 0. */
struct core_filter {
    bool (*may_exist)(const void *keys, uint64_t key_hash);
    void (*prefetch)(const void *keys, uint64_t key_hash); /* it will be asked soon; NULL: that is no use */
    const void *keys;
};
#define WANTS_NO_MEMORY SIZE_MAX /* `arena` is exhausted */
size_t core_wants(struct core *core, const struct core_event *event, struct arena *arena,
                  const struct core_filter *filter, struct want **out_wants);
/* Facts are about to be read for an event: what the index has not absorbed by now stays in memory until core_unhold
 * with the same handle. -1: too many under way (answer BUSY). core_deadline may be another one afterwards. */
int core_hold(struct core *core);
void core_unhold(struct core *core, int hold);

/* What takes long to answer is looked into in pieces before its step, so that none is long: LIST, once it has its page
 * and a hold, and STATS. True: now it is to be stepped. False: call it again, other events may come in between. Once it
 * has begun (event->look) it is ended by core_look_end, after the step or instead of it. A step without looking gives
 * the same answer, in one long step. */
bool core_look(struct core *core, struct core_event *event);
void core_look_end(struct core *core, struct core_event *event);

/* One event in, effects out (added to what is there). Never waits, never fails. */
void core_step(struct core *core, const struct core_event *event, struct core_effects *effects);
/* When it next wants a tick: logical steady ms; UINT64_MAX: not before the next event. */
uint64_t core_deadline(const struct core *core);
/* Order-free hash of the whole logical state, at core_position (DESIGN.md, Digest). */
uint64_t core_digest(const struct core *core);
uint64_t core_position(const struct core *core); /* where the next frame goes */
uint64_t core_live(const struct core *core);     /* pending, ready and in flight */
/* What the shell reads from the index for a List request (in the order of (due, id)), before it hands the page in with
 * CORE_LIST. */
struct core_list_plan {
    uint32_t queue;  /* 0: there is no such queue; step without a page */
    uint32_t states; /* mask 1 << enum row_state */
    uint64_t due_from_ms;
    uint64_t due_to_ms; /* exclusive */
    const char *prefix; /* borrowed from the request */
    size_t prefix_size;
    struct due after;
    size_t count_max;
};
/* The number of a queue, for the shell's search for what a redact operation means; 0: there is no such queue. */
uint32_t core_queue_number(const struct core *core, const char *name);
/* It has another value as soon as a queue is pushed elsewhere than before, or no more. The thread that steps the core.
 */
uint64_t core_push_version(const struct core *core);
/* Likewise: no task that is recorded below core_position has this id or a larger one. */
uint64_t core_id_end(const struct core *core);
void core_plan_list(const struct core *core, const Tarry__List *list, struct core_list_plan *out);
/* Once core_look has said true of a LIST: its page has room for more than what was read and matched, and the index may
 * have some: *out says what to read next, and event.rows and .through then tell of both. The look begins anew. */
bool core_list_goes_on(const struct core *core, const struct core_event *event, struct core_list_plan *out);
/* What the shell reads from the index for a Calendar request, once that has all that is recorded by now; handed in with
 * CORE_CALENDAR. Without a queue where one is named there is nothing to be read. False: out of memory. */
bool core_plan_calendar(const struct core *core, const struct core_event *event, struct arena *arena,
                        struct core_calendar *out);
/* How long a nack without a delay of its own puts the task off: a function of these alone, so that a reader of the log
 * can tell. Pure. */
uint64_t backoff_ms(const Tarry__Policy *policy, uint64_t id, uint32_t attempt);
/* Asserts every invariant; O(tasks in memory). For tests and the simulator. */
void core_check(const struct core *core);

#endif
