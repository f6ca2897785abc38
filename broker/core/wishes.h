/* wishes.h: subscriptions to queues that do not exist (state.h, struct wish).
 *
 * A subscription alone creates no queue (CAP-1): only a queue with tasks or a policy gets an entry in the table of
 * queues and a record in the log. Otherwise a consumer that names queues at random would fill the table, and an
 * operator could not distinguish its queues from those in use. The core remembers such a subscription until its session
 * ends. When the queue is created, the subscription becomes an ordinary one. */
#ifndef TARRY_CORE_WISHES_H
#define TARRY_CORE_WISHES_H

#include "state.h"

/* Returns true if a session waits for a queue of this name. */
bool wish_is_pending(const struct core *core, const char *name);
/* Returns the number of awaited names for which the principal was the first to wait. */
uint32_t wishes_count_of(const struct core *core, const char *principal);
/* Adds a wait. The caller ensures that there is space: fewer than QUEUES_AWAITED_MAX names, or this name is among them.
 * Does nothing if the session already waits for the name. */
void wish_add(struct core *core, struct session *session, const char *name);
void wishes_drop(struct core *core, struct session *session);
/* Subscribes all waiting sessions to the new queue, the longest-waiting session first. */
void wishes_grant(struct core *core, struct queue *queue);

#endif
