/* node_status.c: problems that need an operator, an operator's commands, and the status of this node; see node.h. */
#include "node_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "config.h"
#include "datadir.h"
#include "endpoints.h"
#include "log.h"
#include "log_disk.h"
#include "logfmt.h"
#include "node.h"
#include "run.h"
#include "tls.h"

/* ---- problems */

/* Describes problems that need an operator, in a sentence that says what to do; see node.h.
 *
 * It omits problems that end without help, for example a short time without a leader. Sentences of the rules themselves
 * have priority, and are made elsewhere. */

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

/* Returns whether the follower is alive but confirms nothing: it has sent a message after the leader found that it
 * stalls requests. */
static bool is_useless(const struct node *node, const struct node_peer *peer) {
    uint64_t stalled_ns = atomic_load(&node->stalled_ns);
    return stalled_ns != 0 && peer->heard_ns > stalled_ns;
}

static const char *problem_of_leader(const struct node *node, const struct pair *pair, const struct node_peer *peer) {
    const struct config *config = node->needs.config;
    /* If peer->heard_ns is 0, the other node has never sent a message, because it has probably not joined yet. This is
     * no problem. */
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
    return pair->by_operator ? may_lead : present; /* with a coordinator, this node would already lead if the
                                                      coordinator did not show the leader as present */
}

/* Returns a problem that needs an operator, given the states `pair` and `peer`, as a sentence; NULL: no problem. The
 * sentence may lie in `buffer`. */
static const char *node_problem(struct node *node, const struct pair *pair, const struct node_peer *peer,
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

/* ---- commands */

static const char word_waits[] = "another 'tarry promote' waits for the other node's reply: try again in a moment";
/* Longest time that a command waits for the other node's answer: twice a question's timeout. */
#define WORD_WAIT_NS (2500 * NS_PER_MS)
/* Time for sending the reply to the operator before the process starts again. */
static const struct timespec ANSWER_LEAVES = {.tv_nsec = 100000000};

static enum pair_word word_of(const struct node *node, const Tarry__Pair *request) {
    bool leads = node_is_leading(node);
    if (request->what == TARRY__PAIR__WHAT__DEMOTE) return PAIR_HAND_OVER;
    if (request->peer_is_stopped) return leads ? PAIR_SOLO : PAIR_ASSERT;
    return request->force ? PAIR_FORCE : PAIR_PROMOTE;
}

/* Returns whether the requested state already holds. The command then succeeds without a change. */
static bool is_so(const struct node *node, const Tarry__Pair *request) {
    if (request->what == TARRY__PAIR__WHAT__DEMOTE) return !node_is_leading(node) || node->pair.handing != PAIR_KEEPING;
    return node_is_leading(node) && !request->peer_is_stopped;
}

void node_tell(struct node *node, enum pair_word word) {
    struct pair_event event = {.kind = PAIR_TOLD, .word = word};
    if (word == PAIR_SOLO)
        leader_forget_question(node); /* drop the follower's waiting question, because an answer to it would make the
                                         leader wait for the follower again */
    node->is_told = true;
    node_step(node, &event, NULL);
    node->is_told = false;
}

void node_take_word(struct node *node, struct call *call) {
    const Tarry__Pair *request = call->engine_request.event.request.message->pair;
    if (request->what == TARRY__PAIR__WHAT__RECORD || request->what == TARRY__PAIR__WHAT__WRITE_RECORD) {
        record_word_take(node, call);
        return;
    }
    if (node->word != NULL) {
        call->answer(call, reply_pack_refusal(TARRY__CODE__NOT_DONE, word_waits));
        return;
    }
    node->said = (struct node_said){0};
    if (!is_so(node, request)) {
        node_alone_told(node, call);
        node_tell(node, word_of(node, request));
    }
    node->word = call;
    node->word_until_ns = monotonic_ns() + WORD_WAIT_NS;
    node_answer_word(node);
}

void node_answer_word(struct node *node) {
    struct call *call = node->word;
    char sentence[COORDINATOR_MESSAGE_SIZE];
    if (call == NULL || node->pair.asserting != 0) return;
    node->word = NULL;
    node_format_said(&node->said, sentence);
    if (sentence[0] != '\0')
        call->answer(call, reply_pack_refusal(TARRY__CODE__NOT_DONE, sentence));
    else
        node_status(node, call);
}

void node_drop_word(struct node *node, Tarry__Code code, const char *sentence) {
    struct call *call = node->word;
    if (call == NULL) return;
    node->word = NULL;
    call->answer(call, reply_pack_refusal(code, sentence));
    if (code == TARRY__CODE__NOT_DONE) nanosleep(&ANSWER_LEAVES, NULL);
}

void node_unanswered(struct node *node, bool is_refused_by_leader) {
    struct pair_event event = {.kind = PAIR_UNANSWERED, .present = is_refused_by_leader};
    if (node->pair.asserting != 0) node_step(node, &event, NULL);
}

void node_format_said(const struct node_said *said, char out[COORDINATOR_MESSAGE_SIZE]) {
    const char *sentence = said->sentence != NULL ? said->sentence : "";
    if (said->epoch != 0)
        snprintf(out, COORDINATOR_MESSAGE_SIZE, "the other node leads epoch %u: %s", said->epoch, sentence);
    else
        snprintf(out, COORDINATOR_MESSAGE_SIZE, "%s", sentence);
}

/* ---- status */

static Tarry__PairReply__Role role_of(const struct node *node, const struct pair *pair) {
    if (atomic_load(&node->paused)) return TARRY__PAIR_REPLY__ROLE__HANDING_OVER;
    switch (pair->role) {
    case PAIR_LEADING:
        return atomic_load(&node->leads) ? TARRY__PAIR_REPLY__ROLE__PRIMARY : TARRY__PAIR_REPLY__ROLE__PROMOTING;
    case PAIR_FENCING:
    case PAIR_CANDIDATE:
        return TARRY__PAIR_REPLY__ROLE__PROMOTING;
    case PAIR_FOLLOWING:
        return pair->epoch != 0 ? TARRY__PAIR_REPLY__ROLE__FOLLOWER : TARRY__PAIR_REPLY__ROLE__LOOKING;
    default:
        return TARRY__PAIR_REPLY__ROLE__LOOKING;
    }
}

/* Converts a MONOTONIC time (ns) to logical time (ms). */
static uint64_t logical_ms(uint64_t now_ms, uint64_t ns) {
    uint64_t ago_ms = (monotonic_ns() - ns) / NS_PER_MS;
    return ns == 0 ? 0 : now_ms > ago_ms ? now_ms - ago_ms : 0;
}

struct node_lag node_lag(const struct node *node) {
    const struct node_peer *peer = &node->peer;
    if (!atomic_load(&node->writes)) return peer->lag;
    struct node_lag lag = {0};
    if (node->news.written <= peer->durable) return lag;
    lag.bytes = node->news.written - peer->durable;
    lag.frames = node->news.frames - peer->frames;
    lag.left_ms = peer->progress.left_ms;
    if (peer->lacks_since_ns != 0) lag.ms = (monotonic_ns() - peer->lacks_since_ns) / NS_PER_MS;
    return lag;
}

static uint64_t left_ms(const struct node_peer *peer, const struct node_lag *lag) {
    return peer->copy_bytes != 0 ? peer->copying.left_ms : lag->left_ms;
}

void node_copies(struct node *node, uint64_t copied, uint64_t bytes) {
    if (!node->on) return;
    pthread_mutex_lock(&node->mutex);
    node->peer.copied = bytes != 0 ? copied : 0;
    node->peer.copy_bytes = bytes;
    copy_progress_see(&node->peer.copying, bytes > copied ? bytes - copied : 0, monotonic_ns());
    pthread_mutex_unlock(&node->mutex);
}

static void fill_peer(const struct node_peer *peer, const struct node_lag *lag, uint64_t now_ms, Tarry__PairPeer *out) {
    out->heard_ms = logical_ms(now_ms, peer->heard_ns);
    out->durable = peer->durable;
    out->applied = peer->applied;
    out->lag_frames = lag->frames;
    out->lag_bytes = lag->bytes;
    out->lag_ms = lag->ms;
    out->copied = peer->copied;
    out->copy_bytes = peer->copy_bytes;
    out->left_ms = left_ms(peer, lag);
}

static bool fill_digest(const struct digests *digests, uint64_t now_ms, Tarry__PairDigest *out) {
    out->position = digests->compared.position;
    /* The two digests are equal, because a follower whose digest differs ends its process. */
    out->own = out->peer = digests->compared.digest;
    out->compared_ms = logical_ms(now_ms, digests->compared_ns);
    out->count = digests->count;
    return digests->count != 0;
}

void node_status(struct node *node, struct call *call) {
    node_status_with(node, call, "");
}

void node_status_with(struct node *node, struct call *call, const char *record) {
    const struct node_needs *needs = &node->needs;
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__PairReply status = TARRY__PAIR_REPLY__INIT;
    Tarry__PairPeer peer = TARRY__PAIR_PEER__INIT;
    Tarry__PairDigest digest = TARRY__PAIR_DIGEST__INIT;
    char member[MEMBER_TEXT_SIZE], other[MEMBER_TEXT_SIZE], primary[CONFIG_TEXT_SIZE];
    char sentence[COORDINATOR_MESSAGE_SIZE];
    pthread_mutex_lock(&node->mutex);
    struct pair pair = node->shown;
    struct node_peer known = node->peer;
    struct node_lag lag = node_lag(node);
    struct digests digests = node->digests;
    char said[COORDINATOR_MESSAGE_SIZE];
    memcpy(said, node->problem, sizeof(said));
    const char *problem = said[0] != '\0' ? said : NULL;
    status.since_ms = node->role_since_ms;
    status.took_over_ms = node->took_over_ms;
    uint64_t alone_ns = node->alone.is ? node->alone.since_ns : 0;
    memcpy(primary, node->primary, sizeof(primary));
    pthread_mutex_unlock(&node->mutex);
    bool leads = pair.role == PAIR_LEADING;
    if (problem == NULL) problem = node_problem(node, &pair, &known, sentence);
    status.record = (char *)record;
    if (problem == NULL) problem = needs->calls.problem(needs->calls.context, sentence, sizeof(sentence));
    status.problem = problem != NULL ? (char *)problem : "";
    member_format(needs->dir->member.id, member);
    member_format(known.member, other);
    status.role = role_of(node, &pair);
    status.epoch = pair.epoch;
    status.node = pair.self;
    status.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, needs->dir->cluster};
    status.member = member;
    status.url = node->url;
    status.urls = (char **)needs->endpoints->urls;
    status.n_urls = needs->endpoints->count;
    status.primary = leads ? node->url : primary;
    status.mode = pair.is_async ? TARRY__PAIR_REPLY__MODE__ASYNC : TARRY__PAIR_REPLY__MODE__SYNC;
    status.solo_after_ms = pair.may_lead_alone ? needs->config->solo_after_ms : 0;
    status.coordinator = (char *)needs->config->coordinator;
    status.now_ms = instant_ms(clock_now(needs->clock, NULL));
    status.in_sync = pair_is_in_sync(&pair);
    status.alone_since_ms = logical_ms(status.now_ms, alone_ns);
    status.alone = leads && !pair.counted;
    status.durable = log_durable(node->log);
    status.appended = status.durable;
    status.committed = leads ? atomic_load(&node->committed) : pair.committed;
    status.applied = leads ? status.committed : atomic_load(&node->applied);
    fill_peer(&known, &lag, status.now_ms, &peer);
    peer.url = known.url[0] != '\0' ? known.url : (char *)needs->config->peer;
    peer.member = known.heard_ns != 0 ? other : "";
    status.peer = &peer;
    if (fill_digest(&digests, status.now_ms, &digest)) status.digest = &digest;
    reply.body_case = TARRY__REPLY__BODY_PAIR;
    reply.pair = &status;
    call->answer(call, reply_pack(&reply));
}

void node_stats(struct node *node, Tarry__BrokerStats *stats, struct arena *arena) {
    Tarry__PairStats *out = arena_alloc(arena, sizeof(*out));
    if (out == NULL) return; /* no memory for the reply: the client asks again */
    tarry__pair_stats__init(out);
    stats->pair = out;
    pthread_mutex_lock(&node->mutex);
    out->primary = node->shown.role == PAIR_LEADING;
    out->in_sync = pair_is_in_sync(&node->shown);
    out->committed = out->primary ? atomic_load(&node->committed) : node->shown.committed;
    out->applied = out->primary ? out->committed : atomic_load(&node->applied);
    struct node_lag lag = node_lag(node);
    out->lag_frames = lag.frames;
    out->lag_bytes = lag.bytes;
    out->lag_ms = lag.ms;
    out->copied = node->peer.copied;
    out->copy_bytes = node->peer.copy_bytes;
    out->left_ms = left_ms(&node->peer, &lag);
    out->role = role_of(node, &node->shown);
    out->epoch = node->shown.epoch;
    out->alone = out->primary && !node->shown.counted;
    out->alone_ms = node->alone.is ? (monotonic_ns() - node->alone.since_ns) / NS_PER_MS : 0;
    out->digest_position = node->digests.compared.position;
    out->digests_compared = node->digests.count;
    pthread_mutex_unlock(&node->mutex);
}
