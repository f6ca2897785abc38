/* operator.c: a pair without a coordinator, and an operator's words with one or without.
 *
 *   starts ──► FOLLOWING, quiet ── the other does not lead either, and this node is to ──► FENCING ──► CANDIDATE
 *                 ▲    │                                                                   hard state    proposes
 *                 │    └── an operator asserts ─► FENCING ─► LEADING, alone                                │
 *                 └── it has promised a later epoch ◄──────────────────────────────────────────────────────┤
 *                                              LEADING ◄── the node that has promised that epoch asks ─────┘
 *
 * Epochs carry the node: node 0 claims even ones, node 1 odd ones, each once. A promise is a durable floor and reaches
 * the candidate as the floor of a PAIR_FOLLOW: no other node can make that number, and none has that floor by chance.
 *
 * What makes it safe: a node whose hard state does not say `alone` has acknowledged nothing that the other lacks. So a
 * node that is promised an epoch (a node that has served alone never promises) has all that was ever acknowledged, and
 * so has a node that leads because an operator asserts truly that the other has not served alone. The hard state says
 * `alone` before the follower stops counting, and until after it counts again and has everything.
 *
 * All of that is about disks. If the other comes with another one, no node can know what the former had acknowledged
 * alone, and the new one has nothing: this node neither promises nor claims until an operator says how it was (F-29).
 *
 * Nothing here shrinks or promotes by itself, and no clock decides. */
#include "pair_parts.h"

/* Above every epoch heard of, and this node's own. */
static uint32_t next_epoch(const struct pair *pair) {
    uint32_t epoch = (pair->hard_state.floor > pair->heard ? pair->hard_state.floor : pair->heard) + 1;
    if (epoch % 2 != pair->self && !WEAK(any_parity)) epoch++;
    return epoch;
}

static void fence(struct pair *pair, enum pair_word word, struct pair_effects *out) {
    pair->role = PAIR_FENCING;
    pair->word = word;
    pair->epoch = next_epoch(pair);
    pair->hard_state.led = pair->hard_state.floor = pair->epoch;
    pair_write_state(pair, out);
    if (WEAK(unfenced)) candidacy_fenced(pair, out);
}

static void ask_promise(struct pair *pair, struct pair_effects *out) {
    pair->serial++;
    pair_push(out, PAIR_ASK)->message = (struct pair_message){
        .kind = PAIR_PROPOSE,
        .epoch = pair->epoch,
        .floor = pair->hard_state.floor,
        .serial = pair->serial,
        .led = pair->hard_state.led,
        .alone = pair->hard_state.alone,
    };
}

void operator_propose(struct pair *pair, struct pair_effects *out) {
    if (pair->role == PAIR_CANDIDATE)
        ask_promise(pair, out);
    else if (!pair->writing_state && !pair->cutting)
        fence(pair, 0, out);
}

/* A node that leads by an assertion serves alone, and writes that to its hard state first. */
void operator_assert(struct pair *pair, enum pair_word word, struct pair_effects *out) {
    if (!WEAK(alone_unnoted)) pair->hard_state.alone = true;
    fence(pair, word, out);
}

void operator_fenced(struct pair *pair, struct pair_effects *out) {
    if (pair->word != 0)
        leading_begin(pair, out);
    else
        ask_promise(pair, out);
}

static const char new_disk[] =
    "the other node's disk is not the one that this node was in sync with, and nobody leads before an operator says "
    "how it was: if the former one has not served alone since, 'tarry promote --peer-is-stopped' makes this node lead; "
    "else bring it back, or lose that with 'tarry promote --force'";
static const char new_disk_behind[] =
    "the other node's disk is not the one that this node followed, and this node was not in sync with that: bring it "
    "back, or lose what it had with 'tarry promote --force'";
static const char stranger[] =
    "the other node does not know this disk and promises it nothing: 'tarry status' there says what it waits for; or, "
    "if this node has what counts, 'tarry promote --peer-is-stopped' makes this one lead";
static const char stranger_behind[] =
    "the other node does not know this disk and promises it nothing, and this node is not known to have what counts: "
    "'tarry status' there says what it waits for";

/* A node that has served alone needs no promise, and has what counts. */
static bool is_unproved(const struct pair *pair, const struct pair_message *other) {
    return other->another && !pair->hard_state.alone && !WEAK(any_disk);
}

/* Both are quiet, and the answer is the same on either side: the node that may have served alone; else the one that
 * claimed last. */
static bool should_claim(const struct pair *pair, const struct pair_message *other) {
    if (pair->hard_state.alone || other->alone) return !other->alone;
    if (pair->wants || other->word == PAIR_PROMOTE) return pair->wants;
    return pair->hard_state.led > other->led || (pair->hard_state.led == other->led && pair->self == 0);
}

void operator_met(struct pair *pair, const struct pair_message *other, struct pair_effects *out) {
    if (other->floor > pair->heard) pair->heard = other->floor;
    if (is_unproved(pair, other))
        pair_say(pair->hard_state.in_sync ? new_disk : new_disk_behind, out);
    else if (other->stranger)
        pair_say(pair->hard_state.in_sync || pair->hard_state.alone ? stranger : stranger_behind, out);
    else if (should_claim(pair, other))
        operator_propose(pair, out);
    else if (pair->hard_state.alone && other->alone)
        pair_say("both nodes have served alone, or had a coordinator, and neither follows: start the one whose history "
                 "is given up with an empty directory and --follow",
                 out);
}

static void answer_hard_state(const struct pair *pair, const struct pair_message *question, struct pair_effects *out) {
    pair_push(out, PAIR_ANSWER)->message = (struct pair_message){
        .kind = PAIR_NOT_LEADING,
        .serial = question->serial,
        .floor = pair->hard_state.floor,
        .led = pair->hard_state.led,
        .alone = pair->hard_state.alone,
        .stranger = is_unproved(pair, question),
        .word = pair->wants ? PAIR_PROMOTE : 0,
    };
}

/* The proposal is answered by asking to follow it, once the promise is durable. */
static void consider_promise(struct pair *pair, const struct pair_message *proposal, struct pair_effects *out) {
    bool is_quiet = pair->role == PAIR_FOLLOWING || pair->role == PAIR_CANDIDATE;
    if (!is_quiet || pair->writing_state || pair->cutting || (pair->hard_state.alone && !WEAK(promise_alone))) return;
    if (is_unproved(pair, proposal)) return;
    if (proposal->epoch < pair->hard_state.floor ||
        (proposal->epoch == pair->hard_state.floor && pair->role == PAIR_CANDIDATE))
        return;
    bool is_new = proposal->epoch > pair->hard_state.floor;
    pair->role = PAIR_FOLLOWING;
    pair->epoch = 0;
    pair->seen = 0;
    pair->hard_state.floor = proposal->epoch;
    if (is_new)
        pair_write_state(pair, out);
    else
        following_ask(pair, out);
}

/* The other node promises, and has not served alone: this node has all that was ever acknowledged. */
static void become_leader(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    leading_begin(pair, out);
    if (!pair->hard_state.alone && !pair->hard_state.in_sync) {
        pair->hard_state.in_sync = true;
        pair_write_state(pair, out);
    }
    leading_asked(pair, event, out);
}

void operator_asked(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    const struct pair_message *question = &event->message;
    bool is_promise = question->floor == pair->epoch || (WEAK(any_promise) && question->floor > 0);
    bool is_proved = is_promise && !is_unproved(pair, question);
    if (pair->role == PAIR_CANDIDATE && question->kind == PAIR_FOLLOW && is_proved) {
        become_leader(pair, event, out);
        return;
    }
    answer_hard_state(pair, question, out);
    /* The answer to this node's newest question decides which node is to claim: what came may be old. */
    if (question->floor > pair->heard) pair->heard = question->floor;
    if (WEAK(any_promise) && pair->role == PAIR_FOLLOWING) operator_met(pair, question, out);
    if (question->kind == PAIR_PROPOSE)
        consider_promise(pair, question, out);
    else if (pair->role == PAIR_CANDIDATE && question->floor > pair->epoch)
        following_begin(pair, out); /* it can never promise this one */
}

void operator_answered(struct pair *pair, const struct pair_message *answer, struct pair_effects *out) {
    if (answer->serial != pair->serial || pair->writing_state) return;
    if (pair->role == PAIR_YIELDING) {
        pair_end(pair, "handed over: it starts again, to follow", out);
    } else if (pair->role == PAIR_CANDIDATE) {
        if (answer->floor > pair->heard) pair->heard = answer->floor;
        bool never = answer->alone || answer->floor > pair->epoch || answer->stranger || is_unproved(pair, answer);
        if (answer->kind != PAIR_NOT_LEADING || never) following_begin(pair, out); /* it leads, or never promises */
    }
}

/* ---- words */

static void told_to_lead(struct pair *pair, enum pair_word word, struct pair_effects *out) {
    bool is_quiet = pair->role == PAIR_FOLLOWING || (pair->by_operator && pair->role == PAIR_CANDIDATE);
    if (pair->role == PAIR_LOOKING) {
        pair_say("who leads is not known before the coordinator answers: nothing is promoted without its record", out);
    } else if (!is_quiet || pair->writing_state || pair->cutting) {
        pair_say("this node leads, or is on its way to: nothing to do, or try again", out);
    } else if (word == PAIR_PROMOTE) {
        pair->wants = true;
        if (pair->role == PAIR_FOLLOWING) following_ask(pair, out);
    } else if (!pair->by_operator) {
        pair->forcing = word == PAIR_FORCE;
        pair->forced_epoch = pair->record.epoch;
        pair->impatient = true; /* the record says which nodes are in sync */
        pair->heeds = false;
        pair_read(pair, out);
    } else if (word == PAIR_ASSERT && !pair->hard_state.in_sync && !pair->hard_state.alone && !WEAK(unasserted)) {
        pair_say("this node was not in sync when it last heard of it: it may lack what was acknowledged, and only "
                 "force makes it lead",
                 out);
    } else {
        operator_assert(pair, word, out);
    }
}

/* What it served alone may be cut from now on; what its index has of that is the driver's to throw away. */
static void told_to_yield(struct pair *pair, struct pair_effects *out) {
    if (!pair->by_operator || pair->role != PAIR_FOLLOWING || pair->writing_state || pair->cutting ||
        !pair->hard_state.alone) {
        pair_say("nothing to give up: only a quiet node that has served alone has", out);
        return;
    }
    pair->hard_state.alone = pair->hard_state.in_sync = false;
    pair->committed = 0;
    pair_write_state(pair, out);
}

void operator_told(struct pair *pair, enum pair_word word, struct pair_effects *out) {
    bool leads = pair->role == PAIR_LEADING;
    switch (word) {
    case PAIR_PROMOTE:
    case PAIR_ASSERT:
    case PAIR_FORCE:
        told_to_lead(pair, word, out);
        break;
    case PAIR_YIELD:
        told_to_yield(pair, out);
        break;
    case PAIR_SOLO:
    case PAIR_HAND_OVER:
    case PAIR_RESUME:
        if (!leads)
            pair_say("this node does not lead", out);
        else if (word == PAIR_SOLO)
            leading_solo(pair, out);
        else if (word == PAIR_HAND_OVER)
            handover_begin(pair, out);
        else
            handover_give_up(pair, out);
        break;
    }
}
