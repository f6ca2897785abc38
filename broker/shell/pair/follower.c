/* follower.c: see follower.h. */
#include "follower.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "boot.h"
#include "follow_wire.h"
#include "log_copy.h"
#include "log_cut.h"
#include "logfmt.h"
#include "shell.h"
#include "snapshot.h"
#include "wire.h"

/* A leader may keep a question this long, if that is not too much of the time after which it counts as silent; and
 * shorter than a silent leader is asked again (REMIND_NS), or an idle one would never get to answer. */
#define WAIT_MAX_MS 200u
/* Beyond it, an answer is lost. */
#define ANSWER_EXTRA_MS 1000
/* After a question that came to nothing. */
#define AGAIN_NS (50 * NS_PER_MS)
#define REFUSED_AGAIN_NS (1000 * NS_PER_MS)

static struct logfmt_limit refused_limit, damaged_limit;

void follower_init(struct node *node) {
    node->following.again_ns = UINT64_MAX;
}

/* ---- asking */

static uint32_t wait_ms(const struct node *node) {
    uint64_t third_ms = node->shell->config.failover_after_ms / 3;
    return third_ms < WAIT_MAX_MS ? (uint32_t)third_ms : WAIT_MAX_MS;
}

/* They are read once for an end: that may take longer than an answer may. NULL: they cannot be read. */
static const struct log_epochs *own_epochs(struct node *node) {
    struct node_following *following = &node->following;
    uint64_t end = log_durable(node->shell->log);
    if (following->epochs.count > 0 && following->epochs_end == end) return &following->epochs;
    log_epochs_deinit(&following->epochs);
    following->epochs_end = end;
    return log_epochs_read(node->shell->log, &following->epochs) == 0 ? &following->epochs : NULL;
}

/* What the leader needs to find the last common point (R8, KIP-101). */
static void tell_epochs(struct node *node, Tarry__Follow *follow, uint32_t *numbers, uint64_t *starts) {
    const struct log_epochs *epochs = own_epochs(node);
    if (epochs == NULL) return; /* the last one's is told anyway */
    size_t from = epochs->count > FOLLOW_EPOCHS_MAX ? epochs->count - FOLLOW_EPOCHS_MAX : 0;
    for (size_t i = from; i < epochs->count; i++) {
        numbers[i - from] = epochs->items[i].epoch;
        starts[i - from] = epochs->items[i].start;
    }
    follow->n_epochs = follow->n_epoch_starts = epochs->count - from;
    follow->epochs = numbers;
    follow->epoch_starts = starts;
}

static nng_msg *follow_message(struct node *node, const struct pair_message *question) {
    struct shell *shell = node->shell;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Follow follow = TARRY__FOLLOW__INIT;
    uint32_t numbers[FOLLOW_EPOCHS_MAX];
    uint64_t starts[FOLLOW_EPOCHS_MAX];
    struct log_point point;
    /* A proposal says nothing of the log. */
    uint64_t end = question->kind == PAIR_PROPOSE ? log_durable(shell->log) : question->end;
    int error = log_point(shell->log, end, &point);
    if (error != 0) shell_fail("log_unreadable", error);
    follow.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, shell->dir.cluster};
    follow.member = (ProtobufCBinaryData){MEMBER_ID_SIZE, shell->dir.member.id};
    follow.node = node->pair.self;
    follow.log_version = FORMAT_VERSION;
    follow_wire_ask(question, &follow);
    follow.end = end;
    follow.chain = (ProtobufCBinaryData){FRAME_CHAIN_SIZE, point.chain};
    follow.last_epoch = point.epoch;
    follow.applied = atomic_load(&node->applied);
    follow.url = node->url;
    follow.wait_ms = wait_ms(node);
    if (question->stamp == 0) tell_epochs(node, &follow, numbers, starts);
    pthread_mutex_lock(&node->mutex);
    follow.digest_position = node->compared.point.position;
    follow.digest = node->compared.point.digest;
    pthread_mutex_unlock(&node->mutex);
    request.version = WIRE_VERSION;
    request.client = "tarryd";
    request.body_case = TARRY__REQUEST__BODY_FOLLOW;
    request.follow = &follow;
    nng_msg *message = NULL;
    if (nng_msg_alloc(&message, tarry__request__get_packed_size(&request)) == 0)
        tarry__request__pack(&request, nng_msg_body(message));
    return message;
}

static void ask(struct node *node) {
    struct node_following *following = &node->following;
    nng_msg *message = follow_message(node, &following->question);
    following->asking = message != NULL;
    following->again_ns = message != NULL ? UINT64_MAX : monotonic_ns() + AGAIN_NS;
    if (message != NULL) asker_ask(&node->asker, message, (int)wait_ms(node) + ANSWER_EXTRA_MS);
}

void follower_ask(struct node *node, const struct pair_message *question) {
    node->following.question = *question;
    ask(node);
}

static void ask_again_in(struct node *node, uint64_t wait_ns) {
    node->following.again_ns = monotonic_ns() + wait_ns;
}

void follower_check(struct node *node, uint64_t now_ns) {
    if (now_ns < node->following.again_ns) return;
    ask(node);
}

uint64_t follower_timer(const struct node *node) {
    return node->following.again_ns;
}

/* ---- answers */

static void note_leader(struct node *node, const Tarry__FollowReply *body) {
    struct node_following *following = &node->following;
    struct timespec boot;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    following->leader_now = (struct instant){.steady_ns = body->steady_ns, .wall_ns = body->wall_ns};
    following->leader_boot_ns = (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec;
    pthread_mutex_lock(&node->mutex);
    struct node_peer *peer = &node->peer;
    if (body->member.len == MEMBER_ID_SIZE) memcpy(peer->member, body->member.data, MEMBER_ID_SIZE);
    if (body->url[0] != '\0' && strlen(body->url) < sizeof(peer->url)) {
        snprintf(peer->url, sizeof(peer->url), "%s", body->url);
        snprintf(node->primary, sizeof(node->primary), "%s", body->url);
    }
    peer->heard_ns = monotonic_ns();
    if (body->committed > peer->durable) peer->durable = peer->applied = body->committed; /* at least */
    uint64_t own_end = log_durable(node->shell->log);
    peer->lag = (struct node_lag){0};
    if (own_end < body->log_end) peer->lag = (struct node_lag){body->lag_frames, body->log_end - own_end, body->lag_ms};
    if (body->digest_position > atomic_load(&node->applied) && node->expected.position == 0)
        node->expected = (struct digest_point){body->digest_position, body->digest};
    pthread_mutex_unlock(&node->mutex);
    if (following->clock_noted || body->steady_ns <= following->leader_boot_ns) return;
    /* Should this process start again in this boot, its own clock must not run ahead of what was the leader's. */
    following->clock_noted = true;
    boot_note(node->shell->dir.path, body->steady_ns - following->leader_boot_ns);
}

/* R2: appended, synced, and only then told. False: they do not continue this log. */
static bool take_frames(struct node *node, const Tarry__FollowReply *body) {
    struct log *log = node->shell->log;
    const char *problem = NULL;
    uint64_t at = 0;
    if (body->frames.len == 0) return true;
    int error = log_copy(log, body->frames.data, body->frames.len, node->pair.note.floor, &at, &problem);
    if (error == LOG_UNFIT) {
        char quoted[LOGFMT_VALUE_SIZE];
        if (logfmt_allowed(&damaged_limit))
            logfmt("frames_refused", "position=%" PRIu64 " reason=%s", at, logfmt_quote(problem, quoted));
        return false;
    }
    uint64_t started_ns = monotonic_ns();
    if (error == 0) error = log_sync(log);
    if (error != 0) shell_fail("log_failed", error);
    latency_add(&node->shell->fsync_us, (monotonic_ns() - started_ns) / 1000);
    struct pair_event event = {.kind = PAIR_DURABLE, .end = log_durable(log)};
    node_step(node, &event, NULL);
    courier_durable(&node->shell->courier, event.end);
    return true;
}

static void take_verdict(struct node *node, const Tarry__FollowReply *body) {
    struct pair_event event = {.kind = PAIR_ANSWERED, .message = follow_wire_answered(body)};
    bool fits = true;
    if (pair_takes(&node->pair, &event.message)) fits = take_frames(node, body);
    if (body->verdict != TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING) note_leader(node, body);
    if (!fits) return;
    node_step(node, &event, NULL);
    /* Only now is it known to follow, and so how long the leader may be silent. */
    if (body->verdict != TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING) node_heard(node);
    if (node->pair.role == PAIR_FOLLOWING && node->pair.committed > atomic_load(&node->committed)) {
        atomic_store(&node->committed, node->pair.committed);
        inbox_follow(&node->shell->inbox, node->pair.committed);
    }
}

/* Somebody else at the address of whom this run has followed: that one is gone, and this node may be to lead. */
static bool is_stranger(const struct node *node, const Tarry__FollowReply *body) {
    bool is_other = body->cluster.len == CLUSTER_ID_SIZE &&
                    memcmp(body->cluster.data, node->shell->dir.cluster, CLUSTER_ID_SIZE) != 0;
    return is_other && node->pair.epoch != 0;
}

/* Nobody but an operator can help, unless it is only too early. */
static void take_refusal(struct node *node, const Tarry__FollowReply *body, bool is_early) {
    char quoted[LOGFMT_VALUE_SIZE];
    if (logfmt_allowed(&refused_limit))
        logfmt("not_followed", "peer=%s reason=%s", node->shell->config.peer, logfmt_quote(body->sentence, quoted));
    if (!is_early && !is_stranger(node, body)) node_refuse(body->sentence);
    ask_again_in(node, REFUSED_AGAIN_NS);
}

/* What is here is of no use any more; the next run begins with what the leader has. */
static _Noreturn void want_snapshot(struct node *node, const Tarry__FollowReply *body) {
    int error = snapshot_want(node->shell->dir.path, index_erased(node->shell->index));
    if (error != 0) shell_fail("snapshot_failed", error);
    logfmt("snapshot_wanted", "log_end=%" PRIu64 " leader_log_start=%" PRIu64 " action=restart",
           log_durable(node->shell->log), body->log_start);
    shell_again(node->shell);
}

static void take_reply(struct node *node, const Tarry__Reply *reply) {
    if (reply->body_case != TARRY__REPLY__BODY_FOLLOW) return;
    const Tarry__FollowReply *body = reply->follow;
    switch (body->verdict) {
    case TARRY__FOLLOW_REPLY__VERDICT__FRAMES:
    case TARRY__FOLLOW_REPLY__VERDICT__PROMISE:
    case TARRY__FOLLOW_REPLY__VERDICT__CUT_TO:
    case TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING:
    case TARRY__FOLLOW_REPLY__VERDICT__TAKE_OVER:
        take_verdict(node, body);
        break;
    case TARRY__FOLLOW_REPLY__VERDICT__REFUSED:
        take_refusal(node, body, reply->code == TARRY__CODE__BUSY);
        break;
    case TARRY__FOLLOW_REPLY__VERDICT__NEED_SNAPSHOT:
        want_snapshot(node, body);
    default:
        break;
    }
}

void follower_answered(struct node *node, nng_msg *answer) {
    struct node_following *following = &node->following;
    following->asking = false;
    if (!node_is_leading(node) && answer != NULL) {
        Tarry__Reply *reply = tarry__reply__unpack(NULL, nng_msg_len(answer), nng_msg_body(answer));
        if (reply != NULL) take_reply(node, reply);
        if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
    }
    nng_msg_free(answer);
    bool is_idle = !following->asking && !node->pair.noting && !node->pair.cutting;
    if (node->pair.role == PAIR_FOLLOWING && is_idle && following->again_ns == UINT64_MAX) ask_again_in(node, AGAIN_NS);
}

/* ---- cutting */

void follower_cut(struct node *node, uint64_t end) {
    struct shell *shell = node->shell;
    struct quarantine quarantine = {.disk = &shell->disk, .directory = shell->dir.quarantine};
    struct quarantine_tail tail;
    char why[QUARANTINE_WHY_SIZE];
    memcpy(quarantine.cluster, shell->dir.cluster, sizeof(quarantine.cluster));
    snprintf(
        why, sizeof(why),
        "The leader of epoch %u, %.800s, does not have these frames: they were written here, and never acknowledged.\n",
        node->pair.note.floor, node->shell->config.peer);
    uint64_t keep = node->pair.committed;
    if (signer_known(&shell->signer) > keep) keep = signer_known(&shell->signer);
    int error = log_cut(shell->log, end, keep, &quarantine, why, &tail);
    if (error == LOG_KEPT || error == LOG_WITHIN || error == LOG_RETIRED || error == LOG_END)
        node_refuse("the leader's log and this one are the same only up to a position that lies below what is in the "
                    "index here: one of the two was cut or restored; start with an empty directory and --follow");
    if (error != 0) shell_fail("cut_failed", error);
    logfmt("tail_quarantined", "from=%" PRIu64 " to=%" PRIu64 " file=%s", tail.base, tail.end, tail.name);
}

/* ---- becoming the leader */

void follower_end(struct node *node) {
    const struct node_following *following = &node->following;
    struct shell *shell = node->shell;
    if (following->leader_boot_ns == 0) return; /* the clock goes on from the log's last frame, as after any start */
    struct clock_origin origin = {.last = following->leader_now};
    struct log_point end;
    int error = log_point(shell->log, log_durable(shell->log), &end);
    if (error != 0) shell_fail("log_unreadable", error);
    if (origin.last.steady_ns > following->leader_boot_ns)
        origin.boot_steady_ns = origin.last.steady_ns - following->leader_boot_ns;
    /* TIME-2: that leader's own clock may have been behind what its log says, and of a log that the index has absorbed
     * as a whole the core knows no time. */
    if (end.steady_ns > origin.last.steady_ns) origin.last.steady_ns = end.steady_ns;
    if (end.wall_ns > origin.last.wall_ns) origin.last.wall_ns = end.wall_ns;
    clock_restart(&shell->clock, origin);
    /* Should this process start again in this boot, its clock goes on from here, and not from what was noted when the
     * leader was first heard: that answer may have been under way for a shorter time than this one (TIME-1). */
    uint64_t steady_ns = clock_boot_steady(&shell->clock);
    if (steady_ns != 0) boot_note(shell->dir.path, steady_ns);
}
