/* producers.h: which commits may be repeated (ONCE-1): per producer, where the answers to its unanswered commits lie.
 */
#ifndef TARRY_CORE_PRODUCERS_H
#define TARRY_CORE_PRODUCERS_H

#include "state.h"

/* The idle list in the order of last use, which the index does not keep. Nothing to do but after a restore. */
void producers_order(struct core *core);
/* The owner has so many, or more. */
bool producers_reach(struct core *core, uint64_t owner, uint64_t count);
struct producer *producer_find(const struct core *core, uint64_t id);
int producer_apply_put(struct core *core, uint64_t id, uint64_t owner);
int producer_apply_end(struct core *core, uint64_t id);
int producer_apply_commit(struct core *core, uint64_t id, uint64_t sequence, uint64_t oldest_unanswered,
                          uint64_t position);
void producer_hello(struct core *core, const struct core_event *event, struct core_effects *effects);
void producer_goodbye(struct core *core, const struct core_event *event, struct core_effects *effects);

#endif
