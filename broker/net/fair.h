/* fair.h: a queue that serves owners in turn (round robin): an owner with a thousand items waits as long for its next
 * turn as an owner with one. Items of one owner keep their order.
 *
 * Not thread-safe. Memory: the items are members of what waits; nothing is allocated. Adding and removing cost time in
 * the number of owners that wait. */
#ifndef TARRY_NET_FAIR_H
#define TARRY_NET_FAIR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

TAILQ_HEAD(fair_list, fair_item);

struct fair_item {
    uint64_t owner;
    bool is_waiting;
    TAILQ_ENTRY(fair_item) next; /* in the queue's `first`, or in the `behind` of its owner's first item */
    struct fair_list behind;     /* valid while this is its owner's first item */
};

struct fair {
    struct fair_list first; /* of each owner the first item; the next owner to be served is first */
};

void fair_init(struct fair *fair);
bool fair_is_empty(const struct fair *fair);
/* `item` must not be waiting. */
void fair_add(struct fair *fair, struct fair_item *item, uint64_t owner);
/* The next owner's first item, which leaves the queue; NULL: the queue is empty. */
struct fair_item *fair_take(struct fair *fair);
/* Does nothing if `item` is not waiting. */
void fair_remove(struct fair *fair, struct fair_item *item);

#endif
