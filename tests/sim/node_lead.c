/* node_lead.c: the leader: waiting questions, answers, and when replies leave (shell/pair/node_leader.c). */
#include <errno.h>
#include <string.h>

#include "../must.h"
#include "admission.h"
#include "client.h"
#include "follow_wire.h"
#include "hard_state_rules.h"
#include "log_serve.h"
#include "network.h"
#include "node.h"
#include "tarry_limits.h"
#include "world.h"

/* Minimum time in ns without progress before a follower may count as stalled. Before this time, waiting clients must
 * not get BUSY for a stalled follower. */
#define LAW_STALL_NS (1000 * NS_PER_MS)

/* ---- beginning */

void lead_begin(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    uint64_t end = log_durable(host->log);
    struct log_point last;
    follow_take_clock(world);
    MUST(log_point(host->log, end, &last) == 0);
    MUST(node->pair.epoch > last.epoch);
    truth_lead(world, node->pair.epoch);
    node->promoted++;
    leader_half_begin(&node->leading.half, end);
    log_claim(host->log, end);
    node->claimed = end;
    node->writes = true;
    node_heard(world);
    host->inbox.follow_to = end;
    host->inbox.lead = true;
    node_apply_later(world);
}

/* ---- committed effects leave */

static void let_out(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    bool has_left;
    MUST(node->pair.role == PAIR_LEADING); /* F-24 */
    release_gate_confirm(&host->gate, pair_confirmed(&node->pair));
    if (!host_release(world, &has_left)) return;
    if (has_left) node->leading.left_ns = world->now_ns;
    leader_half_released(&node->leading.half, has_left, host->gate.first != NULL, world->now_ns);
}

static void publish(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    uint64_t committed = pair_committed(&node->pair);
    if (committed > node->may_index) {
        node->may_index = committed;
        host_index_later(world);
    }
    if (!node->leading.half.began || committed <= node->committed) return;
    node->committed = committed;
    log_claim(host->log, committed);
    node->claimed = committed;
    host_committed(world, committed);
}

void lead_take_batches(struct world *world, void *nothing) {
    struct node *node = world->host->node;
    struct node_leading *leading = &node->leading;
    uint64_t durable = log_durable(world->host->log);
    for (struct batch *batch = leading->incoming, *next; batch; batch = next) {
        next = batch->next;
        host_enter(world, batch, pair_question(&node->pair));
    }
    leading->incoming = NULL;
    if (node->pair.role != PAIR_LEADING || durable <= node->pair.durable) return;
    struct pair_event event = {.kind = PAIR_DURABLE, .end = durable};
    node_step(world, &event, NULL);
}

static void nothing_more(struct world *world, void *argument) {}

void node_written(struct world *world, uint64_t position) {
    leader_half_written(&world->host->node->leading.half, position);
    node_post(world, nothing_more, NULL); /* calls lead_go_on, which answers the held question */
}

void node_durable(struct world *world, struct batch *batches) {
    struct batch **last = &world->host->node->leading.incoming;
    while (*last) last = &(*last)->next;
    *last = batches;
    node_post(world, lead_take_batches, NULL);
}

/* ---- questions */

static void tell_known(struct world *world, struct node_message *message) {
    const struct node *node = world->host->node;
    bool is_another = hard_state_is_another(&node->hard_state, message->question.member.data);
    message->answer.known = is_another ? 0 : leader_half_known(&node->pair);
    message->covered = host_frames_below(world->host, message->answer.known);
}

static void answer_with(struct world *world, struct node_message *message) {
    struct host *host = world->host;
    struct instant now = host_now(world);
    message->answer.steady_ns = now.steady_ns;
    message->answer.wall_ns = now.wall_ns;
    message->answer.member =
        (ProtobufCBinaryData){MEMBER_ID_SIZE, world_copy(world, host->node->member, MEMBER_ID_SIZE)};
    message->answer.log_start = log_start(host->log);
    message->answer.log_end = host->node->leading.half.written;
    if (message->answer.verdict == TARRY__FOLLOW_REPLY__VERDICT__FRAMES) tell_known(world, message);
    network_between(world, message->from, follow_answered, message, message->life);
}

static void refuse_question(struct world *world, struct node_message *message, bool is_early, const char *sentence) {
    message->answer.verdict = TARRY__FOLLOW_REPLY__VERDICT__REFUSED;
    message->answer.serial = message->question.serial;
    message->answer.sentence = (char *)sentence;
    message->is_early = is_early;
    TRACE(world, "broker", "refuses node %u: %s", message->from, sentence);
    answer_with(world, message);
}

/* Returns a copy of the message, because each message is answered once, and a doubled message counts as another one. */
static struct node_message *fresh(struct world *world, const struct node_message *message) {
    struct node_message *copy = world_copy(world, message, sizeof *message);
    tarry__follow_reply__init(&copy->answer);
    copy->frames = NULL;
    copy->frame_count = 0;
    return copy;
}

void lead_forget_question(struct world *world) {
    struct node_message *message = leader_half_release(&world->host->node->leading.half);
    if (!message) return;
    message->answer.verdict = TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING;
    message->answer.serial = message->question.serial;
    message->answer.epoch = world->host->node->pair.epoch;
    answer_with(world, message);
}

static void admit_disk(struct world *world, const Tarry__Follow *follow) {
    struct node *node = world->host->node;
    if (hard_state_admit(&node->hard_state, follow->member.data)) node_hard_state_write(world);
}

static struct pair_event event_of(struct world *world, const Tarry__Follow *follow) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct pair_event event = {
        .kind = PAIR_ASKED,
        .near = leader_half_is_near(&node->leading.half, follow->end, world->now_ns),
        .message = follow_wire_asked(follow, &node->hard_state),
    };
    if (leader_half_compares(&node->pair) && !follow->proposes)
        MUST(follow_wire_compare(host->log, follow, &event) == 0);
    return event;
}

static void answer_verdict(struct world *world, struct node_message *message, const struct pair_message *answer) {
    uint8_t *chain = world_alloc(world, FRAME_CHAIN_SIZE);
    follow_wire_answer(answer, &message->answer);
    MUST(follow_wire_tell_chain(world->host->log, &message->question, chain, &message->answer) == 0);
    answer_with(world, message);
}

/* F-31: compares the digests, which must be equal, because in the simulator no frame is damaged. */
static void compare_digests(struct world *world, const Tarry__Follow *follow) {
    struct digests *digests = &world->host->node->digests;
    uint64_t own = 0;
    MUST(digests_told(digests, follow->digest_position, follow->digest, world->now_ns, &own) != DIGEST_DIFFERS);
}

static void ask_rules(struct world *world, struct node_message *message) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct leader_half *half = &node->leading.half;
    const Tarry__Follow *follow = &message->question;
    bool is_leading = node->pair.role == PAIR_LEADING;
    uint64_t life = host->life;
    if (is_leading) compare_digests(world, follow);
    leader_half_hear(half, &node->pair, follow, world->now_ns);
    struct pair_event event = event_of(world, follow);
    if (is_leading && event.message.another) lead_forget_question(world);
    if (is_leading) admit_disk(world, follow);
    if (host->life != life) return;
    struct pair_message answer = {0};
    node->leading.requester = follow->member.data;
    node_step(world, &event, &answer);
    node->leading.requester = NULL;
    if (host->life != life || node->ended) return;
    if (!is_leading && node->pair.role == PAIR_LEADING) admit_disk(world, follow);
    if (host->life != life) return;
    if (answer.kind == PAIR_FRAMES) {
        node_heard(world);
        lead_forget_question(world);
    }
    if (!leader_half_take(half, follow, message, &answer, node->committed, world->now_ns))
        answer_verdict(world, message, &answer);
    if (!follow->leaves || node->pair.role != PAIR_LEADING) return;
    TRACE(world, "broker", "is left by its follower");
    alone_because(&node->alone, TARRY__ALONE_PUT__WHY__LEFT);
    silence_is_left(&node->silence, world->now_ns);
}

void lead_question(struct world *world, void *argument) {
    struct node *node = world->host->node;
    struct node_message *message = fresh(world, argument);
    const struct admission_self self = {.cluster = node->cluster,
                                        .member = node->member,
                                        .hard_state = &node->hard_state};
    const struct admission admission = admission_of(&node->pair, &self, &message->question);
    switch (admission.kind) {
    case ADMISSION_REFUSE:
        refuse_question(world, message, admission.is_early, admission.sentence);
        break;
    case ADMISSION_PROBE:
        message->answer.epoch = node->pair.role == PAIR_LEADING ? node->pair.epoch : 0;
        tell_known(world, message);
        network_between(world, message->from, follow_probed, message, message->life);
        break;
    case ADMISSION_RULES:
        ask_rules(world, message);
        break;
    case ADMISSION_JOIN: /* not possible here, because in the simulator every node has its cluster's id from the
                            beginning */
        MUST(false);
    }
}

/* ---- answers */

static void answer_frames(struct world *world, struct node_message *message, const struct pair_message *answer) {
    struct host *host = world->host;
    Tarry__FollowReply *body = &message->answer;
    struct log_bytes frames = {0};
    uint64_t from = message->question.end;
    body->verdict = TARRY__FOLLOW_REPLY__VERDICT__FRAMES;
    body->epoch = answer->epoch;
    body->serial = answer->serial;
    body->stamp = answer->stamp;
    body->in_sync = answer->in_sync;
    body->committed = answer->committed;
    size_t room = one_in(world, 2) ? FOLLOW_BYTES_MAX : 1 + random_below(&world->random, 4096);
    int error = log_serve(host->log, from, UINT64_MAX, room, &frames);
    struct digest_point point = digests_below(&host->node->digests, error == 0 ? frames.end.position : from);
    body->digest_position = point.position;
    body->digest = point.digest;
    if (error == 0) {
        size_t first = host_frames_below(host, from), last = host_frames_below(host, from + frames.size);
        body->frames = (ProtobufCBinaryData){frames.size, world_copy(world, frames.data, frames.size)};
        message->frame_count = last - first;
        message->frames = world_copy(world, &host->frames[first], (last - first) * sizeof host->frames[0]);
        MUST(message->frame_count == frames.frames);
    }
    log_bytes_deinit(&frames);
    if (error != 0 && error != LOG_END) {
        host_fail(world, "cannot read the log", error);
        return;
    }
    answer_with(world, message);
}

static void answer_held(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct leader_half *half = &node->leading.half;
    bool wants_word = release_gate_wants_confirmation(&host->gate);
    if (!leader_half_must_answer(half, &node->pair, wants_word, world->now_ns)) return;
    struct node_message *message = leader_half_release(half);
    struct pair_event event = event_of(world, &message->question);
    struct pair_message answer = {0};
    uint64_t life = host->life;
    node_step(world, &event, &answer);
    if (host->life != life || node->ended) return;
    leader_half_answer(half, &node->pair, &answer);
    if (answer.kind == PAIR_TAKE_OVER)
        node->handed_ns =
            world->now_ns; /* the leader hands over because its disk hangs (F-31a), or because an operator ordered it */
    if (answer.kind == PAIR_FRAMES)
        answer_frames(world, message, &answer);
    else
        answer_verdict(world, message, &answer);
}

void lead_go_on(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct leader_half *half = &node->leading.half;
    uint64_t life = host->life;
    leader_half_look_at_disk(half, host->sync_since_ns, world->now_ns);
    leader_half_forget_needs(half, false, world->now_ns);
    publish(world);
    if (host->life != life) return;
    let_out(world);
    if (host->life != life) return;
    answer_held(world);
    if (host->life != life || node->ended) return;
    if (leader_half_look(half, world->now_ns))
        TRACE(world, "broker", half->stalled_ns ? "waits for its follower, and says so" : "is confirmed again");
    /* A follower that makes progress must not count as stalled. */
    MUST(half->stalled_ns == 0 || node->leading.left_ns + LAW_STALL_NS <= world->now_ns);
}

void lead_give_up(struct world *world) {
    if (leader_half_give_up(&world->host->node->leading.half))
        TRACE(world, "broker", "gives up a follower that stores nothing");
}

/* Makes the core record that the node serves alone (shell/pair/node.c). */
void lead_record_alone(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    const struct who *who = &host->watch.who;
    const struct alone *alone = &node->alone;
    if (alone->is == who->alone) return;
    uint64_t since_ms = who->alone_since_ms, steady_ns = host_now(world).steady_ns;
    if (alone->is) since_ms = (steady_ns - (world->now_ns - alone->since_ns)) / NS_PER_MS;
    Tarry__AlonePut put = TARRY__ALONE_PUT__INIT;
    put.over = !alone->is;
    put.why = alone->why;
    put.since_ms = since_ms;
    put.alone_from = alone->position;
    struct core_event event = {.kind = CORE_ALONE, .alone.put = &put};
    host_step(world, &event);
    MUST(alone->is == who->alone); /* KEEP-1: the log must tell an auditor from when to when there was only one disk */
}

/* Ends the leading: sends no more replies, so that waiting clients ask again. */
void lead_end(struct world *world) {
    struct host *host = world->host;
    struct node_leading *leading = &host->node->leading;
    host_drop_waiting(host);
    while (leading->incoming) {
        struct batch *batch = leading->incoming;
        leading->incoming = batch->next;
        host_batch_drop(host, batch);
    }
    host_batches_dropped(world);
    (void)leader_half_release(&leading->half);
}

/* ---- handing over: meanwhile the core decides nothing (shell/threads/core_thread.c) */

static void take_paused(struct world *world, void *argument) {
    struct pair_event event = {.kind = PAIR_STOPPED, .end = *(const uint64_t *)argument};
    node_step(world, &event, NULL);
}

void node_paused(struct world *world, uint64_t position) {
    node_post(world, take_paused, world_copy(world, &position, sizeof position));
}

static void pause_core(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    if (host->life != life || host->state != HOST_UP) return;
    host->inbox.pause = host->node->paused; /* sets the latest value, because the inbox has only one */
    host_turn(world);
}

void lead_pause_core(struct world *world) {
    world_after(world, &world->options.wake, pause_core, NULL, world->host->life);
}
