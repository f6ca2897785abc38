/* story_lease.c: promises to a consumer, and promises to other clients if a consumer is slow, cut off, dead or lies
 * (FENCE-1, F-13, F-15, F-17, F-19, F-23, F-40). */
#include "story.h"

/* Adds a second consumer of the queue "orders". */
static struct client *second_worker(struct fx *f) {
    struct client *second = client_new(f->world, "second");
    client_hello(second);
    SIM_ELAPSE(f, 30);
    return second;
}

/* ---- FENCE-1: a token only grows */

/* Proves FENCE-1, F-13 and F-19. */
static void a_stopped_worker_that_wakes_up_is_told(void **state) {
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    struct held old = f->worker->held[0];
    f->worker->link.cut_up = f->worker->link.cut_down =
        true; /* the worker's process is stopped, so it sends neither heartbeats nor acks */
    struct client *second = second_worker(f);
    subscribe(second, "orders");
    SIM_SKIP(f);
    SIM_ELAPSE(f, 12000);
    SIM_TRACE(f, "[1231] broker append #13 session\n"
                 "[1241] broker durable #12\n"
                 "[1251] broker durable #13\n"
                 "[1252] second < a lane\n"
                 "[1253] broker lane of second is up\n"
                 "[11013] broker append #15 lease lost 1, session over\n"
                 "[11013] broker append #16 leased 1\n"
                 "[11023] broker durable #16\n"
                 "[11024] second gets task 1, delivery 2\n");
    assert_int_equal(second->held_count, 1);
    assert_true(second->held[0].position > old.position);
    f->worker->link.cut_up = f->worker->link.cut_down = false; /* the worker continues, and finishes its task */
    client_settle(f->worker, &old, op_ack(f->world, &old));
    SIM_ELAPSE(f, 50);
    /* The ack is stale, because another consumer has the task. */
    SIM_TRACE(f, "[13230] worker > ack task 1 #13\n"
                 "[13231] broker append #18 nothing but the answer\n"
                 "[13241] broker durable #18\n"
                 "[13242] worker < stale token: in flight, task 1, deliveries 2 #13\n");
    client_settle(second, &second->held[0], op_ack(f->world, &second->held[0]));
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[13280] second > ack task 1 #14\n"
                 "[13281] broker append #20 acked 1\n"
                 "[13291] broker durable #20\n"
                 "[13292] second < acked, task 1, deliveries 2 #14\n");
}

static void tokens_grow_across_a_restart(void **state) { /* FENCE-1 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    struct held old = f->worker->held[0];
    client_crash(f->worker);
    host_kill(f->world, HOST_KILLED);
    assert_true(host_start(f->world, false));
    struct client *second = second_worker(f);
    subscribe(second, "orders");
    SIM_SKIP(f);
    SIM_ELAPSE(f, 3000); /* a session that is not resumed within 2 s loses its leases */
    assert_int_equal(second->held_count, 1);
    assert_true(second->held[0].epoch > old.epoch);
    SIM_TRACE(f, "[1231] broker append #13 session\n"
                 "[1241] broker durable #13\n"
                 "[1242] second < a lane\n"
                 "[1243] broker lane of second is up\n"
                 "[3200] broker append #15 lease lost 1, session over\n"
                 "[3200] broker append #16 leased 1\n"
                 "[3210] broker durable #16\n"
                 "[3211] second gets task 1, delivery 2\n");
}

/* Proves FENCE-1, TRUE-1 and F-10. */
static void a_worker_that_comes_back_keeps_its_leases(void **state) {
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    struct held old = f->worker->held[0];
    host_index_now(f->world);
    host_kill(f->world, HOST_KILLED);
    assert_true(host_start(f->world, false));
    SIM_SKIP(f);
    SIM_ELAPSE(f, 5000);
    /* The worker gets the same task with the same token, because the broker makes no new lease. */
    SIM_TRACE(f, "[1201] worker has lost its lane\n"
                 "[1201] worker > subscribe, to go on\n"
                 "[1202] broker append #12 session\n"
                 "[1210] broker durable #11\n"
                 "[1220] broker durable #12\n"
                 "[1221] worker < a lane, its leases kept\n"
                 "[1222] broker lane of worker is up\n"
                 "[1223] worker gets task 1, delivery 1\n");
    client_settle(f->worker, &old, op_ack(f->world, &old));
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[6200] worker > ack task 1 #8\n"
                 "[6201] broker append #14 acked 1\n"
                 "[6211] broker durable #14\n"
                 "[6212] worker < acked, task 1, deliveries 1 #8\n");
}

/* The worker reports its lost connection before the core learns about it. The session gets a new connection. Then the
 * core gets the late event of the lost connection, and must ignore it. Otherwise the core would lease the due task and
 * take it back again and again. */
static void a_connection_on_the_lane_before_is_none(void **state) { /* KEEP-1, F-17 */
    struct fx *f = *state;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 20);
    subscribe(f->worker, "orders");
    while (!f->worker->lane_up) assert_true(world_step(f->world));
    f->world->options.wake.least_us = 3000; /* from now on, a thread notices a broken connection 3 ms later */
    client_on_pipe_broken(f->worker, f->worker->session);
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 20 ms #3\n"
                 "[1000] worker > subscribe\n"
                 "[1001] broker append #5 queue orders\n"
                 "[1001] broker append #6 scheduled 1\n"
                 "[1001] broker append #7 session\n"
                 "[1011] broker durable #7\n"
                 "[1012] shop < scheduled, task 1 #3\n"
                 "[1012] worker < a lane\n"
                 "[1013] broker lane of worker is up\n"
                 "[1013] worker has lost its lane\n"
                 "[1013] worker > subscribe, to go on\n"
                 "[1014] broker append #8 session\n"
                 "[1027] broker durable #8\n"
                 "[1028] worker < a lane, its leases kept\n"
                 "[1029] broker lane of worker is up\n"
                 "[1032] broker append #9 leased 1\n"
                 "[1045] broker durable #9\n"
                 "[1049] worker gets task 1, delivery 1\n");
    assert_int_equal(f->worker->held_count, 1);
}

/* A late copy of the worker's subscription ends the lane's connection, and the worker never learns that. In history
 * 80923110, the worker kept sending heartbeats, and got no task all that time. */
static void a_worker_that_lost_its_lane_unheard_is_told(void **state) { /* KEEP-1, F-17 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    while (!f->worker->lane_up) assert_true(world_step(f->world));
    client_on_pipe_broken(f->worker, f->worker->session);
    struct request *request = f->worker->open[f->worker->open_count - 1];
    while (!f->worker->lane_up) assert_true(world_step(f->world));
    client_schedule(f->shop, .key = "order-1", .delay_ms = 50);
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    assert_int_equal(f->worker->held_count, 1);
    f->worker->link.cut_down = true;
    client_repeat(f->worker, request);
    SIM_ELAPSE(f, 100);
    f->worker->link.cut_down = false;
    client_schedule(f->shop, .key = "order-2", .delay_ms = 50);
    SIM_ELAPSE(f, 15000);
    SIM_TRACE(f, "[1113] worker repeats #4\n"
                 "[1114] broker append #12 session\n"
                 "[1124] broker durable #12\n"
                 "[1213] shop > schedule orders order-2 in 50 ms #6\n"
                 "[1214] broker append #14 scheduled 2\n"
                 "[1224] broker durable #14\n"
                 "[1225] shop < scheduled, task 2 #6\n"
                 "[14347] worker has lost its lane\n"
                 "[14347] worker > subscribe, to go on\n"
                 "[14348] broker append #16 session\n"
                 "[14358] broker durable #16\n"
                 "[14359] worker < a lane, its leases kept\n"
                 "[14360] broker lane of worker is up\n"
                 "[14360] broker append #17 leased 2\n"
                 "[14361] worker gets task 1, delivery 1\n"
                 "[14370] broker durable #17\n"
                 "[14371] worker gets task 2, delivery 1\n");
    assert_int_equal(f->worker->held_count, 3); /* three deliveries: the first task came twice, with the same token */
}

/* ---- F-13: the broker is paused */

/* Everything that the worker sent while the broker was stopped counts, although its lease and session had expired
 * before the broker read it. */
static void what_lay_in_the_sockets_of_a_stopped_broker_counts(void **state) { /* TIME-2, F-13 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    SIM_SKIP(f);
    world_pause(f->world, 0,
                20000); /* the stop is longer than a lease (1 s) and than a silent session may live (10 s) */
    SIM_ELAPSE(f, 900);
    client_settle(f->worker, &f->worker->held[0], op_ack(f->world, &f->worker->held[0]));
    SIM_ELAPSE(f, 30000);
    SIM_TRACE(f, "[1200] operator stops node 0 for 20000 ms\n"
                 "[2100] worker > ack task 1 #5\n"
                 "[21200] broker append #11 acked 1\n"
                 "[21210] broker durable #11\n"
                 "[21211] worker < acked, task 1, deliveries 1 #5\n");
    assert_true(f->worker->session != 0);
}

static void ask_for_queues(struct client *client) {
    Tarry__Request *request = world_alloc(client->world, sizeof *request);
    tarry__request__init(request);
    request->body_case = TARRY__REQUEST__BODY_QUEUES;
    request->queues = world_alloc(client->world, sizeof *request->queues);
    tarry__queues__init(request->queues);
    client_ask(client, request);
}

/* The broker's core was waiting for its disk when the process was stopped. (In the next test it sleeps.) */
static void what_lay_in_the_sockets_of_a_broker_that_waited_for_its_disk_counts(void **state) { /* TIME-2, F-13 */
    enum { ASKED = 40, QUESTIONS = TURN_BATCH_EVENTS_MAX, STILL_MS = 20000 };
    struct fx *f = *state;
    struct host *host = f->world->host;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    host_hold_sync(f->world);
    for (int i = 0; i < ASKED + QUESTIONS; i++) {
        if (i < ASKED)
            client_schedule(f->shop, .delay_ms = 60000);
        else
            ask_for_queues(f->shop);
        SIM_ELAPSE(f, 1);
    }
    assert_true(host->awaits_batch);
    world_pause(f->world, 0,
                STILL_MS); /* the stop is longer than a lease (1 s) and than a silent session may live (10 s) */
    SIM_ELAPSE(f, 100);
    client_settle(f->worker, &f->worker->held[0], op_ack(f->world, &f->worker->held[0]));
    SIM_ELAPSE(f, STILL_MS);
    host_release_sync(f->world);
    SIM_ELAPSE(f, 2000);
    assert_true(host->head.tasks[1].ended && host->head.tasks[1].cause == TARRY__CAUSE__CAUSE_ACKED);
    assert_true(f->worker->session != 0);
}

/* A broker sleeps until a deadline, and its process is stopped until after this deadline. When it runs again, it reads
 * its sockets before it handles the deadline. */
static void a_deadline_that_a_broker_slept_through_waits_for_the_sockets(void **state) { /* TIME-2, F-13 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 900); /* 400 ms before the end of the lease */
    SIM_SKIP(f);
    world_pause(f->world, 0, 3000);
    SIM_ELAPSE(f, 100);
    client_settle(f->worker, &f->worker->held[0], op_ack(f->world, &f->worker->held[0]));
    SIM_ELAPSE(f, 5000);
    SIM_TRACE(f, "[1900] operator stops node 0 for 3000 ms\n"
                 "[2000] worker > ack task 1 #5\n"
                 "[4900] broker append #11 acked 1\n"
                 "[4910] broker durable #11\n"
                 "[4911] worker < acked, task 1, deliveries 1 #5\n");
}

static void a_delay_asked_of_a_stopped_broker_counts_from_when_it_was_read(void **state) { /* TIME-1, F-13 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    SIM_ELAPSE(f, 200);
    SIM_SKIP(f);
    world_pause(f->world, 0, 5000);
    SIM_ELAPSE(f, 4900);
    client_schedule(f->shop, .key = "order-1", .delay_ms = 3000);
    SIM_ELAPSE(f, 5000);
    SIM_TRACE(f, "[1200] operator stops node 0 for 5000 ms\n"
                 "[6100] shop > schedule orders order-1 in 3000 ms #5\n"
                 "[6200] broker append #7 queue orders\n"
                 "[6200] broker append #8 scheduled 1\n"
                 "[6210] broker durable #8\n"
                 "[6211] shop < scheduled, task 1 #5\n"
                 "[9150] broker append #10 leased 1\n"
                 "[9160] broker durable #10\n"
                 "[9201] worker gets task 1, delivery 1\n");
}

/* ---- F-15: partitions */

static void a_partition_costs_time_and_nothing_else(void **state) { /* F-15, ONCE-1 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    SIM_SKIP(f);
    f->worker->link.cut_up = f->worker->link.cut_down = true;
    struct request *ack = client_commit_one(f->worker, op_ack(f->world, &f->worker->held[0]));
    SIM_ELAPSE(f, 1000);
    SIM_TRACE(f, "[1200] worker > ack task 1 #5\n");
    f->worker->link.cut_up = f->worker->link.cut_down = false;
    client_repeat(f->worker, ack);
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[2200] worker repeats #5\n"
                 "[2201] broker append #11 acked 1\n"
                 "[2211] broker durable #11\n"
                 "[2212] worker < acked, task 1, deliveries 1 #5\n");
}

static void a_link_that_carries_one_way_only_loses_no_ack(void **state) { /* F-15, ONCE-1 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    SIM_SKIP(f);
    f->worker->link.cut_down = true; /* the broker receives the worker's messages, but the worker receives nothing */
    struct request *ack = client_commit_one(f->worker, op_ack(f->world, &f->worker->held[0]));
    SIM_ELAPSE(f, 100);
    client_repeat(f->worker, ack);
    SIM_ELAPSE(f, 100);
    f->worker->link.cut_down = false;
    client_repeat(f->worker, ack);
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1200] worker > ack task 1 #5\n"
                 "[1201] broker append #11 acked 1\n"
                 "[1211] broker durable #11\n"
                 "[1300] worker repeats #5\n"
                 "[1400] worker repeats #5\n"
                 "[1402] worker < acked, task 1, deliveries 1 #5\n");
}

/* ---- F-19: slow and dead consumers */

static void a_slow_worker_gets_no_more_than_it_asked_for(void **state) { /* F-19, CALM-1 */
    struct fx *f = *state;
    client_subscribe(f->worker, (const char *const[]){"orders", NULL}, 3, 0);
    for (int i = 0; i < 10; i++) client_schedule(f->shop, .delay_ms = 0);
    SIM_ELAPSE(f, 500);
    assert_int_equal(f->worker->held_count, 3);
    SIM_SKIP(f);
    client_settle(f->worker, &f->worker->held[0], op_ack(f->world, &f->worker->held[0]));
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[1500] worker > ack task 1 #14\n"
                 "[1501] broker append #19 acked 1\n"
                 "[1501] broker append #20 leased 4\n"
                 "[1511] broker durable #20\n"
                 "[1512] worker < acked, task 1, deliveries 1 #14\n"
                 "[1512] worker gets task 4, delivery 1\n");
}

static void a_dead_workers_tasks_go_to_the_next(void **state) { /* F-19, F-17 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    struct client *second = second_worker(f);
    subscribe(second, "orders");
    SIM_ELAPSE(f, 50);
    SIM_SKIP(f);
    client_crash(f->worker);
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[1280] worker crashes\n"
                 "[1281] broker durable #14\n"
                 "[1281] broker lane of worker is gone\n"
                 "[1281] broker append #15 lease lost 1, session over\n"
                 "[1281] broker append #16 leased 1\n"
                 "[1291] broker durable #16\n"
                 "[1292] second gets task 1, delivery 2\n");
}

/* ---- F-23 */

static void a_token_that_was_made_up_changes_nothing(void **state) { /* F-23, FENCE-1 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    SIM_SKIP(f);
    struct held forged = f->worker->held[0];
    forged.position += 8;
    client_commit_one(f->shop, op_ack(f->world, &forged));
    forged = f->worker->held[0];
    forged.epoch += 1;
    client_commit_one(f->shop, op_ack(f->world, &forged));
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1200] shop > ack task 1 #5\n"
                 "[1200] shop > ack task 1 #6\n"
                 "[1201] broker append #11 nothing but the answer\n"
                 "[1201] broker append #12 nothing but the answer\n"
                 "[1211] broker durable #12\n"
                 "[1212] shop < stale token: in flight, task 1, deliveries 1 #5\n"
                 "[1212] shop < stale token: in flight, task 1, deliveries 1 #6\n");
}

/* ---- F-40 */

static void nack_what_comes(struct client *client, const struct held *held) {
    client_settle(client, held, op_nack(client->world, held, false, 0, false));
}

static void a_poison_task_ends_among_the_dead_and_stops_nobody(void **state) { /* F-40 */
    struct fx *f = *state;
    client_commit_one(f->shop, op_queue_set(f->world, "orders", 1000, 3, 100));
    client_subscribe(f->worker, (const char *const[]){"orders", NULL}, 10, 0);
    SIM_ELAPSE(f, 50);
    client_schedule(f->shop, .key = "poison", .delay_ms = 100);
    SIM_ELAPSE(f, 50);
    SIM_SKIP(f);
    f->worker->on_task = nack_what_comes;
    SIM_ELAPSE(f, 5000);
    SIM_TRACE(f, "[1101] broker append #11 leased 1\n"
                 "[1111] broker durable #11\n"
                 "[1152] worker gets task 1, delivery 1\n"
                 "[1152] worker > nack task 1 #6\n"
                 "[1153] broker append #13 retried 1\n"
                 "[1163] broker durable #13\n"
                 "[1164] worker < nacked, task 1, deliveries 1 #6\n"
                 "[1203] broker append #15 leased 1\n"
                 "[1213] broker durable #15\n"
                 "[1254] worker gets task 1, delivery 2\n"
                 "[1254] worker > nack task 1 #7\n"
                 "[1255] broker append #17 retried 1\n"
                 "[1265] broker durable #17\n"
                 "[1266] worker < nacked, task 1, deliveries 2 #7\n"
                 "[1305] broker append #19 leased 1\n"
                 "[1315] broker durable #19\n"
                 "[1356] worker gets task 1, delivery 3\n"
                 "[1356] worker > nack task 1 #9\n"
                 "[1357] broker append #21 buried 1\n"
                 "[1367] broker durable #21\n"
                 "[1368] worker < buried, task 1, deliveries 3 #9\n");
    f->worker->on_task = NULL;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    SIM_TRACE(f, "[6100] shop > schedule orders order-1 in 100 ms #24\n"
                 "[6101] broker append #23 scheduled 2\n"
                 "[6111] broker durable #23\n"
                 "[6112] shop < scheduled, task 2 #24\n"
                 "[6151] broker append #25 leased 2\n"
                 "[6161] broker durable #25\n"
                 "[6202] worker gets task 2, delivery 1\n");
}

/* ---- many behind one session (broker/gateway) */

static void subscribe_pool(struct fx *f, uint32_t credit) {
    f->worker->pooled = true;
    f->worker->credit = credit;
    client_subscribe(f->worker, (const char *[]){"orders", NULL}, 10, 60000);
    SIM_ELAPSE(f, 50);
}

static void a_pool_gets_as_many_as_wait_behind_it_and_what_they_hold_is_theirs(void **state) { /* KEEP-1 */
    struct fx *f = *state;
    for (int i = 0; i < 3; i++) client_schedule(f->shop, .delay_ms = 0);
    SIM_ELAPSE(f, 50);
    subscribe_pool(f, 2);
    assert_int_equal(f->worker->held_count,
                     2 + 1); /* the pool has two tasks of the first delivery and one of the next delivery */
    client_credit(f->worker, 0);
    client_unsubscribe(f->worker, false); /* the pooled session leaves; its consumers keep their tasks */
    SIM_ELAPSE(f, 20000);
    uint64_t session = f->worker->session_before;
    for (uint64_t id = 1; id <= 3; id++) assert_int_equal(f->world->host->head.tasks[id].row.state, ROW_LEASED);
    subscribe_pool(f, 8);
    assert_true(f->worker->session == session);
    assert_int_equal(f->worker->held_count, 3); /* no task is delivered twice */
    f->worker->wants_session = false;
    host_stop(f->world);
    assert_true(host_start(f->world, false));
    SIM_ELAPSE(f, CLAIM_AFTER_START_MS + 1000); /* in this time no client resumes the session */
    for (uint64_t id = 1; id <= 3; id++) assert_int_equal(f->world->host->head.tasks[id].row.state, ROW_LEASED);
    SIM_ELAPSE(f, 60000); /* the leases of the three tasks have ended at their deadline */
    for (uint64_t id = 1; id <= 3; id++) assert_int_equal(f->world->host->head.tasks[id].row.state, ROW_WAITING);
    SIM_SKIP(f);
}

static void what_connections_of_a_dead_broker_held_is_ready_at_once(void **state) { /* KEEP-1 */
    struct fx *f = *state;
    f->worker->bound = true;
    for (int i = 0; i < 3; i++) client_schedule(f->shop, .delay_ms = 0);
    SIM_ELAPSE(f, 50);
    subscribe_pool(f, 8);
    assert_int_equal(f->worker->held_count, 3);
    client_unsubscribe(f->worker, false); /* the pooled session ends; its consumers keep their tasks, as in any pool */
    SIM_ELAPSE(f, 20000);
    for (uint64_t id = 1; id <= 3; id++) assert_int_equal(f->world->host->head.tasks[id].row.state, ROW_LEASED);
    f->worker->wants_session = false;
    host_stop(f->world);
    assert_true(host_start(f->world, false));
    SIM_ELAPSE(f, 100); /* much less than CLAIM_AFTER_START_MS: leases of a bound session end at once */
    for (uint64_t id = 1; id <= 3; id++) {
        assert_int_equal(f->world->host->head.tasks[id].row.state, ROW_WAITING);
        assert_int_equal(f->world->host->head.tasks[id].row.attempt,
                         1); /* the attempt counts, because a consumer may have seen the task */
    }
    SIM_SKIP(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STORY(a_stopped_worker_that_wakes_up_is_told),
        STORY(tokens_grow_across_a_restart),
        STORY(a_worker_that_comes_back_keeps_its_leases),
        STORY(a_connection_on_the_lane_before_is_none),
        STORY(a_worker_that_lost_its_lane_unheard_is_told),
        STORY(what_lay_in_the_sockets_of_a_stopped_broker_counts),
        STORY(what_lay_in_the_sockets_of_a_broker_that_waited_for_its_disk_counts),
        STORY(a_deadline_that_a_broker_slept_through_waits_for_the_sockets),
        STORY(a_delay_asked_of_a_stopped_broker_counts_from_when_it_was_read),
        STORY(a_partition_costs_time_and_nothing_else),
        STORY(a_link_that_carries_one_way_only_loses_no_ack),
        STORY(a_slow_worker_gets_no_more_than_it_asked_for),
        STORY(a_dead_workers_tasks_go_to_the_next),
        STORY(a_token_that_was_made_up_changes_nothing),
        STORY(a_poison_task_ends_among_the_dead_and_stops_nobody),
        STORY(what_connections_of_a_dead_broker_held_is_ready_at_once),
        STORY(a_pool_gets_as_many_as_wait_behind_it_and_what_they_hold_is_theirs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
