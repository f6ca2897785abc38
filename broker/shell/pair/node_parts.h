/* node_parts.h: what the files of the pair thread (node*.c) call of each other. Private to them. */
#ifndef TARRY_SHELL_PAIR_NODE_PARTS_H
#define TARRY_SHELL_PAIR_NODE_PARTS_H

#include "node.h"

/* ---- node_follower.c: what the pair thread does while its node follows: asks, appends and syncs what comes, and has
 * the core apply what is committed.
 *
 * A follower is a recovery that does not end: log, then index up to what is known committed (LOG-3), then core. The
 * leader's logical time comes with every answer, so that delays go on from there if this node leads (TIME-1). */

void follower_init(struct node *node);
/* The rules ask. */
void follower_ask(struct node *node, const struct pair_message *question);
/* The process is to stop: asks for the last time, and says so. False: no leader is followed, nothing is said. */
bool follower_leave(struct node *node);
/* Asks whether the leader is there, beside the question that is under way. */
void follower_probe(struct node *node);
/* Which epoch does the node lead that answered the probe, and proved that it has the peer key? 0: none. */
uint32_t follower_probed(struct node *node, struct message *answer);
/* NULL: no answer came. Takes it over. */
void follower_answered(struct node *node, struct message *answer);
/* Puts aside what lies behind `end`, and cuts it off (R8). False: not now, follower_check tries again. */
bool follower_cut(struct node *node, uint64_t end);
/* What is here is of no use any more: puts aside what lies behind `end`; the next run begins with what the leader has.
 */
_Noreturn void follower_fetch(struct node *node, uint64_t end);
/* Asks once more if nothing came of the last question; cuts what could not be cut. */
void follower_check(struct node *node, uint64_t now_ns);
/* This node is to lead: asks no more, and sets its clock by what the leader's said last. */
void follower_end(struct node *node);

/* ---- node_leader.c: what the pair thread does while its node leads: answers the follower's questions, and lets out
 * what is committed and confirmed (R3). What is decided is leader_half.h's and admission.h's (broker/replication); this
 * is done here with threads, log and calls. */

void leader_init(struct node *node);
/* The rules say: lead. The core is told, applies the rest of the log, and begins. */
void leader_begin(struct node *node);
/* It has. */
void leader_began(struct node *node);
/* What the sync thread has posted. */
void leader_take(struct node *node, const struct node_news *news);
/* Questions about the log (a list), to be passed on once the follower has confirmed. */
void leader_take_audits(struct node *node, struct item *audits);
/* A follower asks, whatever this node is. Takes the call over. */
void leader_question(struct node *node, struct call *call);
/* The question that waits is not to be answered as if it were new. */
void leader_forget_question(struct node *node);
/* Publishes what is committed, answers a question that need not wait any more, lets batches out. */
void leader_go_on(struct node *node);
/* A follower that counts, asks, and stores nothing is given up as if it were silent (F-28). */
void leader_give_up(struct node *node);
/* The process stops: requests that wait are told that the outcome is unknown. */
void leader_stop(struct node *node);

/* ---- node_record.c: an operator looks at the coordinator's record, or has it written again after it was lost or put
 * back to an earlier state (F-31b). The node's own coordinator believes no older record, and may not answer for
 * seconds; so this has a thread and a client of its own, as long as it takes.
 *
 * Written is what the node that leads knows, or, by the word that the other is stopped and has no more, what this one
 * has. The node starts again after that, and claims by the rules; the other one must be started again by hand, for its
 * coordinator's client too believes nothing that is older than what it has seen. */

struct record_word;

/* Takes the call over: a Pair that asks for the record. Pair thread. */
void record_word_take(struct node *node, struct call *call);
/* Waits for the one that is under way, for two calls to the coordinator at most. Any thread, once no more are taken. */
void record_word_join(struct node *node);

#endif
