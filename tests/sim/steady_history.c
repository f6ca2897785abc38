/* steady_history.c: 10 minutes of a pair whose leader and network are healthy, with tarryd's default times
 * (history.h). No trouble justifies a takeover: no node takes the leader for silent, or claims leadership (F-13,
 * F-30, F-31a). The troubles:
 *
 * - the follower stands still for up to a minute, or its disk hangs as long;
 * - the leader stands still for less than a follower waits, or its disk is slow for less than LEADER_DISK_HUNG_MS;
 * - both stand still, as when their common host is paused, also in the middle of a sync;
 * - the coordinator is late, or cannot be reached.
 *
 * Clients continue meanwhile. At the end everything settles, and both logs are equal. */
#include "../must.h"
#include "habits.h"
#include "history.h"
#include "leader_half.h"
#include "node.h"
#include "registrar.h"
#include "tarry_limits.h"

#define STEADY_NS (600000 * NS_PER_MS)
#define FAILOVER_MS FAILOVER_AFTER_DEFAULT_MS /* tarryd's default */
#define SOLO_MS SOLO_AFTER_DEFAULT_MS
#define TROUBLE_EVERY_MS 4000 /* mean interval of each kind of trouble; the longest interval is twice that */
#define LONG_MS 60000         /* upper limit in ms of a long standstill */
/* When both nodes are stopped together, they stop and continue within this time of each other, in ms. */
#define APART_MS 200
#define LEADER_STILL_MS (FAILOVER_MS / 2)
#define LEADER_SLOW_MS (LEADER_DISK_HUNG_MS - 500)
/* Time in ms between two faults of the leader. In it, the follower receives answers again. */
#define LEADER_REST_MS (2 * FAILOVER_MS)

struct steady {
    bool over;
    uint64_t troubles;
};

/* Returns a random time in ms: in one of four cases a long one, otherwise a short one. */
static uint64_t some_ms(struct world *world) {
    return 1 + random_below(&world->random, one_in(world, 4) ? LONG_MS : FAILOVER_MS);
}

static void again(struct world *world, happen *trouble, struct steady *steady, uint64_t rest_ms) {
    uint64_t wait_ms = rest_ms + 1 + random_below(&world->random, 2 * TROUBLE_EVERY_MS);
    world_after_at(world, WORLD_OUTSIDE, wait_ms * NS_PER_MS, trouble, steady, 0);
}

static void disk_goes_on(struct world *world, void *argument, uint64_t number) {
    world_enter(world, (uint32_t)number);
    host_release_sync(world);
    world_enter(world, WORLD_OUTSIDE);
}

static void hang_disk(struct world *world, uint32_t node, uint64_t ms) {
    TRACE(world, "disk", "of node %u takes %llu ms", node, (unsigned long long)ms);
    world_enter(world, node);
    host_hold_sync(world);
    world_enter(world, WORLD_OUTSIDE);
    world_after_at(world, WORLD_OUTSIDE, ms * NS_PER_MS, disk_goes_on, NULL, node);
}

/* Stops a node for `ms`. Has no effect if the node is already stopped for longer. */
static void pause_node(struct world *world, uint32_t node, uint64_t ms) {
    if (world->hosts[node].paused_until_ns < world->now_ns + ms * NS_PER_MS) world_pause(world, node, ms);
}

static void follower_trouble(struct world *world, void *argument, uint64_t number) {
    struct steady *steady = argument;
    uint64_t ms = some_ms(world);
    if (steady->over) return;
    steady->troubles++;
    if (one_in(world, 2))
        pause_node(world, 1 - world->leader, ms);
    else
        hang_disk(world, 1 - world->leader, ms);
    again(world, follower_trouble, steady, ms);
}

static void pause_both(struct world *world, uint64_t ms) {
    for (uint32_t node = 0; node < HOSTS_MAX; node++)
        pause_node(world, node, ms + random_below(&world->random, APART_MS));
}

static void leader_trouble(struct world *world, void *argument, uint64_t number) {
    struct steady *steady = argument;
    uint64_t ms = 0;
    if (steady->over) return;
    steady->troubles++;
    switch (random_below(&world->random, 3)) {
    case 0:
        pause_node(world, world->leader, ms = 1 + random_below(&world->random, LEADER_STILL_MS));
        break;
    case 1:
        hang_disk(world, world->leader, ms = 1 + random_below(&world->random, LEADER_SLOW_MS));
        break;
    default:
        pause_both(world, ms = some_ms(world));
        /* In half of the cases the pause begins in the middle of a sync, which ends some time after the leader runs
         * again. */
        if (one_in(world, 2)) hang_disk(world, world->leader, ms + random_below(&world->random, LEADER_STILL_MS));
        break;
    }
    again(world, leader_trouble, steady, ms + LEADER_REST_MS);
}

static void coordinator_is_back(struct world *world, void *argument, uint64_t number) {
    registrar_heal(world);
    registrar_calm(world);
}

static void coordinator_trouble(struct world *world, void *argument, uint64_t number) {
    struct steady *steady = argument;
    uint64_t ms = some_ms(world), who = random_below(&world->random, 3);
    if (steady->over) return;
    steady->troubles++;
    if (one_in(world, 2)) {
        world->registrar->cut[0] = who != 1;
        world->registrar->cut[1] = who != 0;
        TRACE(world, "network", "the coordinator is not reached by%s%s for %llu ms", who != 1 ? " node 0" : "",
              who != 0 ? " node 1" : "", (unsigned long long)ms);
    } else {
        world->registrar->late_permille = 1000;
        world->registrar->late_ms = 1u << random_below(&world->random, 12);
        TRACE(world, "network", "the coordinator is late by up to %u ms for %llu ms", world->registrar->late_ms,
              (unsigned long long)ms);
    }
    world_after_at(world, WORLD_OUTSIDE, ms * NS_PER_MS, coordinator_is_back, NULL, 0);
    again(world, coordinator_trouble, steady, ms);
}

static void draw_life(uint64_t seed, struct random *random, struct world_options *options, struct habits *habits) {
    *options = history_draw_options(seed, random);
    habits_draw(random, habits);
    options->core.queues_max = habits_places(habits);
    options->net = (struct span){100, (uint32_t)random_magnitude(random, 14)};
    options->sync = (struct span){500, (uint32_t)random_magnitude(random, 18)};
    options->wake = (struct span){10, 500};
    options->segment_size = 256u << 10;
    options->retain_size = UINT64_MAX;
    options->pair = (struct pair_options){.on = true,
                                          .keep_ms = UINT64_MAX,
                                          .failover_after_ms = FAILOVER_MS,
                                          .solo_after_ms = SOLO_MS};
    habits->think_us = 1000000u << random_below(random, 4);
    habits->actions_left = UINT32_MAX;
    habits->one_line = false;
    if (habits->delay_bits > 14) habits->delay_bits = 14;
}

static void start(struct world *world, struct habits *habits) {
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        world_enter(world, i);
        MUST(host_start(world, false));
    }
    world_enter(world, WORLD_OUTSIDE);
    pair_history_wait(world);
    for (size_t i = 0; i < 3; i++) habits_start(client_new(world, history_names[i]), habits, i == 0);
}

/* This test covers these faults of tests/FAULTS.md: F-13, F-30, F-31a. */
void steady_history_play(struct world *world, uint64_t seed, struct history_report *out) {
    struct random random = {.state = seed ^ 0x73746561u};
    struct world_options options;
    struct habits drawn;
    draw_life(seed, &random, &options, &drawn);
    world_begin(world, &options);
    struct habits *habits = world_copy(world, &drawn, sizeof drawn);
    struct steady *steady = world_copy(world, &(struct steady){0}, sizeof *steady);
    start(world, habits);
    world->is_steady = true;
    again(world, follower_trouble, steady, 0);
    again(world, leader_trouble, steady, 0);
    again(world, coordinator_trouble, steady, 0);
    world_run_until(world, world->now_ns + STEADY_NS);
    TRACE(world, "calm", "the ten minutes are over");
    steady->over = habits->over = true;
    world_run_until(world, world->now_ns + 2 * LONG_MS * NS_PER_MS); /* waits until everything in progress has ended */
    pair_history_end(world, habits);
    pair_history_report(world, out);
    out->faults = steady->troubles;
    world_end(world);
}
