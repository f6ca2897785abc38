/* ready.h: an ordered set by (due, id), with a worst case of O(log n) for every call: no single one may hold up the
 * core's thread, however many tasks are ready.
 *
 * Two parts. The *run* is a sorted list: what comes in order, which is the rule for tasks whose time comes, is appended
 * to it in O(1) and taken from its front in O(1). What comes out of order goes into a *leftist tree* (Crane 1972;
 * Knuth, TAOCP 5.2.3): heap order, and the way down to the right is never longer than log2(n + 1), so that merging, and
 * with it push, pop and remove, take O(log n). Intrusive: a node's memory belongs to the caller and must not move while
 * it is in the set. Not thread-safe; allocates nothing. */
#ifndef TARRY_CORE_READY_H
#define TARRY_CORE_READY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ready_node {           /* zeroed before its first use */
    struct ready_node *left;  /* tree: a child; run: the one before */
    struct ready_node *right; /* tree: the child with the shorter way down; run: the one behind */
    struct ready_node *above; /* tree: the parent */
    uint64_t due_ms;
    uint64_t id;
    uint8_t rank; /* tree: nodes on the way down to the right, itself included; READY_RUN: in the run; 0: in no set */
};

#define READY_RUN UINT8_MAX

struct ready {                /* zeroed: empty */
    struct ready_node *first; /* of the run */
    struct ready_node *last;
    struct ready_node *root; /* of the tree */
    uint64_t count;          /* in both */
};

/* The node must be in no set. */
void ready_push(struct ready *ready, struct ready_node *node, uint64_t due_ms, uint64_t id);
/* The node must be in this set. */
void ready_remove(struct ready *ready, struct ready_node *node);
/* The first by (due, id), still in the set; NULL: empty. */
struct ready_node *ready_min(const struct ready *ready);
/* The first, removed; NULL: empty. */
struct ready_node *ready_pop(struct ready *ready);
static inline bool ready_has(const struct ready_node *node) {
    return node->rank != 0;
}
/* The one behind it in the run; NULL: there is none, or it is in the tree. For fetching it into the cache. */
static inline const struct ready_node *ready_behind(const struct ready_node *node) {
    return node->rank == READY_RUN ? node->right : NULL;
}
/* Walks every invariant, those that bound the work of a call included; O(n), without recursion; for tests. */
bool ready_check(const struct ready *ready);

#endif
