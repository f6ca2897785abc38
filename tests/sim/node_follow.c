/* node_follow.c: the follower: questions, copied frames, cuts, applied frames, and the leader's clock
 * (shell/pair/node_follower.c, shell/threads/core_thread.c). */
#include <errno.h>
#include <string.h>

#include "../must.h"
#include "client.h"
#include "follow_wire.h"
#include "log_copy.h"
#include "log_serve.h"
#include "model_disk.h"
#include "network.h"
#include "node.h"
#include "quarantine.h"
#include "tarry_limits.h"
#include "world.h"

/* ---- asking */

static void tell_epochs(struct world *world, Tarry__Follow *follow) {
    struct log_epochs epochs = {0};
    MUST(log_epochs_read(world->host->log, &epochs) == 0);
    size_t from = epochs.count > FOLLOW_EPOCHS_MAX ? epochs.count - FOLLOW_EPOCHS_MAX : 0;
    follow->n_epochs = follow->n_epoch_starts = epochs.count - from;
    follow->epochs = world_alloc(world, follow->n_epochs * sizeof *follow->epochs);
    follow->epoch_starts = world_alloc(world, follow->n_epochs * sizeof *follow->epoch_starts);
    for (size_t i = from; i < epochs.count; i++) {
        follow->epochs[i - from] = epochs.items[i].epoch;
        follow->epoch_starts[i - from] = epochs.items[i].start;
    }
    log_epochs_deinit(&epochs);
}

static struct node_message *pack(struct world *world, const struct pair_message *question) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct node_message *message = world_alloc(world, sizeof *message);
    Tarry__Follow *follow = &message->question;
    struct log_point point;
    tarry__follow__init(follow);
    tarry__follow_reply__init(&message->answer);
    uint64_t end = question->kind == PAIR_PROPOSE ? log_durable(host->log) : question->end;
    MUST(log_point(host->log, end, &point) == 0);
    message->from = host->number;
    message->life = host->life;
    message->asked_ns = world_boot_ns(world);
    message->acknowledged = world->truth.count;
    follow->cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, node->cluster};
    follow->member = (ProtobufCBinaryData){MEMBER_ID_SIZE, world_copy(world, node->member, MEMBER_ID_SIZE)};
    follow->node = node->pair.self;
    follow->coordinated = !node->pair.by_operator;
    follow->log_version = FORMAT_VERSION;
    follow_wire_ask(question, follow);
    follow->end = end;
    follow->chain = (ProtobufCBinaryData){FRAME_CHAIN_SIZE, world_copy(world, point.chain, FRAME_CHAIN_SIZE)};
    follow->last_epoch = point.epoch;
    bool follows = question->kind == PAIR_FOLLOW;
    if (follows) follow->digest_position = node->digests.compared.position;
    if (follows) follow->digest = node->digests.compared.digest;
    follow->wait_ms = follower_half_wait_ms(&node->following.half);
    follow->leaves = node->following.half.has_left;
    if (follows && question->stamp == 0) tell_epochs(world, follow);
    return message;
}

static void no_answer(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP) return;
    struct node_message *message = world_alloc(world, sizeof *message);
    message->number = *(const uint64_t *)argument;
    node_post(world, follow_answered, message);
}

static void send(struct world *world) {
    struct host *host = world->host;
    struct node_following *following = &host->node->following;
    struct node_message *message = pack(world, &following->half.question);
    message->number = ++following->number;
    follower_half_sent(&following->half, true, world->now_ns);
    /* R2: a position that a question reports as durable must stay durable from now on. */
    bool tells = following->half.question.kind == PAIR_FOLLOW && message->question.end > host->promised;
    if (tells) host->promised = message->question.end;
    MUST(message->question.end <= log_durable(host->log));
    network_between(world, 1 - host->number, lead_question, message, NETWORK_ANY_LIFE);
    uint64_t patience_ns = follower_half_patience_ms(&following->half) * NS_PER_MS;
    world_after_ns(world, patience_ns, no_answer, world_copy(world, &message->number, sizeof message->number),
                   host->life);
}

void follow_leave(struct world *world) {
    struct node *node = world->host->node;
    if (follower_half_leave(&node->following.half, &node->pair)) send(world);
}

void follow_ask(struct world *world, const struct pair_message *question) {
    if (follower_half_ask(&world->host->node->following.half, question)) send(world);
}

void follow_probe(struct world *world) {
    struct node_following *following = &world->host->node->following;
    struct node_message *message = pack(world, &following->half.question);
    message->question.probes = true;
    message->number = ++following->probe;
    following->probed_ns = world->now_ns;
    network_between(world, 1 - world->host->number, lead_question, message, NETWORK_ANY_LIFE);
}

void follow_check(struct world *world) {
    struct node *node = world->host->node;
    if (follower_half_due(&node->following.half, &node->pair, world->now_ns) == FOLLOWER_DUE_ASK) send(world);
}

/* ---- answers */

static void hear_clock(struct world *world, const Tarry__FollowReply *body) {
    struct host *host = world->host;
    struct leader_clock *clock = &host->node->following.clock;
    struct instant now = {.steady_ns = body->steady_ns, .wall_ns = body->wall_ns};
    if (!leader_clock_hear(clock, now, world_boot_ns(world))) return;
    host->noted_boot = host->boot;
    host->noted_steady_ns = clock->noted_steady_ns;
}

/* State of the handling of one answer. The pair's rules must also recognize answers to older questions, so these are
 * handled too. */
struct take {
    const struct node_message *message;
    struct follower_take take;
    struct pair_event answered;
};

static bool copy_frames(struct world *world, const struct node_message *message) {
    struct host *host = world->host;
    const ProtobufCBinaryData *frames = &message->answer.frames;
    const char *problem = NULL;
    uint64_t at = 0;
    int error = log_copy(host->log, frames->data, frames->len, host->node->pair.hard_state.floor, &at, &problem);
    if (error == LOG_UNFIT) {
        TRACE(world, "broker", "refuses frames: %s", problem);
        return false;
    }
    for (size_t i = 0; i < message->frame_count; i++) *host_add_frame(host) = message->frames[i];
    if (error) /* although the copy failed, some of the frames may be in the log */
        host_fail(world, "cannot copy frames", error);
    else
        MUST(host->frames[host->frame_count - 1].end == log_end(host->log));
    return true;
}

static void go_on(struct world *world, struct take *take);

static void frames_are_synced(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP) return;
    int error = log_sync(host->log);
    if (error) {
        host_fail(world, "cannot sync the log", error);
        return;
    }
    TRACE(world, "broker", "has #%zu", host_frames_below(host, log_durable(host->log)));
    go_on(world, argument);
    if (host->life != life || host->node->ended) return;
    node_unblock(world);
}

/* Starts a sync of the log. Until it ends, the rules get no events. */
static void begin_sync(struct world *world, struct take *take) {
    world->host->node->blocked = true;
    world_after(world, &world->options.sync, frames_are_synced, take, world->host->life);
}

static void apply_committed(struct world *world) {
    struct node *node = world->host->node;
    node->committed = node->may_index = world->host->inbox.follow_to = follower_may_apply(&node->pair);
    node_apply_later(world);
}

static void expect_digest(struct world *world, const Tarry__FollowReply *body) {
    const struct digest_point point = {body->digest_position, body->digest};
    digests_expect(&world->host->node->digests, point, core_position(world->host->core));
}

static void do_step(struct world *world, struct take *take) {
    struct node *node = world->host->node;
    const struct node_message *message = take->message;
    struct pair_event durable = {.kind = PAIR_DURABLE, .end = log_durable(world->host->log)};
    switch (take->take.step) {
    case FOLLOWER_CLOCK:
        hear_clock(world, &message->answer);
        break;
    case FOLLOWER_COPY:
        if (!copy_frames(world, message)) follower_take_unfit(&take->take);
        break;
    case FOLLOWER_SYNC:
        begin_sync(world, take);
        break;
    case FOLLOWER_DURABLE:
        node_step(world, &durable, NULL);
        break;
    case FOLLOWER_LEADER:
        memcpy(node->following.leader, message->answer.member.data, MEMBER_ID_SIZE);
        expect_digest(world, &message->answer);
        break;
    case FOLLOWER_ANSWERED:
        node_step(world, &take->answered, NULL);
        break;
    case FOLLOWER_HEARD:
        node_heard(world);
        if (message->answer.verdict == TARRY__FOLLOW_REPLY__VERDICT__FRAMES) node_take_word(world, message);
        break;
    case FOLLOWER_APPLY:
        apply_committed(world);
        break;
    case FOLLOWER_BEGIN:
    case FOLLOWER_DONE:
        break;
    }
}

static void settle(struct world *world) {
    struct node *node = world->host->node;
    follower_half_settle(&node->following.half, &node->pair, world->now_ns);
}

static void go_on(struct world *world, struct take *take) {
    struct host *host = world->host;
    struct node *node = host->node;
    uint64_t life = host->life;
    while (follower_take_next(&take->take, &node->pair, node->committed) != FOLLOWER_DONE) {
        do_step(world, take);
        if (host->life != life || node->ended) return;
        if (take->take.step == FOLLOWER_SYNC) return; /* frames_are_synced continues */
    }
    settle(world);
}

static void take_answer(struct world *world, const struct node_message *message, bool is_newest) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct take *take = world_alloc(world, sizeof *take);
    *take = (struct take){.message = message, .answered = {.kind = PAIR_ANSWERED}};
    struct pair_message *answer = &take->answered.message;
    *answer = follow_wire_answered(&message->answer, &node->hard_state);
    answer->differs = follow_wire_differs(host->log, &message->answer);
    MUST(!answer->differs || node->may_refuse); /* F-31d: logs that differ within one epoch are allowed only in a test
                                                   that sets may_refuse */
    take->take = follower_take_begin(&node->pair, answer, message->answer.frames.len > 0, is_newest);
    go_on(world, take);
}

/* Reports that a question got no answer. If an operator's command waited for the answer, it continues without the
 * answer. */
static void unanswered(struct world *world, bool is_refused_by_leader) {
    struct pair_event event = {.kind = PAIR_UNANSWERED, .present = is_refused_by_leader};
    node_step(world, &event, NULL);
}

static void take_refusal(struct world *world, const struct node_message *message) {
    struct node *node = world->host->node;
    uint64_t life = world->host->life;
    if (!message->is_early) node_refuse(world, message->answer.sentence);
    follower_half_refused(&node->following.half, world->now_ns);
    if (!node->ended) unanswered(world, message->is_early);
    if (world->host->life == life && !node->ended) settle(world);
}

/* Handles the answer to a proposal. A leader without a coordinator sends one to a node from which it receives nothing.
 */
static void take_answer_as_leader(struct world *world, const struct node_message *message, bool is_refused) {
    struct pair_event event = {.kind = PAIR_ANSWERED,
                               .message = follow_wire_answered(&message->answer, &world->host->node->hard_state)};
    if (is_refused)
        unanswered(world, message->is_early);
    else
        node_step(world, &event, NULL);
}

void follow_answered(struct world *world, void *argument) {
    struct node *node = world->host->node;
    const struct node_message *message = argument;
    bool is_newest = message->number == node->following.number;
    bool is_answer = message->question.base.descriptor != NULL;
    bool is_refused = message->answer.verdict == TARRY__FOLLOW_REPLY__VERDICT__REFUSED;
    uint64_t life = world->host->life;
    if (is_newest) node->following.half.asking = false;
    if (is_newest && !is_answer) unanswered(world, false);
    if (world->host->life != life || node->ended) return;
    bool is_taken = is_answer && follower_half_listens(&node->following.half, &node->pair);
    if (is_taken && node->pair.role == PAIR_LEADING) {
        if (is_newest) take_answer_as_leader(world, message, is_refused);
        return;
    }
    if (is_taken && !is_refused)
        take_answer(world, message, is_newest);
    else if (is_taken && is_newest)
        take_refusal(world, message);
    else if (is_answer || is_newest)
        settle(world);
}

/* ---- cutting (R8) */

void follow_cut(struct world *world, uint64_t end) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct quarantine quarantine = {.disk = &node->pair_disk->disk, .directory = "/data/quarantine"};
    struct quarantine_tail tail;
    host_erase_through(world);
    if (host->promised > end)
        host->promised = end; /* a cut that failed may have removed any part of the log behind `end` */
    int error =
        log_cut(host->log, end, follower_keeps(&node->pair, 0), &quarantine, "The leader does not have it.\n", &tail);
    bool is_kept = error == LOG_KEPT || error == LOG_WITHIN || error == LOG_RETIRED || error == LOG_END;
    if (is_kept) {
        node_refuse(world, "the leader's log and this one are the same only up to a position below the index's");
        return;
    }
    if (error) {
        host_fail(world, "cannot cut the log", error);
        return;
    }
    size_t kept = host_frames_below(host, end);
    MUST(kept == 0 ? end == LOG_POSITION_FIRST : host->frames[kept - 1].end == end);
    TRACE(world, "broker", "cuts #%zu to #%zu", kept + 1, host->frame_count);
    /* R8: a cut must not remove an acknowledged frame. */
    if (kept < host->frame_count && kept < world->truth.count)
        MUST(host->frames[kept].serial != world->truth.serials[kept]);
    host->frame_count = kept;
    digests_cut(&node->digests, end);
    node->cuts++;
}

/* ---- applying: up to the committed position, until this node leads */

static void began(struct world *world, void *argument);

void node_lead(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    log_cursor_close(node->applier);
    node->applier = NULL;
    if (node->pair.epoch == world->truth.epoch) world->leader = host->number;
    host_begin_epoch(world, node->pair.epoch);
    node_post(world, began, NULL);
}

static void began(struct world *world, void *argument) {
    struct node *node = world->host->node;
    node->leading.half.began = true;
    node->leads = true;
    TRACE(world, "broker", "is primary");
}

static bool apply_one(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct log_view view;
    int error = log_cursor_next(node->applier, host->turn.load.follow_to, &view);
    if (error == LOG_END) return false;
    if (error) {
        host_fail(world, "cannot read the log", error);
        return false;
    }
    const struct frame_note *note = host_frame(host, view.header.position);
    MUST(note && note->header.body_size == view.header.body_size);
    MUST(!note->header.body_size || memcmp(note->bytes, view.body, note->header.body_size) == 0);
    MUST(core_replay(host->core, &view.header, note->body) == 0);
    flat_apply(&host->head, &note->header, note->body);
    ledger_take_frame(world, note);
    MUST(core_digest(host->core) == note->digest &&
         core_live(host->core) == note->live); /* both nodes have the same number of live tasks */
    uint64_t position = core_position(host->core), expected = 0;
    MUST(digests_applied(&node->digests, position, note->digest, world->now_ns, &expected) !=
         DIGEST_DIFFERS); /* F-31 */
    return true;
}

static void apply(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP) return;
    host->node->applying = false;
    host->node->may_apply = true;
    host_turn(world);
}

void node_apply(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    uint64_t life = host->life, to = host->turn.load.follow_to, before = core_position(host->core);
    core_turn_applied(&host->turn, false);
    if (!node->may_apply) return;
    node->may_apply = false;
    size_t count = 1 + random_below(&world->random, 64);
    for (size_t i = 0; i < count && core_position(host->core) < to; i++) {
        if (!core_may_replay(host->core)) break;
        if (!apply_one(world)) break;
        if (host->life != life) return;
    }
    if (core_position(host->core) > before) {
        host->durable = core_position(host->core);
        host_index_later(world);
    }
    if (core_position(host->core) >= to) return;
    node->applying = true;
    world_after_ns(world, NS_PER_MS, apply, NULL, life);
}

void node_apply_later(struct world *world) {
    struct node *node = world->host->node;
    if (node->applying) return;
    node->applying = true;
    world_after(world, &world->options.wake, apply, NULL, world->host->life);
}

/* ---- becoming the leader: its clock continues the former leader's (TIME-1) */

void follow_take_clock(struct world *world) {
    const struct node_following *following = &world->host->node->following;
    if (following->clock.boot_ns == 0) return;
    struct log_point end;
    MUST(log_point(world->host->log, log_durable(world->host->log), &end) == 0);
    struct instant log_end = {.steady_ns = end.steady_ns, .wall_ns = end.wall_ns};
    host_restart_clock(world, leader_clock_origin(&following->clock, log_end));
}
