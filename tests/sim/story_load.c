/* story_load.c: overload. The broker either refuses requests with a clear reason, or carries the load, and one client's
 * load does not harm others (CAP-1, CALM-1, F-38, F-39, F-41). The limits are small here, so that a few hundred tasks
 * are an overload. */
#include "story.h"

static void limit(struct fx *f, size_t near_max, uint64_t index_lag_max) {
    struct world_options options = story_options();
    options.core.near_max = near_max;
    options.core.index_lag_max = index_lag_max;
    options.core.index_lag_hard = 2 * index_lag_max;
    story_begin_again(f, &options);
}

/* Schedules `count` tasks, the latest first: each is due `step_ms` before the one scheduled before it. */
static void schedule_many(struct fx *f, const char *queue, size_t count, uint64_t delay_ms, uint64_t step_ms) {
    for (size_t done = 0; done < count;) {
        size_t part = count - done < 64 ? count - done : 64;
        Tarry__Op **ops = world_alloc(f->world, part * sizeof *ops);
        for (size_t i = 0; i < part; i++, done++) {
            ops[i] = op_schedule(f->world, &(struct schedule){.queue = queue, .delay_ms = delay_ms - done * step_ms});
        }
        MUST(client_commit(f->shop, ops, part, false));
    }
}

/* ---- deliveries that the worker saw */

static uint64_t seen[1024]; /* ids of the delivered tasks, in order */
static size_t seen_count;

static void note_and_ack(struct client *client, const struct held *held) {
    MUST(seen_count < 1024);
    seen[seen_count++] = held->id;
    client_settle(client, held, op_ack(client->world, held));
}

static void let_work(struct fx *f, uint32_t prefetch, const char *const *queues) {
    seen_count = 0;
    f->worker->on_task = note_and_ack;
    client_subscribe(f->worker, queues, prefetch, 0);
    SIM_ELAPSE(f, 50);
}

/* ---- CAP-1 */

static void over_capacity_a_schedule_is_refused_undecided_and_an_ack_is_not(void **state) { /* CAP-1 */
    struct fx *f = *state;
    limit(f, 0, 4);
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    host_hold_index(f->world); /* the index is stopped, so that it lags by more than four records */
    schedule_many(f, "calls", 5, 60000, 0);
    SIM_ELAPSE(f, 50);
    SIM_SKIP(f);
    uint64_t position = core_position(f->world->host->core);
    struct request *placed = client_schedule(f->shop, .key = "order-2", .delay_ms = 60000);
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1250] shop > schedule orders order-2 in 60000 ms #6\n"
                 "[1252] shop < refused: busy #6\n");
    assert_int_equal(core_position(f->world->host->core),
                     position); /* the refused commits have added nothing to the log */
    client_settle(f->worker, &f->worker->held[0], op_ack(f->world, &f->worker->held[0]));
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1300] worker > ack task 1 #7\n"
                 "[1301] broker append #14 acked 1\n"
                 "[1311] broker durable #14\n"
                 "[1312] worker < acked, task 1, deliveries 1 #7\n");
    host_release_index(f->world);
    SIM_ELAPSE(f, 300);
    SIM_SKIP(f);
    client_repeat(f->shop, placed); /* the refused commit did not use its sequence */
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1650] shop repeats #6\n"
                 "[1651] broker append #16 scheduled 7\n"
                 "[1661] broker durable #16\n"
                 "[1662] shop < scheduled, task 7 #6\n");
}

/* ---- CALM-1 */

/* The disk hangs until TURN_BATCHES_MAX batches wait for it. Then later steps put their effects into the last batch
 * until it is large. From then on, the core takes no requests until a batch is free. */
static void a_core_whose_disk_hangs_waits_for_a_batch(void **state) { /* CALM-1 */
    enum { ASKED = 40, QUESTIONS = TURN_BATCH_EVENTS_MAX };
    struct fx *f = *state;
    struct host *host = f->world->host;
    size_t frames = host->frame_count;
    host_hold_sync(f->world);
    for (int i = 0; i < ASKED; i++) {
        client_schedule(f->shop, .delay_ms = 60000);
        SIM_ELAPSE(f, 2);
    }
    SIM_ELAPSE(f, 100);
    assert_int_equal(host->batches, TURN_BATCHES_MAX);
    assert_int_equal(host->frame_count,
                     frames + ASKED + 1); /* the core has decided all commits: one frame each, and one seal frame */
    uint64_t answers = f->world->ledger.answers;
    for (int i = 0; i < QUESTIONS; i++) {
        Tarry__Request *request = world_alloc(f->world, sizeof *request);
        tarry__request__init(request);
        request->body_case = TARRY__REQUEST__BODY_QUEUES;
        request->queues = world_alloc(f->world, sizeof *request->queues);
        tarry__queues__init(request->queues);
        client_ask(f->shop, request);
        SIM_ELAPSE(f, 2);
    }
    assert_int_equal(host->batches, TURN_BATCHES_MAX);
    assert_true(host->awaits_batch);
    assert_int_equal(f->world->ledger.answers, answers); /* LOG-1 */
    host_release_sync(f->world);
    SIM_ELAPSE(f, 500);
    SIM_SKIP(f);
    assert_int_equal(f->world->ledger.answers, answers + ASKED + QUESTIONS);
    assert_int_equal(host->batches, 1);
}

static void more_tasks_than_memory_holds_come_in_order(void **state) { /* CALM-1 */
    struct fx *f = *state;
    limit(f, 8, 1000);
    schedule_many(f, "orders", 200, 60000, 100); /* the task that is due first is scheduled last */
    SIM_ELAPSE(f, 1000);
    let_work(f, 10, (const char *const[]){"orders", NULL});
    SIM_ELAPSE(f, 62000);
    assert_int_equal(seen_count, 200);
    for (size_t i = 1; i < seen_count; i++) assert_true(seen[i] < seen[i - 1]);
}

/* ---- F-38 */

static void a_crowd_in_one_millisecond_holds_up_nobody(void **state) { /* F-38 */
    struct fx *f = *state;
    schedule_many(f, "orders", 256, 1000, 0);
    client_schedule(f->shop, .queue = "mail", .key = "letter", .delay_ms = 1000);
    SIM_ELAPSE(f, 100);
    let_work(f, 16, (const char *const[]){"orders", NULL});
    struct client *postman = client_new(f->world, "postman");
    client_hello(postman);
    SIM_ELAPSE(f, 30);
    subscribe(postman, "mail");
    SIM_ELAPSE(f, 819);
    SIM_SKIP(f);
    SIM_ELAPSE(f, 40);
    assert_int_equal(
        postman->held_count,
        1); /* the task "letter" is delivered although 256 tasks of another queue are due in the same millisecond */
    SIM_ELAPSE(f, 5000);
    assert_int_equal(seen_count, 256);
    for (size_t i = 1; i < seen_count; i++)
        assert_true(seen[i] > seen[i - 1]); /* tasks with the same due time are delivered in the order of their ids */
}

/* ---- F-39 */

static void overdue_tasks_without_a_consumer_harm_no_other_queue(void **state) { /* F-39, CALM-1 */
    struct fx *f = *state;
    limit(f, 8, 1000);
    schedule_many(f, "orders", 256, 100, 0);
    SIM_ELAPSE(f, 3600 * 1000);
    let_work(f, 10, (const char *const[]){"mail", NULL});
    SIM_SKIP(f);
    client_schedule(f->shop, .queue = "mail", .key = "letter", .delay_ms = 100);
    SIM_ELAPSE(f, 200);
    SIM_TRACE(f, "[3601050] shop > schedule mail letter in 100 ms #8\n"
                 "[3601051] broker append #13 queue mail\n"
                 "[3601051] broker append #14 scheduled 257\n"
                 "[3601061] broker durable #14\n"
                 "[3601062] shop < scheduled, task 257 #8\n"
                 "[3601101] broker append #16 leased 257\n"
                 "[3601111] broker durable #16\n"
                 "[3601152] worker gets task 257, delivery 1\n"
                 "[3601152] worker > ack task 257 #9\n"
                 "[3601153] broker append #18 acked 257\n"
                 "[3601163] broker durable #18\n"
                 "[3601164] worker < acked, task 257, deliveries 1 #9\n");
    seen_count = 0;
    client_unsubscribe(f->worker, false);
    SIM_ELAPSE(f, 50);
    let_work(f, 10, (const char *const[]){"orders", NULL});
    SIM_ELAPSE(f, 5000);
    assert_int_equal(seen_count, 256); /* all tasks arrive, so the broker has dropped none to free memory */
}

/* ---- F-41 */

static void a_flooded_queue_lets_the_others_have_their_turn(void **state) { /* F-41 */
    struct fx *f = *state;
    schedule_many(f, "orders", 256, 100, 0);
    client_schedule(f->shop, .queue = "mail", .key = "letter", .delay_ms = 150);
    SIM_ELAPSE(f, 1000);
    let_work(f, 8, (const char *const[]){"orders", "mail", NULL});
    SIM_ELAPSE(f, 5000);
    assert_int_equal(seen_count, 257);
    size_t letter = 0;
    while (seen[letter] != 257) letter++;
    assert_true(letter < 32); /* the task "letter" is delivered before most orders, although they were due earlier */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STORY(over_capacity_a_schedule_is_refused_undecided_and_an_ack_is_not),
        STORY(a_core_whose_disk_hangs_waits_for_a_batch),
        STORY(more_tasks_than_memory_holds_come_in_order),
        STORY(a_crowd_in_one_millisecond_holds_up_nobody),
        STORY(overdue_tasks_without_a_consumer_harm_no_other_queue),
        STORY(a_flooded_queue_lets_the_others_have_their_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
