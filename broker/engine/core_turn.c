/* core_turn.c: see core_turn.h. */
#include "core_turn.h"

#include <assert.h>

#define NS_PER_MS 1000000ull

void core_turn_init(struct core_turn *out, struct core *core, uint64_t durable, uint64_t indexed) {
    *out = (struct core_turn){.core = core, .durable = durable, .index_news.told = indexed};
}

void core_turn_fill(struct core_turn *turn, struct core_effects *effects) {
    turn->effects = effects;
    turn->events = 0;
}

void core_turn_flushed(struct core_turn *turn) {
    turn->effects = NULL;
}

bool core_turn_may_fill(unsigned batches, bool stops) {
    return batches < TURN_BATCHES_MAX || stops;
}

bool core_turn_has_effects(const struct core_turn *turn) {
    const struct core_effects *effects = turn->effects;
    return effects->appends.count > 0 || effects->replies.count > 0 || effects->deliveries.count > 0;
}

static void judge_at(struct core_turn *turn, uint64_t at_ns, uint64_t late_ns) {
    turn->at_ns = at_ns;
    turn->late_ns = late_ns;
}

/* TIME-2: the first event gets the present time. A core that replayed nothing does not know the last time in the log,
 * so it could not correct an event whose time is earlier than that. */
void core_turn_begin(struct core_turn *turn, uint64_t boot_ns) {
    judge_at(turn, boot_ns, 0);
}

void core_turn_applied(struct core_turn *turn, bool more) {
    turn->more = more;
}

void core_turn_starve(struct core_turn *turn, struct item *item) {
    item->next = turn->starved;
    turn->starved = item;
}

/* ---- stepping */

uint64_t core_turn_age_ns(const struct core_turn *turn, const struct turn_now *now) {
    return now->boot_ns > turn->at_ns ? now->boot_ns - turn->at_ns : 0;
}

/* TIME-2: returns the time at which the event was received. */
struct instant core_turn_time(const struct core_turn *turn, const struct turn_now *now) {
    return stall_judge(now->logical, core_turn_age_ns(turn, now));
}

void core_turn_step(struct core_turn *turn, struct core_event *event, const struct turn_now *now) {
    const bool is_tick = event->kind == CORE_TICK;
    event->now = core_turn_time(turn, now);
    event->age_ns = core_turn_age_ns(turn, now);
    event->late_ns = turn->late_ns;
    event->behind = event->age_ns > TURN_BEHIND_NS && !(is_tick && turn->was_behind);
    if (is_tick) turn->was_behind = event->behind;
    event->no_room = now->no_room;
    event->full = turn->was_full = now->full;
    core_step(turn->core, event, turn->effects);
    turn->events++;
}

bool core_turn_is_due(const struct core_turn *turn, const struct turn_now *now) {
    const bool is_free = turn->was_full && !now->full;
    return is_free || core_deadline(turn->core) <= core_turn_time(turn, now).steady_ns / NS_PER_MS;
}

void core_turn_look(struct core_turn *turn, const struct turn_now *now) {
    turn->is_due = core_turn_is_due(turn, now);
}

/* ---- the phases of a turn: each is called until it has nothing more to do */

static enum turn_effect ask_step(struct core_turn *turn, struct core_event event) {
    turn->event = event;
    return TURN_STEP;
}

static enum turn_effect once(struct core_turn *turn, enum turn_effect effect) {
    if (turn->entered) return TURN_DONE;
    turn->entered = true;
    return effect;
}

static enum turn_effect positions(struct core_turn *turn) {
    const struct turn_load *load = &turn->load;
    if (load->durable > turn->durable) {
        turn->durable = load->durable;
        return ask_step(turn, (struct core_event){.kind = CORE_DURABLE, .position = load->durable});
    }
    switch (index_news_next(&turn->index_news, load->indexed)) {
    case INDEX_NEWS_RENEW_FILTER:
        return TURN_RENEW_FILTER;
    case INDEX_NEWS_STEP:
        return ask_step(turn, (struct core_event){.kind = CORE_INDEXED, .position = load->indexed});
    case INDEX_NEWS_NONE:
        break;
    }
    return TURN_DONE;
}

static enum turn_effect follow(struct core_turn *turn) {
    if (!turn->follows || turn->stopping) return TURN_DONE;
    if (!turn->entered) return once(turn, TURN_APPLY);
    const uint64_t position = core_position(turn->core);
    if (position > turn->durable) {
        turn->durable = position;
        return ask_step(turn, (struct core_event){.kind = CORE_DURABLE, .position = position});
    }
    if (!turn->load.lead || position < turn->load.follow_to) return TURN_DONE;
    turn->follows = false;
    turn->more = true;
    return TURN_LEAD;
}

/* Handles an item. A leader that hands over answers only questions. Returns TURN_DONE if the item was deferred. */
static enum turn_effect route_item(struct core_turn *turn, struct item *item) {
    turn->item = item;
    judge_at(turn, item->received_ns, item->late_ns);
    if (turn->closed) return TURN_DROP;
    if (!turn->paused || item->kind == ITEM_WINDOW) return TURN_TAKE;
    if (item->kind == ITEM_CALL)
        return engine_request_looks((const struct engine_request *)item) ? TURN_TAKE : TURN_REFUSE;
    item->next = NULL;
    *turn->put_off_last = item;
    turn->put_off_last = &item->next;
    return TURN_DONE;
}

bool core_turn_is_large(const struct core_turn *turn) {
    return turn->events >= TURN_BATCH_EVENTS_MAX || turn->effects->arena->used >= TURN_BATCH_BYTES_MAX;
}

static enum turn_effect items(struct core_turn *turn) {
    if (turn->is_taken && core_turn_is_large(turn) && core_turn_has_effects(turn)) {
        turn->is_taken = false;
        return TURN_FLUSH;
    }
    while (turn->next != NULL) {
        struct item *item = turn->next;
        turn->next = item->next;
        turn->is_taken = true;
        enum turn_effect effect = route_item(turn, item);
        if (effect != TURN_DONE) return effect;
    }
    return TURN_DONE;
}

static enum turn_effect starved(struct core_turn *turn) {
    if (!turn->entered) {
        turn->entered = true;
        turn->next = turn->starved;
        turn->starved = NULL;
    }
    return items(turn);
}

static enum turn_effect pause(struct core_turn *turn) {
    if (turn->load.pause == turn->paused || turn->stopping) return TURN_DONE;
    turn->paused = turn->load.pause;
    turn->pause_told = false;
    return ask_step(turn, (struct core_event){.kind = turn->paused ? CORE_STOP : CORE_RESUME});
}

static enum turn_effect resumed(struct core_turn *turn) {
    if (!turn->entered && !turn->paused) {
        turn->entered = true;
        turn->next = turn->put_off;
        turn->put_off = NULL;
        turn->put_off_last = &turn->put_off;
    }
    return items(turn);
}

static enum turn_effect alone(struct core_turn *turn) {
    const bool decides = !turn->follows && !turn->paused && !turn->stopping;
    return turn->is_pair && decides ? once(turn, TURN_ALONE) : TURN_DONE;
}

static enum turn_effect stop(struct core_turn *turn) {
    if (!turn->load.stop || turn->stopping) return TURN_DONE;
    turn->stopping = true;
    return ask_step(turn, (struct core_event){.kind = CORE_STOP});
}

static enum turn_effect tick(struct core_turn *turn) {
    if (!turn->entered) return once(turn, TURN_LOOK);
    if (!turn->is_due) return TURN_DONE;
    turn->is_due = false;
    return ask_step(turn, (struct core_event){.kind = CORE_TICK});
}

static enum turn_effect flush(struct core_turn *turn) {
    return core_turn_has_effects(turn) ? once(turn, TURN_FLUSH) : TURN_DONE;
}

/* Returns TURN_PAUSED once everything is committed, including the seal frame. */
static enum turn_effect tell_pause(struct core_turn *turn) {
    turn->position = core_position(turn->core);
    const bool is_committed = turn->durable >= turn->position;
    if (!turn->paused || turn->pause_told || !is_committed) return TURN_DONE;
    turn->pause_told = true;
    return TURN_PAUSED;
}

typedef enum turn_effect turn_phase(struct core_turn *turn);
enum {
    PHASE_POSITIONS,
    PHASE_FOLLOW,
    PHASE_ITEMS,
    PHASE_STARVED,
    PHASE_PAUSE,
    PHASE_RESUMED,
    PHASE_ALONE,
    PHASE_STOP,
    PHASE_TICK,
    PHASE_FLUSH,
    PHASE_TELL_PAUSE,
    PHASES
};
static turn_phase *const phases[PHASES] = {
    [PHASE_POSITIONS] = positions,
    [PHASE_FOLLOW] = follow,
    [PHASE_ITEMS] = items,
    [PHASE_STARVED] = starved,
    [PHASE_PAUSE] = pause,
    [PHASE_RESUMED] = resumed,
    [PHASE_ALONE] = alone,
    [PHASE_STOP] = stop,
    [PHASE_TICK] = tick,
    [PHASE_FLUSH] = flush,
    [PHASE_TELL_PAUSE] = tell_pause,
};

void core_turn_take(struct core_turn *turn, const struct turn_load *load) {
    if (turn->put_off == NULL) turn->put_off_last = &turn->put_off;
    turn->load = *load;
    turn->phase = 0;
    turn->entered = turn->more = turn->is_taken = false;
    turn->next = load->first;
    judge_at(turn, load->first != NULL ? load->first->received_ns : load->taken_ns, 0);
}

enum turn_effect core_turn_next(struct core_turn *turn) {
    if (turn->effects == NULL) return TURN_FILL;
    while (turn->phase < PHASES) {
        enum turn_effect effect = phases[turn->phase](turn);
        if (effect != TURN_DONE) return effect;
        turn->phase++;
        turn->entered = false;
        if (turn->phase > PHASE_ITEMS) judge_at(turn, turn->load.taken_ns, turn->load.late_ns);
    }
    return TURN_DONE;
}

/* ---- between turns */

uint64_t core_turn_wait_ns(const struct core_turn *turn, const struct turn_now *now, uint64_t settle_ns) {
    if (settle_ns > 0 && settle_ns <= SETTLE_NS) return settle_ns; /* until settle_ns is over, no timer expires */
    const uint64_t deadline_ms = core_deadline(turn->core), now_ns = now->logical.steady_ns;
    if (deadline_ms >= UINT64_MAX / NS_PER_MS) return UINT64_MAX;
    return deadline_ms * NS_PER_MS > now_ns ? deadline_ms * NS_PER_MS - now_ns : 0;
}

uint64_t core_turn_idle_ns(const struct core_turn *turn, const struct turn_now *now) {
    uint64_t wait_ns = core_turn_wait_ns(turn, now, turn->load.settle_ns);
    const bool awaits_log = turn->durable < core_position(turn->core);
    if (wait_ns > TURN_CLOCK_LOOK_NS) wait_ns = TURN_CLOCK_LOOK_NS;
    return awaits_log && wait_ns > TURN_DURABLE_NS ? TURN_DURABLE_NS : wait_ns;
}

bool core_turn_may_lend(const struct core_turn *turn) {
    return !turn->is_pair && !turn->stopping && !turn->paused && turn->starved == NULL;
}

enum turn_end core_turn_end(struct core_turn *turn, uint64_t now_ms, bool is_busy) {
    if (!turn->stopping) return TURN_GOES_ON;
    if (turn->stop_ms == 0) turn->stop_ms = now_ms;
    const uint64_t stopping_ms = now_ms - turn->stop_ms;
    const bool is_settled = turn->durable == core_position(turn->core);
    if (turn->closed) return is_settled || stopping_ms > 2 * TURN_DRAIN_MAX_MS ? TURN_IS_OVER : TURN_GOES_ON;
    const bool is_quiet = is_settled && !is_busy;
    if (!is_quiet && stopping_ms <= TURN_DRAIN_MAX_MS) return TURN_GOES_ON;
    if (turn->inspects || turn->follows) return TURN_IS_OVER;
    turn->closed = true;
    return TURN_CLOSES;
}
