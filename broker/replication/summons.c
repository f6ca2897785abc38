/* summons.c: see summons.h. */
#include "summons.h"

void summons_init(struct summons *summons, uint64_t run) {
    *summons = (struct summons){.number = run << 32};
}

void summons_end(struct summons *summons) {
    summons->asked_ns = summons->stands_ns = summons->answered_ns = 0;
}

/* Returns whether this node may send a question through the coordinator. A node that is not in sync cannot claim, so it
 * need not ask. Without a leader or a coordinator, no question can be sent. */
static bool may_ask(const struct pair *pair) {
    bool is_follower = pair->role == PAIR_FOLLOWING && !pair->by_operator;
    return is_follower && pair->version != 0 && pair_is_in_sync(pair);
}

void summons_ask(struct summons *summons, const struct pair *pair, uint64_t now_ns) {
    bool is_old = summons->answered_ns != 0 && now_ns >= summons->answered_ns + SUMMONS_WAIT_NS;
    if (!may_ask(pair) || (summons->asked_ns != 0 && !is_old)) return;
    summons_end(summons);
    summons->number++;
    summons->asked_ns = now_ns;
}

uint64_t summons_asks(const struct summons *summons, const struct pair *pair) {
    return summons->asked_ns != 0 && may_ask(pair) ? summons->number : 0;
}

void summons_stands(struct summons *summons, uint64_t since_ns) {
    if (summons->asked_ns == 0 || summons->stands_ns != 0) return;
    summons->stands_ns = since_ns > summons->asked_ns ? since_ns : summons->asked_ns;
}

void summons_reads(struct summons *summons, uint64_t now_ns) {
    summons->read_ns = now_ns;
}

/* Returns when the leader's time to answer ends. */
static uint64_t over_ns(const struct summons *summons) {
    uint64_t took_ns = summons->stands_ns - summons->asked_ns;
    return summons->stands_ns + (took_ns > SUMMONS_WAIT_NS ? took_ns : SUMMONS_WAIT_NS);
}

uint64_t summons_due_ns(const struct summons *summons) {
    bool is_open = summons->asked_ns != 0 && summons->stands_ns != 0 && summons->answered_ns == 0;
    return is_open ? over_ns(summons) : UINT64_MAX;
}

bool summons_is_present(struct summons *summons, bool is_there, uint64_t heard) {
    if (!is_there || summons->asked_ns == 0) return is_there;
    if (heard == summons->number) {
        if (summons->answered_ns == 0) summons->answered_ns = summons->read_ns;
        return true;
    }
    return summons->stands_ns == 0 || summons->read_ns < over_ns(summons);
}
