/* producers.h: commits that a producer may retry (ONCE-1): the position of the stored reply of each unanswered commit.
 */
#ifndef TARRY_CORE_PRODUCERS_H
#define TARRY_CORE_PRODUCERS_H

#include "state.h"

/* Sorts the idle list by last use after a restore, because the index does not store the order. Does nothing at other
 * times. */
void producers_order(struct core *core);
/* Returns true if the owner has at least `count` producers. */
bool producers_reach(struct core *core, uint64_t owner, uint64_t count);
struct producer *producer_find(const struct core *core, uint64_t id);
/* Notes that the requests of this step were read some time after they arrived, because the process was stopped. */
void producers_note_late(struct core *core);
/* Returns the steady time from which the producer counts as idle. */
uint64_t producer_idle_since_ms(const struct core *core, const struct producer *producer);
int producer_apply_put(struct core *core, uint64_t id, uint64_t owner);
int producer_apply_end(struct core *core, uint64_t id);
int producer_apply_commit(struct core *core, uint64_t id, uint64_t sequence, uint64_t oldest_unanswered,
                          uint64_t position);
void producer_hello(struct core *core, const struct core_request *request, struct core_effects *effects);
void producer_goodbye(struct core *core, const struct core_request *request, struct core_effects *effects);

#endif
