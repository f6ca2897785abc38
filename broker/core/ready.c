/* ready.c: see ready.h. Invariants of the tree
 *   R-1  no child precedes its parent by (due, id);
 *   R-2  a node's rank is 1 + the right child's rank, and the left child's rank is not smaller (no child: rank 0).
 * By R-2 a tree of rank r has at least 2^r - 1 nodes, so a rank is at most log2(n + 1). */
#include "ready.h"

#include <assert.h>

static bool node_before(const struct ready_node *a, const struct ready_node *b) {
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->id < b->id;
}

/* ---- the tree */

static unsigned rank_of(const struct ready_node *node) {
    return node != NULL ? node->rank : 0;
}

/* Restores R-2 of one node whose children obey it. Returns false if its rank is unchanged. */
static bool rank_changes(struct ready_node *node) {
    if (rank_of(node->left) < rank_of(node->right)) {
        struct ready_node *swap = node->left;
        node->left = node->right;
        node->right = swap;
    }
    uint8_t rank = (uint8_t)(rank_of(node->right) + 1);
    bool changes = rank != node->rank;
    node->rank = rank;
    return changes;
}

/* Merges two trees along their right spines. The root's parent becomes `above`; the caller sets the link from `above`.
 */
static struct ready_node *tree_merge(struct ready_node *a, struct ready_node *b, struct ready_node *above) {
    struct ready_node *root = NULL, **at = &root, *lowest = above;
    while (a != NULL && b != NULL) {
        if (node_before(b, a)) {
            struct ready_node *swap = a;
            a = b;
            b = swap;
        }
        *at = a;
        a->above = lowest;
        lowest = a;
        at = &a->right;
        a = a->right;
    }
    *at = a != NULL ? a : b;
    if (*at != NULL) (*at)->above = lowest;
    for (struct ready_node *node = lowest; node != above; node = node->above) (void)rank_changes(node);
    return root;
}

static void tree_remove(struct ready *ready, struct ready_node *node) {
    struct ready_node *above = node->above;
    struct ready_node *merged = tree_merge(node->left, node->right, above);
    if (above == NULL) {
        assert(ready->root == node);
        ready->root = merged;
        return;
    }
    if (above->left == node) {
        above->left = merged;
    } else {
        assert(above->right == node);
        above->right = merged;
    }
    /* If a node's rank changes, its parent's new rank is larger by at least one. Ranks are O(log n), so this loop ends
     * after O(log n) steps. */
    while (above != NULL && rank_changes(above)) above = above->above;
}

/* ---- the run */

static void run_append(struct ready *ready, struct ready_node *node) {
    node->rank = READY_RUN;
    node->left = ready->last;
    if (ready->last != NULL) {
        ready->last->right = node;
    } else {
        ready->first = node;
    }
    ready->last = node;
}

static void run_remove(struct ready *ready, struct ready_node *node) {
    assert((node->left == NULL) == (ready->first == node) && (node->right == NULL) == (ready->last == node));
    if (node->left != NULL) {
        node->left->right = node->right;
    } else {
        ready->first = node->right;
    }
    if (node->right != NULL) {
        node->right->left = node->left;
    } else {
        ready->last = node->left;
    }
}

/* ---- the interface */

void ready_push(struct ready *ready, struct ready_node *node, uint64_t due_ms, uint64_t id) {
    assert(!ready_has(node));
    *node = (struct ready_node){.due_ms = due_ms, .id = id};
    ready->count++;
    if (ready->last == NULL || !node_before(node, ready->last)) {
        run_append(ready, node);
    } else {
        node->rank = 1;
        ready->root = tree_merge(ready->root, node, NULL);
    }
}

void ready_remove(struct ready *ready, struct ready_node *node) {
    assert(ready_has(node) && ready->count > 0);
    ready->count--;
    if (node->rank == READY_RUN) {
        run_remove(ready, node);
    } else {
        tree_remove(ready, node);
    }
    node->left = node->right = node->above = NULL;
    node->rank = 0;
}

struct ready_node *ready_min(const struct ready *ready) {
    if (ready->root == NULL || ready->first == NULL) return ready->root != NULL ? ready->root : ready->first;
    return node_before(ready->root, ready->first) ? ready->root : ready->first;
}

struct ready_node *ready_pop(struct ready *ready) {
    struct ready_node *node = ready_min(ready);
    if (node != NULL) ready_remove(ready, node);
    return node;
}

/* ---- for tests */

static bool node_check(const struct ready_node *node) {
    const struct ready_node *children[] = {node->left, node->right};
    for (unsigned i = 0; i < 2; i++) {
        if (children[i] == NULL) continue;
        if (children[i]->above != node || node_before(children[i], node)) return false; /* */
    }
    return rank_of(node->left) >= rank_of(node->right) && node->rank == rank_of(node->right) + 1; /* */
}

/* Returns the next node in preorder: the left child, or the right child, or the right sibling of the nearest ancestor
 * that has one. */
static const struct ready_node *node_next(const struct ready_node *node) {
    if (node->left != NULL) return node->left; /* a node with a right child has a left child */
    while (node->above != NULL && (node->above->right == node || node->above->right == NULL)) node = node->above;
    return node->above != NULL ? node->above->right : NULL;
}

bool ready_check(const struct ready *ready) {
    uint64_t count = 0;
    const struct ready_node *last = NULL;
    for (const struct ready_node *node = ready->first; node != NULL; last = node, node = node->right, count++) {
        if (count == ready->count || node->rank != READY_RUN || node->left != last) return false;
        if (last != NULL && node_before(node, last)) return false;
    }
    if (last != ready->last) return false;
    if (ready->root != NULL && ready->root->above != NULL) return false;
    for (const struct ready_node *node = ready->root; node != NULL; node = node_next(node), count++)
        if (count == ready->count || !node_check(node)) return false;
    return count == ready->count;
}
