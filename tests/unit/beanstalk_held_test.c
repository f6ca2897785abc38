/* beanstalk_held_test.c: when a reserved job times out (broker/beanstalk/beanstalk_held.c), with a simulated gateway
 * and clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "beanstalk_parts.h"
#include "waited.h"

#define TTR_S 5u
#define TTR_MS (TTR_S * 1000u)
#define LEFT_MIN_MS (BEANSTALK_LEASE_MS / 2) /* ms; the lease is extended when less than this remains of it */

static struct {
    uint64_t now_ms;
    /* `timers`: number of timers started so far; `timer`: number of the running timer; 0: it was cancelled or has
     * fired. */
    uint64_t timers, timer;
    uint64_t after_ms;
    gateway_timeout *timeout;
    void *argument;
    unsigned released, extended;
} desk;

uint64_t beanstalk_now_ms(void) {
    return desk.now_ms;
}

struct gateway_caller connection_caller(const struct beanstalk_connection *connection) {
    return (struct gateway_caller){.principal = 1};
}

uint64_t gateway_timer(struct gateway *gateway, uint64_t after_ms, gateway_timeout *timeout, void *argument) {
    assert_int_equal(desk.timer, 0); /* only one timer runs at a time */
    desk.after_ms = after_ms;
    desk.timeout = timeout;
    desk.argument = argument;
    return desk.timer = ++desk.timers;
}

void gateway_timer_cancel(struct gateway *gateway, uint64_t timer) {
    assert_int_equal(desk.timer, timer);
    desk.timer = 0;
}

uint64_t gateway_commit(struct gateway *gateway, const struct gateway_caller *caller, Tarry__Commit *commit,
                        const struct gateway_once *once, gateway_reply *reply, void *argument) {
    for (size_t i = 0; i < commit->n_ops; i++) {
        desk.released += commit->ops[i]->op_case == TARRY__OP__OP_RELEASE;
        desk.extended += commit->ops[i]->op_case == TARRY__OP__OP_EXTEND;
    }
    return 1;
}

void gateway_left(struct gateway *gateway, uint64_t handle, bool left) {}

/* Fires the timer `late_ms` late. */
static void fire(uint64_t late_ms) {
    assert_true(desk.timer != 0);
    desk.timer = 0;
    desk.now_ms += desk.after_ms + late_ms;
    desk.timeout(desk.argument);
}

static struct beanstalk server;
static struct beanstalk_connection connection;

static struct beanstalk_reserved *reserve(void) {
    struct beanstalk_reserved *reserved = calloc(1, sizeof(*reserved));
    assert_non_null(reserved);
    reserved->id = 7;
    reserved->job.ttr_s = TTR_S;
    held_add(&connection, reserved);
    return reserved;
}

static int begin(void **state) {
    memset(&desk, 0, sizeof(desk));
    desk.now_ms = 1000000;
    server = (struct beanstalk){0};
    beanstalk_notes_init(&server.notes);
    connection = (struct beanstalk_connection){.server = &server};
    TAILQ_INIT(&connection.reserved);
    return 0;
}

static int end(void **state) {
    beanstalk_notes_free(&server.notes);
    return 0;
}

static void a_job_whose_time_is_over_is_given_back(void **state) {
    reserve();
    assert_int_equal(desk.after_ms, TTR_MS);
    fire(STOOD_STILL_MS);
    assert_int_equal(desk.released, 1);
    assert_int_equal(server.timeouts, 1);
    assert_int_equal(connection.reserved_count, 0);
    assert_int_equal(desk.timer, 0);
}

/* The lease is extended at once, because the core does not know of messages that are still in sockets. */
static void what_workers_said_while_the_broker_stood_still_is_read_first(void **state) { /* F-13 */
    held_drop(&connection, reserve());
    struct beanstalk_reserved *reserved = reserve();
    fire(60000);
    assert_int_equal(desk.released, 0);
    assert_int_equal(desk.extended, 1);
    assert_int_equal(desk.after_ms, STOOD_STILL_SETTLE_MS);
    desk.now_ms += STOOD_STILL_SETTLE_MS / 2;
    held_touch(&connection, reserved); /* the touch was in the socket while the broker was stopped */
    assert_int_equal(desk.after_ms, LEFT_MIN_MS - STOOD_STILL_SETTLE_MS / 2);
    fire(0);
    assert_int_equal(desk.extended, 2);
    fire(0);
    assert_int_equal(desk.released, 1);
}

static void who_has_said_nothing_has_no_more_than_that(void **state) { /* F-13 */
    reserve();
    fire(60000);
    reserve(); /* checks the first job's TTR too, and reserves a second job */
    assert_int_equal(desk.after_ms, STOOD_STILL_SETTLE_MS);
    fire(0);
    assert_int_equal(desk.released, 1);
    assert_int_equal(connection.reserved_count, 1);
    held_give_back(&connection);
    assert_int_equal(desk.released, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_job_whose_time_is_over_is_given_back, begin, end),
        cmocka_unit_test_setup_teardown(what_workers_said_while_the_broker_stood_still_is_read_first, begin, end),
        cmocka_unit_test_setup_teardown(who_has_said_nothing_has_no_more_than_that, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
