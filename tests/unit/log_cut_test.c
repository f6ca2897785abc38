/* log_cut_test.c: frames that the leader never had are copied to the quarantine, can be read there, and are cut off the
 * log (R8, F-25). */
#include "log_two.h"
#include "quarantine.h"
#include "summary.h"

struct aside { /* the quarantine of the follower's tails, on the same disk */
    struct quarantine quarantine;
    struct quarantine_tail tail;
};

static struct aside aside_of(const struct two *two) {
    return (struct aside){.quarantine = {.disk = &two->follower.model->disk, .directory = "/d/quarantine"}};
}

static int cut(struct two *two, struct aside *aside, uint64_t position, uint64_t keep_min) {
    return log_cut(two->follower.log, position, keep_min, &aside->quarantine, "the leader never had it", &aside->tail);
}

/* Checks that the quarantined tail is a valid log with these bytes. */
static void must_hold(struct aside *aside, const uint8_t *bytes) {
    struct log *log;
    struct log_recovery recovery;
    char message[512] = "", why[QUARANTINE_WHY_SIZE];
    struct quarantine_tail *tails;
    size_t count;
    bool is_listed = false;
    if (quarantine_open(&log, &aside->quarantine, &aside->tail, &recovery, message, sizeof(message)) != 0)
        fail_msg("%s", message);
    assert_int_equal(recovery.start, aside->tail.base);
    assert_int_equal(recovery.end, aside->tail.end);
    uint8_t *kept = two_read(log, recovery.start, recovery.end);
    assert_memory_equal(kept, bytes, recovery.end - recovery.start);
    free(kept);
    log_close(log);
    assert_int_equal(quarantine_list(&aside->quarantine, &tails, &count), 0);
    for (size_t i = 0; i < count; i++)
        is_listed |= strcmp(tails[i].name, aside->tail.name) == 0 && tails[i].base == aside->tail.base &&
                     tails[i].end == aside->tail.end;
    assert_true(is_listed);
    free(tails);
    quarantine_why(&aside->quarantine, &aside->tail, why);
    assert_string_equal(why, "the leader never had it");
}

/* Compares the fields one by one, because the padding of the structs may differ. */
static void same_point(const struct log_point *one, const struct log_point *other) {
    assert_int_equal(one->position, other->position);
    assert_int_equal(one->epoch, other->epoch);
    assert_int_equal(one->steady_ns, other->steady_ns);
    assert_int_equal(one->wall_ns, other->wall_ns);
    assert_memory_equal(one->chain, other->chain, FRAME_CHAIN_SIZE);
}

/* Proves R8, F-25 and F-26. */
static void a_returner_finds_the_common_point_and_follows(void **state) {
    for (size_t common = 0; common < 40; common++) {
        if (common > 0) two_set_up(state);
        struct two *two = *state;
        struct aside aside = aside_of(two);
        struct log_epochs mine, theirs;
        struct log_point point, other;
        uint64_t position = two_diverge(two, common, 1 + common * 7 % 30), end = log_end(two->follower.log);
        assert_int_equal(two_follow_once(two, UINT32_MAX) == 0, 0);
        assert_int_equal(log_epochs_read(two->follower.log, &mine), 0);
        assert_int_equal(log_epochs_read(two->leader.log, &theirs), 0);
        assert_int_equal(log_epochs_common(&mine, &theirs), position);
        log_epochs_deinit(&mine);
        log_epochs_deinit(&theirs);
        assert_int_equal(log_point(two->leader.log, position, &other), 0);
        assert_int_equal(log_point(two->follower.log, position, &point), 0);
        assert_memory_equal(point.chain, other.chain, FRAME_CHAIN_SIZE);
        uint8_t *bytes = two_read(two->follower.log, position, end);
        assert_int_equal(cut(two, &aside, position, position), 0);
        assert_int_equal(aside.tail.base, position);
        assert_int_equal(aside.tail.end, end);
        must_hold(&aside, bytes);
        assert_int_equal(log_end(two->follower.log), position);
        assert_int_equal(log_durable(two->follower.log), position);
        assert_int_equal(log_point(two->follower.log, position, &other), 0);
        same_point(&point, &other);
        two_follow(two);
        two_must_be_same(two, LOG_POSITION_FIRST);
        one_kill(&two->follower);
        one_open(&two->follower);
        assert_int_equal(two->follower.recovery.stray_bytes, 0);
        two_must_be_same(two, LOG_POSITION_FIRST);
        must_hold(&aside, bytes);
        free(bytes);
        two_tear_down(state);
    }
    two_set_up(state);
}

/* Cuts at every frame, across segments, and at the beginning of a segment. */
static void a_log_can_be_cut_wherever_a_frame_ends(void **state) {
    for (size_t frame = 0;; frame++) {
        if (frame > 0) two_set_up(state);
        struct two *two = *state;
        struct aside aside = aside_of(two);
        struct log_cursor *cursor;
        struct log_view view;
        two_fill(two, &two->follower, 40);
        uint64_t end = log_end(two->follower.log);
        assert_int_equal(log_cursor_open(&cursor, two->follower.log, LOG_POSITION_FIRST, false), 0);
        for (size_t i = 0; i < frame && log_cursor_next(cursor, UINT64_MAX, &view) == 0; i++) continue;
        uint64_t position = log_cursor_position(cursor);
        log_cursor_close(cursor);
        uint8_t *kept = two_read(two->follower.log, LOG_POSITION_FIRST, position);
        uint8_t *bytes = two_read(two->follower.log, position, end);
        if (position < end) assert_int_equal(cut(two, &aside, position + 8, 0), LOG_WITHIN);
        assert_int_equal(cut(two, &aside, position, 0), 0);
        if (position < end) must_hold(&aside, bytes);
        uint32_t epoch_before = two->epoch;
        two->epoch++;
        uint64_t next = two_append(two, &two->follower, 500, 0);
        assert_int_equal(next, position);
        assert_int_equal(log_sync(two->follower.log), 0);
        one_kill(&two->follower);
        one_open(&two->follower);
        assert_int_equal(two->follower.recovery.end, position + frame_size(500, 0));
        assert_int_equal(two->follower.recovery.stray_bytes, 0);
        uint8_t *again = two_read(two->follower.log, LOG_POSITION_FIRST, position);
        assert_memory_equal(kept, again, position - LOG_POSITION_FIRST);
        free(kept);
        free(again);
        free(bytes);
        two_tear_down(state);
        if (position == end) break;
        assert_true(epoch_before > 0);
    }
    two_set_up(state);
}

static void what_must_stay_is_not_cut(void **state) { /* R8: no node cuts below its own index */
    struct two *two = *state;
    struct aside aside = aside_of(two);
    two_append(two, &two->follower, 100, 0);
    uint64_t second = two_append(two, &two->follower, 100, 0), third = two_append(two, &two->follower, 100, 0);
    assert_int_equal(log_sync(two->follower.log), 0);
    uint64_t calls = two->follower.model->calls;
    assert_int_equal(cut(two, &aside, second, third), LOG_KEPT);
    assert_int_equal(cut(two, &aside, second + 8, 0), LOG_WITHIN);
    assert_int_equal(cut(two, &aside, log_end(two->follower.log) + 8, 0), LOG_END);
    assert_int_equal(cut(two, &aside, 8, 0), LOG_RETIRED);
    log_pin(two->follower.log);
    assert_int_equal(cut(two, &aside, third, third), LOG_PINNED);
    log_unpin(two->follower.log);
    assert_int_equal(two->follower.model->calls, calls);
    assert_int_equal(cut(two, &aside, log_end(two->follower.log), 0), 0);
    assert_int_equal(aside.tail.base, aside.tail.end);
    assert_int_equal(two->follower.model->calls, calls);
    assert_int_equal(cut(two, &aside, third, third), 0);
}

/* A reader that has read ahead beyond the cut gets the frames that were written after the cut. */
static void readers_see_no_frame_that_was_cut(void **state) {
    struct two *two = *state;
    struct aside aside = aside_of(two);
    struct log_cursor *cursor;
    struct log_view view;
    struct log_point point;
    two_append(two, &two->follower, 100, 0);
    uint64_t second = two_append(two, &two->follower, 100, 0);
    assert_int_equal(log_sync(two->follower.log), 0);
    uint64_t end = log_end(two->follower.log);
    assert_int_equal(log_cursor_open(&cursor, two->follower.log, LOG_POSITION_FIRST, true), 0);
    assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), 0);
    assert_int_equal(log_point(two->follower.log, end, &point), 0);
    /* The cut is repeated, because after a few cuts a new file gets the same descriptor number as an old one. The log's
     * cache must not confuse the two files. */
    for (uint32_t cuts = 1; cuts < 5; cuts++) {
        for (uint32_t i = 0; i < cuts; i++) {
            assert_int_equal(cut(two, &aside, second, 0), 0);
            assert_int_equal(log_point(two->follower.log, end, &point), LOG_END);
            if (cuts % 2) assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), LOG_END);
            two->epoch++;
            two_append(two, &two->follower, 100, 0);
            assert_int_equal(log_sync(two->follower.log), 0);
        }
        assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), 0);
        assert_int_equal(view.header.epoch, two->epoch);
        assert_int_equal(log_point(two->follower.log, end, &point), 0);
        assert_int_equal(point.epoch, two->epoch);
        log_cursor_close(cursor);
        assert_int_equal(log_cursor_open(&cursor, two->follower.log, LOG_POSITION_FIRST, true), 0);
        assert_int_equal(log_cursor_next(cursor, UINT64_MAX, &view), 0);
    }
    log_cursor_close(cursor);
}

static void a_full_disk_costs_nothing(void **state) { /* F-28 */
    struct two *two = *state;
    struct aside aside = aside_of(two);
    uint64_t position = two_diverge(two, 20, 30), end = log_end(two->follower.log);
    uint8_t *bytes = two_read(two->follower.log, LOG_POSITION_FIRST, end);
    uint64_t used = model_room_used(two->follower.model);
    size_t refused = 0;
    for (uint64_t more = 0;; more += 512) {
        two->follower.model->room = used + more;
        int result = cut(two, &aside, position, position);
        if (result == 0) break;
        assert_int_equal(result, -ENOSPC);
        refused++;
        assert_int_equal(log_end(two->follower.log), end);
        uint8_t *again = two_read(two->follower.log, LOG_POSITION_FIRST, end);
        assert_memory_equal(bytes, again, end - LOG_POSITION_FIRST);
        free(again);
    }
    assert_true(refused > 10);
    two->follower.model->room = 0;
    must_hold(&aside, bytes + (position - LOG_POSITION_FIRST));
    free(bytes);
    two_follow(two);
    two_must_be_same(two, LOG_POSITION_FIRST);
}

static void the_mark_does_not_outlive_a_cut(void **state) {
    struct two *two = *state;
    struct aside aside = aside_of(two);
    uint64_t position = two_diverge(two, 10, 10);
    assert_int_equal(log_mark(two->follower.log), 0);
    assert_int_equal(cut(two, &aside, position, position), 0);
    one_kill(&two->follower);
    one_open(&two->follower);
    assert_int_equal(two->follower.recovery.end, position);
}

/* Writes a summary for every segment. */
static size_t summarize_segments(struct log *log, uint64_t bases[], size_t bases_max) {
    struct log_cursor *cursor;
    struct log_view view;
    size_t count = 0;
    assert_int_equal(log_cursor_open(&cursor, log, LOG_POSITION_FIRST, false), 0);
    while (log_cursor_next(cursor, UINT64_MAX, &view) == 0) {
        uint64_t base = log_cursor_segment(cursor);
        if (count > 0 && bases[count - 1] == base) continue;
        assert_true(count < bases_max);
        bases[count++] = base;
        struct summary *summary = summary_new(base, SEGMENT_SIZE);
        assert_non_null(summary);
        assert_int_equal(summary_write(summary, log), 0);
        summary_free(summary);
    }
    log_cursor_close(cursor);
    return count;
}

static bool has_summary(const struct one *one, uint64_t base) {
    struct summary *summary = NULL;
    int result = summary_like(&summary, &one->model->disk, one->options.directory, base);
    summary_free(summary);
    return result == 0;
}

/* A later segment may have the same base as a deleted one, so the deleted segment's summary must not be used for it. */
static void the_summaries_of_what_was_cut_go_with_it(void **state) {
    struct two *two = *state;
    struct aside aside = aside_of(two);
    uint64_t bases[64] = {0};
    two_fill(two, &two->follower, 40);
    size_t count = summarize_segments(two->follower.log, bases, 64), kept = count / 2;
    assert_true(count >= 4);
    assert_int_equal(cut(two, &aside, bases[kept], 0), 0);
    for (size_t i = 0; i < count; i++) assert_int_equal(has_summary(&two->follower, bases[i]), i < kept);
}

static void a_damaged_tail_is_told(void **state) {
    struct two *two = *state;
    struct aside aside = aside_of(two);
    struct log *log;
    struct log_recovery recovery;
    char message[512];
    uint64_t position = two_diverge(two, 10, 10);
    assert_int_equal(cut(two, &aside, position, position), 0);
    struct model_file *file = model_lookup(two->follower.model, aside.tail.name);
    for (uint64_t i = 0; i < file->cached_size; i += 11) {
        if (i >= 4096 && (i - 4096) % 8 == FRAME_FLAGS_OFFSET)
            continue; /* this byte may be a frame's flags, of which the flag "erased" may change without damage */
        file->cached[i] ^= 1;
        int result = quarantine_open(&log, &aside.quarantine, &aside.tail, &recovery, message, sizeof(message));
        if (result == 0) fail_msg("byte %" PRIu64 " is not missed", i);
        file->cached[i] ^= 1;
    }
    file->cached_size -= 8;
    assert_int_equal(quarantine_open(&log, &aside.quarantine, &aside.tail, &recovery, message, sizeof(message)),
                     LOG_DAMAGED);
    file->cached_size = 100; /* the file does not even have a complete header, but it is still listed */
    struct quarantine_tail *tails;
    size_t count;
    assert_int_equal(quarantine_list(&aside.quarantine, &tails, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(tails[0].end, tails[0].base);
    free(tails);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, two_set_up, two_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_returner_finds_the_common_point_and_follows),
        TEST(a_log_can_be_cut_wherever_a_frame_ends),
        TEST(what_must_stay_is_not_cut),
        TEST(readers_see_no_frame_that_was_cut),
        TEST(a_full_disk_costs_nothing),
        TEST(the_mark_does_not_outlive_a_cut),
        TEST(the_summaries_of_what_was_cut_go_with_it),
        TEST(a_damaged_tail_is_told),
    };
    return cmocka_run_group_tests_name("log_cut", tests, NULL, NULL);
}
