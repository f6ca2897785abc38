/* log_copy_test.c: copying frames unchanged from one log to another (R2, LOG-5): what is served, what is accepted, and
 * how two logs find the position up to which they are equal. */
#include "log_two.h"

static void a_copy_is_the_same_frame_by_frame(void **state) { /* R2 */
    struct two *two = *state;
    two_fill(two, &two->leader, 60);
    two_follow(two);
    two_must_be_same(two, LOG_POSITION_FIRST);
    assert_int_equal(log_durable(two->follower.log), log_end(two->leader.log));
    /* Two logs have the same files if their beginnings and the sizes of their frames are equal. */
    one_kill(&two->follower);
    one_open(&two->follower);
    two_must_be_same(two, LOG_POSITION_FIRST);
    assert_int_equal(two->follower.recovery.segments, two->leader.model->entry_end);
    assert_int_equal(two->follower.recovery.epoch, two->epoch);
    assert_int_equal(two->follower.recovery.steady_ns, two->time_ns);
    /* The frames are equal even if the segments have another size. */
    one_free(&two->follower);
    one_make(&two->follower, 3);
    two->follower.options.segment_size = 1 << 20;
    one_open(&two->follower);
    two_follow(two);
    two_must_be_same(two, LOG_POSITION_FIRST);
}

static void what_is_not_synced_yet_is_served_too(void **state) {
    struct two *two = *state;
    two_append(two, &two->leader, 100, 0);
    assert_int_equal(two_follow_once(two, 1),
                     LOG_END); /* nothing to copy yet, because the frame is still in the write buffer */
    assert_int_equal(log_write(two->leader.log), 0);
    assert_int_equal(two_follow_once(two, 1), 0);
    assert_int_equal(log_durable(two->leader.log), LOG_POSITION_FIRST);
    assert_int_equal(log_durable(two->follower.log), LOG_POSITION_FIRST);
    assert_int_equal(log_sync(two->follower.log), 0);
    assert_int_equal(log_durable(two->follower.log), log_end(two->leader.log));
}

static void served_are_whole_frames_within_the_limit(void **state) {
    struct two *two = *state;
    struct log_bytes *bytes = &two->bytes;
    uint64_t first = two_append(two, &two->leader, 100, 0), second = two_append(two, &two->leader, 100, 900);
    assert_int_equal(log_sync(two->leader.log), 0);
    uint64_t end = log_end(two->leader.log);
    assert_int_equal(log_serve(two->leader.log, first, second - 1, 4096, bytes), LOG_END);
    assert_int_equal(log_serve(two->leader.log, first, first, 4096, bytes), LOG_END);
    assert_int_equal(log_serve(two->leader.log, first, second, 4096, bytes), 0);
    assert_int_equal(bytes->size, second - first);
    assert_int_equal(log_serve(two->leader.log, first, end - 1, 4096, bytes), 0);
    assert_int_equal(bytes->size, second - first);
    assert_int_equal(bytes->end.position, second);
    assert_int_equal(log_serve(two->leader.log, first, end, 4096, bytes), 0);
    assert_int_equal(bytes->frames, 2);
    /* log_serve returns at most `size_max` bytes, but always at least one frame. */
    assert_int_equal(log_serve(two->leader.log, first, end, second - first + 8, bytes), 0);
    assert_int_equal(bytes->frames, 1);
    assert_int_equal(log_serve(two->leader.log, second, end, 0, bytes), 0);
    assert_int_equal(bytes->size, end - second);
    assert_int_equal(log_serve(two->leader.log, end, UINT64_MAX, 4096, bytes), LOG_END);
    assert_int_equal(bytes->size, 0);
    assert_int_equal(log_serve(two->leader.log, first + 8, UINT64_MAX, 4096, bytes), LOG_DAMAGED);
}

static void damage_is_not_served(void **state) {
    struct two *two = *state;
    uint64_t first = two_append(two, &two->leader, 100, 50);
    assert_int_equal(log_sync(two->leader.log), 0);
    struct model_file *file = model_lookup(two->leader.model, "0000000000001000.seg");
    for (uint64_t offset = 0; offset < log_end(two->leader.log) - first; offset++) {
        if (offset == FRAME_FLAGS_OFFSET) continue; /* skip the byte with the erased flag, which may be set later */
        file->cached[4096 + offset] ^= 1;
        assert_int_equal(log_serve(two->leader.log, first, UINT64_MAX, 4096, &two->bytes), LOG_DAMAGED);
        file->cached[4096 + offset] ^= 1;
    }
    assert_int_equal(log_serve(two->leader.log, first, UINT64_MAX, 4096, &two->bytes), 0);
}

/* Checks that none of the bytes is accepted, and that the reason contains these words. */
static void must_not_fit(struct two *two, const uint8_t *bytes, size_t size, uint32_t epoch_max, uint64_t at_right,
                         const char *words) {
    const char *problem;
    uint64_t at, end = log_end(two->follower.log);
    uint8_t before[FRAME_CHAIN_SIZE], after[FRAME_CHAIN_SIZE];
    log_chain(two->follower.log, before);
    uint64_t calls = two->follower.model->calls;
    assert_int_equal(log_copy(two->follower.log, bytes, size, epoch_max, &at, &problem), LOG_UNFIT);
    if (words && !strstr(problem, words)) fail_msg("\"%s\" does not say \"%s\"", problem, words);
    if (at_right) assert_int_equal(at, at_right);
    log_chain(two->follower.log, after);
    assert_memory_equal(before, after, FRAME_CHAIN_SIZE);
    assert_int_equal(log_end(two->follower.log), end);
    assert_int_equal(two->follower.model->calls, calls);
}

static void what_does_not_continue_the_log_is_not_taken(void **state) { /* R2 */
    struct two *two = *state;
    struct log_bytes *bytes = &two->bytes;
    two_append(two, &two->leader, 100, 0);
    assert_int_equal(log_sync(two->leader.log), 0);
    two_follow(two);
    uint64_t second = two_append(two, &two->leader, 80, 70);
    two->epoch = 4;
    uint64_t third = two_append(two, &two->leader, 90, 0);
    assert_int_equal(log_sync(two->leader.log), 0);
    uint64_t end = log_end(two->leader.log);
    assert_int_equal(log_serve(two->leader.log, LOG_POSITION_FIRST, UINT64_MAX, 4096, bytes), 0);
    must_not_fit(two, bytes->data, bytes->size, 4, second, "another position");
    assert_int_equal(log_serve(two->leader.log, third, UINT64_MAX, 4096, bytes), 0);
    must_not_fit(two, bytes->data, bytes->size, 4, second, "another position");
    assert_int_equal(log_serve(two->leader.log, second, UINT64_MAX, 4096, bytes), 0);
    must_not_fit(two, bytes->data, bytes->size, 3, third, "has not promised");
    for (size_t size = 1; size < bytes->size; size++) {
        if (size == third - second) continue; /* complete */
        must_not_fit(two, bytes->data, size, 4, size < third - second ? second : third, NULL);
    }
    for (size_t i = 0; i < bytes->size; i++) {
        /* Skip the byte with the erased flag, which says that the contents may be incomplete. */
        if (i == FRAME_FLAGS_OFFSET) continue;
        bytes->data[i] ^= 0x10;
        must_not_fit(two, bytes->data, bytes->size, 4, i < third - second ? second : third, NULL);
        bytes->data[i] ^= 0x10;
    }
    const char *problem;
    uint64_t at;
    assert_int_equal(log_copy(two->follower.log, bytes->data, bytes->size, 4, &at, &problem), 0);
    assert_int_equal(log_end(two->follower.log), end);
    assert_int_equal(log_copy(two->follower.log, bytes->data, 0, 4, &at, &problem), 0);
    must_not_fit(two, bytes->data, bytes->size, 4, end, "another position");
}

/* Frames that are correct by themselves, but belong to another history, are refused. */
static void another_history_is_not_taken(void **state) { /* R2 */
    struct two *two = *state;
    two_append(two, &two->leader, 100, 0);
    assert_int_equal(log_sync(two->leader.log), 0);
    two_follow(two);
    two_append(two, &two->leader, 50, 0);
    two->epoch = 2;
    two_append(two, &two->follower, 50, 0);
    two->epoch = 3;
    two_append(two, &two->leader, 50, 0);
    assert_int_equal(log_sync(two->leader.log), 0);
    assert_int_equal(log_serve(two->leader.log, log_end(two->follower.log), UINT64_MAX, 4096, &two->bytes), 0);
    must_not_fit(two, two->bytes.data, two->bytes.size, 3, 0, "chain");
    /* The two histories also differ in epochs: the follower's last epoch is older than the leader's. */
    two->epoch = 4;
    two_append(two, &two->follower, 50, 0);
    two->epoch = 3;
    two_append(two, &two->leader, 50, 0);
    assert_int_equal(log_write(two->leader.log), 0);
    assert_int_equal(log_serve(two->leader.log, log_end(two->follower.log), UINT64_MAX, 4096, &two->bytes), 0);
    must_not_fit(two, two->bytes.data, two->bytes.size, 4, 0, "older");
}

static void a_failed_disk_takes_nothing_more(void **state) { /* LOG-4 */
    struct two *two = *state;
    const char *problem;
    uint64_t at;
    two_append(two, &two->leader, 100, 0);
    assert_int_equal(log_sync(two->leader.log), 0);
    assert_int_equal(log_serve(two->leader.log, LOG_POSITION_FIRST, UINT64_MAX, 4096, &two->bytes), 0);
    two->follower.model->fail_at = two->follower.model->calls + 1;
    two->follower.model->fail_error = -EIO;
    assert_int_equal(log_copy(two->follower.log, two->bytes.data, two->bytes.size, 1, &at, &problem), -EIO);
    assert_int_equal(log_copy(two->follower.log, two->bytes.data, 0, 1, &at, &problem), -EIO);
    assert_int_equal(log_sync(two->follower.log), -EIO);
    assert_int_equal(log_mark(two->follower.log), -EIO);
}

static void points_are_found_wherever_a_frame_ends(void **state) {
    struct two *two = *state;
    struct log_point point, again;
    two_fill(two, &two->leader, 60);
    uint64_t end = log_end(two->leader.log), frames = 0;
    struct log_cursor *cursor;
    struct log_view view;
    uint8_t chain[FRAME_CHAIN_SIZE] = {0};
    uint32_t epoch = 0;
    assert_int_equal(log_cursor_open(&cursor, two->leader.log, LOG_POSITION_FIRST, false), 0);
    for (;;) {
        uint64_t position = log_cursor_position(cursor);
        assert_int_equal(log_point(two->leader.log, position, &point), 0);
        assert_int_equal(point.position, position);
        assert_int_equal(point.epoch, epoch);
        assert_memory_equal(point.chain, chain, FRAME_CHAIN_SIZE);
        assert_int_equal(log_point(two->leader.log, position, &again), 0); /* remembered */
        assert_memory_equal(point.chain, again.chain, FRAME_CHAIN_SIZE);
        assert_int_equal(log_point(two->leader.log, position + 8, &again), position == end ? LOG_END : LOG_WITHIN);
        if (log_cursor_next(cursor, UINT64_MAX, &view) != 0) break;
        memcpy(chain, view.header.chain, FRAME_CHAIN_SIZE);
        epoch = view.header.epoch;
        frames++;
    }
    log_cursor_close(cursor);
    assert_true(frames > 60);
    assert_int_equal(point.steady_ns, two->time_ns);
    assert_int_equal(log_point(two->leader.log, 0, &point), LOG_RETIRED);
    assert_int_equal(log_point(two->leader.log, UINT64_MAX - 7, &point), LOG_END);
    /* The log is opened again, so its cache is empty. The point is then read from the header of the oldest segment. */
    struct log_segment oldest;
    assert_true(log_oldest(two->leader.log, end, &oldest));
    assert_int_equal(log_retire(two->leader.log, oldest.base), 0);
    one_kill(&two->leader);
    one_open(&two->leader);
    assert_int_equal(log_point(two->leader.log, oldest.base, &point), LOG_RETIRED);
    assert_int_equal(log_point(two->leader.log, oldest.end, &point), 0);
    assert_int_equal(log_point(two->leader.log, end, &point), 0);
    assert_memory_equal(point.chain, two->leader.recovery.chain, FRAME_CHAIN_SIZE);
}

static void epochs_are_listed_with_where_they_begin(void **state) {
    struct two *two = *state;
    struct log_epochs epochs;
    assert_int_equal(log_epochs_read(two->leader.log, &epochs), 0);
    assert_int_equal(epochs.count, 0);
    assert_int_equal(epochs.start, LOG_POSITION_FIRST);
    assert_int_equal(epochs.end, LOG_POSITION_FIRST);
    uint64_t starts[40] = {0};
    for (uint32_t i = 1; i < 40; i++) {
        two->epoch = 2 * i;
        starts[i] = log_end(two->leader.log);
        for (uint32_t k = 0; k < i % 5 + 1; k++) two_append(two, &two->leader, 300, 0);
    }
    assert_int_equal(log_sync(two->leader.log), 0);
    for (uint32_t kept_from = 1;;) {
        assert_int_equal(log_epochs_read(two->leader.log, &epochs), 0);
        assert_int_equal(epochs.start, log_start(two->leader.log));
        assert_int_equal(epochs.end, log_end(two->leader.log));
        assert_int_equal(epochs.count, 40 - kept_from);
        for (uint32_t i = kept_from; i < 40; i++) {
            const struct log_epoch *epoch = &epochs.items[i - kept_from];
            assert_int_equal(epoch->epoch, 2 * i);
            assert_int_equal(epoch->start, starts[i] > epochs.start ? starts[i] : epochs.start);
        }
        log_epochs_deinit(&epochs);
        struct log_segment oldest;
        if (!log_oldest(two->leader.log, UINT64_MAX, &oldest)) break;
        assert_int_equal(log_retire(two->leader.log, oldest.base), 0);
        /* The log still knows the epoch of the last frame before its oldest segment, although it has no frame of this
         * epoch any more. */
        while (kept_from < 39 && starts[kept_from + 1] < oldest.end) kept_from++;
    }
}

static void common(struct log_epochs a, struct log_epochs b, uint64_t expected) {
    assert_int_equal(log_epochs_common(&a, &b), expected);
    assert_int_equal(log_epochs_common(&b, &a), expected);
}
#define EPOCHS(from, to, ...)                                                                                          \
    (struct log_epochs) {                                                                                              \
        .items = (struct log_epoch[]){__VA_ARGS__}, .count = sizeof((struct log_epoch[]){__VA_ARGS__}) / 16,           \
        .start = (from), .end = (to)                                                                                   \
    }

static void the_last_common_epoch_tells_where_to_look(void **state) { /* R8, F-25 */
    struct log_epochs none = {.start = 4096, .end = 4096};
    struct log_epochs leader = EPOCHS(4096, 9000, {1, 4096}, {2, 5000}, {4, 7000});
    common(leader, EPOCHS(4096, 7500, {1, 4096}, {2, 5000}, {3, 6000}), 7000 > 6000 ? 6000 : 0);
    common(leader, EPOCHS(4096, 8000, {1, 4096}, {2, 5000}, {3, 7600}), 7000);
    common(leader, EPOCHS(4096, 8000, {1, 4096}, {2, 5000}, {4, 7000}), 8000);
    common(leader, EPOCHS(4096, 9000, {1, 4096}, {3, 5000}), 5000);
    common(leader, EPOCHS(4096, 4400, {1, 4096}), 4400);
    common(leader, none, 4096);
    common(none, none, 4096);
    /* The logs never had a frame in common, or their common frames are retired. */
    common(EPOCHS(6000, 9000, {5, 6000}), EPOCHS(4096, 8000, {3, 4096}), 6000);
    common(EPOCHS(9000, 9900, {5, 9000}), EPOCHS(4096, 8000, {3, 4096}), 8000);
    /* Only the beginning of the last common epoch is still in the log. */
    common(EPOCHS(6000, 9000, {2, 6000}, {4, 7000}), EPOCHS(4096, 6500, {1, 4096}, {2, 5000}), 6500);
    common(EPOCHS(6000, 9000, {2, 6000}, {4, 7000}), EPOCHS(4096, 5500, {1, 4096}, {2, 5000}), 5500);
}

/* Sets the flag of the frame at `position` and zeroes its contents, as a redaction does. */
static void erase(struct two *two, uint64_t position, uint32_t size) {
    struct log_content content = {.frame = position, .at = frame_blob_position(position), .size = size};
    assert_true(log_erase_begin(two->leader.log));
    assert_int_equal(log_erase(two->leader.log, &content, 1), 0);
    log_erase_end(two->leader.log);
}

static void what_was_erased_is_copied_and_stays_so(void **state) { /* LOG-5 */
    struct two *two = *state;
    two_append(two, &two->leader, 100, 0);
    uint64_t erased = two_append(two, &two->leader, 100, 60);
    assert_int_equal(log_sync(two->leader.log), 0);
    two_append(two, &two->leader, 100, 0); /* the frame records that the one before it was durable */
    assert_int_equal(log_sync(two->leader.log), 0);
    erase(two, erased, 40);
    two_follow(two);
    two_must_be_same(two, LOG_POSITION_FIRST);
    uint64_t end = log_end(two->follower.log);
    /* The follower's index does not know the erasure yet, but the file DIR/log/durable of its log does. */
    one_kill(&two->follower);
    one_open(&two->follower);
    assert_int_equal(two->follower.recovery.end, end);
    assert_int_equal(two->follower.recovery.cut_bytes, 0);
    two_must_be_same(two, LOG_POSITION_FIRST);
}

static void a_mark_says_how_far_the_log_was_durable(void **state) { /* LOG-5, F-9 */
    struct two *two = *state;
    two_append(two, &two->leader, 100, 0);
    uint64_t last = two_append(two, &two->leader, 100, 0);
    assert_int_equal(log_sync(two->leader.log), 0);
    two_follow(two);
    uint64_t end = log_end(two->follower.log);
    struct model_file *file = model_lookup(two->follower.model, "0000000000001000.seg");
    uint8_t *byte = &file->cached[4096 + (last - LOG_POSITION_FIRST) + FRAME_HEADER_SIZE];
    assert_int_equal(log_mark(two->follower.log), 0);
    one_kill(&two->follower);
    /* A flipped bit in the last frame looks like a torn tail, because no later frame protects it. The file
     * DIR/log/durable shows that it is damage. */
    *byte ^= 1;
    assert_int_equal(one_try(&two->follower, 0), LOG_DAMAGED);
    if (!strstr(two->follower.message, "the end of the log is lost")) fail_msg("%s", two->follower.message);
    *byte ^= 1;
    one_open(&two->follower);
    assert_int_equal(two->follower.recovery.end, end);
    one_kill(&two->follower);
    /* An invalid file DIR/log/durable is an error, and is not treated as missing. */
    struct model_file *mark = model_lookup(two->follower.model, "durable");
    for (size_t i = 0; i < mark->cached_size; i++) {
        mark->cached[i] ^= 1;
        int result = one_try(&two->follower, 0);
        assert_true(result == LOG_DAMAGED || (i >= 8 && i < 12 && result == LOG_VERSION));
        assert_true(strstr(two->follower.message, "durable: the file") != NULL);
        model_kill(two->follower.model);
        mark->cached[i] ^= 1;
    }
    two->follower.options.cluster[3] = 1;
    assert_int_equal(one_try(&two->follower, 0), LOG_FOREIGN);
    model_kill(two->follower.model);
}

static uint64_t synced_to_of_last(struct one *one, uint64_t position) {
    struct log_bytes bytes = {0};
    struct frame_header header;
    assert_int_equal(log_serve(one->log, position, UINT64_MAX, 0, &bytes), 0);
    assert_true(frame_header_decode(bytes.data, &header));
    log_bytes_deinit(&bytes);
    return header.synced_to;
}

static void a_pair_claims_what_both_have(void **state) { /* LOG-5 */
    struct two *two = *state;
    uint64_t first = two_append(two, &two->leader, 100, 0);
    assert_int_equal(log_sync(two->leader.log), 0);
    log_claim(two->leader.log, first);
    uint64_t second = two_append(two, &two->leader, 100, 0);
    assert_int_equal(log_sync(two->leader.log), 0);
    assert_int_equal(synced_to_of_last(&two->leader, second), first);
    /* The leader's frames claim only `first` as synced. So the follower may write both frames without a sync between
     * them. */
    uint64_t syncs = two->follower.model->datasyncs;
    assert_int_equal(two_follow_once(two, 1), 0);
    assert_int_equal(two->follower.model->datasyncs, syncs);
    /* The position in DIR/log/durable is never beyond the durable position. */
    log_claim(two->leader.log, UINT64_MAX);
    uint64_t third = two_append(two, &two->leader, 100, 0);
    assert_int_equal(log_sync(two->leader.log), 0);
    assert_int_equal(synced_to_of_last(&two->leader, third), third);
    assert_int_equal(two_follow_once(two, 1), 0);
    assert_int_equal(two->follower.model->datasyncs, syncs + 1);
    assert_int_equal(log_durable(two->follower.log), third);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, two_set_up, two_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_copy_is_the_same_frame_by_frame),
        TEST(what_is_not_synced_yet_is_served_too),
        TEST(served_are_whole_frames_within_the_limit),
        TEST(damage_is_not_served),
        TEST(what_does_not_continue_the_log_is_not_taken),
        TEST(another_history_is_not_taken),
        TEST(a_failed_disk_takes_nothing_more),
        TEST(points_are_found_wherever_a_frame_ends),
        TEST(epochs_are_listed_with_where_they_begin),
        TEST(the_last_common_epoch_tells_where_to_look),
        TEST(what_was_erased_is_copied_and_stays_so),
        TEST(a_mark_says_how_far_the_log_was_durable),
        TEST(a_pair_claims_what_both_have),
    };
    return cmocka_run_group_tests_name("log_copy", tests, NULL, NULL);
}
