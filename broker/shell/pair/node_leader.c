/* node_leader.c: see node_parts.h. */
#include "node_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admission.h"
#include "clock.h"
#include "config.h"
#include "datadir.h"
#include "disk.h"
#include "fatal.h"
#include "follow_wire.h"
#include "hard_state_rules.h"
#include "inbox.h"
#include "last_shutdown.h"
#include "lifecycle.h"
#include "log.h"
#include "log_disk.h"
#include "log_serve.h"
#include "logfmt.h"
#include "node.h"
#include "releaser.h"
#include "requests.h"
#include "run.h"

/* ---- which requests a node answers in which role; see node.h */

static const char not_primary[] =
    "this node is the pair's follower and answers only queries: send changes and subscriptions to the primary";
static const char no_primary_yet[] =
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
        /* During a hand-over, NOT_PRIMARY is better than BUSY for an HTTP client. After BUSY the client would wait 1 s
         * (Retry-After), but the other node will serve long before that. */
        return is_handing_over && request->pooled ? TARRY__CODE__NOT_PRIMARY : TARRY__CODE__BUSY;
    }
    if (is_question && !atomic_load(&node->writes)) return TARRY__CODE__OK;
    *out_sentence = atomic_load(&node->follows) ? not_primary : no_primary_yet;
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

/* Called while leading: compares the follower's digest after `position`. Returns a sentence if it differs; NULL: it is
 * equal. */
static const char *node_compare(struct node *node, uint64_t position, uint64_t digest) {
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

/* ---- leading */

void leader_init(struct node *node) {
    const struct config *config = node->needs.config;
    const struct pair_times times = {.failover_after_ms = config->failover_after_ms,
                                     .solo_after_ms = config->solo_after_ms,
                                     .keep_ms = FOLLOW_KEEP_MS};
    leader_half_init(&node->leading.half, &times);
}

/* ---- beginning */

void leader_begin(struct node *node) {
    const struct node_needs *needs = &node->needs;
    uint64_t end = log_durable(node->log);
    follower_end(node);
    logfmt("promoted", "epoch=%u position=%" PRIu64 " applied=%" PRIu64, node->pair.epoch, end,
           atomic_load(&node->applied));
    struct log_point last;
    int error = log_point(node->log, end, &last);
    if (error != 0) fatal("log_unreadable", error);
    /* A node never claims an epoch that is older than its log's last frame (F-31b). */
    assert(node->pair.epoch > last.epoch);
    struct log_recovery found = {.end = end};
    error = last_shutdown(node->log, &found, &needs->run->before);
    if (error != 0) fatal("log_unreadable", error);
    atomic_store(&needs->run->epoch, node->pair.epoch);
    leader_half_begin(&node->leading.half, end);
    pthread_mutex_lock(&node->mutex);
    node->news.written = end;
    node->peer.lacks_since_ns = end > node->peer.durable ? monotonic_ns() : 0;
    pthread_mutex_unlock(&node->mutex);
    log_claim(node->log, end);
    atomic_store(&node->writes, true);
    node_heard(node); /* restart the follower's silence timeout, because this node leads only from now on */
    inbox_lead(needs->inbox, end);
}

void leader_began(struct node *node) {
    node->leading.half.began = true;
    atomic_store(&node->leads, true);
    logfmt("leading", "epoch=%u", node->pair.epoch);
}

/* ---- releasing committed batches */

static void let_out(struct node *node) {
    struct releaser *releaser = node->needs.releaser;
    assert(node_is_leading(node)); /* F-24 */
    releaser_confirm(releaser, pair_confirmed(&node->pair));
    bool has_left = releaser_run(releaser);
    leader_half_released(&node->leading.half, has_left, releaser_has_any(releaser), monotonic_ns());
}

static void pass_audits_on(struct node *node) {
    struct node_leading *leading = &node->leading;
    bool is_confirmed = !node_is_leading(node) || pair_may_answer(&node->pair, leading->audits_question);
    while (is_confirmed && leading->audits != NULL) {
        struct call *call = (struct call *)leading->audits;
        leading->audits = leading->audits->next;
        node->needs.calls.audit(node->needs.calls.context, call);
    }
}

/* Takes over questions about the log. Stores only the newest confirmation that they need (pair_question), because it
 * also confirms the earlier questions. */
void leader_take_audits(struct node *node, struct item *audits) {
    struct node_leading *leading = &node->leading;
    if (audits == NULL) return;
    struct item *last = audits;
    while (last->next != NULL) last = last->next;
    last->next = leading->audits;
    leading->audits = audits;
    leading->audits_question = pair_question(&node->pair);
    if (!node_is_leading(node))
        pass_audits_on(node); /* a node that does not lead answers as a follower, and the answer says that it comes from
                                 a follower */
}

static void publish(struct node *node) {
    const struct node_needs *needs = &node->needs;
    uint64_t committed = pair_committed(&node->pair);
    if (committed > atomic_load(&node->may_index)) {
        atomic_store(&node->may_index, committed);
        /* Wake the core, which may wait until the index has these records before it begins to lead. */
        if (!node->leading.half.began) inbox_nudge(needs->inbox);
    }
    if (!node->leading.half.began || committed <= atomic_load(&node->committed)) return;
    atomic_store(&node->committed, committed);
    log_claim(node->log, committed);
    releaser_reach(needs->releaser, committed);
    releaser_tell(needs->releaser);
}

void leader_take(struct node *node, const struct node_news *news) {
    struct node_leading *leading = &node->leading;
    if (news->written > leading->half.written)
        leading->points[leading->point_next++ % SYNC_POINTS] =
            (struct sync_point){news->written, news->frames, monotonic_ns()};
    leader_half_written(&leading->half, news->written);
    leading->frame_count = news->frames;
    releaser_enter(node->needs.releaser, news->batches, pair_question(&node->pair));
    if (news->durable <= node->pair.durable) return;
    struct pair_event event = {.kind = PAIR_DURABLE, .end = news->durable};
    node_step(node, &event, NULL);
}

/* ---- questions */

static const Tarry__Follow *follow_of(const struct call *call) {
    return call->engine_request.event.request.message->follow;
}

static void answer_coded(struct node *node, struct call *call, Tarry__Code code, Tarry__FollowReply *body) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = code;
    struct instant now = clock_now(node->needs.clock, NULL);
    reply.body_case = TARRY__REPLY__BODY_FOLLOW;
    reply.follow = body;
    body->steady_ns = now.steady_ns;
    body->wall_ns = now.wall_ns;
    body->url = body->url[0] != '\0' ? body->url : node->url;
    body->member = (ProtobufCBinaryData){MEMBER_ID_SIZE, node->needs.dir->member.id};
    body->log_start = log_start(node->log);
    call->answer(call, reply_pack(&reply));
}

static void answer_with(struct node *node, struct call *call, Tarry__FollowReply *body) {
    answer_coded(node, call, TARRY__CODE__OK, body);
}

static void refuse(struct node *node, struct call *call, Tarry__Code code, const char *sentence) {
    static struct logfmt_repeat repeat;
    logfmt_repeated(&repeat, sentence, "follower_refused", "%s", "");
    Tarry__FollowReply body = TARRY__FOLLOW_REPLY__INIT;
    body.verdict = TARRY__FOLLOW_REPLY__VERDICT__REFUSED;
    body.serial = follow_of(call)->serial;
    body.sentence = (char *)sentence;
    body.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, node->needs.dir->cluster};
    answer_coded(node, call, code, &body);
}

/* Answers without frames: this node leads `epoch` (0: it does not lead), or this question needs no more. */
static void answer_empty(struct node *node, struct call *call, uint32_t epoch) {
    Tarry__FollowReply body = TARRY__FOLLOW_REPLY__INIT;
    body.verdict = TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING;
    body.serial = follow_of(call)->serial;
    body.epoch = epoch;
    answer_with(node, call, &body);
}

/* Returns the position below which all acknowledged commits lie; the requester gets it. Returns 0 if the requester's
 * disk was replaced by another disk (F-29). */
static uint64_t known_to(const struct node *node, const Tarry__Follow *follow) {
    return hard_state_is_another(&node->hard_state, follow->member.data) ? 0 : leader_half_known(&node->pair);
}

/* Answers a probe. Unlike a question, a probe does not report which frames the follower has stored, and it does not
 * affect the waiting question. */
static void answer_probe(struct node *node, struct call *call) {
    Tarry__FollowReply body = TARRY__FOLLOW_REPLY__INIT;
    body.verdict = TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING;
    body.serial = follow_of(call)->serial;
    body.epoch = node_is_leading(node) ? node->pair.epoch : 0;
    body.known = known_to(node, follow_of(call));
    answer_with(node, call, &body);
}

void leader_forget_question(struct node *node) {
    struct call *call = leader_half_release(&node->leading.half);
    if (call == NULL) return;
    answer_empty(node, call, node->pair.epoch);
}

/* Publishes how much of the log the follower needs. Call it before the answer leaves, because retirement uses it. */
static void publish_needs(struct node *node) {
    atomic_store(&node->kept_from, node->leading.half.kept_from);
}

/* Answers a new directory that joins as the other node. */
static void answer_join(struct node *node, struct call *call) {
    Tarry__FollowReply body = TARRY__FOLLOW_REPLY__INIT;
    struct datadir *dir = node->needs.dir;
    uint8_t sealed[PEER_SEALED_SIZE];
    body.verdict = TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING;
    if (atomic_load(&node->leads) || node->pair.by_operator) {
        body.verdict = TARRY__FOLLOW_REPLY__VERDICT__JOIN;
        body.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, dir->cluster};
        peer_seal(node->needs.peer_key, dir->secret, sealed);
        body.secret = (ProtobufCBinaryData){sizeof(sealed), sealed};
        body.node = node->pair.other;
        body.epoch = node->pair.epoch;
        if (node_is_leading(node)) leader_half_keep(&node->leading.half, node_committed(node), monotonic_ns());
        publish_needs(node);
    } else {
        body.url = node->primary;
    }
    answer_with(node, call, &body);
}

/* Notes the follower's disk durably, because the rules may count it with the next step. A later run must know which
 * disk was counted. */
static void admit_disk(struct node *node, const Tarry__Follow *follow) {
    if (!hard_state_admit(&node->hard_state, follow->member.data)) return;
    int error = hard_state_write(&disk_posix, node->needs.dir->path, &node->hard_state);
    if (error != 0) fatal("note_failed", error);
}

/* Returns the number of frames up to `end`, and when the first frame behind `end` was written, if that is still known.
 */
static void measure(const struct node_leading *leading, uint64_t end, uint64_t *out_frames, uint64_t *out_since_ns) {
    uint64_t frames = 0, since_ns = monotonic_ns();
    for (size_t i = 0; i < SYNC_POINTS && leading->points[i].position != 0; i++) {
        const struct sync_point *point = &leading->points[i];
        if (point->position <= end && point->frames > frames) frames = point->frames;
        if (point->position > end && point->ns < since_ns) since_ns = point->ns;
    }
    *out_frames = frames;
    *out_since_ns = since_ns;
}

static void note_peer(struct node *node, const Tarry__Follow *follow) {
    uint64_t frames = 0, since_ns = 0;
    if (node_is_leading(node)) measure(&node->leading, follow->end, &frames, &since_ns);
    pthread_mutex_lock(&node->mutex);
    struct node_peer *peer = &node->peer;
    peer->frames = frames;
    peer->lacks_since_ns = follow->end < node->news.written ? since_ns : 0;
    memcpy(peer->member, follow->member.data, MEMBER_ID_SIZE);
    if (strlen(follow->url) < sizeof(peer->url)) snprintf(peer->url, sizeof(peer->url), "%s", follow->url);
    peer->heard_ns = monotonic_ns();
    if (follow->floor > peer->epoch) peer->epoch = follow->floor;
    peer->durable = follow->end;
    peer->applied = follow->applied;
    uint64_t lag = node_is_leading(node) && follow->end < node->news.written ? node->news.written - follow->end : 0;
    copy_progress_see(&peer->progress, lag >= CATCH_UP_BYTES ? lag : 0, monotonic_ns());
    pthread_mutex_unlock(&node->mutex);
    leader_half_hear(&node->leading.half, &node->pair, follow, monotonic_ns());
    publish_needs(node);
}

/* Returns whether the follower's log has the end and chain hash that the last comparison found not to fit this log
 * (`unfit_end`). */
static bool is_known_unfit(const struct node_leading *leading, const Tarry__Follow *follow) {
    return leading->unfit_end != 0 && leading->unfit_end == follow->end && follow->chain.len == FRAME_CHAIN_SIZE &&
           memcmp(follow->chain.data, leading->unfit_chain, FRAME_CHAIN_SIZE) == 0;
}

static void note_unfit(struct node_leading *leading, const Tarry__Follow *follow, uint64_t common) {
    if (follow->n_epochs == 0 || follow->chain.len != FRAME_CHAIN_SIZE) return;
    leading->unfit_end = follow->end;
    memcpy(leading->unfit_chain, follow->chain.data, FRAME_CHAIN_SIZE);
    leading->common = common;
    leading->has_common_chain = false;
}

static void tell_chain(struct node *node, const Tarry__Follow *follow, uint8_t chain[FRAME_CHAIN_SIZE],
                       Tarry__FollowReply *body) {
    struct node_leading *leading = &node->leading;
    bool is_known = body->verdict == TARRY__FOLLOW_REPLY__VERDICT__CUT_TO && is_known_unfit(leading, follow);
    if (is_known && leading->has_common_chain) {
        body->chain = (ProtobufCBinaryData){leading->common_chain_size, leading->common_chain};
        return;
    }
    int error = follow_wire_tell_chain(node->log, follow, chain, body);
    if (error != 0) fatal("log_unreadable", error);
    if (!is_known) return;
    leading->has_common_chain = true;
    leading->common_chain_size = (uint8_t)body->chain.len;
    if (body->chain.len > 0) memcpy(leading->common_chain, body->chain.data, body->chain.len);
}

static void compare(struct node *node, const Tarry__Follow *follow, struct pair_event *event) {
    if (is_known_unfit(&node->leading, follow)) {
        event->end = node->leading.common;
        return;
    }
    int error = follow_wire_compare(node->log, follow, event);
    if (error != 0) fatal("log_unreadable", error);
    bool must_cut = !event->fits && !event->retired;
    if (must_cut && node_is_leading(node)) note_unfit(&node->leading, follow, event->end);
}

static struct pair_event event_of(struct node *node, const Tarry__Follow *follow) {
    struct pair_event event = {
        .kind = PAIR_ASKED,
        .near = leader_half_is_near(&node->leading.half, follow->end, monotonic_ns()),
        .message = follow_wire_asked(follow, &node->hard_state),
    };
    if (leader_half_compares(&node->pair) && !follow->proposes) compare(node, follow, &event);
    return event;
}

static void answer_verdict(struct node *node, struct call *call, const struct pair_message *answer) {
    Tarry__FollowReply body = TARRY__FOLLOW_REPLY__INIT;
    follow_wire_answer(answer, &body);
    uint8_t chain[FRAME_CHAIN_SIZE];
    tell_chain(node, follow_of(call), chain, &body);
    if (!node_is_leading(node)) body.url = node->primary;
    body.known = known_to(node, follow_of(call));
    body.log_end = node->leading.half.written;
    answer_with(node, call, &body);
}

static void ask_rules(struct node *node, struct call *call) {
    const Tarry__Follow *follow = follow_of(call);
    note_peer(node, follow);
    bool is_leading = node_is_leading(node);
    struct pair_event event = event_of(node, follow);
    if (is_leading && event.message.another)
        leader_forget_question(node); /* forget the waiting question, which came from the follower's former disk */
    if (is_leading) admit_disk(node, follow);
    struct pair_message answer = {0};
    /* hard_state_take notes this disk if the event makes this node lead (F-29). */
    node->leading.requester = follow->member.data;
    node_step(node, &event, &answer);
    node->leading.requester = NULL;
    if (!is_leading && node_is_leading(node))
        admit_disk(node, follow); /* the follower's promise has made this node lead */
    bool leaves = follow->leaves && node_is_leading(node);
    if (answer.kind == PAIR_FRAMES) {
        node_heard(node);
        leader_forget_question(node);
    }
    struct leader_half *half = &node->leading.half;
    bool waits = leader_half_take(half, follow, call, &answer, node_committed(node), monotonic_ns());
    publish_needs(node);
    if (!waits) answer_verdict(node, call, &answer);
    if (leaves) node_is_left(node);
}

void leader_question(struct node *node, struct call *call) {
    const Tarry__Follow *follow = follow_of(call);
    const struct datadir *dir = node->needs.dir;
    const struct admission_self self = {.cluster = dir->cluster,
                                        .member = dir->member.id,
                                        .hard_state = &node->hard_state};
    struct admission admission = admission_of(&node->pair, &self, follow);
    if (admission.kind == ADMISSION_RULES || admission.kind == ADMISSION_PROBE) {
        const char *problem = NULL;
        if (node_is_leading(node)) problem = node_compare(node, follow->digest_position, follow->digest);
        if (problem != NULL) admission = (struct admission){.kind = ADMISSION_REFUSE, .sentence = problem};
    }
    switch (admission.kind) {
    case ADMISSION_JOIN:
        answer_join(node, call);
        break;
    case ADMISSION_PROBE:
        answer_probe(node, call);
        break;
    case ADMISSION_REFUSE:
        refuse(node, call, admission.is_early ? TARRY__CODE__BUSY : TARRY__CODE__INVALID, admission.sentence);
        break;
    case ADMISSION_RULES:
        ask_rules(node, call);
        break;
    }
}

/* ---- answers */

/* Returns whether a client's request waits until the follower confirms a new answer. */
static bool wants_word(const struct node *node) {
    return node->leading.audits != NULL || releaser_wants_confirmation(node->needs.releaser);
}

/* Returns the newest digest that the follower will reach with these frames. */
static struct digest_point point_below(struct node *node, uint64_t end) {
    pthread_mutex_lock(&node->mutex);
    struct digest_point best = digests_below(&node->digests, end);
    pthread_mutex_unlock(&node->mutex);
    return best;
}

static void answer_frames(struct node *node, struct call *call, const struct pair_message *answer) {
    struct node_leading *leading = &node->leading;
    const Tarry__Follow *follow = follow_of(call);
    Tarry__FollowReply body = TARRY__FOLLOW_REPLY__INIT;
    struct log_bytes *frames = &leading->frames;
    body.verdict = TARRY__FOLLOW_REPLY__VERDICT__FRAMES;
    body.epoch = answer->epoch;
    body.serial = answer->serial;
    body.stamp = answer->stamp;
    body.in_sync = answer->in_sync;
    body.committed = answer->committed;
    body.known = known_to(node, follow);
    body.log_end = leading->half.written;
    int error = log_serve(node->log, follow->end, UINT64_MAX, FOLLOW_BYTES_MAX, frames);
    if (error == LOG_RETIRED) {
        body.verdict = TARRY__FOLLOW_REPLY__VERDICT__NEED_SNAPSHOT;
    } else if (error == 0) {
        body.frames = (ProtobufCBinaryData){frames->size, frames->data};
    } else if (error != LOG_END) {
        fatal("log_unreadable", error);
    }
    struct digest_point point = point_below(node, error == 0 ? frames->end.position : follow->end);
    body.digest_position = point.position;
    body.digest = point.digest;
    pthread_mutex_lock(&node->mutex);
    struct node_lag lag = node_lag(node); /* the follower's lag when its question arrived */
    pthread_mutex_unlock(&node->mutex);
    body.lag_frames = lag.frames;
    body.lag_ms = lag.ms;
    answer_with(node, call, &body);
}

static void answer_held(struct node *node) {
    struct leader_half *half = &node->leading.half;
    if (!leader_half_must_answer(half, &node->pair, wants_word(node), monotonic_ns())) return;
    struct call *call = leader_half_release(half);
    struct pair_event event = event_of(node, follow_of(call));
    struct pair_message answer = {0};
    node_step(node, &event, &answer);
    leader_half_answer(half, &node->pair, &answer);
    if (answer.kind == PAIR_TAKE_OVER && leader_half_is_hung(half, &node->pair)) {
        static struct logfmt_repeat repeat;
        logfmt_repeated(&repeat,
                        "the disk of this node does not finish a write, so this node hands over to its follower",
                        "disk_hangs", "waits_ms=%" PRIu64, hung_disk_ms(&half->disk));
    }
    if (answer.kind == PAIR_FRAMES)
        answer_frames(node, call, &answer);
    else
        answer_verdict(node, call, &answer);
}

static void say_stalled(const struct node *node) {
    bool is_stalled = node->leading.half.stalled_ns != 0;
    logfmt(is_stalled           ? "follower_awaited"
           : node->pair.counted ? "follower_confirms"
                                : "follower_not_awaited",
           "committed=%" PRIu64 " durable=%" PRIu64, node->pair.committed, node->pair.durable);
}

void leader_go_on(struct node *node) {
    struct leader_half *half = &node->leading.half;
    leader_half_look_at_disk(half, disk_hang_since_ns(node->needs.hang), monotonic_ns());
    leader_half_forget_needs(half, log_is_pinned(node->log), monotonic_ns());
    publish_needs(node);
    publish(node);
    let_out(node);
    pass_audits_on(node);
    answer_held(node);
    if (leader_half_look(half, monotonic_ns())) say_stalled(node);
    atomic_store(&node->stalled_ns, half->stalled_ns);
    /* When the broker stops, the core thread may wait for a batch that a stalled follower will never confirm. Fail the
     * batch. */
    if (half->stalled_ns != 0 && atomic_load(&node->needs.run->stopping)) releaser_fail(node->needs.releaser);
}

void leader_give_up(struct node *node) {
    struct leader_half *half = &node->leading.half;
    if (leader_half_give_up(half))
        logfmt("follower_stuck",
               "durable=%" PRIu64 " log_end=%" PRIu64 " reason=\"the follower sends requests, but stores nothing\"",
               half->follower_end, half->written);
}

void leader_stop(struct node *node) {
    leader_forget_question(node);
    releaser_fail(node->needs.releaser);
    node->leading.audits_question = 0;
    pass_audits_on(node); /* the auditor replies that the broker is stopping */
}
