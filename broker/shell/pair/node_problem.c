/* node_problem.c: describes problems that need an operator, in a sentence that says what to do; see node.h.
 *
 * It omits problems that end without help, for example a short time without a leader. Sentences of the rules themselves
 * have priority, and are not in this file. */
#include <stdio.h>

#include "config.h"
#include "disk_hang.h"
#include "monotonic.h"
#include "node.h"
#include "tls.h"

/* A coordinator or node that is silent for longer than this is not merely starting. */
#define PATIENCE_MS 2000u

static const char strict[] = "the follower does not confirm, and this node acknowledges nothing without it: start the "
                             "follower. If it is certainly stopped, and nobody has made it the primary, 'tarry promote "
                             "--peer-is-stopped' at this node makes this node serve alone";
static const char useless[] =
    "the follower sends requests but stores nothing, and this node acknowledges nothing without it: its disk may be "
    "full, or it restarts again and again. Read its log messages; or stop it, and run 'tarry promote "
    "--peer-is-stopped' at this node to make this node serve alone";
static const char awaited[] =
    "the follower does not confirm, and this node acknowledges nothing until it does or the coordinator allows this "
    "node to serve alone: start the follower, and check the coordinator ('tarry doctor')";
static const char alone[] = "the follower is not connected, and this node serves alone: the changes that it "
                            "acknowledges are only on its disk, and are lost with that disk. Start the follower";
static const char may_lead[] =
    "the primary is silent, and the pair acknowledges nothing meanwhile: start it; or, if it is certainly stopped and "
    "has not served alone, 'tarry promote --peer-is-stopped' at this node makes this node the primary";
static const char may_lack[] = "the primary is silent, and this node does not take over, because it may lack changes "
                               "that the primary has acknowledged: start the primary; or accept the loss of the "
                               "changes that only the primary has with 'tarry promote --force' at this node";
static const char present[] =
    "the primary does not answer this node, but the coordinator reports it as present: the network between the two "
    "nodes is interrupted, and the primary continues without this node. Repair the network; or, if the primary is "
    "certainly stopped, 'tarry promote --peer-is-stopped' at this node makes this node the primary";
static const char nobody[] =
    "the other node does not answer, and no node leads without it: start it; or, if it is certainly stopped and has "
    "not served alone, 'tarry promote --peer-is-stopped' at this node makes this node the primary";
static const char nobody_new[] =
    "the other node does not answer, and no node leads before it has joined: start it with --follow; or, if there has "
    "never been another node, 'tarry promote --force' at this node makes this node the primary";

static bool is_silent(const struct node_peer *peer, uint64_t wait_ms) {
    return monotonic_ns() - peer->heard_ns > wait_ms * NS_PER_MS;
}

_Static_assert(DISK_HANG_PROBLEM_SIZE <= COORDINATOR_MESSAGE_SIZE && TLS_SENTENCE_SIZE <= COORDINATOR_MESSAGE_SIZE,
               "one buffer for all");

/* Returns the coordinator's problem; NULL: no problem, or no coordinator. */
static const char *problem_of_coordinator(struct node *node, char buffer[COORDINATOR_MESSAGE_SIZE]) {
    pthread_mutex_lock(&node->mutex);
    struct coordinator_session session = node->session;
    bool doubts = node->doubt[0] != '\0' && monotonic_ns() - node->doubt_ns > PATIENCE_MS * NS_PER_MS;
    if (doubts) snprintf(buffer, COORDINATOR_MESSAGE_SIZE, "%s", node->doubt);
    pthread_mutex_unlock(&node->mutex);
    if (session.state == 0) return NULL;
    if (session.state == COORDINATOR_CONNECTED) {
        if (!doubts) snprintf(buffer, COORDINATOR_MESSAGE_SIZE, "%.900s", session.message);
        return buffer[0] != '\0' ? buffer : NULL;
    }
    snprintf(buffer, COORDINATOR_MESSAGE_SIZE,
             "%.900s; until the coordinator answers, no node takes over automatically",
             session.message[0] != '\0' ? session.message : "the coordinator does not answer");
    return buffer;
}

/* Returns whether the follower still sends questions after the leader has found that it confirms nothing. A node that
 * is gone sends none. */
static bool is_useless(const struct node *node, const struct node_peer *peer) {
    uint64_t stalled_ns = atomic_load(&node->stalled_ns);
    return stalled_ns != 0 && peer->heard_ns > stalled_ns;
}

static const char *problem_of_leader(const struct node *node, const struct pair *pair, const struct node_peer *peer) {
    const struct config *config = node->needs.config;
    /* Otherwise the other node may not have joined yet: it does not count, and never sent a message. */
    bool is_alone = !pair->counted && !pair->is_async && peer->heard_ns != 0;
    if (is_alone) return is_silent(peer, config->failover_after_ms + PATIENCE_MS) ? alone : NULL;
    bool is_strict = config->solo_after_ms == SOLO_NEVER;
    if (!pair->counted) return NULL;
    if (!is_silent(peer, config->failover_after_ms)) return is_strict && is_useless(node, peer) ? useless : NULL;
    if (is_strict) return strict;
    return is_silent(peer, config->solo_after_ms + PATIENCE_MS) ? awaited : NULL;
}

static const char *problem_of_follower(const struct node *node, const struct pair *pair, const struct node_peer *peer) {
    const struct config *config = node->needs.config;
    bool may_assert = pair_is_in_sync(pair) || (pair->by_operator && pair->hard_state.alone);
    bool is_quiet = pair->by_operator && (pair->epoch == 0 || pair->role == PAIR_CANDIDATE);
    if (!is_silent(peer, config->failover_after_ms + PATIENCE_MS)) return NULL;
    if (is_quiet) return may_assert ? nobody : nobody_new;
    if (!may_assert) return may_lack;
    return pair->by_operator ? may_lead : present; /* with a coordinator, this node would lead by now */
}

const char *node_problem(struct node *node, const struct pair *pair, const struct node_peer *peer,
                         char buffer[COORDINATOR_MESSAGE_SIZE]) {
    const char *problem = disk_hang_problem(node->needs.hang, buffer);
    if (problem == NULL) problem = problem_of_coordinator(node, buffer);
    if (problem != NULL) return problem;
    bool follows = pair->role == PAIR_FOLLOWING || (pair->by_operator && pair->role == PAIR_CANDIDATE);
    if (pair->role == PAIR_LEADING)
        problem = problem_of_leader(node, pair, peer);
    else if (follows)
        problem = problem_of_follower(node, pair, peer);
    return problem != NULL ? problem : tls_problem(node->needs.tls, buffer);
}
