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
    pair->asserting = 0;
    pair->role = PAIR_FENCING;
    pair->word = word;
    pair->epoch = next_epoch(pair);
    pair->hard_state.led = pair->hard_state.floor = pair->epoch;
    pair_write_state(pair, out);
    if (WEAK(unfenced)) candidacy_fenced(pair, out);
}

struct pair_message operator_proposal(const struct pair *pair) {
    return (struct pair_message){
        .kind = PAIR_PROPOSE,
        .epoch = pair->epoch,
        .floor = pair->hard_state.floor,
        .serial = pair->serial,
        .led = pair->hard_state.led,
        .alone = pair->hard_state.alone,
    };
}

static void ask_promise(struct pair *pair, struct pair_effects *out) {
    pair->serial++;
    pair_push(out, PAIR_ASK)->message = operator_proposal(pair);
}

/* An operator may have made the other node lead while this one was paused or cut off, and then neither would ask: each
 * would wait for its follower. The proposal tells the other this node's epoch, and its answer tells the other's. */
void operator_claim(struct pair *pair, struct pair_effects *out) {
    if (!WEAK(claim_unasked)) following_remind(pair, out);
}

/* If this node has not served alone, the other has all that was acknowledged, and may have more: this node follows. If
 * both have, neither can follow, and one of two leaders must stop: a proposal is a leader's or a candidate's. A quiet
 * node that has served alone stops no leader that has, too: nobody would lead then. */
bool operator_is_deposed(const struct pair *pair, const struct pair_message *other) {
    bool both_alone = other->alone && pair->hard_state.alone;
    if (WEAK(alone_unheard) && other->alone) return false;
    return !both_alone || other->kind == PAIR_PROPOSE;
}

void operator_propose(struct pair *pair, struct pair_effects *out) {
    if (pair->role == PAIR_CANDIDATE && pair->asserting != 0) return; /* its question has its time to be answered */
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

static const char new_disk[] = "the other node's disk is not the one that this node was in sync with: that disk may "
                               "have acknowledged what no other "
                               "has, so no node leads. If it has not served alone since, 'tarry promote "
                               "--peer-is-stopped' here makes this node the "
                               "leader, and nothing is lost; else bring that disk back, or lose what only it has with "
                               "'tarry promote --force' here";
static const char new_disk_behind[] =
    "the other node's disk is not the one that this node followed, and this node was not in sync with that one: it may "
    "lack what was acknowledged, so no node leads. Bring that disk back, or lose what only it has with 'tarry promote "
    "--force' here";
static const char stranger[] =
    "the other node does not know this disk and does not follow it. 'tarry status' there says what that node waits "
    "for; "
    "if this node has the newest data, 'tarry promote --peer-is-stopped' here makes this node the leader";
static const char stranger_behind[] =
    "the other node does not know this disk and does not follow it, and this node may lack what was acknowledged. "
    "'tarry status' at the other node says what that node waits for";

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
        pair_say(
            "both nodes have served alone, or had a coordinator: each may have acknowledged what the other lacks, so "
            "neither leads or follows. Choose the node whose data are kept; stop the other one, move its data "
            "directory to another place, and start it with an empty directory and --follow",
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
    if (pair->asserting != 0) operator_refuse(pair, proposal->epoch, out);
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
        if (pair->asserting != 0 && answer->kind != PAIR_NOT_LEADING) {
            operator_refuse(pair, answer->epoch, out);
        } else if (pair->asserting != 0) {
            operator_go_on(pair, answer, out);
            return;
        }
        bool never = answer->alone || answer->floor > pair->epoch || answer->stranger || is_unproved(pair, answer);
        if (answer->kind != PAIR_NOT_LEADING || never) following_begin(pair, out); /* it leads, or never promises */
    }
}

/* ---- words */

/* After "the other node leads epoch N: ". */
static const char refused[] =
    "it answers, so it is not stopped, and two primaries would acknowledge what the other lacks. Nothing was changed. "
    "'tarry status' says what each node needs; 'tarry promote' without --peer-is-stopped or --force switches over and "
    "loses nothing";
static const char refused_new_disk[] = "the other node answers, and leads without this node's disk: it is not stopped. "
                                       "Nothing was changed. 'tarry promote "
                                       "--peer-is-stopped' at the other node lets this disk in";

void operator_refuse(struct pair *pair, uint32_t epoch, struct pair_effects *out) {
    pair->asserting = 0;
    pair_say_epoch(epoch != 0 ? refused : refused_new_disk, epoch, out);
}

static const char has_served_alone[] =
    "the other node answers, and says that it has served alone: it may have acknowledged what this node lacks. Nothing "
    "was changed. If that may be lost, stop the other node and use 'tarry promote --force' here";

void operator_go_on(struct pair *pair, const struct pair_message *other, struct pair_effects *out) {
    enum pair_word word = pair->asserting;
    if (word == 0 || pair->writing_state || pair->cutting) return; /* afterwards */
    pair->asserting = 0;
    if (other != NULL && other->alone && word != PAIR_FORCE) {
        pair_say(has_served_alone, out);
        return;
    }
    if (word == PAIR_SOLO)
        leading_solo(pair, out);
    else
        operator_assert(pair, word, out);
}

/* The operator may not know that the other node leads: it is asked before this one serves alone. */
static void assert_after_asking(struct pair *pair, enum pair_word word, struct pair_effects *out) {
    if (pair->writing_state) {
        pair_say("this node is writing its state just now, and nothing was changed: try again", out);
        return;
    }
    pair->asserting = word;
    if (pair->role == PAIR_CANDIDATE)
        ask_promise(pair, out);
    else
        following_ask(pair, out);
}

static void told_to_lead(struct pair *pair, enum pair_word word, struct pair_effects *out) {
    bool is_quiet = pair->role == PAIR_FOLLOWING || (pair->by_operator && pair->role == PAIR_CANDIDATE);
    if (pair->role == PAIR_LOOKING) {
        pair_say(
            "the coordinator does not answer, and only its record says which node leads: nothing was changed. 'tarry "
            "status' says what is wrong with the coordinator",
            out);
    } else if (!is_quiet || pair->writing_state || pair->cutting) {
        pair_say("this node leads, or is becoming the leader: nothing was changed. 'tarry status' says which", out);
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
        pair_say("this node was not in sync when it last heard of the leader: it may lack what was acknowledged, and "
                 "nothing was changed. Start the other node; or lose what only that has with 'tarry promote --force'",
                 out);
    } else {
        assert_after_asking(pair, word, out);
    }
}

/* What it served alone may be cut from now on; what its index has of that is the driver's to throw away. */
static void told_to_yield(struct pair *pair, struct pair_effects *out) {
    if (!pair->by_operator || pair->role != PAIR_FOLLOWING || pair->writing_state || pair->cutting ||
        !pair->hard_state.alone) {
        pair_say("this node has nothing to give up: it leads, follows, or has not served alone", out);
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
            pair_say("this node does not lead, and nothing was changed: 'tarry status' says which node does", out);
        else if (word == PAIR_SOLO && pair->by_operator)
            assert_after_asking(pair, word, out);
        else if (word == PAIR_SOLO)
            leading_solo(pair, out);
        else if (word == PAIR_HAND_OVER)
            handover_begin(pair, out);
        else
            handover_give_up(pair, out);
        break;
    }
}
