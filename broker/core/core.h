/* core.h: interface of the core, the deterministic state machine that makes all decisions.
 *
 * The shell passes events to the core. core_wants says which rows of the index the core needs for an event, and the
 * shell reads them. core_step processes the event and returns effects, which the shell carries out. Inside a step,
 * `decide` turns a command into log records or a refusal, and reads the state only. Only `apply` changes the state
 * (LOG-2). Each event carries the time (TIME-2).
 *
 * The core does no I/O, reads no clock, starts no thread, has no global variable and allocates only at start. The real
 * shell, recovery and the simulator run the same core. */
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

/* Logical time. The shell's clock computes both values; neither ever decreases. */
struct instant {
    uint64_t steady_ns; /* time of the steady base: for delays and leases */
    uint64_t wall_ns;   /* time of the wall base: for absolute times */
};

/* Value that tarryd sets in core_options.ahead_ms. Most disk stalls are shorter (DESIGN.md, Leases ahead of time). */
#define LEASE_AHEAD_MS 50u

struct core_options {
    size_t memory;       /* maximum memory of tasks in bytes (near window and overlay) */
    size_t near_max;     /* maximum number of tasks in the near window (near.h); 0: only `memory` limits it */
    uint32_t work_max;   /* for tests: maximum number of tasks, lines or queues per part of a step; 0: see state.h */
    uint32_t queues_max; /* for tests: maximum number of clients' queues; 0: QUEUES_MAX */
    uint32_t outcomes_max;
    uint64_t outcome_retention_ms;
    uint64_t index_lag_max;  /* maximum number of records that are not in the index; above it, commits that schedule get
                                BUSY */
    uint64_t index_lag_hard; /* maximum number of records that are not in the index; above it, moves, cancels and new
                                leases are refused too */
    uint64_t ahead_ms;    /* time in ms before its due time at which a task may be leased (ahead.h); 0: never before */
    uint64_t salt;        /* random per process; only decides where keys and names lie in hash tables */
    bool create_queues;   /* true: a queue is created on first use; false: the reply is NO_SUCH_QUEUE */
    Tarry__Policy policy; /* policy of new queues */
    const char *version;
    const uint8_t *config_digest; /* digest of the configuration, recorded in the log: CONFIG_DIGEST_SIZE bytes; NULL:
                                     not recorded */
};

#define WINDOW_PIECE_MAX 1024u /* maximum number of rows in one CORE_WINDOW event, so that the step is short */

/* Allocates all memory of the core. Returns NULL if the system is out of memory. */
struct core *core_new(const struct core_options *options);
void core_free(struct core *core);

/* ---- recovery
 * Start order of a primary: 1. restore the state from the index; 2. replay the tail of the log; 3. CORE_START.
 * Start order of a follower: 1. restore; 2. CORE_FOLLOW; 3. replay while another node leads; 4. CORE_START. */
struct core_base { /* the state as of the index's position */
    uint64_t position;
    const struct tally *tally;
    uint64_t known_since_ms;
    struct instant then; /* time of the last frame; a follower answers no question as of an earlier time (TIME-2) */
};
void core_restore(struct core *core, const struct core_base *base);
int core_restore_queue(struct core *core, const Tarry__QueuePut *queue);
int core_restore_lease(struct core *core, const struct row *row);
/* Restores a producer; the order does not matter. `owner` is the result of principal_owner. */
int core_restore_producer(struct core *core, uint64_t producer, uint64_t used_ms, uint64_t floor, uint64_t owner);
int core_restore_result(struct core *core, uint64_t producer, uint64_t sequence, uint64_t position);
int core_restore_job(struct core *core, const Tarry__JobPut *job);
/* Restores a definition from the index. before_hash of the record must be 0. */
int core_restore_definition(struct core *core, const Tarry__DefinitionPut *put);
/* Restores a recurrence with its present state. `next`: row of the next occurrence's task; NULL: the task has ended. */
int core_restore_recur(struct core *core, const Tarry__RecurPut *put, const struct row *next, size_t open_live);
/* Restores an outcome. Call it for the oldest outcome first. */
int core_restore_outcome(struct core *core, const struct outcome *outcome);
enum core_replay_error {
    CORE_NONSENSE = -30001,  /* a record contradicts the state: damage or a bug; the broker must not start */
    CORE_NO_MEMORY = -30002, /* the records that the index has not absorbed do not fit into options.memory */
};
/* Applies one frame of the log. Returns 0 or an enum core_replay_error. After CORE_NO_MEMORY nothing has changed, and
 * the caller may replay the same frame again. */
int core_replay(struct core *core, const struct frame_header *header, const Tarry__FrameBody *body);
/* For a follower: returns false while memory is short. core_replay must then wait until the index absorbs more or
 * CORE_TICK frees memory. */
bool core_may_replay(const struct core *core);
/* Returns true, after CORE_NO_MEMORY, if memory can still become free, because the index has records to absorb or tasks
 * can be evicted. */
bool core_may_free(const struct core *core);

/* ---- events */
enum core_event_kind {
    CORE_START = 1, /* recovery is complete: this broker is primary with epoch `epoch` */
    CORE_TICK,      /* core_deadline has passed */
    CORE_REQUEST,   /* a request of a client that the core answers (BY_CORE in requests.def) */
    CORE_LANE_UP,   /* the session's connection was accepted on its lane */
    CORE_LANE_GONE, /* the session's connection has ended, or the session was silent for too long */
    CORE_LANE_SENT, /* the delivery on this lane was sent (ok), or certainly never will be (not ok) */
    CORE_CREDIT,    /* sets the task limit of each delivery to a pooled session to `credit` */
    CORE_DURABLE,   /* the log is durable up to `position` */
    CORE_INDEXED,   /* the index has absorbed the log up to `position` */
    CORE_WINDOW,    /* rows of a line's near window were read */
    CORE_PAGE,      /* rows for a job were read */
    CORE_STOP,      /* accept no new work; answer only what is durable */
    CORE_RESUME,    /* after CORE_STOP: accept work again */
    /* Sent instead of CORE_START, to read a stopped broker's data: the time stands still at the last frame, and nothing
     * is recorded. Only requests of CLASS_QUESTION, CORE_WINDOW and CORE_STOP may follow. */
    CORE_INSPECT,
    /* Makes this node a follower: another node writes the log, and core_replay applies its frames. Sent before or
     * instead of CORE_START. Until CORE_START, only requests of CLASS_QUESTION, CORE_DURABLE, CORE_INDEXED, CORE_TICK,
     * CORE_STOP and CORE_RESUME may follow. Questions are answered as of `event.now`. */
    CORE_FOLLOW,
    CORE_REFUSED, /* records in the log that clients were refused access */
    CORE_ALONE,   /* the leader of a pair starts or stops serving alone; `alone` is recorded unchanged. Not sent after
                     CORE_STOP */
    /* Sent after CORE_STOP: the core records the stop and then adds nothing more to the log. Only CORE_DURABLE,
     * CORE_INDEXED and CORE_TICK may follow. */
    CORE_CLOSE,
};

/* The caller's properties on which decisions depend. The shell (broker/access) has already checked the caller's roles
 * and the queues that the request names. The core checks what it alone knows: the queue of a task that the request
 * names by id, and the owners of sessions, leases and producers. A NULL pointer means a caller without any restriction.
 */
struct core_caller {
    const char *name;     /* the principal's name for records, at most PRINCIPAL_SIZE_MAX bytes; "": a local caller */
    const char *prefixes; /* prefixes of the allowed queues: NUL-terminated strings, one after another */
    size_t prefix_count;  /* number of prefixes; 0: the caller may use all queues */
    bool acts_for_all;    /* the caller may use the sessions, leases and producers of others */
    bool is_broker; /* the broker itself: the only caller that may use the broker's own queues (queue_is_reserved) */
    /* Maximum numbers of sessions, queues, producers and pending tasks of the caller; 0: no limit per caller. */
    uint64_t sessions_max;
    /* Maximum number of queues that the caller created; the same maximum holds for queues that its consumers wait
     * for. */
    uint64_t queues_max;
    uint64_t producers_max; /* above this number, the caller's producer that was idle longest is removed */
    uint64_t pending_max;   /* maximum number of tasks in the caller's queues, waiting or in flight */
};

/* Content of a schedule operation, prepared by the shell: salt ‖ packed Content. */
struct core_content {
    const void *data; /* the core does not read the bytes; it only passes the pointer on */
    uint32_t size;
    Tarry__Code code;    /* code of the problem; valid if `problem` is not NULL */
    const char *problem; /* error message of check_op; the core refuses the operation with it; NULL: none */
    uint64_t sum;
    uint8_t hash[CONTENT_HASH_SIZE];
};

/* A task that a redact operation names, as the shell found it in the log and the archive. The core adds how the task
 * ended. */
struct core_past_task {
    uint64_t id;
    uint32_t queue;
    uint64_t scheduled_ms;
    uint64_t frame; /* position of the frame with the content; 0: the content is gone, and content_hash is not valid */
    uint64_t blob_at;
    uint32_t blob_size;
    uint8_t key_size;
    const char *key;
    uint8_t content_hash[CONTENT_HASH_SIZE];
    uint64_t redacted_at; /* position of the frame that recorded the redaction; 0: not redacted yet */
};
struct core_past { /* past tasks of one operation, in order of id; at most REDACT_TASKS_MAX */
    struct core_past_task *tasks;
    size_t count;
    uint64_t id_end; /* upper bound of the search: tasks with this id or a larger one may be missing, because they were
                        too new */
    bool is_former;  /* a queue has the requested name now, or had it earlier */
    /* Earlier operations of the same commit found as many past tasks as one commit may use, so the shell did not search
     * for this operation. */
    bool no_room;
};

/* Rows that the shell read from the index for the event, as of `position`. */
struct core_facts {
    const struct row *rows;
    size_t count;
    /* Ids and keys that the shell searched for; if `rows` has no row for one of them, the index does not contain it. */
    const struct want *wants;
    size_t want_count;
};

/* Number of tasks that become due per time span, as the shell read it from the index (core_plan_calendar). */
enum core_calendar_found {
    CALENDAR_FOUND,
    CALENDAR_BEHIND, /* the index has not yet absorbed all that was recorded when the question arrived */
    /* The index counts all tasks again after an update of the program, and is not ready. It has counted the tasks with
     * ids below `counted`, and stops at `next_id`. */
    CALENDAR_COUNTING,
    CALENDAR_TOO_MUCH, /* the request needs more entries than one request may read */
};
struct core_calendar {
    /* the question */
    uint64_t from_ms;
    uint64_t step_ms;
    uint32_t span_count;
    bool of_all; /* true: the counts are of all queues together; false: of the queues in `queues` */
    bool by_queue;
    uint32_t *queues; /* queue numbers */
    size_t queue_count;
    /* the answer */
    enum core_calendar_found found;
    const uint64_t *counts;          /* number of tasks in each time span */
    const uint64_t *counts_by_queue; /* number of tasks of each entry of `queues` */
    uint64_t before, after;
    uint64_t position;
    uint64_t at_ms;
    uint64_t counted;
    uint64_t next_id;
};

/* Refusals of one address since its last record (tarry.proto, AccessRefused). */
struct core_refusal {
    Tarry__AccessRefused__Why why;
    const char *address;
    const char *principal; /* name of the principal; "": unknown, or a local principal */
    const char *what;      /* name of the rule for ROLE_LACKS; otherwise "" */
    uint64_t count;
    uint64_t first_ago_ms; /* time of the first refusal, in ms before event.now */
    uint64_t last_ago_ms;
};

struct core_request {                 /* REQUEST */
    uint64_t ticket;                  /* number that is copied into the reply; 0: no reply is wanted */
    const Tarry__Request *message;    /* the request, already checked by check.h */
    const struct core_caller *caller; /* the caller; NULL: it has no restrictions */
    const char *peer;                 /* the client's network address, at most PEER_SIZE_MAX bytes; NULL: not known */
    /* true: the client is a gateway, which shares one session among many clients. The session gets as many tasks as its
     * credit allows. Silence does not end the session. Its leases last until their deadlines, even across a restart,
     * unless the session is bound to the process (Subscribe.bound; broker/gateway/README.md). */
    bool pooled;
    struct core_facts facts; /* Commit, Get */
    uint32_t look;           /* List, Stats: handle of core_look; 0: core_look was not called yet */
    union {                  /* by message->body_case */
        struct { /* `list` is the union's largest member and must be first, because an initialiser that names no member
                    clears only the first */
            const struct row *rows;
            size_t row_count;
            struct due through;
        } list; /* List: the rows that were read for the request */
        struct {
            /* One content per operation, in order; its size is 0 if the operation is not a schedule. */
            const struct core_content *contents;
            /* With redact operations: one element per operation, in order; otherwise NULL. */
            const struct core_past *past;
        } commit;
        uint64_t resumed; /* Subscribe: the session to resume, whose secret was checked; 0: a new session */
        const struct core_calendar *calendar;
        Tarry__BrokerStats *broker; /* Stats: statistics that the shell has filled in; the core adds its own numbers */
    };
};

struct core_start { /* START */
    uint32_t epoch;
    Tarry__EpochPut__Before before; /* how the log ended in the last run */
    bool clock_accepted;            /* an operator accepted a jump of the wall clock to event.now (TIME-2) */
    const char *who;                /* the system user that started the broker; NULL: not known */
};

struct core_lane_news { /* data of LANE_UP, LANE_GONE, LANE_SENT and CREDIT */
    uint64_t session;
    bool ok;               /* LANE_SENT */
    uint64_t delivered_ns; /* LANE_SENT: logical steady time of sending, for the lateness statistics */
    uint32_t credit;       /* CREDIT */
};

struct core_loaded { /* data of WINDOW: rows that the effect core_window requested */
    struct line line;
    const struct row *rows;
    size_t row_count;
    struct due through;
    bool more; /* more parts of the window follow; `through` is the last row of this part */
};

struct core_paged { /* data of PAGE: rows that the effect core_page requested */
    uint64_t job;
    const struct row *rows;
    size_t row_count;
    uint64_t next_id;
    struct core_facts facts;
};

struct core_alone { /* ALONE */
    const Tarry__AlonePut *put;
    const struct core_request *by; /* the request that caused the event; NULL: none */
};

struct core_event {
    enum core_event_kind kind;
    /* `now` is older than the real time, because further events are queued. The core starts no delivery, because the
     * lease would begin in the past. */
    bool behind;
    bool no_room; /* the disk has no room for new tasks: no recurrence advances */
    bool full;    /* too much data is being sent, so no delivery starts. A TICK follows when this ends */
    /* Time at which the event was received. The core first handles all timers that expired before this time
     * (TIME-2). */
    struct instant now;
    uint64_t age_ns; /* age of `now` in ns */
    /* Maximum delay in ns between `now` and the event's real arrival. Delays in the event (such as delay_ms) count from
     * `now` + `late_ns` (TIME-1). */
    uint64_t late_ns;
    union { /* data of the event by kind; a kind without a member here has no data */
        /* `request` is the union's largest member and must be first, because an initialiser that names no member clears
         * only the first. */
        struct core_request request;
        struct core_start start;
        struct core_lane_news lane;
        struct core_loaded window;
        struct core_paged page;
        struct core_alone alone;
        struct {
            const struct core_refusal *items;
            size_t count;
        } refused;         /* REFUSED */
        uint64_t position; /* DURABLE, INDEXED */
        const char *who;   /* CLOSE: the system user that stopped the broker; NULL: not known */
    };
};

/* Returns the rows that the shell read for an event of kind REQUEST or PAGE (core_wants). */
static inline struct core_facts *core_facts_of(struct core_event *event) {
    return event->kind == CORE_PAGE ? &event->page.facts : &event->request.facts;
}

/* ---- effects: all of them live in the arena until the shell resets it */
struct core_append { /* one frame to append; its position follows the last frame without a gap */
    uint64_t position;
    uint16_t type;
    uint32_t epoch;
    struct instant now;
    const uint8_t *body;
    uint32_t body_size;
    const struct core_content **contents; /* accepted contents of the event, in the order of its operations */
    size_t content_count;
};

struct core_reply { /* a reply; may be sent once the log is durable up to `after` (LOG-1) */
    uint64_t ticket;
    uint64_t after;
    const Tarry__Reply *reply; /* the reply, if neither `commit` nor `repeat_position` is set */
    const uint8_t *commit;     /* the reply: a packed CommitReply with code OK */
    size_t commit_size;
    /* Position of the frame that contains the reply to repeat (a retry, ONCE-1); 0: no repeat. */
    uint64_t repeat_position;
    uint64_t repeat_producer;
    uint64_t repeat_sequence;
    const struct row *content; /* GET with_content: the shell adds this row's content to reply->get->task; NULL: none */
};

struct core_delivered {
    struct row row; /* the leased row; its key is in the arena */
    const char *queue_name;
};

struct core_delivery { /* one message to a consumer; may be sent once the log is durable up to `after` */
    uint64_t session;
    uint32_t lane;
    /* Number of the lane's current owner (`lanes_turn` in lanes.h), set by the shell; it changes when another session
     * gets the lane. */
    uint64_t turn;
    uint64_t after;
    const struct core_delivered *tasks;
    size_t count;
    /* The tasks were leased ahead of time and are due now. The lease was recorded earlier, so the log is almost always
     * durable up to `after` already. */
    bool departs;
};

struct core_window { /* request to load the near window of a line; the shell answers with CORE_WINDOW */
    struct line line;
    struct due after;
    uint64_t until_ms;
    size_t count_max;
};

struct core_page { /* request to read rows of a queue in order of id; the shell answers with CORE_PAGE */
    uint64_t job;
    uint32_t queue;
    uint64_t after_id;
    uint64_t id_end;
    size_t count_max;
};

struct core_lane { /* request to open a lane for the session's connection, or to close it and cancel its queued
                      deliveries */
    uint64_t session;
    uint32_t lane;
    bool open;
    const char *principal; /* with open: principal of the session; valid until the next step */
};

struct core_low { /* hint for the index: all rows of the line that come before `low` are gone */
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
    struct arena *arena; /* memory of the effects; set by the shell */
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
/* Removes all effects and resets the arena. */
void core_effects_reset(struct core_effects *effects);

/* ---- the interface */
/* Computes which rows the event needs from the index, because memory does not contain them. Writes them to `wants` (in
 * `arena`; keys are borrowed from the event) and returns their number. Returns 0 if the event can be stepped now. For
 * each key, `filter` is asked first whether the key may exist; if `filter` is NULL, every key may exist. Only a Commit,
 * a Get and a PAGE may need rows; core_plan_list serves a List. Rows in the event's facts are not requested again. The
 * caller repeats the call until it returns 0. */
struct core_filter {
    bool (*may_exist)(const void *keys, uint64_t key_hash);
    /* Announces a later call of may_exist; NULL: no announcement is needed. */
    void (*prefetch)(const void *keys, uint64_t key_hash);
    const void *keys;
};
#define WANTS_NO_MEMORY SIZE_MAX /* result of core_wants: `arena` is exhausted */
size_t core_wants(struct core *core, const struct core_event *event, struct arena *arena,
                  const struct core_filter *filter, struct want **out_wants);
/* Makes the core keep all records in memory that the index has not absorbed now, until core_unhold is called with the
 * same handle. Call it before the shell reads facts for an event. Returns -1 if too many holds are active (reply BUSY).
 * May change core_deadline. */
int core_hold(struct core *core);
void core_unhold(struct core *core, int hold);

/* Does the long work of a List or a Stats in short pieces before the step. A List needs its rows and a hold first.
 * Returns false if the caller must call it again; the caller may step other events between two calls. Returns true when
 * the caller must step this event. Once request.look is set, the caller must call core_look_end, after the step or
 * instead of the step. A step without core_look gives the same answer, but takes long. */
bool core_look(struct core *core, struct core_event *event);
void core_look_end(struct core *core, struct core_event *event);

/* Processes one event and adds its effects to `effects`. Never waits and never fails. */
void core_step(struct core *core, const struct core_event *event, struct core_effects *effects);
/* Returns the logical steady time in ms at which the core needs the next TICK; UINT64_MAX: not before the next event.
 */
uint64_t core_deadline(const struct core *core);
/* Returns a hash of the whole logical state at core_position; it does not depend on the order of the parts (DESIGN.md,
 * Digest). */
uint64_t core_digest(const struct core *core);
/* Returns true if a recurrence has an occurrence that is due at this time. The shell must then set core_event.no_room
 * in the next event. */
bool core_recurs(const struct core *core, const struct instant *now);
uint64_t core_position(const struct core *core); /* log position of the next frame */
uint64_t core_live(const struct core *core);     /* number of tasks pending, ready and in flight */
/* Describes what the shell must read from the index for a List request, in order of (due, id), before it sends the
 * request with the rows. */
struct core_list_plan {
    uint32_t queue;  /* number of the queue; 0: it does not exist, so step without rows */
    uint32_t states; /* wanted states, as a mask of 1 << enum row_state */
    uint64_t due_from_ms;
    uint64_t due_to_ms; /* exclusive */
    const char *prefix; /* prefix of the wanted keys; borrowed from the request */
    size_t prefix_size;
    struct due after;
    size_t count_max;
};
/* Returns the number of a queue, for the shell's search for tasks to redact; 0: the queue does not exist. */
uint32_t core_queue_number(const struct core *core, const char *name);
/* Returns a version that changes when the push URL of any queue changes. Call it on the thread that steps the core. */
uint64_t core_push_version(const struct core *core);
/* Returns true if a queue has groups. Call it on the thread that steps the core. */
bool core_has_groups(const struct core *core);
/* Returns an upper bound of task ids: no task recorded below core_position has this id or a larger one. Call it on the
 * thread that steps the core. */
uint64_t core_id_end(const struct core *core);
void core_plan_list(const struct core *core, const Tarry__List *list, struct core_list_plan *out);
/* Returns true if a List's result page has space left and the index may contain more matching rows. Call it when
 * core_look has returned true. `*out` then says which rows the shell must read next. The shell appends them to
 * list.rows, advances list.through, and calls core_look from the start. */
bool core_list_goes_on(const struct core *core, const struct core_request *request, struct core_list_plan *out);
/* Computes what the shell must read from the index for a Calendar request, once the index has absorbed all that is
 * recorded now. The shell sends the result with the request. If the named queue does not exist, nothing is read.
 * Returns false if `arena` is exhausted. */
bool core_plan_calendar(const struct core *core, const struct core_request *request, struct arena *arena,
                        struct core_calendar *out);
/* Returns the delay after a nack that names no delay. It depends on the arguments only, so that a reader of the log can
 * compute it. `own_ms`: the task's own backoff. */
uint64_t backoff_ms(const Tarry__Policy *policy, uint32_t own_ms, uint64_t id, uint32_t attempt);
/* Returns the number of failed attempts after which a task becomes a dead letter (OWN-1); 0: never. `own`: the task's
 * own max_attempts. */
static inline uint32_t attempts_max(const Tarry__Policy *policy, uint32_t own) {
    return own ? own : policy->max_attempts;
}
/* Asserts every invariant; takes O(tasks in memory). For tests and the simulator. */
void core_check(const struct core *core);

#endif
