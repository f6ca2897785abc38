/* leader.h: what the pair thread does while its node leads: answers the follower's questions, and lets out what is
 * committed and confirmed (R3).
 *
 * A question waits until there are frames for it, or another is committed, or somebody waits for a confirmation, or its
 * time is over; it acknowledges at once. The rules are asked again when it is answered, so that the answer's stamp is
 * younger than whatever came meanwhile: to them that is the same question, come twice. */
#ifndef TARRY_SHELL_PAIR_LEADER_H
#define TARRY_SHELL_PAIR_LEADER_H

#include "node.h"

void leader_init(struct node *node);
/* The rules say: lead. The core is told, applies the rest of the log, and begins. */
void leader_begin(struct node *node);
/* It has. */
void leader_began(struct node *node);
/* What the sync thread has posted. */
void leader_take(struct node *node, const struct node_news *news);
/* Questions about the log (a list), to be passed on once the follower has confirmed. */
void leader_take_audits(struct node *node, struct item *audits);
/* Somebody asks, whatever this node is. Takes the call over. */
void leader_question(struct node *node, struct call *call);
/* The question that waits is not to be answered as if it were new. */
void leader_forget_question(struct node *node);
/* Publishes what is committed, answers a question that need not wait any more, lets batches out. */
void leader_go_on(struct node *node);
uint64_t leader_timer(const struct node *node); /* MONOTONIC */
/* Since when (MONOTONIC; UINT64_MAX: never) a follower that counts has stored nothing for as long as a silent one is
 * waited for, while somebody waits for it (F-28): its disk is full, or it starts again and again. It is given up as if
 * it were silent, and does not count before it has stored more. */
uint64_t leader_stuck_ns(const struct node *node);
void leader_give_up(struct node *node);
/* This node stood still, and has not heard of what the follower stored meanwhile: its time begins anew. */
void leader_overslept(struct node *node);
/* The process stops: who waits is told that the outcome is unknown. */
void leader_stop(struct node *node);

#endif
