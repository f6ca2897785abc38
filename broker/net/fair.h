/* fair.h: a queue that serves owners round robin: an owner with 1,000 items waits as long for its next turn as an owner
 * with one. Items of one owner keep their order.
 *
 * Not thread-safe. Allocates nothing: an item is a member of the waiting object. Adding and removing take time linear
 * in the number of waiting owners. */
#ifndef TARRY_NET_FAIR_H
#define TARRY_NET_FAIR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

TAILQ_HEAD(fair_list, fair_item);

struct fair_item {
    uint64_t owner;
    bool is_waiting;
    TAILQ_ENTRY(fair_item)
    next;                    /* entry in `first` of the queue, or in `behind` of the first item of the same owner */
    struct fair_list behind; /* the owner's other items; valid if this is its owner's first item */
};

struct fair {
    struct fair_list first; /* the first item of each owner; the first of them is served next */
};

void fair_init(struct fair *fair);
bool fair_is_empty(const struct fair *fair);
/* Adds `item`, which must not be in the queue. */
void fair_add(struct fair *fair, struct fair_item *item, uint64_t owner);
/* Removes and returns the next owner's first item; NULL: the queue is empty. */
struct fair_item *fair_take(struct fair *fair);
/* Removes `item`; does nothing if it is not in the queue. */
void fair_remove(struct fair *fair, struct fair_item *item);

#endif
