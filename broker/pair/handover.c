/* handover.c: the planned switch-over, on the leader's side.
 *
 *   command ──► STOPPING ── all writes have ended ──► HANDING ── the follower has the whole log ──► PAIR_TAKE_OVER
 *                  └──── the follower is silent, or PAIR_RESUME: the leader accepts writes again ◄──┘      │
 *                                                                                                          ▼
 *   with a coordinator: the follower claims, and the record tells this node    without: it proposes, this node promises
 *
 * Safety does not depend on the stop of the writes. The leader waits for the follower until the follower has fenced
 * this epoch, and a follower that has fenced confirms nothing more. So the leader may accept writes again at any time
 * before it has promised the follower's epoch, and loses nothing. */
#include "pair_parts.h"

void handover_begin(struct pair *pair, struct pair_effects *out) {
    bool has_follower = pair->is_async ? pair->acked > 0 : pair->counted && leading_has_member(pair);
    if (pair->handing != PAIR_KEEPING || pair->change != PAIR_NO_CHANGE) {
        pair_say("this node is already handing over, or is changing its follower's state: try again in a second", out);
    } else if (!has_follower) {
        pair_say("no follower is in sync, so this node cannot hand over: start the other node, and wait until 'tarry "
                 "status' says that it is in sync",
                 out);
    } else {
        pair->handing = PAIR_STOPPING;
        pair_push(out, PAIR_STOP_WRITES);
    }
}

void handover_stopped(struct pair *pair, uint64_t end, struct pair_effects *out) {
    if (pair->role != PAIR_LEADING || pair->handing != PAIR_STOPPING) return;
    pair->handing = PAIR_HANDING;
    pair->stop = end;
    pair->counted = true; /* the leader waits for the follower until the follower leads or writes resume, also in
                             asynchronous mode */
    leading_advance(pair, out);
}

bool handover_is_ready(const struct pair *pair) {
    bool is_written = pair->handing == PAIR_HANDING && pair->durable >= pair->stop;
    bool has_all = pair->acked >= pair->stop;
    bool is_member = leading_has_member(pair) && pair->change == PAIR_NO_CHANGE;
    return is_written && has_all && pair->counted && is_member;
}

/* Promises the proposed epoch. From now on this node acknowledges nothing. When the promise is durable, this node sends
 * it in a question. */
void handover_yield(struct pair *pair, const struct pair_message *proposal, struct pair_effects *out) {
    pair->role = PAIR_YIELDING;
    pair->hard_state.floor = proposal->epoch;
    pair_write_state(pair, out);
}

void handover_give_up(struct pair *pair, struct pair_effects *out) {
    if (pair->handing == PAIR_KEEPING) {
        pair_say("this node is not handing over", out);
        return;
    }
    pair->handing = PAIR_KEEPING;
    pair_push(out, PAIR_TAKE_WRITES);
    leading_advance(pair, out); /* in asynchronous mode the leader no longer waits for the follower */
}
