/* host.c: the broker's loop: events in, effects out (shell/loop.c). See host.h. */
#include "host.h"

#include <stdlib.h>

#include "../appended.h"
#include "../must.h"
#include "client.h"
#include "node.h"
#include "ops.h"
#include "world.h"

#define HURRY_NS 20000 /* work that the core left for later comes this much later, or time would stand still */
#define CLOCK_LOOK_NS 1000000000u /* the clocks are looked at this often (shell/loop.c) */
#define CHECK_EVERY 128           /* steps: core_check walks everything in memory */

struct instant host_now(struct world *world) {
    struct sample sample = {.real_ns = world_real_ns(world), .boot_ns = world_boot_ns(world)};
    return clock_advance(&world->host->clock, sample);
}

static struct instant later_of(struct instant a, struct instant b) {
    if (b.steady_ns > a.steady_ns) a.steady_ns = b.steady_ns;
    if (b.wall_ns > a.wall_ns) a.wall_ns = b.wall_ns;
    return a;
}

struct instant host_event_time(struct world *world, uint64_t *out_late_ns) {
    struct host *host = world->host;
    uint64_t boot_ns = world_boot_ns(world);
    uint64_t received_ns = host->taken ? host->taken->received_ns : stall_received(&host->stall, boot_ns);
    *out_late_ns = host->taken ? host->taken->late_ns : boot_ns - received_ns;
    return stall_judge(host_now(world), boot_ns - received_ns);
}

uint64_t host_from_ns(struct world *world) {
    uint64_t late_ns;
    uint64_t latest_ns = host_event_time(world, &late_ns).steady_ns + late_ns;
    return latest_ns > world->host->stepped.steady_ns ? latest_ns : world->host->stepped.steady_ns;
}

struct instant host_answers_at(struct world *world) {
    uint64_t late_ns;
    const struct flat *head = &world->host->head;
    struct instant now = later_of(host_event_time(world, &late_ns), world->host->stepped);
    return later_of(now, (struct instant){.steady_ns = head->steady_ns, .wall_ns = head->wall_ns});
}

/* The core thread sleeps, until the next deadline or until the clocks are looked at again (shell/loop.c). */
void host_stands_still(struct world *world) {
    struct host *host = world->host;
    uint64_t tick_ns = host->tick_ns > world->now_ns ? host->tick_ns - world->now_ns : 0;
    if (host->state != HOST_UP) return;
    host->paused_from_ns = world->now_ns;
    stall_sleep(&host->stall, world_boot_ns(world), tick_ns < CLOCK_LOOK_NS ? tick_ns : CLOCK_LOOK_NS);
}

void host_goes_on(struct world *world) {
    struct host *host = world->host;
    if (host->state != HOST_UP || !host->stall.asleep_until_ns) return; /* it was started meanwhile */
    host->went_on_ns = world->now_ns;
    (void)stall_received(&host->stall, world_boot_ns(world));
    stall_wake(&host->stall);
    host_wake(world);
}

/* The line that the clock believes: the wall where it last advanced, plus BOOTTIME since; as an error. */
static int64_t trusted_ns(const struct world *world) {
    const struct sample *high = &world->host->clock.high;
    uint64_t line_ns = high->real_ns + (world_boot_ns(world) - high->boot_ns);
    return (int64_t)(line_ns - WORLD_EPOCH_NS - world->now_ns);
}

/* How long the wall has stood still by now, starts included. */
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

/* ---- steps */

/* What must not wait for the disk: endpoints, and reading ahead. */
static void run_errands(struct world *world, struct core_effects *effects) {
    for (size_t i = 0; i < effects->lanes.count; i++) host_lane_effect(world, &effects->lanes.items[i]);
    for (size_t i = 0; i < effects->windows.count; i++) host_ask_window(world, &effects->windows.items[i]);
    for (size_t i = 0; i < effects->pages.count; i++) host_ask_page(world, &effects->pages.items[i]);
    effects->lanes.count = effects->windows.count = effects->lows.count = effects->pages.count = 0;
}

/* LOG-1: an answer rests on the position that its decision saw, at least; a delivery on that of its leases. */
static void check_effects(struct host *host, const struct core_effects *effects, size_t replies, size_t deliveries,
                          uint64_t before) {
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
        }
    }
}

void host_step(struct world *world, struct core_event *event) {
    struct host *host = world->host;
    struct core_effects *effects = &host->batches[host->filling]->effects;
    event->now = host_event_time(world, &event->late_ns);
    bool follows = host->node && (!host->node->writes || host->node->applier);
    if (!follows) host->stepped = later_of(host->stepped, event->now); /* who follows answers, and goes by its leader */
    uint64_t before = core_position(host->core);
    size_t appends = effects->appends.count;
    size_t replies = effects->replies.count;
    size_t deliveries = effects->deliveries.count;
    core_step(host->core, event, effects);
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
    run_errands(world, effects);
    bool has_news = effects->appends.count || effects->replies.count || effects->deliveries.count;
    if (has_news) host_flush_later(world);
    host_wake(world);
}

void host_stamp(struct world *world, struct errand *errand) {
    if (errand->received_ns) return;
    uint64_t boot_ns = world_boot_ns(world);
    errand->received_ns = stall_received(&world->host->stall, boot_ns);
    errand->late_ns = boot_ns - errand->received_ns;
}

struct posted {
    struct errand errand; /* as far as it says when it was received */
    struct core_event event;
};

static void posted_arrives(struct world *world, void *argument, uint64_t number) {
    struct posted *posted = argument;
    bool is_position = posted->event.kind == CORE_DURABLE || posted->event.kind == CORE_INDEXED;
    struct host *host = world->host;
    bool is_now = posted->errand.life == host->life && host->state == HOST_UP;
    if (is_now && !is_position && node_puts_off(world, posted_arrives, argument, number)) return;
    bool is_late = host->closed && posted->event.kind != CORE_DURABLE && posted->event.kind != CORE_INDEXED;
    if (posted->errand.life != host->life || is_late) return;
    if (!is_position) host->taken = &posted->errand;
    host_step(world, &posted->event);
    host->taken = NULL;
}

void host_post(struct world *world, const struct core_event *event) {
    struct posted *posted = world_alloc(world, sizeof *posted);
    *posted = (struct posted){.errand.life = world->host->life, .event = *event};
    host_stamp(world, &posted->errand);
    world_after(world, &world->options.wake, posted_arrives, posted, 0);
}

/* ---- time */

static void tick(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->tick_ns > world->now_ns) return;
    host->tick_ns = UINT64_MAX;
    struct core_event event = {.kind = CORE_TICK};
    uint64_t late_ns;
    uint64_t now_ms = host_event_time(world, &late_ns).steady_ns / NS_PER_MS;
    if (core_deadline(host->core) <= now_ms) {
        host_step(world, &event);
    } else {
        host_wake(world);
    }
}

void host_wake(struct world *world) {
    struct host *host = world->host;
    if (host->state != HOST_UP) return;
    uint64_t deadline_ms = core_deadline(host->core);
    if (deadline_ms >= UINT64_MAX / NS_PER_MS) return;
    uint64_t steady_ns = host_now(world).steady_ns;
    uint64_t deadline_ns = deadline_ms * NS_PER_MS;
    uint64_t wait_ns = deadline_ns > steady_ns ? deadline_ns - steady_ns : HURRY_NS;
    uint64_t settle_ns = stall_settle_ns(&host->stall, world_boot_ns(world)); /* nothing is due before */
    if (settle_ns > 0) wait_ns = settle_ns;
    wait_ns += world_span_ns(world, &world->options.wake);
    if (host->tick_ns <= world->now_ns + wait_ns) return; /* sooner already */
    host->tick_ns = world->now_ns + wait_ns;
    world_after_ns(world, wait_ns, tick, NULL, host->life);
}
