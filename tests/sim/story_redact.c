/* story_redact.c: redacted contents are gone permanently, and all other contents stay. That holds for all requests that
 * arrive meanwhile, and for a kill at any moment (KEEP-1, LOG-3, LOG-5). */
#include "story.h"

#include "frame.h"

/* Makes a task that has been acked and whose content is still in the log. */
static void an_order_was_closed(struct fx *f) {
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 10);
    SIM_ELAPSE(f, 100);
    client_settle(f->worker, &f->worker->held[0], op_ack(f->world, &f->worker->held[0]));
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
}

static struct request *redact(struct fx *f, Tarry__Ref *task) {
    return client_commit_one(f->shop, op_redact(f->world, task, 0, 0, 0));
}

/* Returns whether the content of the task is still readable in the log, and not only zeros. */
static bool is_readable(struct fx *f, uint64_t id) {
    const struct row *row = &f->world->host->head.tasks[id].row;
    uint8_t content[256];
    MUST(row->blob_size <= sizeof content);
    MUST(log_read(f->world->host->log, row->blob_at, content, row->blob_size) == 0);
    return !content_is_erased(content, row->blob_size);
}

static void a_closed_order_is_forgotten(void **state) { /* KEEP-1 */
    struct fx *f = *state;
    an_order_was_closed(f);
    assert_true(is_readable(f, 1));
    redact(f, order(f, "order-1"));
    SIM_ELAPSE(f, 300);
    /* The reply comes once the redaction is durable. The content is erased once the index has the redaction, so that no
     * kill can lose the redaction. */
    SIM_TRACE(f, "[1200] shop > redact orders order-1 #6\n"
                 "[1201] broker append #12 redaction of 1\n"
                 "[1211] broker durable #12\n"
                 "[1212] shop < redacted, task 1 #6\n"
                 "[1411] broker erased 1\n");
    assert_false(is_readable(f, 1));
}

static void nothing_that_lives_is_redacted(void **state) { /* KEEP-1 */
    struct fx *f = *state;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 300);
    SIM_SKIP(f);
    redact(f, order(f, "order-1"));
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[1300] shop > redact orders order-1 #4\n"
                 "[1301] broker append #8 nothing but the answer\n"
                 "[1311] broker durable #8\n"
                 "[1312] shop < not done: pending, task 1 #4\n");
    assert_true(is_readable(f, 1));
}

static void a_kill_before_the_erasing_is_made_up_for(void **state) { /* LOG-3 */
    struct fx *f = *state;
    an_order_was_closed(f);
    host_hold_index(f->world);
    redact(f, order(f, "order-1"));
    SIM_ELAPSE(f, 100);
    assert_true(is_readable(f, 1)); /* the index does not have the redaction yet */
    host_kill(f->world, HOST_POWER_LOST);
    host_release_index(f->world);
    assert_true(host_start(f->world, false));
    SIM_ELAPSE(f, 300);
    SIM_TRACE(f, "[1200] shop > redact orders order-1 #6\n"
                 "[1201] broker append #12 redaction of 1\n"
                 "[1211] broker durable #12\n"
                 "[1212] shop < redacted, task 1 #6\n"
                 "[1300] broker loses power\n"
                 "[1300] broker starts, epoch 2\n"
                 "[1300] broker append #14 epoch 2\n"
                 "[1301] worker has lost its lane\n"
                 "[1301] worker > subscribe, to go on\n"
                 "[1302] broker append #15 session\n"
                 "[1310] broker durable #14\n"
                 "[1320] broker durable #15\n"
                 "[1321] worker < a lane\n"
                 "[1322] broker lane of worker is up\n"
                 "[1500] broker erased 1\n");
    assert_false(is_readable(f, 1));
    host_kill(f->world, HOST_POWER_LOST);
    assert_true(host_start(f->world, false)); /* after the erasure, the log does not look damaged */
    assert_false(is_readable(f, 1));
}

/* Redacts a task by an id that was guessed. The search for contents began before a task with that id existed. */
static void a_task_that_came_during_the_search_is_not_said_to_be_redacted(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    struct world_options options = story_options();
    options.read = (struct span){50000, 0};
    story_begin_again(f, &options);
    redact(f, op_ref(f->world, NULL, NULL, 1));
    SIM_ELAPSE(f, 60);
    client_schedule(f->worker, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 15);
    client_commit_one(f->worker, op_cancel(f->world, op_ref(f->world, NULL, NULL, 1), false));
    SIM_ELAPSE(f, 200);
    SIM_TRACE(f, "[1000] shop > redact task 1 #3\n"
                 "[1060] worker > schedule orders order-1 in 500 ms #4\n"
                 "[1061] broker append #5 queue orders\n"
                 "[1061] broker append #6 scheduled 1\n"
                 "[1071] broker durable #6\n"
                 "[1072] worker < scheduled, task 1 #4\n"
                 "[1075] worker > cancel task 1 #5\n"
                 "[1076] broker append #7 cancelled 1\n"
                 "[1086] broker durable #7\n"
                 "[1087] worker < cancelled, task 1 #5\n"
                 "[1101] broker append #8 nothing but the answer\n"
                 "[1111] broker durable #8\n"
                 "[1112] shop < not done: already cancelled, task 1 #3\n");
    assert_true(is_readable(f, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STORY(a_closed_order_is_forgotten),
        STORY(nothing_that_lives_is_redacted),
        STORY(a_kill_before_the_erasing_is_made_up_for),
        STORY(a_task_that_came_during_the_search_is_not_said_to_be_redacted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
