/* ready.c: see ready.h. Every tree obeys heap order by (due, id); `prev` of a first child is its parent, so a node can
 * be cut out wherever it is. */
#include "ready.h"

#include <assert.h>

static bool node_before(const struct ready_node *a, const struct ready_node *b) {
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->id < b->id;
}

/* Links two trees without siblings; the root of the result has void next and prev. */
static struct ready_node *link_trees(struct ready_node *a, struct ready_node *b) {
    if (a == NULL) return b;
    if (b == NULL) return a;
    if (node_before(b, a)) {
        struct ready_node *swap = a;
        a = b;
        b = swap;
    }
    b->prev = a;
    b->next = a->child;
    if (a->child != NULL) a->child->prev = b;
    a->child = b;
    return a;
}

/* Merges a list of siblings into one tree: pairs from left to right, then the pairs from right to left. */
static struct ready_node *merge_siblings(struct ready_node *first) {
    struct ready_node *pairs = NULL; /* a stack through `next` */
    while (first != NULL) {
        struct ready_node *a = first;
        struct ready_node *b = a->next;
        first = b != NULL ? b->next : NULL;
        struct ready_node *pair = link_trees(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    struct ready_node *tree = NULL;
    while (pairs != NULL) {
        struct ready_node *next = pairs->next;
        tree = link_trees(tree, pairs);
        pairs = next;
    }
    return tree;
}

static void set_root(struct ready *ready, struct ready_node *root) {
    ready->root = root;
    if (root == NULL) return;
    root->next = NULL;
    root->prev = root;
}

void ready_push(struct ready *ready, struct ready_node *node, uint64_t due_ms, uint64_t id) {
    assert(!ready_has(node));
    node->child = NULL;
    node->next = NULL;
    node->due_ms = due_ms;
    node->id = id;
    set_root(ready, link_trees(ready->root, node));
    ready->count++;
}

void ready_remove(struct ready *ready, struct ready_node *node) {
    assert(ready_has(node) && ready->count > 0);
    ready->count--;
    struct ready_node *children = merge_siblings(node->child);
    if (node == ready->root) {
        set_root(ready, children);
    } else {
        assert(node->prev != node); /* the root of another set */
        if (node->prev->child == node) {
            node->prev->child = node->next;
        } else {
            assert(node->prev->next == node);
            node->prev->next = node->next;
        }
        if (node->next != NULL) node->next->prev = node->prev;
        set_root(ready, link_trees(ready->root, children));
    }
    node->child = node->next = node->prev = NULL;
}

struct ready_node *ready_pop(struct ready *ready) {
    struct ready_node *node = ready->root;
    if (node != NULL) ready_remove(ready, node);
    return node;
}

/* The parent of the last of a row of siblings. */
static const struct ready_node *parent_of(const struct ready_node *node) {
    while (node->prev->child != node) node = node->prev;
    return node->prev;
}

bool ready_check(const struct ready *ready) {
    if (ready->root == NULL) return ready->count == 0;
    if (ready->root->prev != ready->root || ready->root->next != NULL) return false;
    uint64_t count = 0;
    const struct ready_node *node = ready->root;
    /* Down to the first child, then to the right, then up and to the right. */
    for (;;) {
        if (++count > ready->count) return false;
        if (node->child != NULL) {
            if (node->child->prev != node) return false;
            for (const struct ready_node *child = node->child; child != NULL; child = child->next) {
                if (node_before(child, node)) return false;
                if (child->next != NULL && child->next->prev != child) return false;
            }
            node = node->child;
            continue;
        }
        while (node != ready->root && node->next == NULL) node = parent_of(node);
        if (node == ready->root) return count == ready->count;
        node = node->next;
    }
}
