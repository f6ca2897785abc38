/* following.c: copying the leader's log (R2, R7, R8), and what to do when it falls silent (R6).
 *
 * Only the answer to the newest question counts: an older one may have been overtaken by what was acknowledged since.
 */
#include "roles.h"

void following_begin(struct pair *pair, struct pair_effects *out) {
    pair->role = PAIR_FOLLOWING;
    pair->epoch = 0;
    pair->seen = 0;
    pair->impatient = false;
    following_ask(pair, out);
}

void following_ask(struct pair *pair, struct pair_effects *out) {
    if (pair->noting || pair->cutting) return; /* afterwards */
    pair->serial++;
    pair_push(out, PAIR_ASK)->message = (struct pair_message){
        .kind = PAIR_FOLLOW,
        .floor = pair->note.floor,
        .serial = pair->serial,
        .end = pair->durable,
        .stamp = pair->epoch == pair->note.floor ? pair->seen : 0,
    };
}

static bool is_news(const struct pair *pair, const struct pair_message *answer) {
    return pair->role == PAIR_FOLLOWING && (answer->serial == pair->serial || WEAK(stale_greeting)) && !pair->noting &&
           !pair->cutting;
}

bool pair_takes(const struct pair *pair, const struct pair_message *answer) {
    return is_news(pair, answer) && answer->kind == PAIR_FRAMES &&
           (answer->epoch == pair->note.floor || WEAK(any_epoch));
}

static void promise(struct pair *pair, uint32_t epoch, struct pair_effects *out) {
    if (epoch <= pair->note.floor && !WEAK(fence_forgotten)) return; /* R7: never below what was promised or fenced */
    pair->note.floor = epoch;
    pair->noting = true;
    pair_push(out, PAIR_NOTE);
}

void following_durable(struct pair *pair, struct pair_effects *out) {
    if (!pair->cutting) return; /* the next question tells */
    pair->cutting = false;
    following_ask(pair, out);
}

static void following_cut(struct pair *pair, uint64_t end, struct pair_effects *out) {
    pair->cutting = true;
    pair_push(out, PAIR_CUT)->end = end;
}

void following_answered(struct pair *pair, const struct pair_message *answer, struct pair_effects *out) {
    if (!is_news(pair, answer)) return;
    pair->impatient = false;
    if (answer->kind == PAIR_PROMISE) {
        promise(pair, answer->epoch, out);
        return;
    }
    if (answer->epoch != pair->note.floor && !WEAK(any_epoch)) return;
    if (answer->kind == PAIR_FRAMES) {
        pair->epoch = answer->epoch;
        pair->seen = answer->stamp;
        uint64_t committed = answer->committed < pair->durable ? answer->committed : pair->durable;
        if (committed > pair->committed) pair->committed = committed;
        following_ask(pair, out);
    } else if (answer->kind == PAIR_CUT_TO) {
        if (answer->end < pair->committed)
            pair_end(pair, "the leader lacks what this node knows to be committed: it was cut or restored", out);
        else
            following_cut(pair, answer->end, out);
    }
}

void following_record(struct pair *pair, struct pair_effects *out) {
    bool is_impatient = pair->impatient;
    pair->impatient = false;
    if (pair->version == 0) return;
    if (pair->record.leader == pair->self)
        pair_consider(pair, out); /* a claim of an earlier run was done after all */
    else if (is_impatient && !pair->noting && !pair->cutting &&
             ((pair->record.in_sync & 1u << pair->self) != 0 || WEAK(not_in_sync)) &&
             pair->durable >= pair->record.high_water)
        claim_begin(pair, out);
    else
        following_ask(pair, out);
}

void following_silent(struct pair *pair, struct pair_effects *out) {
    pair->impatient = true;
    pair_read(pair, out);
    following_ask(pair, out);
}
