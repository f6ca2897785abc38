/* hard_state.c: see hard_state.h (R6, F-29, F-31b). */
#include "hard_state.h"

#include <string.h>

void hard_state_begin(struct note *note, const struct hard_state_start *start) {
    if (start->is_new && start->last_epoch != 0) {
        note->floor = start->joins ? start->last_epoch : start->last_epoch + 1;
        note->alone = !start->joins;
    }
    /* A frame of an epoch in which it has taken part proves that there was a record, should the note not say so
     * (F-31b). */
    bool took_part = !start->is_new && start->coordinated && start->last_epoch >= note->floor;
    if (took_part && start->last_epoch > note->recorded) note->recorded = start->last_epoch;
    if (!start->joins && note->floor < start->epoch_min) note->floor = start->epoch_min;
    /* The record knows who has served alone. Should there be none one day, nobody does. */
    if (start->coordinated) note->alone = true;
    note->runs++;
}

struct pair_note hard_state_rules(const struct note *note) {
    return (struct pair_note){.floor = note->floor,
                              .recorded = note->recorded,
                              .led = note->led,
                              .in_sync = note->in_sync,
                              .alone = note->alone};
}

void hard_state_take(struct note *note, const struct pair *pair, const uint8_t leader[MEMBER_ID_SIZE],
                     const uint8_t *requester) {
    if (pair->adopts) memcpy(note->peer, leader, MEMBER_ID_SIZE);
    if (requester != NULL && pair->role == PAIR_LEADING) memcpy(note->peer, requester, MEMBER_ID_SIZE);
    note->floor = pair->note.floor;
    note->recorded = pair->note.recorded;
    note->led = pair->note.led;
    note->in_sync = pair->note.in_sync;
    note->alone = pair->note.alone;
}

bool hard_state_admit(struct note *note, const uint8_t requester[MEMBER_ID_SIZE]) {
    if (memcmp(note->peer, requester, MEMBER_ID_SIZE) == 0) return false;
    memcpy(note->peer, requester, MEMBER_ID_SIZE);
    return true;
}
