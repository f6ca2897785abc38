/* alone.c: see alone.h. */
#include "alone.h"

void alone_because(struct alone *alone, Tarry__AlonePut__Why why) {
    if (!alone->is) alone->next = why;
}

/* Returns whether this node will not serve alone after all: as the leader it still waits for the follower, or it is no
 * leader. */
static bool came_to_nothing(const struct pair *pair) {
    if (pair->role == PAIR_LEADING) return pair->counted && pair->change != PAIR_REMOVE;
    return pair->role == PAIR_LOOKING || pair->role == PAIR_FOLLOWING;
}

static void begin(struct alone *alone, const struct pair *pair, bool is_new_epoch, uint64_t now_ns) {
    alone->is = true;
    alone->since_ns = now_ns;
    alone->position = pair->committed;
    alone->why = alone->next;
    if (alone->why != TARRY__ALONE_PUT__WHY__NOT_SAID) return;
    alone->why = is_new_epoch ? TARRY__ALONE_PUT__WHY__PROMOTED : TARRY__ALONE_PUT__WHY__SILENT;
}

bool alone_look(struct alone *alone, const struct pair *pair, uint64_t now_ns) {
    bool was_alone = alone->is, is_new_epoch = !alone->leads;
    alone->leads = pair->role == PAIR_LEADING;
    if (!was_alone && alone->leads && !pair->counted && !pair->is_async) begin(alone, pair, is_new_epoch, now_ns);
    if (was_alone && (!alone->leads || pair_is_in_sync(pair))) alone->is = false;
    if (alone->is || came_to_nothing(pair)) alone->next = TARRY__ALONE_PUT__WHY__NOT_SAID;
    return alone->is != was_alone;
}
