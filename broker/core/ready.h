/* ready.h: an ordered set of tasks that are ready, by (due, id): a pairing heap.
 *
 * After Fredman, Sedgewick, Sleator, Tarjan, "The pairing heap: a new form of self-adjusting heap" (Algorithmica 1986),
 * with the two-pass merge. push, min: O(1). pop, remove: O(log n) amortised; a single one may walk all children of one
 * node, without recursion. Intrusive: a node's memory belongs to the caller and must not move while it is in the set.
 * Not thread-safe; allocates nothing. */
#ifndef TARRY_CORE_READY_H
#define TARRY_CORE_READY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ready_node { /* zeroed before its first use */
    struct ready_node *child;
    struct ready_node *next; /* right sibling */
    struct ready_node *prev; /* left sibling; of a first child: the parent; of the root: itself; NULL: in no set */
    uint64_t due_ms;
    uint64_t id;
};

struct ready { /* zeroed: empty */
    struct ready_node *root;
    uint64_t count;
};

/* The node must be in no set. */
void ready_push(struct ready *ready, struct ready_node *node, uint64_t due_ms, uint64_t id);
/* The node must be in this set. */
void ready_remove(struct ready *ready, struct ready_node *node);
/* The first by (due, id), still in the set; NULL: empty. */
static inline struct ready_node *ready_min(const struct ready *ready) {
    return ready->root;
}
/* The first, removed; NULL: empty. */
struct ready_node *ready_pop(struct ready *ready);
static inline bool ready_has(const struct ready_node *node) {
    return node->prev != NULL;
}
/* Walks every invariant, in O(n) and without recursion; for tests. */
bool ready_check(const struct ready *ready);

#endif
