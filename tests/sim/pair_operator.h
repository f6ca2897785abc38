/* pair_operator.h: who looks after a pair that has no coordinator. What he says is true: that a node is stopped (then
 * he keeps it so until his word is taken), and that it has not served alone, which he reads in its directory. He
 * exchanges a disk only if the other node has all that was acknowledged. He forces a node to lead only if he knows that
 * it has everything. */
#ifndef TARRY_TESTS_SIM_PAIR_OPERATOR_H
#define TARRY_TESTS_SIM_PAIR_OPERATOR_H

#include "pair_faults.h"

/* From now on he looks every now and then, also in the calm: then he says only what nobody else could. */
void pair_operator_start(struct world *world, struct pair_faults *faults);
/* May this node's disk be exchanged for an empty one? */
bool pair_operator_may_wipe(struct world *world, const struct host *host);
/* May it be started now? A new directory joins what answers it. */
bool pair_operator_may_start(const struct world *world, const struct pair_faults *faults, const struct host *host);
/* Runs the world until no node is kept down any more. */
void pair_operator_settle(struct world *world, struct pair_faults *faults);

#endif
