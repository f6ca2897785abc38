/* node_record.h: an operator looks at the coordinator's record, or has it written again after it was lost or put back
 * to an earlier state (F-31b). The node's own coordinator believes no older record, and may not answer for seconds; so
 * this has a thread and a client of its own, as long as it takes.
 *
 * Written is what the node that leads knows, or, by the word that the other is stopped and has no more, what this one
 * has. The node starts again after that, and claims by the rules; the other one must be started again by hand, for its
 * coordinator's client too believes nothing that is older than what it has seen. */
#ifndef TARRY_SHELL_PAIR_NODE_RECORD_H
#define TARRY_SHELL_PAIR_NODE_RECORD_H

#include "node.h"

struct record_word;

/* Takes the call over: a Pair that asks for the record. Pair thread. */
void record_word_take(struct node *node, struct call *call);
/* Waits for the one that is under way, for two calls to the coordinator at most. Any thread, once nobody takes more. */
void record_word_join(struct node *node);

#endif
