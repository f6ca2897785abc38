/* node_silence.c: detects whether the other node is alive. silence.h (broker/replication) decides when a node counts as
 * silent; this file sends the probes and reports. A connection attempt uses the rig's knowledge: the host of a killed
 * process refuses connections if it runs and can be reached. */
#include "../must.h"
#include "network.h"
#include "node.h"
#include "world.h"

void node_heard(struct world *world) {
    struct node *node = world->host->node;
    summons_end(&node->summons);
    silence_heard(&node->silence, &node->pair, &node->leading.half.times, world->now_ns);
    node->following.heard_ns = world->now_ns;
}

static uint64_t stuck_ns(const struct node *node) {
    return leader_half_stuck_ns(&node->leading.half, &node->pair);
}

uint64_t node_silence_timer(const struct world *world) {
    const struct node *node = world->host->node;
    return silence_timer(&node->silence, &node->pair, node->following.half.has_left, stuck_ns(node));
}

static void say_silent(struct world *world, bool is_gone) {
    struct pair_event event = {.kind = PAIR_SILENT, .gone = is_gone};
    node_step(world, &event, NULL);
}

/* F-31c: checks that the silent node was asked, and had time to answer. */
static void check_was_asked(const struct world *world) {
    const struct node *node = world->host->node;
    uint64_t probed_ns = node->following.probed_ns;
    uint64_t wait_ns = world->options.pair.failover_after_ms * NS_PER_MS / SILENCE_PROBE_PART;
    if (node->pair.role != PAIR_FOLLOWING || node->pair.by_operator) return;
    MUST(probed_ns >= node->following.heard_ns && world->now_ns >= probed_ns + wait_ns);
}

static void has_stood_still(struct world *world) {
    struct node *node = world->host->node;
    node->overslept_ns = node->following.heard_ns = world->now_ns;
    summons_end(&node->summons);
    if (node->pair.role == PAIR_LEADING) leader_half_overslept(&node->leading.half, world->now_ns);
    TRACE(world, "broker", "has overslept, and gives the other node its time again");
}

void node_check_silence(struct world *world) {
    struct node *node = world->host->node;
    const struct silence_verdict verdict =
        silence_look(&node->silence, &node->pair, node->following.half.has_left, stuck_ns(node), world->now_ns);
    if (verdict.stood_still) has_stood_still(world);
    if (verdict.probes || verdict.tells) summons_ask(&node->summons, &node->pair, world->now_ns);
    if (verdict.probes) follow_probe(world);
    if (!verdict.tells) return;
    MUST(!world->is_steady || node->pair.role != PAIR_FOLLOWING); /* F-13 */
    check_was_asked(world);
    if (verdict.gives_up) {
        alone_because(&node->alone, TARRY__ALONE_PUT__WHY__STUCK);
        lead_give_up(world);
    }
    if (node->pair.role == PAIR_LEADING) lead_forget_question(world);
    say_silent(world, false);
}

/* Checks whether the node was stopped. Called whenever the pair's thread wakes up. */
void node_check_sleep(struct world *world) {
    struct node *node = world->host->node;
    if (silence_stood_still(&node->silence, &node->pair, world->now_ns)) has_stood_still(world);
}

/* Handles the answer to a probe of the leader. */
void follow_probed(struct world *world, void *argument) {
    const struct node_message *message = argument;
    const struct node *node = world->host->node;
    bool is_newest = message->number == node->following.probe;
    if (is_newest) node_take_word(world, message);
    if (is_newest && silence_probe_counts(&node->pair, node->following.half.has_left, message->answer.epoch))
        node_heard(world);
}

static void is_refused(struct world *world, void *nothing) {
    const struct host *other = &world->hosts[1 - world->host->number];
    struct node *node = world->host->node;
    if (other->state == HOST_UP) return;
    if (!silence_is_gone(&node->silence, &node->pair, node->following.half.has_left, world->now_ns)) return;
    bool leads = node->pair.role == PAIR_LEADING;
    TRACE(world, "broker", "finds no process where its %s was", leads ? "follower" : "leader");
    if (!leads) say_silent(world, true);
}

void node_is_gone(struct world *world) {
    network_between(world, 1 - world->host->number, is_refused, NULL, NETWORK_ANY_LIFE);
}

/* ---- presences at the coordinator (summons.h) */

void node_declare(struct world *world) {
    struct node *node = world->host->node;
    uint64_t number = summons_asks(&node->summons, &node->pair);
    if (leader_half_declares(&node->leading.half, &node->pair))
        record_client_declare(&node->record_client, node->pair.epoch);
    else if (number != 0)
        record_client_summon(&node->record_client, number);
}

void node_read_record(struct world *world) {
    struct node *node = world->host->node;
    enum record_client_question question = node->reads.presence ? RECORD_CLIENT_PRESENCE : RECORD_CLIENT_RECORD;
    summons_reads(&node->summons, world->now_ns);
    record_client_read(&node->record_client, node->pair.role == PAIR_LEADING ? RECORD_CLIENT_SUMMONS : question);
}

void node_take_presence(struct world *world, struct pair_event *event) {
    struct node *node = world->host->node;
    uint64_t number = summons_asks(&node->summons, &node->pair), stands_ms;
    bool is_asked = event->kind == PAIR_RECORD_READ && event->outcome == PAIR_DONE;
    if (!is_asked || node->record_client.question != RECORD_CLIENT_PRESENCE) return;
    if (number != 0 && record_client_summons_stands(&node->record_client, number, &stands_ms))
        summons_stands(&node->summons, world->now_ns - stands_ms * NS_PER_MS);
    bool is_there = event->present;
    event->present = summons_is_present(&node->summons, is_there, node->record_client.heard);
    if (event->present) silence_remind_by(&node->silence, summons_due_ns(&node->summons));
    if (is_there && !event->present) TRACE(world, "broker", "finds its leader present, and not answering");
}
