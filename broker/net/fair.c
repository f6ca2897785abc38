/* fair.c: see fair.h. */
#include "fair.h"

#include <assert.h>
#include <stddef.h>

void fair_init(struct fair *fair) {
    TAILQ_INIT(&fair->first);
}

bool fair_is_empty(const struct fair *fair) {
    return TAILQ_EMPTY(&fair->first);
}

/* Returns the owner's first item; NULL: no item of this owner is waiting. */
static struct fair_item *first_of(const struct fair *fair, uint64_t owner) {
    struct fair_item *first = NULL;
    TAILQ_FOREACH(first, &fair->first, next)
    if (first->owner == owner) break;
    return first;
}

void fair_add(struct fair *fair, struct fair_item *item, uint64_t owner) {
    assert(!item->is_waiting);
    struct fair_item *first = first_of(fair, owner);
    item->owner = owner;
    item->is_waiting = true;
    TAILQ_INIT(&item->behind);
    if (first != NULL)
        TAILQ_INSERT_TAIL(&first->behind, item, next);
    else
        TAILQ_INSERT_TAIL(&fair->first, item, next);
}

/* Makes the owner's second item the head of the owner's list, because `first` has left the queue. Returns the second
 * item; NULL: the owner has no other item. */
static struct fair_item *succeed(struct fair_item *first) {
    struct fair_item *second = TAILQ_FIRST(&first->behind);
    if (second == NULL) return NULL;
    TAILQ_REMOVE(&first->behind, second, next);
    TAILQ_CONCAT(&second->behind, &first->behind, next);
    return second;
}

struct fair_item *fair_take(struct fair *fair) {
    struct fair_item *first = TAILQ_FIRST(&fair->first);
    if (first == NULL) return NULL;
    TAILQ_REMOVE(&fair->first, first, next);
    first->is_waiting = false;
    struct fair_item *second = succeed(first);
    if (second != NULL) TAILQ_INSERT_TAIL(&fair->first, second, next);
    return first;
}

void fair_remove(struct fair *fair, struct fair_item *item) {
    if (!item->is_waiting) return;
    struct fair_item *first = first_of(fair, item->owner);
    assert(first != NULL);
    item->is_waiting = false;
    if (first != item) {
        TAILQ_REMOVE(&first->behind, item, next);
        return;
    }
    struct fair_item *second = succeed(item);
    if (second != NULL) TAILQ_INSERT_BEFORE(item, second, next);
    TAILQ_REMOVE(&fair->first, item, next);
}
