/* node_silence.c: is the other node still there? See node.h, and silence.h for when it counts as silent.
 *
 *   nothing heard for half of the time, and again at three quarters ── a probe, on a connection of its own, which the
 *                                                                       leader answers at once
 *   all of it, and the probes had their time ─────────────────────────── PAIR_SILENT
 *   the connection broke ── is another one refused? ──────────────────── the process has died: PAIR_SILENT now (F-10)
 *
 * *Any answer of the leader in its epoch is a sign of life*: to a question or to a probe. All of this is opinion; what
 * protects is the compare-and-set. */
#include <inttypes.h>
#include <string.h>

#include "follower.h"
#include "leader.h"
#include "logfmt.h"
#include "shell.h"

/* How often the rules are reminded that the other is silent, once it is. */
#define REMIND_NS (300 * NS_PER_MS)
/* Without a coordinator, who does not lead asks so often. */
#define QUIET_MS 200

/* Without a coordinator nobody who does not follow a leader takes the other's place: it only asks again. */
static bool asks_only(const struct node *node) {
    bool is_quiet = !node_is_leading(node) && (node->pair.role != PAIR_FOLLOWING || node->pair.epoch == 0);
    return is_quiet && node->pair.by_operator;
}

void node_heard(struct node *node) {
    const struct config *config = &node->shell->config;
    uint64_t wait_ms = config->failover_after_ms;
    if (node_is_leading(node) && config->solo_after_ms != SOLO_NEVER) wait_ms = config->solo_after_ms;
    if (asks_only(node)) wait_ms = QUIET_MS;
    silence_begin(&node->silence, monotonic_ns(), wait_ms * NS_PER_MS);
}

/* Whose silence makes this node claim. */
static bool has_leader(const struct node *node) {
    return node->pair.role == PAIR_FOLLOWING && !node->pair.by_operator && !node->following.has_left;
}

/* When the other is given up, as things are. */
static uint64_t silent_ns(const struct node *node) {
    uint64_t until_ns = node->silence.until_ns;
    if (node->following.has_left) return UINT64_MAX; /* it does not listen any more */
    uint64_t stuck_ns = leader_half_stuck_ns(&node->leading.half, &node->pair);
    if (stuck_ns < until_ns) until_ns = stuck_ns;
    return until_ns > node->silence.remind_ns ? until_ns : node->silence.remind_ns;
}

uint64_t node_silence_timer(const struct node *node) {
    uint64_t until_ns = silent_ns(node);
    return has_leader(node) && node->silence.probe_ns < until_ns ? node->silence.probe_ns : until_ns;
}

static void say_silent(struct node *node, bool is_gone, uint64_t now_ns) {
    struct pair_event event = {.kind = PAIR_SILENT, .gone = is_gone};
    node->silence.remind_ns = now_ns + REMIND_NS;
    node_step(node, &event, NULL);
}

void node_check_silence(struct node *node, uint64_t now_ns) {
    if (has_leader(node) && silence_probes(&node->silence, now_ns)) follower_probe(node);
    if (now_ns < silent_ns(node)) return;
    if (node_is_leading(node) && now_ns < node->silence.until_ns) leader_give_up(node);
    if (node_is_leading(node)) leader_forget_question(node); /* what it said is old */
    say_silent(node, false, now_ns);
}

void node_check_sleep(struct node *node) {
    uint64_t now_ns = monotonic_ns(), planned_ns = node->silence.look_ns;
    if (asks_only(node) || !silence_overslept(&node->silence, now_ns)) return;
    if (node_is_leading(node)) leader_half_overslept(&node->leading.half, now_ns);
    logfmt("overslept",
           "late_ms=%" PRIu64 " reason=\"this node stood still\" action=\"the other node's time begins anew\"",
           (now_ns - planned_ns) / NS_PER_MS);
}

void node_take_probed(struct node *node, struct message *answer) {
    if (has_leader(node) && follower_is_led(node, answer)) node_heard(node);
    message_free(answer);
}

void node_take_refused(struct node *node) {
    uint64_t now_ns = monotonic_ns();
    if (!has_leader(node) || node->pair.epoch == 0 || now_ns < node->silence.remind_ns) return;
    logfmt("leader_gone", "peer=%s reason=\"its connection broke, and nobody listens there any more\"",
           node->shell->config.peer);
    say_silent(node, true, now_ns);
}
