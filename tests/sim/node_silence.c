/* node_silence.c: is the other node still there (shell/pair/node_silence.c)? What a knock finds out there the rig
 * knows: a process that was killed on a host that runs on, and is reached, refuses connections. */
#include "network.h"
#include "node.h"
#include "world.h"

/* As in shell/pair/node_silence.c. */
#define REMIND_NS (300 * NS_PER_MS)
#define QUIET_MS 200

static bool asks_only(const struct pair *pair) {
    return pair->by_operator && pair->role != PAIR_LEADING && (pair->role != PAIR_FOLLOWING || pair->epoch == 0);
}

void node_heard(struct world *world) {
    struct node *node = world->host->node;
    const struct pair_options *options = &world->options.pair;
    bool may_go_solo = node->pair.role == PAIR_LEADING && options->solo_after_ms != UINT64_MAX;
    uint64_t wait_ms = may_go_solo ? options->solo_after_ms : options->failover_after_ms;
    if (asks_only(&node->pair)) wait_ms = QUIET_MS;
    silence_begin(&node->silence, world->now_ns, wait_ms * NS_PER_MS);
}

static bool has_leader(const struct node *node) {
    return node->pair.role == PAIR_FOLLOWING && !node->pair.by_operator && !node->following.has_left;
}

static uint64_t silent_ns(const struct world *world) {
    const struct node *node = world->host->node;
    uint64_t until_ns = node->silence.until_ns;
    if (node->following.has_left) return UINT64_MAX;
    uint64_t stuck_ns = leader_half_stuck_ns(&node->leading.half, &node->pair);
    if (stuck_ns < until_ns) until_ns = stuck_ns;
    return until_ns > node->silence.remind_ns ? until_ns : node->silence.remind_ns;
}

uint64_t node_silence_timer(const struct world *world) {
    const struct node *node = world->host->node;
    uint64_t until_ns = silent_ns(world);
    return has_leader(node) && node->silence.probe_ns < until_ns ? node->silence.probe_ns : until_ns;
}

static void say_silent(struct world *world, bool is_gone) {
    struct pair_event event = {.kind = PAIR_SILENT, .gone = is_gone};
    world->host->node->silence.remind_ns = world->now_ns + REMIND_NS;
    node_step(world, &event, NULL);
}

void node_check_silence(struct world *world) {
    struct node *node = world->host->node;
    if (has_leader(node) && silence_probes(&node->silence, world->now_ns)) follow_probe(world);
    if (world->now_ns < silent_ns(world)) return;
    bool is_leading = node->pair.role == PAIR_LEADING;
    if (is_leading && world->now_ns < node->silence.until_ns) lead_give_up(world);
    if (is_leading) lead_forget_question(world);
    say_silent(world, false);
}

/* As the pair's thread does whenever it wakes up. */
void node_check_sleep(struct world *world) {
    struct node *node = world->host->node;
    if (asks_only(&node->pair) || !silence_overslept(&node->silence, world->now_ns)) return;
    node->overslept_ns = world->now_ns;
    if (node->pair.role == PAIR_LEADING) leader_half_overslept(&node->leading.half, world->now_ns);
    TRACE(world, "broker", "has overslept, and gives the other node its time again");
}

/* The answer to a probe. */
void follow_probed(struct world *world, void *argument) {
    const struct node_message *message = argument;
    const struct node *node = world->host->node;
    bool is_led = message->answer.epoch != 0 && message->answer.epoch >= node->pair.note.floor;
    if (has_leader(node) && message->number == node->following.probe && is_led) node_heard(world);
}

static void is_refused(struct world *world, void *nothing) {
    const struct host *other = &world->hosts[1 - world->host->number];
    const struct node *node = world->host->node;
    if (other->state == HOST_UP || !has_leader(node) || node->pair.epoch == 0) return;
    if (world->now_ns < node->silence.remind_ns) return;
    TRACE(world, "broker", "finds nobody where its leader was");
    say_silent(world, true);
}

void node_is_gone(struct world *world) {
    network_between(world, 1 - world->host->number, is_refused, NULL, NETWORK_ANY_LIFE);
}
