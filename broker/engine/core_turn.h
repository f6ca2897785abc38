/* core_turn.h: a turn of the core: what it is told, as of when and in which order, and what becomes of its effects.
 *
 *   load (items, positions, orders) ─► core_turn_take ─► core_turn_next ─► an effect, which the hand carries out ─► …
 *
 * Everything that came since the last turn, in this order:
 *
 *   1. how far the log is durable, and what the index has (LOG-3: the filter of keys is renewed before that)
 *   2. of a pair: what another node has decided; and when this one leads
 *   3. the items, in the order in which they came, each judged by when it was received
 *   4. pages that found no hold free
 *   5. to decide nothing for a while, or to go on: with what was put off meanwhile
 *   6. of a pair: whether this node serves alone
 *   7. to stop          8. what time has brought about
 *   9. the batch is handed on: TURN_FLUSH. Earlier, once it is large. TURN_FILL comes next: an empty one is taken, once
 *      one of TURN_BATCHES_MAX is free
 *
 * An item is judged by when it was received, not by when the disk let it be handled, or a lease would be over before
 * the ack that came in time is looked at (TIME-2). Time thus fires once all that was received before it was handled.
 * Behind by TURN_BEHIND_NS or more nothing is leased, but for every other tick.
 *
 * Only core_turn_step steps the core. One thread, which owns the core. Memory: none of its own. */
#ifndef TARRY_ENGINE_CORE_TURN_H
#define TARRY_ENGINE_CORE_TURN_H

#include "engine_request.h"
#include "index_schedule.h"

/* The clocks are looked at at least this often, so that a step of the wall clock or a suspend of the machine is noticed
 * though nothing else happens. */
#define TURN_CLOCK_LOOK_NS 1000000000ull
/* What was received so long before is stepped, but nothing is leased meanwhile: what waits may be an ack. */
#define TURN_BEHIND_NS 100000000ull
/* News that more is durable wake no thread: what waits for them is looked at after this time. It spares two context
 * switches a commit. */
#define TURN_DURABLE_NS 10000000ull
/* How long requests may still be answered after the stop was asked for; twice that for the last record. */
#define TURN_DRAIN_MAX_MS 3000u
/* Beyond it a batch is handed on though more items wait. */
#define TURN_BATCH_BYTES_MAX (8u << 20)
#define TURN_BATCH_EVENTS_MAX 256u
/* So many are filled or on their way out at once. More only means that the disk is behind: what else is decided joins
 * the last one, whose TURN_FLUSH the hand puts off until another is free or it is large; then the core waits. */
#define TURN_BATCHES_MAX 16u

/* What waits; positions are not items, for only the latest counts. Times are of CLOCK_BOOTTIME. */
struct turn_load {
    struct item *first; /* in the order in which they came */
    uint64_t taken_ns;  /* whatever was received before is here, or was taken earlier */
    uint64_t late_ns;   /* … and so much later this was */
    uint64_t settle_ns; /* the process was stopped: until taken_ns goes on, unless something comes; 0: it was not */
    uint64_t durable;   /* wherever it must be */
    uint64_t indexed;
    uint64_t follow_to; /* another node's frames are to be applied up to here … */
    bool lead;          /* … and then this one leads */
    bool pause;         /* nothing more is to be decided, until it is taken back */
    bool stop;          /* an orderly stop was asked for */
};

struct turn_now { /* what the hand sees when it steps the core */
    struct instant logical;
    uint64_t boot_ns; /* CLOCK_BOOTTIME */
    bool full;        /* too much is on its way out: nothing more is leased */
};

enum turn_effect {
    TURN_DONE,
    TURN_STEP,         /* `event`, by core_turn_step */
    TURN_RENEW_FILTER, /* of keys, as of load.indexed or later */
    TURN_APPLY,        /* what another node has decided, up to load.follow_to → core_turn_applied */
    TURN_LEAD,         /* nothing is applied any more: core_turn_begin, CORE_START by core_turn_step, flush */
    TURN_TAKE,         /* `item`: its event is stepped, unless it needs something first (engine_request.h) */
    TURN_REFUSE,       /* `item`, a call: as busy, for another node takes over; engine_request_end */
    TURN_DROP,         /* `item`: it comes too late. A caller hears that the broker stops; engine_request_end */
    TURN_ALONE,        /* whether this node serves alone is recorded, if that is news */
    TURN_LOOK,         /* at the clocks → core_turn_look */
    TURN_FLUSH,        /* the batch goes to the log and out → core_turn_flushed */
    TURN_FILL,         /* nothing more before another batch is free (core_turn_may_fill) → core_turn_fill */
    TURN_PAUSED,       /* tell that nothing is decided any more, and all that was, up to `position`, is durable */
};

enum turn_end { TURN_GOES_ON, TURN_CLOSES, TURN_IS_OVER };

struct core_turn {
    struct core *core;
    struct core_effects *effects; /* of the batch that is being filled; NULL: there is none */
    size_t events;                /* that it holds the effects of */
    bool is_pair;
    bool inspects;
    bool follows; /* another node decides */

    uint64_t at_ns;   /* CLOCK_BOOTTIME that the core is stepped at: all that was received before was handled */
    uint64_t late_ns; /* what is stepped then may have come so much later (stall.h) */
    bool was_full;    /* the last step was told that too much is on its way out */
    bool was_behind;  /* the last tick delivered nothing */
    uint64_t durable; /* as the core was told */
    struct index_news index_news;
    struct item *starved; /* pages that found no hold free */
    struct item *put_off; /* while it is paused: what would make it decide something */
    struct item **put_off_last;
    bool paused, pause_told;
    bool stopping;
    bool closed; /* the last record was made, but for a seal: the core is told no more than positions and time */
    uint64_t stop_ms;

    struct turn_load load;
    int phase;
    bool entered;  /* the phase's single effect was given */
    bool more;     /* there is more to do at once */
    bool is_due;   /* a tick is */
    bool is_taken; /* an item was taken since the batch was looked at */
    struct item *next;
    struct item *item;
    struct core_event event;
    uint64_t position;
};

/* `durable`: where the log ends, durably; `indexed`: where the index is. `is_pair`, `inspects`, `follows` are the
 * hand's to set then, and core_turn_fill must follow. */
void core_turn_init(struct core_turn *out, struct core *core, uint64_t durable, uint64_t indexed);
/* An empty batch is filled from here on. `effects` must stay until the next. */
void core_turn_fill(struct core_turn *turn, struct core_effects *effects);
void core_turn_flushed(struct core_turn *turn);
/* `batches`: that are on their way out. Once a stop was asked for the core waits for none of them: what they wait for
 * may never come (a follower that is gone), and little is decided any more. */
bool core_turn_may_fill(unsigned batches, bool stops);
/* What begins or ends a run is stepped as of now, and flushed, if it has effects: no client sent it while the process
 * was stopped. */
void core_turn_begin(struct core_turn *turn, uint64_t boot_ns);

/* Has the batch anything for the log, or for a caller that waits? */
bool core_turn_has_effects(const struct core_turn *turn);
/* It is to be handed on, though more waits. */
bool core_turn_is_large(const struct core_turn *turn);

void core_turn_take(struct core_turn *turn, const struct turn_load *load);
enum turn_effect core_turn_next(struct core_turn *turn);
/* TURN_APPLY was carried out; `more`: it could go on at once. */
void core_turn_applied(struct core_turn *turn, bool more);
/* A page that needs ENGINE_REQUEST_HOLD is taken again in the next turn. */
void core_turn_starve(struct core_turn *turn, struct item *item);

/* The only function that steps the core. Fills in event->now, late_ns, behind and full. */
void core_turn_step(struct core_turn *turn, struct core_event *event, const struct turn_now *now);
/* Is a tick due, now that all that was received before has been handled? */
bool core_turn_is_due(const struct core_turn *turn, const struct turn_now *now);
/* TURN_LOOK: what time has brought about is next, if anything is due. */
void core_turn_look(struct core_turn *turn, const struct turn_now *now);
/* The time that an event is stepped at: that of when it was received. The core takes the later of two (TIME-2). */
struct instant core_turn_time(const struct core_turn *turn, const struct turn_now *now);
/* How long before `now` that is. */
uint64_t core_turn_age_ns(const struct core_turn *turn, const struct turn_now *now);

/* For how long the core has nothing to do, unless something comes: until its deadline, or `settle_ns` of a process that
 * was stopped; UINT64_MAX: for ever, 0: it is due. */
uint64_t core_turn_wait_ns(const struct core_turn *turn, const struct turn_now *now, uint64_t settle_ns);
/* … and a driver with a clock looks again at the latest then. */
uint64_t core_turn_idle_ns(const struct core_turn *turn, const struct turn_now *now);
/* May another thread stand in, which is not to be bothered with more than a call? */
bool core_turn_may_lend(const struct core_turn *turn);

/* After a turn: GOES_ON, also while it drains. CLOSES, once: core_turn_begin, CORE_CLOSE by core_turn_step, flush.
 * IS_OVER: all that was promised is durable, and the log says that it ends here, if this node may say so.
 * `is_busy`: a caller still waits for an answer. `now_ms`: of a clock that only grows. */
enum turn_end core_turn_end(struct core_turn *turn, uint64_t now_ms, bool is_busy);

#endif
