/* ready.h: a set ordered by (due, id). Every call takes O(log n) in the worst case, so that no call blocks the core
 * thread for long.
 *
 * The set has two parts. The *run* is a sorted list: tasks usually become due in order, and such a task is appended to
 * the end, or taken from the front, in O(1). A task that arrives out of order goes into a *leftist tree* (Crane 1972;
 * Knuth, TAOCP 5.2.3). The tree is heap-ordered, and its right spine has at most log2(n + 1) nodes. So merge, push, pop
 * and remove take O(log n). Intrusive: the caller owns a node's memory and must not move the node while it is in the
 * set. Not thread-safe; allocates nothing. */
#ifndef TARRY_CORE_READY_H
#define TARRY_CORE_READY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ready_node {           /* zero-initialise before the first use */
    struct ready_node *left;  /* tree: a child; run: the previous node */
    struct ready_node *right; /* tree: the child with the shorter right spine; run: the next node */
    struct ready_node *above; /* tree: the parent */
    uint64_t due_ms;
    uint64_t id;
    /* 0: the node is in no set; READY_RUN: the node is in the run; otherwise the length of the right spine below and
     * including this node of the tree. */
    uint8_t rank;
};

#define READY_RUN UINT8_MAX

struct ready {                /* zeros: an empty set */
    struct ready_node *first; /* first node of the run */
    struct ready_node *last;
    struct ready_node *root; /* root of the tree */
    uint64_t count;          /* number of nodes in the run and the tree */
};

/* Inserts a node that is in no set. */
void ready_push(struct ready *ready, struct ready_node *node, uint64_t due_ms, uint64_t id);
/* Removes a node that is in this set. */
void ready_remove(struct ready *ready, struct ready_node *node);
/* Returns the first node by (due, id) and leaves it in the set; NULL: empty. */
struct ready_node *ready_min(const struct ready *ready);
/* Removes and returns the first node; NULL: empty. */
struct ready_node *ready_pop(struct ready *ready);
static inline bool ready_has(const struct ready_node *node) {
    return node->rank != 0;
}
/* Returns the next node of the run, for a prefetch; NULL: no next node, or the node is in the tree. */
static inline const struct ready_node *ready_behind(const struct ready_node *node) {
    return node->rank == READY_RUN ? node->right : NULL;
}
/* Checks every invariant, including those that bound the work per call. O(n), no recursion; for tests. */
bool ready_check(const struct ready *ready);

#endif
