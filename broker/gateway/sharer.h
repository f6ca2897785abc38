/* sharer.h: turns a topic's due tasks into shares of its groups (broker/core/groups.h). It leases them as the broker
 * itself, reads their attributes, and sends one operation FanOut for each task; the core decides which groups' filters
 * match.
 *
 *   core: a topic's task is due ── lease, with the content ──► sharer ── Commit of FanOuts ──► core: shares, one frame
 *
 * A lease costs a topic's task neither an attempt nor a delivery. If this process dies, the next start or a promotion
 * returns the leases at once, and the tasks come again. So each task is shared exactly once, by one frame. */
#ifndef TARRY_GATEWAY_SHARER_H
#define TARRY_GATEWAY_SHARER_H

#include "gateway.h"

struct sharer;

/* Creates the sharer, before the door starts. NULL: out of memory. */
struct sharer *sharer_new(struct gateway *gateway);
/* Ends the sharer. Call it after the door's thread has ended and before the gateway is freed. NULL is allowed. */
void sharer_free(struct sharer *sharer);
/* Reports whether this broker leads and has groups. Call it on any thread. */
void sharer_wanted(struct sharer *sharer, bool wanted);

#endif
