/* node_follower.h: what the pair thread does while its node follows: asks, appends and syncs what comes, and has the
 * core apply what is committed.
 *
 * A follower is a recovery that does not end: log, then index up to what is known committed (LOG-3), then core. The
 * leader's logical time comes with every answer, so that delays go on from there if this node leads (TIME-1). */
#ifndef TARRY_SHELL_PAIR_NODE_FOLLOWER_H
#define TARRY_SHELL_PAIR_NODE_FOLLOWER_H

#include "node.h"

void follower_init(struct node *node);
/* The rules ask. */
void follower_ask(struct node *node, const struct pair_message *question);
/* The process is to stop: asks for the last time, and says so. False: nobody is followed, nothing is said. */
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

#endif
