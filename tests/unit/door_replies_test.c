/* door_replies_test.c: the door's thread also renders replies for gateways inside the broker. It renders for at most
 * DOOR_ROUND_US, and then serves the other clients (broker/net/door.c). The test replaces the clock and the wait for
 * events, and its thread is the door's thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/epoll.h>

#include "../must.h"
#include "door.h"
#include "door_parts.h"

#define REPLIES 64u
/* The clock of this test makes each reply take a quarter of the time that a round may use. */
#define RENDER_US (DOOR_ROUND_US / 4)
#define PER_BATCH 4u

static struct {
    struct door *door;
    uint64_t now_us;
    int wait_ms;       /* timeout of the last wait for events */
    unsigned rendered; /* number of replies that the protocol has rendered */
    unsigned dropped;  /* number of replies for a connection that has ended */
} world;

uint64_t __wrap_deadlines_now_us(void);
uint64_t __wrap_deadlines_now_us(void) {
    return world.now_us;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int count, int wait_ms);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int count, int wait_ms) {
    world.wait_ms = wait_ms;
    return 0;
}

static void reply_to_protocol(uint64_t number) {
    struct message *reply = message_new(1);
    MUST(reply != NULL);
    reply->stamp = number;
    door_answer(world.door, DOOR_INSIDE | 1, reply);
}

static void inside(void *argument, uint64_t id, const struct message *reply, bool is_delivery) {
    assert_int_equal(reply->stamp, world.rendered); /* replies are rendered in the order in which they were queued */
    world.rendered++;
    world.now_us += RENDER_US;
}

static void lane_sent(void *argument, uint32_t lane, uint64_t turn, bool left, uint64_t stamp) {
    world.dropped++;
}

static void served(void *argument) {}

static int open_door(void **state) {
    static const struct door_stream_calls http;
    const struct door_calls calls = {.inside = inside, .lane_sent = lane_sent, .served = served};
    const struct door_limits limits = {
        .request_max = 1 << 20, .held_max = 1 << 20, .connections_max = 64, .origins = "", .http = &http};
    world.now_us = 1000000;
    world.door = door_new(&calls, &limits);
    if (world.door == NULL) return 1;
    door_serve_here(world.door, true);
    return 0;
}

static int begin(void **state) {
    world.rendered = world.dropped = 0;
    return 0;
}

/* CALM-1. Fails if a round renders all replies, or waits for events although replies are postponed. */
static void a_round_renders_replies_for_a_limited_time(void **state) {
    for (unsigned i = 0; i < REPLIES; i++) reply_to_protocol(i);
    unsigned before = 0;
    do {
        before = world.rendered;
        door_round(world.door);
        assert_in_range(
            world.rendered - before, 1,
            2 * PER_BATCH); /* at most two batches in a round: one before the callback `served`, and one after */
        if (before > 0) assert_int_equal(world.wait_ms, 0);
    } while (world.rendered < REPLIES);
    assert_true(before >= REPLIES - 2 * PER_BATCH);
    door_round(world.door);
    assert_int_equal(world.wait_ms, -1);
    assert_int_equal(door_held(world.door), 0);
}

/* A message that only has to be sent does not wait behind replies that have to be rendered. */
static void messages_for_connections_are_not_postponed(void **state) {
    for (unsigned i = 0; i < REPLIES; i++) reply_to_protocol(i);
    struct message *delivery = message_new(1);
    MUST(delivery != NULL);
    door_deliver(world.door, 1, delivery);
    door_carry_out(world.door);
    assert_int_equal(world.rendered, PER_BATCH);
    assert_int_equal(world.dropped, 1);
    while (world.rendered < REPLIES) door_round(world.door);
}

/* Postponed replies keep their place before replies that are queued later. */
static void postponed_replies_stay_in_order(void **state) {
    for (unsigned i = 0; i < REPLIES; i++) reply_to_protocol(i);
    door_carry_out(world.door);
    for (unsigned i = REPLIES; i < 2 * REPLIES; i++) reply_to_protocol(i);
    while (world.rendered < 2 * REPLIES) door_round(world.door); /* the callback `inside` checks the order */
    assert_false(door_carry_out(world.door));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_round_renders_replies_for_a_limited_time, begin),
        cmocka_unit_test_setup(messages_for_connections_are_not_postponed, begin),
        cmocka_unit_test_setup(postponed_replies_stay_in_order, begin),
    };
    return cmocka_run_group_tests(tests, open_door, NULL);
}
