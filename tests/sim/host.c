/* host.c: runs the core's turns (engine/core_turn.h) and checks every step against the promises. See host.h. */
#include "host.h"

#include <stdlib.h>

#include "../appended.h"
#include "../must.h"
#include "client.h"
#include "leases.h"
#include "node.h"
#include "ops.h"
#include "world.h"

/* Adds a delay to work that the core must do at once, because without a delay virtual time would not advance. */
#define HURRY_NS 20000
/* Number of steps between two calls of core_check, which is slow because it visits everything in memory. */
#define CHECK_EVERY 128

static struct sample sample_of(const struct world *world) {
    return (struct sample){.real_ns = world_real_ns(world), .boot_ns = world_boot_ns(world)};
}

struct instant host_now(struct world *world) {
    return clock_advance(&world->host->clock, sample_of(world));
}

static struct instant later_of(struct instant a, struct instant b) {
    if (b.steady_ns > a.steady_ns) a.steady_ns = b.steady_ns;
    if (b.wall_ns > a.wall_ns) a.wall_ns = b.wall_ns;
    return a;
}

/* Returns the time that the core has after an event of the time `now` that was received `age_ns` ago (core.c,
 * set_now_of). */
static struct instant put_forward(struct instant seen, struct instant now, uint64_t age_ns) {
    uint64_t behind_ns = seen.steady_ns > now.steady_ns ? seen.steady_ns - now.steady_ns : 0;
    now.wall_ns += behind_ns < age_ns ? behind_ns : age_ns;
    return later_of(seen, now);
}

static struct turn_now look(struct world *world) {
    return (struct turn_now){.logical = host_now(world), .boot_ns = world_boot_ns(world)};
}

/* Returns for how long the current event has waited since it was received. */
static uint64_t event_age_ns(struct host *host, const struct turn_now *now) {
    if (host->in_turn) return core_turn_age_ns(&host->turn, now);
    return now->boot_ns - stall_received(&host->stall, now->boot_ns);
}

static uint64_t event_late_ns(struct host *host, const struct turn_now *now) {
    return host->in_turn ? host->turn.late_ns : event_age_ns(host, now);
}

static struct instant event_time(struct host *host, const struct turn_now *now) {
    if (host->in_turn) return core_turn_time(&host->turn, now);
    return stall_judge(now->logical, event_age_ns(host, now));
}

struct instant host_event_time(struct world *world) {
    struct turn_now now = look(world);
    return event_time(world->host, &now);
}

uint64_t host_from_ns(struct world *world) {
    struct turn_now now = look(world);
    uint64_t latest_ns = event_time(world->host, &now).steady_ns + event_late_ns(world->host, &now);
    return latest_ns > world->host->stepped.steady_ns ? latest_ns : world->host->stepped.steady_ns;
}

struct instant host_answers_at(struct world *world) {
    struct host *host = world->host;
    struct turn_now now = look(world);
    struct instant at = put_forward(host->stepped, event_time(host, &now), event_age_ns(host, &now));
    return later_of(at, (struct instant){.steady_ns = host->head.steady_ns, .wall_ns = host->head.wall_ns});
}

/* Lets the core thread sleep until the next deadline, until the next reading of the clocks (engine/core_turn.h), or
 * until a batch is free. */
void host_stands_still(struct world *world) {
    struct host *host = world->host;
    uint64_t tick_ns = host->tick_ns > world->now_ns ? host->tick_ns - world->now_ns : 0;
    if (host->state != HOST_UP) return;
    host->paused_from_ns = world->now_ns;
    struct clock_state unlooked =
        host->clock; /* a stopped process does not read the clock, so the clock's state stays as it was */
    host->paused_steady_ns = clock_advance(&unlooked, sample_of(world)).steady_ns;
    if (host->awaits_batch)
        stall_look(&host->stall, world_boot_ns(world)); /* notes that the process runs now */
    else
        stall_sleep(&host->stall, world_boot_ns(world), tick_ns < TURN_CLOCK_LOOK_NS ? tick_ns : TURN_CLOCK_LOOK_NS);
}

void host_goes_on(struct world *world) {
    struct host *host = world->host;
    bool is_known = host->stall.asleep_until_ns || host->stall.looked_ns;
    if (host->state != HOST_UP || !is_known)
        return; /* nothing to do: another event has started the process meanwhile */
    host->went_on_ns = world->now_ns;
    uint64_t stood_ns = world->now_ns - host->paused_from_ns, counts_ns = HUNG_DISK_LOOK_COUNTS_MS * NS_PER_MS;
    if (stood_ns > counts_ns) host->sync_stood_ns += stood_ns - counts_ns;
    (void)stall_received(&host->stall, world_boot_ns(world));
    stall_wake(&host->stall);
    host_wake(world);
}

/* Returns the error of the wall time that the broker trusts. The broker trusts the last sample with an advanced wall
 * time, plus the BOOTTIME that has passed since. */
static int64_t trusted_ns(const struct world *world) {
    const struct sample *high = &world->host->clock.high;
    uint64_t line_ns = high->real_ns + (world_boot_ns(world) - high->boot_ns);
    return (int64_t)(line_ns - WORLD_EPOCH_NS - world->now_ns);
}

/* Returns for how long the broker's wall time has not advanced, including the time before the last start. */
static uint64_t stood_ns(const struct world *world) {
    const struct host *host = world->host;
    const struct sample *high = &host->clock.high;
    uint64_t before_ns = high->real_ns == host->stood_wall_ns ? host->stood_before_ns : 0;
    return world_boot_ns(world) - high->boot_ns + before_ns;
}

/* ---- frames */

struct frame_note *host_add_frame(struct host *host) {
    if (host->frame_count == host->frame_capacity) {
        host->frame_capacity = host->frame_capacity ? 2 * host->frame_capacity : 1024;
        host->frames = realloc(host->frames, host->frame_capacity * sizeof *host->frames);
        MUST(host->frames);
    }
    return &host->frames[host->frame_count++];
}

static void note_frame(struct world *world, const struct core_append *append) {
    struct host *host = world->host;
    struct frame_note *note = host_add_frame(host);
    struct frame_header header = appended_header(append);
    *note = (struct frame_note){
        .header = header,
        .end = append->position + frame_size(header.body_size, header.blob_size),
        .trusted_ns = trusted_ns(world),
        .stood_ns = stood_ns(world),
        .bytes = world_copy(world, append->body, append->body_size),
        .serial = world->truth.next_serial++,
        .node = host->number,
    };
    if (append->type == FRAME_COMMIT) {
        note->body = tarry__frame_body__unpack(&world->memory.pb, append->body_size, note->bytes);
        MUST(note->body);
    }
    watch_frame(world, &note->header, note->body);
    flat_apply(&host->head, &note->header, note->body);
    note->digest = host->head.digest;
    note->live = host->head.live;
    TRACE(world, "broker", "append #%zu %s", host->frame_count, frame_text(&note->header, note->body));
    ledger_on_frame(world, note, append->contents, append->content_count);
}

const struct frame_note *host_frame(const struct host *host, uint64_t position) {
    size_t low = 0;
    size_t high = host->frame_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (host->frames[middle].header.position < position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < host->frame_count && host->frames[low].header.position == position;
    return found ? &host->frames[low] : NULL;
}

size_t host_frames_below(const struct host *host, uint64_t position) {
    size_t low = 0;
    size_t high = host->frame_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (host->frames[middle].end <= position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool host_holds_back(const struct world *world, const struct row *row) {
    const struct host *host = world->host;
    if (row->state != ROW_LEASED || host->turn.follows || row->lease_epoch != host->head.epoch) return false;
    return host->given_out[row->id] != row->lease_position;
}

/* ---- steps */

/* Carries out effects that must not wait for the disk: lanes, and loading of windows. */
static void carry_out_at_once(struct world *world, struct core_effects *effects, size_t deliveries) {
    for (size_t i = 0; i < effects->lanes.count; i++) host_lane_effect(world, &effects->lanes.items[i]);
    for (size_t i = deliveries; i < effects->deliveries.count;
         i++) { /* deliveries come after the lanes of the same step, because a delivery gets the current `turn` of its
                   lane */
        struct core_delivery *delivery = &effects->deliveries.items[i];
        delivery->turn = world->host->lanes[delivery->lane].state.turn;
        if (delivery->departs) host_depart(world, delivery);
    }
    for (size_t i = 0; i < effects->windows.count; i++) host_ask_window(world, &effects->windows.items[i]);
    for (size_t i = 0; i < effects->pages.count; i++) host_ask_page(world, &effects->pages.items[i]);
    effects->lanes.count = effects->windows.count = effects->lows.count = effects->pages.count = 0;
}

/* LOG-1: checks the log position on which each reply and delivery depends. A reply depends at least on the position
 * before the step, a delivery on the positions of its leases. */
static void check_effects(struct host *host, const struct core_effects *effects, size_t replies, size_t deliveries,
                          uint64_t before) {
    struct instant at = host->stepped;
    for (size_t i = replies; i < effects->replies.count; i++) {
        uint64_t after = effects->replies.items[i].after;
        MUST(after >= before && after <= core_position(host->core));
    }
    for (size_t i = deliveries; i < effects->deliveries.count; i++) {
        const struct core_delivery *delivery = &effects->deliveries.items[i];
        MUST(delivery->count && delivery->after <= core_position(host->core));
        for (size_t k = 0; k < delivery->count; k++) {
            const struct row *row = &delivery->tasks[k].row;
            MUST(row->state == ROW_LEASED && row->lease_position < delivery->after);
            bool is_due = row->due_ms <= (row->base == ROW_WALL ? at.wall_ns : at.steady_ns) / NS_PER_MS;
            MUST(is_due || flat_is_early(&host->head, row->queue) || session_is_sharer(row->session)); /* TIME-1 */
            MUST(!delivery->departs || !flat_queue_of(&host->head, row->queue)->put.paused);           /* KEEP-1 */
            host->given_out[row->id] = row->lease_position;
        }
    }
}

void host_step(struct world *world, struct core_event *event) {
    struct host *host = world->host;
    struct core_effects *effects = &host->batch->effects;
    struct turn_now now = look(world);
    bool follows = host->node && (!host->node->writes || host->node->applier);
    uint64_t before = core_position(host->core);
    size_t appends = effects->appends.count;
    size_t replies = effects->replies.count;
    size_t deliveries = effects->deliveries.count;
    core_turn_step(&host->turn, event, &now);
    if (!follows) /* a follower only answers queries, so only a leader's state is compared */
        host->stepped = put_forward(host->stepped, event->now, event->age_ns);
    for (size_t i = appends; i < effects->appends.count; i++) note_frame(world, &effects->appends.items[i]);
    if (appends < effects->appends.count) host->frames[host->frame_count - 1].state_ends = true;
    if (appends < effects->appends.count && host->node)
        digests_add(&host->node->digests, core_position(host->core), core_digest(host->core));
    check_effects(host, effects, replies, deliveries, before);
    watch_step(world, event, effects, deliveries, before);
    MUST(host->head.position == core_position(host->core));
    MUST(host->head.digest == core_digest(host->core) && host->head.live == core_live(host->core));
    if (host->steps++ % CHECK_EVERY == 0) {
        core_check(host->core);
        MUST(flat_digest(&host->head) == host->head.digest);
    }
    carry_out_at_once(world, effects, deliveries);
}

/* ---- turns */

struct posted {       /* an event of a lane that waits for the core's turn */
    struct item item; /* must be the first member */
    uint64_t life;
    uint32_t lane;
    uint64_t turn;
    struct core_event event;
};

static void renew_filter(struct host *host) {
    host->filter_id_end = host->table.flat.next_id;
}

static void take_news(struct world *world, struct posted *posted) {
    if (lane_state_is_news(&world->host->lanes[posted->lane].state, posted->turn)) host_step(world, &posted->event);
}

static void take(struct world *world, struct item *item) {
    if (item->kind == ITEM_LANE)
        take_news(world, (struct posted *)item);
    else
        host_take_asked(world, (struct asked *)item);
}

static void fill(struct host *host) {
    host->awaits_batch = !core_turn_may_fill(host->batches, host->inbox.stop);
    if (host->awaits_batch) return;
    host->batch = host_batch_take(host);
    core_turn_fill(&host->turn, &host->batch->effects);
}

static void execute(struct world *world, enum turn_effect effect) {
    struct host *host = world->host;
    struct core_turn *turn = &host->turn;
    struct turn_now now = look(world);
    switch (effect) {
    case TURN_STEP:
        host_step(world, &turn->event);
        break;
    case TURN_RENEW_FILTER:
        renew_filter(host);
        break;
    case TURN_APPLY:
        node_apply(world);
        break;
    case TURN_LEAD:
        node_lead(world);
        break;
    case TURN_TAKE:
        take(world, turn->item);
        break;
    case TURN_REFUSE:
        host_refuse_asked(world, (struct asked *)turn->item);
        break;
    case TURN_DROP:
        if (turn->item->kind != ITEM_LANE) host_drop_asked(world, (struct asked *)turn->item);
        break;
    case TURN_ALONE:
        lead_record_alone(world);
        break;
    case TURN_LOOK:
        core_turn_look(turn, &now);
        break;
    case TURN_FLUSH:
        /* While too many batches wait, the effects of later steps go into the current batch (is_put_off in
         * core_thread.c). */
        host->puts_off = !core_turn_is_large(turn) && !core_turn_may_fill(host->batches, host->inbox.stop);
        if (!host->puts_off) host_flush(world);
        break;
    case TURN_FILL:
        fill(host);
        break;
    case TURN_PAUSED:
        node_paused(world, turn->position);
        break;
    case TURN_DONE:
        break;
    }
}

/* Runs the turn to its end, or until it must wait for a batch. */
static void run_turn(struct world *world) {
    struct host *host = world->host;
    uint64_t life = host->life;
    enum turn_effect effect;
    host->in_turn = true;
    while (!host->awaits_batch && (effect = core_turn_next(&host->turn)) != TURN_DONE) {
        execute(world, effect);
        if (host->life != life || host->state != HOST_UP) return;
    }
    host->in_turn = false;
    if (host->awaits_batch) return;
    host_wake(world);
}

void host_go_on_with_turn(struct world *world) {
    struct host *host = world->host;
    uint64_t life = host->life;
    host->turn_comes = false;
    if (!host->awaits_batch) return;
    host->awaits_batch = false;
    run_turn(world);
    if (host->life == life && host->state == HOST_UP && !host->awaits_batch)
        host_turn(world); /* runs another turn for the items that arrived during this one */
}

static void turn_goes_on(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life == life && host->state == HOST_UP) host_go_on_with_turn(world);
}

static void turn_again(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life == life && host->state == HOST_UP && !host->in_turn) host_turn(world);
}

void host_batches_dropped(struct world *world) {
    struct host *host = world->host;
    if (host->puts_off) world_after(world, &world->options.wake, turn_again, NULL, host->life);
    host->puts_off = false;
    if (!host->awaits_batch || host->turn_comes || !core_turn_may_fill(host->batches, host->inbox.stop)) return;
    host->turn_comes = true;
    world_after(world, &world->options.wake, turn_goes_on, NULL, host->life);
}

void host_turn(struct world *world) {
    struct host *host = world->host;
    uint64_t boot_ns = world_boot_ns(world);
    struct turn_load load = host->inbox;
    MUST(host->state == HOST_UP);
    if (host->awaits_batch) return; /* the item stays in the inbox until the turn continues */
    MUST(!host->in_turn);
    host->inbox.first = NULL;
    load.taken_ns = stall_received(&host->stall, boot_ns);
    load.late_ns = boot_ns - load.taken_ns;
    core_turn_take(&host->turn, &load);
    run_turn(world);
}

void host_begin_run(struct world *world, struct core_event event) {
    struct host *host = world->host;
    bool was_in_turn = host->in_turn;
    host->in_turn = true;
    core_turn_begin(&host->turn, world_boot_ns(world));
    host_step(world, &event);
    if (core_turn_has_effects(&host->turn)) host_flush(world);
    if (!was_in_turn && !host->batch) fill(host);
    host->in_turn = was_in_turn;
    host_wake(world);
}

void host_take(struct world *world, struct item *item) {
    struct host *host = world->host;
    item_receive(item, &host->stall, world_boot_ns(world));
    struct item **last = &host->inbox.first;
    while (*last) last = &(*last)->next;
    item->next = NULL;
    *last = item;
    host_turn(world);
}

static void posted_arrives(struct world *world, void *argument, uint64_t number) {
    struct posted *posted = argument;
    if (posted->life == world->host->life && world->host->state == HOST_UP) host_take(world, &posted->item);
}

void host_post(struct world *world, const struct lane *lane, const struct core_event *event) {
    const struct host *host = world->host;
    struct posted *posted = world_alloc(world, sizeof *posted);
    *posted = (struct posted){.item.kind = ITEM_LANE, .life = host->life, .event = *event};
    posted->lane = (uint32_t)(lane - host->lanes);
    posted->turn = lane->state.turn;
    item_receive(&posted->item, &world->host->stall, world_boot_ns(world));
    world_after(world, &world->options.wake, posted_arrives, posted, 0);
}

/* ---- time */

static void tick(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP || host->tick_ns > world->now_ns) return;
    host->tick_ns = UINT64_MAX;
    host_turn(world);
}

void host_wake(struct world *world) {
    struct host *host = world->host;
    if (host->state != HOST_UP) return;
    struct turn_now now = look(world);
    uint64_t wait_ns = core_turn_wait_ns(&host->turn, &now, stall_settle_ns(&host->stall, now.boot_ns));
    if (wait_ns == UINT64_MAX) return;
    if (wait_ns == 0) wait_ns = HURRY_NS;
    wait_ns += world_span_ns(world, &world->options.wake);
    if (host->tick_ns <= world->now_ns + wait_ns) return; /* nothing to do: an earlier wake-up is already scheduled */
    host->tick_ns = world->now_ns + wait_ns;
    world_after_ns(world, wait_ns, tick, NULL, host->life);
}
