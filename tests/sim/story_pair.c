/* story_pair.c: stories of two nodes and a coordinator, line by line: which node leads, which node may reply, and
 * what happens to frames that were never acknowledged. Every story begins with node 0 as the leader and node 1 in
 * sync. */
#include "pair_story.h"
#include "quarantine.h"
#include "registrar.h"

static struct request *look(struct client *client, const char *key) {
    struct world *world = client->world;
    Tarry__Request *body = world_alloc(world, sizeof *body);
    tarry__request__init(body);
    body->body_case = TARRY__REQUEST__BODY_GET;
    body->get = world_alloc(world, sizeof *body->get);
    tarry__get__init(body->get);
    body->get->task = op_ref(world, "orders", key, 0);
    return client_ask(client, body);
}

static void cut_off(struct fx *f, uint32_t node, bool cut) {
    f->world->network.cut_from[0] = f->world->network.cut_from[1] = cut;
    if (cut)
        f->world->registrar->cut[node] = true;
    else
        registrar_heal(f->world);
}

static void an_answer_waits_for_both_disks(void **state) { /* F-24: R3 */
    struct fx *f = *state;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 60);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] node 0 append #8 queue orders\n"
                 "[1001] node 0 append #9 scheduled 1\n"
                 "[1011] node 0 durable #9\n"
                 "[1012] node 1 has #9\n"
                 "[1013] node 0 committed #9\n"
                 "[1014] shop < scheduled, task 1 #3\n");
}

static void a_leader_that_is_cut_off_answers_nobody(void **state) { /* Proves F-24 (split brain). */
    struct fx *f = *state;
    cut_off(f, 0, true);
    struct request *lost = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    struct request *question = look(f->worker, "order-1");
    SIM_ELAPSE(f, 1500);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] node 0 append #8 queue orders\n"
                 "[1001] node 0 append #9 scheduled 1\n"
                 "[1011] node 0 durable #9\n"
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
                 "[1273] node 1 committed #9\n"
                 "[2011] node 0 waits for its follower, and says so\n");
    assert_false(lost->answered); /* no reply: the coordinator cannot be reached, so the follower stays in sync in the
                                     pair's record */
    assert_false(question->answered);
    f->shop->node = 1;
    client_repeat_open(f->shop);
    SIM_ELAPSE(f, 60);
    SIM_TRACE(f, "[2501] node 1 append #11 queue orders\n"
                 "[2501] node 1 append #12 scheduled 1\n"
                 "[2511] node 1 durable #12\n"
                 "[2511] node 1 committed #12\n"
                 "[2512] shop < scheduled, task 1 #3\n");
    assert_true(lost->answered);
}

static void an_old_leader_returns_and_what_nobody_was_told_is_put_aside(void **state) { /* F-25, F-26 */
    struct fx *f = *state;
    cut_off(f, 0, true);
    (void)client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 1500);
    SIM_SKIP(f);
    cut_off(f, 0, false);
    SIM_ELAPSE(f, 6000); /* waits until a call to the coordinator has ended by its timeout of 5 s */
    SIM_TRACE(f, "[6560] node 0 has ended, epoch 1\n"
                 "[6560] node 0 is deposed: another node leads\n"
                 "[6565] node 0 is killed\n"
                 "[6565] node 0 starts\n"
                 "[6567] node 0 follows, epoch 0\n"
                 "[6571] node 0 cuts #8 to #9\n"
                 "[6583] node 0 has #10\n"
                 "[6585] record epoch 2, node 1 leads, in sync 0 1\n"
                 "[6586] node 1 serves alone no more\n"
                 "[6586] node 1 append #11 alone no more\n"
                 "[6596] node 1 durable #11\n"
                 "[6597] node 0 has #11\n"
                 "[6598] node 1 committed #11\n");
    assert_int_equal(f->world->hosts[0].node->cuts, 1);
    assert_int_equal(f->world->hosts[0].frame_count, f->world->hosts[1].frame_count);
}

/* A thread takes 100 ms to wake up. The follower reads the data for an answer just before it applies a frame. It sends
 * the answer later, when the leader's reply about that frame has arrived. The follower must not take replies that
 * arrive after the read as proof of how fresh the answer is. */
static void what_a_follower_hears_once_it_has_read_says_nothing_of_its_answer(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    f->world->options.wake = (struct span){100000, 0};
    f->worker->node = 1;
    for (uint64_t later_ms = 400; later_ms < 700; later_ms += 3) {
        (void)client_schedule(f->shop, .delay_ms = 600000);
        SIM_ELAPSE(f, later_ms);
        struct request *question = look(f->worker, "order-1");
        SIM_ELAPSE(f, 1000);
        assert_true(question->answered); /* the answer has come, and node_check_fresh has checked its age */
    }
    SIM_SKIP(f);
}

static void a_follower_that_falls_silent_is_waited_for_until_the_record_says_otherwise(void **state) { /* F-27 */
    struct fx *f = *state;
    world_pause(f->world, 1, 2000);
    struct request *request = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 500);
    SIM_TRACE(f, "[1000] operator stops node 1 for 2000 ms\n"
                 "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] node 0 append #8 queue orders\n"
                 "[1001] node 0 append #9 scheduled 1\n"
                 "[1011] node 0 durable #9\n");
    assert_false(request->answered);
    SIM_ELAPSE(f, 500);
    SIM_TRACE(f, "[1559] record epoch 1, node 0 leads, in sync 0\n"
                 "[1560] node 0 committed #9\n"
                 "[1560] node 0 serves alone\n"
                 "[1560] node 0 append #10 alone\n"
                 "[1561] shop < scheduled, task 1 #3\n"
                 "[1570] node 0 durable #10\n"
                 "[1570] node 0 committed #10\n");
    assert_true(request->answered);
    SIM_ELAPSE(f, 1500); /* node 1 continues, gets the missed frames, and counts as in sync again */
    SIM_TRACE(f, "[3000] node 1 has overslept, and gives the other node its time again\n"
                 "[3010] node 1 has #9\n"
                 "[3022] node 1 has #11\n"
                 "[3024] record epoch 1, node 0 leads, in sync 0 1\n"
                 "[3025] node 0 serves alone no more\n"
                 "[3025] node 0 append #12 alone no more\n"
                 "[3035] node 0 durable #12\n"
                 "[3036] node 1 has #12\n"
                 "[3037] node 0 committed #12\n");
}

static void in_strict_mode_nothing_is_answered_without_the_follower(void **state) { /* F-27 */
    struct fx *f = *state;
    kill_node(f, 1, HOST_KILLED);
    struct request *request = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 5000);
    SIM_TRACE(f, "[1000] node 1 is killed\n"
                 "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] node 0 finds no process where its follower was\n"
                 "[1001] node 0 append #6 queue orders\n"
                 "[1001] node 0 append #7 scheduled 1\n"
                 "[1011] node 0 durable #7\n"
                 "[2011] node 0 waits for its follower, and says so\n");
    assert_false(request->answered);
    assert_true(start_node(f, 1));
    SIM_ELAPSE(f, 500);
    SIM_TRACE(f, "[6000] node 1 starts\n"
                 "[6002] node 1 follows, epoch 0\n"
                 "[6014] node 1 has #7\n"
                 "[6015] node 0 committed #7\n"
                 "[6015] node 0 is confirmed again\n"
                 "[6016] shop < scheduled, task 1 #3\n");
    assert_true(request->answered);
}

static void a_follower_whose_disk_is_full_costs_time_and_nothing_else(void **state) { /* F-28 */
    struct fx *f = *state;
    struct model_disk *disk = f->world->hosts[1].disk;
    disk->fail_at = disk->calls + 1;
    disk->fail_error = -ENOSPC;
    struct request *request = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 1000);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] node 0 append #8 queue orders\n"
                 "[1001] node 0 append #9 scheduled 1\n"
                 "[1002] node 1 fails: cannot copy frames: -28\n"
                 "[1011] node 0 durable #9\n"
                 "[1559] record epoch 1, node 0 leads, in sync 0\n"
                 "[1560] node 0 committed #9\n"
                 "[1560] node 0 serves alone\n"
                 "[1560] node 0 append #10 alone\n"
                 "[1561] shop < scheduled, task 1 #3\n"
                 "[1570] node 0 durable #10\n"
                 "[1570] node 0 committed #10\n");
    assert_true(request->answered);
    assert_true(start_node(f, 1)); /* the disk has free space again */
    SIM_ELAPSE(f, 500);
    SIM_TRACE(f, "[2000] node 1 cuts a torn tail of 134 bytes\n"
                 "[2000] node 1 lost #8 to #9, never promised\n"
                 "[2000] node 1 starts\n"
                 "[2002] node 1 follows, epoch 0\n"
                 "[2014] node 1 has #11\n"
                 "[2016] record epoch 1, node 0 leads, in sync 0 1\n"
                 "[2017] node 0 serves alone no more\n"
                 "[2017] node 0 append #12 alone no more\n"
                 "[2027] node 0 durable #12\n"
                 "[2028] node 1 has #12\n"
                 "[2029] node 0 committed #12\n");
}

static void a_new_disk_is_nobody_until_the_record_lets_it_in(void **state) { /* F-29 */
    struct fx *f = *state;
    kill_node(f, 1, HOST_POWER_LOST);
    wipe_node(f, 1);
    assert_true(start_node(f, 1));
    SIM_ELAPSE(f, 400);
    SIM_TRACE(f, "[1000] node 1 loses power\n"
                 "[1000] operator gives node 1 a new, empty disk\n"
                 "[1000] node 1 starts\n"
                 "[1002] node 1 follows, epoch 0\n"
                 "[1003] node 0 refuses node 1: this node's disk is new, and the pair still waits for the node's "
                 "former disk. With a coordinator the pair accepts the new disk after solo-after; without one, run "
                 "'tarry promote --peer-is-stopped' at the primary\n"
                 "[1151] node 0 refuses node 1: this node's disk is new, and the pair still waits for the node's "
                 "former disk. With a coordinator the pair accepts the new disk after solo-after; without one, run "
                 "'tarry promote --peer-is-stopped' at the primary\n"
                 "[1226] node 0 refuses node 1: this node's disk is new, and the pair still waits for the node's "
                 "former disk. With a coordinator the pair accepts the new disk after solo-after; without one, run "
                 "'tarry promote --peer-is-stopped' at the primary\n"
                 "[1301] node 0 refuses node 1: this node's disk is new, and the pair still waits for the node's "
                 "former disk. With a coordinator the pair accepts the new disk after solo-after; without one, run "
                 "'tarry promote --peer-is-stopped' at the primary\n"
                 "[1305] node 0 refuses node 1: this node's disk is new, and the pair still waits for the node's "
                 "former disk. With a coordinator the pair accepts the new disk after solo-after; without one, run "
                 "'tarry promote --peer-is-stopped' at the primary\n");
    SIM_ELAPSE(f, 2500);
    SIM_TRACE(f, "[1559] record epoch 1, node 0 leads, in sync 0\n"
                 "[1560] node 0 serves alone\n"
                 "[1560] node 0 append #8 alone\n"
                 "[1570] node 0 durable #8\n"
                 "[1570] node 0 committed #8\n"
                 "[1576] node 1 has #5\n"
                 "[1588] node 1 has #8\n"
                 "[1590] record epoch 1, node 0 leads, in sync 0 1\n"
                 "[1591] node 0 serves alone no more\n"
                 "[1591] node 0 append #10 alone no more\n"
                 "[1600] node 0 durable #9\n"
                 "[1601] node 1 has #9\n"
                 "[1602] node 0 committed #9\n"
                 "[1610] node 0 durable #10\n"
                 "[1613] node 1 has #10\n"
                 "[1614] node 0 committed #10\n");
    assert_int_equal(f->world->hosts[0].frame_count, f->world->hosts[1].frame_count);
}

static void a_directory_of_another_cluster_is_refused(void **state) { /* F-29 */
    struct fx *f = *state;
    struct node *node = f->world->hosts[1].node;
    kill_node(f, 1, HOST_KILLED);
    node->may_refuse = true;
    node->cluster[0]++;
    assert_true(start_node(f, 1));
    SIM_ELAPSE(f, 400);
    assert_int_equal(f->world->hosts[1].state, HOST_REFUSED);
    assert_non_null(strstr(f->world->hosts[1].message, "another cluster"));
    SIM_SKIP(f);
}

static void a_coordinator_whose_reply_is_lost_has_done_it_or_not(void **state) { /* F-30: R4 */
    struct fx *f = *state;
    f->world->registrar->lost_permille = 640; /* 64 % of the requests and replies are lost */
    kill_node(f, 1, HOST_KILLED);
    struct request *request = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 60000);
    SIM_TRACE(f, "[1000] node 1 is killed\n"
                 "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] node 0 finds no process where its follower was\n"
                 "[1001] node 0 append #8 queue orders\n"
                 "[1001] node 0 append #9 scheduled 1\n"
                 "[1002] record epoch 1, node 0 leads, in sync 0\n"
                 "[1011] node 0 durable #9\n"
                 "[2011] node 0 waits for its follower, and says so\n"
                 "[6003] node 0 committed #9\n"
                 "[6003] node 0 is confirmed again\n"
                 "[6003] node 0 serves alone\n"
                 "[6003] node 0 append #10 alone\n"
                 "[6004] shop < scheduled, task 1 #3\n"
                 "[6013] node 0 durable #10\n"
                 "[6013] node 0 committed #10\n");
    assert_true(request->answered);
}

static void a_coordinator_that_nobody_reaches_stops_nothing_but_changes(void **state) { /* F-30 */
    struct fx *f = *state;
    f->world->registrar->cut[0] = f->world->registrar->cut[1] = true;
    (void)client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 3000);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1001] node 0 append #8 queue orders\n"
                 "[1001] node 0 append #9 scheduled 1\n"
                 "[1011] node 0 durable #9\n"
                 "[1012] node 1 has #9\n"
                 "[1013] node 0 committed #9\n"
                 "[1014] shop < scheduled, task 1 #3\n");
    kill_node(f, 1, HOST_KILLED);
    struct request *request = client_schedule(f->shop, .key = "order-2", .delay_ms = 60000);
    SIM_ELAPSE(f, 3000);
    assert_false(request->answered); /* the leader may serve alone only after it has written the record */
    f->world->registrar->cut[0] = false;
    SIM_ELAPSE(f, 6000);
    assert_true(request->answered);
    SIM_SKIP(f);
}

static void a_planned_switch_over_loses_nothing_and_refuses_for_a_moment(void **state) { /* F-26 */
    struct fx *f = *state;
    node_tell(f->world, 0, PAIR_HAND_OVER);
    SIM_ELAPSE(f, 2);
    struct request *request = client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 1000);
    SIM_TRACE(f, "[1000] operator tells node 0: hand over\n"
                 "[1002] shop > schedule orders order-1 in 60000 ms #3\n"
                 "[1003] node 1 fences, epoch 2\n"
                 "[1003] node 1 claims, epoch 2\n"
                 "[1004] record epoch 2, node 1 leads, in sync 1\n"
                 "[1004] shop < refused: busy #3\n"
                 "[1005] node 1 leads, epoch 2\n"
                 "[1005] node 1 serves alone\n"
                 "[1005] node 1 starts, epoch 2\n"
                 "[1005] node 1 append #8 epoch 2\n"
                 "[1005] node 1 append #9 alone\n"
                 "[1005] node 1 is primary\n"
                 "[1007] node 0 has ended, epoch 1\n"
                 "[1007] node 0 is deposed: another node leads\n"
                 "[1012] node 0 is killed\n"
                 "[1012] node 0 starts\n"
                 "[1014] node 0 follows, epoch 0\n"
                 "[1015] node 1 durable #9\n"
                 "[1015] node 1 committed #9\n"
                 "[1028] node 0 has #9\n"
                 "[1030] record epoch 2, node 1 leads, in sync 0 1\n"
                 "[1031] node 1 serves alone no more\n"
                 "[1031] node 1 append #10 alone no more\n"
                 "[1041] node 1 durable #10\n"
                 "[1042] node 0 has #10\n"
                 "[1043] node 1 committed #10\n");
    f->shop->node = 1;
    client_repeat_open(f->shop);
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[2003] node 1 append #12 queue orders\n"
                 "[2003] node 1 append #13 scheduled 1\n"
                 "[2013] node 1 durable #13\n"
                 "[2014] node 0 has #13\n"
                 "[2015] node 1 committed #13\n"
                 "[2016] shop < scheduled, task 1 #3\n");
    assert_true(request->answered);
}

/* The first reply to the follower is quick, and later ones are slow. So the follower's later estimates of the leader's
 * clock are earlier than its first one. The node's next start must continue from the time at its promotion; otherwise a
 * task scheduled meanwhile would be early. */
static void a_promotions_clock_is_what_the_next_start_goes_on_from(void **state) { /* TIME-1 */
    struct fx *f = *state;
    f->world->options.net = (struct span){60000, 0};
    SIM_ELAPSE(f, 1000);
    kill_node(f, 0, HOST_KILLED);
    SIM_ELAPSE(f, 2000);
    f->shop->node = 1;
    struct request *request = client_schedule(f->shop, .key = "order-1", .delay_ms = 5000);
    SIM_ELAPSE(f, 200);
    assert_true(request->answered);
    SIM_SKIP(f);
    kill_node(f, 1, HOST_KILLED);
    assert_true(start_node(f, 1));
    f->worker->node = 1;
    SIM_ELAPSE(f, 1000);
    subscribe(f->worker, "orders");
    SIM_ELAPSE(f, 5000); /* the ledger checks that the task is not early by the true time */
    assert_int_equal(f->worker->held_count, 1);
    SIM_TRACE(f, "[4200] node 1 is killed\n"
                 "[4200] node 1 starts\n"
                 "[4320] node 1 fences, epoch 3\n"
                 "[4320] node 1 claims, epoch 3\n"
                 "[4380] record epoch 3, node 1 leads, in sync 1\n"
                 "[4440] node 1 leads, epoch 3\n"
                 "[4440] node 1 serves alone\n"
                 "[4440] node 1 starts, epoch 3\n"
                 "[4440] node 1 append #14 epoch 3\n"
                 "[4440] node 1 append #15 alone\n"
                 "[4440] node 1 is primary\n"
                 "[4440] node 1 committed #13\n"
                 "[4450] node 1 durable #15\n"
                 "[4450] node 1 committed #15\n"
                 "[5200] worker > subscribe\n"
                 "[5260] node 1 append #17 session\n"
                 "[5270] node 1 durable #17\n"
                 "[5270] node 1 committed #17\n"
                 "[5330] worker < a lane\n"
                 "[5390] node 1 lane of worker is up\n"
                 "[9010] node 1 append #19 leased 1\n"
                 "[9020] node 1 durable #19\n"
                 "[9020] node 1 committed #19\n"
                 "[9120] worker gets task 1, delivery 1\n");
}

/* The node's wall clock is slow, so its wall time stays at the last frame's time. Its core replays no frame, because
 * the index is complete. So the core knows no time before it leads. The node's process runs again after a stop. Its
 * first frame must still not be earlier than the log's last one (pair history 4000226 of commit 1ce1971). */
static void who_leads_as_it_wakes_up_does_not_put_time_back(void **state) { /* TIME-2 */
    struct fx *f = *state;
    stop_node(f, 1);
    world_enter(f->world, 1);
    world_jump_wall(f->world, -3600000);
    world_enter(f->world, WORLD_OUTSIDE);
    SIM_ELAPSE(f, 1000);
    assert_true(start_node(f, 1));
    SIM_ELAPSE(f, 3000);
    client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 400);
    kill_node(f, 1, HOST_KILLED);
    const struct host *host = &f->world->hosts[1];
    assert_int_equal(host->table.flat.position, host->frames[host->frame_count - 1].end);
    assert_true(start_node(f, 1));
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    world_pause(f->world, 1, 2000);
    kill_node(f, 0, HOST_KILLED);
    SIM_ELAPSE(f, 2100); /* flat.c checks that the first frame's time is not before the last one's */
    SIM_TRACE(f, "[5500] operator stops node 1 for 2000 ms\n"
                 "[5500] node 0 is killed\n"
                 "[7500] node 1 has overslept, and gives the other node its time again\n"
                 "[7500] node 1 finds no process where its leader was\n"
                 "[7502] node 1 fences, epoch 2\n"
                 "[7502] node 1 claims, epoch 2\n"
                 "[7503] record epoch 2, node 1 leads, in sync 1\n"
                 "[7504] node 1 leads, epoch 2\n"
                 "[7504] node 1 serves alone\n"
                 "[7504] node 1 starts, epoch 2\n"
                 "[7504] node 1 append #15 epoch 2\n"
                 "[7504] node 1 append #16 alone\n"
                 "[7504] node 1 is primary\n"
                 "[7514] node 1 durable #16\n"
                 "[7514] node 1 committed #16\n");
    assert_int_equal(f->world->leader, 1);
}

/* ---- the leader keeps only the log that it must keep */

static int setup_retiring(void **state) {
    if (story_setup(state) != 0) return 1;
    struct world_options options = pair_options();
    options.retain_size = options.pair.keep_ms = 0;
    options.segment_size = 1024;
    story_begin_again(*state, &options);
    return 0;
}

static void schedule_some(struct fx *f, uint32_t node, size_t count) {
    f->shop->node = node;
    for (size_t i = 0; i < count; i++) {
        (void)client_schedule(f->shop, .delay_ms = 600000);
        SIM_ELAPSE(f, 100);
    }
    SIM_SKIP(f);
}

static void a_follower_that_was_away_for_too_long_begins_with_a_snapshot(void **state) { /* F-27 */
    struct fx *f = *state;
    kill_node(f, 1, HOST_KILLED);
    schedule_some(f, 0, 20);
    assert_true(log_start(f->world->hosts[0].log) > f->world->hosts[1].promised);
    assert_true(start_node(f, 1));
    SIM_ELAPSE(f, 3000);
    assert_int_equal(f->world->hosts[1].state,
                     HOST_DOWN); /* the node fetches a snapshot, and continues at its next start */
    assert_true(start_node(f, 1));
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[3000] node 1 starts\n"
                 "[3002] node 1 follows, epoch 0\n"
                 "[3004] node 1 has ended, epoch 0\n"
                 "[3004] node 1 needs a snapshot: it knows what is committed up to #7\n"
                 "[3009] node 1 is killed\n"
                 "[3010] node 1 fetches a snapshot of node 0, up to #49\n"
                 "[6000] node 1 starts\n"
                 "[6002] node 1 follows, epoch 0\n"
                 "[6004] record epoch 1, node 0 leads, in sync 0 1\n"
                 "[6005] node 0 serves alone no more\n"
                 "[6005] node 0 append #50 alone no more\n"
                 "[6015] node 0 durable #50\n"
                 "[6016] node 1 has #50\n"
                 "[6017] node 0 committed #50\n");
    assert_int_equal(f->world->hosts[1].node->snapshots, 1);
    assert_int_equal(f->world->hosts[0].frame_count, f->world->hosts[1].frame_count);
}

/* Proves R8, F-25 and F-26. */
static void where_the_two_parted_is_retired_and_what_the_old_leader_wrote_is_kept(void **state) {
    struct fx *f = *state;
    struct node *old = f->world->hosts[0].node;
    cut_off(f, 0, true);
    schedule_some(f, 0, 12); /* makes commits whose clients get no reply */
    SIM_ELAPSE(f, 1000);
    schedule_some(f, 1, 6);
    uint64_t start = log_start(f->world->hosts[1].log);
    assert_true(start > old->committed && start < log_end(f->world->hosts[0].log));
    cut_off(f, 0, false);
    SIM_ELAPSE(f, 6000);
    SIM_TRACE(f, "[3811] node 1 retired what is below #21\n"
                 "[6560] node 0 has ended, epoch 1\n"
                 "[6560] node 0 is deposed: another node leads\n"
                 "[6565] node 0 is killed\n"
                 "[6565] node 0 starts\n"
                 "[6567] node 0 follows, epoch 0\n"
                 "[6571] node 0 has ended, epoch 0\n"
                 "[6571] node 0 needs a snapshot: it knows what is committed up to #7\n"
                 "[6576] node 0 is killed\n"
                 "[6577] node 0 fetches a snapshot of node 1, up to #23\n");
    SIM_ELAPSE(f, 2500);
    assert_true(start_node(f, 0));
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[12300] node 0 starts\n"
                 "[12302] node 0 follows, epoch 0\n"
                 "[12304] record epoch 2, node 1 leads, in sync 0 1\n"
                 "[12305] node 1 serves alone no more\n"
                 "[12305] node 1 append #24 alone no more\n"
                 "[12315] node 1 durable #24\n"
                 "[12316] node 0 has #24\n"
                 "[12317] node 1 committed #24\n");
    assert_int_equal(f->world->hosts[0].frame_count, f->world->hosts[1].frame_count);
    struct quarantine quarantine = {.disk = &old->pair_disk->disk, .directory = "/data/quarantine"};
    struct quarantine_tail *tails;
    size_t count;
    assert_int_equal(quarantine_list(&quarantine, &tails, &count), 0);
    assert_int_equal(count, 1);
    assert_true(tails[0].base < start && start < tails[0].end);
    free(tails);
}

#define RETIRING_STORY(test) cmocka_unit_test_setup_teardown(test, setup_retiring, story_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        PAIR_STORY(an_answer_waits_for_both_disks),
        PAIR_STORY(a_leader_that_is_cut_off_answers_nobody),
        PAIR_STORY(an_old_leader_returns_and_what_nobody_was_told_is_put_aside),
        PAIR_STORY(what_a_follower_hears_once_it_has_read_says_nothing_of_its_answer),
        PAIR_STORY(a_follower_that_falls_silent_is_waited_for_until_the_record_says_otherwise),
        STRICT_STORY(in_strict_mode_nothing_is_answered_without_the_follower),
        PAIR_STORY(a_follower_whose_disk_is_full_costs_time_and_nothing_else),
        PAIR_STORY(a_new_disk_is_nobody_until_the_record_lets_it_in),
        PAIR_STORY(a_directory_of_another_cluster_is_refused),
        PAIR_STORY(a_coordinator_whose_reply_is_lost_has_done_it_or_not),
        PAIR_STORY(a_coordinator_that_nobody_reaches_stops_nothing_but_changes),
        PAIR_STORY(a_planned_switch_over_loses_nothing_and_refuses_for_a_moment),
        PAIR_STORY(a_promotions_clock_is_what_the_next_start_goes_on_from),
        PAIR_STORY(who_leads_as_it_wakes_up_does_not_put_time_back),
        RETIRING_STORY(a_follower_that_was_away_for_too_long_begins_with_a_snapshot),
        RETIRING_STORY(where_the_two_parted_is_retired_and_what_the_old_leader_wrote_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
