/* world.c: see world.h. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "client.h"
#include "node.h"
#include "registrar.h"

/* Memory in bytes for one history. Rows that were read stay in memory until the history's end. A rare history reads
 * many rows, because its core may keep only a few tasks in memory. */
#define MEMORY_MAX ((size_t)4 << 30)
#define MEMORY_KEPT (4u << 20) /* memory in bytes that is kept from one history to the next, at most */

struct world_options world_options_default(void) {
    return (struct world_options){
        .core = {.memory = 8u << 20,
                 .ahead_ms = LEASE_AHEAD_MS,
                 .outcomes_max = 1024,
                 .outcome_retention_ms = 365ull * 24 * 3600 * 1000,
                 .create_queues = true,
                 .policy = {.base = PROTOBUF_C_MESSAGE_INIT(&tarry__policy__descriptor),
                            .push = (char *)protobuf_c_empty_string,
                            .filter = (char *)protobuf_c_empty_string,
                            .lease_ms = 1000,
                            .max_attempts = 3,
                            .backoff_min_ms = 100,
                            .backoff_max_ms = 1000},
                 .version = "sim"},
        .segment_size = 64u << 10,
        .retain_size = UINT64_MAX,
        .net = {1000, 0},
        .sync = {10000, 0},
        .index = {200000, 0},
        .read = {100, 0},
        .wake = {0, 0},
        .retry = {1000000, 0},
        .lease_least_ms = 100,
        .by_hand = true,
    };
}

struct world *world_new(void) {
    struct world *world =
        calloc(1, sizeof *world); /* calloc maps zero pages, and a history uses only a small part of these megabytes */
    MUST(world);
    arena_init(&world->memory, MEMORY_MAX);
    world->memory.keep_max = MEMORY_KEPT;
    world->host = &world->hosts[0];
    for (uint32_t i = 0; i < HOSTS_MAX; i++) world->hosts[i].number = i;
    return world;
}

void world_free(struct world *world) {
    if (!world) return;
    for (size_t i = 0; i < HOSTS_MAX; i++) host_free(&world->hosts[i]);
    arena_deinit(&world->memory);
    truth_free(&world->truth);
    timeline_free(&world->timeline);
    trace_free(&world->trace);
    free(world);
}

void world_begin(struct world *world, const struct world_options *options) {
    world->options = *options;
    world->random.state = options->seed;
    world->now_ns = 0;
    timeline_clear(&world->timeline);
    arena_reset(&world->memory);
    world->trace.size = 0;
    world->believable_ns = 0;
    world->steady_jumped_ns = 0;
    world->host_count = options->pair.on ? 2 : 1;
    world->leader = 0;
    world->registrar = NULL;
    world->is_steady = false;
    truth_begin(&world->truth);
    world_enter(world, WORLD_OUTSIDE);
    world->network = (struct network){0};
    world->client_count = 0;
    ledger_begin(world);
    for (uint32_t i = 0; i < world->host_count; i++) {
        world_enter(world, i);
        host_begin(world);
        if (options->pair.on) node_make(world, i == 1);
    }
    world_enter(world, WORLD_OUTSIDE);
    if (options->pair.on && !options->pair.by_operator) registrar_begin(world);
}

void world_end(struct world *world) {
    for (uint32_t i = 0; i < world->host_count; i++) {
        world_enter(world, i);
        host_end_history(world);
    }
    world_enter(world, WORLD_OUTSIDE);
    for (size_t i = 0; i < world->client_count; i++) client_free(world->clients[i]);
    world->client_count = 0;
}

/* ---- time */

bool world_step(struct world *world) {
    if (timeline_next_ns(&world->timeline) == UINT64_MAX) return false;
    struct happening next = timeline_pop(&world->timeline);
    MUST(next.at_ns < UINT64_MAX / 2);
    if (next.at_ns > world->now_ns)
        world->now_ns =
            next.at_ns; /* an event that was delayed because its process was stopped does not set the time back */
    struct host *host = next.place < HOSTS_MAX ? &world->hosts[next.place] : NULL;
    if (host && host->paused_until_ns > world->now_ns) {
        timeline_add(&host->stopped, &next);
        return true;
    }
    world_enter(world, next.place);
    next.run(world, next.argument, next.number);
    world_enter(world, WORLD_OUTSIDE);
    return true;
}

void world_run_until(struct world *world, uint64_t at_ns) {
    while (timeline_next_ns(&world->timeline) <= at_ns) (void)world_step(world);
    if (at_ns > world->now_ns) world->now_ns = at_ns;
}

void world_elapse_ms(struct world *world, uint64_t ms) {
    world_run_until(world, world->now_ns + ms * NS_PER_MS);
}

uint64_t world_span_ns(struct world *world, const struct span *span) {
    uint64_t us = span->least_us;
    if (span->spread_us) us += random_below(&world->random, (uint64_t)span->spread_us + 1);
    return us * 1000;
}

void world_enter(struct world *world, uint32_t place) {
    world->place = place;
    world->host = &world->hosts[place == WORLD_OUTSIDE ? world->leader : place];
}

/* Ends the pause of a process, unless a longer pause has begun meanwhile. */
static void pause_ends(struct world *world, void *argument, uint64_t place) {
    if (world->hosts[place].paused_until_ns <= world->now_ns) world_resume(world, (uint32_t)place);
}

void world_pause(struct world *world, uint32_t place, uint64_t ms) {
    TRACE(world, "operator", "stops node %u for %llu ms", place, (unsigned long long)ms);
    if (world->hosts[place].paused_until_ns <=
        world->now_ns) { /* if the node is stopped already, only the end of the pause changes */
        world_enter(world, place);
        host_stands_still(world);
        world_enter(world, WORLD_OUTSIDE);
    }
    world->hosts[place].paused_until_ns = world->now_ns + ms * NS_PER_MS;
    world_after_at(world, WORLD_OUTSIDE, ms * NS_PER_MS, pause_ends, NULL, place);
}

void world_resume(struct world *world, uint32_t place) {
    struct host *host = &world->hosts[place];
    uint32_t from = world->place;
    bool was_paused = host->paused_until_ns != 0;
    host->paused_until_ns = 0;
    while (timeline_next_ns(&host->stopped) != UINT64_MAX) {
        struct happening next = timeline_pop(&host->stopped);
        next.at_ns = world->now_ns;
        timeline_add(&world->timeline, &next);
    }
    if (!was_paused) return;
    world_enter(world, place);
    host_goes_on(world);
    world_enter(world, from);
}

void world_after_at(struct world *world, uint32_t place, uint64_t ns, happen *run, void *argument, uint64_t number) {
    struct happening added = {
        .at_ns = world->now_ns + ns, .run = run, .argument = argument, .number = number, .place = place};
    timeline_add(&world->timeline, &added);
}

void world_after_ns(struct world *world, uint64_t ns, happen *run, void *argument, uint64_t number) {
    world_after_at(world, world->place, ns, run, argument, number);
}

void world_after(struct world *world, const struct span *span, happen *run, void *argument, uint64_t number) {
    world_after_ns(world, world_span_ns(world, span), run, argument, number);
}

bool one_in(struct world *world, uint64_t n) {
    return random_below(&world->random, n) == 0;
}

/* ---- memory */

void *world_alloc(struct world *world, size_t size) {
    void *out = arena_alloc(&world->memory, size ? size : 1);
    MUST(out);
    memset(out, 0, size);
    return out;
}

void *world_copy(struct world *world, const void *data, size_t size) {
    void *out = arena_alloc(&world->memory, size ? size : 1);
    MUST(out);
    if (size) memcpy(out, data, size);
    return out;
}

/* ---- the clocks */

uint64_t world_real_ns(const struct world *world) {
    return (uint64_t)((int64_t)(WORLD_EPOCH_NS + world->now_ns) + world->host->wall_offset_ns);
}

uint64_t world_boot_ns(const struct world *world) {
    return world->now_ns - world->host->booted_ns + 1000000000u;
}

/* Sets the wall clock. A running broker accepts the clock if it is at most one hour ahead of the largest clock accepted
 * before. */
void world_jump_wall(struct world *world, int64_t ms) {
    world->host->wall_offset_ns += ms * (int64_t)NS_PER_MS;
    int64_t limit_ns = world->believable_ns + (int64_t)(CLOCK_JUMP_RUN_MS * NS_PER_MS);
    bool is_believable = world->host->wall_offset_ns > world->believable_ns && world->host->wall_offset_ns <= limit_ns;
    if (is_believable) world->believable_ns = world->host->wall_offset_ns;
    TRACE(world, "clock", "%+lld ms", (long long)ms);
    uint32_t from = world->place;
    world_enter(world, world->host->number); /* a stopped process notices the jump only when it runs again */
    host_wake(world);
    world_enter(world, from);
}

void world_suspend(struct world *world, uint64_t ms) {
    TRACE(world, "clock", "the machine sleeps for %llu ms", (unsigned long long)ms);
    uint32_t from = world->place;
    for (uint32_t i = 0; i < world->host_count; i++) {
        world_enter(world, i);
        if (world->host->paused_until_ns <= world->now_ns) host_stands_still(world);
    }
    world->now_ns += ms * NS_PER_MS;
    for (uint32_t i = 0; i < world->host_count; i++) {
        world_enter(world, i);
        if (world->host->paused_until_ns <= world->now_ns) host_goes_on(world);
    }
    world_enter(world, from);
}
