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
/* Maximum time until a higher durable position is handled. A new position wakes no thread, which saves two context
 * switches per commit. */
#define TURN_DURABLE_NS 10000000ull
/* Time for answering requests after the order to stop. The last record may take twice this time. */
#define TURN_DRAIN_MAX_MS 3000u
/* Size of a batch at which it is flushed even if more items wait. */
#define TURN_BATCH_BYTES_MAX (8u << 20)
#define TURN_BATCH_EVENTS_MAX 256u
/* Maximum number of batches that are being filled or written. A higher number would not help, because all are in use
 * only when the disk is slow. In that case further decisions join the last batch. The caller delays its TURN_FLUSH
 * until another batch is free, or until this batch is large; the core waits after that. */
#define TURN_BATCHES_MAX 16u

/* Input of a turn. Positions are numbers and not items, because only the latest position counts. Times are of
 * CLOCK_BOOTTIME. */
struct turn_load {
    struct item *first; /* the received items, in order of arrival */
    uint64_t taken_ns;  /* everything received before this time is in this load or an earlier one */
    uint64_t late_ns;   /* events of this load may have arrived up to this many ns after `taken_ns` */
    uint64_t settle_ns; /* if the process was stopped: time in ns until taken_ns advances, unless an item arrives
                           before; 0: the process was not stopped */
    uint64_t durable;   /* the log is durable up to here on every node that must have it */
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
    TURN_TAKE,         /* step the event of `item`, unless it first needs data (engine_request.h) */
    TURN_REFUSE,       /* refuse the call `item` as busy, because another node takes over; engine_request_end */
    TURN_DROP,   /* drop `item`, which came too late; its caller learns that the broker stops; engine_request_end */
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
    bool closed; /* after a stop, the last record was written (a seal may follow): the core gets only positions and
                    ticks */
    uint64_t stop_ms;

    struct turn_load load;
    int phase;
    bool entered;  /* the present phase has only one effect, which was already returned */
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
/* Returns true if another batch may be filled. `batches` is the number of batches being written. After an order to
 * stop, the core waits for no batch: a follower that is gone may block them forever, and few decisions follow. */
bool core_turn_may_fill(unsigned batches, bool stops);
/* Prepares an event that begins or ends a run. Its time is the present: unlike a client's request, it cannot have
 * arrived while the process was stopped. The caller must flush if the event has effects. */
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
/* Returns the time at which an event is stepped: the time of its receipt. The core uses the later one of this and its
 * own time (TIME-2). */
struct instant core_turn_time(const struct core_turn *turn, const struct turn_now *now);
/* Returns the age in ns, at `now`, of the time that core_turn_time returns. */
uint64_t core_turn_age_ns(const struct core_turn *turn, const struct turn_now *now);

/* Returns how long the core can sleep unless something arrives: until its deadline, or `settle_ns` after the process
 * was stopped. UINT64_MAX: forever; 0: work is due. */
uint64_t core_turn_wait_ns(const struct core_turn *turn, const struct turn_now *now, uint64_t settle_ns);
/* Returns the result of core_turn_wait_ns, limited to the time at which a driver must read its clocks again. */
uint64_t core_turn_idle_ns(const struct core_turn *turn, const struct turn_now *now);
/* Returns true if another thread may step a call in place of the sleeping core thread (inbox_borrow). */
bool core_turn_may_lend(const struct core_turn *turn);

/* Returns how to continue after a turn. GOES_ON: continue, also while requests drain. CLOSES (returned once): call
 * core_turn_begin, step CORE_CLOSE by core_turn_step, and flush. IS_OVER: everything promised is durable, and the log
 * records its end if this node may write. `is_busy`: a caller still waits for a reply. `now_ms`: of a monotonic clock.
 */
enum turn_end core_turn_end(struct core_turn *turn, uint64_t now_ms, bool is_busy);

#endif
