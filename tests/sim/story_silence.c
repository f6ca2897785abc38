/* story_silence.c: stories of two nodes and a coordinator, line by line: which node is silent, which is dead, and which
 * was only stopped. No healthy leader is deposed. Every story begins with node 0 as the leader and node 1 in sync. */
#include "leader_half.h"
#include "pair_story.h"
#include "registrar.h"

/* A follower that stops announces it. Without the announcement the leader would wait 600 ms for it. */
static void a_follower_that_stops_in_order_is_not_waited_for(void **state) { /* F-27 */
    struct fx *f = *state;
    stop_node(f, 1);
    struct request *request = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 60);
    SIM_TRACE(f, "[1000] node 1 stops\n"
                 "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] node 0 is left by its follower\n"
                 "[1001] node 0 append #8 queue orders\n"
                 "[1001] node 0 append #9 scheduled 1\n"
                 "[1002] record epoch 1, node 0 leads, in sync 0\n"
                 "[1003] node 0 serves alone\n"
                 "[1003] node 0 append #10 alone\n"
                 "[1011] node 0 durable #9\n"
                 "[1011] node 0 committed #9\n"
                 "[1012] shop < scheduled, task 1 #3\n"
                 "[1021] node 0 durable #10\n"
                 "[1021] node 0 committed #10\n");
    assert_true(request->answered);
}

/* The follower's connections break, and its host refuses a new one. So the leader does not wait for 600 ms of silence.
 */
static void a_follower_whose_process_has_died_is_not_waited_for(void **state) { /* F-27 */
    struct fx *f = *state;
    kill_node(f, 1, HOST_KILLED);
    struct request *request = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 60);
    SIM_TRACE(f, "[1000] node 1 is killed\n"
                 "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] node 0 finds no process where its follower was\n"
                 "[1001] node 0 append #8 queue orders\n"
                 "[1001] node 0 append #9 scheduled 1\n"
                 "[1002] record epoch 1, node 0 leads, in sync 0\n"
                 "[1003] node 0 serves alone\n"
                 "[1003] node 0 append #10 alone\n"
                 "[1011] node 0 durable #9\n"
                 "[1011] node 0 committed #9\n"
                 "[1012] shop < scheduled, task 1 #3\n"
                 "[1021] node 0 durable #10\n"
                 "[1021] node 0 committed #10\n");
    assert_true(request->answered);
}

/* A host without power refuses no connection. So the leader waits for 600 ms of silence. */
static void a_follower_whose_host_has_died_is_silent_first(void **state) { /* F-27 */
    struct fx *f = *state;
    kill_node(f, 1, HOST_POWER_LOST);
    struct request *request = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 500);
    assert_false(request->answered);
    SIM_ELAPSE(f, 150);
    assert_true(request->answered);
    SIM_SKIP(f);
}

/* A follower takes over after 300 ms without a message from the leader. This follower was itself stopped for 2 s, and
 * the leader's messages from these 2 s are still in its socket. */
static void a_follower_that_stood_still_does_not_depose_a_healthy_leader(void **state) { /* F-13 */
    struct fx *f = *state;
    world_pause(f->world, 1, 2000);
    SIM_ELAPSE(f, 4000);
    SIM_TRACE(f, "[1000] operator stops node 1 for 2000 ms\n"
                 "[3000] node 1 has overslept, and gives the other node its time again\n");
    assert_int_equal(f->world->leader, 0);
}

/* A follower that pauses again and again never claims leadership while leader and network are healthy. */
static void no_pause_of_a_follower_deposes_a_healthy_leader(void **state) { /* F-13 */
    struct fx *f = *state;
    struct random random = {.state = 1};
    for (int i = 0; i < 300; i++) {
        world_pause(f->world, 1, 1 + random_below(&random, i % 2 == 0 ? 700 : 4000));
        world_run_until(f->world, f->world->now_ns + (1 + random_below(&random, 5000)) * NS_PER_MS);
        assert_int_equal(f->world->leader, 0);
    }
}

/* The leader's messages are lost for two thirds of the timeout; after that, it answers a probe at once. */
static void a_leader_that_answers_a_probe_is_not_deposed(void **state) { /* F-31a */
    struct fx *f = *state;
    f->world->network.cut_from[0] = true;
    SIM_ELAPSE(f, 160);
    f->world->network.cut_from[0] = false;
    SIM_ELAPSE(f, 3000);
    SIM_QUIET(f);
    assert_int_equal(f->world->leader, 0);
}

/* The leader's connections break, and its host refuses a new one. So the follower does not wait for 300 ms of silence.
 */
static void a_leader_whose_process_has_died_is_followed_at_once(void **state) { /* F-10 */
    struct fx *f = *state;
    kill_node(f, 0, HOST_KILLED);
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[1000] node 0 is killed\n"
                 "[1001] node 1 finds no process where its leader was\n"
                 "[1003] node 1 fences, epoch 2\n"
                 "[1003] node 1 claims, epoch 2\n"
                 "[1004] record epoch 2, node 1 leads, in sync 1\n"
                 "[1005] node 1 leads, epoch 2\n"
                 "[1005] node 1 serves alone\n"
                 "[1005] node 1 starts, epoch 2\n"
                 "[1005] node 1 append #8 epoch 2\n"
                 "[1005] node 1 append #9 alone\n"
                 "[1005] node 1 is primary\n"
                 "[1015] node 1 durable #9\n"
                 "[1015] node 1 committed #9\n");
    assert_int_equal(f->world->leader, 1);
}

/* A host without power refuses no connection. So the follower waits for 300 ms of silence. */
static void a_leader_whose_host_has_died_is_silent_first(void **state) { /* F-10 */
    struct fx *f = *state;
    kill_node(f, 0, HOST_POWER_LOST);
    SIM_ELAPSE(f, 200);
    SIM_TRACE(f, "[1000] node 0 loses power\n");
    SIM_ELAPSE(f, 200);
    SIM_TRACE(f, "[1261] node 1 fences, epoch 2\n"
                 "[1261] node 1 claims, epoch 2\n"
                 "[1262] record epoch 2, node 1 leads, in sync 1\n"
                 "[1263] node 1 leads, epoch 2\n"
                 "[1263] node 1 serves alone\n"
                 "[1263] node 1 starts, epoch 2\n"
                 "[1263] node 1 append #8 epoch 2\n"
                 "[1263] node 1 append #9 alone\n"
                 "[1263] node 1 is primary\n"
                 "[1273] node 1 durable #9\n"
                 "[1273] node 1 committed #9\n");
    assert_int_equal(f->world->leader, 1);
}

/* Only the link between the nodes is cut. They reach the coordinator, which reports that the leader is present. */
static void a_leader_that_is_present_goes_on_alone(void **state) { /* F-31c */
    struct fx *f = *state;
    f->world->network.cut_from[0] = f->world->network.cut_from[1] = true;
    struct request *request = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 5000);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] node 0 append #8 queue orders\n"
                 "[1001] node 0 append #9 scheduled 1\n"
                 "[1011] node 0 durable #9\n"
                 "[1559] record epoch 1, node 0 leads, in sync 0\n"
                 "[1560] node 0 committed #9\n"
                 "[1560] node 0 serves alone\n"
                 "[1560] node 0 append #10 alone\n"
                 "[1561] shop < scheduled, task 1 #3\n"
                 "[1570] node 0 durable #10\n"
                 "[1570] node 0 committed #10\n");
    assert_int_equal(f->world->leader, 0);
    assert_true(request->answered);
    f->world->network.cut_from[0] = f->world->network.cut_from[1] = false;
    SIM_ELAPSE(f, 2000);
    SIM_TRACE(f, "[6673] node 1 has #11\n"
                 "[6675] record epoch 1, node 0 leads, in sync 0 1\n"
                 "[6676] node 0 serves alone no more\n"
                 "[6676] node 0 append #12 alone no more\n"
                 "[6686] node 0 durable #12\n"
                 "[6687] node 1 has #12\n"
                 "[6688] node 0 committed #12\n");
}

/* A presence at the coordinator ends some time after the process of its node has ended. */
static void a_leader_that_is_present_no_more_is_followed(void **state) { /* F-31c */
    struct fx *f = *state;
    world_pause(f->world, 0, 60000);
    SIM_ELAPSE(f, 1000);
    SIM_TRACE(f, "[1000] operator stops node 0 for 60000 ms\n"
                 "[1261] node 1 fences, epoch 2\n"
                 "[1261] node 1 claims, epoch 2\n"
                 "[1262] record epoch 2, node 1 leads, in sync 1\n"
                 "[1263] node 1 leads, epoch 2\n"
                 "[1263] node 1 serves alone\n"
                 "[1263] node 1 starts, epoch 2\n"
                 "[1263] node 1 append #8 epoch 2\n"
                 "[1263] node 1 append #9 alone\n"
                 "[1263] node 1 is primary\n"
                 "[1273] node 1 durable #9\n"
                 "[1273] node 1 committed #9\n");
    assert_int_equal(f->world->leader, 1);
}

/* The coordinator still reports a node as present after a minute. The follower asks the node through the coordinator,
 * and gets no answer. */
static int ghost_setup(void **state) {
    if (story_setup(state) != 0) return 1;
    struct world_options options = pair_options();
    options.pair.solo_after_ms = UINT64_MAX;
    options.pair.presence_ms = 60000;
    story_begin_again(*state, &options);
    return 0;
}

#define GHOST_STORY(test) cmocka_unit_test_setup_teardown(test, ghost_setup, story_teardown)

static bool is_present(const struct fx *f, uint32_t node) {
    return f->world->registrar->present_until_ns[node] > f->world->now_ns;
}

static void a_dead_host_that_is_taken_for_present_is_followed(void **state) { /* F-10, F-31c */
    struct fx *f = *state;
    kill_node(f, 0, HOST_POWER_LOST);
    SIM_ELAPSE(f, 500);
    SIM_TRACE(f, "[1000] node 0 loses power\n");
    SIM_ELAPSE(f, 60);
    assert_true(is_present(f, 0));
    assert_int_equal(f->world->leader, 1);
    SIM_SKIP(f);
}

/* The nodes reach the coordinator, but not each other: no node claims leadership, however long that takes. After that,
 * the leader's host dies. */
static void a_leader_that_answers_at_the_coordinator_is_not_deposed(void **state) { /* F-31c */
    struct fx *f = *state;
    f->world->network.cut_from[0] = f->world->network.cut_from[1] = true;
    for (int i = 0; i < 600; i++) {
        SIM_ELAPSE(f, 100);
        assert_int_equal(f->world->leader, 0);
    }
    SIM_QUIET(f);
    kill_node(f, 0, HOST_POWER_LOST);
    SIM_ELAPSE(f, 2500);
    assert_true(is_present(f, 0));
    assert_int_equal(f->world->leader, 1);
    SIM_SKIP(f);
}

/* The follower is silent while the leader's disk begins to hang. So the leader cannot tell the follower to take over,
 * because it could only do so in an answer. Instead, the leader stops writing its presence, although the coordinator
 * still has the old one. */
static void a_leader_whose_disk_hangs_is_followed_although_it_is_present(void **state) { /* F-31a, F-31c */
    struct fx *f = *state;
    SIM_ELAPSE(f, 30000);
    world_enter(f->world, 0);
    host_hold_sync(f->world);
    world_enter(f->world, WORLD_OUTSIDE);
    client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, LEADER_DISK_HUNG_MS - 200);
    f->world->network.cut_from[1] = true;
    SIM_ELAPSE(f, 500);
    assert_int_equal(f->world->leader, 0);
    SIM_ELAPSE(f, 1000);
    assert_true(is_present(f, 0));
    assert_int_equal(f->world->leader, 1);
    SIM_SKIP(f);
}

/* The coordinator accepts no message of the follower. So the follower cannot ask the leader for a sign of life, and
 * must not depose a silent leader. */
static void who_cannot_ask_at_the_coordinator_deposes_nobody(void **state) { /* F-31c */
    struct fx *f = *state;
    f->world->network.cut_from[0] = f->world->network.cut_from[1] = true;
    f->world->registrar->cut[1] = true;
    SIM_ELAPSE(f, 30000);
    registrar_heal(f->world);
    f->world->registrar->cut[0] = true;
    SIM_ELAPSE(f, 800);
    SIM_QUIET(f);
    assert_int_equal(f->world->leader, 0);
}

/* A reply may take longer than the silence after which the follower probes its leader and asks again. The follower
 * still accepts the reply. */
static void answers_that_are_slow_are_taken(void **state) { /* F-16 */
    struct fx *f = *state;
    f->world->options.net.least_us = 200000;
    struct request *request = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 4000);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1200] node 0 append #6 queue orders\n"
                 "[1200] node 0 append #7 scheduled 1\n"
                 "[1210] node 0 durable #7\n"
                 "[1668] node 1 has #7\n"
                 "[1868] node 0 committed #7\n"
                 "[2068] shop < scheduled, task 1 #3\n");
    assert_true(request->answered);
    assert_int_equal(f->world->leader, 0);
}

static void a_pair_whose_hosts_stood_still_goes_on_as_it_was(void **state) { /* F-13 */
    struct fx *f = *state;
    world_pause(f->world, 1, 2000);
    world_pause(f->world, 0, 2000);
    SIM_ELAPSE(f, 4000);
    SIM_TRACE(f, "[1000] operator stops node 1 for 2000 ms\n"
                 "[1000] operator stops node 0 for 2000 ms\n"
                 "[3000] node 1 has overslept, and gives the other node its time again\n"
                 "[3000] node 0 has overslept, and gives the other node its time again\n");
    assert_int_equal(f->world->leader, 0);
}

/* The disk's delay is slightly longer than the leader's pause. That does not mean that the disk hangs. */
static void a_leader_that_stood_still_in_a_sync_does_not_take_its_disk_for_hung(void **state) { /* F-13, F-31a */
    struct fx *f = *state;
    enum { STILL_MS = 2 * LEADER_DISK_HUNG_MS };
    struct host *leader = &f->world->hosts[0];
    world_enter(f->world, 0);
    host_hold_sync(f->world);
    world_enter(f->world, WORLD_OUTSIDE);
    client_schedule(f->shop, .delay_ms = 60000);
    SIM_ELAPSE(f, 50);
    assert_int_not_equal(leader->sync_since_ns, 0);
    world_pause(f->world, 1, STILL_MS);
    world_pause(f->world, 0, STILL_MS);
    SIM_ELAPSE(f, STILL_MS + 200);
    world_enter(f->world, 0);
    host_release_sync(f->world);
    world_enter(f->world, WORLD_OUTSIDE);
    SIM_ELAPSE(f, 2000);
    assert_int_equal(f->world->leader, 0);
    assert_int_equal(leader->node->pair.epoch, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PAIR_STORY(a_follower_that_stops_in_order_is_not_waited_for),
        PAIR_STORY(a_follower_whose_process_has_died_is_not_waited_for),
        PAIR_STORY(a_follower_whose_host_has_died_is_silent_first),
        STRICT_STORY(a_follower_that_stood_still_does_not_depose_a_healthy_leader),
        STRICT_STORY(no_pause_of_a_follower_deposes_a_healthy_leader),
        STRICT_STORY(a_leader_that_answers_a_probe_is_not_deposed),
        PAIR_STORY(a_leader_whose_process_has_died_is_followed_at_once),
        PAIR_STORY(a_leader_whose_host_has_died_is_silent_first),
        PAIR_STORY(a_leader_that_is_present_goes_on_alone),
        PAIR_STORY(a_leader_that_is_present_no_more_is_followed),
        GHOST_STORY(a_dead_host_that_is_taken_for_present_is_followed),
        GHOST_STORY(a_leader_that_answers_at_the_coordinator_is_not_deposed),
        GHOST_STORY(a_leader_whose_disk_hangs_is_followed_although_it_is_present),
        GHOST_STORY(who_cannot_ask_at_the_coordinator_deposes_nobody),
        STRICT_STORY(answers_that_are_slow_are_taken),
        PAIR_STORY(a_pair_whose_hosts_stood_still_goes_on_as_it_was),
        PAIR_STORY(a_leader_that_stood_still_in_a_sync_does_not_take_its_disk_for_hung),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
