/* candidacy.c: the way to lead (R6): in sync, no shorter than the high water, fenced, and then the compare-and-set.
 *
 * The fence comes first: once it is durable the old leader gains no acknowledgement from this node any more, so
 * whatever it acknowledges later needs a record without this node, and only one of two compare-and-sets of a version is
 * done. Without a coordinator operator.c fences and claims. */
#include "pair_parts.h"

static void fence(struct pair *pair, struct pair_effects *out) {
    uint32_t epoch = pair->version == 0 ? 1 : pair->record.epoch + 1;
    pair->role = PAIR_FENCING;
    pair->epoch = epoch > pair->hard_state.floor ? epoch : pair->hard_state.floor;
    if (WEAK(any_run) && pair->version != 0 && pair->record.leader == pair->self) {
        pair->epoch = pair->record.epoch;
        leading_begin(pair, out);
        return;
    }
    if (WEAK(unfenced)) {
        candidacy_fenced(pair, out);
        return;
    }
    pair->hard_state.floor = pair->epoch;
    if (!pair->writing_state) pair_write_state(pair, out); /* else it goes with the record's epoch, in this very step */
}

void candidacy_begin(struct pair *pair, struct pair_effects *out) {
    pair->word = 0;
    if (pair->version != 0 && pair->durable < pair->record.high_water)
        pair_end(pair, "the log is shorter than what the pair has acknowledged: it was cut or restored (F-9)", out);
    else
        fence(pair, out);
}

void candidacy_by_force(struct pair *pair, struct pair_effects *out) {
    pair->word = PAIR_FORCE;
    fence(pair, out);
}

/* Sent again with an unknown outcome it is the same claim: one of them is done at most. */
static void send(struct pair *pair, struct pair_effects *out) {
    struct pair_record record = {
        .epoch = pair->epoch,
        .leader = pair->self,
        .in_sync = (uint8_t)(1u << pair->self),
        .run = pair->run,
        .start = pair->durable,
        .high_water = pair->durable,
    };
    pair_swap(pair, PAIR_CLAIM, &record, out);
}

void candidacy_fenced(struct pair *pair, struct pair_effects *out) {
    pair->role = PAIR_CANDIDATE;
    if (pair->by_operator)
        operator_fenced(pair, out);
    else
        send(pair, out);
}

void candidacy_record(struct pair *pair, bool is_newer, struct pair_effects *out) {
    if (pair_is_mine(pair)) {
        pair_claimed(pair, out);
    } else if (is_newer) { /* the other node was faster, and the claim can never be done any more */
        pair->change = PAIR_NO_CHANGE;
        pair_consider(pair, out);
    } else {
        send(pair, out);
    }
}
