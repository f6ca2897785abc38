/* pair_history.c: a random history of a pair (history.h): two nodes, a coordinator or an operator, a link between the
 * nodes, and clients that know the two addresses. pair_faults.c makes the faults. In the calm phase one node leads, the
 * other follows in sync, and everything settles. At the end the two logs and the two states must be equal. */
#include <string.h>

#include "../must.h"
#include "faults.h"
#include "history.h"
#include "laws.h"
#include "node.h"
#include "ops.h"
#include "pair_faults.h"
#include "registrar.h"

#define DELAY_BITS_MAX 26  /* binary logarithm of the longest delay in ms: 2^26 ms are about 19 hours */
#define LOST_CALL_MS 6000u /* time in ms after which a lost call has certainly timed out */
#define ROUNDS_MAX 600     /* maximum number of rounds of 500 ms until everything must have settled */
/* Maximum number of epochs in a history: each may leave a tail in quarantine, and the model disk has few files. */
#define EPOCHS_ENOUGH 400

static void draw_pair(uint64_t seed, struct random *random, struct world_options *options) {
    if (options->net.least_us + options->net.spread_us > 20000) options->net = (struct span){1000, 20000};
    /* Makes the timeouts so long that a follower that answers at full speed is never silent. */
    uint64_t round_ms = (options->net.least_us + options->net.spread_us + options->sync.least_us +
                         options->sync.spread_us + options->wake.least_us + options->wake.spread_us) /
                        1000;
    /* A lease's time runs while both disks sync the lease's record, before the delivery leaves. With leases of 100 ms,
     * a slow pair's acks came too late: history 320077902 leased two tasks 700 times, and never settled. */
    options->lease_least_ms += 2 * round_ms;
    options->pair = (struct pair_options){
        .on = true,
        .keep_ms = UINT64_MAX,
        .failover_after_ms = 200 + 8 * round_ms + random_magnitude(random, 11),
        .solo_after_ms = 100 + 8 * round_ms + random_magnitude(random, 12),
    };
    if (random_below(random, 6) == 0) options->pair.solo_after_ms = UINT64_MAX;
    /* Uses a separate generator, so that older seeds still give the same histories. */
    struct random modes = {.state = seed ^ 0x6d6f6448u};
    options->pair.by_operator = random_below(&modes, 4) == 0;
    if (options->pair.by_operator) options->pair.solo_after_ms = UINT64_MAX;
    options->pair.is_async = random_below(&modes, 5) == 0;
    struct random ghosts = {.state = seed ^ 0x67686f73u};
    if (random_below(&ghosts, 2)) options->pair.presence_ms = 1000 + (uint32_t)random_below(&ghosts, 9000);
    options->retain_size = UINT64_MAX;
    struct random retiring = {.state = seed ^ 0x726574697249u};
    if (random_below(&retiring, 3)) return;
    options->retain_size = options->segment_size * random_below(&retiring, 4);
    options->pair.keep_ms = random_magnitude(&retiring, 14);
}

/* Returns whether the history has enough frames. A frame has some 300 bytes: so many frames fill some 300 segments, and
 * the model disk has 512 files. */
static bool is_long_enough(const struct world *world) {
    return world->truth.epoch >= EPOCHS_ENOUGH || world->truth.count >= world->options.segment_size;
}

/* ---- calm */

/* Returns whether one node leads, and the other has the whole log and counts as in sync. */
static bool is_in_step(const struct world *world) {
    const struct host *leader = &world->hosts[world->leader];
    const struct host *follower = &world->hosts[1 - world->leader];
    if (!node_is_leading(leader) || follower->state != HOST_UP) return false;
    bool follows = follower->node->pair.role == PAIR_FOLLOWING;
    bool counts = world->options.pair.is_async || pair_is_in_sync(&leader->node->pair);
    bool is_wished =
        follower->node->pair.wants && !world->options.pair.is_async; /* without a coordinator, the node must also have
                                                                        been made the leader by an operator's command */
    return follows && counts && !is_wished && !leader->node->paused && leader->durable == core_position(leader->core) &&
           core_position(follower->core) == leader->durable;
}

/* Lets a follower with a new disk join a pair whose leader never serves alone (solo_after_ms is UINT64_MAX). An
 * operator tells the leader not to wait for the former disk. */
static void let_in(struct world *world) {
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        const struct node *node = world->hosts[i].node, *other = world->hosts[1 - i].node;
        /* A leader's core may not be running yet, because the leader first waits until its log is committed. So the
         * role of the pair's rules is checked. */
        bool leads = world->hosts[i].state == HOST_UP && node->pair.role == PAIR_LEADING;
        bool waits = leads && node->pair.counted && hard_state_is_another(&node->hard_state, other->member);
        if (waits && world->options.pair.solo_after_ms == UINT64_MAX) node_tell(world, i, PAIR_SOLO);
    }
}

/* Starts the nodes that wait for a snapshot, because from now on no other actor starts any node. */
static void go_on_fetching(struct world *world) {
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        if (!world->hosts[i].node->fetching) continue;
        world_enter(world, i);
        (void)host_start(world, false);
    }
    world_enter(world, WORLD_OUTSIDE);
}

void pair_history_wait(struct world *world) {
    /* Waits for everything in progress: a claim of leadership, a restart, a follower's new timeout, a call to a
     * restored coordinator. */
    uint64_t wait_ms = 2000 + 2 * world->options.pair.failover_after_ms;
    if (world->registrar && world->registrar->connections > 0) wait_ms += LOST_CALL_MS;
    world_run_until(world, world->now_ns + wait_ms * NS_PER_MS);
    for (int round = 0; !is_in_step(world); round++) {
        MUST(round < ROUNDS_MAX);
        if (round % 10 == 9) let_in(world);
        go_on_fetching(world);
        world_run_until(world, world->now_ns + 500 * NS_PER_MS);
    }
    world_enter(world, WORLD_OUTSIDE);
}

/* Compares the logs of both nodes frame by frame. */
static void check_same(const struct world *world) {
    const struct host *leader = &world->hosts[world->leader];
    const struct host *follower = &world->hosts[1 - world->leader];
    MUST(leader->frame_count == follower->frame_count);
    for (size_t i = 0; i < leader->frame_count; i++) MUST(leader->frames[i].serial == follower->frames[i].serial);
    MUST(core_digest(leader->core) == core_digest(follower->core));
    MUST(core_live(leader->core) == core_live(follower->core));
}

static void check_end(struct world *world) {
    pair_history_wait(world);
    uint32_t leader = world->leader;
    world_enter(world, leader);
    history_check(world);
    pair_history_wait(world);
    MUST(world->leader == leader);
    check_same(world);
    world_enter(world, 1 - leader);
    host_index_now(world);
    history_erase(world);
    host_check_log(world);
    world_enter(world, WORLD_OUTSIDE);
}

void pair_history_end(struct world *world, const struct habits *habits) {
    pair_history_wait(world);
    history_settle(world, habits);
    laws_of_recurs(&world->host->head, host_now(world).wall_ns / NS_PER_MS);
    check_end(world);
}

void pair_history_report(const struct world *world, struct history_report *out) {
    *out = (struct history_report){
        .simulated_ns = world->now_ns,
        .requests = world->ledger.requests,
        .deliveries = world->ledger.deliveries,
        .starts = world->hosts[0].starts + world->hosts[1].starts,
        .refusals = world->hosts[0].refusals + world->hosts[1].refusals,
        .frames = world->truth.count,
        .fingerprint = history_fingerprint(world),
    };
}

/* Makes a planned switch-over at the end: it must lose nothing, although no fault happens. */
static void hand_over(struct world *world) {
    uint32_t before = world->leader;
    for (int round = 0; world->leader == before; round++) {
        MUST(round < ROUNDS_MAX);
        if (round % 10 ==
            0) { /* repeats the command, because the switch-over is abandoned if the other node takes too long */
            node_tell(world, before, PAIR_HAND_OVER);
        }
        world_run_until(world, world->now_ns + 500 * NS_PER_MS);
    }
    pair_history_wait(world);
    check_same(world);
}

/* Sends a query to a random node. A primary must answer with the state that the whole pair has acknowledged (R3). */
static void look_around(struct world *world, void *argument, uint64_t number) {
    struct client *client = argument;
    if (client->habits->over) return;
    client->node = (uint32_t)random_below(&world->random, HOSTS_MAX);
    if (client->open_count < 8) habits_look(client, client->habits);
    world_after_ns(world, random_below(&world->random, client->habits->think_us) * 1000, look_around, client, 0);
}

static void begin_clients(struct world *world, struct habits *habits, struct random *random) {
    size_t count = 1 + random_below(random, 4);
    for (size_t i = 0; i < count; i++) {
        bool is_consumer = i == 0 || random_below(random, 2);
        habits_start(client_new(world, history_names[i]), habits, is_consumer);
    }
    habits_start_mover(world, habits);
    if (random_below(random, 2)) return;
    struct client *looker = client_new(world, "gina");
    looker->habits = habits;
    look_around(world, looker, 0);
}

/* This test covers these faults and promises of tests/FAULTS.md: F-24, F-25, F-26, F-27, F-28, F-29, F-30, F-31 (at
 * every frame); R2, R3, R4, R5, R6, R7, R8; LOG-1 to LOG-5, TIME-1, TIME-2, KEEP-1, ONCE-1, TRUE-1, FENCE-1. */
void pair_history_play(struct world *world, uint64_t seed, struct history_report *out) {
    struct random random = {.state = seed ^ 0x70616972u};
    struct world_options options = history_draw_options(seed, &random);
    struct habits drawn;
    struct pair_faults drawn_faults;
    habits_draw(&random, &drawn);
    options.core.queues_max = habits_places(&drawn);
    draw_pair(seed, &random, &options);
    /* Limits delays to less than the jump of the wall clock that a promotion accepts. In the calm phase, time jumps
     * over delays, and a promotion follows at its end. */
    if (drawn.delay_bits > DELAY_BITS_MAX) drawn.delay_bits = DELAY_BITS_MAX;
    drawn.think_us *=
        1u + (uint32_t)random_below(&random, 32); /* clients of a pair act less often, because a failover takes time */
    pair_faults_draw(&random, &drawn_faults);
    if (drawn.actions_left > 500) options.segment_size = 16u << 10;
    world_begin(world, &options);
    struct habits *habits = world_copy(world, &drawn, sizeof drawn);
    struct pair_faults *faults = world_copy(world, &drawn_faults, sizeof drawn_faults);
    for (uint32_t i = 0; i < world->host_count; i++) {
        world_enter(world, i);
        MUST(host_start(world, false));
    }
    world_enter(world, WORLD_OUTSIDE);
    begin_clients(world, habits, &random);
    pair_faults_start(world, faults);
    while (habits->actions_left && !is_long_enough(world) && world_step(world)) {
    }
    TRACE(world, "calm", "everything is put right");
    habits->over = true;
    pair_faults_end(world, faults);
    pair_history_end(world, habits);
    if (random_below(&random, 4) == 0) hand_over(world);
    pair_history_report(world, out);
    for (size_t i = 0; i < PAIR_FAULTS; i++) out->faults += faults->counts[i];
    world_end(world);
}
