/* core_turn.h: one turn of the core: its events, their order and time, and the handling of its effects.
 *
 * The caller passes the load (items, positions, orders) to core_turn_take, and then executes each effect that
 * core_turn_next returns. A turn handles everything that arrived since the last turn, in this order:
 *
 *   1. the durable position of the log and the index's position (LOG-3: the filter of keys is renewed first)
 *   2. in a pair: the frames that another node decided, and the start of leading
 *   3. the items in order of arrival, each as of the time at which it was received
 *   4. result pages that found no free hold
 *   5. a pause or its end; at the end, the items deferred during the pause
 *   6. in a pair: whether this node serves alone
 *   7. a stop
 *   8. expired timers
 *   9. TURN_FLUSH: the batch goes to the log; a large batch goes earlier. TURN_FILL follows: an empty batch is taken
 *      as soon as one of TURN_BATCHES_MAX is free
 *
 * An item is judged by the time at which it was received. Otherwise a slow disk could let a lease expire before the
 * core sees an ack that arrived in time (TIME-2). So timers expire only after all earlier items were handled. If the
 * core is TURN_BEHIND_NS or more behind, only every other tick leases tasks.
 *
 * Only core_turn_step steps the core. One thread, which owns the core. Allocates nothing. */
#ifndef TARRY_ENGINE_CORE_TURN_H
#define TARRY_ENGINE_CORE_TURN_H

#include "engine_request.h"
#include "index_schedule.h"

/* Maximum time between two readings of the clocks, so that an idle broker notices a jump of the wall clock or a
 * suspended machine. */
#define TURN_CLOCK_LOOK_NS 1000000000ull
/* Age of an event in ns above which its step leases no task: an ack of a leased task may be among the waiting events.
 */
#define TURN_BEHIND_NS 100000000ull
/* Maximum time in ns between an advance of the log's durable position and its handling. The advance does not wake the
 * core thread; that saves two context switches per commit. */
#define TURN_DURABLE_NS 10000000ull
/* Time for answering requests after the order to stop. The last record may take twice this time. */
#define TURN_DRAIN_MAX_MS 3000u
/* Size of a batch at which it is flushed even if more items wait. */
#define TURN_BATCH_BYTES_MAX (8u << 20)
#define TURN_BATCH_EVENTS_MAX 256u
/* Maximum number of batches that are being filled or written. A higher number would not help, because only a slow disk
 * keeps all batches in use. In that case further decisions join the last batch, and the caller delays its TURN_FLUSH
 * until another batch is free. When the last batch has become large, the core waits. */
#define TURN_BATCHES_MAX 16u

/* Input of a turn. Positions are numbers and not items, because only the latest position counts. Times are of
 * CLOCK_BOOTTIME. */
struct turn_load {
    struct item *first; /* the received items, in order of arrival */
    uint64_t taken_ns;  /* everything received before this time is in this load or an earlier one */
    uint64_t late_ns;   /* maximum delay in ns between `taken_ns` and the real arrival of an event of this load */
    /* After a pause of the process: time in ns for which the caller keeps `taken_ns` unchanged; an item that arrives
     * ends this earlier. 0: no pause. */
    uint64_t settle_ns;
    uint64_t durable; /* the log is durable up to here on every node that must have it */
    uint64_t indexed;
    uint64_t follow_to; /* apply another node's frames up to this position */
    bool lead;          /* true: lead after the frames up to `follow_to` are applied */
    bool pause;         /* decide nothing until the order is withdrawn */
    bool stop;          /* an orderly stop was ordered */
};

struct turn_now { /* data that the caller supplies for a step of the core */
    struct instant logical;
    uint64_t boot_ns; /* CLOCK_BOOTTIME */
    bool no_room;     /* the disk has no room for new tasks: recurrences wait (core_recurs) */
    bool full;        /* too much data is being sent: lease nothing more */
};

enum turn_effect {
    TURN_DONE,
    TURN_STEP,         /* step `event` by core_turn_step */
    TURN_RENEW_FILTER, /* renew the filter of keys, to the state of load.indexed or later */
    TURN_APPLY,        /* apply another node's frames up to load.follow_to, and call core_turn_applied */
    TURN_LEAD,         /* stop applying and lead: call core_turn_begin, step CORE_START by core_turn_step, and flush */
    TURN_TAKE,         /* pass the event of `item` to the core, unless it needs data first (engine_request.h) */
    TURN_REFUSE,       /* reply BUSY to the call `item`, because another node takes over, and call engine_request_end */
    /* Tell the caller of `item` that the broker stops, because the item came too late, and call engine_request_end. */
    TURN_DROP,
    TURN_ALONE,  /* record whether this node serves alone, if that changed */
    TURN_LOOK,   /* read the clocks and call core_turn_look */
    TURN_FLUSH,  /* send the batch to the log and its effects to their receivers, and call core_turn_flushed */
    TURN_FILL,   /* wait until another batch is free (core_turn_may_fill), and call core_turn_fill */
    TURN_PAUSED, /* report that decisions are paused and that everything decided, up to `position`, is durable */
};

enum turn_end { TURN_GOES_ON, TURN_CLOSES, TURN_IS_OVER };

struct core_turn {
    struct core *core;
    struct core_effects *effects; /* effects of the batch being filled; NULL: no batch */
    size_t events;                /* number of events whose effects are in the batch */
    bool is_pair;
    bool inspects;
    bool follows; /* another node decides, and this node follows */

    uint64_t at_ns;   /* CLOCK_BOOTTIME of the step; everything received earlier was handled */
    uint64_t late_ns; /* the stepped event may have arrived up to this many ns later (stall.h) */
    bool was_full;    /* the last step ran while too much data was being sent */
    bool was_behind;  /* the last tick delivered nothing, because the core was behind */
    uint64_t durable; /* last durable position given to the core */
    struct index_news index_news;
    struct item *starved; /* requests for result pages that wait for a free hold */
    struct item *put_off; /* items that need a decision and wait for the end of a pause */
    struct item **put_off_last;
    bool paused, pause_told;
    bool stopping;
    /* The last record before a stop was written (a seal may follow); from now on the core gets only positions and
     * ticks. */
    bool closed;
    uint64_t stop_ms;

    struct turn_load load;
    int phase;
    bool entered;  /* the effect of the present phase was already returned; set in phases that have only one effect */
    bool more;     /* true: more work must be done at once */
    bool is_due;   /* a tick of the core is due */
    bool is_taken; /* an item was taken since the last check of the batch */
    struct item *next;
    struct item *item;
    struct core_event event;
    uint64_t position;
};

/* Initialises a turn. `durable`: durable end of the log; `indexed`: position of the index. The caller then sets
 * `is_pair`, `inspects` and `follows`, and calls core_turn_fill. */
void core_turn_init(struct core_turn *out, struct core *core, uint64_t durable, uint64_t indexed);
/* Starts an empty batch. `effects` must stay valid until the next call. */
void core_turn_fill(struct core_turn *turn, struct core_effects *effects);
void core_turn_flushed(struct core_turn *turn);
/* Returns true if another batch may be filled. `batches` is the number of batches being written. During a stop the
 * answer is always true: a follower that is gone could block the batches forever, and a stop causes few decisions. */
bool core_turn_may_fill(unsigned batches, bool stops);
/* Prepares an event that begins or ends the serving of this process (for example CORE_START and CORE_CLOSE). The event
 * gets the present time. A client's request may have arrived while the process was paused; such an event cannot. The
 * caller must flush if the event has effects. */
void core_turn_begin(struct core_turn *turn, uint64_t boot_ns);

/* Returns true if the batch has appends for the log or replies for waiting callers. */
bool core_turn_has_effects(const struct core_turn *turn);
/* Returns true if the batch must be flushed even if more items wait. */
bool core_turn_is_large(const struct core_turn *turn);

void core_turn_take(struct core_turn *turn, const struct turn_load *load);
enum turn_effect core_turn_next(struct core_turn *turn);
/* Call after TURN_APPLY. `more`: more frames can be applied at once. */
void core_turn_applied(struct core_turn *turn, bool more);
/* Defers a result page that needs ENGINE_REQUEST_HOLD to the next turn. */
void core_turn_starve(struct core_turn *turn, struct item *item);

/* Steps the core; no other function does. Fills in event->now, late_ns, behind and full. */
void core_turn_step(struct core_turn *turn, struct core_event *event, const struct turn_now *now);
/* Returns true if a tick is due, and everything received before its time was handled. */
bool core_turn_is_due(const struct core_turn *turn, const struct turn_now *now);
/* Call after TURN_LOOK. If timers have expired, they are handled next. */
void core_turn_look(struct core_turn *turn, const struct turn_now *now);
/* Returns the time at which the current item was received. The core uses this time or its own time, whichever is later
 * (TIME-2). */
struct instant core_turn_time(const struct core_turn *turn, const struct turn_now *now);
/* Returns how many ns before `now` the time of core_turn_time lies. */
uint64_t core_turn_age_ns(const struct core_turn *turn, const struct turn_now *now);

/* Returns how long the core can sleep unless something arrives: until its deadline, or `settle_ns` after the process
 * was stopped. UINT64_MAX: forever; 0: work is due. */
uint64_t core_turn_wait_ns(const struct core_turn *turn, const struct turn_now *now, uint64_t settle_ns);
/* Returns the result of core_turn_wait_ns, limited to the time at which a driver must read its clocks again. */
uint64_t core_turn_idle_ns(const struct core_turn *turn, const struct turn_now *now);
/* Returns true if another thread may step a call in place of the sleeping core thread (inbox_borrow). */
bool core_turn_may_lend(const struct core_turn *turn);

/* Returns how to continue after a turn. GOES_ON: continue; also returned during a stop while requests are unanswered.
 * CLOSES (returned once): call core_turn_begin, pass CORE_CLOSE to core_turn_step, and flush. IS_OVER: everything
 * promised is durable, and the log records its end if this node may write it. `is_busy` is true while a caller waits
 * for a reply. `now_ms` is of a monotonic clock. */
enum turn_end core_turn_end(struct core_turn *turn, uint64_t now_ms, bool is_busy);

#endif
