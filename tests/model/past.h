/* past.h: the coordinator forgets (F-31b): its record is lost, or it is put back to an earlier one, of an earlier epoch
 * or of the same, in one of two ways: the server's data are (versions go back with it, and whoever has seen a later one
 * believes it no more), or somebody writes an old value over the present one (which gets a later version, and is
 * believed).
 *
 * What nobody could know is not done here: a record of an earlier epoch is put back only if every node that it lets
 * lead has durably seen a later epoch; one of the same epoch only if it lets nobody lead whom the present one does not.
 */
#ifndef TARRY_TESTS_MODEL_PAST_H
#define TARRY_TESTS_MODEL_PAST_H

#include "pair_world.h"

/* ACT_LOSE, ACT_KEEP, ACT_ROLL and ACT_PUT_BACK. False: it is another one, or not possible now. */
bool past_act(struct pair_world *world, enum action action);
/* tarry pair record --write, at the leader of the latest epoch, once `tarry status` says of neither that it is claiming
 * one. It starts again afterwards. */
bool past_write(struct pair_world *world, int number);
/* Who sent a compare-and-set waits for it no more: it may still be done, unless it went down with the connection to a
 * server that is put back. */
void past_leave_ghost(const struct pair_world *world, struct model_node *node);

#endif
