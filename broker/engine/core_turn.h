/* core_turn.h: one turn of the core: its events, their order and time, and the handling of its effects.
 *
 *   load (items, positions, orders) ─► core_turn_take ─► core_turn_next ─► an effect, which the caller executes ─► …
 *
 * A turn handles everything that arrived since the last turn, in this order:
 *
 *   1. the durable position of the log and the index's position (LOG-3: the filter of keys is renewed first)
 *   2. in a pair: the frames that another node decided, and the start of leading
 *   3. the items in order of arrival, each as of the time at which it was received
 *   4. pages that found no free hold
 *   5. a pause or its end; at the end, the items deferred during the pause
 *   6. in a pair: whether this node serves alone
 *   7. a stop           8. expired timers
 *   9. TURN_FLUSH: the batch goes to the log; a large batch goes earlier. TURN_FILL follows: an empty batch is taken as
 *      soon as one of TURN_BATCHES_MAX is free
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

/* Maximum time between two looks at the clocks, so that an idle broker notices a jump of the wall clock or a suspended
 * machine. */
#define TURN_CLOCK_LOOK_NS 1000000000ull
/* Age of an event above which no task is leased: an ack may be among the waiting events. */
#define TURN_BEHIND_NS 100000000ull
/* Delay until a higher durable position is handled; it wakes no thread. Saves two context switches per commit. */
#define TURN_DURABLE_NS 10000000ull
/* How long requests may be answered after the order to stop; twice that for the last record. */
#define TURN_DRAIN_MAX_MS 3000u
/* Size of a batch at which it is flushed even if more items wait. */
#define TURN_BATCH_BYTES_MAX (8u << 20)
#define TURN_BATCH_EVENTS_MAX 256u
/* Maximum number of batches being filled or written. More would only mean that the disk is slow. Further decisions join
 * the last batch, and the caller delays its TURN_FLUSH until another batch is free or this one is large; then the core
 * waits. */
#define TURN_BATCHES_MAX 16u

/* Input of a turn. Positions are not items, because only the latest position counts. Times are of CLOCK_BOOTTIME. */
struct turn_load {
    struct item *first; /* in order of arrival */
    uint64_t taken_ns;  /* everything received before this time is in this load or an earlier one */
    uint64_t late_ns;   /* events of this load may have arrived up to this much after `taken_ns` */
    uint64_t settle_ns; /* after the process was stopped: time until taken_ns advances, unless something arrives; 0: not
                           stopped */
    uint64_t durable;   /* durable on every node that must have it */
    uint64_t indexed;
    uint64_t follow_to; /* apply another node's frames up to this position */
    bool lead;          /* true: lead after the frames up to `follow_to` are applied */
    bool pause;         /* decide nothing until the order is withdrawn */
    bool stop;          /* an orderly stop was ordered */
};

struct turn_now { /* what the caller knows when it steps the core */
    struct instant logical;
    uint64_t boot_ns; /* CLOCK_BOOTTIME */
    bool full;        /* too much data is being sent: lease nothing more */
};

enum turn_effect {
    TURN_DONE,
    TURN_STEP,         /* step `event` by core_turn_step */
    TURN_RENEW_FILTER, /* renew the filter of keys, as of load.indexed or later */
    TURN_APPLY,        /* apply another node's frames up to load.follow_to → core_turn_applied */
    TURN_LEAD,         /* stop applying and lead: core_turn_begin, CORE_START by core_turn_step, flush */
    TURN_TAKE,         /* step the event of `item`, unless it needs something first (engine_request.h) */
    TURN_REFUSE,       /* refuse the call `item` as busy, because another node takes over; engine_request_end */
    TURN_DROP,   /* drop `item`, which came too late; its caller learns that the broker stops; engine_request_end */
    TURN_ALONE,  /* record whether this node serves alone, if that changed */
    TURN_LOOK,   /* look at the clocks → core_turn_look */
    TURN_FLUSH,  /* send the batch to the log and out → core_turn_flushed */
    TURN_FILL,   /* wait until another batch is free (core_turn_may_fill) → core_turn_fill */
    TURN_PAUSED, /* report that decisions are paused and that everything decided, up to `position`, is durable */
};

enum turn_end { TURN_GOES_ON, TURN_CLOSES, TURN_IS_OVER };

struct core_turn {
    struct core *core;
    struct core_effects *effects; /* effects of the batch being filled; NULL: no batch */
    size_t events;                /* number of events whose effects the batch holds */
    bool is_pair;
    bool inspects;
    bool follows; /* another node decides */

    uint64_t at_ns;   /* CLOCK_BOOTTIME of the step; everything received earlier was handled */
    uint64_t late_ns; /* the stepped event may have arrived up to this much later (stall.h) */
    bool was_full;    /* the last step ran while too much data was being sent */
    bool was_behind;  /* the last tick delivered nothing, because the core was behind */
    uint64_t durable; /* last durable position given to the core */
    struct index_news index_news;
    struct item *starved; /* requests for result pages that wait for a free hold */
    struct item *put_off; /* while paused: items that need a decision */
    struct item **put_off_last;
    bool paused, pause_told;
    bool stopping;
    bool closed; /* the last record except a seal was written: the core gets only positions and ticks */
    uint64_t stop_ms;

    struct turn_load load;
    int phase;
    bool entered;  /* the phase's single effect was returned */
    bool more;     /* more work must be done at once */
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
/* Returns true if another batch may be filled. `batches`: number being written. After an order to stop, the core waits
 * for no batch: a follower that is gone may block them for ever, and few decisions follow. */
bool core_turn_may_fill(unsigned batches, bool stops);
/* Prepares an event that begins or ends a run: it is stepped as of now, because no client sent it while the process was
 * stopped. Flush if it has effects. */
void core_turn_begin(struct core_turn *turn, uint64_t boot_ns);

/* Returns true if the batch has anything for the log or for a waiting caller. */
bool core_turn_has_effects(const struct core_turn *turn);
/* Returns true if the batch must be flushed even if more items wait. */
bool core_turn_is_large(const struct core_turn *turn);

void core_turn_take(struct core_turn *turn, const struct turn_load *load);
enum turn_effect core_turn_next(struct core_turn *turn);
/* Call after TURN_APPLY. `more`: more frames can be applied at once. */
void core_turn_applied(struct core_turn *turn, bool more);
/* Keeps a page that needs ENGINE_REQUEST_HOLD for the next turn. */
void core_turn_starve(struct core_turn *turn, struct item *item);

/* Steps the core; no other function does. Fills in event->now, late_ns, behind and full. */
void core_turn_step(struct core_turn *turn, struct core_event *event, const struct turn_now *now);
/* Returns true if a tick is due, and everything received before it was handled. */
bool core_turn_is_due(const struct core_turn *turn, const struct turn_now *now);
/* Call after TURN_LOOK: expired timers are handled next, if any. */
void core_turn_look(struct core_turn *turn, const struct turn_now *now);
/* Returns the time at which an event is stepped: the time of its receipt. The core takes the later of this and its own
 * time (TIME-2). */
struct instant core_turn_time(const struct core_turn *turn, const struct turn_now *now);
/* Returns the age in ns, at `now`, of the time that core_turn_time returns. */
uint64_t core_turn_age_ns(const struct core_turn *turn, const struct turn_now *now);

/* Returns how long the core can sleep unless something arrives: until its deadline, or `settle_ns` after the process
 * was stopped. UINT64_MAX: for ever; 0: work is due. */
uint64_t core_turn_wait_ns(const struct core_turn *turn, const struct turn_now *now, uint64_t settle_ns);
/* Returns what core_turn_wait_ns returns, limited to the time at which a driver must look at its clocks again. */
uint64_t core_turn_idle_ns(const struct core_turn *turn, const struct turn_now *now);
/* Returns true if another thread may step a call in place of the sleeping core thread (inbox_borrow). */
bool core_turn_may_lend(const struct core_turn *turn);

/* Call after a turn. GOES_ON: continue, also while requests drain. CLOSES (once): core_turn_begin, CORE_CLOSE by
 * core_turn_step, flush. IS_OVER: everything promised is durable, and the log records its end, if this node may write.
 * `is_busy`: a caller still waits for a reply. `now_ms`: of a monotonic clock. */
enum turn_end core_turn_end(struct core_turn *turn, uint64_t now_ms, bool is_busy);

#endif
