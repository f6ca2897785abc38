/* story_log.c: a commit that has its reply is on the disk, and the broker reports the disk's state truthfully (LOG-1 …
 * LOG-5), whatever happens to the disk or the process (F-1 … F-7, F-9, F-10). */
#include "faults.h"
#include "story.h"

/* ---- LOG-1: no reply leaves before the records that it depends on are durable */

static void a_schedule_is_answered_only_after_its_sync(void **state) { /* LOG-1 */
    struct fx *f = *state;
    host_hold_sync(f->world);
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 100);
    /* The commit is decided and written, but its sync has not ended, so the shop has no reply. */
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 500 ms #3\n"
                 "[1001] broker append #5 queue orders\n"
                 "[1001] broker append #6 scheduled 1\n");
    host_release_sync(f->world);
    SIM_ELAPSE(f, 20);
    SIM_TRACE(f, "[1100] broker durable #6\n"
                 "[1101] shop < scheduled, task 1 #3\n");
}

static void a_delivery_leaves_only_after_the_sync_of_its_lease(void **state) { /* LOG-1, TRUE-1 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    host_hold_sync(f->world);
    SIM_ELAPSE(f, 500);
    /* The task is leased, but the lease's sync has not ended, so the worker has not seen the task. After a power
     * failure the lease would never have existed. */
    SIM_TRACE(f, "[1451] broker append #9 leased 1\n");
    host_release_sync(f->world);
    SIM_ELAPSE(f, 20);
    SIM_TRACE(f, "[1600] broker durable #9\n"
                 "[1601] worker gets task 1, delivery 1\n");
}

static void a_refusal_waits_for_what_it_saw(void **state) { /* LOG-1 */
    struct fx *f = *state;
    host_hold_sync(f->world);
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 5);
    struct request *other = client_schedule(f->worker, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 100);
    /* A second schedule must not be answered `exists` yet, because that would be wrong after a power failure. */
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 500 ms #3\n"
                 "[1001] broker append #5 queue orders\n"
                 "[1001] broker append #6 scheduled 1\n"
                 "[1005] worker > schedule orders order-1 in 500 ms #4\n"
                 "[1006] broker append #7 nothing but the answer\n");
    host_kill(f->world, HOST_POWER_LOST);
    host_release_sync(f->world);
    assert_true(host_start(f->world, false));
    client_repeat(f->worker, other);
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[1105] broker loses power\n"
                 "[1105] broker lost #5 to #7, never promised\n"
                 "[1105] broker starts, epoch 2\n"
                 "[1105] broker append #5 epoch 2\n"
                 "[1105] worker repeats #4\n"
                 "[1106] broker append #6 queue orders\n"
                 "[1106] broker append #7 scheduled 1\n"
                 "[1115] broker durable #5\n"
                 "[1125] broker durable #7\n"
                 "[1126] worker < scheduled, task 1 #4\n");
}

/* ---- LOG-2: recovery changes the state by the same code as the running broker */

static void what_is_replayed_is_what_was_lived(void **state) { /* LOG-2, F-10 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    client_schedule(f->shop, .key = "order-2", .delay_ms = 5000);
    client_schedule(f->shop, .key = "order-3", .delay_ms = 6000);
    SIM_ELAPSE(f, 200);
    client_commit_one(f->shop, op_cancel(f->world, order(f, "order-2"), false));
    client_commit_one(f->shop, op_move(f->world, order(f, "order-3"), 7000));
    SIM_ELAPSE(f, 200);
    uint64_t lived = core_digest(f->world->host->core);
    SIM_SKIP(f);
    host_kill(f->world, HOST_KILLED);
    assert_true(host_start(f->world, false));
    assert_int_equal(core_digest(f->world->host->core), lived);
    SIM_TRACE(f, "[1400] broker is killed\n"
                 "[1400] broker starts, epoch 2\n"
                 "[1400] broker append #16 epoch 2\n");
}

/* ---- LOG-3: the index follows */

static void an_index_that_lags_is_made_up_for_by_the_log(void **state) { /* LOG-3 */
    struct fx *f = *state;
    host_hold_index(f->world);
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    host_kill(f->world, HOST_KILLED);
    assert_true(host_start(f->world, false));
    subscribe(f->worker, "orders");
    SIM_ELAPSE(f, 500);
    SIM_TRACE(f, "[1100] broker is killed\n"
                 "[1100] broker starts, epoch 2\n"
                 "[1100] broker append #8 epoch 2\n"
                 "[1100] worker > subscribe\n"
                 "[1101] broker append #9 session\n"
                 "[1110] broker durable #8\n"
                 "[1120] broker durable #9\n"
                 "[1121] worker < a lane\n"
                 "[1122] broker lane of worker is up\n"
                 "[1451] broker append #11 leased 1\n"
                 "[1461] broker durable #11\n"
                 "[1502] worker gets task 1, delivery 1\n");
}

static void an_index_from_an_older_copy_catches_up(void **state) { /* LOG-3, F-7 */
    struct fx *f = *state;
    static struct table yesterday; /* static, because a table has megabytes */
    client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 500);
    table_copy(&yesterday, &f->world->host->table);
    client_schedule(f->shop, .key = "order-2", .delay_ms = 60000);
    client_commit_one(f->shop, op_cancel(f->world, order(f, "order-1"), false));
    SIM_ELAPSE(f, 500);
    uint64_t lived = core_digest(f->world->host->core);
    SIM_SKIP(f);
    host_kill(f->world, HOST_KILLED);
    table_copy(&f->world->host->table, &yesterday);
    assert_true(host_start(f->world, false));
    assert_int_equal(core_digest(f->world->host->core), lived);
    client_commit_one(f->shop, op_cancel(f->world, order(f, "order-1"), false));
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[2000] broker is killed\n"
                 "[2000] broker starts, epoch 2\n"
                 "[2000] broker append #11 epoch 2\n"
                 "[2000] shop > cancel orders order-1 #6\n"
                 "[2001] broker append #12 nothing but the answer\n"
                 "[2010] broker durable #11\n"
                 "[2020] broker durable #12\n"
                 "[2021] shop < already cancelled, task 1 #6\n");
}

/* Overwrites the last bytes of the log with zeros, as on a disk that was restored or truncated. */
static void zero_tail(struct fx *f, uint64_t from) {
    struct model_file *file = log_file(f);
    uint64_t offset = 4096 + from - LOG_POSITION_FIRST;
    memset(file->durable + offset, 0, file->durable_size - offset);
    memset(file->cached + offset, 0, file->cached_size - offset);
}

static void an_index_ahead_of_the_log_is_refused(void **state) { /* LOG-3, F-7 */
    struct fx *f = *state;
    uint64_t before = f->world->host->indexed;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 100);
    host_index_now(f->world);
    SIM_SKIP(f);
    host_kill(f->world, HOST_KILLED);
    zero_tail(f, before);
    assert_false(host_start(f->world, false));
    SIM_TRACE(
        f,
        "[1100] broker is killed\n"
        "[1100] broker will not start: /data/log/0000000000001000.seg, offset 4648: the log ends at position "
        "4648 (there is no valid frame header), but it was durable up to position 5176: the end of the log is lost\n");
}

/* ---- LOG-4: a disk that failed once is not asked again */

static void a_failed_sync_ends_the_broker_and_the_repeat_finds_the_truth(void **state) { /* LOG-4, F-5 */
    struct fx *f = *state;
    struct model_disk *disk = f->world->host->disk;
    struct request *placed = client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 2); /* the frame is written but not yet synced */
    disk->fail_at = disk->calls + 1;
    disk->fail_error = -EIO;
    SIM_ELAPSE(f, 100);
    /* The schedule was not answered, so no client has learned that the task exists. */
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 500 ms #3\n"
                 "[1001] broker append #5 queue orders\n"
                 "[1001] broker append #6 scheduled 1\n"
                 "[1011] broker fails: cannot sync the log: -5\n");
    assert_int_equal(f->world->host->state, HOST_DOWN);
    model_kill(disk);
    assert_true(host_start(f->world, false));
    client_repeat(f->shop, placed);
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[1102] broker starts, epoch 2\n"
                 "[1102] broker append #7 epoch 2\n"
                 "[1102] shop repeats #3\n"
                 "[1112] broker durable #7\n"
                 "[1113] shop < scheduled, task 1 #3\n");
}

static void short_writes_are_finished(void **state) { /* F-3 */
    struct fx *f = *state;
    f->world->host->disk->short_io = true; /* from now on, every eighth call of the disk reads or writes only a part */
    for (int i = 0; i < 50; i++) {
        client_schedule(f->shop, .queue = "calls", .delay_ms = 60000);
        SIM_ELAPSE(f, 20);
    }
    SIM_SKIP(f);
    host_kill(f->world, HOST_POWER_LOST);
    assert_true(host_start(f->world, false));
    assert_int_equal(core_live(f->world->host->core), 50);
    SIM_TRACE(f, "[2000] broker loses power\n"
                 "[2000] broker starts, epoch 2\n"
                 "[2000] broker append #56 epoch 2\n");
}

/* ---- LOG-5: only bytes that no client can rely on are cut */

static void a_torn_tail_is_cut_and_what_was_answered_is_not(void **state) { /* LOG-5, F-1 */
    struct fx *f = *state;
    f->world->host->disk->seed = 8; /* with this seed, the sectors that survive are those that the test needs */
    client_schedule(f->shop, .key = "order-1", .delay_ms = 5000);
    SIM_ELAPSE(f, 100);
    host_hold_sync(f->world);
    for (int i = 0; i < 8; i++)
        client_schedule(f->shop, .queue = "calls", .delay_ms = 5000); /* without a sync, the clients get no replies */
    SIM_ELAPSE(f, 5);
    SIM_SKIP(f);
    host_kill(f->world, HOST_POWER_LOST);
    assert_true(host_start(f->world, false));
    SIM_TRACE(f, "[1105] broker loses power\n"
                 "[1105] broker cuts a torn tail of 48 bytes\n"
                 "[1105] broker lost #15 to #16, never promised\n"
                 "[1105] broker starts, epoch 2\n"
                 "[1105] broker append #15 epoch 2\n");
}

static void a_seal_protects_the_last_answer(void **state) { /* LOG-5 */
    struct fx *f = *state;
    f->wordy = true;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 5000);
    SIM_ELAPSE(f, 100);
    /* The seal frame says that everything before it is durable, so damage before it is no torn tail. */
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 5000 ms #3\n"
                 "[1001] broker append #5 queue orders\n"
                 "[1001] broker append #6 scheduled 1\n"
                 "[1011] broker durable #6\n"
                 "[1012] shop < scheduled, task 1 #3\n"
                 "[1031] broker append #7 seal\n"
                 "[1041] broker durable #7\n");
}

static void a_flipped_bit_in_what_was_answered_is_refused(void **state) { /* LOG-5, F-2 */
    struct fx *f = *state;
    uint64_t position = core_position(f->world->host->core);
    client_schedule(f->shop, .key = "order-1", .delay_ms = 5000);
    SIM_ELAPSE(f, 200); /* the reply is sent, and 20 ms later a seal frame follows */
    SIM_SKIP(f);
    host_kill(f->world, HOST_KILLED);
    struct model_file *file = log_file(f);
    uint64_t offset = 4096 + position - LOG_POSITION_FIRST + 70;
    file->cached[offset] ^= 0x10;
    assert_false(host_start(f->world, false));
    SIM_TRACE(f,
              "[1200] broker is killed\n"
              "[1200] broker will not start: /data/log/0000000000001000.seg, offset 4648 (position 4648): there is no "
              "valid frame header, but by the frame at offset 5064 the log was durable up to position 5064\n");
    file->cached[offset] ^= 0x10; /* repairs the flipped bit, as an operator does with a backup of the file */
    assert_true(host_start(f->world, false));
    SIM_TRACE(f, "[1200] broker starts, epoch 2\n"
                 "[1200] broker append #8 epoch 2\n");
}

/* A bit of a segment is wrong, the segment is deleted, and the simulator repairs the bit. A loss of power undoes the
 * deletion, which was not synced (F-6). In history 80264170, the simulator did not repair deleted files, so the next
 * start refused. */
/* Proves LOG-3, F-2 and F-5. */
static void a_segment_whose_deletion_is_undone_refuses_no_start(void **state) {
    struct fx *f = *state;
    struct world_options options = story_options();
    options.segment_size = 4096;
    options.retain_size = 1;
    story_begin_again(f, &options);
    struct model_disk *disk = f->world->host->disk;
    host_hold_index(f->world); /* while the index is stopped, no segment is retired */
    for (int i = 0; i < 30; i++) {
        client_schedule(f->shop, .queue = "calls", .delay_ms = 60000);
        SIM_ELAPSE(f, 20);
    }
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    struct faults faults = {.flip = {.active = true, .name = "0000000000001000.seg", .offset = 3000, .bit = 4}};
    struct model_file *file = model_lookup(disk, faults.flip.name);
    file->cached[faults.flip.offset] ^=
        1u << faults.flip.bit; /* the flipped bit is behind the segment's header, where only a start reads it */
    file->durable[faults.flip.offset] ^= 1u << faults.flip.bit;
    disk->fail_at = disk->calls + 2; /* the file is deleted, but the next call, the sync of its directory, fails */
    disk->fail_error = -EIO;
    host_release_index(f->world);
    SIM_ELAPSE(f, 500);
    assert_null(model_lookup(disk, faults.flip.name));
    faults_repair(f->world, &faults);
    disk->change_count = 0; /* a loss of power undoes the deletion */
    host_kill(f->world, HOST_POWER_LOST);
    assert_ptr_equal(model_lookup(disk, faults.flip.name), file);
    assert_true(host_start(f->world, false));
    SIM_TRACE(f, "[1900] broker fails: cannot retire a segment: -5\n"
                 "[2200] disk 0000000000001000.seg is put right\n"
                 "[2200] broker starts, epoch 2\n"
                 "[2200] broker append #37 epoch 2\n");
}

static void a_log_that_was_put_back_is_refused(void **state) { /* LOG-5, F-9 */
    struct fx *f = *state;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 5000);
    SIM_ELAPSE(f, 100);
    struct model_file *file = log_file(f);
    uint8_t *yesterday = malloc(file->cached_size);
    MUST(yesterday);
    memcpy(yesterday, file->cached, file->cached_size);
    client_schedule(f->shop, .key = "order-2", .delay_ms = 5000);
    SIM_ELAPSE(f, 100);
    host_index_now(f->world);
    SIM_SKIP(f);
    host_kill(f->world, HOST_KILLED);
    memcpy(file->cached, yesterday, file->cached_size);
    free(yesterday);
    assert_false(host_start(f->world, false)); /* order-2 was confirmed, so the broker refuses to serve without it */
    SIM_TRACE(
        f,
        "[1200] broker is killed\n"
        "[1200] broker will not start: /data/log/0000000000001000.seg, offset 5176: the log ends at position "
        "5176 (there is no valid frame header), but it was durable up to position 5608: the end of the log is lost\n");
}

/* ---- the disk is full, forgets names */

static void a_full_disk_refuses_new_tasks_and_still_takes_acks(void **state) { /* F-4, CAP-1 */
    struct fx *f = *state;
    struct model_disk *disk = f->world->host->disk;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .delay_ms = 100);
    client_schedule(f->shop, .key = "order-2", .delay_ms = 60000);
    SIM_ELAPSE(f, 200);
    disk->room = model_room_used(disk); /* other files have used up the disk's free space */
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    struct request *late = client_schedule(f->shop, .key = "order-3", .delay_ms = 500);
    SIM_ELAPSE(f, 50);
    client_settle(f->worker, &f->worker->held[0], op_ack(f->world, &f->worker->held[0]));
    client_commit_one(f->shop, op_cancel(f->world, order(f, "order-2"), false));
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1300] shop > schedule orders order-3 in 500 ms #6\n"
                 "[1301] broker has little room: new tasks are refused\n"
                 "[1302] shop < refused: busy #6\n"
                 "[1350] worker > ack task 1 #7\n"
                 "[1350] shop > cancel orders order-2 #8\n"
                 "[1351] broker append #12 acked 1\n"
                 "[1351] broker append #13 cancelled 2\n"
                 "[1361] broker durable #13\n"
                 "[1362] worker < acked, task 1, deliveries 1 #7\n"
                 "[1362] shop < cancelled, task 2 #8\n");
    disk->room = 0; /* the disk has free space again */
    client_repeat(f->shop, late);
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1400] shop repeats #6\n"
                 "[1401] broker has room again\n"
                 "[1401] broker append #15 scheduled 3\n"
                 "[1411] broker durable #15\n"
                 "[1412] shop < scheduled, task 3 #6\n");
}

static void a_new_segment_has_its_name_before_it_is_relied_on(void **state) { /* F-6, LOG-1 */
    struct fx *f = *state;
    struct world_options options = story_options();
    options.segment_size = 4096;
    story_begin_again(f, &options);
    for (int i = 0; i < 40; i++) {
        client_schedule(f->shop, .queue = "calls", .delay_ms = 60000);
        SIM_ELAPSE(f, 20);
    }
    struct log_stats stats;
    log_stats(f->world->host->log, &stats);
    assert_true(stats.segments > 2);
    SIM_SKIP(f);
    host_kill(f->world, HOST_POWER_LOST); /* a loss of power removes names of files that were not synced */
    assert_true(host_start(f->world, false));
    assert_int_equal(core_live(f->world->host->core), 40);
    SIM_TRACE(f, "[1800] broker loses power\n"
                 "[1800] broker starts, epoch 2\n"
                 "[1800] broker append #46 epoch 2\n");
}

/* ---- F-10: killed between any two steps of an answer */

static void killed_before_the_sync_the_repeat_is_answered_once(void **state) { /* F-10, ONCE-1 */
    struct fx *f = *state;
    host_hold_sync(f->world);
    struct request *placed = client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 50);
    host_kill(f->world, HOST_KILLED); /* the process is killed, but the page cache keeps the frame */
    host_release_sync(f->world);
    assert_true(host_start(f->world, false));
    client_repeat(f->shop, placed);
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 500 ms #3\n"
                 "[1001] broker append #5 queue orders\n"
                 "[1001] broker append #6 scheduled 1\n"
                 "[1050] broker is killed\n"
                 "[1050] broker starts, epoch 2\n"
                 "[1050] broker append #7 epoch 2\n"
                 "[1050] shop repeats #3\n"
                 "[1060] broker durable #7\n"
                 "[1061] shop < scheduled, task 1 #3\n");
}

/* Proves F-10, F-5 and LOG-1. */
static void what_a_start_has_kept_it_has_synced(void **state) {
    struct fx *f = *state;
    host_hold_sync(f->world); /* no sync ends during this story */
    client_schedule(f->shop, .key = "order-1", .delay_ms = 60000);
    SIM_ELAPSE(f, 50);
    SIM_SKIP(f);
    host_kill(
        f->world,
        HOST_KILLED); /* the process is killed; the page cache keeps the frame, although the disk may not have it */
    assert_true(host_start(f->world, false));
    host_kill(f->world, HOST_POWER_LOST);
    assert_true(host_start(f->world, false));
    assert_int_equal(core_live(f->world->host->core), 1);
    SIM_TRACE(f, "[1050] broker is killed\n"
                 "[1050] broker starts, epoch 2\n"
                 "[1050] broker append #7 epoch 2\n"
                 "[1050] broker loses power\n"
                 "[1050] broker lost #7 to #7, never promised\n"
                 "[1050] broker starts, epoch 2\n"
                 "[1050] broker append #7 epoch 2\n");
}

static void killed_after_the_sync_the_repeat_is_answered_once(void **state) { /* F-10, ONCE-1 */
    struct fx *f = *state;
    f->shop->link.cut_down =
        true; /* the shop gets no reply: the commit is durable, and the reply is lost with the process */
    struct request *placed = client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 50);
    host_kill(f->world, HOST_KILLED);
    f->shop->link.cut_down = false;
    assert_true(host_start(f->world, false));
    client_repeat(f->shop, placed);
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1000] shop > schedule orders order-1 in 500 ms #3\n"
                 "[1001] broker append #5 queue orders\n"
                 "[1001] broker append #6 scheduled 1\n"
                 "[1011] broker durable #6\n"
                 "[1050] broker is killed\n"
                 "[1050] broker starts, epoch 2\n"
                 "[1050] broker append #8 epoch 2\n"
                 "[1050] shop repeats #3\n"
                 "[1060] broker durable #8\n"
                 "[1061] shop < scheduled, task 1 #3\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STORY(a_schedule_is_answered_only_after_its_sync),
        STORY(a_delivery_leaves_only_after_the_sync_of_its_lease),
        STORY(a_refusal_waits_for_what_it_saw),
        STORY(what_is_replayed_is_what_was_lived),
        STORY(an_index_that_lags_is_made_up_for_by_the_log),
        STORY(an_index_from_an_older_copy_catches_up),
        STORY(an_index_ahead_of_the_log_is_refused),
        STORY(a_failed_sync_ends_the_broker_and_the_repeat_finds_the_truth),
        STORY(short_writes_are_finished),
        STORY(a_torn_tail_is_cut_and_what_was_answered_is_not),
        STORY(a_seal_protects_the_last_answer),
        STORY(a_flipped_bit_in_what_was_answered_is_refused),
        STORY(a_segment_whose_deletion_is_undone_refuses_no_start),
        STORY(a_log_that_was_put_back_is_refused),
        STORY(a_full_disk_refuses_new_tasks_and_still_takes_acks),
        STORY(a_new_segment_has_its_name_before_it_is_relied_on),
        STORY(killed_before_the_sync_the_repeat_is_answered_once),
        STORY(what_a_start_has_kept_it_has_synced),
        STORY(killed_after_the_sync_the_repeat_is_answered_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
