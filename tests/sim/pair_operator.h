/* pair_operator.h: the operator of a pair without a coordinator. The operator's assertions are true: that a node is
 * stopped (it is kept stopped until the command is carried out), and that it has not served alone, as its directory
 * says. The operator replaces a disk only if the other node has everything that was acknowledged, and forces a node to
 * lead only if that node has everything. */
#ifndef TARRY_TESTS_SIM_PAIR_OPERATOR_H
#define TARRY_TESTS_SIM_PAIR_OPERATOR_H

#include "pair_faults.h"

/* Starts the operator, who checks the pair at intervals. In the calm phase, the operator gives commands only if no
 * other actor can resolve the situation. */
void pair_operator_start(struct world *world, struct pair_faults *faults);
/* Returns whether the operator may replace this node's disk by an empty one. */
bool pair_operator_may_wipe(struct world *world, const struct host *host);
/* Returns whether the operator may start the node now. A node with a new directory joins the node that answers it. */
bool pair_operator_may_start(const struct world *world, const struct pair_faults *faults, const struct host *host);
/* Runs the world until the operator keeps no node stopped. */
void pair_operator_settle(struct world *world, struct pair_faults *faults);

#endif
