/* candidacy.c: how a node becomes the leader (R6). The node must be in sync, and its log must reach the record's
 * `high_water`. The node first makes its fence durable: it will refuse the old leader's epoch. Then it claims by a
 * compare-and-set of the record.
 *
 * The fence comes before the claim. Once the fence is durable, this node acknowledges nothing more to the old leader.
 * To acknowledge anything later, the old leader must first change the record to one without this node. Of two
 * compare-and-sets on the same version only one succeeds.
 *
 * Without a coordinator, operator.c fences and claims. */
#include "pair_parts.h"

static void fence(struct pair *pair, struct pair_effects *out) {
    uint32_t epoch = pair->version == 0 ? 1 : pair->record.epoch + 1;
    pair->role = PAIR_FENCING;
    pair->epoch = epoch > pair->hard_state.floor ? epoch : pair->hard_state.floor;
    pair->hard_state.floor = pair->epoch;
    if (!pair->writing_state)
        pair_write_state(pair, out); /* a write that this step has already requested will include the fence */
}

void candidacy_begin(struct pair *pair, struct pair_effects *out) {
    pair->word = 0;
    if (pair->version != 0 && pair->durable < pair->record.high_water)
        pair_end(pair, "the log is shorter than what the pair has acknowledged: somebody cut or restored it (F-9)",
                 out);
    else
        fence(pair, out);
}

void candidacy_by_force(struct pair *pair, struct pair_effects *out) {
    pair->word = PAIR_FORCE;
    fence(pair, out);
}

/* Sends the claim. A claim whose outcome is unknown may be sent again: at most one of the two succeeds. */
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
    } else if (is_newer) { /* the other node's claim has succeeded, so this node's claim cannot succeed any more */
        pair->change = PAIR_NO_CHANGE;
        pair_consider(pair, out);
    } else {
        send(pair, out);
    }
}
