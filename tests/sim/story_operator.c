/* story_operator.c: stories of two nodes without a coordinator: leadership depends on the other node's promise, or on
 * an operator's assertion. Every story begins with node 0 as the leader and node 1 in sync. */
#include <errno.h>

#include "pair_story.h"

static int setup(void **state) {
    if (story_setup(state) != 0) return 1;
    struct world_options options = pair_options();
    options.pair.by_operator = true;
    options.pair.solo_after_ms = UINT64_MAX;
    story_begin_again(*state, &options);
    return 0;
}

/* Schedules an order and waits until both nodes have its frames. Stories do not compare that part of the trace. */
static void acknowledge_an_order(struct fx *f) {
    (void)client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
}

static void nobody_takes_over_but_by_a_word(void **state) { /* F-24 */
    struct fx *f = *state;
    acknowledge_an_order(f);
    kill_node(f, 0, HOST_KILLED);
    SIM_ELAPSE(f, 60000);
    SIM_TRACE(f, "[1100] node 0 is killed\n");
    node_tell(f->world, 1, PAIR_ASSERT);
    SIM_ELAPSE(f, 2000); /* node 1 first asks the other node, and gives up after a timeout */
    assert_true(start_node(f, 0));
    SIM_ELAPSE(f, 1000);
    SIM_TRACE(f, "[61100] operator tells node 1: promote, the other is stopped\n"
                 "[62200] node 1 fences, epoch 3\n"
                 "[62200] node 1 leads, epoch 3\n"
                 "[62200] node 1 serves alone\n"
                 "[62200] node 1 starts, epoch 3\n"
                 "[62200] node 1 append #9 epoch 3\n"
                 "[62200] node 1 append #10 alone\n"
                 "[62200] node 1 is primary\n"
                 "[62210] node 1 durable #10\n"
                 "[62210] node 1 committed #10\n"
                 "[63100] node 0 starts\n"
                 "[63115] node 1 serves alone no more\n"
                 "[63115] node 1 append #12 alone no more\n"
                 "[63125] node 1 durable #12\n"
                 "[63126] node 0 has #12\n"
                 "[63127] node 1 committed #12\n");
    assert_false(f->world->hosts[1].node->hard_state.alone);
}

/* No node knows any more which commits node 0 had acknowledged alone, because the new disk is empty. */
static void with_a_new_disk_nobody_leads_before_a_word(void **state) { /* F-29 */
    struct fx *f = *state;
    acknowledge_an_order(f);
    kill_node(f, 0, HOST_POWER_LOST);
    kill_node(f, 1, HOST_POWER_LOST);
    wipe_node(f, 0);
    assert_true(start_node(f, 1));
    assert_true(start_node(f, 0));
    SIM_ELAPSE(f, 3000);
    SIM_TRACE(f,
              "[1100] node 0 loses power\n"
              "[1100] node 1 loses power\n"
              "[1100] operator gives node 0 a new, empty disk\n"
              "[1100] node 1 starts\n"
              "[1100] node 0 starts\n"
              "[1102] node 1 says: the other node has a different disk than the one that this node was in sync with, "
              "and only the former disk may have all acknowledged changes, so no node leads. If it has not served "
              "alone, 'tarry promote --peer-is-stopped' at this node makes this node the leader without loss. "
              "Otherwise bring the former disk back, or lose its changes with 'tarry promote --force' at this node\n"
              "[1102] node 0 says: the other node does not know this node's disk, and does not follow it; this node "
              "may lack acknowledged changes. 'tarry status' for the other node says why\n");
    node_tell(f->world, 0, PAIR_ASSERT);
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[4100] operator tells node 0: promote, the other is stopped\n"
                 "[4100] node 0 says: this node was not in sync when it last heard from the leader, so it may lack "
                 "acknowledged changes: nothing was changed. Start the other node; or accept the loss of the changes "
                 "that only the other node has with 'tarry promote --force'\n"
                 "[4106] node 0 says: the other node does not know this node's disk, and does not follow it; this node "
                 "may lack acknowledged changes. 'tarry status' for the other node says why\n");
    node_tell(f->world, 1, PAIR_ASSERT);
    SIM_ELAPSE(f, 1000);
    SIM_TRACE(f, "[4200] operator tells node 1: promote, the other is stopped\n"
                 "[4202] node 1 fences, epoch 3\n"
                 "[4202] node 1 leads, epoch 3\n"
                 "[4202] node 1 serves alone\n"
                 "[4202] node 1 starts, epoch 3\n"
                 "[4202] node 1 append #9 epoch 3\n"
                 "[4202] node 1 append #10 alone\n"
                 "[4202] node 1 is primary\n"
                 "[4202] node 1 committed #8\n"
                 "[4212] node 1 durable #10\n"
                 "[4212] node 1 committed #10\n"
                 "[4222] node 0 has #10\n"
                 "[4223] node 1 serves alone no more\n"
                 "[4223] node 1 append #11 alone no more\n"
                 "[4233] node 1 durable #11\n"
                 "[4234] node 0 has #11\n"
                 "[4235] node 1 committed #11\n");
    assert_int_equal(f->world->hosts[0].frame_count, f->world->hosts[1].frame_count);
    assert_false(f->world->hosts[1].node->hard_state.alone);
}

/* A new leader's log may end with frames that are never acknowledged. If the other node begins to lead without these
 * frames, the first node must cut them. So its index must not contain them. */
static void what_may_never_be_acknowledged_is_in_no_index(void **state) { /* LOG-3, F-25 */
    struct fx *f = *state;
    struct host *leader = &f->world->hosts[0], *follower = &f->world->hosts[1];
    kill_node(f, 1, HOST_KILLED);
    (void)client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 100);
    uint64_t acknowledged = leader->node->committed;
    kill_node(f, 0, HOST_KILLED);
    assert_true(start_node(f, 1));
    follower->disk->fail_at = follower->disk->calls + 1;
    follower->disk->fail_error = -ENOSPC;
    assert_true(start_node(f, 0));
    SIM_ELAPSE(f, 3000);
    assert_true(node_is_leading(leader));
    assert_true(core_position(leader->core) > acknowledged);
    assert_int_equal(leader->indexed, acknowledged);
    SIM_SKIP(f);
    kill_node(f, 0, HOST_KILLED);
    assert_true(start_node(f, 1));
    node_tell(f->world, 1, PAIR_ASSERT);
    SIM_ELAPSE(f, 2000); /* node 1 first asks the other node, and gives up after a timeout */
    assert_true(start_node(f, 0));
    SIM_ELAPSE(f, 1000);
    SIM_TRACE(f, "[4100] node 0 is killed\n"
                 "[4100] node 1 cuts a torn tail of 229 bytes\n"
                 "[4100] node 1 lost #7 to #7, never promised\n"
                 "[4100] node 1 starts\n"
                 "[4100] operator tells node 1: promote, the other is stopped\n"
                 "[5200] node 1 fences, epoch 5\n"
                 "[5200] node 1 leads, epoch 5\n"
                 "[5200] node 1 serves alone\n"
                 "[5200] node 1 starts, epoch 5\n"
                 "[5200] node 1 append #7 epoch 5\n"
                 "[5200] node 1 append #8 alone\n"
                 "[5200] node 1 is primary\n"
                 "[5200] node 1 committed #6\n"
                 "[5210] node 1 durable #8\n"
                 "[5210] node 1 committed #8\n"
                 "[6100] node 0 starts\n"
                 "[6104] node 0 cuts #7 to #8\n"
                 "[6117] node 1 serves alone no more\n"
                 "[6117] node 1 append #10 alone no more\n"
                 "[6127] node 1 durable #10\n"
                 "[6128] node 0 has #10\n"
                 "[6129] node 1 committed #10\n");
    assert_int_equal(leader->node->cuts, 1);
}

static void a_planned_switch_over_is_a_promise(void **state) { /* F-26 */
    struct fx *f = *state;
    node_tell(f->world, 0, PAIR_HAND_OVER);
    SIM_ELAPSE(f, 1000);
    SIM_TRACE(f, "[1000] operator tells node 0: hand over\n"
                 "[1001] node 1 fences, epoch 3\n"
                 "[1001] node 1 claims, epoch 3\n"
                 "[1002] node 0 yields, epoch 2\n"
                 "[1003] node 1 leads, epoch 3\n"
                 "[1003] node 1 starts, epoch 3\n"
                 "[1003] node 1 append #6 epoch 3\n"
                 "[1003] node 1 is primary\n"
                 "[1004] node 0 has ended, epoch 2\n"
                 "[1004] node 0 is deposed: this node has handed over, and restarts as the follower\n"
                 "[1009] node 0 is killed\n"
                 "[1009] node 0 starts\n"
                 "[1013] node 1 durable #6\n"
                 "[1021] node 0 has #6\n"
                 "[1022] node 1 committed #6\n");
    assert_true(node_is_leading(&f->world->hosts[1]));
}

#define OPERATOR_STORY(test) cmocka_unit_test_setup_teardown(test, setup, story_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        OPERATOR_STORY(nobody_takes_over_but_by_a_word),
        OPERATOR_STORY(with_a_new_disk_nobody_leads_before_a_word),
        OPERATOR_STORY(what_may_never_be_acknowledged_is_in_no_index),
        OPERATOR_STORY(a_planned_switch_over_is_a_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
