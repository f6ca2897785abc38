/* pair_faults.c: see pair_faults.h. */
#include "pair_faults.h"

#include <errno.h>

#include "../must.h"
#include "client.h"
#include "model_disk.h"
#include "node.h"
#include "pair_operator.h"
#include "registrar.h"

#define STARTS_MAX 50 /* number of starts after the repair of all faults, of which at least one must succeed */
#define FETCH_MS 200u /* time in ms between two starts while a node waits for a snapshot */

void pair_faults_draw(struct random *random, struct pair_faults *out) {
    *out = (struct pair_faults){.every_ms = 64u << random_below(random, 7), .down_ms = 64u << random_below(random, 7)};
    uint64_t some = random_u64(random);
    out->mask = (uint32_t)(some & random_u64(random)) &
                ((1u << PAIR_FAULTS_DRAWN) - 1); /* switches on each kind of fault with a probability of a quarter */
    out->mask |= (uint32_t)(some >> 58 & some >> 60 & 3) << PAIR_FAULTS_DRAWN;
    if (random_below(random, 2)) out->mask |= 1u << PAIR_FAULT_KILL | 1u << PAIR_FAULT_LINK;
    if (random_below(random, 16) == 0) out->mask = 0; /* one history in sixteen has no faults */
}

/* ---- starting again */

static void start(struct world *world, const struct pair_faults *faults, uint32_t number) {
    world_enter(world, number);
    struct host *host = world->host;
    if (host->state != HOST_UP && pair_operator_may_start(world, faults, host)) {
        bool up = host_start(world, false);
        if (!up && !host->node->fetching)
            host_kill(world, HOST_KILLED); /* the kill ends the faults of the disk: no further call fails */
    }
    world_enter(world, WORLD_OUTSIDE);
}

static void guard(struct world *world, void *argument, uint64_t number);

static void guard_later(struct world *world, struct pair_faults *faults, uint64_t number) {
    uint64_t wait_ms = 1 + random_below(&world->random, faults->down_ms);
    world_after_at(world, WORLD_OUTSIDE, wait_ms * NS_PER_MS, guard, faults, number);
}

static void guard(struct world *world, void *argument, uint64_t number) {
    struct pair_faults *faults = argument;
    if (faults->over) return;
    start(world, faults, (uint32_t)number);
    guard_later(world, faults, number);
}

/* ---- faults */

static uint64_t some_ms(struct world *world, unsigned bits) {
    return 1 + random_magnitude(&world->random, bits);
}

static void heal_link(struct world *world, void *argument, uint64_t number) {
    world->network.cut_from[0] = world->network.cut_from[1] = false;
    TRACE(world, "network", "the nodes hear each other");
}

static void cut_link(struct world *world) {
    bool first = one_in(world, 2);
    bool second = !first || one_in(world, 2);
    world->network.cut_from[0] |= first;
    world->network.cut_from[1] |= second;
    TRACE(world, "network", "nothing comes from%s%s", world->network.cut_from[0] ? " node 0" : "",
          world->network.cut_from[1] ? " node 1" : "");
    world_after_ns(world, some_ms(world, 14) * NS_PER_MS, heal_link, NULL, 0);
}

static void heal_coordinator(struct world *world, void *argument, uint64_t number) {
    registrar_heal(world);
}

/* Cuts one node or both off from the coordinator. A node that is already cut off stays cut off; otherwise
 * registrar_heal would not know when the node's connection began (history 85014242). */
static void cut_coordinator(struct world *world) {
    if (!world->registrar) return;
    bool first = one_in(world, 2);
    bool second = !first || one_in(world, 2);
    world->registrar->cut[0] |= first;
    world->registrar->cut[1] |= second;
    TRACE(world, "network", "the coordinator is not reached by%s%s", world->registrar->cut[0] ? " node 0" : "",
          world->registrar->cut[1] ? " node 1" : "");
    world_after_ns(world, some_ms(world, 14) * NS_PER_MS, heal_coordinator, NULL, 0);
}

static void cut_off(struct world *world) {
    uint32_t node = world->host->number;
    TRACE(world, "network", "node %u is cut off from the other and the coordinator", node);
    world->network.cut_from[0] = world->network.cut_from[1] = true;
    if (world->registrar) world->registrar->cut[node] = true;
    uint64_t wait_ns = some_ms(world, 14) * NS_PER_MS;
    world_after_at(world, WORLD_OUTSIDE, wait_ns, heal_link, NULL, 0);
    if (world->registrar) world_after_at(world, WORLD_OUTSIDE, wait_ns, heal_coordinator, NULL, 0);
}

static void heal_client(struct world *world, void *argument, uint64_t number) {
    ((struct client *)argument)->link = (struct link){0};
}

static void cut_client(struct world *world) {
    struct client *client = world->clients[random_below(&world->random, world->client_count)];
    client->link = (struct link){.cut_up = one_in(world, 2), .cut_down = one_in(world, 2)};
    world_after_ns(world, some_ms(world, 13) * NS_PER_MS, heal_client, client, 0);
}

static void find_room(struct world *world, void *argument, uint64_t number) {
    for (uint32_t i = 0; i < HOSTS_MAX; i++) world->hosts[i].disk->room = world->options.disk_room;
}

static void fill_up(struct world *world) {
    struct model_disk *disk = world->host->disk;
    disk->room = model_room_used(disk) + 1 + random_below(&world->random, 2 * (world->options.segment_size + 4096));
    TRACE(world, "disk", "of node %u is nearly full", world->host->number);
    world_after_at(world, WORLD_OUTSIDE, some_ms(world, 13) * NS_PER_MS, find_room, NULL, 0);
}

/* Returns whether the node's disk may be wiped: only if the node neither leads nor counts as in sync, because an
 * operator would not replace any other disk. */
static bool may_wipe(const struct world *world) {
    const struct registrar *registrar = world->registrar;
    const struct pair_record *record = &registrar->now.record.pair;
    if (registrar->is_doubted || registrar->now.version == 0 || record->leader == world->host->number) return false;
    return (record->in_sync & 1u << world->host->number) == 0;
}

static void wipe(struct world *world) {
    if (world->registrar && !may_wipe(world)) return;
    host_kill(world, HOST_POWER_LOST);
    if (world->registrar || pair_operator_may_wipe(world, world->host)) node_wipe(world);
}

static void write_record(struct world *world, void *argument, uint64_t number) {
    registrar_write_again(world);
}

/* Returns whether both nodes have durably seen an epoch later than this one. Only then may a fault set the record back,
 * because otherwise no node could recognize the loss. */
static bool both_have_seen(const struct world *world, uint32_t epoch) {
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        const struct pair *pair = &world->hosts[i].node->pair;
        if (world->hosts[i].state != HOST_UP || pair->writing_state || pair->hard_state.recorded <= epoch) return false;
    }
    return true;
}

static void break_record(struct world *world) {
    const struct registrar *registrar = world->registrar;
    if (!registrar || registrar->is_doubted || registrar->now.version == 0) return;
    bool is_lost = registrar->past.version == 0 || one_in(world, 3);
    if (!both_have_seen(world, is_lost ? 0 : registrar->past.record.pair.epoch)) return;
    if (is_lost)
        registrar_lose(world);
    else
        registrar_put_back(world, one_in(world, 2));
    world_after_at(world, WORLD_OUTSIDE, some_ms(world, 15) * NS_PER_MS, write_record, NULL, 0);
}

static void index_goes_on(struct world *world, void *argument, uint64_t number) {
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        world_enter(world, i);
        host_release_index(world);
    }
    world_enter(world, WORLD_OUTSIDE);
}

static void disks_go_on(struct world *world, void *argument, uint64_t number) {
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        world_enter(world, i);
        host_release_sync(world);
    }
    world_enter(world, WORLD_OUTSIDE);
}

/* Causes the fault at a random node. */
static void happens_to(struct world *world, enum pair_fault fault) {
    struct host *host = world->host;
    switch (fault) {
    case PAIR_FAULT_KILL:
        host_kill(world, HOST_KILLED);
        break;
    case PAIR_FAULT_POWER:
        host_kill(world, HOST_POWER_LOST);
        break;
    case PAIR_FAULT_STOP:
        host_stop(world);
        break;
    case PAIR_FAULT_PAUSE:
        world_pause(world, host->number, some_ms(world, 13));
        break;
    case PAIR_FAULT_CALL: {
        struct model_disk *disk = one_in(world, 3) ? host->node->pair_disk : host->disk;
        if (host->state != HOST_UP || disk->fail_at) break;
        disk->fail_at = disk->calls + 1 + random_below(&world->random, 12);
        disk->fail_error = -EIO;
        disk->fail_for_ever = false;
        break;
    }
    case PAIR_FAULT_FULL:
        if (host->number != world->leader && host->disk->room == world->options.disk_room) fill_up(world);
        break;
    case PAIR_FAULT_ISLAND:
        cut_off(world);
        break;
    case PAIR_FAULT_WIPE:
        wipe(world);
        break;
    case PAIR_FAULT_JUMP: {
        uint64_t ms = random_magnitude(&world->random, 21);
        world_jump_wall(world, one_in(world, 2) ? (int64_t)ms : -(int64_t)ms);
        break;
    }
    case PAIR_FAULT_HAND_OVER:
        node_word(world, one_in(world, 4) ? PAIR_PROMOTE : PAIR_HAND_OVER);
        break;
    case PAIR_FAULT_LAG:
        host_hold_index(world);
        world_after_at(world, WORLD_OUTSIDE, some_ms(world, 13) * NS_PER_MS, index_goes_on, NULL, 0);
        break;
    case PAIR_FAULT_HANG:
        host_hold_sync(world);
        world_after_at(world, WORLD_OUTSIDE, some_ms(world, 15) * NS_PER_MS, disks_go_on, NULL, 0);
        break;
    default:
        break;
    }
}

static void happens_now(struct world *world, struct pair_faults *faults, enum pair_fault fault) {
    faults->counts[fault]++;
    if (fault == PAIR_FAULT_LINK) cut_link(world);
    if (fault == PAIR_FAULT_COORDINATOR) cut_coordinator(world);
    if (fault == PAIR_FAULT_CLIENT) cut_client(world);
    if (fault == PAIR_FAULT_RECORD) break_record(world);
    if (fault == PAIR_FAULT_BOTH) {
        uint32_t first = (uint32_t)random_below(&world->random, 2);
        world_enter(world, first);
        host_kill(world, HOST_POWER_LOST);
        world_enter(world, 1 - first);
        host_kill(world, HOST_POWER_LOST);
    } else {
        world_enter(world, one_in(world, 2) ? world->leader : 1 - world->leader);
        happens_to(world, fault);
    }
    world_enter(world, WORLD_OUTSIDE);
}

static void fault_comes(struct world *world, void *argument, uint64_t number) {
    struct pair_faults *faults = argument;
    if (faults->over) return;
    uint32_t left = faults->mask;
    for (uint64_t skip = random_below(&world->random, (uint64_t)__builtin_popcount(left)); skip; skip--)
        left &= left - 1;
    happens_now(world, faults, (enum pair_fault)__builtin_ctz(left));
    uint64_t wait_ms = 1 + random_below(&world->random, faults->every_ms * 2);
    world_after_at(world, WORLD_OUTSIDE, wait_ms * NS_PER_MS, fault_comes, faults, 0);
}

static void draw_weather(struct world *world) {
    struct random *random = &world->random;
    struct network *network = &world->network;
    if (random_below(random, 3) == 0) network->drop_permille = 1u << random_below(random, 8);
    if (random_below(random, 3) == 0) network->double_permille = 1u << random_below(random, 9);
    if (random_below(random, 2) == 0) network->late_permille = 1u << random_below(random, 9);
    network->late_ms = 1u << random_below(random, 12);
    if (!world->registrar) return;
    if (random_below(random, 3) == 0) world->registrar->lost_permille = 1u << random_below(random, 9);
    if (random_below(random, 3) == 0) world->registrar->late_permille = 1u << random_below(random, 9);
    world->registrar->late_ms = 1u << random_below(random, 14);
}

void pair_faults_start(struct world *world, struct pair_faults *faults) {
    for (uint32_t i = 0; i < HOSTS_MAX; i++) guard_later(world, faults, i);
    pair_operator_start(world, faults);
    if (!faults->mask) return;
    draw_weather(world);
    uint64_t wait_ms = random_below(&world->random, faults->every_ms * 2);
    world_after_ns(world, wait_ms * NS_PER_MS, fault_comes, faults, 0);
}

/* Starts the nodes with an operator's word that their clocks are right, because a node may have forgotten in a crash
 * which clock it believed. */
static void accept_clocks(struct world *world) {
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        world_enter(world, i);
        (void)host_now(world);
        if (!world->host->clock.held) continue;
        host_stop(world);
        if (world->host->state != HOST_UP)
            MUST(host_start(world, true)); /* starts the node again, because it may have been deposed in the meantime */
    }
}

void pair_faults_end(struct world *world, struct pair_faults *faults) {
    faults->over = true;
    world->network = (struct network){.dropped = world->network.dropped, .doubled = world->network.doubled};
    for (size_t i = 0; i < world->client_count; i++) world->clients[i]->link = (struct link){0};
    if (world->registrar) {
        heal_coordinator(world, NULL, 0);
        registrar_write_again(world);
        registrar_calm(world);
    }
    find_room(world, NULL, 0);
    index_goes_on(world, NULL, 0);
    disks_go_on(world, NULL, 0);
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        struct host *host = &world->hosts[i];
        world_enter(world, i);
        world_resume(world, i);
        host->disk->fail_at = host->node->pair_disk->fail_at = 0;
        /* Sets the clocks of both nodes as far ahead as either of them may have been believed to be. */
        world_jump_wall(world, (world->believable_ns - host->wall_offset_ns) / (int64_t)NS_PER_MS);
    }
    world_enter(world, WORLD_OUTSIDE);
    pair_operator_settle(world, faults);
    for (int n = 0; world->hosts[0].state != HOST_UP || world->hosts[1].state != HOST_UP; n++) {
        MUST(n < STARTS_MAX);
        for (uint32_t i = 0; i < HOSTS_MAX; i++) start(world, faults, i);
        if (world->hosts[0].node->fetching || world->hosts[1].node->fetching) world_elapse_ms(world, FETCH_MS);
    }
    accept_clocks(world);
    world_enter(world, WORLD_OUTSIDE);
}
