/* ready_test.c: compares the set of ready tasks with a flat table, and tests it with very many tasks: no recursion,
 * and no call that visits more than a logarithmic number of nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "ready.h"

#define NODES 200
#define HISTORIES 2000
#define OPERATIONS 400

struct fixture {
    struct random random;
    struct ready ready;
    struct ready_node nodes[NODES];
    bool in[NODES]; /* the model */
    uint64_t due_ms[NODES];
    uint64_t seed;
};

static struct fixture fx;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) fail_msg("%s (TARRY_SEED=%llu)", #condition, (unsigned long long)fx.seed);                   \
    } while (0)

/* Returns the model's smallest node. Nodes have their ids as ties, so the order is total. */
static int model_min(void) {
    int min = -1;
    for (int i = 0; i < NODES; i++)
        if (fx.in[i] && (min < 0 || fx.due_ms[i] < fx.due_ms[min])) min = i;
    return min;
}

static uint64_t model_count(void) {
    uint64_t count = 0;
    for (int i = 0; i < NODES; i++) count += fx.in[i];
    return count;
}

static void pop_and_compare(void) {
    int min = model_min();
    CHECK(ready_min(&fx.ready) == (min < 0 ? NULL : &fx.nodes[min]));
    struct ready_node *node = ready_pop(&fx.ready);
    CHECK(node == (min < 0 ? NULL : &fx.nodes[min]));
    if (node == NULL) return;
    CHECK(!ready_has(node));
    fx.in[min] = false;
}

static void play(uint64_t seed) {
    memset(&fx, 0, sizeof(fx));
    fx.seed = fx.random.state = seed;
    uint64_t crowd = 1 + random_below(&fx.random, NODES);
    uint64_t spread = 1 + random_magnitude(&fx.random, 40);
    uint64_t pops = 1 + random_below(&fx.random, 8); /* the number of pops varies, so that heaps are shallow and deep */
    for (int n = 0; n < OPERATIONS; n++) {
        int i = (int)random_below(&fx.random, crowd);
        if (random_below(&fx.random, 10) < pops) {
            pop_and_compare();
        } else if (!fx.in[i]) {
            fx.due_ms[i] = random_below(&fx.random, spread);
            fx.in[i] = true;
            ready_push(&fx.ready, &fx.nodes[i], fx.due_ms[i], (uint64_t)i);
        } else if (random_below(&fx.random, 2) == 0) {
            ready_remove(&fx.ready, &fx.nodes[i]);
            CHECK(!ready_has(&fx.nodes[i]));
            fx.in[i] = false;
        }
        CHECK(fx.ready.count == model_count());
        if (n % 8 == 0) CHECK(ready_check(&fx.ready));
    }
    while (model_count() > 0) pop_and_compare();
    CHECK(ready_pop(&fx.ready) == NULL && ready_check(&fx.ready));
}

static void random_histories_agree_with_a_table(void **state) {
    (void)state;
    if (getenv("TARRY_SEED") != NULL) {
        play(random_seed(0));
        return;
    }
    for (uint64_t seed = 1; seed <= HISTORIES; seed++) play(seed);
}

/* Pushes nodes in order (uses only the run), in reverse order (uses only the tree), and at random. */
static void a_million_nodes_need_no_stack(void **state) {
    (void)state;
    enum { CROWD = 1000000 };
    struct random random = {11};
    struct ready_node *nodes = calloc(CROWD, sizeof(*nodes));
    assert_non_null(nodes);
    for (int shape = 0; shape < 3; shape++) {
        struct ready ready = {0};
        for (uint64_t i = 0; i < CROWD; i++) {
            uint64_t due_ms = shape == 0 ? i : shape == 1 ? CROWD - i : random_below(&random, 1000);
            ready_push(&ready, &nodes[i], due_ms, i);
        }
        assert_true(ready_check(&ready));
        for (uint64_t i = 0; i < CROWD; i += 3) ready_remove(&ready, &nodes[i]);
        assert_true(ready_check(&ready));
        struct ready_node *last = NULL;
        uint64_t count = 0;
        for (struct ready_node *node; (node = ready_pop(&ready)) != NULL; last = node, count++) {
            if (last == NULL) continue;
            assert_true(last->due_ms < node->due_ms || (last->due_ms == node->due_ms && last->id < node->id));
        }
        assert_int_equal(count, CROWD - (CROWD + 2) / 3);
    }
    free(nodes);
}

/* Returns the length of the path from `node` along right children. One call walks down at most two such paths, and as
 * far up. */
static unsigned way_down(const struct ready_node *node) {
    unsigned steps = 0;
    for (; node != NULL; node = node->right) steps++;
    return steps;
}

/* In an earlier version, the first pop after 600,000 pushes took 48 ms. The last push occupies the end of the run, so
 * all other nodes go into the tree, in each of the shapes. */
static void no_call_walks_far(void **state) {
    (void)state;
    enum {
        CROWD = 600000,
        STEPS_MAX = 20
    }; /* STEPS_MAX is the binary logarithm of CROWD, rounded up: 2^20 is greater than 600,000 */
    struct random random = {12};
    struct ready_node *nodes = calloc(CROWD, sizeof(*nodes));
    assert_non_null(nodes);
    for (int shape = 0; shape < 3; shape++) {
        struct ready ready = {0};
        ready_push(&ready, &nodes[0], UINT64_MAX, 0);
        for (uint64_t i = 1; i < CROWD; i++) {
            uint64_t due_ms = shape == 0 ? i : shape == 1 ? CROWD - i : random_below(&random, CROWD);
            assert_true(way_down(ready.root) <= STEPS_MAX);
            ready_push(&ready, &nodes[i], due_ms, i);
        }
        for (uint64_t i = 1; i < CROWD; i += 2) {
            if (!ready_has(&nodes[i])) continue;
            unsigned steps = nodes[i].rank == READY_RUN ? 0 : way_down(nodes[i].left) + way_down(nodes[i].right);
            assert_true(steps <= 2 * STEPS_MAX);
            ready_remove(&ready, &nodes[i]);
            assert_true(way_down(ready.root) <= STEPS_MAX);
            ready_pop(&ready);
        }
        assert_true(ready_check(&ready));
        while (ready_pop(&ready) != NULL) {
        }
    }
    free(nodes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_histories_agree_with_a_table),
        cmocka_unit_test(a_million_nodes_need_no_stack),
        cmocka_unit_test(no_call_walks_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
