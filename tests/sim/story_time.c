/* story_time.c: no delivery is early, whatever clocks do (TIME-1, TIME-2; F-32 … F-36). */
#include "story.h"

#define HOUR_MS (3600 * 1000)
#define DAY_MS (24ll * HOUR_MS)

/* Returns the wall time of the broker's machine in ms. */
static uint64_t wall_ms(struct fx *f) {
    return world_real_ns(f->world) / NS_PER_MS;
}

/* ---- TIME-1 */

static void a_task_departs_in_the_millisecond_it_is_due_and_not_before(void **state) { /* TIME-1 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .delay_ms = 500); /* the broker receives the request at [1001] */
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    SIM_ELAPSE(f, 400);
    SIM_TRACE(f, "[1451] broker append #9 leased 1\n"
                 "[1461] broker durable #9\n");
    SIM_ELAPSE(f, 2);
    SIM_TRACE(f, "[1502] worker gets task 1, delivery 1\n");
}

static void what_is_received_within_a_millisecond_is_due_at_the_next(void **state) { /* TIME-1 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    world_run_until(f->world, f->world->now_ns + 100000);
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500); /* the broker receives the request at [1001.1] */
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    SIM_ELAPSE(f, 402);
    SIM_TRACE(f, "[1452] broker append #9 leased 1\n"
                 "[1462] broker durable #9\n"); /* TIME-1: a delivery at [1501] would be early, only 499.9 ms after the
                                                   request */
    SIM_ELAPSE(f, 2);
    SIM_TRACE(f, "[1503] worker gets task 1, delivery 1\n");
}

static void without_a_delay_it_is_due_at_its_receipt(void **state) { /* TIME-1 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    world_run_until(f->world, f->world->now_ns + 100000);
    client_schedule(f->shop, .key = "order-1"); /* the broker gets the request at [1101.1] */
    SIM_ELAPSE(f, 10);
    SIM_TRACE(
        f,
        "[1100] shop > schedule orders order-1 in 0 ms #4\n"
        "[1101] broker append #7 queue orders\n"
        "[1101] broker append #8 scheduled 1\n"
        "[1101] broker append #9 leased 1\n"); /* the lease is made in the millisecond of the request, not at [1102] */
}

static void a_millisecond_is_a_millisecond(void **state) { /* TIME-1 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    client_schedule(f->shop, .delay_ms = 1);
    SIM_ELAPSE(f, 50);
    SIM_TRACE(f, "[1100] shop > schedule orders in 1 ms #4\n"
                 "[1101] broker append #7 queue orders\n"
                 "[1101] broker append #8 scheduled 1\n"
                 "[1102] broker append #9 leased 1\n"
                 "[1111] broker durable #8\n"
                 "[1112] shop < scheduled, task 1 #4\n"
                 "[1121] broker durable #9\n"
                 "[1122] worker gets task 1, delivery 1\n");
}

/* ---- TIME-2 */

static void a_delay_runs_on_while_the_broker_is_down(void **state) { /* TIME-2, F-10 */
    struct fx *f = *state;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 100);
    host_kill(f->world, HOST_KILLED);
    SIM_ELAPSE(f, 300);
    assert_true(host_start(f->world, false));
    subscribe(f->worker, "orders");
    SIM_SKIP(f);
    SIM_ELAPSE(f, 99);
    SIM_TRACE(f, "[1401] broker append #9 session\n"
                 "[1410] broker durable #8\n"
                 "[1420] broker durable #9\n"
                 "[1421] worker < a lane\n"
                 "[1422] broker lane of worker is up\n"
                 "[1451] broker append #11 leased 1\n"
                 "[1461] broker durable #11\n");
    SIM_ELAPSE(f, 30);
    SIM_TRACE(f, "[1502] worker gets task 1, delivery 1\n");
}

static void a_clock_set_back_while_it_is_down_shortens_no_delay(void **state) { /* TIME-2, F-32 */
    struct fx *f = *state;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 100);
    host_kill(f->world, HOST_POWER_LOST);
    world_jump_wall(f->world, -10 * 365 * DAY_MS);
    SIM_ELAPSE(f, 300);
    assert_true(host_start(f->world, false));
    subscribe(f->worker, "orders");
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    /* After a boot of the machine, the broker cannot know how long ago the last frame was written. */
    SIM_ELAPSE(f, 500);
    SIM_TRACE(f, "[1820] broker append #11 leased 1\n"
                 "[1830] broker durable #11\n"
                 "[1871] worker gets task 1, delivery 1\n");
}

static void within_a_boot_a_delay_is_what_it_is_whatever_the_clock_says_meanwhile(void **state) { /* TIME-2, F-32 */
    struct fx *f = *state;
    client_schedule(f->shop, .key = "order-1", .delay_ms = 500);
    SIM_ELAPSE(f, 100);
    host_kill(f->world, HOST_KILLED);
    world_jump_wall(f->world, -10 * 365 * DAY_MS);
    SIM_ELAPSE(f, 300);
    assert_true(host_start(f->world, false));
    subscribe(f->worker, "orders");
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    SIM_ELAPSE(f, 500); /* within one boot, BOOTTIME shows how long the broker was down */
    SIM_TRACE(f, "[1502] worker gets task 1, delivery 1\n");
}

static void a_start_a_year_later_is_not_believed_until_somebody_says_so(void **state) { /* TIME-2, F-32 */
    struct fx *f = *state;
    client_schedule(f->shop, .key = "absolute", .at_ms = wall_ms(f) + 2 * HOUR_MS);
    client_schedule(f->shop, .key = "delay", .delay_ms = 2 * HOUR_MS);
    SIM_ELAPSE(f, 100);
    host_stop(f->world);
    world_jump_wall(f->world, 365 * DAY_MS);
    assert_true(host_start(f->world, false));
    subscribe(f->worker, "orders");
    SIM_SKIP(f);
    SIM_ELAPSE(f, 2 * HOUR_MS + 10000);
    /* The jump makes no task due: the task with a delay is due after its two hours, and the task with an absolute time
     * still waits. */
    SIM_TRACE(f, "[1121] broker append #12 session\n"
                 "[1130] broker durable #11\n"
                 "[1140] broker durable #12\n"
                 "[1141] worker < a lane\n"
                 "[1142] broker lane of worker is up\n"
                 "[7200951] broker append #14 leased 2\n"
                 "[7200961] broker durable #14\n"
                 "[7201002] worker gets task 2, delivery 1\n");
    host_stop(f->world);
    SIM_SKIP(f);
    assert_true(host_start(f->world, true));
    SIM_ELAPSE(f, 100);
    SIM_TRACE(f, "[7211140] broker starts, epoch 3\n"
                 "[7211140] broker append #18 epoch 3, clock accepted\n"
                 "[7211141] worker has lost its lane\n"
                 "[7211141] worker > subscribe, to go on\n"
                 "[7211142] broker append #19 session\n"
                 "[7211150] broker durable #18\n"
                 "[7211160] broker durable #19\n"
                 "[7211161] worker < a lane, its leases kept\n"
                 "[7211162] broker lane of worker is up\n"
                 "[7211162] broker append #20 leased 1\n"
                 "[7211163] worker gets task 2, delivery 1\n"
                 "[7211172] broker durable #20\n"
                 "[7211173] worker gets task 1, delivery 1\n");
}

/* ---- F-32: jumps within a run */

static void no_jump_moves_a_delay(void **state) { /* F-32, TIME-2 */
    struct fx *f = *state;
    static const int64_t jumps_ms[] = {1000, -1000, HOUR_MS, -HOUR_MS, 3650 * DAY_MS, -3650 * DAY_MS};
    subscribe(f->worker, "orders");
    SIM_ELAPSE(f, 50);
    SIM_SKIP(f);
    for (size_t i = 0; i < sizeof jumps_ms / sizeof *jumps_ms; i++) {
        client_schedule(f->shop, .delay_ms = 500);
        SIM_ELAPSE(f, 100);
        world_jump_wall(f->world, jumps_ms[i]);
        SIM_ELAPSE(f, 400);
        world_jump_wall(f->world, -jumps_ms[i]);
        SIM_ELAPSE(f, 100);
    }
    SIM_TRACE(f, "[1050] shop > schedule orders in 500 ms #4\n"
                 "[1051] broker append #7 queue orders\n"
                 "[1051] broker append #8 scheduled 1\n"
                 "[1061] broker durable #8\n"
                 "[1062] shop < scheduled, task 1 #4\n"
                 "[1150] clock +1000 ms\n"
                 "[1501] broker append #10 leased 1\n"
                 "[1511] broker durable #10\n"
                 "[1550] clock -1000 ms\n"
                 "[1552] worker gets task 1, delivery 1\n"
                 "[1650] shop > schedule orders in 500 ms #5\n"
                 "[1651] broker append #12 scheduled 2\n"
                 "[1661] broker durable #12\n"
                 "[1662] shop < scheduled, task 2 #5\n"
                 "[1750] clock -1000 ms\n"
                 "[2101] broker append #14 leased 2\n"
                 "[2111] broker durable #14\n"
                 "[2150] clock +1000 ms\n"
                 "[2152] worker gets task 2, delivery 1\n"
                 "[2250] shop > schedule orders in 500 ms #6\n"
                 "[2251] broker append #16 scheduled 3\n"
                 "[2261] broker durable #16\n"
                 "[2262] shop < scheduled, task 3 #6\n"
                 "[2350] clock +3600000 ms\n"
                 "[2701] broker append #18 leased 3\n"
                 "[2711] broker durable #18\n"
                 "[2750] clock -3600000 ms\n"
                 "[2752] worker gets task 3, delivery 1\n"
                 "[2850] shop > schedule orders in 500 ms #7\n"
                 "[2851] broker append #20 scheduled 4\n"
                 "[2861] broker durable #20\n"
                 "[2862] shop < scheduled, task 4 #7\n"
                 "[2950] clock -3600000 ms\n"
                 "[3301] broker append #22 leased 4\n"
                 "[3311] broker durable #22\n"
                 "[3350] clock +3600000 ms\n"
                 "[3352] worker gets task 4, delivery 1\n"
                 "[3450] shop > schedule orders in 500 ms #8\n"
                 "[3451] broker append #24 scheduled 5\n"
                 "[3461] broker durable #24\n"
                 "[3462] shop < scheduled, task 5 #8\n"
                 "[3550] clock +315360000000 ms\n"
                 "[3901] broker append #26 leased 5\n"
                 "[3911] broker durable #26\n"
                 "[3950] clock -315360000000 ms\n"
                 "[3952] worker gets task 5, delivery 1\n"
                 "[4050] shop > schedule orders in 500 ms #9\n"
                 "[4051] broker append #28 scheduled 6\n"
                 "[4061] broker durable #28\n"
                 "[4062] shop < scheduled, task 6 #9\n"
                 "[4150] clock -315360000000 ms\n"
                 "[4501] broker append #30 leased 6\n"
                 "[4511] broker durable #30\n"
                 "[4550] clock +315360000000 ms\n"
                 "[4552] worker gets task 6, delivery 1\n");
}

static void an_absolute_time_waits_while_the_clock_is_behind(void **state) { /* F-32, TIME-2 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .at_ms = wall_ms(f) + 500);
    SIM_ELAPSE(f, 100);
    world_jump_wall(f->world, -1000);
    SIM_SKIP(f);
    SIM_ELAPSE(f, 1399);
    SIM_QUIET(f);
    SIM_ELAPSE(f, 30);
    SIM_TRACE(f, "[2500] broker append #9 leased 1\n"
                 "[2510] broker durable #9\n"
                 "[2511] worker gets task 1, delivery 1\n");
}

static void an_absolute_time_does_not_believe_a_jump_of_ten_years(void **state) { /* F-32, TIME-2 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "order-1", .at_ms = wall_ms(f) + 2 * HOUR_MS);
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    world_jump_wall(f->world, 3650 * DAY_MS);
    SIM_ELAPSE(f, 3 * HOUR_MS);
    SIM_TRACE(f, "[1100] clock +315360000000 ms\n");
    world_jump_wall(f->world, -3650 * DAY_MS);
    SIM_ELAPSE(f, 4000); /* waits until the broker reads its clocks again */
    SIM_TRACE(f, "[10801100] clock -315360000000 ms\n"
                 "[10804346] broker append #9 leased 1\n"
                 "[10804356] broker durable #9\n"
                 "[10804357] worker gets task 1, delivery 1\n");
}

/* ---- F-33, F-34, F-35 */

static void a_smear_moves_no_delay(void **state) { /* F-33 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "delay", .delay_ms = 1000);
    client_schedule(f->shop, .key = "absolute", .at_ms = wall_ms(f) + 1100);
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    for (int i = 0; i < 5; i++) { /* the wall clock loses 1 ms in each 100 ms */
        world_jump_wall(f->world, -1);
        SIM_ELAPSE(f, 100);
    }
    SIM_ELAPSE(f, 550);
    /* The delay is exact to the millisecond. The absolute time follows the wall clock, which is set back in steps of 1
     * ms. */
    SIM_TRACE(f, "[1100] clock -1 ms\n"
                 "[1200] clock -1 ms\n"
                 "[1300] clock -1 ms\n"
                 "[1400] clock -1 ms\n"
                 "[1500] clock -1 ms\n"
                 "[1951] broker append #10 leased 1\n"
                 "[1961] broker durable #10\n"
                 "[2002] worker gets task 1, delivery 1\n"
                 "[2105] broker append #12 leased 2\n"
                 "[2115] broker durable #12\n"
                 "[2116] worker gets task 2, delivery 1\n");
}

static void a_suspend_is_no_jump_and_what_fell_due_comes_at_waking(void **state) { /* F-34 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "delay", .delay_ms = HOUR_MS);
    client_schedule(f->shop, .key = "absolute", .at_ms = wall_ms(f) + HOUR_MS);
    client_schedule(f->shop, .key = "later", .delay_ms = 3 * HOUR_MS);
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    world_suspend(f->world, 2 * HOUR_MS);
    SIM_ELAPSE(f, 1000);
    SIM_TRACE(f, "[1100] clock the machine sleeps for 7200000 ms\n"
                 "[7201350] broker append #11 leased 2, leased 1\n"
                 "[7201360] broker durable #11\n"
                 "[7201361] worker gets task 2, delivery 1\n"
                 "[7201361] worker gets task 1, delivery 1\n");
}

static void a_leap_second_makes_an_absolute_time_a_second_later(void **state) { /* F-35 */
    struct fx *f = *state;
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "delay", .delay_ms = 1500);
    client_schedule(f->shop, .key = "absolute", .at_ms = wall_ms(f) + 1500);
    SIM_ELAPSE(f, 1000);
    SIM_SKIP(f);
    world_jump_wall(f->world, -1000); /* the leap second: the last second of the day occurs twice */
    SIM_ELAPSE(f, 2000);
    SIM_TRACE(f, "[2000] clock -1000 ms\n"
                 "[2451] broker append #10 leased 1\n"
                 "[2461] broker durable #10\n"
                 "[2502] worker gets task 1, delivery 1\n"
                 "[3500] broker append #12 leased 2\n"
                 "[3510] broker durable #12\n"
                 "[3511] worker gets task 2, delivery 1\n");
}

static void the_year_2038_is_a_year_like_others(void **state) { /* F-35 */
    struct fx *f = *state;
    host_kill(f->world, HOST_KILLED);
    int64_t border_ms = (INT64_C(1) << 31) * 1000;
    world_jump_wall(f->world, border_ms - 1000 - (int64_t)wall_ms(f));
    assert_true(host_start(f->world, true)); /* starts with an operator's word that the clock is right */
    subscribe(f->worker, "orders");
    client_schedule(f->shop, .key = "delay", .delay_ms = 1500);
    client_schedule(f->shop, .key = "absolute", .at_ms = (uint64_t)border_ms + 1);
    SIM_ELAPSE(f, 100);
    SIM_SKIP(f);
    SIM_ELAPSE(f, 2000);
    SIM_TRACE(f, "[2001] broker append #11 leased 2\n"
                 "[2011] broker durable #11\n"
                 "[2012] worker gets task 2, delivery 1\n"
                 "[2451] broker append #13 leased 1\n"
                 "[2461] broker durable #13\n"
                 "[2502] worker gets task 1, delivery 1\n");
}

/* ---- F-36 */

static void every_border_of_the_wheel_is_met_to_the_millisecond(void **state) { /* F-36, TIME-1 */
    struct fx *f = *state;
    static const uint64_t borders_ms[] = {64, 4096, 262144, 16777216};
    struct world_options options = story_options();
    options.sync.least_us = options.net.least_us = 100; /* each delivery has left before the next one is due */
    options.core.policy.lease_ms = 24 * HOUR_MS;
    story_begin_again(f, &options);
    client_subscribe(f->worker, (const char *const[]){"orders", NULL}, 20, 0);
    SIM_ELAPSE(f, 23);
    for (size_t i = 0; i < sizeof borders_ms / sizeof *borders_ms; i++) {
        for (uint64_t delay_ms = borders_ms[i] - 1; delay_ms <= borders_ms[i] + 1; delay_ms++) {
            client_schedule(f->shop, .delay_ms = delay_ms);
        }
    }
    SIM_ELAPSE(f, 1);
    SIM_SKIP(f); /* all tasks are scheduled at [1023] */
    SIM_ELAPSE(f, 20000000);
    SIM_TRACE(f, "[1037] broker append #20 leased 1\n"
                 "[1037] broker durable #20\n"
                 "[1038] broker append #21 leased 2\n"
                 "[1038] broker durable #21\n"
                 "[1039] broker append #22 leased 3\n"
                 "[1039] broker durable #22\n"
                 "[1087] worker gets task 1, delivery 1\n"
                 "[1088] worker gets task 2, delivery 1\n"
                 "[1089] worker gets task 3, delivery 1\n"
                 "[5069] broker append #24 leased 4\n"
                 "[5069] broker durable #24\n"
                 "[5070] broker append #25 leased 5\n"
                 "[5070] broker durable #25\n"
                 "[5071] broker append #26 leased 6\n"
                 "[5071] broker durable #26\n"
                 "[5119] worker gets task 4, delivery 1\n"
                 "[5120] worker gets task 5, delivery 1\n"
                 "[5121] worker gets task 6, delivery 1\n"
                 "[263117] broker append #28 leased 7\n"
                 "[263117] broker durable #28\n"
                 "[263118] broker append #29 leased 8\n"
                 "[263118] broker durable #29\n"
                 "[263119] broker append #30 leased 9\n"
                 "[263119] broker durable #30\n"
                 "[263167] worker gets task 7, delivery 1\n"
                 "[263168] worker gets task 8, delivery 1\n"
                 "[263169] worker gets task 9, delivery 1\n"
                 "[16778189] broker append #32 leased 10\n"
                 "[16778189] broker durable #32\n"
                 "[16778190] broker append #33 leased 11\n"
                 "[16778190] broker durable #33\n"
                 "[16778191] broker append #34 leased 12\n"
                 "[16778191] broker durable #34\n"
                 "[16778239] worker gets task 10, delivery 1\n"
                 "[16778240] worker gets task 11, delivery 1\n"
                 "[16778241] worker gets task 12, delivery 1\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STORY(a_task_departs_in_the_millisecond_it_is_due_and_not_before),
        STORY(what_is_received_within_a_millisecond_is_due_at_the_next),
        STORY(without_a_delay_it_is_due_at_its_receipt),
        STORY(a_millisecond_is_a_millisecond),
        STORY(a_delay_runs_on_while_the_broker_is_down),
        STORY(a_clock_set_back_while_it_is_down_shortens_no_delay),
        STORY(within_a_boot_a_delay_is_what_it_is_whatever_the_clock_says_meanwhile),
        STORY(a_start_a_year_later_is_not_believed_until_somebody_says_so),
        STORY(no_jump_moves_a_delay),
        STORY(an_absolute_time_waits_while_the_clock_is_behind),
        STORY(an_absolute_time_does_not_believe_a_jump_of_ten_years),
        STORY(a_smear_moves_no_delay),
        STORY(a_suspend_is_no_jump_and_what_fell_due_comes_at_waking),
        STORY(a_leap_second_makes_an_absolute_time_a_second_later),
        STORY(the_year_2038_is_a_year_like_others),
        STORY(every_border_of_the_wheel_is_met_to_the_millisecond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
