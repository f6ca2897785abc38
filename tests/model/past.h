/* past.h: the coordinator loses the record, or goes back to an earlier record, of an earlier epoch or of the same epoch
 * (F-31b). An earlier record comes back in one of two ways.
 *
 * First way: an operator restores the server's data. Versions go back too, so a node that has seen a later version
 * refuses the record.
 *
 * Second way: a client writes an old value over the present one. The value gets a later version, so nodes accept it.
 *
 * The model leaves out losses that no node could notice. It restores a record of an earlier epoch only if every node
 * that may lead by this record has durably seen a later epoch. It restores a record of the same epoch only if no more
 * nodes may lead by it than by the present record. */
#ifndef TARRY_TESTS_MODEL_PAST_H
#define TARRY_TESTS_MODEL_PAST_H

#include "pair_world.h"

/* Carries out one of the actions by which the coordinator loses changes: ACT_LOSE, ACT_KEEP, ACT_ROLL or ACT_PUT_BACK.
 * Returns false for any other action, and if the action is not possible now. */
bool past_act(struct pair_world *world, enum action action);
/* Models tarry pair record --write at the leader of the latest epoch, once `tarry status` shows that no node is
 * claiming leadership. The leader restarts afterwards. */
bool past_write(struct pair_world *world, int number);
/* The sender of a compare-and-set no longer waits for it. It may still be carried out, unless it was lost with the
 * connection to a server that is set back. */
void past_leave_ghost(const struct pair_world *world, struct model_node *node);

#endif
