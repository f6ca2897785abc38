/* leading.c: when may the leader acknowledge (R3), and who counts (R4, R5).
 *
 * The other counts from before the compare-and-set that adds it is sent until one that removes it is definitely done:
 * to wait for somebody who need not be waited for is safe, the opposite is not. */
#include "roles.h"

static uint8_t bit(uint8_t node) {
    return (uint8_t)(1u << node);
}

static bool is_member(const struct pair *pair) {
    return (pair->record.in_sync & bit(pair->other)) != 0;
}

void leading_begin(struct pair *pair, struct pair_effects *out) {
    pair->role = PAIR_LEADING;
    pair->change = PAIR_NO_CHANGE;
    pair->committed = pair->durable;
    pair->counted = false;
    pair->acked = 0;
    pair->stamp = 0;
    pair->seen = 0;
    pair_push(out, PAIR_LEAD);
}

static void change(struct pair *pair, enum pair_change change, struct pair_effects *out) {
    struct pair_record record = pair->record;
    record.in_sync = change == PAIR_ADD ? bit(pair->self) | bit(pair->other) : bit(pair->self);
    record.high_water = pair->committed;
    if (WEAK(grow_late) && change == PAIR_ADD) pair->counted = false;
    if (WEAK(shrink_early) && change == PAIR_REMOVE) pair->counted = false;
    pair_swap(pair, change, &record, out);
}

void leading_advance(struct pair *pair, struct pair_effects *out) {
    uint64_t position = pair->durable;
    if (pair->counted && pair->acked < position && !WEAK(alone)) position = pair->acked;
    if (position > pair->committed) pair->committed = position;
    /* R5: it has all that was treated as committed, and goes on being waited for. */
    bool is_idle = pair->change == PAIR_NO_CHANGE && !pair->reading;
    bool has_all = pair->acked >= pair->committed || (WEAK(grow_early) && pair->acked > 0);
    if (pair->counted && !is_member(pair) && is_idle && has_all) change(pair, PAIR_ADD, out);
}

static void forget_other(struct pair *pair, struct pair_effects *out) {
    pair->counted = false;
    pair->acked = 0;
    leading_advance(pair, out);
}

void leading_asked(struct pair *pair, const struct pair_event *event, struct pair_effects *out) {
    const struct pair_message *question = &event->message;
    struct pair_message answer = {.kind = PAIR_FRAMES, .epoch = pair->epoch, .serial = question->serial};
    if (question->floor > pair->epoch && !WEAK(fence_unheard)) { /* R7: it will never follow this epoch again */
        pair_end(pair, "the follower has fenced this epoch: this node starts again, and claims the next", out);
        return;
    }
    if (question->floor < pair->epoch && !WEAK(unpromised)) {
        answer.kind = PAIR_PROMISE; /* R2: it counts for nothing before */
    } else if (!event->fits && !WEAK(unfit)) {
        answer.kind = PAIR_CUT_TO;
        answer.end = event->end;
    } else {
        if (question->end > pair->acked) pair->acked = question->end;
        if (question->stamp > pair->seen) pair->seen = question->stamp;
        if (event->near) pair->counted = true;
        leading_advance(pair, out);
        answer.stamp = ++pair->stamp;
        answer.committed = pair->committed;
    }
    pair_push(out, PAIR_ANSWER)->message = answer;
}

void leading_changed(struct pair *pair, struct pair_effects *out) {
    pair->change = PAIR_NO_CHANGE;
    if (WEAK(grow_late) || WEAK(shrink_early)) pair->counted = is_member(pair);
    if (is_member(pair))
        leading_advance(pair, out);
    else
        forget_other(pair, out);
}

void leading_record(struct pair *pair, bool is_newer, struct pair_effects *out) {
    if (!pair_is_mine(pair)) {
        pair_end(pair, "another node leads", out);
    } else if (pair->change == PAIR_NO_CHANGE) {
        return;
    } else if (is_newer || WEAK(unchanged_proves)) { /* whatever was asked for is done, or can never be done any more */
        leading_changed(pair, out);
    } else {
        change(pair, pair->change, out); /* R5: an unchanged record proves nothing */
    }
}

void leading_silent(struct pair *pair, struct pair_effects *out) {
    if (!pair->counted) return;
    if (pair->change != PAIR_NO_CHANGE)
        pair_read(pair, out);
    else if (!is_member(pair))
        forget_other(pair, out); /* nobody was told that it would count */
    else if (pair->may_lead_alone && !pair->reading)
        change(pair, PAIR_REMOVE, out); /* R4 */
    else
        pair_read(pair, out); /* it may lead by now */
}

uint64_t pair_committed(const struct pair *pair) {
    return pair->role == PAIR_LEADING ? pair->committed : 0;
}

uint64_t pair_question(const struct pair *pair) {
    return pair->counted && !WEAK(stale_answer) ? pair->stamp + 1 : 0;
}

/* The confirmation of an answer that was sent after the question arrived was sent by a node that had not fenced: until
 * then nobody else led. */
bool pair_may_answer(const struct pair *pair, uint64_t question) {
    return pair->role == PAIR_LEADING && (!pair->counted || pair->seen >= question);
}
