/* node_follower.c: see node_parts.h. */
#include "node_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "config.h"
#include "datadir.h"
#include "fatal.h"
#include "follow_wire.h"
#include "inbox.h"
#include "index.h"
#include "latency.h"
#include "lifecycle.h"
#include "log.h"
#include "log_copy.h"
#include "logfmt.h"
#include "quarantine.h"
#include "wire.h"

/* Time limit for sending the announcement of a stop, and again for its answer. The leader answers at once. */
#define GOODBYE_MS 150

static struct logfmt_repeat refused_repeat, damaged_repeat;

void follower_init(struct node *node) {
    follower_half_init(&node->following.half, &node->leading.half.times);
}

/* ---- asking */

/* Returns the epochs of this node's log; NULL: the log is unreadable. Reads them again only if the log's end has
 * changed, because reading may take longer than an answer's timeout. */
static const struct log_epochs *own_epochs(struct node *node) {
    struct node_following *following = &node->following;
    uint64_t end = log_durable(node->log);
    if (following->epochs.count > 0 && following->epochs_end == end) return &following->epochs;
    log_epochs_deinit(&following->epochs);
    following->epochs_end = end;
    return log_epochs_read(node->log, &following->epochs) == 0 ? &following->epochs : NULL;
}

/* Sends the epochs that the leader needs to find the last common position (R8, KIP-101). */
static void tell_epochs(struct node *node, Tarry__Follow *follow, uint32_t *numbers, uint64_t *starts) {
    const struct log_epochs *epochs = own_epochs(node);
    /* The question is sent without the list of epochs; it still has the epoch of the last frame. */
    if (epochs == NULL) return;
    size_t from = epochs->count > FOLLOW_EPOCHS_MAX ? epochs->count - FOLLOW_EPOCHS_MAX : 0;
    for (size_t i = from; i < epochs->count; i++) {
        numbers[i - from] = epochs->items[i].epoch;
        starts[i - from] = epochs->items[i].start;
    }
    follow->n_epochs = follow->n_epoch_starts = epochs->count - from;
    follow->epochs = numbers;
    follow->epoch_starts = starts;
}

static struct message *follow_message(struct node *node, const struct pair_message *question,
                                      struct peer_requester *requester) {
    const struct node_needs *needs = &node->needs;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Follow follow = TARRY__FOLLOW__INIT;
    uint32_t numbers[FOLLOW_EPOCHS_MAX];
    uint64_t starts[FOLLOW_EPOCHS_MAX];
    struct log_point point;
    /* A proposal names no log position. A leader sends no other question than a proposal (follower_half_listens). */
    assert(question->kind == PAIR_PROPOSE || !node_is_leading(node));
    uint64_t end = question->kind == PAIR_PROPOSE ? log_durable(node->log) : question->end;
    int error = log_point(node->log, end, &point);
    if (error != 0) fatal("log_unreadable", error);
    follow.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, needs->dir->cluster};
    follow.member = (ProtobufCBinaryData){MEMBER_ID_SIZE, needs->dir->member.id};
    follow.node = node->pair.self;
    follow.log_version = FORMAT_VERSION;
    follow.coordinated = !node->pair.by_operator;
    follow_wire_ask(question, &follow);
    follow.end = end;
    follow.chain = (ProtobufCBinaryData){FRAME_CHAIN_SIZE, point.chain};
    follow.last_epoch = point.epoch;
    follow.applied = atomic_load(&node->applied);
    follow.url = node->url;
    follow.wait_ms = follower_half_wait_ms(&node->following.half);
    follow.leaves = node->following.half.has_left;
    follow.probes = requester == &node->following.prober;
    bool follows = question->kind == PAIR_FOLLOW;
    if (follows && question->stamp == 0 && !follow.probes) tell_epochs(node, &follow, numbers, starts);
    pthread_mutex_lock(&node->mutex);
    if (follows) follow.digest_position = node->digests.compared.position;
    if (follows) follow.digest = node->digests.compared.digest;
    pthread_mutex_unlock(&node->mutex);
    request.version = WIRE_VERSION;
    request.client = "tarryd";
    request.body_case = TARRY__REQUEST__BODY_FOLLOW;
    request.follow = &follow;
    size_t size = tarry__request__get_packed_size(&request) + PEER_REQUEST_TRAILER_SIZE;
    struct message *message = message_new(size);
    if (message == NULL) return NULL;
    tarry__request__pack(&request, message->bytes);
    peer_prove_request(needs->peer_key, requester, message->bytes, size);
    return message;
}

static void ask(struct node *node) {
    struct node_following *following = &node->following;
    struct message *message = follow_message(node, &following->half.question, &following->requester);
    following->asked_ns = boottime_ns();
    follower_half_sent(&following->half, message != NULL, monotonic_ns());
    if (message != NULL)
        rpc_client_ask(node->rpc_client, message, (unsigned)follower_half_patience_ms(&following->half));
}

void follower_ask(struct node *node, const struct pair_message *question) {
    if (follower_half_ask(&node->following.half, question)) ask(node);
}

bool follower_leave(struct node *node) {
    struct node_following *following = &node->following;
    if (!follower_half_leave(&following->half, &node->pair)) return false;
    struct message *message = follow_message(node, &following->half.question, &following->requester);
    following->half.asking = message != NULL;
    if (message != NULL) rpc_client_ask(node->rpc_client, message, GOODBYE_MS);
    return message != NULL;
}

/* Sends a probe to the run of the leader that got the question. An answer of another run is no sign of life. */
void follower_probe(struct node *node) {
    struct node_following *following = &node->following;
    memcpy(following->prober.challenge, following->requester.challenge, PEER_CHALLENGE_SIZE);
    struct message *message = follow_message(node, &following->half.question, &following->prober);
    unsigned wait_ms = (unsigned)(silence_probe_wait_ns(&node->silence) / NS_PER_MS);
    following->probed_ns = boottime_ns();
    following->probe_until_ns = monotonic_ns() + silence_probe_wait_ns(&node->silence);
    if (message != NULL) rpc_client_ask(node->prober, message, wait_ms);
}

uint32_t follower_probed(struct node *node, struct message *answer) {
    const uint8_t *data = message_data(answer);
    size_t size = message_size(answer);
    if (peer_check_reply(node->needs.peer_key, &node->following.prober, data, size) != PEER_RIGHT) return 0;
    Tarry__Reply *reply = tarry__reply__unpack(NULL, size, data);
    bool is_answer = reply != NULL && reply->body_case == TARRY__REPLY__BODY_FOLLOW;
    uint32_t epoch = is_answer ? reply->follow->epoch : 0;
    if (is_answer) node_fresh_heard(node, epoch, node->following.probed_ns, reply->follow->known);
    node->following.probe_until_ns = 0;
    if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
    return epoch;
}

void follower_check(struct node *node, uint64_t now_ns) {
    struct follower_half *half = &node->following.half;
    enum follower_due due = follower_half_due(half, &node->pair, now_ns);
    if (due == FOLLOWER_DUE_CUT) node_cut(node, half->cut_end);
    if (due == FOLLOWER_DUE_ASK) ask(node);
}

/* ---- answers */

static void hear_clock(struct node *node, const Tarry__FollowReply *body) {
    struct leader_clock *clock = &node->following.clock;
    struct instant now = {.steady_ns = body->steady_ns, .wall_ns = body->wall_ns};
    struct timespec boot;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    uint64_t boot_ns = (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec;
    if (leader_clock_hear(clock, now, boot_ns) && !datadir_note_boot(node->needs.dir, clock->noted_steady_ns))
        clock->noted_steady_ns = 0; /* the file DIR/boot was not written, so the next answer tries again */
}

static void note_leader(struct node *node, const Tarry__FollowReply *body) {
    pthread_mutex_lock(&node->mutex);
    struct node_peer *peer = &node->peer;
    if (body->member.len == MEMBER_ID_SIZE) memcpy(peer->member, body->member.data, MEMBER_ID_SIZE);
    if (body->url[0] != '\0' && strlen(body->url) < sizeof(peer->url)) {
        snprintf(peer->url, sizeof(peer->url), "%s", body->url);
        snprintf(node->primary, sizeof(node->primary), "%s", body->url);
    }
    peer->heard_ns = monotonic_ns();
    if (body->epoch > peer->epoch) peer->epoch = body->epoch;
    /* The leader has stored and applied at least the position that it reports as committed. */
    if (body->committed > peer->durable) peer->durable = peer->applied = body->committed;
    uint64_t own_end = log_durable(node->log);
    peer->lag = (struct node_lag){0};
    uint64_t lag = own_end < body->log_end ? body->log_end - own_end : 0;
    copy_progress_see(&peer->progress, lag >= CATCH_UP_BYTES ? lag : 0, monotonic_ns());
    uint64_t left_ms = peer->progress.left_ms;
    if (lag > 0) peer->lag = (struct node_lag){body->lag_frames, lag, body->lag_ms, left_ms};
    bool says = lag >= CATCH_UP_BYTES && copy_progress_says(&peer->progress, monotonic_ns());
    const struct digest_point point = {body->digest_position, body->digest};
    digests_expect(&node->digests, point, atomic_load(&node->applied));
    pthread_mutex_unlock(&node->mutex);
    if (says)
        logfmt("catching_up", "position=%" PRIu64 " lag_bytes=%" PRIu64 " left_ms=%" PRIu64, own_end, lag, left_ms);
}

/* Appends the frames. Returns false if they do not continue this log. */
static bool copy_frames(struct node *node, const Tarry__FollowReply *body) {
    const char *problem = NULL;
    uint64_t at = 0;
    int error = log_copy(node->log, body->frames.data, body->frames.len, node->pair.hard_state.floor, &at, &problem);
    if (error == LOG_UNFIT) {
        logfmt_repeated(&damaged_repeat, problem, "frames_refused", "position=%" PRIu64, at);
        return false;
    }
    if (error != 0) fatal("log_failed", error);
    return true;
}

static void sync_frames(struct node *node) {
    uint64_t started_ns = monotonic_ns();
    int error = log_sync(node->log);
    if (error != 0) fatal("log_failed", error);
    latency_add(node->needs.fsync_us, (monotonic_ns() - started_ns) / 1000);
}

static void apply(struct node *node) {
    uint64_t position = follower_may_apply(&node->pair);
    atomic_store(&node->committed, position);
    atomic_store(&node->may_index, position);
    inbox_follow(node->needs.inbox, position);
}

static void take_step(struct node *node, struct follower_take *take, const Tarry__FollowReply *body,
                      const struct pair_event *answered) {
    struct pair_event durable = {.kind = PAIR_DURABLE};
    switch (take->step) {
    case FOLLOWER_CLOCK:
        hear_clock(node, body);
        break;
    case FOLLOWER_COPY:
        if (!copy_frames(node, body)) follower_take_unfit(take);
        break;
    case FOLLOWER_SYNC:
        sync_frames(node);
        break;
    case FOLLOWER_DURABLE:
        durable.end = log_durable(node->log);
        node_step(node, &durable, NULL);
        node->needs.calls.durable(node->needs.calls.context, durable.end);
        break;
    case FOLLOWER_LEADER:
        note_leader(node, body);
        break;
    case FOLLOWER_ANSWERED:
        node_step(node, answered, NULL);
        break;
    case FOLLOWER_HEARD:
        node_heard(node);
        if (body->verdict == TARRY__FOLLOW_REPLY__VERDICT__FRAMES)
            node_fresh_heard(node, body->epoch, node->following.answered_ns, body->known);
        break;
    case FOLLOWER_APPLY:
        apply(node);
        break;
    case FOLLOWER_BEGIN:
    case FOLLOWER_DONE:
        break;
    }
}

static void take_verdict(struct node *node, const Tarry__FollowReply *body) {
    struct pair_event event = {.kind = PAIR_ANSWERED, .message = follow_wire_answered(body, &node->hard_state)};
    event.message.differs = follow_wire_differs(node->log, body);
    node->following.answered_ns = node->following.asked_ns;
    /* The proof ties an answer to the newest question (peer_proof.h). */
    struct follower_take take = follower_take_begin(&node->pair, &event.message, body->frames.len > 0, true);
    while (follower_take_next(&take, &node->pair, atomic_load(&node->committed)) != FOLLOWER_DONE)
        take_step(node, &take, body, &event);
}

/* Returns whether a process of another cluster answers at the address of the leader that this run has followed. If so,
 * the leader is gone, so this node must not stop: it may have to lead. */
static bool is_stranger(const struct node *node, const Tarry__FollowReply *body) {
    bool is_other = body->cluster.len == CLUSTER_ID_SIZE &&
                    memcmp(body->cluster.data, node->needs.dir->cluster, CLUSTER_ID_SIZE) != 0;
    return is_other && node->pair.epoch != 0;
}

static const char not_taken[] =
    "the other node does not accept this node as its follower: this node's disk is new and the pair still waits for "
    "the former disk, or the disk belongs to another cluster. 'tarry promote --peer-is-stopped' at the node that leads "
    "makes the pair accept a new disk";

/* Handles the other node's refusal of this node. If `is_early` is true, this node may ask again later. Otherwise the
 * process ends, because only an operator can help, unless another cluster's process has answered. */
static void take_refusal(struct node *node, const Tarry__FollowReply *body, bool is_early) {
    logfmt_repeated(&refused_repeat, body->sentence, "not_followed", "peer=%s", node->needs.config->peer);
    if (!is_early && !is_stranger(node, body)) node_refuse(body->sentence);
    pthread_mutex_lock(&node->mutex);
    node->peer.heard_ns = monotonic_ns(); /* the other node is alive */
    pthread_mutex_unlock(&node->mutex);
    node_say(node, not_taken, 0);
    follower_half_refused(&node->following.half, monotonic_ns());
    node_unanswered(node, is_early);
}

/* Handles an answer while this node leads. Without a coordinator (`by_operator`), a leader proposes its epoch to a
 * silent node. A leader obeys nothing in the answer. */
static void take_reply_as_leader(struct node *node, const Tarry__FollowReply *body, bool is_early) {
    if (body->verdict == TARRY__FOLLOW_REPLY__VERDICT__REFUSED) {
        logfmt_repeated(&refused_repeat, body->sentence, "peer_refuses", "peer=%s", node->needs.config->peer);
        node_unanswered(node, is_early);
        return;
    }
    struct pair_event event = {.kind = PAIR_ANSWERED, .message = follow_wire_answered(body, &node->hard_state)};
    uint32_t epoch = event.message.kind == PAIR_NOT_LEADING ? event.message.floor : event.message.epoch;
    pthread_mutex_lock(&node->mutex);
    if (epoch > node->peer.epoch) node->peer.epoch = epoch;
    pthread_mutex_unlock(&node->mutex);
    node_step(node, &event, NULL);
}

static void take_reply(struct node *node, const Tarry__Reply *reply) {
    if (reply->body_case != TARRY__REPLY__BODY_FOLLOW) return;
    const Tarry__FollowReply *body = reply->follow;
    if (node_is_leading(node)) {
        take_reply_as_leader(node, body, reply->code == TARRY__CODE__BUSY);
        return;
    }
    switch (body->verdict) {
    case TARRY__FOLLOW_REPLY__VERDICT__FRAMES:
    case TARRY__FOLLOW_REPLY__VERDICT__PROMISE:
    case TARRY__FOLLOW_REPLY__VERDICT__CUT_TO:
    case TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING:
    case TARRY__FOLLOW_REPLY__VERDICT__TAKE_OVER:
    case TARRY__FOLLOW_REPLY__VERDICT__NEED_SNAPSHOT:
        take_verdict(node, body);
        break;
    case TARRY__FOLLOW_REPLY__VERDICT__REFUSED:
        take_refusal(node, body, reply->code == TARRY__CODE__BUSY);
        break;
    default:
        break;
    }
}

static const char unproved[] =
    "the server at the other node's address does not prove that it has this node's peer key: give both nodes the same "
    "file (--peer-key), or check which other program listens there";

/* Handles an answer without a valid proof. Any process may have sent it. It may cause a repeated question and a line in
 * the log, but nothing else. */
static void take_unproved(struct node *node, const void *data, size_t size) {
    struct node_following *following = &node->following;
    char reason[2 * sizeof(unproved)];
    Tarry__Reply *reply = size <= PEER_REFUSAL_SIZE_MAX ? tarry__reply__unpack(NULL, size, data) : NULL;
    bool is_refusal,
        is_news = reply != NULL && peer_learn(&following->requester, reply->challenge.data, reply->challenge.len);
    switch (follower_half_unproved(&following->half, is_news, monotonic_ns())) {
    case FOLLOWER_ASKS_NOW:
        ask(node);
        break;
    case FOLLOWER_ASKS_SOON:
        break;
    case FOLLOWER_REFUSED:
        is_refusal = reply != NULL && reply->message[0] != '\0';
        snprintf(reason, sizeof(reason), "%s%s%.200s", unproved, is_refusal ? "; its message: " : "",
                 is_refusal ? reply->message : "");
        logfmt_repeated(&refused_repeat, reason, "not_followed", "peer=%s", node->needs.config->peer);
        node_say(node, unproved, 0);
        node_unanswered(node, false);
        break;
    }
    if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
}

/* Handles an answer. Returns false if a newer question has replaced the one that it answers. */
static bool take_answer(struct node *node, struct message *answer) {
    struct node_following *following = &node->following;
    const uint8_t *data = message_data(answer);
    size_t size = message_size(answer);
    enum peer_proof proof = peer_check_reply(node->needs.peer_key, &following->requester, data, size);
    if (proof == PEER_STALE) return false;
    /* This node has announced its stop, and any answer means that the announcement has arrived. */
    if (following->half.has_left) return true;
    if (proof != PEER_RIGHT) {
        take_unproved(node, data, size);
        return true;
    }
    follower_half_proved(&following->half);
    Tarry__Reply *reply = tarry__reply__unpack(NULL, size, data);
    if (reply == NULL) return true;
    take_reply(node, reply);
    tarry__reply__free_unpacked(reply, NULL);
    return true;
}

void follower_answered(struct node *node, struct message *answer) {
    struct follower_half *half = &node->following.half;
    half->asking = false;
    bool listens = follower_half_listens(half, &node->pair);
    bool is_newest = answer == NULL || !listens || take_answer(node, answer);
    if (answer == NULL) node_unanswered(node, false);
    message_free(answer);
    if (!half->has_left)
        follower_half_settle(half, &node->pair, monotonic_ns());
    else if (is_newest)
        node_has_left(node);
}

/* ---- cutting */

static struct quarantine quarantine_of(const struct node_needs *needs) {
    struct quarantine quarantine = {.disk = needs->disk, .directory = needs->dir->quarantine};
    memcpy(quarantine.cluster, needs->dir->cluster, sizeof(quarantine.cluster));
    return quarantine;
}

static void say_quarantined(const struct quarantine_tail *tail) {
    logfmt("tail_quarantined", "from=%" PRIu64 " to=%" PRIu64 " file=%s", tail->base, tail->end, tail->name);
}

static const char pinned[] = "this node must cut off log records that the leader never had, but first waits until a "
                             "running backup of this node has ended";

bool follower_cut(struct node *node, uint64_t end) {
    const struct node_needs *needs = &node->needs;
    struct quarantine quarantine = quarantine_of(needs);
    struct quarantine_tail tail;
    char why[QUARANTINE_WHY_SIZE];
    snprintf(
        why, sizeof(why),
        "The leader of epoch %u, %.800s, does not have these frames: this node wrote them, and the other node did not "
        "confirm them. No client got a success reply for them, unless this node served alone or asynchronously.\n",
        node->pair.hard_state.floor, node->needs.config->peer);
    uint64_t keep = follower_keeps(&node->pair, atomic_load(node->needs.signed_to));
    int error = log_cut(node->log, end, keep, &quarantine, why, &tail);
    if (error == LOG_PINNED) {
        node_say(node, pinned, 0);
        follower_half_put_off_cut(&node->following.half, end, monotonic_ns());
        return false;
    }
    if (error == LOG_KEPT || error == LOG_WITHIN || error == LOG_RETIRED || error == LOG_END)
        node_refuse("the logs of the leader and of this node differ from a position on that this node's index has "
                    "already absorbed: one of the two data directories was cut or restored; start this node with an "
                    "empty directory and --follow");
    if (error != 0) fatal("cut_failed", error);
    say_quarantined(&tail);
    pthread_mutex_lock(&node->mutex);
    digests_cut(&node->digests, end);
    pthread_mutex_unlock(&node->mutex);
    return true;
}

/* Quarantines the log behind `end` (R8). The frames are kept, because it is unknown whether the leader has them. */
static void put_aside(struct node *node, uint64_t end) {
    const struct node_needs *needs = &node->needs;
    struct quarantine quarantine = quarantine_of(needs);
    struct quarantine_tail tail;
    char why[QUARANTINE_WHY_SIZE];
    snprintf(why, sizeof(why),
             "The log of the leader of epoch %u, %.800s, begins after these frames, and a snapshot of it replaced this "
             "log. As far as this node knows, no client got a success reply for these frames.\n",
             node->pair.hard_state.floor, node->needs.config->peer);
    int error = quarantine_put(&quarantine, node->log, end, why, &tail);
    if (error != 0) fatal("quarantine_failed", error);
    say_quarantined(&tail);
}

void follower_fetch(struct node *node, uint64_t end) {
    const struct node_needs *needs = &node->needs;
    uint64_t durable = log_durable(node->log);
    struct log_point last;
    int error = log_point(node->log, durable, &last);
    if (error != 0) fatal("log_unreadable", error);
    /* The last frame comes from the leader, so all frames before it do too, and none must be moved aside. */
    bool is_the_leaders = last.epoch == node->pair.hard_state.floor;
    if (durable > end && !is_the_leaders) put_aside(node, end);
    error = snapshot_want(needs->dir->path, index_erased(node->index));
    if (error != 0) fatal("snapshot_failed", error);
    logfmt("snapshot_wanted", "log_end=%" PRIu64 " action=restart", durable);
    restart();
}

/* ---- becoming the leader */

void follower_end(struct node *node) {
    const struct node_following *following = &node->following;
    const struct node_needs *needs = &node->needs;
    if (following->clock.boot_ns == 0)
        return; /* no answer in this run: the clock continues from DIR/boot (leader_clock.h) */
    struct log_point end;
    int error = log_point(node->log, log_durable(node->log), &end);
    if (error != 0) fatal("log_unreadable", error);
    struct instant log_end = {.steady_ns = end.steady_ns, .wall_ns = end.wall_ns};
    clock_restart(needs->clock, leader_clock_origin(&following->clock, log_end));
    /* Write this clock's value to DIR/boot. If the process starts again without a reboot of the machine, its clock
     * continues from this value (TIME-1). */
    (void)datadir_note_boot(needs->dir, clock_boot_steady(needs->clock));
}
