/* node_leader.h: what the pair thread does while its node leads: answers the follower's questions, and lets out what is
 * committed and confirmed (R3).
 * What is decided is leader_half.h's and admission.h's (broker/replication); this is done here with threads, log and
 * calls. */
#ifndef TARRY_SHELL_PAIR_NODE_LEADER_H
#define TARRY_SHELL_PAIR_NODE_LEADER_H

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
/* A follower that counts, asks, and stores nothing is given up as if it were silent (F-28). */
void leader_give_up(struct node *node);
/* The process stops: who waits is told that the outcome is unknown. */
void leader_stop(struct node *node);

#endif
