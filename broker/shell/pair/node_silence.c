/* node_silence.c: probes the other node and reports its silence to the rules. silence.h (broker/replication) decides
 * when it counts as silent. See node.h. */
#include <inttypes.h>
#include <string.h>

#include "config.h"
#include "logfmt.h"
#include "monotonic.h"
#include "node.h"
#include "node_parts.h"

void node_heard(struct node *node) {
    summons_end(&node->summons);
    silence_heard(&node->silence, &node->pair, &node->leading.half.times, monotonic_ns());
}

static uint64_t stuck_ns(const struct node *node) {
    return leader_half_stuck_ns(&node->leading.half, &node->pair);
}

uint64_t node_silence_timer(const struct node *node) {
    return silence_timer(&node->silence, &node->pair, node->following.half.has_left, stuck_ns(node));
}

static void say_silent(struct node *node, bool is_gone) {
    struct pair_event event = {.kind = PAIR_SILENT, .gone = is_gone};
    node_step(node, &event, NULL);
}

static void give_up(struct node *node) {
    alone_because(&node->alone, TARRY__ALONE_PUT__WHY__STUCK);
    leader_give_up(node);
}

static void has_stood_still(struct node *node, uint64_t planned_ns, uint64_t now_ns) {
    summons_end(&node->summons);
    node_wishes_overslept(node);
    if (node_is_leading(node)) leader_half_overslept(&node->leading.half, now_ns);
    logfmt("overslept",
           "late_ms=%" PRIu64
           " reason=\"this process did not run for a while\" action=\"the timeout for the other node starts again\"",
           (now_ns - planned_ns) / NS_PER_MS);
}

void node_check_silence(struct node *node, uint64_t now_ns) {
    const uint64_t planned_ns = node->silence.look_ns;
    const struct silence_verdict verdict =
        silence_look(&node->silence, &node->pair, node->following.half.has_left, stuck_ns(node), now_ns);
    if (verdict.stood_still) has_stood_still(node, planned_ns, now_ns); /* this process was stopped during this turn */
    if (verdict.probes || verdict.tells) summons_ask(&node->summons, &node->pair, now_ns);
    if (verdict.probes) follower_probe(node);
    if (!verdict.tells) return;
    if (verdict.gives_up) give_up(node);
    if (node_is_leading(node)) leader_forget_question(node); /* the follower's question is outdated */
    say_silent(node, false);
}

void node_check_sleep(struct node *node) {
    uint64_t now_ns = monotonic_ns(), planned_ns = node->silence.look_ns;
    if (silence_stood_still(&node->silence, &node->pair, now_ns)) has_stood_still(node, planned_ns, now_ns);
}

void node_take_probed(struct node *node, struct message *answer) {
    uint32_t epoch = follower_probed(node, answer);
    if (silence_probe_counts(&node->pair, node->following.half.has_left, epoch)) node_heard(node);
    message_free(answer);
}

void node_take_refused(struct node *node) {
    node_unanswered(node, false);
    if (!silence_is_gone(&node->silence, &node->pair, node->following.half.has_left, monotonic_ns())) return;
    bool leads = node_is_leading(node);
    logfmt(leads ? "follower_gone" : "leader_gone",
           "peer=%s reason=\"its connection broke, and its address refuses a new connection\"",
           node->needs.config->peer);
    if (!leads) say_silent(node, true); /* the follower counts as silent; node_check_silence reports it */
}

/* ---- presence at the coordinator (summons.h) */

bool node_is_declaring(struct node *node) {
    return leader_half_declares(&node->leading.half, &node->pair);
}

void node_declare(struct node *node) {
    uint64_t number = summons_asks(&node->summons, &node->pair);
    if (node_is_declaring(node))
        record_client_declare(&node->record_client, node->pair.epoch);
    else if (number != 0)
        record_client_summon(&node->record_client, number);
}

void node_read_record(struct node *node) {
    enum record_client_question question = node->reads.presence ? RECORD_CLIENT_PRESENCE : RECORD_CLIENT_RECORD;
    summons_reads(&node->summons, monotonic_ns());
    record_client_read(&node->record_client, node_is_leading(node) ? RECORD_CLIENT_SUMMONS : question);
}

void node_take_presence(struct node *node, struct pair_event *event) {
    struct record_client *record_client = &node->record_client;
    uint64_t number = summons_asks(&node->summons, &node->pair), stands_ms;
    bool is_asked = event->kind == PAIR_RECORD_READ && event->outcome == PAIR_DONE;
    if (!is_asked || record_client->question != RECORD_CLIENT_PRESENCE) return;
    if (number != 0 && record_client_summons_stands(record_client, number, &stands_ms))
        summons_stands(&node->summons, monotonic_ns() - stands_ms * NS_PER_MS);
    bool is_there = event->present;
    event->present = summons_is_present(&node->summons, is_there, record_client->heard);
    if (event->present) silence_remind_by(&node->silence, summons_due_ns(&node->summons));
    if (is_there && !event->present)
        logfmt("leader_absent",
               "peer=%s reason=\"the other node does not answer, neither directly nor through the coordinator\"",
               node->needs.config->peer);
}
