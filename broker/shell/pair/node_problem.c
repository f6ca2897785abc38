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

/* A coordinator or a node that is silent for longer is not merely starting. */
#define PATIENCE_MS 2000u

static const char strict[] =
    "the follower does not confirm, and nothing is acknowledged without it: start it. If it is surely stopped, and "
    "nobody has made it the primary, 'tarry promote --peer-is-stopped' here lets this node serve alone";
static const char useless[] =
    "the follower asks and stores nothing, and nothing is acknowledged without it: its disk may be full, or it starts "
    "again and again. Look at its log; or stop it, and 'tarry promote --peer-is-stopped' here lets this node serve "
    "alone";
static const char awaited[] =
    "the follower does not confirm, and nothing is acknowledged until it does or the coordinator lets this node serve "
    "alone: start the follower, and look at the coordinator ('tarry doctor')";
static const char alone[] =
    "the follower is gone, and this node serves alone: what it acknowledges is on its disk only, and is lost with that "
    "disk. Start the follower";
static const char may_lead[] =
    "the primary is silent, and nothing is acknowledged meanwhile: start it; or, if it is surely stopped and has not "
    "served alone, 'tarry promote --peer-is-stopped' here makes this node the primary";
static const char may_lack[] =
    "the primary is silent, and this node does not take over, because it may lack what the primary has acknowledged: "
    "start the primary; or lose what only the primary has with 'tarry promote --force' here";
static const char present[] =
    "the primary does not answer this node, and the coordinator says that the primary is there: the link between the "
    "two "
    "nodes is cut, and the primary goes on without this node. Mend the link; or, if the primary is surely stopped, "
    "'tarry promote --peer-is-stopped' here makes this node the primary";
static const char nobody[] =
    "the other node does not answer, and no node leads without it: start it; or, if it is surely stopped and has not "
    "served alone, 'tarry promote --peer-is-stopped' here makes this node the primary";
static const char nobody_new[] =
    "the other node does not answer, and no node leads before it has joined: start it with --follow; or, if there has "
    "never been another node, 'tarry promote --force' here makes this node the primary";

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
    snprintf(buffer, COORDINATOR_MESSAGE_SIZE, "%.900s; until it answers nothing takes over by itself",
             session.message[0] != '\0' ? session.message : "the coordinator does not answer");
    return buffer;
}

/* Returns whether the follower still asks after the leader has found that it confirms nothing. A node that is gone does
 * not ask. */
static bool is_useless(const struct node *node, const struct node_peer *peer) {
    uint64_t stalled_ns = atomic_load(&node->stalled_ns);
    return stalled_ns != 0 && peer->heard_ns > stalled_ns;
}

static const char *problem_of_leader(const struct node *node, const struct pair *pair, const struct node_peer *peer) {
    const struct config *config = node->needs.config;
    bool is_alone = !pair->counted && !pair->is_async && peer->heard_ns != 0; /* else it may not have joined yet */
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
    return pair->by_operator ? may_lead : present; /* else it would lead by now */
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
