/* pair_story.h: the start of all stories with two nodes, and what stories can do to a node. */
#ifndef TARRY_TESTS_SIM_PAIR_STORY_H
#define TARRY_TESTS_SIM_PAIR_STORY_H

#include "node.h"
#include "story.h"

static inline struct world_options pair_options(void) {
    struct world_options options = story_options();
    options.pair =
        (struct pair_options){.on = true, .keep_ms = UINT64_MAX, .failover_after_ms = 300, .solo_after_ms = 600};
    return options;
}

static inline void kill_node(struct fx *f, uint32_t node, enum host_end how) {
    world_enter(f->world, node);
    host_kill(f->world, how);
    world_enter(f->world, WORLD_OUTSIDE);
}

static inline void stop_node(struct fx *f, uint32_t node) {
    world_enter(f->world, node);
    host_stop(f->world);
    world_enter(f->world, WORLD_OUTSIDE);
}

static inline bool start_node(struct fx *f, uint32_t node) {
    world_enter(f->world, node);
    bool up = host_start(f->world, false);
    world_enter(f->world, WORLD_OUTSIDE);
    return up;
}

/* Gives the node a new, empty disk. The node must be down. */
static inline void wipe_node(struct fx *f, uint32_t node) {
    world_enter(f->world, node);
    node_wipe(f->world);
    world_enter(f->world, WORLD_OUTSIDE);
}

static inline int pair_setup(void **state) {
    if (story_setup(state) != 0) return 1;
    struct world_options options = pair_options();
    story_begin_again(*state, &options);
    return 0;
}

static inline int strict_setup(void **state) {
    if (story_setup(state) != 0) return 1;
    struct world_options options = pair_options();
    options.pair.solo_after_ms = UINT64_MAX;
    story_begin_again(*state, &options);
    return 0;
}

#define PAIR_STORY(test) cmocka_unit_test_setup_teardown(test, pair_setup, story_teardown)
#define STRICT_STORY(test) cmocka_unit_test_setup_teardown(test, strict_setup, story_teardown)

#endif
