/* pair_operator.c: see pair_operator.h. */
#include "pair_operator.h"

#include <string.h>

#include "../must.h"
#include "model_disk.h"
#include "node.h"

/* Mean interval in ms of the operator's checks; a history may have an interval that is up to eight times as long. */
#define LOOKS_MS 64u
#define WORD_CHECK_MS 5u /* interval in ms of the checks whether the node has taken a command */
#define SETTLE_ROUNDS_MAX 10000

static struct host *other_of(struct world *world, const struct host *host) {
    return &world->hosts[1 - host->number];
}

/* Reads the hard state that the node will find at its start. A crash during a write may leave the old or the new state.
 */
static bool read_hard_state(const struct host *host, struct hard_state *out) {
    char message[IDENTITY_MESSAGE_SIZE];
    return hard_state_read(&host->node->pair_disk->disk, "/data", out, message) == 0;
}

/* Returns whether the disk is new to the other node: the other node's hard state knows a different disk as its peer's.
 */
static bool is_new_disk(struct world *world, const struct host *host) {
    return hard_state_is_another(&other_of(world, host)->node->hard_state, host->node->member);
}

bool pair_operator_may_wipe(struct world *world, const struct host *host) {
    struct hard_state hard_state, others;
    if (host->state == HOST_UP) return false;
    if (is_new_disk(world, host)) return true;
    if (!read_hard_state(host, &hard_state) || !read_hard_state(other_of(world, host), &others)) return false;
    bool is_the_pair = memcmp(hard_state.peer, other_of(world, host)->node->member, MEMBER_ID_SIZE) == 0;
    return is_the_pair && !hard_state.alone && (others.in_sync || others.alone);
}

static bool has_directory(const struct host *host) {
    struct hard_state hard_state;
    return read_hard_state(host, &hard_state);
}

bool pair_operator_may_start(const struct world *world, const struct pair_faults *faults, const struct host *host) {
    if (!world->options.pair.by_operator) return true;
    if (faults->held[host->number]) return false;
    return !host->node->joins || has_directory(host) || world->hosts[1 - host->number].state == HOST_UP;
}

/* ---- the operator's words */

struct asserted {
    struct pair_faults *faults;
    uint64_t life, words; /* number of the life of the node that got the command, and its number of commands then */
};

static void check_word(struct world *world, void *argument, uint64_t number) {
    const struct asserted *asserted = argument;
    const struct host *host = &world->hosts[number];
    bool is_down = host->life != asserted->life || host->state != HOST_UP;
    bool is_over = is_down || (host->node->words != asserted->words && host->node->pair.asserting == 0);
    if (is_over)
        asserted->faults->held[1 - number] = false;
    else
        world_after_at(world, WORLD_OUTSIDE, WORD_CHECK_MS * NS_PER_MS, check_word, argument, number);
}

/* Returns the command by which the operator makes this node lead. Normally this is PAIR_ASSERT. If the other node's
 * disk is lost, and this node's hard state says that it is not in sync, only PAIR_FORCE helps. The node may still have
 * all frames, because it may have received the missing ones with the reply that said so. The operator has compared the
 * clients' replies with the node's log. */
static enum pair_word word_for(struct world *world, const struct host *host) {
    const struct hard_state *hard_state = &host->node->hard_state;
    bool has_all = is_new_disk(world, other_of(world, host)) && truth_has(world, host, world->truth.count);
    return !hard_state->in_sync && !hard_state->alone && has_all ? PAIR_FORCE : PAIR_ASSERT;
}

static void assert_stopped(struct world *world, struct pair_faults *faults, struct host *host) {
    struct asserted asserted = {.faults = faults, .life = host->life, .words = host->node->words};
    faults->held[1 - host->number] =
        true; /* until the command is carried out, the other node is not started and gets no command */
    node_tell(world, host->number, word_for(world, host));
    check_word(world, world_copy(world, &asserted, sizeof asserted), host->number);
}

static bool is_quiet(const struct host *host) {
    enum pair_role role = host->state == HOST_UP && !host->node->ended ? host->node->pair.role : PAIR_ENDED;
    return role == PAIR_FOLLOWING || role == PAIR_CANDIDATE;
}

/* Returns whether the node may have acknowledged commits that the other node lacks, or may acknowledge such commits now
 * or after an operator's command. A paused node takes its commands when it runs again. */
static bool serves_alone(const struct host *host) {
    const struct pair *pair = &host->node->pair;
    struct hard_state hard_state;
    if (!read_hard_state(host, &hard_state) || hard_state.alone) return true;
    if (host->state != HOST_UP) return false;
    return pair->hard_state.alone || pair->asserting != 0 || host->node->words != host->node->words_told;
}

/* Returns whether the operator may assert that this node has everything. Without a coordinator, this replaces R6, so
 * the operator's assertion must be true. A new disk has no data, and an operator replaces a disk only when the other
 * node has everything. The other node may still be alive. If it is paused or cut off, it may come back while the
 * command is carried out (F-24, F-26). */
static bool may_assert(struct world *world, const struct host *host) {
    const struct host *other = other_of(world, host);
    if (!is_quiet(host)) return false;
    if (is_new_disk(world, other)) return true;
    bool may_come_back = other->state == HOST_UP && !world->options.pair.is_async && one_in(world, 2);
    return (other->state != HOST_UP || may_come_back) && !serves_alone(other);
}

/* Returns whether the node's disk may be wiped because both nodes have recorded that they serve alone. That happens if
 * one node's disk fails while the node records it, and the operator has read the older state. The operator compares the
 * nodes, and wipes the one whose commits are all on the other node. */
static bool is_given_up(struct world *world, const struct host *host) {
    const struct host *other = other_of(world, host);
    bool both_quiet = is_quiet(host) && is_quiet(other);
    return both_quiet && host->node->hard_state.alone && other->node->hard_state.alone &&
           truth_has(world, other, world->truth.count);
}

static void start_anew(struct world *world, const struct host *host) {
    world_enter(world, host->number);
    host_kill(world, HOST_POWER_LOST);
    node_wipe(world);
    (void)host_start(world, false); /* if this start fails, the operator tries again later */
    world_enter(world, WORLD_OUTSIDE);
}

static void look(struct world *world, struct pair_faults *faults, struct host *host) {
    bool waits_for_disk = is_new_disk(world, other_of(world, host));
    if (is_given_up(world, host)) {
        start_anew(world, host);
        return;
    }
    if (faults->over && !waits_for_disk) return;
    bool leads = host->state == HOST_UP &&
                 host->node->pair.role == PAIR_LEADING; /* true also while the leader's core does not run yet */
    if (faults->held[host->number]) return;
    bool may_serve_alone = waits_for_disk || !serves_alone(other_of(world, host));
    if (leads && host->node->pair.counted && may_serve_alone && (waits_for_disk || one_in(world, 4)))
        node_tell(world, host->number, PAIR_SOLO);
    else if (may_assert(world, host))
        assert_stopped(world, faults, host);
}

static void look_after(struct world *world, void *argument, uint64_t number) {
    struct pair_faults *faults = argument;
    uint64_t wait_ms = LOOKS_MS << random_below(&world->random, 4);
    look(world, faults, &world->hosts[random_below(&world->random, HOSTS_MAX)]);
    world_after_at(world, WORLD_OUTSIDE, wait_ms * NS_PER_MS, look_after, faults, 0);
}

void pair_operator_start(struct world *world, struct pair_faults *faults) {
    if (world->options.pair.by_operator) look_after(world, faults, 0);
}

void pair_operator_settle(struct world *world, struct pair_faults *faults) {
    for (int round = 0; faults->held[0] || faults->held[1]; round++) {
        MUST(round < SETTLE_ROUNDS_MAX);
        world_elapse_ms(world, WORD_CHECK_MS);
    }
}
