/* hard_state_rules.c: see hard_state_rules.h (R6, F-29, F-31b). */
#include "hard_state_rules.h"

#include <string.h>

void hard_state_begin(struct hard_state *hard_state, const struct hard_state_start *start) {
    if (start->is_new && start->last_epoch != 0) {
        hard_state->floor = start->joins ? start->last_epoch : start->last_epoch + 1;
        hard_state->alone = !start->joins;
    }
    /* A frame of an epoch in which this node took part proves that the coordinator had a record. The hard state may not
     * contain that epoch yet, so add it (F-31b). */
    bool took_part = !start->is_new && start->coordinated && start->last_epoch >= hard_state->floor;
    if (took_part && start->last_epoch > hard_state->recorded) hard_state->recorded = start->last_epoch;
    if (!start->joins && hard_state->floor < start->epoch_min) hard_state->floor = start->epoch_min;
    /* With a coordinator, the record says which node has served alone. The hard state says `alone` always, because it
     * must be safe if the record is lost. */
    if (start->coordinated) hard_state->alone = true;
    hard_state->runs++;
}

struct pair_hard_state hard_state_for_rules(const struct hard_state *hard_state) {
    return (struct pair_hard_state){.floor = hard_state->floor,
                                    .recorded = hard_state->recorded,
                                    .led = hard_state->led,
                                    .in_sync = hard_state->in_sync,
                                    .alone = hard_state->alone};
}

void hard_state_take(struct hard_state *hard_state, const struct pair *pair, const uint8_t leader[MEMBER_ID_SIZE],
                     const uint8_t *requester) {
    if (pair->adopts) memcpy(hard_state->peer, leader, MEMBER_ID_SIZE);
    if (requester != NULL && pair->role == PAIR_LEADING) memcpy(hard_state->peer, requester, MEMBER_ID_SIZE);
    hard_state->floor = pair->hard_state.floor;
    hard_state->recorded = pair->hard_state.recorded;
    hard_state->led = pair->hard_state.led;
    hard_state->in_sync = pair->hard_state.in_sync;
    hard_state->alone = pair->hard_state.alone;
}

bool hard_state_admit(struct hard_state *hard_state, const uint8_t requester[MEMBER_ID_SIZE]) {
    if (memcmp(hard_state->peer, requester, MEMBER_ID_SIZE) == 0) return false;
    memcpy(hard_state->peer, requester, MEMBER_ID_SIZE);
    return true;
}
