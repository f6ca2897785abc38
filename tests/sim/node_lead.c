/* node_lead.c: leading: questions that wait, answers, and what is let out when (shell/pair/leader.c). */
#include <errno.h>
#include <string.h>

#include "../must.h"
#include "client.h"
#include "follow_wire.h"
#include "log_serve.h"
#include "network.h"
#include "node.h"
#include "tarry_limits.h"
#include "world.h"

/* As in shell/pair/leader.c. */
#define COMMITTED_DELAY_NS (3 * NS_PER_MS)
#define STALLED_NS (1000 * NS_PER_MS)

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
    node->leading.written = end;
    log_claim(host->log, end);
    node->claimed = end;
    node->writes = true;
    node_heard(world);
    node->follow_to = end;
    node->to_lead = true;
    node_apply_later(world);
}

/* ---- what is committed leaves */

/* R3: what appended is confirmed by its position, for that was sent after all of its questions came. */
static bool may_leave(const struct node *node, const struct batch *batch) {
    if (batch->end > node->pair.committed) return false;
    return batch->effects.appends.count > 0 || pair_may_answer(&node->pair, batch->question);
}

static void let_out(struct world *world) {
    struct host *host = world->host;
    struct node_leading *leading = &host->node->leading;
    uint64_t life = host->life;
    while (leading->batches && may_leave(host->node, leading->batches)) {
        struct batch *batch = leading->batches;
        leading->batches = batch->next;
        if (!host_let_out(world, batch)) return;
        if (host->life != life) return;
    }
    if (!leading->batches) leading->waits_since_ns = UINT64_MAX;
    if (leading->batches && leading->waits_since_ns == UINT64_MAX) leading->waits_since_ns = world->now_ns;
}

static void publish(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    uint64_t committed = pair_committed(&node->pair);
    if (committed > node->may_index) {
        node->may_index = committed;
        host_index_later(world);
    }
    if (!node->leading.began || committed <= node->committed) return;
    node->committed = committed;
    log_claim(host->log, committed);
    node->claimed = committed;
    host_committed(world, committed);
}

void lead_take_batches(struct world *world, void *nothing) {
    struct node *node = world->host->node;
    struct node_leading *leading = &node->leading;
    uint64_t durable = log_durable(world->host->log);
    struct batch **last = &leading->batches;
    while (*last) last = &(*last)->next;
    *last = leading->incoming;
    for (struct batch *batch = leading->incoming; batch; batch = batch->next)
        batch->question = pair_question(&node->pair);
    leading->incoming = NULL;
    if (node->pair.role != PAIR_LEADING || durable <= node->pair.durable) return;
    struct pair_event event = {.kind = PAIR_DURABLE, .end = durable};
    node_step(world, &event, NULL);
}

static void nothing_more(struct world *world, void *argument) {}

void node_written(struct world *world, uint64_t position) {
    world->host->node->leading.written = position;
    node_post(world, nothing_more, NULL); /* lead_go_on sends it */
}

void node_durable(struct world *world, struct batch *batch) {
    struct batch **last = &world->host->node->leading.incoming;
    while (*last) last = &(*last)->next;
    batch->next = NULL;
    *last = batch;
    node_post(world, lead_take_batches, NULL);
}

/* ---- questions */

static void answer_with(struct world *world, struct node_message *message) {
    struct host *host = world->host;
    struct instant now = host_now(world);
    message->answer.steady_ns = now.steady_ns;
    message->answer.wall_ns = now.wall_ns;
    message->answer.member =
        (ProtobufCBinaryData){MEMBER_ID_SIZE, world_copy(world, host->node->member, MEMBER_ID_SIZE)};
    message->answer.log_start = log_start(host->log);
    message->answer.log_end = host->node->leading.written;
    network_between(world, message->from, follow_answered, message, message->life);
}

static void refuse(struct world *world, struct node_message *message, bool is_early, const char *sentence) {
    message->answer.verdict = TARRY__FOLLOW_REPLY__VERDICT__REFUSED;
    message->answer.serial = message->question.serial;
    message->answer.sentence = (char *)sentence;
    message->is_early = is_early;
    TRACE(world, "broker", "refuses node %u: %s", message->from, sentence);
    answer_with(world, message);
}

/* A message is answered once; what comes twice is another one. */
static struct node_message *fresh(struct world *world, const struct node_message *message) {
    struct node_message *copy = world_copy(world, message, sizeof *message);
    tarry__follow_reply__init(&copy->answer);
    copy->frames = NULL;
    copy->frame_count = 0;
    return copy;
}

void lead_forget_question(struct world *world) {
    struct node_leading *leading = &world->host->node->leading;
    struct node_message *message = leading->held;
    if (!message) return;
    leading->held = NULL;
    message->answer.verdict = TARRY__FOLLOW_REPLY__VERDICT__NOT_LEADING;
    message->answer.serial = message->question.serial;
    message->answer.epoch = world->host->node->pair.epoch;
    answer_with(world, message);
}

static const char *stranger(const struct node *node, const Tarry__Follow *follow) {
    if (memcmp(follow->cluster.data, node->cluster, CLUSTER_ID_SIZE) != 0)
        return "the data are of another cluster than the leader's";
    if (follow->node != node->pair.other) return "both brokers are the same node of the pair";
    if (memcmp(follow->member.data, node->member, MEMBER_ID_SIZE) == 0)
        return "the data directory is a copy of the leader's";
    return NULL;
}

static bool is_another_disk(const struct node *node, const Tarry__Follow *follow) {
    return node->pair.counted && note_is_another(&node->note, follow->member.data);
}

static void admit_disk(struct world *world, const Tarry__Follow *follow) {
    struct node *node = world->host->node;
    if (memcmp(node->note.peer, follow->member.data, MEMBER_ID_SIZE) == 0) return;
    memcpy(node->note.peer, follow->member.data, MEMBER_ID_SIZE);
    node_note_write(world);
}

static struct pair_event event_of(struct world *world, const Tarry__Follow *follow) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct pair_event event = {
        .kind = PAIR_ASKED,
        .near = follow->end + FOLLOW_NEAR_BYTES >= node->leading.written && follow->end > node->leading.stuck_end,
        .message = follow_wire_asked(follow, &node->note),
    };
    bool compares = node->pair.role == PAIR_LEADING || node->pair.role == PAIR_CLAIMING;
    if (compares) MUST(follow_wire_compare(host->log, follow, &event) == 0);
    return event;
}

static void answer_verdict(struct world *world, struct node_message *message, const struct pair_message *answer) {
    struct node *node = world->host->node;
    if (answer->kind == PAIR_RETIRED) node->kept_from = node->committed;
    uint8_t *chain = world_alloc(world, FRAME_CHAIN_SIZE);
    follow_wire_answer(answer, &message->answer);
    MUST(follow_wire_tell_chain(world->host->log, &message->question, chain, &message->answer) == 0);
    answer_with(world, message);
}

static uint64_t hold_ms(const struct world *world, const Tarry__Follow *follow) {
    uint64_t third_ms = world->options.pair.solo_after_ms / 3;
    return third_ms < follow->wait_ms ? third_ms : follow->wait_ms;
}

static void hold(struct world *world, struct node_message *message) {
    struct node_leading *leading = &world->host->node->leading;
    node_heard(world);
    lead_forget_question(world);
    leading->held = message;
    leading->held_ns = world->now_ns;
    leading->until_ns = world->now_ns + hold_ms(world, &message->question) * NS_PER_MS;
}

void lead_question(struct world *world, void *argument) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct node_message *message = fresh(world, argument);
    const Tarry__Follow *follow = &message->question;
    bool is_leading = node->pair.role == PAIR_LEADING;
    uint64_t life = host->life;
    const char *problem = stranger(node, follow);
    if (problem) {
        refuse(world, message, false, problem);
        return;
    }
    if (is_leading && is_another_disk(node, follow)) {
        refuse(world, message, true, "this disk is new, and the pair still waits for the one before it");
        return;
    }
    if (follow->probes) {
        message->answer.epoch = is_leading ? node->pair.epoch : 0;
        network_between(world, message->from, follow_probed, message, message->life);
        return;
    }
    node->leading.heard_ns = world->now_ns;
    if (follow->end > node->leading.peer_durable) node->leading.grown_ns = world->now_ns;
    node->leading.peer_durable = follow->end;
    bool never_follows = node->pair.by_operator && follow->alone;
    if (is_leading && !never_follows) node->kept_from = follow->end;
    struct pair_event event = event_of(world, follow);
    if (is_leading && event.message.another) lead_forget_question(world);
    if (is_leading) admit_disk(world, follow);
    if (host->life != life) return;
    struct pair_message answer = {0};
    node->leading.asker = follow->member.data;
    node_step(world, &event, &answer);
    node->leading.asker = NULL;
    if (host->life != life || node->ended) return;
    if (!is_leading && node->pair.role == PAIR_LEADING) admit_disk(world, follow);
    if (host->life != life) return;
    if (answer.kind == PAIR_FRAMES)
        hold(world, message);
    else
        answer_verdict(world, message, &answer);
    if (!follow->leaves || node->pair.role != PAIR_LEADING) return;
    TRACE(world, "broker", "is left by its follower");
    node->silence.until_ns = world->now_ns;
    node->silence.remind_ns = 0;
}

/* ---- answers */

static bool has_something_to_say(struct world *world) {
    struct node *node = world->host->node;
    struct node_leading *leading = &node->leading;
    const Tarry__Follow *follow = &leading->held->question;
    const struct batch *batch = leading->batches;
    bool wants_confirmation = batch && batch->end <= node->pair.committed && !may_leave(node, batch);
    leading->wake_ns = leading->until_ns;
    if (pair_hands_over(&node->pair)) return true;
    if (leading->written > follow->end || world->now_ns >= leading->until_ns) return true;
    if (follow->stamp == 0) return true; /* it does not know yet that it is a follower */
    if (node->pair.counted && wants_confirmation) return true;
    if (node->pair.committed <= leading->told) return false;
    uint64_t tell_ns = leading->held_ns + COMMITTED_DELAY_NS;
    if (tell_ns < leading->wake_ns) leading->wake_ns = tell_ns;
    return world->now_ns >= tell_ns;
}

static void answer_frames(struct world *world, struct node_message *message, const struct pair_message *answer) {
    struct host *host = world->host;
    struct node_leading *leading = &host->node->leading;
    Tarry__FollowReply *body = &message->answer;
    struct log_bytes frames = {0};
    uint64_t from = message->question.end;
    body->verdict = TARRY__FOLLOW_REPLY__VERDICT__FRAMES;
    body->epoch = answer->epoch;
    body->serial = answer->serial;
    body->stamp = answer->stamp;
    body->in_sync = answer->in_sync;
    body->committed = leading->began ? answer->committed : 0;
    size_t room = one_in(world, 2) ? FOLLOW_BYTES_MAX : 1 + random_below(&world->random, 4096);
    int error = log_serve(host->log, from, UINT64_MAX, room, &frames);
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
    leading->told = body->committed;
    answer_with(world, message);
}

static void answer_held(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct node_message *message = node->leading.held;
    if (!message || !has_something_to_say(world)) return;
    node->leading.held = NULL;
    struct pair_event event = event_of(world, &message->question);
    struct pair_message answer = {0};
    uint64_t life = host->life;
    node_step(world, &event, &answer);
    if (host->life != life || node->ended) return;
    if (answer.kind == PAIR_FRAMES)
        answer_frames(world, message, &answer);
    else
        answer_verdict(world, message, &answer);
}

void lead_go_on(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    struct node_leading *leading = &node->leading;
    uint64_t life = host->life;
    if ((world->now_ns - leading->heard_ns) / NS_PER_MS > world->options.pair.keep_ms) node->kept_from = UINT64_MAX;
    publish(world);
    if (host->life != life) return;
    let_out(world);
    if (host->life != life) return;
    leading->wake_ns = UINT64_MAX;
    answer_held(world);
    if (host->life != life || node->ended) return;
    bool is_stalled = leading->waits_since_ns != UINT64_MAX && world->now_ns - leading->waits_since_ns > STALLED_NS;
    if (is_stalled != node->stalled)
        TRACE(world, "broker", is_stalled ? "waits for its follower, and says so" : "is confirmed again");
    node->stalled = is_stalled;
}

uint64_t lead_stuck_ns(const struct world *world) {
    const struct node *node = world->host->node;
    uint64_t since_ns = node->leading.waits_since_ns;
    uint64_t wait_ms = world->options.pair.solo_after_ms;
    if (!node->pair.counted || since_ns == UINT64_MAX || wait_ms == UINT64_MAX) return UINT64_MAX;
    if (node->leading.grown_ns > since_ns) since_ns = node->leading.grown_ns;
    return since_ns + wait_ms * NS_PER_MS;
}

void lead_give_up(struct world *world) {
    struct node_leading *leading = &world->host->node->leading;
    if (leading->stuck_end != leading->peer_durable) TRACE(world, "broker", "gives up a follower that stores nothing");
    leading->stuck_end = leading->peer_durable;
}

uint64_t lead_timer(const struct world *world) {
    const struct node *node = world->host->node;
    uint64_t stall_ns = UINT64_MAX;
    if (node->leading.waits_since_ns != UINT64_MAX && !node->stalled)
        stall_ns = node->leading.waits_since_ns + STALLED_NS + 1;
    return stall_ns < node->leading.wake_ns ? stall_ns : node->leading.wake_ns;
}

/* Nobody is told anything more: who waits asks again. */
void lead_end(struct world *world) {
    struct host *host = world->host;
    struct node_leading *leading = &host->node->leading;
    struct batch **lists[] = {&leading->batches, &leading->incoming};
    for (size_t i = 0; i < 2; i++) {
        while (*lists[i]) {
            struct batch *batch = *lists[i];
            *lists[i] = batch->next;
            host_batch_drop(host, batch);
        }
    }
    leading->held = NULL;
}

/* ---- handing over: the core decides nothing meanwhile (shell/loop.c) */

static void take_paused(struct world *world, void *argument) {
    struct pair_event event = {.kind = PAIR_STOPPED, .end = *(const uint64_t *)argument};
    node_step(world, &event, NULL);
}

void node_tell_pause(struct world *world) {
    struct host *host = world->host;
    struct node *node = host->node;
    uint64_t position = core_position(host->core);
    if (!node->core_paused || node->pause_told || host->durable < position) return;
    node->pause_told = true;
    node_post(world, take_paused, world_copy(world, &position, sizeof position));
}

static void pause_core(struct world *world, void *argument, uint64_t life) {
    struct host *host = world->host;
    struct node *node = host->node;
    bool pause = node->paused; /* as it is by now: the inbox keeps the last word */
    if (host->life != life || host->state != HOST_UP || node->stopping || node->core_paused == pause) return;
    node->core_paused = pause;
    node->pause_told = false;
    struct core_event event = {.kind = pause ? CORE_STOP : CORE_RESUME};
    host_step(world, &event);
    if (pause) {
        node_tell_pause(world);
        return;
    }
    struct node_put_off *item = node->put_off;
    node->put_off = NULL;
    node->put_off_last = &node->put_off;
    for (; item; item = item->next) world_after_ns(world, 0, item->run, item->argument, item->number);
}

void lead_pause_core(struct world *world) {
    world_after(world, &world->options.wake, pause_core, NULL, world->host->life);
}
