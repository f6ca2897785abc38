/* hard_state_rules.h: changes the hard state of a node (hard_state.h, DIR/pair): at the start of a run, at
 * PAIR_WRITE_STATE, and when a follower's disk is admitted (F-29).
 *
 * The caller makes each change durable before the node acts on it. Pure. */
#ifndef TARRY_REPLICATION_HARD_STATE_RULES_H
#define TARRY_REPLICATION_HARD_STATE_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "hard_state.h"
#include "pair.h"

/* Circumstances of a start. */
struct hard_state_start {
    bool is_new; /* the directory was never part of a pair; `hard_state` has only the node number and, after a join, the
                    id of the other node's disk */
    bool joins;  /* true: this process was started with --follow */
    bool coordinated;    /* true: the pair has a coordinator */
    uint32_t last_epoch; /* epoch of the log's last frame; 0: the log has none */
    uint32_t epoch_min;  /* lowest epoch in which this disk may lead after a restore; 0: no limit */
};

/* Begins a run: gives it a new number (R6), and raises the floor above the epochs in which this disk must not take
 * part. */
void hard_state_begin(struct hard_state *hard_state, const struct hard_state_start *start);
/* Returns the part of the hard state that pair_start takes. */
struct pair_hard_state hard_state_for_rules(const struct hard_state *hard_state);
/* Copies pair->hard_state for PAIR_WRITE_STATE. Notes in `peer` which disk of the other node this node relies on
 * (F-29). A node that promises notes `leader`, the disk that answered last. A node that leads notes `requester`, the
 * disk whose question is being answered; NULL: none. */
void hard_state_take(struct hard_state *hard_state, const struct pair *pair, const uint8_t leader[MEMBER_ID_SIZE],
                     const uint8_t *requester);
/* Notes the requester's disk. The rules may make the leader wait for this disk in their next step, and a later run must
 * know the disk. Returns true if the hard state has changed. */
bool hard_state_admit(struct hard_state *hard_state, const uint8_t requester[MEMBER_ID_SIZE]);

#endif
