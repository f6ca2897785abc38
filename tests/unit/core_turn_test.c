/* core_turn_test.c: which events the core gets, with which time and in which order (engine/core_turn.h,
 * engine_request.h). */
#include "core_turn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS 1000000ull
#define NOW_NS (1000000ull * MS)

struct fx {
    struct core *core;
    struct arena arena;
    struct core_effects effects;
    struct core_turn turn;
    struct turn_load load;
};

static struct turn_now at(uint64_t ns) {
    return (struct turn_now){.logical = {.steady_ns = ns, .wall_ns = ns}, .boot_ns = ns};
}

/* Makes a core that decides, and whose frames are not yet durable. */
static int setup(void **state) {
    struct fx *f = calloc(1, sizeof *f);
    const struct core_options options = {.memory = (64u << 20),
                                         .outcomes_max = 100,
                                         .outcome_retention_ms = 3600000,
                                         .version = "test"};
    f->core = core_new(&options);
    arena_init(&f->arena, SIZE_MAX);
    core_effects_init(&f->effects, &f->arena);
    core_turn_init(&f->turn, f->core, core_position(f->core), core_position(f->core));
    core_turn_fill(&f->turn, &f->effects);
    struct core_event start = {.kind = CORE_START, .start.epoch = 1};
    struct turn_now now = at(NOW_NS);
    core_turn_begin(&f->turn, NOW_NS);
    core_turn_step(&f->turn, &start, &now);
    core_effects_reset(&f->effects);
    f->load = (struct turn_load){.taken_ns = NOW_NS};
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fx *f = *state;
    core_free(f->core);
    arena_deinit(&f->arena);
    free(f);
    return 0;
}

/* Runs the turn until its next effect is `effect`. Carries out the steps (TURN_STEP) and the examinations (TURN_LOOK)
 * before. Returns false if the turn ends first. */
static bool goes_on_to(struct fx *f, enum turn_effect effect) {
    enum turn_effect next;
    struct turn_now now = at(NOW_NS);
    while ((next = core_turn_next(&f->turn)) != effect && next != TURN_DONE) {
        if (next == TURN_STEP) core_turn_step(&f->turn, &f->turn.event, &now);
        if (next == TURN_LOOK) core_turn_look(&f->turn, &now);
        if (next == TURN_FLUSH) {
            core_effects_reset(&f->effects);
            core_turn_flushed(&f->turn);
        }
        if (next == TURN_FILL) core_turn_fill(&f->turn, &f->effects);
    }
    return next == effect;
}

/* A batch waits to be sent, and the next step needs another free batch. */
static void the_core_waits_for_a_batch(void **state) { /* CALM-1 */
    struct fx *f = *state;
    struct item item = {.kind = ITEM_LANE, .received_ns = NOW_NS};
    core_turn_take(&f->turn, &f->load);
    core_turn_flushed(&f->turn);
    assert_int_equal(core_turn_next(&f->turn), TURN_FILL);
    assert_int_equal(core_turn_next(&f->turn), TURN_FILL); /* the effect is repeated until a batch is free */
    core_turn_fill(&f->turn, &f->effects);
    assert_false(goes_on_to(f, TURN_FILL));
    f->load.first = &item;
    core_turn_flushed(&f->turn);
    core_turn_take(&f->turn, &f->load);
    assert_int_equal(core_turn_next(&f->turn),
                     TURN_FILL); /* the core takes an item from the inbox only if it has a free batch */
    core_turn_fill(&f->turn, &f->effects);
    assert_true(goes_on_to(f, TURN_TAKE));
    assert_true(core_turn_may_fill(TURN_BATCHES_MAX - 1, false));
    assert_false(core_turn_may_fill(TURN_BATCHES_MAX, false));
    assert_true(core_turn_may_fill(TURN_BATCHES_MAX, true)); /* a core that stops does not wait for a free batch */
}

static void an_item_is_judged_by_when_it_was_received(void **state) { /* TIME-2 */
    struct fx *f = *state;
    struct item item = {.kind = ITEM_LANE, .received_ns = NOW_NS - 50 * MS};
    struct turn_now now = at(NOW_NS);
    f->load.first = &item;
    core_turn_take(&f->turn, &f->load);
    assert_true(goes_on_to(f, TURN_TAKE));
    assert_ptr_equal(f->turn.item, &item);
    assert_int_equal(core_turn_time(&f->turn, &now).steady_ns, NOW_NS - 50 * MS);
    assert_false(goes_on_to(f, TURN_TAKE));
    assert_int_equal(core_turn_time(&f->turn, &now).steady_ns,
                     NOW_NS); /* all items received before this time have been handled */
}

/* A process was stopped, and becomes the leader when it continues. It judges waiting requests by the time at which the
 * stop began. (In pair history 4000226 of 1ce1971 the simulator had its own copy of this code, with an error.) */
static void who_leads_as_it_wakes_up_begins_now(void **state) { /* TIME-2 */
    struct fx *f = *state;
    struct turn_now now = at(NOW_NS);
    f->turn.follows = true;
    f->load = (struct turn_load){.taken_ns = NOW_NS - 1700 * MS, .late_ns = 1700 * MS, .lead = true};
    core_turn_take(&f->turn, &f->load);
    assert_true(goes_on_to(f, TURN_APPLY));
    assert_true(goes_on_to(f, TURN_LEAD));
    assert_int_equal(core_turn_time(&f->turn, &now).wall_ns, NOW_NS - 1700 * MS);
    core_turn_begin(&f->turn, NOW_NS);
    assert_int_equal(core_turn_time(&f->turn, &now).wall_ns, NOW_NS);
    assert_int_equal(f->turn.late_ns, 0);
}

static void what_is_put_off_is_taken_once_the_leader_goes_on(void **state) { /* TRUE-1 */
    struct fx *f = *state;
    struct item news = {.kind = ITEM_LANE, .received_ns = NOW_NS};
    Tarry__Request request = {.body_case = TARRY__REQUEST__BODY_COMMIT};
    struct engine_request call = {.item = {.kind = ITEM_CALL, .received_ns = NOW_NS},
                                  .event = {.kind = CORE_REQUEST, .request.message = &request},
                                  .hold = -1};
    f->load.pause = true;
    core_turn_take(&f->turn, &f->load);
    assert_false(goes_on_to(f, TURN_TAKE));
    f->load.first = &news;
    news.next = &call.item;
    core_turn_take(&f->turn, &f->load);
    assert_true(goes_on_to(f, TURN_REFUSE)); /* the waiting client gets its answer, and the other event waits */
    assert_ptr_equal(f->turn.item, &call.item);
    assert_false(goes_on_to(f, TURN_TAKE));
    request.body_case = TARRY__REQUEST__BODY_STATS; /* a query is not refused */
    call.item.next = NULL;
    f->load.first = &call.item;
    core_turn_take(&f->turn, &f->load);
    assert_true(goes_on_to(f, TURN_TAKE));
    assert_false(goes_on_to(f, TURN_TAKE));
    f->load = (struct turn_load){.taken_ns = NOW_NS};
    core_turn_take(&f->turn, &f->load);
    assert_true(goes_on_to(f, TURN_TAKE));
    assert_ptr_equal(f->turn.item, &news);
}

static void a_pause_is_told_once_all_that_was_decided_is_committed(void **state) { /* R8 */
    struct fx *f = *state;
    f->load.pause = true;
    core_turn_take(&f->turn, &f->load);
    assert_false(goes_on_to(f, TURN_PAUSED));
    f->load.durable = core_position(f->core);
    core_turn_take(&f->turn, &f->load);
    assert_false(
        goes_on_to(f, TURN_PAUSED)); /* no TURN_PAUSED yet, because the seal frame that the core wrote is not durable */
    f->load.durable = core_position(f->core);
    core_turn_take(&f->turn, &f->load);
    assert_true(goes_on_to(f, TURN_PAUSED));
    assert_int_equal(f->turn.position, core_position(f->core));
    core_turn_take(&f->turn, &f->load);
    assert_false(goes_on_to(f, TURN_PAUSED)); /* the effect is reported only once */
}

static void the_last_record_comes_when_nobody_waits_and_nothing_after_it(void **state) { /* KEEP-1 */
    struct fx *f = *state;
    struct item item = {.kind = ITEM_LANE, .received_ns = NOW_NS};
    f->load.stop = true;
    f->load.durable = core_position(f->core);
    core_turn_take(&f->turn, &f->load);
    assert_false(goes_on_to(f, TURN_TAKE));
    f->load.durable = core_position(f->core);
    core_turn_take(&f->turn, &f->load);
    assert_false(goes_on_to(f, TURN_TAKE));
    assert_int_equal(core_turn_end(&f->turn, 1000, true), TURN_GOES_ON);
    assert_int_equal(core_turn_end(&f->turn, 1000, false), TURN_CLOSES);
    f->load.first = &item;
    core_turn_take(&f->turn, &f->load);
    assert_true(goes_on_to(f, TURN_DROP));
    assert_false(goes_on_to(f, TURN_DROP));
    assert_int_equal(core_turn_end(&f->turn, 1001, false), TURN_IS_OVER);
}

static void who_is_waited_for_in_vain_does_not_hold_up_the_end(void **state) {
    struct fx *f = *state;
    f->load.stop = true;
    core_turn_take(&f->turn, &f->load);
    assert_false(goes_on_to(f, TURN_TAKE));
    assert_int_equal(core_turn_end(&f->turn, 1000, true), TURN_GOES_ON);
    assert_int_equal(core_turn_end(&f->turn, 1000 + TURN_DRAIN_MAX_MS + 1, true), TURN_CLOSES);
    assert_int_equal(core_turn_end(&f->turn, 1000 + 2 * TURN_DRAIN_MAX_MS + 1, true), TURN_IS_OVER);
}

static void a_tick_follows_once_there_is_room_on_the_way_out(void **state) { /* KEEP-1 */
    struct fx *f = *state;
    struct core_event event = {.kind = CORE_DURABLE, .position = core_position(f->core)};
    struct turn_now full = at(NOW_NS), now = at(NOW_NS);
    full.full = true;
    core_turn_step(&f->turn, &event, &full);
    assert_true(event.full);
    assert_false(core_turn_is_due(&f->turn, &full));
    assert_true(core_turn_is_due(&f->turn, &now));
}

static void every_other_tick_delivers_however_late_it_is(void **state) {
    struct fx *f = *state;
    struct turn_now late = at(NOW_NS + TURN_BEHIND_NS + MS);
    struct core_event event = {.kind = CORE_TICK};
    core_turn_step(&f->turn, &event, &late);
    assert_true(event.behind);
    core_turn_step(&f->turn, &event, &late);
    assert_false(event.behind);
}

static void a_window_is_given_in_pieces_each_as_far_as_it_reaches(void **state) { /* KEEP-1 */
    struct row rows[3] = {{.id = 1, .due_ms = 10}, {.id = 2, .due_ms = 20}, {.id = 3, .due_ms = 30}};
    struct window_rows window = {.rows = rows, .count = 3, .through = {.due_ms = 99}};
    struct core_event event;
    assert_true(window_next(&window, 2, &event));
    assert_int_equal(event.window.row_count, 2);
    assert_true(event.window.more);
    assert_int_equal(event.window.through.due_ms, 20);
    assert_int_equal(event.window.through.id, 2);
    assert_false(window_next(&window, 2, &event));
    assert_int_equal(event.window.row_count, 1);
    assert_int_equal(event.window.through.due_ms, 99);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_core_waits_for_a_batch),
        TEST(an_item_is_judged_by_when_it_was_received),
        TEST(who_leads_as_it_wakes_up_begins_now),
        TEST(what_is_put_off_is_taken_once_the_leader_goes_on),
        TEST(a_pause_is_told_once_all_that_was_decided_is_committed),
        TEST(the_last_record_comes_when_nobody_waits_and_nothing_after_it),
        TEST(who_is_waited_for_in_vain_does_not_hold_up_the_end),
        TEST(a_tick_follows_once_there_is_room_on_the_way_out),
        TEST(every_other_tick_delivers_however_late_it_is),
        TEST(a_window_is_given_in_pieces_each_as_far_as_it_reaches),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
