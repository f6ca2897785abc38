/* leading.c: decides when the leader may acknowledge (R3), and for which nodes it waits before it acknowledges (R4,
 * R5).
 *
 * The leader waits for the other node before it sends the compare-and-set that adds that node to the record. It stops
 * waiting only when a compare-and-set that removes the node has definitely succeeded. Waiting longer than necessary is
 * safe, but stopping too early could lose acknowledged commits. */
#include "pair_parts.h"

static uint8_t bit(uint8_t node) {
    return (uint8_t)(1u << node);
}

/* Returns whether the record says that the other node is in sync. Without a coordinator, returns whether the hard state
 * says that this node does not serve alone. */
bool leading_has_member(const struct pair *pair) {
    if (!pair->by_operator) return (pair->record.in_sync & bit(pair->other)) != 0;
    return !pair->hard_state.alone && pair->change != PAIR_ADD;
}

static bool is_idle(const struct pair *pair) {
    return pair->change == PAIR_NO_CHANGE && !pair->reading && !pair->writing_state;
}

/* Returns whether strict mode (`--solo-after never`) makes the leader wait for the other node, whatever the record
 * says. An operator's PAIR_SOLO suspends strict mode. */
static bool must_count(const struct pair *pair) {
    return !pair->by_operator && !pair->may_lead_alone && !pair->is_async && !pair->solo;
}

void leading_begin(struct pair *pair, struct pair_effects *out) {
    pair->role = PAIR_LEADING;
    pair->change = PAIR_NO_CHANGE;
    pair->solo = pair->wants = false;
    pair->asserting = 0;
    pair->counted = pair->by_operator ? leading_has_member(pair) : must_count(pair);
    pair->handing = PAIR_KEEPING;
    pair->begun = pair->durable;
    if (!pair->counted) pair->committed = pair->durable;
    pair->acked = 0;
    pair->stamp = 0;
    pair->seen = 0;
    pair_push(out, PAIR_LEAD);
}

static void change_state(struct pair *pair, enum pair_change change, struct pair_effects *out) {
    pair->change = change;
    pair->hard_state.alone = change == PAIR_REMOVE;
    if (change == PAIR_ADD) pair->hard_state.in_sync = true; /* the leader itself is always in sync */
    pair_write_state(pair, out);
}

static void change(struct pair *pair, enum pair_change change, struct pair_effects *out) {
    if (pair->by_operator) {
        change_state(pair, change, out);
        return;
    }
    struct pair_record record = pair->record;
    record.in_sync = change == PAIR_ADD ? bit(pair->self) | bit(pair->other) : bit(pair->self);
    if (pair->committed > record.high_water) record.high_water = pair->committed;
    pair_swap(pair, change, &record, out);
}

/* R5: returns whether the follower has all commits of this and of earlier epochs, and this leader therefore waits for
 * it. */
static bool has_all(const struct pair *pair) {
    return pair->acked >= pair->committed && pair->acked >= pair->begun;
}

static void forget_other(struct pair *pair, struct pair_effects *out) {
    pair->counted = must_count(pair);
    pair->acked = 0;
    leading_advance(pair, out);
}

void leading_advance(struct pair *pair, struct pair_effects *out) {
    uint64_t position = pair->durable;
    if (pair->counted && pair->acked < position) position = pair->acked;
    if (position > pair->committed) pair->committed = position;
    if (!pair->counted || !is_idle(pair)) return;
    bool is_wanted = !pair->is_async || pair->handing == PAIR_HANDING;
    bool is_member = leading_has_member(pair);
    if (is_wanted && !is_member && has_all(pair))
        change(pair, PAIR_ADD, out);
    else if (!is_wanted && is_member)
        change(pair, PAIR_REMOVE, out);
    else if (!is_wanted)
        forget_other(pair, out);
}

/* Counts the question of a follower whose log is a prefix of this node's and which has promised this epoch. */
static void count(struct pair *pair, const struct pair_event *event, struct pair_message *answer,
                  struct pair_effects *out) {
    const struct pair_message *question = &event->message;
    if (question->end > pair->acked) pair->acked = question->end;
    if (question->stamp > pair->seen) pair->seen = question->stamp;
    if (event->near && !pair->is_async) pair->counted = true;
    leading_advance(pair, out);
    if (question->word == PAIR_PROMOTE && pair->handing == PAIR_KEEPING && leading_has_member(pair) && is_idle(pair))
        handover_begin(pair, out);
    answer->stamp = ++pair->stamp;
    answer->committed = pair->committed;
    answer->in_sync = pair_is_in_sync(pair);
    if (handover_is_ready(pair)) answer->kind = PAIR_TAKE_OVER;
}

static void proposed(struct pair *pair, const struct pair_message *question, struct pair_effects *out) {
    pair_push(out, PAIR_ANSWER)->message = (struct pair_message){.kind = PAIR_NOT_LEADING, .serial = question->serial};
    handover_yield(pair, question, out);
}

static bool has_promised(const struct pair *pair, const struct pair_message *question) {
    return question->floor == pair->epoch; /* a higher floor means that the other node now refuses this epoch */
}

static const char fenced[] =
    "the other node accepts only later epochs: this node stops acknowledging requests and restarts";
static const char overtaken[] =
    "the other node leads, or accepts only later epochs: this node stops acknowledging requests and restarts";

/* Without a coordinator: handles the answer to the PAIR_PROPOSE that a leader sends to a silent node. */
void leading_answered(struct pair *pair, const struct pair_message *answer, struct pair_effects *out) {
    if (answer->serial != pair->serial) return;
    struct pair_message other = *answer;
    if (answer->kind == PAIR_PROMISE) { /* this answer means that the other node leads answer->epoch */
        other.kind = PAIR_PROPOSE;
        other.floor = answer->epoch;
    }
    if (other.floor > pair->heard) pair->heard = other.floor;
    if (other.floor > pair->epoch && operator_is_deposed(pair, &other))
        pair_end(pair, overtaken, out);
    else
        operator_go_on(pair, answer, out);
}

void leading_asked(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    const struct pair_message *question = &event->message;
    struct pair_message answer = {.kind = PAIR_FRAMES, .epoch = pair->epoch, .serial = question->serial};
    bool is_fenced = question->floor > pair->epoch;
    /* A node that has served alone does not follow until an operator commands PAIR_YIELD. */
    bool never_follows = pair->by_operator && question->alone;
    bool is_deposed = pair->by_operator ? operator_is_deposed(pair, question) : is_fenced;
    /* The question comes from another disk, so the position that the former disk has stored is no longer valid. */
    if (question->another) pair->acked = 0;
    if (is_fenced && question->kind == PAIR_PROPOSE && handover_is_ready(pair) && !pair->writing_state) {
        proposed(pair, question, out);
        return;
    }
    if (is_fenced && is_deposed) { /* R7: the other node will never follow this epoch again */
        pair_end(pair, pair->by_operator ? overtaken : fenced, out);
        return;
    }
    if (question->kind == PAIR_PROPOSE || never_follows || !has_promised(pair, question)) {
        answer.kind = PAIR_PROMISE; /* R2: the other node's log counts only after the promise */
        answer.word = pair->word;
    } else if (!event->fits) {
        answer.kind = event->retired ? PAIR_RETIRED : PAIR_CUT_TO;
        answer.end = event->end;
    } else {
        count(pair, event, &answer, out);
    }
    pair_push(out, PAIR_ANSWER)->message = answer;
}

void leading_changed(struct pair *pair, struct pair_effects *out) {
    pair->change = PAIR_NO_CHANGE;
    /* A hand-over continues, although the changed record may lack the other node. In asynchronous mode leading_advance
     * then adds the other node again. */
    bool goes_on = pair->handing == PAIR_HANDING;
    if (leading_has_member(pair) || goes_on)
        leading_advance(pair, out);
    else
        forget_other(pair, out);
}

void leading_record(struct pair *pair, bool is_newer, struct pair_effects *out) {
    if (!pair_is_mine(pair)) {
        pair_end(pair, "another node leads", out);
    } else if (pair->change == PAIR_NO_CHANGE) {
        return;
    } else if (is_newer) { /* the compare-and-set that was under way has succeeded, or cannot succeed any more */
        leading_changed(pair, out);
    } else {
        /* R5: an unchanged record does not prove that the compare-and-set failed, so repeat it. */
        change(pair, pair->change, out);
    }
}

void leading_silent(struct pair *pair, struct pair_effects *out) {
    if (pair->handing != PAIR_KEEPING) handover_give_up(pair, out);
    if (pair->by_operator) operator_claim(pair, out);
    if (!pair->counted) return;
    bool is_member = leading_has_member(pair);
    if (is_idle(pair) && !is_member)
        forget_other(pair, out); /* the other node was never in sync according to the record */
    else if (pair->by_operator)
        return; /* without a coordinator, only an operator's command makes a node stop counting */
    else if (is_idle(pair) && pair->may_lead_alone)
        change(pair, PAIR_REMOVE, out); /* R4 */
    else
        pair_read(pair, out); /* read the record, because the other node may lead by now */
}

void leading_solo(struct pair *pair, struct pair_effects *out) {
    if (!is_idle(pair) || pair->handing != PAIR_KEEPING) {
        pair_say("this node is handing over, or is changing its follower's state: nothing was changed, try again in a "
                 "second",
                 out);
    } else if (pair->counted) {
        pair->solo = true;
        if (leading_has_member(pair))
            change(pair, PAIR_REMOVE, out);
        else
            forget_other(pair, out);
    } else {
        pair_say("this node already serves alone", out);
    }
}

uint64_t pair_committed(const struct pair *pair) {
    return pair->role == PAIR_LEADING ? pair->committed : 0;
}

uint64_t pair_question(const struct pair *pair) {
    return pair->counted ? pair->stamp + 1 : 0;
}

/* Returns the newest answer number (`stamp`) that the follower has confirmed; UINT64_MAX if the leader does not wait
 * for the follower. Assume that an answer was sent after a client's request arrived, and the follower has confirmed it.
 * Then the follower had not yet fenced this epoch when the request arrived. So this node was the only leader at that
 * time. */
uint64_t pair_confirmed(const struct pair *pair) {
    return pair->counted ? pair->seen : UINT64_MAX;
}

bool pair_may_answer(const struct pair *pair, uint64_t question) {
    return pair->role == PAIR_LEADING && pair_confirmed(pair) >= question;
}

bool pair_takes_writes(const struct pair *pair) {
    return pair->role == PAIR_LEADING && pair->handing == PAIR_KEEPING;
}
