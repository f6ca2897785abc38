/* node_admit.c: decides which requests a node answers in which role; see node.h. */
#include "node.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fatal.h"
#include "log.h"
#include "logfmt.h"
#include "monotonic.h"
#include "requests.h"

static const char not_primary[] =
    "this node is the pair's follower and answers only queries: send changes and subscriptions to the primary";
static const char nobody_yet[] =
    "this node knows no primary yet: try again in a moment; if this lasts, run 'tarry status' for both nodes";
static const char awaited[] = "the follower does not confirm, so this node acknowledges nothing: try again in a "
                              "moment; if this lasts, run 'tarry status'";

static const char handing_over[] = "this broker is handing over to the other node of the pair: try again in a moment";

static const char differs[] =
    "the follower's state differs from the leader's although their logs are equal: one of the two nodes is damaged. "
    "Compare them with 'tarry verify'; then start the damaged one with an empty directory and --follow";

Tarry__Code node_admits(const struct node *node, const struct core_request *request, const char **out_sentence) {
    const bool is_question = request_is_question(request->message);
    if (request_answerer(request->message) != BY_CORE)
        return TARRY__CODE__OK; /* requests about the log or about the pair are admitted in every role */
    if (atomic_load(&node->leads)) {
        bool is_handing_over = atomic_load(&node->paused) && !is_question;
        if (atomic_load(&node->stalled_ns) == 0 && !is_handing_over) return TARRY__CODE__OK;
        *out_sentence = is_handing_over ? handing_over : awaited;
        /* After BUSY, an HTTP client waits 1 s (Retry-After). The other node serves long before that, so NOT_PRIMARY is
         * better. */
        return is_handing_over && request->pooled ? TARRY__CODE__NOT_PRIMARY : TARRY__CODE__BUSY;
    }
    if (is_question && !atomic_load(&node->writes)) return TARRY__CODE__OK;
    *out_sentence = atomic_load(&node->follows) ? not_primary : nobody_yet;
    return TARRY__CODE__NOT_PRIMARY;
}

struct message *node_pack_refusal(struct node *node, const char *sentence) {
    char primary[CONFIG_TEXT_SIZE];
    Tarry__Reply reply = TARRY__REPLY__INIT;
    node_primary(node, primary);
    reply.code = TARRY__CODE__NOT_PRIMARY;
    reply.message = (char *)sentence;
    reply.primary = primary;
    return reply_pack(&reply);
}

struct message *node_pack(struct node *node, const Tarry__Reply *reply) {
    char primary[CONFIG_TEXT_SIZE];
    Tarry__Reply copy = *reply;
    node_primary(node, primary);
    copy.primary = primary;
    return reply_pack(&copy);
}

void node_primary(struct node *node, char out[CONFIG_TEXT_SIZE]) {
    bool hands_over = atomic_load(&node->leads) && atomic_load(&node->paused);
    pthread_mutex_lock(&node->mutex);
    memcpy(out, hands_over ? node->peer.url : node->primary, CONFIG_TEXT_SIZE);
    pthread_mutex_unlock(&node->mutex);
}

uint64_t node_committed(const struct node *node) {
    return node->on ? atomic_load(&node->committed) : log_durable(node->log);
}

bool node_writes(const struct node *node) {
    return node->on && atomic_load(&node->writes);
}

bool node_confirms(const struct node *node) {
    return node->on && atomic_load(&node->leads);
}

uint64_t node_kept_from(const struct node *node) {
    return node->on ? atomic_load(&node->kept_from) : UINT64_MAX;
}

/* ---- digests (F-31) */

void node_digest(struct node *node, uint64_t position, uint64_t digest) {
    pthread_mutex_lock(&node->mutex);
    digests_add(&node->digests, position, digest);
    pthread_mutex_unlock(&node->mutex);
}

const char *node_compare(struct node *node, uint64_t position, uint64_t digest) {
    uint64_t own = 0;
    pthread_mutex_lock(&node->mutex);
    enum digest_verdict verdict = digests_told(&node->digests, position, digest, monotonic_ns(), &own);
    pthread_mutex_unlock(&node->mutex);
    if (verdict != DIGEST_DIFFERS) return NULL;
    logfmt("digest_differs", "position=%" PRIu64 " own=%016" PRIx64 " follower=%016" PRIx64 " action=refuse_follower",
           position, own, digest);
    return differs;
}

void node_applied(struct node *node, uint64_t position, uint64_t digest) {
    uint64_t expected = 0;
    atomic_store(&node->applied, position);
    bool is_awaited = position >= atomic_load(&node->awaited);
    pthread_mutex_lock(&node->mutex);
    enum digest_verdict verdict = digests_applied(&node->digests, position, digest, monotonic_ns(), &expected);
    if (is_awaited) {
        node->news.applied = true;
        pthread_cond_signal(&node->changed);
    }
    pthread_mutex_unlock(&node->mutex);
    if (verdict != DIGEST_DIFFERS) return;
    logfmt("digest_differs", "position=%" PRIu64 " own=%016" PRIx64 " leader=%016" PRIx64 " action=exit", position,
           digest, expected);
    node_refuse(differs);
}
