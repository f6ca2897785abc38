/* past.h: the coordinator forgets (F-31b). Its record is lost, or set back to an earlier one, of an earlier epoch or
 * of the same. There are two ways to set it back. The server's data are restored: versions go back too, and a node
 * that has seen a later version refuses it. Or a client writes an old value over the present one: it gets a later
 * version, and is believed.
 *
 * The model leaves out losses that no node could recognize. A record of an earlier epoch is restored only if every
 * node that it lets lead has durably seen a later epoch. One of the same epoch is restored only if it lets no more
 * nodes lead than the present one. */
#ifndef TARRY_TESTS_MODEL_PAST_H
#define TARRY_TESTS_MODEL_PAST_H

#include "pair_world.h"

/* Does ACT_LOSE, ACT_KEEP, ACT_ROLL or ACT_PUT_BACK. Returns false for any other action, or if it is not possible
 * now. */
bool past_act(struct pair_world *world, enum action action);
/* Models tarry pair record --write at the leader of the latest epoch, once `tarry status` shows that no node is
 * claiming leadership. The leader restarts afterwards. */
bool past_write(struct pair_world *world, int number);
/* The sender of a compare-and-set no longer waits for it. It may still be carried out, unless it was lost with the
 * connection to a server that is set back. */
void past_leave_ghost(const struct pair_world *world, struct model_node *node);

#endif
