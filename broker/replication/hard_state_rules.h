/* hard_state_rules.h: what one of a pair must not forget (hard_state.h, DIR/pair), as the rules of a pair change
 * it: at the start of a run, when they say so (PAIR_WRITE_STATE), and when a follower's disk is admitted (F-29).
 *
 * Whatever changes a hard state here is durable before anything rests on it: the caller writes it. Pure. */
#ifndef TARRY_REPLICATION_HARD_STATE_RULES_H
#define TARRY_REPLICATION_HARD_STATE_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "hard_state.h"
#include "pair.h"

/* What a start finds, and how it was asked for. */
struct hard_state_start {
    bool is_new;      /* the directory was never one of a pair: `hard_state` has the node, and the one that it joined */
    bool joins;       /* it follows (--follow) */
    bool coordinated; /* there is a coordinator */
    uint32_t last_epoch; /* of the log's last frame; 0: it has none */
    uint32_t epoch_min;  /* no epoch below this is ever led on this disk (a restored copy's gap); 0: none */
};

/* A run begins: it has a number that no other run has (R6), and takes part in nothing that was given up. */
void hard_state_begin(struct hard_state *hard_state, const struct hard_state_start *start);
/* … as the rules start with it. */
struct pair_hard_state hard_state_for_rules(const struct hard_state *hard_state);
/* PAIR_WRITE_STATE: what the rules want noted. `leader`: the disk that answered last; `requester`: the one whose
 * question is just being looked at, or NULL. Which of the two is the pair's other disk goes with the promise to it, or
 * with the reign that its promise makes (F-29). */
void hard_state_take(struct hard_state *hard_state, const struct pair *pair, const uint8_t leader[MEMBER_ID_SIZE],
                     const uint8_t *requester);
/* The rules may count the requester's disk with their next step, and a later run must know which. True: the hard state
 * has changed. */
bool hard_state_admit(struct hard_state *hard_state, const uint8_t requester[MEMBER_ID_SIZE]);

#endif
