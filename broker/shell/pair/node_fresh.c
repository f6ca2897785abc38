/* node_fresh.c: see node.h. First the silence of the other node, and presence at the coordinator. Then questions that
 * demand at least a log position, or a state no older than a limit: broker/replication/freshness.h decides whether each
 * question is answered, waits or is refused, and a probe fetches the leader's confirmation. */
#include "node_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "log.h"
#include "logfmt.h"
#include "node.h"

/* ---- silence */

/* Probes the other node and reports its silence to the rules. silence.h (broker/replication) decides
 * when it counts as silent. See node.h. */

void node_heard(struct node *node) {
    summons_end(&node->summons);
    silence_heard(&node->silence, &node->pair, &node->leading.half.times, monotonic_ns());
}

static uint64_t stuck_ns(const struct node *node) {
    return leader_half_stuck_ns(&node->leading.half, &node->pair);
}

uint64_t node_silence_timer(const struct node *node) {
    return silence_timer(&node->silence, &node->pair, node->following.half.has_left, stuck_ns(node));
}

static void say_silent(struct node *node, bool is_gone) {
    struct pair_event event = {.kind = PAIR_SILENT, .gone = is_gone};
    node_step(node, &event, NULL);
}

static void give_up(struct node *node) {
    alone_because(&node->alone, TARRY__ALONE_PUT__WHY__STUCK);
    leader_give_up(node);
}

/* Adjusts the waiting questions after this process was stopped for a while. */
static void node_wishes_overslept(struct node *node) {
    const uint64_t now_ns = boottime_ns();
    for (size_t i = 0; i < node->wish_count; i++) freshness_overslept(&node->wishes[i].wish, now_ns);
}

static void has_stood_still(struct node *node, uint64_t planned_ns, uint64_t now_ns) {
    summons_end(&node->summons);
    node_wishes_overslept(node);
    if (node_is_leading(node)) leader_half_overslept(&node->leading.half, now_ns);
    logfmt("overslept",
           "late_ms=%" PRIu64
           " reason=\"this process did not run for a while\" action=\"the timeout for the other node starts again\"",
           (now_ns - planned_ns) / NS_PER_MS);
}

void node_check_silence(struct node *node, uint64_t now_ns) {
    const uint64_t planned_ns = node->silence.look_ns;
    const struct silence_verdict verdict =
        silence_look(&node->silence, &node->pair, node->following.half.has_left, stuck_ns(node), now_ns);
    if (verdict.stood_still) has_stood_still(node, planned_ns, now_ns); /* this process was stopped during this turn */
    if (verdict.probes || verdict.tells) summons_ask(&node->summons, &node->pair, now_ns);
    if (verdict.probes) follower_probe(node);
    if (!verdict.tells) return;
    if (verdict.gives_up) give_up(node);
    /* The follower is silent, so its waiting question is not answered any more. */
    if (node_is_leading(node)) leader_forget_question(node);
    say_silent(node, false);
}

void node_check_sleep(struct node *node) {
    uint64_t now_ns = monotonic_ns(), planned_ns = node->silence.look_ns;
    if (silence_stood_still(&node->silence, &node->pair, now_ns)) has_stood_still(node, planned_ns, now_ns);
}

void node_take_probed(struct node *node, struct message *answer) {
    uint32_t epoch = follower_probed(node, answer);
    if (silence_probe_counts(&node->pair, node->following.half.has_left, epoch)) node_heard(node);
    message_free(answer);
}

void node_take_refused(struct node *node) {
    node_unanswered(node, false);
    if (!silence_is_gone(&node->silence, &node->pair, node->following.half.has_left, monotonic_ns())) return;
    bool leads = node_is_leading(node);
    logfmt(leads ? "follower_gone" : "leader_gone",
           "peer=%s reason=\"its connection broke, and its address refuses a new connection\"",
           node->needs.config->peer);
    if (!leads) say_silent(node, true); /* the follower counts as silent; node_check_silence reports it */
}

/* ---- presence at the coordinator (summons.h) */

bool node_is_declaring(struct node *node) {
    return leader_half_declares(&node->leading.half, &node->pair);
}

void node_declare(struct node *node) {
    uint64_t number = summons_asks(&node->summons, &node->pair);
    if (node_is_declaring(node))
        record_client_declare(&node->record_client, node->pair.epoch);
    else if (number != 0)
        record_client_summon(&node->record_client, number);
}

void node_read_record(struct node *node) {
    enum record_client_question question = node->reads.presence ? RECORD_CLIENT_PRESENCE : RECORD_CLIENT_RECORD;
    summons_reads(&node->summons, monotonic_ns());
    record_client_read(&node->record_client, node_is_leading(node) ? RECORD_CLIENT_SUMMONS : question);
}

void node_take_presence(struct node *node, struct pair_event *event) {
    struct record_client *record_client = &node->record_client;
    uint64_t number = summons_asks(&node->summons, &node->pair), stands_ms;
    bool is_asked = event->kind == PAIR_RECORD_READ && event->outcome == PAIR_DONE;
    if (!is_asked || record_client->question != RECORD_CLIENT_PRESENCE) return;
    if (number != 0 && record_client_summons_stands(record_client, number, &stands_ms))
        summons_stands(&node->summons, monotonic_ns() - stands_ms * NS_PER_MS);
    bool is_there = event->present;
    event->present = summons_is_present(&node->summons, is_there, record_client->heard);
    if (event->present) silence_remind_by(&node->silence, summons_due_ns(&node->summons));
    if (is_there && !event->present)
        logfmt("leader_absent",
               "peer=%s reason=\"the other node does not answer, neither directly nor through the coordinator\"",
               node->needs.config->peer);
}

/* ---- fresh answers */

#define SENTENCE_SIZE 400

static const Tarry__Request *request_of(const struct call *call) {
    return call->engine_request.event.request.message;
}

bool fresh_is_asked_for(const Tarry__Request *request) {
    return request->at_least != 0 || request->staleness_ms != 0;
}

/* ---- refusals */

static void refuse(struct call *call, Tarry__Code code, bool is_follower, const char *sentence) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    reply.code = code;
    reply.message = (char *)sentence;
    reply.follower = is_follower;
    call->answer(call, reply_pack(&reply));
}

const char *fresh_beyond(struct arena *arena, uint64_t at_least, uint64_t end) {
    char *sentence = arena_alloc(arena, SENTENCE_SIZE);
    if (sentence == NULL) return "the log of this broker does not reach the requested position (at_least)";
    snprintf(sentence, SENTENCE_SIZE,
             "the log of this broker ends at position %" PRIu64 ", but the request needs all records below %" PRIu64
             " (at_least): this broker never gave that position in a reply, so it belongs to another cluster or to a "
             "lost part of the log",
             end, at_least);
    return sentence;
}

static void refuse_behind(struct call *call, uint64_t applied) {
    char sentence[SENTENCE_SIZE];
    snprintf(sentence, sizeof(sentence),
             "this follower has applied the log up to position %" PRIu64
             ", but the request needs all records below %" PRIu64
             " (at_least): it did not reach that position in %u ms; try again, or ask the primary",
             applied, request_of(call)->at_least, request_of(call)->wait_ms);
    refuse(call, TARRY__CODE__BEHIND, true, sentence);
}

static void refuse_too_old(const struct node *node, struct call *call, uint64_t applied, uint64_t now_ns) {
    char sentence[SENTENCE_SIZE], since[64];
    uint64_t age_ns = freshness_age_ns(&node->fresh, now_ns);
    bool is_known = age_ns != UINT64_MAX && node->pair.role == PAIR_FOLLOWING;
    snprintf(since, sizeof(since), "its data may be %" PRIu64 " ms old, or older", age_ns / NS_PER_MS);
    snprintf(sentence, sizeof(sentence),
             "this follower has the log up to position %" PRIu64
             ", and cannot prove that this is at most %u ms old: %s; ask the primary, or allow a larger staleness",
             applied, request_of(call)->staleness_ms,
             is_known ? since : "the leader has not told it the position of its log");
    refuse(call, TARRY__CODE__TOO_OLD, true, sentence);
}

/* ---- continuing */

static void go_on(struct node *node, struct call *call, uint64_t now_ns) {
    const char *sentence = NULL;
    /* Check again whether this node may answer the request, because its role may have changed. */
    Tarry__Code code = node_admits(node, &call->engine_request.event.request, &sentence);
    if (code != TARRY__CODE__OK) {
        call->answer(call, code == TARRY__CODE__NOT_PRIMARY ? node_pack_refusal(node, sentence)
                                                            : reply_pack_refusal(code, sentence));
        return;
    }
    uint64_t age_ns = freshness_age_ns(&node->fresh, now_ns);
    bool is_said = request_of(call)->staleness_ms != 0 && !atomic_load(&node->leads);
    if (is_said) call->age_max_ms = (uint32_t)((age_ns + NS_PER_MS - 1) / NS_PER_MS);
    if (is_said && call->age_max_ms == 0) call->age_max_ms = 1;
    node->needs.calls.go_on(node->needs.calls.context, call);
}

static void ask_leader(struct node *node) {
    struct node_following *following = &node->following;
    if (following->half.has_left || monotonic_ns() < following->probe_until_ns)
        return; /* only one probe may be pending */
    follower_probe(node);
}

static bool has_leader(const struct node *node) {
    return node->pair.role == PAIR_FOLLOWING && node->pair.epoch != 0;
}

/* Answers, refuses or passes on the question. Returns true if it no longer waits. */
static bool settle(struct node *node, struct fresh_wait *wait, uint64_t applied, uint64_t now_ns) {
    struct call *call = wait->call;
    if (node->takes_no_wishes) {
        call->answer(call, reply_pack_refusal(TARRY__CODE__STOPPING, NULL));
        return true;
    }
    /* A leader's answer is never stale: the follower confirms it before it is sent (R3). */
    if (atomic_load(&node->leads)) {
        uint64_t end = log_durable(node->log);
        if (wait->wish.at_least > end)
            refuse(call, TARRY__CODE__BEHIND, false,
                   fresh_beyond(call->engine_request.arena, wait->wish.at_least, end));
        else
            go_on(node, call, now_ns);
        return true;
    }
    switch (freshness_judge(&node->fresh, &wait->wish, has_leader(node), applied, now_ns)) {
    case FRESH_ENOUGH:
        go_on(node, call, now_ns);
        return true;
    case FRESH_ASK:
        ask_leader(node);
        return false;
    case FRESH_WAIT:
        return false;
    case FRESH_BEHIND:
        refuse_behind(call, applied);
        return true;
    case FRESH_TOO_OLD:
        refuse_too_old(node, call, applied, now_ns);
        return true;
    }
    return false;
}

/* Checks all waiting questions. Sets node->awaited before it reads the node's state. So if the core thread applies that
 * position meanwhile, it wakes the pair thread. */
static uint64_t look(struct node *node) {
    uint64_t awaited = UINT64_MAX, applied = atomic_load(&node->applied), now_ns = boottime_ns();
    size_t kept = 0;
    if (node->fresh.epoch != node->pair.epoch) node->fresh = (struct freshness){.epoch = node->pair.epoch};
    freshness_applied(&node->fresh, applied);
    for (size_t i = 0; i < node->wish_count; i++) {
        struct fresh_wait wait = node->wishes[i];
        if (settle(node, &wait, applied, now_ns)) continue;
        uint64_t position = freshness_awaits(&node->fresh, &wait.wish, applied);
        if (position < awaited) awaited = position;
        node->wishes[kept++] = wait;
    }
    node->wish_count = kept;
    atomic_store(&node->awaited, awaited);
    return awaited;
}

void node_look_wishes(struct node *node) {
    if (node->wish_count == 0) return;
    while (look(node) <= atomic_load(&node->applied)) {
    }
}

void node_take_wishes(struct node *node, struct item *items) {
    while (items != NULL) {
        struct call *call = (struct call *)items;
        items = items->next;
        const Tarry__Request *request = request_of(call);
        if (node->wish_count == FRESH_WAITS_MAX) {
            call->answer(
                call,
                reply_pack_refusal(
                    TARRY__CODE__BUSY,
                    "too many requests wait for this follower to catch up (FRESH_WAITS_MAX): try again in a moment"));
            continue;
        }
        node->wishes[node->wish_count++] = (struct fresh_wait){
            .call = call,
            .wish = {.at_least = request->at_least,
                     .staleness_ns = request->staleness_ms * NS_PER_MS,
                     .until_ns = boottime_ns() + request->wait_ms * NS_PER_MS},
        };
    }
}

uint64_t node_wishes_timer(const struct node *node) {
    uint64_t until_ns = UINT64_MAX, boot_ns = boottime_ns(), now_ns = monotonic_ns();
    for (size_t i = 0; i < node->wish_count; i++) {
        uint64_t at_ns = freshness_timer(&node->wishes[i].wish);
        if (at_ns < until_ns) until_ns = at_ns;
    }
    if (until_ns == UINT64_MAX) return UINT64_MAX;
    uint64_t at_ns = until_ns > boot_ns ? now_ns + (until_ns - boot_ns) : now_ns;
    /* If a probe fails, send another one after its timeout. */
    uint64_t again_ns = node->following.probe_until_ns;
    return again_ns > now_ns && again_ns < at_ns ? again_ns : at_ns;
}

void node_fresh_heard(struct node *node, uint32_t epoch, uint64_t asked_ns, uint64_t known) {
    if (node->pair.role != PAIR_FOLLOWING || epoch != node->pair.epoch) return;
    freshness_heard(&node->fresh, epoch, asked_ns, known, atomic_load(&node->applied));
}

void node_refuse_wishes(struct node *node) {
    node->takes_no_wishes = true;
    node_look_wishes(node);
}
